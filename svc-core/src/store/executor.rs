//! The executor: core threads own the connections and callers hand tasks over. A writer lane gathers what is
//! waiting into one transaction, so that many callers share one flush to disk; a failing task is undone alone.
//! Readers share a queue; long reads have their own; quick looks that come at the same moment can share one
//! transaction on a caller's thread. Full queues refuse instead of growing.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use uuid::Uuid;

use super::conn::{Conn, Engine, StatementCounts};
use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::limits::{BATCH_MAX, QUEUE_MAX};
pub(crate) use crate::sync::lock;

/// What a writer keeps beside its connection: the state that the tasks of a batch share.
pub(crate) trait Ledger: Send + 'static {
    /// What a reader keeps beside its connection.
    type Notes: Notes;
    /// A transaction has begun; `workspaces` are those its tasks have named.
    fn begin(&mut self, conn: &Conn, workspaces: &BTreeSet<WorkspaceId>, others_wrote: bool) -> Result<()>;
    /// A task begins.
    fn begin_job(&mut self);
    /// The task failed; what it added is taken back.
    fn undo_job(&mut self);
    /// Writes what was gathered, before the commit.
    fn flush(&mut self, conn: &Conn) -> Result<()>;
    /// How far the logs will reach with the commit.
    fn reached(&self) -> BTreeMap<Uuid, i64>;
    /// The commit has happened.
    fn committed(&mut self);
    /// The transaction was rolled back.
    fn rolled_back(&mut self);
}

/// A change. It may run more than once; only the last run counts.
pub(crate) trait WriteTask<L>: Send {
    /// The workspace whose rules it depends on; named before the queue so that its head is locked first.
    fn workspace(&self) -> Option<WorkspaceId>;
    /// Does the work inside the transaction.
    fn run(&mut self, conn: &Conn, ledger: &std::cell::RefCell<L>) -> Result<()>;
    /// Answers, after the commit or the failure. Runs on the writer: it must only hand the answer on.
    fn finish(self: Box<Self>, outcome: Result<()>);
}

/// What a reader remembers from one look to the next.
pub(crate) trait Notes: Default + Send + 'static {
    /// A read transaction has begun.
    fn begin(&mut self);
}

/// A connection that only reads, and what its looks remember from one to the next.
pub(crate) struct Reader<N> {
    pub conn: Conn,
    pub notes: std::cell::RefCell<N>,
}

/// A look. It answers by itself.
pub(crate) trait ReadTask<N>: Send {
    /// Does the work inside a read transaction, or learns why there is none.
    fn run(self: Box<Self>, reader: Result<&Reader<N>>);
}

type Tasks<L> = Vec<Box<dyn WriteTask<L>>>;

/// Opens a connection for a core thread.
pub(crate) type Open = Arc<dyn Fn() -> Result<Conn> + Send + Sync>;

