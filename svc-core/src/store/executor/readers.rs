//! Reader threads, each with its own connection. On Postgres, the connection takes a session per transaction.
//!
//! A few more connections are for short reads on the callers' own threads. Workspaces take turns. No
//! workspace occupies more than half of the readers, and none takes the last free reader while it occupies
//! another one. Waiting tasks of one workspace share a read transaction for a short time. A task that fails
//! or panics does not affect the others. A task whose session broke or whose transaction met a conflict runs
//! once more in a new transaction.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::fair_queue::FairTaskQueue;
use super::queue::BatchCapacity;
use super::task::{QueuedTask, Task, TaskSource};
use super::{Connect, spawn_thread};
use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::limits::{BATCH_BYTES_MAX, READ_BATCH_MAX, READS_QUEUED_MAX};
use crate::store::budget::{ReadInterrupt, interrupted_error};
use crate::store::conn::Conn;
use crate::store::engine::{Engine, StatementCounts, TransactionFailure};
use crate::sync::lock;
use crate::time::Clock;

/// Maximum time from the beginning of a read transaction to the beginning of its last task.
///
/// This is also the length of a workspace's turn. Tasks that have not begun after this time go back to the
/// queue, where an idle reader can take them.
const BATCH_TIME: Duration = Duration::from_millis(10);

/// The cache that a reader keeps across transactions.
pub(crate) trait ReaderState: Default + Send + 'static {
    /// Prepares the state for a new read transaction.
    fn begin(&mut self);
}

/// A connection that only reads, with its cache.
pub(crate) struct Reader<N> {
    pub conn: Conn,
    pub cache: RefCell<N>,
}

/// A task that reads. The pool may run it more than once; only the result of the last run is reported.
pub(crate) trait ReadTask<N>: Task {
    /// Prepares the task, before the transaction begins in which the task may run.
    ///
    /// The task must read anything that it needs from outside the database here: later reads may reflect a
    /// change that the transaction does not see.
    fn prepare(&mut self) {}
    /// Runs the task inside a read transaction.
    fn run(&mut self, reader: &Reader<N>) -> Result<()>;
}

type QueuedRead<N> = QueuedTask<dyn ReadTask<N>>;

/// A queue of reads, and the readers that run them.
pub(super) struct ReadPool<N> {
    state: Mutex<State<N>>,
    changed: Condvar,
    readers: Vec<Mutex<Reader<N>>>,
    /// Readers for reads on the callers' own threads, so that these reads do not block the pool's threads.
    inline: Vec<Mutex<Reader<N>>>,
    clock: Clock,
}

/// The settings of a pool of readers.
#[derive(Clone, Copy, Debug)]
pub(super) struct PoolSettings {
    /// Prefix of the names of the pool's threads.
    pub name: &'static str,
    /// Number of threads in the pool.
    pub threads: usize,
    /// Number of readers for reads on the callers' own threads.
    pub inline: usize,
    /// Maximum time for which one task may read. `None` means no limit.
    pub limit: Option<Duration>,
}

struct State<N> {
    turns: FairTaskQueue<dyn ReadTask<N>>,
    threads: ReaderOccupancy,
    inline: ReaderOccupancy,
}

impl<N> State<N> {
    fn occupancy(&mut self, is_inline: bool) -> &mut ReaderOccupancy {
        if is_inline { &mut self.inline } else { &mut self.threads }
    }
}

/// The readers of one kind, and the number of readers that each workspace occupies.
#[derive(Default)]
struct ReaderOccupancy {
    total: usize,
    free: usize,
    by_workspace: HashMap<Option<WorkspaceId>, usize>,
}

impl ReaderOccupancy {
    /// Returns whether a workspace may occupy one more reader.
    ///
    /// A workspace may occupy up to half of the readers, but the last free reader only if it occupies no
    /// other one.
    fn can_occupy(&self, workspace: Option<WorkspaceId>) -> bool {
        match self.by_workspace.get(&workspace) {
            None => self.free > 0,
            Some(own) => self.free > 1 && *own < self.max_per_workspace(),
        }
    }

    /// Returns the maximum number of readers for one workspace.
    fn max_per_workspace(&self) -> usize {
        self.total.div_ceil(2)
    }

