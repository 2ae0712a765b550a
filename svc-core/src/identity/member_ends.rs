//! The end of a membership: deactivating members, reactivating them, and removing people permanently.
//!
//! A deactivated member may not use the service at all. The transaction that deactivates a member also ends
//! the delegation grants by which the member acts for others; every token that acts as the member or that the
//! member holds, including derived and exchanged tokens; the member's sessions; and the first of the member's
//! claims. If the member has very many claims, the remaining claims end in later steps. Projectors of the
//! event handle everything else that depends on the member. After the commit, every server rejects the
//! member's credentials and closes the member's WebSockets. Reactivating a member restores none of this.
//! Removing a person requires that the person is deactivated, and deletes the identifying data. The row and
//! the member's id remain, because the log refers to them.
//!
//! Members cannot deactivate or remove themselves, so these functions alone never leave a workspace without
//! an administrator.

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Result;
use crate::id::{MemberId, SessionId, TokenId};
use crate::identity::authority::check_is_not_caller;
use crate::identity::delegation::end_grants_of_delegate;
use crate::identity::members;
use crate::identity::sessions::end_member_sessions;
use crate::identity::tokens::{end_member_tokens, mark_listed_revoked};
use crate::log::event::{CachedEntryKind, Event, EventKind, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{Feature, Write};
use crate::text::DELETED_HANDLES;

pub(crate) fn feature() -> Feature {
    Feature::new().events(vec![
        EventKind::of::<MemberDeactivated>().invalidates(CachedEntryKind::Access),
        EventKind::of::<MemberReactivated>().invalidates(CachedEntryKind::Access),
        EventKind::of::<MemberRemoved>().invalidates(CachedEntryKind::Access),
    ])
}

/// A member was deactivated and may no longer use the service. Separate events end the member's claims.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MemberDeactivated {
    /// Id of the deactivated member.
    member_id: MemberId,
    /// Ids of the tokens that ended with the member. Tokens of the ended delegation grants are not included.
    token_ids: Vec<TokenId>,
    /// Ids of the ended sessions that acted as the member. Sessions in which the member acted for another
    /// member are not included.
    session_ids: Vec<SessionId>,
}

impl Event for MemberDeactivated {
    const KIND: &'static str = "MemberDeactivated";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let member = event.row_of("members", "member_id")?;
        member.set("deactivated_at", event.at()).set("changed_at", event.at()).keep()?;
        mark_listed_revoked(event)
    }
}

/// A deactivated member may use the service again. The member's tokens, sessions and claims were not
/// restored.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MemberReactivated {
    /// Id of the reactivated member.
    member_id: MemberId,
}

impl Event for MemberReactivated {
    const KIND: &'static str = "MemberReactivated";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let member = event.row_of("members", "member_id")?;
        member.clear("deactivated_at").set("changed_at", event.at()).keep()
    }
}

/// A person was permanently removed. The person's handle is free again.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct MemberRemoved {
    /// Id of the removed person.
    member_id: MemberId,
}

impl Event for MemberRemoved {
    const KIND: &'static str = "MemberRemoved";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let handle = event.text("member_id").map(|id| format!("{DELETED_HANDLES}{id}").into());
        let person = event.row_of("members", "member_id")?.set_known("handle", handle);
        let person = person.clear("display_name").set("removed_at", event.at());
        person.set("changed_at", event.at()).keep()?;
        replay_removal(event)
    }
}

/// Replays the effects of a removal: removes the person's identities at providers and the person's group
/// memberships.
fn replay_removal(event: &ReplayedEvent<'_>) -> Result<()> {
    let Some(person) = event.field("member_id") else { return Ok(()) };
    event.rows("oidc_identities", std::slice::from_ref(person), |identity| identity.remove())?;
    event.rows("scim_groups", &[], |group| {
        let key = group.key().iter().chain([person]).cloned();
        let place = event.row("scim_group_members", key)?;
        if place.exists() { place.remove() } else { Ok(()) }
    })
}

/// Deactivates an active member of the caller's workspace, and ends the member's credentials and claims.
///
/// If the member has very many claims, the remaining claims end in later steps, which call
/// [`Write::end_some`].
///
/// Fails with 403 `forbidden` if the member is the caller, or if the member has a token with instance-wide
/// capabilities that the caller's token lacks.
pub(crate) fn deactivate(cx: &mut Write<'_>, member: MemberId) -> Result<()> {
    check_is_not_caller(cx.caller(), member, "deactivate itself")?;
    end_grants_of_delegate(cx, member)?;
    let token_ids = end_member_tokens(cx, member)?;
    let session_ids = end_member_sessions(cx, member)?;
    members::mark_deactivated(cx, member)?;
    let event = MemberDeactivated { member_id: member, token_ids, session_ids };
    cx.emit(Subject::WORKSPACE.about(member), &event)?;
    Ok(())
}

/// Reactivates a deactivated member, which may then use the service again.
pub(crate) fn reactivate(cx: &mut Write<'_>, member: MemberId) -> Result<()> {
    members::mark_reactivated(cx, member)?;
    cx.emit(Subject::WORKSPACE.about(member), &MemberReactivated { member_id: member })?;
    Ok(())
}

/// Permanently removes a deactivated person.
///
/// Fails with 403 `forbidden` if the person is the caller.
pub(crate) fn remove(cx: &mut Write<'_>, member: MemberId) -> Result<()> {
    check_is_not_caller(cx.caller(), member, "remove itself")?;
    members::clear_identity(cx, member)?;
    cx.emit(Subject::WORKSPACE.about(member), &MemberRemoved { member_id: member })?;
    Ok(())
}
