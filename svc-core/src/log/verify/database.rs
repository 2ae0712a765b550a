//! Verifies all logs of a database, opened read-only.
//!
//! A long log is split into sections, which several threads check at once: a section begins from the stored
//! hash of the event before it, and the previous section must end with that very hash, so that together they
//! are equivalent to one walk.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use super::beginning::{begin_at_oldest_event, check_declared_beginning, is_pruned_during_walk};
use super::presence::{self, WorkspacePresence};
use super::rows::{Head, PositionRow, query_position};
use super::verifier::Verifier;
use super::walk::{EventWalk, LogVerification, walk_and_verify};
use super::{Break, ChainReport, Defect, ExpectedHead};
use crate::Result;
use crate::error::Error;
use crate::id::WorkspaceId;
use crate::store::migrate::{self, Schema};
use crate::store::refusal::refusal;
use crate::store::{Conn, Database, Opener};

/// Number of events in a section. Shorter logs are walked by one thread.
const SECTION_EVENTS: i64 = 16_384;
/// Maximum number of threads that verify sections of one log. Each thread has a connection.
const THREADS_MAX: usize = 8;

/// Verifies the logs in a database: the log of `workspace_id`, or all logs.
///
/// If `expected` is set, the log must contain that head; without a `workspace_id`, there must be only one
/// workspace. A log that should exist but does not is broken, and so is a log with missing audit rows.
pub fn verify_database(
    database: &Database,
    workspace_id: Option<WorkspaceId>,
    expected: Option<ExpectedHead>,
) -> Result<Vec<ChainReport>> {
    verify_logs(database, workspace_id, expected).map_err(|error| refusal(error, database))
}

fn verify_logs(
    database: &Database,
    workspace_id: Option<WorkspaceId>,
    expected: Option<ExpectedHead>,
) -> Result<Vec<ChainReport>> {
    let (opener, conn) = open_for_audit(database)?;
    let presence = WorkspacePresence::read(&conn)?;
    let verify_one = |workspace_id| {
        let mut report = verify_log_and_audit(&opener, &conn, &presence, workspace_id, expected)?;
        if presence.is_unlisted(workspace_id) {
            report.record_defect(Break { lsn: 1, defect: Defect::Unlisted });
        }
        Ok(vec![report])
    };
    match (workspace_id, expected) {
        (Some(workspace_id), _) => verify_one(workspace_id),
        (None, None) => verify_all(&opener, &conn, &presence),
        (None, Some(_)) => match only_workspace(&presence)? {
            Some(workspace_id) => verify_one(workspace_id),
            None => Ok(vec![missing_log_report(WorkspaceId::INSTANCE)]),
        },
    }
}

/// Opens a database read-only. A temporary copy of its file is removed when the opener is dropped.
pub(crate) fn open_for_audit(database: &Database) -> Result<(Opener, Conn)> {
    let opener = Opener::for_audit(database)?;
    let conn = opener.auditor()?;
    if Schema::read(&conn)?.exists() { Ok((opener, conn)) } else { Err(migrate::not_set_up_error()) }
}

/// Returns the workspace `requested`, or the only workspace if `requested` is `None`.
///
/// Fails if the workspace does not exist.
pub(super) fn find_workspace(conn: &Conn, requested: Option<WorkspaceId>) -> Result<WorkspaceId> {
    let presence = WorkspacePresence::read(conn)?;
    let found = match requested {
        Some(workspace) => presence.workspaces().find(|found| *found == workspace),
        None => only_workspace(&presence)?,
    };
    found.ok_or_else(|| Error::not_found("workspace"))
}

/// Returns the only workspace that exists or existed, or `None` without any. Fails if there are several.
fn only_workspace(presence: &WorkspacePresence) -> Result<Option<WorkspaceId>> {
    let mut workspaces = presence.workspaces().filter(|workspace_id| *workspace_id != WorkspaceId::INSTANCE);
    match (workspaces.next(), workspaces.next()) {
        (found, None) => Ok(found),
        (_, Some(_)) => Err(Error::malformed("there are several workspaces; name the one that is meant")),
    }
}

