//! Finding the possible mentions in a text: each `@` with the names that it could mention.
//!
//! The rules (`svc-http/ui/pure/handles.js` implements the rules that the board needs to complete a handle):
//!
//! - A mention is an `@` and the longest member handle after it, in upper or lower case. A handle may contain
//!   every character that a directory may assign: letters of any script, digits, and all ASCII punctuation.
//! - A handle ends where its word ends: `@adam` does not mention `ada`, and neither do `@ada-b` and
//!   `@ada@b.example`. A word ends before punctuation that manually chosen handles cannot contain, and before
//!   trailing `.`, `:`, `-` and `_`: `@ada's`, `@ada/@bob`, `@ada.` and `(@ada)` mention `ada`, unless a
//!   longer handle fits.
//! - An `@` inside a word is not a mention: after a letter, a digit, `_`, `.`, `-`, `+` or another `@`, as in
//!   an email address. Letters of scripts without spaces do not count as part of the word.
//! - An `@` after a `/` is a mention if one plain word or another mention precedes the `/`, as in `cc/@ada`
//!   and `@ada/@bob`. It is not a mention in a path or an address, which contains a dot, a scheme or another
//!   `/`.
//! - Code, quotes, HTML, the targets of links and bare addresses such as `https://x.example/@ada` contain no
//!   mentions. An `@` after a backslash is not a mention. A backslash may precede Markdown punctuation in a
//!   handle.
//! - If no member has the handle, the text that looks like a handle is reported: letters, digits and
//!   `@+:._-`, or a whole email address.
//!
//! This file does not know the handles of members, so each possible mention contains every name that it could
//! mean, the longest first.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use pulldown_cmark::{Event, Tag, TagEnd};

use crate::conversation::markdown;
use crate::identity::members::normalise_user_name;
use crate::limits::{MARKDOWN_NODES_MAX, MENTION_NAME_BYTES_MAX, MENTIONS_MAX, USER_NAME_MAX};

/// The possible mentions of a text, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PossibleMentions {
    /// The first distinct mentions, up to a limit.
    pub(super) distinct: Vec<PossibleMention>,
    /// All places at which the mentions in `distinct` occur, including repetitions.
    pub(super) places: Vec<MentionPlace>,
    /// The distinct mentions beyond the limit of `distinct`, as written, up to the same limit.
    pub(super) beyond_limit: Vec<String>,
}

/// An occurrence of a mention in the joined texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MentionPlace {
    /// Position of the mention's `@` in the joined texts.
    pub position: usize,
    /// Index of the mention in `PossibleMentions::distinct`.
    pub mention_index: usize,
}

/// An `@` in a text with the names that it could mention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PossibleMention {
    /// The text from the `@` to the end of the longest name.
    pub written: String,
    /// The text to report if the mention is unknown: the `@` and the handle-like text after it, without
    /// trailing punctuation. Empty if no handle-like text follows the `@`.
    pub reported_text: String,
    /// The names that the mention could mean, mapped to the form of stored handles, the longest first.
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

/// Budget that limits the total cost of the possible names in the texts of one request.
pub(crate) struct NameBudget {
    /// Remaining budget, in bytes.
    bytes_left: usize,
}

impl Default for NameBudget {
    fn default() -> Self {
        Self { bytes_left: MENTION_NAME_BYTES_MAX }
    }
}

/// Fixed cost of each name in addition to its length, in bytes.
const NAME_OVERHEAD: usize = 200;
/// Cost factor for a name whose mapping to a handle is slow.
const SLOW_FACTOR: usize = 4;

impl NameBudget {
    /// Deducts the cost of a name of `bytes` bytes, and returns whether the budget was sufficient.
    fn try_spend(&mut self, bytes: usize, is_slow: bool) -> bool {
        let factor = if is_slow { SLOW_FACTOR } else { 1 };
        let left = self.bytes_left.checked_sub(bytes.saturating_add(NAME_OVERHEAD).saturating_mul(factor));
        self.bytes_left = left.unwrap_or(0);
        left.is_some()
    }

    /// Returns whether nothing remains of the budget.
    fn is_used_up(&self) -> bool {
        self.bytes_left == 0
    }
}

