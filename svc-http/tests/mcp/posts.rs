//! Tests single messages and batches over HTTP.

use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use svc_core::RateSettings;
use svc_http::HttpSettings;

use super::server::{Answer, Server};

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
    for removed in ["ping", "logging/setLevel", "resources/subscribe", "no/such", "initialize"] {
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
            let error = &answer.body["error"];
            assert_eq!(
                (&error["code"], &error["data"]["type"]),
                (&json!(401), &json!("/problems/unauthenticated"))
            );
            assert_eq!(answer.headers["content-type"], "application/json");
            assert_eq!(answer.body["id"], body.get("id").cloned().unwrap_or_default());
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
    assert_eq!((text.status, &text.body["error"]["code"]), (StatusCode::UNSUPPORTED_MEDIA_TYPE, &json!(415)));
    let large = server.send(Method::POST, &[], " ".repeat(5000)).await;
    assert_eq!((large.status, &large.body["error"]["code"]), (StatusCode::PAYLOAD_TOO_LARGE, &json!(413)));
    let version = server.post(&[("mcp-protocol-version", "1999-01-01")], ping(1)).await;
    assert_eq!((version.status, &version.body["error"]["code"]), (StatusCode::BAD_REQUEST, &json!(-32022)));
    for method in [Method::GET, Method::DELETE] {
        let answer = server.send(method, &[], "").await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
        assert!(answer.headers["allow"].to_str().unwrap().contains("POST"));
        assert_eq!((&answer.body["error"]["code"], &answer.body["id"]), (&json!(405), &Value::Null));
    }
}

#[tokio::test]
async fn only_own_hosts_are_served_with_any_accept_header() {
    let server = Server::start().await;
    let without = ("authorization", "");
    for (headers, wanted) in [
        (&[("origin", "https://evil.example")][..], StatusCode::FORBIDDEN),
        (&[("origin", "null")], StatusCode::OK),
        (&[("origin", "null"), without], StatusCode::FORBIDDEN),
        (&[("origin", "https://evil.example"), without], StatusCode::FORBIDDEN),
        (&[("host", "evil.example"), without], StatusCode::FORBIDDEN),
        // A host name that resolves to this machine does not help a caller without a token.
        (&[("host", "svc.internal")], StatusCode::OK),
    ] {
        let answer = server.post(headers, ping(1)).await;
        assert_eq!(answer.status, wanted, "{headers:?}: {}", answer.body);
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
    // Once the batch waits, the server serves other requests.
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
    ] {
        let answer = server.send(Method::POST, &[], twice).await;
        assert_eq!((answer.status, &answer.body["error"]["code"]), (StatusCode::BAD_REQUEST, &json!(-32600)));
    }
    let argument = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call",
        "params":{"name":"post_message","arguments":{"metadata":{"b":1,"b":2}}}}"#;
    let answer = server.send(Method::POST, &[], argument).await;
    assert_eq!(answer.body["result"]["isError"], true, "{}", answer.body);
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

#[tokio::test]
async fn profiles_and_choices_narrow_what_is_listed_and_called() {
    let server = Server::start().await;
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let names = |answer: &Answer| -> Vec<String> {
        let tools = answer.body["result"]["tools"].as_array().unwrap_or_else(|| panic!("{}", answer.body));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let worker = server.at("/mcp/worker", &[], list.clone()).await;
    assert!(names(&worker).contains(&"claim_thread".to_owned()) && names(&worker).len() < 30);
    let reviewer = server.at("/mcp/reviewer", &[], list.clone()).await;
    assert!(names(&reviewer).contains(&"submit_review".to_owned()));
    assert!(names(&reviewer).contains(&"approval_decide".to_owned()), "listed, whatever the token can do");
    for (path, headers) in [
        ("/mcp?tools=whoami", &[][..]),
        ("/mcp/streamable?tools=whoami", &[]),
        ("/mcp", &[("x-mcp-tools", "whoami")]),
    ] {
        let few = server.at(path, headers, list.clone()).await;
        assert_eq!(names(&few), ["whoami"], "{path}");
    }
    let reads = server.at("/mcp?toolsets=claims&readonly=true", &[], list.clone()).await;
    assert!(!names(&reads).contains(&"claim_thread".to_owned()) && !names(&reads).is_empty());
    let wrong = server.at("/mcp?toolsets=claim", &[], list).await;
    assert_eq!(wrong.body["error"]["code"], -32602, "{}", wrong.body);
    assert!(wrong.body["error"]["message"].as_str().unwrap().contains("claims"), "{}", wrong.body);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "mint_token"}});
    assert_eq!(server.at("/mcp/worker", &[], call).await.body["error"]["code"], -32602);
}

