//! Workers: every member that claimed a thread, received it or set its result stays on record.

use serde_json::{Value, json};
use svc_tests::{World, on_both_engines, text};

use crate::coordination::budgets::{claim, limited, with};

/// Returns the workers of a thread, in the order in which they began.
fn workers(world: &World, thread: &str) -> Vec<String> {
    let thread = world.database.id(thread.parse::<uuid::Uuid>().unwrap());
    let sql =
        format!("select member_id from thread_workers where thread_id = {thread} order by lsn, member_id");
    world
        .database
        .rows(&sql)
        .iter()
        .map(|row| uuid::Uuid::parse_str(&text(&row[0])).unwrap().to_string())
        .collect()
}

#[test]
fn claimers_receivers_and_authors_of_results_are_workers() {
    on_both_engines(|world| {
        let agent = world.id("agent").to_string();
        let admin = world.id("admin").to_string();
        let (third, token) = world.new_agent("third");
        let channel = world.new_channel("workshop");
        let thread = world.new_thread(&channel, "build");
        let about = |more: Value| {
            let mut input = json!({"thread_id": thread});
            input.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            input
        };
        assert_eq!(workers(world, &thread), [""; 0], "opening a thread makes no worker");
        world.agent("claim_thread", about(json!({})));
        assert_eq!(workers(world, &thread), std::slice::from_ref(&agent));
        world.agent("hand_off_claim", about(json!({"to_member_id": third})));
        assert_eq!(workers(world, &thread), [agent.clone(), third.clone()]);
        world.call(&token, "set_thread_result", about(json!({"result": {}}))).output();
        world.admin("transition_thread", about(json!({"action": "close"})));
        assert_eq!(
            workers(world, &thread),
            [agent.clone(), third.clone()],
            "closing a thread makes no worker"
        );
        world.admin("transition_thread", about(json!({"action": "reopen"})));
        world.agent("claim_next_thread", json!({"channel_id": channel}));
        assert_eq!(workers(world, &thread), [agent.clone(), third.clone()], "a second claim adds no worker");
        let lease = world.admin("get_thread", about(json!({})))["claim_lease_id"].clone();
        world.agent("release_claim", about(json!({"claim_lease_id": lease})));
        world.admin("claim_thread", about(json!({})));
        assert_eq!(workers(world, &thread), [agent, third, admin]);
    });
}

/// Returns a member, and a token by which it acts for the agent.
fn delegate_of_the_agent(world: &World) -> (String, String) {
    let (delegate, token) = world.new_agent("delegate");
    let work = ["workspace:read", "thread:transition"];
    let lent = world.exchange(&token, &world.new_grant(&world.id("agent").to_string(), &delegate, &work));
    (delegate, lent)
}

#[test]
fn a_delegate_is_a_worker_beside_the_member_it_acts_for() {
    on_both_engines(|world| {
        let (delegate, token) = delegate_of_the_agent(world);
        let mut both = [world.id("agent").to_string(), delegate];
        both.sort();
        let thread = world.new_thread(&world.id("channel").to_string(), "errand");
        world.call(&token, "claim_thread", json!({"thread_id": thread})).output();
        assert_eq!(workers(world, &thread), both);

        // A renewal counts even if it cannot extend the lease.
        let thread = limited(world, &world.id("channel").to_string(), json!({"max_wall_secs": 60}));
        let lease = claim(world, &thread, 60);
        let until = world.agent("get_claim", with(&thread, json!({})))["lease_expires_at"].clone();
        let renewal = with(&thread, json!({"claim_lease_id": lease, "lease_secs": 600}));
        for _ in 0..2 {
            let renewed = world.call(&token, "renew_claim", renewal.clone()).output();
            assert_eq!(renewed["lease_expires_at"], until);
        }
        let mut found = workers(world, &thread);
        found.sort();
        assert_eq!(found, both);
        let lsn = world.lsn();
        world.call(&token, "renew_claim", renewal).output();
        assert_eq!(world.lsn(), lsn, "recorded once");
    });
}
