//! Splits a script of the board into tokens, and writes it without comments and unnecessary space.
//!
//! The meaning of a slash or a bracket is never guessed: an ambiguous script is an error, so that the
//! shortened script always means the same as its source.

use std::borrow::Cow;

/// Result whose error is a message for the author of a source file.
pub(super) type Result<T> = std::result::Result<T, String>;

/// Keywords after which a slash begins a regular expression and is not a division.
const KEYWORDS_BEFORE_REGEX: [&str; 12] =
    ["return", "typeof", "case", "in", "await", "yield", "void", "delete", "throw", "do", "else", "default"];
/// Words after which a slash is ambiguous, because they can be a keyword or a name.
const WORDS_BEFORE_AMBIGUOUS_SLASH: [&str; 1] = ["of"];
/// Keywords that are followed by a condition in parentheses, after which a slash would begin a regular
/// expression.
const KEYWORDS_BEFORE_CONDITION: [&str; 4] = ["if", "while", "for", "with"];
/// Keywords after which a line break ends the statement.
const KEYWORDS_ENDED_BY_LINE_BREAK: [&str; 6] = ["return", "throw", "break", "continue", "yield", "async"];

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// A name, a keyword or the digits of a number.
    Word,
    /// A string in quotes.
    Text,
    /// A literal piece of a template string, with its delimiters.
    Template,
    /// A regular expression.
    Pattern,
    /// Any other character.
    Punctuation,
}

/// White space between a token and the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gap {
    None,
    Space,
    Line,
}

#[derive(Clone, Debug)]
pub(super) struct Token<'a> {
    pub kind: TokenKind,
    pub text: Cow<'a, str>,
    pub line: usize,
    /// Number of open brackets around the token.
    pub depth: usize,
    pub gap: Gap,
}

impl Token<'_> {
    pub fn is(&self, text: &str) -> bool {
        matches!(self.kind, TokenKind::Word | TokenKind::Punctuation) && self.text == text
    }

    fn is_one_of(&self, texts: &[&str]) -> bool {
        texts.iter().any(|text| self.is(text))
    }
}

/// An open bracket, by its kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OpenBracket {
    Round {
        is_condition: bool,
    },
    Square,
    Curly,
    /// An expression in a template string.
    TemplateExpression,
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    gap: Gap,
    open: Vec<OpenBracket>,
    /// Whether the last closed parentheses contained a condition.
    after_condition: bool,
    tokens: Vec<Token<'a>>,
}

/// Splits a script into tokens.
pub(super) fn tokenize(source: &str) -> Result<Vec<Token<'_>>> {
    let mut lexer = Lexer {
        rest: source,
        line: 1,
        gap: Gap::Line,
        open: Vec::new(),
        after_condition: false,
        tokens: Vec::new(),
    };
    while let Some(first) = lexer.rest.chars().next() {
        lexer.lex_token(first)?;
    }
    if lexer.open.is_empty() { Ok(lexer.tokens) } else { Err(lexer.error_here("a bracket is not closed")) }
}

impl<'a> Lexer<'a> {
    fn lex_token(&mut self, first: char) -> Result<()> {
        if first.is_whitespace() {
            let length = length_while(self.rest, char::is_whitespace);
            self.skip(length);
            return Ok(());
        }
        match first {
            '/' if self.rest.starts_with("//") => {
                let length = length_while(self.rest, |c| !is_line_terminator(c));
                self.skip(length);
            }
            '/' if self.rest.starts_with("/*") => {
                let end = self.rest.find("*/").ok_or_else(|| self.error_here("a comment does not end"))?;
                self.skip(end + 2);
            }
            '/' if self.begins_regex()? => {
                let length =
                    regex_length(self.rest).ok_or_else(|| self.error_here("a pattern does not end"))?;
                self.take(TokenKind::Pattern, length);
            }
            '"' | '\'' => {
                let end =
                    length_of_text(self.rest, first).ok_or_else(|| self.error_here("a text does not end"))?;
                self.take(TokenKind::Text, end);
            }
            '`' => self.lex_template()?,
            '}' if self.open.last() == Some(&OpenBracket::TemplateExpression) => {
                self.open.pop();
                self.lex_template()?;
            }
            _ if is_word_character(first) => {
                let length = length_while(self.rest, is_word_character);
                self.take(TokenKind::Word, length);
            }
            _ if first.is_ascii_punctuation() && !['@', '\\'].contains(&first) => self.lex_sign(first)?,
            _ => return Err(self.error_here(&format!("{first:?} is no sign"))),
        }
        Ok(())
    }

