//! The rows of a log as they are stored: an event's, and the head's.
//!
//! A column that cannot be read is none here, so that the verifier reports it.

use std::ops::ControlFlow;

use crate::Result;
use crate::log::event::Subject;
use crate::store::{Columns, Conn, ToParam, Visitor};
use crate::time::Time;

/// The source of the rows: a connection, or the transaction of a function.
pub(crate) trait Source {
    /// Visits every row of a reading statement, until the visitor breaks.
    fn visit(&self, sql: &'static str, params: &[&dyn ToParam], each: Visitor<'_>) -> Result<()>;
}

impl Source for Conn {
    fn visit(&self, sql: &'static str, params: &[&dyn ToParam], each: Visitor<'_>) -> Result<()> {
        Conn::visit(self, sql, params, each)
    }
}

/// An event's row as it is stored. Unreadable columns are none, so that they can be reported.
pub(super) struct EventRow<'a> {
    pub lsn: Option<i64>,
    pub fields: Option<Fields<'a>>,
}

/// The columns of an event's row.
pub(crate) struct Fields<'a> {
    pub kind: &'a str,
    pub at: Time,
    pub subject: Subject,
    pub prev_hash: [u8; 32],
    pub content_hash: [u8; 32],
    pub payload: &'a str,
}

pub(super) const EVENTS: &str = "
    select lsn, kind, at, channel_id, thread_id, member_id, prev_hash, content_hash, payload
    from events where workspace_id = $1 and lsn > $2 and lsn <= $3 order by lsn limit $4";

impl<'a> EventRow<'a> {
    /// Reads a row of [`EVENTS`].
    pub fn of(row: &'a dyn Columns) -> Self {
        Self { lsn: row.int(0), fields: Fields::of(row) }
    }
}

impl<'a> Fields<'a> {
    fn of(row: &'a dyn Columns) -> Option<Self> {
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

/// A position and the hash there; none if they cannot be read.
#[derive(Clone, Copy)]
pub(super) struct HeadRow(pub Option<(i64, [u8; 32])>);

pub(super) const HEAD: &str = "select lsn, hash from heads where workspace_id = $1";

/// Returns the only row of a statement that selects a position and a hash, if there is one.
pub(super) fn head_row(
    source: &impl Source,
    sql: &'static str,
    params: &[&dyn ToParam],
) -> Result<Option<HeadRow>> {
    let mut found = None;
    source.visit(sql, params, &mut |row| {
        found = Some(HeadRow(row.int(0).zip(row.hash(1))));
        ControlFlow::Break(())
    })?;
    Ok(found)
}
