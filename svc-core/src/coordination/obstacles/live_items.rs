//! The items that claims touch, stored as rows while a thread has a claim in its row.
//!
//! The number of claims that use a slot is stored separately, so that the rows of a slot need not be counted.

use super::Obstacle;
use crate::Result;
use crate::coordination::footprint::{Footprint, ItemSpace, current_and_earlier_extents, extents};
use crate::id::{ThreadId, WorkspaceId};
use crate::op::Write;
use crate::store::new_row;

/// Records the items of a thread's new claim.
pub(in crate::coordination) fn insert_live_items(
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
        let is_slot = extent.space == ItemSpace::Slot;
        cx.insert(&new_row!("insert into live_items" {
            workspace_id,
            repo_key: extent.repo_key,
            space: extent.space,
            prefix: extent.prefix,
            exclusive: extent.exclusive,
            obstacle,
            thread_id,
        }))?;
        // A slot without a stored count, such as one from an import, is counted now.
        if is_slot && cx.change(ADD_USE, &[&obstacle])? == 0 {
            cx.execute_any(COUNT_USES, &[&workspace_id, &obstacle])?;
        }
    }
    Ok(())
}

const ADD_USE: &str = "update slot_uses set uses = uses + 1 where obstacle = $1";

const COUNT_USES: &str = "
    insert into slot_uses (workspace_id, obstacle, uses)
    select $1, $2, count(*) from live_items where obstacle = $2 and space = 'slot'";

/// Selects the number of claims that use the slot `$slot`, including lapsed claims.
macro_rules! uses {
    ($slot:literal) => {
        concat!(
            "coalesce((select u.uses from slot_uses u where u.obstacle = ",
            $slot,
            "), (select count(*) from (
                 select 1 from live_items l where l.obstacle = ",
            $slot,
            " and l.space = 'slot' limit 10000) used))"
        )
    };
}
pub(in crate::coordination) use uses;

/// Removes the items of a thread's claim, and returns them as obstacles.
pub(in crate::coordination) fn remove_live_items(
    cx: &mut Write<'_>,
    thread_id: ThreadId,
    footprint: &Footprint,
) -> Result<Vec<Obstacle>> {
    if footprint.items.iter().any(|item| item.slot_key().is_some()) {
        cx.execute_any(END_USES, &[&thread_id])?;
    }
    cx.execute_any(END, &[&thread_id])?;
    Ok(obstacles_of_claim(cx.caller().workspace_id, footprint))
}

const END_USES: &str = "
    update slot_uses set uses = uses - 1 where obstacle in (
        select l.obstacle from live_items l where l.thread_id = $1 and l.space = 'slot')";

const END: &str = "delete from live_items where thread_id = $1";

/// Returns the obstacles that block other threads while a claim has this footprint.
fn obstacles_of_claim(workspace: WorkspaceId, footprint: &Footprint) -> Vec<Obstacle> {
    let mut touched: Vec<Obstacle> =
        current_and_earlier_extents(footprint).iter().map(|extent| Obstacle::of(workspace, extent)).collect();
    touched.sort();
    touched.dedup();
    touched
}
