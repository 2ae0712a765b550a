//! The members that report cuts in an answer, and the maximum size of answers, both derived from the output
//! schema.
//!
//! No further declaration is needed, so every operation has both as soon as it is declared.

use serde_json::{Map, Value, json};

use crate::limits::ANSWER_MCP_BYTES;
use crate::schema::{self, alternatives, includes_type};

/// Names of the text members that a caller can continue to read after a cut. An object has at most one of
/// these members.
pub(super) const RESUMABLE_TEXTS: &[&str] =
    &["body", "value", "text", "definition", "question", "detail", "reason", "purpose", "topic", "pointer"];

/// Names of the members that are kept whole or replaced by null, although the schema describes their
/// contents.
pub(super) const NULLED_WHEN_CUT: &[&str] = &["footprint", "description"];

/// Names of the lists whose items are never cut: each item is kept whole or omitted.
pub(super) const WHOLE_ITEMS: &[&str] = &["content"];

/// Name of the list that keeps its newest, last items when it is cut.
pub(super) const NEWEST_LIST: &str = "messages";
/// Name of the member that counts the items omitted from the beginning of that list.
pub(super) const NEWEST_OMITTED: &str = "messages_omitted";

/// Name of the member that contains the items of a page.
pub(super) const ITEMS: &str = "items";
/// Name of the page member that contains the cursor of the next page.
pub(super) const NEXT_CURSOR: &str = "next_cursor";

/// Name of the member that marks an object whose text was cut.
pub(super) const TRUNCATED: &str = "truncated";
/// Name of the member that contains the offset of the first character after a cut.
pub(super) const NEXT_OFFSET: &str = "next_offset";
/// Name of the member that reports omitted list items and omitted values.
pub(super) const OMITTED: &str = "omitted";

/// Maximum bytes, as JSON, of a resumable text that is never cut.
pub(super) const UNCUT_TEXT_BYTES: usize = 256;
/// Maximum bytes, as JSON, of any other string that is never cut.
pub(super) const UNCUT_STRING_BYTES: usize = 2_500;

/// Bytes reserved in a page for the cursor and the last position.
pub(super) const CURSOR_BYTES: usize = 120;

/// Adds the members that report cuts to the schema of an answer.
pub(crate) fn add_cut_members(schema: &mut Value) {
    visit_nested(schema, &mut |part| add_cut_members(part));
    let Some(Value::Object(members)) = schema.get_mut("properties") else { return };
    let mut is_cut = false;
    let is_page = members.contains_key(NEXT_CURSOR);
    for (name, member) in members.iter_mut() {
        if is_whole(name, member) {
            is_cut = true;
            allow_null(member);
        }
        is_cut |= is_list(member) && name != NEWEST_LIST && (name != ITEMS || !is_page);
    }
    if members.iter().any(|(name, member)| is_text(name, member)) {
        members.insert(TRUNCATED.to_owned(), described_property(TRUNCATED_DESCRIPTION, "boolean"));
        members.insert(NEXT_OFFSET.to_owned(), described_property(NEXT_OFFSET_DESCRIPTION, "integer"));
    }
    if is_cut {
        let mut omitted = described_property(OMITTED_DESCRIPTION, "object");
        if let Some(keywords) = omitted.as_object_mut() {
            keywords.insert("additionalProperties".to_owned(), json!({"type": "integer"}));
        }
        members.insert(OMITTED.to_owned(), omitted);
    }
}

/// Returns the names of the schemas to which an answer's schema refers, except within values that are kept
/// whole or replaced by null.
pub(crate) fn referenced_schemas(schema: &Value) -> Vec<String> {
    let mut named = Vec::new();
    let mut cut = schema.clone();
    visit_nested(&mut cut, &mut |part| named.extend(referenced_schemas(part)));
    named.extend(
        cut.get("$ref").and_then(Value::as_str).and_then(|at| at.rsplit('/').next()).map(str::to_owned),
    );
    named
}

