//! Tests of `POST /mcp` on a whole server.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use svc_core::{Database, OpenMode, Options, RateSettings, Service};
use svc_http::HttpSettings;
use tokio::net::{TcpListener, TcpStream};

/// A server and one of its agents.
struct Server {
    _folder: tempfile::TempDir,
    address: std::net::SocketAddr,
    token: String,
    workspace: String,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
}

impl Server {
    async fn start() -> Self {
        Self::with(HttpSettings { body_max_bytes: 4096, ..HttpSettings::default() }, RateSettings::default())
            .await
    }

    async fn with(settings: HttpSettings, rates: RateSettings) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            reap_tick: None,
            mode: OpenMode::Create,
            rates,
            ..Options::new(Database::Sqlite(folder.path().join("svc.db")), [7; 32])
        };
        let service = Service::open(options).unwrap();
        let made = service.establish("home", "ada").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(svc_http::serve(service, listener, settings, std::future::pending()));
        let workspace = json!(made.workspace.id).as_str().unwrap().to_owned();
        Self { _folder: folder, address, token: made.agent_token.secret, workspace }
    }

    /// Sends `body` with the agent's token and a JSON content type.
    ///
    /// `headers` override these; an empty value removes the header.
    async fn send(&self, method: Method, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Answer {
        let mut request = Request::new(Full::new(body.into()));
        *request.method_mut() = method;
        *request.uri_mut() = "/mcp".parse().unwrap();
        let authorization = format!("Bearer {}", self.token);
        let host = self.address.to_string();
        let usual = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
            ("host", &host),
        ];
        for (name, value) in usual.iter().chain(headers) {
            let name: HeaderName = name.parse().unwrap();
            if value.is_empty() {
                request.headers_mut().remove(name);
            } else {
                request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
            }
        }
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() };
        Answer { status: parts.status, headers: parts.headers, body }
    }

    async fn post(&self, headers: &[(&str, &str)], body: Value) -> Answer {
        self.send(Method::POST, headers, body.to_string()).await
    }

    async fn legacy(&self, method: &str, params: Value) -> Answer {
        self.post(&[], json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).await
    }

    async fn modern(&self, method: &str, mut params: Value) -> Answer {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let name = params["name"].as_str().or(params["uri"].as_str()).unwrap_or_default().to_owned();
        let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", method), ("mcp-name", &name)];
        self.post(&headers, json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).await
    }
}

fn ping(id: i32) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

#[tokio::test]
async fn every_legacy_revision_is_echoed_without_a_session() {
    let server = Server::start().await;
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client});
        let answer = server.legacy("initialize", params).await;
        assert_eq!(answer.body["result"]["protocolVersion"], revision, "{}", answer.body);
        assert!(answer.headers.get("mcp-session-id").is_none());
        let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let noted = server.post(&[], note).await;
        assert_eq!((noted.status, noted.body), (StatusCode::ACCEPTED, Value::Null));
        let tools = server.legacy("tools/list", json!({})).await;
        assert!(tools.body["result"]["tools"].as_array().unwrap().len() > 10, "{}", tools.body);
    }
    assert_eq!(server.legacy("no/such", json!({})).await.body["error"]["code"], -32601);
}

#[tokio::test]
async fn the_newest_revision_is_stated_by_each_request() {
    let server = Server::start().await;
    let found = server.modern("server/discover", json!({})).await;
    assert_eq!(found.body["result"]["cacheScope"], "public", "{}", found.body);
    let tools = server.modern("tools/list", json!({})).await;
    assert_eq!(tools.body["result"]["ttlMs"], 3_600_000);
    let me = server.modern("tools/call", json!({"name": "whoami"})).await;
    assert_eq!(me.body["result"]["structuredContent"]["workspace_id"], json!(server.workspace));
    assert_eq!(me.body["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "svc");
    for removed in
        ["ping", "logging/setLevel", "resources/subscribe", "resources/list", "no/such", "initialize"]
    {
        let answer = server.modern(removed, json!({"uri": "x", "level": "info"})).await;
        assert_eq!(
            (answer.status, &answer.body["error"]["code"]),
            (StatusCode::NOT_FOUND, &json!(-32601)),
            "{removed}"
        );
    }
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}}}});
    let astray = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call")];
    let answer = server.post(&astray, body.clone()).await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (StatusCode::BAD_REQUEST, &json!(-32020)));
    let mut ahead = body;
    ahead["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    let answer =
        server.post(&[("mcp-protocol-version", "2031-01-01"), ("mcp-method", "tools/list")], ahead).await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (StatusCode::BAD_REQUEST, &json!(-32022)));
}

