//! Bounds on what one request sets off in one transaction: the threads that a close changes, the tokens that a
//! revocation ends, the graph that a dependency is checked against. What exceeds a bound is refused before it exists.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::limits::{DEPENDENCY_WALK_MAX, DEPENDENTS_MAX, DERIVED_TOKENS_MAX, TOKEN_DEPTH_MAX};
use svc_tests::client::Answer;
use svc_tests::{World, on_both_engines, text};

/// Runs an insert from the rows `n (i)`, 1 to `count`, without asking whether what it refers to exists.
fn insert_many(world: &World, count: i64, insert: &str) {
    let (before, numbers, after) = match world.engine() {
        Engine::Sqlite => (
            "pragma foreign_keys = off;".to_owned(),
            format!("with recursive n (i) as (select 1 union all select i + 1 from n where i < {count})"),
            "",
        ),
        Engine::Postgres => (
            "set session_replication_role = replica;".to_owned(),
            format!("with n (i) as (select generate_series(1, {count}))"),
            "set session_replication_role = origin;",
        ),
    };
    world.database.execute(&format!("{before} {numbers} {insert}; {after}"));
}

/// SQL for an id that nothing has.
fn any_id(world: &World) -> &'static str {
    match world.engine() {
        Engine::Sqlite => "randomblob(16)",
        Engine::Postgres => "gen_random_uuid()",
    }
}

fn id(world: &World, text: &str) -> String {
    world.database.id(text.parse::<uuid::Uuid>().unwrap())
}

fn new_thread(world: &World) -> String {
    world.new_thread(&world.fixture.channel_id.to_string(), "one of many")
}

fn wait_for(world: &World, thread: &str, depends_on: &str) -> Answer {
    let input = json!({"thread_id": thread, "depends_on_id": depends_on});
    world.call(&world.people.admin, "add_thread_dependency", input)
}

#[test]
fn a_close_frees_a_bounded_number_of_threads() {
    on_both_engines(|world| {
        let (awaited, another) = (new_thread(world), new_thread(world));
        let rows = format!("select {}, {}, 1 from n", any_id(world), id(world, &awaited));
        let insert = format!("insert into thread_dependencies (thread_id, depends_on_id, lsn) {rows}");
        insert_many(world, DEPENDENTS_MAX - 1, &insert);
        wait_for(world, &another, &awaited).output();
        let late = new_thread(world);
        let refusal = wait_for(world, &late, &awaited).refused(409, "wrong-state");
        assert!(text(&refusal["detail"]).contains("1000 threads wait"), "{refusal}");
        let input = json!({"channel_id": world.fixture.channel_id, "title": "late", "depends_on": [awaited]});
        world.call(&world.people.admin, "create_thread", input).refused(409, "wrong-state");
        wait_for(world, &another, &awaited).output();
        let close = json!({"thread_id": awaited, "action": "close"});
        let lsn = world.lsn();
        world.admin("transition_thread", close);
        assert_eq!(world.kinds_after(lsn), ["ThreadStateChanged", "ThreadReady"]);
    });
}

#[test]
fn a_circle_is_looked_for_among_a_bounded_number_of_threads() {
    on_both_engines(|world| {
        let (first, second, third) = (new_thread(world), new_thread(world), new_thread(world));
        let many = |count: i64, from: &str, to: &str| {
            let insert = "insert into thread_dependencies (thread_id, depends_on_id, lsn) select";
            insert_many(world, count, &format!("{insert} {from}, {to}, 1 from n"));
        };
        // Many wait for the first, through one: the other end has few around it, and is enough to know.
        let through = id(world, &uuid::Uuid::from_u128(0x11).to_string());
        many(1, &through, &id(world, &first));
        many(DEPENDENCY_WALK_MAX, any_id(world), &through);
        wait_for(world, &first, &second).output();
        wait_for(world, &second, &first).refused(409, "dependency-cycle");
        wait_for(world, &first, &third).output();
        // The other end has as many around it.
        let fourth = new_thread(world);
        let beyond = id(world, &uuid::Uuid::from_u128(0x22).to_string());
        many(1, &id(world, &fourth), &beyond);
        many(DEPENDENCY_WALK_MAX, &beyond, any_id(world));
        let refusal = wait_for(world, &first, &fourth).refused(409, "wrong-state");
        assert!(text(&refusal["detail"]).contains("5000 or more threads"), "{refusal}");
        wait_for(world, &new_thread(world), &fourth).output();
    });
}

