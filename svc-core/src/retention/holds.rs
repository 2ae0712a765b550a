//! Legal holds: no content of a workspace is destroyed while a hold is in force.
//!
//! Several holds may be in force at the same time, each with a reason; content is protected until the last
//! hold is released. The log does not contain the reason, because the log is kept after the hold has ended,
//! and every member can read it. Operations that a hold forbids must request a permit to destroy content.
//! Replaced texts are kept until the last hold is released; then a chore removes them.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::Result;
use crate::capability::Capability::TokenAdmin;
use crate::conversation::scrub;
use crate::error::{Code, Error};
use crate::id::{HoldId, MemberId, WorkspaceId};
use crate::identity::workspaces::{OwnWorkspaceId, is_live};
use crate::limits::PURGED_ROWS_MAX;
use crate::log::event::{Event, EventKind, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{
    Answer, Chore, ChoreProcesses, ChoreRound, DestroyPermit, Feature, Fixture, Read, Records, Sample,
    StepOutcome, Write, destructive, purged, read, write,
};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::request;
use crate::store::{columns, new_row};
use crate::text::Prose;
use crate::time::Time;

/// Time between two scans for replaced texts that are no longer protected by a hold.
const SCAN_INTERVAL: Duration = Duration::from_secs(5);
/// Duration of the lease of the process that removes replaced texts. If that process dies, another one takes
/// over after the lease expires.
const LEASE: Duration = Duration::from_secs(10);

/// Maximum characters of the reason for a legal hold.
const REASON_MAX: usize = 500;

/// A legal hold.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct LegalHold {
    /// The hold's id.
    pub id: HoldId,
    /// The reason for which the hold was placed.
    pub reason: String,
    /// The member who placed the hold; null for an administrator of the machine.
    pub placed_by: Option<MemberId>,
    /// When the hold was placed.
    pub placed_at: Time,
    /// The member who released the hold; null while the hold is in force, or for an administrator of the
    /// machine.
    pub released_by: Option<MemberId>,
    /// When the hold was released; null while the hold is in force.
    pub released_at: Option<Time>,
    #[serde(skip)]
    lsn: i64,
}

columns! {
    hold_columns: LegalHold as h { id, reason, placed_by, placed_at, released_by, released_at, lsn }
}

impl<I> Answer<I> for LegalHold {
    type Kept = HoldId;

    fn kept(&self) -> Option<HoldId> {
        Some(self.id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, id: HoldId) -> Result<Self> {
        load_hold(cx, id)
    }
}

/// A legal hold was placed on the workspace. The log does not contain the reason for the hold.
#[derive(Debug, Serialize, JsonSchema)]
struct LegalHoldPlaced {
    /// Id of the hold that was placed.
    hold_id: HoldId,
}

impl Event for LegalHoldPlaced {
    const KIND: &'static str = "LegalHoldPlaced";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let hold = event.row_of("legal_holds", "hold_id")?.made();
        let hold = hold.set("placed_by", event.subject()).set("placed_at", event.at());
        hold.set("lsn", event.lsn()).clear("released_by").clear("released_at").keep()
    }
}

/// A legal hold was released.
#[derive(Debug, Serialize, JsonSchema)]
struct LegalHoldReleased {
    /// Id of the hold that was released.
    hold_id: HoldId,
}

impl Event for LegalHoldReleased {
    const KIND: &'static str = "LegalHoldReleased";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let hold = event.row_of("legal_holds", "hold_id")?.set("released_by", event.subject());
        hold.set("released_at", event.at()).keep()
    }
}

