//! The caller of a message: its credential, its admission, and the data for the headers of its responses.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use secrecy::SecretString;
use svc_core::capability::Capabilities;
use svc_core::id::MemberId;
use svc_core::op::{Admission, AdmissionFailure, Credential, Input, Operation, Reply, RequestHead, Surface};
use svc_core::ops::{Bearer, BegunSubscription, Subscription, WAIT_FOR_EVENT, WHOAMI};
use svc_core::{Code, Error, Holder, LimitState, Peer, Result, Service};
use tokio::time::{Instant, sleep_until, timeout};

/// The path recorded in the audit trail for tool calls.
const PATH: &str = "/mcp";

/// The caller of a request, for a server with many callers.
///
/// Clones share the state of the request.
#[derive(Clone, Debug)]
pub struct Principal {
    head: Arc<RequestHead>,
    admission: Arc<Mutex<MessageAdmission>>,
    holder: Option<Holder>,
    standings: Arc<[LimitState]>,
    /// The time at which its waits end, whatever timeout they request.
    deadline: Option<Instant>,
    room_lsn: Arc<AtomicI64>,
    /// The address at which it has reached the service; empty if that is not known.
    address: Arc<str>,
}

/// The admission of a message. The message is counted and audited once, with its first request to the core.
#[derive(Debug, Default)]
enum MessageAdmission {
    /// Not admitted: each request to the core is admitted separately.
    #[default]
    Never,
    /// Admitted, but without a request to the core so far.
    Unasked(Admission),
    /// Admitted, for follow-up requests to the core.
    RequestContext(Admission),
}

impl MessageAdmission {
    /// Returns the admission for the next request to the core.
    fn next(&mut self) -> Option<Admission> {
        let (admission, follow_up) = match std::mem::take(self) {
            Self::Never => return None,
            Self::Unasked(admission) => (admission.clone(), admission.follow_up()),
            Self::RequestContext(admission) => (admission.clone(), admission),
        };
        *self = Self::RequestContext(follow_up);
        Some(admission)
    }
}

impl Principal {
    /// Creates the sender of `head` without admitting it.
    ///
    /// Each of its requests to the core is counted, and its credential is checked each time.
    pub fn new(head: RequestHead) -> Self {
        Self {
            head: head.into(),
            admission: Arc::default(),
            holder: None,
            standings: Arc::default(),
            deadline: None,
            room_lsn: Arc::new(AtomicI64::new(UNKNOWN_LSN)),
            address: Arc::default(),
        }
    }

    /// Sets the address at which it has reached the service, for links in its responses.
    #[must_use]
    pub fn reached_at(self, address: &str) -> Self {
        Self { address: address.into(), ..self }
    }

    /// Returns that address; empty if it is not known.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Admits the sender of `head` for one message, which is counted. Fails unless the credential is live.
    pub async fn admitted(
        service: &Service,
        head: RequestHead,
    ) -> std::result::Result<Self, AdmissionFailure> {
        Self::new(head).again(service).await
    }

    /// Admits the same sender for one more message, which is counted.
    pub async fn again(&self, service: &Service) -> std::result::Result<Self, AdmissionFailure> {
        let admission = service.admit(None, self.head.as_ref().clone()).await?;
        let holder = admission.holder();
        let standings = admission.standings().into();
        let admission = Arc::new(Mutex::new(MessageAdmission::Unasked(admission)));
        Ok(Self { admission, holder, standings, ..self.clone() })
    }

    /// Returns it admitted, so that all of its requests for one message count once.
    pub(crate) async fn once(&self, service: &Service) -> Result<Self> {
        let is_admitted = !matches!(*self.lock(), MessageAdmission::Never);
        if is_admitted { Ok(self.clone()) } else { Ok(self.again(service).await?) }
    }

