//! Content is destroyed only by permit: a function that runs a destroying statement takes a permit. A
//! function that replaces content takes one too, or keeps the old content.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use svc_core::Engine;
use svc_core::op::Class;
use svc_tests::{on_both_engines, text};

use crate::house::rules::{none, sources};
use crate::house::source::Source;

/// Tables, each with some of its columns.
type Columns = BTreeMap<&'static str, Vec<&'static str>>;

/// Returns the tables that hold content of members, or the keys that open it, each with these columns.
fn content() -> &'static Columns {
    static CONTENT: LazyLock<Columns> = LazyLock::new(|| {
        let others = [("shelves", vec![]), ("events", vec![]), ("messages", vec!["wrapped"])];
        declared(others.into(), |class| matches!(class, Class::Words | Class::Sealed))
    });
    &CONTENT
}

/// Returns the tables with unencrypted content, each with these columns.
fn words() -> &'static Columns {
    static WORDS: LazyLock<Columns> =
        LazyLock::new(|| declared(Columns::new(), |class| class == Class::Words));
    &WORDS
}

fn declared(mut columns: Columns, is_wanted: fn(Class) -> bool) -> Columns {
    let table = svc_core::operation_table().unwrap();
    for records in table.records() {
        for (column, _) in records.columns().filter(|(_, class)| is_wanted(*class)) {
            columns.entry(records.name()).or_default().push(column);
        }
    }
    columns
}

/// The functions that run such a statement without destroying content.
const EXCEPTIONS: [(&str, &str); 1] = [
    // The same nodes are sealed with another key.
    ("conversation/key_segments.rs", "rewrap"),
];

/// Returns whether a statement removes content, or its keys.
fn destroys(statement: &str) -> bool {
    let words: Vec<&str> = statement.split_whitespace().collect();
    match words.as_slice() {
        ["delete", "from", table, ..] => content().contains_key(table),
        ["update", "shelves", "set", ..] => true,
        ["update", table, "set", set @ ..] => {
            let set = set.join(" ");
            let columns = content().get(table).into_iter().flatten();
            columns.into_iter().any(|column| set.contains(&format!("{column} = null")))
        }
        _ => false,
    }
}

/// Returns whether a statement overwrites content.
fn replaces(statement: &str) -> bool {
    let pieces: Vec<&str> = statement.split_whitespace().collect();
    let (table, set) = match pieces.as_slice() {
        ["update", table, "set", set @ ..] => (table, set.join(" ")),
        ["insert", "into", table, rest @ ..] => {
            let rest = rest.join(" ");
            (table, rest.split_once("do update set").map_or_else(String::new, |(_, set)| set.to_owned()))
        }
        _ => return false,
    };
    let set = set.split(" where ").next().unwrap_or_default();
    words().get(table).into_iter().flatten().any(|column| set.contains(&format!("{column} = ")))
}

/// A function that names a constant.
struct User {
    name: String,
    signature: String,
    body: String,
}

/// Returns the functions of a file that name a constant.
fn users(source: &Source, constant: &str) -> Vec<User> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let tests = source.text.find("#[cfg(test)]\nmod tests").unwrap_or(source.text.len());
    let uses = source.code.match_indices(constant).map(|(at, _)| at).filter(|at| *at < tests);
    let whole = uses.filter(|at| {
        let after = source.code[at + constant.len()..].chars().next();
        let before = source.code[..*at].chars().next_back();
        !after.is_some_and(is_word) && !before.is_some_and(is_word)
    });
    let uses = whole.filter(|at| !source.code[..*at].ends_with("const "));
    uses.map(|at| {
        let begins = source.code[..at].rfind("fn ").expect("a statement is used in a function");
        let signature: String = source.code[begins..at].split('{').next().unwrap_or_default().to_owned();
        let name =
            signature["fn ".len()..].split(|c: char| !is_word(c)).next().unwrap_or_default().to_owned();
        // It ends with the brace that has the same indentation.
        let line = source.code[..begins].rfind('\n').map_or(0, |end| end + 1);
        let indented = source.code[line..begins].chars().take_while(|c| c.is_whitespace()).count();
        let end = format!("\n{}}}\n", " ".repeat(indented));
        let body = source.code[begins..].split(&end).next().unwrap_or_default().to_owned();
        User { name, signature, body }
    })
    .collect()
}

/// Returns the name of the constant whose value begins at a line.
fn constant_at(source: &Source, line: usize) -> Option<String> {
    let before: Vec<&str> = source.text.lines().take(line).collect();
    let declared = before.iter().rev().take(3).find_map(|line| line.trim_start().split_once("const "))?;
    declared.1.split(':').next().map(str::to_owned)
}

