//! Which claims of a workspace have lapsed, looked up once for many jobs.
//!
//! A lookup also finds out until when no other claim lapses, so that the jobs after it need not look.

use std::time::Duration;

use uuid::Uuid;

use crate::Result;
use crate::id::ThreadId;
use crate::log::batch::BatchMemo;
use crate::op::{Read, Write};
use crate::store::RowWrite;
use crate::time::Time;

/// Until when no claim of the workspace lapses, as far as is known.
#[derive(Default)]
struct NoneBefore(Option<Time>);

impl BatchMemo for NoneBefore {
    const TABLES: &'static [&'static str] = &["threads"];

    fn changed(&mut self) {
        self.0 = None;
    }

    /// A claim that ends lapses no more, and each new lease is [reported](lapses_at).
    fn row_changed(&mut self, _: &'static RowWrite, _: Uuid) {}
}

/// Reports when the claim lapses that has begun or got another lease.
pub(super) fn lapses_at(cx: &Write<'_>, until: Time) {
    let _: Option<()> = cx.memo(|next: &mut NoneBefore| next.0 = next.0.map(|next| next.min(until)));
}

/// Returns the first threads of the caller's workspace whose claims have lapsed; none if there are none.
pub(super) fn lapsed(cx: &Read<'_>) -> Result<Vec<ThreadId>> {
    let known = cx.memo(|next: &mut NoneBefore| next.0).flatten();
    if known.is_some_and(|next| cx.now() < next) {
        return Ok(Vec::new());
    }
    let horizon = cx.now().plus(LOOK_AHEAD);
    let ending: Vec<(ThreadId, Time)> = cx.query(ENDING, &[&cx.caller().workspace_id, &horizon])?;
    let (lapsed, live): (Vec<_>, Vec<_>) = ending.into_iter().partition(|(_, until)| *until <= cx.now());
    if lapsed.is_empty() {
        let next = live.first().map_or(horizon, |(_, until)| *until);
        let _: Option<()> = cx.memo(|known: &mut NoneBefore| known.0 = Some(next));
    }
    Ok(lapsed.into_iter().map(|(thread, _)| thread).collect())
}

/// How far ahead a lookup looks.
const LOOK_AHEAD: Duration = Duration::from_secs(1);

const ENDING: &str = "
    select id, assignment_expires_at from threads where workspace_id = $1 and assignment_expires_at <= $2
        and assignment_expires_at is not null
    order by assignment_expires_at, id limit 128";
