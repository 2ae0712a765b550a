//! The location of a database, and whether opening may create it.

use std::path::{Path, PathBuf};

use secrecy::SecretString;

use crate::data_dir::DataDir;

/// The location of the database.
#[derive(Clone, Debug)]
pub enum Database {
    /// The path of a SQLite file.
    Sqlite(PathBuf),
    /// A PostgreSQL database, identified by a `postgres://` URL.
    Postgres(SecretString),
}

impl Database {
    /// Returns the Postgres database at `url`, or the SQLite database in the folder `data_dir` if `url` is
    /// `None`.
    pub fn at(url: Option<SecretString>, data_dir: &Path) -> Self {
        url.map_or_else(|| Self::Sqlite(DataDir::database(data_dir)), Self::Postgres)
    }
}

/// Whether opening may create a database.
///
/// Only a set-up may create a database. If any other program does not find the database, the database was
/// lost or the configured location is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// The database and its schema must exist.
    Existing,
    /// A missing database or schema is created.
    Create,
}
