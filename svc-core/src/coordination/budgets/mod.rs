//! Budgets, as members set, spend and read them: of threads, and of what threads create below them.

pub(crate) mod thread;
pub(crate) mod usage;
pub(crate) mod spawn;
