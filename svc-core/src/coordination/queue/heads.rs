//! The first threads of the queue that a batch has read, kept for the jobs of the batch that claim them.
//!
//! One statement reads the first threads for a caller. A thread that a job takes from the queue is removed
//! from the kept threads. When a job adds a thread to the queue, the kept threads are dropped and read again.

use std::collections::VecDeque;
use std::sync::Arc;

use uuid::Uuid;

use super::probes::WINDOW;
use crate::Result;
use crate::coordination::footprint::RepoKey;
use crate::id::{ChannelId, ThreadId};
use crate::log::cache::{Cached, Lifetime, ONLY};
use crate::op::Read;

/// The thread that a member would claim next. Threads are ordered as they are claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::coordination) struct NextThread {
    pub(super) urgency: i64,
    pub(super) lsn: i64,
    pub thread_id: ThreadId,
    pub channel_id: ChannelId,
    /// The id of the thread's footprint; 0 without a footprint.
    pub footprint: i64,
}

/// The criteria that determine the next thread: the channels or pools, the skill sets and the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeadCriteria {
    pub places: Vec<Uuid>,
    pub eligible: Arc<Vec<i64>>,
    pub repo: Option<RepoKey>,
}

/// The first threads that the batch has read, if it has read any.
#[derive(Clone, Default)]
struct QueueHeads(Option<HeadWindow>);

impl Cached for QueueHeads {
    const LIFETIME: Lifetime = Lifetime::Transaction;
}

/// The first threads of the queue that meet some criteria, in order.
#[derive(Clone)]
struct HeadWindow {
    of: HeadCriteria,
    first: VecDeque<NextThread>,
    /// Whether no further threads of the queue meet the criteria.
    is_all: bool,
}

/// The next thread of the queue, as far as a batch knows it.
pub(super) enum Next {
    Is(NextThread),
    /// The queue has no such thread.
    Nothing,
    /// The next thread is not known, because it has not been read since a thread entered the queue.
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

/// Keeps the first threads of the queue, up to [`WINDOW`], for later jobs of the batch.
pub(super) fn keep(cx: &Read<'_>, of: HeadCriteria, first: &[NextThread]) {
    let window = HeadWindow { of, first: first.iter().copied().collect(), is_all: first.len() < WINDOW };
    cx.keep(&ONLY, QueueHeads(Some(window)));
}

/// Removes a thread that has left the queue from the kept threads.
pub(super) fn remove(cx: &Read<'_>, thread: ThreadId) -> Result<()> {
    cx.with_cached(&ONLY, |QueueHeads(window)| {
        window.iter_mut().for_each(|window| window.first.retain(|next| next.thread_id != thread));
        Ok(())
    })
}

/// Drops the kept threads, because a thread has entered the queue.
pub(super) fn forget(cx: &Read<'_>) {
    cx.keep(&ONLY, QueueHeads(None));
}
