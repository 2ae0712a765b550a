//! Pruning messages: removing all messages up to a log position, with their keys, edits and other rows.
//!
//! An event declares the messages as pruned. Once the event is committed, no read finds the messages.
//! Afterwards, the keys and rows of the messages are removed in steps, and then the bytes of the keys are
//! removed from the database's files.

use super::withdraw::remove_messages;
use crate::Result;
use crate::bisect::last_position_where;
use crate::conversation::{key_segments, scrub};
use crate::id::{MessageId, WorkspaceId};
use crate::limits::{KEY_SEGMENTS_REMOVED_MAX, MESSAGES_PRUNED_MAX, MESSAGES_REMOVED_MAX};
use crate::log::event::Subject;
use crate::log::floor::MessagesPruned;
pub(crate) use crate::log::floor::PruneReason;
use crate::op::{DestroyPermit, Read, Write};
use crate::time::Time;

/// The messages to prune next: all messages that are not yet pruned, up to a position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DueMessages {
    /// Position of the last message to prune.
    pub up_to: i64,
    /// Number of messages to prune: at most [`MESSAGES_PRUNED_MAX`].
    pub count: i64,
}

/// Returns the messages of a workspace that were posted before a time, up to [`MESSAGES_PRUNED_MAX`], or
/// `None` if there are no such messages.
pub(crate) fn due(cx: &Read<'_>, workspace: WorkspaceId, before: Time) -> Result<Option<DueMessages>> {
    let Some((floor, head)) = cx.one::<(i64, i64)>(FLOOR_AND_LAST, &[&workspace])? else { return Ok(None) };
    let last = last_position_where(floor, head, |lsn| {
        let newest: Option<(Time,)> = cx.one(LAST_LSN_BEFORE, &[&workspace, &floor, &lsn])?;
        Ok(newest.is_none_or(|(at,)| at < before))
    })?;
    let counted: Option<(i64, i64)> =
        cx.one(COUNT_DUE, &[&workspace, &floor, &last, &MESSAGES_PRUNED_MAX])?;
    let due = counted.map(|(count, up_to)| DueMessages { up_to, count });
    Ok(due.filter(|due| due.count > 0))
}

const FLOOR_AND_LAST: &str = "select words_floor, lsn from heads where workspace_id = $1";

const LAST_LSN_BEFORE: &str = "
    select posted_at from messages where workspace_id = $1 and lsn > $2 and lsn <= $3
    order by lsn desc limit 1";

const COUNT_DUE: &str = "
    select count(*), coalesce(max(lsn), 0) from (
        select lsn from messages where workspace_id = $1 and lsn > $2 and lsn <= $3
        order by lsn limit $4) due";

/// Declares the messages of the caller's workspace up to a log position as pruned, and returns the number of
/// messages.
///
/// Retention prunes up to [`MESSAGES_PRUNED_MAX`] messages per call, so it may have to call this function
/// again.
pub(crate) fn prune(
    cx: &mut Write<'_>,
    permit: &DestroyPermit<'_>,
    up_to_lsn: i64,
    reason: PruneReason,
) -> Result<i64> {
    let workspace = cx.caller().workspace_id;
    let limit = match reason {
        PruneReason::Retention => MESSAGES_PRUNED_MAX,
        PruneReason::Purge => i64::MAX,
    };
    let due: Option<(i64, i64)> = cx.one(COUNT_UP_TO, &[&workspace, &up_to_lsn, &limit])?;
    let Some((messages, up_to_lsn)) = due.filter(|(messages, _)| *messages > 0) else { return Ok(0) };
    cx.emit(Subject::WORKSPACE, &MessagesPruned { up_to_lsn, messages, reason })?;
    cx.execute(1, MOVE_FLOOR, &[&workspace, &up_to_lsn])?;
    key_segments::cut_leaves_up_to(cx, permit, up_to_lsn)?;
    Ok(messages)
}

const COUNT_UP_TO: &str = "
    select count(*), coalesce(max(lsn), 0) from (
        select lsn from messages where workspace_id = $1 and lsn <= $2
          and lsn > (select words_floor from heads where workspace_id = $1)
        order by lsn limit $3) due";

const MOVE_FLOOR: &str = "update heads set words_floor = $2 where workspace_id = $1";

/// Returns whether a workspace still has rows of pruned messages.
pub(crate) fn has_pruned_rows(cx: &Read<'_>, workspace: WorkspaceId) -> Result<bool> {
    Ok(cx.one::<(i64,)>(FIND_PRUNED_ROW, &[&workspace])?.is_some())
}

const FIND_PRUNED_ROW: &str = "
    select lsn from messages
    where workspace_id = $1 and lsn <= (select words_floor from heads where workspace_id = $1) limit 1";

/// Removes some keys, or the rows of some messages, that were pruned in the caller's workspace.
///
/// The call that removes the last message also requests the scrub for all messages that were pruned together.
pub(crate) fn remove_pruned_batch(cx: &mut Write<'_>, permit: &DestroyPermit<'_>) -> Result<()> {
    let workspace = cx.caller().workspace_id;
    let Some((floor,)) = cx.one::<(i64,)>(PRUNE_FLOOR, &[&workspace])? else { return Ok(()) };
    // Keys are removed first, because a message without its key is unreadable.
    if key_segments::remove_segments_up_to(cx, permit, floor, KEY_SEGMENTS_REMOVED_MAX)? {
        return Ok(());
    }
    let rows = MESSAGES_REMOVED_MAX.saturating_add(1);
    let mut left: Vec<(MessageId,)> = cx.query(PRUNED_IDS, &[&workspace, &floor, &rows])?;
    let limit = usize::try_from(MESSAGES_REMOVED_MAX).unwrap_or(usize::MAX);
    let is_last = left.len() <= limit;
    left.truncate(limit);
    let ids: Vec<MessageId> = left.into_iter().map(|(id,)| id).collect();
    remove_messages(cx, permit, &ids)?;
    if is_last {
        // No event has this negative position, so the mark is unique.
        scrub::request_all_scrubs(cx, floor.saturating_neg())?;
    }
    Ok(())
}

const PRUNE_FLOOR: &str = "select words_floor from heads where workspace_id = $1";

const PRUNED_IDS: &str =
    "select id from messages where workspace_id = $1 and lsn <= $2 order by lsn limit $3";
