//! The file of a SQLite database before SQLite opens it.
//!
//! SQLite creates what is missing and deletes the write-ahead log of an empty file, so whether a file may be
//! opened is determined without touching it or its log. It is read in place or, where only the log can tell,
//! through the log's index that others have created, or in a private copy. Read-only files are read in the
//! same ways.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use tempfile::TempDir;

use super::refusal;
use crate::error::blocked::{Need, why};
use crate::error::{Code, Error, Result};
use crate::sync::lock;

/// The first bytes of every SQLite file.
const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// Rejects a file that is not the database of a service that has been set up.
pub(super) fn check_set_up(path: &Path) -> Result<()> {
    let shown = path.display();
    match size_of(path)? {
        None if path.is_symlink() => return Err(refusal::unreadable(path, ErrorKind::NotFound.into())),
        None => {
            return Err(Error::new(
                Code::NotFound,
                format!("there is no database at {shown}, and only a set-up creates one: {}", restore(path)),
            ));
        }
        Some(0) => {
            return Err(Error::new(
                Code::NotFound,
                format!("the database {shown} is empty: {}", restore(path)),
            ));
        }
        Some(_) => {}
    }
    if looks_set_up(path)? {
        return Ok(());
    }
    Err(Error::new(Code::NotFound, format!("the database {shown} has no schema: {}", restore(path))))
}

fn looks_set_up(path: &Path) -> Result<bool> {
    // Closing any handle other than SQLite's own would release the locks of this process.
    if OpenHere::has(path) {
        return has_schema(&At::Place(path.to_owned()));
    }
    if !begins_as_database(path)? {
        return Err(refusal::not_a_database(path));
    }
    let immutable = At::Immutable(path.to_owned());
    // Checked before and after: the first write creates the log, and the last process to close the database
    // moves it into the file and removes it.
    let had_log = wal_bytes(path) > 0;
    match has_schema(&immutable) {
        // A setup that has not been checkpointed yet exists in the log alone.
        Ok(false) if had_log => has_schema_with_log(path),
        // During a checkpoint, or after an interrupted one, the file's first page counts pages that only the
        // log has. The schema itself is complete unless it was changed.
        Err(error) if refusal::is_damaged(&error) => {
            let has_log = had_log || wal_bytes(path) > 0;
            if has_log && matches!(find_schema(&immutable, Size::MayBeShort), Ok(true)) {
                return Ok(true);
            }
            has_schema_with_log(path)
        }
        found => found,
    }
}

/// Refuses to create a database next to the write-ahead log of one that is gone.
pub(super) fn check_can_begin(path: &Path) -> Result<()> {
    if size_of(path)?.unwrap_or(0) == 0 && wal_bytes(path) > 0 {
        return Err(Error::wrong_state(format!(
            "{} is missing or empty, but its write-ahead log still exists and would be lost: {}",
            path.display(),
            restore(path)
        )));
    }
    Ok(())
}

/// Returns the size of the write-ahead log; 0 if there is none.
pub(super) fn wal_bytes(path: &Path) -> u64 {
    std::fs::metadata(wal_of(path)).map_or(0, |file| file.len())
}

/// The mode of a file that is created, less what the umask takes: that of SQLite.
const MODE: u32 = 0o644;

/// Marks a file as opened by this process through SQLite, until it is dropped.
pub(super) struct OpenHere {
    id: FileId,
    path: PathBuf,
}

/// Device and inode of a file.
type FileId = (u64, u64);

static OPEN_HERE: Mutex<BTreeMap<FileId, Kept>> = Mutex::new(BTreeMap::new());

/// A file that this process has open through SQLite.
#[derive(Default)]
struct Kept {
    marks: usize,
    handle: Option<Arc<File>>,
}

impl Kept {
    fn mark(&mut self) {
        self.marks = self.marks.saturating_add(1);
    }
}

impl OpenHere {
    /// Marks the file; none if there is no such file.
    pub fn mark(path: &Path) -> Option<Self> {
        let id = id_of(path)?;
        let mut open = lock(&OPEN_HERE);
        open.entry(id).or_default().mark();
        Some(Self { id, path: path.to_owned() })
    }

    /// Marks the file, and creates it if there is none, so that no other thread opens and closes it before it
    /// is marked. None if it cannot be created: SQLite says why.
    pub fn create(path: &Path) -> Option<Self> {
        let mut open = lock(&OPEN_HERE);
        let created = File::options().read(true).write(true).create_new(true).mode(MODE).open(path);
        let id = match &created {
            Ok(file) => file.metadata().ok().map(|found| id_in(&found))?,
            Err(_) => id_of(path)?,
        };
        let kept = open.entry(id).or_default();
        kept.mark();
        if let Ok(file) = created {
            kept.handle = Some(Arc::new(file));
        }
        Some(Self { id, path: path.to_owned() })
    }

