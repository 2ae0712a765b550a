//! A writer lane: one thread, one connection, one queue.
//!
//! Queued tasks are batched into one transaction. If the transaction cannot begin, the whole batch fails. A
//! task that fails is rolled back alone. A batch whose transaction was lost before its commit runs once more.
//! Tasks of a workspace that another server has locked are set aside, so that the other tasks of the lane
//! continue.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::fair_queue::FairTaskQueue;
use super::queue::{BatchCapacity, BatchDelay, ReceiveResult, WriterQueue};
use super::task::QueuedTask;
use super::{BatchState, LockedWorkspaces, WriteTask};
use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::limits::{BATCH_BYTES_MAX, BATCH_MAX, LOCK_TIMEOUT, QUEUE_MAX};
use crate::store::conn::Conn;
use crate::store::disk::DiskState;
use crate::store::engine::{Engine, StatementCounts, TransactionFailure};
use crate::sync::lock;
use crate::time::Clock;

/// A writer: its thread, its connection and the queue of its tasks.
pub(super) struct WriterLane<S: BatchState> {
    queue: WriterQueue<dyn WriteTask<S>>,
    writer: Mutex<Writer<S>>,
    /// Number of callers that wait to use the writer between two batches.
    waiters: AtomicUsize,
    disk: DiskState,
}

/// Pause after a commit while another process or caller waits to write to the same file.
///
/// It must be longer than the interval at which a waiting process retries the lock.
const CONTENTION_PAUSE: Duration = Duration::from_micros(1500);
/// Number of batches after which the pauses end, unless another process writes to the file again.
const CONTENDED_BATCHES: u32 = 64;
/// Maximum time for which a batch on Postgres waits for the callers of the previous batch.
///
/// For these callers, the wait costs less than a second commit: their next changes are committed with this
/// batch.
const GATHERING_TIME: Duration = Duration::from_micros(200);
/// Maximum number of callers that a batch waits for. With more, a second commit costs less than waiting for
/// all of them.
const GATHERED_CALLERS_MAX: usize = 16;
/// Interval at which an idle writer wakes up without a task, to repair the effects of a failed write.
const IDLE_TICK: Duration = Duration::from_millis(250);
/// Interval at which an idle writer retries set-aside tasks.
const SET_ASIDE_TICK: Duration = Duration::from_millis(2);
/// Maximum time from the beginning of a batch to the beginning of its last task.
///
/// Tasks that have not begun after this time run in the next batch. So expensive changes in one workspace
/// delay the changes of other workspaces by one task, not by a full batch.
const BATCH_TIME: Duration = Duration::from_millis(50);

impl<S: BatchState> WriterLane<S> {
    pub fn new(conn: Conn, state: S, clock: Clock) -> Self {
        let queue = WriterQueue::new(clock.clone());
        let disk = conn.disk_state();
        let writer = Writer {
            conn,
            state: state.into(),
            clock,
            contended_batches: 0,
            postponed: FairTaskQueue::new(QUEUE_MAX),
            skipped_locked: false,
            postponed_again: Vec::new(),
            not_begun: Vec::new(),
        };
        Self { queue, writer: Mutex::new(writer), waiters: AtomicUsize::new(0), disk }
    }

    pub fn submit(&self, task: Box<dyn WriteTask<S>>) {
        self.queue.push(task);
    }

    /// Runs a task on the calling thread if the writer is idle, or queues it.
    pub fn run_inline(&self, task: Box<dyn WriteTask<S>>) {
        let writer = if self.queue.is_empty() { self.writer.try_lock().ok() } else { None };
        let Some(mut writer) = writer.filter(|writer| writer.postponed.len() == 0) else {
            return self.submit(task);
        };
        let queued = QueuedTask::new_ordered(task, &writer.clock);
        writer.run(vec![queued]);
        // The caller must not wait for another server; the lane's own thread can.
        self.queue.return_to_front(writer.postponed.drain().collect());
    }

