//! The table as an OpenAPI 3.1 document.
//!
//! An input that matches its schema is not rejected as malformed, except for conditions that no schema can
//! express: that a time is in the future, the total size of a value, and its depth. A shell adds its fixed
//! routes, which are not operations.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::capability::{Needs, Right};
use crate::error::{Code, Error, Problem, ProblemType};
use crate::op::call::credential::SESSION_COOKIE;
use crate::op::call::key::IdempotencyKey;
use crate::op::declare::cut_notes;
use crate::op::declare::effect::Effect;
use crate::op::declare::frame::{AcceptedCredentials, Frame, HTML, JSON};
use crate::op::declare::http::{Method, Success};
use crate::op::declare::job::TimedOut;
use crate::op::declare::operation::Operation;
use crate::op::declare::sample::Fixture;
use crate::op::declare::table::{Table, path_variables};
use crate::schema::{self, Components};
use crate::spool::FILE_FIELD;

/// Returns the OpenAPI document of the operations and the framed routes.
pub fn document(table: &Table) -> Value {
    let mut paths = Map::new();
    let mut components = Components::new();
    let mut bodies = Map::new();
    let mut cut = Vec::new();
    for operation in table.rows() {
        let output = output_reference(operation, &mut components);
        if operation.is_cut() {
            cut.push(output.clone());
        }
        for path in operation.http().paths() {
            // A variable that matches several path segments is described like any other variable.
            let item = paths.entry(path.replace("{*", "{")).or_insert_with(|| json!({}));
            if let Some(item) = item.as_object_mut() {
                item.insert(
                    operation.http().method.name().to_lowercase(),
                    describe_operation(operation, path, &output, table.documented(), &mut bodies),
                );
            }
        }
    }
    components.add(schema::of::<Problem>);
    components.add(schema::of::<ProblemType>);
    let mut schemas = components.into_map(|schemas| describe_cuts_in(schemas, cut));
    schemas.insert(ANY_JSON.to_owned(), any_json_schema());
    schemas.insert(SCIM_ERROR.to_owned(), scim_error_schema());
    schemas.extend(bodies);
    json!({
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "Agent Collaboration Service",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A shared place where agents and people coordinate work. \
                Every failure is an RFC 9457 problem, except below /scim/v2, \
                where it is an error of RFC 7644.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                BEARER: {"type": "http", "scheme": "bearer"},
                SESSION: {"type": "apiKey", "in": "cookie", "name": SESSION_COOKIE},
                TICKET: {"type": "http", "scheme": "ShareTicket"},
            },
            "examples": problem_examples(),
            "headers": shared_headers(),
            "parameters": {IDEMPOTENCY_KEY: key_parameter()},
            "responses": shared_responses(table),
        },
    })
}

/// Adds the members that report cuts to the schemas in `schemas` to which the answers refer. `cut` contains
/// the schemas of the answers that may be cut.
fn describe_cuts_in(schemas: &mut Map<String, Value>, mut cut: Vec<Value>) {
    let mut reached = BTreeSet::new();
    while let Some(schema) = cut.pop() {
        for name in cut_notes::referenced_schemas(&schema) {
            if let Some(schema) = schemas.get_mut(&name).filter(|_| reached.insert(name.clone())) {
                cut.push(schema.clone());
                cut_notes::add_cut_members(schema);
            }
        }
    }
}

/// Returns a reference to the schema of an operation's output, or null if a successful response has no JSON
/// body.
fn output_reference(operation: &Operation, components: &mut Components) -> Value {
    let is_file = operation.http().frame == Some(Frame::Board);
    if is_file || matches!(operation.http().success, Success::SeeOther | Success::NoContent) {
        return Value::Null;
    }
    let output = components.add(operation.docs().output);
    if operation.effect() != Effect::Wait {
        return output;
    }
    json!({"anyOf": [output, components.add(schema::of::<TimedOut>)]})
}

/// Returns references to the headers of a successful response. Each header may be absent.
fn success_headers(operation: &Operation) -> Map<String, Value> {
    let mut names = vec!["Svc-Room-LSN", "RateLimit-Policy", "RateLimit"];
    if operation.accepts_idempotency_keys() {
        names.push(REPLAYED);
    }
    header_references(&names)
}

