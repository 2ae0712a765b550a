//! What the disk of a connection that writes has left undone: written by the connection, and asked by whoever must not
//! wait for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// The state of the disk, until a commit succeeds again. Clones are handles to the same one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk(Arc<AtomicU8>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    None,
    /// A commit failed by I/O: its frames may be whole, and a crash would bring them back.
    Unsettled,
    /// The disk is full: what the log holds is to be moved into the file before more is written.
    Full,
    /// The files may not be written.
    ReadOnly,
}

impl Trouble {
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

impl Disk {
    pub(super) fn set(&self, trouble: Trouble) {
        self.0.store(trouble.number(), Ordering::Relaxed);
    }

    pub(super) fn trouble(&self) -> Trouble {
        let number = self.0.load(Ordering::Relaxed);
        Trouble::ALL.into_iter().find(|trouble| trouble.number() == number).unwrap_or(Trouble::None)
    }

    /// Whether the disk has failed a write, and no write has succeeded since.
    pub fn is_troubled(&self) -> bool {
        self.trouble() != Trouble::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_is_seen_by_every_handle() {
        let disk = Disk::default();
        let other = disk.clone();
        for trouble in Trouble::ALL {
            disk.set(trouble);
            assert_eq!((other.trouble(), other.is_troubled()), (trouble, trouble != Trouble::None));
        }
    }
}
