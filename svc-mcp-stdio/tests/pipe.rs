//! Tests a whole service over a pipe.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::time::Duration;

use secrecy::SecretString;
use serde_json::{Value, json};
use svc_core::{Code, Database, OpenMode, Service, ServiceOptions};
use svc_mcp_stdio::tool_filter::{ToolChoice, ToolFilter};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};
use tokio::task::JoinHandle;

/// A pipe to a running server.
struct Pipe {
    _folder: tempfile::TempDir,
    out: Option<DuplexStream>,
    lines: Lines<BufReader<DuplexStream>>,
    server: JoinHandle<svc_core::Result<()>>,
    workspace: String,
}

impl Pipe {
    fn open() -> Self {
        Self::with_token(None)
    }

    fn with_token(token: Option<&str>) -> Self {
        Self::with(token, &ToolChoice::default())
    }

    fn choosing(choice: &ToolChoice) -> Self {
        Self::with(None, choice)
    }

    fn with(token: Option<&str>, choice: &ToolChoice) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = ServiceOptions {
            reap_tick: None,
            mode: OpenMode::Create,
            ..ServiceOptions::new(Database::Sqlite(folder.path().join("svc.db")), [7; 32])
        };
        let service = Service::with_options(options).unwrap();
        let made = service.establish("home", "ada").unwrap();
        let token = SecretString::from(token.unwrap_or(&made.agent_token.secret));
        let view = ToolFilter::chosen(service.table(), choice).unwrap();
        let (input, out) = tokio::io::duplex(1 << 20);
        let (lines, output) = tokio::io::duplex(1 << 20);
        Self {
            _folder: folder,
            out: Some(out),
            lines: BufReader::new(lines).lines(),
            server: tokio::spawn(svc_mcp_stdio::serve(service, token, view, (input, output))),
            workspace: json!(made.workspace.id).as_str().unwrap().to_owned(),
        }
    }

    async fn write(&mut self, line: &str) {
        let out = self.out.as_mut().unwrap();
        out.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn read(&mut self) -> Value {
        let line = tokio::time::timeout(Duration::from_secs(20), self.lines.next_line()).await.unwrap();
        serde_json::from_str(&line.unwrap().unwrap()).unwrap()
    }

    async fn ask(&mut self, message: Value) -> Value {
        self.write(&message.to_string()).await;
        self.read().await
    }

    async fn request(&mut self, method: &str, params: Value) -> Value {
        self.ask(json!({"jsonrpc": "2.0", "id": "r", "method": method, "params": params})).await
    }

    async fn modern(&mut self, method: &str, mut params: Value) -> Value {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        self.request(method, params).await
    }

    async fn initialize(&mut self, revision: &str) -> Value {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client});
        let answer = self.request("initialize", params).await;
        self.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).await;
        answer
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    /// Closes the input and returns the remaining responses.
    async fn end(mut self) -> Vec<Value> {
        drop(self.out.take());
        let mut rest = Vec::new();
        while let Some(line) = self.lines.next_line().await.unwrap() {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        self.server.await.unwrap().unwrap();
        rest
    }
}

fn names(tools: &Value) -> Vec<&str> {
    tools["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn every_handshake_is_echoed() {
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut pipe = Pipe::open();
        let answer = pipe.initialize(revision).await;
        let result = &answer["result"];
        assert_eq!(result["protocolVersion"], revision, "{answer}");
        assert_eq!(result["serverInfo"]["name"], "svc");
        assert_eq!(
            (&result["capabilities"]["tools"], &result["capabilities"]["logging"]),
            (&json!({}), &json!({}))
        );
        assert!(result.get("resultType").is_none());
        assert_eq!(pipe.request("ping", json!({})).await["result"], json!({}));
        let tools = pipe.request("tools/list", json!({})).await;
        assert!(names(&tools["result"]).contains(&"create_thread"), "{tools}");
        assert!(tools["result"].get("ttlMs").is_none() && tools["result"].get("_meta").is_none());
        assert!(pipe.end().await.is_empty());
    }
}

