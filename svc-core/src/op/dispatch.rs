//! The one way in. In order: rate limit, bind, queue, and then inside the transaction of the function:
//! authenticate, capability, the decoding error if there was one, member not frozen, guards, function,
//! projectors, audit; commit, publish, answer. A request ends in exactly one of a commit with its audit row, a
//! refusal, or a read.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use secrecy::ExposeSecret;

use super::access::{Caller, Surface, secret_hash, unauthenticated};
use super::audit::Origin;
use super::context::{Ambient, Read, Write};
use super::hooks;
use super::long::LongCall;
use super::request::Request;
use super::row::{Answer, Job, ReadJob, Wants, WriteJob};
use super::table::Table;
use super::wait::{LongPoll, Parked, Rounds};
use crate::capability::Needs;
use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::log::batch::Batch;
use crate::log::bus::Bus;
use crate::log::chain::sha256;
use crate::log::memo::{Epochs, Notes};
use crate::rate::RateLimits;
use crate::store::executor::{Executor, ReadTask, Reader, Task, WriteTask, lock};
use crate::store::{Conn, Engine};
use crate::time::{Clock, Time};
use crate::timers::Timers;

/// What a shell sends back.
pub struct Reply {
    /// The status of the success.
    pub status: u16,
    /// How far the log of the caller's workspace reached, for callers that have one.
    pub lsn: Option<i64>,
    answer: Answer,
}

impl Reply {
    pub(super) fn of(status: u16, lsn: Option<i64>, answer: Answer) -> Self {
        Self { status, lsn, answer }
    }

    /// The body, encoded now: on the caller's side, not on the core thread.
    pub fn body(&self) -> Result<Vec<u8>> {
        self.answer.encode()
    }
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reply({}, lsn {:?})", self.status, self.lsn)
    }
}

/// Where a reply goes. Called on a core thread: it must only hand the reply on.
pub(crate) type Done = Box<dyn FnOnce(Result<Reply>) + Send>;

/// Stands for a request that is under way. Dropping it gives up a wait, and what no core thread has taken up yet;
/// reads and changes that have begun run to their end.
#[must_use = "dropping the ticket gives up the request"]
#[derive(Default)]
pub struct Ticket {
    parked: Option<Arc<Parked>>,
    leads: Option<Arc<Dispatch>>,
    abandoned: Arc<AtomicBool>,
}

impl Ticket {
    /// Whether its holder sees to the looks that were gathered, by [`Ticket::lead`].
    pub(crate) fn leads(&self) -> bool {
        self.leads.is_some()
    }

    /// Runs the looks that were gathered.
    pub(crate) fn lead(&mut self) {
        if let Some(dispatch) = self.leads.take() {
            dispatch.executor.run_gathered();
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // Others rely on it, whatever became of this request.
        self.lead();
        self.abandoned.store(true, Ordering::Relaxed);
        if let Some(parked) = self.parked.take() {
            parked.give_up();
        }
    }
}

/// How eagerly a request is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Haste {
    /// Handed to a core thread; a quick look that needs no network runs on the caller's.
    Queue,
    /// Like `Queue`, but quick looks of the same moment share a transaction, and one caller's ticket leads them.
    Gather,
    /// On the caller's thread if the core is idle.
    Inline,
}

/// Everything a request meets.
pub struct Dispatch {
    pub(crate) table: Arc<Table>,
    pub(crate) ambient: Ambient,
    pub(crate) clock: Clock,
    pub(crate) executor: Executor<Batch>,
    pub(crate) bus: Arc<Bus>,
    pub(crate) timers: Timers,
    pub(crate) rounds: Rounds,
    pub(crate) limits: RateLimits,
    /// A token never changes its workspace, so that one fact may be remembered to choose a writer.
    pub(crate) homes: RwLock<HashMap<[u8; 32], WorkspaceId>>,
    /// The workspaces that are being read at length.
    pub(crate) reading_long: Mutex<BTreeSet<WorkspaceId>>,
}

/// Remembered homes at the most; more start over.
const HOMES_MAX: usize = 100_000;

/// What a request is let in on.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// A token, by the hash of its secret.
    Token([u8; 32]),
    /// No credential.
    Nobody,
    /// The service itself, or an administrator of the machine, on a workspace.
    Instance(WorkspaceId),
}

