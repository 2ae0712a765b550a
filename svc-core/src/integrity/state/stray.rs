//! Rows that are those of no workspace, and would be compared with no log.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde_json::Map;

use super::Report;
use super::report::{Difference, DifferenceKind, StateReport, TableCounts};
use crate::error::Result;
use crate::id::WorkspaceId;
use crate::op::Records;
use crate::store::{Conn, interned};

/// Reports the rows whose workspace does not exist, and returns a report of each workspace that they name.
pub(super) fn compare(conn: &Conn, declared: &[Records], report: Report<'_>) -> Result<Vec<StateReport>> {
    let mut reports: BTreeMap<WorkspaceId, StateReport> = BTreeMap::new();
    for records in declared.iter().filter(|records| records.is_proven()) {
        let Some(column) = records.workspace_column() else { continue };
        let sql = interned(format!(
            "select t.{column} from {} t
             where not exists (select 1 from workspaces w where w.id = t.{column})",
            records.table
        ));
        let mut owners: Vec<WorkspaceId> = Vec::new();
        conn.visit(sql, &[], &mut |row| {
            owners.push(row.id(0).flatten().map_or(WorkspaceId::INSTANCE, Into::into));
            ControlFlow::Continue(())
        })?;
        for workspace_id in owners {
            let kind = DifferenceKind::NotInLog;
            report(Difference::of(workspace_id, records.table, Map::new(), kind))?;
            let tables = BTreeMap::new();
            let (lsn, floor, purging_up_to) = (0, 0, None);
            let of_owner = reports.entry(workspace_id).or_insert(StateReport {
                workspace_id,
                valid: false,
                lsn,
                floor,
                purging_up_to,
                tables,
            });
            let counts: &mut TableCounts = of_owner.tables.entry(records.table).or_default();
            counts.different = counts.different.saturating_add(1);
        }
    }
    Ok(reports.into_values().collect())
}
