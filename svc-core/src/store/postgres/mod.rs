//! A PostgreSQL connection with its own single-threaded runtime.
//!
//! A core thread can thus drive it without handing the work to another thread. Changes whose reply nobody
//! waits for are deferred and sent together with the next statement that is waited for. A transaction is one
//! session, from begin to commit or rollback: inside, a session that has ended is a failure and never
//! replaced. Only outside of a transaction is a new one opened. Every reply has a timeout a little longer
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

use futures_util::future::{Either, join, join_all, select};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use super::budget::Budget;
use super::engine::Failure;
use super::row::{Row, Visitor};

use super::scan::{FETCHED, Scan};
use super::transaction::{Transaction, outcome_unknown};
use super::value::{FromValue, Param};
use super::watch::Watcher;
use crate::error::{Error, Result};
use crate::time::Clock;
use errors::{Failed, PgResult, broken};
pub(crate) use listen::listen;
use reads::Reads;
use session::{Form, Session, first_text};
pub(crate) use settings::{Server, parse_url};
use values::decode;

type Deferred = Pin<Box<dyn Future<Output = PgResult<()>> + Send>>;

/// A connection to a PostgreSQL server.
pub struct PgConn {
    runtime: OwnRuntime,
    server: Box<Server>,
    session: RefCell<Option<Session>>,
    transaction: Transaction,
    deferred: RefCell<Vec<Deferred>>,
    wrote: Cell<bool>,
    /// Whether the session is one that [`Self::others_wrote`] has not seen.
    is_new: Cell<bool>,
    budget: Budget,
    /// What limits its reads; `None` if it does not only read.
    reads: Option<Reads>,
    watcher: Option<Watcher>,
}

/// The connection's runtime.
///
/// The last handle of a service may be dropped inside another runtime, where blocking until this one has shut
/// down is not allowed, so it shuts down in the background.
struct OwnRuntime(Option<Runtime>);

