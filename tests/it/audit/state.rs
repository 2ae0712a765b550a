//! The tables of a workspace agree with its log, and every column that does not is found.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use svc_core::op::{Class, Records};
use svc_core::verify::verify_database;
use svc_core::{DifferenceKind, Engine};
use svc_tests::database::engines;
use svc_tests::site::{Site, done};
use svc_tests::state::{assert_state, differences};
use svc_tests::{World, on_both_engines, text};

use crate::op::cost::changes::{in_order, renewed};

/// Calls every operation that changes something once, with its example.
fn call_everything(world: &World, mut after_each: impl FnMut(&str)) {
    let mut fixture = world.fixture.clone();
    for row in in_order(world).into_iter().filter(|row| row.http().frame.is_none()) {
        let call = |input: &Value| world.call(&world.people.admin, row.name(), input.clone());
        let input = row.docs().example(&fixture).unwrap_or_else(|| json!({}));
        if !call(&input).is_success() {
            fixture = renewed(world, &fixture);
            call(&row.docs().example(&fixture).unwrap_or_else(|| json!({})));
        }
        after_each(row.name());
    }
}

/// Number of changes between two comparisons of the tables.
const COMPARED_EVERY: usize = 16;

#[test]
fn every_change_leaves_the_tables_as_the_log_says() {
    on_both_engines(|world| {
        let mut names = Vec::new();
        let mut found = Vec::new();
        call_everything(world, |name| {
            names.push(name.to_owned());
            if names.len() % COMPARED_EVERY == 0 && found.is_empty() {
                found = differences(&world.database.address()).0;
                assert!(found.is_empty(), "one of {:?}: {found:#?}", names.rchunks(COMPARED_EVERY).next());
            }
        });
        assert_state(&world.database.address());
    });
}

/// A service continues during the comparison, and prunes events that were already read.
#[test]
fn tables_are_compared_beside_a_service_that_changes_them() {
    on_both_engines(|world| {
        let policy = json!({"workspace_id": world.id("workspace"), "messages_days": 1, "events_days": 2});
        world.admin("set_retention_policy", policy);
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let changing = scope.spawn(|| {
                for number in 0..60 {
                    let message = json!({"thread_id": world.id("thread"), "body": format!("word {number}")});
                    world.agent("post_message", message);
                    if number % 20 == 10 {
                        world.pass(Duration::from_secs(90_000));
                        world.service.housekeep().unwrap();
                    }
                }
                is_over.store(true, Ordering::Relaxed);
            });
            let mut compared = 0;
            while !is_over.load(Ordering::Relaxed) || compared == 0 {
                assert_state(&world.database.address());
                compared += 1;
            }
            changing.join().unwrap();
        });
        let (told, reports) = differences(&world.database.address());
        assert_eq!(told, []);
        let report =
            reports.iter().find(|report| report.workspace_id == world.id("workspace").into()).unwrap();
        assert!(report.floor > 1 && report.tables["members"].unproven > 0, "{report:?}");
        assert!(report.tables["messages"].proven > 0, "{report:?}");
    });
}

#[test]
fn a_workspace_that_is_erased_meanwhile_is_neither_broken_nor_different() {
    on_both_engines(|world| {
        let database = world.database.address();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..12 {
                    let made =
                        world.admin("create_workspace", json!({"name": "Brief", "admin_handle": "ada"}));
                    let id = &made["workspace"]["id"];
                    let token = text(&made["token"]["secret"]);
                    let erase = json!({"workspace_id": id, "confirm": "Brief"});
                    world.call(&token, "erase_workspace", erase).output();
                    world.service.housekeep().unwrap();
                }
                is_over.store(true, Ordering::Relaxed);
            });
            while !is_over.load(Ordering::Relaxed) {
                assert_state(&database);
                let logs = verify_database(&database, None, None).unwrap();
                assert!(logs.iter().all(|log| log.valid), "{logs:?}");
            }
        });
    });
}

/// Rows of a table in which each column is changed; for some rows an event lacks some columns.
const ROWS: usize = 8;

