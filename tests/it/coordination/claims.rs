//! Claims: one holder at a time, under a lease with a fencing id.
//!
//! Only members with the skills of the thread can claim it.

use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::{World, on_both_engines, text};

/// Creates a thread that the agent has claimed. Returns its id and lease.
fn claimed(world: &World, channel: &str, lease_secs: u64) -> (String, String) {
    let thread = world.new_thread(channel, "a task");
    let claim = world.agent("claim_thread", json!({"thread_id": thread, "lease_secs": lease_secs}));
    (thread, text(&claim["claim_lease_id"]))
}

/// Returns every operation of a holder, with the lease id under which it is called.
fn holder_calls(world: &World, thread: &str, lease: &str) -> Vec<(&'static str, Value)> {
    let fields = |more: Value| {
        let mut input = json!({"thread_id": thread, "claim_lease_id": lease});
        input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        input
    };
    vec![
        ("acknowledge_claim", fields(json!({}))),
        ("renew_claim", fields(json!({"lease_secs": 60}))),
        ("release_claim", fields(json!({}))),
        ("hand_off_claim", fields(json!({"to_member_id": world.people.bystander_id}))),
        ("set_thread_result", fields(json!({"result": {"done": true}}))),
        ("transition_thread", fields(json!({"action": "start_review"}))),
    ]
}

/// Checks that every operation of a holder with `lease` is rejected with 409 and changes nothing.
fn check_lease_is_dead(world: &World, thread: &str, lease: &str, why: &str) {
    let before = world.database.dump();
    for (operation, input) in holder_calls(world, thread, lease) {
        let answer = world.call(&world.people.agent, operation, input);
        assert_eq!(
            (answer.status, answer.code()),
            (409, "stale-claim"),
            "{operation} {why}: {:#}",
            answer.body
        );
    }
    assert_eq!(world.database.dump(), before, "{why}");
}

#[test]
fn an_expired_lease_fences_off_its_holder() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let (thread, lapsed) = claimed(world, &channel, 60);
        world.clock.advance(Duration::from_secs(61));
        // The reaper has not run yet, and only operations that do not end a claim may differ.
        for (operation, input) in holder_calls(world, &thread, &lapsed) {
            if operation != "transition_thread" {
                world.call(&world.people.agent, operation, input).refused(409, "stale-claim");
            }
        }
        world.pass(Duration::from_secs(1));
        check_lease_is_dead(world, &thread, &lapsed, "after the reaper");
        let kinds = world.kinds_after(0);
        assert_eq!(kinds.iter().filter(|kind| *kind == "ClaimExpired").count(), 1);

        // The same member claims it again: only the new lease counts.
        let again = world.agent("claim_next_thread", json!({"channel_id": channel}));
        assert_eq!(again["id"], thread);
        assert_ne!(again["claim_lease_id"], lapsed);
        check_lease_is_dead(world, &thread, &lapsed, "under a newer claim");
        let lease = text(&again["claim_lease_id"]);
        world.agent("release_claim", json!({"thread_id": thread, "claim_lease_id": lease}));
        check_lease_is_dead(world, &thread, &lease, "after a release");
    });
}

#[test]
fn a_transferred_claim_belongs_to_its_receiver_alone() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let (thread, lease) = claimed(world, &channel, 600);
        let to = &world.people.bystander_id;
        let input = json!({"thread_id": thread, "claim_lease_id": lease, "to_member_id": to});
        let handed = world.agent("hand_off_claim", input);
        assert_eq!((handed["assignee_id"].as_str(), &handed["acknowledged_at"]), (Some(&**to), &Value::Null));
        let changed = world.kinds_after(world.lsn() - 1);
        assert_eq!(changed, ["ThreadAssignmentChanged"]);
        assert_eq!(handed["pin"]["uri"], format!("svc:event/{}", world.lsn()));
        check_lease_is_dead(world, &thread, &lease, "after a hand-over");

        let new = text(&handed["claim_lease_id"]);
        let result = json!({"thread_id": thread, "claim_lease_id": new, "result": {"by": "bystander"}});
        // A lease id is a fence, not a credential.
        let stolen = world.call(&world.people.agent, "set_thread_result", result.clone());
        stolen.refused(409, "claim-not-held");
        let set = world.call(&world.people.bystander, "set_thread_result", result).output();
        assert_eq!(set["produced_by"].as_str(), Some(&**to));
        let read = world.agent("get_thread", json!({"thread_id": thread}));
        assert_eq!((&read["assignee_id"], &read["has_result"]), (&Value::Null, &json!(true)));
    });
}

