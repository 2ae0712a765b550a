//! Faulty messages of the Model Context Protocol, over HTTP and over a pipe.
//!
//! Every request has one response with its id, and both transports give the same response. Waits, and methods
//! that only one of the transports has, are omitted.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use svc_core::Engine;
use svc_tests::client::kept::KeptConnection;
use svc_tests::client::mcp::message;
use svc_tests::client::stdio::Stdio;
use svc_tests::simulation::Random;
use svc_tests::{Setup, World, in_parallel, runtime};

/// The variable with the number of messages; more messages find more faults.
const MESSAGES: &str = "SVC_TEST_MESSAGES";
/// The default number.
const MESSAGES_DEFAULT: usize = 4000;
/// Number of connections and pipes over which messages are sent.
const LANES: usize = 2;

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";

const METHODS: [&str; 14] = [
    "tools/call",
    "tools/list",
    "initialize",
    "ping",
    "server/discover",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "notifications/initialized",
    "notifications/cancelled",
    "tasks/get",
];

/// Returns valid messages, of several revisions.
fn sound(world: &World) -> Vec<Value> {
    let thread = world.id("thread");
    let workspace = world.id("workspace");
    let uri = format!("svc://threads/{thread}");
    let asked = [
        ("tools/call", json!({"name": "whoami", "arguments": {}})),
        ("tools/call", json!({"name": "get_thread_context", "arguments": {"thread_id": thread}})),
        ("tools/call", json!({"name": "list_threads", "arguments": {"workspace_id": workspace, "limit": 2}})),
        (
            "tools/call",
            json!({"name": "post_message", "arguments": {"thread_id": thread, "body": "é\n\u{1}"}}),
        ),
        ("tools/call", json!({"name": "claim_thread", "arguments": {"thread_id": thread}})),
        ("tools/call", json!({"name": "no_such_tool"})),
        ("tools/list", json!({})),
        ("ping", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": uri})),
        ("resources/read", json!({"uri": "svc://threads/nobody"})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "review_thread", "arguments": {"thread_id": thread}})),
        (
            "completion/complete",
            json!({"ref": {"type": "ref/resource", "uri": "svc://threads/{id}"},
                   "argument": {"name": "id", "value": "0"}}),
        ),
        ("notifications/initialized", json!({})),
        ("notifications/cancelled", json!({"requestId": 1})),
        ("tasks/get", json!({"taskId": "x"})),
    ];
    let dates = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
    let initialize = dates.map(|date| {
        let client = json!({"name": "x", "version": "0"});
        let params = json!({"protocolVersion": date, "capabilities": {}, "clientInfo": client});
        json!({"jsonrpc": "2.0", "id": date, "method": "initialize", "params": params})
    });
    let new = asked.clone().map(|(method, params)| message(method, params));
    let old = asked.map(|(method, params)| {
        let mut message = json!({"jsonrpc": "2.0", "id": "a", "method": method, "params": params});
        if method.starts_with("notifications/") {
            message.as_object_mut().unwrap().remove("id");
        }
        message
    });
    let response = json!({"jsonrpc": "2.0", "id": 9, "result": {"a": [1, 2]}});
    let discover = message("server/discover", json!({"_meta": {"progressToken": 7}}));
    let mut batch = old[..3].to_vec();
    batch.iter_mut().enumerate().for_each(|(number, message)| message["id"] = json!(number));
    let batch = Value::from(batch);
    [&initialize[..], &new, &old, &[response, discover, batch]].concat()
}

/// Turns valid messages into faulty ones.
struct Mutator {
    random: Random,
    sound: Vec<Value>,
}

impl Mutator {
    /// Returns a line that is not blank.
    fn next(&mut self) -> Vec<u8> {
        loop {
            let mut value = self.random.of(&self.sound);
            for _ in 0..self.random.below(3) {
                self.change(&mut value);
            }
            let mut text = value.to_string().into_bytes();
            if self.random.once_in(2) {
                for _ in 0..=self.random.below(3) {
                    self.spoil(&mut text);
                }
            }
            // Only on a pipe does a line end a message.
            text.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
            if !text.trim_ascii().is_empty() {
                return text;
            }
        }
    }

    /// Changes one value within a message.
    fn change(&mut self, message: &mut Value) {
        let other = self.anything();
        let name =
            self.random.of(&["id", "method", "jsonrpc", "params", "_meta", "name", "error", "result", "x"]);
        let spot = self.spot_in(message);
        match (self.random.below(5), spot) {
            (0, Value::Object(members)) => drop(members.insert(name.to_owned(), other)),
            (1, Value::Object(members)) => drop(members.remove(name)),
            (0 | 1, Value::Array(items)) => items.push(other),
            (2, spot) => *spot = Value::from(vec![spot.clone(); 1 + self.random.below(3)]),
            (3, Value::String(text)) => {
                text.push_str(self.random.of(&[" ", "X", "/", "\u{0}", "é", "\"", "?="]))
            }
            (_, spot) => *spot = other,
        }
    }