impl Dispatch {
    /// Takes a request up and answers through `done`, exactly once.
    pub(crate) fn submit(self: &Arc<Self>, name: &str, request: Request, haste: Haste, done: Done) -> Ticket {
        let Some(row) = self.table.operation(name) else {
            done(Err(Error::not_found("operation")));
            return Ticket::default();
        };
        let access = match &request.credential {
            Some(secret) if !secret.expose_secret().is_empty() => Access::Token(secret_hash(secret)),
            _ => Access::Nobody,
        };
        let home = match &access {
            Access::Token(hash) => {
                self.homes.read().unwrap_or_else(PoisonError::into_inner).get(hash).copied()
            }
            _ => None,
        };
        // A token that has not been seen to be live counts as its peer: who makes tokens up gets nowhere.
        let client = match (&access, home, &request.peer) {
            (Access::Token(hash), Some(_), _) | (Access::Token(hash), None, None) => Some(*hash),
            (_, _, Some(peer)) => Some(sha256(peer.to_string().as_bytes())),
            _ => None,
        };
        if !request.follow_up
            && let Err(error) = self.limits.admit(client.as_ref(), home)
        {
            done(Err(error));
            return Ticket::default();
        }
        let abandoned = Arc::new(AtomicBool::new(false));
        let call = Call {
            dispatch: Arc::clone(self),
            access,
            home,
            needs: row.needs,
            origin: Origin::of(row, &request),
            bytes: request.body.len().saturating_mul(COPIES).saturating_add(size_of::<Call>()),
            abandoned: Arc::clone(&abandoned),
        };
        let now = self.clock.now();
        match (row.bind)(&request, &self.ambient, now) {
            Ok(Job::Read(job)) => {
                let look = ReadCall::new(call, job, done);
                let here = row.quick && self.executor.reads_locally();
                match haste {
                    Haste::Gather if here => {
                        let leads = self.executor.gather(Box::new(look)).then(|| Arc::clone(self));
                        return Ticket { leads, parked: None, abandoned };
                    }
                    Haste::Queue if here => self.look(look, Haste::Inline),
                    haste => self.look(look, haste),
                }
            }
            Ok(Job::Long(job)) => self.executor.read(Box::new(LongCall::new(call, job, done)), true),
            Ok(Job::Wait { job, wakes, patience, supply }) => {
                let poll = LongPoll { name: row.name, job, wakes, timeout: patience, supply };
                return Ticket { parked: Parked::start(call, poll, done), leads: None, abandoned };
            }
            Ok(Job::Write { job, wants }) => {
                let task = WriteCall {
                    call,
                    row: Some(Named { name: row.name, call: self.named(&request) }),
                    status: row.success.status(),
                    job,
                    wants,
                    output: None,
                    done,
                };
                self.change(task, haste);
            }
            Err(refusal) => {
                let mut refusal = Some(refusal);
                let job: ReadJob =
                    Box::new(move |_| Err(refusal.take().unwrap_or_else(|| Error::malformed("unreadable"))));
                self.look(ReadCall::new(call, job, done), haste);
            }
        }
        Ticket { parked: None, leads: None, abandoned }
    }

    fn look(&self, task: ReadCall, haste: Haste) {
        match haste {
            Haste::Queue | Haste::Gather => self.executor.read(Box::new(task), false),
            Haste::Inline => self.executor.read_inline(Box::new(task)),
        }
    }

    /// What a request names, if anybody asks for that.
    fn named(&self, request: &Request) -> hooks::Call {
        if self.table.guards().is_empty() {
            return hooks::Call::default();
        }
        hooks::Call { surface: request.surface, ids: request.ids() }
    }

    fn change(&self, task: WriteCall, haste: Haste) {
        let homeless = task.call.home.is_none() && matches!(task.call.access, Access::Token(_));
        if homeless {
            // The first request of a token: find its workspace, so that the writer can lock the head first.
            let find = FindHome { task };
            match haste {
                Haste::Queue | Haste::Gather => self.executor.read(Box::new(find), false),
                Haste::Inline => self.executor.read_inline(Box::new(find)),
            }
        } else {
            self.enqueue(task, haste);
        }
    }

