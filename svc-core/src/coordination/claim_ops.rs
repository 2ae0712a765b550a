//! Operations that claim a thread: the next thread of a channel or of the workspace, or a thread by its id.
//!
//! One call is enough to start work: it can also acknowledge the claim and return the thread's context.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::Result;
use crate::capability::Capability::ThreadTransition;
use crate::conversation::visibility;
use crate::coordination::claims::{self, ClaimedThread, LeaseSecs, expire_lapsed_claims};
use crate::coordination::context::{self, ThreadContext};
use crate::coordination::footprint::{self, Repo};
use crate::coordination::obstacles::{self, BlockingConflict};
use crate::coordination::queue::{self, QueueRequest, QueueScope};
use crate::coordination::rules::check_claimable;
use crate::coordination::thread_row::{Thread, visible_thread};
use crate::error::Code;
use crate::id::{ChannelId, LeaseId, ThreadId};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::op::{Answer, Effect, Feature, Read, Write, WriteNeeds, changing, write};
use crate::request::{dereferences, request};
use crate::schema::{brief, default_is};

pub(crate) fn feature() -> Feature {
    Feature::new().operations(
        "claims",
        vec![
            changing("claim_next_thread", Effect::Write)
                .wants(|_| WriteNeeds::next_thread())
                .in_steps(claim_next_thread)
                .after(expire_lapsed_claims)
                .title("Claim a channel's next thread")
                .when(
                    "Claim the next thread to work on in one channel. Use `claim_next_workspace_thread` to \
                     search all channels. Returns `{}` if no thread can be claimed.",
                )
                .detailed()
                .post("/channels/{channel_id}/claim-next")
                .needs(&[ThreadTransition])
                .example(|w| json!({"channel_id": w.id("channel"), "lease_secs": 900, "acknowledge": true})),
            changing("claim_next_workspace_thread", Effect::Write)
                .wants(|_| WriteNeeds::next_thread())
                .in_steps(claim_next_workspace_thread)
                .after(expire_lapsed_claims)
                .title("Claim the workspace's next thread")
                .when(
                    "Claim the next thread to work on in any channel. Use `claim_thread` for a specific \
                     thread. Returns `{}` if no thread can be claimed: then call `wait_for_ready`.",
                )
                .detailed()
                .post("/workspaces/{workspace_id}/claim-next")
                .needs(&[ThreadTransition])
                .example(|w| {
                    json!({"workspace_id": w.id("workspace"), "lease_secs": 900, "acknowledge": true,
                       "include_context": true})
                }),
            write("claim_thread", claim_thread)
                .after(expire_lapsed_claims)
                .title("Claim a thread")
                .when(
                    "Claim a specific thread. Use `claim_next_workspace_thread` to let the service choose \
                     one.",
                )
                .detailed()
                .post("/threads/{thread_id}/claim")
                .needs(&[ThreadTransition])
                .refuses(&[Code::NotClaimable, Code::FootprintConflict, Code::BudgetExhausted])
                .example(|w| {
                    json!({"thread_id": w.id("thread"), "lease_secs": 900, "acknowledge": true,
                       "include_context": true})
                }),
        ],
    )
}

/// The options of a request for a claim.
#[derive(Clone, Copy)]
struct ClaimOptions {
    lease_secs: Option<LeaseSecs>,
    acknowledge: bool,
    include_context: bool,
    resume: bool,
}

/// A thread that the caller has claimed, with the thread's context if requested.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Taken")]
#[non_exhaustive]
pub struct ClaimWithContext {
    #[serde(flatten)]
    pub claimed: ClaimedThread,
    /// The context of the thread, as `get_thread_context` returns it; absent unless requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<ThreadContext>>,
}

dereferences! { ClaimWithContext => claimed: ClaimedThread }

impl<I> Answer<I> for ClaimWithContext {
    /// The ids of the claimed thread and of the lease, and whether the context was requested.
    type Kept = ((ThreadId, LeaseId), bool);
    const REFUSES: &'static [Code] = &[Code::StaleClaim];

