//! Chores that settle due objects: rows of a workspace whose stored end time has passed.
//!
//! A round visits each due object once, ordered by end time. It continues after a failure, so that one object
//! cannot block others. Even before an object is settled, every read treats it as ended.

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

/// Maximum number of due objects that one step settles.
const OBJECTS_PER_STEP: i64 = 200;
/// Duration of the chore's lease: two intervals between rounds. If the process with the lease dies, another
/// process replaces it after this time.
const LEASE: Duration = Duration::from_secs(2 * REAP_TICK_SECS.unsigned_abs());

/// How a chore finds and settles the due objects of one kind.
pub(crate) struct DueObjects {
    /// SQL that selects the next `$4` objects that have ended by `$1`, after the end `$2` and the id `$3`.
    ///
    /// The columns are end, id and workspace; the order is by end and id.
    pub next: &'static str,
    /// Settles the given objects of the caller's workspace, except objects that are no longer due.
    pub settle: fn(&mut Write<'_>, &[Uuid]) -> Result<()>,
}

impl DueObjects {
    /// Returns the chore that settles the due objects, at the interval of the claim reaper.
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

    /// Settles the next due objects. Returns the progress of the round, or `None` at the end of the round.
    ///
    /// A failure in one workspace does not affect other workspaces. The latest failure is returned at the end
    /// of the round.
    fn settle_some(
        &self,
        name: &'static str,
        round: &ChoreRound<'_>,
        before: RoundProgress,
    ) -> Result<Option<RoundProgress>> {
        let RoundProgress { last_visited: (end, id), mut latest_failure } = before;
        let next = self.next;
        let settle = self.settle;
        let due: Vec<(Time, Uuid, WorkspaceId)> =
            round.read(move |cx| cx.query(next, &[&cx.now(), &end, &id, &OBJECTS_PER_STEP]))?;
        let Some((end, id, _)) = due.last().copied() else { return latest_failure.map_or(Ok(None), Err) };
        let Some(lead) = round.lead()? else { return Ok(None) };
        let mut of_workspaces: BTreeMap<WorkspaceId, Vec<Uuid>> = BTreeMap::new();
        for (_, thing, workspace) in due {
            of_workspaces.entry(workspace).or_default().push(thing);
        }
        for (workspace, things) in of_workspaces {
            if let Err(error) = lead.write(workspace, move |cx| settle(cx, &things)) {
                let cause = error.cause();
                tracing::warn!(%workspace, chore = name, %error, ?cause, "due objects were not settled");
                latest_failure = Some(error);
            }
        }
        Ok(Some(RoundProgress { last_visited: (end, id), latest_failure }))
    }
}

/// The progress of a round over the due objects.
struct RoundProgress {
    /// End time and id of the last visited object.
    last_visited: (Time, Uuid),
    /// Latest failure, to report at the end of the round.
    latest_failure: Option<Error>,
}

impl Default for RoundProgress {
    fn default() -> Self {
        Self { last_visited: (Time::from_micros(i64::MIN), Uuid::nil()), latest_failure: None }
    }
}