    fn enqueue(&self, task: WriteCall, haste: Haste) {
        match haste {
            Haste::Queue | Haste::Gather => self.executor.write(Box::new(task)),
            Haste::Inline => self.executor.write_inline(Box::new(task)),
        }
    }

    /// Runs a change as the service itself on `workspace` and waits for it.
    pub(crate) fn as_instance<T: Send + 'static>(
        self: &Arc<Self>,
        workspace: WorkspaceId,
        surface: Surface,
        mut run: impl FnMut(&mut Write<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        wait_for(|made, done| {
            let job: WriteJob = Box::new(move |cx| {
                *lock(&made) = Some(run(cx)?);
                Ok(Box::new(()))
            });
            let call = Call::instance(self, workspace, surface);
            let wants = Wants::default();
            let task = WriteCall { call, row: None, status: 200, job, wants, output: None, done };
            self.enqueue(task, Haste::Inline);
        })
    }

    /// Looks as the service itself and waits for the answer.
    pub(crate) fn look_as_instance<T: Send + 'static>(
        self: &Arc<Self>,
        mut run: impl FnMut(&Read<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        wait_for(|made, done| {
            let job: ReadJob = Box::new(move |cx| {
                *lock(&made) = Some(run(cx)?);
                Ok(Box::new(()))
            });
            let call = Call::instance(self, WorkspaceId::INSTANCE, Surface::System);
            self.look(ReadCall::new(call, job, done), Haste::Inline);
        })
    }

    /// Reads as the service itself on a core thread; `done` hears what was read.
    pub(crate) fn read_as_instance<T: Send + 'static>(
        self: &Arc<Self>,
        mut run: impl FnMut(&Read<'_>) -> Result<T> + Send + 'static,
        done: impl FnOnce(Result<T>) + Send + 'static,
    ) {
        let made = Arc::new(Mutex::new(None));
        let slot = Arc::clone(&made);
        let job: ReadJob = Box::new(move |cx| {
            *lock(&slot) = Some(run(cx)?);
            Ok(Box::new(()))
        });
        let done: Done = Box::new(move |outcome| {
            let made = lock(&made).take();
            done(outcome.and_then(|_| made.ok_or_else(|| Error::internal("the job made nothing"))));
        });
        let call = Call::instance(self, WorkspaceId::INSTANCE, Surface::System);
        self.look(ReadCall::new(call, job, done), Haste::Queue);
    }

    fn remember_home(&self, hash: [u8; 32], workspace: WorkspaceId) {
        let mut homes = self.homes.write().unwrap_or_else(PoisonError::into_inner);
        if homes.len() >= HOMES_MAX {
            homes.clear();
        }
        homes.insert(hash, workspace);
    }
}

/// Waits for what a job, which `start` hands to the core, puts into the slot before it is done.
fn wait_for<T>(start: impl FnOnce(Arc<Mutex<Option<T>>>, Done)) -> Result<T> {
    let made = Arc::new(Mutex::new(None));
    let (tell, told) = std::sync::mpsc::channel();
    let done: Done = Box::new(move |outcome| {
        // The caller waits below; it cannot have gone away.
        let _ = tell.send(outcome.map(|_| ()));
    });
    start(Arc::clone(&made), done);
    told.recv().map_err(Error::internal)??;
    lock(&made).take().ok_or_else(|| Error::internal("the job made nothing"))
}

/// What every kind of task knows of its request.
pub(super) struct Call {
    pub dispatch: Arc<Dispatch>,
    pub access: Access,
    /// The workspace of the credential, once it is known.
    pub home: Option<WorkspaceId>,
    pub needs: Needs,
    pub origin: Origin,
    /// About how many bytes the request holds while it is under way.
    pub bytes: usize,
    /// Set once nobody waits for the answer.
    pub abandoned: Arc<AtomicBool>,
}

/// How often the bytes of a request's body are in memory at once: as they came, decoded, sealed, and in an event.
const COPIES: usize = 4;

/// A caller as found in the transaction, with how far its workspace's log reaches there.
pub(super) struct Entered {
    pub caller: Caller,
    pub lsn: Option<i64>,
    pub now: Time,
}

