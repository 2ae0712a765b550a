//! Common mistakes in a text that should be a token: a placeholder, quotation marks, a scheme, white space.
//!
//! A token begins with `svc_` and contains only letters, digits, `_` and `-`, so none of these can be a
//! token. Messages never repeat the text.

use crate::mark::strip_byte_order_mark;

const PLACEHOLDER: &str = "is a placeholder, such as ${SVC_TOKEN} or <your token>, that no program has \
    replaced: put the token itself there, which begins with svc_";
const QUOTED: &str = "is in quotation marks: leave them out";
const SCHEME: &str = "begins with a scheme: leave `Bearer ` out, and send the token alone";
const WHITE_SPACE: &str = "has white space or a line break in it: a token has none";

/// Quotation marks that people put around a token.
const QUOTATION_MARKS: [char; 9] =
    ['"', '\'', '`', '\u{201c}', '\u{201d}', '\u{201e}', '\u{2018}', '\u{2019}', '\u{201a}'];

/// Returns a token without the characters that editors add around it: a byte order mark, spaces and line
/// breaks.
pub(crate) fn trimmed(text: &str) -> &str {
    strip_byte_order_mark(text).trim()
}

/// Returns the reason why a text cannot be a token, as the end of a sentence, or `None` if the text may be a
/// token.
pub(crate) fn flaw(text: &str) -> Option<&'static str> {
    let bare = without_decoration(text);
    if is_placeholder(bare) {
        return Some(PLACEHOLDER);
    }
    if text.starts_with(QUOTATION_MARKS) || text.ends_with(QUOTATION_MARKS) {
        return Some(QUOTED);
    }
    if without_scheme(text).is_some() {
        return Some(SCHEME);
    }
    text.contains(char::is_whitespace).then_some(WHITE_SPACE)
}

/// Returns the text without quotation marks around it and without schemes before it.
fn without_decoration(text: &str) -> &str {
    let mut bare = text;
    loop {
        let unmarked = bare.trim_matches(QUOTATION_MARKS).trim();
        let next = without_scheme(unmarked).unwrap_or(unmarked);
        if next == bare {
            return bare;
        }
        bare = next;
    }
}

/// Returns the text after the scheme `Bearer`, or `None` if the text does not begin with it.
fn without_scheme(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_once(char::is_whitespace)?;
    scheme.trim_end_matches(':').eq_ignore_ascii_case("bearer").then(|| rest.trim_start())
}

/// Returns whether a text is the name of a variable, as in configurations, or another placeholder.
fn is_placeholder(text: &str) -> bool {
    let is_between =
        |begin: &str, end: &str| text.len() > 1 && text.starts_with(begin) && text.ends_with(end);
    let lower = text.to_ascii_lowercase();
    text.starts_with('$')
        || is_between("{", "}")
        || is_between("<", ">")
        || is_between("%", "%")
        || is_between("[", "]")
        || lower.starts_with("env:")
        || matches!(lower.as_str(), "..." | "\u{2026}" | "svc_..." | "svc_\u{2026}" | "svc_token")
        || lower.starts_with("your")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_named() {
        for (text, wanted) in [
            ("svc_0aB-_9", None),
            ("${SVC_TOKEN}", Some(PLACEHOLDER)),
            ("$SVC_TOKEN", Some(PLACEHOLDER)),
            ("$env:SVC_TOKEN", Some(PLACEHOLDER)),
            ("${env:SVC_TOKEN}", Some(PLACEHOLDER)),
            ("${input:svc-token}", Some(PLACEHOLDER)),
            ("${SVC_TOKEN:-}", Some(PLACEHOLDER)),
            ("{env:SVC_TOKEN}", Some(PLACEHOLDER)),
            ("{{ svc_token }}", Some(PLACEHOLDER)),
            ("{SVC_TOKEN}", Some(PLACEHOLDER)),
            ("%SVC_TOKEN%", Some(PLACEHOLDER)),
            ("<your token>", Some(PLACEHOLDER)),
            ("<token>", Some(PLACEHOLDER)),
            ("[token]", Some(PLACEHOLDER)),
            ("env:SVC_TOKEN", Some(PLACEHOLDER)),
            ("your-token-here", Some(PLACEHOLDER)),
            ("YOUR_TOKEN", Some(PLACEHOLDER)),
            ("SVC_TOKEN", Some(PLACEHOLDER)),
            ("svc_...", Some(PLACEHOLDER)),
            ("...", Some(PLACEHOLDER)),
            ("\"${SVC_TOKEN}\"", Some(PLACEHOLDER)),
            ("Bearer ${SVC_TOKEN}", Some(PLACEHOLDER)),
            ("\"Bearer $SVC_TOKEN\"", Some(PLACEHOLDER)),
            ("\"svc_0a\"", Some(QUOTED)),
            ("'svc_0a'", Some(QUOTED)),
            ("`svc_0a`", Some(QUOTED)),
            ("\u{201c}svc_0a\u{201d}", Some(QUOTED)),
            ("\"svc_0a", Some(QUOTED)),
            ("svc_0a'", Some(QUOTED)),
            ("\"Bearer svc_0a\"", Some(QUOTED)),
            ("Bearer svc_0a", Some(SCHEME)),
            ("bearer\tsvc_0a", Some(SCHEME)),
            ("Bearer: svc_0a", Some(SCHEME)),
            ("svc_0a svc_0b", Some(WHITE_SPACE)),
            ("svc_0a\nsvc_0b", Some(WHITE_SPACE)),
            ("nonsense", None),
        ] {
            assert_eq!(flaw(text), wanted, "{text:?}");
        }
        for text in ["svc_0a", "svc_0a\n", "svc_0a\r\n", "\u{feff}svc_0a\r\n", " svc_0a\t"] {
            assert_eq!(trimmed(text), "svc_0a", "{text:?}");
        }
    }
}
