//! The cache of a connection: token rows, channel access, skill sets, and rows that the current transaction
//! has read.
//!
//! The type of an entry determines how long it lives. The epochs of a workspace are read again inside each
//! transaction, and events of certain kinds raise one of them. An entry made from append-only rows does not
//! depend on an epoch.

use std::any::{Any, TypeId};
use std::collections::HashMap;

use uuid::Uuid;

use crate::Result;
use crate::id::WorkspaceId;
use crate::log::event::CachedEntryKind;
use crate::store::{Row, executor};

/// Maximum cached entries for all workspaces together. A full cache is emptied.
const ENTRIES_MAX: usize = 65_536;

/// The key of an entry: the type of the entry, and the object that it describes.
type EntryKey = (TypeId, [u8; 32]);

/// The time for which a cached entry stays valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Until the transaction ends or the writer changes rows, except by saving them.
    ///
    /// Such an entry belongs to one snapshot of a reader or one batch of a writer. A caller that saves rows
    /// updates the entries made from them.
    Transaction,
    /// Until an event raises this epoch of the workspace.
    Epoch(CachedEntryKind),
    /// Until the connection is closed, for facts that later events cannot change.
    Connection,
}

/// A type that can be cached.
pub trait Cached: Clone + Send + 'static {
    /// The lifetime of entries of this type.
    const LIFETIME: Lifetime;
}

/// The epochs of a workspace's cached entries. An epoch rises when the entries that depend on it are
/// invalidated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epochs {
    pub access: i64,
    pub rules: i64,
}

impl Epochs {
    /// Epochs of a workspace without a log, such as an erased workspace. No real log has these values.
    pub const WITHOUT_LOG: Self = Self { access: -1, rules: -1 };

    /// Reads the columns `epoch, rules_epoch` of a head row.
    pub fn take(row: &mut Row) -> Result<Self> {
        Ok(Self { access: row.take()?, rules: row.take()? })
    }

    /// Starts the next epoch for entries of the kind `cached`.
    pub fn raise(&mut self, cached: CachedEntryKind) {
        match cached {
            CachedEntryKind::Access => self.access = self.access.saturating_add(1),
            CachedEntryKind::Rules => self.rules = self.rules.saturating_add(1),
        }
    }
}

/// The cache key for a type that has only one entry per workspace.
pub(crate) const SINGLE_ENTRY: [u8; 32] = [0; 32];

/// Identifies the object that a cache entry describes.
pub trait CacheKey {
    /// Returns a value that is unique among the entries of one type.
    fn cache_key(&self) -> [u8; 32];
}

impl CacheKey for [u8; 32] {
    fn cache_key(&self) -> [u8; 32] {
        *self
    }
}

impl<A: Into<Uuid> + Copy, B: Into<Uuid> + Copy> CacheKey for (A, B) {
    fn cache_key(&self) -> [u8; 32] {
        let (a, b): (Uuid, Uuid) = (self.0.into(), self.1.into());
        let mut key = [0; 32];
        let (left, right) = key.split_at_mut(16);
        left.copy_from_slice(a.as_bytes());
        right.copy_from_slice(b.as_bytes());
        key
    }
}

type Entries = HashMap<EntryKey, Box<dyn Any + Send>>;

/// The entries of a workspace that outlive a transaction.
#[derive(Default)]
struct WorkspaceCache {
    epochs: Epochs,
    access: Entries,
    rules: Entries,
    connection: Entries,
}

/// The cached entries of one connection, for all workspaces.
#[derive(Default)]
pub(crate) struct Cache {
    workspaces: HashMap<WorkspaceId, WorkspaceCache>,
    transaction: HashMap<WorkspaceId, Entries>,
    /// The workspaces and kinds of entries that the running job has invalidated.
    ///
    /// The job may continue to change rows, so no invalidated entry is cached until the job has ended.
    invalidated: Vec<(WorkspaceId, CachedEntryKind)>,
    /// Number of entries that outlive a transaction, added since the cache was last empty.
    lasting_count: usize,
}

impl Cache {
    /// Returns the entry of type `T` that is cached under `key`, or `None` without such an entry.
    pub fn get<T: Cached>(&self, workspace: WorkspaceId, key: &impl CacheKey) -> Option<T> {
        let lasting = || self.workspaces.get(&workspace);
        let entries = match T::LIFETIME {
            Lifetime::Transaction => self.transaction.get(&workspace)?,
            Lifetime::Epoch(CachedEntryKind::Access) => &lasting()?.access,
            Lifetime::Epoch(CachedEntryKind::Rules) => &lasting()?.rules,
            Lifetime::Connection => &lasting()?.connection,
        };
        entries.get(&(TypeId::of::<T>(), key.cache_key()))?.downcast_ref::<T>().cloned()
    }