impl Call {
    /// A call of the service itself.
    pub fn instance(dispatch: &Arc<Dispatch>, workspace: WorkspaceId, surface: Surface) -> Self {
        Self {
            dispatch: Arc::clone(dispatch),
            access: Access::Instance(workspace),
            home: Some(workspace),
            needs: Needs::Nothing,
            origin: Origin::system(surface),
            bytes: size_of::<Self>(),
            abandoned: Arc::default(),
        }
    }

    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Authenticates and checks the capability inside a read transaction.
    pub fn enter(&mut self, reader: &Reader<Notes>) -> Result<Entered> {
        let clock = &self.dispatch.clock;
        let (caller, lsn) = match &self.access {
            Access::Token(hash) => bearer(reader, clock, hash, self.home)?,
            access => {
                let caller = stranger(access, self.needs)?;
                let lsn = check_notes(reader, clock, caller.workspace_id)?;
                (caller, lsn)
            }
        };
        let now = clock.now().shifted(reader.notes.borrow().skew_micros);
        caller.check_live(now)?;
        if let (Access::Token(hash), None) = (&self.access, self.home) {
            self.dispatch.remember_home(*hash, caller.workspace_id);
            self.home = Some(caller.workspace_id);
        }
        caller.check_capability(self.needs)?;
        let lsn = caller.is_member().then_some(lsn);
        Ok(Entered { caller, lsn, now })
    }

    /// Authenticates and checks the capability inside a writer's transaction, from its memory if that holds.
    fn enter_writer(&self, conn: &Conn, batch: &RefCell<Batch>) -> Result<Caller> {
        let caller = match &self.access {
            Access::Token(hash) => {
                let home = self.home.ok_or_else(|| unauthenticated("the token is not known"))?;
                batch.borrow_mut().head(conn, home)?;
                let known = batch.borrow().memo.get::<Caller>(home, hash);
                match known {
                    Some(caller) => caller,
                    None => {
                        let caller = Caller::by_secret(conn, hash)?;
                        batch.borrow_mut().memo.put(home, hash, caller.clone());
                        caller
                    }
                }
            }
            access => stranger(access, self.needs)?,
        };
        Ok(caller)
    }

    /// Records a request with a delegated token that ended in a refusal or a read, before it is answered.
    pub fn answer(self, entered: Option<&Caller>, outcome: Result<Reply>, done: Done) {
        let Some(caller) = entered.filter(|caller| caller.grant_id.is_some()) else { return done(outcome) };
        let refused = outcome.as_ref().err().map(|error| error.code().name());
        let dispatch = Arc::clone(&self.dispatch);
        let note = Note { call: self, caller: caller.clone(), refused, after: Some((outcome, done)) };
        dispatch.executor.write(Box::new(note));
    }
}

/// Whose token it is, from the reader's memory if that holds, and how far the log of its workspace reaches.
fn bearer(
    reader: &Reader<Notes>,
    clock: &Clock,
    hash: &[u8; 32],
    home: Option<WorkspaceId>,
) -> Result<(Caller, i64)> {
    if let Some(home) = home {
        let lsn = check_notes(reader, clock, home)?;
        let known = reader.notes.borrow().memo.get::<Caller>(home, hash);
        if let Some(caller) = known {
            return Ok((caller, lsn));
        }
    }
    let caller = Caller::by_secret(&reader.conn, hash)?;
    let lsn = check_notes(reader, clock, caller.workspace_id)?;
    reader.notes.borrow_mut().memo.put(caller.workspace_id, hash, caller.clone());
    Ok((caller, lsn))
}

/// Drops what the reader remembers of a workspace if that has changed since, and answers how far its log reaches.
fn check_notes(reader: &Reader<Notes>, clock: &Clock, workspace: WorkspaceId) -> Result<i64> {
    let known = reader.notes.borrow().reached(workspace);
    if let Some(lsn) = known {
        return Ok(lsn);
    }
    let (lsn, epochs) = match reader.conn.engine() {
        Engine::Sqlite => {
            let mut rows = reader.conn.query(HEAD_SQLITE, &[&workspace])?;
            match rows.first_mut() {
                Some(row) => (row.take()?, Epochs::take(row)?),
                None => (0, Epochs::default()),
            }
        }
        Engine::Postgres => {
            let mut rows = reader.conn.query(HEAD_POSTGRES, &[&workspace])?;
            let row = rows.first_mut().ok_or_else(|| Error::internal("the database has no time"))?;
            reader.notes.borrow_mut().skew_micros = clock.skew_to(row.take()?);
            (row.take()?, Epochs::take(row)?)
        }
    };
    reader.notes.borrow_mut().check(workspace, lsn, epochs);
    Ok(lsn)
}

