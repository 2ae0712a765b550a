//! Deleting rows, such as sessions, some time after they ended.
//!
//! Until its row is deleted, an ended session helps to explain the audit rows that refer to it.

use std::time::Duration;

use crate::Result;
use crate::id::WorkspaceId;
use crate::op::{Chore, ChoreProcesses, ChoreRound, Read, StepOutcome, Write};
use crate::time::Time;

/// Time for which rows of most tables are kept after they ended.
pub(crate) const ENDED_ROWS_KEPT: Duration = Duration::from_secs(86_400);
/// Time between two rounds of deletion.
const INTERVAL: Duration = Duration::from_secs(300);
/// Lease of the process that deletes ended rows, as the leader of the chore.
const LEASE: Duration = Duration::from_secs(10);
/// Maximum rows that one step of the chore deletes.
const STEP_ROWS_MAX: i64 = 500;

pub(super) fn sessions_chore() -> Chore {
    ended_rows_chore("sessions", ENDED_ROWS_KEPT, ANY_OVER, REMOVE)
}

/// Returns a chore that deletes rows after the time `kept` has passed since they ended.
///
/// The statement `any` selects 1 if a row ended at `$1` or earlier. The statement `remove` deletes the first
/// `$2` of these rows.
pub(crate) fn ended_rows_chore(
    name: &'static str,
    kept: Duration,
    any: &'static str,
    remove: &'static str,
) -> Chore {
    Chore {
        name,
        every: |_| Some(INTERVAL),
        lease: LEASE,
        who: ChoreProcesses::OneLeader,
        run: Box::new(move |round| remove_some(round, kept, any, remove)),
    }
}

fn remove_some(
    round: &ChoreRound<'_>,
    kept: Duration,
    any: &'static str,
    remove: &'static str,
) -> Result<StepOutcome> {
    if !round.read(move |cx| Ok(cx.one::<(i64,)>(any, &[&removal_cutoff(cx, kept)])?.is_some()))? {
        return Ok(StepOutcome::Done);
    }
    let Some(lead) = round.lead()? else { return Ok(StepOutcome::Done) };
    let removed = lead.write(WorkspaceId::INSTANCE, move |cx: &mut Write<'_>| {
        cx.change(remove, &[&removal_cutoff(cx, kept), &STEP_ROWS_MAX])
    })?;
    Ok(if removed == 0 { StepOutcome::Done } else { StepOutcome::More })
}

/// Returns the latest end time of rows to delete.
fn removal_cutoff(cx: &Read<'_>, kept: Duration) -> Time {
    cx.now().shifted(-i64::try_from(kept.as_micros()).unwrap_or(i64::MAX))
}

const ANY_OVER: &str = "select 1 from sessions where coalesce(ended_at, expires_at) <= $1 limit 1";

/// Deletes the first ended sessions. Uses the index of end times.
const REMOVE: &str = "
    delete from sessions where id in (
        select id from sessions where coalesce(ended_at, expires_at) <= $1
        order by coalesce(ended_at, expires_at) limit $2)";
