//! Submitting work by one call: the result of a thread, and the move that follows.

use serde_json::{Value, json};
use svc_tests::{Person, World, on_both_engines, text};

/// Creates a thread that the agent has claimed. Returns it and the lease.
fn claimed(world: &World, title: &str) -> (String, Value) {
    let thread = world.new_thread(&world.id("channel").to_string(), title);
    let lease = world.agent("claim_thread", json!({"thread_id": thread}))["claim_lease_id"].clone();
    (thread, lease)
}

fn handed_in(thread: &str, lease: &Value, action: &str) -> Value {
    json!({"thread_id": thread, "claim_lease_id": lease, "result": {"done": true}, "action": action})
}

#[test]
fn a_result_is_followed_by_the_move() {
    on_both_engines(|world| {
        for (action, state) in [("start_review", "in_review"), ("close", "closed")] {
            let (thread, lease) = claimed(world, action);
            let channel = world.new_channel(&format!("after-{state}"));
            let waiting = json!({"channel_id": channel, "title": "next", "depends_on": [thread]});
            let waiting = world.admin("create_thread", waiting)["id"].clone();
            let before = world.lsn();
            let set = world.agent("set_thread_result", handed_in(&thread, &lease, action));
            let kinds = world.kinds_after(before);
            assert_eq!(kinds[..3], ["ThreadResultSet", "ThreadAssignmentChanged", "ThreadStateChanged"]);
            assert_eq!((&set["state"], &set["lsn"]), (&json!(state), &json!(before + 1)));
            let read = world.agent("get_thread", json!({"thread_id": thread}));
            assert_eq!((&read["state"], &read["has_result"]), (&json!(state), &json!(true)));
            assert_eq!((&read["result"], &read["assignee_id"]), (&json!({"done": true}), &Value::Null));
            // A thread that waits for it can be claimed once it is closed.
            let next = world.agent("claim_next_thread", json!({"channel_id": channel}));
            let wanted = if action == "close" { waiting } else { Value::Null };
            assert_eq!(next["id"], wanted);
        }
    });
}

#[test]
fn a_result_alone_leaves_the_thread_open() {
    on_both_engines(|world| {
        let (thread, lease) = claimed(world, "alone");
        let input = json!({"thread_id": thread, "claim_lease_id": lease, "result": {}});
        let set = world.agent("set_thread_result", input.clone());
        assert!(set.get("state").is_none());
        assert_eq!(world.agent("get_thread", json!({"thread_id": thread}))["state"], "open");
        let mut other = input;
        other["action"] = json!("reopen");
        world.call(&world.people.agent, "set_thread_result", other).refused(400, "malformed-request");
    });
}

/// Returns the parts of a problem that do not depend on the request.
fn essence(mut problem: Value) -> Value {
    problem.as_object_mut().unwrap().remove("instance");
    problem
}

/// Checks that submitting is refused like the move alone, and stores nothing.
fn check_refused(world: &World, thread: &str, lease: &Value, action: &str, code: &str) {
    let before = world.database.dump();
    let handed = world.call(&world.people.agent, "set_thread_result", handed_in(thread, lease, action));
    let refused = essence(handed.refused(409, code).clone());
    assert_eq!(world.database.dump(), before, "{action}: nothing is stored");
    // The claim continues.
    let claim = world.agent("get_claim", json!({"thread_id": thread}));
    assert_eq!(&claim["claim_lease_id"], lease);
    let alone = json!({"thread_id": thread, "action": action});
    let moved = world.call(&world.people.agent, "transition_thread", alone);
    assert_eq!(refused, essence(moved.refused(409, code).clone()));
}

#[test]
fn a_move_that_is_refused_undoes_the_result() {
    on_both_engines(|world| {
        let (thread, lease) = claimed(world, "a parent");
        world.admin("create_child_thread", json!({"thread_id": thread, "title": "a child"}));
        check_refused(world, &thread, &lease, "close", "close-refused");

        let (thread, lease) = claimed(world, "in review");
        world.agent("transition_thread", json!({"thread_id": thread, "action": "start_review"}));
        check_refused(world, &thread, &lease, "start_review", "wrong-state");
        world.agent("set_thread_result", handed_in(&thread, &lease, "close"));
    });
}

/// The approvals of a thread concern the work before its result, which is found only once the result is set.
#[test]
fn a_result_that_the_reviews_have_not_seen_is_undone_with_the_close() {
    on_both_engines(|world| {
        let reviewer = Person::with_skill(world, "critic", "review");
        let (thread, lease) = claimed(world, "reviewed");
        world.admin("set_review_requirement", json!({"thread_id": thread, "approvals": 1}));
        let approval = json!({"thread_id": thread, "verdict": "approve"});
        world.call(&reviewer.token, "submit_review", approval.clone()).output();
        let before = world.database.dump();
        let input = handed_in(&thread, &lease, "close");
        let refused =
            world.call(&world.people.agent, "set_thread_result", input).refused(409, "close-refused");
        assert_eq!(refused["reasons"][0]["condition"], "approvals");
        assert_eq!(world.database.dump(), before);

        let set = world.agent("set_thread_result", handed_in(&thread, &lease, "start_review"));
        assert_eq!(text(&set["state"]), "in_review");
        world.call(&reviewer.token, "submit_review", approval).output();
        world.agent("transition_thread", json!({"thread_id": thread, "action": "close"}));
    });
}

/// A model that asks too early is advised to wait, and does not doubt the thread.
#[test]
fn a_thread_without_a_result_says_how_to_wait_for_it() {
    on_both_engines(|world| {
        let thread = world.new_thread(&world.id("channel").to_string(), "not done");
        let asked = json!({"name": "get_thread_result", "arguments": {"thread_id": thread}});
        let answer = world.mcp().request(Some(&world.people.agent), "tools/call", asked);
        let told = text(&answer.body["result"]["content"][0]["text"]);
        assert!(told.contains("has no result yet") && told.contains("`wait_for_result`"), "{told}");
        assert!(!told.contains("Check the id"), "{told}");
        let asked = json!({"thread_id": thread});
        let problem =
            world.call(&world.people.agent, "get_thread_result", asked).refused(404, "not-found").clone();
        assert_eq!(problem["detail"], "the thread has no result yet");
    });
}
