//! Operations of a claim's holder: reading, acknowledging, renewing, releasing and handing off the claim.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::holder_check::check_may_end_claim;
use super::{
    ClaimEnd, ClaimedThread, LeaseSecs, admin_takeover, check_holder, end_claim, expire_lapsed_claims,
    lease_end, transfer_claim,
};
use crate::Result;
use crate::capability::Capability::{ThreadTransition, WorkspaceRead};
use crate::coordination::budget::{self, Budget};
use crate::coordination::checkpoint::{self, NewCheckpoint};
use crate::coordination::rules::{check_receiver, live_claim};
use crate::coordination::thread_row::{self, HeldClaim, Thread, visible_thread};
use crate::coordination::workers;
use crate::error::{Code, Error};
use crate::id::{ChannelId, LeaseId, MemberId, ThreadId};
use crate::log::event::Event;
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Operation, Read, Write, destructive, idempotent, read, write};
use crate::request::request;
use crate::schema::brief;
use crate::store::columns;
use crate::time::Time;

pub(super) fn operations() -> Vec<Operation> {
    vec![
        read("get_claim", get_claim)
            .quick()
            .title("Read a thread's claim")
            .when(
                "Get the live claim on a thread: holder, lease id and end. Use `list_active_claims` for all \
                 claims.",
            )
            .get("/threads/{thread_id}/claim")
            .needs(&[WorkspaceRead])
            .refuses(&[Code::NotFound])
            .example(|w| json!({"thread_id": w.id("claimed_thread")})),
        idempotent("acknowledge_claim", acknowledge_claim)
            .title("Acknowledge a claim")
            .when("Confirm that you are working on a thread that you claimed without `acknowledge`.")
            .post("/threads/{thread_id}/claim/acknowledge")
            .needs(&[ThreadTransition])
            .refuses(&[Code::NotFound, Code::StaleClaim, Code::ClaimNotHeld])
            .example(|w| json!({"thread_id": w.id("claimed_thread"), "claim_lease_id": w.id("lease")})),
        idempotent("renew_claim", renew_claim)
            .title("Renew a claim")
            .when(
                "Extend your claim until `lease_secs` seconds from now. Use while you work, before \
                 `assignment_expires_at`, or another member can claim the thread.",
            )
            .post("/threads/{thread_id}/claim/renew")
            .needs(&[ThreadTransition])
            .refuses(&[Code::NotFound, Code::StaleClaim, Code::ClaimNotHeld, Code::BudgetExhausted])
            .example(|w| {
                json!({"thread_id": w.id("claimed_thread"), "lease_secs": 1800,
                       "claim_lease_id": w.id("lease")})
            }),
        destructive("release_claim", release_claim)
            .title("Release a claim")
            .when(
                "Give up your claim, so that any member can claim the thread. Use `hand_off_claim` to choose \
                 the member, `set_thread_result` to submit work.",
            )
            .reversible()
            .post("/threads/{thread_id}/claim/release")
            .needs(&[ThreadTransition])
            .refuses(&[Code::StaleClaim, Code::ClaimNotHeld])
            .example(|w| json!({"thread_id": w.id("claimed_thread"), "claim_lease_id": w.id("lease")})),
        write("hand_off_claim", hand_off_claim)
            .after(expire_lapsed_claims)
            .title("Hand off a claim")
            .when(
                "Transfer your claim to another member. Use `release_claim` to let any member claim the \
                 thread.",
            )
            .post("/threads/{thread_id}/claim/hand-off")
            .needs(&[ThreadTransition])
            .refuses(&[Code::StaleClaim, Code::ClaimNotHeld, Code::NotClaimable, Code::BudgetExhausted])
            .example(|w| {
                json!({
                    "thread_id": w.id("claimed_thread"), "to_member_id": w.id("agent"),
                    "claim_lease_id": w.id("lease"), "lease_secs": 900,
                })
            }),
    ]
}

