//! What a function may do while it runs. [`Read`] can look; [`Write`] can also change, emit and audit. A function
//! must be pure apart from its context: it may run again, and nothing it does counts until the commit.

use std::cell::RefCell;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::entropy::Entropy;
use crate::error::Error;
use crate::id::{ChannelId, Id, WorkspaceId};
use crate::log::batch::{AuditEntry, Batch};
use crate::log::cache::{Cache, CacheKey, Cached, ReaderCache};
use crate::log::event::{Event, Recorded, Subject};
use crate::log::seal::Sealer;
use crate::op::call::caller::Caller;
use crate::op::declare::hooks::Condition;
use crate::op::declare::table::Table;
use crate::page::{Horizon, Rows};
use crate::store::executor::Reader;
use crate::store::{Conn, Engine, FromRow, NewRow, ToParam, Visitor};
use crate::time::Time;
use crate::{Result, limits};

/// What does not change while the service runs.
pub struct Shared {
    /// Ids and secrets come from here.
    pub entropy: Entropy,
    /// Seals and opens message words.
    pub sealer: Sealer,
    /// Limits that have a variable.
    pub settings: Settings,
    /// Every operation, kind of event and hook.
    pub table: Arc<Table>,
}

/// Limits that an operator can set and functions ask for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Lease of a claim whose caller names none.
    pub lease_default: Duration,
    /// Time for the acknowledgement of a claim; none means no reminder.
    pub ack_timeout: Option<Duration>,
    /// Time between rounds of the claim reaper; none leaves it to other processes.
    pub(crate) reap_tick: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease_default: Duration::from_secs(limits::LEASE_DEFAULT_SECS.unsigned_abs()),
            ack_timeout: Some(Duration::from_secs(limits::ACK_TIMEOUT_SECS.unsigned_abs())),
            reap_tick: Some(Duration::from_secs(limits::REAP_TICK_SECS.unsigned_abs())),
        }
    }
}

/// A transaction that looks.
pub struct Read<'a> {
    conn: &'a Conn,
    caller: &'a Caller,
    now: Time,
    shared: &'a Shared,
    cache: CacheRef<'a>,
}

/// Where what is remembered between transactions is kept.
enum CacheRef<'a> {
    Reader(&'a RefCell<ReaderCache>),
    Writer(&'a RefCell<Batch>),
}

impl CacheRef<'_> {
    fn with<T>(&self, run: impl FnOnce(&mut Cache) -> T) -> T {
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
        shared: &'a Shared,
    ) -> Self {
        Self { conn: &reader.conn, caller, now, shared, cache: CacheRef::Reader(&reader.cache) }
    }

    /// The acting identity.
    pub fn caller(&self) -> &Caller {
        self.caller
    }

    /// The present moment, the same throughout the transaction.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Which engine runs the statements; for the few that are written twice.
    pub fn engine(&self) -> Engine {
        self.conn.engine()
    }

    /// Seals and opens message words.
    pub fn sealer(&self) -> &Sealer {
        &self.shared.sealer
    }

    /// Limits that an operator can set.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Every row of a statement.
    pub fn query<T: FromRow>(&self, sql: &'static str, params: &[&dyn ToParam]) -> Result<Vec<T>> {
        self.conn.query(sql, params)?.iter_mut().map(T::from_row).collect()
    }

    /// The first rows of a statement that lists something, as many as a page can take.
    pub fn rows<T: FromRow>(&self, sql: &'static str, params: &[&dyn ToParam]) -> Result<Rows<T>> {
        Rows::read(self.conn, sql, params)
    }

    /// Shows every row of a statement where it lies, until the visitor breaks off.
    pub(crate) fn visit(&self, sql: &'static str, params: &[&dyn ToParam], each: Visitor<'_>) -> Result<()> {
        self.conn.visit(sql, params, each)
    }

    /// How far a page may look in a list whose positions have holes. `sql` selects the position of the row after which
    /// so many others come, from a position on: its last two parameters are these numbers, and `list` those before.
    pub fn horizon(&self, sql: &'static str, list: &[&dyn ToParam], after: i64) -> Result<Horizon> {
        let others = limits::PAGE_SCAN_MAX.saturating_sub(1);
        let params: Vec<&dyn ToParam> =
            list.iter().copied().chain([&after as &dyn ToParam, &others]).collect();
        let row = self.one::<(i64,)>(sql, &params)?;
        Ok(Horizon(row.map(|(position,)| position)))
    }

    /// The only row of a statement, if there is one; two are a defect.
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

    /// What the connection has cached of the caller's workspace under `key`.
    pub fn cached<T: Cached>(&self, key: &impl CacheKey) -> Option<T> {
        self.cache.with(|cache| cache.get(self.caller.workspace_id, key))
    }

    /// What is cached under `key`, or what `load` answers, which is cached from then on. Only for what is made from
    /// rows every change of which emits an event that [invalidates](crate::EventKind::invalidates) it.
    pub fn cached_or_load<T: Cached>(
        &self,
        key: &impl CacheKey,
        load: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if let Some(found) = self.cached(key) {
            return Ok(found);
        }
        let loaded = load()?;
        self.cache.with(|cache| cache.put(self.caller.workspace_id, key, loaded.clone()));
        Ok(loaded)
    }

    /// What is cached under `key`, or else an empty one, after `extend` has added to it what is missing. Nothing is
    /// cached under the key if that fails.
    pub fn extended<T: Cached + Default>(
        &self,
        key: &impl CacheKey,
        extend: impl FnOnce(&mut T) -> Result<()>,
    ) -> Result<T> {
        let workspace = self.caller.workspace_id;
        let mut entry: T = self.cache.with(|cache| cache.take(workspace, key)).unwrap_or_default();
        extend(&mut entry)?;
        self.cache.with(|cache| cache.put(workspace, key, entry.clone()));
        Ok(entry)
    }

    /// Something in this channel was loaded. The first that a change loads is what it is about, and says where its audit
    /// row belongs.
    pub(crate) fn loaded_in(&self, channel: ChannelId) {
        if let CacheRef::Writer(batch) = &self.cache {
            batch.borrow_mut().loaded_in(self.caller.workspace_id, channel);
        }
    }

    /// What must hold before a thread may make the move called `action`.
    pub fn conditions(&self, action: &str) -> impl Iterator<Item = &'a Condition> {
        self.shared.table.conditions().filter(move |condition| condition.action == action)
    }

    pub(in crate::op) fn table(&self) -> &'a Table {
        &self.shared.table
    }
}

