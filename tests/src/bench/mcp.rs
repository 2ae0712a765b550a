//! Compares calls over the Model Context Protocol with the same calls over REST.
//!
//! Both go to one server in this process, over connections that stay open. The floor of the list of tools is
//! a bare hyper server that sends its bytes. A pipe is a pair of the kernel's pipes, as a client gives to the
//! process that it starts; each connection has one.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use secrecy::SecretString;
use serde_json::{Value, json};
use svc_core::{Engine, Service};
use svc_http::HttpSettings;
use svc_mcp_stdio::tool_filter::ToolFilter;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::net::unix::pipe;
use tokio::runtime::Runtime;

use super::load::{Connection, drive, drive_over};
use super::reads::{constant, get_bytes};
use super::stage::{Stage, body};
use super::{Finding, alternate};
use crate::client::mcp::{REVISION, message};
use crate::database::TestDatabase;
use crate::server::Server;

const SPAN: Duration = Duration::from_millis(1000);

/// The compared calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComparedCalls {
    /// A read that uses only the cache of credentials.
    Whoami,
    /// A read of the context of a thread.
    Context,
    /// A change.
    Post,
    /// The list of all tools.
    Tools,
}

impl ComparedCalls {
    fn name(self) -> &'static str {
        match self {
            Self::Whoami => "mcp-whoami",
            Self::Context => "mcp-context",
            Self::Post => "mcp-posts",
            Self::Tools => "mcp-tools",
        }
    }
}

/// The transport of the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallTransport {
    /// HTTP.
    Http,
    /// Standard input and output.
    Pipe,
}

/// Runs both in alternation, over `connections` connections each.
pub fn run(
    compared: ComparedCalls,
    carrier: CallTransport,
    engine: Engine,
    pairs: usize,
    connections: usize,
    runtime: &Runtime,
) -> Finding {
    let database = TestDatabase::on(engine);
    let stage = Stage::build(&database);
    let server = Server::start(stage.service.clone(), HttpSettings::default());
    let address = server.address();
    let token = &stage.token;
    let thread = json!(stage.thread_id);
    let (tool, arguments) = match compared {
        ComparedCalls::Whoami => ("whoami", json!({})),
        ComparedCalls::Context => ("get_thread_context", json!({"thread_id": thread})),
        ComparedCalls::Post => ("post_message", json!({"thread_id": thread, "body": body(1)})),
        ComparedCalls::Tools => ("", json!({})),
    };
    let id = thread.as_str().unwrap_or_default();
    let (method, params) = match compared {
        ComparedCalls::Tools => ("tools/list", json!({})),
        _ => ("tools/call", json!({"name": tool, "arguments": arguments})),
    };
    let said = message(method, params);
    let ours = post("/mcp", token, &mcp_headers(method, tool), &said);
    let (floor, floor_address) = match compared {
        ComparedCalls::Tools => {
            let list = runtime.block_on(async { first_answer(address, &ours).await });
            (post("/mcp", token, "", &json!({})), constant(list))
        }
        ComparedCalls::Whoami => (get_bytes("/me", token), address),
        ComparedCalls::Context => (get_bytes(&format!("/threads/{id}/context"), token), address),
        ComparedCalls::Post => {
            (post(&format!("/threads/{id}/messages"), token, "", &json!({"body": body(1)})), address)
        }
    };
    let line = format!("{said}\n").into_bytes();
    let pairs = alternate(
        pairs,
        || match carrier {
            CallTransport::Http => drive(runtime, address, connections, SPAN, same(&ours)),
            CallTransport::Pipe => drive_over(runtime, connections, SPAN, async |_| {
                ServerPipe::open(&stage.service, token, line.clone())
            }),
        },
        || drive(runtime, floor_address, connections, SPAN, same(&floor)),
    );
    let is_list = compared == ComparedCalls::Tools;
    let floor_is = if is_list { "a bare hyper server that sends these bytes" } else { "the same over REST" };
    let extra = json!({"wanted": if is_list { 0.6 } else { 0.8 }, "connections": connections,
                       "carrier": format!("{carrier:?}").to_lowercase()});
    Finding { name: compared.name(), engine, pairs, floor_is, extra }
}

/// A pipe to a separate server.
struct ServerPipe {
    request: Vec<u8>,
    to_server: pipe::Sender,
    from_server: BufReader<pipe::Receiver>,
    answer: Vec<u8>,
}

impl ServerPipe {
    /// Serves the bearer of a token, who repeats one request.
    fn open(service: &Service, token: &str, request: Vec<u8>) -> Self {
        let (to_server, reads) = pipe::pipe().expect("a pipe");
        let (writes, from_server) = pipe::pipe().expect("a pipe");
        let token = SecretString::from(token.to_owned());
        tokio::spawn(svc_mcp_stdio::serve(service.clone(), token, ToolFilter::default(), (reads, writes)));
        Self { request, to_server, from_server: BufReader::new(from_server), answer: Vec::new() }
    }
}

impl Connection for ServerPipe {
    async fn exchange(&mut self, _: usize) {
        self.to_server.write_all(&self.request).await.expect("the server reads");
        self.answer.clear();
        self.from_server.read_until(b'\n', &mut self.answer).await.expect("the server responds");
        assert!(self.answer.windows(10).take(64).any(|part| part == br#""result":{"#), "no result");
    }
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

/// Returns the body of the first response to these bytes.
async fn first_answer(address: SocketAddr, request: &[u8]) -> Bytes {
    let mut stream = TcpStream::connect(address).await.expect("the server accepts");
    let closing = String::from_utf8_lossy(request).replacen("Host:", "Connection: close\r\nHost:", 1);
    stream.write_all(closing.as_bytes()).await.expect("the server reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.expect("the server responds");
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    answer.split_off(head).into()
}
