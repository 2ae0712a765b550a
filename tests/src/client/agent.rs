//! An agent in a separate process, over standard input and output, by lines of JSON-RPC.

use serde_json::{Value, json};

use super::mcp::message;
use crate::process::RunningProgram;
use crate::site::Site;

/// A running `svc mcp-stdio`, and the calls that were sent to it.
pub struct Agent {
    running: RunningProgram,
    last: i64,
}

impl Agent {
    /// Starts one for the bearer of `token`.
    pub fn start(site: &Site, token: &str) -> Self {
        Self { running: site.mcp_stdio(token), last: 0 }
    }

    /// Sends a call and returns its id.
    pub fn ask(&mut self, tool: &str, arguments: Value) -> i64 {
        self.last += 1;
        let mut message = message("tools/call", json!({"name": tool, "arguments": arguments}));
        message["id"] = json!(self.last);
        self.running.say(&message.to_string());
        self.last
    }

    /// Returns the next response, which must answer the call `id`.
    pub fn response(&mut self, id: i64) -> Value {
        let line = self.running.next_line();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(answer["id"], json!(id), "{line}");
        answer
    }

    /// Returns the next response, which must be a success of the call `id`.
    pub fn answer(&mut self, id: i64) -> Value {
        let answer = self.response(id);
        assert_ne!(answer["result"]["isError"], json!(true), "{answer}");
        let output = &answer["result"]["structuredContent"];
        assert!(output.is_object(), "{answer}");
        output.clone()
    }

    /// Calls a tool, which must succeed.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.ask(tool, arguments);
        self.answer(id)
    }
}
