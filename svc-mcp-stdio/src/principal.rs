//! Represents the caller of a message: the credential, the admission of the message, and data for response
//! headers.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use secrecy::SecretString;
use svc_core::api::{WaitForEvent, Whoami};
use svc_core::capability::Capabilities;
use svc_core::id::MemberId;
use svc_core::op::{Admission, AdmissionFailure, Credential, Input, Operation, Reply, RequestHead, Surface};
use svc_core::ops::{Bearer, BegunSubscription, Subscription};
use svc_core::{Code, Error, Holder, LimitState, Peer, Result, Service};
use tokio::time::{Instant, sleep_until, timeout};

/// Path that the audit trail records for tool calls.
const AUDIT_PATH: &str = "/mcp";

/// Caller of a message, identified by a credential.
///
/// Clones share the admission of the message.
#[derive(Clone, Debug)]
pub struct Principal {
    head: Arc<RequestHead>,
    admission: Arc<Mutex<MessageAdmission>>,
    holder: Option<Holder>,
    limit_states: Arc<[LimitState]>,
    /// Time at which the caller's waits end, whatever timeout a wait requests.
    deadline: Option<Instant>,
    room_lsn: Arc<AtomicI64>,
    /// URL under which the caller has reached the service; empty if the URL is unknown.
    address: Arc<str>,
}

/// Admission of a message. The message is counted and audited once, with the first request that it makes to
/// the core.
#[derive(Debug, Default)]
enum MessageAdmission {
    /// The message is not admitted: each request to the core is admitted separately.
    #[default]
    NotAdmitted,
    /// The message is admitted, and has not made a request to the core yet.
    Unused(Admission),
    /// The message is admitted and has made a request to the core; later requests use this admission.
    Used(Admission),
}

impl MessageAdmission {
    /// Returns the admission for the next request to the core.
    fn next(&mut self) -> Option<Admission> {
        let (admission, follow_up) = match std::mem::take(self) {
            Self::NotAdmitted => return None,
            Self::Unused(admission) => (admission.clone(), admission.follow_up()),
            Self::Used(admission) => (admission.clone(), admission),
        };
        *self = Self::Used(follow_up);
        Some(admission)
    }
}

impl Principal {
    /// Creates the caller for a request head, without admitting a message.
    ///
    /// The core counts each request of the caller separately, and checks the credential each time.
    pub fn new(head: RequestHead) -> Self {
        Self {
            head: head.into(),
            admission: Arc::default(),
            holder: None,
            limit_states: Arc::default(),
            deadline: None,
            room_lsn: Arc::new(AtomicI64::new(UNKNOWN_LSN)),
            address: Arc::default(),
        }
    }

    /// Sets the URL under which the caller has reached the service, for links in responses.
    #[must_use]
    pub fn with_address(self, address: &str) -> Self {
        Self { address: address.into(), ..self }
    }

    /// Returns the URL under which the caller has reached the service; empty if the URL is unknown.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Creates the caller for a request head, and admits and counts one message. Fails unless the credential
    /// is live.
    pub async fn admitted(
        service: &Service,
        head: RequestHead,
    ) -> std::result::Result<Self, AdmissionFailure> {
        Self::new(head).admit_next(service).await
    }

    /// Admits and counts another message of the same caller.
    pub async fn admit_next(&self, service: &Service) -> std::result::Result<Self, AdmissionFailure> {
        let admission = service.admit(None, self.head.as_ref().clone()).await?;
        let holder = admission.holder();
        let limit_states = admission.limit_states().into();
        let admission = Arc::new(Mutex::new(MessageAdmission::Unused(admission)));
        Ok(Self { admission, holder, limit_states, ..self.clone() })
    }

    /// Returns the caller with an admitted message, so that all requests to the core for this message count
    /// as one.
    pub(crate) async fn with_admission(&self, service: &Service) -> Result<Self> {
        let is_admitted = !matches!(*self.lock(), MessageAdmission::NotAdmitted);
        if is_admitted { Ok(self.clone()) } else { Ok(self.admit_next(service).await?) }
    }

