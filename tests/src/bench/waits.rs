//! The memory that a server needs for each of 5,000 waits over MCP that have become streams, and over REST.
//!
//! Each server is a separate process, so the clients' memory is not counted.

use std::time::Duration;

use serde_json::{Value, json};
use svc_core::Engine;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::sleep;

use super::mcp::post;
use super::memory::kib;
use super::reads::get_bytes;
use crate::client::mcp::message;
use crate::site::Site;

const WAITS: usize = 5000;
/// Waits that are begun first, so that one-time allocations of the server are not counted.
const FIRST: usize = 100;
/// Callers among which the waits are divided, because one caller may not have all.
const CALLERS: usize = 5;
/// Longer than the time until a wait is parked, and over MCP until its stream begins.
const PARKED: Duration = Duration::from_secs(4);

/// Measures both.
pub fn run(engine: Engine, runtime: &Runtime) -> Value {
    let over_mcp = json!({"name": "wait_for_ready", "arguments": {"timeout_secs": 300}});
    let headers = "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
                   Mcp-Method: tools/call\r\nMcp-Name: wait_for_ready\r\n";
    let over_mcp = message("tools/call", over_mcp);
    let ours = kib_each(engine, runtime, |token, _| post("/mcp", token, headers, &over_mcp));
    let floor = kib_each(engine, runtime, |token, workspace| {
        get_bytes(&format!("/workspaces/{workspace}/wait/ready?timeout_secs=300"), token)
    });
    json!({
        "name": "mcp-waits",
        "engine": engine.name(),
        "waits": WAITS,
        "kib_each": super::round(ours),
        "floor_kib_each": super::round(floor),
        "floor_is": "the same waits over REST",
        "ratio": super::round(ours / floor),
        "wanted": 1.5,
    })
}

/// Returns how many KiB a server needs for each wait that `request` begins.
fn kib_each(engine: Engine, runtime: &Runtime, request: impl Fn(&str, &str) -> Vec<u8>) -> f64 {
    let site = Site::found(engine);
    let tokens = callers(&site);
    // All connections come from one address here.
    let unlimited =
        [("SVC_RATE_LIMIT_MAX", "0"), ("SVC_WORKSPACE_RATE_LIMIT_MAX", "0"), ("SVC_MAX_CONNECTIONS", "0")];
    let server = site.serve(&unlimited);
    let status = format!("/proc/{}/status", server.running.id());
    let begin = async |waits: usize| {
        let mut streams = Vec::with_capacity(waits);
        for number in 0..waits {
            let mut stream = TcpStream::connect(server.address()).await.expect("a connection");
            let request = request(&tokens[number % CALLERS], &site.founders.workspace_id);
            stream.write_all(&request).await.expect("a request");
            streams.push(stream);
        }
        sleep(PARKED).await;
        streams
    };
    runtime.block_on(async {
        let first = begin(FIRST).await;
        let before = kib(&status, "VmRSS:");
        let others = begin(WAITS - FIRST).await;
        let after = kib(&status, "VmRSS:");
        for stream in &others {
            let mut said = [0; 12];
            // Over MCP the head of the stream has arrived, over REST nothing.
            if let Ok(read) = stream.try_read(&mut said) {
                assert_eq!(said.get(..read), Some(&b"HTTP/1.1 200"[..]), "a wait was refused");
            }
        }
        drop(first);
        after.saturating_sub(before) as f64 / others.len() as f64
    })
}

fn callers(site: &Site) -> Vec<String> {
    let service = site.open();
    let founders = &site.founders;
    let done = |operation, input| crate::site::done(&service, &founders.admin, operation, input);
    let agent = |number: usize| {
        let handle = format!("waiter-{number}");
        let wanted = json!({"workspace_id": founders.workspace_id, "handle": handle, "display_name": handle});
        done("create_agent", wanted)["token"]["secret"].as_str().expect("a secret").to_owned()
    };
    (0..CALLERS).map(agent).collect()
}
