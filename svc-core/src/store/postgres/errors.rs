//! Translates errors of the server and broken connections into errors for callers.

use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::error::{Code, Error};
use crate::store::engine::{DuplicateKey, TransactionFailure};
use crate::store::transaction::outcome_unknown_error;

/// A failure on a connection: its effect on the transaction, and the error for the caller.
pub(super) struct PgFailure {
    pub failure: TransactionFailure,
    pub error: Error,
}

/// The result of waiting for the server's reply.
pub(super) type PgResult<T> = std::result::Result<T, PgFailure>;

impl PgFailure {
    /// Creates the failure for the driver's error about the statement `sql`.
    pub fn from_driver(error: tokio_postgres::Error, sql: &str) -> Self {
        let failure = classify_failure(&error);
        let error = match error.as_db_error() {
            Some(db) if is_transient(db) => unavailable_error(format!("{} in: {sql}", describe(db))),
            Some(db) if *db.code() == SqlState::UNIQUE_VIOLATION => {
                Error::internal(DuplicateKey(format!("{} in: {sql}", describe(db))))
            }
            Some(db) => Error::internal(format!("{} in: {sql}", describe(db))),
            None if failure == TransactionFailure::Broken => broken_connection_error(error),
            None => Error::internal(format!("{error:?} in: {sql}")),
        };
        Self { failure, error }
    }

    /// Creates the failure for the driver's error about a commit.
    ///
    /// After an error that leaves the session open, the server has rolled back. After any other error, such
    /// as an unreadable reply, the outcome is unknown and the session is closed.
    pub fn from_commit(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(db) if !ends_session(db) => Self::from_driver(error, "commit"),
            _ => Self { failure: TransactionFailure::Broken, error: outcome_unknown_error(error) },
        }
    }

    /// Creates the failure for a server that did not respond in time.
    ///
    /// The outcome of the statement is not known, so the session is closed.
    pub fn timed_out() -> Self {
        Self {
            failure: TransactionFailure::Timeout,
            error: broken_connection_error("the server did not respond in time"),
        }
    }

    /// Creates the failure for a session that ended before anything was sent.
    pub fn session_ended() -> Self {
        Self { failure: TransactionFailure::Broken, error: broken_connection_error("the session has ended") }
    }

    /// Creates the failure for a defect that is unrelated to the connection.
    pub fn from_defect(error: Error) -> Self {
        Self { failure: TransactionFailure::Statement, error }
    }
}

fn classify_failure(error: &tokio_postgres::Error) -> TransactionFailure {
    match error.as_db_error() {
        None if is_local(error) => TransactionFailure::Statement,
        None => TransactionFailure::Broken,
        Some(db) if ends_session(db) => TransactionFailure::Broken,
        Some(db)
            if matches!(
                *db.code(),
                SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED
            ) =>
        {
            TransactionFailure::Conflict
        }
        Some(db) if *db.code() == SqlState::LOCK_NOT_AVAILABLE => TransactionFailure::LockTimeout,
        Some(_) => TransactionFailure::Statement,
    }
}

/// Returns whether the error is local: a parameter or a column of the wrong type.
///
/// Such an error occurs before anything is sent, or while reading a reply that has arrived.
fn is_local(error: &tokio_postgres::Error) -> bool {
    let cause = std::error::Error::source(error);
    !error.is_closed() && cause.is_none_or(|cause| !cause.is::<std::io::Error>())
}

