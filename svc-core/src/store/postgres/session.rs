//! Sessions with a Postgres server, and the pool that opens, checks, keeps and limits them.
//!
//! A session is one network connection to the server. It has a single-threaded runtime, driven by the thread
//! that has taken the session. The pool has no queue: if all sessions are taken, taking another one fails.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{self, Metrics, PoolError, QueueMode, RecycleError, RecycleResult};
use deadpool_postgres::{ClientWrapper, Manager};
use futures_util::FutureExt as _;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use tokio_postgres::types::Type;
use tokio_postgres::{SimpleQueryMessage, Statement};

use super::errors::{PgFailure, PgResult, unreachable_error};
use super::settings::Server;
use crate::error::{Error, Result};
use crate::limits::{POSTGRES_REPLY_GRACE, ROW_BYTES};

/// How much of a statement's result to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ResultForm {
    /// All rows of the result.
    Whole,
    /// The first rows, until their total weight reaches the limit in an additional parameter.
    Bounded,
}

/// A pool of sessions with one server.
pub(crate) type Pool = managed::Pool<SessionManager>;

/// A session taken from a pool, to which it returns when this value is dropped.
pub(super) type PooledSession = managed::Object<SessionManager>;

/// Opens the sessions of a pool, and checks each session before it is taken again.
pub(crate) struct SessionManager {
    server: Server,
    driver: Manager,
}

/// Creates a pool of up to `size` sessions. The session that was returned last is taken first.
pub(crate) fn create_pool(server: &Server, size: usize) -> Result<Pool> {
    let sessions = SessionManager { server: server.clone(), driver: server.connection_manager() };
    Pool::builder(sessions).max_size(size).queue_mode(QueueMode::Lifo).build().map_err(Error::internal)
}

/// Takes a live session from a pool. If no session is idle, the pool opens one; fails if all are taken.
pub(super) fn take_session(pool: &Pool) -> Result<PooledSession> {
    // A new session is opened on its own runtime, so the pool waits for nothing else.
    match pool.get().now_or_never() {
        Some(Ok(session)) => Ok(session),
        Some(Err(PoolError::Backend(error))) => Err(error),
        Some(Err(error)) => Err(unreachable_error(error)),
        None => Err(unreachable_error("all sessions of the pool are taken")),
    }
}

impl managed::Manager for SessionManager {
    type Type = Box<Session>;
    type Error = Error;

    async fn create(&self) -> Result<Box<Session>> {
        Session::open(self).map(Box::new)
    }

    /// Lets the driver handle messages that the server has sent to the idle session, such as the session's
    /// end.
    ///
    /// Sends nothing.
    async fn recycle(&self, session: &mut Box<Session>, metrics: &Metrics) -> RecycleResult<Error> {
        // The first yield notices the bytes that have arrived, and the second lets the driver read them.
        let read = async {
            yield_now().await;
            yield_now().await;
        };
        session.runtime.block_on(read).map_err(RecycleError::Backend)?;
        let unsent = || RecycleError::message("a statement is still to be sent");
        let client = Arc::get_mut(&mut session.client).ok_or_else(unsent)?;
        self.driver.recycle(client, metrics).await.map_err(|error| RecycleError::message(error.to_string()))
    }

    fn detach(&self, session: &mut Box<Session>) {
        if let Some(client) = Arc::get_mut(&mut session.client) {
            self.driver.detach(client);
        }
    }
}

/// The single-threaded runtime of a session.
///
/// The last handle of a service may be dropped inside another runtime, where blocking is not allowed, so this
/// runtime shuts down in the background.
struct SessionRuntime(Option<Runtime>);

impl SessionRuntime {
    fn new() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(Error::internal)?;
        Ok(Self(Some(runtime)))
    }

    fn block_on<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let dropped = || Error::internal("the session is being dropped");
        Ok(self.0.as_ref().ok_or_else(dropped)?.block_on(work))
    }
}

impl Drop for SessionRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A session with a server. Dropping it closes the socket immediately.
pub(crate) struct Session {
    pub(super) client: Arc<ClientWrapper>,
    /// Timeout of a reply, a little longer than the server's own time limit for a statement.
    ///
    /// `None` if the server has no such limit.
    pub(super) reply_timeout: Option<Duration>,
    statements: RefCell<HashMap<(ResultForm, usize, usize), Statement>>,
    runtime: SessionRuntime,
}

