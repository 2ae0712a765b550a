//! The permit to destroy content of a workspace.
//!
//! Every function that deletes content of members, or the keys that decrypt it, takes a [`DestroyPermit`]. A
//! permit exists only in a transaction that has found no legal hold on the workspace. Replacing a text needs
//! no permit: the old text is kept while there is a hold.

use std::marker::PhantomData;

use uuid::Uuid;

use super::context::{Read, Write};
use crate::error::{Code, Error, Result};
use crate::id::{MessageId, WorkspaceId};

/// The permit to destroy content of the caller's workspace in this transaction.
#[derive(Debug)]
pub(crate) struct DestroyPermit<'a>(PhantomData<&'a ()>);

impl<'a> Write<'a> {
    /// Returns the permit. Fails with 409 `legal-hold` while the workspace has a hold.
    ///
    /// Holds are placed under the lock on the workspace's head, like every change, so none can be placed
    /// before this transaction ends.
    pub(crate) fn permit(&self) -> Result<DestroyPermit<'a>> {
        if self.is_under_hold(self.caller().workspace_id)? {
            let held = "the workspace is under a legal hold, so nothing is destroyed";
            return Err(Error::new(Code::LegalHold, held));
        }
        Ok(DestroyPermit(PhantomData))
    }

    /// Keeps a text that is about to be replaced, until the last hold of the workspace is released.
    ///
    /// Call it in the transaction that replaces the text, if the text is stored nowhere else. `kind` is the
    /// table of the text, `id` its owner, and `version` its number, which must be unique. Does nothing
    /// without a hold.
    pub fn keep_replaced(&mut self, kind: &'static str, id: Uuid, version: i64, old: &str) -> Result<()> {
        let workspace = self.caller().workspace_id;
        let now = self.now();
        if !self.is_under_hold(workspace)? {
            return Ok(());
        }
        self.execute(1, KEEP_REPLACED, &[&workspace, &kind, &id, &version, &old, &now])
    }

    /// Removes the rows of all features that refer to messages which are about to be removed.
    pub(crate) fn clean(&mut self, permit: &DestroyPermit<'_>, messages: &[MessageId]) -> Result<()> {
        self.table().cleaners().try_for_each(|cleaner| (cleaner.at_purge)(self, permit, messages))
    }

    /// Removes the rows of all features that refer to withdrawn messages, unless they must be kept.
    pub(crate) fn clean_withdrawn(
        &mut self,
        permit: &DestroyPermit<'_>,
        messages: &[MessageId],
    ) -> Result<()> {
        let mut cleaners = self.table().cleaners().filter_map(|cleaner| cleaner.at_withdrawal);
        cleaners.try_for_each(|clean| clean(self, permit, messages))
    }
}

impl Read<'_> {
    /// Returns whether a workspace is under a legal hold, using the index of active holds.
    pub(crate) fn is_under_hold(&self, workspace: WorkspaceId) -> Result<bool> {
        Ok(self.one::<(i64,)>(HELD, &[&workspace])?.is_some())
    }
}

const KEEP_REPLACED: &str = "
    insert into held_texts (workspace_id, kind, object_id, version, text, at)
    values ($1, $2, $3, $4, $5, $6)";

const HELD: &str = "select 1 from legal_holds where workspace_id = $1 and released_at is null limit 1";
