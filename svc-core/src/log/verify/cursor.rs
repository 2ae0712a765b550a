//! A cursor at a verified position in a log, which accepts only events that link to that position.
//!
//! For followers of a log that store a position themselves. Everything before the position was verified when
//! it was read, or is trusted by a reader that begins there.

use std::ops::ControlFlow;
use std::time::Duration;

use super::rows::{EventFields, EventRow, Source, visit_events};
use super::verifier::Verifier;
use super::{Break, Defect};
use crate::Result;
use crate::hash::sha256;
use crate::id::WorkspaceId;
use crate::limits::CLOCK_STEP_IMMEDIATE_MAX;
use crate::time::Time;

/// A position in a log up to which a reader has verified the log.
#[derive(Clone)]
pub(crate) struct ChainCursor {
    verifier: Verifier,
    /// Whether the hash at the position is known. Otherwise the link of the first event is trusted.
    is_anchored: bool,
}

/// The limits of one read of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadBounds {
    /// The last position to read. The caller must know that the log has reached it.
    pub up_to: i64,
    /// Maximum rows to read.
    pub rows: i64,
    /// Total bytes of payloads after which no further row is read.
    pub bytes: usize,
    /// Times of events that are too recent. Reading stops before the first event with such a time.
    pub young: Option<RecentTimes>,
}

/// The range of times of events that are too recent to be read.
///
/// The age of an event with a time in the future is unknown, because a clock was wrong. As times in a log
/// never go back, all later events may have future times too. Such events do not count as recent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecentTimes {
    after: Time,
    up_to: Time,
}

impl RecentTimes {
    /// Returns the range of times of events that are younger than `min_age` at the time `now`.
    pub fn than(min_age: Duration, now: Time) -> Self {
        Self { after: now.before(min_age), up_to: now.plus(CLOCK_STEP_IMMEDIATE_MAX) }
    }

    /// Returns whether an event with the time `at` is too recent.
    pub fn contains(self, at: Time) -> bool {
        at > self.after && at <= self.up_to
    }
}

impl ChainCursor {
    /// Creates a cursor after `lsn`. Without the hash at `lsn`, the link of the first event is trusted.
    pub fn after(workspace: WorkspaceId, lsn: i64, hash: Option<[u8; 32]>) -> Self {
        let mut verifier = Verifier::new(workspace, None);
        verifier.lsn = lsn;
        match hash {
            Some(hash) => verifier.hash = hash,
            None if lsn > 0 => return Self { verifier, is_anchored: false },
            None => {}
        }
        Self { verifier, is_anchored: true }
    }

    /// Returns the position of the cursor: that of the last accepted event.
    pub fn lsn(&self) -> i64 {
        self.verifier.lsn
    }

    /// Returns the hash of the event at the cursor's position.
    pub fn hash(&self) -> [u8; 32] {
        self.verifier.hash
    }

