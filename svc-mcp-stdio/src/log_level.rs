//! The levels of log messages, which are those of syslog (RFC 5424, section 6.2.1).
//!
//! rmcp's model has them too, but marked as deprecated: newer revisions are about to remove them.

use serde::{Deserialize, Serialize};

/// A level of log messages, the least severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// What helps to find a fault.
    Debug,
    /// What is worth knowing.
    Info,
    /// What is unusual, and no fault.
    Notice,
    /// What may become a fault.
    Warning,
    /// A fault.
    Error,
    /// A fault of a part that much depends on.
    Critical,
    /// What must be mended at once.
    Alert,
    /// Nothing works.
    Emergency,
}
