//! Occupancy: the active members, the limits of work, and the number of waiting threads, as far as the caller
//! may see.

use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::{World, on_both_engines, text};

use crate::coordination::footprints::{claim, thread_touching};

/// Returns the occupancy that a caller reads, without the members and threads that the world begins with.
fn occupancy(world: &World, token: &str) -> Value {
    world.call(token, "get_workspace_occupancy", json!({"workspace_id": world.id("workspace")})).output()
}

/// Returns the growth of each count of threads between two readings.
fn growth(before: &Value, after: &Value) -> Vec<i64> {
    let count = |of: &Value, name: &str| of["threads"][name].as_i64().unwrap();
    let names = ["ready", "deferred", "claimed", "in_review", "dead"];
    names.iter().map(|name| count(after, name) - count(before, name)).collect()
}

/// Returns how many live claims a member holds, or `None` if it is idle.
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
        let channel = world.new_channel("open-plan");
        let hidden = world.new_private_channel("back-office");
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
        let held = thread(&channel, "a");
        let waiting = thread(&channel, "a/b");
        let secret = thread(&hidden, "z");
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
        // The waiting one is in the queue until a request examines it there.
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

/// Adds many threads that are claimed and in review, as copies of one, before all others.
fn multiply(world: &World, thread: &str, times: usize) {
    let thread = world.database.id(thread.parse::<uuid::Uuid>().unwrap());
    let [new_thread, new_lease] = match world.engine() {
        Engine::Sqlite => ["randomblob(16)"; 2],
        Engine::Postgres => ["gen_random_uuid()"; 2],
    };
    let copied =
        "workspace_id, channel_id, depth, title, priority, skill_set, blocked, has_result, worked_micros,
        created_at, assignee_id, claimed_at, assignment_expires_at";
    world.database.execute(&format!(
        "insert into threads (id, claim_lease_id, state, lsn, {copied})
         with recursive copies (number) as (
             select 1 union all select number + 1 from copies where number < {times})
         select {new_thread}, {new_lease}, 'in_review', -number, {copied}
         from threads, copies where id = {thread}"
    ));
}

#[test]
fn threads_that_are_not_looked_at_are_said_to_be_left_out() {
    on_both_engines(|world| {
        let [shown, hidden] = [world.new_channel("shown"), world.new_private_channel("hidden")];
        let [before, seen_before] =
            [&world.people.admin, &world.people.agent].map(|who| occupancy(world, who));
        assert_eq!(before["threads"]["at_least"], json!([]));
        let secret = world.new_thread(&hidden, "secret");
        world.admin("claim_thread", json!({"thread_id": secret, "lease_secs": 600}));
        multiply(world, &secret, 900);
        let seen = occupancy(world, &world.people.agent);
        assert_eq!(seen, seen_before, "what is hidden is looked at and not counted");
        let after = occupancy(world, &world.people.admin);
        assert_eq!(growth(&before, &after), [0, 0, 901, 900, 0]);
        assert_eq!(after["threads"]["at_least"], json!([]));

        multiply(world, &secret, 100);
        let open = world.new_thread(&shown, "open");
        world.agent("claim_thread", json!({"thread_id": open, "lease_secs": 600}));
        let seen = occupancy(world, &world.people.agent);
        assert_eq!(seen["threads"]["at_least"], json!(["claimed", "in_review"]));
        assert_eq!(
            (&seen["threads"]["claimed"], claims(&seen, &world.id("agent").to_string())),
            (&json!(0), None)
        );
        let after = occupancy(world, &world.people.admin);
        assert_eq!(after["threads"]["claimed"], json!(1_000));
        assert_eq!(claims(&after, &world.id("admin").to_string()), Some(1_000));
    });
}

/// Claims of an import use slots whose use was not counted.
#[test]
fn a_slot_whose_uses_nobody_has_counted_fills_up_too() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let input = json!({"workspace_id": world.id("workspace"), "slot": "press", "capacity": 2});
        world.admin("set_slot_capacity", input);
        let thread = |title: &str| thread_touching(world, &channel, title, &[("slot", "press")]);
        let first = thread("first");
        let second = thread("second");
        let third = thread("third");
        let holding = claim(world, &first);
        world.database.execute("delete from slot_uses");
        claim(world, &second);
        let uses = || world.database.number("select max(uses) from slot_uses");
        assert_eq!(uses(), 2);
        world.database.execute("delete from slot_uses");
        let refused = world.call(&world.people.agent, "claim_thread", json!({"thread_id": third}));
        refused.refused(409, "footprint-conflict");
        let held = json!({"thread_id": first, "claim_lease_id": holding["claim_lease_id"]});
        world.agent("release_claim", held);
        claim(world, &third);
        assert_eq!(uses(), 2);
    });
}

#[test]
fn slots_and_pauses_of_a_workspace_are_bounded() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        let slot = |number: usize| {
            let input = json!({"workspace_id": workspace, "slot": format!("slot {number}"), "capacity": 1});
            world.call(&world.people.admin, "set_slot_capacity", input)
        };
        let pause = |number: usize| {
            let input = json!({"workspace_id": workspace, "repo": format!("acme/{number}")});
            world.call(&world.people.admin, "pause_repo", input)
        };
        // Nearly the maximum number.
        let row = world.database.id(workspace);
        let id = match world.engine() {
            Engine::Sqlite => "unhex(printf('%032x', n.i))",
            Engine::Postgres => "cast(lpad(to_hex(n.i), 32, '0') as uuid)",
        };
        for (columns, values) in [
            ("slots (workspace_id, obstacle, slot_key, slot, capacity)", "1"),
            ("repo_pauses (workspace_id, obstacle, repo_key, repo, paused_at, lsn)", "0, 100000 + n.i"),
        ] {
            let filled = format!("select {row}, {id}, 'filled/' || n.i, 'filled/' || n.i, {values} from n");
            world.database.insert_many(990, &format!("insert into {columns} {filled}"));
        }
        for call in [&slot as &dyn Fn(usize) -> _, &pause] {
            let answers: Vec<_> = (0..=10).map(call).collect();
            let refused = answers.iter().position(|answer| answer.status != 200);
            // The world has some already.
            assert!(refused.is_some_and(|first| first > 5), "{refused:?}");
            answers[10].clone().refused(409, "wrong-state");
        }
    });
}
