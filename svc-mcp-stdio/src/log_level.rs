//! Defines the levels of log messages, which equal the levels of syslog (RFC 5424, section 6.2.1).
//!
//! The library rmcp also defines these levels, but marks them as deprecated, because future revisions of the
//! protocol will remove them.

use serde::{Deserialize, Serialize};

/// Level of a log message, ordered from the least severe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Information that helps to find a fault.
    Debug,
    /// General information.
    Info,
    /// An unusual event that is not a fault.
    Notice,
    /// A possible fault.
    Warning,
    /// A fault.
    Error,
    /// A fault of an important component.
    Critical,
    /// A fault that must be corrected immediately.
    Alert,
    /// The system does not work.
    Emergency,
}
