//! Deleting rows, such as sessions, some time after they ended.
//!
//! Until its row is deleted, an ended session helps to explain the audit rows that refer to it.

use std::time::Duration;

use crate::Result;
use crate::id::WorkspaceId;
use crate::op::{Chore, ChoreProcesses, ChoreRound, Read, StepOutcome, Write};
use crate::time::Time;

/// Time for which rows of most tables are kept after they ended.
pub(crate) const ENDED_ROWS_RETENTION: Duration = Duration::from_secs(86_400);
/// Time between two rounds of deletion.
const DELETION_INTERVAL: Duration = Duration::from_secs(300);
/// Duration of the lease that makes one process the leader of the chore. Only the leader deletes rows.
const LEADER_LEASE: Duration = Duration::from_secs(10);
/// Maximum rows that one step of the chore deletes.
const STEP_ROWS_MAX: i64 = 500;

/// Returns the chore that deletes ended sessions.
pub(super) fn sessions_chore() -> Chore {
    ended_rows_chore("sessions", ENDED_ROWS_RETENTION, ANY_ENDED_SESSION, REMOVE_ENDED_SESSIONS)
}

/// Returns a chore that deletes rows after the time `retention` has passed since they ended.
///
/// The statement `any_ended` selects 1 if a row ended at `$1` or earlier. The statement `remove_ended`
/// deletes the first `$2` of these rows.
pub(crate) fn ended_rows_chore(
    name: &'static str,
    retention: Duration,
    any_ended: &'static str,
    remove_ended: &'static str,
) -> Chore {
    Chore {
        name,
        every: |_| Some(DELETION_INTERVAL),
        lease: LEADER_LEASE,
        who: ChoreProcesses::OneLeader,
        run: Box::new(move |round| remove_ended_rows(round, retention, any_ended, remove_ended)),
    }
}

/// Deletes the first rows that ended long enough ago, and returns whether more of them may remain.
fn remove_ended_rows(
    round: &ChoreRound<'_>,
    retention: Duration,
    any_ended: &'static str,
    remove_ended: &'static str,
) -> Result<StepOutcome> {
    if !round.read(move |cx| Ok(cx.one::<(i64,)>(any_ended, &[&removal_cutoff(cx, retention)])?.is_some()))? {
        return Ok(StepOutcome::Done);
    }
    let Some(lead) = round.lead()? else { return Ok(StepOutcome::Done) };
    let removed = lead.write(WorkspaceId::INSTANCE, move |cx: &mut Write<'_>| {
        cx.change(remove_ended, &[&removal_cutoff(cx, retention), &STEP_ROWS_MAX])
    })?;
    Ok(if removed == 0 { StepOutcome::Done } else { StepOutcome::More })
}

/// Returns the latest end time of rows to delete.
fn removal_cutoff(cx: &Read<'_>, retention: Duration) -> Time {
    cx.now().shifted(-i64::try_from(retention.as_micros()).unwrap_or(i64::MAX))
}

const ANY_ENDED_SESSION: &str = "select 1 from sessions where coalesce(ended_at, expires_at) <= $1 limit 1";

/// Deletes the first ended sessions. Uses the index of end times.
const REMOVE_ENDED_SESSIONS: &str = "
    delete from sessions where id in (
        select id from sessions where coalesce(ended_at, expires_at) <= $1
        order by coalesce(ended_at, expires_at) limit $2)";
