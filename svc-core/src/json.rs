//! JSON as every transport reads it: no object has the same member twice, at any depth.
//!
//! Two readers of one text could otherwise disagree about which of the two members counts.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use crate::text::echo;

/// Why a text could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The text does not follow the grammar of RFC 8259.
    NotJson,
    /// A member appears twice.
    Twice,
    /// It has more values than are allowed.
    TooMany,
}

/// Reads a JSON text of at most `most` values, counted over all depths.
///
/// A value in memory takes many times its bytes in the text. A text in which a member appears twice is
/// rejected.
pub fn read_at_most(text: &[u8], most: usize) -> Result<Value, Unread> {
    let budget = Budget::of(most);
    let mut json = serde_json::Deserializer::from_slice(text);
    let read = budget.reader().deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    read.map_err(|error| match budget.left.get() {
        None => Unread::TooMany,
        Some(_) if error.is_data() => Unread::Twice,
        Some(_) => Unread::NotJson,
    })
}

/// A character of a JSON text that nothing keeps, as UTF-16 has it: NUL, or half of a surrogate pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unfit(pub u16);

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("the character NUL (\\u0000) is not allowed"),
            half => write!(
                f,
                "\\u{half:04x} is half of a surrogate pair, and no character: send both halves, or none"
            ),
        }
    }
}

/// Returns the first character of a JSON text that nothing keeps, and the field in which it is, by its path.
///
/// In a text that is not JSON there may be others.
pub(crate) fn unfit(text: &[u8]) -> Option<(Option<String>, Unfit)> {
    let (at, unfit) = first_unfit(text)?;
    Some((path_to(text, at), unfit))
}

