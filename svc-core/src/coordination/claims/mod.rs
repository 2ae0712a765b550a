//! Claims: the right to work on a thread, under a lease with a fencing id that changes with the holder.
//!
//! One member at a time holds a claim. A claim is live until it is ended or its lease lapses, and a lapsed
//! claim has no effect even before the reaper has ended it. This file defines how a claim begins, changes
//! hands and ends; the files below contain the checks of the holder and the operations. A claim is
//! independent of the thread's state, except that a finished thread has no claim.

mod holder_check;
mod expired;
mod replay;
mod lapsed_claims;
mod bulk_end;
mod admin_takeover;
pub(crate) mod holder_ops;
mod resume;
pub(crate) mod lists;

use std::borrow::Cow;
use std::time::Duration;

use schemars::transform::Transform;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::workers;
use crate::Result;
use crate::conversation::follows;
use crate::conversation::inbox::{self, InboxReason, Recipients};
use crate::coordination::budget::{self, Budget};
use crate::coordination::checkpoint::{self, Checkpoint};
use crate::coordination::footprint::Footprint;
use crate::coordination::thread_row::{self, HeldClaim, Thread};
use crate::coordination::{dead_letters, obstacles, queue};
use crate::hash::format_hash;
use crate::id::{LeaseId, MemberId, ThreadId};
use crate::limits::{LEASE_DEFAULT_SECS, LEASE_MAX_SECS, LEASE_MIN_SECS};
use crate::log::event::{Event, EventKind, RecordedEvent};
use crate::log::replay::ReplayedEvent;
use crate::op::{Feature, Read, Sample, Write};
use crate::request::dereferences;
use crate::schema::brief;
use crate::store::ToParam;
use crate::text::{Count, described};
use crate::time::Time;
pub use bulk_end::end_all_claims;
pub(in crate::coordination) use bulk_end::{
    EndedClaims, count_live_claims, end_first_claims, expire_lapsed_claims, has_live_claim,
};
pub(in crate::coordination) use expired::ClaimExpired;
pub(super) use holder_check::check_holder;
pub(in crate::coordination) use holder_ops::{acknowledge, shorten_lease};
pub(in crate::coordination) use replay::clear_claim;
pub(in crate::coordination) use resume::{find_newest_claimed_thread, load_claimed_thread};

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations("claims", holder_ops::operations())
        .operations("claims", lists::operations())
        .events(vec![
            EventKind::of::<ThreadAssignmentChanged>(),
            EventKind::of::<holder_ops::ClaimAcknowledged>(),
            EventKind::of::<holder_ops::ClaimRenewed>(),
            EventKind::of::<ClaimExpired>(),
        ])
        .sample(Sample::new(
            "claimed_thread",
            "create_thread",
            |w| json!({"channel_id": w.id("channel"), "title": "Write the manual"}),
        ))
        .sample(
            Sample::new(
                "lease",
                "claim_thread",
                |w| json!({"thread_id": w.id("claimed_thread"), "lease_secs": 3600}),
            )
            .id_at("/claim_lease_id"),
        )
}

/// The length of a lease, in seconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseSecs(Count<LEASE_MIN_SECS, LEASE_MAX_SECS>);

crate::argument::number_arguments! { LeaseSecs }

impl LeaseSecs {
    fn duration(self) -> Duration {
        Duration::from_secs(self.0.get().unsigned_abs())
    }
}

impl JsonSchema for LeaseSecs {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "LeaseSecs".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let description = format!(
            "Seconds until the claim lapses unless it is renewed. Default: {LEASE_DEFAULT_SECS} unless the \
             operator configured another."
        );
        let mut schema =
            described(Count::<LEASE_MIN_SECS, LEASE_MAX_SECS>::json_schema(generator), description);
        brief("Seconds until the claim lapses.").transform(&mut schema);
        schema
    }
}

