//! The workers of a thread: the members who have worked on the thread.
//!
//! These are the members who claimed the thread, received it or set its result, and the delegates who acted
//! for them under the claim. They cannot judge the result independently. A member is added at the first such
//! action and never removed, whatever happens to the claim.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::Result;
use crate::id::{MemberId, ThreadId};
use crate::log::replay::ReplayedEvent;
use crate::op::{Read, Write};

/// Adds the caller, and the member `holder` who now holds the claim, to the workers of a thread.
///
/// Under delegation, both the member for whom the caller acts and the delegate are added. `lsn` is the
/// position of the event.
pub(super) fn add_workers(cx: &mut Write<'_>, thread: ThreadId, lsn: i64, holder: MemberId) -> Result<()> {
    let caller = cx.caller();
    let mut workers = BTreeSet::from([holder]);
    workers.extend(caller.member.into_iter().chain(caller.actor));
    workers.into_iter().try_for_each(|worker| cx.save_any(ADD, &[&thread, &worker, &lsn]))
}

/// Adds the delegate who acts for the caller's member, if any, to the workers of a thread.
///
/// The holder was added when the claim began. `lsn` is the position of the event.
pub(super) fn add_delegate(cx: &mut Write<'_>, thread: ThreadId, lsn: i64) -> Result<()> {
    match delegate(cx) {
        Some(delegate) => cx.save_any(ADD, &[&thread, &delegate, &lsn]),
        None => Ok(()),
    }
}

/// Returns whether the caller acts through a delegate who has not worked on the thread before.
pub(super) fn is_new_delegate(cx: &Read<'_>, thread: ThreadId) -> Result<bool> {
    match delegate(cx) {
        Some(delegate) => Ok(!of(cx, thread)?.contains(&delegate)),
        None => Ok(false),
    }
}

/// Returns the delegate who acts for the caller's member, or `None` if the member acts itself.
fn delegate(cx: &Read<'_>) -> Option<MemberId> {
    cx.caller().actor.filter(|actor| cx.caller().member != Some(*actor))
}

const ADD: &str =
    "insert into thread_workers (thread_id, member_id, lsn) values ($1, $2, $3) on conflict do nothing";

/// Adds the holder, the acting member and the delegate of an event to the thread's workers.
pub(super) fn replay_workers(event: &ReplayedEvent<'_>, holder: Value) -> Result<()> {
    let workers = [holder, event.subject(), event.actor()];
    workers.into_iter().try_for_each(|worker| replay_worker(event, worker))
}

/// Adds the delegate of an event to the thread's workers, if a delegate acted.
pub(super) fn replay_delegate(event: &ReplayedEvent<'_>) -> Result<()> {
    let actor = event.actor();
    if actor == event.subject() { Ok(()) } else { replay_worker(event, actor) }
}

fn replay_worker(event: &ReplayedEvent<'_>, worker: Value) -> Result<()> {
    let row = event.row("thread_workers", [event.thread(), worker.clone()])?;
    if worker.is_null() || row.exists() {
        return Ok(());
    }
    // A pruned event may already have added the worker, unless the thread is newer.
    let thread = event.row("threads", [event.thread()])?;
    if thread.value("lsn").is_some() { row.made().set("lsn", event.lsn()).keep() } else { row.keep() }
}

/// SQL condition: a member in the list `$people` has worked on the thread `$thread`. All of these are ids.
macro_rules! worked_on {
    ($thread:literal, $people:literal) => {
        concat!(
            "exists (select 1 from thread_workers worker where worker.thread_id = ",
            $thread,
            " and worker.member_id in (",
            $people,
            "))"
        )
    };
}
pub(crate) use worked_on;

/// Returns the workers of a thread: the members who have worked on the thread.
pub(crate) fn of(cx: &Read<'_>, thread: ThreadId) -> Result<BTreeSet<MemberId>> {
    let workers: Vec<(MemberId,)> = cx.query(OF, &[&thread])?;
    Ok(workers.into_iter().map(|(worker,)| worker).collect())
}

const OF: &str = "select member_id from thread_workers where thread_id = $1";
