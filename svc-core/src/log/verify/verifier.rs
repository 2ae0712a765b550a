//! The verifier: checks the rows of one log in order, and stops at the first broken row.
//!
//! The verifier does not read the database. A row with unreadable columns is checked too, so that it is
//! reported.

use super::rows::{EventFields, EventRow, HeadRow};
use super::tree::TreeWalk;
use super::{Break, ChainHead, ChainReport, Defect, ExpectedFound, ExpectedHead};
use crate::Result;
use crate::hash::{format_hash, sha256};
use crate::id::WorkspaceId;
use crate::log::chain::{Link, genesis};
use crate::log::event::{Event, TYPE_PREFIX, TYPE_SUFFIX};
use crate::log::floor::{EventsPruned, MessagesPruned};
use crate::time::Time;

/// A position in a log, and the content hash of the event there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub lsn: i64,
    pub hash: [u8; 32],
}

impl Position {
    /// Returns the position before the first event of a log.
    pub fn before_first_event() -> Self {
        Self { lsn: 0, hash: genesis() }
    }
}

/// Checks the rows of one log in order and stops at the first broken row.
#[derive(Clone)]
pub(super) struct Verifier {
    pub workspace_id: WorkspaceId,
    pub expected: Option<ExpectedHead>,
    /// Whether the expected head was found.
    is_expected_found: bool,
    pub floor: i64,
    /// The position after which the walk began.
    pub began_after: i64,
    /// The position of the newest event so far that declares pruning, or 0 if there was none.
    pub pruned_at: i64,
    /// The newest event so far that declares purged messages: its position, and the position up to which
    /// messages are purged.
    newest_purge: Option<(i64, Option<i64>)>,
    /// Number of accepted events.
    pub events: i64,
    pub lsn: i64,
    pub hash: [u8; 32],
    /// The time of the last accepted event, or `None` before the first.
    at: Option<Time>,
    /// The Merkle tree over the walked events, if one was requested.
    pub tree: Option<Box<TreeWalk>>,
    /// The expected beginning of the current event's payload.
    prefix: String,
}

impl Verifier {
    /// Creates a verifier positioned before the first event of a log that was never pruned.
    pub fn new(workspace_id: WorkspaceId, expected: Option<ExpectedHead>) -> Self {
        Self {
            workspace_id,
            expected,
            is_expected_found: false,
            floor: 1,
            began_after: 0,
            pruned_at: 0,
            newest_purge: None,
            events: 0,
            lsn: 0,
            hash: genesis(),
            at: None,
            tree: None,
            prefix: String::new(),
        }
    }

    /// Positions the verifier after an event. If the expected head is there, checks the hash of that head.
    pub fn begin_after(&mut self, position: Position) -> Result<(), Break> {
        (self.began_after, self.lsn, self.hash) = (position.lsn, position.lsn, position.hash);
        self.check_expected()
    }

    /// Adds the results of the next section of the log.
    pub fn add_section(&mut self, next: &Self) {
        self.events = self.events.saturating_add(next.events);
        (self.lsn, self.hash) = (next.lsn, next.hash);
        self.pruned_at = self.pruned_at.max(next.pruned_at);
        (self.newest_purge, self.at) = (next.newest_purge.or(self.newest_purge), next.at.or(self.at));
        self.is_expected_found |= next.is_expected_found;
    }

    /// Accepts the row of the next event, if it is intact and linked to the previous event.
    pub fn accept(&mut self, row: &EventRow<'_>) -> Result<(), Break> {
        self.accept_with_hash(row, |fields| sha256(fields.payload.as_bytes()))
    }

