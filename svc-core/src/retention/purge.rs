//! Purging a workspace: all of its content is destroyed, but the record of its events stays.
//!
//! Messages can no longer be read after the first commit. Their rows and keys, and the content in the tables
//! of other features, are removed afterwards in bounded steps. A row stores the progress. So a chore can
//! continue a purge whose caller or process has died, or that a legal hold has stopped, after the hold has
//! ended.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::capability::Capability::TokenAdmin;
use crate::conversation::messages::{self, PruneReason};
use crate::conversation::{boot, glossary, memory, scrub};
use crate::coordination::results;
use crate::error::{Code, Error, Result};
use crate::id::{MemberId, WorkspaceId};
use crate::identity::floor::LogRange;
use crate::identity::workspaces::{OwnWorkspaceId, check_own_workspace, is_live, load_workspace};
use crate::limits::{NAME_MAX, PURGED_ROWS_MAX, PURGES_EXAMINED_MAX};
use crate::log::event::{Event, EventKind, Subject};
use crate::log::replay::{ReplayedEvent, RowChange};
use crate::op::{
    Answer, Chore, ChoreProcesses, ChoreRound, Effect, Feature, Read, Records, StepOutcome, Write, changing,
};
use crate::request::request;
use crate::store::columns;
use crate::text::Text;
use crate::time::Time;

/// Time for which a purge stays reserved for its caller after each step.
const LEASE: Duration = Duration::from_secs(10);
/// Time between two scans for purges without a caller.
const SCAN_INTERVAL: Duration = Duration::from_secs(5);

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "workspaces",
            vec![
                changing("purge_workspace", Effect::Destructive)
                    .in_resumed_steps(purge_workspace)
                    .title("Purge the content of a workspace")
                    .post("/workspaces/{workspace_id}/purge")
                    .needs(&[TokenAdmin])
                    .rest_only()
                    .refuses(&[Code::LegalHold])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "confirm": "Night shift"})),
            ],
        )
        .events(vec![EventKind::of::<WorkspacePurged>()])
        .records(vec![Records::table("purges", "workspace_id").stays()])
        .chore(Chore {
            name: "purges",
            every: |_| Some(SCAN_INTERVAL),
            lease: LEASE,
            who: ChoreProcesses::OneLeader,
            run: Box::new(resume_purge),
        })
}

/// All content of the workspace up to a position was destroyed. The record of its events stays.
#[derive(Serialize, JsonSchema)]
struct WorkspacePurged {
    /// The position in the log up to which content was purged.
    up_to_lsn: i64,
    /// The number of rows whose content was destroyed, by table.
    removed: BTreeMap<String, i64>,
}

impl Event for WorkspacePurged {
    const KIND: &'static str = "WorkspacePurged";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let Some(up_to) = event.int("up_to_lsn") else { return Ok(()) };
        let lsn = |row: &RowChange<'_>| row.value("lsn").and_then(Value::as_i64);
        let is_purged = |row: &RowChange<'_>| lsn(row).is_some_and(|lsn| lsn <= up_to);
        event.rows("claim_checkpoints", &[], |row| if is_purged(&row) { row.remove() } else { Ok(()) })?;
        results::replay_purged(event, up_to)?;
        glossary::replay_purged(event, up_to)?;
        boot::replay_purged(event, up_to)?;
        memory::replay_purged(event, up_to)
    }
}

request! {
    /// Destroys the content of your workspace: all messages and their edits, all results, the checkpoints of
    /// claims, the terms of the glossary, and the texts of memory blocks and of channels' boots.
    ///
    /// The record stays: members, channels, threads and their titles, claims, reviews, and the log, which
    /// still verifies. A result keeps its hash but reads as null; a memory block keeps its label but is
    /// empty. Messages can no longer be read after the first step; the other content is destroyed in further
    /// steps. The call returns after the last step; if it is interrupted, the service continues the purge.
    /// Content written after the call began is kept. A call while a purge is in progress joins that purge.
    ///
    /// Fails with 409 `legal-hold` if the workspace is under a legal hold; a purge that has begun continues
    /// when the hold has ended.
    #[derive(Serialize)]
    struct PurgeWorkspace {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// The current name of the workspace, as a confirmation.
        confirm: Text<1, NAME_MAX>,
    }

    purge_workspace(confirm: Text<1, NAME_MAX>) -> PurgeResult
}

