//! Migrations: the schema's history, with the same numbers and names for both engines.
//!
//! A migration is never edited once it has been applied; its checksum is compared at every start. Numbers
//! increase and may have gaps. Whether a database may be given a schema at all is up to the caller.

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
    1 "0001_spine",
    2 "0002_one_tree",
    3 "0003_key_checks",
    4 "0004_shelves",
    5 "0005_hooks",
    6 "0006_event_rows",
    7 "0007_instance_head",
    8 "0008_audit_channel",
    9 "0009_shelves_apart",
    10 "0010_claims_in_order",
    11 "0011_has_result",
    12 "0012_footprints",
    13 "0013_lapsed_claims",
    14 "0014_checkpoints",
    15 "0015_gates",
    16 "0016_budgets",
    17 "0017_awaiting",
    18 "0018_findings",
    19 "0019_references",
    20 "0020_bounded_reads",
    21 "0021_delegation",
    22 "0022_members",
    23 "0023_sessions",
    24 "0024_scim",
    25 "0025_apps",
    26 "0026_quotas",
    27 "0027_rate_windows",
    28 "0028_share_tickets",
    29 "0029_oidc",
    30 "0030_operator",
    31 "0031_derived_tokens",
    32 "0032_feed",
    33 "0033_legal_holds",
    34 "0034_withdrawals",
    35 "0035_retention",
    36 "0036_census",
    37 "0037_taps",
    38 "0038_log_trees",
    40 "0040_imports",
    41 "0041_purges",
    42 "0042_open_footprints",
    43 "0043_limits",
    44 "0044_removals",
    46 "0046_held_texts",
    47 "0047_memory",
    48 "0048_reactions",
    49 "0049_no_statistics",
    50 "0050_relations",
    51 "0051_votes",
    53 "0053_inbox",
    54 "0054_preferences",
    56 "0056_presence",
    57 "0057_dms",
    58 "0058_follows",
    59 "0059_outgoing",
    60 "0060_resource_subscriptions",
    61 "0061_needs_person",
    62 "0062_charged_to",
    63 "0063_bounded_rows",
    64 "0064_slots_and_members",
    65 "0065_due_by_workspace",
    66 "0066_ballot_counts",
    67 "0067_claim_positions",
    68 "0068_unread_mentions",
    69 "0069_idempotency_keys",
    70 "0070_long_external_ids",
    71 "0071_mail_refusals",
}

/// Returns the version of the schema: that of the newest migration.
pub(crate) fn schema_version() -> i64 {
    MIGRATIONS.last().map_or(0, |migration| migration.version)
}

/// Serialises migrations on Postgres, separately for each database.
const LOCK: &str = "select pg_advisory_xact_lock(7233071290617)";

/// The schema of a database, as far as this version knows it.
pub(crate) struct Schema {
    exists: bool,
    missing: Vec<&'static Migration>,
    newest: i64,
}

impl Schema {
    /// Reads the schema, or rejects a database that a newer version or someone else has changed.
    pub fn read(conn: &Conn) -> Result<Self> {
        let exists = exists(conn)?;
        let applied = if exists { applied(conn)? } else { Vec::new() };
        let known = |found: &Applied| MIGRATIONS.iter().find(|known| known.version == found.version);
        if let Some(newer) = applied.iter().find(|found| known(found).is_none()) {
            return Err(too_new(&newer.name));
        }
        let is_edited =
            |(known, found): &(&Migration, &Applied)| known.checksum(conn.engine()) != found.checksum;
        if let Some((known, _)) =
            applied.iter().filter_map(|found| Some((known(found)?, found))).find(is_edited)
        {
            return Err(edited(known));
        }
        let is_missing = |known: &&Migration| applied.iter().all(|found| found.version != known.version);
        Ok(Self {
            exists,
            missing: MIGRATIONS.iter().filter(is_missing).collect(),
            newest: applied.last().map_or(0, |found| found.version),
        })
    }

    /// Returns whether any of it exists.
    pub fn exists(&self) -> bool {
        self.exists
    }

    /// Returns whether all of it exists.
    pub fn is_complete(&self) -> bool {
        self.exists && self.missing.is_empty()
    }

