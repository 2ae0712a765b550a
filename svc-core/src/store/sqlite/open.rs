//! Opening a SQLite file: the roles of connections, and the settings for each role.
//!
//! A writer is fully durable and overwrites deleted data; a reader cannot write.

use std::cell::{Cell, RefCell};
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OpenFlags, ffi};

use super::errors::sqlite_error;
use super::space::{FileSpace, PAGE_BYTES};
use super::timeouts::{StatementLimit, wait_for_lock};
use super::{SqliteConn, TaskState};
use crate::data_access::share_sqlite_files;
use crate::error::Result;
use crate::error::blocked::{Need, blocked};
use crate::hash::sha256;
use crate::store::budget::ReadInterrupt;
use crate::store::disk::DiskState;
use crate::store::engine::TransactionFailure;
use crate::store::file::{OpenFileMark, ReadableFile};
use crate::store::transaction::TransactionState;
use crate::time::Clock;

/// Maximum prepared statements that a connection caches, which is more than the number of statements in the
/// service.
const CACHED_STATEMENTS_MAX: usize = 1024;

/// The role of a SQLite connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Reads and writes, and creates the file if it is missing.
    Creator,
    /// Reads and writes an existing file.
    Writer,
    /// Reads only, with time limits for reads.
    Reader,
    /// Reads only, for scans that read each row once.
    Scanner,
    /// Reads a file for verification, and must not change the file.
    Auditor,
}

/// Returns the size of a connection's page cache, in KiB.
fn page_cache_kib(role: Role) -> i64 {
    match role {
        // A larger cache would only be filled with pages that are not read again.
        Role::Scanner => 4 << 10,
        _ => 64 << 10,
    }
}

/// Rejects a read-only file: SQLite would open it nevertheless, and then fail each write.
fn check_writable(conn: &Connection) -> Result<()> {
    if !conn.is_readonly("main").map_err(sqlite_error)? {
        return Ok(());
    }
    let code = ffi::Error::new(ffi::SQLITE_READONLY);
    Err(sqlite_error(rusqlite::Error::SqliteFailure(code, None)))
}

/// Adds the function `sha256(text)`, which is built into PostgreSQL.
fn add_sha256(conn: &Connection) -> rusqlite::Result<()> {
    let flags =
        FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC | FunctionFlags::SQLITE_DIRECTONLY;
    conn.create_scalar_function("sha256", 1, flags, |call| {
        let text: String = call.get(0)?;
        Ok(sha256(text.as_bytes()).to_vec())
    })
}

impl SqliteConn {
    pub(crate) fn open(path: &Path, role: Role) -> Result<Self> {
        let access = match role {
            Role::Creator => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
            Role::Writer | Role::Reader | Role::Scanner => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Role::Auditor => OpenFlags::SQLITE_OPEN_READ_ONLY,
        };
        Self::connect(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX, role, Some(path))
    }

    /// Opens a file for verification, by the method of reading that `file` specifies.
    pub(crate) fn open_for_audit(file: &ReadableFile) -> Result<Self> {
        let (uri, flags) = file.uri_and_flags();
        Self::connect(&uri, flags, Role::Auditor, file.shared_path())
    }

