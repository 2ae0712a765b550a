//! The common interface of the engines, so that callers need not know which one they use.

use std::fmt;

use crate::Result;
use crate::error::Error;

/// The outcome of truncating SQLite's write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalCut {
    /// It is empty.
    Done,
    /// A reader of an earlier snapshot prevents it, for as long as it reads.
    HeldBack,
    /// Another connection checkpoints or writes: worth retrying soon.
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
    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
        }
    }
}

/// The cause of the error of a statement that inserts a row with the key of another one.
#[derive(Debug)]
pub(crate) struct DuplicateKey(pub String);

impl fmt::Display for DuplicateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DuplicateKey {}

/// Returns whether a row had the key of one that was inserted.
pub(crate) fn is_duplicate(error: &Error) -> bool {
    error.cause().is_some_and(|cause| cause.is::<DuplicateKey>())
}

/// How often SQLite had to compile a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatementCounts {
    /// Compiled because it was new to the connection.
    pub prepared: u64,
    /// Compiled again although it was cached, as after a schema change or with new statistics.
    pub re_prepared: u64,
}

impl StatementCounts {
    /// Adds both.
    #[must_use]
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { prepared: self.prepared + other.prepared, re_prepared: self.re_prepared + other.re_prepared }
    }
}

/// Why a transaction cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionFailure {
    /// The connection is gone, and with it the transaction: no statement was at fault.
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

/// Checks the number of rows that a change touched.
///
/// Any other than its author expected is a defect, and must not be committed.
pub(crate) fn check_rows(wanted: Option<u64>, touched: u64, sql: &'static str) -> Result<()> {
    match wanted {
        Some(wanted) if wanted != touched => {
            Err(Error::internal(format!("{touched} rows were touched where {wanted} were expected: {sql}")))
        }
        _ => Ok(()),
    }
}
