//! What a model is told of a tool: no more than it needs to call it.
//!
//! A model pays for every tool that it is offered, with each request. It is told when to use the tool, and
//! the second paragraph of its documentation; of a field, the first one. What follows is for people. Rules
//! are left to the errors, which say all that is wrong with a call and what to do. What many fields say in
//! the same words is said shortly, what is deep within a field is hardly more than named, and what follows
//! from the token, or is told by another tool, is left out. A tool that is still long says less of its
//! fields, then of what is within them, then of itself.

use serde_json::{Map, Value, json};

/// Most bytes of the description and the input of a tool: about 300 tokens of a model.
const TOOL_BYTES_MAX: usize = 1_200;

/// What is said of fields that many tools have, by how their own description begins.
const REPEATED: &[(&str, &str)] = &[
    ("Where to continue: the `next_cursor`", "`next_cursor` of the page before."),
    ("Maximum number of items to return", "Default: 20."),
    ("`lean` leaves out what", ""),
    ("Most bytes of the answer", ""),
    ("The character at which the text of the answer", "`next_offset` of the answer before."),
    ("The lease id of your claim. If given", "That of your claim: always send it."),
    ("The lease id of the claim. If given", "That of the claim: always send it."),
    ("How long the claim lasts without", "Seconds until it lapses."),
    ("Whether to acknowledge the claim, too", "Acknowledges it."),
    ("Whether to return what `get_thread_context`", "Adds its context."),
    ("Whether to return a claim that you hold", "A claim that you hold, again."),
    ("How far the work has come, for", "How far the work has come."),
    ("How long to wait, in seconds", "Below your client's timeout, often 60. Default: 30."),
    ("The first message: what", "What its worker has to know."),
    ("The threads that must be finished", "What it waits for."),
    ("The skills that a member must have to claim it", "Needed to claim it."),
    ("The tools that you advise its worker", "Advice to its worker."),
    ("How urgent it is, from", "From -100 to 100."),
    ("Whether only a person may accept it", "Whether only a person may accept it."),
    ("In how many seconds it expires, at least 60", "Seconds until it expires."),
    ("The repository, as `owner/name`;", "`owner/name` or a clone URL. Optional if all items are slots."),
    ("Newest first", ""),
];

/// What is said of an optional field that can only be the caller's own: its workspace, itself.
const OF_CALLER: &[&str] = &["ust be yours.", ": yours."];

/// What is said of a field whose members are those of the input of another tool.
const OF_ANOTHER: &str = "` takes it";

/// What the end of a field's description says of the value that it has if it is left out, where that goes
/// without saying.
const NEEDLESS_DEFAULTS: &[&str] =
    &[" Default: false.", " Default: 0.", " Default: none.", " Default: nothing."];

/// Keywords of an input that errors say as well, or that the description says. In an output they help nobody.
const IS_LEFT_TO_ERRORS: &[&str] = &[
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

/// Returns the description of a tool and the schema of its input.
///
/// They are made of when to use the operation, if that is said, and of the schema of its input.
pub(super) fn input(when: &str, mut schema: Value) -> (String, Value) {
    let docs = schema.as_object_mut().and_then(|schema| schema.remove("description"));
    let docs = docs.as_ref().and_then(Value::as_str).unwrap_or_default();
    let has_pages = members_of(&schema).is_some_and(|fields| fields.contains_key("cursor"));
    let mut description = description(when, docs, has_pages);
    without_callers(&mut schema);
    let mut each = |change: fn(&mut Map<String, Value>, Place<'_>)| walk(&mut schema, Place::ROOT, &change);
    each(without_rules);
    each(in_one_form);
    each(in_few_words);
    each(briefly_within);
    let length = |description: &str, schema: &Value| description.len() + schema.to_string().len();
    for cut in [briefly, silently_within] {
        if length(&description, &schema) > TOOL_BYTES_MAX {
            walk(&mut schema, Place::ROOT, &cut);
        }
    }
    while length(&description, &schema) > TOOL_BYTES_MAX {
        let Some(shorter) = without_last_sentence(&description) else { break };
        description.truncate(shorter);
    }
    (description, schema)
}

/// Takes out of the schema of an output what is of no use to a model.
pub(super) fn output(schema: &mut Value) {
    walk(schema, Place::ROOT, &|keywords, _| {
        keywords.retain(|name, rule| {
            let helps = name != "description" && !IS_LEFT_TO_ERRORS.contains(&name.as_str());
            helps && !is_open(name, rule) && !is_width(name, rule)
        });
    });
}

/// Where a schema is within another.
#[derive(Clone, Copy)]
struct Place<'a> {
    depth: usize,
    /// The name of the member that it is of.
    member: Option<&'a str>,
}

impl Place<'_> {
    const ROOT: Self = Self { depth: 0, member: None };
}

