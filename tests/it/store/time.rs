//! Clocks that are wrong: only the times of the log never go back.
//!
//! Leases, expiry and due times follow the clock, and on Postgres that is the database's, for reads as for
//! writes.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::time::{Clock, Time};
use svc_tests::{Setup, World, on_both_engines, text};

const DAY: Duration = Duration::from_secs(86_400);

/// The times of the workspace's events, in the log's order.
fn event_times(world: &World) -> Vec<i64> {
    let workspace = world.database.id(world.id("workspace"));
    let sql = format!("select at from events where workspace_id = {workspace} order by lsn");
    world.database.rows(&sql).iter().map(|row| row[0].as_i64().unwrap()).collect()
}

fn token_until(world: &World, until: Time) -> Value {
    json!({"workspace_id": world.id("workspace"), "member_id": world.id("agent"), "label": "short",
        "capabilities": ["workspace:read"], "expires_at": until.to_string()})
}

#[test]
fn a_clock_that_was_ahead_for_a_moment_extends_nothing() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let thread = world.new_thread(&channel, "a task");
        let right = world.clock.now();
        world.clock.set(right.plus(DAY));
        world.new_thread(&channel, "written a day ahead");
        world.clock.set(right);

        let claim = world.agent("claim_thread", json!({"thread_id": thread, "lease_secs": 5}));
        assert_eq!(claim["assignment_expires_at"], json!(right.plus(Duration::from_secs(5))));
        let until = right.plus(Duration::from_secs(30));
        let token = text(&world.admin("mint_token", token_until(world, until))["secret"]);
        world.call(&token, "whoami", json!({})).output();

        world.pass(Duration::from_secs(5));
        let again = world.agent("claim_next_thread", json!({"channel_id": channel}));
        assert_eq!(again["id"], thread, "the lease ended after its 5 seconds");
        world.clock.advance(Duration::from_secs(25));
        world.call(&token, "whoami", json!({})).refused(401, "unauthenticated");

        let times = event_times(world);
        assert!(times.is_sorted(), "the times of the log never go back: {times:?}");
        assert_eq!(*times.last().unwrap(), right.plus(DAY).micros());
        let verified = world.admin("verify_event_chain", json!({"workspace_id": world.id("workspace")}));
        assert_eq!(verified["valid"], true);
    });
}

#[test]
fn a_lapsed_claim_is_shown_as_none_before_the_reaper_runs() {
    on_both_engines(|world| {
        let (workspace, agent) = (world.id("workspace"), world.id("agent"));
        let channel = world.new_channel("queue");
        let thread = world.new_thread(&channel, "a task");
        world.agent("claim_thread", json!({"thread_id": thread, "lease_secs": 60}));
        let held = json!({"workspace_id": workspace, "assignee_id": agent, "limit": 500});
        let is_held = |world: &World| {
            let list = world.agent("list_workspace_threads", held.clone());
            list["items"].as_array().unwrap().iter().any(|item| item["id"] == thread.as_str())
        };
        let shown = |world: &World| {
            let one = world.agent("get_thread", json!({"thread_id": thread}));
            let context = world.agent("get_thread_context", json!({"thread_id": thread}))["thread"].take();
            let listed = world.agent("list_threads", json!({"channel_id": channel}))["items"][0].take();
            [one, context, listed]
        };
        assert!(is_held(world) && shown(world).iter().all(|thread| !thread["assignee_id"].is_null()));
        world.clock.advance(Duration::from_secs(60));
        assert!(!is_held(world));
        for thread in shown(world) {
            for field in ["assignee_id", "claim_lease_id", "assignment_expires_at", "acknowledged_at"] {
                assert!(thread[field].is_null(), "{field}: {thread:#}");
            }
        }
    });
}

#[test]
fn servers_on_postgres_follow_the_clock_of_the_database() {
    for ahead in [86_400_000_000, -86_400_000_000] {
        if !svc_tests::database::engines().contains(&Engine::Postgres) {
            return;
        }
        let clock = Clock::wrong(ahead);
        let world = World::with(Engine::Postgres, Setup { clock: clock.clone(), ..Setup::default() });
        let right = clock.now().shifted(-ahead);
        let until = right.plus(Duration::from_secs(3600));
        let token = text(&world.admin("mint_token", token_until(&world, until))["secret"]);
        world.call(&token, "whoami", json!({})).output();
        let thread = world.new_thread(&world.new_channel("queue"), "a task");
        world.agent("claim_thread", json!({"thread_id": thread, "lease_secs": 600}));
        let claim = world.agent("get_claim", json!({"thread_id": thread}));
        let lapses: Time = serde_json::from_value(claim["lease_expires_at"].clone()).unwrap();
        assert!(lapses.since(right) < Duration::from_secs(900), "{lapses} by a clock {ahead} us ahead");
    }
}
