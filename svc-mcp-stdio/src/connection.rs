//! Stores the state of a connection that stays open between requests: the notifications and subscriptions.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use svc_core::{Error, Result};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::address::Address;
use crate::notifier::Notifier;

/// Maximum resources that one connection, request or stream can be subscribed to.
pub(crate) const SUBSCRIPTIONS_MAX: usize = 100;

/// Set of resource addresses that several tasks share.
pub(crate) type Addresses = Arc<Mutex<BTreeSet<Address>>>;

/// State that all requests of a connection share. Dropping the last handle ends the subscriptions.
#[derive(Debug)]
pub struct Connection {
    notifier: Notifier,
    addresses: Addresses,
    watcher: tokio::sync::Mutex<Option<AbortHandle>>,
}

impl Connection {
    /// Creates the state of a connection, and the receiver of the notifications that its transport must send.
    pub fn new() -> (Arc<Self>, mpsc::Receiver<Bytes>) {
        let (notifier, said) = Notifier::new();
        let connection = Self { notifier, addresses: Addresses::default(), watcher: Default::default() };
        (Arc::new(connection), said)
    }

    /// Subscribes the connection to a resource, or ends the subscription if `is_wanted` is false.
    ///
    /// Fails with 409 `wrong-state` if the connection already has [`SUBSCRIPTIONS_MAX`] subscriptions.
    pub(crate) fn set_subscription(&self, address: Address, is_wanted: bool) -> Result<()> {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_wanted {
            addresses.remove(&address);
        } else if addresses.len() < SUBSCRIPTIONS_MAX || addresses.contains(&address) {
            addresses.insert(address);
        } else {
            return Err(Error::wrong_state(format!(
                "a connection subscribes to at most {SUBSCRIPTIONS_MAX} resources"
            )));
        }
        Ok(())
    }

    /// Returns the sender of the connection's notifications.
    pub(crate) fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    /// Returns the set of subscribed addresses, which may change later.
    pub(crate) fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Starts the task that watches the subscriptions with `start`, unless such a task is running.
    pub(crate) async fn watch(&self, start: impl Future<Output = Result<AbortHandle>>) -> Result<()> {
        let mut watcher = self.watcher.lock().await;
        if watcher.as_ref().is_none_or(AbortHandle::is_finished) {
            *watcher = Some(start.await?);
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(watcher) = self.watcher.get_mut() {
            watcher.abort();
        }
    }
}
