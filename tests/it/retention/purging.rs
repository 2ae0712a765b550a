//! Purging a workspace destroys all content, and keeps the record.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::id::WorkspaceId;
use svc_tests::client::Answer;
use svc_tests::process::until;
use svc_tests::search::Needle;
use svc_tests::{World, in_parallel, on_both_engines, text};

use crate::conversation::withdraw::{found, is_scrubbed};
use crate::portability::origin::{export, verify};

/// Text that occurs nowhere else, including the databases of other tests on the same server.
const WORD: &str = "tezcatlipoca-of-the-purged";
const OTHER: &str = "words that are purged in steps";

fn purge(world: &World, confirm: &str) -> Answer {
    let input = json!({"workspace_id": world.id("workspace"), "confirm": confirm});
    world.call(&world.people.admin, "purge_workspace", input)
}

fn workspace(world: &World) -> WorkspaceId {
    world.id("workspace").into()
}

/// The content in the workspace, by kind.
struct ContentByKind {
    message: Value,
    done: Value,
    begun: Value,
    block: Value,
}

fn say(world: &World, words: &str) -> ContentByKind {
    let channel = world.id("channel");
    let message = world.agent("post_message", json!({"thread_id": world.id("thread"), "body": words}));
    world.agent("edit_message", json!({"message_id": message["id"], "body": format!("{words} again")}));
    let thread = |title: &str| {
        let thread = world.agent("create_thread", json!({"channel_id": channel, "title": title}));
        let claim = world.agent("claim_thread", json!({"thread_id": thread["id"]}));
        (thread["id"].clone(), claim["claim_lease_id"].clone())
    };
    let (done, lease) = thread("done");
    let result = json!({"thread_id": done, "claim_lease_id": lease, "result": {"words": words}});
    world.agent("set_thread_result", result);
    let (begun, lease) = thread("begun");
    let checkpoint = json!({"thread_id": begun, "claim_lease_id": lease, "checkpoint": {"words": words}});
    world.agent("renew_claim", checkpoint);
    let workspace = world.id("workspace");
    world.agent("set_channel_boot", json!({"channel_id": channel, "text": words}));
    let term = json!({"workspace_id": workspace, "term": "said", "definition": words});
    world.agent("set_glossary_term", term);
    let block = json!({"workspace_id": workspace, "label": "said", "description": words, "value": words});
    let block = world.agent("create_memory_block", block);
    ContentByKind { message, done, begun, block }
}

