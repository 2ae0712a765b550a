//! Finding the member whom the verified claims of an identity provider identify.
//!
//! The steps, in order: find the member linked to the subject; otherwise find a person created in advance
//! under the verified email address, if the operator allows linking; otherwise create a person, if the
//! operator allows people to join by signing in; otherwise the sign-in fails. Each step rejects a deactivated
//! person, who therefore cannot join again under another handle. The server keeps no link to a permanently
//! removed person, who can join again as a new person.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::handle;
use crate::capability::{Capabilities, Capability};
use crate::error::{Error, Result};
use crate::id::{MemberId, WorkspaceId};
use crate::identity::enrol::{NewMember, check_not_group_handle, create_member};
use crate::identity::members::{Member, MemberKind, load_member, member_with_handle};
use crate::identity::sessions::{CapabilitySource, NewSession, open_session};
use crate::limits::{NAME_MAX, OIDC_SUBJECT_MAX};
use crate::log::event::{Event, RecordedEvent, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{Read, Surface, Write};
use crate::store::new_row;
use crate::text::Text;

/// Capabilities of a session that was opened by a sign-in at an identity provider.
const SESSION_CAPABILITIES: [Capability; 7] = [
    Capability::WorkspaceRead,
    Capability::EventSubscribe,
    Capability::SearchQuery,
    Capability::WorkspaceWrite,
    Capability::MessagePost,
    Capability::ThreadTransition,
    Capability::ArtifactUpload,
];

/// Highest number to append to a handle that is not free. After this number, random numbers are tried.
const HANDLE_NUMBER_MAX: u32 = 20;
/// Maximum number of random numbers to try. It is practically impossible that none of these handles is free.
const RANDOM_HANDLES_MAX: usize = 8;

/// A member signed in at an identity provider for the first time.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct IdentityLinked {
    /// Id of the member who signed in.
    member_id: MemberId,
    /// Issuer of the identity provider.
    issuer: String,
}

impl Event for IdentityLinked {
    const KIND: &'static str = "IdentityLinked";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("oidc_identities", "member_id issuer")?.made().set("linked_at", event.at()).keep()
    }
}

/// Verified claims of an identity provider that describe a person.
#[derive(Clone, Debug)]
pub struct ProviderClaims {
    /// Issuer of the identity provider.
    pub issuer: String,
    /// Permanent id of the person at the provider.
    pub subject: String,
    /// Email address of the person.
    pub email: Option<String>,
    /// Whether the provider has verified the email address.
    pub email_verified: bool,
    /// Name of the person to show to people.
    pub name: Option<String>,
}

impl ProviderClaims {
    /// Fails if the subject is empty, too long or contains a NUL character.
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

/// How the server found the member of a sign-in. Audit rows contain the name of the variant.
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
    let (member, found) = cx.within(workspace, None, |cx| find_or_create_member(cx, claims))?;
    cx.within(workspace, Some(member.id), |cx| {
        let capabilities: Capabilities = SESSION_CAPABILITIES.into_iter().collect();
        let expires_at = cx.now().plus(cx.settings().session_ttl);
        let about = json!({"member": found.name(), "issuer": claims.issuer});
        open_session(cx, member.id, CapabilitySource::Member(capabilities), expires_at, about)
    })
}

/// Returns the member that the claims identify, and how the member was found. Links the identity if it is
/// new.
fn find_or_create_member(cx: &mut Write<'_>, claims: &ProviderClaims) -> Result<(Member, MemberMatch)> {
    claims.check_subject()?;
    if let Some(member) = linked_member(cx, claims)? {
        check_may_sign_in(&member)?;
        return Ok((member, MemberMatch::Existing));
    }
    let (member, found) = match find_person_to_link(cx, claims)? {
        Some(member) => (member, MemberMatch::Linked),
        None => (create_person(cx, claims)?, MemberMatch::Provisioned),
    };
    link_identity(cx, &member, claims)?;
    Ok((member, found))
}

/// Fails if the member was deactivated.
fn check_may_sign_in(member: &Member) -> Result<()> {
    if member.active { Ok(()) } else { Err(Error::forbidden("the member was deactivated")) }
}

const MEMBER_OF_SUBJECT: &str = "
    select member_id from oidc_identities where workspace_id = $1 and issuer = $2 and subject = $3";