/// Changes the keywords of a schema and of those within it; no schema is only `true` then.
fn walk(schema: &mut Value, place: Place<'_>, change: &dyn Fn(&mut Map<String, Value>, Place<'_>)) {
    if *schema == Value::Bool(true) {
        *schema = json!({});
    }
    let Some(keywords) = schema.as_object_mut() else { return };
    change(keywords, place);
    let within = |member| Place { depth: place.depth + 1, member };
    for (keyword, rule) in keywords.iter_mut() {
        match (keyword.as_str(), rule) {
            ("properties", Value::Object(members)) => {
                members
                    .iter_mut()
                    .for_each(|(name, schema)| walk(schema, within(Some(name.as_str())), change));
            }
            ("anyOf" | "oneOf" | "prefixItems", Value::Array(schemas)) => {
                schemas.iter_mut().for_each(|schema| walk(schema, within(None), change));
            }
            ("items" | "additionalProperties", schema) => walk(schema, within(None), change),
            _ => {}
        }
    }
}

/// Takes out the fields that can only have the value that the caller's token says.
fn without_callers(schema: &mut Value) {
    let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    fields.retain(|_, field| {
        let text = field.get("description").and_then(Value::as_str).unwrap_or_default();
        !OF_CALLER.iter().any(|words| text.contains(words))
    });
}

/// Takes out the rules that a model need not know: an error says which it has broken.
fn without_rules(keywords: &mut Map<String, Value>, place: Place<'_>) {
    let takes_nothing = place.depth == 0 && keywords.get("properties").is_none();
    keywords.retain(|name, rule| match name.as_str() {
        "format" => *rule != "uuid" && !is_width(name, rule),
        "additionalProperties" => takes_nothing || rule.as_object().is_some_and(|rule| !rule.is_empty()),
        name => !IS_LEFT_TO_ERRORS.contains(&name),
    });
}

fn is_open(name: &str, rule: &Value) -> bool {
    name == "additionalProperties" && *rule == Value::Bool(true)
}

/// Returns whether a rule says how wide a whole number is in the service.
///
/// That is none of the formats of JSON Schema, and validators of clients warn of each that they do not know.
fn is_width(name: &str, rule: &Value) -> bool {
    let width = rule.as_str().filter(|_| name == "format");
    width.is_some_and(|width| width.starts_with("int") || width.starts_with("uint"))
}

