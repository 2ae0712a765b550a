//! A database connection, to a SQLite file or a Postgres server.
//!
//! It has only `&self` methods: a transaction is a state of the connection, not a borrow, so a function can
//! hold a loader and a change at the same time.

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use super::budget::{ReadBudget, ReadInterrupt};
use super::bulk_write::{BulkWrite, JointWrite};
use super::disk::DiskState;
use super::engine::{Engine, StatementCounts, TransactionFailure, WalTruncation, check_row_count};
use super::postgres::PgConn;
use super::row::{Row, Visitor};
use super::scan::Scan;
use super::sqlite::SqliteConn;
use super::value::{Param, ToParam};
use super::watch::Watcher;
use crate::error::Result;

/// A connection to a SQLite file or a Postgres server.
pub enum Conn {
    #[doc(hidden)]
    Sqlite(SqliteConn),
    #[doc(hidden)]
    Postgres(PgConn),
    /// An engine with random faults, for tests.
    #[cfg(test)]
    #[doc(hidden)]
    Hostile(super::faulty_engine::HostileConn),
}

impl Conn {
    /// Returns the database engine of the connection.
    pub fn engine(&self) -> Engine {
        match self {
            Self::Sqlite(_) => Engine::Sqlite,
            Self::Postgres(_) => Engine::Postgres,
            #[cfg(test)]
            Self::Hostile(_) => Engine::Postgres,
        }
    }

    /// Configures the connection for reads: `interrupt` ends them, and `limit` is the time limit of each
    /// read.
    pub(crate) fn for_reads(self, interrupt: &ReadInterrupt, limit: Option<Duration>) -> Result<Self> {
        match self {
            Self::Sqlite(conn) => conn.for_reads(interrupt, limit).map(Self::Sqlite),
            Self::Postgres(conn) => Ok(Self::Postgres(conn.for_reads(interrupt, limit))),
            #[cfg(test)]
            Self::Hostile(conn) => Ok(Self::Hostile(conn)),
        }
    }

    /// Returns the time budget of the current read, or `None` if the connection has no read budget.
    pub(crate) fn budget(&self) -> Option<&ReadBudget> {
        match self {
            Self::Sqlite(conn) => conn.budget(),
            Self::Postgres(conn) => Some(conn.budget()),
            #[cfg(test)]
            Self::Hostile(_) => None,
        }
    }

    /// Begins the time budget of a new read, with the full limit.
    pub(crate) fn begin_budget(&self) {
        match self {
            Self::Sqlite(conn) => conn.begin_budget(),
            Self::Postgres(conn) => conn.begin_budget(),
            #[cfg(test)]
            Self::Hostile(_) => {}
        }
    }

    /// Ends the time budget of the current read: later statements have no budget until the next read begins.
    pub(crate) fn end_budget(&self) {
        if let Some(budget) = self.budget() {
            budget.begin(None);
        }
    }

    /// Makes the connection report every later statement to `watcher`.
    pub(crate) fn set_watcher(&mut self, watcher: Watcher) {
        match self {
            Self::Sqlite(conn) => conn.set_watcher(watcher),
            Self::Postgres(conn) => conn.set_watcher(watcher),
            #[cfg(test)]
            Self::Hostile(_) => drop(watcher),
        }
    }

    /// Runs a statement and returns all of its rows.
    pub fn query(&self, sql: &'static str, params: &[&dyn ToParam]) -> Result<Vec<Row>> {
        let params = bind_params(params);
        match self {
            Self::Sqlite(conn) => conn.query(sql, &params),
            Self::Postgres(conn) => conn.query(sql, &params),
            #[cfg(test)]
            Self::Hostile(conn) => conn.query(sql, &params),
        }
    }

    /// Runs a statement and returns its first rows, up to a limit in bytes.
    ///
    /// Stops after the row at which the total [weight](Row::weight) of the rows reaches `max_bytes`. Returns
    /// at least one row if the statement returns any. Further rows are neither fetched nor copied.
    pub(crate) fn query_within(
        &self,
        max_bytes: usize,
        sql: &'static str,
        params: &[&dyn ToParam],
    ) -> Result<Vec<Row>> {
        let params = bind_params(params);
        match self {
            Self::Sqlite(conn) => conn.query_within(max_bytes, sql, &params),
            Self::Postgres(conn) => conn.query_within(max_bytes, sql, &params),
            #[cfg(test)]
            Self::Hostile(conn) => conn.query_within(max_bytes, sql, &params),
        }
    }

