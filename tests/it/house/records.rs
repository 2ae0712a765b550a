//! The declarations of features about their tables, compared with the actual tables.

use std::collections::{BTreeMap, BTreeSet};

use svc_core::op::{Class, Records};
use svc_core::{Engine, operation_table};
use svc_tests::World;
use svc_tests::database::{TestDatabase, engines};

use crate::house::rules::none;

/// Returns the columns of each table with their types; a partition is part of its table.
fn stored(database: &TestDatabase) -> BTreeMap<String, BTreeMap<String, String>> {
    let rows = database.rows(match database.engine() {
        Engine::Sqlite => {
            "select t.name, c.name, c.type from sqlite_master t, pragma_table_info(t.name) c
             where t.type = 'table' and t.name not like 'sqlite_%'"
        }
        Engine::Postgres => {
            "select r.relname::text, a.attname::text, format_type(a.atttypid, null)
             from pg_class r join pg_attribute a on a.attrelid = r.oid and a.attnum > 0 and not a.attisdropped
             where r.relkind in ('r', 'p') and not r.relispartition
             and r.relnamespace = 'public'::regnamespace"
        }
    });
    let mut tables: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
    for row in rows {
        let [table, column, kind] = [0, 1, 2].map(|place| row[place].as_str().unwrap().to_lowercase());
        tables.entry(table).or_default().insert(column, kind);
    }
    tables
}

/// Returns the type of a column of a class.
fn type_of(class: Class, engine: Engine) -> &'static str {
    let [sqlite, postgres] = match class {
        Class::Id | Class::LaterId => ["blob", "uuid"],
        Class::Int | Class::InstancePosition | Class::Time => ["bigint", "bigint"],
        Class::Bool => ["boolean", "boolean"],
        Class::Text | Class::Words => ["text", "text"],
        Class::Sealed | Class::Hash | Class::Digest | Class::Secret => ["blob", "bytea"],
        Class::Derived => ["", ""],
    };
    if engine == Engine::Sqlite { sqlite } else { postgres }
}

/// Returns the defects of a declaration, if these are the columns of its table.
fn defects(records: &Records, columns: &BTreeMap<String, String>, engine: Engine) -> Vec<String> {
    let table = records.name();
    let mut defects = Vec::new();
    for key in records.key().filter(|_| records.has_workspace_rows()) {
        if !columns.contains_key(key) {
            defects.push(format!("{table} is ordered by {key}, which it has not"));
        }
    }
    if !records.leaves() {
        return defects;
    }
    let declared: BTreeMap<&str, Class> = records.columns().collect();
    for (name, class) in &declared {
        let wanted = type_of(*class, engine);
        match columns.get(*name) {
            None => defects.push(format!("{table}.{name} is declared and does not exist")),
            Some(kind) if !wanted.is_empty() && kind != wanted => {
                defects.push(format!("{table}.{name} is {class:?} and a {kind}"));
            }
            Some(_) => {}
        }
    }
    let missing = columns.keys().filter(|name| !declared.contains_key(name.as_str()));
    defects.extend(missing.map(|name| format!("{table}.{name} is not declared")));
    defects
}

#[test]
fn each_column_of_each_table_is_declared() {
    let table = operation_table().unwrap();
    for engine in engines() {
        let world = World::open(engine);
        let stored = stored(&world.database);
        let mut findings = Vec::new();
        let declared: BTreeMap<&str, &Records> =
            table.records().iter().map(|records| (records.name(), records)).collect();
        findings.extend(
            stored
                .keys()
                .filter(|name| !declared.contains_key(name.as_str()))
                .map(|name| format!("no feature declares {name}")),
        );
        for (name, records) in declared {
            match stored.get(name) {
                Some(columns) => findings.extend(defects(records, columns, engine)),
                None => findings.push(format!("{name} is declared and does not exist")),
            }
        }
        none(findings);
    }
}

/// Returns the defects of the declaration of the columns that events determine.
fn undetermined(records: &Records) -> Vec<String> {
    let table = records.name();
    let proven = records.proven_columns();
    let unproven: BTreeMap<&str, &str> = records.unproven_columns().collect();
    let mut defects = Vec::new();
    for (name, _) in records.columns() {
        match (proven.contains_key(name), unproven.get(name)) {
            (true, Some(_)) => defects.push(format!("{table}.{name} is proven and unproven")),
            // This column names the owner of the row.
            (false, None) if name != "workspace_id" && !unproven.contains_key("*") => {
                defects.push(format!("{table}.{name} is neither proven nor unproven"));
            }
            (false, Some(why)) if why.split(' ').count() < 2 => {
                defects.push(format!("{table}.{name} does not say why it is unproven"));
            }
            _ => {}
        }
    }
    let declared: BTreeMap<&str, Class> = records.columns().collect();
    let named = proven.keys().chain(unproven.keys()).filter(|name| **name != "*");
    let unknown = named.filter(|name| !declared.contains_key(*name));
    defects.extend(unknown.map(|name| format!("{table}.{name} is not declared with a class")));
    defects
}

