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
    loop {
        let ended = end_some(cx, member, end)?;
        live = live.saturating_add(ended.live.len());
        if !ended.has_more {
            return Ok(live);
        }
    }
}

/// Some claims that have ended.
pub(in crate::coordination) struct Ended {
    /// The threads of those that were live.
    pub live: Vec<ThreadId>,
    /// Whether the member may have more.
    pub has_more: bool,
}

/// Ends the first claims of a member of the caller's workspace.
pub(in crate::coordination) fn end_some(
    cx: &mut Write<'_>,
    member: MemberId,
    end: ClaimEnd,
) -> Result<Ended> {
    let held = held_by(cx, member)?;
    let has_more = held.len() >= ENDED_MAX;
    Ok(Ended { live: end_each(cx, held, end)?, has_more })
}

/// Ends the first claims of a member that has very many. Returns false if it has not.
pub(in crate::coordination) fn end_some_of_many(
    cx: &mut Write<'_>,
    member: MemberId,
    end: ClaimEnd,
) -> Result<bool> {
    let held = held_by(cx, member)?;
    if held.len() < ENDED_MAX {
        return Ok(false);
    }
    end_each(cx, held, end)?;
    Ok(true)
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
/// What begins a claim takes this step first: the log then has the end of one before the beginning of
/// another, and nothing stays parked behind a claim that is in nobody's way. So does what would change how a
/// lapsed claim counts: another budget, a close and a cancel.
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