    /// Runs a statement and returns its first rows for a page, limited by `max_bytes` and by the read's time
    /// budget.
    ///
    /// Also returns whether the rows were cut off because the page's time was used up. At least one row is
    /// returned in that case. Postgres returns all rows together, so the flag is always `false` there.
    pub(crate) fn query_page(
        &self,
        max_bytes: usize,
        sql: &'static str,
        params: &[&dyn ToParam],
    ) -> Result<(Vec<Row>, bool)> {
        match self {
            Self::Sqlite(conn) => conn.query_page(max_bytes, sql, &bind_params(params)),
            _ => self.query_within(max_bytes, sql, params).map(|rows| (rows, false)),
        }
    }

    /// Runs a statement and calls `visitor` with every row, without copying the row, until `visitor` breaks.
    pub(crate) fn visit(
        &self,
        sql: &'static str,
        params: &[&dyn ToParam],
        visitor: Visitor<'_>,
    ) -> Result<()> {
        let params = bind_params(params);
        match self {
            Self::Sqlite(conn) => conn.visit(sql, &params, visitor),
            Self::Postgres(conn) => conn.visit(sql, &params, visitor),
            #[cfg(test)]
            Self::Hostile(conn) => conn.visit(sql, &params, visitor),
        }
    }

    /// Runs a statement and calls `visitor` with its first rows, with the same limit in bytes as
    /// [`Self::query_within`].
    pub(crate) fn visit_within(
        &self,
        max_bytes: usize,
        sql: &'static str,
        params: &[&dyn ToParam],
        visitor: Visitor<'_>,
    ) -> Result<()> {
        let params = bind_params(params);
        match self {
            Self::Sqlite(conn) => conn.visit_within(max_bytes, sql, &params, visitor),
            Self::Postgres(conn) => conn.visit_within(max_bytes, sql, &params, visitor),
            #[cfg(test)]
            Self::Hostile(conn) => conn.visit_within(max_bytes, sql, &params, visitor),
        }
    }

    /// Runs a scan and calls `visitor` with every row, without copying the row, until `visitor` breaks.
    ///
    /// On Postgres, a transaction must have begun.
    pub(crate) fn scan(&self, scan: &Scan, params: &[&dyn ToParam], visitor: Visitor<'_>) -> Result<()> {
        let params = bind_params(params);
        match self {
            Self::Sqlite(conn) => conn.scan(scan, &params, visitor),
            Self::Postgres(conn) => conn.scan(scan, &params, visitor),
            #[cfg(test)]
            Self::Hostile(conn) => conn.visit(scan.sqlite, &params, visitor),
        }
    }

    /// Runs a statement that changes rows, and returns the number of changed rows.
    pub fn execute(&self, sql: &'static str, params: &[&dyn ToParam]) -> Result<u64> {
        let params = bind_params(params);
        match self {
            Self::Sqlite(conn) => conn.execute(sql, &params),
            Self::Postgres(conn) => conn.execute(sql, &params),
            #[cfg(test)]
            Self::Hostile(conn) => conn.execute(sql, &params),
        }
    }

    /// Runs a statement that changes rows, on Postgres together with a later statement.
    ///
    /// Checks that the statement changed `expected_rows` rows, unless `expected_rows` is `None`.
    pub fn defer(
        &self,
        expected_rows: Option<u64>,
        sql: &'static str,
        params: &[&dyn ToParam],
    ) -> Result<()> {
        let params = bind_params(params);
        match self {
            Self::Sqlite(conn) => check_row_count(expected_rows, conn.execute(sql, &params)?, sql),
            Self::Postgres(conn) => conn.defer(expected_rows, sql, &params),
            #[cfg(test)]
            Self::Hostile(conn) => conn.defer(expected_rows, sql, &params),
        }
    }

