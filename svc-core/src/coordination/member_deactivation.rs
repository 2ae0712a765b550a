//! Ends the claims of a deactivated member.
//!
//! The first claims end in the transaction of the deactivation, and any remaining claims in later steps.

use crate::Result;
use crate::coordination::claims::{self, ClaimEnd};
use crate::id::MemberId;
use crate::identity::member_ends::MemberDeactivated;
use crate::log::event::{Event, Recorded};
use crate::op::{Feature, Write};

pub(crate) fn feature() -> Feature {
    Feature::new().ends_some(end_some_claims).projector(&[MemberDeactivated::KIND], end_claims)
}

fn end_some_claims(cx: &mut Write<'_>, member: MemberId) -> Result<bool> {
    Ok(claims::end_some(cx, member, ClaimEnd::Deactivated)?.more)
}

fn end_claims(cx: &mut Write<'_>, events: &[Recorded]) -> Result<()> {
    for member in events.iter().filter_map(|event| event.subject.member_id) {
        end_some_claims(cx, member)?;
    }
    Ok(())
}
