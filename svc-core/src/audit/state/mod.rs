//! Verifying the tables of a workspace against its log.
//!
//! The log is replayed into rebuilt rows, which are stored in a file beside the database, page by page while
//! the service continues to run. Then one snapshot of the database provides the later events and the tables,
//! which are compared row by row. Memory use is bounded, and nothing in the database is changed. The values
//! of pruned events cannot be compared, so the rows that they determined count as unproven.
//!
//! - `report`: defines the report of the differences and counts
//! - `compare`: compares the tables with the rebuilt rows
//! - `stray`: finds rows whose workspace does not exist
//! - `restored`: reads the restores of workspaces, which only the instance's log records

mod report;
mod compare;
mod stray;
mod restored;

use std::collections::BTreeMap;

use serde_json::Map;

use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::identity::workspaces;
use crate::log::replay::{ProvenTable, RebuiltRows, ReplayedEvent};
use crate::log::verify::{Break, ChainCursor, Defect, ReadBounds, listed_workspaces, open_for_audit};
use crate::op::{Records, Table};
use crate::spool::{SpoolFolder, SpoolLimits, default_spool_folder};
use crate::store::migrate::Schema;
use crate::store::refusal::refusal;
use crate::store::{Conn, Database, FromRow, Row, Scratch};
use crate::stream::events::broken_log_error;
use report::Differences;
pub use report::{Compared, Difference, DifferenceKind, StateReport, TableCounts};
use restored::WorkspaceRestore;

/// Callback that receives each difference when it is found.
pub(crate) type OnDifference<'r> = &'r mut dyn FnMut(Difference) -> Result<()>;

/// Compares the tables of one workspace, or of all workspaces, with their logs, and reports each difference.
///
/// This function only reads, in one snapshot per workspace, and may run while the service runs. Fails with
/// `event-log-broken` if a log does not verify, and with `not-found` if the workspace does not exist.
pub(crate) fn verify_state(
    database: &Database,
    table: &Table,
    workspace: Option<WorkspaceId>,
    report: OnDifference<'_>,
) -> Result<Vec<StateReport>> {
    let verified = verify_all(database, table, workspace, report);
    verified.map_err(|error| refusal(error, database))
}

fn verify_all(
    database: &Database,
    table: &Table,
    workspace: Option<WorkspaceId>,
    report: OnDifference<'_>,
) -> Result<Vec<StateReport>> {
    let (_opener, conn) = open_for_audit(database)?;
    if !Schema::read(&conn)?.is_complete() {
        return Err(Error::wrong_state("the database is of an older version: start the service on it once"));
    }
    let SelectedWorkspaces { live, hidden } = SelectedWorkspaces::read(&conn, workspace)?;
    let verification = Verification { conn: &conn, table, restored: WorkspaceRestore::read_all(&conn)? };
    let mut reports = Vec::new();
    for workspace in live {
        reports.extend(verification.verify_workspace(workspace, report)?);
    }
    if workspace.is_none() {
        reports.extend(stray::report_stray_rows(&conn, table.records(), report)?);
    }
    for workspace in hidden {
        let row = Map::from_iter([("id".to_owned(), workspace.to_string().into())]);
        report(Difference::of_row(workspace, WORKSPACES_TABLE, row, DifferenceKind::Missing))?;
        let mut of_hidden = StateReport::without_log(workspace);
        of_hidden.count_different(WORKSPACES_TABLE);
        reports.push(of_hidden);
    }
    Ok(reports)
}

/// Name of the table of workspaces.
const WORKSPACES_TABLE: &str = "workspaces";

/// The workspaces whose tables are to be compared.
struct SelectedWorkspaces {
    live: Vec<WorkspaceId>,
    /// The workspaces that occur in the instance's log but not in the table of workspaces.
    hidden: Vec<WorkspaceId>,
}

