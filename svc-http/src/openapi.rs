//! Builds the OpenAPI document from the core's description of the operations and from the fixed routes.
//!
//! The document is built at the first request and cached.

use std::sync::OnceLock;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderValue};
use serde_json::{Map, Value, json};
use svc_core::Code;
use svc_core::op::{FIXED, Fixed, FixedRoute, Table, openapi};
use svc_mcp_stdio::wire::BATCH_MAX;

use crate::encode::{self, Response};

/// The encoded OpenAPI document, built at its first use.
#[derive(Default)]
pub(crate) struct OpenApiDocument(OnceLock<Bytes>);

impl OpenApiDocument {
    pub fn response(&self, table: &Table) -> Response {
        let bytes = self.0.get_or_init(|| build_document(table).to_string().into());
        let mut response = encode::json_response(StatusCode::OK, bytes.clone());
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
        response
    }
}

/// Returns the OpenAPI document for all routes.
fn build_document(table: &Table) -> Value {
    let mut document = openapi::document(table);
    if let Some(Value::Object(schemas)) = document.pointer_mut("/components/schemas") {
        schemas.extend(mcp_schemas());
    }
    let Some(paths) = document.get_mut("paths").and_then(Value::as_object_mut) else { return document };
    for FixedRoute { method, path, served_by } in FIXED {
        let item = paths.entry(path).or_insert_with(|| json!({}));
        if let Some(item) = item.as_object_mut() {
            let method = method.name().to_lowercase();
            let described = route_object(served_by, &method, path);
            item.insert(method, described);
        }
    }
    document
}

/// Returns the OpenAPI description of a fixed route.
fn route_object(route_kind: Fixed, method: &str, path: &str) -> Value {
    let RouteDescription { summary, description, responses, problem_statuses, extra_members } =
        describe_route(route_kind);
    let id = path.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let mut route = json!({
        "operationId": format!("{method}{id}"),
        "summary": summary,
        "description": description,
        "tags": ["service"],
        "responses": responses,
    });
    if let Some(responses) = route.get_mut("responses").and_then(Value::as_object_mut) {
        for (status, response) in openapi::refusals(problem_statuses.iter().copied()) {
            responses.entry(status).or_insert(response);
        }
    }
    if let (Some(route), Value::Object(extra_members)) = (route.as_object_mut(), extra_members) {
        route.extend(extra_members);
    }
    route
}

struct RouteDescription {
    summary: &'static str,
    description: &'static str,
    responses: Value,
    /// Status codes of responses whose body is a problem.
    problem_statuses: &'static [u16],
    /// Parameters, request body and security requirements, if there are any.
    extra_members: Value,
}

fn describe_route(route: Fixed) -> RouteDescription {
    match route {
        Fixed::Health => describe_health(),
        Fixed::Liveness => describe_liveness(),
        Fixed::OpenApi => describe_document(),
        Fixed::Problem => describe_problem(),
        Fixed::RoomScheme => describe_room_scheme(),
        Fixed::WebSocket => describe_subscribe(),
        Fixed::Mcp => describe_mcp("Model Context Protocol", MCP_DESCRIPTION),
        Fixed::McpStreamable => describe_mcp("Model Context Protocol, streamable", MCP_DESCRIPTION),
        Fixed::McpNotifications => describe_mcp_notifications(),
        Fixed::McpSession => describe_mcp_session(),
        Fixed::McpSessionEnd => describe_mcp_session_end(),
        Fixed::McpStream => describe_mcp_stream(),
        Fixed::McpWorker => describe_mcp("Model Context Protocol for workers", MCP_PROFILE_DESCRIPTION),
        Fixed::McpReviewer => describe_mcp("Model Context Protocol for reviewers", MCP_PROFILE_DESCRIPTION),
    }
}

fn response_object(description: &str, media_type: &str, schema: &Value) -> Value {
    json!({"description": description, "content": {media_type: {"schema": schema}}})
}

const JSON: &str = "application/json";

