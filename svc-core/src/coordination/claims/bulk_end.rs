//! The ends of many claims: those of a member, and those that have lapsed.
//!
//! They end in bounded steps, so that others have their turn in between.

use super::{ClaimEnd, end_claim, lapsed_claims};
use crate::Result;
use crate::coordination::queue;
use crate::coordination::thread_row::{thread_of_workspace, threads_of_workspace};
use crate::id::{MemberId, ThreadId};
use crate::op::{Read, Write};

/// Ends all claims of a member of the caller's workspace in one transaction, and returns how many of them
/// were live.
pub fn end_all(cx: &mut Write<'_>, member: MemberId, end: ClaimEnd) -> Result<i64> {
    let mut live: i64 = 0;
    loop {
        let ended = end_some(cx, member, end)?;
        live = live.saturating_add(ended.live);
        if !ended.more {
            return Ok(live);
        }
    }
}

/// Returns how many live claims a member of the caller's workspace has.
pub(in crate::coordination) fn live_of(cx: &Read<'_>, member: MemberId) -> Result<i64> {
    let counted: Option<(i64,)> = cx.one(LIVE_OF, &[&cx.caller().workspace_id, &member, &cx.now()])?;
    Ok(counted.map_or(0, |(count,)| count))
}

/// Returns whether a member of the caller's workspace has a live claim.
pub(in crate::coordination) fn has_live(cx: &Read<'_>, member: MemberId) -> Result<bool> {
    let found: Option<(i64,)> = cx.one(A_LIVE_OF, &[&cx.caller().workspace_id, &member, &cx.now()])?;
    Ok(found.is_some())
}

/// Uses the index of claimed threads.
const A_LIVE_OF: &str = "
    select lsn from threads
    where workspace_id = $1 and assignee_id = $2 and assignment_expires_at > $3
    limit 1";

/// The claims that a step has ended.
pub(in crate::coordination) struct EndedClaims {
    /// How many of them were live.
    pub live: i64,
    /// Whether there may be more.
    pub more: bool,
}

/// Ends the first claims of a member, in the order in which their threads were created, and counts them.
///
/// Call it in steps only for a member that can begin no claim in between.
pub(in crate::coordination) fn end_some(
    cx: &mut Write<'_>,
    member: MemberId,
    end: ClaimEnd,
) -> Result<EndedClaims> {
    let mut live: i64 = 0;
    let held: Vec<(ThreadId,)> = cx.query(HELD_BY, &[&cx.caller().workspace_id, &member, &ENDED_MAX])?;
    let held: Vec<ThreadId> = held.into_iter().map(|(id,)| id).collect();
    for thread in threads_of_workspace(cx, &held)? {
        let is_live = thread.held.is_some_and(|held| held.is_live(cx.now()));
        live = live.saturating_add(i64::from(is_live));
        end_claim(cx, &thread, end)?;
    }
    Ok(EndedClaims { live, more: i64::try_from(held.len()).unwrap_or(i64::MAX) >= ENDED_MAX })
}

/// Maximum number of claims of a member that end at once.
const ENDED_MAX: i64 = 128;

/// Uses the index of claimed threads.
const HELD_BY: &str =
    "select id from threads where workspace_id = $1 and assignee_id = $2 order by lsn limit $3";

const LIVE_OF: &str = "
    select count(*) from threads
    where workspace_id = $1 and assignee_id = $2 and assignment_expires_at > $3";

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
    let lapsed = lapsed_claims::lapsed(cx)?;
    for thread in threads_of_workspace(cx, &lapsed)? {
        end_claim(cx, &thread, ClaimEnd::Expired)?;
        // The claim that is about to begin may be of this thread: the projector would be too late.
        if let Some(ended) = thread_of_workspace(cx, thread.id)? {
            queue::refresh(cx, &ended)?;
        }
    }
    Ok(!lapsed.is_empty())
}
