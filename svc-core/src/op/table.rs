//! The table: every operation and every kind of event, from an explicit list of features. Building it checks
//! what a compiler cannot; a table that builds is one that the shells can serve.

use std::collections::BTreeMap;

use super::context::{Read, Write};
use super::row::Operation;
use crate::Result;
use crate::error::Error;
use crate::log::event::{EventKind, Recorded};

/// What a feature adds to the service.
#[derive(Default)]
pub struct Feature {
    operations: Vec<Operation>,
    events: Vec<EventKind>,
}

impl Feature {
    /// A feature without anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds rows of the part `area` of the service.
    #[must_use]
    pub fn operations(mut self, area: &'static str, rows: Vec<Operation>) -> Self {
        self.operations.extend(rows.into_iter().map(|row| row.in_area(area)));
        self
    }

    /// Adds kinds of events.
    #[must_use]
    pub fn events(mut self, kinds: Vec<EventKind>) -> Self {
        self.events.extend(kinds);
        self
    }
}

/// Runs inside the transaction of every change, before its function; refuses by answering an error.
pub type Guard = fn(&Read<'_>, &Operation) -> Result<()>;

/// Runs inside the transaction of every change, after its function, over the events that were emitted.
pub type Projector = fn(&mut Write<'_>, &[Recorded]) -> Result<()>;

/// What higher features have asked to hear from lower ones, in order.
#[derive(Default)]
pub struct Hooks {
    /// Before a change.
    pub guards: Vec<Guard>,
    /// After a change.
    pub projectors: Vec<Projector>,
}

/// All operations, sorted by name, and all kinds of events.
pub struct Table {
    rows: BTreeMap<&'static str, Operation>,
    events: BTreeMap<&'static str, EventKind>,
}

impl Table {
    /// Builds the table, or names the defect.
    pub fn build(features: Vec<Feature>) -> Result<Self> {
        let mut table = Self { rows: BTreeMap::new(), events: BTreeMap::new() };
        for feature in features {
            for row in feature.operations {
                check(&row)?;
                let name = row.name;
                if table.rows.insert(name, row).is_some() {
                    return Err(Error::internal(format!("two operations are called {name}")));
                }
            }
            for event in feature.events {
                let kind = event.kind;
                if table.events.insert(kind, event).is_some() {
                    return Err(Error::internal(format!("two kinds of events are called {kind}")));
                }
            }
        }
        Ok(table)
    }

    /// Every operation, by name.
    pub fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.rows.values()
    }

    /// The operation called `name`.
    pub fn operation(&self, name: &str) -> Option<&Operation> {
        self.rows.get(name)
    }

    /// Every kind of event, by name.
    pub fn events(&self) -> impl Iterator<Item = &EventKind> {
        self.events.values()
    }
}

/// What must be true of every row.
fn check(row: &Operation) -> Result<()> {
    let defect = |what: &str| Err(Error::internal(format!("the operation {}: {what}", row.name)));
    if row.title.is_empty() || row.area.is_empty() || !row.path.starts_with('/') {
        return defect("has no title, area or path");
    }
    let schema = row.input_schema();
    if schema.get("type") != Some(&"object".into())
        || schema.get("additionalProperties") != Some(&false.into())
    {
        return defect("takes an input that is not one flat, closed object (deny_unknown_fields)");
    }
    if schema.get("description").is_none() {
        return defect("takes an input without a doc comment");
    }
    for path in row.paths() {
        for variable in path_variables(path) {
            if schema.pointer(&format!("/properties/{variable}")).is_none() {
                return defect(&format!("has the path variable {variable}, which is no field of its input"));
            }
        }
    }
    Ok(())
}

/// The names in braces.
pub(crate) fn path_variables(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
}
