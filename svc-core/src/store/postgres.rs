//! A PostgreSQL connection with its own single-threaded runtime, so that a core thread can drive it without
//! handing the work to another thread. Changes whose answer nobody waits for are collected and travel together
//! with the next statement that is waited for.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime as PoolRuntime};
use futures_util::StreamExt as _;
use futures_util::future::{join, join_all};
use secrecy::{ExposeSecret, SecretString};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, Kind, ToSql, Type, to_sql_checked};
use tokio_postgres::{AsyncMessage, Config, NoTls, Statement};
use uuid::Uuid;

use super::conn::check_rows;
use super::row::{Columns, Row, Visitor};
use super::value::{FromValue, Param, ToParam as _, Value};
use crate::error::{Code, Error, Result};
use crate::limits::{
    ACQUIRE_TIMEOUT, BUS_RECONCILE, IDLE_IN_TRANSACTION_TIMEOUT, LOCK_TIMEOUT, STATEMENT_TIMEOUT,
};
use crate::log::bus::Bus;
use crate::time::Clock;

type Deferred = Pin<Box<dyn Future<Output = Result<()>> + Send>>;

/// A connection to a PostgreSQL server. It is made anew after it broke.
pub struct PgConn {
    runtime: OwnRuntime,
    pool: Pool,
    client: RefCell<Option<Arc<Object>>>,
    deferred: RefCell<Vec<Deferred>>,
    wrote: Cell<bool>,
    /// A statement failed: the server refuses everything until the transaction has ended.
    lost: Cell<bool>,
}

/// The connection's runtime. The last handle of a service may be dropped inside another runtime, where waiting
/// for this one to end is not allowed, so it is left to end by itself.
struct OwnRuntime(Option<Runtime>);

impl OwnRuntime {
    fn new() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(Error::internal)?;
        Ok(Self(Some(runtime)))
    }

    fn block_on<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let runtime = self.0.as_ref().ok_or_else(|| Error::internal("the connection is being dropped"))?;
        runtime.block_on(work)
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Reads the settings of a server from a `postgres://` address.
pub(crate) fn parse_url(url: &SecretString) -> Result<Config> {
    let mut config: Config = url.expose_secret().parse().map_err(|error: tokio_postgres::Error| {
        Error::malformed(
            "DATABASE_URL is not an address of the form postgres://user:password@host:port/database",
        )
        .caused_by(error)
    })?;
    // A plan that was made and kept while a table was empty would scan it for ever: every statement of the
    // service has an index to go by, and must not be talked out of it by statistics.
    let options = format!(
        "-c synchronous_commit=on -c statement_timeout={} -c lock_timeout={} \
         -c idle_in_transaction_session_timeout={} -c jit=off -c enable_seqscan=off",
        STATEMENT_TIMEOUT.as_millis(),
        LOCK_TIMEOUT.as_millis(),
        IDLE_IN_TRANSACTION_TIMEOUT.as_millis(),
    );
    let options = match config.get_options() {
        Some(given) => format!("{options} {given}"),
        None => options,
    };
    config.options(options).application_name("svc");
    Ok(config)
}

/// The same server, with sessions that can change nothing.
pub(crate) fn read_only(config: &Config) -> Config {
    let mut config = config.clone();
    let options = format!("{} -c default_transaction_read_only=on", config.get_options().unwrap_or_default());
    config.options(options);
    config
}

/// The same server, with sessions whose statements may take as long as they take.
pub(crate) fn unhurried(config: &Config) -> Config {
    let mut config = config.clone();
    let options = format!(
        "{} -c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0",
        config.get_options().unwrap_or_default()
    );
    config.options(options);
    config
}

