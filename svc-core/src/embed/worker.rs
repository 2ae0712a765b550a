//! Workers: threads that claim tasks and do them with a function of the program.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{JoinHandle, ThreadId as OsThreadId};
use std::time::Duration;

use serde_json::{Value, json};

use super::claim::{Claim, ClaimOptions};
use super::member::Member;
use crate::api::WaitForReady;
use crate::error::{Code, Error, Result};
use crate::host::calls::Calls;
use crate::host::keeper::EndsAtClose;
use crate::id::ThreadId;
use crate::sync::{join, lock};
use crate::time::Monotonic;

/// Time for which a task keeps its claim after its first failure, if the program sets no other.
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum time for which a task keeps its claim after a failure.
const PAUSE_MAX: Duration = Duration::from_secs(5 * 60);
/// Maximum time between two attempts to claim a task while attempts fail.
const RETRY_MAX: Duration = Duration::from_secs(30);
/// Time between two attempts to claim a task of a repository while tasks of other repositories are ready.
const OTHER_REPO_PAUSE: Duration = Duration::from_secs(1);
/// Maximum characters of an error message in a checkpoint.
const MESSAGE_MAX: usize = 2_000;

/// The outcome of doing a task: the result of the thread, or the reason why the task failed.
type WorkResult = Result<Value, Box<dyn std::error::Error + Send + Sync>>;

/// The function that does a task.
type Work = dyn Fn(&Claim) -> WorkResult + Send + Sync + 'static;

/// The options of a worker.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    threads: usize,
    claims: ClaimOptions,
    pause: Duration,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self { threads: 1, claims: ClaimOptions::new(), pause: PAUSE }
    }
}

impl WorkerOptions {
    /// Creates the options for one thread that does any task.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of threads, which is the maximum number of tasks that the worker does at a time.
    #[must_use]
    pub fn threads(self, count: usize) -> Self {
        Self { threads: count.max(1), ..self }
    }

    /// Sets the tasks to claim, and their leases.
    #[must_use]
    pub fn claims(self, claims: ClaimOptions) -> Self {
        Self { claims, ..self }
    }

    /// Sets the time for which a task keeps its claim after its first failure. Default: 1 second.
    ///
    /// The time doubles with each further failure of the task, up to 5 minutes.
    #[must_use]
    pub fn pause(self, pause: Duration) -> Self {
        Self { pause, ..self }
    }
}

/// Threads that claim tasks and do them.
///
/// Dropping the value stops the worker as [`Worker::stop`] does.
pub struct Worker {
    shared: Arc<Shared>,
    /// Whether the program has stopped the worker.
    is_stopped: bool,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Worker({} threads)", self.shared.options.threads)
    }
}

/// The state that the threads of a worker share.
struct Shared {
    member: Member,
    options: WorkerOptions,
    work: Box<Work>,
    /// The waits of the threads for a task, which stopping ends.
    waits: Calls,
    state: Mutex<State>,
    changed: Condvar,
    /// The thread that releases tasks after their pauses, and then those that do tasks.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    is_stopping: bool,
    /// Number of threads that run.
    running: usize,
    /// The tasks that threads work on, by the number of the thread.
    working: BTreeMap<usize, Arc<Claim>>,
    /// The failed tasks that keep their claims, by the end of their pauses.
    paused: Vec<PausedTask>,
    /// Number of failures of each task, until it succeeds.
    failures: BTreeMap<ThreadId, Failures>,
    /// Whether the worker was stopped although tasks were in progress.
    is_abandoned: bool,
    /// The failure that has ended the worker.
    failure: Option<Error>,
}

/// The failures of a task.
struct Failures {
    count: u32,
    last: Monotonic,
}

/// A thread that runs, as long as this value exists.
struct Running<'a>(&'a Shared);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.running = state.running.saturating_sub(1);
        drop(state);
        self.0.changed.notify_all();
    }
}

/// A task that failed.
struct PausedTask {
    claim: Arc<Claim>,
    message: String,
    until: Monotonic,
}

impl Member {
    /// Starts a worker: threads that wait for tasks, claim them, call `work`, and set its value as the
    /// result.
    ///
    /// After an error or a panic, the task keeps its claim for a pause, and is then released with the
    /// checkpoint `{"error": message}`. During the pause, the thread does other tasks.
    pub fn worker(
        &self,
        options: &WorkerOptions,
        work: impl Fn(&Claim) -> WorkResult + Send + Sync + 'static,
    ) -> Result<Worker> {
        let shared = Arc::new(Shared {
            member: self.without_key(),
            options: options.clone(),
            work: Box::new(work),
            waits: Calls::default(),
            state: Mutex::default(),
            changed: Condvar::new(),
            threads: Mutex::default(),
        });
        let worker = Worker { shared, is_stopped: false };
        let ends: Arc<dyn EndsAtClose> = Arc::<Shared>::clone(&worker.shared);
        let ends: Weak<dyn EndsAtClose> = Arc::downgrade(&ends);
        self.service().keeper().add_worker(ends);
        worker.start("svc-pauses", |shared| shared.release_after_pauses())?;
        for number in 0..options.threads {
            worker.start("svc-worker", move |shared| shared.serve(number))?;
        }
        Ok(worker)
    }
}

