//! Attenuating: deriving a narrower token from the token that the caller authenticates with.
//!
//! A derived token has only capabilities of its parent, does not expire later than its parent, and ends when
//! its parent is revoked. The number of tokens derived from one minted token is limited, because revoking the
//! minted token ends all of these tokens in one transaction.

use serde::Serialize;

use super::mint::{LIFETIME_MAX_SECS, NewToken, issue, requested_expiry, require_non_empty};
use super::{MintedToken, Quotas};
use crate::capability::Capabilities;
use crate::error::{Error, Result};
use crate::id::{GrantId, InstallationId, TokenId};
use crate::identity::authority;
use crate::limits::{
    DERIVED_TOKENS_MAX, GRANT_TOKENS_MAX, INSTALLATION_TOKENS_MAX, NAME_MAX, TOKEN_DEPTH_MAX,
};
use crate::op::{Read, Write};
use crate::request::request;
use crate::text::{Count, Text};
use crate::time::Time;

request! {
    /// Derives a narrower token from the token that you call with, and returns the new token.
    ///
    /// The new token's `secret` is shown only once. The token has only the listed capabilities, cannot
    /// administer tokens, expires no later than yours, and ends when yours is revoked.
    ///
    /// Create such a token for a helper that needs fewer capabilities than you.
    ///
    /// Fails with 403 `forbidden` if you do not call with a token, or request a capability that your token
    /// lacks, `token:admin`, or an expiry later or quotas higher than those of your token; 409 `wrong-state`
    /// if your token was derived from a minted token in 16 steps, or if 1000 live tokens are derived from
    /// that minted token, or from your delegation grant, or belong to your app installation: revoke some of
    /// these tokens, or let them expire earlier.
    #[derive(Serialize)]
    #[schemars(extend("not" = {"required": ["expires_at", "expires_in_secs"]}))]
    pub(super) struct AttenuateToken {
        /// Capabilities of the token: some of yours, without `token:admin`.
        #[schemars(length(min = 1))]
        capabilities: Capabilities,
        /// A label to recognise the token by.
        label: Option<Text<1, NAME_MAX>>,
        /// Time at which the token expires. Default: when yours does. Cannot be combined with
        /// `expires_in_secs`.
        expires_at: Option<Time>,
        /// Seconds until the token expires. Cannot be combined with `expires_at`.
        expires_in_secs: Option<Count<1, LIFETIME_MAX_SECS>>,
        /// Usage quotas, no higher than yours. The token's usage counts towards yours too. Default: yours.
        quotas: Option<Quotas>,
    }

    attenuate_token(capabilities: Capabilities) -> MintedToken
}

pub(super) fn attenuate_token(cx: &mut Write<'_>, input: &AttenuateToken) -> Result<MintedToken> {
    let caller = cx.caller().clone();
    let now = cx.now();
    let member_id = caller.member_id()?;
    let Some(parent_id) = caller.token_id else {
        return Err(Error::forbidden("only a token can be narrowed, and the request has none"));
    };
    let capabilities = require_non_empty("capabilities", input.capabilities)?;
    let asked = requested_expiry(now, input.expires_at, input.expires_in_secs)?;
    authority::check_may_derive(caller.capabilities, capabilities)?;
    let expires_at = capped_expiry(caller.expires_at, asked)?;
    check_derivation_limits(cx, parent_id, caller.grant)?;
    check_installation_token_limit(cx, caller.installation)?;
    let mint = NewToken {
        workspace_id: caller.workspace_id,
        member_id,
        actor_id: caller.actor.unwrap_or(member_id),
        parent_id: Some(parent_id),
        grant_id: caller.grant,
        installation_id: caller.installation,
        label: input.label.as_deref(),
        capabilities,
        expires_at,
        quotas: input.quotas,
        quota_ceiling: None,
        surface: None,
    };
    issue(cx, &mint)
}

/// Query for the minted token that `$1` was derived from, and the number of derivations between the two
/// tokens.
const MINTED_ORIGIN: &str = "
    with recursive above (id, parent_id, depth) as (
        select id, parent_id, cast(0 as bigint) from tokens where id = $1
        union all
        select t.id, t.parent_id, a.depth + 1 from above a join tokens t on t.id = a.parent_id
    )
    select id, depth from above where parent_id is null";

/// Query that counts the live tokens derived from `$1`, directly or indirectly, up to `$3`.
const COUNT_LIVE_DERIVED_TOKENS: &str = "
    with recursive below (id) as (
        select t.id from tokens t
        where t.parent_id = $1 and t.revoked_at is null
          and coalesce(t.expires_at, 9223372036854775807) > $2
        union all
        select t.id from below b join tokens t on t.parent_id = b.id
        where t.revoked_at is null and coalesce(t.expires_at, 9223372036854775807) > $2
    )
    select count(*) from (select id from below limit $3) counted";

