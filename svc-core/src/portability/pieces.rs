//! Splits JSON text into values while the text is being received, for a reader that parses one value at a
//! time.
//!
//! This module only finds the end of each value; the reader parses the value. A long text that cannot become
//! a JSON value is rejected early. The maximum size limits how much of a value is in memory.

use std::io::{self, Read};
use std::ops::Range;

use serde::de::IgnoredAny;

use crate::mark::strip_byte_order_mark_bytes;

/// Maximum consecutive bytes of white space.
pub(super) const SPACES_MAX: usize = 64 << 10;

/// Length in bytes of a byte order mark.
const MARK_LEN: usize = 3;

/// Number of bytes read from the source at once.
const READ_BYTES: usize = 64 << 10;

/// Reason why the next value cannot be returned.
#[derive(Debug)]
pub(super) enum SplitError {
    /// The text ends before the end of the value.
    UnexpectedEnd,
    /// The value is larger than the maximum.
    TooLarge,
    /// The text is not the start of a JSON value.
    NotJson,
    /// The text contains too many consecutive bytes of white space.
    TooManySpaces,
    Io(io::Error),
}

/// Splits a text into JSON values. Skips a byte order mark at the start.
pub(super) struct ValueSplitter<R> {
    source: R,
    buffer: Vec<u8>,
    /// Offset in the buffer of the next byte to take.
    at: usize,
    has_begun: bool,
}

impl<R: Read> ValueSplitter<R> {
    pub fn new(source: R) -> Self {
        Self { source, buffer: Vec::new(), at: 0, has_begun: false }
    }

    /// Returns the next byte that is not white space, without consuming it, or `None` at the end of the text.
    pub fn peek(&mut self) -> Result<Option<u8>, SplitError> {
        self.skip_mark()?;
        let mut skipped = 0_usize;
        loop {
            let left = self.buffer.get(self.at..).unwrap_or_default();
            let spaces = left.iter().position(|byte| !is_space(*byte)).unwrap_or(left.len());
            skipped = skipped.saturating_add(spaces);
            if skipped >= SPACES_MAX {
                return Err(SplitError::TooManySpaces);
            }
            self.at = self.at.saturating_add(spaces);
            if let Some(next) = left.get(spaces) {
                return Ok(Some(*next));
            }
            match self.read_more() {
                Err(SplitError::UnexpectedEnd) => return Ok(None),
                read => read?,
            }
        }
    }

    /// Skips the byte order mark at the start of the text.
    fn skip_mark(&mut self) -> Result<(), SplitError> {
        while !self.has_begun {
            self.has_begun = match self.read_more() {
                Err(SplitError::UnexpectedEnd) => true,
                read => read.map(|()| self.buffer.len() >= MARK_LEN)?,
            };
            self.at = self.buffer.len().saturating_sub(strip_byte_order_mark_bytes(&self.buffer).len());
        }
        Ok(())
    }

    /// Consumes the next byte that is not white space if it equals `expected`. Returns whether it did.
    pub fn consume_if(&mut self, expected: u8) -> Result<bool, SplitError> {
        let is_next = self.peek()?.ok_or(SplitError::UnexpectedEnd)? == expected;
        if is_next {
            self.at = self.at.saturating_add(1);
        }
        Ok(is_next)
    }

    /// Returns the next value, of up to `max_bytes` bytes.
    ///
    /// A value is a complete list, object or string, or the text up to the next delimiter. A larger value is
    /// accepted only if its end is already in the buffer.
    pub fn next_value(&mut self, max_bytes: usize) -> Result<&[u8], SplitError> {
        let place = self.next_range(max_bytes)?;
        Ok(self.bytes_in(place))
    }

    /// Finds the next value as [`Self::next_value`] does, and returns the value's range in the buffer.
    ///
    /// The range is valid until the next read.
    pub fn next_range(&mut self, max_bytes: usize) -> Result<Range<usize>, SplitError> {
        self.peek()?.ok_or(SplitError::UnexpectedEnd)?;
        let mut scan = ScanState::default();
        let mut scanned = 0_usize;
        let mut checked_at = READ_BYTES;
        let len = loop {
            let left = self.buffer.get(self.at..).unwrap_or_default();
            if let Some(more) = scan.find_value_end(left.get(scanned..).unwrap_or_default())? {
                break scanned.saturating_add(more);
            }
            scanned = left.len();
            if scanned > max_bytes {
                return Err(SplitError::TooLarge);
            }
            // Each check scans the whole buffer, so checks are rare.
            if scanned >= checked_at {
                if !is_json_prefix(left) {
                    return Err(SplitError::NotJson);
                }
                checked_at = scanned.saturating_mul(2);
            }
            self.read_more()?;
        };
        let from = self.at;
        self.at = from.saturating_add(len);
        Ok(from..self.at)
    }

    /// Returns the bytes in this range of the buffer.
    pub fn bytes_in(&self, range: Range<usize>) -> &[u8] {
        self.buffer.get(range).unwrap_or_default()
    }

    /// Returns the buffered bytes of a value whose end was not found.
    pub fn incomplete_value(&self) -> &[u8] {
        self.buffer.get(self.at..).unwrap_or_default()
    }

