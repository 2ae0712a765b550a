//! Tools, prompts and resources for the conformance suite of the Model Context Protocol.
//!
//! They replace the operations of the service behind its layer and its transports. The suite's descriptions
//! of its scenarios define what each returns.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rmcp::model::{
    CompleteRequestParams, GetPromptRequestParams, ProgressToken, RequestId, RequestStateCodec,
    ServerCapabilities, SubscriptionFilter,
};
use serde_json::{Map, Value, json};
use svc_mcp_stdio::LogLevel;
use svc_mcp_stdio::handler::{Call, CallProperties, Handler, Outcome};
use svc_mcp_stdio::notifier::Notifier;
use svc_mcp_stdio::refusal::Refusal;
use svc_mcp_stdio::request_context::RequestContext;
use svc_mcp_stdio::response::{CacheScope, Response};

/// A PNG of one pixel.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
/// A WAV file without samples.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";
/// Time for which clients may cache lists, in milliseconds.
const TTL_MS: u64 = 60_000;
/// The time between two steps of a tool.
const STEP: Duration = Duration::from_millis(50);

/// Tools without arguments, apart from those with a schema.
const TOOLS: &[&str] = &[
    "test_audio_content",
    "test_embedded_resource",
    "test_error_handling",
    "test_image_content",
    "test_input_required_result_capabilities",
    "test_input_required_result_elicitation",
    "test_input_required_result_list_roots",
    "test_input_required_result_multi_round",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_request_state",
    "test_input_required_result_sampling",
    "test_input_required_result_tampered_state",
    "test_logging_tool",
    "test_missing_capability",
    "test_multiple_content_types",
    "test_simple_text",
    "test_streaming_elicitation",
    "test_tool_with_logging",
    "test_tool_with_progress",
];

/// The handler of the suite's fixtures.
pub struct Fixtures {
    states: RequestStateCodec,
    schemas: BTreeMap<&'static str, Value>,
}

impl Default for Fixtures {
    fn default() -> Self {
        let with_schema = ["json_schema_2020_12_tool", "test_custom_header"];
        let schema = |name: &'static str| (name, Self::schema(name));
        let schemas = TOOLS.iter().copied().chain(with_schema).map(schema).collect();
        Self { states: RequestStateCodec::try_new(vec![7; 32]).unwrap(), schemas }
    }
}

fn text(text: impl Into<String>) -> Value {
    json!({"content": [{"type": "text", "text": text.into()}]})
}

fn done(value: &Value) -> Outcome {
    Ok(Response::of(value))
}

fn form(message: &str, property: &str, of_type: &str) -> Value {
    json!({"method": "elicitation/create", "params": {
        "mode": "form", "message": message,
        "requestedSchema": {
            "type": "object", "properties": {property: {"type": of_type}}, "required": [property],
        },
    }})
}

fn sampling(question: &str, tokens: u32) -> Value {
    let message = json!({"role": "user", "content": {"type": "text", "text": question}});
    json!({"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": tokens}})
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

/// Asks the client for input.
fn ask(requests: Value, state: Option<String>) -> Outcome {
    let mut result = json!({"resultType": "input_required", "inputRequests": requests});
    if let Some(state) = state {
        result["requestState"] = state.into();
    }
    done(&result)
}

/// The data that a client sends when it repeats a call.
#[derive(Default)]
struct Retry {
    responses: Map<String, Value>,
    state: Option<String>,
}

impl Retry {
    fn of(call: &Call) -> Self {
        let params = &call.message.params;
        Self {
            responses: params.read("inputResponses").ok().flatten().unwrap_or_default(),
            state: params.read("requestState").ok().flatten(),
        }
    }

    fn content(&self, key: &str, member: &str) -> Option<&Value> {
        self.responses.get(key)?.get("content")?.get(member)
    }
}

fn tool(name: &str, schema: &Value) -> Value {
    json!({"name": name, "description": format!("{name}: a fixture."), "inputSchema": schema})
}

