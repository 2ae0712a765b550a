//! Decodes requests into the typed inputs of operations.
//!
//! The decoder merges the text fields of path and query and the JSON fields of the body into one flat object.
//! It rejects repeated and unknown names. The target type parses text fields; JSON fields must already have
//! the right type. A null field counts as absent, unless its schema allows null. All operations share one
//! concrete decoder, so that each operation adds little compiled code.
//!
//! The decoder stops at the first fault. For a rejected input, the error lists the faults that a check
//! against the schema finds, and the faults that the decoder reports when it runs again without the faulty
//! fields. Unknown fields are kept only up to the number that an error lists, so the cost of a rejected input
//! grows linearly with its length.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::json::{self, ValueBudget};
use crate::limits::{
    ANSWER_BYTES, ANSWER_MCP_BYTES, JSON_MAX_BYTES, JSON_MAX_DEPTH, MCP_ANSWER_BYTES_MAX, PAGE_DEFAULT_MCP,
};
use crate::op::call::absent_fields::{has_null, is_optional, omit_null_members, omit_nulls};
use crate::op::call::answer_options::{AnswerOptions, DETAIL, MAX_BYTES, MaxBytes, OFFSET, Offset};
use crate::op::call::caller::Surface;
use crate::op::call::faults::{self, FAULTS_MAX, Fault};
use crate::op::call::request::Input;
use crate::op::call::text_fields::{DecodeError, TextValue, Texts};
use crate::page::{AnswerBounds, Detail};
use crate::schema;

/// Decodes a request into an operation's input.
///
/// The error lists the wrong and missing fields, up to `FAULTS_MAX`.
pub fn decode<T: DeserializeOwned + JsonSchema + 'static>(input: &Input) -> Result<T> {
    let read = T::deserialize(InputSource::Request {
        input,
        answer_options: None,
        schema: schema::validation_schema::<T>,
    });
    read.map_err(|first_error| {
        rejection_error(input, first_error, &schema::validation_schema::<T>(), find_rejection::<T>)
    })
}

/// The answer options of a request. Options that the request does not set have default values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerOptionValues {
    /// The options that the request may set.
    options: AnswerOptions,
    /// Maximum value of the bytes of an answer on the request's surface.
    max_bytes_limit: usize,
    /// Level of detail of the answer.
    pub detail: Detail,
    /// Value of the input field `limit` if the request does not set it, or `None` for the operation's own
    /// default.
    limit: Option<i64>,
    /// Maximum bytes of the answer, and the offset at which its text begins.
    pub bounds: AnswerBounds,
}

const LIMIT: &str = "limit";

impl AnswerOptionValues {
    /// Returns the default answer options for requests over `surface`.
    ///
    /// The defaults are smaller over MCP, because a model pays for everything that it reads.
    pub fn defaults_for(surface: Surface, options: AnswerOptions) -> Self {
        let (detail, limit, max_bytes, max_bytes_limit) = match surface {
            Surface::Mcp => (Detail::Lean, Some(PAGE_DEFAULT_MCP), ANSWER_MCP_BYTES, MCP_ANSWER_BYTES_MAX),
            _ => (Detail::Full, None, ANSWER_BYTES, ANSWER_BYTES),
        };
        let (detail, limit) = if options.detail { (detail, limit) } else { (Detail::Full, None) };
        Self { options, max_bytes_limit, detail, limit, bounds: AnswerBounds { max_bytes, offset: 0 } }
    }

