//! The lease of a claim, which the claim and the thread that renews it share.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use super::member::Member;
use crate::api::{ReleaseClaim, RenewClaim, Thread};
use crate::error::{Code, Error, Result};
use crate::host::keeper::{ClaimPlace, KeptClaim};
use crate::id::LeaseId;
use crate::store::budget::interrupted_error;
use crate::sync::lock;
use crate::time::Time;

/// Fraction of a lease after which the claim is renewed.
const RENEWALS_PER_LEASE: u32 = 3;
/// Maximum time between two attempts to renew a claim, if an attempt failed.
const RETRY_MAX: Duration = Duration::from_secs(5);
/// Time until the next look at a claim that the program is ending.
const ENDING_RETRY: Duration = Duration::from_millis(50);

/// A function to call with the reason if a claim is lost.
pub(super) type LossCallback = Box<dyn FnOnce(&Error) + Send>;

/// A lease that the program holds.
pub(super) struct HeldLease {
    pub member: Member,
    pub thread: Thread,
    pub id: LeaseId,
    /// Seconds of each renewal, or `None` for the default.
    pub secs: Option<i64>,
    state: Mutex<LeaseState>,
    /// Number of the claim among those that are renewed.
    number: OnceLock<u64>,
}

struct LeaseState {
    /// Time at which the lease ends.
    until: Time,
    /// Number of calls in progress that end the claim.
    ending: u32,
    end: Option<LeaseEnd>,
    callbacks: Vec<LossCallback>,
}

/// The way in which a lease has ended.
enum LeaseEnd {
    /// The program has ended the claim, or its renewal.
    Ended,
    /// The claim was ended from outside, or could not be renewed in time.
    Lost(Error),
}

impl HeldLease {
    pub fn new(member: Member, thread: Thread, id: LeaseId, until: Time, secs: Option<i64>) -> Self {
        let state = LeaseState { until, ending: 0, end: None, callbacks: Vec::new() };
        Self { member, thread, id, secs, state: Mutex::new(state), number: OnceLock::new() }
    }

    /// Begins the renewal. `lsn` is a position of the log at which the claim was held.
    ///
    /// Returns false if this process already keeps the lease.
    pub fn keep(self: &Arc<Self>, lsn: i64) -> Result<bool> {
        let place =
            ClaimPlace { workspace: self.member.workspace_id(), thread: self.thread.id, lease: self.id, lsn };
        let claim: Arc<dyn KeptClaim> = Arc::<Self>::clone(self);
        let service = self.member.service();
        let first = self.time_left() / RENEWALS_PER_LEASE;
        let number = service.keeper().add(service.dispatch(), &place, Arc::downgrade(&claim), first)?;
        let Some(number) = number else { return Ok(false) };
        // Set only here.
        let _ = self.number.set(number);
        if lock(&self.state).end.is_some() {
            self.stop_renewal();
        }
        Ok(true)
    }

    fn stop_renewal(&self) {
        if let Some(number) = self.number.get() {
            let service = self.member.service();
            service.keeper().remove(service.dispatch(), *number);
        }
    }

    /// Fails with the reason if the claim was lost, or with 409 `claim-not-held` if the program has ended it.
    pub fn check_held(&self) -> Result<()> {
        if self.time_left().is_zero() {
            self.lose(&Error::new(Code::StaleClaim, "the lease ended before the claim was renewed"), true);
        }
        match &lock(&self.state).end {
            None => Ok(()),
            Some(LeaseEnd::Lost(reason)) => Err(reason.clone()),
            Some(LeaseEnd::Ended) => {
                Err(Error::new(Code::ClaimNotHeld, "the claim was finished, released or handed off"))
            }
        }
    }

    /// Returns the reason why the claim was lost, if it was.
    pub fn lost(&self) -> Option<Error> {
        // A lease that has ended is recorded as lost.
        let held = self.check_held();
        match &lock(&self.state).end {
            Some(LeaseEnd::Lost(_)) => held.err(),
            Some(LeaseEnd::Ended) | None => None,
        }
    }

    /// Makes a change as the holder. If it fails because the claim is no longer held, the claim is lost.
    pub fn change<T>(&self, change: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check_held()?;
        let outcome = change();
        if let Err(error) = &outcome
            && means_loss(error)
        {
            self.lose(error, true);
        }
        outcome
    }