    /// Returns whether the migration `version` has been applied.
    pub fn has(&self, version: i64) -> bool {
        version <= self.newest && self.missing.iter().all(|migration| migration.version != version)
    }

    /// Applies the missing migrations, inside the transaction of [`in_turn`].
    pub fn complete(&self, conn: &Conn, now: Time) -> Result<()> {
        if !self.exists {
            conn.batch(
                "create table schema_migrations (
                     version bigint primary key, name text not null, checksum text not null, \
                     applied_at bigint not null)",
            )?;
        }
        for migration in &self.missing {
            tracing::info!(migration = migration.name, "applying a migration");
            conn.batch(migration.text(conn.engine()))?;
            conn.execute(
                "insert into schema_migrations (version, name, checksum, applied_at) values ($1, $2, $3, $4)",
                &[&migration.version, &migration.name, &migration.checksum(conn.engine()), &now],
            )?;
        }
        Ok(())
    }
}

impl Migration {
    fn text(&self, engine: Engine) -> &'static str {
        match engine {
            Engine::Sqlite => self.sqlite,
            Engine::Postgres => self.postgres,
        }
    }

    fn checksum(&self, engine: Engine) -> String {
        hex::encode(sha256(self.text(engine).as_bytes()))
    }
}

/// Runs `change` in a transaction while no other process migrates, however long it takes to get the lock.
///
/// It reads what the previous holder has left. The lock ends with the transaction, so it cannot outlive it.
pub(crate) fn in_turn(conn: &Conn, change: impl FnOnce(&Conn) -> Result<()>) -> Result<()> {
    conn.begin_alone()?;
    let changed = match conn.engine() {
        Engine::Sqlite => Ok(()),
        Engine::Postgres => conn.query(LOCK, &[]).map(drop),
    };
    let changed = changed.and_then(|()| change(conn)).and_then(|()| conn.flush());
    let committed = changed.and_then(|()| conn.commit(&Default::default()));
    if committed.is_err() {
        // The first failure is the one to report.
        let _ = conn.rollback();
    }
    committed
}

/// Brings the schema up to date, for databases without content.
#[cfg(test)]
pub(crate) fn migrate(conn: &Conn, now: Time) -> Result<()> {
    in_turn(conn, |conn| Schema::read(conn)?.complete(conn, now))
}

/// Finds what was applied last, for [`is_newer`].
pub(crate) const NEWEST: &str = "select version, name from schema_migrations order by version desc limit 1";

/// Returns whether a migration found by [`NEWEST`] belongs to a later version of svc.
pub(crate) fn is_newer(version: i64) -> bool {
    MIGRATIONS.iter().all(|known| known.version != version)
}

fn exists(conn: &Conn) -> Result<bool> {
    let sql = match conn.engine() {
        Engine::Sqlite => {
            "select count(*) from sqlite_schema where type = 'table' and name = 'schema_migrations'"
        }
        Engine::Postgres => "select count(to_regclass('schema_migrations'))",
    };
    let found: i64 = conn.query(sql, &[])?.first_mut().map_or(Ok(0), Row::take)?;
    Ok(found > 0)
}

struct Applied {
    version: i64,
    name: String,
    checksum: String,
}

/// Reads the applied migrations, ordered by version.
fn applied(conn: &Conn) -> Result<Vec<Applied>> {
    let mut rows =
        conn.query("select version, name, checksum from schema_migrations order by version", &[])?;
    let read = |row: &mut Row| Ok(Applied { version: row.take()?, name: row.take()?, checksum: row.take()? });
    rows.iter_mut().map(read).collect()
}

/// Returns the error for a database that exists and has not been set up.
pub(crate) fn not_set_up() -> Error {
    Error::new(Code::NotFound, "the database is not set up; run `svc init`, or correct DATABASE_URL")
}

fn too_new(name: &str) -> Error {
    Error::wrong_state(format!(
        "the database belongs to a newer version of svc: this one does not know its migration {name}; \
         use the newer version"
    ))
}