#[test]
fn a_claim_requires_skills_met_dependencies_and_an_open_thread() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let next = || world.agent("claim_next_thread", json!({"channel_id": channel}))["title"].clone();
        let open = |title: &str, more: Value| {
            let mut input = json!({"channel_id": channel, "title": title});
            input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            text(&world.admin("create_thread", input)["id"])
        };
        let skilled = open("needs rust", json!({"required_skills": ["rust"]}));
        let first = open("first", json!({}));
        open("after first", json!({"depends_on": [first]}));
        open("urgent", json!({"priority": 5}));

        assert_eq!(next(), "urgent");
        assert_eq!(next(), "first");
        assert_eq!(next(), Value::Null, "one needs a skill, the other waits");
        let refused = world.call(&world.people.agent, "claim_thread", json!({"thread_id": skilled}));
        assert_eq!(refused.refused(409, "not-claimable")["reason"], "missing-skills");

        world.agent("set_skills", json!({"skills": ["rust", "python"]}));
        assert_eq!(next(), "needs rust");
        // A result does not finish a thread; closing does.
        world.agent("set_thread_result", json!({"thread_id": first, "result": {}}));
        assert_eq!(next(), Value::Null);
        world.agent("transition_thread", json!({"thread_id": first, "action": "close"}));
        assert_eq!(next(), "after first");
        assert_eq!(next(), Value::Null);

        let held = world.call(&world.people.bystander, "claim_thread", json!({"thread_id": skilled}));
        assert_eq!(held.refused(409, "not-claimable")["reason"], "claimed");
        world.agent("transition_thread", json!({"thread_id": skilled, "action": "close"}));
        world
            .call(&world.people.agent, "renew_claim", json!({"thread_id": skilled}))
            .refused(404, "not-found");
        world.admin("transition_thread", json!({"thread_id": skilled, "action": "reopen"}));
        assert_eq!(next(), "needs rust", "a reopened thread can be claimed again");
    });
}

#[test]
fn an_archived_channel_offers_no_thread() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        world.new_thread(&channel, "a task");
        world.admin("archive_channel", json!({"channel_id": channel}));
        assert_eq!(world.agent("claim_next_thread", json!({"channel_id": channel})), json!({}));
        world.admin("unarchive_channel", json!({"channel_id": channel}));
        assert_eq!(world.agent("claim_next_thread", json!({"channel_id": channel}))["title"], "a task");
    });
}

#[test]
fn an_unacknowledged_claim_is_reported_once() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let count = || world.kinds_after(0).iter().filter(|kind| *kind == "ClaimUnacknowledged").count();
        let before = count();
        claimed(world, &channel, 3600);
        let (acknowledged, _) = claimed(world, &channel, 3600);
        world.agent("acknowledge_claim", json!({"thread_id": acknowledged}));
        world.pass(Duration::from_secs(119));
        let of_fixture = count() - before;
        world.pass(Duration::from_secs(2));
        world.pass(Duration::from_secs(200));
        assert_eq!((of_fixture, count() - before), (0, 1 + UNACKNOWLEDGED_IN_FIXTURE));
    });
}

/// The fixture's claimed thread was not acknowledged either.
const UNACKNOWLEDGED_IN_FIXTURE: usize = 1;