    /// Inserts rows. Each row is a list of column values.
    pub(crate) fn insert_many(&self, insert: &BulkWrite, rows: &[Vec<Param<'_>>]) -> Result<()> {
        match self {
            Self::Postgres(conn) => {
                let width = rows.first().map_or(0, Vec::len);
                conn.write_many(insert.postgres, &[(rows, width)])
            }
            _ => self.write_each(insert.sqlite, rows),
        }
    }

    /// Inserts or updates rows of several tables. Each row is a list of column values.
    ///
    /// On SQLite, fails if a list does not change exactly one row. On Postgres, only the rows of the last
    /// table are counted.
    pub(crate) fn write_tables<const N: usize>(
        &self,
        joint: &JointWrite<N>,
        rows: [&[Vec<Param<'_>>]; N],
    ) -> Result<()> {
        let parts = joint.sqlite.iter().zip(rows);
        match self {
            Self::Postgres(conn) => {
                let parts: Vec<_> = parts.map(|((_, width), rows)| (rows, *width)).collect();
                conn.write_many(joint.postgres, &parts)
            }
            _ => parts.into_iter().try_for_each(|((sql, _), rows)| self.write_each(sql, rows)),
        }
    }

    fn write_each(&self, sql: &'static str, rows: &[Vec<Param<'_>>]) -> Result<()> {
        rows.iter().try_for_each(|row| match self {
            Self::Sqlite(conn) => check_row_count(Some(1), conn.execute(sql, row)?, sql),
            Self::Postgres(conn) => conn.defer(Some(1), sql, row),
            #[cfg(test)]
            Self::Hostile(conn) => conn.defer(Some(1), sql, row),
        })
    }
}

fn bind_params<'a>(params: &'a [&'a dyn ToParam]) -> Vec<Param<'a>> {
    params.iter().map(|param| param.param()).collect()
}

/// Transactions. A transaction is a state of the connection.
impl Conn {
    /// Begins a transaction that may write.
    pub(crate) fn begin_write(&self) -> Result<()> {
        match self {
            Self::Sqlite(conn) => conn.begin("begin immediate"),
            Self::Postgres(conn) => conn.begin("begin"),
            #[cfg(test)]
            Self::Hostile(conn) => conn.begin(),
        }
    }

    /// Begins a transaction that may write. On SQLite, waits for other writers to the file without a time
    /// limit.
    pub(crate) fn begin_write_without_timeout(&self) -> Result<()> {
        match self {
            #[cfg(test)]
            Self::Hostile(conn) => conn.begin(),
            Self::Sqlite(conn) => conn.begin_write_without_timeout(),
            Self::Postgres(conn) => conn.begin("begin"),
        }
    }

    /// Begins a read transaction on one snapshot.
    pub(crate) fn begin_read(&self) -> Result<()> {
        match self {
            Self::Sqlite(conn) => conn.begin("begin"),
            Self::Postgres(conn) => conn.begin("begin isolation level repeatable read read only"),
            #[cfg(test)]
            Self::Hostile(conn) => conn.begin(),
        }
    }

    /// Returns the reason why the current transaction cannot continue, or `None` if it can.
    ///
    /// A transaction cannot continue if SQLite has ended it, if its session was lost, or if a failed
    /// statement has aborted it. The check needs no round trip.
    pub(crate) fn failure(&self) -> Option<TransactionFailure> {
        match self {
            Self::Sqlite(conn) => conn.failure(),
            Self::Postgres(conn) => conn.failure(),
            #[cfg(test)]
            Self::Hostile(conn) => conn.failure(),
        }
    }

    /// Fails if the current transaction cannot continue.
    pub(crate) fn check_transaction(&self) -> Result<()> {
        match self {
            Self::Sqlite(conn) => conn.check_transaction(),
            Self::Postgres(conn) => conn.check_transaction(),
            #[cfg(test)]
            Self::Hostile(conn) => conn.check_transaction(),
        }
    }

    /// Ends a read-only transaction.
    pub(crate) fn end_read(&self) -> Result<()> {
        match self {
            Self::Sqlite(conn) => conn.end_read(),
            Self::Postgres(conn) => conn.rollback(),
            #[cfg(test)]
            Self::Hostile(conn) => conn.rollback(),
        }
    }

    /// Returns the state of SQLite's disk after failed writes. On Postgres, reports no failure.
    pub(crate) fn disk_state(&self) -> DiskState {
        match self {
            Self::Sqlite(conn) => conn.disk_state(),
            Self::Postgres(_) => DiskState::default(),
            #[cfg(test)]
            Self::Hostile(_) => DiskState::default(),
        }
    }

    /// Repairs the effects of a failed write, outside of a transaction. Does nothing if no write has failed.
    pub(crate) fn recover_from_write_error(&self) -> Result<()> {
        match self {
            Self::Sqlite(conn) => conn.recover_from_write_error(),
            Self::Postgres(_) => Ok(()),
            #[cfg(test)]
            Self::Hostile(_) => Ok(()),
        }
    }

    /// Begins the statements of one task within the transaction of a batch.
    pub(crate) fn begin_task(&self) {
        match self {
            Self::Sqlite(conn) => conn.begin_task(),
            Self::Postgres(conn) => conn.begin_task(),
            #[cfg(test)]
            Self::Hostile(conn) => conn.begin_task(),
        }
    }

    /// Returns whether the current task has changed rows.
    pub(crate) fn has_task_written(&self) -> bool {
        match self {
            Self::Sqlite(conn) => conn.has_task_written(),
            Self::Postgres(conn) => conn.has_task_written(),
            #[cfg(test)]
            Self::Hostile(conn) => conn.has_task_written(),
        }
    }

    /// Ends the current task and keeps its changes in the transaction.
    pub(crate) fn keep_task_changes(&self) -> Result<()> {
        match self {
            Self::Sqlite(conn) => conn.keep_task_changes(),
            Self::Postgres(_) => Ok(()),
            #[cfg(test)]
            Self::Hostile(_) => Ok(()),
        }
    }

    /// Ends the current task and rolls back its changes. Does nothing on Postgres, where a task has no
    /// savepoint.
    pub(crate) fn undo_task(&self) -> Result<()> {
        match self {
            Self::Sqlite(conn) => conn.undo_task(),
            Self::Postgres(_) => Ok(()),
            #[cfg(test)]
            Self::Hostile(_) => Ok(()),
        }
    }

    /// Sends the deferred statements and waits for their results.
    pub(crate) fn flush(&self) -> Result<()> {
        match self {
            Self::Sqlite(conn) => conn.check_transaction(),
            Self::Postgres(conn) => conn.flush(),
            #[cfg(test)]
            Self::Hostile(conn) => conn.check_transaction(),
        }
    }

    /// Commits the transaction. On Postgres, also sends `lsns`, the new last positions of the logs, to other
    /// servers.
    pub(crate) fn commit(&self, lsns: &BTreeMap<Uuid, i64>) -> Result<()> {
        match self {
            Self::Sqlite(conn) => conn.commit(),
            Self::Postgres(conn) => conn.commit(lsns),
            #[cfg(test)]
            Self::Hostile(conn) => conn.commit(),
        }
    }

    /// Rolls back the whole transaction.
    pub(crate) fn rollback(&self) -> Result<()> {
        match self {
            Self::Sqlite(conn) => conn.rollback(),
            Self::Postgres(conn) => conn.rollback(),
            #[cfg(test)]
            Self::Hostile(conn) => conn.rollback(),
        }
    }

    /// Returns whether cached data may be outdated.
    ///
    /// That is the case if another process has written to the file since the last call, or if the connection
    /// uses another session than before. On Postgres, writes by other sessions are not reported: locking a
    /// head detects those.
    pub(crate) fn have_others_written(&self) -> Result<bool> {
        match self {
            Self::Sqlite(conn) => conn.have_others_written(),
            Self::Postgres(conn) => Ok(conn.have_others_written()),
            #[cfg(test)]
            Self::Hostile(_) => Ok(false),
        }
    }

    /// Returns how often SQLite compiled statements on the connection. On Postgres, all counts are 0.
    pub(crate) fn statement_counts(&self) -> StatementCounts {
        match self {
            Self::Sqlite(conn) => conn.statement_counts(),
            Self::Postgres(_) => StatementCounts::default(),
            #[cfg(test)]
            Self::Hostile(_) => StatementCounts::default(),
        }
    }

    /// Returns the engine settings that determine the durability of commits, as text.
    pub(crate) fn durability(&self) -> Result<String> {
        match self {
            #[cfg(test)]
            Self::Hostile(_) => Ok(String::new()),
            Self::Sqlite(conn) => Ok(format!("synchronous={}", conn.pragma("synchronous")?)),
            Self::Postgres(conn) => {
                let mut rows = conn.query(
                    "select current_setting('synchronous_commit') || ' fsync=' || current_setting('fsync')",
                    &[],
                )?;
                let setting: String =
                    rows.first_mut().map_or_else(|| Ok(String::new()), super::row::Row::take)?;
                Ok(format!("synchronous_commit={setting}"))
            }
        }
    }

    /// Runs statements without parameters outside of any task, for example in migrations and set-up.
    pub(crate) fn batch(&self, sql: &str) -> Result<()> {
        match self {
            Self::Sqlite(conn) => conn.batch(sql),
            Self::Postgres(conn) => conn.batch(sql),
            #[cfg(test)]
            Self::Hostile(conn) => conn.batch(sql),
        }
    }

    /// Checkpoints SQLite's entire write-ahead log and truncates it.
    ///
    /// This also overwrites freed space in the file. On Postgres there is nothing to truncate.
    pub(crate) fn truncate_wal(&self) -> Result<WalTruncation> {
        match self {
            #[cfg(test)]
            Self::Hostile(_) => Ok(WalTruncation::Done),
            Self::Sqlite(conn) => conn.truncate_wal(),
            Self::Postgres(_) => Ok(WalTruncation::Done),
        }
    }

    /// Checkpoints as many pages of SQLite's write-ahead log as possible without waiting.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        match self {
            #[cfg(test)]
            Self::Hostile(_) => Ok(()),
            Self::Sqlite(conn) => conn.checkpoint(),
            Self::Postgres(_) => Ok(()),
        }
    }
}
