//! Waiting for the decision on an approval gate, for a caller whose request needs a person.
//!
//! This operation is not in the operation table. A shell runs it between two answers of `approval_decide`,
//! which requires the same capabilities.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::decide::{ApprovalDecided, DECIDING_CAPABILITIES};
use super::{ApprovalGate, GateState, visible_gate};
use crate::Result;
use crate::id::GateId;
use crate::log::bus::EventFilter;
use crate::log::event::Event;
use crate::op::{LongPoll, Operation, Poll, Read, WaitSecs, wait, without_requests};
use crate::schema::brief;

/// Waits until an approval gate is decided or expires, and returns the gate.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FollowApproval {
    /// Id of the gate.
    gate_id: GateId,
    /// Maximum seconds to wait for the decision. If absent, the gate is returned immediately.
    #[schemars(transform = brief("Maximum seconds to wait; if absent, returns immediately."))]
    timeout_secs: Option<WaitSecs>,
}

/// Returns the operation that waits for the decision on a gate. Requires the capabilities of
/// `approval_decide`.
pub fn follow_approval() -> Operation {
    wait("follow_approval", poll_decision).title("Follow an approval gate").needs(DECIDING_CAPABILITIES)
}

without_requests! { FollowApproval }

impl LongPoll for FollowApproval {
    fn filter(&self) -> EventFilter {
        EventFilter::on([ApprovalDecided::KIND])
    }

    fn timeout(&self) -> Duration {
        WaitSecs::timeout(self.timeout_secs)
    }
}

/// Returns the gate if it is no longer pending, or if the request does not wait.
fn poll_decision(cx: &Read<'_>, input: &mut FollowApproval) -> Result<Poll<ApprovalGate>> {
    let gate = visible_gate(cx, input.gate_id)?.into_gate(cx)?;
    let is_over = gate.state != GateState::Pending || input.timeout_secs.is_none();
    Ok(if is_over { Poll::Ready(gate) } else { Poll::Pending })
}
