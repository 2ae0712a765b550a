//! Budgets of threads: usage counts once, and work stops once a limit is used up.

use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::{World, on_both_engines, text};

/// Returns a thread with a budget.
pub fn limited(world: &World, channel: &str, limits: Value) -> String {
    let thread = world.new_thread(channel, "a task");
    world.admin("set_thread_budget", with(&thread, limits));
    thread
}

/// Returns the input about a thread with additional fields.
pub fn with(thread: &str, more: Value) -> Value {
    let mut input = json!({"thread_id": thread});
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    input
}

pub fn claim(world: &World, thread: &str, lease_secs: u64) -> String {
    text(&world.agent("claim_thread", with(thread, json!({"lease_secs": lease_secs})))["claim_lease_id"])
}

pub fn budget(world: &World, thread: &str) -> Value {
    world.agent("get_thread_budget", with(thread, json!({})))
}

pub fn report(world: &World, thread: &str, lease: &str, id: &str, numbers: Value) -> Value {
    let mut input = with(thread, numbers);
    input["claim_lease_id"] = json!(lease);
    input["report_id"] = json!(id);
    world.agent("report_usage", input)
}

fn next(world: &World, channel: &str) -> Value {
    world.agent("claim_next_thread", json!({"channel_id": channel, "lease_secs": 600}))["id"].clone()
}

fn dead_letters(world: &World) -> Vec<Value> {
    let page = world.admin("list_dead_letters", json!({"workspace_id": world.id("workspace")}));
    let fixture = json!(world.id("dead_letter"));
    page["items"].as_array().unwrap().iter().filter(|letter| letter["id"] != fixture).cloned().collect()
}

fn requeue(world: &World, letter: &Value) -> svc_tests::client::Answer {
    let input = json!({"workspace_id": world.id("workspace"), "dead_letter_id": letter["id"]});
    world.call(&world.people.agent, "requeue_dead_letter", input)
}

fn notices(world: &World, thread: &str) -> Vec<String> {
    let read = world.agent("get_thread", with(thread, json!({})));
    let notices = read["notices"].as_array().unwrap().iter();
    notices.filter(|notice| notice["kind"] == "budget_low").map(|notice| text(&notice["text"])).collect()
}

#[test]
fn nothing_is_claimed_renewed_or_handed_off_once_a_reported_limit_is_used_up() {
    on_both_engines(|world| {
        for (limit, field) in
            [("max_tokens", "tokens"), ("max_usd_micros", "usd_micros"), ("max_turns", "turns")]
        {
            let channel = world.new_channel(field);
            let thread = limited(world, &channel, json!({limit: 100}));
            let lease = claim(world, &thread, 600);
            let fine = report(world, &thread, &lease, "one", json!({field: 60}));
            assert_eq!((&fine["used"][field], &fine["remaining"][field]), (&json!(60), &json!(40)));
            assert_eq!(fine["exceeded"], json!([]));
            world.agent("renew_claim", with(&thread, json!({"claim_lease_id": lease})));
            let over = report(world, &thread, &lease, "two", json!({field: 60}));
            assert_eq!((&over["used"][field], &over["remaining"][field]), (&json!(120), &json!(0)));
            assert_eq!(over["exceeded"], json!([limit]));

            let before = world.lsn();
            let held = with(&thread, json!({"claim_lease_id": lease}));
            let mut handed = held.clone();
            handed["to_member_id"] = json!(world.people.bystander_id);
            for (operation, input) in [("renew_claim", &held), ("hand_off_claim", &handed)] {
                let refused = world.call(&world.people.agent, operation, input.clone());
                assert_eq!(refused.refused(409, "budget-exhausted")["exceeded"], json!([limit]));
            }
            assert_eq!(world.lsn(), before);
            let released = world.agent("release_claim", held);
            assert_eq!((&released["dead"], &released["exhausted"]), (&json!(true), &json!(true)));
            assert_eq!(world.kinds_after(before), ["ClaimFailed", "ThreadAssignmentChanged"]);
            assert_eq!(reason_of_last_change(world, &thread), "failed");

            assert_eq!(next(world, &channel), Value::Null);
            let refused = world.call(&world.people.agent, "claim_thread", with(&thread, json!({})));
            assert_eq!(refused.refused(409, "budget-exhausted")["exceeded"], json!([limit]));

            let letter = dead_letters(world).pop().unwrap();
            assert_eq!((&letter["thread_id"], &letter["exceeded"]), (&json!(thread), &json!([limit])));
            assert_eq!(
                (&letter["claim_lease_id"], &letter["holder"]),
                (&json!(lease), &json!(world.id("agent")))
            );
            requeue(world, &letter).refused(409, "budget-exhausted");
            world.admin("update_thread_budget", with(&thread, json!({limit: 200})));
            let refused = world.call(&world.people.agent, "claim_thread", with(&thread, json!({})));
            assert_eq!(refused.refused(409, "not-claimable")["reason"], "dead-letter");
            assert_eq!(next(world, &channel), Value::Null, "raising a limit requeues nothing");
            let settled = requeue(world, &letter).output();
            assert!(settled["settled_at"].is_string(), "{settled:#}");
            let lsn = world.lsn();
            assert_eq!(requeue(world, &letter).output(), settled);
            assert_eq!(world.lsn(), lsn, "requeued once");
            assert_eq!(next(world, &channel), json!(thread));
            assert!(dead_letters(world).is_empty());
        }
    });
}

