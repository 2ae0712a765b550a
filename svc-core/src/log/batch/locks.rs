//! Locks the heads of a batch's workspaces on Postgres, where several servers write.
//!
//! The server that has locked a head row assigns the positions of its log. As long as any head is free, heads
//! that other servers have locked are left for a later batch, so that one busy workspace does not delay the
//! others.

use std::collections::BTreeSet;

use super::{Batch, Head};
use crate::Result;
use crate::id::WorkspaceId;
use crate::limits::LOCKED_WORKSPACE_WAIT_MAX;
use crate::store::executor::LockedWorkspaces;
use crate::store::{Conn, Row};

macro_rules! lock_heads {
    ($wait:literal) => {
        concat!(
            "select workspace_id, lsn, hash, at, audit_seq, epoch, rules_epoch,
                    cast(extract(epoch from clock_timestamp()) * 1000000 as bigint)
             from heads where workspace_id = any($1) order by workspace_id for update",
            $wait
        )
    };
}

const LOCK_FREE_HEADS: &str = lock_heads!(" skip locked");

const LOCK_HEADS: &str = lock_heads!("");

const SELECT_EXISTING_HEADS: &str = "select workspace_id from heads where workspace_id = any($1)";

const SET_LOCK_TIMEOUT: &str = "select set_config('lock_timeout', $1, true)";

const RESET_LOCK_TIMEOUT: &str = "set local lock_timeout to default";

/// Locks the heads of a batch in the order of the workspace ids, so that servers cannot deadlock.
impl Batch {
    /// Locks the free heads of the workspaces `wanted`.
    ///
    /// If no head is free, waits a short time for all of them, unless `if_locked` is
    /// [`LockedWorkspaces::Skip`].
    /// Returns the workspaces whose heads other servers have locked.
    pub(super) fn lock_heads(
        &mut self,
        conn: &Conn,
        wanted: &BTreeSet<WorkspaceId>,
        if_locked: LockedWorkspaces,
    ) -> Result<BTreeSet<WorkspaceId>> {
        self.load_heads(conn, LOCK_FREE_HEADS, wanted)?;
        let mut missing = self.workspaces_without_head(wanted);
        if missing.len() == wanted.len() && !missing.is_empty() && if_locked == LockedWorkspaces::Wait {
            conn.query(SET_LOCK_TIMEOUT, &[&format!("{}ms", LOCKED_WORKSPACE_WAIT_MAX.as_millis())])?;
            self.load_heads(conn, LOCK_HEADS, wanted)?;
            conn.defer(None, RESET_LOCK_TIMEOUT, &[])?;
            missing = self.workspaces_without_head(wanted);
        }
        if missing.is_empty() {
            return Ok(missing);
        }
        let ids: Vec<uuid::Uuid> = missing.iter().map(|id| id.uuid()).collect();
        conn.query(SELECT_EXISTING_HEADS, &[&ids])?.iter_mut().map(Row::take).collect()
    }

    /// Returns those of the workspaces `wanted` whose heads are not loaded.
    fn workspaces_without_head(&self, wanted: &BTreeSet<WorkspaceId>) -> BTreeSet<WorkspaceId> {
        wanted.iter().filter(|id| !self.heads.contains_key(id)).copied().collect()
    }

    /// Runs `sql`, one of the statements that lock heads, and keeps the heads that it returns.
    fn load_heads(&mut self, conn: &Conn, sql: &'static str, wanted: &BTreeSet<WorkspaceId>) -> Result<()> {
        let ids: Vec<uuid::Uuid> = wanted.iter().map(|id| id.uuid()).collect();
        let asked = self.clock.monotonic();
        for row in &mut conn.query(sql, &[&ids])? {
            let workspace: WorkspaceId = row.take()?;
            let head = Head::take_from(row)?;
            self.clock.follow_database(row.take()?, asked);
            self.cache.drop_outdated(workspace, head.epochs);
            self.heads.insert(workspace, head);
        }
        Ok(())
    }
}
