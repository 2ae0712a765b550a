//! Opens connections to one database, in the roles that core threads need.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use super::conn::Conn;
use super::database::{Database, OpenMode};
use super::executor::{Connect, ConnectionOpeners};
use super::file::{self, ReadableFile};
use super::migrate;
use super::postgres::{PgConn, Pool, Server, create_pool, parse_url, start_listener};
use super::sqlite::{Role, SqliteConn};
use super::watch::Watcher;
use crate::error::{Error, Result};
use crate::limits::POSTGRES_POOL_CONNECTIONS;
use crate::log::bus::Bus;
use crate::time::Clock;

/// Opens connections to one database.
#[derive(Clone)]
pub(crate) enum Opener {
    Sqlite(PathBuf, Clock),
    /// A SQLite file opened for reading only, by a process that may lack write permission.
    ReadOnly(ReadableFile),
    /// A Postgres server, and the pool of sessions that most reading connections share.
    Postgres(Box<Server>, Pool),
}

impl Opener {
    pub fn new(database: &Database) -> Result<Self> {
        match database {
            Database::Sqlite(path) => {
                reject_network_file_system(path)?;
                Ok(Self::Sqlite(path.clone(), Clock::system()))
            }
            Database::Postgres(url) => {
                let server = parse_url(url)?;
                let pool = create_pool(&server, POSTGRES_POOL_CONNECTIONS)?;
                Ok(Self::Postgres(Box::new(server), pool))
            }
        }
    }

    /// Sets the clock for the time limits of statements on SQLite readers.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        match self {
            Self::Sqlite(path, _) => Self::Sqlite(path, clock),
            other => other,
        }
    }

    /// Creates an opener for read-only use, including on read-only media. The database must exist.
    pub fn for_audit(database: &Database) -> Result<Self> {
        match database {
            Database::Sqlite(path) => {
                file::check_is_database(path)?;
                let opener = ReadableFile::detect(path).map(Self::ReadOnly)?;
                check_has_schema(&opener.auditor()?, path)?;
                Ok(opener)
            }
            Database::Postgres(_) => Self::new(database),
        }
    }

    pub fn is_sqlite(&self) -> bool {
        !matches!(self, Self::Postgres(..))
    }

    /// Opens the first connection, to determine the state of the database.
    ///
    /// On SQLite, a file that must exist is checked, and a file that may be created is created.
    pub fn open_first_connection(&self, mode: OpenMode) -> Result<Conn> {
        match (self, mode) {
            (Self::Sqlite(path, _), OpenMode::Existing) => {
                file::check_is_database(path)?;
                let conn = self.reader()?;
                check_has_schema(&conn, path)?;
                Ok(conn)
            }
            (Self::Sqlite(path, _), OpenMode::Create) => {
                file::check_can_create(path)?;
                self.open(Role::Creator)
            }
            _ => self.reader(),
        }
    }

    /// Opens a connection that changes the schema, without any time limit.
    pub fn migrator(&self) -> Result<Conn> {
        match self {
            Self::Postgres(server, _) => PgConn::open(&server.without_timeouts()).map(Conn::Postgres),
            _ => self.open_writer(),
        }
    }

    /// Opens a connection that writes.
    pub fn open_writer(&self) -> Result<Conn> {
        self.open(Role::Writer)
    }

    /// Opens a connection for housekeeping: a writing connection on SQLite, a pooled connection on Postgres.
    pub fn housekeeper(&self) -> Result<Conn> {
        if self.is_sqlite() { self.open_writer() } else { self.reader() }
    }

    /// Opens a connection that reads. On Postgres, it takes a session from the pool on first use.
    pub fn reader(&self) -> Result<Conn> {
        self.open(Role::Reader)
    }

    /// Returns the functions with which core threads open their connections. Each connection reports its
    /// statements to `watcher`.
    pub fn connection_openers(&self, watcher: Option<&Watcher>) -> ConnectionOpeners {
        let opener_for = |role| -> Connect {
            let opener = self.clone();
            let watcher = watcher.cloned();
            Arc::new(move || {
                let mut conn = opener.open(role)?;
                if let Some(watcher) = &watcher {
                    conn.set_watcher(Arc::clone(watcher));
                }
                Ok(conn)
            })
        };
        ConnectionOpeners {
            writer: opener_for(Role::Writer),
            reader: opener_for(Role::Reader),
            scanner: opener_for(Role::Scanner),
        }
    }

    /// Opens a connection for short statements. On Postgres, its timeouts are short.
    pub fn open_with_short_timeouts(&self) -> Result<Conn> {
        match self {
            Self::Postgres(server, _) => {
                PgConn::open(&server.with_short_statement_timeouts()).map(Conn::Postgres)
            }
            _ => self.open_writer(),
        }
    }

    /// Opens a connection that cannot write, for verification.
    pub fn auditor(&self) -> Result<Conn> {
        self.open(Role::Auditor)
    }

    fn open(&self, role: Role) -> Result<Conn> {
        match self {
            Self::Sqlite(path, clock) => SqliteConn::open(path, role)?.with_clock(clock).map(Conn::Sqlite),
            Self::ReadOnly(file) => SqliteConn::open_for_audit(file).map(Conn::Sqlite),
            Self::Postgres(server, _) if role == Role::Auditor => {
                PgConn::open(&server.with_read_only_sessions()).map(Conn::Postgres)
            }
            Self::Postgres(server, _) if role == Role::Writer => {
                PgConn::open(&server.with_generic_plans()).map(Conn::Postgres)
            }
            Self::Postgres(_, pool) => PgConn::from_pool(pool).map(Conn::Postgres),
        }
    }

    /// Returns the size of SQLite's write-ahead log in bytes, or 0 on Postgres.
    pub fn wal_bytes(&self) -> u64 {
        let Self::Sqlite(path, _) = self else { return 0 };
        file::wal_bytes(path)
    }

    /// Syncs SQLite's database file to disk, without its write-ahead log.
    pub fn sync_file(&self) -> Result<()> {
        let Self::Sqlite(path, _) = self else { return Ok(()) };
        file::sync_file(path)
    }

    /// Starts the thread that receives the commits of other Postgres servers. Returns `None` on SQLite.
    pub fn listen(&self, bus: Arc<Bus>) -> Result<Option<JoinHandle<()>>> {
        match self {
            Self::Sqlite(..) | Self::ReadOnly(_) => Ok(None),
            Self::Postgres(server, _) => start_listener(server, bus).map(Some),
        }
    }
}