    fn occupy(&mut self, workspaces: &BTreeSet<Option<WorkspaceId>>) {
        self.free = self.free.saturating_sub(1);
        for workspace in workspaces {
            let own = self.by_workspace.entry(*workspace).or_default();
            *own = own.saturating_add(1);
        }
    }

    fn release(&mut self, workspaces: &BTreeSet<Option<WorkspaceId>>) {
        self.free = self.free.saturating_add(1);
        for workspace in workspaces {
            let left = self.by_workspace.get(workspace).map_or(0, |own| own.saturating_sub(1));
            match left {
                0 => drop(self.by_workspace.remove(workspace)),
                left => drop(self.by_workspace.insert(*workspace, left)),
            }
        }
    }
}

/// A reader that is occupied until this value is dropped.
struct OccupiedReader<'p, N> {
    pool: &'p ReadPool<N>,
    inline: bool,
    workspaces: BTreeSet<Option<WorkspaceId>>,
}

impl<N> Drop for OccupiedReader<'_, N> {
    fn drop(&mut self) {
        // No thread needs to be woken: a thread of the pool finds its next turn by itself, and queued tasks
        // do not wait for an inline reader.
        lock(&self.pool.state).occupancy(self.inline).release(&self.workspaces);
    }
}

impl<N: ReaderState> ReadPool<N> {
    pub fn start(
        settings: PoolSettings,
        clock: &Clock,
        open: &Connect,
        interrupt: &ReadInterrupt,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Result<Arc<Self>> {
        let PoolSettings { name, threads: size, inline, limit } = settings;
        let conn = || open()?.for_reads(interrupt, limit);
        let reader = || Ok(Mutex::new(Reader { conn: conn()?, cache: RefCell::default() }));
        let connect = |count: usize| (0..count).map(|_| reader()).collect::<Result<_>>();
        let occupancy = |total| ReaderOccupancy { total, free: total, ..ReaderOccupancy::default() };
        let turns = FairTaskQueue::new(READS_QUEUED_MAX);
        let of_threads = occupancy(size);
        let of_callers = occupancy(inline);
        let pool = Arc::new(Self {
            state: Mutex::new(State { turns, threads: of_threads, inline: of_callers }),
            changed: Condvar::new(),
            readers: connect(size)?,
            inline: connect(inline)?,
            clock: clock.clone(),
        });
        for number in 0..size {
            let pool = Arc::clone(&pool);
            threads.push(spawn_thread(format!("{name}-{number}"), move || pool.run_reader_thread(number))?);
        }
        Ok(pool)
    }

    pub fn submit(&self, task: Box<dyn ReadTask<N>>) {
        let workspace = task.source().workspace;
        let mut state = lock(&self.state);
        let rejected = state.turns.push(QueuedTask::new(task, &self.clock));
        // Otherwise the task waits for a reader in use, whose thread finds it.
        let may_run = state.threads.can_occupy(workspace);
        drop(state);
        match rejected {
            Some(rejected) => rejected.finish(),
            None if may_run => self.changed.notify_one(),
            None => {}
        }
    }

    /// Returns the number of queued tasks.
    pub fn queue_len(&self) -> usize {
        lock(&self.state).turns.len()
    }

    /// Runs tasks on the calling thread if an inline reader is free for them, or queues them.
    pub fn run_inline(&self, tasks: Vec<Box<dyn ReadTask<N>>>) {
        if tasks.is_empty() {
            return;
        }
        let Some(reader) = self.idle_inline_reader() else { return self.submit_all(tasks) };
        let mut state = lock(&self.state);
        let occupancy = &mut state.inline;
        let (here, queued): (Vec<_>, Vec<_>) =
            tasks.into_iter().partition(|task| occupancy.can_occupy(task.source().workspace));
        let workspaces: BTreeSet<_> = here.iter().map(|task| task.source().workspace).collect();
        if here.is_empty() {
            drop(state);
            return self.submit_all(queued);
        }
        occupancy.occupy(&workspaces);
        drop(state);
        let occupied = OccupiedReader { pool: self, inline: true, workspaces };
        self.submit_all(queued);
        let here = here.into_iter().map(|task| QueuedTask::new(task, &self.clock)).collect();
        let left = self.run_in_transaction(&reader, here);
        drop(reader);
        self.put_back(left);
        drop(occupied);
    }

    fn submit_all(&self, tasks: Vec<Box<dyn ReadTask<N>>>) {
        tasks.into_iter().for_each(|task| self.submit(task));
    }

    fn put_back(&self, tasks: Vec<QueuedRead<N>>) {
        if tasks.is_empty() {
            return;
        }
        let mut state = lock(&self.state);
        if state.turns.is_closed() {
            drop(state);
            return tasks.into_iter().for_each(|queued| queued.task.finish(Err(interrupted_error())));
        }
        state.turns.put_back(tasks);
        drop(state);
        self.changed.notify_all();
    }

    fn idle_inline_reader(&self) -> Option<MutexGuard<'_, Reader<N>>> {
        self.inline.iter().find_map(|reader| reader.try_lock().ok())
    }

