//! The byte order mark at the beginning of a text, which every reader of external text skips.

/// The byte order mark, which editors and shells on Windows write.
const MARK: &str = "\u{feff}";

/// Returns a text without a byte order mark at its beginning. A second mark is kept as part of the text.
pub fn strip_byte_order_mark(text: &str) -> &str {
    text.strip_prefix(MARK).unwrap_or(text)
}

/// Returns the bytes of a text without a byte order mark at the beginning, as [`strip_byte_order_mark`] does.
pub fn strip_byte_order_mark_bytes(text: &[u8]) -> &[u8] {
    text.strip_prefix(MARK.as_bytes()).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leading_mark_is_skipped() {
        for (text, rest) in [
            ("\u{feff}{}", "{}"),
            ("\u{feff}\u{feff}{}", "\u{feff}{}"),
            ("a\u{feff}", "a\u{feff}"),
            ("\u{feff}", ""),
            ("", ""),
        ] {
            assert_eq!(strip_byte_order_mark(text), rest, "{text:?}");
            assert_eq!(strip_byte_order_mark_bytes(text.as_bytes()), rest.as_bytes(), "{text:?}");
        }
        assert_eq!(strip_byte_order_mark_bytes(b"\xef\xbb{}"), b"\xef\xbb{}");
    }
}
