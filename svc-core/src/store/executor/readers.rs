//! Threads that read, each with a connection of its own.
//!
//! A few more connections are for short reads on the callers' own threads. Tasks that are queued at the same
//! moment share a read transaction; one that fails, or panics, fails alone. A task whose connection broke is
//! run once more on another connection.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

use super::queue::{Capacity, Patience, Queue, Task};
use super::{Open, spawn};
use crate::error::{Error, Result};
use crate::limits::{BATCH_BYTES_MAX, READ_BATCH_MAX};
use crate::store::conn::Conn;
use crate::store::engine::{Engine, Failure, StatementCounts};
use crate::sync::lock;
use crate::time::Clock;

/// The cache that a reader keeps across transactions.
pub(crate) trait ReaderState: Default + Send + 'static {
    /// Called when a read transaction begins.
    fn begin(&mut self);
}

/// A connection that only reads, and its cache.
pub(crate) struct Reader<N> {
    pub conn: Conn,
    pub cache: RefCell<N>,
}

/// A read. It may run more than once; only the last run counts.
pub(crate) trait ReadTask<N>: Task {
    /// Called before a transaction begins in which it may run.
    ///
    /// Anything it needs from outside the database must be read here: later reads may reflect a change that
    /// the transaction does not see.
    fn prepare(&mut self) {}
    /// Does the work inside a read transaction.
    fn run(&mut self, reader: &Reader<N>) -> Result<()>;
}

pub(super) struct ReadPool<N> {
    queue: Queue<dyn ReadTask<N>>,
    readers: Vec<Mutex<Reader<N>>>,
    /// Readers for reads on the callers' own threads, so that these do not get in the way of the pool's.
    inline: Vec<Mutex<Reader<N>>>,
}

impl<N: ReaderState> ReadPool<N> {
    pub fn start(
        name: &str,
        size: usize,
        inline: usize,
        clock: &Clock,
        open: &Open,
        threads: &mut Vec<JoinHandle<()>>,
    ) -> Result<Arc<Self>> {
        let reader = || Ok(Mutex::new(Reader { conn: open()?, cache: RefCell::default() }));
        let connect = |count: usize| (0..count).map(|_| reader()).collect::<Result<_>>();
        let pool = Arc::new(Self {
            queue: Queue::new(clock.clone()),
            readers: connect(size)?,
            inline: connect(inline)?,
        });
        for number in 0..size {
            let pool = Arc::clone(&pool);
            threads.push(spawn(format!("{name}-{number}"), move || pool.serve(number))?);
        }
        Ok(pool)
    }

    pub fn submit(&self, task: Box<dyn ReadTask<N>>) {
        self.queue.push(task);
    }

    /// Returns how many tasks are queued.
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Runs tasks, if there are any, on the calling thread if an inline reader is idle, or queues them.
    pub fn run_here(&self, tasks: Vec<Box<dyn ReadTask<N>>>) {
        if tasks.is_empty() {
            return;
        }
        match self.idle_inline() {
            Some(reader) => read(&reader, tasks),
            None => tasks.into_iter().for_each(|task| self.submit(task)),
        }
    }

    fn idle_inline(&self) -> Option<MutexGuard<'_, Reader<N>>> {
        self.inline.iter().find_map(|reader| reader.try_lock().ok())
    }

    fn serve(&self, number: usize) {
        let Some(reader) = self.readers.get(number) else { return };
        while let Some(first) = self.queue.wait() {
            // A fair share of the queue, taken before the transaction begins: later callers may know of a
            // change that this transaction does not see.
            let share = self.queue.len().checked_div(self.readers.len()).unwrap_or(0).min(READ_BATCH_MAX);
            let capacity = Capacity::new(share.saturating_add(1), BATCH_BYTES_MAX);
            let tasks = self.queue.gather(first, capacity, Patience::NONE);
            read(&lock(reader), tasks.into_iter().map(|queued| queued.task).collect());
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

    pub fn close(&self) {
        self.queue.close();
    }
}

/// Runs tasks in one read transaction, and in another one after it is lost.
fn read<N: ReaderState>(reader: &Reader<N>, mut tasks: Vec<Box<dyn ReadTask<N>>>) {
    tasks.iter_mut().for_each(|task| task.prepare());
    let mut begun = begin(reader);
    for mut task in tasks {
        let mut outcome = attempt(reader, &begun, task.as_mut());
        if let Some(failure) = reader.conn.failure() {
            begun = begin_again(reader);
            if matches!(failure, Failure::Broken | Failure::Conflict) {
                outcome = attempt(reader, &begun, task.as_mut());
            }
        }
        task.finish(outcome);
        if reader.conn.failure().is_some() {
            begun = begin_again(reader);
        }
    }
    end(reader);
}

fn begin<N: ReaderState>(reader: &Reader<N>) -> Result<()> {
    reader.cache.borrow_mut().begin();
    reader.conn.begin_read()
}

fn begin_again<N: ReaderState>(reader: &Reader<N>) -> Result<()> {
    end(reader);
    begin(reader)
}

fn end<N>(reader: &Reader<N>) {
    if let Err(error) = reader.conn.end_read() {
        tracing::warn!(%error, cause = ?error.cause(), "a read transaction did not end");
    }
}

fn attempt<N: ReaderState>(reader: &Reader<N>, begun: &Result<()>, task: &mut dyn ReadTask<N>) -> Result<()> {
    begun.clone()?;
    catch_unwind(AssertUnwindSafe(|| task.run(reader)))
        .unwrap_or_else(|_| Err(Error::internal("a read panicked")))
}
