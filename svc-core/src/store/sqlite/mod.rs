//! A connection to a SQLite file, with a write-ahead log and full durability.
//!
//! The `$n` in a statement are rewritten to `?n` once, because SQLite treats `$2` as a named parameter and
//! numbers it by its first appearance.

mod errors;
mod timeouts;
mod space;
mod open;
mod values;
mod wal;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, Statement, StatementStatus};

use crate::error::{Error, Result};
use crate::limits::{SQLITE_BUSY_TIMEOUT, STATEMENT_TIMEOUT};
use crate::store::budget::{ReadBudget, ReadInterrupt};
use crate::store::disk::{DiskErrorKind, DiskState};
use crate::store::engine::{StatementCounts, TransactionFailure};
use crate::store::file::OpenFileMark;
use crate::store::row::{Columns as _, Row, Visitor};
use crate::store::scan::{FETCH_ROWS, Scan};
use crate::store::transaction::{TransactionState, outcome_unknown_error};
use crate::store::value::{Param, Value};
use crate::store::watch::{ExecutedStatement, Watcher};
use crate::time::Clock;
pub(super) use errors::sqlite_error;
use errors::sqlite_error_in;
pub(crate) use open::Role;
use space::FileSpace;
use timeouts::{BUSY_TIMEOUT, StatementLimit};
use values::{row_weight, to_sqlite, with_sqlite_markers};

/// A connection to a SQLite file.
pub struct SqliteConn {
    conn: Connection,
    /// The database file in which commits reserve space, or `None` for a connection that only reads.
    space: Option<FileSpace>,
    /// The mark of the open file. Declared after the connection and the file handle, which must be dropped
    /// before the mark.
    _open_file_mark: Option<OpenFileMark>,
    /// Statements with `?n` in place of `$n`, by the address and length of the original text.
    rewritten_sql: RefCell<HashMap<(usize, usize), Arc<str>>>,
    transaction: TransactionState,
    /// Whether a task runs, and whether the task has written. The first write of a task sets the savepoint.
    task_state: Cell<TaskState>,
    disk: DiskState,
    /// Whether a reader has prevented the truncation of the log on a full disk.
    blocked_by_reader: Cell<bool>,
    /// The `data_version` of SQLite at the last call of [`Self::have_others_written`].
    data_version: Cell<i64>,
    counts: Cell<StatementCounts>,
    /// The time limit of statements, or `None` for a connection that writes or verifies.
    limit: Option<StatementLimit>,
    /// Time limit of one read, or `None` without a limit.
    read_limit: Option<Duration>,
    watcher: Option<Watcher>,
}

/// The state of the task that runs within the transaction of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskState {
    /// No task runs.
    None,
    /// The task has not written.
    Clean,
    /// The task has written, after a savepoint.
    Written,
}

impl SqliteConn {
    /// Sets the clock for the time limits of statements.
    pub(crate) fn with_clock(mut self, clock: &Clock) -> Result<Self> {
        if self.limit.is_some() {
            self.limit =
                Some(StatementLimit::install(&mut self.conn, clock.clone(), ReadInterrupt::default())?);
        }
        Ok(self)
    }

    /// Configures the connection for reads: `interrupt` ends them, and `read_limit` is the time limit of each
    /// read.
    pub(crate) fn for_reads(
        mut self,
        interrupt: &ReadInterrupt,
        read_limit: Option<Duration>,
    ) -> Result<Self> {
        if let Some(limit) = &self.limit {
            let clock = limit.clock().clone();
            self.limit = Some(StatementLimit::install(&mut self.conn, clock, interrupt.clone())?);
        }
        self.read_limit = read_limit;
        Ok(self)
    }

    /// Begins the time budget of a new read, with the full limit.
    pub(crate) fn begin_budget(&self) {
        if let Some(limit) = &self.limit {
            limit.budget.begin(self.read_limit);
        }
    }

    /// Returns the budget of the current read, or `None` if the connection also writes.
    pub(crate) fn budget(&self) -> Option<&ReadBudget> {
        self.limit.as_ref().map(|limit| &limit.budget)
    }

    /// Makes the connection report every later statement to `watcher`.
    pub(crate) fn set_watcher(&mut self, watcher: Watcher) {
        self.watcher = Some(watcher);
    }