/// Calls `visit` for each schema within a schema, except for values that are kept whole or replaced by null.
fn visit_nested(schema: &mut Value, visit: &mut dyn FnMut(&mut Value)) {
    let Some(keywords) = schema.as_object_mut() else { return };
    for (keyword, value) in keywords {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(members)) => {
                let is_whole = |name: &str| NULLED_WHEN_CUT.contains(&name) || WHOLE_ITEMS.contains(&name);
                members.iter_mut().filter(|(name, _)| !is_whole(name)).for_each(|(_, member)| visit(member));
            }
            ("items" | "additionalProperties", item) => visit(item),
            ("anyOf" | "oneOf" | "allOf", Value::Array(alternatives)) => {
                alternatives.iter_mut().for_each(&mut *visit);
            }
            _ => {}
        }
    }
}

const TRUNCATED_DESCRIPTION: &str =
    "True if the text was cut, because the whole text would make the answer too long.";
const NEXT_OFFSET_DESCRIPTION: &str =
    "Number of characters before the cut: pass it as `offset` to the tool that reads this text.";
const OMITTED_DESCRIPTION: &str = "Parts omitted because the answer would be too long: for a list \
    the number of omitted items, for a value replaced by null its bytes.";

fn described_property(description: &str, kind: &str) -> Value {
    json!({"description": description, "type": kind})
}

fn is_list(schema: &Value) -> bool {
    schema.get("items").is_some()
}

/// Returns whether a member is kept whole or replaced by null.
fn is_whole(name: &str, schema: &Value) -> bool {
    NULLED_WHEN_CUT.contains(&name) || is_open(schema)
}

/// Changes a schema so that it also allows null.
fn allow_null(schema: &mut Value) {
    if is_nullable(schema) {
        return;
    }
    if let Some(Value::String(kind)) = schema.get("type").cloned()
        && let Some(keywords) = schema.as_object_mut()
    {
        keywords.insert("type".to_owned(), json!([kind, "null"]));
    }
}

/// Returns whether a schema allows arbitrary JSON, or an object whose members it does not describe.
pub(super) fn is_open(schema: &Value) -> bool {
    let Some(keywords) = schema.as_object() else { return true };
    let says_kind = keywords.get("type").is_some_and(|kind| !includes_type(kind, "object"));
    let says_members = ["properties", "anyOf", "oneOf", "allOf", "$ref", "enum", "const", "items"];
    !says_kind && !says_members.iter().any(|name| keywords.contains_key(*name)) && {
        keywords.get("additionalProperties").is_none_or(|of_others| of_others.as_bool().is_some())
    }
}

/// Returns whether a schema allows null.
pub(super) fn is_nullable(schema: &Value) -> bool {
    match schema.get("type") {
        Some(kind) => includes_type(kind, "null"),
        None => alternatives(schema).any(is_nullable) || is_open(schema),
    }
}

/// Maximum bytes of the strings whose schema does not limit their length, by the name of the member.
const STRING_BYTES: &[(&str, usize)] = &[
    ("$type", 100),
    ("action", 100),
    ("at_least", 20),
    ("catch_up", 300),
    ("checkpoint", 600),
    ("client_secret", 200),
    ("condition", 60),
    ("content_hash", 80),
    ("content_key", 60),
    ("display_name", 600),
    ("emoji", 300),
    ("endpoint", 2_100),
    ("events", 300),
    ("graph_hash", 80),
    ("handle", 1_100),
    ("hash", 80),
    ("head_hash", 80),
    ("href", 300),
    ("key", 420),
    ("kind", 80),
    ("label", 420),
    ("last_error", 300),
    ("model", 820),
    ("name", 420),
    ("note", 820),
    ("path", 2_020),
    ("prev_hash", 80),
    ("preview", 1_210),
    ("public_key", 120),
    ("record", 60),
    ("report_id", 820),
    ("result_kind", 820),
    ("secret", 200),
    ("self", 300),
    ("sha256", 80),
    ("signed_by", 120),
    ("skill", 270),
    ("slot", 2_020),
    ("slug", 70),
    ("snapshot", 300),
    ("state", 40),
    ("subscribe", 300),
    ("term", 420),
    ("title", 820),
    ("type", 120),
    ("uri", 300),
    ("url", UNCUT_STRING_BYTES),
    ("verify", 300),
    ("version", 40),
];

