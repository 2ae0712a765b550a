//! Whether the peer of a connection takes its answers. One that reads from its socket can still leave an answer
//! where it is, over HTTP/2 by giving the stream no window; nothing below notices that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The pace of one connection. Clones are handles to the same one.
#[derive(Clone)]
pub(crate) struct Pace(Arc<Mutex<Waiting>>);

/// What waits to be taken: since when, with the number of each.
#[derive(Default)]
struct Waiting {
    pieces: Vec<(u64, Instant)>,
    last: u64,
}

/// A piece of an answer that is not taken yet, or the rest of one.
pub(crate) struct Pending {
    waiting: Arc<Mutex<Waiting>>,
    number: u64,
}

impl Pace {
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// One more piece waits, until what this returns is dropped.
    pub fn pending(&self) -> Pending {
        Pending::new(&self.0)
    }

    /// Comes back when a piece has waited for `timeout`, whatever else was taken meanwhile.
    pub async fn stalled(&self, timeout: Duration) {
        loop {
            let now = Instant::now();
            let oldest = lock(&self.0).pieces.iter().map(|(_, since)| *since).min();
            // What begins to wait later is seen in time: nobody is woken for it.
            let deadline = oldest.unwrap_or(now) + timeout;
            if now >= deadline {
                return;
            }
            sleep_until(deadline).await;
        }
    }
}

fn lock(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pending {
    fn new(shared: &Arc<Mutex<Waiting>>) -> Self {
        let mut waiting = lock(shared);
        waiting.last = waiting.last.saturating_add(1);
        let number = waiting.last;
        waiting.pieces.push((number, Instant::now()));
        drop(waiting);
        Self { waiting: Arc::clone(shared), number }
    }

    /// One that begins to wait now.
    pub fn another(&self) -> Self {
        Self::new(&self.waiting)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut waiting = lock(&self.waiting);
        if let Some(place) = waiting.pieces.iter().position(|(number, _)| *number == self.number) {
            waiting.pieces.swap_remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::time::timeout;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn a_peer_that_takes_nothing_of_what_waits_is_stalled() {
        let pace = Pace::new();
        assert!(timeout(2 * SHORT, pace.stalled(SHORT)).await.is_err(), "nothing waits");
        let mut stalled = Box::pin(pace.stalled(SHORT));
        assert!(stalled.as_mut().now_or_never().is_none());
        let began = Instant::now();
        let left = pace.pending();
        // What else it takes does not help.
        for _ in 0..8 {
            drop(left.another());
            if timeout(SHORT / 2, &mut stalled).await.is_ok() {
                assert!(began.elapsed() >= SHORT);
                return;
            }
        }
        panic!("one that leaves a piece is not stalled");
    }
}
