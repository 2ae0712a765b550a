//! Tests how sessions, streams and batches end, with the requests in them.

use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use svc_core::RateSettings;
use svc_http::HttpSettings;

use super::server::Server;
use super::streams::initialize;

const EVENTS: (&str, &str) = ("accept", "application/json, text/event-stream");

/// A call that waits for minutes, unless it is cancelled.
fn wait(id: i64) -> Value {
    let params = json!({"name": "wait_for_ready", "arguments": {"timeout_secs": 300}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn cancel(id: i64) -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}).to_string()
}

impl Server {
    async fn begin_session(&self) -> String {
        let begun = self.at("/mcp/streamable", &[], initialize("2024-11-05")).await;
        begun.headers["mcp-session-id"].to_str().unwrap().to_owned()
    }

    async fn end_session(&self, id: &str) {
        let ended = self.bytes("/mcp/streamable", Method::DELETE, &[("mcp-session-id", id)], "").await;
        assert_eq!(ended.0.status, StatusCode::NO_CONTENT);
    }

    /// Opens a stream of the original HTTP transport. Returns the stream, and the URL in its first event.
    async fn first_transport(&self) -> (super::streams::Events, String) {
        let (_, mut events) = self.open("/mcp/streamable", &[]).await;
        let address = events.next().await.unwrap()[1].1.clone();
        (events, address)
    }
}

#[tokio::test]
async fn what_runs_for_a_session_ends_with_it() {
    let server = Server::start().await;
    let id = server.begin_session().await;
    let session = [EVENTS, ("mcp-session-id", id.as_str())];
    let (head, mut waiting) = server.stream("/mcp/streamable", &session, Some(&wait(5))).await;
    assert_eq!(head.headers["content-type"], "text/event-stream", "it is parked");
    assert!(head.headers.contains_key("svc-room-lsn"));
    let (_, mut told) = server.open("/mcp/streamable", &session).await;
    told.next().await.unwrap();
    server.end_session(&id).await;
    let ended = waiting.data().await;
    assert_eq!((&ended["id"], &ended["error"]["code"]), (&json!(5), &json!(404)), "{ended}");
    assert_eq!((waiting.next().await, told.next().await), (None, None));

    let (mut events, address) = server.first_transport().await;
    server.bytes(&address, Method::POST, &[], wait(6).to_string()).await;
    server.end_session(address.rsplit('=').next().unwrap()).await;
    // The stream ends although a wait is parked. Whether the stream sends the wait's answer first depends on
    // timing.
    let mut last = events.next().await;
    if let Some(answer) = &last {
        assert!(answer[1].1.contains("the session has ended"), "{answer:?}");
        last = events.next().await;
    }
    assert_eq!(last, None);
}

#[tokio::test]
async fn a_stream_is_of_a_session_that_exists() {
    let server = Server::start().await;
    let id = server.begin_session().await;
    for unknown in [("mcp-session-id", "x"), ("mcp-session-id", "\u{fc}")] {
        assert_eq!(server.open("/mcp/streamable", &[unknown]).await.0.status, StatusCode::NOT_FOUND);
    }
    let posted = server.at("/mcp/streamable", &[("mcp-session-id", "x")], wait(5)).await;
    assert_eq!(posted.status, StatusCode::NOT_FOUND);
    let message = posted.body["error"]["message"].as_str().unwrap();
    assert!(message.contains("no such session") && message.contains("send `initialize` again"), "{message}");
    assert!(!message.contains("Check the id"), "{message}");
    let foreign = format!("Bearer {}", server.admin);
    let taken = [("authorization", foreign.as_str()), ("mcp-session-id", id.as_str())];
    let answer = server.bytes("/mcp/streamable", Method::GET, &taken, "").await;
    assert_eq!(answer.0.status, StatusCode::NOT_FOUND, "of another credential");
    // Later revisions have no sessions.
    let later = [("mcp-session-id", id.as_str()), ("mcp-protocol-version", "2025-11-25")];
    let ended = server.bytes("/mcp/streamable", Method::DELETE, &later, "").await;
    assert_eq!(ended.0.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn a_cancellation_is_of_its_session() {
    let server = Server::start().await;
    let ids = [server.begin_session().await, server.begin_session().await];
    let mut waits = Vec::new();
    for id in &ids {
        let session = [EVENTS, ("mcp-session-id", id.as_str())];
        waits.push(server.stream("/mcp/streamable", &session, Some(&wait(7))).await.1);
    }
    let second = [("mcp-session-id", ids[1].as_str())];
    server.bytes("/mcp/streamable", Method::POST, &second, cancel(7)).await;
    let mut waits = waits.into_iter();
    let mut first = waits.next().unwrap();
    let mut second = waits.next().unwrap();
    assert_eq!(second.next().await, None);
    server.bytes("/mcp/streamable", Method::POST, &[("mcp-session-id", &ids[0])], cancel(7)).await;
    assert_eq!(first.next().await, None);
}

#[tokio::test]
async fn a_batch_that_waits_becomes_a_stream_and_its_wait_may_be_cancelled() {
    let server = Server::start().await;
    let ping = json!({"jsonrpc": "2.0", "id": 8, "method": "ping"});
    let (head, mut events) = server.stream("/mcp", &[EVENTS], Some(&json!([wait(9), ping]))).await;
    assert_eq!(head.headers["content-type"], "text/event-stream");
    server.bytes("/mcp", Method::POST, &[], format!("[{}]", cancel(9))).await;
    assert_eq!(events.data().await, json!([{"jsonrpc": "2.0", "id": 8, "result": {}}]));
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn what_is_listened_for_is_a_stream_like_others() {
    let settings = HttpSettings { ws_connections: 1, ..HttpSettings::default() };
    let server = Server::with(settings, RateSettings::default()).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"notifications": {"resourcesListChanged": true}, "_meta": meta});
    let listen = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params});
    let headers = [EVENTS, ("mcp-protocol-version", "2026-07-28"), ("mcp-method", "subscriptions/listen")];
    let (head, mut events) = server.stream("/mcp", &headers, Some(&listen)).await;
    assert_eq!(head.status, StatusCode::OK);
    assert_eq!(events.data().await["method"], "notifications/subscriptions/acknowledged");
    let (second, _) = server.stream("/mcp", &headers, Some(&listen)).await;
    assert_eq!(second.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(server.open("/mcp/stream", &[]).await.0.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn a_stream_of_the_first_transport_ends_with_its_token() {
    let server = Server::start().await;
    let (mut events, _) = server.first_transport().await;
    let me = server.legacy("tools/call", json!({"name": "whoami"})).await;
    let token = &me.body["result"]["structuredContent"]["token_id"];
    let revoke = json!({"name": "revoke_token", "arguments": {"token_id": token}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": revoke});
    let admin = format!("Bearer {}", server.admin);
    let revoked = server.post(&[("authorization", &admin)], call).await;
    assert_eq!(revoked.body["result"]["isError"], false, "{}", revoked.body);
    assert_eq!(events.next().await, None);
}
