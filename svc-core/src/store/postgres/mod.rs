//! A PostgreSQL connection, which takes its sessions from a pool.
//!
//! The core thread that has taken a session also does the session's network input and output. Changes whose
//! reply the caller does not wait for are deferred, and sent with the next statement that waits for a reply.
//! A transaction uses one session. The pool checks the session before the transaction begins, without a round
//! trip, and receives it back after commit or rollback. If the session ends in between, the transaction
//! fails: no other session is taken, and no connection is opened. The timeout of a reply is a little longer
//! than the server's own limit.

mod errors;
mod certificate;
mod tls;
mod settings;
mod session;
mod listen;
mod values;
mod deferred;
mod reads;
mod rewrite;
mod watched;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{ClientWrapper, ObjectId};
use futures_util::future::{Either, join, join_all, select};
use tokio_postgres::Statement;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::budget::ReadBudget;
use super::engine::TransactionFailure;
use super::row::{Row, Visitor};

use super::scan::{FETCH_ROWS, Scan};
use super::transaction::{TransactionState, outcome_unknown_error};
use super::value::{FromValue, Param};
use super::watch::Watcher;
use crate::error::{Error, Result};
use crate::time::Clock;
use errors::{PgFailure, PgResult, broken_connection_error};
pub(crate) use listen::start_listener;
use reads::ReadLimits;
pub(crate) use session::{Pool, create_pool};
use session::{PooledSession, ResultForm, first_text};
pub(crate) use settings::{Server, parse_url};
use values::decode_row;

type DeferredStatement = Pin<Box<dyn Future<Output = PgResult<()>> + Send>>;

/// A connection to a PostgreSQL server.
pub struct PgConn {
    pool: Pool,
    /// The session of the transaction. Outside of a transaction, the session of the last statements, until a
    /// transaction begins.
    session: RefCell<Option<PooledSession>>,
    /// The id of the session at the last call of [`Self::have_others_written`].
    last_session: Cell<Option<ObjectId>>,
    transaction: TransactionState,
    deferred: RefCell<Vec<DeferredStatement>>,
    wrote: Cell<bool>,
    budget: ReadBudget,
    /// The limits of reads, or `None` if the connection may write.
    reads: Option<ReadLimits>,
    watcher: Option<Watcher>,
}

impl PgConn {
    /// Opens a connection with a separate pool of one session.
    pub(crate) fn open(server: &Server) -> Result<Self> {
        let conn = Self::from_pool(&create_pool(server, 1)?)?;
        conn.client()?;
        Ok(conn)
    }

    /// Creates a connection that takes its sessions from `pool`.
    pub(crate) fn from_pool(pool: &Pool) -> Result<Self> {
        Ok(Self {
            pool: pool.clone(),
            session: RefCell::default(),
            last_session: Cell::default(),
            transaction: TransactionState::new(TransactionFailure::Broken)?,
            deferred: RefCell::default(),
            wrote: Cell::new(false),
            budget: ReadBudget::new(&Clock::system()),
            reads: None,
            watcher: None,
        })
    }

    /// Returns the client of the transaction's session.
    ///
    /// Outside of a transaction, returns the client of a live session, which is taken from the pool if the
    /// connection has none.
    fn client(&self) -> Result<Arc<ClientWrapper>> {
        self.check_transaction()?;
        match self.live_client() {
            Some(client) => Ok(client),
            None if self.transaction.is_in_progress() => {
                Err(broken_connection_error("the session of the transaction has ended"))
            }
            None => self.take_session(),
        }
    }

    fn live_client(&self) -> Option<Arc<ClientWrapper>> {
        let session = self.session.borrow();
        let live = session.as_ref().filter(|session| !session.client.is_closed());
        live.map(|session| Arc::clone(&session.client))
    }

    /// Returns whether the connection has an open session.
    ///
    /// Sends nothing to the server, so a recent loss of the session may be unknown.
    pub fn is_connected(&self) -> bool {
        self.live_client().is_some()
    }

    fn take_session(&self) -> Result<Arc<ClientWrapper>> {
        self.close_session();
        // Statements deferred for the last session must not reach another session.
        self.deferred.take();
        let session = session::take_session(&self.pool)?;
        let client = Arc::clone(&session.client);
        self.session.replace(Some(session));
        Ok(client)
    }

    /// Closes the session, so that it does not return to the pool.
    fn close_session(&self) {
        drop(self.session.take().map(PooledSession::take));
    }

    /// Returns the session to the pool, or closes the session if it is in a transaction.
    pub(crate) fn release_session(&self) {
        if self.transaction.is_in_progress() {
            self.close_session();
        }
        drop(self.session.take());
    }