    /// Accepts a row whose payload hash is computed by `hash`.
    pub fn accept_with_hash(
        &mut self,
        row: &EventRow<'_>,
        hash: impl FnOnce(&EventFields<'_>) -> [u8; 32],
    ) -> Result<(), Break> {
        let lsn = self.lsn + 1;
        let broken = |defect| Err(Break { lsn, defect });
        match row.lsn {
            Some(found) if found == lsn => {}
            Some(found) if found < lsn => return Err(Break { lsn: found, defect: Defect::Stray }),
            Some(_) => return broken(Defect::Missing),
            None => return broken(Defect::Unreadable),
        }
        let Some(fields) = &row.fields else { return broken(Defect::Unreadable) };
        let link = Link {
            workspace_id: self.workspace_id,
            lsn,
            kind: fields.kind,
            at: fields.at,
            subject: fields.subject,
            prev_hash: fields.prev_hash,
        };
        self.prefix.clear();
        link.push_payload_prefix(&mut self.prefix);
        let Some(rest) = fields.payload.strip_prefix(&self.prefix) else { return broken(Defect::Columns) };
        if !begins_with_type(rest, fields.kind) {
            return broken(Defect::Type);
        }
        if hash(fields) != fields.content_hash {
            return broken(Defect::Content);
        }
        if fields.prev_hash != self.hash {
            return broken(Defect::Link);
        }
        self.lsn = lsn;
        self.hash = fields.content_hash;
        self.events += 1;
        self.at = Some(fields.at);
        match fields.kind {
            EventsPruned::KIND => self.pruned_at = lsn,
            MessagesPruned::KIND => {
                self.newest_purge = Some((lsn, MessagesPruned::parse_purged_up_to(fields.payload)))
            }
            _ => {}
        }
        if let Some(tree) = &mut self.tree {
            tree.push(lsn, &fields.content_hash);
        }
        self.check_expected()
    }

    /// Checks that the walk reached `last`, where the walk of the next section begins.
    pub fn check_reached(&self, last: i64) -> Result<(), Break> {
        if self.lsn == last { Ok(()) } else { Err(Break { lsn: self.lsn + 1, defect: Defect::Missing }) }
    }

    /// Checks the hash of the expected head, if that head is at the current position.
    fn check_expected(&mut self) -> Result<(), Break> {
        match self.expected {
            Some(expected) if expected.lsn == self.lsn => {
                self.is_expected_found = expected.hash == self.hash;
                let broken = Break { lsn: self.lsn, defect: Defect::Expected };
                if self.is_expected_found { Ok(()) } else { Err(broken) }
            }
            _ => Ok(()),
        }
    }

    /// Checks the head row after the last event.
    pub fn check_head(&self, head: Option<&HeadRow>) -> Result<(), Break> {
        let at_end = |defect| Err(Break { lsn: self.lsn, defect });
        match head {
            // Every workspace's log begins with an event. Only the instance may have written none.
            None if self.lsn == 0 && self.workspace_id == WorkspaceId::INSTANCE => {}
            None if self.lsn == 0 => return Err(Break { lsn: 1, defect: Defect::Missing }),
            None => return at_end(Defect::NoHead),
            Some(HeadRow(None)) => return at_end(Defect::Unreadable),
            Some(HeadRow(Some(head))) if head.lsn > self.lsn => {
                return Err(Break { lsn: self.lsn + 1, defect: Defect::Missing });
            }
            Some(HeadRow(Some(head)))
                if (head.lsn, head.hash) != (self.lsn, self.hash)
                    || self.at.is_some_and(|at| at != head.at) =>
            {
                return at_end(Defect::Head);
            }
            Some(HeadRow(Some(_))) => {}
        }
        match self.expected {
            Some(expected) if expected.lsn > self.lsn => {
                Err(Break { lsn: self.lsn + 1, defect: Defect::Expected })
            }
            _ => Ok(()),
        }
    }

    /// Checks that the newest event that declares purged messages agrees with the head row.
    ///
    /// That event may itself have been pruned, with all events before the floor.
    pub fn check_purged_messages(&self, words_floor: i64) -> Result<(), Break> {
        let (lsn, agrees) = match self.newest_purge {
            Some((lsn, declared)) => (lsn, declared == Some(words_floor)),
            None => (self.lsn, (0..self.began_after.max(1)).contains(&words_floor)),
        };
        if agrees { Ok(()) } else { Err(Break { lsn, defect: Defect::Words }) }
    }

    /// Returns the report of the verification, which has found the defect `broken` or none.
    pub fn report(self, broken: Option<Break>) -> ChainReport {
        let found = match self.is_expected_found {
            true => ExpectedFound::Contained,
            false => ExpectedFound::BelowFloor,
        };
        ChainReport {
            expected: self.expected.filter(|_| broken.is_none()).map(|_| found),
            workspace_id: self.workspace_id,
            valid: broken.is_none(),
            events: self.events,
            floor: self.floor,
            head: ChainHead { lsn: self.lsn, hash: format_hash(&self.hash) },
            broken,
        }
    }
}

/// Returns whether `rest`, the payload after the link, begins with the type of `kind`.
fn begins_with_type(rest: &str, kind: &str) -> bool {
    let after = rest
        .strip_prefix(",\"$type\":\"")
        .and_then(|rest| rest.strip_prefix(TYPE_PREFIX))
        .and_then(|rest| rest.strip_prefix(kind))
        .and_then(|rest| rest.strip_prefix(TYPE_SUFFIX))
        .and_then(|rest| rest.strip_prefix('"'));
    after.is_some_and(|rest| rest.starts_with([',', '}']))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::rows::Head;
    use super::*;
    use crate::id::{ChannelId, MemberId, ThreadId};
    use crate::log::event::RecordedEvent;
    use crate::log::event::Subject;
    use crate::log::floor::PruneReason;
    use crate::log::probe::{log_of_probes, probe, record};

    fn workspace(n: u128) -> WorkspaceId {
        Uuid::from_u128(n).into()
    }

    /// The stored row of an event, which a test alters.
    struct Stored {
        lsn: Option<i64>,
        readable: bool,
        kind: String,
        at: Time,
        subject: Subject,
        prev_hash: [u8; 32],
        content_hash: [u8; 32],
        payload: String,
    }

    impl Stored {
        fn row(&self) -> EventRow<'_> {
            let fields = EventFields {
                kind: &self.kind,
                at: self.at,
                subject: self.subject,
                prev_hash: self.prev_hash,
                content_hash: self.content_hash,
                payload: &self.payload,
            };
            EventRow { lsn: self.lsn, fields: self.readable.then_some(fields) }
        }
    }

