//! Strict JSON parsing for every transport: a text is rejected if an object in it has a duplicate member, at
//! any depth.
//!
//! Parsers differ in which of two duplicate members they use, so two readers could understand the same text
//! differently.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};

use crate::text::echo;

/// The reason why the strict parser rejected a JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFailure {
    /// The text does not follow the grammar of RFC 8259, or is nested too deeply for the parser.
    NotJson,
    /// An object in the text has two members with the same name.
    DuplicateMember,
    /// The text contains more JSON values than the caller allows.
    TooMany,
}

/// Parses a JSON text that contains at most `max_values` values, counting the values at every depth.
///
/// Fails if the text is invalid JSON, has a duplicate member, or contains more values. The limit bounds
/// memory: a parsed value occupies many times as many bytes as its text.
pub fn parse_with_limit(text: &[u8], max_values: usize) -> Result<Value, ReadFailure> {
    let budget = ValueBudget::new(max_values);
    let mut json = serde_json::Deserializer::from_slice(text);
    let read = budget.value_seed().deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    read.map_err(|error| match budget.remaining.get() {
        None => ReadFailure::TooMany,
        Some(_) if error.is_data() => ReadFailure::DuplicateMember,
        Some(_) => ReadFailure::NotJson,
    })
}

/// Returns the path of the first NUL character in the strings and member names of a value, or `None` if there
/// is none.
///
/// The database cannot store NUL. For a NUL in a member name, the path is that of the object.
pub(crate) fn find_nul_path(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => text.contains('\0').then(String::new),
        Value::Array(items) => items.iter().enumerate().find_map(|(index, item)| {
            let within = find_nul_path(item)?;
            Some(item_path(index, &within))
        }),
        Value::Object(members) => members.iter().find_map(|(name, member)| {
            if name.contains('\0') {
                return Some(String::new());
            }
            let within = find_nul_path(member)?;
            Some(member_path(name, &within))
        }),
        _ => None,
    }
}

/// Returns the path that leads into the item at `index`, and then along the path `within` that item.
fn item_path(index: usize, within: &str) -> String {
    format!("[{index}]{within}")
}

/// Returns the path that leads into the member `name`, and then along the path `within` that member.
fn member_path(name: &str, within: &str) -> String {
    format!(".{}{within}", echo(name))
}

/// Returns a message for the caller if an invalid character in a string caused the parse error, or `None` for
/// any other parse error.
pub fn invalid_character_message(error: &serde_json::Error) -> Option<&'static str> {
    const FAULTS: [(&str, &str); 3] = [
        (
            "hex escape",
            "an escape from \\ud800 to \\udfff is half of a surrogate pair: send both halves, or none",
        ),
        ("unicode code point", "the text is not UTF-8"),
        ("control character", "a control character, such as NUL, is not escaped"),
    ];
    // serde_json distinguishes these cases only in the message of the error. If a new version changes its
    // messages, this function returns `None`, and callers show the message unchanged.
    let message = error.to_string();
    let fault = FAULTS.iter().find(|(part, _)| error.is_syntax() && message.contains(part));
    fault.map(|(_, fault)| *fault)
}

/// A limit on the number of JSON values that all readers of one text parse together, at every depth.
pub(crate) struct ValueBudget {
    /// Maximum number of values.
    max_values: usize,
    /// Number of values that may still be parsed, or `None` after the limit was exceeded.
    remaining: Cell<Option<usize>>,
    /// Path, within the parsed value, at which a reader failed.
    failure_path: RefCell<String>,
}

impl ValueBudget {
    pub fn new(max_values: usize) -> Self {
        Self { max_values, remaining: Cell::new(Some(max_values)), failure_path: RefCell::default() }
    }

    /// Returns a deserializer seed that parses one value, counts it against this budget, and rejects
    /// duplicate members.
    pub fn value_seed(&self) -> impl for<'de> DeserializeSeed<'de, Value = Value> {
        StrictValueSeed { budget: self }
    }

    /// Returns the path, within the parsed value, at which a reader failed, and clears the path. The path is
    /// empty if the outermost value was rejected.
    pub fn take_failure_path(&self) -> String {
        self.failure_path.take()
    }

    /// Prepends one step, such as `.name` or `[2]`, to the path of the failure. Each level of the value calls
    /// this function, from the innermost level outwards.
    fn prepend_step(&self, step: impl FnOnce(&str) -> String) {
        self.failure_path.replace_with(|within| step(within));
    }
}

/// Returns the error message for the duplicate member `name`.
fn duplicate_message(name: &str) -> String {
    format!("the field `{}` appears twice", echo(name))
}

