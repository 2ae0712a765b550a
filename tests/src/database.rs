//! Databases for tests, on either engine, removed when they are dropped.
//!
//! A later run removes what a crashed run leaves behind. Tests also access the database directly here,
//! without the service: they count rows, and insert rows that no operation can create.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;
use std::pin::pin;

use futures_util::StreamExt;
use rusqlite::types::ValueRef;
use secrecy::SecretString;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use svc_core::{Database, Engine};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_postgres::types::{FromSql, Type};
use tokio_postgres::{Client, NoTls};

use crate::runtime;

/// The variable with the address of a Postgres server, whose user must be allowed to create databases.
pub const POSTGRES: &str = "SVC_TEST_POSTGRES";

/// Returns the engines that this run can test.
///
/// It reports a missing one, and fails in CI.
pub fn engines() -> Vec<Engine> {
    if std::env::var_os(POSTGRES).is_some() {
        return vec![Engine::Sqlite, Engine::Postgres];
    }
    skipped("Postgres", POSTGRES);
    vec![Engine::Sqlite]
}

/// Reports that `what` is not tested because the variable `name` is not set; fails in CI.
pub fn skipped(what: &str, name: &str) {
    let in_ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(!in_ci, "CI must test {what}: set {name}");
    eprintln!("SKIPPED {what}: {name} is not set");
}

/// Returns whether this run includes the tests that repeat others under other circumstances.
///
/// `SVC_TEST_LONG=1` includes them, as CI does.
pub fn is_long(what: &str) -> bool {
    let is_long = std::env::var("SVC_TEST_LONG").is_ok_and(|long| long == "1");
    if !is_long {
        eprintln!("SKIPPED {what}: SVC_TEST_LONG is not 1");
    }
    is_long
}

/// One database.
pub struct TestDatabase {
    place: DatabasePlace,
}

enum DatabasePlace {
    Sqlite(TempDir),
    /// The client stays open, because a database with a connection is not removed.
    Postgres {
        name: String,
        client: Client,
    },
}

/// Drops references and checks, but not keys.
const NO_CONSTRAINTS: &str = "
    do $$ declare c record; begin
        for c in select conrelid::regclass as t, conname from pg_constraint
            where contype in ('f', 'c') and connamespace = 'public'::regnamespace and conparentid = 0
        loop execute format('alter table %s drop constraint %I', c.t, c.conname); end loop;
    end $$";

/// The tables that only periodic work writes.
const PERIODIC: [&str; 2] = ["leases", "scrubs"];

impl TestDatabase {
    /// Returns an empty database on `engine`.
    pub fn on(engine: Engine) -> Self {
        match engine {
            Engine::Sqlite => Self::sqlite(),
            Engine::Postgres => Self::postgres(),
        }
    }

    /// Returns an empty SQLite database in a separate folder.
    pub fn sqlite() -> Self {
        Self { place: DatabasePlace::Sqlite(tempfile::tempdir().unwrap()) }
    }

    /// Returns an empty Postgres database.
    pub fn postgres() -> Self {
        runtime().block_on(async { create(&take_turn().await).await })
    }

    /// Returns a Postgres database that a process with the same programs has left behind, or an empty one.
    ///
    /// It removes other unused ones.
    pub fn postgres_again() -> Self {
        runtime().block_on(async {
            let server = take_turn().await;
            let unused = server.query(UNUSED, &[]).await.unwrap();
            let unused = unused.iter().map(|row| row.get::<_, String>(0));
            let (ours, others): (Vec<_>, Vec<_>) = unused.partition(|name| name.starts_with(&names_begin()));
            for name in others {
                server.batch_execute(&format!("drop database {name}")).await.unwrap();
            }
            if let Some(name) = ours.into_iter().next() {
                let client = connect(&address_of(&name)).await;
                return Self { place: DatabasePlace::Postgres { name, client } };
            }
            create(&server).await
        })
    }

    /// Returns an empty SQLite database in a folder in memory, if there is one.
    ///
    /// The service writes as usual, but nothing waits for a disk.
    pub fn sqlite_in_memory() -> Self {
        tempfile::tempdir_in("/dev/shm")
            .map_or_else(|_| Self::sqlite(), |folder| Self { place: DatabasePlace::Sqlite(folder) })
    }

    /// Returns a SQLite database whose file begins with these bytes.
    pub fn sqlite_from(bytes: &[u8]) -> Self {
        let database = Self::sqlite();
        database.fill(bytes);
        database
    }