    fn has(path: &Path) -> bool {
        id_of(path).is_some_and(|id| lock(&OPEN_HERE).contains_key(&id))
    }

    /// Returns a handle that reads and writes the file, the only one beside SQLite's own.
    ///
    /// Closing any handle of a file releases every lock that the process has on it, SQLite's too. Other
    /// processes would then believe that nobody else has it open and remove its log. So the handle stays open
    /// until nothing marks the file; whoever has it drops it before the mark.
    pub fn handle(&self) -> Result<Arc<File>> {
        let mut open = lock(&OPEN_HERE);
        let kept = open.entry(self.id).or_default();
        if let Some(handle) = &kept.handle {
            return Ok(Arc::clone(handle));
        }
        // Opening and closing another database would release the locks of this process on it.
        if id_of(&self.path) != Some(self.id) {
            return Err(Error::internal("the file of the database is gone"));
        }
        let file = File::options().read(true).write(true).open(&self.path).map_err(Error::internal)?;
        if id_in(&file.metadata().map_err(Error::internal)?) != self.id {
            return Err(Error::internal("the file of the database was replaced"));
        }
        Ok(Arc::clone(kept.handle.insert(Arc::new(file))))
    }
}

impl Drop for OpenHere {
    fn drop(&mut self) {
        let mut open = lock(&OPEN_HERE);
        if let Entry::Occupied(mut kept) = open.entry(self.id) {
            kept.get_mut().marks = kept.get().marks.saturating_sub(1);
            if kept.get().marks == 0 {
                kept.remove();
            }
        }
    }
}

fn id_of(path: &Path) -> Option<FileId> {
    std::fs::metadata(path).ok().as_ref().map(id_in)
}

fn id_in(found: &Metadata) -> FileId {
    (found.dev(), found.ino())
}

/// Syncs the file to disk, without its write-ahead log.
pub(super) fn sync(path: &Path) -> Result<()> {
    let open_here =
        OpenHere::mark(path).ok_or_else(|| Error::internal("the file of the database is gone"))?;
    open_here.handle()?.sync_data().map_err(Error::internal)
}

/// A SQLite file that is only read, and how.
#[derive(Clone)]
pub(crate) enum At {
    /// In place, shared with others through SQLite.
    Place(PathBuf),
    /// In place, where nothing writes it and SQLite must not either. It has no write-ahead log.
    Immutable(PathBuf),
    /// A private copy.
    Copy(Arc<Copy>),
}

impl At {
    /// Determines how this process can read the file, which must be a database.
    pub(super) fn readable(path: &Path) -> Result<Self> {
        let place = Self::Place(path.to_owned());
        match has_schema(&place) {
            Err(error) if refusal::is_read_only(&error) => {}
            found => return found.map(|_| place),
        }
        if wal_bytes(path) == 0 {
            return Ok(Self::Immutable(path.to_owned()));
        }
        let file = path.display();
        tracing::info!(%file, "the write-ahead log cannot be read in place: reading a private copy");
        Copy::of(path).map(Self::Copy)
    }

    /// Returns the file, if others may have it open too.
    pub(super) fn shared(&self) -> Option<&Path> {
        match self {
            Self::Place(path) => Some(path),
            Self::Immutable(_) | Self::Copy(_) => None,
        }
    }

    /// Returns the address for SQLite, and the flags to open it with.
    pub(super) fn address(&self) -> (PathBuf, OpenFlags) {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        match self {
            Self::Place(path) => (path.clone(), flags),
            Self::Immutable(path) => (immutable(path), flags | OpenFlags::SQLITE_OPEN_URI),
            Self::Copy(copy) => (copy.file.clone(), flags),
        }
    }
}

/// A copy of a database and its log, private to this process and removed after its last use.
pub(crate) struct Copy {
    _folder: TempDir,
    file: PathBuf,
}

impl Copy {
    fn of(path: &Path) -> Result<Arc<Self>> {
        let failed = |error: std::io::Error| {
            Error::configuration(format!(
                "{} can only be read from a copy, and TMPDIR names no folder for that: {}",
                path.display(),
                why(Need::Write, &std::env::temp_dir(), &error)
            ))
            .caused_by(error)
        };
        let folder = tempfile::Builder::new().prefix("svc-").tempdir().map_err(failed)?;
        let file = folder.path().join("svc.db");
        // The log first: what is moved from it into the file meanwhile is then in both.
        std::fs::copy(wal_of(path), wal_of(&file)).map_err(failed)?;
        std::fs::copy(path, &file).map_err(failed)?;
        Ok(Arc::new(Self { _folder: folder, file }))
    }
}

