//! Places that are occupied for long: one workspace may have up to three quarters of them.

use svc_http::HttpSettings;
use svc_tests::attacks::AttackNeeds;
use svc_tests::attacks::callers::{initialize, sessions};
use svc_tests::attacks::ground::AttackSize;
use svc_tests::attacks::places::{handshakes, sockets};
use svc_tests::attacks::streams::pages;
use svc_tests::client::ws::{Received, Ws, first_frame};
use svc_tests::process::until;

use super::arena::{Arena, on_each_engine, settled};

/// Unread bytes of all responses, and the share of them that one workspace may have.
const UNREAD_MAX: usize = 64 << 20;
const ALONE: usize = UNREAD_MAX / 4 * 3;
const SOCKETS: u32 = 40;

fn few_sockets() -> HttpSettings {
    HttpSettings { ws_connections: SOCKETS, ..HttpSettings::default() }
}

/// Subscribes as the victim, and waits for the first frame.
fn subscribe(arena: &Arena) {
    let victim = &arena.ground.victim;
    let credential = format!("Bearer {}", victim.admin);
    let first = first_frame(&victim.admin, &victim.workspace_id, None);
    let mut socket = Ws::subscribe_with(arena.world.address(), &[("authorization", &credential)], &first);
    let received = socket.receive();
    assert!(matches!(received, Received::Frame(_)), "{received:?}");
}

#[test]
fn unread_responses_of_one_workspace_leave_room_for_others() {
    on_each_engine(AttackNeeds::LargeThread, AttackSize::SMALL, &HttpSettings::default(), |arena| {
        let target = format!("/threads/{}/messages?limit=500", arena.ground.arms.large_thread);
        let agent = &arena.ground.attacker.agents[0];
        let page = arena.world.rest().send(Some(agent), "GET", &target, &[], None).output().to_string().len();
        let attack = arena.attack(|ground, tally| Box::pin(pages(ground, tally)));
        let held = || attack.tally.count(200) * page;
        until("the attacker has taken much", || held() > ALONE / 2);
        (0..3).for_each(|_| arena.serves_the_victim());
        let threads = arena.victim("GET", &arena.ground.victim.threads(), None).output();
        assert!(threads.to_string().len() > 16 << 10, "it needs room");
        assert!(held() <= ALONE, "{} bytes, in pages of {page}", held());
    });
}

#[test]
fn handshakes_without_a_credential_take_no_place_of_members() {
    on_each_engine(AttackNeeds::Nothing, AttackSize::SMALL, &few_sockets(), |arena| {
        let attack = arena.attack(|ground, tally| Box::pin(handshakes(ground, tally)));
        settled("the attacker gets no more sockets", || attack.tally.count(101));
        subscribe(arena);
        arena.serves_the_victim();
    });
}

#[test]
fn sockets_of_one_worker_leave_places_for_others() {
    on_each_engine(AttackNeeds::Nothing, AttackSize::SMALL, &few_sockets(), |arena| {
        let attack = arena.attack(|ground, tally| Box::pin(sockets(ground, tally)));
        let held = settled("the attacker gets no more sockets", || attack.tally.count(101));
        subscribe(arena);
        arena.serves_the_victim();
        let most = usize::try_from(SOCKETS).unwrap() / 4 * 3;
        assert!(held <= most, "{held} sockets of {SOCKETS}");
    });
}

#[test]
fn sessions_of_one_workspace_leave_places_for_others() {
    on_each_engine(AttackNeeds::Nothing, AttackSize::SMALL, &HttpSettings::default(), |arena| {
        let attack = arena.attack(|ground, tally| Box::pin(sessions(ground, tally)));
        let begun = || attack.tally.count(200) >= 1000 || attack.tally.count(503) > 0;
        until("it has what it can get", begun);
        let begun = arena.victim("POST", "/mcp/streamable", Some(&initialize()));
        assert_eq!(begun.status, 200, "{:#}", begun.body);
        assert_ne!(begun.headers.get("mcp-session-id"), None);
        arena.serves_the_victim();
    });
}
