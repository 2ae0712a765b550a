//! A SQLite connection: one file, write-ahead log, full durability.
//!
//! A statement's `$n` are rewritten to `?n` once, because SQLite treats `$2` as a named parameter and numbers
//! it by its first appearance.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::conn::{Failure, StatementCounts, WalCut};
use super::disk::{Disk, Trouble};
use super::file::{At, OpenHere};
use super::row::{Columns, Row, Visitor};
use super::transaction::{Transaction, outcome_unknown};
use super::value::{Param, Value};
use crate::error::{Code, Error, Result};
use crate::hash::sha256;
use crate::limits::{SQLITE_BUSY, STATEMENT_TIMEOUT};
use crate::time::Clock;
use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, Statement, StatementStatus, ffi};

/// The size of a page, fixed when the file is created.
///
/// The table of shelves depends on it: no node may share a page with other rows.
const PAGE_BYTES: i64 = 4096;
/// More than the service has statements, so that none is compiled twice.
const STATEMENTS_CACHED: usize = 1024;
/// How long a waiting writer sleeps before it tries the lock again.
const BUSY_STEP: Duration = Duration::from_millis(1);
/// Steps of SQLite's virtual machine between two checks of the clock: some tenths of a millisecond.
const LIMIT_STEPS: i32 = 20_000;
/// How long truncating the write-ahead log waits for readers before it is postponed.
const TRUNCATE_TIMEOUT: Duration = Duration::from_millis(20);
/// The same on a full disk, where writers have nothing better to do.
const FULL_TIMEOUT: Duration = Duration::from_millis(500);

/// What a connection may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Reads and writes, and creates the file.
    Creator,
    /// Reads and writes a file that exists.
    Writer,
    /// Reads only.
    Reader,
    /// Reads a file that must not change through this connection, for verification.
    Auditor,
}

/// A connection to a SQLite file.
pub struct SqliteConn {
    conn: Connection,
    _open_here: Option<OpenHere>,
    rewritten: RefCell<HashMap<(usize, usize), Arc<str>>>,
    transaction: Transaction,
    /// Whether a job runs, and has written: its first write sets the savepoint.
    job: Cell<JobState>,
    disk: Disk,
    data_version: Cell<i64>,
    counts: Cell<StatementCounts>,
    limit: Option<StatementLimit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobState {
    None,
    Clean,
    Written,
}

/// Rejects a read-only file: SQLite would open it all the same, and then fail each write.
fn check_writable(conn: &Connection) -> Result<()> {
    if !conn.is_readonly("main").map_err(failed)? {
        return Ok(());
    }
    let code = ffi::Error::new(ffi::SQLITE_READONLY);
    Err(failed(rusqlite::Error::SqliteFailure(code, None)))
}

/// Adds the function `sha256(text)`, which PostgreSQL has built in.
fn add_sha256(conn: &Connection) -> rusqlite::Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_DIRECTONLY;
    conn.create_scalar_function("sha256", 1, flags, |call| {
        let text: String = call.get(0)?;
        Ok(sha256(text.as_bytes()).to_vec())
    })
}

impl SqliteConn {
    pub(crate) fn open(path: &Path, role: Role) -> Result<Self> {
        let access = match role {
            Role::Creator => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
            Role::Writer | Role::Reader => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Role::Auditor => OpenFlags::SQLITE_OPEN_READ_ONLY,
        };
        Self::connect(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX, role, Some(path))
    }

    /// Opens a file for verification, in place or as a copy.
    pub(crate) fn audit(at: &At) -> Result<Self> {
        let (address, flags) = at.address();
        Self::connect(&address, flags, Role::Auditor, at.shared())
    }

