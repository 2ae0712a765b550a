//! Tests event streams and sessions.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::HeaderValue;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use svc_core::RateSettings;
use svc_core::config::PublicUrl;
use svc_http::HttpSettings;
use tokio::net::TcpStream;

use super::server::Server;

/// The client's end of an event stream.
pub struct Events {
    body: hyper::body::Incoming,
    read: String,
}

impl Events {
    /// Returns the fields of the next event that is not a comment.
    pub async fn next(&mut self) -> Option<Vec<(String, String)>> {
        loop {
            while let Some((event, rest)) = self.read.split_once("\n\n") {
                let lines = event.lines().filter(|line| !line.starts_with(':'));
                let fields: Vec<_> = lines
                    .filter_map(|line| line.split_once(": "))
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect();
                self.read = rest.to_owned();
                if !fields.is_empty() {
                    return Some(fields);
                }
            }
            let frame =
                tokio::time::timeout(std::time::Duration::from_secs(20), self.body.frame()).await.unwrap();
            self.read += std::str::from_utf8(&frame?.unwrap().into_data().unwrap()).unwrap();
        }
    }

    /// Returns the data of the next event.
    pub async fn data(&mut self) -> Value {
        let fields = self.next().await.expect("the stream has ended");
        serde_json::from_str(&fields.last().unwrap().1).unwrap()
    }
}

impl Server {
    pub async fn open(&self, path: &str, headers: &[(&str, &str)]) -> (hyper::http::response::Parts, Events) {
        self.stream(path, headers, None).await
    }

    /// Sends a POST with a message, or a GET, and returns once the response head has arrived.
    pub async fn stream(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        message: Option<&Value>,
    ) -> (hyper::http::response::Parts, Events) {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake::<_, Full<Bytes>>(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let method = if message.is_some() { Method::POST } else { Method::GET };
        let mut request = Request::builder().method(method).uri(path);
        request = request.header("host", self.address.to_string()).header("content-type", "application/json");
        request = request.header("authorization", format!("Bearer {}", self.token));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = message.map(Value::to_string).unwrap_or_default();
        let response = sender.send_request(request.body(Full::from(body)).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        (parts, Events { body, read: String::new() })
    }

    pub async fn create_channel(&self, name: &str) -> Value {
        let arguments = json!({"workspace_id": self.workspace, "name": name});
        let made = self.legacy("tools/call", json!({"name": "create_channel", "arguments": arguments})).await;
        made.body["result"]["structuredContent"].clone()
    }
}

pub fn initialize(revision: &str) -> Value {
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
}

#[tokio::test]
async fn only_the_first_revision_has_sessions() {
    let server = Server::start().await;
    for (path, revision) in [("/mcp", "2024-11-05"), ("/mcp/streamable", "2025-03-26")] {
        let answer = server.at(path, &[], initialize(revision)).await;
        assert_eq!(answer.body["result"]["protocolVersion"], revision);
        assert!(answer.headers.get("mcp-session-id").is_none(), "{path} {revision}");
    }
    let begun = server.at("/mcp/streamable", &[], initialize("2024-11-05")).await;
    let id = begun.headers["mcp-session-id"].to_str().unwrap().to_owned();
    let session = [("mcp-session-id", id.as_str())];
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "whoami"}});
    let me = server.at("/mcp/streamable", &session, call.clone()).await;
    assert!(me.body["result"].get("structuredContent").is_none(), "of its revision: {}", me.body);
    let unknown = server.at("/mcp/streamable", &[("mcp-session-id", "x")], call.clone()).await;
    assert_eq!((unknown.status, &unknown.body["error"]["code"]), (StatusCode::NOT_FOUND, &json!(404)));
    assert_eq!(unknown.body["id"], 2);
    let ended = server.bytes("/mcp/streamable", Method::DELETE, &session, "").await;
    assert_eq!(ended.0.status, StatusCode::NO_CONTENT);
    assert_eq!(server.at("/mcp/streamable", &session, call).await.status, StatusCode::NOT_FOUND);
    let none = server.bytes("/mcp/streamable", Method::DELETE, &[], "").await;
    assert_eq!(none.0.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn below_a_path_the_first_transport_says_where_messages_go_from_there() {
    let public_url = PublicUrl::parse("https://svc.example/team");
    let settings = HttpSettings { public_url, ..HttpSettings::default() };
    let server = Server::with(settings, RateSettings::default()).await;
    let (_, mut events) = server.open("/mcp/streamable", &[]).await;
    let first = events.next().await.unwrap();
    let address = first[1].1.strip_prefix("..").unwrap();
    let (accepted, _) = server.bytes(address, Method::POST, &[], initialize("2024-11-05").to_string()).await;
    assert_eq!(accepted.status, StatusCode::ACCEPTED);
}

#[tokio::test]
async fn the_first_transport_answers_on_a_stream() {
    let server = Server::start().await;
    let (head, mut events) = server.open("/mcp/streamable", &[]).await;
    assert_eq!(head.headers["content-type"], "text/event-stream");
    let first = events.next().await.unwrap();
    assert_eq!(first[0], ("event".to_owned(), "endpoint".to_owned()));
    let address = first[1].1.clone();
    let (accepted, _) = server.bytes(&address, Method::POST, &[], initialize("2024-11-05").to_string()).await;
    assert_eq!(accepted.status, StatusCode::ACCEPTED);
    let answer = events.next().await.unwrap();
    assert_eq!(answer[0], ("event".to_owned(), "message".to_owned()));
    assert_eq!(
        serde_json::from_str::<Value>(&answer[1].1).unwrap()["result"]["protocolVersion"],
        "2024-11-05"
    );
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "whoami"}});
    server.bytes(&address, Method::POST, &[], call.to_string()).await;
    assert_eq!(events.data().await["result"]["isError"], false);
    drop(events);
    // The session ends as soon as the server sees that the stream is closed.
    while server.bytes(&address, Method::POST, &[], call.to_string()).await.0.status != StatusCode::NOT_FOUND
    {
    }
}

