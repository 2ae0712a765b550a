//! Legal holds: the operations that they forbid, until the last one is released.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_core::Result;
use svc_core::api::{ExportTexts, ExportWorkspace};
use svc_core::capability::Capability::WorkspaceRead;
use svc_core::id::{MessageId, WorkspaceId};
use svc_core::op::{Feature, Write, write};
use svc_tests::database::engines;
use svc_tests::process::until;
use svc_tests::search::Needle;
use svc_tests::{Setup, World, on_both_engines, text};

use crate::conversation::withdraw::{found, is_scrubbed};
use crate::portability::origin::{elsewhere, verify};

fn place(world: &World, reason: &str) -> Value {
    world.admin("place_legal_hold", json!({"workspace_id": world.id("workspace"), "reason": reason}))
}

fn release(world: &World, hold: &Value) -> Value {
    world.admin("release_legal_hold", json!({"workspace_id": world.id("workspace"), "hold_id": hold["id"]}))
}

#[test]
fn nothing_is_destroyed_until_the_last_hold_is_released() {
    on_both_engines(|world| {
        let message =
            world.agent("post_message", json!({"thread_id": world.id("thread"), "body": "evidence"}));
        let destroy = [
            ("delete_message", json!({"message_id": message["id"]})),
            ("purge_message", json!({"message_id": world.id("withdrawn_message")})),
        ];
        let holds = [place(world, "one"), place(world, "another")];
        for hold in &holds {
            for (operation, input) in &destroy {
                world.call(&world.people.admin, operation, input.clone()).refused(409, "legal-hold");
            }
            release(world, hold);
        }
        assert_eq!(world.admin("get_message", destroy[0].1.clone())["body"], "evidence");
        for (operation, input) in destroy {
            world.admin(operation, input);
        }
    });
}

#[test]
fn a_withdrawn_message_stays_so_under_a_hold_and_others_are_edited() {
    on_both_engines(|world| {
        place(world, "one");
        let withdrawn = json!({"message_id": world.id("withdrawn_message")});
        assert_eq!(world.admin("delete_message", withdrawn)["withdrawn"], true);
        let message = world.agent("post_message", json!({"thread_id": world.id("thread"), "body": "first"}));
        world.agent("edit_message", json!({"message_id": message["id"], "body": "second"}));
        let edits = world.agent("list_message_edits", json!({"message_id": message["id"]}));
        assert_eq!(edits["items"][0]["body"], "first", "an edit destroys nothing");
    });
}

#[test]
fn a_hold_is_listed_with_its_reason_which_no_event_has() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let before = world.lsn();
        let hold = place(world, "the matter of the lost result");
        let released = release(world, &hold);
        assert_eq!(released["released_by"], json!(world.id("admin")));
        assert_eq!(release(world, &hold), released, "releasing it again changes nothing");
        assert_eq!(world.kinds_after(before), ["LegalHoldPlaced", "LegalHoldReleased"]);
        let listed = world.admin("list_legal_holds", json!({"workspace_id": workspace}));
        assert_eq!(listed["items"].as_array().unwrap().last(), Some(&released));
        let events = world.admin("list_events", json!({"workspace_id": workspace, "after_id": before}));
        assert!(!events.to_string().contains("lost result"));
        let audit = world.admin("list_audit", json!({"workspace_id": workspace, "limit": 5}));
        let actions: Vec<String> =
            audit["items"].as_array().unwrap().iter().map(|row| text(&row["action"])).collect();
        for action in ["legal_hold.place", "legal_hold.release"] {
            assert!(actions.iter().any(|found| found == action), "{actions:?}");
        }
        assert!(!audit.to_string().contains("lost result"));
    });
}

#[test]
fn a_hold_of_another_workspace_holds_nothing_here_and_is_not_found() {
    on_both_engines(|world| {
        let hold = place(world, "here");
        let theirs = world.call(&world.people.outsider, "whoami", json!({})).output()["workspace_id"].clone();
        let other = json!({"workspace_id": theirs, "hold_id": hold["id"]});
        world.call(&world.people.outsider, "release_legal_hold", other).refused(404, "not-found");
        let input = json!({"workspace_id": world.id("workspace"), "hold_id": hold["id"]});
        world.call(&world.people.outsider, "release_legal_hold", input).refused(404, "not-found");
    });
}

/// Rewrites the note at a message, which has no history.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RewriteNote {
    /// The message.
    message_id: MessageId,
    /// The number of the text.
    version: i64,
    /// The previous text.
    old: String,
}

svc_core::without_requests! { RewriteNote }

svc_tests::keeps_nothing!(RewriteNote => Value);

fn rewrite_note(cx: &mut Write<'_>, input: &RewriteNote) -> Result<Value> {
    cx.keep_replaced("notes", input.message_id.uuid(), input.version, &input.old)?;
    Ok(json!({}))
}

fn notes() -> Vec<Feature> {
    let operation = write("rewrite_note", rewrite_note)
        .title("Rewrite a note")
        .post("/messages/{message_id}/note")
        .needs(&[WorkspaceRead])
        .example(|w| json!({"message_id": w.id("message"), "version": 1, "old": "as it was"}));
    vec![Feature::new().operations("notes", vec![operation])]
}

