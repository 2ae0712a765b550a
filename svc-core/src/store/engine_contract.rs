//! The contract of the store: rules that hold on every engine, whatever happens to its connections.
//!
//! Each rule is a function over a connection. All rules run on SQLite, on Postgres if a server is configured,
//! and on a faulty engine.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use secrecy::SecretString;
use tempfile::TempDir;
use uuid::Uuid;

use super::bulk_write::BulkWrite;
use super::conn::Conn;
use super::engine::{Engine, TransactionFailure};
use super::executor::{
    Connect, ConnectionOpeners, Executor, ReaderSettings, Tally, Task, TaskSource, WriteTask,
};
use super::faulty_engine::HostileConn;
use super::postgres::{PgConn, create_pool, parse_url, server_for_tests};
use super::sqlite::{Role, SqliteConn};
use super::value::Param;
use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::limits::ROW_BYTES;
use crate::time::Clock;

/// An engine under test, with its own empty table.
struct Subject {
    name: &'static str,
    open: Connect,
    /// Ends the session of a connection without the connection noticing. On SQLite, which has no sessions,
    /// ends the transaction.
    lose: fn(&Conn),
    /// Temporary folder, removed when the subject is dropped.
    _folder: TempDir,
    _schema: Option<Schema>,
}

const TABLES: &str = "create table t (n bigint primary key); create table tally (total bigint not null);
                      insert into tally values (0)";

impl Subject {
    fn all() -> Vec<Self> {
        let mut all = vec![Self::sqlite(), Self::hostile(0, 0)];
        all.extend(Self::postgres(false));
        all.extend(Self::postgres(true));
        all
    }

    fn on_file(
        name: &'static str,
        open: impl Fn(&Path) -> Result<Conn> + Send + Sync + 'static,
        lose: fn(&Conn),
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path: PathBuf = folder.path().join("t.db");
        SqliteConn::open(&path, Role::Creator).unwrap().batch(TABLES).unwrap();
        Self { name, open: Arc::new(move || open(&path)), lose, _folder: folder, _schema: None }
    }

    fn sqlite() -> Self {
        let lose = |conn: &Conn| conn.batch("rollback").unwrap();
        Self::on_file("sqlite", |path| SqliteConn::open(path, Role::Writer).map(Conn::Sqlite), lose)
    }

    /// Returns the faulty engine, with a fault in one of `one_in` statements on average.
    fn hostile(seed: u64, one_in: u64) -> Self {
        let lose = |conn: &Conn| match conn {
            Conn::Hostile(conn) => conn.lose(),
            _ => unreachable!(),
        };
        Self::on_file("hostile", move |path| HostileConn::open(path, seed, one_in).map(Conn::Hostile), lose)
    }

    /// Returns a Postgres subject, if a server is configured: with a pool for each connection, or with one
    /// shared pool, which has idle sessions.
    fn postgres(is_shared: bool) -> Option<Self> {
        let schema = Schema::new()?;
        let server = parse_url(&SecretString::from(schema.url.clone())).unwrap();
        let pool = create_pool(&server, 4).unwrap();
        let idle = [(); 2].map(|()| PgConn::from_pool(&pool).unwrap());
        idle.iter().for_each(|conn| conn.batch("select 1").unwrap());
        idle[0].batch(TABLES).unwrap();
        let open: Connect = match is_shared {
            true => Arc::new(move || PgConn::from_pool(&pool).map(Conn::Postgres)),
            false => Arc::new(move || PgConn::open(&server).map(Conn::Postgres)),
        };
        let name = if is_shared { "postgres, by a pool" } else { "postgres" };
        let folder = tempfile::tempdir().unwrap();
        Some(Self { name, open, lose: end_backend, _folder: folder, _schema: Some(schema) })
    }

    fn conn(&self) -> Conn {
        (self.open)().unwrap()
    }