/// Verifies every log that exists or should exist, in the order of workspace ids.
///
/// The instance's own log is omitted if no workspace exists and the log has no events.
fn verify_all(opener: &Opener, conn: &Conn, presence: &WorkspacePresence) -> Result<Vec<ChainReport>> {
    let mut reports = Vec::new();
    for workspace_id in presence.workspaces() {
        let mut report = verify_log_and_audit(opener, conn, presence, workspace_id, None)?;
        // Without the instance's log, every workspace would be unlisted, which adds no information.
        if presence.is_unlisted(workspace_id) && presence.has_listed_workspaces() {
            report.record_defect(Break { lsn: 1, defect: Defect::Unlisted });
        }
        // A workspace that was erased in the meantime is neither broken, nor missing, nor unlisted.
        if !report.valid && !WorkspacePresence::read(conn)?.workspaces().any(|found| found == workspace_id) {
            continue;
        }
        if workspace_id != WorkspaceId::INSTANCE || report.events > 0 || !report.valid {
            reports.push(report);
        }
    }
    if presence.has_stray_rows {
        let broken = Break { lsn: 0, defect: Defect::Stray };
        reports.push(Verifier::new(WorkspaceId::INSTANCE, None).report(Some(broken)));
    }
    Ok(reports)
}

/// Returns the report on a log that does not exist.
fn missing_log_report(workspace_id: WorkspaceId) -> ChainReport {
    Verifier::new(workspace_id, None).report(Some(Break { lsn: 1, defect: Defect::LogMissing }))
}

/// Verifies a log, and checks that its audit trail is complete.
fn verify_log_and_audit(
    opener: &Opener,
    conn: &Conn,
    presence: &WorkspacePresence,
    workspace_id: WorkspaceId,
    expected: Option<ExpectedHead>,
) -> Result<ChainReport> {
    let needs_log = workspace_id != WorkspaceId::INSTANCE || presence.has_workspaces();
    if needs_log && !presence::has_log(conn, workspace_id)? {
        return Ok(missing_log_report(workspace_id));
    }
    let mut report = verify_log(opener, conn, workspace_id, expected)?;
    if needs_log && report.valid && report.events == 0 {
        return Ok(missing_log_report(workspace_id));
    }
    if let Some(seq) = presence::first_invalid_audit_seq(conn, workspace_id)? {
        report.record_defect(Break { lsn: seq, defect: Defect::Audit });
    }
    Ok(report)
}

impl ChainReport {
    /// Records a defect, unless one was found before.
    pub(super) fn record_defect(&mut self, broken: Break) {
        self.valid = false;
        self.broken.get_or_insert(broken);
    }
}

/// Verifies one log, on several threads if it is long.
fn verify_log(
    opener: &Opener,
    conn: &Conn,
    workspace_id: WorkspaceId,
    expected: Option<ExpectedHead>,
) -> Result<ChainReport> {
    let max_threads = available_parallelism().map_or(1, Into::into).min(THREADS_MAX);
    loop {
        let mut whole = Verifier::new(workspace_id, expected);
        let began = begin_at_oldest_event(conn, &mut whole)?;
        let sections = split_log(conn, &whole, SECTION_EVENTS)?;
        let threads = max_threads.min(sections.len());
        if threads < 2 || began.is_err() {
            return walk_and_verify(conn, workspace_id, expected);
        }
        if let Some(report) = verify_sections(opener, conn, threads, whole, sections)? {
            return Ok(report);
        }
    }
}

/// Verifies the sections of a log on several threads, and adds the results to `whole`.
///
/// Returns `None` if the log was pruned during the verification, which must then be repeated.
fn verify_sections(
    opener: &Opener,
    conn: &Conn,
    threads: usize,
    mut whole: Verifier,
    sections: Vec<LogSection>,
) -> Result<Option<ChainReport>> {
    let workspace_id = whole.workspace_id;
    let expected = whole.expected;
    let task = SectionQueue { workspace_id, expected, sections, next: AtomicUsize::new(0) };
    let mut walked = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| task.walk_sections(opener))).collect();
        let mut walked = Vec::new();
        for worker in workers {
            walked.extend(worker.join().map_err(|_| Error::internal("the verifier panicked"))??);
        }
        Ok::<_, Error>(walked)
    })?;
    walked.sort_unstable_by_key(|section| section.number);
    let ended = match join_sections(&mut whole, walked) {
        Ok(Some(head)) => match check_declared_beginning(conn, &mut whole, head)? {
            None => return Ok(None),
            Some(ended) => ended,
        },
        Ok(None) => Ok(()),
        Err(broken) if is_pruned_during_walk(conn, &whole, broken)? => return Ok(None),
        Err(broken) => Err(broken),
    };
    Ok(Some(whole.report(ended.err())))
}

