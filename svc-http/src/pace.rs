//! Detects peers that do not read their responses.
//!
//! A peer that reads from its socket can still leave a response unread, over HTTP/2 by giving the stream no
//! window. The layers below do not notice that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The unread chunks of one connection. Clones share them.
#[derive(Clone)]
pub(crate) struct Pace(Arc<Mutex<Waiting>>);

/// The chunks that wait to be taken: the number of each, and since when it waits.
#[derive(Default)]
struct Waiting {
    chunks: Vec<(u64, Instant)>,
    last: u64,
}

/// A chunk of a response, or the rest of one, that was not taken yet.
pub(crate) struct Pending {
    waiting: Arc<Mutex<Waiting>>,
    number: u64,
}

impl Pace {
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// Registers one more chunk as waiting until the returned guard is dropped.
    pub fn pending(&self) -> Pending {
        Pending::new(&self.0)
    }

    /// Resolves when a chunk has waited for `timeout`, whatever else was taken meanwhile.
    pub async fn stalled(&self, timeout: Duration) {
        loop {
            let now = Instant::now();
            let oldest = lock(&self.0).chunks.iter().map(|(_, since)| *since).min();
            // A chunk that starts to wait later has a later deadline, so no wake-up is needed for it.
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
        waiting.chunks.push((number, Instant::now()));
        drop(waiting);
        Self { waiting: Arc::clone(shared), number }
    }

    /// Registers another chunk of the same connection, which starts to wait now.
    pub fn another(&self) -> Self {
        Self::new(&self.waiting)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let mut waiting = lock(&self.waiting);
        if let Some(index) = waiting.chunks.iter().position(|(number, _)| *number == self.number) {
            waiting.chunks.swap_remove(index);
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
    async fn a_peer_that_leaves_a_chunk_is_stalled() {
        let pace = Pace::new();
        assert!(timeout(2 * SHORT, pace.stalled(SHORT)).await.is_err(), "nothing waits");
        let mut stalled = Box::pin(pace.stalled(SHORT));
        assert!(stalled.as_mut().now_or_never().is_none());
        let began = Instant::now();
        let left = pace.pending();
        // Taking other chunks does not help.
        for _ in 0..8 {
            drop(left.another());
            if timeout(SHORT / 2, &mut stalled).await.is_ok() {
                assert!(began.elapsed() >= SHORT);
                return;
            }
        }
        panic!("a peer that leaves a chunk is not stalled");
    }
}