/// All core threads of a service.
pub(crate) struct Executor<L: Ledger> {
    lanes: Vec<Arc<Lane<L>>>,
    reads: Arc<ReadPool<L::Notes>>,
    long_reads: Arc<ReadPool<L::Notes>>,
    /// Looks that wait to be run together.
    gathered: Mutex<Vec<Box<dyn ReadTask<L::Notes>>>>,
    local: bool,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

struct Lane<L> {
    queue: Mutex<Option<Sender<Box<dyn WriteTask<L>>>>>,
    waiting: Receiver<Box<dyn WriteTask<L>>>,
    writer: Mutex<Writer<L>>,
    /// How many others wait for the writer; its thread lets them in between two batches.
    guests: AtomicUsize,
}

struct Writer<L> {
    conn: Conn,
    ledger: std::cell::RefCell<L>,
    /// Batches to go on sharing turns for, after another process was seen writing to the file.
    sharing: u32,
}

struct ReadPool<N> {
    queue: Mutex<Option<Sender<Box<dyn ReadTask<N>>>>>,
    waiting: Receiver<Box<dyn ReadTask<N>>>,
    readers: Vec<Mutex<Reader<N>>>,
    /// Readers for looks on the callers' own threads, so that these and the pool's stay out of each other's way.
    spare: Vec<Mutex<Reader<N>>>,
}

/// How long a writer stands back after a commit while somebody else wants to write to the same file; longer than
/// the step at which a waiting process asks for the lock.
const TURN: Duration = Duration::from_micros(1500);
const SHARING_BATCHES: u32 = 64;
/// Looks that share a transaction beside the first, at the most, so that none waits long for the others.
const READ_BATCH_MAX: usize = 15;
/// Connections for looks on callers' threads at the most.
const SPARE_MAX: usize = 8;

impl<L: Ledger> Executor<L> {
    /// Starts one writer thread per ledger and `readers` + 1 threads that read.
    pub fn start(ledgers: Vec<L>, readers: usize, open_writer: &Open, open_reader: &Open) -> Result<Self> {
        let mut threads = Vec::new();
        let mut lanes = Vec::new();
        for (number, ledger) in ledgers.into_iter().enumerate() {
            let (queue, waiting) = bounded(QUEUE_MAX);
            let writer = Writer { conn: open_writer()?, ledger: ledger.into(), sharing: 0 };
            let lane = Arc::new(Lane {
                queue: Mutex::new(Some(queue)),
                waiting,
                writer: Mutex::new(writer),
                guests: AtomicUsize::new(0),
            });
            lanes.push(Arc::clone(&lane));
            threads.push(spawn(format!("svc-writer-{number}"), move || lane.serve())?);
        }
        let spare = std::thread::available_parallelism().map_or(1, NonZeroUsize::get).min(SPARE_MAX);
        let reads = ReadPool::start("svc-reader", readers, spare, open_reader, &mut threads)?;
        let long_reads = ReadPool::start("svc-long-reader", 1, 0, open_reader, &mut threads)?;
        let local = reads.readers.iter().all(|reader| lock(reader).conn.engine() == Engine::Sqlite);
        Ok(Self { lanes, reads, long_reads, gathered: Mutex::default(), local, threads: Mutex::new(threads) })
    }

    /// Queues a change.
    pub fn write(&self, task: Box<dyn WriteTask<L>>) {
        if let Some(lane) = self.lane(task.workspace()) {
            lane.submit(task);
        }
    }

    /// Runs a change on the calling thread if its writer is idle, or queues it.
    pub fn write_inline(&self, task: Box<dyn WriteTask<L>>) {
        let Some(lane) = self.lane(task.workspace()) else { return };
        let idle =
            if lane.waiting.is_empty() { lane.writer.try_lock() } else { Err(TryLockError::WouldBlock) };
        match idle {
            Ok(mut writer) => writer.run(vec![task]),
            Err(_) => lane.submit(task),
        }
    }

    /// Whether a look needs no network, so that it may run on a thread that must not wait.
    pub fn reads_locally(&self) -> bool {
        self.local
    }

    /// Queues a look.
    pub fn read(&self, task: Box<dyn ReadTask<L::Notes>>, long: bool) {
        if long { self.long_reads.submit(task) } else { self.reads.submit(task) }
    }

    /// Looks on the calling thread if a reader is idle, or queues the look.
    pub fn read_inline(&self, task: Box<dyn ReadTask<L::Notes>>, long: bool) {
        let pool = if long { &self.long_reads } else { &self.reads };
        match pool.idle_spare() {
            Some(reader) => look(&reader, [task]),
            None => pool.submit(task),
        }
    }

    /// Puts a look beside those that will share one transaction. True if nobody sees to them yet: the caller must,
    /// by [`Executor::run_gathered`], once others had the chance to put theirs in.
    pub fn gather(&self, task: Box<dyn ReadTask<L::Notes>>) -> bool {
        let mut gathered = lock(&self.gathered);
        gathered.push(task);
        gathered.len() == 1
    }

