//! Records the last failed write to the disk of a SQLite database.
//!
//! The writing connection records failures. Threads that must not wait for that connection read them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// The last write failure of a disk, until a write succeeds again. Clones share the state.
#[derive(Clone, Debug, Default)]
pub(crate) struct DiskState(Arc<AtomicU8>);

/// The kind of the last write failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiskErrorKind {
    /// No write has failed, or a write has succeeded since.
    None,
    /// A commit failed with an I/O error. Its frames in the write-ahead log may be complete, in which case a
    /// crash would restore them.
    UncertainCommit,
    /// The disk is full: the write-ahead log must be checkpointed before further writes.
    Full,
    /// The database files are read-only.
    ReadOnly,
}

impl DiskErrorKind {
    const ALL: [Self; 4] = [Self::None, Self::UncertainCommit, Self::Full, Self::ReadOnly];

    /// Returns the number that represents the kind in a [`DiskState`].
    fn number(self) -> u8 {
        match self {
            Self::None => 0,
            Self::UncertainCommit => 1,
            Self::Full => 2,
            Self::ReadOnly => 3,
        }
    }
}

impl DiskState {
    pub(super) fn set_error_kind(&self, kind: DiskErrorKind) {
        self.0.store(kind.number(), Ordering::Relaxed);
    }

    pub(super) fn error_kind(&self) -> DiskErrorKind {
        let number = self.0.load(Ordering::Relaxed);
        DiskErrorKind::ALL.into_iter().find(|kind| kind.number() == number).unwrap_or(DiskErrorKind::None)
    }

    /// Returns whether a write has failed and none has succeeded since.
    pub fn has_error(&self) -> bool {
        self.error_kind() != DiskErrorKind::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_handle_sees_the_same_state() {
        let disk = DiskState::default();
        let other = disk.clone();
        for kind in DiskErrorKind::ALL {
            disk.set_error_kind(kind);
            assert_eq!((other.error_kind(), other.has_error()), (kind, kind != DiskErrorKind::None));
        }
    }
}
