//! Conditions on every operation of the operation table.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use svc_core::Engine;
use svc_core::limits::{ANSWER_BYTES_MIN, ANSWER_MCP_BYTES};
use svc_core::op::{Operation, Table, mcp, openapi};
use svc_tests::World;

use crate::house::rules::{none, sources};
use crate::house::schema::violations;

/// Operations whose path variable is optional in an input without a path.
const OPTIONAL_VARIABLES: &[(&str, &str)] = &[("rotate_token", "over MCP it rotates the calling token")];

/// The path variable that is always optional in an input without a path: a token has one workspace.
const OF_CALLER: &str = "workspace_id";

/// Lists that are returned as a whole, and their limits.
const WHOLE_LISTS: &[(&str, &str)] = &[
    ("list_capability_sets", "they are in the code"),
    ("get_kind_census", "the kinds are in the code"),
    ("get_thread_footprint", "a footprint has 100 items at the most"),
    ("list_reactions", "a message has 50 kinds at the most, with 50 members each"),
    ("list_reviewers", "a thread has 100 at the most"),
    ("get_workspace_usage", "the largest 1000 sums alone"),
    ("list_skills", "the most common 1000 alone"),
    ("list_slots", "1000 with a capacity and 1000 others at the most"),
    ("list_thread_dependencies", "a thread has 100 at the most"),
    ("wait_for_mention", "the first 50 items alone"),
    ("set_thread_footprint", "a footprint has 100 items at the most"),
];

/// Returns the built-in table.
fn table() -> Table {
    svc_core::operation_table().unwrap()
}

/// Runs `check` over the operations of the built-in table.
fn each_operation(mut check: impl FnMut(&Operation, &Value)) {
    table().operations().for_each(|operation| check(operation, &operation.input_schema()));
}

fn properties(schema: &Value) -> Map<String, Value> {
    schema["properties"].as_object().cloned().unwrap_or_default()
}

