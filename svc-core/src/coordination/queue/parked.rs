//! Parked threads: those that would be ready, each behind one obstacle that blocked it when it was met.
//!
//! A claim parks the threads that it meets and cannot give out, so that they are not met again. When an
//! obstacle is freed, only the first thread of each group behind it returns to the queue; when that one
//! leaves the queue and the obstacle is still free, the next follows. A group is the threads of one channel,
//! skill set and repository that wait in the same mode: a member who can claim one of them can claim each. So
//! no thread that could be claimed stays hidden, and freeing something that many wait for costs no more than
//! if few did.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::REMOVE_THREAD;
use super::heads::NextThread;
use crate::Result;
use crate::coordination::obstacles::{Blocked, Obstacle, uses};
use crate::id::{ChannelId, ThreadId};
use crate::op::{Read, Write};

/// Whether the obstacle `$o` blocks a thread that waits for it in mode `$exclusive`.
///
/// `$live` is a further condition on the items `l` of claims: a read omits those of lapsed ones, and takes
/// `$lapsed` of them from the uses of a slot `s`.
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

/// Parks a thread that has entered the queue beside others of its footprint, if it would be met in vain.
///
/// A caller would meet it in vain if the obstacle that these wait for still blocks them, or if one of its
/// group has returned from there and is given out before it: then it follows that one. So any number of new
/// threads of one footprint adds to the queue no more than the first.
pub(super) fn join(cx: &mut Write<'_>, thread: ThreadId) -> Result<()> {
    cx.execute_any(JOIN, &[&thread])?;
    cx.execute_any(LEAVE_TO_JOIN, &[&thread])
}

