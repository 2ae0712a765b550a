//! What the deactivation of a member ends in coordination: its claims, in the same transaction.

use crate::Result;
use crate::coordination::claims::{self, ClaimEnd};
use crate::identity::ends::MemberDeactivated;
use crate::log::event::{Event, Recorded};
use crate::op::{Feature, Write};

pub(crate) fn feature() -> Feature {
    Feature::new().projector(&[MemberDeactivated::KIND], end_claims)
}

fn end_claims(cx: &mut Write<'_>, events: &[Recorded]) -> Result<()> {
    for member in events.iter().filter_map(|event| event.subject.member_id) {
        claims::end_all(cx, member, ClaimEnd::Deactivated)?;
    }
    Ok(())
}