/// The result of a purge.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "WordsPurged")]
#[non_exhaustive]
pub struct PurgeResult {
    /// Id of the purged workspace.
    pub workspace_id: WorkspaceId,
    /// The position in the log up to which content was purged.
    pub up_to_lsn: i64,
    /// When the last step of the purge ran.
    pub purged_at: Time,
    /// The number of rows whose content was destroyed, by table.
    pub removed: BTreeMap<String, i64>,
}

/// A purge of a workspace, in progress or completed.
struct Purge {
    up_to_lsn: i64,
    requested_by: Option<MemberId>,
    progress: PurgeProgress,
    purged_at: Option<Time>,
}

columns! { purge_columns: StoredPurge as p { up_to_lsn, requested_by, progress, purged_at } }

struct StoredPurge {
    up_to_lsn: i64,
    requested_by: Option<MemberId>,
    progress: String,
    purged_at: Option<Time>,
}

/// The progress of a purge, as stored in the purge's row.
#[derive(Debug, Default, Serialize, Deserialize)]
struct PurgeProgress {
    /// The number of rows whose content was destroyed, by table.
    removed: BTreeMap<String, i64>,
    /// The tables whose content was destroyed.
    done: Vec<String>,
    /// The position up to which the content of the next table was destroyed.
    reached: i64,
}

/// The end position of the purge that a call has begun or joined. A purge with a later end position began
/// after that purge ended, and covers the same content.
type JoinedPurge = Option<i64>;

fn purge_workspace(
    cx: &mut Write<'_>,
    input: &PurgeWorkspace,
    joined: &mut JoinedPurge,
) -> Result<Option<PurgeResult>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let purge = load_purge(cx, workspace_id)?;
    if let (Some(purge), Some(_)) = (&purge, &joined) {
        let Some(purged_at) = purge.purged_at else { return run_purge_step(cx).map(|()| None) };
        let up_to_lsn = purge.up_to_lsn;
        let removed = purge.progress.removed.clone();
        return Ok(Some(PurgeResult { workspace_id, up_to_lsn, purged_at, removed }));
    }
    if load_workspace(cx, workspace_id)?.name != *input.confirm {
        return Err(Error::in_field("confirm", "it is not the name of the workspace"));
    }
    match purge.filter(|purge| purge.purged_at.is_none()) {
        Some(purge) => {
            *joined = Some(purge.up_to_lsn);
            run_purge_step(cx)?;
        }
        None => *joined = Some(begin_purge(cx)?),
    }
    Ok(None)
}

impl Answer<PurgeWorkspace> for PurgeResult {
    type Kept = Self;

