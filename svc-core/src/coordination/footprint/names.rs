//! The names of footprint items: how a name is parsed, and the form in which it is compared.
//!
//! Canonically equivalent names are stored in the same form, Unicode's NFC, and invisible characters are
//! rejected. Case matters, except in the name of a slot. Items that were stored before these rules are
//! returned unchanged, but compared in the same form as other items.

use std::borrow::Cow;

use icu_normalizer::ComposingNormalizerBorrowed;
use icu_properties::CodePointSetData;
use icu_properties::props::DefaultIgnorableCodePoint;
use serde::{Deserialize, Serialize};

use crate::limits::FOOTPRINT_ITEM_MAX;

/// The kind of a footprint item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ItemKind {
    Lane,
    Crate,
    Branch,
    Path,
    Glob,
    Slot,
}

crate::argument::arguments! { ItemKind }

/// The prefix of a branch's full name.
const BRANCH_PREFIX: &str = "refs/heads/";

/// Parses a name from a caller, and returns the name in its stored form.
///
/// Parsing the result returns it unchanged.
pub(super) fn parse_name(kind: ItemKind, input: &str) -> Result<String, String> {
    if let Some(found) = input.chars().find(|c| is_invisible(*c)) {
        return Err(format!("the character U+{:04X} is not allowed: it is invisible", u32::from(found)));
    }
    let name = to_nfc(input);
    let name = match kind {
        ItemKind::Path | ItemKind::Glob => parse_path(&name)?,
        ItemKind::Branch => parse_branch(&name)?.to_owned(),
        ItemKind::Lane | ItemKind::Crate | ItemKind::Slot => name.into_owned(),
    };
    if [input, &name].iter().any(|text| *text != text.trim()) {
        return Err("expected no blanks at the beginning or the end".to_owned());
    }
    let length = name.chars().count();
    if length == 0 || length > FOOTPRINT_ITEM_MAX {
        return Err(format!("expected 1 to {FOOTPRINT_ITEM_MAX} characters in NFC, found {length}"));
    }
    Ok(name)
}

/// Parses a name from the database, including forms from before the rules of [`parse_name`].
pub(super) fn parse_stored_name(kind: ItemKind, text: &str) -> Result<String, String> {
    match kind {
        ItemKind::Path | ItemKind::Glob => parse_path(text),
        ItemKind::Lane | ItemKind::Crate | ItemKind::Branch | ItemKind::Slot => Ok(text.to_owned()),
    }
}

/// Returns the form in which a stored name is compared. A result of [`parse_name`] already has that form.
pub(super) fn comparison_form(kind: ItemKind, stored: &str) -> Cow<'_, str> {
    match (kind, to_nfc(stored)) {
        (ItemKind::Branch, Cow::Borrowed(name)) => Cow::Borrowed(short_branch_name(name)),
        (ItemKind::Branch, Cow::Owned(name)) => Cow::Owned(short_branch_name(&name).to_owned()),
        (_, name) => name,
    }
}

/// Returns the key under which slots are compared: the slot's name without case differences.
pub(crate) fn slot_key(slot: &str) -> String {
    fold_case(slot)
}

/// Returns a name in NFC and without case differences, for comparison.
pub(super) fn fold_case(name: &str) -> String {
    to_nfc(&unify_case(&to_nfc(name))).into_owned()
}

/// Returns a text without case differences.
pub(super) fn unify_case(text: &str) -> String {
    // Some letters have two lower-case forms, such as the Greek sigma.
    text.to_uppercase().to_lowercase()
}

/// Returns a text in Unicode's normalization form C (NFC).
pub(super) fn to_nfc(text: &str) -> Cow<'_, str> {
    ComposingNormalizerBorrowed::new_nfc().normalize(text)
}

/// The invisible characters below U+10000, as a character class of an ECMA-262 regular expression.
pub(super) const INVISIBLE: &str = concat!(
    r"\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5",
    r"\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb",
);

