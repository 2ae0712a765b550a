//! What a writer or a reader caches between transactions: token rows, channel access, skill sets.
//!
//! An entry's type determines which epoch of its workspace invalidates it; the epochs are read again inside
//! each transaction, and an event whose kind says so raises one of them. An entry made from append-only rows
//! depends on none.

use std::any::{Any, TypeId};
use std::collections::HashMap;

use uuid::Uuid;

use crate::Result;
use crate::id::WorkspaceId;
use crate::log::event::Invalidates;
use crate::store::{Row, executor};

/// Most entries of all workspaces; a fuller cache starts over.
const ENTRIES_MAX: usize = 65_536;

/// The key of an entry: its type, and which one it is.
type Key = (TypeId, [u8; 32]);

/// A type that can be cached between transactions.
pub trait Cached: Clone + Send + 'static {
    /// What invalidates it; none for what stays true whatever is added later.
    const ENDED_BY: Option<Invalidates>;
}

/// The epochs of a workspace's cached entries: each rises when its entries are invalidated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epochs {
    pub access: i64,
    pub rules: i64,
}

impl Epochs {
    /// Of a log that does not exist, such as that of a workspace that was erased: no log was ever in it.
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

#[derive(Default)]
struct WorkspaceCache {
    epochs: Epochs,
    access: Entries,
    rules: Entries,
    lasting: Entries,
}

impl WorkspaceCache {
    fn entries(&self, ended_by: Option<Invalidates>) -> &Entries {
        match ended_by {
            Some(Invalidates::Access) => &self.access,
            Some(Invalidates::Rules) => &self.rules,
            None => &self.lasting,
        }
    }

    fn entries_mut(&mut self, ended_by: Option<Invalidates>) -> &mut Entries {
        match ended_by {
            Some(Invalidates::Access) => &mut self.access,
            Some(Invalidates::Rules) => &mut self.rules,
            None => &mut self.lasting,
        }
    }
}

/// The cached entries of all workspaces that one connection serves.
#[derive(Default)]
pub(crate) struct Cache {
    workspaces: HashMap<WorkspaceId, WorkspaceCache>,
    /// What the running job has invalidated.
    ///
    /// It may continue to change rows, so none of them is cached until it is over.
    suspended: Vec<(WorkspaceId, Invalidates)>,
    /// Entries put since the cache was last empty.
    put: usize,
}

impl Cache {
    /// Returns the cached entry, if there is one.
    pub fn get<T: Cached>(&self, workspace: WorkspaceId, key: &impl CacheKey) -> Option<T> {
        let entries = self.workspaces.get(&workspace)?.entries(T::ENDED_BY);
        entries.get(&(TypeId::of::<T>(), key.cache_key()))?.downcast_ref::<T>().cloned()
    }

    /// Removes the cached entry and returns it.
    pub fn take<T: Cached>(&mut self, workspace: WorkspaceId, key: &impl CacheKey) -> Option<T> {
        let entries = self.workspaces.get_mut(&workspace)?.entries_mut(T::ENDED_BY);
        let entry = entries.remove(&(TypeId::of::<T>(), key.cache_key()))?;
        entry.downcast::<T>().ok().map(|entry| *entry)
    }

    /// Keeps an entry until an event invalidates it; once there are too many, all are dropped.
    pub fn put<T: Cached>(&mut self, workspace: WorkspaceId, key: &impl CacheKey, entry: T) {
        if T::ENDED_BY.is_some_and(|cached| self.suspended.contains(&(workspace, cached))) {
            return;
        }
        if self.put >= ENTRIES_MAX {
            self.workspaces.values_mut().for_each(|workspace_cache| {
                *workspace_cache =
                    WorkspaceCache { epochs: workspace_cache.epochs, ..WorkspaceCache::default() };
            });
            self.put = 0;
        }
        self.put += 1;
        let entries = self.workspaces.entry(workspace).or_default().entries_mut(T::ENDED_BY);
        entries.insert((TypeId::of::<T>(), key.cache_key()), Box::new(entry));
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
        self.put = 0;
    }
}

/// The cache of a reader: entries, and until its transaction ends the positions of the logs it has read and
/// what was found in its snapshot.
#[derive(Default)]
pub(crate) struct ReaderCache {
    pub entries: Cache,
    lsns: HashMap<WorkspaceId, i64>,
    findings: HashMap<(WorkspaceId, TypeId), Box<dyn Any + Send>>,
}

/// What reads of one workspace find in one snapshot, and share: many waits are polled in one transaction.
pub trait Findings: Default + Send + 'static {}

impl executor::ReaderState for ReaderCache {
    fn begin(&mut self) {
        self.lsns.clear();
        self.findings.clear();
    }
}

impl ReaderCache {
    /// Returns how far a workspace's log reaches in this transaction, if that has been read.
    pub fn cached_lsn(&self, workspace: WorkspaceId) -> Option<i64> {
        self.lsns.get(&workspace).copied()
    }

    /// Takes what reads of this transaction have found.
    pub fn take_findings<T: Findings>(&mut self, workspace: WorkspaceId) -> T {
        let found = self.findings.remove(&(workspace, TypeId::of::<T>()));
        found.and_then(|found| found.downcast().ok()).map_or_else(T::default, |found| *found)
    }

    /// Keeps what reads have found until the transaction ends.
    pub fn put_findings<T: Findings>(&mut self, workspace: WorkspaceId, found: T) {
        self.findings.insert((workspace, TypeId::of::<T>()), Box::new(found));
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
        const ENDED_BY: Option<Invalidates> = Some(Invalidates::Access);
    }

    #[derive(Clone, Debug, PartialEq)]
    struct Rule(u8);

    impl Cached for Rule {
        const ENDED_BY: Option<Invalidates> = Some(Invalidates::Rules);
    }

    #[derive(Clone, Debug, PartialEq)]
    struct Fact(u8);

    impl Cached for Fact {
        const ENDED_BY: Option<Invalidates> = None;
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

    #[derive(Default)]
    struct Counted(u32);

    impl Findings for Counted {}

    #[test]
    fn what_was_found_in_a_snapshot_ends_with_it() {
        let mut cache = ReaderCache::default();
        assert_eq!(cache.take_findings::<Counted>(WORKSPACE).0, 0);
        cache.put_findings(WORKSPACE, Counted(3));
        assert_eq!(cache.take_findings::<Counted>(Uuid::from_u128(7).into()).0, 0);
        assert_eq!(cache.take_findings::<Counted>(WORKSPACE).0, 3);
        cache.put_findings(WORKSPACE, Counted(4));
        executor::ReaderState::begin(&mut cache);
        assert_eq!(cache.take_findings::<Counted>(WORKSPACE).0, 0);
    }

    #[test]
    fn a_taken_entry_is_gone() {
        let mut cache = filled();
        assert_eq!(cache.take::<Fact>(WORKSPACE, &KEY), Some(Fact(9)));
        assert_eq!(cache.take::<Fact>(WORKSPACE, &KEY), None);
    }
}
