//! Tests methods, paths, bodies, headers, limits and the shutdown.

use std::time::Duration;

use futures_util::StreamExt as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::*;

const CHANNELS: &str = "/workspaces/{workspace_id}/channels";

#[tokio::test]
async fn missing_routes_and_methods_are_distinguished() {
    let server = Server::start(HttpSettings::default()).await;
    assert_eq!(server.ask("GET", "/me/", "").await.status, 200, "a slash at the end changes nothing");
    for nowhere in ["/", "/nowhere", "/me//", "/Me", "//me"] {
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
async fn admitted_callers_get_the_log_position() {
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
        request.headers_mut().remove(HOST);
        let answer = Answer::of(sender.send_request(request).await.unwrap()).await;
        assert_eq!((answer.status.as_u16(), answer.header("svc-room-lsn")), (200, "5"));
        assert!(length.is_none_or(|length: usize| length == answer.body.len()));
    }
}

/// Sends bytes, and returns the bytes that the server sends until the connection ends.
async fn exchange(server: &Server, bytes: &str) -> String {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut response = String::new();
    timeout(Duration::from_secs(20), stream.read_to_string(&mut response)).await.unwrap().unwrap();
    response
}

#[tokio::test]
async fn ambiguous_requests_are_rejected() {
    let server = Server::start(HttpSettings::default()).await;
    let token = format!("Authorization: Bearer {}\r\n", server.made.token.secret);
    let dead = "Authorization: Bearer svc_dead\r\n";
    let post = |more: &str, body: &str| {
        format!("POST /tokens/attenuate HTTP/1.1\r\nConnection: close\r\n{more}\r\n{body}")
    };
    let json = "Host: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n";
    let chunks = "2\r\n{}\r\n0\r\n\r\n";
    let cases = [
        (post(&format!("{token}Content-Length: 2\r\n"), "{}"), "400", "malformed-request"),
        (post(&format!("Host: localhost\r\n{token}{json}"), "{}"), "400", "malformed-request"),
        (
            post(&format!("Host: localhost\r\n{token}Transfer-Encoding: gzip, chunked\r\n"), chunks),
            "501",
            "unsupported-transfer-coding",
        ),
        (post(&format!("{token}{json}Expect: bogus\r\n"), "{}"), "417", "expectation-failed"),
        (
            post(&format!("{token}{}", json.replace("json", "json; charset=utf-16")), "{}"),
            "415",
            "unsupported-media-type",
        ),
        // A caller that is not admitted learns of no other fault.
        (post(&format!("{dead}{json}Expect: bogus\r\n"), "{}"), "401", "unauthenticated"),
        (
            post(&format!("Host: localhost\r\n{dead}Transfer-Encoding: gzip, chunked\r\n"), chunks),
            "401",
            "unauthenticated",
        ),
        (
            format!("GET /threads/%zz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{dead}\r\n"),
            "401",
            "unauthenticated",
        ),
        // An absolute URI overrides the Host header.
        (
            format!("POST http://evil.example/mcp HTTP/1.1\r\nConnection: close\r\n{json}\r\n{{}}"),
            "403",
            "forbidden",
        ),
    ];
    for (request, status, code) in cases {
        let response = exchange(&server, &request).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{request}\n{response}");
        assert!(response.contains(&format!("\"/problems/{code}\"")), "{request}\n{response}");
    }
    let chosen = post(
        &format!(
            "Host: localhost\r\n{token}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\
             Expect: 100-continue\r\n"
        ),
        "2\r\n{}\r\n0\r\n\r\n",
    );
    assert!(
        exchange(&server, &chosen).await.contains("400 Bad Request"),
        "the body is read, and its fields are missing"
    );
}

#[tokio::test]
async fn malformed_http_is_rejected_without_a_problem() {
    let server = Server::start(HttpSettings::default()).await;
    let field = format!("x: {}\r\n", "v".repeat(7000));
    let cases = [
        ("GET /me HTTP/1.1\r\nHost: a\r\n bad\r\n\r\n".to_owned(), "400"),
        ("GET /me HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n".to_owned(), "400"),
        (format!("GET /me HTTP/1.1\r\nHost: a\r\n{}\r\n", "a: b\r\n".repeat(101)), "431"),
        (format!("GET /me HTTP/1.1\r\nHost: a\r\n{}\r\n", field.repeat(10)), "431"),
    ];
    for (request, status) in cases {
        let response = exchange(&server, &request).await;
        assert!(response.starts_with(&format!("HTTP/1.1 {status} ")), "{request:.200}\n{response}");
        assert!(response.contains("content-length: 0\r\n") && response.ends_with("\r\n\r\n"), "{response}");
    }
}

#[tokio::test]
async fn errors_repeat_input_only_in_part() {
    let server = Server::start(HttpSettings::default()).await;
    let long = "n".repeat(60_000);
    let call = |name: &str, arguments: &str| {
        let params = format!(r#"{{"name":"{name}","arguments":{arguments}}}"#);
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#)
    };
    for (method, path, body) in [
        ("GET", format!("/{long}"), String::new()),
        ("GET", format!("/threads/{long}"), String::new()),
        ("GET", format!("/me?{long}=1"), String::new()),
        ("POST", CHANNELS.to_owned(), format!(r#"{{"{long}":1}}"#)),
        ("POST", CHANNELS.to_owned(), format!(r#"{{"name":1,"private":"{long}"}}"#)),
        ("POST", "/mcp".to_owned(), call(&long, "{}")),
        ("POST", "/mcp".to_owned(), call("create_channel", &format!(r#"{{"{long}":1}}"#))),
        ("POST", "/mcp".to_owned(), call("get_thread", &format!(r#"{{"thread_id":"{long}"}}"#))),
        ("POST", "/mcp".to_owned(), format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{long}"}}"#)),
    ] {
        let answer = server.ask(method, &path, body).await;
        assert!(answer.body.len() < 3000, "{method} {path:.40}: {} bytes", answer.body.len());
        assert!(answer.status.is_client_error() || path == "/mcp", "{path:.40}: {}", answer.status);
    }
}

#[tokio::test]
async fn an_unfinished_body_takes_no_slot() {
    let settings =
        HttpSettings { concurrent_requests: std::num::NonZeroU32::new(1), ..HttpSettings::default() };
    let server = Server::start(settings).await;
    let wait = "/workspaces/{workspace_id}/wait/event?after_id=5&timeout_secs=30";
    let mut waiting = Box::pin(server.ask("GET", wait, ""));
    assert!(timeout(Duration::from_millis(200), &mut waiting).await.is_err());
    while server.ask("GET", "/me", "").await.status == 503 {}
    let head = |credential: &str| {
        format!("POST /workspaces/x/channels HTTP/1.1\r\nHost: x\r\n{credential}Content-Length: 9\r\n\r\n{{")
    };
    let mut slow = TcpStream::connect(server.address).await.unwrap();
    let credential = format!("Authorization: Bearer {}\r\n", server.made.token.secret);
    slow.write_all(head(&credential).as_bytes()).await.unwrap();
    let mut stranger = TcpStream::connect(server.address).await.unwrap();
    stranger.write_all(head("").as_bytes()).await.unwrap();
    let mut status = [0; 12];
    timeout(Duration::from_secs(10), stranger.read_exact(&mut status)).await.unwrap().unwrap();
    assert_eq!(&status, b"HTTP/1.1 401", "the body of an unauthenticated caller is not awaited");
    for _ in 0..20 {
        assert_eq!(server.ask("GET", "/me", "").await.status, 200);
    }
    timeout(Duration::from_secs(20), slow.read_exact(&mut status)).await.unwrap().unwrap();
    assert_eq!(&status, b"HTTP/1.1 400", "the body arrived too slowly");
    server.add_channel("one").await;
    assert_eq!(waiting.await.json()["items"][0]["kind"], "ChannelCreated");
}

/// Otherwise the server would wait ten seconds for the rest of each request head.
#[tokio::test]
async fn half_sent_heads_end_with_the_server() {
    let mut server = Server::start(HttpSettings::default()).await;
    let mut halves = Vec::new();
    for head in ["", "G", "GET /me HTTP/1.1\r\nHost: x\r\n", "PRI * HTTP/2.0\r\n"] {
        let mut half = TcpStream::connect(server.address).await.unwrap();
        half.write_all(head.as_bytes()).await.unwrap();
        halves.push(half);
    }
    let mut second = TcpStream::connect(server.address).await.unwrap();
    second.write_all(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    second.read_exact(&mut [0; 12]).await.unwrap();
    second.write_all(b"GET /health/live HTTP/1.1\r\nHo").await.unwrap();
    halves.push(second);
    // Over HTTP/2, a connection that sends nothing after its first response.
    let mut mute = TcpStream::connect(server.address).await.unwrap();
    let block = b"\x82\x86\x04\x0c/health/live\x01\x01x";
    let settings = b"\0\0\0\x04\0\0\0\0\0";
    let headers = [&[0, 0, u8::try_from(block.len()).unwrap(), 1, 5, 0, 0, 0, 1], &block[..]].concat();
    mute.write_all(&[b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &settings[..], &headers].concat()).await.unwrap();
    let mut answered = Vec::new();
    while !answered.ends_with(br#""ok"}"#) {
        assert!(mute.read_buf(&mut answered).await.unwrap() > 0, "{answered:?}");
    }
    halves.push(mute);
    // A request on a further connection shows that the server has accepted the earlier connections.
    assert_eq!(server.ask("GET", "/me", "").await.status, 200);
    server.stop();
    timeout(Duration::from_secs(8), server.serving).await.unwrap().unwrap().unwrap();
    for mut half in halves {
        let _ = half.read_to_end(&mut Vec::new()).await;
    }
}

#[tokio::test]
async fn unread_responses_are_limited_per_client() {
    const ASKED: usize = 9;
    let server = Server::start(HttpSettings::default()).await;
    let id = |answer: Answer| answer.json()["id"].as_str().unwrap().to_owned();
    let channel = id(server.ask("POST", CHANNELS, r#"{"name":"large"}"#).await);
    let thread = id(server.ask("POST", &format!("/channels/{channel}/threads"), r#"{"title":"long"}"#).await);
    let messages = format!("/threads/{thread}/messages");
    for _ in 0..3 {
        let body = serde_json::json!({"body": "\u{1f600}".repeat(90_000)}).to_string();
        assert_eq!(server.ask("POST", &messages, body).await.status, 201);
    }
    let size = server.ask("GET", &messages, "").await.body.len();
    let stream = TcpStream::connect(server.address).await.unwrap();
    // A client that grants its streams almost no flow-control window.
    let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(1)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    let mut waiting = futures_util::stream::FuturesUnordered::new();
    for _ in 0..ASKED {
        let mut request = server.request("GET", &messages, "");
        *request.uri_mut() = format!("http://{}{messages}", server.address).parse().unwrap();
        request.headers_mut().remove(HOST);
        let mut sender = sender.clone();
        waiting.push(async move { sender.send_request(request).await.unwrap() });
    }
    let mut left = Vec::new();
    for _ in 0..(8 << 20) / size {
        let answer = timeout(Duration::from_secs(60), waiting.next()).await.unwrap().unwrap();
        assert_eq!(answer.status(), 200);
        left.push(answer);
    }
    assert!(timeout(Duration::from_millis(500), waiting.next()).await.is_err(), "there is no room");
    assert_eq!(server.ask("GET", "/me", "").await.status, 200, "small responses need no room");
    let mut other = server.request("GET", &messages, "");
    let bearer = format!("Bearer {}", server.made.agent_token.secret);
    other.headers_mut().insert(AUTHORIZATION, bearer.parse().unwrap());
    assert_eq!(server.send(other).await.body.len(), size, "another client can read");
    let mut large = Box::pin(server.ask("GET", &messages, ""));
    assert!(timeout(Duration::from_millis(300), &mut large).await.is_err(), "there is no room");
    drop((left, waiting, sender));
    connection.abort();
    assert_eq!(
        timeout(Duration::from_secs(20), large).await.unwrap().body.len(),
        size,
        "there is room again"
    );
}

#[tokio::test]
async fn the_status_is_a_page_without_scripts_for_whom_prefers_html() {
    let server = Server::start(HttpSettings::default()).await;
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    let asked = |path: &'static str, accept: &'static str| {
        let mut request = server.request("GET", path, "");
        request.headers_mut().insert("accept", accept.parse().unwrap());
        server.send(request)
    };
    let page = asked("/operator/status", browser).await;
    assert_eq!((page.status.as_u16(), page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(page.header("content-security-policy").starts_with("default-src 'none'"));
    assert_eq!((page.header("vary"), page.header("cache-control")), ("accept", "no-store"));
    let text = String::from_utf8(page.body.to_vec()).unwrap();
    assert!(
        text.starts_with("<!DOCTYPE html>") && text.contains("<dt>phase</dt>\n<dd>serving</dd>"),
        "{text}"
    );
    assert!(text.contains("<dt>websocket connections</dt>") && !text.contains("<script"), "{text}");
    for accept in ["application/json", "*/*", "text/html;q=0.5, application/json"] {
        let json = asked("/operator/status", accept).await;
        assert_eq!((json.header("content-type"), json.header("vary")), ("application/json", "accept"));
        assert_eq!(json.json()["phase"], "serving", "{accept}");
    }
    let other = asked("/me", browser).await;
    assert_eq!((other.header("content-type"), other.header("vary")), ("application/json", ""));
    let refused = asked("/operator/status?more=1", browser).await;
    assert_eq!(refused.problem("malformed-request"), 400);
}

#[tokio::test]
async fn shutdown_drains_and_is_graceful() {
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
    assert_eq!(server.ask("GET", "/operator/status", "").await.json()["phase"], "draining");
    assert_eq!(server.ask("GET", "/health/live", "").await.status, 200);
    assert_eq!(server.ask("GET", "/me", "").await.status, 200, "it still serves");
    let ended = waiting.await.unwrap();
    assert_eq!((ended.problem("closing"), ended.header("retry-after")), (503, "1"));
    timeout(Duration::from_secs(30), server.serving).await.unwrap().unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "the listener is closed");
}