/// The right of one member to work on a thread, until its lease ends.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Claim {
    /// Id of the claimed thread.
    pub thread_id: ThreadId,
    /// The channel of the thread.
    pub channel_id: ChannelId,
    /// The thread's title: the task in one line.
    pub title: String,
    /// The member who holds the claim.
    pub holder: MemberId,
    /// The fencing id of the claim.
    pub claim_lease_id: LeaseId,
    /// Time at which the claim lapses unless it is renewed.
    pub lease_expires_at: Time,
    /// Time at which the holder acknowledged the claim; null if the claim is not acknowledged.
    pub acknowledged_at: Option<Time>,
    /// The thread's `lsn`, by which lists of claims are ordered.
    #[serde(skip)]
    pub lsn: i64,
}

impl Claim {
    fn of(thread: Thread, held: HeldClaim) -> Self {
        Self {
            thread_id: thread.id,
            channel_id: thread.channel_id,
            title: thread.title,
            holder: held.holder,
            claim_lease_id: held.lease_id,
            lease_expires_at: held.until,
            acknowledged_at: thread.acknowledged_at,
            lsn: thread.lsn,
        }
    }
}

impl<I> Answer<I> for Claim {
    type Kept = (ThreadId, LeaseId);
    const REFUSES: &'static [Code] = &[Code::StaleClaim];

    fn kept(&self) -> Option<Self::Kept> {
        Some((self.thread_id, self.claim_lease_id))
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, (thread, lease): Self::Kept) -> Result<Self> {
        let thread = visible_thread(cx, thread)?;
        let held = require_own_claim(cx, &thread, Some(lease))?;
        Ok(Self::of(thread, held))
    }
}

columns! {
    pub(super) claim_columns: Claim as t {
        thread_id = id,
        channel_id,
        title,
        holder = assignee_id,
        claim_lease_id,
        lease_expires_at = assignment_expires_at,
        acknowledged_at,
        lsn,
    }
}

/// Loads an unfinished thread. Fails if the thread is finished, because its claim ended when it closed.
fn load_unfinished_thread(cx: &Read<'_>, id: ThreadId) -> Result<Thread> {
    let thread = visible_thread(cx, id)?;
    if thread.state.is_finished() { Err(Error::not_found("claim")) } else { Ok(thread) }
}

request! {
    /// Returns the live claim on a thread, with its holder, its lease id and the end of its lease.
    ///
    /// Fails with 404 `not-found` if the thread has no live claim.
    struct GetClaim {
        /// Id of the thread.
        thread_id: ThreadId,
    }

    get_claim(thread_id: ThreadId) -> Claim
}

fn get_claim(cx: &Read<'_>, input: &GetClaim) -> Result<Claim> {
    let thread = load_unfinished_thread(cx, input.thread_id)?;
    let held = live_claim(&thread, cx.now()).ok_or_else(|| Error::not_found("claim"))?;
    Ok(Claim::of(thread, held))
}

/// Returns the live claim on a thread. Fails if the caller does not hold the claim.
fn require_own_claim(cx: &Read<'_>, thread: &Thread, lease_id: Option<LeaseId>) -> Result<HeldClaim> {
    check_holder(cx, thread, lease_id)?;
    thread.held.ok_or_else(|| Error::internal("a claim that is held is missing"))
}

/// The holder of a claim confirmed that it works on the thread.
#[derive(Serialize, JsonSchema)]
pub(super) struct ClaimAcknowledged {
    /// Id of the claimed thread.
    thread_id: ThreadId,
    /// Id of the member who holds the claim.
    member_id: MemberId,
    /// The fencing id of the claim.
    claim_lease_id: LeaseId,
}

impl Event for ClaimAcknowledged {
    const KIND: &'static str = "ClaimAcknowledged";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let row = event.row_of("threads", "thread_id")?;
        row.set("acknowledged_at", event.at()).clear("acknowledge_by").keep()?;
        workers::replay_delegate(event)
    }
}

