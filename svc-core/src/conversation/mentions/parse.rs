//! Finding the possible mentions in a text: each `@` and the names that may follow it.
//!
//! The rules (the board implements those needed to complete a handle in `svc-http/ui/pure/handles.js`):
//!
//! - A mention is an `@` and the longest member handle after it, in any case. A handle may contain every
//!   character that a directory may give it: letters of any script, digits, and all ASCII punctuation.
//! - A handle ends where its word ends: `@adam` is not `@ada`, and neither are `@ada-b` and `@ada@b.example`.
//!   Punctuation that manually chosen handles cannot contain does not continue a word, nor do `.`, `:`, `-`
//!   and `_` at the end of a word: `@ada's`, `@ada/@bob`, `@ada.` and `(@ada)` are `@ada`, unless a longer
//!   handle fits.
//! - An `@` within a word is not a mention: after a letter, a digit, `_`, `.`, `-`, `+` or another `@`, as in
//!   an email address. Letters of scripts without spaces do not count as part of the word.
//! - An `@` after a `/` is a mention if one plain word or another mention precedes the `/`, as in `cc/@ada`
//!   and `@ada/@bob`, but not in a path or an address, which contains a dot, a scheme or another `/`.
//! - Code, quotes, HTML, the targets of links, bare addresses such as `https://x.example/@ada`, and an `@`
//!   after a backslash are not mentions. Markdown punctuation in a handle may follow a backslash.
//! - A handle that no member has is reported as written: letters, digits and `@+:._-`, or a whole email
//!   address.
//!
//! This file does not know the handles of members, so each possible mention carries every name that it could
//! mean, the longest first.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pulldown_cmark::{Event, Tag, TagEnd};

use crate::conversation::markdown;
use crate::identity::members::mapped;
use crate::limits::{MARKDOWN_NODES_MAX, MENTION_NAME_BYTES_MAX, MENTIONS_MAX, USER_NAME_MAX};

/// The possible mentions of a text, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PossibleMentions {
    /// The first mentions, without duplicates.
    pub(super) found: Vec<PossibleMention>,
    /// All places where the mentions in `found` occur, including repetitions.
    pub(super) places: Vec<MentionPlace>,
    /// Mentions beyond the limit of `found`, as written, up to the same number.
    pub(super) beyond: Vec<String>,
}

/// A place in the text where a mention occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MentionPlace {
    /// Position of the mention's `@` in the joined texts.
    pub at: usize,
    /// Index of the mention in `PossibleMentions::found`.
    pub mention: usize,
}

/// An `@` in a text with the names that it could mention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PossibleMention {
    /// The `@` and the text after it, up to the end of the longest name.
    pub written: String,
    /// The text to report if no member has such a handle: the `@` and the text after it, without trailing
    /// punctuation. Empty if no handle-like text follows the `@`.
    pub text: String,
    /// The names that the mention could mean, in the form of stored handles, the longest first.
    pub names: Vec<PossibleName>,
}

/// A name that a mention could mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PossibleName {
    pub name: String,
    /// Length of the name in bytes as written, including the `@`.
    pub length: usize,
}

impl PossibleMention {
    /// Returns a name as written, including the `@`.
    pub fn written_as(&self, name: &PossibleName) -> &str {
        self.written.get(..name.length).unwrap_or(&self.written)
    }
}

/// Budget that limits the cost of the names considered in a request's texts.
pub(crate) struct NameBudget {
    /// Remaining bytes of the budget.
    left: usize,
}

impl Default for NameBudget {
    fn default() -> Self {
        Self { left: MENTION_NAME_BYTES_MAX }
    }
}

/// Cost of a name in addition to its length, in bytes.
const NAME_OVERHEAD: usize = 200;
/// Cost factor for a name that is slow to map to a handle.
const SLOW_FACTOR: usize = 4;

impl NameBudget {
    /// Deducts the cost of a name, and returns whether the budget was sufficient.
    fn take(&mut self, bytes: usize, is_slow: bool) -> bool {
        let factor = if is_slow { SLOW_FACTOR } else { 1 };
        let left = self.left.checked_sub(bytes.saturating_add(NAME_OVERHEAD).saturating_mul(factor));
        self.left = left.unwrap_or(0);
        left.is_some()
    }

