//! The house rules that no compiler checks: layers, sizes, and one place for each thing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use svc_core::capability::Capability;

use crate::house::source::Source;

/// The layers of the core, from the top. A module uses only those above it.
const LAYERS: &[&str] = &[
    "id time mark text token_text ignored json lenient hash schema page error limits spool capability \
     entropy sync monitor timers round_robin mailbox egress config data_dir data_access rate share bisect \
     strangers argument",
    "store",
    "log",
    "op",
    "request",
    "identity",
    "conversation",
    "coordination",
    "gates",
    "stream",
    "retention",
    "portability",
    "sharing",
    "audit",
    "outreach",
];

/// The files that assemble the service, and so use all layers.
const COMPOSITION: &[&str] = &["lib.rs", "api.rs", "embed/", "host/"];

/// Exceptions to the order of layers: the file, the lower layer that it uses, and the reason.
const USES_BELOW: &[(&str, &str, &str)] = &[
    ("capability.rs", "store", "its values say themselves how they are stored"),
    ("id.rs", "store", "its values say themselves how they are stored"),
    ("page.rs", "store", "its rows are read no further than a page goes"),
    ("page/cursor.rs", "store", "a cursor is a parameter of the statement that continues a list"),
    ("text.rs", "store", "its values say themselves how they are stored"),
    ("time/mod.rs", "store", "its values say themselves how they are stored"),
    ("store/opener.rs", "log::bus", "Postgres notifications end at the bus"),
    ("store/postgres/listen.rs", "log::bus", "Postgres notifications end at the bus"),
];

/// The places of SQL in the core beside the store, the log and the features.
const MAY_QUERY: &[(&str, &str)] = &[
    ("svc-core/src/op/call/lookup.rs", "finds the caller inside the transaction"),
    ("svc-core/src/op/run/call.rs", "reads how far the log reaches where it finds the caller"),
    ("svc-core/src/op/run/retry.rs", "keeps the requests that came with a key"),
    ("svc-core/src/op/run/permit.rs", "looks for legal holds where something is destroyed"),
    ("svc-core/src/op/declare/chore.rs", "takes the lease rows of chores"),
    ("svc-core/src/op/declare/records.rs", "builds the statements of what features declare"),
];

/// The places of statements that decide who is in a channel and whether it is private.
const MAY_DECIDE_VISIBILITY: &[(&str, &str)] = &[
    ("svc-core/src/conversation/visibility.rs", "has the one condition that all others use"),
    ("svc-core/src/conversation/channels/mod.rs", "lists channels"),
    ("svc-core/src/conversation/channels/change.rs", "changes whether one is private"),
    ("svc-core/src/conversation/channels/members.rs", "lists and changes who is in one"),
    ("svc-core/src/conversation/channels/direct.rs", "lists and changes who is in a direct message"),
    ("svc-core/src/conversation/channels/privacy.rs", "checks that no dependency shows a hidden thread"),
    ("svc-core/src/stream/snapshot/graph.rs", "the graph has all channels"),
];

/// The places that may spell out a capability, beside the list of them.
const MAY_SPELL_CAPABILITIES: &[(&str, &str)] =
    &[("svc-core/src/identity/tokens/mod.rs", "examples are JSON as a caller writes it")];

/// The places of route strings: the routes that are not operations.
const ROUTES: &[&str] = &["svc-http/src/route.rs", "svc-http/src/routes.rs"];

/// Lines of a file without its unit tests: above the first number there is a warning.
const LINES_WARN: usize = 500;
const LINES_MAX: usize = 700;

/// As in `.rustfmt.toml`.
const COLUMNS_MAX: usize = 110;

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Returns every Rust file of the project, with its path from the root.
pub fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    for part in ["svc-core", "svc-http", "svc-mcp-stdio", "svc-cli", "tests"] {
        walk(&root().join(part), &mut found);
    }
    assert!(found.len() > 50, "the sources are not where this test expects them");
    found.sort();
    let path = |file: &PathBuf| file.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
    found.iter().map(|file| Source::read(path(file), &std::fs::read_to_string(file).unwrap())).collect()
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("target") {
            walk(&path, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(path);
        }
    }
}

/// Fails with all findings at once.
#[track_caller]
pub fn none(findings: Vec<String>) {
    let report: String = findings.iter().map(|finding| format!("  {finding}\n")).collect();
    assert!(findings.is_empty(), "{} finding(s):\n{report}", findings.len());
}

