//! Operations on budgets: those of threads, and those of the children that threads create.

pub(crate) mod thread;
pub(crate) mod usage;
pub(crate) mod spawn;
