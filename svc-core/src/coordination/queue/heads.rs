//! The heads of the queue that a batch has read: who is next, and after that, for the jobs that take them.
//!
//! One statement reads the first threads for a caller. What a job takes from the queue leaves them; whatever
//! it adds makes them unknown, and they are read again.

use std::collections::VecDeque;
use std::sync::Arc;

use uuid::Uuid;

use super::probes::WINDOW;
use crate::Result;
use crate::coordination::footprint::RepoKey;
use crate::id::{ChannelId, ThreadId};
use crate::log::cache::{Cached, Lifetime, ONLY};
use crate::op::Read;

/// The thread that a member would be given, in the order in which threads are given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::coordination) struct NextThread {
    pub(super) urgency: i64,
    pub(super) lsn: i64,
    pub thread_id: ThreadId,
    pub channel_id: ChannelId,
    /// The id of its interned footprint; 0 without one.
    pub footprint: i64,
}

/// The criteria that determine the next thread: the places, the skill sets and the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeadCriteria {
    pub places: Vec<Uuid>,
    pub eligible: Arc<Vec<i64>>,
    pub repo: Option<RepoKey>,
}

/// The heads that the batch has read, if it has.
#[derive(Clone, Default)]
struct QueueHeads(Option<HeadWindow>);

impl Cached for QueueHeads {
    const LIFETIME: Lifetime = Lifetime::Transaction;
}

/// The first threads of a part of the queue, in order.
#[derive(Clone)]
struct HeadWindow {
    of: HeadCriteria,
    first: VecDeque<NextThread>,
    /// Whether the part has no others.
    is_all: bool,
}

/// A batch's knowledge of the next thread.
pub(super) enum Next {
    Is(NextThread),
    /// There is none.
    Nothing,
    /// It has not been read, or not since a thread has entered the queue.
    Unread,
}

/// Returns what the batch knows about the next thread.
pub(super) fn next(cx: &Read<'_>, sought: &HeadCriteria) -> Result<Next> {
    cx.with_cached(&ONLY, |QueueHeads(window)| {
        let window = window.as_ref().filter(|window| window.of == *sought);
        Ok(match window.map(|window| (window.first.front(), window.is_all)) {
            Some((Some(next), _)) => Next::Is(*next),
            Some((None, true)) => Next::Nothing,
            Some((None, false)) | None => Next::Unread,
        })
    })
}

/// Keeps the first threads of the queue, up to [`WINDOW`].
pub(super) fn keep(cx: &Read<'_>, of: HeadCriteria, first: &[NextThread]) {
    let window = HeadWindow { of, first: first.iter().copied().collect(), is_all: first.len() < WINDOW };
    cx.keep(&ONLY, QueueHeads(Some(window)));
}

/// Removes a thread that has left the queue.
pub(super) fn remove(cx: &Read<'_>, thread: ThreadId) -> Result<()> {
    cx.with_cached(&ONLY, |QueueHeads(window)| {
        window.iter_mut().for_each(|window| window.first.retain(|next| next.thread_id != thread));
        Ok(())
    })
}

/// Forgets the heads, because a thread has entered the queue.
pub(super) fn forget(cx: &Read<'_>) {
    cx.keep(&ONLY, QueueHeads(None));
}
