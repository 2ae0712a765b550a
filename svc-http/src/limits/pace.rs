//! Detects peers that do not read their responses, or that send or receive files too slowly.
//!
//! An HTTP/2 peer can read from its socket and still leave a response unread, by not granting the stream a
//! flow-control window. Neither the kernel nor hyper detects that. An upload or a download of a file must
//! keep up the minimum rate over its whole length: a fast start does not compensate for a slow end.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Tracks the unread response chunks and the file downloads of one connection. Clones share the state.
#[derive(Clone)]
pub(crate) struct ReadPace(Arc<Mutex<UnreadChunks>>);

/// Response chunks and files that a connection is sending.
///
/// Each entry has a number and the time at which its wait or transfer started. The entry of a file also has
/// the rate.
#[derive(Default)]
struct UnreadChunks {
    chunks: Vec<(u64, Instant)>,
    files: Vec<(u64, Instant, TransferRate)>,
    last: u64,
}

/// Minimum accepted rate of a file transfer, in bytes per second, over the last [`RATE_WINDOW`].
pub(crate) const FILE_RATE_MIN: u64 = 16 << 10;
pub(crate) const RATE_WINDOW: Duration = Duration::from_secs(30);

/// Bytes of a file that were transferred recently, with the times of the transfer.
#[derive(Default)]
pub(crate) struct TransferRate(VecDeque<(Duration, u64)>);

impl TransferRate {
    /// Records bytes that were transferred at the time `now` after the start of the transfer.
    pub fn record(&mut self, now: Duration, bytes: u64) {
        // All bytes of a second are recorded in one entry at the end of that second, so that few entries are
        // kept.
        let slot = Duration::from_secs(now.as_secs().saturating_add(1));
        match self.0.back_mut().filter(|(last, _)| *last >= slot) {
            Some((_, last)) => *last = last.saturating_add(bytes),
            None => self.0.push_back((slot, bytes)),
        }
        let needed = self.window_start().unwrap_or(0);
        self.0.drain(..needed);
    }

    /// Returns when the transfer counts as too slow if no more bytes arrive, as a duration since its start.
    pub fn deadline(&self) -> Duration {
        let oldest = self.window_start().and_then(|place| self.0.get(place));
        oldest.map_or(RATE_WINDOW, |(at, _)| at.saturating_add(RATE_WINDOW))
    }

    /// Returns the index of the newest entry that contains, together with all later entries, the minimum
    /// bytes of a window.
    fn window_start(&self) -> Option<usize> {
        let mut bytes = 0_u64;
        let mut enough = |(_, moved): &(Duration, u64)| {
            bytes = bytes.saturating_add(*moved);
            bytes >= FILE_RATE_MIN.saturating_mul(RATE_WINDOW.as_secs())
        };
        self.0.iter().rposition(&mut enough)
    }
}

/// Guard that registers a file as being sent until the guard is dropped.
pub(crate) struct FileDownload {
    waiting: Arc<Mutex<UnreadChunks>>,
    number: u64,
}

impl FileDownload {
    /// Records bytes of the file as written to the connection.
    pub fn record(&self, bytes: usize) {
        let mut waiting = lock(&self.waiting);
        if let Some((_, began, rate)) = waiting.files.iter_mut().find(|(number, ..)| *number == self.number) {
            rate.record(began.elapsed(), u64::try_from(bytes).unwrap_or(u64::MAX));
        }
    }
}

impl Drop for FileDownload {
    fn drop(&mut self) {
        lock(&self.waiting).files.retain(|(number, ..)| *number != self.number);
    }
}

/// Guard that registers a response chunk as unread until the guard is dropped.
pub(crate) struct PendingChunk {
    waiting: Arc<Mutex<UnreadChunks>>,
    number: u64,
}

impl ReadPace {
    pub fn new() -> Self {
        Self(Arc::default())
    }

    /// Registers a response chunk as unread until the returned guard is dropped.
    pub fn register_chunk(&self) -> PendingChunk {
        PendingChunk::new(&self.0)
    }

    /// Registers a file download that starts now.
    pub fn register_file(&self) -> FileDownload {
        let mut waiting = lock(&self.0);
        waiting.last = waiting.last.saturating_add(1);
        let number = waiting.last;
        waiting.files.push((number, Instant::now(), TransferRate::default()));
        drop(waiting);
        FileDownload { waiting: Arc::clone(&self.0), number }
    }

