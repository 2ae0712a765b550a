//! Walks a log: reads one page of rows at a time and passes the rows to a verifier.
//!
//! Each page is one statement, so that no snapshot is held for long. The log may grow during the walk.

use std::ops::ControlFlow;

use super::beginning::{begin_at_oldest_event, check_declared_beginning, is_pruned_during_walk};
use super::rows::{EventRow, Head, HeadRow, Source, read_head_row, visit_events};
use super::tree::TreeWalk;
use super::verifier::Verifier;
use super::{Break, ChainReport, ExpectedHead};
use crate::Result;
use crate::id::WorkspaceId;

/// Maximum rows read by one statement, so that its snapshot is held only briefly.
const PAGE_ROWS: i64 = 1024;
/// Maximum bytes of payloads read by one statement, unless a single payload is larger.
const PAGE_BYTES: usize = 1024 * 1024;

/// Verifies the log of `workspace_id`, and that it contains the head `expected` if one is set.
///
/// The log may grow during the walk.
pub(super) fn walk_and_verify(
    source: &impl Source,
    workspace_id: WorkspaceId,
    expected: Option<ExpectedHead>,
) -> Result<ChainReport> {
    let mut verification = LogVerification::new(workspace_id, expected);
    loop {
        if let Some(report) = verification.next_page(source)? {
            return Ok(report);
        }
    }
}

/// A verification in progress, which proceeds page by page.
///
/// Each page may be read in a separate transaction, and a page that failed may be read again.
pub(crate) struct LogVerification {
    pub(super) walk: EventWalk,
    /// Whether the beginning of the log has been determined.
    has_begun: bool,
    /// The last head that was read, with the position of the walk at that time.
    head: Option<(i64, Option<HeadRow>)>,
}

impl LogVerification {
    /// Creates a verification of the log of `workspace_id`, positioned before the first page.
    ///
    /// The log must contain `expected` if that is given.
    pub fn new(workspace_id: WorkspaceId, expected: Option<ExpectedHead>) -> Self {
        // Events before the first position are stray.
        let walk = EventWalk::new(Verifier::new(workspace_id, expected), i64::MIN, i64::MAX);
        Self { walk, has_begun: false, head: None }
    }

    /// Creates a verification that also computes the Merkle tree over the log, and keeps the root of the tree
    /// when it has `requested_size` leaves.
    pub(super) fn with_tree(workspace_id: WorkspaceId, requested_size: Option<u64>) -> Self {
        let mut verification = Self::new(workspace_id, None);
        verification.walk.verifier.tree = Some(Box::new(TreeWalk::with_requested_size(requested_size)));
        verification
    }

    /// Creates the verification of a log's last section, after the position at which another section ends.
    pub(super) fn of_last_section(walk: EventWalk) -> Self {
        Self { walk, has_begun: true, head: None }
    }

    /// Verifies the next page. Returns the report once the end of the log or a defect is reached.
    pub fn next_page(&mut self, source: &impl Source) -> Result<Option<ChainReport>> {
        let ended = match self.advance(source)? {
            None => return Ok(None),
            Some(Ok(head)) => self.check_beginning(source, head)?,
            Some(Err(broken)) => self.confirm_defect(source, broken)?,
        };
        Ok(ended.map(|ended| self.walk.verifier.clone().report(ended.err())))
    }

    /// Reads to the end of the log and returns the head, or stops at a defect.
    pub(super) fn run(&mut self, source: &impl Source) -> Result<Result<Option<Head>, Break>> {
        loop {
            if let Some(ended) = self.advance(source)? {
                return Ok(ended);
            }
        }
    }

