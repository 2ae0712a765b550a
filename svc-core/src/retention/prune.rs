//! Pruning the events of a log: declaring their removal, and then removing them in steps.
//!
//! The events are read and verified before they are declared as pruned, because they cannot be verified
//! afterwards. If the log is broken in that range, no event is pruned. The number of changes to the census
//! limits one declaration; the remaining events are declared after the events of the first declaration were
//! removed.

use crate::error::{Error, Result};
use crate::hash::format_hash;
use crate::id::WorkspaceId;
use crate::identity::floor::LogRange;
use crate::limits::{PRUNE_COUNTS_MAX, PRUNE_READ_BYTES, PRUNE_READ_ROWS, PRUNED_EVENTS_REMOVED_MAX};
use crate::log::event::Subject;
use crate::log::floor::EventsPruned;
use crate::log::tree::Frontier;
use crate::log::verify::{ChainCursor, ReadBounds};
use crate::op::{DestroyPermit, Read, Write};
use crate::stream::census::{self, KindCounts};
use crate::stream::checkpoints::load_tree_at_floor;
use crate::stream::events::broken_log_error;

use super::due::DueEvents;

/// A walk over the events to prune, which reads and verifies them.
#[derive(Clone)]
pub(super) struct PruneWalk {
    pub workspace: WorkspaceId,
    due: DueEvents,
    /// The verified position, whose hash the new floor will link to.
    cursor: ChainCursor,
    frontier: Frontier,
    counts: KindCounts,
}

impl PruneWalk {
    /// Begins a walk at the floor of the workspace's log.
    pub fn begin(cx: &Read<'_>, workspace: WorkspaceId, due: DueEvents) -> Result<Self> {
        let (cursor, frontier) = load_tree_at_floor(cx, workspace, due.old_floor)?;
        Ok(Self { workspace, due, cursor, frontier, counts: KindCounts::new() })
    }

    /// Returns whether the walk has read all events to prune.
    pub fn is_done(&self) -> bool {
        self.cursor.lsn().saturating_add(1) >= self.due.new_floor
    }

    /// Reads the next events. Fails with 409 `event-log-broken` if the log is broken at these events.
    ///
    /// A read that fails does not change the walk, so the read can be repeated.
    pub fn read_next(&mut self, cx: &Read<'_>) -> Result<()> {
        let up_to = self.due.new_floor.saturating_sub(1);
        let bounds = ReadBounds { up_to, rows: PRUNE_READ_ROWS, bytes: PRUNE_READ_BYTES, young: None };
        let mut on = self.clone();
        let Self { cursor, frontier, counts, due, .. } = &mut on;
        let mut ends_at = None;
        let read = cursor.read(cx, bounds, |_, event| {
            frontier.push(&event.content_hash);
            let count = counts.entry((event.subject.channel_id, event.kind.to_owned())).or_default();
            *count = count.saturating_add(1);
            ends_at = Some(event.at).filter(|_| counts.len() >= PRUNE_COUNTS_MAX);
            ends_at.is_none()
        })?;
        if let Err(broken) = read {
            if LogRange::of(cx, self.workspace)?.floor == self.due.old_floor {
                return Err(broken_log_error(self.workspace, broken));
            }
            // Another process, the leader before or after this one, has pruned the missing events in the
            // meantime.
            self.due.new_floor = self.due.old_floor;
            return Ok(());
        }
        if let Some(at) = ends_at {
            // The counts are full, so this round prunes only the events up to here. Times never decrease, so
            // no remaining event is older.
            *due = DueEvents { new_floor: cursor.lsn().saturating_add(1), before: at, ..*due };
        }
        *self = on;
        Ok(())
    }

    /// Declares the events of the walk as pruned. Does nothing if another process has moved the floor in the
    /// meantime.
    ///
    /// After the commit, the events can no longer be read.
    pub fn declare_pruned(&self, cx: &mut Write<'_>, _: &DestroyPermit<'_>) -> Result<()> {
        if LogRange::read(cx)?.floor != self.due.old_floor {
            return Ok(());
        }
        let DueEvents { new_floor: floor, before, .. } = self.due;
        let before_floor = floor.saturating_sub(1);
        if self.cursor.lsn() != before_floor || u64::try_from(before_floor) != Ok(self.frontier.size()) {
            return Err(Error::internal(format!("the events that were read do not end before {floor}")));
        }
        let prev_hash = format_hash(&self.cursor.hash());
        let frontier = self.frontier.subtrees().iter().map(format_hash).collect();
        let pruned_at =
            cx.emit(Subject::WORKSPACE, &EventsPruned { floor, prev_hash, frontier, before })?.lsn;
        let workspace = cx.caller().workspace_id;
        census::subtract_pruned_counts(cx, floor, &self.counts)?;
        cx.execute(1, MOVE_FLOOR, &[&workspace, &floor, &pruned_at])
    }
}

const MOVE_FLOOR: &str = "update heads set floor = $2, pruned_at = $3 where workspace_id = $1";

/// Removes some of the events below the floor of the caller's workspace. Returns whether more such events
/// remain.
pub(super) fn remove_some_events(cx: &mut Write<'_>, _: &DestroyPermit<'_>) -> Result<bool> {
    let workspace = cx.caller().workspace_id;
    let Some((oldest, floor)) = load_oldest_and_floor(cx, workspace)? else { return Ok(false) };
    let up_to = oldest.saturating_add(PRUNED_EVENTS_REMOVED_MAX).min(floor);
    cx.execute_any(DELETE_EVENTS, &[&workspace, &up_to])?;
    Ok(up_to < floor)
}

const DELETE_EVENTS: &str = "delete from events where workspace_id = $1 and lsn < $2";

/// Returns whether events below the floor of a workspace remain to be removed.
pub(super) fn has_events_to_remove(cx: &Read<'_>, workspace: WorkspaceId) -> Result<bool> {
    Ok(load_oldest_and_floor(cx, workspace)?.is_some_and(|(oldest, floor)| oldest < floor))
}

/// Returns the position of the oldest stored event of a workspace, and the floor of the log.
fn load_oldest_and_floor(cx: &Read<'_>, workspace: WorkspaceId) -> Result<Option<(i64, i64)>> {
    cx.one(SELECT_OLDEST, &[&workspace])
}

const SELECT_OLDEST: &str = "
    select e.lsn, h.floor from heads h join events e on e.workspace_id = h.workspace_id
    where h.workspace_id = $1 order by e.lsn limit 1";
