//! Verifies all logs of a database, opened so that nothing can be changed.
//!
//! A long log is split into parts, which several threads check at once: a part begins from the stored hash of
//! the event before it, and the part before it must end with that very hash, so that together they are
//! equivalent to one walk.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use super::super::chain::genesis;
use super::presence::{self, Presence};
use super::rows::{HeadRow, head_row};
use super::verifier::Verifier;
use super::walk::{Verification, Walk, verify};
use super::{Break, ChainReport, Defect, ExpectedHead};
use crate::Result;
use crate::error::Error;
use crate::id::WorkspaceId;
use crate::store::migrate::{self, Schema};
use crate::store::refusal::refusal;
use crate::store::{Conn, Database, Opener};

/// Events of one part. Shorter logs are walked by one thread.
const PART_EVENTS: i64 = 16_384;
/// Most threads, each with a connection.
const THREADS_MAX: usize = 8;

/// Verifies the logs in a database: that of `workspace_id`, or all.
///
/// The log, of which there must then be only one, has to contain `expected` if that is given. A log that
/// should exist and does not is broken, and so is one whose audit trail lacks rows.
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
    let opener = Opener::for_audit(database)?;
    let conn = opener.auditor()?;
    if !Schema::read(&conn)?.exists() {
        return Err(migrate::not_set_up());
    }
    let presence = Presence::read(&conn)?;
    let verify_one = |workspace_id| {
        let mut report = verify_whole(&opener, &conn, &presence, workspace_id, expected)?;
        if presence.is_unlisted(workspace_id) {
            report.mark(Break { lsn: 1, defect: Defect::Unlisted });
        }
        Ok(vec![report])
    };
    match (workspace_id, expected) {
        (Some(workspace_id), _) => verify_one(workspace_id),
        (None, None) => verify_all(&opener, &conn, &presence),
        (None, Some(_)) => match only_workspace(&presence)? {
            Some(workspace_id) => verify_one(workspace_id),
            None => Ok(vec![missing(WorkspaceId::INSTANCE)]),
        },
    }
}

/// Returns the one workspace that exists or existed, for an expected head that names none.
fn only_workspace(presence: &Presence) -> Result<Option<WorkspaceId>> {
    let mut workspaces = presence.workspaces().filter(|workspace_id| *workspace_id != WorkspaceId::INSTANCE);
    match (workspaces.next(), workspaces.next()) {
        (found, None) => Ok(found),
        (_, Some(_)) => Err(Error::malformed(
            "there are several workspaces; name the one that the expected head belongs to",
        )),
    }
}

/// Verifies every log that exists or should, in the order of the workspaces' ids.
///
/// The instance's own is left out while there is no workspace and it has no events.
fn verify_all(opener: &Opener, conn: &Conn, presence: &Presence) -> Result<Vec<ChainReport>> {
    let mut reports = Vec::new();
    for workspace_id in presence.workspaces() {
        let mut report = verify_whole(opener, conn, presence, workspace_id, None)?;
        // Without the instance's log every workspace would be unlisted, which adds no information.
        if presence.is_unlisted(workspace_id) && presence.names_any() {
            report.mark(Break { lsn: 1, defect: Defect::Unlisted });
        }
        if workspace_id != WorkspaceId::INSTANCE || report.events > 0 || !report.valid {
            reports.push(report);
        }
    }
    if presence.stray {
        let broken = Break { lsn: 0, defect: Defect::Stray };
        reports.push(Verifier::new(WorkspaceId::INSTANCE, None).report(Some(broken)));
    }
    Ok(reports)
}

/// Returns the report of a log that does not exist.
fn missing(workspace_id: WorkspaceId) -> ChainReport {
    Verifier::new(workspace_id, None).report(Some(Break { lsn: 1, defect: Defect::LogMissing }))
}

