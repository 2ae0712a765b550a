//! Scans: statements that return any number of rows, which are visited one by one.
//!
//! SQLite steps through one statement; Postgres uses a cursor, from which a few rows are fetched at a time.
//! So neither engine holds all rows in memory, and the time limit of a statement applies to each step.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex};

use crate::hash::sha256;
use crate::sync::lock;

/// A statement whose rows are visited one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan {
    /// The statement on SQLite.
    pub sqlite: &'static str,
    /// The statement that declares the cursor on Postgres.
    pub declare: &'static str,
    /// The statement that fetches the next rows from the cursor.
    pub fetch: &'static str,
    /// The statement that closes the cursor.
    pub close: &'static str,
}

/// Number of rows fetched from a cursor at a time.
pub(super) const FETCH_ROWS: usize = 128;

impl Scan {
    /// Creates a scan of the rows that these statements select.
    ///
    /// The name of the cursor contains a hash of the statement, because a session keeps the prepared `fetch`,
    /// which has the columns of one statement.
    pub fn new(name: &str, sqlite: &str, postgres: &str) -> Self {
        let [first, second, third, fourth, ..] = sha256(postgres.as_bytes());
        let cursor = format!("scan_{name}_{:08x}", u32::from_be_bytes([first, second, third, fourth]));
        Self {
            sqlite: interned(sqlite.to_owned()),
            declare: interned(format!("declare {cursor} no scroll cursor for {postgres}")),
            fetch: interned(format!("fetch forward {FETCH_ROWS} from {cursor}")),
            close: interned(format!("close {cursor}")),
        }
    }
}

/// Returns a shared copy of a statement that is generated from declarations.
///
/// There is one copy per declaration, which is never freed.
pub(crate) fn interned(sql: String) -> &'static str {
    static STATEMENTS: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);
    let mut statements = lock(&STATEMENTS);
    if let Some(known) = statements.get(sql.as_str()) {
        return known;
    }
    let kept: &'static str = Box::leak(sql.into_boxed_str());
    statements.insert(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_has_the_name_of_one_statement() {
        let fetch = |sql: &str| Scan::new("messages", sql, sql).fetch;
        assert_eq!(fetch("select id from messages"), fetch("select id from messages"));
        assert_ne!(fetch("select id from messages"), fetch("select id, body from messages"));
    }
}
