//! Occupancy: who works, what limits the work, and how many threads wait, as far as the caller may see.

use serde_json::{Value, json};
use svc_tests::{World, on_both_engines, text};

/// The occupancy that a caller reads, without the members and threads that the world begins with.
fn occupancy(world: &World, token: &str) -> Value {
    world.call(token, "get_workspace_occupancy", json!({"workspace_id": world.id("workspace")})).output()
}

/// How much each count of threads has grown between two readings.
fn growth(before: &Value, after: &Value) -> Vec<i64> {
    let count = |of: &Value, name: &str| of["threads"][name].as_i64().unwrap();
    let names = ["ready", "deferred", "claimed", "in_review", "dead"];
    names.iter().map(|name| count(after, name) - count(before, name)).collect()
}

/// How many live claims a member holds; none if it is idle.
fn claims(of: &Value, member: &str) -> Option<i64> {
    let is_idle = of["idle"].as_array().unwrap().iter().any(|idle| idle["member_id"] == json!(member));
    let busy = of["busy"].as_array().unwrap().iter().find(|busy| busy["member_id"] == json!(member));
    assert_eq!(busy.is_none(), is_idle, "{member} is either busy or idle");
    busy.map(|busy| busy["claims"].as_i64().unwrap())
}

#[test]
fn the_occupancy_counts_what_the_caller_may_see() {
    on_both_engines(|world| {
        let (worker, token) = world.new_agent("stagehand");
        let (channel, hidden) = (world.new_channel("open-plan"), world.new_private_channel("back-office"));
        let admin = &world.people.admin;
        let before = occupancy(world, admin);
        let seen_before = occupancy(world, &token);
        assert_eq!((claims(&before, &worker), claims(&seen_before, &worker)), (None, None));
        let thread = |channel: &str, value: &str| {
            let items = json!([{"kind": "slot", "value": "Press"}, {"kind": "path", "value": value}]);
            let footprint = json!({"repo": "acme/app", "items": items});
            let input = json!({"channel_id": channel, "title": value, "footprint": footprint});
            text(&world.admin("create_thread", input)["id"])
        };
        let (held, waiting, secret) = (thread(&channel, "a"), thread(&channel, "a/b"), thread(&hidden, "z"));
        world.call(&token, "claim_thread", json!({"thread_id": held})).output();
        world.admin("claim_thread", json!({"thread_id": secret}));
        let judged = world.new_thread(&channel, "judged");
        world.admin("transition_thread", json!({"thread_id": judged, "action": "start_review"}));
        let failing = world.new_thread(&channel, "failing");
        world.admin("set_thread_budget", json!({"thread_id": failing, "max_attempts": 1}));
        let claim = world.call(&token, "claim_thread", json!({"thread_id": failing})).output();
        let release = json!({"thread_id": failing, "claim_lease_id": claim["claim_lease_id"]});
        world.call(&token, "release_claim", release).output();
        let workspace = world.id("workspace");
        world.admin("set_slot_capacity", json!({"workspace_id": workspace, "slot": "press", "capacity": 9}));
        world.admin("pause_repo", json!({"workspace_id": workspace, "repo": "acme/paused"}));
        let after = occupancy(world, admin);
        // The waiting one is in the queue until somebody meets it there.
        assert_eq!(growth(&before, &after), [1, 1, 2, 1, 1], "{after:#}");
        assert_eq!(claims(&after, &worker), Some(1));
        let seen = occupancy(world, &token);
        assert_eq!(growth(&seen_before, &seen), [1, 1, 1, 1, 1], "the hidden claim does not show");
        for shown in [&after, &seen] {
            let slots = shown["slots"].as_array().unwrap();
            let press = slots.iter().find(|slot| slot["slot"] == json!("press")).unwrap();
            assert_eq!(press, &json!({"slot": "press", "capacity": 9, "used": 2}));
            assert_eq!(shown["pauses"][0]["repo"], json!("acme/paused"));
        }
        world.admin("claim_next_thread", json!({"channel_id": channel}));
        assert_eq!(growth(&before, &occupancy(world, admin)), [0, 1, 2, 1, 1], "{waiting} is parked");
    });
}