    /// Writes the bytes of a file that is not open yet, on SQLite.
    pub(crate) fn fill(&self, bytes: &[u8]) {
        std::fs::write(self.file().unwrap(), bytes).unwrap();
    }

    /// Returns the bytes of the SQLite file, which must no longer be open.
    pub fn sqlite_bytes(&self) -> Vec<u8> {
        self.truncate_sqlite_log();
        std::fs::read(self.file().unwrap()).unwrap()
    }

    fn truncate_sqlite_log(&self) {
        self.connect_sqlite().query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())).unwrap();
    }

    /// Returns the engine.
    pub fn engine(&self) -> Engine {
        match self.place {
            DatabasePlace::Sqlite(_) => Engine::Sqlite,
            DatabasePlace::Postgres { .. } => Engine::Postgres,
        }
    }

    /// Returns the address for the service.
    pub fn address(&self) -> Database {
        match &self.place {
            DatabasePlace::Sqlite(_) => Database::Sqlite(self.file().unwrap()),
            DatabasePlace::Postgres { name, .. } => Database::Postgres(SecretString::from(address_of(name))),
        }
    }

    /// Returns the address for a service whose sessions have these options, on Postgres.
    pub(crate) fn address_with(&self, options: &str) -> Database {
        let url = self.url();
        let options = options.replace(' ', "%20").replace('=', "%3D");
        let separator = if url.contains('?') { '&' } else { '?' };
        Database::Postgres(SecretString::from(format!("{url}{separator}options={options}")))
    }

    /// Returns the database file, on SQLite.
    pub fn file(&self) -> Option<PathBuf> {
        match &self.place {
            DatabasePlace::Sqlite(folder) => Some(folder.path().join("svc.db")),
            DatabasePlace::Postgres { .. } => None,
        }
    }

    /// Returns a copy of the database file beside it.
    pub fn copy_file(&self, name: &str) -> PathBuf {
        let from = self.file().unwrap();
        let to = self.file().unwrap().with_file_name(name);
        self.truncate_sqlite_log();
        std::fs::copy(from, &to).unwrap();
        to
    }

    /// Returns the address of the Postgres database.
    pub fn url(&self) -> String {
        address_of(self.name())
    }

    /// Reads the rows of a statement and computes the SHA-256 of the columns of each; returns the number of
    /// rows.
    pub fn hash_rows(&self, sql: &str, runtime: &Runtime) -> i64 {
        let mut count = 0;
        match &self.place {
            DatabasePlace::Sqlite(_) => {
                let conn = self.connect_sqlite();
                let mut statement = conn.prepare(sql).unwrap();
                let columns = statement.column_count();
                let mut rows = statement.query([]).unwrap();
                while let Some(row) = rows.next().unwrap() {
                    let mut digest = Sha256::new();
                    (0..columns).for_each(|at| match row.get_ref(at).unwrap() {
                        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => digest.update(bytes),
                        ValueRef::Integer(number) => digest.update(number.to_be_bytes()),
                        ValueRef::Null | ValueRef::Real(_) => {}
                    });
                    std::hint::black_box(digest.finalize());
                    count += 1;
                }
            }
            DatabasePlace::Postgres { .. } => runtime.block_on(async {
                let client = connect(&self.url()).await;
                let mut rows = pin!(client.query_raw(sql, Vec::<i64>::new()).await.unwrap());
                while let Some(row) = rows.next().await {
                    let row = row.unwrap();
                    let mut digest = Sha256::new();
                    (0..row.len()).for_each(|at| digest.update(row.get::<_, WireBytes<'_>>(at).0));
                    std::hint::black_box(digest.finalize());
                    count += 1;
                }
            }),
        }
        count
    }

    fn name(&self) -> &str {
        match &self.place {
            DatabasePlace::Sqlite(_) => "svc.db",
            DatabasePlace::Postgres { name, .. } => name,
        }
    }

    /// Returns the rows of a statement: numbers, texts, and bytes and ids as hexadecimal digits.
    pub fn rows(&self, sql: &str) -> Vec<Vec<Value>> {
        match &self.place {
            DatabasePlace::Sqlite(_) => sqlite_rows(&self.connect_sqlite(), sql),
            DatabasePlace::Postgres { .. } => self.on_postgres(async |client| {
                let rows = client.query(sql, &[]).await.unwrap_or_else(|error| panic!("{error:?}: {sql}"));
                rows.iter().map(postgres_row).collect()
            }),
        }
    }

    /// Returns everything in the database, by table, in no particular order.
    ///
    /// It omits the tables of periodic work, which continues during a test.
    pub fn dump(&self) -> BTreeMap<String, Vec<String>> {
        let tables = self.rows(match self.engine() {
            Engine::Sqlite => "select name from sqlite_master where type = 'table'",
            Engine::Postgres => {
                "select table_name::text from information_schema.tables where table_schema = 'public'"
            }
        });
        let names = tables.iter().map(|row| row[0].as_str().unwrap().to_owned());
        let names = names.filter(|name| !PERIODIC.contains(&name.as_str()));
        let rows = |name: &str| -> Vec<String> {
            let mut rows: Vec<String> = self
                .rows(&format!("select * from {name}"))
                .iter()
                .map(|row| json!(row).to_string())
                .collect();
            rows.sort_unstable();
            rows
        };
        names.map(|name| (name.clone(), rows(&name))).collect()
    }

    /// Returns the only number that a statement returns.
    pub fn number(&self, sql: &str) -> i64 {
        self.rows(sql)[0][0].as_i64().unwrap()
    }

    /// Runs statements.
    pub fn execute(&self, sql: &str) {
        match &self.place {
            DatabasePlace::Sqlite(_) => self.connect_sqlite().execute_batch(sql).unwrap(),
            DatabasePlace::Postgres { .. } => {
                self.on_postgres(async |client| client.batch_execute(sql).await.unwrap());
            }
        }
    }

    /// Runs a change without checking references and constraints. Returns whether a row changed.
    ///
    /// It fails if another row has the values of a key.
    pub fn force(&self, sql: &str) -> bool {
        match &self.place {
            DatabasePlace::Sqlite(_) => {
                let conn = self.connect_sqlite();
                conn.execute_batch("pragma foreign_keys = off; pragma ignore_check_constraints = on")
                    .unwrap();
                conn.execute(sql, []).is_ok_and(|rows| rows > 0)
            }
            DatabasePlace::Postgres { .. } => self.on_postgres(async |client| {
                client.batch_execute(NO_CONSTRAINTS).await.unwrap();
                client.execute(sql, &[]).await.is_ok_and(|rows| rows > 0)
            }),
        }
    }

    /// Returns an id as a literal of this engine.
    pub fn id(&self, id: impl Into<uuid::Uuid>) -> String {
        let id = id.into();
        match self.engine() {
            Engine::Sqlite => format!("x'{}'", id.simple()),
            Engine::Postgres => format!("'{id}'::uuid"),
        }
    }

    /// Returns SQL for a random id, a different one in each row.
    pub fn any_id(&self) -> &'static str {
        match self.engine() {
            Engine::Sqlite => "randomblob(16)",
            Engine::Postgres => "gen_random_uuid()",
        }
    }

    /// Returns SQL for random bytes, different ones in each row.
    pub fn any_bytes(&self) -> &'static str {
        match self.engine() {
            Engine::Sqlite => "randomblob(16)",
            Engine::Postgres => "uuid_send(gen_random_uuid())",
        }
    }

    /// Runs an insert from the rows `n (i)`, 1 to `count`, without checking foreign keys.
    pub fn insert_many(&self, count: i64, insert: &str) {
        let (before, numbers, after) = match self.engine() {
            Engine::Sqlite => (
                "pragma foreign_keys = off;".to_owned(),
                format!("with recursive n (i) as (select 1 union all select i + 1 from n where i < {count})"),
                "",
            ),
            Engine::Postgres => (
                "set session_replication_role = replica;".to_owned(),
                format!("with n (i) as (select generate_series(1, {count}))"),
                "set session_replication_role = origin;",
            ),
        };
        self.execute(&format!("{before} {numbers} {insert}; {after}"));
    }

    /// Returns bytes as a literal of this engine.
    pub fn bytes(&self, bytes: &[u8]) -> String {
        match self.engine() {
            Engine::Sqlite => format!("x'{}'", hex::encode(bytes)),
            Engine::Postgres => format!("'\\x{}'::bytea", hex::encode(bytes)),
        }
    }

    pub(crate) fn connect_sqlite(&self) -> rusqlite::Connection {
        let conn = rusqlite::Connection::open(self.file().unwrap()).unwrap();
        conn.busy_timeout(std::time::Duration::from_secs(5)).unwrap();
        conn
    }

    /// Returns a separate connection for the test, on Postgres.
    pub async fn connect(&self) -> Client {
        connect(&address_of(self.name())).await
    }

    fn on_postgres<T>(&self, work: impl AsyncFnOnce(&Client) -> T) -> T {
        let DatabasePlace::Postgres { client, .. } = &self.place else {
            unreachable!("asked on Postgres only")
        };
        runtime().block_on(work(client))
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if let DatabasePlace::Postgres { name, .. } = &self.place {
            let drop = format!("drop database if exists {name} with (force)");
            runtime().block_on(async {
                take_turn().await.batch_execute(&drop).await.unwrap();
            });
        }
    }
}

