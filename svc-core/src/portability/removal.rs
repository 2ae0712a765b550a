//! Removing the rows of a workspace in bounded steps, in an order that breaks no reference.
//!
//! The keys of the workspace's content are removed first, then the tables in reverse order, and finally the
//! row of the workspace itself.

use serde::{Deserialize, Serialize};

use super::row::WORKSPACES_TABLE;
use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::op::{Records, Removal, Write};

/// Maximum rows that one step removes.
const STEP_ROWS_MAX: i64 = 500;
/// Maximum objects whose dependent rows one statement removes.
const OBJECTS_MAX: i64 = 500;
/// Cost of a statement that removes dependent rows, as a number of removed rows.
const OBJECT_SEARCH_COST: i64 = 50;

/// Progress of removing a workspace, as stored in the table `erased` or `imports`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RemovalProgress {
    /// Name of the table that is being emptied; `None` before the first table.
    table: Option<String>,
    /// The position of the last object whose rows in the table have been removed.
    reached: i64,
    /// Whether this pass has removed any rows.
    has_removed: bool,
}

impl RemovalProgress {
    /// Parses the progress from its column.
    pub fn parse(stored: Option<&str>) -> Result<Self> {
        stored.map_or_else(|| Ok(Self::default()), |json| serde_json::from_str(json).map_err(Error::internal))
    }

    /// Returns the progress as JSON text for its column.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string(self).map_err(Error::internal)
    }

    /// Returns whether the next step may remove keys that unseal content.
    pub fn may_remove_keys(&self, declared: &[Records]) -> bool {
        let unseals_content =
            |name: &str| declared.iter().any(|it| it.name() == name && it.unseals_content());
        self.table.as_deref().is_none_or(unseals_content)
    }
}

/// Removes some rows of a workspace, continuing at `progress`. Returns whether more rows may remain.
///
/// Rows inserted in the meantime are removed in another pass; the workspace's own row is removed after a pass
/// that finds no rows.
pub(super) fn remove_some_rows(
    cx: &mut Write<'_>,
    workspace: WorkspaceId,
    progress: &mut RemovalProgress,
) -> Result<bool> {
    let (own, tables): (Vec<&Records>, Vec<&Records>) =
        removal_order(cx.records()).partition(|records| records.name() == WORKSPACES_TABLE);
    let from =
        tables.iter().position(|records| progress.table.as_deref() == Some(records.name())).unwrap_or(0);
    let mut left = STEP_ROWS_MAX;
    for records in tables.iter().skip(from) {
        if progress.table.as_deref() != Some(records.name()) {
            *progress = RemovalProgress { table: Some(records.name().to_owned()), reached: 0, ..*progress };
        }
        left = empty_table(cx, workspace, &records.removal(), (progress, left))?;
        if left <= 0 {
            return Ok(true);
        }
    }
    let is_left = std::mem::take(progress).has_removed;
    if !is_left {
        own.iter().try_for_each(|own| cx.execute_any(own.remove_all_statement(), &[&workspace]))?;
    }
    Ok(is_left)
}

/// Returns the tables in the order in which they are emptied.
fn removal_order(declared: &[Records]) -> impl Iterator<Item = &Records> {
    let all = || declared.iter().rev().filter(|records| records.has_workspace_rows());
    all()
        .filter(|records| records.unseals_content())
        .chain(all().filter(|records| !records.unseals_content()))
}

/// Removes rows of a table, up to the limit of the step.
///
/// Returns how many more rows the step may remove, or 0 if the table may still have rows.
fn empty_table(
    cx: &mut Write<'_>,
    workspace: WorkspaceId,
    removal: &Removal,
    (progress, mut left): (&mut RemovalProgress, i64),
) -> Result<i64> {
    loop {
        let (removed, is_empty) = match removal {
            Removal::Own { remove } => {
                let removed = rows_to_i64(cx.change(remove, &[&workspace, &left])?);
                (removed, removed < left)
            }
            Removal::Through { next, remove } => {
                let next: Option<(Option<i64>,)> =
                    cx.one(next, &[&workspace, &progress.reached, &OBJECTS_MAX])?;
                let Some(until) = next.and_then(|(until,)| until) else { return Ok(left) };
                let removed =
                    rows_to_i64(cx.change(remove, &[&workspace, &progress.reached, &until, &left])?);
                if removed < left {
                    progress.reached = until;
                    left = left.saturating_sub(OBJECT_SEARCH_COST);
                }
                (removed, false)
            }
        };
        progress.has_removed |= removed > 0;
        left = left.saturating_sub(removed);
        if is_empty || left <= 0 {
            return Ok(left);
        }
    }
}

fn rows_to_i64(rows: u64) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}