impl PgConn {
    pub fn open(config: &Config) -> Result<Self> {
        let runtime = OwnRuntime::new()?;
        let recycle = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(config.clone(), NoTls, recycle);
        let pool = Pool::builder(manager)
            .max_size(1)
            .runtime(PoolRuntime::Tokio1)
            .create_timeout(Some(ACQUIRE_TIMEOUT))
            .wait_timeout(Some(ACQUIRE_TIMEOUT))
            .build()
            .map_err(Error::internal)?;
        let conn = Self {
            runtime,
            pool,
            client: RefCell::default(),
            deferred: RefCell::default(),
            wrote: Cell::new(false),
            lost: Cell::new(false),
        };
        conn.client()?;
        Ok(conn)
    }

    /// The live connection, made anew if the last one broke.
    fn client(&self) -> Result<Arc<Object>> {
        let mut slot = self.client.borrow_mut();
        if let Some(client) = slot.as_ref().filter(|client| !client.is_closed()) {
            return Ok(Arc::clone(client));
        }
        *slot = None;
        let object = self.runtime.block_on(async {
            self.pool.get().await.map_err(|error| {
                Error::new(Code::Unavailable, "the database cannot be reached; try again").caused_by(error)
            })
        })?;
        let client = Arc::new(object);
        *slot = Some(Arc::clone(&client));
        Ok(client)
    }

    fn prepare(&self, client: &Object, sql: &'static str) -> Result<Statement> {
        let prepared = self
            .runtime
            .block_on(async { client.prepare_cached(sql).await.map_err(|error| failed_in(error, sql)) });
        self.lost.set(self.lost.get() || prepared.is_err());
        prepared
    }

    /// Waits for a future, after everything that was deferred.
    fn after_deferred<T>(&self, last: impl Future<Output = Result<T>>) -> Result<T> {
        let deferred = self.deferred.take();
        let result = self.runtime.block_on(async {
            let (done, result) = join(join_all(deferred), last).await;
            done.into_iter().collect::<Result<Vec<()>>>()?;
            result
        });
        self.lost.set(self.lost.get() || result.is_err());
        result
    }

    pub fn query(&self, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<Row>> {
        self.fetch(sql, params)?.iter().map(decode).collect()
    }

    pub(crate) fn visit(&self, sql: &'static str, params: &[Param<'_>], each: Visitor<'_>) -> Result<()> {
        for row in &self.fetch(sql, params)? {
            if each(row).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn fetch(&self, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<tokio_postgres::Row>> {
        let client = self.client()?;
        let statement = self.prepare(&client, sql)?;
        let bound: Vec<&(dyn ToSql + Sync)> =
            params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
        self.after_deferred(async {
            client.query(&statement, &bound).await.map_err(|error| failed_in(error, sql))
        })
    }

    pub fn execute(&self, sql: &'static str, params: &[Param<'_>]) -> Result<u64> {
        self.wrote.set(true);
        let client = self.client()?;
        let statement = self.prepare(&client, sql)?;
        let bound: Vec<&(dyn ToSql + Sync)> =
            params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
        self.after_deferred(async {
            client.execute(&statement, &bound).await.map_err(|error| failed_in(error, sql))
        })
    }

    pub fn defer(&self, rows: Option<u64>, sql: &'static str, params: &[Param<'_>]) -> Result<()> {
        let owned: Vec<Owned> = params.iter().map(Owned::of).collect();
        self.push(rows, sql, owned)
    }

    pub fn insert_many(&self, sql: &'static str, rows: &[Vec<Param<'_>>]) -> Result<()> {
        let width = rows.first().map_or(0, Vec::len);
        let column = |place: usize| rows.iter().filter_map(|row| row.get(place)).map(Owned::of).collect();
        let columns: Vec<Owned> = (0..width).map(|place| Owned::List(column(place))).collect();
        self.push(Some(rows.len() as u64), sql, columns)
    }

    fn push(&self, rows: Option<u64>, sql: &'static str, params: Vec<Owned>) -> Result<()> {
        self.wrote.set(true);
        let client = self.client()?;
        let statement = self.prepare(&client, sql)?;
        self.deferred.borrow_mut().push(Box::pin(async move {
            let bound = params.iter().map(|param| param as &(dyn ToSql + Sync));
            let bound: Vec<&(dyn ToSql + Sync)> = bound.collect();
            let touched = client.execute(&statement, &bound).await.map_err(|error| failed_in(error, sql))?;
            check_rows(rows, touched, sql)
        }));
        Ok(())
    }

