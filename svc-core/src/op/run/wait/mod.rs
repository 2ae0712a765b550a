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

pub use rounds::WaitCounts;
pub(crate) use rounds::WaitScheduler;
use rounds::{AdmittedWait, QueueKey};

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
const REJECTION_DELAY: Duration = Duration::from_secs(2);

/// A wait to start: its job, its filter and its timeout.
pub(in crate::op) struct PendingPoll {
    pub name: &'static str,
    pub job: WaitJob,
    pub filter: EventFilter,
    pub timeout: Duration,
    /// Function that counts the objects of an event, if the waits of the operation compete for objects.
    pub count_available: Option<CountAvailable>,
    /// Function that returns the output of a wait whose timeout has expired.
    pub timeout_output: fn() -> BoxedOutput,
}

/// A wait that is polled again when a matching event arrives.
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
    count_available: Option<CountAvailable>,
    timeout_output: fn() -> BoxedOutput,
}

/// A call together with the job that is polled for it.
type PollJob = (Call, Prepared<WaitJob>);

/// The state of a wait that has not ended.
struct LiveWait {
    /// Callback for the reply to the wait.
    done: ReplyCallback,
    job_state: JobState,
    /// Whether there is a reason to poll: the wait is new, or a matching event has arrived.
    is_due: bool,
    /// Whether the deadline has passed, so that the next poll is the last one.
    is_last: bool,
    /// The listener on the bus, which the first poll sets.
    listener: Option<WaitListener>,
    /// The epoch in which the caller was last looked up.
    epoch: i64,
    /// Log position of the last event that woke the wait. A poll in an older snapshot is repeated.
    newest_event_lsn: i64,
    timer: Option<TimerId>,
    _place: PlaceGuard,
}

/// The state of a wait's job.
enum JobState {
    /// The job rests until an event, the queue or the deadline causes a poll.
    Resting(PollJob),
    /// The job is listed for the next round.
    Listed(PollJob),
    /// A round has taken the job.
    Polling,
}

/// The listener of a parked wait on the bus.
struct WaitListener {
    workspace: WorkspaceId,
    /// Connection that keeps the waiting member online.
    _connection: Option<MemberConnection>,
}

impl LiveWait {
    /// Returns whether the snapshot of the wait's last poll lacks an event that woke the wait.
    fn is_missing_wake_event(&self, call: &Call) -> bool {
        call.lsn().is_some_and(|lsn| lsn < self.newest_event_lsn)
    }

    /// Lists the job for the next round. Returns `false` if it is already listed or taken.
    fn list_for_round(&mut self) -> bool {
        match replace(&mut self.job_state, JobState::Polling) {
            JobState::Resting(poll_job) => {
                self.job_state = JobState::Listed(poll_job);
                true
            }
            other => {
                self.job_state = other;
                false
            }
        }
    }
}

/// A poll of one wait in a round, with its outcome.
struct PollAttempt {
    parked: Arc<ParkedWait>,
    poll_job: PollJob,
    /// Whether only the caller's access is checked again, because nothing else can have changed.
    checks_access_only: bool,
    /// Whether the deadline has passed, so that this is the last poll.
    is_last: bool,
    outcome: PollOutcome,
}

/// The outcome of a poll.
enum PollOutcome {
    /// The poll could not be run.
    Skipped,
    /// The poll returned the awaited result.
    Ready(BoxedOutput),
    /// The poll found no result yet.
    Pending,
    /// The poll read only a part of the data, and more remains. Contains the reply to send if the timeout
    /// expires now.
    More(BoxedOutput),
    Failed(Error),
}