/// Maximum possible names of one mention. If there are more, the shortest and the longest are kept.
///
/// The limit matters in text without spaces, in which a name can end after each character.
const NAMES_MAX: usize = 64;
/// Number of the longest names among the [`NAMES_MAX`] names that are kept.
const LONGEST_NAMES: usize = 16;

impl PossibleMentions {
    /// Finds the possible mentions in the Markdown texts of a message.
    pub fn find(texts: &[&str]) -> Self {
        let texts: Vec<_> = texts.iter().map(|text| markdown::with_line_feeds(text)).collect();
        let texts: Vec<&str> = texts.iter().map(|text| &**text).collect();
        Self::find_within_budget(&texts, &mut NameBudget::default())
    }

    /// Finds the possible mentions in Markdown texts whose lines end with line feeds, within a budget.
    ///
    /// Mentions beyond the budget are ignored.
    pub fn find_within_budget(texts: &[&str], budget: &mut NameBudget) -> Self {
        let mut finder = MentionFinder::new(budget);
        let mut base = 0_usize;
        for text in texts {
            if text.contains(is_at_sign) && !finder.is_full() {
                finder.search_text(text, base);
            }
            base = base.saturating_add(text.len()).saturating_add(1);
        }
        finder.possible_mentions
    }
}

/// Searches texts for mentions, and builds [`PossibleMentions`].
struct MentionFinder<'r> {
    budget: &'r mut NameBudget,
    possible_mentions: PossibleMentions,
    /// Number of `@` signs examined so far.
    examined_signs: usize,
    /// The texts from each `@` that was examined, each with the index of its mention in `distinct`, if any.
    examined: BTreeMap<String, Option<usize>>,
    /// The longest name of each distinct mention so far, without trailing punctuation. The limit on mentions
    /// applies to these names.
    distinct_names: BTreeSet<String>,
}

/// Maximum distinct texts after an `@` that are examined in one message. This limits the cost of long texts.
const EXAMINED_MAX: usize = 6 * MENTIONS_MAX;
/// Maximum places of mentions that are recorded for one message.
const PLACES_MAX: usize = MARKDOWN_NODES_MAX;
/// Maximum `@` signs that are examined in one message.
const SIGNS_MAX: usize = 2 * PLACES_MAX;

impl<'r> MentionFinder<'r> {
    fn new(budget: &'r mut NameBudget) -> Self {
        let examined = BTreeMap::new();
        let distinct_names = BTreeSet::new();
        Self {
            budget,
            possible_mentions: PossibleMentions::default(),
            examined_signs: 0,
            examined,
            distinct_names,
        }
    }

    /// Returns whether a limit is reached, so that the search must end.
    fn is_full(&self) -> bool {
        self.possible_mentions.beyond_limit.len() >= MENTIONS_MAX
            || self.examined.len() >= EXAMINED_MAX
            || self.examined_signs >= SIGNS_MAX
    }

    /// Searches a text for mentions. The text begins at position `base` of the joined texts.
    fn search_text(&mut self, text: &str, base: usize) {
        let mut word = CurrentWord::default();
        for said in mentionable_segments(text) {
            let TextSegment::Mentionable(range) = said else {
                if said == TextSegment::Gap {
                    word = CurrentWord::default();
                }
                continue;
            };
            for (offset, c) in text.get(range.clone()).unwrap_or_default().char_indices() {
                let at = range.start.saturating_add(offset);
                let rest = text.get(at..).unwrap_or_default();
                let begins = is_at_sign(c) && word.can_begin_mention() && !is_escaped(text, at);
                word.push(c, rest, begins);
                if begins {
                    self.add_mention_at(rest, base.saturating_add(at));
                }
                if self.is_full() {
                    return;
                }
            }
        }
    }

    /// Adds the mention that begins with the `@` at the start of `rest`, which is at `position` of the joined
    /// texts.
    fn add_mention_at(&mut self, rest: &str, position: usize) {
        self.examined_signs = self.examined_signs.saturating_add(1);
        let run = TextAfterSign::read(rest, false);
        let written = run.0.last().and_then(|(_, end)| rest.get(..*end)).unwrap_or_default();
        if written.is_empty() {
            return;
        }
        if let Some(known) = self.examined.get(written).copied() {
            self.add_place(known, position);
            return;
        }
        let found = parse_mention(rest, &run, self.budget);
        let added = found.and_then(|mention| self.add_mention(mention));
        self.examined.insert(written.to_owned(), added);
        self.add_place(added, position);
    }

