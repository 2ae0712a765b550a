//! The agreed API, in golden files that state each fact once.
//!
//! They are a list of operations for people, a file for each operation and for each named schema, and one
//! example of an operation as a tool and in OpenAPI.

use serde_json::{Map, Value, json};
use svc_core::op::{Operation, Table, contract, mcp, routes};
use svc_core::{Engine, operation_table};
use svc_tests::{World, golden};

/// The operation that is shown completely, as a tool and in OpenAPI; the same code creates the others.
const SHOWN_WHOLE: &str = "attenuate_token";

fn table() -> Table {
    operation_table().unwrap()
}

/// Returns the list for people: one line per operation.
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
/// All other tests follow the table, so they do not fail if a change renames an operation, moves its path or
/// gives it a wrong capability. Agents would call operations that no longer exist, and a token for reading
/// could change data.
#[test]
fn the_list_of_operations_is_as_agreed() {
    golden::check("operations.txt", &listed(&table()));
}

/// Returns the properties of an operation that the list does not show.
///
/// Its output is named, because the schema has a separate file. Every input is an object without other
/// members.
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
/// by accident. Clients that were generated from the earlier document would be refused with 400 after an
/// upgrade.
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
        // A name that ends in a digit belongs to two types.
        assert!(!name.ends_with(|c: char| c.is_ascii_digit()), "two types are called {name}");
        golden::check(&format!("schemas/{name}.json"), &golden::compact(schema));
    }
}

/// One operation is shown as agreed, completely, as a tool and in OpenAPI.
///
/// A fault in the conversion of one operation affects all of them. A tool list without the hint that a tool
/// destroys something would let an agent's host call it without asking the person in front of it.
#[test]
fn an_operation_is_shown_as_agreed() {
    let table = table();
    let operation = table.operation(SHOWN_WHOLE).unwrap();
    golden::check("shown/tool.json", &golden::compact(&mcp::tool(operation)));
    let document = svc_core::op::openapi::document(&table);
    golden::check("shown/openapi.json", &golden::compact(&document["paths"][operation.http().path]));
}

/// The document is served as agreed, apart from the parts in the files of operations and schemas.
///
/// Its common parts do not belong to an operation, so no test of an operation covers them. Without the
/// security scheme, clients that are generated from the document would send no token and be refused
/// everywhere.
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

/// Lists the references of an object as `name: address`, if it has several.
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

/// Returns the payloads of the events by their types, which name the kinds.
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
/// A kind that is renamed with its type no longer matches existing filters, and a wait for the old name waits
/// forever. A capability that is added to a set by accident goes to every token that is minted with the set.
/// A column that is no longer compared with the log could be changed unnoticed.
#[test]
fn the_events_capabilities_and_routes_are_as_agreed() {
    golden::check("events.json", &golden::compact(&payloads(&contract::events(&table()))));
    golden::check("capabilities.json", &golden::compact(&contract::capabilities()));
    golden::check("tables.json", &golden::compact(&contract::tables(&table())));
    let routes = routes::routes(&table());
    let lines: Vec<String> = routes.as_array().unwrap().iter().map(Value::to_string).collect();
    golden::check("routes.json", &format!("[\n{}\n]\n", lines.join(",\n")));
}