    /// Connects; `shared` is the file if others may have it open too.
    fn connect(address: &Path, flags: OpenFlags, role: Role, shared: Option<&Path>) -> Result<Self> {
        let open_here = shared.and_then(OpenHere::mark);
        let mut conn = Connection::open_with_flags(address, flags).map_err(failed)?;
        if role != Role::Auditor {
            check_writable(&conn)?;
        }
        conn.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(failed)?;
        conn.busy_handler(Some(wait_for_lock)).map_err(failed)?;
        add_sha256(&conn).map_err(failed)?;
        if role == Role::Creator {
            conn.pragma_update(None, "page_size", PAGE_BYTES).map_err(failed)?;
        }
        if matches!(role, Role::Creator | Role::Writer) {
            conn.pragma_update(None, "journal_mode", "wal").map_err(failed)?;
        }
        conn.execute_batch(match role {
            Role::Creator | Role::Writer => {
                "pragma synchronous = full; pragma wal_autocheckpoint = 0; pragma secure_delete = on;
                 pragma foreign_keys = on; pragma mmap_size = 0; pragma temp_store = memory;
                 pragma cache_size = -65536; pragma journal_size_limit = 67108864;"
            }
            Role::Reader | Role::Auditor => {
                "pragma query_only = on; pragma mmap_size = 0; pragma temp_store = memory;
                 pragma cache_size = -65536;"
            }
        })
        .map_err(failed)?;
        let limit =
            (role == Role::Reader).then(|| StatementLimit::on(&mut conn, Clock::System)).transpose()?;
        Ok(Self {
            limit,
            conn,
            // A file that was created just now did not exist before.
            _open_here: open_here.or_else(|| shared.and_then(OpenHere::mark)),
            rewritten: RefCell::default(),
            transaction: Transaction::new(Failure::Statement)?,
            job: Cell::new(JobState::None),
            disk: Disk::default(),
            data_version: Cell::new(-1),
            counts: Cell::default(),
        })
    }

    /// Sets the clock that limits the statements.
    pub(crate) fn timed_by(mut self, clock: &Clock) -> Result<Self> {
        if self.limit.is_some() {
            self.limit = Some(StatementLimit::on(&mut self.conn, clock.clone())?);
        }
        Ok(self)
    }

    pub fn query(&self, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        self.query_within(usize::MAX, sql, params)
    }

