//! The executor: core threads own the connections, and callers submit tasks.
//!
//! A writer lane batches its queue into one transaction, so that many callers share one flush to disk; only
//! the tasks that fail are rolled back. Readers share a queue. Long reads and scans, which have no time
//! limit, have separate queues. Short reads that arrive at the same moment can share one transaction on a
//! caller's thread. A full queue rejects tasks instead of growing. A task that was queued for too long, or
//! whose caller has disconnected, is rejected instead of run.

mod task;
mod fair_queue;
mod queue;
mod lane;
mod readers;
mod batched;
#[cfg(test)]
mod tally;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, ThreadId};
use std::time::Duration;

use uuid::Uuid;

use super::budget::ReadInterrupt;
use super::conn::Conn;
use super::engine::{Engine, StatementCounts, WalTruncation};
use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::limits::SCANNER_THREADS;
use crate::sync::{join, lock};
use crate::time::Clock;
pub(crate) use batched::BatchFlush;
use batched::BatchedReads;
use lane::WriterLane;
use readers::{PoolSettings, ReadPool};
pub(crate) use readers::{ReadTask, Reader, ReaderState};
#[cfg(test)]
pub(super) use tally::Tally;
pub(crate) use task::{Task, TaskSource};

/// The state that the tasks in a writer's batch share.
pub(crate) trait BatchState: Send + 'static {
    /// The cache that each reader keeps across transactions.
    type ReaderState: ReaderState;
    /// Prepares the state for a new transaction, whose tasks may write the logs of `workspaces`.
    ///
    /// `have_others_written` is whether cached data may be outdated. Returns those of the workspaces that
    /// another server has locked. Tasks of these workspaces cannot run now.
    fn begin(
        &mut self,
        conn: &Conn,
        workspaces: &BTreeSet<WorkspaceId>,
        have_others_written: bool,
        policy: LockedWorkspaces,
    ) -> Result<BTreeSet<WorkspaceId>>;
    /// Prepares the state for the next task of the transaction.
    fn begin_task(&mut self);
    /// Discards the changes that a failed task made to the state. `wrote` is whether the task has changed
    /// rows.
    fn undo_task(&mut self, wrote: bool);
    /// Writes the rows that the state has collected, before the commit.
    fn flush(&mut self, conn: &Conn) -> Result<()>;
    /// Returns the last position that the log of each changed workspace will have after the commit.
    fn committed_lsns(&self) -> BTreeMap<Uuid, i64>;
    /// Updates the state after a successful commit.
    fn committed(&mut self);
    /// Discards the state of a transaction that was rolled back.
    fn rolled_back(&mut self);
}

/// How to treat workspaces that another server's transaction has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockedWorkspaces {
    /// Wait a short time for the locks.
    Wait,
    /// Skip the tasks of locked workspaces.
    Skip,
}

/// A task that changes data. The executor may run it several times; only the effects of the last run are
/// kept.
pub(crate) trait WriteTask<S>: Task {
    /// Returns the workspace that determines the lane of the task.
    fn home(&self) -> WorkspaceId;
    /// Returns the workspaces whose logs the task may write.
    ///
    /// The executor needs them before the task runs, to lock the heads of their logs first.
    fn workspaces(&self) -> Vec<WorkspaceId>;
    /// Registers with the batch state the rows that the task will read, after the transaction has begun.
    fn announce(&self, _state: &mut S) {}
    /// Runs the task inside the transaction.
    fn run(&mut self, conn: &Conn, state: &std::cell::RefCell<S>) -> Result<()>;
}

/// A function that opens a connection for a core thread.
pub(crate) type Connect = Arc<dyn Fn() -> Result<Conn> + Send + Sync>;

/// The core threads of a service, and the queues of their tasks.
pub(crate) struct Executor<S: BatchState> {
    lanes: Vec<Arc<WriterLane<S>>>,
    reads: Arc<ReadPool<S::ReaderState>>,
    long_reads: Arc<ReadPool<S::ReaderState>>,
    scans: Arc<ReadPool<S::ReaderState>>,
    /// The pool for health checks. It has one reader, so that health checks do not wait for other reads.
    health: Arc<ReadPool<S::ReaderState>>,
    interrupt: ReadInterrupt,
    batched: BatchedReads<S::ReaderState>,
    is_local: bool,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// The numbers of readers, and the time limit of short reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReaderSettings {
    /// Number of reader threads that share a queue.
    pub threads: usize,
    /// Number of readers for reads on callers' own threads.
    pub inline: usize,
    /// Time limit of a short read. `None` means no limit.
    pub limit: Option<Duration>,
}

