//! Revoking a delegation grant, together with all of its tokens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DelegationRevoked, load_grant};
use crate::error::Result;
use crate::id::{GrantId, MemberId, TokenId};
use crate::identity::tokens::end_grant_tokens;
use crate::identity::workspaces::OwnWorkspaceId;
use crate::log::event::Subject;
use crate::op::{Answer, Read, Write};
use crate::request::request;
use crate::time::Time;

request! {
    /// Revokes a delegation grant and all of its tokens, and returns the ids of the revoked tokens.
    ///
    /// The grant's tokens, and all tokens derived from them, stop working immediately.
    ///
    /// Revoking a grant again changes nothing.
    #[derive(Serialize)]
    pub(super) struct RevokeDelegationGrant {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// The grant to revoke.
        grant_id: GrantId,
    }

    revoke_delegation_grant(grant_id: GrantId) -> GrantRevocation
}

/// Result of revoking a grant: the grant and the tokens that ended with it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct GrantRevocation {
    /// Id of the revoked grant.
    pub grant_id: GrantId,
    /// Time at which the grant was revoked.
    pub revoked_at: Time,
    /// Ids of the tokens that this request ended, including derived tokens. Empty if the grant was already
    /// revoked.
    pub token_ids: Vec<TokenId>,
}

const REVOKE_GRANT: &str = "update delegation_grants set revoked_at = $2 where id = $1";

pub(super) fn revoke_delegation_grant(
    cx: &mut Write<'_>,
    input: &RevokeDelegationGrant,
) -> Result<GrantRevocation> {
    input.workspace_id.of(cx)?;
    let grant = load_grant(cx, input.grant_id)?;
    let grant_id = grant.grant_id;
    if let Some(revoked_at) = grant.revoked_at {
        return Ok(GrantRevocation { grant_id, revoked_at, token_ids: Vec::new() });
    }
    let token_ids = end_grant(cx, grant_id, grant.subject)?;
    Ok(GrantRevocation { grant_id, revoked_at: cx.now(), token_ids })
}

impl Answer<RevokeDelegationGrant> for GrantRevocation {
    type Kept = Self;

    fn kept(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn answer_repeat(cx: &Read<'_>, _: &RevokeDelegationGrant, kept: Self) -> Result<Self> {
        load_grant(cx, kept.grant_id)?;
        Ok(kept)
    }
}

/// Ends a live grant and its tokens, and returns the ids of the revoked tokens.
fn end_grant(cx: &mut Write<'_>, grant_id: GrantId, subject: MemberId) -> Result<Vec<TokenId>> {
    let token_ids = end_grant_tokens(cx, grant_id)?;
    let event = DelegationRevoked { grant_id, token_ids };
    cx.emit(Subject::WORKSPACE.about(subject), &event)?;
    let now = cx.now();
    cx.execute(1, REVOKE_GRANT, &[&grant_id, &now])?;
    Ok(event.token_ids)
}

/// Query for the live grants of a delegate. Uses the index of grants by delegate.
const LIVE_GRANTS_OF_DELEGATE: &str = "
    select id, subject_id from delegation_grants
    where delegate_id = $1 and revoked_at is null and expires_at > $2 order by lsn";

/// Ends all live grants that allow a member to act for others, together with the tokens of these grants.
pub(crate) fn end_grants_of_delegate(cx: &mut Write<'_>, delegate: MemberId) -> Result<()> {
    let held: Vec<(GrantId, MemberId)> = cx.query(LIVE_GRANTS_OF_DELEGATE, &[&delegate, &cx.now()])?;
    held.into_iter().try_for_each(|(grant, subject)| end_grant(cx, grant, subject).map(drop))
}