/// A reference to the event that created a claim.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Pin {
    /// The URI of the event ThreadAssignmentChanged in the workspace's log: `svc:event/{id}`.
    pub uri: String,
    /// The hash of the event that created the claim, as `sha256:{hex}`.
    pub content_hash: String,
}

impl Pin {
    fn of(lsn: i64, content_hash: &[u8; 32]) -> Self {
        Self { uri: format!("svc:event/{lsn}"), content_hash: format_hash(content_hash) }
    }
}

/// A thread that the caller has claimed.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ClaimedThread {
    #[serde(flatten)]
    pub thread: Thread,
    /// Id of the thread, under the name that the operations on claims expect.
    pub thread_id: ThreadId,
    /// A reference to the event that created the claim; null if the log no longer contains the event.
    pub pin: Option<Pin>,
    /// The last checkpoint of the thread; null if no holder has stored one.
    pub checkpoint: Option<Checkpoint>,
}

dereferences! { ClaimedThread => thread: Thread }

/// The reason why the holder of a thread changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Reason")]
enum AssignmentReason {
    Claimed,
    HandedOff,
    Released,
    Result,
    Closed,
    Cancelled,
    Expired,
    Failed,
    Frozen,
    Deactivated,
}

/// The reason why a claim ends without a new holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimEnd {
    /// The holder or an administrator released the claim.
    Released,
    /// The holder set the thread's result, whose event has this position in the log.
    Result(i64),
    /// The thread was closed, which ends the claim.
    Closed,
    /// The thread was cancelled, which ends the claim.
    Cancelled,
    /// The lease of the claim lapsed.
    Expired,
    /// The holder of the claim was frozen.
    Frozen,
    /// The holder of the claim was deactivated.
    Deactivated,
}

impl ClaimEnd {
    /// Returns the position of the result that ends the claim, or `None` if the claim ends for another
    /// reason.
    fn result_lsn(self) -> Option<i64> {
        match self {
            Self::Result(lsn) => Some(lsn),
            _ => None,
        }
    }

    /// Returns whether the claim counts as a failed attempt.
    fn is_attempt(self) -> bool {
        match self {
            Self::Released | Self::Expired | Self::Frozen | Self::Deactivated => true,
            Self::Result(_) | Self::Closed | Self::Cancelled => false,
        }
    }
}

impl From<ClaimEnd> for AssignmentReason {
    fn from(end: ClaimEnd) -> Self {
        match end {
            ClaimEnd::Released => Self::Released,
            ClaimEnd::Result(_) => Self::Result,
            ClaimEnd::Closed => Self::Closed,
            ClaimEnd::Cancelled => Self::Cancelled,
            ClaimEnd::Expired => Self::Expired,
            ClaimEnd::Frozen => Self::Frozen,
            ClaimEnd::Deactivated => Self::Deactivated,
        }
    }
}

/// The holder of a thread changed: the thread was claimed, handed off or released.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct ThreadAssignmentChanged {
    /// Id of the thread whose holder changed.
    thread_id: ThreadId,
    /// Id of the new holder; null if the thread is no longer claimed.
    assignee_id: Option<MemberId>,
    /// Id of the previous holder; null if the thread was not claimed.
    previous_assignee_id: Option<MemberId>,
    /// The fencing id of the new claim; null without a new claim.
    claim_lease_id: Option<LeaseId>,
    /// Time at which the new claim began; null without a new claim.
    claimed_at: Option<Time>,
    /// Time at which the new claim lapses unless it is renewed; null without a new claim.
    expires_at: Option<Time>,
    /// Deadline for acknowledging the new claim; null without a new claim or without a deadline.
    acknowledge_by: Option<Time>,
    /// Time until which the previous holder worked, not later than the end of the lease; null without a
    /// previous holder.
    worked_until: Option<Time>,
    /// The reason why the holder changed.
    reason: AssignmentReason,
    /// Id of the administrator who released or handed off another member's claim; absent if the holder did
    /// so.
    #[serde(skip_serializing_if = "Option::is_none")]
    administrator_id: Option<MemberId>,
}

