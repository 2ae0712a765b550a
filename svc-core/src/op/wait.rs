//! A parked wait: a look that found nothing yet and is repeated when a matching event comes. While it is parked
//! it holds no thread and no connection. Every repetition authenticates again, and so does the last one at the
//! deadline, so that a revoked token learns nothing.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::context::Read;
use super::dispatch::{Call, Done, Entered, Reply};
use super::row::{Answer, WaitJob, timed_out};
use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::limits::WAITS_MAX;
use crate::log::bus::{Signal, Wake, Wakes};
use crate::log::memo::Notes;
use crate::store::executor::{ReadTask, Reader, Task};
use crate::time::{Clock, Monotonic};

/// One wait.
pub(super) struct Parked {
    state: Mutex<State>,
    dispatch: Arc<super::Dispatch>,
    wakes: Wakes,
    deadline: Monotonic,
}

#[derive(Default)]
struct State {
    /// What to run; taken while it runs, gone once answered or given up.
    work: Option<(Call, WaitJob, Done)>,
    listening: Option<(WorkspaceId, u64)>,
    /// A matching event came while it ran.
    dirty: bool,
    over: bool,
    given_up: bool,
}

impl Parked {
    pub fn start(call: Call, job: WaitJob, wakes: Wakes, patience: Duration, done: Done) -> Arc<Self> {
        let dispatch = Arc::clone(&call.dispatch);
        let state = State { work: Some((call, job, done)), ..State::default() };
        let deadline = Clock::System.deadline(patience);
        let parked = Arc::new(Self { state: Mutex::new(state), dispatch, wakes, deadline });
        parked.look();
        parked
    }

    /// Hands the wait to a reader, unless one has it already.
    fn look(self: &Arc<Self>) {
        let work = self.lock().work.take();
        if let Some(work) = work {
            let task = Look { parked: Arc::clone(self), work, last: false, read: None };
            self.dispatch.executor.read(Box::new(task), false);
        }
    }

    fn woken(self: &Arc<Self>, signal: Signal) {
        let mut state = self.lock();
        state.dirty = true;
        state.over |= signal == Signal::Deadline;
        drop(state);
        self.look();
    }

    /// The caller is gone.
    pub fn give_up(&self) {
        let mut state = self.lock();
        state.given_up = true;
        state.work = None;
        self.stop_listening(&mut state);
    }

    /// Keeps the work for the next event; answers false if it must run again at once.
    fn park(
        self: &Arc<Self>,
        work: (Call, WaitJob, Done),
        workspace: WorkspaceId,
        seen: i64,
    ) -> Result<bool, Done> {
        let mut state = self.lock();
        if state.given_up {
            return Ok(true);
        }
        if state.listening.is_none() {
            if self.dispatch.bus.listening() >= WAITS_MAX {
                return Err(work.2);
            }
            let parked = Arc::downgrade(self);
            let wake: Wake = Arc::new(move |signal| {
                if let Some(parked) = parked.upgrade() {
                    parked.woken(signal);
                }
            });
            let listener = self.dispatch.bus.listen(workspace, seen, self.wakes.clone(), self.deadline, wake);
            state.listening = Some((workspace, listener));
        }
        state.work = Some(work);
        Ok(!std::mem::take(&mut state.dirty))
    }

    fn finish(&self) {
        let mut state = self.lock();
        self.stop_listening(&mut state);
    }

    fn stop_listening(&self, state: &mut State) {
        if let Some((workspace, listener)) = state.listening.take() {
            self.dispatch.bus.forget(workspace, listener);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One repetition.
struct Look {
    parked: Arc<Parked>,
    work: (Call, WaitJob, Done),
    /// It is the last one.
    last: bool,
    /// What the last run came to.
    read: Option<(Entered, Option<Answer>)>,
}

impl Task for Look {
    fn bytes(&self) -> usize {
        self.work.0.bytes
    }

    fn is_abandoned(&self) -> bool {
        self.parked.lock().given_up
    }

    fn finish(self: Box<Self>, outcome: Result<()>) {
        let Self { parked, work: (call, job, done), last, read } = *self;
        let (entered, found) = read.unzip();
        let lsn = entered.as_ref().and_then(|entered: &Entered| entered.lsn);
        if let Err(error) = outcome {
            parked.finish();
            return done(Err(error.seen_at(lsn)));
        }
        let Some(entered) = entered else {
            parked.finish();
            return done(Err(Error::internal("a wait ended without an answer")));
        };
        let answer = match found.flatten() {
            Some(answer) => answer,
            None if last => timed_out(),
            None => {
                match parked.park((call, job, done), entered.caller.workspace_id, lsn.unwrap_or(0)) {
                    Ok(true) => {}
                    Ok(false) => parked.look(),
                    Err(done) => done(Err(Error::new(
                        Code::Overloaded,
                        "too many waits are parked; try again shortly",
                    ))),
                }
                return;
            }
        };
        parked.finish();
        call.answer(Some(&entered.caller), Ok(Reply::of(200, lsn, answer)), done);
    }
}

impl ReadTask<Notes> for Look {
    fn run(&mut self, reader: &Reader<Notes>) -> Result<()> {
        self.read = None;
        self.last = {
            let mut state = self.parked.lock();
            state.dirty = false;
            state.over
        };
        let (call, job, _) = &mut self.work;
        let entered = call.enter(reader)?;
        let (entered, found) = self.read.insert((entered, None));
        let cx = Read::new(reader, &entered.caller, entered.now, &call.dispatch.ambient);
        *found = job(&cx)?;
        Ok(())
    }
}
