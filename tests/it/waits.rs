//! Waits: answered when it has happened, empty when the time is over, and never to who may no longer know.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use svc_tests::client::Answer;
use svc_tests::process::until;
use svc_tests::{World, on_both_engines, text};

/// Waits on a thread of its own, does `meanwhile`, and answers what the wait came to.
fn wait_while(world: &World, token: &str, operation: &str, input: Value, meanwhile: impl FnOnce()) -> Answer {
    std::thread::scope(|scope| {
        let before = world.service.parked_waits();
        let waiting = scope.spawn(|| world.call(token, operation, input));
        until("the wait", || world.service.parked_waits() > before || waiting.is_finished());
        assert!(!waiting.is_finished(), "{operation} had nothing to wait for");
        meanwhile();
        waiting.join().unwrap()
    })
}

#[test]
fn what_is_waited_for_ends_the_wait() {
    on_both_engines(|world| {
        let agent = &world.people.agent;
        let workspace = world.fixture.workspace_id;
        let channel = world.new_channel("queue");
        let ready = json!({"workspace_id": workspace, "channel_id": channel});
        let mut thread = String::new();
        let begun = Instant::now();
        let found = wait_while(world, agent, "wait_for_ready", ready.clone(), || {
            thread = world.new_thread(&channel, "at last");
        });
        assert_eq!(found.output()["thread_id"], thread);
        let found = world.call(agent, "wait_for_ready", ready).output();
        assert_eq!(found["thread_id"], thread, "what is there already is answered at once");

        let claim = world.agent("claim_thread", json!({"thread_id": thread}));
        let result = json!({"thread_id": thread});
        let set = wait_while(world, &world.people.reader, "wait_for_result", result, || {
            let input =
                json!({"thread_id": thread, "claim_lease_id": claim["claim_lease_id"], "result": {"n": 1}});
            world.agent("set_thread_result", input);
        });
        assert_eq!(set.output()["result"], json!({"n": 1}));

        let from = world.lsn();
        let event = json!({"workspace_id": workspace, "after_id": from, "kind": "MessagePosted"});
        let seen = wait_while(world, agent, "wait_for_event", event, || {
            world.new_thread(&channel, "not a message");
            world.agent("post_message", json!({"thread_id": thread, "body": "hello"}));
        });
        assert_eq!(seen.output()["items"][0]["kind"], "MessagePosted");
        assert!(begun.elapsed() < Duration::from_secs(20), "no wait ran into its deadline");
    });
}

#[test]
fn a_wait_whose_time_is_over_says_so() {
    on_both_engines(|world| {
        let channel = world.new_channel("empty");
        let input =
            json!({"workspace_id": world.fixture.workspace_id, "channel_id": channel, "timeout_secs": 1});
        let begun = Instant::now();
        assert_eq!(world.agent("wait_for_ready", input), json!({"timed_out": true}));
        assert!(begun.elapsed() >= Duration::from_secs(1));
    });
}

#[test]
fn who_lost_the_right_to_know_is_not_told() {
    on_both_engines(|world| {
        let token = text(
            &world
                .call(&world.people.agent, "attenuate_token", json!({"capabilities": ["workspace:read"]}))
                .output()["secret"],
        );
        let me = world.call(&token, "whoami", json!({})).output();
        let channel = world.new_channel("queue");
        let input =
            json!({"workspace_id": world.fixture.workspace_id, "channel_id": channel, "timeout_secs": 5});
        let refused = wait_while(world, &token, "wait_for_ready", input, || {
            world.admin("revoke_token", json!({"token_id": me["token_id"]}));
            world.new_thread(&channel, "not for you");
        });
        refused.refused(401, "unauthenticated");

        let private = json!({"workspace_id": world.fixture.workspace_id, "name": "den", "private": true});
        let den = text(&world.admin("create_channel", private)["id"]);
        let agent = world.fixture.agent_id;
        world.admin("add_channel_member", json!({"channel_id": den, "member_id": agent}));
        let input = json!({"workspace_id": world.fixture.workspace_id, "channel_id": den, "timeout_secs": 1});
        let hidden = wait_while(world, &world.people.agent, "wait_for_ready", input, || {
            world.admin("remove_channel_member", json!({"channel_id": den, "member_id": agent}));
            world.new_thread(&den, "behind the door");
        });
        let told = hidden.body.to_string();
        assert!(hidden.status == 404 || told.contains("timed_out"), "{told}");
    });
}

#[test]
fn a_thousand_waits_hold_no_threads_and_all_wake() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let workspace = world.fixture.workspace_id;
        let input = json!({"workspace_id": workspace, "channel_id": channel, "timeout_secs": 60}).to_string();
        let (tell, told) = std::sync::mpsc::channel();
        let tickets: Vec<_> = (0..1000)
            .map(|_| {
                let credential = Some(secrecy::SecretString::from(world.people.agent.as_str()));
                let request =
                    svc_core::op::Request::json(svc_core::op::Surface::Rest, credential, input.clone());
                let tell = tell.clone();
                world.service.submit("wait_for_ready", request, move |outcome| {
                    let _ = tell.send(outcome.is_ok());
                })
            })
            .collect();
        // Reads are answered while all of them wait.
        world.agent("whoami", json!({}));
        world.new_thread(&channel, "for all of you");
        let answered = (0..1000).map(|_| told.recv_timeout(Duration::from_secs(30)).unwrap());
        assert!(answered.into_iter().all(|success| success));
        drop(tickets);
    });
}