/// Returns whether a character is invisible and not a space.
///
/// Control characters and line breaks are rejected earlier, when a line of text is parsed.
pub(super) fn is_invisible(c: char) -> bool {
    // Annotation marks, and the Braille pattern without dots.
    let others = matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{2800}');
    others || CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c)
}

/// Returns a path relative to its repository's root, without empty segments and without `.` segments.
///
/// The root itself is `.`.
fn parse_path(path: &str) -> Result<String, String> {
    if path.contains('\\') {
        return Err("a path has / between its parts, not \\".to_owned());
    }
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    if parts.contains(&"..") {
        return Err("a path begins at the root of the repository and has no part ..".to_owned());
    }
    Ok(if parts.is_empty() { ".".to_owned() } else { parts.join("/") })
}

/// Returns the short name of a branch. Fails unless `git check-ref-format --branch` accepts the name.
fn parse_branch(name: &str) -> Result<&str, String> {
    let name = short_branch_name(name);
    let fault = if name.is_empty() {
        "it is empty"
    } else if name == "@" || name == "HEAD" {
        "@ and HEAD stand for another branch"
    } else if name.starts_with('-') {
        "it begins with -"
    } else if name.split('/').any(str::is_empty) {
        "it begins or ends with /, or has two in a row"
    } else if name.split('/').any(|part| part.starts_with('.') || part.ends_with(".lock")) {
        "a part of it begins with . or ends with .lock"
    } else if name.ends_with('.') || name.contains("..") {
        "it ends with . or has two in a row"
    } else if name.contains("@{") {
        "it has @{"
    } else if name.contains([' ', '~', '^', ':', '?', '*', '[', '\\']) {
        "it has a space or one of ~ ^ : ? * [ \\"
    } else {
        return Ok(name);
    };
    Err(format!("git does not accept this name of a branch: {fault}"))
}