    fn spot_in<'a>(&mut self, value: &'a mut Value) -> &'a mut Value {
        let inner = match value {
            Value::Object(members) => members.len(),
            Value::Array(items) => items.len(),
            _ => 0,
        };
        if inner == 0 || self.random.once_in(4) {
            return value;
        }
        let chosen = self.random.below(inner);
        let part = match value {
            Value::Object(members) => members.values_mut().nth(chosen),
            Value::Array(items) => items.get_mut(chosen),
            _ => unreachable!("it has no parts"),
        };
        self.spot_in(part.unwrap())
    }

    fn anything(&mut self) -> Value {
        let deep = || (0..100).fold(json!(0), |inner, _| json!([inner]));
        match self.random.below(18) {
            0 => Value::Null,
            1 => json!(true),
            2 => json!(0),
            3 => json!(-1),
            4 => json!(1.5),
            5 => json!(1e300),
            6 => json!(u64::MAX),
            7 => json!(i64::MIN),
            8 => json!(""),
            9 => json!({}),
            10 => json!([]),
            11 => json!("x".repeat(70_000)),
            12 => deep(),
            13 => json!("2.0"),
            14 => json!(self.random.of(&["2025-06-18", "2026-07-28", "2031-01-01"])),
            15 => json!("\u{0}é\u{202e}\u{1f600}"),
            16 => json!(self.random.of(&METHODS)),
            _ => {
                let mut other = self.random.of(&self.sound);
                self.spot_in(&mut other).take()
            }
        }
    }

    /// Changes some bytes.
    fn spoil(&mut self, text: &mut Vec<u8>) {
        let from = self.random.below(text.len() + 1);
        let to = (from + self.random.below(12)).min(text.len());
        match self.random.below(6) {
            0 => drop(text.drain(from..to)),
            1 => text.truncate(from),
            2 => text.extend_from_within(from..to),
            3 => {
                let other = self.random.of(&self.sound).to_string().into_bytes();
                text.truncate(from);
                text.extend_from_slice(&other[self.random.below(other.len())..]);
            }
            4 => {
                let pieces: [&[u8]; 10] = [
                    b",",
                    b"{",
                    b"]",
                    b"\"",
                    b"\\ud800",
                    b"\xff",
                    b"\xef\xbb\xbf",
                    b"\"id\":7,",
                    b"-",
                    b"\0",
                ];
                let piece = self.random.of(&pieces);
                drop(text.splice(from..from, piece.iter().copied()));
            }
            _ => {
                let byte = u8::try_from(self.random.below(256)).unwrap();
                text.get_mut(from).into_iter().for_each(|spot| *spot = byte);
            }
        }
    }
}

/// Returns the headers that belong to a message in the newest revision.
fn headers(asked: &Value) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("accept", HeaderValue::from_static("application/json"));
    let method = asked["method"].as_str().unwrap_or_default();
    let params = &asked["params"];
    let name = match method {
        "tools/call" | "prompts/get" => &params["name"],
        "resources/read" => &params["uri"],
        _ => &Value::Null,
    };
    let said = [
        ("mcp-protocol-version", params["_meta"][VERSION].as_str()),
        ("mcp-method", asked["method"].as_str()),
        ("mcp-name", name.as_str()),
    ];
    for (header, text) in said.into_iter().filter_map(|(header, text)| Some((header, text?))) {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic()) && !text.starts_with("=?");
        let text = if is_plain { text.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(text)) };
        headers.insert(header, HeaderValue::from_str(&text).unwrap());
    }
    headers
}

/// Returns the contents of a response: the id and the code of each part, in any order.
fn gist(response: &Value) -> Vec<(String, Option<i64>)> {
    let Some(all) = response.as_array() else { return vec![gist_of_one(response)] };
    let mut all: Vec<_> = all.iter().map(gist_of_one).collect();
    all.sort();
    all
}

fn gist_of_one(response: &Value) -> (String, Option<i64>) {
    let members = response.as_object().unwrap();
    assert_eq!(members["jsonrpc"], "2.0", "{response:#}");
    assert!(members.contains_key("result") != members.contains_key("error"), "{response:#}");
    let code = members.get("error").map(|error| error["code"].as_i64().unwrap());
    (members["id"].to_string(), code)
}

