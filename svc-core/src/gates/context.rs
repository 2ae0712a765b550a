//! The workspace context: a member's open work in a workspace.
//!
//! The context contains the member's claims, the next thread to claim, and the threads and approval gates
//! that wait for the member's judgement. Each list has a maximum length and a share of a page's bytes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Result;
use crate::capability::Capability::WorkspaceRead;
use crate::conversation::visibility::visible;
use crate::coordination::thread_reads;
use crate::coordination::thread_row::{self, Thread, thread_select};
use crate::gates::approvals::{self, ApprovalGate};
use crate::gates::reviews;
use crate::id::MemberId;
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::{AWAITED_SCAN_MAX, PAGE_BYTES, WORKSPACE_CONTEXT_MAX};
use crate::op::{Feature, Read, read};
use crate::page::within;

/// Maximum bytes of one list in the workspace context. The last item may exceed it.
const LIST_BYTES: usize = PAGE_BYTES / 4;

pub(crate) fn feature() -> Feature {
    Feature::new().operations(
        "workspaces",
        vec![
            read("get_workspace_context", get_workspace_context)
                .title("Read your work in a workspace")
                .when(
                    "Get your open work: your claims, the next thread to claim, reviews and approvals to \
                     decide. Use first when you arrive.",
                )
                .get("/workspaces/{workspace_id}/context")
                .needs(&[WorkspaceRead])
                .example(|w| json!({"workspace_id": w.id("workspace")})),
        ],
    )
}

/// The open work of a member in a workspace.
#[derive(Serialize, JsonSchema)]
struct WorkspaceContext {
    /// The first 20 threads on which you hold a live claim, oldest first, among the oldest 1000 that you
    /// claimed.
    claims: Vec<Thread>,
    /// The thread that `claim_next_workspace_thread` would claim for you; null if there is none.
    next: Option<Thread>,
    /// The first 20 threads in review, among the oldest 1000, that lack a verdict of yours and for which your
    /// approval would count.
    ///
    /// A thread is omitted if your last verdict on it requests changes, or approves and counts, and is newer
    /// than the last result and reopening. `get_review_status` explains why an approval of yours does not
    /// count.
    reviews: Vec<Thread>,
    /// The first 20 pending approval gates that you may accept.
    approvals: Vec<ApprovalGate>,
}

/// Returns your open work in a workspace: your claims, the next thread to claim, and the work to judge.
///
/// Each list is limited, so there may be more.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetWorkspaceContext {
    /// The workspace. It must be yours.
    workspace_id: OwnWorkspaceId,
}

fn get_workspace_context(cx: &Read<'_>, input: &GetWorkspaceContext) -> Result<WorkspaceContext> {
    input.workspace_id.of(cx)?;
    let claims = cx.caller().member.map(|member| claims_of(cx, member)).transpose()?;
    Ok(WorkspaceContext {
        claims: within(claims.unwrap_or_default(), LIST_BYTES)?,
        next: thread_reads::next_for_caller(cx)?,
        reviews: within(reviews::awaiting(cx, WORKSPACE_CONTEXT_MAX)?, LIST_BYTES)?,
        approvals: within(approvals::awaiting(cx, WORKSPACE_CONTEXT_MAX)?, LIST_BYTES)?,
    })
}

fn claims_of(cx: &Read<'_>, member: MemberId) -> Result<Vec<Thread>> {
    let visibility = cx.caller().visibility.params();
    let workspace = cx.caller().workspace_id;
    let now = cx.now();
    let last = cx.horizon_within(HORIZON_OF_CLAIMS, &[&workspace, &member], 0, AWAITED_SCAN_MAX)?.up_to();
    let params = visibility.and(&[&workspace, &member, &now, &WORKSPACE_CONTEXT_MAX, &last]);
    thread_row::select_first(cx, CLAIMS, &params)
}

/// Reads by the index of claimed threads.
const CLAIMS: &str = thread_select!(
    "join channels c on c.id = t.channel_id
     where t.workspace_id = $5 and t.assignee_id = $6 and t.assignment_expires_at > $7 and t.lsn <= $9 and ",
    visible!(c),
    " order by t.lsn limit $8"
);

const HORIZON_OF_CLAIMS: &str = "
    select lsn from threads where workspace_id = $1 and assignee_id = $2 and lsn > $3
    order by lsn limit 1 offset $4";