#[test]
fn every_word_goes_and_the_record_stays() {
    on_both_engines(|world| {
        let said = say(world, WORD);
        let words = [Needle::new("the words", WORD)];
        assert!(!found(&world.database, &words).is_empty(), "the search finds words in the clear");
        purge(world, "Night").refused(400, "malformed-request");
        let context = world.admin("get_thread_context", json!({"thread_id": said.begun}));
        assert!(context["checkpoint"].is_object(), "{context}");
        let before = export(world, workspace(world));
        let purged = purge(world, "Night shift").output();
        assert_eq!(purged["up_to_lsn"], before["header"]["head"]["lsn"]);
        for table in ["messages", "results", "claim_checkpoints", "boots", "glossary", "memory_blocks"] {
            assert!(purged["removed"][table].as_i64().unwrap() > 0, "{table}: {purged}");
        }
        let get = |operation: &str, input: Value| world.call(&world.people.admin, operation, input);
        get("get_message", json!({"message_id": said.message["id"]})).refused(404, "not-found");
        let result = get("get_thread_result", json!({"thread_id": said.done})).output();
        assert_eq!((&result["result"], &result["purged"]), (&json!(null), &json!(true)));
        let thread = get("get_thread", json!({"thread_id": said.done})).output();
        assert_eq!((&thread["result"], &thread["has_result"]), (&json!(null), &json!(true)));
        assert_eq!(thread["title"], "done");
        let begun = get("get_thread_context", json!({"thread_id": said.begun})).output();
        assert_eq!(begun["checkpoint"], json!(null));
        assert_eq!(world.database.number("select count(*) from claim_checkpoints"), 0);
        assert_eq!(world.database.number("select count(*) from glossary"), 0);
        let boot = get("get_channel_boot", json!({"channel_id": world.id("channel")})).output();
        assert_eq!((&boot["text"], &boot["version"]), (&json!(""), &json!(2)));
        let block = json!({"workspace_id": workspace(world), "block_id": said.block["id"]});
        let block = get("get_memory_block", block).output();
        assert_eq!((&block["value"], &block["description"]), (&json!(""), &json!(null)));
        assert_eq!((&block["label"], &block["version"]), (&json!("said"), &json!(2)));
        // The log is unchanged, and records the purge.
        verify(world);
        let after = export(world, workspace(world));
        let events = |file: &Value| -> Vec<Value> {
            let records = file["records"].as_array().unwrap().iter();
            records.filter(|record| record["record"] == "events").cloned().collect()
        };
        let old = events(&before);
        let new = events(&after);
        assert_eq!(new[..old.len()], old);
        let added: Vec<Value> = new[old.len()..]
            .iter()
            .map(|event| serde_json::from_str(event["payload"].as_str().unwrap()).unwrap())
            .collect();
        let kinds: Vec<&str> = added.iter().map(|event| event["$chain"]["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["MessagesPruned", "VoteClosed", "WorkspacePurged"]);
        assert_eq!((&added[0]["reason"], &added[2]["removed"]), (&json!("purge"), &purged["removed"]));
        assert!(!after.to_string().contains("content_key") && !after.to_string().contains(WORD));
        let audited = json!({"workspace_id": workspace(world), "action": "workspace.purge", "limit": 9});
        let audited = world.admin("list_audit", audited);
        assert_eq!(audited["items"].as_array().unwrap().len(), 1, "{audited}");
        assert_eq!(audited["items"][0]["metadata"]["requested_by"], audited["items"][0]["actor_id"]);
        // New content stays, and a purge of nothing is valid, too.
        let again = say(world, WORD);
        world.pass(Duration::from_secs(60));
        assert_eq!(get("get_message", json!({"message_id": again.message["id"]})).status, 200);
        let second = purge(world, "Night shift").output();
        assert_eq!(second["removed"]["messages"], json!(1));
        purge(world, "Night shift").output();
        until("the scrub", || {
            world.service.housekeep().unwrap();
            is_scrubbed(&world.database)
        });
        assert_eq!(found(&world.database, &words), []);
        verify(world);
    });
}

/// Returns statements that make purging results fail, and then succeed again.
fn failing(engine: Engine) -> [&'static str; 2] {
    match engine {
        Engine::Sqlite => [
            "create trigger unpurged before update on results begin select raise(abort, 'not now'); end",
            "drop trigger unpurged",
        ],
        Engine::Postgres => [
            "create function unpurged() returns trigger language plpgsql as
             $$ begin raise exception 'not now'; end $$;
             create trigger unpurged before update on results for each row execute function unpurged()",
            "drop trigger unpurged on results; drop function unpurged",
        ],
    }
}

#[test]
fn a_purge_that_was_cut_off_goes_on_and_stops_for_a_hold() {
    on_both_engines(|world| {
        let said = say(world, OTHER);
        let result = || world.admin("get_thread_result", json!({"thread_id": said.done}))["purged"].clone();
        let hold = || {
            let placed = json!({"workspace_id": world.id("workspace"), "reason": "a case"});
            text(&world.admin("place_legal_hold", placed)["id"])
        };
        let release = |hold: &str| {
            let held = json!({"workspace_id": world.id("workspace"), "hold_id": hold});
            world.admin("release_legal_hold", held);
        };
        let first = hold();
        purge(world, "Night shift").refused(409, "legal-hold");
        assert_eq!(
            world.admin("get_message", json!({"message_id": said.message["id"]}))["body"],
            json!(format!("{OTHER} again"))
        );
        release(&first);
        let [fail, let_go] = failing(world.engine());
        world.database.execute(fail);
        let up_to = world.lsn();
        assert_eq!(purge(world, "Night shift").status, 500);
        let gone = world.call(&world.people.admin, "get_message", json!({"message_id": said.message["id"]}));
        gone.refused(404, "not-found");
        let later = world.agent("post_message", json!({"thread_id": world.id("thread"), "body": "later"}));
        let second = hold();
        world.database.execute(let_go);
        world.pass(Duration::from_secs(60));
        assert_eq!(result(), json!(false), "nothing is removed under a hold");
        purge(world, "Night shift").refused(409, "legal-hold");
        release(&second);
        // A second call joins the purge in progress.
        let joined = purge(world, "Night shift").output();
        assert_eq!((&joined["up_to_lsn"], result()), (&json!(up_to), json!(true)));
        assert_eq!(world.admin("get_message", json!({"message_id": later["id"]}))["body"], "later");
        // It also continues without a call.
        let said = say(world, OTHER);
        let result = || world.admin("get_thread_result", json!({"thread_id": said.done}))["purged"].clone();
        world.database.execute(fail);
        assert_eq!(purge(world, "Night shift").status, 500);
        world.database.execute(let_go);
        assert_eq!(result(), json!(false));
        world.pass(Duration::from_secs(60));
        assert_eq!(result(), json!(true));
        verify(world);
    });
}

/// Returns statements that make the creation of a channel called `doomed` fail, with everything in its
/// commit.
fn dooming(engine: Engine) -> [&'static str; 2] {
    match engine {
        Engine::Sqlite => [
            "create trigger doomed before insert on channels when new.name = 'doomed'
             begin select raise(rollback, 'not ever'); end",
            "drop trigger doomed",
        ],
        Engine::Postgres => [
            "create or replace function doomed() returns trigger language plpgsql as
             $$ begin raise exception 'not ever'; end $$;
             create or replace trigger doomed before insert on channels for each row
             when (new.name = 'doomed') execute function doomed()",
            "drop trigger doomed on channels; drop function doomed",
        ],
    }
}

/// A purge is repeated whenever another part of its transaction fails.
#[test]
fn a_purge_that_is_done_again_is_that_of_its_call() {
    const DOOMED: usize = 3;
    on_both_engines(|world| {
        let [doom, let_go] = dooming(world.engine());
        world.database.execute(doom);
        let is_over = AtomicBool::new(false);
        let purged = in_parallel(DOOMED + 1, |number| {
            if number < DOOMED {
                while !is_over.load(Ordering::Relaxed) {
                    let channel = json!({"workspace_id": world.id("workspace"), "name": "doomed"});
                    world.call(&world.people.admin, "create_channel", channel);
                }
                return Vec::new();
            }
            let each = |_| {
                let said = json!({"thread_id": world.id("thread"), "body": "gone soon"});
                let said = world.call(&world.people.agent, "post_message", said);
                let answers = [purge(world, "Night"), purge(world, "Night shift")];
                let read = json!({"message_id": said.body["id"]});
                (answers, world.call(&world.people.admin, "get_message", read))
            };
            let purged = (0..6).map(each).collect();
            is_over.store(true, Ordering::Relaxed);
            purged
        });
        world.database.execute(let_go);
        let mut up_to = 0;
        for ([wrong, purged], read) in purged.into_iter().flatten() {
            wrong.refused(400, "malformed-request");
            let purged = purged.output();
            assert!(purged["up_to_lsn"].as_i64().unwrap() > up_to, "{purged} after {up_to}");
            up_to = purged["up_to_lsn"].as_i64().unwrap();
            read.refused(404, "not-found");
        }
        assert!(up_to > 0);
        assert_eq!(world.database.number("select count(*) from channels where name = 'doomed'"), 0);
        verify(world);
    });
}

/// Any later call ends an interrupted purge, and a repeat of its call does not begin another one.
#[test]
fn the_repeat_of_a_purge_that_was_cut_off_is_the_same_purge() {
    on_both_engines(|world| {
        let said = say(world, OTHER);
        let row = world.operation("purge_workspace");
        let input = json!({"workspace_id": world.id("workspace"), "confirm": "Night shift"});
        let key = [("idempotency-key", "purge")];
        let ask = || world.rest().call_by(Some(&world.people.admin), &key, row, row.http().path, &input);
        let [fail, let_go] = failing(world.engine());
        world.database.execute(fail);
        let before = world.lsn();
        let up_to = world.lsn();
        assert_eq!(ask().status, 500);
        let gone = world.call(&world.people.admin, "get_message", json!({"message_id": said.message["id"]}));
        gone.refused(404, "not-found");
        let later = world.agent("post_message", json!({"thread_id": world.id("thread"), "body": "later"}));
        world.database.execute(let_go);
        world.pass(Duration::from_secs(60));
        let purged = ask().output();
        assert_eq!(purged["up_to_lsn"], up_to);
        let again = ask();
        assert_eq!(
            (&again.body, &again.headers["idempotency-replayed"]),
            (&purged, &"true".parse().unwrap())
        );
        assert_eq!(world.admin("get_message", json!({"message_id": later["id"]}))["body"], "later");
        let purges = world.kinds_after(before).into_iter().filter(|kind| kind == "WorkspacePurged").count();
        assert_eq!(purges, 1);
    });
}
