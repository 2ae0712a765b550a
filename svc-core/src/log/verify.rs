//! The verifier: says whether a workspace's log is whole, or names the first event that is not. It shares with
//! the appending side only what a link and a hash are; everything else it works out anew from the stored
//! columns and bytes. It parses no JSON and needs no key, and it holds one page of rows at a time. It protects
//! what lies before a head that somebody remembers; without one, the newest events could be cut off together
//! with the head row and nobody would know. The audit trail is not part of the chain.

use std::str::FromStr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use super::chain::{Link, genesis, hash_text, parse_hash, sha256};
use super::event::{Place, TYPE_BEGINS, TYPE_ENDS};
use crate::Result;
use crate::error::Error;
use crate::id::WorkspaceId;
use crate::service::Database;
use crate::store::{Conn, FromRow, Opener, Row, ToParam};
use crate::time::Time;

/// Rows that are held at once.
const PAGE_ROWS: i64 = 128;
/// Pages that are read ahead of the checking.
const PAGES_AHEAD: usize = 2;

/// What is wrong with an event, or with the head of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Defect {
    /// There is no event at this position.
    Missing,
    /// A column does not hold what it must be able to hold.
    Unreadable,
    /// The columns are not those that the payload was written with.
    Columns,
    /// The payload is of another type than its kind.
    Type,
    /// The payload is not the text that was hashed.
    Content,
    /// The event does not link to the one before it.
    Link,
    /// The log has events, but no head row.
    NoHead,
    /// The head row has the position of the last event, but another hash; or it stands before the last event.
    Head,
    /// The log does not contain the head that was expected.
    Expected,
    /// Events are stored where none can be: before the first position, or under an id that is no workspace's.
    Stray,
}

impl Defect {
    /// What is wrong, in a sentence.
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
        }
    }
}

/// The first thing that is wrong with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Break {
    /// The position of the first broken event.
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
    /// The workspace; the nil id stands for the instance.
    pub workspace_id: WorkspaceId,
    /// Whether every event is whole and linked, and the head agrees.
    pub valid: bool,
    /// How many events were found to be in order.
    pub events: i64,
    /// The position of the oldest event that the log keeps.
    pub floor: i64,
    /// The last event that was found to be in order. Remember it: a log that still contains it later has kept
    /// everything before it.
    pub head: ChainHead,
    /// The first thing that is wrong, if anything is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<Break>,
}

/// A head that somebody remembers. A log that contains it has kept everything before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedHead {
    pub lsn: i64,
    pub hash: [u8; 32],
}

impl FromStr for ExpectedHead {
    type Err = Error;

    /// Reads `LSN:HASH`, where the hash is 64 hexadecimal digits, with or without `sha256:` before them.
    fn from_str(text: &str) -> Result<Self> {
        let read = text.split_once(':').and_then(|(lsn, hash)| {
            let lsn: i64 = lsn.parse().ok().filter(|lsn| *lsn >= 0)?;
            let hash = parse_hash(hash).or_else(|| parse_hash(&format!("sha256:{hash}")))?;
            Some(Self { lsn, hash })
        });
        read.ok_or_else(|| Error::malformed(format!("expected a head as LSN:HASH, found \"{text}\"")))
    }
}

/// Where the rows come from: a connection, or the transaction of a function.
pub(crate) trait Source {
    /// Every row of a statement that reads.
    fn rows<T: FromRow>(&self, sql: &'static str, params: &[&dyn ToParam]) -> Result<Vec<T>>;
}

impl Source for Conn {
    fn rows<T: FromRow>(&self, sql: &'static str, params: &[&dyn ToParam]) -> Result<Vec<T>> {
        self.query(sql, params)?.iter_mut().map(T::from_row).collect()
    }
}

/// An event's row as it is stored. What cannot be read is kept as nothing, so that it can be named.
struct EventRow {
    lsn: Option<i64>,
    columns: Option<Columns>,
}

struct Columns {
    kind: String,
    at: Time,
    place: Place,
    prev_hash: [u8; 32],
    content_hash: [u8; 32],
    payload: String,
}

impl FromRow for EventRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self { lsn: row.take().ok(), columns: Columns::from_row(row).ok() })
    }
}