/// Returns statements that change a column of some rows of a table.
fn tampers(world: &World, records: &Records, column: &str, class: Class) -> Vec<String> {
    let database = &world.database;
    let table = records.name();
    let declared = records.columns().find(|(name, _)| *name == column).map(|(_, class)| class);
    let value = match declared.unwrap() {
        Class::Id | Class::LaterId => database.any_id().to_owned(),
        Class::Int | Class::Time | Class::InstancePosition => format!("coalesce({column}, 0) + 1"),
        Class::Bool => format!("not coalesce({column}, false)"),
        Class::Hash => database.bytes(&[0; 32]),
        Class::Sealed | Class::Digest | Class::Secret => database.bytes(&[7; 40]),
        // Of some content only the presence is compared.
        Class::Words if class == Class::Bool => format!("case when {column} is null then 'x' end"),
        Class::Text | Class::Words | Class::Derived => format!("coalesce({column}, '') || 'x'"),
    };
    let classes = records.proven_columns();
    let key: Vec<&str> = records.proof_key().collect();
    // A row that moves to another thread is not found again.
    let most = if column == "thread_id" { 1 } else { ROWS };
    let rows = database.rows(&format!("select {} from {table} limit {most}", key.join(", ")));
    let is = |(name, value): (&&str, &Value)| {
        let value = match (classes[name], value) {
            (Class::Id | Class::LaterId, Value::String(id)) => database.id(id.parse::<uuid::Uuid>().unwrap()),
            (_, Value::String(text)) => format!("'{}'", text.replace('\'', "''")),
            (_, value) => value.to_string(),
        };
        format!("{name} = {value}")
    };
    let tamper = |row: &Vec<Value>| {
        let row: Vec<String> = key.iter().zip(row).map(is).collect();
        format!("update {table} set {column} = {value} where {}", row.join(" and "))
    };
    rows.iter().map(tamper).collect()
}

/// Columns of tables without rows: a purge has removed checkpoints, and no member signs in at a provider.
const NO_ROWS: [(&str, &str); 4] = [
    ("claim_checkpoints", "at"),
    ("claim_checkpoints", "lsn"),
    ("claim_checkpoints", "member_id"),
    ("oidc_identities", "linked_at"),
];

/// The control for the other tests: each column that is declared as determined by events is compared.
#[test]
fn each_column_that_events_determine_is_compared() {
    on_both_engines(|world| {
        call_everything(world, |_| {});
        assert_state(&world.database.address());
        let mut changed = BTreeSet::new();
        let mut unchanged = BTreeSet::new();
        for records in world.service.table().records() {
            let key: BTreeSet<&str> = records.proof_key().collect();
            let columns = records.proven_columns().into_iter().filter(|(name, _)| !key.contains(name));
            for (column, class) in columns {
                let tampers = tampers(world, records, column, class);
                let count = tampers.iter().filter(|sql| world.database.force(sql)).count();
                let set = if count > 0 { &mut changed } else { &mut unchanged };
                set.insert((records.name(), column));
            }
        }
        let (told, _) = differences(&world.database.address());
        // A row that moves to another thread is missing there, and is not in the log.
        let gone: BTreeSet<&str> = told
            .iter()
            .filter(|told| told.kind == DifferenceKind::Missing)
            .map(|told| &*told.table)
            .collect();
        let named: BTreeSet<(&str, &str)> =
            told.iter().filter_map(|told| Some((&*told.table, told.column.as_deref()?))).collect();
        let is_missed = |(table, column): &&(&str, &str)| {
            let is_told = named.contains(&(*table, *column));
            let is_moved = *column == "thread_id" && gone.contains(table);
            !is_told && !is_moved
        };
        let missed: Vec<_> = changed.iter().filter(is_missed).collect();
        assert!(missed.is_empty(), "{missed:?}");
        assert_eq!(unchanged, BTreeSet::from(NO_ROWS), "columns that could not be changed");
        assert!(changed.len() > 250, "{changed:?}");
    });
}

