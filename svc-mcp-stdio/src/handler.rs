//! The handler of a server's methods, independent of the transport.
//!
//! The service is one handler (`service`); a test suite may use another one.

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

/// The outcome of a request.
pub type Outcome = Result<Response, Refusal>;

/// A call of a tool.
#[derive(Clone, Debug)]
pub struct Call {
    /// The name of the tool.
    pub name: String,
    /// Its arguments, unparsed; empty if there are none.
    pub arguments: Bytes,
    /// The parameters of the call.
    pub message: Arc<Message>,
}

/// How a transport must treat a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallProperties {
    /// The call may be parked.
    pub waits: bool,
    /// The call may change data, so it must not run twice.
    pub changes: bool,
}

/// Limit on the bytes of a message that listens, which names up to 100 addresses.
const LISTEN_MAX_BYTES: usize = 16 << 10;

impl CallProperties {
    /// Checks the size of a message, which is kept while it waits.
    pub fn check_size(self, message: &Message) -> svc_core::Result<()> {
        let most = if message.method == "tools/call" { WAIT_INPUT_MAX_BYTES } else { LISTEN_MAX_BYTES };
        if !self.waits || message.size <= most {
            return Ok(());
        }
        let detail = format!("the message of a wait is larger than {most} bytes");
        Err(Error::new(Code::BodyTooLarge, detail))
    }
}

/// The handler of a server's methods.
///
/// A method of an undeclared capability is never called.
pub trait Handler: Send + Sync {
    /// Returns the declared capabilities.
    fn declares(&self, context: &RequestContext) -> ServerCapabilities;

    /// Returns the server's instructions for agents.
    fn instructions(&self, context: &RequestContext) -> &'static str;

    /// Returns how to treat a call of this tool.
    fn manner(&self, tool: &str) -> CallProperties;

    /// Returns how to treat a call that continues one which was answered by asking for input.
    fn manner_of_next(&self, tool: &str) -> CallProperties {
        self.manner(tool)
    }

    /// Returns the schema of a tool's arguments, for headers that repeat them, or `None` if none does.
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

    /// Lists the templates of resources.
    fn templates<'a>(&'a self, context: &'a RequestContext) -> BoxFuture<'a, Outcome>;

    /// Reads a resource.
    fn read<'a>(&'a self, context: &'a RequestContext, uri: String) -> BoxFuture<'a, Outcome>;

    /// Lists the prompts.
    fn prompts<'a>(&'a self, context: &'a RequestContext) -> BoxFuture<'a, Outcome>;

    /// Returns a prompt.
    fn prompt<'a>(
        &'a self,
        context: &'a RequestContext,
        params: GetPromptRequestParams,
    ) -> BoxFuture<'a, Outcome>;

    /// Completes an argument of a prompt or a template.
    fn complete<'a>(
        &'a self,
        context: &'a RequestContext,
        params: CompleteRequestParams,
    ) -> BoxFuture<'a, Outcome>;

    /// Subscribes to a resource, or ends the subscription.
    fn subscribe<'a>(
        &'a self,
        context: &'a RequestContext,
        uri: String,
        is_wanted: bool,
    ) -> BoxFuture<'a, Outcome>;

    /// Sends notifications of changes until the client leaves: the subscription `id` of revision 2026-07-28.
    fn listen<'a>(
        &'a self,
        context: &'a RequestContext,
        id: &'a RequestId,
        filter: SubscriptionFilter,
        notifier: &'a Notifier,
    ) -> BoxFuture<'a, Outcome>;

    /// Returns the refusal of a request that has reached no operation; the caller's credential may change it.
    fn refuse<'a>(&'a self, context: &'a RequestContext, refusal: Refusal) -> BoxFuture<'a, Refusal>;
}