impl FromRow for Columns {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self {
            kind: row.take()?,
            at: row.take()?,
            place: Place { channel_id: row.take()?, thread_id: row.take()?, member_id: row.take()? },
            prev_hash: row.take()?,
            content_hash: row.take()?,
            payload: row.take()?,
        })
    }
}

/// A head row as it is stored; nothing if it cannot be read.
struct HeadRow(Option<(i64, [u8; 32])>);

impl FromRow for HeadRow {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self(<(i64, [u8; 32])>::from_row(row).ok()))
    }
}

/// Takes the rows of one log in order and stops at the first that is broken.
struct Verifier {
    workspace_id: WorkspaceId,
    expected: Option<ExpectedHead>,
    floor: i64,
    events: i64,
    lsn: i64,
    hash: [u8; 32],
    /// The link of the event in hand, as its payload should begin.
    prefix: String,
}

impl Verifier {
    /// Before the first event of a log that was never pruned.
    fn new(workspace_id: WorkspaceId, expected: Option<ExpectedHead>) -> Self {
        Self { workspace_id, expected, floor: 1, events: 0, lsn: 0, hash: genesis(), prefix: String::new() }
    }

    /// Whether the beginning of the log is what the expected head says, if that is where it stands.
    fn begin(&self) -> Result<(), Break> {
        self.check_expected()
    }

    fn accept(&mut self, row: &EventRow) -> Result<(), Break> {
        let lsn = self.lsn + 1;
        let broken = |defect| Err(Break { lsn, defect });
        match row.lsn {
            Some(found) if found == lsn => {}
            Some(found) if found < lsn => return Err(Break { lsn: found, defect: Defect::Stray }),
            Some(_) => return broken(Defect::Missing),
            None => return broken(Defect::Unreadable),
        }
        let Some(columns) = &row.columns else { return broken(Defect::Unreadable) };
        let link = Link {
            workspace_id: self.workspace_id,
            lsn,
            kind: &columns.kind,
            at: columns.at,
            place: columns.place,
            prev_hash: columns.prev_hash,
        };
        self.prefix.clear();
        link.push_prefix(&mut self.prefix);
        let Some(rest) = columns.payload.strip_prefix(&self.prefix) else { return broken(Defect::Columns) };
        if !names_type(rest, &columns.kind) {
            return broken(Defect::Type);
        }
        if sha256(columns.payload.as_bytes()) != columns.content_hash {
            return broken(Defect::Content);
        }
        if columns.prev_hash != self.hash {
            return broken(Defect::Link);
        }
        self.lsn = lsn;
        self.hash = columns.content_hash;
        self.events += 1;
        self.check_expected()
    }

    fn check_expected(&self) -> Result<(), Break> {
        match self.expected {
            Some(expected) if expected.lsn == self.lsn && expected.hash != self.hash => {
                Err(Break { lsn: self.lsn, defect: Defect::Expected })
            }
            _ => Ok(()),
        }
    }