pub(crate) fn feature() -> Feature {
    let hold =
        |w: &Fixture| json!({"workspace_id": w.id("workspace"), "reason": "A dispute about the result."});
    let release = |w: &Fixture| json!({"workspace_id": w.id("workspace"), "hold_id": w.id("legal_hold")});
    Feature::new()
        .operations(
            "retention",
            vec![
                write("place_legal_hold", place_legal_hold)
                    .title("Place a legal hold")
                    .when(
                        "Place a legal hold, so that nothing in the workspace can be withdrawn, pruned, \
                         purged or erased. Use `release_legal_hold` to end it.",
                    )
                    .post("/workspaces/{workspace_id}/legal-holds")
                    .needs(&[TokenAdmin])
                    .created()
                    .example(hold),
                read("list_legal_holds", list_legal_holds)
                    .title("List the legal holds of a workspace")
                    .when(
                        "List the legal holds of the workspace, including released ones, to see why nothing \
                         can be deleted.",
                    )
                    .detailed()
                    .get("/workspaces/{workspace_id}/legal-holds")
                    .needs(&[TokenAdmin])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "limit": 10})),
                destructive("release_legal_hold", release_legal_hold)
                    .title("Release a legal hold")
                    .when("Release a legal hold, to allow deletion again unless another hold remains.")
                    .delete("/workspaces/{workspace_id}/legal-holds/{hold_id}")
                    .needs(&[TokenAdmin])
                    .example(release),
            ],
        )
        .events(vec![EventKind::of::<LegalHoldPlaced>(), EventKind::of::<LegalHoldReleased>()])
        // The sample hold is released immediately, because under a hold no other example could withdraw
        // anything.
        .sample(Sample::new("legal_hold", "place_legal_hold", hold).then("release_legal_hold", release))
        .records(vec![
            Records::table("legal_holds", "lsn id")
                .after("members")
                .exported_only_to_restore()
                .ids("id workspace_id placed_by released_by")
                .texts("reason")
                .times("placed_at released_at")
                .ints("lsn")
                .proven("id", "placed_by placed_at released_by released_at lsn")
                .unproven("reason", "is content, which the log would outlive"),
            Records::table("held_texts", "kind object_id version")
                .after("workspaces")
                .exported_only_to_restore()
                .ids("workspace_id object_id")
                .texts("kind")
                .ints("version")
                .times("at")
                .words("text", remove_kept_texts)
                .unproven("kind object_id version text at", "is content, which is kept while a hold lasts"),
        ])
        .chore(Chore {
            name: "held-texts",
            every: |_| Some(SCAN_INTERVAL),
            lease: LEASE,
            who: ChoreProcesses::OneLeader,
            run: Box::new(remove_released_texts),
        })
}

request! {
    /// Places a legal hold on the workspace and returns it.
    ///
    /// While the hold is in force, no message can be withdrawn or purged, nothing is pruned, the workspace
    /// can be neither purged nor erased, and replaced texts are kept. A workspace may have several holds.
    #[derive(Serialize)]
    struct PlaceLegalHold {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// The reason, which helps to decide later whether to release the hold. The log does not contain it.
        reason: Prose<1, REASON_MAX>,
    }

    place_legal_hold(reason: Prose<1, REASON_MAX>) -> LegalHold
}

fn place_legal_hold(cx: &mut Write<'_>, input: &PlaceLegalHold) -> Result<LegalHold> {
    let workspace_id = input.workspace_id.of(cx)?;
    let id: HoldId = cx.new_id()?;
    let lsn = cx.emit(Subject::WORKSPACE, &LegalHoldPlaced { hold_id: id })?.lsn;
    let placed_by = cx.caller().member;
    let placed_at = cx.now();
    let reason: &str = &input.reason;
    cx.insert(&new_row!("insert into legal_holds" { id, workspace_id, reason, placed_by, placed_at, lsn }))?;
    cx.audit("legal_hold.place", json!({"hold_id": id}))?;
    let released_by = None;
    let released_at = None;
    Ok(LegalHold { id, reason: reason.to_owned(), placed_by, placed_at, released_by, released_at, lsn })
}

