//! The memory that a server needs for each of 10,000 sockets with idle subscriptions.
//!
//! The server is a separate process, so the clients' memory is not counted.

use serde_json::{Value, json};
use svc_core::Engine;
use tokio::runtime::Runtime;

use super::fanout::{Subscription, subscribe};
use super::memory::kib;
use crate::site::Site;

const SOCKETS: usize = 10_000;
/// Sockets that are opened first, so that one-time allocations of the server are not counted.
const FIRST: usize = 100;

pub fn run(engine: Engine, runtime: &Runtime) -> Value {
    let site = Site::found(engine);
    let unlimited = [("SVC_RATE_LIMIT_MAX", "0"), ("SVC_WORKSPACE_RATE_LIMIT_MAX", "0")];
    let server = site.serve(&unlimited);
    let status = format!("/proc/{}/status", server.running.id());
    let subscription = Subscription {
        address: server.address(),
        token: &site.founders.admin,
        workspace_id: &site.founders.workspace_id,
        kind: "ChannelCreated",
    };
    let first = runtime.block_on(subscribe(&subscription, FIRST));
    let before = kib(&status, "VmRSS:");
    let others = runtime.block_on(subscribe(&subscription, SOCKETS - FIRST));
    let after = kib(&status, "VmRSS:");
    let each = after.saturating_sub(before) as f64 / others.len() as f64;
    json!({
        "name": "idle",
        "engine": engine.name(),
        "sockets": first.len() + others.len(),
        "kib_each": super::round(each),
        "server_kib": after,
    })
}
