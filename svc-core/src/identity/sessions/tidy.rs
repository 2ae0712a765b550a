//! Removing sessions that have ended a day ago; until then they explain an audit row.

use std::time::Duration;

use crate::Result;
use crate::id::WorkspaceId;
use crate::op::{Chore, Read, Round, Step, Who, Write};
use crate::time::Time;

/// How long a session is kept after its end.
const KEPT: Duration = Duration::from_secs(86_400);
/// The time between two rounds.
const EVERY: Duration = Duration::from_secs(300);
/// The lease on removing.
const LEASE: Duration = Duration::from_secs(10);
/// Most sessions removed in one step.
const OF_ONE_STEP: i64 = 500;

pub(super) fn chore() -> Chore {
    Chore {
        name: "sessions",
        every: |_| Some(EVERY),
        lease: LEASE,
        who: Who::OneLeader,
        run: Box::new(remove_some),
    }
}

fn remove_some(round: &Round<'_>) -> Result<Step> {
    if !round.read(is_any_over)? {
        return Ok(Step::Done);
    }
    let Some(lead) = round.lead()? else { return Ok(Step::Done) };
    let removed = lead.write(WorkspaceId::INSTANCE, |cx: &mut Write<'_>| {
        cx.change(REMOVE, &[&over_since(cx), &OF_ONE_STEP])
    })?;
    Ok(if removed == 0 { Step::Done } else { Step::More })
}

/// The end of sessions that are over at the latest.
fn over_since(cx: &Read<'_>) -> Time {
    cx.now().shifted(-i64::try_from(KEPT.as_micros()).unwrap_or(i64::MAX))
}

const ANY_OVER: &str = "select 1 from sessions where coalesce(ended_at, expires_at) <= $1 limit 1";

fn is_any_over(cx: &Read<'_>) -> Result<bool> {
    Ok(cx.one::<(i64,)>(ANY_OVER, &[&over_since(cx)])?.is_some())
}

/// By the index of ends.
const REMOVE: &str = "
    delete from sessions where id in (
        select id from sessions where coalesce(ended_at, expires_at) <= $1
        order by coalesce(ended_at, expires_at) limit $2)";
