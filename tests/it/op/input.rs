//! Input: single-line and multi-line text, and outputs that show the stored value.

use serde_json::{Value, json};
use svc_core::limits::JSON_MAX_BYTES;
use svc_tests::client::Answer;
use svc_tests::{World, on_both_engines, text};

/// Returns the operations with a single-line field, and their inputs with `line` in it.
fn one_liners(world: &World, line: &str) -> Vec<(&'static str, Value)> {
    let w = &world.fixture;
    let member = json!({"workspace_id": w.id("workspace"), "member_id": w.id("agent"), "label": line});
    vec![
        ("create_channel", json!({"workspace_id": w.id("workspace"), "name": line})),
        ("create_channel", json!({"workspace_id": w.id("workspace"), "name": "hall", "topic": line})),
        ("update_channel", json!({"channel_id": w.id("channel"), "name": line})),
        ("update_workspace", json!({"workspace_id": w.id("workspace"), "name": line})),
        ("create_thread", json!({"channel_id": w.id("channel"), "title": line})),
        ("update_thread", json!({"thread_id": w.id("thread"), "title": line})),
        ("create_agent", json!({"workspace_id": w.id("workspace"), "handle": "h", "display_name": line})),
        ("mint_token", member),
        ("attenuate_token", json!({"capabilities": ["workspace:read"], "label": line})),
    ]
}

#[test]
fn a_single_line_field_has_no_control_characters_and_a_body_may_have_lines() {
    on_both_engines(|world| {
        let call = |operation: &str, input: Value| world.call(&world.people.admin, operation, input);
        for bad in ["a\u{1b}[31mred", "a\nb", "a\tb", "a\u{202e}b", "a\u{2067}b", "a\u{85}b", "a\0b"] {
            for (operation, input) in one_liners(world, bad) {
                call(operation, input).refused(400, "malformed-request");
            }
        }
        for (operation, input) in one_liners(world, "naïve 日本 👩\u{200d}🚀") {
            call(operation, input).output();
        }
        let body = "one\n\ttwo\r\n\u{1b}[31mthree\u{202e}";
        let posted = call("post_message", json!({"thread_id": world.id("thread"), "body": body})).output();
        let read = call("get_message", json!({"message_id": posted["id"]})).output();
        assert_eq!(read["body"], body);
        let thread = world.new_thread(&world.id("channel").to_string(), "Paint");
        call("cancel_thread", json!({"thread_id": thread, "reason": "Rain.\nAnd wind."})).output();
    });
}

#[test]
fn never_is_a_time_and_an_endless_time_is_returned_as_the_last_one() {
    on_both_engines(|world| {
        let mint = |at: &str| -> Answer {
            let input = json!({"workspace_id": world.id("workspace"), "expires_at": at,
                               "member_id": world.id("agent")});
            world.call(&world.people.admin, "mint_token", input)
        };
        let minted = mint("9999-12-31T23:59:59Z").output();
        assert!(text(&minted["expires_at"]).starts_with("9999-12-30T"), "{minted}");
        world.call(&text(&minted["secret"]), "whoami", json!({})).output();
        mint("9999-13-31T23:59:59Z").refused(400, "malformed-request");
    });
}

