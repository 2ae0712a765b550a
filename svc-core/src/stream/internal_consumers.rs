//! Internal consumers: the position of a consumer inside the service, such as an index, in each log.
//!
//! The position moves in the same transaction as the results of the events, so each event counts once,
//! whatever fails in between. A consumer reads verified pages, and stops where the log is broken. If the log
//! is no longer the one that it has read, because it was pruned beyond the position or another one was
//! restored, the consumer rebuilds its results from the remaining events. It does not keep a log from being
//! pruned.

use crate::Result;
use crate::error::{Code, Error};
use crate::id::WorkspaceId;
use crate::identity::floor::LogRange;
use crate::limits::{FEED_READ_BYTES, FEED_READ_ROWS};
use crate::log::bus::EventFilter;
use crate::log::event::Subject;
use crate::log::verify::{Break, ChainCursor, ReadBounds};
use crate::op::{Read, Write};
use crate::time::Time;

/// A consumer inside the service, by its name.
#[derive(Clone, Copy, Debug)]
pub struct InternalConsumer(pub &'static str);

/// An event as stored in the log: content is sealed.
#[derive(Clone, Debug)]
pub struct ConsumedEvent {
    /// Its position.
    pub lsn: i64,
    /// Its kind.
    pub kind: String,
    /// When it happened.
    pub at: Time,
    /// Its channel, thread and member.
    pub subject: Subject,
    /// Its payload, as canonical JSON.
    pub payload: String,
}

/// A position in a log, and the hash of the event there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConsumerPosition {
    /// The position; 0 is before the first event.
    pub lsn: i64,
    /// `None` before the oldest event that the log has.
    hash: Option<[u8; 32]>,
}

/// The next read of an internal consumer.
#[derive(Clone, Debug)]
pub enum ConsumedPage {
    /// The requested events between two positions.
    Events {
        /// The events, in their order.
        events: Vec<ConsumedEvent>,
        /// The position that the consumer has reached.
        from: ConsumerPosition,
        /// The position up to which events were read; the same if there are no new ones.
        up_to: ConsumerPosition,
    },
    /// The log is not the one that was read before. Its results must be removed, and the consumer begins at
    /// this position.
    Rebuild(ConsumerPosition),
    /// The log is broken, and nothing after the break can be read until it is repaired.
    Broken(Break),
}

impl InternalConsumer {
    /// Reads the next events of a workspace's log. A new consumer begins at the floor.
    pub fn read(&self, cx: &Read<'_>, workspace: WorkspaceId, filter: &EventFilter) -> Result<ConsumedPage> {
        let range = LogRange::of(cx, workspace)?;
        let oldest = ConsumerPosition { lsn: range.beginning(), hash: None };
        let from = self.position(cx, workspace)?.unwrap_or(oldest);
        if !range.has_after(from.lsn) || is_of_another_log(range.hash_in(cx, workspace, from.lsn)?, from) {
            return Ok(ConsumedPage::Rebuild(oldest));
        }
        let mut cursor = ChainCursor::after(workspace, from.lsn, from.hash);
        let bounds =
            ReadBounds { up_to: range.head, rows: FEED_READ_ROWS, bytes: FEED_READ_BYTES, young: None };
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
            // Events that were read before the break count.
            Ok(()) => Ok(ConsumedPage::Events { events, from, up_to }),
            Err(_) if up_to != from => Ok(ConsumedPage::Events { events, from, up_to }),
            // The missing events may have been pruned since the floor was read.
            Err(_) if !LogRange::of(cx, workspace)?.has_after(from.lsn) => Ok(ConsumedPage::Rebuild(oldest)),
            Err(broken) => Ok(ConsumedPage::Broken(broken)),
        }
    }

    /// Moves the position, in the transaction that stores the results of the events up to it.
    ///
    /// Fails if another process has moved it in between: then roll the transaction back.
    pub fn advance(&self, cx: &mut Write<'_>, from: ConsumerPosition, up_to: ConsumerPosition) -> Result<()> {
        let workspace = cx.caller().workspace_id;
        match self.position(cx, workspace)? {
            Some(position) if position != from => {
                Err(Error::new(Code::Unavailable, "another process has read on meanwhile"))
            }
            _ => self.begin_at(cx, up_to),
        }
    }

    /// Starts over at a position, in the transaction that removes the earlier results.
    pub fn begin_at(&self, cx: &mut Write<'_>, position: ConsumerPosition) -> Result<()> {
        let workspace = cx.caller().workspace_id;
        cx.execute(1, SET, &[&self.0, &workspace, &position.lsn, &position.hash])
    }

    fn position(&self, cx: &Read<'_>, workspace: WorkspaceId) -> Result<Option<ConsumerPosition>> {
        let row: Option<(i64, Option<[u8; 32]>)> = cx.one(POSITION, &[&self.0, &workspace])?;
        Ok(row.map(|(lsn, hash)| ConsumerPosition { lsn, hash }))
    }
}

/// Returns whether the event at a position is not the one that was read there.
fn is_of_another_log(stored: Option<[u8; 32]>, read: ConsumerPosition) -> bool {
    stored.zip(read.hash).is_some_and(|(stored, read)| stored != read)
}

const POSITION: &str = "select after_id, hash from taps where name = $1 and workspace_id = $2";

const SET: &str = "
    insert into taps (name, workspace_id, after_id, hash) values ($1, $2, $3, $4)
    on conflict (name, workspace_id) do update set after_id = excluded.after_id, hash = excluded.hash";