    /// Moves the answer options from the fields of a request into `self`, and adds the default `limit` if the
    /// request has none.
    fn take_options(&mut self, entries: &mut Vec<Entry<'_>>, known: &[&str]) -> Result<(), DecodeError> {
        let AnswerOptions { detail, max_bytes, offset } = self.options;
        if detail && let Some(detail) = take_field(entries, DETAIL)? {
            self.detail = detail;
        }
        let number = |count: i64| usize::try_from(count).unwrap_or(usize::MAX);
        if max_bytes && let Some(requested) = take_field::<MaxBytes>(entries, MAX_BYTES)? {
            self.bounds.max_bytes = number(requested.get()).min(self.max_bytes_limit);
        }
        if offset && let Some(requested) = take_field::<Offset>(entries, OFFSET)? {
            self.bounds.offset = number(requested.get());
        }
        let is_given = |(name, _): &Entry<'_>| name == LIMIT;
        if let Some(limit) = self.limit.filter(|_| known.contains(&LIMIT) && !entries.iter().any(is_given)) {
            entries.push((Cow::Borrowed(LIMIT), FieldValue::Json(limit.into())));
        }
        Ok(())
    }
}

/// Removes a field from the entries and returns its value, or `None` if the field is absent.
fn take_field<T: DeserializeOwned>(
    entries: &mut Vec<Entry<'_>>,
    field: &str,
) -> Result<Option<T>, DecodeError> {
    let Some(place) = entries.iter().position(|(name, _)| name == field) else { return Ok(None) };
    match entries.remove(place).1 {
        FieldValue::Json(value) => {
            T::deserialize(value).map(Some).map_err(|error| DecodeError::in_field(field, error))
        }
        FieldValue::Text(texts) => T::deserialize(TextValue(texts))
            .map(Some)
            .map_err(|error| DecodeError { field: Some(field.to_owned()), detail: error.detail }),
    }
}

/// Decodes an input as [`decode`] does, and stores the answer options of the request in `answer_options`.
pub(in crate::op) fn decode_with_options<T: DeserializeOwned + JsonSchema + 'static>(
    input: &Input,
    answer_options: &mut AnswerOptionValues,
) -> Result<T> {
    let options = answer_options.options;
    let read = T::deserialize(InputSource::Request {
        input,
        answer_options: Some(answer_options),
        schema: schema::validation_schema::<T>,
    });
    read.map_err(|first_error| {
        let mut schema = Value::clone(&schema::validation_schema::<T>());
        options.add_to_schema(&mut schema);
        rejection_error(input, first_error, &schema, find_rejection::<T>)
    })
}

/// Decodes fields as a `T`. Returns the reason for the rejection, or `None` if the fields are valid.
fn find_rejection<T: DeserializeOwned>(entries: Vec<Entry<'_>>) -> Option<DecodeError> {
    T::deserialize(InputSource::Entries(entries)).err()
}

/// Decodes an object of another protocol, such as a frame of a WebSocket. The error reports only the first
/// fault.
pub fn decode_frame<T: DeserializeOwned + JsonSchema + 'static>(input: &Input) -> Result<T> {
    let source = InputSource::Request { input, answer_options: None, schema: schema::validation_schema::<T> };
    T::deserialize(source).map_err(Error::from)
}

/// Decodes a JSON object that has already been parsed, as [`decode_frame`] does.
pub fn decode_object<T: DeserializeOwned + JsonSchema + 'static>(
    mut members: Map<String, Value>,
) -> Result<T> {
    if members.values().any(has_null) {
        omit_null_members(&schema::validation_schema::<T>(), &mut members);
    }
    T::deserialize(InputSource::Object(members)).map_err(Error::from)
}

