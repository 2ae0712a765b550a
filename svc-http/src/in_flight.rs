//! Slots among the requests in flight: so many in all, of which one client has a part. Who has all of its part waits
//! for one of those, while others are served; where none is left at all nobody waits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use svc_core::{Client, Code, Error, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::limits::{Ceiling, Permit};

/// One client may have this part of all places.
const CLIENT_PART: usize = 8;
/// How long to wait for a place.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Clients that are known at the most before those are forgotten that have no place.
const CLIENTS_KEPT: usize = 1024;

/// All places.
pub(crate) struct RequestSlots {
    all: Ceiling,
    /// How many one client may have.
    part: usize,
    clients: Mutex<HashMap<Client, Arc<Semaphore>>>,
}

/// A place; it is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct RequestSlot {
    _of_all: Permit,
    _of_client: OwnedSemaphorePermit,
}

impl RequestSlots {
    /// So many places, or as many as are wanted.
    pub fn new(most: Option<u32>) -> Self {
        let part = most.and_then(|most| usize::try_from(most).ok());
        let part = part.map_or(Semaphore::MAX_PERMITS, |most| (most / CLIENT_PART).max(1));
        Self { all: Ceiling::new(most), part, clients: Mutex::default() }
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.all.taken()
    }

    /// A place for `client`, for which it may have to wait; none if all are taken.
    pub async fn take(&self, client: Client) -> Result<RequestSlot> {
        let of_client = self.own_permit(client, |all| all.is_left()).await?;
        let of_all = self.all.take().ok_or_else(overloaded)?;
        Ok(RequestSlot { _of_all: of_all, _of_client: of_client })
    }

    /// A place for a client that has given its own back for a while, as soon as there is one.
    pub async fn take_again(&self, client: Client) -> Result<RequestSlot> {
        let of_client = self.own_permit(client, |_| true).await?;
        let of_all =
            timeout(TIMEOUT, self.all.wait()).await.map_err(|_| overloaded())?.ok_or_else(overloaded)?;
        Ok(RequestSlot { _of_all: of_all, _of_client: of_client })
    }

    /// One of the client's own part; waits for it if that `may` be.
    async fn own_permit(&self, client: Client, may: fn(&Ceiling) -> bool) -> Result<OwnedSemaphorePermit> {
        let own = self.of(client);
        if let Ok(permit) = Arc::clone(&own).try_acquire_owned() {
            return Ok(permit);
        }
        if !may(&self.all) {
            return Err(overloaded());
        }
        let permit = timeout(TIMEOUT, own.acquire_owned()).await.map_err(|_| overloaded())?;
        permit.map_err(Error::internal)
    }

    fn of(&self, client: Client) -> Arc<Semaphore> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= CLIENTS_KEPT && !clients.contains_key(&client) {
            clients.retain(|_, own| Arc::strong_count(own) > 1);
        }
        Arc::clone(clients.entry(client).or_insert_with(|| Arc::new(Semaphore::new(self.part))))
    }
}

/// The refusal of what finds no place.
pub(crate) fn overloaded() -> Error {
    Error::new(Code::Overloaded, "the server is at its ceiling; try again")
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn client(number: u8) -> Client {
        Client::at([192, 0, 2, number].into())
    }

    #[tokio::test]
    async fn a_client_waits_for_its_own_places_while_others_are_served() {
        let places = RequestSlots::new(Some(16));
        let mut own = Vec::new();
        for _ in 0..2 {
            own.push(places.take(client(1)).await.unwrap());
        }
        let mut waiting = Box::pin(places.take(client(1)));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(places.take(client(2)).await.is_ok());
        drop(own.pop());
        assert!(waiting.await.is_ok());
        assert_eq!(places.taken(), 1);
    }

    #[tokio::test]
    async fn where_none_is_left_nobody_waits_but_who_had_one() {
        let places = RequestSlots::new(Some(1));
        let only = places.take(client(1)).await.unwrap();
        for number in 1..3 {
            assert_eq!(places.take(client(number)).await.unwrap_err().code(), Code::Overloaded);
        }
        let mut again = Box::pin(places.take_again(client(2)));
        assert!(again.as_mut().now_or_never().is_none());
        drop(only);
        assert!(again.await.is_ok());
    }

    #[tokio::test]
    async fn who_has_no_place_is_not_kept() {
        let places = RequestSlots::new(None);
        let kept = places.take(client(1)).await.unwrap();
        for number in 0..2 * CLIENTS_KEPT {
            let [high, low] = u16::try_from(number).unwrap().to_be_bytes();
            drop(places.take(Client::at([198, 18, high, low].into())).await.unwrap());
        }
        let known = places.clients.lock().unwrap();
        assert!(known.len() <= CLIENTS_KEPT && known.contains_key(&client(1)), "{}", known.len());
        drop(kept);
    }
}
