//! Notes about cuts in an answer, and the maximum length of answers, both derived from the schema of the
//! output.
//!
//! No further declaration is needed, so each operation has them as soon as it is declared.

use serde_json::{Map, Value, json};

use crate::limits::ANSWER_MCP_BYTES;
use crate::schema::{self, alternatives, is_kind};

/// Members whose text a caller may continue to read after a cut. An object has at most one of them.
pub(super) const TEXTS: &[&str] =
    &["body", "value", "text", "definition", "question", "detail", "reason", "purpose", "topic", "pointer"];

/// Members that are kept whole or replaced by null, although their schema describes their contents.
pub(super) const WHOLE: &[&str] = &["footprint", "description"];

/// Members that are lists of values which are kept whole or replaced by null.
pub(super) const WHOLE_ITEMS: &[&str] = &["content"];

/// The list of which the newest, last items are kept, and the member that counts the omitted items.
pub(super) const NEWEST: &str = "messages";
pub(super) const NEWEST_OMITTED: &str = "messages_omitted";

/// The members of a page: its items, and the cursor of the next page.
pub(super) const ITEMS: &str = "items";
pub(super) const NEXT_CURSOR: &str = "next_cursor";

/// The members that report a cut text and omitted members.
pub(super) const TRUNCATED: &str = "truncated";
pub(super) const NEXT_OFFSET: &str = "next_offset";
pub(super) const OMITTED: &str = "omitted";

/// Texts of up to this many bytes are not cut.
pub(super) const TEXT_MIN: usize = 256;
/// Other strings of up to this many bytes are not cut.
pub(super) const WORD_MAX: usize = 2_500;

/// Reserved bytes for the cursor and the last positions of a page.
pub(super) const CURSOR_BYTES: usize = 120;

/// Adds the members that report cuts to the schema of an answer.
pub(crate) fn describe(schema: &mut Value) {
    each_part(schema, &mut |part| describe(part));
    let Some(Value::Object(members)) = schema.get_mut("properties") else { return };
    let mut is_cut = false;
    let is_page = members.contains_key(NEXT_CURSOR);
    for (name, member) in members.iter_mut() {
        if is_whole(name, member) {
            is_cut = true;
            allow_null(member);
        }
        is_cut |= is_list(member) && name != NEWEST && (name != ITEMS || !is_page);
    }
    if members.iter().any(|(name, member)| is_text(name, member)) {
        members.insert(TRUNCATED.to_owned(), about(ABOUT_TRUNCATED, "boolean"));
        members.insert(NEXT_OFFSET.to_owned(), about(ABOUT_NEXT_OFFSET, "integer"));
    }
    if is_cut {
        let mut omitted = about(ABOUT_OMITTED, "object");
        if let Some(keywords) = omitted.as_object_mut() {
            keywords.insert("additionalProperties".to_owned(), json!({"type": "integer"}));
        }
        members.insert(OMITTED.to_owned(), omitted);
    }
}

/// Returns the names of the schemas within an answer, except within values that are kept whole or replaced by
/// null.
pub(crate) fn parts_named(schema: &Value) -> Vec<String> {
    let mut named = Vec::new();
    let mut cut = schema.clone();
    each_part(&mut cut, &mut |part| named.extend(parts_named(part)));
    named.extend(
        cut.get("$ref").and_then(Value::as_str).and_then(|at| at.rsplit('/').next()).map(str::to_owned),
    );
    named
}