    fn is_used_up(&self) -> bool {
        self.left == 0
    }
}

/// Maximum number of names for one mention, of which the shortest and the longest are kept.
///
/// The limit matters in text without spaces, where a name can end at each character.
const NAMES_MAX: usize = 64;
/// Number of names in `NAMES_MAX` that are the longest ones.
const LAST_NAMES: usize = 16;

impl PossibleMentions {
    /// Finds the possible mentions in Markdown texts.
    pub fn of(texts: &[&str]) -> Self {
        let texts: Vec<_> = texts.iter().map(|text| markdown::with_line_feeds(text)).collect();
        let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
        Self::within(&texts, &mut NameBudget::default())
    }

    /// Finds the possible mentions in texts with normalised line feeds, within a budget.
    ///
    /// Mentions beyond the budget are ignored.
    pub fn within(texts: &[&str], room: &mut NameBudget) -> Self {
        let mut finder = MentionFinder::new(room);
        let mut base = 0_usize;
        for text in texts {
            if text.contains(is_sign) && !finder.is_full() {
                finder.search(text, base);
            }
            base = base.saturating_add(text.len()).saturating_add(1);
        }
        finder.mentioning
    }
}

/// Builder of [`PossibleMentions`].
struct MentionFinder<'r> {
    room: &'r mut NameBudget,
    mentioning: PossibleMentions,
    /// Number of `@` signs examined so far.
    signs: usize,
    /// The texts after each `@` examined so far, each with the index of its mention, if any.
    seen: BTreeMap<String, Option<usize>>,
    /// The longest names so far, without trailing punctuation; their number is limited.
    counted: BTreeSet<String>,
}

/// Maximum number of distinct texts after an `@` that are examined, which bounds the cost of a long text.
const SEEN_MAX: usize = 6 * MENTIONS_MAX;
/// Maximum number of places of mentions.
const PLACES_MAX: usize = MARKDOWN_NODES_MAX;
/// Maximum number of `@` signs that are examined.
const SIGNS_MAX: usize = 2 * PLACES_MAX;

impl<'r> MentionFinder<'r> {
    fn new(room: &'r mut NameBudget) -> Self {
        let seen = BTreeMap::new();
        let counted = BTreeSet::new();
        Self { room, mentioning: PossibleMentions::default(), signs: 0, seen, counted }
    }

    fn is_full(&self) -> bool {
        self.mentioning.beyond.len() >= MENTIONS_MAX || self.seen.len() >= SEEN_MAX || self.signs >= SIGNS_MAX
    }

    /// Searches a text that begins at position `base` of the joined texts.
    fn search(&mut self, text: &str, base: usize) {
        let mut word = CurrentWord::default();
        for said in mentionable_segments(text) {
            let TextSegment::Words(range) = said else {
                if said == TextSegment::Gap {
                    word = CurrentWord::default();
                }
                continue;
            };
            for (offset, c) in text.get(range.clone()).unwrap_or_default().char_indices() {
                let at = range.start.saturating_add(offset);
                let rest = text.get(at..).unwrap_or_default();
                let begins = is_sign(c) && word.may_mention() && !is_escaped(text, at);
                word.push(c, rest, begins);
                if begins {
                    self.search_mention(rest, base.saturating_add(at));
                }
                if self.is_full() {
                    return;
                }
            }
        }
    }

    /// Adds the mention whose `@` is at position `at` of the joined texts and at the start of `rest`.
    fn search_mention(&mut self, rest: &str, at: usize) {
        self.signs = self.signs.saturating_add(1);
        let run = TextAfterSign::of(rest, false);
        let written = run.0.last().and_then(|(_, end)| rest.get(..*end)).unwrap_or_default();
        if written.is_empty() {
            return;
        }
        if let Some(known) = self.seen.get(written).copied() {
            self.keep(known, at);
            return;
        }
        let found = mention_at(rest, &run, self.room);
        let added = found.and_then(|mention| self.add(mention));
        self.seen.insert(written.to_owned(), added);
        self.keep(added, at);
    }