request! {
    /// Returns the legal holds of the workspace, oldest first, including released ones.
    struct ListLegalHolds {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_legal_holds() -> Page<LegalHold>
}

fn list_legal_holds(cx: &Read<'_>, input: &ListLegalHolds) -> Result<Page<LegalHold>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let after = Cursor::after(input.cursor);
    let limit = rows_to_read(input.limit);
    let holds = cx.rows(SELECT_PAGE, &[&workspace_id, &after, &limit])?;
    Ok(Page::of(holds, input.limit, |hold: &LegalHold| hold.lsn))
}

const SELECT_PAGE: &str = concat!(
    "select ",
    hold_columns!(),
    " from legal_holds h where h.workspace_id = $1 and h.lsn > $2 order by h.lsn limit $3"
);

request! {
    /// Releases a legal hold and returns it. Releasing a hold again changes nothing.
    #[derive(Serialize)]
    struct ReleaseLegalHold {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// Id of the hold to release.
        hold_id: HoldId,
    }

    release_legal_hold(hold_id: HoldId) -> LegalHold
}

fn release_legal_hold(cx: &mut Write<'_>, input: &ReleaseLegalHold) -> Result<LegalHold> {
    input.workspace_id.of(cx)?;
    let hold = load_hold(cx, input.hold_id)?;
    if hold.released_at.is_some() {
        return Ok(hold);
    }
    cx.emit(Subject::WORKSPACE, &LegalHoldReleased { hold_id: hold.id })?;
    let released_by = cx.caller().member;
    let released_at = Some(cx.now());
    cx.execute(1, SET_RELEASED, &[&hold.id, &released_by, &released_at])?;
    cx.audit("legal_hold.release", json!({"hold_id": hold.id}))?;
    Ok(LegalHold { released_by, released_at, ..hold })
}

const SET_RELEASED: &str = "update legal_holds set released_by = $2, released_at = $3 where id = $1";

/// Loads a legal hold of the caller's workspace.
fn load_hold(cx: &Read<'_>, id: HoldId) -> Result<LegalHold> {
    let found = cx.one(SELECT_HOLD, &[&id, &cx.caller().workspace_id])?;
    found.ok_or_else(|| Error::not_found("legal hold"))
}

const SELECT_HOLD: &str =
    concat!("select ", hold_columns!(), " from legal_holds h where h.id = $1 and h.workspace_id = $2");

/// Removes up to `limit` of the replaced texts that were kept because of a hold.
fn remove_kept_texts(
    cx: &mut Write<'_>,
    _: &DestroyPermit<'_>,
    _: (i64, i64),
    limit: i64,
) -> Result<Option<(i64, i64)>> {
    let workspace = cx.caller().workspace_id;
    purged(cx.change(DELETE_KEPT_TEXTS, &[&workspace, &limit])?)
}

const DELETE_KEPT_TEXTS: &str = "
    delete from held_texts where workspace_id = $1 and (kind, object_id, version) in (
        select kind, object_id, version from held_texts where workspace_id = $1 limit $2)";

const ANY_KEPT_TEXT: &str = "select 1 from held_texts where workspace_id = $1 limit 1";

/// Removes replaced texts of a workspace without a hold in force. After removing the last text, requests a
/// scrub of the database.
fn remove_released_texts(round: &ChoreRound<'_>) -> Result<StepOutcome> {
    let Some((workspace,)) = round.read(|cx| cx.one::<(WorkspaceId,)>(SELECT_RELEASED, &[]))? else {
        return Ok(StepOutcome::Done);
    };
    let Some(lead) = round.lead()? else { return Ok(StepOutcome::Done) };
    let step = lead.write(workspace, |cx| {
        let permit = cx.permit()?;
        remove_kept_texts(cx, &permit, (0, 0), PURGED_ROWS_MAX)?;
        if cx.one::<(i64,)>(ANY_KEPT_TEXT, &[&cx.caller().workspace_id])?.is_none() {
            // The scrub request has a negative number, so that its number differs from the position of every
            // event.
            let because = cx.now().micros().saturating_neg();
            scrub::request_plaintext_scrub(cx, because)?;
        }
        Ok(StepOutcome::More)
    });
    match step {
        // A hold was placed after the workspace was selected.
        Err(error) if error.code() == Code::LegalHold => Ok(StepOutcome::Done),
        step => step,
    }
}

/// Selects a workspace that has kept texts and no hold in force. Starts from the holds, because they are few.
const SELECT_RELEASED: &str = concat!(
    "select r.workspace_id from legal_holds r
     where exists (select 1 from held_texts t where t.workspace_id = r.workspace_id)
        and not exists (
            select 1 from legal_holds h where h.workspace_id = r.workspace_id and h.released_at is null)
        and ",
    is_live!("r.workspace_id"),
    " limit 1"
);
