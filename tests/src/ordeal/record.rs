//! What a caller records of a write: what it asked for, and what it was told.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

/// What was asked for. Titles, bodies and marks are unique, so that each can be found again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// A new thread of this title.
    Thread(String),
    /// A message that says this, in this thread.
    Post {
        /// The thread.
        thread: String,
        /// What it says.
        body: String,
    },
    /// A message to say something else from now on; asked for once per message.
    Edit {
        /// The message.
        message: String,
        /// What it is to say.
        body: String,
    },
    /// The end of a message; asked for once per message.
    Withdraw(String),
    /// The end of a thread; asked for once per thread.
    Cancel(String),
    /// A claim on whatever thread is next.
    Claim,
    /// A result with this mark, for a thread.
    Result {
        /// The thread.
        thread: String,
        /// What tells the result from all others.
        mark: String,
    },
}

/// What the caller was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was done.
    Acknowledged {
        /// What was made or changed: the thread, the message or, for a claim, the lease.
        id: String,
        /// Where the answer says that it stands in the log; none if it does not say.
        lsn: Option<i64>,
        /// The thread that was claimed, for a claim.
        thread: Option<String>,
    },
    /// It was not done, with the status and the code that said so.
    Refused(u16, String),
    /// It may have been done: the answer said so, or there was none.
    Unknown,
}

/// A write, and what came of it.
#[derive(Clone, Debug)]
pub struct Record {
    /// The member who asked.
    pub member: String,
    /// What it asked for.
    pub write: Write,
    /// What it was told.
    pub verdict: Verdict,
    /// How long that took.
    pub took: Duration,
}

impl Record {
    /// Whether the caller was told that it was done.
    pub fn is_acknowledged(&self) -> bool {
        matches!(self.verdict, Verdict::Acknowledged { .. })
    }

    /// Whether the caller was told that it was not done.
    pub fn is_refused(&self) -> bool {
        matches!(self.verdict, Verdict::Refused(..))
    }
}

impl fmt::Display for Record {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}: {:?}", self.write, self.verdict)
    }
}

/// An id without its dashes, as the database's rows are read.
pub fn plain(id: &Value) -> String {
    id.as_str().unwrap_or_default().replace('-', "")
}

/// What an answer says of a write; none if there was nothing to be done.
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
