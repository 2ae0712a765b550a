//! Finding the member for the verified claims of an identity provider.
//!
//! The steps, in order: find the member linked to the subject; otherwise find a person created in advance
//! under the verified email address, if the operator allows linking; otherwise create a person, if the
//! operator allows that; otherwise the sign-in fails. Each step rejects a deactivated person, who therefore
//! cannot join again under another handle. A person who was removed for good is unknown and can join like any
//! other.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::handle;
use crate::capability::{Capabilities, Capability};
use crate::error::{Error, Result};
use crate::id::{MemberId, WorkspaceId};
use crate::identity::enrol::{NewMember, check_not_group_handle, enrol};
use crate::identity::members::{Member, MemberKind, load_member, member_called};
use crate::identity::sessions::{NewSession, SessionOf, open_session};
use crate::limits::{NAME_MAX, OIDC_SUBJECT_MAX};
use crate::log::event::{Event, Recorded, Subject};
use crate::log::replay::Replayed;
use crate::op::{Read, Surface, Write};
use crate::store::new_row;
use crate::text::Text;

/// The capabilities of a session after a sign-in at a provider.
const CAPABILITIES: [Capability; 7] = [
    Capability::WorkspaceRead,
    Capability::EventSubscribe,
    Capability::SearchQuery,
    Capability::WorkspaceWrite,
    Capability::MessagePost,
    Capability::ThreadTransition,
    Capability::ArtifactUpload,
];

/// Number of consecutive numbers that are appended to a taken handle before random numbers are tried.
const NUMBERED_MAX: u32 = 20;
/// Number of random numbers that are tried. That all of these handles are taken is practically impossible.
const RANDOM_MAX: usize = 8;

/// A member signed in at an identity provider for the first time.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct IdentityLinked {
    /// The member who signed in.
    member_id: MemberId,
    /// The identity provider's issuer.
    issuer: String,
}

impl Event for IdentityLinked {
    const KIND: &'static str = "IdentityLinked";

    fn replay(event: &Replayed<'_>) -> Result<()> {
        event.row_of("oidc_identities", "member_id issuer")?.made().set("linked_at", event.at()).keep()
    }
}

/// The verified claims of a provider about a person.
#[derive(Clone, Debug)]
pub struct ProviderClaims {
    /// The identity provider's issuer.
    pub issuer: String,
    /// The person's permanent id at the provider.
    pub subject: String,
    /// The person's email address.
    pub email: Option<String>,
    /// Whether the provider has verified the email address.
    pub email_verified: bool,
    /// The person's name, for people.
    pub name: Option<String>,
}

impl ProviderClaims {
    /// Fails if the subject is empty or cannot be stored.
    fn check_subject(&self) -> Result<()> {
        if self.subject.is_empty() || self.subject.len() > OIDC_SUBJECT_MAX || self.subject.contains('\0') {
            return Err(Error::forbidden("the identity provider sent no usable subject"));
        }
        Ok(())
    }

    /// Returns the email address, or `None` if the provider has not verified it.
    fn verified_email(&self) -> Option<&str> {
        self.email.as_deref().filter(|_| self.email_verified)
    }
}

/// Way in which the member of a sign-in was found. Audit rows contain its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberMatch {
    Existing,
    Linked,
    Provisioned,
}

impl MemberMatch {
    fn name(self) -> &'static str {
        match self {
            Self::Existing => "existing",
            Self::Linked => "linked",
            Self::Provisioned => "provisioned",
        }
    }
}

/// Signs in the member of `workspace` that the claims identify, and opens a session.
pub(crate) fn sign_in(
    cx: &mut Write<'_>,
    workspace: WorkspaceId,
    claims: &ProviderClaims,
) -> Result<NewSession> {
    let (member, found) = cx.within(workspace, None, |cx| resolve(cx, claims))?;
    cx.within(workspace, Some(member.id), |cx| {
        let capabilities: Capabilities = CAPABILITIES.into_iter().collect();
        let expires_at = cx.now().plus(cx.settings().session_ttl);
        let about = json!({"member": found.name(), "issuer": claims.issuer});
        open_session(cx, member.id, SessionOf::Member(capabilities), expires_at, about)
    })
}

fn resolve(cx: &mut Write<'_>, claims: &ProviderClaims) -> Result<(Member, MemberMatch)> {
    claims.check_subject()?;
    if let Some(member) = linked_member(cx, claims)? {
        check_active(&member)?;
        return Ok((member, MemberMatch::Existing));
    }
    let (member, found) = match member_with_email(cx, claims)? {
        Some(member) => (member, MemberMatch::Linked),
        None => (provision(cx, claims)?, MemberMatch::Provisioned),
    };
    link(cx, &member, claims)?;
    Ok((member, found))
}

