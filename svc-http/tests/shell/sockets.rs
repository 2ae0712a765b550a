//! Tests subscriptions over WebSocket: authorization, delivery, order and the end of a subscription.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use super::*;

/// A client of the subscription route.
struct Socket(WebSocketStream<TcpStream>);

impl Socket {
    async fn open(server: &Server) -> Result<Self, tungstenite::Error> {
        let stream = TcpStream::connect(server.address).await.unwrap();
        let (socket, _) = client_async(format!("ws://{}/ws/subscribe", server.address), stream).await?;
        Ok(Self(socket))
    }

    /// Subscribes as the administrator, with `more` in the first frame, and returns the acknowledgement.
    async fn subscribed(server: &Server, more: Value) -> (Self, Value) {
        let mut hello =
            json!({"token": server.made.token.secret, "filter": {"workspace_id": server.workspace()}});
        for (name, value) in more.as_object().unwrap() {
            match (name.as_str(), value) {
                ("filter", filter) => {
                    hello["filter"].as_object_mut().unwrap().extend(filter.as_object().unwrap().clone())
                }
                _ => hello[name] = value.clone(),
            }
        }
        let mut socket = Self::open(server).await.unwrap();
        socket.send(hello).await;
        let ack = socket.next().await;
        assert_eq!((&ack["type"], &ack["schema_version"]), (&json!("subscribe_ack"), &json!(1)));
        (socket, ack)
    }

    async fn send(&mut self, frame: Value) {
        self.0.send(Message::text(frame.to_string())).await.unwrap();
    }

    async fn read(&mut self) -> Message {
        loop {
            match timeout(Duration::from_secs(20), self.0.next()).await.unwrap().unwrap().unwrap() {
                Message::Ping(_) | Message::Pong(_) => {}
                message => return message,
            }
        }
    }

