//! Rounds of pruning: one workspace after another, in steps between other jobs.
//!
//! The database stores the progress of the steps, so if a round ends early, the next round continues there. A
//! round skips workspaces that are under a legal hold or whose log is broken.

use std::sync::Mutex;
use std::time::Duration;

use super::prune::{self, PruneWalk};
use super::{due, load_workspace_retention};
use crate::conversation::messages;
use crate::conversation::messages::PruneReason;
use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::identity::workspaces;
use crate::limits::RETENTION_STEP_WORKSPACES_MAX;
use crate::op::{Chore, ChoreLease, ChoreProcesses, ChoreRound, Read, StepOutcome};
use crate::sync::lock;

pub(super) fn chore() -> Chore {
    let rounds = PruningRounds::default();
    Chore {
        name: "retention",
        every: |settings| settings.retention_tick,
        lease: LEASE,
        who: ChoreProcesses::OneLeader,
        run: Box::new(move |round| rounds.run_step(round)),
    }
}

/// Duration of the lease of the process that prunes. If that process dies, another one takes over after the
/// lease expires.
const LEASE: Duration = Duration::from_secs(10);

#[derive(Default)]
struct PruningRounds {
    progress: Mutex<RoundProgress>,
}

/// The progress of a round of pruning.
#[derive(Default)]
struct RoundProgress {
    /// The last workspace for which no work remains in this round.
    last_workspace: Option<WorkspaceId>,
    /// The walk over the events that are being read before they are pruned.
    walk: Option<Box<PruneWalk>>,
    /// The error to report at the end of this round.
    error: Option<Error>,
}

/// The next pruning task for a workspace.
enum PruningTask {
    /// Remove events that were declared as pruned.
    RemoveEvents,
    /// Remove the rows of messages that were pruned.
    RemoveMessages,
    /// Declare due events as pruned, after reading them.
    PruneEvents(Box<PruneWalk>),
    /// Prune the messages up to a position.
    PruneMessages { up_to: i64 },
}

/// The result of a search for the next pruning task.
enum SearchResult {
    /// No workspace up to this one has pruning work.
    NoneUpTo(WorkspaceId),
    Task(WorkspaceId, PruningTask),
    /// None of the remaining workspaces has pruning work.
    EndOfRound,
}

impl PruningRounds {
    /// Runs one step of a round of pruning: searches for a task, or runs a step of the task found.
    fn run_step(&self, round: &ChoreRound<'_>) -> Result<StepOutcome> {
        let mut progress = std::mem::take(&mut *lock(&self.progress));
        let (workspace, task) = match progress.walk.take() {
            Some(walk) => (walk.workspace, PruningTask::PruneEvents(walk)),
            None => {
                let last = progress.last_workspace;
                match round.read(move |cx| find_next_task(cx, last))? {
                    SearchResult::EndOfRound => return progress.error.map_or(Ok(StepOutcome::Done), Err),
                    SearchResult::NoneUpTo(workspace) => {
                        progress.last_workspace = Some(workspace);
                        *lock(&self.progress) = progress;
                        return Ok(StepOutcome::More);
                    }
                    SearchResult::Task(workspace, task) => (workspace, task),
                }
            }
        };
        let Some(lead) = round.lead()? else { return Ok(StepOutcome::Done) };
        match run_task(round, &lead, workspace, task) {
            Ok(walk) => progress.walk = walk,
            Err(error) => {
                if error.code() != Code::LegalHold {
                    let cause = error.cause();
                    tracing::warn!(%workspace, %error, ?cause, "a workspace was not pruned");
                    progress.error = Some(error);
                }
                progress.last_workspace = Some(workspace);
            }
        }
        *lock(&self.progress) = progress;
        Ok(StepOutcome::More)
    }
}

/// Finds the next workspace after `last` that has pruning work.
fn find_next_task(cx: &Read<'_>, last: Option<WorkspaceId>) -> Result<SearchResult> {
    let next = workspaces::next(cx, last, RETENTION_STEP_WORKSPACES_MAX)?;
    for workspace in &next {
        if let Some(task) = next_task(cx, *workspace)? {
            return Ok(SearchResult::Task(*workspace, task));
        }
    }
    Ok(next.last().map_or(SearchResult::EndOfRound, |workspace| SearchResult::NoneUpTo(*workspace)))
}

/// Returns the next pruning task for a workspace, if any. Removing declared events comes first.
fn next_task(cx: &Read<'_>, workspace: WorkspaceId) -> Result<Option<PruningTask>> {
    if cx.is_under_hold(workspace)? {
        return Ok(None);
    }
    if prune::has_events_to_remove(cx, workspace)? {
        return Ok(Some(PruningTask::RemoveEvents));
    }
    if messages::has_pruned_rows(cx, workspace)? {
        return Ok(Some(PruningTask::RemoveMessages));
    }
    let kept = load_workspace_retention(cx, workspace)?.or(cx.settings().kept);
    if let Some(due) = due::find_due_messages(cx, workspace, &kept)? {
        return Ok(Some(PruningTask::PruneMessages { up_to: due.up_to }));
    }
    let due = due::find_due_events(cx, workspace, &kept)?;
    due.map(|due| Ok(PruningTask::PruneEvents(Box::new(PruneWalk::begin(cx, workspace, due)?)))).transpose()
}

/// Runs one step of a task. Returns the walk if it must be continued.
fn run_task(
    round: &ChoreRound<'_>,
    lead: &ChoreLease<'_, '_>,
    workspace: WorkspaceId,
    task: PruningTask,
) -> Result<Option<Box<PruneWalk>>> {
    match task {
        PruningTask::RemoveEvents => lead.write(workspace, |cx| {
            let permit = cx.permit()?;
            prune::remove_some_events(cx, &permit).map(|_| None)
        }),
        PruningTask::RemoveMessages => lead.write(workspace, |cx| {
            let permit = cx.permit()?;
            messages::remove_pruned_batch(cx, &permit).map(|()| None)
        }),
        PruningTask::PruneMessages { up_to } => lead.write(workspace, move |cx| {
            let permit = cx.permit()?;
            messages::prune(cx, &permit, up_to, PruneReason::Retention).map(|_| None)
        }),
        PruningTask::PruneEvents(mut walk) => {
            if !walk.is_done() {
                return round.read(move |cx| walk.read_next(cx).map(|()| Some(walk.clone())));
            }
            lead.write(workspace, move |cx| {
                let permit = cx.permit()?;
                walk.declare_pruned(cx, &permit).map(|()| None)
            })
        }
    }
}