    fn keep(&mut self, mention: Option<usize>, at: usize) {
        let places = &mut self.mentioning.places;
        if let Some(mention) = mention
            && places.len() < PLACES_MAX
        {
            places.push(MentionPlace { at, mention });
        }
    }

    /// Adds a mention and returns its index, or `None` if the mention is beyond the limit.
    fn add(&mut self, mention: PossibleMention) -> Option<usize> {
        let longest = mention.names.first().map_or("", |longest| &longest.name);
        let counted = longest.trim_end_matches(|c: char| !c.is_alphanumeric()).to_owned();
        let PossibleMentions { found, beyond, .. } = &mut self.mentioning;
        let is_known = self.counted.contains(&counted);
        let index = found.len();
        let counts = (is_known || self.counted.len() < MENTIONS_MAX)
            && index < 2 * MENTIONS_MAX
            && !self.room.is_used_up();
        if counts {
            found.push(mention);
        } else if !is_known && !mention.text.is_empty() {
            beyond.push(mention.text);
        }
        self.counted.insert(counted);
        counts.then_some(index)
    }
}

/// State of the word before the current character: the text after the last space.
#[derive(Default)]
struct CurrentWord {
    before: Option<char>,
    /// Whether the word is an address, such as `https://x.example`.
    is_address: bool,
    /// Whether the word is a path, in which nothing after a `/` is a mention.
    is_path: bool,
    /// Number of slash-separated sections of the word that are not mentions.
    plain: usize,
    part: WordSection,
}

/// State of the section of a word after its last slash.
#[derive(Default)]
struct WordSection {
    is_begun: bool,
    has_mention: bool,
    /// Whether the section has characters of an address or a path that a plain word does not have.
    has_address_chars: bool,
}

impl CurrentWord {
    /// Returns whether an `@` at this point can begin a mention.
    fn may_mention(&self) -> bool {
        match self.before {
            _ if self.is_address => false,
            None => true,
            Some('/') => !self.is_path,
            Some(before) => !continues_a_word(before),
        }
    }

    /// Adds the character `c`, the first character of `rest`.
    fn push(&mut self, c: char, rest: &str, is_mention: bool) {
        // An address ends at a space, an HTML bracket, a quotation mark or punctuation of other scripts.
        let ends = |c: char| matches!(c, '<' | '>' | '"') || (!c.is_ascii() && !c.is_alphanumeric());
        if c.is_whitespace() || (self.is_address && ends(c)) {
            *self = Self { before: Some(c), ..Self::default() };
            return;
        }
        let scheme = c == ':' && rest.starts_with("://") && self.before.is_some_and(char::is_alphanumeric);
        self.is_address |= scheme || (!self.part.is_begun && begins_like_a_site(rest));
        if c == '/' {
            let WordSection { is_begun, has_mention, has_address_chars } = std::mem::take(&mut self.part);
            self.plain = self.plain.saturating_add(usize::from(!has_mention));
            self.is_path |= !is_begun || (!has_mention && (has_address_chars || self.plain > 1));
        } else {
            let is_sign_within = is_sign(c) && !is_mention;
            self.part.is_begun = true;
            self.part.has_mention |= is_mention;
            self.part.has_address_chars |= is_sign_within
                || matches!(c, '.' | '~' | '\\' | '=' | '?' | '#' | '&' | '%')
                || rest.starts_with(":/");
        }
        self.before = Some(c);
    }
}

fn is_sign(c: char) -> bool {
    matches!(c, '@' | '＠')
}

fn begins_like_a_site(text: &str) -> bool {
    text.get(..4).is_some_and(|begin| begin.eq_ignore_ascii_case("www."))
}

/// Returns whether a backslash escapes the character at a position.
fn is_escaped(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    before.len().saturating_sub(before.trim_end_matches('\\').len()) % 2 == 1
}