    /// Reads the stored numbers over another connection.
    fn stored(&self) -> Vec<i64> {
        numbers(&self.reliable_conn(), "select n from t order by n")
    }

    /// Opens a connection without faults.
    fn reliable_conn(&self) -> Conn {
        match self.name {
            "hostile" => {
                SqliteConn::open(&self._folder.path().join("t.db"), Role::Reader).map(Conn::Sqlite).unwrap()
            }
            _ => self.conn(),
        }
    }
}

fn numbers(conn: &Conn, sql: &'static str) -> Vec<i64> {
    conn.query(sql, &[]).unwrap().iter_mut().map(|row| row.take().unwrap()).collect()
}

/// A separate schema on the test server. Dropping it removes all its contents.
struct Schema {
    name: String,
    server: String,
    url: String,
}

impl Schema {
    fn new() -> Option<Self> {
        let server = server_for_tests()?;
        let name = format!("conform_{}", Uuid::now_v7().simple());
        let joint = if server.contains('?') { '&' } else { '?' };
        let url = format!("{server}{joint}options=-c%20search_path%3D{name}");
        let schema = Self { name, server, url };
        schema.on_server(&format!("create schema {}", schema.name));
        Some(schema)
    }

    fn on_server(&self, sql: &str) {
        let config = parse_url(&SecretString::from(self.server.clone())).unwrap();
        PgConn::open(&config).unwrap().batch(sql).unwrap();
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        self.on_server(&format!("drop schema {} cascade", self.name));
    }
}

