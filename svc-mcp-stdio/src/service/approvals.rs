//! Handles approvals that need a person: the caller receives a link for a person, and calls the tool again
//! once the person has opened the link.
//!
//! A client that can open links receives an elicitation, as defined in revision 2026-07-28, and its next call
//! waits for the person's decision. A sealed state, which grants no rights, connects the two calls. Other
//! clients receive the gate with the link.

use std::collections::BTreeMap;
use std::sync::Arc;

use rmcp::model::{RequestStateCodec, SealOptions};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use svc_core::hash::sha256;
use svc_core::json::parse_with_limit;
use svc_core::op::{Input, Operation};
use svc_core::ops::follow_approval;
use svc_core::{Error, Result, Service};

use super::{ServiceHandler, refusal_outcome, tool_result};
use crate::handler::{Call, Outcome};
use crate::refusal::Refusal;
use crate::request_context::RequestContext;
use crate::response::Response;

/// Name of the tool that decides an approval gate.
pub(super) const APPROVAL_TOOL: &str = "approval_decide";
/// Maximum seconds that a call waits for the decision of a person.
pub(super) const DECISION_WAIT_SECS: u32 = 45;

const STATE_KEY_LABEL: &str = "svc.mcp-state/1";
/// Microseconds for which a sealed state is valid, within which the client must call again.
const STATE_LIFE_MICROS: i64 = 600 * 1_000_000;
/// Maximum JSON values in the arguments that a sealed state is bound to. Valid calls contain only a few.
const ARGUMENT_VALUES_MAX: usize = 1000;
/// Name of the elicitation in the request for input.
const ELICITATION_NAME: &str = "decision";

/// Codecs that seal the state of approvals between two calls.
pub(super) struct Approvals {
    follow_operation: Arc<Operation>,
    /// Codecs of all keys. The first codec seals new states; every codec can open states.
    codecs: Vec<RequestStateCodec>,
}

/// Content of a sealed state, without the data that the state is bound to.
#[derive(Serialize, Deserialize)]
struct State {
    gate: String,
    expires: i64,
}

/// Response of the client to the request to open the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConsentOutcome {
    /// The person has agreed to open the link.
    Opened,
    /// The person has declined to open the link.
    Refused,
    /// The response is missing or invalid.
    Missing,
}

impl Approvals {
    pub fn new(service: &Service) -> Self {
        let keys = service.derive_keys(STATE_KEY_LABEL).unwrap_or_default();
        let codecs = keys.iter().filter_map(|key| RequestStateCodec::try_new(key.to_vec()).ok()).collect();
        Self { follow_operation: Arc::new(follow_approval()), codecs }
    }

    fn seal(&self, state: &State, bound_to: &[u8]) -> Result<String> {
        let codec = self.codecs.first().ok_or_else(|| Error::internal("no key seals states"))?;
        let payload = serde_json::to_vec(state).map_err(Error::internal)?;
        Ok(codec.seal_with(&payload, &SealOptions::new().associated_data(bound_to)))
    }

    fn open(&self, sealed: &str, bound_to: &[u8]) -> Option<State> {
        let opened = self.codecs.iter().find_map(|codec| codec.open_with(sealed, bound_to).ok())?;
        serde_json::from_slice(&opened).ok()
    }
}

impl ServiceHandler {
    /// Continues a call to which the first answer was a link. Returns `None` if the operation must run again.
    ///
    /// Rejects a sealed state that was tampered with, is for another caller or call, or is too old.
    pub(super) async fn continue_decision(
        &self,
        context: &RequestContext,
        call: &Call,
    ) -> Result<Option<Outcome>> {
        let Some(sealed) = sealed_state(call) else { return Ok(None) };
        let bound_to = self.state_binding(context, call).await?;
        let state = sealed.as_deref().and_then(|sealed| self.approvals().open(sealed, &bound_to));
        let is_live = |state: &State| self.service.now().micros() < state.expires;
        let Some(state) = state.filter(is_live) else {
            return Ok(Some(Err(Refusal::params(
                "the requestState is for another call, or older than 10 minutes: send the call without it",
            ))));
        };
        let input = match consent_outcome(call) {
            ConsentOutcome::Opened => json!({"gate_id": state.gate, "timeout_secs": DECISION_WAIT_SECS}),
            ConsentOutcome::Refused => json!({"gate_id": state.gate}),
            ConsentOutcome::Missing => return Ok(None),
        };
        let gate = self.wait_for_decision(context, &input).await?;
        if gate.get("timed_out").is_some() {
            return Ok(None);
        }
        let output = gate.to_string();
        Ok(Some(Ok(tool_result::tool_output(
            APPROVAL_TOOL,
            output.as_bytes(),
            context,
            self.service.table(),
        ))))
    }

    /// Answers a call that failed with `error` because its gate needs a person.
    pub(super) async fn respond_with_link(
        &self,
        context: &RequestContext,
        call: &Call,
        error: Error,
    ) -> Outcome {
        let error = error.with_link_base(context.principal.address());
        match self.response_with_link(context, call, &error).await {
            Ok(answered) => Ok(answered),
            Err(error) => refusal_outcome(APPROVAL_TOOL, error),
        }
    }