/// Verifies a log, and that its audit trail is complete.
fn verify_whole(
    opener: &Opener,
    conn: &Conn,
    presence: &Presence,
    workspace_id: WorkspaceId,
    expected: Option<ExpectedHead>,
) -> Result<ChainReport> {
    let needs_log = workspace_id != WorkspaceId::INSTANCE || presence.has_workspaces();
    if needs_log && !presence::has_log(conn, workspace_id)? {
        return Ok(missing(workspace_id));
    }
    let mut report = verify_log(opener, conn, workspace_id, expected)?;
    if needs_log && report.valid && report.events == 0 {
        return Ok(missing(workspace_id));
    }
    if let Some(seq) = presence::first_wrong_audit_row(conn, workspace_id)? {
        report.mark(Break { lsn: seq, defect: Defect::Audit });
    }
    Ok(report)
}

impl ChainReport {
    /// Adds a defect, unless one was found before.
    fn mark(&mut self, broken: Break) {
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
    let parts = parts(conn, workspace_id, PART_EVENTS)?;
    let threads = available_parallelism().map_or(1, Into::into).min(THREADS_MAX).min(parts.len());
    if threads < 2 {
        return verify(conn, workspace_id, expected);
    }
    verify_parts(opener, threads, workspace_id, expected, parts)
}

fn verify_parts(
    opener: &Opener,
    threads: usize,
    workspace_id: WorkspaceId,
    expected: Option<ExpectedHead>,
    parts: Vec<Part>,
) -> Result<ChainReport> {
    let task = Task { workspace_id, expected, parts, next: AtomicUsize::new(0) };
    let mut walked = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(|| task.work(opener))).collect();
        let mut walked = Vec::new();
        for worker in workers {
            walked.extend(worker.join().map_err(|_| Error::internal("the verifier panicked"))??);
        }
        Ok::<_, Error>(walked)
    })?;
    walked.sort_unstable_by_key(|part| part.number);
    Ok(join(walked, workspace_id, expected))
}

/// A part of a log: the events after one position, up to and including another.
///
/// The next part begins after the latter.
struct Part {
    after: i64,
    hash: [u8; 32],
    last: i64,
}

const LAST: &str = "select lsn, content_hash from events where workspace_id = $1 order by lsn desc limit 1";
const AT: &str = "select lsn, content_hash from events where workspace_id = $1 and lsn = $2";

/// Splits a log into parts of `length` events.
///
/// If the event to split at is missing or unreadable the part extends to the end, where the walk will report
/// it.
fn parts(conn: &Conn, workspace_id: WorkspaceId, length: i64) -> Result<Vec<Part>> {
    let last = match head_row(conn, LAST, &[&workspace_id])? {
        Some(HeadRow(Some((last, _)))) => last,
        _ => 0,
    };
    let mut parts = vec![Part { after: 0, hash: genesis(), last: i64::MAX }];
    let mut cut = length;
    while cut < last {
        let Some(HeadRow(Some((_, hash)))) = head_row(conn, AT, &[&workspace_id, &cut])? else { break };
        if let Some(before) = parts.last_mut() {
            before.last = cut;
        }
        parts.push(Part { after: cut, hash, last: i64::MAX });
        cut += length;
    }
    Ok(parts)
}

/// The state that the threads share.
struct Task {
    workspace_id: WorkspaceId,
    expected: Option<ExpectedHead>,
    parts: Vec<Part>,
    /// The next part that no thread has taken.
    next: AtomicUsize,
}

/// A part that was walked.
struct Walked {
    number: usize,
    began: [u8; 32],
    verifier: Verifier,
    ended: Result<(), Break>,
}

impl Task {
    /// Takes parts and walks them until there are none left, or one is broken: later ones do not matter then.
    fn work(&self, opener: &Opener) -> Result<Vec<Walked>> {
        let conn = opener.auditor()?;
        let mut walked = Vec::new();
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = self.parts.get(number) else { return Ok(walked) };
            let part = self.walk(&conn, number, part)?;
            if part.ended.is_err() {
                self.next.fetch_max(self.parts.len(), Ordering::Relaxed);
            }
            walked.push(part);
        }
    }

    fn walk(&self, conn: &Conn, number: usize, part: &Part) -> Result<Walked> {
        let mut verifier = Verifier::new(self.workspace_id, self.expected);
        (verifier.lsn, verifier.hash) = (part.after, part.hash);
        // Events before the first position are stray, and reported by the first part.
        let after = if number == 0 { i64::MIN } else { part.after };
        let mut walk = Walk::after(verifier, after, part.last);
        if part.last < i64::MAX {
            let ended = walk.run(conn)?.and_then(|()| walk.verifier.reached(part.last));
            return Ok(Walked { number, began: part.hash, verifier: walk.verifier, ended });
        }
        let mut rest = Verification { walk, head: None };
        let ended = rest.run(conn)?;
        Ok(Walked { number, began: part.hash, verifier: rest.walk.verifier, ended })
    }
}