fn with_notes(engine: svc_core::Engine, seed: u64) -> World {
    World::with(engine, Setup { features: notes, seed, ..Setup::default() })
}

fn rewrite(world: &World, version: i64, old: &str) {
    world.agent("rewrite_note", json!({"message_id": world.id("message"), "version": version, "old": old}));
}

/// Returns the texts that are kept, in their order.
fn kept(world: &World) -> Vec<String> {
    let rows = world.database.rows("select kind, version, text from held_texts order by version");
    rows.iter().map(|row| format!("{} {} {}", text(&row[0]), row[1], text(&row[2]))).collect()
}

#[test]
fn a_text_that_is_replaced_is_kept_until_the_last_hold_is_released() {
    for engine in engines() {
        let world = with_notes(engine, 53);
        let words = [Needle::new("the words", "coyolxauhqui-of-the-replaced")];
        rewrite(&world, 1, "kept nowhere");
        let holds = [place(&world, "one"), place(&world, "another")];
        rewrite(&world, 2, "coyolxauhqui-of-the-replaced");
        let copies: Vec<Value> = (3..1200)
            .map(|version| json!({"message_id": world.id("message"), "version": version, "old": "many"}))
            .collect();
        copies.into_iter().for_each(|input| drop(world.agent("rewrite_note", input)));
        let all = kept(&world);
        assert_eq!((all.len(), &*all[0]), (1198, "notes 2 coyolxauhqui-of-the-replaced"));
        release(&world, &holds[0]);
        world.pass(Duration::from_secs(60));
        assert_eq!(kept(&world), all, "there is another hold");
        assert!(!found(&world.database, &words).is_empty(), "the search finds words in the clear");
        // A purge treats it as content, too, unless there is a hold.
        let purge = json!({"workspace_id": world.id("workspace"), "confirm": "Night shift"});
        world.call(&world.people.admin, "purge_workspace", purge).refused(409, "legal-hold");
        release(&world, &holds[1]);
        world.pass(Duration::from_secs(60));
        assert_eq!(kept(&world), Vec::<String>::new());
        until("the scrub", || {
            world.service.housekeep().unwrap();
            is_scrubbed(&world.database)
        });
        assert_eq!(found(&world.database, &words), []);
        verify(&world);
    }
}

#[test]
fn what_a_hold_keeps_is_purged_with_all_other_words_once_it_is_released() {
    for engine in engines() {
        let world = with_notes(engine, 54);
        let hold = place(&world, "one");
        rewrite(&world, 1, "as it was");
        release(&world, &hold);
        let purge = json!({"workspace_id": world.id("workspace"), "confirm": "Night shift"});
        assert_eq!(world.admin("purge_workspace", purge)["removed"]["held_texts"], 1);
        assert_eq!(kept(&world), Vec::<String>::new());
    }
}

#[test]
fn what_a_hold_keeps_is_restored_with_the_hold_and_is_no_part_of_evidence_or_a_copy() {
    for engine in engines() {
        let world = with_notes(engine, 55);
        let made = world.admin("create_workspace", json!({"name": "Moving", "admin_handle": "ada"}));
        let workspace: WorkspaceId = text(&made["workspace"]["id"]).parse().unwrap();
        let token = text(&made["token"]["secret"]);
        let call = |operation: &str, input: Value| world.call(&token, operation, input).output();
        let channel = call("create_channel", json!({"workspace_id": workspace, "name": "general"}));
        let thread = call("create_thread", json!({"channel_id": channel["id"], "title": "a task"}));
        let message = call("post_message", json!({"thread_id": thread["id"], "body": "a word"}));
        call("place_legal_hold", json!({"workspace_id": workspace, "reason": "one"}));
        call("rewrite_note", json!({"message_id": message["id"], "version": 1, "old": "as it was"}));
        let export = |words| {
            let input = ExportWorkspace::new().workspace_id(workspace).words(words);
            let content = world.service.call_as_instance(workspace, &input).unwrap();
            serde_json::from_slice::<Value>(&content.read().unwrap()).unwrap()
        };
        let is_in = |file: &Value| file.to_string().contains("as it was");
        let whole = export(ExportTexts::All);
        assert!(is_in(&whole) && !is_in(&export(ExportTexts::None)));
        for (mode, texts) in [("restore", 1), ("new", 0)] {
            let other = elsewhere(engine);
            let input = json!({"mode": mode, "envelope": whole, "admin_handle": "ada"});
            let imported = other.admin("import_workspace", input);
            assert_eq!(kept(&other).len(), texts, "{mode}");
            verify(&other);
            let administers = text(&imported["admin_token"]["secret"]);
            let erase = json!({"workspace_id": imported["workspace_id"], "confirm": "Moving"});
            let answer = other.call(&administers, "erase_workspace", erase);
            match mode {
                "restore" => drop(answer.refused(409, "legal-hold")),
                _ => drop(answer.output()),
            }
        }
    }
}
