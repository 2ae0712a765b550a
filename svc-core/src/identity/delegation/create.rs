//! Creating delegation grants, by which an administrator allows one member to act for another.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use super::{DelegationGrant, DelegationGranted, load_grant, policy};
use crate::capability::{Capabilities, Capability};
use crate::error::{Error, Result};
use crate::id::{GrantId, MemberId};
use crate::identity::authority;
use crate::identity::members::{Member, load_member};
use crate::identity::tokens::{EXPIRY, LIFETIME_MAX_SECS, check_active, requested_expiry, require_non_empty};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::GRANT_PURPOSE_MAX;
use crate::log::event::Subject;
use crate::op::{Answer, Read, Write};
use crate::request::request;
use crate::text::{Count, Prose};
use crate::time::Time;

request! {
    /// Lets a member act for another member of your workspace, and returns the delegation grant.
    ///
    /// The delegate exchanges the grant for tokens with `delegate_token`. The grant can lend
    /// `workspace:read`, `workspace:write`, `message:post`, `thread:transition`, `artifact:upload`,
    /// `search:query` and `event:subscribe`, if your own token has them. The workspace's policy limits the
    /// grant's life (see `get_delegation_policy`).
    ///
    /// Actions by the delegate are attributed to both members.
    ///
    /// Fails with 403 `forbidden` if your token lacks a capability that you would lend; 409 `wrong-state` if
    /// the subject or the delegate is deactivated, if both are the same member, or if the subject is an app.
    #[derive(Serialize)]
    #[schemars(extend("allOf" = [
        {"oneOf": [{"required": ["expires_at"]}, {"required": ["expires_in_secs"]}]},
    ]))]
    pub(super) struct CreateDelegationGrant {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// The member to act for, which cannot be an app.
        subject: MemberId,
        /// The member who will act for the subject.
        delegate: MemberId,
        /// Maximum capabilities of the delegate's tokens.
        #[schemars(schema_with = "lendable_schema")]
        capabilities: Capabilities,
        /// Purpose of the grant. Every member of the workspace can read it in the event.
        purpose: Prose<1, GRANT_PURPOSE_MAX>,
        /// Time at which the grant ends. Either this or `expires_in_secs` is required.
        expires_at: Option<Time>,
        /// Seconds until the grant ends.
        expires_in_secs: Option<Count<1, LIFETIME_MAX_SECS>>,
    }

    create_delegation_grant(
        subject: MemberId,
        delegate: MemberId,
        capabilities: Capabilities,
        purpose: Prose<1, GRANT_PURPOSE_MAX>
    ) -> DelegationGrant
}

fn lendable_schema(_: &mut SchemaGenerator) -> Schema {
    let names = authority::LENDABLE_CAPABILITIES.map(Capability::name);
    json_schema!({"type": "array", "minItems": 1, "items": {"type": "string", "enum": names}})
}

pub(super) fn create_delegation_grant(
    cx: &mut Write<'_>,
    input: &CreateDelegationGrant,
) -> Result<DelegationGrant> {
    let workspace_id = input.workspace_id.of(cx)?;
    let capabilities = require_non_empty("capabilities", input.capabilities)?;
    authority::check_may_lend(cx.caller().capabilities, capabilities)?;
    let expires_at = checked_expiry(cx, input)?;
    let (subject, delegate) = load_subject_and_delegate(cx, input)?;
    let grant_id: GrantId = cx.new_id()?;
    let event = DelegationGranted {
        grant_id,
        subject: subject.id,
        delegate: delegate.id,
        capabilities,
        expires_at,
        purpose: input.purpose.to_string(),
    };
    let lsn = cx.emit(Subject::WORKSPACE.about(subject.id), &event)?.lsn;
    let grant = DelegationGrant {
        grant_id,
        workspace_id,
        subject: subject.id,
        delegate: delegate.id,
        capabilities,
        purpose: event.purpose,
        created_by: cx.caller().member,
        created_at: cx.now(),
        expires_at,
        revoked_at: None,
        lsn,
    };
    grant.with_new_row(|row| cx.insert(row))?;
    Ok(grant)
}

impl Answer<CreateDelegationGrant> for DelegationGrant {
    type Kept = GrantId;

    fn kept(&self) -> Option<GrantId> {
        Some(self.grant_id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &CreateDelegationGrant, id: GrantId) -> Result<Self> {
        load_grant(cx, id)
    }
}

/// Returns the time at which the grant will end. Fails if that time is later than the policy allows.
fn checked_expiry(cx: &Read<'_>, input: &CreateDelegationGrant) -> Result<Time> {
    let asked = requested_expiry(cx.now(), input.expires_at, input.expires_in_secs)?;
    let expires_at =
        asked.ok_or_else(|| Error::in_fields(&EXPIRY, "expected one of them: when the grant ends"))?;
    let policy = policy::load_policy(cx, cx.caller().workspace_id)?;
    let latest = cx.now().plus(policy.max_life());
    if expires_at > latest {
        let field = if input.expires_at.is_some() { "expires_at" } else { "expires_in_secs" };
        let days = policy.ceiling_days;
        return Err(Error::in_field(
            field,
            format!("a delegation grant of this workspace lasts at most {days} days: until {latest}"),
        ));
    }
    Ok(expires_at)
}

/// Loads the subject and the delegate. Fails if no grant can let the delegate act for the subject.
fn load_subject_and_delegate(cx: &Read<'_>, input: &CreateDelegationGrant) -> Result<(Member, Member)> {
    if input.subject == input.delegate {
        return Err(Error::wrong_state("subject and delegate are the same: a member is lent to another"));
    }
    let subject = load_member(cx, input.subject)?;
    let delegate = load_member(cx, input.delegate)?;
    check_active(&subject)?;
    check_active(&delegate)?;
    if subject.is_app() {
        return Err(Error::wrong_state("no member can act for an app, whose authority is its installation"));
    }
    Ok((subject, delegate))
}
