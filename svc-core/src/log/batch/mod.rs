//! The batch: the events and audit rows that the jobs of one commit append to the logs of their workspaces.
//!
//! An event gets its position and its hash when a job emits it. All events are written together before the
//! commit. The events of a failed job are discarded.

mod head;
mod locks;
mod records;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::Result;
use crate::error::Error;
use crate::hash::sha256;
use crate::id::{ChannelId, ThreadId, WorkspaceId};
use crate::log::bus::Bus;
use crate::log::cache::{Cache, ReaderCache};
use crate::log::canonical;
use crate::log::chain::Link;
use crate::log::event::{Attribution, CachedEntryKind, Event, RecordedEvent, Subject};
use crate::store::executor::{BatchState, LockedWorkspaces};
use crate::store::{Conn, Engine, Param, ToParam};
use crate::time::{Clock, Time};
pub(crate) use head::{Head, ImportedHead, newest_event_time};
use head::{INSERT_HEADS, INSERT_IMPORTED_HEAD, SELECT_HEAD, head_columns};
pub(crate) use records::AuditEntry;
use records::{AuditRow, WRITE_RECORDS_AND_HEADS, audit_columns, event_columns};

/// The numbers of events and audit rows in the batch to which a failed job is rolled back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RollbackPoint {
    events: usize,
    audit: usize,
}

/// The state of one writer: the changes that its current batch appends to logs.
pub(crate) struct Batch {
    pub cache: Cache,
    clock: Clock,
    heads: HashMap<WorkspaceId, Head>,
    /// The workspaces whose logs the tasks of the batch may write.
    writable: BTreeSet<WorkspaceId>,
    /// The heads that the running job has changed, in their state before the job. `None` if the job creates
    /// the log.
    undo: Vec<(WorkspaceId, Option<Head>)>,
    events: Vec<RecordedEvent>,
    audit: Vec<AuditRow>,
    /// The numbers of events and audit rows at the beginning of the running job.
    job_start: RollbackPoint,
    /// The channel of the first object that the running job has loaded.
    first_loaded: Option<(WorkspaceId, ChannelId)>,
    /// Whether audit rows of the running job must contain neither the channel nor ids, because the job
    /// concerns a direct message or personal data.
    pub discreet: bool,
    /// Whether the running job has declared that its change is not notable, so that no audit row is written.
    pub unchanged: bool,
    /// Threads that jobs of the batch will read, each with the caller's workspace. Emptied when they are
    /// loaded.
    pub named_threads: Vec<(WorkspaceId, ThreadId)>,
    /// Number of jobs in the batch that will claim the next thread of a queue. Reset when the queue is read.
    pub takes: usize,
    bus: Arc<Bus>,
}

impl Batch {
    pub fn new(clock: Clock, bus: Arc<Bus>) -> Self {
        Self {
            cache: Cache::default(),
            clock,
            heads: HashMap::new(),
            writable: BTreeSet::new(),
            undo: Vec::new(),
            events: Vec::new(),
            audit: Vec::new(),
            job_start: RollbackPoint::default(),
            first_loaded: None,
            discreet: false,
            unchanged: false,
            named_threads: Vec::new(),
            takes: 0,
            bus,
        }
    }

    /// Returns the current time of the service's clock, which determines leases, expiry and due times.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Returns the end of `workspace`'s log, including everything that the batch has appended so far.
    ///
    /// A log without a head row is an error: the log must first be created with [`Batch::begin_log`].
    pub fn head(&mut self, conn: &Conn, workspace: WorkspaceId) -> Result<Head> {
        let head = self.load_head(conn, workspace)?;
        head.ok_or_else(|| Error::internal(format!("the log of {workspace} has no head")))
    }

    /// Returns whether `workspace` has a log. An erased workspace has none.
    pub fn has_log(&mut self, conn: &Conn, workspace: WorkspaceId) -> Result<bool> {
        self.load_head(conn, workspace).map(|head| head.is_some())
    }

    /// Returns the head of `workspace`, or `None` if the workspace has no log.
    fn load_head(&mut self, conn: &Conn, workspace: WorkspaceId) -> Result<Option<Head>> {
        if let Some(head) = self.heads.get(&workspace) {
            return Ok(Some(*head));
        }
        if !self.writable.contains(&workspace) {
            return Err(Error::internal(format!("no task of the batch has named the workspace {workspace}")));
        }
        // On Postgres the heads were locked and read when the batch began, so a missing head does not exist.
        let mut rows = match conn.engine() {
            Engine::Sqlite => conn.query(SELECT_HEAD, &[&workspace])?,
            Engine::Postgres => Vec::new(),
        };
        let Some(row) = rows.first_mut() else { return Ok(None) };
        let head = Head::take_from(row)?;
        self.cache.drop_outdated(workspace, head.epochs);
        self.heads.insert(workspace, head);
        Ok(Some(head))
    }