/// Returns whether a file is a test of the whole, or of one crate from outside.
fn is_test(path: &str) -> bool {
    path.split('/').rev().skip(1).any(|folder| folder == "tests")
}

/// Returns the layers of the features: those below `op`.
fn features() -> &'static [&'static str] {
    let first = rank("op").unwrap() + 1;
    &LAYERS[first..]
}

/// Returns whether a file is in one of these folders of the core.
fn is_in(folders: &[&str], path: &str) -> bool {
    folders.iter().any(|folder| path.starts_with(&format!("svc-core/src/{folder}/")))
}

fn rank(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.split(' ').any(|name| name == module))
}

/// A layer that uses one below it can neither be read nor changed without it, and both soon merge.
#[test]
fn modules_use_only_layers_above_them() {
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    for source in sources() {
        let Some(file) = source.path.strip_prefix("svc-core/src/") else { continue };
        if COMPOSITION.iter().any(|part| file.starts_with(part)) {
            continue;
        }
        let module = file.split('/').next().unwrap().trim_end_matches(".rs");
        let Some(own) = rank(module) else {
            findings.push(format!("{file}: the module {module} is in no layer"));
            continue;
        };
        for path in source.crate_paths() {
            let target = path.split("::").next().unwrap();
            // The names that lib.rs gives to all modules: errors and results.
            if matches!(target, "Result" | "Error") || rank(target).is_some_and(|other| other <= own) {
                continue;
            }
            let known = USES_BELOW.iter().position(|(from, to, _)| *from == file && path.starts_with(to));
            match known {
                Some(at) => drop(used.insert(at)),
                None => findings.push(format!("{file} uses crate::{path}, which is not above it")),
            }
        }
    }
    let unused = USES_BELOW.iter().enumerate().filter(|(at, _)| !used.contains(at));
    findings.extend(
        unused.map(|(_, (file, path, _))| format!("{file} no longer uses {path}: remove the exception")),
    );
    none(findings);
}

/// Files are short, and begin with their purpose.
///
/// In a long file two areas grow together, and without its first line the purpose of a file is unclear.
#[test]
fn files_are_short_and_say_what_they_are() {
    let mut findings = Vec::new();
    for source in sources() {
        let lines = source.code_outside_tests().lines().count();
        let finding = format!("{} has {lines} lines without unit tests", source.path);
        if lines > LINES_MAX {
            findings.push(format!("{finding}; at most {LINES_MAX}"));
        } else if lines > LINES_WARN {
            eprintln!("warning: {finding}; better {LINES_WARN}");
        }
        if !source.text.starts_with("//! ") {
            findings.push(format!("{} does not begin with what it is (//!)", source.path));
        }
    }
    none(findings);
}

/// Returns the lines that are too wide, by number.
fn wide_lines(text: &str) -> impl Iterator<Item = usize> {
    let lines = text.lines().enumerate();
    lines.filter(|(_, line)| line.chars().count() > COLUMNS_MAX).map(|(at, _)| at + 1)
}

/// No line is wider than the formatter's limit.
///
/// The formatter leaves literals, comments and macros as wide as they are, and a reviewer who does not scroll
/// misses a condition beyond the edge of the window.
#[test]
fn no_line_is_wider_than_a_window() {
    let control = [1, COLUMNS_MAX, COLUMNS_MAX + 1].map(|width| "\u{e9}".repeat(width)).join("\n");
    assert_eq!(wide_lines(&control).collect::<Vec<_>>(), [3]);
    let mut findings = Vec::new();
    for source in sources() {
        let wide = wide_lines(&source.text);
        findings.extend(wide.map(|line| format!("{}:{line}: wider than {COLUMNS_MAX}", source.path)));
    }
    none(findings);
}

