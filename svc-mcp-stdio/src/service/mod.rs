//! Implements the MCP handler for a service, whose operations are the tools.
//!
//! A caller's capabilities and tool filter determine which tools the caller sees. The core authorises each
//! call.

mod tool_result;
mod approvals;
mod tools;
mod operation_calls;
mod resources;
mod prompts;
mod completion;
mod watch;
mod subscriptions;

use std::sync::OnceLock;

use futures_util::future::BoxFuture;
use rmcp::model::{
    CompleteRequestParams, GetPromptRequestParams, RequestId, ServerCapabilities, SubscriptionFilter,
};
use serde_json::{Map, Value};
use svc_core::op::mcp;
use svc_core::{Code, Error, Service};

use crate::catalogue::{Catalogue, CatalogueEntry, ToolAudience, ToolShape};
use crate::handler::{Call, CallProperties, Handler, Outcome};
use crate::notifier::Notifier;
use crate::refusal::Refusal;
use crate::request_context::RequestContext;
use crate::response::{CacheScope, LONG_TTL_MS, Response};
use crate::tool_filter::PARTIAL_INSTRUCTIONS;
use approvals::Approvals;
pub use subscriptions::NotificationPart;

/// Handles MCP methods with the operations of one service.
pub(crate) struct ServiceHandler {
    service: Service,
    catalogue: OnceLock<Catalogue>,
    approvals: OnceLock<Approvals>,
}

impl ServiceHandler {
    /// Creates the handler for a service.
    pub fn new(service: Service) -> Self {
        Self { service, catalogue: OnceLock::new(), approvals: OnceLock::new() }
    }

    /// Returns the catalogue of tools, which is built when it is first used.
    fn catalogue(&self) -> &Catalogue {
        self.catalogue.get_or_init(|| Catalogue::from_table(self.service.table()))
    }

    /// Returns the codecs for the state of approvals, which are created when they are first used.
    fn approvals(&self) -> &Approvals {
        self.approvals.get_or_init(|| Approvals::new(&self.service))
    }

    async fn list(&self, context: &RequestContext) -> Outcome {
        let is_profile = context.view.profile().is_some();
        let held = match is_profile {
            true => None,
            false => Some(context.principal.capabilities(&self.service).await?),
        };
        let audience = ToolAudience {
            capabilities: held,
            is_anonymous: context.principal.is_anonymous(),
            view: context.view.clone(),
            shape: ToolShape::for_client(context.revision, context.declared.cards),
        };
        let list = self.catalogue().list(audience);
        let is_for_all =
            is_profile && context.view.depends_only_on_path() && !context.principal.is_anonymous();
        let scope = if is_for_all { CacheScope::Public } else { CacheScope::Private };
        Ok(Response::from_last_member(list).cached(LONG_TTL_MS, scope))
    }
}

impl Handler for ServiceHandler {
    fn declares(&self, context: &RequestContext) -> ServerCapabilities {
        let mut declared = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_prompts()
            .enable_completions()
            .build();
        declared.logging = Some(Map::new());
        if let Some(resources) = declared.resources.as_mut().filter(|_| context.revision.has_handshake()) {
            // In later revisions, clients subscribe with a method that needs no capability.
            resources.subscribe = Some(true);
        }
        declared
    }

    fn instructions(&self, context: &RequestContext) -> &'static str {
        if context.principal.is_anonymous() { PARTIAL_INSTRUCTIONS } else { context.view.instructions() }
    }

    fn call_properties(&self, tool: &str) -> CallProperties {
        let entry = self.catalogue().entry(tool);
        entry.map(|entry| call_properties_of(entry)).unwrap_or_default()
    }

    fn call_properties_of_repeated_call(&self, tool: &str) -> CallProperties {
        let properties = self.call_properties(tool);
        if tool == approvals::APPROVAL_TOOL {
            CallProperties { waits: true, ..properties }
        } else {
            properties
        }
    }

    fn input_schema(&self, _: &str) -> Option<&Value> {
        // No header repeats an argument of this service's tools.
        None
    }

    fn tools<'a>(&'a self, context: &'a RequestContext) -> BoxFuture<'a, Outcome> {
        Box::pin(self.list(context))
    }

    fn call<'a>(
        &'a self,
        context: &'a RequestContext,
        call: Call,
        notifier: &'a Notifier,
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(self.call_tool(context, call, notifier))
    }

    fn resources<'a>(&'a self, context: &'a RequestContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            if let Some(connection) = context.connection.as_ref().filter(|_| context.revision.has_handshake())
            {
                // A caller that may not subscribe to the log can still list the resources.
                let _ = self.start_connection_watch(connection, &context.principal).await;
            }
            self.list_resources(context).await
        })
    }

    fn templates<'a>(&'a self, _: &'a RequestContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async { Ok(resources::templates()) })
    }

    fn read<'a>(&'a self, context: &'a RequestContext, uri: String) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.read_resource(context, &uri).await })
    }

    fn prompts<'a>(&'a self, context: &'a RequestContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { Ok(self.list_prompts(&context.view)) })
    }

    fn prompt<'a>(
        &'a self,
        context: &'a RequestContext,
        params: GetPromptRequestParams,
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.get_prompt(context, &params).await })
    }

    fn complete<'a>(
        &'a self,
        context: &'a RequestContext,
        params: CompleteRequestParams,
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.complete_argument(context, &params).await })
    }

    fn subscribe<'a>(
        &'a self,
        context: &'a RequestContext,
        uri: String,
        is_wanted: bool,
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.set_subscription(context, &uri, is_wanted).await })
    }

    fn listen<'a>(
        &'a self,
        context: &'a RequestContext,
        id: &'a RequestId,
        filter: SubscriptionFilter,
        notifier: &'a Notifier,
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(self.listen_for_changes(context, id, filter, notifier))
    }

    fn refuse<'a>(&'a self, context: &'a RequestContext, refusal: Refusal) -> BoxFuture<'a, Refusal> {
        Box::pin(async move {
            let error = Error::malformed(refusal.message().to_owned());
            let error = context.principal.refuse(&self.service, error).await;
            match error.code() {
                Code::Malformed => refusal,
                _ => Refusal::from_error(error),
            }
        })
    }
}

/// Returns how a transport must treat a call of a tool.
fn call_properties_of(entry: &CatalogueEntry) -> CallProperties {
    CallProperties { waits: entry.is_wait(), changes: entry.is_change() }
}

/// Returns the outcome of a tool call that the operation has refused.
fn refusal_outcome(tool: &str, error: Error) -> Outcome {
    match mcp::error_form(error.code()) {
        mcp::ErrorForm::Error(_) => Err(Refusal::from_error(error)),
        mcp::ErrorForm::Result => Ok(tool_result::refused_call(tool, &error)),
    }
}
