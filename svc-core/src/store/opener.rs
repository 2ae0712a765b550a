//! Opens connections to one database, in the roles that core threads need.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use secrecy::SecretString;

use super::conn::Conn;
use super::postgres::{PgConn, listen, parse_url, read_only};
use super::sqlite::{Role, SqliteConn};
use crate::data_dir::DataDir;
use crate::error::{Code, Error, Result};
use crate::log::bus::Bus;

/// Where the rows are.
#[derive(Clone, Debug)]
pub enum Database {
    /// A SQLite file; created if it is missing.
    Sqlite(PathBuf),
    /// A PostgreSQL database, by its `postgres://` address.
    Postgres(SecretString),
}

impl Database {
    /// The database at `url`, or without one that of the folder `data_dir`.
    pub fn at(url: Option<SecretString>, data_dir: &Path) -> Self {
        url.map_or_else(|| Self::Sqlite(DataDir::database(data_dir)), Self::Postgres)
    }
}

/// Knows where the database is.
#[derive(Clone)]
pub(crate) enum Opener {
    Sqlite(PathBuf),
    Postgres(Box<tokio_postgres::Config>),
}

impl Opener {
    pub fn new(database: &Database) -> Result<Self> {
        match database {
            Database::Sqlite(path) => {
                refuse_network_file_system(path)?;
                Ok(Self::Sqlite(path.clone()))
            }
            Database::Postgres(url) => Ok(Self::Postgres(Box::new(parse_url(url)?))),
        }
    }

    pub fn is_sqlite(&self) -> bool {
        matches!(self, Self::Sqlite(_))
    }

    /// A connection that writes.
    pub fn writer(&self) -> Result<Conn> {
        self.open(Role::Writer)
    }

    /// A connection that reads.
    pub fn reader(&self) -> Result<Conn> {
        self.open(Role::Reader)
    }

    /// A connection that can change nothing, to a database that exists.
    pub fn auditor(&self) -> Result<Conn> {
        if let Self::Sqlite(path) = self
            && !path.is_file()
        {
            return Err(Error::new(Code::NotFound, format!("there is no database at {}", path.display())));
        }
        self.open(Role::Auditor)
    }

    fn open(&self, role: Role) -> Result<Conn> {
        match self {
            Self::Sqlite(path) => SqliteConn::open(path, role).map(Conn::Sqlite),
            Self::Postgres(config) if role == Role::Auditor => {
                PgConn::open(&read_only(config)).map(Conn::Postgres)
            }
            Self::Postgres(config) => PgConn::open(config).map(Conn::Postgres),
        }
    }

    /// The size of SQLite's log; 0 on Postgres, which looks after its own.
    pub fn log_bytes(&self) -> u64 {
        let Self::Sqlite(path) = self else { return 0 };
        let mut log = path.clone().into_os_string();
        log.push("-wal");
        std::fs::metadata(log).map_or(0, |file| file.len())
    }

    /// Has what was written to SQLite's file put on the disk; the log is not part of it.
    pub fn sync_file(&self) -> Result<()> {
        let Self::Sqlite(path) = self else { return Ok(()) };
        std::fs::File::open(path).and_then(|file| file.sync_data()).map_err(Error::internal)
    }

    /// Hears from other servers how far logs reach; nothing to hear on SQLite.
    pub fn listen(&self, bus: Arc<Bus>) -> Result<Option<JoinHandle<()>>> {
        match self {
            Self::Sqlite(_) => Ok(None),
            Self::Postgres(config) => listen(config, bus).map(Some),
        }
    }
}

/// File systems whose locks cannot be trusted between machines.
const NETWORK: [&str; 10] =
    ["nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "ceph", "glusterfs", "lustre", "fuse.sshfs"];

/// SQLite's locks and shared memory do not work across machines.
fn refuse_network_file_system(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(folder) = folder.canonicalize() else { return Ok(()) };
    // Where there is no such list the check has nothing to go by.
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    match network_mount(&mounts, &folder) {
        Some(kind) => Err(Error::malformed(format!(
            "{} is on a network file system ({kind}), where SQLite cannot keep its promises: use a local folder, or Postgres",
            folder.display()
        ))),
        None => Ok(()),
    }
}

/// The kind of the innermost mount that holds `folder`, if it is a network one.
fn network_mount<'a>(mounts: &'a str, folder: &Path) -> Option<&'a str> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        Some((words.next()?, words.next()?))
    });
    let (_, kind) = mounts.filter(|(at, _)| folder.starts_with(at)).max_by_key(|(at, _)| at.len())?;
    NETWORK.contains(&kind).then_some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_decides() {
        let mounts = "/dev/vda / ext4 rw 0 0\nhost:/x /mnt nfs4 rw 0 0\n/dev/vdb /mnt/local ext4 rw 0 0\n";
        assert_eq!(network_mount(mounts, Path::new("/mnt/a")), Some("nfs4"));
        assert_eq!(network_mount(mounts, Path::new("/mnt/local/a")), None);
        assert_eq!(network_mount(mounts, Path::new("/home")), None);
    }
}
