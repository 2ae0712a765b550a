//! The operation that revokes a token, and can also end the claims of the token's member.
//!
//! A claim outlives the token with which it was made, because its holder may have other tokens. When the last
//! live credential of a member is revoked, the member's claims can end as well: the first claims in the same
//! transaction, and any remaining claims in later steps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Result;
use crate::capability::Capability::TokenAdmin;
use crate::coordination::claims::{self, ClaimEnd, EndedClaims};
use crate::error::Code;
use crate::id::TokenId;
use crate::identity::apps::acts_for_installed_app;
use crate::identity::sessions::has_credential;
use crate::identity::tokens::{RevocableToken, check_token_exists};
use crate::op::{Answer, Effect, Feature, Read, Write, changing};
use crate::request::request;
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new().operations(
        "identity",
        vec![
            changing("revoke_token", Effect::Destructive)
                .in_resumed_steps(revoke_token)
                .title("Revoke a token")
                .when(
                    "Revoke a token and all tokens derived from it, permanently. Use `rotate_token` to only \
                     change its secret.",
                )
                .delete("/tokens/{token_id}")
                .needs(&[TokenAdmin])
                .refuses(&[Code::Forbidden])
                .example(|w| json!({"token_id": w.id("agent_token"), "claims": "keep"})),
        ],
    )
}

/// The effect of a revocation on the claims of the token's member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
#[non_exhaustive]
pub enum ClaimHandling {
    /// The claims continue until their leases lapse.
    #[default]
    Keep,
    /// The claims end, unless the member has another live credential.
    Release,
}

crate::argument::arguments! { ClaimHandling }

request! {
    /// Revokes a token of your workspace and all tokens derived from it, and returns the ids of the revoked
    /// tokens.
    ///
    /// The tokens stop working immediately.
    ///
    /// With `claims` = `release`, the claims of the member that the token acts as end too, unless the member
    /// still has another live token, its own session, or an active app installation. A token that a delegate
    /// uses for the member is a live token too. Revoking again changes nothing, except that `claims` takes
    /// effect.
    ///
    /// You can revoke every token, with one exception: a token with `operator:global` or `audit:read-global`
    /// can be revoked only with a token that has the same capability, or with itself. Each of these tokens
    /// needs `token:admin`.
    ///
    /// Fails with 403 `forbidden` if the token has `operator:global` or `audit:read-global`, your token does
    /// not have that capability, and the token is not your token.
    #[derive(Serialize)]
    struct RevokeToken {
        /// Id of the token.
        token_id: TokenId,
        /// Whether to `keep` the claims of the token's member, or to `release` them if it has no other live
        /// credential. Default: `keep`.
        #[serde(default)]
        claims: ClaimHandling,
    }

    revoke_token(token_id: TokenId) -> Revocation
}

/// The tokens that a revocation ended.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Revocation {
    /// Id of the token in the request.
    pub id: TokenId,
    /// Time at which the token was revoked.
    pub revoked_at: Time,
    /// Ids of the tokens that this call revoked: the token in the request and the live tokens derived from
    /// it.
    ///
    /// Empty if the token was revoked before.
    pub revoked_ids: Vec<TokenId>,
    /// Number of live claims of the token's member that the revocation ended.
    pub claims_released: i64,
    /// Whether the token's member still holds live claims.
    pub keeps_claims: bool,
}

/// The progress of a revocation that runs in several steps.
#[derive(Default, Serialize, Deserialize)]
struct RevocationProgress {
    /// The revoked tokens, and the time at which the requested one was revoked.
    revoked: Option<(Vec<TokenId>, Time)>,
    claims_released: i64,
}

/// Revokes the token in the first step, and ends claims in the first and all later steps.
///
/// Each step audits the claims that it has ended, because later steps may not run, or may find fewer claims.
fn revoke_token(
    cx: &mut Write<'_>,
    input: &RevokeToken,
    progress: &mut RevocationProgress,
) -> Result<Option<Revocation>> {
    let found = RevocableToken::load(cx, input.token_id)?;
    let member = found.member();
    let ending = found.ending();
    // Checked in each step: a member with a credential could begin claims in between.
    let releases = input.claims == ClaimHandling::Release
        && !has_credential(cx, member, &ending)?
        && !acts_for_installed_app(cx, member)?;
    let ended = match releases {
        true => claims::end_first_claims(cx, member, ClaimEnd::Released)?,
        false => EndedClaims { live_count: 0, has_more: false },
    };
    // A token that revokes itself is revoked in the last step, because it authorises the steps before.
    let is_own = cx.caller().token_id.is_some_and(|own| ending.contains(&own));
    let ends_now = progress.revoked.is_none() && !(is_own && ended.has_more);
    let ended_ids = if ends_now { ending } else { Vec::new() };
    if ends_now {
        progress.revoked = Some((ended_ids.clone(), found.revoke(cx)?));
    }
    progress.claims_released = progress.claims_released.saturating_add(ended.live_count);
    found.audit(cx, &ended_ids, ended.live_count)?;
    let keeps_claims = claims::has_live_claim(cx, member)?;
    let revoked = progress.revoked.clone().filter(|_| !ended.has_more);
    Ok(revoked.map(|(revoked_ids, revoked_at)| Revocation {
        id: input.token_id,
        revoked_at,
        revoked_ids,
        claims_released: progress.claims_released,
        keeps_claims,
    }))
}

impl Answer<RevokeToken> for Revocation {
    type Kept = Self;

    fn kept(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn answer_repeat(cx: &Read<'_>, _: &RevokeToken, kept: Self) -> Result<Self> {
        check_token_exists(cx, kept.id)?;
        Ok(kept)
    }
}