#[tokio::test]
async fn a_handshake_falls_back_to_the_last_revision_that_has_one() {
    let mut pipe = Pipe::open();
    assert_eq!(pipe.initialize("2026-07-28").await["result"]["protocolVersion"], "2025-11-25");
}

#[tokio::test]
async fn the_newest_revision_needs_no_handshake() {
    let mut pipe = Pipe::open();
    let found = pipe.modern("server/discover", json!({})).await;
    let result = &found["result"];
    assert_eq!(result["supportedVersions"][0], "2026-07-28", "{found}");
    assert_eq!(result["supportedVersions"].as_array().unwrap().len(), 5);
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(3_600_000), &json!("public")));
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "svc");
    let tools = pipe.modern("tools/list", json!({})).await;
    let result = &tools["result"];
    assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(3_600_000), &json!("private")));
    assert_eq!(result["resultType"], "complete");
    let me = pipe.modern("tools/call", json!({"name": "whoami"})).await;
    assert_eq!(me["result"]["resultType"], "complete", "{me}");
    assert_eq!(me["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "svc");
    assert_eq!(me["result"]["structuredContent"]["workspace_id"], json!(pipe.workspace), "{me}");
    for removed in ["ping", "resources/subscribe", "logging/setLevel", "no/such", "initialize"] {
        let answer = pipe.modern(removed, json!({"uri": "x", "level": "info"})).await;
        assert_eq!(answer["error"]["code"], -32601, "{removed}: {answer}");
    }
    let unmarked = pipe.request("server/discover", json!({})).await;
    assert_eq!(unmarked["error"]["code"], -32602);
}

#[tokio::test]
async fn tools_are_sorted_annotated_and_limited_to_the_token() {
    let mut pipe = Pipe::open();
    pipe.initialize("2025-11-25").await;
    let answer = pipe.request("tools/list", json!({})).await;
    let listed = names(&answer["result"]);
    assert!(listed.is_sorted() && listed.contains(&"claim_next_thread") && listed.contains(&"whoami"));
    assert!(!listed.contains(&"mint_token"), "an agent cannot call it: {listed:?}");
    for tool in answer["result"]["tools"].as_array().unwrap() {
        assert_eq!(tool["inputSchema"]["type"], "object");
        assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(tool["annotations"].get(hint).is_some(), "{tool}");
        }
    }
    let bad = pipe.request("tools/list", json!({"cursor": "nonsense"})).await;
    assert_eq!(bad["error"]["code"], -32602);
    assert_eq!(answer["result"].get("nextCursor"), None, "some clients read one page");
}

