//! The claims that the program holds: one thread renews all of them, and one calls the callbacks.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::thread::{JoinHandle, ThreadId};
use std::time::Duration;

use crate::coordination::queue_projector::CLAIM_ENDS;
use crate::error::{Error, Result};
use crate::id::{self, LeaseId, WorkspaceId};
use crate::log::bus::EventFilter;
use crate::op::Dispatch;
use crate::store::budget::interrupted_error;
use crate::sync::{join, lock};
use crate::time::{Clock, Monotonic};

/// Bit that the listeners of claims have in their ids, which no wait has.
const LISTENER_ID_BIT: u64 = 1 << 63;

/// A claim that the program holds.
pub(crate) trait KeptClaim: Send + Sync {
    /// Renews the claim. Returns the time until the next renewal, or `None` if the claim has ended.
    fn renew(&self) -> Option<Duration>;

    /// Releases the claim because the service is being closed.
    fn release_at_close(&self) -> Result<()>;
}

/// Work of the program that ends before the service is closed.
pub(crate) trait EndsAtClose: Send + Sync {
    /// Finishes the work. `caller` is the thread that waits for this.
    fn end_at_close(&self, caller: ThreadId);
}

/// A function to call on the thread of the callbacks.
type Callback = Box<dyn FnOnce() + Send>;

/// The place of a claim: its workspace, its thread, and a position of the log at which the claim was held.
pub(crate) struct ClaimPlace {
    pub workspace: WorkspaceId,
    pub thread: id::ThreadId,
    pub lease: LeaseId,
    pub lsn: i64,
}

/// The claims that the program holds, and its workers.
pub(crate) struct ClaimKeeper {
    shared: Arc<Shared>,
    threads: Mutex<Threads>,
    workers: Mutex<Vec<Weak<dyn EndsAtClose>>>,
}

struct Shared {
    state: Mutex<KeeperState>,
    changed: Condvar,
    clock: Clock,
}

#[derive(Default)]
struct KeeperState {
    is_closed: bool,
    next_number: u64,
    claims: BTreeMap<u64, RegisteredClaim>,
    leases: HashSet<LeaseId>,
    /// The claims by the time of their next renewal.
    due: BTreeSet<(Monotonic, u64)>,
}

struct RegisteredClaim {
    claim: Weak<dyn KeptClaim>,
    workspace: WorkspaceId,
    lease: LeaseId,
    renewal: Monotonic,
}

#[derive(Default)]
struct Threads {
    is_closed: bool,
    renewal: Option<JoinHandle<()>>,
    callbacks: Option<(Sender<Callback>, JoinHandle<()>)>,
}

impl ClaimKeeper {
    /// Creates a keeper without claims.
    pub fn new(clock: &Clock) -> Self {
        let shared = Shared { state: Mutex::default(), changed: Condvar::new(), clock: clock.clone() };
        Self { shared: Arc::new(shared), threads: Mutex::default(), workers: Mutex::default() }
    }

    /// Registers a claim to be renewed after `first`, and watches the log for its end.
    ///
    /// Returns the number of the claim, or `None` if this process already keeps the lease.
    pub fn add(
        &self,
        dispatch: &Dispatch,
        place: &ClaimPlace,
        claim: Weak<dyn KeptClaim>,
        first: Duration,
    ) -> Result<Option<u64>> {
        self.start_renewal()?;
        let &ClaimPlace { workspace, thread, lease, lsn } = place;
        let renewal = self.shared.clock.deadline(first);
        let mut state = lock(&self.shared.state);
        if state.is_closed {
            return Err(interrupted_error());
        }
        if !state.leases.insert(lease) {
            return Ok(None);
        }
        let number = state.next_number;
        state.next_number = number.saturating_add(1);
        state.claims.insert(number, RegisteredClaim { claim, workspace, lease, renewal });
        state.due.insert((renewal, number));
        drop(state);
        self.shared.changed.notify_all();
        let shared = Arc::downgrade(&self.shared);
        let wake = Arc::new(move |_: &[_]| {
            if let Some(shared) = shared.upgrade() {
                shared.renew_soon(number);
            }
        });
        let filter = EventFilter::on(CLAIM_ENDS).in_thread(Some(thread));
        dispatch.bus.listen(workspace, number | LISTENER_ID_BIT, lsn, filter, wake);
        // The claim may have ended before it was listened for.
        if !lock(&self.shared.state).claims.contains_key(&number) {
            dispatch.bus.unlisten(workspace, number | LISTENER_ID_BIT);
        }
        Ok(Some(number))
    }

    /// Ends the renewal of a claim.
    pub fn remove(&self, dispatch: &Dispatch, number: u64) {
        let mut state = lock(&self.shared.state);
        let Some(RegisteredClaim { workspace, lease, renewal, .. }) = state.claims.remove(&number) else {
            return;
        };
        state.due.remove(&(renewal, number));
        state.leases.remove(&lease);
        drop(state);
        dispatch.bus.unlisten(workspace, number | LISTENER_ID_BIT);
    }

