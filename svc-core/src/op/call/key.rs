//! Idempotency keys, by which the server recognises a repeated request (`Idempotency-Key`,
//! draft-ietf-httpapi-idempotency-key-header).

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};

/// Maximum number of characters in an idempotency key.
const LENGTH_MAX: usize = 255;

/// An idempotency key: a unique text that a client chooses for a request. The server recognises a repeated
/// request by the same key.
#[derive(Clone, PartialEq, Eq)]
pub struct IdempotencyKey(Arc<str>);

impl IdempotencyKey {
    /// Description of a valid key, for error messages.
    pub const EXPECTED: &str = "1 to 255 visible ASCII characters, bare or in double quotes";

    /// Regular expression that a valid key matches.
    pub const PATTERN: &str = "^(\"[!-~]{1,510}\"|[!#-~][!-~]{0,254})$";

    /// Reads a key of 1 to 255 visible ASCII characters, in double quotes or bare.
    ///
    /// In quotes, the escapes `\"` and `\\` mean a quotation mark and a backslash (RFC 9651, section 3.3.3).
    /// Fails with 400 `malformed-request` for any other text.
    pub fn parse(text: &str) -> Result<Self> {
        let wanted = || Error::malformed(format!("the idempotency key must be {}", Self::EXPECTED));
        let key = if text.starts_with('"') { unquote(text).ok_or_else(wanted)? } else { text.to_owned() };
        let is_visible = key.bytes().all(|byte| byte.is_ascii_graphic());
        if key.is_empty() || key.len() > LENGTH_MAX || !is_visible {
            return Err(wanted());
        }
        Ok(Self(key.into()))
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Prints only the name of the type, so that logs do not contain keys.
impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdempotencyKey")
    }
}

/// Returns the text between double quotes with its escapes decoded, or `None` if a quote or an escape is
/// invalid.
fn unquote(text: &str) -> Option<String> {
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    let mut key = String::with_capacity(inner.len());
    let mut rest = inner.chars();
    while let Some(next) = rest.next() {
        key.push(match next {
            '"' => return None,
            '\\' => rest.next().filter(|escaped| matches!(escaped, '"' | '\\'))?,
            other => other,
        });
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_visible_ascii_in_quotes_or_bare() {
        let long = "k".repeat(LENGTH_MAX);
        let cases = [
            ("a", Some("a")),
            ("\"a\"", Some("a")),
            (r#""a\"b\\c""#, Some(r#"a"b\c"#)),
            ("a\"b\\c", Some("a\"b\\c")),
            (&long, Some(&*long)),
            ("", None),
            ("\"\"", None),
            ("\"", None),
            ("\"a", None),
            (r#""a"b""#, None),
            (r#""a\""#, None),
            (r#""a\b""#, None),
            ("a b", None),
            ("\"a b\"", None),
            ("a\u{7f}", None),
            ("k\u{e9}y", None),
            (&format!("{long}k"), None),
        ];
        for (text, wanted) in cases {
            let read = IdempotencyKey::parse(text);
            assert_eq!(read.as_ref().ok().map(IdempotencyKey::as_str), wanted, "{text}");
        }
    }
}