impl Fixtures {
    fn schema(name: &str) -> Value {
        match name {
            "test_custom_header" => json!({"type": "object", "properties": {
                "region": {"type": "string", "x-mcp-header": "Region"},
                "priority": {"type": "integer", "x-mcp-header": "Priority"},
            }}),
            "json_schema_2020_12_tool" => json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "$defs": {"address": {
                    "$anchor": "addressDef", "type": "object",
                    "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
                }},
                "properties": {
                    "name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
                    "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                    "phone": {"type": "string"}, "email": {"type": "string"},
                },
                "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
                "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
                "then": {"required": ["phone"]}, "else": {"required": ["email"]},
                "additionalProperties": false,
            }),
            _ => json!({"type": "object", "properties": {}}),
        }
    }

    /// Returns the state that a client has sent back, if this server issued it.
    fn opened(&self, retry: &Retry) -> Result<Option<String>, Refusal> {
        let open = |state: &String| self.states.open_json::<String>(state);
        let opened = retry.state.as_ref().map(open).transpose();
        opened.map_err(|_| Refusal::params("the requestState is not one of this server"))
    }

    fn sealed(&self, state: &str) -> Option<String> {
        self.states.seal_json(&state).ok()
    }

    async fn run(&self, context: &RequestContext, call: Call, notifier: &Notifier) -> Outcome {
        let retry = Retry::of(&call);
        match call.name.as_str() {
            "test_simple_text" => done(&text("This is a simple text response for testing.")),
            "test_image_content" => {
                done(&json!({"content": [{"type": "image", "data": PNG, "mimeType": "image/png"}]}))
            }
            "test_audio_content" => {
                done(&json!({"content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]}))
            }
            "test_embedded_resource" => done(&json!({"content": [{"type": "resource", "resource": {
                "uri": "test://embedded-resource", "mimeType": "text/plain",
                "text": "This is an embedded resource content.",
            }}]})),
            "test_multiple_content_types" => done(&json!({"content": [
                {"type": "text", "text": "Multiple content types test:"},
                {"type": "image", "data": PNG, "mimeType": "image/png"},
                {"type": "resource", "resource": {
                    "uri": "test://mixed-content-resource", "mimeType": "application/json",
                    "text": "{\"test\":\"data\",\"value\":123}",
                }},
            ]})),
            "test_error_handling" => {
                let mut result = text("This tool intentionally returns an error for testing");
                result["isError"] = true.into();
                done(&result)
            }
            "test_tool_with_progress" => with_progress(context.progress.as_ref(), notifier).await,
            "test_tool_with_logging" | "test_logging_tool" => with_logging(context, notifier).await,
            "test_missing_capability" => match context.declared.sampling {
                true => done(&text("sampling is declared")),
                false => Err(Refusal::client_capability(json!({"sampling": {}}))),
            },
            "test_streaming_elicitation" | "json_schema_2020_12_tool" | "test_custom_header" => {
                done(&text("done"))
            }
            name if name.starts_with("test_input_required_result_") => self.with_input(context, name, &retry),
            name => Err(Refusal::params(format!("there is no tool {name}"))),
        }
    }

    fn with_input(&self, context: &RequestContext, name: &str, retry: &Retry) -> Outcome {
        let state = self.opened(retry)?;
        match name.trim_start_matches("test_input_required_result_") {
            "elicitation" => match retry.content("user_name", "name").and_then(Value::as_str) {
                Some(name) => done(&text(format!("Hello, {name}!"))),
                None => ask(json!({"user_name": form("What is your name?", "name", "string")}), None),
            },
            "sampling" => match retry.responses.get("capital_question") {
                Some(answer) => done(&text(answer["content"]["text"].as_str().unwrap_or("no text"))),
                None => {
                    ask(json!({"capital_question": sampling("What is the capital of France?", 100)}), None)
                }
            },
            "list_roots" => match retry.responses.get("client_roots") {
                Some(answer) => done(&text(answer["roots"].to_string())),
                None => ask(json!({"client_roots": roots()}), None),
            },
            "request_state" | "tampered_state" => match state {
                Some(_) if retry.responses.contains_key("confirm") => done(&text("state-ok")),
                _ => ask(json!({"confirm": form("Please confirm", "ok", "boolean")}), self.sealed("confirm")),
            },
            "multiple_inputs" => {
                let wanted = ["user_name", "greeting", "client_roots"];
                if wanted.iter().all(|key| retry.responses.contains_key(*key)) {
                    return done(&text("all there"));
                }
                let requests = json!({
                    "user_name": form("What is your name?", "name", "string"),
                    "greeting": sampling("Generate a greeting", 50),
                    "client_roots": roots(),
                });
                ask(requests, self.sealed("multiple"))
            }
            "multi_round" => match state.as_deref() {
                Some("1") if retry.responses.contains_key("step1") => {
                    let question = form("Step 2: What is your favorite color?", "color", "string");
                    ask(json!({"step2": question}), self.sealed("2"))
                }
                Some("2") if retry.responses.contains_key("step2") => done(&text("both steps done")),
                _ => ask(
                    json!({"step1": form("Step 1: What is your name?", "name", "string")}),
                    self.sealed("1"),
                ),
            },
            _ => {
                let mut requests = Map::new();
                if context.declared.elicitation {
                    requests.insert("user_name".to_owned(), form("What is your name?", "name", "string"));
                }
                if context.declared.sampling {
                    requests.insert("greeting".to_owned(), sampling("Generate a greeting", 50));
                }
                match requests.is_empty() || !retry.responses.is_empty() {
                    true => done(&text("done")),
                    false => ask(requests.into(), None),
                }
            }
        }
    }
}

async fn with_progress(token: Option<&ProgressToken>, notifier: &Notifier) -> Outcome {
    for done in [0, 50, 100] {
        if let Some(token) = token {
            notifier.progress(token, done, 100, "working");
        }
        tokio::time::sleep(STEP).await;
    }
    done(&text("Tool with progress executed"))
}

async fn with_logging(context: &RequestContext, notifier: &Notifier) -> Outcome {
    for said in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        // Before revision 2026-07-28 the server decides for a client that has not set a level.
        if context.logs(LogLevel::Info) || context.revision.has_handshake() {
            notifier.log(LogLevel::Info, &json!(said));
        }
        tokio::time::sleep(STEP).await;
    }
    done(&text("Tool with logging executed"))
}

fn contents(uri: &str, media: &str, member: &str, value: impl Into<Value>) -> Outcome {
    let result = json!({"contents": [{"uri": uri, "mimeType": media, member: value.into()}]});
    Ok(Response::of(&result).cached(TTL_MS, CacheScope::Private))
}

fn said(content: &[Value]) -> Outcome {
    let messages: Vec<Value> =
        content.iter().map(|content| json!({"role": "user", "content": content})).collect();
    done(&json!({"messages": messages}))
}

fn prompt(params: &GetPromptRequestParams) -> Outcome {
    let argument = |name: &str| {
        let value = params.arguments.as_ref().and_then(|arguments| arguments.get(name));
        value.and_then(|value| serde_json::to_value(value).ok()).unwrap_or_default()
    };
    let plain = |text: String| json!({"type": "text", "text": text});
    match params.name.as_str() {
        "test_simple_prompt" => said(&[plain("This is a simple prompt for testing.".to_owned())]),
        "test_prompt_with_arguments" => {
            let [one, two] =
                ["arg1", "arg2"].map(|name| argument(name).as_str().unwrap_or_default().to_owned());
            said(&[plain(format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))])
        }
        "test_prompt_with_embedded_resource" => said(&[
            json!({"type": "resource", "resource": {
                "uri": argument("resourceUri"), "mimeType": "text/plain",
                "text": "Embedded resource content for testing.",
            }}),
            plain("Please process the embedded resource above.".to_owned()),
        ]),
        "test_prompt_with_image" => said(&[
            json!({"type": "image", "data": PNG, "mimeType": "image/png"}),
            plain("Please analyze the image above.".to_owned()),
        ]),
        "test_input_required_result_prompt" => {
            let responses = params.input_responses.as_ref();
            match responses.is_some_and(|responses| responses.contains_key("user_context")) {
                true => said(&[plain("With your context.".to_owned())]),
                false => {
                    let question = form("What context should the prompt use?", "context", "string");
                    ask(json!({"user_context": question}), None)
                }
            }
        }
        name => Err(Refusal::params(format!("there is no prompt {name}"))),
    }
}

