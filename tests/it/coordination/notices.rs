//! Notices: a notice in a thread is one message, one event and one entry of the thread's notices.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_core::capability::Capability::WorkspaceRead;
use svc_core::id::{MemberId, ThreadId};
use svc_core::op::{Feature, Write, write};
use svc_core::{NewNotice, Result, post_notice};
use svc_tests::database::engines;
use svc_tests::{Setup, World};

/// Notifies the workers of a thread that tea is ready.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CallToTea {
    /// The thread.
    thread_id: ThreadId,
    /// The author; the service itself if absent.
    author: Option<MemberId>,
}

svc_core::without_requests! { CallToTea }

svc_tests::keeps_nothing!(CallToTea => Value);

fn call_to_tea(cx: &mut Write<'_>, input: &CallToTea) -> Result<Value> {
    let data = [("cups".to_owned(), json!(3))].into_iter().collect();
    let notice = NewNotice { name: "tea", text: "tea is ready", data };
    Ok(json!({"message_id": post_notice(cx, input.thread_id, input.author, &notice)?}))
}

fn features() -> Vec<Feature> {
    let operation = write("call_to_tea", call_to_tea)
        .title("Call to tea")
        .post("/threads/{thread_id}/tea")
        .needs(&[WorkspaceRead])
        .example(|w| json!({"thread_id": w.id("thread")}));
    vec![Feature::new().operations("tea", vec![operation])]
}

#[test]
fn a_notice_is_a_message_an_event_and_an_entry_of_its_thread() {
    for engine in engines() {
        let world = World::with(engine, Setup { features, ..Setup::default() });
        let channel = world.new_private_channel("tea room");
        let thread = world.new_thread(&channel, "bake");
        for author in [Value::Null, json!(world.id("admin"))] {
            let before = world.lsn();
            // The cause need not see the thread, as when the service ends a claim.
            let input = json!({"thread_id": thread, "author": author});
            let message =
                world.call(&world.people.bystander, "call_to_tea", input).output()["message_id"].clone();
            assert_eq!(world.kinds_after(before), ["MessagePosted", "ThreadNotice"]);

            let last = world.admin("get_message", json!({"message_id": message}));
            assert_eq!((&last["author_id"], &last["body"]), (&author, &json!("tea is ready")));
            assert_eq!(last["metadata"], json!({"notice": "tea"}));

            let page = json!({"thread_id": thread, "limit": 50});
            let events = world.admin("list_thread_events", page)["items"].as_array().unwrap().clone();
            let payload = &events.last().unwrap()["payload"];
            assert_eq!((&payload["notice"], &payload["message_id"]), (&json!("tea"), &message));
            assert_eq!(payload["data"], json!({"cups": 3}));

            let notice = || world.admin("get_thread", json!({"thread_id": thread}))["notices"][0].clone();
            assert_eq!((&notice()["kind"], &notice()["text"]), (&json!("tea"), &json!("tea is ready")));
            assert_eq!(notice()["lsn"], json!(before + 2));
            world.admin("delete_message", json!({"message_id": message}));
            assert_eq!((&notice()["kind"], &notice()["text"]), (&json!("tea"), &json!("")));
        }
    }
}

#[test]
fn a_thread_is_read_with_its_last_ten_notices() {
    for engine in engines() {
        let world = World::with(engine, Setup { features, ..Setup::default() });
        let thread = world.new_thread(&world.new_channel("tea room"), "bake");
        for _ in 0..12 {
            world.agent("call_to_tea", json!({"thread_id": thread}));
        }
        let read = world.agent("get_thread", json!({"thread_id": thread}));
        let lsns: Vec<i64> = read["notices"]
            .as_array()
            .unwrap()
            .iter()
            .map(|notice| notice["lsn"].as_i64().unwrap())
            .collect();
        let last = world.lsn();
        assert_eq!(lsns, (0..10).map(|number| last - 2 * number).collect::<Vec<_>>());
    }
}
