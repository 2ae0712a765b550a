//! Packs the modules of the board into a few files, because a page that fetches hundreds of modules is slow.
//!
//! A pack is a module that runs no code. Its default export maps the name of each packed module to the
//! module's body as a function, and `modules.js` runs a body when the module is first needed. Importers read
//! a re-exported name from the module that defines it. `app.js` and the files of workers start the modules in
//! the packs.

use std::collections::{BTreeMap, BTreeSet};

use super::module::{Export, LOAD_FUNCTION, Module, RUN_FUNCTION, URL_VARIABLE, quote};
use super::script::Result;

/// Name of the module that the page loads first. Its file also contains the modules that it imports.
const APP: &str = "app.js";
/// Name of the module that runs the packed modules.
const MODULES: &str = "modules.js";
/// Name of the first pack, and of the module that the page runs once this pack is loaded.
const MAIN: &str = "main.js";
/// Names of the modules that the first screens need. The first pack contains these modules and their imports.
const FIRST_MODULES: [&str; 4] = [MAIN, "screens/board.js", "screens/now.js", "screens/sign-in.js"];
/// Name of the pack with all other modules.
const REST_PACK: &str = "rest.js";
/// Names of the web workers' scripts, which start after the packs are loaded.
const WORKER_SCRIPTS: [&str; 1] = ["worker/verify.js"];
/// Names of the scripts without imports, which are sent as separate files.
const STANDALONE_SCRIPTS: [&str; 1] = ["push.js"];

/// Packs sources, listed by module name, into the scripts to send, listed by file name.
pub(super) fn pack(sources: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
    let mut modules = BTreeMap::new();
    for (name, source) in sources.iter().filter(|(name, _)| !STANDALONE_SCRIPTS.contains(&name.as_str())) {
        modules.insert(name.as_str(), Module::parse(name, source)?);
    }
    let graph = ModuleGraph::build(&modules)?;
    let in_app = graph.with_dependencies(&[APP])?;
    let mut in_main = graph.with_dependencies(&FIRST_MODULES)?;
    in_main.retain(|name| !in_app.contains(name));
    let mut in_rest = graph.reachable_modules(&[&[APP][..], &FIRST_MODULES, &WORKER_SCRIPTS].concat())?;
    in_rest.retain(|name| !in_app.contains(name) && !in_main.contains(name));

    let mut files = BTreeMap::new();
    for (pack, names) in [(MAIN, &in_main), (REST_PACK, &in_rest)] {
        files.insert(pack.to_owned(), format!("export default{{{}}};\n", graph.write_members(names)?));
    }
    let runner = modules.get(MODULES).ok_or_else(|| missing_module_error(MODULES))?;
    check_imports_nothing(MODULES, runner)?;
    let runner = format!("let{{openModules:$m}}=(()=>{{{}\nreturn{{openModules}}}})();", runner.code);
    let bodies = graph.write_members(&in_app)?;
    let begun = quote(APP);
    let app = format!(
        "{runner}\n$m({{{bodies}}},new URL(\".\",import.meta.url).href,[\"{MAIN}\",\"{REST_PACK}\"],\
         a=>import(a)).need({begun});\n"
    );
    files.insert(APP.to_owned(), app);
    for worker in WORKER_SCRIPTS {
        let of_page: BTreeSet<&str> =
            graph.reachable_modules(&[worker])?.intersection(&in_app).copied().collect();
        let bodies = graph.write_members(&of_page)?;
        let begun = quote(worker);
        let up = "../".repeat(worker.matches('/').count());
        let script = format!(
            "import m from\"{up}{MAIN}\";import r from\"{up}{REST_PACK}\";\n{runner}\n\
             $m({{...m,...r,{bodies}}},new URL(\"{up}\",import.meta.url).href,[]).need({begun});\n"
        );
        files.insert(worker.to_owned(), script);
    }
    for name in STANDALONE_SCRIPTS {
        if let Some(source) = sources.get(name) {
            let script = Module::parse(name, source)?;
            check_imports_nothing(name, &script)?;
            if let Some(given) = script.exports.keys().next() {
                return Err(format!("{name} gives {given}, which nobody can take"));
            }
            files.insert(name.to_owned(), script.code + "\n");
        }
    }
    Ok(files)
}