/// Returns the error for a rejected input, with the faults of all fields.
///
/// `first_error` is the error of the first decoding. `find_rejection` decodes some of the fields again, and
/// returns the reason if it rejects the fields.
fn rejection_error(
    input: &Input,
    first_error: DecodeError,
    schema: &Value,
    find_rejection: fn(Vec<Entry<'_>>) -> Option<DecodeError>,
) -> Error {
    let none = Map::new();
    let members = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    // If the fields cannot be read, for example because the body is not an object, only the first fault is
    // reported.
    let Ok(mut entries) = read_entries(input, RequestedFields::OfSchema(members)) else {
        return first_error.into();
    };
    remove_absent(&mut entries, schema, &[]);
    let mut faults = faults::object_faults(schema, &entry_values(members, &entries));
    let is_read = |name: &str| members.contains_key(name) && ![DETAIL, MAX_BYTES, OFFSET].contains(&name);
    entries.retain(|(name, _)| is_read(name) && !faults.iter().any(|fault| fault.is_in(name)));
    while faults.len() < FAULTS_MAX {
        let Some(DecodeError { field: Some(field), detail }) = find_rejection(entries.clone()) else { break };
        entries.retain(|(name, _)| *name != field);
        faults.push(Fault::new(&field, detail));
    }
    faults.truncate(FAULTS_MAX);
    if faults.is_empty() {
        return first_error.into();
    }
    faults::malformed_input(&faults)
}

/// Returns the values of all fields as JSON. Texts are converted to the types that the schemas in `members`
/// require.
fn entry_values(members: &Map<String, Value>, entries: &[Entry<'_>]) -> Map<String, Value> {
    let value = |(name, node): &Entry<'_>| {
        let value = match node {
            FieldValue::Json(value) => value.clone(),
            FieldValue::Text(texts) => {
                faults::texts_to_json(members.get(&**name).unwrap_or(&Value::Null), texts)
            }
        };
        (name.clone().into_owned(), value)
    };
    entries.iter().map(value).collect()
}

/// The value of one field: JSON from the body, or texts from the path or the query.
#[derive(Clone)]
enum FieldValue<'r> {
    Json(Value),
    Text(Texts<'r>),
}

/// The name and the value of a field.
type Entry<'r> = (Cow<'r, str>, FieldValue<'r>);

/// Removes the null fields that count as absent, at every depth.
///
/// `other_fields` lists fields that have no schema. Null in these fields also counts as absent.
fn remove_absent(entries: &mut Vec<Entry<'_>>, schema: &Value, other_fields: &[&str]) {
    let is_null = |node: &FieldValue| matches!(node, FieldValue::Json(Value::Null));
    let is_optional = |name: &str| other_fields.contains(&name) || is_optional(schema, name);
    entries.retain(|(name, node)| !(is_null(node) && is_optional(name)));
    for (name, node) in entries {
        let field = schema.get("properties").and_then(|fields| fields.get(&**name));
        if let (FieldValue::Json(value), Some(field)) = (node, field) {
            omit_nulls(field, value);
        }
    }
}

/// An input to decode. The names that the target type declares determine which fields are read.
enum InputSource<'r> {
    Request {
        input: &'r Input,
        answer_options: Option<&'r mut AnswerOptionValues>,
        /// Function that returns the schema of the target type.
        schema: fn() -> Arc<Value>,
    },
    Object(Map<String, Value>),
    /// Fields that were read before. The target type declares all of them.
    Entries(Vec<Entry<'r>>),
}

impl InputSource<'_> {
    /// Passes the fields to `visitor`. Fails at the first field that is neither in `known` nor an answer
    /// option.
    fn visit<'de, V: Visitor<'de>>(
        self,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_map(match self {
            Self::Request { input, answer_options, schema } => {
                let other_fields =
                    answer_options.as_ref().map(|values| values.options.field_names()).unwrap_or_default();
                let mut entries =
                    read_entries(input, RequestedFields::OfType { known, other_fields: &other_fields })?;
                let has_null =
                    |node: &FieldValue<'_>| matches!(node, FieldValue::Json(value) if has_null(value));
                if entries.iter().any(|(_, node)| has_null(node)) {
                    remove_absent(&mut entries, &schema(), &other_fields);
                }
                if let Some(answer_options) = answer_options {
                    answer_options.take_options(&mut entries, known)?;
                }
                RequestFields::from_entries(entries)
            }
            Self::Object(members) => RequestFields::from_object(members, known)?,
            Self::Entries(entries) => RequestFields::from_entries(entries),
        })
    }
}

impl<'de> Deserializer<'de> for InputSource<'_> {
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

/// The fields of a request in decoding order: first the path and the query, then the body. The target type
/// declares all of these fields.
struct RequestFields<'r> {
    entries: std::vec::IntoIter<Entry<'r>>,
    value: Option<Entry<'r>>,
}

