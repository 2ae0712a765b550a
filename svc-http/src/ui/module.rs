//! Parses a JavaScript module of the board into its imports, its exports, and its code as the body of a
//! function.
//!
//! Only the forms of import and export that the board's modules use are supported; any other form is an
//! error.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::script::{Gap, Result, Token, TokenKind, is_member, tokenize, write_tokens};

/// Name of the function that runs an imported module, if necessary, and returns its exports to a module body.
pub(super) const RUN_FUNCTION: &str = "$n";
/// Name of the function by which a module body loads a module dynamically.
pub(super) const LOAD_FUNCTION: &str = "$l";
/// Name of the variable that contains the URL of the module, as if the module were a separate file.
pub(super) const URL_VARIABLE: &str = "$a";
/// Name of the variable for the default export.
const DEFAULT_EXPORT_VARIABLE: &str = "$d";

/// An import of one name, or of all names, from another module.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub from: String,
    /// Exported name in the other module; `None` for a namespace import of all names.
    pub name: Option<String>,
    /// Local name in the importing module.
    pub local: String,
}

/// Origin of an exported name: this module or another one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Export {
    Local(String),
    Reexport { module: String, name: String },
}

/// A parsed module.
#[derive(Debug, Default)]
pub(super) struct Module {
    pub imports: Vec<Import>,
    pub exports: BTreeMap<String, Export>,
    /// Modules whose exports are all re-exported (`export *`).
    pub reexported_modules: Vec<String>,
    /// Modules that are loaded with a dynamic import.
    pub dynamic_imports: BTreeSet<String>,
    pub code: String,
}

struct ModuleParser<'a> {
    name: &'a str,
    tokens: &'a [Token<'a>],
    position: usize,
    module: Module,
    code: Vec<Token<'a>>,
    /// Whether a removed statement ends right before the next token.
    is_after_removed: bool,
}

impl Module {
    /// Parses the module `name`.
    pub fn parse(name: &str, source: &str) -> Result<Self> {
        let of_file = |wrong: String| format!("{name}, {wrong}");
        let tokens = tokenize(source).map_err(of_file)?;
        let is_ours = |token: &&Token<'_>| {
            token.kind == TokenKind::Word
                && [RUN_FUNCTION, LOAD_FUNCTION, URL_VARIABLE, DEFAULT_EXPORT_VARIABLE]
                    .contains(&&*token.text)
        };
        if let Some(token) = tokens.iter().find(is_ours) {
            return Err(of_file(error_at(token, "is a name of the packer's")));
        }
        let mut reader = ModuleParser {
            name,
            tokens: &tokens,
            position: 0,
            module: Self::default(),
            code: Vec::new(),
            is_after_removed: false,
        };
        while reader.position < tokens.len() {
            reader.read_token().map_err(of_file)?;
        }
        reader.check_exports_constant().map_err(of_file)?;
        reader.shorten_constants();
        reader.module.code = write_tokens(&reader.code);
        Ok(reader.module)
    }
}

impl<'a> ModuleParser<'a> {
    fn read_token(&mut self) -> Result<()> {
        let token = self.next()?;
        if token.is("await") && token.depth == 0 {
            return Err(error_at(token, "holds up whoever imports the module"));
        }
        let is_keyword = token.is("import") || token.is("export");
        let is_name = self.peek(":") || is_member(&self.code);
        if !is_keyword || is_name {
            self.push(token.clone());
            return Ok(());
        }
        let before = self.code.last().filter(|_| !self.is_after_removed);
        let begins = token.depth == 0
            && (token.gap == Gap::Line || before.is_none_or(|last| last.is(";") || last.is("}")));
        match &*token.text {
            "import" if self.skip("(") => self.parse_dynamic_import(token),
            "import" if self.skip(".") => self.parse_module_url(token),
            "import" if begins => self.parse_import(token),
            "export" if begins => self.parse_export(token),
            _ => Err(error_at(token, "stands where it is not understood")),
        }
    }

