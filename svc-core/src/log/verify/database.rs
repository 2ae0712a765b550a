//! Verifying all logs of a database, opened so that nothing can be changed. A long log is cut into parts, which
//! several threads check at once: a part begins from the stored hash of the event before it, and the part before
//! has to end with that very hash, so that together they say what one walk would say.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use uuid::Uuid;

use super::super::chain::genesis;
use super::{
    Break, ChainReport, Defect, ExpectedHead, HeadRow, Verifier, head_row, verify, walk, walk_to_end,
};
use crate::Result;
use crate::error::Error;
use crate::id::WorkspaceId;
use crate::store::migrate::{self, Schema};
use crate::store::refusal::refusal;
use crate::store::{Conn, Database, Opener, ToParam};

/// Events of one part. Shorter logs are walked by one thread.
const PART_EVENTS: i64 = 16_384;
/// Threads, and connections, at the most.
const THREADS_MAX: usize = 8;

/// Verifies the logs in a database: that of `workspace_id`, or all. The log, of which there must then be only one,
/// has to contain `expected` if that is given.
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
    match (workspace_id, expected) {
        (Some(workspace_id), _) => Ok(vec![verify_log(&opener, &conn, workspace_id, expected)?]),
        (None, None) => verify_all(&opener, &conn),
        (None, Some(_)) => Ok(vec![verify_log(&opener, &conn, only_workspace(&conn)?, expected)?]),
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
fn verify_all(opener: &Opener, conn: &Conn) -> Result<Vec<ChainReport>> {
    let (workspaces, stray) = workspaces_with_logs(conn)?;
    let mut reports = Vec::with_capacity(workspaces.len());
    for workspace_id in workspaces {
        let report = verify_log(opener, conn, workspace_id, None)?;
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

/// The workspaces that a statement selects; nothing for a column that holds no id.
fn owners(conn: &Conn, sql: &'static str, params: &[&dyn ToParam]) -> Result<Vec<Option<WorkspaceId>>> {
    let mut owners = Vec::new();
    conn.visit(sql, params, &mut |row| {
        owners.push(row.id(0).flatten().map(Into::into));
        ControlFlow::Continue(())
    })?;
    Ok(owners)
}

/// Every workspace that should have a log or has one, and whether there are events of none.
fn workspaces_with_logs(conn: &Conn) -> Result<(Vec<WorkspaceId>, bool)> {
    let known = owners(conn, WORKSPACES, &[])?;
    let mut stray = known.contains(&None);
    let mut found: Vec<WorkspaceId> = known.into_iter().flatten().collect();
    stray |= !owners(conn, BELOW_ALL, &[&Uuid::nil()])?.is_empty();
    let mut from = Some(Uuid::nil());
    while let Some(least) = from {
        from = match owners(conn, NEXT_WORKSPACE, &[&least])?.pop() {
            None => None,
            Some(Some(workspace_id)) => {
                found.push(workspace_id);
                workspace_id.uuid().as_u128().checked_add(1).map(Uuid::from_u128)
            }
            // Not 16 bytes: the walk cannot go on from here.
            Some(None) => {
                stray = true;
                None
            }
        };
    }
    found.sort_unstable();
    found.dedup();
    Ok((found, stray))
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

/// A part of a log: the events after a position, up to and with the position where the next part begins.
struct Part {
    after: i64,
    hash: [u8; 32],
    last: i64,
}

const LAST: &str = "select lsn, content_hash from events where workspace_id = $1 order by lsn desc limit 1";
const AT: &str = "select lsn, content_hash from events where workspace_id = $1 and lsn = $2";

/// Cuts a log into parts of `length` events. Where the event to cut at is missing or unreadable the part goes on to the end, and
/// will name it.
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

/// What the threads share.
struct Task {
    workspace_id: WorkspaceId,
    expected: Option<ExpectedHead>,
    parts: Vec<Part>,
    /// The next part that nobody has taken.
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
    /// Takes parts and walks them until there are no more, or one is broken: then later ones do not matter.
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
        let begun = if number == 0 { verifier.begin() } else { Ok(()) };
        // What stands before the first position is stray, and the first part's to name.
        let after = if number == 0 { i64::MIN } else { part.after };
        let ended = match begun {
            Err(broken) => Err(broken),
            Ok(()) if part.last == i64::MAX => walk_to_end(conn, &mut verifier, after)?,
            Ok(()) => walk(conn, &mut verifier, after, part.last)?.and_then(|()| verifier.reached(part.last)),
        };
        Ok(Walked { number, began: part.hash, verifier, ended })
    }
}

/// What the parts come to together: the first defect counts, and all before it.
fn join(walked: Vec<Walked>, workspace_id: WorkspaceId, expected: Option<ExpectedHead>) -> ChainReport {
    let mut whole = Verifier::new(workspace_id, expected);
    for part in walked {
        if part.began != whole.hash {
            // The event before was changed while it was read.
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
    use super::super::super::chain::{Link, sha256};
    use super::super::super::event::{Attribution, Event, Place};
    use super::*;
    use crate::store::OpenMode;
    use crate::time::Time;

    #[derive(serde::Serialize, schemars::JsonSchema)]
    struct Probe {
        number: i64,
    }
    impl Event for Probe {
        const KIND: &'static str = "Probe";
    }

    const EVENTS: i64 = 20;
    const INSERT: &str = "insert into events (workspace_id, lsn, kind, at, prev_hash, content_hash, payload)
                          values ($1, $2, $3, $4, $5, $6, $7)";
    const SET_HEAD: &str = "insert into heads (workspace_id, lsn, hash, at, audit_seq, epoch)
                            values ($1, $2, $3, 0, 0, 0)";

    /// Stores a whole log.
    fn store_log(conn: &Conn, workspace_id: WorkspaceId) {
        let mut hash = genesis();
        for lsn in 1..=EVENTS {
            let (at, place) = (Time::from_micros(1_795_000_000_000_000 + lsn), Place::default());
            let link = Link { workspace_id, lsn, kind: Probe::KIND, at, place, prev_hash: hash };
            let payload = link.payload(&Attribution::default(), &Probe { number: lsn }).unwrap();
            let content_hash = sha256(payload.as_bytes());
            conn.execute(INSERT, &[&workspace_id, &lsn, &Probe::KIND, &at, &hash, &content_hash, &payload])
                .unwrap();
            hash = content_hash;
        }
        conn.execute(SET_HEAD, &[&workspace_id, &EVENTS, &hash]).unwrap();
    }

    #[test]
    fn parts_say_together_what_one_walk_says() {
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
