//! Scratch: a map from bytes to bytes on disk, for what is too large to keep in memory and needed only for a
//! while.
//!
//! Its file has no name, so nothing but this process finds it, and it is gone when it is closed, also after
//! a crash. Nothing in it is durable, on purpose.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use super::sqlite::failed;
use crate::Result;
use crate::error::Error;

/// KiB of pages that are kept in memory.
const CACHE_KIB: u32 = 4096;

/// A map from bytes to bytes on disk.
pub(crate) struct Scratch(Connection);

impl Scratch {
    /// Creates an empty one in a folder that exists.
    pub fn create(folder: &Path) -> Result<Self> {
        let named = tempfile::NamedTempFile::new_in(folder)
            .map_err(|error| Error::internal("no file for a while could be created").caused_by(error))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || {
            let conn = Connection::open_with_flags(named.path(), flags)?;
            conn.execute_batch(&format!(
                "pragma journal_mode = off;
                 pragma synchronous = off;
                 pragma locking_mode = exclusive;
                 pragma cache_size = -{CACHE_KIB};
                 create table entries (key blob primary key, value blob not null) without rowid;
                 begin"
            ))?;
            Ok(conn)
        };
        // The file loses its name here, and is open.
        open().map(Self).map_err(failed)
    }

    /// Sets the value of a key.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let put = "insert into entries (key, value) values (?1, ?2)
            on conflict (key) do update set value = excluded.value";
        let mut statement = self.0.prepare_cached(put).map_err(failed)?;
        statement.execute((key, value)).map(drop).map_err(failed)
    }

    /// Returns the value of a key; one of an array only if it has its size.
    pub fn get<T: rusqlite::types::FromSql>(&self, key: &[u8]) -> Result<Option<T>> {
        let get = "select value from entries where key = ?1";
        let mut statement = self.0.prepare_cached(get).map_err(failed)?;
        statement.query_row((key,), |row| row.get(0)).optional().map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_keys_and_no_file_has_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::create(folder.path()).unwrap();
        for number in 0..20_000_u32 {
            scratch.put(&number.to_be_bytes(), &[1; 400]).unwrap();
        }
        scratch.put(&7_u32.to_be_bytes(), &[7; 16]).unwrap();
        assert_eq!(scratch.get(&7_u32.to_be_bytes()).unwrap(), Some([7; 16]));
        assert_eq!(scratch.get(&19_999_u32.to_be_bytes()).unwrap(), Some([1; 400]));
        assert_eq!(scratch.get::<[u8; 16]>(b"none").unwrap(), None);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
