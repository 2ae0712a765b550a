//! Claiming threads: the next one of a channel or of the workspace, one by its id.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::Result;
use crate::capability::Capability::ThreadTransition;
use crate::conversation::places;
use crate::coordination::claims::{Claimed, ClaimedThread, LeaseSecs, begin, expire, has_lapsed, live};
use crate::coordination::queue::{self, Scope};
use crate::coordination::thread::{Thread, ThreadState, visible_thread};
use crate::error::{Code, Error};
use crate::id::{ChannelId, MemberId, ThreadId, WorkspaceId};
use crate::identity::{members, workspaces};
use crate::limits::REPO_MAX;
use crate::op::{Operation, Write, write};
use crate::text::Text;
use crate::time::Time;

pub(in crate::coordination) fn operations() -> Vec<Operation> {
    vec![
        write("claim_next_thread", claim_next_thread)
            .title("Claim a channel's next thread")
            .post("/channels/{channel_id}/claim-next")
            .needs(&[ThreadTransition])
            .example(|w| json!({"channel_id": w.id("channel"), "lease_secs": 900})),
        write("claim_next_workspace_thread", claim_next_workspace_thread)
            .title("Claim the workspace's next thread")
            .post("/workspaces/{workspace_id}/claim-next")
            .needs(&[ThreadTransition])
            .example(|w| json!({"workspace_id": w.id("workspace"), "lease_secs": 900})),
        write("claim_thread", claim_thread)
            .title("Claim a thread")
            .post("/threads/{thread_id}/claim")
            .needs(&[ThreadTransition])
            .refuses(&[Code::NotClaimable])
            .example(|w| json!({"thread_id": w.id("thread"), "lease_secs": 900})),
    ]
}

pub(in crate::coordination) type Repo = Text<1, REPO_MAX>;

/// Claims the next thread of a channel and returns it with its claim, or `{}` if there is nothing to claim.
///
/// The next thread is the oldest of the most urgent ones that are open, wait for nothing and require no skill
/// that you lack. Name its `claim_lease_id` in what you do with the thread; `pin` refers to the event that
/// made the claim. Acknowledge the claim soon, and renew it before `assignment_expires_at`, or it lapses.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClaimNextThread {
    /// The channel.
    channel_id: ChannelId,
    lease_secs: Option<LeaseSecs>,
    /// Only a thread whose footprint names this repository, as `owner/name`.
    repo: Option<Repo>,
}

fn claim_next_thread(cx: &mut Write<'_>, input: &ClaimNextThread) -> Result<Claimed> {
    places::visible_channel(cx, input.channel_id)?;
    claim_next(cx, Scope::Channel(input.channel_id), input.lease_secs, input.repo.as_ref())
}

/// Claims the next thread of the workspace and returns it with its claim, or `{}` if there is none.
///
/// The next thread is the oldest of the most urgent ones, in all channels that you may see, that are open,
/// wait for nothing and require no skill that you lack. It is returned as by `claim_next_thread`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClaimNextWorkspaceThread {
    /// The workspace. It must be yours.
    workspace_id: WorkspaceId,
    lease_secs: Option<LeaseSecs>,
    /// Only a thread whose footprint names this repository, as `owner/name`.
    repo: Option<Repo>,
}

fn claim_next_workspace_thread(cx: &mut Write<'_>, input: &ClaimNextWorkspaceThread) -> Result<Claimed> {
    workspaces::own_workspace(cx, input.workspace_id)?;
    claim_next(cx, Scope::Workspace, input.lease_secs, input.repo.as_ref())
}

fn claim_next(
    cx: &mut Write<'_>,
    scope: Scope,
    lease: Option<LeaseSecs>,
    repo: Option<&Repo>,
) -> Result<Claimed> {
    // A thread without a footprint is never given to a caller that names a repository, and no operation sets
    // a footprint yet.
    if repo.is_some() {
        return Ok(Claimed::Nothing {});
    }
    let Some((thread_id, _)) = queue::next(cx, scope)? else { return Ok(Claimed::Nothing {}) };
    let thread = visible_thread(cx, thread_id)?;
    let holder = cx.caller().member_id()?;
    Ok(Claimed::Thread(Box::new(begin(cx, thread, holder, lease)?)))
}

