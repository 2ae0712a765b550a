//! The stored rows of a log: the rows of its events, and the head row.
//!
//! An unreadable column is `None`, so that the verifier reports it.

use std::ops::ControlFlow;

use crate::Result;
use crate::id::WorkspaceId;
use crate::limits::ROW_BYTES;
use crate::log::event::Subject;
use crate::log::floor::DeclaredFloor;
use crate::store::{Columns, Conn, ToParam, Visitor};
use crate::time::Time;

/// A source of stored rows: a connection, or the transaction of a function.
pub(crate) trait Source {
    /// Visits every row of a read statement, until the visitor breaks.
    fn visit(&self, sql: &'static str, params: &[&dyn ToParam], each: Visitor<'_>) -> Result<()>;

    /// Visits the first rows of a read statement, until their total size reaches `bytes` or the visitor
    /// breaks.
    ///
    /// Further rows are not fetched. Visits at least one row if the statement returns any.
    fn visit_within(
        &self,
        bytes: usize,
        sql: &'static str,
        params: &[&dyn ToParam],
        each: Visitor<'_>,
    ) -> Result<()>;
}

impl Source for Conn {
    fn visit(&self, sql: &'static str, params: &[&dyn ToParam], each: Visitor<'_>) -> Result<()> {
        Conn::visit(self, sql, params, each)
    }

    fn visit_within(
        &self,
        bytes: usize,
        sql: &'static str,
        params: &[&dyn ToParam],
        each: Visitor<'_>,
    ) -> Result<()> {
        Conn::visit_within(self, bytes, sql, params, each)
    }
}

/// The stored row of an event. Unreadable columns are `None`, so that they can be reported.
pub(super) struct EventRow<'a> {
    pub lsn: Option<i64>,
    pub fields: Option<EventFields<'a>>,
}

/// The columns of an event's row.
pub(crate) struct EventFields<'a> {
    pub kind: &'a str,
    pub at: Time,
    pub subject: Subject,
    pub prev_hash: [u8; 32],
    pub content_hash: [u8; 32],
    pub payload: &'a str,
}

const SELECT_EVENTS: &str = "
    select lsn, kind, at, channel_id, thread_id, member_id, prev_hash, content_hash, payload
    from events where workspace_id = $1 and lsn > $2 and lsn <= $3 order by lsn limit $4";

/// Visits the events after position `after`, up to position `up_to`, in a page limited by `rows` and `bytes`.
pub(super) fn visit_events(
    source: &impl Source,
    (workspace, after, up_to): (WorkspaceId, i64, i64),
    (rows, bytes): (i64, usize),
    each: Visitor<'_>,
) -> Result<()> {
    let row_overhead = usize::try_from(rows).unwrap_or(usize::MAX).saturating_mul(ROW_BYTES);
    source.visit_within(
        bytes.saturating_add(row_overhead),
        SELECT_EVENTS,
        &[&workspace, &after, &up_to, &rows],
        each,
    )
}

impl<'a> EventRow<'a> {
    /// Reads the columns of a row that the statement [`SELECT_EVENTS`] has selected.
    pub fn from_columns(row: &'a dyn Columns) -> Self {
        Self { lsn: row.int(0), fields: EventFields::from_columns(row) }
    }
}

impl<'a> EventFields<'a> {
    /// Reads the columns of an event, or returns `None` if one of them cannot be read.
    fn from_columns(row: &'a dyn Columns) -> Option<Self> {
        Some(Self {
            kind: row.text(1)?,
            at: Time::from_micros(row.int(2)?),
            subject: Subject {
                channel_id: row.id(3)?.map(Into::into),
                thread_id: row.id(4)?.map(Into::into),
                member_id: row.id(5)?.map(Into::into),
            },
            prev_hash: row.hash(6)?,
            content_hash: row.hash(7)?,
            payload: row.text(8)?,
        })
    }
}

