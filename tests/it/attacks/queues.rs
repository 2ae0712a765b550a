//! Queues: however much one workspace asks for, the others wait for a few of its requests only.

use std::num::NonZeroU32;
use std::sync::Arc;

use svc_http::HttpSettings;
use svc_tests::attacks::callers::{expensive_reads, in_flight, keep_asking, posting};
use svc_tests::attacks::ground::Size;
use svc_tests::attacks::{Begun, Needs};
use svc_tests::process::until;

use super::arena::{Arena, on_each_engine};

const FEW: Size = Size { threads: 60, claimed: 6, messages: 20, large: 0, tasks: 40 };

/// Returns how many requests of an attack were done for each request of the victim.
fn done_meanwhile(arena: &Arena, attack: &Begun, rounds: usize) -> usize {
    until("the attack is in full swing", || attack.tally.all() > 0);
    let before = attack.tally.all();
    (0..rounds).for_each(|_| arena.serves_the_victim());
    (attack.tally.all() - before) / (rounds * arena.ground.victim.requests().len())
}

#[test]
fn a_read_waits_for_a_few_of_another_workspace() {
    on_each_engine(Needs::Footprints, FEW, &HttpSettings::default(), |arena| {
        let attack = arena.attack(|ground, tally| Box::pin(expensive_reads(ground, tally)));
        // There are 128 at any moment.
        let done = done_meanwhile(arena, &attack, 2);
        assert!(done < 64, "{done} reads of the attacker for each of the victim: {}", attack.tally.report());
    });
}

#[test]
fn a_change_waits_for_two_batches_of_another_workspace_at_most() {
    on_each_engine(Needs::Nothing, FEW, &HttpSettings::default(), |arena| {
        let attack = arena.attack(|ground, tally| {
            let (tokens, request) = (ground.attacker.agents.clone(), posting(&ground.attacker));
            Box::pin(keep_asking(ground, tally, tokens, 100, request))
        });
        until("the queue is full", || attack.tally.count(201) > 1000);
        // There are 1,000 at any moment, and a batch takes 256 of them.
        let before = attack.tally.all();
        const POSTS: usize = 4;
        let [_, _, post, _] = arena.ground.victim.requests();
        for _ in 0..POSTS {
            let posted = arena.victim(post.method.as_str(), &post.target, post.body.as_ref());
            assert_eq!(posted.status, 201, "{:#}", posted.body);
        }
        let done = (attack.tally.all() - before) / POSTS;
        assert!(done < 700, "{done} changes of the attacker for each of the victim");
        arena.serves_the_victim();
    });
}

#[test]
fn a_workspace_with_more_requests_than_there_are_places_leaves_some() {
    let http = HttpSettings { concurrent_requests: NonZeroU32::new(32), ..HttpSettings::default() };
    on_each_engine(Needs::Footprints, FEW, &http, |arena| {
        let attack = arena.attack(|ground, tally| Box::pin(in_flight(ground, tally)));
        until("the attack is in full swing", || attack.tally.all() > 0);
        (0..4).for_each(|_| arena.serves_the_victim());
        assert!(Arc::strong_count(&attack.tally) > 1, "the attack goes on");
    });
}
