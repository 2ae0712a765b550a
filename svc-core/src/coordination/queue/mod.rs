//! The ready queue: one row for each thread that a member could claim now.
//!
//! A thread is ready while it is open, without a result that stands, without a dead letter, with something
//! left of each limit of its budget, without an unfinished dependency and without an assignee, in a channel
//! that is not archived. This file derives the rows from the threads, in
//! the transaction of whatever changes a thread; nothing else writes them. It is called by `queue_projector`,
//! which follows the events, and by `dependencies` where the event is that of another thread. The next thread
//! is the best of the candidates: the first thread of each skill set that the member covers. So the cost does
//! not depend on how many threads wait. A thread that its footprint keeps from being claimed is in the queue
//! until somebody meets it there; then it is parked. If others of its footprint are parked already, it goes
//! straight to them.

mod parked;
mod heads;
mod probes;
mod next;

use std::sync::LazyLock;

use uuid::Uuid;

use crate::Result;
use crate::conversation::places::audience;
use crate::coordination::footprint;
use crate::coordination::left_out;
use crate::coordination::obstacles;
use crate::coordination::thread::is_known_plain;
use crate::id::{ChannelId, MemberId, ThreadId};
use crate::log::event::Subject;
use crate::op::{Read, Write};
use crate::store::{BulkWrite, RowWrite, RowWriteKind};
pub(in crate::coordination) use heads::NextThread;
pub(in crate::coordination) use next::{Scope, Wanted, count, first, next};
pub(in crate::coordination) use parked::{free, park};

/// Returns how many of the threads are ready that an event at `place` may have made ready.
///
/// These are its thread, those that waited for it and those that it stood in the way of; or those of its
/// channel. An event about one member counts once, one about the workspace as many times as are counted.
pub(in crate::coordination) fn supply(cx: &Read<'_>, place: &Subject) -> Result<usize> {
    let count = match (place.thread_id, place.channel_id, place.member_id) {
        (Some(thread), _, holder) => {
            let ready = cx.one::<(i64,)>(READY_BY_THREAD, &[&thread])?.map_or(0, |(count,)| count);
            let freed = if may_free(cx, thread, holder)? { unobstructed(cx)? } else { 0 };
            ready.saturating_add(freed).min(SUPPLY_MAX)
        }
        (None, Some(channel), None) => {
            cx.one::<(i64,)>(READY_BY_CHANNEL, &[&channel])?.map_or(0, |(count,)| count)
        }
        (None, None, None) => SUPPLY_MAX,
        _ => 1,
    };
    Ok(usize::try_from(count).unwrap_or(0))
}

/// The supply that is counted: the wait that is answered next may ask again.
const SUPPLY_MAX: i64 = 100;

/// Whether an event of a thread, about its `holder` if that changed, may have freed what others touch.
///
/// So it is if a claim has ended, or if what a claim touches was changed. The beginning of a claim frees
/// nothing.
fn may_free(cx: &Read<'_>, thread: ThreadId, holder: Option<MemberId>) -> Result<bool> {
    let found: Option<(bool,)> = cx.one(IS_CLAIMED, &[&thread, &cx.caller().workspace_id])?;
    Ok(found.is_some_and(|(is_claimed,)| is_claimed != holder.is_some()))
}

const IS_CLAIMED: &str = "select assignee_id is not null from threads where id = $1 and workspace_id = $2";

