//! Long reads: reads that consist of pages, each read in a separate transaction.
//!
//! Each page authenticates the caller again, and is queued behind the reads that are already waiting. So the
//! long reads of several workspaces take turns, and no transaction stays open for the whole of a long read.
//! At most one long read runs per workspace at a time, for a limited time, and at most one export, without a
//! time limit.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::call::{Call, VerifiedCaller};
use super::pipeline::{self, Prepared, Stage};
use super::reading::ReadTransaction;
use super::{Dispatch, Reply, ReplyCallback};
use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::limits::LONG_READ_MAX;
use crate::log::cache::ReaderCache;
use crate::op::declare::job::{BoxedOutput, LongJob};
use crate::store::executor::{ReadTask, Reader, Task, TaskSource};
use crate::sync::lock;
use crate::time::Monotonic;

/// A long read as a task, which reads one page each time it runs.
pub(super) struct LongCall {
    call: Call,
    job: Prepared<LongJob>,
    done: ReplyCallback,
    /// Whether a page of the read has no time limit.
    is_scan: bool,
    /// The time at which the read must end, or `None` without a time limit.
    deadline: Option<Monotonic>,
    /// Time until which an export waits for another export of the workspace to end.
    turn_deadline: Monotonic,
    /// The workspace's exclusive right to a long read, acquired with the first page.
    slot: Option<LongReadSlot>,
    /// The output that the last page returned, or `None` while there are more pages.
    output: Option<BoxedOutput>,
}

impl LongCall {
    pub fn new(call: Call, job: Prepared<LongJob>, done: ReplyCallback) -> Self {
        let deadline = call.dispatch.clock.deadline(LONG_READ_MAX);
        let (deadline, turn_deadline) = (Some(deadline), deadline);
        Self { call, job, done, is_scan: false, deadline, turn_deadline, slot: None, output: None }
    }

    /// Creates a long read whose pages have no time limit.
    pub fn new_scan(call: Call, job: Prepared<LongJob>, done: ReplyCallback) -> Self {
        Self { is_scan: true, ..Self::new(call, job, done) }
    }

    /// Creates a long read that writes a file.
    pub fn new_download(call: Call, job: Prepared<LongJob>, done: ReplyCallback) -> Self {
        let turn_deadline = call.dispatch.clock.deadline(EXPORT_WAIT_MAX);
        Self { deadline: None, turn_deadline, ..Self::new_scan(call, job, done) }
    }

    /// Queues the next page of the read.
    pub fn queue(self) {
        let dispatch = Arc::clone(&self.call.dispatch);
        let is_scan = self.is_scan;
        let task = Box::new(self);
        if is_scan { dispatch.executor.scan(task) } else { dispatch.executor.read(task, true) }
    }

    /// Returns whether the time limit of the read has passed.
    fn is_overdue(&self) -> bool {
        self.deadline.is_some_and(|deadline| self.call.dispatch.clock.remaining(deadline).is_zero())
    }

    /// Releases the exclusive right of the read, and replies.
    fn end(self, outcome: Result<BoxedOutput>) {
        let Self { call, done, slot, .. } = self;
        // Released before the reply, because the caller may start another long read immediately.
        drop(slot);
        let reply = outcome.map(|output| Reply::of(200, call.lsn(), output));
        call.finish(reply, done);
    }
}

/// Returns the error for a long read that has exceeded its time limit.
fn time_limit_error() -> Error {
    let secs = LONG_READ_MAX.as_secs();
    Error::new(
        Code::Overloaded,
        format!(
            "the read took longer than the limit of {secs} s; for an event log, use `svc verify`, which has \
             no limit"
        ),
    )
    .with("retry_after_secs", LONG_READ_MAX.as_secs())
}

impl Task for LongCall {
    fn source(&self) -> TaskSource {
        self.call.source()
    }

    fn bytes(&self) -> usize {
        self.call.bytes
    }

    fn is_abandoned(&self) -> bool {
        self.call.is_abandoned()
    }

    fn finish(mut self: Box<Self>, outcome: Result<()>) {
        match (outcome, self.output.take()) {
            (Ok(()), Some(output)) => self.end(Ok(output)),
            (Ok(()), None) => self.queue(),
            (Err(_), _) if self.is_overdue() => self.end(Err(time_limit_error())),
            (Err(error), _) => self.end(Err(error)),
        }
    }
}