    /// Begins the log of a workspace that the running job creates.
    pub fn begin_log(&mut self, workspace: WorkspaceId) -> Result<()> {
        self.add_log(workspace, Head::empty())
    }

    /// Continues the log of a workspace whose rows were imported as a whole.
    pub fn continue_log(&mut self, conn: &Conn, workspace: WorkspaceId, head: &ImportedHead) -> Result<()> {
        let ImportedHead { lsn, hash, at, audit_seq, floor, pruned_at, words_floor, epoch } = head;
        let params: [&dyn ToParam; 9] =
            [&workspace, lsn, hash, at, audit_seq, floor, pruned_at, words_floor, epoch];
        conn.defer(Some(1), INSERT_IMPORTED_HEAD, &params)?;
        // A cached head of an erased log is no longer valid, because the row of the head was removed.
        self.heads.remove(&workspace);
        self.add_log(workspace, Head::imported(head))
    }

    fn add_log(&mut self, workspace: WorkspaceId, head: Head) -> Result<()> {
        self.cache.drop_outdated(workspace, head.epochs);
        self.undo.push((workspace, None));
        match self.heads.insert(workspace, head) {
            None => Ok(()),
            Some(_) => Err(Error::internal(format!("the workspace {workspace} has a log already"))),
        }
    }

    /// Appends an event to the log of `workspace`, and returns it with its position and hash.
    pub fn emit<E: Event>(
        &mut self,
        conn: &Conn,
        workspace: WorkspaceId,
        now: Time,
        subject: Subject,
        attribution: &Attribution,
        event: &E,
    ) -> Result<RecordedEvent> {
        let mut head = self.head_to_change(conn, workspace)?;
        // Times in a log never go back, although clocks may.
        let at = now.max(head.at);
        let link = Link {
            workspace_id: workspace,
            lsn: head.lsn + 1,
            kind: E::KIND,
            at,
            subject,
            prev_hash: head.hash,
        };
        let payload = link.payload(attribution, event)?;
        let content_hash = sha256(payload.as_bytes());
        let recorded = RecordedEvent {
            workspace_id: workspace,
            lsn: link.lsn,
            kind: E::KIND,
            at,
            subject,
            prev_hash: head.hash,
            content_hash,
            payload,
        };
        head.lsn = link.lsn;
        head.hash = content_hash;
        head.at = at;
        self.heads.insert(workspace, head);
        self.events.push(recorded.clone());
        Ok(recorded)
    }

    /// Appends an audit row to the audit trail of `workspace`.
    pub fn audit(&mut self, conn: &Conn, workspace: WorkspaceId, entry: &AuditEntry) -> Result<()> {
        let metadata = canonical::to_string(&entry.metadata)?;
        let mut head = self.head_to_change(conn, workspace)?;
        head.audit_seq += 1;
        self.heads.insert(workspace, head);
        let &AuditEntry { at, action, attribution, .. } = entry;
        let channel_id = if self.discreet { None } else { self.channel_of_job(workspace) };
        let seq = head.audit_seq;
        self.audit.push(AuditRow { workspace, seq, at, action, attribution, channel_id, metadata });
        Ok(())
    }

    /// Raises an epoch of the workspace, which invalidates the cached entries of that kind on every
    /// connection.
    pub fn invalidate(&mut self, conn: &Conn, workspace: WorkspaceId, cached: CachedEntryKind) -> Result<()> {
        let mut head = self.head_to_change(conn, workspace)?;
        head.epochs.raise(cached);
        self.heads.insert(workspace, head);
        self.cache.invalidate(workspace, cached, head.epochs);
        Ok(())
    }

    /// Returns the content hash of the event at `lsn`, or `None` if this batch has not appended that event.
    pub fn content_hash_of(&self, workspace: WorkspaceId, lsn: i64) -> Option<[u8; 32]> {
        let mut events = self.events.iter();
        let found = events.find(|event| (event.workspace_id, event.lsn) == (workspace, lsn));
        found.map(|event| event.content_hash)
    }

    /// Returns the events of the running job, starting at index `from`.
    pub fn emitted(&self, from: usize) -> Vec<RecordedEvent> {
        self.events.iter().skip(self.job_start.events + from).cloned().collect()
    }

