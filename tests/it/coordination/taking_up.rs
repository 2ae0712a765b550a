//! Taking up a thread by one call: its claim, the acknowledgement, and its context.

use serde_json::{Value, json};
use svc_tests::{World, in_parallel, on_both_engines, text};

/// Returns each operation that claims a thread for its caller, with an input that finds one.
fn ways(world: &World) -> [(&'static str, Value); 3] {
    let channel = world.new_channel("queue");
    let thread = world.new_thread(&channel, "by its id");
    let [next, of_workspace] = ["next", "next of all"].map(|title| {
        let urgent = json!({"channel_id": channel, "title": title, "priority": 100});
        text(&world.admin("create_thread", urgent)["id"])
    });
    assert_ne!(next, of_workspace);
    [
        ("claim_next_thread", json!({"channel_id": channel})),
        ("claim_next_workspace_thread", json!({"workspace_id": world.id("workspace")})),
        ("claim_thread", json!({"thread_id": thread})),
    ]
}

fn with(mut input: Value, more: Value) -> Value {
    input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    input
}

#[test]
fn a_claim_is_acknowledged_and_comes_with_its_context() {
    on_both_engines(|world| {
        for (operation, input) in ways(world) {
            let before = world.lsn();
            let both = json!({"acknowledge": true, "include_context": true});
            let taken = world.agent(operation, with(input, both));
            let thread = json!({"thread_id": taken["id"]});
            assert_eq!(taken["thread_id"], taken["id"]);
            assert_eq!(world.kinds_after(before), ["ThreadAssignmentChanged", "ClaimAcknowledged"]);
            assert_eq!(taken["pin"]["uri"], format!("svc:event/{}", before + 1));
            let claim = world.agent("get_claim", thread.clone());
            assert_eq!(claim["acknowledged_at"], taken["acknowledged_at"], "{operation}");
            assert!(claim["acknowledged_at"].is_string());
            assert_eq!(claim["claim_lease_id"], taken["claim_lease_id"]);
            assert_eq!(taken["context"], world.agent("get_thread_context", thread.clone()), "{operation}");
            assert_eq!(taken["context"]["lsn"], world.lsn());

            // Acknowledging it again changes nothing, and its holder continues as usual.
            world.agent("acknowledge_claim", thread.clone());
            assert_eq!(world.lsn(), before + 2);
            let result = with(thread, json!({"claim_lease_id": taken["claim_lease_id"], "result": {}}));
            world.agent("set_thread_result", result);
        }
    });
}

#[test]
fn a_claim_alone_is_as_it_was() {
    on_both_engines(|world| {
        for (operation, input) in ways(world) {
            let before = world.lsn();
            let claimed = world.agent(operation, input);
            assert_eq!(world.kinds_after(before), ["ThreadAssignmentChanged"], "{operation}");
            assert_eq!((claimed.get("context"), &claimed["acknowledged_at"]), (None, &Value::Null));
            assert_eq!(claimed["thread_id"], claimed["id"]);
        }
        let nothing = json!({"channel_id": world.new_channel("empty"), "acknowledge": true,
                             "include_context": true});
        let before = world.lsn();
        assert_eq!(world.agent("claim_next_thread", nothing), json!({}));
        assert_eq!(world.lsn(), before);
    });
}

#[test]
fn an_acknowledged_claim_that_is_refused_leaves_nothing() {
    on_both_engines(|world| {
        let thread = world.new_thread(&world.new_channel("queue"), "taken");
        world.admin("claim_thread", json!({"thread_id": thread}));
        let before = world.database.dump();
        let input = json!({"thread_id": thread, "acknowledge": true, "include_context": true});
        world.call(&world.people.agent, "claim_thread", input).refused(409, "not-claimable");
        assert_eq!(world.database.dump(), before);
    });
}

#[test]
fn claims_of_one_batch_each_come_with_their_own_context() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        for number in 0..6 {
            let title = format!("task {number}");
            let thread = json!({"channel_id": channel, "title": title, "body": title});
            world.admin("create_thread", thread);
        }
        let taken = in_parallel(6, |_| {
            let input = json!({"channel_id": channel, "acknowledge": true, "include_context": true});
            world.agent("claim_next_thread", input)
        });
        for one in &taken {
            let thread = &one["id"];
            let context = &one["context"];
            assert_eq!((&context["thread"]["id"], &context["messages"][0]["body"]), (thread, &one["title"]));
            assert_eq!(context["thread"]["claim_lease_id"], one["claim_lease_id"]);
            // It was read when its own acknowledgement was the newest event.
            let events = world.agent("list_thread_events", json!({"thread_id": thread}));
            let last = events["items"].as_array().unwrap().last().unwrap();
            assert_eq!((&last["kind"], &last["lsn"]), (&json!("ClaimAcknowledged"), &context["lsn"]));
        }
    });
}

#[test]
fn over_mcp_a_claim_and_its_context_are_lean_unless_more_is_asked_for() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let agent = Some(world.people.agent.as_str());
        let call = |operation: &str, input: Value| {
            world.mcp().call(agent, world.operation(operation), &input).output()
        };
        let [lean, full] =
            ["lean", "full"].map(|title| json!({"thread_id": world.new_thread(&channel, title)}));
        let more = json!({"include_context": true});
        let taken = call("claim_thread", with(lean.clone(), more.clone()));
        assert_eq!((&taken["title"], taken.get("acknowledged_at")), (&json!("lean"), None));
        assert_eq!(taken["context"], call("get_thread_context", lean.clone()));
        assert_ne!(taken["context"], world.agent("get_thread_context", lean));
        let input = with(full.clone(), with(more, json!({"detail": "full"})));
        let taken = call("claim_thread", input);
        assert_eq!(taken["acknowledged_at"], Value::Null);
        assert_eq!(taken["context"], world.agent("get_thread_context", full));
        assert_eq!(call("claim_next_thread", json!({"channel_id": channel})), json!({}));
    });
}

