//! Runs requests: admission, the pipeline, replies and waits.
//!
//! A shell first asks for the admission of a request by its head ([`Dispatch::admit`]), and then starts the
//! request with its input ([`Dispatch::start`]). The [`pipeline`] contains the checks in between. Each
//! request ends in exactly one way: with a commit and its audit row, with a rejection, or with a read.

pub(super) mod audit;
pub(super) mod settings;
pub(super) mod context;
pub(super) mod permit;
mod reply;
mod retry;
pub(super) mod health;
mod credentials;
mod lookups;
mod decision;
mod call;
mod pipeline;
mod admit;
mod reading;
mod refusal;
mod tasks;
mod preflight;
mod long_reads;
mod service_work;
mod outside_reads;
pub(super) mod presence;
pub(super) mod wait;

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::capability::Needs;
use crate::error::{Code, Error, Result};
use crate::id::{ThreadId, WorkspaceId};
use crate::log::batch::Batch;
use crate::log::bus::Bus;
use crate::log::cache::ReaderCache;
use crate::op::call::caller::Surface;
use crate::op::call::credential::CredentialKey;
use crate::op::call::input::AnswerOptionValues;
use crate::op::call::request::{Input, RequestHead};
use crate::op::declare::hooks;
use crate::op::declare::job::{Job, with_first_steps};
use crate::op::declare::operation::Operation;
use crate::op::declare::table::Table;
use crate::op::run::audit::Origin;
use crate::op::run::presence::ConnectedMembers;
use crate::op::run::settings::SharedState;
use crate::op::run::wait::{ParkedWait, PendingPoll, WaitScheduler};
use crate::page::Detail;
use crate::rate::{ChargeResult, Client, LimitState, RateLimits};
use crate::store::executor::{BatchFlush, Executor, ReadTask};
use crate::time::Clock;
use crate::timers::Timers;
pub(crate) use admit::AdmissionCallback;
use admit::AdmitCall;
pub use admit::{Admission, AdmissionFailure};
pub(crate) use call::ServiceWork;
pub(super) use call::{AdmittedBy, Call};
use call::{BODY_COPIES_MAX, RequestWork};
use credentials::{AdmissionCheck, CredentialLookup, Credentials, KnownCredential};
use long_reads::LongCall;
use lookups::{LookupStart, Lookups};
pub(super) use pipeline::Prepared;
pub(super) use pipeline::run;
use preflight::PreflightCall;
use reading::ReadCall;
pub(super) use reading::ReadTransaction;
use reply::BodyForm;
pub use reply::Reply;
use retry::KeyedRequest;
use tasks::WriteCall;

/// Receives the reply to a request. A core thread calls this function, so it must only pass the reply on.
pub(crate) type ReplyCallback = Box<dyn FnOnce(Result<Reply>) + Send>;

/// A handle to a request in progress.
///
/// Dropping the handle abandons a wait, or a request that no core thread has begun yet. Reads and changes
/// that have begun run to completion.
#[must_use = "dropping the ticket abandons the request"]
#[derive(Default)]
pub struct RequestHandle {
    parked: Option<Arc<ParkedWait>>,
    pending_flush: Option<PendingFlush>,
    abandoned: Arc<AtomicBool>,
}

/// A batch of reads that the owner of this value must run.
struct PendingFlush {
    dispatch: Arc<Dispatch>,
    /// Whether other callers should first have a chance to add reads to the batch.
    after_others: bool,
}

impl RequestHandle {
    /// Returns whether other callers should have a chance to add reads before [`RequestHandle::flush`].
    pub(crate) fn flushes_after_others(&self) -> bool {
        self.pending_flush.as_ref().is_some_and(|flush| flush.after_others)
    }

    /// Runs the batched reads, if this request is responsible for them.
    pub(crate) fn flush(&mut self) {
        if let Some(PendingFlush { dispatch, .. }) = self.pending_flush.take() {
            dispatch.executor.flush_batched();
        }
    }
}

impl Drop for RequestHandle {
    fn drop(&mut self) {
        // Other requests of the batch rely on the flush, however this request ended.
        self.flush();
        self.abandoned.store(true, Ordering::Relaxed);
        if let Some(parked) = self.parked.take() {
            parked.abandon();
        }
    }
}

/// The thread on which a request runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunOn {
    /// On a core thread. A quick read that needs no network runs on the caller's thread.
    Pool,
    /// Like `Pool`, but quick reads that arrive at the same moment share a transaction.
    ///
    /// One of the callers runs the shared transaction.
    Batched,
    /// On the caller's thread if that thread may block and a reader or the writer is idle, otherwise on a
    /// core thread.
    Caller,
}

