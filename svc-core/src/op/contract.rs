//! Machine-readable contracts: the table as JSON arrays, for tools and tests outside.

use serde_json::{Value, json};

use super::row::Operation;
use super::table::Table;
use crate::capability::{Capability, CapabilitySet};

/// Every operation, by name.
pub fn operations(table: &Table) -> Value {
    table.operations().map(operation).collect()
}

fn operation(row: &Operation) -> Value {
    json!({
        "name": row.name(),
        "title": row.title_text(),
        "method": row.method().name(),
        "path": row.path(),
        "aliases": row.aliases(),
        "capability": row.needed().expression(),
        "effect": row.effect().name(),
        "surface": if row.is_rest_only() { "rest" } else { "both" },
        "area": row.area(),
    })
}

/// Every kind of event, by name, with the schema of its payload's own fields.
pub fn events(table: &Table) -> Value {
    let event = |kind: &crate::log::event::EventKind| json!({"kind": kind.kind, "type": kind.type_name(), "payload": kind.schema()});
    table.events().map(event).collect()
}

/// Every capability, with the named sets it is in.
pub fn capabilities() -> Value {
    let capability = |capability: &Capability| {
        let sets = CapabilitySet::ALL.iter().filter(|set| set.capabilities().has(*capability));
        json!({"name": capability.name(), "grants": capability.grants(), "sets": sets.collect::<Vec<_>>()})
    };
    Capability::ALL.iter().map(capability).collect()
}