/// Returns the functions of a file that destroy content without a permit, and the number of functions
/// examined.
fn findings_of(source: &Source) -> (Vec<String>, usize) {
    let mut findings = Vec::new();
    let mut seen = 0;
    for literal in source.literals.iter().filter(|literal| !literal.in_tests) {
        let destroys = destroys(&literal.text);
        let replaces = replaces(&literal.text);
        if !destroys && !replaces {
            continue;
        }
        let Some(constant) = constant_at(source, literal.line) else {
            findings.push(format!("{}:{}: a statement that is no constant", source.path, literal.line));
            continue;
        };
        for User { name, signature, body } in users(source, &constant) {
            seen += 1;
            let is_exception =
                EXCEPTIONS.iter().any(|(file, function)| source.path.ends_with(file) && name == *function);
            let is_kept = !destroys && body.contains(".keep_replaced(");
            if !is_exception && !is_kept && !signature.contains("DestroyPermit") {
                findings.push(format!("{}: {name} runs {constant} without a permit", source.path));
            }
        }
    }
    (findings, seen)
}

#[test]
fn content_is_destroyed_only_by_permit() {
    let mut findings = Vec::new();
    let mut seen = 0;
    for source in sources().iter().filter(|source| source.path.starts_with("svc-core/src/")) {
        let (of_file, of_functions) = findings_of(source);
        findings.extend(of_file);
        seen += of_functions;
    }
    assert!(seen >= 6, "only {seen} functions destroy content, so this test does not find them");
    none(findings);
}

#[test]
fn a_function_without_a_permit_is_found() {
    let text = "const REMOVE: &str = \"delete from messages where id = $1\";\n\
                fn with(cx: &mut Write<'_>, _: &DestroyPermit<'_>) { cx.execute(1, REMOVE, &[]) }\n\
                fn without(cx: &mut Write<'_>) { cx.execute(1, REMOVE, &[]) }\n";
    let (findings, seen) = findings_of(&Source::read("svc-core/src/x.rs".to_owned(), text));
    assert_eq!((findings.len(), seen), (1, 2), "{findings:?}");
    assert!(destroys("update results set result = null where lsn = $1"), "declared words are content");
    for harmless in ["delete from ready", "update messages set wrapped = $2", "select 1 from messages"] {
        assert!(!destroys(harmless), "{harmless}");
    }
}

#[test]
fn a_function_that_replaces_words_and_keeps_none_is_found() {
    let text = "const REPLACE: &str = \"insert into results (result) values ($1)
                    on conflict (lsn) do update set lsn = excluded.lsn, result = excluded.result\";\n\
                fn keeps(cx: &mut Write<'_>) {\n    \
                    cx.keep_replaced(1);\n    cx.execute(1, REPLACE, &[])\n}\n\
                fn loses(cx: &mut Write<'_>) {\n    cx.execute(1, REPLACE, &[])\n}\n\
                fn other(cx: &mut Write<'_>) {\n    cx.keep_replaced(1)\n}\n";
    let (findings, seen) = findings_of(&Source::read("svc-core/src/x.rs".to_owned(), text));
    assert_eq!((findings.len(), seen), (1, 2), "{findings:?}");
    assert!(findings[0].contains("loses"), "{findings:?}");
    assert!(replaces("update results set lsn = $1, result = $2 where lsn = $3"));
    for harmless in [
        "insert into results (result) values ($1)",
        "insert into results (result) values ($1) on conflict (lsn) do nothing",
        "update results set lsn = $1 where result = $2 and lsn = $3",
    ] {
        assert!(!replaces(harmless), "{harmless}");
    }
}

/// Rows that belong to messages are removed with them, or are declared to outlive them.
#[test]
fn every_table_that_names_messages_has_a_cleaner() {
    on_both_engines(|world| {
        let sql = match world.engine() {
            Engine::Sqlite => {
                "select m.name from sqlite_master m join pragma_table_info(m.name) c
                 where m.type = 'table' and c.name in ('message_id', 'from_id') order by m.name"
            }
            Engine::Postgres => {
                "select table_name::text from information_schema.columns
                 where table_schema = current_schema() and column_name in ('message_id', 'from_id')
                 order by table_name"
            }
        };
        let named: Vec<String> = world.database.rows(sql).iter().map(|row| text(&row[0])).collect();
        let mut cleaned: Vec<&str> = world.service.table().cleaned_tables().collect();
        cleaned.sort_unstable();
        assert!(named.len() >= 5, "{named:?}");
        assert_eq!(named, cleaned);
    });
}
