//! Calls tools. A tool runs an operation of the service.

use std::time::{Duration, Instant};

use rmcp::model::ProgressToken;
use serde::Deserialize;
use serde_json::json;
use svc_core::limits::WAIT_DEFAULT_SECS;
use svc_core::op::{IdempotencyKey, Input};
use svc_core::text::{echo, nearest};
use svc_core::{Code, Error, Result};
use tokio::time::sleep;

use super::{ServiceHandler, approvals, call_properties_of, refusal_outcome, tool_result};
use crate::catalogue::CatalogueEntry;
use crate::handler::{Call, Outcome};
use crate::log_level::LogLevel;
use crate::notifier::Notifier;
use crate::refusal::Refusal;
use crate::request_context::RequestContext;

/// Interval at which a wait reports its progress after [`FIRST_PROGRESS_TIME`].
const PROGRESS_INTERVAL: Duration = Duration::from_secs(4);
/// Interval at which a wait reports its progress during [`FIRST_PROGRESS_TIME`]. Some clients time out after
/// two seconds without progress.
const FIRST_PROGRESS_INTERVAL: Duration = Duration::from_secs(1);
/// Time from the start of a wait during which progress is reported more often.
const FIRST_PROGRESS_TIME: Duration = Duration::from_secs(8);

impl ServiceHandler {
    pub(super) async fn call_tool(
        &self,
        context: &RequestContext,
        call: Call,
        notifier: &Notifier,
    ) -> Outcome {
        let entry = match self.catalogue().entry(&call.name) {
            Some(entry) if context.view.shows(&entry.operation) => entry,
            found => return Err(self.unknown_tool_refusal(context, &call.name, found.is_some())),
        };
        let tool = entry.operation.name();
        if let Err(error) = call_properties_of(entry).check_size(&call.message) {
            return refusal_outcome(tool, context.principal.refuse(&self.service, error).await);
        }
        if tool == approvals::APPROVAL_TOOL {
            let continued = self.continue_decision(context, &call);
            let continued = match context.progress.as_ref() {
                Some(token) => {
                    run_with_progress(continued, token, approvals::DECISION_WAIT_SECS, notifier).await
                }
                None => continued.await,
            };
            match continued {
                Ok(None) => {}
                Ok(Some(outcome)) => return outcome,
                Err(error) => return refusal_outcome(tool, error),
            }
        }
        let key = if entry.operation.accepts_idempotency_keys() { context.idempotency_key()? } else { None };
        let begun = Instant::now();
        let run = self.run_call(context, entry, &call, key);
        let outcome = match context.progress.as_ref().filter(|_| entry.is_wait()) {
            Some(token) => run_with_progress(run, token, requested_wait_secs(&call), notifier).await,
            None => run.await,
        };
        if context.logs(LogLevel::Debug) {
            let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let lsn = context.principal.room_lsn();
            notifier.log(LogLevel::Debug, &json!({"operation": tool, "ms": took, "lsn": lsn}));
        }
        match outcome {
            Ok((output, is_repeated)) => {
                Ok(tool_result::tool_output(tool, &output, context, self.service.table())
                    .with_repeated(is_repeated))
            }
            Err(error) if error.code() == Code::NeedsPerson => {
                self.respond_with_link(context, &call, error).await
            }
            Err(error) => refusal_outcome(tool, error),
        }
    }

    fn unknown_tool_refusal(&self, context: &RequestContext, name: &str, is_hidden: bool) -> Refusal {
        let called = echo(name);
        let shown: Vec<&str> = self.catalogue().visible_names(&context.view).collect();
        Refusal::params(match nearest(name, &shown) {
            _ if is_hidden => format!("the tool {called} is not in the client's tool selection"),
            Some(near) => format!("there is no tool called \"{called}\"; did you mean {near}?"),
            None => format!("there is no tool called \"{called}\"; see tools/list"),
        })
    }

    /// Runs the operation of a call. Returns the output as JSON, and whether the call repeats an earlier
    /// request.
    async fn run_call(
        &self,
        context: &RequestContext,
        entry: &CatalogueEntry,
        call: &Call,
        key: Option<IdempotencyKey>,
    ) -> Result<(Vec<u8>, bool)> {
        let principal = &context.principal;
        let input = Input { key, ..Input::json(call.arguments.clone()) };
        let asking = principal.request(&self.service, &entry.operation, &input);
        let outcome = tokio::select! {
            outcome = asking => outcome,
            () = principal.wait_for_deadline(), if entry.is_wait() => {
                return Ok((tool_result::TIMED_OUT.to_vec(), false));
            }
        };
        principal.record_lsn(outcome.as_ref().map_or_else(Error::room_lsn, |reply| reply.lsn));
        let reply = outcome?;
        Ok((reply.body()?, reply.is_repeated))
    }
}

/// Runs a wait, and reports the seconds that it has waited as progress.
async fn run_with_progress<T>(
    wait: impl Future<Output = T>,
    token: &ProgressToken,
    total: u32,
    notifier: &Notifier,
) -> T {
    let mut wait = std::pin::pin!(wait);
    let begun = Instant::now();
    loop {
        let pause =
            if begun.elapsed() < FIRST_PROGRESS_TIME { FIRST_PROGRESS_INTERVAL } else { PROGRESS_INTERVAL };
        tokio::select! {
            biased;
            outcome = &mut wait => return outcome,
            () = sleep(pause) => {
                let waited = u32::try_from(begun.elapsed().as_secs()).unwrap_or(u32::MAX);
                notifier.progress(token, waited, total, "waiting");
            }
        }
    }
}

/// Returns the timeout in seconds that a call requests, or the default timeout.
fn requested_wait_secs(call: &Call) -> u32 {
    #[derive(Deserialize)]
    struct Wait {
        timeout_secs: Option<u32>,
    }
    let context = serde_json::from_slice(&call.arguments).ok().and_then(|wait: Wait| wait.timeout_secs);
    context.unwrap_or(u32::try_from(WAIT_DEFAULT_SECS).unwrap_or_default())
}
