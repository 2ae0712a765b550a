//! A cache of live credentials, and the charging of requests to their payers.
//!
//! With the cache, the server admits a known credential without a query. The cache only admits and is never
//! final: the server uses an entry for 10 seconds after a transaction has found the credential live, and the
//! first transaction that finds it not live removes the entry.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::capability::Needs;
use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::op::call::caller::{Caller, CredentialKind, unauthenticated};
use crate::op::call::credential::CredentialKey;
use crate::rate::{ChargeResult, Client, Payer, Peer, RateLimits};
use crate::time::{Monotonic, Time};

/// Maximum number of cached credentials. When the cache is full, all entries are removed.
const CACHED_CREDENTIALS_MAX: usize = 100_000;

/// Time for which the cache admits a credential after a transaction has found it live.
const CONFIRMATION_LIFETIME: Duration = Duration::from_secs(10);

/// The outcome of looking up a credential.
#[derive(Clone)]
pub(super) enum CredentialLookup {
    /// The credential is in the database, live or not.
    Known(Arc<KnownCredential>),
    /// The credential is not in the database. Contains the error to return.
    Unknown(Error),
    /// The request sent no credential.
    Nothing,
}

/// A credential that a transaction has looked up, with its caller and its payer.
#[derive(Debug)]
pub(crate) struct KnownCredential {
    pub(super) key: CredentialKey,
    pub(super) caller: Caller,
    /// The payer of the credential's requests.
    payer: Payer,
    /// The time at which a transaction last found the credential live, in microseconds of the monotonic
    /// clock.
    confirmed: AtomicU64,
}

impl KnownCredential {
    /// Creates the entry for a credential that a transaction has just looked up.
    pub(super) fn new(key: CredentialKey, caller: Caller, payer: Payer, now: Monotonic) -> Self {
        Self { key, caller, payer, confirmed: AtomicU64::new(now.micros()) }
    }

    /// Returns the client that the credential's requests are charged to, or `None` if they are charged to the
    /// sender's address.
    pub(crate) fn client(&self) -> Option<Client> {
        self.payer.client
    }

    /// Returns the workspace that the credential's work is charged to.
    pub(crate) fn charged_to(&self) -> WorkspaceId {
        self.payer.workspace
    }

    /// Returns whether responses report the remaining quotas of the credential.
    ///
    /// Returns `false` for a share ticket, because the quotas would show how busy the workspace is.
    pub(super) fn shows_quotas(&self) -> bool {
        !matches!(self.caller.via, CredentialKind::Ticket(_))
    }

    /// Records that a transaction has found the credential live.
    pub(super) fn confirm(&self, now: Monotonic) {
        self.confirmed.store(now.micros(), Ordering::Relaxed);
    }

    /// Returns whether a transaction has found the credential live a moment ago.
    fn is_fresh(&self, now: Monotonic) -> bool {
        let age = now.micros().saturating_sub(self.confirmed.load(Ordering::Relaxed));
        u128::from(age) < CONFIRMATION_LIFETIME.as_micros()
    }
}

impl CredentialLookup {
    /// Returns the caller. Fails if the credential is unknown, or if it is missing and the operation needs
    /// one.
    pub fn caller(&self, needs: Needs) -> Result<Caller> {
        match self {
            Self::Known(known) => Ok(known.caller.clone()),
            Self::Unknown(error) => Err(error.clone()),
            Self::Nothing => anonymous_if_allowed(needs),
        }
    }

    /// Returns the credential if it is live at `now`.
    pub fn live(&self, now: Time) -> Option<&KnownCredential> {
        match self {
            Self::Known(known) if known.caller.check_live(now).is_ok() => Some(known),
            _ => None,
        }
    }
}

/// Returns the anonymous caller. Fails with 401 `unauthenticated` if the operation needs a credential.
pub(super) fn anonymous_if_allowed(needs: Needs) -> Result<Caller> {
    if needs == Needs::Nothing {
        return Ok(Caller::anonymous());
    }
    Err(unauthenticated("the request has no token"))
}

/// The data for admitting one request: its limits, its requirements, and whether it was counted.
pub(super) struct AdmissionCheck<'a> {
    pub limits: &'a RateLimits,
    pub needs: Needs,
    pub peer: Option<Peer>,
    pub now: Time,
    /// Result of counting the request against the rate limits, or `None` before that.
    pub charge_result: Option<ChargeResult>,
}

impl AdmissionCheck<'_> {
    /// Counts the request against the rate limits, once. Fails if a limit is exceeded.
    ///
    /// A request with a live credential is charged to the bearer and to the bearer's workspace; any other
    /// request is charged to the sender's address. So neither other callers at the same address nor a
    /// credential that has ended can use up a client's limit.
    pub fn charge(&mut self, lookup: &CredentialLookup) -> Result<()> {
        if self.charge_result.is_some() {
            return Ok(());
        }
        let charge_result = self.charge_result.insert(ChargeResult::default());
        match lookup.live(self.now) {
            Some(known) => {
                self.limits.charge_payer(&known.payer, self.peer, charge_result)?;
                self.limits.charge_workspace(known.charged_to(), charge_result)
            }
            None => self.peer.map_or(Ok(()), |peer| self.limits.charge(Client::Peer(peer), charge_result)),
        }
    }
}

/// The cache of live credentials.
#[derive(Default)]
pub(super) struct Credentials {
    cached: RwLock<HashMap<CredentialKey, Arc<KnownCredential>>>,
}

impl Credentials {
    /// Returns the credential if it is cached and was found live a moment ago.
    pub(super) fn get(&self, key: &CredentialKey, now: Monotonic) -> Option<Arc<KnownCredential>> {
        let cached = self.cached.read().unwrap_or_else(PoisonError::into_inner);
        cached.get(key).filter(|known| known.is_fresh(now)).cloned()
    }

    /// Adds a credential that a transaction has found live.
    pub(super) fn insert(&self, known: Arc<KnownCredential>) {
        let mut cached = self.cached.write().unwrap_or_else(PoisonError::into_inner);
        if cached.len() >= CACHED_CREDENTIALS_MAX {
            cached.clear();
        }
        cached.insert(known.key, known);
    }

    /// Removes a credential from the cache, after a transaction has found it not live.
    pub(super) fn remove(&self, key: &CredentialKey) {
        self.cached.write().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}
