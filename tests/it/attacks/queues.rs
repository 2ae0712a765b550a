//! Queues: however many requests one workspace sends, the others wait for only a few of them.

use std::num::NonZeroU32;
use std::sync::Arc;

use secrecy::SecretString;
use serde_json::json;
use svc_core::Service;
use svc_core::op::{Request, Surface};
use svc_http::HttpSettings;
use svc_tests::attacks::callers::{expensive_reads, in_flight};
use svc_tests::attacks::ground::{AttackGround, AttackSize, OutcomeTally};
use svc_tests::attacks::{AttackHandle, AttackNeeds};
use svc_tests::process::until;
use svc_tests::site::done;
use tokio::task::JoinSet;

use super::arena::{Arena, on_each_engine};

const FEW: AttackSize = AttackSize { threads: 60, claimed: 6, messages: 20, large: 0, tasks: 40 };

/// Returns how many requests of an attack were done for each request of the victim.
fn done_meanwhile(arena: &Arena, attack: &AttackHandle, rounds: usize) -> usize {
    until("the attack is in full swing", || attack.tally.all() > 0);
    let before = attack.tally.all();
    (0..rounds).for_each(|_| arena.serves_the_victim());
    (attack.tally.all() - before) / (rounds * arena.ground.victim.requests().len())
}

#[test]
fn a_read_waits_for_a_few_of_another_workspace() {
    on_each_engine(AttackNeeds::Footprints, FEW, &HttpSettings::default(), |arena| {
        let attack = arena.attack(|ground, tally| Box::pin(expensive_reads(ground, tally)));
        // There are 128 in progress at any moment.
        let done = done_meanwhile(arena, &attack, 2);
        assert!(done < 64, "{done} reads of the attacker for each of the victim: {}", attack.tally.report());
    });
}

#[test]
fn a_change_waits_for_two_batches_of_another_workspace_at_most() {
    const POSTS: usize = 4;
    on_each_engine(AttackNeeds::Nothing, FEW, &HttpSettings::default(), |arena| {
        let service = &arena.world.service;
        let victim = &arena.ground.victim;
        let attack = arena.attack({
            let service = service.clone();
            |ground, tally| Box::pin(post_in_process(service, ground, tally))
        });
        until("the queue is full", || attack.tally.all() > CHANGES);
        let before = attack.tally.all();
        for _ in 0..POSTS {
            let message = json!({"thread_id": victim.thread_id, "body": "is anybody there?"});
            done(service, &victim.agents[0], "post_message", message);
        }
        // A batch takes 256 of them.
        let each = (attack.tally.all() - before) / POSTS;
        assert!(each < CHANGES / 2, "{each} changes of the attacker for each of the victim");
    });
}

/// Queued changes of the attacker at any moment.
const CHANGES: usize = 1500;

/// Posts from many callers in this process, so that only the queue is between them and the writer.
async fn post_in_process(service: Service, ground: Arc<AttackGround>, tally: Arc<OutcomeTally>) {
    let mut callers = JoinSet::new();
    for number in 0..CHANGES {
        let token = SecretString::from(ground.attacker.agents[number % 10].as_str());
        let input = json!({"thread_id": ground.attacker.thread_id, "body": "more and more"}).to_string();
        let service = service.clone();
        let tally = Arc::clone(&tally);
        callers.spawn(async move {
            loop {
                let request = Request::json(Surface::Rest, Some(token.clone()), input.clone());
                let post = service.operation("post_message").expect("an operation");
                tally.add(service.ask(post, request).await.is_ok());
            }
        });
    }
    callers.join_all().await;
}

#[test]
fn a_workspace_with_more_requests_than_there_are_places_leaves_some() {
    const PLACES: u32 = 32;
    const ALONE: u32 = PLACES / 4 * 3;
    let http = HttpSettings { concurrent_requests: NonZeroU32::new(PLACES), ..HttpSettings::default() };
    on_each_engine(AttackNeeds::Footprints, FEW, &http, |arena| {
        let attack = arena.attack(|ground, tally| Box::pin(in_flight(ground, tally)));
        until("the attacker has all places that it gets", || {
            // This request takes no place in the queue.
            let status = arena.world.admin("get_operator_status", json!({}));
            let taken = status["queue_depths"]["requests_in_flight"]["count"].clone();
            assert!(taken.as_u64() <= Some(ALONE.into()), "the attacker has {taken} of {PLACES}");
            taken == ALONE
        });
        (0..4).for_each(|_| arena.serves_the_victim());
        assert!(Arc::strong_count(&attack.tally) > 1, "the attack goes on");
    });
}