/// Returns the reason of the last change of a thread's holder.
fn reason_of_last_change(world: &World, thread: &str) -> String {
    let events = world.agent("list_thread_events", with(thread, json!({"limit": 500})));
    let events = events["items"].as_array().unwrap();
    let last = events.iter().rev().find(|event| event["kind"] == "ThreadAssignmentChanged").unwrap();
    text(&last["payload"]["reason"])
}

#[test]
fn attempts_are_claims_without_a_result_since_the_last_requeue() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let thread = limited(world, &channel, json!({"max_attempts": 3}));
        let attempts = || budget(world, &thread)["used"]["attempts"].clone();
        let released = || {
            let lease = claim(world, &thread, 60);
            world.agent("release_claim", with(&thread, json!({"claim_lease_id": lease})));
        };
        // Handing over, closing and cancelling are not failures, nor is a result.
        claim(world, &thread, 60);
        world.agent("hand_off_claim", with(&thread, json!({"to_member_id": world.people.bystander_id})));
        world.admin("transition_thread", with(&thread, json!({"action": "close"})));
        world.admin("transition_thread", with(&thread, json!({"action": "reopen"})));
        claim(world, &thread, 60);
        world.agent("set_thread_result", with(&thread, json!({"result": {}})));
        for action in ["close", "reopen"] {
            world.admin("transition_thread", with(&thread, json!({"action": action})));
        }
        claim(world, &thread, 60);
        world.admin("cancel_thread", with(&thread, json!({"reason": "no"})));
        world.admin("transition_thread", with(&thread, json!({"action": "reopen"})));
        assert_eq!(attempts(), 0);
        released();
        claim(world, &thread, 60);
        world.pass(Duration::from_secs(60));
        assert_eq!(attempts(), 2);
        let lsn = world.lsn();
        claim(world, &thread, 60);
        world.pass(Duration::from_secs(60));
        let of_thread = || {
            let events = world.agent("list_thread_events", with(&thread, json!({"limit": 500})));
            let events = events["items"].as_array().unwrap().clone();
            let after = events.into_iter().filter(|event| event["lsn"].as_i64().unwrap() > lsn);
            after.map(|event| text(&event["kind"])).collect::<Vec<_>>()
        };
        let failed = ["ThreadAssignmentChanged", "ClaimFailed", "ThreadAssignmentChanged"];
        let told = ["MessagePosted", "ThreadNotice"];
        assert_eq!(of_thread(), [&failed[..], &told].concat(), "no ClaimExpired");
        let letter = dead_letters(world).pop().unwrap();
        assert_eq!(letter["exceeded"], json!(["max_attempts"]));
        let deferred = |reason: Value| {
            let mut input = json!({"workspace_id": world.id("workspace"), "limit": 500});
            input.as_object_mut().unwrap().extend(reason.as_object().unwrap().clone());
            let page = world.agent("list_deferred_threads", input);
            let found =
                page["items"].as_array().unwrap().iter().find(|found| found["thread_id"] == json!(thread));
            found.map(|found| found["obstacles"][0]["reason"].clone())
        };
        assert_eq!(deferred(json!({"reason": "dead-letter"})), Some(json!("dead-letter")));
        assert_eq!(deferred(json!({"reason": "skills"})), None);
        // Requeuing resets only the count of attempts, and a maximum of 0 allows none in any case.
        world.admin("update_thread_budget", with(&thread, json!({"max_attempts": 0})));
        let refused = requeue(world, &letter).refused(409, "budget-exhausted");
        assert_eq!(refused["exceeded"], json!(["max_attempts"]));
        assert!(text(&refused["detail"]).contains("max_attempts of 0"), "{refused:#}");
        world.admin("update_thread_budget", with(&thread, json!({"max_attempts": 3})));
        requeue(world, &letter).output();
        assert_eq!((attempts(), next(world, &channel)), (json!(0), json!(thread)));
        assert_eq!(deferred(json!({"reason": "dead-letter"})), None);
    });
}

