//! The verifier: checks that a workspace's log is intact, or names the first event that is not.
//!
//! It shares with the appending side only the definitions of a link and a hash; everything else it recomputes
//! from the stored columns and bytes. It parses no JSON and needs no key, and it borrows rows from the
//! database without copying them. It protects what precedes a pinned head; without one, the newest events
//! could be removed together with the head row without anyone noticing. The audit trail is not part of the
//! chain; verifying an entire database also checks that its rows exist.

mod database;
mod presence;

use std::ops::ControlFlow;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::Serialize;

use super::chain::{Link, genesis};
use super::event::{Subject, TYPE_BEGINS, TYPE_ENDS};
use crate::Result;
use crate::error::Error;
use crate::hash::{hash_text, parse_hash, sha256};
use crate::id::WorkspaceId;
use crate::store::{Columns, Conn, ToParam, Visitor};
use crate::time::Time;

pub use database::verify_database;

/// Most rows read by one statement, so that it holds its snapshot only briefly.
const PAGE_ROWS: i64 = 1024;
/// Rows of the first statement; later ones depend on how large the rows are.
const FIRST_ROWS: i64 = 64;
/// Bytes of payloads that one statement should read.
const PAGE_BYTES: usize = 1024 * 1024;

/// What is wrong with an event, or with the head of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Defect {
    /// There is no event at this position.
    Missing,
    /// A column does not hold a value of its type.
    Unreadable,
    /// The columns are not those that the payload was written with.
    Columns,
    /// The payload's type does not match its kind.
    Type,
    /// The payload is not the text that was hashed.
    Content,
    /// The event does not link to the one before it.
    Link,
    /// The log has events, but no head row.
    NoHead,
    /// The head row has the position of the last event, but another hash; or it is behind the last event.
    Head,
    /// The log does not contain the head that was expected.
    Expected,
    /// Events are stored where none can be: before the first position, or under an id that is no workspace's.
    Stray,
    /// There is no log although there should be one.
    ///
    /// The instance's log names the workspace, or the log was requested, or it is the instance's own and
    /// there are workspaces.
    LogMissing,
    /// The instance's log does not name the workspace.
    Unlisted,
    /// The audit trail does not have the rows that the head row counts, or has more.
    Audit,
}

impl Defect {
    /// Returns what is wrong, in a sentence.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Missing => "the event is missing",
            Self::Unreadable => "a column of the event or head does not hold a value of its type",
            Self::Columns => "the columns of the event are not those that its payload was written with",
            Self::Type => "the payload of the event is of another type than its kind",
            Self::Content => "the payload of the event is not the text that was hashed",
            Self::Link => "the event does not link to the event before it",
            Self::NoHead => "the log has events, but no head row",
            Self::Head => "the head row does not agree with the last event",
            Self::Expected => "the log does not contain the expected head",
            Self::Stray => {
                "events are stored where none can be: before the first, or under no workspace's id"
            }
            Self::LogMissing => "the log is missing",
            Self::Unlisted => "the instance's log does not name the workspace",
            Self::Audit => "the audit trail does not have the rows that the head row counts",
        }
    }
}

/// The first thing that is wrong with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Break {
    /// The position of the first broken event; of the first broken audit row for `audit`.
    pub lsn: i64,
    /// What is wrong with it.
    pub defect: Defect,
}

/// A position and the content hash of the event there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChainHead {
    /// The position of the last event, 0 if there is none.
    pub lsn: i64,
    /// Its content hash, as `sha256:<hex>`; of an empty log, what a first event would link to.
    pub hash: String,
}

/// What verifying one workspace's log came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChainReport {
    /// The workspace; the nil id means the instance.
    pub workspace_id: WorkspaceId,
    /// Whether every event is intact and linked, and the head agrees.
    pub valid: bool,
    /// How many events were found intact.
    pub events: i64,
    /// The position of the oldest event that the log keeps.
    pub floor: i64,
    /// The last event that was found intact.
    ///
    /// Note it down: a log that still contains it later has kept everything before it.
    pub head: ChainHead,
    /// The first thing that is wrong, if anything is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<Break>,
}

