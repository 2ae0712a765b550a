//! Tasks of the executor that make changes.
//!
//! Each change passes through the pipeline inside its transaction. The reply is sent after the transaction.

use std::cell::RefCell;
use std::sync::Arc;

use super::call::{Call, RequestWork, VerifiedCaller, log_position};
use super::pipeline::{self, Prepared, Stage};
use super::reading::reply_to_repeat;
use super::refusal::Refusal;
use super::retry::{AnswerOutcome, StoredProgress};
use super::{Reply, ReplyCallback};
use crate::error::{Error, Result};
use crate::id::{ThreadId, WorkspaceId};
use crate::log::batch::Batch;
use crate::log::event::CachedEntryKind;
use crate::op::declare::hooks;
use crate::op::declare::job::{Progress, WriteJob, WriteNeeds};
use crate::op::run::context::Write;
use crate::store::executor::{Task, TaskSource, WriteTask};
use crate::store::{Conn, is_duplicate_key_error};

/// A writer's transaction with the state of the batch.
struct WriteTransaction<'c> {
    conn: &'c Conn,
    batch: &'c RefCell<Batch>,
}

impl WriteTransaction<'_> {
    fn write_context<'a>(&'a self, call: &'a Call) -> Result<Write<'a>> {
        let VerifiedCaller { caller, now, .. } = call.verified_caller()?;
        let cx = Write::new(self.conn, caller, *now, &call.dispatch.shared, self.batch);
        Ok(cx.with_step_state(call.step_state.as_deref()))
    }
}

impl Stage for WriteTransaction<'_> {
    type Job = WriteJob;
    type Output = Progress;

    fn find_caller(&self, call: &Call) -> Result<VerifiedCaller> {
        call.find_caller_for_change(self.conn, self.batch)
    }

    fn check_not_frozen(&self, call: &Call) -> Result<()> {
        let is_open = matches!(&call.work, RequestWork::Operation(row, _) if row.access().open_to_frozen);
        if is_open { Ok(()) } else { call.verified_caller()?.caller.check_not_frozen() }
    }

    fn check_guards(&self, call: &Call) -> Result<()> {
        let RequestWork::Operation(operation, shown) = &call.work else { return Ok(()) };
        let cx = self.write_context(call)?;
        call.dispatch.table.guards().iter().try_for_each(|guard| guard(&cx, operation, shown))
    }

    /// Calls the function of the change.
    ///
    /// The audit row of a change to personal data contains no channel or ids, which would reveal the subject
    /// of the data.
    fn run_job(&self, call: &Call, job: &mut WriteJob) -> Result<Progress> {
        let mut cx = self.write_context(call)?;
        if call.is_personal() {
            cx.discreet();
        }
        job(&mut cx)
    }

    fn find_repeat(&self, call: &mut Call) -> Result<Option<Progress>> {
        let Some(keyed) = &call.keyed else { return Ok(None) };
        match keyed.find_stored_progress(&self.write_context(call)?)? {
            None => {
                // An earlier run may have stored a state in a transaction that was rolled back.
                call.step_state = None;
                Ok(None)
            }
            Some(StoredProgress::Begun(state)) => {
                call.step_state = Some(state);
                Ok(None)
            }
            Some(StoredProgress::Answered(stored_data)) => Ok(Some(Progress::Repeated(stored_data))),
        }
    }

    fn run_projectors(&self, call: &Call) -> Result<()> {
        hooks::run_projectors(&mut self.write_context(call)?)
    }

    /// Writes the audit rows, but only for the last step of a change, because a step is not a separate
    /// request.
    fn audit(&self, call: &Call, progress: &Progress) -> Result<()> {
        let mut cx = self.write_context(call)?;
        let (outcome, refused) = match progress {
            Progress::Done(output) => (AnswerOutcome::Done(output.as_ref()), None),
            Progress::Unfinished(state) => {
                if let (Some(keyed), Some(state)) = (&call.keyed, state) {
                    keyed.store_step_state(&mut cx, state)?;
                }
                // The step has changed rows without emitting an event for them.
                return cx.invalidate(CachedEntryKind::Rules);
            }
            Progress::Refused(error) => (AnswerOutcome::Refused(error.code()), Some(error.code().name())),
            Progress::Repeated(_) => return Ok(()),
        };
        call.audit(&mut cx, self.batch, refused)?;
        match &call.keyed {
            Some(keyed) if !self.batch.borrow().unchanged => keyed.store_outcome(&mut cx, &outcome),
            _ => Ok(()),
        }
    }
}

