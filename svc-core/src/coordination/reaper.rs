//! The reaper ends lapsed claims, and reports each claim that was not acknowledged in time, once per claim.
//!
//! The reaper finds due threads of all workspaces by the indexes of lease ends and acknowledgement deadlines.
//! The threads of each workspace are handled in one transaction, which checks again whether each thread is
//! due.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::claims::{ClaimEnd, end_claim};
use crate::Result;
use crate::conversation::follows;
use crate::conversation::inbox::InboxReason;
use crate::coordination::thread_row::{Thread, threads_of_workspace};
use crate::error::Error;
use crate::id::{LeaseId, MemberId, ThreadId, WorkspaceId};
use crate::identity::workspaces::is_live;
use crate::limits::{REAP_MAX, REAP_TICK_SECS};
use crate::log::event::{Event, EventKind};
use crate::log::replay::ReplayedEvent;
use crate::op::{Chore, ChoreProcesses, ChoreRound, Feature, Read, Settings, StepOutcome, Write};
use crate::sync::lock;

pub(crate) fn feature() -> Feature {
    let every = |settings: &Settings| settings.reap_tick;
    let reaper = Reaper::default();
    Feature::new().events(vec![EventKind::of::<ClaimUnacknowledged>()]).chore(Chore {
        name: "reaper",
        every,
        lease: LEADER_LEASE,
        who: ChoreProcesses::OneLeader,
        run: Box::new(move |round| reaper.step(round)),
    })
}

/// A claim was not acknowledged in time. The claim stays live.
#[derive(Serialize, JsonSchema)]
struct ClaimUnacknowledged {
    /// Id of the claimed thread.
    thread_id: ThreadId,
    /// Id of the member who holds the claim.
    member_id: Option<MemberId>,
    /// The fencing id of the claim.
    claim_lease_id: Option<LeaseId>,
    /// Id of the thread's owner, who is responsible for the thread; null without an owner.
    owner_id: Option<MemberId>,
}

impl Event for ClaimUnacknowledged {
    const KIND: &'static str = "ClaimUnacknowledged";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("threads", "thread_id")?.clear("acknowledge_by").keep()
    }
}

/// Maximum due threads of one workspace that one step handles, so that no workspace delays the other
/// workspaces.
const THREADS_PER_WORKSPACE: i64 = 100;

/// Length of the lease on the role of reaper: two default ticks. If the process dies, another process becomes
/// the reaper when this lease ends.
const LEADER_LEASE: Duration = Duration::from_secs(2 * REAP_TICK_SECS.unsigned_abs());

/// The state of the reaper between steps. The steps of one tick together handle up to [`REAP_MAX`] threads.
#[derive(Default)]
struct Reaper {
    progress: Mutex<ReaperProgress>,
}

/// The progress of the reaper through the workspaces.
///
/// The reaper visits the workspaces in rounds, ordered by id, so that each workspace is visited even if other
/// workspaces have many due threads or fail. If a tick ends within a round, the next tick continues the
/// round.
#[derive(Default)]
struct ReaperProgress {
    /// The workspace that the current round visited last; `None` at the beginning of a round.
    last_workspace: Option<WorkspaceId>,
    /// Whether the round began in an earlier tick.
    is_continued: bool,
    /// Number of threads handled in the current round.
    handled_in_round: i64,
    /// Number of threads handled in the current tick.
    handled_in_tick: i64,
    /// The last error of a workspace in the current tick.
    last_error: Option<Error>,
}

impl Reaper {
    /// Runs one step of a tick. Threads that are still due after the last step are handled in the next tick.
    fn step(&self, round: &ChoreRound<'_>) -> Result<StepOutcome> {
        let before = std::mem::take(&mut *lock(&self.progress));
        let (mut after, is_over) = match reap_next_workspaces(round, before)? {
            ReapOutcome::Handled(after) => {
                let is_over = after.handled_in_tick >= REAP_MAX;
                (after, is_over)
            }
            // The tick ends after a whole round in which no thread was handled.
            ReapOutcome::RoundOver(after) => {
                let is_over = after.handled_in_round == 0 && !after.is_continued;
                (
                    ReaperProgress {
                        last_workspace: None,
                        is_continued: false,
                        handled_in_round: 0,
                        ..after
                    },
                    is_over,
                )
            }
            ReapOutcome::NotLeading => return Ok(StepOutcome::Done),
        };
        if !is_over {
            *lock(&self.progress) = after;
            return Ok(StepOutcome::More);
        }
        let failed = after.last_error.take();
        *lock(&self.progress) = ReaperProgress {
            is_continued: after.last_workspace.is_some(),
            handled_in_round: 0,
            handled_in_tick: 0,
            ..after
        };
        failed.map_or(Ok(StepOutcome::Done), Err)
    }
}

