//! Migrations: the history of the schema, with the same numbers and names for both engines.
//!
//! The history begins with a baseline of one file per layer. Each later change of the schema is one new
//! migration, which must not be edited once it has landed: its checksum is compared at every start. Numbers
//! increase and may have gaps. `migrations/schema` contains the schema that results from all migrations. The
//! caller decides whether a database may be given a schema at all.

use super::conn::Conn;
use super::engine::Engine;
use super::row::Row;
use crate::error::{Code, Error, Result};
use crate::hash::sha256;
use crate::time::Time;

struct Migration {
    version: i64,
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

macro_rules! migrations {
    ($($version:literal $name:literal),* $(,)?) => {
        const MIGRATIONS: &[Migration] = &[$(Migration {
            version: $version,
            name: $name,
            sqlite: include_str!(concat!("../../../migrations/sqlite/", $name, ".sql")),
            postgres: include_str!(concat!("../../../migrations/postgres/", $name, ".sql")),
        }),*];
    };
}

migrations! {
    72 "0072_store",
    73 "0073_log",
    74 "0074_op",
    75 "0075_identity",
    76 "0076_conversation",
    77 "0077_coordination",
    78 "0078_gates",
    79 "0079_integrity",
    80 "0080_outreach",
}

/// The schema versions right before and at the baseline. Both have the same exported columns.
const BASELINE_VERSIONS: (i64, i64) = (71, 80);

/// Returns the version of the schema, which is the number of the newest migration.
pub(crate) fn schema_version() -> i64 {
    MIGRATIONS.last().map_or(0, |migration| migration.version)
}

/// Returns whether an export with the schema version `version` may lack values that the current schema has.
pub(crate) fn is_older_schema(version: i64) -> bool {
    let (before, baseline) = BASELINE_VERSIONS;
    let version = if version == before { baseline } else { version };
    version < schema_version()
}

/// Lock that serialises migrations on Postgres, separately for each database.
const TAKE_MIGRATION_LOCK: &str = "select pg_advisory_xact_lock(7233071290617)";

/// The state of a database's schema: whether it exists, and the migrations that it lacks.
pub(crate) struct Schema {
    exists: bool,
    missing: Vec<&'static Migration>,
}

impl Schema {
    /// Reads the state of the schema, and checks the applied migrations.
    ///
    /// Fails if an earlier build created the database, if a newer version has migrated it, or if the checksum
    /// of an applied migration differs.
    pub fn read(conn: &Conn) -> Result<Self> {
        let exists = schema_exists(conn)?;
        let applied = if exists { applied_migrations(conn)? } else { Vec::new() };
        let first = MIGRATIONS.first().map_or(0, |migration| migration.version);
        if applied.iter().any(|found| found.version < first) {
            return Err(schema_too_old_error());
        }
        let known = |found: &AppliedMigration| MIGRATIONS.iter().find(|known| known.version == found.version);
        if let Some(newer) = applied.iter().find(|found| known(found).is_none()) {
            return Err(schema_too_new_error(&newer.name));
        }
        let is_edited = |(known, found): &(&Migration, &AppliedMigration)| {
            known.checksum(conn.engine()) != found.checksum
        };
        if let Some((known, _)) =
            applied.iter().filter_map(|found| Some((known(found)?, found))).find(is_edited)
        {
            return Err(migration_edited_error(known));
        }
        let is_missing = |known: &&Migration| applied.iter().all(|found| found.version != known.version);
        Ok(Self { exists, missing: MIGRATIONS.iter().filter(is_missing).collect() })
    }

    /// Returns whether the database has a schema of svc, complete or not.
    pub fn exists(&self) -> bool {
        self.exists
    }

    /// Returns whether the complete schema exists.
    pub fn is_complete(&self) -> bool {
        self.exists && self.missing.is_empty()
    }

    /// Applies the missing migrations, inside the transaction of [`with_migration_lock`].
    pub fn complete(&self, conn: &Conn, now: Time) -> Result<()> {
        if !self.exists {
            tracing::info!(version = schema_version(), "creating the schema");
            conn.batch(CREATE_MIGRATIONS_TABLE)?;
        }
        for migration in &self.missing {
            if self.exists {
                tracing::info!(migration = migration.name, "applying a migration");
            }
            conn.batch(migration.sql(conn.engine()))?;
            conn.execute(
                "insert into schema_migrations (version, name, checksum, applied_at) values ($1, $2, $3, $4)",
                &[&migration.version, &migration.name, &migration.checksum(conn.engine()), &now],
            )?;
        }
        Ok(())
    }
}

const CREATE_MIGRATIONS_TABLE: &str = "\
create table schema_migrations (
    version bigint primary key,
    name text not null,
    checksum text not null,
    applied_at bigint not null
)";

impl Migration {
    fn sql(&self, engine: Engine) -> &'static str {
        match engine {
            Engine::Sqlite => self.sqlite,
            Engine::Postgres => self.postgres,
        }
    }

    fn checksum(&self, engine: Engine) -> String {
        hex::encode(sha256(self.sql(engine).as_bytes()))
    }
}

