//! A server that has written alone for a while assumes that it still does, on Postgres: a change by another
//! server ends the assumption, and no caller notices.

use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::database::engines;
use svc_tests::site::done;
use svc_tests::{World, on_both_engines};

/// Claims enough threads that the next claim assumes the state after the last one.
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
        let (channel, elsewhere) = (with_threads(world, 45), world.another_service(7));
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
        let (channel, elsewhere) = (with_threads(world, 40), world.another_service(7));
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

/// A deadlock, raised once at the next event that is written.
const CONFLICT_ONCE: &str = "
    create sequence conflicts;
    create function conflict_once() returns trigger language plpgsql as $$
    begin
        if nextval('conflicts') = 1 then
            raise exception 'conflict' using errcode = '40P01';
        end if;
        return new;
    end $$;
    create trigger conflict_once before insert on events for each row execute function conflict_once()";

#[test]
fn an_assumption_that_was_wrong_leaves_a_batch_its_second_attempt() {
    if !engines().contains(&Engine::Postgres) {
        return;
    }
    let world = World::open(Engine::Postgres);
    let channel = with_threads(&world, 20);
    claim_alone(&world, &channel);
    world.database.execute(CONFLICT_ONCE);
    world.database.execute("update heads set epoch = epoch + 1");
    let claimed = world.agent("claim_next_thread", json!({"channel_id": channel}));
    assert_eq!(claimed["title"], "12");
    world.database.execute("drop function conflict_once cascade; drop sequence conflicts");
}
