//! The queue of a writer, in which workspaces take turns.
//!
//! A task that was queued for too long, or whose caller has disconnected, is rejected instead of run.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::fair_queue::FairTaskQueue;
use super::task::{QueuedTask, Task};
use crate::limits::QUEUE_MAX;
use crate::sync::lock;
use crate::time::{Clock, Monotonic};

/// The remaining capacity of a transaction for tasks. The last task may exceed the capacity.
pub(super) struct BatchCapacity {
    tasks: usize,
    bytes: usize,
}

impl BatchCapacity {
    /// Creates a capacity of `tasks` tasks with a total of `bytes` bytes.
    pub fn new(tasks: usize, bytes: usize) -> Self {
        Self { tasks, bytes }
    }

    /// Subtracts a task of `bytes` bytes.
    pub fn consume(&mut self, bytes: usize) {
        self.tasks = self.tasks.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    pub fn has_capacity(&self) -> bool {
        self.tasks > 0 && self.bytes > 0
    }
}

/// How long a batch waits for tasks that are not queued yet, and for how many tasks.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchDelay {
    /// Number of tasks at which the batch no longer waits.
    pub tasks: usize,
    pub span: Duration,
}

impl BatchDelay {
    pub const NONE: Self = Self { tasks: 0, span: Duration::ZERO };
}

/// The queue of tasks for a writer's thread.
pub(super) struct WriterQueue<T: ?Sized> {
    tasks: Mutex<FairTaskQueue<T>>,
    task_added: Condvar,
    clock: Clock,
}

/// The result of waiting for a task.
pub(super) enum ReceiveResult<T: ?Sized> {
    Task(QueuedTask<T>),
    /// No task was added in time, or the next task was rejected.
    Empty,
    /// The queue is closed and empty.
    Closed,
}

impl<T: Task + ?Sized> WriterQueue<T> {
    pub fn new(clock: Clock) -> Self {
        Self { tasks: Mutex::new(FairTaskQueue::new(QUEUE_MAX)), task_added: Condvar::new(), clock }
    }

    /// Queues a task. Rejects the task if its workspace has too many queued tasks, or if the queue is closed.
    pub fn push(&self, task: Box<T>) {
        let rejected = lock(&self.tasks).push(QueuedTask::new_ordered(task, &self.clock));
        match rejected {
            Some(rejected) => rejected.finish(),
            None => self.task_added.notify_one(),
        }
    }

    /// Returns tasks to the queue, before all other tasks.
    pub fn return_to_front(&self, tasks: Vec<QueuedTask<T>>) {
        lock(&self.tasks).return_to_front(tasks);
        self.task_added.notify_one();
    }

    /// Takes the next task from the queue. Waits for up to `span` if the queue is empty.
    pub fn wait_for_task(&self, span: Duration) -> ReceiveResult<T> {
        let tasks = lock(&self.tasks);
        let waits = |tasks: &mut FairTaskQueue<T>| tasks.len() == 0 && !tasks.is_closed();
        let waited = self.task_added.wait_timeout_while(tasks, span, waits);
        let (mut tasks, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let next = tasks.pop_eligible(|_| true);
        let is_closed = tasks.is_closed();
        drop(tasks);
        match next {
            Some(queued) => self.reject_if_expired(queued).map_or(ReceiveResult::Empty, ReceiveResult::Task),
            None if is_closed => ReceiveResult::Closed,
            None => ReceiveResult::Empty,
        }
    }

    /// Returns the next queued task that should still run, without waiting for one.
    fn try_next(&self) -> Option<QueuedTask<T>> {
        loop {
            let next = lock(&self.tasks).pop_eligible(|_| true)?;
            if let Some(queued) = self.reject_if_expired(next) {
                return Some(queued);
            }
        }
    }

    /// Collects a batch: the task `first`, and the next tasks of the queue up to `capacity`.
    ///
    /// Waits for more tasks as long as `delay` allows.
    pub fn collect_batch(
        &self,
        first: QueuedTask<T>,
        mut capacity: BatchCapacity,
        delay: BatchDelay,
    ) -> Vec<QueuedTask<T>> {
        let mut tasks = Vec::new();
        let mut next = Some(first);
        let deadline = self.clock.monotonic().plus(delay.span);
        while let Some(queued) = next {
            capacity.consume(queued.bytes);
            tasks.push(queued);
            next = if capacity.has_capacity() { self.try_next() } else { None };
            if next.is_none() && capacity.has_capacity() && tasks.len() < delay.tasks {
                next = self.wait_for_task_until(deadline);
            }
        }
        tasks
    }

    fn wait_for_task_until(&self, deadline: Monotonic) -> Option<QueuedTask<T>> {
        match self.wait_for_task(deadline.since(self.clock.monotonic())) {
            ReceiveResult::Task(queued) => Some(queued),
            ReceiveResult::Empty => self.try_next(),
            ReceiveResult::Closed => None,
        }
    }

    /// Returns the task if it should still run. Otherwise rejects the task and returns `None`.
    fn reject_if_expired(&self, queued: QueuedTask<T>) -> Option<QueuedTask<T>> {
        queued.reject_if_expired(self.clock.monotonic())
    }

    pub fn len(&self) -> usize {
        lock(&self.tasks).len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes the queue: new tasks are rejected, and queued tasks can still be taken.
    pub fn close(&self) {
        lock(&self.tasks).close();
        self.task_added.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Result;
    use crate::limits::QUEUE_WAIT_MAX;
    use crate::store::executor::TaskSource;

    struct Idle;

    impl Task for Idle {
        fn source(&self) -> TaskSource {
            TaskSource::SERVICE
        }
        fn bytes(&self) -> usize {
            1
        }
        fn is_abandoned(&self) -> bool {
            false
        }
        fn finish(self: Box<Self>, _outcome: Result<()>) {}
    }

    #[test]
    fn a_batch_waits_for_as_many_tasks_as_it_is_told_to() {
        let clock = Clock::system();
        let queue: WriterQueue<dyn Task> = WriterQueue::new(clock.clone());
        let first = || QueuedTask::new(Box::new(Idle) as Box<dyn Task>, &clock);
        let delay = |tasks| BatchDelay { tasks, span: QUEUE_WAIT_MAX };
        let gathered = |tasks| queue.collect_batch(first(), BatchCapacity::new(8, 8), delay(tasks)).len();
        assert_eq!(gathered(1), 1, "it has all that it waits for");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| gathered(3));
            (0..2).for_each(|_| queue.push(Box::new(Idle)));
            assert_eq!(waiting.join().unwrap(), 3);
        });
        let none = BatchDelay { tasks: 3, span: Duration::ZERO };
        assert_eq!(queue.collect_batch(first(), BatchCapacity::new(8, 8), none).len(), 1, "nobody comes");
        queue.push(Box::new(Idle));
        assert_eq!(queue.collect_batch(first(), BatchCapacity::new(1, 8), delay(3)).len(), 1, "it is full");
    }
}
