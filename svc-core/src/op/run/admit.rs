//! Admission of requests, and the database lookup for a credential that is not cached.

use std::sync::Arc;

use super::call::{Call, ServiceWork};
use super::credentials::{AdmissionCheck, CredentialLookup, KnownCredential};
use super::{AdmittedBy, pipeline};
use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::log::cache::ReaderCache;
use crate::op::call::caller::{Caller, Surface};
use crate::op::call::credential::CredentialKey;
use crate::op::call::request::RequestHead;
use crate::rate::{ChargeResult, Client, Holder, LimitState, Peer};
use crate::store::executor::{ReadTask, Reader, Task, TaskSource};
use crate::time::Time;

/// An admitted request. The rate limits have counted the request, and its credential was live and had the
/// required capability a moment ago.
///
/// Starting an operation requires an admission. The operation then checks the credential and the capability
/// again.
#[derive(Clone, Debug)]
#[must_use = "the rate limit has counted a request for it"]
pub struct Admission {
    pub(super) access: AdmittedBy,
    pub(super) surface: Surface,
    pub(super) path: String,
    pub(super) client: Option<Client>,
    pub(super) limit_states: Arc<[LimitState]>,
    pub(super) is_follow_up: bool,
    /// Whether audit rows omit the operation, because the request did not call the operation that answers it.
    pub(super) omits_operation: bool,
}

impl Admission {
    /// Returns the client that the request is charged to, or `None` for a request from within this process.
    pub fn client(&self) -> Option<Client> {
        self.client
    }

    /// Returns the client and workspace for which ceilings count the request, or `None` for a request from
    /// within this process.
    pub fn holder(&self) -> Option<Holder> {
        self.client.map(|client| Holder { client, workspace: self.access.charged_to() })
    }

    /// Returns the state of each limit that the request counts against, or nothing for an unknown caller.
    pub fn limit_states(&self) -> &[LimitState] {
        &self.limit_states
    }

    /// Returns whether the request was admitted for a delegate.
    pub(crate) fn is_delegated(&self) -> bool {
        matches!(&self.access, AdmittedBy::Known(known) if known.caller.grant.is_some())
    }

    /// Returns an admission for another request on an admitted connection.
    ///
    /// The rate limits and the audit trail have recorded the connection when it began.
    pub fn follow_up(&self) -> Self {
        Self { is_follow_up: true, ..self.clone() }
    }

    /// Returns the admission of a request that did not call an operation, although an operation answers it.
    ///
    /// Audit rows then omit the operation.
    pub fn without_operation(self) -> Self {
        Self { omits_operation: true, ..self }
    }

    /// Returns the admission of an administrator of the machine, for work on `workspace` as the instance.
    pub(crate) fn of_instance(workspace: WorkspaceId, surface: Surface) -> Self {
        let head = RequestHead { surface, ..RequestHead::default() };
        Self::new(head, AdmittedBy::Instance(ServiceWork { workspace, charged_to: workspace }))
    }

    pub(super) fn new(head: RequestHead, access: AdmittedBy) -> Self {
        let mut path = head.path;
        path.truncate(path.floor_char_boundary(PATH_MAX));
        let own = match &access {
            AdmittedBy::Known(known) => known.client(),
            _ => None,
        };
        let client = own.or(head.peer.map(Client::Peer));
        let limit_states = Arc::default();
        let surface = head.surface;
        let is_follow_up = false;
        let omits_operation = false;
        Self { access, surface, path, client, limit_states, is_follow_up, omits_operation }
    }

    fn with_known_credential(self, known: Arc<KnownCredential>) -> Self {
        Self { client: known.client().or(self.client), access: AdmittedBy::Known(known), ..self }
    }
}

/// Maximum bytes of a path in an audit row. Every operation's path is shorter.
const PATH_MAX: usize = 1024;

/// Receives the outcome of an admission. A core thread calls this function, so it must only pass the outcome
/// on.
pub(crate) type AdmissionCallback = Box<dyn FnOnce(std::result::Result<Admission, AdmissionFailure>) + Send>;

/// The reason why a request was not admitted, and the state of each limit that the request counts against.
#[derive(Clone, Debug)]
pub struct AdmissionFailure {
    error: Error,
    limit_states: Arc<[LimitState]>,
}

impl AdmissionFailure {
    pub(crate) fn new(error: Error, limit_states: Arc<[LimitState]>) -> Self {
        Self { error, limit_states }
    }

    /// Returns the code of the error.
    pub fn code(&self) -> Code {
        self.error.code()
    }

    /// Returns the state of each limit that the request counts against, or nothing for an unknown caller.
    pub fn limit_states(&self) -> &[LimitState] {
        &self.limit_states
    }
}

impl From<Error> for AdmissionFailure {
    fn from(error: Error) -> Self {
        Self { error, limit_states: Arc::default() }
    }
}

