//! Whoever waits for a thread is woken by whatever takes away what was in its way.

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

/// A way to free what a claim of a thread holds.
type Frees = fn(&World, &Value);

/// Each way with its name.
const WAYS: [(&str, Frees); 7] = [
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

#[test]
fn every_way_to_free_a_thread_wakes_who_waits_for_it() {
    on_both_engines(|world| {
        let workspace = world.id("workspace");
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
                    let claim = json!({"thread_id": held, "lease_secs": 60});
                    let claim = world.agent("claim_thread", claim);
                    if parked {
                        let next = world.admin("claim_next_thread", json!({"channel_id": channel}));
                        assert_eq!(next, json!({}), "{label}");
                    }
                    std::thread::scope(|scope| {
                        let wait =
                            json!({"workspace_id": workspace, "channel_id": channel, "timeout_secs": 300});
                        let (answered, answer) = mpsc::channel();
                        scope.spawn(move || answered.send(world.admin("wait_for_ready", wait)));
                        until("it waits", || world.service.parked_waits() == 1);
                        frees(world, &claim);
                        let woken = answer.recv_timeout(Duration::from_secs(5)).is_ok();
                        if !woken {
                            world.new_thread(&channel, "to end the wait");
                        }
                        assert!(woken, "{label}");
                    });
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
        let (channel, workspace) = (world.new_channel("queue"), world.id("workspace"));
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
