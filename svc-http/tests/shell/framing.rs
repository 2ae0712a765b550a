//! Methods, paths, bodies, headers; ceilings; the end.

use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::*;

const CHANNELS: &str = "/workspaces/{workspace_id}/channels";

#[tokio::test]
async fn what_is_not_there_is_told_apart() {
    let server = Server::start(HttpSettings::default()).await;
    for nowhere in ["/", "/nowhere", "/me/", "/Me", "//me"] {
        assert_eq!(server.ask("GET", nowhere, "").await.problem("unknown-route"), 404, "{nowhere}");
    }
    let wrong = server.ask("DELETE", "/me", "").await;
    assert_eq!(wrong.problem("method-not-allowed"), 405);
    let allowed: Vec<&str> = wrong.header("allow").split(", ").collect();
    assert!(["GET", "HEAD", "OPTIONS"].iter().all(|method| allowed.contains(method)), "{allowed:?}");
    let options = server.ask("OPTIONS", "/me", "").await;
    assert_eq!((options.status.as_u16(), options.header("allow")), (204, wrong.header("allow")));
    for unreadable in ["/threads/%zz", "/threads/%ff", "/me?a=%4"] {
        assert_eq!(server.ask("GET", unreadable, "").await.problem("malformed-request"), 400, "{unreadable}");
    }
}

#[tokio::test]
async fn the_position_is_told_to_who_is_let_in() {
    let server = Server::start(HttpSettings::default()).await;
    let seen = server.ask("GET", "/me", "").await;
    assert_eq!((seen.status.as_u16(), seen.header("svc-room-lsn")), (200, "5"));
    assert_eq!((seen.header("cache-control"), seen.header("content-type")), ("no-store", "application/json"));
    let head = server.ask("HEAD", "/me", "").await;
    assert_eq!((head.status.as_u16(), head.header("svc-room-lsn"), head.body.len()), (200, "5", 0));
    assert_eq!(head.header("content-length"), seen.body.len().to_string());
    assert_eq!(server.add_channel("one").await, 6);
    let refused = server.ask("POST", CHANNELS, r#"{"nam":"x"}"#).await;
    assert_eq!((refused.problem("malformed-request"), refused.header("svc-room-lsn")), (400, "6"));
    let mut stranger = server.request("GET", "/me", "");
    stranger.headers_mut().insert(AUTHORIZATION, HeaderValue::from_static("bearer svc_unknown"));
    let refused = server.send(stranger).await;
    assert_eq!((refused.problem("unauthenticated"), refused.header("www-authenticate")), (401, "Bearer"));
    for answer in
        [refused, server.ask("GET", "/health", "").await, server.ask("GET", "/openapi.json", "").await]
    {
        assert_eq!(answer.header("svc-room-lsn"), "");
    }
}

#[tokio::test]
async fn bodies_are_json_of_a_bounded_size() {
    let server = Server::start(HttpSettings { body_max_bytes: 1024, ..HttpSettings::default() }).await;
    let big = "x".repeat(3 << 20);
    assert_eq!(server.ask("POST", CHANNELS, big).await.problem("body-too-large"), 413);
    let mut text = server.request("POST", CHANNELS, r#"{"name":"x"}"#);
    text.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    assert_eq!(server.send(text).await.problem("unsupported-media-type"), 415);
    let mut chosen = server.request("POST", CHANNELS, r#"{"name":"x"}"#);
    chosen.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    assert_eq!(server.send(chosen).await.status, 201);
    let mut empty = server.request("GET", "/me", "");
    empty.headers_mut().remove(CONTENT_TYPE);
    assert_eq!(server.send(empty).await.status, 200);
}

#[tokio::test]
async fn http_2_is_served_on_the_same_port() {
    let server = Server::start(HttpSettings::default()).await;
    let stream = TcpStream::connect(server.address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for (method, length) in [("GET", None), ("HEAD", Some(0))] {
        let mut request = server.request(method, "/me", "");
        *request.uri_mut() = format!("http://{}/me", server.address).parse().unwrap();
        let answer = Answer::of(sender.send_request(request).await.unwrap()).await;
        assert_eq!((answer.status.as_u16(), answer.header("svc-room-lsn")), (200, "5"));
        assert!(length.is_none_or(|length: usize| length == answer.body.len()));
    }
}

#[tokio::test]
async fn a_parked_wait_is_not_in_flight_and_a_slow_body_is() {
    let settings =
        HttpSettings { concurrent_requests: std::num::NonZeroU32::new(1), ..HttpSettings::default() };
    let server = Server::start(settings).await;
    let wait = "/workspaces/{workspace_id}/wait/event?after_id=5&timeout_secs=30";
    let mut waiting = Box::pin(server.ask("GET", wait, ""));
    assert!(timeout(Duration::from_millis(200), &mut waiting).await.is_err());
    assert_eq!(server.ask("GET", "/me", "").await.status, 200);
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    let head = "POST /workspaces/x/channels HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{";
    slow.write_all(head.as_bytes()).await.unwrap();
    let mut refused = server.ask("GET", "/me", "").await;
    while refused.status == 200 {
        refused = server.ask("GET", "/me", "").await;
    }
    assert_eq!((refused.problem("overloaded"), refused.header("retry-after")), (503, "1"));
    assert_eq!(server.ask("GET", "/health", "").await.status, 200);
    slow.shutdown().await.unwrap();
    let mut told = Vec::new();
    slow.read_to_end(&mut told).await.unwrap();
    while server.ask("GET", "/me", "").await.status != 200 {
        tokio::task::yield_now().await;
    }
    server.add_channel("one").await;
    assert_eq!(waiting.await.json()["items"][0]["kind"], "ChannelCreated");
}

#[tokio::test]
async fn the_end_is_announced_and_then_orderly() {
    let settings = HttpSettings { shutdown_drain: Duration::from_secs(3), ..HttpSettings::default() };
    let mut server = Server::start(settings).await;
    let ready = server.ask("GET", "/health/ready", "").await;
    assert_eq!((ready.status.as_u16(), &ready.json()["status"]), (200, &"ok".into()));
    assert_eq!(ready.json()["checks"]["database"], "ok");
    let wait = "/workspaces/{workspace_id}/wait/event?after_id=5&timeout_secs=30";
    let request = server.request("GET", wait, "");
    let address = server.address;
    let waiting = tokio::spawn(async move {
        let stream = TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Answer::of(sender.send_request(request).await.unwrap()).await
    });
    assert_eq!(server.ask("GET", "/me", "").await.status, 200);
    server.stop();
    let mut ready = server.ask("GET", "/health/ready", "").await;
    while ready.status == 200 {
        ready = server.ask("GET", "/health/ready", "").await;
    }
    assert_eq!((ready.status.as_u16(), &ready.json()["status"]), (503, &"draining".into()));
    assert_eq!(server.ask("GET", "/health/live", "").await.status, 200);
    assert_eq!(server.ask("GET", "/me", "").await.status, 200, "it still serves");
    let ended = waiting.await.unwrap();
    assert_eq!((ended.problem("closing"), ended.header("retry-after")), (503, "1"));
    timeout(Duration::from_secs(30), server.serving).await.unwrap().unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "nobody listens any more");
}
