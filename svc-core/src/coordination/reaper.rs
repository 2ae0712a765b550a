//! The reaper: ends lapsed claims, and reports once each claim that was not acknowledged in time.
//!
//! Threads that are due are found by the indexes of their due times, across workspaces. The threads of each
//! workspace are handled in one transaction, which checks again whether they are due.

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
use crate::log::replay::Replayed;
use crate::op::{Chore, ChoreProcesses, ChoreRound, Feature, Read, Settings, StepOutcome, Write};
use crate::sync::lock;

pub(crate) fn feature() -> Feature {
    let every = |settings: &Settings| settings.reap_tick;
    let ticks = ReaperTicks::default();
    Feature::new().events(vec![EventKind::of::<ClaimUnacknowledged>()]).chore(Chore {
        name: "reaper",
        every,
        lease: LEASE,
        who: ChoreProcesses::OneLeader,
        run: Box::new(move |round| ticks.step(round)),
    })
}

/// A claim was not acknowledged in time. The claim stays live.
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

    fn replay(event: &Replayed<'_>) -> Result<()> {
        event.row_of("threads", "thread_id")?.clear("acknowledge_by").keep()
    }
}

/// Maximum threads of one workspace per step, so that no workspace delays others.
const THREADS_PER_WORKSPACE: i64 = 100;

/// The lease on the role of reaper: two ticks, after which another process takes over from one that has died.
const LEASE: Duration = Duration::from_secs(2 * REAP_TICK_SECS.unsigned_abs());

/// The ticks of the reaper, each of several steps that together handle up to [`REAP_MAX`] threads.
#[derive(Default)]
struct ReaperTicks {
    progress: Mutex<ReaperProgress>,
}

/// The progress of the reaper through the workspaces.
///
/// The reaper visits the workspaces in rounds, by their ids, so that each is visited even if others have many
/// due threads or fail. If a tick ends within a round, the next tick continues the round.
#[derive(Default)]
struct ReaperProgress {
    /// The last workspace that was checked; `None` before the first.
    last: Option<WorkspaceId>,
    /// Whether the round began in an earlier tick.
    is_continued: bool,
    /// Number of threads handled in this round.
    of_round: i64,
    of_tick: i64,
    /// The last error of a workspace in this tick.
    failed: Option<Error>,
}

impl ReaperTicks {
    /// Runs one step. Threads that are still due after the last step of a tick are handled in the next tick.
    fn step(&self, round: &ChoreRound<'_>) -> Result<StepOutcome> {
        let before = std::mem::take(&mut *lock(&self.progress));
        let (mut after, is_over) = match reap_some(round, before)? {
            ReapOutcome::Some(after) => {
                let is_over = after.of_tick >= REAP_MAX;
                (after, is_over)
            }
            // The tick ends after a whole round in which no thread was handled.
            ReapOutcome::All(after) => {
                let is_over = after.of_round == 0 && !after.is_continued;
                (ReaperProgress { last: None, is_continued: false, of_round: 0, ..after }, is_over)
            }
            ReapOutcome::NotLeading => return Ok(StepOutcome::Done),
        };
        if !is_over {
            *lock(&self.progress) = after;
            return Ok(StepOutcome::More);
        }
        let failed = after.failed.take();
        *lock(&self.progress) =
            ReaperProgress { is_continued: after.last.is_some(), of_round: 0, of_tick: 0, ..after };
        failed.map_or(Ok(StepOutcome::Done), Err)
    }
}

/// The outcome of a step.
enum ReapOutcome {
    /// The step handled the due threads of some workspaces.
    Some(ReaperProgress),
    /// The remaining workspaces of the round have no due threads.
    All(ReaperProgress),
    /// Another process is the reaper.
    NotLeading,
}

/// Handles the due threads of the next workspaces. A failure in one workspace does not affect the others.
fn reap_some(round: &ChoreRound<'_>, before: ReaperProgress) -> Result<ReapOutcome> {
    let last = before.last;
    let most = REAP_MAX.saturating_sub(before.of_tick);
    let due = round.read(move |cx| due(cx, last, most))?;
    let Some((last, _)) = due.last().copied() else { return Ok(ReapOutcome::All(before)) };
    let Some(lead) = round.lead()? else { return Ok(ReapOutcome::NotLeading) };
    let mut after = ReaperProgress { last: Some(last), ..before };
    for part in due.chunk_by(|(a, _), (b, _)| a == b) {
        let Some((workspace, _)) = part.first().copied() else { continue };
        let threads: Vec<ThreadId> = part.iter().map(|(_, thread)| *thread).collect();
        match lead.write(workspace, move |cx| reap(cx, &threads)) {
            Ok(count) => {
                after.of_round = after.of_round.saturating_add(count);
                after.of_tick = after.of_tick.saturating_add(count);
            }
            Err(error) => {
                let cause = error.cause();
                tracing::warn!(%workspace, %error, ?cause, "claims of a workspace were not reaped");
                after.failed = Some(error);
            }
        }
    }
    Ok(ReapOutcome::Some(after))
}

/// Returns the first due threads of each workspace after `last`, grouped by workspace.
fn due(cx: &Read<'_>, last: Option<WorkspaceId>, most: i64) -> Result<Vec<(WorkspaceId, ThreadId)>> {
    let after = last.map(WorkspaceId::uuid).unwrap_or_default();
    let found: BTreeSet<(WorkspaceId, ThreadId)> =
        cx.query(DUE, &[&cx.now(), &after, &THREADS_PER_WORKSPACE, &most])?.into_iter().collect();
    Ok(found.into_iter().collect())
}

/// Uses the indexes of lease ends and of acknowledgement deadlines. A thread may be due by both.
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

/// Handles those of `threads` in the caller's workspace that are still due, and returns their number.
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

/// Reports a claim that was not acknowledged in time, once per claim. Returns whether it was reported.
fn report_unacknowledged(cx: &mut Write<'_>, thread: &Thread) -> Result<bool> {
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
    let recorded = cx.emit(place, &event)?;
    let concerned = (thread.assignee_id, thread.owner_id);
    follows::notify_followers_of_claim(cx, &recorded, InboxReason::ClaimUnacknowledged, concerned)?;
    Ok(true)
}

const REMINDED: &str = "update threads set acknowledge_by = null where id = $1 and acknowledge_by <= $2";