    /// Waits for everything that was deferred.
    pub fn flush(&self) -> Result<()> {
        self.after_deferred(async { Ok(()) })
    }

    /// Begins a transaction together with the first statement in it.
    pub fn begin(&self, sql: &'static str) -> Result<()> {
        self.lost.set(false);
        let client = self.client()?;
        self.deferred
            .borrow_mut()
            .push(Box::pin(async move { client.batch_execute(sql).await.map_err(failed) }));
        Ok(())
    }

    /// Runs statements at once, outside of any job.
    pub fn batch(&self, sql: &str) -> Result<()> {
        let client = self.client()?;
        self.after_deferred(async { client.batch_execute(sql).await.map_err(failed) })
    }

    /// Waits for the end of every transaction that is under way now, for as long as `patience`. False if one goes on:
    /// what it may still see cannot be removed. Sessions that the role may not look at are taken for ended.
    pub fn outlast(&self, patience: Duration) -> Result<bool> {
        let deadline = Clock::System.deadline(patience);
        let now: String = first(self.query(NOW, &[])?)?;
        while first::<i64>(self.query(OLDER, &[Param::Text(&now)])?)? > 0 {
            if Clock::System.remaining(deadline).is_zero() {
                return Ok(false);
            }
            std::thread::park_timeout(OUTLAST_STEP);
        }
        Ok(true)
    }

    /// Commits and, in the same round trip, tells other servers how far the logs reach.
    pub fn commit(&self, reached: &BTreeMap<Uuid, i64>) -> Result<()> {
        let client = self.client()?;
        let notice: String = reached.iter().map(|(workspace, lsn)| format!("{workspace}:{lsn} ")).collect();
        let tell = self.prepare(&client, "select pg_notify('svc_log', $1)")?;
        self.runtime.block_on(async {
            let commit = client.batch_execute("commit");
            if notice.is_empty() {
                return commit.await.map_err(commit_failed);
            }
            // A lost notification is made good by the reconcile poll, so its failure is no failure.
            let parts = notices(&notice);
            let told = join_all(parts.iter().map(|part| client.execute_raw(&tell, [part])));
            join(commit, told).await.0.map_err(commit_failed)
        })
    }

    pub fn rollback(&self) -> Result<()> {
        self.deferred.take();
        self.wrote.set(false);
        let client = self.client.borrow().clone();
        match client.filter(|client| !client.is_closed()) {
            Some(client) => {
                self.runtime.block_on(async { client.batch_execute("rollback").await.map_err(failed) })
            }
            None => Ok(()),
        }
    }

    pub fn begin_job(&self) {
        self.wrote.set(false);
    }

    pub fn lost_transaction(&self) -> bool {
        self.lost.get()
    }

    pub fn job_wrote(&self) -> bool {
        self.wrote.get()
    }
}

fn first<T: FromValue>(mut rows: Vec<Row>) -> Result<T> {
    let row = rows.first_mut().ok_or_else(|| Error::internal("a statement answered no row"))?;
    row.take()
}

const NOW: &str = "select cast(cast(pg_current_xact_id() as xid) as text)";

/// How much there is that keeps what was deleted before a transaction from being removed: those who look at this
/// database, standbys that say what they need, and transactions that write, in any database, because every new look
/// at this one begins before them.
const OLDER: &str = "
    select count(*) from (
        select backend_xmin as oldest from pg_stat_activity
        where pid <> pg_backend_pid() and (datname is null or datname = current_database())
        union all select backend_xid from pg_stat_activity where pid <> pg_backend_pid()
        union all select transaction from pg_prepared_xacts
        union all select xmin from pg_replication_slots
    ) held where age(oldest) > age(cast(cast($1 as text) as xid))";

