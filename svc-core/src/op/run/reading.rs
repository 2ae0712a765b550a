//! Tasks of the executor that run reads.
//!
//! Each read passes through the pipeline inside its transaction. The reply is sent after the transaction.

use std::marker::PhantomData;
use std::sync::Arc;

use super::call::{Call, VerifiedCaller};
use super::pipeline::{self, Prepared, Stage};
use super::{Reply, ReplyCallback};
use crate::error::{Error, Result};
use crate::log::cache::ReaderCache;
use crate::op::declare::job::{BoxedOutput, ReadJob, ReadingJob};
use crate::op::run::context::Read;
use crate::store::executor::{ReadTask, Reader, Task, TaskSource};

/// A reader's transaction, for functions that return a `T`.
pub(in crate::op) struct ReadTransaction<'r, T> {
    reader: &'r Reader<ReaderCache>,
    returns: PhantomData<fn() -> T>,
}

impl<'r, T> ReadTransaction<'r, T> {
    pub fn new(reader: &'r Reader<ReaderCache>) -> Self {
        Self { reader, returns: PhantomData }
    }
}

impl<T> Stage for ReadTransaction<'_, T> {
    type Job = ReadingJob<T>;
    type Output = T;

    fn find_caller(&self, call: &Call) -> Result<VerifiedCaller> {
        call.find_caller_for_read(self.reader)
    }

    fn run_job(&self, call: &Call, job: &mut ReadingJob<T>) -> Result<T> {
        let VerifiedCaller { caller, now, .. } = call.verified_caller()?;
        let cx = Read::new(self.reader, caller, *now, &call.dispatch.shared);
        job(&cx.with_charged_to(call.access.charged_to()))
    }
}

/// A read request as a task of a reader.
pub(super) struct ReadCall {
    call: Call,
    job: Prepared<ReadJob>,
    done: ReplyCallback,
    output: Option<BoxedOutput>,
}

impl ReadCall {
    pub fn new(call: Call, job: Prepared<ReadJob>, done: ReplyCallback) -> Self {
        Self { call, job, done, output: None }
    }
}

impl ReadTask<ReaderCache> for ReadCall {
    fn run(&mut self, reader: &Reader<ReaderCache>) -> Result<()> {
        self.output = None;
        self.output = Some(pipeline::run(&ReadTransaction::new(reader), &mut self.call, &mut self.job)?);
        Ok(())
    }
}

impl Task for ReadCall {
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
        let Self { call, done, output, .. } = *self;
        let output =
            outcome.and_then(|()| output.ok_or_else(|| Error::internal("a read ended without an output")));
        let reply = output.map(|output| Reply::of(200, call.lsn(), output));
        call.finish(reply, done);
    }
}

/// Replies to a repeat of a change: a read produces the answer from the stored data of the first answer.
pub(super) fn reply_to_repeat(mut call: Call, status: u16, stored_data: String, done: ReplyCallback) {
    let Some(keyed) = call.keyed.take() else { return done(Err(Error::internal("a repeat has no key"))) };
    let done: ReplyCallback = Box::new(move |outcome| done(outcome.map(|reply| reply.repeated(status))));
    let dispatch = Arc::clone(&call.dispatch);
    dispatch
        .executor
        .read(Box::new(ReadCall::new(call, Prepared::Ready(keyed.answer_repeat(stored_data)), done)), false);
}
