//! Machine-readable contracts: the table as JSON arrays, for external tools and tests.

use serde_json::{Value, json};

use crate::capability::{Capability, CapabilitySet};
use crate::log::event::EventKind;
use crate::op::declare::operation::Operation;
use crate::op::declare::table::Table;

/// Returns every operation, sorted by name.
pub fn operations(table: &Table) -> Value {
    table.operations().map(described).collect()
}

fn described(operation: &Operation) -> Value {
    let (http, docs) = (operation.http(), operation.docs());
    json!({
        "name": operation.name(),
        "title": docs.title,
        "method": http.method.name(),
        "path": http.path,
        "aliases": http.aliases,
        "capability": operation.access().needs.expression(),
        "personal": operation.access().personal,
        "effect": operation.effect().name(),
        "surface": if http.rest_only { "rest" } else { "both" },
        "area": docs.area,
    })
}

/// Returns every kind of event, sorted by name, with the schema of its payload's own fields.
pub fn events(table: &Table) -> Value {
    let event =
        |kind: &EventKind| json!({"kind": kind.kind, "type": kind.type_name(), "payload": kind.schema()});
    table.events().map(event).collect()
}

/// Returns every capability, with the named sets that it is in.
pub fn capabilities() -> Value {
    let capability = |capability: &Capability| {
        let sets = CapabilitySet::ALL.iter().filter(|set| set.capabilities().has(*capability));
        json!({"name": capability.name(), "grants": capability.grants(), "sets": sets.collect::<Vec<_>>()})
    };
    Capability::ALL.iter().map(capability).collect()
}