request! {
    /// Acknowledges your claim on a thread, and returns the claim.
    ///
    /// Acknowledging again changes nothing.
    ///
    /// An acknowledgement confirms that you work on the thread, so that the claim is not reported as
    /// unacknowledged.
    ///
    /// Fails with 404 `not-found` if the thread is finished; 409 `stale-claim` if the claim has lapsed, or if
    /// `claim_lease_id` is not that of the live claim; 409 `claim-not-held` if you do not hold the claim.
    #[derive(Serialize)]
    struct AcknowledgeClaim {
        /// Id of the thread.
        thread_id: ThreadId,
        /// The lease id of your claim. If given, it must be the lease id of the live claim.
        #[schemars(transform = brief("Lease id of your claim: always send it."))]
        claim_lease_id: Option<LeaseId>,
    }

    acknowledge_claim(thread_id: ThreadId) -> Claim
}

fn acknowledge_claim(cx: &mut Write<'_>, input: &AcknowledgeClaim) -> Result<Claim> {
    let mut thread = load_unfinished_thread(cx, input.thread_id)?;
    let held = require_own_claim(cx, &thread, input.claim_lease_id)?;
    if thread.acknowledged_at.is_none() {
        acknowledge(cx, &mut thread, held)?;
    }
    Ok(Claim::of(thread, held))
}

/// Acknowledges the live claim of a thread. The claim must not have been acknowledged before.
pub(in crate::coordination) fn acknowledge(
    cx: &mut Write<'_>,
    thread: &mut Thread,
    held: HeldClaim,
) -> Result<()> {
    let now = cx.now();
    let acknowledge = |thread| Thread { acknowledged_at: Some(now), ..thread };
    thread_row::update_thread_row(
        cx,
        thread.id,
        ACKNOWLEDGE,
        &[&thread.id, &held.lease_id, &now],
        acknowledge,
    )?;
    let acknowledged =
        ClaimAcknowledged { thread_id: thread.id, member_id: held.holder, claim_lease_id: held.lease_id };
    let lsn = cx.emit(thread.place().about(held.holder), &acknowledged)?.lsn;
    workers::add_delegate(cx, thread.id, lsn)?;
    thread.acknowledged_at = Some(now);
    Ok(())
}

const ACKNOWLEDGE: &str = "
    update threads set acknowledged_at = $3, acknowledge_by = null where id = $1 and claim_lease_id = $2";

/// The lease of a claim was renewed by its holder, or shortened by a new budget.
#[derive(Serialize, JsonSchema)]
pub(super) struct ClaimRenewed {
    /// Id of the claimed thread.
    thread_id: ThreadId,
    /// Id of the member who holds the claim.
    member_id: MemberId,
    /// The fencing id of the claim, which stays the same.
    claim_lease_id: LeaseId,
    /// New end of the lease.
    expires_at: Time,
    /// Whether a new budget shortened the lease; false if the holder renewed it.
    shortened: bool,
}

impl Event for ClaimRenewed {
    const KIND: &'static str = "ClaimRenewed";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let row = event.row_of("threads", "thread_id")?;
        let row = row.set_to("assignment_expires_at", "expires_at");
        let row = match event.field("shortened").and_then(Value::as_bool) {
            Some(true) => return row.keep(),
            // A claim can be renewed only while no limit of the budget is used up.
            Some(false) => row.set("exhausted", false),
            None => row,
        };
        row.keep()?;
        workers::replay_delegate(event)
    }
}

