//! Revoking: a grant ends with all of its tokens.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DelegationRevoked, load_grant};
use crate::error::Result;
use crate::id::{GrantId, TokenId, WorkspaceId};
use crate::identity::tokens::end_of_grant;
use crate::identity::workspaces::own_workspace;
use crate::log::event::Subject;
use crate::op::Write;
use crate::time::Time;

/// Revokes a delegation grant with all of its tokens, and returns which ones ended.
///
/// They stop working at once, and so do tokens derived from them. Revoking a grant again changes nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RevokeDelegationGrant {
    /// The workspace. It must be yours.
    workspace_id: WorkspaceId,
    /// The grant.
    grant_id: GrantId,
}

/// What the end of a grant ended.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct GrantRevocation {
    /// The grant.
    grant_id: GrantId,
    /// When it was revoked.
    revoked_at: Time,
    /// Its tokens that ended now, with those derived from them. Empty if it was revoked before.
    token_ids: Vec<TokenId>,
}

const REVOKE: &str = "update delegation_grants set revoked_at = $2 where id = $1";

pub(super) fn revoke_delegation_grant(
    cx: &mut Write<'_>,
    input: &RevokeDelegationGrant,
) -> Result<GrantRevocation> {
    own_workspace(cx, input.workspace_id)?;
    let grant = load_grant(cx, input.grant_id)?;
    let grant_id = grant.grant_id;
    if let Some(revoked_at) = grant.revoked_at {
        return Ok(GrantRevocation { grant_id, revoked_at, token_ids: Vec::new() });
    }
    let token_ids = end_of_grant(cx, grant_id)?;
    let event = DelegationRevoked { grant_id, token_ids };
    cx.emit(Subject::WORKSPACE.about(grant.subject), &event)?;
    let revoked_at = cx.now();
    cx.execute(1, REVOKE, &[&grant_id, &revoked_at])?;
    Ok(GrantRevocation { grant_id, revoked_at, token_ids: event.token_ids })
}