    /// Makes a change that ends the claim. If it fails, the claim stays held.
    pub fn end_by<T>(&self, change: impl FnOnce() -> Result<T>) -> Result<T> {
        self.check_held()?;
        let ending = |by: fn(u32) -> u32| {
            let mut state = lock(&self.state);
            state.ending = by(state.ending);
        };
        ending(|count| count.saturating_add(1));
        let outcome = change();
        ending(|count| count.saturating_sub(1));
        match &outcome {
            Ok(_) => drop(self.end()),
            Err(error) if means_loss(error) => self.lose(error, true),
            Err(_) => {}
        }
        outcome
    }

    /// Records that the program has ended the claim. Returns whether the claim was held.
    pub fn end(&self) -> bool {
        let mut state = lock(&self.state);
        let was_held = state.end.is_none();
        if was_held {
            state.end = Some(LeaseEnd::Ended);
        }
        let callbacks = std::mem::take(&mut state.callbacks);
        drop(state);
        // Dropped outside of the lock, because its captured values may do anything.
        drop(callbacks);
        if was_held {
            self.stop_renewal();
        }
        was_held
    }

    /// Records that the claim was lost, and passes the callbacks on.
    ///
    /// If the program itself is ending the claim, its end is a loss only with `even_while_ending`.
    fn lose(&self, reason: &Error, even_while_ending: bool) {
        let mut state = lock(&self.state);
        if state.end.is_some() || (state.ending > 0 && !even_while_ending) {
            return;
        }
        state.end = Some(LeaseEnd::Lost(reason.clone()));
        let callbacks = std::mem::take(&mut state.callbacks);
        drop(state);
        self.stop_renewal();
        callbacks.into_iter().for_each(|callback| self.call_back(callback, reason.clone()));
    }

    fn call_back(&self, callback: LossCallback, reason: Error) {
        self.member.service().keeper().call_back(Box::new(move || callback(&reason)));
    }

    /// Sets a function to be called if the claim is lost.
    pub fn on_lost(&self, callback: LossCallback) {
        let mut state = lock(&self.state);
        match &state.end {
            None => state.callbacks.push(callback),
            Some(LeaseEnd::Lost(reason)) => {
                let reason = reason.clone();
                drop(state);
                self.call_back(callback, reason);
            }
            Some(LeaseEnd::Ended) => {}
        }
    }

    /// Returns the time until the lease ends.
    fn time_left(&self) -> Duration {
        let until = lock(&self.state).until;
        let micros = until.micros().saturating_sub(self.member.service().now().micros());
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }

    /// Records the end of the lease after a renewal.
    pub fn renewed(&self, until: Time) {
        lock(&self.state).until = until;
    }
}

impl KeptClaim for HeldLease {
    fn renew(&self) -> Option<Duration> {
        let mut request = RenewClaim::new(self.thread.id).claim_lease_id(self.id);
        if let Some(secs) = self.secs {
            request = request.lease_secs(secs);
        }
        let renewed = self.member.call(&request);
        let error = match renewed {
            Ok(claim) => {
                self.renewed(claim.lease_expires_at);
                return Some(self.time_left() / RENEWALS_PER_LEASE);
            }
            Err(error) => error,
        };
        let left = self.time_left();
        // A thread that the member may no longer see cannot be held any longer either.
        if means_loss(&error) || error.code() == Code::NotFound || left.is_zero() {
            self.lose(&error, false);
        }
        let state = lock(&self.state);
        match state.end {
            Some(_) => None,
            None if state.ending > 0 => Some(ENDING_RETRY),
            None => Some((left / RENEWALS_PER_LEASE).min(RETRY_MAX)),
        }
    }

    fn release_at_close(&self) -> Result<()> {
        if lock(&self.state).end.is_some() {
            return Ok(());
        }
        let released = self.member.call_while_closing(&ReleaseClaim::new(self.thread.id, self.id));
        self.lose(&interrupted_error(), true);
        match released {
            Err(error) if !means_loss(&error) => Err(error),
            Err(_) | Ok(_) => Ok(()),
        }
    }
}

/// Returns whether the failure of a change means that the member no longer holds the claim.
fn means_loss(error: &Error) -> bool {
    matches!(error.code(), Code::StaleClaim | Code::ClaimNotHeld | Code::MemberFrozen | Code::Unauthenticated)
}
