//! Visibility: activity in a private channel reaches only its members.
//!
//! Neither dependencies nor the log show it to others.

use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::client::Answer;
use svc_tests::{World, on_both_engines};

fn add(world: &World, thread: &str, on: &str) -> Answer {
    world.call(
        &world.people.admin,
        "add_thread_dependency",
        json!({"thread_id": thread, "depends_on_id": on}),
    )
}

#[test]
fn a_thread_depends_only_on_threads_that_all_its_readers_see() {
    on_both_engines(|world| {
        let open = world.new_channel("open");
        let [closed, other] = ["closed", "other"].map(|name| world.new_private_channel(name));
        let [public, also_public, private, also_private, elsewhere] =
            [&open, &open, &closed, &closed, &other].map(|channel| world.new_thread(channel, "t"));
        let create = |channel: &str, on: &[&str]| {
            let input = json!({"channel_id": channel, "title": "late", "depends_on": on});
            world.call(&world.people.admin, "create_thread", input)
        };
        let child = |parent: &str, on: &str| {
            let input = json!({"thread_id": parent, "title": "child", "depends_on": [on]});
            world.call(&world.people.admin, "create_child_thread", input)
        };
        let lsn = world.lsn();
        for (waiting, channel) in [(&public, &open), (&elsewhere, &other)] {
            add(world, waiting, &private).refused(409, "not-visible-to-all");
            create(channel, &[&also_public, &private]).refused(409, "not-visible-to-all");
            child(waiting, &private).refused(409, "not-visible-to-all");
        }
        assert_eq!(world.lsn(), lsn, "nothing was emitted");
        add(world, &public, &also_public).output();
        add(world, &private, &public).output();
        add(world, &private, &also_private).output();
        create(&closed, &[&public, &also_private]).output();
        child(&elsewhere, &public).output();
        // A caller that may not see the thread still gets 404.
        let input = json!({"thread_id": public, "depends_on_id": private});
        world.call(&world.people.bystander, "add_thread_dependency", input).refused(404, "not-found");
    });
}

#[test]
fn a_channel_changes_privacy_only_while_no_dependency_reveals_a_hidden_thread() {
    on_both_engines(|world| {
        let [here, there] = ["here", "there"].map(|name| world.new_channel(name));
        let closed = world.new_private_channel("closed");
        let awaited = world.new_thread(&here, "awaited");
        let [inside, outside, hidden] =
            [&here, &there, &closed].map(|channel| world.new_thread(channel, "waiting"));
        for waiting in [&inside, &outside, &hidden] {
            add(world, waiting, &awaited).output();
        }
        let hide = || {
            world.call(&world.people.admin, "update_channel", json!({"channel_id": here, "private": true}))
        };
        let refusal = hide().refused(409, "not-visible-to-all");
        assert_eq!(
            refusal["thread_ids"],
            json!([outside]),
            "a public dependency would reveal a hidden thread"
        );
        let rename = json!({"channel_id": here, "name": "renamed"});
        assert_eq!(world.admin("update_channel", rename)["private"], false);
        let remove = json!({"thread_id": outside, "depends_on_id": awaited});
        world.admin("remove_thread_dependency", remove);
        assert_eq!(hide().output()["private"], true);

        let show = || {
            world.call(&world.people.admin, "update_channel", json!({"channel_id": closed, "private": false}))
        };
        assert_eq!(show().refused(409, "not-visible-to-all")["thread_ids"], json!([hidden]));
        let remove = json!({"thread_id": hidden, "depends_on_id": awaited});
        world.admin("remove_thread_dependency", remove);
        assert_eq!(show().output()["private"], false);
    });
}

#[test]
fn the_activity_in_a_hidden_thread_shows_nowhere() {
    on_both_engines(|world| {
        let hidden = &world.people.private_thread_id;
        let stored = world.database.id(hidden.parse::<uuid::Uuid>().unwrap());
        // More than fits one page.
        for doubling in 0..11 {
            let offset = 10_000_i64 << doubling;
            world.database.execute(&format!(
                "insert into events (workspace_id, lsn, kind, at, channel_id, thread_id, member_id, prev_hash,
                     content_hash, payload)
                 select workspace_id, lsn + {offset}, kind, at, channel_id, thread_id, member_id, prev_hash,
                     content_hash, payload
                 from events where thread_id = {stored}"
            ));
        }
        let page = |token: &str, operation: &str, thread: &str| {
            let mut input =
                json!({"workspace_id": world.id("workspace"), "after_id": 0, "thread_id": thread});
            if operation == "list_events" {
                return world.call(token, operation, input).output();
            }
            input["timeout_secs"] = json!(1);
            world.once_time_is_over(Duration::from_secs(1), || world.call(token, operation, input).output())
        };
        assert_ne!(page(&world.people.admin, "list_events", hidden)["next_cursor"], Value::Null);
        let nothing = uuid::Uuid::from_u128(7).to_string();
        for operation in ["list_events", "wait_for_event"] {
            let [found, wanted] = [hidden, &nothing].map(|id| page(&world.people.bystander, operation, id));
            assert_eq!(found, wanted, "{operation}");
        }
    });
}
