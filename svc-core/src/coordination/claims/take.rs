//! Claiming threads: the next one of a channel or of the workspace, one by its id.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::Result;
use crate::capability::Capability::ThreadTransition;
use crate::conversation::places;
use crate::coordination::claims::{Claimed, ClaimedThread, LeaseSecs, begin, expire_lapsed, expire_some};
use crate::coordination::footprint::{self, Repo};
use crate::coordination::obstacles::{self, Blocked};
use crate::coordination::queue::{self, Scope, Wanted};
use crate::coordination::rules::check_claimable;
use crate::coordination::thread::visible_thread;
use crate::error::Code;
use crate::id::{ChannelId, ThreadId, WorkspaceId};
use crate::identity::workspaces;
use crate::op::{Operation, Read, Write, write, write_in_steps};

pub(in crate::coordination) fn operations() -> Vec<Operation> {
    vec![
        write_in_steps("claim_next_thread", claim_next_thread)
            .title("Claim a channel's next thread")
            .post("/channels/{channel_id}/claim-next")
            .needs(&[ThreadTransition])
            .example(|w| json!({"channel_id": w.id("channel"), "lease_secs": 900})),
        write_in_steps("claim_next_workspace_thread", claim_next_workspace_thread)
            .title("Claim the workspace's next thread")
            .post("/workspaces/{workspace_id}/claim-next")
            .needs(&[ThreadTransition])
            .example(|w| json!({"workspace_id": w.id("workspace"), "lease_secs": 900})),
        write("claim_thread", claim_thread)
            .title("Claim a thread")
            .post("/threads/{thread_id}/claim")
            .needs(&[ThreadTransition])
            .refuses(&[Code::NotClaimable, Code::FootprintConflict, Code::BudgetExhausted])
            .example(|w| json!({"thread_id": w.id("thread"), "lease_secs": 900})),
    ]
}

/// Claims the next thread of a channel and returns it with its claim, or `{}` if there is nothing to claim.
///
/// The next thread is the oldest of the most urgent ones that are open, wait for nothing, require no skill
/// that you lack and whose footprint conflicts with nothing. Name its `claim_lease_id` in what you do with
/// the thread; `pin` refers to the event that made the claim. Acknowledge the claim soon, and renew it before
/// `assignment_expires_at`, or it lapses.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClaimNextThread {
    /// The channel.
    channel_id: ChannelId,
    lease_secs: Option<LeaseSecs>,
    /// Only a thread whose footprint names this repository, as `owner/name`.
    repo: Option<Repo>,
}

fn claim_next_thread(cx: &mut Write<'_>, input: &ClaimNextThread) -> Result<Option<Claimed>> {
    places::visible_channel(cx, input.channel_id)?;
    claim_next(cx, Scope::Channel(input.channel_id), input.lease_secs, input.repo.as_ref())
}

/// Claims the next thread of the workspace and returns it with its claim, or `{}` if there is none.
///
/// The next thread is the oldest of the most urgent ones, in all channels that you may see, that are open,
/// wait for nothing, require no skill that you lack and whose footprint conflicts with nothing. It is
/// returned as by `claim_next_thread`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClaimNextWorkspaceThread {
    /// The workspace. It must be yours.
    workspace_id: WorkspaceId,
    lease_secs: Option<LeaseSecs>,
    /// Only a thread whose footprint names this repository, as `owner/name`.
    repo: Option<Repo>,
}

fn claim_next_workspace_thread(
    cx: &mut Write<'_>,
    input: &ClaimNextWorkspaceThread,
) -> Result<Option<Claimed>> {
    workspaces::own_workspace(cx, input.workspace_id)?;
    claim_next(cx, Scope::Workspace, input.lease_secs, input.repo.as_ref())
}

/// Claims the next thread. None if there is more to look through, after what was found has been parked.
fn claim_next(
    cx: &mut Write<'_>,
    scope: Scope,
    lease: Option<LeaseSecs>,
    repo: Option<&Repo>,
) -> Result<Option<Claimed>> {
    // Once is enough, unless very many have lapsed: then others have their turn.
    if expire_some(cx)? && expire_some(cx)? {
        return Ok(None);
    }
    let wanted = Wanted { scope, repo: repo.map(Repo::key) };
    let mut parked: usize = 0;
    for _ in 0..CHECKED_MAX {
        let Some(found) = queue::first(cx, &wanted, &[])? else { return Ok(Some(Claimed::Nothing {})) };
        if let Some(blocked) = first_obstacle(cx, found.footprint)? {
            parked = parked.saturating_add(queue::park(cx, found.thread_id, &blocked)?);
            if parked >= PARKED_MAX {
                break;
            }
            continue;
        }
        let thread = visible_thread(cx, found.thread_id)?;
        let holder = cx.caller().member_id()?;
        return begin(cx, thread, holder, lease).map(|claimed| Some(Claimed::Thread(Box::new(claimed))));
    }
    Ok(None)
}

/// Most footprints that a claim looks at before others have their turn.
const CHECKED_MAX: usize = 64;

/// So many threads at least it has parked then.
const PARKED_MAX: usize = 1000;

/// Returns something that is in the way of a footprint.
fn first_obstacle(cx: &Read<'_>, footprint: i64) -> Result<Option<Blocked>> {
    let Some(touched) = footprint::load(cx, footprint)? else { return Ok(None) };
    Ok(obstacles::in_the_way(cx, &touched, None, 1)?.pop())
}

/// Claims a thread and returns it with its claim.
///
/// Name its `claim_lease_id` in what you do with the thread; `pin` refers to the event that made the claim.
///
/// Fails with 409 `not-claimable` with a `reason` if the thread has a live claim, even your own (`claimed`),
/// is not open (`state`), has a result (`has-result`) or a dead letter (`dead-letter`), waits for another
/// thread (`blocked`), requires skills that you lack (`missing-skills`) or is in an archived channel
/// (`channel-archived`); 409 `footprint-conflict` with `conflicts` if its footprint overlaps that of a live
/// claim, its repository is paused or one of its slots is full; 409 `budget-exhausted` with `exceeded` if
/// nothing is left of a limit of its budget.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClaimThread {
    /// The thread.
    thread_id: ThreadId,
    lease_secs: Option<LeaseSecs>,
}

fn claim_thread(cx: &mut Write<'_>, input: &ClaimThread) -> Result<ClaimedThread> {
    expire_lapsed(cx)?;
    let thread = visible_thread(cx, input.thread_id)?;
    check_claimable(cx, &thread)?;
    let caller = cx.caller().member_id()?;
    begin(cx, thread, caller, input.lease_secs)
}
