//! Changes as tasks of the executor.
//!
//! Each change goes through the pipeline inside its transaction, and its reply is sent after the transaction.

use std::cell::RefCell;
use std::sync::Arc;

use super::call::{Call, RequestWork, VerifiedCaller, log_lsn};
use super::pipeline::{self, Prepared, Stage};
use super::reading::answer_again;
use super::refusal::Refusal;
use super::retry::{AnswerOutcome, StoredProgress};
use super::{Reply, ReplyCallback};
use crate::error::{Error, Result};
use crate::id::{ThreadId, WorkspaceId};
use crate::log::batch::Batch;
use crate::log::event::Invalidates;
use crate::op::declare::hooks;
use crate::op::declare::job::{Progress, WriteJob, WriteNeeds};
use crate::op::run::context::Write;
use crate::store::executor::{Task, TaskSource, WriteTask};
use crate::store::{Conn, is_duplicate};

/// A writer's transaction with the state of the batch.
struct WriteTransaction<'c> {
    conn: &'c Conn,
    batch: &'c RefCell<Batch>,
}

impl WriteTransaction<'_> {
    fn context<'a>(&'a self, call: &'a Call) -> Result<Write<'a>> {
        let VerifiedCaller { caller, now, .. } = call.verified_caller()?;
        let cx = Write::new(self.conn, caller, *now, &call.dispatch.shared, self.batch);
        Ok(cx.after(call.begun.as_deref()))
    }
}

impl Stage for WriteTransaction<'_> {
    type Job = WriteJob;
    type Output = Progress;

    fn find(&self, call: &Call) -> Result<VerifiedCaller> {
        call.find_changing(self.conn, self.batch)
    }

    fn check_not_frozen(&self, call: &Call) -> Result<()> {
        let is_open = matches!(&call.work, RequestWork::Operation(row, _) if row.access().open_to_frozen);
        if is_open { Ok(()) } else { call.verified_caller()?.caller.check_not_frozen() }
    }

    fn guard(&self, call: &Call) -> Result<()> {
        let RequestWork::Operation(operation, shown) = &call.work else { return Ok(()) };
        let cx = self.context(call)?;
        call.dispatch.table.guards().iter().try_for_each(|guard| guard(&cx, operation, shown))
    }

    /// Runs the function.
    ///
    /// A change of a member's personal data is audited without a place, which would reveal its subject.
    fn perform(&self, call: &Call, job: &mut WriteJob) -> Result<Progress> {
        let mut cx = self.context(call)?;
        if call.is_personal() {
            cx.discreet();
        }
        job(&mut cx)
    }

    fn repeat(&self, call: &mut Call) -> Result<Option<Progress>> {
        let Some(keyed) = &call.keyed else { return Ok(None) };
        match keyed.found(&self.context(call)?)? {
            None => {
                // An earlier run may have stored a state that was then rolled back.
                call.begun = None;
                Ok(None)
            }
            Some(StoredProgress::Begun(state)) => {
                call.begun = Some(state);
                Ok(None)
            }
            Some(StoredProgress::Answered(kept)) => Ok(Some(Progress::Repeated(kept))),
        }
    }

    fn project(&self, call: &Call) -> Result<()> {
        hooks::project(&mut self.context(call)?)
    }

    /// Writes the audit rows, but only for the last step of a change, because a step is not a separate
    /// request.
    fn audit(&self, call: &Call, progress: &Progress) -> Result<()> {
        let mut cx = self.context(call)?;
        let (outcome, refused) = match progress {
            Progress::Done(output) => (AnswerOutcome::Done(output.as_ref()), None),
            Progress::Again(state) => {
                if let (Some(keyed), Some(state)) = (&call.keyed, state) {
                    keyed.begin(&mut cx, state)?;
                }
                // The steps have changed rows without an event about them.
                return cx.invalidate(Invalidates::Rules);
            }
            Progress::Refused(error) => (AnswerOutcome::Refused(error.code()), Some(error.code().name())),
            Progress::Repeated(_) => return Ok(()),
        };
        call.audit(&mut cx, self.batch, refused)?;
        match &call.keyed {
            Some(keyed) if !self.batch.borrow().unchanged => keyed.keep(&mut cx, &outcome),
            _ => Ok(()),
        }
    }
}

/// A change request as a task of a writer.
pub(super) struct WriteCall {
    call: Call,
    status: u16,
    job: Prepared<WriteJob>,
    wants: WriteNeeds,
    /// The thread that the change concerns, if any.
    thread: Option<ThreadId>,
    progress: Progress,
    /// Whether a step of the change was committed.
    has_begun: bool,
    done: ReplyCallback,
}

impl WriteCall {
    /// Creates a change that succeeds with `status`, and that concerns `thread` if that is given.
    pub fn new(
        call: Call,
        status: u16,
        job: WriteJob,
        wants: WriteNeeds,
        thread: Option<ThreadId>,
        done: ReplyCallback,
    ) -> Self {
        let job = Prepared::Ready(job);
        let progress = Progress::Again(None);
        Self { call, status, job, wants, thread, progress, has_begun: false, done }
    }
}

impl WriteTask<Batch> for WriteCall {
    fn home(&self) -> WorkspaceId {
        self.call.home.unwrap_or(self.call.access.workspace())
    }

    fn workspaces(&self) -> Vec<WorkspaceId> {
        std::iter::once(self.home()).chain(self.wants.workspaces.iter().copied()).collect()
    }

    fn announce(&self, batch: &mut Batch) {
        batch.named_threads.extend(self.thread.map(|thread| (self.home(), thread)));
        batch.takes = batch.takes.saturating_add(usize::from(self.wants.takes_next));
    }

    fn run(&mut self, conn: &Conn, batch: &RefCell<Batch>) -> Result<()> {
        self.progress = Progress::Again(None);
        self.progress = pipeline::run(&WriteTransaction { conn, batch }, &mut self.call, &mut self.job)?;
        if let Some(entered) = &mut self.call.entered {
            entered.lsn = log_lsn(conn, batch, &entered.caller)?;
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
        if let (Ok(()), Progress::Again(state)) = (&outcome, &mut self.progress) {
            self.call.begun = state.take().or(self.call.begun.take());
            self.has_begun = true;
            let dispatch = Arc::clone(&self.call.dispatch);
            return dispatch.executor.write(self);
        }
        let Self { call, status, progress, done, wants, has_begun, .. } = *self;
        let outcome = outcome.map_err(|error| match wants.if_present {
            Some(code) if is_duplicate(&error) => {
                Error::new(code, "the instance has something with one of these ids").caused_by(error)
            }
            _ if has_begun => error.within_change(),
            _ => error,
        });
        match outcome.map(|()| progress) {
            Ok(Progress::Done(output)) => done(Ok(Reply::of(status, call.lsn(), output))),
            Ok(Progress::Repeated(kept)) => answer_again(call, status, kept, done),
            // The audit decision was committed together with the events.
            Ok(Progress::Refused(error)) => done(Err(error.seen_at(call.lsn()))),
            Ok(Progress::Again(_)) => done(Err(Error::internal("a change was committed without an output"))),
            Err(error) => Refusal::tell(call, status, (error, has_begun), done),
        }
    }
}
