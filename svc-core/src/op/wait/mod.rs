//! A parked wait: a question that had no answer yet and is asked again when a matching event comes. While it is
//! parked it holds no thread, no connection and no place in a queue. Every repetition authenticates again, and so
//! does the last one at the deadline, so that a revoked token learns nothing. A wait ends on time: when its last
//! repetition cannot be done, because the database is silent, it is refused shortly after its deadline.

mod line;
mod rounds;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

pub(crate) use rounds::Rounds;
pub use rounds::WaitCounts;

use super::context::Read;
use super::dispatch::{Call, Done, Entered, Reply};
use super::row::{Answer, Supply, WaitJob, Waited, timed_out};
use crate::error::{Code, Error};
use crate::id::WorkspaceId;
use crate::log::bus::{Passed, Wake, Wakes};
use crate::log::memo::Notes;
use crate::store::executor::Reader;
use crate::sync::lock;
use crate::time::Monotonic;
use crate::timers::TimerId;

/// How long after its deadline a wait is refused whose last repetition has not come back.
const OVERTIME: Duration = Duration::from_secs(2);

/// What a wait asks, and until when.
pub(super) struct LongPoll {
    /// The operation.
    pub name: &'static str,
    pub job: WaitJob,
    pub wakes: Wakes,
    pub timeout: Duration,
    /// Of operations that share something out: how much of it an event brought.
    pub supply: Option<Supply>,
}

/// One wait.
pub(super) struct Parked {
    state: Mutex<State>,
    dispatch: Arc<super::Dispatch>,
    /// Its place among all that ever came.
    number: u64,
    name: &'static str,
    wakes: Wakes,
    deadline: Monotonic,
    supply: Option<Supply>,
}

/// What is asked.
type Question = (Call, WaitJob);

#[derive(Default)]
struct State {
    /// Where the answer goes; gone once it was given, or given up.
    done: Option<Done>,
    /// Gone while it is asked.
    question: Option<Question>,
    /// Waits to be asked, or is being asked.
    queued: bool,
    /// There is a reason to ask: it is new, or a matching event has come.
    due: bool,
    /// The last event that it was woken by: who is asked in a snapshot from before has not been asked.
    newest: i64,
    /// The deadline has passed.
    over: bool,
    listening: Option<WorkspaceId>,
    timer: Option<TimerId>,
}

impl State {
    /// Whether it was woken by an event that the snapshot in which it was asked does not have.
    fn has_newer_than(&self, entered: &Entered) -> bool {
        entered.lsn.is_some_and(|lsn| lsn < self.newest)
    }
}

/// A repetition that is about to run.
struct Turn {
    parked: Arc<Parked>,
    question: Question,
    /// Nothing can have changed: it is only seen whether the caller may still know that.
    idle: bool,
    last: bool,
    outcome: Outcome,
}

/// What came of a repetition.
enum Outcome {
    Unasked,
    /// It has happened.
    Ready(Answer, Entered),
    /// Not yet.
    Pending(Entered),
    /// A bounded part was read, and there is more; what to answer when the time is over.
    More(Answer, Entered),
    Failed(Error),
}

impl Parked {
    /// Takes a wait up and asks it for the first time. None if that was refused.
    pub fn start(call: Call, poll: LongPoll, done: Done) -> Option<Arc<Self>> {
        let dispatch = Arc::clone(&call.dispatch);
        let Some(number) = dispatch.rounds.admit() else {
            done(Err(Error::new(Code::Overloaded, "too many waits are parked; try again shortly")));
            return None;
        };
        let LongPoll { name, job, wakes, timeout, supply } = poll;
        let state = State {
            done: Some(done),
            question: Some((call, job)),
            queued: true,
            due: true,
            ..State::default()
        };
        let deadline = dispatch.clock.deadline(timeout);
        let state = Mutex::new(state);
        let parked = Arc::new(Self { state, dispatch, number, name, wakes, deadline, supply });
        let waiting = Arc::downgrade(&parked);
        let timer = parked.dispatch.timers.at(deadline, move || with(&waiting, Self::time_is_over));
        let mut state = lock(&parked.state);
        if !state.over {
            state.timer = Some(timer);
        }
        drop(state);
        parked.enqueue();
        Some(parked)
    }

