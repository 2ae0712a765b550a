//! Routes requests to the methods of the protocol, for all transports and revisions.
//!
//! A transport reads a message, determines its sender, and sends the response. The router is the same for all
//! transports.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{
    ArgumentInfo, CompleteRequestParams, DiscoverResult, GetPromptRequestParams, Implementation,
    InitializeResult, Reference, RequestId, ServerCapabilities, SubscriptionFilter,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use svc_core::json::invalid_character_message;

use crate::handler::{Call, CallProperties, Handler, Outcome};
use crate::log_level::LogLevel;
use crate::notifier::Notifier;
use crate::refusal::Refusal;
use crate::request_context::{AgreedSettings, ClientCapabilities, RequestContext, SettingsChange};
use crate::response::{CacheScope, EncodedResponse, LONG_TTL_MS, Response};
use crate::revision::Revision;
use crate::wire::{Kind, Message};

/// Answer to a request: the encoded response, and data for the transport.
#[derive(Debug)]
pub struct Answer {
    /// Encoded JSON-RPC response.
    pub bytes: EncodedResponse,
    /// Refusal of the request; `None` if the request has a result.
    pub refusal: Option<Refusal>,
    /// Change of the settings by `initialize` or `logging/setLevel`, for later requests of the connection.
    pub settings_change: Option<SettingsChange>,
}

/// Routes messages to a handler. Clones share the handler.
#[derive(Clone)]
pub struct Router {
    handler: Arc<dyn Handler>,
    /// Name and version of the server, as JSON.
    server_info: Arc<str>,
}

/// Result of a request, and the change of the settings for later requests of the connection.
type RequestResult = Result<(Response, Option<SettingsChange>), Refusal>;

impl Router {
    /// Creates a router for a handler.
    pub fn new(handler: Arc<dyn Handler>) -> Self {
        Self { handler, server_info: json!(server_info()).to_string().into() }
    }