/// Maximum bytes of one character in JSON, which an escape such as `\u0001` needs.
const CHARACTER_BYTES: usize = 6;
/// Maximum bytes of a string that only a pattern limits, such as a hash or a cursor.
const PATTERN_BYTES: usize = 130;

/// Returns whether a member is a text that may be cut.
fn is_text(name: &str, schema: &Value) -> bool {
    let is_string = schema.get("type").is_some_and(|kind| includes_type(kind, "string"));
    is_string && RESUMABLE_TEXTS.contains(&name) && max_bytes(name, schema) > UNCUT_TEXT_BYTES
}

/// Returns the maximum bytes of a value that matches a schema, or `usize::MAX` if the schema sets no limit.
pub(crate) fn max_bytes(name: &str, schema: &Value) -> usize {
    schema_bytes(name, schema, &|_, _, most| most)
}

/// Returns the maximum bytes, after every possible cut, of a value that matches a schema.
pub(crate) fn max_bytes_after_cuts(schema: &Value) -> usize {
    let items = |schema: &Value| schema.get("properties")?.get(NEXT_CURSOR)?.get("type").cloned();
    let of_page = items(schema).map(|_| {
        let item = schema.get("properties").and_then(|members| members.get(ITEMS)?.get("items"));
        item.map_or(0, max_bytes_after_cuts).saturating_add(CURSOR_BYTES)
    });
    let cut = schema_bytes("", schema, &|name, schema, most| {
        if is_whole(name, schema) || (is_nullable(schema) && is_object(schema)) {
            4.min(most)
        } else if is_list(schema) {
            2
        } else if RESUMABLE_TEXTS.contains(&name) {
            UNCUT_TEXT_BYTES.min(most)
        } else if schema.get("type").is_some_and(|kind| includes_type(kind, "string")) {
            UNCUT_STRING_BYTES.min(most)
        } else {
            most
        }
    });
    cut.saturating_add(of_page.unwrap_or_default())
}

fn is_object(schema: &Value) -> bool {
    schema.get("properties").is_some() || alternatives(schema).any(is_object)
}

/// Returns the maximum bytes of a value that matches a schema. `of` adjusts the bytes of each nested value,
/// for example to those after a cut.
fn schema_bytes(name: &str, schema: &Value, of: &dyn Fn(&str, &Value, usize) -> usize) -> usize {
    let largest =
        |options: &Vec<Value>| options.iter().map(|it| it.to_string().len()).max().unwrap_or_default();
    if let Some(only) = schema.get("const") {
        return only.to_string().len();
    }
    if let Some(options) = schema.get("enum").and_then(Value::as_array) {
        return largest(options);
    }
    if let Some(members) = schema.get("properties").and_then(Value::as_object) {
        let member = |(name, schema): (&String, &Value)| {
            let size = of(name, schema, schema_bytes(name, schema, of));
            size.saturating_add(name.len()).saturating_add(4)
        };
        return members.iter().map(member).fold(2, usize::saturating_add);
    }
    if let Some(largest) = alternatives(schema).map(|it| schema_bytes(name, it, of)).max() {
        return largest;
    }
    if let Some(items) = schema.get("items") {
        let of_items = || schema_bytes(name, items, of).saturating_add(1);
        if let Some(options) = schema::allowed_values(items) {
            return options
                .iter()
                .map(|it| it.to_string().len().saturating_add(1))
                .fold(2, usize::saturating_add);
        }
        let number =
            schema.get("maxItems").and_then(Value::as_u64).and_then(|most| usize::try_from(most).ok());
        return number.map_or(usize::MAX, |number| number.saturating_mul(of_items()).saturating_add(2));
    }
    let kind = schema.get("type").unwrap_or(&Value::Null);
    if includes_type(kind, "string") {
        return string_bytes(name, schema);
    }
    match () {
        () if includes_type(kind, "integer") || includes_type(kind, "number") => 24,
        () if includes_type(kind, "boolean") => 5,
        () if kind == "null" => 4,
        () => usize::MAX,
    }
}

