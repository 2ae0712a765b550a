//! Tasks of core threads, and their sources.

use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::limits::QUEUED_MAX;
use crate::rate::Client;
use crate::time::{Clock, Monotonic};

/// The workspace and the client that a task runs for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TaskSource {
    /// The workspace that the work is charged to; `None` for the service itself.
    pub workspace: Option<WorkspaceId>,
    /// The client; `None` if a workspace's tasks keep their order.
    pub client: Option<Client>,
}

impl TaskSource {
    /// The service itself.
    pub const SERVICE: Self = Self { workspace: None, client: None };

    /// Returns the same source without its client: the tasks of the workspace keep their order.
    pub fn in_order(self) -> Self {
        Self { client: None, ..self }
    }
}

/// The interface of every task.
pub(crate) trait Task: Send {
    /// Returns the source of the task.
    fn source(&self) -> TaskSource;
    /// Returns about how many bytes it holds.
    fn bytes(&self) -> usize;
    /// Returns whether its caller no longer waits for it.
    fn is_abandoned(&self) -> bool;
    /// Reports the outcome, after the work or instead of it.
    ///
    /// Runs on a core thread: it must only pass the outcome on.
    fn finish(self: Box<Self>, outcome: Result<()>);
}

/// A queued task, and when it was queued.
pub(super) struct QueuedTask<T: ?Sized> {
    pub since: Monotonic,
    /// When another server was first found to have locked its workspace, if the task was set aside for that.
    pub held_since: Option<Monotonic>,
    pub source: TaskSource,
    pub bytes: usize,
    pub task: Box<T>,
}

impl<T: Task + ?Sized> QueuedTask<T> {
    /// Creates a task queued now.
    pub fn new(task: Box<T>, clock: &Clock) -> Self {
        let source = task.source();
        let bytes = task.bytes();
        Self { since: clock.monotonic(), held_since: None, source, bytes, task }
    }

    /// Creates a task queued now, behind the others of its workspace regardless of their clients.
    pub fn in_order(task: Box<T>, clock: &Clock) -> Self {
        let queued = Self::new(task, clock);
        Self { source: queued.source.in_order(), ..queued }
    }

    /// Returns the task if it is worth running at `now`: its caller still waits, and it is not too late.
    ///
    /// Otherwise rejects it.
    pub fn if_in_time(self, now: Monotonic) -> Option<Self> {
        if self.task.is_abandoned() || now.since(self.since) >= QUEUED_MAX {
            self.task.finish(Err(too_late()));
            return None;
        }
        Some(self)
    }
}

fn too_late() -> Error {
    Error::new(Code::Unavailable, "the database was busy for too long; nothing was changed")
}