/// A transaction that may change things.
pub struct Write<'a> {
    read: Read<'a>,
    batch: &'a RefCell<Batch>,
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
        shared: &'a Shared,
        batch: &'a RefCell<Batch>,
    ) -> Self {
        let cache = CacheRef::Writer(batch);
        Self { read: Read { conn, caller, now, shared, cache }, batch }
    }

    /// A change that must touch exactly `rows` rows. It may be sent later, together with others of the batch,
    /// but before anything that reads.
    pub fn execute(&mut self, rows: u64, sql: &'static str, params: &[&dyn ToParam]) -> Result<()> {
        self.read.conn.defer(Some(rows), sql, params)
    }

    /// Inserts a row. Sent like [`Write::execute`].
    pub(crate) fn insert(&mut self, row: &NewRow<'_>) -> Result<()> {
        self.execute(1, row.sql, row.values)
    }

    /// A change that may touch any number of rows and whose number nobody asks for. Sent like
    /// [`Write::execute`].
    pub fn execute_any(&mut self, sql: &'static str, params: &[&dyn ToParam]) -> Result<()> {
        self.read.conn.defer(None, sql, params)
    }

    /// A change whose number of touched rows decides what happens next.
    pub fn change(&mut self, sql: &'static str, params: &[&dyn ToParam]) -> Result<u64> {
        self.read.conn.execute(sql, params)
    }

    /// A fresh id.
    pub fn new_id<T: Id>(&self) -> Result<T> {
        self.shared.entropy.id(self.now)
    }

    /// Randomness for secrets.
    pub fn entropy(&self) -> &Entropy {
        &self.shared.entropy
    }

    /// Appends an event to the caller's workspace. Its position and hash are fixed at once.
    pub fn emit<E: Event>(&mut self, subject: Subject, event: &E) -> Result<Recorded> {
        self.emit_in(self.caller.workspace_id, subject, event)
    }

    /// Appends an event to another workspace than the caller's: one that is being created. What its kind invalidates
    /// ends with it, for every connection.
    pub fn emit_in<E: Event>(
        &mut self,
        workspace: WorkspaceId,
        subject: Subject,
        event: &E,
    ) -> Result<Recorded> {
        let kind = self.table().event(E::KIND);
        let kind =
            kind.ok_or_else(|| Error::internal(format!("no feature has the kind of event {}", E::KIND)))?;
        let attribution = self.caller.attribution();
        let mut batch = self.batch.borrow_mut();
        let recorded = batch.emit(self.conn, workspace, self.now, subject, &attribution, event)?;
        if let Some(cached) = kind.invalidated() {
            batch.invalidate(self.conn, workspace, cached)?;
        }
        Ok(recorded)
    }

    /// Begins the log of a workspace that is being created, before its first event.
    pub fn begin_log(&mut self, workspace: WorkspaceId) -> Result<()> {
        self.batch.borrow_mut().begin_log(workspace)
    }

    /// Writes a named audit row of the caller's workspace; it replaces the generic one.
    pub fn audit(&mut self, action: &'static str, metadata: Value) -> Result<()> {
        self.audit_in(self.caller.workspace_id, action, metadata)
    }

    /// Writes a named audit row of another workspace, or of the instance.
    pub fn audit_in(&mut self, workspace: WorkspaceId, action: &'static str, metadata: Value) -> Result<()> {
        let (at, attribution) = (self.now, self.caller.attribution());
        let entry = AuditEntry { at, action, attribution, metadata };
        self.batch.borrow_mut().audit(self.conn, workspace, &entry)
    }

    /// Does something in this transaction as the caller, but in `workspace`.
    pub(in crate::op) fn in_workspace<T>(
        &mut self,
        workspace: WorkspaceId,
        run: impl FnOnce(&mut Write<'_>) -> Result<T>,
    ) -> Result<T> {
        if self.caller.workspace_id == workspace {
            return run(self);
        }
        let mut caller = self.caller.clone();
        caller.workspace_id = workspace;
        run(&mut Write::new(self.conn, &caller, self.now, self.shared, self.batch))
    }

    /// The events that this job emitted so far, from position `from` of the job.
    pub(crate) fn emitted(&self, from: usize) -> Vec<Recorded> {
        self.batch.borrow().emitted(from)
    }
}