fn size_of(path: &Path) -> Result<Option<u64>> {
    match std::fs::metadata(path) {
        Ok(file) if file.is_file() => Ok(Some(file.len())),
        Ok(file) if file.is_dir() => Err(refusal::unreadable(path, ErrorKind::IsADirectory.into())),
        Ok(_) => Err(refusal::not_a_database(path)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(refusal::unreadable(path, error)),
    }
}

fn begins_as_database(path: &Path) -> Result<bool> {
    let mut begins = [0; 16];
    match File::open(path).and_then(|mut file| file.read_exact(&mut begins)) {
        Ok(()) => Ok(&begins == MAGIC),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(refusal::unreadable(path, error)),
    }
}

/// Returns whether the file has a schema together with its write-ahead log, if that still exists.
///
/// If the log has an index, a process has the file open or was killed while it had, and SQLite reads it in
/// place. Only without one is a copy needed.
fn has_schema_with_log(path: &Path) -> Result<bool> {
    if wal_bytes(path) == 0 {
        return has_schema(&At::Immutable(path.to_owned()));
    }
    if wal_index_of(path).exists() {
        return has_schema(&At::readable(path)?);
    }
    has_schema(&At::Copy(Copy::of(path)?))
}

fn has_schema(at: &At) -> Result<bool> {
    find_schema(at, Size::Full)
}

/// What size a file must have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    /// At least what its first page counts.
    Full,
    /// Possibly less, where the rest is in the log.
    MayBeShort,
}

fn find_schema(at: &At, size: Size) -> Result<bool> {
    const SCHEMA: &str =
        "select count(*) from sqlite_schema where type = 'table' and name = 'schema_migrations'";
    let (address, flags) = at.address();
    let found: rusqlite::Result<i64> = Connection::open_with_flags(address, flags).and_then(|conn| {
        // The one setting with which SQLite accepts a file that is shorter than it should be.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, size == Size::MayBeShort)?;
        conn.query_row(SCHEMA, [], |row| row.get(0))
    });
    match found {
        Ok(found) => Ok(found > 0),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => Ok(false),
        Err(error) => Err(Error::internal(error)),
    }
}

fn wal_of(path: &Path) -> PathBuf {
    beside(path, "-wal")
}

fn wal_index_of(path: &Path) -> PathBuf {
    beside(path, "-shm")
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Returns the address of a file that does not change while it is read.
fn immutable(path: &Path) -> PathBuf {
    let mut address = OsString::from("file:");
    for byte in std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()) {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                address.push(char::from(*byte).to_string());
            }
            other => address.push(format!("%{other:02X}")),
        }
    }
    address.push("?immutable=1");
    address.into()
}

