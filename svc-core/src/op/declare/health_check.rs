//! Health checks: whether each component of the service works, and the number of items in the component.
//!
//! The readiness route reports whether the components work; `get_operator_status` also reports the numbers of
//! items. Features declare their health checks. A shell declares none, because shells start and stop while
//! the service is open; [`Gauges`] reports the load of the shells.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, Weak};

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Result;
use crate::op::run::context::Read;
use crate::sync::lock;

/// A component of the service with its health check.
pub struct HealthCheck {
    /// Unique name of the component, used in responses.
    pub name: &'static str,
    /// The method by which the service checks whether the component works.
    pub health: CheckMethod,
    /// Returns the number of items in the component and their limit, if the component has items to count.
    pub status: Option<MeasureDepth>,
}

/// Returns a description of a component's problem, or a remark about the component, as seen by this process.
/// Returns `None` without a problem or remark.
type ProcessCheck = Box<dyn Fn() -> Option<String> + Send + Sync>;

/// Returns the number of a component's items and their limit.
pub type MeasureDepth = Box<dyn Fn() -> Depth + Send + Sync>;

/// How the service checks whether a component works.
pub enum CheckMethod {
    /// The component has no health check.
    Unchecked,
    /// A check by a database query, which returns a description of the problem, if there is one.
    InDatabase(fn(&Read<'_>) -> Result<Option<String>>),
    /// A check within this process, without the database.
    InProcess(ProcessCheck),
    /// The component always counts as working, but this process may report a remark about the component.
    RemarkOnly(ProcessCheck),
}

/// The current number of items in a component, and the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Depth {
    /// Current number of items.
    pub count: u64,
    /// Maximum number of items at the same time, or null without a limit.
    pub limit: Option<u64>,
}

impl Depth {
    /// Creates the depth of a component with `count` items and the limit `limit`.
    pub fn new(count: usize, limit: Option<usize>) -> Self {
        let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Self { count: number(count), limit: limit.map(number) }
    }

    /// Returns the sum of two depths, without a limit if either depth has no limit.
    fn plus(self, other: Self) -> Self {
        let limit = self.limit.zip(other.limit).map(|(a, b)| a.saturating_add(b));
        Self { count: self.count.saturating_add(other.count), limit }
    }
}

/// A shell: a server that passes requests from outside this process to the service.
pub trait Shell: Send + Sync {
    /// Returns whether the shell has begun to stop.
    fn is_draining(&self) -> bool;

    /// Returns the depth of each bounded resource of the shell, with the resource's name in responses.
    fn depths(&self) -> Vec<(&'static str, Depth)>;
}

/// The shells that serve a service. Their depths are measured on request.
#[derive(Clone, Default)]
pub struct Gauges(Arc<Mutex<Vec<Weak<dyn Shell>>>>);

impl Gauges {
    /// Adds a shell. The gauges include the shell until it is dropped.
    pub fn add(&self, shell: Weak<dyn Shell>) {
        let mut shells = lock(&self.0);
        shells.retain(|known| known.strong_count() > 0);
        shells.push(shell);
    }

    /// Returns whether any shell has begun to stop.
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