impl<'r> RequestFields<'r> {
    fn from_entries(entries: Vec<Entry<'r>>) -> Self {
        Self { entries: entries.into_iter(), value: None }
    }

    fn from_object(members: Map<String, Value>, known: &'static [&'static str]) -> Result<Self, DecodeError> {
        members.keys().try_for_each(|name| check_known(name, known))?;
        let entries = members.into_iter().map(|(name, value)| (Cow::Owned(name), FieldValue::Json(value)));
        Ok(Self::from_entries(entries.collect()))
    }
}

/// Selects the fields to read from a request.
#[derive(Clone, Copy)]
enum RequestedFields<'a> {
    /// The fields in `known`, which the target type declares, and the fields in `other_fields`. Any other
    /// field is an error.
    OfType { known: &'static [&'static str], other_fields: &'a [&'static str] },
    /// The fields of a schema, and the first unknown fields, as many as an error lists.
    OfSchema(&'a Map<String, Value>),
}

/// How to treat a field of a request: keep its value, keep only its name, or skip it.
enum FieldUse {
    KeepValue,
    KeepName,
    Skip,
}

impl RequestedFields<'_> {
    /// Returns how to treat the field `name`, which follows the fields in `read`.
    ///
    /// Fails if the field is unknown and unknown fields are rejected.
    fn field_use(self, name: &str, read: &[Entry<'_>]) -> Result<FieldUse, DecodeError> {
        match self {
            Self::OfType { other_fields, .. } if other_fields.contains(&name) => Ok(FieldUse::KeepValue),
            Self::OfType { known, .. } => check_known(name, known).map(|()| FieldUse::KeepValue),
            Self::OfSchema(members) if members.contains_key(name) => Ok(FieldUse::KeepValue),
            Self::OfSchema(members) if read.len() < members.len().saturating_add(FAULTS_MAX) => {
                Ok(FieldUse::KeepName)
            }
            Self::OfSchema(_) => Ok(FieldUse::Skip),
        }
    }
}

/// Reads the fields of a request that `wanted` selects.
///
/// A request has few fields, so each name is compared with all previous names.
fn read_entries<'r>(input: &'r Input, wanted: RequestedFields<'_>) -> Result<Vec<Entry<'r>>, DecodeError> {
    let mut entries: Vec<Entry<'r>> = Vec::with_capacity(match wanted {
        RequestedFields::OfType { known, .. } => known.len(),
        RequestedFields::OfSchema(_) => 0,
    });
    for (name, text) in &input.text {
        if let FieldUse::Skip = wanted.field_use(name, &entries)? {
            continue;
        }
        if text.contains('\0') {
            return Err(DecodeError::in_field(name, NUL_MESSAGE));
        }
        match entries.iter_mut().find(|(given, _)| given == name) {
            Some((_, FieldValue::Text(texts))) => texts.push(text),
            _ => entries.push((Cow::Borrowed(name), FieldValue::Text(vec![text]))),
        }
    }
    read_body(&input.body, wanted, &mut entries)?;
    Ok(entries)
}

/// Fails if the field `name` is not in `known`.
fn check_known(name: &str, known: &'static [&'static str]) -> Result<(), DecodeError> {
    if known.contains(&name) {
        return Ok(());
    }
    Err(DecodeError::in_field(name, faults::unknown_field_message(name, known)))
}

/// Maximum number of JSON values in a body. Arbitrary JSON of `JSON_MAX_BYTES` bytes contains at most half
/// that number of values, and the other fields of a body add up to 4,096.
///
/// A value takes up to a hundred times as many bytes in memory as in a body, so excess values are not read.
const VALUES_MAX: usize = JSON_MAX_BYTES / 2 + 4096;

