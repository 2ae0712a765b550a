//! The contexts of operation functions, through which a function accesses the database, the log and the
//! service.
//!
//! [`Read`] can query; [`Write`] can also change, emit and audit. A function must be pure apart from its
//! context: it may run again, and none of its effects count before the commit.

mod other_workspace;

use std::cell::RefCell;
use std::ops::Deref;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::entropy::Entropy;
use crate::id::{ChannelId, Id, ThreadId, WorkspaceId};
use crate::log::batch::{AuditEntry, Batch, ImportedHead};
use crate::log::cache::{Cache, CacheKey, Cached, ReaderCache};
use crate::log::event::{CachedEntryKind, Event, RecordedEvent, Subject};
use crate::log::seal::Sealer;
use crate::op::call::caller::{Caller, CredentialKind};
use crate::op::call::credential::SessionKey;
use crate::op::declare::health_check::{Gauges, HealthCheck};
use crate::op::declare::hooks::Condition;
use crate::op::declare::records::Records;
use crate::op::declare::table::Table;
use crate::op::run::settings::{Settings, SharedState};
use crate::page::{PageRows, ScanHorizon, must_end_page};
use crate::store::executor::Reader;
use crate::store::{Conn, Engine, FromRow, NewRow, Scan, ToParam, Visitor};
use crate::time::Time;
use crate::{Error, Result, limits};

/// A transaction that only reads.
pub struct Read<'a> {
    conn: &'a Conn,
    caller: &'a Caller,
    charged_to: WorkspaceId,
    now: Time,
    shared: &'a SharedState,
    cache: CacheRef<'a>,
}

/// The cache of a reader's or a writer's connection.
enum CacheRef<'a> {
    Reader(&'a RefCell<ReaderCache>),
    Writer(&'a RefCell<Batch>),
}

impl CacheRef<'_> {
    /// Calls `run` with the entries of the cache.
    fn with_entries<T>(&self, run: impl FnOnce(&mut Cache) -> T) -> T {
        match self {
            Self::Reader(reader) => run(&mut reader.borrow_mut().entries),
            Self::Writer(batch) => run(&mut batch.borrow_mut().cache),
        }
    }
}

impl<'a> Read<'a> {
    pub(crate) fn new(
        reader: &'a Reader<ReaderCache>,
        caller: &'a Caller,
        now: Time,
        shared: &'a SharedState,
    ) -> Self {
        let charged_to = caller.workspace_id;
        Self { conn: &reader.conn, caller, charged_to, now, shared, cache: CacheRef::Reader(&reader.cache) }
    }

    /// Charges the files that the transaction creates on the disk to `charged_to` instead of the caller's
    /// workspace.
    pub(crate) fn with_charged_to(self, charged_to: WorkspaceId) -> Self {
        Self { charged_to, ..self }
    }

    /// Returns the workspace that a file is charged to, or `None` for an administrator of the machine.
    pub(crate) fn charged_to(&self) -> Option<WorkspaceId> {
        (self.caller.via != CredentialKind::Instance).then_some(self.charged_to)
    }

    /// Returns the caller: the identity that the request acts as.
    pub fn caller(&self) -> &Caller {
        self.caller
    }

    /// Returns the current time, which is the same throughout the transaction.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns the database engine, for the few statements that differ between the engines.
    pub fn engine(&self) -> Engine {
        self.conn.engine()
    }

    /// Returns the sealer, which encrypts and decrypts the text of messages.
    pub fn sealer(&self) -> &Sealer {
        &self.shared.sealer
    }

    /// Returns the key that signs session cookies, if browsers can sign in.
    pub(crate) fn session_key(&self) -> Option<&SessionKey> {
        self.shared.session_key.as_ref()
    }

    /// Returns the settings that an operator can change.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Runs a statement and returns all of its rows.
    pub fn query<T: FromRow>(&self, sql: &'static str, params: &[&dyn ToParam]) -> Result<Vec<T>> {
        self.conn.query(sql, params)?.iter_mut().map(T::from_row).collect()
    }

