//! An admitted request inside the core: its credential, its caller, and the data that its audit rows contain.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::credentials::{KnownCredential, anonymous_if_allowed};
use super::decision::AuditDecision;
use super::retry::KeyedRequest;
use super::{Dispatch, Reply, ReplyCallback};
use crate::capability::Needs;
use crate::error::{Code, Error, Result};
use crate::id::{MemberId, WorkspaceId};
use crate::log::batch::Batch;
use crate::log::cache::{Epochs, ReaderCache};
use crate::op::call::caller::{Caller, CredentialKind, Surface, Visibility, unauthenticated};
use crate::op::call::credential::CredentialKey;
use crate::op::declare::hooks;
use crate::op::declare::operation::Operation;
use crate::op::run::audit::Origin;
use crate::op::run::context::Write;
use crate::rate::Client;
use crate::store::executor::{Reader, TaskSource};
use crate::store::{Conn, Engine};
use crate::time::{Clock, Time};

/// The identity on which the admission of a request is based.
#[derive(Clone, Debug)]
pub(crate) enum AdmittedBy {
    /// A credential, whose workspace never changes.
    Known(Arc<KnownCredential>),
    /// The request has no credential.
    NoCredential,
    /// The service itself, or an administrator of the machine, acting in a workspace.
    Instance(ServiceWork),
}

impl AdmittedBy {
    /// Returns the workspace that the request's work is charged to.
    pub fn charged_to(&self) -> WorkspaceId {
        match self {
            Self::Known(known) => known.charged_to(),
            Self::Instance(own) => own.charged_to,
            Self::NoCredential => WorkspaceId::INSTANCE,
        }
    }

    /// Returns the workspace to whose log the request's changes are written, unless a function selects
    /// another workspace.
    pub fn workspace(&self) -> WorkspaceId {
        match self {
            Self::Known(known) => known.caller.workspace_id,
            Self::Instance(own) => own.workspace,
            Self::NoCredential => WorkspaceId::INSTANCE,
        }
    }
}

/// Work of the service itself in a workspace, and the workspace that the work is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServiceWork {
    pub workspace: WorkspaceId,
    /// The workspace to which the work is charged, or the instance for work of the service for itself.
    pub charged_to: WorkspaceId,
}

impl ServiceWork {
    /// Work on the instance itself.
    pub const INSTANCE: Self = Self::on(WorkspaceId::INSTANCE);

    /// Returns work in `workspace` that is charged to the instance, and so does not wait behind requests of
    /// the workspace.
    pub const fn on(workspace: WorkspaceId) -> Self {
        Self { workspace, charged_to: WorkspaceId::INSTANCE }
    }

    /// Returns work that a caller causes: in the caller's workspace, and charged like the caller's requests.
    pub fn caused_by(caller: &Caller) -> Self {
        Self { workspace: caller.workspace_id, charged_to: caller.charged_to }
    }
}

#[cfg(test)]
impl AdmittedBy {
    /// Returns the cached credential under `key`, which must have been admitted a moment ago.
    pub fn cached(dispatch: &Dispatch, key: &CredentialKey) -> Self {
        Self::Known(dispatch.credentials.get(key, dispatch.clock.monotonic()).unwrap())
    }
}

/// The data of an admitted request that all kinds of tasks need.
pub(in crate::op) struct Call {
    pub dispatch: Arc<Dispatch>,
    pub access: AdmittedBy,
    /// The client that the request is charged to, or `None` for the service itself.
    pub client: Option<Client>,
    pub needs: Needs,
    pub work: RequestWork,
    pub origin: Origin,
    /// Approximate bytes of memory that the request occupies while it is in progress.
    pub bytes: usize,
    /// Set when the caller no longer waits for the reply.
    pub abandoned: Arc<AtomicBool>,
    /// Whether no audit decision is recorded, even if the request is delegated.
    ///
    /// A decision was already recorded for the connection that the request belongs to.
    pub is_follow_up: bool,
    /// The workspace that a preflight read found, if no credential determines it.
    pub preflight_workspace: Option<WorkspaceId>,
    /// The caller that the last run has found, live or not.
    pub found_caller: Option<VerifiedCaller>,
    /// The idempotency key, and the data to compare with the stored row of that key.
    pub keyed: Option<KeyedRequest>,
    /// The state that the committed steps of the request share, as JSON.
    pub step_state: Option<String>,
}

/// The work that a request causes.
pub(in crate::op) enum RequestWork {
    /// An operation, and the parts of the call that its guards receive.
    Operation(Arc<Operation>, hooks::GuardedCall),
    /// Work of the service itself, to which no guard applies.
    ServiceItself,
    /// No operation: the requested operation could not be determined.
    Unknown,
}