impl Event for ThreadAssignmentChanged {
    const KIND: &'static str = "ThreadAssignmentChanged";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        replay::replay_assignment(event)
    }
}

/// The terms of a new claim: its holder, lease and acknowledgement deadline.
struct LeaseTerms {
    holder: MemberId,
    lease_id: LeaseId,
    until: Time,
    acknowledge_by: Option<Time>,
}

impl LeaseTerms {
    fn new(
        cx: &Write<'_>,
        holder: MemberId,
        lease: Option<LeaseSecs>,
        budget: Option<&Budget>,
    ) -> Result<Self> {
        let until = lease_end(cx, lease, budget);
        let acknowledge_by = cx.settings().ack_timeout.map(|timeout| cx.now().plus(timeout));
        Ok(Self { holder, lease_id: cx.new_id()?, until, acknowledge_by })
    }
}

/// Returns the end of a lease that begins now. A budget may end the lease earlier than requested.
fn lease_end(cx: &Read<'_>, lease: Option<LeaseSecs>, budget: Option<&Budget>) -> Time {
    let asked = cx.now().plus(lease.map_or(cx.settings().lease_default, LeaseSecs::duration));
    let last = budget.and_then(|budget| budget.latest_lease_end(cx.now()));
    last.map_or(asked, |last| asked.min(last))
}

/// Begins a claim of `holder` on an unclaimed thread. The projector removes the thread from the ready queue.
pub(in crate::coordination) fn begin(
    cx: &mut Write<'_>,
    thread: Thread,
    holder: MemberId,
    lease: Option<LeaseSecs>,
) -> Result<ClaimedThread> {
    let limited = budget::load_if_limited(cx, &thread)?;
    let now = cx.now();
    let terms = LeaseTerms::new(cx, holder, lease, limited.as_ref())?;
    let LeaseTerms { lease_id, until, acknowledge_by, .. } = &terms;
    let recorded = record_assignment(cx, &thread, &terms, AssignmentReason::Claimed)?;
    let params: [&dyn ToParam; 7] =
        [&thread.id, &holder, lease_id, &now, until, acknowledge_by, &recorded.lsn];
    let held = Some(HeldClaim { holder, lease_id: *lease_id, until: *until });
    let begin = |thread| Thread { held, acknowledged_at: None, ..thread };
    thread_row::update_thread_row(cx, thread.id, BEGIN, &params, begin)?;
    if let Some(touched) = &thread.footprint {
        obstacles::insert_live_items(cx, thread.id, touched)?;
    }
    new_claimed_thread(cx, thread, &terms, &recorded)
}

const BEGIN: &str = "
    update threads set assignee_id = $2, claim_lease_id = $3, claimed_at = $4,
        assignment_expires_at = $5, acknowledged_at = null, acknowledge_by = $6, claim_lsn = $7
    where id = $1 and assignee_id is null";

/// Replaces the live claim on a thread with a new claim of another holder.
fn transfer_claim(
    cx: &mut Write<'_>,
    thread: Thread,
    receiver: MemberId,
    lease: Option<LeaseSecs>,
) -> Result<ClaimedThread> {
    let limited = budget::load_if_limited(cx, &thread)?;
    let now = cx.now();
    let terms = LeaseTerms::new(cx, receiver, lease, limited.as_ref())?;
    let old = thread.held.map(|held| held.lease_id);
    let recorded = record_assignment(cx, &thread, &terms, AssignmentReason::HandedOff)?;
    let LeaseTerms { lease_id, until, acknowledge_by, .. } = &terms;
    let params: [&dyn ToParam; 8] =
        [&thread.id, &receiver, lease_id, &now, until, acknowledge_by, &old, &recorded.lsn];
    cx.execute(1, HAND_OVER, &params)?;
    if let Some(budget) = &limited {
        budget::update_exhausted_column(cx, &thread, budget)?;
    }
    new_claimed_thread(cx, thread, &terms, &recorded)
}