    async fn next(&mut self) -> Value {
        match self.read().await {
            Message::Text(text) => serde_json::from_str(text.as_str()).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    async fn closed(&mut self) -> (CloseCode, String) {
        match self.read().await {
            Message::Close(Some(frame)) => (frame.code, frame.reason.as_str().to_owned()),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn events_come_in_order_from_where_the_client_left_off() {
    let server = Server::start(HttpSettings::default()).await;
    let (mut all, ack) = Socket::subscribed(&server, json!({"after_id": 0})).await;
    assert_eq!((&ack["after_id"], &ack["room_lsn"]), (&json!(0), &json!(5)));
    let (mut live, ack) = Socket::subscribed(&server, json!({"filter": {"kind": "ChannelCreated"}})).await;
    assert_eq!((&ack["after_id"], &ack["room_lsn"]), (&json!(5), &json!(5)));
    for number in 0..40 {
        server.add_channel(&format!("channel {number}")).await;
    }
    for lsn in 1..=45 {
        let event = all.next().await;
        assert_eq!((&event["id"], &event["lsn"]), (&json!(lsn), &json!(lsn)));
    }
    for lsn in 6..=45 {
        let event = live.next().await;
        assert_eq!((&event["id"], &event["kind"]), (&json!(lsn), &json!("ChannelCreated")));
        assert_eq!(event["$type"], "svc.event.ChannelCreated/1");
        assert_eq!(event["attribution"], event["payload"]["attribution"]);
        assert_eq!(event["attribution"]["actor_id"], json!(server.made.admin.id));
    }
    let resume = json!({"resume_token": ack["resume_token"], "filter": {"kind": "ChannelCreated"}});
    let (mut again, second) = Socket::subscribed(&server, resume).await;
    assert_eq!((&second["after_id"], &second["room_lsn"]), (&json!(5), &json!(45)));
    assert_eq!(again.next().await["id"], 6);
}

#[tokio::test]
async fn a_client_that_does_not_read_delays_no_others() {
    let server = Server::start(HttpSettings::default()).await;
    let (_idle, _) = Socket::subscribed(&server, json!({"after_id": 0})).await;
    let (mut busy, _) = Socket::subscribed(&server, json!({})).await;
    for number in 0..50 {
        let lsn = server.add_channel(&format!("channel {number}")).await;
        assert_eq!(busy.next().await["id"], lsn);
    }
}

#[tokio::test]
async fn an_invalid_first_frame_is_rejected_with_a_reason() {
    let server = Server::start(HttpSettings::default()).await;
    let token = &server.made.token.secret;
    let workspace_id = server.workspace();
    let filter = json!({"workspace_id": workspace_id});
    let cases = [
        (Message::text(json!({"filter": filter}).to_string()), CloseCode::Policy, "unauthenticated"),
        (
            Message::text(json!({"token": "svc_x", "filter": filter}).to_string()),
            CloseCode::Policy,
            "unauthenticated",
        ),
        (Message::text("{"), CloseCode::Policy, "malformed-request"),
        (
            Message::text(format!(r#"{{"token":"{token}","filter":{filter},"filter":{filter}}}"#)),
            CloseCode::Policy,
            "appears twice",
        ),
        (Message::binary(vec![0]), CloseCode::Policy, "malformed-request"),
        (Message::text(json!({"token": token}).to_string()), CloseCode::Policy, "filter"),
        (
            Message::text(json!({"token": token, "filter": filter, "aftr_id": 1}).to_string()),
            CloseCode::Policy,
            "aftr_id",
        ),
        (
            Message::text(
                json!({"token": token, "filter": {"workspace_id": workspace_id, "thred": 1}}).to_string(),
            ),
            CloseCode::Policy,
            "thred",
        ),
        (
            Message::text(json!({"token": token, "filter": filter, "after_id": -1}).to_string()),
            CloseCode::Policy,
            "after_id",
        ),
        (
            Message::text(
                json!({"token": token, "filter": {"workspace_id": "01990000-0000-7000-8000-000000000001"}})
                    .to_string(),
            ),
            CloseCode::Policy,
            "not-found",
        ),
        (Message::text("x".repeat(65_537)), CloseCode::Size, "65536"),
        (
            Message::Frame(tungstenite::protocol::frame::Frame::message(
                vec![0xff, 0xfe],
                tungstenite::protocol::frame::coding::OpCode::Data(
                    tungstenite::protocol::frame::coding::Data::Text,
                ),
                true,
            )),
            CloseCode::Invalid,
            "UTF-8",
        ),
    ];
    for (frame, code, reason) in cases {
        let shown = format!("{frame:?}").chars().take(200).collect::<String>();
        let mut socket = Socket::open(&server).await.unwrap();
        socket.0.send(frame).await.unwrap();
        let (closed_with, why) = socket.closed().await;
        assert!(closed_with == code && why.contains(reason), "{shown}: {closed_with} {why}");
    }
    let (mut socket, _) = Socket::subscribed(&server, json!({})).await;
    socket.send(json!({"another": "frame"})).await;
    assert_eq!(socket.closed().await.0, CloseCode::Policy);
}

#[tokio::test]
async fn nothing_may_precede_the_first_frame() {
    let server = Server::start(HttpSettings::default()).await;
    for early in [Message::Ping(Default::default()), Message::Pong(Default::default())] {
        let mut socket = Socket::open(&server).await.unwrap();
        socket.0.send(early).await.unwrap();
        assert_eq!(socket.closed().await.0, CloseCode::Policy);
    }
}

#[tokio::test]
async fn pings_are_answered_once_a_second_and_a_flood_ends_the_connection() {
    let server = Server::start(HttpSettings::default()).await;
    let (mut socket, _) = Socket::subscribed(&server, json!({})).await;
    for number in 0..10 {
        socket.0.send(Message::Ping(vec![number].into())).await.unwrap();
    }
    let lsn = server.add_channel("one").await;
    let mut pongs = Vec::new();
    let event = loop {
        match timeout(Duration::from_secs(20), socket.0.next()).await.unwrap().unwrap().unwrap() {
            Message::Pong(payload) => pongs.push(payload.to_vec()),
            Message::Text(text) => break serde_json::from_str::<Value>(text.as_str()).unwrap(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((event["id"].as_i64(), pongs), (Some(lsn), vec![vec![0]]));
    for _ in 0..60 {
        socket.0.feed(Message::Ping(Default::default())).await.unwrap();
    }
    socket.0.flush().await.unwrap();
    let (code, reason) = socket.closed().await;
    assert!(code == CloseCode::Policy && reason.contains("pings"), "{reason}");
}

#[tokio::test]
async fn a_handshake_is_checked_before_the_upgrade() {
    let server = Server::start(HttpSettings::default()).await;
    let shake = async |headers: &[(&'static str, &str)]| {
        let mut request = format!("ws://{}/ws/subscribe", server.address).into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let stream = TcpStream::connect(server.address).await.unwrap();
        match client_async(request, stream).await {
            Ok((socket, _)) => Ok(Socket(socket)),
            Err(tungstenite::Error::Http(refused)) => Err(refused.status().as_u16()),
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(shake(&[("origin", "https://evil.example")]).await.err(), Some(403));
    assert_eq!(shake(&[("host", "evil.example")]).await.err(), Some(403));
    assert_eq!(shake(&[("authorization", "Bearer svc_dead")]).await.err(), Some(401));
    assert!(shake(&[("origin", "http://localhost:3000")]).await.is_ok());
    let bearer = format!("Bearer {}", server.made.token.secret);
    let mut socket = shake(&[("authorization", &bearer), ("host", "svc.example")]).await.ok().unwrap();
    socket.send(json!({"filter": {"workspace_id": server.workspace()}})).await;
    assert_eq!(socket.next().await["type"], "subscribe_ack", "the first frame needs no token then");
    // The server completes a closing handshake that the client starts.
    socket.0.close(None).await.unwrap();
    assert!(matches!(socket.read().await, Message::Close(_)));
}

#[tokio::test]
async fn a_token_is_checked_at_each_poll() {
    let server = Server::start(HttpSettings::default()).await;
    let narrow = |capability: &str| json!({"capabilities": [capability], "label": "socket"}).to_string();
    let reader = server.ask("POST", "/tokens/attenuate", narrow("workspace:read")).await.json();
    let mut socket = Socket::open(&server).await.unwrap();
    let filter = json!({"workspace_id": server.workspace()});
    socket.send(json!({"token": reader["secret"], "filter": filter})).await;
    let (code, reason) = socket.closed().await;
    assert!(code == CloseCode::Policy && reason.contains("event:subscribe"), "{reason}");

    let subscriber = server.ask("POST", "/tokens/attenuate", narrow("event:subscribe")).await.json();
    let (mut socket, _) = Socket::subscribed(&server, json!({"token": subscriber["secret"]})).await;
    let path = format!("/tokens/{}", subscriber["id"].as_str().unwrap());
    assert_eq!(server.ask("DELETE", &path, "").await.status, 200);
    let (code, reason) = socket.closed().await;
    assert!(code == CloseCode::Policy && reason.starts_with("unauthenticated"), "{reason}");
}

#[tokio::test]
async fn connections_are_limited_and_closed_at_shutdown() {
    let mut server = Server::start(HttpSettings { ws_connections: 1, ..HttpSettings::default() }).await;
    let plain = server.ask("GET", "/ws/subscribe", "").await;
    assert_eq!(plain.problem("malformed-request"), 400);
    let (mut socket, _) = Socket::subscribed(&server, json!({})).await;
    match Socket::open(&server).await {
        Err(tungstenite::Error::Http(refused)) => assert_eq!(refused.status(), 503),
        other => panic!("{:?}", other.map(|_| ())),
    }
    server.stop();
    assert_eq!(socket.closed().await.0, CloseCode::Away);
    timeout(Duration::from_secs(30), server.serving).await.unwrap().unwrap().unwrap();
}

/// Handshakes without a credential have 512 separate slots, of which one address may take half.
#[tokio::test]
async fn handshakes_without_a_credential_take_no_place_of_a_socket() {
    let server = Server::start(HttpSettings { ws_connections: 4, ..HttpSettings::default() }).await;
    let mut silent = Vec::new();
    for number in 0..256 {
        silent.push(Socket::open(&server).await.unwrap_or_else(|error| panic!("{number}: {error}")));
    }
    match Socket::open(&server).await {
        Err(tungstenite::Error::Http(refused)) => {
            assert_eq!(refused.status(), 503);
            let problem: Value = serde_json::from_slice(refused.body().as_ref().unwrap()).unwrap();
            assert_eq!(problem["scope"], "client", "{problem}");
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
    silent.pop();
    // The only client of the only workspace may take three quarters of three quarters, rounded down: two of
    // four.
    let mut sockets = Vec::new();
    for _ in 0..2 {
        let hello =
            json!({"token": server.made.token.secret, "filter": {"workspace_id": server.workspace()}});
        let mut socket = silent.pop().unwrap();
        socket.send(hello).await;
        assert_eq!(socket.next().await["type"], "subscribe_ack");
        sockets.push(socket);
    }
    let mut third = silent.pop().unwrap();
    third
        .send(json!({"token": server.made.token.secret, "filter": {"workspace_id": server.workspace()}}))
        .await;
    let (_, reason) = third.closed().await;
    assert!(reason.starts_with("overloaded"), "{reason}");
    drop(silent);
}

#[tokio::test]
async fn a_dead_token_is_reported_whatever_else_is_wrong_with_the_frame() {
    let server = Server::start(HttpSettings::default()).await;
    let token = &server.made.token.secret;
    let workspace_id = server.workspace();
    let filter = json!({"workspace_id": workspace_id});
    let garbled = json!({"workspace_id": workspace_id, "thread_id": "x"});
    let cases = [
        (json!({"token": "svc_dead", "filter": garbled}), "unauthenticated: "),
        (json!({"token": "svc_dead", "filter": filter, "after_id": -1}), "unauthenticated: "),
        (json!({"filter": garbled}), "unauthenticated: "),
        (json!({"token": token, "filter": garbled}), "malformed-request: `filter`: `thread_id`: "),
        (
            json!({"token": token, "filter": filter, "after_id": -1}),
            "malformed-request: `after_id`: expected 0",
        ),
        (
            json!({"token": token, "filter": filter, "aftr_id": 1}),
            "malformed-request: the first frame: `aftr_id`: unknown",
        ),
    ];
    for (frame, reason) in cases {
        let mut socket = Socket::open(&server).await.unwrap();
        socket.send(frame.clone()).await;
        let (_, why) = socket.closed().await;
        assert!(why.starts_with(reason), "{frame}: {why}");
    }
}