    /// Records that a mention occurs at a position, unless the mention is beyond the limit.
    fn add_place(&mut self, mention_index: Option<usize>, position: usize) {
        let places = &mut self.possible_mentions.places;
        if let Some(mention_index) = mention_index
            && places.len() < PLACES_MAX
        {
            places.push(MentionPlace { position, mention_index });
        }
    }

    /// Adds a mention and returns its index, or `None` if the mention is beyond the limit.
    fn add_mention(&mut self, mention: PossibleMention) -> Option<usize> {
        let longest = mention.names.first().map_or("", |longest| &longest.name);
        let counted = longest.trim_end_matches(|c: char| !c.is_alphanumeric()).to_owned();
        let PossibleMentions { distinct, beyond_limit, .. } = &mut self.possible_mentions;
        let is_known = self.distinct_names.contains(&counted);
        let index = distinct.len();
        let counts = (is_known || self.distinct_names.len() < MENTIONS_MAX)
            && index < 2 * MENTIONS_MAX
            && !self.budget.is_used_up();
        if counts {
            distinct.push(mention);
        } else if !is_known && !mention.reported_text.is_empty() {
            beyond_limit.push(mention.reported_text);
        }
        self.distinct_names.insert(counted);
        counts.then_some(index)
    }
}

/// State of the current word: the text between the last space and the current character.
#[derive(Default)]
struct CurrentWord {
    before: Option<char>,
    /// Whether the word is an address, such as `https://x.example`.
    is_address: bool,
    /// Whether the word is a path, in which an `@` after a `/` is not a mention.
    is_path: bool,
    /// Number of completed slash-separated sections of the word without a mention.
    plain_sections: usize,
    section: WordSection,
}

/// State of a section of a word: the text after the word's last slash.
#[derive(Default)]
struct WordSection {
    is_begun: bool,
    has_mention: bool,
    /// Whether the section contains characters that occur in addresses and paths, but not in plain words.
    has_address_chars: bool,
}

impl CurrentWord {
    /// Returns whether an `@` as the next character can begin a mention.
    fn can_begin_mention(&self) -> bool {
        match self.before {
            _ if self.is_address => false,
            None => true,
            Some('/') => !self.is_path,
            Some(before) => !continues_a_word(before),
        }
    }

    /// Adds the character `c`, which is the first character of `rest`, to the word.
    fn push(&mut self, c: char, rest: &str, is_mention: bool) {
        // An address ends at a space, an HTML bracket, a quotation mark or punctuation of other scripts.
        let ends = |c: char| matches!(c, '<' | '>' | '"') || (!c.is_ascii() && !c.is_alphanumeric());
        if c.is_whitespace() || (self.is_address && ends(c)) {
            *self = Self { before: Some(c), ..Self::default() };
            return;
        }
        let scheme = c == ':' && rest.starts_with("://") && self.before.is_some_and(char::is_alphanumeric);
        self.is_address |= scheme || (!self.section.is_begun && begins_with_www(rest));
        if c == '/' {
            let WordSection { is_begun, has_mention, has_address_chars } = std::mem::take(&mut self.section);
            self.plain_sections = self.plain_sections.saturating_add(usize::from(!has_mention));
            self.is_path |= !is_begun || (!has_mention && (has_address_chars || self.plain_sections > 1));
        } else {
            let is_sign_within = is_at_sign(c) && !is_mention;
            self.section.is_begun = true;
            self.section.has_mention |= is_mention;
            self.section.has_address_chars |= is_sign_within
                || matches!(c, '.' | '~' | '\\' | '=' | '?' | '#' | '&' | '%')
                || rest.starts_with(":/");
        }
        self.before = Some(c);
    }
}

fn is_at_sign(c: char) -> bool {
    matches!(c, '@' | '＠')
}

fn begins_with_www(text: &str) -> bool {
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
    (is_of_word && !is_unspaced_script(before))
        || is_at_sign(before)
        || matches!(before, '_' | '.' | '-' | '+')
}