    /// Records that the running job has loaded an object in this channel.
    ///
    /// The first loaded object is the subject of the job.
    pub fn record_loaded_channel(&mut self, workspace: WorkspaceId, channel: ChannelId) {
        self.first_loaded.get_or_insert((workspace, channel));
    }

    /// Returns the channel of `workspace` that the running job concerns.
    ///
    /// This is the channel of the first loaded object or, for a channel that the job creates, the channel of
    /// its first event.
    fn channel_of_job(&self, workspace: WorkspaceId) -> Option<ChannelId> {
        let emitted = self.events.iter().skip(self.job_start.events);
        let channels = emitted.filter_map(|event| Some((event.workspace_id, event.subject.channel_id?)));
        let mut channels = self.first_loaded.into_iter().chain(channels);
        channels.find(|(at, _)| *at == workspace).map(|(_, channel)| channel)
    }

    /// Returns whether the running job has written an audit row.
    pub fn has_audited(&self) -> bool {
        self.audit.len() > self.job_start.audit
    }

    /// Returns the head of `workspace`, marked as changed, and remembers its state before the job.
    fn head_to_change(&mut self, conn: &Conn, workspace: WorkspaceId) -> Result<Head> {
        let mut head = self.head(conn, workspace)?;
        self.undo.push((workspace, Some(head)));
        head.is_changed = true;
        Ok(head)
    }
}

impl BatchState for Batch {
    type ReaderState = ReaderCache;

    fn begin(
        &mut self,
        conn: &Conn,
        workspaces: &BTreeSet<WorkspaceId>,
        have_others_written: bool,
        if_locked: LockedWorkspaces,
    ) -> Result<BTreeSet<WorkspaceId>> {
        self.writable.clone_from(workspaces);
        self.named_threads.clear();
        self.takes = 0;
        self.cache.end_transaction();
        if have_others_written {
            self.cache.clear();
            self.heads.clear();
        }
        match conn.engine() {
            Engine::Sqlite => Ok(BTreeSet::new()),
            Engine::Postgres => {
                self.heads.clear();
                self.lock_heads(conn, workspaces, if_locked)
            }
        }
    }

    fn begin_task(&mut self) {
        self.undo.clear();
        self.first_loaded = None;
        self.discreet = false;
        self.unchanged = false;
        self.cache.begin_task();
        self.job_start = RollbackPoint { events: self.events.len(), audit: self.audit.len() };
    }

    fn undo_task(&mut self, wrote: bool) {
        // A job that was refused before it changed anything leaves the cache as it is, so later jobs of the
        // batch need not read again.
        if wrote || !self.undo.is_empty() {
            self.cache.clear();
        }
        self.events.truncate(self.job_start.events);
        self.audit.truncate(self.job_start.audit);
        while let Some((workspace, before)) = self.undo.pop() {
            match before {
                Some(before) => self.heads.insert(workspace, before),
                None => self.heads.remove(&workspace),
            };
        }
    }

    fn flush(&mut self, conn: &Conn) -> Result<()> {
        let events: Vec<Vec<Param<'_>>> = self.events.iter().map(event_columns).collect();
        let audit: Vec<Vec<Param<'_>>> = self.audit.iter().map(audit_columns).collect();
        let mut changed: Vec<(&WorkspaceId, &Head)> =
            self.heads.iter().filter(|(_, head)| head.is_changed).collect();
        changed.sort_by_key(|(workspace, _)| **workspace);
        let (stored, new): (Vec<_>, Vec<_>) =
            changed.into_iter().partition(|(_, head)| head.stored_lsn.is_some());
        let [stored, new] =
            [stored, new].map(|heads| heads.into_iter().map(head_columns).collect::<Vec<_>>());
        conn.write_tables(&WRITE_RECORDS_AND_HEADS, [&events, &audit, &stored])?;
        conn.insert_many(&INSERT_HEADS, &new)
    }

    fn committed_lsns(&self) -> BTreeMap<uuid::Uuid, i64> {
        self.events.iter().map(|event| (event.workspace_id.uuid(), event.lsn)).collect()
    }

    fn committed(&mut self) {
        for (workspace, head) in self.heads.iter().filter(|(_, head)| head.is_changed) {
            self.bus.record_head(*workspace, head.lsn, head.epochs.access);
        }
        for (workspace, lsn) in self.committed_lsns() {
            self.bus.announce(workspace.into(), lsn);
        }
        self.events.clear();
        self.audit.clear();
        for head in self.heads.values_mut() {
            *head = head.after_commit();
        }
    }

