//! A Rust file as the house rules read it: comments taken away, literals apart from code. It knows just
//! enough of the language for that.

use std::collections::BTreeSet;

/// A string literal.
pub struct Literal {
    pub line: usize,
    pub text: String,
    /// Whether it stands in the file's unit tests.
    pub in_tests: bool,
}

/// A file.
pub struct Source {
    /// From the root of the project.
    pub path: String,
    pub text: String,
    /// The code: comments and the insides of literals are blank.
    pub code: String,
    pub literals: Vec<Literal>,
}

/// What a piece of the text is.
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
        let (mut at, mut line) = (0, 1);
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

    /// Keeps the lines where they are.
    fn blank(&mut self, text: &str) {
        self.code.extend(text.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
    }

    /// The numbers of the lines whose code has `word`.
    pub fn lines_with_code(&self, word: &str) -> impl Iterator<Item = usize> {
        let lines = self.code.lines().enumerate();
        lines.filter(move |(_, line)| line.contains(word)).map(|(at, _)| at + 1)
    }

    /// The code between the braces of each `name! { .. }`.
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

    /// The code without the file's unit tests.
    pub fn code_outside_tests(&self) -> &str {
        self.code.split("#[cfg(test)]\nmod tests").next().unwrap()
    }

    /// What the code uses of its own crate, outside of unit tests: `a::b` for `crate::a::b`, and for each of
    /// the names in `use crate::{..}`.
    pub fn crate_paths(&self) -> BTreeSet<String> {
        let code = self.code_outside_tests();
        let mut paths = BTreeSet::new();
        for (at, _) in code.match_indices("crate::") {
            let rest = &code[at + "crate::".len()..];
            match rest.strip_prefix('{') {
                Some(group) => paths.extend(names_of_group(group)),
                None => drop(paths.insert(path_at(rest))),
            }
        }
        paths
    }
}

/// The names of the outermost level of a group, up to its closing brace.
fn names_of_group(group: &str) -> Vec<String> {
    let mut names = Vec::new();
    let (mut depth, mut begin) = (0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.push(path_at(group[begin..at].trim()));
                begin = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// The path that the text begins with.
fn path_at(text: &str) -> String {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':')).unwrap_or(text.len());
    text[..end].trim_end_matches(':').to_owned()
}

/// What the text begins with, and its length.
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
    // A word at once, so that the `r` of a name is not taken for a raw string.
    let word = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    (Piece::Code, word.max(text.chars().next().map_or(1, char::len_utf8)))
}

/// Where the inside of a raw string begins, and what ends it.
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

/// The length of a character literal; a lifetime is none.
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
fn a_file_is_taken_apart() {
    let text = "use crate::{a::B, c};\n// crate::d \"x\"\n\
                let s = \"a\\\"b\"; let c = '\"'; let r = r#\"raw \"q\"\"#;\n\
                fn f<'a>(x: &'a crate::e::F) {}\n\
                #[cfg(test)]\nmod tests { const T: &str = \"t\"; use crate::g; }\n";
    let source = Source::read("x.rs".to_owned(), text);
    let literals: Vec<_> = source.literals.iter().map(|l| (l.line, l.text.as_str(), l.in_tests)).collect();
    assert_eq!(literals, [(3, "a\\\"b", false), (3, "raw \"q\"", false), (6, "t", true)]);
    assert_eq!(source.crate_paths().into_iter().collect::<Vec<_>>(), ["a::B", "c", "e::F"]);
    let source = Source::read("x.rs".to_owned(), "list! { a } list! { b: C { d } e } f { g }");
    assert_eq!(source.blocks("list").collect::<Vec<_>>(), [" a ", " b: C { d } e "]);
}
