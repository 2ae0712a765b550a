//! The order in the folders of a crate.
//!
//! The `mod` lines of a folder are in the order of use, so that it can be read from the top, and no two of
//! its modules need each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::house::rules::{none, sources};
use crate::house::source::{Source, paths_in, paths_of, use_trees};

/// Exceptions to that order: the file, the module that it uses, and the reason.
const USES_BELOW: &[(&str, &str, &str)] = &[
    ("svc-core/src/capability.rs", "store::value", STORED),
    ("svc-core/src/id.rs", "store::value", STORED),
    (
        "svc-core/src/op/declare/chore.rs",
        "op::run",
        "a step of a chore reads and writes as the service itself",
    ),
    ("svc-core/src/op/declare/answer.rs", "op::run::context", SIGNATURES),
    ("svc-core/src/op/declare/chore.rs", "op::run::context", SIGNATURES),
    ("svc-core/src/op/declare/chore.rs", "op::run::settings", SIGNATURES),
    ("svc-core/src/op/declare/due_objects.rs", "op::run::context", SIGNATURES),
    ("svc-core/src/op/declare/functions.rs", "op::run::context", SIGNATURES),
    ("svc-core/src/op/declare/functions.rs", "op::run::settings", SIGNATURES),
    ("svc-core/src/op/declare/hooks.rs", "op::run::context", SIGNATURES),
    ("svc-core/src/op/declare/hooks.rs", "op::run::permit", SIGNATURES),
    ("svc-core/src/op/declare/job.rs", "op::run::context", SIGNATURES),
    ("svc-core/src/op/declare/operation.rs", "op::run::settings", SIGNATURES),
    ("svc-core/src/op/declare/health_check.rs", "op::run::context", SIGNATURES),
    ("svc-core/src/op/declare/records.rs", "op::run::context", SIGNATURES),
    ("svc-core/src/op/declare/records.rs", "op::run::permit", SIGNATURES),
    ("svc-core/src/op/declare/delivery_channel.rs", "op::run::context", SIGNATURES),
    ("svc-core/src/page.rs", "store::budget", PAGED),
    ("svc-core/src/page.rs", "store::conn", PAGED),
    ("svc-core/src/page.rs", "store::row", PAGED),
    ("svc-core/src/page.rs", "store::value", PAGED),
    ("svc-core/src/page/cursor.rs", "store::value", PAGED),
    ("svc-core/src/store/opener.rs", "log::bus", NOTIFIED),
    ("svc-core/src/store/postgres/listen.rs", "log::bus", NOTIFIED),
    ("svc-core/src/text.rs", "store::value", STORED),
    ("svc-core/src/time/mod.rs", "store::value", STORED),
];

const STORED: &str = "its values say themselves how they are stored";
const PAGED: &str = "its rows are read no further than a page goes";
const NOTIFIED: &str = "Postgres notifications end at the bus";
const SIGNATURES: &str = "the signatures of functions name what they get to work with";

/// The path of a module from the root of its crate.
type Module = Vec<String>;

/// A use of a module by a file: the path of the file from the root of its crate, and the module's.
type Use = (String, String);

/// The modules of one crate.
struct Crate {
    files: BTreeMap<Module, String>,
    /// The paths of the files.
    paths: BTreeMap<Module, String>,
    /// The modules of each folder, in the order of its `mod` lines.
    folders: BTreeMap<Module, Vec<String>>,
    /// The names that a module imports, and their paths.
    imports: BTreeMap<Module, BTreeMap<String, Vec<String>>>,
}

impl Crate {
    fn of<'s>(sources: impl Iterator<Item = (&'s str, &'s Source)>) -> Self {
        let mut files: BTreeMap<Module, String> = BTreeMap::new();
        let mut paths = BTreeMap::new();
        for (path, source) in sources {
            let mut module: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            module.pop_if(|last| matches!(last.as_str(), "mod" | "lib" | "main"));
            paths.insert(module.clone(), path.to_owned());
            // A library and the program beside it have one root.
            let code: &mut String = files.entry(module).or_default();
            code.push_str(source.code_outside_tests());
            code.push('\n');
        }
        let declared = |code: &String| code.lines().filter_map(declaration).map(str::to_owned).collect();
        let folders = files.iter().map(|(module, code)| (module.clone(), declared(code))).collect();
        let imported = |code: &String| {
            let paths = use_trees(code).into_iter().flat_map(|tree| paths_of(&tree));
            paths.map(|(path, name)| (name, path)).collect()
        };
        let imports = files.iter().map(|(module, code)| (module.clone(), imported(code))).collect();
        Self { files, paths, folders, imports }
    }

    /// Returns the module that a path in `module` refers to.
    fn resolved(&self, module: &[String], path: &[String], depth: usize) -> Option<Module> {
        let mut at = module.to_vec();
        let mut path = path;
        match path.first()?.as_str() {
            "crate" => (at, path) = (Vec::new(), &path[1..]),
            "super" | "self" => {
                while let Some((step, rest)) = path.split_first().filter(|(step, _)| is_step(step)) {
                    if step == "super" {
                        at.pop();
                    }
                    path = rest;
                }
            }
            child if self.files.contains_key(&child_of(&at, child)) => {}
            _ => return None,
        }
        while let Some(name) = path.first().filter(|name| self.files.contains_key(&child_of(&at, name))) {
            at.push(name.clone());
            path = &path[1..];
        }
        let import = path.first().and_then(|name| self.imports.get(&at)?.get(name));
        let elsewhere = import.filter(|_| depth < 8).and_then(|path| self.resolved(&at, path, depth + 1));
        Some(elsewhere.unwrap_or(at))
    }

    /// Returns whether `user` uses `used` although it is declared above it, in the folder where their paths
    /// part.
    fn is_below(&self, user: &[String], used: &[String]) -> bool {
        let shared = user.iter().zip(used).take_while(|(a, b)| a == b).count();
        let Some(order) = self.folders.get(&user[..shared]) else { return false };
        let place = |module: &[String]| order.iter().position(|name| Some(name) == module.get(shared));
        matches!((place(user), place(used)), (Some(a), Some(b)) if b > a)
    }

    /// Returns the uses of modules that are declared below, each once.
    fn uses_below(&self) -> BTreeSet<Use> {
        let mut found = BTreeSet::new();
        for (module, code) in &self.files {
            let used = paths_in(code).into_iter().filter_map(|path| self.resolved(module, &path, 0));
            let below = used.filter(|used| self.is_below(module, used));
            found.extend(below.map(|used| (self.paths[module].clone(), used.join("::"))));
        }
        found
    }
}

