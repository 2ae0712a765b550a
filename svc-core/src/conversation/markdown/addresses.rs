//! Bare addresses in text: finding the beginning and the end of each address, by the autolink rules of GFM.
//!
//! CommonMark does not define bare addresses, and no crate finds them in the same way as GFM. An address
//! begins with `http://`, `https://`, `svc://` or `www.`, or is an email address. It ends before a space, a
//! quotation mark, an HTML bracket, and punctuation of other scripts, such as `，`. An address does not
//! include trailing punctuation, a trailing closing bracket that was opened before the address, or a trailing
//! entity. Text after another scheme, as in `blob:http://x`, is not an address.

use std::ops::Range;

use super::parts::TextRun;

/// Maximum bytes of a bare web address, so that the search takes linear time.
const ADDRESS_MAX: usize = 2000;
/// Maximum bytes of a host, and of the name before an `@`, so that the search takes linear time.
const HOST_MAX: usize = 255;

/// Prefixes with which an address begins, each with whether the prefix contains a scheme.
const ADDRESS_PREFIXES: [(&str, bool); 4] =
    [("http://", true), ("https://", true), ("svc://", true), ("www.", false)];

/// A bare address that was found in a run of text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BareAddress {
    pub range: Range<usize>,
    /// The URL to which the address links.
    pub target: String,
}

/// Finds the first bare address in a range of a run of text.
pub(super) fn find_first(run: &TextRun, within: Range<usize>) -> Option<BareAddress> {
    let text = run.text.get(..within.end)?;
    let searched = text.get(within.start..)?;
    let begins = |c: char| matches!(c, 'h' | 'H' | 's' | 'S' | 'w' | 'W' | '@');
    searched.match_indices(begins).find_map(|(offset, found)| {
        let at = within.start.saturating_add(offset);
        let address = if found == "@" {
            parse_email_address(text, within.start, at)
        } else {
            parse_web_address(run, text, at)
        };
        address.filter(|address| address.range.start >= within.start)
    })
}

/// Returns the address with a prefix of [`ADDRESS_PREFIXES`] at a position, or `None` if no such address
/// begins there.
fn parse_web_address(run: &TextRun, text: &str, at: usize) -> Option<BareAddress> {
    let rest = text.get(at..)?;
    let starts =
        |begin: &str| rest.get(..begin.len()).is_some_and(|written| written.eq_ignore_ascii_case(begin));
    let (begin, has_scheme) = ADDRESS_PREFIXES.into_iter().find(|(begin, _)| starts(begin))?;
    let before = text.get(..at)?.chars().next_back();
    let is_free = match before {
        None => true,
        Some(':') if has_scheme => !ends_with_scheme(text.get(..at)?),
        Some(before) if has_scheme => !before.is_ascii_alphanumeric(),
        Some(before) => before.is_whitespace() || !before.is_ascii() || "*_~([\"'".contains(before),
    };
    let host = if has_scheme { rest.get(begin.len()..)? } else { rest };
    if !is_free || !begins_with_host(host, !has_scheme) {
        return None;
    }
    let longest = rest.get(..rest.floor_char_boundary(ADDRESS_MAX))?;
    let address = longest.split(is_address_end).next()?;
    let end = at.saturating_add(trimmed_length(run, at, address));
    let written = text.get(at..end).filter(|written| written.len() > begin.len())?;
    let target = if has_scheme { written.to_owned() } else { format!("http://{written}") };
    Some(BareAddress { range: at..end, target })
}

/// Returns whether a text ends with the scheme of a longer address, such as `blob:`.
fn ends_with_scheme(text: &str) -> bool {
    text.strip_suffix(':').is_some_and(|before| before.ends_with(|c: char| c.is_ascii_alphanumeric()))
}

/// Returns whether a character cannot be part of an address, so that the address ends before it.
fn is_address_end(c: char) -> bool {
    c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | '"' | '`') || is_word_end(c)
}

/// Returns whether a character ends an address because it is neither ASCII nor a letter or digit of any
/// script.
fn is_word_end(c: char) -> bool {
    !c.is_ascii() && !c.is_alphanumeric()
}

/// Returns whether a text begins with a valid host name. The last two labels of a host name contain no `_`.
fn begins_with_host(text: &str, needs_dot: bool) -> bool {
    let is_of_host = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let end = text.char_indices().take(HOST_MAX).find(|(_, c)| !is_of_host(*c));
    let host = text.get(..end.map_or(text.len(), |(end, _)| end)).unwrap_or_default();
    if host.len() > HOST_MAX {
        return false;
    }
    let host = host.trim_end_matches('.');
    let mut parts = host.rsplit('.');
    let are_plain = parts.by_ref().take(2).all(|part| !part.is_empty() && !part.contains('_'));
    are_plain && parts.all(|part| !part.is_empty()) && (!needs_dot || host.contains('.'))
}

/// Returns the length of an address without trailing punctuation, in bytes.
fn trimmed_length(run: &TextRun, at: usize, address: &str) -> usize {
    let count = |bracket: char| address.matches(bracket).count();
    let mut round = count(')');
    let mut square = count(']');
    let opened = count('(');
    let opened_square = count('[');
    let mut kept = address;
    while let Some(last) = kept.chars().next_back() {
        let without_last = kept.len().saturating_sub(last.len_utf8());
        let end = at.saturating_add(kept.len());
        let length = match (run.find_entity_before(end), last) {
            (Some(entity), _) => entity.saturating_sub(at),
            (None, '?' | '!' | '.' | ',' | ':' | '*' | '_' | '~' | '\'') => without_last,
            (None, ';') => find_trailing_entity(kept).unwrap_or(without_last),
            (None, ')') if round > opened => {
                round = round.saturating_sub(1);
                without_last
            }
            (None, ']') if square > opened_square => {
                square = square.saturating_sub(1);
                without_last
            }
            _ => break,
        };
        kept = kept.get(..length).unwrap_or_default();
    }
    kept.len()
}

/// Returns the position of the entity-like ending of a text, such as `&amp;`, or `None` if the text has no
/// such ending.
fn find_trailing_entity(text: &str) -> Option<usize> {
    let name = text.strip_suffix(';')?;
    let begin = name.trim_end_matches(|c: char| c.is_ascii_alphanumeric());
    let at = begin.strip_suffix('&')?.len();
    (begin.len() < name.len()).then_some(at)
}

/// Returns the email address whose `@` is at a position, or `None` if there is no valid email address.
fn parse_email_address(text: &str, from: usize, at: usize) -> Option<BareAddress> {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    let is_of_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let before = text.get(from..at)?;
    let name = before.chars().rev().take(HOST_MAX).take_while(|c| is_of_name(*c)).count();
    let begin = at.checked_sub(name)?;
    let is_of_longer = text.get(..begin)?.chars().next_back().is_some_and(|c| is_of_name(c) || c == '@');
    if name == 0 || is_of_longer {
        return None;
    }
    let host = text.get(at.saturating_add(1)..)?;
    let length = host.chars().take(HOST_MAX).take_while(|c| is_of_host(*c)).count();
    let host = host.get(..length)?.trim_end_matches('.');
    let is_host = host.contains('.') && host.split('.').all(|part| !part.is_empty());
    let end = at.saturating_add(1).saturating_add(host.len());
    let ends_well = !host.ends_with(['-', '_']) && !text.get(end..)?.starts_with('@');
    let target = format!("mailto:{}", text.get(begin..end)?);
    (is_host && ends_well).then_some(BareAddress { range: begin..end, target })
}