    /// Runs what was gathered on the calling thread if a reader is idle, or queues it.
    pub fn run_gathered(&self) {
        let tasks = std::mem::take(&mut *lock(&self.gathered));
        match self.reads.idle_spare() {
            Some(reader) => look(&reader, tasks),
            None => tasks.into_iter().for_each(|task| self.reads.submit(task)),
        }
    }

    /// How often the writers had to compile statements.
    pub fn statement_counts(&self) -> StatementCounts {
        let mut total = StatementCounts::default();
        let writers = self.lanes.iter().map(|lane| lock(&lane.writer).conn.statement_counts());
        let readers = self.reads.readers.iter().chain(&self.reads.spare);
        let readers = readers.map(|reader| lock(reader).conn.statement_counts());
        for counts in writers.chain(readers) {
            total.prepared += counts.prepared;
            total.re_prepared += counts.re_prepared;
        }
        total
    }

    /// The settings of every writer connection that durability rests on.
    pub fn durability(&self) -> Result<Vec<String>> {
        self.lanes.iter().map(|lane| lock(&lane.writer).conn.durability()).collect()
    }

    /// Removes destroyed bytes from SQLite's files, and cuts its log to nothing, while the writer stands still. False
    /// while somebody who looks at an earlier moment holds it back.
    pub fn cut_log(&self) -> Result<bool> {
        self.lanes.first().map_or(Ok(true), |lane| {
            lane.guests.fetch_add(1, Ordering::Relaxed);
            let writer = lock(&lane.writer);
            lane.guests.fetch_sub(1, Ordering::Relaxed);
            writer.conn.scrub()
        })
    }

    /// Lets the threads finish what is queued, and ends them.
    pub fn close(&self) {
        for lane in &self.lanes {
            lock(&lane.queue).take();
        }
        lock(&self.reads.queue).take();
        lock(&self.long_reads.queue).take();
        for thread in lock(&self.threads).drain(..) {
            // A core thread catches the panics of its tasks; one that died has nothing more to say.
            let _ = thread.join();
        }
    }

    fn lane(&self, workspace: Option<WorkspaceId>) -> Option<&Arc<Lane<L>>> {
        let spread = workspace.map_or(0, |id| id.uuid().as_u128().count_ones() as usize);
        self.lanes.get(spread.checked_rem(self.lanes.len())?)
    }
}

fn spawn(name: String, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name).spawn(body).map_err(Error::internal)
}

fn overloaded() -> Error {
    Error::new(Code::Overloaded, "the service is at its ceiling; try again shortly")
}

impl<L: Ledger> Lane<L> {
    fn submit(&self, task: Box<dyn WriteTask<L>>) {
        let refused = match lock(&self.queue).as_ref() {
            Some(queue) => match queue.try_send(task) {
                Ok(()) => return,
                Err(TrySendError::Full(task) | TrySendError::Disconnected(task)) => task,
            },
            None => task,
        };
        refused.finish(Err(overloaded()));
    }

    fn serve(&self) {
        while let Ok(first) = self.waiting.recv() {
            let mut writer = lock(&self.writer);
            let mut tasks = vec![first];
            while tasks.len() < BATCH_MAX
                && let Ok(next) = self.waiting.try_recv()
            {
                tasks.push(next);
            }
            writer.run(tasks);
            let give_way = writer.sharing > 0 || self.guests.load(Ordering::Relaxed) > 0;
            drop(writer);
            if give_way {
                std::thread::park_timeout(TURN);
            }
        }
    }
}

/// How one try at a batch ended.
enum Attempt {
    /// Committed, with each task's own outcome.
    Committed(Vec<Result<()>>),
    /// Rolled back because of the task at this place.
    Culprit(usize, Error),
    /// Rolled back, and nobody knows because of which task.
    Unclear(Error),
    /// It may or may not have been committed; it must not run again.
    Unknown(Error),
}