/// Returns what to do about a database that is gone.
fn restore(path: &Path) -> String {
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

    /// Creates a database whose schema is in its write-ahead log alone.
    fn not_checkpointed(folder: &Path) -> PathBuf {
        let path = folder.join("a ?#%.db");
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch(
            "pragma journal_mode = wal; pragma wal_autocheckpoint = 0;
             create table schema_migrations (version bigint)",
        )
        .unwrap();
        let copy = folder.join("svc.db");
        std::fs::copy(&path, &copy).unwrap();
        std::fs::copy(wal_of(&path), wal_of(&copy)).unwrap();
        copy
    }

    #[test]
    fn a_file_that_is_created_is_marked_before_anybody_can_open_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("svc.db");
        assert!(OpenHere::mark(&path).is_none() && !OpenHere::has(&path));
        let marks = [OpenHere::create(&path).unwrap(), OpenHere::create(&path).unwrap()];
        let handles = marks.each_ref().map(|mark| mark.handle().unwrap());
        assert!(OpenHere::has(&path) && Arc::ptr_eq(&handles[0], &handles[1]));
        drop((handles, marks));
        assert!(!OpenHere::has(&path));
    }

    #[test]
    fn a_mark_of_a_file_that_was_replaced_leaves_the_locks_of_the_new_one_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("svc.db");
        File::create(&path).unwrap();
        let old = OpenHere::mark(&path).unwrap();
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
    fn a_file_is_checked_with_its_log_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = not_checkpointed(folder.path());
        let before = files(folder.path());
        check_set_up(&path).unwrap();
        assert_eq!(files(folder.path()), before);
        for content in [Vec::new(), b"garbage, and more than sixteen bytes of it".to_vec()] {
            std::fs::write(&path, &content).unwrap();
            let before = files(folder.path());
            let error = check_set_up(&path).unwrap_err();
            assert_eq!(files(folder.path()), before, "{error}");
            assert_eq!(check_can_begin(&path).is_err(), content.is_empty());
        }
        std::fs::remove_file(&path).unwrap();
        assert!(check_set_up(&path).unwrap_err().detail().contains("svc.db-wal"));
        assert_eq!(check_can_begin(&path).unwrap_err().code(), Code::WrongState);
    }

    #[test]
    fn a_file_that_is_complete_only_with_its_log_is_a_database() {
        let folder = tempfile::tempdir().unwrap();
        let (made, path) = (folder.path().join("made.db"), folder.path().join("svc.db"));
        let conn = Connection::open(&made).unwrap();
        conn.execute_batch(
            "pragma journal_mode = wal; pragma wal_autocheckpoint = 0;
             create table schema_migrations (version);
             create table more (bytes); insert into more values (zeroblob(100000));",
        )
        .unwrap();
        std::fs::copy(wal_of(&made), wal_of(&path)).unwrap();
        conn.query_row("pragma wal_checkpoint(full)", [], |_| Ok(())).unwrap();
        // The first page has been moved, and counts more; the others have not.
        std::fs::write(&path, &std::fs::read(&made).unwrap()[..4096]).unwrap();
        assert!(refusal::is_damaged(&has_schema(&At::Immutable(path.clone())).unwrap_err()));
        check_set_up(&path).unwrap();
        std::fs::remove_file(wal_of(&path)).unwrap();
        check_set_up(&path).unwrap_err();
    }

    #[test]
    fn another_programs_database_has_no_schema() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("svc.db");
        Connection::open(&path).unwrap().execute_batch("create table other (n)").unwrap();
        assert!(check_set_up(&path).unwrap_err().detail().contains("has no schema"));
    }

    #[test]
    fn files_with_strange_names_can_be_read_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a ?#%\u{e9}.db");
        Connection::open(&path).unwrap().execute_batch("create table schema_migrations (version)").unwrap();
        assert!(has_schema(&At::Immutable(path)).unwrap());
    }

    /// Creates a database, and returns a connection whose checkpoints take long.
    fn with_schema(path: &Path) -> Connection {
        let conn = Connection::open(path).unwrap();
        conn.execute_batch(
            "pragma journal_mode = wal; pragma wal_autocheckpoint = 0; pragma synchronous = off;
             create table schema_migrations (version bigint); create table t (b blob);
             pragma wal_checkpoint(truncate);",
        )
        .unwrap();
        conn
    }

    #[test]
    fn an_interrupted_checkpoint_is_no_damage_and_needs_no_copy() {
        let folder = tempfile::tempdir().unwrap();
        let (made, path) = (folder.path().join("made.db"), folder.path().join("svc.db"));
        let conn = with_schema(&made);
        conn.execute_batch("insert into t values (zeroblob(200000))").unwrap();
        let mut cut = std::fs::read(&made).unwrap();
        std::fs::copy(wal_of(&made), wal_of(&path)).unwrap();
        conn.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(())).unwrap();
        cut[..4096].copy_from_slice(&std::fs::read(&made).unwrap()[..4096]);
        std::fs::write(&path, &cut).unwrap();
        let before = files(folder.path());
        let immutable = At::Immutable(path.clone());
        assert!(refusal::is_damaged(&has_schema(&immutable).unwrap_err()));
        assert!(find_schema(&immutable, Size::MayBeShort).unwrap());
        check_set_up(&path).unwrap();
        assert_eq!(files(folder.path()), before);
        let length: i64 = Connection::open(&path)
            .and_then(|conn| conn.query_row("select length(b) from t", [], |row| row.get(0)))
            .unwrap();
        assert_eq!(length, 200_000, "SQLite completes it from its log");
    }

    #[test]
    fn a_start_during_checkpoints_is_not_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("svc.db");
        let conn = with_schema(&path);
        let (mut started, mut short) = (0, 0);
        std::thread::scope(|scope| {
            let writing = scope.spawn(move || {
                for _ in 0..30 {
                    conn.execute_batch("insert into t values (zeroblob(2000000))").unwrap();
                    conn.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(())).unwrap();
                }
            });
            while !writing.is_finished() || started == 0 {
                short += usize::from(has_schema(&At::Immutable(path.clone())).is_err());
                check_set_up(&path).unwrap();
                started += 1;
            }
        });
        eprintln!("{started} starts; the file was shorter than its first page counts {short} times");
    }

    /// An open database has an index of its write-ahead log, which SQLite shares.
    #[test]
    fn a_schema_in_the_log_of_an_open_database_is_found_without_a_copy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("svc.db");
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch(
            "pragma journal_mode = wal; pragma wal_autocheckpoint = 0;
             create table schema_migrations (version bigint)",
        )
        .unwrap();
        assert!(!has_schema(&At::Immutable(path.clone())).unwrap());
        assert!(matches!(At::readable(&path).unwrap(), At::Place(_)));
        check_set_up(&path).unwrap();
        conn.execute_batch("drop table schema_migrations; create table other (n)").unwrap();
        let log = std::fs::read(wal_of(&path)).unwrap();
        assert!(check_set_up(&path).unwrap_err().detail().contains("has no schema"));
        assert_eq!(std::fs::read(wal_of(&path)).unwrap(), log);
    }
}
