//! Records the last failed write to the disk of a SQLite database.
//!
//! The writing connection records failures. Threads that must not wait for that connection read them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// The last write failure of a disk, until a write succeeds again. Clones share the state.
#[derive(Clone, Debug, Default)]
pub(crate) struct DiskState(Arc<AtomicU8>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskTrouble {
    None,
    /// A commit failed with an I/O error. Its frames in the write-ahead log may be complete, in which case a
    /// crash would restore them.
    Unsettled,
    /// The disk is full: the write-ahead log must be checkpointed before further writes.
    Full,
    /// The database files are read-only.
    ReadOnly,
}

impl DiskTrouble {
    const ALL: [Self; 4] = [Self::None, Self::Unsettled, Self::Full, Self::ReadOnly];

    fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Unsettled => 1,
            Self::Full => 2,
            Self::ReadOnly => 3,
        }
    }
}

impl DiskState {
    pub(super) fn set(&self, trouble: DiskTrouble) {
        self.0.store(trouble.number(), Ordering::Relaxed);
    }

    pub(super) fn trouble(&self) -> DiskTrouble {
        let number = self.0.load(Ordering::Relaxed);
        DiskTrouble::ALL.into_iter().find(|trouble| trouble.number() == number).unwrap_or(DiskTrouble::None)
    }

    /// Returns whether a write has failed and none has succeeded since.
    pub fn is_troubled(&self) -> bool {
        self.trouble() != DiskTrouble::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_handle_sees_the_same_state() {
        let disk = DiskState::default();
        let other = disk.clone();
        for trouble in DiskTrouble::ALL {
            disk.set(trouble);
            assert_eq!((other.trouble(), other.is_troubled()), (trouble, trouble != DiskTrouble::None));
        }
    }
}