    /// Returns how a transport must treat a message.
    pub fn call_properties(&self, message: &Message) -> CallProperties {
        match message.method.as_str() {
            "tools/call" => {
                let properties = |tool: Cow<'_, str>| match message.params.text("requestState") {
                    Some(_) => self.handler.call_properties_of_repeated_call(&tool),
                    None => self.handler.call_properties(&tool),
                };
                called_tool(message).map(properties).unwrap_or_default()
            }
            "subscriptions/listen" => CallProperties { waits: true, changes: false },
            _ => CallProperties::default(),
        }
    }

    /// Returns the schema of the arguments of the tool that a message calls.
    pub fn input_schema(&self, message: &Message) -> Option<&Value> {
        self.handler.input_schema(&called_tool(message)?)
    }

    /// Answers a request, or returns `None` if the message expects no answer.
    ///
    /// Dropping the future cancels the request: a wait ends, queued work is not run, and work that has begun
    /// continues.
    pub async fn answer(
        &self,
        context: &RequestContext,
        message: &Arc<Message>,
        notifier: &Notifier,
    ) -> Option<Answer> {
        let id = message.id.as_ref().filter(|_| message.kind == Kind::Request)?;
        let step = match self.dispatch(context, id, message, notifier).await {
            Err(refusal) if refusal.error.is_none() => Err(self.handler.refuse(context, refusal).await),
            step => step,
        };
        Some(match step {
            Ok((answered, settings_change)) => {
                let bytes = answered.response(id, context.revision, &self.server_info);
                Answer { bytes, refusal: None, settings_change }
            }
            Err(refusal) => Answer {
                bytes: refusal.response(Some(id)).into(),
                refusal: Some(refusal),
                settings_change: None,
            },
        })
    }

    /// Returns the answer to a request that is refused before it reaches a method.
    pub async fn refuse(&self, context: &RequestContext, id: Option<&RequestId>, refusal: Refusal) -> Answer {
        let refusal = match refusal.error {
            None => self.handler.refuse(context, refusal).await,
            Some(_) => refusal,
        };
        Answer { bytes: refusal.response(id).into(), refusal: Some(refusal), settings_change: None }
    }

    /// Returns the answer to `subscriptions/listen` when the server ends the subscription.
    pub fn subscription_end_answer(&self, context: &RequestContext, id: &RequestId) -> Answer {
        let bytes = Response::subscription_ended(id).response(id, context.revision, &self.server_info);
        Answer { bytes, refusal: None, settings_change: None }
    }

    async fn dispatch(
        &self,
        context: &RequestContext,
        id: &RequestId,
        message: &Arc<Message>,
        notifier: &Notifier,
    ) -> RequestResult {
        let handler = &self.handler;
        let revision = context.revision;
        let plain = |outcome: Outcome| outcome.map(|answered| (answered, None));
        if message.method == "tools/call" {
            return plain(handler.call(context, parse_call(message)?, notifier).await);
        }
        let declared = handler.declares(context);
        match message.method.as_str() {
            "tools/list" => {
                self.reject_cursor(message)?;
                plain(handler.tools(context).await)
            }
            "initialize" if revision.has_handshake() => self.initialize(context, message),
            "ping" if revision.has_handshake() => Ok((Response::default(), None)),
            "logging/setLevel" if revision.has_handshake() && declared.logging.is_some() => {
                let SetLevelParams { level } = parse_params(message, &["level"])?;
                Ok((Response::default(), Some(SettingsChange::Level(level))))
            }
            "server/discover" if revision.is_stateless() => Ok((self.discover(context, declared), None)),
            "resources/list" if declared.resources.is_some() => {
                self.reject_cursor(message)?;
                plain(handler.resources(context).await)
            }
            "resources/templates/list" if declared.resources.is_some() => {
                self.reject_cursor(message)?;
                plain(handler.templates(context).await)
            }
            "resources/read" if declared.resources.is_some() => {
                plain(handler.read(context, parse_params::<ResourceParams>(message, &["uri"])?.uri).await)
            }
            method @ ("resources/subscribe" | "resources/unsubscribe")
                if revision.has_handshake() && has_subscriptions(&declared) =>
            {
                let uri = parse_params::<ResourceParams>(message, &["uri"])?.uri;
                plain(handler.subscribe(context, uri, method == "resources/subscribe").await)
            }
            "prompts/list" if declared.prompts.is_some() => {
                self.reject_cursor(message)?;
                plain(handler.prompts(context).await)
            }
            "prompts/get" if declared.prompts.is_some() => {
                // Malformed responses to a request for input are ignored.
                let wanted: GetPromptRequestParams =
                    parse_params(message, &["name", "arguments", "inputResponses", "requestState"])
                        .or_else(|_| parse_params(message, &["name", "arguments"]))?;
                plain(handler.prompt(context, wanted).await)
            }
            "completion/complete" if declared.completions.is_some() => {
                let CompletionParams { of, argument } = parse_params(message, &["ref", "argument"])?;
                plain(
                    handler.complete(context, CompleteRequestParams::new(of.to_reference()?, argument)).await,
                )
            }
            "subscriptions/listen" if revision.is_stateless() => {
                let SubscriptionParams { notifications } = parse_params(message, &["notifications"])?;
                plain(handler.listen(context, id, notifications, notifier).await)
            }
            method => Err(Refusal::method(method)),
        }
    }

    fn initialize(&self, context: &RequestContext, message: &Message) -> RequestResult {
        // If a client requests an unknown revision, the server responds with a revision that it supports.
        let revision = Revision::negotiate(&message.params.string("protocolVersion").unwrap_or_default());
        let capabilities: Value = message.params.read("capabilities").ok().flatten().unwrap_or_default();
        let context = RequestContext {
            revision,
            declared: ClientCapabilities::parse(&capabilities),
            ..context.clone()
        };
        let result =
            InitializeResult::new(capabilities_in_revision(revision, self.handler.declares(&context)))
                .with_protocol_version(revision.to_protocol_version())
                .with_server_info(server_info())
                .with_instructions(self.handler.instructions(&context));
        let settings = AgreedSettings { revision, declared: context.declared, log_level: context.log_level };
        Ok((Response::of(&result), Some(SettingsChange::Handshake(settings))))
    }

    fn discover(&self, context: &RequestContext, declared: ServerCapabilities) -> Response {
        let mut result =
            DiscoverResult::new(Revision::ALL.map(Revision::to_protocol_version).to_vec(), declared);
        result.instructions = Some(self.handler.instructions(context).to_owned());
        Response::of(&result).cached(LONG_TTL_MS, CacheScope::Public)
    }

    /// Rejects a cursor, because each list has only one page.
    fn reject_cursor(&self, message: &Message) -> Result<(), Refusal> {
        match message.params.text("cursor") {
            None => Ok(()),
            Some(_) => Err(Refusal::params("the cursor is invalid: this list has only one page")),
        }
    }
}

