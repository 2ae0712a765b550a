//! The common interface of the engines, so that callers need not know which engine they use.

use std::fmt;

use crate::Result;
use crate::error::Error;

/// The outcome of truncating SQLite's write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalCut {
    /// The log is empty.
    Done,
    /// A reader of an earlier snapshot prevents truncation until its read ends.
    HeldBack,
    /// Another connection is checkpointing or writing. Retrying soon may succeed.
    Busy,
}

/// The database engine behind a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// SQLite, one file.
    Sqlite,
    /// PostgreSQL.
    Postgres,
}

impl Engine {
    /// Returns the name of the engine for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// Cause of an error: a statement inserted a row with the key of an existing row.
#[derive(Debug)]
pub(crate) struct DuplicateKey(pub String);

impl fmt::Display for DuplicateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DuplicateKey {}

/// Returns whether the error was caused by inserting a row with an existing key.
pub(crate) fn is_duplicate(error: &Error) -> bool {
    error.cause().is_some_and(|cause| cause.is::<DuplicateKey>())
}

/// The number of times that SQLite had to compile a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatementCounts {
    /// Number of statements compiled because they were new to the connection.
    pub prepared: u64,
    /// Number of cached statements compiled again, for example after a schema change or with new statistics.
    pub re_prepared: u64,
}

impl StatementCounts {
    /// Returns the sum of both counts.
    #[must_use]
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { prepared: self.prepared + other.prepared, re_prepared: self.re_prepared + other.re_prepared }
    }
}

/// The reason why a transaction cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionFailure {
    /// The connection was lost, and the transaction with it. No statement was at fault.
    Broken,
    /// The server did not respond in time, and the connection was closed.
    Silent,
    /// The server aborted this transaction to resolve a deadlock or a serialization conflict.
    Conflict,
    /// A lock was not granted in time.
    LockTimeout,
    /// The statement itself failed, and has aborted the transaction.
    Statement,
}

/// Checks the number of rows that a statement changed.
///
/// A number other than the declared one is a defect, and must not be committed.
pub(crate) fn check_rows(wanted: Option<u64>, touched: u64, sql: &'static str) -> Result<()> {
    match wanted {
        Some(wanted) if wanted != touched => {
            Err(Error::internal(format!("{touched} rows were touched where {wanted} were expected: {sql}")))
        }
        _ => Ok(()),
    }
}