impl ReadTask<ReaderCache> for LongCall {
    /// Reads the next page.
    fn run(&mut self, reader: &Reader<ReaderCache>) -> Result<()> {
        if self.is_overdue() {
            return Err(time_limit_error());
        }
        let stage = LongReadTransaction {
            reading: ReadTransaction::new(reader),
            is_download: self.deadline.is_none(),
            turn_deadline: self.turn_deadline,
            slot: RefCell::new(&mut self.slot),
        };
        self.output = pipeline::run(&stage, &mut self.call, &mut self.job)?;
        Ok(())
    }
}

/// The transaction of one page of a long read.
///
/// The transaction acquires the workspace's exclusive right only after checking that the caller may read.
struct LongReadTransaction<'r> {
    reading: ReadTransaction<'r, Option<BoxedOutput>>,
    is_download: bool,
    turn_deadline: Monotonic,
    slot: RefCell<&'r mut Option<LongReadSlot>>,
}

impl Stage for LongReadTransaction<'_> {
    type Job = LongJob;
    type Output = Option<BoxedOutput>;

    fn find_caller(&self, call: &Call) -> Result<VerifiedCaller> {
        self.reading.find_caller(call)
    }

    fn run_job(&self, call: &Call, job: &mut LongJob) -> Result<Option<BoxedOutput>> {
        let mut slot = self.slot.borrow_mut();
        if slot.is_none() {
            let workspace = call.access.charged_to();
            let taken = match self.is_download {
                true => LongReadSlot::acquire_for_export(&call.dispatch, workspace, self.turn_deadline)?,
                false => Some(LongReadSlot::acquire_for_read(&call.dispatch, workspace)?),
            };
            if taken.is_none() {
                // The export in progress reads its next page before this export tries again.
                return Ok(None);
            }
            **slot = taken;
        }
        self.reading.run_job(call, job)
    }
}

impl Dispatch {
    /// Returns the workspaces with an export in progress, or those with another long read in progress.
    fn workspaces_in_progress(&self, is_export: bool) -> &Mutex<BTreeSet<WorkspaceId>> {
        if is_export { &self.export_workspaces } else { &self.long_read_workspaces }
    }
}

/// A workspace's exclusive right to a long read or an export. Dropping it releases the right.
struct LongReadSlot {
    dispatch: Arc<Dispatch>,
    is_download: bool,
    workspace: WorkspaceId,
}

impl LongReadSlot {
    /// Acquires the right to a long read or an export, or returns `None` if the workspace already has one in
    /// progress.
    fn try_acquire(dispatch: &Arc<Dispatch>, is_download: bool, workspace: WorkspaceId) -> Option<Self> {
        let is_free = lock(dispatch.workspaces_in_progress(is_download)).insert(workspace);
        is_free.then(|| Self { dispatch: Arc::clone(dispatch), is_download, workspace })
    }

    /// Acquires the right to a long read. Fails if the workspace already has one in progress.
    fn acquire_for_read(dispatch: &Arc<Dispatch>, workspace: WorkspaceId) -> Result<Self> {
        Self::try_acquire(dispatch, false, workspace).ok_or_else(|| {
            Error::new(
                Code::RateLimited,
                "the workspace has a long read in progress, and only one is allowed",
            )
            .with("retry_after_secs", 1)
        })
    }

    /// Acquires the right to an export, or returns `None` while another export of the workspace runs. Fails
    /// after `turn_deadline`.
    fn acquire_for_export(
        dispatch: &Arc<Dispatch>,
        workspace: WorkspaceId,
        turn_deadline: Monotonic,
    ) -> Result<Option<Self>> {
        let taken = Self::try_acquire(dispatch, true, workspace);
        if taken.is_none() && dispatch.clock.remaining(turn_deadline).is_zero() {
            let detail = "the workspace has an export in progress, and only one is allowed";
            return Err(Error::new(Code::Overloaded, detail)
                .with("scope", "workspace")
                .with("retry_after_secs", EXPORT_WAIT_MAX.as_secs()));
        }
        Ok(taken)
    }
}

/// Maximum time for which an export waits until another export of the workspace ends.
const EXPORT_WAIT_MAX: Duration = Duration::from_secs(10);

impl Drop for LongReadSlot {
    fn drop(&mut self) {
        lock(self.dispatch.workspaces_in_progress(self.is_download)).remove(&self.workspace);
    }
}
