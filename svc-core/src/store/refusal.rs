//! Errors for a database that cannot be opened, in terms for the operator who starts the program.
//!
//! Each cause has a text with the next step. Requests never return these errors.

use std::error::Error as StdError;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use secrecy::{ExposeSecret as _, SecretString};
use tokio_postgres::error::{DbError, SqlState};

use super::database::Database;
use crate::config::DatabaseUrl;
use crate::error::blocked::{Need, blocked, denied};
use crate::error::{Code, Error, is_disk_full};

/// Converts the error of a failed start into an error that tells the operator the next step.
pub(crate) fn refusal(error: Error, database: &Database) -> Error {
    let reported = match database {
        Database::Sqlite(path) => explain_sqlite_error(&error, path),
        Database::Postgres(url) => explain_postgres_error(&error, url),
    };
    match reported {
        Some(reported) => reported.caused_by(error),
        None if error.code() == Code::Internal => {
            Error::new(Code::Internal, "the database could not be prepared").caused_by(error)
        }
        None => error,
    }
}

/// Returns the error for a file that is not a SQLite database, or that is damaged.
pub(super) fn not_a_database_error(path: &Path) -> Error {
    Error::configuration(format!(
        "{} is not a SQLite database, or is damaged: restore it from a backup; nothing was touched",
        path.display()
    ))
}

/// Returns the error for an existing file that this process may not read.
pub(super) fn unreadable_error(path: &Path, error: std::io::Error) -> Error {
    blocked(Need::Read, path, &error).caused_by(error)
}

/// Returns whether a read failed because SQLite needs to write, which is forbidden or impossible here.
pub(super) fn needs_write_access(error: &Error) -> bool {
    sqlite_error_code_of(error).is_some_and(|code| {
        matches!(code, ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied)
    })
}

fn explain_sqlite_error(error: &Error, path: &Path) -> Option<Error> {
    let folder = path.parent().unwrap_or(path).display();
    let full = || {
        let text = format!("the disk of {folder} is full: make room; nothing was changed");
        Error::new(Code::Unavailable, text)
    };
    if error_chain(error).filter_map(|cause| cause.downcast_ref()).any(is_disk_full) {
        return Some(full());
    }
    match sqlite_error_code_of(error)? {
        ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt => Some(not_a_database_error(path)),
        ErrorCode::DiskFull => Some(full()),
        _ if needs_write_access(error) => {
            let reason =
                write_denial_reason(path).unwrap_or_else(|| "check owner, mode and mount".to_owned());
            Some(Error::configuration(format!(
                "the folder {folder} and the files in it must be writable for this user: {reason}"
            )))
        }
        _ => None,
    }
}

/// Returns the reason why this process cannot write a database, if the system reports one.
fn write_denial_reason(path: &Path) -> Option<String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let log_files = ["-wal", "-shm"].map(|end| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        name.into()
    });
    let all = [folder.to_owned(), path.to_owned()].into_iter().chain(log_files);
    all.filter(|path: &PathBuf| path.exists()).find_map(|path| denied(Need::Write, &path))
}

fn explain_postgres_error(error: &Error, url: &SecretString) -> Option<Error> {
    if let Some(tls) = error_chain(error).find_map(inner_tls_error) {
        return Some(Error::configuration(match tls {
            rustls::Error::InvalidCertificate(_) => {
                format!("the certificate of the PostgreSQL server in DATABASE_URL is not accepted: {tls}")
            }
            _ => format!("TLS with the PostgreSQL server in DATABASE_URL fails: {tls}"),
        }));
    }
    let state = error_chain(error).find_map(|cause| cause.downcast_ref::<DbError>().map(DbError::code));
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
        None if is_read_only_server(error) => {
            return Some(Error::new(
                Code::Unavailable,
                "no PostgreSQL server in DATABASE_URL accepts writes: name the primary, or promote a standby",
            ));
        }
        None if error.code() == Code::Unavailable => {
            if let Some(reason) = socket_denial_reason(url) {
                return Some(Error::new(Code::Unavailable, reason));
            }
            return Some(Error::new(
                Code::Unavailable,
                "the PostgreSQL server in DATABASE_URL cannot be reached: check the address, and that the \
                 server is running",
            ));
        }
        _ if is_missing_privilege(error) => {
            "the role in DATABASE_URL lacks a privilege: it must own the tables of svc, and for a set-up be \
             allowed to create them"
        }
        _ => return None,
    };
    Some(Error::configuration(reported))
}

/// Returns whether the server that was tried last accepts no writes.
///
/// Either the driver reports this for `target_session_attrs`, with this message and without a system error
/// number, or a statement fails.
fn is_read_only_server(error: &Error) -> bool {
    let is_driver_report = |cause: &std::io::Error| {
        cause.raw_os_error().is_none() && cause.to_string() == "database does not allow writes"
    };
    let state = SqlState::READ_ONLY_SQL_TRANSACTION;
    error_chain(error).any(|cause| {
        cause.downcast_ref().is_some_and(is_driver_report) || cause.to_string().starts_with(state.code())
    })
}

/// Returns the reason why a Unix socket in the URL refuses connections, if the socket's file shows the
/// reason.
fn socket_denial_reason(url: &SecretString) -> Option<String> {
    let url = DatabaseUrl::parse(url.expose_secret()).ok()?;
    let mut hosts = url.hosts().iter();
    hosts.find_map(|host| {
        let socket = host.socket_folder()?.join(format!(".s.PGSQL.{}", host.port));
        let reason = denied(Need::Write, &socket)?;
        Some(format!("the PostgreSQL server in DATABASE_URL cannot be reached: the socket {reason}"))
    })
}

/// Returns whether the role lacks a privilege. The cause of a failed statement begins with the SQLSTATE.
fn is_missing_privilege(error: &Error) -> bool {
    error_chain(error).any(|cause| cause.to_string().starts_with(SqlState::INSUFFICIENT_PRIVILEGE.code()))
}

/// Returns the TLS error inside an I/O error, where it is not the source of that error.
fn inner_tls_error<'a>(cause: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    cause.downcast_ref::<std::io::Error>()?.get_ref()?.downcast_ref()
}

fn sqlite_error_code_of(error: &Error) -> Option<ErrorCode> {
    error_chain(error).find_map(|cause| cause.downcast_ref::<rusqlite::Error>()?.sqlite_error_code())
}

/// Iterates over an error and its causes.
fn error_chain(error: &Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
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