fn describe_health() -> RouteDescription {
    let schema = json!({
        "type": "object",
        "properties": {
            "status": {"enum": ["ok", "unavailable", "draining"]},
            "checks": {
                "description": "Each part: `ok`, or what is wrong with it.",
                "type": "object", "additionalProperties": {"type": "string"},
            },
        },
        "required": ["status", "checks"],
    });
    RouteDescription {
        summary: "Readiness",
        description: "Returns whether this server can do its work, part by part. Needs no credential.",
        responses: json!({
            "200": response_object("The server is ready.", JSON, &schema),
            "503": response_object("The server is not ready, or is shutting down.", JSON, &schema),
        }),
        problem_statuses: &[500],
        extra_members: json!({}),
    }
}

fn describe_liveness() -> RouteDescription {
    let schema = json!({"type": "object", "properties": {"status": {"const": "ok"}}, "required": ["status"]});
    RouteDescription {
        summary: "Liveness",
        description: "Returns 200 while the process is up. Needs no credential.",
        responses: json!({"200": response_object("The process is up.", JSON, &schema)}),
        problem_statuses: &[500],
        extra_members: json!({}),
    }
}

fn describe_document() -> RouteDescription {
    RouteDescription {
        summary: "This document",
        description: "Returns the OpenAPI document of the service. Needs no credential.",
        responses: json!({"200": response_object("The document.", JSON, &json!({"type": "object"}))}),
        problem_statuses: &[400, 403, 429, 500, 503],
        extra_members: json!({}),
    }
}

fn describe_room_scheme() -> RouteDescription {
    let schema = json!({
        "type": "object",
        "properties": {
            "scheme": {"const": "svc"},
            "uri_template": {"type": "string"},
            "header": {"const": "Svc-Room-LSN"},
            "links": {"type": "object", "additionalProperties": {"type": "string"}},
            "export_key": {
                "type": ["string", "null"],
                "description": "The Ed25519 public key that signs checkpoints: 32 bytes as base64. Null if \
                                nothing is signed.",
            },
        },
        "required": ["scheme", "uri_template", "header", "links", "export_key"],
    });
    RouteDescription {
        summary: "Where the record of a workspace is",
        description: "Returns how addresses of this service are made, and the templates of the paths at \
                      which the record of a workspace is read. Names no workspace, and needs no credential.",
        responses: json!({"200": response_object("The card.", JSON, &schema)}),
        problem_statuses: &[400, 403, 429, 500, 503],
        extra_members: json!({}),
    }
}

fn describe_problem() -> RouteDescription {
    let names: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    RouteDescription {
        summary: "What a problem type means",
        description: "Returns the page at the path that a problem has as its `type`: what it means and what \
            to do, as JSON, or as text if the Accept header prefers that. Needs no credential.",
        responses: json!({"200": {
            "description": "The problem type.",
            "content": {
                JSON: {"schema": {"$ref": "#/components/schemas/ProblemType"}},
                "text/plain": {"schema": {"type": "string"}},
            },
        }}),
        problem_statuses: &[400, 403, 404, 429, 500, 503],
        extra_members: json!({"parameters": [{
            "name": "type", "in": "path", "required": true,
            "description": "The last segment of the problem's type.",
            "schema": {"type": "string", "enum": names}, "example": Code::NotFound.name(),
        }]}),
    }
}

