//! Prepared databases, lent to worlds.
//!
//! Preparing one takes a set-up and dozens of operations, and creating one on Postgres takes long. So the
//! SQLite file is prepared once for a test program, in the folder of [`Original`], and copied; a Postgres
//! database keeps a copy of its rows in a separate schema, from which it is restored for the next world, of
//! this process or of a later one.

use std::ops::Deref;
use std::sync::{Mutex, OnceLock, PoisonError};

use svc_core::Engine;

use crate::database::TestDatabase;
use crate::original::Original;
use crate::prepare::{Fixtures, seed};

/// A prepared database, for as long as a world needs it.
pub struct PooledDatabase(Option<Prepared>);

struct Prepared {
    database: TestDatabase,
    fixtures: Fixtures,
    /// Restores a Postgres database.
    restore: String,
}

/// Postgres databases that no world of this process uses.
static FREE: Mutex<Vec<Prepared>> = Mutex::new(Vec::new());

impl PooledDatabase {
    /// Returns a prepared database on `engine`.
    pub(crate) fn on(engine: Engine, in_memory: bool) -> Self {
        Self(Some(match engine {
            Engine::Sqlite => Prepared::sqlite(in_memory),
            Engine::Postgres => Prepared::postgres(),
        }))
    }

    pub(crate) fn fixtures(&self) -> &Fixtures {
        &self.0.as_ref().unwrap().fixtures
    }
}

impl Deref for PooledDatabase {
    type Target = TestDatabase;
    fn deref(&self) -> &TestDatabase {
        &self.0.as_ref().unwrap().database
    }
}

impl Drop for PooledDatabase {
    fn drop(&mut self) {
        let prepared = self.0.take().unwrap();
        // A failed test may have left a running process behind.
        if prepared.database.engine() == Engine::Postgres && !std::thread::panicking() {
            FREE.lock().unwrap_or_else(PoisonError::into_inner).push(prepared);
        }
    }
}

/// Returns the prepared SQLite file, and the contents of every prepared database, on either engine.
fn original() -> &'static Original {
    static ORIGINAL: OnceLock<Original> = OnceLock::new();
    ORIGINAL.get_or_init(Original::get)
}

impl Prepared {
    fn sqlite(in_memory: bool) -> Self {
        let original = original();
        let database = if in_memory { TestDatabase::sqlite_in_memory() } else { TestDatabase::sqlite() };
        database.fill(&original.bytes);
        Self { database, fixtures: original.fixtures.clone(), restore: String::new() }
    }

    fn postgres() -> Self {
        let free = FREE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(prepared) = free {
            prepared.database.execute(&prepared.restore);
            return prepared;
        }
        let database = TestDatabase::postgres_again();
        let fixtures = original().fixtures.clone();
        let is_prepared = database.number("select count(*) from pg_tables where schemaname = 'kept'") > 0;
        if !is_prepared {
            let made = seed(&database);
            assert_eq!(format!("{made:?}"), format!("{fixtures:?}"), "preparing depends on the engine");
            keep_rows(&database);
        }
        database.execute(DROP_OTHERS);
        let restore = restore_rows(&database);
        if is_prepared {
            database.execute(&restore);
        }
        Self { database, fixtures, restore }
    }
}

/// Drops the tables that a test made.
const DROP_OTHERS: &str = "do $$ declare name text; begin
    for name in select relname from pg_class
        where relkind = 'r' and relnamespace = 'public'::regnamespace
        and relname not in (select relname from pg_class where relnamespace = 'kept'::regnamespace)
    loop execute format('drop table %I', name); end loop; end $$;";

/// Returns the tables, each after those that it refers to.
fn tables(database: &TestDatabase) -> Vec<String> {
    let rows = database.rows(
        "select relname::text from pg_class
         where relkind = 'r' and relnamespace = 'public'::regnamespace order by oid",
    );
    rows.iter().map(|row| row[0].as_str().unwrap().to_owned()).collect()
}

/// Copies every row aside; if it is interrupted, it copies none.
fn keep_rows(database: &TestDatabase) {
    let tables = tables(database);
    let keep = tables.iter().map(|name| format!("create table kept.{name} as table public.{name};"));
    database.execute(&format!("begin; create schema kept; {} commit;", keep.collect::<String>()));
}

/// Returns the statements that put the rows back.
fn restore_rows(database: &TestDatabase) -> String {
    let tables = tables(database);
    // Deleting a few rows is many times faster than TRUNCATE, which creates new files.
    let remove: String = tables.iter().rev().map(|name| format!("delete from {name};")).collect();
    let put_back: String =
        tables.iter().map(|name| format!("insert into {name} select * from kept.{name};")).collect();
    format!("set lock_timeout = '10s'; begin; {DROP_OTHERS} {remove} {put_back} commit;")
}