/// Runs `change` in a transaction while no other process migrates, waiting for the lock without a time limit.
///
/// The transaction sees the changes of the previous lock holder. The lock ends with the transaction.
pub(crate) fn with_migration_lock(conn: &Conn, change: impl FnOnce(&Conn) -> Result<()>) -> Result<()> {
    conn.begin_write_without_timeout()?;
    let changed = match conn.engine() {
        Engine::Sqlite => Ok(()),
        Engine::Postgres => conn.query(TAKE_MIGRATION_LOCK, &[]).map(drop),
    };
    let changed = changed.and_then(|()| change(conn)).and_then(|()| conn.flush());
    let committed = changed.and_then(|()| conn.commit(&Default::default()));
    if committed.is_err() {
        // The first error is the one to report.
        let _ = conn.rollback();
    }
    committed
}

/// Applies all missing migrations to the database of a test.
#[cfg(test)]
pub(crate) fn migrate(conn: &Conn, now: Time) -> Result<()> {
    with_migration_lock(conn, |conn| Schema::read(conn)?.complete(conn, now))
}

/// Selects the newest applied migration, for [`is_newer_schema`].
pub(crate) const NEWEST: &str = "select version, name from schema_migrations order by version desc limit 1";

/// Returns whether `version` is the number of a migration that only a later version of svc has.
pub(crate) fn is_newer_schema(version: i64) -> bool {
    MIGRATIONS.iter().all(|known| known.version != version)
}

/// Returns whether a database has a schema of svc, in any version.
pub(super) fn schema_exists(conn: &Conn) -> Result<bool> {
    let sql = match conn.engine() {
        Engine::Sqlite => {
            "select count(*) from sqlite_schema where type = 'table' and name = 'schema_migrations'"
        }
        Engine::Postgres => "select count(to_regclass('schema_migrations'))",
    };
    let found: i64 = conn.query(sql, &[])?.first_mut().map_or(Ok(0), Row::take)?;
    Ok(found > 0)
}

struct AppliedMigration {
    version: i64,
    name: String,
    checksum: String,
}

/// Reads the applied migrations, ordered by version.
fn applied_migrations(conn: &Conn) -> Result<Vec<AppliedMigration>> {
    let mut rows =
        conn.query("select version, name, checksum from schema_migrations order by version", &[])?;
    let read = |row: &mut Row| {
        Ok(AppliedMigration { version: row.take()?, name: row.take()?, checksum: row.take()? })
    };
    rows.iter_mut().map(read).collect()
}

/// Returns the error for a database that exists but was not set up.
pub(crate) fn not_set_up_error() -> Error {
    Error::new(Code::NotFound, "the database is not set up; run `svc init`, or correct DATABASE_URL")
}

fn schema_too_old_error() -> Error {
    Error::wrong_state(
        "the database was made by an earlier build of svc, whose schema this one does not migrate: export \
         each workspace with that build (`svc export`), and import the files here into a new database (`svc \
         import`)",
    )
}

fn schema_too_new_error(name: &str) -> Error {
    Error::wrong_state(format!(
        "the database belongs to a newer version of svc: this one does not know its migration {name}; \
         use the newer version"
    ))
}

fn migration_edited_error(migration: &Migration) -> Error {
    Error::wrong_state(format!(
        "the migration {} is not the one that was applied to this database: it was made by another \
         build; use that build, or restore the database of this one",
        migration.name
    ))
}

#[cfg(test)]
mod tests {
    use super::super::sqlite_for_tests;
    use super::*;

    #[test]
    fn an_edited_migration_and_those_of_other_builds_are_rejected() {
        let (_folder, conn) = sqlite_for_tests();
        migrate(&conn, Time::from_micros(1)).unwrap();
        migrate(&conn, Time::from_micros(2)).unwrap();
        for (change, message) in [
            ("set checksum = 'x' where version = 72", "0072_store is not the one"),
            ("set version = 9000, name = 'later' where version = 72", "does not know its migration later"),
            ("set version = 71, name = 'before' where version = 9000", "made by an earlier build of svc"),
        ] {
            conn.batch(&format!("update schema_migrations {change}")).unwrap();
            let error = migrate(&conn, Time::from_micros(3)).unwrap_err();
            assert!(error.detail().contains(message), "{error:?}");
        }
    }

    #[test]
    fn missing_migrations_are_applied_even_between_others() {
        let (_folder, conn) = sqlite_for_tests();
        let schema = Schema::read(&conn).unwrap();
        assert!(!schema.exists() && !schema.is_complete());
        migrate(&conn, Time::from_micros(1)).unwrap();
        assert!(Schema::read(&conn).unwrap().is_complete());
        conn.batch("drop table idempotency_keys; drop table leases").unwrap();
        conn.batch("delete from schema_migrations where version = 74").unwrap();
        let schema = Schema::read(&conn).unwrap();
        assert!(schema.exists() && !schema.is_complete());
        migrate(&conn, Time::from_micros(2)).unwrap();
        assert!(Schema::read(&conn).unwrap().is_complete());
    }

    #[test]
    fn only_a_file_of_the_schema_before_the_baseline_is_as_complete_as_one_of_it() {
        let (before, baseline) = BASELINE_VERSIONS;
        assert!(MIGRATIONS.iter().all(|migration| migration.version > before));
        assert!(MIGRATIONS.iter().any(|migration| migration.version == baseline));
        assert_eq!(is_older_schema(before), is_older_schema(baseline));
        assert!(is_older_schema(before - 1) && !is_older_schema(schema_version()));
    }
}
