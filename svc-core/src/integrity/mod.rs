//! What makes the record trustworthy: reading the event log and proving that it is whole, and the audit trail of
//! who asked for what.
//!
//! - `events`: the log, as its readers may see it, waiting for what comes next, and the verdict on the chain
//! - `audit`: the rows that every change and every delegated request leaves

pub(crate) mod audit;
pub(crate) mod events;