/// Returns whether an `@` after the character `before` is inside a word, such as an email address.
fn continues_a_word(before: char) -> bool {
    let is_of_word = before.is_alphanumeric() || is_combining_mark(before);
    (is_of_word && !is_unspaced_script(before)) || is_sign(before) || matches!(before, '_' | '.' | '-' | '+')
}

/// Returns whether a manually chosen handle or an email address may contain a character.
fn is_handle_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '@' | '+' | ':' | '.' | '_' | '-') || is_combining_mark(c)
}

/// Returns whether the local part of an email address may contain a punctuation character.
fn is_email_punctuation(c: char) -> bool {
    matches!(c, '!' | '#' | '$' | '%' | '&' | '\'' | '*' | '+' | '-' | '.' | '=' | '?' | '^' | '_' | '`')
        || matches!(c, '{' | '|' | '}' | '~')
}

/// Returns whether a character combines with the character before it.
fn is_combining_mark(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
        || matches!(
            c,
            '\u{94d}'
                | '\u{9cd}'
                | '\u{a4d}'
                | '\u{acd}'
                | '\u{b4d}'
                | '\u{bcd}'
                | '\u{c4d}'
                | '\u{ccd}'
                | '\u{d4d}'
                | '\u{e3a}'
                | '\u{f84}'
                | '\u{1039}'
                | '\u{103a}'
                | '\u{17d2}'
        )
}

/// Returns whether a character belongs to a script that has no spaces between words, or joins endings to
/// names.
fn is_unspaced_script(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{edf}' | '\u{1000}'..='\u{109f}' | '\u{1100}'..='\u{11ff}' | '\u{1780}'..='\u{17ff}'
        | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}'
        | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}')
}

fn is_trailing(c: char) -> bool {
    matches!(c, '.' | ':' | '-' | '_')
}

/// Returns whether a name can end between two adjacent characters.
///
/// A name cannot end inside a word: `@adam` is not a mention of `ada`, and neither is `@ada-lovelace`.
fn can_end_between(before: char, after: char) -> bool {
    if after == ':' || is_unspaced_script(before) || is_unspaced_script(after) {
        return true;
    }
    before.is_alphanumeric() && after.is_alphanumeric() && before.is_ascii() != after.is_ascii()
}

/// The text after an `@`, up to a space: its characters with the end position of each.
struct TextAfterSign(Vec<(char, usize)>);

impl TextAfterSign {
    /// Reads the text after the `@` at the start of `rest`, as written or with backslash escapes removed.
    fn of(rest: &str, unescaped: bool) -> Self {
        let mut run = Vec::new();
        let mut chars = rest.char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next().filter(|(_, c)| !c.is_whitespace() && !c.is_control()) {
            let escaped = chars.next_if(|(_, next)| unescaped && c == '\\' && next.is_ascii_punctuation());
            let (at, c) = escaped.unwrap_or((at, c));
            run.push((c, at.saturating_add(c.len_utf8())));
            if run.len() == USER_NAME_MAX {
                break;
            }
        }
        Self(run)
    }

    fn char(&self, index: usize) -> Option<char> {
        self.0.get(index).map(|(c, _)| *c)
    }

    /// Returns the possible name lengths at the start of the text, in characters, the shortest first.
    fn ends(&self) -> Vec<usize> {
        let mut ends = Vec::new();
        // Whether a name can end before the last examined character, if that character can follow a name.
        let mut behind_trails = true;
        for index in (0..self.0.len()).rev() {
            let Some(before) = self.char(index) else { continue };
            let after = self.char(index.saturating_add(1));
            let trails = match after {
                None => true,
                Some(after) if !is_handle_char(after) => true,
                Some(after) if is_trailing(after) => behind_trails,
                Some(_) => false,
            };
            if trails || after.is_some_and(|after| can_end_between(before, after)) {
                ends.push(index.saturating_add(1));
            }
            behind_trails = trails;
        }
        ends.reverse();
        if ends.len() > NAMES_MAX {
            ends.drain(NAMES_MAX.saturating_sub(LAST_NAMES)..ends.len().saturating_sub(LAST_NAMES));
        }
        ends
    }

