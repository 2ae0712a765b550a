//! Space in the file for what is in the write-ahead log.
//!
//! The log is truncated once it has been moved into the file, which grows by that. On a disk that the log has
//! filled the file could not grow, and the log would keep its space for ever. So the file grows before the
//! commit, which fails if there is no space. On file systems that cannot allocate space it does not grow, and
//! as much as the log has brought must become free on a full disk.

use std::fs::File;
use std::io;
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::retry_on_intr;

use super::SqliteConn;
use super::errors::{disk_is_full, failed};
use crate::error::{Result, is_full};
use crate::store::disk::Trouble;

/// The size of a page, fixed when the file is created.
///
/// The table of shelves depends on it: no node may share a page with other rows.
pub(super) const PAGE_BYTES: u32 = 4096;

/// The file grows by multiples of so many bytes where it can, so that few commits wait for that.
const STEP: u64 = 256 << 10;

/// The file beneath a connection that writes.
pub(super) struct FileSpace(Arc<File>);

impl FileSpace {
    pub(super) fn of(file: Arc<File>) -> Self {
        Self(file)
    }

    /// Makes the file at least `bytes` long, with space on the disk for all of it.
    fn extend_to(&self, bytes: u64) -> io::Result<()> {
        let length = self.0.metadata()?.len();
        if length >= bytes {
            return Ok(());
        }
        let allocate = |end: u64| {
            let more = end.saturating_sub(length);
            let allocated = retry_on_intr(|| fallocate(&self.0, FallocateFlags::empty(), length, more));
            allocated.map_err(io::Error::from)
        };
        match allocate(bytes.next_multiple_of(STEP)) {
            Err(error) if is_full(&error) => allocate(bytes),
            done => done,
        }
    }
}

impl SqliteConn {
    /// Reserves space in the file for the transaction that is to be committed; fails on a full disk.
    pub(super) fn reserve_space(&self) -> Result<()> {
        let Some(space) = &self.space else { return Ok(()) };
        match space.extend_to(self.bytes()?) {
            Err(error) if is_full(&error) => {
                self.disk.set(Trouble::Full);
                Err(disk_is_full(error))
            }
            // Not every file system can do it. If the disk fails otherwise the commit finds that out.
            _ => Ok(()),
        }
    }

    /// Returns the length of the file with everything that is not in it yet.
    fn bytes(&self) -> Result<u64> {
        let mut pages = self.conn.prepare_cached("pragma page_count").map_err(failed)?;
        let pages: u32 = pages.query_row([], |row| row.get(0)).map_err(|error| self.record(error, failed))?;
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
            let bytes = conn.bytes().unwrap();
            assert!((bytes..bytes + STEP).contains(&length()), "{bytes}");
        }
        conn.truncate_wal().unwrap();
        assert_eq!(length(), conn.bytes().unwrap(), "what was not needed is given back");
    }
}
