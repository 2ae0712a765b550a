//! Taken places of a ceiling, and callers that wait for one.

use std::fmt;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::{CeilingState, State};
use crate::rate::Holder;
use crate::sync::lock;

/// Taken places of a ceiling. Dropping this value returns them.
#[must_use = "dropping the place returns it"]
pub struct PlaceGuard {
    shared: Arc<CeilingState>,
    holder: Holder,
    size: usize,
}

/// Granted places for callers that waited for them, to be handed over after the lock is released.
pub(super) type GrantedPlaces = Vec<(oneshot::Sender<PlaceGuard>, PlaceGuard)>;

/// Hands over granted places. The place of a caller that no longer waits is returned.
pub(super) fn hand_on(granted: GrantedPlaces) {
    granted.into_iter().for_each(|(waiter, place)| drop(waiter.send(place)));
}

impl PlaceGuard {
    pub(super) fn record(shared: &Arc<CeilingState>, state: &mut State, holder: Holder, size: usize) -> Self {
        shared.rules.change(state, holder, |own| own.saturating_add(size));
        Self { shared: Arc::clone(shared), holder, size }
    }

    /// Returns the number of places that this guard holds.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the holder of the places.
    pub fn holder(&self) -> Holder {
        self.holder
    }

    /// Merges another guard of the same ceiling and holder into this one.
    pub fn merge(&mut self, mut other: Self) {
        self.size = self.size.saturating_add(std::mem::take(&mut other.size));
    }

    /// Splits off a guard of `size` places.
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
        let give_back = |own: usize| own.saturating_sub(self.size);
        let (before, after) = self.shared.rules.change(&mut state, self.holder, give_back);
        let granted = self.shared.served(&mut state);
        drop(state);
        hand_on(granted);
        // Only these callers wait for what the holder returns.
        if (after.client && !before.client) || (after.workspace && !before.workspace) {
            self.shared.returned.notify_waiters();
        }
    }
}

impl fmt::Debug for PlaceGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} of {:?}", self.size, self.shared.what, self.holder)
    }
}

/// A caller that waits for a place. Dropping this value ends the wait.
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
        // The request may have blocked others.
        let granted = self.shared.served(&mut state);
        drop(state);
        hand_on(granted);
    }
}
