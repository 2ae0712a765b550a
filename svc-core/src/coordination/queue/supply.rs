//! Counts the threads that an event may have made ready. The count limits the number of waiting callers to
//! poll.

use uuid::Uuid;

use super::next::{FootprintChecks, QueueLookups, first_without_conflict};
use super::{parked, returning};
use crate::Result;
use crate::conversation::visibility::audience;
use crate::id::{MemberId, ThreadId};
use crate::log::cache::SINGLE_ENTRY;
use crate::log::event::Subject;
use crate::op::Read;

/// Counts the ready threads that an event with this `subject` may have made ready.
///
/// For an event of a thread, these are the thread itself, the threads that waited for it and the threads that
/// it blocked; for an event of a channel, the threads of the channel. An event of one member counts as one
/// thread, and an event of the workspace as the maximum. Threads that become ready when lapsed claims end are
/// counted too, because no event reports them.
pub(in crate::coordination) fn count_newly_ready(cx: &Read<'_>, subject: &Subject) -> Result<usize> {
    let count = match (subject.thread_id, subject.channel_id, subject.member_id) {
        (Some(thread), _, holder) => {
            let ready = cx.one::<(i64,)>(READY_BY_THREAD, &[&thread])?.map_or(0, |(count,)| count);
            let frees = can_unblock(cx, thread, holder)?;
            let freed = if frees {
                cached_count(cx, |found| &mut found.unblocked_count, count_unobstructed)?
            } else {
                0
            };
            let left = cached_count(cx, |found| &mut found.ready_after_lapses, count_ready_after_lapses)?;
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
    cache_entry: fn(&mut QueueLookups) -> &mut Option<i64>,
    count: fn(&Read<'_>, &mut FootprintChecks<'_>) -> Result<i64>,
) -> Result<i64> {
    cx.with_cached(&SINGLE_ENTRY, |found: &mut QueueLookups| {
        if let Some(known) = cache_entry(found) {
            return Ok(*known);
        }
        let counted = count(cx, &mut FootprintChecks::new(&mut found.free))?;
        *cache_entry(found) = Some(counted);
        Ok(counted)
    })
}

/// Maximum threads that are counted for one event. The next waiting caller to be answered may count again.
const SUPPLY_MAX: i64 = 100;

/// Returns whether an event of a thread may have unblocked other threads.
///
/// It may if a claim has ended, or if the footprint of a claimed thread was changed. The beginning of a claim
/// unblocks nothing. `holder` is the member in the event's subject, if the event changed the thread's holder.
fn can_unblock(cx: &Read<'_>, thread: ThreadId, holder: Option<MemberId>) -> Result<bool> {
    let found: Option<(bool,)> = cx.one(IS_CLAIMED, &[&thread, &cx.caller().workspace_id])?;
    Ok(found.is_some_and(|(is_claimed,)| is_claimed != holder.is_some()))
}

const IS_CLAIMED: &str = "select assignee_id is not null from threads where id = $1 and workspace_id = $2";

/// Counts the footprints of ready threads without a conflict, and the parked groups that would replace
/// blocked threads.
///
/// A parked group counts if one of its threads has no conflict and would replace a blocked thread of the
/// queue. The footprint of an ended claim may have been changed since, so all footprints are checked, and not
/// only those that overlap with that footprint. If there are too many footprints to check, one more is
/// assumed to be free.
fn count_unobstructed(cx: &Read<'_>, checks: &mut FootprintChecks<'_>) -> Result<i64> {
    let footprints: Vec<(Uuid, i64)> =
        cx.query(READY_FOOTPRINTS, &[&cx.caller().workspace_id, &SUPPLY_MAX])?;
    let mut count = i64::from(i64::try_from(footprints.len()).is_ok_and(|found| found >= SUPPLY_MAX));
    for (pool, footprint) in footprints {
        if checks.is_free(cx, footprint)? {
            count = count.saturating_add(1);
            continue;
        }
        for (_, group) in parked::find_followers(cx, &pool, footprint)? {
            count = count.saturating_add(i64::from(first_without_conflict(cx, group, checks)?.is_some()));
        }
    }
    Ok(count)
}

/// Selects the distinct footprints in each pool of a workspace, with one index lookup per footprint.
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
fn count_ready_after_lapses(cx: &Read<'_>, checks: &mut FootprintChecks<'_>) -> Result<i64> {
    let mut count = 0_i64;
    for group in returning::find_returning_threads(cx, |_| true)? {
        count = count.saturating_add(i64::from(first_without_conflict(cx, group, checks)?.is_some()));
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