    impl From<RecordedEvent> for Stored {
        fn from(event: RecordedEvent) -> Self {
            let RecordedEvent { lsn, kind, at, subject, prev_hash, content_hash, payload, .. } = event;
            let kind = kind.to_owned();
            Self { lsn: Some(lsn), readable: true, kind, at, subject, prev_hash, content_hash, payload }
        }
    }

    fn in_a_thread() -> Subject {
        Subject::thread(ChannelId::from(Uuid::from_u128(5)), ThreadId::from(Uuid::from_u128(6)))
    }

    fn event(owner: WorkspaceId, lsn: i64, prev_hash: [u8; 32], number: i64) -> Stored {
        probe(owner, lsn, prev_hash, in_a_thread(), number).into()
    }

    fn log(owner: WorkspaceId) -> Vec<Stored> {
        log_of_probes(owner, in_a_thread(), 5).into_iter().map(Stored::from).collect()
    }

    fn hash_of(row: &Stored) -> [u8; 32] {
        row.content_hash
    }

    fn head_of(rows: &[Stored]) -> HeadRow {
        let last = rows.last().unwrap();
        head_at(last.lsn.unwrap(), hash_of(last), last.at)
    }

    fn head_at(lsn: i64, hash: [u8; 32], at: Time) -> HeadRow {
        HeadRow(Some(Head { lsn, hash, floor: 1, pruned_at: 0, words_floor: 0, at }))
    }

    fn check(rows: &[Stored], head: Option<&HeadRow>, expected: Option<ExpectedHead>) -> Result<(), Break> {
        let mut verifier = Verifier::new(workspace(1), expected);
        verifier.begin_after(Position::before_first_event())?;
        rows.iter().try_for_each(|row| verifier.accept(&row.row()))?;
        verifier.check_head(head)
    }