/// Joins the parts into one report: only the first defect counts, and everything before it.
fn join(walked: Vec<Walked>, workspace_id: WorkspaceId, expected: Option<ExpectedHead>) -> ChainReport {
    let mut whole = Verifier::new(workspace_id, expected);
    for part in walked {
        if part.began != whole.hash {
            // The previous event was changed while it was read.
            let broken = Break { lsn: whole.lsn + 1, defect: Defect::Link };
            return whole.report(Some(broken));
        }
        whole.events += part.verifier.events;
        (whole.lsn, whole.hash) = (part.verifier.lsn, part.verifier.hash);
        if let Err(broken) = part.ended {
            return whole.report(Some(broken));
        }
    }
    whole.report(None)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::super::super::event::Subject;
    use super::super::super::probe::log_of_probes;
    use super::*;
    use crate::store::OpenMode;
    use crate::time::Time;

    const EVENTS: i64 = 20;
    const INSERT: &str = "insert into events (workspace_id, lsn, kind, at, prev_hash, content_hash, payload)
                          values ($1, $2, $3, $4, $5, $6, $7)";
    const SET_HEAD: &str = "insert into heads (workspace_id, lsn, hash, at, audit_seq, epoch)
                            values ($1, $2, $3, 0, 0, 0)";

    fn store_log(conn: &Conn, workspace_id: WorkspaceId) {
        let log = log_of_probes(workspace_id, Subject::default(), EVENTS);
        for event in &log {
            let (lsn, kind, at, hash) = (event.lsn, event.kind, event.at, event.content_hash);
            let columns: [&dyn crate::store::ToParam; 7] =
                [&workspace_id, &lsn, &kind, &at, &event.prev_hash, &hash, &event.payload];
            conn.execute(INSERT, &columns).unwrap();
        }
        let hash = log.last().unwrap().content_hash;
        conn.execute(SET_HEAD, &[&workspace_id, &EVENTS, &hash]).unwrap();
    }

    #[test]
    fn parts_together_report_what_one_walk_reports() {
        let folder = tempfile::tempdir().unwrap();
        let opener = Opener::new(&Database::Sqlite(folder.path().join("t.db"))).unwrap();
        let conn = opener.first(OpenMode::Create).unwrap();
        migrate::migrate(&conn, Time::from_micros(1)).unwrap();
        let workspace_id = WorkspaceId::from(Uuid::from_u128(7));
        let tampers = [
            "update events set payload = replace(payload, 'number', 'numbes') where lsn = $1",
            "update events set content_hash = zeroblob(32) where lsn = $1",
            "update events set content_hash = 'text' where lsn = $1",
            "update events set prev_hash = zeroblob(32) where lsn = $1",
            "update events set lsn = -lsn where lsn = $1",
            "delete from events where lsn = $1",
            "delete from events where lsn > $1",
            "update heads set lsn = $1",
            "update heads set epoch = $1",
        ];
        for (tamper, lsn) in tampers.iter().flat_map(|sql| (1..=EVENTS).map(move |lsn| (*sql, lsn))) {
            conn.batch("begin; delete from events; delete from heads").unwrap();
            store_log(&conn, workspace_id);
            conn.execute(tamper, &[&lsn]).unwrap();
            conn.batch("commit").unwrap();
            let expected = Some(ExpectedHead { lsn: 13, hash: [1; 32] }).filter(|_| lsn % 2 == 0);
            let walked = verify(&conn, workspace_id, expected).unwrap();
            for length in [1, 6, 10] {
                let parts = parts(&conn, workspace_id, length).unwrap();
                let together = verify_parts(&opener, 2, workspace_id, expected, parts).unwrap();
                assert_eq!(together, walked, "{tamper} at {lsn}, parts of {length}");
            }
        }
    }
}
