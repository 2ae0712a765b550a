//! Each JSON-RPC error has the problem in its data, and each claim its pin, on every transport and revision.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use svc_tests::client::mcp::outcome;
use svc_tests::{World, on_both_engines, runtime, text};

const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// Bodies that contain no request, with the number of the error.
const BODIES: [(&str, i64); 10] = [
    ("", -32_700),
    (" ", -32_700),
    ("\r\n", -32_700),
    ("{", -32_700),
    ("null", -32_600),
    ("[]", -32_600),
    ("{}", -32_600),
    (r#"{"jsonrpc":"2.0","id":1}"#, -32_600),
    (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, -32_600),
    (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}"#, -32_600),
];

/// Posts bytes to a path, and returns the status and the JSON of the response.
fn post(world: &World, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, Value) {
    let rest = world.rest();
    let headers = [&[("accept", "application/json, text/event-stream")], headers].concat();
    let bytes = Bytes::copy_from_slice(body.as_bytes());
    runtime().block_on(async {
        let response = rest.raw(Some(&world.people.admin), "POST", path, &headers, Some(bytes)).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    })
}

fn check_problem(error: &Value, code: i64, what: &str) {
    assert_eq!(error["error"]["code"], code, "{what}: {error}");
    let problem = &error["error"]["data"];
    assert!(text(&problem["type"]).ends_with("/malformed-request"), "{what}: {error}");
    assert_eq!((&problem["status"], &problem["detail"]), (&json!(400), &error["error"]["message"]), "{what}");
}

fn initialize(date: &str) -> String {
    let client = json!({"name": "x", "version": "0"});
    let params = json!({"protocolVersion": date, "capabilities": {}, "clientInfo": client});
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string()
}

/// Opens a session of revision 2024-11-05 by its handshake, and returns its id.
fn new_session(world: &World) -> String {
    let rest = world.rest();
    let headers = [("accept", "application/json, text/event-stream")];
    let body = Some(Bytes::from(initialize("2024-11-05")));
    let sent = rest.raw(Some(&world.people.admin), "POST", "/mcp/streamable", &headers, body);
    let response = runtime().block_on(sent);
    response.headers()["mcp-session-id"].to_str().unwrap().to_owned()
}

#[test]
fn a_body_that_brings_no_request_gets_an_error_with_the_problem() {
    on_both_engines(|world| {
        let session = new_session(world);
        let rest = world.rest();
        let accept = [("accept", "text/event-stream")];
        let admin = Some(world.people.admin.as_str());
        // It stays open while it is used.
        let mut stream = runtime().block_on(rest.raw(admin, "GET", "/mcp/streamable", &accept, None));
        let first = runtime().block_on(stream.frame()).unwrap().unwrap().into_data().unwrap();
        let first = String::from_utf8(first.to_vec()).unwrap();
        let of_stream = first.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        let mut paths: Vec<(&str, Vec<(&str, &str)>)> = vec![
            ("/mcp/streamable", vec![("mcp-session-id", &session)]),
            ("/mcp/streamable", vec![("mcp-session-id", &session), ("mcp-protocol-version", "2024-11-05")]),
            (of_stream, vec![]),
            (of_stream, vec![("mcp-protocol-version", "2024-11-05")]),
        ];
        for path in ["/mcp", "/mcp/streamable", "/mcp/worker", "/mcp/reviewer"] {
            paths.push((path, vec![]));
            paths.extend(REVISIONS.iter().map(|date| (path, vec![("mcp-protocol-version", *date)])));
        }
        for (path, headers) in &paths {
            for (body, code) in BODIES {
                let (status, error) = post(world, path, headers, body);
                assert_eq!(status, 400, "{path} {headers:?} {body:?}");
                check_problem(&error, code, &format!("{path} {headers:?} {body:?}"));
            }
        }
        drop(stream);
        // In a batch each item has a separate error.
        let items: Vec<&str> = BODIES
            .iter()
            .map(|(body, _)| *body)
            .filter(|body| body.starts_with("{\"") || *body == "{}")
            .collect();
        let batch = format!("[{},null]", items.join(","));
        let (status, errors) = post(world, "/mcp", &[("mcp-protocol-version", "2025-03-26")], &batch);
        let errors = errors.as_array().unwrap().clone();
        // A response within a batch is not answered.
        assert_eq!((status, errors.len()), (200, items.len()));
        errors.iter().for_each(|error| check_problem(error, -32_600, &batch));
        let (status, error) = post(world, "/mcp", &[("mcp-protocol-version", "2024-11-05")], &batch);
        assert_eq!(status, 400);
        check_problem(&error, -32_600, "there are no batches");
    });
}

#[test]
fn a_line_that_brings_no_request_gets_an_error_with_the_problem() {
    on_both_engines(|world| {
        for date in REVISIONS {
            let pipe = world.stdio(&world.people.admin);
            if date != "2026-07-28" {
                pipe.send(initialize(date).as_bytes());
                assert_eq!(pipe.receive()["result"]["protocolVersion"], date);
            }
            // A blank line separates messages, and a response needs no answer.
            let asked = |body: &str| !body.trim().is_empty() && !body.contains("result");
            for (body, code) in BODIES.iter().filter(|(body, _)| asked(body)) {
                pipe.send(body.as_bytes());
                check_problem(&pipe.receive(), *code, &format!("{date} {body:?}"));
            }
        }
    });
}

/// Returns the answer of each transport and revision to a call of a tool, in the form of REST.
fn called(world: &World, number: usize, token: &str, name: &str, input: &Value) -> Value {
    let operation = world.operation(name);
    match number {
        0 => world.rest().call(Some(token), operation, input).output(),
        1 => world.stdio(token).call(operation, input).output(),
        2 => world.mcp().call(Some(token), operation, input).output(),
        _ => {
            let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                              "params": {"name": name, "arguments": input}});
            let headers = [("mcp-protocol-version", REVISIONS[number - 3]), ("accept", "application/json")];
            let answer = world.rest().send(Some(token), "POST", "/mcp", &headers, Some(&call));
            let result = &answer.body["result"];
            let said: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
            if result["structuredContent"].is_object() {
                assert_eq!(outcome(&answer.body, answer.status, operation).1["pin"], said["pin"]);
            }
            said
        }
    }
}