    fn broken(lsn: i64, defect: Defect) -> Result<(), Break> {
        Err(Break { lsn, defect })
    }

    #[test]
    fn an_intact_log_is_valid_and_an_unknown_workspace_is_not() {
        let rows = log(workspace(1));
        assert_eq!(check(&rows, Some(&head_of(&rows)), None), Ok(()));
        assert_eq!(check(&[], None, None), broken(1, Defect::Missing));
        let unused = head_at(0, genesis(), Time::from_micros(0));
        assert_eq!(check(&[], Some(&unused), None), Ok(()));
        assert_eq!(Verifier::new(WorkspaceId::INSTANCE, None).check_head(None), Ok(()));
    }

    #[test]
    fn every_changed_column_is_reported_with_its_event() {
        type Tamper = fn(&mut Stored);
        let cases: [(Tamper, Defect); 13] = [
            (|row| row.lsn = Some(9), Defect::Missing),
            (|row| row.lsn = None, Defect::Unreadable),
            (|row| row.kind = "Other".to_owned(), Defect::Columns),
            (|row| row.kind.push('"'), Defect::Columns),
            (|row| row.at = Time::from_micros(1), Defect::Columns),
            (|row| row.subject.channel_id = None, Defect::Columns),
            (|row| row.subject.thread_id = None, Defect::Columns),
            (|row| row.subject.member_id = Some(MemberId::from(Uuid::from_u128(9))), Defect::Columns),
            (|row| row.prev_hash = genesis(), Defect::Columns),
            (|row| row.content_hash = genesis(), Defect::Content),
            (|row| row.payload = row.payload.replace("\"number\":30", "\"number\":31"), Defect::Content),
            (|row| row.payload = row.payload.replace("Probe/1", "Probe/2"), Defect::Type),
            (|row| row.payload.clear(), Defect::Columns),
        ];
        for (place, (tamper, defect)) in cases.into_iter().enumerate() {
            let mut rows = log(workspace(1));
            let head = head_of(&rows);
            tamper(&mut rows[2]);
            assert_eq!(check(&rows, Some(&head), None), broken(3, defect), "case {place}");
        }
        let mut rows = log(workspace(1));
        let head = head_of(&rows);
        rows.insert(0, event(workspace(1), 0, genesis(), 1));
        assert_eq!(check(&rows, Some(&head), None), broken(0, Defect::Stray));
        rows.remove(0);
        rows[1].readable = false;
        assert_eq!(check(&rows, Some(&head), None), broken(2, Defect::Unreadable));
    }

    #[test]
    fn a_deleted_event_is_reported_wherever_it_was() {
        for place in 0..5 {
            let mut rows = log(workspace(1));
            let head = head_of(&rows);
            rows.remove(place);
            let lsn = i64::try_from(place).unwrap() + 1;
            assert_eq!(check(&rows, Some(&head), None), broken(lsn, Defect::Missing));
        }
    }

    #[test]
    fn events_cannot_be_swapped_within_or_across_logs() {
        let mut rows = log(workspace(1));
        let head = head_of(&rows);
        rows.swap(1, 3);
        (rows[1].lsn, rows[3].lsn) = (Some(2), Some(4));
        assert_eq!(check(&rows, Some(&head), None), broken(2, Defect::Columns));

        let mut rows = log(workspace(1));
        rows[0] = log(workspace(2)).remove(0);
        assert_eq!(check(&rows, Some(&head), None), broken(1, Defect::Columns));
    }

    #[test]
    fn a_rewritten_event_breaks_the_link_of_its_successor() {
        let mut rows = log(workspace(1));
        let head = head_of(&rows);
        let prev = hash_of(&rows[0]);
        rows[1] = event(workspace(1), 2, prev, 666);
        assert_eq!(check(&rows, Some(&head), None), broken(3, Defect::Link));
        // The link of the next event is rewritten too, first only in the column and then also in the payload.
        let rewritten = hash_of(&rows[1]);
        rows[2].prev_hash = rewritten;
        assert_eq!(check(&rows, Some(&head), None), broken(3, Defect::Columns));
        rows[2] = event(workspace(1), 3, rewritten, 30);
        assert_eq!(check(&rows, Some(&head), None), broken(4, Defect::Link));
    }