request! {
    /// Renews the claim that you hold until `lease_secs` from now, and returns the claim.
    ///
    /// A `checkpoint` is kept for the next member who claims the thread, even if your lease lapses.
    ///
    /// The lease ends earlier if the thread's budget allows less wall time.
    ///
    /// Fails with 404 `not-found` if the thread is finished, for example after a cancel: stop working on the
    /// thread; 409 `stale-claim` if the claim has lapsed, or if `claim_lease_id` is not that of the live
    /// claim, for example because the thread was cancelled and reopened; 409 `claim-not-held` if you do not
    /// hold the claim; 409 `budget-exhausted` with `exceeded` if a limit of the thread's budget is used up.
    #[derive(Serialize)]
    struct RenewClaim {
        /// Id of the thread.
        thread_id: ThreadId,
        lease_secs: Option<LeaseSecs>,
        /// The lease id of your claim. If given, it must be the lease id of the live claim.
        #[schemars(transform = brief("Lease id of your claim: always send it."))]
        claim_lease_id: Option<LeaseId>,
        checkpoint: Option<NewCheckpoint>,
    }

    renew_claim(thread_id: ThreadId) -> Claim
}

fn renew_claim(cx: &mut Write<'_>, input: &RenewClaim) -> Result<Claim> {
    let thread = load_unfinished_thread(cx, input.thread_id)?;
    let held = require_own_claim(cx, &thread, input.claim_lease_id)?;
    let limited = budget::check_not_exhausted(cx, &thread)?;
    checkpoint::replace_checkpoint(cx, &thread, input.checkpoint.as_ref())?;
    let renewed = HeldClaim { until: lease_end(cx, input.lease_secs, limited.as_ref()), ..held };
    // At the end of the wall time the lease stays the same, but a new delegate is recorded as a worker.
    if renewed != held || workers::is_new_delegate(cx, thread.id)? {
        let lsn = set_lease_end(cx, &thread, renewed, false)?;
        workers::add_delegate(cx, thread.id, lsn)?;
    }
    if let Some(budget) = &limited {
        budget::update_exhausted_column(cx, &thread, budget)?;
    }
    Ok(Claim::of(thread, renewed))
}

/// Changes the end of a claim's lease to `changed.until`, and returns the position of the event.
fn set_lease_end(cx: &mut Write<'_>, thread: &Thread, claim: HeldClaim, shortened: bool) -> Result<i64> {
    let renew = |thread| Thread { held: Some(claim), ..thread };
    thread_row::update_thread_row(
        cx,
        thread.id,
        SET_LEASE_END,
        &[&thread.id, &claim.lease_id, &claim.until],
        renew,
    )?;
    let event = ClaimRenewed {
        thread_id: thread.id,
        member_id: claim.holder,
        claim_lease_id: claim.lease_id,
        expires_at: claim.until,
        shortened,
    };
    Ok(cx.emit(thread.place().about(claim.holder), &event)?.lsn)
}

/// Shortens the lease of a thread's live claim to the remaining wall time of its budget.
pub(in crate::coordination) fn shorten_lease(
    cx: &mut Write<'_>,
    thread: &Thread,
    budget: &Budget,
) -> Result<()> {
    let held = live_claim(thread, cx.now());
    match held.zip(budget.latest_lease_end(cx.now())) {
        Some((held, last)) if last < held.until => {
            set_lease_end(cx, thread, HeldClaim { until: last, ..held }, true).map(|_| ())
        }
        _ => Ok(()),
    }
}

const SET_LEASE_END: &str =
    "update threads set assignment_expires_at = $3 where id = $1 and claim_lease_id = $2";

request! {
    /// Releases the claim that you hold, and returns the thread, which other members can then claim.
    ///
    /// If a limit of the thread's budget is used up, the thread gets a dead letter instead.
    ///
    /// With `channel:admin` you can also release the claim of another member; the holder is notified.
    ///
    /// Fails with 409 `stale-claim` if the claim has lapsed, or if `claim_lease_id` is not that of the live
    /// claim, for example after a release; 409 `claim-not-held` if you neither hold the claim nor have
    /// `channel:admin`.
    #[derive(Serialize)]
    struct ReleaseClaim {
        /// Id of the thread.
        thread_id: ThreadId,
        /// The lease id of the claim.
        claim_lease_id: LeaseId,
        checkpoint: Option<NewCheckpoint>,
    }

    release_claim(thread_id: ThreadId, claim_lease_id: LeaseId) -> Thread
}

