//! Caches open key trees for a short time, so that not every post and read has to open one.
//!
//! A connection keeps a slot for each key segment with its other cached entries, which a rollback removes.
//! Every slot is registered here, so that it is emptied in time. No tree is used for longer than 10 seconds
//! after it was read. Stale trees are harmless for so short a time: leaves never change, and a message's row
//! shows whether the message was withdrawn.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::key_tree::{KeyTree, Leaf, LeafPath};
use crate::sync::lock;
use crate::time::{Clock, Monotonic};

/// Maximum time for which an open tree is used.
const OPEN_TREE_TTL: Duration = Duration::from_secs(10);

/// A slot that keeps the open key tree of one key segment.
pub(crate) struct Slot {
    clock: Clock,
    open: Mutex<Option<OpenTree>>,
}

struct OpenTree {
    tree: KeyTree,
    path: LeafPath,
    expires_at: Monotonic,
}

impl Slot {
    /// Stores a tree that was just read or written.
    pub fn put(&self, tree: KeyTree) {
        let expires_at = self.clock.deadline(OPEN_TREE_TTL);
        *lock(&self.open) = Some(OpenTree { tree, path: LeafPath::default(), expires_at });
    }

    /// Returns a leaf of the open tree: `None` without an open tree, `Some(None)` if the leaf was cut.
    pub fn leaf(&self, lsn: i64) -> Option<Option<Leaf>> {
        let now = self.clock.monotonic();
        let mut open = lock(&self.open);
        let open = open.as_mut().filter(|open| now < open.expires_at)?;
        Some(open.tree.leaf_with_path(lsn, &mut open.path))
    }
}

/// The slots for open key trees of a process, which are emptied when the trees expire.
#[derive(Default)]
pub(crate) struct TreeCache {
    clock: Clock,
    slots: Mutex<Vec<Weak<Slot>>>,
}

impl TreeCache {
    /// Creates a cache whose trees expire by `clock`.
    pub fn with_clock(clock: Clock) -> Self {
        Self { clock, slots: Mutex::default() }
    }

    /// Creates a slot, which stays registered as long as the caller keeps it.
    pub fn new_slot(&self) -> Arc<Slot> {
        let slot = Arc::new(Slot { clock: self.clock.clone(), open: Mutex::default() });
        lock(&self.slots).push(Arc::downgrade(&slot));
        slot
    }

    /// Removes and zeroes the trees that have expired.
    pub fn evict(&self) {
        let now = self.clock.monotonic();
        lock(&self.slots).retain(|slot| {
            let slot = slot.upgrade();
            if let Some(slot) = &slot {
                lock(&slot.open).take_if(|open| open.expires_at <= now);
            }
            slot.is_some()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::Entropy;
    use crate::time::Time;

    #[test]
    fn a_tree_is_used_for_ten_seconds_and_then_wiped() {
        let clock = Clock::mock(Time::from_micros(0));
        let cache = TreeCache::with_clock(clock.clone());
        let slot = cache.new_slot();
        assert!(slot.leaf(1).is_none());
        let mut tree = KeyTree::grow(&Entropy::System).unwrap();
        assert!(tree.cut(2));
        slot.put(tree);
        assert!(slot.leaf(1).is_some_and(|leaf| leaf.is_some()));
        assert!(slot.leaf(2).is_some_and(|leaf| leaf.is_none()));
        clock.advance(OPEN_TREE_TTL - Duration::from_millis(1));
        cache.evict();
        assert!(slot.leaf(1).is_some() && lock(&slot.open).is_some());
        clock.advance(Duration::from_millis(1));
        assert!(slot.leaf(1).is_none());
        cache.evict();
        assert!(lock(&slot.open).is_none());
        drop(slot);
        cache.evict();
        assert!(lock(&cache.slots).is_empty());
    }
}
