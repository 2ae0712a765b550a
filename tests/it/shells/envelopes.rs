//! The envelopes of MCP and JSON-RPC: only the used members are read, whatever else clients send.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use serde_json::{Map, Value, json};
use svc_core::Engine;
use svc_tests::client::stdio::Stdio;
use svc_tests::simulation::Random;
use svc_tests::{World, runtime, text};

const INIT: &str = "initialize";

/// The outcome of a message.
#[derive(Debug, PartialEq)]
enum MessageOutcome {
    Revision(String),
    Result(Value),
    Error(i64),
}

impl MessageOutcome {
    fn of(response: &Value) -> Self {
        if let Some(code) = response["error"]["code"].as_i64() {
            return Self::Error(code);
        }
        match response["result"]["protocolVersion"].as_str() {
            Some(revision) => Self::Revision(revision.to_owned()),
            None => Self::Result(response["result"].clone()),
        }
    }
}

/// Posts a message with these headers, and returns the status and the response.
fn post(world: &World, headers: &[(&str, &str)], message: &Value) -> (u16, Value) {
    let rest = world.rest();
    let headers = [&[("accept", "application/json")], headers].concat();
    let body = Some(Bytes::from(message.to_string()));
    runtime().block_on(async {
        let response = rest.raw(Some(&world.people.admin), "POST", "/mcp", &headers, body).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    })
}

/// Returns the outcomes of a message over HTTP, and over a pipe.
fn both(world: &World, pipe: &Stdio, message: &Value) -> [MessageOutcome; 2] {
    pipe.send(message.to_string().as_bytes());
    [MessageOutcome::of(&post(world, &[], message).1), MessageOutcome::of(&pipe.receive())]
}

fn message(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// Returns the parameters of a handshake, with some changed; null removes one.
fn handshake(changes: Value) -> Value {
    let mut params = json!({"protocolVersion": "2025-06-18", "capabilities": {},
                            "clientInfo": {"name": "x", "version": "1"}});
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(params.as_object_mut().unwrap().remove(name)),
            value => params[name] = value.clone(),
        }
    }
    message(INIT, params)
}