    /// Steps through a statement's rows until those read weigh `bytes`.
    pub(crate) fn query_within(
        &self,
        bytes: usize,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>> {
        let read = self.run(sql, params, |statement| {
            let columns = statement.column_count();
            let (mut rows, mut left) = (Vec::new(), bytes);
            let mut found = statement.raw_query();
            while left > 0
                && let Some(row) = found.next()?
            {
                let values = (0..columns).map(|place| row.column(place).map(Value::of_column));
                let row = values.collect::<Result<_>>().map(Row::new);
                left = left.saturating_sub(row.as_ref().map_or(0, Row::weight));
                rows.push(row);
            }
            Ok(rows)
        })?;
        read.into_iter().collect()
    }

    pub(crate) fn visit(&self, sql: &'static str, params: &[Param<'_>], each: Visitor<'_>) -> Result<()> {
        self.run(sql, params, |statement| {
            let mut found = statement.raw_query();
            while let Some(row) = found.next()? {
                if each(row).is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    pub fn execute(&self, sql: &'static str, params: &[Param<'_>]) -> Result<u64> {
        self.run(sql, params, |statement| statement.raw_execute().map(|rows| rows as u64))
    }

    fn run<T>(
        &self,
        sql: &'static str,
        params: &[Param<'_>],
        step: impl FnOnce(&mut Statement<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        self.check_transaction()?;
        let text = self.question_marks(sql);
        let mut statement = self
            .conn
            .prepare_cached(&text)
            .map_err(|error| self.record(error, |error| failed_in(error, sql)))?;
        if self.job.get() == JobState::Clean && !statement.readonly() {
            self.batch("savepoint job")?;
            self.job.set(JobState::Written);
        }
        for (place, param) in params.iter().enumerate() {
            statement.raw_bind_parameter(place + 1, bind(param)).map_err(|error| failed_in(error, sql))?;
        }
        if let Some(limit) = &self.limit {
            limit.restart(STATEMENT_TIMEOUT);
        }
        let result = step(&mut statement).map_err(|error| self.record(error, |error| failed_in(error, sql)));
        let again = statement.reset_status(StatementStatus::RePrepare);
        if again > 0 {
            let mut counts = self.counts.get();
            counts.re_prepared += u64::from(again.unsigned_abs());
            self.counts.set(counts);
        }
        result
    }

    /// Rewrites `$n` to `?n`, once per text; the result is cached by the text's address and length.
    fn question_marks(&self, sql: &'static str) -> Arc<str> {
        let key = (sql.as_ptr().addr(), sql.len());
        if let Some(found) = self.rewritten.borrow().get(&key) {
            return Arc::clone(found);
        }
        let text: Arc<str> = rewrite(sql).into();
        let mut counts = self.counts.get();
        counts.prepared += 1;
        self.counts.set(counts);
        self.rewritten.borrow_mut().insert(key, Arc::clone(&text));
        text
    }

    pub fn counts(&self) -> StatementCounts {
        self.counts.get()
    }

    /// Runs statements that are not part of a job.
    pub fn batch(&self, sql: &str) -> Result<()> {
        self.check_transaction()?;
        self.conn.execute_batch(sql).map_err(|error| self.record(error, failed))
    }

    /// Records what the error says about the disk, and converts it.
    fn record(&self, error: rusqlite::Error, convert: impl FnOnce(rusqlite::Error) -> Error) -> Error {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => self.disk.set(Trouble::Full),
            Some(ErrorCode::ReadOnly) => self.disk.set(Trouble::ReadOnly),
            _ => {}
        }
        convert(error)
    }

    /// Begins a transaction.
    pub fn begin(&self, sql: &'static str) -> Result<()> {
        self.execute(sql, &[])?;
        self.transaction.begin();
        Ok(())
    }

    /// Fails if a transaction was begun and SQLite has ended it by itself.
    ///
    /// SQLite does that after some disk failures. Whatever ran then would be a transaction of its own.
    pub fn check_transaction(&self) -> Result<()> {
        self.transaction.check(|| !self.conn.is_autocommit())
    }

    /// Returns why the transaction that was begun cannot continue, if it cannot.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.transaction.failure(|| !self.conn.is_autocommit())
    }

    /// Commits.
    ///
    /// After an I/O error a recovery may find the change in the write-ahead log, until that has been written
    /// to again: see [`SqliteConn::recover`].
    pub fn commit(&self) -> Result<()> {
        self.check_transaction()?;
        match self.conn.execute_batch("commit") {
            Ok(()) => {
                self.transaction.end();
                self.disk.set(Trouble::None);
                Ok(())
            }
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure) => {
                self.disk.set(Trouble::Unsettled);
                Err(outcome_unknown(error))
            }
            Err(error) => Err(self.record(error, failed)),
        }
    }

    /// Ends a transaction that only read.
    pub fn end_read(&self) -> Result<()> {
        if self.transaction.end() && !self.conn.is_autocommit() {
            self.execute("commit", &[])?;
        }
        Ok(())
    }

    /// Returns the state of the disk, which other threads can read too.
    pub(crate) fn disk(&self) -> Disk {
        self.disk.clone()
    }

    /// Writes to the write-ahead log where a commit has failed, so that no recovery finds that commit.
    ///
    /// On a full disk it first moves the log into the file, so that more log does not use up the space that
    /// is free again. Does nothing while all is well.
    pub fn recover(&self) -> Result<()> {
        if self.disk.trouble() == Trouble::Full {
            self.truncate_wal_within(FULL_TIMEOUT)?;
        }
        if self.disk.is_troubled() {
            let version = self.pragma("user_version")?;
            // Any write will do; the number itself is never read.
            let sql = format!("pragma user_version = {}", version.wrapping_add(1) & 0xFFFF);
            self.conn.execute_batch(&sql).map_err(|error| self.record(error, failed))?;
            self.disk.set(Trouble::None);
        }
        Ok(())
    }

    /// Returns the value of a pragma.
    pub fn pragma(&self, name: &str) -> Result<i64> {
        self.conn.pragma_query_value(None, name, |row| row.get(0)).map_err(failed)
    }

    /// Returns whether another connection has committed since the last call.
    pub fn others_wrote(&self) -> Result<bool> {
        let mut statement = self.conn.prepare_cached("pragma data_version").map_err(failed)?;
        let version: i64 = statement.query_row([], |row| row.get(0)).map_err(failed)?;
        Ok(self.data_version.replace(version) != version)
    }

    /// Tries to checkpoint the entire write-ahead log and truncate it.
    ///
    /// Writers are locked out while this waits for readers, so it does not wait long.
    pub(crate) fn truncate_wal(&self) -> Result<WalCut> {
        self.truncate_wal_within(TRUNCATE_TIMEOUT)
    }

    fn truncate_wal_within(&self, timeout: Duration) -> Result<WalCut> {
        BUSY_TIMEOUT.set(timeout);
        let found = self.conn.query_row("pragma wal_checkpoint(truncate)", [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        });
        BUSY_TIMEOUT.set(SQLITE_BUSY);
        Ok(match found.map_err(failed)? {
            (0, ..) => WalCut::Done,
            // Frames are left, because a reader may still need the pages that they replace.
            (_, frames, moved) if frames > moved => WalCut::HeldBack,
            // Another connection has the lock of checkpoints, or that of writers.
            _ => WalCut::Busy,
        })
    }

    /// Checkpoints what it can of the write-ahead log, without waiting.
    pub fn checkpoint(&self) -> Result<()> {
        self.conn.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(())).map_err(failed)
    }

    /// Begins a transaction that writes, as soon as the lock is free.
    pub fn begin_alone(&self) -> Result<()> {
        BUSY_TIMEOUT.set(Duration::MAX);
        let begun = self.begin("begin immediate");
        BUSY_TIMEOUT.set(SQLITE_BUSY);
        begun
    }

    pub fn begin_job(&self) {
        self.job.set(JobState::Clean);
    }

    pub fn job_wrote(&self) -> bool {
        self.job.get() == JobState::Written
    }

    /// Keeps the job's writes.
    pub fn keep_job(&self) -> Result<()> {
        match self.job.replace(JobState::None) {
            JobState::Written => self.batch("release job"),
            _ => Ok(()),
        }
    }

    /// Rolls back the job's writes.
    pub fn undo_job(&self) -> Result<()> {
        match self.job.replace(JobState::None) {
            JobState::Written => self.batch("rollback to job; release job"),
            _ => Ok(()),
        }
    }

    pub fn rollback(&self) -> Result<()> {
        self.job.set(JobState::None);
        self.transaction.end();
        if self.conn.is_autocommit() { Ok(()) } else { self.batch("rollback") }
    }
}

/// Interrupts a reader's statement that takes too long, as Postgres does by itself.
///
/// There are few readers, and a statement that occupies one for long keeps everyone else from reading.
struct StatementLimit {
    clock: Clock,
    /// In microseconds of the monotonic clock.
    until: Arc<AtomicU64>,
}

impl StatementLimit {
    fn on(conn: &mut Connection, clock: Clock) -> Result<Self> {
        let until = Arc::new(AtomicU64::new(u64::MAX));
        let (limit, now) = (Arc::clone(&until), clock.clone());
        let is_over = move || now.monotonic().micros() > limit.load(Ordering::Relaxed);
        conn.progress_handler(LIMIT_STEPS, Some(is_over)).map_err(failed)?;
        Ok(Self { clock, until })
    }