/// A column without a declaration would not be compared with anything, unnoticed.
#[test]
fn each_column_of_each_table_is_determined_by_events_or_says_why_not() {
    let table = operation_table().unwrap();
    let of_workspaces = table.records().iter().filter(|records| records.has_workspace_rows());
    none(of_workspaces.flat_map(undetermined).collect());
    let things = Records::table("things", "id").ids("id").texts("name");
    let defects = undetermined(&things);
    assert_eq!(
        defects,
        ["things.id", "things.name"].map(|name| format!("{name} is neither proven nor unproven"))
    );
}

#[test]
fn a_wrong_declaration_is_found() {
    let columns = BTreeMap::from(
        [("id", "uuid"), ("lsn", "bigint"), ("name", "text")]
            .map(|(name, kind)| (name.to_owned(), kind.to_owned())),
    );
    let whole = Records::table("things", "lsn id").ids("id").ints("lsn").texts("name");
    let found = |records: &Records| defects(records, &columns, Engine::Postgres);
    assert_eq!(found(&whole), Vec::<String>::new());
    assert_eq!(found(&Records::table("things", "id").ids("id").ints("lsn")), ["things.name is not declared"]);
    assert_eq!(found(&whole.clone().texts("lsn")), ["things.lsn is Text and a bigint"]);
    assert_eq!(found(&whole.clone().ids("other")), ["things.other is declared and does not exist"]);
    assert_eq!(found(&Records::table("things", "at").stays()), ["things is ordered by at, which it has not"]);
}

/// Rows are written in the order of the tables and removed in the reverse order. SQLite checks references at
/// once.
#[test]
fn a_table_comes_after_those_that_it_references() {
    let table = operation_table().unwrap();
    let world = World::open(Engine::Sqlite);
    let mut before: BTreeSet<String> = BTreeSet::new();
    let mut findings = Vec::new();
    for records in table.records().iter().filter(|records| records.has_workspace_rows()) {
        let name = records.name();
        let later: BTreeSet<&str> =
            records.columns().filter(|(_, class)| *class == Class::LaterId).map(|(name, _)| name).collect();
        let rows = world
            .database
            .rows(&format!("select \"table\", \"from\" from pragma_foreign_key_list('{name}')"));
        for row in rows {
            let [referenced, column] = [0, 1].map(|place| row[place].as_str().unwrap().to_owned());
            // A row is younger than the rows of its table that it references, and so is its position.
            let is_older = records.key().next() == Some("lsn") || later.contains(column.as_str());
            // Tokens are not written, and one statement removes them.
            let is_older = is_older || name == "tokens";
            let is_there = before.contains(&referenced) || (referenced == name && is_older);
            if !is_there {
                findings.push(format!("{name}.{column} references {referenced}, which comes later"));
            }
        }
        before.insert(name.to_owned());
    }
    none(findings);
}

/// The server's samples of a column are stored where no purge finds them.
#[test]
fn no_statistics_are_kept_of_words() {
    let table = operation_table().unwrap();
    for engine in engines().into_iter().filter(|engine| *engine == Engine::Postgres) {
        let world = World::open(engine);
        let mut words = 0;
        let mut findings = Vec::new();
        for records in table.records() {
            for (column, _) in records.columns().filter(|(_, class)| *class == Class::Words) {
                let name = records.name();
                words += 1;
                let kept = world.database.number(&format!(
                    "select coalesce(attstattarget, -1) from pg_attribute
                     where attrelid = '{name}'::regclass and attname = '{column}'"
                ));
                if kept != 0 {
                    findings.push(format!("{name}.{column}: `set statistics 0` is missing"));
                }
            }
        }
        assert!(words > 2);
        none(findings);
    }
}

/// Paging and removing by a key that several rows share would skip some of them.
#[test]
fn rows_are_ordered_by_what_no_two_share() {
    let table = operation_table().unwrap();
    let world = World::open(Engine::Sqlite);
    let unique = |name: &str| -> Vec<BTreeSet<String>> {
        let rows = world.database.rows(&format!(
            "select i.name, c.name from pragma_index_list('{name}') i, pragma_index_info(i.name) c
             where i.\"unique\" = 1 and i.partial = 0
             union all select '', name from pragma_table_info('{name}') where pk > 0"
        ));
        let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for row in rows {
            let [index, column] = [0, 1].map(|place| row[place].as_str().unwrap_or_default().to_owned());
            keys.entry(index).or_default().insert(column);
        }
        keys.into_values().collect()
    };
    let mut findings = Vec::new();
    for records in table.records().iter().filter(|records| records.has_workspace_rows()) {
        let order: BTreeSet<String> = records.key().map(str::to_owned).collect();
        // Within a workspace.
        let covered = |key: &BTreeSet<String>| {
            key.iter().all(|column| column == "workspace_id" || order.contains(column))
        };
        if !unique(records.name()).iter().any(covered) {
            findings.push(format!("{} is ordered by {order:?}", records.name()));
        }
    }
    none(findings);
}
