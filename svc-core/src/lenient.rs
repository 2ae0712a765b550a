//! Lenient parsing of external JSON, which does not fail because of members that are not used.
//!
//! Only the requested members are parsed. A text that is not JSON is rejected. Within JSON,
//!
//! - an invalid character, such as half of a surrogate pair, becomes SUBSTITUTE, and so does NUL;
//! - a number out of range, or a value that is nested too deep, becomes an empty object, which is not a valid
//!   value of any member with an effect;
//! - a member that occurs several times becomes a list of its values.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer as _, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::value::RawValue;
use serde_json::{Deserializer, Map, Value};

/// Maximum number of values, counted over all depths. Values within unused members do not count.
const VALUES_MAX: usize = 100_000;

/// Maximum nesting depth of lists and objects. Each level reads the text once more.
const DEPTH_MAX: usize = 12;

/// The reason why a JSON text was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFailure {
    /// The text does not follow the grammar of RFC 8259.
    NotJson,
    /// The text is JSON but not an object.
    NotAnObject,
    /// The used members have too many values.
    TooMany,
}

/// Parses the used members of an object.
///
/// `stored_name` returns the name under which to store a member, or `None` if the member is not used.
pub fn members(
    text: &[u8],
    stored_name: impl Fn(&str) -> Option<String>,
) -> Result<Map<String, Value>, ReadFailure> {
    let text = replace_unstorable(text);
    let reader = Reader::default();
    let whole: &RawValue = serde_json::from_slice(&text).map_err(|_| ReadFailure::NotJson)?;
    if !whole.get().starts_with('{') {
        return Err(ReadFailure::NotAnObject);
    }
    let mut read = Map::new();
    reader.for_each_member(whole, |name, raw| {
        if let Some(name) = stored_name(&name) {
            add_member(&mut read, name, reader.value(raw, DEPTH_MAX)?);
        }
        Ok(())
    })?;
    Ok(read)
}

/// Parses a JSON value.
pub fn value(text: &[u8]) -> Result<Value, ReadFailure> {
    let text = replace_unstorable(text);
    let whole: &RawValue = serde_json::from_slice(&text).map_err(|_| ReadFailure::NotJson)?;
    Reader::default().value(whole, DEPTH_MAX)
}

/// Adds a value to a member. If the member already has another value, it becomes a list of both values.
fn add_member(members: &mut Map<String, Value>, name: String, value: Value) {
    match members.entry(name) {
        Entry::Vacant(entry) => {
            entry.insert(value);
        }
        Entry::Occupied(mut entry) if *entry.get() != value => {
            let before = entry.get_mut().take();
            entry.insert(Value::Array(vec![before, value]));
        }
        Entry::Occupied(_) => {}
    }
}

/// A parser with a limit on the number of values.
struct Reader {
    /// Number of values that may still be read.
    values_left: Cell<usize>,
}

impl Default for Reader {
    fn default() -> Self {
        Self { values_left: Cell::new(VALUES_MAX) }
    }
}

impl Reader {
    /// Parses a value. Values below `depth` levels become empty objects.
    fn value(&self, raw: &RawValue, depth: usize) -> Result<Value, ReadFailure> {
        let left = self.values_left.get().checked_sub(1).ok_or(ReadFailure::TooMany)?;
        self.values_left.set(left);
        let Some(below) = depth.checked_sub(1) else { return Ok(Value::Object(Map::new())) };
        match raw.get().as_bytes().first() {
            Some(b'{') => {
                let mut read = Map::new();
                self.for_each_member(raw, |name, raw| {
                    add_member(&mut read, name.into_owned(), self.value(raw, below)?);
                    Ok(())
                })?;
                Ok(Value::Object(read))
            }
            Some(b'[') => {
                let mut read = Vec::new();
                self.for_each_item(raw, |raw| {
                    read.push(self.value(raw, below)?);
                    Ok(())
                })?;
                Ok(Value::Array(read))
            }
            _ => Ok(serde_json::from_str(raw.get()).unwrap_or_else(|_| Value::Object(Map::new()))),
        }
    }

