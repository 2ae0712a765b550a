//! Why a database cannot be opened, for the person who starts a program on it.
//!
//! Each cause has a text that says what to do. Requests never return these.

use std::error::Error as StdError;
use std::path::Path;

use rusqlite::ErrorCode;
use tokio_postgres::error::{DbError, SqlState};

use super::database::Database;
use crate::error::{Code, Error, is_full};

/// Converts the failure of a start into an error that says what to do.
pub(crate) fn refusal(error: Error, database: &Database) -> Error {
    let reported = match database {
        Database::Sqlite(path) => of_sqlite(&error, path),
        Database::Postgres(_) => of_postgres(&error),
    };
    match reported {
        Some(reported) => reported.caused_by(error),
        None if error.code() == Code::Internal => {
            Error::new(Code::Internal, "the database could not be prepared").caused_by(error)
        }
        None => error,
    }
}

/// Returns the error for a file that is not what a setup created.
pub(super) fn not_a_database(path: &Path) -> Error {
    Error::configuration(format!(
        "{} is not a SQLite database, or is damaged: restore it from a backup; nothing was touched",
        path.display()
    ))
}

/// Returns the error for a file that exists, and that this process may not read.
pub(super) fn unreadable(path: &Path, error: std::io::Error) -> Error {
    Error::configuration(format!("{} cannot be read: check its owner and its mode", path.display()))
        .caused_by(error)
}

/// Returns whether SQLite could not read without writing, which it must not or cannot do here.
pub(super) fn is_read_only(error: &Error) -> bool {
    sqlite_code(error).is_some_and(|code| {
        matches!(code, ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied)
    })
}

/// Returns whether SQLite found an incomplete file.
pub(super) fn is_damaged(error: &Error) -> bool {
    sqlite_code(error) == Some(ErrorCode::DatabaseCorrupt)
}

fn of_sqlite(error: &Error, path: &Path) -> Option<Error> {
    let folder = path.parent().unwrap_or(path).display();
    let full = || {
        let text = format!("the disk of {folder} is full: make room; nothing was changed");
        Error::new(Code::Unavailable, text)
    };
    if causes(error).filter_map(|cause| cause.downcast_ref()).any(is_full) {
        return Some(full());
    }
    match sqlite_code(error)? {
        ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt => Some(not_a_database(path)),
        ErrorCode::DiskFull => Some(full()),
        _ if is_read_only(error) => Some(Error::configuration(format!(
            "the folder {folder} and the files in it must be writable for this user: check owner, mode and \
             mount"
        ))),
        _ => None,
    }
}

fn of_postgres(error: &Error) -> Option<Error> {
    if let Some(tls) = causes(error).find_map(tls_error) {
        return Some(Error::configuration(match tls {
            rustls::Error::InvalidCertificate(_) => {
                format!("the certificate of the PostgreSQL server in DATABASE_URL is not accepted: {tls}")
            }
            _ => format!("TLS with the PostgreSQL server in DATABASE_URL fails: {tls}"),
        }));
    }
    let state = causes(error).find_map(|cause| cause.downcast_ref::<DbError>().map(DbError::code));
    let reported = match state {
        Some(state) if *state == SqlState::INVALID_CATALOG_NAME => {
            "the database that DATABASE_URL names does not exist: create it, or correct the name"
        }
        Some(state)
            if [SqlState::INVALID_PASSWORD, SqlState::INVALID_AUTHORIZATION_SPECIFICATION]
                .contains(state) =>
        {
            "the PostgreSQL server rejects the user in DATABASE_URL: create the role, or correct the user \
             or the password"
        }
        Some(state) if *state == SqlState::TOO_MANY_CONNECTIONS => {
            return Some(Error::new(
                Code::Unavailable,
                "the PostgreSQL server accepts no more connections: raise max_connections, or stop other \
                 programs",
            ));
        }
        None if error.code() == Code::Unavailable => {
            return Some(Error::new(
                Code::Unavailable,
                "the PostgreSQL server in DATABASE_URL cannot be reached: check the address, and that the \
                 server is running",
            ));
        }
        _ if lacks_privilege(error) => {
            "the role in DATABASE_URL lacks a privilege: it must own the tables of svc, and for a set-up be \
             allowed to create them"
        }
        _ => return None,
    };
    Some(Error::configuration(reported))
}

/// Returns whether the role lacks a privilege: the cause of a failed statement begins with its SQLSTATE.
fn lacks_privilege(error: &Error) -> bool {
    causes(error).any(|cause| cause.to_string().starts_with(SqlState::INSUFFICIENT_PRIVILEGE.code()))
}

/// Returns what TLS reports: an I/O error has it inside, not behind it.
fn tls_error<'a>(cause: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    cause.downcast_ref::<std::io::Error>()?.get_ref()?.downcast_ref()
}

fn sqlite_code(error: &Error) -> Option<ErrorCode> {
    causes(error).find_map(|cause| cause.downcast_ref::<rusqlite::Error>()?.sqlite_error_code())
}

/// Iterates over the error and its causes.
fn causes(error: &Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(Some(error as &(dyn StdError + 'static)), |error: &&(dyn StdError + 'static)| {
        (*error).source()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_finds_no_space_says_where_whoever_has_found_that() {
        let database = Database::Sqlite("/data/svc.db".into());
        let of_sqlite = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
        let of_sqlite = rusqlite::Error::SqliteFailure(of_sqlite, None);
        let of_the_system = std::io::Error::from(std::io::ErrorKind::StorageFull);
        for error in [Error::internal("").caused_by(of_sqlite), Error::internal("").caused_by(of_the_system)]
        {
            let found = refusal(error, &database);
            assert!(found.detail().contains("the disk of /data is full: make room"), "{found}");
        }
    }
}
