//! Who sees what: what happens in a private channel reaches nobody else, through dependencies, the audit trail or the log.

use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::client::Answer;
use svc_tests::{World, on_both_engines, text};

fn private_channel(world: &World, name: &str) -> String {
    let input = json!({"workspace_id": world.fixture.workspace_id, "name": name, "private": true});
    text(&world.admin("create_channel", input)["id"])
}

fn add(world: &World, thread: &str, on: &str) -> Answer {
    world.call(
        &world.people.admin,
        "add_thread_dependency",
        json!({"thread_id": thread, "depends_on_id": on}),
    )
}

#[test]
fn a_thread_waits_only_for_what_all_who_see_it_see() {
    on_both_engines(|world| {
        let (open, [closed, other]) =
            (world.new_channel("open"), ["closed", "other"].map(|name| private_channel(world, name)));
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
        assert_eq!(world.lsn(), lsn, "nothing was told");
        add(world, &public, &also_public).output();
        add(world, &private, &public).output();
        add(world, &private, &also_private).output();
        create(&closed, &[&public, &also_private]).output();
        child(&elsewhere, &public).output();
        // To whoever may not see the thread it is not there, as before.
        let input = json!({"thread_id": public, "depends_on_id": private});
        world.call(&world.people.bystander, "add_thread_dependency", input).refused(404, "not-found");
    });
}

#[test]
fn a_channel_is_hidden_or_shown_only_while_no_wait_tells_of_it() {
    on_both_engines(|world| {
        let [here, there] = ["here", "there"].map(|name| world.new_channel(name));
        let closed = private_channel(world, "closed");
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
            "that a hidden thread waits is not for all to know"
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

/// The metadata of a caller's audit rows, by their numbers.
fn trail(world: &World, token: &str) -> Vec<Value> {
    let mut input = json!({"workspace_id": world.fixture.workspace_id, "limit": 500});
    let mut rows = Vec::new();
    loop {
        let page = world.call(token, "list_audit", input.clone()).output();
        rows.extend(page["items"].as_array().unwrap().clone());
        match &page["next_cursor"] {
            Value::String(cursor) => input["cursor"] = json!(cursor),
            _ => return rows,
        }
    }
}

#[test]
fn the_trail_tells_outsiders_when_and_who_and_no_more() {
    on_both_engines(|world| {
        let thread = &world.people.private_thread_id;
        let channel = world.fixture.private_channel_id;
        let (admin, agent) = (Some(&*world.people.admin), Some(&*world.people.agent));
        let rest = |token, name, input: Value| world.rest().call(token, world.row(name), &input).output();
        rest(
            admin,
            "add_channel_member",
            json!({"channel_id": channel, "member_id": world.fixture.agent_id}),
        );
        rest(admin, "create_thread", json!({"channel_id": channel, "title": "t"}));
        let claim = rest(agent, "claim_thread", json!({"thread_id": thread}));
        let renew = json!({"thread_id": thread, "claim_lease_id": claim["claim_lease_id"]});
        world.mcp().call(agent, world.row("renew_claim"), &renew).output();
        let den = private_channel(world, "den");
        let public =
            rest(admin, "create_thread", json!({"channel_id": world.fixture.channel_id, "title": "p"}));

        let (inside, outside) = (trail(world, &world.people.admin), trail(world, &world.people.bystander));
        let told = |row: &Value| row["metadata"].clone();
        assert_eq!(inside.len(), outside.len(), "the rows themselves are there");
        let newest = &outside[..6];
        assert_ne!(told(&newest[0]), json!({"withheld": true}), "{public:#}");
        for (row, known) in newest[1..].iter().zip(&inside[1..]) {
            assert_eq!(told(row), json!({"withheld": true}));
            assert_ne!(told(known), told(row));
            for kept in ["seq", "at", "action", "actor_id", "subject_id", "grant_id", "workspace_id"] {
                assert_eq!(row[kept], known[kept], "{kept}");
            }
        }
        let all = Value::from(outside).to_string();
        for hidden in [thread.clone(), channel.to_string(), den, text(&claim["claim_lease_id"])] {
            assert!(!all.contains(&hidden), "{hidden}");
        }
        // Whoever is added sees it from then on.
        world.admin(
            "add_channel_member",
            json!({"channel_id": channel, "member_id": world.people.bystander_id}),
        );
        assert!(Value::from(trail(world, &world.people.bystander)).to_string().contains(thread));
    });
}

#[test]
fn rows_from_before_get_their_channel_from_their_path_or_ids() {
    on_both_engines(|world| {
        let thread = &world.people.private_thread_id;
        let (rest, mcp, admin) = (world.rest(), world.mcp(), Some(&*world.people.admin));
        let posts = [
            rest.call(admin, world.row("post_message"), &json!({"thread_id": thread, "body": "one"})),
            mcp.call(admin, world.row("post_message"), &json!({"thread_id": thread, "body": "two"})),
        ];
        for post in posts {
            let message = json!({"message_id": post.output()["id"]});
            rest.call(admin, world.row("delete_message"), &message).output();
            mcp.call(admin, world.row("purge_message"), &message).output();
        }
        let channel = world.fixture.private_channel_id;
        for (name, input) in [
            ("update_channel", json!({"channel_id": channel, "topic": "t"})),
            ("create_thread", json!({"channel_id": channel, "title": "t"})),
            ("create_thread", json!({"channel_id": world.fixture.channel_id, "title": "t"})),
            ("create_channel", json!({"workspace_id": world.fixture.workspace_id, "name": "c"})),
        ] {
            rest.call(admin, world.row(name), &input).output();
            mcp.call(admin, world.row(name), &input).output();
        }
        let upper = thread.to_uppercase();
        rest.send(admin, "POST", &format!("/threads/{upper}/messages"), &[], Some(&json!({"body": "three"})));
        let channels =
            || world.database.rows("select seq, channel_id, metadata from audit order by workspace_id, seq");
        let before = channels();
        world.database.execute(
            "alter table audit drop column channel_id; delete from schema_migrations where version = 8",
        );
        drop(world.another_service(7));
        let mut found = 0;
        for (old, new) in before.iter().zip(channels()) {
            let named = ["/channels/", "/threads/", "/messages/", "channel_id", "thread_id", "message_id"];
            let metadata = text(&old[2]);
            if !named.iter().any(|name| metadata.contains(name)) {
                assert_eq!(new[1], Value::Null, "{metadata}");
                continue;
            }
            found += 1;
            assert_eq!(new[1], old[1], "{metadata}");
        }
        assert_eq!(found, 13, "{before:?}");
    });
}

#[test]
fn how_much_happens_in_a_hidden_thread_shows_nowhere() {
    on_both_engines(|world| {
        let hidden = &world.people.private_thread_id;
        let stored = world.database.id(hidden.parse::<uuid::Uuid>().unwrap());
        // More than one page looks at.
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
                json!({"workspace_id": world.fixture.workspace_id, "after_id": 0, "thread_id": thread});
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
