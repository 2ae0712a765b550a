//! Exchanging a delegation grant: the delegate of the grant receives a token that acts as the subject.
//!
//! The new token is derived from the token that the delegate calls with: the new token ends with the
//! delegate's token, counts against the same rate limit, and has no additional capabilities.

use std::time::Duration;

use serde::Serialize;

use super::{DelegationGrant, grant_not_found_error, load_grant};
use crate::capability::Capabilities;
use crate::capability::Capability::TokenAdmin;
use crate::error::{Error, Result};
use crate::id::{GrantId, MemberId, TokenId};
use crate::identity::authority;
use crate::identity::members::load_member;
use crate::identity::tokens::{
    MintedToken, NewToken, Quotas, check_active, check_derivation_limits, check_installation_token_limit,
    issue, requested_expiry, require_non_empty,
};
use crate::limits::{DELEGATED_DEFAULT_SECS, DELEGATED_MAX_SECS, NAME_MAX};
use crate::op::{Caller, Read, Write};
use crate::request::request;
use crate::text::{Count, Text};
use crate::time::Time;

request! {
    /// Exchanges a delegation grant for a token that acts as the grant's subject. You must be the grant's
    /// delegate.
    ///
    /// The new token's `secret` is shown only once. The token expires after 15 minutes by default and an hour
    /// at most. It ends with the grant, and with the token that you call with.
    ///
    /// The audit trail records each request with the new token. The new token cannot be rotated: exchange the
    /// grant again.
    ///
    /// Fails with 403 `forbidden` if you call with a delegated token or without a token, if you request a
    /// capability that the grant or your token lacks, an expiry after the end of the grant or of your token,
    /// or quotas higher than yours, or if you are not the grant's delegate and have `token:admin`; 404
    /// `not-found` if you are not the grant's delegate and lack `token:admin`; 409 `wrong-state` if the grant
    /// has expired or was revoked, if its subject is deactivated, if your token was derived from a minted
    /// token in 16 steps, or if 1000 live tokens are derived from that minted token or from the grant, or
    /// belong to the app installation of your token.
    #[derive(Serialize)]
    #[schemars(extend("not" = {"required": ["expires_at", "expires_in_secs"]}))]
    pub(super) struct DelegateToken {
        /// The grant to exchange.
        grant_id: GrantId,
        /// Capabilities of the token. Default: all that both the grant and your token have.
        #[schemars(length(min = 1))]
        capabilities: Option<Capabilities>,
        /// A label to recognise the token by.
        label: Option<Text<1, NAME_MAX>>,
        /// Time at which the token expires, within an hour. Cannot be combined with `expires_in_secs`.
        expires_at: Option<Time>,
        /// Seconds until the token expires. Cannot be combined with `expires_at`.
        expires_in_secs: Option<Count<1, DELEGATED_MAX_SECS>>,
        /// Usage quotas, no higher than yours. The token's usage counts towards yours too. Default: yours.
        quotas: Option<Quotas>,
    }

    delegate_token(grant_id: GrantId) -> MintedToken
}

pub(super) fn delegate_token(cx: &mut Write<'_>, input: &DelegateToken) -> Result<MintedToken> {
    let caller = cx.caller().clone();
    let now = cx.now();
    let (delegate, parent_id) = member_and_undelegated_token(&caller)?;
    let grant = load_own_grant(cx, delegate, input.grant_id)?;
    check_grant_live(&grant, now)?;
    let asked = input.capabilities.map(|wanted| require_non_empty("capabilities", wanted)).transpose()?;
    let capabilities = authority::exchanged_capabilities(grant.capabilities, caller.capabilities, asked)?;
    let asked = requested_expiry(now, input.expires_at, input.expires_in_secs)?;
    let expires_at = capped_expiry(now, grant.expires_at, caller.expires_at, asked)?;
    check_active(&load_member(cx, grant.subject)?)?;
    check_derivation_limits(cx, parent_id, Some(grant.grant_id))?;
    check_installation_token_limit(cx, caller.installation)?;
    let mint = NewToken {
        workspace_id: grant.workspace_id,
        member_id: grant.subject,
        actor_id: delegate,
        parent_id: Some(parent_id),
        grant_id: Some(grant.grant_id),
        installation_id: caller.installation,
        label: input.label.as_deref(),
        capabilities,
        expires_at: Some(expires_at),
        quotas: input.quotas,
        quota_ceiling: None,
        surface: None,
    };
    issue(cx, &mint)
}

