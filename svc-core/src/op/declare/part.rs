//! The parts of the service as its operator sees them: whether each works, and how much there is of what it
//! limits.
//!
//! Readiness reports whether the parts work, `get_operator_status` both. Features declare their parts. A
//! shell is none, since it comes and goes while the service is open; what it serves is seen through
//! [`Gauges`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Result;
use crate::op::run::context::Read;
use crate::sync::lock;

/// A part of the service.
pub struct Part {
    /// Its name in responses, of which there is only one.
    pub name: &'static str,
    /// What is wrong with it.
    pub health: Health,
    /// How much there is of what it limits, if it limits something.
    pub status: Option<PartStatus>,
}

/// Says what is wrong with a part as this process sees it, if anything is.
type ProcessCheck = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// Says how much there is of what a part limits.
pub type PartStatus = Box<dyn Fn() -> Depth + Send + Sync>;

/// How it is known whether a part works.
pub enum Health {
    /// There is nothing to check.
    Unchecked,
    /// By asking the database; the description of what is wrong, if anything is.
    InDatabase(fn(&Read<'_>) -> Result<Option<String>>),
    /// From this process alone, however the database is.
    InProcess(ProcessCheck),
    /// It works always, but there may be something to say of it, from this process alone.
    Remarkable(ProcessCheck),
}

/// How much there is of something, and how much there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Depth {
    /// How many there are now.
    pub count: u64,
    /// How many there may be at once; null if there is no limit.
    pub limit: Option<u64>,
}

impl Depth {
    /// Returns that of `count` things, of which there may be `limit`.
    pub fn new(count: usize, limit: Option<usize>) -> Self {
        let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Self { count: number(count), limit: limit.map(number) }
    }

    /// Returns that of these things and those together.
    fn plus(self, other: Self) -> Self {
        let limit = self.limit.zip(other.limit).map(|(a, b)| a.saturating_add(b));
        Self { count: self.count.saturating_add(other.count), limit }
    }
}

/// What serves requests to the service from outside of this process.
pub trait Shell: Send + Sync {
    /// Returns whether it is about to stop.
    fn is_draining(&self) -> bool;

    /// Returns how much there is of what it limits, by the names that responses have.
    fn depths(&self) -> Vec<(&'static str, Depth)>;
}

/// The numbers of the shells that serve a service, read when somebody asks.
#[derive(Clone, Default)]
pub struct Gauges(Arc<Mutex<Vec<Weak<dyn Shell>>>>);

impl Gauges {
    /// Adds a shell, for as long as it exists.
    pub fn add(&self, shell: Weak<dyn Shell>) {
        let mut shells = lock(&self.0);
        shells.retain(|known| known.strong_count() > 0);
        shells.push(shell);
    }

    /// Returns whether a shell is about to stop.
    pub fn is_draining(&self) -> bool {
        self.shells().iter().any(|shell| shell.is_draining())
    }

    /// Returns how much there is of what the shells limit; those of one name together.
    pub fn depths(&self) -> BTreeMap<&'static str, Depth> {
        let mut all: BTreeMap<&'static str, Depth> = BTreeMap::new();
        for (name, depth) in self.shells().iter().flat_map(|shell| shell.depths()) {
            all.entry(name).and_modify(|known| *known = known.plus(depth)).or_insert(depth);
        }
        all
    }

    fn shells(&self) -> Vec<Arc<dyn Shell>> {
        lock(&self.0).iter().filter_map(Weak::upgrade).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fake(bool, Option<usize>);

    impl Shell for Fake {
        fn is_draining(&self) -> bool {
            self.0
        }

        fn depths(&self) -> Vec<(&'static str, Depth)> {
            vec![("sockets", Depth::new(2, self.1))]
        }
    }

    #[test]
    fn shells_are_seen_together_and_while_they_exist() {
        let gauges = Gauges::default();
        let add = |is_draining, limit| {
            let shell: Arc<dyn Shell> = Arc::new(Fake(is_draining, limit));
            gauges.add(Arc::downgrade(&shell));
            shell
        };
        let sockets = || gauges.depths().get("sockets").copied();
        assert_eq!((sockets(), gauges.is_draining()), (None, false));
        let first = add(false, Some(10));
        assert_eq!((sockets(), gauges.is_draining()), (Some(Depth::new(2, Some(10))), false));
        let second = add(true, Some(5));
        assert_eq!((sockets(), gauges.is_draining()), (Some(Depth::new(4, Some(15))), true));
        drop(second);
        let unlimited = add(false, None);
        assert_eq!((sockets(), gauges.is_draining()), (Some(Depth::new(4, None)), false));
        drop((first, unlimited));
        assert_eq!(sockets(), None);
    }
}
