//! A Rust file for the house rules: without comments, and with literals separated from code.
//!
//! It knows just enough of the language for that.

use std::collections::BTreeSet;

/// A string literal.
pub struct Literal {
    pub line: usize,
    pub text: String,
    /// Whether it is in the file's unit tests.
    pub in_tests: bool,
}

/// A file.
pub struct Source {
    /// From the root of the project.
    pub path: String,
    pub text: String,
    /// The code: comments and the contents of literals are blank.
    pub code: String,
    pub literals: Vec<Literal>,
}

/// A kind of piece of the text.
enum Piece {
    Code,
    Comment,
    /// From the first to the last byte between the quotes.
    Literal(usize, usize),
}

impl Source {
    pub fn read(path: String, text: &str) -> Self {
        let mut source = Self { path, text: text.to_owned(), code: String::new(), literals: Vec::new() };
        let tests = text.find("#[cfg(test)]\nmod tests").unwrap_or(text.len());
        let mut at = 0;
        let mut line = 1;
        while at < text.len() {
            let (piece, length) = next_piece(&text[at..]);
            let whole = &text[at..at + length];
            match piece {
                Piece::Code => source.code.push_str(whole),
                Piece::Comment => source.blank(whole),
                Piece::Literal(from, to) => {
                    source.literals.push(Literal {
                        line,
                        text: whole[from..to].to_owned(),
                        in_tests: at > tests,
                    });
                    source.blank(whole);
                }
            }
            at += length;
            line += whole.matches('\n').count();
        }
        source
    }

    /// Keeps the lines in place.
    fn blank(&mut self, text: &str) {
        self.code.extend(text.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
    }

    /// Returns the numbers of the lines whose code has `word`.
    pub fn lines_with_code(&self, word: &str) -> impl Iterator<Item = usize> {
        let lines = self.code.lines().enumerate();
        lines.filter(move |(_, line)| line.contains(word)).map(|(at, _)| at + 1)
    }

    /// Returns the code between the braces of each `name! { .. }`.
    pub fn blocks<'s>(&'s self, name: &str) -> impl Iterator<Item = &'s str> {
        let after: Vec<_> = self.code.split(&format!("{name}! {{")).skip(1).collect();
        after.into_iter().map(|rest| {
            let mut depth = 1;
            let end = rest.find(|c: char| {
                depth += i32::from(c == '{') - i32::from(c == '}');
                depth == 0
            });
            &rest[..end.unwrap_or(rest.len())]
        })
    }

    /// Returns the code without the file's unit tests.
    pub fn code_outside_tests(&self) -> &str {
        self.code.split("#[cfg(test)]\nmod tests").next().unwrap()
    }

    /// Returns the paths of its own crate that the code uses, outside of unit tests.
    ///
    /// Such a path is `a::b` for `crate::a::b`, and for each of the names in `use crate::{..}`.
    pub fn crate_paths(&self) -> BTreeSet<String> {
        let paths = paths_in(self.code_outside_tests()).into_iter();
        let own = paths.filter(|path| path[0] == "crate").map(|path| path[1..].join("::"));
        own.filter(|path| !path.is_empty()).collect()
    }
}

/// Returns the trees of the `use` items, without `use` and the semicolon.
pub fn use_trees(code: &str) -> Vec<String> {
    let mut trees = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find("use ") {
        let is_word = rest[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric());
        rest = &rest[at + "use ".len()..];
        let end = rest.find(';').unwrap_or(rest.len());
        if is_word {
            trees.push(rest[..end].to_owned());
        }
    }
    trees
}