    /// Runs the statement of a list and returns its first rows, as many as fit in a page.
    pub fn rows<T: FromRow>(&self, sql: &'static str, params: &[&dyn ToParam]) -> Result<PageRows<T>> {
        PageRows::read(self.conn, sql, params)
    }

    /// Runs a statement and returns its first rows, as many as fit in a page, for a response without pages.
    pub fn query_first_page<T: FromRow>(&self, sql: &'static str, params: &[&dyn ToParam]) -> Result<Vec<T>> {
        let mut rows = self.conn.query_within(limits::PAGE_BYTES, sql, params)?;
        rows.iter_mut().map(T::from_row).collect()
    }

    /// Returns whether the current page must end here, because the budget of the read is used up.
    pub(crate) fn must_end_page(&self) -> bool {
        self.conn.budget().is_some_and(must_end_page)
    }

    /// Calls `each` for every row of a statement, without copying the row, until `each` breaks.
    pub(crate) fn visit(&self, sql: &'static str, params: &[&dyn ToParam], each: Visitor<'_>) -> Result<()> {
        self.conn.visit(sql, params, each)
    }

    /// Calls `each` for the first rows of a statement, without copying a row, until `each` breaks or the rows
    /// exceed `bytes` bytes.
    pub(crate) fn visit_within(
        &self,
        bytes: usize,
        sql: &'static str,
        params: &[&dyn ToParam],
        each: Visitor<'_>,
    ) -> Result<()> {
        self.conn.visit_within(bytes, sql, params, each)
    }

    /// Calls `each` for every row of a scan, without copying the row, until `each` breaks.
    pub(crate) fn scan(&self, scan: &Scan, params: &[&dyn ToParam], each: Visitor<'_>) -> Result<()> {
        self.conn.scan(scan, params, each)
    }

    /// Returns the last position that a page may scan in a list whose positions have gaps.
    ///
    /// `sql` selects the position of the last row that the page may read. Its last two parameters are the
    /// position after which the page begins and the number of rows to skip; `list` contains the parameters
    /// before these two.
    pub fn horizon(&self, sql: &'static str, list: &[&dyn ToParam], after: i64) -> Result<ScanHorizon> {
        self.horizon_within(sql, list, after, limits::PAGE_SCAN_MAX)
    }

    /// Returns the last position that a page may scan as [`Self::horizon`] does, for a page that may read
    /// `rows` rows.
    pub(crate) fn horizon_within(
        &self,
        sql: &'static str,
        list: &[&dyn ToParam],
        after: i64,
        rows: i64,
    ) -> Result<ScanHorizon> {
        let others = rows.saturating_sub(1);
        let params: Vec<&dyn ToParam> =
            list.iter().copied().chain([&after as &dyn ToParam, &others]).collect();
        let row = self.one::<(i64,)>(sql, &params)?;
        Ok(ScanHorizon(row.map(|(position,)| position)))
    }

    /// Returns the only row of a statement, or `None` without a row. More than one row is a defect.
    pub fn one<T: FromRow>(&self, sql: &'static str, params: &[&dyn ToParam]) -> Result<Option<T>> {
        let mut rows = self.conn.query(sql, params)?;
        match rows.as_mut_slice() {
            [] => Ok(None),
            [row] => T::from_row(row).map(Some),
            more => {
                Err(Error::internal(format!("{} rows where at most one was expected: {sql}", more.len())))
            }
        }
    }

    /// Returns the position that the log of the caller's workspace has reached in this transaction.
    ///
    /// In a writer's job, the position includes the events of the job and of earlier jobs in the same batch.
    pub(crate) fn lsn(&self) -> Result<i64> {
        let workspace = self.caller.workspace_id;
        match &self.cache {
            CacheRef::Reader(reader) => {
                let read = reader.borrow().cached_lsn(workspace);
                read.ok_or_else(|| Error::internal("the head of the caller's log has not been read"))
            }
            CacheRef::Writer(batch) => Ok(batch.borrow_mut().head(self.conn, workspace)?.lsn),
        }
    }