/// How often it is looked whether older transactions have ended.
const OUTLAST_STEP: Duration = Duration::from_millis(10);

/// How soon the listener notices that the service closes.
const CLOSING_POLL: Duration = Duration::from_millis(100);
/// What one notification can carry, with room to spare below the server's 8000 bytes.
const NOTICE_BYTES: usize = 7000;

/// Splits a notice at spaces into parts that a notification can carry.
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

/// A parameter that outlives the call, for deferred statements.
#[derive(Debug)]
enum Owned {
    One(Value),
    Ints(Vec<i64>),
    Uuids(Vec<Uuid>),
    List(Vec<Owned>),
}

impl Owned {
    fn of(param: &Param<'_>) -> Self {
        Self::One(match param {
            Param::Null => Value::Null,
            Param::Int(number) => Value::Int(*number),
            Param::Bool(truth) => Value::Bool(*truth),
            Param::Text(text) => Value::Text((*text).to_owned()),
            Param::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
            Param::Uuid(id) => Value::Uuid(*id),
            Param::Ints(numbers) => return Self::Ints(numbers.to_vec()),
            Param::Uuids(ids) => return Self::Uuids(ids.to_vec()),
        })
    }

    fn borrowed(&self) -> Option<Param<'_>> {
        Some(match self {
            Self::One(value) => value.param(),
            Self::Ints(numbers) => Param::Ints(numbers),
            Self::Uuids(ids) => Param::Uuids(ids),
            Self::List(_) => return None,
        })
    }
}

type EncodeResult = std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>>;

