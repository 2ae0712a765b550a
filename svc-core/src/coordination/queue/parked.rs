//! Parked threads: threads that are ready except for the obstacle that blocked them when a claim found them.
//!
//! A claim parks the blocked threads that it finds, so that later claims do not find these threads again.
//! When an obstacle is freed, only the first thread of each group behind the obstacle returns to the queue;
//! when that thread leaves the queue and the obstacle is still free, the next thread of the group follows. A
//! group consists of the threads of one channel, skill set and repository that wait in the same mode: a
//! member who can claim one of these threads can claim each of them. So no claimable thread stays hidden, and
//! freeing an obstacle costs the same whether many or few threads wait for it.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::REMOVE_THREAD;
use super::heads::NextThread;
use crate::Result;
use crate::coordination::obstacles::{BlockingConflict, Obstacle, uses};
use crate::id::{ChannelId, ThreadId};
use crate::op::{Read, Write};

/// SQL condition: the obstacle `$o` blocks a thread that waits behind it in mode `$exclusive`.
///
/// `$live` is a further condition on the items `l` of claims, by which a read excludes lapsed claims.
/// `$lapsed` subtracts the uses of lapsed claims from the uses of a slot `s`.
macro_rules! held {
    ($o:literal, $exclusive:literal) => {
        held!($o, $exclusive, "", "")
    };
    ($o:literal, $exclusive:literal, $live:literal, $lapsed:literal) => {
        concat!(
            "(exists (
                select 1 from live_items l
                where l.obstacle = ",
            $o,
            $live,
            " and l.space <> 'slot' and l.exclusive = true) or ",
            $exclusive,
            " and exists (
                select 1 from live_items l
                where l.obstacle = ",
            $o,
            $live,
            " and l.space <> 'slot') or exists (
                select 1 from slots s
                where s.obstacle = ",
            $o,
            " and s.capacity <= ",
            uses!($o),
            $lapsed,
            ") or exists (select 1 from repo_pauses h where h.obstacle = ",
            $o,
            "))"
        )
    };
}

/// Parks a thread that has entered the queue, if threads with the same footprint are parked and must be
/// claimed first.
///
/// The thread is parked if the obstacle still blocks the parked threads, or if a thread of the same group has
/// returned to the queue and is claimed before the new thread, which then follows that thread. So any number
/// of new threads with one footprint adds only one thread to the queue.
pub(super) fn park_with_same_footprint(cx: &mut Write<'_>, thread: ThreadId) -> Result<()> {
    cx.execute_any(PARK_WITH_SAME_FOOTPRINT, &[&thread])?;
    cx.execute_any(REMOVE_IF_PARKED, &[&thread])
}

/// Uses the index of footprints, and prefers a parked thread of the same group to any other parked thread.
const PARK_WITH_SAME_FOOTPRINT: &str = concat!(
    "insert into parked (obstacle, channel_id, skill_set, repo_key, exclusive, urgency, lsn, thread_id, pool,
        footprint)
     select p.obstacle, r.channel_id, r.skill_set, r.repo_key, p.exclusive, r.urgency, r.lsn, r.thread_id,
        r.pool, r.footprint
     from ready r join parked p on p.thread_id = coalesce(
         (select l.thread_id from parked l
          where l.pool = r.pool and l.footprint = r.footprint and l.channel_id = r.channel_id
              and l.skill_set = r.skill_set limit 1),
         (select l.thread_id from parked l where l.pool = r.pool and l.footprint = r.footprint limit 1))
     where r.thread_id = $1 and r.footprint <> 0 and (",
    held!("p.obstacle", "p.exclusive"),
    " or exists (
         select 1 from ready f
         where f.came_from = p.obstacle and f.channel_id = r.channel_id and f.skill_set = r.skill_set
             and f.repo_key = r.repo_key and f.exclusive = p.exclusive
             and (f.urgency, f.lsn) < (r.urgency, r.lsn)))"
);

const REMOVE_IF_PARKED: &str = "
    delete from ready
    where thread_id = $1 and exists (select 1 from parked p where p.thread_id = $1)";

