//! The event that records the end of a lapsed claim.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::coordination::thread_row::{HeldClaim, Thread};
use crate::id::{LeaseId, MemberId, ThreadId};
use crate::log::event::{Event, RecordedEvent};
use crate::log::replay::ReplayedEvent;
use crate::op::Write;
use crate::time::Time;

/// The lease of a claim lapsed, and the claim ended.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct ClaimExpired {
    /// Id of the thread whose claim lapsed.
    thread_id: ThreadId,
    /// Id of the member who held the claim.
    member_id: MemberId,
    /// The fencing id of the claim.
    claim_lease_id: LeaseId,
    /// Time at which the lease lapsed.
    expired_at: Time,
}

impl Event for ClaimExpired {
    const KIND: &'static str = "ClaimExpired";

    fn replay(_: &ReplayedEvent<'_>) -> Result<()> {
        // The event ThreadAssignmentChanged that follows ends the claim.
        Ok(())
    }
}

/// Records that the lease of a thread's claim has lapsed.
pub(super) fn record_lapse(cx: &mut Write<'_>, thread: &Thread, held: HeldClaim) -> Result<RecordedEvent> {
    let thread_id = thread.id;
    let member_id = held.holder;
    let claim_lease_id = held.lease_id;
    let expired = ClaimExpired { thread_id, member_id, claim_lease_id, expired_at: held.until };
    cx.emit(thread.place().about(held.holder), &expired)
}
