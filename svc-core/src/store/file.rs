//! Checks of a SQLite file before SQLite opens it, and methods of opening a file for reading only.
//!
//! SQLite creates missing files and deletes the write-ahead log of an empty file, so a file that is missing,
//! empty or of another kind is rejected before SQLite sees it. SQLite determines everything else, from the
//! file and its log.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rusqlite::{Connection, OpenFlags};
use tempfile::TempDir;

use super::refusal;
use crate::error::blocked::{Need, describe_denial};
use crate::error::{Code, Error, Result};
use crate::sync::lock;

/// The first bytes of every SQLite file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Fails if the file is missing, empty or not a SQLite file.
pub(super) fn check_is_database(path: &Path) -> Result<()> {
    let shown = path.display();
    match file_size(path)? {
        None if path.is_symlink() => Err(refusal::unreadable_error(path, ErrorKind::NotFound.into())),
        None => Err(Error::new(
            Code::NotFound,
            format!(
                "there is no database at {shown}, and only a set-up creates one: {}",
                restore_advice(path)
            ),
        )),
        Some(0) => Err(Error::new(
            Code::NotFound,
            format!("the database {shown} is empty: {}", restore_advice(path)),
        )),
        // A file that this process has open is not read here: closing any handle other than SQLite's own
        // would release the locks of this process.
        Some(_) if OpenFileMark::is_marked(path) || has_sqlite_header(path)? => Ok(()),
        Some(_) => Err(refusal::not_a_database_error(path)),
    }
}

/// Returns the error for a database whose set-up was not completed.
pub(super) fn no_schema_error(path: &Path) -> Error {
    let shown = path.display();
    Error::new(Code::NotFound, format!("the database {shown} has no schema: {}", restore_advice(path)))
}

/// Fails if the database file is missing or empty while its write-ahead log still exists.
pub(super) fn check_can_create(path: &Path) -> Result<()> {
    if file_size(path)?.unwrap_or(0) == 0 && wal_bytes(path) > 0 {
        return Err(Error::wrong_state(format!(
            "{} is missing or empty, but its write-ahead log still exists and would be lost: {}",
            path.display(),
            restore_advice(path)
        )));
    }
    Ok(())
}

/// Returns the size of the write-ahead log, or 0 if there is none.
pub(super) fn wal_bytes(path: &Path) -> u64 {
    std::fs::metadata(wal_path(path)).map_or(0, |file| file.len())
}

/// The permissions of a new database file before the umask applies, which are the same as SQLite's.
const NEW_FILE_MODE: u32 = 0o644;

/// Marks a file as opened by this process through SQLite, until this value is dropped.
pub(super) struct OpenFileMark {
    id: FileId,
    path: PathBuf,
}

/// The device and inode of a file.
type FileId = (u64, u64);

static OPEN_FILES: Mutex<BTreeMap<FileId, OpenFile>> = Mutex::new(BTreeMap::new());

/// A file that this process has open through SQLite.
#[derive(Default)]
struct OpenFile {
    marks: usize,
    handle: Option<Arc<File>>,
}

impl OpenFile {
    fn add_mark(&mut self) {
        self.marks = self.marks.saturating_add(1);
    }
}

impl OpenFileMark {
    /// Marks an existing file as open. Returns `None` if the file does not exist.
    pub fn mark_existing(path: &Path) -> Option<Self> {
        let id = file_id_at(path)?;
        let mut open = lock(&OPEN_FILES);
        open.entry(id).or_default().add_mark();
        Some(Self { id, path: path.to_owned() })
    }

    /// Creates the file if it does not exist, and marks it as open.
    ///
    /// Returns `None` if the file cannot be created; SQLite then reports the reason. No other thread can open
    /// and close the file before it is marked.
    pub fn create_and_mark(path: &Path) -> Option<Self> {
        let mut open = lock(&OPEN_FILES);
        let created = File::options().read(true).write(true).create_new(true).mode(NEW_FILE_MODE).open(path);
        let id = match &created {
            Ok(file) => file.metadata().ok().map(|found| file_id_from(&found))?,
            Err(_) => file_id_at(path)?,
        };
        let open_file = open.entry(id).or_default();
        open_file.add_mark();
        if let Ok(file) = created {
            open_file.handle = Some(Arc::new(file));
        }
        Some(Self { id, path: path.to_owned() })
    }

    fn is_marked(path: &Path) -> bool {
        file_id_at(path).is_some_and(|id| lock(&OPEN_FILES).contains_key(&id))
    }