    /// Calls a callback on the thread of the callbacks.
    pub fn call_back(&self, callback: Callback) {
        let mut threads = lock(&self.threads);
        if threads.callbacks.is_none() {
            let (sender, receiver) = channel();
            let name = "svc-callbacks".to_owned();
            match std::thread::Builder::new().name(name).spawn(move || call_all(&receiver)) {
                Ok(thread) => threads.callbacks = Some((sender, thread)),
                Err(error) => tracing::error!(%error, "the thread for callbacks could not be started"),
            }
        }
        if let Some((sender, _)) = &threads.callbacks {
            // The thread runs as long as the sender exists.
            let _ = sender.send(callback);
        }
        if threads.is_closed {
            // The thread ends by itself after this callback.
            let ended = threads.callbacks.take();
            drop(threads);
            drop(ended);
        }
    }

    /// Registers work to be ended before the service is closed.
    pub fn add_worker(&self, worker: Weak<dyn EndsAtClose>) {
        let mut workers = lock(&self.workers);
        workers.retain(|known| known.strong_count() > 0);
        workers.push(worker);
    }

    /// Ends the workers.
    pub fn end_workers(&self, caller: ThreadId) {
        let workers = std::mem::take(&mut *lock(&self.workers));
        workers.iter().filter_map(Weak::upgrade).for_each(|worker| worker.end_at_close(caller));
    }

    /// Starts the thread that renews claims, if it does not run.
    fn start_renewal(&self) -> Result<()> {
        let mut threads = lock(&self.threads);
        if threads.renewal.is_none() && !threads.is_closed {
            let shared = Arc::clone(&self.shared);
            let thread =
                std::thread::Builder::new().name("svc-claims".to_owned()).spawn(move || shared.serve());
            threads.renewal = Some(thread.map_err(Error::internal)?);
        }
        Ok(())
    }

    /// Releases all claims, and stops the threads. `caller` is the thread that waits for this.
    ///
    /// Fails if a claim was not released or a thread has panicked. Further calls have no effect.
    pub fn close(&self, dispatch: &Dispatch, caller: ThreadId) -> Result<()> {
        let mut state = lock(&self.shared.state);
        state.is_closed = true;
        let claims = std::mem::take(&mut state.claims);
        state.due.clear();
        state.leases.clear();
        drop(state);
        self.shared.changed.notify_all();
        let mut outcome = Ok(());
        for (number, registered) in claims {
            dispatch.bus.unlisten(registered.workspace, number | LISTENER_ID_BIT);
            if let Some(claim) = registered.claim.upgrade() {
                outcome = outcome.and(claim.release_at_close());
            }
        }
        let mut threads = lock(&self.threads);
        threads.is_closed = true;
        let renewal = threads.renewal.take();
        let callbacks = threads.callbacks.take().map(|(_, thread)| thread);
        drop(threads);
        for thread in [renewal, callbacks].into_iter().flatten() {
            if !join(thread, caller) {
                outcome = outcome.and(Err(Error::internal("a thread of the service has panicked")));
            }
        }
        outcome
    }
}

impl Shared {
    /// Renews the claims when that is due, until the keeper is closed.
    fn serve(&self) {
        let mut state = lock(&self.state);
        while !state.is_closed {
            let Some((at, number)) = state.due.first().copied() else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = self.clock.remaining(at);
            if !left.is_zero() {
                state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            state.due.remove(&(at, number));
            let claim = state.claims.get(&number).and_then(|registered| registered.claim.upgrade());
            drop(state);
            let next = claim.as_ref().and_then(|claim| claim.renew());
            // May be the last handle of the service, so it is dropped outside of the lock.
            drop(claim);
            state = lock(&self.state);
            // During the renewal, an event may have set an earlier time for the next one.
            if let Some(next) = next
                && let Some(registered) = state.claims.get_mut(&number)
                && registered.renewal == at
            {
                registered.renewal = self.clock.deadline(next);
                let renewal = registered.renewal;
                state.due.insert((renewal, number));
            }
        }
    }

    /// Renews a claim immediately, which shows whether it was ended.
    fn renew_soon(&self, number: u64) {
        let mut state = lock(&self.state);
        let Some(registered) = state.claims.get_mut(&number) else { return };
        let former = std::mem::replace(&mut registered.renewal, self.clock.monotonic());
        let renewal = registered.renewal;
        state.due.remove(&(former, number));
        state.due.insert((renewal, number));
        drop(state);
        self.changed.notify_all();
    }
}

/// Calls callbacks until the sender is dropped. After a callback that panics, later ones are still called.
fn call_all(receiver: &Receiver<Callback>) {
    for callback in receiver {
        if catch_unwind(AssertUnwindSafe(callback)).is_err() {
            tracing::error!("a callback for a lost claim has panicked");
        }
    }
}
