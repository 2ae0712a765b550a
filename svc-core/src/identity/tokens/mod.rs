//! Tokens: minting, narrowing, rotating and revoking API tokens.
//!
//! A secret consists of 256 random bits. The secret is shown once, and only the hash is stored.
//! [`super::authority`] decides which capabilities a caller can grant. A derived token never outlives its
//! parent: revoking a token revokes all tokens derived from it. Only members who may list tokens can see the
//! labels of tokens: events and audit rows, which have more readers, do not contain labels. This file defines
//! and reads tokens and their events. Each operation that changes tokens is in a separate file, and `replay`
//! derives rows from the events.

pub(crate) mod quotas;
pub(crate) mod mint;
pub(crate) mod attenuate;
mod revoke;
pub(crate) mod rotate;
mod replay;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::capability::Capabilities;
use crate::capability::Capability::TokenAdmin;
use crate::error::{Code, Error, Result};
use crate::id::{GrantId, InstallationId, MemberId, TokenId};
use crate::identity::members::load_member;
use crate::identity::workspaces::OwnWorkspaceId;
use crate::log::event::{CachedEntryKind, Event, EventKind};
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Feature, Read, Records, destructive, read, secret_shown_once_error, write};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::request;
use crate::store::columns;
use crate::time::Time;
use attenuate::attenuate_token;
pub(crate) use attenuate::{check_derivation_limits, check_installation_token_limit};
use mint::mint_token;
pub(crate) use mint::{
    EXPIRY, LIFETIME_MAX_SECS, NewToken, check_active, check_can_have_tokens, issue, new_secret,
    new_secret_with_prefix, requested_capabilities, requested_expiry, require_non_empty, with_surface,
};
pub use quotas::Quotas;
pub(crate) use replay::{capability_bits, mark_listed_revoked, quota_of};
pub(crate) use revoke::{
    RevocableToken, check_may_revoke_tokens_of, end_grant_tokens, end_installation_tokens, end_member_tokens,
};
use rotate::rotate_token;

/// An API token as lists return it, without its secret.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Token {
    /// Id of the token.
    pub id: TokenId,
    /// The member that the token acts as.
    pub member_id: MemberId,
    /// Label of the token; null if the member who minted the token set none.
    pub label: Option<String>,
    /// Capabilities of the token.
    pub capabilities: Capabilities,
    /// Time at which the token was minted.
    pub created_at: Time,
    /// Time at which the token expires; null if the token does not expire.
    pub expires_at: Option<Time>,
    /// Time at which the token was revoked; null if the token was not revoked.
    pub revoked_at: Option<Time>,
    /// Id of the parent token, from which this token was derived and with which it ends; null if it was
    /// minted.
    pub parent_id: Option<TokenId>,
    /// Id of the delegation grant that was exchanged for the token; null if no delegation is involved.
    pub delegation_grant_id: Option<GrantId>,
    /// Id of the app installation with which the token ends; null if the token is not an app's token.
    pub installation_id: Option<InstallationId>,
    /// Usage quotas of the token; null if only the service's limits apply.
    pub quotas: Option<Quotas>,
    #[serde(skip)]
    lsn: i64,
}

columns! {
    token_columns: Token as t {
        id,
        member_id,
        label,
        capabilities,
        created_at,
        expires_at,
        revoked_at,
        parent_id,
        delegation_grant_id = grant_id,
        installation_id,
        quotas = quota,
        lsn,
    }
}

/// A new token with its secret.
#[derive(Serialize, JsonSchema)]
#[non_exhaustive]
pub struct MintedToken {
    /// Id of the token.
    pub id: TokenId,
    /// The secret to send as `Authorization: Bearer`. The secret is shown only once and never stored.
    pub secret: String,
    /// The member that the token acts as.
    pub member_id: MemberId,
    /// Label of the token; null if it has none.
    pub label: Option<String>,
    /// Capabilities of the token.
    pub capabilities: Capabilities,
    /// Time at which the token was minted.
    pub created_at: Time,
    /// Time at which the token expires; null if the token does not expire.
    pub expires_at: Option<Time>,
    /// Id of the parent token, from which this token was derived; null if this token was minted.
    pub parent_id: Option<TokenId>,
    /// Usage quotas of the token; null if only the service's limits apply.
    pub quotas: Option<Quotas>,
}