    /// Runs queued tasks, until the queue is closed and empty.
    pub fn run_until_closed(&self) {
        let mut tick = IDLE_TICK;
        let mut callers = 0;
        loop {
            let first = match self.queue.wait_for_task(tick) {
                ReceiveResult::Closed => return lock(&self.writer).reject_set_aside(),
                ReceiveResult::Task(first) => Some(first),
                ReceiveResult::Empty => None,
            };
            let mut writer = lock(&self.writer);
            let batch = first
                .map(|first| self.queue.collect_batch(first, batch_capacity(), writer.batch_delay(callers)));
            let batch = batch.unwrap_or_default();
            let size = batch.len();
            let not_begun = writer.run(batch);
            self.queue.return_to_front(not_begun);
            callers = size.saturating_add(self.queue.len());
            tick = if writer.postponed.len() == 0 { IDLE_TICK } else { SET_ASIDE_TICK };
            let must_yield = writer.contended_batches > 0 || self.waiters.load(Ordering::Relaxed) > 0;
            drop(writer);
            if must_yield {
                std::thread::park_timeout(CONTENTION_PAUSE);
            }
        }
    }

    /// Returns the number of queued tasks.
    pub fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// Fails if the last write to the disk has failed.
    pub fn check_disk(&self) -> Result<()> {
        if self.disk.has_error() {
            return Err(Error::new(
                Code::Unavailable,
                "the disk accepts no writes: it is full or failing, or the files are read-only",
            ));
        }
        Ok(())
    }

    /// Calls `run` with the writer's connection between two batches.
    pub fn run_between_batches<T>(&self, run: impl FnOnce(&Conn) -> T) -> T {
        self.waiters.fetch_add(1, Ordering::Relaxed);
        let writer = lock(&self.writer);
        self.waiters.fetch_sub(1, Ordering::Relaxed);
        run(&writer.conn)
    }

    pub fn statement_counts(&self) -> StatementCounts {
        self.run_between_batches(Conn::statement_counts)
    }

    pub fn durability(&self) -> Result<String> {
        self.run_between_batches(Conn::durability)
    }

    pub fn close(&self) {
        self.queue.close();
    }
}

struct Writer<S: BatchState> {
    conn: Conn,
    state: RefCell<S>,
    clock: Clock,
    /// Number of further batches that are followed by a pause, because another process has written to the
    /// file.
    contended_batches: u32,
    /// Tasks that were set aside because another server has locked their workspaces.
    postponed: FairTaskQueue<dyn WriteTask<S>>,
    /// Whether the last attempt to run set-aside tasks skipped locked workspaces instead of waiting for the
    /// locks.
    skipped_locked: bool,
    /// Tasks that the current batch has set aside for the second time.
    postponed_again: Vec<BatchTask<S>>,
    /// Tasks that the current batch has not begun, because its time was used up.
    not_begun: Vec<BatchTask<S>>,
}

/// A task in a batch.
type BatchTask<S> = QueuedTask<dyn WriteTask<S>>;

/// The outcome of one attempt to run a batch.
enum BatchOutcome {
    /// The batch was committed. Contains the outcome of each task.
    Committed(Vec<Result<()>>),
    /// The transaction could not begin, or the database did not respond. No task is at fault, and no task is
    /// retried.
    Failed(Error),
    /// The batch was rolled back, because the connection broke or the server resolved a conflict.
    Lost(Error),
    /// The batch was rolled back because of the task at this index.
    TaskFailed(usize, Error),
    /// The batch was rolled back because of one of its tasks, but it is unknown which one.
    UnknownTaskFailed(Error),
    /// The batch may or may not have been committed, so it must not run again.
    CommitUnknown(Error),
}