/// Query that counts the live tokens of the delegation grant `$1`, up to `$3`. All tokens of a grant have an
/// expiry time.
const COUNT_LIVE_TOKENS_OF_GRANT: &str = "
    select count(*) from (
        select id from tokens where grant_id = $1 and revoked_at is null and expires_at > $2 limit $3
    ) counted";

/// Fails if no more tokens may be derived from a token: too many derivations, or too many live tokens.
///
/// The number of live tokens is limited for each minted token and for each delegation grant, because they all
/// end together.
pub(crate) fn check_derivation_limits(
    cx: &Read<'_>,
    parent_id: TokenId,
    grant_id: Option<GrantId>,
) -> Result<()> {
    let (origin, depth): (TokenId, i64) =
        cx.one(MINTED_ORIGIN, &[&parent_id])?.ok_or_else(|| Error::internal("a token has no root"))?;
    if depth >= TOKEN_DEPTH_MAX {
        return Err(Error::wrong_state(format!(
            "the token is {TOKEN_DEPTH_MAX} derivations below the minted one; derive from an earlier one"
        )));
    }
    let live: Option<(i64,)> =
        cx.one(COUNT_LIVE_DERIVED_TOKENS, &[&origin, &cx.now(), &DERIVED_TOKENS_MAX])?;
    if live.is_some_and(|(live,)| live >= DERIVED_TOKENS_MAX) {
        return Err(Error::wrong_state(format!(
            "{DERIVED_TOKENS_MAX} live tokens derive from the same minted token; revoke some of them"
        )));
    }
    let Some(grant_id) = grant_id else { return Ok(()) };
    let live: Option<(i64,)> =
        cx.one(COUNT_LIVE_TOKENS_OF_GRANT, &[&grant_id, &cx.now(), &GRANT_TOKENS_MAX])?;
    if live.is_some_and(|(live,)| live >= GRANT_TOKENS_MAX) {
        return Err(Error::wrong_state(format!(
            "the delegation grant has {GRANT_TOKENS_MAX} live tokens; let some of them expire"
        )));
    }
    Ok(())
}

/// Query that counts the live tokens of the app installation `$1`, up to `$3`.
const COUNT_LIVE_TOKENS_OF_INSTALLATION: &str = "
    select count(*) from (
        select id from tokens
        where installation_id = $1 and revoked_at is null
          and coalesce(expires_at, 9223372036854775807) > $2 limit $3
    ) counted";

/// Fails if the app installation already has the maximum number of live tokens.
///
/// The number is limited because all tokens of an installation end together.
pub(crate) fn check_installation_token_limit(
    cx: &Read<'_>,
    installation_id: Option<InstallationId>,
) -> Result<()> {
    let Some(id) = installation_id else { return Ok(()) };
    let live: Option<(i64,)> =
        cx.one(COUNT_LIVE_TOKENS_OF_INSTALLATION, &[&id, &cx.now(), &INSTALLATION_TOKENS_MAX])?;
    if live.is_some_and(|(live,)| live >= INSTALLATION_TOKENS_MAX) {
        return Err(Error::wrong_state(format!(
            "the app installation has {INSTALLATION_TOKENS_MAX} live tokens; revoke some of them"
        )));
    }
    Ok(())
}

/// Returns the expiry time of a derived token: the requested time, or by default that of the parent token.
///
/// Fails if the requested time is after the parent's.
fn capped_expiry(parent_end: Option<Time>, requested: Option<Time>) -> Result<Option<Time>> {
    match (parent_end, requested) {
        (Some(parent_end), Some(requested)) if requested > parent_end => Err(Error::forbidden(format!(
            "a derived token cannot outlive its parent, which ends at {parent_end}"
        ))),
        (parent_end, requested) => Ok(requested.or(parent_end)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::identity::tokens::tests::{at, code};

    #[test]
    fn a_derived_token_ends_no_later() {
        assert_eq!(capped_expiry(None, None).unwrap(), None);
        assert_eq!(capped_expiry(Some(at(5)), None).unwrap(), Some(at(5)));
        assert_eq!(capped_expiry(None, Some(at(7))).unwrap(), Some(at(7)));
        assert_eq!(capped_expiry(Some(at(5)), Some(at(4))).unwrap(), Some(at(4)));
        assert_eq!(code(capped_expiry(Some(at(5)), Some(at(6)))), Code::Forbidden);
    }
}
