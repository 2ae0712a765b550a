//! What the jobs of a writer have read and later ones need not read again.
//!
//! While a batch runs, nobody else writes to its workspaces, so what was read stays true until a job of the
//! batch changes it. Each change is reported to the memos of its workspace: a statement by the tables that it
//! names, a row by its key. After the commit they stay true until somebody else has moved a head of the
//! workspace's logs, which every change does. A job that fails after a change ends them.

use std::any::{Any, TypeId};
use std::collections::HashMap;

use uuid::Uuid;

use crate::id::{ThreadId, WorkspaceId};
use crate::store::{RowWrite, names_any};

/// Something that jobs have read of a workspace.
pub trait BatchMemo: Any + Default + Send {
    /// The tables that it was read from.
    const TABLES: &'static [&'static str];

    /// Forgets what any change of the tables may have made untrue.
    fn changed(&mut self);

    /// Forgets what the change of one row of its tables has made untrue.
    fn row_changed(&mut self, write: &'static RowWrite, key: Uuid);

    /// Called after the commit: forgets what later batches do not need.
    fn committed(&mut self) {}
}

/// A memo of any type.
trait AnyMemo: Send {
    fn after_statement(&mut self, sql: &str);
    fn after_row(&mut self, write: &'static RowWrite, key: Uuid);
    fn after_commit(&mut self);
    fn as_any(&mut self) -> &mut dyn Any;
}

impl<T: BatchMemo> AnyMemo for T {
    fn after_statement(&mut self, sql: &str) {
        if names_any(sql, T::TABLES) {
            self.changed();
        }
    }

    fn after_row(&mut self, write: &'static RowWrite, key: Uuid) {
        if T::TABLES.contains(&write.table) {
            self.row_changed(write, key);
        }
    }

    fn after_commit(&mut self) {
        self.committed();
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

type OfWorkspace = HashMap<TypeId, Box<dyn AnyMemo>>;

/// The memos of a writer.
#[derive(Default)]
pub(crate) struct Memos {
    workspaces: HashMap<WorkspaceId, OfWorkspace>,
    /// Whether the running job has changed anything.
    has_changed: bool,
}

/// Most workspaces whose memos outlast a batch.
const WORKSPACES_MAX: usize = 64;

impl Memos {
    /// Returns what `run` returns of a workspace's memo of its type.
    pub fn with<T: BatchMemo, R>(
        &mut self,
        workspace: WorkspaceId,
        run: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let memos = self.workspaces.entry(workspace).or_default();
        let memo = memos.entry(TypeId::of::<T>()).or_insert_with(|| Box::new(T::default()));
        memo.as_any().downcast_mut::<T>().map(run)
    }

    pub fn after_statement(&mut self, workspace: WorkspaceId, sql: &str) {
        self.has_changed = true;
        if let Some(memos) = self.workspaces.get_mut(&workspace) {
            memos.values_mut().for_each(|memo| memo.after_statement(sql));
        }
    }

    pub fn after_row(&mut self, workspace: WorkspaceId, write: &'static RowWrite, key: Uuid) {
        self.has_changed = true;
        if let Some(memos) = self.workspaces.get_mut(&workspace) {
            memos.values_mut().for_each(|memo| memo.after_row(write, key));
        }
    }

    pub fn begin_job(&mut self) {
        self.has_changed = false;
    }

    /// Forgets all if the failed job has changed anything.
    pub fn undo_job(&mut self) {
        if self.has_changed {
            self.clear();
        }
    }

    pub fn committed(&mut self) {
        if self.workspaces.len() > WORKSPACES_MAX {
            self.clear();
        }
        let memos = self.workspaces.values_mut().flat_map(HashMap::values_mut);
        memos.for_each(|memo| memo.after_commit());
    }

    /// Returns whether anything of a workspace has been read.
    pub fn knows(&self, workspace: WorkspaceId) -> bool {
        self.workspaces.contains_key(&workspace)
    }

    pub fn forget(&mut self, workspace: WorkspaceId) {
        self.workspaces.remove(&workspace);
    }

    pub fn clear(&mut self) {
        self.workspaces.clear();
    }
}

/// What the jobs of a batch will read, as far as their inputs tell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    /// The threads that they name, each with the workspace of its caller.
    pub threads: Vec<(WorkspaceId, ThreadId)>,
    /// How many of them take the next thread of a queue.
    pub takes: usize,
}