/// The functions with which core threads open their connections.
pub(crate) struct ConnectionOpeners {
    pub writer: Connect,
    pub reader: Connect,
    /// Opens connections for scans, which read every row once.
    pub scanner: Connect,
}

impl<S: BatchState> Executor<S> {
    /// Starts the core threads: one writer per state, `readers.threads` readers, one reader for long reads,
    /// one for health checks, and the readers for scans.
    pub fn start(
        states: Vec<S>,
        readers: ReaderSettings,
        clock: &Clock,
        openers: &ConnectionOpeners,
    ) -> Result<Self> {
        let mut threads = Vec::new();
        let mut lanes = Vec::new();
        for (number, state) in states.into_iter().enumerate() {
            let lane = Arc::new(WriterLane::new((openers.writer)()?, state, clock.clone()));
            lanes.push(Arc::clone(&lane));
            threads.push(spawn_thread(format!("svc-writer-{number}"), move || lane.run_until_closed())?);
        }
        let interrupt = ReadInterrupt::default();
        let mut pool = |name, open, ReaderSettings { threads: size, inline, limit }| {
            let settings = PoolSettings { name, threads: size, inline, limit };
            ReadPool::start(settings, clock, open, &interrupt, &mut threads)
        };
        let own = |threads, limit| ReaderSettings { threads, inline: 0, limit };
        let reads = pool("svc-reader", &openers.reader, readers)?;
        let long_reads = pool("svc-long-reader", &openers.reader, own(1, None))?;
        let scans = pool("svc-scanner", &openers.scanner, own(SCANNER_THREADS, None))?;
        let health = pool("svc-health-reader", &openers.reader, own(1, readers.limit))?;
        let is_local = reads.engine() == Some(Engine::Sqlite);
        Ok(Self {
            lanes,
            reads,
            long_reads,
            scans,
            health,
            interrupt,
            batched: BatchedReads::default(),
            is_local,
            threads: Mutex::new(threads),
        })
    }

    /// Queues a task that changes data, in the lane of its workspace.
    pub fn write(&self, task: Box<dyn WriteTask<S>>) {
        match self.lane(task.home()) {
            Some(lane) => lane.submit(task),
            None => task.finish(Err(Error::internal("the executor has no writer"))),
        }
    }

    /// Runs a change on the calling thread if the thread may block and its writer is idle, or queues it.
    pub fn write_inline(&self, task: Box<dyn WriteTask<S>>) {
        match self.lane(task.home()) {
            Some(lane) if self.may_block_here() => lane.run_inline(task),
            Some(lane) => lane.submit(task),
            None => task.finish(Err(Error::internal("the executor has no writer"))),
        }
    }

    /// Returns whether tasks may run on the calling thread.
    ///
    /// A thread of an async runtime may not wait for a database on the network.
    fn may_block_here(&self) -> bool {
        self.is_local || tokio::runtime::Handle::try_current().is_err()
    }

    /// Returns whether reads need no network, as on SQLite.
    ///
    /// Only such a read may run on a thread that must not block.
    pub fn has_local_reads(&self) -> bool {
        self.is_local
    }

    /// Queues a read, in the queue for long reads if `long` is true.
    pub fn read(&self, task: Box<dyn ReadTask<S::ReaderState>>, is_long: bool) {
        if is_long { self.long_reads.submit(task) } else { self.reads.submit(task) }
    }

    /// Queues a read for a health check, which waits only for other health checks.
    pub fn read_health(&self, task: Box<dyn ReadTask<S::ReaderState>>) {
        self.health.submit(task);
    }

    /// Queues a read of all data of a workspace, without a time limit.
    pub fn scan(&self, task: Box<dyn ReadTask<S::ReaderState>>) {
        self.scans.submit(task);
    }

