//! A temporary map from bytes to bytes on disk, for data that does not fit into memory.
//!
//! The map's file has no name, so no other process can open it, and it disappears when it is closed, also
//! after a crash. Its contents are deliberately not durable.

use std::cell::Cell;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use super::sqlite::sqlite_error;
use crate::Result;
use crate::error::Error;
use crate::error::blocked::{Need, describe_denial};
use crate::spool::SpoolFolder;

/// Size of the map's page cache in memory, in KiB.
const CACHE_KIB: u32 = 4096;

/// Number of bytes written between two measurements of the free disk space.
const CHECK_INTERVAL_BYTES: usize = 256 << 10;

/// A temporary map from bytes to bytes on disk.
pub(crate) struct Scratch {
    conn: Connection,
    spools: SpoolFolder,
    /// Bytes written since the free disk space was last measured.
    unchecked_bytes: Cell<usize>,
}

impl Scratch {
    /// Creates an empty map in the spool folder, which must exist.
    pub fn create(spools: &SpoolFolder) -> Result<Self> {
        let named = tempfile::NamedTempFile::new_in(spools.folder())
            .map_err(|error| Error::internal(describe_denial(Need::Write, spools.folder(), &error)))?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || {
            let conn = Connection::open_with_flags(named.path(), flags)?;
            conn.execute_batch(&format!(
                "pragma journal_mode = off;
                 pragma synchronous = off;
                 pragma locking_mode = exclusive;
                 pragma temp_store = memory;
                 pragma cache_size = -{CACHE_KIB};
                 create table entries (key blob primary key, value blob not null) without rowid;
                 begin"
            ))?;
            Ok(conn)
        };
        // The file is deleted here, but stays open.
        let conn = open().map_err(sqlite_error)?;
        Ok(Self { conn, spools: spools.clone(), unchecked_bytes: Cell::new(0) })
    }

    /// Sets the value of a key. Fails with 507 `insufficient-storage` if the disk has no space for the value.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let unchecked_bytes =
            self.unchecked_bytes.get().saturating_add(key.len()).saturating_add(value.len());
        if unchecked_bytes >= CHECK_INTERVAL_BYTES {
            self.spools.check_reserve(u64::try_from(unchecked_bytes).unwrap_or(u64::MAX))?;
        }
        self.unchecked_bytes.set(if unchecked_bytes >= CHECK_INTERVAL_BYTES { 0 } else { unchecked_bytes });
        let put = "insert into entries (key, value) values (?1, ?2)
            on conflict (key) do update set value = excluded.value";
        let mut statement = self.conn.prepare_cached(put).map_err(sqlite_error)?;
        statement.execute((key, value)).map(drop).map_err(sqlite_error)
    }

    /// Returns the value of a key. For an array type, the value must have the size of the array.
    pub fn get<T: rusqlite::types::FromSql>(&self, key: &[u8]) -> Result<Option<T>> {
        let get = "select value from entries where key = ?1";
        let mut statement = self.conn.prepare_cached(get).map_err(sqlite_error)?;
        statement.query_row((key,), |row| row.get(0)).optional().map_err(sqlite_error)
    }

    /// Removes a key and its value, if the key exists.
    pub fn remove(&self, key: &[u8]) -> Result<()> {
        let remove = "delete from entries where key = ?1";
        let mut statement = self.conn.prepare_cached(remove).map_err(sqlite_error)?;
        statement.execute((key,)).map(drop).map_err(sqlite_error)
    }

    /// Removes all keys and values.
    pub fn clear(&self) -> Result<()> {
        self.conn.execute("delete from entries", []).map(drop).map_err(sqlite_error)
    }

    /// Returns the first key after `after` that begins with `prefix`, and its value.
    pub fn next(&self, after: Option<&[u8]>, prefix: &[u8]) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let next = match after {
            Some(_) => "select key, value from entries where key > ?1 order by key limit 1",
            None => "select key, value from entries where key >= ?1 order by key limit 1",
        };
        let mut statement = self.conn.prepare_cached(next).map_err(sqlite_error)?;
        let from = after.unwrap_or(prefix);
        let found: Option<(Vec<u8>, Vec<u8>)> = statement
            .query_row((from,), |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .map_err(sqlite_error)?;
        Ok(found.filter(|(key, _)| key.starts_with(prefix)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::SpoolLimits;

    #[test]
    fn values_are_found_by_their_keys_and_no_file_has_a_name() {
        let folder = tempfile::tempdir().unwrap();
        let spools = SpoolFolder::new(folder.path().to_owned(), SpoolLimits::default());
        let scratch = Scratch::create(&spools).unwrap();
        for number in 0..20_000_u32 {
            scratch.put(&number.to_be_bytes(), &[1; 400]).unwrap();
        }
        scratch.put(&7_u32.to_be_bytes(), &[7; 16]).unwrap();
        assert_eq!(scratch.get(&7_u32.to_be_bytes()).unwrap(), Some([7; 16]));
        assert_eq!(scratch.get(&19_999_u32.to_be_bytes()).unwrap(), Some([1; 400]));
        assert_eq!(scratch.get::<[u8; 16]>(b"none").unwrap(), None);
        scratch.remove(&7_u32.to_be_bytes()).unwrap();
        assert_eq!(scratch.get::<[u8; 16]>(&7_u32.to_be_bytes()).unwrap(), None);
        let key = |number: u32| Some(number.to_be_bytes().to_vec());
        let next = |after: Option<u32>, prefix: &[u8]| {
            let after = after.map(u32::to_be_bytes);
            let found = scratch.next(after.as_ref().map(|after| after.as_slice()), prefix).unwrap();
            found.map(|(key, _)| key)
        };
        assert_eq!(next(Some(6), &[0, 0]), key(8));
        assert_eq!(next(None, &[0, 0, 1]), key(256));
        assert_eq!(next(Some(511), &[0, 0, 1]), None, "it begins with something else");
        assert_eq!(next(Some(19_999), &[]), None);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