#[test]
fn wall_time_counts_once_however_a_claim_ends() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let ends: [(&str, fn(&World, &str)); 6] = [
            ("release", |world, thread| {
                let lease = world.agent("get_claim", with(thread, json!({})))["claim_lease_id"].clone();
                world.agent("release_claim", with(thread, json!({"claim_lease_id": lease})));
            }),
            ("result", |world, thread| {
                world.agent("set_thread_result", with(thread, json!({"result": {}})));
            }),
            ("close", |world, thread| {
                world.agent("transition_thread", with(thread, json!({"action": "close"})));
            }),
            ("cancel", |world, thread| {
                world.admin("cancel_thread", with(thread, json!({"reason": "no"})));
            }),
            ("lapse", |world, thread| {
                world.agent("renew_claim", with(thread, json!({"lease_secs": 10})));
                // 10 of these 40 seconds belong to the claim.
                world.pass(Duration::from_secs(40));
            }),
            ("lapse, found by a claim", |world, thread| {
                world.agent("renew_claim", with(thread, json!({"lease_secs": 10})));
                world.clock.advance(Duration::from_secs(40));
                assert_eq!(used(world, thread), 30, "before anything has ended it");
                world.agent("claim_next_thread", json!({"channel_id": world.new_channel("other")}));
            }),
        ];
        for (way, end) in ends {
            let thread = limited(world, &channel, json!({"max_wall_secs": 1000}));
            claim(world, &thread, 600);
            world.clock.advance(Duration::from_secs(15));
            assert_eq!(used(world, &thread), 15, "{way}: of the live claim too");
            world.agent("hand_off_claim", with(&thread, json!({"to_member_id": world.id("admin")})));
            assert_eq!(used(world, &thread), 15, "{way}: handed off");
            let back = json!({"to_member_id": world.id("agent"), "lease_secs": 600});
            world.admin("hand_off_claim", with(&thread, back));
            world.clock.advance(Duration::from_secs(5));
            end(world, &thread);
            let wanted = if way.starts_with("lapse") { 30 } else { 20 };
            assert_eq!(used(world, &thread), wanted, "{way}");
            world.pass(Duration::from_secs(100));
            assert_eq!(used(world, &thread), wanted, "{way}: nobody works any longer");
        }
    });
}

/// Returns the wall time that a thread has used.
fn used(world: &World, thread: &str) -> i64 {
    budget(world, thread)["used"]["wall_secs"].as_i64().unwrap()
}

#[test]
fn no_lease_reaches_beyond_the_wall_time_that_is_left() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let thread = limited(world, &channel, json!({"max_wall_secs": 100}));
        let start = world.clock.now();
        let at = |secs: u64| json!(start.plus(Duration::from_secs(secs)));
        let claimed = world.agent("claim_thread", with(&thread, json!({"lease_secs": 600})));
        assert_eq!(claimed["assignment_expires_at"], at(100));
        world.clock.advance(Duration::from_secs(30));
        let shorter = world.agent("renew_claim", with(&thread, json!({"lease_secs": 20})));
        assert_eq!(shorter["lease_expires_at"], at(50));
        let longer = world.agent("renew_claim", with(&thread, json!({"lease_secs": 600})));
        assert_eq!(longer["lease_expires_at"], at(100));
        let to = json!({"to_member_id": world.people.bystander_id, "lease_secs": 600});
        assert_eq!(world.agent("hand_off_claim", with(&thread, to))["assignment_expires_at"], at(100));

        // A new limit applies at once, and earlier usage counts.
        let lsn = world.lsn();
        world.admin("update_thread_budget", with(&thread, json!({"max_wall_secs": 40})));
        assert_eq!(world.kinds_after(lsn), ["ThreadBudgetSet", "ClaimRenewed"]);
        let shortened = world.agent("get_claim", with(&thread, json!({})));
        assert_eq!(shortened["lease_expires_at"], at(40));
        let waiting = world.new_thread(&channel, "another task");
        world.clock.advance(Duration::from_secs(10));
        let lsn = world.lsn();
        assert_eq!(next(world, &channel), json!(waiting));
        let failed = ["ClaimFailed", "ThreadAssignmentChanged"];
        let told = ["MessagePosted", "ThreadNotice"];
        assert_eq!(world.kinds_after(lsn), [&failed[..], &told, &["ThreadAssignmentChanged"]].concat());
        assert_eq!(dead_letters(world)[0]["exceeded"], json!(["max_wall_secs"]));
        let refused = world.call(&world.people.agent, "claim_thread", with(&thread, json!({})));
        refused.refused(409, "budget-exhausted");

        // A limit below the usage ends the lease at once.
        let third = limited(world, &channel, json!({"max_wall_secs": 500}));
        claim(world, &third, 400);
        world.clock.advance(Duration::from_secs(50));
        world.admin("update_thread_budget", with(&third, json!({"max_wall_secs": 20})));
        let gone = world.call(&world.people.agent, "renew_claim", with(&third, json!({})));
        gone.refused(409, "stale-claim");
        assert_eq!(used(world, &third), 50);
        assert_eq!(next(world, &channel), Value::Null);
    });
}

