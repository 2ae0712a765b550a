//! Lets other tasks that are ready on a runtime's thread run before the current task.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use tokio::task::yield_now;

/// Resolves once the other tasks that are ready on the current thread have run.
///
/// In contrast, [`yield_now`] resolves whenever it is polled again, for any reason.
pub(super) async fn yield_to_ready_tasks() {
    let turn = Arc::new(RuntimeTurn::default());
    let waker = Waker::from(Arc::clone(&turn));
    // Polling the future once makes the runtime wake the turn later; outside a runtime it is woken
    // immediately.
    let _ = pin!(yield_now()).poll(&mut Context::from_waker(&waker));
    poll_fn(|cx| {
        turn.task.register(cx.waker());
        if turn.has_come.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// Whether the other ready tasks have run, and the task to wake after that.
#[derive(Default)]
struct RuntimeTurn {
    has_come: AtomicBool,
    task: AtomicWaker,
}

impl Wake for RuntimeTurn {
    fn wake(self: Arc<Self>) {
        self.has_come.store(true, Ordering::Release);
        self.task.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_polls_it_again_does_not_end_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let ran = Arc::new(AtomicBool::new(false));
        runtime.block_on(async {
            let other = Arc::clone(&ran);
            tokio::spawn(async move { other.store(true, Ordering::Relaxed) });
            let mut turn = Box::pin(yield_to_ready_tasks());
            let mut polls = 0;
            poll_fn(|cx| {
                for _ in 0..3 {
                    if turn.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(());
                    }
                    polls += 1;
                }
                Poll::Pending
            })
            .await;
            assert!(polls >= 3, "polling it again does not end it");
            assert!(ran.load(Ordering::Relaxed), "the other task went first");
        });
    }

    #[test]
    fn outside_a_runtime_there_are_no_others() {
        let turn = pin!(yield_to_ready_tasks());
        assert!(turn.poll(&mut Context::from_waker(Waker::noop())).is_ready());
    }
}
