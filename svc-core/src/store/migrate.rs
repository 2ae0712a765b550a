//! Migrations: the schema's history, the same numbers and names for both engines. One that has been applied is
//! never edited; its checksum is compared at every start.

use super::conn::{Conn, Engine};
use crate::error::{Error, Result};
use crate::log::chain::sha256;
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
    6 "0006_event_rows",
}

/// Brings the schema up to date, or refuses a database that another version or hand has changed.
pub(crate) fn migrate(conn: &Conn, now: Time) -> Result<()> {
    conn.batch(
        "create table if not exists schema_migrations (
             version bigint primary key, name text not null, checksum text not null, applied_at bigint not null)",
    )?;
    conn.begin_write()?;
    let applied = apply_missing(conn, now).and_then(|()| conn.flush());
    match applied {
        Ok(()) => conn.commit(&Default::default()),
        Err(error) => {
            conn.rollback()?;
            Err(error)
        }
    }
}

fn apply_missing(conn: &Conn, now: Time) -> Result<()> {
    if conn.engine() == Engine::Postgres {
        // Servers that start together take turns.
        conn.batch("lock table schema_migrations in exclusive mode")?;
    }
    let applied = applied(conn)?;
    for (version, name, _) in &applied {
        if !MIGRATIONS.iter().any(|known| known.version == *version) {
            return Err(Error::internal(format!(
                "the database has the migration {name}, which this version of svc does not know: use the newer version"
            )));
        }
    }
    for migration in MIGRATIONS {
        let text = match conn.engine() {
            Engine::Sqlite => migration.sqlite,
            Engine::Postgres => migration.postgres,
        };
        let checksum = hex::encode(sha256(text.as_bytes()));
        match applied.iter().find(|(version, _, _)| *version == migration.version) {
            Some((_, _, known)) if *known == checksum => {}
            Some(_) => {
                return Err(Error::internal(format!(
                    "the migration {} was edited after it had been applied",
                    migration.name
                )));
            }
            None => {
                conn.batch(text)?;
                conn.execute(
                    "insert into schema_migrations (version, name, checksum, applied_at) values ($1, $2, $3, $4)",
                    &[&migration.version, &migration.name, &checksum, &now],
                )?;
            }
        }
    }
    Ok(())
}

fn applied(conn: &Conn) -> Result<Vec<(i64, String, String)>> {
    let mut rows =
        conn.query("select version, name, checksum from schema_migrations order by version", &[])?;
    rows.iter_mut().map(|row| Ok((row.take()?, row.take()?, row.take()?))).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::row::FromRow;
    use super::super::sqlite::{Role, SqliteConn};
    use super::*;

    #[test]
    fn an_edited_migration_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let conn = Conn::Sqlite(SqliteConn::open(&folder.path().join("t.db"), Role::Writer).unwrap());
        migrate(&conn, Time::from_micros(1)).unwrap();
        migrate(&conn, Time::from_micros(2)).unwrap();
        conn.batch("update schema_migrations set checksum = 'x'").unwrap();
        let error = migrate(&conn, Time::from_micros(3)).unwrap_err();
        assert!(format!("{:?}", error.cause()).contains("was edited"), "{error:?}");
    }

    #[test]
    fn rows_survive_being_moved() {
        let folder = tempfile::tempdir().unwrap();
        let conn = Conn::Sqlite(SqliteConn::open(&folder.path().join("t.db"), Role::Writer).unwrap());
        conn.batch(MIGRATIONS[0].sqlite).unwrap();
        conn.batch(
            "insert into heads values (x'01', 7, x'02', 3, 4, 5); insert into message_keys values (x'06', x'08');
             insert into events values (x'01', 2, 'B', 4, null, x'05', null, x'09', x'0a', '{}');
             insert into events values (x'01', 1, 'A', 3, x'07', null, null, x'09', x'0a', '{}');",
        )
        .unwrap();
        MIGRATIONS.iter().skip(1).for_each(|migration| conn.batch(migration.sqlite).unwrap());
        let mut rows = conn
            .query(
                "select h.lsn, h.epoch, k.wrapped from heads h, message_keys k where k.message_id = x'06'",
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

    /// The first words of a statement's lines by table or index, as all migrations leave them.
    fn shape(text: fn(&Migration) -> &'static str) -> BTreeMap<String, Vec<String>> {
        let mut shape: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut open = String::new();
        for line in MIGRATIONS.iter().flat_map(|migration| text(migration).lines()) {
            let words: Vec<&str> = line.trim().trim_end_matches(';').split_whitespace().collect();
            match words.as_slice() {
                ["create", "table" | "index", name, ..] | ["create", "unique", "index", name, ..] => {
                    open = (*name).to_owned();
                    shape.insert(open.clone(), Vec::new());
                }
                ["drop", "table" | "index", name] => drop(shape.remove(*name)),
                ["alter", "table", name, "rename", "to", new] => {
                    let columns = shape.remove(*name).unwrap();
                    shape.insert((*new).to_owned(), columns);
                }
                [word, ..] if line.starts_with(' ') => {
                    shape.get_mut(&open).unwrap().push((*word).to_owned());
                }
                _ => {}
            }
        }
        shape
    }

    #[test]
    fn both_engines_end_with_the_same_tables_and_columns() {
        let sqlite = shape(|migration| migration.sqlite);
        assert!(sqlite["heads"].contains(&"epoch".to_owned()), "{sqlite:?}");
        assert_eq!(sqlite, shape(|migration| migration.postgres));
    }
}
