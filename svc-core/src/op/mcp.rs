//! The table as MCP tools, and how an outcome is told over JSON-RPC. Framing, sessions and revisions are the
//! shells' business.

use serde_json::{Value, json};

use super::row::{Effect, Operation};
use super::table::Table;
use crate::capability::Capabilities;
use crate::error::{Code, Error};

/// The tools that a token with `held` can call, by name.
pub fn tools(table: &Table, held: Capabilities) -> impl Iterator<Item = &Operation> {
    table.operations().filter(move |row| !row.is_rest_only() && row.needed().satisfied_by(held))
}

/// A tool as `tools/list` shows it.
pub fn tool(row: &Operation) -> Value {
    let mut input = row.input_schema();
    let description = input.as_object_mut().and_then(|schema| {
        schema.remove("title");
        schema.remove("description")
    });
    let mut output = row.output_schema();
    if let Some(schema) = output.as_object_mut() {
        schema.remove("title");
    }
    json!({
        "name": row.name(),
        "title": row.title_text(),
        "description": description,
        "inputSchema": input,
        "outputSchema": output,
        "annotations": {
            "title": row.title_text(),
            "readOnlyHint": row.effect().changes_nothing(),
            "destructiveHint": row.effect() == Effect::Destructive,
            "idempotentHint": !matches!(row.effect(), Effect::Write | Effect::Destructive),
            "openWorldHint": false,
        },
    })
}

/// How a failure is told.
#[derive(Debug)]
pub enum Told {
    /// As a JSON-RPC error with this code; its data is the problem.
    Error(i32),
    /// As a tool result with `isError`; its structured content is the problem.
    Result,
}

/// The JSON-RPC code of a refused credential.
pub const REFUSED_CREDENTIAL: i32 = -32_001;
/// The JSON-RPC code of an object that is not there.
pub const NOT_FOUND: i32 = -32_004;
/// The JSON-RPC code of unreadable arguments.
pub const INVALID_PARAMS: i32 = -32_602;

/// Decides how `error` is told.
pub fn told(error: &Error) -> Told {
    match error.code() {
        Code::Malformed => Told::Error(INVALID_PARAMS),
        Code::NotFound => Told::Error(NOT_FOUND),
        Code::Unauthenticated | Code::MissingCapability => Told::Error(REFUSED_CREDENTIAL),
        _ => Told::Result,
    }
}