/// A section of a log: the events after position `after`, up to and including position `last`.
///
/// The next section begins after `last`.
struct LogSection {
    after: i64,
    /// The content hash of the event at position `after`.
    hash: [u8; 32],
    last: i64,
}

const SELECT_LAST_EVENT: &str =
    "select lsn, content_hash from events where workspace_id = $1 order by lsn desc limit 1";
const SELECT_EVENT_AT: &str = "select lsn, content_hash from events where workspace_id = $1 and lsn = $2";

/// Splits a log into sections of `section_length` events, after the position at which `whole` begins.
///
/// If the event at a split is missing or unreadable, the section extends to the end, and the walk will report
/// that event.
fn split_log(conn: &Conn, whole: &Verifier, section_length: i64) -> Result<Vec<LogSection>> {
    let workspace_id = whole.workspace_id;
    let last = match query_position(conn, SELECT_LAST_EVENT, &[&workspace_id])? {
        Some(PositionRow(Some((last, _)))) => last,
        _ => 0,
    };
    let mut sections = vec![LogSection { after: whole.lsn, hash: whole.hash, last: i64::MAX }];
    let mut cut = whole.lsn.saturating_add(section_length);
    while cut < last {
        let Some(PositionRow(Some((_, hash)))) =
            query_position(conn, SELECT_EVENT_AT, &[&workspace_id, &cut])?
        else {
            break;
        };
        if let Some(before) = sections.last_mut() {
            before.last = cut;
        }
        sections.push(LogSection { after: cut, hash, last: i64::MAX });
        cut += section_length;
    }
    Ok(sections)
}

/// The sections of a log, from which the verifying threads take one after the other.
struct SectionQueue {
    workspace_id: WorkspaceId,
    expected: Option<ExpectedHead>,
    sections: Vec<LogSection>,
    /// Index of the next section that no thread has taken.
    next: AtomicUsize,
}

/// A section that has been walked.
struct WalkedSection {
    number: usize,
    /// The hash after which the walk of the section began.
    start_hash: [u8; 32],
    verifier: Verifier,
    /// The head, if this is the last section and it is intact.
    outcome: Result<Option<Head>, Break>,
}

impl SectionQueue {
    /// Walks sections until none remains or one is broken.
    ///
    /// Sections after a broken one are irrelevant.
    fn walk_sections(&self, opener: &Opener) -> Result<Vec<WalkedSection>> {
        let conn = opener.auditor()?;
        let mut walked = Vec::new();
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(section) = self.sections.get(number) else { return Ok(walked) };
            let section = self.walk_section(&conn, number, section)?;
            if section.outcome.is_err() {
                self.next.fetch_max(self.sections.len(), Ordering::Relaxed);
            }
            walked.push(section);
        }
    }

    fn walk_section(&self, conn: &Conn, number: usize, section: &LogSection) -> Result<WalkedSection> {
        let mut verifier = Verifier::new(self.workspace_id, self.expected);
        (verifier.lsn, verifier.hash) = (section.after, section.hash);
        // Events before the first position are stray, and are reported by the first section.
        let after = if number == 0 { i64::MIN } else { section.after };
        let mut walk = EventWalk::new(verifier, after, section.last);
        if section.last < i64::MAX {
            let outcome =
                walk.run(conn)?.and_then(|()| walk.verifier.check_reached(section.last)).map(|()| None);
            return Ok(WalkedSection { number, start_hash: section.hash, verifier: walk.verifier, outcome });
        }
        let mut rest = LogVerification::of_last_section(walk);
        let outcome = rest.run(conn)?;
        Ok(WalkedSection { number, start_hash: section.hash, verifier: rest.walk.verifier, outcome })
    }
}

