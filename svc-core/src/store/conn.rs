//! A database connection, on either engine.
//!
//! It has only `&self` methods: a transaction is a state of the connection, not a borrow, so a function can
//! hold a loader and a change at the same time.

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use super::budget::{ReadBudget, ReadInterrupt};
use super::bulk_write::{BulkWrite, JointWrite};
use super::disk::DiskState;
use super::engine::{Engine, StatementCounts, TransactionFailure, WalCut, check_rows};
use super::postgres::PgConn;
use super::row::{Row, Visitor};
use super::scan::Scan;
use super::sqlite::SqliteConn;
use super::value::{Param, ToParam};
use super::watch::Watcher;
use crate::error::Result;

/// A connection to one of the database engines.
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
    /// Returns the engine behind the connection.
    pub fn engine(&self) -> Engine {
        match self {
            Self::Sqlite(_) => Engine::Sqlite,
            Self::Postgres(_) => Engine::Postgres,
            #[cfg(test)]
            Self::Hostile(_) => Engine::Postgres,
        }
    }

    /// Makes this a connection for reads that `interrupt` can end, with the time limit `limit` for each read.
    pub(crate) fn for_reads(self, interrupt: &ReadInterrupt, limit: Option<Duration>) -> Result<Self> {
        match self {
            Self::Sqlite(conn) => conn.for_reads(interrupt, limit).map(Self::Sqlite),
            Self::Postgres(conn) => Ok(Self::Postgres(conn.for_reads(interrupt, limit))),
            #[cfg(test)]
            Self::Hostile(conn) => Ok(Self::Hostile(conn)),
        }
    }

    /// Returns the budget of the read in progress, if the connection has one.
    pub(crate) fn budget(&self) -> Option<&ReadBudget> {
        match self {
            Self::Sqlite(conn) => conn.budget(),
            Self::Postgres(conn) => Some(conn.budget()),
            #[cfg(test)]
            Self::Hostile(_) => None,
        }
    }

    /// Begins a read with the full time limit.
    pub(crate) fn begin_budget(&self) {
        match self {
            Self::Sqlite(conn) => conn.begin_budget(),
            Self::Postgres(conn) => conn.begin_budget(),
            #[cfg(test)]
            Self::Hostile(_) => {}
        }
    }

    /// Ends a read: the following statements have no time limit.
    pub(crate) fn end_budget(&self) {
        if let Some(budget) = self.budget() {
            budget.begin(None);
        }
    }

    /// Reports every statement to `watcher` from now on.
    pub(crate) fn watch(&mut self, watcher: Watcher) {
        match self {
            Self::Sqlite(conn) => conn.watch(watcher),
            Self::Postgres(conn) => conn.watch(watcher),
            #[cfg(test)]
            Self::Hostile(_) => drop(watcher),
        }
    }

    /// Returns every row of a statement.
    pub fn query(&self, sql: &'static str, params: &[&dyn ToParam]) -> Result<Vec<Row>> {
        let params = bound(params);
        match self {
            Self::Sqlite(conn) => conn.query(sql, &params),
            Self::Postgres(conn) => conn.query(sql, &params),
            #[cfg(test)]
            Self::Hostile(conn) => conn.query(sql, &params),
        }
    }

    /// Returns the first rows of a statement, bounded by bytes.
    ///
    /// Stops after the row at which the total [weight](Row::weight) reaches `bytes`. Returns at least one row
    /// if the statement returns any. Further rows are neither fetched nor copied.
    pub(crate) fn query_within(
        &self,
        bytes: usize,
        sql: &'static str,
        params: &[&dyn ToParam],
    ) -> Result<Vec<Row>> {
        let params = bound(params);
        match self {
            Self::Sqlite(conn) => conn.query_within(bytes, sql, &params),
            Self::Postgres(conn) => conn.query_within(bytes, sql, &params),
            #[cfg(test)]
            Self::Hostile(conn) => conn.query_within(bytes, sql, &params),
        }
    }

    /// Returns the first rows of a statement for a page, bounded by bytes and by the budget of the read.
    ///
    /// Also returns whether the rows were cut off because the page had to end; there is at least one row in
    /// that case. A server returns all rows of a statement together, so none are cut off there.
    pub(crate) fn query_page(
        &self,
        bytes: usize,
        sql: &'static str,
        params: &[&dyn ToParam],
    ) -> Result<(Vec<Row>, bool)> {
        match self {
            Self::Sqlite(conn) => conn.query_page(bytes, sql, &bound(params)),
            _ => self.query_within(bytes, sql, params).map(|rows| (rows, false)),
        }
    }

    /// Visits every row of a statement in place, until the visitor breaks.
    pub(crate) fn visit(&self, sql: &'static str, params: &[&dyn ToParam], each: Visitor<'_>) -> Result<()> {
        let params = bound(params);
        match self {
            Self::Sqlite(conn) => conn.visit(sql, &params, each),
            Self::Postgres(conn) => conn.visit(sql, &params, each),
            #[cfg(test)]
            Self::Hostile(conn) => conn.visit(sql, &params, each),
        }
    }

    /// Visits the first rows of a statement in place, with the same limit in bytes as [`Self::query_within`].
    pub(crate) fn visit_within(
        &self,
        bytes: usize,
        sql: &'static str,
        params: &[&dyn ToParam],
        each: Visitor<'_>,
    ) -> Result<()> {
        let params = bound(params);
        match self {
            Self::Sqlite(conn) => conn.visit_within(bytes, sql, &params, each),
            Self::Postgres(conn) => conn.visit_within(bytes, sql, &params, each),
            #[cfg(test)]
            Self::Hostile(conn) => conn.visit_within(bytes, sql, &params, each),
        }
    }

    /// Visits the rows of a scan in place, until the visitor breaks.
    ///
    /// On Postgres, a transaction must have begun.
    pub(crate) fn scan(&self, scan: &Scan, params: &[&dyn ToParam], each: Visitor<'_>) -> Result<()> {
        let params = bound(params);
        match self {
            Self::Sqlite(conn) => conn.scan(scan, &params, each),
            Self::Postgres(conn) => conn.scan(scan, &params, each),
            #[cfg(test)]
            Self::Hostile(conn) => conn.visit(scan.sqlite, &params, each),
        }
    }

    /// Runs a change and returns how many rows it changed.
    pub fn execute(&self, sql: &'static str, params: &[&dyn ToParam]) -> Result<u64> {
        let params = bound(params);
        match self {
            Self::Sqlite(conn) => conn.execute(sql, &params),
            Self::Postgres(conn) => conn.execute(sql, &params),
            #[cfg(test)]
            Self::Hostile(conn) => conn.execute(sql, &params),
        }
    }

    /// Runs a change, now or together with later statements, and checks the number of changed rows.
    pub fn defer(&self, rows: Option<u64>, sql: &'static str, params: &[&dyn ToParam]) -> Result<()> {
        let params = bound(params);
        match self {
            Self::Sqlite(conn) => check_rows(rows, conn.execute(sql, &params)?, sql),
            Self::Postgres(conn) => conn.defer(rows, sql, &params),
            #[cfg(test)]
            Self::Hostile(conn) => conn.defer(rows, sql, &params),
        }
    }

    /// Inserts rows, each given as a list of column values.
    pub(crate) fn insert_many(&self, insert: &BulkWrite, rows: &[Vec<Param<'_>>]) -> Result<()> {
        match self {
            Self::Postgres(conn) => {
                let width = rows.first().map_or(0, Vec::len);
                conn.write_many(insert.postgres, &[(rows, width)])
            }
            _ => self.write_each(insert.sqlite, rows),
        }
    }

    /// Changes rows of several tables, given as lists of column values. Each row must exist.
    pub(crate) fn write_jointly<const N: usize>(
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
            Self::Sqlite(conn) => check_rows(Some(1), conn.execute(sql, row)?, sql),
            Self::Postgres(conn) => conn.defer(Some(1), sql, row),
            #[cfg(test)]
            Self::Hostile(conn) => conn.defer(Some(1), sql, row),
        })
    }
}

