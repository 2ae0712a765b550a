//! Reports that an administrator released or handed off another member's claim, by a notice, an inbox item
//! and an audit row.

use serde_json::json;

use crate::Result;
use crate::conversation::inbox::{self, InboxReason, Recipients};
use crate::coordination::notices::{NewNotice, post_notice_with_event};
use crate::coordination::thread_row::{HeldClaim, Thread};
use crate::id::MemberId;
use crate::identity::members::load_member;
use crate::op::{Read, Write};

/// Notifies the holder that the caller released or handed off the holder's claim, and writes an audit row.
///
/// The server posts a notice on the thread and adds an item to the holder's inbox. `receiver` is the member
/// that received the claim, or `None` if the claim was released.
pub(super) fn notify_former_holder(
    cx: &mut Write<'_>,
    thread: &Thread,
    ended_claim: HeldClaim,
    receiver: Option<MemberId>,
) -> Result<()> {
    let administrator = cx.caller().member_id()?;
    let handle = |cx: &Read<'_>, member| load_member(cx, member).map(|member| member.handle);
    let holder = handle(cx, ended_claim.holder)?;
    let by = handle(cx, administrator)?;
    let (name, action, text) = match receiver {
        None => ("claim_released", "claim.release", format!("{by} has released the claim of {holder}")),
        Some(to) => {
            let to = handle(cx, to)?;
            (
                "claim_handed_off",
                "claim.hand_off",
                format!("{by} has handed off the claim of {holder} to {to}"),
            )
        }
    };
    let HeldClaim { holder: member_id, lease_id: claim_lease_id, .. } = ended_claim;
    let data = json!({"member_id": member_id, "claim_lease_id": claim_lease_id, "to_member_id": receiver,
        "administrator_id": administrator});
    let data = data.as_object().cloned().unwrap_or_default();
    let (recorded, message) =
        post_notice_with_event(cx, thread.id, None, &NewNotice { name, text: &text, data })?;
    inbox::notify(cx, &recorded, InboxReason::ClaimTaken, Some(message), Recipients::Members(&[member_id]))?;
    let metadata = json!({"thread_id": thread.id, "member_id": member_id, "claim_lease_id": claim_lease_id,
        "to_member_id": receiver});
    cx.audit(action, metadata)
}
