//! Rounds of pruning: one workspace after another, in steps between the jobs of others.
//!
//! The database stores the progress of the steps, so the next round continues one that ends early. It skips a
//! workspace that is under a legal hold, or whose log is broken.

use std::sync::Mutex;
use std::time::Duration;

use super::prune::{self, Walk};
use super::{due, of_workspace};
use crate::conversation::messages;
use crate::conversation::messages::PruneReason;
use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::identity::workspaces;
use crate::limits::RETENTION_WORKSPACES;
use crate::op::{Chore, Lead, Read, Round, Step, Who};
use crate::sync::lock;

pub(super) fn chore() -> Chore {
    let rounds = Rounds::default();
    Chore {
        name: "retention",
        every: |settings| settings.retention_tick,
        lease: LEASE,
        who: Who::OneLeader,
        run: Box::new(move |round| rounds.step(round)),
    }
}

/// The lease on pruning, after which another process replaces one that has died.
const LEASE: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Rounds {
    progress: Mutex<Progress>,
}

/// The progress of a round.
#[derive(Default)]
struct Progress {
    /// The last workspace without remaining work.
    last: Option<WorkspaceId>,
    /// The events that are being read before they are pruned.
    walk: Option<Box<Walk>>,
    /// The failure to report at the end of this round.
    failed: Option<Error>,
}

/// The next task for a workspace.
enum Task {
    /// Remove pruned events.
    RemoveEvents,
    RemoveMessages,
    /// Declare due events.
    PruneEvents(Box<Walk>),
    PruneMessages {
        up_to: i64,
    },
}

/// The result of a search for work.
enum Found {
    /// No work for the workspaces up to this one.
    NothingUntil(WorkspaceId),
    Task(WorkspaceId, Task),
    /// No work for the remaining workspaces.
    Nothing,
}

impl Rounds {
    fn step(&self, round: &Round<'_>) -> Result<Step> {
        let mut progress = std::mem::take(&mut *lock(&self.progress));
        let (workspace, task) = match progress.walk.take() {
            Some(walk) => (walk.workspace, Task::PruneEvents(walk)),
            None => {
                let last = progress.last;
                match round.read(move |cx| find(cx, last))? {
                    Found::Nothing => return progress.failed.map_or(Ok(Step::Done), Err),
                    Found::NothingUntil(workspace) => {
                        progress.last = Some(workspace);
                        *lock(&self.progress) = progress;
                        return Ok(Step::More);
                    }
                    Found::Task(workspace, task) => (workspace, task),
                }
            }
        };
        let Some(lead) = round.lead()? else { return Ok(Step::Done) };
        match run(round, &lead, workspace, task) {
            Ok(walk) => progress.walk = walk,
            Err(error) => {
                if error.code() != Code::LegalHold {
                    let cause = error.cause();
                    tracing::warn!(%workspace, %error, ?cause, "a workspace was not pruned");
                    progress.failed = Some(error);
                }
                progress.last = Some(workspace);
            }
        }
        *lock(&self.progress) = progress;
        Ok(Step::More)
    }
}

/// Finds the next workspace after `last` that has work.
fn find(cx: &Read<'_>, last: Option<WorkspaceId>) -> Result<Found> {
    let next = workspaces::next(cx, last, RETENTION_WORKSPACES)?;
    for workspace in &next {
        if let Some(task) = task_of(cx, *workspace)? {
            return Ok(Found::Task(*workspace, task));
        }
    }
    Ok(next.last().map_or(Found::Nothing, |workspace| Found::NothingUntil(*workspace)))
}

/// Returns the next task for a workspace: declared events are removed first.
fn task_of(cx: &Read<'_>, workspace: WorkspaceId) -> Result<Option<Task>> {
    if cx.is_under_hold(workspace)? {
        return Ok(None);
    }
    if prune::has_some_to_remove(cx, workspace)? {
        return Ok(Some(Task::RemoveEvents));
    }
    if messages::has_pruned_to_remove(cx, workspace)? {
        return Ok(Some(Task::RemoveMessages));
    }
    let kept = of_workspace(cx, workspace)?.or(cx.settings().kept);
    if let Some(due) = due::messages(cx, workspace, &kept)? {
        return Ok(Some(Task::PruneMessages { up_to: due.up_to }));
    }
    let due = due::events(cx, workspace, &kept)?;
    due.map(|due| Ok(Task::PruneEvents(Box::new(Walk::begin(cx, workspace, due)?)))).transpose()
}

/// Runs one step of a task. Returns the walk if that is to be continued.
fn run(
    round: &Round<'_>,
    lead: &Lead<'_, '_>,
    workspace: WorkspaceId,
    task: Task,
) -> Result<Option<Box<Walk>>> {
    match task {
        Task::RemoveEvents => lead.write(workspace, |cx| {
            let permit = cx.permit()?;
            prune::remove_some(cx, &permit).map(|_| None)
        }),
        Task::RemoveMessages => lead.write(workspace, |cx| {
            let permit = cx.permit()?;
            messages::remove_pruned(cx, &permit).map(|()| None)
        }),
        Task::PruneMessages { up_to } => lead.write(workspace, move |cx| {
            let permit = cx.permit()?;
            messages::prune(cx, &permit, up_to, PruneReason::Retention).map(|_| None)
        }),
        Task::PruneEvents(mut walk) => {
            if !walk.is_done() {
                return round.read(move |cx| walk.read_on(cx).map(|()| Some(walk.clone())));
            }
            lead.write(workspace, move |cx| {
                let permit = cx.permit()?;
                walk.declare(cx, &permit).map(|()| None)
            })
        }
    }
}
