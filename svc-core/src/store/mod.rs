//! The store: the only layer that names a database engine.
//!
//! Statements have one text with `$1..$n`; a [`Conn`] runs them on SQLite or Postgres. Executors own the
//! connections and decide which changes are committed together.

mod database;
mod disk;
mod engine;
pub(crate) mod refusal;
mod file;
mod transaction;
pub(crate) mod budget;
mod value;
mod row;
mod columns;
mod named_enum;
mod bulk_write;
mod scan;
mod watch;
mod postgres;
mod sqlite;
#[cfg(test)]
mod faulty_engine;
mod conn;
pub(crate) mod executor;
#[cfg(test)]
mod engine_contract;
pub(crate) mod migrate;
mod opener;
pub(crate) mod rate_windows;
pub(crate) mod scrubber;
mod scratch;

pub(crate) use bulk_write::{BulkWrite, JointWrite};
pub(crate) use columns::{NewRow, columns, new_row};
pub use conn::Conn;
pub use database::{Database, OpenMode};
pub use engine::{Engine, StatementCounts};
pub(crate) use engine::{WalTruncation, is_duplicate_key_error};
pub(crate) use migrate::{is_older_schema, schema_version};
pub(crate) use named_enum::named_enum;
pub(crate) use opener::Opener;
pub(crate) use row::{Columns, Visitor};
pub use row::{FromRow, Row};
pub(crate) use scan::{Scan, interned};
pub(crate) use scratch::Scratch;
pub use value::{FromValue, Param, ToParam, Value};
pub use watch::{ExecutedStatement, Watcher};

/// Creates an empty SQLite database in a new folder, and returns a write connection.
#[cfg(test)]
pub(crate) fn sqlite_for_tests() -> (tempfile::TempDir, Conn) {
    let folder = tempfile::tempdir().unwrap();
    let conn = sqlite::SqliteConn::open(&folder.path().join("t.db"), sqlite::Role::Creator).unwrap();
    (folder, Conn::Sqlite(conn))
}