    #[test]
    fn the_head_row_must_agree_with_the_last_event() {
        let rows = log(workspace(1));
        let HeadRow(Some(Head { lsn, hash, at, .. })) = head_of(&rows) else { panic!("no head") };
        let later = Time::from_micros(at.micros() + 1);
        for (head, found) in [
            (head_at(lsn, genesis(), at), broken(5, Defect::Head)),
            (head_at(lsn, hash, later), broken(5, Defect::Head)),
            (head_at(lsn - 1, hash, at), broken(5, Defect::Head)),
            (head_at(lsn + 1, hash, at), broken(6, Defect::Missing)),
        ] {
            assert_eq!(check(&rows, Some(&head), None), found);
        }
        assert_eq!(check(&rows, Some(&HeadRow(None)), None), broken(5, Defect::Unreadable));
        assert_eq!(check(&rows, None, None), broken(5, Defect::NoHead));
    }

    #[test]
    fn the_head_row_says_which_messages_are_gone_as_the_newest_event_does() {
        let mut rows = log(workspace(1));
        let verified = |rows: &[Stored], words_floor| {
            let mut verifier = Verifier::new(workspace(1), None);
            rows.iter().try_for_each(|row| verifier.accept(&row.row()))?;
            verifier.check_purged_messages(words_floor)
        };
        assert_eq!(verified(&rows, 0), Ok(()));
        for other in [-1, 1, 5] {
            assert_eq!(verified(&rows, other), broken(5, Defect::Words), "{other}");
        }
        for up_to_lsn in [2, 4] {
            let pruned = MessagesPruned { up_to_lsn, messages: 1, reason: PruneReason::Retention };
            let lsn = i64::try_from(rows.len()).unwrap() + 1;
            let prev = hash_of(rows.last().unwrap());
            rows.push(record(workspace(1), lsn, prev, Subject::default(), &pruned).into());
        }
        rows.push(event(workspace(1), 8, hash_of(&rows[6]), 8));
        assert_eq!(verified(&rows, 4), Ok(()));
        for other in [0, 2, 5] {
            assert_eq!(verified(&rows, other), broken(7, Defect::Words), "{other}");
        }
        // The event that declared the purge was pruned with the other events below the floor.
        let mut verifier = Verifier::new(workspace(1), None);
        verifier.begin_after(Position { lsn: 7, hash: hash_of(&rows[6]) }).unwrap();
        verifier.accept(&rows[7].row()).unwrap();
        for (floor, agrees) in [(0, true), (4, true), (6, true), (7, false), (-1, false)] {
            assert_eq!(verifier.check_purged_messages(floor).is_ok(), agrees, "{floor}");
        }
    }

    #[test]
    fn a_pinned_head_reveals_a_rewritten_or_truncated_history() {
        let rows = log(workspace(1));
        let head = head_of(&rows);
        let at = |lsn: i64, hash| Some(ExpectedHead { lsn, hash });
        assert_eq!(check(&rows, Some(&head), at(3, hash_of(&rows[2]))), Ok(()));
        assert_eq!(check(&rows, Some(&head), at(0, genesis())), Ok(()));
        assert_eq!(check(&rows, Some(&head), at(0, hash_of(&rows[2]))), broken(0, Defect::Expected));
        assert_eq!(check(&rows, Some(&head), at(3, hash_of(&rows[1]))), broken(3, Defect::Expected));
        let cut = &rows[..4];
        assert_eq!(check(cut, Some(&head_of(cut)), None), Ok(()));
        assert_eq!(check(cut, Some(&head_of(cut)), at(5, hash_of(&rows[4]))), broken(5, Defect::Expected));
    }
}
