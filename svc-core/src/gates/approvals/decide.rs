//! Deciding approval gates: the callers who may decide, and the effect of each decision.

use schemars::JsonSchema;
use serde::Serialize;

use super::link::{DecisionLink, LinkContent};
use super::{ApprovalGate, GateState, StoredGate, is_agent, visible_gate};
use crate::Result;
use crate::capability::Capability;
use crate::coordination::thread_row::visible_thread;
use crate::error::{Code, Error};
use crate::gates::verdict_rules::VerdictAuthor;
use crate::id::{GateId, MemberId};
use crate::log::event::Event;
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Caller, Read, Write};
use crate::request::{dereferences, request};
use crate::store::named_enum;

named_enum! {
    /// Decision on an approval gate.
    pub enum Decision { Accept = "accept", Decline = "decline", Cancel = "cancel" }
}

/// Capabilities of which a caller needs at least one to decide an approval gate.
///
/// With `thread:transition`, callers may decline or cancel their own requests. With `approval:grant`, they
/// may accept, decline or cancel the requests of other members.
pub(super) const DECIDING_CAPABILITIES: &[Capability] =
    &[Capability::ThreadTransition, Capability::ApprovalGrant];

impl Decision {
    /// Returns the state of a gate after this decision.
    fn resulting_state(self) -> GateState {
        match self {
            Self::Accept => GateState::Accepted,
            Self::Decline => GateState::Declined,
            Self::Cancel => GateState::Cancelled,
        }
    }
}

/// An approval gate was decided or has expired.
#[derive(Serialize, JsonSchema)]
pub(super) struct ApprovalDecided {
    /// Id of the gate that was decided or has expired.
    pub gate_id: GateId,
    /// The decision on the gate; null if the gate expired.
    pub decision: Option<Decision>,
    /// The state of the gate after this event.
    pub state: GateState,
    /// Id of the member who decided the gate; null if the gate expired.
    pub resolved_by: Option<MemberId>,
}

impl Event for ApprovalDecided {
    const KIND: &'static str = "ApprovalDecided";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let gate = event.row_of("approval_gates", "gate_id")?.copy("state resolved_by");
        if event.text("state") != Some(GateState::Expired.name()) {
            return gate.set("resolved_actor_id", event.actor()).set("resolved_at", event.at()).keep();
        }
        let end = gate.value("expires_at").cloned();
        gate.clear("resolved_actor_id").set_known("resolved_at", end).keep()
    }
}

impl<I> Answer<I> for ApprovalGate {
    type Kept = GateId;

    fn kept(&self) -> Option<GateId> {
        Some(self.id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, id: GateId) -> Result<Self> {
        visible_gate(cx, id)?.into_gate(cx)
    }
}

/// The gate after `approval_decide`, and a link for a person if the caller may not accept the gate.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Decided")]
#[non_exhaustive]
pub struct DecisionResult {
    #[serde(flatten)]
    pub gate: ApprovalGate,
    /// Link to the page on which a person can decide the gate; absent unless the decision needs a person.
    /// Returned over MCP only: over REST, the request fails with 403 `needs-person`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<DecisionLink>,
}

dereferences! { DecisionResult => gate: ApprovalGate }

impl From<ApprovalGate> for DecisionResult {
    fn from(gate: ApprovalGate) -> Self {
        Self { gate, link: None }
    }
}

impl Answer<ApprovalDecide> for DecisionResult {
    type Kept = GateId;

