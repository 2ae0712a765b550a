//! Places for the requests in flight.
//!
//! Who holds its share waits for a place in turn while others are served.

use std::time::Duration;

use svc_core::share::Quotas;
use svc_core::{Ceiling, Holder, Place, Result};
use tokio::time::timeout;

/// The quota of one client is the limit divided by this.
const CLIENT_DIVISOR: usize = 8;
/// Longest wait for a place.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The places of the server.
pub(crate) struct InFlight(Ceiling);

impl InFlight {
    /// Creates `max` places, or any number if that is none.
    pub fn new(max: Option<u32>) -> Self {
        let max = max.and_then(|max| usize::try_from(max).ok());
        let client = max.map(|max| (max / CLIENT_DIVISOR).max(1));
        let quotas = Quotas { client, ..Quotas::default() };
        Self(Ceiling::new("requests in flight", max.unwrap_or(usize::MAX), quotas))
    }

    /// Returns how many places are taken.
    pub fn taken(&self) -> usize {
        self.0.taken()
    }

    /// Takes a place, waiting in turn until there is one for the holder.
    ///
    /// Fails at once if all are taken, half of them by its own workspace.
    pub async fn take(&self, holder: Holder) -> Result<Place> {
        match self.0.try_take(holder, 1) {
            Ok(place) => Ok(place),
            Err(_) if self.0.is_used_up_by(holder.workspace) => Err(self.0.exhausted(holder, 1)),
            Err(_) => self.take_again(holder).await,
        }
    }

    /// Takes a place again for a request that has returned its own for a while, waiting in any case.
    pub async fn take_again(&self, holder: Holder) -> Result<Place> {
        let waited = timeout(TIMEOUT, self.0.wait(holder, 1)).await;
        waited.map_err(|_| self.0.exhausted(holder, 1))?
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use svc_core::Code;

    use super::*;

    fn holder(number: u8) -> Holder {
        Holder::at([192, 0, 2, number].into())
    }

    #[tokio::test]
    async fn a_client_waits_for_its_own_places_while_others_are_served() {
        let places = InFlight::new(Some(16));
        let mut own = vec![places.take(holder(1)).await.unwrap(), places.take(holder(1)).await.unwrap()];
        let mut waiting = Box::pin(places.take(holder(1)));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(places.take(holder(2)).await.is_ok());
        drop(own.pop());
        assert!(waiting.await.is_ok());
        assert_eq!(places.taken(), 1);
    }

    #[tokio::test]
    async fn when_all_are_taken_only_others_and_former_holders_wait() {
        let places = InFlight::new(Some(1));
        let only = places.take(holder(1)).await.unwrap();
        for number in 1..3 {
            let refused = places.take(holder(number)).await.unwrap_err();
            assert_eq!(refused.code(), Code::Overloaded, "its workspace has all");
        }
        let workspace = "00000000-0000-0000-0000-000000000001".parse().unwrap();
        let other = Holder { workspace, ..holder(1) };
        let mut waiting = [Box::pin(places.take(other)), Box::pin(places.take(other))];
        let mut again = Box::pin(places.take_again(holder(2)));
        assert!(again.as_mut().now_or_never().is_none());
        assert!(waiting.iter_mut().all(|other| other.as_mut().now_or_never().is_none()));
        drop(only);
        let again = again.await.unwrap();
        let [first, second] = waiting;
        drop(again);
        drop(first.await.unwrap());
        drop(second.await.unwrap());
        assert_eq!(places.taken(), 0);
    }

    #[tokio::test]
    async fn without_a_limit_there_is_always_a_place() {
        let places = InFlight::new(None);
        let held: Vec<_> =
            (0..5000).map(|_| places.take(holder(1)).now_or_never().unwrap().unwrap()).collect();
        assert_eq!((held.len(), places.taken()), (5000, 5000));
    }
}