    fn restart(&self, span: Duration) {
        self.until.store(self.clock.deadline(span).micros(), Ordering::Relaxed);
    }
}

thread_local! {
    /// How long this thread waits for a lock.
    static BUSY_TIMEOUT: Cell<Duration> = const { Cell::new(SQLITE_BUSY) };
}

/// Called by SQLite while another process holds the lock; `tries` counts up from 0.
fn wait_for_lock(tries: i32) -> bool {
    let waited = BUSY_STEP.saturating_mul(tries.unsigned_abs());
    if waited >= BUSY_TIMEOUT.get() {
        return false;
    }
    std::thread::park_timeout(BUSY_STEP);
    true
}

/// Replaces `$n` by `?n`, outside of quotes.
fn rewrite(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len());
    let mut quoted = false;
    for character in sql.chars() {
        quoted ^= character == '\'';
        out.push(if character == '$' && !quoted { '?' } else { character });
    }
    out
}

fn bind<'a>(param: &'a Param<'_>) -> ToSqlOutput<'a> {
    ToSqlOutput::Borrowed(match param {
        Param::Null => ValueRef::Null,
        Param::Int(number) => ValueRef::Integer(*number),
        Param::Bool(truth) => ValueRef::Integer(i64::from(*truth)),
        Param::Text(text) => ValueRef::Text(text.as_bytes()),
        Param::Bytes(bytes) => ValueRef::Blob(bytes),
        Param::Uuid(id) => ValueRef::Blob(id.as_bytes()),
        // Lists are for statements written for Postgres; here they match nothing.
        Param::Ints(_) | Param::Uuids(_) => ValueRef::Null,
    })
}

impl Columns for rusqlite::Row<'_> {
    fn column(&self, place: usize) -> Result<Param<'_>> {
        Ok(match self.get_ref(place).map_err(Error::internal)? {
            ValueRef::Null => Param::Null,
            ValueRef::Integer(number) => Param::Int(number),
            ValueRef::Real(_) => return Err(Error::internal("a column holds a fraction, which none should")),
            // SQLite does not check that text is valid UTF-8.
            ValueRef::Text(text) => std::str::from_utf8(text).map_or(Param::Bytes(text), Param::Text),
            ValueRef::Blob(bytes) => Param::Bytes(bytes),
        })
    }
}

