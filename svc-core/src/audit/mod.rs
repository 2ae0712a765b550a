//! The audit trail: a workspace reads its own rows, and the operator reads the rows of all workspaces.
//!
//! - `instance`: reads the rows of all workspaces, and the rows of the instance itself
//! - `state`: compares the tables of a workspace with its log
//!
//! The pipeline writes the rows `mutation` and `authorization.decision`, and the rows of audited reads.
//! Functions of operations write the other named rows. This module writes no rows.

pub(crate) mod instance;
pub(crate) mod state;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::capability::Capability::WorkspaceRead;
use crate::error::Result;
use crate::id::{GrantId, MemberId, WorkspaceId};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::op::{Feature, Read, Records, read};
use crate::page::{Cursor, Limit, Page, ScanHorizon, rows_to_read};
use crate::request::request;
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
                        "List the workspace's audit rows, which record its changes, newest first. Use \
                         `list_events` for the resulting events.",
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

request! {
    /// Returns the audit rows of a workspace, newest first.
    ///
    /// The rows record who changed what, and which requests were made or rejected with delegated tokens. A
    /// change that has no specific action name is recorded with the action `mutation`, and `metadata`
    /// contains the surface, operation, path and status of the request.
    ///
    /// One page examines up to 2000 rows, so a page with a filter may be short or empty although more rows
    /// match: continue while `next_cursor` is not null.
    ///
    /// For a change in a private channel that you are not in, you see only the time and the member:
    /// `metadata` is `{"withheld": true}`.
    struct ListAudit {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// Only rows with this action, such as `token.mint`.
        action: Option<Text<1, 100>>,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_audit() -> Page<AuditRow>
}

/// An audit row, which records an action and the member who performed it.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct AuditRow {
    /// The row's number in the workspace's trail, counted from 1 without gaps.
    pub seq: i64,
    /// When the action happened.
    pub at: Time,
    /// The action's name; `mutation` for a change without a specific name.
    pub action: String,
    /// The member whose credential was used; null for the service itself.
    pub actor_id: Option<MemberId>,
    /// The member that the credential acted as; the same as `actor_id` except under delegation.
    pub subject_id: Option<MemberId>,
    /// The delegation grant under which the member acted; null except under delegation.
    pub grant_id: Option<GrantId>,
    /// The workspace whose trail contains the row.
    pub workspace_id: WorkspaceId,
    /// The details of the action; `{"withheld": true}` if you may not see them.
    #[schemars(with = "serde_json::Map<String, Json>")]
    pub metadata: Json,
}

/// SQL for the metadata of the audit row `a`, whose channel is joined as `c`; null if the caller may not see
/// that channel.
macro_rules! visible_metadata {
    () => {
        concat!(
            "case when ",
            $crate::conversation::visibility::visible_at!("a.channel_id", c),
            " then a.metadata end"
        )
    };
}
use visible_metadata;

columns! {
    audit_columns: AuditRow as a { seq, at, action, actor_id, subject_id, grant_id, workspace_id }
    read {
        // Withheld for a channel that the caller cannot see, because the metadata contains paths and ids.
        details: Option<Json> = (visible_metadata!())
    }
    make { metadata: metadata_or_withheld(details) }
}

/// Returns the metadata, or a note that the caller may not see it.
fn metadata_or_withheld(metadata: Option<Json>) -> Json {
    metadata.unwrap_or_else(|| json!({"withheld": true}))
}

const SELECT_LAST_SEQ: &str = "select audit_seq from heads where workspace_id = $1";

/// Selects the audit rows of a workspace, without the metadata of changes in channels that the caller cannot
/// see, because it contains paths and ids.
const SELECT_WORKSPACE_ROWS: &str = concat!(
    "select ",
    audit_columns!(),
    " from audit a left join channels c on c.id = a.channel_id
     where a.workspace_id = $5 and a.seq < $6 and a.seq >= $9 and (cast($7 as text) is null or a.action = $7)
     order by a.seq desc limit $8"
);

fn list_audit(cx: &Read<'_>, input: &ListAudit) -> Result<Page<AuditRow>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let last = cx.one::<(i64,)>(SELECT_LAST_SEQ, &[&workspace_id])?.map_or(0, |(seq,)| seq);
    let before = Cursor::before(input.cursor).min(last.saturating_add(1));
    let horizon = ScanHorizon::below(before);
    let rows = rows_to_read(input.limit);
    let visibility = cx.caller().visibility.params();
    let first = horizon.down_to();
    let params = visibility.and(&[&workspace_id, &before, &input.action, &rows, &first]);
    Ok(Page::within(horizon, cx.rows(SELECT_WORKSPACE_ROWS, &params)?, input.limit, |row: &AuditRow| row.seq))
}