/// Returns the id of the member of `workspace` that is linked to the subject of the claims.
fn linked_member_id(
    cx: &Read<'_>,
    workspace: WorkspaceId,
    claims: &ProviderClaims,
) -> Result<Option<MemberId>> {
    let found: Option<(MemberId,)> =
        cx.one(MEMBER_OF_SUBJECT, &[&workspace, &claims.issuer, &claims.subject])?;
    Ok(found.map(|(member,)| member))
}

/// Returns whether the subject of the claims is already linked to a member of `workspace`.
pub(crate) fn has_signed_in(cx: &Read<'_>, workspace: WorkspaceId, claims: &ProviderClaims) -> Result<bool> {
    claims.check_subject()?;
    Ok(linked_member_id(cx, workspace, claims)?.is_some())
}

/// Returns the member linked to the subject of the claims, or `None` if no member is linked to it.
fn linked_member(cx: &Read<'_>, claims: &ProviderClaims) -> Result<Option<Member>> {
    let member = linked_member_id(cx, cx.caller().workspace_id, claims)?;
    member.map(|member| load_member(cx, member)).transpose()
}

const IDENTITY_OF_MEMBER: &str = "select member_id from oidc_identities where member_id = $1 and issuer = $2";

/// Returns the person to link: a person created in advance under the verified email address, without an
/// identity.
///
/// Returns `None` if the operator does not allow linking, or if the person already has an identity at the
/// provider. Fails if the member was deactivated, even if linking is not allowed, because the member must not
/// join again. The address must equal the handle, except in case.
fn find_person_to_link(cx: &Read<'_>, claims: &ProviderClaims) -> Result<Option<Member>> {
    let Some(email) = claims.verified_email() else { return Ok(None) };
    let Some(handle) = handle::directory_handle(email) else { return Ok(None) };
    let Some(member) = member_with_handle(cx, cx.caller().workspace_id, &handle)? else { return Ok(None) };
    check_may_sign_in(&member)?;
    let identity: Option<(MemberId,)> = cx.one(IDENTITY_OF_MEMBER, &[&member.id, &claims.issuer])?;
    let may_link = cx.settings().oidc_link_email && member.kind == MemberKind::Human && identity.is_none();
    Ok((may_link && handle == email.to_lowercase()).then_some(member))
}

/// Creates a person from the claims. Fails if the operator does not let people join by signing in.
fn create_person(cx: &mut Write<'_>, claims: &ProviderClaims) -> Result<Member> {
    if !cx.settings().oidc_auto_provision {
        return Err(Error::forbidden("you are no member of the workspace: ask its administrator"));
    }
    let name = claims.name.as_deref().map(str::trim);
    let display_name = name.and_then(|name| Text::<1, NAME_MAX>::new(name.to_owned()).ok());
    let handle =
        claims.verified_email().and_then(handle::from_email).unwrap_or_else(|| handle::from_name(name));
    let new = NewMember {
        workspace_id: cx.caller().workspace_id,
        handle: &find_free_handle(cx, handle)?,
        kind: MemberKind::Human,
        display_name: display_name.as_deref(),
        surface: Some(Surface::Session),
    };
    create_member(cx, &new)
}

/// Returns the handle if it is free, otherwise the handle with a number appended.
fn find_free_handle(cx: &Write<'_>, handle: String) -> Result<String> {
    let workspace = cx.caller().workspace_id;
    if check_not_group_handle(&handle).is_ok() && member_with_handle(cx, workspace, &handle)?.is_none() {
        return Ok(handle);
    }
    for number in 2..=HANDLE_NUMBER_MAX {
        let numbered = handle::with_number(&handle, number);
        if member_with_handle(cx, workspace, &numbered)?.is_none() {
            return Ok(numbered);
        }
    }
    for _ in 0..RANDOM_HANDLES_MAX {
        let numbered = handle::with_number(&handle, u32::from_le_bytes(cx.entropy().bytes()?));
        if member_with_handle(cx, workspace, &numbered)?.is_none() {
            return Ok(numbered);
        }
    }
    Err(Error::internal("no handle is free"))
}

/// Links a member to the subject of the claims, so that later sign-ins find the member.
fn link_identity(cx: &mut Write<'_>, member: &Member, claims: &ProviderClaims) -> Result<()> {
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

const UNLINK_MEMBER: &str = "delete from oidc_identities where member_id = $1";

/// Deletes the links of removed people to their identities at identity providers.
pub(super) fn unlink_removed_people(cx: &mut Write<'_>, removals: &[RecordedEvent]) -> Result<()> {
    let removed = removals.iter().filter_map(|event| event.subject.member_id);
    removed.into_iter().try_for_each(|member| cx.execute_any(UNLINK_MEMBER, &[&member]))
}