fn bound<'a>(params: &'a [&'a dyn ToParam]) -> Vec<Param<'a>> {
    params.iter().map(|param| param.param()).collect()
}

/// Transactions, which are a state of the connection.
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

    /// Begins a transaction that may write, waiting without a time limit for other writers to the file.
    pub(crate) fn begin_alone(&self) -> Result<()> {
        match self {
            #[cfg(test)]
            Self::Hostile(conn) => conn.begin(),
            Self::Sqlite(conn) => conn.begin_alone(),
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
    /// SQLite has ended it, the session is gone, or a failed statement has aborted it. Needs no round trip.
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

    /// Ends a transaction that only read.
    pub(crate) fn end_read(&self) -> Result<()> {
        match self {
            Self::Sqlite(conn) => conn.end_read(),
            Self::Postgres(conn) => conn.rollback(),
            #[cfg(test)]
            Self::Hostile(conn) => conn.rollback(),
        }
    }

    /// Returns the state of the disk after failed writes. Postgres manages its own disk.
    pub(crate) fn disk(&self) -> DiskState {
        match self {
            Self::Sqlite(conn) => conn.disk(),
            Self::Postgres(_) => DiskState::default(),
            #[cfg(test)]
            Self::Hostile(_) => DiskState::default(),
        }
    }

    /// Repairs the effects of a failed write, outside of a transaction. Does nothing if no write has failed.
    pub(crate) fn recover(&self) -> Result<()> {
        match self {
            Self::Sqlite(conn) => conn.recover(),
            Self::Postgres(_) => Ok(()),
            #[cfg(test)]
            Self::Hostile(_) => Ok(()),
        }
    }

    /// Begins a job within the batch.
    pub(crate) fn begin_job(&self) {
        match self {
            Self::Sqlite(conn) => conn.begin_job(),
            Self::Postgres(conn) => conn.begin_job(),
            #[cfg(test)]
            Self::Hostile(conn) => conn.begin_job(),
        }
    }

    /// Returns whether the current job has changed anything.
    pub(crate) fn job_wrote(&self) -> bool {
        match self {
            Self::Sqlite(conn) => conn.job_wrote(),
            Self::Postgres(conn) => conn.job_wrote(),
            #[cfg(test)]
            Self::Hostile(conn) => conn.job_wrote(),
        }
    }

    /// Keeps the writes of the current job.
    pub(crate) fn keep_job(&self) -> Result<()> {
        match self {
            Self::Sqlite(conn) => conn.keep_job(),
            Self::Postgres(_) => Ok(()),
            #[cfg(test)]
            Self::Hostile(_) => Ok(()),
        }
    }

    /// Rolls back the writes of the current job, if the engine can do that within a transaction.
    pub(crate) fn undo_job(&self) -> Result<()> {
        match self {
            Self::Sqlite(conn) => conn.undo_job(),
            Self::Postgres(_) => Ok(()),
            #[cfg(test)]
            Self::Hostile(_) => Ok(()),
        }
    }

    /// Waits for all deferred statements.
    pub(crate) fn flush(&self) -> Result<()> {
        match self {
            Self::Sqlite(conn) => conn.check_transaction(),
            Self::Postgres(conn) => conn.flush(),
            #[cfg(test)]
            Self::Hostile(conn) => conn.check_transaction(),
        }
    }

    /// Commits, and on Postgres notifies other servers of the last positions of the logs.
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

    /// Returns whether cached data is no longer reliable: another process may have written to the file since
    /// the last call, or the session has changed.
    ///
    /// On Postgres, writes by other sessions are not reported: locking a head detects those.
    pub(crate) fn others_wrote(&self) -> Result<bool> {
        match self {
            Self::Sqlite(conn) => conn.others_wrote(),
            Self::Postgres(conn) => Ok(conn.others_wrote()),
            #[cfg(test)]
            Self::Hostile(_) => Ok(false),
        }
    }

    /// Returns how often statements were compiled. Counted only on SQLite.
    pub(crate) fn statement_counts(&self) -> StatementCounts {
        match self {
            Self::Sqlite(conn) => conn.counts(),
            Self::Postgres(_) => StatementCounts::default(),
            #[cfg(test)]
            Self::Hostile(_) => StatementCounts::default(),
        }
    }

    /// Returns the engine's settings on which durability depends.
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

    /// Runs statements outside of any job, such as migrations and set-up.
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
    pub(crate) fn truncate_wal(&self) -> Result<WalCut> {
        match self {
            #[cfg(test)]
            Self::Hostile(_) => Ok(WalCut::Done),
            Self::Sqlite(conn) => conn.truncate_wal(),
            Self::Postgres(_) => Ok(WalCut::Done),
        }
    }

    /// Checkpoints SQLite's write-ahead log as far as possible without waiting.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        match self {
            #[cfg(test)]
            Self::Hostile(_) => Ok(()),
            Self::Sqlite(conn) => conn.checkpoint(),
            Self::Postgres(_) => Ok(()),
        }
    }
}
