//! A parked wait: a question that had no answer yet and is asked again when a matching event comes. While it is
//! parked it holds no thread, no connection and no place in a queue. Every repetition authenticates again, and so
//! does the last one at the deadline, so that a revoked token learns nothing. A wait ends on time: when its last
//! repetition cannot be done, because the database is silent, it is refused shortly after its deadline.

mod line;
mod quota;
mod rounds;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use quota::{Holder, WaitPermit};
pub(crate) use rounds::Rounds;
pub use rounds::WaitCounts;

use crate::error::{Code, Error};
use crate::id::WorkspaceId;
use crate::log::bus::{EventFilter, NewEvent, Wake};
use crate::log::cache::ReaderCache;
use crate::op::declare::operation::{Answer, Poll, Supply, WaitJob, timed_out};
use crate::op::run::{self, Call, Done, Prepared, Reading, Reply};
use crate::store::executor::Reader;
use crate::sync::lock;
use crate::time::Monotonic;
use crate::timers::TimerId;

/// How long after its deadline a wait is refused whose last repetition has not come back.
const OVERTIME: Duration = Duration::from_secs(2);

/// What a wait asks, and until when.
pub(in crate::op) struct PendingPoll {
    /// The operation.
    pub name: &'static str,
    pub job: WaitJob,
    pub filter: EventFilter,
    pub timeout: Duration,
    /// Of operations that share something out: how much of it an event brought.
    pub supply: Option<Supply>,
}

/// One wait.
pub(in crate::op) struct Parked {
    state: Mutex<State>,
    dispatch: Arc<crate::op::Dispatch>,
    /// Its place among all that ever came.
    number: u64,
    name: &'static str,
    filter: EventFilter,
    deadline: Monotonic,
    supply: Option<Supply>,
}

/// What is asked.
type Question = (Call, Prepared<WaitJob>);

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
    /// Gone once it has ended.
    permit: Option<WaitPermit>,
}

impl State {
    /// Whether it was woken by an event that the snapshot in which it was asked does not have.
    fn has_newer_than(&self, call: &Call) -> bool {
        call.lsn().is_some_and(|lsn| lsn < self.newest)
    }
}

/// A repetition that is about to run.
struct Attempt {
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
    Ready(Answer),
    /// Not yet.
    Pending,
    /// A bounded part was read, and there is more; what to answer when the time is over.
    More(Answer),
    Failed(Error),
}