fn sqlite_rows(conn: &rusqlite::Connection, sql: &str) -> Vec<Vec<Value>> {
    let mut statement = conn.prepare(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    let width = statement.column_count();
    let rows =
        statement.query_map([], |row| (0..width).map(|at| row.get_ref(at).map(sqlite_value)).collect());
    rows.unwrap().map(Result::unwrap).collect()
}

fn sqlite_value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => json!(number),
        ValueRef::Real(number) => json!(number),
        ValueRef::Text(text) => json!(String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => json!(hex::encode(bytes)),
    }
}

fn postgres_row(row: &tokio_postgres::Row) -> Vec<Value> {
    let value = |at: usize| match *row.columns()[at].type_() {
        Type::INT8 => json!(row.get::<_, Option<i64>>(at)),
        Type::INT4 => json!(row.get::<_, Option<i32>>(at)),
        Type::BOOL => json!(row.get::<_, Option<bool>>(at).map(i32::from)),
        Type::UUID => json!(row.get::<_, Option<uuid::Uuid>>(at).map(|id| id.simple().to_string())),
        Type::BYTEA => json!(row.get::<_, Option<Vec<u8>>>(at).map(hex::encode)),
        _ => json!(row.get::<_, Option<String>>(at)),
    };
    (0..row.len()).map(value).collect()
}

