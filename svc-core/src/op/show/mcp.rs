//! The table as MCP tools, and the form of a failure over JSON-RPC.
//!
//! The shells implement framing, sessions and protocol revisions.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::capability::Capabilities;
use crate::error::{Code, Error, Problem};
use crate::limits::ANSWER_MCP_BYTES;
use crate::op::call::faults::ERRORS;
use crate::op::call::key::IdempotencyKey;
use crate::op::declare::byte_limit::AnswerShape;
use crate::op::declare::effect::Effect;
use crate::op::declare::lean_answer::LeanForm;
use crate::op::declare::operation::Operation;
use crate::op::declare::table::Table;
use crate::op::show::tool_text;
use crate::page::{AnswerBounds, json_bytes};

/// Returns the tools that a token with the capabilities `held` can call, sorted by name.
pub fn tools(table: &Table, held: Capabilities) -> impl Iterator<Item = &Arc<Operation>> {
    table.shared_operations().filter(move |operation| {
        !operation.http().rest_only && operation.access().needs.is_satisfied_by(held)
    })
}

/// Returns the description of a tool for `tools/list`.
pub fn tool(operation: &Operation) -> Value {
    let (description, input) =
        tool_text::describe_input(operation.docs(), operation.annotated_input_schema());
    let mut output = operation.output_schema();
    if operation.is_detailed() {
        LeanForm::make_members_optional(&mut output);
    }
    tool_text::reduce_output_schema(&mut output);
    let run = &operation.run;
    let mut tool = json!({
        "name": operation.name(),
        "title": operation.docs().title,
        "description": description,
        "inputSchema": input,
        "outputSchema": output,
        "annotations": {
            "readOnlyHint": operation.effect().is_read_only(),
            "destructiveHint": operation.effect() == Effect::Destructive && !run.reversible,
            "idempotentHint": !matches!(operation.effect(), Effect::Write | Effect::Destructive),
            "openWorldHint": run.reaches_out,
        },
    });
    if let (true, Some(members)) = (operation.accepts_idempotency_keys(), tool.as_object_mut()) {
        let key = json!({"type": "string", "pattern": IdempotencyKey::PATTERN});
        members.insert("_meta".to_owned(), json!({IDEMPOTENCY_KEY: key}));
    }
    tool
}

/// Name of the metadata member that contains the idempotency key of a call. In the metadata of a tool that
/// accepts keys, it contains the schema of the key.
pub const IDEMPOTENCY_KEY: &str = "svc/idempotency_key";

/// Name of the metadata member that marks a result as the answer to a repeated call.
pub const IDEMPOTENCY_REPLAYED: &str = "svc/idempotency_replayed";

/// The form in which a failure is reported over JSON-RPC.
#[derive(Debug, PartialEq, Eq)]
pub enum ErrorForm {
    /// A JSON-RPC error with this number. The data of the error is the problem document.
    Error(i32),
    /// A tool result with `isError`. A model reads the text of the result in order to correct its call.
    ///
    /// The metadata of the result contains the problem document, because structured content must match the
    /// tool's output schema or be absent.
    Result,
}

/// Name of the metadata member that contains the problem document of an error result.
pub const PROBLEM: &str = "svc/problem";

/// The JSON-RPC error code for a footprint conflict.
const FOOTPRINT_CONFLICT: i32 = -32_009;

/// Returns the form in which a failure with this code is reported.
///
/// The service's own numbers are HTTP statuses. They are outside of the range that JSON-RPC and MCP reserve,
/// because clients use some numbers of that range for their own timeouts. The number of a footprint conflict
/// is agreed with clients, and is in the part of that range that servers may define.
pub fn error_form(code: Code) -> ErrorForm {
    match code {
        Code::FootprintConflict => ErrorForm::Error(FOOTPRINT_CONFLICT),
        Code::Unauthenticated | Code::RateLimited => ErrorForm::Error(code.status().into()),
        _ => ErrorForm::Result,
    }
}

