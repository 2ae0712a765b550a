//! The cache of a connection: token rows, channel access, skill sets, and what its transaction has read.
//!
//! An entry's type determines how long it lives. The epochs of a workspace are read again inside each
//! transaction, and an event whose kind says so raises one of them. An entry made from append-only rows
//! depends on none.

use std::any::{Any, TypeId};
use std::collections::HashMap;

use uuid::Uuid;

use crate::Result;
use crate::id::WorkspaceId;
use crate::log::event::Invalidates;
use crate::store::{Row, executor};

/// Maximum entries of all workspaces; a fuller cache starts over.
const ENTRIES_MAX: usize = 65_536;

/// The key of an entry: its type, and which one it is.
type Key = (TypeId, [u8; 32]);

/// How long a cached entry lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Until the transaction ends, or changes anything other than by saving rows.
    ///
    /// A reader has one for each snapshot, and a writer one for each batch. A caller that saves rows updates
    /// the entries made from them.
    Transaction,
    /// Until an event raises this epoch of the workspace.
    Epoch(Invalidates),
    /// As long as the connection, for what stays true whatever is added later.
    Connection,
}

/// A type that can be cached.
pub trait Cached: Clone + Send + 'static {
    /// How long its entries live.
    const LIFETIME: Lifetime;
}

/// The epochs of a workspace's cached entries: each rises when its entries are invalidated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epochs {
    pub access: i64,
    pub rules: i64,
}

impl Epochs {
    /// The epochs of a log that does not exist, such as that of an erased workspace. No real log has these
    /// values.
    pub const OF_NO_LOG: Self = Self { access: -1, rules: -1 };

    /// Takes the columns `epoch, rules_epoch` of a head.
    pub fn take(row: &mut Row) -> Result<Self> {
        Ok(Self { access: row.take()?, rules: row.take()? })
    }

    /// Starts the next epoch of `cached`.
    pub fn raise(&mut self, cached: Invalidates) {
        match cached {
            Invalidates::Access => self.access = self.access.saturating_add(1),
            Invalidates::Rules => self.rules = self.rules.saturating_add(1),
        }
    }
}

/// The cache key of the only entry of its type in a workspace.
pub(crate) const ONLY: [u8; 32] = [0; 32];

/// Identifies the object that an entry is about.
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

type Entries = HashMap<Key, Box<dyn Any + Send>>;

/// The entries of a workspace that outlive a transaction.
#[derive(Default)]
struct WorkspaceCache {
    epochs: Epochs,
    access: Entries,
    rules: Entries,
    connection: Entries,
}

/// The cached entries of all workspaces that one connection serves.
#[derive(Default)]
pub(crate) struct Cache {
    workspaces: HashMap<WorkspaceId, WorkspaceCache>,
    transaction: HashMap<WorkspaceId, Entries>,
    /// The invalidations of the running job.
    ///
    /// It may continue to change rows, so none of them is cached until it is over.
    suspended: Vec<(WorkspaceId, Invalidates)>,
    /// Entries that outlive a transaction, put since the cache was last empty.
    put: usize,
}

impl Cache {
    /// Returns the cached entry, if there is one.
    pub fn get<T: Cached>(&self, workspace: WorkspaceId, key: &impl CacheKey) -> Option<T> {
        let lasting = || self.workspaces.get(&workspace);
        let entries = match T::LIFETIME {
            Lifetime::Transaction => self.transaction.get(&workspace)?,
            Lifetime::Epoch(Invalidates::Access) => &lasting()?.access,
            Lifetime::Epoch(Invalidates::Rules) => &lasting()?.rules,
            Lifetime::Connection => &lasting()?.connection,
        };
        entries.get(&(TypeId::of::<T>(), key.cache_key()))?.downcast_ref::<T>().cloned()
    }

    /// Removes the cached entry and returns it.
    pub fn take<T: Cached>(&mut self, workspace: WorkspaceId, key: &impl CacheKey) -> Option<T> {
        let entry = self.entries(workspace, T::LIFETIME).remove(&(TypeId::of::<T>(), key.cache_key()))?;
        entry.downcast::<T>().ok().map(|entry| *entry)
    }

