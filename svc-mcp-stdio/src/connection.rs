//! A connection that stays open between requests, and its subscriptions.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use svc_core::{Error, Result};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::address::Address;
use crate::notifier::Notifier;

/// Maximum resources to which one client is subscribed.
pub(crate) const SUBSCRIBED_MAX: usize = 100;

/// Addresses that several tasks share.
pub(crate) type Addresses = Arc<Mutex<BTreeSet<Address>>>;

/// A connection, as its requests see it. Dropping the last handle ends its subscriptions.
#[derive(Debug)]
pub struct Connection {
    notifier: Notifier,
    addresses: Addresses,
    watcher: tokio::sync::Mutex<Option<AbortHandle>>,
}

impl Connection {
    /// Creates a connection, and the receiver from which its transport sends notifications.
    pub fn new() -> (Arc<Self>, mpsc::Receiver<Bytes>) {
        let (notifier, said) = Notifier::new();
        let connection = Self { notifier, addresses: Addresses::default(), watcher: Default::default() };
        (Arc::new(connection), said)
    }

    /// Adds an address or removes it. Fails with 409 `wrong-state` if there are too many.
    pub(crate) fn set(&self, address: Address, is_wanted: bool) -> Result<()> {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_wanted {
            addresses.remove(&address);
        } else if addresses.len() < SUBSCRIBED_MAX || addresses.contains(&address) {
            addresses.insert(address);
        } else {
            return Err(Error::wrong_state(format!(
                "a connection subscribes to at most {SUBSCRIBED_MAX} resources"
            )));
        }
        Ok(())
    }

    /// Returns the sender of its notifications.
    pub(crate) fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    /// Returns its subscribed addresses, which may change.
    pub(crate) fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Starts a watching task with `start`, unless one runs.
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
