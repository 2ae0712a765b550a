//! Verifying the tables of a workspace against its log: they must hold the values that its events determine.
//!
//! The log is replayed into rows in a file beside the database, page by page while the service continues.
//! Then one snapshot of the database gives the later events and the tables, which are compared row by row.
//! Memory stays bounded, and nothing is changed. Values of pruned events cannot be compared: such rows count
//! as unproven.
//!
//! `report` has the differences and counts, `restored` the restores that only the instance's log records,
//! `compare` compares, and `stray` finds rows without a workspace.

mod report;
mod compare;
mod stray;
mod restored;

use std::collections::BTreeMap;

use serde_json::Map;

use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::identity::workspaces;
use crate::log::replay::{ProvenTable, Rebuilt, Replayed};
use crate::log::verify::{Break, ChainCursor, Defect, ReadBounds, named_workspaces, open_for_audit};
use crate::op::{Records, Table};
use crate::spool::{SpoolFolder, SpoolLimits, default_folder};
use crate::store::migrate::Schema;
use crate::store::refusal::refusal;
use crate::store::{Conn, Database, FromRow, Row, Scratch};
use crate::stream::events::broken_log;
use report::Differences;
pub use report::{Compared, Difference, DifferenceKind, StateReport, TableCounts};
use restored::Restored;

/// Receives the differences as they are found.
pub(crate) type Report<'r> = &'r mut dyn FnMut(Difference) -> Result<()>;

/// Compares the tables of a workspace, or of all, with their logs, and reports each difference.
///
/// It only reads, in one snapshot for each workspace, while the service may run. Fails with
/// `event-log-broken` if a log does not verify, and with `not-found` if the workspace does not exist.
pub(crate) fn verify_state(
    database: &Database,
    table: &Table,
    workspace: Option<WorkspaceId>,
    report: Report<'_>,
) -> Result<Vec<StateReport>> {
    let verified = verify_all(database, table, workspace, report);
    verified.map_err(|error| refusal(error, database))
}

fn verify_all(
    database: &Database,
    table: &Table,
    workspace: Option<WorkspaceId>,
    report: Report<'_>,
) -> Result<Vec<StateReport>> {
    let (_opener, conn) = open_for_audit(database)?;
    if !Schema::read(&conn)?.is_complete() {
        return Err(Error::wrong_state("the database is of an older version: start the service on it once"));
    }
    let SelectedWorkspaces { live, hidden } = SelectedWorkspaces::read(&conn, workspace)?;
    let verification = Verification { conn: &conn, table, restored: Restored::all(&conn)? };
    let mut reports = Vec::new();
    for workspace in live {
        reports.extend(verification.run(workspace, report)?);
    }
    if workspace.is_none() {
        reports.extend(stray::compare(&conn, table.records(), report)?);
    }
    for workspace in hidden {
        let row = Map::from_iter([("id".to_owned(), workspace.to_string().into())]);
        report(Difference::of(workspace, WORKSPACES, row, DifferenceKind::Missing))?;
        let mut of_hidden = StateReport::without_log(workspace);
        of_hidden.count_different(WORKSPACES);
        reports.push(of_hidden);
    }
    Ok(reports)
}

/// The table of workspaces.
const WORKSPACES: &str = "workspaces";

/// The workspaces whose tables are to be compared.
struct SelectedWorkspaces {
    live: Vec<WorkspaceId>,
    /// The workspaces that the log of the instance names and the table of workspaces lacks.
    hidden: Vec<WorkspaceId>,
}

impl SelectedWorkspaces {
    fn read(conn: &Conn, wanted: Option<WorkspaceId>) -> Result<Self> {
        let read_hidden = |live: &[WorkspaceId]| -> Result<Vec<WorkspaceId>> {
            let named = named_workspaces(conn)?.into_iter();
            Ok(named.filter(|workspace| !live.contains(workspace)).collect())
        };
        let read_live = || -> Result<Vec<WorkspaceId>> {
            conn.query(workspaces::LIVE_IDS, &[])?.into_iter().map(|mut row| row.take()).collect()
        };
        let mut live = read_live()?;
        let mut hidden = read_hidden(&live)?;
        // A workspace that is created or erased at the same time is not hidden.
        if !hidden.is_empty() {
            live = read_live()?;
            let still = read_hidden(&live)?;
            hidden.retain(|workspace| still.contains(workspace));
        }
        if let Some(wanted) = wanted {
            live.retain(|workspace| *workspace == wanted);
            hidden.retain(|workspace| *workspace == wanted);
            if live.is_empty() && hidden.is_empty() {
                return Err(Error::not_found("workspace"));
            }
        }
        Ok(Self { live, hidden })
    }
}