/// Returns the calling member and the id of the caller's token. Fails if the token is delegated.
fn member_and_undelegated_token(caller: &Caller) -> Result<(MemberId, TokenId)> {
    let member_id = caller.member_id()?;
    match caller.token_id {
        Some(token_id) if !caller.is_delegated() => Ok((member_id, token_id)),
        _ => Err(Error::forbidden("a grant is exchanged with a token of the delegate's own")),
    }
}

/// Loads a grant whose delegate is the caller.
///
/// For a grant with another delegate, only a token administrator learns that the grant exists.
fn load_own_grant(cx: &Read<'_>, delegate: MemberId, grant_id: GrantId) -> Result<DelegationGrant> {
    let grant = load_grant(cx, grant_id)?;
    if grant.delegate == delegate {
        return Ok(grant);
    }
    if cx.caller().capabilities.has(TokenAdmin) {
        return Err(Error::forbidden("only its delegate exchanges a grant"));
    }
    Err(grant_not_found_error())
}

/// Fails if the grant has expired or was revoked.
fn check_grant_live(grant: &DelegationGrant, now: Time) -> Result<()> {
    if grant.revoked_at.is_some() || grant.expires_at <= now {
        return Err(Error::wrong_state("the delegation grant has expired or was revoked"));
    }
    Ok(())
}

/// Returns the expiry time of an exchanged token.
///
/// The default is 15 minutes from now, or earlier if the grant or the calling token ends earlier. Fails if
/// the requested time is more than an hour away, or after the end of the grant or of the calling token.
fn capped_expiry(
    now: Time,
    grant_end: Time,
    token_end: Option<Time>,
    requested: Option<Time>,
) -> Result<Time> {
    let after = |secs: i64| now.plus(Duration::from_secs(secs.unsigned_abs()));
    let latest = token_end.map_or(grant_end, |token_end| token_end.min(grant_end));
    let Some(requested) = requested else { return Ok(latest.min(after(DELEGATED_DEFAULT_SECS))) };
    if requested > after(DELEGATED_MAX_SECS) {
        return Err(Error::in_field(
            "expires_at",
            format!("a delegated token lasts at most {DELEGATED_MAX_SECS} seconds"),
        ));
    }
    if requested > latest {
        return Err(Error::forbidden(format!(
            "a delegated token outlives neither its grant nor the token that it is exchanged with: {latest}"
        )));
    }
    Ok(requested)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;

    #[test]
    fn an_exchanged_token_ends_within_an_hour_and_with_grant_and_calling_token() {
        let at = |secs: i64| Time::from_micros(secs * 1_000_000);
        let far = at(1_000_000);
        let default = at(1_900);
        let most = at(4_600);
        // Each case: the end of the grant, the end of the calling token, the requested end, and the outcome.
        let table = [
            (far, None, None, Ok(default)),
            (far, Some(far), None, Ok(default)),
            (at(1_800), None, None, Ok(at(1_800))),
            (far, Some(at(1_700)), None, Ok(at(1_700))),
            (at(1_600), Some(at(1_700)), None, Ok(at(1_600))),
            (far, None, Some(at(1_001)), Ok(at(1_001))),
            (far, None, Some(most), Ok(most)),
            (far, None, Some(most.shifted(1)), Err(Code::Malformed)),
            (at(1_800), None, Some(at(1_800)), Ok(at(1_800))),
            (at(1_800), None, Some(at(1_801)), Err(Code::Forbidden)),
            (far, Some(at(1_800)), Some(at(1_801)), Err(Code::Forbidden)),
        ];
        for (grant, calling, asked, wanted) in table {
            let found = capped_expiry(at(1_000), grant, calling, asked).map_err(|error| error.code());
            assert_eq!(found, wanted, "{grant} {calling:?} {asked:?}");
        }
    }
}
