//! Changes with a preflight read: a read that runs before the change is queued.
//!
//! The read finds the workspace of the change, or does slow work that needs no lock.
//!
//! The writer locks the log of that workspace together with the logs of its batch, in their order, as it does
//! for the workspace of a credential. Slow work that needs no lock does not delay other requests.

use std::sync::Arc;

use super::call::Call;
use super::pipeline::{self, Prepared};
use super::reading::ReadTransaction;
use super::tasks::WriteCall;
use super::{Dispatch, ReplyCallback, RunOn};
use crate::error::{Error, Result};
use crate::id::ThreadId;
use crate::log::cache::ReaderCache;
use crate::op::declare::job::{FirstSteps, Preflight, ReadingJob, with_first_steps};
use crate::store::executor::{ReadTask, Reader, Task, TaskSource};

/// A task that runs the preflight read of a change, and then queues the change.
pub(super) struct PreflightCall {
    pub call: Call,
    pub status: u16,
    pub read: Prepared<ReadingJob<Preflight>>,
    /// Steps that run before the change.
    pub first_steps: Option<FirstSteps>,
    /// The thread that the change concerns, if any.
    pub thread: Option<ThreadId>,
    /// The result of the read, or `None` before the read has run.
    pub result: Option<Preflight>,
    pub done: ReplyCallback,
}

impl Dispatch {
    /// Runs the preflight read of a change, and then the change.
    pub(super) fn preflight(&self, task: PreflightCall, on: RunOn) {
        match on {
            RunOn::Caller => self.executor.read_inline(Box::new(task)),
            RunOn::Pool | RunOn::Batched => self.executor.read(Box::new(task), false),
        }
    }
}

impl ReadTask<ReaderCache> for PreflightCall {
    fn run(&mut self, reader: &Reader<ReaderCache>) -> Result<()> {
        self.result = None;
        self.result = Some(pipeline::run(&ReadTransaction::new(reader), &mut self.call, &mut self.read)?);
        Ok(())
    }
}

impl Task for PreflightCall {
    fn source(&self) -> TaskSource {
        self.call.source()
    }

    fn bytes(&self) -> usize {
        self.call.bytes
    }

    fn is_abandoned(&self) -> bool {
        self.call.is_abandoned()
    }

    fn finish(self: Box<Self>, outcome: Result<()>) {
        let Self { mut call, status, first_steps, thread, result, done, .. } = *self;
        let result = outcome
            .and_then(|()| result.ok_or_else(|| Error::internal("the read before a change found nothing")));
        match result {
            Ok(Preflight { workspace, write_needs, job, bytes }) => {
                let dispatch = Arc::clone(&call.dispatch);
                (call.preflight_workspace, call.bytes) = (workspace, call.bytes.saturating_add(bytes));
                let task = WriteCall::new(
                    call,
                    status,
                    with_first_steps(first_steps, job),
                    write_needs,
                    thread,
                    done,
                );
                dispatch.executor.write(Box::new(task));
            }
            Err(error) => call.finish(Err(error), done),
        }
    }
}
