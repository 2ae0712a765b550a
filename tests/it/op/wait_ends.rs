//! Waits end with the credential of their caller, and cost nothing while no member loses access.

use std::time::Duration;

use serde_json::{Value, json};
use svc_tests::process::until;
use svc_tests::{on_both_engines, text};

use super::waits::wait_while;

/// A parked wait ends within ten seconds of its credential, although nothing else happens.
#[test]
fn a_wait_ends_soon_after_its_credential() {
    on_both_engines(|world| {
        let agent = &world.people.agent;
        let attenuated = |more: Value| {
            let mut input = json!({"capabilities": ["workspace:read", "event:subscribe"]});
            input.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            text(&world.call(agent, "attenuate_token", input).output()["secret"])
        };
        let workspace = world.id("workspace");
        let channel = world.new_channel("queue");
        let waits = [
            ("wait_for_event", json!({"workspace_id": workspace, "kind": "VoteClosed", "timeout_secs": 300})),
            (
                "wait_for_ready",
                json!({"workspace_id": workspace, "channel_id": channel, "timeout_secs": 300}),
            ),
        ];
        for (operation, input) in waits {
            let from = json!({"after_id": world.lsn()});
            let mut input = input;
            if operation == "wait_for_event" {
                input.as_object_mut().unwrap().extend(from.as_object().unwrap().clone());
            }
            let token = attenuated(json!({}));
            let me = world.call(&token, "whoami", json!({})).output();
            let refused = wait_while(world, &token, operation, input.clone(), || {
                world.admin("revoke_token", json!({"token_id": me["token_id"]}));
                world.clock.advance(Duration::from_secs(10));
            });
            refused.refused(401, "unauthenticated");
            let short = attenuated(json!({"expires_in_secs": 60}));
            let refused = wait_while(world, &short, operation, input.clone(), || {
                world.clock.advance(Duration::from_secs(70));
            });
            refused.refused(401, "unauthenticated");
        }
    });
}

/// While the epoch of the workspace does not change, no caller is looked up again; then only those who may
/// have lost access are.
#[test]
fn a_parked_wait_costs_nothing_while_nobody_loses_access() {
    on_both_engines(|world| {
        let channel = world.new_channel("queue");
        let other = world.new_channel("other");
        let input =
            json!({"workspace_id": world.id("workspace"), "channel_id": channel, "timeout_secs": 300});
        let agent = world.people.agent.clone();
        let found = wait_while(world, &agent, "wait_for_ready", input, || {
            let before = world.service.wait_counts();
            (0..4).for_each(|_| world.clock.advance(Duration::from_secs(10)));
            assert_eq!(world.service.wait_counts(), before);
            world.admin("update_channel", json!({"channel_id": other, "topic": "who may see what"}));
            world.clock.advance(Duration::from_secs(10));
            until("the look", || world.service.wait_counts().asked > before.asked);
            until("the wait", || world.service.parked_waits() == before.parked);
            world.new_thread(&channel, "at last");
        });
        assert!(found.output()["thread_id"].is_string(), "it still waits for what comes");
    });
}