    /// Returns a handle for reading and writing the file, the only one apart from SQLite's own.
    ///
    /// Closing any handle of a file releases every lock that the process has on it, including SQLite's. Other
    /// processes would then believe that no process has the file open, and remove its log. So the handle
    /// stays open until nothing marks the file; its user must drop the handle before the mark.
    pub fn handle(&self) -> Result<Arc<File>> {
        let mut open = lock(&OPEN_FILES);
        let open_file = open.entry(self.id).or_default();
        if let Some(handle) = &open_file.handle {
            return Ok(Arc::clone(handle));
        }
        // Opening and closing the file of another database would release the locks of this process on it.
        if file_id_at(&self.path) != Some(self.id) {
            return Err(Error::internal("the file of the database is gone"));
        }
        let file = File::options().read(true).write(true).open(&self.path).map_err(Error::internal)?;
        if file_id_from(&file.metadata().map_err(Error::internal)?) != self.id {
            return Err(Error::internal("the file of the database was replaced"));
        }
        Ok(Arc::clone(open_file.handle.insert(Arc::new(file))))
    }
}

impl Drop for OpenFileMark {
    fn drop(&mut self) {
        let mut open = lock(&OPEN_FILES);
        if let Entry::Occupied(mut open_file) = open.entry(self.id) {
            open_file.get_mut().marks = open_file.get().marks.saturating_sub(1);
            if open_file.get().marks == 0 {
                open_file.remove();
            }
        }
    }
}

fn file_id_at(path: &Path) -> Option<FileId> {
    std::fs::metadata(path).ok().as_ref().map(file_id_from)
}

fn file_id_from(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}

/// Syncs the file to disk, without its write-ahead log.
pub(super) fn sync_file(path: &Path) -> Result<()> {
    let mark = OpenFileMark::mark_existing(path)
        .ok_or_else(|| Error::internal("the file of the database is gone"))?;
    mark.handle()?.sync_data().map_err(Error::internal)
}

/// A SQLite file that is only read, and the method of reading the file.
#[derive(Clone)]
pub(crate) enum ReadableFile {
    /// The file is read directly, and SQLite shares it with other connections.
    InPlace(PathBuf),
    /// The file is read directly. It has no write-ahead log, and no process writes to it.
    Immutable(PathBuf),
    /// A private copy of the file is read.
    Copy(Arc<DatabaseCopy>),
}

impl ReadableFile {
    /// Determines how this process can read the file, which must be a database.
    pub(super) fn detect(path: &Path) -> Result<Self> {
        let in_place = Self::InPlace(path.to_owned());
        match in_place.check_readable() {
            Err(error) if refusal::needs_write_access(&error) => {}
            result => return result.map(|()| in_place),
        }
        if wal_bytes(path) == 0 {
            return Ok(Self::Immutable(path.to_owned()));
        }
        let file = path.display();
        tracing::info!(%file, "the write-ahead log cannot be read in place: reading a private copy");
        DatabaseCopy::create(path).map(Self::Copy)
    }

    fn check_readable(&self) -> Result<()> {
        let (uri, flags) = self.uri_and_flags();
        Connection::open_with_flags(uri, flags)
            .and_then(|conn| conn.query_row("select count(*) from sqlite_schema", [], |_| Ok(())))
            .map_err(Error::internal)
    }

    /// Returns the path of the file, if other connections may have it open too.
    pub(super) fn shared_path(&self) -> Option<&Path> {
        match self {
            Self::InPlace(path) => Some(path),
            Self::Immutable(_) | Self::Copy(_) => None,
        }
    }

    /// Returns the address of the file for SQLite, and the flags with which to open it.
    pub(super) fn uri_and_flags(&self) -> (PathBuf, OpenFlags) {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        match self {
            Self::InPlace(path) => (path.clone(), flags),
            Self::Immutable(path) => (immutable_uri(path), flags | OpenFlags::SQLITE_OPEN_URI),
            Self::Copy(copy) => (copy.file.clone(), flags),
        }
    }
}

/// A private copy of a database and its log, removed after its last use.
pub(crate) struct DatabaseCopy {
    _folder: TempDir,
    file: PathBuf,
}

impl DatabaseCopy {
    fn create(path: &Path) -> Result<Arc<Self>> {
        let failed = |error: std::io::Error| {
            Error::configuration(format!(
                "{} can only be read from a copy, and TMPDIR names no folder for that: {}",
                path.display(),
                describe_denial(Need::Write, &std::env::temp_dir(), &error)
            ))
            .caused_by(error)
        };
        let folder = tempfile::Builder::new().prefix("svc-").tempdir().map_err(failed)?;
        let file = folder.path().join("svc.db");
        // The log is copied first: pages that are moved from it into the file during the copy are then in
        // both copies.
        std::fs::copy(wal_path(path), wal_path(&file)).map_err(failed)?;
        std::fs::copy(path, &file).map_err(failed)?;
        Ok(Arc::new(Self { _folder: folder, file }))
    }
}