const HEAD_SQLITE: &str = "select lsn, epoch, rules_epoch from heads where workspace_id = $1";

/// With the database's time, by which all servers go; also for a workspace whose log is empty.
const HEAD_POSTGRES: &str = "
    select cast(extract(epoch from clock_timestamp()) * 1000000 as bigint),
           coalesce(h.lsn, 0), coalesce(h.epoch, 0), coalesce(h.rules_epoch, 0)
    from (select 1) one left join heads h on h.workspace_id = $1";

/// A caller without a token.
fn stranger(access: &Access, needs: Needs) -> Result<Caller> {
    match access {
        Access::Instance(workspace) => Ok(Caller::instance(*workspace)),
        _ if needs == Needs::Nothing => Ok(Caller::nobody()),
        _ => Err(unauthenticated("send a token as `Authorization: Bearer`")),
    }
}

/// A read on its way through a reader.
pub(super) struct ReadCall {
    call: Call,
    job: ReadJob,
    done: Done,
    /// What the last run came to.
    read: Option<(Entered, Option<Answer>)>,
}

impl ReadCall {
    fn new(call: Call, job: ReadJob, done: Done) -> Self {
        Self { call, job, done, read: None }
    }
}

impl Task for ReadCall {
    fn bytes(&self) -> usize {
        self.call.bytes
    }

    fn is_abandoned(&self) -> bool {
        self.call.is_abandoned()
    }

    fn finish(self: Box<Self>, outcome: Result<()>) {
        let Self { call, done, read, .. } = *self;
        let (entered, answer) = read.unzip();
        let lsn = entered.as_ref().and_then(|entered: &Entered| entered.lsn);
        let outcome = match (outcome, answer.flatten()) {
            (Ok(()), Some(answer)) => Ok(Reply { status: 200, lsn, answer }),
            (Ok(()), None) => Err(Error::internal("a read ended without an answer")),
            (Err(error), _) => Err(error.seen_at(lsn)),
        };
        call.answer(entered.as_ref().map(|entered| &entered.caller), outcome, done);
    }
}

impl ReadTask<Notes> for ReadCall {
    fn run(&mut self, reader: &Reader<Notes>) -> Result<()> {
        self.read = None;
        let entered = self.call.enter(reader)?;
        let (entered, answer) = self.read.insert((entered, None));
        let cx = Read::new(reader, &entered.caller, entered.now, &self.call.dispatch.ambient);
        *answer = Some((self.job)(&cx)?);
        Ok(())
    }
}

/// Finds the workspace of a token that was not seen before, and then queues its change.
struct FindHome {
    task: WriteCall,
}

impl Task for FindHome {
    fn bytes(&self) -> usize {
        self.task.call.bytes
    }

    fn is_abandoned(&self) -> bool {
        self.task.call.is_abandoned()
    }

    fn finish(self: Box<Self>, outcome: Result<()>) {
        match outcome {
            Ok(()) => {
                let dispatch = Arc::clone(&self.task.call.dispatch);
                // Never inline: this runs on a reader's thread.
                dispatch.enqueue(self.task, Haste::Queue);
            }
            Err(error) => (self.task.done)(Err(error)),
        }
    }
}

impl ReadTask<Notes> for FindHome {
    fn run(&mut self, reader: &Reader<Notes>) -> Result<()> {
        self.task.call.enter(reader).map(drop)
    }
}

/// A change on its way through a writer.
struct WriteCall {
    call: Call,
    /// The operation; none for what the service does by itself, which passes no guard.
    row: Option<Named>,
    status: u16,
    job: WriteJob,
    wants: Wants,
    output: Option<Output>,
    done: Done,
}

/// An operation by its name, and what the call of it names.
struct Named {
    name: &'static str,
    call: hooks::Call,
}

/// What the last run of a change came to.
struct Output {
    caller: Caller,
    /// How far the log of a member's workspace reaches.
    lsn: Option<i64>,
    answer: Option<Answer>,
}