    fn for_each_member<'t>(
        &self,
        raw: &'t RawValue,
        each: impl FnMut(Cow<'t, str>, &'t RawValue) -> Result<(), ReadFailure>,
    ) -> Result<(), ReadFailure> {
        let mut members = MemberVisitor { each, failed: None };
        let read = Deserializer::from_str(raw.get()).deserialize_map(&mut members);
        read.map_err(|_| members.failed.unwrap_or(ReadFailure::NotJson))
    }

    fn for_each_item<'t>(
        &self,
        raw: &'t RawValue,
        each: impl FnMut(&'t RawValue) -> Result<(), ReadFailure>,
    ) -> Result<(), ReadFailure> {
        let mut items = ItemVisitor { each, failed: None };
        let read = Deserializer::from_str(raw.get()).deserialize_seq(&mut items);
        read.map_err(|_| items.failed.unwrap_or(ReadFailure::NotJson))
    }
}

#[derive(Deserialize)]
struct Name<'t>(#[serde(borrow)] Cow<'t, str>);

/// A visitor that passes the members of an object to a function, until one fails.
struct MemberVisitor<F> {
    each: F,
    failed: Option<ReadFailure>,
}

impl<'t, F: FnMut(Cow<'t, str>, &'t RawValue) -> Result<(), ReadFailure>> Visitor<'t>
    for &mut MemberVisitor<F>
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut access: A) -> Result<(), A::Error> {
        while let Some((Name(name), raw)) = access.next_entry()? {
            (self.each)(name, raw).map_err(|why| {
                self.failed = Some(why);
                A::Error::custom("unread")
            })?;
        }
        Ok(())
    }
}

/// A visitor that passes the items of a list to a function, until one fails.
struct ItemVisitor<F> {
    each: F,
    failed: Option<ReadFailure>,
}

impl<'t, F: FnMut(&'t RawValue) -> Result<(), ReadFailure>> Visitor<'t> for &mut ItemVisitor<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut access: A) -> Result<(), A::Error> {
        while let Some(raw) = access.next_element()? {
            (self.each)(raw).map_err(|why| {
                self.failed = Some(why);
                A::Error::custom("unread")
            })?;
        }
        Ok(())
    }
}

/// Replaces NUL with the control character SUBSTITUTE in a text that is not JSON, such as a query.
pub fn text(text: &str) -> String {
    text.replace('\0', "\u{1a}")
}

/// Replaces text that cannot be stored with the control character SUBSTITUTE.
///
/// Such text is NUL, half of a surrogate pair (as in a name that was cut within a character), and bytes that
/// are not UTF-8. Members with an effect reject SUBSTITUTE; in decorative members, it is shown as a space.
fn replace_unstorable(text: &[u8]) -> Vec<u8> {
    const SUBSTITUTE: &[u8] = b"\\u001a";
    let mut written = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        substitute_escapes(chunk.valid().as_bytes(), SUBSTITUTE, &mut written);
        if !chunk.invalid().is_empty() {
            written.extend_from_slice(SUBSTITUTE);
        }
    }
    written
}