    fn kept(&self) -> Option<GateId> {
        Some(self.gate.id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &ApprovalDecide, id: GateId) -> Result<Self> {
        Ok(visible_gate(cx, id)?.into_gate(cx)?.into())
    }
}

request! {
    /// Accepts, declines or cancels an approval gate, and returns the gate.
    ///
    /// Accepting needs `approval:grant`, and a person if the gate's `needs_person` is true: if you may not
    /// accept, you get a link for a person, valid for an hour. Declining and cancelling need `approval:grant`
    /// unless the request is yours.
    ///
    /// Repeating a decision changes nothing.
    ///
    /// Fails with 403 `forbidden` if you have `approval:grant` and accept your own request, made directly or
    /// through a delegate, if you accept as a delegate, or if you decline or cancel the request of another
    /// member without `approval:grant`; 403 `needs-person` if a person must accept the gate; 409
    /// `wrong-state` if the gate has expired or was decided differently, or if its thread is archived.
    #[derive(Serialize)]
    pub(super) struct ApprovalDecide {
        /// Id of the gate.
        gate_id: GateId,
        /// The decision on the gate.
        decision: Decision,
    }

    approval_decide(gate_id: GateId, decision: Decision) -> DecisionResult
}

pub(super) fn approval_decide(cx: &mut Write<'_>, input: &ApprovalDecide) -> Result<DecisionResult> {
    let StoredGate(gate) = visible_gate(cx, input.gate_id)?;
    let by = VerdictAuthor::of(cx.caller())?;
    let requester = VerdictAuthor {
        member: gate.requested_by,
        actor: gate.requested_actor_id.unwrap_or(gate.requested_by),
    };
    check_may_decide(cx.caller(), by, requester, input.decision)?;
    let state = input.decision.resulting_state();
    let mut gate = StoredGate(gate).into_gate(cx)?;
    if gate.state == state {
        return Ok(gate.into());
    }
    if gate.state != GateState::Pending {
        let found = gate.state.name();
        return Err(Error::wrong_state(format!("the approval gate is {found}")).with("state", found));
    }
    let thread = visible_thread(cx, gate.thread_id)?;
    thread.check_not_archived()?;
    if input.decision == Decision::Accept {
        check_needs_no_person(cx, &gate, by.member)?;
    }
    gate.state = state;
    gate.resolved_by = Some(by.member);
    gate.resolved_actor_id = by.delegate();
    let decided = ApprovalDecided {
        gate_id: gate.id,
        decision: Some(input.decision),
        state,
        resolved_by: gate.resolved_by,
    };
    gate.resolved_at = Some(cx.emit(thread.place().about(gate.requested_by), &decided)?.at);
    cx.execute(1, DECIDE_GATE, &[&gate.id, &gate.state, &by.member, &by.actor, &gate.resolved_at])?;
    Ok(gate.into())
}

const DECIDE_GATE: &str = "
    update approval_gates set state = $2, resolved_by = $3, resolved_actor_id = $4, resolved_at = $5
    where id = $1 and state = 'pending'";

/// Fails unless `caller` may make this decision on a gate that `requester` requested.
fn check_may_decide(
    caller: &Caller,
    decider: VerdictAuthor,
    requester: VerdictAuthor,
    decision: Decision,
) -> Result<()> {
    let is_requester =
        decider.member_and_delegate().iter().any(|member| requester.member_and_delegate().contains(member));
    if decision != Decision::Accept {
        if is_requester || caller.capabilities.has(Capability::ApprovalGrant) {
            return Ok(());
        }
        return Err(Error::forbidden(
            "only the member who asked, or a caller with approval:grant, declines or cancels an approval",
        ));
    }
    if caller.is_delegated() {
        return Err(Error::forbidden("a delegate accepts no approval gate"));
    }
    if is_requester && caller.capabilities.has(Capability::ApprovalGrant) {
        return Err(Error::forbidden("a member cannot accept its own request, nor through a delegate"));
    }
    Ok(())
}

/// Fails with `needs-person` and a link for a person, unless the member may accept the gate without a person.
fn check_needs_no_person(cx: &Read<'_>, gate: &ApprovalGate, member: MemberId) -> Result<()> {
    let may_accept = cx.caller().capabilities.has(Capability::ApprovalGrant);
    let detail = if !may_accept {
        "a person with approval:grant has to accept it"
    } else if gate.needs_person && is_agent(cx, member)? {
        "the request says that a person has to accept it, and the caller is an agent"
    } else {
        return Ok(());
    };
    let link = LinkContent::new(cx, gate.id, member).to_decision_link(cx)?;
    Err(Error::new(Code::NeedsPerson, detail).with("link", link))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::id::WorkspaceId;

    #[test]
    fn others_accept_and_the_asker_takes_back() {
        use Capability::{ApprovalGrant, ThreadTransition};
        use Decision::{Accept, Cancel, Decline};
        let id = |n: u128| MemberId::from(Uuid::from_u128(n));
        let judge = |member, actor| VerdictAuthor { member: id(member), actor: id(actor) };
        let grants: &[Capability] = &[ThreadTransition, ApprovalGrant];
        let forbidden = Some(Code::Forbidden);
        // The requester is member 1, acting through a token of member 2.
        let table = [
            (judge(3, 3), grants, [None, None, None]),
            (judge(3, 3), &grants[..1], [None, forbidden, forbidden]),
            (judge(3, 4), grants, [forbidden, None, None]),
            (judge(3, 4), &grants[..1], [forbidden, forbidden, forbidden]),
            (judge(1, 1), grants, [forbidden, None, None]),
            (judge(1, 1), &grants[..1], [None, None, None]),
            (judge(2, 2), grants, [forbidden, None, None]),
            (judge(1, 3), grants, [forbidden, None, None]),
            (judge(3, 1), grants, [forbidden, None, None]),
        ];
        for (by, capabilities, wanted) in table {
            let mut caller = Caller::bearer_for_tests(WorkspaceId::INSTANCE, by.member, capabilities);
            caller.actor = Some(by.actor);
            let code = |decision| {
                check_may_decide(&caller, by, judge(1, 2), decision).err().map(|error| error.code())
            };
            assert_eq!([Accept, Decline, Cancel].map(code), wanted, "{by:?} {capabilities:?}");
        }
    }
}