/// The bytes of a column in the wire format of Postgres.
struct WireBytes<'a>(&'a [u8]);

impl<'a> FromSql<'a> for WireBytes<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(&[]))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Returns the server's address with another database in it.
fn address_of(database: &str) -> String {
    let server = std::env::var(POSTGRES).unwrap();
    let (before, after) = server.split_once("://").unwrap();
    let (host, rest) = after.split_once('/').unwrap_or((after, ""));
    let options = rest.split_once('?').map_or(String::new(), |(_, options)| format!("?{options}"));
    format!("{before}://{host}/{database}{options}")
}

/// Test databases without a connection, which are unused.
const UNUSED: &str = r"
    select datname::text from pg_database d
    where datname like 'svc\_test\_%' and not exists (select 1 from pg_stat_activity a
        where a.datname = d.datname)";

/// The prefix of the names of all prepared databases.
pub(crate) const NAMES_BEGIN: &str = "svc_test_";

/// Returns the prefix of the names of this program's databases.
///
/// Another program may prepare them differently: the samples and the people are compiled in, so changing them
/// results in another program.
pub(crate) fn names_begin() -> String {
    let program = std::env::current_exe().unwrap();
    let changed = program.metadata().unwrap().modified().unwrap();
    let digest = Sha256::digest(format!("{} {changed:?}", program.display()));
    format!("{NAMES_BEGIN}{}_", hex::encode(&digest[..6]))
}

/// Returns a connection to the server, with a lock that it holds until it is dropped.
///
/// A process that creates or takes a database holds it until it is connected to that database; one that
/// removes a database holds it until the database is gone.
async fn take_turn() -> Client {
    let server = connect(&std::env::var(POSTGRES).unwrap()).await;
    server.batch_execute("select pg_advisory_lock(8371442013)").await.unwrap();
    server
}

async fn create(server: &Client) -> TestDatabase {
    let name = format!("{}{}", names_begin(), uuid::Uuid::now_v7().simple());
    server.batch_execute(&format!("create database {name}")).await.unwrap();
    let client = connect(&address_of(&name)).await;
    TestDatabase { place: DatabasePlace::Postgres { name, client } }
}

async fn connect(address: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.unwrap();
    // The connection ends when the client is dropped, and an error shows in the client's next statement.
    tokio::spawn(async move { drop(connection.await) });
    client
}
