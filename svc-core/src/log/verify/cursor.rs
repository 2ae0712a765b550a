//! A verified position in a log: reads on from it, and trusts nothing that does not link to it.
//!
//! It is for those who follow a log and hold on to a position themselves. What is before the position was
//! verified when it was read, or is taken on trust by who begins there.

use std::ops::ControlFlow;

use super::rows::{EVENTS, EventRow, Fields, Source};
use super::verifier::Verifier;
use super::{Break, Defect};
use crate::Result;
use crate::id::WorkspaceId;
use crate::time::Time;

/// A position in a log up to which a reader has verified it.
#[derive(Clone)]
pub(crate) struct ChainCursor {
    verifier: Verifier,
    /// Whether the hash at the position is known; else the first event that is read says what it links to.
    is_anchored: bool,
}

/// Bounds of one read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadBounds {
    /// The last position to read, which is known to be in the log.
    pub up_to: i64,
    pub rows: i64,
    /// Bytes of payloads, beyond which no further row is read.
    pub bytes: usize,
    /// Events that happened later are not read, nor what follows them.
    pub not_after: Time,
}

impl ChainCursor {
    /// Begins after `lsn`. Without the hash there, the first event is trusted to link to what was there.
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

    pub fn lsn(&self) -> i64 {
        self.verifier.lsn
    }

    /// Returns the hash of the event at the position.
    pub fn hash(&self) -> [u8; 32] {
        self.verifier.hash
    }

    /// Reads the next events and verifies each before `each` is called with it, which returns whether to
    /// read on.
    ///
    /// The inner error is a break of the chain; then nothing is read any more, and the position stands before
    /// it. An event that `bounds` says is there and is not is missing.
    pub fn read(
        &mut self,
        source: &impl Source,
        bounds: ReadBounds,
        mut each: impl FnMut(i64, &Fields<'_>) -> bool,
    ) -> Result<Result<(), Break>> {
        let (workspace, after) = (self.verifier.workspace_id, self.verifier.lsn);
        let (mut checked, mut rows, mut bytes, mut stopped) = (Ok(()), 0, 0_usize, false);
        let mut at = self.clone();
        source.visit(EVENTS, &[&workspace, &after, &bounds.up_to, &bounds.rows], &mut |row| {
            let event = EventRow::of(row);
            stopped = event.fields.as_ref().is_some_and(|fields| fields.at > bounds.not_after);
            if stopped {
                return ControlFlow::Break(());
            }
            checked = at.accept(&event);
            rows += 1;
            let (Ok(()), Some(fields)) = (&checked, &event.fields) else { return ControlFlow::Break(()) };
            bytes = bytes.saturating_add(fields.payload.len());
            stopped = !each(at.lsn(), fields) || bytes >= bounds.bytes;
            if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        *self = at;
        let is_short = rows < bounds.rows && !stopped && self.lsn() < bounds.up_to;
        if checked.is_ok() && is_short {
            return Ok(Err(Break { lsn: self.lsn().saturating_add(1), defect: Defect::Missing }));
        }
        Ok(checked)
    }

    fn accept(&mut self, event: &EventRow<'_>) -> Result<(), Break> {
        if let (false, Some(fields)) = (self.is_anchored, &event.fields) {
            self.verifier.hash = fields.prev_hash;
        }
        self.verifier.accept(event)?;
        self.is_anchored = true;
        Ok(())
    }
}