fn release_claim(cx: &mut Write<'_>, input: &ReleaseClaim) -> Result<Thread> {
    let thread = visible_thread(cx, input.thread_id)?;
    let others_claim = check_may_end_claim(cx, &thread, Some(input.claim_lease_id))?;
    store_checkpoint(cx, &thread, others_claim, input.checkpoint.as_ref())?;
    end_claim(cx, &thread, ClaimEnd::Released)?;
    if let Some(others_claim) = others_claim {
        admin_takeover::notify_former_holder(cx, &thread, others_claim, None)?;
    }
    // The end of the claim may have changed the fields that follow from the budget.
    if thread.budgeted { visible_thread(cx, thread.id) } else { Ok(thread.with_claim(None, cx.now())) }
}

/// Stores the holder's checkpoint when a claim is released or handed off.
///
/// An administrator who releases or hands off another member's claim cannot store a checkpoint, because the
/// administrator does not know the progress of the work.
fn store_checkpoint(
    cx: &mut Write<'_>,
    thread: &Thread,
    others_claim: Option<HeldClaim>,
    checkpoint: Option<&NewCheckpoint>,
) -> Result<()> {
    if others_claim.is_some() && checkpoint.is_some() {
        let detail = "only the holder of the claim can store a checkpoint: omit the field";
        return Err(Error::in_field("checkpoint", detail));
    }
    checkpoint::replace_checkpoint(cx, thread, checkpoint)
}

request! {
    /// Hands off the claim that you hold to another member, and returns the thread with the new claim.
    ///
    /// The member must have the required skills and see the channel.
    ///
    /// With `channel:admin` you can also hand off the claim of another member, by its `claim_lease_id`; the
    /// former holder is notified.
    ///
    /// The member receives a new claim with its own lease id, and must acknowledge the new claim; your lease
    /// id is no longer valid. `pin` refers to the event that created the new claim.
    ///
    /// Fails with 409 `stale-claim` if the claim has lapsed, or if `claim_lease_id` is not that of the live
    /// claim; 409 `claim-not-held` if you do not hold the claim, and lack `channel:admin` or send no
    /// `claim_lease_id`; 409 `not-claimable` with a `reason` if the member is not in the workspace
    /// (`member`), is frozen or deactivated (`frozen`), lacks required skills (`missing-skills`), may not see
    /// the channel (`channel`) or holds the claim already (`claimed`); 409 `budget-exhausted` with `exceeded`
    /// if a limit of the thread's budget is used up.
    #[derive(Serialize)]
    struct HandOffClaim {
        /// Id of the thread.
        thread_id: ThreadId,
        /// The member who receives the claim.
        to_member_id: MemberId,
        /// The lease id of the claim. If given, it must be the lease id of the live claim.
        #[schemars(transform = brief("Lease id of the claim: always send it."))]
        claim_lease_id: Option<LeaseId>,
        lease_secs: Option<LeaseSecs>,
        checkpoint: Option<NewCheckpoint>,
    }

    hand_off_claim(thread_id: ThreadId, to_member_id: MemberId) -> ClaimedThread
}

fn hand_off_claim(cx: &mut Write<'_>, input: &HandOffClaim) -> Result<ClaimedThread> {
    let mut thread = visible_thread(cx, input.thread_id)?;
    let others_claim = check_may_end_claim(cx, &thread, input.claim_lease_id)?;
    check_receiver(cx, &thread, input.to_member_id)?;
    store_checkpoint(cx, &thread, others_claim, input.checkpoint.as_ref())?;
    thread.has_checkpoint |= input.checkpoint.is_some();
    let claimed = transfer_claim(cx, thread, input.to_member_id, input.lease_secs)?;
    if let Some(others_claim) = others_claim {
        admin_takeover::notify_former_holder(cx, &claimed.thread, others_claim, Some(input.to_member_id))?;
    }
    Ok(claimed)
}