fn first_unfit(text: &[u8]) -> Option<(usize, Unfit)> {
    let unit = |at: usize| {
        let digits = text.get(at..at.checked_add(6)?)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut at = 0_usize;
    loop {
        // The bytes of a surrogate, which are no UTF-8, begin with 0xED.
        let rest = text.get(at..)?;
        at = at.checked_add(rest.iter().position(|byte| matches!(byte, b'\\' | 0 | 0xed))?)?;
        let after = |by: usize| at.checked_add(by).and_then(|at| text.get(at)).copied();
        let found = match (text.get(at)?, unit(at)) {
            (0, _) => Some(0),
            (0xed, _) => match (after(1), after(2)) {
                (Some(second @ 0xa0..=0xbf), Some(third)) => {
                    Some(0xd000 | u16::from(second & 0x3f) << 6 | u16::from(third & 0x3f))
                }
                _ => None,
            },
            (_, Some(0)) => Some(0),
            (_, Some(first @ 0xd800..=0xdbff)) => match unit(at.checked_add(6)?) {
                Some(0xdc00..=0xdfff) => {
                    at = at.checked_add(6)?;
                    None
                }
                _ => Some(first),
            },
            (_, Some(second @ 0xdc00..=0xdfff)) => Some(second),
            _ => None,
        };
        if let Some(found) = found {
            return Some((at, Unfit(found)));
        }
        // What is escaped is no beginning of an escape.
        at = at.checked_add(if text.get(at) == Some(&b'\\') { 2 } else { 1 })?;
    }
}

/// A list or an object that a place is in: the item, or the member.
enum Within {
    Item(usize),
    Member(String),
}

/// Returns the path of the field that stands at `place` of a JSON text; none if it is in no object.
fn path_to(text: &[u8], place: usize) -> Option<String> {
    let (mut within, mut is_name, mut at) = (Vec::new(), false, 0_usize);
    while let Some(byte) = text.get(at).filter(|_| at <= place) {
        match (byte, within.last_mut()) {
            (b'{', _) => within.push(Within::Member(String::new())),
            (b'[', _) => within.push(Within::Item(0)),
            (b'}' | b']', _) => drop(within.pop()),
            (b',', Some(Within::Item(item))) => *item = item.saturating_add(1),
            (b'"', last) => {
                let end = end_of_text(text, at);
                if let (Some(Within::Member(name)), true) = (last, is_name) {
                    let written = text.get(at.saturating_add(1)..end.saturating_sub(1)).unwrap_or_default();
                    let read = text.get(at..end).and_then(|text| serde_json::from_slice(text).ok());
                    let shown = read.filter(|name: &String| !name.contains('\0'));
                    *name = shown.unwrap_or_else(|| String::from_utf8_lossy(written).into_owned());
                }
                at = end;
                continue;
            }
            _ => {}
        }
        is_name = match byte {
            b'{' => true,
            b',' => matches!(within.last(), Some(Within::Member(_))),
            b':' | b'[' => false,
            _ => is_name,
        };
        at = at.saturating_add(1);
    }
    let mut path = String::new();
    for step in within {
        match step {
            Within::Item(item) => path.push_str(&format!("[{item}]")),
            Within::Member(name) if path.is_empty() => path = name,
            Within::Member(name) => path.push_str(&format!(".{name}")),
        }
    }
    (!path.is_empty()).then_some(path)
}

/// Returns where a text ends whose quotation mark stands at `begin`.
fn end_of_text(text: &[u8], begin: usize) -> usize {
    let mut at = begin.saturating_add(1);
    while let Some(byte) = text.get(at) {
        at = at.saturating_add(if *byte == b'\\' { 2 } else { 1 });
        if *byte == b'"' {
            break;
        }
    }
    at
}

/// How many values are read by all readers of it, counted over all depths.
pub(crate) struct Budget {
    most: usize,
    /// How many more; none once there were too many.
    left: Cell<Option<usize>>,
}

impl Budget {
    pub fn of(most: usize) -> Self {
        Self { most, left: Cell::new(Some(most)) }
    }

    /// Returns what reads a value in which no member appears twice.
    pub fn reader(&self) -> impl for<'de> DeserializeSeed<'de, Value = Value> {
        Reader { budget: self }
    }
}

/// Returns the error message for a member that appears twice.
fn twice(name: &str) -> String {
    format!("the field `{}` appears twice", echo(name))
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    budget: &'a Budget,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let Budget { most, left } = self.budget;
        left.set(left.get().and_then(|left| left.checked_sub(1)));
        match left.get() {
            Some(_) => deserializer.deserialize_any(self),
            None => Err(D::Error::custom(format!("more than {most} values"))),
        }
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("the number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            match members.entry(name) {
                Entry::Vacant(entry) => drop(entry.insert(access.next_value_seed(self)?)),
                Entry::Occupied(entry) => return Err(A::Error::custom(twice(entry.key()))),
            }
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &[u8]) -> serde_json::Result<Value> {
        let mut json = serde_json::Deserializer::from_slice(text);
        let value = Budget::of(usize::MAX).reader().deserialize(&mut json)?;
        json.end().map(|()| value)
    }

    #[test]
    fn a_duplicate_member_is_rejected_at_every_depth() {
        for twice in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"[{"b":{"a":1,"c":2,"a":3}}]"#,
            r#"{"x":[[{"a":null,"a":null}]]}"#,
        ] {
            let rejected = read(twice.as_bytes()).unwrap_err();
            assert!(
                rejected.is_data() && rejected.to_string().contains("`a` appears twice"),
                "{twice}: {rejected}"
            );
        }
        assert!(read(br#"{"a":{"a":[{"a":1},{"a":1}]}}"#).is_ok());
        let long = format!(r#"{{"{0}":1,"{0}":2}}"#, "n".repeat(100_000));
        assert!(read(long.as_bytes()).unwrap_err().to_string().len() < 300);
    }

    #[test]
    fn values_are_counted_at_every_depth() {
        let text = br#"{"a":[1,{"b":null}],"c":"d"}"#;
        assert!(read_at_most(text, 6).is_ok());
        assert_eq!(read_at_most(text, 5), Err(Unread::TooMany));
        assert_eq!(read_at_most(br#"{"a":1,"a":2}"#, 2), Err(Unread::Twice));
        assert_eq!(read_at_most(b"[1] 2", 9), Err(Unread::NotJson));
        assert_eq!(read_at_most(b"", 0), Err(Unread::TooMany));
    }

    #[test]
    fn a_character_that_nothing_keeps_is_found_with_its_path() {
        for (text, wanted) in [
            (r#"{"a":"\ud800"}"#, Some((Some("a"), 0xd800))),
            (r#"{"a":"\uDFff"}"#, Some((Some("a"), 0xdfff))),
            (r#"{"a":"\ud83d\ud83d"}"#, Some((Some("a"), 0xd83d))),
            (r#"{"a":"\ud83dx"}"#, Some((Some("a"), 0xd83d))),
            (r#"{"a":"\u0000"}"#, Some((Some("a"), 0))),
            (r#"{"b":["{,:",{"c":[1,2,{"d":"x\u0000"}]}],"e":1}"#, Some((Some("b[1].c[2].d"), 0))),
            (r#"{"b":{"c":1},"d\u0000":2}"#, Some((Some(r"d\u0000"), 0))),
            (r#"{"b":{"c\"":"\udc00"}}"#, Some((Some("b.c\""), 0xdc00))),
            (r#"["\u0000"]"#, Some((Some("[0]"), 0))),
            (r#""\u0000""#, Some((None, 0))),
            ("{\"a\":\"\0\"}", Some((Some("a"), 0))),
            (r#"{"a":"\ud83d\ude00\\u0000\\\\ud800 \u00e4"}"#, None),
            ("{\"a\":\"\u{d7ff}\u{e000}\u{10ffff}\"}", None),
            ("", None),
        ] {
            let found = unfit(text.as_bytes()).map(|(path, unfit)| (path, unfit.0));
            assert_eq!(found, wanted.map(|(path, unit)| (path.map(str::to_owned), unit)), "{text}");
        }
        let raw = [b"{\"a\":[\"".as_slice(), &[0xed, 0xa0, 0xbd], b"\"]}"].concat();
        assert_eq!(unfit(&raw), Some((Some("a[0]".to_owned()), Unfit(0xd83d))));
    }

    proptest! {
        /// Those texts are found that serde_json refuses for their characters, and others only for NUL.
        #[test]
        fn characters_are_found_as_serde_json_reads_them(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    r"\ud83d", r"\ude00", r"\ud83d\ude00", r"\\", r#"\""#, r"\u00e4", "a", "\u{d7ff}", "u",
                ]),
                0..8,
            ),
        ) {
            let text = format!("{{\"a\":\"{}\"}}", parts.concat());
            let is_fit = unfit(text.as_bytes()).is_none();
            prop_assert_eq!(is_fit, serde_json::from_str::<Value>(&text).is_ok(), "{}", text);
        }

        #[test]
        fn any_bytes_are_searched(bytes in any::<Vec<u8>>()) {
            let found = unfit(&bytes);
            prop_assert!(found.is_some() || !bytes.contains(&0));
        }

        /// Accepted texts read as serde_json reads them.
        ///
        /// Only invalid JSON and duplicate members are rejected.
        #[test]
        fn it_agrees_with_the_lenient_reader(text in json_like()) {
            match (read(text.as_bytes()), serde_json::from_str::<Value>(&text)) {
                (Ok(strict), Ok(lenient)) => prop_assert_eq!(strict, lenient),
                (Err(rejected), Ok(_)) => prop_assert!(rejected.to_string().contains("appears twice")),
                (Err(_), Err(_)) => {}
                (Ok(_), Err(error)) => prop_assert!(false, "{error}"),
            }
        }

        #[test]
        fn any_bytes_are_read_or_rejected(bytes in any::<Vec<u8>>()) {
            let lenient = serde_json::from_slice::<Value>(&bytes).is_ok();
            prop_assert!(lenient || read(&bytes).is_err());
        }
    }

    /// Generates texts that are JSON more often than not.
    ///
    /// They have few names, so that some members are duplicates.
    fn json_like() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            Just("true".to_owned()),
            any::<i64>().prop_map(|number| number.to_string()),
            any::<f64>().prop_map(|number| number.to_string()),
            any::<String>().prop_map(|text| Value::from(text).to_string()),
            Just("{".to_owned()),
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            let member = ("[abc]", inner.clone()).prop_map(|(name, value)| format!("\"{name}\":{value}"));
            prop_oneof![
                prop::collection::vec(inner, 0..5).prop_map(|items| format!("[{}]", items.join(","))),
                prop::collection::vec(member, 0..4).prop_map(|members| format!("{{{}}}", members.join(","))),
            ]
        })
    }
}