/// The deserializer seed of [`ValueBudget::value_seed`].
#[derive(Clone, Copy)]
struct StrictValueSeed<'a> {
    budget: &'a ValueBudget,
}

impl<'de> DeserializeSeed<'de> for StrictValueSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let ValueBudget { max_values, remaining, .. } = self.budget;
        remaining.set(remaining.get().and_then(|remaining| remaining.checked_sub(1)));
        match remaining.get() {
            Some(_) => deserializer.deserialize_any(self),
            None => Err(D::Error::custom(format!("more than {max_values} values"))),
        }
    }
}

impl<'de> Visitor<'de> for StrictValueSeed<'_> {
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
        loop {
            let read = access.next_element_seed(self);
            let read =
                read.inspect_err(|_| self.budget.prepend_step(|within| item_path(items.len(), within)));
            let Some(item) = read? else { break };
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            match members.entry(name) {
                Entry::Vacant(entry) => {
                    let read = access.next_value_seed(self);
                    let prepend_step = |within: &str| member_path(entry.key(), within);
                    let value = read.inspect_err(|_| self.budget.prepend_step(prepend_step))?;
                    entry.insert(value);
                }
                Entry::Occupied(entry) => return Err(A::Error::custom(duplicate_message(entry.key()))),
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
        let value = ValueBudget::new(usize::MAX).value_seed().deserialize(&mut json)?;
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
        assert!(parse_with_limit(text, 6).is_ok());
        assert_eq!(parse_with_limit(text, 5), Err(ReadFailure::TooMany));
        assert_eq!(parse_with_limit(br#"{"a":1,"a":2}"#, 2), Err(ReadFailure::DuplicateMember));
        assert_eq!(parse_with_limit(b"[1] 2", 9), Err(ReadFailure::NotJson));
        assert_eq!(parse_with_limit(b"", 0), Err(ReadFailure::TooMany));
    }

    #[test]
    fn what_is_not_a_character_is_found_with_its_path() {
        for (text, wanted) in [
            (r#""\ud800""#, Some("")),
            (r#"{"a":"\uDFff"}"#, Some(".a")),
            (r#"{"a":"\ud83d\ud83d"}"#, Some(".a")),
            (r#"{"a":"\ud83dx"}"#, Some(".a")),
            (r#"{"a":"\ud83d\n"}"#, Some(".a")),
            (r#"{"b":["{,:",{"c":[1,2,{"d":"x\udc00"}]}],"e":1}"#, Some(".b[1].c[2].d")),
            (r#"{"b":{"c\"":["\udc00"]}}"#, Some(".b.c\"[0]")),
            (r#"{"b":{"c":1,"d\udc00":2}}"#, Some(".b")),
            (r#"{"a":"\u12"}"#, None),
            (r#"{"a":"\x"}"#, None),
            (r#"{"a":"\ud83d"#, None),
            (r#"{"a":1"#, None),
            (r#"{"a":1,"a":2}"#, None),
        ] {
            let budget = ValueBudget::new(usize::MAX);
            let mut json = serde_json::Deserializer::from_str(text);
            let error = budget.value_seed().deserialize(&mut json).unwrap_err();
            let found = invalid_character_message(&error).map(|_| budget.take_failure_path());
            assert_eq!(found.as_deref(), wanted, "{text}: {error}");
        }
        let raw = [b"{\"a\":[\"".as_slice(), &[0xed, 0xa0, 0xbd], b"\"]}"].concat();
        assert_eq!(invalid_character_message(&read(&raw).unwrap_err()), Some("the text is not UTF-8"));
        assert!(read(r#"{"a":"\ud83d\ude00\\u0000\\\\ud800 \u00e4"}"#.as_bytes()).is_ok());
    }

    #[test]
    fn a_nul_is_found_with_its_path() {
        for (text, wanted) in [
            (r#""\u0000""#, Some("")),
            (r#"{"a":"x\u0000"}"#, Some(".a")),
            (r#"{"b":["0",{"c":[1,{"d":"\u0000"}]}]}"#, Some(".b[1].c[1].d")),
            (r#"{"b":{"c":1,"d\u0000":2}}"#, Some(".b")),
            (r#"{"a":"\\u0000","b":[0,null,true,{}]}"#, None),
        ] {
            let found = find_nul_path(&read(text.as_bytes()).unwrap());
            assert_eq!(found.as_deref(), wanted, "{text}");
        }
    }

    proptest! {
        /// For an accepted text, the strict reader and serde_json return the same value.
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

    /// Generates texts, most of which are valid JSON.
    ///
    /// Member names are chosen from three letters, so some objects have duplicate members.
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