#[tokio::test]
async fn calls_reach_the_service_and_errors_are_returned() {
    let mut pipe = Pipe::open();
    pipe.initialize("2025-06-18").await;
    let arguments = json!({"workspace_id": pipe.workspace, "name": "work"});
    let channel = pipe.call("create_channel", arguments).await;
    let made = &channel["result"]["structuredContent"];
    assert_eq!(made["name"], "work", "{channel}");
    let text: Value =
        serde_json::from_str(channel["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(&text, made);
    assert_eq!(channel["result"]["isError"], false);
    let code = |answer: &Value| answer["error"]["code"].as_i64();
    assert_eq!(code(&pipe.call("no_such_tool", json!({})).await), Some(-32602));
    let nobody = "00000000-0000-7000-8000-000000000000";
    for (tool, arguments, wanted) in [
        ("create_channel", json!({"name": 7}), "malformed-request"),
        ("get_thread", json!({"thread_id": nobody}), "not-found"),
        ("revoke_token", json!({"token_id": nobody}), "missing-capability"),
    ] {
        let refused = pipe.call(tool, arguments).await;
        let result = &refused["result"];
        assert_eq!(result["_meta"]["svc/problem"]["type"], format!("/problems/{wanted}"), "{refused}");
        assert_eq!((&result["isError"], result.get("structuredContent")), (&json!(true), None));
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(tool) && text.contains(wanted), "{text}");
    }
    assert_eq!(code(&pipe.request("tools/call", json!({"name": 7})).await), Some(-32602));
    assert_eq!(
        code(&pipe.request("tools/call", json!({"name": "whoami", "arguments": []})).await),
        Some(-32602)
    );
    assert!(code(&pipe.request("tools/call", json!({"name": "whoami", "arguments": null})).await).is_none());
}

#[tokio::test]
async fn a_dead_token_ends_the_server_at_its_start() {
    let pipe = Pipe::with_token(Some("svc_unknown"));
    let error = pipe.server.await.unwrap().unwrap_err();
    assert_eq!((error.code(), error.code().exit_code()), (Code::Unauthenticated, 6));
}

#[tokio::test]
async fn a_token_that_dies_is_reported_at_each_use() {
    let mut pipe = Pipe::open();
    pipe.initialize("2025-11-25").await;
    let rotated = pipe.call("rotate_token", json!({})).await;
    assert_eq!(rotated["result"]["isError"], false, "{rotated}");
    for (method, params) in [
        ("tools/list", json!({})),
        ("tools/call", json!({"name": "whoami"})),
        ("tools/call", json!({"name": "x"})),
    ] {
        let answer = pipe.request(method, params).await;
        assert_eq!(answer["error"]["code"], 401, "{answer}");
        assert_eq!(answer["error"]["data"]["type"], "/problems/unauthenticated");
    }
}

#[tokio::test]
async fn invalid_messages_get_an_error_and_the_pipe_stays_open() {
    let mut pipe = Pipe::open();
    pipe.write(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#).await;
    pipe.write("").await;
    pipe.write("no json").await;
    let unreadable = pipe.read().await;
    assert_eq!((&unreadable["error"]["code"], &unreadable["id"]), (&json!(-32700), &json!(null)));
    assert_eq!(unreadable["error"]["data"]["detail"], "the message is not JSON");
    let answer = pipe.ask(json!({"jsonrpc": "2.0", "id": 5})).await;
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &json!(5)));
    pipe.initialize("2025-06-18").await;
    let answer = pipe.ask(json!([{"jsonrpc": "2.0", "id": 5, "method": "ping"}])).await;
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32600), &Value::Null));
    let long = format!("\"{}\"", "x".repeat(5 << 20));
    tokio::time::timeout(Duration::from_secs(20), pipe.write(&long)).await.expect("the line is taken");
    assert_eq!(pipe.read().await["error"]["code"], 413);
    assert_eq!(pipe.request("ping", json!({})).await["result"], json!({}));
}

#[tokio::test]
async fn batches_get_one_response_where_they_exist() {
    let mut pipe = Pipe::open();
    pipe.initialize("2025-03-26").await;
    let answer = pipe
        .ask(json!([
            {"jsonrpc": "2.0", "id": 1, "method": "ping"},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "whoami"}},
            {"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {}},
            7,
        ]))
        .await;
    let answers = answer.as_array().unwrap();
    let of = |id: Value| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(answers.len(), 4, "{answer}");
    assert_eq!(of(json!(1))["result"], json!({}));
    assert_eq!(of(json!(2))["result"]["isError"], false);
    assert_eq!(
        (&of(json!(3))["error"]["code"], &of(Value::Null)["error"]["code"]),
        (&json!(-32600), &json!(-32600))
    );
    pipe.write(r#"[{"jsonrpc":"2.0","method":"notifications/initialized"}]"#).await;
    assert_eq!(pipe.request("ping", json!({})).await["id"], "r");
    assert!(pipe.end().await.is_empty());
}

#[tokio::test]
async fn every_request_gets_a_response_after_the_end_of_input() {
    let mut pipe = Pipe::open();
    pipe.initialize("2025-11-25").await;
    for id in 0..50 {
        let arguments = json!({"workspace_id": pipe.workspace, "name": format!("c{id}")});
        let params = json!({"name": "create_channel", "arguments": arguments});
        pipe.write(
            &json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}).to_string(),
        )
        .await;
    }
    let rest = pipe.end().await;
    assert_eq!(rest.len(), 50);
    assert!(rest.iter().all(|answer| answer["result"]["isError"] == false));
}

