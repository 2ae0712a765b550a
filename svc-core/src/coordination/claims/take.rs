//! Taking up work: the next thread of a channel or of the workspace, one thread by its id, and waiting until
//! there is something to take.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Result;
use crate::capability::Capability::{ThreadTransition, WorkspaceRead};
use crate::conversation::places;
use crate::coordination::claims::{Claimed, ClaimedThread, LeaseSecs, begin, expire, has_lapsed, live};
use crate::coordination::queue::{self, Scope};
use crate::coordination::thread::{Thread, ThreadState, visible_thread};
use crate::error::{Code, Error};
use crate::id::{ChannelId, MemberId, ThreadId, WorkspaceId};
use crate::identity::{members, workspaces};
use crate::limits::{REPO_MAX, WAIT_DEFAULT_SECS, WAIT_MAX_SECS};
use crate::log::bus::EventFilter;
use crate::op::{LongPoll, Operation, Poll, Read, Supply, Write, wait, write};
use crate::text::{Count, Text};
use crate::time::Time;

pub(in crate::coordination) fn operations() -> Vec<Operation> {
    vec![
        write("claim_next_thread", claim_next_thread)
            .title("Claim a channel's next thread")
            .post("/channels/{channel_id}/claim-next")
            .needs(&[ThreadTransition])
            .example(|w| json!({"channel_id": w.channel_id, "lease_secs": 900})),
        write("claim_next_workspace_thread", claim_next_workspace_thread)
            .title("Claim the workspace's next thread")
            .post("/workspaces/{workspace_id}/claim-next")
            .needs(&[ThreadTransition])
            .example(|w| json!({"workspace_id": w.workspace_id, "lease_secs": 900})),
        write("claim_thread", claim_thread)
            .title("Claim a thread")
            .post("/threads/{thread_id}/claim")
            .needs(&[ThreadTransition])
            .example(|w| json!({"thread_id": w.thread_id, "lease_secs": 900})),
        wait("wait_for_ready", wait_for_ready)
            .title("Wait until there is a thread to claim")
            .get("/workspaces/{workspace_id}/wait/ready")
            .needs(&[WorkspaceRead])
            .example(
                |w| json!({"workspace_id": w.workspace_id, "channel_id": w.channel_id, "timeout_secs": 1}),
            ),
    ]
}

/// The name of a repository.
pub(in crate::coordination) type Repo = Text<1, REPO_MAX>;

/// Claims the most urgent, and then the oldest, thread of a channel that is open, waits for nothing and requires
/// no skill that you lack. Answers the claimed thread with the `claim_lease_id` to name in what you do with it and
/// with a `pin` to the event that made the claim; `{}` when there is nothing to claim. Acknowledge the claim soon
/// and renew it before `assignment_expires_at`, or it lapses.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClaimNextThread {
    /// The channel.
    channel_id: ChannelId,
    /// How long the claim lasts without renewal, in seconds; 600 unless the operator or you say otherwise.
    lease_secs: Option<LeaseSecs>,
    /// Only a thread whose footprint names this repository, as `owner/name`.
    repo: Option<Repo>,
}

fn claim_next_thread(cx: &mut Write<'_>, input: &ClaimNextThread) -> Result<Claimed> {
    places::visible_channel(cx, input.channel_id)?;
    claim_next(cx, Scope::Channel(input.channel_id), input.lease_secs, input.repo.as_ref())
}

/// Claims the most urgent, and then the oldest, thread of all channels you may see that is open, waits for nothing
/// and requires no skill that you lack. Answers as `claim_next_thread` does; `{}` when there is nothing to claim.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClaimNextWorkspaceThread {
    /// The workspace.
    workspace_id: WorkspaceId,
    /// How long the claim lasts without renewal, in seconds; 600 unless the operator or you say otherwise.
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
    // A thread without a footprint is never given to a caller who names a repository, and no thread has one:
    // there is no operation that sets it.
    if repo.is_some() {
        return Ok(Claimed::Nothing {});
    }
    let Some((thread_id, _)) = queue::next(cx, scope)? else { return Ok(Claimed::Nothing {}) };
    let thread = visible_thread(cx, thread_id)?;
    let holder = cx.caller().member_id()?;
    Ok(Claimed::Thread(Box::new(begin(cx, thread, holder, lease)?)))
}