    fn kept(&self) -> Option<Self::Kept> {
        Some((Answer::<I>::kept(&self.claimed)?, self.context.is_some()))
    }

    fn answer_repeat(cx: &Read<'_>, input: &I, (claimed, include_context): Self::Kept) -> Result<Self> {
        add_context(cx, ClaimedThread::answer_repeat(cx, input, claimed)?, include_context)
    }
}

/// The claimed thread, or `{}` if no thread can be claimed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "Next")]
#[non_exhaustive]
pub enum NextClaim {
    Thread(Box<ClaimWithContext>),
    Nothing {},
}

impl<I> Answer<I> for NextClaim {
    type Kept = <ClaimWithContext as Answer<I>>::Kept;
    const REFUSES: &'static [Code] = &[Code::StaleClaim];

    fn kept(&self) -> Option<Self::Kept> {
        match self {
            Self::Thread(taken) => Answer::<I>::kept(&**taken),
            Self::Nothing {} => None,
        }
    }

    fn answer_repeat(cx: &Read<'_>, input: &I, kept: Self::Kept) -> Result<Self> {
        ClaimWithContext::answer_repeat(cx, input, kept).map(|taken| Self::Thread(Box::new(taken)))
    }
}

request! {
    /// Claims the next ready thread of a channel, and returns the thread with its claim, or `{}` if no thread
    /// can be claimed.
    ///
    /// Pass the claim's `claim_lease_id` in your calls on the thread. Acknowledge the claim soon, and renew
    /// it before `assignment_expires_at`, or it lapses.
    ///
    /// The next thread is the one with the highest priority and, among equals, the oldest. It is open, waits
    /// for no thread, requires no skill that you lack, and its footprint has no conflict. `pin` refers to the
    /// event that created the claim.
    ///
    /// If the response was lost, call again with `resume` to get the claim that you already hold instead of a
    /// second thread.
    #[derive(Serialize)]
    struct ClaimNextThread {
        /// Id of the channel.
        channel_id: ChannelId,
        lease_secs: Option<LeaseSecs>,
        /// Only threads whose footprint is in this repository.
        repo: Option<Repo>,
        /// Whether to also acknowledge the claim.
        #[schemars(transform = brief("Also acknowledges the claim."), transform = default_is("false"))]
        #[serde(default)]
        acknowledge: bool,
        /// Whether to also return the result of `get_thread_context`.
        #[schemars(transform = brief("Also returns the context."), transform = default_is("false"))]
        #[serde(default)]
        include_context: bool,
        /// Whether to return a claim that you already hold, instead of claiming a thread.
        ///
        /// Returns your newest live claim in the channel, with its lease unchanged. With `repo`, only claims
        /// of that repository are considered. If you hold no such claim, the next thread is claimed.
        #[schemars(transform = brief("Returns a claim you already hold."), transform = default_is("false"))]
        #[serde(default)]
        resume: bool,
    }

    claim_next_thread(channel_id: ChannelId) -> NextClaim
}

fn claim_next_thread(cx: &mut Write<'_>, input: &ClaimNextThread) -> Result<Option<NextClaim>> {
    visibility::visible_channel(cx, input.channel_id)?;
    let ClaimNextThread { lease_secs, acknowledge, include_context, resume, .. } = *input;
    let options = ClaimOptions { lease_secs, acknowledge, include_context, resume };
    claim_next(cx, QueueScope::Channel(input.channel_id), options, input.repo.as_ref())
}

