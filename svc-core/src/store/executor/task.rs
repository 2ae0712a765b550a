//! The interface of the tasks that core threads run, and the workspace and client of a task.

use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::limits::QUEUE_WAIT_MAX;
use crate::rate::Client;
use crate::time::{Clock, Monotonic};

/// The workspace and the client that a task runs for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TaskSource {
    /// The workspace that the work is charged to, or `None` for the service itself.
    pub workspace: Option<WorkspaceId>,
    /// The client that the task runs for, or `None` if all tasks of the workspace must keep their order.
    pub client: Option<Client>,
}

impl TaskSource {
    /// The source of tasks that the service runs for itself.
    pub const SERVICE: Self = Self { workspace: None, client: None };

    /// Returns the same source without its client, so that the tasks of the workspace keep their order.
    pub fn without_client(self) -> Self {
        Self { client: None, ..self }
    }
}

/// The common interface of all tasks.
pub(crate) trait Task: Send {
    /// Returns the source of the task.
    fn source(&self) -> TaskSource;
    /// Returns the approximate size of the task's data in bytes.
    fn bytes(&self) -> usize;
    /// Returns whether the caller no longer waits for the task.
    fn is_abandoned(&self) -> bool;
    /// Reports the outcome of the task to the caller, after the task ran or when it is rejected without
    /// running.
    ///
    /// Runs on a core thread, so it must only pass the outcome on.
    fn finish(self: Box<Self>, outcome: Result<()>);
}

/// A queued task with the time at which it was queued.
pub(super) struct QueuedTask<T: ?Sized> {
    /// Time at which the task was queued.
    pub queued_at: Monotonic,
    /// Time at which the task was first set aside because another server had locked its workspace, if ever.
    pub set_aside_since: Option<Monotonic>,
    pub source: TaskSource,
    pub bytes: usize,
    pub task: Box<T>,
}

impl<T: Task + ?Sized> QueuedTask<T> {
    /// Creates an entry for a task that is queued now.
    pub fn new(task: Box<T>, clock: &Clock) -> Self {
        let source = task.source();
        let bytes = task.bytes();
        Self { queued_at: clock.monotonic(), set_aside_since: None, source, bytes, task }
    }

    /// Creates an entry for a task that is queued now, behind all other tasks of its workspace regardless of
    /// their clients.
    pub fn new_ordered(task: Box<T>, clock: &Clock) -> Self {
        let queued = Self::new(task, clock);
        Self { source: queued.source.without_client(), ..queued }
    }

    /// Returns the task, if its caller still waits and, at the time `now`, it was not queued for too long.
    ///
    /// Otherwise rejects the task and returns `None`.
    pub fn reject_if_expired(self, now: Monotonic) -> Option<Self> {
        if self.task.is_abandoned() || now.since(self.queued_at) >= QUEUE_WAIT_MAX {
            self.task.finish(Err(queue_timeout_error()));
            return None;
        }
        Some(self)
    }
}

fn queue_timeout_error() -> Error {
    Error::new(Code::Unavailable, "the database was busy for too long; nothing was changed")
}