fn required(schema: &Value) -> BTreeSet<String> {
    let names = schema["required"].as_array().into_iter().flatten();
    names.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn variables(path: &str) -> BTreeSet<String> {
    let braced = path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    braced.map(str::to_owned).collect()
}

/// Every operation is complete, and the table is sorted by unique names.
///
/// An operation without an area is under no heading in the manual and in no group of the OpenAPI document. A
/// read with another status than 200 would claim to have created something.
#[test]
fn names_are_sorted_and_unique_and_operations_complete() {
    let table = table();
    let names: Vec<&str> = table.operations().map(Operation::name).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    assert!(names.len() > 40, "only {} operations", names.len());
    for operation in table.operations() {
        assert!(operation.name().chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{operation:?}");
        assert!(
            !operation.docs().title.is_empty() && !operation.docs().title.ends_with('.'),
            "{operation:?}"
        );
        assert!(!operation.docs().area.is_empty(), "{operation:?}");
        assert!(
            !operation.effect().is_read_only() || operation.http().success.status() == 200,
            "{operation:?}"
        );
    }
}

/// Each method and path belongs to one operation.
///
/// Of two operations at one method and path, only one would ever be reached. So the names of the variables do
/// not count: `/threads/{id}` and `/threads/{thread_id}` are one place.
#[test]
fn a_route_is_of_one_operation() {
    let mut places = BTreeSet::new();
    for operation in table().operations() {
        for path in operation.http().paths() {
            let place: Vec<&str> =
                path.split('/').map(|s| if s.starts_with('{') { "{}" } else { s }).collect();
            assert!(
                places.insert((operation.http().method, place.join("/"))),
                "{operation:?} is in another operation's route"
            );
            assert!(path.starts_with('/') && !path.ends_with('/'), "{operation:?}");
        }
    }
}

/// A path variable is a required field of the input, in every path.
///
/// Over MCP there is no path, so a caller that follows the schema would omit a variable that is not required.
/// An alias that names other variables would put the same call into other fields.
#[test]
fn every_path_variable_is_a_required_field() {
    each_operation(|operation, schema| {
        let required = required(schema);
        for path in operation.http().paths() {
            let mut needed = variables(path);
            needed.remove(OF_CALLER);
            let missing: Vec<String> = needed.difference(&required).cloned().collect();
            let may_lack = OPTIONAL_VARIABLES.iter().any(|(name, _)| *name == operation.name());
            assert!(missing.is_empty() || may_lack, "{operation:?}: {missing:?} must be required");
        }
        let named = operation.http().paths().map(|path| &variables(path) & &required);
        let named: Vec<_> = named.collect();
        assert!(
            named.iter().all(|names| *names == named[0]),
            "{operation:?}: an alias names other variables"
        );
    });
}

/// No operation requires a workspace that its caller's credential determines.
///
/// A caller would have to look up the id with a separate call, and send it with each request.
#[test]
fn no_operation_requires_the_workspace_of_its_caller() {
    each_operation(|operation, schema| {
        assert!(!required(schema).contains(OF_CALLER), "{operation:?}");
    });
}

/// No field is nullable and required.
///
/// Such a field makes callers write `null` for an absent value, and rejects requests that omit it.
#[test]
fn every_field_that_may_be_absent_says_so() {
    each_operation(|operation, schema| {
        let required = required(schema);
        for (name, field) in properties(schema) {
            let nullable = field["type"].as_array().is_some_and(|kinds| kinds.contains(&"null".into()))
                || ["anyOf", "oneOf"].iter().any(|key| field[*key].to_string().contains("\"null\""));
            assert!(
                !(nullable && required.contains(&name)),
                "{operation:?}: {name} may be null and is required"
            );
        }
    });
}

/// Every list can return less or more detail.
///
/// Otherwise a list costs a model many times the tokens that it needs.
#[test]
fn every_list_is_detailed() {
    each_operation(|operation, schema| {
        let is_list = properties(schema).contains_key("cursor");
        let name = operation.name();
        assert!(!is_list || operation.is_detailed(), "{name} takes a cursor: declare it `.detailed()`");
        assert_eq!(properties(schema).contains_key("detail"), operation.is_detailed(), "{operation:?}");
    });
}

/// Inputs have no combinators and no references, are closed, and describe every field.
///
/// Combinators and references at the top of an input schema make some model providers reject the whole tool
/// list. An open input ignores a misspelt field, and a model guesses at an undocumented one.
#[test]
fn inputs_are_flat_closed_and_explained() {
    each_operation(|operation, schema| {
        let tool = &mcp::tool(operation)["inputSchema"];
        for key in ["anyOf", "oneOf", "allOf", "not", "$ref", "$defs"] {
            assert!(tool.get(key).is_none(), "{operation:?}: {key} at the top of its input");
        }
        assert_eq!(schema["additionalProperties"], Value::Bool(false), "{operation:?}");
        assert!(!schema.to_string().contains("\"$ref\""), "{operation:?}: a reference in its input");
        let description = schema["description"].as_str().unwrap_or_default();
        assert!(
            description.len() > 20 && description.ends_with(['.', '`', ')']),
            "{operation:?}: description \"{description}\""
        );
        for (name, field) in properties(schema) {
            let description = field["description"].as_str().unwrap_or_default();
            assert!(description.len() > 5, "{operation:?}: {name} is not explained");
        }
    });
}

/// Every output is an object with described fields.
///
/// MCP's structured content is an object; a client that checks a tool list rejects one with another output
/// schema.
#[test]
fn outputs_are_objects_whose_fields_are_explained() {
    each_operation(|operation, _| {
        let schema = operation.output_schema();
        assert_eq!(schema["type"], "object", "{operation:?}: a tool's output is an object");
        for (name, field) in properties(&schema) {
            let explained = field["description"].is_string() || field["$ref"].is_string();
            assert!(explained, "{operation:?}: the output's {name} is not explained");
        }
    });
}

/// A list that is returned as a whole grows with its workspace until it exceeds its client's limit.
#[test]
fn a_list_is_read_in_pages() {
    each_operation(|operation, schema| {
        if properties(&operation.output_schema()).contains_key("items") {
            let fields = properties(schema);
            let paged = fields.contains_key("limit")
                && ["cursor", "after_id"].iter().any(|position| fields.contains_key(*position));
            let known = WHOLE_LISTS.iter().any(|(name, _)| *name == operation.name());
            assert!(paged != known, "{operation:?}: either in pages, or short for a reason");
        }
    });
}

/// Answers that are short, although their schema does not show it, and the reason.
const SHORT: &[(&str, &str)] = &[
    ("export_workspace", "it is a file"),
    ("get_kind_census", "the kinds are in the code"),
    ("get_log_snapshot", "its graph is bounded, and whoever asks for it wants all of it"),
    ("list_capability_sets", "they are in the code"),
    ("verify_workspace_export", "an export has as many sections as there are tables"),
];

/// An answer that is too long for its client is lost, and so is its effect for the client.
///
/// Each fits into the default limit of a client, or it is cut: then a caller may request more, and the uncut
/// part fits into the minimum that it may request.
#[test]
fn an_answer_is_short_or_is_cut() {
    let mut findings = Vec::new();
    each_operation(|operation, schema| {
        let known = SHORT.iter().any(|(name, _)| *name == operation.name());
        let is_short = operation.max_uncut_answer_bytes() <= ANSWER_MCP_BYTES;
        let is_tool = !operation.http().rest_only;
        let is_cut = properties(schema).contains_key("max_bytes");
        assert!(!known || !is_short, "{operation:?} is short by its schema");
        assert_eq!(is_cut, is_tool && !is_short && !known, "{operation:?}");
        assert_eq!(properties(schema).contains_key("offset"), operation.resumable_text().is_some());
        if is_cut && operation.max_cut_answer_bytes() > usize::try_from(ANSWER_BYTES_MIN).unwrap() {
            findings.push(format!("{operation:?} keeps {} bytes", operation.max_cut_answer_bytes()));
        }
        if !known {
            findings
                .extend(operation.unbounded_parts().into_iter().map(|part| format!("{operation:?}: {part}")));
        }
        if let Some(text) = operation.resumable_text() {
            let output = operation.output_schema();
            let item = &output["properties"]["items"]["items"];
            let object = if item.is_object() { item } else { &output };
            assert!(object["properties"][text].is_object(), "{operation:?} has no {text}");
            assert!(object["properties"]["next_offset"].is_object(), "{operation:?} tells of no offset");
        }
    });
    none(findings);
}

/// An example conforms to the input schema of its operation.
///
/// Examples are shown in the OpenAPI document, and the generated tests call with them: one that its own
/// schema rejects teaches callers wrongly and tests nothing.
#[test]
fn examples_name_only_fields_and_every_path_variable() {
    let table = table();
    for operation in table.operations() {
        let Some(example) = operation.docs().example(table.documented()) else { continue };
        let given: BTreeSet<String> = example.as_object().unwrap().keys().cloned().collect();
        let schema = operation.input_schema();
        assert!(required(&schema).is_subset(&given), "{operation:?}: the example lacks a field");
        let known: BTreeSet<String> = properties(&schema).keys().cloned().collect();
        assert!(given.is_subset(&known), "{operation:?}: the example has an unknown field");
        let violations = violations(&schema, &example);
        assert!(
            violations.is_empty(),
            "{operation:?}: the example is not what its schema says: {violations:#?}"
        );
    }
}

/// An example with a sample that worlds lack would send a name in place of an id.
#[test]
fn a_world_has_the_samples_that_the_documentation_shows() {
    let world = World::open(Engine::Sqlite);
    let documented = world.service.table().documented();
    assert!(world.fixture.names().eq(documented.names()), "{:?} {documented:?}", world.fixture);
}

/// Clients are generated from the document: a route that is missing from it does not exist for them.
#[test]
fn the_document_has_every_route() {
    let world = World::open(Engine::Sqlite);
    let table = world.service.table();
    let document = openapi::document(table);
    assert_eq!(document["openapi"], "3.1.0");
    let served = world.rest().send(None, "GET", "/openapi.json", &[], None);
    assert_eq!(served.status, 200);
    for operation in table.operations() {
        for path in operation.http().paths() {
            let method = operation.http().method.name().to_lowercase();
            let described = &document["paths"][path][&method];
            assert!(described.is_object(), "{operation:?} is missing");
            assert_eq!(served.body["paths"][path][&method], *described, "{operation:?} is served otherwise");
        }
    }
}

/// A problem's type is an address that its reader follows; one that leads nowhere explains nothing.
#[test]
fn every_problem_type_is_the_address_of_its_page() {
    let world = World::open(Engine::Sqlite);
    let refused = world.rest().send(None, "GET", "/me", &[], None);
    let address = refused.body["type"].as_str().unwrap().to_owned();
    let get =
        |address: &str, accept: &str| world.rest().send(None, "GET", address, &[("accept", accept)], None);
    let page = get(&address, "*/*");
    assert_eq!(page.headers["content-type"], "application/json");
    for member in ["type", "title", "status"] {
        assert_eq!(page.body[member], refused.body[member], "{:#}", page.body);
    }
    let text = get(&address, "text/html,*/*;q=0.8");
    assert_eq!(text.headers["content-type"], "text/plain; charset=utf-8");
    assert!(
        text.body.as_str().unwrap().contains(page.body["description"].as_str().unwrap()),
        "{:#}",
        text.body
    );
    get("/problems/nonsense", "*/*").refused(404, "not-found");
}

/// These errors do not concern a field of an input but parameters of OAuth, whose errors have another form.
const NAMES_NO_FIELD: [&str; 1] = ["svc-core/src/identity/apps/tokens.rs"];

/// A program that learns the wrong field only from the text cannot show the error beside the field.
#[test]
fn a_rule_about_a_field_names_it_apart_from_the_words() {
    let mut findings = Vec::new();
    let is_asked = |path: &str| path.starts_with("svc-core/src/") && !NAMES_NO_FIELD.contains(&path);
    for source in sources().iter().filter(|source| is_asked(&source.path)) {
        let text = source.text.split("#[cfg(test)]\nmod tests").next().unwrap();
        for said in text.split("Error::malformed(").skip(1) {
            let said = said.trim_start();
            let words = said.strip_prefix("format!(").unwrap_or(said).trim_start();
            if words.starts_with("\"`") {
                findings.push(format!("{}: use Error::in_field for {:.60}", source.path, words));
            }
        }
    }
    none(findings);
}

/// Returns the only type of an argument's schema beside null, if there is one.
fn one_type(schema: &Value) -> Option<&str> {
    let is_null = |kind: &&Value| *kind == "null";
    match (&schema["type"], schema["anyOf"].as_array()) {
        (Value::String(kind), None) => Some(kind.as_str()),
        (Value::Array(kinds), None) => {
            match kinds.iter().filter(|kind| !is_null(kind)).collect::<Vec<_>>()[..] {
                [only] => only.as_str(),
                _ => None,
            }
        }
        (Value::Null, Some(forms)) => {
            match forms.iter().filter(|form| !is_null(&&form["type"])).collect::<Vec<_>>()[..] {
                [only] => one_type(only),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Collects the arguments within a schema that have no type, or more than one.
fn without_one_type(schema: &Value, at: &str, found: &mut Vec<String>) {
    for (name, field) in properties(schema) {
        let at = format!("{at}.{name}");
        if one_type(&field).is_none() {
            found.push(format!("{at}: {field}"));
        }
        without_one_type(&field, &at, found);
    }
    if let Some(items) = schema.get("items") {
        if one_type(items).is_none() {
            found.push(format!("{at}[]: {items}"));
        }
        without_one_type(items, at, found);
    }
}

/// A model without a type guesses one, and many models then send JSON as text.
#[test]
fn each_argument_of_a_tool_has_one_type() {
    let table = table();
    let mut found = Vec::new();
    for operation in mcp::tools(&table, svc_core::capability::Capabilities::all()) {
        let input = mcp::tool(operation)["inputSchema"].clone();
        without_one_type(&input, operation.name(), &mut found);
        if let Some(checkpoint) = input["properties"].get("checkpoint") {
            assert_eq!(checkpoint["type"], "object", "{operation:?}");
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    let vague = serde_json::json!({"properties": {
        "a": {}, "b": {"type": ["string", "integer"]}, "c": {"type": "array", "items": {}},
        "d": {"anyOf": [{"type": "string"}, {"type": "integer"}]}, "e": {"type": ["string", "null"]},
        "f": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    }});
    without_one_type(&vague, "", &mut found);
    let named: Vec<&str> = found.iter().map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(named, [".a", ".b", ".c[]", ".d"], "the control");
}

/// A field without a setter cannot be sent, and a required field that `new` does not take is forgotten.
#[test]
fn every_operation_has_a_request_with_a_setter_for_each_field() {
    // They determine the encoding of an answer, which a typed call does not have.
    const OF_ENCODING: [&str; 3] = ["detail", "max_bytes", "offset"];
    let mut findings = Vec::new();
    each_operation(|operation, schema| {
        let name = operation.name();
        let Some(request) = operation.request() else {
            if operation.http().frame.is_none() {
                findings.push(format!("{name} has no request"));
            }
            return;
        };
        let fields: BTreeSet<String> = request.fields.iter().map(|field| (*field).to_owned()).collect();
        let mut wanted: BTreeSet<String> = properties(schema).into_iter().map(|(field, _)| field).collect();
        wanted.retain(|field| fields.contains(field) || !OF_ENCODING.contains(&field.as_str()));
        if fields != wanted {
            findings.push(format!("{name}: setters {fields:?}, fields {wanted:?}"));
        }
        let taken: BTreeSet<String> = request.required.iter().map(|field| (*field).to_owned()).collect();
        if taken != required(schema) {
            findings.push(format!("{name}: `new` takes {taken:?}, required are {:?}", required(schema)));
        }
        for cleared in request.cleared {
            if !request.fields.contains(cleared) {
                findings.push(format!("{name} clears {cleared}, which is no field"));
            }
        }
    });
    none(findings);
}