/// Returns the names in a map that the sources lack.
fn missing_of_map(map: &str, sources: &[Source], is_path: impl Fn(&str) -> bool) -> Vec<String> {
    let is_function = |name: &str| name.starts_with(|first: char| first.is_ascii_lowercase());
    let has = |source: &Source, function: &str| {
        let forms = [format!("fn {function}("), format!("fn {function}<")];
        forms.iter().any(|form| source.code.contains(form))
    };
    // A name of a type must be in a file that has an `impl` of it; a name of a module, in its file or folder.
    let belongs = |source: &Source, owner: &str| {
        let file = source.path.trim_end_matches(".rs");
        let implements = source.code.lines().any(|line| {
            let line = line.trim_start();
            let ends = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
            line.starts_with("impl") && line.split(owner).nth(1).is_some_and(ends)
        });
        implements || file.ends_with(&format!("/{owner}")) || file.contains(&format!("/{owner}/"))
    };
    let prose: String = map.lines().collect::<Vec<_>>().join(" ");
    // Every second piece is between backticks.
    let names = prose.split('`').skip(1).step_by(2);
    let is_missing = |name: &&str| match name.rsplit_once("::") {
        _ if name.contains(['/', '.']) => !name.contains(' ') && !is_path(name),
        Some((owner, function)) if is_function(function) => {
            let owner = owner.rsplit("::").next().unwrap();
            !sources.iter().any(|source| has(source, function) && belongs(source, owner))
        }
        None if name.contains('_') && name.chars().all(|c| c.is_ascii_lowercase() || c == '_') => {
            !sources.iter().any(|source| source.code.contains(name))
        }
        _ => false,
    };
    names.filter(is_missing).map(str::to_owned).collect()
}

/// A map with outdated names misleads its reader.
#[test]
fn the_map_names_what_exists() {
    let map = std::fs::read_to_string(root().join("svc-core/ARCHITECTURE.md")).unwrap();
    let exists =
        |name: &str| ["", "svc-core/src/", "svc-core/"].iter().any(|at| root().join(at).join(name).exists());
    let missing = missing_of_map(&map, &sources(), exists);
    assert!(missing.is_empty(), "ARCHITECTURE.md names what does not exist: {missing:?}");
    let wrong =
        "`Hydra::run` `nothing::begin` `create_nothing` `op/nowhere.rs` `Writer::run` `claims::begin`";
    let found = missing_of_map(wrong, &sources(), exists);
    assert_eq!(found, ["Hydra::run", "nothing::begin", "create_nothing", "op/nowhere.rs"]);
}

/// `todo!` and `unimplemented!` compile, and panic at run time.
#[test]
fn nothing_is_left_undone() {
    let mut findings = Vec::new();
    for source in sources() {
        for word in ["todo!", "unimplemented!", "dbg!"] {
            findings
                .extend(source.lines_with_code(word).map(|line| format!("{}:{line}: {word}", source.path)));
        }
    }
    none(findings);
}

fn is_sql(literal: &str) -> bool {
    let words = literal.split_whitespace().collect::<Vec<_>>().join(" ");
    words.starts_with("insert into ")
        || words.starts_with("delete from ")
        || (words.starts_with("select ") && words.contains(" from "))
        || (words.starts_with("update ") && words.contains(" set "))
}

/// A statement in a shell bypasses the caller's rights, and its changes leave no event.
#[test]
fn statements_are_in_the_store_the_log_and_the_features() {
    let may = |path: &str| {
        is_test(path)
            || is_in(&["store", "log"], path)
            || is_in(features(), path)
            || MAY_QUERY.iter().any(|(file, _)| path == *file)
    };
    let mut findings = Vec::new();
    for source in sources().iter().filter(|source| !may(&source.path)) {
        let statements = source.literals.iter().filter(|literal| is_sql(&literal.text));
        findings
            .extend(statements.map(|literal| format!("{}:{}: {}", source.path, literal.line, literal.text)));
    }
    none(findings);
}

/// Returns whether a piece of SQL decides who is in a channel or whether one is private.
///
/// Prose may mention private channels.
fn decides_visibility(literal: &str) -> bool {
    let mut words = literal
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .peekable();
    while let Some(word) = words.next() {
        let prose = words.peek().is_some_and(|next| next.starts_with("channel"));
        if word == "channel_members" || (word == "private" && !prose) {
            return true;
        }
    }
    false
}