/// Copies a text, replacing each escape that cannot be stored with `substitute`.
fn substitute_escapes(text: &[u8], substitute: &[u8], written: &mut Vec<u8>) {
    let unit = |at: usize| {
        let digits = text.get(at..at.checked_add(6)?)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut at = 0_usize;
    while let Some(byte) = text.get(at) {
        let first = unit(at);
        let second = unit(at.saturating_add(6));
        let length = match (first, second) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0 | 0xd800..=0xdfff), _) => 6,
            // An escaped character does not begin another escape.
            _ if *byte == b'\\' => 2,
            _ => 1,
        };
        let end = at.saturating_add(length).min(text.len());
        match length {
            6 => written.extend_from_slice(substitute),
            _ => written.extend_from_slice(text.get(at..end).unwrap_or_default()),
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<Value, ReadFailure> {
        members(text.as_bytes(), |name| (!name.starts_with('x')).then(|| name.to_lowercase()))
            .map(Value::from)
    }

    #[test]
    fn what_is_not_used_makes_nothing_fail() {
        let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
        let many = format!("[{}1]", "1,".repeat(VALUES_MAX));
        for rest in [
            format!("\"x\":{deep}"),
            format!("\"x\":{many}"),
            "\"x\":1e999".to_owned(),
            "\"x\":1,\"x\":2".to_owned(),
            "\"x\":{\"b\":1,\"b\":2}".to_owned(),
            "\"x\\ud800\":\"\\udc00\\u0000\"".to_owned(),
        ] {
            assert_eq!(read(&format!("{{{rest},\"a\":true}}")), Ok(json!({"a": true})), "{rest:.40}");
            assert_eq!(read(&format!("{{\"a\":true,{rest}}}")), Ok(json!({"a": true})), "{rest:.40}");
        }
        let odd = [b"{\"x\":\"\xff\xfe\",\"\x78\xe9\":1,\"a\":\"Andr\xe9\"}".as_slice(), b" "].concat();
        assert_eq!(
            members(&odd, |name| (name == "a").then(|| name.to_owned())).map(Value::from),
            Ok(json!({"a": "Andr\u{1a}"}))
        );
    }

    #[test]
    fn what_cannot_be_a_value_is_an_empty_object_or_a_list() {
        for (sent, wanted) in [
            ("1e999", json!({})),
            ("{\"b\":-1e999}", json!({"b": {}})),
            ("[[[[[[[[[[[[1]]]]]]]]]]]]", json!([[[[[[[[[[[[{}]]]]]]]]]]]])),
            ("{\"b\":1,\"b\":2}", json!({"b": [1, 2]})),
            ("{\"b\":[1],\"b\":[2]}", json!({"b": [[1], [2]]})),
            ("{\"b\":1,\"b\":1}", json!({"b": 1})),
            ("123456789012345678901234567890", json!(123_456_789_012_345_678_901_234_567_890_f64)),
            ("\"\\ud83d\\ude00\"", json!("\u{1f600}")),
        ] {
            assert_eq!(value(sent.as_bytes()), Ok(wanted.clone()), "{sent}");
            assert_eq!(read(&format!("{{\"A\":{sent}}}")), Ok(json!({"a": wanted})), "{sent}");
        }
        assert_eq!(read("{\"a\":true,\"A\":false}"), Ok(json!({"a": [true, false]})));
    }

    #[test]
    fn what_is_not_json_is_refused_and_so_are_too_many_values() {
        let cut = ["{\"a\":\"\\u00\"}", "{\"a\":\"\\"];
        for text in ["", "{", "{\"a\":1,}", "{\"a\":tru}", "{\"x\":}", "{\"a\":1} 2"].iter().chain(&cut) {
            assert_eq!(read(text), Err(ReadFailure::NotJson), "{text}");
        }
        for text in ["[]", "7", "\"{}\"", "null"] {
            assert_eq!(read(text), Err(ReadFailure::NotAnObject), "{text}");
        }
        let many = |count: usize| format!("{{\"a\":[{}1]}}", "1,".repeat(count));
        assert!(read(&many(VALUES_MAX - 2)).is_ok());
        assert_eq!(read(&many(VALUES_MAX - 1)), Err(ReadFailure::TooMany));
    }

    #[test]
    fn characters_that_nothing_keeps_are_substituted() {
        for (sent, wanted) in [
            (r"A\u0000da", "A\u{1a}da"),
            (r"Ada \ud83d", "Ada \u{1a}"),
            (r"\uDE00\ud83d", "\u{1a}\u{1a}"),
            (r"\ud83d\ud83d\ude00\u0041", "\u{1a}\u{1f600}A"),
            (r"\\u0000\u0041\n", "\\u0000A\n"),
            ("é\u{1f600}", "é\u{1f600}"),
        ] {
            assert_eq!(read(&format!("{{\"a\": \"{sent}\"}}")), Ok(json!({"a": wanted})), "{sent}");
        }
    }
}