    /// Returns the end of the handle-like text: an email address, or characters that a chosen handle may
    /// contain.
    fn handle_like_end(&self) -> Option<usize> {
        let chars = || self.0.iter().map(|(c, _)| *c);
        let plain = chars().take_while(|c| is_handle_char(*c)).count();
        let local =
            chars().take_while(|c| !is_sign(*c) && (is_handle_char(*c) || is_email_punctuation(*c))).count();
        let host = chars().skip(local.saturating_add(1));
        let host = host
            .take_while(|c| c.is_alphanumeric() || is_combining_mark(*c) || matches!(c, '.' | '-'))
            .count();
        let ends_like_a_word =
            local.checked_sub(1).and_then(|last| self.char(last)).is_some_and(is_handle_char);
        let is_email = ends_like_a_word && host > 0 && self.char(local).is_some_and(is_sign);
        let spoken = |length: usize| -> Option<usize> {
            let last = self.0.get(..length)?.iter().rposition(|(c, _)| !is_trailing(*c))?;
            Some(last.saturating_add(1))
        };
        let email = is_email.then(|| spoken(local.saturating_add(1).saturating_add(host))).flatten();
        let has_dot = |end: &usize| chars().take(*end).skip(local).any(|c| c == '.');
        let length = email.filter(has_dot).max(spoken(plain))?;
        self.0.get(length.checked_sub(1)?).map(|(_, end)| *end)
    }
}

/// Returns the mention whose `@` is at the start of `rest`, or `None` if no name can follow.
///
/// The mention lacks names if the budget is used up.
fn mention_at(rest: &str, run: &TextAfterSign, room: &mut NameBudget) -> Option<PossibleMention> {
    let mut names = names_of(run, room);
    let until = run.0.last().map_or(0, |(_, end)| *end);
    if rest.get(..until)?.contains('\\') {
        names.extend(names_of(&TextAfterSign::of(rest, true), room));
        names.sort_by_key(|name| std::cmp::Reverse(name.length));
    }
    if names.is_empty() && !room.is_used_up() {
        return None;
    }
    let text = run.handle_like_end().and_then(|end| rest.get(..end)).unwrap_or_default().to_owned();
    let end = names.iter().map(|name| name.length).max().unwrap_or(0);
    Some(PossibleMention { written: rest.get(..end)?.to_owned(), text, names })
}

/// Returns the possible names at the start of the text after an `@`, the longest first.
fn names_of(run: &TextAfterSign, room: &mut NameBudget) -> Vec<PossibleName> {
    let chars = || run.0.iter().map(|(c, _)| *c);
    // Every prefix of a plainly mapped name is plainly mapped too.
    let plain: String = chars().map_while(plainly_mapped).collect();
    let plain_chars = plain.chars().count();
    let mut names = Vec::new();
    for end in run.ends().into_iter().rev() {
        let Some((_, length)) = end.checked_sub(1).and_then(|last| run.0.get(last)).copied() else {
            continue;
        };
        let is_slow = end > plain_chars;
        if !room.take(length, is_slow) {
            break;
        }
        let name = match is_slow {
            false => Some(plain.chars().take(end).collect()),
            true => mapped(&chars().take(end).collect::<String>()),
        };
        // A text that cannot be a handle is not a name.
        names.extend(name.map(|name| PossibleName { name, length }));
    }
    names
}

/// Returns the character that replaces `c` in a handle, if the replacement does not depend on adjacent
/// characters.
///
/// This applies to ASCII, and to letters without marks in scripts that are written from left to right. All
/// other characters are mapped as part of a whole name.
fn plainly_mapped(c: char) -> Option<char> {
    match c {
        '!'..='~' => Some(c.to_ascii_lowercase()),
        'ß'..='ö' | 'ø'..='ÿ' | 'а'..='џ' => Some(c),
        'А'..='Я' => c.to_lowercase().next(),
        'ぁ'..='ゖ' | 'ァ'..='ヺ' | '\u{3400}'..='\u{4db5}' | '\u{4e00}'..='\u{9fcc}' => Some(c),
        '\u{ac00}'..='\u{d7a3}' => Some(c),
        _ => None,
    }
}

