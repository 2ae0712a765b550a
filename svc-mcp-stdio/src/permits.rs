//! Turns of what is large: parsed JSON takes many times its bytes, so only a few large texts are parsed at once in a
//! process, and only some more wait for that with what they have. A turn is over before anything else is waited for.

use std::time::Duration;

use svc_core::{Code, Error, Result};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// A text of more bytes waits for its turn.
const LARGE: usize = 64 << 10;
/// Turns at once.
const TURNS: usize = 4;
/// Answers that are ready and wait for their turn.
const READY_MAX: usize = 32;
/// How long to wait until fewer are ready.
const TIMEOUT: Duration = Duration::from_secs(30);

static FREE: Semaphore = Semaphore::const_new(TURNS);
static READY: Semaphore = Semaphore::const_new(READY_MAX);

/// The turn of a large text; over when this is dropped.
pub type RequestPermit = SemaphorePermit<'static>;

/// The turn of a text of so many bytes. None if it is small, so that it needs none.
pub async fn take(bytes: usize) -> Option<RequestPermit> {
    if bytes <= LARGE {
        return None;
    }
    // It is never closed.
    FREE.acquire().await.ok()
}

/// The same for an answer that can be made again: none while so many are ready that it must not wait with it.
pub(crate) async fn take_ready(bytes: usize) -> Option<Option<RequestPermit>> {
    if bytes <= LARGE {
        return Some(None);
    }
    let _place = READY.try_acquire().ok()?;
    Some(take(bytes).await)
}

/// Comes back when fewer answers are ready.
pub(crate) async fn fewer_ready() -> Result<()> {
    let full = |_| Error::new(Code::Overloaded, "too many large answers are under way; try again shortly");
    timeout(TIMEOUT, READY.acquire()).await.map(drop).map_err(full)
}