#[test]
fn a_claim_has_its_pin_on_every_transport_and_revision() {
    on_both_engines(|world| {
        let agent = &world.people.agent;
        let admin = &world.people.admin;
        for number in 0..REVISIONS.len() + 2 {
            let channel = world.new_channel(&format!("pins-{number}"));
            let check = |claimed: &Value, what: &str| {
                let event = world.database.rows(&format!(
                    "select content_hash from events where kind = 'ThreadAssignmentChanged' and lsn = {}",
                    text(&claimed["pin"]["uri"]).strip_prefix("svc:event/").unwrap_or("-1")
                ));
                assert_eq!(event.len(), 1, "{what} by transport {number}: {claimed}");
                assert!(text(&claimed["pin"]["content_hash"]).starts_with("sha256:"), "{what}: {claimed}");
            };
            let mut thread = world.new_thread(&channel, "by its id");
            for (operation, input) in [
                ("claim_thread", json!({"thread_id": thread, "acknowledge": true, "include_context": true})),
                ("claim_next_thread", json!({"channel_id": channel, "include_context": true})),
                ("claim_next_workspace_thread", json!({"workspace_id": world.id("workspace")})),
            ] {
                let claimed = called(world, number, agent, operation, &input);
                check(&claimed, operation);
                let to = json!({"thread_id": claimed["id"], "claim_lease_id": claimed["claim_lease_id"],
                                "to_member_id": world.id("admin")});
                let handed = called(world, number, agent, "hand_off_claim", &to);
                check(&handed, "hand_off_claim");
                assert_ne!(handed["pin"], claimed["pin"]);
                let ends = json!({"thread_id": claimed["id"], "claim_lease_id": handed["claim_lease_id"],
                                  "result": {}});
                called(world, number, admin, "set_thread_result", &ends);
                thread = world.new_thread(&channel, "next");
            }
            let last = json!({"thread_id": thread, "acknowledge": true});
            check(&called(world, number, agent, "claim_thread", &last), "the last one");
        }
    });
}
