//! Reads and changes as tasks of the executor.
//!
//! Each goes through the pipeline inside its transaction, and its reply is sent after that.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

use super::call::{Call, Entered, Work, log_lsn};
use super::pipeline::{self, Prepared, Stage};
use super::{Done, Reply};
use crate::error::{Error, Result};
use crate::id::{ThreadId, WorkspaceId};
use crate::log::batch::Batch;
use crate::log::cache::ReaderCache;
use crate::log::event::Invalidates;
use crate::op::declare::hooks;
use crate::op::declare::job::{BoxedOutput, Progress, ReadJob, ReadingJob, Wants, WriteJob};
use crate::op::run::context::{Read, Write};
use crate::store::executor::{ReadTask, Reader, Source, Task, WriteTask};
use crate::store::{Conn, is_duplicate};

/// A reader's transaction, for functions that return a `T`.
pub(in crate::op) struct Reading<'r, T> {
    reader: &'r Reader<ReaderCache>,
    returns: PhantomData<fn() -> T>,
}

impl<'r, T> Reading<'r, T> {
    pub fn on(reader: &'r Reader<ReaderCache>) -> Self {
        Self { reader, returns: PhantomData }
    }
}

impl<T> Stage for Reading<'_, T> {
    type Job = ReadingJob<T>;
    type Output = T;

    fn find(&self, call: &Call) -> Result<Entered> {
        call.find_reading(self.reader)
    }

    fn perform(&self, call: &Call, job: &mut ReadingJob<T>) -> Result<T> {
        let Entered { caller, now, .. } = call.entered()?;
        let cx = Read::new(self.reader, caller, *now, &call.dispatch.shared);
        job(&cx.charging(call.access.charged_to()))
    }
}

/// A writer's transaction, and the state of its batch.
struct Changing<'c> {
    conn: &'c Conn,
    batch: &'c RefCell<Batch>,
}

impl Changing<'_> {
    fn context<'a>(&'a self, call: &'a Call) -> Result<Write<'a>> {
        let Entered { caller, now, .. } = call.entered()?;
        Ok(Write::new(self.conn, caller, *now, &call.dispatch.shared, self.batch))
    }
}

impl Stage for Changing<'_> {
    type Job = WriteJob;
    type Output = Progress;

    fn find(&self, call: &Call) -> Result<Entered> {
        call.find_changing(self.conn, self.batch)
    }

    fn check_not_frozen(&self, call: &Call) -> Result<()> {
        let is_open = matches!(&call.work, Work::Operation(row, _) if row.access().open_to_frozen);
        if is_open { Ok(()) } else { call.entered()?.caller.check_not_frozen() }
    }

    fn guard(&self, call: &Call) -> Result<()> {
        let Work::Operation(operation, shown) = &call.work else { return Ok(()) };
        let cx = self.context(call)?;
        call.dispatch.table.guards().iter().try_for_each(|guard| guard(&cx, operation, shown))
    }

    /// What a member does with what is its own is audited without a place, too: that would tell what it is
    /// about.
    fn perform(&self, call: &Call, job: &mut WriteJob) -> Result<Progress> {
        let mut cx = self.context(call)?;
        if call.is_personal() {
            cx.discreet();
        }
        job(&mut cx)
    }

    fn project(&self, call: &Call) -> Result<()> {
        hooks::project(&mut self.context(call)?)
    }

    /// A step is no request of its own: the last one is audited.
    fn audit(&self, call: &Call, progress: &Progress) -> Result<()> {
        let refused = match progress {
            Progress::Done(_) => None,
            // It has moved things that no event tells of.
            Progress::Again => return self.context(call)?.invalidate(Invalidates::Rules),
            Progress::Refused(error) => Some(error.code().name()),
        };
        call.audit(&mut self.context(call)?, self.batch, refused)
    }
}

/// A read, as a task of a reader.
pub(super) struct ReadCall {
    call: Call,
    job: Prepared<ReadJob>,
    done: Done,
    output: Option<BoxedOutput>,
}

impl ReadCall {
    pub fn new(call: Call, job: Prepared<ReadJob>, done: Done) -> Self {
        Self { call, job, done, output: None }
    }
}

impl ReadTask<ReaderCache> for ReadCall {
    fn run(&mut self, reader: &Reader<ReaderCache>) -> Result<()> {
        self.output = None;
        self.output = Some(pipeline::run(&Reading::on(reader), &mut self.call, &mut self.job)?);
        Ok(())
    }
}

impl Task for ReadCall {
    fn source(&self) -> Source {
        self.call.source()
    }

    fn bytes(&self) -> usize {
        self.call.bytes
    }

    fn is_abandoned(&self) -> bool {
        self.call.is_abandoned()
    }

    fn finish(self: Box<Self>, outcome: Result<()>) {
        let Self { call, done, output, .. } = *self;
        let output =
            outcome.and_then(|()| output.ok_or_else(|| Error::internal("a read ended without an output")));
        let reply = output.map(|output| Reply::of(200, call.lsn(), output));
        call.finish(reply, done);
    }
}

/// A change, as a task of a writer.
pub(super) struct WriteCall {
    call: Call,
    status: u16,
    job: Prepared<WriteJob>,
    wants: Wants,
    /// The thread that it is about.
    thread: Option<ThreadId>,
    progress: Progress,
    /// Whether a step of it was committed.
    has_begun: bool,
    done: Done,
}

impl WriteCall {
    /// Creates one that succeeds with `status`, about a thread if one is named.
    pub fn new(
        call: Call,
        status: u16,
        job: WriteJob,
        wants: Wants,
        thread: Option<ThreadId>,
        done: Done,
    ) -> Self {
        let (job, progress) = (Prepared::Ready(job), Progress::Again);
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
        batch.expected.threads.extend(self.thread.map(|thread| (self.home(), thread)));
        batch.expected.takes = batch.expected.takes.saturating_add(usize::from(self.wants.takes_next));
    }

    fn run(&mut self, conn: &Conn, batch: &RefCell<Batch>) -> Result<()> {
        self.progress = Progress::Again;
        self.progress = pipeline::run(&Changing { conn, batch }, &mut self.call, &mut self.job)?;
        if let Some(entered) = &mut self.call.entered {
            entered.lsn = log_lsn(conn, batch, &entered.caller)?;
        }
        Ok(())
    }
}

impl Task for WriteCall {
    fn source(&self) -> Source {
        self.call.source()
    }

    fn bytes(&self) -> usize {
        self.call.bytes
    }

    fn is_abandoned(&self) -> bool {
        self.call.is_abandoned()
    }

    /// Replies, or queues the change again if only a step of it was committed.
    fn finish(mut self: Box<Self>, outcome: Result<()>) {
        if outcome.is_ok() && matches!(self.progress, Progress::Again) {
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
            // Its decision was committed together with what it has emitted.
            Ok(Progress::Refused(error)) => done(Err(error.seen_at(call.lsn()))),
            Ok(Progress::Again) => done(Err(Error::internal("a change was committed without an output"))),
            Err(error) => call.finish(Err(error), done),
        }
    }
}