#[tokio::test]
async fn a_credential_is_needed_for_everything() {
    let server = Server::start().await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whoami"}});
    let unknown_tool = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x"}});
    for body in [ping(1), call, unknown_tool, json!([ping(1)]), json!(7)] {
        for credential in ["", "Bearer svc_unknown", "Basic x"] {
            let answer = server.post(&[("authorization", credential)], body.clone()).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{body} {credential}");
            assert!(answer.headers["www-authenticate"].to_str().unwrap().starts_with("Bearer"));
            assert_eq!(answer.headers["content-type"], "application/problem+json");
            assert_eq!(answer.body["type"], "/problems/unauthenticated");
        }
    }
}

#[tokio::test]
async fn invalid_messages_are_rejected() {
    let server = Server::start().await;
    let bad = server.send(Method::POST, &[], "{").await;
    assert_eq!((bad.status, &bad.body["error"]["code"]), (StatusCode::BAD_REQUEST, &json!(-32700)));
    let empty = server.send(Method::POST, &[], "").await;
    assert_eq!((empty.status, &empty.body["error"]["code"]), (StatusCode::BAD_REQUEST, &json!(-32700)));
    let shape = server.post(&[], json!({"id": 4})).await;
    assert_eq!((shape.status, &shape.body["id"]), (StatusCode::BAD_REQUEST, &json!(4)));
    assert_eq!(shape.body["error"]["code"], -32600);
    let answer = server.post(&[], json!({"jsonrpc": "2.0", "id": 4, "result": {}})).await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (StatusCode::BAD_REQUEST, &json!(-32600)));
    let text = server.post(&[("content-type", "text/plain")], ping(1)).await;
    assert_eq!(
        (text.status, &text.body["type"]),
        (StatusCode::UNSUPPORTED_MEDIA_TYPE, &json!("/problems/unsupported-media-type"))
    );
    let large = server.send(Method::POST, &[], " ".repeat(5000)).await;
    assert_eq!(
        (large.status, &large.body["type"]),
        (StatusCode::PAYLOAD_TOO_LARGE, &json!("/problems/body-too-large"))
    );
    let version = server.post(&[("mcp-protocol-version", "1999-01-01")], ping(1)).await;
    assert_eq!(
        (version.status, &version.body["type"]),
        (StatusCode::BAD_REQUEST, &json!("/problems/malformed-request"))
    );
    for method in [Method::GET, Method::DELETE] {
        let answer = server.send(method, &[], "").await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
        assert!(answer.headers["allow"].to_str().unwrap().contains("POST"));
    }
}