impl<L: Ledger> Writer<L> {
    /// Runs the tasks, together if possible, and answers each.
    fn run(&mut self, mut tasks: Tasks<L>) {
        let mut alone: Tasks<L> = Vec::new();
        while !tasks.is_empty() {
            match self.attempt(&mut tasks) {
                Attempt::Committed(outcomes) => {
                    for (task, outcome) in tasks.drain(..).zip(outcomes) {
                        task.finish(outcome);
                    }
                }
                Attempt::Culprit(_, error) | Attempt::Unclear(error) if tasks.len() == 1 => {
                    fail_all(&mut tasks, error)
                }
                Attempt::Culprit(place, _) => alone.push(tasks.remove(place)),
                Attempt::Unclear(_) => alone.append(&mut tasks),
                Attempt::Unknown(error) => fail_all(&mut tasks, error),
            }
        }
        for task in alone {
            self.run(vec![task]);
        }
    }

    fn attempt(&mut self, tasks: &mut Tasks<L>) -> Attempt {
        let workspaces = tasks.iter().filter_map(|task| task.workspace()).collect();
        if let Err(error) = self.begin(&workspaces) {
            self.roll_back();
            return Attempt::Unclear(error);
        }
        let mut outcomes = Vec::with_capacity(tasks.len());
        for (place, task) in tasks.iter_mut().enumerate() {
            match self.run_one(task.as_mut()) {
                Ok(outcome) => outcomes.push(outcome),
                Err(error) => {
                    self.roll_back();
                    return Attempt::Culprit(place, error);
                }
            }
        }
        let flushed = self.ledger.get_mut().flush(&self.conn).and_then(|()| self.conn.flush());
        if let Err(error) = flushed {
            self.roll_back();
            return Attempt::Unclear(error);
        }
        let reached = self.ledger.get_mut().reached();
        match self.conn.commit(&reached) {
            Ok(()) => {
                self.ledger.get_mut().committed();
                Attempt::Committed(outcomes)
            }
            Err(error) => {
                self.roll_back();
                Attempt::Unknown(error)
            }
        }
    }

    fn begin(&mut self, workspaces: &BTreeSet<WorkspaceId>) -> Result<()> {
        self.conn.begin_write()?;
        let others_wrote = self.conn.others_wrote()?;
        self.sharing = if others_wrote { SHARING_BATCHES } else { self.sharing.saturating_sub(1) };
        self.ledger.get_mut().begin(&self.conn, workspaces, others_wrote)
    }

    /// Runs one task. The outer error means that the whole transaction is lost.
    fn run_one(&mut self, task: &mut dyn WriteTask<L>) -> Result<Result<()>> {
        self.conn.begin_job();
        self.ledger.get_mut().begin_job();
        let ran = catch_unwind(AssertUnwindSafe(|| task.run(&self.conn, &self.ledger)));
        let error = match ran {
            Ok(Ok(())) => return self.conn.keep_job().map(Ok),
            Ok(Err(error)) => error,
            Err(_) => Error::internal("a task panicked"),
        };
        let broken = matches!(error.code(), Code::Internal | Code::Unavailable);
        if self.conn.engine() == Engine::Postgres && (broken || self.conn.job_wrote()) {
            return Err(error);
        }
        self.conn.undo_job()?;
        self.ledger.get_mut().undo_job();
        Ok(Err(error))
    }

    fn roll_back(&mut self) {
        self.ledger.get_mut().rolled_back();
        if let Err(error) = self.conn.rollback() {
            tracing::warn!(%error, cause = ?error.cause(), "a rollback failed");
        }
    }
}

fn fail_all<L>(tasks: &mut Tasks<L>, error: Error) {
    let mut errors = Repeated::new(error);
    tasks.drain(..).for_each(|task| task.finish(Err(errors.again())));
}

/// One failure for several tasks: the first gets its cause too.
struct Repeated {
    code: Code,
    detail: String,
    first: Option<Error>,
}

impl Repeated {
    fn new(error: Error) -> Self {
        Self { code: error.code(), detail: error.detail().to_owned(), first: Some(error) }
    }

    fn again(&mut self) -> Error {
        self.first.take().unwrap_or_else(|| Error::new(self.code, self.detail.clone()))
    }
}

