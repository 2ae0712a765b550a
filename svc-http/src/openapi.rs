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
pub(crate) struct Document(OnceLock<Bytes>);

impl Document {
    pub fn response(&self, table: &Table) -> Response {
        let bytes = self.0.get_or_init(|| document(table).to_string().into());
        let mut response = encode::json(StatusCode::OK, bytes.clone());
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
        response
    }
}

/// Returns the OpenAPI document for all routes.
fn document(table: &Table) -> Value {
    let mut document = openapi::document(table);
    if let Some(Value::Object(schemas)) = document.pointer_mut("/components/schemas") {
        schemas.extend(mcp_schemas());
    }
    let Some(paths) = document.get_mut("paths").and_then(Value::as_object_mut) else { return document };
    for FixedRoute { method, path, served_by } in FIXED {
        let item = paths.entry(path).or_insert_with(|| json!({}));
        if let Some(item) = item.as_object_mut() {
            let method = method.name().to_lowercase();
            let described = route(served_by, &method, path);
            item.insert(method, described);
        }
    }
    document
}

/// Returns the OpenAPI description of a fixed route.
fn route(own: Fixed, method: &str, path: &str) -> Value {
    let Description { summary, description, responses, refused, more } = describe(own);
    let id = path.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let mut route = json!({
        "operationId": format!("{method}{id}"),
        "summary": summary,
        "description": description,
        "tags": ["service"],
        "responses": responses,
    });
    if let Some(responses) = route.get_mut("responses").and_then(Value::as_object_mut) {
        for (status, response) in openapi::refusals(refused.iter().copied()) {
            responses.entry(status).or_insert(response);
        }
    }
    if let (Some(route), Value::Object(more)) = (route.as_object_mut(), more) {
        route.extend(more);
    }
    route
}

struct Description {
    summary: &'static str,
    description: &'static str,
    responses: Value,
    /// Status codes of responses whose body is a problem.
    refused: &'static [u16],
    /// Parameters, request body and security requirements, if there are any.
    more: Value,
}

fn describe(own: Fixed) -> Description {
    match own {
        Fixed::Health => health(),
        Fixed::Liveness => liveness(),
        Fixed::OpenApi => this_document(),
        Fixed::Problem => problem(),
        Fixed::RoomScheme => room_scheme(),
        Fixed::WebSocket => subscribe(),
        Fixed::Mcp => mcp("Model Context Protocol", MCP),
        Fixed::McpStreamable => mcp("Model Context Protocol, streamable", MCP),
        Fixed::McpNotifications => mcp_notifications(),
        Fixed::McpSession => mcp_session(),
        Fixed::McpSessionEnd => mcp_session_end(),
        Fixed::McpStream => mcp_stream(),
        Fixed::McpWorker => mcp("Model Context Protocol for workers", MCP_PROFILE),
        Fixed::McpReviewer => mcp("Model Context Protocol for reviewers", MCP_PROFILE),
    }
}

fn response_object(description: &str, media: &str, schema: &Value) -> Value {
    json!({"description": description, "content": {media: {"schema": schema}}})
}

const JSON: &str = "application/json";

fn health() -> Description {
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
    Description {
        summary: "Readiness",
        description: "Returns whether this server can do its work, part by part. Needs no credential.",
        responses: json!({
            "200": response_object("The server is ready.", JSON, &schema),
            "503": response_object("The server is not ready, or is shutting down.", JSON, &schema),
        }),
        refused: &[500],
        more: json!({}),
    }
}

fn liveness() -> Description {
    let schema = json!({"type": "object", "properties": {"status": {"const": "ok"}}, "required": ["status"]});
    Description {
        summary: "Liveness",
        description: "Returns 200 while the process is up. Needs no credential.",
        responses: json!({"200": response_object("The process is up.", JSON, &schema)}),
        refused: &[500],
        more: json!({}),
    }
}

fn this_document() -> Description {
    Description {
        summary: "This document",
        description: "Returns the OpenAPI document of the service. Needs no credential.",
        responses: json!({"200": response_object("The document.", JSON, &json!({"type": "object"}))}),
        refused: &[400, 403, 429, 500, 503],
        more: json!({}),
    }
}

fn room_scheme() -> Description {
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
    Description {
        summary: "Where the record of a workspace is",
        description: "Returns how addresses of this service are made, and the templates of the paths at \
                      which the record of a workspace is read. Names no workspace, and needs no credential.",
        responses: json!({"200": response_object("The card.", JSON, &schema)}),
        refused: &[400, 403, 429, 500, 503],
        more: json!({}),
    }
}

fn problem() -> Description {
    let names: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    Description {
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
        refused: &[400, 403, 404, 429, 500, 503],
        more: json!({"parameters": [{
            "name": "type", "in": "path", "required": true,
            "description": "The last segment of the problem's type.",
            "schema": {"type": "string", "enum": names}, "example": Code::NotFound.name(),
        }]}),
    }
}

