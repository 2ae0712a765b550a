//! A cache of the first threads of the queue, for the jobs of one batch that claim threads.
//!
//! One statement reads the first threads for a caller. A thread that a job removes from the queue is removed
//! from the cache. When a job adds a thread to the queue, the cache is dropped, and the first threads are
//! read again.

use std::collections::VecDeque;
use std::sync::Arc;

use uuid::Uuid;

use super::probes::WINDOW;
use crate::Result;
use crate::coordination::footprint::RepoKey;
use crate::id::{ChannelId, ThreadId};
use crate::log::cache::{Cached, Lifetime, SINGLE_ENTRY};
use crate::op::Read;

/// The thread that a member would claim next. Threads are ordered as they are claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::coordination) struct NextThread {
    /// The negated priority, so that more urgent threads are first in the order.
    pub(super) urgency: i64,
    pub(super) lsn: i64,
    pub thread_id: ThreadId,
    pub channel_id: ChannelId,
    /// The id of the thread's footprint; 0 without a footprint.
    pub footprint: i64,
}

/// The criteria that determine the next thread: the channels or pools, the skill sets and the repository.
///
/// A pool contains the queued threads of all public channels of a workspace, or of one private channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeadCriteria {
    /// The ids of the channels, or of the pools, to search.
    pub places: Vec<Uuid>,
    /// The ids of the skill sets that the member covers.
    pub eligible: Arc<Vec<i64>>,
    pub repo: Option<RepoKey>,
}

/// The cached first threads of the queue, or `None` if nothing is cached.
#[derive(Clone, Default)]
struct QueueHeads(Option<HeadWindow>);

impl Cached for QueueHeads {
    const LIFETIME: Lifetime = Lifetime::Transaction;
}

/// The first threads of the queue that meet some criteria, in order.
#[derive(Clone)]
struct HeadWindow {
    criteria: HeadCriteria,
    threads: VecDeque<NextThread>,
    /// Whether no further threads of the queue meet the criteria.
    is_complete: bool,
}

/// The next thread of the queue according to the cache of a batch.
pub(super) enum CachedHead {
    Known(NextThread),
    /// The queue has no thread that meets the criteria.
    Nothing,
    /// The next thread is not cached, so it must be read from the queue.
    Unread,
}

/// Returns the next thread that meets `criteria`, according to the cache of the batch.
pub(super) fn next_head(cx: &Read<'_>, criteria: &HeadCriteria) -> Result<CachedHead> {
    cx.with_cached(&SINGLE_ENTRY, |QueueHeads(window)| {
        let window = window.as_ref().filter(|window| window.criteria == *criteria);
        Ok(match window.map(|window| (window.threads.front(), window.is_complete)) {
            Some((Some(next), _)) => CachedHead::Known(*next),
            Some((None, true)) => CachedHead::Nothing,
            Some((None, false)) | None => CachedHead::Unread,
        })
    })
}

/// Caches the first threads of the queue, up to [`WINDOW`], for later jobs of the batch.
pub(super) fn cache_heads(cx: &Read<'_>, criteria: HeadCriteria, first: &[NextThread]) {
    let window =
        HeadWindow { criteria, threads: first.iter().copied().collect(), is_complete: first.len() < WINDOW };
    cx.keep(&SINGLE_ENTRY, QueueHeads(Some(window)));
}

/// Removes a thread from the cache, because the thread has left the queue.
pub(super) fn remove_from_cache(cx: &Read<'_>, thread: ThreadId) -> Result<()> {
    cx.with_cached(&SINGLE_ENTRY, |QueueHeads(window)| {
        window.iter_mut().for_each(|window| window.threads.retain(|next| next.thread_id != thread));
        Ok(())
    })
}

/// Drops the cached threads, because a thread has entered the queue.
pub(super) fn clear_cache(cx: &Read<'_>) {
    cx.keep(&SINGLE_ENTRY, QueueHeads(None));
}
