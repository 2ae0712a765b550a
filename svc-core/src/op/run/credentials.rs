//! Credentials as they come in: whom a request is charged to, and a cache of live tokens, so that a known one is let
//! in without a statement. The cache admits and never decides: an entry is used for 10 seconds after a transaction has
//! found the token live, and goes with the first that finds it dead. A token that is not cached is looked up whatever
//! its address has done, so only few are at a time, those of each address in turn: made-up ones wait for each other, and
//! take no reader from those that are known.

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

/// Cached tokens at the most; one more starts over.
const KNOWN_MAX: usize = 100_000;

/// How long after it was found live a token is let in from the cache.
const CONFIRMED_FOR: Duration = Duration::from_secs(10);
/// Lookups under way at the most.
const LOOKUPS_MAX: usize = 64;
/// Lookups that wait for those at the most: of one address, which is more than it may have connections, and of all.
const WAITING_OF_ONE_MAX: usize = 4096;
const WAITING_MAX: usize = 16_384;

/// What came of looking for a credential.
#[derive(Clone)]
pub(super) enum Found {
    /// A token of the database, live or dead.
    Token(Arc<KnownToken>),
    /// A token that the database does not have.
    Unknown,
    /// None was sent.
    Nothing,
}

/// A token.
#[derive(Debug)]
pub(crate) struct KnownToken {
    pub(super) hash: SecretHash,
    pub(super) caller: Caller,
    /// The token at the top of those it was derived from.
    root: TokenId,
    /// When a transaction last found it live, in microseconds of the monotonic clock.
    confirmed: AtomicU64,
}

impl KnownToken {
    /// Whom its requests are charged to.
    pub(crate) fn client(&self) -> Client {
        Client::Token(self.root)
    }

    /// A transaction has found the token live.
    pub(super) fn confirm(&self, now: Monotonic) {
        self.confirmed.store(now.micros(), Ordering::Relaxed);
    }

    fn is_fresh(&self, now: Monotonic) -> bool {
        let age = now.micros().saturating_sub(self.confirmed.load(Ordering::Relaxed));
        u128::from(age) < CONFIRMED_FOR.as_micros()
    }
}

impl Found {
    /// Who asks.
    pub fn caller(&self, needs: Needs) -> Result<Caller> {
        match self {
            Self::Token(known) => Ok(known.caller.clone()),
            Self::Unknown => Err(unauthenticated("the token is not known")),
            Self::Nothing => anonymous(needs),
        }
    }

    /// The token, if it is live.
    fn live(&self, now: Time) -> Option<&KnownToken> {
        match self {
            Self::Token(known) if known.caller.check_live(now).is_ok() => Some(known),
            _ => None,
        }
    }
}

/// The caller of an operation that asks for no credential.
pub(super) fn anonymous(needs: Needs) -> Result<Caller> {
    if needs == Needs::Nothing {
        return Ok(Caller::nobody());
    }
    Err(unauthenticated("send a token as `Authorization: Bearer`"))
}

/// What a request is let in by.
pub(super) struct Gate<'a> {
    pub limits: &'a RateLimits,
    pub needs: Needs,
    pub peer: Option<IpAddr>,
    pub now: Time,
    /// It was counted already.
    pub charged: bool,
}

impl Gate<'_> {
    /// Counts the request, once: for the bearer of a live token and its workspace, else for the address it came from.
    /// So nobody's limit is used up by others at its address, or by a dead token.
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
    /// The token, if it is cached and was found live a moment ago.
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

    /// The token was found dead.
    pub(super) fn remove(&self, hash: &SecretHash) {
        self.cached.write().unwrap_or_else(PoisonError::into_inner).remove(hash);
    }
}

/// Whose turn it is: an address, or nobody's in particular.
type Asker = Option<Client>;

/// Lookups under way, and those that wait for them.
pub(super) struct Lookups<T>(Mutex<Lines<T>>);

struct Lines<T> {
    running: usize,
    waiting: HashMap<Asker, VecDeque<T>>,
    /// Those who wait, in the order of their turns.
    turns: VecDeque<Asker>,
    count: usize,
}

