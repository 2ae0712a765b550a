//! Comparing the rows of tables with the values that the log determines.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde_json::{Map, Value};

use super::report::{Compared, Difference, DifferenceKind, StateReport, TableCounts};
use super::{Head, OnDifference};
use crate::capability::Capabilities;
use crate::error::{Error, Result};
use crate::hash::{format_hash, sha256};
use crate::id::WorkspaceId;
use crate::log::replay::{RebuiltRow, RebuiltRows, matches_stored};
use crate::op::{Class, Records};
use crate::portability::push_column_json;
use crate::retention::purge;
use crate::store::{Columns, Conn, FromValue as _, Param, Scan, Value as StoredValue, interned};

/// Names of the tables that store the log itself. These tables are verified with the log.
const LOG_TABLES: [&str; 2] = ["events", "heads"];

/// Name of the table of messages, which retention prunes up to a position.
const MESSAGES_TABLE: &str = "messages";

/// Name of the column with the position of the event that created the row.
const LSN_COLUMN: &str = "lsn";

/// Name of the column that counts the versions of a piece of content. A purge increments the version.
const VERSION_COLUMN: &str = "version";

/// Name of the column that contains a set of capabilities, one bit for each capability.
const CAPABILITIES_COLUMN: &str = "capabilities";

/// Compares all tables of a workspace with the values that its log determines.
pub(super) fn compare_tables(
    conn: &Conn,
    declared: &[Records],
    rebuilt: &RebuiltRows,
    workspace: WorkspaceId,
    head: Head,
    report: OnDifference<'_>,
) -> Result<StateReport> {
    let purging_up_to = conn.query(purge::SELECT_PURGE_IN_PROGRESS, &[&workspace])?.into_iter().next();
    let purging_up_to: Option<i64> = purging_up_to.map(|mut row| row.take()).transpose()?;
    let mut tables = BTreeMap::new();
    for records in declared.iter().filter(|records| records.has_workspace_rows()) {
        if LOG_TABLES.contains(&records.table) {
            continue;
        }
        let counts = if records.is_proven() {
            let mut table = TableComparison::new(records, rebuilt, (workspace, head, purging_up_to), report);
            table.compare_rows(conn)?;
            table.counts
        } else {
            count_uncovered_rows(conn, records, workspace)?
        };
        if counts != TableCounts::default() {
            tables.insert(records.table, counts);
        }
    }
    let valid = tables.values().all(|counts: &TableCounts| counts.different == 0);
    let Head { lsn, floor, .. } = head;
    Ok(StateReport { workspace_id: workspace, valid, lsn, floor, purging_up_to, tables })
}

/// Counts the rows of a table that events do not determine.
fn count_uncovered_rows(conn: &Conn, records: &Records, workspace: WorkspaceId) -> Result<TableCounts> {
    let sql = interned(format!("select count(*) from {} t where {}", records.table, records.condition()));
    let counted = conn.query(sql, &[&workspace])?.into_iter().next();
    let rows: i64 = counted.map_or(Ok(0), |mut row| row.take())?;
    Ok(TableCounts { not_covered: u64::try_from(rows).unwrap_or(0), ..TableCounts::default() })
}

