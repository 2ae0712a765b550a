//! Canonical JSON (RFC 8785), the form in which all hashed data is stored.
//!
//! Numbers with a fraction or an exponent are rare here and go through the reference crate, which also
//! provides the expected results in tests.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Number, Value};

use crate::Result;
use crate::error::Error;

/// The largest integer that every JSON reader preserves exactly: 2^53 - 1 (RFC 8785, section 3.2.2.3).
const EXACT_INTEGER_MAX: u64 = (1 << 53) - 1;

/// 2^53. From this value on, a double cannot represent every integer, so it may be a rounded integer.
const INEXACT_DOUBLE_MIN: f64 = 9_007_199_254_740_992.0;

/// Returns the canonical text of a value.
///
/// Rejects integers that a reader with IEEE 754 doubles would change. Integers too large for 64 bits have
/// already been read as rounded doubles, so numbers from 2^53 on are rejected in either form.
pub fn to_string(value: &impl Serialize) -> Result<String> {
    let value = serde_json::to_value(value).map_err(Error::internal)?;
    let mut out = String::with_capacity(256);
    write_value(&mut out, &value)?;
    Ok(out)
}

/// Returns the canonical text of a parsed object, as [`to_string`] does.
pub fn object_to_string(members: &Map<String, Value>) -> Result<String> {
    let mut out = String::with_capacity(256);
    write_object(&mut out, members)?;
    Ok(out)
}

/// Returns a value as it will be after storing and reading its canonical text: `-0` as `0`, `1.0` as `1`.
pub fn form<T: Serialize + DeserializeOwned>(value: &T) -> Result<T> {
    serde_json::from_str(&to_string(value)?).map_err(Error::internal)
}

fn write_value(out: &mut String, value: &Value) -> Result<()> {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number)?,
        Value::String(text) => write_string(out, text)?,
        Value::Array(items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(',');
                }
                write_value(out, item)?;
            }
            out.push(']');
        }
        Value::Object(members) => write_object(out, members)?,
    }
    Ok(())
}

/// Writes the members of an object ordered by UTF-16 code units. For ASCII names, the map already has that
/// order.
fn write_object(out: &mut String, members: &Map<String, Value>) -> Result<()> {
    let mut ordered: Vec<(&String, &Value)> = members.iter().collect();
    if !ordered.iter().all(|(name, _)| name.is_ascii()) {
        ordered.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
    }
    out.push('{');
    for (place, (name, value)) in ordered.into_iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        write_string(out, name)?;
        out.push(':');
        write_value(out, value)?;
    }
    out.push('}');
    Ok(())
}

fn write_string(out: &mut String, text: &str) -> Result<()> {
    let plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    if text.bytes().all(plain) {
        out.push('"');
        out.push_str(text);
        out.push('"');
    } else {
        out.push_str(&serde_json::to_string(text).map_err(Error::internal)?);
    }
    Ok(())
}

/// Returns whether a JSON string is in canonical form.
///
/// In canonical form, only characters that must be escaped are escaped, in the canonical way.
pub fn is_canonical_string(json: &[u8]) -> bool {
    // Readers skip white space around a JSON string, but the canonical form has none.
    let Some(within) = json.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) else {
        return false;
    };
    let mut bytes = within.iter();
    while let Some(byte) = bytes.next() {
        let is_escaped = *byte == b'\\';
        let is_canonical = !is_escaped
            || match bytes.next() {
                Some(b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't') => true,
                // Other control characters have no short escape.
                Some(b'u') => match (bytes.next(), bytes.next(), bytes.next(), bytes.next()) {
                    (Some(b'0'), Some(b'0'), Some(b'0'), Some(digit)) => {
                        matches!(digit, b'0'..=b'7' | b'b' | b'e' | b'f')
                    }
                    (Some(b'0'), Some(b'0'), Some(b'1'), Some(digit)) => {
                        matches!(digit, b'0'..=b'9' | b'a'..=b'f')
                    }
                    _ => false,
                },
                _ => false,
            };
        if !is_canonical {
            return false;
        }
    }
    true
}

