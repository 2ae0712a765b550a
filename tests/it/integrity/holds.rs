//! Legal holds: what they forbid, until the last one is released.

use serde_json::{Value, json};
use svc_tests::{World, on_both_engines, text};

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