crate::request::debug_without_secret! { MintedToken }

impl<I> Answer<I> for MintedToken {
    type Kept = TokenId;
    const REFUSES: &'static [Code] = &[Code::IdempotencyReplayed];

    fn kept(&self) -> Option<TokenId> {
        Some(self.id)
    }

    fn answer_repeat(_: &Read<'_>, _: &I, id: TokenId) -> Result<Self> {
        Err(secret_shown_once_error(id))
    }
}

/// A token was minted or derived.
#[derive(Debug, Serialize, JsonSchema)]
struct TokenMinted {
    /// Id of the new token.
    token_id: TokenId,
    /// The member that the token acts as.
    member_id: MemberId,
    /// The member who holds the token; absent if the token acts as the member who holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    actor_id: Option<MemberId>,
    /// Capabilities of the token.
    capabilities: Capabilities,
    /// Time at which the token expires; null if the token does not expire.
    expires_at: Option<Time>,
    /// Id of the parent token, from which this token was derived; null if this token was minted.
    parent_id: Option<TokenId>,
    /// Id of the delegation grant under which the token acts; absent if the token acts without delegation.
    #[serde(skip_serializing_if = "Option::is_none")]
    grant_id: Option<GrantId>,
    /// Id of the app installation with which the token ends; absent if the token is not an app's token.
    #[serde(skip_serializing_if = "Option::is_none")]
    installation_id: Option<InstallationId>,
    /// Usage quotas of the token; absent if only the service's limits apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    quotas: Option<Quotas>,
}

impl Event for TokenMinted {
    const KIND: &'static str = "TokenMinted";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        replay::replay_minted(event)
    }
}

/// A token was revoked, either directly or together with its parent token.
#[derive(Debug, Serialize, JsonSchema)]
struct TokenRevoked {
    /// Id of the revoked token.
    token_id: TokenId,
    /// The member that the token acted as.
    member_id: MemberId,
    /// Id of the token that the request revoked; differs from `token_id` if the event's token is derived from
    /// it.
    revoked_with: TokenId,
}

impl Event for TokenRevoked {
    const KIND: &'static str = "TokenRevoked";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.field("token_id").map_or(Ok(()), |token| replay::mark_revoked(event, token))
    }
}

/// The secret of a token was replaced. The old secret stopped working immediately.
#[derive(Debug, Serialize, JsonSchema)]
struct TokenRotated {
    /// Id of the rotated token.
    token_id: TokenId,
    /// The member that the token acts as.
    member_id: MemberId,
}

impl Event for TokenRotated {
    const KIND: &'static str = "TokenRotated";

