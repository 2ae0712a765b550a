//! Checks whether a caller may act under a claim.
//!
//! The caller must hold the live claim, and a lease id in the request must be current. A member with
//! `channel:admin` may release or hand off another member's live claim if the request contains the lease id.

use std::borrow::Cow;

use crate::Result;
use crate::capability::Capability::ChannelAdmin;
use crate::coordination::thread_row::{HeldClaim, Thread};
use crate::error::{Code, Error};
use crate::id::{LeaseId, MemberId};
use crate::op::Read;
use crate::time::Time;

/// Fails if the caller does not hold the live claim on `thread`, or if `lease_id` is not the id of the live
/// claim.
pub(in crate::coordination) fn check_holder(
    cx: &Read<'_>,
    thread: &Thread,
    lease_id: Option<LeaseId>,
) -> Result<()> {
    check_fence(thread.held, cx.caller().member_id()?, false, lease_id, cx.now()).map(|_| ())
}

/// Fails if the caller may not release or hand off the live claim on `thread`.
///
/// Also fails if `lease_id` is not the id of the live claim. Returns the claim if another member holds it.
pub(super) fn check_may_end_claim(
    cx: &Read<'_>,
    thread: &Thread,
    lease_id: Option<LeaseId>,
) -> Result<Option<HeldClaim>> {
    let caller = cx.caller();
    let may_end_others = caller.capabilities.has(ChannelAdmin);
    check_fence(thread.held, caller.member_id()?, may_end_others, lease_id, cx.now()).map_err(|error| {
        if error.code() != Code::ClaimNotHeld || thread.held.is_none() {
            return error;
        }
        let how = "a member with channel:admin can release it or hand it off by its claim_lease_id";
        Error::new(Code::ClaimNotHeld, format!("another member holds the claim on this thread; {how}"))
    })
}

/// Fails unless the caller holds the live claim, or may release or hand off another member's claim
/// (`may_end_others`).
///
/// The lease id is a fence, not a credential: it identifies the claim under which the caller wants to act.
/// The caller must also hold that claim, or have `may_end_others`. Returns the claim if another member holds
/// it.
fn check_fence(
    held: Option<HeldClaim>,
    caller: MemberId,
    may_end_others: bool,
    lease_id: Option<LeaseId>,
    now: Time,
) -> Result<Option<HeldClaim>> {
    let Some(held) = held else {
        return Err(if lease_id.is_some() {
            stale_claim_error("that claim is over")
        } else {
            not_held_error("no member holds a claim")
        });
    };
    if lease_id.is_some_and(|lease| lease != held.lease_id) {
        return Err(stale_claim_error("another claim is live"));
    }
    if lease_id.is_none() && held.holder != caller {
        return Err(not_held_error("another member holds the claim"));
    }
    if !held.is_live(now) {
        return Err(stale_claim_error(format!("the lease of the claim ended at {}", held.until)));
    }
    match (held.holder == caller, may_end_others) {
        (true, _) => Ok(None),
        (false, true) => Ok(Some(held)),
        (false, false) => Err(not_held_error("another member holds the claim")),
    }
}

/// Fails if the claim with this lease id has ended, regardless of which member held it.
pub(super) fn check_lease_is_current(thread: &Thread, lease_id: LeaseId) -> Result<()> {
    if thread.claim_lease_id == Some(lease_id) {
        Ok(())
    } else {
        Err(stale_claim_error("that claim is over"))
    }
}

fn stale_claim_error(why: impl Into<Cow<'static, str>>) -> Error {
    Error::new(Code::StaleClaim, why)
}

fn not_held_error(why: &str) -> Error {
    Error::new(Code::ClaimNotHeld, format!("{why} on this thread"))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn id<T: From<Uuid>>(n: u128) -> T {
        Uuid::from_u128(n).into()
    }

    fn at(secs: i64) -> Time {
        Time::from_micros(secs * 1_000_000)
    }

    #[test]
    fn only_the_holder_acts_and_only_under_the_live_claim() {
        let held = Some(HeldClaim { holder: id(1), lease_id: id(10), until: at(100) });
        let (holder, other): (MemberId, MemberId) = (id(1), id(2));
        let (live, old): (Option<LeaseId>, Option<LeaseId>) = (Some(id(10)), Some(id(9)));
        let before = at(99);
        let lapsed = at(100);
        let ok = None;
        let stale = Some(Code::StaleClaim);
        let not_held = Some(Code::ClaimNotHeld);
        let table = [
            (held, holder, None, before, ok),
            (held, holder, live, before, ok),
            (held, holder, old, before, stale),
            (held, holder, None, lapsed, stale),
            (held, holder, live, lapsed, stale),
            (held, holder, old, lapsed, stale),
            (held, other, None, before, not_held),
            (held, other, live, before, not_held),
            (held, other, old, before, stale),
            (held, other, None, lapsed, not_held),
            (held, other, live, lapsed, stale),
            (held, other, old, lapsed, stale),
            (None, holder, None, before, not_held),
            (None, holder, old, before, stale),
            (None, other, None, before, not_held),
            (None, other, old, before, stale),
        ];
        for (held, caller, named, now, wanted) in table {
            let found = check_fence(held, caller, false, named, now);
            assert_eq!(found.err().map(|error| error.code()), wanted, "{held:?} {caller} {named:?} {now}");
            // A caller with `may_take` needs the current lease id, and is otherwise rejected like any other
            // member.
            let found = check_fence(held, caller, true, named, now);
            let takes = (caller == other && named == live && now == before).then_some(held).flatten();
            let wanted = if takes.is_some() { ok } else { wanted };
            assert_eq!(found.as_ref().ok().copied().flatten(), takes, "{held:?} {caller} {named:?} {now}");
            assert_eq!(found.err().map(|error| error.code()), wanted, "{held:?} {caller} {named:?} {now}");
        }
    }
}
