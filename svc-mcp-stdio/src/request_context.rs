//! Determines the context of a request: the caller, and the settings from the message and from earlier
//! messages.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::ProgressToken;
use serde::Deserialize as _;
use serde_json::Value;
use svc_core::op::IdempotencyKey;
use svc_core::op::mcp::IDEMPOTENCY_KEY;

use crate::connection::Connection;
use crate::log_level::LogLevel;
use crate::principal::Principal;
use crate::refusal::{Fault, Refusal};
use crate::revision::Revision;
use crate::tool_filter::ToolFilter;
use crate::wire::{self, Members, Message};

const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const PROGRESS_TOKEN: &str = "progressToken";

/// Name of the extension that a client declares if it shows cards.
const UI_EXTENSION: &str = "io.modelcontextprotocol/ui";

/// Capabilities of a client that affect responses.
///
/// This type is small because sessions store it, while the declaration of a client may be large.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCapabilities {
    /// Whether the client shows cards.
    pub cards: bool,
    /// Whether the client can ask its user for input.
    pub elicitation: bool,
    /// Whether the client can open links for its user.
    pub links: bool,
    /// Whether the client can query its model.
    pub sampling: bool,
}

impl ClientCapabilities {
    /// Parses the declared capabilities of a client. A capability of the wrong type is treated as not
    /// declared.
    pub fn parse(capabilities: &Value) -> Self {
        let is_declared = |path: &str| capabilities.pointer(path).is_some_and(Value::is_object);
        let extensions = capabilities.get("extensions").and_then(Value::as_object);
        Self {
            cards: extensions.is_some_and(|extensions| extensions.contains_key(UI_EXTENSION)),
            elicitation: is_declared("/elicitation"),
            links: is_declared("/elicitation/url"),
            sampling: is_declared("/sampling"),
        }
    }
}

/// Settings that apply to all messages of a connection or of an HTTP request.
#[derive(Clone, Copy, Debug)]
pub struct AgreedSettings {
    /// Revision of messages that contain no revision.
    pub revision: Revision,
    /// Capabilities that the client has declared.
    pub declared: ClientCapabilities,
    /// Minimum level of log messages to send; `None` if the client has set no level.
    pub log_level: Option<LogLevel>,
}

impl AgreedSettings {
    /// Returns the default settings for a revision, before the first message of a connection.
    pub fn for_revision(revision: Revision) -> Self {
        Self { revision, declared: ClientCapabilities::default(), log_level: None }
    }

    /// Returns the same settings for a client that shows cards.
    #[must_use]
    pub fn with_cards(mut self) -> Self {
        self.declared.cards = true;
        self
    }
}

/// Change of the settings that a request makes for later requests.
#[derive(Clone, Copy, Debug)]
pub enum SettingsChange {
    /// All settings, from a handshake.
    Handshake(AgreedSettings),
    /// Minimum level of log messages that the client wants.
    Level(LogLevel),
}

impl SettingsChange {
    /// Returns the settings after this change.
    #[must_use]
    pub fn apply_to(self, settings: AgreedSettings) -> AgreedSettings {
        match self {
            Self::Handshake(settings) => settings,
            Self::Level(level) => AgreedSettings { log_level: Some(level), ..settings },
        }
    }
}

/// Caller and settings of a request.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// Caller of the request.
    pub principal: Principal,
    /// Tools that are shown to the client.
    pub view: ToolFilter,
    /// Revision of the request.
    pub revision: Revision,
    /// Capabilities that the client has declared.
    pub declared: ClientCapabilities,
    /// Minimum level of log messages that the client wants.
    pub log_level: Option<LogLevel>,
    /// Token for progress notifications.
    pub progress: Option<ProgressToken>,
    /// Idempotency key as JSON; `None` if the client sent no key.
    pub(crate) key: Option<Box<str>>,
    /// Connection of the request; `None` if the connection does not stay open between requests.
    pub connection: Option<Arc<Connection>>,
}

