//! The reaper: ends claims whose lease has lapsed, and tells once of a claim that its holder has not acknowledged
//! in time. What is due is found through the indexes of due times, across workspaces; each workspace's part is
//! done in a transaction of its own, which looks again. When it comes round is left to the periodic worker.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::claims::{expire, has_lapsed};
use super::threads::{Thread, select_one, thread_select};
use crate::Result;
use crate::id::{LeaseId, MemberId, ThreadId, WorkspaceId};
use crate::log::event::{Event, EventKind};
use crate::op::{Feature, Read, Write};

pub(crate) fn feature() -> Feature {
    Feature::new().events(vec![EventKind::of::<ClaimUnacknowledged>()])
}

/// A claim was not acknowledged in time. It goes on.
#[derive(Serialize, JsonSchema)]
struct ClaimUnacknowledged {
    /// The thread.
    thread_id: ThreadId,
    /// The member who holds the claim.
    member_id: Option<MemberId>,
    /// The fencing id of the claim.
    claim_lease_id: Option<LeaseId>,
    /// The member who answers for the thread.
    owner_id: Option<MemberId>,
}

impl Event for ClaimUnacknowledged {
    const KIND: &'static str = "ClaimUnacknowledged";
}

/// At most `limit` threads of any workspace with something to reap now, those of one workspace together. Lapsed
/// leases come first, the oldest of them before others.
pub(crate) fn due(cx: &Read<'_>, limit: i64) -> Result<Vec<(WorkspaceId, ThreadId)>> {
    let now = cx.now();
    let mut found: BTreeSet<(WorkspaceId, ThreadId)> =
        cx.query(LAPSED, &[&now, &limit])?.into_iter().collect();
    let room = limit.saturating_sub(i64::try_from(found.len()).unwrap_or(i64::MAX));
    if room > 0 {
        found.extend(cx.query::<(WorkspaceId, ThreadId)>(UNACKNOWLEDGED, &[&now, &room])?);
    }
    Ok(found.into_iter().collect())
}

const LAPSED: &str = "
    select workspace_id, id from threads
    where assignment_expires_at is not null and assignment_expires_at <= $1
    order by assignment_expires_at limit $2";

const UNACKNOWLEDGED: &str = "
    select workspace_id, id from threads where acknowledge_by is not null and acknowledge_by <= $1
    order by acknowledge_by limit $2";

/// Reaps what is still due among `threads` of the caller's workspace, and answers how many that were.
pub(crate) fn reap(cx: &mut Write<'_>, threads: &[ThreadId]) -> Result<usize> {
    let mut reaped: usize = 0;
    for id in threads {
        let Some(thread) = select_one(cx, BY_ID, &[id, &cx.caller().workspace_id])? else { continue };
        if has_lapsed(&thread, cx.now()) {
            expire(cx, &thread)?;
        } else if !remind(cx, &thread)? {
            continue;
        }
        reaped = reaped.saturating_add(1);
    }
    Ok(reaped)
}

/// The service sees every thread, also in private channels.
const BY_ID: &str = thread_select!("where t.id = $1 and t.workspace_id = $2");

/// Tells of a claim that is not acknowledged in time, and no second time of the same claim.
fn remind(cx: &mut Write<'_>, thread: &Thread) -> Result<bool> {
    if cx.change(REMINDED, &[&thread.id, &cx.now()])? == 0 {
        return Ok(false);
    }
    let event = ClaimUnacknowledged {
        thread_id: thread.id,
        member_id: thread.assignee_id,
        claim_lease_id: thread.claim_lease_id,
        owner_id: thread.owner_id,
    };
    let place = thread.assignee_id.map_or(thread.place(), |holder| thread.place().about(holder));
    cx.emit(place, &event)?;
    Ok(true)
}

const REMINDED: &str = "update threads set acknowledge_by = null where id = $1 and acknowledge_by <= $2";
