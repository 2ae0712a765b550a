//! Tasks of core threads, and their sources.

use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::limits::QUEUED_MAX;
use crate::rate::Client;
use crate::time::{Clock, Monotonic};

/// The workspace and the client that a task runs for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TaskSource {
    /// The workspace that the work is charged to, or `None` for the service itself.
    pub workspace: Option<WorkspaceId>,
    /// The client, or `None` if all tasks of the workspace must keep their order.
    pub client: Option<Client>,
}

impl TaskSource {
    /// The source of work by the service itself.
    pub const SERVICE: Self = Self { workspace: None, client: None };

    /// Returns the same source without its client, so that the tasks of the workspace keep their order.
    pub fn in_order(self) -> Self {
        Self { client: None, ..self }
    }
}

/// The common interface of all tasks.
pub(crate) trait Task: Send {
    /// Returns the source of the task.
    fn source(&self) -> TaskSource;
    /// Returns the approximate number of bytes that the task holds.
    fn bytes(&self) -> usize;
    /// Returns whether the caller no longer waits for the task.
    fn is_abandoned(&self) -> bool;
    /// Reports the outcome, after the task ran or instead of running it.
    ///
    /// Runs on a core thread, so it must only pass the outcome on.
    fn finish(self: Box<Self>, outcome: Result<()>);
}

/// A queued task with the time at which it was queued.
pub(super) struct QueuedTask<T: ?Sized> {
    pub since: Monotonic,
    /// The time at which another server was first found to have locked the task's workspace, if the task was
    /// set aside for that.
    pub held_since: Option<Monotonic>,
    pub source: TaskSource,
    pub bytes: usize,
    pub task: Box<T>,
}

impl<T: Task + ?Sized> QueuedTask<T> {
    /// Creates an entry for a task that is queued now.
    pub fn new(task: Box<T>, clock: &Clock) -> Self {
        let source = task.source();
        let bytes = task.bytes();
        Self { since: clock.monotonic(), held_since: None, source, bytes, task }
    }

    /// Creates an entry for a task that is queued now, behind all other tasks of its workspace regardless of
    /// their clients.
    pub fn in_order(task: Box<T>, clock: &Clock) -> Self {
        let queued = Self::new(task, clock);
        Self { source: queued.source.in_order(), ..queued }
    }

    /// Returns the task if its caller still waits and it is not too late at `now`.
    ///
    /// Rejects the task otherwise.
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