impl<S: BatchState> Writer<S> {
    /// Returns how long a batch waits for the next tasks of `callers` callers.
    fn batch_delay(&self, callers: usize) -> BatchDelay {
        match self.conn.engine() {
            Engine::Sqlite => BatchDelay::NONE,
            Engine::Postgres => BatchDelay { tasks: callers.min(GATHERED_CALLERS_MAX), span: GATHERING_TIME },
        }
    }

    /// Runs a batch, in one transaction if possible, and reports the outcome of each task that is not set
    /// aside.
    ///
    /// Tasks that earlier batches have set aside run first, in a separate attempt. If `batch` contains tasks
    /// too, every second such attempt skips workspaces that are still locked, instead of waiting for the
    /// locks.
    ///
    /// Returns the tasks that have not begun within [`BATCH_TIME`].
    fn run(&mut self, mut batch: Vec<BatchTask<S>>) -> Vec<BatchTask<S>> {
        let waiting = self.take_set_aside();
        if !waiting.is_empty() {
            self.skipped_locked = !batch.is_empty() && !self.skipped_locked;
            let policy = if self.skipped_locked { LockedWorkspaces::Skip } else { LockedWorkspaces::Wait };
            self.run_batch(waiting, policy);
        }
        // All tasks are put back together, the oldest first, so that the tasks of a workspace keep their
        // order.
        let mut older = std::mem::take(&mut self.postponed_again);
        older.append(&mut self.not_begun);
        older.sort_by_key(|waiting| waiting.queued_at);
        self.postponed.put_back(older);
        let locked: BTreeSet<WorkspaceId> =
            self.postponed.iter().flat_map(|waiting| waiting.task.workspaces()).collect();
        // The tasks of a workspace keep their order.
        self.set_aside(&mut batch, &locked);
        self.run_batch(batch, LockedWorkspaces::Skip);
        self.postponed.put_back(std::mem::take(&mut self.postponed_again));
        std::mem::take(&mut self.not_begun)
    }

    /// Removes and returns the set-aside tasks whose turn it is, up to the capacity of a batch.
    fn take_set_aside(&mut self) -> Vec<BatchTask<S>> {
        let mut capacity = batch_capacity();
        let mut taken = Vec::new();
        while capacity.has_capacity()
            && let Some(waiting) = self.postponed.pop_eligible(|_| true)
        {
            capacity.consume(waiting.bytes);
            taken.push(waiting);
        }
        taken
    }

    fn run_batch(&mut self, mut batch: Vec<BatchTask<S>>, policy: LockedWorkspaces) {
        if let Err(error) = self.conn.recover_from_write_error() {
            return fail_all(batch, &error);
        }
        let mut alone = Vec::new();
        let mut was_lost = false;
        while self.reject_expired(&mut batch) {
            match self.attempt_batch(&mut batch, policy) {
                BatchOutcome::Lost(_) if !std::mem::replace(&mut was_lost, true) => {}
                BatchOutcome::Committed(outcomes) => finish_all(batch.drain(..), outcomes),
                BatchOutcome::Failed(error)
                | BatchOutcome::CommitUnknown(error)
                | BatchOutcome::Lost(error) => {
                    fail_all(batch.drain(..), &error);
                }
                BatchOutcome::TaskFailed(_, error) | BatchOutcome::UnknownTaskFailed(error)
                    if batch.len() == 1 =>
                {
                    fail_all(batch.drain(..), &error);
                }
                BatchOutcome::TaskFailed(index, _) => alone.push(batch.remove(index)),
                BatchOutcome::UnknownTaskFailed(_) => alone.append(&mut batch),
            }
        }
        self.run_individually(alone, policy);
    }

