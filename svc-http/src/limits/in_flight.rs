//! Limits the requests in flight: each request needs a slot.
//!
//! A client that has used up its share waits for its turn while other clients are served. A request that
//! occupies a thread needs a second slot while it runs, and releases that slot while it waits. There are only
//! a few second slots, so that one workspace cannot occupy all threads.

use std::future::poll_fn;
use std::mem::replace;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::task::Poll;
use std::thread::available_parallelism;
use std::time::Duration;

use svc_core::share::Quotas;
use svc_core::{Ceiling, Holder, PlaceGuard, Result};
use tokio::time::{Instant, timeout};

/// Divisor of the limit on requests in flight; the result is the quota of one client.
pub(crate) const CLIENT_DIVISOR: usize = 8;
/// Maximum time that a request waits for a slot.
const SLOT_TIMEOUT: Duration = Duration::from_secs(30);

/// Minimum bytes of a request body whose decoding needs a second slot.
const LARGE_BODY_MIN: usize = 64 << 10;
/// Minimum number of second slots, for requests that occupy a thread. On a machine with more processors,
/// there is one second slot per processor.
const BUSY_SLOTS_MIN: usize = 2;

/// Slots for the requests in flight of a server.
pub(crate) struct InFlight {
    all: Ceiling,
    busy: Ceiling,
}

impl InFlight {
    /// Creates `max_requests` slots, or unlimited slots if `max_requests` is `None`.
    pub fn new(max_requests: Option<u32>) -> Self {
        let max_requests = max_requests.and_then(|max_requests| usize::try_from(max_requests).ok());
        let client = max_requests.map(|max_requests| (max_requests / CLIENT_DIVISOR).max(1));
        let quotas = Quotas { client, ..Quotas::default() };
        let processors =
            available_parallelism().map_or(BUSY_SLOTS_MIN, NonZeroUsize::get).max(BUSY_SLOTS_MIN);
        Self {
            all: Ceiling::new("requests in flight", max_requests.unwrap_or(usize::MAX), quotas),
            busy: Ceiling::new("requests that keep a thread busy", processors, Quotas::default()),
        }
    }

    /// Waits for the slots of a request with a body of `bytes` bytes: the first slot, and for a large body a
    /// second slot.
    pub async fn take_slots(&self, holder: Holder, bytes: usize) -> Result<(PlaceGuard, Option<BusySlot>)> {
        Ok((self.take_slot(holder).await?, self.busy_slot_for_body(holder, bytes).await?))
    }

    /// Waits for a second slot if a body has [`LARGE_BODY_MIN`] bytes or more. Otherwise returns `None`.
    pub async fn busy_slot_for_body(&self, holder: Holder, bytes: usize) -> Result<Option<BusySlot>> {
        if bytes >= LARGE_BODY_MIN { self.take_busy_slot(holder).await.map(Some) } else { Ok(None) }
    }

    /// Waits for a second slot for a request that occupies a thread.
    pub async fn take_busy_slot(&self, holder: Holder) -> Result<BusySlot> {
        let waited = timeout(SLOT_TIMEOUT, self.busy.wait(holder, 1)).await;
        let place = waited.map_err(|_| self.busy.exhausted(holder, 1))??;
        Ok(BusySlot { ceiling: self.busy.clone(), holder, _place: place })
    }

    /// Returns the number of taken slots.
    pub fn taken(&self) -> usize {
        self.all.taken()
    }

    /// Takes a slot, or waits for the holder's turn if no slot is free.
    ///
    /// Fails without waiting if all slots are taken and the holder's workspace has at least half of the
    /// slots.
    pub async fn take_slot(&self, holder: Holder) -> Result<PlaceGuard> {
        match self.all.try_take(holder, 1) {
            Ok(place) => Ok(place),
            Err(_) if self.all.is_used_up_by(holder.workspace) => Err(self.all.exhausted(holder, 1)),
            Err(_) => self.retake_slot(holder).await,
        }
    }

    /// Waits for a slot for a request that has released its first slot. Unlike [`InFlight::take_slot`], this
    /// waits even if the holder's workspace has half of the slots.
    pub async fn retake_slot(&self, holder: Holder) -> Result<PlaceGuard> {
        let waited = timeout(SLOT_TIMEOUT, self.all.wait(holder, 1)).await;
        waited.map_err(|_| self.all.exhausted(holder, 1))?
    }
}

/// Second slot of a request, held while the request occupies a thread.
pub(crate) struct BusySlot {
    ceiling: Ceiling,
    holder: Holder,
    _place: PlaceGuard,
}

