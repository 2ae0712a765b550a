//! Ends the claims of a deactivated member.
//!
//! The first claims end in the transaction of the deactivation, and any remaining claims in later steps.

use crate::Result;
use crate::coordination::claims::{self, ClaimEnd};
use crate::id::MemberId;
use crate::identity::member_ends::MemberDeactivated;
use crate::log::event::{Event, RecordedEvent};
use crate::op::{Feature, Write};

pub(crate) fn feature() -> Feature {
    Feature::new()
        .end_held_objects(end_first_claims)
        .projector(&[MemberDeactivated::KIND], end_claims_of_deactivated_members)
}

fn end_first_claims(cx: &mut Write<'_>, member: MemberId) -> Result<bool> {
    Ok(claims::end_first_claims(cx, member, ClaimEnd::Deactivated)?.has_more)
}

fn end_claims_of_deactivated_members(cx: &mut Write<'_>, events: &[RecordedEvent]) -> Result<()> {
    for member in events.iter().filter_map(|event| event.subject.member_id) {
        end_first_claims(cx, member)?;
    }
    Ok(())
}