/// Returns the id of a request, as far as JSON-RPC lets it be read.
fn id_of(asked: &Value) -> Value {
    match &asked["id"] {
        id if id.is_string() || id.is_i64() => id.clone(),
        _ => Value::Null,
    }
}

/// Returns whether two responses of a batch have the same id.
fn repeats_an_id(gist: &[(String, Option<i64>)]) -> bool {
    gist.iter().map(|(id, _)| id).collect::<BTreeSet<_>>().len() < gist.len()
}

/// Maximum bytes of a header here; the server limits the whole head of a request.
const HEADER_MAX: usize = 8 << 10;

/// The error over HTTP for a response that does not belong to a request.
const NO_RESPONSE: &str = "this server has sent no request";

/// A connection and a pipe.
struct Lane<'a> {
    world: &'a World,
    http: KeptConnection,
    pipe: Stdio,
}

impl<'a> Lane<'a> {
    fn open(world: &'a World) -> Self {
        let token = &world.people.admin;
        let http = runtime().block_on(KeptConnection::open(world.address(), token)).unwrap();
        Self { world, http, pipe: world.stdio(token) }
    }

    /// Sends a message over both.
    fn attempt(&mut self, text: &[u8]) {
        let shown = || String::from_utf8_lossy(text).chars().take(2000).collect::<String>();
        // The server reads text that is not Unicode only as far as necessary.
        let is_text = serde_json::from_slice::<Value>(text);
        let asked = is_text.as_ref().cloned().unwrap_or_default();
        let is_text = is_text.is_ok();
        let headers = headers(&asked);
        if headers.values().any(|value| value.len() > HEADER_MAX) {
            return;
        }
        let (status, body) = self.over_http(&headers, text);
        self.pipe.send(text);
        if body.is_empty() {
            assert_eq!(status, 202, "nothing is said of {}", shown());
            return;
        }
        let Ok(over_http) = serde_json::from_slice::<Value>(&body) else {
            panic!("{status} {}\n{}", String::from_utf8_lossy(&body), shown())
        };
        assert!(status < 500, "{over_http:#}\n{}", shown());
        if over_http["error"]["message"].as_str().is_some_and(|reason| reason.starts_with(NO_RESPONSE)) {
            // A pipe drops a response, since JSON-RPC has no response to that.
            assert!(asked["method"].is_null(), "{}", shown());
            return;
        }
        let over_pipe = self.pipe.receive();
        let mut http = gist(&over_http);
        let mut pipe = gist(&over_pipe);
        // A pipe refuses the second request with an id while the first is in progress, and headers that
        // repeat non-text values cannot be sent.
        let lacks_headers = !is_text && over_http["error"]["code"] == -32_020;
        if repeats_an_id(&http) || lacks_headers {
            http.iter_mut().chain(&mut pipe).for_each(|(_, code)| *code = None);
        }
        assert_eq!(http, pipe, "{over_http:.2000}\n{over_pipe:.2000}\n{}", shown());
        if is_text && over_http.is_object() {
            let code = over_http["error"]["code"].as_i64();
            let may_be_unread = matches!(code, Some(-32_700 | -32_600)) && over_http["id"].is_null();
            assert!(may_be_unread || over_http["id"] == id_of(&asked), "{over_http:#}\n{}", shown());
        }
        if asked["method"] == "initialize" {
            // A pipe remembers the agreed revision.
            self.pipe = self.world.stdio(&self.world.people.admin);
        }
    }

    fn over_http(&mut self, headers: &HeaderMap, text: &[u8]) -> (u16, Bytes) {
        let body = Bytes::copy_from_slice(text);
        runtime().block_on(async {
            let response = self.http.raw(Method::POST, "/mcp", headers, body).await.unwrap();
            let status = response.status().as_u16();
            (status, response.into_body().collect().await.unwrap().to_bytes())
        })
    }
}

#[test]
fn a_mutated_message_has_one_response_and_the_same_on_both_transports() {
    let world = World::with(Engine::Sqlite, Setup { in_memory: true, ..Setup::default() });
    let messages = std::env::var(MESSAGES).ok().and_then(|messages| messages.parse().ok());
    let each = messages.unwrap_or(MESSAGES_DEFAULT).div_ceil(LANES);
    let sound = sound(&world);
    in_parallel(LANES, |lane| {
        let seed = u64::try_from(lane).unwrap();
        let mut mutator = Mutator { random: Random(seed), sound: sound.clone() };
        let mut lane = Lane::open(&world);
        for message in &sound {
            lane.attempt(message.to_string().as_bytes());
        }
        for _ in 0..each {
            lane.attempt(&mutator.next());
        }
    });
}
