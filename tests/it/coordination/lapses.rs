//! A lapsed claim is a failed attempt, whichever request finds it first.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::client::Answer;
use svc_tests::{World, on_both_engines, text};

use crate::coordination::budgets::{budget, claim, limited, report, with};
use crate::op::chores::copy_claim;

/// Returns the kinds of a thread's events after a position.
fn kinds_of(world: &World, thread: &str, lsn: i64) -> Vec<String> {
    let events = world.admin("list_thread_events", with(thread, json!({"limit": 500})));
    let after = |event: &&Value| event["lsn"].as_i64().unwrap() > lsn;
    events["items"].as_array().unwrap().iter().filter(after).map(|event| text(&event["kind"])).collect()
}

/// Returns the dead letters of a thread, by whether they are settled.
fn letters(world: &World, thread: &str) -> Vec<bool> {
    let thread = world.database.id(thread.parse::<uuid::Uuid>().unwrap());
    let sql =
        format!("select settled_at is not null from dead_letters where thread_id = {thread} order by lsn");
    let is_true = |value: &Value| *value == json!(true) || *value == json!(1);
    world.database.rows(&sql).iter().map(|row| is_true(&row[0])).collect()
}

fn close(world: &World, thread: &str) {
    world.admin("transition_thread", with(thread, json!({"action": "close"})));
}

fn cancel(world: &World, thread: &str) {
    world.admin("cancel_thread", with(thread, json!({"reason": "not needed"})));
}

#[test]
fn closing_and_cancelling_count_a_lapsed_claim_as_an_attempt() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let ends: [(fn(&World, &str), &[&str]); 2] = [
            (close, &["ThreadStateChanged"]),
            (cancel, &["ThreadStateChanged", "ThreadCancelled", "MessagePosted"]),
        ];
        for (end, more) in ends {
            let thread = limited(world, &channel, json!({"max_attempts": 2}));
            let attempts = || budget(world, &thread)["used"]["attempts"].clone();
            claim(world, &thread, 60);
            world.clock.advance(Duration::from_secs(60));
            let lsn = world.lsn();
            end(world, &thread);
            let lapsed = ["ClaimExpired", "ThreadAssignmentChanged"];
            assert_eq!(kinds_of(world, &thread, lsn), [&lapsed[..], more].concat());
            assert_eq!((attempts(), letters(world, &thread)), (json!(1), vec![]));

            // The attempt after the last one fails the thread, and the end of the thread settles that.
            world.admin("transition_thread", with(&thread, json!({"action": "reopen"})));
            claim(world, &thread, 60);
            world.clock.advance(Duration::from_secs(60));
            let lsn = world.lsn();
            end(world, &thread);
            let failed = ["ClaimFailed", "ThreadAssignmentChanged", "MessagePosted", "ThreadNotice"];
            assert_eq!(kinds_of(world, &thread, lsn), [&failed[..], more].concat());
            assert_eq!((attempts(), letters(world, &thread)), (json!(2), vec![true]));
            let read = world.agent("get_thread", with(&thread, json!({})));
            assert_eq!((&read["dead"], &read["state"]), (&json!(false), &json!("closed")));

            // Closing and reopening does not bypass the limit.
            world.admin("transition_thread", with(&thread, json!({"action": "reopen"})));
            let refused = world.call(&world.people.agent, "claim_thread", with(&thread, json!({})));
            assert_eq!(refused.refused(409, "budget-exhausted")["exceeded"], json!(["max_attempts"]));
            world.admin("update_thread_budget", with(&thread, json!({"max_attempts": null})));
            claim(world, &thread, 60);
            let lsn = world.lsn();
            end(world, &thread);
            let live = kinds_of(world, &thread, lsn);
            assert!(!live.contains(&"ClaimExpired".to_owned()), "a live claim is no attempt: {live:?}");
            assert_eq!(attempts(), 2);
        }
    });
}

#[test]
fn a_lapsed_claim_is_judged_by_the_limits_under_which_it_was_held() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        for (before, after, dead) in [(1, 9, true), (9, 1, false)] {
            for operation in ["set_thread_budget", "update_thread_budget"] {
                let thread = limited(world, &channel, json!({"max_attempts": before}));
                claim(world, &thread, 60);
                world.clock.advance(Duration::from_secs(60));
                let lsn = world.lsn();
                let set = world.agent(operation, with(&thread, json!({"max_attempts": after})));
                assert_eq!(set["used"]["attempts"], 1, "{operation} to {after}");
                let end = if dead { "ClaimFailed" } else { "ClaimExpired" };
                assert_eq!(kinds_of(world, &thread, lsn)[0], end, "{operation} to {after}");
                world.pass(Duration::from_secs(60));
                let read = world.agent("get_thread", with(&thread, json!({})));
                assert_eq!((&read["dead"], &read["exhausted"]), (&json!(dead), &json!(!dead)));
                assert_eq!(waits_for(world, &thread, "budget"), !dead);
                assert_eq!(waits_for(world, &thread, "dead-letter"), dead);
                close(world, &thread);
            }
        }
    });
}

/// Returns whether a thread is listed as deferred for a reason.
fn waits_for(world: &World, thread: &str, reason: &str) -> bool {
    let input = json!({"workspace_id": world.id("workspace"), "limit": 500, "reason": reason});
    let page = world.agent("list_deferred_threads", input);
    let found = page["items"].as_array().unwrap().iter().find(|found| found["thread_id"] == json!(thread));
    found.is_some_and(|found| found["obstacles"][0]["reason"] == json!(reason))
}

