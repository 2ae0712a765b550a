//! The descriptions and schemas of tools for models, with only the data that a model needs for a call.
//!
//! A model pays for every offered tool on each request. The description of a tool consists of the operation's
//! text `when` and the second paragraph of its documentation; the description of a field is the first
//! paragraph. Later paragraphs are for people. Errors explain the rules: an error lists everything that is
//! wrong with a call, and the next step. Annotations in the schema of the input mark texts that are shorter
//! in tools, and fields that tools lack. No rule here depends on the wording of a text. Deeply nested fields
//! have only names. If a tool is still too long, the texts of its fields are cut first, then those of nested
//! fields, then its description.

use serde_json::{Map, Value, json};

use crate::op::declare::docs::Docs;
use crate::schema;

/// Maximum bytes of the description and the input of a tool: about 300 tokens of a model.
const TOOL_BYTES_MAX: usize = 1_200;

/// Schema keywords that tools omit. In an input schema, errors or the description state the same rules; in an
/// output schema, a model does not need them.
const OMITTED_KEYWORDS: &[&str] = &[
    "not",
    "allOf",
    "pattern",
    "title",
    "default",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
];

/// Returns the description of a tool and the schema of its input, derived from the annotated schema.
pub(super) fn describe_input(docs: &Docs, mut schema: Value) -> (String, Value) {
    let mut description = tool_description(docs, &mut schema);
    remove_caller_fields(&mut schema);
    let mut each = |change: fn(&mut Map<String, Value>, SchemaPosition<'_>)| {
        visit_schemas(&mut schema, SchemaPosition::ROOT, &change)
    };
    each(remove_rules);
    each(merge_alternatives);
    each(use_brief_description);
    each(shorten_nested_descriptions);
    schema::remove_annotations(&mut schema);
    let length = |description: &str, schema: &Value| description.len() + schema.to_string().len();
    for cut in [shorten_descriptions, remove_nested_descriptions] {
        if length(&description, &schema) > TOOL_BYTES_MAX {
            visit_schemas(&mut schema, SchemaPosition::ROOT, &cut);
        }
    }
    while length(&description, &schema) > TOOL_BYTES_MAX {
        let Some(shorter) = length_without_last_sentence(&description) else { break };
        description.truncate(shorter);
    }
    (description, schema)
}

/// Removes from the schema of an output the keywords that a model does not need.
pub(super) fn reduce_output_schema(schema: &mut Value) {
    visit_schemas(schema, SchemaPosition::ROOT, &|keywords, _| {
        keywords.retain(|name, rule| {
            let helps = name != "description" && !OMITTED_KEYWORDS.contains(&name.as_str());
            helps && !allows_any_members(name, rule) && !is_integer_width(name, rule)
        });
    });
}

/// The position of a schema within another schema.
#[derive(Clone, Copy)]
struct SchemaPosition<'a> {
    /// The number of schemas that contain the schema.
    depth: usize,
    /// The name of the member that the schema describes.
    member: Option<&'a str>,
}

impl SchemaPosition<'_> {
    const ROOT: Self = Self { depth: 0, member: None };
}