    fn kept(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn answer_repeat(cx: &Read<'_>, _: &PurgeWorkspace, kept: Self) -> Result<Self> {
        check_own_workspace(cx, kept.workspace_id)?;
        Ok(kept)
    }
}

fn load_purge(cx: &Write<'_>, workspace: WorkspaceId) -> Result<Option<Purge>> {
    let Some(stored) = cx.one::<StoredPurge>(SELECT_PURGE, &[&workspace])? else { return Ok(None) };
    let StoredPurge { up_to_lsn, requested_by, progress, purged_at } = stored;
    let progress = serde_json::from_str(&progress).map_err(Error::internal)?;
    Ok(Some(Purge { up_to_lsn, requested_by, progress, purged_at }))
}

/// Selects the position up to which a purge in progress destroys content of a workspace.
pub(crate) const SELECT_PURGE_IN_PROGRESS: &str =
    "select p.up_to_lsn from purges p where p.workspace_id = $1 and p.purged_at is null";

const SELECT_PURGE: &str = concat!("select ", purge_columns!(), " from purges p where p.workspace_id = $1");

/// Begins the purge of the caller's workspace: after the commit, existing messages are no longer found.
///
/// Returns the position up to which content is purged.
fn begin_purge(cx: &mut Write<'_>) -> Result<i64> {
    let permit = cx.permit()?;
    let up_to_lsn = LogRange::read(cx)?.head;
    let messages = messages::prune(cx, &permit, up_to_lsn, PruneReason::Purge)?;
    let removed = BTreeMap::from([("messages".to_owned(), messages)]);
    let purge = Purge {
        up_to_lsn,
        requested_by: cx.caller().member_id().ok(),
        progress: PurgeProgress { removed, ..PurgeProgress::default() },
        purged_at: None,
    };
    save_purge(cx, &purge)?;
    Ok(up_to_lsn)
}

/// Performs the next step of the purge of the caller's workspace.
fn run_purge_step(cx: &mut Write<'_>) -> Result<()> {
    let permit = cx.permit()?;
    let workspace = cx.caller().workspace_id;
    let Some(mut purge) = load_purge(cx, workspace)?.filter(|purge| purge.purged_at.is_none()) else {
        // Another caller has performed the last step.
        return Ok(());
    };
    let progress = &mut purge.progress;
    let next = cx.records().iter().find_map(|records| {
        let purge = records.purges()?;
        (!progress.done.iter().any(|done| done == records.name())).then_some((records.name(), purge))
    });
    if let Some((table, words)) = next {
        let removed = progress.removed.entry(table.to_owned()).or_default();
        match words(cx, &permit, (progress.reached, purge.up_to_lsn), PURGED_ROWS_MAX)? {
            Some((rows, reached)) => {
                *removed = removed.saturating_add(rows);
                progress.reached = reached;
            }
            None => {
                progress.done.push(table.to_owned());
                progress.reached = 0;
            }
        }
    } else if messages::has_pruned_rows(cx, workspace)? {
        messages::remove_pruned_batch(cx, &permit)?;
    } else {
        purge.purged_at = Some(cx.now());
        finish_purge(cx, &purge)?;
    }
    save_purge(cx, &purge)
}

fn finish_purge(cx: &mut Write<'_>, purge: &Purge) -> Result<()> {
    let event = WorkspacePurged { up_to_lsn: purge.up_to_lsn, removed: purge.progress.removed.clone() };
    let because = cx.emit(Subject::WORKSPACE, &event)?.lsn;
    let metadata = json!({
        "up_to_lsn": purge.up_to_lsn, "removed": purge.progress.removed, "requested_by": purge.requested_by,
    });
    cx.audit("workspace.purge", metadata)?;
    scrub::request_plaintext_scrub(cx, because)
}

fn save_purge(cx: &mut Write<'_>, purge: &Purge) -> Result<()> {
    let workspace = cx.caller().workspace_id;
    let until = cx.now().plus(LEASE);
    let progress = serde_json::to_string(&purge.progress).map_err(Error::internal)?;
    let Purge { up_to_lsn, requested_by, purged_at, .. } = purge;
    cx.execute(1, UPSERT_PURGE, &[&workspace, up_to_lsn, requested_by, &until, &progress, purged_at])
}

const UPSERT_PURGE: &str = "
    insert into purges (workspace_id, up_to_lsn, requested_by, until, progress, purged_at)
    values ($1, $2, $3, $4, $5, $6)
    on conflict (workspace_id) do update set
        up_to_lsn = excluded.up_to_lsn, requested_by = excluded.requested_by, until = excluded.until,
        progress = excluded.progress, purged_at = excluded.purged_at";

/// Continues a purge that its caller has abandoned.
fn resume_purge(round: &ChoreRound<'_>) -> Result<StepOutcome> {
    let found = round.read(|cx| {
        let left: Vec<(WorkspaceId,)> = cx.query(SELECT_ABANDONED, &[&cx.now(), &PURGES_EXAMINED_MAX])?;
        for (workspace,) in left {
            if !cx.is_under_hold(workspace)? {
                return Ok(Some(workspace));
            }
        }
        Ok(None)
    })?;
    let Some(workspace) = found else { return Ok(StepOutcome::Done) };
    let Some(lead) = round.lead()? else { return Ok(StepOutcome::Done) };
    match lead.write(workspace, run_purge_step) {
        // A hold was placed after the purge was selected.
        Err(error) if error.code() == Code::LegalHold => Ok(StepOutcome::Done),
        taken => taken.map(|()| StepOutcome::More),
    }
}

const SELECT_ABANDONED: &str = concat!(
    "select p.workspace_id from purges p where p.purged_at is null and p.until < $1 and ",
    is_live!("p.workspace_id"),
    " order by p.until limit $2"
);
