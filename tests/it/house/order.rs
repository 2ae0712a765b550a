//! The order inside the folders of a crate.
//!
//! The `mod` lines of a folder are in the order of use, so that it can be read from the top, and no two of
//! its modules need each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::house::rules::{none, sources};
use crate::house::source::{Source, paths_in, paths_of, use_trees};

/// Exceptions to that order: the folder, the module, the one below that it uses, why it may.
const USES_BELOW: &[(&str, &str, &str, &str)] = &[
    ("svc-core/src", "text", "store", "its values say themselves how they are stored"),
    ("svc-core/src", "time", "store", "its values say themselves how they are stored"),
    ("svc-core/src", "id", "store", "its values say themselves how they are stored"),
    ("svc-core/src", "capability", "store", "its values say themselves how they are stored"),
    ("svc-core/src", "page", "store", "its rows are read no further than a page goes"),
    ("svc-core/src", "store", "log", "Postgres notifications end at the bus"),
    ("svc-core/src/op", "declare", "run", "the signatures of functions name what they get to work with"),
];

/// The path of a module from the root of its crate.
type Module = Vec<String>;

/// A use of one module of a folder by another.
type Use = (String, String);

/// The modules of one crate.
struct Crate {
    files: BTreeMap<Module, String>,
    /// The modules of each folder, in the order of its `mod` lines.
    folders: BTreeMap<Module, Vec<String>>,
    /// The names that a module imports, and their paths.
    imports: BTreeMap<Module, BTreeMap<String, Vec<String>>>,
}

impl Crate {
    fn of<'s>(sources: impl Iterator<Item = (&'s str, &'s Source)>) -> Self {
        let mut files: BTreeMap<Module, String> = BTreeMap::new();
        for (path, source) in sources {
            let mut module: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            module.pop_if(|last| matches!(last.as_str(), "mod" | "lib" | "main"));
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
        Self { files, folders, imports }
    }

    /// The module that a path in `module` refers to.
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

    /// Which module uses which inside each folder.
    fn uses(&self) -> BTreeMap<Module, BTreeSet<Use>> {
        let mut uses: BTreeMap<Module, BTreeSet<Use>> = BTreeMap::new();
        for (module, code) in &self.files {
            for path in paths_in(code) {
                let Some(used) = self.resolved(module, &path, 0) else { continue };
                let shared = module.iter().zip(&used).take_while(|(a, b)| a == b).count();
                if let (Some(from), Some(to)) = (module.get(shared), used.get(shared)) {
                    let folder = uses.entry(module[..shared].to_vec()).or_default();
                    folder.insert((from.clone(), to.clone()));
                }
            }
        }
        uses
    }

    /// The uses of modules that are declared below, by folder.
    fn uses_below(&self) -> Vec<(String, Use)> {
        let mut found = Vec::new();
        for (folder, uses) in self.uses() {
            let order = self.folders.get(&folder).cloned().unwrap_or_default();
            let place = |name: &String| order.iter().position(|other| other == name);
            let below = |(from, to): &Use| matches!((place(from), place(to)), (Some(a), Some(b)) if b > a);
            found.extend(uses.into_iter().filter(below).map(|used| (folder.join("/"), used)));
        }
        found
    }
}

fn is_step(name: &str) -> bool {
    matches!(name, "super" | "self")
}

fn child_of(module: &[String], name: &str) -> Module {
    module.iter().cloned().chain([name.to_owned()]).collect()
}

/// The module that a line declares.
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
    let mut findings = Vec::new();
    let mut known = BTreeSet::new();
    for part in ["svc-core", "svc-http", "svc-mcp-stdio", "svc-cli"] {
        let prefix = format!("{part}/src/");
        let files = sources.iter().filter_map(|file| Some((file.path.strip_prefix(&prefix)?, file)));
        for (folder, (from, to)) in Crate::of(files).uses_below() {
            let place = format!("{prefix}{folder}");
            let place = place.trim_end_matches('/');
            let at = USES_BELOW.iter().position(|(at, a, b, _)| (*at, *a, *b) == (place, &*from, &*to));
            match at {
                Some(at) => drop(known.insert(at)),
                None => findings.push(format!("{place}: {from} uses {to}, which is declared below it")),
            }
        }
    }
    let unused = USES_BELOW.iter().enumerate().filter(|(at, _)| !known.contains(at));
    findings.extend(unused.map(|(_, (place, from, to, _))| {
        format!("{place}: {from} no longer uses {to} below it: remove the exception")
    }));
    // A glob hides what is used, unless it is that of a module inside the file.
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
    let one = |folder: &str, from: &str, to: &str| (folder.to_owned(), (from.to_owned(), to.to_owned()));
    assert_eq!(found, [one("", "a", "b"), one("", "c", "b"), one("b", "low", "deep")]);
}