    /// Removes the entry of type `T` that is cached under `key`, and returns it.
    pub fn take<T: Cached>(&mut self, workspace: WorkspaceId, key: &impl CacheKey) -> Option<T> {
        let entry = self.entries(workspace, T::LIFETIME).remove(&(TypeId::of::<T>(), key.cache_key()))?;
        entry.downcast::<T>().ok().map(|entry| *entry)
    }

    /// Caches an entry for the lifetime of its type.
    ///
    /// If the cache is full, first drops all entries that outlive a transaction.
    pub fn put<T: Cached>(&mut self, workspace: WorkspaceId, key: &impl CacheKey, entry: T) {
        if let Lifetime::Epoch(epoch) = T::LIFETIME
            && self.invalidated.contains(&(workspace, epoch))
        {
            return;
        }
        if T::LIFETIME != Lifetime::Transaction {
            if self.lasting_count >= ENTRIES_MAX {
                self.workspaces.values_mut().for_each(|workspace_cache| {
                    *workspace_cache =
                        WorkspaceCache { epochs: workspace_cache.epochs, ..WorkspaceCache::default() };
                });
                self.lasting_count = 0;
            }
            self.lasting_count += 1;
        }
        let key = (TypeId::of::<T>(), key.cache_key());
        self.entries(workspace, T::LIFETIME).insert(key, Box::new(entry));
    }

    fn entries(&mut self, workspace: WorkspaceId, lifetime: Lifetime) -> &mut Entries {
        if lifetime == Lifetime::Transaction {
            return self.transaction.entry(workspace).or_default();
        }
        let lasting = self.workspaces.entry(workspace).or_default();
        match lifetime {
            Lifetime::Epoch(CachedEntryKind::Access) => &mut lasting.access,
            Lifetime::Epoch(CachedEntryKind::Rules) => &mut lasting.rules,
            Lifetime::Transaction | Lifetime::Connection => &mut lasting.connection,
        }
    }

    /// Removes the entries with the lifetime of a transaction, when the transaction ends or the writer
    /// changes rows.
    pub fn end_transaction(&mut self) {
        self.transaction.clear();
    }

    /// Drops the entries of a workspace that were made under other epochs than `epochs`.
    pub fn drop_outdated(&mut self, workspace: WorkspaceId, epochs: Epochs) {
        let workspace_cache = self.workspaces.entry(workspace).or_default();
        if workspace_cache.epochs.access != epochs.access {
            workspace_cache.access.clear();
        }
        if workspace_cache.epochs.rules != epochs.rules {
            workspace_cache.rules.clear();
        }
        workspace_cache.epochs = epochs;
    }

    /// Returns the epochs under which a workspace's entries were made.
    pub fn epochs(&self, workspace: WorkspaceId) -> Epochs {
        self.workspaces.get(&workspace).map(|workspace_cache| workspace_cache.epochs).unwrap_or_default()
    }

    /// Invalidates the entries made from rows that the running job changes. From now on, entries must be made
    /// under `epochs`.
    pub fn invalidate(&mut self, workspace: WorkspaceId, cached: CachedEntryKind, epochs: Epochs) {
        self.drop_outdated(workspace, epochs);
        self.invalidated.push((workspace, cached));
    }

    /// Clears the invalidations of the previous job. Called when the next job begins.
    pub fn begin_task(&mut self) {
        self.invalidated.clear();
    }

    /// Removes all entries, after a rollback or when another process has written to the file.
    pub fn clear(&mut self) {
        self.workspaces.clear();
        self.transaction.clear();
        self.lasting_count = 0;
    }
}

/// The cache of a reader: its entries and, until its transaction ends, the positions of the logs it has read.
#[derive(Default)]
pub(crate) struct ReaderCache {
    pub entries: Cache,
    lsns: HashMap<WorkspaceId, i64>,
}

impl executor::ReaderState for ReaderCache {
    fn begin(&mut self) {
        self.lsns.clear();
        self.entries.end_transaction();
    }
}

impl ReaderCache {
    /// Returns the last position of a workspace's log in this transaction, or `None` if it has not been read.
    pub fn cached_lsn(&self, workspace: WorkspaceId) -> Option<i64> {
        self.lsns.get(&workspace).copied()
    }