    fn lex_sign(&mut self, first: char) -> Result<()> {
        if let Some(closes) = match first {
            ')' => Some(matches!(self.open.last(), Some(OpenBracket::Round { .. }))),
            ']' => Some(self.open.last() == Some(&OpenBracket::Square)),
            '}' => Some(self.open.last() == Some(&OpenBracket::Curly)),
            _ => None,
        } {
            let open = self.open.pop().filter(|_| closes);
            let open = open.ok_or_else(|| self.error_here(&format!("{first} closes nothing")))?;
            self.after_condition = open == OpenBracket::Round { is_condition: true };
        }
        if first == '.' && self.ends_number() {
            return Err(self.error_here("a number ends with its point"));
        }
        let is_condition = match self.tokens.as_slice() {
            [.., before, last] if last.is("await") => before.is("for"),
            _ => self.is_keyword(&KEYWORDS_BEFORE_CONDITION),
        };
        self.take(TokenKind::Punctuation, first.len_utf8());
        match first {
            '(' => self.open.push(OpenBracket::Round { is_condition }),
            '[' => self.open.push(OpenBracket::Square),
            '{' => self.open.push(OpenBracket::Curly),
            _ => {}
        }
        Ok(())
    }

    /// Returns whether the last token is one of the keywords `words` and not a property name.
    fn is_keyword(&self, words: &[&str]) -> bool {
        match self.tokens.as_slice() {
            [before @ .., last] => last.is_one_of(words) && !is_member(before),
            [] => false,
        }
    }

    /// Returns whether a dot at the current position would be the last character of a number.
    fn ends_number(&self) -> bool {
        let is_number = |token: &Token<'_>| token.text.chars().all(|c| c.is_ascii_digit() || c == '_');
        let is_first = match self.tokens.as_slice() {
            [.., point, last] if is_number(last) => !(point.is(".") && last.gap == Gap::None),
            [last] => is_number(last),
            _ => false,
        };
        is_first && self.gap == Gap::None && !self.rest.chars().nth(1).is_some_and(|c| c.is_ascii_digit())
    }

    /// Reads a template string up to its end or up to the next expression in it.
    fn lex_template(&mut self) -> Result<()> {
        let mut signs = self.rest.char_indices().skip(1);
        let mut is_escaped = false;
        let mut before = ' ';
        let end = signs.find_map(|(at, sign)| {
            let ends = !is_escaped && (sign == '`' || (before == '$' && sign == '{'));
            before = if is_escaped { ' ' } else { sign };
            is_escaped = !is_escaped && sign == '\\';
            ends.then_some((at + 1, sign == '{'))
        });
        let (length, is_filled) = end.ok_or_else(|| self.error_here("a template does not end"))?;
        self.take(TokenKind::Template, length);
        if is_filled {
            self.open.push(OpenBracket::TemplateExpression);
        }
        Ok(())
    }

    fn begins_regex(&self) -> Result<bool> {
        let Some(last) = self.tokens.last() else { return Ok(true) };
        Ok(match last.kind {
            TokenKind::Word if self.is_keyword(&WORDS_BEFORE_AMBIGUOUS_SLASH) => {
                return Err(self.error_here("a slash here may be a division"));
            }
            TokenKind::Word => self.is_keyword(&KEYWORDS_BEFORE_REGEX),
            TokenKind::Text | TokenKind::Pattern => false,
            TokenKind::Template => last.text.ends_with('{'),
            TokenKind::Punctuation => match &*last.text {
                ")" if !self.after_condition => false,
                "]" => false,
                ")" | "}" | "+" | "-" => return Err(self.error_here("a slash here may be a division")),
                _ => true,
            },
        })
    }

    fn take(&mut self, kind: TokenKind, length: usize) {
        let (text, rest) = self.rest.split_at(length);
        let line = self.line;
        let depth = self.open.len();
        let gap = self.gap;
        self.tokens.push(Token { kind, text: text.into(), line, depth, gap });
        self.line += text.matches('\n').count();
        (self.rest, self.gap) = (rest, Gap::None);
    }