fn failed(error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::new(Code::Unavailable, "another process has locked the database; try again")
                .caused_by(error)
        }
        Some(ErrorCode::OperationInterrupted) => {
            Error::new(Code::Unavailable, "the read took too long: ask for less, or try again")
                .caused_by(error)
        }
        Some(ErrorCode::DiskFull) => {
            Error::new(Code::Unavailable, "the disk is full; nothing was changed").caused_by(error)
        }
        Some(ErrorCode::ReadOnly) => {
            Error::new(Code::Unavailable, "the database is not writable; nothing was changed")
                .caused_by(error)
        }
        Some(ErrorCode::SystemIoFailure) => {
            Error::new(Code::Unavailable, "the disk failed; nothing was changed: try again").caused_by(error)
        }
        _ => Error::internal(error),
    }
}

fn failed_in(error: rusqlite::Error, sql: &'static str) -> Error {
    if error.sqlite_error_code() == Some(ErrorCode::Unknown) || error.sqlite_error_code().is_none() {
        return Error::internal(format!("{error} in: {sql}"));
    }
    failed(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Database, refusal};
    use crate::time::Time;

    #[test]
    fn parameters_are_numbered_as_written() {
        let folder = tempfile::tempdir().unwrap();
        let conn = SqliteConn::open(&folder.path().join("t.db"), Role::Creator).unwrap();
        let mut rows = conn.query("select $2, $1, $2, '$1'", &[Param::Int(10), Param::Int(20)]).unwrap();
        let row: Vec<i64> = (0..3).map(|_| rows[0].take().unwrap()).collect();
        assert_eq!(row, [20, 10, 20]);
        assert_eq!(rows[0].take::<String>().unwrap(), "$1");
    }

    #[test]
    fn rows_beyond_the_limit_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let conn = SqliteConn::open(&folder.path().join("t.db"), Role::Creator).unwrap();
        let read = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&read);
        let text = "x".repeat(1000);
        let long = move |_: &rusqlite::functions::Context<'_>| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok(text.clone())
        };
        conn.conn.create_scalar_function("long", 0, FunctionFlags::SQLITE_UTF8, long).unwrap();
        let endless =
            "with recursive c (n) as (select 1 union all select n + 1 from c) select n, long() from c";
        assert_eq!(conn.query_within(100_000, endless, &[]).unwrap().len(), 50);
        assert_eq!(read.load(Ordering::Relaxed), 50);
    }

    #[test]
    fn a_statement_that_takes_too_long_is_interrupted_and_the_next_one_runs() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        SqliteConn::open(&path, Role::Creator).unwrap().batch("create table t (n bigint)").unwrap();
        let clock = Clock::mock(Time::from_micros(0));
        let conn = SqliteConn::open(&path, Role::Reader).unwrap().timed_by(&clock).unwrap();
        // Time passes only while the statement runs.
        let flags = FunctionFlags::SQLITE_UTF8;
        let new_event = clock.clone();
        let pass = move |_: &rusqlite::functions::Context<'_>| {
            new_event.advance(Duration::from_millis(1));
            Ok(1)
        };
        conn.conn.create_scalar_function("pass", 0, flags, pass).unwrap();
        let endless =
            "with recursive c (n) as (select 1 union all select n + pass() from c) select count(*) from c";
        conn.begin("begin").unwrap();
        let began = clock.monotonic();
        assert_eq!(conn.query(endless, &[]).unwrap_err().code(), Code::Unavailable);
        let took = clock.monotonic().since(began);
        assert!(took >= STATEMENT_TIMEOUT && took < 2 * STATEMENT_TIMEOUT, "{took:?}");
        clock.advance(STATEMENT_TIMEOUT);
        assert_eq!(conn.query("select count(*) from t", &[]).unwrap().len(), 1);
        conn.end_read().unwrap();
    }

    #[test]
    fn a_writer_is_fully_durable_and_deletes_securely() {
        let folder = tempfile::tempdir().unwrap();
        let conn = SqliteConn::open(&folder.path().join("t.db"), Role::Creator).unwrap();
        let wanted = [
            ("synchronous", 2),
            ("secure_delete", 1),
            ("foreign_keys", 1),
            ("mmap_size", 0),
            ("auto_vacuum", 0),
            ("page_size", PAGE_BYTES),
        ];
        for (pragma, wanted) in wanted {
            assert_eq!(conn.pragma(pragma).unwrap(), wanted, "{pragma}");
        }
    }

    #[test]
    fn a_read_only_file_is_rejected_where_it_must_be_writable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        SqliteConn::open(&path, Role::Creator).unwrap().batch("create table t (n bigint)").unwrap();
        let open = |role| SqliteConn::connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY, role, Some(&path));
        for role in [Role::Creator, Role::Writer, Role::Reader] {
            let rejected = open(role).map(drop).unwrap_err();
            assert_eq!(rejected.code(), Code::Unavailable, "{role:?}");
            let database = Database::Sqlite(path.clone());
            let convert = refusal::refusal(rejected, &database);
            assert_eq!(convert.code(), Code::Configuration);
            assert!(convert.detail().contains("must be writable for this user"), "{convert}");
        }
        assert!(open(Role::Auditor).is_ok());
    }

    #[test]
    fn a_connection_reports_a_lost_write_permission_until_it_is_restored() {
        let folder = tempfile::tempdir().unwrap();
        let conn = SqliteConn::open(&folder.path().join("t.db"), Role::Creator).unwrap();
        conn.batch("create table t (n bigint); pragma query_only = on").unwrap();
        let rejected = conn.execute("insert into t values (1)", &[]).unwrap_err();
        assert_eq!((rejected.code(), conn.disk().trouble()), (Code::Unavailable, Trouble::ReadOnly));
        assert_eq!(conn.recover().unwrap_err().code(), Code::Unavailable);
        conn.batch("pragma query_only = off").unwrap();
        conn.recover().unwrap();
        assert!(!conn.disk().is_troubled());
    }

    /// A database with a log, the connection that wrote it, and another that writes.
    fn with_a_wal() -> (tempfile::TempDir, SqliteConn, SqliteConn) {
        let folder = tempfile::tempdir().unwrap();
        let open = |role| SqliteConn::open(&folder.path().join("t.db"), role).unwrap();
        let (conn, other) = (open(Role::Creator), open(Role::Writer));
        conn.batch("create table t (n bigint); insert into t values (1)").unwrap();
        (folder, conn, other)
    }

    fn wal_bytes(folder: &tempfile::TempDir) -> u64 {
        super::super::file::wal_bytes(&folder.path().join("t.db"))
    }

    #[test]
    fn a_wal_that_cannot_be_truncated_says_whether_to_retry_soon() {
        let (folder, conn, other) = with_a_wal();
        other.batch("begin; select * from t").unwrap();
        conn.batch("insert into t values (2)").unwrap();
        assert_eq!(conn.truncate_wal().unwrap(), WalCut::HeldBack, "a reader of an earlier state");
        other.batch("commit; begin immediate").unwrap();
        assert_eq!(conn.truncate_wal().unwrap(), WalCut::Busy, "another connection writes");
        assert!(wal_bytes(&folder) > 0);
        other.batch("commit").unwrap();
        assert_eq!(conn.truncate_wal().unwrap(), WalCut::Done);
        assert_eq!(wal_bytes(&folder), 0);
    }

    #[test]
    fn on_a_full_disk_the_wal_is_truncated_before_anything_is_written() {
        let (folder, conn, _) = with_a_wal();
        let before = wal_bytes(&folder);
        conn.recover().unwrap();
        assert_eq!(wal_bytes(&folder), before, "nothing is wrong");
        conn.disk().set(Trouble::Full);
        conn.recover().unwrap();
        // What recovering writes itself is one page.
        assert!(wal_bytes(&folder) < before && !conn.disk().is_troubled());
    }

    #[test]
    fn a_job_is_rolled_back_alone() {
        let folder = tempfile::tempdir().unwrap();
        let conn = SqliteConn::open(&folder.path().join("t.db"), Role::Creator).unwrap();
        conn.batch("create table t (n bigint)").unwrap();
        conn.begin("begin immediate").unwrap();
        conn.begin_job();
        conn.execute("insert into t values (1)", &[]).unwrap();
        conn.keep_job().unwrap();
        conn.begin_job();
        assert!(!conn.job_wrote());
        conn.execute("insert into t values (2)", &[]).unwrap();
        assert!(conn.job_wrote());
        conn.undo_job().unwrap();
        conn.commit().unwrap();
        let mut rows = conn.query("select sum(n) from t", &[]).unwrap();
        assert_eq!(rows[0].take::<i64>().unwrap(), 1);
    }
}
