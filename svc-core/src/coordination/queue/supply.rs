//! The number of threads that an event may have made ready, for callers who wait for a thread to claim.

use uuid::Uuid;

use super::next::{FootprintChecks, QueueFindings, first_free};
use super::{parked, returning};
use crate::Result;
use crate::conversation::visibility::audience;
use crate::id::{MemberId, ThreadId};
use crate::log::cache::ONLY;
use crate::log::event::Subject;
use crate::op::Read;

/// Returns how many threads are ready among those that an event at `place` may have made ready.
///
/// For an event of a thread, these are the thread itself, the threads that waited for it and those that it
/// blocked; for an event of a channel, the threads of the channel. An event about one member counts as one,
/// and one about the workspace as the maximum. Threads that become ready when lapsed claims end are counted
/// too, because no event reports them.
pub(in crate::coordination) fn supply(cx: &Read<'_>, place: &Subject) -> Result<usize> {
    let count = match (place.thread_id, place.channel_id, place.member_id) {
        (Some(thread), _, holder) => {
            let ready = cx.one::<(i64,)>(READY_BY_THREAD, &[&thread])?.map_or(0, |(count,)| count);
            let frees = may_free(cx, thread, holder)?;
            let freed =
                if frees { cached_count(cx, |found| &mut found.freed, count_unobstructed)? } else { 0 };
            let left = cached_count(cx, |found| &mut found.left_by_lapsed, left_by_lapsed)?;
            ready.saturating_add(freed).saturating_add(left).min(SUPPLY_MAX)
        }
        (None, Some(channel), None) => {
            cx.one::<(i64,)>(READY_BY_CHANNEL, &[&channel])?.map_or(0, |(count,)| count)
        }
        (None, None, None) => SUPPLY_MAX,
        _ => 1,
    };
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Returns a count that is the same for every event, computed once per snapshot.
fn cached_count(
    cx: &Read<'_>,
    place: fn(&mut QueueFindings) -> &mut Option<i64>,
    count: fn(&Read<'_>, &mut FootprintChecks<'_>) -> Result<i64>,
) -> Result<i64> {
    cx.with_cached(&ONLY, |found: &mut QueueFindings| {
        if let Some(known) = place(found) {
            return Ok(*known);
        }
        let counted = count(cx, &mut FootprintChecks::beginning(&mut found.free))?;
        *place(found) = Some(counted);
        Ok(counted)
    })
}

/// Maximum supply to count: the next waiting caller to be answered may count again.
const SUPPLY_MAX: i64 = 100;

/// Returns whether an event of a thread may have unblocked other threads.
///
/// It may if a claim has ended, or if the footprint of a claimed thread was changed. The beginning of a claim
/// unblocks nothing. `holder` is the member that the event is about, if its holder changed.
fn may_free(cx: &Read<'_>, thread: ThreadId, holder: Option<MemberId>) -> Result<bool> {
    let found: Option<(bool,)> = cx.one(IS_CLAIMED, &[&thread, &cx.caller().workspace_id])?;
    Ok(found.is_some_and(|(is_claimed,)| is_claimed != holder.is_some()))
}

const IS_CLAIMED: &str = "select assignee_id is not null from threads where id = $1 and workspace_id = $2";

/// Counts the conflict-free footprints of ready threads, and the parked groups that would replace blocked
/// ones.
///
/// A parked group counts if a thread of it without a conflict would return in place of a blocked thread of
/// the queue. The footprint of an ended claim may have been changed since, so all footprints are checked, not
/// only those that overlap it. If there are too many to check, one more is assumed to be free.
fn count_unobstructed(cx: &Read<'_>, checks: &mut FootprintChecks<'_>) -> Result<i64> {
    let footprints: Vec<(Uuid, i64)> =
        cx.query(READY_FOOTPRINTS, &[&cx.caller().workspace_id, &SUPPLY_MAX])?;
    let mut count = i64::from(i64::try_from(footprints.len()).is_ok_and(|found| found >= SUPPLY_MAX));
    for (pool, footprint) in footprints {
        if checks.is_free(cx, footprint)? {
            count = count.saturating_add(1);
            continue;
        }
        for (_, group) in parked::following(cx, &pool, footprint)? {
            count = count.saturating_add(i64::from(first_free(cx, group, checks)?.is_some()));
        }
    }
    Ok(count)
}

/// Steps from one footprint to the next in each pool of a workspace, by the index of footprints.
const READY_FOOTPRINTS: &str = concat!(
    "with recursive pools (pool) as (
        select $1
        union all
        select c.id from channels c
        where c.workspace_id = $1 and not c.dm and c.workspace_id <> ",
    audience!(c),
    " and exists (select 1 from ready r where r.pool = c.id and r.footprint <> 0)),
    walk (pool, footprint) as (
        select p.pool, (
            select r.footprint from ready r where r.pool = p.pool and r.footprint <> 0
            order by r.footprint limit 1)
        from pools p
        union all
        select w.pool, (
            select r.footprint from ready r
            where r.pool = w.pool and r.footprint > w.footprint and r.footprint <> 0
            order by r.footprint limit 1)
        from walk w where w.footprint is not null)
    select pool, footprint from walk where footprint is not null limit $2"
);

/// Counts the threads and groups that will have a claimable thread once lapsed claims are ended.
fn left_by_lapsed(cx: &Read<'_>, checks: &mut FootprintChecks<'_>) -> Result<i64> {
    let mut count = 0_i64;
    for group in returning::threads_to_return(cx, |_| true)? {
        count = count.saturating_add(i64::from(first_free(cx, group, checks)?.is_some()));
    }
    Ok(count)
}

/// Counts the thread and its dependents that are ready, up to [`SUPPLY_MAX`].
const READY_BY_THREAD: &str = "
    select count(*) from (
        select 1 from ready where thread_id = $1
        union all
        select 1 from thread_dependencies d join ready r on r.thread_id = d.thread_id
        where d.depends_on_id = $1
        limit 100) counted";

const READY_BY_CHANNEL: &str =
    "select count(*) from (select 1 from ready where channel_id = $1 limit 100) counted";
