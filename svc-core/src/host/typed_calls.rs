//! Calls operations with inputs and outputs of Rust types, from within the process.

use serde::Serialize;

use crate::error::{Error, Result};
use crate::host::service::{Service, await_reply, block_on_reply};
use crate::id::WorkspaceId;
use crate::identity::whoami::{Bearer, WHOAMI, bearer};
use crate::op::{Admission, Reply, RequestHead, RunOn, Surface, TypedOperation};

/// The reply to a call of a typed operation.
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
        let operation = WHOAMI.operation(self.table())?;
        let start = |done| dispatch.start_quick(operation, admission, bearer, RunOn::Batched, done);
        TypedReply::from_reply(await_reply(start).await?)
    }
}

impl<I: Serialize + 'static, O: 'static> TypedOperation<I, O> {
    /// Admits a request for this operation by its head alone, as [`Service::admit`] does.
    pub async fn admit(self, service: &Service, head: RequestHead) -> Result<Admission> {
        Ok(service.admit(Some(self.operation(service.table())?), head).await?)
    }

    /// Calls this operation for an admitted caller. Dropping the future abandons a wait.
    pub async fn ask(self, service: &Service, admission: Admission, input: I) -> Result<TypedReply<O>> {
        let operation = self.operation(service.table())?;
        let dispatch = service.dispatch();
        let reply =
            await_reply(|done| dispatch.start_typed(operation, admission, input, RunOn::Batched, done))
                .await?;
        TypedReply::from_reply(reply)
    }

    /// Returns the error for an admitted caller whose input could not be read, as [`Service::refuse`] does.
    pub async fn refuse(self, service: &Service, admission: Admission, refusal: Error) -> Error {
        match self.operation(service.table()) {
            Ok(operation) => service.refuse(Some(operation), admission, refusal).await,
            Err(error) => error,
        }
    }

    /// Calls this operation with the rights of the machine's administrator, and blocks until it is done.
    pub fn call_as_instance(self, service: &Service, workspace: WorkspaceId, input: I) -> Result<O> {
        let operation = self.operation(service.table())?;
        let admission = Admission::of_instance(workspace, Surface::Cli);
        let dispatch = service.dispatch();
        let reply =
            block_on_reply(|done| dispatch.start_typed(operation, admission, input, RunOn::Caller, done))?;
        reply.output()
    }

    /// Calls this operation and blocks until it is done. Runs on this thread if the core is idle.
    ///
    /// An error in `input` is reported only if the credential is accepted.
    pub fn call(self, service: &Service, head: RequestHead, input: Result<I>) -> Result<TypedReply<O>> {
        let operation = self.operation(service.table())?;
        let admission = service.admit_blocking(operation, head)?;
        let dispatch = service.dispatch();
        let reply = block_on_reply(|done| match input {
            Ok(input) => dispatch.start_typed(operation, admission, input, RunOn::Caller, done),
            Err(refusal) => dispatch.refuse(Some(operation), admission, refusal, RunOn::Caller, done),
        })?;
        TypedReply::from_reply(reply)
    }
}