    /// Changes no row: rotating replaces only the secret, and events never contain secrets.
    fn replay(_: &ReplayedEvent<'_>) -> Result<()> {
        Ok(())
    }
}

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "identity",
            vec![
                write("mint_token", mint_token)
                    .title("Mint a token")
                    .when(
                        "Mint a token for a member of the workspace. Use `attenuate_token` to restrict your \
                         own token.",
                    )
                    .post("/workspaces/{workspace_id}/members/{member_id}/tokens")
                    .needs(&[TokenAdmin])
                    .created()
                    .refuses(&[Code::Forbidden, Code::WrongState])
                    .example(|w| {
                        json!({
                            "workspace_id": w.id("workspace"), "member_id": w.id("agent"),
                            "label": "night shift", "capability_set": "svc.agent.worker",
                            "expires_in_secs": 86_400,
                        })
                    }),
                read("list_tokens", list_tokens)
                    .title("List a member's tokens")
                    .when("List the tokens of a member, for example to find one for `revoke_token`.")
                    .detailed()
                    .get("/workspaces/{workspace_id}/members/{member_id}/tokens")
                    .needs(&[TokenAdmin])
                    .example(|w| {
                        json!({"workspace_id": w.id("workspace"), "member_id": w.id("agent"), "limit": 10})
                    }),
                destructive("rotate_token", rotate_token)
                    .title("Rotate a token's secret")
                    .when(
                        "Replace the secret of a token, such as one that may have leaked. The new `secret` \
                         is shown only once.",
                    )
                    .post("/tokens/{token_id}/rotate")
                    .refuses(&[Code::Forbidden, Code::NotFound, Code::WrongState])
                    .example(|w| json!({"token_id": w.id("agent_token")})),
                write("attenuate_token", attenuate_token)
                    .title("Create a restricted token")
                    .when(
                        "Derive a restricted token from your own, such as for a helper. Use `mint_token` to \
                         make a token for any member.",
                    )
                    .post("/tokens/attenuate")
                    .created()
                    .refuses(&[Code::Forbidden, Code::WrongState])
                    .example(|_| {
                        json!({"capabilities": ["workspace:read", "event:subscribe"], "label": "dashboard",
                            "expires_in_secs": 3600})
                    }),
            ],
        )
        .events(vec![
            EventKind::of::<TokenMinted>(),
            EventKind::of::<TokenRevoked>().invalidates(CachedEntryKind::Access),
            EventKind::of::<TokenRotated>().invalidates(CachedEntryKind::Access),
        ])
        .records(vec![
            Records::table("tokens", "id")
                .erased_first()
                .after("app_installations")
                .stays()
                .ids("id workspace_id member_id actor_id parent_id grant_id installation_id")
                .ints("capabilities quota lsn")
                .texts("label")
                .times("created_at expires_at revoked_at")
                .secrets("secret_hash")
                .proven(
                    "id",
                    "member_id actor_id parent_id grant_id installation_id capabilities quota created_at \
                     expires_at revoked_at lsn",
                )
                .unproven("label", "is for those who may list tokens, and in no event"),
        ])
}

request! {
    /// Returns the tokens of a member of your workspace, in the order in which they were minted.
    ///
    /// The result includes expired and revoked tokens.
    ///
    /// Secrets are never returned.
    struct ListTokens {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// The member that the tokens act as.
        member_id: MemberId,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_tokens(member_id: MemberId) -> Page<Token>
}

const TOKENS_OF_MEMBER: &str = concat!(
    "select ",
    token_columns!(),
    " from tokens t where t.member_id = $1 and t.lsn > $2 order by t.lsn limit $3"
);

fn list_tokens(cx: &Read<'_>, input: &ListTokens) -> Result<Page<Token>> {
    input.workspace_id.of(cx)?;
    let member = load_member(cx, input.member_id)?;
    let rows =
        cx.rows(TOKENS_OF_MEMBER, &[&member.id, &Cursor::after(input.cursor), &rows_to_read(input.limit)])?;
    Ok(Page::of(rows, input.limit, |token: &Token| token.lsn))
}

const TOKEN_BY_ID: &str =
    concat!("select ", token_columns!(), " from tokens t where t.id = $1 and t.workspace_id = $2");

/// Fails with 404 `not-found` unless the token is in the caller's workspace.
pub(crate) fn check_token_exists(cx: &Read<'_>, token_id: TokenId) -> Result<()> {
    load_token(cx, token_id).map(|_| ())
}

/// Loads a token by its id. Fails with 404 `not-found` unless the token is in the caller's workspace.
fn load_token(cx: &Read<'_>, token_id: TokenId) -> Result<Token> {
    cx.one(TOKEN_BY_ID, &[&token_id, &cx.caller().workspace_id])?.ok_or_else(token_not_found_error)
}

fn token_not_found_error() -> Error {
    Error::not_found("token")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the time `micros` microseconds after the epoch.
    pub(super) fn at(micros: i64) -> Time {
        Time::from_micros(micros)
    }

    /// Returns the code of an error.
    pub(super) fn code<T: std::fmt::Debug>(result: Result<T>) -> Code {
        result.unwrap_err().code()
    }
}
