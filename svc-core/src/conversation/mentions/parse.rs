//! Finding what a text may mention: an `@` and the names that can follow it.
//!
//! It reads Markdown and leaves out what is no speech: code, quotes and HTML. Which of the names are those of
//! members is not known here, so each mention has all names that it can be, the longest first.

use std::collections::BTreeSet;
use std::ops::Range;

use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use crate::limits::{MENTIONS_MAX, USER_NAME_MAX};

/// What a text may mention, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mentioning {
    /// The first of them, each text once.
    pub(super) found: Vec<Mention>,
    /// Others beyond the number that counts, as they are written, up to the same number.
    pub(super) beyond: Vec<String>,
}

/// One mention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mention {
    /// As it is written, with its sign, without the punctuation at its end.
    pub text: String,
    /// Where its sign is in what the text says.
    pub at: usize,
    /// The names that it can be, in lower case, the longest first, and where each ends.
    pub names: Vec<Name>,
}

/// A name that a mention can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub name: String,
    /// Where it ends in what the text says.
    pub end: usize,
}

/// Names that one mention can be: text without spaces has a boundary behind each of its characters.
const NAMES_MAX: usize = 64;

impl Mentioning {
    /// Finds what texts in Markdown mention.
    pub fn of(texts: &[&str]) -> Self {
        if !texts.iter().any(|text| text.contains(is_sign)) {
            return Self::default();
        }
        let said: Vec<String> = texts.iter().map(|text| speech(text)).collect();
        Self::in_speech(&said.join(" "))
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    fn in_speech(speech: &str) -> Self {
        let (mut mentioning, mut seen, mut before) = (Self::default(), BTreeSet::new(), None);
        for (at, c) in speech.char_indices() {
            let begins = is_sign(c) && before.is_none_or(|before| !continues_a_word(before));
            if c != JOINT {
                before = Some(c);
            }
            let Some(mention) = begins.then(|| mention_at(speech, at, c)).flatten() else { continue };
            let key = mention.names.first().map(|longest| longest.name.clone());
            if !seen.insert(key) {
                continue;
            }
            if mentioning.found.len() < MENTIONS_MAX {
                mentioning.found.push(mention);
            } else if mentioning.beyond.len() < MENTIONS_MAX {
                mentioning.beyond.push(mention.text);
            } else {
                break;
            }
        }
        mentioning
    }
}

fn is_sign(c: char) -> bool {
    matches!(c, '@' | '＠')
}

/// Whether an `@` behind this character is part of a word, such as of an email address or a path.
fn continues_a_word(before: char) -> bool {
    before.is_ascii_alphanumeric() || matches!(before, '_' | '.' | '-' | '/' | '@' | '+')
}

/// Whether a handle may have this character.
fn is_of_handle(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '@' | '+' | ':' | '.' | '_' | '-') || is_mark(c)
}

/// Whether a character stands on the one before it and is no letter by itself.
fn is_mark(c: char) -> bool {
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

/// Whether a character is of a script that has no spaces between words, or joins endings to names.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{edf}' | '\u{1000}'..='\u{109f}' | '\u{1100}'..='\u{11ff}' | '\u{1780}'..='\u{17ff}'
        | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}'
        | '\u{f900}'..='\u{faff}' | '\u{ff66}'..='\u{ff9f}' | '\u{20000}'..='\u{3ffff}')
}

fn is_trailing(c: char) -> bool {
    matches!(c, '.' | ':' | '-' | '_')
}

/// Whether a name can end between two characters of a handle.
///
/// It cannot where a word goes on: `@adam` is not `@ada`, and neither is `@ada-lovelace`.
fn can_end_between(before: char, after: char) -> bool {
    if after == ':' || is_unspaced(before) || is_unspaced(after) {
        return true;
    }
    before.is_alphanumeric() && after.is_alphanumeric() && before.is_ascii() != after.is_ascii()
}

/// Returns the mention whose sign is at `at`, if a name can follow.
fn mention_at(speech: &str, at: usize, sign: char) -> Option<Mention> {
    let begin = at.checked_add(sign.len_utf8())?;
    let rest = speech.get(begin..)?;
    let run: Vec<(usize, char)> =
        rest.char_indices().take(USER_NAME_MAX).take_while(|(_, c)| is_of_handle(*c)).collect();
    let spoken = run.iter().rposition(|(_, c)| !is_trailing(*c))?;
    let mut names: Vec<Name> = Vec::new();
    for (index, (start, c)) in run.iter().enumerate() {
        let ends = match run.get(index.saturating_add(1)) {
            Some((_, after)) => index >= spoken || can_end_between(*c, *after),
            None => true,
        };
        let length = start.saturating_add(c.len_utf8());
        if let (true, Some(name)) = (ends && names.len() < NAMES_MAX, rest.get(..length)) {
            names.push(Name { name: name.to_lowercase(), end: begin.saturating_add(length) });
        }
    }
    names.reverse();
    let end = run.get(spoken).map(|(start, c)| begin.saturating_add(*start).saturating_add(c.len_utf8()))?;
    Some(Mention { text: speech.get(at..end)?.to_owned(), at, names })
}

/// Stands where marks of emphasis or a backslash were: what is on both sides of them is one word, but no
/// handle goes on behind them.
const JOINT: char = '\u{2060}';

