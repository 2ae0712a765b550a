//! A long read on its way: each page is a read of its own, which authenticates again and then goes to the end of the
//! queue, so that those of several workspaces take turns and none holds back whoever waits for older transactions to
//! end. One at a time for a workspace, and for a limited time.

use std::sync::Arc;

use super::context::Read;
use super::dispatch::{Call, Dispatch, Done, Entered, Reply};
use super::row::{Answer, LongJob};
use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::limits::LONG_READ_MAX;
use crate::log::memo::Notes;
use crate::store::executor::{ReadTask, Reader, Task, lock};
use crate::time::Monotonic;

/// One long read, between two of its pages.
pub(super) struct LongCall {
    call: Call,
    job: LongJob,
    done: Done,
    deadline: Monotonic,
    /// Taken with the first page.
    turn: Option<Turn>,
    /// The caller as the last page found it.
    entered: Option<Entered>,
    /// What the last page answered; nothing while there are more.
    answer: Option<Answer>,
}

impl LongCall {
    pub fn new(call: Call, job: LongJob, done: Done) -> Self {
        let deadline = call.dispatch.clock.deadline(LONG_READ_MAX);
        Self { call, job, done, deadline, turn: None, entered: None, answer: None }
    }

    fn is_overdue(&self) -> bool {
        self.call.dispatch.clock.remaining(self.deadline).is_zero()
    }

    fn end(self, outcome: Result<Answer>) {
        let Self { call, done, turn, entered, .. } = self;
        // Whoever hears the answer may ask again at once.
        drop(turn);
        let lsn = entered.as_ref().and_then(|entered| entered.lsn);
        let outcome = match outcome {
            Ok(answer) => Ok(Reply::of(200, lsn, answer)),
            Err(error) => Err(error.seen_at(lsn)),
        };
        call.answer(entered.as_ref().map(|entered| &entered.caller), outcome, done);
    }
}

fn overdue() -> Error {
    let secs = LONG_READ_MAX.as_secs();
    Error::new(
        Code::Overloaded,
        format!(
            "there is more to read than {secs} s allow; for an event log use `svc verify`, which has no limit"
        ),
    )
}

impl Task for LongCall {
    fn bytes(&self) -> usize {
        self.call.bytes
    }

    fn is_abandoned(&self) -> bool {
        self.call.is_abandoned()
    }

    fn finish(mut self: Box<Self>, outcome: Result<()>) {
        match (outcome, self.answer.take()) {
            (Ok(()), Some(answer)) => self.end(Ok(answer)),
            (Ok(()), None) => {
                let dispatch = Arc::clone(&self.call.dispatch);
                dispatch.executor.read(self, true);
            }
            (Err(_), _) if self.is_overdue() => self.end(Err(overdue())),
            (Err(error), _) => self.end(Err(error)),
        }
    }
}

impl ReadTask<Notes> for LongCall {
    /// Reads a page.
    fn run(&mut self, reader: &Reader<Notes>) -> Result<()> {
        if self.is_overdue() {
            return Err(overdue());
        }
        let entered = self.entered.insert(self.call.enter(reader)?);
        if self.turn.is_none() {
            self.turn = Some(Turn::take(&self.call.dispatch, entered.caller.workspace_id)?);
        }
        let cx = Read::new(reader, &entered.caller, entered.now, &self.call.dispatch.ambient);
        self.answer = (self.job)(&cx)?;
        Ok(())
    }
}

/// A workspace's turn to read for long; it ends when this is dropped.
struct Turn {
    dispatch: Arc<Dispatch>,
    workspace_id: WorkspaceId,
}

impl Turn {
    fn take(dispatch: &Arc<Dispatch>, workspace_id: WorkspaceId) -> Result<Self> {
        if !lock(&dispatch.reading_long).insert(workspace_id) {
            return Err(Error::new(
                Code::RateLimited,
                "the workspace is being read at length already, and that one at a time; try again in 1 s",
            )
            .with("retry_after_secs", 1));
        }
        Ok(Self { dispatch: Arc::clone(dispatch), workspace_id })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        lock(&self.dispatch.reading_long).remove(&self.workspace_id);
    }
}
