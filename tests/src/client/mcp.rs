//! MCP: `tools/call` and other methods as JSON-RPC over `POST /mcp`, in the newest revision.
//!
//! Successes and failures are returned as the same [`Answer`] as over REST.

use serde_json::{Value, json};
use svc_core::op::Operation;

use super::Answer;
use super::rest::Rest;
use crate::refusals;

/// The revision that this client speaks.
pub const REVISION: &str = "2026-07-28";

/// An MCP client of one server.
#[derive(Clone, Copy, Debug)]
pub struct Mcp {
    /// The connection.
    pub http: Rest,
}

impl Mcp {
    /// Calls a method and returns the whole JSON-RPC response.
    pub fn request(&self, token: Option<&str>, method: &str, params: Value) -> Answer {
        self.request_at("/mcp", token, &[], method, params)
    }

    /// Calls a method at another path, with additional headers.
    pub fn request_at(
        &self,
        path: &str,
        token: Option<&str>,
        more: &[(&str, &str)],
        method: &str,
        params: Value,
    ) -> Answer {
        let name = params["name"].as_str().or(params["uri"].as_str()).unwrap_or_default().to_owned();
        let mut headers = vec![
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", REVISION),
            ("mcp-method", method),
        ];
        if !name.is_empty() {
            headers.push(("mcp-name", &name));
        }
        headers.extend(more);
        self.http.send(token, "POST", path, &headers, Some(&message(method, params)))
    }

    /// Calls a tool.
    pub fn call(&self, token: Option<&str>, operation: &Operation, arguments: &Value) -> Answer {
        self.call_by(token, &[], operation, arguments)
    }

    /// Calls a tool, with these headers.
    pub fn call_by(
        &self,
        token: Option<&str>,
        headers: &[(&str, &str)],
        operation: &Operation,
        arguments: &Value,
    ) -> Answer {
        let params = json!({"name": operation.name(), "arguments": arguments});
        let Answer { status, headers, body } = self.request_at("/mcp", token, headers, "tools/call", params);
        let (status, body) = outcome(&body, status, operation);
        refusals::check(operation, Answer { status, headers, body })
    }
}

/// Returns a request of the newest revision; existing metadata stays.
pub fn message(method: &str, mut params: Value) -> Value {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "svc-tests", "version": "0"},
    });
    if let (Some(meta), Some(given)) = (meta.as_object_mut(), params["_meta"].as_object()) {
        meta.extend(given.clone());
    }
    params["_meta"] = meta;
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// Returns the status and the body that REST would return.
pub fn outcome(response: &Value, http_status: u16, operation: &Operation) -> (u16, Value) {
    let problem = |problem: &Value| {
        let status = problem["status"].as_u64().and_then(|status| u16::try_from(status).ok());
        (status.unwrap_or(http_status), problem.clone())
    };
    if let Some(error) = response.get("error") {
        return problem(&error["data"]);
    }
    let result = &response["result"];
    let content = &result["structuredContent"];
    if result["isError"] == json!(true) {
        return problem(refusal(result, operation));
    }
    if content.is_null() {
        // Not the response to a tool call: the server rejected it before.
        return problem(response);
    }
    (operation.http().success.status(), content.clone())
}

/// Returns the problem of a refusal, whose text must contain the same facts as its fields.
fn refusal<'a>(result: &'a Value, operation: &Operation) -> &'a Value {
    assert!(
        result.get("structuredContent").is_none(),
        "{operation:?}: a refusal is not of the output schema: {result:#}"
    );
    let problem = &result["_meta"]["svc/problem"];
    let text = result["content"][0]["text"].as_str().unwrap();
    let last_segment =
        |member: &str| problem[member].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    for said in [operation.name().to_owned(), last_segment("type"), last_segment("title")] {
        assert!(text.contains(&said), "{operation:?}: the text does not say {said}: {text}");
    }
    // The text lists several faults of an input separately.
    let faults = problem["errors"].as_array().filter(|faults| faults.len() > 1);
    let details = faults.map_or(vec![problem], |faults| faults.iter().collect());
    for detail in details {
        assert!(text.contains(detail["detail"].as_str().unwrap()), "{operation:?}: {text}");
    }
    problem
}