    fn skip(&mut self, length: usize) {
        let (space, rest) = self.rest.split_at(length);
        self.line += space.matches('\n').count();
        self.gap = self.gap.max(if space.contains(is_line_terminator) { Gap::Line } else { Gap::Space });
        self.rest = rest;
    }

    fn error_here(&self, what: &str) -> String {
        format!("line {}: {what}", self.line)
    }
}

/// Returns whether JavaScript treats a character as a line terminator.
fn is_line_terminator(sign: char) -> bool {
    matches!(sign, '\n' | '\r' | '\u{2028}' | '\u{2029}')
}

/// Returns whether a word after the tokens `before` is a property name: it follows a single dot, not a spread
/// operator.
pub(super) fn is_member(before: &[Token<'_>]) -> bool {
    match before {
        [.., one, two, three] if one.is(".") && two.is(".") && three.is(".") => false,
        [.., last] => last.is("."),
        [] => false,
    }
}

fn is_word_character(sign: char) -> bool {
    sign.is_alphanumeric() || matches!(sign, '_' | '$' | '#')
}

fn length_while(text: &str, holds: impl Fn(char) -> bool) -> usize {
    text.find(|sign| !holds(sign)).unwrap_or(text.len())
}

/// Returns the length of the quoted text at the start of `text`.
pub(super) fn length_of_text(text: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (at, sign) in text.char_indices().skip(1) {
        match sign {
            '\n' | '\r' => return None,
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if sign == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

/// Returns the length of the regular expression at the start of `text`.
fn regex_length(text: &str) -> Option<usize> {
    let mut is_escaped = false;
    let mut in_class = false;
    for (at, sign) in text.char_indices().skip(1) {
        match sign {
            _ if is_line_terminator(sign) => return None,
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '/' if !in_class => {
                let flags = text.split_at(at + 1).1;
                return Some(at + 1 + length_while(flags, is_word_character));
            }
            _ => {}
        }
    }
    None
}

/// Writes tokens with the minimum space between them.
pub(super) fn write_tokens<'a>(tokens: &[Token<'a>]) -> String {
    let mut kept: Vec<&Token<'a>> = Vec::with_capacity(tokens.len());
    for token in tokens {
        // Drops a trailing comma, but keeps the comma of a hole in an array.
        if token.is_one_of(&["}", ")", "]"])
            && let [.., before, comma] = kept.as_slice()
            && comma.is(",")
            && !before.is_one_of(&[",", "["])
        {
            kept.pop();
        }
        kept.push(token);
    }
    let mut script = String::new();
    let mut last: Option<&Token<'a>> = None;
    for token in kept {
        match last.map_or(Gap::None, |last| minimum_gap(last, token)) {
            Gap::None => {}
            Gap::Space => script.push(' '),
            Gap::Line => script.push('\n'),
        }
        script.push_str(&token.text);
        last = Some(token);
    }
    script
}

/// Returns the minimum gap between two tokens.
fn minimum_gap(left: &Token<'_>, right: &Token<'_>) -> Gap {
    if right.gap == Gap::None {
        return Gap::None;
    }
    if right.gap == Gap::Line && can_end_statement(left, right) {
        return Gap::Line;
    }
    let are_words =
        matches!(left.kind, TokenKind::Word | TokenKind::Pattern) && right.kind == TokenKind::Word;
    let is_number = left.text.starts_with(|c: char| c.is_ascii_digit()) && right.is(".");
    let is_twice = ["+", "-"].iter().any(|sign| left.is(sign) && right.is(sign));
    let is_slash = left.is("/") || left.kind == TokenKind::Pattern;
    // A script that is not a module can also contain HTML comments.
    let is_comment = (is_slash && (right.kind == TokenKind::Pattern || right.is_one_of(&["/", "*"])))
        || (left.is("<") && right.is("!"));
    if are_words || is_number || is_twice || is_comment { Gap::Space } else { Gap::None }
}

/// Returns whether a line break between two tokens may end a statement.
fn can_end_statement(left: &Token<'_>, right: &Token<'_>) -> bool {
    if left.is_one_of(&KEYWORDS_ENDED_BY_LINE_BREAK) {
        return true;
    }
    let goes_on = left.is_one_of(&["{", "(", "[", ",", ";", ":", "?", "=", "&", "|", ">", "<", "."])
        || (left.kind == TokenKind::Template && left.text.ends_with('{'));
    let is_more = right.is_one_of(&["}", ")", "]", ",", ";", ":", "?", "=", "&", "|", "."])
        || (right.kind == TokenKind::Template && right.text.starts_with('}'));
    !goes_on && !is_more
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(source: &str) -> String {
        write_tokens(&tokenize(source).unwrap())
    }

    #[test]
    fn comments_and_space_go_and_what_is_said_stays() {
        for (source, wanted) in [
            ("// What.\n\n/** @type {A} */\nconst a = 1; // one\n", "const a=1;"),
            ("f(\n  a, // b\n  { c: d, },\n);", "f(a,{c:d});"),
            ("f(\"/* no */ // \\\" \", '\\' //');", "f(\"/* no */ // \\\" \",'\\' //');"),
            ("`a  // ${ b + `  ${ { c: 1 } } }` }  \\` \\${ `", "`a  // ${b+`  ${{c:1}} }`}  \\` \\${ `"),
            ("a = /[/\"]\\/ /g in b / 2 / c;", "a=/[/\"]\\/ /g in b/2/c;"),
            ("(a) / b / c", "(a)/b/c"),
            ("a / /b/", "a/ /b/"),
            ("[a, , ];\n[ , ]", "[a,,];[,]"),
            ("a + +b - -c + -d", "a+ +b- -c+-d"),
            ("1 .a; 1.5e-3", "1 .a;1.5e-3"),
            ("static #a = #a in b;", "static #a=#a in b;"),
            ("export default /a  b/;", "export default/a  b/;"),
            ("a.case / 2 + \"b/ // c\";", "a.case/2+\"b/ // c\";"),
            ("[...await / a  b/]", "[...await/ a  b/]"),
            ("1.5.a + 1_0 .a + b[1].c / 2", "1.5.a+1_0 .a+b[1].c/2"),
            ("/a/ / b", "/a/ /b"),
            ("a < !--b", "a< !--b"),
            ("// a\rb // c\u{2028}d // e\u{2029}f", "b\nd\nf"),
        ] {
            assert_eq!(short(source), wanted, "{source}");
        }
    }

    #[test]
    fn a_line_ends_where_that_may_end_a_statement() {
        for (source, wanted) in [
            ("a\nb", "a\nb"),
            ("a\n++b", "a\n++b"),
            ("a++\nb", "a++\nb"),
            ("function a() {}\n(b)", "function a(){}\n(b)"),
            ("return\n.5", "return\n.5"),
            ("async\n(a)", "async\n(a)"),
            ("a(\n)\n.b ||\nc\n? d\n: e;\nf", "a().b||c?d:e;f"),
            ("a\n`b`", "a\n`b`"),
            ("{\n  a\n}\nb", "{a}\nb"),
            ("a /* b\n */ c", "a\nc"),
            ("a\r\nb\rc\u{2028}d\u{2029}e", "a\nb\nc\nd\ne"),
        ] {
            assert_eq!(short(source), wanted, "{source}");
        }
    }

    #[test]
    fn what_is_not_plain_is_an_error_with_its_line() {
        for (source, wanted) in [
            ("a\n\"b", "line 2: a text does not end"),
            ("\"a\nb\"", "line 1: a text does not end"),
            ("`a${b}", "line 1: a template does not end"),
            ("`a\n${b", "line 2: a bracket is not closed"),
            ("/* a", "line 1: a comment does not end"),
            ("= /a", "line 1: a pattern does not end"),
            ("(]", "line 1: ] closes nothing"),
            ("`${(}`", "line 1: } closes nothing"),
            ("{\n} / a", "line 2: a slash here may be a division"),
            ("if (a) /b/.test(c);", "line 1: a slash here may be a division"),
            ("for await (a of b) /c/.test(a);", "line 1: a slash here may be a division"),
            ("for (a of /b/) {}", "line 1: a slash here may be a division"),
            ("a = 1.\nb", "line 1: a number ends with its point"),
            ("1. / b", "line 1: a number ends with its point"),
            ("\"a\rb\"", "line 1: a text does not end"),
            ("a++ / b", "line 1: a slash here may be a division"),
            ("@a", "line 1: '@' is no sign"),
            ("a \u{2014} b", "line 1: '\u{2014}' is no sign"),
        ] {
            assert_eq!(tokenize(source).unwrap_err(), wanted, "{source}");
        }
    }
}
