//! A queue of tasks, in which workspaces take turns, and within a workspace its clients.
//!
//! So a workspace with a thousand tasks delays the first task of another by one turn, not by a thousand. The
//! waiting tasks and their bytes are limited per workspace; beyond that, only the tasks of that workspace are
//! rejected.

use std::collections::VecDeque;

use super::task::{QueuedTask, Task, TaskSource};
use crate::error::{Code, Error};
use crate::id::WorkspaceId;
use crate::limits::{QUEUE_RETRY_SECS, QUEUED_BYTES_MAX};
use crate::rate::Client;
use crate::round_robin::RoundRobin;

/// The waiting tasks. Workspaces take turns, and the clients of a workspace too.
pub(super) struct FairTaskQueue<T: ?Sized> {
    workspaces: RoundRobin<Option<WorkspaceId>, WorkspaceTasks<T>>,
    /// Maximum number of waiting tasks per workspace.
    max_per_workspace: usize,
    len: usize,
    is_closed: bool,
}

/// A rejected task with the error to report.
pub(super) struct RejectedTask<T: ?Sized> {
    queued: QueuedTask<T>,
    error: Error,
}

impl<T: Task + ?Sized> RejectedTask<T> {
    /// Reports the error to the task. Must be called without holding a lock.
    pub fn finish(self) {
        self.queued.task.finish(Err(self.error));
    }
}

/// The waiting tasks of one workspace.
struct WorkspaceTasks<T: ?Sized> {
    clients: RoundRobin<Option<Client>, VecDeque<QueuedTask<T>>>,
    len: usize,
    bytes: usize,
}

impl<T: ?Sized> Default for WorkspaceTasks<T> {
    fn default() -> Self {
        Self { clients: RoundRobin::default(), len: 0, bytes: 0 }
    }
}