fn subscribe() -> Description {
    Description {
        summary: "Subscribe to events",
        description: "Opens a WebSocket (RFC 6455, over HTTP/1.1). The first frame from the client is a JSON \
            object: `token` unless the handshake carries one, `filter` with `workspace_id` and optionally \
            `channel_id`, `thread_id`, `member_id` and `kind`, and either `after_id` to start after an event \
            or the `resume_token` of an earlier acknowledgement to resume. The server responds with a frame \
            `subscribe_ack`, then sends one frame per event. Without a credential that has `event:subscribe` \
            the connection is closed with 1008.",
        responses: json!({"101": {"description": "The connection is upgraded to a WebSocket."}}),
        refused: &[400, 401, 403, 429, 500, 503],
        more: json!({"security": [{"bearer": []}, {"session": []}, {}], "parameters": [
            header("Connection", &json!({"const": "Upgrade"})),
            header("Upgrade", &json!({"const": "websocket"})),
            header("Sec-WebSocket-Version", &json!({"const": "13"})),
            header("Sec-WebSocket-Key", &json!({"type": "string", "pattern": "^[A-Za-z0-9+/]{22}==$"})),
        ]}),
    }
}

fn header(name: &str, schema: &Value) -> Value {
    json!({"name": name, "in": "header", "required": true, "schema": schema})
}

/// Returns the schemas of the MCP messages by name.
fn mcp_schemas() -> Map<String, Value> {
    const EXACT: i64 = (1 << 53) - 1;
    let request = json!({
        "description": "One JSON-RPC message.",
        "type": "object",
        "properties": {
            "jsonrpc": {"const": "2.0"},
            "id": {
                "description": "Omitted in a notification.",
                "type": ["string", "integer"], "minimum": -EXACT, "maximum": EXACT,
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
    Map::from_iter([(REQUEST.to_owned(), request), (RESPONSE.to_owned(), response)])
}

const REQUEST: &str = "JsonRpcRequest";
const RESPONSE: &str = "JsonRpcResponse";

fn schema_ref(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

fn refusal() -> Value {
    response_object("The request was refused, for the reason in `data`.", JSON, &schema_ref(RESPONSE))
}

fn events() -> Value {
    response_object("The events.", "text/event-stream", &json!({"type": "string"}))
}

fn mcp_session() -> Description {
    Description {
        summary: "Model Context Protocol over HTTP with server-sent events",
        description: "Begins a session of revision 2024-11-05, which names no revision in a header. The \
            first event, `endpoint`, has the address for its messages; their answers come as events \
            `message`.",
        responses: json!({"200": events(), "default": refusal()}),
        refused: &[],
        more: json!({"security": [{"bearer": []}]}),
    }
}

fn mcp_notifications() -> Description {
    let uri = json!({"type": "array", "items": {"type": "string"}, "maxItems": 100});
    Description {
        summary: "Notifications of the Model Context Protocol, as server-sent events",
        description: "Tells which resources have changed: those that the query names, and those that the \
            token has subscribed to. The data of each event is a JSON-RPC notification. A new connection \
            with `Last-Event-ID` is told what has changed meanwhile. The stream ends within ten seconds of \
            its credential.",
        responses: json!({"200": events(), "default": refusal()}),
        refused: &[],
        more: json!({
            "security": [{"bearer": []}],
            "parameters": [{"name": "uri", "in": "query", "schema": uri}],
        }),
    }
}

fn mcp_session_end() -> Description {
    Description {
        summary: "Ends a session of revision 2024-11-05",
        description: "Ends the session that the header `Mcp-Session-Id` names.",
        responses: json!({"204": {"description": "The session has ended."}, "default": refusal()}),
        refused: &[],
        more: json!({"security": [{"bearer": []}]}),
    }
}

fn mcp_stream() -> Description {
    let query = |name: &str, schema: &Value| json!({"name": name, "in": "query", "schema": schema});
    let id = json!({"type": "string", "format": "uuid"});
    Description {
        summary: "Events as they happen, as server-sent events",
        description: "Follows the log of a workspace. The data of each event is a frame as on `GET \
            /ws/subscribe`: first `subscribe_ack`, then events, whose `id` is their position. A new \
            connection with `Last-Event-ID` goes on after it, and acknowledges up to there for a consumer. \
            The stream ends after `replay_truncated` and `must_refetch`, and within ten seconds of its \
            credential.",
        responses: json!({"200": events(), "default": refusal()}),
        refused: &[],
        more: json!({
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

const MCP: &str = "Takes one JSON-RPC message of the Model Context Protocol, or in revision 2025-03-26 a \
    batch of them. There are no sessions: each request is independent. A response that takes more than two \
    seconds comes as server-sent events, if the client accepts them. Each operation is a tool of the same \
    name unless marked otherwise; the query fields `toolsets`, `tools` and `readonly`, or the headers \
    `X-MCP-Toolsets`, `X-MCP-Tools` and `X-MCP-Readonly`, choose among them.";

const MCP_PROFILE: &str = "Takes the messages of `POST /mcp`, and shows a fixed selection of tools. One \
    that the token cannot call is listed, and refused when it is called.";

fn mcp(summary: &'static str, description: &'static str) -> Description {
    let request = schema_ref(REQUEST);
    let response = schema_ref(RESPONSE);
    let batch = json!({"type": "array", "items": request, "minItems": 1, "maxItems": BATCH_MAX});
    let answers = json!({"anyOf": [response, {"type": "array", "items": response}]});
    Description {
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
            "default": refusal(),
        }),
        refused: &[],
        more: json!({
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
        let document = document(&table);
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