/// A caller as looked up in a transaction, live or not, with the log position and the epoch of that
/// transaction.
#[derive(Clone)]
pub(in crate::op) struct VerifiedCaller {
    pub caller: Caller,
    /// Position of the log of the caller's workspace in that transaction, if the caller is a member.
    pub lsn: Option<i64>,
    /// Epoch of the caller's rights and visibility in that transaction.
    pub epoch: i64,
    pub now: Time,
}

impl Call {
    /// Creates a call of the service itself.
    pub fn instance(dispatch: &Arc<Dispatch>, own: ServiceWork, surface: Surface) -> Self {
        Self {
            dispatch: Arc::clone(dispatch),
            access: AdmittedBy::Instance(own),
            client: None,
            needs: Needs::Nothing,
            work: RequestWork::ServiceItself,
            origin: Origin::system(surface),
            bytes: size_of::<Self>(),
            abandoned: Arc::default(),
            is_follow_up: false,
            preflight_workspace: None,
            found_caller: None,
            keyed: None,
            step_state: None,
        }
    }

    /// Discards the results of an earlier run.
    pub fn reset(&mut self) {
        self.found_caller = None;
        if let Some(keyed) = &mut self.keyed {
            keyed.has_run = false;
        }
    }

    /// Records that the operation's function is called now. A later refusal can then be stored for repeats.
    pub fn mark_function_run(&mut self) {
        if let Some(keyed) = &mut self.keyed {
            keyed.has_run = true;
        }
    }

    /// Returns the source of the request in the queues of the executor.
    pub fn source(&self) -> TaskSource {
        match &self.access {
            AdmittedBy::Instance(own) if own.charged_to == WorkspaceId::INSTANCE => TaskSource::SERVICE,
            access => TaskSource { workspace: Some(access.charged_to()), client: self.client },
        }
    }

    /// Returns whether the caller no longer waits for the reply.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Returns the caller that the current run has found, or an error before the lookup.
    pub fn verified_caller(&self) -> Result<&VerifiedCaller> {
        self.found_caller.as_ref().ok_or_else(|| Error::internal("the caller has not been looked up yet"))
    }

    /// Fails if the credential of the caller has expired or was revoked.
    pub fn check_live(&self) -> Result<()> {
        let VerifiedCaller { caller, now, .. } = self.verified_caller()?;
        caller.check_live(*now)?;
        if let AdmittedBy::Known(known) = &self.access {
            known.confirm(self.dispatch.clock.monotonic());
        }
        Ok(())
    }

    /// Fails if the caller lacks the rights that the operation needs.
    pub fn check_right(&self) -> Result<()> {
        let caller = &self.verified_caller()?.caller;
        if let RequestWork::Operation(operation, _) = &self.work
            && caller.is_anonymous()
            && !operation.is_open_to_anonymous()
        {
            return Err(unauthenticated("an anonymous caller may only read, and the request has no token"));
        }
        caller.check_right(self.needs)
    }

    /// Returns the caller that was found last: in a transaction, or on admission if no transaction has begun.
    fn known_caller(&self) -> Option<&Caller> {
        match (&self.found_caller, &self.access) {
            (Some(found_caller), _) => Some(&found_caller.caller),
            (None, AdmittedBy::Known(known)) => Some(&known.caller),
            (None, _) => None,
        }
    }

    /// Returns whether only the member itself may call the operation.
    pub fn is_personal(&self) -> bool {
        matches!(&self.work, RequestWork::Operation(operation, _) if operation.access().personal)
    }

    /// If the operation is personal, rejects every caller except the member itself.
    ///
    /// An input that names another member is rejected whether that member exists or not.
    pub fn check_personal(&self) -> Result<()> {
        let RequestWork::Operation(_, named) = &self.work else { return Ok(()) };
        if !self.is_personal() {
            return Ok(());
        }
        let caller = &self.verified_caller()?.caller;
        caller.check_personal()?;
        match named.id::<MemberId>("member_id") {
            Some(member) if caller.member != Some(member) => {
                Err(Error::forbidden("`member_id` is another member, and only the member itself can do this"))
            }
            _ => Ok(()),
        }
    }

    /// Returns the position that the log of the caller's workspace has reached, if the caller is a member.
    pub fn lsn(&self) -> Option<i64> {
        self.found_caller.as_ref().and_then(|found_caller| found_caller.lsn)
    }

    /// Finds the caller in a reader's transaction, using the reader's cache if the cache is still valid.
    pub fn find_caller_for_read(&self, reader: &Reader<ReaderCache>) -> Result<VerifiedCaller> {
        let caller = match &self.access {
            AdmittedBy::Known(known) => {
                let workspace = known.caller.workspace_id;
                drop_stale_cache_entries(reader, &self.dispatch.clock, workspace)?;
                let cached = reader.cache.borrow().entries.get::<Caller>(workspace, &known.key);
                cached.map_or_else(|| load_caller(reader, workspace, &known.key), Ok)?
            }
            access => self.caller_without_credential(access)?,
        };
        self.verified_caller_in(reader, caller)
    }

