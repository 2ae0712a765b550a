//! Reads outside of operations, on behalf of an open connection or of a request that a shell answers.
//!
//! These reads pass through the same pipeline as a request. The start of a connection was counted and
//! recorded; further reads of the connection are not.

use std::sync::{Arc, Mutex};

use serde::Serialize;
use tokio::sync::oneshot;

use super::pipeline::Prepared;
use super::reading::ReadCall;
use super::service_work::pass_result_to;
use super::{Admission, Dispatch, ReplyCallback, RequestHandle, RunOn};
use crate::error::{Error, Result};
use crate::op::call::request::Input;
use crate::op::declare::job::ReadJob;
use crate::op::declare::operation::Operation;
use crate::op::run::context::Read;
use crate::sync::lock;

impl Dispatch {
    /// Runs a read on behalf of an admitted caller, with the rights that `operation` needs.
    ///
    /// A long read takes turns with other long reads, so that long reads do not delay quick ones.
    pub(crate) async fn read_for<T: Send + 'static>(
        self: &Arc<Self>,
        operation: &Arc<Operation>,
        admission: Admission,
        is_long: bool,
        mut run: impl FnMut(&Read<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let made = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&made);
        let job: ReadJob = Box::new(move |cx| {
            *lock(&slot) = Some(run(cx)?);
            Ok(Box::new(()))
        });
        let (sender, receiver) = oneshot::channel();
        let done = pass_result_to(made, move |outcome| {
            // If the connection has ended, the result has no receiver.
            let _ = sender.send(outcome);
        });
        let call = self.build_call(Some(operation), admission, &Input::default());
        self.executor.read(Box::new(ReadCall::new(call, Prepared::Ready(job), done)), is_long);
        receiver.await.map_err(Error::internal)?
    }

    /// Starts a quick read on behalf of an admitted caller, with the rights that `operation` needs.
    pub(crate) fn start_quick<O: Serialize + Send + 'static>(
        self: &Arc<Self>,
        operation: &Arc<Operation>,
        admission: Admission,
        read: fn(&Read<'_>) -> Result<O>,
        on: RunOn,
        done: ReplyCallback,
    ) -> RequestHandle {
        let call = self.build_call(Some(operation), admission, &Input::default());
        let abandoned = Arc::clone(&call.abandoned);
        let job: ReadJob = Box::new(move |cx| Ok(Box::new(read(cx)?)));
        let task = ReadCall::new(call, Prepared::Ready(job), done);
        RequestHandle { pending_flush: self.start_quick_read(Box::new(task), on), parked: None, abandoned }
    }
}