/// Claims one thread. Answers it with the `claim_lease_id` to name in what you do with it and with a `pin` to the
/// event that made the claim. 409 `not-claimable` with a `reason` when it has a live claim, be it your own
/// (`claimed`), is not open (`state`), waits for another thread (`blocked`), has a result (`has-result`), requires
/// skills that you lack (`missing-skills`) or stands in an archived channel (`channel-archived`).
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClaimThread {
    /// The thread.
    thread_id: ThreadId,
    /// How long the claim lasts without renewal, in seconds; 600 unless the operator or you say otherwise.
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

/// Refuses a thread that this member cannot claim now.
fn check_claimable(thread: &Thread, caller: MemberId, skills: &[String], now: Time) -> Result<()> {
    if let Some(held) = live(thread, now) {
        let detail = if held.holder == caller {
            "you hold its live claim already: renew it instead"
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
            "it has a result: close and reopen it to have it done again",
        ));
    }
    if thread.blocked > 0 {
        return Err(
            not_claimable("blocked", "it waits for unfinished threads").with("blocked", thread.blocked)
        );
    }
    check_skills(thread, skills, "you lack skills that it requires")
}

/// Refuses a member who lacks a skill that the thread requires.
pub(in crate::coordination) fn check_skills(thread: &Thread, skills: &[String], detail: &str) -> Result<()> {
    let missing: Vec<&String> =
        thread.required_skills.iter().filter(|skill| !skills.contains(skill)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(not_claimable("missing-skills", detail).with("missing_skills", missing))
}

/// The thread cannot be given to the member; `reason` says so to programs.
pub(in crate::coordination) fn not_claimable(reason: &str, detail: &str) -> Error {
    Error::new(Code::NotClaimable, format!("the thread cannot be claimed: {detail}")).with("reason", reason)
}

/// How long a wait may take.
pub(in crate::coordination) type WaitSecs = Count<1, WAIT_MAX_SECS>;

/// The timeout of a caller who may have named one.
pub(in crate::coordination) fn timeout(timeout: Option<WaitSecs>) -> Duration {
    Duration::from_secs(timeout.map_or(WAIT_DEFAULT_SECS, WaitSecs::get).unsigned_abs())
}

/// Waits until there is a thread that you could claim, in one channel or in all you may see. Answers which one at
/// once when there is; it is not reserved, so claim next and expect `{}` if others were faster. Of several who wait,
/// the one who came first is answered, and another one a second later if the thread is still there. Answers
/// `{"timed_out": true}` when the time is over.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WaitForReady {
    /// The workspace.
    workspace_id: WorkspaceId,
    /// Only threads of this channel.
    channel_id: Option<ChannelId>,
    /// How long to wait, in seconds; 30 unless given.
    timeout_secs: Option<WaitSecs>,
}

impl LongPoll for WaitForReady {
    fn filter(&self) -> EventFilter {
        queue::filter(self.channel_id)
    }

    fn timeout(&self) -> Duration {
        timeout(self.timeout_secs)
    }

    fn supply(&self) -> Option<Supply> {
        Some(queue::supply)
    }
}

/// A thread that can be claimed.
#[derive(Serialize, JsonSchema)]
struct ReadyThread {
    /// True: there is one.
    ready: bool,
    /// The thread that you would be given.
    thread_id: ThreadId,
    /// The channel it stands in.
    channel_id: ChannelId,
}

fn wait_for_ready(cx: &Read<'_>, input: &mut WaitForReady) -> Result<Poll<ReadyThread>> {
    workspaces::own_workspace(cx, input.workspace_id)?;
    let scope = match input.channel_id {
        Some(channel) => Scope::Channel(places::visible_channel(cx, channel)?.id),
        None => Scope::Workspace,
    };
    if cx.caller().frozen {
        return Ok(Poll::Pending);
    }
    Ok(match queue::next(cx, scope)? {
        Some((thread_id, channel_id)) => Poll::Ready(ReadyThread { ready: true, thread_id, channel_id }),
        None => Poll::Pending,
    })
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::coordination::claims::Held;
    use crate::id::LeaseId;

    fn thread() -> Thread {
        let id = Uuid::from_u128(1);
        Thread {
            id: id.into(),
            uri: String::new(),
            workspace_id: id.into(),
            channel_id: id.into(),
            parent_id: None,
            title: "Port the parser".to_owned(),
            state: ThreadState::Open,
            priority: 0,
            required_skills: vec!["python".to_owned(), "rust".to_owned()],
            blocked: 0,
            has_result: false,
            owner_id: None,
            assignee_id: None,
            claim_lease_id: None,
            assignment_expires_at: None,
            acknowledged_at: None,
            cancelled: false,
            cancelled_at: None,
            created_by: None,
            created_at: Time::from_micros(0),
            lsn: 1,
            depth: 1,
            skill_set: 1,
            held: None,
        }
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