/// The outcome of one step of the reaper.
enum ReapOutcome {
    /// The step handled the due threads of some workspaces.
    Handled(ReaperProgress),
    /// The remaining workspaces of the round have no due threads.
    RoundOver(ReaperProgress),
    /// Another process is the reaper.
    NotLeading,
}

/// Handles the due threads of the next workspaces. A failure in one workspace does not affect the others.
fn reap_next_workspaces(round: &ChoreRound<'_>, before: ReaperProgress) -> Result<ReapOutcome> {
    let last = before.last_workspace;
    let limit = REAP_MAX.saturating_sub(before.handled_in_tick);
    let due = round.read(move |cx| due_threads(cx, last, limit))?;
    let Some((last, _)) = due.last().copied() else { return Ok(ReapOutcome::RoundOver(before)) };
    let Some(lead) = round.lead()? else { return Ok(ReapOutcome::NotLeading) };
    let mut after = ReaperProgress { last_workspace: Some(last), ..before };
    for part in due.chunk_by(|(a, _), (b, _)| a == b) {
        let Some((workspace, _)) = part.first().copied() else { continue };
        let threads: Vec<ThreadId> = part.iter().map(|(_, thread)| *thread).collect();
        match lead.write(workspace, move |cx| reap(cx, &threads)) {
            Ok(count) => {
                after.handled_in_round = after.handled_in_round.saturating_add(count);
                after.handled_in_tick = after.handled_in_tick.saturating_add(count);
            }
            Err(error) => {
                let cause = error.cause();
                tracing::warn!(%workspace, %error, ?cause, "claims of a workspace were not reaped");
                after.last_error = Some(error);
            }
        }
    }
    Ok(ReapOutcome::Handled(after))
}

/// Returns the first due threads of each workspace after `last`, grouped by workspace.
fn due_threads(cx: &Read<'_>, last: Option<WorkspaceId>, limit: i64) -> Result<Vec<(WorkspaceId, ThreadId)>> {
    let after = last.map(WorkspaceId::uuid).unwrap_or_default();
    let found: BTreeSet<(WorkspaceId, ThreadId)> =
        cx.query(DUE, &[&cx.now(), &after, &THREADS_PER_WORKSPACE, &limit])?.into_iter().collect();
    Ok(found.into_iter().collect())
}

/// Uses the indexes of lease ends and of acknowledgement deadlines. A thread can be due for both reasons.
const DUE: &str = concat!(
    "select workspace_id, id from (
        select workspace_id, id,
            row_number() over (partition by workspace_id order by due, id) as place
        from (
            select workspace_id, id, assignment_expires_at as due from threads
            where assignment_expires_at is not null and assignment_expires_at <= $1 and workspace_id > $2
            union all
            select workspace_id, id, acknowledge_by from threads
            where acknowledge_by is not null and acknowledge_by <= $1 and workspace_id > $2) times) placed
     where place <= $3 and ",
    is_live!("placed.workspace_id"),
    " order by workspace_id, place limit $4"
);

/// Handles the threads in `threads` that are still due, and returns the number of handled threads.
fn reap(cx: &mut Write<'_>, threads: &[ThreadId]) -> Result<i64> {
    let mut reaped: i64 = 0;
    for thread in threads_of_workspace(cx, threads)? {
        if thread.has_lapsed(cx.now()) {
            end_claim(cx, &thread, ClaimEnd::Expired)?;
        } else if !report_unacknowledged(cx, &thread)? {
            continue;
        }
        reaped = reaped.saturating_add(1);
    }
    Ok(reaped)
}

/// Reports a claim that was not acknowledged in time, once per claim. Returns whether this call reported the
/// claim.
fn report_unacknowledged(cx: &mut Write<'_>, thread: &Thread) -> Result<bool> {
    if cx.change(CLEAR_DEADLINE, &[&thread.id, &cx.now()])? == 0 {
        return Ok(false);
    }
    let event = ClaimUnacknowledged {
        thread_id: thread.id,
        member_id: thread.assignee_id,
        claim_lease_id: thread.claim_lease_id,
        owner_id: thread.owner_id,
    };
    let place = thread.assignee_id.map_or(thread.place(), |holder| thread.place().about(holder));
    let recorded = cx.emit(place, &event)?;
    let concerned = (thread.assignee_id, thread.owner_id);
    follows::notify_followers_of_claim(cx, &recorded, InboxReason::ClaimUnacknowledged, concerned)?;
    Ok(true)
}

const CLEAR_DEADLINE: &str =
    "update threads set acknowledge_by = null where id = $1 and acknowledge_by <= $2";
