//! A member who waits for a thread is woken when its obstacle is removed.

use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::process::until;
use svc_tests::{World, on_both_engines, text};

fn footprint(items: &[(&str, &str)]) -> Value {
    let items: Vec<Value> = items.iter().map(|(kind, value)| json!({"kind": kind, "value": value})).collect();
    json!({"repo": "acme/app", "items": items})
}

fn thread(world: &World, channel: &str, title: &str, items: &[(&str, &str)]) -> String {
    let input = json!({"channel_id": channel, "title": title, "footprint": footprint(items)});
    text(&world.admin("create_thread", input)["id"])
}

/// A function that frees the resources of a claim.
type FreeResources = fn(&World, &Value);

/// The ways to free resources, each with its name.
const WAYS: [(&str, FreeResources); 7] = [
    ("release", |world, claim| {
        let input = json!({"thread_id": claim["id"], "claim_lease_id": claim["claim_lease_id"]});
        world.agent("release_claim", input);
    }),
    ("result", |world, claim| {
        world.agent("set_thread_result", json!({"thread_id": claim["id"], "result": {"done": true}}));
    }),
    ("close", |world, claim| {
        world.admin("transition_thread", json!({"thread_id": claim["id"], "action": "close"}));
    }),
    ("cancel", |world, claim| {
        world.admin("cancel_thread", json!({"thread_id": claim["id"], "reason": "no longer wanted"}));
    }),
    ("footprint", |world, claim| {
        let mut input = footprint(&[("path", "elsewhere")]);
        input["thread_id"] = claim["id"].clone();
        world.agent("set_thread_footprint", input);
    }),
    ("no footprint", |world, claim| {
        world.agent("set_thread_footprint", json!({"thread_id": claim["id"], "items": []}));
    }),
    ("lapse", |world, _| world.pass(Duration::from_secs(61))),
];

/// Waits for a thread of a channel, and returns the thread that wakes the wait during `happens`.
fn woken_by(world: &World, channel: &str, happens: impl FnOnce()) -> Option<String> {
    std::thread::scope(|scope| {
        let workspace = world.id("workspace");
        let wait = json!({"workspace_id": workspace, "channel_id": channel, "timeout_secs": 300});
        let (answered, answer) = mpsc::channel();
        scope.spawn(move || answered.send(world.admin("wait_for_ready", wait)));
        until("it waits", || world.service.parked_waits() == 1);
        happens();
        let woken = answer.recv_timeout(Duration::from_secs(5)).ok();
        if woken.is_none() {
            world.new_thread(channel, "to end the wait");
        }
        woken.map(|found| text(&found["thread_id"]))
    })
}

fn claim(world: &World, thread: &str, lease_secs: u64) -> Value {
    world.agent("claim_thread", json!({"thread_id": thread, "lease_secs": lease_secs}))
}

/// Parks the threads of a channel that cannot be claimed.
fn park(world: &World, channel: &str) {
    assert_eq!(world.admin("claim_next_thread", json!({"channel_id": channel})), json!({}));
}

#[test]
fn whoever_can_follow_a_thread_that_is_still_in_the_way_is_woken() {
    on_both_engines(|world| {
        let elsewhere = world.new_channel("elsewhere");
        let queue = world.new_channel("queue");
        let held = thread(world, &elsewhere, "held", &[("path", "x")]);
        let other = thread(world, &elsewhere, "other", &[("crate", "p")]);
        thread(world, &queue, "first", &[("path", "x/1"), ("crate", "p")]);
        let second = thread(world, &queue, "second", &[("path", "x/2")]);
        let claim_of_held = claim(world, &held, 600);
        claim(world, &other, 600);
        park(world, &queue);
        // Of the threads behind the path, the first returns to the queue, but it needs the crate as well.
        assert_eq!(woken_by(world, &queue, || (WAYS[1].1)(world, &claim_of_held)), Some(second.clone()));
        let next = world.admin("claim_next_thread", json!({"channel_id": queue}));
        assert_eq!(next["id"], json!(second));
    });
}

#[test]
fn a_lapsed_claim_that_nobody_has_ended_keeps_nobody_asleep() {
    on_both_engines(|world| {
        let elsewhere = world.new_channel("elsewhere");
        let queue = world.new_channel("queue");
        let lapsing = thread(world, &elsewhere, "lapsing", &[("path", "a")]);
        let held = thread(world, &elsewhere, "held", &[("path", "b")]);
        let waiting = thread(world, &queue, "waiting", &[("path", "a"), ("path", "b")]);
        claim(world, &lapsing, 10);
        let claim_of_held = claim(world, &held, 600);
        park(world, &queue);
        world.clock.advance(Duration::from_secs(20));
        let release = json!({"thread_id": held, "claim_lease_id": claim_of_held["claim_lease_id"]});
        assert_eq!(woken_by(world, &queue, || drop(world.agent("release_claim", release))), Some(waiting));
        // A new thread is parked at once, although only such a claim blocks it.
        let queue = world.new_channel("another-queue");
        let lapsing = thread(world, &elsewhere, "lapsing too", &[("path", "c")]);
        claim(world, &lapsing, 10);
        let skilled = thread(world, &queue, "for others", &[("path", "c/1")]);
        world.admin("set_required_skills", json!({"thread_id": skilled, "required_skills": ["cobol"]}));
        world.agent("set_skills", json!({"skills": ["cobol"]}));
        let next = world.agent("claim_next_thread", json!({"channel_id": queue}));
        assert_eq!(next, json!({}), "it is parked");
        world.clock.advance(Duration::from_secs(20));
        let another = || drop(thread(world, &queue, "another", &[("path", "c/1")]));
        assert!(woken_by(world, &queue, another).is_some());
    });
}