fn describe_subscribe() -> RouteDescription {
    RouteDescription {
        summary: "Subscribe to events",
        description: "Opens a WebSocket (RFC 6455, over HTTP/1.1). The first frame from the client is a JSON \
            object: `token` unless the handshake carries one, `filter` with `workspace_id` and optionally \
            `channel_id`, `thread_id`, `member_id` and `kind`, and either `after_id` to start after an event \
            or the `resume_token` of an earlier acknowledgement to resume. The server responds with a frame \
            `subscribe_ack`, then sends one frame per event. Without a credential that has `event:subscribe` \
            the connection is closed with 1008.",
        responses: json!({"101": {"description": "The connection is upgraded to a WebSocket."}}),
        problem_statuses: &[400, 401, 403, 429, 500, 503],
        extra_members: json!({"security": [{"bearer": []}, {"session": []}, {}], "parameters": [
            header_parameter("Connection", &json!({"const": "Upgrade"})),
            header_parameter("Upgrade", &json!({"const": "websocket"})),
            header_parameter("Sec-WebSocket-Version", &json!({"const": "13"})),
            header_parameter(
                "Sec-WebSocket-Key",
                &json!({"type": "string", "pattern": "^[A-Za-z0-9+/]{22}==$"}),
            ),
        ]}),
    }
}

fn header_parameter(name: &str, schema: &Value) -> Value {
    json!({"name": name, "in": "header", "required": true, "schema": schema})
}

/// Returns the schemas of the MCP messages by name.
fn mcp_schemas() -> Map<String, Value> {
    const EXACT_INTEGER_MAX: i64 = (1 << 53) - 1;
    let request = json!({
        "description": "One JSON-RPC message.",
        "type": "object",
        "properties": {
            "jsonrpc": {"const": "2.0"},
            "id": {
                "description": "Omitted in a notification.",
                "type": ["string", "integer"], "minimum": -EXACT_INTEGER_MAX, "maximum": EXACT_INTEGER_MAX,
            },
            "method": {"type": "string"},
            "params": {"type": "object", "properties": {"_meta": {"type": "object"}}},
        },
        "required": ["jsonrpc", "method"],
        "additionalProperties": false,
    });
    let response = json!({
        "description": "The response to one JSON-RPC message.",
        "type": "object",
        "properties": {
            "jsonrpc": {"const": "2.0"},
            "id": {"type": ["string", "integer", "null"]},
            "result": {"type": "object"},
            "error": {
                "type": "object",
                "properties": {"code": {"type": "integer"}, "message": {"type": "string"}},
                "required": ["code", "message"],
            },
        },
        "required": ["jsonrpc"],
    });
    Map::from_iter([(REQUEST_SCHEMA.to_owned(), request), (RESPONSE_SCHEMA.to_owned(), response)])
}

const REQUEST_SCHEMA: &str = "JsonRpcRequest";
const RESPONSE_SCHEMA: &str = "JsonRpcResponse";

