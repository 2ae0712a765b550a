//! A thread's way from a conflict to its close, past every gate.

use serde_json::{Value, json};
use svc_tests::{Person, World, on_both_engines, text};

use super::{go, unmet};

/// Creates a thread that will touch the parser.
fn thread_on_the_parser(world: &World, channel: &str, title: &str) -> String {
    let footprint = json!({"repo": "acme/app", "items": [{"kind": "path", "value": "src/parser"}]});
    let input = json!({"channel_id": channel, "title": title, "footprint": footprint});
    text(&world.admin("create_thread", input)["id"])
}

fn conditions(world: &World, thread: &str) -> Vec<String> {
    unmet(world, thread).into_iter().map(|(condition, _)| condition).collect()
}

#[test]
fn a_thread_comes_from_a_conflict_past_every_gate_to_its_close() {
    on_both_engines(|world| {
        let reviewer = Person::with_skill(world, "reviewer", "review");
        let lander = Person::with_skill(world, "lander", "land_gate");
        let [first, second] = ["first", "second"].map(|handle| Person::new(world, handle));
        let channel = world.new_channel("parser");
        let call = |by: &Person, operation: &str, input: Value| world.call(&by.token, operation, input);

        // The first holds the parser: the second conflicts with it, and is deferred.
        let other = thread_on_the_parser(world, &channel, "Rename the tokens");
        let claim = call(&first, "claim_thread", json!({"thread_id": other})).output();
        let thread = thread_on_the_parser(world, &channel, "Port the parser");
        world.admin("set_review_requirement", json!({"thread_id": thread, "approvals": 1}));
        world.admin("require_land_gate", json!({"thread_id": thread}));
        let about = json!({"thread_id": thread});
        let refused = call(&second, "claim_thread", about.clone()).refused(409, "footprint-conflict");
        assert_eq!(refused["conflicts"][0]["holder"], json!(first.id));
        assert_eq!(call(&second, "claim_next_thread", json!({"channel_id": channel})).output(), json!({}));
        let deferred = world.admin("list_deferred_threads", json!({"workspace_id": world.id("workspace")}));
        let mut deferred = deferred["items"].as_array().unwrap().iter();
        let found = deferred.find(|found| found["thread_id"] == json!(thread)).unwrap();
        assert_eq!(found["obstacles"][0]["reason"], json!("overlap"));

        // The first is done, and the second takes its thread.
        let result = json!({"thread_id": other, "claim_lease_id": claim["claim_lease_id"], "result": {}});
        call(&first, "set_thread_result", result).output();
        let claim = call(&second, "claim_next_thread", json!({"channel_id": channel})).output();
        assert_eq!(claim["id"], json!(thread));
        let lease = claim["claim_lease_id"].clone();
        let asked = json!({"thread_id": thread, "question": "May the old parser go?"});
        let gate = call(&second, "request_approval", asked).output();
        let done = json!({"thread_id": thread, "claim_lease_id": lease, "result": {"commit": "0f3c9a1"}});
        call(&second, "set_thread_result", done).output();
        let set = json!({"thread_id": thread, "pointer": "feature/parser", "head_sha": "0f3c9a1"});
        call(&second, "set_land_gate", set).output();
        world.admin("transition_thread", json!({"thread_id": thread, "action": "start_review"}));
        assert_eq!(conditions(world, &thread), ["approvals", "land-gate", "approval-gate"]);

        // The review finds a leak: approved or not, the thread does not close before the finding is resolved.
        let finding = json!({"severity": "critical", "body": "It leaks.", "path": "src/parser/mod.rs"});
        let review = json!({"thread_id": thread, "verdict": "approve", "findings": [finding]});
        let review = call(&reviewer, "submit_review", review).output();
        assert_eq!(conditions(world, &thread), ["findings", "land-gate", "approval-gate"]);
        let resolve = json!({"thread_id": thread, "finding_id": review["findings"][0]["id"],
                             "resolution": "fixed"});
        call(&second, "resolve_finding", resolve.clone()).refused(403, "forbidden");
        call(&reviewer, "resolve_finding", resolve).output();

        // Another member must approve, and another must pass the land gate.
        let accept = json!({"gate_id": gate["id"], "decision": "accept"});
        call(&second, "approval_decide", accept.clone()).refused(403, "needs-person");
        world.admin("approval_decide", accept);
        assert_eq!(conditions(world, &thread), ["land-gate"]);
        let pass = json!({"thread_id": thread, "pointer": "feature/parser", "head_sha": "0f3c9a1",
                          "verdict": "pass"});
        assert_eq!(call(&second, "set_land_gate", pass.clone()).output()["counts"], json!(false));
        call(&lander, "set_land_gate", pass).output();

        let advice = world.admin("request_land_advice", about);
        assert_eq!(advice["could_close"], json!(true), "{advice:#}");
        assert_eq!(go(world, &thread, "close").output()["state"], json!("closed"));
        let verified = world.admin("verify_event_chain", json!({"workspace_id": world.id("workspace")}));
        assert_eq!(verified["valid"], json!(true), "{verified:#}");
    });
}
