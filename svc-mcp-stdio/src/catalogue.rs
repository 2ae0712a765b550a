//! The tools as they are shown, made once from the operation table: schemas are costly to make and never change.

use std::sync::Arc;

use rmcp::model::Tool;
use serde_json::Value;
use svc_core::capability::Capabilities;
use svc_core::op::{Effect, Operation, Table, mcp};
use svc_core::{Error, Result};

/// Tools on a page.
const PAGE: usize = 250;

/// One tool.
#[derive(Debug)]
pub(crate) struct Entry {
    pub tool: Tool,
    pub operation: Arc<Operation>,
}

impl Entry {
    /// Whether a call may be parked.
    pub fn waits(&self) -> bool {
        self.operation.effect() == Effect::Wait
    }

    /// Whether a call may change something.
    pub fn changes(&self) -> bool {
        !self.operation.effect().changes_nothing()
    }
}

/// Every tool, by name.
#[derive(Debug)]
pub(crate) struct Catalogue {
    entries: Vec<Entry>,
}

/// A page of tools, and where the next one begins.
#[derive(Debug)]
pub(crate) struct Page {
    pub tools: Vec<Tool>,
    pub next_cursor: Option<String>,
}

impl Catalogue {
    /// Shows every operation of `table` that is a tool.
    pub fn of(table: &Table) -> Result<Self> {
        let entry = |operation: &Arc<Operation>| -> Result<Entry> {
            Ok(Entry { tool: shown(mcp::tool(operation))?, operation: Arc::clone(operation) })
        };
        Ok(Self { entries: mcp::tools(table, Capabilities::all()).map(entry).collect::<Result<_>>()? })
    }

    /// The tool called `name`.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        let at = self.entries.binary_search_by(|entry| entry.tool.name.as_ref().cmp(name)).ok()?;
        self.entries.get(at)
    }

    /// The tools that a credential with `held` can call, after the one that `cursor` names. None if the cursor is
    /// none of ours.
    pub fn page(&self, held: Capabilities, cursor: Option<&str>) -> Option<Page> {
        if let Some(cursor) = cursor {
            self.entry(cursor)?;
        }
        let callable = |entry: &&Entry| entry.operation.needed().satisfied_by(held);
        let later = |entry: &&Entry| cursor.is_none_or(|cursor| entry.tool.name.as_ref() > cursor);
        let mut rest = self.entries.iter().filter(later).filter(callable).map(|entry| entry.tool.clone());
        let tools: Vec<Tool> = rest.by_ref().take(PAGE).collect();
        let next_cursor = rest.next().and(tools.last()).map(|tool| tool.name.to_string());
        Some(Page { tools, next_cursor })
    }
}

fn shown(tool: Value) -> Result<Tool> {
    serde_json::from_value(tool).map_err(Error::internal)
}