/// Returns what a text in Markdown says, without code, quotes and HTML; a space stands for what is left out.
fn speech(text: &str) -> String {
    let mut said = String::with_capacity(text.len());
    let (mut silent, mut end) = (0_usize, 0);
    for (event, range) in Parser::new(text).into_offset_iter() {
        match event {
            Event::Start(Tag::BlockQuote(_) | Tag::CodeBlock(_)) => silent = silent.saturating_add(1),
            Event::End(TagEnd::BlockQuote(_) | TagEnd::CodeBlock) => silent = silent.saturating_sub(1),
            Event::Text(_) if silent == 0 => {
                let Range { start, end: last } = range;
                if start > end {
                    let between = text.get(end..start).unwrap_or_default();
                    let is_joint = between.chars().all(|c| matches!(c, '*' | '_' | '~' | '\\'));
                    said.push(if is_joint { JOINT } else { ' ' });
                }
                said.push_str(text.get(start..last).unwrap_or_default());
                end = last;
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

    /// What a text mentions where these are the handles, in the order of the text.
    fn mentioned<'h>(text: &str, handles: &[&'h str]) -> Vec<&'h str> {
        let mut found: Vec<&str> = Vec::new();
        let mut covered = 0;
        for Mention { at, names, .. } in Mentioning::of(&[text]).found {
            let known = |Name { name, .. }: &Name| handles.iter().find(|handle| **handle == *name).copied();
            let Some((handle, end)) = names.iter().find_map(|name| Some((known(name)?, name.end))) else {
                continue;
            };
            if at >= covered {
                covered = end;
                found.push(handle);
            }
        }
        found
    }

    #[test]
    fn a_mention_is_an_at_sign_and_the_longest_handle_behind_it() {
        let handles =
            ["ada", "ada.l", "bot", "bot-2", "ada@example.org", "app:triage", "田中", "иван", "x_y"];
        for (text, wanted) in [
            ("@ada look", vec!["ada"]),
            ("@Ada, @BOT: look", vec!["ada", "bot"]),
            ("look, ＠ada", vec!["ada"]),
            ("(@ada) **@bot**, _@bot-2_ \"@x_y\"", vec!["ada", "bot", "bot-2", "x_y"]),
            ("@ada.l. @bot-2- @ada_: ", vec!["ada.l", "bot-2", "ada"]),
            ("@ada: done", vec!["ada"]),
            ("@ada:done", vec!["ada"]),
            ("@ada@example.org", vec!["ada@example.org"]),
            ("@ada@example.com", vec![]),
            ("@app:triage", vec!["app:triage"]),
            ("请@ada看一下", vec!["ada"]),
            ("@田中さん、@ada", vec!["田中", "ada"]),
            ("@иванова @иван", vec!["иван"]),
            ("@adam @ada-b @bot_2", vec![]),
            ("mail ada@bot, a/@bot, x.@bot, -@bot, 1@bot, _@ada, @@bot", vec![]),
            ("é@ada @ada's", vec!["ada"]),
            ("`@ada` and ``@bot``", vec![]),
            ("```\n@ada\n```\n@bot", vec!["bot"]),
            ("    @ada\n\n@bot", vec!["bot"]),
            ("> @ada said\n\n@bot", vec!["bot"]),
            ("> @ada said\nand more\n\n@bot", vec!["bot"]),
            ("- > @ada\n- @bot", vec!["bot"]),
            ("<div title='@ada'>\n@ada\n</div>\n\n@bot", vec!["bot"]),
            ("a <b title='@ada'>@bot</b>", vec!["bot"]),
            ("[@ada](https://example.org/@bot) <https://example.org/@bot>", vec!["ada"]),
            ("[mail](mailto:x@bot)", vec![]),
            ("x`y`@ada", vec!["ada"]),
            ("mail ada\\@bot, h/\\@bot", vec![]),
            ("@ada**!** @bot*s*", vec!["ada", "bot"]),
            ("@", vec![]),
            ("@.", vec![]),
            ("@nobody", vec![]),
        ] {
            assert_eq!(mentioned(text, &handles), wanted, "{text}");
        }
    }

    #[test]
    fn the_first_fifty_count_and_the_others_are_named() {
        let text: String = (0..120).map(|number| format!("@m{number}, @M{number}! ")).collect();
        let Mentioning { found, beyond } = Mentioning::of(&[&text]);
        assert_eq!((found.len(), beyond.len()), (MENTIONS_MAX, MENTIONS_MAX));
        assert_eq!((&*found[1].text, &*beyond[0]), ("@m1", "@m50"));
        let long = format!("@{}", "木".repeat(300));
        let Mentioning { found, .. } = Mentioning::of(&[&long]);
        assert!(found[0].names.len() == NAMES_MAX && found[0].text.chars().count() == 1 + USER_NAME_MAX);
    }

    /// Tries every handle at every sign, and knows which parts are speech because it has made the text.
    fn naive<'h>(parts: &[(String, bool)], handles: &[&'h str]) -> Vec<&'h str> {
        let mut found: Vec<&str> = Vec::new();
        for part in parts.iter().filter(|(_, is_speech)| *is_speech).map(|(part, _)| part) {
            let chars: Vec<char> = part.chars().collect();
            let mut at = 0;
            while at < chars.len() {
                let free =
                    at == 0 || !(chars[at - 1].is_ascii_alphanumeric() || "_.-/@+".contains(chars[at - 1]));
                if !(free && "@＠".contains(chars[at])) {
                    at += 1;
                    continue;
                }
                let fits = |handle: &&str| {
                    let length = handle.chars().count();
                    let Some(written) = chars.get(at + 1..at + 1 + length) else { return false };
                    let same = written.iter().collect::<String>().to_lowercase() == **handle;
                    let mut behind = chars[at + 1 + length..].iter().copied();
                    let (last, next) = (written[length - 1], chars.get(at + 1 + length).copied());
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
            let handles = ["a", "ab", "a.b", "b-a", "木", "a木", "b:", "ba@a", "a+b"];
            let mut text = String::new();
            let mut spoken: Vec<(String, bool)> = Vec::new();
            for (part, kind) in parts {
                // Marks of lists and headings would be no part of what is said.
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
