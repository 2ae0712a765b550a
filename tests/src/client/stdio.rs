//! MCP over a pair of pipes, as in an agent's process, but within this process.

use std::sync::Mutex;

use secrecy::SecretString;
use serde_json::{Value, json};
use svc_core::Service;
use svc_core::op::Operation;
use svc_mcp_stdio::tool_filter::ToolFilter;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::Answer;
use super::mcp::{message, outcome};
use crate::process::TEST_TIMEOUT;
use crate::{refusals, runtime};

/// A client at the other end of a server's input and output.
pub struct Stdio {
    pipes: Mutex<Option<Pipes>>,
    server: Option<JoinHandle<svc_core::Result<()>>>,
}

struct Pipes {
    input: DuplexStream,
    output: Lines<BufReader<DuplexStream>>,
}

/// Bytes that a pipe holds.
const PIPE: usize = 1 << 20;

impl Stdio {
    /// Starts a server for the bearer of `token`.
    pub fn start(service: Service, token: &str) -> Self {
        let (input, server_input) = tokio::io::duplex(PIPE);
        let (output, server_output) = tokio::io::duplex(PIPE);
        let token = SecretString::from(token);
        let pipes = (server_input, server_output);
        let server = svc_mcp_stdio::serve(service, token, ToolFilter::default(), pipes);
        let pipes = Pipes { input, output: BufReader::new(output).lines() };
        Self { pipes: Mutex::new(Some(pipes)), server: Some(runtime().spawn(server)) }
    }

    /// Calls a method and returns the whole JSON-RPC response.
    pub fn request(&self, method: &str, params: Value) -> Value {
        self.send(message(method, params).to_string().as_bytes());
        self.receive()
    }

    /// Sends a line with any content.
    pub fn send(&self, line: &[u8]) {
        let mut pipes = self.pipes.lock().unwrap();
        let input = &mut pipes.as_mut().unwrap().input;
        runtime().block_on(input.write_all(&[line, b"\n"].concat())).unwrap();
    }

    /// Returns the next line.
    pub fn receive(&self) -> Value {
        let mut pipes = self.pipes.lock().unwrap();
        let output = &mut pipes.as_mut().unwrap().output;
        let line = runtime().block_on(async { timeout(TEST_TIMEOUT, output.next_line()).await });
        serde_json::from_str(&line.expect("the server is alive").unwrap().unwrap()).unwrap()
    }

    /// Calls a tool.
    pub fn call(&self, operation: &Operation, arguments: &Value) -> Answer {
        let response = self.request("tools/call", json!({"name": operation.name(), "arguments": arguments}));
        let (status, body) = outcome(&response, 500, operation);
        refusals::check(operation, Answer { status, headers: http::HeaderMap::new(), body })
    }
}

impl Drop for Stdio {
    fn drop(&mut self) {
        // This ends the input, and so the server, which holds the service.
        self.pipes.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
        if let Some(server) = self.server.take() {
            let ended = runtime().block_on(server);
            if !std::thread::panicking() {
                ended.unwrap().unwrap();
            }
        }
    }
}