impl OwnRuntime {
    fn new() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(Error::internal)?;
        Ok(Self(Some(runtime)))
    }

    /// Drives `work` to completion, or until `limit` has passed.
    fn wait<T>(&self, limit: Option<Duration>, work: impl Future<Output = PgResult<T>>) -> PgResult<T> {
        let dropped = || Failed::defect(Error::internal("the connection is being dropped"));
        let runtime = self.0.as_ref().ok_or_else(dropped)?;
        runtime.block_on(async {
            match limit {
                Some(limit) => {
                    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(Failed::silent()))
                }
                None => work.await,
            }
        })
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl PgConn {
    pub(crate) fn open(server: &Server) -> Result<Self> {
        let conn = Self {
            runtime: OwnRuntime::new()?,
            server: Box::new(server.clone()),
            session: RefCell::default(),
            transaction: Transaction::new(Failure::Broken)?,
            deferred: RefCell::default(),
            wrote: Cell::new(false),
            is_new: Cell::new(false),
            budget: Budget::new(&Clock::system()),
            reads: None,
            watcher: None,
        };
        conn.client()?;
        Ok(conn)
    }

    /// Returns the client of the transaction's session.
    ///
    /// Outside of a transaction it is that of a live session, opened if there is none.
    fn client(&self) -> Result<Arc<Client>> {
        self.check_transaction()?;
        match self.live_client() {
            Some(client) => Ok(client),
            None if self.transaction.is_begun() => Err(broken("the session of the transaction has ended")),
            None => self.connect(),
        }
    }

    fn live_client(&self) -> Option<Arc<Client>> {
        let session = self.session.borrow();
        session.as_ref().filter(|session| !session.is_closed()).map(|session| Arc::clone(&session.client))
    }

    /// Returns whether there is a session, as far as is known without asking the server.
    pub fn is_connected(&self) -> bool {
        self.live_client().is_some()
    }

    fn connect(&self) -> Result<Arc<Client>> {
        // What was deferred for the last session must not reach another.
        self.deferred.take();
        self.session.take();
        let opening = async { Session::open(&self.server).await.map_err(Failed::unopened) };
        let session = self.runtime.wait(None, opening).map_err(|failed| failed.error)?;
        let client = Arc::clone(&session.client);
        self.session.replace(Some(session));
        self.is_new.set(true);
        if let Err(error) = self.limit_session(&client) {
            self.session.take();
            return Err(error);
        }
        Ok(client)
    }

    /// Returns whether the session is another one than at the last call.
    ///
    /// It may be at another server then, which has other rows and another clock.
    pub fn others_wrote(&self) -> bool {
        self.is_new.take()
    }

    /// Waits for the server, and records what a failure means for the session and the transaction.
    fn wait<T>(&self, work: impl Future<Output = PgResult<T>>) -> Result<T> {
        let limit = self.session.borrow().as_ref().and_then(|session| session.limit);
        self.wait_within(limit, work)
    }

    fn wait_within<T>(&self, limit: Option<Duration>, work: impl Future<Output = PgResult<T>>) -> Result<T> {
        let outcome = self.unless_interrupted(limit, work);
        outcome.map_err(|failed| {
            self.record(failed.failure);
            self.explained(failed)
        })
    }

    fn record(&self, failure: Failure) {
        if matches!(failure, Failure::Broken | Failure::Silent) {
            self.session.take();
        }
        self.transaction.fail(failure);
    }

    /// Fails if a transaction was begun and cannot continue. Sends nothing to the server.
    pub fn check_transaction(&self) -> Result<()> {
        self.transaction.check(|| self.live_client().is_some())
    }

    /// Returns why the transaction that was begun cannot continue, if it cannot.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.transaction.failure(|| self.live_client().is_some())
    }

    /// Waits for a future, after all deferred statements.
    fn after_deferred<T>(&self, last: impl Future<Output = PgResult<T>>) -> Result<T> {
        let deferred = self.deferred.take();
        self.wait(async {
            let (done, result) = join(join_all(deferred), last).await;
            done.into_iter().collect::<PgResult<Vec<()>>>()?;
            result
        })
    }

    pub fn query(&self, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        self.fetch(Form::Whole, sql, params)?.iter().map(decode).collect()
    }

    /// Runs a statement whose rows the server bounds: it sends none after those that weigh `bytes`.
    pub(crate) fn query_within(
        &self,
        bytes: usize,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>> {
        self.fetch_within(bytes, sql, params)?.iter().map(decode).collect()
    }

    pub(crate) fn visit(&self, sql: &'static str, params: &[Param<'_>], each: Visitor<'_>) -> Result<()> {
        visit(&self.fetch(Form::Whole, sql, params)?, each)
    }

    /// Visits the rows of a statement, which the server bounds as in [`Self::query_within`].
    pub(crate) fn visit_within(
        &self,
        bytes: usize,
        sql: &'static str,
        params: &[Param<'_>],
        each: Visitor<'_>,
    ) -> Result<()> {
        visit(&self.fetch_within(bytes, sql, params)?, each)
    }

    /// Visits the rows of a cursor, some of which are fetched at a time.
    pub(crate) fn scan(&self, scan: &Scan, params: &[Param<'_>], each: Visitor<'_>) -> Result<()> {
        self.fetch(Form::Whole, scan.declare, params)?;
        loop {
            let rows = self.fetch(Form::Whole, scan.fetch, &[])?;
            let is_last = rows.len() < FETCHED;
            if rows.iter().any(|row| each(row).is_break()) || is_last {
                break;
            }
        }
        self.fetch(Form::Whole, scan.close, &[]).map(drop)
    }

    fn fetch_within(
        &self,
        bytes: usize,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Vec<tokio_postgres::Row>> {
        let bytes = Param::Int(i64::try_from(bytes).unwrap_or(i64::MAX));
        let params: Vec<Param<'_>> = params.iter().copied().chain([bytes]).collect();
        self.fetch(Form::Bounded, sql, &params)
    }

    fn fetch(&self, form: Form, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<tokio_postgres::Row>> {
        self.watch_query(form, sql, params)?;
        let (client, statement) = self.prepared_as(form, sql)?;
        self.limit_next(&client)?;
        let bound: Vec<&(dyn ToSql + Sync)> =
            params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
        self.after_deferred(async {
            client.query(&statement, &bound).await.map_err(|error| Failed::of(error, sql))
        })
    }

    pub fn execute(&self, sql: &'static str, params: &[Param<'_>]) -> Result<u64> {
        self.wrote.set(true);
        self.watch_query(Form::Whole, sql, params)?;
        let (client, statement) = self.prepared(sql)?;
        let bound: Vec<&(dyn ToSql + Sync)> =
            params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
        self.after_deferred(async {
            client.execute(&statement, &bound).await.map_err(|error| Failed::of(error, sql))
        })
    }

    /// Waits for all deferred statements.
    pub fn flush(&self) -> Result<()> {
        self.check_transaction()?;
        self.after_deferred(async { Ok(()) })
    }

    /// Begins a transaction, together with its first statement.
    pub fn begin(&self, sql: &'static str) -> Result<()> {
        let client = self.client()?;
        self.begin_reads();
        let named = format!("{sql}; set local svc.transaction = '{}'", self.transaction.begin());
        self.deferred.borrow_mut().push(Box::pin(async move {
            client.batch_execute(&named).await.map_err(|error| Failed::of(error, sql))
        }));
        Ok(())
    }

    /// Runs statements at once, outside of any job.
    pub fn batch(&self, sql: &str) -> Result<()> {
        let client = self.client()?;
        // The reply to the transaction's begin comes first: nothing of this may run outside of it.
        self.flush()?;
        self.wait(async { client.batch_execute(sql).await.map_err(|error| Failed::of(error, sql)) })
    }

    /// Returns the current position in the order of transactions.
    pub fn horizon(&self) -> Result<String> {
        first(self.query(NOW, &[])?)
    }

    /// Returns whether every transaction that was in progress at `horizon` has ended.
    ///
    /// What one of them may still see cannot be removed. Sessions that the role may not inspect are assumed
    /// to have ended.
    pub fn has_passed(&self, horizon: &str) -> Result<bool> {
        Ok(first::<i64>(self.query(OLDER, &[Param::Text(horizon)])?)? == 0)
    }

    /// Commits and, in the same round trip, notifies other servers how far the logs reach.
    ///
    /// The server reports success for a COMMIT outside of a transaction too. What counts is therefore that
    /// the transaction which ends in this round trip is the one that was begun.
    pub fn commit(&self, lsns: &BTreeMap<Uuid, i64>) -> Result<()> {
        self.flush()?;
        self.watch_commit();
        let (client, notify) = self.prepared("select pg_notify('svc_log', $1)")?;
        self.check_transaction()?;
        let notice: String = lsns.iter().map(|(workspace, lsn)| format!("{workspace}:{lsn} ")).collect();
        let parts = if notice.is_empty() { Vec::new() } else { notices(&notice) };
        let replies = self.committing(async {
            // A lost notification is made up for by the reconcile poll, so neither its outcome nor its time
            // matters.
            let notified = join_all(parts.iter().map(|part| client.execute_raw(&notify, [part])));
            let committed = std::pin::pin!(client.simple_query(COMMIT));
            let outcome = match select(committed, notified).await {
                Either::Left((outcome, _)) => outcome,
                Either::Right((_, committed)) => committed.await,
            };
            outcome.map_err(Failed::of_commit)
        })?;
        self.transaction.committed(first_text(&replies))
    }

    /// Waits for a commit. One that gets no reply in time may still take effect.
    fn committing<T>(&self, work: impl Future<Output = PgResult<T>>) -> Result<T> {
        let answered = Cell::new(false);
        let result = self.wait(async {
            let outcome = work.await;
            answered.set(true);
            outcome
        });
        if answered.get() { result } else { result.map_err(outcome_unknown) }
    }

    /// Ends the transaction without any effect.
    ///
    /// If the rollback fails the session is closed, which has the same effect.
    pub fn rollback(&self) -> Result<()> {
        self.deferred.take();
        self.wrote.set(false);
        let begun = self.transaction.end();
        let Some(client) = self.live_client().filter(|_| begun) else { return Ok(()) };
        let rolled_back = self.wait(async {
            client.batch_execute("rollback").await.map_err(|error| Failed::of(error, "rollback"))
        });
        if let Err(error) = rolled_back {
            tracing::info!(%error, cause = ?error.cause(), "a session was closed instead of rolled back");
            self.session.take();
        }
        Ok(())
    }

    fn prepared(&self, sql: &'static str) -> Result<(Arc<Client>, Statement)> {
        self.prepared_as(Form::Whole, sql)
    }

    fn prepared_as(&self, form: Form, sql: &'static str) -> Result<(Arc<Client>, Statement)> {
        let client = self.client()?;
        let prepared = {
            let session = self.session.borrow();
            let session = session.as_ref().ok_or_else(|| broken("the session has ended"))?;
            match session.prepared(form, sql) {
                Some(statement) => Ok(statement),
                None => self.runtime.wait(session.limit, session.prepare(form, sql)),
            }
        };
        let statement = prepared.map_err(|failed| {
            self.record(failed.failure);
            failed.error
        })?;
        Ok((client, statement))
    }

    pub fn begin_job(&self) {
        self.wrote.set(false);
    }

    pub fn job_wrote(&self) -> bool {
        self.wrote.get()
    }
}

/// Commits, and returns the name of the transaction that it ends.
const COMMIT: &str = "select current_setting('svc.transaction', true); commit";

fn visit(rows: &[tokio_postgres::Row], each: Visitor<'_>) -> Result<()> {
    // A visitor that breaks has seen enough.
    let _ = rows.iter().try_for_each(|row| each(row));
    Ok(())
}

fn first<T: FromValue>(mut rows: Vec<Row>) -> Result<T> {
    let row = rows.first_mut().ok_or_else(|| Error::internal("a statement returned no row"))?;
    row.take()
}

const NOW: &str = "select cast(cast(pg_current_xact_id() as xid) as text)";

/// Counts what keeps rows deleted before a given transaction from being removed.
///
/// These are the snapshots of this database, standbys that report what they need, and transactions that
/// write, in any database, because every new snapshot of this one begins before them.
const OLDER: &str = "
    select count(*) from (
        select backend_xmin as oldest from pg_stat_activity
        where pid <> pg_backend_pid() and (datname is null or datname = current_database())
        union all select backend_xid from pg_stat_activity where pid <> pg_backend_pid()
        union all select transaction from pg_prepared_xacts
        union all select xmin from pg_replication_slots
    ) held where age(oldest) > age(cast(cast($1 as text) as xid))";

/// Most bytes in one notification, with a margin below the server's limit of 8000.
const NOTICE_BYTES: usize = 7000;

/// Splits a notice at spaces into parts that fit a notification.
fn notices(notice: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for word in notice.split_whitespace() {
        if let Some(last) = parts.last_mut().filter(|last| last.len() + word.len() < NOTICE_BYTES) {
            last.push_str(word);
            last.push(' ');
        } else {
            parts.push(format!("{word} "));
        }
    }
    parts
}

/// Returns the server for tests. Without one they are skipped with a message, and fail in CI.
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
        assert!(conn.rewrite(&name).unwrap());
        conn.batch(&format!("set role {name}")).unwrap();
        let rejected = conn.rewrite(&name);
        conn.batch(&format!("reset role; drop table {name}; drop role {name}")).unwrap();
        assert!(rejected.is_err(), "{rejected:?}");
    }

    #[test]
    fn notices_are_split_between_words() {
        assert_eq!(notices("a:1 b:2 "), ["a:1 b:2 "]);
        let words: Vec<String> = (0..1000).map(|n| format!("{}:{n}", Uuid::from_u128(n))).collect();
        let parts = notices(&words.join(" "));
        assert!(parts.len() > 1 && parts.iter().all(|part| part.len() <= NOTICE_BYTES));
        let split: Vec<&str> = parts.iter().flat_map(|part| part.split_whitespace()).collect();
        assert_eq!(split, words);
    }
}
