//! The write-ahead log: moving it into the file, and overwriting what a failed commit left in it.

use std::time::Duration;

use rusqlite::config::DbConfig;

use super::SqliteConn;
use super::errors::failed;
use super::timeouts::BUSY_TIMEOUT;
use crate::error::Result;
use crate::limits::SQLITE_BUSY;
use crate::store::disk::DiskTrouble;
use crate::store::engine::WalCut;

/// How long truncating the write-ahead log waits for readers before it is postponed.
const TRUNCATE_TIMEOUT: Duration = Duration::from_millis(20);

/// The same on a full disk, where writers have nothing better to do.
const FULL_TIMEOUT: Duration = Duration::from_millis(500);

impl SqliteConn {
    /// Sets whether the write-ahead log is left as it is when the last connection to the file is this one.
    pub(crate) fn keep_log(&self, keep: bool) -> Result<()> {
        let config = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        self.conn.set_db_config(config, keep).map(drop).map_err(failed)
    }

    /// Writes to the write-ahead log where a commit has failed, so that no recovery finds that commit.
    ///
    /// On a full disk it first moves the log into the file, so that more log does not use up the space that
    /// is left. Does nothing while all is well.
    pub fn recover(&self) -> Result<()> {
        if self.disk.trouble() == DiskTrouble::Full {
            // Where a reader has held it back it will again: the tasks that wait are not made to wait each.
            let timeout = if self.held_back.get() { TRUNCATE_TIMEOUT } else { FULL_TIMEOUT };
            let cut = self.truncate_wal_within(timeout)?;
            self.held_back.set(cut == WalCut::HeldBack);
        }
        if self.disk.is_troubled() {
            let version = self.pragma("user_version")?;
            // Any write will do; the number itself is never read.
            let sql = format!("pragma user_version = {}", version.wrapping_add(1) & 0xFFFF);
            self.conn.execute_batch(&sql).map_err(|error| self.record(error, failed))?;
            self.written()?;
        }
        Ok(())
    }

    /// Records that a write has succeeded.
    ///
    /// A small one has space also on a full disk, such as that of the log that was truncated. The disk counts
    /// as full until there is space to spare.
    pub(super) fn written(&self) -> Result<()> {
        if self.disk.trouble() != DiskTrouble::Full || self.has_spare_space()? {
            self.disk.set(DiskTrouble::None);
        }
        Ok(())
    }

    /// Tries to checkpoint the entire write-ahead log and truncate it.
    ///
    /// Writers are locked out while this waits for readers, so it does not wait long.
    pub(crate) fn truncate_wal(&self) -> Result<WalCut> {
        self.truncate_wal_within(TRUNCATE_TIMEOUT)
    }

    fn truncate_wal_within(&self, timeout: Duration) -> Result<WalCut> {
        BUSY_TIMEOUT.set(timeout);
        let found = self.conn.query_row("pragma wal_checkpoint(truncate)", [], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
        });
        BUSY_TIMEOUT.set(SQLITE_BUSY);
        Ok(match found.map_err(failed)? {
            (0, ..) => WalCut::Done,
            // Frames are left, because a reader may still need the pages that they replace.
            (_, frames, moved) if frames > moved => WalCut::HeldBack,
            // Another connection has the lock of checkpoints, or that of writers.
            _ => WalCut::Busy,
        })
    }

    /// Checkpoints what it can of the write-ahead log, without waiting.
    pub fn checkpoint(&self) -> Result<()> {
        self.conn.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(())).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::file;
    use crate::store::sqlite::Role;

    /// A database with a log, the connection that wrote it, and another that writes.
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
        assert_eq!(conn.truncate_wal().unwrap(), WalCut::HeldBack, "a reader of an earlier state");
        other.batch("commit; begin immediate").unwrap();
        assert_eq!(conn.truncate_wal().unwrap(), WalCut::Busy, "another connection writes");
        assert!(wal_bytes(&folder) > 0);
        other.batch("commit").unwrap();
        assert_eq!(conn.truncate_wal().unwrap(), WalCut::Done);
        assert_eq!(wal_bytes(&folder), 0);
    }

    #[test]
    fn on_a_full_disk_the_wal_is_truncated_before_anything_is_written() {
        let (folder, conn, _) = with_a_wal();
        let before = wal_bytes(&folder);
        conn.recover().unwrap();
        assert_eq!(wal_bytes(&folder), before, "nothing is wrong");
        conn.disk().set(DiskTrouble::Full);
        conn.recover().unwrap();
        // What recovering writes itself is one page.
        assert!(wal_bytes(&folder) < before && !conn.disk().is_troubled());
    }
}