    /// Returns the hash of an event at position `lsn` of the caller's workspace, if this transaction has
    /// emitted it.
    pub(crate) fn hash_of_emitted_event(&self, lsn: i64) -> Option<[u8; 32]> {
        match &self.cache {
            CacheRef::Reader(_) => None,
            CacheRef::Writer(batch) => batch.borrow().content_hash_of(self.caller.workspace_id, lsn),
        }
    }

    /// Returns the epoch of the access rules in the caller's workspace.
    ///
    /// A decision from another transaction with the same epoch is still valid.
    pub(crate) fn epoch(&self) -> i64 {
        self.cache.with_entries(|cache| cache.epochs(self.caller.workspace_id).access)
    }

    /// Returns the entry that this connection has cached for the caller's workspace under `key`.
    pub fn cached<T: Cached>(&self, key: &impl CacheKey) -> Option<T> {
        self.cache.with_entries(|cache| cache.get(self.caller.workspace_id, key))
    }

    /// Returns the entry cached under `key`, or else caches and returns the result of `load`.
    ///
    /// Only for data from rows whose every change emits an event that
    /// [invalidates](crate::EventKind::invalidates) that entry.
    pub fn cached_or_load<T: Cached>(
        &self,
        key: &impl CacheKey,
        load: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if let Some(found) = self.cached(key) {
            return Ok(found);
        }
        let loaded = load()?;
        self.keep(key, loaded.clone());
        Ok(loaded)
    }

    /// Caches an entry under `key` for the caller's workspace.
    pub(crate) fn keep<T: Cached>(&self, key: &impl CacheKey, entry: T) {
        self.cache.with_entries(|cache| cache.put(self.caller.workspace_id, key, entry));
    }

    /// Calls `run` with the entry cached under `key`, which `run` may change. Returns the result of `run`.
    ///
    /// Starts with an empty entry if nothing is cached. If `run` fails, nothing remains cached under the key.
    pub fn with_cached<T: Cached + Default, R>(
        &self,
        key: &impl CacheKey,
        run: impl FnOnce(&mut T) -> Result<R>,
    ) -> Result<R> {
        let workspace = self.caller.workspace_id;
        let mut entry: T = self.cache.with_entries(|cache| cache.take(workspace, key)).unwrap_or_default();
        let returned = run(&mut entry)?;
        self.keep(key, entry);
        Ok(returned)
    }

    /// Returns the number of jobs in this batch that claim the next thread of a queue, and then resets the
    /// number to 0.
    pub(crate) fn take_batch_claim_count(&self) -> usize {
        match &self.cache {
            CacheRef::Reader(_) => 0,
            CacheRef::Writer(batch) => std::mem::take(&mut batch.borrow_mut().takes),
        }
    }

    /// Removes and returns the threads that jobs in this batch concern, in the caller's workspace. Later
    /// calls return none of them.
    pub(crate) fn take_named_threads(&self) -> Vec<ThreadId> {
        let CacheRef::Writer(batch) = &self.cache else { return Vec::new() };
        let named = &mut batch.borrow_mut().named_threads;
        named.extract_if(.., |(at, _)| *at == self.caller.workspace_id).map(|(_, thread)| thread).collect()
    }

    /// Records that the transaction has loaded an object in this channel.
    ///
    /// The channel of the first object that a change loads is recorded in the change's audit row. If any
    /// object is in a direct message, the audit row contains neither a channel nor ids.
    pub(crate) fn record_loaded_channel(&self, channel: ChannelId, is_dm: bool) {
        if let CacheRef::Writer(batch) = &self.cache {
            let mut batch = batch.borrow_mut();
            batch.record_loaded_channel(self.caller.workspace_id, channel);
            batch.discreet |= is_dm;
        }
    }