impl ParkedWait {
    /// Starts a wait and polls it for the first time. Returns `None` if the wait was rejected.
    pub fn start(call: Call, poll: PendingPoll, done: ReplyCallback) -> Option<Arc<Self>> {
        let dispatch = Arc::clone(&call.dispatch);
        let AdmittedWait { number, place } = match dispatch.rounds.admit(holder_of(&call)) {
            Ok(admitted) => admitted,
            Err(error) => {
                call.finish(Err(error), done);
                return None;
            }
        };
        let PendingPoll { name, job, filter, timeout, count_available, timeout_output } = poll;
        let charged_to = call.access.charged_to();
        let client = call.client;
        let live = LiveWait {
            done,
            job_state: JobState::Listed((call, Prepared::Ready(job))),
            is_due: true,
            is_last: false,
            listener: None,
            epoch: 0,
            newest_event_lsn: 0,
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
            count_available,
            timeout_output,
        });
        let waiting = Arc::downgrade(&parked);
        let timer =
            parked.dispatch.timers.at(deadline, move || run_if_waiting(&waiting, Self::handle_deadline));
        if let Some(live) = lock(&parked.live).as_mut().filter(|live| !live.is_last) {
            live.timer = Some(timer);
        }
        parked.enqueue();
        Some(parked)
    }

    /// Returns the key of the queue in which the wait competes for objects of `workspace`.
    fn queue_key(&self, workspace: WorkspaceId) -> QueueKey {
        QueueKey { workspace, charged_to: self.charged_to, name: self.name }
    }

    /// Queues the wait for a poll in the next round.
    fn enqueue(self: &Arc<Self>) {
        self.dispatch.rounds.queue_woken(Arc::clone(self));
        rounds::submit_rounds(&self.dispatch);
    }

    /// Handles events that match the wait's filter.
    fn handle_events(self: &Arc<Self>, events: &[NewEvent]) {
        let mut state = lock(&self.live);
        let Some(live) = &mut *state else { return };
        let Some(WaitListener { workspace, .. }) = live.listener else { return };
        live.is_due = true;
        // Events after the deadline are ignored: the last poll would never be recent enough for them.
        if !live.is_last {
            live.newest_event_lsn =
                events.iter().map(|event| event.lsn).fold(live.newest_event_lsn, i64::max);
        }
        if let Some(count_available) = self.count_available {
            drop(state);
            self.dispatch.rounds.offer(self.queue_key(workspace), count_available, self.number, self, events);
            rounds::submit_rounds(&self.dispatch);
        } else if live.list_for_round() {
            drop(state);
            self.enqueue();
        }
    }

    /// Handles the periodic check of the caller's access, with the current epoch of the caller's workspace.
    ///
    /// Polls the wait, which looks up the caller again, if the caller may have lost access since the last
    /// lookup.
    fn recheck_caller(self: &Arc<Self>, epoch: i64, now: Time) {
        let mut state = lock(&self.live);
        let Some(live) = &mut *state else { return };
        let JobState::Resting((call, _)) = &live.job_state else { return };
        let has_access =
            call.verified_caller().is_ok_and(|found_caller| found_caller.caller.check_live(now).is_ok());
        if !(live.epoch == epoch && has_access) && live.list_for_round() {
            drop(state);
            self.enqueue();
        }
    }

    /// Starts the last poll of the wait, after the deadline has passed.
    fn handle_deadline(self: &Arc<Self>) {
        let mut state = lock(&self.live);
        let Some(live) = &mut *state else { return };
        live.is_last = true;
        let waiting = Arc::downgrade(self);
        live.timer = Some(
            self.dispatch
                .timers
                .at(self.deadline.plus(REJECTION_DELAY), move || run_if_waiting(&waiting, Self::reject)),
        );
        if live.list_for_round() {
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
    pub fn abandon(&self) {
        drop(self.end());
    }

    /// Ends the wait. Returns the callback for the reply, or `None` if the wait has already ended.
    fn end(&self) -> Option<ReplyCallback> {
        let LiveWait { done, job_state, listener, timer, _place: place, .. } = lock(&self.live).take()?;
        if let Some(timer) = timer {
            self.dispatch.timers.stop(timer);
        }
        if let Some(WaitListener { workspace, .. }) = listener {
            self.dispatch.bus.unlisten(workspace, self.number);
            self.dispatch.rounds.remove_wait(self.queue_key(workspace), self.number);
            access::remove(&self.dispatch, workspace, self.number);
        }
        self.dispatch.rounds.count_ended(listener.is_some());
        drop((job_state, place, listener));
        Some(done)
    }

    /// Returns whether the queue decides when this wait is polled.
    ///
    /// The queue decides for all polls but the first and the last, if the wait competes for objects.
    fn is_polled_by_queue(&self, live: &LiveWait) -> bool {
        self.count_available.is_some() && live.listener.is_some() && !live.is_last
    }

    /// Takes the job of the wait for a poll in a round. Returns `None` if a poll is running, the job is in
    /// the other list, or the wait has ended.
    fn take_attempt(self: &Arc<Self>, from_queue: bool) -> Option<PollAttempt> {
        let mut state = lock(&self.live);
        let live = state.as_mut()?;
        let poll_job = match (replace(&mut live.job_state, JobState::Polling), from_queue) {
            (JobState::Resting(poll_job), true) | (JobState::Listed(poll_job), false) => poll_job,
            (other, _) => {
                live.job_state = other;
                return None;
            }
        };
        // The last reply contains the position up to which the log was read, so the log must be read.
        let has_news = if self.is_polled_by_queue(live) { from_queue } else { live.is_due || live.is_last };
        if has_news {
            live.is_due = false;
        }
        let is_last = live.is_last;
        Some(PollAttempt {
            parked: Arc::clone(self),
            poll_job,
            checks_access_only: !has_news,
            is_last,
            outcome: PollOutcome::Skipped,
        })
    }

    /// Returns whether the snapshot of the wait's last poll lacks an event that woke the wait.
    fn is_missing_wake_event(&self, call: &Call) -> bool {
        lock(&self.live).as_ref().is_some_and(|live| live.is_missing_wake_event(call))
    }

    /// Records that there is a reason to poll again.
    fn mark_due(&self) {
        if let Some(live) = &mut *lock(&self.live) {
            live.is_due = true;
        }
    }

    /// Keeps the job until the next event, or lists the job immediately for another poll.
    fn park(self: &Arc<Self>, mut poll_job: PollJob, was_last: bool, was_polled: bool) {
        let (call, _) = &mut poll_job;
        let is_first = was_polled && !self.is_parked();
        if is_first {
            let waiting = Arc::downgrade(self);
            // A wait whose audit decision cannot be recorded must not continue.
            call.record_wait_decision(move |recorded| {
                let failed = |error| run_if_waiting(&waiting, |parked| parked.fail(error));
                recorded.err().into_iter().for_each(failed);
            });
        }
        let member = call
            .verified_caller()
            .ok()
            .and_then(|found_caller| found_caller.caller.member)
            .filter(|_| is_first);
        let connection = member.map(|member| ConnectedMembers::connect(&self.dispatch, member));
        let mut state = lock(&self.live);
        let Some(live) = &mut *state else { return };
        if is_first {
            let listener = |workspace| WaitListener { workspace, _connection: connection };
            live.listener = self.listen(call).map(listener);
        }
        live.is_due |= was_polled && live.is_missing_wake_event(call);
        live.epoch = call.verified_caller().map_or(live.epoch, |found_caller| found_caller.epoch);
        let by_queue = self.is_polled_by_queue(live);
        if (live.is_due && !by_queue) || (live.is_last && !was_last) {
            live.job_state = JobState::Listed(poll_job);
            drop(state);
            return self.enqueue();
        }
        live.job_state = JobState::Resting(poll_job);
        if let (true, Some(count_available), Some(WaitListener { workspace, .. })) =
            (live.is_due && by_queue, self.count_available, &live.listener)
        {
            let key = self.queue_key(*workspace);
            drop(state);
            // The queue may have skipped this wait during the lookup of its caller.
            self.dispatch.rounds.offer(key, count_available, self.number, self, &[]);
        }
    }

    /// Listens for events after the position that was read when the caller was authenticated.
    ///
    /// The caller of this function has locked the wait, so no wake-up arrives before the wait has its
    /// listener.
    fn listen(self: &Arc<Self>, call: &Call) -> Option<WorkspaceId> {
        let found_caller = call.verified_caller().ok()?;
        let workspace = found_caller.caller.workspace_id;
        let seen = found_caller.lsn.unwrap_or(0);
        let waiting = Arc::downgrade(self);
        let wake: Wake = Arc::new(move |events: &[NewEvent]| {
            run_if_waiting(&waiting, |parked| parked.handle_events(events))
        });
        let filter = self.filter.clone().of(found_caller.caller.member);
        access::add(&self.dispatch, workspace, self.number, Arc::downgrade(self));
        self.dispatch.rounds.count_parked();
        self.dispatch.bus.listen(workspace, self.number, seen, filter, wake);
        Some(workspace)
    }

    /// Returns whether the wait has been polled and now waits for an event.
    fn is_parked(&self) -> bool {
        lock(&self.live).as_ref().is_some_and(|live| live.listener.is_some())
    }
}

/// Returns the client and workspace that a wait is counted for. Waits without a client share one holder.
fn holder_of(call: &Call) -> Holder {
    let client = call.client.unwrap_or(Client::Peer(IpAddr::V6(Ipv6Addr::UNSPECIFIED).into()));
    Holder { client, workspace: call.access.charged_to() }
}

/// Calls `run` with the wait, if the wait still exists.
fn run_if_waiting(parked: &Weak<ParkedWait>, run: impl FnOnce(&Arc<ParkedWait>)) {
    if let Some(parked) = parked.upgrade() {
        run(&parked);
    }
}

impl PollAttempt {
    /// Polls the wait inside a read transaction. Returns whether the poll returned the awaited result.
    fn poll(&mut self, reader: &Reader<ReaderCache>) -> bool {
        let poll_job = &mut self.poll_job;
        let checks_access_only = self.checks_access_only;
        let polled = catch_unwind(AssertUnwindSafe(|| poll(reader, poll_job, checks_access_only)));
        self.outcome = polled.unwrap_or_else(|_| PollOutcome::Failed(Error::internal("a wait panicked")));
        matches!(self.outcome, PollOutcome::Ready(..))
    }

    /// Returns whether the poll failed for a transient reason, so that a retry may succeed.
    fn has_failed_transiently(&self) -> bool {
        matches!(&self.outcome, PollOutcome::Failed(error) if is_transient(error))
    }

    /// Returns whether the poll could not be run.
    fn is_skipped(&self) -> bool {
        matches!(self.outcome, PollOutcome::Skipped)
    }

    /// If the wait is parked and its poll has failed for a transient reason, marks the poll for repetition.
    ///
    /// A parked wait survives a database that does not respond for a while. A new wait gets the error.
    fn mark_for_repeat_if_parked(&mut self, failure: Option<&Error>) {
        if let (PollOutcome::Skipped, Some(error)) = (&self.outcome, failure) {
            self.outcome = PollOutcome::Failed(error.clone());
        }
        if self.has_failed_transiently() && self.parked.is_parked() {
            self.outcome = PollOutcome::Skipped;
        }
    }

    /// Sends the reply or parks the wait. Returns whether a result was delivered.
    fn settle(self) -> bool {
        let Self { parked, poll_job, is_last, outcome, .. } = self;
        match outcome {
            PollOutcome::Ready(output) => reply(&parked, poll_job, output),
            PollOutcome::Pending if is_last && !parked.is_missing_wake_event(&poll_job.0) => {
                reply(&parked, poll_job, (parked.timeout_output)());
                false
            }
            PollOutcome::More(output) if is_last => {
                reply(&parked, poll_job, output);
                false
            }
            PollOutcome::Pending => {
                parked.park(poll_job, false, true);
                false
            }
            PollOutcome::More(_) => {
                parked.mark_due();
                parked.park(poll_job, is_last, true);
                false
            }
            PollOutcome::Skipped => {
                parked.mark_due();
                parked.park(poll_job, is_last, false);
                false
            }
            PollOutcome::Failed(error) => {
                if let Some(done) = parked.end() {
                    poll_job.0.finish(Err(error), done);
                }
                false
            }
        }
    }
}

/// Runs the job of a wait on behalf of its caller, or with `checks_access_only` only checks the caller's
/// access.
fn poll(reader: &Reader<ReaderCache>, (call, job): &mut PollJob, checks_access_only: bool) -> PollOutcome {
    let reading = ReadTransaction::new(reader);
    let polled = if checks_access_only {
        run::run(&reading, call, &mut access_check_job())
    } else {
        run::run(&reading, call, job)
    };
    match polled {
        Ok(Poll::Ready(output)) => PollOutcome::Ready(output),
        Ok(Poll::Pending) => PollOutcome::Pending,
        Ok(Poll::More(output)) => PollOutcome::More(output),
        Err(error) => PollOutcome::Failed(error),
    }
}

/// Returns a job without a result, for a poll that only checks the caller's access.
fn access_check_job() -> Prepared<WaitJob> {
    Prepared::Ready(Box::new(|_| Ok(Poll::Pending)))
}

/// Ends the wait and sends the reply. Returns `false` if the wait has already ended.
fn reply(parked: &ParkedWait, (call, _): PollJob, output: BoxedOutput) -> bool {
    let Some(done) = parked.end() else { return false };
    let reply = Reply::of(200, call.lsn(), output);
    call.finish(Ok(reply), done);
    true
}

/// Returns whether the error is transient, so that a retry may succeed.
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
    use crate::host::setup::Established;
    use crate::op::call::caller::Surface;
    use crate::op::call::credential::Credential;
    use crate::op::{Dispatch, Request};
    use crate::rate::RateSettings;
    use crate::store::{Database, OpenMode};
    use crate::time::Clock;

    /// Kind of event for which the waits in these tests listen.
    const KIND: &str = "ChannelCreated";

    /// A service with a mock clock.
    pub(in crate::op) struct Fixture {
        pub service: Service,
        pub clock: Clock,
        made: Established,
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
            let service = Service::with_options(options).unwrap();
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
            let timeout_output = || -> BoxedOutput { Box::new(()) };
            let poll =
                PendingPoll { name: "probe", job, filter, timeout, count_available: None, timeout_output };
            (ParkedWait::start(call, poll, done), receiver)
        }

        /// Starts a wait, and returns once it has been polled for the first time and is parked.
        pub fn parked(&self, job: WaitJob) -> (Arc<ParkedWait>, Receiver<Result<(), Code>>) {
            let before = self.dispatch().rounds.counts().parked;
            let (parked, receiver) = self.wait(job);
            self.until(|| self.dispatch().rounds.counts().parked > before);
            (parked.unwrap(), receiver)
        }

        /// Blocks until `is_so` returns true, for a condition that no event announces.
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

    /// The outcome of one run of a scripted job.
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
        // The failure pauses polling for this time.
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
        parked.abandon();
        assert_eq!(fixture.dispatch().rounds.counts().parked, 0);
        fixture.emit_event();
        fixture.clock.advance(Duration::from_secs(60));
        assert!(outcome.recv().is_err(), "it gets no reply");
        drop(parked);
        assert_eq!(polled.iter().count(), 1);
    }
}
