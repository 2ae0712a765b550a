//! The queue of a writer, in which workspaces take turns.
//!
//! A task that was queued for too long, or whose caller has disconnected, is rejected instead of run.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::task::{QueuedTask, Task};
use super::turns::TaskTurns;
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

    pub fn take(&mut self, bytes: usize) {
        self.tasks = self.tasks.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    pub fn is_any_left(&self) -> bool {
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
    turns: Mutex<TaskTurns<T>>,
    arrived: Condvar,
    clock: Clock,
}

/// The result of waiting for a task.
pub(super) enum ReceiveResult<T: ?Sized> {
    Task(QueuedTask<T>),
    Nothing,
    Closed,
}

impl<T: Task + ?Sized> WriterQueue<T> {
    pub fn new(clock: Clock) -> Self {
        Self { turns: Mutex::new(TaskTurns::new(QUEUE_MAX)), arrived: Condvar::new(), clock }
    }

    /// Queues a task. Rejects the task if its workspace has too many queued tasks, or if the queue is closed.
    pub fn push(&self, task: Box<T>) {
        let rejected = lock(&self.turns).push(QueuedTask::in_order(task, &self.clock));
        match rejected {
            Some(rejected) => rejected.finish(),
            None => self.arrived.notify_one(),
        }
    }

    /// Returns tasks to the queue, before all other tasks.
    pub fn put_first(&self, tasks: Vec<QueuedTask<T>>) {
        lock(&self.turns).put_first(tasks);
        self.arrived.notify_one();
    }

    /// Takes the next task from the queue. Waits for up to `span` if the queue is empty.
    pub fn wait_for(&self, span: Duration) -> ReceiveResult<T> {
        let turns = lock(&self.turns);
        let waits = |turns: &mut TaskTurns<T>| turns.len() == 0 && !turns.is_closed();
        let waited = self.arrived.wait_timeout_while(turns, span, waits);
        let (mut turns, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let next = turns.pop(|_| true);
        let is_closed = turns.is_closed();
        drop(turns);
        match next {
            Some(queued) => self.admit(queued).map_or(ReceiveResult::Nothing, ReceiveResult::Task),
            None if is_closed => ReceiveResult::Closed,
            None => ReceiveResult::Nothing,
        }
    }

    /// Returns the next queued task that should still run, without waiting for one.
    fn try_next(&self) -> Option<QueuedTask<T>> {
        loop {
            let next = lock(&self.turns).pop(|_| true)?;
            if let Some(queued) = self.admit(next) {
                return Some(queued);
            }
        }
    }

    /// Collects a batch: the task `first`, and the next tasks of the queue up to `capacity`.
    ///
    /// Waits for more tasks as long as `delay` allows.
    pub fn gather(
        &self,
        first: QueuedTask<T>,
        mut capacity: BatchCapacity,
        delay: BatchDelay,
    ) -> Vec<QueuedTask<T>> {
        let mut tasks = Vec::new();
        let mut next = Some(first);
        let until = self.clock.monotonic().plus(delay.span);
        while let Some(queued) = next {
            capacity.take(queued.bytes);
            tasks.push(queued);
            next = if capacity.is_any_left() { self.try_next() } else { None };
            if next.is_none() && capacity.is_any_left() && tasks.len() < delay.tasks {
                next = self.next_until(until);
            }
        }
        tasks
    }

    fn next_until(&self, until: Monotonic) -> Option<QueuedTask<T>> {
        match self.wait_for(until.since(self.clock.monotonic())) {
            ReceiveResult::Task(queued) => Some(queued),
            ReceiveResult::Nothing => self.try_next(),
            ReceiveResult::Closed => None,
        }
    }

    fn admit(&self, queued: QueuedTask<T>) -> Option<QueuedTask<T>> {
        queued.if_in_time(self.clock.monotonic())
    }

    pub fn len(&self) -> usize {
        lock(&self.turns).len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Closes the queue: new tasks are rejected, and queued tasks can still be taken.
    pub fn close(&self) {
        lock(&self.turns).close();
        self.arrived.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Result;
    use crate::limits::QUEUED_MAX;
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
        let delay = |tasks| BatchDelay { tasks, span: QUEUED_MAX };
        let gathered = |tasks| queue.gather(first(), BatchCapacity::new(8, 8), delay(tasks)).len();
        assert_eq!(gathered(1), 1, "it has all that it waits for");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| gathered(3));
            (0..2).for_each(|_| queue.push(Box::new(Idle)));
            assert_eq!(waiting.join().unwrap(), 3);
        });
        let none = BatchDelay { tasks: 3, span: Duration::ZERO };
        assert_eq!(queue.gather(first(), BatchCapacity::new(8, 8), none).len(), 1, "nobody comes");
        queue.push(Box::new(Idle));
        assert_eq!(queue.gather(first(), BatchCapacity::new(1, 8), delay(3)).len(), 1, "it is full");
    }
}