/// Visits the schemas within a schema, except those of values that are kept whole or replaced by null.
fn each_part(schema: &mut Value, visit: &mut dyn FnMut(&mut Value)) {
    let Some(keywords) = schema.as_object_mut() else { return };
    for (keyword, value) in keywords {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(members)) => {
                let is_whole = |name: &str| WHOLE.contains(&name) || WHOLE_ITEMS.contains(&name);
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

const ABOUT_TRUNCATED: &str =
    "True if the text was cut, because the answer would be too long with all of it.";
const ABOUT_NEXT_OFFSET: &str =
    "The character at which the rest of the text begins: `offset` of the tool that reads it alone.";
const ABOUT_OMITTED: &str = "What was left out, because the answer would be too long: of a list how many \
    items, of a value that is null for that its bytes.";

fn about(description: &str, kind: &str) -> Value {
    json!({"description": description, "type": kind})
}

fn is_list(schema: &Value) -> bool {
    schema.get("items").is_some()
}

/// Returns whether a member is kept whole or replaced by null.
fn is_whole(name: &str, schema: &Value) -> bool {
    WHOLE.contains(&name) || is_open(schema)
}

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

/// Returns whether a schema leaves the contents of a value open.
pub(super) fn is_open(schema: &Value) -> bool {
    let Some(keywords) = schema.as_object() else { return true };
    let says_kind = keywords.get("type").is_some_and(|kind| !is_kind(kind, "object"));
    let says_members = ["properties", "anyOf", "oneOf", "allOf", "$ref", "enum", "const", "items"];
    !says_kind && !says_members.iter().any(|name| keywords.contains_key(*name)) && {
        keywords.get("additionalProperties").is_none_or(|of_others| of_others.as_bool().is_some())
    }
}

/// Returns whether a schema allows null.
pub(super) fn is_nullable(schema: &Value) -> bool {
    match schema.get("type") {
        Some(kind) => is_kind(kind, "null"),
        None => alternatives(schema).any(is_nullable) || is_open(schema),
    }
}

/// Maximum bytes of strings whose schema does not limit their length, by the name of the member.
const LENGTHS: &[(&str, usize)] = &[
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
    ("url", WORD_MAX),
    ("verify", 300),
    ("version", 40),
];

/// Maximum bytes of a character in JSON, for an escaped character.
const CHARACTER_BYTES: usize = 6;
/// Maximum bytes of a string that only a pattern limits, such as a hash or a cursor.
const PATTERN_BYTES: usize = 130;

/// Returns whether a member is a text that may be cut.
fn is_text(name: &str, schema: &Value) -> bool {
    let is_string = schema.get("type").is_some_and(|kind| is_kind(kind, "string"));
    is_string && TEXTS.contains(&name) && most(name, schema) > TEXT_MIN
}

/// Returns the maximum bytes of a value by its schema, or `usize::MAX` if the schema sets no limit.
pub(crate) fn most(name: &str, schema: &Value) -> usize {
    sized(name, schema, &|_, _, most| most)
}

/// Returns the maximum bytes of a value that has been cut as far as possible.
pub(crate) fn least(schema: &Value) -> usize {
    let items = |schema: &Value| schema.get("properties")?.get(NEXT_CURSOR)?.get("type").cloned();
    let of_page = items(schema).map(|_| {
        let item = schema.get("properties").and_then(|members| members.get(ITEMS)?.get("items"));
        item.map_or(0, least).saturating_add(CURSOR_BYTES)
    });
    let cut = sized("", schema, &|name, schema, most| {
        if is_whole(name, schema) || (is_nullable(schema) && is_object(schema)) {
            4.min(most)
        } else if is_list(schema) {
            2
        } else if TEXTS.contains(&name) {
            TEXT_MIN.min(most)
        } else if schema.get("type").is_some_and(|kind| is_kind(kind, "string")) {
            WORD_MAX.min(most)
        } else {
            most
        }
    });
    cut.saturating_add(of_page.unwrap_or_default())
}

fn is_object(schema: &Value) -> bool {
    schema.get("properties").is_some() || alternatives(schema).any(is_object)
}

/// Returns the size of a value by its schema. `of` converts the size of each value within it.
fn sized(name: &str, schema: &Value, of: &dyn Fn(&str, &Value, usize) -> usize) -> usize {
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
            let size = of(name, schema, sized(name, schema, of));
            size.saturating_add(name.len()).saturating_add(4)
        };
        return members.iter().map(member).fold(2, usize::saturating_add);
    }
    if let Some(largest) = alternatives(schema).map(|it| sized(name, it, of)).max() {
        return largest;
    }
    if let Some(items) = schema.get("items") {
        let of_items = || sized(name, items, of).saturating_add(1);
        if let Some(options) = schema::one_of_options(items) {
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
    if is_kind(kind, "string") {
        return string_bytes(name, schema);
    }
    match () {
        () if is_kind(kind, "integer") || is_kind(kind, "number") => 24,
        () if is_kind(kind, "boolean") => 5,
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
            LENGTHS.iter().find(|(known, _)| *known == name).map_or(usize::MAX, |(_, bytes)| *bytes)
        }
    }
}

/// Lists the strings in an answer whose length is unlimited, and the objects with two resumable texts.
pub(crate) fn unbounded(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let none = Map::new();
    let members = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let texts: Vec<&str> =
        members.iter().filter(|(name, member)| is_text(name, member)).map(|(name, _)| &**name).collect();
    if texts.len() > 1 {
        found.push(format!("{texts:?} of one object"));
    }
    for (name, member) in members {
        let is_string = member.get("type").is_some_and(|kind| is_kind(kind, "string"));
        if is_string
            && !TEXTS.contains(&&**name)
            && !is_whole(name, member)
            && most(name, member) == usize::MAX
        {
            found.push(name.clone());
        }
    }
    let within = members.values().chain(alternatives(schema)).chain(schema.get("items"));
    found.extend(within.flat_map(unbounded));
    found
}

/// Returns whether an answer may exceed the default size of answers over MCP.
pub(crate) fn may_be_long(schema: &Value) -> bool {
    most("", schema) > ANSWER_MCP_BYTES
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
            assert_eq!(longest, Some(most("", schema)).filter(|size| *size < usize::MAX), "{schema}");
            assert_eq!(least(schema), shortest, "{schema}");
        }
        assert!(unbounded(&page).is_empty(), "a text is cut");
        let two = json!({"properties": {"body": text, "value": text, "nonsense": text}});
        assert_eq!(unbounded(&two), ["[\"body\", \"value\"] of one object", "nonsense"]);
    }

    #[test]
    fn a_schema_tells_what_an_answer_has_when_it_was_cut() {
        let mut schema = json!({"type": "object", "properties": {
            "body": {"type": "string"}, "metadata": {"type": "object", "additionalProperties": true},
            "footprint": {"anyOf": [{"$ref": "#/x"}, {"type": "null"}]},
            "messages": {"type": "array",
                         "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        }});
        describe(&mut schema);
        let members = schema["properties"].as_object().unwrap();
        for told in ["truncated", "next_offset", "omitted"] {
            assert!(members[told]["description"].is_string(), "{told}: {schema:#}");
        }
        assert_eq!(members["metadata"]["type"], json!(["object", "null"]));
        let items = members["messages"]["items"]["properties"].as_object().unwrap();
        assert_eq!(items.len(), 1, "it is never cut");
    }
}
