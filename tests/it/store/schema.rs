//! The schema that results from the migrations, and the checksums of landed migrations.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use svc_core::Engine;
use svc_tests::database::{TestDatabase, engines};
use svc_tests::{Setup, World, golden, text};

/// The statements that SQLite keeps, table by table.
const STATEMENTS_SQLITE: &str = "
    select sql || ';' from sqlite_schema where sql is not null
    order by tbl_name, type <> 'table', type, name";

/// Statements that create the tables of Postgres, with everything that belongs to them, table by table.
const STATEMENTS_POSTGRES: &str = "
    with tables as (
        select c.oid, c.relname::text as name, c.relpersistence, c.relkind, c.reloptions, c.relispartition,
            c.relpartbound, coalesce(p.relname, c.relname)::text as under
        from pg_class c
            left join pg_inherits i on i.inhrelid = c.oid
            left join pg_class p on p.oid = i.inhparent
        where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p')
    ), columns as (
        select a.attrelid, a.attnum, a.attname::text as name, a.attstattarget,
            a.attstorage <> t.typstorage as is_stored_apart,
            concat_ws(' ', a.attname, format_type(a.atttypid, a.atttypmod),
                (select 'collate ' || quote_ident(l.collname) from pg_collation l
                 where l.oid = a.attcollation and l.oid <> t.typcollation),
                'default ' || pg_get_expr(d.adbin, d.adrelid),
                case when a.attnotnull then 'not null' end) as line
        from pg_attribute a join pg_type t on t.oid = a.atttypid
            left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
        where a.attnum > 0 and not a.attisdropped
    ), statements as (
        select under, name, 0 as turn, '' as object,
            case when relispartition
                then format('create table %s partition of %s %s', name, under, pg_get_expr(relpartbound, oid))
                else concat('create ', case relpersistence when 'u' then 'unlogged ' end, 'table ', name,
                    E' (\\n    ', (select string_agg(line, E',\\n    ' order by place, turn, line) from (
                        select 0 as place, attnum as turn, line from columns where attrelid = tables.oid
                        union all
                        select 1, 0, 'constraint ' || conname || ' ' || pg_get_constraintdef(oid)
                        from pg_constraint where conrelid = tables.oid and contype <> 'n') lines),
                    E'\\n)', ' partition by ' || pg_get_partkeydef(oid),
                    ' with (' || array_to_string(reloptions, ', ') || ')')
            end as sql
        from tables
        union all
        select under, tables.name, 1, columns.name,
            format('alter table %s alter column %s set statistics %s',
                tables.name, columns.name, attstattarget)
        from tables join columns on attrelid = oid where attstattarget >= 0
        union all
        select under, tables.name, 1, columns.name,
            format('-- %s.%s is not stored as its type is', tables.name, columns.name)
        from tables join columns on attrelid = oid where is_stored_apart
        union all
        select under, tables.name, 2, i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid)
        from tables join pg_index i on i.indrelid = tables.oid
        where not relispartition and not exists (select 1 from pg_constraint where conindid = i.indexrelid)
        union all
        select under, tables.name, 3, tgname::text, pg_get_triggerdef(t.oid)
        from tables join pg_trigger t on t.tgrelid = tables.oid where not tgisinternal
    )
    select sql || ';' from statements order by under, turn > 0, name, turn, object";

/// Returns the schema of a database, as statements.
fn schema(database: &TestDatabase) -> String {
    let sql = match database.engine() {
        Engine::Sqlite => STATEMENTS_SQLITE,
        Engine::Postgres => STATEMENTS_POSTGRES,
    };
    let mut schema = String::new();
    for row in database.rows(sql) {
        let statement = text(&row[0]).replace(" ON public.", " ON ");
        let separator =
            if statement.starts_with("CREATE TABLE") || statement.contains(" (\n") { "\n" } else { "" };
        writeln!(schema, "{separator}{statement}").unwrap();
    }
    schema
}

/// The whole schema can be read in one place, and a migration shows its change there.
#[test]
fn the_migrations_result_in_the_schema_of_the_snapshot() {
    for engine in engines() {
        let name = match engine {
            Engine::Sqlite => "sqlite",
            Engine::Postgres => "postgres",
        };
        let schema = schema(&World::with(engine, Setup::default()).database);
        assert!(schema.contains("idempotency_keys_by_member"), "{schema}");
        golden::check(&format!("../../migrations/schema/{name}.sql"), schema.trim_start());
    }
}

#[test]
fn both_engines_have_the_same_tables_and_columns() {
    if !engines().contains(&Engine::Postgres) {
        return;
    }
    let columns = |engine: Engine| -> BTreeSet<(String, String)> {
        let sql = match engine {
            Engine::Sqlite => {
                "select m.name, c.name from sqlite_schema m join pragma_table_info(m.name) c
                 where m.type = 'table'"
            }
            Engine::Postgres => {
                "select c.relname::text, a.attname::text
                 from pg_class c join pg_attribute a on a.attrelid = c.oid
                 where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p')
                     and not c.relispartition and a.attnum > 0 and not a.attisdropped"
            }
        };
        let rows = World::with(engine, Setup::default()).database.rows(sql);
        rows.iter().map(|row| (text(&row[0]), text(&row[1]))).collect()
    };
    let mut sqlite = columns(Engine::Sqlite);
    // It keeps secret bytes out of pages that SQLite moves; Postgres has no such pages.
    assert!(sqlite.remove(&("shelves".to_owned(), "ahead".to_owned())));
    assert_eq!(sqlite, columns(Engine::Postgres));
}

fn migrations() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("migrations")
}

/// A database refuses an edited migration. `SHA256SUMS` has the landed ones; `sha256sum` writes a new line.
#[test]
fn migrations_are_as_they_landed() {
    let mut found = String::new();
    for engine in ["postgres", "sqlite"] {
        let files: BTreeSet<_> =
            std::fs::read_dir(migrations().join(engine)).unwrap().map(|file| file.unwrap().path()).collect();
        for file in files {
            let sum = hex::encode(Sha256::digest(std::fs::read(&file).unwrap()));
            let name = file.file_name().unwrap().to_str().unwrap();
            writeln!(found, "{sum}  {engine}/{name}").unwrap();
        }
    }
    let landed = std::fs::read_to_string(migrations().join("SHA256SUMS")).unwrap();
    assert_eq!(landed, found, "a migration is never edited: add another one, and its sum");
}
