//! Cancel: whoever asked for a task takes it back. It closes the thread around every condition of a close, and
//! says why in a message and a notice. Children are left as they are; each can be cancelled by itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Result;
use crate::capability::Capability::{ThreadTransition, WorkspaceWrite};
use crate::conversation::messages::{self, SealedPost};
use crate::conversation::places;
use crate::coordination::claims::{self, ClaimEnd};
use crate::coordination::thread::{Thread, ThreadState, transition, visible_thread};
use crate::coordination::{dependencies, notices};
use crate::error::Error;
use crate::id::{MemberId, ThreadId};
use crate::limits::CANCEL_REASON_MAX;
use crate::log::event::{Event, EventKind};
use crate::op::{Caller, Effect, Feature, Shared, Write, prepared};
use crate::text::Prose;
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "threads",
            vec![
                prepared("cancel_thread", Effect::Destructive, seal_reason, cancel_thread)
                    .title("Cancel a thread")
                    .post("/threads/{thread_id}/cancel")
                    .needs(&[WorkspaceWrite])
                    .example(|w| json!({"thread_id": w.thread_id, "reason": "The parser is replaced, not ported."})),
            ],
        )
        .events(vec![EventKind::of::<ThreadCancelled>()])
}

/// The notice under which a cancel stands in messages and notices.
const NOTICE: &str = "cancelled";

/// A thread was cancelled: nobody is to work on it any longer.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct ThreadCancelled<'a> {
    /// Why, in the canceller's words.
    reason: &'a str,
    /// The member who cancelled it; null when the service did.
    cancelled_by: Option<MemberId>,
}

impl Event for ThreadCancelled<'_> {
    const KIND: &'static str = "ThreadCancelled";
}

/// Cancels a thread: closes it whatever its reviews, children or results, ends a live claim and posts the reason.
/// Threads that wait for it can be claimed if nothing else holds them up. For the member who created the thread,
/// and for callers with `thread:transition`; others get 403. Answers the thread, also when it was cancelled
/// before; 409 `wrong-state` when it was closed or archived otherwise. Withdrawing the message with the reason
/// takes it out of the thread's notices too; the event ThreadCancelled keeps it for good.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CancelThread {
    /// The thread.
    thread_id: ThreadId,
    /// Why, for those who worked on it or wait for it.
    reason: Prose<1, CANCEL_REASON_MAX>,
}

fn seal_reason(input: &CancelThread, shared: &Shared, now: Time) -> Result<SealedPost> {
    messages::seal_post(shared, now, &input.reason, &json!({"notice": NOTICE}))
}

fn cancel_thread(cx: &mut Write<'_>, input: &CancelThread, post: &SealedPost) -> Result<Thread> {
    let thread = visible_thread(cx, input.thread_id)?;
    if !may_cancel(cx.caller(), &thread) {
        return Err(Error::forbidden(
            "only the member who created a thread, or a caller with thread:transition, may cancel it",
        ));
    }
    if thread.cancelled {
        return Ok(thread);
    }
    if thread.state.is_finished() {
        let state = thread.state.name();
        return Err(
            Error::wrong_state(format!("the thread is {state} and was not cancelled")).with("state", state)
        );
    }
    let place = places::visible_place(cx, thread.id)?;
    transition::enter(cx, &thread, ThreadState::Closed, "cancel", Some(cx.now()))?;
    let cancelled_by = cx.caller().member;
    let cancelled = cx.emit(thread.place(), &ThreadCancelled { reason: &input.reason, cancelled_by })?;
    claims::end_claim(cx, &thread, ClaimEnd::Cancelled)?;
    dependencies::unblock_dependents(cx, &thread, false)?;
    let message = messages::post_sealed(cx, &place, post)?;
    notices::add(cx, thread.id, cancelled.lsn, NOTICE, &input.reason, message.id)?;
    visible_thread(cx, thread.id)
}

/// The rule of cancelling, on top of the row's capability.
fn may_cancel(caller: &Caller, thread: &Thread) -> bool {
    let created = caller.is_member() && thread.created_by == caller.member;
    created || caller.capabilities.has(ThreadTransition)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::Capability;
    use crate::coordination::thread::untouched;

    fn caller(member: Option<MemberId>, capabilities: &[Capability]) -> Caller {
        let workspace = untouched().workspace_id;
        let Some(member) = member else {
            let mut service = Caller::instance(workspace);
            service.capabilities = capabilities.iter().copied().collect();
            return service;
        };
        Caller::bearer_for_tests(workspace, member, capabilities)
    }

    #[test]
    fn the_creator_cancels_by_writing_and_others_by_transition() {
        let thread = untouched();
        let stranger = Some(MemberId::from(uuid::Uuid::from_u128(9)));
        assert!(may_cancel(&caller(thread.created_by, &[WorkspaceWrite]), &thread));
        assert!(may_cancel(&caller(stranger, &[WorkspaceWrite, ThreadTransition]), &thread));
        assert!(!may_cancel(&caller(stranger, &[WorkspaceWrite]), &thread));
    }

    #[test]
    fn the_service_has_created_nothing() {
        let thread = Thread { created_by: None, ..untouched() };
        assert!(!may_cancel(&caller(None, &[WorkspaceWrite]), &thread));
    }
}
