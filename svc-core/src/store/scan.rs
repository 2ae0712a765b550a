//! Scans: statements with any number of rows, whose rows are visited as they come.
//!
//! SQLite steps through one statement; Postgres has a cursor, from which some rows are fetched at a time. So
//! neither holds all rows, and the limit on the time of a statement is one on each step.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex};

use crate::sync::lock;

/// A statement whose rows are visited as they come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan {
    pub sqlite: &'static str,
    pub declare: &'static str,
    pub fetch: &'static str,
    pub close: &'static str,
}

/// Rows that are fetched at a time.
pub(super) const FETCHED: usize = 128;

impl Scan {
    /// Creates a scan, with a name that no other one has, of what these statements select.
    pub fn new(name: &str, sqlite: &str, postgres: &str) -> Self {
        Self {
            sqlite: interned(sqlite.to_owned()),
            declare: interned(format!("declare scan_{name} no scroll cursor for {postgres}")),
            fetch: interned(format!("fetch forward {FETCHED} from scan_{name}")),
            close: interned(format!("close scan_{name}")),
        }
    }
}

/// Returns the only copy of a statement that is put together from declarations.
///
/// It lives as long as the process; there are as many as there are declarations.
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