request! {
    /// Claims the next ready thread of the workspace, and returns the thread with its claim, or `{}` if no
    /// thread can be claimed.
    ///
    /// Pass the claim's `claim_lease_id` in your calls on the thread. Acknowledge the claim soon, and renew
    /// it before `assignment_expires_at`, or it lapses.
    ///
    /// The next thread is the one with the highest priority and, among equals, the oldest, in all channels
    /// that you may see. It is open, waits for no thread, requires no skill that you lack, and its footprint
    /// has no conflict. `resume` and the response are as in `claim_next_thread`.
    #[derive(Serialize)]
    struct ClaimNextWorkspaceThread {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
        lease_secs: Option<LeaseSecs>,
        /// Only threads whose footprint is in this repository.
        repo: Option<Repo>,
        /// Whether to also acknowledge the claim.
        #[schemars(transform = brief("Also acknowledges the claim."), transform = default_is("false"))]
        #[serde(default)]
        acknowledge: bool,
        /// Whether to also return the result of `get_thread_context`.
        #[schemars(transform = brief("Also returns the context."), transform = default_is("false"))]
        #[serde(default)]
        include_context: bool,
        /// Whether to return a claim that you already hold, instead of claiming a thread.
        ///
        /// Returns your newest live claim in the workspace, with its lease unchanged. With `repo`, only
        /// claims of that repository are considered. If you hold no such claim, the next thread is claimed.
        #[schemars(transform = brief("Returns a claim you already hold."), transform = default_is("false"))]
        #[serde(default)]
        resume: bool,
    }

    claim_next_workspace_thread() -> NextClaim
}

fn claim_next_workspace_thread(
    cx: &mut Write<'_>,
    input: &ClaimNextWorkspaceThread,
) -> Result<Option<NextClaim>> {
    input.workspace_id.of(cx)?;
    let ClaimNextWorkspaceThread { lease_secs, acknowledge, include_context, resume, .. } = *input;
    let options = ClaimOptions { lease_secs, acknowledge, include_context, resume };
    claim_next(cx, QueueScope::Workspace, options, input.repo.as_ref())
}

/// Claims the next thread for the caller, and parks the blocked threads that are found before it.
///
/// Returns `None` if another step must continue the search.
fn claim_next(
    cx: &mut Write<'_>,
    scope: QueueScope,
    options: ClaimOptions,
    repo: Option<&Repo>,
) -> Result<Option<NextClaim>> {
    let wanted = QueueRequest { scope, repo: repo.map(Repo::key) };
    if options.resume {
        let channel = if let QueueScope::Channel(channel) = scope { Some(channel) } else { None };
        if let Some(held) = claims::find_newest_claimed_thread(cx, channel, wanted.repo.as_ref())? {
            let thread = visible_thread(cx, held)?;
            return resume_claim(cx, thread, options).map(|taken| Some(NextClaim::Thread(Box::new(taken))));
        }
    }
    let mut parked: usize = 0;
    for _ in 0..CHECKED_MAX {
        let Some(found) = queue::first_ready_thread(cx, &wanted, &[])? else {
            return Ok(Some(NextClaim::Nothing {}));
        };
        if let Some(blocked) = find_conflict(cx, found.footprint)? {
            parked = parked.saturating_add(queue::park(cx, found.thread_id, &blocked)?);
            if parked >= PARKED_MAX {
                break;
            }
            continue;
        }
        let thread = visible_thread(cx, found.thread_id)?;
        return claim_unchecked(cx, thread, options).map(|taken| Some(NextClaim::Thread(Box::new(taken))));
    }
    Ok(None)
}

/// Maximum footprints that a claim checks in one step before other jobs can run.
const CHECKED_MAX: usize = 64;

/// Number of parked threads after which one step of a claim ends. Other jobs can then run.
const PARKED_MAX: usize = 1000;

/// Returns one conflict with a footprint, or `None` if nothing conflicts.
fn find_conflict(cx: &Read<'_>, footprint_id: i64) -> Result<Option<BlockingConflict>> {
    let Some(touched) = footprint::load(cx, footprint_id)? else { return Ok(None) };
    Ok(obstacles::conflicts_with(cx, &touched, None, 1)?.pop())
}

