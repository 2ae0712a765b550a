//! The path to which the browser is redirected after a sign-in: always on the board, never on another site.
//!
//! Browsers interpret `//host`, `/\host`, tabs and dot segments in special ways, so the grammar does not
//! allow them. A path consists of segments of unreserved characters that do not begin with a dot, then
//! optionally a query and a fragment.

use std::borrow::Cow;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de;
use serde::{Deserialize, Deserializer};

/// Prefix of all paths to which a sign-in may redirect the browser.
pub(super) const BOARD_PREFIX: &str = "/ui/";
/// Maximum bytes of a path to which a sign-in may redirect the browser.
const RETURN_TO_BYTES_MAX: usize = 512;
/// Grammar of [`ReturnTo`] as an ECMA-262 regular expression.
const RETURN_TO_PATTERN: &str = "^/ui/([A-Za-z0-9_~-][A-Za-z0-9._~-]*/)*([A-Za-z0-9_~-][A-Za-z0-9._~-]*)?\
    (\\?[A-Za-z0-9._~=&%+:@,-]*)?(#[A-Za-z0-9._~/=-]*)?$";

/// A path under `/ui/` for the redirect after a sign-in, with an optional query and fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReturnTo(String);

impl ReturnTo {
    /// Creates the path. Fails if `text` does not match the grammar.
    pub fn new(text: &str) -> Result<Self, String> {
        let (rest, fragment) = split_at_first(text, '#');
        let (path, query) = split_at_first(rest, '?');
        let in_query = |c: char| is_unreserved(c) || matches!(c, '=' | '&' | '%' | '+' | ':' | '@' | ',');
        let in_fragment = |c: char| is_unreserved(c) || matches!(c, '/' | '=');
        let fits = text.len() <= RETURN_TO_BYTES_MAX
            && path.strip_prefix(BOARD_PREFIX).is_some_and(has_plain_segments)
            && query.chars().all(in_query)
            && fragment.chars().all(in_fragment);
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(format!(
                "expected a path under {BOARD_PREFIX} of at most {RETURN_TO_BYTES_MAX} plain characters"
            ))
        }
    }
}

/// Returns whether a path without the board's prefix consists of plain segments. The last segment may be
/// empty.
fn has_plain_segments(path: &str) -> bool {
    let is_plain = |segment: &str| {
        !segment.is_empty() && !segment.starts_with('.') && segment.chars().all(is_unreserved)
    };
    let (folders, last) = path.rsplit_once('/').map_or((None, path), |(all, last)| (Some(all), last));
    folders.is_none_or(|all| all.split('/').all(is_plain)) && (last.is_empty() || is_plain(last))
}

fn is_unreserved(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '~' | '-')
}

fn split_at_first(text: &str, separator: char) -> (&str, &str) {
    text.split_once(separator).unwrap_or((text, ""))
}

impl Deref for ReturnTo {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for ReturnTo {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl JsonSchema for ReturnTo {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "ReturnTo".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "maxLength": RETURN_TO_BYTES_MAX, "pattern": RETURN_TO_PATTERN})
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use url::Url;

    use super::*;

    const OWN: &str = "https://svc.example/auth/oidc/callback";

    /// Returns whether a link with this text, on a page of this service, leads a browser to the board.
    fn stays(text: &str) -> bool {
        let own = Url::parse(OWN).unwrap();
        let gone = Url::parse(OWN).unwrap().join(text);
        gone.is_ok_and(|gone| gone.origin() == own.origin() && gone.path().starts_with(BOARD_PREFIX))
    }

    #[test]
    fn only_paths_of_the_board_are_taken() {
        for good in ["/ui/", "/ui/a", "/ui/a/", "/ui/a/b.c?d=1&e=%2F", "/ui/#/threads/1", "/ui/a?b#c"] {
            assert!(ReturnTo::new(good).is_ok() && stays(good), "{good}");
        }
        for bad in [
            "",
            "/",
            "/ui",
            "ui/",
            "/UI/",
            "/uix/",
            "//ui/",
            "/\\ui/",
            "https://evil.example/ui/",
            "/ui//evil",
            "/ui/\\evil",
            "/ui/..",
            "/ui/../auth",
            "/ui/./a",
            "/ui/%2e%2e/auth",
            "/ui/a b",
            "/ui/\ta",
            "/ui/\n",
            "/ui/é",
            "/ui/?a=//b",
            "/ui/?\\",
            "/ui/#\\",
            "\u{0}/ui/",
            " /ui/",
            "/ui/a\u{7f}",
            "/ui/@evil",
            "/ui/a:b",
        ] {
            assert!(ReturnTo::new(bad).is_err(), "{bad:?}");
        }
        let long = format!("/ui/{}", "a".repeat(RETURN_TO_BYTES_MAX - 4));
        assert!(ReturnTo::new(&long).is_ok() && ReturnTo::new(&format!("{long}a")).is_err());
        assert!(!stays("//ui/") && !stays("/ui/../auth") && !stays("/\\evil/ui/"), "what the property sees");
    }

    /// Generates text from an attacker who wants to redirect the browser to another site.
    fn hostile() -> impl Strategy<Value = String> {
        let parts = [
            "/ui/",
            "/",
            "//",
            "\\",
            "..",
            ".",
            "%2e",
            "%2f",
            "%5c",
            "?",
            "#",
            "@",
            ":",
            "https:",
            "evil.example",
            "a",
            "\t",
            "\n",
            " ",
            "javascript:",
            "é",
            "\u{0}",
            "&",
            "=",
        ];
        let known = proptest::sample::select(parts.map(str::to_owned).to_vec());
        let part = prop_oneof![4 => known, 1 => any::<char>().prop_map(String::from)];
        let begin = prop_oneof![3 => Just("/ui/".to_owned()), 1 => Just(String::new())];
        (begin, proptest::collection::vec(part, 0..8)).prop_map(|(begin, parts)| begin + &parts.concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        /// A browser stays on the board of this service with every accepted path.
        #[test]
        fn what_is_taken_stays(text in hostile()) {
            if ReturnTo::new(&text).is_ok() {
                prop_assert!(stays(&text), "{text:?}");
            }
        }
    }
}
