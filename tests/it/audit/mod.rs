//! The audit trail, and the comparison of tables with the log.

pub mod histories;
mod state;
mod trail;
