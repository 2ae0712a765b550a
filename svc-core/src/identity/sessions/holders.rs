//! Finding members who currently have a capability, through their own token or their own session.

use crate::Result;
use crate::capability::{Capabilities, Capability};
use crate::id::{MemberId, SessionId, TokenId};
use crate::limits::APPROVERS_NOTIFIED_MAX;
use crate::op::Read;

/// Returns the active members of the workspace who have a live credential with a capability, in order of
/// joining.
///
/// The result contains no more than `APPROVERS_NOTIFIED_MAX` members.
pub(crate) fn members_with_capability(cx: &Read<'_>, capability: Capability) -> Result<Vec<MemberId>> {
    let wanted: Capabilities = std::iter::once(capability).collect();
    let found: Vec<(MemberId,)> = cx.query(
        MEMBERS_WITH_CAPABILITY,
        &[&cx.caller().workspace_id, &wanted, &cx.now(), &APPROVERS_NOTIFIED_MAX],
    )?;
    Ok(found.into_iter().map(|(id,)| id).collect())
}

const MEMBERS_WITH_CAPABILITY: &str = "
    select m.id from members m where m.workspace_id = $1 and m.deactivated_at is null and (
        exists (
            select 1 from tokens t where t.member_id = m.id and t.grant_id is null
            and (t.capabilities & $2) <> 0 and t.revoked_at is null
            and (t.expires_at is null or t.expires_at > $3))
        or exists (
            select 1 from sessions s where s.member_id = m.id
            and (s.capabilities & $2) <> 0 and s.ended_at is null and s.expires_at > $3))
    order by m.lsn limit $4";

/// Returns whether a member has a live credential, without regard to the tokens in `ignored_tokens`.
///
/// A credential is a token that acts as the member, whether the member or a delegate holds the token, or a
/// session of the member that was not made from a token. A session that was made from a token counts as that
/// token.
pub(crate) fn has_credential(cx: &Read<'_>, member: MemberId, ignored_tokens: &[TokenId]) -> Result<bool> {
    let limit = i64::try_from(ignored_tokens.len()).unwrap_or(i64::MAX).saturating_add(1);
    let tokens: Vec<(TokenId,)> = cx.query(LIVE_TOKENS_OF_MEMBER, &[&member, &cx.now(), &limit])?;
    if tokens.iter().any(|(token,)| !ignored_tokens.contains(token)) {
        return Ok(true);
    }
    let session: Option<(SessionId,)> = cx.one(OWN_SESSION, &[&member, &cx.now()])?;
    Ok(session.is_some())
}

/// Query for the live tokens that act as a member. Uses the index of members.
const LIVE_TOKENS_OF_MEMBER: &str = "
    select t.id from tokens t
    where t.member_id = $1 and t.revoked_at is null
      and coalesce(t.expires_at, 9223372036854775807) > $2 limit $3";

const OWN_SESSION: &str = "
    select s.id from sessions s
    where s.member_id = $1 and s.ended_at is null and s.token_id is null and s.expires_at > $2 limit 1";
