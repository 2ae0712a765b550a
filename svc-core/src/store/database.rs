//! Where a database is, and whether opening may create it.

use std::path::{Path, PathBuf};

use secrecy::SecretString;

use super::postgres::says_nothing_of_tls;
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::error::{Error, Result};

/// The location of the database.
#[derive(Clone, Debug)]
pub enum Database {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// A PostgreSQL database, by its `postgres://` address.
    Postgres(SecretString),
}

impl Database {
    /// Returns the database at `url`, or without one that of the folder `data_dir`.
    pub fn at(url: Option<SecretString>, data_dir: &Path) -> Self {
        url.map_or_else(|| Self::Sqlite(DataDir::database(data_dir)), Self::Postgres)
    }

    /// Returns the database that the service is configured with.
    ///
    /// In production the address of another machine must say whether connections to it use TLS.
    pub(crate) fn of(config: &Config) -> Result<Self> {
        if config.production && config.database_url.as_ref().is_some_and(says_nothing_of_tls) {
            return Err(Error::configuration(
                "DATABASE_URL names another machine and has no sslmode: in production it needs one, best \
                 verify-full with sslrootcert",
            ));
        }
        Ok(Self::at(config.database_url.clone(), &config.data_dir))
    }
}

/// Whether opening may create a database.
///
/// Only a setup may: any other program that finds none has lost it, or was pointed at the wrong place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// The database must exist, with its schema.
    Existing,
    /// Missing parts are created.
    Create,
}