    /// Returns `caller` with the log position and epoch of a reader's transaction.
    pub fn verified_caller_in(&self, reader: &Reader<ReaderCache>, caller: Caller) -> Result<VerifiedCaller> {
        let clock = &self.dispatch.clock;
        let lsn = drop_stale_cache_entries(reader, clock, caller.workspace_id)?;
        let epochs = reader.cache.borrow().entries.epochs(caller.workspace_id);
        let lsn = caller.is_member().then_some(lsn);
        Ok(VerifiedCaller { caller, lsn, epoch: epochs.access, now: clock.now() })
    }

    /// Finds the caller in a writer's transaction, using the writer's cache if the cache is still valid.
    pub fn find_caller_for_change(&self, conn: &Conn, batch: &RefCell<Batch>) -> Result<VerifiedCaller> {
        let caller = match &self.access {
            AdmittedBy::Known(known) => {
                let workspace = known.caller.workspace_id;
                if !batch.borrow_mut().has_log(conn, workspace)? {
                    return Err(unauthenticated("the credential is unknown"));
                }
                let cached = batch.borrow().cache.get::<Caller>(workspace, &known.key);
                match cached {
                    Some(caller) => caller,
                    None => {
                        let caller = Caller::find_by_key(conn, &known.key)?;
                        batch.borrow_mut().cache.put(workspace, &known.key, caller.clone());
                        caller
                    }
                }
            }
            access => self.caller_without_credential(access)?,
        };
        let lsn = log_position(conn, batch, &caller)?;
        let batch = batch.borrow();
        let epochs = batch.cache.epochs(caller.workspace_id);
        Ok(VerifiedCaller { caller, lsn, epoch: epochs.access, now: batch.now() })
    }

    /// Returns the channels that the service itself can see as the caller of this operation: all channels if
    /// the operation declares that, otherwise none.
    fn instance_visibility(&self) -> Visibility {
        match &self.work {
            RequestWork::Operation(operation, _) => operation.access().instance_visibility,
            RequestWork::ServiceItself | RequestWork::Unknown => Visibility::Nothing,
        }
    }

    /// Returns the caller of a request that was not admitted by a credential.
    fn caller_without_credential(&self, access: &AdmittedBy) -> Result<Caller> {
        match access {
            AdmittedBy::Instance(own) => {
                Ok(Caller::instance(own.workspace).with_visibility(self.instance_visibility()))
            }
            _ => anonymous_if_allowed(self.needs),
        }
    }

    /// Writes the audit rows of a change, or of its refusal, before the commit.
    ///
    /// A refusal causes no row `mutation`. `refused` is the name of the refusal's error code, or `None` for a
    /// change.
    pub fn audit(
        &self,
        cx: &mut Write<'_>,
        batch: &RefCell<Batch>,
        refused: Option<&'static str>,
    ) -> Result<()> {
        let is_of_note = !batch.borrow().unchanged;
        let is_mutation = refused.is_none() && self.origin.surface != Surface::System && is_of_note;
        if is_mutation && !batch.borrow().has_audited() {
            let metadata = self.origin.mutation_metadata(batch.borrow().discreet);
            cx.audit_in(self.preflight_workspace.unwrap_or(cx.caller().workspace_id), "mutation", metadata)?;
        }
        if cx.caller().grant.is_some() {
            cx.audit("authorization.decision", self.origin.decision_metadata(refused))?;
        }
        Ok(())
    }

    /// Replies to a request that changed nothing, after recording the decision if the request is delegated.
    pub fn finish(self, outcome: Result<Reply>, done: ReplyCallback) {
        match outcome {
            Ok(reply) => self.record(None, move |recorded| done(recorded.map(|()| reply))),
            Err(error) => self.refuse(error, move |error| done(Err(error))),
        }
    }

    /// Rejects the request, after recording the decision if the request is delegated.
    pub fn refuse(self, error: Error, done: impl FnOnce(Error) + Send + 'static) {
        if let (Code::Unauthenticated, AdmittedBy::Known(known)) = (error.code(), &self.access) {
            self.dispatch.credentials.remove(&known.key);
        }
        if error.code() == Code::ReadTooExpensive {
            let operation = match &self.work {
                RequestWork::Operation(operation, _) => operation.name(),
                RequestWork::ServiceItself | RequestWork::Unknown => "none",
            };
            let workspace = self.access.workspace();
            let cause = error.cause();
            tracing::warn!(operation, %workspace, ?cause, "a read has used up its budget");
        }
        let error = error.with_log_position(self.lsn());
        // A rate-limited request is not recorded, because a record costs more than the request.
        if error.code() == Code::RateLimited {
            return done(error);
        }
        let name = error.code().name();
        self.record(Some(name), move |recorded| done(recorded.err().unwrap_or(error)));
    }

