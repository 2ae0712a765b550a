//! The result of comparing tables with a log.

use std::cell::Cell;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::OnDifference;
use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::log::replay::RebuiltRows;
use crate::op::Class;

/// A difference between a table and the log: another value, a missing row, or an unexpected row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// The workspace whose log determines the row.
    pub workspace_id: WorkspaceId,
    /// The table that contains the row.
    pub table: String,
    /// The columns that identify the row, with their values.
    pub row: Map<String, Value>,
    /// The column that differs; null if the whole row is missing or should not exist.
    pub column: Option<String>,
    /// The kind of difference.
    pub kind: DifferenceKind,
    /// Method by which the content of the column was compared. Absent for a column that is not content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compared: Option<Compared>,
    /// The value that the log determines. Absent for a whole row, for sealed content and for a hash.
    ///
    /// A time is `{"at_most": TIME}` if the log contains only an upper bound for the time.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "present")]
    pub log: Option<Value>,
    /// The value in the table. Absent where `log` is absent, and for a value whose type is not that of the
    /// column.
    #[serde(skip_serializing_if = "Option::is_none", default, deserialize_with = "present")]
    pub stored: Option<Value>,
    /// The position of the last event that determined the value or the row; null if no event did.
    pub lsn: Option<i64>,
}

impl Difference {
    /// Creates a difference that concerns a whole row.
    pub(super) fn of_row(
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

/// Kind of difference between a table and the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// The column's value differs from the value in the log.
    OtherValue,
    /// The value in the column does not have the type of the column.
    OtherType,
    /// The log determines a row that the table lacks.
    Missing,
    /// The table contains a row that no event created.
    NotInLog,
    /// The table contains a row that an event removed.
    Removed,
}

/// Deserializes a field that is present, possibly as null, into `Some`.
fn present<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// Method for comparing content without showing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Compared {
    /// Compares the number of characters.
    Length,
    /// Compares whether a value is present.
    Presence,
    /// Compares the SHA-256 of the text.
    Hash,
}

impl Compared {
    /// Returns the method for content that events report as a value of this class.
    pub(super) fn for_class(class: Class) -> Self {
        match class {
            Class::Int => Self::Length,
            Class::Bool => Self::Presence,
            _ => Self::Hash,
        }
    }
}

/// Numbers of a table's rows, by the result of the comparison with the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TableCounts {
    /// Rows whose compared columns all equal the log.
    pub proven: u64,
    /// Rows with a column that cannot be compared, because its event was pruned or is of a version without
    /// that field.
    pub unproven: u64,
    /// Rows that differ from the log, including missing rows.
    pub different: u64,
    /// Rows that are not compared, because events do not determine the table.
    pub not_covered: u64,
}

/// The result of comparing the tables of a workspace with its log.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StateReport {
    /// The workspace that was compared.
    pub workspace_id: WorkspaceId,
    /// Whether all rows that can be compared agree with the log.
    pub valid: bool,
    /// The position of the log at which the tables were read.
    pub lsn: i64,
    /// The position of the oldest remaining event of the log.
    pub floor: i64,
    /// The position up to which a purge in progress destroys content. That content counts as unproven until
    /// the purge ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purging_up_to: Option<i64>,
    /// The counts of each table that contains rows.
    pub tables: BTreeMap<&'static str, TableCounts>,
}

impl StateReport {
    /// Creates a report without counts, for a workspace whose log was not replayed.
    pub(super) fn without_log(workspace_id: WorkspaceId) -> Self {
        let lsn = 0;
        let floor = 0;
        let purging_up_to = None;
        let tables = BTreeMap::new();
        Self { workspace_id, valid: false, lsn, floor, purging_up_to, tables }
    }

    /// Counts one row of a table as different.
    pub(super) fn count_different(&mut self, table: &'static str) {
        let counts = self.tables.entry(table).or_default();
        counts.different = counts.different.saturating_add(1);
    }
}

/// Differences, which are stored until the snapshot has ended.
pub(super) struct Differences<'d> {
    rebuilt: &'d RebuiltRows,
    count: Cell<u64>,
}

/// The name under which the differences are stored beside the rebuilt rows.
const DIFFERENCES: &str = "differences";

impl<'d> Differences<'d> {
    pub fn new(rebuilt: &'d RebuiltRows) -> Self {
        Self { rebuilt, count: Cell::new(0) }
    }

    pub fn store(&self, difference: &Difference) -> Result<()> {
        let bytes = serde_json::to_vec(difference).map_err(Error::internal)?;
        self.rebuilt.put_extra(DIFFERENCES, self.count.get(), &bytes)?;
        self.count.set(self.count.get().saturating_add(1));
        Ok(())
    }

    /// Reports all stored differences, in the order in which they were found.
    pub fn report(&self, report: OnDifference<'_>) -> Result<()> {
        for number in 0..self.count.get() {
            if let Some(bytes) = self.rebuilt.take_extra(DIFFERENCES, number)? {
                report(serde_json::from_slice(&bytes).map_err(Error::internal)?)?;
            }
        }
        Ok(())
    }
}
