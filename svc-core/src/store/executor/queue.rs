//! A queue of tasks for core threads, bounded by number and by bytes.
//!
//! A task that was queued for too long, or whose caller has gone, is rejected instead of run.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};

use super::overloaded;
use crate::error::{Code, Error, Result};
use crate::limits::{QUEUE_BYTES_MAX, QUEUE_MAX, QUEUED_MAX};
use crate::sync::lock;
use crate::time::{Clock, Monotonic};

/// What every task provides.
pub(crate) trait Task: Send {
    /// Returns about how many bytes it holds.
    fn bytes(&self) -> usize;
    /// Returns whether nobody waits for it any more.
    fn is_abandoned(&self) -> bool;
    /// Reports the outcome, after the work or instead of it.
    ///
    /// Runs on a core thread: it must only hand the outcome on.
    fn finish(self: Box<Self>, outcome: Result<()>);
}

/// What still fits into a transaction. A task that is larger than the entire capacity runs alone.
pub(super) struct Capacity {
    tasks: usize,
    bytes: usize,
}

impl Capacity {
    /// Creates a capacity for `tasks` tasks that hold `bytes` bytes together.
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

/// How long a batch waits for tasks that are not queued yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// With this many it waits for none.
    pub tasks: usize,
    pub span: Duration,
}

impl Patience {
    pub const NONE: Self = Self { tasks: 0, span: Duration::ZERO };
}

/// A queue that one or more threads take from.
pub(super) struct Queue<T: ?Sized> {
    sender: Mutex<Option<Sender<Queued<T>>>>,
    receiver: Receiver<Queued<T>>,
    /// Bytes of the queued tasks.
    bytes: AtomicUsize,
    clock: Clock,
}

/// A queued task, and since when it has been queued.
pub(super) struct Queued<T: ?Sized> {
    pub since: Monotonic,
    bytes: usize,
    pub task: Box<T>,
}

impl<T: Task + ?Sized> Queued<T> {
    /// Creates one that is queued now.
    pub fn new(task: Box<T>, clock: &Clock) -> Self {
        Self { since: clock.monotonic(), bytes: task.bytes(), task }
    }

    /// Returns the task if it is worth running at `now`: somebody still waits for it, and it is not too late.
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

/// What was received after waiting for a while.
pub(super) enum Received<T: ?Sized> {
    Task(Queued<T>),
    Nothing,
    Closed,
}

impl<T: Task + ?Sized> Queue<T> {
    pub fn new(clock: Clock) -> Self {
        let (sender, receiver) = bounded(QUEUE_MAX);
        Self { sender: Mutex::new(Some(sender)), receiver, bytes: AtomicUsize::new(0), clock }
    }

    /// Queues a task, or rejects it when there is no capacity or the queue is closed.
    pub fn push(&self, task: Box<T>) {
        self.push_again(Queued::new(task, &self.clock));
    }

    /// Queues a task again, keeping the time since which it has been queued.
    pub fn push_again(&self, queued: Queued<T>) {
        let bytes = queued.bytes;
        if !self.reserve(bytes) {
            return queued.task.finish(Err(overloaded()));
        }
        let rejected = match lock(&self.sender).as_ref() {
            Some(sender) => sender.try_send(queued).err().map(crossbeam_channel::TrySendError::into_inner),
            None => Some(queued),
        };
        if let Some(queued) = rejected {
            self.release(bytes);
            queued.task.finish(Err(overloaded()));
        }
    }

    /// Reserves capacity for a task. One that is larger than the entire capacity may be queued alone.
    fn reserve(&self, bytes: usize) -> bool {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let fits = before == 0 || before.saturating_add(bytes) <= QUEUE_BYTES_MAX;
        if !fits {
            self.release(bytes);
        }
        fits
    }

    fn release(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Waits for a task that is worth running; none once the queue is closed and empty.
    pub fn wait(&self) -> Option<Queued<T>> {
        self.receiver.iter().find_map(|queued| self.admit(queued))
    }

    /// Waits for a task for at most `span`.
    pub fn wait_for(&self, span: Duration) -> Received<T> {
        match self.receiver.recv_timeout(span) {
            Ok(queued) => self.admit(queued).map_or(Received::Nothing, Received::Task),
            Err(RecvTimeoutError::Timeout) => Received::Nothing,
            Err(RecvTimeoutError::Disconnected) => Received::Closed,
        }
    }

    /// Returns the next task that is worth running, if one is queued now.
    fn try_next(&self) -> Option<Queued<T>> {
        self.receiver.try_iter().find_map(|queued| self.admit(queued))
    }

    /// Returns a task together with those queued behind it, as far as there is capacity.
    ///
    /// Waits as long as `patience` allows for more.
    pub fn gather(&self, first: Queued<T>, mut capacity: Capacity, patience: Patience) -> Vec<Queued<T>> {
        let (mut tasks, mut next) = (Vec::new(), Some(first));
        let until = self.clock.monotonic().plus(patience.span);
        while let Some(queued) = next {
            capacity.take(queued.bytes);
            tasks.push(queued);
            next = if capacity.is_any_left() { self.try_next() } else { None };
            if next.is_none() && capacity.is_any_left() && tasks.len() < patience.tasks {
                next = self.next_until(until);
            }
        }
        tasks
    }

    fn next_until(&self, until: Monotonic) -> Option<Queued<T>> {
        let span = until.since(self.clock.monotonic());
        let queued = self.receiver.recv_timeout(span).ok()?;
        self.admit(queued).or_else(|| self.try_next())
    }

    fn admit(&self, queued: Queued<T>) -> Option<Queued<T>> {
        self.release(queued.bytes);
        queued.if_in_time(self.clock.monotonic())
    }

    pub fn len(&self) -> usize {
        self.receiver.len()
    }

    pub fn is_empty(&self) -> bool {
        self.receiver.is_empty()
    }

    /// Accepts nothing more; what is queued can still be taken.
    pub fn close(&self) {
        lock(&self.sender).take();
    }
}

fn too_late() -> Error {
    Error::new(Code::Unavailable, "the database was busy for too long; nothing was changed")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Idle;

    impl Task for Idle {
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
        let clock = Clock::System;
        let queue: Queue<dyn Task> = Queue::new(clock.clone());
        let first = || Queued::new(Box::new(Idle) as Box<dyn Task>, &clock);
        let patience = |tasks| Patience { tasks, span: QUEUED_MAX };
        let gathered = |tasks| queue.gather(first(), Capacity::new(8, 8), patience(tasks)).len();
        assert_eq!(gathered(1), 1, "it has all that it waits for");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| gathered(3));
            (0..2).for_each(|_| queue.push(Box::new(Idle)));
            assert_eq!(waiting.join().unwrap(), 3);
        });
        let none = Patience { tasks: 3, span: Duration::ZERO };
        assert_eq!(queue.gather(first(), Capacity::new(8, 8), none).len(), 1, "nobody comes");
        queue.push(Box::new(Idle));
        assert_eq!(queue.gather(first(), Capacity::new(1, 8), patience(3)).len(), 1, "it is full");
    }
}
