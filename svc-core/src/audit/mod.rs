//! The audit trail: a workspace reads exactly its rows, the operator all rows.
//!
//! - `instance`: reads the rows of all workspaces, and those that belong to none
//! - `state`: compares the tables of a workspace with its log
//!
//! The pipeline writes the rows, or the function of a change if the row has a specific name. This module
//! writes nothing.

mod instance;
pub(crate) mod state;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::capability::Capability::WorkspaceRead;
use crate::error::Result;
use crate::id::{GrantId, MemberId, WorkspaceId};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::op::{Feature, Read, Records, read};
use crate::page::{Cursor, Limit, Page, ScanHorizon, rows_to_read};
use crate::store::columns;
use crate::text::Text;
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "audit",
            vec![
                read("list_audit", list_audit)
                    .title("List audit rows")
                    .when(
                        "Use to see who changed what, newest first, also what was rejected with delegated \
                         tokens; `list_events` has what came of it.",
                    )
                    .detailed()
                    .get("/workspaces/{workspace_id}/audit")
                    .needs(&[WorkspaceRead])
                    .example(
                        |w| json!({"workspace_id": w.id("workspace"), "action": "token.mint", "limit": 10}),
                    ),
            ],
        )
        .operations("operator", instance::operations())
        .records(vec![
            Records::table("audit", "seq")
                .after("members")
                .ids("workspace_id actor_id subject_id grant_id channel_id")
                .ints("seq")
                .times("at")
                .texts("action metadata")
                .ids_within("metadata", &["session_id", "session_ids", "token_id", "token_ids"])
                .unproven(
                    "seq at action actor_id subject_id grant_id channel_id metadata",
                    "is counted by the head of the log, and not told by events",
                ),
        ])
}

/// Returns the audit rows of a workspace, newest first.
///
/// They record who changed what, and what was requested or rejected with delegated tokens. A change without a
/// specific name has the action `mutation`, with the surface, operation, path and status in `metadata`.
///
/// One page covers up to 2000 rows, so with a filter it may be short or empty although there is more:
/// continue while `next_cursor` is not null.
///
/// For a change in a private channel that you are not in you see only the time and the member: its `metadata`
/// is `{"withheld": true}`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListAudit {
    /// The workspace. It must be yours.
    workspace_id: OwnWorkspaceId,
    /// Only rows with this action, such as `token.mint`.
    action: Option<Text<1, 100>>,
    cursor: Option<Cursor>,
    limit: Option<Limit>,
}

/// An action, and the member that did it.
#[derive(Debug, Serialize, JsonSchema)]
struct AuditRow {
    /// The row's number in the workspace's trail, counted from 1 without gaps.
    seq: i64,
    /// When it happened.
    at: Time,
    /// The action: `mutation`, or the name of the change.
    action: String,
    /// The member whose credential was used; null for the service itself.
    actor_id: Option<MemberId>,
    /// The member it acted as; the same except under delegation.
    subject_id: Option<MemberId>,
    /// The delegation grant; null except under delegation.
    grant_id: Option<GrantId>,
    /// The workspace.
    workspace_id: WorkspaceId,
    /// The details of the action; `{"withheld": true}` if you may not see them.
    #[schemars(with = "serde_json::Map<String, Json>")]
    metadata: Json,
}

/// The metadata of the row called `a`, whose channel is joined as `c`; null if the caller may not see it.
macro_rules! shown {
    () => {
        concat!(
            "case when ",
            $crate::conversation::visibility::visible_at!("a.channel_id", c),
            " then a.metadata end"
        )
    };
}
use shown;

columns! {
    audit_columns: AuditRow as a { seq, at, action, actor_id, subject_id, grant_id, workspace_id }
    read {
        // Hidden for a channel that the caller does not see, since it contains paths and ids.
        shown: Option<Json> = (shown!())
    }
    make { metadata: shown_or_withheld(shown) }
}

fn shown_or_withheld(metadata: Option<Json>) -> Json {
    metadata.unwrap_or_else(|| json!({"withheld": true}))
}

const LAST: &str = "select audit_seq from heads where workspace_id = $1";

/// Omits the metadata of changes in channels that the caller does not see, since it contains paths and ids.
const OF_WORKSPACE: &str = concat!(
    "select ",
    audit_columns!(),
    " from audit a left join channels c on c.id = a.channel_id
     where a.workspace_id = $5 and a.seq < $6 and a.seq >= $9 and (cast($7 as text) is null or a.action = $7)
     order by a.seq desc limit $8"
);

fn list_audit(cx: &Read<'_>, input: &ListAudit) -> Result<Page<AuditRow>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let last = cx.one::<(i64,)>(LAST, &[&workspace_id])?.map_or(0, |(seq,)| seq);
    let before = Cursor::before(input.cursor).min(last.saturating_add(1));
    let horizon = ScanHorizon::below(before);
    let rows = rows_to_read(input.limit);
    let visibility = cx.caller().visibility.params();
    let first = horizon.down_to();
    let params = visibility.and(&[&workspace_id, &before, &input.action, &rows, &first]);
    Ok(Page::within(horizon, cx.rows(OF_WORKSPACE, &params)?, input.limit, |row: &AuditRow| row.seq))
}
