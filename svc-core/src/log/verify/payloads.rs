//! Verifies a log from the payloads of its events, without a database.
//!
//! A payload contains all columns of its event, so nothing else is needed. The log begins at its floor.

use serde::Deserialize;

use super::rows::{EventFields, EventRow, Head, HeadRow};
use super::verifier::{Position, Verifier};
use super::{Break, Defect};
use crate::hash::{parse_hash, sha256};
use crate::id::{ChannelId, MemberId, ThreadId, WorkspaceId};
use crate::log::event::Subject;
use crate::log::floor::DeclaredFloor;
use crate::time::Time;

/// The member with which a payload begins.
#[derive(Deserialize)]
struct PayloadStart {
    #[serde(rename = "$chain")]
    chain: Chain,
}

#[derive(Deserialize)]
struct Chain {
    at: i64,
    channel_id: Option<ChannelId>,
    kind: String,
    lsn: i64,
    member_id: Option<MemberId>,
    prev_hash: String,
    thread_id: Option<ThreadId>,
}

/// The columns of an event, as parsed from its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventColumns {
    pub lsn: i64,
    pub kind: String,
    pub at: Time,
    pub subject: Subject,
    pub prev_hash: [u8; 32],
    pub content_hash: [u8; 32],
}

impl EventColumns {
    /// Parses the columns from a payload. Returns `None` if the text is not the payload of an event.
    pub fn of(payload: &str) -> Option<Self> {
        let PayloadStart { chain } = serde_json::from_str(payload).ok()?;
        let Chain { at, channel_id, kind, lsn, member_id, prev_hash, thread_id } = chain;
        let subject = Subject { channel_id, thread_id, member_id };
        let at = Time::from_micros(at);
        let prev_hash = parse_hash(&prev_hash)?;
        Some(Self { lsn, kind, at, subject, prev_hash, content_hash: sha256(payload.as_bytes()) })
    }
}

/// A verifier that accepts the payloads of a log in order, beginning at the log's floor.
pub(crate) struct PayloadVerifier {
    verifier: Verifier,
    /// The position of the event that declares the floor, or 0 for a log that was not pruned.
    pruned_at: i64,
    /// The hash that the event at the floor links to, or `None` before that event.
    floor_prev_hash: Option<[u8; 32]>,
    /// The floor that the event at `pruned_at` declares, once that event was accepted.
    declared: Option<DeclaredFloor>,
}

impl PayloadVerifier {
    /// Creates a verifier for a log with this floor, which the event at `pruned_at` declares. `pruned_at` is
    /// 0 for a log that was not pruned.
    pub fn new(workspace: WorkspaceId, floor: i64, pruned_at: i64) -> Self {
        let mut verifier = Verifier::new(workspace, None);
        verifier.floor = floor;
        Self { verifier, pruned_at, floor_prev_hash: None, declared: None }
    }

    /// Accepts the next payload, with the columns that [`EventColumns::of`] parsed from it.
    pub fn accept(&mut self, payload: &str, columns: Option<&EventColumns>) -> Result<(), Break> {
        let lsn = self.position().saturating_add(1);
        let columns = columns.ok_or(Break { lsn, defect: Defect::Unreadable })?;
        if self.floor_prev_hash.is_none() {
            self.floor_prev_hash = Some(columns.prev_hash);
            if self.verifier.floor > 1 {
                let before = self.verifier.floor.saturating_sub(1);
                self.verifier.begin_after(Position { lsn: before, hash: columns.prev_hash })?;
            }
        }
        let fields = EventFields {
            kind: &columns.kind,
            at: columns.at,
            subject: columns.subject,
            prev_hash: columns.prev_hash,
            content_hash: columns.content_hash,
            payload,
        };
        let row = EventRow { lsn: Some(columns.lsn), fields: Some(fields) };
        // The columns were parsed from this payload, and so was the hash.
        self.verifier.accept_with_hash(&row, |fields| fields.content_hash)?;
        if columns.lsn == self.pruned_at {
            self.declared = DeclaredFloor::of(payload);
        }
        Ok(())
    }

    /// Returns the position of the last accepted event.
    pub fn position(&self) -> i64 {
        self.verifier.lsn
    }

    /// Checks, after the last event, that the log ends with this position, hash and time.
    ///
    /// Also checks that the log and its messages begin where its events have declared.
    pub fn end(&self, (lsn, hash, at): (i64, [u8; 32], Time), words_floor: i64) -> Result<(), Break> {
        let floor = self.verifier.floor;
        let pruned_at = self.pruned_at;
        let head = Head { lsn, hash, floor, pruned_at, words_floor, at };
        self.verifier.check_head(Some(&HeadRow(Some(head))))?;
        let broken = Err(Break { lsn: pruned_at.max(self.verifier.pruned_at), defect: Defect::Floor });
        if self.verifier.pruned_at != pruned_at {
            return broken;
        }
        let is_declared = match &self.declared {
            None => floor == 1 && pruned_at == 0,
            Some(declared) => {
                declared.floor == floor
                    && floor <= pruned_at
                    && self.floor_prev_hash == Some(declared.prev_hash)
            }
        };
        if is_declared { self.verifier.check_purged_messages(words_floor) } else { broken }
    }
}