    /// Reads the next events and verifies each before passing it to `each`, which returns whether to
    /// continue.
    ///
    /// The inner error is a break of the chain. Reading then stops, and the cursor stays at the position
    /// before the break. An event that should exist according to `bounds` but does not is missing.
    pub fn read(
        &mut self,
        source: &impl Source,
        bounds: ReadBounds,
        each: impl FnMut(i64, &EventFields<'_>) -> bool,
    ) -> Result<Result<(), Break>> {
        self.read_with_hash(source, bounds, |fields| sha256(fields.payload.as_bytes()), each)
    }

    /// Reads events as [`Self::read`] does, but does not check that a payload has the content hash of its
    /// event.
    ///
    /// `each` has to check this with [`check_content_hash`].
    pub fn read_without_hashing(
        &mut self,
        source: &impl Source,
        bounds: ReadBounds,
        each: impl FnMut(i64, &EventFields<'_>) -> bool,
    ) -> Result<Result<(), Break>> {
        self.read_with_hash(source, bounds, |fields| fields.content_hash, each)
    }

    /// Reads events as [`Self::read`] does, with `payload_hash` as the hash of their payloads.
    fn read_with_hash(
        &mut self,
        source: &impl Source,
        bounds: ReadBounds,
        payload_hash: fn(&EventFields<'_>) -> [u8; 32],
        mut each: impl FnMut(i64, &EventFields<'_>) -> bool,
    ) -> Result<Result<(), Break>> {
        let workspace = self.verifier.workspace_id;
        let mut checked = Ok(());
        let mut stopped = false;
        let mut rows = bounds.rows;
        let mut bytes = bounds.bytes;
        let mut at = self.clone();
        // The database may send fewer rows than it could, so only an empty result means that no event is
        // left.
        while checked.is_ok() && !stopped && rows > 0 && at.lsn() < bounds.up_to {
            let after = at.lsn();
            let asked = rows;
            visit_events(source, (workspace, after, bounds.up_to), (rows, bytes), &mut |row| {
                let event = EventRow::from_columns(row);
                stopped = event
                    .fields
                    .as_ref()
                    .is_some_and(|fields| bounds.young.is_some_and(|young| young.contains(fields.at)));
                if stopped {
                    return ControlFlow::Break(());
                }
                checked = at.accept(&event, payload_hash);
                rows -= 1;
                let (Ok(()), Some(fields)) = (&checked, &event.fields) else { return ControlFlow::Break(()) };
                bytes = bytes.saturating_sub(fields.payload.len());
                stopped = !each(at.lsn(), fields) || bytes == 0;
                if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            if rows == asked && !stopped {
                checked = Err(Break { lsn: after.saturating_add(1), defect: Defect::Missing });
            }
        }
        *self = at;
        Ok(checked)
    }

    fn accept(
        &mut self,
        event: &EventRow<'_>,
        payload_hash: fn(&EventFields<'_>) -> [u8; 32],
    ) -> Result<(), Break> {
        if let (false, Some(fields)) = (self.is_anchored, &event.fields) {
            self.verifier.hash = fields.prev_hash;
        }
        self.verifier.accept_with_hash(event, payload_hash)?;
        self.is_anchored = true;
        Ok(())
    }
}

/// Checks that the payload of an event has the event's content hash.
pub(crate) fn check_content_hash(lsn: i64, payload: &str, content_hash: &[u8]) -> Result<(), Break> {
    let is_its = sha256(payload.as_bytes()) == content_hash;
    if is_its { Ok(()) } else { Err(Break { lsn, defect: Defect::Content }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::probe::log_of_probes;
    use crate::store::migrate::migrate;
    use crate::store::{Conn, ToParam, Visitor, sqlite_for_tests};

    const EVENTS: i64 = 20;

    /// A database that sends fewer rows per statement than requested.
    struct Stingy<'a>(&'a Conn, usize);

    impl Source for Stingy<'_> {
        fn visit(&self, sql: &'static str, params: &[&dyn ToParam], each: Visitor<'_>) -> Result<()> {
            self.0.visit(sql, params, each)
        }

        fn visit_within(
            &self,
            _: usize,
            sql: &'static str,
            params: &[&dyn ToParam],
            each: Visitor<'_>,
        ) -> Result<()> {
            let mut left = self.1;
            self.0.visit(sql, params, &mut |row| {
                left -= 1;
                let wants_more = each(row).is_continue();
                if wants_more && left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })
        }
    }

    #[test]
    fn only_what_happened_lately_is_young() {
        let now = Time::from_micros(1_795_000_000_000_000);
        let young = |secs: i64| {
            RecentTimes::than(Duration::from_secs(2), now).contains(now.shifted(secs * 1_000_000))
        };
        assert_eq!(
            [-3, -2, -1, 0, 10, 11, 86_400].map(young),
            [false, false, true, true, true, false, false]
        );
        let at_once = RecentTimes::than(Duration::ZERO, now);
        assert!(!at_once.contains(now) && !at_once.contains(now.plus(Duration::from_secs(86_400))));
    }

    #[test]
    fn a_short_answer_is_no_gap_and_a_gap_is_found_behind_it() {
        let (_folder, conn) = sqlite_for_tests();
        migrate(&conn, Time::from_micros(1)).unwrap();
        let workspace: WorkspaceId = uuid::Uuid::from_u128(7).into();
        for event in log_of_probes(workspace, crate::log::event::Subject::default(), EVENTS) {
            conn.execute(
                "insert into events (workspace_id, lsn, kind, at, prev_hash, content_hash, payload)
                 values ($1, $2, $3, $4, $5, $6, $7)",
                &[
                    &workspace,
                    &event.lsn,
                    &event.kind,
                    &event.at,
                    &event.prev_hash,
                    &event.content_hash,
                    &event.payload,
                ],
            )
            .unwrap();
        }
        let read = |rows_sent: usize, rows: i64, bytes: usize| {
            let mut cursor = ChainCursor::after(workspace, 0, None);
            let bounds = ReadBounds { up_to: EVENTS, rows, bytes, young: None };
            let mut seen = Vec::new();
            let ended = cursor.read(&Stingy(&conn, rows_sent), bounds, |lsn, _| {
                seen.push(lsn);
                true
            });
            (seen, ended.unwrap().map_err(|broken| (broken.lsn, broken.defect)))
        };
        for rows_sent in [1, 3, 100] {
            assert_eq!(read(rows_sent, 100, usize::MAX), ((1..=EVENTS).collect(), Ok(())));
            assert_eq!(read(rows_sent, 7, usize::MAX), ((1..=7).collect(), Ok(())), "as many rows");
            assert_eq!(read(rows_sent, 100, 1), (vec![1], Ok(())), "as many bytes");
        }
        conn.execute("delete from events where lsn >= 15", &[]).unwrap();
        for rows_sent in [1, 7, 14, 100] {
            let gap = Err((15, Defect::Missing));
            assert_eq!(read(rows_sent, 100, usize::MAX), ((1..15).collect(), gap), "{rows_sent} at a time");
        }
    }
}