fn missing_module_error(name: &str) -> String {
    format!("there is no module {name}")
}

/// Checks that a script imports nothing.
fn check_imports_nothing(name: &str, module: &Module) -> Result<()> {
    let taken = module.imports.iter().map(|import| &import.from);
    match taken.chain(&module.reexported_modules).chain(&module.dynamic_imports).next() {
        Some(other) => Err(format!("{name} needs {other}, and stands by itself")),
        None => Ok(()),
    }
}

/// All modules of the board, and the modules that each module depends on.
struct ModuleGraph<'a> {
    modules: &'a BTreeMap<&'a str, Module>,
    /// For each module, the modules that must run before that module.
    needs: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> ModuleGraph<'a> {
    fn build(modules: &'a BTreeMap<&'a str, Module>) -> Result<Self> {
        let mut graph = Self { modules, needs: BTreeMap::new() };
        for (&name, module) in modules {
            let mut needs = BTreeSet::new();
            for import in &module.imports {
                let of_import = |wrong: String| format!("{name}: {wrong}");
                needs.insert(match &import.name {
                    Some(wanted) => graph.origin(&import.from, wanted).map_err(of_import)?.0,
                    None => graph.module(&import.from).map_err(of_import)?.0,
                });
            }
            for given in graph.exported_names(name)? {
                needs.insert(graph.origin(name, given)?.0);
            }
            needs.remove(name);
            graph.needs.insert(name, needs);
        }
        Ok(graph)
    }

    fn module(&self, name: &str) -> Result<(&'a str, &'a Module)> {
        self.modules
            .get_key_value(name)
            .map(|(&name, module)| (name, module))
            .ok_or_else(|| missing_module_error(name))
    }

    /// Returns all names that a module exports.
    fn exported_names(&self, name: &str) -> Result<BTreeSet<&'a str>> {
        let mut names = BTreeSet::new();
        let mut modules = vec![name];
        let mut seen = BTreeSet::new();
        while let Some(name) = modules.pop().filter(|name| seen.insert(*name)) {
            let (_, module) = self.module(name)?;
            // `export *` omits the default export.
            let given = module.exports.keys().map(String::as_str);
            names.extend(given.filter(|given| seen.len() == 1 || *given != "default"));
            modules.extend(module.reexported_modules.iter().map(String::as_str));
        }
        Ok(names)
    }

    /// Finds the module that defines an export of the module `from`. Returns that module, and the name that
    /// it exports.
    fn origin(&self, from: &str, wanted: &str) -> Result<(&'a str, &'a str)> {
        let none = || format!("{from} gives no {wanted}");
        let mut at = from;
        let mut name = wanted;
        // No chain of re-exports is longer than the number of modules.
        for _ in self.modules {
            let (module_name, module) = self.module(at)?;
            match module.exports.get_key_value(name) {
                Some((name, Export::Local(_))) => return Ok((module_name, name)),
                Some((_, Export::Reexport { module, name: other })) => (at, name) = (module, other),
                None => {
                    let mut stars = module.reexported_modules.iter().filter(|_| name != "default");
                    let has_it =
                        |star: &&String| self.exported_names(star).is_ok_and(|names| names.contains(name));
                    at = stars.find(has_it).ok_or_else(none)?;
                    if let Some(second) = stars.find(has_it) {
                        return Err(format!("{module_name} gives {name} of {at} and of {second}"));
                    }
                }
            }
        }
        Err(none())
    }

    /// Returns the given modules and all modules that must run before them.
    fn with_dependencies(&self, names: &[&str]) -> Result<BTreeSet<&'a str>> {
        let mut done = BTreeSet::new();
        for name in names {
            self.visit_dependencies(self.module(name)?.0, &mut Vec::new(), &mut done)?;
        }
        Ok(done)
    }

    fn visit_dependencies(
        &self,
        name: &'a str,
        path: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
    ) -> Result<()> {
        if done.contains(name) {
            return Ok(());
        }
        let begin = path.iter().position(|before| *before == name);
        path.push(name);
        if let Some(begin) = begin {
            let circle: Vec<&str> = path.iter().skip(begin).copied().collect();
            return Err(format!("modules need each other: {}", circle.join(" -> ")));
        }
        for needed in self.needs.get(name).into_iter().flatten() {
            self.visit_dependencies(needed, path, done)?;
        }
        path.pop();
        done.insert(name);
        Ok(())
    }

    /// Returns the given modules and all modules that they import, statically or dynamically.
    fn reachable_modules(&self, names: &[&str]) -> Result<BTreeSet<&'a str>> {
        let mut reached = self.with_dependencies(names)?;
        let mut open: Vec<&str> = reached.iter().copied().collect();
        while let Some(name) = open.pop() {
            for later in &self.module(name)?.1.dynamic_imports {
                for needed in self.with_dependencies(&[later])? {
                    if reached.insert(needed) {
                        open.push(needed);
                    }
                }
            }
        }
        Ok(reached)
    }

    /// Writes the members of a pack: the names and bodies of its modules.
    fn write_members(&self, names: &BTreeSet<&str>) -> Result<String> {
        let mut bodies = Vec::new();
        for name in names {
            let body = self.body(name)?;
            bodies.push(format!("{}({RUN_FUNCTION},{LOAD_FUNCTION},{URL_VARIABLE}){{{body}}}", quote(name)));
        }
        Ok(bodies.join(",\n"))
    }

    fn body(&self, name: &str) -> Result<String> {
        let (_, module) = self.module(name)?;
        // Imports in the order of the source, which is the order in which the modules run.
        let mut taken: Vec<PackedImport<'_>> = Vec::new();
        for import in &module.imports {
            let local = &import.local;
            match &import.name {
                None => taken.push(PackedImport::All { from: &import.from, local }),
                Some(wanted) => {
                    let (module, name) = self.origin(&import.from, wanted)?;
                    let as_local = if name == local { local.clone() } else { format!("{name}:{local}") };
                    let known = taken.iter_mut().find_map(|taken| taken.names_of(module));
                    match known {
                        Some(names) => names.push(as_local),
                        None => taken.push(PackedImport::Names { from: module, names: vec![as_local] }),
                    }
                }
            }
        }
        let mut given = Vec::new();
        for wanted in self.exported_names(name)? {
            given.push(match module.exports.get(wanted) {
                Some(Export::Local(local)) if local == wanted => local.clone(),
                Some(Export::Local(local)) => format!("{wanted}:{local}"),
                _ => {
                    let (from, name) = self.origin(name, wanted)?;
                    format!("{wanted}:{RUN_FUNCTION}({}).{name}", quote(from))
                }
            });
        }
        let taken: Vec<String> = taken.iter().map(PackedImport::declaration).collect();
        let takes =
            if taken.is_empty() { String::new() } else { format!("let{};", join_declarations(&taken)) };
        Ok(format!("{takes}{}\nreturn{{{}}}", module.code, given.join(",")))
    }
}

