//! The API as it was agreed, in golden files that say each thing once.
//!
//! They are a list of operations for people, a file for each operation and for each named schema, and one
//! example of how an operation is shown as a tool and in OpenAPI.

use serde_json::{Map, Value, json};
use svc_core::op::{Operation, Table, contract, mcp, routes};
use svc_core::{Engine, operation_table};
use svc_tests::{World, golden};

/// The operation that is shown whole, as a tool and in OpenAPI; the same code makes the others.
const SHOWN_WHOLE: &str = "attenuate_token";

fn table() -> Table {
    operation_table().unwrap()
}

/// The list for people: one line per operation.
fn listed(table: &Table) -> String {
    let mut lines = String::from("# name | method | path | aliases | capability | effect | surface | area\n");
    for operation in contract::operations(table).as_array().unwrap() {
        let aliases: Vec<&str> =
            operation["aliases"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let cells = ["name", "method", "path", "", "capability", "effect", "surface", "area"].map(|key| {
            if key.is_empty() { aliases.join(" ") } else { operation[key].as_str().unwrap().to_owned() }
        });
        lines.push_str(&(cells.join(" | ").replace("|  |", "| - |") + "\n"));
    }
    lines
}

/// The list of operations is as agreed: names, paths, capabilities, effects.
///
/// All other tests follow the table, so whoever renames an operation, moves its path or gives it the
/// capability of its neighbour sees none of them fail. Agents would call what is gone, and a token that was
/// given for reading would change things.
#[test]
fn the_list_of_operations_is_as_agreed() {
    golden::check("operations.txt", &listed(&table()));
}

/// What the list does not show of an operation.
///
/// Its output is named; the schema has a file of its own. Every input is an object without other members.
fn described(operation: &Operation, document: &Value) -> Value {
    let mut input = operation.input_schema();
    let members = input.as_object_mut().unwrap();
    let description = members.remove("description");
    assert_eq!(members.remove("type"), Some(json!("object")), "{}", operation.name());
    assert_eq!(members.remove("additionalProperties"), Some(json!(false)), "{}", operation.name());
    let method = operation.http().method.name().to_lowercase();
    let responses = &document["paths"][operation.http().path][method]["responses"];
    let status = operation.http().success.status().to_string();
    let success = &responses[&status]["content"]["application/json"]["schema"];
    let refuses: Vec<&str> = operation.docs().refuses.iter().map(|code| code.name()).collect();
    json!({
        "title": operation.docs().title,
        "when": operation.docs().when,
        "description": description,
        "input": input,
        "success": {status: success},
        "refuses": refuses,
    })
}

/// Every operation's input, success and errors, and every schema, are as agreed.
///
/// A field that is renamed with its Rust struct, that becomes required or gets a lower limit changes the API
/// although nobody meant to. Clients that were generated from the document before would be refused with 400
/// after an upgrade.
#[test]
fn every_operation_and_every_schema_is_as_agreed() {
    let table = table();
    let document = svc_core::op::openapi::document(&table);
    let names = table.operations().map(|operation| format!("{}.json", operation.name()));
    golden::check_folder("operations", names);
    for operation in table.operations() {
        let name = format!("operations/{}.json", operation.name());
        golden::check(&name, &golden::compact(&described(operation, &document)));
    }
    let schemas = document["components"]["schemas"].as_object().unwrap();
    golden::check_folder("schemas", schemas.keys().map(|name| format!("{name}.json")));
    for (name, schema) in schemas {
        // A name that ends in a digit was given to two types.
        assert!(!name.ends_with(|c: char| c.is_ascii_digit()), "two types are called {name}");
        golden::check(&format!("schemas/{name}.json"), &golden::compact(schema));
    }
}

/// One operation is shown as agreed, whole, as a tool and in OpenAPI.
///
/// What is wrong in how one is made from the table is wrong in all of them. A tool list without the hint that
/// a tool destroys something would let an agent's host call it without asking the person in front of it.
#[test]
fn an_operation_is_shown_as_agreed() {
    let table = table();
    let operation = table.operation(SHOWN_WHOLE).unwrap();
    golden::check("shown/tool.json", &golden::compact(&mcp::tool(operation)));
    let document = svc_core::op::openapi::document(&table);
    golden::check("shown/openapi.json", &golden::compact(&document["paths"][operation.http().path]));
}

/// The document is served as agreed, apart from what the files of operations and schemas say.
///
/// Its common parts belong to no operation, so no test of one misses them. Without the security scheme,
/// clients that are generated from the document would send no token and be refused everywhere.
#[test]
fn the_rest_of_the_document_is_as_agreed() {
    let world = World::open(Engine::Sqlite);
    let mut document = world.rest().send(None, "GET", "/openapi.json", &[], None).output();
    let paths: Vec<&str> =
        world.service.table().operations().flat_map(|operation| operation.http().paths()).collect();
    document["paths"].as_object_mut().unwrap().retain(|path, _| !paths.contains(&path.as_str()));
    let of_operations = svc_core::op::openapi::document(world.service.table());
    document["components"]["schemas"]
        .as_object_mut()
        .unwrap()
        .retain(|name, _| of_operations["components"]["schemas"].get(name).is_none());
    golden::check("shown/document.json", &golden::compact(&with_short_references(document)));
}

/// Lists the references of an object, as `name: address`, where it has several.
fn with_short_references(document: Value) -> Value {
    let reference = |member: &Value| member.get("$ref").and_then(Value::as_str).map(str::to_owned);
    match document {
        Value::Object(members) => {
            let listed: Vec<String> = members
                .iter()
                .filter_map(|(name, member)| {
                    Some(format!("{name}: {}", reference(member)?.trim_start_matches("#/components/")))
                })
                .collect();
            let is_listed = listed.len() > 2;
            let kept = members.into_iter().filter(|(_, member)| !is_listed || reference(member).is_none());
            let mut shown: Map<String, Value> =
                kept.map(|(name, member)| (name, with_short_references(member))).collect();
            if is_listed {
                shown.insert("references".to_owned(), json!(listed));
            }
            Value::Object(shown)
        }
        Value::Array(items) => items.into_iter().map(with_short_references).collect(),
        plain => plain,
    }
}

/// The payloads of the events by their types, which name the kinds.
fn payloads(events: &Value) -> Value {
    let payload = |event: &Value| {
        let kind = event["kind"].as_str().unwrap();
        assert_eq!(event["type"], format!("svc.event.{kind}/1"));
        assert_eq!(event.as_object().unwrap().len(), 3, "{kind}");
        (event["type"].as_str().unwrap().to_owned(), event["payload"].clone())
    };
    events.as_array().unwrap().iter().map(payload).collect::<Map<_, _>>().into()
}

/// The kinds of events, the capabilities and the routes are as agreed.
///
/// A kind that is renamed with its type matches none of the filters that are out there, and whoever waits for
/// the old name waits for ever. A capability that slips into a set goes to every token that is minted with
/// the set, which then may do more than was decided. A column that is no longer compared with the log could
/// be changed without anybody noticing.
#[test]
fn the_events_capabilities_and_routes_are_as_agreed() {
    golden::check("events.json", &golden::compact(&payloads(&contract::events(&table()))));
    golden::check("capabilities.json", &golden::compact(&contract::capabilities()));
    golden::check("tables.json", &golden::compact(&contract::tables(&table())));
    let routes = routes::routes(&table());
    let lines: Vec<String> = routes.as_array().unwrap().iter().map(Value::to_string).collect();
    golden::check("routes.json", &format!("[\n{}\n]\n", lines.join(",\n")));
}
