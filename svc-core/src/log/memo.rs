//! What a writer or a reader remembers between transactions: token rows, channel access, skill sets. An entry is
//! valid only while its workspace's epoch, which is read again inside each transaction, stays the same; whoever
//! changes rows that an entry was loaded from raises the epoch.

use std::any::{Any, TypeId};
use std::collections::HashMap;

use uuid::Uuid;

use crate::id::WorkspaceId;
use crate::store::executor;

/// Entries of all workspaces at the most; a fuller memo starts over.
const ENTRIES_MAX: usize = 65_536;

/// The key of an entry: what kind of thing, and which one.
type Key = (TypeId, [u8; 32]);

/// Names the thing that an entry is about.
pub trait MemoKey {
    /// A value that is unique among the entries of one type.
    fn memo_key(&self) -> [u8; 32];
}

impl MemoKey for [u8; 32] {
    fn memo_key(&self) -> [u8; 32] {
        *self
    }
}

impl<A: Into<Uuid> + Copy, B: Into<Uuid> + Copy> MemoKey for (A, B) {
    fn memo_key(&self) -> [u8; 32] {
        let (a, b): (Uuid, Uuid) = (self.0.into(), self.1.into());
        let mut key = [0; 32];
        let (left, right) = key.split_at_mut(16);
        left.copy_from_slice(a.as_bytes());
        right.copy_from_slice(b.as_bytes());
        key
    }
}

#[derive(Default)]
struct Shelf {
    epoch: i64,
    entries: HashMap<Key, Box<dyn Any + Send>>,
}

/// The remembered entries of all workspaces that one connection serves.
#[derive(Default)]
pub(crate) struct Memo {
    shelves: HashMap<WorkspaceId, Shelf>,
    /// Entries put since the memo was last empty.
    put: usize,
}

impl Memo {
    /// The remembered entry, if there is one.
    pub fn get<T: Clone + 'static>(&self, workspace: WorkspaceId, key: &impl MemoKey) -> Option<T> {
        let entry = self.shelves.get(&workspace)?.entries.get(&(TypeId::of::<T>(), key.memo_key()))?;
        entry.downcast_ref::<T>().cloned()
    }

    /// Remembers an entry.
    pub fn put<T: Clone + Send + 'static>(&mut self, workspace: WorkspaceId, key: &impl MemoKey, entry: T) {
        if self.put >= ENTRIES_MAX {
            self.shelves.values_mut().for_each(|shelf| shelf.entries.clear());
            self.put = 0;
        }
        self.put += 1;
        let shelf = self.shelves.entry(workspace).or_default();
        shelf.entries.insert((TypeId::of::<T>(), key.memo_key()), Box::new(entry));
    }

    /// Keeps a workspace's entries only if they were made under `epoch`.
    pub fn check(&mut self, workspace: WorkspaceId, epoch: i64) {
        let shelf = self.shelves.entry(workspace).or_default();
        if shelf.epoch != epoch {
            shelf.entries.clear();
            shelf.epoch = epoch;
        }
    }

    /// Forgets everything: after a rollback, or when another process wrote to the file.
    pub fn clear(&mut self) {
        self.shelves.clear();
        self.put = 0;
    }
}

/// What a reader remembers: entries, and until its transaction ends which logs it has looked at.
#[derive(Default)]
pub(crate) struct Notes {
    pub memo: Memo,
    /// How far the database's clock is ahead of ours, on Postgres, as last read.
    pub skew_micros: i64,
    reached: HashMap<WorkspaceId, i64>,
}

impl executor::Notes for Notes {
    fn begin(&mut self) {
        self.reached.clear();
    }
}

impl Notes {
    /// How far a workspace's log reaches in this transaction, if somebody has looked.
    pub fn reached(&self, workspace: WorkspaceId) -> Option<i64> {
        self.reached.get(&workspace).copied()
    }

    /// Notes how far a workspace's log reaches, and keeps its entries only if they were made under `epoch`.
    pub fn check(&mut self, workspace: WorkspaceId, lsn: i64, epoch: i64) {
        self.memo.check(workspace, epoch);
        self.reached.insert(workspace, lsn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_lives_as_long_as_its_epoch() {
        let (workspace, key) = (WorkspaceId::INSTANCE, [1; 32]);
        let mut memo = Memo::default();
        memo.check(workspace, 1);
        memo.put(workspace, &key, 7_i64);
        memo.check(workspace, 1);
        assert_eq!(memo.get::<i64>(workspace, &key), Some(7));
        assert_eq!(memo.get::<u8>(workspace, &key), None);
        memo.check(workspace, 2);
        assert_eq!(memo.get::<i64>(workspace, &key), None);
    }
}