/// Reads the JSON body of a request, and adds its members to `entries`.
///
/// Fails if the body is not one JSON object, repeats a name, contains a NUL, is nested deeper than
/// `JSON_MAX_DEPTH`, or has more than `VALUES_MAX` values.
fn read_body(
    body: &[u8],
    wanted: RequestedFields<'_>,
    entries: &mut Vec<Entry<'_>>,
) -> Result<(), DecodeError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(());
    }
    let given = entries.len();
    let budget = ValueBudget::new(VALUES_MAX);
    let mut refusal = None;
    let mut reading = None;
    let mut json = serde_json::Deserializer::from_slice(body);
    let members =
        ObjectMembers { wanted, entries, budget: &budget, refusal: &mut refusal, reading: &mut reading };
    let read = json.deserialize_map(members).and_then(|()| json.end());
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    read.map_err(|error| {
        let place = format!("(line {} column {})", error.line(), error.column());
        match (reading, json::invalid_character_message(&error)) {
            (Some(name), Some(fault)) => {
                DecodeError { field: Some(name + &budget.take_failure_path()), detail: fault.to_owned() }
            }
            // The JSON is valid, but it repeats a member or has too many values.
            (Some(name), None) if error.is_data() => {
                DecodeError { field: Some(name), detail: error.to_string() }
            }
            (_, Some(fault)) => DecodeError::new(format!("the body cannot be decoded: {fault} {place}")),
            (_, None) => DecodeError::new(format!("the body cannot be decoded: {error}")),
        }
    })?;
    for (name, node) in entries.iter().skip(given) {
        let FieldValue::Json(value) = node else { continue };
        if nesting_depth(value) > JSON_MAX_DEPTH {
            return Err(DecodeError::in_field(name, format!("nested deeper than {JSON_MAX_DEPTH} levels")));
        }
        if let Some(place) = json::find_nul_path(value) {
            return Err(DecodeError {
                field: Some(format!("{name}{place}")),
                detail: NUL_MESSAGE.to_owned(),
            });
        }
    }
    Ok(())
}

const NUL_MESSAGE: &str = "the character NUL (\\u0000) is not allowed";

/// Reads the members of a JSON object, up to the first member that is rejected.
struct ObjectMembers<'a, 'r> {
    wanted: RequestedFields<'a>,
    entries: &'a mut Vec<Entry<'r>>,
    budget: &'a ValueBudget,
    /// Reason why a member was rejected.
    refusal: &'a mut Option<DecodeError>,
    /// Name of the member whose value could not be read.
    reading: &'a mut Option<String>,
}

impl ObjectMembers<'_, '_> {
    /// Returns how to treat the next member. Fails if the member is unknown or repeated.
    fn field_use(&self, name: &str) -> Result<FieldUse, DecodeError> {
        let used = self.wanted.field_use(name, self.entries)?;
        match self.entries.iter().find(|(given, _)| given == name) {
            None => Ok(used),
            Some((_, FieldValue::Json(_))) => Err(DecodeError::in_field(name, "appears twice")),
            Some((_, FieldValue::Text(_))) => {
                Err(DecodeError::in_field(name, "given in the address and in the body"))
            }
        }
    }
}

impl<'de> Visitor<'de> for ObjectMembers<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("one JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<(), A::Error> {
        while let Some(name) = access.next_key::<String>()? {
            let value = match self.field_use(&name) {
                Ok(FieldUse::KeepValue) => match access.next_value_seed(self.budget.value_seed()) {
                    Ok(value) => value,
                    Err(error) => {
                        *self.reading = Some(name);
                        return Err(error);
                    }
                },
                Ok(FieldUse::KeepName) => access.next_value::<IgnoredAny>().map(|_| Value::Null)?,
                Ok(FieldUse::Skip) => {
                    access.next_value::<IgnoredAny>()?;
                    continue;
                }
                Err(refusal) => {
                    *self.refusal = Some(refusal);
                    return Err(serde::de::Error::custom("a field was rejected"));
                }
            };
            self.entries.push((Cow::Owned(name), FieldValue::Json(value)));
        }
        Ok(())
    }
}

/// Returns how deeply lists and objects are nested in a value: 0 for any other value.
fn nesting_depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(nesting_depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(nesting_depth).max().unwrap_or(0),
        _ => 0,
    }
}

