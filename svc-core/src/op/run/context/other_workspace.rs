//! Changes in a workspace other than the caller's, or on behalf of another caller, in the same transaction.

use super::Write;
use crate::error::Result;
use crate::id::{MemberId, WorkspaceId};
use crate::op::call::caller::Caller;

impl Write<'_> {
    /// Runs `run` in this transaction in `workspace`, as one of its members or as an anonymous caller.
    ///
    /// For work without a credential, whose workspace a preflight read has found. Events, audit rows and
    /// cache entries of `run` belong to `workspace`, and are attributed to `acting_as`. The function must
    /// already have decided that this is allowed.
    pub fn within<T>(
        &mut self,
        workspace: WorkspaceId,
        acting_as: Option<MemberId>,
        run: impl FnOnce(&mut Write<'_>) -> Result<T>,
    ) -> Result<T> {
        // The cached data of the workspace is valid only for its current head.
        self.batch.borrow_mut().head(self.conn, workspace)?;
        let caller = Caller::acting_as(workspace, acting_as);
        run(&mut Write::new(self.conn, &caller, self.now, self.shared, self.batch))
    }

    /// Runs `run` in this transaction as the same caller, but in `workspace`.
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
