//! The permit to destroy content of a workspace.
//!
//! Every function that deletes content of members, or the keys that decrypt such content, takes a
//! [`DestroyPermit`]. A permit exists only in a transaction that has found no legal hold on the workspace.
//! Replacing a text needs no permit, because the server keeps the old text while the workspace is under a
//! hold.

use std::marker::PhantomData;

use uuid::Uuid;

use super::context::{Read, Write};
use crate::error::{Code, Error, Result};
use crate::id::{MessageId, WorkspaceId};

/// The permit to destroy content of the caller's workspace in this transaction.
#[derive(Debug)]
pub(crate) struct DestroyPermit<'a>(PhantomData<&'a ()>);

impl<'a> Write<'a> {
    /// Returns the permit to destroy content. Fails with 409 `legal-hold` while the workspace is under a
    /// legal hold.
    ///
    /// Placing a hold requires the lock on the workspace's head, like every change, so no hold can be placed
    /// before this transaction ends.
    pub(crate) fn permit(&self) -> Result<DestroyPermit<'a>> {
        if self.is_under_hold(self.caller().workspace_id)? {
            let held = "the workspace is under a legal hold, so nothing is destroyed";
            return Err(Error::new(Code::LegalHold, held));
        }
        Ok(DestroyPermit(PhantomData))
    }

    /// Stores a copy of a text before it is replaced, until the last legal hold of the workspace is released.
    ///
    /// Call this in the transaction that replaces the text, if the text is stored nowhere else. `kind` is the
    /// table of the text, `id` identifies the owner of the text, and `version` is a unique number of the
    /// text. Without a hold, nothing is stored.
    pub fn keep_replaced(&mut self, kind: &'static str, id: Uuid, version: i64, old: &str) -> Result<()> {
        let workspace = self.caller().workspace_id;
        let now = self.now();
        if !self.is_under_hold(workspace)? {
            return Ok(());
        }
        self.execute(1, KEEP_REPLACED, &[&workspace, &kind, &id, &version, &old, &now])
    }

    /// Removes the rows of all features that refer to the messages, before a purge removes the messages
    /// themselves.
    pub(crate) fn clean(&mut self, permit: &DestroyPermit<'_>, messages: &[MessageId]) -> Result<()> {
        self.table().cleaners().try_for_each(|cleaner| (cleaner.at_purge)(self, permit, messages))
    }

    /// Removes the rows of all features that refer to withdrawn messages, except rows that outlive a
    /// withdrawal.
    pub(crate) fn clean_references_to_withdrawn(
        &mut self,
        permit: &DestroyPermit<'_>,
        messages: &[MessageId],
    ) -> Result<()> {
        let mut cleaners = self.table().cleaners().filter_map(|cleaner| cleaner.at_withdrawal);
        cleaners.try_for_each(|run| run(self, permit, messages))
    }
}

impl Read<'_> {
    /// Returns whether a workspace is under a legal hold.
    pub(crate) fn is_under_hold(&self, workspace: WorkspaceId) -> Result<bool> {
        Ok(self.one::<(i64,)>(ACTIVE_HOLD, &[&workspace])?.is_some())
    }
}

const KEEP_REPLACED: &str = "
    insert into held_texts (workspace_id, kind, object_id, version, text, at)
    values ($1, $2, $3, $4, $5, $6)";

const ACTIVE_HOLD: &str = "select 1 from legal_holds where workspace_id = $1 and released_at is null limit 1";