impl Session {
    /// Opens a session within the time limit for connecting.
    fn open(sessions: &SessionManager) -> Result<Self> {
        let runtime = SessionRuntime::new()?;
        let (client, reply_timeout) = runtime.block_on(async {
            let opening = tokio::time::timeout(sessions.server.open_timeout(), Self::connect(sessions));
            opening.await.map_err(unreachable_error)?
        })??;
        Ok(Self { client: Arc::new(client), reply_timeout, statements: RefCell::default(), runtime })
    }

    async fn connect(sessions: &SessionManager) -> Result<(ClientWrapper, Option<Duration>)> {
        let client = managed::Manager::create(&sessions.driver).await.map_err(unreachable_error)?;
        if let Some(statement) = sessions.server.session_setup_statement() {
            client.batch_execute(statement).await.map_err(unreachable_error)?;
        }
        let limit = statement_timeout(&client).await?;
        Ok((client, limit.map(|limit| limit.saturating_add(POSTGRES_REPLY_GRACE))))
    }

    /// Drives `work` to completion, or until `limit` has passed.
    pub(super) fn wait<T>(
        &self,
        timeout: Option<Duration>,
        work: impl Future<Output = PgResult<T>>,
    ) -> PgResult<T> {
        let work = async {
            match timeout {
                Some(timeout) => {
                    tokio::time::timeout(timeout, work).await.unwrap_or_else(|_| Err(PgFailure::timed_out()))
                }
                None => work.await,
            }
        };
        self.runtime.block_on(work).map_err(PgFailure::from_defect)?
    }

    /// Prepares a statement, and caches it by the address and length of its text.
    pub(super) async fn prepare(&self, form: ResultForm, sql: &'static str) -> PgResult<Statement> {
        match form {
            ResultForm::Whole => self.prepare_text(form, sql, sql).await,
            ResultForm::Bounded => {
                let whole = match self.cached_statement(ResultForm::Whole, sql) {
                    Some(whole) => whole,
                    None => self.prepare_text(ResultForm::Whole, sql, sql).await?,
                };
                self.prepare_text(form, sql, &with_weight_limit(sql, &whole)).await
            }
        }
    }

    /// Returns a statement that was prepared earlier.
    pub(super) fn cached_statement(&self, form: ResultForm, sql: &'static str) -> Option<Statement> {
        self.statements.borrow().get(&statement_key(form, sql)).cloned()
    }

    async fn prepare_text(&self, form: ResultForm, sql: &'static str, text: &str) -> PgResult<Statement> {
        let statement =
            self.client.prepare(text).await.map_err(|error| PgFailure::from_driver(error, text))?;
        self.statements.borrow_mut().insert(statement_key(form, sql), statement.clone());
        Ok(statement)
    }
}

fn statement_key(form: ResultForm, sql: &'static str) -> (ResultForm, usize, usize) {
    (form, sql.as_ptr().addr(), sql.len())
}

/// Wraps the statement `sql` so that the server limits its rows by weight.
///
/// The limit is an additional last parameter. Rows after those that reach this weight are omitted. The server
/// knows the length of a text without reading it, so an omitted row only costs finding it.
fn with_weight_limit(sql: &str, whole: &Statement) -> String {
    let names: Vec<String> = (0..whole.columns().len()).map(|place| format!("c{place}")).collect();
    let long = whole.columns().iter().zip(&names).filter(|(column, _)| has_variable_size(column.type_()));
    let bytes: String = long.map(|(_, name)| format!(" + coalesce(octet_length({name}), 0)")).collect();
    let names = names.join(", ");
    let last = whole.params().len() + 1;
    format!(
        "select {names} from (
             select *,
                 sum({ROW_BYTES}{bytes}) over (rows between unbounded preceding and 1 preceding) as before
             from ({sql}) as found ({names})
         ) as weighed where coalesce(before, 0) < cast(${last} as bigint)"
    )
}

/// Returns whether the values of a column type have no fixed size.
fn has_variable_size(kind: &Type) -> bool {
    matches!(kind, &(Type::TEXT | Type::VARCHAR | Type::BYTEA))
}

/// Returns the session's statement timeout, which the database URL may set. Returns `None` if it is disabled.
async fn statement_timeout(client: &ClientWrapper) -> Result<Option<Duration>> {
    let reply = client.simple_query(STATEMENT_TIMEOUT_MS).await.map_err(unreachable_error)?;
    let millis = first_text(&reply).and_then(|text| text.parse().ok());
    let millis: u64 =
        millis.ok_or_else(|| Error::internal("the server does not report its statement_timeout"))?;
    Ok((millis > 0).then(|| Duration::from_millis(millis)))
}

const STATEMENT_TIMEOUT_MS: &str = "select setting from pg_settings where name = 'statement_timeout'";

