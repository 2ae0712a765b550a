//! The feed: the newest events, shared by all subscribers of this process.
//!
//! Each workspace with subscribers has a [`Tail`], which the bus's background thread fills while the tail is
//! in use. The sender of an event checks which subscribers may see it, and adds its plaintext.

mod event;
mod tail;

use std::collections::HashMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, Weak};

use crate::id::WorkspaceId;
use crate::sync::lock;
use crate::time::Clock;
pub(crate) use event::FeedEvent;
pub use event::{FrameBytes, FrameForm};
pub(crate) use tail::{Tail, TailHead, TailView};

/// The tails of the workspaces that have subscribers in this process.
#[derive(Default)]
pub(crate) struct Feed {
    tails: Mutex<HashMap<WorkspaceId, Weak<Tail>>>,
    /// Total bytes of the events in all tails.
    bytes: Arc<AtomicUsize>,
}

impl Feed {
    /// Returns the tail of a workspace. A new tail begins after position `lsn`.
    pub fn enter(&self, workspace: WorkspaceId, lsn: i64, clock: &Clock) -> Arc<Tail> {
        let mut tails = lock(&self.tails);
        if let Some(tail) = tails.get(&workspace).and_then(Weak::upgrade) {
            return tail;
        }
        tails.retain(|_, tail| tail.strong_count() > 0);
        let tail = Arc::new(Tail::new(workspace, lsn, clock, Arc::clone(&self.bytes)));
        tails.insert(workspace, Arc::downgrade(&tail));
        tail
    }

    /// Returns the tail of a workspace, if it has one.
    pub fn tail(&self, workspace: WorkspaceId) -> Option<Arc<Tail>> {
        lock(&self.tails).get(&workspace).and_then(Weak::upgrade)
    }
}
