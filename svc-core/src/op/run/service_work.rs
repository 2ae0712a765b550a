//! Work of the service itself, without a request: reads and changes as the instance, through the same
//! pipeline as a request.

use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use super::call::{Call, ServiceWork};
use super::pipeline::Prepared;
use super::reading::ReadCall;
use super::tasks::WriteCall;
use super::{Dispatch, ReplyCallback, RunOn};
use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::op::call::caller::Surface;
use crate::op::declare::job::{Progress, ReadJob, WriteJob, WriteNeeds};
use crate::op::run::context::{Read, Write};
use crate::sync::lock;

impl Dispatch {
    /// Runs a change as the service itself on `workspace`, and waits for the result.
    pub(crate) fn change_as_instance<T: Send + 'static>(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        surface: Surface,
        mut run: impl FnMut(&mut Write<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let work = ServiceWork::on(workspace);
        run_and_wait(|result, done| {
            let job: WriteJob = Box::new(move |cx| {
                *lock(&result) = Some(run(cx)?);
                Ok(Progress::Done(Box::new(())))
            });
            let call = Call::instance(self, work, surface);
            let task = WriteCall::new(call, 200, job, WriteNeeds::default(), None, done);
            self.submit_change(task, RunOn::Caller);
        })
    }

    /// Runs a read as the service itself, and waits for the result.
    pub(crate) fn read_as_instance<T: Send + 'static>(
        self: &Arc<Self>,
        mut run: impl FnMut(&Read<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        run_and_wait(|result, done| {
            let job: ReadJob = Box::new(move |cx| {
                *lock(&result) = Some(run(cx)?);
                Ok(Box::new(()))
            });
            let call = Call::instance(self, ServiceWork::INSTANCE, Surface::System);
            self.submit_read(ReadCall::new(call, Prepared::Ready(job), done), RunOn::Caller);
        })
    }

    /// Queues a change as the service itself for a core thread. `done` is called with the result of the
    /// change.
    pub(crate) fn submit_change_as_instance<T: Send + 'static>(
        self: &Arc<Self>,
        work: ServiceWork,
        surface: Surface,
        mut run: impl FnMut(&mut Write<'_>) -> Result<T> + Send + 'static,
        done: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        let result = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&result);
        let job: WriteJob = Box::new(move |cx| {
            *lock(&slot) = Some(run(cx)?);
            Ok(Progress::Done(Box::new(())))
        });
        let call = Call::instance(self, work, surface);
        let task = WriteCall::new(call, 200, job, WriteNeeds::default(), None, pass_result_to(result, done));
        self.submit_change(task, RunOn::Pool);
    }

    /// Queues a read as the service itself for a core thread. `done` is called with the result of the read.
    pub(crate) fn submit_read_as_instance<T: Send + 'static>(
        self: &Arc<Self>,
        work: ServiceWork,
        run: impl FnMut(&Read<'_>) -> Result<T> + Send + 'static,
        done: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        self.submit_read(self.build_service_read(work, run, done), RunOn::Pool);
    }

    /// Runs a change as the service itself on a core thread, and returns its result.
    ///
    /// A change that has begun continues even if the returned future is dropped.
    pub(crate) async fn await_change<T: Send + 'static>(
        self: &Arc<Self>,
        work: ServiceWork,
        surface: Surface,
        run: impl FnMut(&mut Write<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (done, receiver) = oneshot::channel();
        self.submit_change_as_instance(work, surface, run, move |outcome| drop(done.send(outcome)));
        receiver.await.map_err(Error::internal)?
    }

    /// Runs a read as the service itself on a core thread, and returns the result.
    pub(crate) async fn await_read<T: Send + 'static>(
        self: &Arc<Self>,
        work: ServiceWork,
        run: impl FnMut(&Read<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (done, receiver) = oneshot::channel();
        self.submit_read_as_instance(work, run, move |outcome| drop(done.send(outcome)));
        receiver.await.map_err(Error::internal)?
    }

    /// Queues a read of the service's health, which does not wait for other reads. `done` is called with the
    /// result.
    pub(crate) fn submit_health<T: Send + 'static>(
        self: &Arc<Self>,
        run: impl FnMut(&Read<'_>) -> Result<T> + Send + 'static,
        done: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        self.executor.read_health(Box::new(self.build_service_read(ServiceWork::INSTANCE, run, done)));
    }

    /// Creates the task of a read as the service itself. `done` is called with the result of the read.
    fn build_service_read<T: Send + 'static>(
        self: &Arc<Self>,
        work: ServiceWork,
        mut run: impl FnMut(&Read<'_>) -> Result<T> + Send + 'static,
        done: impl FnOnce(Result<T>) + Send + 'static,
    ) -> ReadCall {
        let result = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&result);
        let job: ReadJob = Box::new(move |cx| {
            *lock(&slot) = Some(run(cx)?);
            Ok(Box::new(()))
        });
        let call = Call::instance(self, work, Surface::System);
        ReadCall::new(call, Prepared::Ready(job), pass_result_to(result, done))
    }
}

/// Returns a callback that passes the result of a job to `done`. The job stores the result in `result` before
/// the callback runs.
pub(super) fn pass_result_to<T: Send + 'static>(
    result: Arc<Mutex<Option<T>>>,
    done: impl FnOnce(Result<T>) + Send + 'static,
) -> ReplyCallback {
    Box::new(move |outcome| {
        let result = lock(&result).take();
        done(outcome.and_then(|_| result.ok_or_else(|| Error::internal("the job returned no result"))));
    })
}

/// Calls `start`, which submits a job to the core, waits for the end of the job, and returns its result. The
/// job stores the result in the slot that `start` receives.
fn run_and_wait<T>(start: impl FnOnce(Arc<Mutex<Option<T>>>, ReplyCallback)) -> Result<T> {
    let result = Arc::new(Mutex::new(None));
    let (sender, receiver) = std::sync::mpsc::channel();
    let done: ReplyCallback = Box::new(move |outcome| {
        // The caller waits below, so the receiver still exists.
        let _ = sender.send(outcome.map(|_| ()));
    });
    start(Arc::clone(&result), done);
    receiver.recv().map_err(Error::internal)??;
    lock(&result).take().ok_or_else(|| Error::internal("the job returned no result"))
}