    /// Opens a connection. `shared` is the path of the file, if other connections may have the file open too.
    fn connect(uri: &Path, flags: OpenFlags, role: Role, shared: Option<&Path>) -> Result<Self> {
        let can_write = matches!(role, Role::Creator | Role::Writer);
        // Declared before the connection, so that it is dropped after the connection.
        let mark =
            if role == Role::Creator { OpenFileMark::create_and_mark } else { OpenFileMark::mark_existing };
        let mut file_mark = shared.and_then(mark);
        let mut conn = Connection::open_with_flags(uri, flags).map_err(sqlite_error)?;
        // If the file turns out to be damaged, it and its log stay unchanged.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).map_err(sqlite_error)?;
        if role != Role::Auditor {
            check_writable(&conn)?;
        }
        conn.set_prepared_statement_cache_capacity(CACHED_STATEMENTS_MAX);
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(sqlite_error)?;
        conn.busy_handler(Some(wait_for_lock)).map_err(sqlite_error)?;
        add_sha256(&conn).map_err(sqlite_error)?;
        if role == Role::Creator {
            conn.pragma_update(None, "page_size", PAGE_BYTES).map_err(sqlite_error)?;
        }
        if can_write {
            conn.pragma_update(None, "journal_mode", "wal").map_err(sqlite_error)?;
        }
        conn.execute_batch(match role {
            Role::Creator | Role::Writer => {
                "pragma synchronous = full; pragma wal_autocheckpoint = 0; pragma secure_delete = on;
                 pragma foreign_keys = on; pragma mmap_size = 0; pragma temp_store = memory;
                 pragma journal_size_limit = 67108864;"
            }
            Role::Reader | Role::Scanner | Role::Auditor => {
                "pragma query_only = on; pragma mmap_size = 0; pragma temp_store = memory;"
            }
        })
        .map_err(sqlite_error)?;
        if let Some(path) = shared.filter(|_| can_write) {
            share_sqlite_files(path).map_err(|error| blocked(Need::Write, path, &error))?;
        }
        conn.pragma_update(None, "cache_size", -page_cache_kib(role)).map_err(sqlite_error)?;
        let is_limited = matches!(role, Role::Reader | Role::Scanner);
        // SQLite also creates the target of a symbolic link.
        if file_mark.is_none() {
            file_mark = shared.and_then(OpenFileMark::mark_existing);
        }
        let file = file_mark.as_ref().filter(|_| can_write).map(OpenFileMark::handle).transpose()?;
        let limit = is_limited
            .then(|| StatementLimit::install(&mut conn, Clock::system(), ReadInterrupt::default()))
            .transpose()?;
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false).map_err(sqlite_error)?;
        Ok(Self {
            limit,
            read_limit: None,
            conn,
            space: file.zip(shared).map(|(file, path)| FileSpace::new(file, path)),
            _open_file_mark: file_mark,
            rewritten_sql: RefCell::default(),
            transaction: TransactionState::new(TransactionFailure::Statement)?,
            task_state: Cell::new(TaskState::None),
            disk: DiskState::default(),
            blocked_by_reader: Cell::new(false),
            data_version: Cell::new(-1),
            counts: Cell::default(),
            watcher: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::store::{Database, refusal};

    #[test]
    fn a_writer_is_fully_durable_and_deletes_securely() {
        let folder = tempfile::tempdir().unwrap();
        let conn = SqliteConn::open(&folder.path().join("t.db"), Role::Creator).unwrap();
        let wanted = [
            ("synchronous", 2),
            ("secure_delete", 1),
            ("foreign_keys", 1),
            ("mmap_size", 0),
            ("auto_vacuum", 0),
            ("page_size", PAGE_BYTES.into()),
        ];
        for (pragma, wanted) in wanted {
            assert_eq!(conn.pragma(pragma).unwrap(), wanted, "{pragma}");
        }
    }

    #[test]
    fn a_file_that_is_created_through_a_link_is_marked_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        let link = folder.path().join("link.db");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let conn = SqliteConn::open(&link, Role::Creator).unwrap();
        assert!(path.exists() && conn._open_file_mark.is_some() && conn.space.is_some());
    }

    #[test]
    fn a_read_only_file_is_rejected_where_it_must_be_writable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        SqliteConn::open(&path, Role::Creator).unwrap().batch("create table t (n bigint)").unwrap();
        let open = |role| SqliteConn::connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY, role, Some(&path));
        for role in [Role::Creator, Role::Writer, Role::Reader, Role::Scanner] {
            let rejected = open(role).map(drop).unwrap_err();
            assert_eq!(rejected.code(), Code::Unavailable, "{role:?}");
            let database = Database::Sqlite(path.clone());
            let convert = refusal::refusal(rejected, &database);
            assert_eq!(convert.code(), Code::Configuration);
            assert!(convert.detail().contains("must be writable for this user"), "{convert}");
        }
        assert!(open(Role::Auditor).is_ok());
    }
}