    fn enqueue(self: &Arc<Self>) {
        self.dispatch.rounds.woken(Arc::clone(self));
        rounds::pump(&self.dispatch);
    }

    /// A matching event has come.
    fn woken(self: &Arc<Self>, events: &[Passed]) {
        let mut state = lock(&self.state);
        let (Some(workspace), Some(_)) = (state.listening, &state.done) else { return };
        state.due = true;
        state.newest = events.iter().map(|event| event.lsn).fold(state.newest, i64::max);
        if let Some(supply) = self.supply {
            drop(state);
            self.dispatch.rounds.offer((workspace, self.name), supply, self.number, self, events);
            rounds::pump(&self.dispatch);
        } else if !std::mem::replace(&mut state.queued, true) {
            drop(state);
            self.enqueue();
        }
    }

    /// The deadline has passed: it is asked for the last time.
    fn time_is_over(self: &Arc<Self>) {
        let mut state = lock(&self.state);
        if state.done.is_none() {
            return;
        }
        state.over = true;
        let waiting = Arc::downgrade(self);
        state.timer =
            Some(self.dispatch.timers.at(self.deadline.plus(OVERTIME), move || with(&waiting, Self::refuse)));
        if !std::mem::replace(&mut state.queued, true) {
            drop(state);
            self.enqueue();
        }
    }

    /// The last repetition has not come back in time.
    fn refuse(self: &Arc<Self>) {
        if let Some(done) = self.end() {
            done(Err(Error::new(Code::Unavailable, "the database did not answer in time; wait again")));
        }
    }

    /// The caller is gone.
    pub fn give_up(&self) {
        drop(self.end());
    }

    /// Ends the wait; answers where its answer goes, unless that was given already.
    fn end(&self) -> Option<Done> {
        let mut state = lock(&self.state);
        let done = state.done.take()?;
        let question = state.question.take();
        let (timer, listening) = (state.timer.take(), state.listening.take());
        drop(state);
        if let Some(timer) = timer {
            self.dispatch.timers.stop(timer);
        }
        if let Some(workspace) = listening {
            self.dispatch.bus.forget(workspace, self.number);
            self.dispatch.rounds.leave((workspace, self.name), self.number);
        }
        self.dispatch.rounds.ended(listening.is_some());
        drop(question);
        Some(done)
    }

    /// Takes the question to be asked. None if somebody else has it, or nobody waits any more.
    fn turn(self: &Arc<Self>, from_line: bool) -> Option<Turn> {
        let mut state = lock(&self.state);
        if from_line && state.queued {
            return None;
        }
        let question = state.question.take()?;
        state.queued = true;
        let last = state.over;
        // The last answer says how far the log was read, so it has to be read.
        let idle = !std::mem::replace(&mut state.due, false) && !last;
        Some(Turn { parked: Arc::clone(self), question, idle, last, outcome: Outcome::Unasked })
    }

    /// Keeps the question for the next event, or has it asked again at once.
    fn park(self: &Arc<Self>, question: Question, was_last: bool, entered: Option<&Entered>) {
        let mut state = lock(&self.state);
        if state.done.is_none() {
            return;
        }
        if let (None, Some(entered)) = (state.listening, entered) {
            state.listening = Some(self.listen(entered));
        }
        state.question = Some(question);
        let unseen = entered.is_some_and(|entered| state.has_newer_than(entered));
        state.due |= unseen;
        // Who shares something out is asked by the line, but at the beginning and at the end.
        let in_line = self.supply.is_some() && state.listening.is_some() && !state.over;
        state.queued = (state.due && !in_line) || (state.over && !was_last);
        if state.queued {
            drop(state);
            self.enqueue();
        } else if let (true, true, Some(supply), Some(workspace)) =
            (unseen, in_line, self.supply, state.listening)
        {
            drop(state);
            self.dispatch.rounds.offer((workspace, self.name), supply, self.number, self, &[]);
        }
    }

    /// Has itself woken by whatever comes after what was read when the caller was found. Called with its state locked,
    /// so that no wake-up comes before it is known to listen.
    fn listen(self: &Arc<Self>, entered: &Entered) -> WorkspaceId {
        let (workspace, seen) = (entered.caller.workspace_id, entered.lsn.unwrap_or(0));
        let waiting = Arc::downgrade(self);
        let wake: Wake = Arc::new(move |events: &[Passed]| with(&waiting, |parked| parked.woken(events)));
        let wakes = self.wakes.clone().of(entered.caller.member_id);
        self.dispatch.rounds.parked();
        self.dispatch.bus.listen(workspace, self.number, seen, wakes, wake);
        workspace
    }