/// Maximum replays of a log that is pruned while it is read.
const ATTEMPTS: usize = 5;

/// Maximum events per page, and bytes of their payloads after which it ends.
const PAGE_ROWS: i64 = 4000;
const PAGE_BYTES: usize = 4 << 20;

/// The end of a log, and its floor.
#[derive(Clone, Copy)]
struct Head {
    lsn: i64,
    hash: [u8; 32],
    floor: i64,
    /// The position up to which messages are gone.
    words_floor: i64,
}

impl FromRow for Head {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self { lsn: row.take()?, hash: row.take()?, floor: row.take()?, words_floor: row.take()? })
    }
}

const HEAD: &str = "select lsn, hash, floor, words_floor from heads where workspace_id = $1";

struct Verification<'v> {
    conn: &'v Conn,
    table: &'v Table,
    restored: BTreeMap<WorkspaceId, Restored>,
}

impl Verification<'_> {
    /// Returns `None` if the workspace was erased in between.
    fn run(&self, workspace: WorkspaceId, report: Report<'_>) -> Result<Option<StateReport>> {
        for _ in 0..ATTEMPTS {
            match self.attempt(workspace, report) {
                Ok(None) if !self.is_live(workspace)? => return Ok(None),
                Ok(None) => {}
                Err(_) if !self.is_live(workspace)? => return Ok(None),
                compared => return compared,
            }
        }
        Err(Error::wrong_state(format!("the log was pruned during each of {ATTEMPTS} attempts; try again")))
    }

    fn is_live(&self, workspace: WorkspaceId) -> Result<bool> {
        let live = self.conn.query(workspaces::IS_LIVE, &[&workspace])?;
        Ok(!live.is_empty())
    }

    /// Returns `None` if the log was pruned beyond the next event to read, or the workspace was erased.
    fn attempt(&self, workspace: WorkspaceId, report: Report<'_>) -> Result<Option<StateReport>> {
        let first = self.head(workspace)?;
        let rebuilt = nothing_rebuilt(self.table)?;
        let restored = self.restored.get(&workspace);
        // The restore of a log that was then pruned beyond its end.
        let earlier = restored.filter(|restored| restored.lsn < first.floor);
        earlier.map_or(Ok(()), |restored| restored.replay(&rebuilt))?;
        let mut replay = Replay {
            verification: self,
            rebuilt: &rebuilt,
            restored,
            cursor: ChainCursor::after(workspace, first.floor.saturating_sub(1), None),
        };
        if let Err(broken) = replay.run_to(first.lsn)? {
            return self.overtaken(workspace, first, broken);
        }
        let differences = Differences::new(&rebuilt);
        self.conn.begin_read()?;
        let mut keep = |difference| differences.keep(&difference);
        let compared = self.compare(workspace, first, &mut replay, &mut keep);
        let ended = self.conn.rollback();
        let compared = compared?;
        ended?;
        // The receiver of the differences may be slow, and no snapshot waits for it.
        differences.report(report)?;
        Ok(compared)
    }

    /// Compares the tables with the log in one snapshot, which has events that were not replayed yet.
    fn compare(
        &self,
        workspace: WorkspaceId,
        first: Head,
        replay: &mut Replay<'_>,
        report: Report<'_>,
    ) -> Result<Option<StateReport>> {
        if !self.is_live(workspace)? {
            return Ok(None);
        }
        let head = self.head(workspace)?;
        if let Err(broken) = replay.run_to(head.lsn)? {
            return self.overtaken(workspace, first, broken);
        }
        if replay.cursor.hash() != head.hash {
            return Err(broken_log(workspace, Break { lsn: head.lsn, defect: Defect::Head }));
        }
        // The replayed events determine more than the current floor suggests, which may have risen since.
        let head = Head { floor: first.floor, ..head };
        compare::compare(self.conn, self.table.records(), replay.rebuilt, workspace, head, report).map(Some)
    }

    fn overtaken(&self, workspace: WorkspaceId, first: Head, broken: Break) -> Result<Option<StateReport>> {
        let was_pruned = self.head(workspace)?.floor > first.floor;
        if was_pruned { Ok(None) } else { Err(broken_log(workspace, broken)) }
    }

    fn head(&self, workspace: WorkspaceId) -> Result<Head> {
        let head = self.conn.query(HEAD, &[&workspace])?.into_iter().next();
        let mut head = head.ok_or_else(|| broken_log(workspace, Break { lsn: 0, defect: Defect::NoHead }))?;
        Head::from_row(&mut head)
    }
}

