//! The result of comparing tables with logs.

use std::cell::Cell;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::Report;
use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::log::replay::Rebuilt;
use crate::op::Class;

/// A column whose value differs from the log, or a missing or superfluous row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// The table.
    pub table: String,
    /// The columns that identify the row, with their values.
    pub row: Map<String, Value>,
    /// The column that differs; null if the whole row does.
    pub column: Option<String>,
    /// The kind of difference.
    pub kind: DifferenceKind,
    /// How the content of the column is compared. Absent for other columns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<Compared>,
    /// The value in the log. Absent for a whole row, for sealed content and for a hash.
    ///
    /// A time is `{"at_most": TIME}` if the log only limits it.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "present")]
    pub log: Option<Value>,
    /// The value in the table. Absent where `log` is, and for a value of another type.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "present")]
    pub stored: Option<Value>,
    /// The position of the last event that has determined it; null if there is none.
    pub lsn: Option<i64>,
}

impl Difference {
    /// Returns the difference of a whole row.
    pub(super) fn of(
        workspace_id: WorkspaceId,
        table: &str,
        row: Map<String, Value>,
        kind: DifferenceKind,
    ) -> Self {
        let column = None;
        let compared = None;
        let log = None;
        let stored = None;
        let lsn = None;
        let table = table.to_owned();
        Self { workspace_id, table, row, column, kind, compared, log, stored, lsn }
    }
}

/// How a table differs from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// The column has another value than the log.
    OtherValue,
    /// The column has a value of another type than its own.
    OtherType,
    /// The table lacks a row that the log determines.
    Missing,
    /// The table has a row that no event created.
    NotInLog,
    /// The table has a row that an event has removed.
    Removed,
}

/// Deserializes a present value, which may be null.
fn present<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// How content is compared, which is never shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compared {
    /// By its length, in characters.
    Length,
    /// By its presence.
    Presence,
    /// By its SHA-256.
    Hash,
}

impl Compared {
    pub(super) fn of(class: Class) -> Self {
        match class {
            Class::Int => Self::Length,
            Class::Bool => Self::Presence,
            _ => Self::Hash,
        }
    }
}

/// The numbers of rows of a table by the result of the comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TableCounts {
    /// Rows with all compared columns equal to the log.
    pub proven: u64,
    /// Rows with a column that cannot be compared, because its event was pruned or has a version without it.
    pub unproven: u64,
    /// Rows that differ, including missing ones.
    pub different: u64,
    /// Rows of a table that events do not determine.
    pub not_covered: u64,
}

/// The result of comparing the tables of a workspace with its log.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StateReport {
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// Whether no row differs.
    pub valid: bool,
    /// The position of the log at which the tables were read.
    pub lsn: i64,
    /// The position of the oldest event that the log keeps.
    pub floor: i64,
    /// The position up to which a purge in progress destroys content, which is unproven until it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purging_up_to: Option<i64>,
    /// The counts of each table that has rows.
    pub tables: BTreeMap<&'static str, TableCounts>,
}

impl StateReport {
    /// Returns the report of a workspace whose log was not replayed, without counts.
    pub(super) fn without_log(workspace_id: WorkspaceId) -> Self {
        let lsn = 0;
        let floor = 0;
        let purging_up_to = None;
        let tables = BTreeMap::new();
        Self { workspace_id, valid: false, lsn, floor, purging_up_to, tables }
    }

    /// Counts a row of a table that differs.
    pub(super) fn count_different(&mut self, table: &'static str) {
        let counts = self.tables.entry(table).or_default();
        counts.different = counts.different.saturating_add(1);
    }
}

/// Differences that are kept until their snapshot has ended.
pub(super) struct Differences<'d> {
    rebuilt: &'d Rebuilt,
    count: Cell<u64>,
}

/// The name under which they are kept beside the rows.
const DIFFERENCES: &str = "differences";

impl<'d> Differences<'d> {
    pub fn new(rebuilt: &'d Rebuilt) -> Self {
        Self { rebuilt, count: Cell::new(0) }
    }

    pub fn keep(&self, difference: &Difference) -> Result<()> {
        let bytes = serde_json::to_vec(difference).map_err(Error::internal)?;
        self.rebuilt.keep_beside(DIFFERENCES, self.count.get(), &bytes)?;
        self.count.set(self.count.get().saturating_add(1));
        Ok(())
    }

    /// Reports all, in the order in which they were found.
    pub fn report(&self, report: Report<'_>) -> Result<()> {
        for number in 0..self.count.get() {
            if let Some(bytes) = self.rebuilt.take_beside(DIFFERENCES, number)? {
                report(serde_json::from_slice(&bytes).map_err(Error::internal)?)?;
            }
        }
        Ok(())
    }
}
