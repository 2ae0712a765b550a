//! The location of a database, and whether opening may create it.

use std::path::{Path, PathBuf};

use secrecy::SecretString;

use crate::data_dir::DataDir;

/// The location of the database.
#[derive(Clone, Debug)]
pub enum Database {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A PostgreSQL database, identified by a `postgres://` URL.
    Postgres(SecretString),
}

impl Database {
    /// Returns the database at `url` or, without a URL, the one in the folder `data_dir`.
    pub fn at(url: Option<SecretString>, data_dir: &Path) -> Self {
        url.map_or_else(|| Self::Sqlite(DataDir::database(data_dir)), Self::Postgres)
    }
}

/// Whether opening may create a database.
///
/// Only a set-up may create one: any other program that does not find it has lost it, or has the wrong
/// location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// The database must exist, with its schema.
    Existing,
    /// Missing parts of the database are created.
    Create,
}