#[test]
fn one_notice_tells_that_a_limit_is_low() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let thread = limited(world, &channel, json!({"max_tokens": 1000, "max_turns": 10}));
        let lease = claim(world, &thread, 600);
        report(world, &thread, &lease, "1", json!({"tokens": 799, "turns": 7}));
        assert_eq!(notices(world, &thread), [""; 0]);
        report(world, &thread, &lease, "2", json!({"tokens": 1}));
        assert_eq!(notices(world, &thread), ["800 of 1000 are used of this thread's max_tokens"]);
        let events = world.agent("list_thread_events", with(&thread, json!({"limit": 500})));
        let notice = events["items"].as_array().unwrap().last().unwrap()["payload"].clone();
        assert_eq!(notice["data"], json!({"limit": "max_tokens", "allowed": 1000, "used": 800}));
        report(world, &thread, &lease, "3", json!({"tokens": 150}));
        world.admin("update_thread_budget", with(&thread, json!({"max_tokens": 1001})));
        assert_eq!(notices(world, &thread).len(), 1, "once");
        report(world, &thread, &lease, "4", json!({"turns": 1}));
        assert_eq!(notices(world, &thread).len(), 2, "each limit");
        world.admin("update_thread_budget", with(&thread, json!({"max_tokens": 10_000, "max_turns": null})));
        report(world, &thread, &lease, "5", json!({"tokens": 9000}));
        assert_eq!(notices(world, &thread).len(), 3, "a raised limit once more");
        let messages = world.agent("list_messages", with(&thread, json!({})));
        assert!(messages["items"].as_array().unwrap().iter().all(|message| message["author_id"].is_null()));

        // The wall time of a live claim is checked when the claim is renewed.
        let timed = limited(world, &channel, json!({"max_wall_secs": 100}));
        claim(world, &timed, 100);
        world.clock.advance(Duration::from_secs(80));
        assert_eq!(notices(world, &timed).len(), 0);
        world.agent("renew_claim", with(&timed, json!({"lease_secs": 5})));
        assert_eq!(notices(world, &timed), ["80 of 100 are used of this thread's max_wall_secs"]);

        // The time of an idle claim is checked when it lapses.
        let idle = limited(world, &channel, json!({"max_wall_secs": 100}));
        claim(world, &idle, 1000);
        world.pass(Duration::from_secs(99));
        assert_eq!(notices(world, &idle).len(), 0);
        world.pass(Duration::from_secs(1));
        assert_eq!(notices(world, &idle), ["100 of 100 are used of this thread's max_wall_secs"]);

        let nothing = limited(world, &channel, json!({"max_turns": 0}));
        assert_eq!(notices(world, &nothing), ["this thread's max_turns is 0 and allows nothing"]);
    });
}

#[test]
fn closing_and_cancelling_settle_a_dead_letter() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        for way in ["close", "cancel"] {
            let thread = limited(world, &channel, json!({"max_attempts": 1}));
            let lease = claim(world, &thread, 60);
            world.agent("release_claim", with(&thread, json!({"claim_lease_id": lease})));
            let letter = dead_letters(world).pop().unwrap();
            match way {
                "close" => world.admin("transition_thread", with(&thread, json!({"action": "close"}))),
                _ => world.admin("cancel_thread", with(&thread, json!({"reason": "hopeless"}))),
            };
            assert!(dead_letters(world).is_empty(), "{way}");
            let lsn = world.lsn();
            assert!(requeue(world, &letter).output()["settled_at"].is_string());
            assert_eq!(world.lsn(), lsn, "{way}: it is settled already");
            world.admin("transition_thread", with(&thread, json!({"action": "reopen"})));
            let again = world.call(&world.people.agent, "claim_thread", with(&thread, json!({})));
            assert_eq!(again.refused(409, "budget-exhausted")["exceeded"], json!(["max_attempts"]));
            world.admin("update_thread_budget", with(&thread, json!({"max_attempts": 2})));
            assert_eq!(next(world, &channel), json!(thread), "{way}");
            world.admin("transition_thread", with(&thread, json!({"action": "close"})));
        }
    });
}

