//! Stores refusals of requests with an idempotency key, so that repeats receive the same refusal.

use std::cell::RefCell;
use std::sync::Arc;

use super::ReplyCallback;
use super::call::Call;
use super::reading::reply_to_repeat;
use super::retry::{AnswerOutcome, StoredProgress};
use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::log::batch::Batch;
use crate::op::run::context::Write;
use crate::store::Conn;
use crate::store::executor::{Task, TaskSource, WriteTask};

/// A task that stores a refusal, after the changes of the function were rolled back.
///
/// If another request with the same key was answered in the meantime, that answer takes precedence.
pub(super) struct Refusal {
    call: Call,
    status: u16,
    error: Error,
    /// Whether steps of this change were committed. If so, this change has written the stored row of begun
    /// steps.
    has_begun: bool,
    /// The answer that another request with the same key has stored in the meantime.
    stored_answer: Option<Result<String>>,
    done: ReplyCallback,
}

impl Refusal {
    /// Replies to a change that failed, after storing the refusal for repeats if it is final.
    ///
    /// `status` is the HTTP status on success. The boolean beside the error is whether steps of the change
    /// were committed.
    pub fn store_and_reply(call: Call, status: u16, (error, has_begun): (Error, bool), done: ReplyCallback) {
        if !call.keyed.as_ref().is_some_and(|keyed| keyed.stores_refusal(error.code())) {
            return call.finish(Err(error), done);
        }
        let dispatch = Arc::clone(&call.dispatch);
        dispatch.executor.write(Box::new(Self { call, status, error, has_begun, stored_answer: None, done }));
    }
}

impl WriteTask<Batch> for Refusal {
    fn home(&self) -> WorkspaceId {
        self.call.access.workspace()
    }

    fn workspaces(&self) -> Vec<WorkspaceId> {
        vec![self.home()]
    }

    fn run(&mut self, conn: &Conn, batch: &RefCell<Batch>) -> Result<()> {
        self.stored_answer = None;
        let (found_caller, Some(keyed)) = (self.call.verified_caller()?, &self.call.keyed) else {
            return Ok(());
        };
        let now = batch.borrow().now();
        let shared = &self.call.dispatch.shared;
        let mut cx = Write::new(conn, &found_caller.caller, now, shared, batch);
        match keyed.find_stored_progress(&cx) {
            // Another call with the same key has written the row, and only that call may end its steps.
            Ok(Some(StoredProgress::Begun(_))) if !self.has_begun => {}
            Ok(None | Some(StoredProgress::Begun(_))) => {
                keyed.store_outcome(&mut cx, &AnswerOutcome::Refused(self.error.code()))?
            }
            Ok(Some(StoredProgress::Answered(stored_data))) => self.stored_answer = Some(Ok(stored_data)),
            Err(other) if other.code().status() < 500 => self.stored_answer = Some(Err(other)),
            Err(failure) => return Err(failure),
        }
        Ok(())
    }
}

impl Task for Refusal {
    fn source(&self) -> TaskSource {
        self.call.source()
    }

    fn bytes(&self) -> usize {
        self.call.bytes
    }

    /// Returns `false`: the refusal is stored even if the caller no longer waits.
    fn is_abandoned(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>, outcome: Result<()>) {
        let Self { call, status, error, stored_answer, done, .. } = *self;
        match (outcome, stored_answer) {
            (Ok(()), Some(Ok(stored_data))) => reply_to_repeat(call, status, stored_data, done),
            (Ok(()), Some(Err(other))) => call.finish(Err(other), done),
            (Ok(()), None) => call.finish(Err(error), done),
            (Err(failure), _) => call.finish(Err(failure), done),
        }
    }
}