/// Returns the text of a whole event stream, and the data of its events.
fn events(bytes: &[u8]) -> (String, Vec<Value>) {
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    let data = text.split("\n\n").filter_map(|event| event.strip_prefix("data: "));
    let events = data.map(|data| serde_json::from_str(data).unwrap()).collect();
    (text, events)
}

#[tokio::test]
async fn a_late_answer_comes_as_an_event_stream_with_progress() {
    let server = Server::start().await;
    let params = json!({"name": "wait_for_ready", "_meta": {"progressToken": 7}, "arguments": {
        "workspace_id": server.workspace, "timeout_secs": 5}});
    let wait = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let both = [("accept", "application/json, text/event-stream")];
    let (parts, bytes) = server.bytes("/mcp", Method::POST, &both, wait.to_string()).await;
    assert_eq!(parts.headers["content-type"], "text/event-stream");
    assert_eq!(parts.headers["x-accel-buffering"], "no");
    let (text, events) = events(&bytes);
    let (answer, progress) = events.split_last().unwrap();
    assert!(progress.len() >= 2, "{text}");
    for (said, seconds) in progress.iter().zip(1..) {
        let params = json!({
            "progressToken": 7, "progress": f64::from(seconds), "total": 5.0, "message": "waiting",
        });
        assert_eq!((&said["method"], &said["params"]), (&json!("notifications/progress"), &params));
    }
    assert_eq!(answer["result"]["structuredContent"], json!({"timed_out": true}));
    let json_only = server.post(&[("accept", "application/json")], wait).await;
    assert_eq!(json_only.body["result"]["structuredContent"], json!({"timed_out": true}));
}

#[tokio::test]
async fn a_wait_is_cancelled_by_a_notification_of_its_credential() {
    let server = Server::start().await;
    let params = json!({"name": "wait_for_ready", "arguments": {
        "workspace_id": server.workspace, "timeout_secs": 300}});
    let wait = json!({"jsonrpc": "2.0", "id": "w", "method": "tools/call", "params": params});
    let mut waiting = Box::pin(server.post(&[], wait));
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "w"}});
    // The request may not have begun to wait yet.
    let answer = loop {
        tokio::select! {
            answer = &mut waiting => break answer,
            noted = server.post(&[], cancel.clone()) => assert_eq!(noted.status, StatusCode::ACCEPTED),
        }
    };
    assert_eq!((answer.status, answer.body), (StatusCode::ACCEPTED, Value::Null));
}

#[tokio::test]
async fn metadata_that_only_decorates_is_passed_over_if_it_is_malformed() {
    let server = Server::start().await;
    for meta in [json!([]), json!({"progressToken": 1.5})] {
        let answer = server.legacy("ping", json!({"_meta": meta})).await;
        assert_eq!((answer.status, &answer.body["result"]), (StatusCode::OK, &json!({})), "{meta}");
    }
    for (name, value, wanted) in [
        ("logLevel", json!("loud"), StatusCode::OK),
        ("clientCapabilities", json!(7), StatusCode::OK),
        ("clientInfo", json!({}), StatusCode::OK),
        ("protocolVersion", json!(7), StatusCode::BAD_REQUEST),
    ] {
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        meta[format!("io.modelcontextprotocol/{name}")] = value;
        let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")];
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}});
        let answer = server.post(&headers, list).await;
        assert_eq!(answer.status, wanted, "{name}: {}", answer.body);
    }
}

#[tokio::test]
async fn what_is_said_before_an_answer_makes_it_a_stream_however_quick_it_is() {
    let server = Server::start().await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/logLevel": "debug",
    });
    let params = json!({"name": "whoami", "_meta": meta});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let headers = |accept| {
        let version = ("mcp-protocol-version", "2026-07-28");
        [version, ("mcp-method", "tools/call"), ("mcp-name", "whoami"), ("accept", accept)]
    };
    let both = headers("application/json, text/event-stream");
    let (_, bytes) = server.bytes("/mcp", Method::POST, &both, call.to_string()).await;
    let (text, events) = events(&bytes);
    let [said, answer] = &events[..] else { panic!("{text}") };
    assert_eq!(
        (&said["params"]["level"], &said["params"]["data"]["operation"]),
        (&json!("debug"), &json!("whoami"))
    );
    assert!(said["params"]["data"]["lsn"].is_i64(), "{said}");
    assert_eq!(answer["result"]["isError"], false);
    // A client that accepts no events gets only the answer.
    let plain = server.post(&headers("application/json"), call).await;
    assert_eq!(plain.body["result"]["isError"], false);
}
