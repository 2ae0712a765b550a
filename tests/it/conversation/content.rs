//! Content: the blocks of a message, from the post to the withdrawal.

use serde_json::{Value, json};
use svc_tests::{World, on_both_engines};

fn blocks() -> Value {
    json!([
        {"type": "text", "text": "see below"},
        {"type": "code", "text": "fn main() {}", "language": "rust"},
        {"type": "resource_link", "uri": "https://example.org/grammar", "name": "The grammar"},
        {"type": "data", "data": {"commit": "0f3c9a1", "lines": [1, 2]}},
        {"type": "artifact", "sha": "ab".repeat(32), "title": "Screenshot"},
    ])
}

fn post(world: &World, content: &Value) -> Value {
    world.agent("post_message", json!({"thread_id": world.id("thread"), "body": "done", "content": content}))
}

fn read(world: &World, message: &Value) -> Value {
    world.agent("get_message", json!({"message_id": message}))
}

/// Returns the content of a message in its last event, as it is read beside the payload.
fn in_event(world: &World, message: &Value) -> Value {
    let input = json!({"thread_id": world.id("thread"), "limit": 500});
    let events = world.agent("list_thread_events", input);
    let of_message =
        |event: &&Value| event["payload"]["message_id"] == *message && !event["message"].is_null();
    events["items"].as_array().unwrap().iter().rfind(of_message).unwrap()["message"].clone()
}

#[test]
fn blocks_are_read_wherever_the_message_is_and_go_with_it() {
    on_both_engines(|world| {
        let message = post(world, &blocks())["id"].clone();
        assert_eq!(read(world, &message)["content"], blocks());
        assert_eq!(in_event(world, &message)["content"], blocks());
        let thread = json!({"thread_id": world.id("thread")});
        for (list, at) in [("list_messages", "items"), ("get_thread_context", "messages")] {
            let found = world.agent(list, thread.clone());
            let found = found[at].as_array().unwrap().iter().find(|item| item["id"] == message).unwrap();
            assert_eq!(found["content"], blocks(), "{list}");
        }

        let edit = |change: Value| {
            let mut input = change;
            input["message_id"] = message.clone();
            world.agent("edit_message", input)
        };
        let lsn = world.lsn();
        edit(json!({"content": blocks()}));
        assert_eq!(world.lsn(), lsn, "the same blocks again change nothing");
        assert_eq!(edit(json!({"body": "done, and fast"}))["content"], blocks());
        let one = json!([{"type": "text", "text": "never mind"}]);
        assert_eq!(edit(json!({"content": one}))["content"], one);
        assert_eq!((&in_event(world, &message)["content"], world.lsn()), (&one, lsn + 2));
        assert_eq!(edit(json!({"content": null}))["content"], json!([]));
        let edits = world.agent("list_message_edits", json!({"message_id": message}));
        let earlier: Vec<&Value> =
            edits["items"].as_array().unwrap().iter().map(|edit| &edit["content"]).collect();
        assert_eq!(earlier, [&blocks(), &blocks(), &one]);

        edit(json!({"content": one}));
        let withdrawn = world.agent("delete_message", json!({"message_id": message}));
        assert_eq!(withdrawn["content"], json!([]));
        assert_eq!(read(world, &message)["content"], json!([]));
        assert_eq!(in_event(world, &message)["content"], json!([]));
        let edits = world.agent("list_message_edits", json!({"message_id": message}));
        assert!(edits["items"].as_array().unwrap().iter().all(|edit| edit["content"] == json!([])));
    });
}

#[test]
fn what_is_no_block_is_rejected_and_so_is_what_is_too_large() {
    on_both_engines(|world| {
        let message = post(world, &json!([]))["id"].clone();
        let vote =
            json!({"type": "vote", "vote_id": world.id("thread"), "question": "?", "options": ["a", "b"]});
        let text = |length: usize| json!({"type": "text", "text": "x".repeat(length)});
        let lsn = world.lsn();
        for content in [
            json!([vote]),
            json!([{"type": "image"}]),
            json!([{"type": "code", "text": "a", "lines": 3}]),
            json!({"type": "text", "text": "a"}),
            Value::from(vec![text(1); 65]),
            Value::from(vec![text(90_000); 3]),
        ] {
            let post = json!({"thread_id": world.id("thread"), "body": "a", "content": content});
            let edit = json!({"message_id": message, "content": content});
            for (operation, input) in [("post_message", post), ("edit_message", edit)] {
                world.call(&world.people.agent, operation, input).refused(400, "malformed-request");
            }
        }
        assert_eq!(world.lsn(), lsn);
        assert_eq!(post(world, &Value::from(vec![text(87_000); 3]))["content"], Value::Null);
        assert_eq!(post(world, &Value::from(vec![text(1); 64]))["content"], Value::Null);
    });
}
