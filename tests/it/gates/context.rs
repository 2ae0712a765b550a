//! The context of a workspace: each member reads there its own work, and nothing else.

use serde_json::{Value, json};
use svc_tests::{Person, World, on_both_engines, text};

use super::{go, new_thread, set_owner, work};

/// Returns the titles or ids in each list of a member's context.
fn context(world: &World, person: &Person) -> Value {
    let input = json!({"workspace_id": world.id("workspace")});
    world.call(&person.token, "get_workspace_context", input).output()
}

/// Returns whether a list of the context has this id.
fn has(context: &Value, list: &str, id: &str) -> bool {
    context[list].as_array().unwrap().iter().any(|item| item["id"] == json!(id))
}

#[test]
fn a_member_reads_its_claims_what_it_could_claim_and_what_it_should_judge() {
    on_both_engines(|world| {
        let [worker, listed, owner] = ["smith", "warden", "steward"].map(|handle| Person::new(world, handle));
        let reviewer = Person::with_skill(world, "examiner", "review");
        let mut granter = Person::new(world, "granter");
        let capabilities = json!(["workspace:read", "thread:transition", "approval:grant"]);
        let input = json!({"workspace_id": world.id("workspace"), "member_id": granter.id,
                           "label": "grants", "capabilities": capabilities});
        granter.token = text(&world.admin("mint_token", input)["secret"]);
        let thread = new_thread(world);
        set_owner(world, &thread, &owner.id);
        let next = context(world, &worker)["next"]["id"].clone();
        let given = world.call(
            &worker.token,
            "claim_next_workspace_thread",
            json!({"workspace_id": world.id("workspace")}),
        );
        assert_eq!(given.output()["id"], next);
        assert!(has(&context(world, &worker), "claims", &text(&next)));
        assert!(!has(&context(world, &reviewer), "claims", &text(&next)), "it is another's");

        work(world, &worker.token, &thread);
        assert!(!has(&context(world, &reviewer), "reviews", &thread), "it is not in review");
        go(world, &thread, "start_review").output();
        world.admin("add_reviewer", json!({"thread_id": thread, "member_id": listed.id}));
        let awaited = |person: &Person| has(&context(world, person), "reviews", &thread);
        let all = [&worker, &listed, &owner, &reviewer, &granter];
        assert_eq!(all.map(awaited), [false, true, false, true, false]);
        let verdict = |person: &Person, verdict: &str| {
            let input = json!({"thread_id": thread, "verdict": verdict});
            world.call(&person.token, "submit_review", input).output();
        };
        verdict(&listed, "comment");
        verdict(&reviewer, "request_changes");
        assert_eq!((awaited(&listed), awaited(&reviewer)), (true, false), "a comment decides nothing");
        go(world, &thread, "return_to_open").output();
        go(world, &thread, "close").output();
        go(world, &thread, "reopen").output();
        work(world, &worker.token, &thread);
        go(world, &thread, "start_review").output();
        assert!(awaited(&reviewer), "the verdict was about an older result");

        let ask = |person: &Person| {
            let input = json!({"thread_id": thread, "question": "May it go out?"});
            text(&world.call(&person.token, "request_approval", input).output()["id"])
        };
        let others = ask(&worker);
        let own = ask(&granter);
        let asked = |person: &Person| {
            let context = context(world, person);
            [has(&context, "approvals", &others), has(&context, "approvals", &own)]
        };
        assert_eq!((asked(&granter), asked(&reviewer)), ([true, false], [false, false]));
        let input = json!({"gate_id": others, "decision": "accept"});
        world.call(&granter.token, "approval_decide", input).output();
        assert_eq!(asked(&granter), [false, false], "it is decided");
    });
}

#[test]
fn nobody_is_asked_for_what_it_could_not_do() {
    on_both_engines(|world| {
        let reviewer = Person::with_skill(world, "examiner", "review");
        let channel = world.new_channel("reviewed");
        let thread = world.new_thread(&channel, "under review");
        go(world, &thread, "start_review").output();
        let question = json!({"thread_id": thread, "question": "May it go out?"});
        let gate = text(&world.agent("request_approval", question)["id"]);
        let admin = Person { id: world.id("admin").to_string(), token: world.people.admin.clone() };
        let asked = || {
            [
                has(&context(world, &reviewer), "reviews", &thread),
                has(&context(world, &admin), "approvals", &gate),
            ]
        };
        assert_eq!(asked(), [true, true]);
        for person in [&reviewer, &admin] {
            person.set_time(world, "frozen_at", true);
        }
        assert_eq!(asked(), [false, false], "they may only read");
        for person in [&reviewer, &admin] {
            person.set_time(world, "frozen_at", false);
        }
        assert_eq!(asked(), [true, true]);
        world.admin("archive_channel", json!({"channel_id": channel}));
        assert_eq!(asked(), [false, true], "an archived channel takes no review, but a decision");
        let input = json!({"thread_id": thread, "verdict": "approve"});
        world.call(&reviewer.token, "submit_review", input).refused(409, "wrong-state");
        let accept = json!({"gate_id": gate, "decision": "accept"});
        world.admin("approval_decide", accept);
    });
}