    /// Reads on the calling thread if the thread may block and a reader is idle, or queues the read.
    pub fn read_inline(&self, task: Box<dyn ReadTask<S::ReaderState>>) {
        if self.may_block_here() { self.reads.run_inline(vec![task]) } else { self.reads.submit(task) }
    }

    /// Adds a read to the batch that will share one transaction.
    ///
    /// Returns whether and when the caller must run the batch with [`Executor::flush_batched`].
    pub fn batch(&self, task: Box<dyn ReadTask<S::ReaderState>>) -> BatchFlush {
        let added = self.batched.add(task);
        self.reads.run_inline(added.full_batch);
        added.role
    }

    /// Runs the batched reads in one transaction.
    ///
    /// The reads run on the calling thread if a reader is idle; otherwise they are queued.
    pub fn flush_batched(&self) {
        self.reads.run_inline(self.batched.take_batch());
    }

    /// Returns how often SQLite compiled statements on the connections of writers and of short reads.
    pub fn statement_counts(&self) -> StatementCounts {
        let lanes = self.lanes.iter().map(|lane| lane.statement_counts());
        lanes.fold(self.reads.statement_counts(), StatementCounts::plus)
    }

    /// Returns the settings that determine the durability of commits, one text per writer connection.
    pub fn durability(&self) -> Result<Vec<String>> {
        self.lanes.iter().map(|lane| lane.durability()).collect()
    }

    /// Fails if a lane cannot write, because its last write to the disk has failed.
    pub fn check_writers(&self) -> Result<()> {
        self.lanes.iter().try_for_each(|lane| lane.check_disk())
    }

    /// Returns the number of queued changes.
    pub fn queued_writes(&self) -> usize {
        self.lanes.iter().map(|lane| lane.queue_len()).fold(0, usize::saturating_add)
    }

    /// Returns the number of queued reads, including long reads and scans, but not health checks.
    pub fn queued_reads(&self) -> usize {
        let pools = [&self.reads, &self.long_reads, &self.scans];
        pools.map(|pool| pool.queue_len()).into_iter().fold(0, usize::saturating_add)
    }

    /// Checkpoints and truncates SQLite's write-ahead log, which removes destroyed bytes from the files.
    ///
    /// The writer runs no batch during this time.
    pub fn truncate_wal(&self) -> Result<WalTruncation> {
        self.lanes
            .first()
            .map_or(Ok(WalTruncation::Done), |lane| lane.run_between_batches(Conn::truncate_wal))
    }

    /// Interrupts current and future reads.
    pub fn interrupt_reads(&self) {
        self.interrupt.interrupt();
    }

    /// Finishes queued changes, interrupts reads, and stops the core threads.
    ///
    /// `caller` is the thread that waits for this, which may be one of them. Returns whether none of the
    /// threads has panicked.
    pub fn close(&self, caller: ThreadId) -> bool {
        self.lanes.iter().for_each(|lane| lane.close());
        self.interrupt_reads();
        [&self.reads, &self.long_reads, &self.scans, &self.health].into_iter().for_each(|pool| pool.close());
        let threads: Vec<JoinHandle<()>> = lock(&self.threads).drain(..).collect();
        // A core thread catches the panics of its tasks.
        let mut none_panicked = true;
        for thread in threads {
            none_panicked &= join(thread, caller);
        }
        none_panicked
    }

    fn lane(&self, workspace: WorkspaceId) -> Option<&Arc<WriterLane<S>>> {
        let lanes = u64::try_from(self.lanes.len()).ok()?;
        self.lanes.get(usize::try_from(hash_id(workspace).checked_rem(lanes)?).ok()?)
    }
}