/// The group of a parked thread: the obstacle, channel, skill set and repository key, and whether the thread
/// conflicts with shared claims too.
pub(super) type ParkedGroup = (Obstacle, ChannelId, i64, String, bool);

/// Parks a thread of the queue, together with threads that have the same footprint and pool.
///
/// Returns the number of parked threads, up to [`SAME_FOOTPRINT_MAX`]. Further such threads in the queue are
/// parked when a claim finds them.
pub(in crate::coordination) fn park(
    cx: &mut Write<'_>,
    thread: ThreadId,
    conflict: &BlockingConflict,
) -> Result<usize> {
    let BlockingConflict { obstacle, exclusive, .. } = conflict;
    let rows: Vec<RowToPark> = cx.query(SAME_FOOTPRINT, &[&thread, &SAME_FOOTPRINT_MAX.saturating_sub(1)])?;
    let mut groups: BTreeSet<ParkedGroup> = BTreeSet::new();
    for (thread, came_from, channel, skill_set, repo_key, mode) in &rows {
        cx.execute_any(PARK, &[thread, obstacle, exclusive])?;
        cx.execute_any(REMOVE_THREAD, &[thread])?;
        let elsewhere = came_from.filter(|came_from| came_from != obstacle);
        groups.extend(elsewhere.map(|from| (from, *channel, *skill_set, repo_key.clone(), *mode)));
    }
    for (came_from, channel, skill_set, repo_key, mode) in groups {
        cx.execute_any(NEXT_OF_GROUP, &[&came_from, &channel, &skill_set, &repo_key, &mode])?;
        cx.execute_any(UNPARK, &[&came_from])?;
    }
    Ok(rows.len())
}

/// A row of the queue that is to be parked: its thread, the obstacle behind which the thread was parked
/// before, if any, and the columns of its [`ParkedGroup`].
type RowToPark = (ThreadId, Option<Obstacle>, ChannelId, i64, String, bool);

/// Maximum threads with one footprint that one call of [`park`] parks.
const SAME_FOOTPRINT_MAX: i64 = 256;

const SAME_FOOTPRINT: &str = "
    select r.thread_id, r.came_from, r.channel_id, r.skill_set, r.repo_key, r.exclusive
    from ready r where r.thread_id = $1
    union all
    select * from (
        select r.thread_id, r.came_from, r.channel_id, r.skill_set, r.repo_key, r.exclusive
        from ready c join ready r on r.pool = c.pool and r.footprint = c.footprint and r.footprint <> 0
        where c.thread_id = $1 and r.thread_id <> $1 limit $2) others";

const PARK: &str = "
    insert into parked (obstacle, channel_id, skill_set, repo_key, exclusive, urgency, lsn, thread_id, pool,
        footprint)
    select $2, r.channel_id, r.skill_set, r.repo_key, $3, r.urgency, r.lsn, r.thread_id, r.pool, r.footprint
    from ready r where r.thread_id = $1";

/// A statement that adds the parked threads `p`, selected by `$from`, to the queue.
macro_rules! return_parked {
    ($($from:tt)*) => {
        concat!(
            "insert into ready (channel_id, skill_set, urgency, lsn, thread_id, pool, footprint, repo_key,
                exclusive, came_from)
             select p.channel_id, p.skill_set, p.urgency, p.lsn, p.thread_id, p.pool, p.footprint, p.repo_key,
                p.exclusive, p.obstacle
             from ",
            $($from)*
        )
    };
}

const NEXT_OF_GROUP: &str = return_parked!(
    "parked p where p.thread_id = (
         select n.thread_id from parked n
         where n.obstacle = $1 and n.channel_id = $2 and n.skill_set = $3 and n.repo_key = $4
             and n.exclusive = $5
         order by n.urgency, n.lsn limit 1)
     and not ",
    held!("$1", "p.exclusive")
);

/// Removes the parked rows of threads that returned from behind an obstacle to the queue.
///
/// The statement does not compare `parked.obstacle`, because an engine would then scan all threads that wait
/// behind the obstacle.
const UNPARK: &str =
    "delete from parked where thread_id in (select thread_id from ready where came_from = $1)";

