//! Tracks the requests that a client may cancel by a notification in a separate POST.
//!
//! Before MCP revision 2026-07-28, a lost connection does not cancel a request. Within a session, the request
//! id identifies the request. Without a session, a request is cancelled only if no other request of the
//! credential has the same id.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::RequestId;
use svc_mcp_stdio::wire::{self, Kind, Message};
use tokio::sync::oneshot;

/// Scope in which a cancellation finds a request by id: a credential and, if the request has one, a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RequestScope {
    /// Hash that identifies the credential.
    pub credential_hash: [u8; 32],
    /// Id of the session, if the request has one.
    pub session: Option<String>,
}

type RequestKey = (RequestScope, RequestId);

/// Parked waits of all clients, which the clients may cancel.
#[derive(Default)]
pub(super) struct CancellableRequests(Mutex<State>);

#[derive(Default)]
struct State {
    senders: HashMap<RequestKey, Vec<(u64, oneshot::Sender<()>)>>,
    last_number: u64,
}

impl CancellableRequests {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a request as cancellable until the returned guard is dropped.
    pub fn register(self: &Arc<Self>, scope: RequestScope, id: RequestId) -> CancellableRequest {
        let (sender, cancelled) = oneshot::channel();
        let key = (scope, id);
        let mut state = self.lock();
        state.last_number += 1;
        let number = state.last_number;
        state.senders.entry(key.clone()).or_default().push((number, sender));
        drop(state);
        CancellableRequest { all: Arc::clone(self), key, number, cancelled }
    }

    /// Cancels the request whose id is in a `notifications/cancelled` message. Ignores all other messages.
    pub fn handle_cancellation(&self, scope: RequestScope, message: &Message) {
        if message.method != "notifications/cancelled" || message.kind != Kind::Notification {
            return;
        }
        let id = message.params.text("requestId").and_then(|id| std::str::from_utf8(id).ok());
        if let Some(id) = id.and_then(wire::parse_request_id) {
            self.cancel(scope, id);
        }
    }

    /// Cancels the request with this id if exactly one request in the scope has the id.
    fn cancel(&self, scope: RequestScope, id: RequestId) {
        let mut state = self.lock();
        let key = (scope, id);
        if state.senders.get(&key).is_some_and(|same| same.len() == 1) {
            for (_, sender) in state.senders.remove(&key).unwrap_or_default() {
                // Sending fails if the request has just ended.
                let _ = sender.send(());
            }
        }
    }
}

/// Guard that registers a request as cancellable until the guard is dropped.
pub(super) struct CancellableRequest {
    all: Arc<CancellableRequests>,
    key: RequestKey,
    number: u64,
    cancelled: oneshot::Receiver<()>,
}

impl CancellableRequest {
    /// Resolves when the request is cancelled.
    pub async fn wait_for_cancellation(&mut self) {
        if (&mut self.cancelled).await.is_err() {
            std::future::pending().await
        }
    }
}

impl Drop for CancellableRequest {
    fn drop(&mut self) {
        let mut state = self.all.lock();
        let Some(same) = state.senders.get_mut(&self.key) else { return };
        same.retain(|(number, _)| *number != self.number);
        if same.is_empty() {
            state.senders.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn scope(number: u8, session: Option<&str>) -> RequestScope {
        RequestScope { credential_hash: [number; 32], session: session.map(str::to_owned) }
    }

    #[test]
    fn only_an_unambiguous_request_is_cancelled() {
        let all = Arc::new(CancellableRequests::default());
        let id = RequestId::Number(1);
        let mut first = all.register(scope(1, None), id.clone());
        let mut other = all.register(scope(2, None), id.clone());
        let mut in_session = all.register(scope(1, Some("s")), id.clone());
        let second = all.register(scope(1, None), id.clone());
        all.cancel(scope(1, None), id.clone());
        assert!(first.wait_for_cancellation().now_or_never().is_none(), "there are two");
        drop(second);
        all.cancel(scope(1, None), id.clone());
        assert!(first.wait_for_cancellation().now_or_never().is_some());
        assert!(other.wait_for_cancellation().now_or_never().is_none(), "another credential");
        assert!(in_session.wait_for_cancellation().now_or_never().is_none(), "another request");
        all.cancel(scope(1, Some("s")), id.clone());
        assert!(in_session.wait_for_cancellation().now_or_never().is_some());
        drop((first, other, in_session));
        assert!(all.lock().senders.is_empty());
    }
}
