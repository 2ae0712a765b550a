//! Requests that a client may cancel by a notification in a POST of its own.
//!
//! Before revision 2026-07-28 a lost connection does not cancel a request, and there are no sessions here to
//! tell which one is meant. So a request is cancelled if exactly one of this credential has the id.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::RequestId;
use tokio::sync::oneshot;

/// A credential's mark and the id of a request.
type Key = ([u8; 32], RequestId);

/// The waits that are parked.
#[derive(Default)]
pub(super) struct Cancels(Mutex<State>);

#[derive(Default)]
struct State {
    parked: HashMap<Key, Vec<(u64, oneshot::Sender<()>)>>,
    last_number: u64,
}

impl Cancels {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request as long as what is returned is held.
    pub fn park(self: &Arc<Self>, mark: [u8; 32], id: RequestId) -> Parked {
        let (sender, cancelled) = oneshot::channel();
        let key = (mark, id);
        let mut state = self.lock();
        state.last_number += 1;
        let number = state.last_number;
        state.parked.entry(key.clone()).or_default().push((number, sender));
        drop(state);
        Parked { all: Arc::clone(self), key, number, cancelled }
    }

    /// Cancels the request, if there is exactly one.
    pub fn cancel(&self, mark: [u8; 32], id: RequestId) {
        let mut state = self.lock();
        let key = (mark, id);
        if state.parked.get(&key).is_some_and(|same| same.len() == 1) {
            for (_, sender) in state.parked.remove(&key).unwrap_or_default() {
                // It may have ended just now.
                let _ = sender.send(());
            }
        }
    }
}

/// A request that may be cancelled.
pub(super) struct Parked {
    all: Arc<Cancels>,
    key: Key,
    number: u64,
    cancelled: oneshot::Receiver<()>,
}

impl Parked {
    /// Resolves when the request is cancelled.
    pub async fn cancelled(&mut self) {
        if (&mut self.cancelled).await.is_err() {
            std::future::pending().await
        }
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        let mut state = self.all.lock();
        let Some(same) = state.parked.get_mut(&self.key) else { return };
        same.retain(|(number, _)| *number != self.number);
        if same.is_empty() {
            state.parked.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn only_an_unambiguous_request_is_cancelled() {
        let all = Arc::new(Cancels::default());
        let id = RequestId::Number(1);
        let mut first = all.park([1; 32], id.clone());
        let mut other = all.park([2; 32], id.clone());
        let second = all.park([1; 32], id.clone());
        all.cancel([1; 32], id.clone());
        assert!(first.cancelled().now_or_never().is_none(), "there are two");
        drop(second);
        all.cancel([1; 32], id.clone());
        assert!(first.cancelled().now_or_never().is_some());
        assert!(other.cancelled().now_or_never().is_none(), "another credential");
        drop((first, other));
        assert!(all.lock().parked.is_empty());
    }
}
