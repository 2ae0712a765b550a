//! The workspace context: the open work of a member in a workspace.
//!
//! The context contains the member's claims, the next thread to claim, the threads that the member can
//! review, and the approval gates that the member may accept. Each list has a maximum length and a maximum
//! number of bytes.

use schemars::JsonSchema;
use serde::Serialize;
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
use crate::limits::{CONTEXT_SCAN_MAX, PAGE_BYTES, WORKSPACE_CONTEXT_MAX};
use crate::op::{Feature, Read, read};
use crate::page::within;
use crate::request::request;

/// Maximum bytes of each list in the workspace context. Only the last item of a list may exceed the limit.
const LIST_BYTES_MAX: usize = PAGE_BYTES / 4;

pub(crate) fn feature() -> Feature {
    Feature::new().operations(
        "workspaces",
        vec![
            read("get_workspace_context", get_workspace_context)
                .title("Read your work in a workspace")
                .when(
                    "Get your open work: your claims, the next thread to claim, reviews and approvals to \
                     decide. Use first in a session.",
                )
                .get("/workspaces/{workspace_id}/context")
                .needs(&[WorkspaceRead])
                .example(|w| json!({"workspace_id": w.id("workspace")})),
        ],
    )
}

/// The open work of a member in a workspace: claims, the next thread, reviews and approvals.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct WorkspaceContext {
    /// Threads on which you have a live claim: the oldest 20, found among the oldest 1000 threads assigned to
    /// you.
    pub claims: Vec<Thread>,
    /// The thread that `claim_next_workspace_thread` would claim for you; null if no thread is ready for you.
    pub next: Option<Thread>,
    /// Threads in review that lack your verdict and for which your approval would count: the oldest 20, found
    /// among the oldest 1000 threads in review.
    ///
    /// A thread is omitted if your last verdict requests changes or is an approval that counts, unless the
    /// thread received a result or was reopened after that verdict. `get_review_status` explains why an
    /// approval of yours does not count.
    pub reviews: Vec<Thread>,
    /// Pending approval gates that you may accept: the oldest 20, found among the oldest 2000 pending gates.
    pub approvals: Vec<ApprovalGate>,
}

request! {
    /// Returns your open work in a workspace: your claims, the next thread to claim, the threads to review
    /// and the approval gates to decide.
    ///
    /// Each list is limited, so more items may exist than are returned.
    struct GetWorkspaceContext {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
    }

    get_workspace_context() -> WorkspaceContext
}

fn get_workspace_context(cx: &Read<'_>, input: &GetWorkspaceContext) -> Result<WorkspaceContext> {
    input.workspace_id.of(cx)?;
    let claims = cx.caller().member.map(|member| claimed_threads(cx, member)).transpose()?;
    Ok(WorkspaceContext {
        claims: within(claims.unwrap_or_default(), LIST_BYTES_MAX)?,
        next: thread_reads::find_next_thread_for_caller(cx)?,
        reviews: within(reviews::threads_to_review(cx, WORKSPACE_CONTEXT_MAX)?, LIST_BYTES_MAX)?,
        approvals: within(approvals::gates_to_decide(cx, WORKSPACE_CONTEXT_MAX)?, LIST_BYTES_MAX)?,
    })
}

/// Returns the oldest threads that the member has claimed and that the caller may see.
fn claimed_threads(cx: &Read<'_>, member: MemberId) -> Result<Vec<Thread>> {
    let visibility = cx.caller().visibility.params();
    let workspace = cx.caller().workspace_id;
    let now = cx.now();
    let last = cx.horizon_within(CLAIM_HORIZON, &[&workspace, &member], 0, CONTEXT_SCAN_MAX)?.up_to();
    let params = visibility.and(&[&workspace, &member, &now, &WORKSPACE_CONTEXT_MAX, &last]);
    thread_row::select_first_threads(cx, CLAIMED_THREADS, &params)
}

/// Query that uses the index of claimed threads.
const CLAIMED_THREADS: &str = thread_select!(
    "join channels c on c.id = t.channel_id
     where t.workspace_id = $5 and t.assignee_id = $6 and t.assignment_expires_at > $7 and t.lsn <= $9 and ",
    visible!(c),
    " order by t.lsn limit $8"
);

const CLAIM_HORIZON: &str = "
    select lsn from threads where workspace_id = $1 and assignee_id = $2 and lsn > $3
    order by lsn limit 1 offset $4";