    /// Resolves when a chunk has been unread for `timeout`, even if the peer has read other chunks, or when a
    /// file download is too slow.
    pub async fn wait_until_stalled(&self, timeout: Duration) {
        let timeout = timeout.min(RATE_WINDOW);
        loop {
            let now = Instant::now();
            let deadline = {
                let waiting = lock(&self.0);
                let chunks = waiting.chunks.iter().map(|(_, since)| *since + timeout);
                let files = waiting.files.iter().map(|(_, began, rate)| *began + rate.deadline());
                // A chunk that is registered later has a later deadline, so it needs no wake-up.
                chunks.chain(files).min().unwrap_or(now + timeout)
            };
            if now >= deadline {
                return;
            }
            sleep_until(deadline).await;
        }
    }
}

fn lock(waiting: &Mutex<UnreadChunks>) -> MutexGuard<'_, UnreadChunks> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PendingChunk {
    fn new(shared: &Arc<Mutex<UnreadChunks>>) -> Self {
        let mut waiting = lock(shared);
        waiting.last = waiting.last.saturating_add(1);
        let number = waiting.last;
        waiting.chunks.push((number, Instant::now()));
        drop(waiting);
        Self { waiting: Arc::clone(shared), number }
    }

    /// Registers another unread chunk of the same connection.
    pub fn register_another(&self) -> Self {
        Self::new(&self.waiting)
    }
}

impl Drop for PendingChunk {
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
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn speed_cannot_be_banked() {
        let mut rate = TransferRate::default();
        assert_eq!(rate.deadline(), RATE_WINDOW, "it has the time of a window to begin");
        rate.record(SECOND / 2, 1 << 40);
        assert_eq!(rate.deadline(), SECOND + RATE_WINDOW);
        // A transfer at exactly the minimum rate may continue forever, and only a few entries are kept.
        for second in 1..1000 {
            rate.record(SECOND * second, FILE_RATE_MIN);
            assert!(rate.deadline() > SECOND * second, "{second}");
        }
        assert!(rate.0.len() <= 31, "{}", rate.0.len());
        // A transfer slightly below the minimum rate must stop.
        let slow = (1000..1100).find(|second| {
            rate.record(SECOND * *second, FILE_RATE_MIN - 1024);
            rate.deadline() <= SECOND * (*second + 1)
        });
        assert!(slow.is_some_and(|second| second < 1035), "{slow:?}");
    }

    #[tokio::test]
    async fn a_file_that_was_sent_fast_and_then_rests_is_stalled() {
        let pace = ReadPace::new();
        let sending = pace.register_file();
        sending.record(1 << 30);
        let mut stalled = Box::pin(pace.wait_until_stalled(RATE_WINDOW));
        assert!(stalled.as_mut().now_or_never().is_none(), "it was sent a moment ago");
        // Moves the start of the transfer back by a window and a second.
        lock(&pace.0).files.iter_mut().for_each(|(_, began, _)| *began -= RATE_WINDOW + SECOND);
        assert!(pace.wait_until_stalled(RATE_WINDOW).now_or_never().is_some());
        sending.record(1 << 20);
        assert!(pace.wait_until_stalled(RATE_WINDOW).now_or_never().is_none(), "it moves again");
        lock(&pace.0).files.iter_mut().for_each(|(_, began, _)| *began -= RATE_WINDOW + SECOND);
        drop(sending);
        assert!(pace.wait_until_stalled(RATE_WINDOW).now_or_never().is_none(), "it was sent");
    }

    #[tokio::test]
    async fn a_peer_that_leaves_a_chunk_is_stalled() {
        let pace = ReadPace::new();
        assert!(timeout(2 * SHORT, pace.wait_until_stalled(SHORT)).await.is_err(), "nothing waits");
        let mut stalled = Box::pin(pace.wait_until_stalled(SHORT));
        assert!(stalled.as_mut().now_or_never().is_none());
        let began = Instant::now();
        let left = pace.register_chunk();
        // Reading other chunks makes no difference.
        for _ in 0..8 {
            drop(left.register_another());
            if timeout(SHORT / 2, &mut stalled).await.is_ok() {
                assert!(began.elapsed() >= SHORT);
                return;
            }
        }
        panic!("a peer that leaves a chunk is not stalled");
    }
}