    /// Parses `import("./x.js")`.
    fn parse_dynamic_import(&mut self, token: &Token<'a>) -> Result<()> {
        let module = self.parse_module_path()?;
        self.skip(",");
        self.expect(")")?;
        self.push_replacement(token, format!("{LOAD_FUNCTION}({})", quote(&module)));
        self.module.dynamic_imports.insert(module);
        Ok(())
    }

    /// Parses `import.meta.url`.
    fn parse_module_url(&mut self, token: &Token<'a>) -> Result<()> {
        for part in ["meta", ".", "url"] {
            self.expect(part)?;
        }
        self.push_replacement(token, URL_VARIABLE.to_owned());
        Ok(())
    }

    fn parse_import(&mut self, token: &Token<'a>) -> Result<()> {
        let mut names = Vec::new();
        if self.skip("*") {
            self.expect("as")?;
            names.push((None, self.expect_word()?));
        } else if self.skip("{") {
            names.extend(self.parse_names()?.into_iter().map(|(name, local)| (Some(name), local)));
        } else if self.is_word_next() {
            names.push((Some("default".to_owned()), self.expect_word()?));
        } else {
            return Err(error_at(token, "is of a form that is not known"));
        }
        self.expect("from")?;
        let from = self.parse_module_path()?;
        self.expect_statement_end()?;
        let imports = names.into_iter().map(|(name, local)| Import { from: from.clone(), name, local });
        self.module.imports.extend(imports);
        Ok(())
    }

    fn parse_export(&mut self, token: &Token<'a>) -> Result<()> {
        if self.skip("*") {
            self.expect("from")?;
            let module = self.parse_module_path()?;
            self.module.reexported_modules.push(module);
            return self.expect_statement_end();
        }
        if self.skip("{") {
            let list = self.parse_names()?;
            let from = if self.skip("from") { Some(self.parse_module_path()?) } else { None };
            for (name, as_name) in list {
                let export = match &from {
                    Some(module) => Export::Reexport { module: module.clone(), name },
                    None => Export::Local(name),
                };
                self.add_export(token, as_name, export)?;
            }
            return self.expect_statement_end();
        }
        if self.skip("default") {
            if ["function", "class", "async"].iter().any(|word| self.peek(word)) {
                return Err(error_at(token, "is of a form that is not known"));
            }
            self.push_replacement(token, format!("let {DEFAULT_EXPORT_VARIABLE}="));
            return self.add_export(
                token,
                "default".to_owned(),
                Export::Local(DEFAULT_EXPORT_VARIABLE.to_owned()),
            );
        }
        let first = self.code.len();
        let name = if self.peek("const") {
            self.copy_token()?;
            let name = self.copy_word()?;
            self.check_single_declaration()?;
            name
        } else if self.peek("class") {
            self.copy_token()?;
            self.copy_word()?
        } else {
            if self.peek("async") {
                self.copy_token()?;
            }
            if !self.peek("function") {
                return Err(error_at(token, "is of a form that is not known"));
            }
            self.copy_token()?;
            if self.peek("*") {
                self.copy_token()?;
            }
            self.copy_word()?
        };
        // The replacement begins a line if the statement did.
        if let Some(begin) = self.code.get_mut(first) {
            begin.gap = begin.gap.max(token.gap);
        }
        self.add_export(token, name.clone(), Export::Local(name))
    }

    /// Checks that a declaration declares only one name.
    fn check_single_declaration(&self) -> Result<()> {
        let rest = || self.tokens.iter().skip(self.position);
        match rest().next() {
            Some(equals) if equals.is("=") => {}
            _ => return Err(format!("{}: a constant that is exported has a name and a value", self.line())),
        }
        let end = rest().find(|token| token.depth == 0 && (token.is(",") || token.is(";")));
        match end {
            Some(end) if end.is(";") => Ok(()),
            Some(comma) => Err(error_at(comma, "exports a second constant")),
            None => Err(format!("{}: a constant does not end", self.line())),
        }
    }