/// The state that all requests share while they run.
pub struct Dispatch {
    pub(crate) table: Arc<Table>,
    pub(crate) shared: SharedState,
    pub(crate) clock: Clock,
    pub(crate) executor: Executor<Batch>,
    pub(crate) bus: Arc<Bus>,
    pub(crate) timers: Timers,
    pub(crate) rounds: WaitScheduler,
    pub(crate) limits: RateLimits,
    pub(crate) presence: Arc<ConnectedMembers>,
    credentials: Credentials,
    lookups: Lookups<Box<AdmitCall>>,
    /// The workspaces with a long read in progress.
    long_read_workspaces: Mutex<BTreeSet<WorkspaceId>>,
    /// The workspaces with an export in progress.
    export_workspaces: Mutex<BTreeSet<WorkspaceId>>,
}

impl Dispatch {
    /// Creates the shared state, without requests in progress.
    pub(crate) fn new(
        shared: SharedState,
        limits: RateLimits,
        clock: Clock,
        executor: Executor<Batch>,
        bus: Arc<Bus>,
    ) -> Self {
        Self {
            table: Arc::clone(&shared.table),
            shared,
            executor,
            bus,
            timers: Timers::new(&clock),
            rounds: WaitScheduler::default(),
            presence: Arc::default(),
            limits,
            clock,
            credentials: Credentials::default(),
            lookups: Lookups::default(),
            long_read_workspaces: Mutex::default(),
            export_workspaces: Mutex::default(),
        }
    }

    /// Admits or rejects a request by its head alone.
    ///
    /// The request is counted. Its credential must be live and have the rights that the operation needs; if
    /// the operation is not known yet, any live credential is enough. Calls `done` exactly once.
    pub(crate) fn admit(
        self: &Arc<Self>,
        operation: Option<&Operation>,
        head: RequestHead,
        on: RunOn,
        done: AdmissionCallback,
    ) -> RequestHandle {
        let needs = operation.map_or(Needs::AnyCredential, |operation| operation.access().needs);
        let is_exempt = head.surface == Surface::Library && !self.shared.settings.limits_library;
        let mut check = AdmissionCheck {
            limits: &self.limits,
            needs,
            peer: head.peer,
            now: self.clock.now(),
            charge_result: is_exempt.then(ChargeResult::default),
        };
        let Some(key) = head.credential.key(needs) else {
            let outcome = pipeline::admit(&mut check, &CredentialLookup::Nothing);
            let admission = outcome.map(|()| Admission::new(head, AdmittedBy::NoCredential));
            self.complete_admission(check.charge_result, false, admission, done);
            return RequestHandle::default();
        };
        if let Some((known, outcome)) = self.admit_cached(&mut check, &key) {
            let shows_quotas = known.shows_quotas();
            let admission = outcome.map(|()| Admission::new(head, AdmittedBy::Known(known)));
            self.complete_admission(check.charge_result, shows_quotas, admission, done);
            return RequestHandle::default();
        }
        let AdmissionCheck { peer, charge_result, .. } = check;
        let token_format_error = head.credential.token_format_error();
        let admission = Admission::new(head, AdmittedBy::NoCredential);
        let origin = Origin::new(operation, admission.surface, &admission.path, None);
        let call = Call { needs, origin, ..Call::instance(self, ServiceWork::INSTANCE, admission.surface) };
        let abandoned = Arc::clone(&call.abandoned);
        let lookup = CredentialLookup::Nothing;
        let task = AdmitCall { call, key, token_format_error, peer, charge_result, lookup, admission, done };
        let pending_flush = match self.lookups.begin(peer.map(Client::Peer), Box::new(task)) {
            LookupStart::RunNow(task) => self.start_quick_read(task, on),
            LookupStart::Queued => None,
            LookupStart::Rejected(task, error) => {
                (task.done)(Err(error.into()));
                None
            }
        };
        RequestHandle { pending_flush, parked: None, abandoned }
    }

