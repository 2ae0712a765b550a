//! Parked waits: long polls that had nothing to return yet and are repeated when a matching event arrives.
//!
//! A parked wait holds no thread, no connection and no slot in a queue. Every poll authenticates again,
//! including the last one at the deadline, so that a revoked token gets no result; its wait ends within ten
//! seconds. A wait ends on time: if its last poll cannot be run, because the database does not respond, the
//! wait is rejected shortly after its deadline.

mod queue;
mod access;
mod rounds;

use std::mem::replace;
use std::net::{IpAddr, Ipv6Addr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

pub(crate) use rounds::PollRounds;
use rounds::QueueKey;
pub use rounds::WaitCounts;

use crate::error::{Code, Error};
use crate::id::WorkspaceId;
use crate::log::bus::{EventFilter, NewEvent, Wake};
use crate::log::cache::ReaderCache;
use crate::op::declare::job::{BoxedOutput, CountAvailable, Poll, WaitJob};
use crate::op::run::presence::{ConnectedMembers, MemberConnection};
use crate::op::run::{self, Call, Prepared, ReadTransaction, Reply, ReplyCallback};
use crate::rate::{Client, Holder};
use crate::share::PlaceGuard;
use crate::store::executor::Reader;
use crate::sync::lock;
use crate::time::{Monotonic, Time};
use crate::timers::TimerId;

/// Time after the deadline at which a wait is rejected if its last poll has not finished.
const GRACE: Duration = Duration::from_secs(2);

/// A long poll to start: its job, its filter and its timeout.
pub(in crate::op) struct PendingPoll {
    pub name: &'static str,
    pub job: WaitJob,
    pub filter: EventFilter,
    pub timeout: Duration,
    /// Returns the number of objects that an event has added, for operations whose waits compete for them.
    pub supply: Option<CountAvailable>,
    /// Returns the output of a wait whose timeout has expired.
    pub timed_out: fn() -> BoxedOutput,
}

pub(in crate::op) struct ParkedWait {
    /// The state of the wait, or `None` once the reply was sent or the client has disconnected.
    live: Mutex<Option<LiveWait>>,
    dispatch: Arc<crate::op::Dispatch>,
    /// Sequence number of the wait, in the order in which waits began.
    number: u64,
    name: &'static str,
    /// The workspace that polls of this wait are charged to.
    charged_to: WorkspaceId,
    /// The client that started the wait.
    client: Option<Client>,
    filter: EventFilter,
    deadline: Monotonic,
    supply: Option<CountAvailable>,
    timed_out: fn() -> BoxedOutput,
}

/// A call together with the job that is polled for it.
type PollJob = (Call, Prepared<WaitJob>);

/// The state of a wait that has not ended.
struct LiveWait {
    /// Receives the reply of the wait.
    done: ReplyCallback,
    phase: Phase,
    /// Whether there is a reason to poll: the wait is new, or a matching event has arrived.
    due: bool,
    /// Whether the deadline has passed, so that the next poll is the last one.
    is_last: bool,
    /// The listener on the bus, which the first poll sets.
    listening: Option<WaitListener>,
    /// The epoch in which the caller was last looked up.
    epoch: i64,
    /// Position of the last event that woke the wait. A poll in an older snapshot does not count.
    newest: i64,
    timer: Option<TimerId>,
    _place: PlaceGuard,
}

/// The state of a wait's job.
enum Phase {
    /// The job is kept until an event, the queue or the deadline lists it.
    Resting(PollJob),
    /// The job is listed for the next round.
    Listed(PollJob),
    /// A round has taken the job.
    Polling,
}

/// The listener of a parked wait on the bus.
struct WaitListener {
    workspace: WorkspaceId,
    /// Keeps the member of the wait online.
    _connection: Option<MemberConnection>,
}

impl LiveWait {
    /// Returns whether an event woke the wait that is missing from the snapshot of its poll.
    fn has_newer_than(&self, call: &Call) -> bool {
        call.lsn().is_some_and(|lsn| lsn < self.newest)
    }

    /// Lists the job for the next round. Returns `false` if it is already listed or taken.
    fn list(&mut self) -> bool {
        match replace(&mut self.phase, Phase::Polling) {
            Phase::Resting(poll_job) => {
                self.phase = Phase::Listed(poll_job);
                true
            }
            other => {
                self.phase = other;
                false
            }
        }
    }
}

/// A poll that is about to run.
struct PollAttempt {
    parked: Arc<ParkedWait>,
    poll_job: PollJob,
    /// Whether nothing can have changed, so that only the caller's access is checked again.
    idle: bool,
    last: bool,
    outcome: Polled,
}

/// The outcome of a poll.
enum Polled {
    /// The poll could not be run.
    Skipped,
    /// The awaited result.
    Ready(BoxedOutput),
    /// No result yet.
    Pending,
    /// Only a part was read, and more remains. Contains the reply to send if the timeout expires now.
    More(BoxedOutput),
    Failed(Error),
}

impl ParkedWait {
    /// Starts a wait and polls it for the first time. Returns `None` if the wait was rejected.
    pub fn start(call: Call, poll: PendingPoll, done: ReplyCallback) -> Option<Arc<Self>> {
        let dispatch = Arc::clone(&call.dispatch);
        let (number, place) = match dispatch.rounds.admit(holder_of(&call)) {
            Ok(admitted) => admitted,
            Err(error) => {
                call.finish(Err(error), done);
                return None;
            }
        };
        let PendingPoll { name, job, filter, timeout, supply, timed_out } = poll;
        let charged_to = call.access.charged_to();
        let client = call.client;
        let live = LiveWait {
            done,
            phase: Phase::Listed((call, Prepared::Ready(job))),
            due: true,
            is_last: false,
            listening: None,
            epoch: 0,
            newest: 0,
            timer: None,
            _place: place,
        };
        let deadline = dispatch.clock.deadline(timeout);
        let parked = Arc::new(Self {
            live: Mutex::new(Some(live)),
            dispatch,
            number,
            name,
            charged_to,
            client,
            filter,
            deadline,
            supply,
            timed_out,
        });
        let waiting = Arc::downgrade(&parked);
        let timer = parked.dispatch.timers.at(deadline, move || with(&waiting, Self::deadline_passed));
        if let Some(live) = lock(&parked.live).as_mut().filter(|live| !live.is_last) {
            live.timer = Some(timer);
        }
        parked.enqueue();
        Some(parked)
    }

    /// Returns the key of the wait's queue, if the wait competes for objects of a workspace.
    fn queue_in(&self, workspace: WorkspaceId) -> QueueKey {
        QueueKey { workspace, charged_to: self.charged_to, name: self.name }
    }

    fn enqueue(self: &Arc<Self>) {
        self.dispatch.rounds.woken(Arc::clone(self));
        rounds::pump(&self.dispatch);
    }

    /// Handles the arrival of matching events.
    fn woken(self: &Arc<Self>, events: &[NewEvent]) {
        let mut state = lock(&self.live);
        let Some(live) = &mut *state else { return };
        let Some(WaitListener { workspace, .. }) = live.listening else { return };
        live.due = true;
        // Events after the deadline are ignored: the last poll would never be recent enough for them.
        if !live.is_last {
            live.newest = events.iter().map(|event| event.lsn).fold(live.newest, i64::max);
        }
        if let Some(supply) = self.supply {
            drop(state);
            self.dispatch.rounds.offer(self.queue_in(workspace), supply, self.number, self, events);
            rounds::pump(&self.dispatch);
        } else if live.list() {
            drop(state);
            self.enqueue();
        }
    }

    /// Handles a check every few seconds, with the current epoch of the caller's workspace.
    ///
    /// Looks up the caller again if it may have lost its access since it was last found.
    fn recheck_caller(self: &Arc<Self>, epoch: i64, now: Time) {
        let mut state = lock(&self.live);
        let Some(live) = &mut *state else { return };
        let Phase::Resting((call, _)) = &live.phase else { return };
        let has_access = call.verified_caller().is_ok_and(|entered| entered.caller.check_live(now).is_ok());
        if !(live.epoch == epoch && has_access) && live.list() {
            drop(state);
            self.enqueue();
        }
    }

    /// Polls for the last time, after the deadline has passed.
    fn deadline_passed(self: &Arc<Self>) {
        let mut state = lock(&self.live);
        let Some(live) = &mut *state else { return };
        live.is_last = true;
        let waiting = Arc::downgrade(self);
        live.timer =
            Some(self.dispatch.timers.at(self.deadline.plus(GRACE), move || with(&waiting, Self::reject)));
        if live.list() {
            drop(state);
            self.enqueue();
        }
    }

    /// Rejects the wait if its last poll has not finished in time.
    fn reject(self: &Arc<Self>) {
        self.fail(Error::new(Code::Unavailable, "the database did not respond in time"));
    }

    /// Ends the wait with an error, unless it has already ended.
    fn fail(&self, error: Error) {
        if let Some(done) = self.end() {
            done(Err(error));
        }
    }

    /// Abandons the wait after its client has disconnected.
    pub fn give_up(&self) {
        drop(self.end());
    }

    /// Ends the wait. Returns the receiver of its reply, unless the wait has already ended.
    fn end(&self) -> Option<ReplyCallback> {
        let LiveWait { done, phase, listening, timer, _place: place, .. } = lock(&self.live).take()?;
        if let Some(timer) = timer {
            self.dispatch.timers.stop(timer);
        }
        if let Some(WaitListener { workspace, .. }) = listening {
            self.dispatch.bus.unlisten(workspace, self.number);
            self.dispatch.rounds.leave(self.queue_in(workspace), self.number);
            access::remove(&self.dispatch, workspace, self.number);
        }
        self.dispatch.rounds.ended(listening.is_some());
        drop((phase, place, listening));
        Some(done)
    }

    /// Returns whether the queue decides when this wait is polled.
    ///
    /// That is the case for all but the first and the last poll of a wait that competes for objects.
    fn is_polled_by_queue(&self, live: &LiveWait) -> bool {
        self.supply.is_some() && live.listening.is_some() && !live.is_last
    }

    /// Takes the poll in order to run it. Returns `None` if it is running, is in the other list, or has
    /// ended.
    fn attempt(self: &Arc<Self>, from_queue: bool) -> Option<PollAttempt> {
        let mut state = lock(&self.live);
        let live = state.as_mut()?;
        let poll_job = match (replace(&mut live.phase, Phase::Polling), from_queue) {
            (Phase::Resting(poll_job), true) | (Phase::Listed(poll_job), false) => poll_job,
            (other, _) => {
                live.phase = other;
                return None;
            }
        };
        // The last reply contains the position up to which the log was read, so the log must be read.
        let has_news = if self.is_polled_by_queue(live) { from_queue } else { live.due || live.is_last };
        if has_news {
            live.due = false;
        }
        let last = live.is_last;
        Some(PollAttempt {
            parked: Arc::clone(self),
            poll_job,
            idle: !has_news,
            last,
            outcome: Polled::Skipped,
        })
    }

    /// Returns whether an event woke the wait that is missing from the snapshot of its poll.
    fn has_newer_than(&self, call: &Call) -> bool {
        lock(&self.live).as_ref().is_some_and(|live| live.has_newer_than(call))
    }

    /// Records that there is a reason to poll again.
    fn set_due(&self) {
        if let Some(live) = &mut *lock(&self.live) {
            live.due = true;
        }
    }

    /// Keeps the poll until the next event, or lists it again at once.
    fn park(self: &Arc<Self>, mut poll_job: PollJob, was_last: bool, was_polled: bool) {
        let (call, _) = &mut poll_job;
        let is_first = was_polled && !self.is_parked();
        if is_first {
            let waiting = Arc::downgrade(self);
            // A wait whose audit decision cannot be recorded must not continue.
            call.record_parked(move |recorded| {
                let failed = |error| with(&waiting, |parked| parked.fail(error));
                recorded.err().into_iter().for_each(failed);
            });
        }
        let member =
            call.verified_caller().ok().and_then(|entered| entered.caller.member).filter(|_| is_first);
        let connection = member.map(|member| ConnectedMembers::connect(&self.dispatch, member));
        let mut state = lock(&self.live);
        let Some(live) = &mut *state else { return };
        if is_first {
            let listening = |workspace| WaitListener { workspace, _connection: connection };
            live.listening = self.listen(call).map(listening);
        }
        live.due |= was_polled && live.has_newer_than(call);
        live.epoch = call.verified_caller().map_or(live.epoch, |entered| entered.epoch);
        let by_queue = self.is_polled_by_queue(live);
        if (live.due && !by_queue) || (live.is_last && !was_last) {
            live.phase = Phase::Listed(poll_job);
            drop(state);
            return self.enqueue();
        }
        live.phase = Phase::Resting(poll_job);
        if let (true, Some(supply), Some(WaitListener { workspace, .. })) =
            (live.due && by_queue, self.supply, &live.listening)
        {
            let key = self.queue_in(*workspace);
            drop(state);
            // The queue may have skipped this wait while its caller was looked up.
            self.dispatch.rounds.offer(key, supply, self.number, self, &[]);
        }
    }

    /// Listens for events after the position that was read when the caller was authenticated.
    ///
    /// The caller of this function has locked the wait, so no wake-up arrives before the wait has its
    /// listener.
    fn listen(self: &Arc<Self>, call: &Call) -> Option<WorkspaceId> {
        let entered = call.verified_caller().ok()?;
        let workspace = entered.caller.workspace_id;
        let seen = entered.lsn.unwrap_or(0);
        let waiting = Arc::downgrade(self);
        let wake: Wake = Arc::new(move |events: &[NewEvent]| with(&waiting, |parked| parked.woken(events)));
        let filter = self.filter.clone().of(entered.caller.member);
        access::add(&self.dispatch, workspace, self.number, Arc::downgrade(self));
        self.dispatch.rounds.parked();
        self.dispatch.bus.listen(workspace, self.number, seen, filter, wake);
        Some(workspace)
    }

    /// Returns whether the wait has been polled and now waits for an event.
    fn is_parked(&self) -> bool {
        lock(&self.live).as_ref().is_some_and(|live| live.listening.is_some())
    }
}

/// Returns the holder that a wait is counted for. Waits without a client share one holder.
fn holder_of(call: &Call) -> Holder {
    let client = call.client.unwrap_or(Client::Peer(IpAddr::V6(Ipv6Addr::UNSPECIFIED).into()));
    Holder { client, workspace: call.access.charged_to() }
}

/// Runs `run` if the wait still exists.
fn with(parked: &Weak<ParkedWait>, run: impl FnOnce(&Arc<ParkedWait>)) {
    if let Some(parked) = parked.upgrade() {
        run(&parked);
    }
}

impl PollAttempt {
    /// Polls inside a read transaction. Returns whether there is a result.
    fn poll(&mut self, reader: &Reader<ReaderCache>) -> bool {
        let poll_job = &mut self.poll_job;
        let idle = self.idle;
        let polled = catch_unwind(AssertUnwindSafe(|| poll(reader, poll_job, idle)));
        self.outcome = polled.unwrap_or_else(|_| Polled::Failed(Error::internal("a wait panicked")));
        matches!(self.outcome, Polled::Ready(..))
    }

    /// Returns whether the poll failed for a transient reason, so that a retry may succeed.
    fn failed_transiently(&self) -> bool {
        matches!(&self.outcome, Polled::Failed(error) if is_transient(error))
    }

    fn was_not_polled(&self) -> bool {
        matches!(self.outcome, Polled::Skipped)
    }

    /// Lists a poll again after a transient failure, if the wait is parked.
    ///
    /// A parked wait survives a database that does not respond for a while. A new wait gets the error.
    fn repeat_if_parked(&mut self, failure: Option<&Error>) {
        if let (Polled::Skipped, Some(error)) = (&self.outcome, failure) {
            self.outcome = Polled::Failed(error.clone());
        }
        if self.failed_transiently() && self.parked.is_parked() {
            self.outcome = Polled::Skipped;
        }
    }

    /// Sends the reply or parks the wait. Returns whether a result was delivered.
    fn settle(self) -> bool {
        let Self { parked, poll_job, last, outcome, .. } = self;
        match outcome {
            Polled::Ready(output) => reply(&parked, poll_job, output),
            Polled::Pending if last && !parked.has_newer_than(&poll_job.0) => {
                reply(&parked, poll_job, (parked.timed_out)());
                false
            }
            Polled::More(output) if last => {
                reply(&parked, poll_job, output);
                false
            }
            Polled::Pending => {
                parked.park(poll_job, false, true);
                false
            }
            Polled::More(_) => {
                parked.set_due();
                parked.park(poll_job, last, true);
                false
            }
            Polled::Skipped => {
                parked.set_due();
                parked.park(poll_job, last, false);
                false
            }
            Polled::Failed(error) => {
                if let Some(done) = parked.end() {
                    poll_job.0.finish(Err(error), done);
                }
                false
            }
        }
    }
}

/// Polls on behalf of the caller.
fn poll(reader: &Reader<ReaderCache>, (call, job): &mut PollJob, idle: bool) -> Polled {
    let reading = ReadTransaction::on(reader);
    let polled =
        if idle { run::run(&reading, call, &mut unchanged_job()) } else { run::run(&reading, call, job) };
    match polled {
        Ok(Poll::Ready(output)) => Polled::Ready(output),
        Ok(Poll::Pending) => Polled::Pending,
        Ok(Poll::More(output)) => Polled::More(output),
        Err(error) => Polled::Failed(error),
    }
}

/// Returns the job that replaces a poll whose result can only be the same as before.
fn unchanged_job() -> Prepared<WaitJob> {
    Prepared::Ready(Box::new(|_| Ok(Poll::Pending)))
}

/// Sends the reply. Returns `false` if the wait has already ended.
fn reply(parked: &ParkedWait, (call, _): PollJob, output: BoxedOutput) -> bool {
    let Some(done) = parked.end() else { return false };
    let reply = Reply::of(200, call.lsn(), output);
    call.finish(Ok(reply), done);
    true
}

/// Returns whether a retry may succeed after this error.
fn is_transient(error: &Error) -> bool {
    matches!(error.code(), Code::Unavailable | Code::Overloaded)
}

#[cfg(test)]
mod tests {
    use crate::Client;
    use crate::capability::Needs;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use secrecy::SecretString;
    use serde_json::json;

    use super::*;
    use crate::host::service::{Service, ServiceOptions};
    use crate::host::setup::SetupResult;
    use crate::op::call::caller::Surface;
    use crate::op::call::credential::Credential;
    use crate::op::{Dispatch, Request};
    use crate::rate::RateSettings;
    use crate::store::{Database, OpenMode};
    use crate::time::Clock;

    /// The kind of event that the waits in these tests wait for.
    const KIND: &str = "ChannelCreated";

    /// A service with a mock clock.
    pub(in crate::op) struct Fixture {
        pub service: Service,
        pub clock: Clock,
        made: SetupResult,
        _folder: tempfile::TempDir,
    }

    impl Fixture {
        pub fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let clock = Clock::mock(Time::from_micros(1_795_000_000_000_000));
            let database = Database::Sqlite(folder.path().join("svc.db"));
            let options = ServiceOptions {
                mode: OpenMode::Create,
                clock: clock.clone(),
                rates: RateSettings { per_client: 0, per_workspace: 0, ..RateSettings::default() },
                reap_tick: None,
                ..ServiceOptions::new(database, [7; 32])
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

        /// Starts a wait of the administrator for an event that [`Fixture::emit_event`] emits.
        pub fn wait(&self, job: WaitJob) -> (Option<Arc<ParkedWait>>, Receiver<Result<(), Code>>) {
            let (sender, receiver) = channel();
            let done: ReplyCallback = Box::new(move |outcome: crate::Result<Reply>| {
                sender.send(outcome.map(drop).map_err(|error| error.code())).unwrap();
            });
            let mut call =
                Call::instance(self.dispatch(), run::ServiceWork::on(self.workspace()), Surface::System);
            self.call("whoami", serde_json::json!({}));
            let key = Credential::Bearer(self.secret()).key(Needs::AnyCredential).unwrap();
            call.access = run::AdmittedBy::cached(self.dispatch(), &key);
            call.client = Some(Client::Token(self.made.token.id));
            let timeout = Duration::from_secs(30);
            let filter = EventFilter::on([KIND]);
            let timed_out = || -> BoxedOutput { Box::new(()) };
            let poll = PendingPoll { name: "probe", job, filter, timeout, supply: None, timed_out };
            (ParkedWait::start(call, poll, done), receiver)
        }

        /// Starts a wait, and returns once it has been polled for the first time and is parked.
        pub fn parked(&self, job: WaitJob) -> (Arc<ParkedWait>, Receiver<Result<(), Code>>) {
            let before = self.dispatch().rounds.counts().parked;
            let (parked, receiver) = self.wait(job);
            self.until(|| self.dispatch().rounds.counts().parked > before);
            (parked.unwrap(), receiver)
        }

        /// Polls until a condition holds that no event announces.
        pub fn until(&self, is_so: impl Fn() -> bool) {
            while !is_so() {
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }

        /// Emits an event, and returns once its listeners have been woken.
        pub fn emit_event(&self) {
            let (sender, receiver) = channel();
            let wake: Wake = Arc::new(move |events: &[NewEvent]| sender.send(events.len()).unwrap());
            // This listener is the last to be woken.
            self.dispatch().bus.listen(self.workspace(), u64::MAX, self.lsn(), EventFilter::on([KIND]), wake);
            self.call("create_channel", json!({"workspace_id": self.workspace(), "name": "news"}));
            receiver.recv().unwrap();
            self.dispatch().bus.unlisten(self.workspace(), u64::MAX);
        }

        /// Returns the last position of the workspace's log.
        fn lsn(&self) -> i64 {
            self.call("list_channels", json!({"workspace_id": self.workspace()})).lsn.unwrap()
        }

        fn call(&self, operation: &str, input: serde_json::Value) -> Reply {
            let request = Request::json(Surface::Rest, Some(self.secret()), input.to_string());
            self.service.call(self.service.operation(operation).unwrap(), request).unwrap()
        }
    }

    /// Creates a job that returns these outcomes in order, and then stays pending.
    ///
    /// The receiver gets a message for each run.
    pub(in crate::op) fn script(
        runs: impl IntoIterator<Item = RunOutcome> + Send + 'static,
    ) -> (WaitJob, Receiver<()>) {
        let (sender, receiver): (Sender<()>, _) = channel();
        let mut runs: std::collections::VecDeque<RunOutcome> = runs.into_iter().collect();
        let job: WaitJob = Box::new(move |_| {
            let _ = sender.send(());
            runs.pop_front().unwrap_or(RunOutcome::Pending).outcome()
        });
        (job, receiver)
    }

    /// The outcome of a job's run.
    #[derive(Clone, Copy)]
    pub(in crate::op) enum RunOutcome {
        Ready,
        Pending,
        More,
        Unavailable,
        Panics,
    }

    impl RunOutcome {
        fn outcome(self) -> crate::Result<Poll<BoxedOutput>> {
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
    fn a_wait_is_polled_once_for_each_reason() {
        let fixture = Fixture::new();
        let (job, polled) = script([RunOutcome::Pending, RunOutcome::Pending, RunOutcome::Ready]);
        let (_parked, outcome) = fixture.parked(job);
        polled.recv().unwrap();
        assert!(polled.try_recv().is_err(), "nothing has happened");
        fixture.emit_event();
        polled.recv().unwrap();
        assert!(outcome.try_recv().is_err(), "it was woken in vain");
        fixture.emit_event();
        assert_eq!(outcome.recv().unwrap(), Ok(()));
        assert_eq!(polled.iter().count(), 1);
        fixture.emit_event();
        assert_eq!(fixture.dispatch().rounds.counts().parked, 0, "nobody waits any more");
    }

    #[test]
    fn more_to_read_is_read_at_once_and_returned_at_the_deadline() {
        let fixture = Fixture::new();
        let (job, polled) = script([RunOutcome::More, RunOutcome::More, RunOutcome::Ready]);
        let (_parked, outcome) = fixture.wait(job);
        assert_eq!(outcome.recv().unwrap(), Ok(()));
        assert_eq!(polled.iter().count(), 3, "without any event");

        let (job, polled) = script([RunOutcome::Pending, RunOutcome::More, RunOutcome::Unavailable]);
        let (_parked, outcome) = fixture.parked(job);
        polled.recv().unwrap();
        fixture.clock.advance(Duration::from_secs(30));
        assert_eq!(outcome.recv().unwrap(), Ok(()), "how far it has come");
        assert_eq!(polled.iter().count(), 1);
    }

    #[test]
    fn a_parked_wait_survives_an_unavailable_database_and_a_new_one_fails() {
        let fixture = Fixture::new();
        let (job, _) = script([RunOutcome::Unavailable]);
        let (_parked, outcome) = fixture.wait(job);
        assert_eq!(outcome.recv().unwrap(), Err(Code::Unavailable));
        // For this time, nothing is polled.
        fixture.clock.advance(Duration::from_millis(100));

        let (job, polled) = script([
            RunOutcome::Pending,
            RunOutcome::Unavailable,
            RunOutcome::Unavailable,
            RunOutcome::Ready,
        ]);
        let (_parked, outcome) = fixture.parked(job);
        fixture.emit_event();
        (0..2).for_each(|_| polled.recv().unwrap());
        assert!(outcome.try_recv().is_err());
        fixture.until(|| {
            fixture.clock.advance(Duration::from_millis(100));
            outcome.try_recv().is_ok_and(|outcome| outcome == Ok(()))
        });
    }

    #[test]
    fn a_wait_that_panics_fails_alone() {
        let fixture = Fixture::new();
        let (fails, _) = script([RunOutcome::Pending, RunOutcome::Panics]);
        let (continues, _) = script([RunOutcome::Pending, RunOutcome::Ready]);
        let (_failing, failed) = fixture.parked(fails);
        let (_continuing, fine) = fixture.parked(continues);
        fixture.emit_event();
        assert_eq!((failed.recv().unwrap(), fine.recv().unwrap()), (Err(Code::Internal), Ok(())));
    }

    #[test]
    fn an_abandoned_wait_is_not_polled_any_more() {
        let fixture = Fixture::new();
        let (job, polled) = script([RunOutcome::Pending]);
        let (parked, outcome) = fixture.parked(job);
        parked.give_up();
        assert_eq!(fixture.dispatch().rounds.counts().parked, 0);
        fixture.emit_event();
        fixture.clock.advance(Duration::from_secs(60));
        assert!(outcome.recv().is_err(), "it gets no reply");
        drop(parked);
        assert_eq!(polled.iter().count(), 1);
    }
}
