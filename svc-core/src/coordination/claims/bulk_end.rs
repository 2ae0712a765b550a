//! Ending many claims: all claims of a member, or the lapsed claims of a workspace.
//!
//! The claims end in bounded steps, so that other jobs can run in between.

use super::{ClaimEnd, end_claim, lapsed_claims};
use crate::Result;
use crate::coordination::queue;
use crate::coordination::thread_row::{thread_of_workspace, threads_of_workspace};
use crate::id::{MemberId, ThreadId};
use crate::op::{Read, Write};

/// Ends all claims of a member in one transaction, and returns the number of ended claims that were live.
///
/// The member must be in the caller's workspace.
pub fn end_all_claims(cx: &mut Write<'_>, member: MemberId, end: ClaimEnd) -> Result<i64> {
    let mut live: i64 = 0;
    loop {
        let ended = end_first_claims(cx, member, end)?;
        live = live.saturating_add(ended.live_count);
        if !ended.has_more {
            return Ok(live);
        }
    }
}

/// Returns the number of live claims that a member of the caller's workspace holds.
pub(in crate::coordination) fn count_live_claims(cx: &Read<'_>, member: MemberId) -> Result<i64> {
    let counted: Option<(i64,)> = cx.one(COUNT_LIVE, &[&cx.caller().workspace_id, &member, &cx.now()])?;
    Ok(counted.map_or(0, |(count,)| count))
}

/// Returns whether a member of the caller's workspace holds a live claim.
pub(in crate::coordination) fn has_live_claim(cx: &Read<'_>, member: MemberId) -> Result<bool> {
    let found: Option<(i64,)> = cx.one(HAS_LIVE, &[&cx.caller().workspace_id, &member, &cx.now()])?;
    Ok(found.is_some())
}

/// Selects a live claim of a member, by the index of claimed threads.
const HAS_LIVE: &str = "
    select lsn from threads
    where workspace_id = $1 and assignee_id = $2 and assignment_expires_at > $3
    limit 1";

/// The number of claims that a step has ended, and whether more remain.
pub(in crate::coordination) struct EndedClaims {
    /// Number of the ended claims that were live.
    pub live_count: i64,
    /// Whether more claims of the member may remain.
    pub has_more: bool,
}

/// Ends a member's claims, on the oldest threads first, up to [`ENDED_MAX`] claims, and counts the ended
/// claims.
///
/// Repeated calls in several steps end all claims only if the member cannot begin a claim in between.
pub(in crate::coordination) fn end_first_claims(
    cx: &mut Write<'_>,
    member: MemberId,
    end: ClaimEnd,
) -> Result<EndedClaims> {
    let mut live_count: i64 = 0;
    let held: Vec<(ThreadId,)> = cx.query(HELD_BY, &[&cx.caller().workspace_id, &member, &ENDED_MAX])?;
    let held: Vec<ThreadId> = held.into_iter().map(|(id,)| id).collect();
    for thread in threads_of_workspace(cx, &held)? {
        let is_live = thread.held.is_some_and(|held| held.is_live(cx.now()));
        live_count = live_count.saturating_add(i64::from(is_live));
        end_claim(cx, &thread, end)?;
    }
    Ok(EndedClaims { live_count, has_more: i64::try_from(held.len()).unwrap_or(i64::MAX) >= ENDED_MAX })
}

/// Maximum claims of a member that end in one step.
const ENDED_MAX: i64 = 128;

/// Selects the first threads that a member has claimed, by the index of claimed threads.
const HELD_BY: &str =
    "select id from threads where workspace_id = $1 and assignee_id = $2 order by lsn limit $3";

const COUNT_LIVE: &str = "
    select count(*) from threads
    where workspace_id = $1 and assignee_id = $2 and assignment_expires_at > $3";

/// Ends claims of the caller's workspace whose leases have lapsed. Returns whether more lapsed claims may
/// exist.
///
/// Changes that begin a claim run this step first: the log then records the end of a lapsed claim before the
/// next claim begins, and no thread stays parked behind a lapsed claim. Changes of a budget, closes and
/// cancels also run this step, because they would change how a lapsed claim counts.
pub(in crate::coordination) fn expire_lapsed_claims(cx: &mut Write<'_>) -> Result<bool> {
    // Two rounds are usually enough; if very many claims have lapsed, other jobs can run in between.
    Ok(expire_first_lapsed_claims(cx)? && expire_first_lapsed_claims(cx)?)
}

/// Ends the first lapsed claims of the caller's workspace. Returns whether more lapsed claims may exist.
fn expire_first_lapsed_claims(cx: &mut Write<'_>) -> Result<bool> {
    let lapsed = lapsed_claims::threads_with_lapsed_claims(cx)?;
    for thread in threads_of_workspace(cx, &lapsed)? {
        end_claim(cx, &thread, ClaimEnd::Expired)?;
        // The next claim may be of this thread, so its queue row is updated before the projector runs.
        if let Some(ended) = thread_of_workspace(cx, thread.id)? {
            queue::refresh_thread(cx, &ended)?;
        }
    }
    Ok(!lapsed.is_empty())
}
