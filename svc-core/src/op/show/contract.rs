//! Machine-readable contracts: the table as JSON arrays, for external tools and tests.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::capability::{Capability, CapabilitySet};
use crate::log::event::EventKind;
use crate::op::declare::operation::Operation;
use crate::op::declare::records::Records;
use crate::op::declare::table::Table;

/// Returns the contracts of all operations, sorted by name.
pub fn operations(table: &Table) -> Value {
    table.operations().map(operation_contract).collect()
}

fn operation_contract(operation: &Operation) -> Value {
    let http = operation.http();
    let docs = operation.docs();
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

/// Returns all kinds of events, sorted by name, each with the schema of its specific fields.
pub fn events(table: &Table) -> Value {
    let event =
        |kind: &EventKind| json!({"kind": kind.kind, "type": kind.type_name(), "payload": kind.schema()});
    table.events().map(event).collect()
}

/// Returns all tables with rows of workspaces, sorted by name.
///
/// Each entry lists the columns by which events identify a row, the columns that events determine, and all
/// other columns with the reason why events do not determine them.
pub fn tables(table: &Table) -> Value {
    let described = |records: &&Records| {
        let key: Vec<&str> = records.proof_key().collect();
        let proven = records.proven_columns().into_keys().filter(|name| !key.contains(name));
        let unproven: BTreeMap<&str, &str> = records.unproven_columns().collect();
        json!({
            "table": records.name(),
            "key": key,
            "proven": proven.collect::<Vec<_>>(),
            "unproven": unproven,
        })
    };
    let mut tables: Vec<&Records> =
        table.records().iter().filter(|records| records.has_workspace_rows()).collect();
    tables.sort_by_key(|records| records.name());
    tables.iter().map(described).collect()
}

/// Returns all capabilities, each with the named sets that contain it.
pub fn capabilities() -> Value {
    let capability = |capability: &Capability| {
        let sets = CapabilitySet::ALL.iter().filter(|set| set.capabilities().has(*capability));
        json!({"name": capability.name(), "grants": capability.grants(), "sets": sets.collect::<Vec<_>>()})
    };
    Capability::ALL.iter().map(capability).collect()
}
