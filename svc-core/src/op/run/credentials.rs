//! Admission by credential: whom a request is charged to, and a cache of live tokens.
//!
//! With the cache, a known token is admitted without a statement. The cache only admits and is never final:
//! an entry is used for 10 seconds after a transaction has found the token live, and is removed by the first
//! that finds it dead. A token that is not cached is looked up whatever its address has done, so only a few
//! lookups run at a time, and addresses take turns: made-up tokens wait for each other, and take no reader
//! away from known ones.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use super::call::Call;
use super::{Admission, pipeline};
use crate::capability::Needs;
use crate::error::{Code, Error, Result};
use crate::id::TokenId;
use crate::log::cache::ReaderCache;
use crate::op::call::caller::{Caller, unauthenticated};
use crate::rate::{Client, RateLimits};
use crate::store::executor::{ReadTask, Reader, Task};
use crate::sync::lock;
use crate::time::{Monotonic, Time};

/// The hash of a token's secret.
pub(super) type SecretHash = [u8; 32];

/// Most cached tokens; a fuller cache starts over.
const KNOWN_MAX: usize = 100_000;

/// How long after a token was found live it is admitted from the cache.
const CONFIRMED_FOR: Duration = Duration::from_secs(10);
/// Most lookups in progress.
const LOOKUPS_MAX: usize = 64;
/// Most queued lookups of one address: more than the connections that it may have.
const WAITING_OF_ONE_MAX: usize = 4096;
/// Most queued lookups of all addresses.
const WAITING_MAX: usize = 16_384;

/// The outcome of a lookup of a credential.
#[derive(Clone)]
pub(super) enum Found {
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

impl Found {
    /// Returns the caller, or rejects the request if the credential that it needs is unknown or missing.
    pub fn caller(&self, needs: Needs) -> Result<Caller> {
        match self {
            Self::Token(known) => Ok(known.caller.clone()),
            Self::Unknown => Err(unauthenticated("the token is unknown")),
            Self::Nothing => anonymous(needs),
        }
    }