#[test]
fn the_output_is_what_is_stored() {
    on_both_engines(|world| {
        let odd: Value = serde_json::from_str(r#"{"a":-0.0,"b":[1.0,1e2],"c":{"d":-0}}"#).unwrap();
        let stored = r#"{"a":0,"b":[1,100],"c":{"d":0}}"#;
        let w = &world.fixture;
        let result = json!({"thread_id": w.id("claimed_thread"), "result": odd});
        let set = world.admin("set_thread_result", result);
        let read = world.admin("get_thread_result", json!({"thread_id": w.id("claimed_thread")}));
        assert_eq!((set["result"].to_string().as_str(), &set["result"]), (stored, &read["result"]));

        let edited = world.admin("edit_message", json!({"message_id": w.id("message"), "metadata": odd}));
        let read = world.admin("get_message", json!({"message_id": w.id("message")}));
        assert_eq!(edited["metadata"].to_string(), stored);
        assert_eq!(read["metadata"].to_string(), stored);
        let lsn = world.lsn();
        world.admin("edit_message", json!({"message_id": w.id("message"), "metadata": odd}));
        assert_eq!(world.lsn(), lsn, "the same numbers are no edit");
    });
}

/// Returns changes that make valid inputs fail, and the wrong fields. Null removes a field.
fn wrong_fields(world: &World) -> Vec<(&'static str, Value, &'static [&'static str])> {
    let past = "2001-01-01T00:00:00Z";
    let beyond = json!({"n": 9_007_199_254_740_993_i64});
    let long = json!({"long": "x".repeat(JSON_MAX_BYTES)});
    let many = json!({"many": vec![json!({}); JSON_MAX_BYTES]});
    let message = world.id("message");
    vec![
        ("attenuate_token", json!({"expires_at": past, "expires_in_secs": null}), &["expires_at"]),
        ("attenuate_token", json!({"expires_at": past, "expires_in_secs": 60}), &EXPIRY),
        ("cast_vote", json!({"options": [19]}), &["options"]),
        ("create_delegation_grant", json!({"expires_at": null, "expires_in_secs": null}), &EXPIRY),
        ("create_delegation_grant", json!({"capabilities": ["token:admin"]}), &["capabilities"]),
        (
            "create_delegation_grant",
            json!({"expires_at": null, "expires_in_secs": 3600 * 24 * 3650}),
            &["expires_in_secs"],
        ),
        ("create_memory_block", json!({"limit": null, "value": "x".repeat(5001)}), &["value"]),
        ("create_share_ticket", json!({"expires_at": null, "expires_in_secs": null}), &EXPIRY),
        ("create_vote", json!({"closes_at": past}), &["closes_at"]),
        (
            "create_thread",
            json!({"footprint": {"items": [{"kind": "path", "value": "src"}]}}),
            &["footprint.repo"],
        ),
        ("erase_workspace", json!({"confirm": "another"}), &["confirm"]),
        ("mark_inbox_read", json!({"up_to_lsn": 1, "lsns": [1]}), &["up_to_lsn", "lsns", "target_id"]),
        (
            "mint_token",
            json!({"capabilities": ["workspace:read"], "capability_set": "svc.agent.worker"}),
            &["capabilities", "capability_set"],
        ),
        ("open_dm", json!({"member_ids": []}), &["member_ids"]),
        ("post_message", json!({"metadata": {"artifacts": 1}}), &["metadata.artifacts"]),
        ("post_message", json!({"metadata": {"citations": 1}}), &["metadata.citations"]),
        ("post_message", json!({"metadata": beyond}), &["metadata"]),
        ("post_message", json!({"metadata": long}), &["metadata"]),
        ("post_message", json!({"content": [{"type": "data", "data": beyond}]}), &["content"]),
        ("purge_workspace", json!({"confirm": "another"}), &["confirm"]),
        (
            "relate_message",
            json!({"message_id": message, "target_message_id": message}),
            &["target_message_id"],
        ),
        ("set_glossary_term", json!({"term": " "}), &["term"]),
        ("set_thread_footprint", json!({"repo": null}), &["repo"]),
        ("set_thread_result", json!({"result": beyond}), &["result"]),
        ("set_thread_result", json!({"result": long}), &["result"]),
        ("set_thread_result", json!({"result": many}), &["result"]),
    ]
}

const EXPIRY: [&str; 2] = ["expires_at", "expires_in_secs"];

/// A program finds the wrong field without parsing text, whichever rule it has broken.
#[test]
fn a_field_that_is_wrong_is_named_in_errors() {
    on_both_engines(|world| {
        let mut findings = Vec::new();
        for (operation, changes, fields) in wrong_fields(world) {
            let row = world.operation(operation);
            let mut input = row.docs().example(&world.fixture).unwrap();
            let members = input.as_object_mut().unwrap();
            for (name, value) in changes.as_object().unwrap() {
                members.remove(name);
                if !value.is_null() {
                    members.insert(name.clone(), value.clone());
                }
            }
            let refused = world.call(&world.people.admin, operation, input);
            let shown = format!("{operation} {:.200}: {:#}", changes.to_string(), refused.body);
            let named: Vec<&str> =
                refused.body["errors"].as_array().into_iter().flatten().filter_map(field).collect();
            if refused.status != 400 || named != fields {
                findings.push(format!("{fields:?}: {shown}"));
            }
        }
        assert!(findings.is_empty(), "{}", findings.join("\n"));
    });
}

fn field(fault: &Value) -> Option<&str> {
    fault["field"].as_str()
}