/// Returns references to the shared headers with the names in `names`.
fn header_references(names: &[&str]) -> Map<String, Value> {
    let reference =
        |name: &&str| ((*name).to_owned(), json!({"$ref": format!("#/components/headers/{name}")}));
    names.iter().map(reference).collect()
}

/// Name of the header that marks the answer to a repeated request.
const REPLAYED: &str = "Idempotency-Replayed";

/// Returns the shared headers, by name. Responses refer to them.
fn shared_headers() -> Value {
    json!({
        "Svc-Room-LSN": {
            "description": "Position of the last event in the log of the caller's workspace.",
            "schema": {"type": "string", "pattern": "^[0-9]+$"},
        },
        "RateLimit-Policy": {
            "description": "The limits that the request counts against: `q` requests in `w` seconds.",
            "schema": {"type": "string"},
        },
        "RateLimit": {
            "description": "The remaining quota of each limit: `r` requests, fully restored in `t` seconds.",
            "schema": {"type": "string"},
        },
        REPLAYED: {
            "description": "`true` if this answers a repeat of a request with the same `Idempotency-Key`.",
            "schema": {"const": "true"},
        },
        "WWW-Authenticate": {
            "description": "The authentication scheme for the token.", "schema": {"type": "string"},
        },
        "Retry-After": {
            "description": "Number of seconds to wait before a retry, if known.",
            "schema": {"type": "string", "pattern": "^[0-9]+$"},
        },
    })
}

/// Name of the header that contains the idempotency key of a request.
const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

/// Returns the parameter for the header with the idempotency key.
fn key_parameter() -> Value {
    json!({
        "name": IDEMPOTENCY_KEY,
        "in": "header",
        "required": false,
        "description": "A unique name that you choose for this request \
            (draft-ietf-httpapi-idempotency-key-header): 1 to 255 visible ASCII characters, bare or in \
            double quotes. For 24 hours, a repeat with the same key changes nothing and receives the \
            answer of the first request, with the current state of the object. Another request with the \
            same key fails with 422.",
        "schema": {"type": "string", "pattern": IdempotencyKey::PATTERN},
    })
}

/// Returns the description of an operation at one of its paths.
///
/// Adds the schema of a body that has several media types to `bodies`.
fn describe_operation(
    operation: &Operation,
    path: &str,
    output: &Value,
    documented: &Fixture,
    bodies: &mut Map<String, Value>,
) -> Value {
    let schema = operation.input_schema();
    let description = schema.get("description").cloned().unwrap_or_default();
    let (mut parameters, body) = split_input(operation, path, &schema, documented, bodies);
    if operation.accepts_idempotency_keys() {
        parameters.push(json!({"$ref": format!("#/components/parameters/{IDEMPOTENCY_KEY}")}));
    }
    let status = operation.http().success.status().to_string();
    let mut responses = json!({status: success_response(operation, output)});
    if let Some(responses) = responses.as_object_mut() {
        responses.extend(failure_responses(operation));
    }
    let is_alias = path != operation.http().path;
    let id = format!("{}{}", operation.name(), if is_alias { "_alias" } else { "" });
    let mut described = json!({
        "operationId": id,
        "summary": operation.docs().title,
        "description": description,
        "tags": [operation.docs().area],
        "responses": responses,
        "x-svc-capability": operation.access().needs.expression(),
        "x-svc-effect": operation.effect().name(),
    });
    if let Some(members) = described.as_object_mut() {
        let schemes = security_schemes(operation).iter().map(|scheme| json!({*scheme: []}));
        let schemes: Vec<Value> = schemes.collect();
        if !schemes.is_empty() {
            members.insert("security".to_owned(), schemes.into());
        }
        if !parameters.is_empty() {
            members.insert("parameters".to_owned(), parameters.into());
        }
        if let Some(body) = body {
            members.insert("requestBody".to_owned(), body);
        }
    }
    described
}

/// Returns the description of a successful response.
fn success_response(operation: &Operation, output: &Value) -> Value {
    if operation.http().success == Success::SeeOther {
        return json!({
            "description": "Redirects the browser to another address.",
            "headers": {"Location": {
                "description": "The address to which the browser is redirected.",
                "schema": {"type": "string"},
            }},
        });
    }
    if operation.http().success == Success::NoContent {
        return json!({"description": "Success.", "headers": success_headers(operation)});
    }
    if operation.http().frame == Some(Frame::Board) {
        let file = json!({"schema": {"type": "string"}});
        return json!({"description": "The page, or one of its files.", "content": {HTML: file, "*/*": file}});
    }
    let schema = if operation.is_detailed() { with_lean_form(output) } else { output.clone() };
    let mut content =
        json!({operation.http().frame.map_or(JSON, Frame::response_media_type): {"schema": schema}});
    if let (true, Some(media)) = (operation.http().is_page, content.as_object_mut()) {
        media.insert(HTML.to_owned(), json!({"schema": {"type": "string"}}));
    }
    json!({"description": "Success.", "headers": success_headers(operation), "content": content})
}