    /// Checks the next page of events. At the end of the log, checks the head and returns it.
    ///
    /// The head is read after the events. The walk tries to read all events that the head counts before it
    /// reports any of them as missing.
    fn advance(&mut self, source: &impl Source) -> Result<Option<Result<Option<Head>, Break>>> {
        if !self.has_begun {
            if let Err(broken) = begin_at_oldest_event(source, &mut self.walk.verifier)? {
                return Ok(Some(Err(broken)));
            }
            self.has_begun = true;
        }
        match self.walk.next_page(source)? {
            PageEnd::Broken(broken) => return Ok(Some(Err(broken))),
            PageEnd::More => return Ok(None),
            PageEnd::Last => {}
        }
        let reached = self.walk.verifier.lsn;
        match &self.head {
            Some((there, head)) if *there == reached => {
                let ended = self.walk.verifier.check_head(head.as_ref());
                Ok(Some(ended.map(|()| head.and_then(|HeadRow(head)| head))))
            }
            _ => {
                let head = read_head_row(source, self.walk.verifier.workspace_id)?;
                self.head = Some((reached, head));
                Ok(None)
            }
        }
    }

    /// Checks the beginning of the log, after the log was found intact up to its head.
    fn check_beginning(
        &mut self,
        source: &impl Source,
        head: Option<Head>,
    ) -> Result<Option<Result<(), Break>>> {
        // Only the instance may have neither head nor events.
        let Some(head) = head else { return Ok(Some(Ok(()))) };
        let checked = check_declared_beginning(source, &mut self.walk.verifier, head)?;
        if checked.is_none() {
            self.restart();
        }
        Ok(checked)
    }

    /// Returns the defect, or restarts the walk and returns `None` if the missing events were pruned during
    /// the walk.
    fn confirm_defect(&mut self, source: &impl Source, broken: Break) -> Result<Option<Result<(), Break>>> {
        if is_pruned_during_walk(source, &self.walk.verifier, broken)? {
            self.restart();
            return Ok(None);
        }
        Ok(Some(Err(broken)))
    }

    /// Begins the verification again, with the same expected head and requested tree size.
    fn restart(&mut self) {
        let Verifier { workspace_id, expected, tree, .. } = &self.walk.verifier;
        let tree = tree.as_ref().map(|tree| Box::new(tree.restart()));
        *self = Self::new(*workspace_id, *expected);
        self.walk.verifier.tree = tree;
    }
}

/// A walk over the events after one position, up to another position.
pub(super) struct EventWalk {
    pub verifier: Verifier,
    /// The position after which the next page begins.
    after: i64,
    last: i64,
}

/// The result of reading a page.
enum PageEnd {
    /// There may be more events.
    More,
    /// The walk has read all existing events up to its end.
    Last,
    /// An event in the page is broken.
    Broken(Break),
}

impl EventWalk {
    /// Creates a walk over the events after position `after`, up to position `last`.
    pub fn new(verifier: Verifier, after: i64, last: i64) -> Self {
        Self { verifier, after, last }
    }

    /// Reads and checks one page of events. A failed statement does not change the walk.
    fn next_page(&mut self, source: &impl Source) -> Result<PageEnd> {
        let mut verifier = self.verifier.clone();
        let mut rows = 0;
        let mut bytes = 0_usize;
        let mut checked = Ok(());
        let workspace_id = verifier.workspace_id;
        let place = (workspace_id, self.after, self.last);
        visit_events(source, place, (PAGE_ROWS, PAGE_BYTES), &mut |row| {
            let event = EventRow::from_columns(row);
            rows += 1;
            bytes = bytes.saturating_add(event.fields.as_ref().map_or(0, |fields| fields.payload.len()));
            checked = verifier.accept(&event);
            if checked.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        self.after = self.after.max(verifier.lsn);
        self.verifier = verifier;
        Ok(match checked {
            Err(broken) => PageEnd::Broken(broken),
            // Near the limit in bytes, the database may have omitted rows.
            Ok(()) if rows == 0 || (rows < PAGE_ROWS && bytes < PAGE_BYTES / 2) => PageEnd::Last,
            Ok(()) => PageEnd::More,
        })
    }

    /// Checks all remaining events.
    pub fn run(&mut self, source: &impl Source) -> Result<Result<(), Break>> {
        loop {
            match self.next_page(source)? {
                PageEnd::More => {}
                PageEnd::Last => return Ok(Ok(())),
                PageEnd::Broken(broken) => return Ok(Err(broken)),
            }
        }
    }
}
