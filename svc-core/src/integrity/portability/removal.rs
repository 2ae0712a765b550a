//! Removing the rows of a workspace, in bounded steps and in the order in which nothing refers to what is
//! gone.

use crate::error::Result;
use crate::id::WorkspaceId;
use crate::op::Write;

/// Rows that one step removes.
const ROWS: i64 = 500;

/// Removes some of the rows of a workspace. Returns whether there may be more.
pub(super) fn remove_some(cx: &mut Write<'_>, workspace: WorkspaceId) -> Result<bool> {
    let mut left = ROWS;
    for records in cx.records().iter().rev().filter(|records| records.is_of_workspaces()) {
        let removed = cx.change(records.remove(), &[&workspace, &left])?;
        left = left.saturating_sub(i64::try_from(removed).unwrap_or(i64::MAX));
        if left <= 0 {
            return Ok(true);
        }
    }
    Ok(false)
}