/// Returns the name of a branch without `refs/heads/`.
fn short_branch_name(mut name: &str) -> &str {
    while let Some(rest) = name.strip_prefix(BRANCH_PREFIX) {
        name = rest;
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Text;

    const KINDS: [ItemKind; 6] =
        [ItemKind::Lane, ItemKind::Crate, ItemKind::Branch, ItemKind::Path, ItemKind::Glob, ItemKind::Slot];

    #[test]
    fn a_name_is_stored_in_nfc_whatever_it_names() {
        for kind in KINDS {
            for (sent, wanted) in [
                ("u\u{308}ber", "\u{fc}ber"),
                ("\u{fc}ber", "\u{fc}ber"),
                ("\u{1112}\u{1161}\u{11ab}", "\u{d55c}"),
                ("\u{212a}", "K"),
                ("a\u{323}\u{307}", "\u{1ea1}\u{307}"),
                ("a\u{307}\u{323}", "\u{1ea1}\u{307}"),
                ("\u{ff21}", "\u{ff21}"),
                ("\u{fb01}", "\u{fb01}"),
            ] {
                let read = parse_name(kind, sent).unwrap();
                assert_eq!(read, wanted, "{kind:?} {sent:?}");
                assert_eq!(comparison_form(kind, sent), wanted, "{kind:?} {sent:?}");
                assert_eq!(comparison_form(kind, &read), wanted, "{kind:?} {sent:?}");
            }
            assert_ne!(parse_name(kind, "Main"), parse_name(kind, "main"), "case counts in what is stored");
        }
    }

    #[test]
    fn what_is_not_seen_is_rejected_whatever_it_names() {
        let hidden = "\u{ad}\u{34f}\u{61c}\u{115f}\u{17b4}\u{180b}\u{180e}\u{200b}\u{200c}\u{200d}\u{200e}\
                      \u{202e}\u{2060}\u{2064}\u{2066}\u{206f}\u{2800}\u{3164}\u{fe00}\u{fe0f}\u{feff}\
                      \u{ffa0}\u{fffa}\u{1d173}\u{e0001}\u{e0061}\u{e0100}";
        for kind in KINDS {
            for c in hidden.chars() {
                for sent in [format!("a{c}b"), format!("{c}ab"), format!("ab{c}"), c.to_string()] {
                    let fault = parse_name(kind, &sent).unwrap_err();
                    assert!(fault.contains(&format!("U+{:04X}", u32::from(c))), "{kind:?} {sent:?}: {fault}");
                }
            }
            for blank in [' ', '\u{a0}', '\u{1680}', '\u{2003}', '\u{202f}', '\u{3000}'] {
                for sent in [format!("{blank}ab"), format!("ab{blank}"), blank.to_string()] {
                    parse_name(kind, &sent).unwrap_err();
                }
                let is_branch_with_space = kind == ItemKind::Branch && blank == ' ';
                assert_eq!(
                    parse_name(kind, &format!("a{blank}b")).is_ok(),
                    !is_branch_with_space,
                    "{kind:?}"
                );
            }
        }
        for sent in ["/ a", "./ a/", "a /", "/ "] {
            assert!(
                parse_name(ItemKind::Path, sent).is_err(),
                "{sent:?} would be stored with a blank at its end"
            );
        }
    }

    #[test]
    fn the_published_class_has_what_is_not_seen() {
        let is_in_class = |c: char| {
            let mut from = None;
            let mut found = false;
            for part in INVISIBLE.split("\\u").skip(1) {
                let end = u32::from_str_radix(&part[..4], 16).unwrap();
                found |= (from.take().unwrap_or(end)..=end).contains(&u32::from(c));
                from = part.ends_with('-').then_some(end);
            }
            found
        };
        for c in '\0'..='\u{ffff}' {
            let is_rejected = Text::<1, 1>::new(c.to_string()).is_err() || is_invisible(c);
            assert_eq!(is_in_class(c), is_rejected, "U+{:04X}", u32::from(c));
        }
    }

    #[test]
    fn a_name_that_is_too_long_in_nfc_is_rejected() {
        let long = "\u{958}".repeat(FOOTPRINT_ITEM_MAX / 2 + 1);
        for kind in KINDS {
            assert!(parse_name(kind, &long).unwrap_err().contains("NFC"), "{kind:?}");
        }
    }

    #[test]
    fn a_branch_is_a_name_that_git_accepts_without_its_folder() {
        for (sent, wanted) in [
            ("main", "main"),
            ("refs/heads/main", "main"),
            ("refs/heads/refs/heads/main", "main"),
            ("refs/heads", "refs/heads"),
            ("refs/tags/v1", "refs/tags/v1"),
            ("Refs/heads/main", "Refs/heads/main"),
            ("feature/x.y", "feature/x.y"),
            ("a@b", "a@b"),
            ("{x}", "{x}"),
            ("a-", "a-"),
            ("locked.lock.x", "locked.lock.x"),
            ("head", "head"),
            ("\u{e4}", "\u{e4}"),
        ] {
            assert_eq!(parse_name(ItemKind::Branch, sent).as_deref(), Ok(wanted), "{sent}");
            assert_eq!(comparison_form(ItemKind::Branch, sent), wanted, "{sent}");
        }
        for sent in [
            "refs/heads/",
            "/",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a/.b",
            "a.lock",
            "a.lock/b",
            "a.",
            "a..b",
            "a@{1}",
            "@",
            "HEAD",
            "refs/heads/HEAD",
            "-a",
            "a b",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[b",
            "a\\b",
            "",
        ] {
            let fault = parse_name(ItemKind::Branch, sent).unwrap_err();
            assert!(fault.starts_with("git does not accept"), "{sent}: {fault}");
        }
        assert_eq!(parse_name(ItemKind::Lane, "refs/heads/main").as_deref(), Ok("refs/heads/main"));
    }

    #[test]
    fn slots_are_compared_without_case_in_nfc() {
        for (one, other) in [("GPU", "gpu"), ("\u{3b0}", "\u{3ab}\u{301}"), ("STRASSE", "stra\u{df}e")] {
            assert_eq!(slot_key(one), slot_key(other), "{one} {other}");
        }
        assert_eq!(slot_key("U\u{308}"), "\u{fc}");
        assert_ne!(slot_key("u"), slot_key("\u{fc}"));
    }
}
