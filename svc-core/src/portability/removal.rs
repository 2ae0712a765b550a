//! Removes the rows of a workspace, in bounded steps and in an order in which no reference breaks: first the
//! keys of its content, then the tables in reverse order, and last the row of the workspace itself.

use serde::{Deserialize, Serialize};

use super::row::WORKSPACES;
use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::op::{Records, Removal, Write};

/// Rows that one step removes.
const ROWS: i64 = 500;
/// Maximum objects of the workspace whose rows in another table are searched in one step, and the cost of
/// that.
const THINGS: i64 = 500;
const COST_OF_THINGS: i64 = 50;

/// The progress of a workspace's removal, stored as JSON in its row or that of its import.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RemovalProgress {
    /// The table that is being emptied; `None` before the first.
    table: Option<String>,
    /// The position of the object up to which the table has no rows left.
    reached: i64,
    /// Whether any row was removed since the first table.
    has_removed: bool,
}

impl RemovalProgress {
    /// Reads it from its column.
    pub fn read(stored: Option<&str>) -> Result<Self> {
        stored.map_or_else(|| Ok(Self::default()), |json| serde_json::from_str(json).map_err(Error::internal))
    }

    /// Returns the text of its column.
    pub fn stored(&self) -> Result<String> {
        serde_json::to_string(self).map_err(Error::internal)
    }

    /// Returns whether the next step may remove keys of content.
    pub fn is_at_keys(&self, declared: &[Records]) -> bool {
        let is_of_keys = |name: &str| declared.iter().any(|it| it.name() == name && it.is_of_keys());
        self.table.as_deref().is_none_or(is_of_keys)
    }
}

/// Removes some of the rows of a workspace, from `place` on. Returns whether there may be more.
///
/// Rows that were inserted in between are found in another round: the workspace itself is removed after a
/// round that finds nothing.
pub(super) fn remove_some(
    cx: &mut Write<'_>,
    workspace: WorkspaceId,
    place: &mut RemovalProgress,
) -> Result<bool> {
    let (own, tables): (Vec<&Records>, Vec<&Records>) =
        in_order(cx.records()).partition(|records| records.name() == WORKSPACES);
    let from = tables.iter().position(|records| place.table.as_deref() == Some(records.name())).unwrap_or(0);
    let mut left = ROWS;
    for records in tables.iter().skip(from) {
        if place.table.as_deref() != Some(records.name()) {
            *place = RemovalProgress { table: Some(records.name().to_owned()), reached: 0, ..*place };
        }
        left = empty(cx, workspace, &records.removal(), (place, left))?;
        if left <= 0 {
            return Ok(true);
        }
    }
    let is_left = std::mem::take(place).has_removed;
    if !is_left {
        own.iter().try_for_each(|own| cx.execute_any(own.remove_all(), &[&workspace]))?;
    }
    Ok(is_left)
}

/// Returns the tables in the order in which they are emptied.
fn in_order(declared: &[Records]) -> impl Iterator<Item = &Records> {
    let all = || declared.iter().rev().filter(|records| records.is_of_workspaces());
    all().filter(|records| records.is_of_keys()).chain(all().filter(|records| !records.is_of_keys()))
}

/// Removes rows of a table. Returns how much of the step is left after that; nothing if the table may have
/// more rows.
fn empty(
    cx: &mut Write<'_>,
    workspace: WorkspaceId,
    removal: &Removal,
    (place, mut left): (&mut RemovalProgress, i64),
) -> Result<i64> {
    loop {
        let (removed, is_empty) = match removal {
            Removal::Own { remove } => {
                let removed = count(cx.change(remove, &[&workspace, &left])?);
                (removed, removed < left)
            }
            Removal::Through { next, remove } => {
                let next: Option<(Option<i64>,)> = cx.one(next, &[&workspace, &place.reached, &THINGS])?;
                let Some(until) = next.and_then(|(until,)| until) else { return Ok(left) };
                let removed = count(cx.change(remove, &[&workspace, &place.reached, &until, &left])?);
                if removed < left {
                    place.reached = until;
                    left = left.saturating_sub(COST_OF_THINGS);
                }
                (removed, false)
            }
        };
        place.has_removed |= removed > 0;
        left = left.saturating_sub(removed);
        if is_empty || left <= 0 {
            return Ok(left);
        }
    }
}

fn count(rows: u64) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}