    pub fn query(&self, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        self.query_within(usize::MAX, sql, params)
    }

    /// Runs a statement and returns its first rows, until their total weight reaches `max_bytes`.
    pub(crate) fn query_within(
        &self,
        max_bytes: usize,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>> {
        self.read_rows(max_bytes, false, sql, params).map(|(rows, _)| rows)
    }

    /// Reads rows as [`Self::query_within`] does, but stops when the page's time is used up, after at least
    /// one row.
    ///
    /// Also returns whether the rows were cut off because the page's time was used up.
    pub(crate) fn query_page(
        &self,
        max_bytes: usize,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<(Vec<Row>, bool)> {
        self.read_rows(max_bytes, true, sql, params)
    }

    fn read_rows(
        &self,
        max_bytes: usize,
        ends_with_page: bool,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<(Vec<Row>, bool)> {
        let (read, ended) = self.run(sql, params, |statement| {
            let columns = statement.column_count();
            let mut rows = Vec::new();
            let mut left = max_bytes;
            let mut found = statement.raw_query();
            let may_end = |rows: &[_]| ends_with_page && !rows.is_empty() && self.is_page_time_used_up();
            while left > 0 {
                if may_end(&rows) {
                    return Ok((rows, true));
                }
                let row = match found.next() {
                    // The rows read so far are the page.
                    Err(error) if is_interrupted(&error) && may_end(&rows) => return Ok((rows, true)),
                    row => row?,
                };
                let Some(row) = row else { break };
                let values = (0..columns).map(|place| row.column(place).map(Value::from_column));
                let row = values.collect::<Result<_>>().map(Row::new);
                left = left.saturating_sub(row.as_ref().map_or(0, Row::weight));
                rows.push(row);
            }
            Ok((rows, false))
        })?;
        Ok((read.into_iter().collect::<Result<_>>()?, ended))
    }

    fn is_page_time_used_up(&self) -> bool {
        self.budget().is_some_and(ReadBudget::is_page_time_used_up)
    }

    pub(crate) fn visit(&self, sql: &'static str, params: &[Param<'_>], visitor: Visitor<'_>) -> Result<()> {
        self.run(sql, params, |statement| {
            let mut found = statement.raw_query();
            while let Some(row) = found.next()? {
                if visitor(row).is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Runs a statement and visits its first rows, until their total weight reaches `max_bytes`.
    pub(crate) fn visit_within(
        &self,
        max_bytes: usize,
        sql: &'static str,
        params: &[Param<'_>],
        visitor: Visitor<'_>,
    ) -> Result<()> {
        self.run(sql, params, |statement| {
            let columns = statement.column_count();
            let mut left = max_bytes;
            let mut found = statement.raw_query();
            while left > 0
                && let Some(row) = found.next()?
            {
                left = left.saturating_sub(row_weight(row, columns)?);
                if visitor(row).is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Visits any number of rows, as [`Self::visit`] does, with a separate time limit for each group of rows.
    pub(crate) fn scan(&self, scan: &Scan, params: &[Param<'_>], visitor: Visitor<'_>) -> Result<()> {
        self.run(scan.sqlite, params, |statement| {
            let mut found = statement.raw_query();
            let mut visited: usize = 0;
            while let Some(row) = found.next()? {
                if visitor(row).is_break() {
                    break;
                }
                visited = visited.wrapping_add(1);
                if let Some(limit) = self.limit.as_ref().filter(|_| visited.is_multiple_of(FETCH_ROWS)) {
                    limit.restart(STATEMENT_TIMEOUT);
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
        if let Some(limit) = &self.limit {
            limit.check()?;
        }
        let text = self.with_question_marks(sql);
        let mut statement = self
            .conn
            .prepare_cached(&text)
            .map_err(|error| self.record_error(error, |error| sqlite_error_in(error, sql)))?;
        if self.task_state.get() == TaskState::Clean && !statement.readonly() {
            self.batch("savepoint job")?;
            self.task_state.set(TaskState::Written);
        }
        for (place, param) in params.iter().enumerate() {
            statement
                .raw_bind_parameter(place + 1, to_sqlite(param))
                .map_err(|error| sqlite_error_in(error, sql))?;
        }
        if let Some(limit) = &self.limit {
            limit.restart(STATEMENT_TIMEOUT);
        }
        let result = step(&mut statement)
            .map_err(|error| self.record_error(error, |error| sqlite_error_in(error, sql)));
        if let Some(watcher) = &self.watcher {
            // Each report resets the count, so it contains the steps of this run.
            let steps = statement.reset_status(StatementStatus::VmStep);
            watcher(&ExecutedStatement { sql, cost: u64::from(steps.unsigned_abs()) });
        }
        let again = statement.reset_status(StatementStatus::RePrepare);
        if again > 0 {
            let mut counts = self.counts.get();
            counts.re_prepared += u64::from(again.unsigned_abs());
            self.counts.set(counts);
        }
        result
    }

    /// Rewrites `$n` to `?n`, once per text. The result is cached by the text's address and length.
    fn with_question_marks(&self, sql: &'static str) -> Arc<str> {
        let key = (sql.as_ptr().addr(), sql.len());
        if let Some(found) = self.rewritten_sql.borrow().get(&key) {
            return Arc::clone(found);
        }
        let text: Arc<str> = with_sqlite_markers(sql).into();
        let mut counts = self.counts.get();
        counts.prepared += 1;
        self.counts.set(counts);
        self.rewritten_sql.borrow_mut().insert(key, Arc::clone(&text));
        text
    }

    pub fn statement_counts(&self) -> StatementCounts {
        self.counts.get()
    }

    /// Runs statements without parameters outside of any task.
    pub fn batch(&self, sql: &str) -> Result<()> {
        self.check_transaction()?;
        self.conn.execute_batch(sql).map_err(|error| self.record_error(error, sqlite_error))
    }

    /// Updates the state of the disk from SQLite's error, and converts the error.
    fn record_error(&self, error: rusqlite::Error, convert: impl FnOnce(rusqlite::Error) -> Error) -> Error {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => self.disk.set_error_kind(DiskErrorKind::Full),
            Some(ErrorCode::ReadOnly) => self.disk.set_error_kind(DiskErrorKind::ReadOnly),
            Some(ErrorCode::OperationInterrupted) => {
                // Closing is the reason to stop, even if another interruption came first.
                return self
                    .limit
                    .as_ref()
                    .and_then(|limit| limit.check().err())
                    .unwrap_or_else(|| convert(error));
            }
            _ => {}
        }
        convert(error)
    }

    /// Begins a transaction with the statement `sql`.
    pub fn begin(&self, sql: &'static str) -> Result<()> {
        self.execute(sql, &[])?;
        self.transaction.begin();
        Ok(())
    }

    /// Fails if SQLite itself has ended the current transaction.
    ///
    /// SQLite does so after some disk failures. Later statements would then run in separate transactions.
    pub fn check_transaction(&self) -> Result<()> {
        self.transaction.check(|| !self.conn.is_autocommit())
    }

    /// Returns the reason why the current transaction cannot continue, or `None` if it can.
    pub(crate) fn failure(&self) -> Option<TransactionFailure> {
        self.transaction.failure(|| !self.conn.is_autocommit())
    }

    /// Commits the transaction, after reserving space for it in the file.
    ///
    /// After an I/O error, a recovery may find the change in the write-ahead log, until the log is written
    /// again: see [`SqliteConn::recover_from_write_error`].
    pub fn commit(&self) -> Result<()> {
        self.check_transaction()?;
        if let Some(watcher) = &self.watcher {
            watcher(&ExecutedStatement::COMMIT);
        }
        let reserved = self.reserve_space()?;
        match self.conn.execute_batch("commit") {
            Ok(()) => {
                self.transaction.end();
                self.repeat_reservation(reserved);
                // The commit is done, even if this check fails.
                let _ = self.record_successful_write();
                Ok(())
            }
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::SystemIoFailure) => {
                self.disk.set_error_kind(DiskErrorKind::UncertainCommit);
                Err(outcome_unknown_error(error))
            }
            Err(error) => Err(self.record_error(error, sqlite_error)),
        }
    }

    /// Ends a read-only transaction.
    pub fn end_read(&self) -> Result<()> {
        if self.transaction.end() && !self.conn.is_autocommit() {
            // Runs even if the read was interrupted.
            let mut commit = self.conn.prepare_cached("commit").map_err(sqlite_error)?;
            commit.execute([]).map_err(sqlite_error)?;
        }
        Ok(())
    }

    /// Returns the state of the disk, which other threads can read too.
    pub(crate) fn disk_state(&self) -> DiskState {
        self.disk.clone()
    }

    /// Returns the value of a SQLite pragma.
    pub fn pragma(&self, name: &str) -> Result<i64> {
        self.conn.pragma_query_value(None, name, |row| row.get(0)).map_err(sqlite_error)
    }

    /// Returns whether another connection has committed since the last call.
    pub fn have_others_written(&self) -> Result<bool> {
        let mut statement = self.conn.prepare_cached("pragma data_version").map_err(sqlite_error)?;
        let version: i64 = statement.query_row([], |row| row.get(0)).map_err(sqlite_error)?;
        Ok(self.data_version.replace(version) != version)
    }

    /// Begins a write transaction, and waits for the lock without a time limit.
    pub fn begin_write_without_timeout(&self) -> Result<()> {
        BUSY_TIMEOUT.set(Duration::MAX);
        let begun = self.begin("begin immediate");
        BUSY_TIMEOUT.set(SQLITE_BUSY_TIMEOUT);
        begun
    }

    pub fn begin_task(&self) {
        self.task_state.set(TaskState::Clean);
    }

    pub fn has_task_written(&self) -> bool {
        self.task_state.get() == TaskState::Written
    }

    /// Ends the current task and keeps its changes in the transaction.
    pub fn keep_task_changes(&self) -> Result<()> {
        match self.task_state.replace(TaskState::None) {
            TaskState::Written => self.batch("release job"),
            _ => Ok(()),
        }
    }

    /// Ends the current task and rolls back its changes.
    pub fn undo_task(&self) -> Result<()> {
        match self.task_state.replace(TaskState::None) {
            TaskState::Written => self.batch("rollback to job; release job"),
            _ => Ok(()),
        }
    }

    pub fn rollback(&self) -> Result<()> {
        self.task_state.set(TaskState::None);
        self.transaction.end();
        if self.conn.is_autocommit() { Ok(()) } else { self.batch("rollback") }
    }
}

fn is_interrupted(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::time::Time;
    use rusqlite::functions::FunctionFlags;
    use std::sync::atomic::{AtomicU64, Ordering};

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
        let conn = SqliteConn::open(&path, Role::Reader).unwrap().with_clock(&clock).unwrap();
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
    fn a_connection_reports_a_lost_write_permission_until_it_is_restored() {
        let folder = tempfile::tempdir().unwrap();
        let conn = SqliteConn::open(&folder.path().join("t.db"), Role::Creator).unwrap();
        conn.batch("create table t (n bigint); pragma query_only = on").unwrap();
        let rejected = conn.execute("insert into t values (1)", &[]).unwrap_err();
        assert_eq!(
            (rejected.code(), conn.disk_state().error_kind()),
            (Code::Unavailable, DiskErrorKind::ReadOnly)
        );
        assert_eq!(conn.recover_from_write_error().unwrap_err().code(), Code::Unavailable);
        conn.batch("pragma query_only = off").unwrap();
        conn.recover_from_write_error().unwrap();
        assert!(!conn.disk_state().has_error());
    }

    #[test]
    fn a_job_is_rolled_back_alone() {
        let folder = tempfile::tempdir().unwrap();
        let conn = SqliteConn::open(&folder.path().join("t.db"), Role::Creator).unwrap();
        conn.batch("create table t (n bigint)").unwrap();
        conn.begin("begin immediate").unwrap();
        conn.begin_task();
        conn.execute("insert into t values (1)", &[]).unwrap();
        conn.keep_task_changes().unwrap();
        conn.begin_task();
        assert!(!conn.has_task_written());
        conn.execute("insert into t values (2)", &[]).unwrap();
        assert!(conn.has_task_written());
        conn.undo_task().unwrap();
        conn.commit().unwrap();
        let mut rows = conn.query("select sum(n) from t", &[]).unwrap();
        assert_eq!(rows[0].take::<i64>().unwrap(), 1);
    }
}
