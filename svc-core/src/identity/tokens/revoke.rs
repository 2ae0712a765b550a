//! Revoking a token: it ends together with all tokens derived from it, each with a separate event.
//!
//! The operation is in `coordination`, because claims can end with the token.
//!
//! The tokens of a delegation grant, of an app installation or of a deactivated member are revoked together.
//! A single event ends the grant, the installation or the membership, and lists these tokens.

use serde_json::json;

use super::{Token, TokenRevoked, load_token};
use crate::capability::Capabilities;
use crate::error::Result;
use crate::id::{GrantId, InstallationId, MemberId, TokenId};
use crate::identity::authority;
use crate::log::event::Subject;
use crate::op::{Read, Write};
use crate::time::Time;

/// Query for a token and the live tokens derived from it. Selects nothing if the token is already revoked.
///
/// The tokens derived from an ended token are skipped: they do not outlive the ended token, and
/// authentication checks for revoked ancestors.
const LIVE_TOKEN_WITH_DERIVED: &str = "
    with recursive ending (id, member_id, lsn) as (
        select id, member_id, lsn from tokens where id = $1 and revoked_at is null
        union all
        select t.id, t.member_id, t.lsn from ending e join tokens t on t.parent_id = e.id
        where t.revoked_at is null and coalesce(t.expires_at, 9223372036854775807) > $2
    )
    select id, member_id from ending order by lsn";

const REVOKE_TOKEN: &str = "update tokens set revoked_at = $2 where id = $1";

/// A token that the caller may revoke, and the tokens that will end with it.
pub(crate) struct RevocableToken {
    token: Token,
    ending: Vec<(TokenId, MemberId)>,
}

impl RevocableToken {
    /// Loads a token of the caller's workspace, and the tokens that will end with it.
    ///
    /// Fails with 403 `forbidden` if the token has an instance-wide capability that the caller's token lacks.
    pub fn load(cx: &Read<'_>, token_id: TokenId) -> Result<Self> {
        let token = load_token(cx, token_id)?;
        authority::check_may_revoke(cx.caller(), token.id, token.capabilities)?;
        let ending = cx.query(LIVE_TOKEN_WITH_DERIVED, &[&token.id, &cx.now()])?;
        Ok(Self { token, ending })
    }

    /// Returns the member that the token acts as.
    pub fn member(&self) -> MemberId {
        self.token.member_id
    }

    /// Returns the ids of the token and of the live tokens derived from it. Empty if the token is already
    /// revoked.
    pub fn ending(&self) -> Vec<TokenId> {
        self.ending.iter().map(|(token_id, _)| *token_id).collect()
    }

    /// Revokes the tokens, and returns the time at which the loaded token was revoked.
    pub fn revoke(&self, cx: &mut Write<'_>) -> Result<Time> {
        let token = &self.token;
        let now = cx.now();
        for (token_id, member_id) in &self.ending {
            let event = TokenRevoked { token_id: *token_id, member_id: *member_id, revoked_with: token.id };
            cx.emit(Subject::WORKSPACE.about(*member_id), &event)?;
            cx.execute(1, REVOKE_TOKEN, &[token_id, &now])?;
        }
        Ok(token.revoked_at.unwrap_or(now))
    }

    /// Writes an audit row with the tokens and the claims that one transaction ended. Writes nothing if none
    /// ended.
    pub fn audit(&self, cx: &mut Write<'_>, revoked_ids: &[TokenId], claims_released: i64) -> Result<()> {
        if revoked_ids.is_empty() && claims_released == 0 {
            return Ok(());
        }
        let metadata = json!({"token_id": self.token.id, "member_id": self.token.member_id,
            "revoked_ids": revoked_ids, "claims_released": claims_released});
        cx.audit("token.revoke", metadata)
    }
}

const LIVE_TOKENS_OF_GRANT: &str =
    "select id from tokens where grant_id = $1 and revoked_at is null and expires_at > $2 order by lsn";