/// A pinned head. A log that contains it has kept everything before it.
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
struct EventRow<'a> {
    lsn: Option<i64>,
    fields: Option<Fields<'a>>,
}

struct Fields<'a> {
    kind: &'a str,
    at: Time,
    subject: Subject,
    prev_hash: [u8; 32],
    content_hash: [u8; 32],
    payload: &'a str,
}

const EVENTS: &str = "
    select lsn, kind, at, channel_id, thread_id, member_id, prev_hash, content_hash, payload
    from events where workspace_id = $1 and lsn > $2 and lsn <= $3 order by lsn limit $4";

impl<'a> EventRow<'a> {
    /// Reads a row of [`EVENTS`].
    fn of(row: &'a dyn Columns) -> Self {
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
struct HeadRow(Option<(i64, [u8; 32])>);

const HEAD: &str = "select lsn, hash from heads where workspace_id = $1";

/// Returns the only row of a statement that selects a position and a hash, if there is one.
fn head_row(source: &impl Source, sql: &'static str, params: &[&dyn ToParam]) -> Result<Option<HeadRow>> {
    let mut found = None;
    source.visit(sql, params, &mut |row| {
        found = Some(HeadRow(row.int(0).zip(row.hash(1))));
        ControlFlow::Break(())
    })?;
    Ok(found)
}

/// Takes the rows of one log in order and stops at the first that is broken.
#[derive(Clone)]
struct Verifier {
    workspace_id: WorkspaceId,
    expected: Option<ExpectedHead>,
    floor: i64,
    events: i64,
    lsn: i64,
    hash: [u8; 32],
    /// The current event's link, as its payload should begin.
    prefix: String,
}

impl Verifier {
    /// Creates a verifier positioned before the first event of a log that was never pruned.
    fn new(workspace_id: WorkspaceId, expected: Option<ExpectedHead>) -> Self {
        Self { workspace_id, expected, floor: 1, events: 0, lsn: 0, hash: genesis(), prefix: String::new() }
    }

    /// Checks the expected head, if it is the beginning of the log.
    fn begin(&self) -> Result<(), Break> {
        self.check_expected()
    }

    fn accept(&mut self, row: &EventRow<'_>) -> Result<(), Break> {
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
        link.push_prefix(&mut self.prefix);
        let Some(rest) = fields.payload.strip_prefix(&self.prefix) else { return broken(Defect::Columns) };
        if !names_type(rest, fields.kind) {
            return broken(Defect::Type);
        }
        if sha256(fields.payload.as_bytes()) != fields.content_hash {
            return broken(Defect::Content);
        }
        if fields.prev_hash != self.hash {
            return broken(Defect::Link);
        }
        self.lsn = lsn;
        self.hash = fields.content_hash;
        self.events += 1;
        self.check_expected()
    }

    /// Checks that the walk reached `last`, where another one continues.
    fn reached(&self, last: i64) -> Result<(), Break> {
        if self.lsn == last { Ok(()) } else { Err(Break { lsn: self.lsn + 1, defect: Defect::Missing }) }
    }

    fn check_expected(&self) -> Result<(), Break> {
        match self.expected {
            Some(expected) if expected.lsn == self.lsn && expected.hash != self.hash => {
                Err(Break { lsn: self.lsn, defect: Defect::Expected })
            }
            _ => Ok(()),
        }
    }

    /// Checks after the last event that the head row agrees.
    fn end(&self, head: Option<&HeadRow>) -> Result<(), Break> {
        let at_end = |defect| Err(Break { lsn: self.lsn, defect });
        match head {
            // A workspace begins with an event; only the instance may have written none.
            None if self.lsn == 0 && self.workspace_id == WorkspaceId::INSTANCE => {}
            None if self.lsn == 0 => return Err(Break { lsn: 1, defect: Defect::Missing }),
            None => return at_end(Defect::NoHead),
            Some(HeadRow(None)) => return at_end(Defect::Unreadable),
            Some(HeadRow(Some((lsn, _)))) if *lsn > self.lsn => {
                return Err(Break { lsn: self.lsn + 1, defect: Defect::Missing });
            }
            Some(HeadRow(Some((lsn, hash)))) if *lsn != self.lsn || *hash != self.hash => {
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

    fn report(self, broken: Option<Break>) -> ChainReport {
        ChainReport {
            workspace_id: self.workspace_id,
            valid: broken.is_none(),
            events: self.events,
            floor: self.floor,
            head: ChainHead { lsn: self.lsn, hash: hash_text(&self.hash) },
            broken,
        }
    }
}

/// Returns whether what follows the link begins with the type of `kind`.
fn names_type(rest: &str, kind: &str) -> bool {
    let after = rest
        .strip_prefix(",\"$type\":\"")
        .and_then(|rest| rest.strip_prefix(TYPE_BEGINS))
        .and_then(|rest| rest.strip_prefix(kind))
        .and_then(|rest| rest.strip_prefix(TYPE_ENDS))
        .and_then(|rest| rest.strip_prefix('"'));
    after.is_some_and(|rest| rest.starts_with([',', '}']))
}

/// Verifies the log of `workspace_id`, which must contain `expected` if that is given.
///
/// The log may grow meanwhile.
fn verify(
    source: &impl Source,
    workspace_id: WorkspaceId,
    expected: Option<ExpectedHead>,
) -> Result<ChainReport> {
    let mut verification = Verification::new(workspace_id, expected);
    let ended = verification.run(source)?;
    Ok(verification.walk.verifier.report(ended.err()))
}

/// A verification in progress, which proceeds page by page.
///
/// Each page may be read in a transaction of its own, and a page that failed may be read again.
pub(crate) struct Verification {
    walk: Walk,
    /// How far the walk had come when the head was read, and the head.
    head: Option<(i64, Option<HeadRow>)>,
}

impl Verification {
    /// Creates a verification before the first page of the log of `workspace_id`.
    ///
    /// The log must contain `expected` if that is given.
    pub fn new(workspace_id: WorkspaceId, expected: Option<ExpectedHead>) -> Self {
        // Events before the first position are stray.
        Self { walk: Walk::after(Verifier::new(workspace_id, expected), i64::MIN, i64::MAX), head: None }
    }

    /// Reads a page; returns the report once the end or a defect is reached.
    pub fn next_page(&mut self, source: &impl Source) -> Result<Option<ChainReport>> {
        let ended = self.advance(source)?;
        Ok(ended.map(|ended| self.walk.verifier.clone().report(ended.err())))
    }

    /// Reads to the end, or to a defect.
    fn run(&mut self, source: &impl Source) -> Result<Result<(), Break>> {
        loop {
            if let Some(ended) = self.advance(source)? {
                return Ok(ended);
            }
        }
    }

    /// Checks a page of events, and at the end of the log the head.
    ///
    /// The head is read after the events, and events that it counts are read before they are reported
    /// missing.
    fn advance(&mut self, source: &impl Source) -> Result<Option<Result<(), Break>>> {
        match self.walk.next_page(source)? {
            Page::Broken(broken) => return Ok(Some(Err(broken))),
            Page::More => return Ok(None),
            Page::Last => {}
        }
        let reached = self.walk.verifier.lsn;
        match &self.head {
            Some((there, head)) if *there == reached => Ok(Some(self.walk.verifier.end(head.as_ref()))),
            _ => {
                let head = head_row(source, HEAD, &[&self.walk.verifier.workspace_id])?;
                self.head = Some((reached, head));
                Ok(None)
            }
        }
    }
}

/// A walk over the events after one position up to another.
struct Walk {
    verifier: Verifier,
    /// The position after which the next page begins.
    after: i64,
    last: i64,
    /// Rows of the next page.
    rows: i64,
}

/// How a page ended.
enum Page {
    /// There may be more.
    More,
    /// It was the last for now.
    Last,
    /// An event in it is broken.
    Broken(Break),
}

impl Walk {
    fn after(verifier: Verifier, after: i64, last: i64) -> Self {
        Self { verifier, after, last, rows: FIRST_ROWS }
    }

    /// Checks the events of one statement. Nothing is kept of a statement that failed.
    fn next_page(&mut self, source: &impl Source) -> Result<Page> {
        if self.after == i64::MIN
            && let Err(broken) = self.verifier.begin()
        {
            return Ok(Page::Broken(broken));
        }
        let mut verifier = self.verifier.clone();
        let (mut rows, mut bytes, mut checked) = (0, 0, Ok(()));
        let workspace_id = verifier.workspace_id;
        source.visit(EVENTS, &[&workspace_id, &self.after, &self.last, &self.rows], &mut |row| {
            let event = EventRow::of(row);
            rows += 1;
            bytes += event.fields.as_ref().map_or(0, |fields| fields.payload.len());
            checked = verifier.accept(&event);
            if checked.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        let asked = self.rows;
        self.rows = if bytes > PAGE_BYTES / 2 { asked / 2 } else { asked * 2 }.clamp(1, PAGE_ROWS);
        self.after = self.after.max(verifier.lsn);
        self.verifier = verifier;
        Ok(match checked {
            Err(broken) => Page::Broken(broken),
            Ok(()) if rows < asked => Page::Last,
            Ok(()) => Page::More,
        })
    }

    /// Checks everything that is left.
    fn run(&mut self, source: &impl Source) -> Result<Result<(), Break>> {
        loop {
            match self.next_page(source)? {
                Page::More => {}
                Page::Last => return Ok(Ok(())),
                Page::Broken(broken) => return Ok(Err(broken)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::id::{ChannelId, MemberId, ThreadId};
    use crate::log::event::Recorded;
    use crate::log::probe::{log_of_probes, probe};

    fn workspace(n: u128) -> WorkspaceId {
        Uuid::from_u128(n).into()
    }

    /// An event's row, to be tampered with.
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
            let fields = Fields {
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

    impl From<Recorded> for Stored {
        fn from(event: Recorded) -> Self {
            let Recorded { lsn, kind, at, subject, prev_hash, content_hash, payload, .. } = event;
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
        HeadRow(Some((rows.last().unwrap().lsn.unwrap(), hash_of(rows.last().unwrap()))))
    }

    fn check(rows: &[Stored], head: Option<&HeadRow>, expected: Option<ExpectedHead>) -> Result<(), Break> {
        let mut verifier = Verifier::new(workspace(1), expected);
        verifier.begin()?;
        rows.iter().try_for_each(|row| verifier.accept(&row.row()))?;
        verifier.end(head)
    }

    fn broken(lsn: i64, defect: Defect) -> Result<(), Break> {
        Err(Break { lsn, defect })
    }

    #[test]
    fn an_intact_log_is_valid_and_an_unknown_workspace_is_not() {
        let rows = log(workspace(1));
        assert_eq!(check(&rows, Some(&head_of(&rows)), None), Ok(()));
        assert_eq!(check(&[], None, None), broken(1, Defect::Missing));
        assert_eq!(check(&[], Some(&HeadRow(Some((0, genesis())))), None), Ok(()));
        assert_eq!(Verifier::new(WorkspaceId::INSTANCE, None).end(None), Ok(()));
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
        // The successor's link is rewritten too, first in the column alone and then in the payload as well.
        let rewritten = hash_of(&rows[1]);
        rows[2].prev_hash = rewritten;
        assert_eq!(check(&rows, Some(&head), None), broken(3, Defect::Columns));
        rows[2] = event(workspace(1), 3, rewritten, 30);
        assert_eq!(check(&rows, Some(&head), None), broken(4, Defect::Link));
    }

    #[test]
    fn the_head_row_must_agree_with_the_last_event() {
        let rows = log(workspace(1));
        let HeadRow(Some((lsn, hash))) = head_of(&rows) else { panic!("no head") };
        let other = HeadRow(Some((lsn, genesis())));
        assert_eq!(check(&rows, Some(&other), None), broken(5, Defect::Head));
        assert_eq!(check(&rows, Some(&HeadRow(Some((lsn - 1, hash)))), None), broken(5, Defect::Head));
        assert_eq!(check(&rows, Some(&HeadRow(Some((lsn + 1, hash)))), None), broken(6, Defect::Missing));
        assert_eq!(check(&rows, Some(&HeadRow(None)), None), broken(5, Defect::Unreadable));
        assert_eq!(check(&rows, None, None), broken(5, Defect::NoHead));
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