/// Ends the server process of a connection, and waits until it is gone.
fn end_backend(conn: &Conn) {
    let pid = numbers(conn, "select cast(pg_backend_pid() as bigint)")[0];
    let server = SecretString::from(server_for_tests().unwrap());
    let other = PgConn::open(&parse_url(&server).unwrap()).map(Conn::Postgres).unwrap();
    other.query("select pg_terminate_backend(cast($1 as integer))", &[&pid]).unwrap();
    while numbers(&other, "select count(*) from pg_stat_activity where application_name = 'svc'").len() == 1
        && !other
            .query("select 1 from pg_stat_activity where pid = cast($1 as integer)", &[&pid])
            .unwrap()
            .is_empty()
    {
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

const INSERT: &str = "insert into t values ($1)";

fn insert(conn: &Conn, n: i64) -> Result<u64> {
    conn.execute(INSERT, &[&n])
}

fn commit(conn: &Conn) -> Result<()> {
    conn.flush()?;
    conn.commit(&BTreeMap::new())
}

type Rule = (&'static str, fn(&Subject));

const RULES: &[Rule] = &[
    ("a commit stores, a rollback does not", |subject| {
        let conn = subject.conn();
        conn.begin_write().unwrap();
        assert_eq!(insert(&conn, 1).unwrap(), 1);
        conn.check_transaction().unwrap();
        commit(&conn).unwrap();
        conn.rollback().unwrap();
        conn.begin_write().unwrap();
        insert(&conn, 2).unwrap();
        conn.rollback().unwrap();
        conn.rollback().unwrap();
        assert_eq!(conn.failure(), None);
        assert_eq!(subject.stored(), [1]);
    }),
    ("a commit without a transaction is an error", |subject| {
        let conn = subject.conn();
        assert!(conn.commit(&BTreeMap::new()).is_err());
        conn.begin_write().unwrap();
        insert(&conn, 1).unwrap();
        commit(&conn).unwrap();
        assert!(conn.commit(&BTreeMap::new()).is_err());
        conn.rollback().unwrap();
        assert_eq!(subject.stored(), [1]);
    }),
    ("a wrong number of rows is an error before the commit", |subject| {
        let conn = subject.conn();
        conn.begin_write().unwrap();
        insert(&conn, 1).unwrap();
        let deferred = conn.defer(Some(1), "delete from t where n = 7", &[]);
        assert!(deferred.and_then(|()| conn.flush()).is_err());
        conn.rollback().unwrap();
        assert!(subject.stored().is_empty());
    }),
    ("a read bounded by bytes ends with the row that reaches the bound", |subject| {
        let conn = subject.conn();
        (0..20).for_each(|n| assert_eq!(insert(&conn, n).unwrap(), 1));
        const TEXTS: &str = "select n, cast($1 as text), cast($2 as text) from t where n >= $3 order by n";
        let read = |bytes: usize, text: &str, from: i64| -> Vec<i64> {
            let mut rows = conn.query_within(bytes, TEXTS, &[&text, &None::<&str>, &from]).unwrap();
            let read: Vec<i64> = rows.iter_mut().map(|row| row.take().unwrap()).collect();
            let mut visited = Vec::new();
            conn.visit_within(bytes, TEXTS, &[&text, &None::<&str>, &from], &mut |row| {
                visited.extend(row.int(0));
                ControlFlow::Continue(())
            })
            .unwrap();
            assert_eq!(visited, read, "{}: {bytes}", subject.name);
            read
        };
        let text = "x".repeat(1000);
        let each = ROW_BYTES + 1000;
        for (bytes, rows) in
            [(1, 1), (each, 1), (each + 1, 2), (5 * each, 5), (20 * each, 20), (usize::MAX, 20)]
        {
            assert_eq!(read(bytes, &text, 0), (0..rows).collect::<Vec<i64>>(), "{}: {bytes}", subject.name);
        }
        // The weight counts bytes, not characters; a null has none.
        assert_eq!(read(ROW_BYTES + 4, "\u{1F4DC}", 0).len(), 1, "{}", subject.name);
        assert_eq!(read(ROW_BYTES + 5, "\u{1F4DC}", 0).len(), 2, "{}", subject.name);
        assert!(read(1, &text, 20).is_empty());
    }),
    ("many rows are inserted or none", |subject| {
        const MANY: BulkWrite =
            BulkWrite { sqlite: INSERT, postgres: "insert into t select * from unnest($1::bigint[])" };
        let conn = subject.conn();
        conn.begin_write().unwrap();
        conn.insert_many(&MANY, &[vec![Param::Int(1)], vec![Param::Int(2)]]).unwrap();
        commit(&conn).unwrap();
        conn.begin_write().unwrap();
        let inserted = conn.insert_many(&MANY, &[vec![Param::Int(3)], vec![Param::Int(2)]]);
        assert!(inserted.and_then(|()| conn.flush()).is_err());
        conn.rollback().unwrap();
        assert_eq!(subject.stored(), [1, 2]);
    }),
    ("a job is rolled back alone, or reports that it cannot be", |subject| {
        let conn = subject.conn();
        conn.begin_write().unwrap();
        conn.begin_task();
        insert(&conn, 1).unwrap();
        conn.keep_task_changes().unwrap();
        conn.begin_task();
        conn.query("select n from t", &[]).unwrap();
        assert!(!conn.has_task_written(), "a job that only read is undone on every engine");
        conn.undo_task().unwrap();
        conn.begin_task();
        insert(&conn, 2).unwrap();
        assert!(conn.has_task_written());
        if conn.engine() == Engine::Sqlite {
            conn.undo_task().unwrap();
            conn.begin_task();
            insert(&conn, 3).unwrap();
            conn.keep_task_changes().unwrap();
            commit(&conn).unwrap();
            assert_eq!(subject.stored(), [1, 3]);
        } else {
            conn.rollback().unwrap();
            assert!(subject.stored().is_empty());
        }
    }),
    ("a statement that fails is reported, and nothing of it stays", |subject| {
        let conn = subject.conn();
        conn.begin_write().unwrap();
        insert(&conn, 1).unwrap();
        assert!(insert(&conn, 1).is_err());
        assert_ne!(conn.failure(), Some(TransactionFailure::Broken));
        conn.rollback().unwrap();
        assert!(subject.stored().is_empty());
    }),
    ("a transaction that is lost at any statement never continues", |subject| {
        for at in 0..5 {
            let conn = subject.conn();
            conn.begin_write().unwrap();
            let inserted: Vec<bool> = (0..5)
                .map(|n| {
                    if n == at {
                        conn.flush().unwrap();
                        (subject.lose)(&conn);
                    }
                    insert(&conn, n).is_ok()
                })
                .collect();
            let mut after = inserted.iter().skip(usize::try_from(at).unwrap());
            assert!(after.all(|ok| !ok), "lost at {at}: {inserted:?}");
            assert!(conn.failure().is_some(), "lost at {at}");
            assert!(conn.query("select n from t", &[]).is_err(), "lost at {at}");
            assert!(conn.defer(None, "delete from t", &[]).is_err(), "lost at {at}");
            assert!(conn.flush().is_err() && conn.batch("delete from t").is_err(), "lost at {at}");
            assert_eq!(conn.commit(&BTreeMap::new()).unwrap_err().code(), Code::Unavailable, "lost at {at}");
            conn.rollback().unwrap();
            assert!(subject.stored().is_empty(), "lost at {at}");
            conn.begin_write().unwrap();
            insert(&conn, 9).unwrap();
            conn.execute("delete from t", &[]).unwrap();
            commit(&conn).unwrap();
        }
    }),
    ("what is dropped within a transaction changes nothing, and is no part of the next one", |subject| {
        let conn = subject.conn();
        conn.begin_write().unwrap();
        insert(&conn, 1).unwrap();
        drop(conn);
        let next = subject.conn();
        next.begin_write().unwrap();
        insert(&next, 2).unwrap();
        commit(&next).unwrap();
        assert_eq!(subject.stored(), [2]);
    }),
    ("a session that ends before the commit commits nothing", |subject| {
        let conn = subject.conn();
        conn.begin_write().unwrap();
        insert(&conn, 1).unwrap();
        conn.flush().unwrap();
        (subject.lose)(&conn);
        let rejected = conn.commit(&BTreeMap::new()).unwrap_err();
        assert!(matches!(rejected.code(), Code::Unavailable | Code::OutcomeUnknown), "{rejected}");
        conn.rollback().unwrap();
        assert!(subject.stored().is_empty());
    }),
    ("what is known of a session does not hold in the next", |subject| {
        let conn = subject.conn();
        let have_others_written = || {
            conn.begin_write().unwrap();
            let have_others_written = conn.have_others_written().unwrap();
            assert_eq!(numbers(&conn, "select count(*) from t"), [0]);
            have_others_written
        };
        have_others_written();
        conn.rollback().unwrap();
        assert!(!have_others_written());
        (subject.lose)(&conn);
        conn.rollback().unwrap();
        assert_eq!(have_others_written(), matches!(conn, Conn::Postgres(_)));
        conn.rollback().unwrap();
        assert!(!have_others_written());
    }),
    ("a read transaction follows the same rule", |subject| {
        let conn = subject.conn();
        conn.begin_read().unwrap();
        assert_eq!(numbers(&conn, "select count(*) from t"), [0]);
        (subject.lose)(&conn);
        assert!(conn.query("select n from t", &[]).is_err());
        assert!(conn.failure().is_some());
        conn.end_read().unwrap();
        conn.begin_read().unwrap();
        assert_eq!(numbers(&conn, "select count(*) from t"), [0]);
        conn.end_read().unwrap();
    }),
];

#[test]
fn every_engine_keeps_the_contract() {
    for (rule, check) in RULES {
        for subject in Subject::all() {
            eprintln!("{}: {rule}", subject.name);
            check(&subject);
        }
    }
}

/// A task that inserts its number. Some of these tasks fail after the insert.
struct Insert {
    n: i64,
    sender: mpsc::Sender<(i64, Option<Code>)>,
}

impl Task for Insert {
    fn source(&self) -> TaskSource {
        TaskSource::SERVICE
    }
    fn bytes(&self) -> usize {
        8
    }
    fn is_abandoned(&self) -> bool {
        false
    }
    fn finish(self: Box<Self>, outcome: Result<()>) {
        self.sender.send((self.n, outcome.err().map(|error| error.code()))).unwrap();
    }
}

impl WriteTask<Tally> for Insert {
    fn home(&self) -> WorkspaceId {
        WorkspaceId::INSTANCE
    }
    fn workspaces(&self) -> Vec<WorkspaceId> {
        Vec::new()
    }
    fn run(&mut self, conn: &Conn, tally: &RefCell<Tally>) -> Result<()> {
        insert(conn, self.n)?;
        numbers_of(conn, self.n)?;
        tally.borrow_mut().add(self.n);
        if self.n % 10 == 3 { Err(Error::wrong_state("rejected after writing")) } else { Ok(()) }
    }
}

/// Reads within a task, so that sessions are also lost during reads.
fn numbers_of(conn: &Conn, n: i64) -> Result<()> {
    let found = conn.query("select n from t where n = $1", &[&n])?;
    if found.len() == 1 { Ok(()) } else { Err(Error::internal("the row that was written is not there")) }
}

const TASKS: i64 = 200;

/// Runs tasks through an executor, and compares the reported outcomes with the stored rows.
///
/// Returns how many tasks were reported with an unknown outcome, and how many without a change.
fn check_executor(subject: &Subject, seed: u64) -> (usize, usize) {
    let executor = Executor::start(
        vec![Tally::default()],
        ReaderSettings { threads: 1, inline: 1, limit: None },
        &Clock::system(),
        &ConnectionOpeners {
            writer: subject.open.clone(),
            reader: subject.open.clone(),
            scanner: subject.open.clone(),
        },
    )
    .unwrap();
    let (sender, receiver) = mpsc::channel();
    (1..=TASKS).for_each(|n| executor.write(Box::new(Insert { n, sender: sender.clone() })));
    drop(sender);
    let outcomes: BTreeMap<i64, Option<Code>> = receiver.iter().collect();
    executor.close(std::thread::current().id());
    assert_eq!(outcomes.len(), usize::try_from(TASKS).unwrap(), "seed {seed}: each finishes once");
    let stored: BTreeSet<i64> = subject.stored().into_iter().collect();
    for (n, outcome) in &outcomes {
        match outcome {
            None => assert!(stored.contains(n), "seed {seed}: {n} was acknowledged and is lost"),
            Some(Code::OutcomeUnknown) => {}
            Some(code) => {
                assert!(!stored.contains(n), "seed {seed}: {n} was rejected ({code:?}) and is stored")
            }
        }
    }
    let total = numbers(&subject.reliable_conn(), "select total from tally")[0];
    assert_eq!(total, stored.iter().sum::<i64>(), "seed {seed}: rows and tally do not agree");
    let count = |code| outcomes.values().filter(|outcomes| **outcomes == Some(code)).count();
    (count(Code::OutcomeUnknown), count(Code::Unavailable))
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_rejected_is_stored() {
    let rounds = std::env::var("SVC_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(12);
    let mut unknown = 0;
    let mut unavailable = 0;
    for seed in 1..=rounds {
        for one_in in [40, 400, 4000] {
            let (unknown_now, unavailable_now) = check_executor(&Subject::hostile(seed, one_in), seed);
            unknown += unknown_now;
            unavailable += unavailable_now;
        }
    }
    assert!(unknown > 0 && unavailable > 0, "the engine has shown no fault: {unknown}, {unavailable}");
    let postgres = [false, true].map(Subject::postgres);
    for subject in [Subject::sqlite()].into_iter().chain(postgres.into_iter().flatten()) {
        assert_eq!(check_executor(&subject, 0), (0, 0), "{}", subject.name);
    }
}