/// A change request as a task of a writer.
pub(super) struct WriteCall {
    call: Call,
    status: u16,
    job: Prepared<WriteJob>,
    write_needs: WriteNeeds,
    /// The thread that the change concerns, if any.
    thread: Option<ThreadId>,
    progress: Progress,
    /// Whether a step of the change was committed.
    has_begun: bool,
    done: ReplyCallback,
}

impl WriteCall {
    /// Creates a change task. `status` is the HTTP status on success, and `thread` is the thread that the
    /// change concerns, if any.
    pub fn new(
        call: Call,
        status: u16,
        job: WriteJob,
        write_needs: WriteNeeds,
        thread: Option<ThreadId>,
        done: ReplyCallback,
    ) -> Self {
        let job = Prepared::Ready(job);
        let progress = Progress::Unfinished(None);
        Self { call, status, job, write_needs, thread, progress, has_begun: false, done }
    }
}

impl WriteTask<Batch> for WriteCall {
    fn home(&self) -> WorkspaceId {
        self.call.preflight_workspace.unwrap_or(self.call.access.workspace())
    }

    fn workspaces(&self) -> Vec<WorkspaceId> {
        std::iter::once(self.home()).chain(self.write_needs.workspaces.iter().copied()).collect()
    }

    fn announce(&self, batch: &mut Batch) {
        batch.named_threads.extend(self.thread.map(|thread| (self.home(), thread)));
        batch.takes = batch.takes.saturating_add(usize::from(self.write_needs.claims_next_thread));
    }

    fn run(&mut self, conn: &Conn, batch: &RefCell<Batch>) -> Result<()> {
        self.progress = Progress::Unfinished(None);
        self.progress = pipeline::run(&WriteTransaction { conn, batch }, &mut self.call, &mut self.job)?;
        if let Some(found_caller) = &mut self.call.found_caller {
            found_caller.lsn = log_position(conn, batch, &found_caller.caller)?;
        }
        Ok(())
    }
}

impl Task for WriteCall {
    fn source(&self) -> TaskSource {
        self.call.source()
    }

    fn bytes(&self) -> usize {
        self.call.bytes
    }

    fn is_abandoned(&self) -> bool {
        self.call.is_abandoned()
    }

    /// Replies, or queues the change again if only one of its steps was committed.
    fn finish(mut self: Box<Self>, outcome: Result<()>) {
        if let (Ok(()), Progress::Unfinished(state)) = (&outcome, &mut self.progress) {
            self.call.step_state = state.take().or(self.call.step_state.take());
            self.has_begun = true;
            let dispatch = Arc::clone(&self.call.dispatch);
            return dispatch.executor.write(self);
        }
        let Self { call, status, progress, done, write_needs, has_begun, .. } = *self;
        let outcome = outcome.map_err(|error| match write_needs.id_conflict_code {
            Some(code) if is_duplicate_key_error(&error) => {
                Error::new(code, "the instance already has an object with one of these ids").caused_by(error)
            }
            _ if has_begun => error.with_incomplete_change(),
            _ => error,
        });
        match outcome.map(|()| progress) {
            Ok(Progress::Done(output)) => done(Ok(Reply::of(status, call.lsn(), output))),
            Ok(Progress::Repeated(stored_data)) => reply_to_repeat(call, status, stored_data, done),
            // The audit decision was committed together with the events.
            Ok(Progress::Refused(error)) => done(Err(error.with_log_position(call.lsn()))),
            Ok(Progress::Unfinished(_)) => {
                done(Err(Error::internal("a change was committed without an output")))
            }
            Err(error) => Refusal::store_and_reply(call, status, (error, has_begun), done),
        }
    }
}
