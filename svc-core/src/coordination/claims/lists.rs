//! Looking over the claims of a workspace.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::hold::Claim;
use super::next::Repo;
use crate::Result;
use crate::capability::Capability::WorkspaceRead;
use crate::id::WorkspaceId;
use crate::identity::workspaces;
use crate::op::{Operation, Read, read};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::store::{FromRow, Row};

pub(super) fn operations() -> Vec<Operation> {
    vec![
        read("list_active_claims", list_active_claims)
            .title("List the live claims of a workspace")
            .get("/workspaces/{workspace_id}/claims")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"workspace_id": w.workspace_id, "limit": 10})),
    ]
}

/// Lists the live claims on threads that you may see: who works on what, and until when. In the order in which the
/// threads were created.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListActiveClaims {
    /// The workspace.
    workspace_id: WorkspaceId,
    /// Only claims on threads whose footprint names this repository, as `owner/name`.
    repo: Option<Repo>,
    /// Where to read on: the `next_cursor` of the page before.
    cursor: Option<Cursor>,
    /// The most rows to answer; 50 unless given.
    limit: Option<Limit>,
}

/// A claim with the place of its thread in the list.
struct Listed {
    claim: Claim,
    lsn: i64,
}

impl FromRow for Listed {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self { claim: Claim::from_row(row)?, lsn: row.take()? })
    }
}

fn list_active_claims(cx: &Read<'_>, input: &ListActiveClaims) -> Result<Page<Claim>> {
    workspaces::own_workspace(cx, input.workspace_id)?;
    // No thread has a footprint: there is no operation that sets it. So none names this repository.
    if input.repo.is_some() {
        return Ok(Page { items: Vec::new(), next_cursor: None });
    }
    let (after, rows) = (Cursor::after(input.cursor), rows_to_read(input.limit));
    let listed: Vec<Listed> =
        cx.query(ACTIVE, &[&input.workspace_id, &cx.now(), &after, &cx.caller().member_id, &rows])?;
    let page = Page::of(listed, input.limit, |row| row.lsn);
    Ok(Page { items: page.items.into_iter().map(|row| row.claim).collect(), next_cursor: page.next_cursor })
}

/// Claims are found by the index of claimed threads and then put in order; the sign keeps a planner from walking
/// over all threads of the workspace because they are in that order already.
const ACTIVE: &str = "
    select t.id, t.channel_id, t.title, t.assignee_id, t.claim_lease_id, t.assignment_expires_at, t.acknowledged_at,
        t.lsn
    from threads t join channels c on c.id = t.channel_id
    where t.workspace_id = $1 and t.assignee_id is not null and t.assignment_expires_at > $2 and +t.lsn > $3
        and (not c.private or exists (
            select 1 from channel_members m where m.channel_id = c.id and m.member_id = $4))
    order by +t.lsn limit $5";
