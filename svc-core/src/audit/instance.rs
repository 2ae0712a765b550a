//! Reading the audit rows of the whole instance, newest first: those of every workspace, and those of the
//! instance itself.
//!
//! Row numbers are counted separately in each workspace's audit trail, so rows are ordered by time, then
//! workspace, then number. A row that is committed late is sorted by its time: a reader that has already
//! passed that time misses the row. A reader of one workspace's trail misses no row.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::{metadata_or_withheld, visible_metadata};
use crate::capability::Capability::AuditReadGlobal;
use crate::error::Result;
use crate::id::{GrantId, MemberId, WorkspaceId};
use crate::limits::PAGE_SCAN_MAX;
use crate::op::{Operation, Read, read};
use crate::page::{Cursor, Limit, Page, ScanHorizon, rows_to_read};
use crate::request::request;
use crate::store::columns;
use crate::text::Text;
use crate::time::Time;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        read("list_operator_audit", list_operator_audit)
            .title("List audit rows of the instance")
            .detailed()
            .get("/operator/audit")
            .needs(&[AuditReadGlobal])
            .rest_only()
            .example(|_| json!({"action": "workspace.create", "limit": 10})),
    ]
}

request! {
    /// Returns the audit rows of all workspaces, and those of the instance itself, newest first.
    ///
    /// The rows are ordered by time. A slow change may add a row with a time that you have already paged
    /// past; each workspace's `list_audit` returns every row. For a change in a private channel that you are
    /// not in, you see only the time and the member: `metadata` is `{"withheld": true}`.
    ///
    /// One page examines up to 2000 rows, so a page with a filter may be short or empty although more rows
    /// match: continue while `next_cursor` is not null.
    struct ListOperatorAudit {
        /// Only rows of this workspace; `00000000-0000-0000-0000-000000000000` for rows of the instance
        /// itself.
        workspace_id: Option<WorkspaceId>,
        /// Only actions performed with a credential of this member.
        actor_id: Option<MemberId>,
        /// Only rows with this action, such as `workspace.create`.
        action: Option<Text<1, 100>>,
        /// Only actions at this time or later.
        since: Option<Time>,
        cursor: Option<Cursor<RowPosition>>,
        limit: Option<Limit>,
    }

    list_operator_audit() -> Page<InstanceAuditRow, RowPosition>
}

/// Position of an audit row: its time, its workspace (the nil id for the instance itself), and its number in
/// that trail.
type RowPosition = (Time, WorkspaceId, i64);

/// An audit row, which records an action and the member who performed it.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct InstanceAuditRow {
    /// The row's number in the audit trail of its workspace, or of the instance, counted from 1 without gaps.
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
    /// The workspace of the action; null for actions on the instance, such as the creation of a workspace.
    pub workspace_id: Option<WorkspaceId>,
    /// The details of the action; `{"withheld": true}` if you may not see them.
    #[schemars(with = "serde_json::Map<String, Json>")]
    pub metadata: Json,
}

columns! {
    instance_audit_columns: InstanceAuditRow as a { seq, at, action, actor_id, subject_id, grant_id }
    read {
        trail: WorkspaceId = workspace_id,
        // Withheld for a channel that the caller cannot see, because the metadata contains paths and ids.
        details: Option<Json> = (visible_metadata!()),
    }
    make {
        workspace_id: (trail != WorkspaceId::INSTANCE).then_some(trail),
        metadata: metadata_or_withheld(details),
    }
}

impl InstanceAuditRow {
    fn position(&self) -> RowPosition {
        (self.at, self.workspace_id.unwrap_or(WorkspaceId::INSTANCE), self.seq)
    }
}

/// Selects the position of the last row that a page may examine: the row after skipping $7 rows.
const SELECT_HORIZON: &str = "select at, workspace_id, seq from audit
    where (at, workspace_id, seq) < ($1, $2, $3) and (at, workspace_id, seq) >= ($4, $5, $6)
    order by at desc, workspace_id desc, seq desc limit 1 offset $7";

const SELECT_ROWS: &str = concat!(
    "select ",
    instance_audit_columns!(),
    " from audit a left join channels c on c.id = a.channel_id
     where (a.at, a.workspace_id, a.seq) < ($5, $6, $7) and (a.at, a.workspace_id, a.seq) >= ($8, $9, $10)
       and (cast($11 as uuid) is null or a.workspace_id = $11)
       and (cast($12 as uuid) is null or a.actor_id = $12) and (cast($13 as text) is null or a.action = $13)
     order by a.at desc, a.workspace_id desc, a.seq desc limit $14"
);

fn list_operator_audit(
    cx: &Read<'_>,
    input: &ListOperatorAudit,
) -> Result<Page<InstanceAuditRow, RowPosition>> {
    // Every row has an earlier time than `newest`, and no row of the earliest time sorts before `oldest`.
    let newest = (Time::from_micros(i64::MAX), WorkspaceId::INSTANCE, 0);
    let (at, workspace, seq) = input.cursor.map_or(newest, |Cursor(place)| place);
    let oldest = (input.since.unwrap_or(Time::from_micros(i64::MIN)), WorkspaceId::INSTANCE, 0);
    let others = PAGE_SCAN_MAX.saturating_sub(1);
    let last: Option<RowPosition> =
        cx.one(SELECT_HORIZON, &[&at, &workspace, &seq, &oldest.0, &oldest.1, &oldest.2, &others])?;
    let down_to = last.unwrap_or(oldest);
    let visibility = cx.caller().visibility.params();
    let rows = cx.rows(
        SELECT_ROWS,
        &visibility.and(&[
            &at,
            &workspace,
            &seq,
            &down_to.0,
            &down_to.1,
            &down_to.2,
            &input.workspace_id,
            &input.actor_id,
            &input.action,
            &rows_to_read(input.limit),
        ]),
    )?;
    Ok(Page::within(ScanHorizon(last), rows, input.limit, InstanceAuditRow::position))
}
