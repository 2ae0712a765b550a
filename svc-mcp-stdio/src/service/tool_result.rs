//! The result of a call for a model: the output and what to do next, or why the call was refused.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::json;
use svc_core::Error;
use svc_core::op::{Table, mcp};

use crate::request_context::RequestContext;
use crate::response::{Response, push_as_string};
use crate::revision::Revision;

/// Returns the result of a call with the output of its operation, as text and as structured content.
///
/// The output is JSON, and is not parsed. The result says what to do next only with tools that are shown.
pub(super) fn output(tool: &str, output: &[u8], context: &RequestContext, table: &Table) -> Response {
    let hint = hint(tool, output).filter(|hint| context.view.shows_named(hint, table));
    output_with_hint(output, hint, context.revision)
}

/// Returns the same with a hint for the next step.
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
        // A line of a pipe and the data of an event are one line; line breaks in JSON are only between
        // values, and few outputs have any.
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

/// The output of a wait whose time is over.
pub(super) const TIMED_OUT: &[u8] = br#"{"timed_out":true}"#;

/// Returns a hint for the next step, if a client that knows only the tools could not find it.
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

/// Returns the result of a refused call: text for the model, and for programs the problem in the metadata.
///
/// The problem is not structured content, which would have to match the tool's output schema: clients reject
/// a result that does not.
pub(super) fn refusal(tool: &str, error: &Error) -> Response {
    let result = CallToolResult::error(vec![ContentBlock::text(mcp::refusal_text(tool, error))]);
    Response::of(&result).with_meta(mcp::PROBLEM, json!(mcp::problem(error))).repeated(error.is_repeated())
}
