//! Wakes a subscriber that waits for events, and stores the last lookup of its caller.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::sync::{Notify, oneshot};

use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::log::bus::{EventFilter, NewEvent, Wake};
use crate::op::{Caller, Dispatch};
use crate::time::Monotonic;
use crate::timers::TimerId;

/// Wakes a subscriber that waits for events.
#[derive(Default)]
pub(super) struct Wakeup {
    notify: Notify,
    /// Number of times that another connection of this process has taken the same consumer.
    holder_check_requests: AtomicU64,
}

impl Wakeup {
    pub fn wake(&self) {
        self.notify.notify_one();
    }

    /// Makes the subscriber check immediately whether it still holds its consumer.
    pub fn request_holder_check(&self) {
        self.holder_check_requests.fetch_add(1, Ordering::SeqCst);
        self.wake();
    }

    /// Returns how many times the subscriber had to check its consumer.
    pub fn holder_check_requests(&self) -> u64 {
        self.holder_check_requests.load(Ordering::SeqCst)
    }

    /// Sleeps until the subscriber is woken, or until `deadline`.
    pub async fn sleep_until(self: &Arc<Self>, dispatch: &Arc<Dispatch>, deadline: Monotonic) {
        let wakeup = Arc::clone(self);
        let timer = dispatch.timers.at(deadline, move || wakeup.wake());
        let _timer = TimerGuard(dispatch, timer);
        self.notify.notified().await;
    }
}

/// A caller, as found by the last lookup in a transaction.
pub(super) struct CallerLookup {
    pub caller: Caller,
    pub epoch: i64,
    /// The time at which the caller was last looked up, or the epoch was last found unchanged.
    pub checked_at: Monotonic,
}

/// A listener on the bus. Dropping this guard removes the listener.
pub(super) struct ListenerGuard {
    pub dispatch: Arc<Dispatch>,
    pub workspace: WorkspaceId,
    pub listener_id: u64,
}

impl ListenerGuard {
    /// Registers a listener, which wakes `wakeup` when an event after `after_lsn` matches `filter`.
    pub fn begin(
        dispatch: &Arc<Dispatch>,
        workspace: WorkspaceId,
        after_lsn: i64,
        filter: EventFilter,
        wakeup: &Arc<Wakeup>,
    ) -> Self {
        let listener_id = dispatch.rounds.next_number();
        let wakeup = Arc::clone(wakeup);
        let wake: Wake = Arc::new(move |_: &[NewEvent]| wakeup.wake());
        dispatch.bus.listen(workspace, listener_id, after_lsn, filter, wake);
        Self { dispatch: Arc::clone(dispatch), workspace, listener_id }
    }
}

impl Drop for ListenerGuard {
    fn drop(&mut self) {
        self.dispatch.bus.unlisten(self.workspace, self.listener_id);
    }
}

/// Awaits `work` for at most `timeout`, then fails with 503 `unavailable`.
pub(super) async fn with_timeout<T>(
    dispatch: &Arc<Dispatch>,
    timeout: Duration,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let (timeout_sender, timeout_receiver) = oneshot::channel();
    let timer = dispatch.timers.after(timeout, move || {
        // The work may have finished already.
        let _ = timeout_sender.send(());
    });
    let _timer = TimerGuard(dispatch, timer);
    match select(pin!(work), timeout_receiver).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right(_) => Err(Error::new(Code::Unavailable, "the database did not respond in time")),
    }
}

/// Stops a timer when dropped.
struct TimerGuard<'a>(&'a Arc<Dispatch>, TimerId);

impl Drop for TimerGuard<'_> {
    fn drop(&mut self) {
        self.0.timers.stop(self.1);
    }
}