impl<T: Task + ?Sized> FairTaskQueue<T> {
    /// Creates an empty queue in which each workspace may have `max_per_workspace` tasks.
    pub fn new(max_per_workspace: usize) -> Self {
        Self { workspaces: RoundRobin::default(), max_per_workspace, len: 0, is_closed: false }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of waiting tasks of a workspace.
    pub fn workspace_len(&self, workspace: Option<WorkspaceId>) -> usize {
        self.workspaces.get(workspace).map_or(0, |own| own.len)
    }

    pub fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Closes the queue: new tasks are rejected, and waiting tasks can still be taken.
    pub fn close(&mut self) {
        self.is_closed = true;
    }

    /// Adds a task behind the other tasks of its client, or returns it with the reason for its rejection.
    pub fn push(&mut self, queued: QueuedTask<T>) -> Option<RejectedTask<T>> {
        if let Some(error) = self.rejection_error(&queued) {
            return Some(RejectedTask { queued, error });
        }
        self.insert_with(queued, VecDeque::push_back);
        None
    }

    /// Returns tasks that have not begun to the queue, in the order in which they were taken.
    ///
    /// The tasks precede the other tasks of their workspaces. The turns of these workspaces have ended.
    pub fn put_back(&mut self, tasks: Vec<QueuedTask<T>>) {
        for queued in tasks.into_iter().rev() {
            let source = queued.source;
            self.insert_with(queued, VecDeque::push_front);
            if let Some(own) = self.workspaces.get_mut(source.workspace) {
                own.clients.move_to_front(source.client);
            }
        }
    }

    /// Returns tasks to the front of the queue, because the turns of their workspaces have not ended.
    pub fn return_to_front(&mut self, tasks: Vec<QueuedTask<T>>) {
        let workspaces: Vec<_> = tasks.iter().map(|queued| queued.source.workspace).collect();
        self.put_back(tasks);
        workspaces.into_iter().rev().for_each(|workspace| self.workspaces.move_to_front(workspace));
    }

    fn insert_with(
        &mut self,
        queued: QueuedTask<T>,
        insert: fn(&mut VecDeque<QueuedTask<T>>, QueuedTask<T>),
    ) {
        let TaskSource { workspace, client } = queued.source;
        let own = self.workspaces.entry(workspace);
        self.len = self.len.saturating_add(1);
        own.len = own.len.saturating_add(1);
        own.bytes = own.bytes.saturating_add(queued.bytes);
        insert(own.clients.entry(client), queued);
    }

    /// Returns the error if a task cannot be added to the queue, or `None` if it can.
    ///
    /// A task larger than the limit is accepted if no other task of its workspace waits.
    fn rejection_error(&self, queued: &QueuedTask<T>) -> Option<Error> {
        if self.is_closed {
            return Some(overloaded_error("server", "the server is closing its queue"));
        }
        let own = self.workspaces.get(queued.source.workspace)?;
        let is_full =
            own.len >= self.max_per_workspace || own.bytes.saturating_add(queued.bytes) > QUEUED_BYTES_MAX;
        is_full.then(|| {
            overloaded_error("workspace", "too many requests of this workspace wait for the database")
        })
    }

    /// Removes and returns the next task of the next workspace for which `is_eligible` returns true.
    pub fn pop_eligible(
        &mut self,
        is_eligible: impl Fn(Option<WorkspaceId>) -> bool,
    ) -> Option<QueuedTask<T>> {
        let workspace = self.workspaces.keys().find(|workspace| is_eligible(*workspace))?;
        self.pop_from_workspace(workspace)
    }

    /// Iterates over the waiting tasks in an unspecified order.
    pub fn iter(&self) -> impl Iterator<Item = &QueuedTask<T>> {
        let clients = self.workspaces.iter().flat_map(|(_, own)| own.clients.iter());
        clients.flat_map(|(_, tasks)| tasks)
    }

    /// Removes and returns all waiting tasks, in the order of their turns.
    pub fn drain(&mut self) -> impl Iterator<Item = QueuedTask<T>> {
        std::iter::from_fn(|| self.pop_eligible(|_| true))
    }

    /// Returns whether a workspace for which `is_eligible` returns true has a waiting task.
    pub fn has_eligible(&self, is_eligible: impl Fn(Option<WorkspaceId>) -> bool) -> bool {
        self.workspaces.keys().any(is_eligible)
    }

    /// Removes and returns the next task of a workspace, from the client whose turn it is.
    pub fn pop_from_workspace(&mut self, workspace: Option<WorkspaceId>) -> Option<QueuedTask<T>> {
        let own = self.workspaces.get_mut(workspace)?;
        let client = own.clients.keys().next()?;
        let queued = own.clients.pop(client)?;
        own.len = own.len.saturating_sub(1);
        own.bytes = own.bytes.saturating_sub(queued.bytes);
        if own.len == 0 {
            self.workspaces.remove(workspace)
        } else {
            self.workspaces.end_turn(workspace)
        }
        self.len = self.len.saturating_sub(1);
        Some(queued)
    }
}

/// Returns the error for a task that does not fit into a queue.
pub(super) fn overloaded_error(scope: &'static str, detail: &'static str) -> Error {
    Error::new(Code::Overloaded, detail).with("scope", scope).with("retry_after_secs", QUEUE_RETRY_SECS)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::error::Result;
    use crate::id::TokenId;
    use crate::sync::lock;
    use crate::time::Clock;

    /// A task that is identified by its number.
    struct Numbered(TaskSource, usize, Arc<Mutex<Vec<Error>>>);

    impl Task for Numbered {
        fn source(&self) -> TaskSource {
            self.0
        }
        fn bytes(&self) -> usize {
            self.1
        }
        fn is_abandoned(&self) -> bool {
            false
        }
        fn finish(self: Box<Self>, outcome: Result<()>) {
            lock(&self.2).extend(outcome.err());
        }
    }

    fn source(workspace: u128, client: u128) -> TaskSource {
        let client = Some(Client::Token(TokenId::from(Uuid::from_u128(client))));
        TaskSource { workspace: Some(WorkspaceId::from(Uuid::from_u128(workspace))), client }
    }

    fn task(source: TaskSource, bytes: usize) -> QueuedTask<Numbered> {
        QueuedTask::new(Box::new(Numbered(source, bytes, Arc::default())), &Clock::system())
    }

    fn all(turns: &mut FairTaskQueue<Numbered>) -> Vec<TaskSource> {
        turns.drain().map(|queued| queued.source).collect()
    }

    #[test]
    fn workspaces_take_turns_and_clients_within_them() {
        let mut turns = FairTaskQueue::new(100);
        let [a1, a2, b1] = [source(1, 1), source(1, 2), source(2, 1)];
        for source in [a1, a1, a1, a2, b1, b1] {
            assert!(turns.push(task(source, 1)).is_none());
        }
        let order = all(&mut turns);
        assert_eq!(order, [a1, b1, a2, b1, a1, a1]);
        assert!(turns.len() == 0 && turns.workspaces.is_empty());
    }

    #[test]
    fn what_has_not_had_its_turn_comes_first_and_in_its_order() {
        let mut turns = FairTaskQueue::new(100);
        let [a, b] = [source(1, 1), source(2, 1)];
        for (source, bytes) in [(a, 1), (b, 2), (a, 3), (b, 4), (a, 5)] {
            assert!(turns.push(task(source, bytes)).is_none());
        }
        let taken: Vec<_> = (0..3).map_while(|_| turns.pop_eligible(|_| true)).collect();
        turns.return_to_front(taken);
        let order: Vec<usize> = turns.drain().map(|queued| queued.bytes).collect();
        assert_eq!(order, [1, 2, 3, 4, 5]);
    }

    #[test]
    fn what_is_left_of_a_turn_waits_for_the_next_one() {
        let mut turns = FairTaskQueue::new(100);
        let [a1, a2, a3, b] = [source(1, 1), source(1, 2), source(1, 3), source(2, 1)];
        for (source, bytes) in [(a1, 1), (a1, 2), (a1, 3), (a2, 4), (a3, 5), (b, 6)] {
            assert!(turns.push(task(source, bytes)).is_none());
        }
        // Each turn takes five tasks and begins one.
        let mut order = Vec::new();
        while let Some(first) = turns.pop_eligible(|_| true) {
            let rest = (1..5).map_while(|_| turns.pop_from_workspace(first.source.workspace)).collect();
            order.push(first.bytes);
            turns.put_back(rest);
        }
        assert_eq!(order, [1, 6, 4, 5, 2, 3], "no client is passed over");
    }

    #[test]
    fn a_full_workspace_alone_is_rejected() {
        let mut turns = FairTaskQueue::new(2);
        let [a, b] = [source(1, 1), source(2, 1)];
        assert!(turns.push(task(a, 1)).is_none() && turns.push(task(source(1, 9), 1)).is_none());
        let scope = |error: &Error| error.problem().extra.get("scope").cloned();
        let error = turns.push(task(a, 1)).unwrap().error;
        assert_eq!((error.code(), scope(&error)), (Code::Overloaded, Some("workspace".into())));
        assert!(turns.push(task(b, 2 * QUEUED_BYTES_MAX)).is_none(), "what is too large waits alone");
        assert!(turns.push(task(b, 1)).is_some(), "and nothing of its workspace beside it");
        let c = source(3, 1);
        assert!(turns.push(task(c, QUEUED_BYTES_MAX - 1)).is_none() && turns.push(task(c, 1)).is_none());
        turns.close();
        let error = turns.push(task(source(4, 1), 1)).unwrap().error;
        assert_eq!(scope(&error), Some("server".into()));
        assert_eq!(all(&mut turns).len(), 5, "what waits can still be taken");
    }

    proptest! {
        /// Checks that, between two tasks of a waiting workspace, every other workspace runs at most one, and
        /// that the tasks of a client keep their order.
        #[test]
        fn nobody_runs_twice_while_another_waits(
            sources in prop::collection::vec((0_u128..4, 0_u128..3), 1..60),
        ) {
            let mut turns = FairTaskQueue::new(100);
            for (number, (workspace, client)) in sources.iter().enumerate() {
                prop_assert!(turns.push(task(source(*workspace, *client), number)).is_none());
            }
            let mut order = Vec::new();
            while let Some(queued) = turns.pop_eligible(|_| true) {
                let waiting = turns.workspace_len(queued.source.workspace) > 0;
                order.push((queued.source, queued.bytes, waiting));
            }
            prop_assert_eq!(order.len(), sources.len());
            for (place, (own, number, waits)) in order.iter().enumerate() {
                let later = &order[place + 1..];
                let until = later.iter().position(|(other, ..)| other.workspace == own.workspace);
                prop_assert!(*waits == until.is_some());
                let mut between: Vec<_> =
                    later[..until.unwrap_or(0)].iter().map(|(other, ..)| other.workspace).collect();
                between.sort();
                prop_assert!(between.windows(2).all(|pair| pair[0] != pair[1]));
                let same = later.iter().filter(|(other, ..)| other == own);
                prop_assert!(same.map(|(_, later, _)| later).all(|later| later > number));
            }
        }
    }
}