#[test]
fn limits_are_set_as_a_whole_or_changed_one_by_one() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let thread = limited(world, &channel, json!({"max_tokens": 5, "max_turns": 6}));
        let limits = |budget: &Value| {
            [budget["max_tokens"].clone(), budget["max_turns"].clone(), budget["max_wall_secs"].clone()]
        };
        let change = |input: Value| limits(&world.agent("update_thread_budget", with(&thread, input)));
        assert_eq!(limits(&budget(world, &thread)), [json!(5), json!(6), Value::Null]);
        assert_eq!(
            change(json!({"max_tokens": null, "max_wall_secs": 9})),
            [Value::Null, json!(6), json!(9)]
        );
        let lsn = world.lsn();
        assert_eq!(change(json!({})), [Value::Null, json!(6), json!(9)]);
        assert_eq!(world.lsn(), lsn);
        let set = |input: Value| limits(&world.agent("set_thread_budget", with(&thread, input)));
        assert_eq!(set(json!({"max_tokens": 0})), [json!(0), Value::Null, Value::Null]);
        assert_eq!(next(world, &channel), Value::Null, "nothing may be used");
        assert_eq!(set(json!({})), [Value::Null, Value::Null, Value::Null]);
        assert_eq!(next(world, &channel), json!(thread));
        for bad in
            [json!({"max_tokens": -1}), json!({"max_wall_secs": 1_000_000_001}), json!({"max_turns": "5"})]
        {
            for operation in ["set_thread_budget", "update_thread_budget"] {
                let refused = world.call(&world.people.agent, operation, with(&thread, bad.clone()));
                refused.refused(400, "malformed-request");
            }
        }
        for action in ["close", "archive"] {
            world.admin("transition_thread", with(&thread, json!({"action": action})));
        }
        for operation in ["set_thread_budget", "update_thread_budget"] {
            let input = with(&thread, json!({"max_turns": 3}));
            world.call(&world.people.agent, operation, input).refused(409, "wrong-state");
        }
    });
}

#[test]
fn dead_letters_of_hidden_threads_are_not_shown() {
    on_both_engines(|world| {
        let channel = world.new_private_channel("secret");
        let thread = world.new_thread(&channel, "a secret task");
        world.admin("set_thread_budget", with(&thread, json!({"max_attempts": 1})));
        let lease = world.admin("claim_thread", with(&thread, json!({})))["claim_lease_id"].clone();
        world.admin("release_claim", with(&thread, json!({"claim_lease_id": lease})));
        let letter = dead_letters(world).pop().unwrap();
        let seen = world.agent("list_dead_letters", json!({"workspace_id": world.id("workspace")}));
        assert!(seen["items"].as_array().unwrap().iter().all(|seen| seen["id"] != letter["id"]));
        requeue(world, &letter).refused(404, "not-found");
    });
}

#[test]
fn a_waiting_caller_wakes_once_a_thread_is_requeued_or_its_limit_raised() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let thread = limited(world, &channel, json!({"max_turns": 0}));
        let wait = || {
            let input =
                json!({"workspace_id": world.id("workspace"), "channel_id": channel, "timeout_secs": 30});
            world.agent("wait_for_ready", input)["thread_id"].clone()
        };
        let woken_by = |change: &(dyn Fn() + Sync)| {
            std::thread::scope(|scope| {
                let waiting = scope.spawn(wait);
                svc_tests::process::until("a wait", || world.service.parked_waits() > 0);
                change();
                waiting.join().unwrap()
            })
        };
        let raise = || drop(world.admin("set_thread_budget", with(&thread, json!({"max_attempts": 1}))));
        assert_eq!(woken_by(&raise), json!(thread));
        let lease = claim(world, &thread, 60);
        world.agent("release_claim", with(&thread, json!({"claim_lease_id": lease})));
        let letter = dead_letters(world).pop().unwrap();
        assert_eq!(woken_by(&|| drop(requeue(world, &letter).output())), json!(thread));
    });
}
