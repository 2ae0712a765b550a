//! Finds the lapsed claims of a workspace, once for all jobs of a batch.
//!
//! If no claim has lapsed, the lookup also caches a time before which no claim will lapse, so that later jobs
//! need no lookup.

use std::time::Duration;

use crate::Result;
use crate::coordination::thread_row::EarliestLapse;
use crate::id::ThreadId;
use crate::log::cache::SINGLE_ENTRY;
use crate::op::Read;
use crate::time::Time;

/// Returns the first threads of the caller's workspace whose claims have lapsed, ordered by lease end.
pub(super) fn threads_with_lapsed_claims(cx: &Read<'_>) -> Result<Vec<ThreadId>> {
    if cx.cached(&SINGLE_ENTRY).is_some_and(|EarliestLapse(next)| cx.now() < next) {
        return Ok(Vec::new());
    }
    let horizon = cx.now().plus(LOOK_AHEAD);
    let ending: Vec<(ThreadId, Time)> = cx.query(ENDING, &[&cx.caller().workspace_id, &horizon])?;
    let (lapsed, live): (Vec<_>, Vec<_>) = ending.into_iter().partition(|(_, until)| *until <= cx.now());
    if lapsed.is_empty() {
        let next = live.first().map_or(horizon, |(_, until)| *until);
        cx.keep(&SINGLE_ENTRY, EarliestLapse(next));
    }
    Ok(lapsed.into_iter().map(|(thread, _)| thread).collect())
}

/// Period for which a lookup also finds claims that will lapse soon.
const LOOK_AHEAD: Duration = Duration::from_secs(1);

const ENDING: &str = "
    select id, assignment_expires_at from threads where workspace_id = $1 and assignment_expires_at <= $2
        and assignment_expires_at is not null
    order by assignment_expires_at, id limit 128";