/// Returns the scan of a table's rows in the workspace `$1`: first the columns of the key, then all compared
/// columns by name.
fn comparison_scan(records: &Records) -> Scan {
    let key = records.proof_key().map(|name| format!("t.{name}"));
    let read = |(name, (_, read)): (&&str, &(Class, &'static str))| {
        if name == read { format!("t.{read}") } else { (*read).to_owned() }
    };
    let columns: Vec<String> = key.chain(records.proof.proven.iter().map(read)).collect();
    let sql = format!("select {} from {} t where {}", columns.join(", "), records.table, records.condition());
    Scan::new(records.table, &sql, &sql)
}

/// A column that is compared with the log, or is part of the key.
struct Column {
    name: &'static str,
    class: Class,
    /// The column's index in the scan.
    index: usize,
    /// Method for comparing content without showing it; `None` for a column that is not content.
    comparison: Option<Compared>,
}

/// The columns by which events identify a row. A scan selects these columns first.
pub(super) struct RowKey(Vec<Column>);

impl RowKey {
    /// Creates the key of the rows of a table.
    pub fn of_table(records: &Records) -> Self {
        let class = |name| records.proof.proven.get(name).map_or(Class::Derived, |(class, _)| *class);
        let column = |(index, name)| Column { name, class: class(name), index, comparison: None };
        Self(records.proof_key().enumerate().map(column).collect())
    }

    fn has_column(&self, name: &str) -> bool {
        self.0.iter().any(|column| column.name == name)
    }

    /// Reads the values of a row's key.
    pub fn read(&self, table: &str, row: &dyn Columns) -> Result<Vec<Value>> {
        self.0.iter().map(|column| read_cell(table, row, column)?.to_readable_value(column)).collect()
    }

    /// Returns a JSON object that maps the names of the key's columns to `values`.
    pub fn name_values(&self, values: &[Value]) -> Map<String, Value> {
        self.0.iter().map(|column| column.name.to_owned()).zip(values.iter().cloned()).collect()
    }
}

/// A table that is being compared with the log.
struct TableComparison<'t> {
    records: &'t Records,
    rebuilt: &'t RebuiltRows,
    workspace: WorkspaceId,
    head: Head,
    /// The position up to which a purge in progress destroys content.
    purging_up_to: Option<i64>,
    key: RowKey,
    columns: Vec<Column>,
    report: OnDifference<'t>,
    counts: TableCounts,
}