impl Parked {
    /// Takes a wait up and asks it for the first time. None if that was refused.
    pub fn start(call: Call, poll: PendingPoll, done: Done) -> Option<Arc<Self>> {
        let dispatch = Arc::clone(&call.dispatch);
        let (number, permit) = match dispatch.rounds.admit(Holder::of(&call.access)) {
            Ok(admitted) => admitted,
            Err(error) => {
                done(Err(error));
                return None;
            }
        };
        let PendingPoll { name, job, filter, timeout, supply } = poll;
        let state = State {
            done: Some(done),
            question: Some((call, Prepared::Ready(job))),
            queued: true,
            due: true,
            permit: Some(permit),
            ..State::default()
        };
        let deadline = dispatch.clock.deadline(timeout);
        let state = Mutex::new(state);
        let parked = Arc::new(Self { state, dispatch, number, name, filter, deadline, supply });
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
    fn woken(self: &Arc<Self>, events: &[NewEvent]) {
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
        let permit = state.permit.take();
        drop(state);
        if let Some(timer) = timer {
            self.dispatch.timers.stop(timer);
        }
        if let Some(workspace) = listening {
            self.dispatch.bus.unlisten(workspace, self.number);
            self.dispatch.rounds.leave((workspace, self.name), self.number);
        }
        self.dispatch.rounds.ended(listening.is_some());
        drop((question, permit));
        Some(done)
    }

    /// Takes the question to be asked. None if somebody else has it, or nobody waits any more.
    fn attempt(self: &Arc<Self>, from_line: bool) -> Option<Attempt> {
        let mut state = lock(&self.state);
        if from_line && state.queued {
            return None;
        }
        let question = state.question.take()?;
        state.queued = true;
        let last = state.over;
        // The last answer says how far the log was read, so it has to be read.
        let idle = !std::mem::replace(&mut state.due, false) && !last;
        Some(Attempt { parked: Arc::clone(self), question, idle, last, outcome: Outcome::Unasked })
    }

    /// Keeps the question for the next event, or has it asked again at once.
    fn park(self: &Arc<Self>, mut question: Question, was_last: bool, was_asked: bool) {
        let mut state = lock(&self.state);
        if state.done.is_none() {
            return;
        }
        let (call, _) = &mut question;
        if was_asked && state.listening.is_none() {
            state.listening = self.listen(call);
            call.record_parked();
        }
        let unseen = was_asked && state.has_newer_than(call);
        state.question = Some(question);
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
    fn listen(self: &Arc<Self>, call: &Call) -> Option<WorkspaceId> {
        let entered = call.entered().ok()?;
        let (workspace, seen) = (entered.caller.workspace_id, entered.lsn.unwrap_or(0));
        let waiting = Arc::downgrade(self);
        let wake: Wake = Arc::new(move |events: &[NewEvent]| with(&waiting, |parked| parked.woken(events)));
        let filter = self.filter.clone().of(entered.caller.member);
        self.dispatch.rounds.parked();
        self.dispatch.bus.listen(workspace, self.number, seen, filter, wake);
        Some(workspace)
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

impl Attempt {
    /// Asks inside a read transaction. Answers whether it has happened.
    fn ask(&mut self, reader: &Reader<ReaderCache>) -> bool {
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
            self.outcome = Outcome::Failed(error.clone());
        }
        if self.was_unlucky() && self.parked.is_parked() {
            self.outcome = Outcome::Unasked;
        }
    }

    /// Answers the wait or parks it. True if somebody was told that it has happened.
    fn settle(self) -> bool {
        let Self { parked, question, last, outcome, .. } = self;
        match outcome {
            Outcome::Ready(answer) => reply(&parked, question, answer),
            Outcome::Pending if last && !lock(&parked.state).has_newer_than(&question.0) => {
                reply(&parked, question, timed_out());
                false
            }
            Outcome::More(answer) if last => {
                reply(&parked, question, answer);
                false
            }
            Outcome::Pending => {
                parked.park(question, false, true);
                false
            }
            Outcome::More(_) => {
                lock(&parked.state).due = true;
                parked.park(question, last, true);
                false
            }
            Outcome::Unasked => {
                lock(&parked.state).due = true;
                parked.park(question, last, false);
                false
            }
            Outcome::Failed(error) => {
                if let Some(done) = parked.end() {
                    question.0.answer(Err(error), done);
                }
                false
            }
        }
    }
}

/// Asks in the name of the caller.
fn ask(reader: &Reader<ReaderCache>, (call, job): &mut Question, idle: bool) -> Outcome {
    let stage = Reading::on(reader);
    let asked = if idle { run::run(&stage, call, &mut nothing_new()) } else { run::run(&stage, call, job) };
    match asked {
        Ok(Poll::Ready(answer)) => Outcome::Ready(answer),
        Ok(Poll::Pending) => Outcome::Pending,
        Ok(Poll::More(answer)) => Outcome::More(answer),
        Err(error) => Outcome::Failed(error),
    }
}

/// Stands for the question where the answer can be no other than before.
fn nothing_new() -> Prepared<WaitJob> {
    Prepared::Ready(Box::new(|_| Ok(Poll::Pending)))
}

/// Answers; false if nobody waits any more.
fn reply(parked: &Parked, (call, _): Question, answer: Answer) -> bool {
    let Some(done) = parked.end() else { return false };
    let reply = Reply::of(200, call.lsn(), answer);
    call.answer(Ok(reply), done);
    true
}

/// Whether an error may be gone when the same is tried again.
fn can_pass(error: &Error) -> bool {
    matches!(error.code(), Code::Unavailable | Code::Overloaded)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use secrecy::SecretString;
    use serde_json::json;

    use super::*;
    use crate::host::service::{Options, Service};
    use crate::host::setup::Established;
    use crate::op::call::caller::{Surface, secret_hash};
    use crate::op::{Dispatch, Request};
    use crate::rate::RateSettings;
    use crate::store::{Database, OpenMode};
    use crate::time::{Clock, Time};

    /// What the waits of these tests wait for.
    const KIND: &str = "ChannelCreated";

    /// A service with a clock that stands still.
    pub(in crate::op) struct Stage {
        pub service: Service,
        pub clock: Clock,
        made: Established,
        _folder: tempfile::TempDir,
    }

    impl Stage {
        pub fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let clock = Clock::mock(Time::from_micros(1_795_000_000_000_000));
            let database = Database::Sqlite(folder.path().join("svc.db"));
            let options = Options {
                mode: OpenMode::Create,
                clock: clock.clone(),
                rates: RateSettings { per_client: 0, per_workspace: 0, ..RateSettings::default() },
                reap_tick: None,
                ..Options::new(database, [7; 32])
            };
            let service = Service::open(options).unwrap();
            let made = service.establish("Team", "ada").unwrap();
            Self { service, clock, made, _folder: folder }
        }

        pub fn dispatch(&self) -> &Arc<Dispatch> {
            self.service.dispatch()
        }

        pub fn workspace(&self) -> WorkspaceId {
            self.made.workspace.id
        }

        fn secret(&self) -> SecretString {
            self.made.token.secret.clone().into()
        }

        /// Takes a wait of the administrator up, for an event that [`Stage::happen`] emits.
        pub fn wait(&self, job: WaitJob) -> (Option<Arc<Parked>>, Receiver<Result<(), Code>>) {
            let (sender, receiver) = channel();
            let done: Done = Box::new(move |outcome: crate::Result<Reply>| {
                sender.send(outcome.map(drop).map_err(|error| error.code())).unwrap();
            });
            let mut call = Call::instance(self.dispatch(), self.workspace(), Surface::System);
            self.call("whoami", serde_json::json!({}));
            call.access = run::Credential::cached(self.dispatch(), &secret_hash(&self.secret()));
            let timeout = Duration::from_secs(30);
            let poll =
                PendingPoll { name: "probe", job, filter: EventFilter::on([KIND]), timeout, supply: None };
            (Parked::start(call, poll, done), receiver)
        }

        /// A wait that has been asked for the first time, and waits for an event.
        pub fn parked(&self, job: WaitJob) -> (Arc<Parked>, Receiver<Result<(), Code>>) {
            let before = self.dispatch().rounds.counts().parked;
            let (parked, receiver) = self.wait(job);
            self.until(|| self.dispatch().rounds.counts().parked > before);
            (parked.unwrap(), receiver)
        }

        /// Looks until something is so that no event tells of.
        pub fn until(&self, is_so: impl Fn() -> bool) {
            while !is_so() {
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }

        /// Emits an event, and comes back when those who wait for it have been woken.
        pub fn happen(&self) {
            let (sender, receiver) = channel();
            let wake: Wake = Arc::new(move |events: &[NewEvent]| sender.send(events.len()).unwrap());
            // The last to be woken.
            self.dispatch().bus.listen(self.workspace(), u64::MAX, self.lsn(), EventFilter::on([KIND]), wake);
            self.call("create_channel", json!({"workspace_id": self.workspace(), "name": "news"}));
            receiver.recv().unwrap();
            self.dispatch().bus.unlisten(self.workspace(), u64::MAX);
        }

        /// Where the workspace's log ends.
        fn lsn(&self) -> i64 {
            self.call("list_channels", json!({"workspace_id": self.workspace()})).lsn.unwrap()
        }

        fn call(&self, operation: &str, input: serde_json::Value) -> Reply {
            let request = Request::json(Surface::Rest, Some(self.secret()), input.to_string());
            self.service.call(self.service.operation(operation).unwrap(), request).unwrap()
        }
    }

    /// A job whose n-th run comes to the n-th of these, and its later ones to nothing; each is told.
    pub(in crate::op) fn script(
        runs: impl IntoIterator<Item = Run> + Send + 'static,
    ) -> (WaitJob, Receiver<()>) {
        let (sender, receiver): (Sender<()>, _) = channel();
        let mut runs: std::collections::VecDeque<Run> = runs.into_iter().collect();
        let job: WaitJob = Box::new(move |_| {
            let _ = sender.send(());
            runs.pop_front().unwrap_or(Run::Pending).outcome()
        });
        (job, receiver)
    }

    /// What a run of a job comes to.
    #[derive(Clone, Copy)]
    pub(in crate::op) enum Run {
        Ready,
        Pending,
        More,
        Unavailable,
        Panics,
    }

    impl Run {
        fn outcome(self) -> crate::Result<Poll<Answer>> {
            match self {
                Self::Ready => Ok(Poll::Ready(Box::new(()))),
                Self::Pending => Ok(Poll::Pending),
                Self::More => Ok(Poll::More(Box::new(()))),
                Self::Unavailable => Err(Error::new(Code::Unavailable, "not now")),
                Self::Panics => panic!("a wait that panics"),
            }
        }
    }

    #[test]
    fn a_wait_is_asked_once_for_each_reason() {
        let stage = Stage::new();
        let (job, asked) = script([Run::Pending, Run::Pending, Run::Ready]);
        let (_parked, outcome) = stage.parked(job);
        asked.recv().unwrap();
        assert!(asked.try_recv().is_err(), "nothing has happened");
        stage.happen();
        asked.recv().unwrap();
        assert!(outcome.try_recv().is_err(), "it was woken, and it was not for it");
        stage.happen();
        assert_eq!(outcome.recv().unwrap(), Ok(()));
        assert_eq!(asked.iter().count(), 1);
        stage.happen();
        assert_eq!(stage.dispatch().rounds.counts().parked, 0, "nobody waits any more");
    }

    #[test]
    fn more_to_read_is_read_at_once_and_told_when_the_time_is_over() {
        let stage = Stage::new();
        let (job, asked) = script([Run::More, Run::More, Run::Ready]);
        let (_parked, outcome) = stage.wait(job);
        assert_eq!(outcome.recv().unwrap(), Ok(()));
        assert_eq!(asked.iter().count(), 3, "without any event");

        let (job, asked) = script([Run::Pending, Run::More, Run::Unavailable]);
        let (_parked, outcome) = stage.parked(job);
        asked.recv().unwrap();
        stage.clock.advance(Duration::from_secs(30));
        assert_eq!(outcome.recv().unwrap(), Ok(()), "how far it has come");
        assert_eq!(asked.iter().count(), 1);
    }

    #[test]
    fn who_waits_outlives_a_database_without_an_answer_and_who_comes_is_told() {
        let stage = Stage::new();
        let (job, _) = script([Run::Unavailable]);
        let (_parked, outcome) = stage.wait(job);
        assert_eq!(outcome.recv().unwrap(), Err(Code::Unavailable));
        // Nobody is asked for a while.
        stage.clock.advance(Duration::from_millis(100));

        let (job, asked) = script([Run::Pending, Run::Unavailable, Run::Unavailable, Run::Ready]);
        let (_parked, outcome) = stage.parked(job);
        stage.happen();
        (0..2).for_each(|_| asked.recv().unwrap());
        assert!(outcome.try_recv().is_err());
        stage.until(|| {
            stage.clock.advance(Duration::from_millis(100));
            outcome.try_recv().is_ok_and(|outcome| outcome == Ok(()))
        });
    }

    #[test]
    fn a_wait_that_panics_fails_alone() {
        let stage = Stage::new();
        let (fails, _) = script([Run::Pending, Run::Panics]);
        let (goes_on, _) = script([Run::Pending, Run::Ready]);
        let (_failing, failed) = stage.parked(fails);
        let (_going_on, fine) = stage.parked(goes_on);
        stage.happen();
        assert_eq!((failed.recv().unwrap(), fine.recv().unwrap()), (Err(Code::Internal), Ok(())));
    }

    #[test]
    fn who_gives_up_is_asked_no_more() {
        let stage = Stage::new();
        let (job, asked) = script([Run::Pending]);
        let (parked, outcome) = stage.parked(job);
        parked.give_up();
        assert_eq!(stage.dispatch().rounds.counts().parked, 0);
        stage.happen();
        stage.clock.advance(Duration::from_secs(60));
        assert!(outcome.recv().is_err(), "its answer goes nowhere");
        drop(parked);
        assert_eq!(asked.iter().count(), 1);
    }
}