/// Returns the schema of an output that may also be lean.
fn with_lean_form(output: &Value) -> Value {
    let lean = json!({
        "description": "With `detail=lean`: the same object without null, empty and false members, without \
            hashes and addresses, and without ids that the request determines.",
        "type": "object",
    });
    json!({"anyOf": [output, lean]})
}

/// Name of the security scheme for bearer tokens.
const BEARER: &str = "bearer";
const SESSION: &str = "session";
const TICKET: &str = "shareTicket";

/// Returns the security schemes for an operation. Any one of them is enough.
fn security_schemes(operation: &Operation) -> &'static [&'static str] {
    let needs = operation.access().needs;
    let takes = operation.http().frame.map_or(AcceptedCredentials::All, Frame::accepted_credentials);
    match (needs, takes) {
        (Needs::Nothing, _) | (_, AcceptedCredentials::Nothing) => &[],
        (needs, _) if needs.names(Right::Ticket) => &[TICKET],
        (needs, _) if needs.names(Right::Session) => &[SESSION],
        (_, AcceptedCredentials::Authorization) => &[BEARER],
        (_, AcceptedCredentials::All) => &[BEARER, SESSION],
    }
}

/// Returns an example of a problem document for each error code, by the name of the code.
fn problem_examples() -> Map<String, Value> {
    let example = |code: &Code| {
        let problem = Error::new(*code, code.meaning()).problem();
        (code.name().to_owned(), json!({"value": problem}))
    };
    Code::ALL.iter().map(example).collect()
}

/// Returns the responses of an operation's failures, by status.
///
/// Operations share the response for a status if no codes are specific to the operation.
fn failure_responses(operation: &Operation) -> Map<String, Value> {
    let mut by_status: BTreeMap<u16, BTreeSet<Code>> = BTreeMap::new();
    for code in operation.refusals() {
        by_status.entry(code.status()).or_default().insert(code);
    }
    if operation.http().frame == Some(Frame::Scim) {
        return by_status
            .into_keys()
            .map(|status| (status.to_string(), response_reference(SCIM_PREFIX, status)))
            .collect();
    }
    let response = |(status, codes): (u16, BTreeSet<Code>)| {
        let is_shared = codes == common_codes(status);
        (
            status.to_string(),
            if is_shared {
                response_reference(OPERATION_PREFIX, status)
            } else {
                problem_response(status, &codes)
            },
        )
    };
    by_status.into_iter().map(response).collect()
}

/// Returns the codes with the given status with which every operation can fail.
fn common_codes(status: u16) -> BTreeSet<Code> {
    Code::OF_EVERY_OPERATION.iter().copied().filter(|code| code.status() == status).collect()
}

/// Name prefix of the error responses that operations share.
const OPERATION_PREFIX: &str = "operation";
/// Name prefix of the error responses of routes that are not operations.
const ROUTE_PREFIX: &str = "problem";
/// Name prefix of the responses whose body is an error of RFC 7644.
const SCIM_PREFIX: &str = "scim";

/// Returns the error responses that routes share.
///
/// For each status there is one response with the codes that every operation can fail with, one with all
/// codes, and one for SCIM if a SCIM operation can fail with that status.
fn shared_responses(table: &Table) -> Map<String, Value> {
    let statuses: BTreeSet<u16> = Code::ALL.iter().map(|code| code.status()).collect();
    let all = |status| Code::ALL.iter().copied().filter(|code| code.status() == status).collect();
    let mut responses = Map::new();
    for status in statuses {
        for (prefix, codes) in [(OPERATION_PREFIX, common_codes(status)), (ROUTE_PREFIX, all(status))] {
            if !codes.is_empty() {
                responses.insert(format!("{prefix}_{status}"), problem_response(status, &codes));
            }
        }
    }
    let scim = table.rows().filter(|operation| operation.http().frame == Some(Frame::Scim));
    for code in scim.flat_map(Operation::refusals) {
        let status = code.status();
        responses.entry(format!("{SCIM_PREFIX}_{status}")).or_insert_with(|| scim_error_response(status));
    }
    responses
}

