//! The operation that lists the live claims of a workspace.

use serde_json::json;

use super::holder_ops::{Claim, claim_columns};
use crate::Result;
use crate::capability::Capability::WorkspaceRead;
use crate::conversation::visibility::visible;
use crate::coordination::footprint::{Repo, RepoKey};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::op::{Operation, Read, read};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::request;
use crate::store::ToParam;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        read("list_active_claims", list_active_claims)
            .title("List the live claims of a workspace")
            .when(
                "List the live claims of the workspace, with thread, holder and end. Use `get_claim` for one \
                 thread.",
            )
            .detailed()
            .get("/workspaces/{workspace_id}/claims")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"workspace_id": w.id("workspace"), "limit": 10})),
    ]
}

request! {
    /// Returns the live claims on threads that you may see, with the holder and the lease end of each claim.
    ///
    /// Claims are ordered by the creation of their threads.
    ///
    /// Each page examines up to 2000 claims, so it may be short or empty although more follow: continue while
    /// `next_cursor` is not null.
    struct ListActiveClaims {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
        /// Only claims on threads whose footprint is in this repository: `owner/name` or a clone URL.
        repo: Option<Repo>,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_active_claims() -> Page<Claim>
}

fn list_active_claims(cx: &Read<'_>, input: &ListActiveClaims) -> Result<Page<Claim>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let after = Cursor::after(input.cursor);
    let rows = rows_to_read(input.limit);
    let horizon = cx.horizon(HORIZON, &[&workspace_id], after)?;
    let visibility = cx.caller().visibility.params();
    let now = cx.now();
    let last = horizon.up_to();
    let repo: Option<RepoKey> = input.repo.as_ref().map(Repo::key);
    let params: [&dyn ToParam; 6] = [&workspace_id, &now, &after, &rows, &last, &repo];
    let claims = cx.rows(ACTIVE, &visibility.and(&params))?;
    Ok(Page::within(horizon, claims, input.limit, |claim: &Claim| claim.lsn))
}

/// Selects live claims by the index of claimed threads, which has the order of the list.
const ACTIVE: &str = concat!(
    "select ",
    claim_columns!(),
    " from threads t join channels c on c.id = t.channel_id
     where t.workspace_id = $5 and t.assignee_id is not null and t.assignment_expires_at > $6
         and t.lsn > $7 and t.lsn <= $9 and (cast($10 as text) is null or exists (
             select 1 from footprints f
             where f.workspace_id = t.workspace_id and f.id = t.footprint and f.repo_key = $10)) and ",
    visible!(c),
    " order by t.lsn limit $8"
);

const HORIZON: &str = "
    select lsn from threads where workspace_id = $1 and assignee_id is not null and lsn > $2
    order by lsn limit 1 offset $3";
