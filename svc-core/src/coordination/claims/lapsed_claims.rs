//! Finds the lapsed claims of a workspace, once for all jobs of a batch.
//!
//! If no claim has lapsed, the lookup also returns a time until which none will, so later jobs need no
//! lookup.

use std::time::Duration;

use crate::Result;
use crate::id::ThreadId;
use crate::log::cache::{Cached, Lifetime, ONLY};
use crate::op::Read;
use crate::time::Time;

/// A time before which no claim of the workspace lapses, as far as this batch knows.
#[derive(Clone, Copy)]
struct NoLapseUntil(Time);

impl Cached for NoLapseUntil {
    const LIFETIME: Lifetime = Lifetime::Transaction;
}

/// Returns the first threads of the caller's workspace whose claims have lapsed, ordered by lease end.
pub(super) fn lapsed(cx: &Read<'_>) -> Result<Vec<ThreadId>> {
    if cx.cached(&ONLY).is_some_and(|NoLapseUntil(next)| cx.now() < next) {
        return Ok(Vec::new());
    }
    let horizon = cx.now().plus(LOOK_AHEAD);
    let ending: Vec<(ThreadId, Time)> = cx.query(ENDING, &[&cx.caller().workspace_id, &horizon])?;
    let (lapsed, live): (Vec<_>, Vec<_>) = ending.into_iter().partition(|(_, until)| *until <= cx.now());
    if lapsed.is_empty() {
        let next = live.first().map_or(horizon, |(_, until)| *until);
        cx.keep(&ONLY, NoLapseUntil(next));
    }
    Ok(lapsed.into_iter().map(|(thread, _)| thread).collect())
}

/// Records that a new or changed claim lapses at `until`, which may be before the cached time.
///
/// A budget can leave a claim less time than a lookup searches ahead.
pub(super) fn lapses_at(cx: &Read<'_>, until: Time) {
    if cx.cached(&ONLY).is_some_and(|NoLapseUntil(next)| until < next) {
        cx.keep(&ONLY, NoLapseUntil(until));
    }
}

/// How far ahead a lookup searches for claims that lapse.
const LOOK_AHEAD: Duration = Duration::from_secs(1);

const ENDING: &str = "
    select id, assignment_expires_at from threads where workspace_id = $1 and assignment_expires_at <= $2
        and assignment_expires_at is not null
    order by assignment_expires_at, id limit 128";
