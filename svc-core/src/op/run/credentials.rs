//! Credentials: whom a request is charged to, and a cache of live tokens.
//!
//! With the cache, a known token is admitted without a statement. The cache only admits and is never final:
//! an entry is used for 10 seconds after a transaction has found the token live, and is removed by the first
//! that finds it dead.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use crate::capability::Needs;
use crate::error::Result;
use crate::id::TokenId;
use crate::op::call::caller::{Caller, unauthenticated};
use crate::rate::{Client, RateLimits};
use crate::time::{Monotonic, Time};

/// The hash of a token's secret.
pub(super) type SecretHash = [u8; 32];

/// Most cached tokens; a fuller cache starts over.
const KNOWN_MAX: usize = 100_000;

/// How long after a token was found live it is admitted from the cache.
const CONFIRMED_FOR: Duration = Duration::from_secs(10);
/// The outcome of a lookup of a credential.
#[derive(Clone)]
pub(super) enum CredentialLookup {
    /// A token that the database has, live or dead.
    Token(Arc<KnownToken>),
    /// A token that the database does not have.
    Unknown,
    /// None was sent.
    Nothing,
}

/// A token, as a transaction has found it.
#[derive(Debug)]
pub(crate) struct KnownToken {
    pub(super) hash: SecretHash,
    pub(super) caller: Caller,
    /// The root of the tokens that it was derived from.
    root: TokenId,
    /// When a transaction last found it live, in microseconds of the monotonic clock.
    confirmed: AtomicU64,
}

impl KnownToken {
    /// Creates the entry of a token that a transaction finds live now.
    pub(super) fn new(hash: SecretHash, caller: Caller, root: TokenId, now: Monotonic) -> Self {
        Self { hash, caller, root, confirmed: AtomicU64::new(now.micros()) }
    }

    /// Returns the client that its requests are charged to.
    pub(crate) fn client(&self) -> Client {
        Client::Token(self.root)
    }

    /// Records that a transaction has found the token live.
    pub(super) fn confirm(&self, now: Monotonic) {
        self.confirmed.store(now.micros(), Ordering::Relaxed);
    }

    fn is_fresh(&self, now: Monotonic) -> bool {
        let age = now.micros().saturating_sub(self.confirmed.load(Ordering::Relaxed));
        u128::from(age) < CONFIRMED_FOR.as_micros()
    }
}

impl CredentialLookup {
    /// Returns the caller, or rejects the request if the credential that it needs is unknown or missing.
    pub fn caller(&self, needs: Needs) -> Result<Caller> {
        match self {
            Self::Token(known) => Ok(known.caller.clone()),
            Self::Unknown => Err(unauthenticated("the token is unknown")),
            Self::Nothing => anonymous(needs),
        }
    }

    /// Returns the token, if it is live.
    pub fn live(&self, now: Time) -> Option<&KnownToken> {
        match self {
            Self::Token(known) if known.caller.check_live(now).is_ok() => Some(known),
            _ => None,
        }
    }
}

/// Returns the anonymous caller, if the operation needs no credential.
pub(super) fn anonymous(needs: Needs) -> Result<Caller> {
    if needs == Needs::Nothing {
        return Ok(Caller::nobody());
    }
    Err(unauthenticated("the request has no token"))
}

/// The checks that a request passes on admission.
pub(super) struct Gate<'a> {
    pub limits: &'a RateLimits,
    pub needs: Needs,
    pub peer: Option<IpAddr>,
    pub now: Time,
    /// The request has been counted.
    pub charged: bool,
}

impl Gate<'_> {
    /// Counts the request, or rejects it if a limit is exceeded; once only.
    ///
    /// It is charged to the bearer of a live token and to its workspace, otherwise to the address that it
    /// came from. So no client's limit is used up by others at its address, or by a dead token.
    pub fn charge(&mut self, found: &CredentialLookup) -> Result<()> {
        if std::mem::replace(&mut self.charged, true) {
            return Ok(());
        }
        match found.live(self.now) {
            Some(known) => {
                self.limits.charge(known.client())?;
                self.limits.charge_workspace(known.caller.workspace_id)
            }
            None => self.peer.map_or(Ok(()), |peer| self.limits.charge(Client::at(peer))),
        }
    }
}

/// The cache of live tokens.
#[derive(Default)]
pub(super) struct Credentials {
    cached: RwLock<HashMap<SecretHash, Arc<KnownToken>>>,
}

impl Credentials {
    /// Returns the token, if it is cached and was found live a moment ago.
    pub(super) fn get(&self, hash: &SecretHash, now: Monotonic) -> Option<Arc<KnownToken>> {
        let cached = self.cached.read().unwrap_or_else(PoisonError::into_inner);
        cached.get(hash).filter(|known| known.is_fresh(now)).cloned()
    }

    pub(super) fn insert(&self, known: Arc<KnownToken>) {
        let mut cached = self.cached.write().unwrap_or_else(PoisonError::into_inner);
        if cached.len() >= KNOWN_MAX {
            cached.clear();
        }
        cached.insert(known.hash, known);
    }

    /// Removes a token that was found dead.
    pub(super) fn remove(&self, hash: &SecretHash) {
        self.cached.write().unwrap_or_else(PoisonError::into_inner).remove(hash);
    }
}
