//! Decoding a request into an operation's input.
//!
//! Text fields (path and query) are parsed by the target type, JSON fields are strict; both are merged into
//! one flat object in which no name is repeated and none is unknown. One concrete decoder serves all
//! operations, which keeps the cost of an operation small.

use std::borrow::Cow;

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::json::{self, Strict};
use crate::limits::JSON_MAX_DEPTH;
use crate::op::call::request::Input;
use crate::text::{echo, nearest};

/// Decodes a request into an operation's input.
pub fn decode<T: DeserializeOwned>(input: &Input) -> Result<T> {
    T::deserialize(Source::Request(input)).map_err(|DecodeError(detail)| Error::malformed(detail))
}

/// Decodes an object that has been parsed already, as [`decode`] does.
pub fn decode_object<T: DeserializeOwned>(members: Map<String, Value>) -> Result<T> {
    T::deserialize(Source::Object(members)).map_err(|DecodeError(detail)| Error::malformed(detail))
}

/// Why an input was rejected, in words for the caller.
#[derive(Debug)]
struct DecodeError(String);

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DecodeError {}

impl serde::de::Error for DecodeError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

/// One field's value, whatever its source.
enum Node<'r> {
    Json(Value),
    Text(Texts<'r>),
}

/// The texts of one field, which is repeated for a list.
type Texts<'r> = Vec<&'r str>;

/// A field's name and value.
type Entry<'r> = (Cow<'r, str>, Node<'r>);

/// An input whose fields have not been read yet: the target type determines which are allowed.
enum Source<'r> {
    Request(&'r Input),
    Object(Map<String, Value>),
}

impl Source<'_> {
    /// Visits the fields, up to the first that is not `known`.
    fn visit<'de, V: Visitor<'de>>(
        self,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_map(match self {
            Self::Request(input) => Fields::of(input, known)?,
            Self::Object(members) => Fields::of_object(members, known)?,
        })
    }
}

impl<'de> Deserializer<'de> for Source<'_> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.visit(&[], visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.visit(fields, visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

/// All fields of a request: text first, then the body's. No more than the target type has.
struct Fields<'r> {
    entries: std::vec::IntoIter<Entry<'r>>,
    value: Option<Entry<'r>>,
}

impl<'r> Fields<'r> {
    /// Reads the fields, up to the first that is not `known`.
    fn of(input: &'r Input, known: &'static [&'static str]) -> Result<Self, DecodeError> {
        let mut entries: Vec<Entry<'r>> = Vec::with_capacity(known.len());
        for (name, text) in &input.text {
            check_known(name, known)?;
            match entries.iter_mut().find(|(given, _)| given == name) {
                Some((_, Node::Text(texts))) => texts.push(text),
                _ => entries.push((Cow::Borrowed(name), Node::Text(vec![text]))),
            }
        }
        read_body(&input.body, known, &mut entries)?;
        Ok(Self { entries: entries.into_iter(), value: None })
    }

    fn of_object(members: Map<String, Value>, known: &'static [&'static str]) -> Result<Self, DecodeError> {
        members.keys().try_for_each(|name| check_known(name, known))?;
        let entries: Vec<Entry<'r>> =
            members.into_iter().map(|(name, value)| (Cow::Owned(name), Node::Json(value))).collect();
        Ok(Self { entries: entries.into_iter(), value: None })
    }
}

fn check_known(name: &str, known: &'static [&'static str]) -> Result<(), DecodeError> {
    if known.contains(&name) {
        return Ok(());
    }
    let sent = echo(name);
    Err(DecodeError(match nearest(name, known) {
        Some(near) => format!("unknown field `{sent}`, did you mean `{near}`?"),
        None if known.is_empty() => format!("unknown field `{sent}`: the operation takes no input"),
        None => format!("unknown field `{sent}`, expected {}", known.join(", ")),
    }))
}