fn schema_ref(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

fn refusal_response() -> Value {
    response_object("The request was refused, for the reason in `data`.", JSON, &schema_ref(RESPONSE_SCHEMA))
}

fn events_response() -> Value {
    response_object("The events.", "text/event-stream", &json!({"type": "string"}))
}

fn describe_mcp_session() -> RouteDescription {
    RouteDescription {
        summary: "Model Context Protocol over HTTP with server-sent events",
        description: "Begins a session of revision 2024-11-05, which names no revision in a header. The \
            first event, `endpoint`, has the address for its messages; their answers come as events \
            `message`.",
        responses: json!({"200": events_response(), "default": refusal_response()}),
        problem_statuses: &[],
        extra_members: json!({"security": [{"bearer": []}]}),
    }
}

fn describe_mcp_notifications() -> RouteDescription {
    let uri = json!({"type": "array", "items": {"type": "string"}, "maxItems": 100});
    RouteDescription {
        summary: "Notifications of the Model Context Protocol, as server-sent events",
        description: "Tells which resources have changed: those that the query names, and those that the \
            token has subscribed to. The data of each event is a JSON-RPC notification. A new connection \
            with `Last-Event-ID` is told what has changed meanwhile. The stream ends within ten seconds of \
            its credential.",
        responses: json!({"200": events_response(), "default": refusal_response()}),
        problem_statuses: &[],
        extra_members: json!({
            "security": [{"bearer": []}],
            "parameters": [{"name": "uri", "in": "query", "schema": uri}],
        }),
    }
}

fn describe_mcp_session_end() -> RouteDescription {
    RouteDescription {
        summary: "Ends a session of revision 2024-11-05",
        description: "Ends the session that the header `Mcp-Session-Id` names.",
        responses: json!({"204": {"description": "The session has ended."}, "default": refusal_response()}),
        problem_statuses: &[],
        extra_members: json!({"security": [{"bearer": []}]}),
    }
}

fn describe_mcp_stream() -> RouteDescription {
    let query = |name: &str, schema: &Value| json!({"name": name, "in": "query", "schema": schema});
    let id = json!({"type": "string", "format": "uuid"});
    RouteDescription {
        summary: "Events as they happen, as server-sent events",
        description: "Follows the log of a workspace. The data of each event is a frame as on `GET \
            /ws/subscribe`: first `subscribe_ack`, then events, whose `id` is their position. A new \
            connection with `Last-Event-ID` goes on after it, and acknowledges up to there for a consumer. \
            The stream ends after `replay_truncated` and `must_refetch`, and within ten seconds of its \
            credential.",
        responses: json!({"200": events_response(), "default": refusal_response()}),
        problem_statuses: &[],
        extra_members: json!({
            "security": [{"bearer": []}],
            "parameters": [
                query("workspace_id", &id), query("channel_id", &id), query("thread_id", &id),
                query("member_id", &id), query("kind", &json!({"type": "string"})),
                query("after_id", &json!({"type": "integer", "minimum": 0})),
                query("form", &json!({"enum": ["full", "lean"]})),
                query("at_least_once", &json!({"type": "boolean"})),
                query("consumer_id", &json!({"type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$"})),
            ],
        }),
    }
}

const MCP_DESCRIPTION: &str = "\
    Takes one JSON-RPC message of the Model Context Protocol, or in revision 2025-03-26 a batch of them. \
    There are no sessions: each request is independent. A response that takes more than two \
    seconds comes as server-sent events, if the client accepts them. Each operation is a tool of the same \
    name unless marked otherwise; the query fields `toolsets`, `tools` and `readonly`, or the headers \
    `X-MCP-Toolsets`, `X-MCP-Tools` and `X-MCP-Readonly`, choose among them.";

const MCP_PROFILE_DESCRIPTION: &str = "\
    Takes the messages of `POST /mcp`, and shows a fixed selection of tools. One that \
    the token cannot call is listed, and refused when it is called.";

fn describe_mcp(summary: &'static str, description: &'static str) -> RouteDescription {
    let request = schema_ref(REQUEST_SCHEMA);
    let response = schema_ref(RESPONSE_SCHEMA);
    let batch = json!({"type": "array", "items": request, "minItems": 1, "maxItems": BATCH_MAX});
    let answers = json!({"anyOf": [response, {"type": "array", "items": response}]});
    RouteDescription {
        summary,
        description,
        responses: json!({
            "200": {"description": "The response, or the responses to a batch.", "content": {
                JSON: {"schema": answers},
                "text/event-stream": {"schema": {"type": "string"}},
            }},
            "202": {"description": "A notification was accepted; there is no response."},
            "400": response_object(
                "The body is not a message of the revision that it names.",
                JSON,
                &response,
            ),
            "404": response_object("The revision has no such method.", JSON, &response),
            "default": refusal_response(),
        }),
        problem_statuses: &[],
        extra_members: json!({
            "security": [{"bearer": []}],
            "requestBody": {"required": true, "content": {JSON: {
                "schema": {"anyOf": [request, batch]},
                "example": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
            }}},
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_described_once() {
        let table = svc_core::operation_table().unwrap();
        let document = build_document(&table);
        let paths = document["paths"].as_object().unwrap();
        let operations = paths.values().flat_map(|item| item.as_object().unwrap().values());
        let mut ids: Vec<&str> = operations.map(|route| route["operationId"].as_str().unwrap()).collect();
        for FixedRoute { method, path, .. } in FIXED {
            let route = &paths[path][&method.name().to_lowercase()];
            assert!(route["summary"].is_string() && route["responses"].is_object(), "{path}");
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }
}