/// A segment of a Markdown document: either text that can contain mentions, or a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TextSegment {
    /// Range of text that can contain mentions.
    Words(Range<usize>),
    /// Code, a quote, HTML or another interruption.
    Gap,
}

/// Returns the segments of a Markdown document that can contain mentions, without code, quotes and HTML.
///
/// Emphasis markers and backslashes are omitted too: text on both sides of a marker is one word.
fn mentionable_segments(text: &str) -> Vec<TextSegment> {
    let mut said = Vec::new();
    let mut silent = 0_usize;
    let mut end = 0;
    for (event, range) in markdown::events(text) {
        match event {
            Event::Start(Tag::BlockQuote(_) | Tag::CodeBlock(_)) => silent = silent.saturating_add(1),
            Event::End(TagEnd::BlockQuote(_) | TagEnd::CodeBlock) => silent = silent.saturating_sub(1),
            Event::Text(_) if silent == 0 => {
                let between = text.get(end..range.start).unwrap_or_default();
                if !between.chars().all(|c| matches!(c, '*' | '_' | '~' | '\\')) {
                    said.push(TextSegment::Gap);
                }
                end = range.end;
                said.push(TextSegment::Words(range));
            }
            _ => {}
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the mentions of the given handles in a text, in order, and the other names that it mentions.
    fn read<'h>(text: &str, handles: &[&'h str]) -> (Vec<&'h str>, Vec<String>) {
        let (mut found, mut unknown): (Vec<&str>, Vec<String>) = Default::default();
        let mut covered = 0;
        let PossibleMentions { found: mentions, places, .. } = PossibleMentions::of(&[text]);
        for MentionPlace { at, mention } in places {
            let PossibleMention { text, names, .. } = &mentions[mention];
            let known = |PossibleName { name, .. }: &PossibleName| {
                handles.iter().find(|handle| **handle == *name).copied()
            };
            let longest = names.iter().find_map(|name| Some((known(name)?, at + name.length)));
            match longest {
                _ if at < covered => {}
                Some((handle, end)) => {
                    covered = end;
                    found.push(handle);
                }
                None if text.is_empty() || unknown.contains(text) => {}
                None => unknown.push(text.clone()),
            }
        }
        (found, unknown)
    }

    fn mentioned<'h>(text: &str, handles: &[&'h str]) -> Vec<&'h str> {
        read(text, handles).0
    }

    /// Test case: a text with its expected mentions.
    #[derive(serde::Deserialize)]
    struct MentionForm {
        text: String,
        mentions: Vec<String>,
        #[serde(default)]
        unknown: Vec<String>,
    }

    #[derive(serde::Deserialize)]
    struct MentionForms {
        handles: Vec<String>,
        forms: Vec<MentionForm>,
    }

    #[test]
    fn forms_of_mentions_name_those_handles() {
        let table = include_str!("forms.json");
        let MentionForms { handles, forms } = serde_json::from_str(table).unwrap();
        let handles: Vec<&str> = handles.iter().map(String::as_str).collect();
        assert!(forms.len() >= 30);
        for MentionForm { text, mentions, unknown } in forms {
            let (found, others) = read(&text, &handles);
            let mut seen = BTreeSet::new();
            let mut once = found;
            once.retain(|handle| seen.insert(*handle));
            assert_eq!((once, others), (mentions.iter().map(String::as_str).collect(), unknown), "{text}");
        }
    }

    #[test]
    fn html_and_blocks_within_blocks_are_no_speech() {
        let handles = ["ada", "bot"];
        for (text, wanted) in [
            ("<div title='@ada'>\n@ada\n</div>\n\n@bot", vec!["bot"]),
            ("a <b title='@ada'>@bot</b>", vec!["bot"]),
            ("- > @ada\n- @bot", vec!["bot"]),
            ("x`y`@ada", vec!["ada"]),
            ("[mail](mailto:x@bot)", vec![]),
        ] {
            assert_eq!(mentioned(text, &handles), wanted, "{text}");
        }
    }

    /// Every name that a directory may assign is found after an `@`, whatever the surrounding text.
    #[test]
    fn every_handle_of_a_directory_can_be_mentioned() {
        let long = "木".repeat(USER_NAME_MAX);
        let dashed = "a-".repeat(USER_NAME_MAX / 2);
        for name in [
            "o'brien@corp.example",
            "ada+test@corp.example",
            "_svc_@corp.example",
            "a*b*c",
            "a`b`c@corp.example",
            "!#$%&'*+/=?^_`{|}~-@corp.example",
            "x<y>@corp.example",
            "[a](b)",
            "a\\b",
            "@ada",
            "ada.",
            "!!!",
            "corp/ada",
            "josé@corp.example",
            "jose\u{301}@corp.example",
            "Ｊｏｓｅ",
            "Ünïcödé",
            "иван.петров@пример.рф",
            "田中",
            "δοκιμή",
            "שלום",
            &long,
            &dashed,
        ] {
            let stored = mapped(name).unwrap();
            for (before, after) in
                [("", ""), ("", " look"), ("cc ", ", look"), ("(", ")"), ("", "'s"), ("", "."), ("**", "**")]
            {
                // A handle that ends with a sentence's punctuation is longer than the intended one.
                let text = format!("{before}@{name}{after}");
                assert_eq!(mentioned(&text, &[&stored]), [&*stored], "{text}");
            }
        }
        let escaped = "@a\\*b\\*c and @x\\_y\\_";
        assert_eq!(mentioned(escaped, &["a*b*c", "x_y_"]), ["a*b*c", "x_y_"]);
    }

    #[test]
    fn the_first_fifty_count_and_the_others_are_named() {
        let text: String = (0..120).map(|number| format!("@m{number}, @M{number}! ")).collect();
        let PossibleMentions { found, beyond, .. } = PossibleMentions::of(&[&text]);
        let counted: BTreeSet<&str> = found.iter().map(|mention| &*mention.text).collect();
        assert!(counted.contains("@m49") && !counted.contains("@m50"));
        assert_eq!((found.len(), beyond.len()), (2 * MENTIONS_MAX, MENTIONS_MAX));
        assert_eq!((&*found[2].text, &*beyond[0]), ("@m1", "@m50"));
        let long = format!("@{}", "木".repeat(300));
        let PossibleMentions { found, .. } = PossibleMentions::of(&[&long]);
        assert!(found[0].names.len() == NAMES_MAX && found[0].text.chars().count() == 1 + USER_NAME_MAX);
    }

    /// Plainly mapped characters are mapped like the user-name profile maps them, alone and together.
    #[test]
    fn plain_characters_are_mapped_as_in_any_name() {
        let plain: Vec<char> = ('!'..='\u{ffff}').filter(|c| plainly_mapped(*c).is_some()).collect();
        assert!(plain.len() > 30_000);
        for some in plain.chunks(50) {
            let (written, wanted): (String, String) =
                some.iter().map(|c| (*c, plainly_mapped(*c).unwrap())).unzip();
            assert_eq!(mapped(&written).as_deref(), Some(&*wanted), "{written}");
            let backwards = |text: &str| text.chars().rev().collect::<String>();
            assert_eq!(mapped(&backwards(&written)), Some(backwards(&wanted)), "{written}");
        }
    }

    #[test]
    fn texts_share_the_room_for_names() {
        let texts: Vec<String> =
            (0..2000).map(|number| format!("@m{number}é{}", "木\u{e48}".repeat(99))).collect();
        let mut room = NameBudget::default();
        let found: Vec<PossibleMentions> =
            texts.iter().map(|text| PossibleMentions::within(&[text], &mut room)).collect();
        assert!(found[0].found.len() == 1 && found[0].beyond.is_empty());
        assert!(found[1999].found.is_empty() && found[1999].beyond.len() == 1);
        let names = found.iter().flat_map(|mentioning| &mentioning.found).flat_map(|mention| &mention.names);
        assert!(names.map(|name| name.name.len()).sum::<usize>() < MENTION_NAME_BYTES_MAX);
    }

    /// Names found in any text have a bounded total length. A search slower than linear would exceed the
    /// timeout of the test.
    #[test]
    fn a_hostile_text_costs_no_more_than_its_length() {
        for form in ["@", "@木", "木@", "@a/", "a/@", "\\@", "@\\", "@'", "https://@", "é@é", "@*a*"] {
            let text = form.repeat(100_000 / form.len());
            let found = PossibleMentions::of(&[&text]).found;
            let bytes: usize =
                found.iter().flat_map(|mention| &mention.names).map(|name| name.name.len()).sum();
            assert!(bytes < 4_000_000, "{form}: {bytes}");
        }
    }

    /// Compares every handle at every `@`; the caller states which parts of the text can contain mentions.
    fn naive<'h>(parts: &[(String, bool)], handles: &[&'h str]) -> Vec<&'h str> {
        let mut found: Vec<&str> = Vec::new();
        for part in parts.iter().filter(|(_, is_speech)| *is_speech).map(|(part, _)| part) {
            let chars: Vec<char> = part.chars().collect();
            let mut at = 0;
            while at < chars.len() {
                let free =
                    at == 0 || !(chars[at - 1].is_ascii_alphanumeric() || "_.-/@＠+".contains(chars[at - 1]));
                if !(free && "@＠".contains(chars[at])) {
                    at += 1;
                    continue;
                }
                let fits = |handle: &&str| {
                    let length = handle.chars().count();
                    let Some(written) = chars.get(at + 1..at + 1 + length) else { return false };
                    let written_low = written.iter().collect::<String>().to_lowercase().replace('＠', "@");
                    let same = written_low == **handle;
                    let mut behind = chars[at + 1 + length..].iter().copied();
                    let last = written[length - 1];
                    let next = chars.get(at + 1 + length).copied();
                    let in_handle = |c: char| c.is_alphanumeric() || "@+:._-".contains(c);
                    let cjk = |c: char| "木さ".contains(c);
                    let free = match next {
                        None => true,
                        Some(next) if !in_handle(next) || next == ':' || cjk(last) || cjk(next) => true,
                        Some(next) if next.is_alphanumeric() => last.is_ascii() != next.is_ascii(),
                        Some(_) => {
                            let after = behind.find(|c| !".:-_".contains(*c));
                            after.is_none_or(|c| !in_handle(c))
                        }
                    };
                    same && free
                };
                let longest = handles.iter().filter(|handle| fits(handle)).max_by_key(|handle| handle.len());
                match longest {
                    Some(handle) => {
                        found.push(handle);
                        at += 1 + handle.chars().count();
                    }
                    None => at += 1,
                }
            }
        }
        found
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_a_naive_search_finds(
            parts in proptest::collection::vec(("[@＠abA.:,! 木さ+-]{0,12}", 0..4_u8), 1..5)
        ) {
            let handles = ["a", "ab", "a.b", "b-a", "木", "a木", "b:", "ba@a", "a+b", "a!b", "!"];
            let mut text = String::new();
            let mut spoken: Vec<(String, bool)> = Vec::new();
            for (part, kind) in parts {
                // List and heading markers would not be part of the text that can contain mentions.
                let part = format!("x {part}");
                let shown = match kind {
                    0 => part.clone(),
                    1 => format!("```\n{part}\n```"),
                    2 => format!("> {part}"),
                    _ => format!("z `{part}` {part}"),
                };
                text.push_str(&shown);
                text.push_str("\n\n");
                spoken.push((part, matches!(kind, 0 | 3)));
            }
            let mut seen = BTreeSet::new();
            let wanted: Vec<&str> =
                naive(&spoken, &handles).into_iter().filter(|handle| seen.insert(*handle)).collect();
            let mut seen = BTreeSet::new();
            let found: Vec<&str> =
                mentioned(&text, &handles).into_iter().filter(|handle| seen.insert(*handle)).collect();
            prop_assert_eq!(found, wanted, "{}", text);
        }
    }
}
