//! Defines the handler of a server's MCP methods, independent of the transport.
//!
//! The service is one implementation (`service`); a test suite may use another.

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

/// Outcome of a request.
pub type Outcome = Result<Response, Refusal>;

/// A `tools/call` request.
#[derive(Clone, Debug)]
pub struct Call {
    /// Name of the tool.
    pub name: String,
    /// Arguments of the call, unparsed; empty if there are none.
    pub arguments: Bytes,
    /// Message of the call, for its other parameters.
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

/// Maximum bytes of a `subscriptions/listen` message, which names up to 100 addresses.
const LISTEN_MAX_BYTES: usize = 16 << 10;

impl CallProperties {
    /// Checks the size of a message that is kept in memory while it waits.
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
/// A method is called only if its capability is declared.
pub trait Handler: Send + Sync {
    /// Returns the capabilities that the server declares.
    fn declares(&self, context: &RequestContext) -> ServerCapabilities;

    /// Returns the server's instructions for agents.
    fn instructions(&self, context: &RequestContext) -> &'static str;

    /// Returns how a transport must treat a call of this tool.
    fn manner(&self, tool: &str) -> CallProperties;

    /// Returns how a transport must treat a repeated call that brings the input which the first call
    /// requested.
    fn manner_of_next(&self, tool: &str) -> CallProperties {
        self.manner(tool)
    }

    /// Returns the schema of a tool's arguments, or `None` if no header repeats an argument.
    fn input_schema(&self, tool: &str) -> Option<&serde_json::Value>;

    /// Lists the tools.
    fn tools<'a>(&'a self, context: &'a RequestContext) -> BoxFuture<'a, Outcome>;

    /// Calls a tool.
    fn call<'a>(
        &'a self,
        context: &'a RequestContext,
        call: Call,
        notifier: &'a Notifier,
    ) -> BoxFuture<'a, Outcome>;

    /// Lists the resources.
    fn resources<'a>(&'a self, context: &'a RequestContext) -> BoxFuture<'a, Outcome>;

    /// Lists the resource templates.
    fn templates<'a>(&'a self, context: &'a RequestContext) -> BoxFuture<'a, Outcome>;

    /// Reads the resource at an address.
    fn read<'a>(&'a self, context: &'a RequestContext, uri: String) -> BoxFuture<'a, Outcome>;

    /// Lists the prompts.
    fn prompts<'a>(&'a self, context: &'a RequestContext) -> BoxFuture<'a, Outcome>;

    /// Returns a prompt with its arguments filled in.
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

    /// Sends notifications of changes until the client disconnects, for the subscription `id` of revision
    /// 2026-07-28.
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
