//! A limited supply with a quota for each holder.
//!
//! Connections, unfinished bodies and unread response bytes are limited like this, so that no single client
//! can use up all of them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// A supply shared by many holders, each identified by a key.
pub(crate) struct Shares<K>(Arc<Supply<K>>);

impl<K> Clone for Shares<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct Supply<K> {
    /// The limit in all.
    all: usize,
    /// The quota of one holder.
    each: usize,
    taken: Mutex<Taken<K>>,
    returned: Notify,
}

struct Taken<K> {
    /// The total. Each holder counts up to its quota, so what it has beyond that takes nothing from others.
    all: usize,
    each: HashMap<K, usize>,
}

/// A share of the supply; dropping it returns it.
#[must_use = "dropping the share returns it"]
pub(crate) struct Share<K: Copy + Eq + Hash> {
    supply: Arc<Supply<K>>,
    key: K,
    size: usize,
}

impl<K: Copy + Eq + Hash> Shares<K> {
    /// Creates a supply of `all`, of which one holder may have `each`.
    pub fn new(all: usize, each: usize) -> Self {
        let taken = Mutex::new(Taken { all: 0, each: HashMap::new() });
        Self(Arc::new(Supply { all, each, taken, returned: Notify::new() }))
    }

    /// Takes `size` if that much is left.
    ///
    /// A holder that has nothing may take more than its quota; otherwise something larger than the quota
    /// could never be taken. Likewise a share larger than the whole supply is available while nothing is
    /// taken.
    pub fn take(&self, key: K, size: usize) -> Option<Share<K>> {
        let supply = &self.0;
        let mut taken = supply.lock();
        let own = taken.each.get(&key).copied().unwrap_or(0);
        let fits = |taken: usize, most: usize| taken == 0 || taken.saturating_add(size) <= most;
        let may = fits(taken.all, supply.all) && fits(own, supply.each);
        may.then(|| self.record(&mut taken, key, size))
    }

    /// Takes `size` even beyond the quota and the limit.
    pub fn take_anyway(&self, key: K, size: usize) -> Share<K> {
        self.record(&mut self.0.lock(), key, size)
    }

    /// Takes `size`, waiting until that much is left.
    pub async fn wait(&self, key: K, size: usize) -> Share<K> {
        self.poll_until(|| self.take(key, size)).await
    }

    /// Returns how much is taken in all.
    pub fn taken(&self) -> usize {
        self.0.lock().all
    }

    /// Resolves once `key` has less than its quota.
    pub async fn below_quota(&self, key: K) {
        self.poll_until(|| self.0.lock().each.get(&key).is_none_or(|own| *own < self.0.each).then_some(()))
            .await;
    }

    /// Polls `ready` whenever a share is returned, and resolves to its first value.
    async fn poll_until<T>(&self, ready: impl Fn() -> Option<T>) -> T {
        loop {
            let returned = self.0.returned.notified();
            let mut returned = std::pin::pin!(returned);
            // Registered before `ready` is polled, so that no return is missed.
            returned.as_mut().enable();
            if let Some(value) = ready() {
                return value;
            }
            returned.await;
        }
    }

    fn record(&self, taken: &mut Taken<K>, key: K, size: usize) -> Share<K> {
        let own = taken.each.entry(key).or_default();
        let counted = (*own).min(self.0.each);
        *own = own.saturating_add(size);
        taken.all = taken.all.saturating_add((*own).min(self.0.each).saturating_sub(counted));
        Share { supply: Arc::clone(&self.0), key, size }
    }
}

impl<K> Supply<K> {
    fn lock(&self) -> MutexGuard<'_, Taken<K>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Copy + Eq + Hash> Share<K> {
    pub fn size(&self) -> usize {
        self.size
    }

    /// Merges a share of the same holder into this one.
    pub fn merge(&mut self, mut other: Self) {
        self.size = self.size.saturating_add(std::mem::take(&mut other.size));
    }

    /// Splits off a share of `size`.
    pub fn split(&mut self, size: usize) -> Self {
        let size = size.min(self.size);
        self.size = self.size.saturating_sub(size);
        Self { supply: Arc::clone(&self.supply), key: self.key, size }
    }
}

impl<K: Copy + Eq + Hash> Drop for Share<K> {
    fn drop(&mut self) {
        if self.size == 0 {
            return;
        }
        let mut taken = self.supply.lock();
        if let Some(own) = taken.each.get_mut(&self.key) {
            let counted = (*own).min(self.supply.each);
            *own = own.saturating_sub(self.size);
            let left = *own;
            if left == 0 {
                taken.each.remove(&self.key);
            }
            taken.all = taken.all.saturating_sub(counted.saturating_sub(left.min(self.supply.each)));
        }
        drop(taken);
        self.supply.returned.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn taken(shares: &Shares<u8>) -> (usize, usize) {
        let taken = shares.0.lock();
        (taken.all, taken.each.len())
    }

    #[test]
    fn nobody_exceeds_the_quota_or_the_limit() {
        let shares = Shares::new(10, 4);
        let mut held: Vec<_> = [1, 1, 2, 2, 3].iter().map(|key| shares.take(*key, 2).unwrap()).collect();
        assert!(shares.take(1, 1).is_none(), "its quota is used up");
        assert!(shares.take(3, 1).is_none(), "nothing is left");
        let over = shares.take_anyway(3, 5);
        assert_eq!(taken(&shares), (12, 3), "what is beyond the quota takes nothing from others");
        assert!(
            shares.below_quota(3).now_or_never().is_none() && shares.below_quota(4).now_or_never().is_some()
        );
        drop(over);
        assert_eq!(taken(&shares), (10, 3));
        held.truncate(2);
        assert_eq!(taken(&shares), (4, 1));
        drop(held);
        assert_eq!(taken(&shares), (0, 0));
        let large = shares.take(1, 100).unwrap();
        assert!(shares.take(1, 1).is_none() && shares.take(2, 1).is_some());
        drop(large);
    }

    #[test]
    fn a_share_is_returned_in_parts() {
        let shares = Shares::new(10, 10);
        let mut whole = shares.take(1, 10).unwrap();
        let part = whole.split(4);
        let mut rest = whole.split(1);
        rest.merge(whole.split(2));
        whole.merge(rest);
        assert_eq!((whole.size(), part.size(), taken(&shares)), (6, 4, (10, 1)));
        drop(whole);
        assert_eq!(taken(&shares), (4, 1));
        drop(part);
        assert_eq!(taken(&shares), (0, 0));
    }

    #[test]
    fn a_waiter_gets_what_is_returned() {
        let shares = Shares::new(10, 5);
        let held = shares.take(1, 5).unwrap();
        let mut waiting = Box::pin(shares.wait(1, 3));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(shares.take(2, 5).unwrap());
        assert!(
            waiting.as_mut().now_or_never().is_none(),
            "a share returned by another holder does not help"
        );
        drop(held);
        assert!(waiting.now_or_never().is_some());
    }
}
