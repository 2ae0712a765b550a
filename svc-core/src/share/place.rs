//! Guards for taken places, and requests of callers that wait for places.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::{CeilingState, State};
use crate::rate::Holder;
use crate::sync::lock;

/// Guard of places that a holder has taken. Dropping the guard returns the places to the ceiling.
#[must_use = "dropping the place returns it"]
pub struct PlaceGuard {
    shared: Arc<CeilingState>,
    holder: Holder,
    size: usize,
}

/// Granted places, each with the channel to the waiting caller that receives the places after the lock is
/// released.
pub(super) type GrantedPlaces = Vec<(oneshot::Sender<PlaceGuard>, PlaceGuard)>;

/// Sends granted places to the waiting callers. Places of a caller that no longer waits are returned to the
/// ceiling.
pub(super) fn send_granted(granted: GrantedPlaces) {
    granted.into_iter().for_each(|(waiter, place)| drop(waiter.send(place)));
}

impl PlaceGuard {
    /// Records that a holder has taken `size` places, without checking limits, and returns their guard.
    pub(super) fn record(shared: &Arc<CeilingState>, state: &mut State, holder: Holder, size: usize) -> Self {
        shared.rules.change_places(state, holder, |own| own.saturating_add(size));
        Self { shared: Arc::clone(shared), holder, size }
    }

    /// Returns the number of places in this guard.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the holder that has taken the places.
    pub fn holder(&self) -> Holder {
        self.holder
    }

    /// Merges another guard of the same ceiling and holder into this guard.
    pub fn merge(&mut self, mut other: Self) {
        self.size = self.size.saturating_add(std::mem::take(&mut other.size));
    }

    /// Splits off a new guard with `size` places, or with all places if this guard has fewer.
    pub fn split(&mut self, size: usize) -> Self {
        let size = size.min(self.size);
        self.size = self.size.saturating_sub(size);
        Self { shared: Arc::clone(&self.shared), holder: self.holder, size }
    }
}

impl Drop for PlaceGuard {
    fn drop(&mut self) {
        if self.size == 0 {
            return;
        }
        let mut state = lock(&self.shared.state);
        let return_places = |own: usize| own.saturating_sub(self.size);
        let (before, after) = self.shared.rules.change_places(&mut state, self.holder, return_places);
        let granted = self.shared.grant_waiting(&mut state);
        drop(state);
        send_granted(granted);
        // `Ceiling::wait_until_below_quota` waits only for the moment when a client or a workspace falls
        // below its quota.
        if (after.client && !before.client) || (after.workspace && !before.workspace) {
            self.shared.places_returned.notify_waiters();
        }
    }
}

impl fmt::Debug for PlaceGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} of {:?}", self.size, self.shared.noun, self.holder)
    }
}

/// Request of a caller that waits for places. Dropping the request ends the wait.
pub(super) struct PlaceRequest {
    pub shared: Arc<CeilingState>,
    pub holder: Holder,
    pub receiver: oneshot::Receiver<PlaceGuard>,
}

impl Drop for PlaceRequest {
    fn drop(&mut self) {
        self.receiver.close();
        let mut state = lock(&self.shared.state);
        state.turns.remove_closed(self.holder);
        // The removed request may have blocked requests of other holders.
        let granted = self.shared.grant_waiting(&mut state);
        drop(state);
        send_granted(granted);
    }
}