    /// Runs each task in its own transaction.
    ///
    /// Once no transaction can begin, all remaining tasks fail. If the reason is that another server has
    /// locked the workspace, the other tasks of the workspace are set aside too.
    fn run_individually(&mut self, alone: Vec<BatchTask<S>>, policy: LockedWorkspaces) {
        let mut alone = alone.into_iter();
        while let Some(waiting) = alone.next() {
            let mut single = vec![waiting];
            if !self.reject_expired(&mut single) {
                continue;
            }
            // If the disk was full, the space that the other tasks of the batch have used is free again.
            if let Err(error) = self.conn.recover_from_write_error() {
                return fail_all(single.into_iter().chain(alone), &error);
            }
            let workspaces = single.iter().flat_map(|waiting| waiting.task.workspaces()).collect();
            let mut attempt = self.attempt_batch(&mut single, policy);
            if matches!(attempt, BatchOutcome::Lost(_)) {
                attempt = self.attempt_batch(&mut single, policy);
            }
            match attempt {
                BatchOutcome::Committed(outcomes) => finish_all(single, outcomes),
                BatchOutcome::Failed(_) if single.is_empty() => {
                    let mut others: Vec<BatchTask<S>> = alone.collect();
                    self.set_aside(&mut others, &workspaces);
                    alone = others.into_iter();
                }
                BatchOutcome::Failed(error) => return fail_all(single.into_iter().chain(alone), &error),
                BatchOutcome::Lost(error)
                | BatchOutcome::TaskFailed(_, error)
                | BatchOutcome::UnknownTaskFailed(error)
                | BatchOutcome::CommitUnknown(error) => fail_all(single, &error),
            }
        }
    }

    /// Rejects the tasks of a batch that were queued for too long, or whose callers have disconnected.
    ///
    /// Each attempt may have waited for a lock, so this is called before the next one. Returns whether any
    /// tasks remain.
    fn reject_expired(&self, batch: &mut Vec<BatchTask<S>>) -> bool {
        let now = self.clock.monotonic();
        *batch =
            std::mem::take(batch).into_iter().filter_map(|waiting| waiting.reject_if_expired(now)).collect();
        !batch.is_empty()
    }

    /// Tries to run a batch in one transaction. Tasks of locked workspaces are removed from the batch and set
    /// aside.
    fn attempt_batch(&mut self, batch: &mut Vec<BatchTask<S>>, policy: LockedWorkspaces) -> BatchOutcome {
        let workspaces = batch.iter().flat_map(|waiting| waiting.task.workspaces()).collect();
        match self.begin(&workspaces, policy) {
            Ok(locked) if locked.is_empty() => {}
            Ok(locked) => self.set_aside(batch, &locked),
            Err(error) => {
                let failure = self.conn.failure();
                self.roll_back();
                return match failure {
                    Some(TransactionFailure::Broken | TransactionFailure::Conflict) => {
                        BatchOutcome::Lost(error)
                    }
                    Some(TransactionFailure::LockTimeout) => {
                        self.set_aside(batch, &workspaces);
                        BatchOutcome::Failed(error)
                    }
                    Some(TransactionFailure::Timeout | TransactionFailure::Statement) | None => {
                        BatchOutcome::Failed(error)
                    }
                };
            }
        }
        if batch.is_empty() {
            self.roll_back();
            return BatchOutcome::Committed(Vec::new());
        }
        batch.iter().for_each(|waiting| waiting.task.announce(self.state.get_mut()));
        let mut outcomes = Vec::with_capacity(batch.len());
        let deadline = self.clock.monotonic().plus(BATCH_TIME);
        for (index, waiting) in batch.iter_mut().enumerate() {
            if index > 0 && self.clock.monotonic() >= deadline {
                break;
            }
            match self.run_task(waiting.task.as_mut()) {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => {
                    return self.roll_back_failed(|error| BatchOutcome::TaskFailed(index, error), error);
                }
            }
        }
        // These tasks come before those that an earlier attempt has not begun, because they are older.
        self.not_begun.splice(..0, batch.drain(outcomes.len()..));
        if let Err(error) = self.flush() {
            return self.roll_back_failed(BatchOutcome::UnknownTaskFailed, error);
        }
        let lsns = self.state.get_mut().committed_lsns();
        match self.conn.commit(&lsns) {
            Ok(()) => {
                self.state.get_mut().committed();
                BatchOutcome::Committed(outcomes)
            }
            Err(error) if error.code() == Code::OutcomeUnknown => {
                self.roll_back();
                if let Err(error) = self.conn.recover_from_write_error() {
                    let cause = error.cause();
                    tracing::warn!(%error, ?cause, "a failed commit has not been overwritten yet");
                }
                BatchOutcome::CommitUnknown(error)
            }
            Err(error) => self.roll_back_failed(BatchOutcome::UnknownTaskFailed, error),
        }
    }