/// Returns whether a character may occur in a manually chosen handle or an email address.
fn is_handle_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '@' | '+' | ':' | '.' | '_' | '-') || is_combining_mark(c)
}

/// Returns whether a character is punctuation that may occur in the local part of an email address.
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

/// Returns whether a character is from a script without spaces between words, or a script that attaches
/// endings to names.
fn is_unspaced_script(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{edf}' | '\u{1000}'..='\u{109f}' | '\u{1100}'..='\u{11ff}' | '\u{1780}'..='\u{17ff}'
        | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}'
        | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}')
}

fn is_trailing_punctuation(c: char) -> bool {
    matches!(c, '.' | ':' | '-' | '_')
}

/// Returns whether a name can end between two adjacent characters of a word.
///
/// A name cannot end inside a word: neither `@adam` nor `@ada-lovelace` mentions `ada`.
fn can_end_between(before: char, after: char) -> bool {
    if after == ':' || is_unspaced_script(before) || is_unspaced_script(after) {
        return true;
    }
    before.is_alphanumeric() && after.is_alphanumeric() && before.is_ascii() != after.is_ascii()
}

/// The characters after an `@` up to the next space, each with its end position in the text.
struct TextAfterSign(Vec<(char, usize)>);

impl TextAfterSign {
    /// Reads the text after the `@` at the start of `rest`. If `unescaped` is true, removes backslash
    /// escapes.
    fn read(rest: &str, unescaped: bool) -> Self {
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

    /// Returns the character with an index after the `@`.
    fn char_at(&self, index: usize) -> Option<char> {
        self.0.get(index).map(|(c, _)| *c)
    }

    /// Returns the lengths of the possible names at the start of the text, in characters, the shortest first.
    fn name_lengths(&self) -> Vec<usize> {
        let mut ends = Vec::new();
        // Whether only trailing punctuation follows the next character, before the end of the word.
        let mut behind_trails = true;
        for index in (0..self.0.len()).rev() {
            let Some(before) = self.char_at(index) else { continue };
            let after = self.char_at(index.saturating_add(1));
            let trails = match after {
                None => true,
                Some(after) if !is_handle_char(after) => true,
                Some(after) if is_trailing_punctuation(after) => behind_trails,
                Some(_) => false,
            };
            if trails || after.is_some_and(|after| can_end_between(before, after)) {
                ends.push(index.saturating_add(1));
            }
            behind_trails = trails;
        }
        ends.reverse();
        if ends.len() > NAMES_MAX {
            ends.drain(NAMES_MAX.saturating_sub(LONGEST_NAMES)..ends.len().saturating_sub(LONGEST_NAMES));
        }
        ends
    }

    /// Returns the end position of the handle-like text: an email address, or characters of a manually chosen
    /// handle.
    fn handle_like_end(&self) -> Option<usize> {
        let chars = || self.0.iter().map(|(c, _)| *c);
        let plain = chars().take_while(|c| is_handle_char(*c)).count();
        let local = chars()
            .take_while(|c| !is_at_sign(*c) && (is_handle_char(*c) || is_email_punctuation(*c)))
            .count();
        let host = chars().skip(local.saturating_add(1));
        let host = host
            .take_while(|c| c.is_alphanumeric() || is_combining_mark(*c) || matches!(c, '.' | '-'))
            .count();
        let ends_like_a_word =
            local.checked_sub(1).and_then(|last| self.char_at(last)).is_some_and(is_handle_char);
        let is_email = ends_like_a_word && host > 0 && self.char_at(local).is_some_and(is_at_sign);
        let trimmed = |length: usize| -> Option<usize> {
            let last = self.0.get(..length)?.iter().rposition(|(c, _)| !is_trailing_punctuation(*c))?;
            Some(last.saturating_add(1))
        };
        let email = is_email.then(|| trimmed(local.saturating_add(1).saturating_add(host))).flatten();
        let has_dot = |end: &usize| chars().take(*end).skip(local).any(|c| c == '.');
        let length = email.filter(has_dot).max(trimmed(plain))?;
        self.0.get(length.checked_sub(1)?).map(|(_, end)| *end)
    }
}

/// Returns the mention that begins with the `@` at the start of `rest`, or `None` if no name follows the `@`.
///
/// If the budget is used up, the mention contains only some of its names or no names.
fn parse_mention(rest: &str, run: &TextAfterSign, budget: &mut NameBudget) -> Option<PossibleMention> {
    let mut names = possible_names(run, budget);
    let until = run.0.last().map_or(0, |(_, end)| *end);
    if rest.get(..until)?.contains('\\') {
        names.extend(possible_names(&TextAfterSign::read(rest, true), budget));
        names.sort_by_key(|name| std::cmp::Reverse(name.length));
    }
    if names.is_empty() && !budget.is_used_up() {
        return None;
    }
    let reported_text = run.handle_like_end().and_then(|end| rest.get(..end)).unwrap_or_default().to_owned();
    let end = names.iter().map(|name| name.length).max().unwrap_or(0);
    Some(PossibleMention { written: rest.get(..end)?.to_owned(), reported_text, names })
}

/// Returns the possible names at the start of the text after an `@`, the longest first.
fn possible_names(run: &TextAfterSign, budget: &mut NameBudget) -> Vec<PossibleName> {
    let chars = || run.0.iter().map(|(c, _)| *c);
    // If every character of a name can be mapped separately, the same is true for every prefix of the name.
    let plain: String = chars().map_while(map_char_alone).collect();
    let plain_chars = plain.chars().count();
    let mut names = Vec::new();
    for end in run.name_lengths().into_iter().rev() {
        let Some((_, length)) = end.checked_sub(1).and_then(|last| run.0.get(last)).copied() else {
            continue;
        };
        let is_slow = end > plain_chars;
        if !budget.try_spend(length, is_slow) {
            break;
        }
        let name = match is_slow {
            false => Some(plain.chars().take(end).collect()),
            true => normalise_user_name(&chars().take(end).collect::<String>()),
        };
        // `normalise_user_name` fails for a text that cannot be a handle.
        names.extend(name.map(|name| PossibleName { name, length }));
    }
    names
}

/// Returns the character to which `c` is mapped in a handle, or `None` if the mapping may depend on adjacent
/// characters.
///
/// ASCII characters, and letters without marks in some scripts that are written from left to right, are
/// mapped separately. All other characters are mapped as part of a whole name.
fn map_char_alone(c: char) -> Option<char> {
    match c {
        '!'..='~' => Some(c.to_ascii_lowercase()),
        'ß'..='ö' | 'ø'..='ÿ' | 'а'..='џ' => Some(c),
        'А'..='Я' => c.to_lowercase().next(),
        'ぁ'..='ゖ' | 'ァ'..='ヺ' | '\u{3400}'..='\u{4db5}' | '\u{4e00}'..='\u{9fcc}' => Some(c),
        '\u{ac00}'..='\u{d7a3}' => Some(c),
        _ => None,
    }
}

/// A segment of a Markdown text: either text that can contain mentions, or a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TextSegment {
    /// The range of a text that can contain mentions.
    Mentionable(Range<usize>),
    /// An interruption, such as code, a quote or HTML.
    Gap,
}