impl From<AdmissionFailure> for Error {
    fn from(refused: AdmissionFailure) -> Self {
        refused.error
    }
}

/// A task that looks up a credential in the database, and then admits or rejects the request.
pub(super) struct AdmitCall {
    /// The call whose caller the task looks up.
    pub(super) call: Call,
    pub(super) key: CredentialKey,
    /// Reason why the bearer token is malformed, if it is.
    pub(super) token_format_error: Option<&'static str>,
    pub(super) peer: Option<Peer>,
    /// Result of counting the request against the rate limits, or `None` before that.
    pub(super) charge_result: Option<ChargeResult>,
    /// Result of the lookup.
    pub(super) lookup: CredentialLookup,
    pub(super) admission: Admission,
    pub(super) done: AdmissionCallback,
}

impl AdmitCall {
    /// Admits or rejects the request according to the result of the lookup, after the transaction.
    fn admit(&mut self) -> Result<()> {
        let limits = &self.call.dispatch.limits;
        let needs = self.call.needs;
        let charge_result = self.charge_result.take();
        let mut check = AdmissionCheck { limits, needs, peer: self.peer, now: self.now(), charge_result };
        let outcome = pipeline::admit(&mut check, &self.lookup);
        self.charge_result = check.charge_result;
        outcome
    }

    /// Returns the time of the transaction.
    fn now(&self) -> Time {
        self.call
            .verified_caller()
            .map_or_else(|_| self.call.dispatch.clock.now(), |found_caller| found_caller.now)
    }
}

impl ReadTask<ReaderCache> for AdmitCall {
    fn run(&mut self, reader: &Reader<ReaderCache>) -> Result<()> {
        self.call.found_caller = None;
        let caller = match Caller::find_by_key(&reader.conn, &self.key) {
            Ok(caller) => caller,
            Err(error) if error.code() == Code::Unauthenticated => {
                let named = |flaw| Error::new(Code::Unauthenticated, format!("the token {flaw}"));
                self.lookup = CredentialLookup::Unknown(self.token_format_error.map_or(error, named));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let payer = caller.payer(&reader.conn)?;
        self.call.found_caller = Some(self.call.verified_caller_in(reader, caller.clone())?);
        let now = self.call.dispatch.clock.monotonic();
        self.lookup = CredentialLookup::Known(Arc::new(KnownCredential::new(self.key, caller, payer, now)));
        Ok(())
    }
}

impl Task for AdmitCall {
    /// Returns the sender's address as the source.
    ///
    /// A lookup does not wait behind requests without a credential, because only a few lookups are passed to
    /// the executor at a time, and addresses take turns before that.
    fn source(&self) -> TaskSource {
        TaskSource { workspace: None, client: self.peer.map(Client::Peer) }
    }

    fn bytes(&self) -> usize {
        self.call.bytes
    }

    fn is_abandoned(&self) -> bool {
        self.call.is_abandoned()
    }

    fn finish(self: Box<Self>, outcome: Result<()>) {
        let dispatch = Arc::clone(&self.call.dispatch);
        match &outcome {
            Err(error) if error.code() == Code::Overloaded => {
                let waited = dispatch.lookups.end_without_reader();
                waited.into_iter().for_each(|lookup| (lookup.done)(Err(error.clone().into())));
            }
            _ => {
                let next = dispatch.lookups.end();
                next.into_iter().for_each(|lookup| dispatch.executor.read(lookup, false));
            }
        }
        self.settle(outcome);
    }
}

impl AdmitCall {
    /// Updates the cache of credentials, and completes the admission.
    fn settle(mut self, outcome: Result<()>) {
        let outcome = outcome.and_then(|()| self.admit());
        let now = self.now();
        let Self { call, key, lookup, admission, done, charge_result, .. } = self;
        let credentials = &call.dispatch.credentials;
        match &lookup {
            CredentialLookup::Known(known) if lookup.live(now).is_some() => {
                credentials.insert(Arc::clone(known))
            }
            _ => credentials.remove(&key),
        }
        let shows_quotas = lookup.live(now).is_some_and(KnownCredential::shows_quotas);
        match (lookup, outcome) {
            (CredentialLookup::Known(known), Ok(())) => {
                call.dispatch.complete_admission(
                    charge_result,
                    shows_quotas,
                    Ok(admission.with_known_credential(known)),
                    done,
                );
            }
            (_, Ok(())) => {
                done(Err(Error::internal("a request was admitted by an unknown credential").into()));
            }
            (_, Err(error)) => {
                let dispatch = Arc::clone(&call.dispatch);
                call.refuse(error, move |error| {
                    dispatch.complete_admission(charge_result, shows_quotas, Err(error), done)
                });
            }
        }
    }
}