    /// Rolls back after an error, and returns the outcome of the batch.
    ///
    /// The outcome is `Lost` after a lost connection or a conflict, `Failed` if the server did not respond,
    /// and otherwise the result of `otherwise`.
    fn roll_back_failed(
        &mut self,
        otherwise: impl FnOnce(Error) -> BatchOutcome,
        error: Error,
    ) -> BatchOutcome {
        let failure = self.conn.failure();
        self.roll_back();
        match failure {
            Some(TransactionFailure::Broken | TransactionFailure::Conflict) => BatchOutcome::Lost(error),
            // The callers have already waited for the timeout, so the batch is not retried.
            Some(TransactionFailure::Timeout) => BatchOutcome::Failed(error),
            Some(TransactionFailure::LockTimeout | TransactionFailure::Statement) | None => otherwise(error),
        }
    }

    fn begin(
        &mut self,
        workspaces: &BTreeSet<WorkspaceId>,
        policy: LockedWorkspaces,
    ) -> Result<BTreeSet<WorkspaceId>> {
        self.conn.begin_write()?;
        let have_others_written = self.conn.have_others_written()?;
        let has_contention = have_others_written && self.conn.engine() == Engine::Sqlite;
        self.contended_batches =
            if has_contention { CONTENDED_BATCHES } else { self.contended_batches.saturating_sub(1) };
        self.state.get_mut().begin(&self.conn, workspaces, have_others_written, policy)
    }

    /// Sets aside the tasks of the workspaces `locked`. Rejects tasks that were set aside for too long.
    ///
    /// A workspace may have up to [`QUEUE_MAX`] tasks set aside, independent of other workspaces.
    fn set_aside(&mut self, batch: &mut Vec<BatchTask<S>>, locked: &BTreeSet<WorkspaceId>) {
        let now = self.clock.monotonic();
        let is_locked =
            |waiting: &mut BatchTask<S>| waiting.task.workspaces().iter().any(|id| locked.contains(id));
        for mut waiting in batch.extract_if(.., is_locked) {
            let since = waiting.set_aside_since.replace(waiting.set_aside_since.unwrap_or(now));
            if since.is_some_and(|since| now.since(since) >= LOCK_TIMEOUT) {
                waiting.task.finish(Err(workspace_locked_error()));
            } else if since.is_some() {
                self.postponed_again.push(waiting);
            } else if let Some(rejected) = self.postponed.push(waiting) {
                rejected.finish();
            }
        }
    }

    /// Rejects all set-aside tasks, when the lane shuts down.
    fn reject_set_aside(&mut self) {
        fail_all(self.postponed.drain(), &workspace_locked_error());
    }

    /// Runs one task of a batch. The outer error means that the whole transaction must be rolled back.
    fn run_task(&mut self, task: &mut dyn WriteTask<S>) -> Result<Result<()>> {
        self.conn.begin_task();
        self.state.get_mut().begin_task();
        let result = catch_unwind(AssertUnwindSafe(|| task.run(&self.conn, &self.state)));
        let error = match result {
            Ok(Ok(())) => return self.conn.keep_task_changes().map(Ok),
            Ok(Err(error)) => error,
            Err(_) => Error::internal("a task panicked"),
        };
        let wrote = self.conn.has_task_written();
        let can_undo = self.conn.engine() == Engine::Sqlite || !wrote;
        if self.conn.failure().is_some() || !can_undo {
            return Err(error);
        }
        self.conn.undo_task()?;
        self.state.get_mut().undo_task(wrote);
        Ok(Err(error))
    }