impl SelectedWorkspaces {
    fn read(conn: &Conn, requested: Option<WorkspaceId>) -> Result<Self> {
        let read_hidden = |live: &[WorkspaceId]| -> Result<Vec<WorkspaceId>> {
            let named = listed_workspaces(conn)?.into_iter();
            Ok(named.filter(|workspace| !live.contains(workspace)).collect())
        };
        let read_live = || -> Result<Vec<WorkspaceId>> {
            conn.query(workspaces::LIVE_IDS, &[])?.into_iter().map(|mut row| row.take()).collect()
        };
        let mut live = read_live()?;
        let mut hidden = read_hidden(&live)?;
        // A workspace that is being created or erased at the same moment does not count as hidden.
        if !hidden.is_empty() {
            live = read_live()?;
            let still = read_hidden(&live)?;
            hidden.retain(|workspace| still.contains(workspace));
        }
        if let Some(requested) = requested {
            live.retain(|workspace| *workspace == requested);
            hidden.retain(|workspace| *workspace == requested);
            if live.is_empty() && hidden.is_empty() {
                return Err(Error::not_found("workspace"));
            }
        }
        Ok(Self { live, hidden })
    }
}

/// Maximum attempts to replay a log that is being pruned during the replay.
const ATTEMPTS_MAX: usize = 5;

/// Maximum events per page of a replay.
const PAGE_ROWS: i64 = 4000;
/// Number of payload bytes at which a page of a replay ends.
const PAGE_BYTES: usize = 4 << 20;

/// The last position of a log, the hash at that position, and the floor of the log.
#[derive(Clone, Copy)]
struct Head {
    lsn: i64,
    hash: [u8; 32],
    floor: i64,
    /// The position up to which messages have been pruned.
    words_floor: i64,
}

impl FromRow for Head {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self { lsn: row.take()?, hash: row.take()?, floor: row.take()?, words_floor: row.take()? })
    }
}

const SELECT_HEAD: &str = "select lsn, hash, floor, words_floor from heads where workspace_id = $1";

/// A verification of the tables of workspaces against their logs.
struct Verification<'v> {
    conn: &'v Conn,
    table: &'v Table,
    restored: BTreeMap<WorkspaceId, WorkspaceRestore>,
}

