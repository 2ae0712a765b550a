//! What servers tell each other of the requests that they have admitted.
//!
//! Requests that have to wait for it are in a queue, which a thread of the host serves with a connection of
//! its own: [`RateLimits::next_sharing`] returns what to do next, and [`Told`] what to do it with. Statements
//! are not known here. While the thread has no connection nobody waits.

use std::sync::MutexGuard;
use std::time::Duration;

use uuid::Uuid;

use super::{Limited, RateLimits, exceeded};
use crate::error::Result;
use crate::time::Monotonic;

/// What is called when other servers have been told, with the refusal if a limit is exceeded by now.
type Then = Box<dyn FnOnce(Result<()>) + Send>;

/// A request that waits.
struct Waiter {
    due: Vec<Limited>,
    then: Then,
}

/// What is to be told.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Vec<Waiter>,
    /// The thread that serves it has a connection.
    is_served: bool,
    is_closed: bool,
    /// Rows that nobody needs any more are to be removed.
    pub tidy: bool,
}

/// What the thread does next.
pub(crate) enum Sharing {
    /// Tell the other servers of this, and then settle it.
    Tell(Told),
    /// Remove what nobody needs any more.
    Tidy,
    /// Open a connection again; nobody waits meanwhile.
    Connect,
}

/// Requests that other servers are told of.
pub(crate) struct Told {
    waiting: Vec<Waiter>,
    limits: Vec<Limited>,
    usage: Vec<Usage>,
}

/// How much of one limit was used here since the other servers were last told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// The same on every server.
    pub key: Uuid,
    /// How many requests.
    requests: u32,
    /// How long these take to become available again.
    pub cost: Duration,
}

impl Told {
    fn of_nothing(waiting: Vec<Waiter>) -> Self {
        Self { waiting, limits: Vec::new(), usage: Vec::new() }
    }

    /// Returns what was used, in the order of the keys.
    pub fn usage(&self) -> &[Usage] {
        &self.usage
    }
}

impl RateLimits {
    /// Tells other servers of these limits, and then calls `then`.
    ///
    /// Called at once if there is nobody who could tell them.
    pub fn tell(&self, due: Vec<Limited>, then: impl FnOnce(Result<()>) + Send + 'static) {
        match self.serving_queue() {
            Some(mut queue) => {
                queue.waiting.push(Waiter { due, then: Box::new(then) });
                drop(queue);
                self.queue.iter().for_each(|queue| queue.notify());
            }
            None => then(Ok(())),
        }
    }

    fn serving_queue(&self) -> Option<MutexGuard<'_, Queue>> {
        self.queue.as_ref().map(|queue| queue.lock()).filter(|queue| queue.is_served && !queue.is_closed)
    }

    /// Returns the window of the limits, if there are other servers to tell.
    pub fn shared_window(&self) -> Option<Duration> {
        self.queue.as_ref().map(|_| self.window)
    }

    /// Says whether the thread that calls [`RateLimits::next_sharing`] can tell other servers anything.
    ///
    /// If it cannot, nobody waits for it.
    pub fn serve(&self, is_served: bool) {
        let Some(queue) = &self.queue else { return };
        let waiting = {
            let mut queue = queue.lock();
            queue.is_served = is_served;
            if is_served { Vec::new() } else { std::mem::take(&mut queue.waiting) }
        };
        self.settle(Told::of_nothing(waiting), None);
    }

    /// Waits for something to tell, and returns it; none once the service closes.
    ///
    /// Without a connection it returns at `retry` that one is needed.
    pub fn next_sharing(&self, retry: Option<Monotonic>) -> Option<Sharing> {
        let monitor = self.queue.as_ref()?;
        let mut queue = monitor.lock();
        loop {
            if queue.is_closed {
                return None;
            }
            match retry {
                Some(retry) if self.clock.remaining(retry).is_zero() => return Some(Sharing::Connect),
                Some(_) => {}
                None if !queue.waiting.is_empty() => {
                    let waiting = std::mem::take(&mut queue.waiting);
                    drop(queue);
                    return Some(Sharing::Tell(self.told(waiting)));
                }
                None if std::mem::take(&mut queue.tidy) => return Some(Sharing::Tidy),
                None => {}
            }
            queue = monitor.wait(queue, retry);
        }
    }

    /// Reads how much of the limits was used that requests wait for.
    fn told(&self, waiting: Vec<Waiter>) -> Told {
        let mut limits: Vec<Limited> = waiting.iter().flat_map(|waiter| waiter.due.iter().copied()).collect();
        limits.sort_by_cached_key(|limited| limited.key());
        limits.dedup();
        let usage = |limited: &Limited| {
            let bucket = self.buckets.get(limited)?;
            let requests = bucket.due()?;
            Some((*limited, Usage { key: limited.key(), requests, cost: bucket.allowance.cost(requests) }))
        };
        let (limits, usage) = limits.iter().filter_map(usage).unzip();
        Told { waiting, limits, usage }
    }

    /// Takes over what all servers have used, and lets the requests go on that waited for that.
    ///
    /// `used` is how long each limit takes to be whole again, in the order of [`Told::usage`]; if that could
    /// not be read, what this server has admitted decides.
    pub fn settle(&self, told: Told, used: Option<Vec<Duration>>) {
        let now = self.now();
        for ((limited, usage), full_in) in told.limits.iter().zip(&told.usage).zip(used.into_iter().flatten())
        {
            if let Some(mut bucket) = self.buckets.get_mut(limited) {
                bucket.adopt(usage.requests, full_in, now);
            }
        }
        for Waiter { due, then } in told.waiting {
            let over = due.iter().find_map(|limited| self.buckets.get(limited)?.over(now));
            then(over.map_or(Ok(()), |early| Err(exceeded(early))));
        }
    }

    /// Ends the waits for other servers; there are none from now on.
    pub fn close(&self) {
        let Some(monitor) = &self.queue else { return };
        let waiting = {
            let mut queue = monitor.lock();
            queue.is_closed = true;
            std::mem::take(&mut queue.waiting)
        };
        monitor.notify();
        self.settle(Told::of_nothing(waiting), None);
    }
}
