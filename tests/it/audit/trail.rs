//! The audit trail.
//!
//! A caller that may not see a channel learns of its rows only their time and author. The operator's list has
//! the rows of every workspace and of the instance, by time.

use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::{World, on_both_engines, text};

/// Returns the audit rows of the workspace as a caller sees them.
fn trail(world: &World, token: &str) -> Vec<Value> {
    let input = json!({"workspace_id": world.id("workspace"), "limit": 500});
    every_page(world, token, "list_audit", input)
}

/// Returns the audit rows of the instance that a filter selects, as the admin of the first workspace sees
/// them.
fn of_instance(world: &World, filter: Value) -> Vec<Value> {
    every_page(world, &world.people.admin, "list_operator_audit", filter)
}

fn every_page(world: &World, token: &str, operation: &str, mut input: Value) -> Vec<Value> {
    let mut rows = Vec::new();
    loop {
        let page = world.call(token, operation, input.clone()).output();
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
        let admin = Some(&*world.people.admin);
        let agent = Some(&*world.people.agent);
        let rest =
            |token, name, input: Value| world.rest().call(token, world.operation(name), &input).output();
        rest(admin, "add_channel_member", json!({"channel_id": channel, "member_id": world.id("agent")}));
        rest(admin, "create_thread", json!({"channel_id": channel, "title": "t"}));
        let claim = rest(agent, "claim_thread", json!({"thread_id": thread}));
        let renew = json!({"thread_id": thread, "claim_lease_id": claim["claim_lease_id"]});
        world.mcp().call(agent, world.operation("renew_claim"), &renew).output();
        let den = world.new_private_channel("den");
        let public = rest(admin, "create_thread", json!({"channel_id": world.id("channel"), "title": "p"}));

        let inside = trail(world, &world.people.admin);
        let outside = trail(world, &world.people.bystander);
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
        // A new member sees the rows from then on.
        world.admin(
            "add_channel_member",
            json!({"channel_id": channel, "member_id": world.people.bystander_id}),
        );
        assert!(Value::from(trail(world, &world.people.bystander)).to_string().contains(thread));
    });
}

/// Returns the sort key of a row of the operator's list.
fn place(row: &Value) -> (String, String, i64) {
    let workspace = row["workspace_id"].as_str().unwrap_or_default().to_owned();
    (text(&row["at"]), workspace, row["seq"].as_i64().unwrap())
}

#[test]
fn the_operator_reads_the_rows_of_every_workspace_and_of_the_instance() {
    on_both_engines(|world| {
        let admin = &world.people.admin;
        let outsider = &world.people.outsider;
        let me = world.call(outsider, "whoami", json!({})).output();
        let ours = json!(world.id("workspace"));
        let theirs = me["workspace_id"].clone();
        world.pass(Duration::from_secs(60));
        let name = json!({"workspace_id": theirs, "name": "Late shift"});
        world.call(outsider, "update_workspace", name).output();
        let since = world.service.now().to_string();
        world.pass(Duration::from_secs(60));
        world.admin("update_workspace", json!({"workspace_id": ours, "name": "Early shift"}));

        let all = of_instance(world, json!({"limit": 500}));
        assert!(all.is_sorted_by(|newer, older| place(newer) > place(older)), "newest first, each once");
        assert_eq!(of_instance(world, json!({"limit": 1})), all, "whatever the size of the pages");
        let of = |workspace: &Value| -> Vec<&Value> {
            all.iter().filter(|row| row["workspace_id"] == *workspace).collect()
        };
        let nil = json!("00000000-0000-0000-0000-000000000000");
        assert!([&ours, &theirs, &Value::Null].iter().all(|workspace| !of(workspace).is_empty()));
        let stored = world.database.number("select count(*) from audit");
        assert_eq!(i64::try_from(all.len()).unwrap(), stored);
        assert_eq!(of(&ours), trail(world, admin).iter().collect::<Vec<_>>(), "the rows that a member reads");

        let newest = |row: &Value| row["at"].as_str() >= Some(&since);
        let both = [&all[0], &all[1]];
        assert_eq!(both.map(|row| &row["workspace_id"]), [&ours, &theirs]);
        for (filter, wanted) in [
            (json!({"workspace_id": theirs}), of(&theirs)),
            (json!({"workspace_id": nil}), of(&Value::Null)),
            (json!({"actor_id": me["member_id"]}), {
                all.iter().filter(|row| row["actor_id"] == me["member_id"]).collect()
            }),
            (json!({"action": "workspace.create"}), {
                all.iter().filter(|row| row["action"] == "workspace.create").collect()
            }),
            (json!({"since": since}), all.iter().filter(|row| newest(row)).collect()),
            (json!({"since": since, "limit": 1}), both.to_vec()),
            (json!({"since": since, "workspace_id": ours, "actor_id": me["member_id"]}), Vec::new()),
        ] {
            let found = of_instance(world, filter.clone());
            assert_eq!(found.iter().collect::<Vec<_>>(), wanted, "{filter}");
        }
    });
}

#[test]
fn the_operator_sees_no_more_of_private_channels_than_a_member() {
    on_both_engines(|world| {
        let thread = &world.people.private_thread_id;
        world.rest().call(
            Some(&world.people.admin),
            world.operation("post_message"),
            &json!({"thread_id": thread, "body": "between us"}),
        );
        let newest = |token: &str| {
            let input = json!({"limit": 1});
            world.call(token, "list_operator_audit", input).output()["items"][0].clone()
        };
        let inside = newest(&world.people.admin);
        let outside = newest(&world.people.bystander);
        assert!(inside["metadata"].to_string().contains(thread), "{inside:#}");
        assert_eq!(outside["metadata"], json!({"withheld": true}));
        for kept in ["seq", "at", "action", "actor_id", "workspace_id"] {
            assert_eq!(outside[kept], inside[kept], "{kept}");
        }
    });
}

#[test]
fn the_rows_of_the_instance_need_a_right_of_their_own() {
    on_both_engines(|world| {
        for (capability, status) in [
            ("audit:read-global", 200),
            ("operator:global", 403),
            ("token:admin", 403),
            ("workspace:read", 403),
        ] {
            let token = world.new_token(vec![capability]);
            assert_eq!(world.call(&token, "list_operator_audit", json!({})).status, status, "{capability}");
        }
    });
}