impl Worker {
    fn start(&self, name: &str, body: impl FnOnce(&Shared) + Send + 'static) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        self.shared.lock().running += 1;
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            let _running = Running(&shared);
            body(&shared);
        });
        match thread {
            Ok(thread) => lock(&self.shared.threads).push(thread),
            Err(error) => {
                drop(Running(&self.shared));
                return Err(Error::internal(error));
            }
        }
        Ok(())
    }

    /// Finishes the tasks in progress, and stops the threads.
    ///
    /// Failed tasks that still keep their claims are released. Fails with the reason if the worker had ended
    /// before, for example because the member's token was revoked.
    pub fn stop(mut self) -> Result<()> {
        self.is_stopped = true;
        self.shared.end(None, std::thread::current().id())
    }

    /// Stops as [`Worker::stop`] does, but releases the tasks that are still in progress after `limit`.
    ///
    /// Their function calls go on, with a claim that is no longer held.
    pub fn stop_within(mut self, limit: Duration) -> Result<()> {
        self.is_stopped = true;
        self.shared.end(Some(limit), std::thread::current().id())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.is_stopped {
            return;
        }
        if let Err(error) = self.shared.end(None, std::thread::current().id()) {
            tracing::warn!(%error, "a worker had ended before it was stopped");
        }
    }
}

impl EndsAtClose for Shared {
    fn end_at_close(&self, caller: OsThreadId) {
        if let Err(error) = self.end(None, caller) {
            tracing::warn!(%error, "a worker had ended before the service was closed");
        }
    }
}