    /// Returns the conditions for the state change `action` of a thread.
    pub fn conditions(&self, action: &str) -> impl Iterator<Item = &'a Condition> {
        self.shared.table.conditions().filter(move |condition| condition.action == action)
    }

    /// Returns the declarations of all tables, each after the tables that it refers to.
    pub(crate) fn records(&self) -> &'a [Records] {
        self.shared.table.records()
    }

    /// Returns the health checks of the service.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &'a HealthCheck> {
        self.shared.table.parts()
    }

    /// Returns the gauges, which measure the depths of the shells that serve the service.
    pub(crate) fn gauges(&self) -> &'a Gauges {
        &self.shared.gauges
    }

    pub(in crate::op) fn table(&self) -> &'a Table {
        &self.shared.table
    }
}

/// A transaction that may change data.
pub struct Write<'a> {
    read: Read<'a>,
    batch: &'a RefCell<Batch>,
    step_state: Option<&'a str>,
}

impl<'a> Deref for Write<'a> {
    type Target = Read<'a>;
    fn deref(&self) -> &Read<'a> {
        &self.read
    }
}

impl<'a> Write<'a> {
    pub(crate) fn new(
        conn: &'a Conn,
        caller: &'a Caller,
        now: Time,
        shared: &'a SharedState,
        batch: &'a RefCell<Batch>,
    ) -> Self {
        let cache = CacheRef::Writer(batch);
        let charged_to = caller.workspace_id;
        Self { read: Read { conn, caller, charged_to, now, shared, cache }, batch, step_state: None }
    }

    /// Sets the state that the committed steps of the request share, as JSON, so that the change continues
    /// after these steps.
    pub(crate) fn with_step_state(self, step_state: Option<&'a str>) -> Self {
        Self { step_state, ..self }
    }

    /// Returns the state that the committed steps of the request share, if any.
    pub(crate) fn step_state<S: DeserializeOwned>(&self) -> Result<Option<S>> {
        self.step_state.map(serde_json::from_str).transpose().map_err(Error::internal)
    }

    /// Runs a statement that must change exactly `rows` rows.
    ///
    /// The statement may be sent later, together with other statements of the batch, but before any read. All
    /// entries that are cached for the transaction become invalid.
    pub fn execute(&mut self, rows: u64, sql: &'static str, params: &[&dyn ToParam]) -> Result<()> {
        self.end_cached_reads();
        self.read.conn.defer(Some(rows), sql, params)
    }

    /// Inserts a row. The statement is sent like that of [`Write::execute`].
    pub(crate) fn insert(&mut self, row: &NewRow<'_>) -> Result<()> {
        self.execute(1, row.sql, row.values)
    }

    /// Runs a statement that may change any number of rows, without returning the number.
    ///
    /// The statement is sent like that of [`Write::execute`].
    pub fn execute_any(&mut self, sql: &'static str, params: &[&dyn ToParam]) -> Result<()> {
        self.end_cached_reads();
        self.read.conn.defer(None, sql, params)
    }

    /// Runs a statement and returns how many rows it changed, for callers that depend on the number.
    pub fn change(&mut self, sql: &'static str, params: &[&dyn ToParam]) -> Result<u64> {
        self.end_cached_reads();
        self.read.conn.execute(sql, params)
    }

    /// Saves exactly `rows` rows. The statement is sent like that of [`Write::execute`].
    ///
    /// Entries that are cached for the transaction stay valid. The caller must update the entries that it has
    /// derived from these rows.
    pub(crate) fn save(&mut self, rows: u64, sql: &'static str, params: &[&dyn ToParam]) -> Result<()> {
        self.read.conn.defer(Some(rows), sql, params)
    }

    /// Saves any number of rows, as [`Write::save`] does.
    pub(crate) fn save_any(&mut self, sql: &'static str, params: &[&dyn ToParam]) -> Result<()> {
        self.read.conn.defer(None, sql, params)
    }

    /// Invalidates the entries that are cached only until the transaction changes something.
    fn end_cached_reads(&self) {
        self.batch.borrow_mut().cache.end_transaction();
    }

