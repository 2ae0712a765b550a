//! Whether the peer of a connection takes its answers. One that reads from its socket can still leave an answer
//! where it is, over HTTP/2 by giving the stream no window; nothing below notices that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The pace of one connection. Clones are handles to the same one.
#[derive(Clone)]
pub(crate) struct Pace(Arc<Mutex<Waiting>>);

/// What waits to be taken.
struct Waiting {
    pieces: usize,
    /// When something was taken last, or nothing was left.
    since: Instant,
}

/// A piece of an answer that is not taken yet.
pub(crate) struct Pending(Arc<Mutex<Waiting>>);

impl Pace {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Waiting { pieces: 0, since: Instant::now() })))
    }

    /// One more piece waits, until what this returns is dropped.
    pub fn pending(&self) -> Pending {
        Pending::new(&self.0)
    }

    /// Comes back when pieces have waited, and none was taken, for `timeout`.
    pub async fn stalled(&self, timeout: Duration) {
        loop {
            let now = Instant::now();
            let (pieces, since) = {
                let waiting = lock(&self.0);
                (waiting.pieces, waiting.since)
            };
            // What begins to wait later is seen in time: nobody is woken for it.
            let deadline = if pieces == 0 { now + timeout } else { since + timeout };
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
        if waiting.pieces == 0 {
            waiting.since = Instant::now();
        }
        waiting.pieces = waiting.pieces.saturating_add(1);
        drop(waiting);
        Self(Arc::clone(shared))
    }
}

impl Clone for Pending {
    fn clone(&self) -> Self {
        Self::new(&self.0)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut waiting = lock(&self.0);
        waiting.pieces = waiting.pieces.saturating_sub(1);
        waiting.since = Instant::now();
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
        let (one, _another) = (pace.pending(), pace.pending());
        assert!(timeout(SHORT / 2, &mut stalled).await.is_err());
        drop(one);
        let taken = Instant::now();
        stalled.await;
        assert!(taken.elapsed() >= SHORT, "it took a piece meanwhile");
    }
}