    /// Records the audit decision for a delegated wait, before the wait is parked.
    ///
    /// The decision is recorded once, whatever the length and the outcome of the wait. `done` is called with
    /// an error if recording fails.
    pub fn record_wait_decision(&mut self, done: impl FnOnce(Result<()>) + Send + 'static) {
        self.record(None, done);
        self.is_follow_up = true;
    }

    /// Records a request that changed nothing, if it is delegated or its operation always leaves an audit
    /// row.
    fn record(&self, refused: Option<&'static str>, done: impl FnOnce(Result<()>) + Send + 'static) {
        let audited = match &self.work {
            RequestWork::Operation(row, _) if refused.is_none() => row.access().audited,
            _ => None,
        };
        let is_delegated = self.known_caller().is_some_and(|caller| caller.grant.is_some());
        let caller = match (audited, &self.found_caller) {
            _ if self.is_follow_up => None,
            (Some(_), Some(found_caller)) => Some(&found_caller.caller),
            _ => self.known_caller().filter(|_| is_delegated),
        };
        let Some(caller) = caller else { return done(Ok(())) };
        let decision = AuditDecision {
            dispatch: Arc::clone(&self.dispatch),
            source: self.source(),
            caller: caller.clone(),
            origin: self.origin.clone(),
            bytes: self.bytes,
            audited,
            refused,
            done: Box::new(done),
        };
        self.dispatch.executor.write(Box::new(decision));
    }
}

/// Maximum copies of a request's body in memory at the same time: as received, decoded, sealed, and in an
/// event.
pub(super) const BODY_COPIES_MAX: usize = 4;

/// Looks up the caller of a credential, and caches the caller for the reader's connection.
fn load_caller(reader: &Reader<ReaderCache>, workspace: WorkspaceId, key: &CredentialKey) -> Result<Caller> {
    let caller = Caller::find_by_key(&reader.conn, key)?;
    if caller.workspace_id != workspace {
        return Err(unauthenticated("the credential is unknown"));
    }
    reader.cache.borrow_mut().entries.put(workspace, key, caller.clone());
    Ok(caller)
}

/// Returns the position that the log of the caller's workspace has reached, if the caller is a member.
pub(super) fn log_position(conn: &Conn, batch: &RefCell<Batch>, caller: &Caller) -> Result<Option<i64>> {
    if caller.workspace_id == WorkspaceId::INSTANCE && caller.via == CredentialKind::Anonymous {
        // The caller has no workspace. Only writers of the instance's log may lock the head of the instance.
        return Ok(None);
    }
    let lsn = batch.borrow_mut().head(conn, caller.workspace_id)?.lsn;
    Ok(caller.is_member().then_some(lsn))
}

/// Invalidates the reader's cached entries of a workspace if the workspace has changed since the entries were
/// cached.
///
/// Returns the position that the log of the workspace has reached.
fn drop_stale_cache_entries(
    reader: &Reader<ReaderCache>,
    clock: &Clock,
    workspace: WorkspaceId,
) -> Result<i64> {
    let known = reader.cache.borrow().cached_lsn(workspace);
    if let Some(lsn) = known {
        return Ok(lsn);
    }
    let (lsn, epochs) = match reader.conn.engine() {
        Engine::Sqlite => {
            let mut rows = reader.conn.query(HEAD_SQLITE, &[&workspace])?;
            match rows.first_mut() {
                Some(row) => (row.take()?, Epochs::take(row)?),
                None => (0, Epochs::WITHOUT_LOG),
            }
        }
        Engine::Postgres => {
            let asked_at = clock.monotonic();
            let mut rows = reader.conn.query(HEAD_POSTGRES, &[&workspace])?;
            let row = rows.first_mut().ok_or_else(|| Error::internal("the database returned no time"))?;
            clock.follow_database(row.take()?, asked_at);
            (row.take()?, Epochs::take(row)?)
        }
    };
    reader.cache.borrow_mut().check(workspace, lsn, epochs);
    Ok(lsn)
}

const HEAD_SQLITE: &str = "select lsn, epoch, rules_epoch from heads where workspace_id = $1";

/// Also selects the database's time, which all servers use. Returns a row even if there is no log, with the
/// position 0 and epochs that match no cache.
const HEAD_POSTGRES: &str = "
    select cast(extract(epoch from clock_timestamp()) * 1000000 as bigint),
           coalesce(h.lsn, 0), coalesce(h.epoch, -1), coalesce(h.rules_epoch, -1)
    from (select 1) one left join heads h on h.workspace_id = $1";
