//! Health checks: whether each component of the service works, and how full the component is.
//!
//! Readiness reports whether the components work, `get_operator_status` reports both. Features declare their
//! health checks. A shell has none, since it comes and goes while the service is open; [`Gauges`] shows its
//! load.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Result;
use crate::op::run::context::Read;
use crate::sync::lock;

/// A component of the service, and its health check.
pub struct HealthCheck {
    /// Its unique name in responses.
    pub name: &'static str,
    /// The check that finds out whether it works.
    pub health: CheckMethod,
    /// The number of its items and their limit, if it has a limit.
    pub status: Option<MeasureDepth>,
}

/// Describes a problem of a component as this process sees it, if there is one.
type ProcessCheck = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// Returns the number of a component's items and their limit.
pub type MeasureDepth = Box<dyn Fn() -> Depth + Send + Sync>;

/// How the service checks whether a component works.
pub enum CheckMethod {
    /// There is nothing to check.
    Unchecked,
    /// By a query; returns a description of the problem, if there is one.
    InDatabase(fn(&Read<'_>) -> Result<Option<String>>),
    /// From this process alone, independently of the database.
    InProcess(ProcessCheck),
    /// It always works, but this process may have a remark about it.
    Remarkable(ProcessCheck),
}

/// The number of items, and their limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Depth {
    /// The current number.
    pub count: u64,
    /// Maximum number at the same time; null if there is no limit.
    pub limit: Option<u64>,
}

impl Depth {
    /// Returns the depth of `count` items with the limit `limit`.
    pub fn new(count: usize, limit: Option<usize>) -> Self {
        let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Self { count: number(count), limit: limit.map(number) }
    }

    /// Returns the sum of two depths.
    fn plus(self, other: Self) -> Self {
        let limit = self.limit.zip(other.limit).map(|(a, b)| a.saturating_add(b));
        Self { count: self.count.saturating_add(other.count), limit }
    }
}

/// A shell: it serves requests to the service from outside of this process.
pub trait Shell: Send + Sync {
    /// Returns whether it is about to stop.
    fn is_draining(&self) -> bool;

    /// Returns the depths of its bounded resources, by their names in responses.
    fn depths(&self) -> Vec<(&'static str, Depth)>;
}

/// The depths of the shells that serve a service, read on request.
#[derive(Clone, Default)]
pub struct Gauges(Arc<Mutex<Vec<Weak<dyn Shell>>>>);

impl Gauges {
    /// Adds a shell, for its lifetime.
    pub fn add(&self, shell: Weak<dyn Shell>) {
        let mut shells = lock(&self.0);
        shells.retain(|known| known.strong_count() > 0);
        shells.push(shell);
    }

    /// Returns whether a shell is about to stop.
    pub fn is_draining(&self) -> bool {
        self.shells().iter().any(|shell| shell.is_draining())
    }

    /// Returns the depths of the shells' resources, summed by name.
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
