//! Minting the first administrator's token in a workspace whose people join only by signing in.
//!
//! A session that was not made from a token never has `token:admin`, so in a workspace without tokens no
//! member could ever mint a token. If the operator allows it, such a session can mint the first
//! administrator's token. The request locks the head of the workspace's log, so if two sessions mint
//! simultaneously, the second request finds the token of the first one and fails.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::capability::Capability::TokenAdmin;
use crate::capability::{Capabilities, CapabilitySet};
use crate::error::{Error, Result};
use crate::id::TokenId;
use crate::identity::members::load_member;
use crate::identity::tokens::{MintedToken, NewToken, issue};
use crate::op::{CredentialKind, Write};

/// Mints the first administrator's token of your workspace for you, and returns the token.
///
/// The token's `secret` is shown only once. The token has the capabilities of `svc.human.admin`. Your
/// workspace must have no live token with `token:admin`, your session must not have been made from a token,
/// and the operator must have set `SVC_OIDC_FIRST_ADMIN=1`.
///
/// Fails with 403 `forbidden` if the operator does not allow this request, or if your session was made from a
/// token; 409 `wrong-state` if a live token of the workspace has `token:admin`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MintFirstAdmin {}

const LIVE_ADMIN_TOKEN: &str = "
    select t.id from members m join tokens t on t.member_id = m.id
    where m.workspace_id = $1 and m.deactivated_at is null and (t.capabilities & $2) <> 0
      and t.revoked_at is null and (t.expires_at is null or t.expires_at > $3)
    limit 1";

pub(super) fn mint_first_admin(cx: &mut Write<'_>, _: &MintFirstAdmin) -> Result<MintedToken> {
    let member_id = cx.caller().member_id()?;
    if !matches!(cx.caller().via, CredentialKind::Session { token: None, .. }) {
        return Err(Error::forbidden("the session was made from a token, which mints what it may"));
    }
    if !cx.settings().first_admin {
        return Err(Error::forbidden("the operator does not allow it: SVC_OIDC_FIRST_ADMIN is not 1"));
    }
    let admin: Capabilities = std::iter::once(TokenAdmin).collect();
    let live: Option<(TokenId,)> =
        cx.one(LIVE_ADMIN_TOKEN, &[&cx.caller().workspace_id, &admin, &cx.now()])?;
    if live.is_some() {
        return Err(Error::wrong_state("a live token of the workspace carries token:admin"));
    }
    let member = load_member(cx, member_id)?;
    issue(cx, &NewToken::new(&member, CapabilitySet::HumanAdmin.capabilities()))
}
