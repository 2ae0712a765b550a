//! Operations on budgets: those of threads (usage limits), and that of a workspace (limits on child threads).

pub(crate) mod thread;
pub(crate) mod usage;
pub(crate) mod spawn;