/// Splits a Markdown text into segments that can contain mentions, and gaps such as code, quotes and HTML.
///
/// Emphasis markers and backslashes are omitted without a gap, so that the text on both sides of a marker is
/// one word.
fn mentionable_segments(text: &str) -> Vec<TextSegment> {
    let mut said = Vec::new();
    let mut silent = 0_usize;
    let mut end = 0;
    for (event, range) in markdown::parse_events(text) {
        match event {
            Event::Start(Tag::BlockQuote(_) | Tag::CodeBlock(_)) => silent = silent.saturating_add(1),
            Event::End(TagEnd::BlockQuote(_) | TagEnd::CodeBlock) => silent = silent.saturating_sub(1),
            Event::Text(_) if silent == 0 => {
                let between = text.get(end..range.start).unwrap_or_default();
                if !between.chars().all(|c| matches!(c, '*' | '_' | '~' | '\\')) {
                    said.push(TextSegment::Gap);
                }
                end = range.end;
                said.push(TextSegment::Mentionable(range));
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

    /// Returns the mentions of the given handles in a text, in order, and the other names that the text
    /// mentions.
    fn read<'h>(text: &str, handles: &[&'h str]) -> (Vec<&'h str>, Vec<String>) {
        let (mut found, mut unknown): (Vec<&str>, Vec<String>) = Default::default();
        let mut covered = 0;
        let PossibleMentions { distinct: mentions, places, .. } = PossibleMentions::find(&[text]);
        for MentionPlace { position: at, mention_index: mention } in places {
            let PossibleMention { reported_text: text, names, .. } = &mentions[mention];
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

    /// Every name that a directory may assign is found after an `@`, regardless of the text around the
    /// mention.
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
            let stored = normalise_user_name(name).unwrap();
            for (before, after) in
                [("", ""), ("", " look"), ("cc ", ", look"), ("(", ")"), ("", "'s"), ("", "."), ("**", "**")]
            {
                // Some names end with the same punctuation as a sentence. A longer handle could then match.
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
        let PossibleMentions { distinct: found, beyond_limit: beyond, .. } = PossibleMentions::find(&[&text]);
        let counted: BTreeSet<&str> = found.iter().map(|mention| &*mention.reported_text).collect();
        assert!(counted.contains("@m49") && !counted.contains("@m50"));
        assert_eq!((found.len(), beyond.len()), (2 * MENTIONS_MAX, MENTIONS_MAX));
        assert_eq!((&*found[2].reported_text, &*beyond[0]), ("@m1", "@m50"));
        let long = format!("@{}", "木".repeat(300));
        let PossibleMentions { distinct: found, .. } = PossibleMentions::find(&[&long]);
        assert!(
            found[0].names.len() == NAMES_MAX && found[0].reported_text.chars().count() == 1 + USER_NAME_MAX
        );
    }

    /// Characters that are mapped separately are mapped in the same way as by the user-name profile, in any
    /// combination.
    #[test]
    fn plain_characters_are_mapped_as_in_any_name() {
        let plain: Vec<char> = ('!'..='\u{ffff}').filter(|c| map_char_alone(*c).is_some()).collect();
        assert!(plain.len() > 30_000);
        for some in plain.chunks(50) {
            let (written, wanted): (String, String) =
                some.iter().map(|c| (*c, map_char_alone(*c).unwrap())).unzip();
            assert_eq!(normalise_user_name(&written).as_deref(), Some(&*wanted), "{written}");
            let backwards = |text: &str| text.chars().rev().collect::<String>();
            assert_eq!(normalise_user_name(&backwards(&written)), Some(backwards(&wanted)), "{written}");
        }
    }

    #[test]
    fn texts_share_the_room_for_names() {
        let texts: Vec<String> =
            (0..2000).map(|number| format!("@m{number}é{}", "木\u{e48}".repeat(99))).collect();
        let mut budget = NameBudget::default();
        let found: Vec<PossibleMentions> =
            texts.iter().map(|text| PossibleMentions::find_within_budget(&[text], &mut budget)).collect();
        assert!(found[0].distinct.len() == 1 && found[0].beyond_limit.is_empty());
        assert!(found[1999].distinct.is_empty() && found[1999].beyond_limit.len() == 1);
        let names = found
            .iter()
            .flat_map(|possible_mentions| &possible_mentions.distinct)
            .flat_map(|mention| &mention.names);
        assert!(names.map(|name| name.name.len()).sum::<usize>() < MENTION_NAME_BYTES_MAX);
    }

    /// The total length of the names found in any text is limited. A search that is slower than linear would
    /// exceed the timeout of the test.
    #[test]
    fn a_hostile_text_costs_no_more_than_its_length() {
        for form in ["@", "@木", "木@", "@a/", "a/@", "\\@", "@\\", "@'", "https://@", "é@é", "@*a*"] {
            let text = form.repeat(100_000 / form.len());
            let found = PossibleMentions::find(&[&text]).distinct;
            let bytes: usize =
                found.iter().flat_map(|mention| &mention.names).map(|name| name.name.len()).sum();
            assert!(bytes < 4_000_000, "{form}: {bytes}");
        }
    }

    /// Finds mentions by comparing every handle at every `@`. Each part has a flag: whether it can contain
    /// mentions.
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
                // The prefix prevents list and heading markers, which cannot contain mentions.
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
