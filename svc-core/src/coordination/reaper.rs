//! The reaper: ends lapsed claims, and reports once each claim that was not acknowledged in time.
//!
//! Due threads are found through the indexes of their due times, across workspaces. Each workspace's part
//! runs in a transaction of its own, which checks again what is due.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::claims::{ClaimEnd, end_claim};
use crate::Result;
use crate::coordination::thread::{Thread, thread_of_workspace};
use crate::id::{LeaseId, MemberId, ThreadId, WorkspaceId};
use crate::limits::{REAP_MAX, REAP_TICK_SECS};
use crate::log::event::{Event, EventKind};
use crate::op::{Chore, Feature, Read, Round, Settings, Step, Who, Write};
use crate::sync::lock;

pub(crate) fn feature() -> Feature {
    let every = |settings: &Settings| settings.reap_tick;
    let tick = Tick::default();
    Feature::new().events(vec![EventKind::of::<ClaimUnacknowledged>()]).chore(Chore {
        name: "reaper",
        every,
        lease: LEASE,
        who: Who::OneLeader,
        run: Box::new(move |round| tick.step(round)),
    })
}

/// A claim was not acknowledged in time. It stays live.
#[derive(Serialize, JsonSchema)]
struct ClaimUnacknowledged {
    /// The thread.
    thread_id: ThreadId,
    /// The member who holds the claim.
    member_id: Option<MemberId>,
    /// The fencing id of the claim.
    claim_lease_id: Option<LeaseId>,
    /// The member who is responsible for the thread.
    owner_id: Option<MemberId>,
}

impl Event for ClaimUnacknowledged {
    const KIND: &'static str = "ClaimUnacknowledged";
}

/// Maximum number of threads of one workspace per step, so that none delays the others.
const OF_ONE_WORKSPACE: i64 = 100;

/// The lease on reaping: two ticks, after which another process takes over from one that has died.
const LEASE: Duration = Duration::from_secs(2 * REAP_TICK_SECS.unsigned_abs());

/// A tick of the reaper: several steps, which handle at most [`REAP_MAX`] threads together.
#[derive(Default)]
struct Tick {
    taken: Mutex<i64>,
}

impl Tick {
    /// Runs one step. What is still due after the last step of a tick waits for the next tick.
    fn step(&self, round: &Round<'_>) -> Result<Step> {
        let taken = std::mem::take(&mut *lock(&self.taken));
        let (more, taken) = reap_some(round, REAP_MAX.saturating_sub(taken)).map(|reaped| match reaped {
            Some(count) => (true, taken.saturating_add(count)),
            None => (false, 0),
        })?;
        if !more || taken >= REAP_MAX {
            return Ok(Step::Done);
        }
        *lock(&self.taken) = taken;
        Ok(Step::More)
    }
}

/// Reaps at most `most` due threads and returns how many it handled.
///
/// Returns none if nothing is due, or another process reaps. A workspace that cannot be reaped does not
/// affect others.
fn reap_some(round: &Round<'_>, most: i64) -> Result<Option<i64>> {
    let due = round.read(move |cx| due(cx, most))?;
    if due.is_empty() {
        return Ok(None);
    }
    let Some(lead) = round.lead()? else { return Ok(None) };
    let (mut reaped, mut failed) = (0, None);
    for part in due.chunk_by(|(a, _), (b, _)| a == b) {
        let Some((workspace, _)) = part.first().copied() else { continue };
        let threads: Vec<ThreadId> = part.iter().map(|(_, thread)| *thread).collect();
        match lead.write(workspace, move |cx| reap(cx, &threads)) {
            Ok(count) => reaped += count,
            Err(error) => {
                let cause = error.cause();
                tracing::warn!(%workspace, %error, ?cause, "claims of a workspace were not reaped");
                failed = Some(error);
            }
        }
    }
    match failed {
        _ if reaped > 0 => Ok(i64::try_from(due.len()).ok()),
        Some(error) => Err(error),
        None => Ok(None),
    }
}

/// Returns due threads of all workspaces, grouped by workspace.
///
/// Every workspace has its turn: only the first threads of each are returned, those with the earliest lapsed
/// lease before others.
fn due(cx: &Read<'_>, most: i64) -> Result<Vec<(WorkspaceId, ThreadId)>> {
    let now = cx.now();
    let mut found: BTreeSet<(WorkspaceId, ThreadId)> =
        cx.query(LAPSED, &[&now, &OF_ONE_WORKSPACE, &most])?.into_iter().collect();
    let room = most.saturating_sub(i64::try_from(found.len()).unwrap_or(i64::MAX));
    if room > 0 {
        found.extend(cx.query::<(WorkspaceId, ThreadId)>(UNACKNOWLEDGED, &[&now, &OF_ONE_WORKSPACE, &room])?);
    }
    Ok(found.into_iter().collect())
}

/// A statement that selects the threads whose due time in `$column` has come.
///
/// It returns the first thread of each workspace before the second of any.
macro_rules! due_by {
    ($column:literal) => {
        concat!(
            "select workspace_id, id from (
                 select workspace_id, id, ",
            $column,
            " as due, row_number() over (partition by workspace_id order by ",
            $column,
            ", id) as place
                 from threads where ",
            $column,
            " is not null and ",
            $column,
            " <= $1) lapsed
             where place <= $2 order by place, due, id limit $3"
        )
    };
}

const LAPSED: &str = due_by!("assignment_expires_at");

const UNACKNOWLEDGED: &str = due_by!("acknowledge_by");

/// Reaps what is still due among `threads` of the caller's workspace, and returns how many those were.
fn reap(cx: &mut Write<'_>, threads: &[ThreadId]) -> Result<usize> {
    let mut reaped: usize = 0;
    for id in threads {
        let Some(thread) = thread_of_workspace(cx, *id)? else { continue };
        if thread.has_lapsed(cx.now()) {
            end_claim(cx, &thread, ClaimEnd::Expired)?;
        } else if !remind(cx, &thread)? {
            continue;
        }
        reaped = reaped.saturating_add(1);
    }
    Ok(reaped)
}

/// Reports a claim that was not acknowledged in time, once per claim.
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