/// Adds the body's members.
///
/// Rejects a body that is not one object without repeated names, or that is nested deeper than the limit.
fn read_body(
    body: &[u8],
    known: &'static [&'static str],
    entries: &mut Vec<Entry<'_>>,
) -> Result<(), DecodeError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(());
    }
    let given = entries.len();
    let mut refusal = None;
    let mut json = serde_json::Deserializer::from_slice(body);
    let members = Members { known, entries, refusal: &mut refusal };
    let read = json.deserialize_map(members).and_then(|()| json.end());
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    read.map_err(|error| DecodeError(format!("the body cannot be decoded: {error}")))?;
    let is_too_deep = |node: &Node| matches!(node, Node::Json(value) if depth(value) > JSON_MAX_DEPTH);
    if entries.iter().skip(given).any(|(_, node)| is_too_deep(node)) {
        return Err(DecodeError(format!("the body is nested deeper than {JSON_MAX_DEPTH} levels")));
    }
    Ok(())
}

/// Reads the members of a JSON object, up to the first that is rejected.
struct Members<'a, 'r> {
    known: &'static [&'static str],
    entries: &'a mut Vec<Entry<'r>>,
    /// Why one was rejected.
    refusal: &'a mut Option<DecodeError>,
}

impl Members<'_, '_> {
    fn check(&self, name: &str) -> Result<(), DecodeError> {
        check_known(name, self.known)?;
        match self.entries.iter().find(|(given, _)| given == name) {
            None => Ok(()),
            Some((_, Node::Json(_))) => Err(DecodeError(json::twice(name))),
            Some((_, Node::Text(_))) => {
                Err(DecodeError(format!("the field `{name}` is given in the address and in the body")))
            }
        }
    }
}

impl<'de> Visitor<'de> for Members<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("one JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        while let Some(name) = access.next_key::<String>()? {
            if let Err(refusal) = self.check(&name) {
                *self.refusal = Some(refusal);
                return Err(serde::de::Error::custom("a field was rejected"));
            }
            let Strict(value) = access.next_value()?;
            self.entries.push((Cow::Owned(name), Node::Json(value)));
        }
        Ok(())
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        let Some((name, node)) = self.entries.next() else { return Ok(None) };
        let key = seed.deserialize(StrDeserializer::new(&name))?;
        self.value = Some((name, node));
        Ok(Some(key))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, DecodeError> {
        let Some((name, node)) = self.value.take() else {
            return Err(DecodeError("there is no value to decode".to_owned()));
        };
        let read = match node {
            Node::Json(value) => seed.deserialize(value).map_err(|error| DecodeError(error.to_string())),
            Node::Text(texts) => seed.deserialize(TextValue(texts)),
        };
        read.map_err(|DecodeError(detail)| DecodeError(format!("`{name}`: {detail}")))
    }
}

/// A text field, which is parsed by the target type.
///
/// Numbers are read as 64-bit; checking their width is left to the type.
struct TextValue<'r>(Texts<'r>);

impl<'r> TextValue<'r> {
    fn single(self) -> Result<&'r str, DecodeError> {
        let mut texts = self.0.into_iter();
        match (texts.next(), texts.next()) {
            (Some(text), None) => Ok(text),
            _ => Err(DecodeError("given more than once".to_owned())),
        }
    }

    fn parse<T: std::str::FromStr>(self, wanted: &str) -> Result<T, DecodeError> {
        let text = self.single()?;
        text.parse().map_err(|_| DecodeError(format!("expected {wanted}, found \"{}\"", echo(text))))
    }
}