/// Makes one object of the forms that a value can have: with the members of all, and what all require.
fn in_one_form(keywords: &mut Map<String, Value>, _: Place<'_>) {
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
            let member = with_options(member);
            match members.get_mut(name) {
                Some(known) => join(known, &member),
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

/// Returns the schema of a member whose only value, if it has only one, is one of a list.
fn with_options(member: &Value) -> Value {
    let mut member = member.clone();
    if let Some(keywords) = member.as_object_mut()
        && let Some(only) = keywords.remove("const")
    {
        keywords.insert("enum".to_owned(), json!([only]));
    }
    member
}

/// Lets a schema allow what another allows too.
fn join(known: &mut Value, other: &Value) {
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

/// Says shortly what many fields say, and nothing where a description says no more than the name.
fn in_few_words(keywords: &mut Map<String, Value>, place: Place<'_>) {
    let Some(Value::String(text)) = keywords.get_mut("description") else { return };
    text.truncate(text.find("\n\n").unwrap_or(text.len()));
    for needless in NEEDLESS_DEFAULTS {
        text.truncate(text.strip_suffix(needless).unwrap_or(text).len());
    }
    let repeated = REPEATED.iter().find(|(beginning, _)| text.starts_with(beginning));
    let is_the_name = |name: &str| {
        let name = name.strip_suffix("_id").unwrap_or(name).replace('_', " ");
        text.strip_prefix("The ").and_then(|text| text.strip_suffix('.')) == Some(name.as_str())
    };
    let says_nothing = match place.member {
        Some(name) => is_the_name(name),
        None => place.depth > 0,
    };
    match repeated {
        Some((_, "")) => {
            keywords.remove("description");
        }
        Some((_, few)) => {
            keywords.insert("description".to_owned(), (*few).into());
        }
        None if says_nothing => {
            keywords.remove("description");
        }
        None => {}
    }
}

/// Leaves the first sentence of what is said of members of members, and the names of what is deeper.
fn briefly_within(keywords: &mut Map<String, Value>, place: Place<'_>) {
    if place.depth == 2 {
        first_sentence(keywords);
    }
    let text = keywords.get("description").and_then(Value::as_str);
    if text.is_some_and(|text| text.contains(OF_ANOTHER))
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

/// Leaves the first sentence of what is said of each field.
fn briefly(keywords: &mut Map<String, Value>, _: Place<'_>) {
    first_sentence(keywords);
}

/// Leaves nothing of what is said of members of members.
fn silently_within(keywords: &mut Map<String, Value>, place: Place<'_>) {
    if place.depth > 1 {
        keywords.remove("description");
    }
}

fn first_sentence(keywords: &mut Map<String, Value>) {
    let Some(Value::String(text)) = keywords.get_mut("description") else { return };
    let end = [". ", ".\n"].iter().filter_map(|end| text.find(end)).min();
    text.truncate(end.map_or(text.len(), |end| end + 1));
}

/// Returns where a text ends without its last sentence, if it has more than one.
fn without_last_sentence(text: &str) -> Option<usize> {
    let rest = text.strip_suffix('.')?;
    [". ", ".\n"].iter().filter_map(|end| rest.rfind(end)).max().map(|end| end + 1)
}

/// Returns what a model is told of an operation, as one paragraph.
///
/// That is when to use it, else the first paragraph of its documentation, and the second one. What it fails
/// with is left out, since errors say it, as are statuses; and where to continue, which the field of that
/// says.
fn description(when: &str, docs: &str, has_pages: bool) -> String {
    let mut paragraphs = docs.split("\n\n");
    let first = paragraphs.next().unwrap_or_default();
    let second = paragraphs.next().filter(|text| !text.starts_with("Fails with ")).unwrap_or_default();
    let sentences = second.split_inclusive(". ");
    let kept = sentences.filter(|sentence| !(has_pages && sentence.contains("`next_cursor`")));
    let text = format!("{} {}", if when.is_empty() { first } else { when }, kept.collect::<String>());
    without_statuses(text.trim_end())
}

fn without_statuses(text: &str) -> String {
    let is_status =
        |word: &str| word.len() == 3 && word.starts_with(['4', '5']) && word.parse::<u16>().is_ok();
    let mut words = text.split(' ').peekable();
    let mut kept: Vec<&str> = Vec::new();
    while let Some(word) = words.next() {
        let is_before_code = words.peek().is_some_and(|next| next.starts_with('`'));
        if !(is_before_code && is_status(word)) {
            kept.push(word);
        }
    }
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_told_when_to_use_a_tool_and_what_to_know_then() {
        let fails = "Fails with 409 `wrong-state` if not.";
        for (when, docs, told) in [
            ("", "Lists 400 as.", "Lists 400 as."),
            ("Use to list.", "Lists as.", "Use to list."),
            ("Use to list.", &format!("Lists as.\n\n{fails}"), "Use to list."),
            (
                "Use to list.",
                &format!("Lists as.\n\nAfter 409 `must-refetch` read 400.\n\nFor people.\n\n{fails}"),
                "Use to list. After `must-refetch` read 400.",
            ),
            (
                "Use to list.",
                "Lists as.\n\nOld ones too. One page is short: continue with `next_cursor`.",
                "Use to list. Old ones too.",
            ),
        ] {
            assert_eq!(description(when, docs, true), told);
        }
        let caught_up = "Lists as.\n\nThere is no more when `next_cursor` is null.";
        assert!(description("Use to list.", caught_up, false).ends_with("null."));
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
                "workspace_id": {"type": "string", "description": "The workspace. It must be yours."},
                "count": {
                    "type": "integer", "format": "uint64", "minimum": 1, "maximum": 9,
                    "description": "At most 9.",
                },
                "other": {"type": "string", "description": "Any. Default: none.\n\nFor people."},
        }});
        let mut of_output = schema.clone();
        let (description, told) = input("", schema);
        assert_eq!(description, "Does it.");
        assert_eq!(
            told,
            json!({"type": "object", "properties": {
                "pattern": {"type": ["string", "null"], "description": "Which."},
                "all": {"type": "array", "items": {}},
                "free": {"type": "object"},
                "thing_id": {"type": "string"},
                "count": {"type": "integer", "description": "At most 9."},
                "other": {"type": "string", "description": "Any."},
            }})
        );
        output(&mut of_output);
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
        walk(&mut schema, Place::ROOT, &in_one_form);
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
        let schema = json!({"type": "object", "description": format!("Does it. {}.", "Long".repeat(500)),
            "properties": {"a": {"type": "string", "description": "What. And why."}}});
        let (description, told) = input("", schema);
        assert_eq!((&*description, &told["properties"]["a"]["description"]), ("Does it.", &json!("What.")));
    }
}
