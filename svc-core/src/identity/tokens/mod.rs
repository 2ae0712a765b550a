//! Tokens: minting, narrowing, rotating and revoking them.
//!
//! A secret consists of 256 random bits; it is shown once, and only its hash is stored. [`super::authority`]
//! decides how much authority a caller can grant. A derived token never outlives its parent: revoking a token
//! revokes all tokens derived from it. Only members who may list tokens can see their labels: events and
//! audit rows, which have more readers, do not contain them. This file defines and reads tokens and their
//! events; each change has a file of its own, and `replay` derives rows from the events.

mod quotas;
mod mint;
mod attenuate;
mod revoke;
mod rotate;
mod replay;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::capability::Capabilities;
use crate::capability::Capability::TokenAdmin;
use crate::error::{Code, Error, Result};
use crate::id::{GrantId, InstallationId, MemberId, TokenId};
use crate::identity::members::load_member;
use crate::identity::workspaces::OwnWorkspaceId;
use crate::log::event::{Event, EventKind, Invalidates};
use crate::log::replay::Replayed;
use crate::op::{Answer, Feature, Read, Records, destructive, read, secret_was_shown, write};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::store::columns;
use crate::time::Time;
use attenuate::attenuate_token;
pub(crate) use attenuate::{check_room_for_derived, check_room_of_installation};
use mint::mint_token;
pub(crate) use mint::{
    EXPIRY, LIFE_MAX_SECS, NewToken, check_active, check_takes_tokens, expiry, issue, named_surface,
    new_secret, new_secret_of, not_empty, wanted,
};
pub use mint::{MINT_TOKEN, MintToken};
pub use quotas::Quotas;
pub(crate) use replay::{capability_bits, end_tokens, quota_of};
pub(crate) use revoke::{
    Revocable, check_reaches_no_further, end_of_grant, end_of_installation, end_of_member,
};
use rotate::rotate_token;

/// An API token, without its secret, as lists return it.
#[derive(Debug, Serialize, JsonSchema)]
struct Token {
    /// The token's id.
    id: TokenId,
    /// The member that the token acts as.
    member_id: MemberId,
    /// The label set by the member who minted the token.
    label: Option<String>,
    /// The token's capabilities.
    capabilities: Capabilities,
    /// When the token was minted.
    created_at: Time,
    /// When the token expires; null if it does not expire.
    expires_at: Option<Time>,
    /// When the token was revoked; null if it was not.
    revoked_at: Option<Time>,
    /// The token that this one was derived from, and ends with; null if it was minted.
    parent_id: Option<TokenId>,
    /// The delegation grant that was exchanged for the token; null if the token is the member's own.
    delegation_grant_id: Option<GrantId>,
    /// The app installation that the token belongs to and ends with; null if it is not an app's.
    installation_id: Option<InstallationId>,
    /// The token's usage quotas; null if only the limits of the service apply.
    quotas: Option<Quotas>,
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

/// A new token, with its secret.
#[derive(Serialize, JsonSchema)]
pub struct MintedToken {
    /// The token's id.
    pub id: TokenId,
    /// The secret to send as `Authorization: Bearer`. It is shown only once and never stored.
    pub secret: String,
    /// The member that the token acts as.
    pub member_id: MemberId,
    /// The token's label.
    pub label: Option<String>,
    /// The token's capabilities.
    pub capabilities: Capabilities,
    /// When the token was minted.
    pub created_at: Time,
    /// When the token expires; null if it does not expire.
    pub expires_at: Option<Time>,
    /// The token that this one was derived from; null if it was minted.
    pub parent_id: Option<TokenId>,
    /// The token's usage quotas; null if only the limits of the service apply.
    pub quotas: Option<Quotas>,
}

impl<I> Answer<I> for MintedToken {
    type Kept = TokenId;
    const REFUSES: &'static [Code] = &[Code::IdempotencyReplayed];

    fn kept(&self) -> Option<TokenId> {
        Some(self.id)
    }