request! {
    /// Claims a specific thread, and returns the thread with its claim.
    ///
    /// Pass the claim's `claim_lease_id` in your calls on the thread. Acknowledge the claim soon, and renew
    /// it before `assignment_expires_at`, or it lapses.
    ///
    /// `pin` refers to the event that created the claim.
    ///
    /// Fails with 409 `not-claimable` with a `reason` if the thread has a live claim (`claimed`; without
    /// `resume` your own too), is not open (`state`), has a result (`has-result`) or a dead letter
    /// (`dead-letter`), waits for another thread (`blocked`), requires skills that you lack
    /// (`missing-skills`) or is in an archived channel (`channel-archived`); 409 `footprint-conflict` with
    /// `conflicts` if its footprint overlaps that of a live claim, its repository is paused or one of its
    /// slots is full; 409 `budget-exhausted` with `exceeded` if a limit of its budget is used up.
    #[derive(Serialize)]
    struct ClaimThread {
        /// Id of the thread.
        thread_id: ThreadId,
        lease_secs: Option<LeaseSecs>,
        /// Whether to also acknowledge the claim.
        #[schemars(transform = brief("Also acknowledges the claim."), transform = default_is("false"))]
        #[serde(default)]
        acknowledge: bool,
        /// Whether to also return the result of `get_thread_context`.
        #[schemars(transform = brief("Also returns the context."), transform = default_is("false"))]
        #[serde(default)]
        include_context: bool,
        /// Whether to return a claim that you already hold, instead of claiming a thread.
        ///
        /// The lease of that claim stays unchanged.
        #[schemars(transform = brief("Returns a claim you already hold."), transform = default_is("false"))]
        #[serde(default)]
        resume: bool,
    }

    claim_thread(thread_id: ThreadId) -> ClaimWithContext
}

fn claim_thread(cx: &mut Write<'_>, input: &ClaimThread) -> Result<ClaimWithContext> {
    let thread = visible_thread(cx, input.thread_id)?;
    let ClaimThread { lease_secs, acknowledge, include_context, resume, .. } = *input;
    let options = ClaimOptions { lease_secs, acknowledge, include_context, resume };
    if resume && thread.assignee_id == Some(cx.caller().member_id()?) {
        return resume_claim(cx, thread, options);
    }
    check_claimable(cx, &thread)?;
    claim_unchecked(cx, thread, options)
}

/// Claims a thread for the caller, without checking the rules for claims.
fn claim_unchecked(cx: &mut Write<'_>, thread: Thread, options: ClaimOptions) -> Result<ClaimWithContext> {
    let holder = cx.caller().member_id()?;
    let mut claimed = claims::begin(cx, thread, holder, options.lease_secs)?;
    if let Some(held) = claimed.thread.held.filter(|_| options.acknowledge) {
        claims::acknowledge(cx, &mut claimed.thread, held)?;
    }
    add_context(cx, claimed, options.include_context)
}

/// Returns the live claim that the caller already holds on a thread, with the lease unchanged.
fn resume_claim(cx: &mut Write<'_>, mut thread: Thread, options: ClaimOptions) -> Result<ClaimWithContext> {
    if let Some(held) = thread.held.filter(|_| options.acknowledge && thread.acknowledged_at.is_none()) {
        claims::acknowledge(cx, &mut thread, held)?;
    }
    let claimed = claims::load_claimed_thread(cx, thread)?;
    add_context(cx, claimed, options.include_context)
}

/// Returns a claimed thread, with the thread's context if requested.
fn add_context(cx: &Read<'_>, claimed: ClaimedThread, include_context: bool) -> Result<ClaimWithContext> {
    let context = match include_context {
        true => Some(Box::new(context::load_context(cx, claimed.thread.clone(), None, false)?)),
        false => None,
    };
    Ok(ClaimWithContext { claimed, context })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_an_empty_object() {
        assert_eq!(serde_json::to_value(NextClaim::Nothing {}).unwrap(), json!({}));
    }
}