impl ToSql for Owned {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> EncodeResult {
        match (self, self.borrowed()) {
            (Self::List(items), _) => items.to_sql(ty, out),
            (_, Some(param)) => param.to_sql(ty, out),
            (_, None) => Ok(IsNull::Yes),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Encodes by the type that the server inferred for the parameter.
impl ToSql for Param<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> EncodeResult {
        match (self, ty) {
            (Param::Null, _) => Ok(IsNull::Yes),
            (Param::Int(number), &Type::INT8) => number.to_sql(ty, out),
            (Param::Int(number), &Type::INT4) => i32::try_from(*number)?.to_sql(ty, out),
            (Param::Int(number), &Type::INT2) => i16::try_from(*number)?.to_sql(ty, out),
            (Param::Bool(truth), &Type::BOOL) => truth.to_sql(ty, out),
            (Param::Text(text), _) if <&str as ToSql>::accepts(ty) => text.to_sql(ty, out),
            (Param::Bytes(bytes), &Type::BYTEA) => bytes.to_sql(ty, out),
            (Param::Uuid(id), &Type::UUID) => id.to_sql(ty, out),
            (Param::Ints(numbers), _) if matches!(ty.kind(), Kind::Array(_)) => numbers.to_sql(ty, out),
            (Param::Uuids(ids), _) if matches!(ty.kind(), Kind::Array(_)) => ids.to_sql(ty, out),
            (param, ty) => Err(format!("{param:?} does not fit a parameter of type {ty}").into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

fn decode(row: &tokio_postgres::Row) -> Result<Row> {
    let values = (0..row.len()).map(|place| row.column(place).map(Value::of_column));
    values.collect::<Result<_>>().map(Row::new)
}

impl Columns for tokio_postgres::Row {
    fn column(&self, place: usize) -> Result<Param<'_>> {
        let ty = self.columns().get(place).map(tokio_postgres::Column::type_);
        let found = match ty {
            Some(&Type::INT8) => self.try_get::<_, Option<i64>>(place).map(|found| found.map(Param::Int)),
            Some(&Type::INT4) => self
                .try_get::<_, Option<i32>>(place)
                .map(|found| found.map(|number| Param::Int(number.into()))),
            Some(&Type::INT2) => self
                .try_get::<_, Option<i16>>(place)
                .map(|found| found.map(|number| Param::Int(number.into()))),
            Some(&Type::BOOL) => self.try_get::<_, Option<bool>>(place).map(|found| found.map(Param::Bool)),
            Some(&(Type::TEXT | Type::VARCHAR | Type::NAME)) => {
                self.try_get::<_, Option<&str>>(place).map(|found| found.map(Param::Text))
            }
            Some(&Type::BYTEA) => {
                self.try_get::<_, Option<&[u8]>>(place).map(|found| found.map(Param::Bytes))
            }
            Some(&Type::UUID) => self.try_get::<_, Option<Uuid>>(place).map(|found| found.map(Param::Uuid)),
            Some(&Type::VOID) => Ok(None),
            other => return Err(Error::internal(format!("a column of type {other:?} cannot be read"))),
        };
        found.map(|found| found.unwrap_or(Param::Null)).map_err(Error::internal)
    }
}

fn failed(error: tokio_postgres::Error) -> Error {
    if error.is_closed() || error.as_db_error().is_none() {
        return Error::new(Code::Unavailable, "the connection to the database broke; try again")
            .caused_by(error);
    }
    Error::internal(describe(&error))
}

fn failed_in(error: tokio_postgres::Error, sql: &'static str) -> Error {
    match error.as_db_error() {
        Some(_) => Error::internal(format!("{} in: {sql}", describe(&error))),
        None if error.is_closed() => failed(error),
        None => Error::internal(format!("{error:?} in: {sql}")),
    }
}

fn commit_failed(error: tokio_postgres::Error) -> Error {
    match error.as_db_error() {
        Some(_) => failed(error),
        None => Error::new(
            Code::OutcomeUnknown,
            "the connection broke during the commit: the change may or may not have happened; read before repeating",
        )
        .caused_by(error),
    }
}

/// A server's message without the values that its detail would quote.
fn describe(error: &tokio_postgres::Error) -> String {
    error
        .as_db_error()
        .map_or_else(|| error.to_string(), |db| format!("{}: {}", db.code().code(), db.message()))
}

/// Starts a thread that hears how far other servers' commits reach, and comes back after a lost connection.
pub(crate) fn listen(config: &Config, bus: Arc<Bus>) -> Result<JoinHandle<()>> {
    let config = config.clone();
    let runtime = Builder::new_current_thread().enable_all().build().map_err(Error::internal)?;
    let body = move || {
        runtime.block_on(async {
            while !bus.is_closing() {
                tokio::select! {
                    heard = hear(&config, &bus) => {
                        bus.set_deaf(true);
                        if let Err(error) = heard {
                            tracing::warn!(%error, "notifications are interrupted; polling goes on");
                        }
                        tokio::time::sleep(BUS_RECONCILE).await;
                    }
                    () = closed(&bus) => return,
                }
            }
        });
    };
    std::thread::Builder::new().name("svc-listener".to_owned()).spawn(body).map_err(Error::internal)
}

async fn closed(bus: &Bus) {
    while !bus.is_closing() {
        tokio::time::sleep(CLOSING_POLL).await;
    }
}

async fn hear(config: &Config, bus: &Bus) -> std::result::Result<(), tokio_postgres::Error> {
    let (client, mut connection) = config.connect(NoTls).await?;
    let messages = futures_util::stream::poll_fn(move |cx| connection.poll_message(cx));
    let reading = messages.for_each(|message| async {
        if let Ok(AsyncMessage::Notification(notice)) = message {
            for (workspace, lsn) in
                notice.payload().split_whitespace().filter_map(|word| word.split_once(':'))
            {
                if let (Ok(workspace), Ok(lsn)) = (workspace.parse::<Uuid>(), lsn.parse()) {
                    bus.reached(workspace.into(), lsn);
                }
            }
        }
    });
    let listening = async {
        client.batch_execute("listen svc_log").await?;
        bus.set_deaf(false);
        // The client must outlive the reading: when it goes, the connection closes.
        std::future::pending().await
    };
    tokio::select! {
        () = reading => Ok(()),
        failed = listening => failed,
    }
}