/// Returns an empty set of rebuilt rows.
fn nothing_rebuilt(table: &Table) -> Result<Rebuilt> {
    let spools = SpoolFolder::new(default_folder(), SpoolLimits::default());
    let proven = table.records().iter().filter(|records| records.is_proven());
    let scratch = Scratch::create(&spools).map_err(|error| {
        let causes = error.causes().join(": ");
        Error::configuration(format!("TMPDIR must name a folder for temporary files: {causes}"))
    })?;
    Ok(Rebuilt::new(scratch, proven.map(proven_table).collect()))
}

fn proven_table(records: &Records) -> (&'static str, ProvenTable) {
    let table = ProvenTable {
        columns: records.proven_columns().into_keys().collect(),
        is_restored: records.leaves(),
        is_copied: records.is_copied(),
    };
    (records.table, table)
}

/// A log that is being replayed.
struct Replay<'r> {
    verification: &'r Verification<'r>,
    rebuilt: &'r Rebuilt,
    restored: Option<&'r Restored>,
    cursor: ChainCursor,
}

impl Replay<'_> {
    /// Replays the events up to a position, each once it is verified.
    ///
    /// The inner error is a break of the chain.
    fn run_to(&mut self, up_to: i64) -> Result<std::result::Result<(), Break>> {
        let Verification { conn, table, .. } = self.verification;
        let bounds = ReadBounds { up_to, rows: PAGE_ROWS, bytes: PAGE_BYTES, young: None };
        while self.cursor.lsn() < up_to {
            let mut outcome = Ok(());
            let rebuilt = self.rebuilt;
            let restored = self.restored;
            let read = self.cursor.read(*conn, bounds, |lsn, event| {
                outcome = replay(table, rebuilt, (lsn, event.kind), event.payload);
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

fn replay(table: &Table, rebuilt: &Rebuilt, (lsn, kind): (i64, &str), payload: &str) -> Result<()> {
    // An event of an unknown kind determines nothing.
    let Some(kind) = table.event(kind) else { return Ok(()) };
    kind.replay(&Replayed::of(rebuilt, lsn, payload)?)
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

    /// Logs have events of older versions, which lack fields, and of other builds.
    #[test]
    fn an_event_is_replayed_whatever_its_fields_hold() {
        let table = operation_table().unwrap();
        let rebuilt = nothing_rebuilt(&table).unwrap();
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
                    replay(&table, &rebuilt, (lsn, kind.kind), &payload)
                        .unwrap_or_else(|error| panic!("{error}: {} {payload}", kind.kind));
                }
            }
        }
    }

    #[test]
    fn a_value_that_an_event_lacks_is_not_known() {
        let table = operation_table().unwrap();
        let rebuilt = nothing_rebuilt(&table).unwrap();
        let channel = json!("01a1ee56-5e00-7f45-8980-185dc406ec81");
        let fields = |fields: Value| payload(fields["lsn"].as_i64().unwrap(), fields.as_object().unwrap());
        let made = fields(json!({"lsn": 5, "channel_id": channel, "name": "build", "private": false}));
        replay(&table, &rebuilt, (5, "ChannelCreated"), &made).unwrap();
        let known = || rebuilt.get("channels", std::slice::from_ref(&channel)).unwrap().unwrap();
        assert_eq!((known().made, known().lsn), (Some(5), 5));
        assert_eq!(known().columns["name"], (json!("build"), 5));
        assert!(!known().columns.contains_key("topic") && !known().columns.contains_key("is_group"));
        let renamed = fields(json!({"lsn": 6, "channel_id": channel, "topic": null, "private": true}));
        replay(&table, &rebuilt, (6, "ChannelUpdated"), &renamed).unwrap();
        assert!(!known().columns.contains_key("name"), "it has another one, which is not said");
        assert_eq!(known().columns["topic"], (json!(null), 6));
    }
}