    /// Sets a common deadline for all waits of the caller, so that all waits together take no longer than one
    /// wait.
    #[must_use]
    pub fn with_deadline(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Returns the holder to which slots for the caller's requests are charged, or `None` if the message was
    /// not admitted.
    pub fn holder(&self) -> Option<Holder> {
        self.holder
    }

    /// Returns a hash that identifies the credential. Requests have the same hash exactly if they have the
    /// same credential.
    pub fn credential_hash(&self) -> [u8; 32] {
        self.head.credential.mark()
    }

    /// Returns the remaining quotas of the rate limits that the message counts against; empty if the message
    /// was not admitted.
    pub fn limit_states(&self) -> &[LimitState] {
        &self.limit_states
    }

    /// Returns whether the message is admitted but has not made a request to the core, which would record the
    /// message.
    pub fn is_unrecorded(&self) -> bool {
        matches!(*self.lock(), MessageAdmission::Unused(_))
    }

    /// Makes a request to the core if the message has made none, so that the core records the message.
    ///
    /// Fails if the credential has ended.
    pub async fn ensure_recorded(&self, service: &Service) -> Result<()> {
        if self.is_unrecorded() {
            self.capabilities(service).await?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, MessageAdmission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the admission for the next request to the core. If the message is not admitted, admits this
    /// request separately.
    async fn admission(&self, service: &Service, operation: Option<&Operation>) -> Result<Admission> {
        let admission = self.lock().next();
        match admission {
            Some(admission) => Ok(admission),
            None => Ok(service.admit(operation, self.head.as_ref().clone()).await?),
        }
    }

    /// Creates the principal for the token of this process.
    pub(crate) fn for_local_token(token: SecretString) -> Self {
        Self::new(head(Credential::Bearer(token), None))
    }

    /// Returns the last position in the log of the caller's workspace, as of the core's last reply.
    pub fn room_lsn(&self) -> Option<i64> {
        Some(self.room_lsn.load(Ordering::Relaxed)).filter(|lsn| *lsn != UNKNOWN_LSN)
    }

    /// Returns the last position in the log, after a query to the core if no reply has contained the position
    /// yet. Returns `None` if the query is refused or takes too long.
    pub async fn query_room_lsn(&self, service: &Service) -> Option<i64> {
        if self.room_lsn().is_none() {
            // If this query is refused, the answer to the request reports the reason.
            let _ = timeout(POSITION_QUERY_TIMEOUT, self.capabilities(service)).await;
        }
        self.room_lsn()
    }

    pub(crate) fn record_lsn(&self, lsn: Option<i64>) {
        self.room_lsn.store(lsn.unwrap_or(UNKNOWN_LSN), Ordering::Relaxed);
    }

    /// Resolves at the deadline of the caller's waits. Never resolves if the caller has no deadline.
    pub(crate) async fn wait_for_deadline(&self) {
        match self.deadline {
            Some(deadline) => sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }

    /// Returns the current data of the member that the credential acts as.
    pub(crate) async fn current_bearer(&self, service: &Service) -> Result<Bearer> {
        let admission = self.admission(service, Some(service.table().operation_of::<Whoami>()?)).await?;
        let reply = service.bearer(admission.without_operation()).await?;
        self.record_lsn(reply.lsn);
        Ok(reply.output)
    }

    pub(crate) async fn request(
        &self,
        service: &Service,
        operation: &Arc<Operation>,
        input: &Input,
    ) -> Result<Reply> {
        let admission = self.admission(service, Some(operation)).await?;
        service.run(operation, admission, input).await
    }

    /// Returns the error for a message that calls no operation or cannot be parsed.
    ///
    /// The error is `refusal`, or the error of the credential if the credential has ended.
    pub async fn refuse(&self, service: &Service, refusal: Error) -> Error {
        let error = match self.admission(service, None).await {
            Ok(admission) => service.refuse(None, admission, refusal).await,
            Err(error) => error,
        };
        self.record_lsn(error.room_lsn());
        error
    }

    /// Returns whether the caller sent no credential and does not act as a member.
    pub(crate) fn is_anonymous(&self) -> bool {
        matches!(self.head.credential, Credential::Anonymous(_))
    }

    /// Begins a subscription of the caller to the log.
    pub(crate) async fn subscribe(
        &self,
        service: &Service,
        wanted: Subscription,
    ) -> Result<BegunSubscription> {
        service.subscribe(self.subscription_admission(service).await?, wanted).await
    }

    /// Subscribes the caller's token to a resource, or ends the subscription.
    pub(crate) async fn set_resource_subscription(
        &self,
        service: &Service,
        uri: &str,
        is_wanted: bool,
    ) -> Result<()> {
        let admission = self.subscription_admission(service).await?;
        service.resource_subscriptions().set(admission, uri.to_owned(), is_wanted).await
    }

    /// Returns the addresses of the resources that the caller's token is subscribed to.
    pub(crate) async fn resource_subscriptions(&self, service: &Service) -> Result<Vec<String>> {
        service.resource_subscriptions().of(self.subscription_admission(service).await?).await
    }

    async fn subscription_admission(&self, service: &Service) -> Result<Admission> {
        self.admission(service, Some(service.table().operation_of::<WaitForEvent>()?)).await
    }

    /// Returns the current capabilities of the caller.
    pub(crate) async fn capabilities(&self, service: &Service) -> Result<Capabilities> {
        if self.is_anonymous() {
            // An anonymous caller cannot be looked up.
            return Ok(Capabilities::for_anonymous());
        }
        Ok(self.current_bearer(service).await?.capabilities)
    }

    /// Returns whether the caller's credential has ended; false for an anonymous caller.
    pub async fn has_credential_ended(&self, service: &Service) -> bool {
        self.capabilities(service).await.is_err_and(|error| error.code() == Code::Unauthenticated)
    }

    /// Returns the member that the caller acts as.
    pub(crate) async fn member(&self, service: &Service) -> Result<MemberId> {
        Ok(self.current_bearer(service).await?.member_id)
    }
}

/// Creates the request head for a request over MCP.
pub fn head(credential: Credential, peer: Option<Peer>) -> RequestHead {
    RequestHead { credential, surface: Surface::Mcp, path: AUDIT_PATH.to_owned(), peer }
}

/// Maximum time that a response head waits for the query of the last position in the log.
const POSITION_QUERY_TIMEOUT: Duration = Duration::from_millis(200);

/// Value that represents an unknown last position in the log.
const UNKNOWN_LSN: i64 = -1;