    /// Returns the token, if it is live.
    fn live(&self, now: Time) -> Option<&KnownToken> {
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
    Err(unauthenticated("send a token as `Authorization: Bearer`"))
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
    pub fn charge(&mut self, found: &Found) -> Result<()> {
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

/// The cache of live tokens, and the lookups of others.
#[derive(Default)]
pub(crate) struct Credentials {
    cached: RwLock<HashMap<SecretHash, Arc<KnownToken>>>,
    pub(super) lookups: Lookups<Box<AdmitCall>>,
}

impl Credentials {
    /// Returns the token, if it is cached and was found live a moment ago.
    pub(super) fn get(&self, hash: &SecretHash, now: Monotonic) -> Option<Arc<KnownToken>> {
        let cached = self.cached.read().unwrap_or_else(PoisonError::into_inner);
        cached.get(hash).filter(|known| known.is_fresh(now)).cloned()
    }

    fn insert(&self, known: Arc<KnownToken>) {
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

/// Where lookups come from: an address; none if it is not known.
type Source = Option<Client>;

/// The lookups in progress, and those that are queued.
pub(super) struct Lookups<T>(Mutex<Queues<T>>);

struct Queues<T> {
    running: usize,
    waiting: HashMap<Source, VecDeque<T>>,
    /// The sources with queued lookups, in the order of their turns.
    turns: VecDeque<Source>,
    count: usize,
}

/// The outcome of starting a lookup.
pub(super) enum LookupStart<T> {
    /// This lookup must be run now: the new one, or one that was queued before it.
    Now(T),
    Queued,
    /// Too many are queued.
    Rejected(T),
}

impl<T> Default for Lookups<T> {
    fn default() -> Self {
        let (waiting, turns) = (HashMap::new(), VecDeque::new());
        Self(Mutex::new(Queues { running: 0, waiting, turns, count: 0 }))
    }
}

impl<T> Lookups<T> {
    pub fn begin(&self, source: Source, lookup: T) -> LookupStart<T> {
        let mut queues = lock(&self.0);
        if queues.count >= WAITING_MAX {
            return LookupStart::Rejected(lookup);
        }
        let queue = queues.waiting.entry(source).or_default();
        if queue.len() >= WAITING_OF_ONE_MAX {
            return LookupStart::Rejected(lookup);
        }
        queue.push_back(lookup);
        if queue.len() == 1 {
            queues.turns.push_back(source);
        }
        queues.count += 1;
        if queues.running >= LOOKUPS_MAX {
            return LookupStart::Queued;
        }
        queues.running += 1;
        queues.next().map_or(LookupStart::Queued, LookupStart::Now)
    }

    /// Ends a lookup and returns the next one, which is in progress in its place.
    fn end(&self) -> Option<T> {
        let mut queues = lock(&self.0);
        let next = queues.next();
        if next.is_none() {
            queues.running = queues.running.saturating_sub(1);
        }
        next
    }

    /// Ends a lookup that got no reader.
    ///
    /// Returns the queued lookups if none in progress is left that would start them when it ends.
    fn end_without_reader(&self) -> Vec<T> {
        let mut queues = lock(&self.0);
        queues.running = queues.running.saturating_sub(1);
        let left = if queues.running == 0 { queues.count } else { 0 };
        (0..left).map_while(|_| queues.next()).collect()
    }
}

impl<T> Queues<T> {
    /// Takes the oldest lookup of the source whose turn it is.
    fn next(&mut self) -> Option<T> {
        let source = self.turns.pop_front()?;
        let queue = self.waiting.get_mut(&source)?;
        let next = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&source);
        } else {
            self.turns.push_back(source);
        }
        self.count = self.count.saturating_sub(1);
        next
    }
}

/// Receives an admission. Called on a core thread: it must only hand it on.
pub(crate) type Admitted = Box<dyn FnOnce(Result<Admission>) + Send>;

/// Looks up a token in the database, and admits its request.
pub(super) struct AdmitCall {
    /// The call, whose caller is not known yet.
    pub call: Call,
    pub hash: SecretHash,
    pub peer: Option<IpAddr>,
    pub charged: bool,
    pub found: Found,
    pub admission: Admission,
    pub done: Admitted,
}

impl AdmitCall {
    /// Admits or rejects the request by what was found, after the transaction.
    fn admit(&self) -> Result<()> {
        let (limits, needs) = (&self.call.dispatch.limits, self.call.needs);
        let mut gate = Gate { limits, needs, peer: self.peer, now: self.now(), charged: self.charged };
        pipeline::admit(&mut gate, &self.found)
    }

    /// Returns the time of the transaction.
    fn now(&self) -> Time {
        self.call.entered().map_or_else(|_| self.call.dispatch.clock.now(), |entered| entered.now)
    }
}

impl ReadTask<ReaderCache> for AdmitCall {
    fn run(&mut self, reader: &Reader<ReaderCache>) -> Result<()> {
        (self.found, self.call.entered) = (Found::Unknown, None);
        let caller = match Caller::by_secret(&reader.conn, &self.hash) {
            Ok(caller) => caller,
            Err(error) if error.code() == Code::Unauthenticated => return Ok(()),
            Err(error) => return Err(error),
        };
        let root = caller.root(&reader.conn)?;
        self.call.entered = Some(self.call.entered_in(reader, caller.clone())?);
        let confirmed = AtomicU64::new(self.call.dispatch.clock.monotonic().micros());
        self.found = Found::Token(Arc::new(KnownToken { hash: self.hash, caller, root, confirmed }));
        Ok(())
    }
}

impl Task for AdmitCall {
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
                let waited = dispatch.credentials.lookups.end_without_reader();
                waited.into_iter().for_each(|lookup| (lookup.done)(Err(error.clone())));
            }
            _ => {
                let next = dispatch.credentials.lookups.end();
                next.into_iter().for_each(|lookup| dispatch.executor.read(lookup, false));
            }
        }
        self.settle(outcome);
    }
}

impl AdmitCall {
    fn settle(self, outcome: Result<()>) {
        let outcome = outcome.and_then(|()| self.admit());
        let now = self.now();
        let Self { call, hash, found, admission, done, .. } = self;
        let credentials = &call.dispatch.credentials;
        match &found {
            Found::Token(known) if found.live(now).is_some() => credentials.insert(Arc::clone(known)),
            _ => credentials.remove(&hash),
        }
        match (found, outcome) {
            (Found::Token(known), Ok(())) => done(Ok(admission.of_token(known))),
            (_, Ok(())) => done(Err(Error::internal("a request was admitted by an unknown token"))),
            (_, Err(error)) => call.refuse(error, move |error| done(Err(error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_lookups_are_under_way_and_each_address_has_its_turn() {
        let peer = |number: u8| Some(Client::at(IpAddr::from([192, 0, 2, number])));
        let lookups = Lookups::<usize>::default();
        for number in 0..LOOKUPS_MAX {
            assert!(matches!(lookups.begin(peer(1), number), LookupStart::Now(now) if now == number));
        }
        for number in 0..WAITING_OF_ONE_MAX {
            assert!(matches!(lookups.begin(peer(1), number), LookupStart::Queued));
        }
        assert!(matches!(lookups.begin(peer(1), 7), LookupStart::Rejected(7)));
        assert!(
            matches!(lookups.begin(peer(2), 9_000), LookupStart::Queued),
            "another address has a queue of its own"
        );
        assert_eq!([lookups.end(), lookups.end(), lookups.end()], [Some(0), Some(9_000), Some(1)]);
        for _ in 1..LOOKUPS_MAX {
            assert!(lookups.end_without_reader().is_empty(), "those that are left start the others");
        }
        assert_eq!(lookups.end_without_reader().len(), WAITING_OF_ONE_MAX - 2);
        assert!(matches!(lookups.begin(peer(1), 8), LookupStart::Now(8)), "all slots are free again");
        assert_eq!(lookups.end(), None);
    }
}
