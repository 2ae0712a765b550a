//! A batch state for tests: the sum of the numbers of a batch's tasks.
//!
//! The sum is written together with the numbers, so that rows and sum agree if batches work correctly.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::{BatchState, LockedWorkspaces, ReaderState};
use crate::error::Result;
use crate::id::WorkspaceId;
use crate::store::conn::Conn;

/// The sum of the numbers in a batch.
#[derive(Default)]
pub(in crate::store) struct Tally {
    batch: i64,
    /// The sum before the running task.
    before_task: i64,
    /// The workspaces that another server has locked.
    pub locked: BTreeSet<WorkspaceId>,
}

impl Tally {
    /// Adds the number of the running task.
    pub fn add(&mut self, number: i64) {
        self.batch += number;
    }
}

impl ReaderState for () {
    fn begin(&mut self) {}
}

impl BatchState for Tally {
    type ReaderState = ();

    fn begin(
        &mut self,
        _: &Conn,
        workspaces: &BTreeSet<WorkspaceId>,
        _: bool,
        _: LockedWorkspaces,
    ) -> Result<BTreeSet<WorkspaceId>> {
        self.batch = 0;
        Ok(workspaces & &self.locked)
    }

    fn begin_task(&mut self) {
        self.before_task = self.batch;
    }

    fn undo_task(&mut self, _: bool) {
        self.batch = self.before_task;
    }

    fn flush(&mut self, conn: &Conn) -> Result<()> {
        conn.defer(Some(1), "update tally set total = total + $1", &[&self.batch])
    }

    fn committed_lsns(&self) -> BTreeMap<Uuid, i64> {
        BTreeMap::new()
    }

    fn committed(&mut self) {}

    fn rolled_back(&mut self) {}
}