impl RequestContext {
    /// Creates the context from the `_meta` of a message and the settings from earlier messages.
    ///
    /// Members of `_meta` that determine how a request is answered must be valid. Invalid members that only
    /// add to the answer, such as a progress token, are ignored.
    pub fn from_message(
        message: &Message,
        settings: &AgreedSettings,
        principal: Principal,
        view: ToolFilter,
    ) -> Result<Self, Refusal> {
        let meta = message.params.members("_meta").map_err(|_| {
            malformed_member("_meta", "an object with at most 64 members and without duplicates")
        })?;
        let revision = request_revision(&meta, settings, &message.method)?;
        let mut context = Self {
            principal,
            view,
            revision,
            declared: settings.declared,
            log_level: settings.log_level,
            progress: None,
            key: meta.text(IDEMPOTENCY_KEY).map(Box::from),
            connection: None,
        };
        context.progress = meta.text(PROGRESS_TOKEN).and_then(wire::parse_request_id).map(ProgressToken);
        if revision.is_stateless() {
            let value =
                |name: &str| meta.text(name).and_then(|text| serde_json::from_str::<Value>(text).ok());
            context.declared = ClientCapabilities::parse(
                &value(CLIENT_CAPABILITIES).ok_or_else(|| missing_member(CLIENT_CAPABILITIES))?,
            );
            context.log_level = value(LOG_LEVEL).and_then(|level| LogLevel::deserialize(level).ok());
        }
        Ok(context)
    }

    /// Returns the idempotency key of the request, or `None` if the request has no key.
    pub fn idempotency_key(&self) -> Result<Option<IdempotencyKey>, Refusal> {
        let Some(json) = &self.key else { return Ok(None) };
        let key = serde_json::from_str::<Cow<'_, str>>(json).ok();
        let key = key.and_then(|key| IdempotencyKey::parse(&key).ok());
        key.map(Some).ok_or_else(|| malformed_member(IDEMPOTENCY_KEY, IdempotencyKey::EXPECTED))
    }

    /// Returns whether the client wants log messages of this level.
    pub fn logs(&self, level: LogLevel) -> bool {
        self.log_level.is_some_and(|from| from <= level)
    }
}

/// Returns the date of the revision in the metadata of a message, or `None` if the metadata contains none.
pub fn stated_revision(message: &Message) -> Option<String> {
    serde_json::from_str(message.params.members("_meta").ok()?.text(PROTOCOL_VERSION)?).ok()
}

/// Determines the revision of a request from the `_meta` of the message, or else from the agreed settings.
fn request_revision(
    meta: &Members<'_>,
    settings: &AgreedSettings,
    method: &str,
) -> Result<Revision, Refusal> {
    match meta.text(PROTOCOL_VERSION) {
        Some(date) => match serde_json::from_str::<Cow<'_, str>>(date) {
            Ok(date) => Revision::from_date(&date).ok_or_else(|| Refusal::revision(&date)),
            Err(_) => Err(malformed_member(PROTOCOL_VERSION, "a string")),
        },
        // `server/discover` exists only in revisions in which each request contains its revision.
        None if settings.revision.is_stateless() || method == "server/discover" => {
            Err(missing_member(PROTOCOL_VERSION))
        }
        None => Ok(settings.revision),
    }
}

fn malformed_member(name: &str, wanted: &str) -> Refusal {
    Refusal::new(Fault::Meta, format!("the member {name} must be {wanted}"))
}