/// Returns a reference to the shared response with the name prefix `prefix` for a status.
fn response_reference(prefix: &str, status: u16) -> Value {
    json!({"$ref": format!("#/components/responses/{prefix}_{status}")})
}

/// Returns the error responses of a route that is not an operation, by status.
pub fn refusals(statuses: impl IntoIterator<Item = u16>) -> Map<String, Value> {
    statuses
        .into_iter()
        .map(|status| (status.to_string(), response_reference(ROUTE_PREFIX, status)))
        .collect()
}

/// Returns the error response for one status: a problem document with one of the codes in `codes`.
fn problem_response(status: u16, codes: &BTreeSet<Code>) -> Value {
    let types: Vec<String> = codes.iter().map(|code| code.address()).collect();
    let example = |code: &Code| {
        let address = format!("#/components/examples/{}", code.name());
        (code.name().to_owned(), json!({"$ref": address}))
    };
    let examples: Map<String, Value> = codes.iter().map(example).collect();
    let titles: Vec<&str> = codes.iter().map(|code| code.title()).collect();
    let mut response = json!({
        "description": format!("{}.", titles.join("; or: ")),
        "content": {"application/problem+json": {
            "schema": {"allOf": [
                {"$ref": "#/components/schemas/Problem"},
                {"type": "object", "properties": {"type": {"enum": types}, "status": {"const": status}}},
            ]},
            "examples": examples,
        }},
    });
    if let (Some(name), Some(members)) = (failure_header(status), response.as_object_mut()) {
        members.insert("headers".to_owned(), header_references(&[name]).into());
    }
    response
}

/// Returns the error response for one status of SCIM routes. The body is an error of RFC 7644.
fn scim_error_response(status: u16) -> Value {
    let mut response = json!({
        "description": "An error of RFC 7644.",
        "content": {"application/scim+json": {"schema": {"allOf": [
            {"$ref": Components::reference_to(SCIM_ERROR)},
            {"properties": {"status": {"const": status.to_string()}}},
        ]}}},
    });
    let header = failure_header(status).filter(|name| *name != REPLAYED);
    if let (Some(name), Some(members)) = (header, response.as_object_mut()) {
        members.insert("headers".to_owned(), header_references(&[name]).into());
    }
    response
}

/// Name of the schema for SCIM errors (RFC 7644, section 3.12).
const SCIM_ERROR: &str = "ScimError";

fn scim_error_schema() -> Value {
    json!({
        "description": "An error of RFC 7644.",
        "type": "object",
        "properties": {
            "schemas": {"const": ["urn:ietf:params:scim:api:messages:2.0:Error"]},
            "status": {"type": "string"},
            "scimType": {"type": "string"},
            "detail": {"type": "string"},
        },
        "required": ["schemas", "status", "detail"],
        "additionalProperties": false,
    })
}

/// Returns the name of the header that failures with this status have, for example `Retry-After`, if any.
fn failure_header(status: u16) -> Option<&'static str> {
    match status {
        401 => Some("WWW-Authenticate"),
        403 | 404 | 409 => Some(REPLAYED),
        429 | 503 => Some("Retry-After"),
        _ => None,
    }
}

/// Name of the schema of a value with arbitrary content.
const ANY_JSON: &str = "AnyJson";

/// Returns the schema of any JSON whose numbers every reader preserves exactly.
fn any_json_schema() -> Value {
    let own = json!({"$ref": Components::reference_to(ANY_JSON)});
    json!({
        "description": "Any JSON. Numbers from 2^53 on are refused: send them as strings.",
        "type": ["null", "boolean", "number", "string", "array", "object"],
        "exclusiveMinimum": -9_007_199_254_740_992_i64,
        "exclusiveMaximum": 9_007_199_254_740_992_i64,
        "items": own,
        "additionalProperties": own,
    })
}