#[tokio::test]
async fn a_stream_brings_events_and_goes_on_where_it_was() {
    let server = Server::start().await;
    let path = format!("/mcp/stream?workspace_id={}&kind=ChannelCreated", server.workspace);
    let (head, mut events) = server.open(&path, &[]).await;
    assert_eq!(
        (head.status, &head.headers["x-accel-buffering"]),
        (StatusCode::OK, &HeaderValue::from_static("no"))
    );
    assert_eq!(events.data().await["type"], "subscribe_ack");
    server.create_channel("one").await;
    let one = events.next().await.unwrap();
    let frame: Value = serde_json::from_str(&one[1].1).unwrap();
    assert_eq!((&one[0].0, json!(one[0].1)), (&"id".to_owned(), json!(frame["lsn"].to_string())));
    assert_eq!((&frame["kind"], &frame["payload"]["name"]), (&json!("ChannelCreated"), &json!("one")));
    drop(events);
    server.create_channel("two").await;
    let (head, mut anywhere) = server.open("/mcp/stream", &[("last-event-id", &one[0].1)]).await;
    assert!(head.headers.contains_key("svc-room-lsn"));
    assert_eq!(anywhere.data().await["type"], "subscribe_ack");
    let next = anywhere.data().await;
    assert!(next["lsn"].as_i64().unwrap() > frame["lsn"].as_i64().unwrap(), "it missed nothing: {next}");
    let (_, mut again) = server.open(&path, &[("last-event-id", &one[0].1)]).await;
    assert_eq!(again.data().await["type"], "subscribe_ack");
    assert_eq!(again.data().await["payload"]["name"], "two");
    let (_, mut lean) = server.open(&format!("{path}&after_id=0&form=lean"), &[]).await;
    lean.data().await;
    assert!(lean.data().await.get("payload").is_none());
    for bad in ["/mcp/stream?x=1", "/mcp/stream?form=fat", "/mcp/stream?consumer_id=c"] {
        assert_eq!(server.open(bad, &[]).await.0.status, StatusCode::BAD_REQUEST, "{bad}");
    }
    let foreign = server.open(&path, &[("origin", "https://evil.example")]).await.0;
    assert_eq!(
        (foreign.status, &foreign.headers["content-type"]),
        (StatusCode::FORBIDDEN, &HeaderValue::from_static("application/json"))
    );
}

#[tokio::test]
async fn notifications_tell_which_resources_have_changed() {
    let server = Server::start().await;
    let channel = server.create_channel("one").await;
    let uri = format!("svc://channels/{}", channel["id"].as_str().unwrap());
    let path = format!("/mcp/notifications?uri={uri}");
    let (head, mut events) = server.open(&path, &[]).await;
    assert_eq!(head.status, StatusCode::OK);
    let begins = events.next().await.unwrap();
    assert_eq!((begins.len(), begins[0].0.as_str()), (1, "id"));
    let create = async |title: &str| {
        let arguments = json!({"channel_id": channel["id"], "title": title});
        let params = json!({"name": "create_thread", "arguments": arguments});
        let made = server.legacy("tools/call", params).await;
        assert_eq!(made.body["result"]["isError"], false, "{}", made.body);
    };
    create("a task").await;
    let updated = events.data().await;
    assert_eq!(updated["method"], "notifications/resources/updated", "{updated}");
    assert_eq!(updated["params"]["uri"], json!(uri));
    drop(events);
    create("meanwhile").await;
    let (_, mut again) = server.open(&path, &[("last-event-id", &begins[0].1)]).await;
    again.next().await.unwrap();
    assert_eq!(again.data().await["params"]["uri"], json!(uri));
    // Resources that a token is subscribed to are reported even if the query does not contain them, also on
    // the path with sessions.
    let subscribed = server.legacy("resources/subscribe", json!({"uri": uri})).await;
    assert_eq!(subscribed.body["result"], json!({}), "{}", subscribed.body);
    let revision = [("mcp-protocol-version", "2025-11-25")];
    let (_, mut stored) = server.open("/mcp/streamable", &revision).await;
    stored.next().await.unwrap();
    create("another").await;
    assert_eq!(stored.data().await["params"]["uri"], json!(uri));
    let nowhere = "/mcp/notifications?uri=svc://channels/00000000-0000-7000-8000-000000000000";
    assert_eq!(server.open(nowhere, &[]).await.0.status, StatusCode::NOT_FOUND);
    assert_eq!(server.open("/mcp/notifications?uri=x", &[]).await.0.status, StatusCode::NOT_FOUND);
}