/// Calls `change` with the keywords of a schema and of all nested schemas. Replaces the schema `true` by one
/// without keywords.
fn visit_schemas(
    schema: &mut Value,
    place: SchemaPosition<'_>,
    change: &dyn Fn(&mut Map<String, Value>, SchemaPosition<'_>),
) {
    if *schema == Value::Bool(true) {
        *schema = json!({});
    }
    let Some(keywords) = schema.as_object_mut() else { return };
    change(keywords, place);
    let within = |member| SchemaPosition { depth: place.depth + 1, member };
    for (keyword, rule) in keywords.iter_mut() {
        match (keyword.as_str(), rule) {
            ("properties", Value::Object(members)) => {
                members
                    .iter_mut()
                    .for_each(|(name, schema)| visit_schemas(schema, within(Some(name.as_str())), change));
            }
            ("anyOf" | "oneOf" | "prefixItems", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(|schema| visit_schemas(schema, within(None), change));
            }
            ("items" | "additionalProperties", schema) => visit_schemas(schema, within(None), change),
            _ => {}
        }
    }
}

/// Removes the fields whose only possible value follows from the caller's credential.
fn remove_caller_fields(schema: &mut Value) {
    let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    fields.retain(|_, field| field.get(schema::OF_CALLER).is_none());
}

/// Removes the rules from the schema of an input, because an error reports a violated rule.
fn remove_rules(keywords: &mut Map<String, Value>, place: SchemaPosition<'_>) {
    let takes_nothing = place.depth == 0 && keywords.get("properties").is_none();
    keywords.retain(|name, rule| match name.as_str() {
        "format" => *rule != "uuid" && !is_integer_width(name, rule),
        "additionalProperties" => takes_nothing || rule.as_object().is_some_and(|rule| !rule.is_empty()),
        name => !OMITTED_KEYWORDS.contains(&name),
    });
}

fn allows_any_members(name: &str, rule: &Value) -> bool {
    name == "additionalProperties" && *rule == Value::Bool(true)
}

/// Returns whether a rule states the width of an integer in this service.
///
/// JSON Schema has no such format, and the validators of clients warn about each unknown format.
fn is_integer_width(name: &str, rule: &Value) -> bool {
    let width = rule.as_str().filter(|_| name == "format");
    width.is_some_and(|width| width.starts_with("int") || width.starts_with("uint"))
}

/// Merges the alternatives of a value into one object, with the members of all alternatives. Members that
/// every alternative requires stay required.
fn merge_alternatives(keywords: &mut Map<String, Value>, _: SchemaPosition<'_>) {
    for name in ["anyOf", "oneOf"] {
        let forms = keywords.get(name).and_then(Value::as_array);
        let constants = forms.and_then(|forms| forms.iter().map(|form| form.get("const").cloned()).collect());
        if let Some(Value::Array(texts)) = constants {
            keywords.remove(name);
            keywords.insert("type".to_owned(), "string".into());
            keywords.insert("enum".to_owned(), texts.into());
            continue;
        }
        let Some(forms) = forms.filter(|forms| forms.iter().all(|form| members_of(form).is_some())) else {
            continue;
        };
        let mut members = Map::new();
        for (name, member) in forms.iter().filter_map(members_of).flatten() {
            let member = const_as_options(member);
            match members.get_mut(name) {
                Some(known) => extend_schema(known, &member),
                None => {
                    members.insert(name.clone(), member);
                }
            }
        }
        let required_by = |form: &Value| form.get("required").and_then(Value::as_array).cloned();
        let mut required = forms.first().and_then(required_by).unwrap_or_default();
        required
            .retain(|name| forms.iter().all(|form| required_by(form).is_some_and(|by| by.contains(name))));
        keywords.remove(name);
        keywords.insert("type".to_owned(), "object".into());
        keywords.insert("properties".to_owned(), members.into());
        if !required.is_empty() {
            keywords.insert("required".to_owned(), required.into());
        }
    }
}

fn members_of(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

/// Returns the schema of a member, in which a single possible value becomes a list of one option.
fn const_as_options(member: &Value) -> Value {
    let mut member = member.clone();
    if let Some(keywords) = member.as_object_mut()
        && let Some(only) = keywords.remove("const")
    {
        keywords.insert("enum".to_owned(), json!([only]));
    }
    member
}

/// Extends the schema `known` so that it also allows the values of `other`.
fn extend_schema(known: &mut Value, other: &Value) {
    if known.get("type") != other.get("type") {
        *known = json!({});
        return;
    }
    if let (Some(Value::Array(options)), Some(Value::Array(more))) =
        (known.get_mut("enum"), other.get("enum"))
    {
        let new: Vec<Value> = more.iter().filter(|option| !options.contains(option)).cloned().collect();
        options.extend(new);
    }
    let texts = [&*known, other].map(|schema| schema.get("description").and_then(Value::as_str));
    if let [Some(text), Some(more)] = texts
        && !text.contains(more)
    {
        let both = format!("{text} {more}");
        if let Some(keywords) = known.as_object_mut() {
            keywords.insert("description".to_owned(), both.into());
        }
    }
}

/// Replaces a field's description by its brief text, or else by its first paragraph. Removes a description
/// that only repeats the field's name.
fn use_brief_description(keywords: &mut Map<String, Value>, place: SchemaPosition<'_>) {
    if let Some(brief) = keywords.remove(schema::BRIEF) {
        keywords.insert("description".to_owned(), brief);
    }
    let Some(Value::String(text)) = keywords.get_mut("description") else { return };
    text.truncate(text.find("\n\n").unwrap_or(text.len()));
    let says_nothing = match place.member {
        Some(name) => text.is_empty() || repeats_field_name(text, name),
        None => place.depth > 0,
    };
    if says_nothing {
        keywords.remove("description");
    }
}

/// Returns whether a description only repeats the name of its field, such as "Id of the thread." for
/// `thread_id`.
fn repeats_field_name(text: &str, field: &str) -> bool {
    let name = text.strip_prefix("Id of the ").or_else(|| text.strip_prefix("The ")).unwrap_or(text);
    let name = name.strip_suffix('.').unwrap_or(name);
    name.eq_ignore_ascii_case(&field.strip_suffix("_id").unwrap_or(field).replace('_', " "))
}

/// Keeps the first sentence of the descriptions of nested members, and removes descriptions at greater depth.
fn shorten_nested_descriptions(keywords: &mut Map<String, Value>, place: SchemaPosition<'_>) {
    if place.depth == 2 {
        keep_first_sentence(keywords);
    }
    if keywords.contains_key(schema::EXPLAINED_ELSEWHERE)
        && let Some(Value::Object(members)) = keywords.get_mut("properties")
    {
        members.values_mut().filter_map(Value::as_object_mut).for_each(|member| {
            member.remove("description");
        });
    }
    keywords.retain(|name, _| match name.as_str() {
        "description" | "required" => place.depth <= 2,
        "enum" => place.depth <= 3,
        _ => true,
    });
}

/// Keeps the first sentence of each field's description.
fn shorten_descriptions(keywords: &mut Map<String, Value>, _: SchemaPosition<'_>) {
    keep_first_sentence(keywords);
}

/// Removes the descriptions of nested members.
fn remove_nested_descriptions(keywords: &mut Map<String, Value>, place: SchemaPosition<'_>) {
    if place.depth > 1 {
        keywords.remove("description");
    }
}

/// Cuts a description after its first sentence.
fn keep_first_sentence(keywords: &mut Map<String, Value>) {
    let Some(Value::String(text)) = keywords.get_mut("description") else { return };
    let end = [". ", ".\n"].iter().filter_map(|end| text.find(end)).min();
    text.truncate(end.map_or(text.len(), |end| end + 1));
}

/// Returns the length of a text without its last sentence, or `None` if the text has only one sentence.
fn length_without_last_sentence(text: &str) -> Option<usize> {
    let rest = text.strip_suffix('.')?;
    [". ", ".\n"].iter().filter_map(|end| rest.rfind(end)).max().map(|end| end + 1)
}

/// Removes the description from the schema of an input, and returns the tool's description as one paragraph.
///
/// The description consists of the operation's text `when`, followed by the brief text of the input or else
/// the second paragraph of the documentation. The last paragraph, which lists the refusals, is omitted,
/// because errors explain the refusals.
fn tool_description(docs: &Docs, schema: &mut Value) -> String {
    let mut take = |keyword| match schema.as_object_mut()?.remove(keyword)? {
        Value::String(text) => Some(text),
        _ => None,
    };
    let brief = take(schema::BRIEF);
    let text = take("description").unwrap_or_default();
    let mut paragraphs: Vec<&str> = text.split("\n\n").collect();
    if !docs.refuses.is_empty() {
        paragraphs.pop();
    }
    let more = brief.as_deref().or(paragraphs.get(1).copied()).unwrap_or_default();
    format!("{} {more}", docs.when).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    /// Returns the documentation of an operation with the text `when` and the codes `refuses`.
    fn docs(when: &'static str, refuses: &'static [Code]) -> Docs {
        let input = schema::of::<String>;
        Docs { title: "", when, area: "", refuses, example: None, input, output: input }
    }

    #[test]
    fn a_tool_says_when_to_use_it_and_what_to_know_then() {
        let refuses = &[Code::WrongState];
        let refusals = "Fails with 409 `wrong-state` if not.";
        let documented = |text: &str| json!({"description": text});
        for (refuses, schema, shown) in [
            (&[][..], documented("Lists as."), "Use to list."),
            (&[], documented("Lists as.\n\nOld ones too.\n\nFor people."), "Use to list. Old ones too."),
            (&[], json!({"description": "Lists as.\n\nFor people.", "x-brief": ""}), "Use to list."),
            (&[], json!({"description": "Lists as.", "x-brief": "As."}), "Use to list. As."),
            (refuses, documented(&format!("Lists as.\n\n{refusals}")), "Use to list."),
            (refuses, documented(&format!("Lists as.\n\nOld.\n\n{refusals}")), "Use to list. Old."),
        ] {
            assert_eq!(describe_input(&docs("Use to list.", refuses), schema).0, shown);
        }
    }

    #[test]
    fn annotations_decide_what_a_tool_shows_of_a_field() {
        let schema = json!({"type": "object", "properties": {
            "workspace_id": {"type": "string", "description": "Which.", "x-of-caller": true},
            "secs": {"type": "integer", "description": "For how long.", "x-brief": "Seconds."},
            "limit": {"type": "integer", "description": "How many.", "x-brief": ""},
            "flag": {"type": "boolean", "description": "Whether.", "x-default": "false"},
            "newest_first": {"type": "boolean", "description": "Newest first."},
            "footprint": {"type": "object", "description": "What.", "x-explained-elsewhere": true,
                "properties": {"items": {"type": "array", "description": "Which.", "x-sample": []}}},
        }});
        assert_eq!(
            describe_input(&docs("", &[]), schema).1,
            json!({"type": "object", "properties": {
                "secs": {"type": "integer", "description": "Seconds."},
                "limit": {"type": "integer"},
                "flag": {"type": "boolean", "description": "Whether."},
                "newest_first": {"type": "boolean"},
                "footprint": {"type": "object", "description": "What.",
                    "properties": {"items": {"type": "array"}}},
            }})
        );
    }

    #[test]
    fn a_model_is_told_of_no_rule_and_no_schema_that_is_only_true() {
        let schema = json!({"type": "object", "additionalProperties": false, "description": "Does it.",
            "properties": {
                "pattern": {
                    "type": ["string", "null"], "default": "a", "maxLength": 3, "description": "Which.",
                },
                "all": {"type": "array", "items": true},
                "free": {"type": "object", "additionalProperties": true},
                "thing_id": {"type": "string", "format": "uuid", "description": "The thing."},
                "count": {
                    "type": "integer", "format": "uint64", "minimum": 1, "maximum": 9,
                    "description": "At most 9.",
                },
                "other": {"type": "string", "description": "Any.\n\nFor people."},
        }});
        let mut of_output = schema.clone();
        let (description, shown) = describe_input(&docs("Use it.", &[]), schema);
        assert_eq!(description, "Use it.");
        assert_eq!(
            shown,
            json!({"type": "object", "properties": {
                "pattern": {"type": ["string", "null"], "description": "Which."},
                "all": {"type": "array", "items": {}},
                "free": {"type": "object"},
                "thing_id": {"type": "string"},
                "count": {"type": "integer", "description": "At most 9."},
                "other": {"type": "string", "description": "Any."},
            }})
        );
        reduce_output_schema(&mut of_output);
        assert_eq!(of_output["properties"]["pattern"], json!({"type": ["string", "null"]}));
        assert_eq!(of_output["properties"]["count"], json!({"type": "integer"}));
    }

    #[test]
    fn forms_of_a_value_are_told_as_one() {
        let form = |kind: Value, more: &str| {
            json!({"type": "object", "required": ["kind", more],
                "properties": {"kind": kind, more: {"type": "string"}}})
        };
        let mut schema = json!({"oneOf": [
            form(json!({"type": "string", "const": "a"}), "x"),
            form(json!({"type": "string", "enum": ["b", "c"]}), "y"),
        ]});
        visit_schemas(&mut schema, SchemaPosition::ROOT, &merge_alternatives);
        assert_eq!(
            schema,
            json!({"type": "object", "required": ["kind"], "properties": {
                "kind": {"type": "string", "enum": ["a", "b", "c"]},
                "x": {"type": "string"}, "y": {"type": "string"},
            }})
        );
    }

    #[test]
    fn a_long_tool_says_the_most_important_first() {
        let schema = json!({"type": "object", "description": format!("Does it.\n\n{}.", "Long".repeat(500)),
            "properties": {"a": {"type": "string", "description": "What. And why."}}});
        let (description, shown) = describe_input(&docs("Use it.", &[]), schema);
        assert_eq!((&*description, &shown["properties"]["a"]["description"]), ("Use it.", &json!("What.")));
    }
}
