//! Checks before a service starts.
//!
//! The database must have been set up, unless it may be created; its schema must have this version; every
//! key-encryption key that it was used with must be configured. All this is checked before anything is
//! locked, so that a start during a long write does not wait, and checked again under the lock for
//! migrations.

use std::time::Duration;

use crate::error::{Code, Error, Result};
use crate::limits::{INLINE_READERS_MAX, POSTGRES_INLINE_READERS, POSTGRES_READERS, READERS, WRITER_LANES};
use crate::log::batch::newest_event_time;
use crate::log::keys;
use crate::log::seal::Sealer;
use crate::op::Read;
use crate::store::executor::ReaderSettings;
use crate::store::migrate::{self, Schema};
use crate::store::{Conn, Engine, OpenMode, Opener, rate_windows};
use crate::time::{Clock, Time};

/// Prepares the database for a service, or fails with the reason why the service cannot start.
pub(crate) fn prepare_database(opener: &Opener, mode: OpenMode, sealer: &Sealer, now: Time) -> Result<()> {
    if MissingSetup::find(&opener.open_first_connection(mode)?, mode, sealer)?.is_empty() {
        return Ok(());
    }
    let conn = opener.migrator()?;
    migrate::with_migration_lock(&conn, |conn| {
        MissingSetup::find(conn, mode, sealer)?.create(conn, sealer, now)
    })?;
    // A schema in SQLite's file, not only in its write-ahead log, can be read without changing either of
    // them.
    conn.checkpoint()
}

/// Compares the newest stored time with the clock.
///
/// On Postgres, first sets the clock to the database's time.
pub(crate) fn check_clock(opener: &Opener, clock: &Clock) -> Result<()> {
    let conn = opener.reader()?;
    if conn.engine() == Engine::Postgres {
        let asked = clock.monotonic();
        clock.follow_database(rate_windows::database_time(&conn)?, asked);
    }
    newest_event_time(&conn)?.into_iter().for_each(|newest| clock.note_stored_time(newest));
    Ok(())
}

/// Rejects a database that has been set up, without changing it.
pub(crate) fn check_not_set_up(opener: &Opener) -> Result<()> {
    let conn = opener.reader()?;
    if Schema::read(&conn)?.exists() && keys::has_workspace(&conn)? {
        return Err(already_set_up_error());
    }
    Ok(())
}

fn already_set_up_error() -> Error {
    Error::new(Code::AlreadyInitialised, "the database is already set up; nothing was changed")
}

/// The reasons why this process should be replaced: changes to the database since it started.
pub(crate) struct ReplacementReasons {
    /// Set if another version has migrated the schema.
    pub schema: Option<String>,
    /// Set if another process wraps with a key that is not configured in this process.
    pub keys: Option<String>,
}

impl ReplacementReasons {
    /// Checks whether this process should be replaced.
    pub fn find(cx: &Read<'_>) -> Result<Self> {
        Ok(Self { schema: Self::schema_reason(cx)?, keys: Self::key_reason(cx)? })
    }

    /// Returns a description if another version has migrated the schema.
    pub fn schema_reason(cx: &Read<'_>) -> Result<Option<String>> {
        let newest = cx.one::<(i64, String)>(migrate::NEWEST, &[])?;
        let newer = newest.filter(|(version, _)| migrate::is_newer_schema(*version));
        Ok(newer.map(|(_, name)| format!("a newer version has applied {name}: run that version here")))
    }

    /// Returns a description if another process wraps with a key that is not configured in this process.
    pub fn key_reason(cx: &Read<'_>) -> Result<Option<String>> {
        let checks = cx.query::<(Vec<u8>, Vec<u8>)>(keys::SELECT_CHECK_VALUES, &[])?;
        let missing_key_ids = keys::missing_key_ids(&checks, cx.sealer());
        Ok((!missing_key_ids.is_empty()).then(|| {
            format!("the key {} is in use: add it to SVC_CONTENT_KEK_PREVIOUS", missing_key_ids.join(", "))
        }))
    }

