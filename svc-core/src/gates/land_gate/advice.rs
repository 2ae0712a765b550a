//! Land advice: a read-only report of the unmet requirements for closing a thread.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::coordination::lifecycle::transition::{self, TransitionReason};
use crate::coordination::thread_row::visible_thread;
use crate::error::{Code, Error};
use crate::id::ThreadId;
use crate::op::{Answer, Read, Write};
use crate::request::request;

/// The unmet requirements for closing a thread.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct LandAdvice {
    /// Id of the thread to close.
    pub thread_id: ThreadId,
    /// Whether the thread could close now.
    pub could_close: bool,
    /// The unmet requirements for closing the thread.
    pub reasons: Vec<TransitionReason>,
}

/// A repeated request computes the advice again from the current state of the thread.
impl Answer<RequestLandAdvice> for LandAdvice {
    type Kept = ThreadId;

    fn kept(&self) -> Option<ThreadId> {
        Some(self.thread_id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &RequestLandAdvice, id: ThreadId) -> Result<Self> {
        compute_advice(cx, id)
    }
}

request! {
    /// Returns the unmet requirements for closing a thread, without changing the thread.
    ///
    /// Fails with 409 `wrong-state` if the thread is finished; 409 `not-enabled` if the operator has not set
    /// `SVC_LAND_ADVICE=1`.
    #[derive(Serialize)]
    pub(super) struct RequestLandAdvice {
        /// Id of the thread.
        thread_id: ThreadId,
    }

    request_land_advice(thread_id: ThreadId) -> LandAdvice
}

pub(super) fn request_land_advice(cx: &mut Write<'_>, input: &RequestLandAdvice) -> Result<LandAdvice> {
    compute_advice(cx, input.thread_id)
}

/// Returns the unmet requirements for closing a thread. Fails if the operator has not enabled land advice.
fn compute_advice(cx: &Read<'_>, id: ThreadId) -> Result<LandAdvice> {
    if !cx.settings().land_advice {
        return Err(Error::new(Code::NotEnabled, "land advice is not enabled: set SVC_LAND_ADVICE=1"));
    }
    let thread = visible_thread(cx, id)?;
    thread.check_unfinished()?;
    let reasons = transition::unmet_close_conditions(cx, &thread)?;
    Ok(LandAdvice { thread_id: thread.id, could_close: reasons.is_empty(), reasons })
}