/// Visibility is decided in one place.
///
/// A second condition for who sees a channel is forgotten when the first one changes, and shows a private
/// channel.
#[test]
fn visibility_is_decided_in_one_place() {
    for (text, wanted) in [
        ("where t.id = $1 and not c.private", true),
        (".private then ", true),
        ("join channel_members m on m.channel_id = c.id", true),
        ("the thread is in a private channel", false),
    ] {
        assert_eq!(decides_visibility(text), wanted, "{text}");
    }
    let asks = |path: &str| is_in(&["op", "log"], path) || is_in(features(), path);
    let may = |path: &str| MAY_DECIDE_VISIBILITY.iter().any(|(file, _)| path == *file);
    let mut findings = Vec::new();
    for source in sources().iter().filter(|source| asks(&source.path)) {
        let deciding: Vec<_> = source
            .literals
            .iter()
            .filter(|literal| !literal.in_tests && decides_visibility(&literal.text))
            .collect();
        // A list of columns is SQL without quotes.
        let names = |list: &str| list.split(|c: char| !c.is_alphanumeric()).any(|word| word == "private");
        if source.blocks("columns").any(names) && !may(&source.path) {
            findings.push(format!("{}: a list of columns decides visibility", source.path));
        }
        match deciding.first() {
            Some(literal) if !may(&source.path) => {
                findings.push(format!("{}:{}: use `visible!` instead", source.path, literal.line));
            }
            None if may(&source.path) => findings.push(format!("{}: remove the exception", source.path)),
            _ => {}
        }
    }
    none(findings);
}

/// Only `page.rs` creates pages.
///
/// A page that is created elsewhere is bounded in bytes only if its author remembers it.
#[test]
fn pages_are_made_in_one_place() {
    let mut findings = Vec::new();
    let page = "svc-core/src/page.rs";
    let in_core = |source: &&Source| source.path.starts_with("svc-core/src/") && source.path != page;
    for source in sources().iter().filter(in_core) {
        for field in ["items: Vec<", "next_cursor: Option<Cursor>"] {
            let found = source.lines_with_code(field);
            findings
                .extend(found.map(|line| format!("{}:{line}: page.rs has the bounded page", source.path)));
        }
    }
    none(findings);
}

