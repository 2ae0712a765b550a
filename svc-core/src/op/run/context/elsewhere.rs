//! Changes in another workspace than the caller's, or as another caller, in the same transaction.

use super::Write;
use crate::error::Result;
use crate::id::{MemberId, WorkspaceId};
use crate::op::call::caller::Caller;

impl Write<'_> {
    /// Runs `run` in this transaction in `workspace`, as one of its members or as nobody.
    ///
    /// For what no credential asks for: a function whose workspace a preflight found before it was queued.
    /// What is emitted, audited and cached meanwhile belongs to the workspace, and is attributed to
    /// `acting_as`. Whether that is allowed has been decided by the function.
    pub fn within<T>(
        &mut self,
        workspace: WorkspaceId,
        acting_as: Option<MemberId>,
        run: impl FnOnce(&mut Write<'_>) -> Result<T>,
    ) -> Result<T> {
        // What is cached of the workspace counts only as of its head.
        self.batch.borrow_mut().head(self.conn, workspace)?;
        let caller = Caller::acting_as(workspace, acting_as);
        run(&mut Write::new(self.conn, &caller, self.now, self.shared, self.batch))
    }

    /// Runs `run` in this transaction as the caller, but in `workspace`.
    pub(crate) fn in_workspace<T>(
        &mut self,
        workspace: WorkspaceId,
        run: impl FnOnce(&mut Write<'_>) -> Result<T>,
    ) -> Result<T> {
        if self.caller.workspace_id == workspace {
            return run(self);
        }
        let mut caller = self.caller.clone();
        caller.workspace_id = workspace;
        run(&mut Write::new(self.conn, &caller, self.now, self.shared, self.batch))
    }
}
