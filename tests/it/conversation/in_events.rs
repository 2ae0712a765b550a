//! The plaintext of messages beside their events.
//!
//! It is the same on every transport, and absent once the message is withdrawn.

use serde_json::{Value, json};
use svc_core::op::Operation;
use svc_tests::client::ws::{Ws, first_frame};
use svc_tests::{World, on_both_engines, text};

use crate::op::asking::in_full;

/// The events of a new thread, read on every transport.
///
/// All return the same.
struct Log<'w> {
    world: &'w World,
    thread: String,
    from: i64,
}

impl<'w> Log<'w> {
    fn of_a_new_thread(world: &'w World) -> Self {
        let from = world.lsn();
        Self { world, thread: world.new_thread(&world.id("channel").to_string(), "spoken"), from }
    }

    fn post(&self, body: &str, metadata: Value) -> String {
        let input = json!({"thread_id": self.thread, "body": body, "metadata": metadata});
        text(&self.world.agent("post_message", input)["id"])
    }

    fn read(&self) -> Vec<Value> {
        let world = self.world;
        let workspace = world.id("workspace");
        let reader = world.people.bystander.as_str();
        let log = json!({"workspace_id": workspace, "after_id": self.from, "thread_id": self.thread});
        let thread = json!({"thread_id": self.thread});
        let inputs = [("list_events", &log), ("wait_for_event", &log), ("list_thread_events", &thread)];
        let pipe = world.stdio(reader);
        let mut readings = Vec::new();
        for (name, input) in inputs {
            let operation = world.operation(name);
            let ways: [&dyn Fn(&Operation) -> Value; 3] = [
                &|operation| world.rest().call(Some(reader), operation, input).output(),
                &|operation| world.mcp().call(Some(reader), operation, &in_full(operation, input)).output(),
                &|operation| pipe.call(operation, &in_full(operation, input)).output(),
            ];
            readings.extend(ways.map(|way| way(operation)["items"].as_array().unwrap().clone()));
        }
        let frames = readings[0].len();
        let mut socket = Ws::subscribe(world.address(), &first_frame(reader, workspace, Some(self.from)));
        assert_eq!(socket.frame()["type"], "subscribe_ack");
        readings.push((0..frames).map(|_| without_attribution(socket.frame())).collect());
        assert!(readings.iter().all(|reading| *reading == readings[0]), "{readings:#?}");
        readings.remove(0)
    }

    /// Returns the kinds and messages of the events that have a message.
    fn plaintexts(&self) -> Vec<(String, Value)> {
        let spoken = self.read().into_iter().filter(|event| event.get("message").is_some());
        spoken.map(|event| (text(&event["kind"]), event["message"].clone())).collect()
    }
}

fn without_attribution(mut frame: Value) -> Value {
    frame.as_object_mut().unwrap().remove("attribution").unwrap();
    frame
}

fn plaintext(body: &str, metadata: Value) -> Value {
    json!({"withdrawn": false, "unreadable": false, "body": body, "metadata": metadata, "content": []})
}

fn blank() -> Value {
    json!({"withdrawn": true, "unreadable": false, "body": "", "metadata": {}, "content": []})
}

#[test]
fn an_event_shows_the_body_of_its_time_until_the_message_is_withdrawn() {
    on_both_engines(|world| {
        let log = Log::of_a_new_thread(world);
        let first = log.post("one \"quoted\"\n", json!({"n": [1, null]}));
        world.agent("edit_message", json!({"message_id": first, "body": "uno"}));
        world.agent("edit_message", json!({"message_id": first, "metadata": null}));
        let second = log.post("two", json!({}));
        let posted = || "MessagePosted".to_owned();
        let edited = || "MessageEdited".to_owned();
        let two = (posted(), plaintext("two", json!({})));
        assert_eq!(
            log.plaintexts(),
            [
                (posted(), plaintext("one \"quoted\"\n", json!({"n": [1, null]}))),
                (edited(), plaintext("uno", json!({"n": [1, null]}))),
                (edited(), plaintext("uno", json!({}))),
                two.clone(),
            ]
        );

        let before = log.read();
        world.agent("delete_message", json!({"message_id": first}));
        let gone = [(posted(), blank()), (edited(), blank()), (edited(), blank()), two];
        assert_eq!(log.plaintexts(), gone);
        world.admin("purge_message", json!({"message_id": first}));
        assert_eq!(log.plaintexts(), gone, "a purge after the withdrawal changes nothing");
        let after = log.read();
        let hashed = |events: &[Value]| -> Vec<Value> {
            let keys = ["lsn", "kind", "prev_hash", "content_hash", "payload"];
            events.iter().map(|event| keys.map(|key| event[key].clone()).into()).collect()
        };
        assert_eq!(hashed(&after)[..before.len()], hashed(&before), "what was hashed stays");
        let workspace = json!({"workspace_id": world.id("workspace")});
        assert_eq!(world.agent("verify_event_chain", workspace)["valid"], true);

        world.agent("delete_message", json!({"message_id": second}));
        assert_eq!(log.plaintexts().last(), Some(&(posted(), blank())));
    });
}

#[test]
fn a_live_frame_has_the_plaintext() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let mut socket =
            Ws::subscribe(world.address(), &first_frame(&world.people.bystander, workspace, None));
        socket.frame();
        let input = json!({"thread_id": world.id("thread"), "body": "live", "metadata": {"n": 1}});
        world.agent("post_message", input);
        assert_eq!(socket.frame()["message"], plaintext("live", json!({"n": 1})));
    });
}