impl<N: Notes> ReadPool<N> {
    fn start(
        name: &str,
        size: usize,
        spare: usize,
        open: &Open,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Result<Arc<Self>> {
        let (queue, waiting) = bounded(QUEUE_MAX);
        let reader = || Ok(Mutex::new(Reader { conn: open()?, notes: std::cell::RefCell::default() }));
        let connect = |count: usize| (0..count).map(|_| reader()).collect::<Result<_>>();
        let pool = Arc::new(Self {
            queue: Mutex::new(Some(queue)),
            waiting,
            readers: connect(size)?,
            spare: connect(spare)?,
        });
        for number in 0..size {
            let pool = Arc::clone(&pool);
            threads.push(spawn(format!("{name}-{number}"), move || pool.serve(number))?);
        }
        Ok(pool)
    }

    fn submit(&self, task: Box<dyn ReadTask<N>>) {
        let refused = match lock(&self.queue).as_ref() {
            Some(queue) => match queue.try_send(task) {
                Ok(()) => return,
                Err(TrySendError::Full(task) | TrySendError::Disconnected(task)) => task,
            },
            None => task,
        };
        refused.run(Err(overloaded()));
    }

    fn idle_spare(&self) -> Option<MutexGuard<'_, Reader<N>>> {
        self.spare.iter().find_map(|reader| reader.try_lock().ok())
    }

    fn serve(&self, number: usize) {
        let Some(reader) = self.readers.get(number) else { return };
        while let Ok(first) = self.waiting.recv() {
            // A fair share of what waits, taken before the transaction begins: whoever asks later may have heard of
            // a change that this one does not see.
            let share = self.waiting.len().checked_div(self.readers.len()).unwrap_or(0).min(READ_BATCH_MAX);
            let mut tasks = vec![first];
            tasks.extend(self.waiting.try_iter().take(share));
            look(&lock(reader), tasks);
        }
    }
}

/// Runs looks in one read transaction.
fn look<N: Notes>(reader: &Reader<N>, tasks: impl IntoIterator<Item = Box<dyn ReadTask<N>>>) {
    let begin = || {
        reader.notes.borrow_mut().begin();
        reader.conn.begin_read().err().map(Repeated::new)
    };
    let mut failure = begin();
    for task in tasks {
        if failure.is_none() && reader.conn.lost_transaction() {
            end_look(&reader.conn);
            failure = begin();
        }
        let begun = failure.as_mut().map_or(Ok(reader), |errors| Err(errors.again()));
        if catch_unwind(AssertUnwindSafe(|| task.run(begun))).is_err() {
            tracing::error!("a reading task panicked");
        }
    }
    end_look(&reader.conn);
}