/// Fails if the file has no schema, because its set-up was not completed.
fn check_has_schema(conn: &Conn, path: &Path) -> Result<()> {
    let set_keep_wal = |keep| match conn {
        Conn::Sqlite(conn) => conn.set_keep_wal(keep),
        _ => Ok(()),
    };
    // A rejected file and its write-ahead log stay unchanged.
    set_keep_wal(true)?;
    if !migrate::schema_exists(conn)? {
        return Err(file::no_schema_error(path));
    }
    set_keep_wal(false)
}

/// Types of network file systems, whose locks are not reliable between machines.
const NETWORK_FILE_SYSTEMS: [&str; 10] =
    ["nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "lustre", "fuse.sshfs"];

/// Rejects a network file system: SQLite's locks and shared memory do not work across machines.
fn reject_network_file_system(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(folder) = folder.canonicalize() else { return Ok(()) };
    // Without a mount list there is nothing to check.
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    match network_file_system_type(&mounts, &folder) {
        Some(kind) => Err(Error::malformed(format!(
            "{} is on a network file system ({kind}), where SQLite's locks are unreliable: use a local \
             folder, or Postgres",
            folder.display()
        ))),
        None => Ok(()),
    }
}

/// Returns the file system type of the innermost mount that contains `folder`, if it is a network file
/// system.
fn network_file_system_type<'a>(mounts: &'a str, folder: &Path) -> Option<&'a str> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        Some((words.next()?, words.next()?))
    });
    let (_, kind) = mounts.filter(|(at, _)| folder.starts_with(at)).max_by_key(|(at, _)| at.len())?;
    NETWORK_FILE_SYSTEMS.contains(&kind).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_decides() {
        let mounts = "/dev/vda / ext4 rw 0 0\nhost:/x /mnt nfs4 rw 0 0\n/dev/vdb /mnt/local ext4 rw 0 0\n";
        assert_eq!(network_file_system_type(mounts, Path::new("/mnt/a")), Some("nfs4"));
        assert_eq!(network_file_system_type(mounts, Path::new("/mnt/local/a")), None);
        assert_eq!(network_file_system_type(mounts, Path::new("/home")), None);
    }

    /// Checking and syncing the file must not release the locks on it.
    ///
    /// Otherwise another process could believe that no other process has the file open, and remove the
    /// write-ahead log.
    #[test]
    #[cfg(target_os = "linux")]
    fn checking_and_syncing_the_file_keeps_the_locks_of_its_connections() {
        use std::os::unix::fs::MetadataExt as _;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("svc.db");
        let opener = Opener::new(&Database::Sqlite(path.clone())).unwrap();
        let conn = opener.open_first_connection(OpenMode::Create).unwrap();
        conn.batch("create table schema_migrations (n)").unwrap();
        let inode = format!(":{} ", std::fs::metadata(&path).unwrap().ino());
        let locks = || {
            let all = std::fs::read_to_string("/proc/locks").unwrap();
            all.lines().filter(|line| line.contains(&inode)).count()
        };
        // The list changes while it is read, also because of other processes' locks: a line may be missing,
        // or appear twice.
        let has = |count| (0..100).any(|_| locks() == count);
        let mut seen: Vec<usize> = (0..9).map(|_| locks()).collect();
        seen.sort_unstable();
        let before = seen[4];
        assert!(before > 0);
        opener.sync_file().unwrap();
        assert!(has(before), "{} of {before}", locks());
        drop(opener.open_first_connection(OpenMode::Existing).unwrap());
        assert!(has(before), "{} of {before}", locks());
        drop(conn);
        assert!(has(0), "{}", locks());
        drop(opener.open_first_connection(OpenMode::Existing).unwrap());
    }

    /// Creates a database, and returns a connection whose checkpoints take long.
    fn with_schema(path: &Path) -> rusqlite::Connection {
        let conn = rusqlite::Connection::open(path).unwrap();
        conn.execute_batch(
            "pragma journal_mode = wal; pragma wal_autocheckpoint = 0; pragma synchronous = off;
             create table schema_migrations (version bigint); create table t (b blob);",
        )
        .unwrap();
        conn
    }

    fn start(path: &Path) -> Result<Conn> {
        Opener::new(&Database::Sqlite(path.to_owned())).unwrap().open_first_connection(OpenMode::Existing)
    }

    #[test]
    fn a_file_that_is_complete_only_with_its_log_is_a_database() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("made.db");
        let path = folder.path().join("svc.db");
        let log = |path: &Path| path.with_extension("db-wal");
        let conn = with_schema(&made);
        conn.execute_batch("insert into t values (zeroblob(200000))").unwrap();
        let no_page = std::fs::read(&made).unwrap();
        conn.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(())).unwrap();
        // The first page has been moved into the file and takes precedence; the other pages have not.
        let first_page = std::fs::read(&made).unwrap()[..4096].to_vec();
        for content in [no_page, first_page] {
            std::fs::copy(log(&made), log(&path)).unwrap();
            std::fs::write(&path, &content).unwrap();
            let mut rows = start(&path).unwrap().query("select length(b) from t", &[]).unwrap();
            assert_eq!(rows[0].take::<i64>().unwrap(), 200_000);
            for left in ["db-wal", "db-shm"] {
                let _ = std::fs::remove_file(path.with_extension(left));
            }
            std::fs::write(&path, &content).unwrap();
            start(&path).map(drop).unwrap_err();
        }
    }

    #[test]
    fn a_damaged_database_is_rejected_and_left_alone_with_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("made.db");
        let path = folder.path().join("svc.db");
        let log = |path: &Path| path.with_extension("db-wal");
        let conn = with_schema(&made);
        conn.execute_batch("insert into t values (x'01')").unwrap();
        conn.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())).unwrap();
        conn.execute_batch("update t set b = x'02'").unwrap();
        let mut damaged = std::fs::read(&made).unwrap();
        damaged[100..200].fill(0xff);
        let newest = std::fs::read(log(&made)).unwrap();
        std::fs::write(&path, &damaged).unwrap();
        std::fs::write(log(&path), &newest).unwrap();
        start(&path).map(drop).unwrap_err();
        assert!(std::fs::read(&path).unwrap() == damaged, "the file has changed");
        assert!(std::fs::read(log(&path)).unwrap() == newest, "the log has changed");
    }

    #[test]
    fn another_programs_database_is_rejected_and_left_alone_with_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let made = folder.path().join("made.db");
        let path = folder.path().join("svc.db");
        let conn = with_schema(&made);
        conn.execute_batch("drop table schema_migrations").unwrap();
        let files = |path: &Path| [path.to_owned(), path.with_extension("db-wal")];
        for (from, to) in files(&made).iter().zip(files(&path)) {
            std::fs::copy(from, to).unwrap();
        }
        let database = Database::Sqlite(path.clone());
        for error in [start(&path).map(drop), Opener::for_audit(&database).map(drop)] {
            assert!(error.unwrap_err().detail().contains("has no schema"));
            let left = files(&path).map(|file| std::fs::read(file).unwrap());
            assert_eq!(left, files(&made).map(|file| std::fs::read(file).unwrap()));
        }
    }

    #[test]
    fn a_start_during_checkpoints_is_not_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("svc.db");
        let conn = with_schema(&path);
        let mut started = 0;
        std::thread::scope(|scope| {
            let writing = scope.spawn(move || {
                for _ in 0..30 {
                    conn.execute_batch("insert into t values (zeroblob(2000000))").unwrap();
                    conn.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(())).unwrap();
                }
            });
            while !writing.is_finished() || started == 0 {
                start(&path).unwrap();
                started += 1;
            }
        });
    }
}