/// An imported module, and the local names for its exports.
enum PackedImport<'a> {
    All { from: &'a str, local: &'a str },
    Names { from: &'a str, names: Vec<String> },
}

impl PackedImport<'_> {
    fn names_of(&mut self, module: &str) -> Option<&mut Vec<String>> {
        match self {
            Self::Names { from, names } if *from == module => Some(names),
            _ => None,
        }
    }

    fn declaration(&self) -> String {
        match self {
            Self::All { from, local } => format!("{local}={RUN_FUNCTION}({})", quote(from)),
            Self::Names { from, names } => format!("{{{}}}={RUN_FUNCTION}({})", names.join(","), quote(from)),
        }
    }
}

/// Joins declarations with commas, for use after a keyword.
///
/// Adds a leading space unless the first declaration begins with a brace.
fn join_declarations(all: &[String]) -> String {
    let all = all.join(",");
    if all.starts_with('{') { all } else { format!(" {all}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Minimal sources of the modules that every build needs.
    const KNOWN: [(&str, &str); 7] = [
        (MODULES, "export function openModules() {}"),
        (APP, "import(\"./main.js\");"),
        (MAIN, "import(\"./screens/now.js\");"),
        ("screens/board.js", ""),
        ("screens/now.js", ""),
        ("screens/sign-in.js", ""),
        ("worker/verify.js", ""),
    ];

    fn files(more: &[(&str, &str)]) -> Result<BTreeMap<String, String>> {
        let all = KNOWN.iter().chain(more);
        pack(&all.map(|(name, source)| ((*name).to_owned(), (*source).to_owned())).collect())
    }

    /// Returns the names of the modules in a packed file.
    fn inside(file: &str) -> Vec<&str> {
        let mut before: Vec<&str> = file.split("($n,$l,$a){").collect();
        before.pop();
        before.iter().filter_map(|before| before.rsplit('"').nth(1)).collect()
    }

    #[test]
    fn a_module_is_in_one_file_by_who_needs_it() {
        let files = files(&[
            (APP, "import { a } from \"./a.js\";\nvoid import(\"./main.js\");"),
            (
                MAIN,
                "import { a } from \"./a.js\";\nimport { b } from \"./b.js\";\nvoid import(\"./later.js\");",
            ),
            ("a.js", "export const a = 1;"),
            ("b.js", "export const b = 1;"),
            ("later.js", "import { b } from \"./b.js\";\nimport { c } from \"./c.js\";"),
            ("c.js", "export const c = 1;"),
            ("types.js", "export {};"),
            ("push.js", "// Alone.\nself.a = 1;\n"),
            ("worker/verify.js", "import { a } from \"../a.js\";\nimport { c } from \"../c.js\";"),
        ])
        .unwrap();
        let names: Vec<&str> = files.keys().map(String::as_str).collect();
        assert_eq!(names, [APP, MAIN, "push.js", REST_PACK, "worker/verify.js"]);
        assert_eq!(inside(&files[APP]), ["a.js", APP]);
        let first = ["b.js", MAIN, "screens/board.js", "screens/now.js", "screens/sign-in.js"];
        assert_eq!(inside(&files[MAIN]), first);
        assert_eq!(inside(&files[REST_PACK]), ["c.js", "later.js", "worker/verify.js"]);
        assert_eq!(inside(&files["worker/verify.js"]), ["a.js"]);
        assert_eq!(files["push.js"], "self.a=1;\n");
    }

    #[test]
    fn a_name_comes_from_the_module_that_has_it() {
        let files = files(&[
            (MAIN, "import { a, e as f } from \"./all.js\";\nimport * as g from \"./c.js\";\nf(a, g);"),
            (
                "all.js",
                "export * from \"./c.js\";\nexport { d as e } from \"./d.js\";\nexport * from \"./big.js\";",
            ),
            (
                "c.js",
                "import { b } from \"./d.js\";\nexport const a = b;\nexport { b as c } from \"./d.js\";",
            ),
            ("d.js", "const x = 1;\nexport { x as d };\nexport const b = 2;"),
            ("big.js", "export const big = 1;"),
        ])
        .unwrap();
        let body = |name: &str, body: &str| format!("\"{name}\"($n,$l,$a){{{body}}}");
        for wanted in [
            body(MAIN, "let{a}=$n(\"c.js\"),{d:f}=$n(\"d.js\"),g=$n(\"c.js\");f(a,g);\nreturn{}"),
            body("c.js", "let{b}=$n(\"d.js\");let a=b;\nreturn{a,c:$n(\"d.js\").b}"),
            body("d.js", "let x=1;let b=2;\nreturn{b,d:x}"),
        ] {
            assert!(files[MAIN].contains(&wanted), "{wanted} in {}", files[MAIN]);
        }
        assert!(files.values().all(|file| !file.contains("big")), "nobody needs it");
    }

    #[test]
    fn modules_are_made_in_the_order_in_which_the_source_names_them() {
        let files = files(&[
            (
                MAIN,
                "import * as b from \"./b.js\";\nimport { c } from \"./c.js\";\n\
                 import { a } from \"./a.js\";\nimport { c as d } from \"./c.js\";",
            ),
            ("a.js", "export const a = 1;"),
            ("b.js", "export const b = 1;"),
            ("c.js", "export const c = 1;"),
        ])
        .unwrap();
        let wanted = "{let b=$n(\"b.js\"),{c,c:d}=$n(\"c.js\"),{a}=$n(\"a.js\");\n";
        assert!(files[MAIN].contains(wanted), "{}", files[MAIN]);
    }

    #[test]
    fn a_worker_has_what_it_loads_later() {
        let files = files(&[
            (APP, "import { a } from \"./a.js\";\nvoid import(\"./main.js\");"),
            ("a.js", "export const a = 1;"),
            ("worker/verify.js", "void import(\"../later.js\");"),
            ("later.js", "import { a } from \"./a.js\";"),
        ])
        .unwrap();
        assert_eq!(inside(&files["worker/verify.js"]), ["a.js"]);
        assert_eq!(inside(&files[REST_PACK]), ["later.js", "worker/verify.js"]);
    }

    #[test]
    fn what_cannot_be_packed_is_told() {
        for (more, wanted) in [
            (&[(MAIN, "import { a } from \"./a.js\";")][..], "main.js: there is no module a.js"),
            (&[(MAIN, "import { a } from \"./a.js\";"), ("a.js", "")], "main.js: a.js gives no a"),
            (
                &[
                    (MAIN, "import a from \"./a.js\";"),
                    ("a.js", "export * from \"./b.js\";"),
                    ("b.js", "export default 1;"),
                ],
                "main.js: a.js gives no default",
            ),
            (&[(MAIN, "import(\"./a.js\");")], "there is no module a.js"),
            (
                &[
                    (MAIN, "import { a } from \"./a.js\";"),
                    ("a.js", "export * from \"./b.js\";\nexport * from \"./c.js\";"),
                    ("b.js", "export const a = 1;"),
                    ("c.js", "export const a = 2;"),
                ],
                "a.js gives a of b.js and of c.js",
            ),
            (
                &[
                    (MAIN, "import { a } from \"./a.js\";"),
                    ("a.js", "import { b } from \"./b.js\";\nexport const a = b;"),
                    ("b.js", "import { c } from \"./c.js\";\nexport const b = c;"),
                    ("c.js", "import { a } from \"./a.js\";\nexport const c = a;"),
                ],
                "modules need each other: a.js -> b.js -> c.js -> a.js",
            ),
            (
                &[
                    (MAIN, "import { a } from \"./a.js\";"),
                    ("a.js", "export { a } from \"./b.js\";"),
                    ("b.js", "export { a } from \"./a.js\";"),
                ],
                "a.js gives no a",
            ),
            (&[(MAIN, "a(")], "main.js, line 1: a bracket is not closed"),
            (
                &[
                    (MODULES, "import { a } from \"./a.js\";\nexport const openModules = a;"),
                    ("a.js", "export const a = 1;"),
                ],
                "modules.js needs a.js, and stands by itself",
            ),
            (&[("push.js", "import(\"./main.js\");")], "push.js needs main.js, and stands by itself"),
            (&[("push.js", "export const a = 1;")], "push.js gives a, which nobody can take"),
            (&[("push.js", "a(")], "push.js, line 1: a bracket is not closed"),
        ] {
            assert_eq!(files(more).unwrap_err(), wanted);
        }
        assert_eq!(pack(&BTreeMap::new()).unwrap_err(), "there is no module app.js");
    }
}
