//! The ready queue: one row for each thread that a member could claim now.
//!
//! A thread is ready while it is open, unclaimed, without a current result, a dead letter, a used-up budget
//! limit or an unfinished dependency, and in a channel that is not archived: the table of `rules` lists these
//! conditions. This file derives the queue's rows from the threads, in the transaction that changes a thread;
//! nothing else writes these rows. It is called by `queue_projector`, which processes the events of the
//! thread itself, and by `dependencies` when the event is on another thread. The next thread is the best of
//! the candidates: the first thread of each skill set that the member covers. So the cost does not depend on
//! the number of waiting threads. A thread whose footprint conflicts stays in the queue until a claim finds
//! and parks the thread. If other threads with the same footprint are parked already, the thread is parked
//! with them immediately.

mod probes;
mod heads;
mod parked;
mod returning;
mod next;
mod supply;

use uuid::Uuid;

use crate::Result;
use crate::conversation::visibility::audience;
use crate::coordination::rules::is_ready;
use crate::coordination::thread_row::Thread;
use crate::id::{ChannelId, ThreadId};
use crate::op::Write;
pub(in crate::coordination) use heads::NextThread;
pub(in crate::coordination) use next::{
    QueueRequest, QueueScope, count_ready, find_next_thread, first_ready_thread,
};
pub(in crate::coordination) use parked::{find_awaited_obstacles, park, unpark_behind};
pub(in crate::coordination) use supply::count_newly_ready;

/// Updates a thread's row in the queue: removes it, and adds the thread again if it is ready.
///
/// The thread's footprint must not have changed: a thread without a footprint is never parked.
pub(in crate::coordination) fn refresh_thread(cx: &mut Write<'_>, thread: &Thread) -> Result<()> {
    if thread.footprint_id != 0 {
        return refresh_ready_and_parked(cx, thread.id);
    }
    if thread.has_result {
        // The thread is still not ready: its claim has ended, but now it has a result.
        return Ok(());
    }
    cx.save_any(REMOVE_THREAD, &[&thread.id])?;
    if thread.held.is_some() {
        return heads::remove_from_cache(cx, thread.id);
    }
    heads::clear_cache(cx);
    cx.save_any(ADD_THREAD, &[&thread.id])
}

/// Updates the rows of a thread in the queue and among the parked threads, whether or not the thread was
/// parked.
pub(in crate::coordination) fn refresh_ready_and_parked(cx: &mut Write<'_>, thread: ThreadId) -> Result<()> {
    parked::return_next_of_group(cx, thread)?;
    parked::remove_parked(cx, thread)?;
    cx.execute_any(REMOVE_THREAD, &[&thread])?;
    cx.execute_any(ADD_THREAD, &[&thread])?;
    parked::park_with_same_footprint(cx, thread)
}

/// Removes a channel's threads from the queue and adds those that are ready.
pub(in crate::coordination) fn refresh_channel(cx: &mut Write<'_>, channel: ChannelId) -> Result<()> {
    cx.execute_any(REMOVE_CHANNEL, &[&channel])?;
    cx.execute_any(REMOVE_PARKED, &[&channel])?;
    cx.execute_any(ADD_CHANNEL, &[&channel])
}

/// Moves the queue's rows of a channel to the pool that matches the channel's privacy.
///
/// All rows of a channel are in one pool, so one row shows whether the rows must be moved.
pub(in crate::coordination) fn move_to_current_pool(cx: &mut Write<'_>, channel: ChannelId) -> Result<()> {
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

/// A statement that adds each ready thread `t` to the queue, limited by the condition `$which`.
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
            " and ",
            is_ready!()
        )
    };
}

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
