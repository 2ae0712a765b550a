//! The end of a membership: deactivating a member, reactivating it, and removing it for good.
//!
//! A deactivated member may not use the service at all. The transaction that deactivates a member also ends
//! the delegation grants by which it acts for others; every token that acts as it or that it holds, including
//! derived and exchanged tokens; its sessions; and the first of its claims. If the member has very many
//! claims, the remaining claims end in later steps. Projectors of the event handle everything else that
//! depends on the member. After the commit, every server rejects its credentials and closes its WebSockets.
//! Reactivating a member restores none of that. Removing a person deactivates it and deletes its identifying
//! data; the row and its id stay, because the log names them.
//!
//! No member can deactivate or remove itself, so a workspace that is administered only by these functions
//! always keeps an administrator.

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Result;
use crate::id::{MemberId, SessionId, TokenId};
use crate::identity::authority::check_is_other;
use crate::identity::delegation::end_held_by;
use crate::identity::members;
use crate::identity::sessions::end_all_of;
use crate::identity::tokens::{end_of_member, end_tokens};
use crate::log::event::{Event, EventKind, Invalidates, Subject};
use crate::log::replay::Replayed;
use crate::op::{Feature, Write};
use crate::text::DELETED_HANDLES;

pub(crate) fn feature() -> Feature {
    Feature::new().events(vec![
        EventKind::of::<MemberDeactivated>().invalidates(Invalidates::Access),
        EventKind::of::<MemberReactivated>().invalidates(Invalidates::Access),
        EventKind::of::<MemberRemoved>().invalidates(Invalidates::Access),
    ])
}

/// A member was deactivated and may no longer use the service. Its claims end with separate events.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MemberDeactivated {
    /// The deactivated member.
    member_id: MemberId,
    /// The tokens that were revoked because the member ended, except tokens of delegation grants.
    token_ids: Vec<TokenId>,
    /// The sessions that ended with the member, except sessions made from one of the tokens.
    session_ids: Vec<SessionId>,
}

impl Event for MemberDeactivated {
    const KIND: &'static str = "MemberDeactivated";

    fn replay(event: &Replayed<'_>) -> Result<()> {
        let member = event.row_of("members", "member_id")?;
        member.set("deactivated_at", event.at()).set("changed_at", event.at()).keep()?;
        end_tokens(event)
    }
}

/// A deactivated member may use the service again. Its tokens, sessions and claims were not restored.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MemberReactivated {
    /// The reactivated member.
    member_id: MemberId,
}

impl Event for MemberReactivated {
    const KIND: &'static str = "MemberReactivated";

    fn replay(event: &Replayed<'_>) -> Result<()> {
        let member = event.row_of("members", "member_id")?;
        member.clear("deactivated_at").set("changed_at", event.at()).keep()
    }
}

/// A person was removed for good, and its handle became free.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MemberRemoved {
    /// The removed person.
    member_id: MemberId,
}

impl Event for MemberRemoved {
    const KIND: &'static str = "MemberRemoved";

    fn replay(event: &Replayed<'_>) -> Result<()> {
        let handle = event.text("member_id").map(|id| format!("{DELETED_HANDLES}{id}").into());
        let person = event.row_of("members", "member_id")?.set_known("handle", handle);
        let person = person.clear("display_name").set("removed_at", event.at());
        person.set("changed_at", event.at()).keep()?;
        forget(event)
    }
}

/// Replays the consequences of a removal: the person's identities at providers and group memberships are
/// removed.
fn forget(event: &Replayed<'_>) -> Result<()> {
    let Some(person) = event.field("member_id") else { return Ok(()) };
    event.rows("oidc_identities", std::slice::from_ref(person), |identity| identity.remove())?;
    event.rows("scim_groups", &[], |group| {
        let key = group.key().iter().chain([person]).cloned();
        let place = event.row("scim_group_members", key)?;
        if place.exists() { place.remove() } else { Ok(()) }
    })
}

/// Deactivates an active member of the caller's workspace, and ends its credentials and claims.
///
/// If the member has very many claims, the remaining ones end in later steps, which call [`Write::end_some`].
///
/// Fails with 403 `forbidden` if the member is the caller, or holds a token that reaches further beyond the
/// workspace than the caller.
pub(crate) fn deactivate(cx: &mut Write<'_>, member: MemberId) -> Result<()> {
    check_is_other(cx.caller(), member, "deactivate itself")?;
    end_held_by(cx, member)?;
    let token_ids = end_of_member(cx, member)?;
    let session_ids = end_all_of(cx, member)?;
    members::deactivate(cx, member)?;
    let event = MemberDeactivated { member_id: member, token_ids, session_ids };
    cx.emit(Subject::WORKSPACE.about(member), &event)?;
    Ok(())
}

/// Reactivates a deactivated member, which may then use the service again.
pub(crate) fn reactivate(cx: &mut Write<'_>, member: MemberId) -> Result<()> {
    members::reactivate(cx, member)?;
    cx.emit(Subject::WORKSPACE.about(member), &MemberReactivated { member_id: member })?;
    Ok(())
}

/// Removes a deactivated person for good.
///
/// Fails with 403 `forbidden` if the person is the caller.
pub(crate) fn remove(cx: &mut Write<'_>, member: MemberId) -> Result<()> {
    check_is_other(cx.caller(), member, "remove itself")?;
    members::clear_identity(cx, member)?;
    cx.emit(Subject::WORKSPACE.about(member), &MemberRemoved { member_id: member })?;
    Ok(())
}