#[test]
fn a_holder_that_was_cut_off_resumes_its_claim() {
    on_both_engines(|world| {
        for (operation, input) in ways(world) {
            let before = world.lsn();
            let claimed = world.agent(operation, input.clone());
            let resume = with(input, json!({"resume": true}));
            assert_eq!(world.agent(operation, resume.clone()), claimed, "{operation}");
            let more = with(resume.clone(), json!({"lease_secs": 60, "include_context": true}));
            let taken = world.agent(operation, more);
            let of_thread = json!({"thread_id": claimed["id"]});
            assert_eq!(taken["context"], world.agent("get_thread_context", of_thread.clone()), "{operation}");
            assert_eq!(taken["assignment_expires_at"], claimed["assignment_expires_at"], "its lease stays");
            assert_eq!(world.kinds_after(before), ["ThreadAssignmentChanged"], "{operation}");

            // It is acknowledged once, if requested.
            let acknowledging = with(resume.clone(), json!({"acknowledge": true}));
            let acknowledged = world.agent(operation, acknowledging.clone());
            assert!(acknowledged["acknowledged_at"].is_string());
            assert_eq!(world.agent(operation, acknowledging), acknowledged);
            assert_eq!(world.kinds_after(before), ["ThreadAssignmentChanged", "ClaimAcknowledged"]);

            // A member without a claim claims as usual, and finds the remaining thread.
            let other = world.call(&world.people.admin, operation, resume.clone());
            match operation {
                "claim_thread" => drop(other.refused(409, "not-claimable")),
                _ => assert_ne!(other.output()["id"], claimed["id"]),
            }
            let lease = json!({"claim_lease_id": claimed["claim_lease_id"]});
            world.agent("release_claim", with(of_thread, lease));
            let again = world.agent(operation, resume);
            assert_ne!(again["claim_lease_id"], claimed["claim_lease_id"]);
            world.agent("set_thread_result", json!({"thread_id": again["id"], "result": {}}));
        }
    });
}

#[test]
fn the_newest_claim_is_resumed_where_it_is_asked_for() {
    on_both_engines(|world| {
        let channels = ["one", "two"].map(|name| world.new_channel(name));
        let [first, second] = &channels;
        let claim = |channel: &str, repo: &str| {
            let footprint =
                json!({"repo": repo, "mode": "exclusive", "items": [{"kind": "path", "value": repo}]});
            let thread = json!({"channel_id": channel, "title": repo, "footprint": footprint});
            let thread = world.admin("create_thread", thread)["id"].clone();
            world.agent("claim_thread", json!({"thread_id": thread}))["claim_lease_id"].clone()
        };
        // The order of the claims counts, not that of their threads.
        let older = world.new_thread(second, "older");
        let [core, web, docs] =
            [(first, "svc/core"), (first, "svc/web"), (second, "svc/docs")].map(|(at, repo)| claim(at, repo));
        let last = world.agent("claim_thread", json!({"thread_id": older}))["claim_lease_id"].clone();
        let resumed = |operation: &str, more: Value| {
            let input = with(json!({"resume": true}), more);
            world.agent(operation, input)["claim_lease_id"].clone()
        };
        let of_workspace = |more: Value| {
            let workspace = json!({"workspace_id": world.id("workspace")});
            resumed("claim_next_workspace_thread", with(workspace, more))
        };
        let next_of = |channel: &str, more: Value| {
            resumed("claim_next_thread", with(json!({"channel_id": channel}), more))
        };
        assert_eq!(of_workspace(json!({})), last);
        assert_eq!(next_of(second, json!({})), last);
        assert_eq!(next_of(second, json!({"repo": "svc/docs"})), docs);
        assert_eq!(next_of(first, json!({})), web);
        assert_eq!(of_workspace(json!({"repo": "SVC/core"})), core);
        assert_eq!(of_workspace(json!({"repo": "svc/none"})), Value::Null, "nor is there another");

        // A claim that was handed to it counts, too, and a lapsed one does not.
        let handed = world.new_thread(first, "handed");
        world.admin("claim_thread", json!({"thread_id": handed}));
        let hand_off = json!({"thread_id": handed, "to_member_id": world.id("agent"), "lease_secs": 60});
        let hand_off = world.admin("hand_off_claim", hand_off);
        let input = json!({"channel_id": first, "resume": true});
        let taken = world.agent("claim_next_thread", input);
        assert_eq!(
            (&taken["claim_lease_id"], &taken["pin"]),
            (&hand_off["claim_lease_id"], &hand_off["pin"])
        );
        world.clock.advance(std::time::Duration::from_secs(61));
        assert_eq!(next_of(first, json!({})), web);

        // Of simultaneous calls the first claims a thread, and the others get the same answer.
        let (_, bob) = world.new_agent("bob");
        world.new_thread(first, "for bob");
        let answers = in_parallel(6, |_| {
            let input = json!({"channel_id": first, "resume": true});
            world.call(&bob, "claim_next_thread", input).output()
        });
        assert!(answers[0]["pin"]["content_hash"].is_string());
        assert!(answers.iter().all(|answer| *answer == answers[0]));
    });
}
