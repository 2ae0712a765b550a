//! The context of a workspace: what a member has to do there.
//!
//! It is what the member works on, what it could take up next, and what waits for its judgement, each only
//! up to a number.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Result;
use crate::capability::Capability::{ThreadTransition, WorkspaceRead};
use crate::conversation::places::visible;
use crate::coordination::thread::{self, Thread, thread_select};
use crate::coordination::views;
use crate::gates::approvals::{self, ApprovalGate};
use crate::gates::judges::Judge;
use crate::id::{MemberId, WorkspaceId};
use crate::identity::{members, workspaces};
use crate::limits::WORKSPACE_CONTEXT_MAX;
use crate::op::{Feature, Read, read};

pub(crate) fn feature() -> Feature {
    Feature::new().operations(
        "workspaces",
        vec![
            read("get_workspace_context", get_workspace_context)
                .title("Read what you have to do in a workspace")
                .get("/workspaces/{workspace_id}/context")
                .needs(&[WorkspaceRead])
                .example(|w| json!({"workspace_id": w.id("workspace")})),
        ],
    )
}

/// What a member has to do in a workspace.
#[derive(Serialize, JsonSchema)]
struct WorkspaceContext {
    /// The first 20 threads whose live claim you hold, in the order in which they were created.
    claims: Vec<Thread>,
    /// The thread that `claim_next_workspace_thread` would give you; null if there is none.
    next: Option<Thread>,
    /// The first 20 threads in review that your approval would count for and that you have not judged since
    /// their last result, among the oldest 2000 in review.
    reviews: Vec<Thread>,
    /// The first 20 approval gates that you could accept.
    approvals: Vec<ApprovalGate>,
}

/// Returns what you have to do in a workspace: your claims, what you could claim, and what you should judge.
///
/// Each list is short: there may be more.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetWorkspaceContext {
    /// The workspace. It must be yours.
    workspace_id: WorkspaceId,
}

fn get_workspace_context(cx: &Read<'_>, input: &GetWorkspaceContext) -> Result<WorkspaceContext> {
    workspaces::own_workspace(cx, input.workspace_id)?;
    let (claims, reviews) = match cx.caller().member {
        Some(member) => (claims_of(cx, member)?, to_review(cx)?),
        None => (Vec::new(), Vec::new()),
    };
    Ok(WorkspaceContext {
        claims,
        next: views::next_for_caller(cx)?,
        reviews,
        approvals: approvals::awaiting(cx, WORKSPACE_CONTEXT_MAX)?,
    })
}

fn claims_of(cx: &Read<'_>, member: MemberId) -> Result<Vec<Thread>> {
    let (sight, workspace, now) = (cx.caller().sight.params(), cx.caller().workspace_id, cx.now());
    let claims =
        thread::select(cx, CLAIMS, &sight.and(&[&workspace, &member, &now, &WORKSPACE_CONTEXT_MAX]))?;
    Ok(claims.into_vec())
}

/// By the index of claimed threads.
const CLAIMS: &str = thread_select!(
    "join channels c on c.id = t.channel_id
     where t.workspace_id = $5 and t.assignee_id = $6 and t.assignment_expires_at > $7 and ",
    visible!(c),
    " order by t.lsn limit $8"
);

/// Returns threads in review that the caller may judge and has not yet judged.
fn to_review(cx: &Read<'_>) -> Result<Vec<Thread>> {
    let caller = cx.caller();
    if !caller.capabilities.has(ThreadTransition) {
        return Ok(Vec::new());
    }
    let (workspace, Judge { member, actor }) = (caller.workspace_id, Judge::of(caller)?);
    let may_review_any = members::skills_of(cx, member)?.iter().any(|skill| skill == members::REVIEW);
    let last = cx.horizon(HORIZON, &[&workspace], 0)?.up_to();
    let params = caller.sight.params();
    let params = params.and(&[&workspace, &member, &actor, &may_review_any, &last, &WORKSPACE_CONTEXT_MAX]);
    Ok(thread::select(cx, TO_REVIEW, &params)?.into_vec())
}

/// By the index of threads in review.
const TO_REVIEW: &str = thread_select!(
    "join channels c on c.id = t.channel_id
     where t.workspace_id = $5 and t.state = 'in_review' and t.lsn <= $9
         and (t.owner_id is null or t.owner_id not in ($6, $7))
         and not exists (
             select 1 from thread_workers w where w.thread_id = t.id and w.member_id in ($6, $7))
         and ($8 or exists (select 1 from reviewers r where r.thread_id = t.id and r.member_id = $6))
         and not exists (
             select 1 from reviews r
             where r.thread_id = t.id and r.member_id = $6 and r.verdict <> 'comment'
                 and r.lsn >= t.judged_from)
         and ",
    visible!(c),
    " order by t.lsn limit $10"
);

const HORIZON: &str = "
    select lsn from threads where workspace_id = $1 and state = 'in_review' and lsn > $2
    order by lsn limit 1 offset $3";
