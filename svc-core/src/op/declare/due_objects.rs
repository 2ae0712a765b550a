//! Chores that settle due objects: rows of a workspace that end at a stored time.
//!
//! A round goes through the due objects once, ordered by end, so every object is reached even if others fail
//! before it. Every read treats a due object as ended before it is settled.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use uuid::Uuid;

use crate::Result;
use crate::error::Error;
use crate::id::WorkspaceId;
use crate::limits::REAP_TICK_SECS;
use crate::op::declare::chore::{Chore, ChoreProcesses, ChoreRound, StepOutcome};
use crate::op::run::context::Write;
use crate::sync::lock;
use crate::time::Time;

/// Maximum number of objects per step.
const OBJECTS_PER_STEP: i64 = 200;
/// Duration of the chore's lease: two rounds, after which another process replaces one that has died.
const LEASE: Duration = Duration::from_secs(2 * REAP_TICK_SECS.unsigned_abs());

/// How due objects of a kind are found and settled.
pub(crate) struct DueObjects {
    /// Selects end, id and workspace of the first `$4` objects that have ended by `$1` and come after the end
    /// `$2` and the id `$3`, in that order.
    pub next: &'static str,
    /// Settles the given objects of the caller's workspace that are still due.
    pub settle: fn(&mut Write<'_>, &[Uuid]) -> Result<()>,
}

impl DueObjects {
    /// Returns the chore that settles the objects, at the reaper's interval.
    pub fn chore(self, name: &'static str) -> Chore {
        let progress = Mutex::new(RoundProgress::default());
        Chore {
            name,
            every: |settings| settings.reap_tick,
            lease: LEASE,
            who: ChoreProcesses::OneLeader,
            run: Box::new(move |round| {
                let before = std::mem::take(&mut *lock(&progress));
                match self.settle_some(name, round, before)? {
                    Some(after) => {
                        *lock(&progress) = after;
                        Ok(StepOutcome::More)
                    }
                    None => Ok(StepOutcome::Done),
                }
            }),
        }
    }

    /// Runs one step, and returns the progress of the round, or `None` at the end of the round.
    ///
    /// A failure in one workspace does not affect others, and is reported at the end.
    fn settle_some(
        &self,
        name: &'static str,
        round: &ChoreRound<'_>,
        before: RoundProgress,
    ) -> Result<Option<RoundProgress>> {
        let RoundProgress { last: (end, id), mut failed } = before;
        let next = self.next;
        let settle = self.settle;
        let due: Vec<(Time, Uuid, WorkspaceId)> =
            round.read(move |cx| cx.query(next, &[&cx.now(), &end, &id, &OBJECTS_PER_STEP]))?;
        let Some((end, id, _)) = due.last().copied() else { return failed.map_or(Ok(None), Err) };
        let Some(lead) = round.lead()? else { return Ok(None) };
        let mut of_workspaces: BTreeMap<WorkspaceId, Vec<Uuid>> = BTreeMap::new();
        for (_, thing, workspace) in due {
            of_workspaces.entry(workspace).or_default().push(thing);
        }
        for (workspace, things) in of_workspaces {
            if let Err(error) = lead.write(workspace, move |cx| settle(cx, &things)) {
                let cause = error.cause();
                tracing::warn!(%workspace, chore = name, %error, ?cause, "what is due was not settled");
                failed = Some(error);
            }
        }
        Ok(Some(RoundProgress { last: (end, id), failed }))
    }
}

/// The progress of a round over the due objects.
struct RoundProgress {
    /// End and id of the last visited object.
    last: (Time, Uuid),
    /// The failure to report at the end of the round.
    failed: Option<Error>,
}

impl Default for RoundProgress {
    fn default() -> Self {
        Self { last: (Time::from_micros(i64::MIN), Uuid::nil()), failed: None }
    }
}
