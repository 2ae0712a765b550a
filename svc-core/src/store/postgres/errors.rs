//! What the server's refusals and broken connections mean to callers.

use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::error::{Code, Error};
use crate::store::conn::Failure;
use crate::store::transaction::outcome_unknown;

/// A failure with what callers are told of it.
pub(super) struct Failed {
    pub failure: Failure,
    pub error: Error,
}

/// What waiting for the server comes to.
pub(super) type Outcome<T> = std::result::Result<T, Failed>;

impl Failed {
    /// A failure of a statement that was sent.
    pub fn of(error: tokio_postgres::Error, sql: &str) -> Self {
        let failure = failure_of(&error);
        let error = match error.as_db_error() {
            Some(db) if is_transient(db) => refused_for_now(format!("{} in: {sql}", describe(db))),
            Some(db) => Error::internal(format!("{} in: {sql}", describe(db))),
            None if failure == Failure::Broken => broken(error),
            None => Error::internal(format!("{error:?} in: {sql}")),
        };
        Self { failure, error }
    }

    /// A commit that was sent. A refusal that leaves the session standing is the server's word that it rolled back;
    /// after anything else, such as an answer that cannot be read, nobody knows, and the session is given up.
    pub fn of_commit(error: tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(db) if !ends_session(db) => Self::of(error, "commit"),
            _ => Self { failure: Failure::Broken, error: outcome_unknown(error) },
        }
    }

    /// The server did not answer in time. What becomes of the statement is not known, so the session is given up.
    pub fn silent() -> Self {
        Self { failure: Failure::Silent, error: broken("the server did not answer in time") }
    }

    /// There is no session.
    pub fn unopened(error: Error) -> Self {
        Self { failure: Failure::Broken, error }
    }

    /// A defect that has nothing to do with the connection.
    pub fn defect(error: Error) -> Self {
        Self { failure: Failure::Statement, error }
    }
}

fn failure_of(error: &tokio_postgres::Error) -> Failure {
    match error.as_db_error() {
        None if is_local(error) => Failure::Statement,
        None => Failure::Broken,
        Some(db) if ends_session(db) => Failure::Broken,
        Some(db)
            if matches!(
                *db.code(),
                SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED
            ) =>
        {
            Failure::Conflict
        }
        Some(db) if *db.code() == SqlState::LOCK_NOT_AVAILABLE => Failure::LockTimeout,
        Some(_) => Failure::Statement,
    }
}

/// Whether the error arose before anything was sent, or in reading an answer that came: a parameter or a column of
/// the wrong type.
fn is_local(error: &tokio_postgres::Error) -> bool {
    let cause = std::error::Error::source(error);
    !error.is_closed() && cause.is_none_or(|cause| !cause.is::<std::io::Error>())
}

fn ends_session(db: &DbError) -> bool {
    matches!(db.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
}

/// SQLSTATE classes and codes (PostgreSQL manual, appendix A) in which nothing is wrong with the request: the
/// connection, the server's resources, an operator's intervention, a read-only standby, a session that was idle
/// in its transaction for too long, a conflict with another transaction, a lock that was not granted in time.
fn is_transient(db: &DbError) -> bool {
    const CLASSES: [&str; 3] = ["08", "53", "57"];
    const CODES: [&str; 5] = ["25006", "25P03", "40001", "40P01", "55P03"];
    let code = db.code().code();
    CODES.contains(&code) || CLASSES.iter().any(|class| code.starts_with(class))
}

fn refused_for_now(cause: String) -> Error {
    Error::new(Code::Unavailable, "the database cannot do this now; nothing was changed: try again")
        .caused_by(cause)
}

/// The connection ended, or a transaction with it, before a commit was asked for.
pub(super) fn broken(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(Code::Unavailable, "the connection to the database broke; nothing was changed: try again")
        .caused_by(cause)
}

/// The database cannot be connected to.
pub(super) fn unreachable(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::new(Code::Unavailable, "the database cannot be reached; try again").caused_by(cause)
}

/// A server's message without the values that its detail would quote.
fn describe(db: &DbError) -> String {
    format!("{}: {}", db.code().code(), db.message())
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::super::{PgConn, parse_url, server_for_tests};
    use super::*;

    /// What a refusal with an SQLSTATE is told as, and what it does to the transaction.
    const TOLD: [(&str, Code, Failure); 14] = [
        ("08006", Code::Unavailable, Failure::Statement),
        ("22012", Code::Internal, Failure::Statement),
        ("23505", Code::Internal, Failure::Statement),
        ("25006", Code::Unavailable, Failure::Statement),
        ("25P03", Code::Unavailable, Failure::Statement),
        ("40001", Code::Unavailable, Failure::Conflict),
        ("40P01", Code::Unavailable, Failure::Conflict),
        ("42501", Code::Internal, Failure::Statement),
        ("42P01", Code::Internal, Failure::Statement),
        ("53100", Code::Unavailable, Failure::Statement),
        ("55P03", Code::Unavailable, Failure::LockTimeout),
        ("57014", Code::Unavailable, Failure::Statement),
        ("57P01", Code::Unavailable, Failure::Statement),
        ("XX000", Code::Internal, Failure::Statement),
    ];

    #[test]
    fn refusals_are_told_by_their_state() {
        let Some(server) = server_for_tests() else { return };
        let conn = PgConn::open(&parse_url(&SecretString::from(server)).unwrap()).unwrap();
        for (state, code, failure) in TOLD {
            conn.begin("begin").unwrap();
            let raise = format!("do $$ begin raise exception using errcode = '{state}'; end $$");
            let error = conn.batch(&raise).unwrap_err();
            assert_eq!((error.code(), conn.failure()), (code, Some(failure)), "{state}: {:?}", error.cause());
            conn.rollback().unwrap();
        }
        conn.begin("begin").unwrap();
        let error = conn.batch("select pg_terminate_backend(pg_backend_pid())").unwrap_err();
        assert_eq!((error.code(), conn.failure()), (Code::Unavailable, Some(Failure::Broken)));
        conn.rollback().unwrap();
        conn.batch("select 1").unwrap();
    }

    /// Only the server's word for it is a rollback: an error of the driver's own, which sends nothing and ends no
    /// session, says nothing about a commit.
    #[test]
    fn an_answer_to_a_commit_that_cannot_be_read_tells_nothing() {
        let Some(server) = server_for_tests() else { return };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let [unread, refused] = runtime.block_on(async {
            let config = parse_url(&SecretString::from(server)).unwrap();
            let (client, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
            tokio::spawn(connection);
            let unread = client.query_one("select 1 where false", &[]).await.unwrap_err();
            [unread, client.batch_execute("select 1 / 0").await.unwrap_err()]
        });
        let (unread, refused) = (Failed::of_commit(unread), Failed::of_commit(refused));
        assert_eq!((unread.error.code(), unread.failure), (Code::OutcomeUnknown, Failure::Broken));
        assert_eq!((refused.error.code(), refused.failure), (Code::Internal, Failure::Statement));
    }
}