/// What becomes of a lookup that has come.
pub(super) enum LookupStart<T> {
    /// This one is to be run now: it, or one that came before it.
    Now(T),
    Queued,
    /// Too many wait.
    Rejected(T),
}

impl<T> Default for Lookups<T> {
    fn default() -> Self {
        let (waiting, turns) = (HashMap::new(), VecDeque::new());
        Self(Mutex::new(Lines { running: 0, waiting, turns, count: 0 }))
    }
}

impl<T> Lookups<T> {
    pub fn begin(&self, asker: Asker, lookup: T) -> LookupStart<T> {
        let mut lines = lock(&self.0);
        if lines.count >= WAITING_MAX {
            return LookupStart::Rejected(lookup);
        }
        let line = lines.waiting.entry(asker).or_default();
        if line.len() >= WAITING_OF_ONE_MAX {
            return LookupStart::Rejected(lookup);
        }
        line.push_back(lookup);
        if line.len() == 1 {
            lines.turns.push_back(asker);
        }
        lines.count += 1;
        if lines.running >= LOOKUPS_MAX {
            return LookupStart::Queued;
        }
        lines.running += 1;
        lines.next().map_or(LookupStart::Queued, LookupStart::Now)
    }

    /// A lookup has ended; answers the next, which is under way in its place.
    fn end(&self) -> Option<T> {
        let mut lines = lock(&self.0);
        let next = lines.next();
        if next.is_none() {
            lines.running = lines.running.saturating_sub(1);
        }
        next
    }

    /// A lookup found no reader. Answers those that waited, if no other is left that would begin them when it ends.
    fn end_without_reader(&self) -> Vec<T> {
        let mut lines = lock(&self.0);
        lines.running = lines.running.saturating_sub(1);
        let left = if lines.running == 0 { lines.count } else { 0 };
        (0..left).map_while(|_| lines.next()).collect()
    }
}

impl<T> Lines<T> {
    /// The first of whose turn it is.
    fn next(&mut self) -> Option<T> {
        let asker = self.turns.pop_front()?;
        let line = self.waiting.get_mut(&asker)?;
        let next = line.pop_front();
        if line.is_empty() {
            self.waiting.remove(&asker);
        } else {
            self.turns.push_back(asker);
        }
        self.count = self.count.saturating_sub(1);
        next
    }
}

/// Where an admission goes. Called on a core thread: it must only hand it on.
pub(crate) type Admitted = Box<dyn FnOnce(Result<Admission>) + Send>;

/// Looks for a token in the database, and lets its request in.
pub(super) struct AdmitCall {
    /// Of a caller who is not known yet.
    pub call: Call,
    pub hash: SecretHash,
    pub peer: Option<IpAddr>,
    pub charged: bool,
    pub found: Found,
    pub admission: Admission,
    pub done: Admitted,
}

impl AdmitCall {
    /// Goes by what was found, after the transaction.
    fn admit(&self) -> Result<()> {
        let (limits, needs) = (&self.call.dispatch.limits, self.call.needs);
        let mut gate = Gate { limits, needs, peer: self.peer, now: self.now(), charged: self.charged };
        pipeline::admit(&mut gate, &self.found)
    }

    /// The moment of the transaction.
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
            (_, Ok(())) => done(Err(Error::internal("a request was let in by a token that is not known"))),
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
            "another address has a line of its own"
        );
        assert_eq!([lookups.end(), lookups.end(), lookups.end()], [Some(0), Some(9_000), Some(1)]);
        for _ in 1..LOOKUPS_MAX {
            assert!(lookups.end_without_reader().is_empty(), "those that are left begin the others");
        }
        assert_eq!(lookups.end_without_reader().len(), WAITING_OF_ONE_MAX - 2);
        assert!(matches!(lookups.begin(peer(1), 8), LookupStart::Now(8)), "all places are free again");
        assert_eq!(lookups.end(), None);
    }
}
