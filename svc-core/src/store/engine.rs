//! Types that both database engines share, such as the reasons why a transaction fails.

use std::fmt;

use crate::Result;
use crate::error::Error;

/// The outcome of truncating SQLite's write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalTruncation {
    /// The log is empty.
    Done,
    /// A reader of an earlier snapshot prevents truncation until its read ends.
    BlockedByReader,
    /// Another connection is checkpointing or writing. Retrying soon may succeed.
    Busy,
}

/// A database engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// SQLite, which stores the database in one file.
    Sqlite,
    /// PostgreSQL, a database server.
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
pub(crate) fn is_duplicate_key_error(error: &Error) -> bool {
    error.cause().is_some_and(|cause| cause.is::<DuplicateKey>())
}

/// How often SQLite compiled statements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatementCounts {
    /// Number of statements compiled because they were new to the connection.
    pub prepared: u64,
    /// Number of cached statements compiled again, for example after a schema change or with new statistics.
    pub re_prepared: u64,
}

impl StatementCounts {
    /// Returns these counts plus the counts in `other`.
    #[must_use]
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { prepared: self.prepared + other.prepared, re_prepared: self.re_prepared + other.re_prepared }
    }
}

/// The reason why a transaction cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionFailure {
    /// The connection was lost, which ended the transaction. No statement was at fault.
    Broken,
    /// The server did not respond in time, and the connection was closed.
    Timeout,
    /// The server aborted this transaction to resolve a deadlock or a serialization conflict.
    Conflict,
    /// A lock was not granted in time.
    LockTimeout,
    /// A statement failed, for example because of a constraint, which aborted the transaction.
    Statement,
}

/// Fails if a statement has not changed the wanted number of rows.
///
/// A different number is a defect of the program, and the change must not be committed. If `wanted` is
/// `None`, any number is accepted.
pub(crate) fn check_row_count(wanted: Option<u64>, touched: u64, sql: &'static str) -> Result<()> {
    match wanted {
        Some(wanted) if wanted != touched => {
            Err(Error::internal(format!("{touched} rows were touched where {wanted} were expected: {sql}")))
        }
        _ => Ok(()),
    }
}