/// Revokes the live tokens of a delegation grant. Expired tokens are not changed: they have already ended,
/// and many of them may exist.
const REVOKE_TOKENS_OF_GRANT: &str =
    "update tokens set revoked_at = $2 where grant_id = $1 and revoked_at is null and expires_at > $2";

/// Revokes the live tokens of a delegation grant, including tokens derived from them, and returns the tokens'
/// ids.
///
/// The caller must emit an event that lists these tokens and invalidates their cache entries.
pub(crate) fn end_grant_tokens(cx: &mut Write<'_>, grant_id: GrantId) -> Result<Vec<TokenId>> {
    let now = cx.now();
    let ending: Vec<(TokenId,)> = cx.query(LIVE_TOKENS_OF_GRANT, &[&grant_id, &now])?;
    cx.execute_any(REVOKE_TOKENS_OF_GRANT, &[&grant_id, &now])?;
    Ok(ending.into_iter().map(|(token_id,)| token_id).collect())
}

/// Query for the live tokens of an installation. Uses the index of installations.
const LIVE_TOKENS_OF_INSTALLATION: &str = "
    select id from tokens
    where installation_id = $1 and revoked_at is null
      and coalesce(expires_at, 9223372036854775807) > $2 order by lsn";

const REVOKE_TOKENS_OF_INSTALLATION: &str = "
    update tokens set revoked_at = $2
    where installation_id = $1 and revoked_at is null
      and coalesce(expires_at, 9223372036854775807) > $2";

/// Revokes the live tokens of an app installation, including derived tokens, and returns the tokens' ids.
///
/// The caller must emit an event that lists these tokens and invalidates their cache entries.
pub(crate) fn end_installation_tokens(cx: &mut Write<'_>, id: InstallationId) -> Result<Vec<TokenId>> {
    let now = cx.now();
    let ending: Vec<(TokenId,)> = cx.query(LIVE_TOKENS_OF_INSTALLATION, &[&id, &now])?;
    cx.execute_any(REVOKE_TOKENS_OF_INSTALLATION, &[&id, &now])?;
    Ok(ending.into_iter().map(|(token_id,)| token_id).collect())
}

/// Query for the live tokens that act as a member or that the member holds. Uses two indexes.
const LIVE_TOKENS_OF_MEMBER: &str = "
    select id, capabilities from (
        select t.id, t.capabilities, t.lsn from tokens t
        where t.member_id = $1 and t.revoked_at is null and coalesce(t.expires_at, 9223372036854775807) > $2
        union
        select t.id, t.capabilities, t.lsn from tokens t
        where t.actor_id = $1 and t.revoked_at is null and coalesce(t.expires_at, 9223372036854775807) > $2
    ) live order by live.lsn";

/// Fails if a live token of a member has an instance-wide capability that the caller's token lacks.
pub(crate) fn check_may_revoke_tokens_of(cx: &Read<'_>, member_id: MemberId) -> Result<()> {
    let live: Vec<(TokenId, Capabilities)> = cx.query(LIVE_TOKENS_OF_MEMBER, &[&member_id, &cx.now()])?;
    live.iter()
        .try_for_each(|(token_id, carries)| authority::check_may_revoke(cx.caller(), *token_id, *carries))
}

/// Revokes the live tokens that act as a member or that the member holds, and returns the tokens' ids.
///
/// Tokens derived from one of these tokens act as the same member or are held by the member, so the derived
/// tokens end too. Fails if one of the tokens has an instance-wide capability that the caller's token lacks.
/// The caller must emit an event that lists these tokens and invalidates their cache entries.
pub(crate) fn end_member_tokens(cx: &mut Write<'_>, member_id: MemberId) -> Result<Vec<TokenId>> {
    let now = cx.now();
    let ending: Vec<(TokenId, Capabilities)> = cx.query(LIVE_TOKENS_OF_MEMBER, &[&member_id, &now])?;
    for (token_id, capabilities) in &ending {
        authority::check_may_revoke(cx.caller(), *token_id, *capabilities)?;
        cx.execute(1, REVOKE_TOKEN, &[token_id, &now])?;
    }
    Ok(ending.into_iter().map(|(token_id, _)| token_id).collect())
}