fn check_active(member: &Member) -> Result<()> {
    if member.active { Ok(()) } else { Err(Error::forbidden("the member was deactivated")) }
}

const KNOWN: &str = "
    select member_id from oidc_identities where workspace_id = $1 and issuer = $2 and subject = $3";

fn linked_member_id(
    cx: &Read<'_>,
    workspace: WorkspaceId,
    claims: &ProviderClaims,
) -> Result<Option<MemberId>> {
    let found: Option<(MemberId,)> = cx.one(KNOWN, &[&workspace, &claims.issuer, &claims.subject])?;
    Ok(found.map(|(member,)| member))
}

/// Returns whether the subject was linked to a member of `workspace` before.
pub(crate) fn has_signed_in(cx: &Read<'_>, workspace: WorkspaceId, claims: &ProviderClaims) -> Result<bool> {
    claims.check_subject()?;
    Ok(linked_member_id(cx, workspace, claims)?.is_some())
}

/// Returns the member that was linked to the subject before, if any.
fn linked_member(cx: &Read<'_>, claims: &ProviderClaims) -> Result<Option<Member>> {
    let member = linked_member_id(cx, cx.caller().workspace_id, claims)?;
    member.map(|member| load_member(cx, member)).transpose()
}

const IDENTITY_OF: &str = "select member_id from oidc_identities where member_id = $1 and issuer = $2";

/// Returns the person who was created in advance under the verified email address and has no identity at the
/// provider yet.
///
/// Fails if that member was deactivated, even if linking is not allowed, because the member must not join
/// again. An address that differs from the handle in more than case links to no member.
fn member_with_email(cx: &Read<'_>, claims: &ProviderClaims) -> Result<Option<Member>> {
    let Some(email) = claims.verified_email() else { return Ok(None) };
    let Some(handle) = handle::directory_handle(email) else { return Ok(None) };
    let Some(member) = member_called(cx, cx.caller().workspace_id, &handle)? else { return Ok(None) };
    check_active(&member)?;
    let identity: Option<(MemberId,)> = cx.one(IDENTITY_OF, &[&member.id, &claims.issuer])?;
    let may_link = cx.settings().oidc_link_email && member.kind == MemberKind::Human && identity.is_none();
    Ok((may_link && handle == email.to_lowercase()).then_some(member))
}

fn provision(cx: &mut Write<'_>, claims: &ProviderClaims) -> Result<Member> {
    if !cx.settings().oidc_auto_provision {
        return Err(Error::forbidden("you are no member of the workspace: ask its administrator"));
    }
    let name = claims.name.as_deref().map(str::trim);
    let display_name = name.and_then(|name| Text::<1, NAME_MAX>::new(name.to_owned()).ok());
    let handle =
        claims.verified_email().and_then(handle::from_email).unwrap_or_else(|| handle::from_name(name));
    let new = NewMember {
        workspace_id: cx.caller().workspace_id,
        handle: &free_handle(cx, handle)?,
        kind: MemberKind::Human,
        display_name: display_name.as_deref(),
        surface: Some(Surface::Session),
    };
    enrol(cx, &new)
}

/// Returns the handle, with a number appended if the handle is taken.
fn free_handle(cx: &Write<'_>, handle: String) -> Result<String> {
    let workspace = cx.caller().workspace_id;
    if check_not_group_handle(&handle).is_ok() && member_called(cx, workspace, &handle)?.is_none() {
        return Ok(handle);
    }
    for number in 2..=NUMBERED_MAX {
        let numbered = handle::with_number(&handle, number);
        if member_called(cx, workspace, &numbered)?.is_none() {
            return Ok(numbered);
        }
    }
    for _ in 0..RANDOM_MAX {
        let numbered = handle::with_number(&handle, u32::from_le_bytes(cx.entropy().bytes()?));
        if member_called(cx, workspace, &numbered)?.is_none() {
            return Ok(numbered);
        }
    }
    Err(Error::internal("no handle is free"))
}

fn link(cx: &mut Write<'_>, member: &Member, claims: &ProviderClaims) -> Result<()> {
    cx.insert(&new_row!("insert into oidc_identities" {
        workspace_id: member.workspace_id,
        issuer: claims.issuer,
        subject: claims.subject,
        member_id: member.id,
        linked_at: cx.now(),
    }))?;
    let linked = IdentityLinked { member_id: member.id, issuer: claims.issuer.clone() };
    cx.emit(Subject::WORKSPACE.about(member.id), &linked)?;
    Ok(())
}

const UNLINK: &str = "delete from oidc_identities where member_id = $1";

/// Removes the identities of removed people at identity providers.
pub(super) fn forget(cx: &mut Write<'_>, events: &[Recorded]) -> Result<()> {
    let removed = events.iter().filter_map(|event| event.subject.member_id);
    removed.into_iter().try_for_each(|member| cx.execute_any(UNLINK, &[&member]))
}