/// The command prints each difference as a line, for people and for programs, and exits with 3.
#[test]
fn the_command_tells_each_difference() {
    for engine in engines() {
        let site = Site::found(engine);
        let run = |json: bool| {
            let json = json.then_some("--json");
            site.svc(&["verify", "--state"].into_iter().chain(json).collect::<Vec<_>>())
        };
        assert_eq!(run(false).code, Some(0), "{:?}", run(false));
        let capabilities = "update tokens set capabilities = 1, label = 'another'";
        assert!(site.database.force(capabilities));
        assert!(site.database.force("update members set handle = 'eve' where handle = 'admin'"));
        let people = run(false);
        let programs = run(true);
        assert_eq!((people.code, programs.code), (Some(3), Some(3)), "{people:?}");
        assert!(people.out.contains("handle is eve, the log says admin (event 2)\n"), "{people:?}");
        let lines: Vec<Value> =
            programs.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (counts, told) = lines.split_last().unwrap();
        let handle = told.iter().find(|line| line["column"] == "handle").unwrap();
        let shown = ["table", "kind", "log", "stored", "lsn"].map(|name| handle[name].clone());
        assert_eq!(shown, [json!("members"), json!("other_value"), json!("admin"), json!("eve"), json!(2)]);
        let raised = told.iter().find(|line| line["table"] == "tokens").unwrap();
        assert_eq!(raised["column"], "capabilities", "and not the label, which no event tells");
        assert!(raised["log"].as_array().unwrap().contains(&json!("token:admin")), "{raised}");
        assert!(!programs.out.contains("another"), "nothing that is not compared is shown");
        assert_eq!(counts["valid"], false);
        let workspace = &counts["workspaces"][0];
        assert_eq!(workspace["tables"]["members"]["different"], 1, "{workspace:#}");
    }
}

/// Rows are added, removed and hidden without the log.
#[test]
fn rows_that_are_added_removed_and_hidden_are_found() {
    for engine in engines() {
        let site = Site::found(engine);
        let database = &site.database;
        let service = site.open();
        let call = |operation: &str, input: Value| done(&service, &site.founders.admin, operation, input);
        let workspace = site.founders.workspace_id.clone();
        let channel = call("create_channel", json!({"workspace_id": workspace, "name": "general"}));
        let thread = call("create_thread", json!({"channel_id": channel["id"], "title": "a task"}));
        let [kept, gone] = ["kept", "gone"]
            .map(|body| text(&call("post_message", json!({"thread_id": thread["id"], "body": body}))["id"]));
        call("add_reaction", json!({"message_id": kept, "emoji": "👀"}));
        call("remove_reaction", json!({"message_id": kept, "emoji": "👀"}));
        let term = json!({"workspace_id": workspace, "term": "Task", "definition": "to be done"});
        call("set_glossary_term", term);
        drop(service);
        assert_state(&database.address());
        let id = |text: &str| database.id(text.parse::<uuid::Uuid>().unwrap());
        let member =
            format!("(select id from members where handle = 'admin' and workspace_id = {})", id(&workspace));
        let cases = [
            (
                format!(
                    "insert into member_skills (member_id, skill, governance) values ({member}, 'root', true)"
                ),
                ("member_skills", DifferenceKind::NotInLog),
            ),
            (
                format!(
                    "insert into reactions (message_id, emoji, member_id, lsn) values ({}, '👀', {member}, 1)",
                    id(&kept)
                ),
                ("reactions", DifferenceKind::Removed),
            ),
            (format!("delete from messages where id = {}", id(&gone)), ("messages", DifferenceKind::Missing)),
            ("delete from glossary".to_owned(), ("glossary", DifferenceKind::Missing)),
            (
                format!("update threads set workspace_id = {}", database.any_id()),
                ("threads", DifferenceKind::NotInLog),
            ),
            (
                format!("update workspaces set state = 'importing' where id = {}", id(&workspace)),
                ("workspaces", DifferenceKind::Missing),
            ),
        ];
        // SQLite columns accept values of any type, and its length of a text ends at a NUL.
        let odd = [
            ("update channels set private = 2", ("channels", DifferenceKind::OtherType)),
            ("update tokens set expires_at = 3.5", ("tokens", DifferenceKind::OtherType)),
            ("update members set display_name = x'00'", ("members", DifferenceKind::OtherType)),
            (
                "update glossary set definition = definition || char(0) || 'by others'",
                ("glossary", DifferenceKind::OtherValue),
            ),
        ];
        let odd = odd.into_iter().filter(|_| engine == Engine::Sqlite);
        let odd = odd.map(|(sql, expected)| (sql.to_owned(), expected));
        for (sql, expected) in odd.chain(cases) {
            assert!(database.force(&sql), "{sql}");
            let told = differences(&database.address()).0;
            assert!(told.iter().any(|told| (&*told.table, told.kind) == expected), "{sql}: {told:#?}");
        }
    }
}
