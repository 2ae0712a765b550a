//! Encodes the result of a tool call for a model: the output with a hint for the next step, or the reason for
//! a refusal.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::json;
use svc_core::Error;
use svc_core::op::{Table, mcp};

use crate::request_context::RequestContext;
use crate::response::{Response, push_as_string};
use crate::revision::Revision;

/// Returns the result of a tool call, with the output of the operation as text and as structured content.
///
/// The output is JSON and is not parsed. A hint for the next step is added only if the client sees the tools
/// that it names.
pub(super) fn output(tool: &str, output: &[u8], context: &RequestContext, table: &Table) -> Response {
    let hint = hint(tool, output).filter(|hint| context.view.shows_named(hint, table));
    output_with_hint(output, hint, context.revision)
}

/// Returns the result of a tool call, with an optional hint for the next step.
pub(super) fn output_with_hint(output: &[u8], hint: Option<&str>, revision: Revision) -> Response {
    let mut members = Vec::with_capacity(2 * output.len() + output.len() / 4 + 128);
    members.extend_from_slice(br#""content":[{"type":"text","text":"#);
    push_as_string(&mut members, output);
    members.push(b'}');
    if let Some(hint) = hint {
        members.extend_from_slice(br#",{"type":"text","text":"#);
        push_as_string(&mut members, hint.as_bytes());
        members.push(b'}');
    }
    members.push(b']');
    if revision.has_structured_content() {
        members.extend_from_slice(br#","structuredContent":"#);
        // A message must be a single line, both over a pipe and in an event. Line breaks in JSON occur only
        // between values, and few outputs have any.
        if output.contains(&b'\n') || output.contains(&b'\r') {
            for line in output.split(|byte| matches!(byte, b'\n' | b'\r')) {
                members.extend_from_slice(line);
            }
        } else {
            members.extend_from_slice(output);
        }
    }
    members.extend_from_slice(br#","isError":false"#);
    Response::raw(members)
}

/// Output of a wait that has timed out.
pub(super) const TIMED_OUT: &[u8] = br#"{"timed_out":true}"#;

/// Returns a hint for the next step after a call, if the descriptions of the tools do not make it clear.
fn hint(tool: &str, output: &[u8]) -> Option<&'static str> {
    match tool {
        "claim_next_thread" | "claim_next_workspace_thread" if output == b"{}" => {
            Some("Nothing is there to claim now. `wait_for_ready` waits until there is.")
        }
        "claim_next_thread" | "claim_next_workspace_thread" | "claim_thread" => Some(
            "The thread is yours until `assignment_expires_at`: call `renew_claim` before that. \
             `get_thread_context` has its brief, `set_thread_result` hands your work in.",
        ),
        _ if output == TIMED_OUT => Some("Nothing has come yet. Call it again: waiting again loses nothing."),
        "wait_for_ready" => Some("It is not reserved for you: `claim_thread` takes it."),
        "set_thread_result" => {
            Some("Your claim has ended. `claim_next_workspace_thread` gives you the next task.")
        }
        _ => None,
    }
}

/// Returns the result of a refused call, with text for the model and the problem in `_meta` for programs.
///
/// The problem is not sent as structured content, because clients reject structured content that does not
/// match the tool's output schema.
pub(super) fn refusal(tool: &str, error: &Error) -> Response {
    let result = CallToolResult::error(vec![ContentBlock::text(mcp::refusal_text(tool, error))]);
    Response::of(&result).with_meta(mcp::PROBLEM, json!(mcp::problem(error))).repeated(error.is_repeated())
}