    /// Whether it has been asked and waits for an event.
    fn is_parked(&self) -> bool {
        lock(&self.state).listening.is_some()
    }
}

/// Does something for a wait that is still there.
fn with(parked: &Weak<Parked>, run: impl FnOnce(&Arc<Parked>)) {
    if let Some(parked) = parked.upgrade() {
        run(&parked);
    }
}

impl Turn {
    /// Asks inside a read transaction. Answers whether it has happened.
    fn ask(&mut self, reader: &Reader<Notes>) -> bool {
        let (question, idle) = (&mut self.question, self.idle);
        let asked = catch_unwind(AssertUnwindSafe(|| ask(reader, question, idle)));
        self.outcome = asked.unwrap_or_else(|_| Outcome::Failed(Error::internal("a wait panicked")));
        matches!(self.outcome, Outcome::Ready(..))
    }

    /// Whether the database had no answer, so that it is worth asking again.
    fn was_unlucky(&self) -> bool {
        matches!(&self.outcome, Outcome::Failed(error) if can_pass(error))
    }

    fn is_unasked(&self) -> bool {
        matches!(self.outcome, Outcome::Unasked)
    }

    /// What was parked outlives a database that has no answer for a while: it is asked again. Who has only just come
    /// is told.
    fn outlive(&mut self, failure: Option<&Error>) {
        if let (Outcome::Unasked, Some(error)) = (&self.outcome, failure) {
            self.outcome = Outcome::Failed(Error::new(error.code(), error.detail().to_owned()));
        }
        if self.was_unlucky() && self.parked.is_parked() {
            self.outcome = Outcome::Unasked;
        }
    }

    /// Answers the wait or parks it. True if somebody was told that it has happened.
    fn settle(self) -> bool {
        let Self { parked, question, last, outcome, .. } = self;
        match outcome {
            Outcome::Ready(answer, entered) => reply(&parked, question, answer, &entered),
            Outcome::Pending(entered) if last && !lock(&parked.state).has_newer_than(&entered) => {
                reply(&parked, question, timed_out(), &entered);
                false
            }
            Outcome::More(answer, entered) if last => {
                reply(&parked, question, answer, &entered);
                false
            }
            Outcome::Pending(entered) if last => {
                parked.park(question, false, Some(&entered));
                false
            }
            Outcome::Pending(entered) => {
                parked.park(question, last, Some(&entered));
                false
            }
            Outcome::More(_, entered) => {
                lock(&parked.state).due = true;
                parked.park(question, last, Some(&entered));
                false
            }
            Outcome::Unasked => {
                lock(&parked.state).due = true;
                parked.park(question, last, None);
                false
            }
            Outcome::Failed(error) => {
                if let Some(done) = parked.end() {
                    done(Err(error));
                }
                false
            }
        }
    }
}

/// Asks in the name of the caller.
fn ask(reader: &Reader<Notes>, (call, job): &mut Question, idle: bool) -> Outcome {
    let entered = match call.enter(reader) {
        Ok(entered) => entered,
        Err(error) => return Outcome::Failed(error),
    };
    if idle {
        return Outcome::Pending(entered);
    }
    let cx = Read::new(reader, &entered.caller, entered.now, &call.dispatch.ambient);
    match job(&cx) {
        Ok(Waited::Ready(answer)) => Outcome::Ready(answer, entered),
        Ok(Waited::NotYet) => Outcome::Pending(entered),
        Ok(Waited::More(answer)) => Outcome::More(answer, entered),
        Err(error) => Outcome::Failed(error.seen_at(entered.lsn)),
    }
}

/// Answers; false if nobody waits any more.
fn reply(parked: &Parked, (call, _): Question, answer: Answer, entered: &Entered) -> bool {
    let Some(done) = parked.end() else { return false };
    call.answer(Some(&entered.caller), Ok(Reply::of(200, entered.lsn, answer)), done);
    true
}

/// Whether an error may be gone when the same is tried again.
fn can_pass(error: &Error) -> bool {
    matches!(error.code(), Code::Unavailable | Code::Overloaded)
}
