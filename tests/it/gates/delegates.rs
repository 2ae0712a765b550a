//! The named members: the member who is represented in a decision or request, and its delegate if one made
//! it.

use serde_json::{Value, json};
use svc_tests::{Person, on_both_engines};

use super::new_thread;

#[test]
fn a_delegate_is_named_and_a_member_that_acts_for_itself_is_named_once() {
    on_both_engines(|world| {
        let [member, delegate] =
            ["examiner", "delegate"].map(|handle| Person::with_skill(world, handle, "review"));
        let lent = delegate.acting_for(world, &member.id);
        let workspace = world.id("workspace");
        for (token, actor) in [(&member.token, None), (&lent, Some(json!(delegate.id)))] {
            let thread = new_thread(world);
            let call = |operation: &str, mut input: Value| {
                input["thread_id"] = json!(thread);
                world.call(token, operation, input).output()
            };
            let review = call(
                "submit_review",
                json!({"verdict": "approve", "findings": [{"severity": "minor", "body": "A comma."}]}),
            );
            let unresolved = call("list_reviews", json!({}))["items"][0]["findings"][0].clone();
            let finding = &review["findings"][0]["id"];
            let resolved = call("resolve_finding", json!({"finding_id": finding, "resolution": "fixed"}));
            let same = call("resolve_finding", json!({"finding_id": finding, "resolution": "fixed"}));
            let listed = call("list_reviews", json!({}))["items"][0].clone();
            let status = call("get_review_status", json!({}))["reviews"][0].clone();
            let unset = call("get_land_gate", json!({}));
            let pointed = call("set_land_gate", json!({"pointer": "main", "head_sha": "0f3c9a1"}));
            let asked = call("request_approval", json!({"question": "May it?"}));
            let decision = json!({"gate_id": asked["id"], "decision": "cancel"});
            let decided = world.call(token, "approval_decide", decision).output();
            let gate = world.call(token, "get_approval_gate", json!({"gate_id": asked["id"]})).output();
            let gates = call("list_approval_gates", json!({"workspace_id": workspace}))["items"][0].clone();
            for (number, (answer, by, who)) in [
                (&review, "member_id", "actor_id"),
                (&listed, "member_id", "actor_id"),
                (&status, "member_id", "actor_id"),
                (&resolved, "resolved_by", "resolved_actor_id"),
                (&same, "resolved_by", "resolved_actor_id"),
                (&listed["findings"][0], "resolved_by", "resolved_actor_id"),
                (&pointed, "member_id", "actor_id"),
                (&call("get_land_gate", json!({})), "member_id", "actor_id"),
                (&asked, "requested_by", "requested_actor_id"),
                (&decided, "requested_by", "requested_actor_id"),
                (&decided, "resolved_by", "resolved_actor_id"),
                (&gate, "requested_by", "requested_actor_id"),
                (&gate, "resolved_by", "resolved_actor_id"),
                (&gates, "requested_by", "requested_actor_id"),
                (&gates, "resolved_by", "resolved_actor_id"),
            ]
            .into_iter()
            .enumerate()
            {
                assert_eq!(answer[by], json!(member.id), "{number}: {answer:#}");
                assert_eq!(answer.get(who), actor.as_ref(), "{number}: {answer:#}");
            }
            // It is not done yet: there is neither a member nor a delegate.
            for (answer, by, who) in [
                (&unresolved, "resolved_by", "resolved_actor_id"),
                (&unset, "member_id", "actor_id"),
                (&asked, "resolved_by", "resolved_actor_id"),
            ] {
                assert_eq!((&answer[by], answer.get(who)), (&json!(null), None), "{answer:#}");
            }
        }
    });
}
