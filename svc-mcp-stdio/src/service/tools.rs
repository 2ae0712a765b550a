//! Calls tools, which are operations of the service.

use std::time::{Duration, Instant};

use rmcp::model::ProgressToken;
use serde::Deserialize;
use serde_json::json;
use svc_core::limits::WAIT_DEFAULT_SECS;
use svc_core::op::{IdempotencyKey, Input};
use svc_core::text::{echo, nearest};
use svc_core::{Code, Error, Result};
use tokio::time::sleep;

use super::{ServiceHandler, approvals, manner_of, refused, tool_result};
use crate::catalogue::CatalogueEntry;
use crate::handler::{Call, Outcome};
use crate::log_level::LogLevel;
use crate::notifier::Notifier;
use crate::refusal::Refusal;
use crate::request_context::RequestContext;

/// Interval at which a wait reports its progress after the first seconds.
const PROGRESS_EVERY: Duration = Duration::from_secs(4);
/// Interval at which a wait reports its progress at first, since some clients have a timeout of two seconds
/// that progress resets.
const FIRST_PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Time for which the first interval is used.
const FIRST: Duration = Duration::from_secs(8);

impl ServiceHandler {
    pub(super) async fn call_tool(
        &self,
        context: &RequestContext,
        call: Call,
        notifier: &Notifier,
    ) -> Outcome {
        let entry = match self.catalogue().entry(&call.name) {
            Some(entry) if context.view.shows(&entry.operation) => entry,
            found => return Err(self.unknown_tool(context, &call.name, found.is_some())),
        };
        let tool = entry.operation.name();
        if let Err(error) = manner_of(entry).check_size(&call.message) {
            return refused(tool, context.principal.refuse(&self.service, error).await);
        }
        if tool == approvals::TOOL {
            let continued = self.continue_decision(context, &call);
            let continued = match context.progress.as_ref() {
                Some(token) => reporting(continued, token, approvals::ROUND_SECS, notifier).await,
                None => continued.await,
            };
            match continued {
                Ok(None) => {}
                Ok(Some(outcome)) => return outcome,
                Err(error) => return refused(tool, error),
            }
        }
        let key = if entry.operation.accepts_idempotency_keys() { context.idempotency_key()? } else { None };
        let begun = Instant::now();
        let run = self.run(context, entry, &call, key);
        let outcome = match context.progress.as_ref().filter(|_| entry.waits()) {
            Some(token) => reporting(run, token, wait_secs(&call), notifier).await,
            None => run.await,
        };
        if context.logs(LogLevel::Debug) {
            let took = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            let lsn = context.principal.room_lsn();
            notifier.log(LogLevel::Debug, &json!({"operation": tool, "ms": took, "lsn": lsn}));
        }
        match outcome {
            Ok((output, is_repeated)) => {
                Ok(tool_result::output(tool, &output, context, self.service.table()).repeated(is_repeated))
            }
            Err(error) if error.code() == Code::NeedsPerson => {
                self.leave_to_a_person(context, &call, error).await
            }
            Err(error) => refused(tool, error),
        }
    }

    fn unknown_tool(&self, context: &RequestContext, name: &str, is_hidden: bool) -> Refusal {
        let called = echo(name);
        let shown: Vec<&str> = self.catalogue().shown(&context.view).collect();
        Refusal::params(match nearest(name, &shown) {
            _ if is_hidden => format!("the tool {called} is not among those that were chosen here"),
            Some(near) => format!("there is no tool called \"{called}\"; did you mean {near}?"),
            None => format!("there is no tool called \"{called}\"; see tools/list"),
        })
    }

    /// Runs the operation of a call. Returns its output as JSON, and whether the call repeats an earlier
    /// request.
    async fn run(
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
            () = principal.deadline_passed(), if entry.waits() => {
                return Ok((tool_result::TIMED_OUT.to_vec(), false));
            }
        };
        principal.record_lsn(outcome.as_ref().map_or_else(Error::room_lsn, |reply| reply.lsn));
        let reply = outcome?;
        Ok((reply.body()?, reply.is_repeated))
    }
}

/// Runs a wait, and reports as progress how many seconds it has waited.
async fn reporting<T>(
    wait: impl Future<Output = T>,
    token: &ProgressToken,
    total: u32,
    notifier: &Notifier,
) -> T {
    let mut wait = std::pin::pin!(wait);
    let begun = Instant::now();
    loop {
        let pause = if begun.elapsed() < FIRST { FIRST_PROGRESS_EVERY } else { PROGRESS_EVERY };
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

/// Returns the timeout that a call requests, in seconds.
fn wait_secs(call: &Call) -> u32 {
    #[derive(Deserialize)]
    struct Wait {
        timeout_secs: Option<u32>,
    }
    let context = serde_json::from_slice(&call.arguments).ok().and_then(|wait: Wait| wait.timeout_secs);
    context.unwrap_or(u32::try_from(WAIT_DEFAULT_SECS).unwrap_or_default())
}