impl<'t> TableComparison<'t> {
    fn new(
        records: &'t Records,
        rebuilt: &'t RebuiltRows,
        (workspace, head, purging_up_to): (WorkspaceId, Head, Option<i64>),
        report: OnDifference<'t>,
    ) -> Self {
        let key = RowKey::of_table(records);
        let other = |(number, (name, (class, _))): (usize, (&&'static str, &(Class, &str)))| {
            let name = *name;
            let class = *class;
            let index = key.0.len().saturating_add(number);
            let is_content = records.columns.get(name) == Some(&Class::Words);
            let comparison = is_content.then_some(Compared::for_class(class));
            (!key.has_column(name)).then_some(Column { name, class, index, comparison })
        };
        let columns = records.proof.proven.iter().enumerate().filter_map(other).collect();
        let counts = TableCounts::default();
        Self { records, rebuilt, workspace, head, purging_up_to, key, columns, report, counts }
    }

    /// Compares the rows of the table, and reports the rows that it lacks.
    fn compare_rows(&mut self, conn: &Conn) -> Result<()> {
        let scan = comparison_scan(self.records);
        let workspace = self.workspace;
        let mut outcome = Ok(());
        conn.scan(&scan, &[&workspace], &mut |row| {
            outcome = self.compare_row(row);
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        outcome?;
        self.report_missing()
    }

    /// Compares a row with its rebuilt row, and removes the rebuilt row.
    fn compare_row(&mut self, row: &dyn Columns) -> Result<()> {
        let table = self.records.table;
        let key = self.key.read(table, row)?;
        let Some(rebuilt) = self.rebuilt.get(table, &key)? else {
            return self.count_row_not_in_log(row, &key);
        };
        self.rebuilt.forget(table, &key)?;
        if rebuilt.removed {
            return self.report_row(&key, DifferenceKind::Removed, Some(rebuilt.lsn));
        }
        let mut is_proven = rebuilt.created_lsn.is_some();
        let mut is_different = false;
        for column in &self.columns {
            let Some((value, lsn)) = rebuilt.columns.get(column.name) else {
                is_proven = false;
                continue;
            };
            let cell = read_cell(table, row, column)?;
            if cell.equals_log(value)? {
                continue;
            }
            let may_be_purged = column.comparison.is_some() || column.name == VERSION_COLUMN;
            if may_be_purged && self.may_be_purged_now(&key, &rebuilt) {
                is_proven = false;
                continue;
            }
            is_different = true;
            let is_shown = column.comparison != Some(Compared::Hash)
                && !matches!(column.class, Class::Sealed | Class::Secret);
            let (kind, stored) = match &cell {
                Cell::OtherType => (DifferenceKind::OtherType, None),
                Cell::Json(_) => (DifferenceKind::OtherValue, Some(cell.to_readable_value(column)?)),
            };
            let difference = Difference {
                column: Some(column.name.to_owned()),
                compared: column.comparison,
                log: is_shown.then(|| to_readable_value(column, value.clone())),
                stored: stored.filter(|_| is_shown),
                ..self.difference(&key, kind, Some(*lsn))
            };
            (self.report)(difference)?;
        }
        let counted = match (is_different, is_proven) {
            (true, _) => &mut self.counts.different,
            (false, true) => &mut self.counts.proven,
            (false, false) => &mut self.counts.unproven,
        };
        *counted = counted.saturating_add(1);
        Ok(())
    }

    /// Counts a row that no replayed event created.
    ///
    /// The row counts as unproven if the event that created it may have been pruned, or may be of an older
    /// version that lacks fields. Otherwise it counts as different.
    fn count_row_not_in_log(&mut self, row: &dyn Columns, key: &[Value]) -> Result<()> {
        let lsn = self.columns.iter().chain(&self.key.0).find(|column| column.name == LSN_COLUMN);
        // A null position is treated as a position that no event has.
        let lsn = lsn.map(|column| row.int(column.index).unwrap_or(i64::MAX));
        let before_floor = self.head.floor.saturating_sub(1);
        let unreported = self.rebuilt.unreported_up_to(self.records.table)?.max(before_floor);
        if unreported > 0 && lsn.is_none_or(|lsn| (1..=unreported).contains(&lsn)) {
            self.counts.unproven = self.counts.unproven.saturating_add(1);
            return Ok(());
        }
        self.report_row(key, DifferenceKind::NotInLog, None)
    }

    /// Reports the rows that the log determines but the table lacks.
    ///
    /// Rows that were removed without a specific event keep their rebuilt rows for now, because further rows
    /// may have been removed together with them.
    fn report_missing(&mut self) -> Result<()> {
        let mut after: Option<Vec<Value>> = None;
        while let Some((key, row)) = self.rebuilt.next(self.records.table, &[], after.as_deref())? {
            if !row.removed {
                let is_purged = self.records.proof.purge_removes_rows && self.may_be_purged_now(&key, &row);
                let is_removed = if is_purged { None } else { self.is_removed_with_owner(&key, &row)? };
                match is_removed {
                    Some(true) => {}
                    Some(false) => self.report_row(&key, DifferenceKind::Missing, Some(row.lsn))?,
                    None => self.counts.unproven = self.counts.unproven.saturating_add(1),
                }
            }
            after = Some(key);
        }
        Ok(())
    }

    /// Returns whether a row was removed without a specific event.
    ///
    /// That happens to messages when all messages up to a position are pruned, and to a row when its owner
    /// row is removed. Returns `None` if the log does not determine the owner row.
    fn is_removed_with_owner(&self, key: &[Value], row: &RebuiltRow) -> Result<Option<bool>> {
        let known = |name| self.proven_value(key, row, name);
        if self.records.table == MESSAGES_TABLE && self.head.words_floor > 0 {
            return Ok(known(LSN_COLUMN).and_then(Value::as_i64).map(|lsn| lsn <= self.head.words_floor));
        }
        for (column, table) in &self.records.proof.removed_with {
            let Some(value) = known(column) else { return Ok(None) };
            if self.rebuilt.get(table, std::slice::from_ref(value))?.is_some_and(|row| !row.removed) {
                return Ok(Some(true));
            }
        }
        Ok(Some(false))
    }

    /// Returns the value of a column or of a key column, if the log determines it.
    fn proven_value<'v>(&self, key: &'v [Value], row: &'v RebuiltRow, name: &str) -> Option<&'v Value> {
        let index = self.key.0.iter().position(|column| column.name == name);
        let of_key = index.and_then(|index| key.get(index));
        of_key.or_else(|| row.columns.get(name).map(|(value, _)| value))
    }

    /// Returns whether a purge in progress may have reached the row: a purge emits its event only at its end.
    fn may_be_purged_now(&self, key: &[Value], row: &RebuiltRow) -> bool {
        let lsn = self.proven_value(key, row, LSN_COLUMN).and_then(Value::as_i64);
        self.records.purges().is_some()
            && self.purging_up_to.zip(lsn).is_some_and(|(up_to, lsn)| lsn <= up_to)
    }

    /// Reports a difference that concerns a whole row, and counts it.
    fn report_row(&mut self, key: &[Value], kind: DifferenceKind, lsn: Option<i64>) -> Result<()> {
        self.counts.different = self.counts.different.saturating_add(1);
        let difference = self.difference(key, kind, lsn);
        (self.report)(difference)
    }

    fn difference(&self, key: &[Value], kind: DifferenceKind, lsn: Option<i64>) -> Difference {
        let row = self.key.name_values(key);
        Difference { lsn, ..Difference::of_row(self.workspace, self.records.table, row, kind) }
    }
}

/// Reads a column of a row in the form in which it is compared.
fn read_cell(table: &str, row: &dyn Columns, column: &Column) -> Result<Cell> {
    // SQLite stores values of any type in any column.
    let Ok(value) = row.column(column.index) else { return Ok(Cell::OtherType) };
    let hashed;
    let value = match (column.comparison, value) {
        (Some(Compared::Presence), Param::Null) => Param::Bool(false),
        (Some(Compared::Presence), Param::Text(_)) => Param::Bool(true),
        (Some(Compared::Length), Param::Text(text)) => {
            Param::Int(i64::try_from(text.chars().count()).map_err(Error::internal)?)
        }
        (Some(Compared::Hash), Param::Text(text)) => {
            hashed = format_hash(&sha256(text.as_bytes()));
            Param::Text(&hashed)
        }
        (None, value) | (Some(_), value @ Param::Null) => value,
        (Some(_), _) => return Ok(Cell::OtherType),
    };
    // SQLite stores booleans as numbers.
    if column.class == Class::Bool && !matches!(value, Param::Null | Param::Bool(_) | Param::Int(0 | 1)) {
        return Ok(Cell::OtherType);
    }
    let mut cell = Vec::new();
    let pushed = push_column_json(&mut cell, value, column.class, (table, column.name));
    Ok(pushed.map_or(Cell::OtherType, |()| Cell::Json(cell)))
}

/// Value of a column, in the form in which it is compared.
enum Cell {
    /// The value as JSON.
    Json(Vec<u8>),
    /// A value that does not have the type of the column, which SQLite allows.
    OtherType,
}

impl Cell {
    /// Returns whether the value equals the value `log` that the log determines.
    fn equals_log(&self, log: &Value) -> Result<bool> {
        match self {
            Self::Json(cell) => matches_stored(log, cell),
            Self::OtherType => Ok(false),
        }
    }

    fn to_readable_value(&self, column: &Column) -> Result<Value> {
        match self {
            Self::Json(cell) => serde_json::from_slice(cell)
                .map(|value| to_readable_value(column, value))
                .map_err(Error::internal),
            Self::OtherType => Ok(Value::Null),
        }
    }
}

/// Returns a value in readable form: a set of capabilities becomes a list of their names.
fn to_readable_value(column: &Column, value: Value) -> Value {
    let bits = value.as_i64().filter(|_| column.name == CAPABILITIES_COLUMN);
    match bits.map(|bits| Capabilities::from_value(StoredValue::Int(bits))) {
        Some(Ok(capabilities)) => capabilities.iter().map(|capability| capability.name()).collect(),
        _ => value,
    }
}