fn end_look(conn: &Conn) {
    if let Err(error) = conn.end_read() {
        tracing::warn!(%error, cause = ?error.cause(), "a read transaction did not end");
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::mpsc;

    use super::*;
    use crate::store::sqlite::{Role, SqliteConn};

    /// Counts what was committed.
    #[derive(Default)]
    struct Tally {
        job: i64,
        batch: i64,
    }

    impl Notes for () {
        fn begin(&mut self) {}
    }

    impl Ledger for Tally {
        type Notes = ();
        fn begin(&mut self, _: &Conn, _: &BTreeSet<WorkspaceId>, _: bool) -> Result<()> {
            self.batch = 0;
            Ok(())
        }
        fn begin_job(&mut self) {
            self.job = self.batch;
        }
        fn undo_job(&mut self) {
            self.batch = self.job;
        }
        fn flush(&mut self, conn: &Conn) -> Result<()> {
            conn.execute("update tally set flushed = flushed + $1", &[&self.batch]).map(|_| ())
        }
        fn reached(&self) -> BTreeMap<Uuid, i64> {
            BTreeMap::new()
        }
        fn committed(&mut self) {}
        fn rolled_back(&mut self) {}
    }

    /// Writes a row, and then goes the way that its number says.
    struct Numbered(i64, mpsc::Sender<(i64, bool)>);

    impl WriteTask<Tally> for Numbered {
        fn workspace(&self) -> Option<WorkspaceId> {
            None
        }
        fn run(&mut self, conn: &Conn, tally: &RefCell<Tally>) -> Result<()> {
            conn.execute("insert into row values ($1)", &[&self.0])?;
            tally.borrow_mut().batch += 1;
            match self.0 % 50 {
                7 => panic!("a task that panics"),
                9 => Err(Error::wrong_state("a task that fails after writing")),
                _ => Ok(()),
            }
        }
        fn finish(self: Box<Self>, outcome: Result<()>) {
            self.1.send((self.0, outcome.is_ok())).unwrap();
        }
    }

    struct Count(mpsc::Sender<Vec<i64>>);

    impl ReadTask<()> for Count {
        fn run(self: Box<Self>, reader: Result<&Reader<()>>) {
            let conn = &reader.unwrap().conn;
            let mut rows = conn.query("select (select count(*) from row), flushed from tally", &[]).unwrap();
            self.0.send(vec![rows[0].take().unwrap(), rows[0].take().unwrap()]).unwrap();
        }
    }

    const SCHEMA: &str =
        "create table row (n bigint); create table tally (flushed bigint); insert into tally values (0)";

    fn on_file(path: &std::path::Path) -> Executor<Tally> {
        let open = |role| -> Open {
            let path = path.to_owned();
            Arc::new(move || SqliteConn::open(&path, role).map(Conn::Sqlite))
        };
        open(Role::Creator)().unwrap().batch(SCHEMA).unwrap();
        Executor::start(vec![Tally::default()], 2, &open(Role::Writer), &open(Role::Reader)).unwrap()
    }

    #[test]
    fn failing_tasks_of_a_batch_are_undone_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        let executor = on_file(&path);
        let (tell, told) = mpsc::channel();
        (0..300).for_each(|number| executor.write(Box::new(Numbered(number, tell.clone()))));
        executor.write_inline(Box::new(Numbered(300, tell)));
        let outcomes: Vec<(i64, bool)> = told.iter().collect();
        assert_eq!(outcomes.len(), 301, "every task is answered once");
        assert!(outcomes.iter().all(|(number, fine)| *fine != matches!(number % 50, 7 | 9)));
        let (tell, told) = mpsc::channel();
        executor.read(Box::new(Count(tell.clone())), false);
        assert_eq!(told.recv().unwrap(), [289, 289]);
        let first: Vec<bool> = (0..3).map(|_| executor.gather(Box::new(Count(tell.clone())))).collect();
        assert_eq!(first, [true, false, false], "one of them sees to all");
        assert!(told.try_recv().is_err(), "they wait");
        executor.run_gathered();
        drop(tell);
        assert_eq!(told.iter().collect::<Vec<_>>(), [[289, 289], [289, 289], [289, 289]]);
        executor.close();
        let (tell, told) = mpsc::channel();
        executor.write(Box::new(Numbered(1, tell)));
        assert_eq!(told.recv().unwrap(), (1, false), "a closed executor refuses");
    }

    #[test]
    fn the_log_is_cut_while_others_go_on_writing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        let executor = on_file(&path);
        let (tell, told) = mpsc::channel();
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (executor, over) = (&executor, &over);
            scope.spawn(move || {
                // Always one more in the queue than is answered.
                executor.write(Box::new(Numbered(0, tell.clone())));
                while !over.load(Ordering::Relaxed) {
                    executor.write(Box::new(Numbered(0, tell.clone())));
                    assert!(told.recv().unwrap().1);
                }
            });
            let cut: Vec<bool> = (0..20).map(|_| executor.cut_log().unwrap()).collect();
            over.store(true, Ordering::Relaxed);
            assert_eq!(cut, [true; 20]);
        });
        executor.close();
        assert!(executor.cut_log().unwrap());
        let log = std::fs::metadata(path.with_extension("db-wal")).unwrap();
        assert_eq!(log.len(), 0);
    }
}