    /// Reports the limits that are due to be reported to other servers, and then completes the admission of a
    /// request.
    ///
    /// `shows_quotas` is whether the response reports the remaining quotas, even if the request is rejected.
    /// Callers without a live credential never receive the quotas.
    fn complete_admission(
        &self,
        charge_result: Option<ChargeResult>,
        shows_quotas: bool,
        outcome: Result<Admission>,
        done: AdmissionCallback,
    ) {
        let ChargeResult { standings, due } = charge_result.unwrap_or_default();
        let limit_states: Arc<[LimitState]> = if shows_quotas { standings.into() } else { Arc::default() };
        let end = move |outcome: Result<Admission>| match outcome {
            Ok(admission) => done(Ok(Admission { limit_states, ..admission })),
            Err(error) if error.code() == Code::Unauthenticated => done(Err(error.into())),
            Err(error) => done(Err(AdmissionFailure::new(error, limit_states))),
        };
        if due.is_empty() {
            return end(outcome);
        }
        self.limits.share_usage(due, move |reported| end(reported.and(outcome)));
    }

    /// Admits or rejects a request by a cached credential, or returns `None` if a database lookup is needed.
    fn admit_cached(
        &self,
        check: &mut AdmissionCheck<'_>,
        key: &CredentialKey,
    ) -> Option<(Arc<KnownCredential>, Result<()>)> {
        let known = self.credentials.get(key, self.clock.monotonic())?;
        // If the cached credential has expired, the database must also determine the payer.
        known.caller.check_live(check.now).ok()?;
        match pipeline::admit(check, &CredentialLookup::Known(Arc::clone(&known))) {
            Err(error) if error.code() != Code::RateLimited => None,
            outcome => Some((known, outcome)),
        }
    }

    /// Runs an operation for an admitted request with an encoded input. Calls `done` exactly once.
    pub(crate) fn start(
        self: &Arc<Self>,
        operation: &Arc<Operation>,
        admission: Admission,
        input: &Input,
        on: RunOn,
        done: ReplyCallback,
    ) -> RequestHandle {
        let mut answer_options =
            AnswerOptionValues::defaults_for(admission.surface, operation.answer_options());
        let mut call = self.build_call(Some(operation), admission, input);
        let job = (operation.run.prepare_call)(input, &mut answer_options, &self.shared, self.clock.now());
        let job = job.and_then(|job| {
            call.keyed = KeyedRequest::new(operation, input, &self.shared)?;
            Ok(job)
        });
        let request_ids = (answer_options.detail == Detail::Lean).then(|| input.ids());
        let operation_of_answer = Arc::clone(operation);
        let table = Arc::clone(&self.table);
        let form =
            BodyForm { operation: operation_of_answer, table, request_ids, bounds: answer_options.bounds };
        let max_bytes = answer_options.bounds.max_bytes;
        let done: ReplyCallback = Box::new(move |outcome| {
            let outcome = outcome.map(|reply| reply.with_form(form));
            done(outcome.map_err(|mut error| {
                error.max_bytes = u32::try_from(max_bytes).ok().and_then(NonZeroU32::new);
                error
            }));
        });
        let thread = operation.concerns_one_thread().then(|| input.thread_id()).flatten();
        self.start_job(operation, call, job, thread, on, done)
    }

    /// Runs a prepared job, or rejects the call if it could not be prepared.
    fn start_job(
        self: &Arc<Self>,
        operation: &Operation,
        call: Call,
        job: Result<Job>,
        thread: Option<ThreadId>,
        on: RunOn,
        done: ReplyCallback,
    ) -> RequestHandle {
        let abandoned = Arc::clone(&call.abandoned);
        let mut handle = RequestHandle { parked: None, pending_flush: None, abandoned };
        match job {
            Ok(Job::Read(job)) => {
                let task = ReadCall::new(call, Prepared::Ready(job), done);
                if operation.run.quick {
                    handle.pending_flush = self.start_quick_read(Box::new(task), on);
                } else {
                    self.submit_read(task, on);
                }
            }
            Ok(Job::Long(job)) => LongCall::new(call, Prepared::Ready(job), done).queue(),
            Ok(Job::Scan(job)) => LongCall::new_scan(call, Prepared::Ready(job), done).queue(),
            Ok(Job::Download(job)) => LongCall::new_download(call, Prepared::Ready(job), done).queue(),
            Ok(Job::Wait { job, filter, timeout, count_available, timeout_output }) => {
                let poll = PendingPoll {
                    name: operation.name(),
                    job,
                    filter,
                    timeout,
                    count_available,
                    timeout_output,
                };
                handle.parked = ParkedWait::start(call, poll, done);
            }
            Ok(Job::Preflight(read)) => {
                let status = operation.http().success.status();
                let first_steps = operation.run.first_steps;
                let read = Prepared::Ready(read);
                self.preflight(
                    PreflightCall { call, status, read, first_steps, thread, result: None, done },
                    on,
                );
            }
            Ok(Job::Write { job, write_needs }) => {
                let job = with_first_steps(operation.run.first_steps, job);
                let status = operation.http().success.status();
                self.submit_change(WriteCall::new(call, status, job, write_needs, thread, done), on);
            }
            Err(refusal) => self.submit_read(ReadCall::new(call, Prepared::Rejected(refusal), done), on),
        }
        handle
    }