    /// Returns whether the connection uses another session than at the last call.
    ///
    /// A new session may be connected to another server, with other rows and another clock.
    pub fn have_others_written(&self) -> bool {
        let now = self.session.borrow().as_ref().map(PooledSession::id);
        self.last_session.replace(now) != now
    }

    /// Waits for the server, and records the effect of a failure on the session and the transaction.
    fn wait_for_server<T>(&self, work: impl Future<Output = PgResult<T>>) -> Result<T> {
        let timeout = self.session.borrow().as_ref().and_then(|session| session.reply_timeout);
        self.wait_for_server_within(timeout, work)
    }

    fn wait_for_server_within<T>(
        &self,
        timeout: Option<Duration>,
        work: impl Future<Output = PgResult<T>>,
    ) -> Result<T> {
        let outcome = match self.session.borrow().as_ref() {
            Some(session) => session.wait(timeout, self.run_unless_interrupted(work)),
            None => Err(PgFailure::session_ended()),
        };
        outcome.map_err(|failed| {
            self.record_failure(failed.failure);
            self.error_for_caller(failed)
        })
    }

    fn record_failure(&self, failure: TransactionFailure) {
        if matches!(failure, TransactionFailure::Broken | TransactionFailure::Timeout) {
            self.close_session();
        }
        self.transaction.mark_failed(failure);
    }

    /// Fails if the current transaction cannot continue. Sends nothing to the server.
    pub fn check_transaction(&self) -> Result<()> {
        self.transaction.check(|| self.live_client().is_some())
    }

    /// Returns the reason why the current transaction cannot continue, or `None` if it can.
    pub(crate) fn failure(&self) -> Option<TransactionFailure> {
        self.transaction.failure(|| self.live_client().is_some())
    }

    /// Sends the deferred statements and `last`, and waits for all of their results.
    fn send_with_deferred<T>(&self, last: impl Future<Output = PgResult<T>>) -> Result<T> {
        let deferred = self.deferred.take();
        self.wait_for_server(async {
            let (done, result) = join(join_all(deferred), last).await;
            done.into_iter().collect::<PgResult<Vec<()>>>()?;
            result
        })
    }

    pub fn query(&self, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        self.fetch(ResultForm::Whole, sql, params)?.iter().map(decode_row).collect()
    }

    /// Runs a statement and returns its first rows. The server omits rows after the total weight has reached
    /// `max_bytes`.
    pub(crate) fn query_within(
        &self,
        max_bytes: usize,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>> {
        self.fetch_within(max_bytes, sql, params)?.iter().map(decode_row).collect()
    }

    pub(crate) fn visit(&self, sql: &'static str, params: &[Param<'_>], visitor: Visitor<'_>) -> Result<()> {
        visit_rows(&self.fetch(ResultForm::Whole, sql, params)?, visitor)
    }

