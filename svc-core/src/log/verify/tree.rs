//! The Merkle tree over a log, computed during a walk.
//!
//! In a pruned log the tree begins at the floor, with the frontier that the newest pruning has declared.

use crate::log::tree::Frontier;

/// The Merkle tree up to the current position of a walk.
#[derive(Clone, Default)]
pub(super) struct TreeWalk {
    /// The frontier of the tree, or `None` until the beginning of the log is known.
    frontier: Option<Frontier>,
    /// The tree size for which the root is requested.
    requested_size: Option<u64>,
    /// The root of the tree at the requested size, once the walk has reached that size.
    requested_root: Option<[u8; 32]>,
}

impl TreeWalk {
    /// Creates a tree that records the root at tree size `size`.
    pub fn with_requested_size(size: Option<u64>) -> Self {
        Self { requested_size: size, ..Self::default() }
    }

    /// Returns a new empty tree for the same requested size.
    pub fn restart(&self) -> Self {
        Self::with_requested_size(self.requested_size)
    }

    /// Sets the frontier of the tree over the events before the walk.
    pub fn begin(&mut self, frontier: Frontier) {
        self.frontier = Some(frontier);
        self.record_root();
    }

    /// Adds the event at a position, unless it is already part of the tree.
    pub fn push(&mut self, lsn: i64, content_hash: &[u8; 32]) {
        let Some(frontier) = &mut self.frontier else { return };
        if u64::try_from(lsn) == Ok(frontier.size().saturating_add(1)) {
            frontier.push(content_hash);
            self.record_root();
        }
    }

    fn record_root(&mut self) {
        if let Some(frontier) = &self.frontier
            && self.requested_size == Some(frontier.size())
        {
            self.requested_root = Some(frontier.root());
        }
    }

    /// Returns the root of the tree at the requested size, or `None` if the walk has not reached that size.
    pub fn requested_root(&self) -> Option<[u8; 32]> {
        self.requested_root
    }

    /// Returns the size and the root of the tree at the end of the walk.
    pub fn size_and_root(&self) -> Option<(u64, [u8; 32])> {
        self.frontier.as_ref().map(|frontier| (frontier.size(), frontier.root()))
    }
}
