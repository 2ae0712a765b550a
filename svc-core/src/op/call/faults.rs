//! Lists all faults of a rejected input, each with its field, in terms of JSON.
//!
//! A decoder stops at the first fault, and its messages contain Rust types. So the server checks a rejected
//! input again, against the schema of the operation. Generated schemas use few keywords: types, options,
//! bounds, lengths, formats, items and members. Only the decoder checks patterns, because its messages are
//! clearer than a pattern.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::error::Error;
use crate::schema::{LISTED_BY, SAMPLE, allowed_values};
use crate::text::{echo, nearest, redact_secrets, shortened};
use crate::time::Time;

/// Maximum number of faults that one error lists.
pub(super) const FAULTS_MAX: usize = 8;

/// Maximum characters of a caller's text that an error message quotes.
const QUOTED_CHARACTERS_MAX: usize = 40;

/// A fault in one field of an input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Fault {
    /// The path of the field, such as `limit` or `footprint.items[2].kind`.
    pub field: String,
    /// A message with the expected and the actual value.
    pub detail: String,
}

impl Fault {
    pub fn new(field: &str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            field: redact_secrets(echo(field).into_owned().into()).into_owned(),
            detail: redact_secrets(shortened(detail.into())).into_owned(),
        }
    }

    /// Returns whether the fault concerns the field `name` of the input, or a value within that field.
    pub fn is_in(&self, name: &str) -> bool {
        let rest = self.field.strip_prefix(&*echo(name));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}`: {}", self.field, self.detail)
    }
}

pub(in crate::op) use crate::error::ERRORS;

/// Returns the error 400 `malformed-request`, which lists `faults`.
pub(super) fn malformed_input(faults: &[Fault]) -> Error {
    let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
    Error::malformed(told.join("; ")).with(ERRORS, faults)
}

/// Checks an object against a schema, and returns the faults of the object.
pub(super) fn object_faults(schema: &Value, object: &Map<String, Value>) -> Vec<Fault> {
    let mut faults = Vec::new();
    check_object(schema, object, "", &mut faults);
    faults
}

/// Converts the texts of one path or query field to the JSON type that the field's schema requires.
pub(super) fn texts_to_json(schema: &Value, texts: &[&str]) -> Value {
    let read = |text: &str, schema: &Value| match first_type(schema) {
        Some("integer" | "number" | "boolean") => serde_json::from_str(text).ok(),
        _ => None,
    };
    let value = |text: &&str, schema| read(text, schema).unwrap_or_else(|| Value::from(*text));
    if first_type(schema) == Some("array") {
        let items = schema.get("items").unwrap_or(&Value::Null);
        return texts.iter().map(|text| value(text, items)).collect();
    }
    // The decoder rejects a field that occurs more than once.
    texts.first().map_or(Value::Null, |text| value(text, schema))
}

/// Checks the object at `path` against a schema, and adds the faults of the object to `faults`.
fn check_object(schema: &Value, object: &Map<String, Value>, path: &str, faults: &mut Vec<Fault>) {
    let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let none = Map::new();
    let members = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    for name in required_names(schema).filter(|name| !object.contains_key(*name)) {
        let wanted = members.get(name).map(describe_expected).unwrap_or_default();
        faults.push(Fault::new(&at(name), format!("missing; {wanted}")));
    }
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    for (name, value) in object {
        if faults.len() >= FAULTS_MAX {
            return;
        }
        match members.get(name) {
            Some(schema) => check_value(schema, value, &at(name), faults),
            None if is_closed => {
                let known: Vec<&str> = members.keys().map(String::as_str).collect();
                faults.push(Fault::new(&at(name), unknown_field_message(name, &known)));
            }
            None => {}
        }
    }
}

/// Returns the error message for the unknown field `name`, which suggests similar or all `known` fields.
pub(super) fn unknown_field_message(name: &str, known: &[&str]) -> String {
    match nearest(name, known) {
        Some(near) => format!("unknown field, did you mean `{near}`?"),
        None if known.is_empty() => "unknown field: no field is allowed here".to_owned(),
        None => format!("unknown field, expected {}", known.join(", ")),
    }
}

/// Returns the names of the members that an object schema requires.
fn required_names(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// Checks a value against a schema, and adds the faults of the value to `faults`.
fn check_value(schema: &Value, value: &Value, path: &str, faults: &mut Vec<Fault>) {
    if let Some(options) = allowed_values(schema) {
        let is_cleared = value.is_null() && allowed_types(schema).contains(&"null");
        if !is_cleared && !options.contains(&value) {
            faults.push(Fault::new(
                path,
                format!("{}{}", describe_expected(schema), suggest_value(schema, value)),
            ));
        }
        return;
    }
    if let Some(alternatives) = alternatives(schema) {
        return check_alternatives(alternatives, value, path, faults);
    }
    if !allowed_types(schema).is_empty() && !allowed_types(schema).iter().any(|kind| is_of_type(value, kind))
    {
        faults
            .push(Fault::new(path, format!("{}{}", describe_expected(schema), suggest_value(schema, value))));
        return;
    }
    match value {
        Value::Object(given) => check_object(schema, given, path, faults),
        Value::Array(given) => check_items(schema, given, path, faults),
        Value::String(text) if !is_valid_text(schema, text) => {
            faults.push(Fault::new(path, format!("{}, {}", describe_expected(schema), describe_text(text))));
        }
        Value::Number(number) if !is_in_range(schema, number.as_f64(), "minimum", "maximum") => {
            faults.push(Fault::new(path, format!("{}, not {number}", describe_expected(schema))));
        }
        _ => {}
    }
}

/// Checks a value against the alternatives of a schema, and adds the faults for the closest alternative.
fn check_alternatives(alternatives: &[Value], value: &Value, path: &str, faults: &mut Vec<Fault>) {
    let tag = tag_options(alternatives, value);
    let at_tag = tag.as_ref().map(|(tag, _)| format!("{path}.{tag}"));
    if let (Some((tag, options)), Some(at_tag)) = (tag, &at_tag) {
        let given = value.get(tag);
        let wanted = json!({"enum": options});
        if !given.is_some_and(|given| options.contains(given)) {
            let expected = describe_expected(&wanted);
            let told = given.map_or_else(
                || format!("missing; {expected}"),
                |given| format!("{expected}{}", suggest_value(&wanted, given)),
            );
            faults.push(Fault::new(at_tag, told));
            return;
        }
    }
    let tried = alternatives.iter().map(|alternative| {
        let mut found = Vec::new();
        check_value(alternative, value, path, &mut found);
        let is_other = |fault: &Fault| fault.field == path || Some(&fault.field) == at_tag.as_ref();
        (found.iter().any(is_other), found)
    });
    if let Some((_, nearest)) = tried.min_by_key(|(is_other, found)| (*is_other, found.len())) {
        faults.extend(nearest);
    }
}

/// Returns the name of the member that distinguishes the alternatives of an object, with its allowed values.
fn tag_options<'a>(alternatives: &'a [Value], value: &Value) -> Option<(&'a str, Vec<Value>)> {
    if !value.is_object() {
        return None;
    }
    let options = |alternative: &Value, name: &str| {
        let member = alternative.get("properties").and_then(|members| members.get(name))?;
        Some(allowed_values(member)?.into_iter().cloned().collect::<Vec<Value>>())
    };
    let members = alternatives.first()?.get("properties")?.as_object()?;
    members.keys().find_map(|name| {
        let all: Option<Vec<_>> = alternatives.iter().map(|it| options(it, name)).collect();
        Some((name.as_str(), all?.concat()))
    })
}

/// Checks the list at `path` against a schema, and adds the faults of the list to `faults`.
fn check_items(schema: &Value, given: &[Value], path: &str, faults: &mut Vec<Fault>) {
    let length = u32::try_from(given.len()).map_or(f64::MAX, f64::from);
    if !is_in_range(schema, Some(length), "minItems", "maxItems") {
        faults.push(Fault::new(path, format!("{}, not {}", describe_expected(schema), given.len())));
        return;
    }
    let Some(items) = schema.get("items") else { return };
    for (place, item) in given.iter().enumerate() {
        check_value(items, item, &format!("{path}[{place}]"), faults);
        if faults.len() >= FAULTS_MAX {
            return;
        }
    }
}

/// Returns the JSON types that a schema allows, or an empty list if it allows any.
fn allowed_types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind],
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns the first type other than null that a schema allows.
fn first_type(schema: &Value) -> Option<&str> {
    allowed_types(schema).into_iter().find(|kind| *kind != "null")
}

/// Returns the alternatives of a schema, of which a value must match one, or `None` if there are none.
fn alternatives(schema: &Value) -> Option<&[Value]> {
    let stated = schema.get("anyOf").or_else(|| schema.get("oneOf"))?;
    stated.as_array().map(Vec::as_slice)
}

fn is_of_type(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "number" => value.is_number(),
        "integer" => {
            let is_whole = |number: f64| number.fract() == 0.0;
            value.is_i64() || value.is_u64() || value.as_f64().is_some_and(is_whole)
        }
        "string" => value.is_string(),
        "array" => value.is_array(),
        _ => value.is_object(),
    }
}

/// Returns whether a text has the length and the format that a schema requires.
fn is_valid_text(schema: &Value, text: &str) -> bool {
    let length = u32::try_from(text.chars().count()).map_or(f64::MAX, f64::from);
    let has_format = match schema.get("format").and_then(Value::as_str) {
        Some("uuid") => Uuid::try_parse(text).is_ok(),
        Some("date-time") => serde_json::from_value::<Time>(text.into()).is_ok(),
        _ => true,
    };
    has_format && is_in_range(schema, Some(length), "minLength", "maxLength")
}

/// Returns whether a number is within the bounds in the keywords `min_keyword` and `max_keyword` of a schema.
/// `None` counts as within the bounds.
fn is_in_range(schema: &Value, number: Option<f64>, min_keyword: &str, max_keyword: &str) -> bool {
    let bound = |name| schema.get(name).and_then(Value::as_f64);
    number.is_none_or(|number| {
        bound(min_keyword).is_none_or(|least| number >= least)
            && bound(max_keyword).is_none_or(|most| number <= most)
    })
}

/// Describes the value that a schema expects, for an error message.
fn describe_expected(schema: &Value) -> String {
    if let Some(options) = allowed_values(schema) {
        let names: Vec<Cow<'_, str>> = options.into_iter().map(format_option).collect();
        return if let [only] = names.as_slice() { format!("only {only}") } else { list_options(&names) };
    }
    if let Some(alternatives) = alternatives(schema) {
        let mut forms: Vec<String> = alternatives.iter().map(describe_expected).collect();
        forms.dedup();
        return forms.join(", or ");
    }
    match first_type(schema) {
        Some("integer") => format!("a whole number{}", describe_bounds(schema, "minimum", "maximum", "")),
        Some("number") => format!("a number{}", describe_bounds(schema, "minimum", "maximum", "")),
        Some("boolean") => "true or false".to_owned(),
        Some("string") => describe_expected_text(schema),
        Some("array") => format!("a list{}", describe_bounds(schema, "minItems", "maxItems", " items")),
        Some(_) => format!("an object such as {}", example_value(schema)),
        None => "any JSON".to_owned(),
    }
}

fn list_options(names: &[Cow<'_, str>]) -> String {
    format!("one of {}", names.join(", "))
}

fn describe_expected_text(schema: &Value) -> String {
    match schema.get("format").and_then(Value::as_str) {
        Some("uuid") => match schema.get(LISTED_BY).and_then(Value::as_str) {
            Some(operation) => format!("an id such as 0199...; {operation} has them"),
            None => "an id such as 0199...".to_owned(),
        },
        Some("date-time") => "a time such as 2026-01-31T12:00:00Z".to_owned(),
        _ => format!("text{}", describe_bounds(schema, "minLength", "maxLength", " characters")),
    }
}

/// Describes the allowed range of a number, a length or a number of items, for an error message. The keywords
/// `min_keyword` and `max_keyword` of the schema contain the bounds.
fn describe_bounds(schema: &Value, min_keyword: &str, max_keyword: &str, unit: &str) -> String {
    let bound = |name| schema.get(name).and_then(Value::as_i64);
    let least = bound(min_keyword).filter(|least| *least != 0 || unit.is_empty());
    let joint = if unit.is_empty() { "from" } else { "of" };
    match (least, bound(max_keyword).filter(|most| *most != i64::MAX)) {
        (Some(least), Some(most)) => format!(" {joint} {least} to {most}{unit}"),
        (Some(least), None) => format!(" of at least {least}{unit}"),
        (None, Some(most)) => format!(" of at most {most}{unit}"),
        (None, None) => String::new(),
    }
}

/// Returns a small example of a value that a schema allows, with the required members.
fn example_value(schema: &Value) -> Value {
    if let Some(stated) = schema.get(SAMPLE) {
        return stated.clone();
    }
    if let Some(options) = allowed_values(schema) {
        return options.first().map_or(Value::Null, |option| (*option).clone());
    }
    if let Some(first) = alternatives(schema).and_then(<[Value]>::first) {
        return example_value(first);
    }
    match first_type(schema) {
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| 1.into()),
        Some("boolean") => true.into(),
        Some("array") => json!([]),
        Some("object") => {
            let Some(members) = schema.get("properties").and_then(Value::as_object) else {
                return json!({"summary": "..."});
            };
            let first = members.keys().map(String::as_str).take(1);
            let needed: Vec<&str> = required_names(schema).collect();
            let names = if needed.is_empty() { first.collect() } else { needed };
            let member = |name: &str| Some((name.to_owned(), example_value(members.get(name)?)));
            Value::Object(names.into_iter().filter_map(member).collect())
        }
        _ => "...".into(),
    }
}

/// Describes a rejected value for an error message, with the value to send instead if that is clear.
fn suggest_value(schema: &Value, value: &Value) -> String {
    let kind = first_type(schema).unwrap_or_default();
    let meant = match value {
        Value::String(text) if matches!(kind, "integer" | "number" | "boolean") => {
            serde_json::from_str(text).ok().filter(|meant| is_of_type(meant, kind))
        }
        Value::Number(number) if kind == "string" && schema.get("format").is_none() => {
            Some(Value::from(number.to_string()))
        }
        _ => None,
    };
    if let Some(meant) = meant {
        return format!(": send {meant}, not {value}");
    }
    match value {
        Value::String(text) if matches!(kind, "array" | "object") => {
            let is_meant = |meant: Value| is_of_type(&meant, kind);
            let is_written = serde_json::from_str(text).is_ok_and(is_meant);
            if is_written {
                ", not text: send the JSON without quotation marks around it"
            } else {
                ", not text"
            }
            .to_owned()
        }
        Value::String(text) => format!(", {}", describe_text(text)),
        Value::Array(_) => ", not a list".to_owned(),
        Value::Object(_) => ", not an object".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => format!(", not {value}"),
    }
}

/// Describes a rejected text for an error message: quotes a short text, and reports the length of a long
/// text.
fn describe_text(text: &str) -> String {
    let length = text.chars().count();
    if length > QUOTED_CHARACTERS_MAX {
        format!("not {length} characters")
    } else {
        format!("not {}", json!(text))
    }
}

/// Formats an allowed value for an error message: a string without quotation marks, any other value as JSON.
fn format_option(option: &Value) -> Cow<'_, str> {
    option.as_str().map_or_else(|| option.to_string().into(), Cow::Borrowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(schema: &Value, given: Value) -> Vec<String> {
        let Value::Object(given) = given else { panic!("no object") };
        object_faults(schema, &given).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_fault_is_told_with_its_field_in_the_terms_of_json() {
        let id = json!({"type": "string", "format": "uuid", LISTED_BY: "list_channels"});
        let step = |kind: &str, member: &str| {
            json!({"type": "object", "required": ["kind"], "additionalProperties": false,
                   "properties": {"kind": {"const": kind}, member: {"type": "boolean"}}})
        };
        let schema = json!({
            "type": "object", "additionalProperties": false, "required": ["channel_id", "title"],
            "properties": {
                "channel_id": id,
                "title": {"type": "string", "minLength": 1, "maxLength": 5},
                "limit": {"type": ["integer", "null"], "minimum": 1, "maximum": 100},
                "state": {"enum": ["open", "closed"], "type": "string"},
                "result": {"type": "object", "additionalProperties": true},
                "private": {"type": "boolean"},
                "at": {"type": ["string", "null"], "format": "date-time"},
                "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
                "mode": {"oneOf": [{"const": "a"}, {"const": "b"}]},
                "steps": {"type": "array", "items": {"anyOf": [step("x", "on"), step("y", "off")]}},
            },
        });
        let ours = "01990000-0000-7000-8000-000000000001";
        let ids = "an id such as 0199...; list_channels has them";
        for (value, wanted) in [(json!("release"), "not \"release\""), (json!(7), "not 7")] {
            let all = told(&schema, json!({"channel_id": value, "title": "x"}));
            assert_eq!(all, [format!("`channel_id`: {ids}, {wanted}")]);
        }
        for (field, value, wanted) in [
            ("title", json!(5), "text of 1 to 5 characters: send \"5\", not 5"),
            ("title", json!("x".repeat(60)), "text of 1 to 5 characters, not 60 characters"),
            ("limit", json!("10"), "a whole number from 1 to 100: send 10, not \"10\""),
            ("limit", json!("ten"), "a whole number from 1 to 100, not \"ten\""),
            ("limit", json!(500), "a whole number from 1 to 100, not 500"),
            ("limit", json!(1.5), "a whole number from 1 to 100, not 1.5"),
            ("state", json!("done"), "one of open, closed, not \"done\""),
            ("state", json!(null), "one of open, closed, not null"),
            ("result", json!("done"), "an object such as {\"summary\":\"...\"}, not text"),
            ("private", json!("true"), "true or false: send true, not \"true\""),
            ("at", json!("noon"), "a time such as 2026-01-31T12:00:00Z, not \"noon\""),
            ("tags", json!("a"), "a list of at most 2 items, not text"),
            ("tags", json!(["a", "b", "c"]), "a list of at most 2 items, not 3"),
            ("mode", json!("c"), "one of a, b, not \"c\""),
            ("limitt", json!(1), "unknown field, did you mean `limit`?"),
        ] {
            let mut given = json!({"channel_id": ours, "title": "x"});
            given[field] = value;
            assert_eq!(told(&schema, given), [format!("`{field}`: {wanted}")]);
        }
        for (step, wanted) in [
            (json!({"kind": "z"}), "`steps[0].kind`: one of x, y, not \"z\""),
            (json!({}), "`steps[0].kind`: missing; one of x, y"),
            (json!({"kind": "y", "on": true}), "`steps[0].on`: unknown field, expected kind, off"),
            (json!({"kind": "y", "off": 1}), "`steps[0].off`: true or false, not 1"),
        ] {
            let given = json!({"channel_id": ours, "title": "x", "steps": [step]});
            assert_eq!(told(&schema, given), [wanted]);
        }
        let all = told(&schema, json!({"limit": null, "tags": ["a", 1], "at": 3, "mode": "a"}));
        assert_eq!(
            all,
            [
                "`channel_id`: missing; an id such as 0199...; list_channels has them",
                "`title`: missing; text of 1 to 5 characters",
                "`at`: a time such as 2026-01-31T12:00:00Z, not 3",
                "`tags[1]`: text: send \"1\", not 1",
            ]
        );
        let fits = json!({"channel_id": ours, "title": "x", "limit": 24.0, "result": {"a": [1]}});
        assert_eq!(told(&schema, fits), [""; 0]);
    }

    #[test]
    fn no_more_faults_are_searched_for_than_are_told() {
        let form = |kind: &str| {
            json!({"type": "object", "additionalProperties": false,
                   "properties": {"kind": {"const": kind}, "name": {"type": "string"}}})
        };
        let schema = json!({"type": "object", "additionalProperties": false, "properties": {
            "one": form("a"),
            "list": {"type": "array", "items": form("a")},
            "either": {"anyOf": [form("a"), form("b"), {"type": "null"}]},
            "each": {"type": "array", "items": {"anyOf": [form("a"), form("b")]}},
        }});
        let many: Map<String, Value> =
            (0..50_000).map(|number| (format!("naem_{number}"), 1.into())).collect();
        let rows: Vec<Value> = (0..50_000).map(|_| json!({"kind": "b", "name": 1, "naem": 1})).collect();
        let one = |name: &str, value: Value| Map::from_iter([(name.to_owned(), value)]);
        for given in [
            many.clone(),
            one("one", many.clone().into()),
            one("list", rows.clone().into()),
            one("list", vec![Value::from(many.clone())].into()),
            one("either", many.into()),
            one("each", rows.into()),
        ] {
            let found = object_faults(&schema, &given).len();
            assert!((FAULTS_MAX..2 * FAULTS_MAX).contains(&found), "{found}");
        }
    }

    #[test]
    fn texts_of_an_address_are_read_as_they_are_meant() {
        let number = json!({"type": ["integer", "null"]});
        let list = json!({"type": "array", "items": {"type": "integer"}});
        assert_eq!(texts_to_json(&number, &["10"]), json!(10));
        assert_eq!(texts_to_json(&number, &["x"]), json!("x"));
        assert_eq!(texts_to_json(&list, &["10"]), json!([10]));
        assert_eq!(texts_to_json(&json!({"type": "string"}), &["10"]), json!("10"));
    }

    #[test]
    fn what_the_caller_sent_is_repeated_without_secrets_and_not_at_length() {
        let secret = format!("svc_{}", "a".repeat(40));
        let long = Fault::new(&"n".repeat(5000), "x".repeat(5000));
        assert!(long.field.len() < 300 && long.detail.len() < 600);
        assert!(!Fault::new(&secret, secret.clone()).to_string().contains(&secret));
    }
}
