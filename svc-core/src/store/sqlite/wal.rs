//! Checkpoints SQLite's write-ahead log, and overwrites the frames of a failed commit in the log.

use std::time::Duration;

use rusqlite::config::DbConfig;

use super::SqliteConn;
use super::errors::sqlite_error;
use super::timeouts::BUSY_TIMEOUT;
use crate::error::Result;
use crate::limits::SQLITE_BUSY_TIMEOUT;
use crate::store::disk::DiskErrorKind;
use crate::store::engine::WalTruncation;

/// Maximum time that a truncation of the write-ahead log waits for readers before it is postponed.
const TRUNCATE_TIMEOUT: Duration = Duration::from_millis(20);

/// Maximum time that a truncation waits for readers on a full disk, where nothing can be written until it
/// succeeds.
const FULL_DISK_TIMEOUT: Duration = Duration::from_millis(500);

impl SqliteConn {
    /// Sets whether SQLite keeps the write-ahead log when the last connection to the file is closed.
    pub(crate) fn set_keep_wal(&self, keep: bool) -> Result<()> {
        let config = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        self.conn.set_db_config(config, keep).map(drop).map_err(sqlite_error)
    }

    /// Overwrites the frames of a failed commit in the write-ahead log, so that no recovery restores the
    /// commit.
    ///
    /// On a full disk it first moves the log into the file, so that the log does not use up the remaining
    /// space. Does nothing if no write has failed.
    pub fn recover_from_write_error(&self) -> Result<()> {
        if self.disk.error_kind() == DiskErrorKind::Full {
            // A reader that has prevented truncation will probably do so again, so this waits only briefly
            // for it.
            let timeout = if self.blocked_by_reader.get() { TRUNCATE_TIMEOUT } else { FULL_DISK_TIMEOUT };
            let cut = self.truncate_wal_within(timeout)?;
            self.blocked_by_reader.set(cut == WalTruncation::BlockedByReader);
        }
        if self.disk.has_error() {
            let version = self.pragma("user_version")?;
            // Any write is sufficient; the number itself is never read.
            let sql = format!("pragma user_version = {}", version.wrapping_add(1) & 0xFFFF);
            self.conn.execute_batch(&sql).map_err(|error| self.record_error(error, sqlite_error))?;
            self.record_successful_write()?;
        }
        Ok(())
    }

    /// Clears the disk's failure after a successful write.
    ///
    /// A small write may succeed even on a full disk, for example in the space of the truncated log. The disk
    /// counts as full until there is enough free space.
    pub(super) fn record_successful_write(&self) -> Result<()> {
        if self.disk.error_kind() != DiskErrorKind::Full || self.has_spare_space()? {
            self.disk.set_error_kind(DiskErrorKind::None);
        }
        Ok(())
    }

    /// Tries to checkpoint the entire write-ahead log and truncate it.
    ///
    /// Writers are blocked while this waits for readers, so it does not wait long.
    pub(crate) fn truncate_wal(&self) -> Result<WalTruncation> {
        self.truncate_wal_within(TRUNCATE_TIMEOUT)
    }

    fn truncate_wal_within(&self, timeout: Duration) -> Result<WalTruncation> {
        BUSY_TIMEOUT.set(timeout);
        let found = self.conn.query_row("pragma wal_checkpoint(truncate)", [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        });
        BUSY_TIMEOUT.set(SQLITE_BUSY_TIMEOUT);
        Ok(match found.map_err(sqlite_error)? {
            (0, ..) => WalTruncation::Done,
            // Frames remain, because a reader may still need the pages that they replace.
            (_, frames, moved) if frames > moved => WalTruncation::BlockedByReader,
            // Another connection has the checkpoint lock or the write lock.
            _ => WalTruncation::Busy,
        })
    }

    /// Checkpoints as many pages of the write-ahead log as possible without waiting.
    pub fn checkpoint(&self) -> Result<()> {
        self.conn.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(())).map_err(sqlite_error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::file;
    use crate::store::sqlite::Role;

    /// Returns a database with a log, the connection that wrote it, and another write connection.
    fn with_a_wal() -> (tempfile::TempDir, SqliteConn, SqliteConn) {
        let folder = tempfile::tempdir().unwrap();
        let open = |role| SqliteConn::open(&folder.path().join("t.db"), role).unwrap();
        let conn = open(Role::Creator);
        let other = open(Role::Writer);
        conn.batch("create table t (n bigint); insert into t values (1)").unwrap();
        (folder, conn, other)
    }

    fn wal_bytes(folder: &tempfile::TempDir) -> u64 {
        file::wal_bytes(&folder.path().join("t.db"))
    }

    #[test]
    fn a_wal_that_cannot_be_truncated_says_whether_to_retry_soon() {
        let (folder, conn, other) = with_a_wal();
        other.batch("begin; select * from t").unwrap();
        conn.batch("insert into t values (2)").unwrap();
        assert_eq!(
            conn.truncate_wal().unwrap(),
            WalTruncation::BlockedByReader,
            "a reader of an earlier state"
        );
        other.batch("commit; begin immediate").unwrap();
        assert_eq!(conn.truncate_wal().unwrap(), WalTruncation::Busy, "another connection writes");
        assert!(wal_bytes(&folder) > 0);
        other.batch("commit").unwrap();
        assert_eq!(conn.truncate_wal().unwrap(), WalTruncation::Done);
        assert_eq!(wal_bytes(&folder), 0);
    }

    #[test]
    fn on_a_full_disk_the_wal_is_truncated_before_anything_is_written() {
        let (folder, conn, _) = with_a_wal();
        let before = wal_bytes(&folder);
        conn.recover_from_write_error().unwrap();
        assert_eq!(wal_bytes(&folder), before, "nothing is wrong");
        conn.disk_state().set_error_kind(DiskErrorKind::Full);
        conn.recover_from_write_error().unwrap();
        // The recovery itself writes one page.
        assert!(wal_bytes(&folder) < before && !conn.disk_state().has_error());
    }
}