#[tokio::test]
async fn waits_are_given_up_in_silence_at_the_end_of_input_and_when_cancelled() {
    let mut pipe = Pipe::open();
    pipe.initialize("2025-11-25").await;
    let channel = pipe.call("create_channel", json!({"workspace_id": pipe.workspace, "name": "work"})).await;
    let id = &channel["result"]["structuredContent"]["id"];
    let arguments = json!({"workspace_id": pipe.workspace, "channel_id": id, "timeout_secs": 300});
    let params = json!({"name": "wait_for_ready", "arguments": arguments});
    for id in ["kept", "cancelled"] {
        let wait = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        pipe.write(&wait.to_string()).await;
    }
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"cancelled"}}"#;
    pipe.write(cancel).await;
    // The client may use the id again, and receives the answer to the new request.
    let again = json!({"jsonrpc": "2.0", "id": "cancelled", "method": "ping"});
    assert_eq!(pipe.ask(again).await, json!({"jsonrpc": "2.0", "id": "cancelled", "result": {}}));
    let rest = tokio::time::timeout(Duration::from_secs(60), pipe.end()).await.unwrap();
    assert!(rest.is_empty(), "{rest:?}");
}

#[tokio::test]
async fn a_wait_reports_its_progress() {
    let mut pipe = Pipe::open();
    pipe.initialize("2025-11-25").await;
    let arguments = json!({"workspace_id": pipe.workspace, "timeout_secs": 5});
    let params = json!({"name": "wait_for_ready", "arguments": arguments, "_meta": {"progressToken": "p"}});
    let mut said = pipe.request("tools/call", params).await;
    let mut times = 0;
    while said["method"] == "notifications/progress" {
        assert_eq!((&said["params"]["progressToken"], &said["params"]["total"]), (&json!("p"), &json!(5.0)));
        times += 1;
        said = pipe.read().await;
    }
    assert!(times >= 2, "{said}");
    assert_eq!(said["result"]["structuredContent"], json!({"timed_out": true}), "{said}");
}

#[tokio::test]
async fn log_messages_are_sent_to_whom_wants_them() {
    let mut pipe = Pipe::open();
    pipe.initialize("2025-06-18").await;
    assert_eq!(pipe.request("logging/setLevel", json!({"level": "debug"})).await["result"], json!({}));
    let said = pipe.call("whoami", json!({})).await;
    assert_eq!(said["method"], "notifications/message", "{said}");
    assert_eq!(
        (&said["params"]["level"], &said["params"]["data"]["operation"]),
        (&json!("debug"), &json!("whoami"))
    );
    assert_eq!(pipe.read().await["result"]["isError"], false);
    let wrong = pipe.request("logging/setLevel", json!({"level": "loud"})).await;
    assert_eq!(wrong["error"]["code"], -32602);
}

#[tokio::test]
async fn only_the_chosen_tools_are_shown_and_called() {
    let choice = ToolChoice { tools: Some("whoami".to_owned()), ..ToolChoice::default() };
    let mut pipe = Pipe::choosing(&choice);
    pipe.initialize("2025-11-25").await;
    let answer = pipe.request("tools/list", json!({})).await;
    assert_eq!(names(&answer["result"]), ["whoami"]);
    assert_eq!(pipe.call("whoami", json!({})).await["result"]["isError"], false);
    assert_eq!(pipe.call("list_channels", json!({})).await["error"]["code"], -32602);
}

#[tokio::test]
async fn the_first_revision_has_no_structured_content() {
    let mut pipe = Pipe::open();
    pipe.initialize("2024-11-05").await;
    let tools = pipe.request("tools/list", json!({})).await;
    assert!(
        tools["result"]["tools"].as_array().unwrap().iter().all(|tool| tool.get("outputSchema").is_none())
    );
    let me = pipe.call("whoami", json!({})).await;
    assert!(
        me["result"].get("structuredContent").is_none() && me["result"]["content"][0]["text"].is_string()
    );
}