const HAND_OVER: &str = "
    update threads set
        worked_micros = worked_micros + case when $4 > claimed_at then $4 - claimed_at else 0 end,
        assignee_id = $2, claim_lease_id = $3,
        claimed_at = $4, assignment_expires_at = $5, acknowledged_at = null, acknowledge_by = $6,
        claim_lsn = $8
    where id = $1 and claim_lease_id = $7";

/// Emits the event of a new claim, records the thread's new workers, and notifies the receiver of a hand-off.
fn record_assignment(
    cx: &mut Write<'_>,
    thread: &Thread,
    terms: &LeaseTerms,
    reason: AssignmentReason,
) -> Result<RecordedEvent> {
    let changed = ThreadAssignmentChanged {
        thread_id: thread.id,
        assignee_id: Some(terms.holder),
        previous_assignee_id: thread.assignee_id,
        claim_lease_id: Some(terms.lease_id),
        claimed_at: Some(cx.now()),
        expires_at: Some(terms.until),
        acknowledge_by: terms.acknowledge_by,
        worked_until: (reason == AssignmentReason::HandedOff).then(|| cx.now()),
        reason,
        administrator_id: caller_unless_holder(cx, thread.assignee_id),
    };
    let recorded = cx.emit(thread.place().about(terms.holder), &changed)?;
    workers::add_workers(cx, thread.id, recorded.lsn, terms.holder)?;
    if reason == AssignmentReason::HandedOff {
        inbox::notify(cx, &recorded, InboxReason::Assigned, None, Recipients::Members(&[terms.holder]))?;
    }
    Ok(recorded)
}

/// Returns the caller if another member holds the claim, or `None` if the caller holds it or no member does.
fn caller_unless_holder(cx: &Read<'_>, holder: Option<MemberId>) -> Option<MemberId> {
    cx.caller().member.filter(|caller| holder.is_some_and(|holder| holder != *caller))
}

/// Returns the thread with its new claim, in the form that claiming operations return.
fn new_claimed_thread(
    cx: &Read<'_>,
    thread: Thread,
    terms: &LeaseTerms,
    recorded: &RecordedEvent,
) -> Result<ClaimedThread> {
    let held = HeldClaim { holder: terms.holder, lease_id: terms.lease_id, until: terms.until };
    let thread = Thread { acknowledged_at: None, ..thread }.with_claim(Some(held), cx.now());
    let checkpoint = checkpoint::last_checkpoint(cx, &thread)?;
    let pin = Some(Pin::of(recorded.lsn, &recorded.content_hash));
    Ok(ClaimedThread { thread_id: thread.id, thread, pin, checkpoint })
}