/// Returns the problem document of an error, with the error's members cut to the maximum bytes of answers.
pub fn problem(error: &Error) -> Problem {
    let mut problem = error.problem();
    let named = std::mem::take(&mut problem.extra);
    // The message of the failure repeats the text of the problem.
    let words = json_bytes(&problem).unwrap_or_default().saturating_mul(2);
    let asked = error.max_bytes.and_then(|most| usize::try_from(most.get()).ok());
    let max_bytes = asked.unwrap_or(ANSWER_MCP_BYTES).saturating_sub(words);
    problem.extra = cut_members(&named, AnswerBounds { max_bytes, offset: 0 }).unwrap_or(named);
    problem
}

/// Returns the members cut to the maximum bytes, or `None` if they fit uncut.
fn cut_members(named: &Map<String, Value>, bounds: AnswerBounds) -> Option<Map<String, Value>> {
    let full = serde_json::to_vec(named).ok()?;
    if full.len() <= bounds.max_bytes {
        return None;
    }
    serde_json::from_slice(&AnswerShape::without_schema().cut_to_fit(&full, bounds).ok()?).ok()
}

/// Returns the text of an error for a model: what was rejected, the reason, and the next step.
pub fn refusal_text(tool: &str, error: &Error) -> String {
    let code = error.code();
    let mut problem = problem(error);
    let mut text = format!("{tool} was refused: {} ({}).", code.title(), code.name());
    match problem.extra.remove(ERRORS) {
        Some(Value::Array(faults)) if faults.len() > 1 => {
            faults.iter().for_each(|fault| text.push_str(&fault_line(fault)));
        }
        _ => {
            text = format!("{text} {}", error.detail());
            if !text.ends_with('.') {
                text.push('.');
            }
        }
    }
    text = format!("{text}\n{}", error.next_step());
    if !problem.extra.is_empty() {
        text = format!("{text}\n{}", Value::Object(problem.extra));
    }
    text
}

/// Formats one fault of an input as a line of text.
fn fault_line(fault: &Value) -> String {
    let member = |name: &str| fault.get(name).and_then(Value::as_str).unwrap_or_default();
    format!("\n- `{}`: {}", member("field"), member("detail"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_why_and_what_to_do() {
        let error = Error::new(Code::CloseRefused, "a child is open").with("reasons", ["child"]);
        let text = refusal_text("transition_thread", &error);
        for said in ["transition_thread was refused", "close-refused", "a child is open.", "[\"child\"]"] {
            assert!(text.contains(said), "{text}");
        }
        assert!(text.contains(Code::CloseRefused.next()), "{text}");
        let error = error.with_next("Do something else.");
        let text = refusal_text("transition_thread", &error);
        assert!(text.contains("Do something else.") && !text.contains(Code::CloseRefused.next()), "{text}");
        let faults = json!([{"field": "a", "detail": "missing"}, {"field": "b", "detail": "text, not 5"}]);
        let text = refusal_text("create_thread", &Error::malformed("a and b").with(ERRORS, faults));
        assert!(text.contains(".\n- `a`: missing\n- `b`: text, not 5\nCorrect"), "{text}");
    }

    #[test]
    fn our_own_codes_are_outside_of_the_reserved_range() {
        for code in Code::ALL {
            if let ErrorForm::Error(number) = error_form(*code) {
                let is_reserved = (-32_768..=-32_000).contains(&number);
                assert_eq!(is_reserved, *code == Code::FootprintConflict, "{code:?}");
            }
        }
        assert_eq!(error_form(Code::FootprintConflict), ErrorForm::Error(-32_009));
        for code in
            [Code::Malformed, Code::NotFound, Code::MissingCapability, Code::Forbidden, Code::StaleClaim]
        {
            assert_eq!(error_form(code), ErrorForm::Result, "{code:?}");
        }
    }
}
