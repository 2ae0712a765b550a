//! The service as a handler: its operations are the tools.
//!
//! The capabilities and the tool filter of a caller determine which tools it sees. The core authorises each
//! call.

mod told;
mod approvals;
mod tools;
mod asking;
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

use crate::answered::{Answered, LONG_TTL_MS, Scope};
use crate::asked::Asked;
use crate::catalogue::{Audience, Catalogue, Entry, Shape};
use crate::offer::{Call, Manner, Offer, Outcome};
use crate::outlet::Outlet;
use crate::refusal::Refusal;
use crate::view::INSTRUCTIONS_OF_SOME;
use approvals::Approvals;
pub use subscriptions::Told;

/// The handler of one service.
pub(crate) struct ServiceOffer {
    service: Service,
    catalogue: OnceLock<Catalogue>,
    approvals: OnceLock<Approvals>,
}

impl ServiceOffer {
    /// Creates the handler of a service's operations.
    pub fn new(service: Service) -> Self {
        Self { service, catalogue: OnceLock::new(), approvals: OnceLock::new() }
    }

    /// Returns the tools, which are encoded at their first use.
    fn catalogue(&self) -> &Catalogue {
        self.catalogue.get_or_init(|| Catalogue::of(self.service.table()))
    }

    /// Returns the state of approvals, created when one is first decided: each watch has a separate handler.
    fn approvals(&self) -> &Approvals {
        self.approvals.get_or_init(|| Approvals::new(&self.service))
    }

    async fn list(&self, asked: &Asked) -> Outcome {
        let is_profile = asked.view.profile().is_some();
        let held = match is_profile {
            true => None,
            false => Some(asked.principal.capabilities(&self.service).await?),
        };
        let audience = Audience {
            held,
            is_anonymous: asked.principal.is_anonymous(),
            view: asked.view.clone(),
            shape: Shape::for_client(asked.revision, asked.declared.cards),
        };
        let list = self.catalogue().list(audience);
        let is_for_all = is_profile && asked.view.is_of_path() && !asked.principal.is_anonymous();
        let scope = if is_for_all { Scope::Public } else { Scope::Private };
        Ok(Answered::shared(list).cached(LONG_TTL_MS, scope))
    }
}

impl Offer for ServiceOffer {
    fn declares(&self, asked: &Asked) -> ServerCapabilities {
        let mut declared = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_prompts()
            .enable_completions()
            .build();
        declared.logging = Some(Map::new());
        if let Some(resources) = declared.resources.as_mut().filter(|_| asked.revision.has_handshake()) {
            // Later revisions subscribe by a method that is not a capability.
            resources.subscribe = Some(true);
        }
        declared
    }

    fn instructions(&self, asked: &Asked) -> &'static str {
        if asked.principal.is_anonymous() { INSTRUCTIONS_OF_SOME } else { asked.view.instructions() }
    }

    fn manner(&self, tool: &str) -> Manner {
        let entry = self.catalogue().entry(tool);
        entry.map(|entry| manner_of(entry)).unwrap_or_default()
    }

    fn manner_of_next(&self, tool: &str) -> Manner {
        let manner = self.manner(tool);
        if tool == approvals::TOOL { Manner { waits: true, ..manner } } else { manner }
    }

    fn input_schema(&self, _: &str) -> Option<&Value> {
        // No header repeats an argument of these tools.
        None
    }

    fn tools<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, Outcome> {
        Box::pin(self.list(asked))
    }

    fn call<'a>(&'a self, asked: &'a Asked, call: Call, outlet: &'a Outlet) -> BoxFuture<'a, Outcome> {
        Box::pin(self.call_tool(asked, call, outlet))
    }

    fn resources<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            if let Some(connection) = asked.connection.as_ref().filter(|_| asked.revision.has_handshake()) {
                // A caller that may not follow the log can still read the list.
                let _ = self.watch_for(connection, &asked.principal).await;
            }
            self.list_resources(asked).await
        })
    }

    fn templates<'a>(&'a self, _: &'a Asked) -> BoxFuture<'a, Outcome> {
        Box::pin(async { Ok(resources::templates()) })
    }

    fn read<'a>(&'a self, asked: &'a Asked, uri: String) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.read_resource(asked, &uri).await })
    }

    fn prompts<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { Ok(self.list_prompts(&asked.view)) })
    }

    fn prompt<'a>(&'a self, asked: &'a Asked, params: GetPromptRequestParams) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.get_prompt(asked, &params).await })
    }

    fn complete<'a>(&'a self, asked: &'a Asked, params: CompleteRequestParams) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.complete_argument(asked, &params).await })
    }

    fn subscribe<'a>(&'a self, asked: &'a Asked, uri: String, is_wanted: bool) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.set_subscription(asked, &uri, is_wanted).await })
    }

    fn listen<'a>(
        &'a self,
        asked: &'a Asked,
        id: &'a RequestId,
        filter: SubscriptionFilter,
        outlet: &'a Outlet,
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(self.listen_for(asked, id, filter, outlet))
    }

    fn refuse<'a>(&'a self, asked: &'a Asked, refusal: Refusal) -> BoxFuture<'a, Refusal> {
        Box::pin(async move {
            let error = Error::malformed(refusal.message().to_owned());
            let error = asked.principal.refuse(&self.service, error).await;
            match error.code() {
                Code::Malformed => refusal,
                _ => Refusal::of(error),
            }
        })
    }
}

/// Returns how to treat a call of a tool.
fn manner_of(entry: &Entry) -> Manner {
    Manner { waits: entry.waits(), changes: entry.changes() }
}

/// Returns the outcome of a call that an operation has refused.
fn refused(tool: &str, error: Error) -> Outcome {
    match mcp::error_form(error.code()) {
        mcp::ErrorForm::Error(_) => Err(Refusal::of(error)),
        mcp::ErrorForm::Result => Ok(told::refusal(tool, &error)),
    }
}