/// Joins the results of the sections, and returns the head or the first defect.
fn join_sections(whole: &mut Verifier, walked: Vec<WalkedSection>) -> Result<Option<Head>, Break> {
    let mut head = None;
    for section in walked {
        if section.start_hash != whole.hash {
            // The previous event was changed while the log was read.
            return Err(Break { lsn: whole.lsn.saturating_add(1), defect: Defect::Link });
        }
        whole.add_section(&section.verifier);
        head = section.outcome?;
    }
    Ok(head)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::super::chain::genesis;
    use super::super::super::event::Subject;
    use super::super::super::probe::{probe, record};
    use super::super::ExpectedFound;
    use super::*;
    use crate::hash::format_hash;
    use crate::log::floor::EventsPruned;
    use crate::store::OpenMode;
    use crate::time::Time;

    const EVENTS: i64 = 20;
    const INSERT: &str = "insert into events (workspace_id, lsn, kind, at, prev_hash, content_hash, payload)
                          values ($1, $2, $3, $4, $5, $6, $7)";
    const SET_HEAD: &str =
        "insert into heads (workspace_id, lsn, hash, at, audit_seq, epoch, floor, pruned_at)
                            values ($1, $2, $3, $6, 0, 0, $4, $5)";

    /// Stores the events of a log. If `pruned_at` is set, the event at that position has pruned the log to
    /// `floor`.
    fn store_log(conn: &Conn, workspace_id: WorkspaceId, floor: i64, pruned_at: i64) {
        let mut prev_hash = genesis();
        let mut links = Vec::new();
        let mut last = Time::from_micros(0);
        for lsn in 1..=EVENTS {
            links.push(prev_hash);
            let pruned = EventsPruned {
                floor,
                prev_hash: format_hash(&links[usize::try_from(floor - 1).unwrap().min(links.len() - 1)]),
                frontier: vec![format_hash(&[3; 32]); usize::try_from((floor - 1).count_ones()).unwrap()],
                before: Time::from_micros(1),
            };
            let event = match lsn == pruned_at {
                true => record(workspace_id, lsn, prev_hash, Subject::default(), &pruned),
                false => probe(workspace_id, lsn, prev_hash, Subject::default(), lsn),
            };
            (prev_hash, last) = (event.content_hash, event.at);
            let lsn = event.lsn;
            let kind = event.kind;
            let at = event.at;
            let hash = event.content_hash;
            let columns: [&dyn crate::store::ToParam; 7] =
                [&workspace_id, &lsn, &kind, &at, &event.prev_hash, &hash, &event.payload];
            conn.execute(INSERT, &columns).unwrap();
        }
        conn.execute(SET_HEAD, &[&workspace_id, &EVENTS, &prev_hash, &floor, &pruned_at, &last]).unwrap();
    }

    /// Returns a database with the schema, its opener and a connection.
    fn database() -> (tempfile::TempDir, Opener, Conn) {
        let folder = tempfile::tempdir().unwrap();
        let opener = Opener::new(&Database::Sqlite(folder.path().join("t.db"))).unwrap();
        let conn = opener.open_first_connection(OpenMode::Create).unwrap();
        migrate::migrate(&conn, Time::from_micros(1)).unwrap();
        (folder, opener, conn)
    }

    fn home() -> WorkspaceId {
        Uuid::from_u128(7).into()
    }

    /// Verifies the stored log both by one walk and in sections, and asserts that the results are equal.
    fn verified(opener: &Opener, conn: &Conn, expected: Option<ExpectedHead>, what: &str) -> ChainReport {
        let walked = walk_and_verify(conn, home(), expected).unwrap();
        for length in [1, 6, 10] {
            let mut whole = Verifier::new(home(), expected);
            let together = match begin_at_oldest_event(conn, &mut whole).unwrap() {
                Err(broken) => whole.report(Some(broken)),
                Ok(()) => {
                    let sections = split_log(conn, &whole, length).unwrap();
                    verify_sections(opener, conn, 2, whole, sections).unwrap().unwrap()
                }
            };
            assert_eq!(together, walked, "{what}, parts of {length}");
        }
        walked
    }

    #[test]
    fn parts_together_report_what_one_walk_reports() {
        let (_folder, opener, conn) = database();
        let tampers = [
            "update events set payload = replace(payload, 'number', 'numbes') where lsn = $1",
            "update events set content_hash = zeroblob(32) where lsn = $1",
            "update events set content_hash = 'text' where lsn = $1",
            "update events set prev_hash = zeroblob(32) where lsn = $1",
            "update events set prev_hash = 'text' where lsn = $1",
            "update events set lsn = -lsn where lsn = $1",
            "delete from events where lsn = $1",
            "delete from events where lsn > $1",
            "delete from events where lsn <= $1",
            "update heads set lsn = $1",
            "update heads set epoch = $1",
            "update heads set floor = $1 + 1",
            "update heads set pruned_at = $1",
            "update heads set words_floor = $1",
            "update heads set at = at + $1",
        ];
        for (tamper, lsn) in tampers.iter().flat_map(|sql| (1..=EVENTS).map(move |lsn| (*sql, lsn))) {
            for (floor, pruned_at) in [(1, 0), (8, 15)] {
                conn.batch("begin; delete from events; delete from heads").unwrap();
                store_log(&conn, home(), floor, pruned_at);
                conn.execute(tamper, &[&lsn]).unwrap();
                conn.batch("commit").unwrap();
                let expected = Some(ExpectedHead { lsn: 13, hash: [1; 32] }).filter(|_| lsn % 2 == 0);
                verified(&opener, &conn, expected, &format!("{tamper} at {lsn}, floor {floor}"));
            }
        }
    }

    #[test]
    fn a_pruned_log_begins_only_where_its_newest_pruning_says() {
        let (_folder, opener, conn) = database();
        let floor_at = |lsn| Some(Break { lsn, defect: Defect::Floor });
        let missing = |lsn| Some(Break { lsn, defect: Defect::Missing });
        // All cases are in a log with the floor 8, which event 15 declares.
        let cases: [(&str, Option<Break>, &str); 16] = [
            ("", None, "what is below the floor may still be there"),
            ("delete from events where lsn < 5", None, "or some of it"),
            ("delete from events where lsn < 8", None, "or nothing"),
            ("delete from events where lsn < 9", missing(8), "one too many is gone"),
            ("delete from events where lsn = 3", missing(3), "a hole below the floor"),
            ("delete from events where lsn < 5 or lsn = 6", missing(6), "a hole in what is left below"),
            ("delete from events where lsn = 10", missing(10), "a hole above"),
            ("delete from events where lsn < 16", missing(8), "what declares the floor is gone"),
            ("update heads set floor = 7", floor_at(15), "another floor"),
            ("update heads set floor = 9; delete from events where lsn < 9", floor_at(15), "a higher floor"),
            ("update heads set floor = 1", floor_at(15), "none"),
            ("update heads set pruned_at = 0", floor_at(15), "the pruning is not known"),
            ("update heads set pruned_at = 14", floor_at(15), "another event"),
            ("update heads set pruned_at = 20", floor_at(20), "a later one"),
            ("update heads set pruned_at = 0, floor = 1; delete from events where lsn < 8", missing(1), ""),
            (
                "update events set prev_hash = zeroblob(32) where lsn = 8; delete from events where lsn < 8",
                Some(Break { lsn: 8, defect: Defect::Columns }),
                "the beginning links elsewhere",
            ),
        ];
        for (tamper, broken, what) in cases {
            conn.batch("begin; delete from events; delete from heads").unwrap();
            store_log(&conn, home(), 8, 15);
            conn.batch(tamper).unwrap();
            conn.batch("commit").unwrap();
            let report = verified(&opener, &conn, None, tamper);
            assert_eq!((report.broken, report.valid), (broken, broken.is_none()), "{what}: {tamper}");
            assert!(!report.valid || report.floor == 8, "{what}");
        }
    }

    #[test]
    fn a_head_below_the_floor_is_neither_contained_nor_missed() {
        let (_folder, opener, conn) = database();
        store_log(&conn, home(), 8, 15);
        let hash_at = |lsn: i64| match query_position(&conn, SELECT_EVENT_AT, &[&home(), &lsn]).unwrap() {
            Some(PositionRow(Some((_, hash)))) => hash,
            _ => panic!("no event {lsn}"),
        };
        let heads: Vec<ExpectedHead> =
            [5, 6, 7, 8, 20].map(|lsn| ExpectedHead { lsn, hash: hash_at(lsn) }).into();
        conn.batch("delete from events where lsn < 7").unwrap();
        let found: Vec<_> =
            heads.iter().map(|head| verified(&opener, &conn, Some(*head), "").expected).collect();
        let contained = Some(ExpectedFound::Contained);
        let below = Some(ExpectedFound::BelowFloor);
        assert_eq!(found, [below, contained, contained, contained, contained]);
        conn.batch("delete from events where lsn < 8").unwrap();
        assert_eq!(verified(&opener, &conn, Some(heads[1]), "").expected, below);
        assert_eq!(
            verified(&opener, &conn, Some(heads[2]), "").expected,
            contained,
            "to which the floor links"
        );
        let other = ExpectedHead { lsn: 7, hash: [1; 32] };
        let report = verified(&opener, &conn, Some(other), "");
        assert_eq!(
            (report.broken, report.expected),
            (Some(Break { lsn: 7, defect: Defect::Expected }), None)
        );
    }
}
