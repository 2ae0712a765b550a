//! Scans: statements with any number of rows, which are visited one by one.
//!
//! SQLite steps through one statement; Postgres has a cursor, from which some rows are fetched at a time. So
//! neither holds all rows, and the time limit of a statement applies to each step.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex};

use crate::sync::lock;

/// A statement whose rows are visited one by one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scan {
    pub sqlite: &'static str,
    pub declare: &'static str,
    pub fetch: &'static str,
    pub close: &'static str,
}

/// Rows fetched at a time.
pub(super) const FETCHED: usize = 128;

impl Scan {
    /// Creates a scan with a unique name, of the rows that these statements select.
    pub fn new(name: &str, sqlite: &str, postgres: &str) -> Self {
        Self {
            sqlite: interned(sqlite.to_owned()),
            declare: interned(format!("declare scan_{name} no scroll cursor for {postgres}")),
            fetch: interned(format!("fetch forward {FETCHED} from scan_{name}")),
            close: interned(format!("close scan_{name}")),
        }
    }
}

/// Returns the only copy of a statement that is generated from declarations.
///
/// It lives as long as the process; there is one per declaration.
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
