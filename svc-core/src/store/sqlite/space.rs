//! Reserves space in the database file for the contents of the write-ahead log.
//!
//! A checkpoint moves the contents of the log into the file, which grows, and then truncates the log. If the
//! log fills the disk, the file cannot grow, and the log would keep its space forever. So the file grows
//! before the commit, which fails if there is no space. This does not work on file systems that cannot
//! allocate space. A checkpoint can also truncate the space for the last commit; on a full disk, the same
//! amount must then become free.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate, fstatvfs};
use rustix::io::retry_on_intr;

use super::SqliteConn;
use super::errors::{disk_full_error, sqlite_error};
use crate::error::{Result, is_disk_full};
use crate::store::disk::DiskErrorKind;

/// Size of a database page, fixed when the file is created.
///
/// The table of key segments depends on this size: no node may share a page with other rows.
pub(super) const PAGE_BYTES: u32 = 4096;

/// Growth step of the database file in bytes. With larger steps, fewer commits wait for the file to grow.
const GROWTH_STEP_BYTES: u64 = 256 << 10;

/// Free bytes required after a disk was full. Nearly every write needs less, in the file and in the log
/// together.
const SPARE_BYTES: u64 = 1 << 20;

/// The database file of a connection that writes.
pub(super) struct FileSpace {
    file: Arc<File>,
    path: PathBuf,
}

impl FileSpace {
    pub(super) fn new(file: Arc<File>, path: &Path) -> Self {
        // The folder of a symbolic link may be on another disk.
        Self { file, path: path.canonicalize().unwrap_or_else(|_| path.to_owned()) }
    }

    /// Makes the file at least `bytes` long, and allocates the added space.
    fn extend_to(&self, bytes: u64) -> io::Result<()> {
        let length = self.file.metadata()?.len();
        if length >= bytes {
            return Ok(());
        }
        let extend = |end: u64| allocate(&self.file, length, end.saturating_sub(length));
        match extend(bytes.next_multiple_of(GROWTH_STEP_BYTES)) {
            Err(error) if is_disk_full(&error) => extend(bytes),
            done => done,
        }
    }

    /// Tests whether [`SPARE_BYTES`] bytes can be allocated after the first `bytes` bytes of a file.
    ///
    /// Allocates and frees the space in a separate file, because only SQLite may shorten the database file.
    fn probe_spare_space(&self, bytes: u64) -> io::Result<()> {
        let mut prefix = self.path.file_name().unwrap_or_default().to_owned();
        prefix.push("-");
        let folder = self.path.parent().unwrap_or(&self.path);
        match tempfile::Builder::new().prefix(&prefix).tempfile_in(folder) {
            Ok(probe) => {
                let (file, path) = probe.into_parts();
                path.close()?;
                allocate(&file, bytes, SPARE_BYTES)
            }
            // The disk may have no inode or directory entry for a new file. Writes to the existing files need
            // neither.
            Err(_) => {
                let found = fstatvfs(&self.file)?;
                let is_free = found.f_bavail.saturating_mul(found.f_frsize) >= SPARE_BYTES;
                if is_free { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) }
            }
        }
    }
}

fn allocate(file: &File, from: u64, bytes: u64) -> io::Result<()> {
    retry_on_intr(|| fallocate(file, FallocateFlags::empty(), from, bytes)).map_err(io::Error::from)
}

impl SqliteConn {
    /// Reserves space in the file for the transaction to be committed. Fails on a full disk.
    ///
    /// Returns the required length of the file in bytes.
    pub(super) fn reserve_space(&self) -> Result<u64> {
        let Some(space) = &self.space else { return Ok(0) };
        let bytes = self.required_bytes()?;
        match space.extend_to(bytes) {
            Err(error) if is_disk_full(&error) => {
                self.disk.set_error_kind(DiskErrorKind::Full);
                Err(disk_full_error(error))
            }
            // Not every file system supports this. If the disk fails otherwise, the commit reports it.
            _ => Ok(bytes),
        }
    }

    /// Repeats the reservation that was made before a commit.
    ///
    /// A checkpoint may have ended since, and truncated the file to the length of the committed data. The
    /// commit is done, so missing space is not an error.
    pub(super) fn repeat_reservation(&self, bytes: u64) {
        let _ = self.space.as_ref().map(|space| space.extend_to(bytes));
    }

    /// Returns whether the disk has space for nearly every write.
    ///
    /// Returns `true` if the file system cannot determine this.
    pub(super) fn has_spare_space(&self) -> Result<bool> {
        let Some(space) = &self.space else { return Ok(true) };
        Ok(!space.probe_spare_space(self.required_bytes()?).is_err_and(|error| is_disk_full(&error)))
    }

    /// Returns the length in bytes that the file will have after a complete checkpoint.
    fn required_bytes(&self) -> Result<u64> {
        let mut pages = self.conn.prepare_cached("pragma page_count").map_err(sqlite_error)?;
        let pages: u32 =
            pages.query_row([], |row| row.get(0)).map_err(|error| self.record_error(error, sqlite_error))?;
        Ok(u64::from(pages) * u64::from(PAGE_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sqlite::Role;

    #[test]
    fn what_is_committed_has_space_in_the_file_before_it_is_moved_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        let length = || std::fs::metadata(&path).unwrap().len();
        let conn = SqliteConn::open(&path, Role::Creator).unwrap();
        let insert = |kib: u32| {
            conn.begin("begin immediate").unwrap();
            conn.batch(&format!("insert into t values (randomblob({kib} * 1024))")).unwrap();
        };
        conn.batch("create table t (words blob)").unwrap();
        let before = length();
        insert(1000);
        conn.rollback().unwrap();
        assert_eq!(length(), before, "nothing was committed");
        for kib in [1000, 1, 3000] {
            insert(kib);
            conn.commit().unwrap();
            let bytes = conn.required_bytes().unwrap();
            assert!((bytes..bytes + GROWTH_STEP_BYTES).contains(&length()), "{bytes}");
        }
        conn.truncate_wal().unwrap();
        assert_eq!(length(), conn.required_bytes().unwrap(), "what was not needed is given back");
    }

    /// Checks the space after a checkpoint that truncates the file, also after the reservation.
    #[test]
    fn what_is_committed_has_space_in_the_file_also_after_a_checkpoint_during_the_commit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        let mut conn = SqliteConn::open(&path, Role::Creator).unwrap();
        let other = SqliteConn::open(&path, Role::Writer).unwrap();
        conn.batch("create table t (words blob)").unwrap();
        conn.begin("begin immediate").unwrap();
        conn.batch("insert into t values (randomblob(2000 * 1024))").unwrap();
        let checkpoint = move || other.checkpoint().is_err();
        conn.conn.commit_hook(Some(checkpoint)).unwrap();
        conn.commit().unwrap();
        let length = std::fs::metadata(&path).unwrap().len();
        assert!(length >= conn.required_bytes().unwrap(), "{length}");
    }
}