/// A route beside the operation table is in no document, and no generated test tries its authorisation.
#[test]
fn routes_are_declared_by_their_operations() {
    let table = svc_core::operation_table().unwrap();
    let paths = table.operations().flat_map(|operation| operation.http().paths());
    let firsts: BTreeSet<String> =
        paths.filter_map(|path| Some(format!("/{}", path.split('/').nth(1)?))).collect();
    let is_route = |text: &str| {
        firsts.iter().any(|first| {
            text.strip_prefix(first.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    let may = |path: &str| is_test(path) || is_in(features(), path) || ROUTES.contains(&path);
    let mut findings = Vec::new();
    for source in sources().iter().filter(|source| !may(&source.path)) {
        let routes = source.literals.iter().filter(|literal| !literal.in_tests && is_route(&literal.text));
        findings
            .extend(routes.map(|literal| format!("{}:{}: \"{}\"", source.path, literal.line, literal.text)));
    }
    none(findings);
}

/// A misspelt capability compiles, and no token holds it.
#[test]
fn capabilities_are_spelled_in_one_place() {
    let may = |path: &str| {
        is_test(path)
            || path == "svc-core/src/capability.rs"
            || MAY_SPELL_CAPABILITIES.iter().any(|(file, _)| path == *file)
    };
    let mut findings = Vec::new();
    for source in sources().iter().filter(|source| !may(&source.path)) {
        let spelled = source.literals.iter().filter(|literal| {
            !literal.in_tests && Capability::ALL.iter().any(|capability| capability.name() == literal.text)
        });
        findings
            .extend(spelled.map(|literal| format!("{}:{}: \"{}\"", source.path, literal.line, literal.text)));
    }
    none(findings);
}

/// A kind that is spelled out stays the same when its type is renamed, and then matches no event.
#[test]
fn kinds_of_events_are_named_by_their_types() {
    let table = svc_core::operation_table().unwrap();
    let kinds: BTreeSet<&str> = table.events().map(|event| event.kind).collect();
    let mut findings = Vec::new();
    for source in sources().iter().filter(|source| source.path.starts_with("svc-core/src/")) {
        let lines: Vec<&str> = source.text.lines().collect();
        let declared = |line: usize| lines[line - 1].contains("const KIND: &'static str = ");
        let spelled = source.literals.iter().filter(|literal| {
            !literal.in_tests && kinds.contains(literal.text.as_str()) && !declared(literal.line)
        });
        findings
            .extend(spelled.map(|literal| format!("{}:{}: \"{}\"", source.path, literal.line, literal.text)));
    }
    none(findings);
}

/// A missing migration for one engine shows only when a statement misses its column.
#[test]
fn migrations_come_in_pairs() {
    let names = |engine: &str| -> BTreeSet<String> {
        let folder = root().join("migrations").join(engine);
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let sqlite = names("sqlite");
    let postgres = names("postgres");
    assert_eq!(sqlite, postgres);
    let list = sources().into_iter().find(|file| file.path == "svc-core/src/store/migrate.rs").unwrap();
    let is_listed =
        |name: &&String| list.literals.iter().any(|one| Some(&*one.text) == name.strip_suffix(".sql"));
    let missing: Vec<_> = sqlite.iter().filter(|name| !is_listed(name)).collect();
    assert!(missing.is_empty(), "no line in store/migrate.rs: {missing:?}");
    let number = |name: &str| -> Option<u32> {
        let digits = name.strip_suffix(".sql")?.get(..4)?;
        digits.parse().ok().filter(|_| name.get(4..5) == Some("_"))
    };
    let numbers: BTreeSet<Option<u32>> = sqlite.iter().map(|name| number(name)).collect();
    assert!(!numbers.contains(&None) && numbers.len() == sqlite.len(), "each has a number: {sqlite:?}");
}

/// A test in any other place is found only by its author.
#[test]
fn tests_are_in_the_folder_of_the_layer_they_test() {
    let layer = |folder: &str| LAYERS.contains(&folder);
    let mut findings = Vec::new();
    for source in sources() {
        let Some(file) = source.path.strip_prefix("tests/it/") else { continue };
        match file.split('/').collect::<Vec<_>>()[..] {
            ["main.rs"] => {}
            ["attacks" | "embed" | "house" | "shells", ..] => {}
            [folder, _] | [folder, _, _] if layer(folder) => {}
            _ => findings.push(format!("{file}: belongs into the folder of a layer")),
        }
    }
    none(findings);
}

/// How many statements may bind several unrelated values.
const TUPLE_LETS_MAX: usize = 35;

/// Statements that bind the items of a tuple which they have just made.
fn tuple_lets(code: &str) -> usize {
    let bound = |statement: &str| {
        let rest = statement.trim_start().strip_prefix("let (")?;
        let (_, value) = rest.split_once(") = ")?;
        Some(value.starts_with('(') && value.trim_end().ends_with(')'))
    };
    code.split(';')
        .filter_map(|statement| bound(statement.rsplit(['{', '}']).next()?))
        .filter(|it| *it)
        .count()
}

/// A statement that binds several values to save lines hides where each comes from.
#[test]
fn values_are_bound_one_by_one() {
    assert_eq!(tuple_lets("let (a, b) = (1, 2); let (c, d) = pair(); let e = (1, 2);"), 1);
    let of_file = |source: &Source| (tuple_lets(&source.code), source.path.clone());
    let counts: Vec<(usize, String)> = sources().iter().map(of_file).collect();
    let all: usize = counts.iter().map(|(count, _)| count).sum();
    let named = counts.into_iter().filter(|(count, _)| *count > 0);
    let named: Vec<String> = named.map(|(count, path)| format!("{path}: {count}")).collect();
    assert!(all <= TUPLE_LETS_MAX, "{all} statements bind the items of a tuple:\n{}", named.join("\n"));
}

/// The lines that begin at the margin although they are inside of brackets.
fn lines_at_the_margin(code: &str) -> Vec<usize> {
    let mut depth = 0_i32;
    let mut found = Vec::new();
    for (at, line) in code.lines().enumerate() {
        if depth > 0 && line.starts_with(|c: char| !c.is_whitespace() && !")]}".contains(c)) {
            found.push(at + 1);
        }
        depth +=
            line.chars().map(|c| i32::from("([{".contains(c)) - i32::from(")]}".contains(c))).sum::<i32>();
    }
    found
}

/// Code that rustfmt cannot format, such as around a string wider than a line, it leaves as it is, silently.
#[test]
fn no_file_is_left_unformatted() {
    assert_eq!(lines_at_the_margin("fn f() {\nlet a = 1;\n}\n"), [2]);
    let findings = sources().into_iter().flat_map(|source| {
        let lines = lines_at_the_margin(&source.code).into_iter();
        lines.map(|line| format!("{}:{line}: not formatted", source.path)).collect::<Vec<_>>()
    });
    none(findings.collect());
}
