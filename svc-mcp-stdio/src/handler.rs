//! Defines the handler of a server's MCP methods, independent of the transport.
//!
//! The module `service` contains one implementation; a test suite may use another implementation.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use rmcp::model::{
    CompleteRequestParams, GetPromptRequestParams, RequestId, ServerCapabilities, SubscriptionFilter,
};

use svc_core::limits::WAIT_INPUT_MAX_BYTES;
use svc_core::{Code, Error};

use crate::notifier::Notifier;
use crate::refusal::Refusal;
use crate::request_context::RequestContext;
use crate::response::Response;
use crate::wire::Message;

/// Outcome of an MCP request: a result or a refusal.
pub type Outcome = Result<Response, Refusal>;

/// Tool call of a `tools/call` request.
#[derive(Clone, Debug)]
pub struct Call {
    /// Name of the tool.
    pub name: String,
    /// Arguments of the call as unparsed JSON; empty if the call has no arguments.
    pub arguments: Bytes,
    /// Message of the call, which contains further parameters.
    pub message: Arc<Message>,
}

/// Properties of a call that determine how a transport must treat it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallProperties {
    /// Whether the call may be parked.
    pub waits: bool,
    /// Whether the call may change data, so that it must not run twice.
    pub changes: bool,
}

/// Maximum bytes of a `subscriptions/listen` message, which contains up to 100 addresses.
const LISTEN_MAX_BYTES: usize = 16 << 10;

impl CallProperties {
    /// Fails if the message of a wait is too large to be kept in memory while the call is parked.
    pub fn check_size(self, message: &Message) -> svc_core::Result<()> {
        let most = if message.method == "tools/call" { WAIT_INPUT_MAX_BYTES } else { LISTEN_MAX_BYTES };
        if !self.waits || message.size <= most {
            return Ok(());
        }
        let detail = format!("the message of a wait is larger than {most} bytes");
        Err(Error::new(Code::BodyTooLarge, detail))
    }
}

/// Handles the methods of an MCP server.
///
/// A router calls a method only if the handler declares the method's capability.
pub trait Handler: Send + Sync {
    /// Returns the capabilities that the server declares.
    fn declares(&self, context: &RequestContext) -> ServerCapabilities;

    /// Returns the server's instructions for agents.
    fn instructions(&self, context: &RequestContext) -> &'static str;

    /// Returns how a transport must treat a call of this tool.
    fn call_properties(&self, tool: &str) -> CallProperties;

    /// Returns how a transport must treat a repeated call, which contains the input that the first call
    /// requested.
    fn call_properties_of_repeated_call(&self, tool: &str) -> CallProperties {
        self.call_properties(tool)
    }

    /// Returns the schema of a tool's arguments, or `None` if no header repeats an argument.
    fn input_schema(&self, tool: &str) -> Option<&serde_json::Value>;

    /// Lists the tools that the client sees.
    fn tools<'a>(&'a self, context: &'a RequestContext) -> BoxFuture<'a, Outcome>;

    /// Calls a tool and returns the result.
    fn call<'a>(
        &'a self,
        context: &'a RequestContext,
        call: Call,
        notifier: &'a Notifier,
    ) -> BoxFuture<'a, Outcome>;

    /// Lists the resources that the caller sees.
    fn resources<'a>(&'a self, context: &'a RequestContext) -> BoxFuture<'a, Outcome>;

    /// Lists the resource templates.
    fn templates<'a>(&'a self, context: &'a RequestContext) -> BoxFuture<'a, Outcome>;

    /// Reads the resource at an address.
    fn read<'a>(&'a self, context: &'a RequestContext, uri: String) -> BoxFuture<'a, Outcome>;

    /// Lists the prompts that the client sees.
    fn prompts<'a>(&'a self, context: &'a RequestContext) -> BoxFuture<'a, Outcome>;

    /// Returns the text of a prompt with the arguments filled in.
    fn prompt<'a>(
        &'a self,
        context: &'a RequestContext,
        params: GetPromptRequestParams,
    ) -> BoxFuture<'a, Outcome>;

    /// Completes an argument of a prompt or of a resource template.
    fn complete<'a>(
        &'a self,
        context: &'a RequestContext,
        params: CompleteRequestParams,
    ) -> BoxFuture<'a, Outcome>;

    /// Subscribes the client to a resource, or ends the subscription.
    fn subscribe<'a>(
        &'a self,
        context: &'a RequestContext,
        uri: String,
        is_wanted: bool,
    ) -> BoxFuture<'a, Outcome>;

    /// Sends notifications of changes for the subscription `id` until the client disconnects. Only revision
    /// 2026-07-28 has such subscriptions.
    fn listen<'a>(
        &'a self,
        context: &'a RequestContext,
        id: &'a RequestId,
        filter: SubscriptionFilter,
        notifier: &'a Notifier,
    ) -> BoxFuture<'a, Outcome>;

    /// Returns the refusal of a request that has not reached an operation. If the caller's credential has
    /// ended, the refusal reports that instead.
    fn refuse<'a>(&'a self, context: &'a RequestContext, refusal: Refusal) -> BoxFuture<'a, Refusal>;
}