fn attenuate(world: &World, secret: &str, more: &Value) -> Answer {
    let mut input = json!({"capabilities": ["workspace:read"]});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    world.call(secret, "attenuate_token", input)
}

fn works(world: &World, token: &Value) -> bool {
    world.call(&text(&token["secret"]), "whoami", json!({})).is_success()
}

fn revoked_with(world: &World, token_id: &Value) -> Vec<Value> {
    world.admin("revoke_token", json!({"token_id": token_id}))["revoked_ids"].as_array().unwrap().clone()
}

#[test]
fn a_revocation_ends_a_bounded_number_of_tokens() {
    on_both_engines(|world| {
        let child = attenuate(world, &world.people.agent, &json!({})).output();
        let secret = match world.engine() {
            Engine::Sqlite => "randomblob(32)",
            Engine::Postgres => {
                "decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')"
            }
        };
        let insert = format!(
            "insert into tokens (id, workspace_id, member_id, actor_id, parent_id, secret_hash, capabilities,
                 created_at, lsn)
             select {}, t.workspace_id, t.member_id, t.actor_id, t.id, {secret}, t.capabilities, t.created_at, t.lsn
             from n cross join tokens t where t.id = {}",
            any_id(world),
            id(world, &text(&child["id"]))
        );
        insert_many(world, DERIVED_TOKENS_MAX - 1, &insert);
        for secret in [&world.people.agent, &text(&child["secret"])] {
            let refusal = attenuate(world, secret, &json!({})).refused(409, "wrong-state");
            assert!(text(&refusal["detail"]).contains("1000 live tokens"), "{refusal}");
        }
        // Those that have ended do not count.
        let of_child = format!("parent_id = {}", id(world, &text(&child["id"])));
        world.database.execute(&format!("update tokens set expires_at = 1 where {of_child}"));
        let grandchild = attenuate(world, &text(&child["secret"]), &json!({})).output();
        let lsn = world.lsn();
        assert_eq!(revoked_with(world, &child["id"]), [child["id"].clone(), grandchild["id"].clone()]);
        assert_eq!(world.kinds_after(lsn), ["TokenRevoked", "TokenRevoked"]);
        assert!(!works(world, &child) && !works(world, &grandchild));
    });
}

#[test]
fn tokens_are_derived_from_derived_ones_so_often_and_no_more() {
    on_both_engines(|world| {
        let mut secret = world.people.agent.clone();
        for _ in 0..TOKEN_DEPTH_MAX {
            secret = text(&attenuate(world, &secret, &json!({})).output()["secret"]);
        }
        attenuate(world, &secret, &json!({})).refused(409, "wrong-state");
    });
}

#[test]
fn a_token_that_had_ended_when_its_origin_was_revoked_does_not_come_back() {
    on_both_engines(|world| {
        let parent = attenuate(world, &world.people.agent, &json!({})).output();
        let secret = text(&parent["secret"]);
        let child = attenuate(world, &secret, &json!({"expires_in_secs": 3600})).output();
        let grandchild = attenuate(world, &text(&child["secret"]), &json!({})).output();
        assert!(works(world, &child) && works(world, &grandchild));
        // The machine's clock is a day ahead for a moment.
        let now = world.clock.now();
        world.clock.set(now.plus(Duration::from_secs(86_400)));
        assert!(works(world, &parent) && !works(world, &child));
        assert_eq!(revoked_with(world, &parent["id"]), [parent["id"].clone()]);
        world.clock.set(now);
        assert!(!works(world, &parent) && !works(world, &child) && !works(world, &grandchild));
    });
}