    /// After the last event: the head row must say the same.
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

/// Whether what follows the link begins with the type of `kind`.
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
pub fn verify_workspace(
    conn: &Conn,
    workspace_id: WorkspaceId,
    expected: Option<ExpectedHead>,
) -> Result<ChainReport> {
    verify(conn, workspace_id, expected)
}

/// As [`verify_workspace`], from any source of rows.
pub(crate) fn verify(
    source: &impl Source,
    workspace_id: WorkspaceId,
    expected: Option<ExpectedHead>,
) -> Result<ChainReport> {
    let (verifier, ended) = walk(source, Verifier::new(workspace_id, expected))?;
    Ok(verifier.report(ended.err()))
}

const EVENTS: &str = "
    select lsn, kind, at, channel_id, thread_id, member_id, prev_hash, content_hash, payload
    from events where workspace_id = $1 and lsn > $2 order by lsn limit $3";

const HEAD: &str = "select lsn, hash from heads where workspace_id = $1";

/// Reads the log to its end, while another thread checks what was read. The log may grow meanwhile: the head is
/// read after the events, and events that it promises are read before they are called missing.
fn walk(source: &impl Source, verifier: Verifier) -> Result<(Verifier, Result<(), Break>)> {
    if let Err(broken) = verifier.begin() {
        return Ok((verifier, Err(broken)));
    }
    let workspace_id = verifier.workspace_id;
    std::thread::scope(|scope| {
        let (pages, read) = sync_channel(PAGES_AHEAD);
        let checker = scope.spawn(move || check_pages(verifier, read));
        let head = read_pages(source, workspace_id, pages);
        let (verifier, checked) = checker.join().map_err(|_| Error::internal("the verifier panicked"))?;
        let head = head?;
        let ended = checked.and_then(|()| verifier.end(head.as_ref()));
        Ok((verifier, ended))
    })
}

/// Hands the log over page by page, and answers the head as it stood at the end. Stops early when nobody takes
/// the pages any more, or when a row has no position to go on from; the checker has something to say about it.
fn read_pages(
    source: &impl Source,
    workspace_id: WorkspaceId,
    pages: SyncSender<Vec<EventRow>>,
) -> Result<Option<HeadRow>> {
    let mut after = Some(i64::MIN);
    let mut head = None;
    let mut ended = false;
    while let Some(from) = after {
        let rows: Vec<EventRow> = source.rows(EVENTS, &[&workspace_id, &from, &PAGE_ROWS])?;
        match rows.last() {
            Some(last) => {
                after = last.lsn;
                ended = false;
                if pages.send(rows).is_err() {
                    break;
                }
            }
            None if ended => break,
            None => {
                head = source.rows(HEAD, &[&workspace_id])?.pop();
                ended = true;
            }
        }
    }
    Ok(head)
}

fn check_pages(mut verifier: Verifier, read: Receiver<Vec<EventRow>>) -> (Verifier, Result<(), Break>) {
    for row in read.iter().flatten() {
        if let Err(broken) = verifier.accept(&row) {
            return (verifier, Err(broken));
        }
    }
    (verifier, Ok(()))
}

/// Verifies the logs in a database, opened so that nothing can be changed: that of `workspace_id`, or all. The
/// log, of which there must then be only one, has to contain `expected` if that is given.
pub fn verify_database(
    database: &Database,
    workspace_id: Option<WorkspaceId>,
    expected: Option<ExpectedHead>,
) -> Result<Vec<ChainReport>> {
    let conn = Opener::new(database)?.auditor()?;
    match (workspace_id, expected) {
        (Some(workspace_id), _) => Ok(vec![verify_workspace(&conn, workspace_id, expected)?]),
        (None, None) => verify_all(&conn),
        (None, Some(_)) => Ok(vec![verify_workspace(&conn, only_workspace(&conn)?, expected)?]),
    }
}

/// The one workspace with a log, for an expected head that names none.
fn only_workspace(conn: &Conn) -> Result<WorkspaceId> {
    let (mut found, _) = workspaces_with_logs(conn)?;
    found.retain(|workspace_id| *workspace_id != WorkspaceId::INSTANCE);
    match found.as_slice() {
        [workspace_id] => Ok(*workspace_id),
        [] => Err(Error::not_found("workspace")),
        _ => Err(Error::malformed(
            "there are several workspaces; name the one that the expected head belongs to",
        )),
    }
}

/// Verifies every log there is, in the order of the workspaces' ids. The instance's own is left out while it
/// has no events.
pub fn verify_all(conn: &Conn) -> Result<Vec<ChainReport>> {
    let (workspaces, stray) = workspaces_with_logs(conn)?;
    let mut reports = Vec::with_capacity(workspaces.len());
    for workspace_id in workspaces {
        let report = verify_workspace(conn, workspace_id, None)?;
        if workspace_id != WorkspaceId::INSTANCE || report.events > 0 || !report.valid {
            reports.push(report);
        }
    }
    if stray {
        let broken = Break { lsn: 0, defect: Defect::Stray };
        reports.push(Verifier::new(WorkspaceId::INSTANCE, None).report(Some(broken)));
    }
    Ok(reports)
}

const WORKSPACES: &str = "select workspace_id from heads union select id from workspaces order by 1";

/// Answers one row per call, which is cheaper than looking at every event for its workspace.
const NEXT_WORKSPACE: &str =
    "select workspace_id from events where workspace_id >= $1 order by workspace_id limit 1";

/// On SQLite a column can hold anything; what is not a blob sorts before the nil id.
const BELOW_ALL: &str = "select workspace_id from events where workspace_id < $1 limit 1";

/// A workspace's id, or nothing if the column holds none.
struct Owner(Option<WorkspaceId>);

impl FromRow for Owner {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self(row.take().ok()))
    }
}

