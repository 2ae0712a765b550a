//! Polls a future again immediately if the future has woken itself.
//!
//! While a connection is polled, hyper wakes the same connection whenever the body of a request is read. A
//! multi-threaded runtime then queues the task and wakes another thread, which steals the task. Stealing
//! takes longer than answering a small request.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;

/// Maximum consecutive polls of a future before other tasks run.
const POLLS_MAX: usize = 4;

/// State: the future has not been woken since its last poll.
const IDLE: u8 = 0;
/// State: the future is being polled.
const POLLING: u8 = 1;
/// State: the future was woken and must be polled again.
const WOKEN: u8 = 2;

/// Future that polls an inner future, and polls the inner future again if it was woken during the poll.
pub(crate) struct SelfWaking<'a, F> {
    future: Pin<&'a mut F>,
    wakes: Arc<WakeState>,
    waker: Waker,
}

struct WakeState {
    state: AtomicU8,
    task: AtomicWaker,
}

impl Wake for WakeState {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::AcqRel) == IDLE {
            self.task.wake();
        }
    }
}

impl<'a, F: Future> SelfWaking<'a, F> {
    /// Wraps `future`.
    pub fn new(future: Pin<&'a mut F>) -> Self {
        let wakes = Arc::new(WakeState { state: AtomicU8::new(IDLE), task: AtomicWaker::new() });
        Self { future, waker: Waker::from(Arc::clone(&wakes)), wakes }
    }
}

impl<F: Future> Future for SelfWaking<'_, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Self { future, wakes, waker } = &mut *self;
        wakes.task.register(cx.waker());
        for _ in 0..POLLS_MAX {
            wakes.state.store(POLLING, Ordering::Release);
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                return Poll::Ready(output);
            }
            let idle = wakes.state.compare_exchange(POLLING, IDLE, Ordering::AcqRel, Ordering::Acquire);
            if idle.is_ok() {
                return Poll::Pending;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Counts the wakes of a task.
    #[derive(Default)]
    struct WakeCounter(AtomicUsize);

    impl Wake for WakeCounter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Polls a future that wakes itself `own` times. Returns how often the future was polled and how often
    /// its task was woken.
    fn polled(own: usize) -> (usize, usize) {
        let count = Arc::new(WakeCounter::default());
        let mut polls = 0;
        let future = pin!(poll_fn(|cx| {
            polls += 1;
            if polls <= own {
                cx.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        }));
        let polled = pin!(SelfWaking::new(future)).poll(&mut Context::from_waker(&Arc::clone(&count).into()));
        assert_eq!(polled, Poll::Pending);
        (polls, count.0.load(Ordering::Relaxed))
    }

    #[test]
    fn a_future_that_wakes_itself_is_polled_again_but_not_for_ever() {
        assert_eq!(polled(0), (1, 0));
        assert_eq!(polled(1), (2, 0));
        assert_eq!(polled(POLLS_MAX - 1), (POLLS_MAX, 0));
        assert_eq!(polled(usize::MAX), (POLLS_MAX, 1), "its task goes on with it");
    }

    #[test]
    fn whoever_wakes_it_later_wakes_its_task_once() {
        let count = Arc::new(WakeCounter::default());
        let mut kept = None;
        let future = pin!(poll_fn(|cx| {
            kept = Some(cx.waker().clone());
            Poll::<()>::Pending
        }));
        {
            let mut polled = pin!(SelfWaking::new(future));
            for _ in 0..2 {
                let waker = Arc::clone(&count).into();
                assert_eq!(polled.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
            }
        }
        let kept = kept.unwrap();
        kept.wake_by_ref();
        kept.wake();
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
    }
}