    /// Runs a statement and visits its first rows, with the same limit in bytes as [`Self::query_within`].
    pub(crate) fn visit_within(
        &self,
        max_bytes: usize,
        sql: &'static str,
        params: &[Param<'_>],
        visitor: Visitor<'_>,
    ) -> Result<()> {
        visit_rows(&self.fetch_within(max_bytes, sql, params)?, visitor)
    }

    /// Visits the rows of a scan through a cursor, fetching a limited number of rows at a time.
    pub(crate) fn scan(&self, scan: &Scan, params: &[Param<'_>], visitor: Visitor<'_>) -> Result<()> {
        self.fetch(ResultForm::Whole, scan.declare, params)?;
        loop {
            let rows = self.fetch(ResultForm::Whole, scan.fetch, &[])?;
            let is_last = rows.len() < FETCH_ROWS;
            if rows.iter().any(|row| visitor(row).is_break()) || is_last {
                break;
            }
        }
        self.fetch(ResultForm::Whole, scan.close, &[]).map(drop)
    }

    fn fetch_within(
        &self,
        max_bytes: usize,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<tokio_postgres::Row>> {
        let bytes = Param::Int(i64::try_from(max_bytes).unwrap_or(i64::MAX));
        let params: Vec<Param<'_>> = params.iter().copied().chain([bytes]).collect();
        self.fetch(ResultForm::Bounded, sql, &params)
    }

    fn fetch(
        &self,
        form: ResultForm,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<tokio_postgres::Row>> {
        self.watch_query(form, sql, params)?;
        let (client, statement) = self.prepare_with_form(form, sql)?;
        self.limit_next_statement(&client)?;
        let bound: Vec<&(dyn ToSql + Sync)> =
            params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
        self.send_with_deferred(async {
            client.query(&statement, &bound).await.map_err(|error| PgFailure::from_driver(error, sql))
        })
    }

    pub fn execute(&self, sql: &'static str, params: &[Param<'_>]) -> Result<u64> {
        self.wrote.set(true);
        self.watch_query(ResultForm::Whole, sql, params)?;
        let (client, statement) = self.prepare(sql)?;
        let bound: Vec<&(dyn ToSql + Sync)> =
            params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
        self.send_with_deferred(async {
            client.execute(&statement, &bound).await.map_err(|error| PgFailure::from_driver(error, sql))
        })
    }

    /// Sends the deferred statements and waits for their results.
    pub fn flush(&self) -> Result<()> {
        self.check_transaction()?;
        self.send_with_deferred(async { Ok(()) })
    }

    /// Begins a transaction on a session that the pool has just checked.
    ///
    /// The statement `sql` is sent together with the next statement.
    pub fn begin(&self, sql: &'static str) -> Result<()> {
        // The pool checks the session before the transaction uses it.
        self.release_session();
        let client = self.client()?;
        let first = self.transaction_setup_statement(&self.transaction.begin());
        let begun = format!("{sql}; {first}");
        self.deferred.borrow_mut().push(Box::pin(async move {
            client.batch_execute(&begun).await.map_err(|error| PgFailure::from_driver(error, sql))
        }));
        Ok(())
    }

    /// Runs statements outside of any task, without deferring them.
    pub fn batch(&self, sql: &str) -> Result<()> {
        let client = self.client()?;
        // The server must have begun the transaction before, because no statement may run outside of it.
        self.flush()?;
        self.wait_for_server(async {
            client.batch_execute(sql).await.map_err(|error| PgFailure::from_driver(error, sql))
        })
    }

    /// Returns the server's current transaction id, for [`Self::has_passed_horizon`].
    pub fn transaction_horizon(&self) -> Result<String> {
        first_value(self.query(SELECT_CURRENT_TRANSACTION, &[])?)
    }

    /// Returns whether every transaction that was in progress at `horizon` has ended.
    ///
    /// Rows that such a transaction may still see cannot be removed. Sessions that the role may not inspect
    /// are assumed to have ended.
    pub fn has_passed_horizon(&self, horizon: &str) -> Result<bool> {
        Ok(first_value::<i64>(self.query(COUNT_OLDER_TRANSACTIONS, &[Param::Text(horizon)])?)? == 0)
    }

    /// Commits and, in the same round trip, notifies other servers of the last positions of the logs.
    pub fn commit(&self, lsns: &BTreeMap<Uuid, i64>) -> Result<()> {
        self.commit_and_notify(lsns)?;
        self.release_session();
        Ok(())
    }

    /// Commits, and checks that the server has committed the transaction that this connection has begun.
    ///
    /// The server reports success even for a COMMIT outside of a transaction.
    fn commit_and_notify(&self, lsns: &BTreeMap<Uuid, i64>) -> Result<()> {
        self.flush()?;
        self.watch_commit();
        let (client, notify) = self.prepare("select pg_notify('svc_log', $1)")?;
        self.check_transaction()?;
        let notice: String = lsns.iter().map(|(workspace, lsn)| format!("{workspace}:{lsn} ")).collect();
        let parts = if notice.is_empty() { Vec::new() } else { split_notice(&notice) };
        let replies = self.wait_for_commit(async {
            // The reconcile poll finds commits whose notification was lost, so neither the outcome nor the
            // duration of the notification matters.
            let notified = join_all(parts.iter().map(|part| client.execute_raw(&notify, [part])));
            let committed = std::pin::pin!(client.simple_query(COMMIT));
            let outcome = match select(committed, notified).await {
                Either::Left((outcome, _)) => outcome,
                Either::Right((_, committed)) => committed.await,
            };
            outcome.map_err(PgFailure::from_commit)
        })?;
        self.transaction.confirm_commit(first_text(&replies))
    }

    /// Waits for the reply to a commit. Without a reply in time, the error reports an unknown outcome.
    fn wait_for_commit<T>(&self, work: impl Future<Output = PgResult<T>>) -> Result<T> {
        let answered = Cell::new(false);
        let result = self.wait_for_server(async {
            let outcome = work.await;
            answered.set(true);
            outcome
        });
        if answered.get() { result } else { result.map_err(outcome_unknown_error) }
    }

    /// Rolls back the transaction, and returns the session to the pool.
    ///
    /// If the rollback fails, the session is closed, which has the same effect.
    pub fn rollback(&self) -> Result<()> {
        self.deferred.take();
        self.wrote.set(false);
        let begun = self.transaction.end();
        if let Some(client) = self.live_client().filter(|_| begun) {
            let rolled_back = self.wait_for_server(async {
                client
                    .batch_execute("rollback")
                    .await
                    .map_err(|error| PgFailure::from_driver(error, "rollback"))
            });
            if let Err(error) = rolled_back {
                tracing::info!(%error, cause = ?error.cause(), "a session was closed instead of rolled back");
                self.close_session();
            }
        }
        self.release_session();
        Ok(())
    }

    fn prepare(&self, sql: &'static str) -> Result<(Arc<ClientWrapper>, Statement)> {
        self.prepare_with_form(ResultForm::Whole, sql)
    }

    fn prepare_with_form(
        &self,
        form: ResultForm,
        sql: &'static str,
    ) -> Result<(Arc<ClientWrapper>, Statement)> {
        let client = self.client()?;
        let prepared = {
            let session = self.session.borrow();
            let session = session.as_ref().ok_or_else(|| broken_connection_error("the session has ended"))?;
            match session.cached_statement(form, sql) {
                Some(statement) => Ok(statement),
                None => session.wait(session.reply_timeout, session.prepare(form, sql)),
            }
        };
        let statement = prepared.map_err(|failed| {
            self.record_failure(failed.failure);
            failed.error
        })?;
        Ok((client, statement))
    }

    pub fn begin_task(&self) {
        self.wrote.set(false);
    }

    pub fn has_task_written(&self) -> bool {
        self.wrote.get()
    }
}

impl Drop for PgConn {
    fn drop(&mut self) {
        self.release_session();
    }
}

/// Commits, and returns the name of the transaction that the commit ends.
const COMMIT: &str = "select current_setting('svc.transaction', true); commit";

fn visit_rows(rows: &[tokio_postgres::Row], visitor: Visitor<'_>) -> Result<()> {
    // A visitor that breaks needs no further rows.
    let _ = rows.iter().try_for_each(|row| visitor(row));
    Ok(())
}

fn first_value<T: FromValue>(mut rows: Vec<Row>) -> Result<T> {
    let row = rows.first_mut().ok_or_else(|| Error::internal("a statement returned no row"))?;
    row.take()
}

const SELECT_CURRENT_TRANSACTION: &str = "select cast(cast(pg_current_xact_id() as xid) as text)";

/// Counts what prevents the removal of rows that were deleted before the transaction with the id `$1`.
///
/// Counted are the snapshots of this database, standbys that report the rows they need, and transactions that
/// write, in any database, because every new snapshot of this one begins before them.
const COUNT_OLDER_TRANSACTIONS: &str = "
    select count(*) from (
        select backend_xmin as oldest from pg_stat_activity
        where pid <> pg_backend_pid() and (datname is null or datname = current_database())
        union all select backend_xid from pg_stat_activity where pid <> pg_backend_pid()
        union all select transaction from pg_prepared_xacts
        union all select xmin from pg_replication_slots
    ) held where age(oldest) > age(cast(cast($1 as text) as xid))";

/// Maximum bytes of one notification, with a margin below the server's limit of 8000.
const NOTICE_BYTES_MAX: usize = 7000;

/// Splits a notification text at spaces into parts that fit one notification each.
fn split_notice(notice: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for word in notice.split_whitespace() {
        if let Some(last) = parts.last_mut().filter(|last| last.len() + word.len() < NOTICE_BYTES_MAX) {
            last.push_str(word);
            last.push(' ');
        } else {
            parts.push(format!("{word} "));
        }
    }
    parts
}

/// Returns the URL of the test server. Without a server, tests are skipped with a message, and fail in CI.
#[cfg(test)]
pub(super) fn server_for_tests() -> Option<String> {
    let server = std::env::var("SVC_TEST_POSTGRES").ok();
    let in_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(server.is_some() || !in_ci, "CI must test Postgres: set SVC_TEST_POSTGRES");
    if server.is_none() {
        eprintln!("SKIPPED Postgres: SVC_TEST_POSTGRES is not set");
    }
    server
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rewrite_without_permission_is_an_error() {
        let Some(server) = server_for_tests() else { return };
        let conn = PgConn::open(&parse_url(&server.into()).unwrap()).unwrap();
        let name = format!("rewrite_{}", Uuid::now_v7().simple());
        conn.batch(&format!("create table {name} (n bigint); create role {name}")).unwrap();
        assert!(conn.rewrite_table(&name).unwrap());
        conn.batch(&format!("set role {name}")).unwrap();
        let rejected = conn.rewrite_table(&name);
        conn.batch(&format!("reset role; drop table {name}; drop role {name}")).unwrap();
        assert!(rejected.is_err(), "{rejected:?}");
    }

    #[test]
    fn notices_are_split_between_words() {
        assert_eq!(split_notice("a:1 b:2 "), ["a:1 b:2 "]);
        let words: Vec<String> = (0..1000).map(|n| format!("{}:{n}", Uuid::from_u128(n))).collect();
        let parts = split_notice(&words.join(" "));
        assert!(parts.len() > 1 && parts.iter().all(|part| part.len() <= NOTICE_BYTES_MAX));
        let split: Vec<&str> = parts.iter().flat_map(|part| part.split_whitespace()).collect();
        assert_eq!(split, words);
    }
}