    async fn response_with_link(
        &self,
        context: &RequestContext,
        call: &Call,
        error: &Error,
    ) -> Result<Response> {
        let link = error.problem().extra.remove("link").unwrap_or_default();
        let url = link.get("url").and_then(Value::as_str).unwrap_or_default();
        let gate_id = gate_id(call);
        // A client can open only a link that contains the URL of the service.
        let is_whole = !url.starts_with('/');
        if is_whole && can_open_links(context) {
            let expires = self.service.now().micros().saturating_add(STATE_LIFE_MICROS);
            let state = State { gate: gate_id, expires };
            let state = self.approvals().seal(&state, &self.state_binding(context, call).await?)?;
            let message = "A person must decide this approval. The page shows the request and the member \
                           who sent it, and has the buttons.";
            let question = json!({"method": "elicitation/create",
                                  "params": {"mode": "url", "message": message, "url": url}});
            let answer = json!({"inputRequests": {ELICITATION_NAME: question}, "requestState": state});
            return Ok(Response::of(&answer).into_input_request());
        }
        let mut gate = self.wait_for_decision(context, &json!({"gate_id": gate_id})).await?;
        let hint = link_hint(error.detail(), url, is_whole);
        if let Some(members) = gate.as_object_mut() {
            members.insert("link".to_owned(), link);
        }
        Ok(tool_result::output_with_hint(gate.to_string().as_bytes(), Some(&hint), context.revision))
    }

    /// Waits for the decision of a gate with the rights of the caller, and returns the gate.
    async fn wait_for_decision(&self, context: &RequestContext, input: &Value) -> Result<Value> {
        let input = Input::json(input.to_string());
        let reply =
            context.principal.request(&self.service, &self.approvals().follow_operation, &input).await;
        context.principal.record_lsn(reply.as_ref().map_or_else(Error::room_lsn, |reply| reply.lsn));
        serde_json::from_slice(&reply?.body()?).map_err(Error::internal)
    }

    /// Returns the data that a sealed state is bound to: the member, the tool and the arguments of the call.
    async fn state_binding(&self, context: &RequestContext, call: &Call) -> Result<Vec<u8>> {
        let member = context.principal.member(&self.service).await?;
        // The second call may contain the same arguments in another order.
        let arguments: BTreeMap<String, Value> = match parse_with_limit(&call.arguments, ARGUMENT_VALUES_MAX)
        {
            Ok(Value::Object(arguments)) => arguments.into_iter().collect(),
            // The operation refuses invalid arguments.
            _ => BTreeMap::new(),
        };
        let called = json!([call.name, arguments]).to_string();
        Ok([member.to_string().as_bytes(), &sha256(called.as_bytes())].concat())
    }
}

/// Returns whether the client can open links for its user.
fn can_open_links(context: &RequestContext) -> bool {
    context.revision.is_stateless() && context.declared.links
}

/// Returns the sealed state in a call, or `None` if the call contains no state. The inner value is `None` if
/// the state is not text.
fn sealed_state(call: &Call) -> Option<Option<String>> {
    let params = &call.message.params;
    params.text("requestState")?;
    Some(params.read("requestState").ok().flatten())
}

fn consent_outcome(call: &Call) -> ConsentOutcome {
    let responses: Option<Value> = call.message.params.read("inputResponses").ok().flatten();
    let action = responses.as_ref().and_then(|all| all.get(ELICITATION_NAME)?.get("action")?.as_str());
    match action {
        Some("accept") => ConsentOutcome::Opened,
        Some("decline" | "cancel") => ConsentOutcome::Refused,
        _ => ConsentOutcome::Missing,
    }
}

fn gate_id(call: &Call) -> String {
    let arguments: Value = serde_json::from_slice(&call.arguments).unwrap_or_default();
    arguments.get("gate_id").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the instructions for an agent that has received a link.
fn link_hint(detail: &str, url: &str, is_absolute: bool) -> String {
    let place = match is_absolute {
        true => "",
        false => {
            " Prepend the URL under which browsers reach this service, which the operator sets \
                  as SVC_PUBLIC_URL."
        }
    };
    format!(
        "The gate is not decided: {detail}. Give {url} to a person, who decides there.{place} \
         get_approval_gate returns the decision."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_opens_where_it_was_sealed() {
        let codec = |byte| RequestStateCodec::try_new(vec![byte; 32]).unwrap();
        let approvals = |codecs| Approvals { follow_operation: Arc::new(follow_approval()), codecs };
        let old = approvals(vec![codec(7)]);
        let sealed = old.seal(&State { gate: "g".to_owned(), expires: 4 }, b"ada").unwrap();
        let rotated = approvals(vec![codec(8), codec(7)]);
        for known in [&old, &rotated] {
            assert_eq!(
                known.open(&sealed, b"ada").map(|state| (state.gate, state.expires)),
                Some(("g".into(), 4))
            );
            assert!(known.open(&sealed, b"bob").is_none(), "another member");
            assert!(known.open(&format!("{sealed}A"), b"ada").is_none(), "tampered with");
        }
        assert!(approvals(vec![codec(8)]).open(&sealed, b"ada").is_none(), "another key");
        assert!(approvals(Vec::new()).seal(&State { gate: String::new(), expires: 4 }, b"").is_err());
    }

    #[test]
    fn a_link_without_a_host_is_told_with_where_it_begins() {
        assert!(!link_hint("x", "http://here/ui", true).contains("SVC_PUBLIC_URL"));
        assert!(link_hint("x", "/ui", false).contains("SVC_PUBLIC_URL"));
    }
}