fn missing_member(name: &str) -> Refusal {
    Refusal::new(Fault::Meta, format!("the member _meta has no {name}, which this revision needs"))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};
    use svc_core::op::RequestHead;

    use super::*;
    use crate::wire::Payload;

    fn context(meta: &Value, agreed: Revision) -> Result<RequestContext, Fault> {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"_meta": meta}});
        let Ok(Payload::One(message)) = wire::parse_payload(&Bytes::from(message.to_string())) else {
            panic!()
        };
        let principal = Principal::new(RequestHead::default());
        RequestContext::from_message(
            &message,
            &AgreedSettings::for_revision(agreed),
            principal,
            ToolFilter::default(),
        )
        .map_err(|refusal| refusal.fault)
    }

    fn modern(more: &Value) -> Value {
        let mut meta = json!({PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {}});
        meta.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        meta
    }

    #[test]
    fn a_request_states_its_revision_or_is_of_the_agreed_one() {
        let revision = |meta: Value, agreed| context(&meta, agreed).map(|context| context.revision);
        assert_eq!(revision(Value::Null, Revision::V20250618), Ok(Revision::V20250618));
        assert_eq!(revision(modern(&json!({})), Revision::UNSTATED), Ok(Revision::V20260728));
        assert_eq!(revision(json!({}), Revision::V20260728), Err(Fault::Meta));
        assert_eq!(revision(json!({PROTOCOL_VERSION: 7}), Revision::UNSTATED), Err(Fault::Meta));
        let ahead = json!({PROTOCOL_VERSION: "2031-01-01"});
        assert_eq!(revision(ahead, Revision::UNSTATED), Err(Fault::Revision));
    }

    #[test]
    fn metadata_that_decides_is_rejected_if_it_is_malformed_and_other_is_passed_over() {
        let rejected = [
            json!({PROTOCOL_VERSION: "2026-07-28"}),
            json!({PROTOCOL_VERSION: 7}),
            json!({PROTOCOL_VERSION: ["2026-07-28"]}),
        ];
        for meta in rejected {
            assert_eq!(context(&meta, Revision::UNSTATED).map(drop), Err(Fault::Meta), "{meta}");
        }
        const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
        for meta in [
            json!([]),
            json!("x"),
            json!({PROGRESS_TOKEN: 1.5}),
            json!({PROGRESS_TOKEN: null}),
            json!({PROGRESS_TOKEN: {"a": 1}}),
            json!({LOG_LEVEL: 7, CLIENT_INFO: 7, CLIENT_CAPABILITIES: 7}),
            json!({"": [], "a/b": {"c": null}}),
            modern(&json!({CLIENT_CAPABILITIES: 7})),
            modern(&json!({CLIENT_CAPABILITIES: {"sampling": true, "elicitation": [], "extensions": "ui"}})),
            modern(&json!({CLIENT_INFO: {"name": "x"}})),
            modern(&json!({CLIENT_INFO: "x"})),
            modern(&json!({LOG_LEVEL: "loud"})),
            modern(&json!({LOG_LEVEL: ["info"]})),
        ] {
            let context = context(&meta, Revision::UNSTATED).unwrap();
            assert_eq!((context.declared, context.progress, context.log_level), Default::default(), "{meta}");
        }
    }

    #[test]
    fn log_messages_are_wanted_from_a_level_on() {
        let quiet = context(&modern(&json!({})), Revision::UNSTATED).unwrap();
        assert!(!quiet.logs(LogLevel::Emergency));
        let warned = context(&modern(&json!({LOG_LEVEL: "warning"})), Revision::UNSTATED).unwrap();
        assert!(warned.logs(LogLevel::Warning) && warned.logs(LogLevel::Error));
        assert!(!warned.logs(LogLevel::Debug));
    }

    #[test]
    fn cards_are_for_clients_that_declare_them() {
        let ui = json!({CLIENT_CAPABILITIES: {"extensions": {UI_EXTENSION: {"mimeTypes": []}}}});
        assert!(context(&modern(&ui), Revision::UNSTATED).unwrap().declared.cards);
        assert!(!context(&modern(&json!({})), Revision::UNSTATED).unwrap().declared.cards);
        assert!(AgreedSettings::for_revision(Revision::V20250618).with_cards().declared.cards);
    }
}
