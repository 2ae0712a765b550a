//! Encodes the result of a tool call for a model: the output with a hint for the next step, or the reason for
//! the refusal.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::json;
use svc_core::Error;
use svc_core::limits::MCP_ANSWER_BYTES_MAX;
use svc_core::op::{Table, mcp};

use crate::request_context::RequestContext;
use crate::response::{Response, push_as_string};
use crate::revision::Revision;

/// Returns the result of a tool call, with the output of the operation as text and as structured content.
///
/// The output is JSON and is not parsed. A hint for the next step is added only if the client sees all tools
/// in the hint.
pub(super) fn tool_output(tool: &str, output: &[u8], context: &RequestContext, table: &Table) -> Response {
    let hint = next_step_hint(tool, output).filter(|hint| context.view.shows_tools_in(hint, table));
    output_with_hint(output, hint, context.revision)
}

/// Returns the result of a tool call, with an optional hint for the next step.
///
/// The output is sent twice: as text, for clients that read only text, and as structured content. If both do
/// not fit into a message that all clients accept, the text only refers to the structured content.
pub(super) fn output_with_hint(output: &[u8], hint: Option<&str>, revision: Revision) -> Response {
    let mut members = Vec::with_capacity(2 * output.len() + output.len() / 4 + 128);
    members.extend_from_slice(TEXT_START);
    push_as_string(&mut members, output);
    let is_structured = revision.has_structured_content();
    if is_structured && members.len() + output.len() > MCP_ANSWER_BYTES_MAX {
        members.truncate(TEXT_START.len());
        push_as_string(&mut members, too_long_text(output.len()).as_bytes());
    }
    members.push(b'}');
    if let Some(hint) = hint {
        members.extend_from_slice(br#",{"type":"text","text":"#);
        push_as_string(&mut members, hint.as_bytes());
        members.push(b'}');
    }
    members.push(b']');
    if is_structured {
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

/// Start of the result's members, up to the text.
const TEXT_START: &[u8] = br#""content":[{"type":"text","text":"#;

/// Returns the text of a result whose output is too long to be sent twice.
fn too_long_text(bytes: usize) -> String {
    format!(
        "The answer has {bytes} bytes, too many to repeat here: it is in `structuredContent`. Call again \
         with a smaller `max_bytes` to get it as text."
    )
}

/// Output of a wait that has timed out.
pub(super) const TIMED_OUT: &[u8] = br#"{"timed_out":true}"#;

/// Returns a hint for the next step after a call, or `None` if the descriptions of the tools make the step
/// clear.
fn next_step_hint(tool: &str, output: &[u8]) -> Option<&'static str> {
    match tool {
        "claim_next_thread" | "claim_next_workspace_thread" if output == b"{}" => {
            Some("No thread is ready to claim. `wait_for_ready` waits until one is ready.")
        }
        "claim_next_thread" | "claim_next_workspace_thread" | "claim_thread" => Some(
            "The thread is yours until `assignment_expires_at`: call `renew_claim` before that. \
             `get_thread_context` returns its brief, `set_thread_result` submits your result.",
        ),
        _ if output == TIMED_OUT => {
            Some("The wait has timed out. Call the tool again: no event is missed in between.")
        }
        "wait_for_ready" => Some("The thread is not reserved for you: claim it with `claim_thread`."),
        "set_thread_result" => {
            Some("Your claim has ended. `claim_next_workspace_thread` claims your next task.")
        }
        _ => None,
    }
}

/// Returns the result of a refused call, with text for the model and the problem in `_meta` for programs.
///
/// The problem is not sent as structured content, because clients reject structured content that does not
/// match the tool's output schema.
pub(super) fn refused_call(tool: &str, error: &Error) -> Response {
    let result = CallToolResult::error(vec![ContentBlock::text(mcp::refusal_text(tool, error))]);
    Response::of(&result)
        .with_meta(mcp::PROBLEM, json!(mcp::problem(error)))
        .with_repeated(error.is_repeated())
}

#[cfg(test)]
mod tests {
    use rmcp::model::RequestId;
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_message_has_the_output_twice_only_as_far_as_all_clients_accept_it() {
        let most = MCP_ANSWER_BYTES_MAX;
        let id = RequestId::String("\u{1}".repeat(1024).into());
        let message = |length: usize, revision| {
            let output = json!({"a": "\"".repeat(length)}).to_string();
            let bytes = output_with_hint(output.as_bytes(), None, revision)
                .response(&id, revision, "{}")
                .into_contiguous();
            let text: Value = serde_json::from_slice::<Value>(&bytes).unwrap()["result"].take();
            (output, text["content"][0]["text"].clone(), text["structuredContent"].to_string(), bytes.len())
        };
        for length in [10, most / 6 - 100, most / 6 + 100, most / 2 - 4] {
            let (output, text, structured, bytes) = message(length, Revision::UNSTATED);
            assert!(bytes <= 1_048_576, "{length}: {bytes}");
            assert_eq!(structured, output, "{length}");
            assert_eq!(text == output, length < most / 6, "{length}: {text}");
        }
        let (output, text, ..) = message(most / 2 - 4, Revision::V20241105);
        assert_eq!(text, output, "a client without structured content gets the text");
    }
}
