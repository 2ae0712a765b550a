//! Two servers that share a database: what one does counts for the next call of the other.

use serde_json::{Value, json};
use svc_tests::site::done;
use svc_tests::{World, on_both_engines};

/// Claims several threads by one server.
fn claim_alone(world: &World, channel: &str) -> Vec<Value> {
    (0..12).map(|_| world.agent("claim_next_thread", json!({"channel_id": channel}))).collect()
}

fn with_threads(world: &World, count: usize) -> String {
    let channel = world.new_channel("shared");
    for number in 0..count {
        world.admin("create_thread", json!({"channel_id": channel, "title": number.to_string()}));
    }
    channel
}

#[test]
fn a_claim_sees_what_another_server_has_taken_meanwhile() {
    on_both_engines(|world| {
        let channel = with_threads(world, 45);
        let elsewhere = world.another_service(7);
        let mut claimed: Vec<Value> = Vec::new();
        for _ in 0..3 {
            claimed.extend(claim_alone(world, &channel));
            let claim = json!({"channel_id": channel});
            claimed.push(done(&elsewhere, &world.people.agent, "claim_next_thread", claim));
        }
        let titles: Vec<&str> = claimed.iter().filter_map(|thread| thread["title"].as_str()).collect();
        let wanted: Vec<String> = (0..39).map(|number| number.to_string()).collect();
        assert_eq!(titles, wanted, "on {}", world.engine().name());
        // It can continue with a claim of the other server, too.
        let last = json!({"thread_id": claimed[38]["id"], "result": {"done": true}});
        world.agent("set_thread_result", last);
    });
}

#[test]
fn what_another_server_has_forbidden_or_changed_counts_at_once() {
    on_both_engines(|world| {
        let channel = with_threads(world, 40);
        let elsewhere = world.another_service(7);
        let admin = &world.people.admin;
        claim_alone(world, &channel);
        let urgent = json!({"channel_id": channel, "title": "urgent", "priority": 9});
        done(&elsewhere, admin, "create_thread", urgent);
        let claim = json!({"channel_id": channel});
        assert_eq!(world.agent("claim_next_thread", claim.clone())["title"], "urgent");
        let held = claim_alone(world, &channel);
        let release = json!({"thread_id": held[3]["id"], "claim_lease_id": held[3]["claim_lease_id"]});
        done(&elsewhere, &world.people.agent, "release_claim", release);
        let result = json!({"thread_id": held[3]["id"], "result": {}});
        world.call(&world.people.agent, "set_thread_result", result).refused(409, "claim-not-held");
        assert_eq!(world.agent("claim_next_thread", claim.clone())["title"], held[3]["title"]);
        claim_alone(world, &channel);
        done(&elsewhere, admin, "revoke_token", json!({"token_id": world.id("agent_token")}));
        world.call(&world.people.agent, "claim_next_thread", claim).refused(401, "unauthenticated");
    });
}
