//! Cancelling a thread: the task is withdrawn without being done.
//!
//! A cancel closes the thread without checking the conditions of a close, and posts the reason as a message
//! and a notice. Children are not affected; each can be cancelled separately.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::transition;
use crate::Result;
use crate::capability::Capability::{ThreadTransition, WorkspaceWrite};
use crate::conversation::messages::{self, SealedPost};
use crate::conversation::visibility;
use crate::coordination::claims::{self, ClaimEnd};
use crate::coordination::thread_row::{Thread, ThreadState, visible_thread};
use crate::coordination::{dead_letters, dependencies, notices};
use crate::error::{Code, Error};
use crate::id::{MemberId, MessageId, ThreadId};
use crate::limits::CANCEL_REASON_MAX;
use crate::log::event::{Event, EventKind};
use crate::log::replay::ReplayedEvent;
use crate::op::{Caller, Effect, Feature, SharedState, Write, changing};
use crate::request::request;
use crate::text::Prose;
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "threads",
            vec![
                changing("cancel_thread", Effect::Destructive).prepare(seal_reason).run(cancel_thread)
                    .after(claims::expire_lapsed_claims)
                    .title("Cancel a thread")
                    .when(
                        "Cancel a thread whose task should not be done. Use `transition_thread` to close a \
                         thread whose task is done.",
                    )
                    .post("/threads/{thread_id}/cancel")
                    .needs(&[WorkspaceWrite])
                    .refuses(&[Code::Forbidden, Code::WrongState])
                    .example(|w| {
                        json!({"thread_id": w.id("thread"), "reason": "The parser is replaced, not ported."})
                    }),
            ],
        )
        .events(vec![EventKind::of::<ThreadCancelled>()])
}

/// The subject of the notice that reports a cancel, also contained in the metadata of the notice's message.
const NOTICE_KIND: &str = "cancelled";

/// A thread was cancelled. Members should stop working on the thread.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct ThreadCancelled<'a> {
    /// The reason for the cancel, as written by the member who cancelled the thread.
    reason: &'a str,
    /// The member who cancelled the thread; null for the service itself.
    cancelled_by: Option<MemberId>,
    /// Id of the message that contains the reason.
    message_id: MessageId,
}

impl Event for ThreadCancelled<'_> {
    const KIND: &'static str = "ThreadCancelled";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("threads", "$thread")?.set("cancelled_at", event.at()).keep()?;
        notices::replay_notice(event, NOTICE_KIND.into())
    }
}

request! {
    /// Cancels a thread and returns the cancelled thread.
    ///
    /// The thread is closed regardless of its reviews, children and results; a live claim ends, and the
    /// reason is posted as a message. Threads that wait for this one can be claimed unless something else
    /// blocks them.
    ///
    /// Withdrawing the message with the reason removes the reason from the thread's notices too; the event
    /// ThreadCancelled keeps it permanently. Cancelling again changes nothing.
    ///
    /// Fails with 403 `forbidden` if you neither created the thread nor have `thread:transition`; 409
    /// `wrong-state` if the thread is closed or archived without having been cancelled.
    #[derive(Serialize)]
    struct CancelThread {
        /// Id of the thread.
        thread_id: ThreadId,
        /// The reason, for members who worked on or wait for the thread.
        reason: Prose<1, CANCEL_REASON_MAX>,
    }

    cancel_thread(thread_id: ThreadId, reason: Prose<1, CANCEL_REASON_MAX>) -> Thread
}

fn seal_reason(input: &CancelThread, shared: &SharedState, now: Time) -> Result<SealedPost> {
    messages::seal_post(shared, now, &input.reason, &json!({"notice": NOTICE_KIND}))
}

fn cancel_thread(cx: &mut Write<'_>, input: &CancelThread, post: &SealedPost) -> Result<Thread> {
    let thread = visible_thread(cx, input.thread_id)?;
    if !can_cancel(cx.caller(), &thread) {
        return Err(Error::forbidden(
            "only the member who created a thread, or a caller with thread:transition, can cancel it",
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
    let place = visibility::visible_thread_place(cx, thread.id)?;
    transition::enter_state(cx, &thread, ThreadState::Closed, "cancel", Some(cx.now()))?;
    let cancelled_by = cx.caller().member;
    let message_id = post.message_id();
    let cancelled = ThreadCancelled { reason: &input.reason, cancelled_by, message_id };
    let cancelled = cx.emit(thread.place(), &cancelled)?;
    claims::end_claim(cx, &thread, ClaimEnd::Cancelled)?;
    dead_letters::settle(cx, &thread)?;
    dependencies::unblock_dependents(cx, &thread, false)?;
    messages::post_sealed(cx, &place, cancelled_by, post)?;
    notices::add_notice(cx, thread.id, cancelled.lsn, NOTICE_KIND, &input.reason, message_id)?;
    visible_thread(cx, thread.id)
}

/// Returns whether the caller may cancel the thread: its creator may, and so may a caller with
/// `thread:transition`.
fn can_cancel(caller: &Caller, thread: &Thread) -> bool {
    let created = caller.is_member() && thread.created_by == caller.member;
    created || caller.capabilities.has(ThreadTransition)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::Capability;
    use crate::coordination::thread_row::test_thread;

    fn caller(member: Option<MemberId>, capabilities: &[Capability]) -> Caller {
        let workspace = test_thread().workspace_id;
        let Some(member) = member else {
            let mut service = Caller::instance(workspace);
            service.capabilities = capabilities.iter().copied().collect();
            return service;
        };
        Caller::bearer_for_tests(workspace, member, capabilities)
    }

    #[test]
    fn the_creator_cancels_by_writing_and_others_by_transition() {
        let thread = test_thread();
        let stranger = Some(MemberId::from(uuid::Uuid::from_u128(9)));
        assert!(can_cancel(&caller(thread.created_by, &[WorkspaceWrite]), &thread));
        assert!(can_cancel(&caller(stranger, &[WorkspaceWrite, ThreadTransition]), &thread));
        assert!(!can_cancel(&caller(stranger, &[WorkspaceWrite]), &thread));
    }

    #[test]
    fn the_service_has_created_nothing() {
        let thread = Thread { created_by: None, ..test_thread() };
        assert!(!can_cancel(&caller(None, &[WorkspaceWrite]), &thread));
    }
}