    /// Caches the last position of a workspace's log.
    ///
    /// Drops the workspace's entries unless they were made under these epochs.
    pub fn check(&mut self, workspace: WorkspaceId, lsn: i64, epochs: Epochs) {
        self.entries.drop_outdated(workspace, epochs);
        self.lsns.insert(workspace, lsn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKSPACE: WorkspaceId = WorkspaceId::INSTANCE;
    const KEY: [u8; 32] = [1; 32];

    #[derive(Clone, Debug, PartialEq)]
    struct Right(u8);

    impl Cached for Right {
        const LIFETIME: Lifetime = Lifetime::Epoch(CachedEntryKind::Access);
    }

    #[derive(Clone, Debug, PartialEq)]
    struct Rule(u8);

    impl Cached for Rule {
        const LIFETIME: Lifetime = Lifetime::Epoch(CachedEntryKind::Rules);
    }

    #[derive(Clone, Debug, PartialEq)]
    struct Fact(u8);

    impl Cached for Fact {
        const LIFETIME: Lifetime = Lifetime::Connection;
    }

    fn filled() -> Cache {
        let mut cache = Cache::default();
        cache.drop_outdated(WORKSPACE, Epochs { access: 1, rules: 1 });
        cache.put(WORKSPACE, &KEY, Right(7));
        cache.put(WORKSPACE, &KEY, Rule(8));
        cache.put(WORKSPACE, &KEY, Fact(9));
        cache
    }

    fn found(cache: &Cache) -> (bool, bool, bool) {
        (
            cache.get::<Right>(WORKSPACE, &KEY).is_some(),
            cache.get::<Rule>(WORKSPACE, &KEY).is_some(),
            cache.get::<Fact>(WORKSPACE, &KEY).is_some(),
        )
    }

    #[test]
    fn an_entry_lives_as_long_as_its_epoch() {
        for (epochs, left) in [
            (Epochs { access: 1, rules: 1 }, (true, true, true)),
            (Epochs { access: 2, rules: 1 }, (false, true, true)),
            (Epochs { access: 1, rules: 2 }, (true, false, true)),
            (Epochs { access: 2, rules: 2 }, (false, false, true)),
        ] {
            let mut cache = filled();
            cache.drop_outdated(WORKSPACE, epochs);
            assert_eq!(found(&cache), left, "{epochs:?}");
        }
        let mut cache = filled();
        cache.clear();
        assert_eq!(found(&cache), (false, false, false));
    }

    #[test]
    fn a_job_caches_nothing_that_it_may_still_change() {
        let mut cache = filled();
        cache.invalidate(WORKSPACE, CachedEntryKind::Access, Epochs { access: 2, rules: 1 });
        cache.put(WORKSPACE, &KEY, Right(7));
        assert_eq!(found(&cache), (false, true, true));
        cache.begin_task();
        cache.put(WORKSPACE, &KEY, Right(6));
        assert_eq!(cache.get::<Right>(WORKSPACE, &KEY), Some(Right(6)));
    }

    #[derive(Clone, Debug, PartialEq)]
    struct Read(u8);

    impl Cached for Read {
        const LIFETIME: Lifetime = Lifetime::Transaction;
    }

    #[test]
    fn what_a_transaction_has_read_ends_with_it() {
        let mut cache = filled();
        cache.put(WORKSPACE, &KEY, Read(3));
        cache.drop_outdated(WORKSPACE, Epochs { access: 2, rules: 2 });
        assert_eq!(cache.get(Uuid::from_u128(7).into(), &KEY), None::<Read>);
        assert_eq!(cache.get(WORKSPACE, &KEY), Some(Read(3)));
        cache.end_transaction();
        assert_eq!(cache.get(WORKSPACE, &KEY), None::<Read>);
        assert_eq!(found(&cache), (false, false, true));
        let mut reader = ReaderCache::default();
        reader.entries.put(WORKSPACE, &KEY, Read(4));
        executor::ReaderState::begin(&mut reader);
        assert_eq!(reader.entries.get(WORKSPACE, &KEY), None::<Read>);
    }

    #[test]
    fn a_taken_entry_is_gone() {
        let mut cache = filled();
        assert_eq!(cache.take::<Fact>(WORKSPACE, &KEY), Some(Fact(9)));
        assert_eq!(cache.take::<Fact>(WORKSPACE, &KEY), None);
    }
}
