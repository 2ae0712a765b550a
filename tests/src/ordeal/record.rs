//! The record of a write: the request and its outcome.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

/// The requested write.
///
/// Titles, bodies and marks are unique, so that each can be found later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// A new thread of this title.
    Thread(String),
    /// A message with this body, in this thread.
    Post {
        /// The thread.
        thread: String,
        /// Its body.
        body: String,
    },
    /// An edit of a message; requested once per message.
    Edit {
        /// The message.
        message: String,
        /// Its new body.
        body: String,
    },
    /// The withdrawal of a message; requested once per message.
    Withdraw(String),
    /// The cancellation of a thread; requested once per thread.
    Cancel(String),
    /// A claim on the next thread.
    Claim,
    /// A result with this mark, for a thread.
    Result {
        /// The thread.
        thread: String,
        /// A text that distinguishes the result from all others.
        mark: String,
    },
}

/// The outcome that the caller received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was done.
    Acknowledged {
        /// The id of the created or changed thread or message, or of the lease of a claim.
        id: String,
        /// Its position according to the response; `None` if that has no position.
        lsn: Option<i64>,
        /// The thread that was claimed, for a claim.
        thread: Option<String>,
    },
    /// It was rejected, with this status and code.
    Refused(u16, String),
    /// It may have been done: the response said so, or did not arrive.
    Unknown,
}

/// A write, and its outcome.
#[derive(Clone, Debug)]
pub struct Record {
    /// The member that made the request.
    pub member: String,
    /// The request.
    pub write: Write,
    /// The outcome.
    pub verdict: Verdict,
    /// The time that the request took.
    pub took: Duration,
}

impl Record {
    /// Returns whether the response was a success.
    pub fn is_acknowledged(&self) -> bool {
        matches!(self.verdict, Verdict::Acknowledged { .. })
    }

    /// Returns whether the response was a rejection.
    pub fn is_refused(&self) -> bool {
        matches!(self.verdict, Verdict::Refused(..))
    }
}

impl fmt::Display for Record {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}: {:?}", self.write, self.verdict)
    }
}

/// Returns an id without its dashes, as in the rows of the database.
pub fn plain(id: &Value) -> String {
    id.as_str().unwrap_or_default().replace('-', "")
}

/// Returns the outcome that a response reports, or `None` if there was nothing to do.
pub fn verdict(write: &Write, status: u16, answer: &Value) -> Option<Verdict> {
    let code = answer["type"].as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    if code == "outcome-unknown" {
        return Some(Verdict::Unknown);
    }
    if !(200..300).contains(&status) {
        return Some(Verdict::Refused(status, code.to_owned()));
    }
    let lsn = answer["lsn"].as_i64();
    Some(match write {
        Write::Claim if answer["id"].is_null() => return None,
        Write::Claim => Verdict::Acknowledged {
            id: plain(&answer["claim_lease_id"]),
            lsn: None,
            thread: Some(plain(&answer["id"])),
        },
        Write::Result { thread, .. } => Verdict::Acknowledged { id: thread.clone(), lsn, thread: None },
        Write::Thread(_) | Write::Post { .. } => {
            Verdict::Acknowledged { id: plain(&answer["id"]), lsn, thread: None }
        }
        Write::Edit { message: id, .. } | Write::Withdraw(id) | Write::Cancel(id) => {
            Verdict::Acknowledged { id: id.clone(), lsn: None, thread: None }
        }
    })
}
