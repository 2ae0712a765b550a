//! Operations on thread budgets (limits on usage) and on the spawn budget of a workspace (limits on child
//! threads).

pub(crate) mod thread;
pub(crate) mod usage;
pub(crate) mod spawn;