/// Parameters of a method on one resource.
#[derive(Deserialize)]
struct ResourceParams {
    uri: String,
}

/// Parameters of `logging/setLevel`.
#[derive(Deserialize)]
struct SetLevelParams {
    level: LogLevel,
}

/// Parameters of `completion/complete`.
#[derive(Deserialize)]
struct CompletionParams {
    #[serde(rename = "ref")]
    of: CompletionReference,
    argument: ArgumentInfo,
}

/// Prompt or resource template whose argument the server completes.
#[derive(Deserialize)]
struct CompletionReference {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    name: Value,
    #[serde(default)]
    uri: Value,
}

impl CompletionReference {
    fn to_reference(&self) -> Result<Reference, Refusal> {
        match (self.kind.as_str(), self.name.as_str(), self.uri.as_str()) {
            ("ref/prompt", Some(name), _) => Ok(Reference::for_prompt(name)),
            ("ref/resource", _, Some(uri)) => Ok(Reference::for_resource(uri)),
            _ => Err(Refusal::params(
                "the ref of completion/complete must be of the type ref/prompt, with a name, or \
                 ref/resource, with a uri",
            )),
        }
    }
}

/// Parameters of `subscriptions/listen`.
#[derive(Deserialize)]
struct SubscriptionParams {
    notifications: SubscriptionFilter,
}

fn server_info() -> Implementation {
    Implementation::new("svc", env!("CARGO_PKG_VERSION")).with_title("Agent Collaboration Service")
}

fn has_subscriptions(declared: &ServerCapabilities) -> bool {
    declared.resources.as_ref().is_some_and(|resources| resources.subscribe == Some(true))
}

/// Returns the declared capabilities that a revision defines.
fn capabilities_in_revision(revision: Revision, declared: ServerCapabilities) -> ServerCapabilities {
    let completions = declared.completions.clone().filter(|_| revision.has_completions());
    let mut known = declared;
    known.completions = completions;
    known
}

fn called_tool(message: &Message) -> Option<Cow<'_, str>> {
    (message.method == "tools/call").then(|| message.params.string("name")).flatten()
}

fn parse_call(message: &Arc<Message>) -> Result<Call, Refusal> {
    let Some(name) = called_tool(message) else {
        let error = message.params.read::<String>("name").err();
        return Err(Refusal::params(match error.as_ref().and_then(invalid_character_message) {
            Some(fault) => format!("the name of the tool: {fault}"),
            None => "the params of tools/call need the name of a tool, a string".to_owned(),
        }));
    };
    let arguments = match message.params.text("arguments") {
        None => Default::default(),
        Some(text) if text.starts_with(b"{") => text.clone(),
        Some(_) => return Err(Refusal::params("the arguments of tools/call must be an object")),
    };
    Ok(Call { name: name.into_owned(), arguments, message: Arc::clone(message) })
}

/// Parses the parameters `names` of a message.
fn parse_params<T: DeserializeOwned>(message: &Message, names: &[&str]) -> Result<T, Refusal> {
    message.params.read_members(names).map_err(|error| {
        Refusal::params(format!(
            "the params of {} are invalid: {}",
            message.method,
            describe_json_error(&error)
        ))
    })
}

/// Describes a JSON error in the terms of JSON instead of the terms of Rust.
fn describe_json_error(error: &serde_json::Error) -> String {
    if let Some(fault) = invalid_character_message(error) {
        return fault.to_owned();
    }
    let text = error.to_string();
    let mut said = text.rsplit_once(" at line ").map_or(text.as_str(), |(said, _)| said).to_owned();
    for (of_rust, of_json) in [
        ("missing field ", "a member is missing: "),
        ("unknown variant ", "no such value: "),
        ("expected a sequence", "an array was expected"),
        ("expected a map", "an object was expected"),
        ("expected struct", "an object was expected:"),
        ("expected a string", "a string was expected"),
        ("invalid type: sequence", "an array"),
        ("invalid type: map", "an object"),
        ("invalid type: ", ""),
        ("expected variant identifier", "a name was expected"),
    ] {
        said = said.replace(of_rust, of_json);
    }
    said
}