fn file_size(path: &Path) -> Result<Option<u64>> {
    match std::fs::metadata(path) {
        Ok(file) if file.is_file() => Ok(Some(file.len())),
        Ok(file) if file.is_dir() => Err(refusal::unreadable_error(path, ErrorKind::IsADirectory.into())),
        Ok(_) => Err(refusal::not_a_database_error(path)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(refusal::unreadable_error(path, error)),
    }
}

fn has_sqlite_header(path: &Path) -> Result<bool> {
    let mut header = [0; 16];
    match File::open(path).and_then(|mut file| file.read_exact(&mut header)) {
        Ok(()) => Ok(&header == MAGIC),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(refusal::unreadable_error(path, error)),
    }
}

fn wal_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Returns the SQLite URI for opening a file that does not change while it is read.
fn immutable_uri(path: &Path) -> PathBuf {
    let mut uri = OsString::from("file:");
    for byte in std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()) {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                uri.push(char::from(*byte).to_string());
            }
            other => uri.push(format!("%{other:02X}")),
        }
    }
    uri.push("?immutable=1");
    uri.into()
}

/// Returns instructions for restoring a missing or incomplete database, for an error message.
fn restore_advice(path: &Path) -> String {
    let log = if wal_bytes(path) > 0 {
        ", and keep the svc.db-wal beside it, which holds the newest changes"
    } else {
        ""
    };
    format!("nothing was touched; put the database back where it was, or restore a backup{log}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGGED: &str = "pragma journal_mode = wal; pragma wal_autocheckpoint = 0; create table t (n)";

    /// Creates a database whose schema is only in its write-ahead log.
    fn not_checkpointed(folder: &Path) -> PathBuf {
        let path = folder.join("a ?#%.db");
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch(LOGGED).unwrap();
        let copy = folder.join("svc.db");
        std::fs::copy(&path, &copy).unwrap();
        std::fs::copy(wal_path(&path), wal_path(&copy)).unwrap();
        copy
    }

    #[test]
    fn a_file_that_is_created_is_marked_before_anybody_can_open_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("svc.db");
        assert!(OpenFileMark::mark_existing(&path).is_none() && !OpenFileMark::is_marked(&path));
        let marks =
            [OpenFileMark::create_and_mark(&path).unwrap(), OpenFileMark::create_and_mark(&path).unwrap()];
        let handles = marks.each_ref().map(|mark| mark.handle().unwrap());
        assert!(OpenFileMark::is_marked(&path) && Arc::ptr_eq(&handles[0], &handles[1]));
        drop((handles, marks));
        assert!(!OpenFileMark::is_marked(&path));
    }

    #[test]
    fn a_mark_of_a_file_that_was_replaced_leaves_the_locks_of_the_new_one_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("svc.db");
        File::create(&path).unwrap();
        let old = OpenFileMark::mark_existing(&path).unwrap();
        std::fs::rename(&path, folder.path().join("old.db")).unwrap();
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch("pragma journal_mode = wal; create table t (n)").unwrap();
        let inode = std::fs::metadata(&path).unwrap().ino();
        let is_locked = || {
            let locks = std::fs::read_to_string("/proc/locks").unwrap();
            locks.lines().any(|line| line.contains(&format!(":{inode} ")))
        };
        assert!(is_locked());
        old.handle().unwrap_err();
        assert!(is_locked());
    }

    fn files(folder: &Path) -> Vec<(OsString, Vec<u8>)> {
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap()))
            .collect();
        files.sort();
        files
    }

    #[test]
    fn what_is_no_database_is_rejected_and_left_alone_with_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = not_checkpointed(folder.path());
        check_is_database(&path).unwrap();
        for content in [Vec::new(), b"garbage, and more than sixteen bytes of it".to_vec()] {
            std::fs::write(&path, &content).unwrap();
            let before = files(folder.path());
            let error = check_is_database(&path).unwrap_err();
            assert_eq!(files(folder.path()), before, "{error}");
            assert_eq!(check_can_create(&path).is_err(), content.is_empty());
        }
        std::fs::remove_file(&path).unwrap();
        assert!(check_is_database(&path).unwrap_err().detail().contains("svc.db-wal"));
        assert_eq!(check_can_create(&path).unwrap_err().code(), Code::WrongState);
    }

    #[test]
    fn files_with_strange_names_can_be_read_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a ?#%\u{e9}.db");
        Connection::open(&path).unwrap().execute_batch("create table t (n)").unwrap();
        ReadableFile::Immutable(path).check_readable().unwrap();
    }

    /// An open database has an index of its write-ahead log, which SQLite shares between connections.
    #[test]
    fn the_log_of_an_open_database_is_read_without_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("svc.db");
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch(LOGGED).unwrap();
        assert!(matches!(ReadableFile::detect(&path).unwrap(), ReadableFile::InPlace(_)));
    }
}
