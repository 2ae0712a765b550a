//! Stored rows, read from one database and inserted into another.

use std::error::Error;
use std::pin::pin;

use futures_util::StreamExt as _;
use futures_util::future::try_join_all;
use rusqlite::types::Value as StoredValue;
use svc_core::Engine;
use tokio::runtime::Runtime;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use crate::database::TestDatabase;

/// Rows per transaction.
const ROWS: usize = 500;

/// The rows of some tables.
pub enum Rows {
    Sqlite(Vec<(String, Vec<Vec<StoredValue>>)>),
    Postgres(Vec<(String, Vec<Vec<WireColumn>>)>),
}

impl Rows {
    /// Reads the tables of a database.
    pub fn read(database: &TestDatabase, tables: &[&str], runtime: &Runtime) -> Self {
        match database.engine() {
            Engine::Sqlite => Self::Sqlite(tables.iter().map(|table| read_sqlite(database, table)).collect()),
            Engine::Postgres => Self::Postgres(runtime.block_on(async {
                let client = database.connect().await;
                let mut read = Vec::new();
                for table in tables {
                    let sql = format!("select * from {table}");
                    let mut stream = pin!(client.query_raw(&sql, Vec::<i64>::new()).await.expect("rows"));
                    let mut rows = Vec::new();
                    while let Some(row) = stream.next().await {
                        let row = row.expect("a row");
                        rows.push((0..row.len()).map(|at| row.get::<_, WireColumn>(at)).collect::<Vec<_>>());
                    }
                    read.push((insert(table, rows.first().map_or(1, Vec::len), '$'), rows));
                }
                read
            })),
        }
    }

    /// Returns the number of rows.
    pub fn count(&self) -> usize {
        match self {
            Self::Sqlite(tables) => tables.iter().map(|(_, rows)| rows.len()).sum(),
            Self::Postgres(tables) => tables.iter().map(|(_, rows)| rows.len()).sum(),
        }
    }

    /// Inserts them into the same tables of another database, where the tables are empty, with prepared
    /// statements.
    pub fn insert(&self, database: &TestDatabase, runtime: &Runtime) {
        match self {
            Self::Sqlite(tables) => {
                let conn = database.connect_sqlite();
                conn.execute_batch("pragma foreign_keys = off").expect("a setting");
                for (insert, rows) in tables {
                    let mut statement = conn.prepare(insert).expect("a statement");
                    for rows in rows.chunks(ROWS) {
                        conn.execute_batch("begin immediate").expect("a transaction");
                        for row in rows {
                            statement.execute(rusqlite::params_from_iter(row)).expect("a new row");
                        }
                        conn.execute_batch("commit").expect("a commit");
                    }
                }
            }
            Self::Postgres(tables) => runtime.block_on(async {
                let client = database.connect().await;
                for (insert, rows) in tables {
                    let statement = client.prepare(insert).await.expect("a statement");
                    for rows in rows.chunks(ROWS) {
                        client.batch_execute("begin").await.expect("a transaction");
                        // They are pipelined: all are sent before the answers are awaited.
                        let inserts = rows.iter().map(|row| client.execute_raw(&statement, row));
                        try_join_all(inserts).await.expect("new rows");
                        client.batch_execute("commit").await.expect("a commit");
                    }
                }
            }),
        }
    }
}

fn read_sqlite(database: &TestDatabase, table: &str) -> (String, Vec<Vec<StoredValue>>) {
    let conn = database.connect_sqlite();
    let mut statement = conn.prepare(&format!("select * from {table}")).expect("a statement");
    let width = statement.column_count();
    let rows = statement.query_map([], |row| (0..width).map(|at| row.get(at)).collect());
    let rows = rows.expect("rows").collect::<rusqlite::Result<_>>().expect("rows");
    (insert(table, width, '?'), rows)
}

fn insert(table: &str, width: usize, sign: char) -> String {
    let places: Vec<String> = (1..=width).map(|place| format!("{sign}{place}")).collect();
    format!("insert into {table} values ({})", places.join(", "))
}

/// A column in the wire format of Postgres; `None` is null.
#[derive(Debug)]
pub struct WireColumn(Option<Vec<u8>>);

impl<'a> FromSql<'a> for WireColumn {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(Some(raw.to_vec())))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl ToSql for WireColumn {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let Some(bytes) = &self.0 else { return Ok(IsNull::Yes) };
        out.extend_from_slice(bytes);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}
