//! Faults of an input: all are reported at once, each with its field, and in the terms of JSON.

use serde_json::{Value, json};
use svc_core::Engine;
use svc_core::op::{Operation, mcp};
use svc_tests::{Setup, World, call};

use crate::house::schema::violations;

/// Terms that no caller may see: types of the implementation language.
const FOREIGN: [&str; 7] =
    ["UUID parsing", "invalid type", "invalid value", "i64", "unknown variant", "a map", "struct "];

/// A field that no operation has; no call with it is run.
const UNKNOWN: &str = "no_such_field";

/// Maximum faults that are reported at once.
const MOST: usize = 8;

/// Calls an operation with an input that is rejected, and returns the error text and the fields in it.
fn rejected(world: &World, operation: &Operation, input: &Value) -> (String, Vec<String>) {
    let refused = call(&world.service, Some(&world.people.admin), operation.name(), input);
    let error = refused.err().unwrap_or_else(|| panic!("{operation:?} takes {input}"));
    let problem = serde_json::to_value(error.problem()).unwrap();
    assert_eq!(problem["type"], "/problems/malformed-request", "{operation:?}: {problem}");
    let errors = problem["errors"].as_array().unwrap_or_else(|| panic!("{operation:?}: {problem}"));
    let text = mcp::refusal_text(operation.name(), &error);
    for fault in errors {
        let line = format!("`{}`: {}", fault["field"].as_str().unwrap(), fault["detail"].as_str().unwrap());
        assert!(text.contains(&line), "{text}");
    }
    assert!(errors.len() <= MOST, "{text}");
    let fields = errors.iter().map(|fault| fault["field"].as_str().unwrap().to_owned()).collect();
    (text, fields)
}

/// Returns the names of the fields that an object must have.
pub fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

#[test]
fn whatever_is_wrong_with_a_field_is_told_in_the_terms_of_json() {
    let world = World::with(Engine::Sqlite, Setup::default());
    let wrong = [json!(-7.5), json!("x\ty"), json!(true), json!([{}, "x", 1]), json!({"a": 1}), json!(null)];
    let mut told = 0;
    for operation in world.service.table().operations().filter(|row| !row.http().takes_file) {
        let schema = operation.input_schema();
        let example = operation.docs().example(&world.fixture).unwrap();
        for (field, expected) in schema["properties"].as_object().into_iter().flatten() {
            for wrong in &wrong {
                let mut input = example.clone();
                (input[field], input[UNKNOWN]) = (wrong.clone(), json!(1));
                let (text, fields) = rejected(&world, operation, &input);
                let foreign = FOREIGN.iter().find(|word| text.contains(**word));
                assert!(foreign.is_none(), "{operation:?} says {foreign:?} of {field}: {wrong}\n{text}");
                assert!(fields.iter().any(|named| named == UNKNOWN), "{text}");
                let is_named = fields.iter().any(|named| named.starts_with(field.as_str()));
                // Null omits an optional field.
                let is_left_out = wrong.is_null() && !required(&schema).any(|name| name == field.as_str());
                if is_left_out {
                    assert!(!is_named, "{operation:?} does not take null for {field}\n{text}");
                } else if !violations(expected, wrong).is_empty() {
                    told += 1;
                    assert!(is_named, "{operation:?} does not name {field}: {wrong}\n{text}");
                }
            }
        }
    }
    assert!(told > 1000, "only {told}");
}

#[test]
fn every_field_that_is_missing_is_named() {
    let world = World::with(Engine::Sqlite, Setup::default());
    for operation in world.service.table().operations().filter(|row| !row.http().takes_file) {
        let (_, fields) = rejected(&world, operation, &json!({UNKNOWN: 1}));
        let schema = operation.input_schema();
        for name in required(&schema).take(MOST - 1) {
            assert!(fields.iter().any(|field| field == name), "{operation:?} does not name {name}");
        }
    }
}

#[test]
fn whoever_sends_no_id_is_told_which_operation_lists_them() {
    let world = World::with(Engine::Sqlite, Setup::default());
    let mut listed = 0;
    for operation in world.service.table().operations().filter(|row| !row.http().takes_file) {
        let schema = operation.input_schema();
        let fields = schema["properties"].as_object().into_iter().flatten();
        for (field, _) in fields.filter(|(_, schema)| schema["format"] == "uuid") {
            let (text, _) = rejected(&world, operation, &json!({field: "release", UNKNOWN: 1}));
            let line = text.lines().find(|line| line.starts_with(&format!("- `{field}`"))).unwrap();
            assert!(line.contains("an id such as 0199..."), "{line}");
            if let Some((_, named)) = line.split_once("; ") {
                let name = named.split_whitespace().next().unwrap();
                assert!(world.has(name), "{operation:?}, {field}: {line}");
                listed += 1;
            }
        }
    }
    assert!(listed > 100, "only {listed}");
}

#[test]
fn a_request_is_told_all_its_faults_over_rest_and_mcp() {
    let world = World::with(Engine::Sqlite, Setup::default());
    let input = json!({"channel_id": "release", "title": "", "priority": "10", "titel": "x"});
    let rest = world.rest();
    let mcp = world.mcp();
    let create = world.operation("create_thread");
    let rest = rest.call(Some(&world.people.admin), create, &input);
    let mcp = mcp.call(Some(&world.people.admin), create, &input);
    assert_eq!((rest.status, &rest.body["errors"]), (400, &mcp.body["errors"]));
    let fields: Vec<&Value> = rest.body["errors"].as_array().unwrap().iter().map(|it| &it["field"]).collect();
    assert_eq!(fields, ["channel_id", "priority", "titel", "title"]);
}