impl<'de> MapAccess<'de> for RequestFields<'_> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        let Some((name, node)) = self.entries.next() else { return Ok(None) };
        let key = seed.deserialize(StrDeserializer::new(&name))?;
        self.value = Some((name, node));
        Ok(Some(key))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, DecodeError> {
        let Some((name, node)) = self.value.take() else {
            return Err(DecodeError::new("there is no value to decode"));
        };
        let read = match node {
            FieldValue::Json(value) => {
                seed.deserialize(value).map_err(|error| DecodeError::new(error.to_string()))
            }
            FieldValue::Text(texts) => seed.deserialize(TextValue(texts)),
        };
        read.map_err(|error| DecodeError { field: Some(name.into_owned()), detail: error.detail })
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::error::Code;
    use crate::id::ThreadId;
    use crate::op::call::faults::ERRORS;
    use crate::text::{Count, Patch};

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Probe {
        thread_id: Option<ThreadId>,
        limit: Option<Count<1, 10>>,
        #[serde(default)]
        tag: Vec<String>,
        flag: Option<bool>,
        #[serde(default, skip_serializing_if = "Patch::is_keep")]
        note: Patch<String>,
    }

    fn probe(text: &[(&str, &str)], body: &str) -> Result<Probe> {
        let text = text.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        decode(&Input { text, body: body.to_owned().into(), ..Input::default() })
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

    /// Null counts as absent for every type, except for a field that null clears.
    #[test]
    fn null_is_absent() {
        let all = r#"{"thread_id":null,"limit":null,"tag":null,"flag":null,"note":null}"#;
        let read = probe(&[], all).unwrap();
        assert_eq!((read.limit, read.tag.len(), read.flag, read.note), (None, 0, None, Patch::Clear));
        let input = Input::json(r#"{"limit":null,"detail":null}"#);
        let options = AnswerOptions { detail: true, ..AnswerOptions::default() };
        let answer_options = &mut AnswerOptionValues {
            limit: Some(7),
            ..AnswerOptionValues::defaults_for(Surface::Mcp, options)
        };
        let read: Probe = decode_with_options(&input, answer_options).unwrap();
        assert_eq!((read.limit.map(Count::get), answer_options.detail), (Some(7), Detail::Lean));
        let read: Probe = decode_frame(&Input::json(all)).unwrap();
        assert_eq!(read.tag.len(), 0);
        let Value::Object(members) = json!({"tag": null}) else { panic!() };
        assert_eq!(decode_object::<Probe>(members).unwrap().tag.len(), 0);
        let refused = probe(&[], r#"{"tag":null,"limit":0,"wrong":null}"#).unwrap_err();
        let problem = serde_json::to_value(refused.problem()).unwrap();
        assert_eq!(problem[ERRORS].as_array().unwrap().len(), 2, "{problem}");
    }

    #[test]
    fn a_character_that_cannot_be_stored_is_named_with_its_field() {
        for (text, body, field, said) in [
            (&[][..], r#"{"note":"a\ud83d"}"#, "note", "half of a surrogate pair"),
            (&[], r#"{"note":{"a":[0,"\udc00"]}}"#, "note.a[1]", "half of a surrogate pair"),
            (&[], r#"{"note":{"a":[0,"\u0000"]}}"#, "note.a[1]", "NUL"),
            (&[], r#"{"note":{"a":[0,{"b\u0000":1}]}}"#, "note.a[1]", "NUL"),
            (&[], "{\"note\":\"\0\"}", "note", "NUL"),
            (&[], r#"{"unknown":"\udead"}"#, "unknown", "unknown field"),
            (&[("note", "a\0")], "", "note", "NUL"),
        ] {
            let error = probe(text, body).unwrap_err();
            let problem = serde_json::to_value(error.problem()).unwrap();
            let fault = &problem[ERRORS][0];
            assert_eq!((fault["field"].as_str(), error.code()), (Some(field), Code::Malformed), "{body}");
            assert!(fault["detail"].as_str().unwrap().contains(said), "{problem}");
        }
        assert!(probe(&[], r#"{"note":"\ud83d\ude00 \\ud83d \\u0000"}"#).is_ok());
    }

    #[test]
    fn refusals_name_the_field_and_help() {
        type Case = (&'static [(&'static str, &'static str)], &'static str, &'static str);
        let cases: [Case; 11] = [
            (&[("limit", "11")], "", "`limit`: a whole number from 1 to 10, not 11"),
            (&[("limit", "x")], "", "`limit`: a whole number from 1 to 10, not \"x\""),
            (&[("flag", "yes")], "", "true or false"),
            (&[("limitt", "1")], "", "did you mean `limit`"),
            (&[], r#"{"limit":"5"}"#, "`limit`: a whole number from 1 to 10: send 5, not \"5\""),
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
            let problem = serde_json::to_value(error.problem()).unwrap();
            let is_told = problem.get(ERRORS).is_some_and(|faults| faults[0]["field"].is_string());
            assert_eq!(is_told, body != "[1]", "a fault of a field is told with it: {problem}");
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
        let both = probe(&[], r#"{"x":1,"x":2}"#).unwrap_err();
        let problem = serde_json::to_value(both.problem()).unwrap();
        assert_eq!(problem[ERRORS][0]["field"], "x", "unknown, and there twice: {problem}");
        let deep = format!(r#"{{"note":{}{}}}"#, "[".repeat(80), "]".repeat(80));
        assert!(probe(&[], &deep).unwrap_err().detail().contains("nested deeper"));
    }

    /// The decoder rejects a body with too many values without reading the whole body.
    #[test]
    fn values_beyond_the_most_are_not_read() {
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        struct Free {
            result: Map<String, Value>,
            #[serde(default)]
            more: Vec<Value>,
        }

        let read = |result: usize, more: usize, end: &str| {
            let result = "{},".repeat(result);
            let more = "0,".repeat(more);
            let body = format!(r#"{{"result":{{"a":[{result}{{}}]}},"more":[{more}0]{end}"#);
            decode::<Free>(&Input::json(body))
        };
        let largest = read(JSON_MAX_BYTES / 3, 0, "}").unwrap();
        assert_eq!((largest.result.len(), largest.more.len()), (1, 1));
        for (result, more, field) in [(VALUES_MAX, 0, "result"), (1, VALUES_MAX, "more")] {
            let refused = read(result, more, " and no JSON").unwrap_err();
            let problem = serde_json::to_value(refused.problem()).unwrap();
            assert_eq!(problem[ERRORS][0]["field"], field, "{problem}");
            assert!(refused.detail().contains("more than 135168 values"), "{}", refused.detail());
        }
    }

    /// Returns `count` text fields whose names no operation declares.
    fn unknown(count: usize) -> Vec<(String, String)> {
        (0..count).map(|number| (format!("titel_of_number_{number:06}"), "[1]".to_owned())).collect()
    }

    #[test]
    fn of_unknown_fields_only_those_are_kept_that_can_be_told_of() {
        #[derive(Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        struct Nothing {}

        let fields = unknown(60_000);
        let members: Vec<String> = fields.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        let body = Input::json(format!("{{{}}}", members.join(",")));
        let query = Input { text: fields, ..Input::default() };
        for input in [&body, &query] {
            let schema = schema::raw_input_schema(schema::of::<Probe>);
            let members = schema["properties"].as_object().unwrap();
            let kept = read_entries(input, RequestedFields::OfSchema(members)).unwrap();
            assert_eq!(kept.len(), members.len() + FAULTS_MAX, "each is compared with those before it");
            let options = AnswerOptions { detail: true, ..AnswerOptions::default() };
            let answer_options = &mut AnswerOptionValues::defaults_for(Surface::Mcp, options);
            for refused in [
                decode::<Probe>(input).unwrap_err(),
                decode::<Nothing>(input).unwrap_err(),
                decode_with_options::<Probe>(input, answer_options).unwrap_err(),
            ] {
                let problem = serde_json::to_value(refused.problem()).unwrap();
                assert_eq!(problem[ERRORS].as_array().unwrap().len(), FAULTS_MAX, "{problem}");
            }
        }
    }
}
