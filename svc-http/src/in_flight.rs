//! Slots for the requests in flight: a limit in all, and a quota for each client.
//!
//! A client that has used up its quota waits for one of its own slots while others are served. When no slot
//! is left at all, requests fail at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use svc_core::{Client, Code, Error, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::limits::{ConcurrencyLimit, Permit};

/// The quota of one client is the limit divided by this.
const CLIENT_DIVISOR: usize = 8;
/// Longest wait for a slot.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Number of clients in the map above which those without a slot are dropped from it.
const CLIENTS_KEPT: usize = 1024;

/// The slots of the server.
pub(crate) struct RequestSlots {
    all: ConcurrencyLimit,
    /// The quota of one client.
    quota: usize,
    clients: Mutex<HashMap<Client, Arc<Semaphore>>>,
}

/// A slot; dropping it releases it.
#[derive(Debug)]
pub(crate) struct RequestSlot {
    _of_all: Permit,
    _of_client: OwnedSemaphorePermit,
}

impl RequestSlots {
    /// Creates `max` slots, or any number if that is none.
    pub fn new(max: Option<u32>) -> Self {
        let quota = max.and_then(|max| usize::try_from(max).ok());
        let quota = quota.map_or(Semaphore::MAX_PERMITS, |max| (max / CLIENT_DIVISOR).max(1));
        Self { all: ConcurrencyLimit::new(max), quota, clients: Mutex::default() }
    }

    /// Returns how many slots are taken.
    pub fn taken(&self) -> usize {
        self.all.taken()
    }

    /// Takes a slot for `client`, waiting while its quota is used up.
    ///
    /// Fails if all slots are taken.
    pub async fn take(&self, client: Client) -> Result<RequestSlot> {
        let of_client = self.client_permit(client, |all| all.is_left()).await?;
        let of_all = self.all.take().ok_or_else(overloaded)?;
        Ok(RequestSlot { _of_all: of_all, _of_client: of_client })
    }

    /// Takes a slot again for a client that released its own for a while, waiting until there is one.
    pub async fn take_again(&self, client: Client) -> Result<RequestSlot> {
        let of_client = self.client_permit(client, |_| true).await?;
        let of_all =
            timeout(TIMEOUT, self.all.wait()).await.map_err(|_| overloaded())?.ok_or_else(overloaded)?;
        Ok(RequestSlot { _of_all: of_all, _of_client: of_client })
    }

    /// Takes a permit from the client's quota, waiting for one only if `may_wait` allows it.
    async fn client_permit(
        &self,
        client: Client,
        may_wait: fn(&ConcurrencyLimit) -> bool,
    ) -> Result<OwnedSemaphorePermit> {
        let own = self.semaphore_of(client);
        if let Ok(permit) = Arc::clone(&own).try_acquire_owned() {
            return Ok(permit);
        }
        if !may_wait(&self.all) {
            return Err(overloaded());
        }
        let permit = timeout(TIMEOUT, own.acquire_owned()).await.map_err(|_| overloaded())?;
        permit.map_err(Error::internal)
    }

    fn semaphore_of(&self, client: Client) -> Arc<Semaphore> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= CLIENTS_KEPT && !clients.contains_key(&client) {
            clients.retain(|_, own| Arc::strong_count(own) > 1);
        }
        Arc::clone(clients.entry(client).or_insert_with(|| Arc::new(Semaphore::new(self.quota))))
    }
}

/// Returns the error of a request for which there is no slot.
pub(crate) fn overloaded() -> Error {
    Error::new(Code::Overloaded, "the server is at its limit of requests")
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn client(number: u8) -> Client {
        Client::at([192, 0, 2, number].into())
    }

    #[tokio::test]
    async fn a_client_waits_for_its_own_slots_while_others_are_served() {
        let slots = RequestSlots::new(Some(16));
        let mut own = Vec::new();
        for _ in 0..2 {
            own.push(slots.take(client(1)).await.unwrap());
        }
        let mut waiting = Box::pin(slots.take(client(1)));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(slots.take(client(2)).await.is_ok());
        drop(own.pop());
        assert!(waiting.await.is_ok());
        assert_eq!(slots.taken(), 1);
    }

    #[tokio::test]
    async fn with_no_slot_left_only_former_holders_wait() {
        let slots = RequestSlots::new(Some(1));
        let only = slots.take(client(1)).await.unwrap();
        for number in 1..3 {
            assert_eq!(slots.take(client(number)).await.unwrap_err().code(), Code::Overloaded);
        }
        let mut again = Box::pin(slots.take_again(client(2)));
        assert!(again.as_mut().now_or_never().is_none());
        drop(only);
        assert!(again.await.is_ok());
    }

    #[tokio::test]
    async fn clients_without_a_slot_are_dropped() {
        let slots = RequestSlots::new(None);
        let kept = slots.take(client(1)).await.unwrap();
        for number in 0..2 * CLIENTS_KEPT {
            let [high, low] = u16::try_from(number).unwrap().to_be_bytes();
            drop(slots.take(Client::at([198, 18, high, low].into())).await.unwrap());
        }
        let known = slots.clients.lock().unwrap();
        assert!(known.len() <= CLIENTS_KEPT && known.contains_key(&client(1)), "{}", known.len());
        drop(kept);
    }
}