#[test]
fn reads_find_what_lapsed_claims_have_left_before_anybody_ends_them() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
        for (limits, parked, private) in [
            (json!({}), false, false),
            (json!({}), true, true),
            (json!({"max_attempts": 1}), true, false),
            (json!({"max_attempts": 1}), false, true),
        ] {
            let label = format!("{limits} {parked} {private}");
            let name = format!("queue-{}-{parked}-{private}", limits == json!({}));
            let queue = if private { world.new_private_channel(&name) } else { world.new_channel(&name) };
            let lapsing = thread(world, &queue, "lapsing", &[("path", "a"), ("slot", "gpu")]);
            let mut budget = limits.clone();
            budget["thread_id"] = json!(lapsing);
            world.admin("set_thread_budget", budget);
            let behind = thread(world, &queue, "behind it", &[("path", "a/b")]);
            thread(world, &queue, "behind it too", &[("path", "a/b")]);
            for thread in [&lapsing, &behind] {
                world.admin("set_thread_priority", json!({"thread_id": thread, "priority": 50}));
            }
            let wait = json!({"workspace_id": workspace, "channel_id": queue, "timeout_secs": 1});
            let claim = json!({"thread_id": lapsing, "lease_secs": 10});
            world.admin("claim_thread", claim);
            if parked {
                park(world, &queue);
            }
            let ready = |label: &str| {
                let counts = world.admin("get_workspace_occupancy", json!({"workspace_id": workspace}));
                let count = counts["threads"]["ready"].as_i64();
                count.unwrap_or_else(|| panic!("{label}: {counts:#}"))
            };
            let before = ready(&label);
            world.clock.advance(Duration::from_secs(20));
            let added = ready(&label) - before;
            let is_again = limits == json!({});
            assert_eq!(added, i64::from(is_again) + i64::from(parked), "{label}: counted as ready");
            let found = world.admin("wait_for_ready", wait);
            let context = world.admin("get_workspace_context", json!({"workspace_id": workspace}));
            let seen =
                world.call(&world.people.agent, "get_workspace_context", json!({"workspace_id": workspace}));
            let claimed = world.admin("claim_next_thread", json!({"channel_id": queue}));
            assert_eq!(claimed["title"], if is_again { "lapsing" } else { "behind it" }, "{label}");
            assert_eq!(found["thread_id"], claimed["id"], "{label}: {found}");
            assert_eq!(context["next"]["id"], claimed["id"], "{label}: {:#}", context["next"]);
            if private {
                assert_ne!(seen.output()["next"]["id"], claimed["id"], "{label}: hidden");
            }
            world.admin("archive_channel", json!({"channel_id": queue}));
            let release = json!({"thread_id": claimed["id"], "claim_lease_id": claimed["claim_lease_id"]});
            world.admin("release_claim", release);
        }
    });
}

#[test]
fn every_way_to_free_a_thread_wakes_who_waits_for_it() {
    on_both_engines(|world| {
        for (name, frees) in WAYS {
            for parked in [false, true] {
                for private in [false, true] {
                    let label = format!("{name} {parked} {private}");
                    let elsewhere = world.new_channel(&format!("elsewhere {label}").replace(' ', "-"));
                    let queue = format!("queue {label}").replace(' ', "-");
                    let channel =
                        if private { world.new_private_channel(&queue) } else { world.new_channel(&queue) };
                    let held = thread(world, &elsewhere, "held", &[("path", "a"), ("lane", "docs")]);
                    let waiting = thread(world, &channel, "waiting", &[("path", "a/b")]);
                    let claim = claim(world, &held, 60);
                    if parked {
                        park(world, &channel);
                    }
                    let found = woken_by(world, &channel, || frees(world, &claim));
                    assert_eq!(found, Some(waiting.clone()), "{label}");
                    for id in [held, waiting] {
                        let cancel = json!({"thread_id": id, "reason": "over"});
                        world.call(&world.people.admin, "cancel_thread", cancel);
                    }
                }
            }
        }
    });
}

#[test]
fn a_wait_finds_what_is_behind_many_that_are_obstructed() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let workspace = world.id("workspace");
        let held = thread(world, &channel, "held", &[("path", ".")]);
        world.agent("claim_thread", json!({"thread_id": held, "lease_secs": 600}));
        for number in 0..250 {
            thread(world, &channel, "waiting", &[("path", &format!("a/{number}"))]);
        }
        let free = json!({"repo": "acme/other", "items": [{"kind": "path", "value": "a"}]});
        let input = json!({"channel_id": channel, "title": "free", "footprint": free});
        let free = text(&world.admin("create_thread", input)["id"]);
        let wait = json!({"workspace_id": workspace, "channel_id": channel, "timeout_secs": 1});
        let found = world.agent("wait_for_ready", wait);
        let claimed = world.agent("claim_next_thread", json!({"channel_id": channel, "lease_secs": 600}));
        assert_eq!(claimed["id"], json!(free));
        assert_eq!(found["ready"], json!(true), "{found}");
        assert_eq!(world.agent("claim_next_thread", json!({"channel_id": channel})), json!({}));
    });
}