/// Hashes an id with the finalizer of SplitMix64, because ids of workspaces created in sequence differ in few
/// bits.
fn hash_id(workspace: WorkspaceId) -> u64 {
    let (high, low) = workspace.uuid().as_u64_pair();
    let mut mixed = high ^ low;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn spawn_thread(name: String, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name).spawn(body).map_err(Error::internal)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use std::time::Duration;

    use super::*;
    use crate::error::Code;
    use crate::limits::{BATCH_BYTES_MAX, LOCK_TIMEOUT, QUEUE_WAIT_MAX, QUEUED_BYTES_MAX, READ_BATCH_MAX};
    use crate::store::faulty_engine::HostileConn;
    use crate::store::sqlite::{Role, SqliteConn};
    use crate::time::{Monotonic, Time};

    /// A task that inserts its number, and then succeeds or fails depending on the number.
    struct Numbered(i64, mpsc::Sender<(i64, bool)>);

    impl WriteTask<Tally> for Numbered {
        fn home(&self) -> WorkspaceId {
            WorkspaceId::INSTANCE
        }
        fn workspaces(&self) -> Vec<WorkspaceId> {
            vec![self.home()]
        }
        fn run(&mut self, conn: &Conn, tally: &RefCell<Tally>) -> Result<()> {
            conn.execute("insert into row values ($1)", &[&self.0])?;
            tally.borrow_mut().add(1);
            match self.0 % 50 {
                7 => panic!("a task that panics"),
                9 => Err(Error::wrong_state("a task that fails after writing")),
                // SQLite ends a transaction by itself when the disk fails, and the task may not notice.
                21 => conn.batch("rollback").and(Err(Error::internal("a read that failed"))),
                33 => conn.batch("rollback"),
                _ => Ok(()),
            }
        }
    }

    impl Task for Numbered {
        fn source(&self) -> TaskSource {
            TaskSource::SERVICE
        }
        fn bytes(&self) -> usize {
            8
        }
        fn is_abandoned(&self) -> bool {
            self.0 < 0
        }
        fn finish(self: Box<Self>, outcome: Result<()>) {
            self.1.send((self.0, outcome.is_ok())).unwrap();
        }
    }

    struct Count(mpsc::Sender<Vec<i64>>, Vec<i64>, usize);

    impl Count {
        fn task(sender: &mpsc::Sender<Vec<i64>>, bytes: usize) -> Box<Self> {
            Box::new(Self(sender.clone(), Vec::new(), bytes))
        }
    }

    impl ReadTask<()> for Count {
        fn run(&mut self, reader: &Reader<()>) -> Result<()> {
            let mut rows = reader.conn.query("select (select count(*) from row), total from tally", &[])?;
            self.1 = vec![rows[0].take()?, rows[0].take()?];
            Ok(())
        }
    }

    impl Task for Count {
        fn source(&self) -> TaskSource {
            TaskSource::SERVICE
        }
        fn bytes(&self) -> usize {
            self.2
        }
        fn is_abandoned(&self) -> bool {
            false
        }
        fn finish(self: Box<Self>, outcome: Result<()>) {
            outcome.unwrap();
            self.0.send(self.1).unwrap();
        }
    }

    const SCHEMA: &str =
        "create table row (n bigint); create table tally (total bigint); insert into tally values (0)";

    fn on_file(path: &std::path::Path) -> Executor<Tally> {
        on_file_by(path, &Clock::system())
    }

    fn on_file_by(path: &std::path::Path, clock: &Clock) -> Executor<Tally> {
        let open = |role| -> Connect {
            let path = path.to_owned();
            Arc::new(move || SqliteConn::open(&path, role).map(Conn::Sqlite))
        };
        open(Role::Creator)().unwrap().batch(SCHEMA).unwrap();
        let readers = ReaderSettings { threads: 2, inline: 1, limit: None };
        let writer = open(Role::Writer);
        let reader = open(Role::Reader);
        let scanner = open(Role::Scanner);
        Executor::start(
            vec![Tally::default()],
            readers,
            clock,
            &ConnectionOpeners { writer, reader, scanner },
        )
        .unwrap()
    }

    #[test]
    fn failing_tasks_of_a_batch_are_rolled_back_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        let executor = on_file(&path);
        let (sender, receiver) = mpsc::channel();
        (0..300).for_each(|number| executor.write(Box::new(Numbered(number, sender.clone()))));
        executor.write_inline(Box::new(Numbered(300, sender)));
        let outcomes: Vec<(i64, bool)> = receiver.iter().collect();
        assert_eq!(outcomes.len(), 301, "every task finishes once");
        assert!(outcomes.iter().all(|(number, fine)| *fine != matches!(number % 50, 7 | 9 | 21 | 33)));
        let (sender, receiver) = mpsc::channel();
        executor.read(Count::task(&sender, 8), false);
        assert_eq!(receiver.recv().unwrap(), [277, 277]);
        let first: Vec<BatchFlush> = (0..3).map(|_| executor.batch(Count::task(&sender, 8))).collect();
        assert_eq!(
            first,
            [BatchFlush::AfterPause, BatchFlush::Others, BatchFlush::Others],
            "one of them runs all"
        );
        assert!(receiver.try_recv().is_err(), "they wait");
        executor.flush_batched();
        drop(sender);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [[277, 277], [277, 277], [277, 277]]);
        executor.close(std::thread::current().id());
        let (sender, receiver) = mpsc::channel();
        executor.write(Box::new(Numbered(1, sender)));
        assert_eq!(receiver.recv().unwrap(), (1, false), "a closed executor rejects tasks");
    }

    #[test]
    fn a_batch_of_reads_is_bounded_by_number_and_by_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let executor = on_file(&folder.path().join("t.db"));
        for (bytes, fitting) in [(BATCH_BYTES_MAX / 2, 2), (2 * BATCH_BYTES_MAX, 1), (8, READ_BATCH_MAX)] {
            let (sender, receiver) = mpsc::channel();
            let batched: Vec<BatchFlush> =
                (0..fitting).map(|_| executor.batch(Count::task(&sender, bytes))).collect();
            assert_eq!(batched[0], BatchFlush::AfterPause, "the first runs all");
            assert!(batched[1..].iter().all(|turn| *turn == BatchFlush::Others));
            let next = executor.batch(Count::task(&sender, bytes));
            assert_eq!(next, BatchFlush::AfterPause, "it is the first of another batch");
            (0..fitting).for_each(|_| drop(receiver.recv().unwrap()));
            assert!(receiver.try_recv().is_err(), "those before it were run");
            executor.flush_batched();
            executor.flush_batched();
            drop(sender);
            assert_eq!(receiver.iter().count(), 1);
        }
    }

    #[test]
    fn a_caller_that_is_alone_waits_for_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let executor = on_file(&folder.path().join("t.db"));
        let (sender, _receiver) = mpsc::channel();
        let batch = |reads: usize| {
            let first = executor.batch(Count::task(&sender, 8));
            (1..reads).for_each(|_| assert_eq!(executor.batch(Count::task(&sender, 8)), BatchFlush::Others));
            executor.flush_batched();
            first
        };
        let lone: Vec<BatchFlush> = (0..100).map(|_| batch(1)).collect();
        let waited = lone.iter().enumerate().filter(|(_, turn)| **turn == BatchFlush::AfterPause);
        let waited: Vec<usize> = waited.map(|(number, _)| number).collect();
        assert_eq!(waited, [0, 1, 2, 3, 4, 5, 6, 7, 32, 64, 96]);
        assert_eq!(batch(2), BatchFlush::Now);
        assert_eq!(batch(1), BatchFlush::AfterPause, "there are others again");
    }

    #[test]
    fn the_wal_is_truncated_while_others_keep_writing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        let executor = on_file(&path);
        let (sender, receiver) = mpsc::channel();
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let executor = &executor;
            let over = &over;
            scope.spawn(move || {
                // Always keeps one more task in the queue than has finished.
                executor.write(Box::new(Numbered(0, sender.clone())));
                while !over.load(Ordering::Relaxed) {
                    executor.write(Box::new(Numbered(0, sender.clone())));
                    assert!(receiver.recv().unwrap().1);
                }
            });
            let cut: Vec<WalTruncation> = (0..20).map(|_| executor.truncate_wal().unwrap()).collect();
            over.store(true, Ordering::Relaxed);
            assert_eq!(cut, [WalTruncation::Done; 20]);
        });
        executor.close(std::thread::current().id());
        assert_eq!(executor.truncate_wal().unwrap(), WalTruncation::Done);
        let log = std::fs::metadata(path.with_extension("db-wal")).unwrap();
        assert_eq!(log.len(), 0);
    }

    /// A task that blocks its thread until it is released.
    struct Holding(mpsc::Sender<()>, mpsc::Receiver<()>);

    impl WriteTask<Tally> for Holding {
        fn home(&self) -> WorkspaceId {
            WorkspaceId::INSTANCE
        }
        fn workspaces(&self) -> Vec<WorkspaceId> {
            Vec::new()
        }
        fn run(&mut self, _: &Conn, _: &RefCell<Tally>) -> Result<()> {
            self.0.send(()).unwrap();
            self.1.recv().map_err(Error::internal)
        }
    }

    impl Task for Holding {
        fn source(&self) -> TaskSource {
            TaskSource::SERVICE
        }
        fn bytes(&self) -> usize {
            QUEUED_BYTES_MAX - 20
        }
        fn is_abandoned(&self) -> bool {
            false
        }
        fn finish(self: Box<Self>, _: Result<()>) {}
    }

    #[test]
    fn tasks_that_are_too_late_or_abandoned_are_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::mock(Time::from_micros(0));
        let executor = on_file_by(&folder.path().join("t.db"), &clock);
        let hold = || {
            let (entered, enter) = mpsc::channel();
            let (release, released) = mpsc::channel();
            executor.write(Box::new(Holding(entered, released)));
            enter.recv().unwrap();
            release
        };
        let (sender, receiver) = mpsc::channel();
        let write = |number| executor.write(Box::new(Numbered(number, sender.clone())));
        let release = hold();
        [1, -1, 2].into_iter().for_each(write);
        release.send(()).unwrap();
        assert_eq!(
            receiver.iter().take(3).collect::<BTreeSet<_>>(),
            [(-1, false), (1, true), (2, true)].into()
        );
        let release = hold();
        [3, 4].into_iter().for_each(write);
        clock.advance(QUEUE_WAIT_MAX - Duration::from_secs(1));
        write(5);
        clock.advance(Duration::from_secs(1));
        release.send(()).unwrap();
        assert_eq!(
            receiver.iter().take(3).collect::<BTreeSet<_>>(),
            [(3, false), (4, false), (5, true)].into()
        );
    }

    #[test]
    fn a_queue_is_bounded_by_bytes_too() {
        let folder = tempfile::tempdir().unwrap();
        let executor = on_file(&folder.path().join("t.db"));
        let (entered, enter) = mpsc::channel();
        let (release, released) = mpsc::channel();
        executor.write(Box::new(Holding(entered.clone(), released)));
        enter.recv().unwrap();
        // The first task no longer counts. The next task counts, and leaves capacity for two.
        let (second, released) = mpsc::channel();
        executor.write(Box::new(Holding(entered, released)));
        let (sender, receiver) = mpsc::channel();
        (1..=3).for_each(|number| executor.write(Box::new(Numbered(number, sender.clone()))));
        assert_eq!(receiver.recv().unwrap(), (3, false), "there is no capacity for the third");
        drop((release, second));
        assert_eq!(receiver.iter().take(2).collect::<BTreeSet<_>>(), [(1, true), (2, true)].into());
    }

    /// A message of a given size, which reports its workspace and the number of messages committed before it.
    struct Message {
        workspace: u128,
        bytes: usize,
        hold: Option<Holding>,
        committed: Arc<AtomicUsize>,
        ran: mpsc::Sender<(u128, usize)>,
    }

    impl WriteTask<Tally> for Message {
        fn home(&self) -> WorkspaceId {
            Uuid::from_u128(self.workspace).into()
        }
        fn workspaces(&self) -> Vec<WorkspaceId> {
            Vec::new()
        }
        fn run(&mut self, conn: &Conn, tally: &RefCell<Tally>) -> Result<()> {
            self.hold.as_mut().map_or(Ok(()), |hold| hold.run(conn, tally))?;
            self.ran.send((self.workspace, self.committed.load(Ordering::SeqCst))).map_err(Error::internal)
        }
    }

    impl Task for Message {
        fn source(&self) -> TaskSource {
            TaskSource { workspace: Some(self.home()), client: None }
        }
        fn bytes(&self) -> usize {
            self.bytes
        }
        fn is_abandoned(&self) -> bool {
            false
        }
        fn finish(self: Box<Self>, outcome: Result<()>) {
            outcome.unwrap();
            self.committed.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn at_most_two_large_messages_of_a_workspace_are_committed_together() {
        // The approximate size that a message of 360 KB counts as.
        const LARGE: usize = 650_000;
        let folder = tempfile::tempdir().unwrap();
        // No time passes, so only the size ends a batch.
        let executor = on_file_by(&folder.path().join("t.db"), &Clock::mock(Time::from_micros(0)));
        let committed = Arc::new(AtomicUsize::new(0));
        let (sender, ran) = mpsc::channel();
        let write = |workspace, bytes, hold| {
            let committed = Arc::clone(&committed);
            let ran = sender.clone();
            executor.write(Box::new(Message { workspace, bytes, hold, committed, ran }));
        };
        let (entered, enter) = mpsc::channel();
        let hold = || {
            let (release, released) = mpsc::channel();
            (release, Holding(entered.clone(), released))
        };
        // All tasks are queued before the first of them runs.
        let (begin, all) = hold();
        let (go_on, first) = hold();
        executor.write(Box::new(all));
        enter.recv().unwrap();
        write(1, LARGE, Some(first));
        (0..4).for_each(|_| write(1, LARGE, None));
        begin.send(()).unwrap();
        enter.recv().unwrap();
        // This task arrives while the first batch runs, and is in the next batch.
        write(2, 300, None);
        go_on.send(()).unwrap();
        let order: Vec<_> = ran.iter().take(6).collect();
        assert_eq!(order, [(1, 0), (1, 0), (1, 2), (2, 2), (1, 2), (1, 5)]);
    }

    #[test]
    fn workspaces_created_in_sequence_spread_over_all_lanes() {
        let mut lanes = [0; 4];
        for number in 0..1000_u128 {
            let id = uuid::Uuid::from_u128((0x0190_0000_0000_7000_8000_u128 << 48) + number);
            lanes[usize::try_from(hash_id(id.into()) % 4).unwrap()] += 1;
        }
        assert!(lanes.iter().all(|share| (200..300).contains(share)), "{lanes:?}");
    }

    /// A task that waits ten seconds for a lock that is never granted.
    struct Locked(Clock, mpsc::Sender<Monotonic>);

    impl WriteTask<Tally> for Locked {
        fn home(&self) -> WorkspaceId {
            WorkspaceId::INSTANCE
        }
        fn workspaces(&self) -> Vec<WorkspaceId> {
            Vec::new()
        }
        fn run(&mut self, conn: &Conn, _: &RefCell<Tally>) -> Result<()> {
            conn.execute("insert into row values (1)", &[])?;
            self.0.advance(LOCK_TIMEOUT);
            Err(Error::new(Code::Unavailable, "the lock was not granted"))
        }
    }

    impl Task for Locked {
        fn source(&self) -> TaskSource {
            TaskSource::SERVICE
        }
        fn bytes(&self) -> usize {
            8
        }
        fn is_abandoned(&self) -> bool {
            false
        }
        fn finish(self: Box<Self>, outcome: Result<()>) {
            assert_eq!(outcome.unwrap_err().code(), Code::Unavailable);
            self.1.send(self.0.monotonic()).unwrap();
        }
    }

    #[test]
    fn a_batch_does_not_wait_once_for_each_of_its_tasks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        SqliteConn::open(&path, Role::Creator).unwrap().batch(SCHEMA).unwrap();
        let clock = Clock::mock(Time::from_micros(0));
        let open: Connect = Arc::new(move || HostileConn::open(&path, 1, 0).map(Conn::Hostile));
        let readers = ReaderSettings { threads: 1, inline: 0, limit: None };
        let openers = ConnectionOpeners { writer: open.clone(), reader: open.clone(), scanner: open };
        let executor = Executor::start(vec![Tally::default()], readers, &clock, &openers).unwrap();
        let (entered, enter) = mpsc::channel();
        let (release, released) = mpsc::channel();
        executor.write(Box::new(Holding(entered, released)));
        enter.recv().unwrap();
        let (sender, receiver) = mpsc::channel();
        let start = clock.monotonic();
        (0..20).for_each(|_| executor.write(Box::new(Locked(clock.clone(), sender.clone()))));
        release.send(()).unwrap();
        let waited = receiver.iter().take(20).last().unwrap().since(start);
        assert!(waited <= QUEUE_WAIT_MAX + LOCK_TIMEOUT, "the last finished after {waited:?}");
    }
}
