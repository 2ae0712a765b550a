//! The heads of the queue that jobs have read: who is next, and after that, for the jobs that take them.
//!
//! One statement reads the first threads for a caller. What a job takes from the queue leaves them; what it
//! adds, or changes otherwise, makes them unknown, and they are read again. So a claim seldom looks at the
//! index where the entries of those that were taken before may still stand.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use uuid::Uuid;

use super::LEAVE;
use crate::coordination::footprint::RepoKey;
use crate::id::{ChannelId, ThreadId};
use crate::log::batch::BatchMemo;
use crate::op::Read;
use crate::store::RowWrite;

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

/// What determines who is next: where, of which skill sets, of which repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sought {
    pub places: Vec<Uuid>,
    pub eligible: Arc<Vec<i64>>,
    pub repo: Option<RepoKey>,
}

/// The heads that jobs have read.
#[derive(Default)]
struct Heads {
    windows: Vec<Window>,
    /// What the running job has announced of threads that are not ready when it ends.
    announced: HashMap<ThreadId, Announced>,
}

/// What is known of a thread that is not ready at the end of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Announced {
    /// The job takes it from the queue.
    Leaves,
    /// It was not in the queue before.
    StaysAway,
}

/// The first threads of a part of the queue, in order.
struct Window {
    of: Sought,
    first: VecDeque<NextThread>,
    /// Whether there are no others.
    is_all: bool,
}

/// Most parts of the queue of which a batch knows the heads.
const WINDOWS_MAX: usize = 16;

impl BatchMemo for Heads {
    const TABLES: &'static [&'static str] = &["ready"];

    fn changed(&mut self) {
        self.windows.clear();
    }

    fn row_changed(&mut self, write: &'static RowWrite, key: Uuid) {
        if !std::ptr::eq(write, &raw const LEAVE) {
            return self.changed();
        }
        for window in &mut self.windows {
            window.first.retain(|next| next.thread_id.uuid() != key);
        }
    }

    fn committed(&mut self) {
        self.announced.clear();
    }
}

/// Returns who is next, if that is known; none of them if nobody is.
pub(super) fn known(cx: &Read<'_>, sought: &Sought) -> Option<Option<NextThread>> {
    let known = cx.memo(|heads: &mut Heads| {
        let window = heads.windows.iter().find(|window| window.of == *sought)?;
        match window.first.front() {
            Some(next) => Some(Some(*next)),
            None => window.is_all.then_some(None),
        }
    });
    known.flatten()
}

/// Returns the threads that are taken next, as far as is known: those that the jobs of this batch take, and
/// among `ahead` more those without a footprint, which alone are known after a batch.
pub(super) fn upcoming(cx: &Read<'_>, sought: &Sought, ahead: usize) -> Vec<ThreadId> {
    let takes = cx.expected_takes();
    let first = cx.memo(|heads: &mut Heads| {
        let window = heads.windows.iter().find(|window| window.of == *sought)?;
        let next = window.first.iter().take(takes.saturating_add(ahead)).enumerate();
        let worth = next.filter(|(at, next)| *at < takes || next.footprint == 0);
        Some(worth.map(|(_, next)| next.thread_id).collect())
    });
    first.flatten().unwrap_or_default()
}

/// Keeps what was read of the queue: its first threads, at most `most`.
pub(super) fn keep(cx: &Read<'_>, of: Sought, first: &[NextThread], most: usize) {
    let window = Window { of, first: first.iter().copied().collect(), is_all: first.len() < most };
    let _: Option<()> = cx.memo(|heads: &mut Heads| {
        heads.windows.retain(|known| known.of != window.of);
        if heads.windows.len() < WINDOWS_MAX {
            heads.windows.push(window);
        }
    });
}

/// Announces what the running job makes of a thread's place in the queue.
pub(super) fn announce(cx: &Read<'_>, thread: ThreadId, announced: Announced) {
    let _ = cx.memo(|heads: &mut Heads| heads.announced.insert(thread, announced));
}

/// Returns what the running job has announced of a thread.
///
/// That is forgotten with it: a later job may return the thread.
pub(super) fn take_announced(cx: &Read<'_>, thread: ThreadId) -> Option<Announced> {
    cx.memo(|heads: &mut Heads| heads.announced.remove(&thread)).flatten()
}
