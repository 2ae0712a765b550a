//! The items that live claims touch: rows that stand while a thread has a claim in its row.

use super::Obstacle;
use crate::Result;
use crate::coordination::footprint::{Footprint, all_extents, extents};
use crate::id::{ThreadId, WorkspaceId};
use crate::op::Write;
use crate::store::new_row;

/// Records what a thread's new claim touches.
pub(in crate::coordination) fn begin(
    cx: &mut Write<'_>,
    thread_id: ThreadId,
    footprint: &Footprint,
) -> Result<()> {
    let workspace_id = cx.caller().workspace_id;
    let mut extents = extents(footprint);
    extents.sort();
    extents.dedup();
    for extent in extents {
        let obstacle = Obstacle::of(workspace_id, &extent);
        cx.insert(&new_row!("insert into live_items" {
            workspace_id,
            repo_key: extent.repo_key,
            space: extent.space,
            prefix: extent.prefix,
            exclusive: extent.exclusive,
            obstacle,
            thread_id,
        }))?;
    }
    Ok(())
}

/// Removes what a thread's claim touched, and returns what it was as obstacles.
pub(in crate::coordination) fn end(
    cx: &mut Write<'_>,
    thread_id: ThreadId,
    footprint: &Footprint,
) -> Result<Vec<Obstacle>> {
    cx.execute_any(END, &[&thread_id])?;
    Ok(of_claim(cx.caller().workspace_id, footprint))
}

const END: &str = "delete from live_items where thread_id = $1";

/// Returns what a claim of a thread with this footprint is as obstacles.
fn of_claim(workspace: WorkspaceId, footprint: &Footprint) -> Vec<Obstacle> {
    let mut touched: Vec<Obstacle> =
        all_extents(footprint).iter().map(|extent| Obstacle::of(workspace, extent)).collect();
    touched.sort();
    touched.dedup();
    touched
}
