//! Maps SQLite's errors to errors of the service.

use rusqlite::{ErrorCode, ffi};

use crate::error::{Code, Error};
use crate::store::engine::DuplicateKey;

pub(in crate::store) fn sqlite_error(error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            Error::new(Code::Unavailable, "another process has locked the database").caused_by(error)
        }
        Some(ErrorCode::OperationInterrupted) => {
            Error::new(Code::Unavailable, "the read took too long and was stopped: request less data")
                .caused_by(error)
        }
        Some(ErrorCode::DiskFull) => disk_full_error(error),
        Some(ErrorCode::ReadOnly) => {
            Error::new(Code::Unavailable, "the database is not writable; nothing was changed")
                .caused_by(error)
        }
        Some(ErrorCode::SystemIoFailure) => {
            Error::new(Code::Unavailable, "the disk failed; nothing was changed").caused_by(error)
        }
        Some(ErrorCode::ConstraintViolation) if is_duplicate_key(&error) => {
            Error::internal(DuplicateKey(error.to_string()))
        }
        _ => Error::internal(error),
    }
}

pub(super) fn disk_full_error(cause: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(Code::Unavailable, "the disk is full; nothing was changed").caused_by(cause)
}

fn is_duplicate_key(error: &rusqlite::Error) -> bool {
    let extended = error.sqlite_error().map(|error| error.extended_code);
    matches!(extended, Some(ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_UNIQUE))
}

pub(super) fn sqlite_error_in(error: rusqlite::Error, sql: &'static str) -> Error {
    if error.sqlite_error_code() == Some(ErrorCode::Unknown) || error.sqlite_error_code().is_none() {
        return Error::internal(format!("{error} in: {sql}"));
    }
    sqlite_error(error)
}
