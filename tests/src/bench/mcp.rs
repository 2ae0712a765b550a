//! Calls over the Model Context Protocol, beside the same over REST.
//!
//! Both go to one server in this process, over connections that are kept open. The floor of the list of tools
//! is a bare hyper server that sends its bytes.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use svc_core::Engine;
use svc_http::HttpSettings;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use super::load::drive;
use super::reads::{constant, get_bytes};
use super::stage::{Stage, body};
use super::{Finding, alternate};
use crate::client::mcp::{REVISION, message};
use crate::database::TestDatabase;
use crate::server::Server;

const SPAN: Duration = Duration::from_millis(1000);

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// A read that is answered from the cache of credentials.
    Whoami,
    /// A read of what a thread comes to.
    Context,
    /// A change.
    Post,
    /// The list of all tools.
    Tools,
}

impl Compared {
    fn name(self) -> &'static str {
        match self {
            Self::Whoami => "mcp-whoami",
            Self::Context => "mcp-context",
            Self::Post => "mcp-posts",
            Self::Tools => "mcp-tools",
        }
    }
}

/// Runs both in alternation, over `connections` connections each.
pub fn run(
    compared: Compared,
    engine: Engine,
    pairs: usize,
    connections: usize,
    runtime: &Runtime,
) -> Finding {
    let database = TestDatabase::on(engine);
    let stage = Stage::build(&database);
    let server = Server::start(stage.service.clone(), HttpSettings::default());
    let address = server.address();
    let (token, thread) = (&stage.token, json!(stage.thread_id));
    let (tool, arguments) = match compared {
        Compared::Whoami => ("whoami", json!({})),
        Compared::Context => ("get_thread_context", json!({"thread_id": thread})),
        Compared::Post => ("post_message", json!({"thread_id": thread, "body": body(1)})),
        Compared::Tools => ("", json!({})),
    };
    let id = thread.as_str().unwrap_or_default();
    let (ours, floor, floor_address, floor_is) = match compared {
        Compared::Tools => {
            let ours = post("/mcp", token, &mcp_headers("tools/list", ""), &message("tools/list", json!({})));
            let list = runtime.block_on(async { first_answer(address, &ours).await });
            let bare = constant(list, runtime);
            let floor = post("/mcp", token, "", &json!({}));
            (ours, floor, bare, "a bare hyper server that sends these bytes")
        }
        _ => {
            let params = json!({"name": tool, "arguments": arguments});
            let ours = post("/mcp", token, &mcp_headers("tools/call", tool), &message("tools/call", params));
            let floor = match compared {
                Compared::Whoami => get_bytes("/me", token),
                Compared::Context => get_bytes(&format!("/threads/{id}/context"), token),
                _ => post(&format!("/threads/{id}/messages"), token, "", &json!({"body": body(1)})),
            };
            (ours, floor, address, "the same over REST")
        }
    };
    let pairs = alternate(
        pairs,
        || drive(runtime, address, connections, SPAN, same(&ours)),
        || drive(runtime, floor_address, connections, SPAN, same(&floor)),
    );
    let wanted = if compared == Compared::Tools { 0.6 } else { 0.8 };
    let extra = json!({"wanted": wanted, "connections": connections});
    Finding { name: compared.name(), engine, pairs, floor_is, extra }
}

fn same(request: &[u8]) -> impl Fn(usize, usize) -> Vec<u8> + Send + Sync + 'static {
    let request = request.to_vec();
    move |_, _| request.clone()
}

fn mcp_headers(method: &str, name: &str) -> String {
    let name = if name.is_empty() { String::new() } else { format!("Mcp-Name: {name}\r\n") };
    format!("MCP-Protocol-Version: {REVISION}\r\nMcp-Method: {method}\r\n{name}")
}

/// Returns the bytes of a POST.
pub(super) fn post(path: &str, token: &str, headers: &str, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{headers}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// The body of the first response to these bytes.
async fn first_answer(address: SocketAddr, request: &[u8]) -> Bytes {
    let mut stream = TcpStream::connect(address).await.expect("the server accepts");
    let closing = String::from_utf8_lossy(request).replacen("Host:", "Connection: close\r\nHost:", 1);
    stream.write_all(closing.as_bytes()).await.expect("the server reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("the server responds");
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    answer.split_off(head).into()
}
