//! Revokes a token, and can end the claims of a member that is left without a live credential.
//!
//! A claim outlives the token with which it was made, because its holder may have other tokens. When the last
//! one is revoked, the member's claims can end as well: the first ones in the same transaction, and the rest,
//! if there are many, in later steps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Result;
use crate::capability::Capability::TokenAdmin;
use crate::coordination::claims::{self, ClaimEnd, EndedClaims};
use crate::error::Code;
use crate::id::TokenId;
use crate::identity::apps::is_of_app;
use crate::identity::sessions::has_credential;
use crate::identity::tokens::{Revocable, check_exists};
use crate::op::{Answer, Effect, Feature, Read, Write, changing};
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
enum Claims {
    /// The claims continue until their leases lapse.
    #[default]
    Keep,
    /// The claims end, unless the member has another live credential.
    Release,
}

/// Revokes a token of your workspace with all tokens derived from it, and returns which ones ended.
///
/// The tokens stop working at once. Revoking again changes nothing, except for the effect of `claims`.
///
/// With `claims` = `release` the claims of the member that the token acts as end too, unless it still has a
/// live token, one that a delegate uses for it, its own session, or an app that gets it tokens.
///
/// You can revoke every token, whatever it carries, with one exception: a token with `operator:global` or
/// `audit:read-global` is revoked only with a token that carries the same, or with itself. Either needs
/// `token:admin`.
///
/// Fails with 403 `forbidden` if the token carries `operator:global` or `audit:read-global`, yours does not,
/// and it is not the one you call with.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RevokeToken {
    /// The token.
    token_id: TokenId,
    /// Whether to `keep` the claims of the token's member, or to `release` them if it has no other live
    /// credential. Default: `keep`.
    #[serde(default)]
    claims: Claims,
}

/// The tokens that a revocation ended.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
struct Revocation {
    /// The token in the request.
    id: TokenId,
    /// Time at which the token was revoked.
    revoked_at: Time,
    /// The tokens that this call ended: the token itself and the live ones derived from it.
    ///
    /// Empty if the token was revoked before.
    revoked_ids: Vec<TokenId>,
    /// Number of live claims of the token's member that the revocation ended.
    claims_released: i64,
    /// Whether the token's member still holds live claims.
    keeps_claims: bool,
}

/// The progress of a revocation that takes several steps.
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
    begun: &mut RevocationProgress,
) -> Result<Option<Revocation>> {
    let found = Revocable::load(cx, input.token_id)?;
    let member = found.member();
    let ending = found.ending();
    // Checked in each step: a member with a credential could begin claims in between.
    let releases =
        input.claims == Claims::Release && !has_credential(cx, member, &ending)? && !is_of_app(cx, member)?;
    let ended = match releases {
        true => claims::end_some(cx, member, ClaimEnd::Released)?,
        false => EndedClaims { live: 0, more: false },
    };
    // A token that revokes itself is revoked in the last step, because it authorises the steps before.
    let is_own = cx.caller().token_id.is_some_and(|own| ending.contains(&own));
    let ends_now = begun.revoked.is_none() && !(is_own && ended.more);
    let ended_ids = if ends_now { ending } else { Vec::new() };
    if ends_now {
        begun.revoked = Some((ended_ids.clone(), found.revoke(cx)?));
    }
    begun.claims_released = begun.claims_released.saturating_add(ended.live);
    found.audit(cx, &ended_ids, ended.live)?;
    let keeps_claims = claims::has_live(cx, member)?;
    let revoked = begun.revoked.clone().filter(|_| !ended.more);
    Ok(revoked.map(|(revoked_ids, revoked_at)| Revocation {
        id: input.token_id,
        revoked_at,
        revoked_ids,
        claims_released: begun.claims_released,
        keeps_claims,
    }))
}

impl Answer<RevokeToken> for Revocation {
    type Kept = Self;

    fn kept(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn answer_repeat(cx: &Read<'_>, _: &RevokeToken, kept: Self) -> Result<Self> {
        check_exists(cx, kept.id)?;
        Ok(kept)
    }
}
