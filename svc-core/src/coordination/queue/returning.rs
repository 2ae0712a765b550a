//! Threads that will return to the queue once the lapsed claims of a workspace are ended.
//!
//! A lapsed claim blocks nothing, but its thread, and the threads parked behind it, enter the queue only when
//! the claim is ended. A claiming operation ends the claim first. A read cannot, so this file finds the
//! threads that a claiming operation would find.

use super::heads::NextThread;
use super::parked::{self, QueuePlace};
use crate::Result;
use crate::conversation::visibility::audience;
use crate::coordination::budget;
use crate::coordination::obstacles::Obstacle;
use crate::coordination::rules::is_claimable_if_unclaimed;
use crate::coordination::thread_row::thread_of_workspace;
use crate::id::ThreadId;
use crate::op::Read;
use crate::store::{FromRow, Row};

/// Returns the wanted threads that would enter the queue if the lapsed claims were ended.
///
/// Each list is one group, in order, and contributes its first thread that has no conflict. Covers the first
/// [`LAPSED_MAX`] lapsed claims.
pub(super) fn find_returning_threads(
    cx: &Read<'_>,
    is_wanted: impl Fn(&QueuePlace) -> bool,
) -> Result<Vec<Vec<NextThread>>> {
    let mut groups = Vec::new();
    let workspace = cx.caller().workspace_id;
    let lapsed: Vec<LapsedThread> = cx.query(LAPSED, &[&workspace, &cx.now(), &LAPSED_MAX])?;
    let has_footprints = lapsed.iter().any(|lapsed| lapsed.next.footprint != 0);
    for LapsedThread { is_ready_if_unclaimed, is_budgeted, next, queue_place } in lapsed {
        if is_ready_if_unclaimed
            && is_wanted(&queue_place)
            && !(is_budgeted && has_lapsed_over_budget(cx, next.thread_id)?)
        {
            groups.push(vec![next]);
        }
    }
    if has_footprints {
        let obstacles: Vec<(Obstacle,)> = cx.query(WAITED_FOR, &[&workspace, &cx.now(), &LAPSED_MAX])?;
        for (obstacle,) in obstacles {
            groups.extend(parked::load_groups_behind(cx, obstacle, &is_wanted)?);
        }
    }
    Ok(groups)
}

/// A thread with a lapsed claim.
struct LapsedThread {
    /// Whether the thread would be in the queue if it were not claimed.
    is_ready_if_unclaimed: bool,
    /// Whether the thread's budget has limits.
    is_budgeted: bool,
    next: NextThread,
    queue_place: QueuePlace,
}

impl FromRow for LapsedThread {
    fn from_row(row: &mut Row) -> Result<Self> {
        let is_ready_if_unclaimed = row.take()?;
        let is_budgeted = row.take()?;
        let urgency = row.take()?;
        let lsn = row.take()?;
        let thread_id = row.take()?;
        let channel_id = row.take()?;
        let footprint = row.take()?;
        let next = NextThread { urgency, lsn, thread_id, channel_id, footprint };
        let pool = row.take()?;
        let skill_set = row.take()?;
        let repo_key = row.take()?;
        Ok(Self {
            is_ready_if_unclaimed,
            is_budgeted,
            next,
            queue_place: QueuePlace { pool, channel: channel_id, skill_set, repo_key },
        })
    }
}

/// Maximum lapsed claims that one read covers.
const LAPSED_MAX: i64 = 256;

const LAPSED: &str = concat!(
    "select ",
    is_claimable_if_unclaimed!(),
    " and c.archived_at is null, t.budgeted, -t.priority, t.lsn, t.id, t.channel_id, t.footprint, ",
    audience!(c),
    ", t.skill_set, coalesce(f.repo_key, '')
     from threads t join channels c on c.id = t.channel_id
     left join footprints f on f.workspace_id = t.workspace_id and f.id = t.footprint
     where t.workspace_id = $1 and t.assignment_expires_at <= $2 and t.assignment_expires_at is not null
     order by t.assignment_expires_at, t.id limit $3"
);

/// Selects the obstacles, among the items of lapsed claims, behind which threads are parked, up to a limit.
const WAITED_FOR: &str = "
    select distinct l.obstacle from (
        select t.id from threads t
        where t.workspace_id = $1 and t.assignment_expires_at <= $2 and t.assignment_expires_at is not null
        order by t.assignment_expires_at, t.id limit $3) t
    join live_items l on l.thread_id = t.id
    where exists (select 1 from parked p where p.obstacle = l.obstacle)
    order by l.obstacle limit 256";

fn has_lapsed_over_budget(cx: &Read<'_>, thread: ThreadId) -> Result<bool> {
    thread_of_workspace(cx, thread)?.map_or(Ok(false), |thread| budget::has_lapsed_over_budget(cx, &thread))
}
