//! The shares of limited resources that one workspace leaves to another, over the wire.

use serde_json::json;
use svc_http::HttpSettings;
use svc_tests::client::ws::{Received, Ws, first_frame};
use svc_tests::database::engines;
use svc_tests::process::until;
use svc_tests::{Setup, World, text};

/// Subscribes `most` times, or until a socket is closed instead, and returns the open ones.
fn sockets(world: &World, token: &str, most: usize) -> Vec<Ws> {
    let me = world.rest().send(Some(token), "GET", "/me", &[], None).output();
    let first = first_frame(token, text(&me["workspace_id"]), None);
    let mut open = Vec::new();
    while open.len() < most {
        let mut socket = Ws::subscribe(world.address(), &first);
        match socket.receive() {
            Received::Frame(frame) => assert_eq!(frame["type"], "subscribe_ack"),
            Received::Closed(_) => break,
        }
        open.push(socket);
    }
    open
}

#[test]
fn a_workspace_that_takes_all_sockets_that_it_can_leaves_a_quarter_to_another() {
    for engine in engines() {
        let http = HttpSettings { ws_connections: 9, ..HttpSettings::default() };
        let world = &World::with(engine, Setup { http, ..Setup::default() });
        let agent = &world.people.agent;
        let admin = &world.people.admin;
        let agent = sockets(world, agent, 9);
        let admin = sockets(world, admin, 9);
        // Three quarters of nine, rounded down, and three quarters of that.
        assert_eq!((agent.len(), admin.len()), (4, 2));
        let silent: Vec<_> = (0..20).map(|_| Ws::connect(world.address(), &[])).collect();
        let other = sockets(world, &world.people.outsider, 3);
        assert_eq!(other.len(), 2, "a client of another workspace has three quarters of what is left");
        drop((agent, admin, silent, other));
        until("the sockets are closed", || {
            let operation = world.operation("get_operator_status");
            let status = world.rest().call(Some(&world.people.admin), operation, &json!({})).output();
            status["queue_depths"]["websocket_connections"]["count"] == 0
        });
    }
}