/// Counts the footprints of ready threads that nothing is in the way of.
///
/// What an ended claim touched may have been changed since, so all are asked, and not only those that overlap
/// that. Of so many that they are not all asked, one is assumed to be free.
fn unobstructed(cx: &Read<'_>) -> Result<i64> {
    let footprints: Vec<(i64,)> = cx.query(READY_FOOTPRINTS, &[&cx.caller().workspace_id, &SUPPLY_MAX])?;
    let mut count = i64::from(i64::try_from(footprints.len()).is_ok_and(|found| found >= SUPPLY_MAX));
    for (id,) in footprints {
        let Some(touched) = footprint::load(cx, id)? else { continue };
        if obstacles::in_the_way(cx, &touched, None, 1)?.is_empty() {
            count = count.saturating_add(1);
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
        where c.workspace_id = $1 and c.workspace_id <> ",
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
    select footprint from walk where footprint is not null limit $2"
);

/// Counts up to [`SUPPLY_MAX`].
const READY_BY_THREAD: &str = "
    select count(*) from (
        select 1 from ready where thread_id = $1
        union all
        select 1 from thread_dependencies d join ready r on r.thread_id = d.thread_id
        where d.depends_on_id = $1
        limit 100) counted";

const READY_BY_CHANNEL: &str =
    "select count(*) from (select 1 from ready where channel_id = $1 limit 100) counted";

/// Removes a thread from the queue and adds it where it belongs now, if it is ready.
///
/// Its footprint has not changed: one that is known to have none waits behind nothing.
pub(in crate::coordination) fn refresh(cx: &mut Write<'_>, thread: ThreadId) -> Result<()> {
    let has_left = heads::take_left(cx, thread);
    // A test that leaves something out leaves it out of the statements of the other path.
    if is_known_plain(cx, thread) && cx.settings().left_out.is_none() {
        cx.write_row(&LEAVE, &[&thread])?;
        return if has_left { Ok(()) } else { cx.write_row(&ENTER, &[&thread]) };
    }
    refresh_anywhere(cx, thread)
}

/// Does the same for a thread that may have waited behind something, or come from there.
pub(in crate::coordination) fn refresh_anywhere(cx: &mut Write<'_>, thread: ThreadId) -> Result<()> {
    parked::follow(cx, thread)?;
    parked::remove(cx, thread)?;
    cx.execute_any(REMOVE_THREAD, &[&thread])?;
    cx.execute_any(kept(cx, ADD_THREAD), &[&thread])?;
    parked::join(cx, thread)
}

/// Removes a channel's threads from the queue and adds those that are ready.
pub(in crate::coordination) fn refresh_channel(cx: &mut Write<'_>, channel: ChannelId) -> Result<()> {
    cx.execute_any(REMOVE_CHANNEL, &[&channel])?;
    cx.execute_any(REMOVE_PARKED, &[&channel])?;
    cx.execute_any(kept(cx, ADD_CHANNEL), &[&channel])
}

/// Returns a statement of the queue without the condition of a rule that a test leaves out.
fn kept(cx: &Read<'_>, sql: &'static str) -> &'static str {
    let known = CONDITIONS.iter().any(|(rule, _)| cx.leaves_out(rule));
    let mut changed = known.then(|| &*CHANGED).into_iter().flatten();
    changed.find(|(rule, from, _)| cx.leaves_out(rule) && *from == sql).map_or(sql, |(.., text)| text)
}

/// The rules whose conditions the queue has too.
const CONDITIONS: [(&str, &str); 5] = [
    (left_out::OPEN, "t.state = 'open'"),
    (left_out::NO_RESULT, "not t.has_result"),
    (left_out::DEPENDENCIES, "t.blocked = 0"),
    (left_out::UNCLAIMED, "t.assignee_id is null"),
    (left_out::IN_USE, "c.archived_at is null"),
];

/// The statements that add to the queue, each without one of the conditions.
static CHANGED: LazyLock<Vec<(&str, &str, String)>> = LazyLock::new(|| {
    let without = |(rule, condition): &(&'static str, &str)| {
        [ADD_THREAD, ADD_CHANNEL].map(|sql| (*rule, sql, sql.replace(condition, "true")))
    };
    CONDITIONS.iter().flat_map(without).collect()
});

/// Moves the rows of a channel to the pool that matches its privacy.
///
/// All rows of a channel are in one pool, so one of them shows whether there is anything to do.
pub(in crate::coordination) fn move_pool(cx: &mut Write<'_>, channel: ChannelId) -> Result<()> {
    let found: Option<(Option<Uuid>, Option<Uuid>, Uuid)> = cx.one(POOLS, &[&channel])?;
    let Some((ready, parked, wanted)) = found else { return Ok(()) };
    if ready.is_some_and(|pool| pool != wanted) {
        cx.execute_any(MOVE_READY, &[&channel, &wanted])?;
    }
    if parked.is_some_and(|pool| pool != wanted) {
        cx.execute_any(MOVE_PARKED, &[&channel, &wanted])?;
    }
    Ok(())
}

/// Announces that a thread is not ready when this job ends, so that it need not be looked at again.
pub(in crate::coordination) fn leaves(cx: &Read<'_>, thread: ThreadId) {
    heads::leaves(cx, thread);
}

/// A statement that adds the ready ones among the threads `t` that a condition selects.
macro_rules! add_ready {
    ($which:literal) => {
        concat!(
            "insert into ready (channel_id, skill_set, urgency, lsn, thread_id, pool, footprint, repo_key)
             select t.channel_id, t.skill_set, -t.priority, t.lsn, t.id, ",
            audience!(c),
            ", t.footprint, coalesce(f.repo_key, '')
             from threads t join channels c on c.id = t.channel_id
             left join footprints f on f.workspace_id = t.workspace_id and f.id = t.footprint
             where ",
            $which,
            " and t.state = 'open' and not t.has_result and not t.exhausted and not t.dead
                 and t.blocked = 0 and t.assignee_id is null and c.archived_at is null"
        )
    };
}

static LEAVE: RowWrite = RowWrite {
    table: "ready",
    statement: BulkWrite {
        sqlite: REMOVE_THREAD,
        postgres: "delete from ready where thread_id = any($1::uuid[])",
    },
    kind: RowWriteKind::Derives,
};

static ENTER: RowWrite = RowWrite {
    table: "ready",
    statement: BulkWrite { sqlite: ADD_THREAD, postgres: add_ready!("t.id = any($1::uuid[])") },
    kind: RowWriteKind::Derives,
};

const REMOVE_THREAD: &str = "delete from ready where thread_id = $1";

const REMOVE_CHANNEL: &str = "delete from ready where channel_id = $1";

const REMOVE_PARKED: &str = "delete from parked where channel_id = $1";

const ADD_THREAD: &str = add_ready!("t.id = $1");

const ADD_CHANNEL: &str = add_ready!("t.channel_id = $1");

const POOLS: &str = concat!(
    "select (select r.pool from ready r where r.channel_id = c.id limit 1),
        (select p.pool from parked p where p.channel_id = c.id limit 1), ",
    audience!(c),
    " from channels c where c.id = $1"
);

const MOVE_READY: &str = "update ready set pool = $2 where channel_id = $1";

const MOVE_PARKED: &str = "update parked set pool = $2 where channel_id = $1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_is_left_out_is_left_out_of_each_statement() {
        assert_eq!(CHANGED.len(), 2 * CONDITIONS.len());
        for (rule, sql, changed) in CHANGED.iter() {
            assert_ne!(sql, changed, "{rule}");
        }
    }
}