impl Verification<'_> {
    /// Verifies one workspace. Returns `None` if the workspace was erased during the verification.
    fn verify_workspace(
        &self,
        workspace: WorkspaceId,
        report: OnDifference<'_>,
    ) -> Result<Option<StateReport>> {
        for _ in 0..ATTEMPTS_MAX {
            match self.verify_once(workspace, report) {
                Ok(None) if !self.is_live(workspace)? => return Ok(None),
                Ok(None) => {}
                Err(_) if !self.is_live(workspace)? => return Ok(None),
                compared => return compared,
            }
        }
        Err(Error::wrong_state(format!(
            "the log was pruned during each of {ATTEMPTS_MAX} attempts; try again"
        )))
    }

    fn is_live(&self, workspace: WorkspaceId) -> Result<bool> {
        let live = self.conn.query(workspaces::IS_LIVE, &[&workspace])?;
        Ok(!live.is_empty())
    }

    /// Verifies one workspace once. Returns `None` if the log was pruned past the next event to read, or if
    /// the workspace was erased.
    fn verify_once(&self, workspace: WorkspaceId, report: OnDifference<'_>) -> Result<Option<StateReport>> {
        let first = self.read_head(workspace)?;
        let rebuilt = new_rebuilt_rows(self.table)?;
        let restored = self.restored.get(&workspace);
        // A restore is replayed first if the log was pruned past the end of the restored part.
        let earlier = restored.filter(|restored| restored.lsn < first.floor);
        earlier.map_or(Ok(()), |restored| restored.replay(&rebuilt))?;
        let mut replay = Replay {
            verification: self,
            rebuilt: &rebuilt,
            restored,
            cursor: ChainCursor::after(workspace, first.floor.saturating_sub(1), None),
        };
        if let Err(broken) = replay.replay_up_to(first.lsn)? {
            return self.none_if_pruned(workspace, first, broken);
        }
        let differences = Differences::new(&rebuilt);
        self.conn.begin_read()?;
        let mut keep = |difference| differences.store(&difference);
        let compared = self.compare_in_snapshot(workspace, first, &mut replay, &mut keep);
        let ended = self.conn.rollback();
        let compared = compared?;
        ended?;
        // The receiver of the differences may be slow, so they are reported after the snapshot has ended.
        differences.report(report)?;
        Ok(compared)
    }

    /// Compares the tables with the log in one snapshot, after replaying the events that the snapshot
    /// contains beyond `first`.
    fn compare_in_snapshot(
        &self,
        workspace: WorkspaceId,
        first: Head,
        replay: &mut Replay<'_>,
        report: OnDifference<'_>,
    ) -> Result<Option<StateReport>> {
        if !self.is_live(workspace)? {
            return Ok(None);
        }
        let head = self.read_head(workspace)?;
        if let Err(broken) = replay.replay_up_to(head.lsn)? {
            return self.none_if_pruned(workspace, first, broken);
        }
        if replay.cursor.hash() != head.hash {
            return Err(broken_log_error(workspace, Break { lsn: head.lsn, defect: Defect::Head }));
        }
        // The floor may have risen since the replay began, but the events that were replayed still prove
        // their rows.
        let head = Head { floor: first.floor, ..head };
        compare::compare_tables(self.conn, self.table.records(), replay.rebuilt, workspace, head, report)
            .map(Some)
    }

    /// Returns `None` if the log was pruned since `first` was read; otherwise fails with the defect `broken`.
    fn none_if_pruned(
        &self,
        workspace: WorkspaceId,
        first: Head,
        broken: Break,
    ) -> Result<Option<StateReport>> {
        let was_pruned = self.read_head(workspace)?.floor > first.floor;
        if was_pruned { Ok(None) } else { Err(broken_log_error(workspace, broken)) }
    }

    fn read_head(&self, workspace: WorkspaceId) -> Result<Head> {
        let head = self.conn.query(SELECT_HEAD, &[&workspace])?.into_iter().next();
        let mut head =
            head.ok_or_else(|| broken_log_error(workspace, Break { lsn: 0, defect: Defect::NoHead }))?;
        Head::from_row(&mut head)
    }
}

/// Creates an empty set of rebuilt rows, in a temporary file.
fn new_rebuilt_rows(table: &Table) -> Result<RebuiltRows> {
    let spools = SpoolFolder::new(default_spool_folder(), SpoolLimits::default());
    let proven = table.records().iter().filter(|records| records.is_proven());
    let scratch = Scratch::create(&spools).map_err(|error| {
        let causes = error.causes().join(": ");
        Error::configuration(format!("TMPDIR must name a folder for temporary files: {causes}"))
    })?;
    Ok(RebuiltRows::new(scratch, proven.map(proven_table).collect()))
}

/// Returns the name of a table, and which of its columns and rows are rebuilt.
fn proven_table(records: &Records) -> (&'static str, ProvenTable) {
    let table = ProvenTable {
        columns: records.proven_columns().into_keys().collect(),
        is_restored: records.leaves(),
        is_copied: records.is_copied(),
    };
    (records.table, table)
}

/// The replay of a log that is in progress.
struct Replay<'r> {
    verification: &'r Verification<'r>,
    rebuilt: &'r RebuiltRows,
    restored: Option<&'r WorkspaceRestore>,
    cursor: ChainCursor,
}

impl Replay<'_> {
    /// Replays the events up to a position. Each event is verified before it is replayed.
    ///
    /// The inner error describes where the chain of events is broken.
    fn replay_up_to(&mut self, up_to: i64) -> Result<std::result::Result<(), Break>> {
        let Verification { conn, table, .. } = self.verification;
        let bounds = ReadBounds { up_to, rows: PAGE_ROWS, bytes: PAGE_BYTES, young: None };
        while self.cursor.lsn() < up_to {
            let mut outcome = Ok(());
            let rebuilt = self.rebuilt;
            let restored = self.restored;
            let read = self.cursor.read(*conn, bounds, |lsn, event| {
                outcome = replay_event(table, rebuilt, (lsn, event.kind), event.payload);
                if let (Ok(()), Some(restored)) = (&outcome, restored.filter(|restored| restored.lsn == lsn))
                {
                    outcome = restored.replay(rebuilt);
                }
                outcome.is_ok()
            })?;
            outcome?;
            if read.is_err() {
                return Ok(read);
            }
        }
        Ok(Ok(()))
    }
}