    fn rolled_back(&mut self) {
        self.events.clear();
        self.audit.clear();
        self.undo.clear();
        self.heads.clear();
        self.cache.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::probe::Probe;
    use crate::store::migrate::migrate;
    use crate::store::sqlite_for_tests;

    const HOME: WorkspaceId = WorkspaceId::INSTANCE;

    fn new_workspace() -> WorkspaceId {
        uuid::Uuid::from_u128(7).into()
    }

    /// Begins a batch for the log of the instance, on an empty database.
    fn begun(conn: &Conn) -> Batch {
        migrate(conn, Time::from_micros(1)).unwrap();
        let clock = Clock::mock(Time::from_micros(5));
        let mut batch = Batch::new(clock.clone(), Arc::new(Bus::new(&clock, crate::limits::BUS_RETRY_PAUSE)));
        conn.begin_write().unwrap();
        batch.begin(conn, &[HOME].into(), false, LockedWorkspaces::Wait).unwrap();
        batch.begin_task();
        batch
    }

    fn emit(batch: &mut Batch, conn: &Conn, workspace: WorkspaceId) -> Result<RecordedEvent> {
        let now = batch.now();
        let attribution = Attribution::default();
        batch.emit(conn, workspace, now, Subject::WORKSPACE, &attribution, &Probe { number: 1 })
    }

    fn lsns(conn: &Conn) -> Vec<i64> {
        let mut rows = conn.query("select lsn from heads order by workspace_id", &[]).unwrap();
        rows.iter_mut().map(|row| row.take().unwrap()).collect()
    }

    #[test]
    fn a_head_that_was_moved_by_others_is_not_overwritten() {
        let (_folder, conn) = sqlite_for_tests();
        let mut batch = begun(&conn);
        emit(&mut batch, &conn, HOME).unwrap();
        conn.execute("update heads set lsn = lsn + 1", &[]).unwrap();
        assert!(batch.flush(&conn).is_err());
        conn.rollback().unwrap();
        batch.rolled_back();
        assert_eq!(lsns(&conn), [0]);
        conn.begin_write().unwrap();
        batch.begin(&conn, &[HOME].into(), false, LockedWorkspaces::Wait).unwrap();
        batch.begin_task();
        for lsn in 1..=2 {
            assert_eq!(emit(&mut batch, &conn, HOME).unwrap().lsn, lsn);
        }
        batch.flush(&conn).unwrap();
        conn.commit(&BTreeMap::new()).unwrap();
        assert_eq!(lsns(&conn), [2]);
    }

    #[test]
    fn a_missing_head_is_an_empty_log_only_where_the_log_is_created() {
        let (_folder, conn) = sqlite_for_tests();
        let mut batch = begun(&conn);
        let new = new_workspace();
        assert!(emit(&mut batch, &conn, new).is_err(), "no task has named it");
        batch.begin(&conn, &[HOME, new].into(), false, LockedWorkspaces::Wait).unwrap();
        batch.begin_task();
        assert!(emit(&mut batch, &conn, new).is_err(), "it has no head");
        batch.begin_log(new).unwrap();
        assert_eq!(emit(&mut batch, &conn, new).unwrap().lsn, 1);
        assert!(batch.begin_log(new).is_err(), "it has one now");
        batch.undo_task(false);
        assert!(emit(&mut batch, &conn, new).is_err(), "that job was rolled back");
        batch.begin_task();
        batch.begin_log(new).unwrap();
        emit(&mut batch, &conn, new).unwrap();
        batch.flush(&conn).unwrap();
        conn.commit(&BTreeMap::new()).unwrap();
        assert_eq!(lsns(&conn), [0, 1]);
    }

    #[derive(Clone)]
    struct Found;

    impl crate::log::cache::Cached for Found {
        const LIFETIME: crate::log::cache::Lifetime = crate::log::cache::Lifetime::Transaction;
    }

    #[test]
    fn a_refused_job_invalidates_what_others_have_read_only_if_it_changed_something() {
        let (_folder, conn) = sqlite_for_tests();
        let mut batch = begun(&conn);
        for (wrote, emitted, is_kept) in [(false, false, true), (true, false, false), (false, true, false)] {
            batch.cache.put(HOME, &crate::log::cache::SINGLE_ENTRY, Found);
            batch.begin_task();
            if emitted {
                emit(&mut batch, &conn, HOME).unwrap();
            }
            batch.undo_task(wrote);
            let found = batch.cache.get::<Found>(HOME, &crate::log::cache::SINGLE_ENTRY);
            assert_eq!(found.is_some(), is_kept, "wrote: {wrote}, emitted: {emitted}");
        }
    }
}