fn address(name: &str) -> String {
    format!("test://{name}")
}

fn ready<'a, T: Send + 'a>(value: T) -> BoxFuture<'a, T> {
    Box::pin(std::future::ready(value))
}

impl Handler for Fixtures {
    fn declares(&self, context: &RequestContext) -> ServerCapabilities {
        let builder = ServerCapabilities::builder()
            .enable_tools()
            .enable_prompts()
            .enable_completions()
            .enable_resources();
        let mut declared = builder.build();
        declared.logging = Some(Map::new());
        if let Some(resources) = declared.resources.as_mut().filter(|_| context.revision.has_handshake()) {
            resources.subscribe = Some(true);
        }
        declared
    }

    fn instructions(&self, _: &RequestContext) -> &'static str {
        "Fixtures of the conformance suite."
    }

    fn call_properties(&self, _: &str) -> CallProperties {
        CallProperties { waits: false, changes: true }
    }

    fn input_schema(&self, tool: &str) -> Option<&Value> {
        self.schemas.get(tool)
    }

    fn tools<'a>(&'a self, _: &'a RequestContext) -> BoxFuture<'a, Outcome> {
        let tools: Vec<Value> = self.schemas.iter().map(|(name, schema)| tool(name, schema)).collect();
        ready(Ok(Response::of(&json!({"tools": tools})).cached(TTL_MS, CacheScope::Private)))
    }

    fn call<'a>(
        &'a self,
        context: &'a RequestContext,
        call: Call,
        notifier: &'a Notifier,
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(self.run(context, call, notifier))
    }

    fn resources<'a>(&'a self, _: &'a RequestContext) -> BoxFuture<'a, Outcome> {
        let resource =
            |name: &str, media: &str| json!({"uri": address(name), "name": name, "mimeType": media});
        let resources = json!({"resources": [
            resource("static-text", "text/plain"),
            resource("static-binary", "image/png"),
            resource("watched-resource", "text/plain"),
        ]});
        ready(Ok(Response::of(&resources).cached(TTL_MS, CacheScope::Private)))
    }

    fn templates<'a>(&'a self, _: &'a RequestContext) -> BoxFuture<'a, Outcome> {
        let templates = json!({"resourceTemplates": [{
            "uriTemplate": "test://template/{id}/data", "name": "data", "mimeType": "application/json",
        }]});
        ready(Ok(Response::of(&templates).cached(TTL_MS, CacheScope::Private)))
    }

    fn read<'a>(&'a self, context: &'a RequestContext, uri: String) -> BoxFuture<'a, Outcome> {
        let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
        ready(match (uri.as_str(), id) {
            ("test://static-text", _) => {
                contents(&uri, "text/plain", "text", "This is the content of the static text resource.")
            }
            ("test://static-binary", _) => contents(&uri, "image/png", "blob", PNG),
            ("test://watched-resource", _) => contents(&uri, "text/plain", "text", "watched"),
            (_, Some(id)) => {
                let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
                contents(&uri, "application/json", "text", data.to_string())
            }
            _ => Err(Refusal::resource(&uri, context.revision)),
        })
    }

    fn prompts<'a>(&'a self, _: &'a RequestContext) -> BoxFuture<'a, Outcome> {
        let prompt = |name: &str, arguments: &[&str]| {
            let arguments: Vec<Value> =
                arguments.iter().map(|name| json!({"name": name, "required": true})).collect();
            json!({"name": name, "description": name, "arguments": arguments})
        };
        let prompts = json!({"prompts": [
            prompt("test_input_required_result_prompt", &[]),
            prompt("test_prompt_with_arguments", &["arg1", "arg2"]),
            prompt("test_prompt_with_embedded_resource", &["resourceUri"]),
            prompt("test_prompt_with_image", &[]),
            prompt("test_simple_prompt", &[]),
        ]});
        ready(Ok(Response::of(&prompts).cached(TTL_MS, CacheScope::Private)))
    }

    fn prompt<'a>(&'a self, _: &'a RequestContext, params: GetPromptRequestParams) -> BoxFuture<'a, Outcome> {
        ready(prompt(&params))
    }

    fn complete<'a>(&'a self, _: &'a RequestContext, _: CompleteRequestParams) -> BoxFuture<'a, Outcome> {
        ready(done(
            &json!({"completion": {"values": ["paris", "park", "party"], "total": 3, "hasMore": false}}),
        ))
    }

    fn subscribe<'a>(&'a self, _: &'a RequestContext, _: String, _: bool) -> BoxFuture<'a, Outcome> {
        ready(Ok(Response::default()))
    }

    fn listen<'a>(
        &'a self,
        _: &'a RequestContext,
        id: &'a RequestId,
        filter: SubscriptionFilter,
        notifier: &'a Notifier,
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
            let params = json!({"notifications": filter, "_meta": meta});
            notifier.send("notifications/subscriptions/acknowledged", &params).await;
            std::future::pending().await
        })
    }

    fn refuse<'a>(&'a self, _: &'a RequestContext, refusal: Refusal) -> BoxFuture<'a, Refusal> {
        ready(refusal)
    }
}