/// Returns every path of a use tree, and the name that it binds.
pub fn paths_of(tree: &str) -> Vec<(Vec<String>, String)> {
    let tree = tree.trim();
    let Some(open) = tree.find('{') else {
        let (path, alias) = tree.split_once(" as ").map_or((tree, None), |(path, name)| (path, Some(name)));
        let path: Vec<String> = path.split("::").map(|name| name.trim().to_owned()).collect();
        let name = alias.map_or_else(|| path.last().cloned().unwrap_or_default(), str::to_owned);
        return vec![(path, name)];
    };
    let mut depth = 0;
    let mut begin = open + 1;
    let mut found = Vec::new();
    let head: Vec<String> =
        tree[..open].split("::").map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect();
    for (at, c) in tree.char_indices().skip_while(|(at, _)| *at < open) {
        if depth == 1 && matches!(c, ',' | '}') {
            let inner = tree[begin..at].trim();
            let inner = if inner.is_empty() { Vec::new() } else { paths_of(inner) };
            let whole = |path: Vec<String>| head.iter().cloned().chain(path).collect();
            found.extend(inner.into_iter().map(|(path, name)| (whole(path), name)));
            begin = at + 1;
        }
        depth += i32::from(c == '{') - i32::from(c == '}');
    }
    found
}

/// Returns every path that begins in the crate: of the `use` items, and those in the code.
pub fn paths_in(code: &str) -> Vec<Vec<String>> {
    let trees = use_trees(code);
    let mut found: Vec<_> = trees.iter().flat_map(|tree| paths_of(tree)).map(|(path, _)| path).collect();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let rest = &code[at..];
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
            let path = &rest[..end.unwrap_or(rest.len())];
            // The head of a use tree is not a use itself.
            if !rest[path.len()..].starts_with('{') {
                found.push(path.trim_end_matches(':').split("::").map(str::to_owned).collect());
            }
        }
    }
    found.retain(|path| matches!(path[0].as_str(), "crate" | "super" | "self"));
    found
}

/// Returns the kind of the first piece of the text, and its length.
fn next_piece(text: &str) -> (Piece, usize) {
    if text.starts_with("//") {
        return (Piece::Comment, text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return (Piece::Comment, text.find("*/").map_or(text.len(), |end| end + 2));
    }
    if let Some((open, close)) = raw_string(text) {
        let end = text[open..].find(&close).map_or(text.len(), |end| open + end);
        return (Piece::Literal(open, end), (end + close.len()).min(text.len()));
    }
    if text.starts_with('"') {
        let end = end_of_string(text);
        return (Piece::Literal(1, end), (end + 1).min(text.len()));
    }
    if let Some(length) = character(text) {
        return (Piece::Comment, length);
    }
    // A word is read at once, so that the `r` of a name is not taken for a raw string.
    let word = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    (Piece::Code, word.max(text.chars().next().map_or(1, char::len_utf8)))
}

/// Returns the start of the contents of a raw string, and its end marker.
fn raw_string(text: &str) -> Option<(usize, String)> {
    let hashes = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let count = hashes.len() - hashes.trim_start_matches('#').len();
    hashes[count..].strip_prefix('"')?;
    let open = text.len() - hashes.len() + count + 1;
    Some((open, format!("\"{}", "#".repeat(count))))
}

fn end_of_string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at,
            _ => {}
        }
    }
    text.len()
}

/// Returns the length of a character literal, or `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('\'')?;
    let mut chars = inside.char_indices();
    let (_, first) = chars.next()?;
    if first == '\\' {
        return Some(inside[2..].find('\'')? + 4);
    }
    match chars.next()? {
        (at, '\'') => Some(at + 2),
        _ => None,
    }
}

#[test]
fn a_file_is_split_into_code_and_literals() {
    let text = "use crate::{a::B, c}; use crate::h::{I};\n// crate::d \"x\"\n\
                let s = \"a\\\"b\"; let c = '\"'; let r = r#\"raw \"q\"\"#;\n\
                fn f<'a>(x: &'a crate::e::F) {}\n\
                #[cfg(test)]\nmod tests { const T: &str = \"t\"; use crate::g; }\n";
    let source = Source::read("x.rs".to_owned(), text);
    let literals: Vec<_> = source.literals.iter().map(|l| (l.line, l.text.as_str(), l.in_tests)).collect();
    assert_eq!(literals, [(3, "a\\\"b", false), (3, "raw \"q\"", false), (6, "t", true)]);
    assert_eq!(source.crate_paths().into_iter().collect::<Vec<_>>(), ["a::B", "c", "e::F", "h::I"]);
    let source = Source::read("x.rs".to_owned(), "list! { a } list! { b: C { d } e } f { g }");
    assert_eq!(source.blocks("list").collect::<Vec<_>>(), [" a ", " b: C { d } e "]);
}