macro_rules! parse_numbers {
    ($($method:ident => $visit:ident: $number:ty, $wanted:literal;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
            visitor.$visit(self.parse::<$number>($wanted)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for TextValue<'_> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_str(self.single()?)
    }

    parse_numbers! {
        deserialize_bool => visit_bool: bool, "true or false";
        deserialize_i8 => visit_i64: i64, "a whole number";
        deserialize_i16 => visit_i64: i64, "a whole number";
        deserialize_i32 => visit_i64: i64, "a whole number";
        deserialize_i64 => visit_i64: i64, "a whole number";
        deserialize_u8 => visit_u64: u64, "a whole number";
        deserialize_u16 => visit_u64: u64, "a whole number";
        deserialize_u32 => visit_u64: u64, "a whole number";
        deserialize_u64 => visit_u64: u64, "a whole number";
        deserialize_f32 => visit_f64: f64, "a number";
        deserialize_f64 => visit_f64: f64, "a number";
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_enum(self.single()?.into_deserializer())
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_seq(TextItems(self.0.into_iter()))
    }

    forward_to_deserialize_any! {
        i128 u128 char str string bytes byte_buf unit unit_struct tuple tuple_struct map struct identifier
        ignored_any
    }
}

/// A repeated text field, as a list.
struct TextItems<'r>(std::vec::IntoIter<&'r str>);

impl<'de> SeqAccess<'de> for TextItems<'_> {
    type Error = DecodeError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, DecodeError> {
        self.0.next().map(|text| seed.deserialize(TextValue(vec![text]))).transpose()
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::id::ThreadId;
    use crate::text::{Count, Patch};

    #[derive(Debug, Deserialize)]
    struct Probe {
        thread_id: Option<ThreadId>,
        limit: Option<Count<1, 10>>,
        #[serde(default)]
        tag: Vec<String>,
        flag: Option<bool>,
        #[serde(default)]
        note: Patch<String>,
    }

    fn probe(text: &[(&str, &str)], body: &str) -> Result<Probe> {
        let text = text.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        decode(&Input { text, body: body.to_owned().into(), file: None })
    }

    #[test]
    fn text_is_parsed_by_type_and_json_is_strict() {
        let id = "01990000-0000-7000-8000-000000000001";
        let read =
            probe(&[("thread_id", id), ("limit", "5"), ("tag", "a"), ("tag", "b"), ("flag", "true")], "")
                .unwrap();
        assert_eq!(read.thread_id.unwrap().to_string(), id);
        assert_eq!((read.limit.unwrap().get(), read.flag), (5, Some(true)));
        assert_eq!(read.tag, ["a", "b"]);
        assert_eq!(read.note, Patch::Keep);
        assert_eq!(probe(&[], r#"{"note":null}"#).unwrap().note, Patch::Clear);
    }

    #[test]
    fn an_object_is_decoded_like_a_body() {
        let object = |json: Value| decode_object::<Probe>(json.as_object().cloned().unwrap());
        assert_eq!(object(json!({"limit": 5})).unwrap().limit.unwrap().get(), 5);
        for (json, wanted) in [
            (json!({"limit": 11}), "`limit`: expected 1 to 10"),
            (json!({"limitt": 1}), "did you mean `limit`"),
        ] {
            let error = object(json).unwrap_err();
            assert!(error.detail().contains(wanted), "{}: wanted {wanted}", error.detail());
        }
    }

    #[test]
    fn refusals_name_the_field_and_help() {
        type Case = (&'static [(&'static str, &'static str)], &'static str, &'static str);
        let cases: [Case; 11] = [
            (&[("limit", "11")], "", "`limit`: expected 1 to 10"),
            (&[("limit", "x")], "", "`limit`: expected a whole number"),
            (&[("flag", "yes")], "", "true or false"),
            (&[("limitt", "1")], "", "did you mean `limit`"),
            (&[], r#"{"limit":"5"}"#, "`limit`: invalid type: string"),
            (&[("limit", "1"), ("limit", "2")], "", "given more than once"),
            (&[("limit", "1")], r#"{"limit":2}"#, "in the address and in the body"),
            (&[], r#"{"limit":1,"limit":2}"#, "appears twice"),
            (&[], r#"{"note":{"a":[{"b":1,"b":2}]}}"#, "`b` appears twice"),
            (&[], r#"{"limt":1,"limit":2"#, "did you mean `limit`"),
            (&[], "[1]", "one JSON object"),
        ];
        for (text, body, wanted) in cases {
            let error = probe(text, body).unwrap_err();
            assert!(error.detail().contains(wanted), "{}: wanted {wanted}", error.detail());
        }
        let long = "n".repeat(100_000);
        for (text, body) in [
            (vec![(&*long, "1")], String::new()),
            (vec![("limit", &*long)], String::new()),
            (vec![], format!(r#"{{"{long}":1}}"#)),
            (vec![], format!(r#"{{"flag":"{long}"}}"#)),
        ] {
            let refused = probe(&text, &body).unwrap_err();
            assert!(refused.detail().len() < 600, "{}", refused.detail());
        }
        let deep = format!(r#"{{"note":{}{}}}"#, "[".repeat(80), "]".repeat(80));
        assert!(probe(&[], &deep).unwrap_err().detail().contains("nested deeper"));
    }
}