    fn run_reader_thread(&self, number: usize) {
        let Some(reader) = self.readers.get(number) else { return };
        while let Some((tasks, occupied)) = self.next_turn() {
            let left = self.run_in_transaction(&lock(reader), tasks);
            self.put_back(left);
            drop(occupied);
        }
    }

    /// Waits for queued tasks, and returns those of the next workspace that may occupy a reader.
    ///
    /// Takes a fair share of the workspace's queued tasks before the transaction begins: the callers of later
    /// tasks may know of a change that this transaction does not see. Returns `None` once the pool is closed
    /// and no task remains.
    fn next_turn(&self) -> Option<(Vec<QueuedRead<N>>, OccupiedReader<'_, N>)> {
        let mut state = lock(&self.state);
        loop {
            let State { turns, threads: occupancy, .. } = &mut *state;
            if let Some(first) = turns.pop_eligible(|workspace| occupancy.can_occupy(workspace)) {
                let workspace = first.source.workspace;
                let fair_share =
                    turns.workspace_len(workspace).checked_div(occupancy.max_per_workspace()).unwrap_or(0);
                let mut capacity =
                    BatchCapacity::new(fair_share.min(READ_BATCH_MAX).saturating_add(1), BATCH_BYTES_MAX);
                capacity.consume(first.bytes);
                let mut tasks = vec![first];
                while capacity.has_capacity()
                    && let Some(queued) = turns.pop_from_workspace(workspace)
                {
                    capacity.consume(queued.bytes);
                    tasks.push(queued);
                }
                let workspaces = BTreeSet::from([workspace]);
                occupancy.occupy(&workspaces);
                // A workspace that has returned a reader may occupy one again, while this thread runs other
                // tasks.
                if turns.has_eligible(|workspace| occupancy.can_occupy(workspace)) {
                    self.changed.notify_one();
                }
                return Some((tasks, OccupiedReader { pool: self, inline: false, workspaces }));
            }
            if turns.is_closed() && turns.len() == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub fn engine(&self) -> Option<Engine> {
        self.readers.first().map(|reader| lock(reader).conn.engine())
    }

    pub fn statement_counts(&self) -> StatementCounts {
        let readers = self.readers.iter().chain(&self.inline);
        let counts = readers.map(|reader| lock(reader).conn.statement_counts());
        counts.fold(StatementCounts::default(), StatementCounts::plus)
    }

    /// Rejects queued tasks, and ends the threads after their current tasks.
    pub fn close(&self) {
        let mut state = lock(&self.state);
        state.turns.close();
        let left: Vec<QueuedRead<N>> = std::iter::from_fn(|| state.turns.pop_eligible(|_| true)).collect();
        drop(state);
        self.changed.notify_all();
        left.into_iter().for_each(|queued| queued.task.finish(Err(interrupted_error())));
    }

    /// Runs tasks in one read transaction. If the transaction is lost, the remaining tasks run in a new one.
    ///
    /// Returns the tasks that have not begun within [`BATCH_TIME`].
    fn run_in_transaction(&self, reader: &Reader<N>, tasks: Vec<QueuedRead<N>>) -> Vec<QueuedRead<N>> {
        let now = self.clock.monotonic();
        let mut tasks: Vec<QueuedRead<N>> =
            tasks.into_iter().filter_map(|queued| queued.reject_if_expired(now)).collect();
        if tasks.is_empty() {
            return tasks;
        }
        tasks.iter_mut().for_each(|queued| queued.task.prepare());
        let mut begun = begin_read(reader);
        let mut tasks = tasks.into_iter();
        let deadline = now.plus(BATCH_TIME);
        let mut is_first = true;
        while is_first || self.clock.monotonic() < deadline {
            is_first = false;
            let Some(QueuedTask { mut task, .. }) = tasks.next() else { break };
            let mut outcome = Self::run_task(reader, &begun, task.as_mut());
            if let Some(failure) = reader.conn.failure() {
                begun = restart_read(reader);
                if matches!(failure, TransactionFailure::Broken | TransactionFailure::Conflict) {
                    outcome = Self::run_task(reader, &begun, task.as_mut());
                }
            }
            task.finish(outcome);
            if reader.conn.failure().is_some() {
                begun = restart_read(reader);
            }
        }
        end_read(reader);
        tasks.collect()
    }

    fn run_task(reader: &Reader<N>, begun: &Result<()>, task: &mut dyn ReadTask<N>) -> Result<()> {
        begun.clone()?;
        // The service's own reads have no budget, which only limits the reads of callers.
        if task.source() != TaskSource::SERVICE {
            reader.conn.begin_budget();
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| task.run(reader)))
            .unwrap_or_else(|_| Err(Error::internal("a read panicked")));
        reader.conn.end_budget();
        outcome
    }
}

fn begin_read<N: ReaderState>(reader: &Reader<N>) -> Result<()> {
    reader.cache.borrow_mut().begin();
    reader.conn.begin_read()
}

fn restart_read<N: ReaderState>(reader: &Reader<N>) -> Result<()> {
    end_read(reader);
    begin_read(reader)
}

fn end_read<N>(reader: &Reader<N>) {
    if let Err(error) = reader.conn.end_read() {
        tracing::warn!(%error, cause = ?error.cause(), "a read transaction did not end");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use secrecy::SecretString;
    use uuid::Uuid;

    use super::*;
    use crate::error::Code;
    use crate::store::postgres::{PgConn, create_pool, parse_url};
    use crate::store::sqlite::{Role, SqliteConn};
    use crate::time::Time;

    type Run = Box<dyn FnMut(&Reader<()>) -> Result<()> + Send>;

    /// A read that reports its name.
    struct Probe {
        name: &'static str,
        source: TaskSource,
        run: Run,
        ended: mpsc::Sender<(&'static str, Option<Code>)>,
    }

    impl ReadTask<()> for Probe {
        fn run(&mut self, reader: &Reader<()>) -> Result<()> {
            (self.run)(reader)
        }
    }

    impl Task for Probe {
        fn source(&self) -> TaskSource {
            self.source
        }
        fn bytes(&self) -> usize {
            1
        }
        fn is_abandoned(&self) -> bool {
            false
        }
        fn finish(self: Box<Self>, outcome: Result<()>) {
            self.ended.send((self.name, outcome.err().map(|error| error.code()))).unwrap();
        }
    }

    /// A pool on one of the engines, and the reports of its reads.
    struct Fixture {
        pool: Arc<ReadPool<()>>,
        interrupt: ReadInterrupt,
        threads: Vec<JoinHandle<()>>,
        sender: mpsc::Sender<(&'static str, Option<Code>)>,
        ended: mpsc::Receiver<(&'static str, Option<Code>)>,
        /// A statement that takes at least a minute.
        endless: &'static str,
        _folder: Option<tempfile::TempDir>,
    }

    impl Fixture {
        fn all(threads: usize, inline: usize, limit: Option<Duration>) -> Vec<Self> {
            Self::by(&Clock::system(), threads, inline, limit)
        }

        fn by(clock: &Clock, threads: usize, inline: usize, limit: Option<Duration>) -> Vec<Self> {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("t.db");
            SqliteConn::open(&path, Role::Creator).unwrap().batch("create table t (n bigint)").unwrap();
            let sqlite: Connect = Arc::new(move || SqliteConn::open(&path, Role::Reader).map(Conn::Sqlite));
            let endless =
                "with recursive c (n) as (select 1 union all select n + 1 from c) select count(*) from c";
            let server = crate::store::postgres::server_for_tests().map(|url| -> (Connect, &'static str) {
                let server = parse_url(&SecretString::from(url)).unwrap();
                let pool = create_pool(&server, threads + inline).unwrap();
                let open: Connect = Arc::new(move || PgConn::from_pool(&pool).map(Conn::Postgres));
                (
                    open,
                    "select cast(count(*) as bigint) from generate_series(1, 100) where pg_sleep(1) is null",
                )
            });
            let settings = PoolSettings { name: "reader", threads, inline, limit };
            let mut folder = Some(folder);
            let both = [Some((sqlite, endless)), server];
            let fixtures = both.into_iter().flatten().map(|(open, endless)| {
                let interrupt = ReadInterrupt::default();
                let mut threads = Vec::new();
                let pool = ReadPool::start(settings, clock, &open, &interrupt, &mut threads).unwrap();
                let (sender, ended) = mpsc::channel();
                let _folder = folder.take();
                Self { pool, interrupt, threads, sender, ended, endless, _folder }
            });
            fixtures.collect()
        }

        fn probe(
            &self,
            name: &'static str,
            workspace: u128,
            run: impl FnMut(&Reader<()>) -> Result<()> + Send + 'static,
        ) -> Box<Probe> {
            let source = TaskSource { workspace: Some(Uuid::from_u128(workspace).into()), client: None };
            Box::new(Probe { name, source, run: Box::new(run), ended: self.sender.clone() })
        }

        /// Queues a read that holds its reader until the sender is dropped, and returns once the read runs.
        fn hold(&self, name: &'static str, workspace: u128) -> mpsc::Sender<()> {
            let (entered, enter) = mpsc::channel();
            let (release, released) = mpsc::channel::<()>();
            self.pool.submit(self.probe(name, workspace, move |_| {
                entered.send(()).unwrap();
                let _ = released.recv();
                Ok(())
            }));
            enter.recv().unwrap();
            release
        }

        fn ended(&self, count: usize) -> Vec<&'static str> {
            self.ended.iter().take(count).map(|(name, _)| name).collect()
        }

        fn close(self) {
            self.interrupt.interrupt();
            self.pool.close();
            self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        }
    }

    fn nothing(_: &Reader<()>) -> Result<()> {
        Ok(())
    }

    #[test]
    fn no_workspace_takes_the_last_free_reader() {
        for fixture in Fixture::all(2, 2, None) {
            let held = fixture.hold("held", 1);
            fixture.pool.submit(fixture.probe("waits", 1, nothing));
            fixture.pool.submit(fixture.probe("other", 2, nothing));
            assert_eq!(
                fixture.ended(1),
                ["other"],
                "a second reader is free, but not for the first workspace"
            );
            // Reads on callers' threads use other readers, and may not take the last free one of those
            // either.
            let (entered, enter) = mpsc::channel();
            let (release, released) = mpsc::channel::<()>();
            let inline = fixture.probe("inline", 1, move |_| {
                entered.send(()).unwrap();
                let _ = released.recv();
                Ok(())
            });
            std::thread::scope(|scope| {
                scope.spawn(|| fixture.pool.run_inline(vec![inline]));
                enter.recv().unwrap();
                fixture
                    .pool
                    .run_inline(vec![fixture.probe("queued", 1, nothing), fixture.probe("here", 3, nothing)]);
                assert_eq!(fixture.ended(1), ["here"]);
                drop(release);
                assert_eq!(fixture.ended(1), ["inline"]);
                drop(held);
                assert_eq!(fixture.ended(3), ["held", "waits", "queued"]);
            });
            fixture.close();
        }
    }

    #[test]
    fn waiting_workspaces_are_served_in_turn() {
        // A turn is as long as a transaction begins further tasks: many quick ones, or a single slow one.
        for (took, wanted) in [
            (Duration::ZERO, ["held", "a", "a", "a", "b", "b", "c"]),
            (BATCH_TIME, ["held", "a", "b", "c", "a", "b", "a"]),
        ] {
            let clock = Clock::mock(Time::from_micros(0));
            for fixture in Fixture::by(&clock, 1, 0, None) {
                let held = fixture.hold("held", 9);
                for (name, workspace) in [("a", 1), ("a", 1), ("a", 1), ("b", 2), ("b", 2), ("c", 3)] {
                    let clock = clock.clone();
                    let run = move |_: &Reader<()>| {
                        clock.advance(took);
                        Ok(())
                    };
                    fixture.pool.submit(fixture.probe(name, workspace, run));
                }
                drop(held);
                assert_eq!(fixture.ended(7), wanted);
                fixture.close();
            }
        }
    }

    #[test]
    fn a_full_workspace_is_rejected_alone() {
        let clock = Clock::mock(Time::from_micros(0));
        let fixture = Fixture::by(&clock, 1, 0, None).remove(0);
        let held = fixture.hold("held", 9);
        for _ in 0..READS_QUEUED_MAX {
            let clock = clock.clone();
            // Each task takes a whole turn, but all together take no longer than a task may wait.
            let whole = move |_: &Reader<()>| {
                clock.advance(BATCH_TIME);
                Ok(())
            };
            fixture.pool.submit(fixture.probe("queued", 1, whole));
        }
        fixture.pool.submit(fixture.probe("too many", 1, nothing));
        assert_eq!(fixture.ended.recv().unwrap(), ("too many", Some(Code::Overloaded)));
        fixture.pool.submit(fixture.probe("other", 2, nothing));
        drop(held);
        let ended = fixture.ended(READS_QUEUED_MAX + 2);
        assert_eq!(ended[..3], ["held", "queued", "other"]);
        fixture.close();
    }

    #[test]
    fn a_read_that_uses_up_its_budget_fails_alone() {
        for fixture in Fixture::all(1, 0, Some(Duration::from_millis(100))) {
            let endless = fixture.endless;
            let held = fixture.hold("held", 1);
            let count = |reader: &Reader<()>| reader.conn.query("select 1", &[]).map(drop);
            fixture.pool.submit(fixture.probe("endless", 1, move |reader| {
                reader.conn.query("select 2", &[])?;
                reader.conn.query(endless, &[]).map(drop)
            }));
            fixture.pool.submit(fixture.probe("many", 1, move |reader| {
                loop {
                    count(reader)?;
                }
            }));
            fixture.pool.submit(fixture.probe("next", 1, count));
            drop(held);
            let ended: Vec<_> = fixture.ended.iter().take(4).collect();
            let too_expensive_error = Some(Code::ReadTooExpensive);
            let wanted = [
                ("held", None),
                ("endless", too_expensive_error),
                ("many", too_expensive_error),
                ("next", None),
            ];
            assert_eq!(ended, wanted);
            fixture.close();
        }
    }

    #[test]
    fn closing_interrupts_what_reads_and_rejects_what_waits() {
        for fixture in Fixture::all(1, 0, None) {
            let endless = fixture.endless;
            let (entered, enter) = mpsc::channel();
            fixture.pool.submit(fixture.probe("endless", 1, move |reader| {
                entered.send(()).unwrap();
                reader.conn.query(endless, &[]).map(drop)
            }));
            enter.recv().unwrap();
            fixture.pool.submit(fixture.probe("waits", 2, nothing));
            fixture.interrupt.interrupt();
            fixture.pool.close();
            let mut ended: Vec<_> = fixture.ended.iter().take(2).collect();
            ended.sort();
            let closing = Some(Code::Closing);
            assert_eq!(ended, [("endless", closing), ("waits", closing)]);
            fixture.pool.submit(fixture.probe("late", 3, nothing));
            assert_eq!(fixture.ended.recv().unwrap(), ("late", Some(Code::Overloaded)));
            fixture.close();
        }
    }

    #[test]
    fn a_workspace_that_gives_its_last_reader_back_may_have_a_free_one() {
        for fixture in Fixture::all(3, 0, None) {
            let (release, released) = mpsc::channel::<()>();
            let first = fixture.hold("first", 1);
            let other = fixture.hold("other", 2);
            // One reader is free now, and both workspaces have one.
            fixture.pool.submit(fixture.probe("other again", 2, move |_| {
                let _ = released.recv();
                Ok(())
            }));
            fixture.pool.submit(fixture.probe("first again", 1, nothing));
            drop(first);
            // The thread of the first workspace has taken the other's read; the free thread serves the first.
            assert_eq!(fixture.ended(2), ["first", "first again"]);
            drop((other, release));
            fixture.close();
        }
    }
}