fn string_bytes(name: &str, schema: &Value) -> usize {
    let length = schema.get("maxLength").and_then(Value::as_u64).and_then(|most| usize::try_from(most).ok());
    match (length, schema.get("format"), schema.get("pattern")) {
        (Some(length), ..) => length.saturating_mul(CHARACTER_BYTES).saturating_add(2),
        (None, Some(_), _) => 40,
        (None, None, Some(_)) => PATTERN_BYTES,
        (None, None, None) => {
            STRING_BYTES.iter().find(|(known, _)| *known == name).map_or(usize::MAX, |(_, bytes)| *bytes)
        }
    }
}

/// Lists the strings of unlimited length in an answer, and the objects with several resumable texts.
pub(crate) fn unbounded_parts(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let none = Map::new();
    let members = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let texts: Vec<&str> =
        members.iter().filter(|(name, member)| is_text(name, member)).map(|(name, _)| &**name).collect();
    if texts.len() > 1 {
        found.push(format!("{texts:?} of one object"));
    }
    for (name, member) in members {
        let is_string = member.get("type").is_some_and(|kind| includes_type(kind, "string"));
        if is_string
            && !RESUMABLE_TEXTS.contains(&&**name)
            && !is_whole(name, member)
            && max_bytes(name, member) == usize::MAX
        {
            found.push(name.clone());
        }
    }
    let within = members.values().chain(alternatives(schema)).chain(schema.get("items"));
    found.extend(within.flat_map(unbounded_parts));
    found
}

/// Returns whether an answer may exceed `ANSWER_MCP_BYTES`, the default maximum bytes of answers over MCP.
pub(crate) fn may_be_long(schema: &Value) -> bool {
    max_bytes("", schema) > ANSWER_MCP_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_an_answer_follows_from_its_schema() {
        let text = json!({"type": "string"});
        let item = json!({"type": "object", "properties": {"id": {"type": "string", "format": "uuid"},
            "body": text, "result": {}, "title": text}});
        let items = json!({"type": "array", "items": item});
        let page = json!({"type": "object", "properties": {"items": items,
            "next_cursor": {"type": ["string", "null"], "pattern": "x"}}});
        let tagged = json!({"type": "array", "items": {"enum": ["a", "b"]}});
        let few = json!({"type": "array", "maxItems": 2, "items": {"type": "boolean"}});
        for (schema, longest, shortest) in [
            (&json!({"type": "object", "properties": {"b": tagged}}), Some(17), 9),
            (&json!({"type": "object", "properties": {"b": few}}), Some(21), 9),
            (&item, None, 2 + 46 + 264 + 14 + 829),
            (&page, None, 2 + 11 + 145 + 120 + (2 + 46 + 264 + 14 + 829)),
        ] {
            assert_eq!(longest, Some(max_bytes("", schema)).filter(|size| *size < usize::MAX), "{schema}");
            assert_eq!(max_bytes_after_cuts(schema), shortest, "{schema}");
        }
        assert!(unbounded_parts(&page).is_empty(), "a text is cut");
        let two = json!({"properties": {"body": text, "value": text, "nonsense": text}});
        assert_eq!(unbounded_parts(&two), ["[\"body\", \"value\"] of one object", "nonsense"]);
    }

    #[test]
    fn a_schema_tells_what_an_answer_has_when_it_was_cut() {
        let mut schema = json!({"type": "object", "properties": {
            "body": {"type": "string"}, "metadata": {"type": "object", "additionalProperties": true},
            "footprint": {"anyOf": [{"$ref": "#/x"}, {"type": "null"}]},
            "messages": {"type": "array",
                         "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        }});
        add_cut_members(&mut schema);
        let members = schema["properties"].as_object().unwrap();
        for told in ["truncated", "next_offset", "omitted"] {
            assert!(members[told]["description"].is_string(), "{told}: {schema:#}");
        }
        assert_eq!(members["metadata"]["type"], json!(["object", "null"]));
        let items = members["messages"]["items"]["properties"].as_object().unwrap();
        assert_eq!(items.len(), 1, "it is never cut");
    }
}
