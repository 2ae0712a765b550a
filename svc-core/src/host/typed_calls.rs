//! Calls operations with requests and outputs of Rust types, from within the process.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;

use crate::error::{Error, Result};
use crate::host::calls::Calls;
use crate::host::service::{Service, await_reply, block_on_reply};
use crate::id::WorkspaceId;
use crate::identity::whoami::{Bearer, bearer, whoami};
use crate::op::{Admission, Effect, Input, Operation, Reply, ReplyCallback, RequestHead, RunOn, Surface};
use crate::request::Request;
use crate::store::budget::interrupted_error;
use crate::time::Monotonic;

/// The reply to a call of an operation by type.
#[derive(Debug)]
pub struct TypedReply<O> {
    /// The output of the operation.
    pub output: O,
    /// The position that the log of the caller's workspace had reached, if the caller has a workspace.
    pub lsn: Option<i64>,
}

impl<O: 'static> TypedReply<O> {
    fn from_reply(reply: Reply) -> Result<Self> {
        let lsn = reply.lsn;
        Ok(Self { output: reply.output()?, lsn })
    }
}

impl Service {
    /// Returns the member, the workspace and the capabilities of an admitted caller, from the credential
    /// alone.
    ///
    /// Callers that are not members get the same error as from `whoami`.
    pub async fn bearer(&self, admission: Admission) -> Result<TypedReply<Bearer>> {
        let dispatch = self.dispatch();
        let operation = self.table().operation_of::<whoami::Whoami>()?;
        let start = |done| dispatch.start_quick(operation, admission, bearer, RunOn::Batched, done);
        TypedReply::from_reply(await_reply(start).await?)
    }

    /// Admits a request for the operation of `R` by its head alone, as [`Service::admit`] does.
    pub async fn admit_for<R: Request>(&self, head: RequestHead) -> Result<Admission> {
        Ok(self.admit(Some(self.table().operation_of::<R>()?), head).await?)
    }

    /// Returns the error for an admitted caller whose request for the operation of `R` could not be read, as
    /// [`Service::refuse`] does.
    pub async fn refuse_for<R: Request>(&self, admission: Admission, refusal: Error) -> Error {
        match self.table().operation_of::<R>() {
            Ok(operation) => self.refuse(Some(operation), admission, refusal).await,
            Err(error) => error,
        }
    }

    /// Calls an operation with the rights of the machine's administrator, and blocks until it is done.
    pub fn call_as_instance<R: Request>(&self, workspace: WorkspaceId, request: &R) -> Result<R::Output> {
        let operation = self.table().operation_of::<R>()?;
        let input = request.fields().input()?;
        let admission = Admission::of_instance(workspace, Surface::Cli);
        let start = |done| self.dispatch().start(operation, admission, &input, RunOn::Caller, done);
        block_on_reply(start)?.output()
    }

    /// Calls an operation and blocks until it is done. Runs on this thread if the core is idle.
    pub fn call_typed<R: Request>(&self, head: RequestHead, request: &R) -> Result<R::Output> {
        let operation = self.table().operation_of::<R>()?;
        self.call_blocking(operation, head, &request.fields().input()?)?.output()
    }

    /// Calls an operation and blocks until it is done, or until the service is closed.
    pub(crate) fn call_blocking(
        &self,
        operation: &Arc<Operation>,
        head: RequestHead,
        input: &Input,
    ) -> Result<Reply> {
        let mut call = self.calls().begin()?;
        let is_wait = operation.effect() == Effect::Wait;
        self.call_unchecked(operation, head, input, |done| if is_wait { call.as_wait(done) } else { done })
    }

    /// Calls an operation and blocks until it is done, also while the service is being closed.
    ///
    /// `wrap` returns the callback to pass to the core.
    pub(crate) fn call_unchecked(
        &self,
        operation: &Arc<Operation>,
        head: RequestHead,
        input: &Input,
        wrap: impl FnOnce(ReplyCallback) -> ReplyCallback,
    ) -> Result<Reply> {
        let admission = self.admit_blocking(operation, head)?;
        block_on_reply(|done| self.dispatch().start(operation, admission, input, RunOn::Caller, wrap(done)))
    }

    /// Calls an operation that waits, until `waits` or the service is closed.
    ///
    /// Returns the output, and the position of the log up to which the operation has read, or `None` if the
    /// operation has not ended by `deadline`.
    pub(crate) fn wait_until<R: Request>(
        &self,
        head: RequestHead,
        request: &R,
        waits: &Calls,
        deadline: Option<Monotonic>,
    ) -> Result<Option<(R::Output, Option<i64>)>> {
        let operation = self.table().operation_of::<R>()?;
        let input = request.fields().input()?;
        let (mut inner, mut outer) = (waits.begin()?, self.calls().begin()?);
        let admission = self.admit_blocking(operation, head)?;
        let (sender, receiver) = std::sync::mpsc::channel();
        let done: ReplyCallback = Box::new(move |outcome| {
            // After the deadline, the outcome has no receiver.
            let _ = sender.send(outcome);
        });
        let done = outer.as_wait(inner.as_wait(done));
        let handle = self.dispatch().start(operation, admission, &input, RunOn::Caller, done);
        let outcome = match deadline {
            None => receiver.recv().ok(),
            Some(deadline) => match receiver.recv_timeout(self.dispatch().clock.remaining(deadline)) {
                Err(RecvTimeoutError::Timeout) => return Ok(None),
                received => received.ok(),
            },
        };
        drop(handle);
        // The core drops a request without a reply only if the service shuts down.
        let reply = outcome.unwrap_or_else(|| Err(interrupted_error()))?;
        let lsn = reply.lsn;
        Ok(Some((reply.output()?, lsn)))
    }

    /// Calls an operation, without a runtime. Dropping the future abandons a wait.
    pub(crate) async fn call_awaited(
        &self,
        operation: &Arc<Operation>,
        head: RequestHead,
        input: Input,
    ) -> Result<Reply> {
        let mut call = self.calls().begin_async()?;
        let admission = self.admit(Some(operation), head).await?;
        if operation.http().takes_file || operation.run.slow_to_prepare {
            return self.call_on_thread(operation, admission, input).await;
        }
        await_reply(|done| {
            let done = if operation.effect() == Effect::Wait { call.as_wait(done) } else { done };
            self.dispatch().start(operation, admission, &input, RunOn::Batched, done)
        })
        .await
    }

    /// Runs an operation on a thread of its own, because preparing the call takes long.
    async fn call_on_thread(
        &self,
        operation: &Arc<Operation>,
        admission: Admission,
        input: Input,
    ) -> Result<Reply> {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let (service, operation) = (self.clone(), Arc::clone(operation));
        let body = move || {
            let start = |done| service.dispatch().start(&operation, admission, &input, RunOn::Pool, done);
            // If the caller has stopped waiting, the outcome has no receiver.
            let _ = sender.send(block_on_reply(start));
        };
        std::thread::Builder::new().name("svc-call".to_owned()).spawn(body).map_err(Error::internal)?;
        receiver.await.map_err(Error::internal)?
    }
}
