//! Finding rows whose workspace does not exist. Such rows cannot be compared with any log.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::OnDifference;
use super::compare::RowKey;
use super::report::{Difference, DifferenceKind, StateReport};
use crate::error::Result;
use crate::id::WorkspaceId;
use crate::op::Records;
use crate::store::{Conn, interned};

/// Maximum number of rows reported per table.
const REPORTED_MAX: i64 = 10_000;

/// Reports the rows whose workspace does not exist, and returns one report per missing workspace.
pub(super) fn report_stray_rows(
    conn: &Conn,
    declared: &[Records],
    report: OnDifference<'_>,
) -> Result<Vec<StateReport>> {
    let mut reports: BTreeMap<WorkspaceId, StateReport> = BTreeMap::new();
    for records in declared.iter().filter(|records| records.is_proven()) {
        let Some(column) = records.workspace_column() else { continue };
        for difference in find_stray_rows(conn, records, column)? {
            let workspace = difference.workspace_id;
            report(difference)?;
            let of_owner = reports.entry(workspace).or_insert_with(|| StateReport::without_log(workspace));
            of_owner.count_different(records.table);
        }
    }
    Ok(reports.into_values().collect())
}

/// Returns a difference for each row of a table whose workspace does not exist, up to [`REPORTED_MAX`].
fn find_stray_rows(conn: &Conn, records: &Records, column: &str) -> Result<Vec<Difference>> {
    let table = records.table;
    let key: Vec<String> = records.proof_key().map(|name| format!("t.{name}")).collect();
    let sql = interned(format!(
        "select {}, t.{column} from {table} t
         where not exists (select 1 from workspaces w where w.id = t.{column}) limit $1",
        key.join(", ")
    ));
    let owner = key.len();
    let key = RowKey::of_table(records);
    let mut found = Vec::new();
    let mut outcome = Ok(());
    conn.visit(sql, &[&REPORTED_MAX], &mut |row| {
        let workspace = row.id(owner).flatten().map_or(WorkspaceId::INSTANCE, Into::into);
        let read = key.read(table, row).map(|values| key.name_values(&values));
        outcome =
            read.map(|row| found.push(Difference::of_row(workspace, table, row, DifferenceKind::NotInLog)));
        if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    outcome.map(|()| found)
}