/// Replays an event of any kind into the rebuilt rows.
fn replay_event(table: &Table, rebuilt: &RebuiltRows, (lsn, kind): (i64, &str), payload: &str) -> Result<()> {
    // The service does not know this kind of event, so the event determines no row.
    let Some(kind) = table.event(kind) else { return Ok(()) };
    kind.replay(&ReplayedEvent::of(rebuilt, lsn, payload)?)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::host::features::operation_table;

    fn payload(lsn: i64, fields: &Map<String, Value>) -> String {
        let id = "01a1ee56-5e00-7f45-8980-185dc406ec81";
        let mut payload = fields.clone();
        let chain = json!({"workspace_id": id, "lsn": lsn, "at": lsn, "channel_id": id, "thread_id": id,
            "member_id": null});
        payload.insert("$chain".to_owned(), chain);
        payload.insert("attribution".to_owned(), json!({"actor_id": null, "subject_id": null}));
        Value::Object(payload).to_string()
    }

    /// Logs may contain events of older versions, which lack fields, and events of other builds.
    #[test]
    fn an_event_is_replayed_whatever_its_fields_hold() {
        let table = operation_table().unwrap();
        let rebuilt = new_rebuilt_rows(&table).unwrap();
        let odd = [json!(null), json!(7), json!(-1), json!("x"), json!([]), json!([7, null, {}]), json!({})];
        let mut lsn = 0;
        for kind in table.events() {
            let schema = kind.schema();
            let names: Vec<&String> =
                schema["properties"].as_object().into_iter().flat_map(Map::keys).collect();
            for value in &odd {
                let all: Map<String, Value> =
                    names.iter().map(|name| ((*name).clone(), value.clone())).collect();
                let one = names.iter().map(|name| Map::from_iter([((*name).clone(), value.clone())]));
                for fields in one.chain([all, Map::new()]) {
                    lsn += 1;
                    let payload = payload(lsn, &fields);
                    replay_event(&table, &rebuilt, (lsn, kind.kind), &payload)
                        .unwrap_or_else(|error| panic!("{error}: {} {payload}", kind.kind));
                }
            }
        }
    }

    #[test]
    fn a_value_that_an_event_lacks_is_not_known() {
        let table = operation_table().unwrap();
        let rebuilt = new_rebuilt_rows(&table).unwrap();
        let channel = json!("01a1ee56-5e00-7f45-8980-185dc406ec81");
        let fields = |fields: Value| payload(fields["lsn"].as_i64().unwrap(), fields.as_object().unwrap());
        let made = fields(json!({"lsn": 5, "channel_id": channel, "name": "build", "private": false}));
        replay_event(&table, &rebuilt, (5, "ChannelCreated"), &made).unwrap();
        let known = || rebuilt.get("channels", std::slice::from_ref(&channel)).unwrap().unwrap();
        assert_eq!((known().created_lsn, known().lsn), (Some(5), 5));
        assert_eq!(known().columns["name"], (json!("build"), 5));
        assert!(!known().columns.contains_key("topic") && !known().columns.contains_key("is_group"));
        let renamed = fields(json!({"lsn": 6, "channel_id": channel, "topic": null, "private": true}));
        replay_event(&table, &rebuilt, (6, "ChannelUpdated"), &renamed).unwrap();
        assert!(!known().columns.contains_key("name"), "it has another one, which is not said");
        assert_eq!(known().columns["topic"], (json!(null), 6));
    }
}