impl Shared {
    /// Stops the threads. After `limit`, releases the tasks that are in progress. `caller` is the thread that
    /// waits for this.
    fn end(&self, limit: Option<Duration>, caller: OsThreadId) -> Result<()> {
        self.lock().is_stopping = true;
        self.changed.notify_all();
        self.waits.close();
        let clock = self.member.clock();
        let deadline = limit.map(|limit| clock.deadline(limit));
        // A worker that is stopped by its own function does not wait for that function, nor for the thread of
        // the pauses, which runs as long as any other.
        let own = lock(&self.threads).iter().position(|thread| thread.thread().id() == caller);
        let may_run = match own {
            None => 0,
            Some(0) => 1,
            Some(_) => 2,
        };
        let mut state = self.lock();
        while state.running > may_run {
            match deadline.map(|deadline| clock.remaining(deadline)) {
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => break,
                Some(left) => {
                    let woken = self.changed.wait_timeout(state, left);
                    state = woken.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
        let is_done = state.running <= may_run;
        state.is_abandoned |= !is_done;
        let unfinished: Vec<Arc<Claim>> = state.working.values().map(Arc::clone).collect();
        let failure = state.failure.clone();
        drop(state);
        let mut outcome = failure.map_or(Ok(()), Err);
        if is_done && own.is_none() {
            let threads = std::mem::take(&mut *lock(&self.threads));
            for thread in threads {
                if !join(thread, caller) {
                    outcome = outcome.and(Err(Error::internal("a thread of the worker has panicked")));
                }
            }
        }
        if !is_done {
            for claim in &unfinished {
                if let Err(error) = claim.release()
                    && claim.is_live()
                {
                    outcome = outcome.and(Err(error));
                }
            }
        }
        outcome
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Does tasks until the worker stops.
    fn serve(&self, number: usize) {
        let mut retry = PAUSE;
        while !self.lock().is_stopping {
            match self.next_task() {
                Ok(Some(claim)) => {
                    retry = PAUSE;
                    self.do_task(number, Arc::new(claim));
                }
                Ok(None) => retry = PAUSE,
                Err(error) if is_permanent(&error) => return self.fail(error),
                Err(error) => {
                    tracing::warn!(%error, cause = ?error.cause(), "no task could be claimed");
                    self.pause_thread(retry);
                    retry = retry.saturating_mul(2).min(RETRY_MAX);
                }
            }
        }
    }

    /// Claims the next task, or waits until there may be one and returns `None`.
    fn next_task(&self) -> Result<Option<Claim>> {
        if let Some(claim) = self.member.claim_next(&self.options.claims)? {
            return Ok(Some(claim));
        }
        let mut request = WaitForReady::new();
        if let Some(channel) = self.options.claims.channel {
            request = request.channel_id(channel);
        }
        let waited = self.member.wait(&request, &self.waits, None);
        if self.lock().is_stopping {
            // A stop also ends the wait, which is not a failure.
            return Ok(None);
        }
        // The wait also ends for threads in other repositories, which this worker cannot claim.
        if waited?.is_some() && self.options.claims.repo.is_some() {
            self.pause_thread(OTHER_REPO_PAUSE);
        }
        Ok(None)
    }

    /// Does one task.
    fn do_task(&self, number: usize, claim: Arc<Claim>) {
        let mut state = self.lock();
        if state.is_abandoned {
            drop(state);
            // Dropping the claim releases it.
            return;
        }
        state.working.insert(number, Arc::clone(&claim));
        drop(state);
        let work = || (self.work)(&claim).map_err(|error| error.to_string());
        let outcome = catch_unwind(AssertUnwindSafe(work));
        self.lock().working.remove(&number);
        let failure = match outcome {
            Ok(Ok(value)) => match claim.is_live().then(|| claim.finish(value)) {
                // The function may have ended the claim itself.
                None => None,
                Some(Ok(())) => None,
                Some(Err(error)) => Some(error.to_string()),
            },
            Ok(Err(message)) => Some(message),
            Err(panic) => Some(panic_message(panic.as_ref())),
        };
        let thread = claim.thread().id;
        let mut state = self.lock();
        let Some(message) = failure.filter(|_| claim.is_live()) else {
            state.failures.remove(&thread);
            return;
        };
        let clock = self.member.clock();
        let now = clock.monotonic();
        // A task that does not fail again within the longest pause was taken by another member.
        state.failures.retain(|_, failures| now.since(failures.last) < PAUSE_MAX.saturating_mul(2));
        let failures = state.failures.entry(thread).or_insert(Failures { count: 0, last: now });
        let pause = self.options.pause.saturating_mul(1 << failures.count.min(20)).min(PAUSE_MAX);
        *failures = Failures { count: failures.count.saturating_add(1), last: now };
        let message = message.chars().take(MESSAGE_MAX).collect();
        state.paused.push(PausedTask { claim, message, until: clock.deadline(pause) });
        drop(state);
        self.changed.notify_all();
    }

    /// Releases failed tasks after their pauses, and all of them when the worker stops.
    fn release_after_pauses(&self) {
        let mut state = self.lock();
        loop {
            let now = self.member.clock().monotonic();
            let is_stopping = state.is_stopping;
            let (due, later): (Vec<_>, Vec<_>) = std::mem::take(&mut state.paused)
                .into_iter()
                .partition(|task| is_stopping || task.until <= now);
            let next = later.iter().map(|task| task.until).min();
            state.paused = later;
            if !due.is_empty() {
                drop(state);
                due.iter().for_each(PausedTask::release);
                state = self.lock();
                continue;
            }
            // The other threads may still add failed tasks.
            if is_stopping && state.running <= 1 {
                return;
            }
            state = match next {
                Some(next) => {
                    let left = next.since(now);
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// Pauses the current thread, unless the worker stops.
    fn pause_thread(&self, pause: Duration) {
        let state = self.lock();
        let is_running = |state: &mut State| !state.is_stopping;
        drop(self.changed.wait_timeout_while(state, pause, is_running));
    }

    /// Ends the worker because of a failure that a repeated attempt does not mend.
    fn fail(&self, error: Error) {
        tracing::error!(%error, "the worker has ended");
        let mut state = self.lock();
        state.is_stopping = true;
        state.failure.get_or_insert(error);
        drop(state);
        self.changed.notify_all();
        self.waits.close();
    }
}

impl PausedTask {
    fn release(&self) {
        let released = self.claim.release_with(json!({"error": self.message}));
        if let Err(error) = released
            && self.claim.is_live()
        {
            let thread = self.claim.thread().id;
            tracing::warn!(%thread, %error, "a failed task was not released; its lease will end");
        }
    }
}

/// Returns whether a failure to claim will also occur at the next attempt.
fn is_permanent(error: &Error) -> bool {
    let status = error.status();
    matches!(status, 400 | 401 | 403 | 404) && error.code() != Code::MemberFrozen
        || error.code() == Code::Closing
}

/// Returns the message of a panic.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.map_or_else(|| "the work has panicked".to_owned(), |text| format!("the work has panicked: {text}"))
}