    fn answer_repeat(_: &Read<'_>, _: &I, id: TokenId) -> Result<Self> {
        Err(secret_was_shown(id))
    }
}

/// A token was minted or derived.
#[derive(Debug, Serialize, JsonSchema)]
struct TokenMinted {
    /// The new token.
    token_id: TokenId,
    /// The member that the token acts as.
    member_id: MemberId,
    /// The member who holds the token; absent if it is the member that the token acts as.
    #[serde(skip_serializing_if = "Option::is_none")]
    actor_id: Option<MemberId>,
    /// The token's capabilities.
    capabilities: Capabilities,
    /// When the token expires; null if it does not expire.
    expires_at: Option<Time>,
    /// The token that this one was derived from; null if it was minted.
    parent_id: Option<TokenId>,
    /// The delegation grant that the token, or the token it was derived from, was exchanged for; absent if it
    /// is the member's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    grant_id: Option<GrantId>,
    /// The app installation that the token belongs to; absent if it is not an app's.
    #[serde(skip_serializing_if = "Option::is_none")]
    installation_id: Option<InstallationId>,
    /// The token's usage quotas; absent if only the limits of the service apply.
    #[serde(skip_serializing_if = "Option::is_none")]
    quotas: Option<Quotas>,
}

impl Event for TokenMinted {
    const KIND: &'static str = "TokenMinted";

    fn replay(event: &Replayed<'_>) -> Result<()> {
        replay::minted(event)
    }
}

/// A token was revoked, either directly or together with the token that it was derived from.
#[derive(Debug, Serialize, JsonSchema)]
struct TokenRevoked {
    /// The revoked token.
    token_id: TokenId,
    /// The member that the token acted as.
    member_id: MemberId,
    /// The token that the request revoked; differs from `token_id` for derived tokens.
    revoked_with: TokenId,
}

impl Event for TokenRevoked {
    const KIND: &'static str = "TokenRevoked";

    fn replay(event: &Replayed<'_>) -> Result<()> {
        event.field("token_id").map_or(Ok(()), |token| replay::end(event, token))
    }
}

/// A token's secret was replaced; the old one stopped working at once.
#[derive(Debug, Serialize, JsonSchema)]
struct TokenRotated {
    /// The rotated token.
    token_id: TokenId,
    /// The member that the token acts as.
    member_id: MemberId,
}

impl Event for TokenRotated {
    const KIND: &'static str = "TokenRotated";

    /// Changes no row: only the secret is replaced, and no event contains secrets.
    fn replay(_: &Replayed<'_>) -> Result<()> {
        Ok(())
    }
}

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "identity",
            vec![
                write(MINT_TOKEN, mint_token)
                    .title("Mint a token")
                    .when(
                        "Mint a token for a member of the workspace. Use `attenuate_token` to narrow your \
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
                        "Create a restricted token from your own, for a helper. Use `mint_token` for \
                         another member's token.",
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
            EventKind::of::<TokenRevoked>().invalidates(Invalidates::Access),
            EventKind::of::<TokenRotated>().invalidates(Invalidates::Access),
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

/// Returns the tokens of a member of your workspace, in the order in which they were minted.
///
/// Tokens that have expired or were revoked are included. Secrets are never returned.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListTokens {
    /// The workspace. It must be yours.
    workspace_id: OwnWorkspaceId,
    /// The member that the tokens act as.
    member_id: MemberId,
    cursor: Option<Cursor>,
    limit: Option<Limit>,
}

const OF_MEMBER: &str = concat!(
    "select ",
    token_columns!(),
    " from tokens t where t.member_id = $1 and t.lsn > $2 order by t.lsn limit $3"
);

fn list_tokens(cx: &Read<'_>, input: &ListTokens) -> Result<Page<Token>> {
    input.workspace_id.of(cx)?;
    let member = load_member(cx, input.member_id)?;
    let rows = cx.rows(OF_MEMBER, &[&member.id, &Cursor::after(input.cursor), &rows_to_read(input.limit)])?;
    Ok(Page::of(rows, input.limit, |token: &Token| token.lsn))
}

const BY_ID: &str =
    concat!("select ", token_columns!(), " from tokens t where t.id = $1 and t.workspace_id = $2");

/// Fails with 404 `not-found` if the caller's workspace does not contain the token.
pub(crate) fn check_exists(cx: &Read<'_>, token_id: TokenId) -> Result<()> {
    load_token(cx, token_id).map(|_| ())
}

/// Loads a token of the caller's workspace.
fn load_token(cx: &Read<'_>, token_id: TokenId) -> Result<Token> {
    cx.one(BY_ID, &[&token_id, &cx.caller().workspace_id])?.ok_or_else(no_such_token)
}

fn no_such_token() -> Error {
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
