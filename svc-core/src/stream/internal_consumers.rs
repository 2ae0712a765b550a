//! Internal consumers: components of the service, such as an index, that read each log from a stored
//! position.
//!
//! The position moves in the same transaction that stores the results of the events, so each event is
//! processed once, even after a failure. A consumer reads verified pages, and stops where the log is broken.
//! If the log was pruned beyond the position, or another log was restored, the consumer rebuilds its results
//! from the remaining events. A consumer does not prevent a log from being pruned.

use crate::Result;
use crate::error::{Code, Error};
use crate::id::WorkspaceId;
use crate::identity::floor::LogRange;
use crate::limits::{FEED_READ_BYTES, FEED_READ_EVENTS_MAX};
use crate::log::bus::EventFilter;
use crate::log::event::Subject;
use crate::log::verify::{Break, ChainCursor, ReadBounds};
use crate::op::{Read, Write};
use crate::time::Time;

/// A consumer inside the service, identified by its name.
#[derive(Clone, Copy, Debug)]
pub struct InternalConsumer(pub &'static str);

/// An event as stored in the log, with its content sealed.
#[derive(Clone, Debug)]
pub struct ConsumedEvent {
    /// The event's position in the log.
    pub lsn: i64,
    /// The event's kind.
    pub kind: String,
    /// When the event happened.
    pub at: Time,
    /// Ids of the event's channel, thread and member.
    pub subject: Subject,
    /// The event's payload, as canonical JSON.
    pub payload: String,
}

/// A consumer's position in a log, and the hash of the event at that position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerPosition {
    /// The position in the log; 0 is before the first event.
    pub lsn: i64,
    /// The hash of the event at the position; `None` before the oldest remaining event.
    hash: Option<[u8; 32]>,
}

/// The result of an internal consumer's next read.
#[derive(Clone, Debug)]
pub enum ConsumedPage {
    /// The events between two positions that match the consumer's filter.
    Events {
        /// The events, in the order of the log.
        events: Vec<ConsumedEvent>,
        /// The consumer's position before this read.
        from: ConsumerPosition,
        /// The position up to which the log was read; equal to `from` if there are no new events.
        up_to: ConsumerPosition,
    },
    /// The log was pruned beyond the consumer's position, or replaced. The consumer must remove its results
    /// and begin again at this position.
    Rebuild(ConsumerPosition),
    /// The log is broken. Nothing after the break can be read until the log is repaired.
    Broken(Break),
}

impl InternalConsumer {
    /// Reads the next events of a workspace's log that match `filter`. A new consumer begins at the log's
    /// floor.
    pub fn read(&self, cx: &Read<'_>, workspace: WorkspaceId, filter: &EventFilter) -> Result<ConsumedPage> {
        let range = LogRange::of(cx, workspace)?;
        let oldest = ConsumerPosition { lsn: range.beginning(), hash: None };
        let from = self.load_position(cx, workspace)?.unwrap_or(oldest);
        if !range.has_all_events_after(from.lsn)
            || is_different_event(range.event_hash_in(cx, workspace, from.lsn)?, from)
        {
            return Ok(ConsumedPage::Rebuild(oldest));
        }
        let mut cursor = ChainCursor::after(workspace, from.lsn, from.hash);
        let bounds =
            ReadBounds { up_to: range.head, rows: FEED_READ_EVENTS_MAX, bytes: FEED_READ_BYTES, young: None };
        let mut events = Vec::new();
        let read = cursor.read(cx, bounds, |lsn, row| {
            if filter.matches(row.kind, &row.subject) {
                let kind = row.kind.to_owned();
                let payload = row.payload.to_owned();
                events.push(ConsumedEvent { lsn, kind, at: row.at, subject: row.subject, payload });
            }
            true
        })?;
        let up_to = match cursor.lsn() == from.lsn {
            true => from,
            false => ConsumerPosition { lsn: cursor.lsn(), hash: Some(cursor.hash()) },
        };
        match read {
            // Events that were read before the break are valid.
            Ok(()) => Ok(ConsumedPage::Events { events, from, up_to }),
            Err(_) if up_to != from => Ok(ConsumedPage::Events { events, from, up_to }),
            // The missing events may have been pruned since the floor was read.
            Err(_) if !LogRange::of(cx, workspace)?.has_all_events_after(from.lsn) => {
                Ok(ConsumedPage::Rebuild(oldest))
            }
            Err(broken) => Ok(ConsumedPage::Broken(broken)),
        }
    }

    /// Moves the consumer's position, in the transaction that stores the results of the events up to `up_to`.
    ///
    /// Fails with 503 `unavailable` if another process has moved the position since `from` was read. The
    /// caller must then roll back the transaction.
    pub fn advance(&self, cx: &mut Write<'_>, from: ConsumerPosition, up_to: ConsumerPosition) -> Result<()> {
        let workspace = cx.caller().workspace_id;
        match self.load_position(cx, workspace)? {
            Some(position) if position != from => Err(Error::new(
                Code::Unavailable,
                "another process has already moved this consumer's position",
            )),
            _ => self.store_position(cx, up_to),
        }
    }

    /// Stores the position at which the consumer starts over, in the transaction that removes the earlier
    /// results.
    pub fn store_position(&self, cx: &mut Write<'_>, position: ConsumerPosition) -> Result<()> {
        let workspace = cx.caller().workspace_id;
        cx.execute(1, UPSERT_POSITION, &[&self.0, &workspace, &position.lsn, &position.hash])
    }

    fn load_position(&self, cx: &Read<'_>, workspace: WorkspaceId) -> Result<Option<ConsumerPosition>> {
        let row: Option<(i64, Option<[u8; 32]>)> = cx.one(SELECT_POSITION, &[&self.0, &workspace])?;
        Ok(row.map(|(lsn, hash)| ConsumerPosition { lsn, hash }))
    }
}

/// Returns whether the stored event at a position differs from the event that the consumer read there.
fn is_different_event(stored_hash: Option<[u8; 32]>, position: ConsumerPosition) -> bool {
    stored_hash.zip(position.hash).is_some_and(|(stored, read)| stored != read)
}

const SELECT_POSITION: &str = "select after_id, hash from taps where name = $1 and workspace_id = $2";

const UPSERT_POSITION: &str = "
    insert into taps (name, workspace_id, after_id, hash) values ($1, $2, $3, $4)
    on conflict (name, workspace_id) do update set after_id = excluded.after_id, hash = excluded.hash";
