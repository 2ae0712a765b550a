//! The ends of many claims: those of a member, and those that have lapsed.
//!
//! They end in bounded steps, so that others have their turn in between.

use super::{ClaimEnd, end_claim, lapse};
use crate::Result;
use crate::coordination::thread::{expect, thread_of_workspace};
use crate::coordination::{left_out, queue};
use crate::id::{MemberId, ThreadId};
use crate::op::{Read, Write};

/// Ends all claims of a member of the caller's workspace, and returns how many of them were live.
///
/// However many there are, they end in one transaction, in the order in which their threads were created.
pub fn end_all(cx: &mut Write<'_>, member: MemberId, end: ClaimEnd) -> Result<usize> {
    let mut live: usize = 0;
    while let Some(ended) = end_some_of_many(cx, member, end)? {
        live = live.saturating_add(ended.len());
    }
    let rest = held_by(cx, member)?;
    Ok(live.saturating_add(end_each(cx, rest, end)?.len()))
}

/// Ends the first claims of a member that has very many, and returns the threads of those that were live.
///
/// Returns `None`, and ends nothing, if the member has few.
pub(in crate::coordination) fn end_some_of_many(
    cx: &mut Write<'_>,
    member: MemberId,
    end: ClaimEnd,
) -> Result<Option<Vec<ThreadId>>> {
    let held = held_by(cx, member)?;
    if held.len() < ENDED_MAX {
        return Ok(None);
    }
    end_each(cx, held, end).map(Some)
}

/// Returns the threads of the first claims of a member.
fn held_by(cx: &Read<'_>, member: MemberId) -> Result<Vec<(ThreadId,)>> {
    let most = i64::try_from(ENDED_MAX).unwrap_or(i64::MAX);
    cx.query(HELD_BY, &[&cx.caller().workspace_id, &member, &most])
}

/// Ends the claims of these threads, and returns those of them that were live.
fn end_each(cx: &mut Write<'_>, held: Vec<(ThreadId,)>, end: ClaimEnd) -> Result<Vec<ThreadId>> {
    let mut live = Vec::new();
    expect(cx, held.iter().map(|(id,)| *id));
    for (id,) in held {
        let Some(thread) = thread_of_workspace(cx, id)? else { continue };
        if !thread.has_lapsed(cx.now()) {
            live.push(id);
        }
        end_claim(cx, &thread, end)?;
    }
    Ok(live)
}

/// Most claims of a member that one step ends.
const ENDED_MAX: usize = 128;

/// Uses the index of claimed threads.
const HELD_BY: &str =
    "select id from threads where workspace_id = $1 and assignee_id = $2 order by lsn limit $3";

/// Ends claims of the caller's workspace whose leases have lapsed. Returns whether there may be more.
///
/// Changes that begin a claim take this step first, so that the log has the end of a lapsed claim before the
/// beginning of another, and no thread stays parked behind it. Changes of a budget, closes and cancels take
/// it because they would change how a lapsed claim counts.
pub(in crate::coordination) fn expire_first(cx: &mut Write<'_>) -> Result<bool> {
    // Once is enough, unless very many have lapsed: then others have their turn.
    Ok(expire_some(cx)? && expire_some(cx)?)
}

/// Ends some of them. Returns whether there may be more.
fn expire_some(cx: &mut Write<'_>) -> Result<bool> {
    if cx.leaves_out(left_out::EXPIRE) {
        return Ok(false);
    }
    let lapsed = lapse::lapsed(cx)?;
    expect(cx, lapsed.iter().copied());
    for id in &lapsed {
        if let Some(thread) = thread_of_workspace(cx, *id)? {
            end_claim(cx, &thread, ClaimEnd::Expired)?;
            // The claim that is about to begin may be of this thread: the projector would be too late.
            queue::refresh(cx, *id)?;
        }
    }
    Ok(!lapsed.is_empty())
}
