//! The Merkle tree over a log, grown while that is walked.
//!
//! In a log that was pruned it begins at the floor, with the frontier that the newest pruning has declared.

use crate::log::tree::Frontier;

/// The tree up to where a walk has come.
#[derive(Clone, Default)]
pub(super) struct TreeWalk {
    /// None until it is known where the log begins.
    frontier: Option<Frontier>,
    /// The size at which its root is wanted.
    wanted: Option<u64>,
    /// The root at that size.
    found: Option<[u8; 32]>,
}

impl TreeWalk {
    /// Creates a tree whose root at a size is wanted.
    pub fn wanting(size: Option<u64>) -> Self {
        Self { wanted: size, ..Self::default() }
    }

    /// Returns one that wants the same, of which nothing was walked.
    pub fn again(&self) -> Self {
        Self::wanting(self.wanted)
    }

    /// Begins with the tree over what is not walked.
    pub fn begin(&mut self, frontier: Frontier) {
        self.frontier = Some(frontier);
        self.look();
    }

    /// Adds the event at a position; one that is part of the tree already is left out.
    pub fn push(&mut self, lsn: i64, content_hash: &[u8; 32]) {
        let Some(frontier) = &mut self.frontier else { return };
        if u64::try_from(lsn) == Ok(frontier.size().saturating_add(1)) {
            frontier.push(content_hash);
            self.look();
        }
    }

    fn look(&mut self) {
        if let Some(frontier) = &self.frontier
            && self.wanted == Some(frontier.size())
        {
            self.found = Some(frontier.root());
        }
    }

    /// Returns the root at the size that was wanted, if the walk has passed it.
    pub fn found(&self) -> Option<[u8; 32]> {
        self.found
    }

    /// Returns the size and the root where the walk has ended.
    pub fn end(&self) -> Option<(u64, [u8; 32])> {
        self.frontier.as_ref().map(|frontier| (frontier.size(), frontier.root()))
    }
}