/// Ends the claim in a thread's row, if any, and adds the time under the claim to the thread's wall time.
///
/// If the lease has already lapsed, the claim ends as expired, regardless of `end`. If a claim ends without a
/// result while a limit of the budget is used up, a dead letter is added. `thread` must have been loaded in
/// this transaction.
pub(crate) fn end_claim(cx: &mut Write<'_>, thread: &Thread, end: ClaimEnd) -> Result<()> {
    let Some(held) = thread.held else { return Ok(()) };
    let end = if held.is_live(cx.now()) { end } else { ClaimEnd::Expired };
    let is_attempt = end.is_attempt();
    let mut budget = budget::load_if_limited(cx, thread)?;
    if is_attempt {
        budget = budget.map(Budget::with_one_more_attempt);
    }
    // Time after the end of the lease is not counted as work, however late the lapse is noticed. If the clock
    // was set back, the time worked is zero.
    let worked_until = cx.now().min(held.until);
    let result = end.result_lsn();
    let params: [&dyn ToParam; 5] =
        [&thread.id, &held.lease_id, &worked_until, &i64::from(is_attempt), &result];
    thread_row::update_thread_row(cx, thread.id, END, &params, |thread| Thread {
        held: None,
        acknowledged_at: None,
        has_result: thread.has_result || result.is_some(),
        judged_from: result.unwrap_or(thread.judged_from),
        ..thread
    })?;
    let exceeded = budget.as_ref().filter(|_| is_attempt).map(Budget::exceeded_limits).unwrap_or_default();
    let is_expired = end == ClaimEnd::Expired;
    let ended = match (exceeded.is_empty(), is_expired) {
        (false, _) => Some(dead_letters::add_dead_letter(cx, thread, held, &exceeded)?),
        (true, true) => Some(expired::record_lapse(cx, thread, held)?),
        (true, false) => None,
    };
    if let Some(recorded) = ended.filter(|_| is_expired) {
        let concerned = (Some(held.holder), thread.owner_id);
        follows::notify_followers_of_claim(cx, &recorded, InboxReason::ClaimExpired, concerned)?;
    }
    let changed = ThreadAssignmentChanged {
        thread_id: thread.id,
        assignee_id: None,
        previous_assignee_id: Some(held.holder),
        claim_lease_id: None,
        claimed_at: None,
        expires_at: None,
        acknowledge_by: None,
        worked_until: Some(worked_until),
        reason: if exceeded.is_empty() { end.into() } else { AssignmentReason::Failed },
        administrator_id: caller_unless_holder(cx, Some(held.holder)).filter(|_| end == ClaimEnd::Released),
    };
    cx.emit(thread.place().about(held.holder), &changed)?;
    if let Some(touched) = &thread.footprint {
        release_footprint(cx, thread.id, touched)?;
    }
    budget.map_or(Ok(()), |budget| budget::update_exhausted_column(cx, thread, &budget))
}

/// Removes the items and slots of a claim, and returns the threads that were parked behind them to the queue.
pub(super) fn release_footprint(cx: &mut Write<'_>, thread: ThreadId, footprint: &Footprint) -> Result<()> {
    // For a few items, it is cheaper to free each item than to find out first which items threads wait for.
    let waited_for = if footprint.items.len() > ITEMS_WITHOUT_LOOKUP_MAX {
        Some(queue::find_awaited_obstacles(cx, thread)?)
    } else {
        None
    };
    let mut freed = obstacles::remove_live_items(cx, thread, footprint)?;
    freed.retain(|obstacle| waited_for.as_ref().is_none_or(|waited_for| waited_for.contains(obstacle)));
    freed.into_iter().try_for_each(|obstacle| queue::unpark_behind(cx, obstacle))
}

/// Maximum items of a footprint that are freed without a lookup of the items for which threads wait.
const ITEMS_WITHOUT_LOOKUP_MAX: usize = 4;

const END: &str = "
    update threads set
        worked_micros = worked_micros + case when $3 > claimed_at then $3 - claimed_at else 0 end,
        assignee_id = null, claim_lease_id = null, claimed_at = null, assignment_expires_at = null,
        acknowledged_at = null, acknowledge_by = null, claim_lsn = null, attempts = attempts + $4,
        has_result = has_result or cast($5 as bigint) is not null, judged_from = coalesce($5, judged_from)
    where id = $1 and claim_lease_id = $2";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_ended_claim_states_its_reason() {
        for (end, wanted) in [
            (ClaimEnd::Released, "released"),
            (ClaimEnd::Expired, "expired"),
            (ClaimEnd::Frozen, "frozen"),
            (ClaimEnd::Deactivated, "deactivated"),
        ] {
            assert_eq!(serde_json::to_value(AssignmentReason::from(end)).unwrap(), json!(wanted));
        }
        assert_eq!(serde_json::to_value(AssignmentReason::HandedOff).unwrap(), json!("handed_off"));
    }
}