    /// Sets a common deadline for all waits, so that together they take no longer than one.
    #[must_use]
    pub fn until(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// Returns the holder of its requests' share of a ceiling, if it was admitted.
    pub fn holder(&self) -> Option<Holder> {
        self.holder
    }

    /// Returns a hash that is shared by all requests of this credential, and by no others.
    pub fn mark(&self) -> [u8; 32] {
        self.head.credential.mark()
    }

    /// Returns the remaining quotas that the message counts against, if it was admitted.
    pub fn standings(&self) -> &[LimitState] {
        &self.standings
    }

    /// Returns whether the message has made no request to the core, which would check its credential again.
    pub fn is_unasked(&self) -> bool {
        matches!(*self.lock(), MessageAdmission::Unasked(_))
    }

    /// Makes a request to the core for a message that has made none, so that it is recorded like any other.
    ///
    /// Fails if the credential has ended.
    pub async fn confirm(&self, service: &Service) -> Result<()> {
        if self.is_unasked() {
            self.capabilities(service).await?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, MessageAdmission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the admission for the next request to the core, and admits that request itself if necessary.
    async fn admission(&self, service: &Service, operation: Option<&Operation>) -> Result<Admission> {
        let admission = self.lock().next();
        match admission {
            Some(admission) => Ok(admission),
            None => Ok(service.admit(operation, self.head.as_ref().clone()).await?),
        }
    }

    /// Creates the caller for the bearer of `token` on this machine.
    pub(crate) fn local(token: SecretString) -> Self {
        Self::new(head(Credential::Bearer(token), None))
    }

    /// Returns the last position in the log of the bearer's workspace, as of the core's last reply.
    pub fn room_lsn(&self) -> Option<i64> {
        Some(self.room_lsn.load(Ordering::Relaxed)).filter(|lsn| *lsn != UNKNOWN_LSN)
    }

    /// Returns the same, and queries the core if it has not replied so far; `None` if the core refuses or
    /// takes long.
    pub async fn room_lsn_by_now(&self, service: &Service) -> Option<i64> {
        if self.room_lsn().is_none() {
            // If the query is refused, the answer to the request reports why.
            let _ = timeout(ASK_MAX, self.capabilities(service)).await;
        }
        self.room_lsn()
    }

    pub(crate) fn record_lsn(&self, lsn: Option<i64>) {
        self.room_lsn.store(lsn.unwrap_or(UNKNOWN_LSN), Ordering::Relaxed);
    }

    /// Resolves at the deadline, or never without one.
    pub(crate) async fn deadline_passed(&self) {
        match self.deadline {
            Some(deadline) => sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }

    /// Returns the current data of the credential's bearer.
    pub(crate) async fn bearer(&self, service: &Service) -> Result<Bearer> {
        let admission = self.admission(service, Some(WHOAMI.operation(service.table())?)).await?;
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

    /// Returns the error for a message that calls no operation or cannot be read.
    ///
    /// That is `refusal`, or else the error of the credential if that has ended.
    pub async fn refuse(&self, service: &Service, refusal: Error) -> Error {
        let error = match self.admission(service, None).await {
            Ok(admission) => service.refuse(None, admission, refusal).await,
            Err(error) => error,
        };
        self.record_lsn(error.room_lsn());
        error
    }

    /// Returns whether it sent no credential and acts as no member.
    pub(crate) fn is_anonymous(&self) -> bool {
        matches!(self.head.credential, Credential::Anonymous(_))
    }

    /// Begins a subscription to the log.
    pub(crate) async fn subscribe(
        &self,
        service: &Service,
        wanted: Subscription,
    ) -> Result<BegunSubscription> {
        service.subscribe(self.follower(service).await?, wanted).await
    }

    /// Subscribes its token to an address, or ends the subscription.
    pub(crate) async fn set_resource_subscription(
        &self,
        service: &Service,
        uri: &str,
        is_wanted: bool,
    ) -> Result<()> {
        let admission = self.follower(service).await?;
        service.resource_subscriptions().set(admission, uri.to_owned(), is_wanted).await
    }

    /// Returns the addresses to which its token is subscribed.
    pub(crate) async fn resource_subscriptions(&self, service: &Service) -> Result<Vec<String>> {
        service.resource_subscriptions().of(self.follower(service).await?).await
    }

    async fn follower(&self, service: &Service) -> Result<Admission> {
        self.admission(service, Some(WAIT_FOR_EVENT.operation(service.table())?)).await
    }

    /// Returns the current capabilities of the bearer.
    pub(crate) async fn capabilities(&self, service: &Service) -> Result<Capabilities> {
        if self.is_anonymous() {
            // An anonymous caller cannot be looked up.
            return Ok(Capabilities::of_anonymous());
        }
        Ok(self.bearer(service).await?.capabilities)
    }

    /// Returns whether its credential has ended. An anonymous caller has none that could end.
    pub async fn has_ended(&self, service: &Service) -> bool {
        self.capabilities(service).await.is_err_and(|error| error.code() == Code::Unauthenticated)
    }

    /// Returns the member that the bearer acts as.
    pub(crate) async fn member(&self, service: &Service) -> Result<MemberId> {
        Ok(self.bearer(service).await?.member_id)
    }
}

/// Creates the head of a request over MCP.
pub fn head(credential: Credential, peer: Option<Peer>) -> RequestHead {
    RequestHead { credential, surface: Surface::Mcp, path: PATH.to_owned(), peer }
}

/// How long the head of a response waits for the last position in the log.
const ASK_MAX: Duration = Duration::from_millis(200);

/// Marks that the last position in the log is not known.
const UNKNOWN_LSN: i64 = -1;