    fn add_export(&mut self, token: &Token<'a>, name: String, export: Export) -> Result<()> {
        match self.module.exports.insert(name, export) {
            None => Ok(()),
            Some(_) => Err(error_at(token, "exports a name twice")),
        }
    }

    /// Parses a list such as `a, b as c }`, and returns a pair of names for each item.
    fn parse_names(&mut self) -> Result<Vec<(String, String)>> {
        let mut names = Vec::new();
        while !self.skip("}") {
            let name = self.expect_word()?;
            let other = if self.skip("as") { self.expect_word()? } else { name.clone() };
            names.push((name, other));
            if !self.peek("}") {
                self.expect(",")?;
            }
        }
        Ok(names)
    }

    /// Parses a relative module path, and returns the name of the module.
    fn parse_module_path(&mut self) -> Result<String> {
        let token = self.next()?;
        let address = (token.kind == TokenKind::Text).then(|| token.text.trim_matches(['"', '\'']));
        address
            .and_then(|address| resolve_module(self.name, address))
            .ok_or_else(|| error_at(token, "names no module"))
    }

    fn expect_statement_end(&mut self) -> Result<()> {
        self.is_after_removed = true;
        self.expect(";")
    }

    /// Checks that exported names are constants, functions or classes, since importers keep the first value.
    fn check_exports_constant(&self) -> Result<()> {
        let imported = |name: &String| self.module.imports.iter().any(|import| import.local == *name);
        for export in self.module.exports.values() {
            if let Export::Local(name) = export
                && !(name == DEFAULT_EXPORT_VARIABLE || imported(name) || declares(&self.code, name))
            {
                return Err(format!("{name:?} is exported, and is no constant, function or class"));
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Result<&'a Token<'a>> {
        let token = self.tokens.get(self.position).ok_or("it ends within a statement")?;
        self.position += 1;
        Ok(token)
    }

    fn peek(&self, text: &str) -> bool {
        self.tokens.get(self.position).is_some_and(|token| token.is(text))
    }

    fn is_word_next(&self) -> bool {
        self.tokens.get(self.position).is_some_and(|token| token.kind == TokenKind::Word)
    }

    fn skip(&mut self, text: &str) -> bool {
        let is_there = self.peek(text);
        self.position += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, text: &str) -> Result<()> {
        let token = self.next()?;
        if token.is(text) { Ok(()) } else { Err(error_at(token, &format!("stands for {text:?}"))) }
    }

    fn expect_word(&mut self) -> Result<String> {
        let token = self.next()?;
        if token.kind == TokenKind::Word {
            Ok(token.text.to_string())
        } else {
            Err(error_at(token, "is no name"))
        }
    }

    fn copy_word(&mut self) -> Result<String> {
        let word = self.expect_word()?;
        self.position -= 1;
        self.copy_token()?;
        Ok(word)
    }

    fn copy_token(&mut self) -> Result<()> {
        let token = self.next()?;
        self.push(token.clone());
        Ok(())
    }

    /// Appends a token to the code. After a removed statement, separates the token from the statement before.
    fn push(&mut self, mut token: Token<'a>) {
        if std::mem::take(&mut self.is_after_removed) {
            token.gap = Gap::Line;
            if token.kind != TokenKind::Word && self.code.last().is_some_and(|last| !last.is(";")) {
                self.code.push(Token {
                    kind: TokenKind::Punctuation,
                    text: Cow::Borrowed(";"),
                    ..token.clone()
                });
            }
        }
        self.code.push(token);
    }

    /// Replaces `const` by the shorter `let`. Assignments to constants are checked in the sources.
    fn shorten_constants(&mut self) {
        let declares = |at: usize| {
            let next = at.checked_add(1).and_then(|next| self.code.get(next));
            let is_member = self.code.get(..at).is_some_and(is_member);
            !is_member
                && next.is_some_and(|next| next.kind == TokenKind::Word || next.is("{") || next.is("["))
        };
        let places = self.code.iter().enumerate().filter(|(_, token)| token.is("const"));
        let places: Vec<usize> = places.map(|(at, _)| at).filter(|at| declares(*at)).collect();
        for at in places {
            if let Some(token) = self.code.get_mut(at) {
                token.text = Cow::Borrowed("let");
            }
        }
    }

    /// Appends `text` instead of a token of the source.
    fn push_replacement(&mut self, token: &Token<'a>, text: String) {
        self.push(Token { kind: TokenKind::Word, text: Cow::Owned(text), ..token.clone() });
    }

    fn line(&self) -> String {
        format!("line {}", self.tokens.get(self.position).map_or(0, |token| token.line))
    }
}

/// Returns whether code declares a name as a constant.
fn declares(code: &[Token<'_>], name: &str) -> bool {
    let is_outer = |token: &Token<'_>| token.depth == 0;
    let before = |at: usize| at.checked_sub(1).and_then(|at| code.get(at));
    code.iter().enumerate().filter(|(_, token)| is_outer(token) && token.is(name)).any(|(at, _)| {
        let Some(word) = before(at) else { return false };
        let is_generator =
            word.is("*") && at.checked_sub(1).and_then(before).is_some_and(|w| w.is("function"));
        is_generator || ["const", "function", "class"].iter().any(|keyword| word.is(keyword))
    })
}

fn error_at(token: &Token<'_>, what: &str) -> String {
    format!("line {}: {:?} {what}", token.line, token.text)
}

/// Returns a name as a quoted JavaScript string.
pub(super) fn quote(name: &str) -> String {
    format!("\"{name}\"")
}

/// Resolves a module path in the module `from` to the name of a module.
fn resolve_module(from: &str, address: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-_/".contains(c);
    let is_of_module = address.starts_with('.') && address.ends_with(".js") && address.chars().all(is_plain);
    let mut folders: Vec<&str> = from.split('/').collect();
    folders.pop();
    for part in is_of_module.then(|| address.split('/'))? {
        match part {
            "." => {}
            ".." => folders.pop().map(|_| ())?,
            _ => folders.push(part),
        }
    }
    Some(folders.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn import(from: &str, name: Option<&str>, local: &str) -> Import {
        Import { from: from.to_owned(), name: name.map(str::to_owned), local: local.to_owned() }
    }

    #[test]
    fn a_module_is_what_it_takes_what_it_gives_and_its_code() {
        let source = "import table from \"../operations.js\";\n\
                      import {\n  a,\n  b as c,\n} from \"./a.js\";\n\
                      import * as all from \"../pure/all.js\";\nexport const d = [a, c];\n\
                      export async function e() {\n  return import(\"../e.js\");\n}\n\
                      export function* f() {}\n\
                      export class G {}\nexport { d as h };\nexport { i, j as k } from \"./i.js\";\n\
                      export * from \"./l.js\";\nexport default { export: a.import, at: import.meta.url };\n";
        let module = Module::parse("view/x.js", source).unwrap();
        assert_eq!(
            module.code,
            "let d=[a,c];async function e(){return $l(\"e.js\");}\nfunction*f(){}\nclass G{}\n\
             let $d={export:a.import,at:$a};"
        );
        assert_eq!(
            module.imports,
            [
                import("operations.js", Some("default"), "table"),
                import("view/a.js", Some("a"), "a"),
                import("view/a.js", Some("b"), "c"),
                import("pure/all.js", None, "all"),
            ]
        );
        let local = |name: &str, of: &str| (name.to_owned(), Export::Local(of.to_owned()));
        let of = |name: &str, of: &str| {
            (name.to_owned(), Export::Reexport { module: "view/i.js".to_owned(), name: of.to_owned() })
        };
        let exports = [
            local("d", "d"),
            local("e", "e"),
            local("f", "f"),
            local("G", "G"),
            local("h", "d"),
            local("default", "$d"),
            of("i", "i"),
            of("k", "j"),
        ];
        assert_eq!(module.exports, BTreeMap::from(exports));
        assert_eq!(
            (module.reexported_modules, module.dynamic_imports),
            (vec!["view/l.js".to_owned()], ["e.js".to_owned()].into())
        );
    }

    #[test]
    fn what_is_around_a_statement_that_is_not_in_the_code_stays_apart() {
        for (source, wanted) in [
            ("a\nexport { b };\n(c)();\nconst b = 1;", "a;(c)();let b=1;"),
            ("a\nimport b from \"./b.js\"; c();", "a\nc();"),
            ("a = {}\nexport * from \"./b.js\"; export * from \"./c.js\";\n[d]", "a={};[d]"),
            ("a\nimport b from \"./b.js\"; import(\"./c.js\");", "a\n$l(\"c.js\");"),
            ("a;\nimport b from \"./b.js\";\n`c`;", "a;`c`;"),
            ("[...import.meta.url];\na.import.b;", "[...$a];a.import.b;"),
            ("for (const [a] of b.const) c({ const: a });", "for(let[a]of b.const)c({const:a});"),
        ] {
            assert_eq!(Module::parse("x.js", source).unwrap().code, wanted, "{source}");
        }
    }

    #[test]
    fn words_in_texts_and_comments_are_no_statements() {
        let source = "// import a from \"./a.js\";\n/*\nexport const a = 1;\n*/\n\
                      f(`\nimport { a } from \"./a.js\";\n${b}\nexport const c = 1;`,\n\
                      \"export\", /export/);\n";
        let module = Module::parse("x.js", source).unwrap();
        assert!(module.imports.is_empty() && module.exports.is_empty(), "{module:?}");
    }

    #[test]
    fn a_form_that_is_not_known_is_an_error() {
        for (source, wanted) in [
            ("import \"./a.js\";", "line 1: \"import\" is of a form that is not known"),
            ("import a, { b } from \"./a.js\";", "line 1: \",\" stands for \"from\""),
            ("import { a } from \"a\";", "line 1: \"\\\"a\\\"\" names no module"),
            ("import { a } from \"../../a.js\";", "line 1: \"\\\"../../a.js\\\"\" names no module"),
            ("import { a } from \"./a.js\"\nb();", "line 2: \"b\" stands for \";\""),
            ("f(import(a));", "line 1: \"a\" names no module"),
            ("import.meta.env;", "line 1: \"env\" stands for \"url\""),
            ("export let a = 1;", "line 1: \"export\" is of a form that is not known"),
            ("export const a = 1, b = 2;", "line 1: \",\" exports a second constant"),
            ("export const { a } = b;", "line 1: \"{\" is no name"),
            ("export const a = 1", "line 1: a constant does not end"),
            ("export default function () {}", "line 1: \"export\" is of a form that is not known"),
            ("export function a() {}\nexport { b as a };", "line 2: \"export\" exports a name twice"),
            ("if (a) {\n  export { a };\n}", "line 2: \"export\" stands where it is not understood"),
            ("a = export;", "line 1: \"export\" stands where it is not understood"),
            ("const $n = 1;", "line 1: \"$n\" is a name of the packer's"),
            ("import { $n } from \"./a.js\";", "line 1: \"$n\" is a name of the packer's"),
            ("export const $l = 1;", "line 1: \"$l\" is a name of the packer's"),
            ("export function $a() {}", "line 1: \"$a\" is a name of the packer's"),
            (
                "let a = 1;\nexport { a as b };\nexport const c = () => (a += 1);",
                "\"a\" is exported, and is no constant, function or class",
            ),
            ("a();\nawait b();", "line 2: \"await\" holds up whoever imports the module"),
            ("import * as", "it ends within a statement"),
        ] {
            let wrong = Module::parse("view/x.js", source).unwrap_err();
            assert_eq!(wrong, format!("view/x.js, {wanted}"), "{source}");
        }
    }
}