fn write_number(out: &mut String, number: &Number) -> Result<()> {
    if !is_exact(number) {
        return Err(Error::malformed(format!(
            "the number {number} is beyond 2^53 and would change in other readers: send it as a string"
        )));
    }
    if number.is_f64() {
        out.push_str(&serde_json_canonicalizer::to_string(number).map_err(Error::internal)?);
    } else {
        out.push_str(&number.to_string());
    }
    Ok(())
}

/// Returns whether every JSON reader preserves the number exactly.
fn is_exact(number: &Number) -> bool {
    match (number.as_i64().map(i64::unsigned_abs).or_else(|| number.as_u64()), number.as_f64()) {
        (Some(magnitude), _) => magnitude <= EXACT_INTEGER_MAX,
        (None, Some(double)) => double.abs() < INEXACT_DOUBLE_MIN,
        (None, None) => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::Code;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-(1i64 << 53) + 1..1i64 << 53).prop_map(Value::from),
            any::<f64>()
                .prop_map(|n| if n.abs() < INEXACT_DOUBLE_MIN { n } else { n.recip() })
                .prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn agrees_with_the_reference(value in any_json()) {
            prop_assert_eq!(to_string(&value).unwrap(), serde_json_canonicalizer::to_string(&value).unwrap());
        }

        #[test]
        fn a_double_round_trips_exactly(number in any::<f64>()) {
            let read: f64 = serde_json::from_str(&format!("{number:e}")).unwrap();
            prop_assert_eq!(read.to_bits(), number.to_bits());
        }
    }

    /// Generates a JSON string with all kinds of escapes, including needless ones.
    fn any_text() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            any::<char>().prop_map(|char| serde_json::to_string(&char.to_string()).unwrap().replace('"', "")),
            any::<u8>().prop_map(|code| format!("\\u00{code:02x}")),
            any::<u8>().prop_map(|code| format!("\\u00{code:02X}")),
            (0x100_u16..0xd800).prop_map(|code| format!("\\u{code:04x}")),
            "[\"\\\\/bfnrt]".prop_map(|char| format!("\\{char}")),
        ];
        prop::collection::vec(piece, 0..12).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
    }

    proptest! {
        #[test]
        fn a_text_is_canonical_if_it_is_written_again_as_it_was(json in any_text()) {
            let text: Result<String, _> = serde_json::from_str(&json);
            prop_assume!(text.is_ok());
            prop_assert_eq!(is_canonical_string(json.as_bytes()), to_string(&text.unwrap()).unwrap() == json);
            for spaced in [format!(" {json}"), format!("{json}\n")] {
                prop_assert!(!is_canonical_string(spaced.as_bytes()));
            }
        }
    }

    #[test]
    fn a_stored_value_reads_as_it_was_returned() {
        let value: Value = serde_json::from_str(r#"{"a":-0,"b":[1.0,1e2,-0.5],"c":-0.0}"#).unwrap();
        assert_eq!(form(&value).unwrap().to_string(), r#"{"a":0,"b":[1,100,-0.5],"c":0}"#);
        assert_eq!(to_string(&form(&value).unwrap()).unwrap(), to_string(&value).unwrap());
    }

    #[test]
    fn rejects_integers_that_readers_would_change() {
        let rejected = [
            "9007199254740992",
            "-9007199254740993",
            "18446744073709551615",
            "18446744073709551616",
            "123456789012345678901234567890",
            "-99999999999999999999",
            "9007199254740993.0",
            "1e300",
        ];
        for text in rejected {
            let value: Value = serde_json::from_str(&format!("{{\"n\":[{text}]}}")).unwrap();
            assert_eq!(to_string(&value).unwrap_err().code(), Code::Malformed, "{text}");
        }
        for (text, stored) in [
            ("9007199254740991", "9007199254740991"),
            ("-9007199254740991", "-9007199254740991"),
            ("2251799813685248.5", "2251799813685248.5"),
            ("1e15", "1000000000000000"),
            ("-1e-300", "-1e-300"),
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(to_string(&value).unwrap(), stored);
        }
    }
}
