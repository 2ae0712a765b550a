//! All claims of a member end at once, whatever the cause.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::database::engines;
use svc_tests::home::features;
use svc_tests::{Setup, World, text};

use crate::coordination::budgets::{budget, with};

fn on_each_engine(test: impl Fn(&World)) {
    for engine in engines() {
        test(&World::with(engine, Setup { features, ..Setup::default() }));
    }
}

fn send(world: &World, member: &Value, for_good: bool) -> Value {
    if for_good {
        return world.admin("send_home", json!({"member_id": member}))["ended"].clone();
    }
    world.admin("freeze_member", json!({"member_id": member}))["claims_released"].clone()
}

#[test]
fn the_claims_of_a_member_end_together_with_their_reason() {
    on_each_engine(|world| {
        let agent = json!(world.id("agent"));
        let channel = world.new_channel("queue");
        let thread = |title: &str, limits: Value, footprint: Value| {
            let input = json!({"channel_id": channel, "title": title, "footprint": footprint});
            let thread = text(&world.admin("create_thread", input)["id"]);
            world.admin("set_thread_budget", with(&thread, limits));
            thread
        };
        let path = json!({"repo": "acme/app", "items": [{"kind": "path", "value": "src"}]});
        for (for_good, reason) in [(false, "frozen"), (true, "deactivated")] {
            let plain = thread("plain", json!({}), path.clone());
            let failing = thread("failing", json!({"max_attempts": 1}), Value::Null);
            let lapsed = thread("lapsed", json!({}), Value::Null);
            let others = thread("others", json!({}), Value::Null);
            let waiting = thread("waiting", json!({}), path.clone());
            for (thread, secs) in [(&lapsed, 10), (&plain, 600), (&failing, 600)] {
                world.agent("claim_thread", with(thread, json!({"lease_secs": secs})));
            }
            world.admin("claim_thread", with(&others, json!({"lease_secs": 600})));
            let next = || world.admin("claim_next_thread", json!({"channel_id": channel}))["id"].clone();
            assert_eq!(next(), Value::Null, "the last one is parked");
            world.clock.advance(Duration::from_secs(20));
            let lsn = world.lsn();
            assert_eq!(send(world, &agent, for_good), 2, "the lapsed one is no longer its own");
            let ends = [
                ["ThreadAssignmentChanged", "ClaimFailed", "ThreadAssignmentChanged"].as_slice(),
                ["MessagePosted", "ThreadNotice", "ClaimExpired", "ThreadAssignmentChanged"].as_slice(),
            ];
            let ends = [if for_good { &[] } else { ["MemberFrozen"].as_slice() }, ends[0], ends[1]];
            assert_eq!(world.kinds_after(lsn), ends.concat());
            let last = |thread: &str, field: &str| {
                let events = world.admin("list_thread_events", with(thread, json!({"limit": 500})));
                let events = events["items"].as_array().unwrap().clone();
                let last = events.iter().rfind(|event| event["kind"] == "ThreadAssignmentChanged");
                last.unwrap()["payload"][field].clone()
            };
            let reasons = [&plain, &failing, &lapsed].map(|thread| last(thread, "reason"));
            assert_eq!(reasons, [json!(reason), json!("failed"), json!("expired")]);
            for (thread, secs) in [(&plain, 20), (&failing, 20), (&lapsed, 10)] {
                assert_eq!(budget(world, thread)["used"]["wall_secs"], secs);
                assert_eq!(budget(world, thread)["used"]["attempts"], 1);
            }
            assert_eq!(last(&others, "reason"), "claimed", "those of other members go on");
            assert_eq!(send(world, &agent, for_good), 0, "once");
            assert_eq!([next(), next()], [json!(plain), json!(lapsed)]);
            assert_eq!(next(), Value::Null, "one of the two that touch the same");
            for thread in [plain, failing, lapsed, others, waiting] {
                world.admin("transition_thread", with(&thread, json!({"action": "close"})));
            }
            world.admin("unfreeze_member", json!({"member_id": agent}));
        }
    });
}

#[test]
fn many_claims_end_in_one_transaction() {
    let world = World::with(Engine::Sqlite, Setup { features, ..Setup::default() });
    let agent = json!(world.id("agent"));
    let channel = world.new_channel("queue");
    for number in 0..300 {
        let thread = world.new_thread(&channel, &format!("task {number}"));
        world.agent("claim_thread", with(&thread, json!({})));
    }
    let lsn = world.lsn();
    assert_eq!(send(&world, &agent, true), 300);
    let kinds = world.kinds_after(lsn);
    assert_eq!((kinds.len(), kinds.iter().all(|kind| kind == "ThreadAssignmentChanged")), (300, true));
}