/// Replaces arbitrary values in an input's schema by the schema `AnyJson`, which has the limits of stored
/// values.
fn with_value_limits(mut schema: Value) -> Value {
    match &mut schema {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                *member = match (name.as_str(), member.take()) {
                    ("additionalProperties" | "items", Value::Bool(true)) => {
                        json!({"$ref": Components::reference_to(ANY_JSON)})
                    }
                    (_, member) => with_value_limits(member),
                };
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| *item = with_value_limits(item.take())),
        _ => {}
    }
    schema
}

/// Splits an input into parameters and a request body.
///
/// Path variables are parameters. Without a body, all other fields are parameters too. The schema of a body
/// that has several media types is added to `bodies`.
fn split_input(
    operation: &Operation,
    path: &str,
    schema: &Value,
    documented: &Fixture,
    bodies: &mut Map<String, Value>,
) -> (Vec<Value>, Option<Value>) {
    let no_fields = Map::new();
    let fields = schema.get("properties").and_then(Value::as_object).unwrap_or(&no_fields);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let example = operation.docs().example(documented).unwrap_or_default();
    let in_path: Vec<&str> = path_variables(path).collect();
    let has_body = matches!(operation.http().method, Method::Post | Method::Put | Method::Patch);
    let in_query = match operation.http().frame {
        Some(frame) if !operation.effect().is_read_only() => frame.query_fields_of_changes(),
        _ => &[],
    };
    let takes_file = operation.http().takes_file;
    let mut parameters = Vec::new();
    let mut members = Map::new();
    let mut body_example = Map::new();
    for (name, field) in fields {
        let is_path = in_path.contains(&name.as_str());
        let is_query = in_query.contains(&name.as_str()) || (takes_file && name != FILE_FIELD);
        if has_body && !is_path && !is_query {
            members.insert(name.clone(), with_value_limits(field.clone()));
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
    if let Some(file) = members.remove(FILE_FIELD).filter(|_| takes_file) {
        let form = json!({"schema": file, "example": body_example.get(FILE_FIELD)});
        return (parameters, Some(json!({"required": true, "content": {JSON: form}})));
    }
    if members.is_empty() {
        return (parameters, None);
    }
    let needed: Vec<&str> = required.into_iter().filter(|name| !in_path.contains(name)).collect();
    let body_required = !needed.is_empty();
    // Identity providers send all fields that they have, so the service ignores unknown fields.
    let is_open = operation.http().frame == Some(Frame::Scim);
    let mut body = json!({
        "type": "object", "properties": members, "required": needed, "additionalProperties": is_open,
    });
    // The keywords `not` and `allOf` define which fields exclude each other.
    for rule in ["not", "allOf"] {
        if let (Some(stated), Some(body)) = (schema.get(rule), body.as_object_mut()) {
            body.insert(rule.to_owned(), stated.clone());
        }
    }
    let media = operation.http().frame.map_or(&[JSON][..], Frame::request_media_types);
    if media.len() > 1 {
        let name = format!("{}_body", operation.name());
        let reference = json!({"$ref": Components::reference_to(&name)});
        bodies.insert(name, std::mem::replace(&mut body, reference));
    }
    let form = json!({"schema": body, "example": body_example});
    let content: Map<String, Value> = media.iter().map(|media| ((*media).to_owned(), form.clone())).collect();
    (parameters, Some(json!({"required": body_required, "content": content})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_values_are_limited_at_any_depth() {
        let free = json!({"$ref": "#/components/schemas/AnyJson"});
        let schema = json!({
            "items": [{"type": "object", "additionalProperties": true}], "additionalProperties": false,
        });
        let limits = json!({
            "items": [{"type": "object", "additionalProperties": free}], "additionalProperties": false,
        });
        assert_eq!(with_value_limits(schema), limits);
    }

    #[test]
    fn a_refusal_names_the_types_of_its_status() {
        let response = problem_response(403, &[Code::MissingCapability, Code::Forbidden].into());
        let schema = &response["content"]["application/problem+json"]["schema"]["allOf"][1];
        let types = json!(["/problems/missing-capability", "/problems/forbidden"]);
        assert_eq!(schema["properties"]["type"]["enum"], types);
        let examples = &response["content"]["application/problem+json"]["examples"];
        assert_eq!(examples["forbidden"]["$ref"], "#/components/examples/forbidden");
        assert_eq!(problem_examples()["forbidden"]["value"]["status"], 403);
        let has_headers = |status| problem_response(status, &common_codes(status)).get("headers").is_some();
        assert!(has_headers(429) && !has_headers(413));
    }
}
