//! Ends the claims of a member that is deactivated, in the same transaction. If there are very many, most of
//! them end in steps before it.

use crate::Result;
use crate::coordination::claims::{self, ClaimEnd};
use crate::id::MemberId;
use crate::identity::ends::MemberDeactivated;
use crate::log::event::{Event, Recorded};
use crate::op::{Feature, Write};

pub(crate) fn feature() -> Feature {
    Feature::new().ends_some(end_some_claims).projector(&[MemberDeactivated::KIND], end_claims)
}

fn end_some_claims(cx: &mut Write<'_>, member: MemberId) -> Result<bool> {
    Ok(claims::end_some_of_many(cx, member, ClaimEnd::Deactivated)?.is_some())
}

fn end_claims(cx: &mut Write<'_>, events: &[Recorded]) -> Result<()> {
    for member in events.iter().filter_map(|event| event.subject.member_id) {
        claims::end_all(cx, member, ClaimEnd::Deactivated)?;
    }
    Ok(())
}