/// Reports the uses that no exception allows, and the exceptions that no use needs.
fn unexplained(uses: &BTreeSet<Use>, exceptions: &[(&str, &str, &str)]) -> Vec<String> {
    let is_of = |(file, used): &Use, exception: &(&str, &str, &str)| {
        (file.as_str(), used.as_str()) == (exception.0, exception.1)
    };
    let strangers = uses.iter().filter(|one| !exceptions.iter().any(|known| is_of(one, known)));
    let idle = exceptions.iter().filter(|known| !uses.iter().any(|one| is_of(one, known)));
    let strangers = strangers.map(|(file, used)| format!("{file} uses {used}, which is declared below it"));
    let idle = idle.map(|(file, used, _)| format!("{file} no longer uses {used}: remove the exception"));
    strangers.chain(idle).collect()
}

fn is_step(name: &str) -> bool {
    matches!(name, "super" | "self")
}

fn child_of(module: &[String], name: &str) -> Module {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

/// Returns the module that a line declares.
fn declaration(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub").map_or(line, |rest| match rest.strip_prefix('(') {
        Some(scope) => scope.split_once(')').map_or(rest, |(_, after)| after),
        None => rest,
    });
    line.trim_start().strip_prefix("mod ")?.strip_suffix(';')
}

/// A module uses only the modules above it in its folder.
///
/// Two modules that need each other can neither be read nor changed alone, and the first such pair is the
/// hardest to notice.
#[test]
fn modules_are_declared_in_the_order_of_use() {
    let sources = sources();
    let mut uses = BTreeSet::new();
    for part in ["svc-core", "svc-http", "svc-mcp-stdio", "svc-cli"] {
        let prefix = format!("{part}/src/");
        let files = sources.iter().filter_map(|file| Some((file.path.strip_prefix(&prefix)?, file)));
        let below = Crate::of(files).uses_below().into_iter();
        uses.extend(below.map(|(file, used)| (prefix.clone() + &file, used)));
    }
    let mut findings = unexplained(&uses, USES_BELOW);
    // A glob hides the used names, unless it is that of a module inside the file.
    findings.extend(sources.iter().filter(|file| file.path.contains("/src/")).flat_map(|file| {
        let lines = file.code_outside_tests().lines();
        let globs = lines.filter(|line| line.starts_with("use ") && line.contains("::*"));
        globs.map(|line| format!("{}: `{line}` hides what it uses", file.path))
    }));
    none(findings);
}

#[test]
fn a_use_of_a_module_below_is_found() {
    let file = |path: &str, text: &str| Source::read(path.to_owned(), text);
    let files = [
        file("lib.rs", "mod a;\nmod c;\npub mod b;\npub use b::{deep::Thing as Other};\n"),
        file("main.rs", "mod d;\n"),
        file("a.rs", "use crate::{Other, other::X};\n#[cfg(test)]\nmod tests { use crate::b; }"),
        file("c.rs", "use self::super::b;"),
        file("d.rs", "use crate::a::X;"),
        file("b/mod.rs", "pub(crate) mod low;\nmod deep;\nuse deep::Thing;"),
        file("b/low.rs", "fn f() { super::Thing::new(); crate::a::g() }"),
        file("b/deep.rs", "use super::low::{self, Y};"),
    ];
    let found = Crate::of(files.iter().map(|file| (file.path.as_str(), file))).uses_below();
    let one = |file: &str, used: &str| (file.to_owned(), used.to_owned());
    let wanted = [one("a.rs", "b::deep"), one("b/low.rs", "b::deep"), one("c.rs", "b")];
    assert_eq!(found, BTreeSet::from(wanted));
}

#[test]
fn a_second_use_and_an_idle_exception_are_reported() {
    let one = |file: &str, used: &str| (file.to_owned(), used.to_owned());
    let uses = BTreeSet::from([one("a/x.rs", "b::c"), one("a/x.rs", "b::d"), one("a/y.rs", "b::c")]);
    let exceptions = [("a/x.rs", "b::c", "why"), ("a/z.rs", "b::c", "why")];
    assert_eq!(
        unexplained(&uses, &exceptions),
        [
            "a/x.rs uses b::d, which is declared below it",
            "a/y.rs uses b::c, which is declared below it",
            "a/z.rs no longer uses b::c: remove the exception",
        ]
    );
}
