//! Permits for parsing large JSON texts.
//!
//! Parsed JSON takes many times the memory of its text, so a process parses only a few large texts at once,
//! and only a limited number of finished responses wait for that in memory. A permit is released before its
//! holder waits for anything else.

use std::time::Duration;

use svc_core::{Code, Error, Result};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// Size in bytes above which a text needs a permit.
const LARGE_BYTES: usize = 64 << 10;
/// Large texts that may be parsed at once.
const PARSING_MAX: usize = 4;
/// Finished responses that may wait for a permit.
const WAITING_MAX: usize = 32;
/// Longest wait until fewer responses are waiting.
const TIMEOUT: Duration = Duration::from_secs(30);

static PARSING: Semaphore = Semaphore::const_new(PARSING_MAX);
static WAITING: Semaphore = Semaphore::const_new(WAITING_MAX);

/// The permit to parse a large text; dropping it releases it.
pub type RequestPermit = SemaphorePermit<'static>;

/// Waits for the permit to parse a text of `bytes`. Returns none for a small text, which needs no permit.
pub async fn take(bytes: usize) -> Option<RequestPermit> {
    if bytes <= LARGE_BYTES {
        return None;
    }
    // The semaphore is never closed, so this does not fail.
    PARSING.acquire().await.ok()
}

/// Waits for the permit to parse a response that can be produced again.
///
/// Returns none if too many responses are waiting already, so the caller must drop this one instead of
/// waiting.
pub(crate) async fn take_ready(bytes: usize) -> Option<Option<RequestPermit>> {
    if bytes <= LARGE_BYTES {
        return Some(None);
    }
    let _waiting = WAITING.try_acquire().ok()?;
    Some(take(bytes).await)
}

/// Waits until fewer responses are waiting.
pub(crate) async fn fewer_ready() -> Result<()> {
    let full = |_| Error::new(Code::Overloaded, "too many large responses are in progress");
    timeout(TIMEOUT, WAITING.acquire()).await.map(drop).map_err(full)
}