/// A position and the hash at that position. Contains `None` if a column cannot be read.
#[derive(Clone, Copy)]
pub(super) struct PositionRow(pub Option<(i64, [u8; 32])>);

/// The head row of a log. Contains `None` if a column cannot be read.
#[derive(Clone, Copy)]
pub(super) struct HeadRow(pub Option<Head>);

/// The end of a log, and where the log begins, as stored in the head row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub lsn: i64,
    pub hash: [u8; 32],
    /// The position of the oldest event that was not pruned.
    pub floor: i64,
    /// The position of the newest event that declares pruning, or 0 if there is none.
    pub pruned_at: i64,
    /// The position up to which messages are purged, or 0 if none are.
    pub words_floor: i64,
    /// The time of the last event.
    pub at: Time,
}

const SELECT_HEAD: &str =
    "select lsn, hash, floor, pruned_at, words_floor, at from heads where workspace_id = $1";

/// Returns the head row of a workspace's log, if there is one.
pub(super) fn read_head_row(source: &impl Source, workspace: WorkspaceId) -> Result<Option<HeadRow>> {
    let head = |row: &dyn Columns| {
        let lsn = row.int(0)?;
        let hash = row.hash(1)?;
        let [floor, pruned_at, words_floor, at] = [row.int(2)?, row.int(3)?, row.int(4)?, row.int(5)?];
        Some(Head { lsn, hash, floor, pruned_at, words_floor, at: Time::from_micros(at) })
    };
    read_first(source, SELECT_HEAD, &[&workspace], |row| HeadRow(head(row)))
}

const SELECT_OLDEST: &str = "select lsn, prev_hash from events where workspace_id = $1 order by lsn limit 1";

/// Returns the position of the oldest stored event, and the hash that the event links to.
pub(super) fn read_oldest_event(source: &impl Source, workspace: WorkspaceId) -> Result<Option<PositionRow>> {
    // An unreadable link is reported when the whole event is read.
    let position = |row: &dyn Columns| Some((row.int(0)?, row.hash(1).unwrap_or_default()));
    read_first(source, SELECT_OLDEST, &[&workspace], |row| PositionRow(position(row)))
}

const SELECT_LINK: &str = "select lsn, prev_hash from events where workspace_id = $1 and lsn = $2";

/// Returns the position of an event, and the hash that the event links to.
pub(super) fn read_link(
    source: &impl Source,
    workspace: WorkspaceId,
    lsn: i64,
) -> Result<Option<PositionRow>> {
    query_position(source, SELECT_LINK, &[&workspace, &lsn])
}

const SELECT_PAYLOAD: &str = "select payload from events where workspace_id = $1 and lsn = $2";

/// Returns the beginning of the log that the event at `lsn` declares.
///
/// Returns `None` if there is no such event, and `Some(None)` if the event does not declare a beginning.
pub(super) fn read_declared_floor(
    source: &impl Source,
    workspace: WorkspaceId,
    lsn: i64,
) -> Result<Option<Option<DeclaredFloor>>> {
    read_first(source, SELECT_PAYLOAD, &[&workspace, &lsn], |row| row.text(0).and_then(DeclaredFloor::of))
}

/// Returns the only row of a statement that selects a position and a hash, if there is one.
pub(super) fn query_position(
    source: &impl Source,
    sql: &'static str,
    params: &[&dyn ToParam],
) -> Result<Option<PositionRow>> {
    read_first(source, sql, params, |row| PositionRow(row.int(0).zip(row.hash(1))))
}

/// Returns the result of `read` for a statement's only row, if there is one.
fn read_first<T>(
    source: &impl Source,
    sql: &'static str,
    params: &[&dyn ToParam],
    read: impl Fn(&dyn Columns) -> T,
) -> Result<Option<T>> {
    let mut found = None;
    source.visit(sql, params, &mut |row| {
        found = Some(read(row));
        ControlFlow::Break(())
    })?;
    Ok(found)
}
