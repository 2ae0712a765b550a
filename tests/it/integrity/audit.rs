//! The audit trail.
//!
//! A caller that may not see a channel learns of its rows only when they were written and by whom.

use serde_json::{Value, json};
use svc_tests::{World, on_both_engines, text};

/// The metadata of a caller's audit rows, by their numbers.
fn trail(world: &World, token: &str) -> Vec<Value> {
    let mut input = json!({"workspace_id": world.id("workspace"), "limit": 500});
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
fn the_trail_shows_outsiders_only_when_and_who() {
    on_both_engines(|world| {
        let thread = &world.people.private_thread_id;
        let channel = world.id("private_channel");
        let (admin, agent) = (Some(&*world.people.admin), Some(&*world.people.agent));
        let rest =
            |token, name, input: Value| world.rest().call(token, world.operation(name), &input).output();
        rest(admin, "add_channel_member", json!({"channel_id": channel, "member_id": world.id("agent")}));
        rest(admin, "create_thread", json!({"channel_id": channel, "title": "t"}));
        let claim = rest(agent, "claim_thread", json!({"thread_id": thread}));
        let renew = json!({"thread_id": thread, "claim_lease_id": claim["claim_lease_id"]});
        world.mcp().call(agent, world.operation("renew_claim"), &renew).output();
        let den = world.new_private_channel("den");
        let public = rest(admin, "create_thread", json!({"channel_id": world.id("channel"), "title": "p"}));

        let (inside, outside) = (trail(world, &world.people.admin), trail(world, &world.people.bystander));
        let metadata_of = |row: &Value| row["metadata"].clone();
        assert_eq!(inside.len(), outside.len(), "the rows themselves are there");
        let newest = &outside[..6];
        assert_ne!(metadata_of(&newest[0]), json!({"withheld": true}), "{public:#}");
        for (row, known) in newest[1..].iter().zip(&inside[1..]) {
            assert_eq!(metadata_of(row), json!({"withheld": true}));
            assert_ne!(metadata_of(known), metadata_of(row));
            for kept in ["seq", "at", "action", "actor_id", "subject_id", "grant_id", "workspace_id"] {
                assert_eq!(row[kept], known[kept], "{kept}");
            }
        }
        let all = Value::from(outside).to_string();
        for hidden in [thread.clone(), channel.to_string(), den, text(&claim["claim_lease_id"])] {
            assert!(!all.contains(&hidden), "{hidden}");
        }
        // A member that is added sees it from then on.
        world.admin(
            "add_channel_member",
            json!({"channel_id": channel, "member_id": world.people.bystander_id}),
        );
        assert!(Value::from(trail(world, &world.people.bystander)).to_string().contains(thread));
    });
}

#[test]
fn older_rows_get_their_channel_from_their_path_or_ids() {
    on_both_engines(|world| {
        let thread = &world.people.private_thread_id;
        let (rest, mcp, admin) = (world.rest(), world.mcp(), Some(&*world.people.admin));
        let posts = [
            rest.call(admin, world.operation("post_message"), &json!({"thread_id": thread, "body": "one"})),
            mcp.call(admin, world.operation("post_message"), &json!({"thread_id": thread, "body": "two"})),
        ];
        for post in posts {
            let message = json!({"message_id": post.output()["id"]});
            rest.call(admin, world.operation("delete_message"), &message).output();
            mcp.call(admin, world.operation("purge_message"), &message).output();
        }
        let channel = world.id("private_channel");
        for (name, input) in [
            ("update_channel", json!({"channel_id": channel, "topic": "t"})),
            ("create_thread", json!({"channel_id": channel, "title": "t"})),
            ("create_thread", json!({"channel_id": world.id("channel"), "title": "t"})),
            ("create_channel", json!({"workspace_id": world.id("workspace"), "name": "c"})),
        ] {
            rest.call(admin, world.operation(name), &input).output();
            mcp.call(admin, world.operation(name), &input).output();
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
