//! Waiting for the decision of an approval gate, for a caller whose request needs a person.
//!
//! This wait is not in the operation table: a shell runs it between two answers of `approval_decide`, and it
//! requires the same capabilities as that operation.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::decide::{ApprovalDecided, DECIDERS};
use super::{ApprovalGate, GateState, visible_gate};
use crate::Result;
use crate::id::GateId;
use crate::log::bus::EventFilter;
use crate::log::event::Event;
use crate::op::{LongPoll, Operation, Poll, Read, WaitSecs, wait};
use crate::schema::brief;

/// Waits until an approval gate is decided, and returns it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FollowApproval {
    /// The gate.
    gate_id: GateId,
    /// How long to wait for the decision; if absent, the gate is returned at once.
    #[schemars(transform = brief("How long to wait; if absent, the gate is returned at once."))]
    timeout_secs: Option<WaitSecs>,
}

/// Returns the operation that waits for a decision and requires the capabilities of `approval_decide`.
pub fn follow_approval() -> Operation {
    wait("follow_approval", follow).title("Follow an approval gate").needs(DECIDERS)
}

impl LongPoll for FollowApproval {
    fn filter(&self) -> EventFilter {
        EventFilter::on([ApprovalDecided::KIND])
    }

    fn timeout(&self) -> Duration {
        WaitSecs::timeout(self.timeout_secs)
    }
}

fn follow(cx: &Read<'_>, input: &mut FollowApproval) -> Result<Poll<ApprovalGate>> {
    let gate = visible_gate(cx, input.gate_id)?.open(cx)?;
    let is_over = gate.state != GateState::Pending || input.timeout_secs.is_none();
    Ok(if is_over { Poll::Ready(gate) } else { Poll::Pending })
}