fn ends_session(db: &DbError) -> bool {
    matches!(db.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
}

/// Returns whether the error is temporary, so that the request itself is not at fault.
///
/// Checks SQLSTATE classes and codes (PostgreSQL manual, appendix A) for the connection, the server's
/// resources, an operator's intervention, a read-only standby, a session that was idle in its transaction for
/// too long, a conflict with another transaction, and a lock that was not granted in time.
fn is_transient(db: &DbError) -> bool {
    const CLASSES: [&str; 3] = ["08", "53", "57"];
    const CODES: [&str; 5] = ["25006", "25P03", "40001", "40P01", "55P03"];
    let code = db.code().code();
    CODES.contains(&code) || CLASSES.iter().any(|class| code.starts_with(class))
}

fn unavailable_error(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(Code::Unavailable, "the database cannot do this now; nothing was changed").caused_by(cause)
}

/// Returns the error for a connection or transaction that ended before a commit was sent.
pub(super) fn broken_connection_error(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(Code::Unavailable, "the connection to the database broke; nothing was changed")
        .caused_by(cause)
}

/// Returns the error for a database to which no connection can be opened.
pub(super) fn unreachable_error(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(Code::Unavailable, "the database cannot be reached").caused_by(cause)
}

/// Formats a server's error message without its detail, which would quote values.
fn describe(db: &DbError) -> String {
    format!("{}: {}", db.code().code(), db.message())
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::super::{PgConn, parse_url, server_for_tests};
    use super::*;

    /// An SQLSTATE, the expected error code, and the effect on the transaction.
    const EXPECTED: [(&str, Code, TransactionFailure); 14] = [
        ("08006", Code::Unavailable, TransactionFailure::Statement),
        ("22012", Code::Internal, TransactionFailure::Statement),
        ("23505", Code::Internal, TransactionFailure::Statement),
        ("25006", Code::Unavailable, TransactionFailure::Statement),
        ("25P03", Code::Unavailable, TransactionFailure::Statement),
        ("40001", Code::Unavailable, TransactionFailure::Conflict),
        ("40P01", Code::Unavailable, TransactionFailure::Conflict),
        ("42501", Code::Internal, TransactionFailure::Statement),
        ("42P01", Code::Internal, TransactionFailure::Statement),
        ("53100", Code::Unavailable, TransactionFailure::Statement),
        ("55P03", Code::Unavailable, TransactionFailure::LockTimeout),
        ("57014", Code::Unavailable, TransactionFailure::Statement),
        ("57P01", Code::Unavailable, TransactionFailure::Statement),
        ("XX000", Code::Internal, TransactionFailure::Statement),
    ];

    #[test]
    fn errors_are_classified_by_their_sqlstate() {
        let Some(server) = server_for_tests() else { return };
        let conn = PgConn::open(&parse_url(&SecretString::from(server)).unwrap()).unwrap();
        for (state, code, failure) in EXPECTED {
            conn.begin("begin").unwrap();
            let raise = format!("do $$ begin raise exception using errcode = '{state}'; end $$");
            let error = conn.batch(&raise).unwrap_err();
            assert_eq!((error.code(), conn.failure()), (code, Some(failure)), "{state}: {:?}", error.cause());
            conn.rollback().unwrap();
        }
        conn.begin("begin").unwrap();
        let error = conn.batch("select pg_terminate_backend(pg_backend_pid())").unwrap_err();
        assert_eq!((error.code(), conn.failure()), (Code::Unavailable, Some(TransactionFailure::Broken)));
        conn.rollback().unwrap();
        conn.batch("select 1").unwrap();
    }

    /// Only an error from the server counts as a rollback.
    ///
    /// An error of the driver itself, which sends nothing and ends no session, does not determine the outcome
    /// of a commit.
    #[test]
    fn an_unreadable_reply_to_a_commit_means_an_unknown_outcome() {
        let Some(server) = server_for_tests() else { return };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let [unreadable, rejected] = runtime.block_on(async {
            let config = parse_url(&SecretString::from(server)).unwrap();
            let (client, connection) = config.connect().await.unwrap();
            tokio::spawn(connection);
            let unreadable = client.query_one("select 1 where false", &[]).await.unwrap_err();
            [unreadable, client.batch_execute("select 1 / 0").await.unwrap_err()]
        });
        let unreadable = PgFailure::from_commit(unreadable);
        let rejected = PgFailure::from_commit(rejected);
        assert_eq!(
            (unreadable.error.code(), unreadable.failure),
            (Code::OutcomeUnknown, TransactionFailure::Broken)
        );
        assert_eq!(
            (rejected.error.code(), rejected.failure),
            (Code::Internal, TransactionFailure::Statement)
        );
    }
}
