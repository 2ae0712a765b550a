//! The list of tools, built once from the operation table: schemas are expensive to build and never change.

use std::sync::Arc;

use rmcp::model::Tool;
use serde_json::Value;
use svc_core::capability::Capabilities;
use svc_core::op::{Effect, Operation, Table, mcp};
use svc_core::{Error, Result};

use crate::principal::Principal;

/// Number of tools on a page.
const PAGE_SIZE: usize = 250;

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

/// All tools, sorted by name.
#[derive(Debug)]
pub(crate) struct Catalogue {
    entries: Vec<Arc<Entry>>,
}

/// A page of tools, with the cursor of the next one.
#[derive(Debug)]
pub(crate) struct Page {
    pub tools: Vec<Tool>,
    pub next_cursor: Option<String>,
}

impl Catalogue {
    /// Builds the tools of all operations of `table` that are tools.
    pub fn of(table: &Table) -> Result<Self> {
        let entry = |operation: &Arc<Operation>| -> Result<Arc<Entry>> {
            Ok(Arc::new(Entry { tool: parsed(mcp::tool(operation))?, operation: Arc::clone(operation) }))
        };
        Ok(Self { entries: mcp::tools(table, Capabilities::all()).map(entry).collect::<Result<_>>()? })
    }

    /// Returns the tool called `name`.
    pub fn entry(&self, name: &str) -> Option<&Arc<Entry>> {
        let index = self.entries.binary_search_by(|entry| entry.tool.name.as_ref().cmp(name)).ok()?;
        self.entries.get(index)
    }

    /// Returns the tools that `principal`, with `held`, can call, starting after the one that `cursor` names.
    ///
    /// Returns none if the cursor is not the name of a tool.
    pub fn page(&self, principal: &Principal, held: Capabilities, cursor: Option<&str>) -> Option<Page> {
        if let Some(cursor) = cursor {
            self.entry(cursor)?;
        }
        let callable = |entry: &&Arc<Entry>| {
            let Entry { operation, .. } = &***entry;
            let is_open = !principal.is_anonymous() || operation.is_open_to_anonymous();
            is_open && operation.access().needs.satisfied_by(held)
        };
        let later = |entry: &&Arc<Entry>| cursor.is_none_or(|cursor| entry.tool.name.as_ref() > cursor);
        let mut rest = self.entries.iter().filter(later).filter(callable).map(|entry| entry.tool.clone());
        let tools: Vec<Tool> = rest.by_ref().take(PAGE_SIZE).collect();
        let next_cursor = rest.next().and(tools.last()).map(|tool| tool.name.to_string());
        Some(Page { tools, next_cursor })
    }
}

fn parsed(tool: Value) -> Result<Tool> {
    serde_json::from_value(tool).map_err(Error::internal)
}