/// Returns the parked threads that would follow the queued threads with this footprint.
///
/// The queued threads must have returned from behind an obstacle that is free now. A read skips a queued
/// thread that is blocked, but cannot park that thread. So this function finds the threads that would have
/// returned instead. Each list is one group, in order.
pub(super) fn find_followers(
    cx: &Read<'_>,
    pool: &Uuid,
    footprint: i64,
) -> Result<Vec<(ParkedGroup, Vec<NextThread>)>> {
    let groups: Vec<ParkedGroup> = cx.query(GROUPS_IN_POOL, &[pool, &footprint])?;
    groups.into_iter().map(|group| Ok((group.clone(), load_group_behind(cx, &group)?))).collect()
}

/// Returns the obstacles among the items of a thread's claim behind which threads are parked.
pub(in crate::coordination) fn find_awaited_obstacles(
    cx: &Read<'_>,
    thread: ThreadId,
) -> Result<BTreeSet<Obstacle>> {
    let found: Vec<(Obstacle,)> = cx.query(WAITED_FOR, &[&thread])?;
    Ok(found.into_iter().map(|(obstacle,)| obstacle).collect())
}

const WAITED_FOR: &str = "
    select l.obstacle from live_items l
    where l.thread_id = $1 and exists (select 1 from parked p where p.obstacle = l.obstacle)";

/// The pool, channel, skill set and repository of a thread in the queue.
pub(super) struct QueuePlace {
    pub pool: Uuid,
    pub channel: ChannelId,
    pub skill_set: i64,
    pub repo_key: String,
}

/// Returns the first threads of each wanted group behind an obstacle that is free, apart from lapsed claims.
pub(super) fn load_groups_behind(
    cx: &Read<'_>,
    obstacle: Obstacle,
    is_wanted: impl Fn(&QueuePlace) -> bool,
) -> Result<Vec<Vec<NextThread>>> {
    let mut groups = Vec::new();
    for (pool, channel, skill_set, repo_key, mode) in cx.query(GROUPS, &[&obstacle])? {
        let queue_place = QueuePlace { pool, channel, skill_set, repo_key };
        if is_wanted(&queue_place) {
            groups.push(load_group_behind(cx, &(obstacle, channel, skill_set, queue_place.repo_key, mode))?);
        }
    }
    Ok(groups)
}

/// Returns the first threads of a group behind an obstacle that is free, apart from lapsed claims.
fn load_group_behind(cx: &Read<'_>, group: &ParkedGroup) -> Result<Vec<NextThread>> {
    let (obstacle, channel, skill_set, repo_key, mode) = group;
    let rows: Vec<(i64, i64, ThreadId, ChannelId, i64)> =
        cx.query(FOLLOWING, &[obstacle, channel, skill_set, repo_key, mode, &cx.now()])?;
    let next = |(urgency, lsn, thread_id, channel_id, footprint)| NextThread {
        urgency,
        lsn,
        thread_id,
        channel_id,
        footprint,
    };
    Ok(rows.into_iter().map(next).collect())
}

const GROUPS_IN_POOL: &str = "
    select r.came_from, r.channel_id, r.skill_set, r.repo_key, r.exclusive from ready r
    where r.pool = $1 and r.footprint = $2 and r.footprint <> 0 and r.came_from is not null";

/// Maximum threads of a group that a read checks.
pub(super) const FOLLOWING_MAX: usize = 100;

const FOLLOWING: &str = concat!(
    "select n.urgency, n.lsn, n.thread_id, n.channel_id, n.footprint from parked n
     where n.obstacle = $1 and n.channel_id = $2 and n.skill_set = $3 and n.repo_key = $4
         and n.exclusive = $5 and not ",
    held!(
        "$1",
        "n.exclusive",
        " and exists (select 1 from threads t where t.id = l.thread_id and t.assignment_expires_at > $6)",
        " - (
            select count(*) from (
                select t.id from threads t
                where t.workspace_id = s.workspace_id and t.assignment_expires_at <= $6
                    and t.assignment_expires_at is not null
                order by t.assignment_expires_at, t.id limit 100) t
            join live_items l on l.thread_id = t.id where l.obstacle = s.obstacle and l.space = 'slot')"
    ),
    " order by n.urgency, n.lsn limit 100"
);