/// Claims a thread and returns it with its claim.
///
/// Name its `claim_lease_id` in what you do with the thread; `pin` refers to the event that made the claim.
///
/// Fails with 409 `not-claimable` with a `reason` if the thread has a live claim, even your own (`claimed`),
/// is not open (`state`), waits for another thread (`blocked`), has a result (`has-result`), requires skills
/// that you lack (`missing-skills`) or is in an archived channel (`channel-archived`).
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClaimThread {
    /// The thread.
    thread_id: ThreadId,
    lease_secs: Option<LeaseSecs>,
}

fn claim_thread(cx: &mut Write<'_>, input: &ClaimThread) -> Result<ClaimedThread> {
    let mut thread = visible_thread(cx, input.thread_id)?;
    let caller = cx.caller().member_id()?;
    check_claimable(&thread, caller, &members::skills_of(cx, caller)?, cx.now())?;
    if places::visible_channel(cx, thread.channel_id)?.archived {
        return Err(not_claimable(
            "channel-archived",
            "its channel is archived: unarchive the channel first",
        ));
    }
    if has_lapsed(&thread, cx.now()) {
        expire(cx, &thread)?;
        thread = thread.claimed(None, cx.now());
    }
    begin(cx, thread, caller, input.lease_secs)
}

/// Fails if the member cannot claim the thread now.
fn check_claimable(thread: &Thread, caller: MemberId, skills: &[String], now: Time) -> Result<()> {
    if let Some(held) = live(thread, now) {
        let detail = if held.holder == caller {
            "you hold its live claim already, which you can renew"
        } else {
            "another member holds its live claim"
        };
        let refusal = not_claimable("claimed", detail);
        return Err(refusal.with("holder", held.holder).with("lease_expires_at", held.until));
    }
    if thread.state != ThreadState::Open {
        return Err(not_claimable("state", "it is not open").with("state", thread.state));
    }
    if thread.has_result {
        return Err(not_claimable(
            "has-result",
            "it has a result; only once closed and reopened is it done again",
        ));
    }
    if thread.blocked > 0 {
        return Err(
            not_claimable("blocked", "it waits for unfinished threads").with("blocked", thread.blocked)
        );
    }
    check_skills(thread, skills, "you lack skills that it requires")
}

/// Fails if the member lacks a skill that the thread requires.
pub(in crate::coordination) fn check_skills(thread: &Thread, skills: &[String], detail: &str) -> Result<()> {
    let missing: Vec<&String> =
        thread.required_skills.iter().filter(|skill| !skills.contains(skill)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(not_claimable("missing-skills", detail).with("missing_skills", missing))
}

/// The error of a thread that cannot be given to the member; `reason` is for programs.
pub(in crate::coordination) fn not_claimable(reason: &str, detail: &str) -> Error {
    Error::new(Code::NotClaimable, format!("the thread cannot be claimed: {detail}")).with("reason", reason)
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::coordination::thread::{Held, untouched};
    use crate::id::LeaseId;

    fn thread() -> Thread {
        Thread { required_skills: vec!["python".to_owned(), "rust".to_owned()], ..untouched() }
    }

    fn claimed(holder: u128, until: i64) -> Thread {
        let (holder, lease_id) = (Uuid::from_u128(holder).into(), LeaseId::from(Uuid::from_u128(9)));
        Thread { held: Some(Held { holder, lease_id, until: Time::from_micros(until) }), ..thread() }
    }

    #[test]
    fn each_obstacle_is_named() {
        let caller: MemberId = Uuid::from_u128(2).into();
        let skills = ["go", "python", "rust"].map(str::to_owned);
        let table = [
            (thread(), None),
            (claimed(2, 10), None),
            (claimed(2, 11), Some("claimed")),
            (claimed(3, 11), Some("claimed")),
            (Thread { state: ThreadState::InReview, ..thread() }, Some("state")),
            (Thread { state: ThreadState::Closed, ..thread() }, Some("state")),
            (Thread { has_result: true, ..thread() }, Some("has-result")),
            (Thread { blocked: 1, ..thread() }, Some("blocked")),
            (Thread { required_skills: vec!["sql".to_owned()], ..thread() }, Some("missing-skills")),
            (Thread { required_skills: Vec::new(), ..thread() }, None),
        ];
        for (thread, wanted) in table {
            let found = check_claimable(&thread, caller, &skills, Time::from_micros(10)).err();
            let named = |error: &Error| error.problem().extra["reason"].as_str().map(str::to_owned);
            assert_eq!(found.as_ref().and_then(named).as_deref(), wanted, "{thread:?}");
            assert!(found.is_none_or(|error| error.code() == Code::NotClaimable));
        }
    }
}