/// By the index of footprints, first of those of its group: there may be any number of others.
const JOIN: &str = concat!(
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

const LEAVE_TO_JOIN: &str = "
    delete from ready
    where thread_id = $1 and exists (select 1 from parked p where p.thread_id = $1)";

/// The origin of a row of the queue: the obstacle, and the group behind it.
pub(super) type ParkedOrigin = (Obstacle, ChannelId, i64, String, bool);

/// Parks a thread of the queue, and with it others of the same footprint that the same callers see; returns
/// how many, up to [`ALIKE_MAX`].
///
/// What is left of them in the queue is parked when it is met there.
pub(in crate::coordination) fn park(
    cx: &mut Write<'_>,
    thread: ThreadId,
    blocked: &Blocked,
) -> Result<usize> {
    let Blocked { obstacle, exclusive, .. } = blocked;
    let alike: Vec<ParkedRow> = cx.query(ALIKE, &[&thread, &ALIKE_MAX.saturating_sub(1)])?;
    let mut origins: BTreeSet<ParkedOrigin> = BTreeSet::new();
    for (thread, came_from, channel, skill_set, repo_key, mode) in &alike {
        cx.execute_any(PARK, &[thread, obstacle, exclusive])?;
        cx.execute_any(REMOVE_THREAD, &[thread])?;
        let elsewhere = came_from.filter(|came_from| came_from != obstacle);
        origins.extend(elsewhere.map(|from| (from, *channel, *skill_set, repo_key.clone(), *mode)));
    }
    for (came_from, channel, skill_set, repo_key, mode) in origins {
        cx.execute_any(NEXT_OF_GROUP, &[&came_from, &channel, &skill_set, &repo_key, &mode])?;
        cx.execute_any(UNPARK, &[&came_from])?;
    }
    Ok(alike.len())
}

/// A row of the queue that is parked: its thread, and where it came from.
type ParkedRow = (ThreadId, Option<Obstacle>, ChannelId, i64, String, bool);

/// Maximum threads of one footprint that are parked at once.
const ALIKE_MAX: i64 = 256;

const ALIKE: &str = "
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

/// A statement that adds the parked threads `p` to the queue that `$from` selects.
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

/// Removes what was returned to the queue from behind an obstacle.
///
/// It does not name the obstacle of the parked row, or an engine would scan all that wait behind it.
const UNPARK: &str =
    "delete from parked where thread_id in (select thread_id from ready where came_from = $1)";

/// Returns what follows the threads of a footprint in the queue that came from behind a free obstacle.
///
/// A read skips such threads if something blocks them, but cannot park them; so it finds here what would have
/// returned in their place. Each list is one group, in order.
pub(super) fn following(
    cx: &Read<'_>,
    pool: &Uuid,
    footprint: i64,
) -> Result<Vec<(ParkedOrigin, Vec<NextThread>)>> {
    let origins: Vec<ParkedOrigin> = cx.query(ORIGINS_IN_POOL, &[pool, &footprint])?;
    origins.into_iter().map(|origin| Ok((origin.clone(), group(cx, &origin)?))).collect()
}

/// Returns what threads are parked behind of what the claim of a thread touches.
pub(in crate::coordination) fn waited_for(cx: &Read<'_>, thread: ThreadId) -> Result<BTreeSet<Obstacle>> {
    let found: Vec<(Obstacle,)> = cx.query(WAITED_FOR, &[&thread])?;
    Ok(found.into_iter().map(|(obstacle,)| obstacle).collect())
}

const WAITED_FOR: &str = "
    select l.obstacle from live_items l
    where l.thread_id = $1 and exists (select 1 from parked p where p.obstacle = l.obstacle)";

/// A thread's place in the queue: its pool, channel, skill set and repository.
pub(super) struct QueuePlace {
    pub pool: Uuid,
    pub channel: ChannelId,
    pub skill_set: i64,
    pub repo_key: String,
}

/// Returns the groups behind an obstacle that are wanted and for which it is free, apart from lapsed claims.
pub(super) fn behind(
    cx: &Read<'_>,
    obstacle: Obstacle,
    is_wanted: impl Fn(&QueuePlace) -> bool,
) -> Result<Vec<Vec<NextThread>>> {
    let mut groups = Vec::new();
    for (pool, channel, skill_set, repo_key, mode) in cx.query(GROUPS, &[&obstacle])? {
        let standing = QueuePlace { pool, channel, skill_set, repo_key };
        if is_wanted(&standing) {
            groups.push(group(cx, &(obstacle, channel, skill_set, standing.repo_key, mode))?);
        }
    }
    Ok(groups)
}

/// Returns the first threads of a group, if its obstacle is free for it apart from lapsed claims.
fn group(cx: &Read<'_>, origin: &ParkedOrigin) -> Result<Vec<NextThread>> {
    let (obstacle, channel, skill_set, repo_key, mode) = origin;
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

const ORIGINS_IN_POOL: &str = "
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

/// Returns the next of its group to the queue, if a thread that leaves the queue came from behind an obstacle
/// which is free.
///
/// The thread's row is still in the queue. Neither statement says that the thread came from somewhere: an
/// engine that has no statistics yet would scan all that did.
pub(super) fn follow(cx: &mut Write<'_>, thread: ThreadId) -> Result<()> {
    cx.execute_any(FOLLOW, &[&thread])?;
    cx.execute_any(UNPARK_FOLLOWER, &[&thread])
}

const FOLLOW: &str = return_parked!(
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

/// Returns the first thread of each group behind an obstacle to the queue, if the obstacle is free for it.
///
/// Unless one is in the queue already that would be given out before it: since that one returned, a more
/// urgent thread may have been parked.
/// Called when a claim of it has ended, or a capacity or pause has changed.
pub(in crate::coordination) fn free(cx: &mut Write<'_>, obstacle: Obstacle) -> Result<()> {
    cx.execute_any(FIRST_OF_GROUPS, &[&obstacle])?;
    cx.execute_any(UNPARK, &[&obstacle])
}

/// Steps from the first thread of one group to that of the next, by the primary key.
///
/// SQLite compares rows by the index only as far as the right side has no affinity, hence the sum and the
/// concatenation. And it begins at the first row that is equal, hence the urgency that no thread has: without
/// it each step would read a whole group.
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

/// A thread of each group, by its pool and what the group has in common.
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

/// Removes a thread that no longer waits behind anything.
pub(super) fn remove(cx: &mut Write<'_>, thread: ThreadId) -> Result<()> {
    cx.execute_any(REMOVE, &[&thread])
}

const REMOVE: &str = "delete from parked where thread_id = $1";