    /// Keeps an entry as long as its type says; once too many outlive a transaction, all are dropped.
    pub fn put<T: Cached>(&mut self, workspace: WorkspaceId, key: &impl CacheKey, entry: T) {
        if let Lifetime::Epoch(epoch) = T::LIFETIME
            && self.suspended.contains(&(workspace, epoch))
        {
            return;
        }
        if T::LIFETIME != Lifetime::Transaction {
            if self.put >= ENTRIES_MAX {
                self.workspaces.values_mut().for_each(|workspace_cache| {
                    *workspace_cache =
                        WorkspaceCache { epochs: workspace_cache.epochs, ..WorkspaceCache::default() };
                });
                self.put = 0;
            }
            self.put += 1;
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
            Lifetime::Epoch(Invalidates::Access) => &mut lasting.access,
            Lifetime::Epoch(Invalidates::Rules) => &mut lasting.rules,
            Lifetime::Transaction | Lifetime::Connection => &mut lasting.connection,
        }
    }

    /// Removes the entries of the transaction: it has ended or changed something.
    pub fn end_transaction(&mut self) {
        self.transaction.clear();
    }

    /// Keeps a workspace's entries only if they were made under these epochs.
    pub fn check(&mut self, workspace: WorkspaceId, epochs: Epochs) {
        let workspace_cache = self.workspaces.entry(workspace).or_default();
        if workspace_cache.epochs.access != epochs.access {
            workspace_cache.access.clear();
        }
        if workspace_cache.epochs.rules != epochs.rules {
            workspace_cache.rules.clear();
        }
        workspace_cache.epochs = epochs;
    }

    /// Returns the epochs under which a workspace's entries are kept.
    pub fn epochs(&self, workspace: WorkspaceId) -> Epochs {
        self.workspaces.get(&workspace).map(|workspace_cache| workspace_cache.epochs).unwrap_or_default()
    }

    /// Invalidates the entries made from rows that the running job changes: `epochs` are valid from now on.
    pub fn invalidate(&mut self, workspace: WorkspaceId, cached: Invalidates, epochs: Epochs) {
        self.check(workspace, epochs);
        self.suspended.push((workspace, cached));
    }

    /// Called when another job begins.
    pub fn begin_job(&mut self) {
        self.suspended.clear();
    }

    /// Removes everything: after a rollback, or when another process wrote to the file.
    pub fn clear(&mut self) {
        self.workspaces.clear();
        self.transaction.clear();
        self.put = 0;
    }
}

/// The cache of a reader: entries, and until its transaction ends the positions of the logs it has read.
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
    /// Returns how far a workspace's log reaches in this transaction, if that has been read.
    pub fn cached_lsn(&self, workspace: WorkspaceId) -> Option<i64> {
        self.lsns.get(&workspace).copied()
    }

    /// Caches how far a workspace's log reaches.
    ///
    /// Keeps the workspace's entries only if they were made under these epochs.
    pub fn check(&mut self, workspace: WorkspaceId, lsn: i64, epochs: Epochs) {
        self.entries.check(workspace, epochs);
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
        const LIFETIME: Lifetime = Lifetime::Epoch(Invalidates::Access);
    }

    #[derive(Clone, Debug, PartialEq)]
    struct Rule(u8);

    impl Cached for Rule {
        const LIFETIME: Lifetime = Lifetime::Epoch(Invalidates::Rules);
    }

    #[derive(Clone, Debug, PartialEq)]
    struct Fact(u8);

    impl Cached for Fact {
        const LIFETIME: Lifetime = Lifetime::Connection;
    }

    fn filled() -> Cache {
        let mut cache = Cache::default();
        cache.check(WORKSPACE, Epochs { access: 1, rules: 1 });
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
            cache.check(WORKSPACE, epochs);
            assert_eq!(found(&cache), left, "{epochs:?}");
        }
        let mut cache = filled();
        cache.clear();
        assert_eq!(found(&cache), (false, false, false));
    }

    #[test]
    fn a_job_caches_nothing_that_it_may_still_change() {
        let mut cache = filled();
        cache.invalidate(WORKSPACE, Invalidates::Access, Epochs { access: 2, rules: 1 });
        cache.put(WORKSPACE, &KEY, Right(7));
        assert_eq!(found(&cache), (false, true, true));
        cache.begin_job();
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
        cache.check(WORKSPACE, Epochs { access: 2, rules: 2 });
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