/// Every workspace that should have a log or has one, and whether there are events of none.
fn workspaces_with_logs(conn: &Conn) -> Result<(Vec<WorkspaceId>, bool)> {
    let known: Vec<Owner> = conn.rows(WORKSPACES, &[])?;
    let mut stray = known.iter().any(|owner| owner.0.is_none());
    let mut found: Vec<WorkspaceId> = known.into_iter().filter_map(|owner| owner.0).collect();
    stray |= !conn.rows::<Owner>(BELOW_ALL, &[&Uuid::nil()])?.is_empty();
    let mut from = Some(Uuid::nil());
    while let Some(least) = from {
        from = match conn.rows::<Owner>(NEXT_WORKSPACE, &[&least])?.pop() {
            None => None,
            Some(Owner(Some(workspace_id))) => {
                found.push(workspace_id);
                workspace_id.uuid().as_u128().checked_add(1).map(Uuid::from_u128)
            }
            // Not 16 bytes: the walk cannot go on from here.
            Some(Owner(None)) => {
                stray = true;
                None
            }
        };
    }
    found.sort_unstable();
    found.dedup();
    Ok((found, stray))
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::Serialize;

    use super::*;
    use crate::id::{ChannelId, MemberId, ThreadId};
    use crate::log::event::{Attribution, Event};

    #[derive(Serialize, JsonSchema)]
    struct Probe {
        number: i64,
    }
    impl Event for Probe {
        const KIND: &'static str = "Probe";
    }

    fn workspace(n: u128) -> WorkspaceId {
        Uuid::from_u128(n).into()
    }

    /// An event as the appending side makes it.
    fn event(owner: WorkspaceId, lsn: i64, prev_hash: [u8; 32], number: i64) -> EventRow {
        let place = Place::thread(ChannelId::from(Uuid::from_u128(5)), ThreadId::from(Uuid::from_u128(6)));
        let at = Time::from_micros(1_795_000_000_000_000 + lsn);
        let link = Link { workspace_id: owner, lsn, kind: Probe::KIND, at, place, prev_hash };
        let payload = link.payload(&Attribution::default(), &Probe { number }).unwrap();
        let content_hash = sha256(payload.as_bytes());
        let columns = Columns { kind: Probe::KIND.to_owned(), at, place, prev_hash, content_hash, payload };
        EventRow { lsn: Some(lsn), columns: Some(columns) }
    }

    fn log(owner: WorkspaceId) -> Vec<EventRow> {
        let mut prev = genesis();
        (1..=5)
            .map(|lsn| {
                let row = event(owner, lsn, prev, lsn * 10);
                prev = row.columns.as_ref().unwrap().content_hash;
                row
            })
            .collect()
    }

    fn hash_of(row: &EventRow) -> [u8; 32] {
        row.columns.as_ref().unwrap().content_hash
    }

    fn head_of(rows: &[EventRow]) -> HeadRow {
        HeadRow(Some((rows.last().unwrap().lsn.unwrap(), hash_of(rows.last().unwrap()))))
    }

    fn check(rows: &[EventRow], head: Option<&HeadRow>, expected: Option<ExpectedHead>) -> Result<(), Break> {
        let mut verifier = Verifier::new(workspace(1), expected);
        verifier.begin()?;
        rows.iter().try_for_each(|row| verifier.accept(row))?;
        verifier.end(head)
    }

    fn broken(lsn: i64, defect: Defect) -> Result<(), Break> {
        Err(Break { lsn, defect })
    }

    #[test]
    fn a_whole_log_is_valid_and_an_unknown_workspace_is_not() {
        let rows = log(workspace(1));
        assert_eq!(check(&rows, Some(&head_of(&rows)), None), Ok(()));
        assert_eq!(check(&[], None, None), broken(1, Defect::Missing));
        assert_eq!(check(&[], Some(&HeadRow(Some((0, genesis())))), None), Ok(()));
        assert_eq!(Verifier::new(WorkspaceId::INSTANCE, None).end(None), Ok(()));
    }

    #[test]
    fn every_changed_column_is_named_with_its_event() {
        type Tamper = fn(&mut EventRow, &mut Columns);
        let cases: [(Tamper, Defect); 13] = [
            (|row, _| row.lsn = Some(9), Defect::Missing),
            (|row, _| row.lsn = None, Defect::Unreadable),
            (|_, columns| columns.kind = "Other".to_owned(), Defect::Columns),
            (|_, columns| columns.kind.push('"'), Defect::Columns),
            (|_, columns| columns.at = Time::from_micros(1), Defect::Columns),
            (|_, columns| columns.place.channel_id = None, Defect::Columns),
            (|_, columns| columns.place.thread_id = None, Defect::Columns),
            (
                |_, columns| columns.place.member_id = Some(MemberId::from(Uuid::from_u128(9))),
                Defect::Columns,
            ),
            (|_, columns| columns.prev_hash = genesis(), Defect::Columns),
            (|_, columns| columns.content_hash = genesis(), Defect::Content),
            (
                |_, columns| columns.payload = columns.payload.replace("\"number\":30", "\"number\":31"),
                Defect::Content,
            ),
            (|_, columns| columns.payload = columns.payload.replace("Probe/1", "Probe/2"), Defect::Type),
            (|_, columns| columns.payload.clear(), Defect::Columns),
        ];
        for (place, (tamper, defect)) in cases.into_iter().enumerate() {
            let mut rows = log(workspace(1));
            let head = head_of(&rows);
            let mut columns = rows[2].columns.take().unwrap();
            tamper(&mut rows[2], &mut columns);
            rows[2].columns = Some(columns);
            assert_eq!(check(&rows, Some(&head), None), broken(3, defect), "case {place}");
        }
        let mut rows = log(workspace(1));
        let head = head_of(&rows);
        rows.insert(0, event(workspace(1), 0, genesis(), 1));
        assert_eq!(check(&rows, Some(&head), None), broken(0, Defect::Stray));
        rows.remove(0);
        rows[1].columns = None;
        assert_eq!(check(&rows, Some(&head), None), broken(2, Defect::Unreadable));
    }

    #[test]
    fn a_deleted_event_is_named_wherever_it_stood() {
        for place in 0..5 {
            let mut rows = log(workspace(1));
            let head = head_of(&rows);
            rows.remove(place);
            let lsn = i64::try_from(place).unwrap() + 1;
            assert_eq!(check(&rows, Some(&head), None), broken(lsn, Defect::Missing));
        }
    }

    #[test]
    fn events_cannot_change_places_within_or_across_logs() {
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
    fn a_rewritten_event_betrays_itself_in_its_successor() {
        let mut rows = log(workspace(1));
        let head = head_of(&rows);
        let prev = hash_of(&rows[0]);
        rows[1] = event(workspace(1), 2, prev, 666);
        assert_eq!(check(&rows, Some(&head), None), broken(3, Defect::Link));
        // The successor's link is rewritten too, in the column alone and then in the payload as well.
        let rewritten = hash_of(&rows[1]);
        rows[2].columns.as_mut().unwrap().prev_hash = rewritten;
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
    fn a_remembered_head_shows_a_history_that_was_rewritten_or_cut() {
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
    fn an_expected_head_is_read_with_and_without_the_algorithm() {
        let digits = hex::encode(genesis());
        let wanted = ExpectedHead { lsn: 12, hash: genesis() };
        assert_eq!(format!("12:{digits}").parse::<ExpectedHead>().unwrap(), wanted);
        assert_eq!(format!("12:sha256:{digits}").parse::<ExpectedHead>().unwrap(), wanted);
        for text in ["", "12", "12:", "x:00", "-1:00", "12:00"] {
            assert!(text.parse::<ExpectedHead>().is_err(), "{text}");
        }
    }
}