/// Puts the next thread of a group back into the queue when a thread of the group leaves the queue.
///
/// Does nothing if the leaving thread did not return from behind an obstacle, or if the obstacle is not free.
/// The leaving thread's row must still be in the queue. Neither statement has a condition that `came_from` is
/// not null: an engine without statistics would scan all rows that meet the condition.
pub(super) fn return_next_of_group(cx: &mut Write<'_>, thread: ThreadId) -> Result<()> {
    cx.execute_any(RETURN_FOLLOWER, &[&thread])?;
    cx.execute_any(UNPARK_FOLLOWER, &[&thread])
}

const RETURN_FOLLOWER: &str = return_parked!(
    "ready r join parked p on p.thread_id = (
         select n.thread_id from parked n
         where n.obstacle = r.came_from and n.channel_id = r.channel_id and n.skill_set = r.skill_set
             and n.repo_key = r.repo_key and n.exclusive = r.exclusive
         order by n.urgency, n.lsn limit 1)
     where r.thread_id = $1 and not ",
    held!("r.came_from", "r.exclusive")
);

const UNPARK_FOLLOWER: &str = "
    delete from parked where thread_id in (
        select n.thread_id from ready r join ready n on n.came_from = r.came_from
        where r.thread_id = $1)";

/// Puts the first thread of each group behind an obstacle back into the queue, unless the obstacle still
/// blocks that thread.
///
/// A group is skipped if a thread of the group is in the queue and is claimed before the first parked thread.
/// The first parked thread can be more urgent than the queued thread, because it may have been parked later.
/// Called when a claim on the obstacle has ended, or a capacity or pause has changed.
pub(in crate::coordination) fn unpark_behind(cx: &mut Write<'_>, obstacle: Obstacle) -> Result<()> {
    cx.execute_any(FIRST_OF_GROUPS, &[&obstacle])?;
    cx.execute_any(UNPARK, &[&obstacle])
}

/// Selects the first thread of each group behind an obstacle, with one lookup in the primary key per group.
///
/// SQLite uses the index for a comparison of rows only if the values on the right side have no affinity,
/// hence the sum and the concatenation. SQLite also begins at the first row that is equal, hence an urgency
/// that no thread has: otherwise each step would read a whole group.
macro_rules! firsts {
    () => {
        "with recursive firsts (thread_id) as (
             select (
                 select f.thread_id from parked f where f.obstacle = $1
                 order by f.channel_id, f.skill_set, f.repo_key, f.exclusive, f.urgency, f.lsn limit 1)
             union all
             select (
                 select n.thread_id from parked n
                 where n.obstacle = $1 and (n.channel_id, n.skill_set, n.repo_key, n.exclusive, n.urgency)
                     > (g.channel_id, g.skill_set + 0, g.repo_key || '', g.exclusive, 9223372036854775807)
                 order by n.channel_id, n.skill_set, n.repo_key, n.exclusive, n.urgency, n.lsn limit 1)
             from firsts join parked g on g.thread_id = firsts.thread_id)
         "
    };
}

/// A thread of each group, by its pool and the columns that the group has in common.
const GROUPS: &str = concat!(
    firsts!(),
    "select p.pool, p.channel_id, p.skill_set, p.repo_key, p.exclusive
     from firsts join parked p on p.thread_id = firsts.thread_id"
);

const FIRST_OF_GROUPS: &str = concat!(
    firsts!(),
    return_parked!(
        "firsts join parked p on p.thread_id = firsts.thread_id
         where not ",
        held!("$1", "p.exclusive"),
        " and not exists (
             select 1 from ready r
             where r.came_from = $1 and r.channel_id = p.channel_id and r.skill_set = p.skill_set
                 and r.repo_key = p.repo_key and r.exclusive = p.exclusive
                 and (r.urgency, r.lsn) < (p.urgency, p.lsn))"
    )
);

/// Removes a thread from the parked threads, because it no longer waits behind an obstacle.
pub(super) fn remove_parked(cx: &mut Write<'_>, thread: ThreadId) -> Result<()> {
    cx.execute_any(REMOVE, &[&thread])
}

const REMOVE: &str = "delete from parked where thread_id = $1";