    /// Discards consumed bytes, and appends the bytes of the next read to the buffer.
    fn read_more(&mut self) -> Result<(), SplitError> {
        self.buffer.drain(..self.at.min(self.buffer.len()));
        self.at = 0;
        let before = self.buffer.len();
        self.buffer.resize(before.saturating_add(READ_BYTES), 0);
        let read = loop {
            match self.source.read(self.buffer.get_mut(before..).unwrap_or_default()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        self.buffer.truncate(before.saturating_add(*read.as_ref().unwrap_or(&0)));
        match read {
            Ok(0) => Err(SplitError::UnexpectedEnd),
            Ok(_) => Ok(()),
            Err(error) => Err(SplitError::Io(error)),
        }
    }
}

/// Returns whether a text is the beginning of a JSON value that more text could complete.
pub(super) fn is_json_prefix(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_err_and(|error| error.is_eof())
}

/// State of a scan for the end of a value.
#[derive(Default)]
struct ScanState {
    depth: usize,
    is_in_text: bool,
    is_escaped: bool,
    /// Whether a value has begun that is neither a string nor in brackets.
    is_bare: bool,
    /// Number of consecutive bytes of white space just scanned.
    spaces: usize,
}

impl ScanState {
    /// Returns how many of these bytes are part of the value, or `None` if the value does not end in these
    /// bytes.
    fn find_value_end(&mut self, bytes: &[u8]) -> Result<Option<usize>, SplitError> {
        for (place, byte) in bytes.iter().enumerate() {
            if self.is_in_text {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => {
                        self.is_in_text = false;
                        if self.depth == 0 {
                            return Ok(place.checked_add(1));
                        }
                    }
                    _ => {}
                }
                continue;
            }
            self.spaces = if is_space(*byte) { self.spaces.saturating_add(1) } else { 0 };
            if self.spaces >= SPACES_MAX {
                return Err(SplitError::TooManySpaces);
            }
            match byte {
                _ if self.is_bare && is_delimiter(*byte) => return Ok(Some(place)),
                _ if self.is_bare => {}
                b'"' => self.is_in_text = true,
                b'{' | b'[' => self.depth = self.depth.saturating_add(1),
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if self.depth == 0 {
                        return Ok(place.checked_add(1));
                    }
                }
                _ => self.is_bare = self.depth == 0,
            }
        }
        Ok(None)
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

fn is_delimiter(byte: u8) -> bool {
    is_space(byte) || matches!(byte, b',' | b':' | b'[' | b']' | b'{' | b'}' | b'"')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// A reader that returns a fixed number of bytes at a time.
    struct Slow<'t>(&'t [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let size = self.1.min(into.len()).min(self.0.len());
            let (now, later) = self.0.split_at(size);
            into[..size].copy_from_slice(now);
            self.0 = later;
            Ok(size)
        }
    }

    /// Reads a list value by value.
    fn listed(text: &[u8], step: usize, most: usize) -> Result<Vec<Vec<u8>>, SplitError> {
        let mut pieces = ValueSplitter::new(Slow(text, step));
        let mut found = Vec::new();
        assert!(pieces.consume_if(b'[')?);
        if pieces.consume_if(b']')? {
            return Ok(found);
        }
        loop {
            found.push(pieces.next_value(most)?.to_vec());
            if !pieces.consume_if(b',')? {
                assert!(pieces.consume_if(b']')?);
                assert_eq!(pieces.peek()?, None);
                return Ok(found);
            }
        }
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            r#"[a-c"\\\[\]{},: ]{0,8}"#.prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(r#"["\\a]{0,3}"#, inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_pieces_are_the_values(
            values in prop::collection::vec(any_json(), 0..6),
            step in 1_usize..40,
            is_pretty in any::<bool>(),
            has_mark in any::<bool>(),
        ) {
            let list = Value::from(values.clone());
            let written = if is_pretty { serde_json::to_vec_pretty } else { serde_json::to_vec };
            let mut text = written(&list).unwrap();
            if has_mark {
                text.splice(0..0, *b"\xef\xbb\xbf");
            }
            let pieces = listed(&text, step, 1 << 20).unwrap();
            let value = |piece: &Vec<u8>| -> Value { serde_json::from_slice(piece).unwrap() };
            prop_assert_eq!(pieces.iter().map(value).collect::<Vec<_>>(), values);
            let first = if has_mark { 3 } else { 1 };
            for end in first..text.len() {
                let cut = listed(&text[..end], step, 1 << 20);
                prop_assert!(matches!(cut, Err(SplitError::UnexpectedEnd)), "cut at {}", end);
            }
        }
    }

    #[test]
    fn a_piece_may_not_be_larger_than_is_allowed() {
        let text = json!([1, "x".repeat(300_000)]).to_string();
        assert_eq!(listed(text.as_bytes(), 1000, 300_002).unwrap().len(), 2);
        assert!(matches!(listed(text.as_bytes(), 1000, 100_000), Err(SplitError::TooLarge)));
        let open = [b"[\"".to_vec(), vec![b'x'; 1 << 20]].concat();
        assert!(
            matches!(listed(&open, 1000, 100_000), Err(SplitError::TooLarge)),
            "it is not read to its end"
        );
    }
}