    /// Returns whether the check value of this process's sealing key was removed.
    pub fn is_check_value_removed(cx: &Read<'_>) -> Result<bool> {
        let checks = cx.query::<(Vec<u8>, Vec<u8>)>(keys::SELECT_CHECK_VALUES, &[])?;
        Ok(!checks.is_empty() && checks.iter().all(|(id, _)| id != cx.sealer().current_id()))
    }

    /// Logs a warning for each reason.
    pub fn log_warnings(&self) {
        for found in [&self.schema, &self.keys].into_iter().flatten() {
            tracing::warn!("this process should be replaced: {found}");
        }
    }
}

/// The parts of a set-up that the database lacks.
struct MissingSetup {
    schema: Schema,
    /// Whether the check value of the sealing key is missing.
    needs_check_value: bool,
}

impl MissingSetup {
    fn find(conn: &Conn, mode: OpenMode, sealer: &Sealer) -> Result<Self> {
        let schema = Schema::read(conn)?;
        if !schema.exists() {
            return match mode {
                OpenMode::Existing => Err(migrate::not_set_up_error()),
                OpenMode::Create => Ok(Self { schema, needs_check_value: false }),
            };
        }
        match keys::needs_check_value(conn, sealer) {
            Ok(needs_check_value) => Ok(Self { schema, needs_check_value }),
            // The process that sets up has generated a different key.
            Err(_) if mode == OpenMode::Create && keys::has_workspace(conn)? => Err(already_set_up_error()),
            Err(error) => Err(error),
        }
    }

    fn is_empty(&self) -> bool {
        self.schema.is_complete() && !self.needs_check_value
    }

    /// Creates the missing parts.
    fn create(&self, conn: &Conn, sealer: &Sealer, now: Time) -> Result<()> {
        self.schema.complete(conn, now)?;
        if self.needs_check_value { keys::add_check_value(conn, sealer, now) } else { Ok(()) }
    }
}

/// Returns the number of writer lanes, and the numbers of readers, for a process on a machine with `cores`
/// cores.
///
/// `read_limit` is the time limit of a read.
pub(super) fn connection_counts(
    opener: &Opener,
    cores: usize,
    read_limit: Option<Duration>,
) -> (usize, ReaderSettings) {
    if opener.is_sqlite() {
        let inline = cores.saturating_add(1).min(INLINE_READERS_MAX);
        return (1, ReaderSettings { threads: READERS, inline, limit: read_limit });
    }
    // Each statement on these connections waits for the network, so their number does not depend on the
    // cores. It is fixed, so that a server can be configured for a number of processes.
    (
        WRITER_LANES,
        ReaderSettings { threads: POSTGRES_READERS, inline: POSTGRES_INLINE_READERS, limit: read_limit },
    )
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::*;
    use crate::limits::{POSTGRES_CONNECTIONS, SCANNER_THREADS};
    use crate::store::Database;

    #[test]
    fn a_process_has_at_most_seventeen_connections_to_postgres_whatever_its_cores() {
        let postgres =
            Opener::new(&Database::Postgres(SecretString::from("postgres://svc@localhost/svc"))).unwrap();
        for cores in [1, 2, 8, 64, 256] {
            let (lanes, readers) = connection_counts(&postgres, cores, None);
            // One more connection each for health, the long reader, the bus, the listener, the housekeeper
            // and the rate limits.
            let fixed = SCANNER_THREADS + 6;
            assert_eq!(
                lanes + readers.threads + readers.inline + fixed,
                POSTGRES_CONNECTIONS,
                "{cores} cores"
            );
        }
        let sqlite = Opener::new(&Database::Sqlite("svc.db".into())).unwrap();
        assert_eq!(connection_counts(&sqlite, 2, None).1.inline, 3);
        assert_eq!(connection_counts(&sqlite, 64, None).1.inline, 9);
    }
}
