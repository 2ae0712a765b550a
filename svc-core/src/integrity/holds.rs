//! Legal holds: while a workspace has one, nothing that its members have written is destroyed.
//!
//! Several may be in force at once, each with its reason; the last one released ends them. The reason is in
//! no event, because the log outlives it and is read by every member. What a hold forbids asks for the
//! permit to destroy.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Result;
use crate::capability::Capability::TokenAdmin;
use crate::error::Error;
use crate::id::{HoldId, MemberId, WorkspaceId};
use crate::identity::workspaces::own_workspace;
use crate::log::event::{Event, EventKind, Subject};
use crate::op::{Feature, Fixture, Read, Records, Sample, Write, destructive, read, write};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::store::{columns, new_row};
use crate::text::Prose;
use crate::time::Time;

/// Characters of a reason.
const REASON_MAX: usize = 500;

/// A legal hold.
#[derive(Debug, Serialize, JsonSchema)]
struct LegalHold {
    /// The hold's id.
    id: HoldId,
    /// Why it was placed.
    reason: String,
    /// Who placed it; null for an administrator of the machine.
    placed_by: Option<MemberId>,
    /// When it was placed.
    placed_at: Time,
    /// Who released it; null if nobody did, or an administrator of the machine.
    released_by: Option<MemberId>,
    /// When it was released; null while it is in force.
    released_at: Option<Time>,
    #[serde(skip)]
    lsn: i64,
}

columns! {
    hold_columns: LegalHold as h { id, reason, placed_by, placed_at, released_by, released_at, lsn }
}

/// A legal hold was placed on the workspace. Its reason is not in the log.
#[derive(Debug, Serialize, JsonSchema)]
struct LegalHoldPlaced {
    /// The hold.
    hold_id: HoldId,
}

impl Event for LegalHoldPlaced {
    const KIND: &'static str = "LegalHoldPlaced";
}

/// A legal hold was released.
#[derive(Debug, Serialize, JsonSchema)]
struct LegalHoldReleased {
    /// The hold.
    hold_id: HoldId,
}

impl Event for LegalHoldReleased {
    const KIND: &'static str = "LegalHoldReleased";
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
                    .post("/workspaces/{workspace_id}/legal-holds")
                    .needs(&[TokenAdmin])
                    .created()
                    .example(hold),
                read("list_legal_holds", list_legal_holds)
                    .title("List the legal holds of a workspace")
                    .get("/workspaces/{workspace_id}/legal-holds")
                    .needs(&[TokenAdmin])
                    .example(|w| json!({"workspace_id": w.id("workspace"), "limit": 10})),
                destructive("release_legal_hold", release_legal_hold)
                    .title("Release a legal hold")
                    .delete("/workspaces/{workspace_id}/legal-holds/{hold_id}")
                    .needs(&[TokenAdmin])
                    .example(release),
            ],
        )
        .events(vec![EventKind::of::<LegalHoldPlaced>(), EventKind::of::<LegalHoldReleased>()])
        // Released, because under a hold nothing could be withdrawn.
        .sample(Sample::new("legal_hold", "place_legal_hold", hold).then("release_legal_hold", release))
        .records(vec![
            Records::table("legal_holds", "lsn id")
                .after("members")
                .only_restored()
                .ids("id workspace_id placed_by released_by")
                .texts("reason")
                .times("placed_at released_at")
                .ints("lsn"),
        ])
}

/// Places a legal hold on the workspace and returns it.
///
/// While it is in force, no message is withdrawn or purged, nothing is pruned, and the workspace is neither
/// purged nor erased. A workspace may have several holds.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PlaceLegalHold {
    /// The workspace. It must be yours.
    workspace_id: WorkspaceId,
    /// Why, for those who decide on its release. It is not in the log.
    reason: Prose<1, REASON_MAX>,
}

fn place_legal_hold(cx: &mut Write<'_>, input: &PlaceLegalHold) -> Result<LegalHold> {
    own_workspace(cx, input.workspace_id)?;
    let id: HoldId = cx.new_id()?;
    let lsn = cx.emit(Subject::WORKSPACE, &LegalHoldPlaced { hold_id: id })?.lsn;
    let (placed_by, placed_at) = (cx.caller().member, cx.now());
    let reason: &str = &input.reason;
    let workspace_id = input.workspace_id;
    cx.insert(&new_row!("insert into legal_holds" { id, workspace_id, reason, placed_by, placed_at, lsn }))?;
    cx.audit("legal_hold.place", json!({"hold_id": id}))?;
    let (released_by, released_at) = (None, None);
    Ok(LegalHold { id, reason: reason.to_owned(), placed_by, placed_at, released_by, released_at, lsn })
}

/// Returns the legal holds of the workspace, oldest first, those that were released included.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListLegalHolds {
    /// The workspace. It must be yours.
    workspace_id: WorkspaceId,
    cursor: Option<Cursor>,
    limit: Option<Limit>,
}

fn list_legal_holds(cx: &Read<'_>, input: &ListLegalHolds) -> Result<Page<LegalHold>> {
    own_workspace(cx, input.workspace_id)?;
    let (after, most) = (Cursor::after(input.cursor), rows_to_read(input.limit));
    let holds = cx.rows(LIST, &[&input.workspace_id, &after, &most])?;
    Ok(Page::of(holds, input.limit, |hold: &LegalHold| hold.lsn))
}

const LIST: &str = concat!(
    "select ",
    hold_columns!(),
    " from legal_holds h where h.workspace_id = $1 and h.lsn > $2 order by h.lsn limit $3"
);

/// Releases a legal hold and returns it. Releasing it again changes nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReleaseLegalHold {
    /// The workspace. It must be yours.
    workspace_id: WorkspaceId,
    /// The hold.
    hold_id: HoldId,
}

fn release_legal_hold(cx: &mut Write<'_>, input: &ReleaseLegalHold) -> Result<LegalHold> {
    own_workspace(cx, input.workspace_id)?;
    let found: Option<LegalHold> = cx.one(HOLD, &[&input.hold_id, &input.workspace_id])?;
    let hold = found.ok_or_else(|| Error::not_found("legal hold"))?;
    if hold.released_at.is_some() {
        return Ok(hold);
    }
    cx.emit(Subject::WORKSPACE, &LegalHoldReleased { hold_id: hold.id })?;
    let (released_by, released_at) = (cx.caller().member, Some(cx.now()));
    cx.execute(1, RELEASE, &[&hold.id, &released_by, &released_at])?;
    cx.audit("legal_hold.release", json!({"hold_id": hold.id}))?;
    Ok(LegalHold { released_by, released_at, ..hold })
}

const HOLD: &str =
    concat!("select ", hold_columns!(), " from legal_holds h where h.id = $1 and h.workspace_id = $2");

const RELEASE: &str = "update legal_holds set released_by = $2, released_at = $3 where id = $1";