    /// Writes the rows that the batch state has collected.
    ///
    /// Checks before and after the write that the transaction is still the one that was begun.
    fn flush(&mut self) -> Result<()> {
        self.conn.check_transaction()?;
        self.state.get_mut().flush(&self.conn)?;
        self.conn.flush()?;
        self.conn.check_transaction()
    }

    fn roll_back(&mut self) {
        self.state.get_mut().rolled_back();
        if let Err(error) = self.conn.rollback() {
            tracing::warn!(%error, cause = ?error.cause(), "a rollback failed");
        }
    }
}

fn batch_capacity() -> BatchCapacity {
    BatchCapacity::new(BATCH_MAX, BATCH_BYTES_MAX)
}

fn workspace_locked_error() -> Error {
    Error::new(Code::Unavailable, "another server has locked the workspace; nothing was changed")
}

fn finish_all<S>(tasks: impl IntoIterator<Item = BatchTask<S>>, outcomes: Vec<Result<()>>) {
    tasks.into_iter().zip(outcomes).for_each(|(waiting, outcome)| waiting.task.finish(outcome));
}

fn fail_all<S>(tasks: impl IntoIterator<Item = BatchTask<S>>, error: &Error) {
    tasks.into_iter().for_each(|waiting| waiting.task.finish(Err(error.clone())));
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Sender};

    use uuid::Uuid;

    use super::*;
    use crate::store::executor::{Tally, Task, TaskSource};
    use crate::store::sqlite::{Role, SqliteConn};
    use crate::time::Time;

    /// A change in a workspace, which reports its workspace and number once it is done.
    struct Change(WorkspaceId, usize, Sender<(WorkspaceId, usize)>);

    impl WriteTask<Tally> for Change {
        fn home(&self) -> WorkspaceId {
            self.0
        }
        fn workspaces(&self) -> Vec<WorkspaceId> {
            vec![self.0]
        }
        fn run(&mut self, _: &Conn, _: &RefCell<Tally>) -> Result<()> {
            Ok(())
        }
    }

    impl Task for Change {
        fn source(&self) -> TaskSource {
            TaskSource { workspace: Some(self.0), client: None }
        }
        fn bytes(&self) -> usize {
            BATCH_BYTES_MAX / 4
        }
        fn is_abandoned(&self) -> bool {
            false
        }
        fn finish(self: Box<Self>, outcome: Result<()>) {
            outcome.unwrap();
            self.2.send((self.0, self.1)).unwrap();
        }
    }

    #[test]
    fn workspaces_whose_changes_were_set_aside_take_turns_and_keep_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let conn = SqliteConn::open(&folder.path().join("t.db"), Role::Creator).unwrap();
        conn.batch("create table tally (total bigint); insert into tally values (0)").unwrap();
        let clock = Clock::mock(Time::from_micros(0));
        let lane = WriterLane::new(Conn::Sqlite(conn), Tally::default(), clock.clone());
        let [busy, other] = [1, 2].map(|id| WorkspaceId::from(Uuid::from_u128(id)));
        let (sender, done) = mpsc::channel();
        let change = |workspace, number| {
            let task: Box<dyn WriteTask<Tally>> = Box::new(Change(workspace, number, sender.clone()));
            QueuedTask::new_ordered(task, &clock)
        };
        let mut writer = lock(&lane.writer);
        writer.state.get_mut().locked = [busy, other].into();
        assert!(writer.run((0..10).map(|number| change(busy, number)).collect()).is_empty());
        writer.run(vec![change(other, 0)]);
        // The tasks are tried again, and set aside again.
        writer.run(Vec::new());
        assert!(done.try_recv().is_err() && writer.postponed.len() == 11);
        writer.state.get_mut().locked.clear();
        writer.run(Vec::new());
        let first: Vec<_> = done.try_iter().collect();
        assert!(first.contains(&(other, 0)), "it waits for one batch: {first:?}");
        writer.run(Vec::new());
        writer.run(Vec::new());
        let all: Vec<_> = first.into_iter().chain(done.try_iter()).collect();
        let of_busy = all.iter().filter(|(workspace, _)| *workspace == busy).map(|(_, number)| *number);
        assert_eq!(of_busy.collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    }

    /// A change that loses the transaction of its batch, or locks a workspace if it runs alone.
    struct Loses(Change, WorkspaceId, usize);

    impl WriteTask<Tally> for Loses {
        fn home(&self) -> WorkspaceId {
            self.0.0
        }
        fn workspaces(&self) -> Vec<WorkspaceId> {
            vec![self.0.0]
        }
        fn run(&mut self, conn: &Conn, state: &RefCell<Tally>) -> Result<()> {
            self.2 += 1;
            if self.2 == 1 {
                // The flush then finds no row, and cannot determine which change is at fault.
                let Conn::Sqlite(conn) = conn else { return Ok(()) };
                return conn.batch("delete from tally");
            }
            // Another server locks the other workspace now.
            state.borrow_mut().locked = [self.1].into();
            Ok(())
        }
    }

    impl Task for Loses {
        fn source(&self) -> TaskSource {
            self.0.source()
        }
        fn bytes(&self) -> usize {
            1
        }
        fn is_abandoned(&self) -> bool {
            false
        }
        fn finish(self: Box<Self>, _: Result<()>) {}
    }

    /// A change with few bytes.
    struct Small(Change);

    impl WriteTask<Tally> for Small {
        fn home(&self) -> WorkspaceId {
            self.0.0
        }
        fn workspaces(&self) -> Vec<WorkspaceId> {
            vec![self.0.0]
        }
        fn run(&mut self, _: &Conn, _: &RefCell<Tally>) -> Result<()> {
            Ok(())
        }
    }

    impl Task for Small {
        fn source(&self) -> TaskSource {
            self.0.source()
        }
        fn bytes(&self) -> usize {
            1
        }
        fn is_abandoned(&self) -> bool {
            false
        }
        fn finish(self: Box<Self>, outcome: Result<()>) {
            Box::new(self.0).finish(outcome);
        }
    }

    #[test]
    fn changes_that_are_set_aside_again_one_by_one_keep_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let conn = SqliteConn::open(&folder.path().join("t.db"), Role::Creator).unwrap();
        conn.batch("create table tally (total bigint); insert into tally values (0)").unwrap();
        let clock = Clock::mock(Time::from_micros(0));
        let lane = WriterLane::new(Conn::Sqlite(conn), Tally::default(), clock.clone());
        let [bad, other] = [1, 2].map(|id| WorkspaceId::from(Uuid::from_u128(id)));
        let (sender, done) = mpsc::channel();
        let queued = |task: Box<dyn WriteTask<Tally>>| QueuedTask::new_ordered(task, &clock);
        let mut writer = lock(&lane.writer);
        writer.state.get_mut().locked = [bad, other].into();
        let small = |number| queued(Box::new(Small(Change(other, number, sender.clone()))));
        let loses = queued(Box::new(Loses(Change(bad, 9, sender.clone()), other, 0)));
        writer.run(vec![loses, small(0), small(1), small(2)]);
        assert_eq!(writer.postponed.len(), 4);
        // The changes run together, the batch is lost, and each change runs alone, when the workspace is
        // locked again.
        writer.state.get_mut().locked.clear();
        writer.run(Vec::new());
        assert_eq!(writer.postponed.len(), 3);
        writer.state.get_mut().locked.clear();
        writer.run(Vec::new());
        assert_eq!(done.try_iter().map(|(_, number)| number).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