impl WriteTask<Batch> for WriteCall {
    fn home(&self) -> WorkspaceId {
        self.call.home.unwrap_or(WorkspaceId::INSTANCE)
    }

    fn workspaces(&self) -> Vec<WorkspaceId> {
        std::iter::once(self.home()).chain(self.wants.workspaces.iter().copied()).collect()
    }

    fn run(&mut self, conn: &Conn, batch: &RefCell<Batch>) -> Result<()> {
        self.output = None;
        let dispatch = Arc::clone(&self.call.dispatch);
        let caller = self.call.enter_writer(conn, batch)?;
        let now = batch.borrow().now();
        caller.check_live(now)?;
        let reached = |batch: &RefCell<Batch>, caller: &Caller| -> Result<Option<i64>> {
            let lsn = batch.borrow_mut().head(conn, caller.workspace_id)?.lsn;
            Ok(caller.is_member().then_some(lsn))
        };
        let lsn = reached(batch, &caller)?;
        let output = self.output.insert(Output { caller, lsn, answer: None });
        let caller = &output.caller;
        caller.check_capability(self.call.needs)?;
        let mut cx = Write::new(conn, caller, now, &dispatch.ambient, batch);
        if let Some(Named { name, call }) = &self.row {
            caller.check_not_frozen()?;
            let row = dispatch.table.operation(name).ok_or_else(|| Error::not_found("operation"))?;
            dispatch.table.guards().iter().try_for_each(|guard| guard(&cx, row, call))?;
        }
        let answer = (self.job)(&mut cx)?;
        hooks::project(&mut cx)?;
        self.call.record(&mut cx, batch)?;
        output.lsn = reached(batch, caller)?;
        output.answer = Some(answer);
        Ok(())
    }
}

impl Task for WriteCall {
    fn bytes(&self) -> usize {
        self.call.bytes
    }

    fn is_abandoned(&self) -> bool {
        self.call.is_abandoned()
    }

    fn finish(self: Box<Self>, outcome: Result<()>) {
        let Self { call, status, output, done, .. } = *self;
        match (outcome, output) {
            (Ok(()), Some(Output { answer: Some(answer), lsn, .. })) => {
                done(Ok(Reply { status, lsn, answer }))
            }
            (Ok(()), _) => done(Err(Error::internal("a change was committed without an answer"))),
            (Err(error), Some(output)) => {
                call.answer(Some(&output.caller), Err(error.seen_at(output.lsn)), done)
            }
            (Err(error), None) => call.answer(None, Err(error), done),
        }
    }
}

impl Call {
    /// Writes the audit rows of a change that is about to be committed.
    fn record(&self, cx: &mut Write<'_>, batch: &RefCell<Batch>) -> Result<()> {
        if self.origin.surface != Surface::System && !batch.borrow().has_audited() {
            cx.audit("mutation", self.origin.mutation())?;
        }
        if cx.caller().grant_id.is_some() {
            cx.audit("authorization.decision", self.origin.decision(None))?;
        }
        Ok(())
    }
}

/// The audit row of a delegated request that changed nothing; answers once it is durable.
struct Note {
    call: Call,
    caller: Caller,
    refused: Option<&'static str>,
    after: Option<(Result<Reply>, Done)>,
}

impl WriteTask<Batch> for Note {
    fn home(&self) -> WorkspaceId {
        self.caller.workspace_id
    }

    fn workspaces(&self) -> Vec<WorkspaceId> {
        vec![self.caller.workspace_id]
    }

    fn run(&mut self, conn: &Conn, batch: &RefCell<Batch>) -> Result<()> {
        let now = batch.borrow().now();
        let mut cx = Write::new(conn, &self.caller, now, &self.call.dispatch.ambient, batch);
        cx.audit("authorization.decision", self.call.origin.decision(self.refused))
    }
}

impl Task for Note {
    fn bytes(&self) -> usize {
        self.call.bytes
    }

    /// It is written whether or not anybody waits for it.
    fn is_abandoned(&self) -> bool {
        false
    }

    fn finish(mut self: Box<Self>, outcome: Result<()>) {
        let Some((answer, done)) = self.after.take() else { return };
        done(outcome.and(answer));
    }
}