#[test]
fn messages_are_read_as_clients_write_them() {
    let world = World::open(Engine::Sqlite);
    let newest = "2025-11-25";
    let handshakes = [
        (handshake(json!({})), "2025-06-18"),
        (handshake(json!({"protocolVersion": "2024-11-05"})), "2024-11-05"),
        (handshake(json!({"protocolVersion": "2099-01-01"})), newest),
        (handshake(json!({"protocolVersion": 7})), newest),
        (handshake(json!({"protocolVersion": null})), newest),
        (handshake(json!({"clientInfo": null})), "2025-06-18"),
        (handshake(json!({"clientInfo": {"name": "x"}})), "2025-06-18"),
        (handshake(json!({"clientInfo": {"name": 7, "version": null, "icons": "x"}})), "2025-06-18"),
        (handshake(json!({"clientInfo": "x"})), "2025-06-18"),
        (handshake(json!({"clientInfo": []})), "2025-06-18"),
        (handshake(json!({"capabilities": null})), "2025-06-18"),
        (handshake(json!({"capabilities": []})), "2025-06-18"),
        (handshake(json!({"capabilities": "all"})), "2025-06-18"),
        (
            handshake(json!({"capabilities": {"roots": 7, "sampling": true, "elicitation": [],
                "experimental": "x", "extensions": ["ui"], "tasks": {"list": 1}}})),
            "2025-06-18",
        ),
        (handshake(json!({"_meta": []})), "2025-06-18"),
        (handshake(json!({"_meta": {"progressToken": 1.5, "x/y": [null]}})), "2025-06-18"),
        (handshake(json!({"locale": {"a": 1}, "trace": "off"})), "2025-06-18"),
        (json!({"jsonrpc": "2.0", "id": 1, "method": INIT, "params": null}), newest),
        (json!({"jsonrpc": "2.0", "id": 1, "method": INIT}), newest),
        (
            json!({"jsonrpc": "2.0", "id": 1, "method": INIT, "params": {}, "result": null, "error": null}),
            newest,
        ),
    ];
    for (message, revision) in &handshakes {
        let pipe = world.stdio(&world.people.admin);
        for gist in both(&world, &pipe, message) {
            assert_eq!(gist, MessageOutcome::Revision((*revision).to_owned()), "{message}");
        }
    }
    let pipe = world.stdio(&world.people.admin);
    let uri = format!("svc://threads/{}", world.id("thread"));
    let call = |more: Value| {
        let mut params = json!({"name": "whoami"});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        message("tools/call", params)
    };
    let calls = [
        call(json!({})),
        call(json!({"arguments": null})),
        call(json!({"_meta": null})),
        call(json!({"_meta": 7})),
        call(json!({"_meta": {"progressToken": {"a": 1}}})),
        call(json!({"_meta": {"progressToken": null, "io.modelcontextprotocol/clientInfo": 7}})),
        call(json!({"task": {"ttl": "long"}, "context": [], "title": 7})),
        message("ping", json!({"_meta": "x"})),
        message("tools/list", json!({"cursor": null, "_meta": []})),
        message("resources/read", json!({"uri": uri, "_meta": [1], "range": {}})),
        message(
            "prompts/get",
            json!({"name": "catch_up", "arguments": {"thread_id": world.id("thread")},
            "inputResponses": 7, "requestState": 7, "_meta": false}),
        ),
        message(
            "completion/complete",
            json!({"ref": {"type": "ref/prompt", "name": "catch_up", "title": 7},
            "argument": {"name": "thread_id", "value": "x", "type": 7}, "context": "x"}),
        ),
        message("logging/setLevel", json!({"level": "error", "logger": 7})),
    ];
    for message in &calls {
        for gist in both(&world, &pipe, message) {
            assert!(matches!(gist, MessageOutcome::Result(_)), "{message}: {gist:?}");
        }
    }
    let stated = |version: Value| json!({"_meta": {"io.modelcontextprotocol/protocolVersion": version}});
    for (message, code) in [
        (json!({"id": 1, "method": "ping"}), -32_600),
        (json!({"jsonrpc": "1.0", "id": 1, "method": "ping"}), -32_600),
        (json!({"jsonrpc": "2.0", "id": [], "method": "ping"}), -32_600),
        (json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": [1]}), -32_600),
        (call(json!({"arguments": [1]})), -32_602),
        (message("ping", stated(json!(7))), -32_602),
        (message("ping", stated(json!("2099-01-01"))), -32_022),
        (message("resources/read", json!({"uri": 7})), -32_602),
        (message("completion/complete", json!({"ref": {"type": "x"}, "argument": {}})), -32_602),
    ] {
        for gist in both(&world, &pipe, &message) {
            assert_eq!(gist, MessageOutcome::Error(code), "{message}");
        }
    }
}

#[test]
fn both_sides_agree_on_a_revision_by_the_message_whatever_its_headers_say() {
    let world = World::open(Engine::Sqlite);
    const VERSION: &str = "mcp-protocol-version";
    for headers in [
        &[][..],
        &[(VERSION, "2099-01-01")],
        &[(VERSION, "1.0")],
        &[(VERSION, "")],
        &[(VERSION, "2025-11-25")],
        &[(VERSION, "2026-07-28")],
        &[(VERSION, "2025-06-18"), (VERSION, "2025-03-26")],
        &[(VERSION, "=?base64?!?=")],
    ] {
        let (status, answer) = post(&world, headers, &handshake(json!({})));
        assert_eq!(
            (status, &answer["result"]["protocolVersion"]),
            (200, &json!("2025-06-18")),
            "{headers:?}"
        );
    }
    for (version, wanted) in [("2099-01-01", -32_022), ("1.0", -32_022)] {
        let (status, answer) = post(&world, &[(VERSION, version)], &message("tools/list", json!({})));
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(wanted)), "{version}");
    }
}

