//! Long reads, which read one page at a time.
//!
//! Each page is a separate read, which authenticates again and then goes to the end of the queue. So the long
//! reads of several workspaces take turns, and none delays reads that wait for older transactions to end.
//! Only one long read runs per workspace at a time, for a limited time, and only one export, without a time
//! limit.

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

/// A long read between two of its pages.
pub(super) struct LongCall {
    call: Call,
    job: Prepared<LongJob>,
    done: ReplyCallback,
    /// Whether a page of the read may take long.
    scans: bool,
    /// The time at which the read must end, or `None` without a time limit.
    deadline: Option<Monotonic>,
    /// The time until which a read that writes a file waits for its turn.
    turn_by: Monotonic,
    /// The workspace's exclusive right to a long read, taken with the first page.
    exclusive: Option<LongReadSlot>,
    /// The output that the last page returned, or `None` while there are more pages.
    output: Option<BoxedOutput>,
}

impl LongCall {
    pub fn new(call: Call, job: Prepared<LongJob>, done: ReplyCallback) -> Self {
        let deadline = call.dispatch.clock.deadline(LONG_READ_MAX);
        let (deadline, turn_by) = (Some(deadline), deadline);
        Self { call, job, done, scans: false, deadline, turn_by, exclusive: None, output: None }
    }

    /// Creates a long read whose pages have no time limit.
    pub fn scan(call: Call, job: Prepared<LongJob>, done: ReplyCallback) -> Self {
        Self { scans: true, ..Self::new(call, job, done) }
    }

    /// Creates a long read that writes a file.
    pub fn download(call: Call, job: Prepared<LongJob>, done: ReplyCallback) -> Self {
        let turn_by = call.dispatch.clock.deadline(DOWNLOAD_WAIT);
        Self { deadline: None, turn_by, ..Self::scan(call, job, done) }
    }

    /// Queues the next page of the read.
    pub fn queue(self) {
        let dispatch = Arc::clone(&self.call.dispatch);
        let scans = self.scans;
        let task = Box::new(self);
        if scans { dispatch.executor.scan(task) } else { dispatch.executor.read(task, true) }
    }

    fn is_overdue(&self) -> bool {
        self.deadline.is_some_and(|deadline| self.call.dispatch.clock.remaining(deadline).is_zero())
    }

    fn end(self, outcome: Result<BoxedOutput>) {
        let Self { call, done, exclusive, .. } = self;
        // Released before the reply, because the caller may start another long read at once.
        drop(exclusive);
        let reply = outcome.map(|output| Reply::of(200, call.lsn(), output));
        call.finish(reply, done);
    }
}

fn overdue() -> Error {
    let secs = LONG_READ_MAX.as_secs();
    Error::new(
        Code::Overloaded,
        format!(
            "there is more to read than {secs} s allow; for an event log, use `svc verify`, which has no \
             limit"
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
            (Err(_), _) if self.is_overdue() => self.end(Err(overdue())),
            (Err(error), _) => self.end(Err(error)),
        }
    }
}

impl ReadTask<ReaderCache> for LongCall {
    /// Reads the next page.
    fn run(&mut self, reader: &Reader<ReaderCache>) -> Result<()> {
        if self.is_overdue() {
            return Err(overdue());
        }
        let stage = ReadingLong {
            reading: ReadTransaction::on(reader),
            is_download: self.deadline.is_none(),
            turn_by: self.turn_by,
            exclusive: RefCell::new(&mut self.exclusive),
        };
        self.output = pipeline::run(&stage, &mut self.call, &mut self.job)?;
        Ok(())
    }
}

/// The transaction of one page of a long read.
///
/// It takes the workspace's turn only after checking that the caller may read.
struct ReadingLong<'r> {
    reading: ReadTransaction<'r, Option<BoxedOutput>>,
    is_download: bool,
    turn_by: Monotonic,
    exclusive: RefCell<&'r mut Option<LongReadSlot>>,
}

impl Stage for ReadingLong<'_> {
    type Job = LongJob;
    type Output = Option<BoxedOutput>;

    fn find(&self, call: &Call) -> Result<VerifiedCaller> {
        self.reading.find(call)
    }

    fn perform(&self, call: &Call, job: &mut LongJob) -> Result<Option<BoxedOutput>> {
        let mut exclusive = self.exclusive.borrow_mut();
        if exclusive.is_none() {
            let workspace = call.access.charged_to();
            let taken = match self.is_download {
                true => LongReadSlot::download(&call.dispatch, workspace, self.turn_by)?,
                false => Some(LongReadSlot::long_read(&call.dispatch, workspace)?),
            };
            if taken.is_none() {
                // The read that holds the turn reads its next page before this read tries again.
                return Ok(None);
            }
            **exclusive = taken;
        }
        self.reading.perform(call, job)
    }
}

impl Dispatch {
    /// Returns the workspaces that have an export in progress, or those with another long read.
    fn in_progress(&self, exports: bool) -> &Mutex<BTreeSet<WorkspaceId>> {
        if exports { &self.exporting } else { &self.reading_long }
    }
}

/// A workspace's exclusive right to a long read or an export. Dropping it releases the right.
struct LongReadSlot {
    dispatch: Arc<Dispatch>,
    is_download: bool,
    workspace: WorkspaceId,
}

impl LongReadSlot {
    /// Takes the right to a long read or an export, or returns `None` if the workspace already has one in
    /// progress.
    fn take(dispatch: &Arc<Dispatch>, is_download: bool, workspace: WorkspaceId) -> Option<Self> {
        let is_free = lock(dispatch.in_progress(is_download)).insert(workspace);
        is_free.then(|| Self { dispatch: Arc::clone(dispatch), is_download, workspace })
    }

    fn long_read(dispatch: &Arc<Dispatch>, workspace: WorkspaceId) -> Result<Self> {
        Self::take(dispatch, false, workspace).ok_or_else(|| {
            Error::new(
                Code::RateLimited,
                "the workspace has a long read in progress, and only one is allowed",
            )
            .with("retry_after_secs", 1)
        })
    }

    /// Takes the right to an export, or returns `None` while another export of the workspace runs. Fails
    /// after `turn_by`.
    fn download(
        dispatch: &Arc<Dispatch>,
        workspace: WorkspaceId,
        turn_by: Monotonic,
    ) -> Result<Option<Self>> {
        let taken = Self::take(dispatch, true, workspace);
        if taken.is_none() && dispatch.clock.remaining(turn_by).is_zero() {
            let detail = "the workspace has an export in progress, and only one is allowed";
            return Err(Error::new(Code::Overloaded, detail)
                .with("scope", "workspace")
                .with("retry_after_secs", DOWNLOAD_WAIT.as_secs()));
        }
        Ok(taken)
    }
}

/// How long an export waits while another export of the workspace runs.
const DOWNLOAD_WAIT: Duration = Duration::from_secs(10);

impl Drop for LongReadSlot {
    fn drop(&mut self) {
        lock(self.dispatch.in_progress(self.is_download)).remove(&self.workspace);
    }
}
