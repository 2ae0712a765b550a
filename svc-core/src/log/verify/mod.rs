//! Verifies that a workspace's log is intact, or reports the first event that is broken.
//!
//! Verification shares with the writing code only the definitions of a link and a hash; it recomputes
//! everything else from the stored columns and bytes. It needs no key, parses only the JSON of events that
//! declare pruning, and borrows rows from the database without copying them. It protects everything before a
//! known head; without one, the newest events could be removed together with the head row unnoticed. The
//! audit trail is not part of the chain; verifying an entire database also checks that its rows exist.
//!
//! This file defines the defects and the report; `rows` defines the rows as they are stored, `verifier`
//! checks them in order, `cursor` continues from a verified position, `walk` reads page by page, `beginning`
//! determines and checks where a log begins, `database` verifies all logs of a database, `presence` checks
//! the audit trail, `checkpoint` signs the size of a log, with the Merkle tree that `tree` computes, and
//! `payloads` verifies a log without a database.

mod presence;
mod rows;
mod tree;
mod verifier;
mod cursor;
mod beginning;
mod walk;
mod payloads;
mod database;
mod checkpoint;

use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::error::Error;
use crate::hash::parse_hash;
use crate::id::WorkspaceId;
pub(crate) use checkpoint::log_checkpoint;
pub use checkpoint::{SignedCheckpoint, sign_checkpoint, verify_checkpoint};
pub(crate) use cursor::{ChainCursor, ReadBounds, RecentTimes, check_content_hash};
pub(crate) use database::open_for_audit;
pub use database::verify_database;
pub(crate) use payloads::{EventColumns, PayloadVerifier};
pub(crate) use presence::listed_workspaces;
pub(crate) use rows::{EventFields, Source};
pub(crate) use walk::LogVerification;

/// A defect of an event, or of the head of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Defect {
    /// The event at this position is missing.
    Missing,
    /// A column of the event or the head row does not contain a value of its type.
    Unreadable,
    /// The columns of the event differ from the columns in its payload.
    Columns,
    /// The type in the payload does not match the kind of the event.
    Type,
    /// The payload does not have the content hash of the event.
    Content,
    /// The event does not link to the previous event.
    Link,
    /// The log has events, but no head row.
    NoHead,
    /// The head row has an earlier position than the last event, or another hash or time.
    Head,
    /// The log does not contain the expected head.
    Expected,
    /// Events are stored where none may be: before the first position, or under an invalid workspace id.
    Stray,
    /// The log does not exist, although it should.
    ///
    /// The instance's log lists the workspace, the log was requested, or it is the instance's own log and
    /// there are workspaces.
    LogMissing,
    /// The workspace is not listed in the instance's log.
    Unlisted,
    /// The audit trail has fewer or more rows than the head row counts.
    Audit,
    /// The head row and the newest event that declares pruning disagree about the beginning of the log.
    Floor,
    /// The head row and the newest event that purges messages disagree about which messages are purged.
    Words,
}

impl Defect {
    /// Returns a sentence that describes the defect.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Missing => "the event is missing",
            Self::Unreadable => "a column of the event or head does not contain a value of its type",
            Self::Columns => "the columns of the event differ from the columns in its payload",
            Self::Type => "the type in the payload does not match the kind of the event",
            Self::Content => "the payload does not have the content hash of the event",
            Self::Link => "the event does not link to the event before it",
            Self::NoHead => "the log has events, but no head row",
            Self::Head => "the head row does not agree with the last event",
            Self::Expected => "the log does not contain the expected head",
            Self::Stray => "events are stored before the first position, or under an invalid workspace id",
            Self::LogMissing => "the log is missing",
            Self::Unlisted => "the instance's log does not list the workspace",
            Self::Audit => "the audit trail does not have the rows that the head row counts",
            Self::Floor => "the log does not begin where its newest pruning has declared",
            Self::Words => "the purged messages are not those that the newest purge has declared",
        }
    }
}

/// The first defect of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Break {
    /// The position of the first broken event, or of the first broken audit row for the defect `audit`.
    pub lsn: i64,
    /// The kind of the defect.
    pub defect: Defect,
}

/// A position in a log, and the content hash of the event at that position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ChainHead {
    /// The position of the last event, or 0 without events.
    pub lsn: i64,
    /// The content hash of the last event, as `sha256:<hex>`. For an empty log, the hash that a first event
    /// would link to.
    pub hash: String,
}

/// The result of searching a log for an expected head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ExpectedFound {
    /// The log contains the head, so no event before it has changed since then.
    Contained,
    /// The head is older than the log's floor: nothing is broken, but nothing is proven.
    BelowFloor,
}

/// The result of verifying the log of one workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ChainReport {
    /// The workspace of the log. The nil id is the instance.
    pub workspace_id: WorkspaceId,
    /// Whether every event is intact and linked, and the head row is correct.
    pub valid: bool,
    /// Number of events that were found intact.
    pub events: i64,
    /// The position of the oldest event in the log.
    pub floor: i64,
    /// The last event that was found intact.
    ///
    /// Keep this head: a log that still contains it later has preserved everything before it.
    pub head: ChainHead,
    /// Whether the expected head was found. `None` if no head was expected, or if the log is broken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<ExpectedFound>,
    /// The first defect in the log, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<Break>,
}

/// A head of a log that was noted earlier. If the log contains the head, everything before it is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedHead {
    pub lsn: i64,
    pub hash: [u8; 32],
}

impl FromStr for ExpectedHead {
    type Err = Error;

    /// Parses `LSN:HASH`, where the hash is 64 hexadecimal digits, with or without a preceding `sha256:`.
    fn from_str(text: &str) -> Result<Self> {
        let read = text.split_once(':').and_then(|(lsn, hash)| {
            let lsn: i64 = lsn.parse().ok().filter(|lsn| *lsn >= 0)?;
            let hash = parse_hash(hash).or_else(|| parse_hash(&format!("sha256:{hash}")))?;
            Some(Self { lsn, hash })
        });
        read.ok_or_else(|| Error::malformed(format!("expected a head as LSN:HASH, found \"{text}\"")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::chain::genesis;

    #[test]
    fn an_expected_head_is_parsed_with_and_without_the_algorithm() {
        let digits = hex::encode(genesis());
        let wanted = ExpectedHead { lsn: 12, hash: genesis() };
        assert_eq!(format!("12:{digits}").parse::<ExpectedHead>().unwrap(), wanted);
        assert_eq!(format!("12:sha256:{digits}").parse::<ExpectedHead>().unwrap(), wanted);
        for text in ["", "12", "12:", "x:00", "-1:00", "12:00"] {
            assert!(text.parse::<ExpectedHead>().is_err(), "{text}");
        }
    }
}