/// Checks that the answer of `claim_thread` agrees with the context before it.
fn claims_as_the_context_says(world: &World, token: &str, thread: &str) -> Answer {
    let context = world.call(token, "get_thread_context", with(thread, json!({}))).output();
    let refusals = context["claim_refusals"].as_array().unwrap();
    let answer = world.call(token, "claim_thread", with(thread, json!({"lease_secs": 60})));
    match refusals.first() {
        None => assert_eq!(answer.status, 200, "{:#}", answer.body),
        Some(first) => {
            for field in ["type", "title", "detail", "reason", "exceeded"] {
                assert_eq!(answer.body[field], first[field], "{:#}\n{:#}", answer.body, context);
            }
        }
    }
    answer
}

#[test]
fn the_context_refuses_what_a_claim_refuses_also_before_a_lapse_is_noticed() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let agent = &world.people.agent;
        for limits in [
            json!({}),
            json!({"max_attempts": 1}),
            json!({"max_attempts": 2}),
            json!({"max_wall_secs": 60}),
            json!({"max_wall_secs": 61}),
            json!({"max_wall_secs": 60, "max_attempts": 1}),
            json!({"max_tokens": 5}),
            json!({"max_tokens": 6}),
            json!({"max_turns": 0}),
        ] {
            let thread = limited(world, &channel, limits.clone());
            let mut answers = Vec::new();
            for _ in 0..3 {
                let [over, dead] = ["budget", "dead-letter"].map(|reason| waits_for(world, &thread, reason));
                let answer = claims_as_the_context_says(world, agent, &thread);
                assert_eq!(over, answer.status == 409, "{limits}: listed as it is refused");
                assert_eq!(dead, over && limits != json!({"max_turns": 0}), "{limits}: it has failed");
                answers.push(answer.status);
                if let Some(lease) = answer.body["claim_lease_id"].as_str() {
                    let id = format!("of {lease}");
                    report(world, &thread, lease, &id, json!({"tokens": 5}));
                    claims_as_the_context_says(world, agent, &thread);
                }
                world.clock.advance(Duration::from_secs(60));
            }
            let times = answers.iter().filter(|status| **status == 200).count();
            let wanted = match limits.to_string().as_str() {
                "{}" => 3,
                r#"{"max_turns":0}"# => 0,
                r#"{"max_attempts":2}"# | r#"{"max_wall_secs":61}"# | r#"{"max_tokens":6}"# => 2,
                _ => 1,
            };
            assert_eq!(times, wanted, "{limits}");
            close(world, &thread);
        }
    });
}

#[test]
fn a_clock_that_is_set_back_leaves_no_refusal_without_a_limit() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let thread = limited(world, &channel, json!({"max_wall_secs": 500}));
        let lease = claim(world, &thread, 400);
        let start = world.clock.now();
        world.clock.advance(Duration::from_secs(50));
        world.admin("update_thread_budget", with(&thread, json!({"max_wall_secs": 20})));
        world.clock.set(start.plus(Duration::from_secs(10)));
        // 10 of 20 seconds remain again, and the claim is live again.
        let held = with(&thread, json!({"claim_lease_id": lease}));
        let renewed = world.agent("renew_claim", held.clone());
        assert_eq!(renewed["lease_expires_at"], json!(start.plus(Duration::from_secs(20))));
        assert_eq!(world.agent("get_thread", with(&thread, json!({})))["exhausted"], json!(false));
        let released = world.agent("release_claim", held);
        assert_eq!(released["dead"], json!(false));
        claims_as_the_context_says(world, &world.people.agent, &thread).output();
    });
}

/// Creates a thread in a new channel that the agent has claimed, and 299 like it, whose claims end in a
/// minute.
fn claimed_300_times(world: &World, channel: &str) {
    let thread = world.new_thread(&world.new_channel(channel), "one of many");
    world.agent("claim_thread", with(&thread, json!({"lease_secs": 60})));
    copy_claim(world, &thread, 299, world.clock.now().plus(Duration::from_secs(60)).micros());
}

#[test]
fn very_many_claims_end_in_steps() {
    on_both_engines(|world| {
        let many = "from threads where title = 'one of many'";
        let ended_in_steps = |why: &str| {
            let held = world.database.number(&format!("select count(*) {many} and assignee_id is not null"));
            assert_eq!(held, 0, "{why}");
            if world.engine() == Engine::Postgres {
                let transactions = format!("select count(distinct xmin::text) {many}");
                assert!(world.database.number(&transactions) > 1, "{why}: in one transaction");
            }
            world.database.execute("update threads set title = 'done' where title = 'one of many'");
        };
        claimed_300_times(world, "first");
        world.clock.advance(Duration::from_secs(61));
        let next = world.new_thread(&world.new_channel("next"), "next");
        world.agent("claim_thread", with(&next, json!({})));
        ended_in_steps("a claim comes after those that have lapsed");
        claimed_300_times(world, "second");
        let agent = json!({"member_id": world.id("agent")});
        let frozen = world.admin("freeze_member", agent.clone());
        ended_in_steps("a freeze ends all claims of its member");
        assert_eq!(frozen["claims_released"], json!(301));
        let last = world.admin("list_frozen_members", json!({"workspace_id": world.id("workspace")}));
        assert_eq!(last["items"][0]["member_id"], agent["member_id"]);
        world.admin("unfreeze_member", agent);
        claimed_300_times(world, "third");
        let person = world.database.id(world.id("person"));
        world
            .database
            .execute(&format!("update threads set assignee_id = {person} where title = 'one of many'"));
        world.admin("delete_scim_user", json!({"id": world.id("person")}));
        ended_in_steps("a removal ends all claims of its member");
    });
}