/// Runs a request, and holds the request's second slot, if any, only while the request occupies a thread.
///
/// The slot is released while the request waits for an event. Before the request continues, it waits for its
/// turn to take a slot again.
pub(crate) async fn run_with_busy_slot<F: Future>(busy: Option<BusySlot>, request: F) -> F::Output {
    let Some(BusySlot { ceiling, holder, _place: place }) = busy else { return request.await };
    let mut request = pin!(request);
    let mut place = Some(place);
    let mut left = SLOT_TIMEOUT;
    loop {
        let polled = poll_fn(|cx| Poll::Ready(request.as_mut().poll(cx))).await;
        drop(place.take());
        if let Poll::Ready(output) = polled {
            return output;
        }
        wait_for_wake().await;
        // The request may already have changed data, so it continues without a slot once it has waited for
        // [`SLOT_TIMEOUT`] in total.
        let begun = Instant::now();
        place = timeout(left, ceiling.wait(holder, 1)).await.ok().and_then(Result::ok);
        left = left.saturating_sub(begun.elapsed());
    }
}

/// Resolves when the current task is next woken, for any reason.
async fn wait_for_wake() {
    let mut is_woken = false;
    poll_fn(|_| if replace(&mut is_woken, true) { Poll::Ready(()) } else { Poll::Pending }).await;
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
        let mut own =
            vec![places.take_slot(holder(1)).await.unwrap(), places.take_slot(holder(1)).await.unwrap()];
        let mut waiting = Box::pin(places.take_slot(holder(1)));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert!(places.take_slot(holder(2)).await.is_ok());
        drop(own.pop());
        assert!(waiting.await.is_ok());
        assert_eq!(places.taken(), 1);
    }

    #[tokio::test]
    async fn a_workspace_leaves_threads_to_others() {
        let places = InFlight::new(None);
        let of = |workspace: u8, number: u8| {
            let workspace = format!("00000000-0000-0000-0000-0000000000{workspace:02}").parse().unwrap();
            Holder { workspace, ..holder(number) }
        };
        let large =
            |holder| places.busy_slot_for_body(holder, LARGE_BODY_MIN).now_or_never().map(Result::unwrap);
        let held: Vec<_> = (0..100).map_while(|number| large(of(1, number))).collect();
        assert!(!held.is_empty() && held.iter().all(Option::is_some));
        assert!(large(of(2, 1)).is_some_and(|place| place.is_some()), "another workspace has a place");
        let mut waiting = Box::pin(places.busy_slot_for_body(of(1, 102), LARGE_BODY_MIN));
        assert!(waiting.as_mut().now_or_never().is_none(), "it has its share");
        let first = held.into_iter().next().flatten();
        let mut polls = 0;
        let mut running = Box::pin(run_with_busy_slot(
            first,
            poll_fn(|_| {
                polls += 1;
                if polls < 3 { Poll::Pending } else { Poll::Ready(()) }
            }),
        ));
        assert!(running.as_mut().now_or_never().is_none());
        let other = waiting.now_or_never().expect("what waits for the database keeps no thread busy");
        assert!(running.as_mut().now_or_never().is_none());
        assert!(running.as_mut().now_or_never().is_none(), "it waits for its turn");
        drop(other);
        assert!(running.as_mut().now_or_never().is_none(), "its second turn");
        assert!(running.as_mut().now_or_never().is_some(), "its third");
        let small = places.busy_slot_for_body(of(1, 101), LARGE_BODY_MIN - 1).now_or_never();
        assert!(small.unwrap().unwrap().is_none(), "a small body needs none");
    }

    #[tokio::test]
    async fn when_all_are_taken_only_others_and_former_holders_wait() {
        let places = InFlight::new(Some(1));
        let only = places.take_slot(holder(1)).await.unwrap();
        for number in 1..3 {
            let refused = places.take_slot(holder(number)).await.unwrap_err();
            assert_eq!(refused.code(), Code::Overloaded, "its workspace has all");
        }
        let workspace = "00000000-0000-0000-0000-000000000001".parse().unwrap();
        let other = Holder { workspace, ..holder(1) };
        let mut waiting = [Box::pin(places.take_slot(other)), Box::pin(places.take_slot(other))];
        let mut again = Box::pin(places.retake_slot(holder(2)));
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
            (0..5000).map(|_| places.take_slot(holder(1)).now_or_never().unwrap().unwrap()).collect();
        assert_eq!((held.len(), places.taken()), (5000, 5000));
    }
}