/// Returns the first column of the first row of a result.
pub(super) fn first_text(reply: &[SimpleQueryMessage]) -> Option<&str> {
    reply.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::super::{PgConn, Server, first_value, parse_url, server_for_tests};
    use super::*;
    use crate::error::Code;
    use crate::store::budget::ReadInterrupt;
    use crate::store::engine::TransactionFailure;

    const READ: &str = "begin isolation level repeatable read read only";

    fn server() -> Option<Server> {
        server_for_tests().map(|url| parse_url(&SecretString::from(url)).unwrap())
    }

    /// Returns the id of the server process for a connection.
    fn process(conn: &PgConn) -> Result<i64> {
        first_value(conn.query("select cast(pg_backend_pid() as bigint)", &[])?)
    }

    /// Ends a process of the server, and returns once it is gone.
    fn end(server: &Server, process: i64) {
        let other = PgConn::open(server).unwrap();
        other.batch(&format!("select pg_terminate_backend({process}, 60000)")).unwrap();
    }

    #[test]
    fn each_transaction_has_a_session_of_its_own_and_waits_for_none() {
        let Some(server) = server() else { return };
        let pool = create_pool(&server, 2).unwrap();
        let [one, two, three] = [(); 3].map(|()| PgConn::from_pool(&pool).unwrap());
        one.begin(READ).unwrap();
        two.begin("begin").unwrap();
        let first = process(&one).unwrap();
        let second = process(&two).unwrap();
        assert_ne!(first, second);
        assert_eq!(three.begin(READ).unwrap_err().code(), Code::Unavailable);
        one.rollback().unwrap();
        three.begin(READ).unwrap();
        assert_eq!(process(&three).unwrap(), first);
        two.commit(&Default::default()).unwrap();
        one.begin(READ).unwrap();
        assert_eq!(process(&one).unwrap(), second);
        // A connection that is dropped within its transaction does not return its session.
        drop(one);
        two.begin("begin").unwrap();
        assert!(![first, second].contains(&process(&two).unwrap()));
    }

    #[test]
    fn the_limit_of_reads_ends_with_their_transaction() {
        let Some(server) = server() else { return };
        let pool = create_pool(&server, 1).unwrap();
        let limited = PgConn::from_pool(&pool).unwrap();
        let limited = limited.for_reads(&ReadInterrupt::default(), Some(Duration::from_millis(99)));
        let other = PgConn::from_pool(&pool).unwrap();
        let timeout = |conn: &PgConn| {
            conn.begin(READ).unwrap();
            let rows = conn.query("select current_setting('statement_timeout')", &[]).unwrap();
            conn.rollback().unwrap();
            first_value::<String>(rows).unwrap()
        };
        assert_eq!([timeout(&limited), timeout(&other)], ["100ms", "30s"]);
    }

    #[test]
    fn a_session_that_has_ended_while_idle_is_never_taken() {
        let Some(server) = server() else { return };
        let pool = create_pool(&server, 3).unwrap();
        let conns = [(); 3].map(|()| PgConn::from_pool(&pool).unwrap());
        let begin = || {
            conns.each_ref().map(|conn| {
                conn.begin(READ).unwrap();
                process(conn).unwrap()
            })
        };
        let before = begin();
        conns.iter().for_each(|conn| conn.rollback().unwrap());
        before.iter().for_each(|process| end(&server, *process));
        assert_eq!(pool.status().size, 3);
        assert!(begin().iter().all(|process| !before.contains(process)));
        assert_eq!(pool.status().size, 3);
    }

    #[test]
    fn an_idle_session_never_replaces_one_that_a_transaction_has_lost() {
        let Some(server) = server() else { return };
        let pool = create_pool(&server, 3).unwrap();
        let [conn, other] = [(); 2].map(|()| PgConn::from_pool(&pool).unwrap());
        conn.begin("begin").unwrap();
        let lost = process(&conn).unwrap();
        process(&other).unwrap();
        other.rollback().unwrap();
        end(&server, lost);
        assert_eq!(process(&conn).unwrap_err().code(), Code::Unavailable);
        assert_eq!(conn.failure(), Some(TransactionFailure::Broken));
        assert!(process(&conn).is_err() && conn.batch("select 1").is_err() && conn.flush().is_err());
        assert!(conn.commit(&Default::default()).is_err());
        let status = pool.status();
        assert_eq!((status.size, status.available), (1, 1), "the idle one is where it was");
        conn.rollback().unwrap();
        conn.begin("begin").unwrap();
        assert_ne!(process(&conn).unwrap(), lost);
        assert_eq!(pool.status().size, 1, "it was taken");
    }
}
