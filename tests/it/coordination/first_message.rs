//! Threads that are created with their first message.

use serde_json::{Value, json};
use svc_tests::{World, on_both_engines, text};

use crate::conversation::mentions::unread;

/// Creates a thread in a channel, with this first message if there is one.
fn created(world: &World, token: &str, channel: &str, body: Option<&str>) -> Value {
    let mut input = json!({"channel_id": channel, "title": "Port the parser"});
    if let Some(body) = body {
        input["body"] = json!(body);
    }
    world.call(token, "create_thread", input).output()
}

fn messages(world: &World, thread: &Value) -> Vec<Value> {
    let page = world.agent("list_messages", json!({"thread_id": thread}));
    page["items"].as_array().unwrap().clone()
}

#[test]
fn a_thread_and_its_first_message_are_one_change() {
    on_both_engines(|world| {
        let agent = &*world.people.agent;
        let channel = world.new_channel("tasks");
        let (bob, bob_token) = world.new_agent("bob");
        let before = world.lsn();
        let thread = created(world, agent, &channel, Some("Ask @bob or @nobody.\n\nStart with `@lexer`."));
        assert_eq!(world.kinds_after(before), ["ThreadCreated", "MessagePosted"]);
        assert_eq!(thread["lsn"], before + 1);

        let said = messages(world, &thread["id"]);
        assert_eq!(said.len(), 1);
        let first = &said[0];
        let author = world.id("agent").to_string();
        assert_eq!((&first["id"], &first["author_id"]), (&thread["first_message_id"], &json!(author)));
        assert_eq!(first["body"], "Ask @bob or @nobody.\n\nStart with `@lexer`.");
        assert_eq!((&first["metadata"], &first["lsn"]), (&json!({}), &json!(before + 2)));
        assert_eq!(thread["mentioned"], json!([{"member_id": bob, "online": false}]));
        assert_eq!(thread["not_reached"], json!([{"text": "@nobody", "why": "unknown"}]));
        assert_eq!(unread(world, &bob_token), [("mention".to_owned(), first["id"].clone())]);
        // It can be edited and withdrawn like any other.
        let edit = json!({"message_id": first["id"], "body": "Start with the lexer."});
        world.call(agent, "edit_message", edit).output();
        world.call(agent, "delete_message", json!({"message_id": first["id"]})).output();
    });
}

#[test]
fn a_thread_without_a_first_message_is_as_it_was() {
    on_both_engines(|world| {
        let before = world.lsn();
        let thread = created(world, &world.people.agent, &world.id("channel").to_string(), None);
        assert_eq!(world.kinds_after(before), ["ThreadCreated"]);
        for member in ["first_message_id", "mentioned", "not_reached"] {
            assert!(thread.get(member).is_none(), "{member}");
        }
        assert!(messages(world, &thread["id"]).is_empty());
        let empty = json!({"channel_id": world.id("channel"), "title": "no words", "body": ""});
        world.call(&world.people.agent, "create_thread", empty).refused(400, "malformed-request");
    });
}

#[test]
fn a_child_has_its_first_message_or_neither_is_there() {
    on_both_engines(|world| {
        let parent = world.new_thread(&world.new_channel("tasks"), "parent");
        let child = json!({"thread_id": parent, "title": "child", "body": "One test for each state."});
        let before = world.lsn();
        let made = world.agent("create_child_thread", child.clone());
        assert_eq!(world.kinds_after(before), ["ThreadCreated", "MessagePosted"]);
        let said = messages(world, &made["id"]);
        assert_eq!((&said[0]["id"], &said[0]["body"]), (&made["first_message_id"], &child["body"]));
        assert_eq!((&made["parent_id"], said.len()), (&json!(parent), 1));

        let workspace = world.id("workspace");
        let before = world.lsn();
        world.admin("set_spawn_budget", json!({"workspace_id": workspace, "max_children": 1}));
        world.call(&world.people.agent, "create_child_thread", child).refused(409, "spawn-rejected");
        assert_eq!(world.kinds_after(before), ["SpawnBudgetSet", "ThreadSpawnDenied"]);
    });
}

#[test]
fn who_may_not_post_creates_threads_without_words() {
    on_both_engines(|world| {
        let narrowed = world.call(
            &world.people.bystander,
            "attenuate_token",
            json!({"capabilities": ["workspace:read", "workspace:write"]}),
        );
        let writer = text(&narrowed.output()["secret"]);
        let channel = world.id("channel");
        let mut before = world.lsn();
        let thread = json!({"channel_id": channel, "title": "a task", "body": "words"});
        let child = json!({"thread_id": world.id("thread"), "title": "a child", "body": "words"});
        for (operation, mut input) in [("create_thread", thread), ("create_child_thread", child)] {
            let refused = world.call(&writer, operation, input.clone()).refused(403, "missing-capability");
            assert_eq!(refused["required_capability"], "message:post");
            assert_eq!(world.lsn(), before, "{operation}");
            input.as_object_mut().unwrap().remove("body");
            world.call(&writer, operation, input).output();
            assert_eq!(world.kinds_after(before), ["ThreadCreated"]);
            before = world.lsn();
        }
    });
}

#[test]
fn the_first_words_of_a_direct_message_are_heard_by_the_others() {
    on_both_engines(|world| {
        let (bob, bob_token) = world.new_agent("bob");
        let dm = world.agent("open_dm", json!({"workspace_id": world.id("workspace"), "member_ids": [bob]}));
        let thread = created(world, &world.people.agent, &text(&dm["id"]), Some("About the release"));
        let heard = ("dm".to_owned(), thread["first_message_id"].clone());
        assert!(unread(world, &bob_token).contains(&heard));
        let page = world.call(&bob_token, "list_messages", json!({"thread_id": thread["id"]})).output();
        assert_eq!(page["items"][0]["body"], "About the release");
    });
}

#[test]
fn whoever_is_given_a_thread_reads_what_it_was_created_with() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let reading = || {
            let given = world.agent("claim_next_thread", json!({"channel_id": channel}));
            given.get("id").map(|id| messages(world, id)[0]["body"].clone())
        };
        // Threads are created and claimed at the same time, in the same batches.
        let said = svc_tests::in_parallel(9, |number| {
            if number % 3 == 0 {
                reading()
            } else {
                created(world, &world.people.admin, &channel, Some("what is to be done"));
                None
            }
        });
        let later = std::iter::from_fn(reading);
        let all: Vec<Value> = said.into_iter().flatten().chain(later).collect();
        assert_eq!(all, vec![json!("what is to be done"); 6]);
    });
}