#[tokio::test]
async fn only_own_hosts_are_served_with_any_accept_header() {
    let server = Server::start().await;
    for (name, value) in [("host", "evil.example"), ("origin", "https://evil.example"), ("origin", "null")] {
        assert_eq!(
            server.post(&[(name, value)], ping(1)).await.status,
            StatusCode::FORBIDDEN,
            "{name}: {value}"
        );
    }
    for (name, value) in [
        ("accept", ""),
        ("accept", "*/*"),
        ("accept", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("origin", "http://localhost:3000"),
    ] {
        let answer = server.post(&[(name, value)], ping(1)).await;
        assert_eq!((answer.status, &answer.body["result"]), (StatusCode::OK, &json!({})), "{name}: {value}");
    }
}

#[tokio::test]
async fn only_one_revision_has_batches() {
    let server = Server::start().await;
    let whoami = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "whoami"}});
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let start = json!({"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {}});
    for headers in [&[][..], &[("mcp-protocol-version", "2025-03-26")]] {
        let answer = server.post(headers, json!([ping(1), note, whoami, start, 7])).await;
        assert_eq!(answer.status, StatusCode::OK);
        let answers = answer.body.as_array().unwrap();
        assert_eq!(answers.len(), 4, "{}", answer.body);
        assert_eq!((&answers[0]["id"], &answers[1]["result"]["isError"]), (&json!(1), &json!(false)));
        assert_eq!((&answers[2]["error"]["code"], &answers[3]["id"]), (&json!(-32600), &Value::Null));
        let quiet = server.post(headers, json!([note])).await;
        assert_eq!((quiet.status, quiet.body), (StatusCode::ACCEPTED, Value::Null));
    }
    let later = server.post(&[("mcp-protocol-version", "2025-06-18")], json!([ping(1)])).await;
    assert_eq!((later.status, &later.body["error"]["code"]), (StatusCode::BAD_REQUEST, &json!(-32600)));
}

#[tokio::test]
async fn the_response_of_a_batch_is_limited() {
    let server = Server::with(HttpSettings::default(), RateSettings::default()).await;
    let list = |id: usize| json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"});
    let batch: Vec<Value> = (0..100).map(list).collect();
    let answer = server.post(&[], json!(batch)).await;
    let answers = answer.body.as_array().unwrap();
    assert_eq!((answer.status, answers.len()), (StatusCode::OK, 100));
    let whole = answers.iter().filter(|answer| answer["result"]["tools"].is_array()).count();
    let size = answer.body.to_string().len();
    assert!((2..50).contains(&whole) && size < 2 << 20, "{whole} lists in {size} bytes");
    for (id, answer) in answers.iter().enumerate() {
        assert_eq!(answer["id"], id);
        assert_eq!(answer["result"].is_object(), id < whole, "{answer:.300}");
    }
    assert_eq!(answers[99]["error"]["data"]["type"], "/problems/overloaded");
}

#[tokio::test]
async fn each_message_of_a_batch_counts() {
    let rates = RateSettings { per_client: 10, ..RateSettings::default() };
    let server = Server::with(HttpSettings::default(), rates).await;
    let batch: Vec<Value> = (0..20).map(ping).collect();
    let answer = server.post(&[], json!(batch)).await;
    let answers = answer.body.as_array().unwrap();
    let refused = answers.iter().filter(|answer| answer["error"]["data"]["status"] == 429).count();
    assert_eq!((answers.len(), refused), (20, 10), "{}", answer.body);
}

#[tokio::test]
async fn a_batch_that_waits_takes_no_slot_in_flight() {
    let settings =
        HttpSettings { concurrent_requests: std::num::NonZeroU32::new(1), ..HttpSettings::default() };
    let server = Server::with(settings, RateSettings::default()).await;
    let call = |id: i32, name: &str, arguments: Value| {
        let params = json!({"name": name, "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    let wait = call(
        2,
        "wait_for_event",
        json!({"workspace_id": server.workspace, "after_id": 5, "timeout_secs": 60}),
    );
    let batch = json!([call(1, "whoami", json!({})), wait, call(3, "whoami", json!({}))]);
    let mut waiting = Box::pin(server.post(&[], batch));
    // Once it waits, other requests are served.
    assert!(tokio::time::timeout(std::time::Duration::from_millis(500), &mut waiting).await.is_err());
    while server.post(&[], call(4, "whoami", json!({}))).await.status == 503 {}
    let made = json!({"workspace_id": server.workspace, "name": "work"});
    let made = server.post(&[], call(5, "create_channel", made)).await;
    assert_eq!(made.body["result"]["isError"], false, "{}", made.body);
    let answer = waiting.await;
    let found = &answer.body[1]["result"]["structuredContent"];
    assert_eq!(found["items"][0]["kind"], "ChannelCreated", "{}", answer.body);
    assert_eq!(answer.body[2]["result"]["isError"], false, "{}", answer.body);
}

#[tokio::test]
async fn a_repeated_member_is_rejected() {
    let server = Server::start().await;
    for twice in [
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"whoami","name":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call",
            "params":{"name":"whoami","arguments":{"a":{"b":1,"b":2}}}}"#,
    ] {
        let answer = server.send(Method::POST, &[], twice).await;
        assert_eq!((answer.status, &answer.body["error"]["code"]), (StatusCode::BAD_REQUEST, &json!(-32600)));
    }
}

#[tokio::test]
async fn errors_of_the_service_are_returned() {
    let server = Server::start().await;
    let call = async |name: &str, arguments: Value| {
        server.legacy("tools/call", json!({"name": name, "arguments": arguments})).await
    };
    let made = call("create_channel", json!({"workspace_id": server.workspace, "name": "work"})).await;
    assert_eq!(made.body["result"]["structuredContent"]["name"], "work", "{}", made.body);
    let nobody = "00000000-0000-7000-8000-000000000000";
    let missing = call("get_thread", json!({"thread_id": nobody})).await;
    assert_eq!((missing.status, &missing.body["result"]["isError"]), (StatusCode::OK, &json!(true)));
    assert_eq!(missing.body["result"]["_meta"]["svc/problem"]["status"], 404);
    let forbidden = call("revoke_token", json!({"token_id": nobody})).await;
    let problem = &forbidden.body["result"]["_meta"]["svc/problem"];
    assert_eq!(problem["type"], "/problems/missing-capability", "{}", forbidden.body);
    let modern = server.modern("tools/call", json!({"name": "whoami", "arguments": {"who": 1}})).await;
    let meta = &modern.body["result"]["_meta"];
    assert_eq!(meta["svc/problem"]["status"], 400, "{}", modern.body);
    assert_eq!(meta["io.modelcontextprotocol/serverInfo"]["name"], "svc", "{}", modern.body);
}
