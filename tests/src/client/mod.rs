//! Clients of the service.
//!
//! All return the same [`Answer`], so that a test can be written once for every client.

pub mod agent;
pub mod kept;
pub mod mcp;
pub mod rest;
pub mod stdio;
pub mod ws;

use http::HeaderMap;
use serde_json::Value;

/// A response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status; over MCP that of the problem, or of the success that the operation names.
    pub status: u16,
    /// The headers; empty in process.
    pub headers: HeaderMap,
    /// The body: the output, or the problem.
    pub body: Value,
}

impl Answer {
    /// Returns the end of the caller's workspace's log, from the header.
    pub fn lsn(&self) -> Option<i64> {
        self.headers.get("svc-room-lsn")?.to_str().ok()?.parse().ok()
    }

    /// Returns whether it is a success.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns the output of a success.
    #[track_caller]
    pub fn output(self) -> Value {
        assert!(self.is_success(), "refused with {}: {:#}", self.status, self.body);
        self.body
    }

    /// Returns the code of the problem: the last segment of its type.
    pub fn code(&self) -> &str {
        let kind = self.problem()["type"].as_str().unwrap_or_default();
        kind.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the problem: the body, or the data of a JSON-RPC error.
    fn problem(&self) -> &Value {
        self.body.pointer("/error/data").unwrap_or(&self.body)
    }

    /// Checks status and code of a refusal, and returns the problem.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Value {
        assert_eq!((self.status, self.code()), (status, code), "{:#}", self.body);
        self.problem().clone()
    }
}