/// Returns a random value of any type.
fn anything(random: &mut Random) -> Value {
    let plain = [
        json!(null),
        json!(true),
        json!(-7),
        json!(1.5),
        json!(""),
        json!("x\n\u{1f600}"),
        json!([]),
        json!({}),
    ];
    match random.below(4) {
        0 => json!([random.of(&plain), [random.of(&plain)]]),
        1 => json!({"name": random.of(&plain), "a": {"b": random.of(&plain)}}),
        _ => random.of(&plain),
    }
}

/// Adds unknown members to an object, and to some of the objects within it.
fn adorn(value: &mut Value, places: &[&str], random: &mut Random) {
    for place in places {
        let Some(Value::Object(members)) = value.pointer_mut(place) else { continue };
        let more = (0..random.below(4)).map(|number| {
            let names = ["zz", "x-y", "com.example/z", "Method", "\u{e9}", "_z"];
            (format!("{}{number}", random.of(&names)), anything(random))
        });
        let more: Map<String, Value> = more.collect();
        members.extend(more);
    }
}

#[test]
fn members_that_nobody_knows_change_nothing() {
    let world = World::open(Engine::Sqlite);
    let pipe = world.stdio(&world.people.admin);
    let mut random = Random(41);
    let uri = format!("svc://threads/{}", world.id("thread"));
    let messages = [
        handshake(json!({"_meta": {}})),
        message("ping", json!({"_meta": {}})),
        message("tools/call", json!({"name": "whoami", "_meta": {}})),
        message(
            "tools/call",
            json!({"name": "no_such_tool", "arguments": {}, "_meta": {"progressToken": "t"}}),
        ),
        message("prompts/list", json!({"_meta": {}})),
        message("resources/read", json!({"uri": uri, "_meta": {}})),
        message("no/such/method", json!({"_meta": {}})),
    ];
    let places = ["", "/params", "/params/_meta", "/params/clientInfo", "/params/capabilities"];
    for plain in &messages {
        let wanted = both(&world, &pipe, plain);
        assert_eq!(wanted[0], wanted[1], "{plain}");
        for _ in 0..20 {
            let mut adorned = plain.clone();
            adorn(&mut adorned, &places, &mut random);
            assert_eq!(both(&world, &pipe, &adorned), wanted, "{adorned}");
        }
    }
    for method in ["notifications/initialized", "notifications/cancelled", "notifications/roots/list_changed"]
    {
        let mut note = json!({"jsonrpc": "2.0", "method": method, "params": {"_meta": {}}});
        adorn(&mut note, &places, &mut random);
        assert_eq!(post(&world, &[], &note), (202, Value::Null), "{note}");
        pipe.send(note.to_string().as_bytes());
    }
    assert_eq!(
        both(&world, &pipe, &messages[1])[1],
        MessageOutcome::Result(json!({})),
        "a notification has no answer"
    );
}

#[test]
fn a_mark_before_a_line_or_a_frame_is_skipped() {
    let world = World::open(Engine::Sqlite);
    let pipe = world.stdio(&world.people.admin);
    for _ in 0..2 {
        pipe.send(format!("\u{feff}{}", handshake(json!({}))).as_bytes());
        assert_eq!(text(&pipe.receive()["result"]["protocolVersion"]), "2025-06-18");
    }
    pipe.send(format!("\u{feff}\u{feff}{}", handshake(json!({}))).as_bytes());
    assert_eq!(pipe.receive()["error"]["code"], -32_700, "one mark is skipped");
    let first = json!({"token": world.people.agent, "filter": {"workspace_id": world.id("workspace")},
        "after_id": null, "at_least_once": null, "consumer_id": null, "positions": null});
    let mut socket = svc_tests::client::ws::Ws::connect(world.address(), &[]);
    socket.say_text(&format!("\u{feff}{first}"));
    assert_eq!(socket.frame()["type"], "subscribe_ack");
}
