//! The table as an OpenAPI 3.1 document.

use serde_json::{Map, Value, json};

use super::example::Fixture;
use super::row::{Method, Operation};
use super::table::{Table, path_variables};
use crate::capability::Needs;
use crate::error::{Code, Problem};

/// The document. Routes that are no operation describe themselves in the manual.
pub fn document(table: &Table) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for row in table.operations() {
        schemas.insert(output_name(row), row.output_schema());
        for path in row.paths() {
            let item = paths.entry(path.to_owned()).or_insert_with(|| json!({}));
            if let Some(item) = item.as_object_mut() {
                item.insert(row.method().name().to_lowercase(), operation(row, path));
            }
        }
    }
    schemas.insert("Problem".to_owned(), schemars::schema_for!(Problem).to_value());
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Agent Collaboration Service",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A shared place where agents and people coordinate work. Every failure is an RFC 9457 problem.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "responses": {"problem": {
                "description": "A failure (RFC 9457).",
                "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
            }},
        },
    })
}

fn operation(row: &Operation, path: &str) -> Value {
    let schema = row.input_schema();
    let description = schema.get("description").cloned().unwrap_or_default();
    let (parameters, body) = split_input(row, path, &schema);
    let mut responses = json!({
        row.success().status().to_string(): {
            "description": "Success.",
            "headers": {"Svc-Room-LSN": {
                "description": "How far the event log of the caller's workspace reaches.",
                "schema": {"type": "string", "pattern": "^[0-9]+$"},
            }},
            "content": {"application/json": {"schema": {"$ref": format!("#/components/schemas/{}", output_name(row))}}},
        },
        "default": {"$ref": "#/components/responses/problem"},
    });
    if let Some(responses) = responses.as_object_mut() {
        for status in refusals(row) {
            responses.insert(status.to_string(), json!({"$ref": "#/components/responses/problem"}));
        }
    }
    let mut operation = json!({
        "operationId": if path == row.path() { row.name().to_owned() } else { format!("{}_alias", row.name()) },
        "summary": row.title_text(),
        "description": description,
        "tags": [row.area()],
        "parameters": parameters,
        "responses": responses,
        "x-svc-capability": row.needed().expression(),
        "x-svc-effect": row.effect().name(),
    });
    if let Some(members) = operation.as_object_mut() {
        if row.needed() != Needs::Nothing {
            members.insert("security".to_owned(), json!([{"bearer": []}]));
        }
        if let Some(body) = body {
            members.insert("requestBody".to_owned(), body);
        }
    }
    operation
}

/// The statuses that any operation of this kind may answer with.
fn refusals(row: &Operation) -> Vec<u16> {
    let mut codes = vec![Code::Malformed, Code::RateLimited, Code::Overloaded];
    if row.needed() != Needs::Nothing {
        codes.extend([Code::Unauthenticated, Code::MissingCapability, Code::NotFound]);
    }
    if !row.effect().changes_nothing() {
        codes.extend([Code::WrongState, Code::BodyTooLarge, Code::UnsupportedMediaType]);
    }
    codes.into_iter().map(Code::status).collect()
}

/// Path variables are parameters; so is everything else where no body is sent.
fn split_input(row: &Operation, path: &str, schema: &Value) -> (Vec<Value>, Option<Value>) {
    let no_fields = Map::new();
    let fields = schema.get("properties").and_then(Value::as_object).unwrap_or(&no_fields);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let example = row.example_input(&Fixture::sample()).unwrap_or_default();
    let in_path: Vec<&str> = path_variables(path).collect();
    let has_body = matches!(row.method(), Method::Post | Method::Put | Method::Patch);
    let mut parameters = Vec::new();
    let mut members = Map::new();
    let mut body_example = Map::new();
    for (name, field) in fields {
        let is_path = in_path.contains(&name.as_str());
        if has_body && !is_path {
            members.insert(name.clone(), field.clone());
            if let Some(value) = example.get(name) {
                body_example.insert(name.clone(), value.clone());
            }
            continue;
        }
        let mut parameter = json!({
            "name": name,
            "in": if is_path { "path" } else { "query" },
            "required": is_path || required.contains(&name.as_str()),
            "schema": field,
        });
        if let (Some(members), Some(value)) = (parameter.as_object_mut(), example.get(name)) {
            members.insert("example".to_owned(), value.clone());
        }
        parameters.push(parameter);
    }
    if members.is_empty() {
        return (parameters, None);
    }
    let needed: Vec<&str> = required.into_iter().filter(|name| !in_path.contains(name)).collect();
    let body_required = !needed.is_empty();
    let body = json!({
        "type": "object", "properties": members, "required": needed, "additionalProperties": false,
    });
    let content = json!({"application/json": {"schema": body, "example": body_example}});
    (parameters, Some(json!({"required": body_required, "content": content})))
}

fn output_name(row: &Operation) -> String {
    format!("{}_output", row.name())
}
