//! Changes that no credential places: a read finds their workspace before they are queued.
//!
//! So the writer locks the log of that workspace with those of its batch, in their order, as it does for the
//! home of a credential.

use std::sync::Arc;

use super::call::Call;
use super::pipeline::{self, Prepared};
use super::tasks::{Reading, WriteCall};
use super::{Dispatch, Done, RunOn};
use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::log::cache::ReaderCache;
use crate::op::declare::job::{HomedJob, Progress, ReadingJob, Wants};
use crate::store::executor::{ReadTask, Reader, Task};

/// The read that finds the workspace of a change.
pub(super) struct HomeCall {
    pub call: Call,
    pub status: u16,
    pub home: Prepared<ReadingJob<WorkspaceId>>,
    pub job: HomedJob,
    pub done: Done,
}

impl Dispatch {
    /// Finds the workspace of a change, and then runs the change.
    pub(super) fn change_at_home(&self, task: HomeCall, on: RunOn) {
        match on {
            RunOn::Pool | RunOn::Batched => self.executor.read(Box::new(task), false),
            RunOn::Caller => self.executor.read_inline(Box::new(task)),
        }
    }
}

impl ReadTask<ReaderCache> for HomeCall {
    fn run(&mut self, reader: &Reader<ReaderCache>) -> Result<()> {
        self.call.home = None;
        self.call.home = Some(pipeline::run(&Reading::on(reader), &mut self.call, &mut self.home)?);
        Ok(())
    }
}

impl Task for HomeCall {
    fn bytes(&self) -> usize {
        self.call.bytes
    }

    fn is_abandoned(&self) -> bool {
        self.call.is_abandoned()
    }

    fn finish(self: Box<Self>, outcome: Result<()>) {
        let Self { call, status, job, done, .. } = *self;
        let found = || call.home.ok_or_else(|| Error::internal("a change has no workspace"));
        match outcome.and_then(|()| found()) {
            Ok(workspace) => {
                let dispatch = Arc::clone(&call.dispatch);
                let (job, wants) = (Prepared::Ready(job(workspace)), Wants::default());
                let progress = Progress::Again;
                let task = WriteCall { call, status, job, wants, thread: None, progress, done };
                dispatch.executor.write(Box::new(task));
            }
            Err(error) => call.finish(Err(error), done),
        }
    }
}