fn edited(migration: &Migration) -> Error {
    Error::wrong_state(format!(
        "the migration {} is not the one that was applied to this database: it was made by another \
         build; use that build, or restore the database of this one",
        migration.name
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::row::FromRow;
    use super::super::sqlite::{Role, SqliteConn};
    use super::*;

    /// Returns a database before the migration `version`, and that with those after it.
    fn before_version(folder: &tempfile::TempDir, version: i64) -> (Conn, Vec<&'static Migration>) {
        let conn = Conn::Sqlite(SqliteConn::open(&folder.path().join("t.db"), Role::Creator).unwrap());
        let (before, after): (Vec<_>, Vec<_>) = MIGRATIONS.iter().partition(|one| one.version < version);
        before.iter().for_each(|migration| conn.batch(migration.sqlite).unwrap());
        (conn, after)
    }

    #[test]
    fn an_edited_migration_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let conn = Conn::Sqlite(SqliteConn::open(&folder.path().join("t.db"), Role::Creator).unwrap());
        migrate(&conn, Time::from_micros(1)).unwrap();
        migrate(&conn, Time::from_micros(2)).unwrap();
        conn.batch("update schema_migrations set checksum = 'x'").unwrap();
        let error = migrate(&conn, Time::from_micros(3)).unwrap_err();
        assert!(error.detail().contains("0001_spine is not the one"), "{error:?}");
        conn.batch("update schema_migrations set version = 9000, name = 'later' where version = 1").unwrap();
        let error = migrate(&conn, Time::from_micros(3)).unwrap_err();
        assert!(error.detail().contains("does not know its migration later"), "{error:?}");
    }

    #[test]
    fn missing_migrations_are_applied_even_between_others() {
        let folder = tempfile::tempdir().unwrap();
        let conn = Conn::Sqlite(SqliteConn::open(&folder.path().join("t.db"), Role::Creator).unwrap());
        let schema = Schema::read(&conn).unwrap();
        assert!(!schema.exists() && !schema.is_complete() && !schema.has(1));
        migrate(&conn, Time::from_micros(1)).unwrap();
        assert!(Schema::read(&conn).unwrap().is_complete());
        conn.batch("drop table key_checks; delete from schema_migrations where version = 3").unwrap();
        let schema = Schema::read(&conn).unwrap();
        assert!(schema.exists() && !schema.is_complete() && schema.has(2) && !schema.has(3));
        migrate(&conn, Time::from_micros(2)).unwrap();
        assert!(Schema::read(&conn).unwrap().has(3));
    }

    #[test]
    fn rows_survive_the_move_to_new_tables() {
        let folder = tempfile::tempdir().unwrap();
        let conn = Conn::Sqlite(SqliteConn::open(&folder.path().join("t.db"), Role::Creator).unwrap());
        conn.batch(MIGRATIONS[0].sqlite).unwrap();
        conn.batch(
            "insert into heads values (x'01', 7, x'02', 3, 4, 5);
             insert into message_keys values (x'06', x'08');
             insert into events values (x'01', 2, 'B', 4, null, x'05', null, x'09', x'0a', '{}');
             insert into events values (x'01', 1, 'A', 3, x'07', null, null, x'09', x'0a', '{}');",
        )
        .unwrap();
        MIGRATIONS.iter().skip(1).for_each(|migration| conn.batch(migration.sqlite).unwrap());
        let mut rows = conn
            .query(
                "select h.lsn, h.epoch, k.wrapped from heads h, message_keys k
                 where h.workspace_id = x'01' and k.message_id = x'06'",
                &[],
            )
            .unwrap();
        let row: (i64, i64, Vec<u8>) = FromRow::from_row(&mut rows[0]).unwrap();
        assert_eq!(row, (7, 5, vec![8]));
        let mut rows = conn
            .query(
                "select lsn, kind, channel_id, payload from events where workspace_id = x'01' order by lsn",
                &[],
            )
            .unwrap();
        let rows: Vec<(i64, String, Option<Vec<u8>>, String)> =
            rows.iter_mut().map(|row| FromRow::from_row(row).unwrap()).collect();
        let stored = |lsn, kind: &str, channel| (lsn, kind.to_owned(), channel, "{}".to_owned());
        assert_eq!(rows, [stored(1, "A", Some(vec![7])), stored(2, "B", None)]);
    }

    #[test]
    fn messages_survive_the_move_to_shelves() {
        let folder = tempfile::tempdir().unwrap();
        let (conn, after) = before_version(&folder, 4);
        conn.batch(
            "insert into workspaces values (x'01', 'w', null, 1, 1);
             insert into members values (x'02', x'01', 'm', 'human', null, 1, null, null, 2);
             insert into channels values (x'03', x'01', 'c', null, false, x'02', 1, null, 3);
             insert into threads values (x'04', x'01', x'03', null, 0, 't', 'open', 0, 0, 0, false, null,
                 null, null, null, null, null, null, 0, null, x'02', 1, 4);
             insert into messages values
                 (x'05', x'01', x'03', x'04', x'02', 7, 8, 1, null, x'aa', 12),
                 (x'06', x'01', x'03', x'04', x'02', 9, null, 0, 10, null, 15);
             insert into message_edits values (x'05', 0, 7, x'bb', 13);
             insert into message_keys values (x'05', x'cc');
             insert into thread_notices values
                 (x'04', 11, 7, 'cancelled', 'kept'), (x'04', 14, 9, 'cancelled', 'withdrawn'),
                 (x'04', 16, 20, 'cancelled', 'purged'), (x'04', 17, 20, 'other', 'other');
             insert into chores values ('scrub', 3, 2)",
        )
        .unwrap();
        conn.batch("begin").unwrap();
        after.iter().for_each(|migration| conn.batch(migration.sqlite).unwrap());
        conn.batch("commit").unwrap();
        let rows = |sql: &'static str| format!("{:?}", conn.query(sql, &[]).unwrap());
        let messages =
            rows("select hex(id), hex(author_id), edits, hex(sealed), lsn, hex(wrapped) from messages");
        assert_eq!(messages.matches("Row").count(), 2, "{messages}");
        assert!(rows("select edits, lsn from messages where sealed = x'aa'").contains("1, 12"), "{messages}");
        assert!(rows("select edit, lsn from message_edits where sealed = x'bb'").contains("0, 13"));
        assert!(rows("select count(*) from scrubs where key_table = 'message_keys'").contains("[1]"));
        let left = "select lsn from thread_notices where text <> '' order by lsn";
        assert_eq!(conn.query(left, &[]).unwrap().len(), 2);
        assert!(rows("select lsn from thread_notices where message_id = x'06'").contains("14"));
        // Foreign keys still hold.
        assert!(conn.batch("insert into message_edits values (x'99', 0, 1, null, 1)").is_err());
        assert!(conn.batch("insert into messages (id) values (x'98')").is_err());
    }

    #[test]
    fn shelves_survive_the_move_to_their_own_pages() {
        let folder = tempfile::tempdir().unwrap();
        let (conn, after) = before_version(&folder, 9);
        conn.batch("insert into shelves values (x'01', 7, 3, x'aabb'), (x'02', 8, 1, x'cc')").unwrap();
        after.iter().for_each(|migration| conn.batch(migration.sqlite).unwrap());
        let mut rows = conn
            .query("select shelf, version, sealed, length(ahead) from shelves order by shelf", &[])
            .unwrap();
        let rows: Vec<(i64, i64, Vec<u8>, i64)> =
            rows.iter_mut().map(|row| FromRow::from_row(row).unwrap()).collect();
        assert_eq!(rows, [(7, 3, vec![0xaa, 0xbb], 4096), (8, 1, vec![0xcc], 4096)]);
        assert_eq!(conn.query("select lsn from scrubs where key_table = 'shelves'", &[]).unwrap().len(), 1);
    }

    #[test]
    fn ballots_that_exist_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (conn, after) = before_version(&folder, 66);
        conn.batch(
            "pragma foreign_keys = off;
             insert into ballots values (x'01', 0, x'0a', 1), (x'01', 0, x'0b', 2), (x'01', 3, x'0a', 1),
                 (x'02', 1, x'0b', 3)",
        )
        .unwrap();
        after.iter().for_each(|migration| conn.batch(migration.sqlite).unwrap());
        let sql = "select vote_id, choice, total from ballot_counts order by vote_id, choice";
        let mut rows = conn.query(sql, &[]).unwrap();
        let rows: Vec<(Vec<u8>, i64, i64)> =
            rows.iter_mut().map(|row| FromRow::from_row(row).unwrap()).collect();
        let count = |vote: u8, choice: i64, total: i64| (vec![vote], choice, total);
        assert_eq!(rows, [count(1, -1, 2), count(1, 0, 2), count(1, 3, 1), count(2, -1, 1), count(2, 1, 1)]);
    }

    #[test]
    fn workers_and_hashes_are_derived_from_existing_rows() {
        let folder = tempfile::tempdir().unwrap();
        let (conn, after) = before_version(&folder, 5);
        conn.batch(
            "insert into workspaces (id, name, created_at, lsn) values (x'01', 'w', 0, 1);
             insert into members (id, workspace_id, handle, kind, created_at, lsn) values
                 (x'0a', x'01', 'a', 'agent', 0, 1), (x'0b', x'01', 'b', 'agent', 0, 2),
                 (x'0c', x'01', 'c', 'agent', 0, 3);
             insert into channels (id, workspace_id, name, private, created_at, lsn)
                 values (x'02', x'01', 'c', 0, 0, 4);
             insert into threads (id, workspace_id, channel_id, depth, title, state, priority, skill_set,
                 blocked, settled, worked_micros, created_at, lsn)
                 values (x'03', x'01', x'02', 1, 't', 'open', 0, 1, 0, 0, 0, 0, 5);
             insert into events (workspace_id, lsn, kind, at, thread_id, member_id, prev_hash, content_hash,
                 payload)
                 values (x'01', 5, 'ThreadCreated', 0, x'03', x'0c', x'', x'', ''),
                 (x'01', 6, 'ThreadAssignmentChanged', 0, x'03', x'0a', x'', x'', ''),
                 (x'01', 7, 'ThreadAssignmentChanged', 0, x'03', x'0a', x'', x'', '');
             insert into results (thread_id, lsn, workspace_id, result, produced_by, produced_at) values
                 (x'03', 8, x'01', '{}', x'0a', 0), (x'03', 9, x'01', '{}', x'0b', 0);
             insert into skill_sets (workspace_id, id, skills) values (x'01', 1, ''), (x'01', 2, 'go,rust');",
        )
        .unwrap();
        after.iter().for_each(|migration| conn.batch(migration.sqlite).unwrap());
        let mut rows = conn.query("select member_id, lsn from thread_workers order by lsn", &[]).unwrap();
        let workers: Vec<(Vec<u8>, i64)> =
            rows.iter_mut().map(|row| FromRow::from_row(row).unwrap()).collect();
        assert_eq!(workers, [(vec![0x0a], 6), (vec![0x0b], 9)]);
        let mut rows = conn.query("select hash from skill_sets where id = 2", &[]).unwrap();
        assert_eq!(rows[0].take::<Vec<u8>>().unwrap(), sha256(b"go,rust"));
    }

    #[test]
    fn a_message_gets_the_hash_of_the_event_with_its_words() {
        let folder = tempfile::tempdir().unwrap();
        let (conn, after) = before_version(&folder, 48);
        conn.batch(
            "insert into workspaces (id, name, created_at, lsn) values (x'01', 'w', 0, 1);
             insert into channels (id, workspace_id, name, private, created_at, lsn)
                 values (x'02', x'01', 'c', 0, 0, 2);
             insert into threads (id, workspace_id, channel_id, depth, title, state, priority, skill_set,
                 blocked, has_result, worked_micros, created_at, lsn)
                 values (x'03', x'01', x'02', 1, 't', 'open', 0, 1, 0, 0, 0, 0, 3);
             insert into messages (id, workspace_id, channel_id, thread_id, posted_at, edits, lsn) values
                 (x'04', x'01', x'02', x'03', 0, 0, 4), (x'05', x'01', x'02', x'03', 0, 0, 5),
                 (x'06', x'01', x'02', x'03', 0, 2, 6);
             insert into message_edits (message_id, edit, written_at, lsn)
                 values (x'06', 0, 0, 7), (x'06', 1, 0, 8);",
        )
        .unwrap();
        // The event of the first message was pruned.
        for lsn in 5..=8_u8 {
            conn.execute(
                "insert into events (workspace_id, lsn, kind, at, prev_hash, content_hash, payload)
                 values (x'01', $1, 'A', 0, x'', $2, '')",
                &[&i64::from(lsn), &[lsn; 32]],
            )
            .unwrap();
        }
        after.iter().for_each(|migration| conn.batch(migration.sqlite).unwrap());
        let mut rows = conn.query("select content_hash, marked from messages order by lsn", &[]).unwrap();
        let found: Vec<(Option<[u8; 32]>, bool)> =
            rows.iter_mut().map(|row| FromRow::from_row(row).unwrap()).collect();
        assert_eq!(found, [(None, false), (Some([5; 32]), false), (Some([8; 32]), false)]);
    }

    #[test]
    fn a_result_stands_in_the_renamed_column() {
        let folder = tempfile::tempdir().unwrap();
        let (conn, after) = before_version(&folder, 11);
        conn.batch(
            "insert into workspaces (id, name, created_at, lsn) values (x'01', 'w', 0, 1);
             insert into channels (id, workspace_id, name, private, created_at, lsn)
                 values (x'02', x'01', 'c', 0, 0, 2);
             insert into threads (id, workspace_id, channel_id, depth, title, state, priority, skill_set,
                 blocked, settled, worked_micros, created_at, lsn)
                 values (x'03', x'01', x'02', 1, 't', 'open', 0, 1, 0, true, 0, 0, 3),
                 (x'04', x'01', x'02', 1, 't', 'open', 0, 1, 0, false, 0, 0, 4);",
        )
        .unwrap();
        after.iter().for_each(|migration| conn.batch(migration.sqlite).unwrap());
        let mut rows = conn.query("select has_result from threads order by lsn", &[]).unwrap();
        let found: Vec<bool> = rows.iter_mut().map(|row| row.take().unwrap()).collect();
        assert_eq!(found, [true, false]);
    }

    /// Returns the first word of each column's line by table or index, as left by all migrations.
    fn shape(text: fn(&Migration) -> &'static str) -> BTreeMap<String, Vec<String>> {
        let mut shape: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut open = String::new();
        for line in MIGRATIONS.iter().flat_map(|migration| text(migration).lines()) {
            let words: Vec<&str> = line.trim().trim_end_matches(';').split_whitespace().collect();
            match words.as_slice() {
                // The partitions of a table that only one engine divides.
                ["create", "table", _, "partition", "of", ..] => {}
                ["create", "table" | "index", name, ..]
                | ["create", "unique" | "unlogged", "index" | "table", name, ..] => {
                    open = (*name).to_owned();
                    shape.insert(open.clone(), Vec::new());
                }
                ["alter", "table", name, "add", "column", column, ..] => {
                    shape.get_mut(*name).unwrap().push((*column).to_owned());
                }
                ["alter", "table", name, "drop", "column", column] => {
                    shape.get_mut(*name).unwrap().retain(|known| known != column);
                }
                ["alter", "table", name, "rename", "column", old, "to", new] => {
                    let columns = shape.get_mut(*name).unwrap();
                    *columns.iter_mut().find(|column| *column == old).unwrap() = (*new).to_owned();
                }
                ["drop", "table" | "index", name] => drop(shape.remove(*name)),
                ["alter", "table", name, "rename", "to", new] => {
                    open.clear();
                    let columns = shape.remove(*name).unwrap();
                    shape.insert((*new).to_owned(), columns);
                }
                ["alter" | "insert" | "update" | "do", ..] | [")", ..] => open.clear(),
                [word, ..] if line.starts_with(' ') && !open.is_empty() => {
                    shape.get_mut(&open).unwrap().push((*word).to_owned());
                }
                _ => {}
            }
        }
        shape
    }

    #[test]
    fn both_engines_end_with_the_same_tables_and_columns() {
        let mut sqlite = shape(|migration| migration.sqlite);
        assert!(sqlite["heads"].contains(&"epoch".to_owned()), "{sqlite:?}");
        // This column keeps secret bytes out of pages that SQLite moves; Postgres has no such pages.
        sqlite.get_mut("shelves").unwrap().retain(|column| column != "ahead");
        assert_eq!(sqlite, shape(|migration| migration.postgres));
    }
}