    /// Rejects an admitted request that could not be read.
    ///
    /// If the credential is no longer valid, that error takes precedence. So the database checks the
    /// credential first.
    pub(crate) fn refuse(
        self: &Arc<Self>,
        operation: Option<&Arc<Operation>>,
        admission: Admission,
        refusal: Error,
        on: RunOn,
        done: ReplyCallback,
    ) -> RequestHandle {
        let call = self.build_call(operation, admission, &Input::default());
        let abandoned = Arc::clone(&call.abandoned);
        let task = ReadCall::new(call, Prepared::Rejected(refusal), done);
        RequestHandle { pending_flush: self.start_quick_read(Box::new(task), on), parked: None, abandoned }
    }

    /// Creates the call for an admitted request.
    fn build_call(
        self: &Arc<Self>,
        operation: Option<&Arc<Operation>>,
        admission: Admission,
        input: &Input,
    ) -> Call {
        let Admission { access, surface, path, client, is_follow_up, omits_operation, .. } = admission;
        let audited_operation = operation.map(Arc::as_ref).filter(|_| !omits_operation);
        // The audit trail must not reveal what a member did with personal data.
        let personal = operation.filter(|operation| operation.access().personal);
        let ids = (surface == Surface::Mcp && personal.is_none()).then(|| input.ids());
        let path = match personal {
            Some(operation) if surface != Surface::Mcp => operation.http().path.to_owned(),
            _ => path,
        };
        Call {
            dispatch: Arc::clone(self),
            access,
            client,
            needs: operation.map_or(Needs::AnyCredential, |operation| operation.access().needs),
            work: operation.map_or(RequestWork::Unknown, |operation| {
                let guarded = self.guarded_call(surface, input, operation.access().personal);
                RequestWork::Operation(Arc::clone(operation), guarded)
            }),
            origin: Origin::new(audited_operation, surface, &path, ids),
            bytes: input.bytes().saturating_mul(BODY_COPIES_MAX).saturating_add(size_of::<Call>()),
            abandoned: Arc::default(),
            is_follow_up,
            preflight_workspace: None,
            found_caller: None,
            keyed: None,
            step_state: None,
        }
    }

    /// Returns the data of a call that guards receive. Returns an empty value if there are no guards and the
    /// operation is not personal.
    fn guarded_call(&self, surface: Surface, input: &Input, is_personal: bool) -> hooks::GuardedCall {
        if self.table.guards().is_empty() && !is_personal {
            return hooks::GuardedCall::default();
        }
        hooks::GuardedCall { surface, ids: input.ids() }
    }

    /// Submits a quick read, or runs the read on this thread if it needs no network.
    ///
    /// Returns the flush that the caller must run for a batched read, if any.
    fn start_quick_read(
        self: &Arc<Self>,
        task: Box<dyn ReadTask<ReaderCache>>,
        on: RunOn,
    ) -> Option<PendingFlush> {
        match on {
            RunOn::Batched if self.executor.has_local_reads() => {
                let flush = |after_others| Some(PendingFlush { dispatch: Arc::clone(self), after_others });
                return match self.executor.batch(task) {
                    BatchFlush::Others => None,
                    BatchFlush::Now => flush(false),
                    BatchFlush::AfterPause => flush(true),
                };
            }
            RunOn::Pool if self.executor.has_local_reads() => self.executor.read_inline(task),
            RunOn::Caller => self.executor.read_inline(task),
            RunOn::Pool | RunOn::Batched => self.executor.read(task, false),
        }
        None
    }

    /// Submits a read to the readers, or runs the read on this thread.
    fn submit_read(&self, task: ReadCall, on: RunOn) {
        match on {
            RunOn::Caller => self.executor.read_inline(Box::new(task)),
            RunOn::Pool | RunOn::Batched => self.executor.read(Box::new(task), false),
        }
    }

    /// Submits a change to the writers, or runs the change on this thread.
    fn submit_change(&self, task: WriteCall, on: RunOn) {
        match on {
            RunOn::Caller => self.executor.write_inline(Box::new(task)),
            RunOn::Pool | RunOn::Batched => self.executor.write(Box::new(task)),
        }
    }
}
