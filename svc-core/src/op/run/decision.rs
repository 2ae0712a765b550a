//! The audit rows of a request that changed nothing.

use std::cell::RefCell;
use std::sync::Arc;

use super::Dispatch;
use super::audit::Origin;
use crate::error::Result;
use crate::id::WorkspaceId;
use crate::log::batch::Batch;
use crate::op::call::caller::Caller;
use crate::op::run::context::Write;
use crate::store::Conn;
use crate::store::executor::{Task, TaskSource, WriteTask};

/// A task that writes the audit rows of a request without changes.
///
/// The reply is sent once the rows are durable.
pub(super) struct AuditDecision {
    pub dispatch: Arc<Dispatch>,
    pub source: TaskSource,
    pub caller: Caller,
    pub origin: Origin,
    pub bytes: usize,
    /// Action of the named audit row to write, if the operation always leaves one.
    pub audited: Option<&'static str>,
    /// Name of the error code if the request was rejected.
    pub refused: Option<&'static str>,
    pub done: Box<dyn FnOnce(Result<()>) + Send>,
}

impl WriteTask<Batch> for AuditDecision {
    fn home(&self) -> WorkspaceId {
        self.caller.workspace_id
    }

    fn workspaces(&self) -> Vec<WorkspaceId> {
        vec![self.caller.workspace_id]
    }

    fn run(&mut self, conn: &Conn, batch: &RefCell<Batch>) -> Result<()> {
        let now = batch.borrow().now();
        let mut cx = Write::new(conn, &self.caller, now, &self.dispatch.shared, batch);
        if let Some(action) = self.audited {
            cx.audit(action, self.origin.named_metadata())?;
        }
        if self.caller.grant.is_none() {
            return Ok(());
        }
        cx.audit("authorization.decision", self.origin.decision_metadata(self.refused))
    }
}

impl Task for AuditDecision {
    fn source(&self) -> TaskSource {
        self.source
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns `false`: the audit row is written even if the caller no longer waits.
    fn is_abandoned(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>, outcome: Result<()>) {
        (self.done)(outcome);
    }
}