    /// Returns a fresh id.
    pub fn new_id<T: Id>(&self) -> Result<T> {
        self.shared.entropy.id(self.now)
    }

    /// Returns the source of randomness for secrets.
    pub fn entropy(&self) -> &Entropy {
        &self.shared.entropy
    }

    /// Appends an event to the log of the caller's workspace. The position and the hash of the event are
    /// assigned immediately.
    pub fn emit<E: Event>(&mut self, subject: Subject, event: &E) -> Result<RecordedEvent> {
        self.emit_in(self.caller.workspace_id, subject, event)
    }

    /// Appends an event to the log of another workspace, which is being created.
    ///
    /// The kind of event determines the cached entries that are invalidated on every connection.
    pub fn emit_in<E: Event>(
        &mut self,
        workspace: WorkspaceId,
        subject: Subject,
        event: &E,
    ) -> Result<RecordedEvent> {
        let kind = self.table().event(E::KIND);
        let kind = kind
            .ok_or_else(|| Error::internal(format!("no feature declares the kind of event {}", E::KIND)))?;
        let attribution = self.caller.attribution();
        let mut batch = self.batch.borrow_mut();
        let recorded = batch.emit(self.conn, workspace, self.now, subject, &attribution, event)?;
        if let Some(cached) = kind.invalidated() {
            batch.invalidate(self.conn, workspace, cached)?;
        }
        Ok(recorded)
    }

    /// Invalidates cached data of the caller's workspace for every connection on every server.
    ///
    /// Events invalidate data by their kind. This function is for objects that end without an event, such as
    /// a session.
    pub(crate) fn invalidate(&mut self, cached: CachedEntryKind) -> Result<()> {
        self.batch.borrow_mut().invalidate(self.conn, self.caller.workspace_id, cached)
    }

    /// Begins the log of a workspace that is being created, before its first event.
    pub fn begin_log(&mut self, workspace: WorkspaceId) -> Result<()> {
        self.batch.borrow_mut().begin_log(workspace)
    }

    /// Continues the log of an imported workspace after its last event.
    pub(crate) fn begin_imported_log(&mut self, workspace: WorkspaceId, head: &ImportedHead) -> Result<()> {
        self.batch.borrow_mut().continue_log(self.conn, workspace, head)
    }

    /// Marks the call as confidential, so that its audit row contains no ids. For calls that concern a direct
    /// message or personal data.
    pub(crate) fn discreet(&mut self) {
        self.batch.borrow_mut().discreet = true;
    }

    /// Marks the call as one without a notable change, for which no audit row is written and no answer is
    /// stored for repeats.
    pub(crate) fn unchanged(&mut self) {
        self.batch.borrow_mut().unchanged = true;
    }

    /// Writes an audit row with the action `action` for the caller's workspace, instead of the generic row.
    pub fn audit(&mut self, action: &'static str, metadata: Value) -> Result<()> {
        self.audit_in(self.caller.workspace_id, action, metadata)
    }

    /// Writes an audit row with the action `action` for another workspace, or for the instance.
    ///
    /// If the request contains a browser session, the metadata of the row contains the id of that session.
    pub fn audit_in(
        &mut self,
        workspace: WorkspaceId,
        action: &'static str,
        mut metadata: Value,
    ) -> Result<()> {
        if let (Some(session), Some(members)) = (self.caller.session_id(), metadata.as_object_mut()) {
            members.insert("session_id".to_owned(), json!(session));
        }
        let at = self.now;
        let attribution = self.caller.attribution();
        let entry = AuditEntry { at, action, attribution, metadata };
        self.batch.borrow_mut().audit(self.conn, workspace, &entry)
    }

    /// Returns the events that this job has emitted so far, starting at index `from`.
    pub(crate) fn emitted(&self, from: usize) -> Vec<RecordedEvent> {
        self.batch.borrow().emitted(from)
    }
}
