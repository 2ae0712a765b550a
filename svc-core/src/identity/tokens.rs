//! Tokens: how authority is granted, narrowed, renewed and revoked.
//!
//! A secret is 256 random bits; it is shown once, and only its hash is stored. [`super::authority`] decides
//! how much may be granted. A derived token never outlives its parent: revoking a token revokes all tokens
//! derived from it. Labels are only for members who may list tokens: events and audit rows, which more people
//! read, do not contain them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;

use super::authority;
use super::members::{Member, MemberKind, load_member, named_surface};
use super::workspaces::own_workspace;
use crate::capability::Capability::TokenAdmin;
use crate::capability::{Capabilities, CapabilitySet};
use crate::error::{Code, Error, Result};
use crate::id::{GrantId, MemberId, TokenId, WorkspaceId};
use crate::limits::{DERIVED_TOKENS_MAX, NAME_MAX, TOKEN_DEPTH_MAX};
use crate::log::event::{Event, EventKind, Invalidates, Subject};
use crate::op::{Feature, Read, Surface, TypedOperation, Write, destructive, read, secret_hash, write};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::store::{columns, new_row};
use crate::text::{Count, Text};
use crate::time::Time;

/// The prefix of every secret.
const SECRET_PREFIX: &str = "svc_";

/// Longest lifetime that can be requested, in seconds: ten years of 365 days.
const LIFE_MAX_SECS: i64 = 315_360_000;

/// An API token as lists return it, without its secret.
#[derive(Debug, Serialize, JsonSchema)]
struct Token {
    /// The token's id.
    id: TokenId,
    /// The member that it acts as.
    member_id: MemberId,
    /// What it is for, in the words of the member who minted it.
    label: Option<String>,
    /// What it can do.
    capabilities: Capabilities,
    /// When it was minted.
    created_at: Time,
    /// When it expires; null if it does not expire.
    expires_at: Option<Time>,
    /// When it was revoked; null if it was not.
    revoked_at: Option<Time>,
    /// The token it was derived from, with which it ends; null if it was minted.
    parent_id: Option<TokenId>,
    /// The delegation grant that it was exchanged for; null if it is the member's own.
    delegation_grant_id: Option<GrantId>,
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
        lsn,
    }
}

/// A new token, with its secret.
#[derive(Serialize, JsonSchema)]
pub struct MintedToken {
    /// The token's id.
    pub id: TokenId,
    /// What to send as `Authorization: Bearer`. It is shown only once and never stored.
    pub secret: String,
    /// The member that it acts as.
    pub member_id: MemberId,
    /// What it is for.
    pub label: Option<String>,
    /// What it can do.
    pub capabilities: Capabilities,
    /// When it was minted.
    pub created_at: Time,
    /// When it expires; null if it does not expire.
    pub expires_at: Option<Time>,
    /// The token it was derived from; null if it was minted.
    pub parent_id: Option<TokenId>,
}

/// A token was minted or derived.
#[derive(Debug, Serialize, JsonSchema)]
struct TokenMinted {
    /// The new token.
    token_id: TokenId,
    /// The member that it acts as.
    member_id: MemberId,
    /// What it can do.
    capabilities: Capabilities,
    /// When it expires; null if it does not expire.
    expires_at: Option<Time>,
    /// The token it was derived from; null if it was minted.
    parent_id: Option<TokenId>,
}

impl Event for TokenMinted {
    const KIND: &'static str = "TokenMinted";
}

/// A token was revoked, itself or with the token it was derived from.
#[derive(Debug, Serialize, JsonSchema)]
struct TokenRevoked {
    /// The revoked token.
    token_id: TokenId,
    /// The member that it acted as.
    member_id: MemberId,
    /// The token that the request revoked; differs from `token_id` for derived tokens.
    revoked_with: TokenId,
}

impl Event for TokenRevoked {
    const KIND: &'static str = "TokenRevoked";
}

/// A token's secret was replaced; the old one stopped working at once.
#[derive(Debug, Serialize, JsonSchema)]
struct TokenRotated {
    /// The token.
    token_id: TokenId,
    /// The member that it acts as.
    member_id: MemberId,
}

impl Event for TokenRotated {
    const KIND: &'static str = "TokenRotated";
}

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations(
            "identity",
            vec![
                write(MINT_TOKEN, mint_token)
                    .title("Mint a token")
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
                    .get("/workspaces/{workspace_id}/members/{member_id}/tokens")
                    .needs(&[TokenAdmin])
                    .example(|w| {
                        json!({"workspace_id": w.id("workspace"), "member_id": w.id("agent"), "limit": 10})
                    }),
                destructive("revoke_token", revoke_token)
                    .title("Revoke a token")
                    .delete("/tokens/{token_id}")
                    .needs(&[TokenAdmin])
                    .refuses(&[Code::Forbidden])
                    .example(|w| json!({"token_id": w.id("agent_token")})),
                destructive("rotate_token", rotate_token)
                    .title("Give a token a new secret")
                    .post("/tokens/{token_id}/rotate")
                    .refuses(&[Code::Forbidden, Code::NotFound, Code::WrongState])
                    .example(|w| json!({"token_id": w.id("agent_token")})),
                write("attenuate_token", attenuate_token)
                    .title("Derive a narrower token")
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
}

/// Mints a token for a member of your workspace and returns it.
///
/// Its `secret` is shown only once. Choose what it can do with `capabilities` or with `capability_set`;
/// without either, an agent gets `svc.agent.worker` and a person `svc.human.admin`. You can grant what your
/// own token carries and what is in `svc.agent.worker`. The token does not expire unless you set `expires_at`
/// or `expires_in_secs`.
///
/// Fails with 403 `forbidden` if you ask for capabilities that you cannot grant; 409 `wrong-state` if the
/// member is deactivated.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("allOf" = [
    {"not": {"required": ["capabilities", "capability_set"]}},
    {"not": {"required": ["expires_at", "expires_in_secs"]}},
]))]
pub struct MintToken {
    /// The workspace. It must be yours.
    pub workspace_id: WorkspaceId,
    /// The member that the token acts as.
    pub member_id: MemberId,
    /// What it is for, to tell it from other tokens.
    pub label: Option<Text<1, NAME_MAX>>,
    /// Exactly what it can do. Cannot be combined with `capability_set`.
    #[schemars(length(min = 1))]
    pub capabilities: Option<Capabilities>,
    /// The named set that it is minted from. Cannot be combined with `capabilities`.
    pub capability_set: Option<CapabilitySet>,
    /// When it expires. Cannot be combined with `expires_in_secs`.
    pub expires_at: Option<Time>,
    /// In how many seconds it expires. Cannot be combined with `expires_at`.
    pub expires_in_secs: Option<Count<1, LIFE_MAX_SECS>>,
}

/// Mints a token.
pub const MINT_TOKEN: TypedOperation<MintToken, MintedToken> = TypedOperation::new("mint_token");

fn mint_token(cx: &mut Write<'_>, input: &MintToken) -> Result<MintedToken> {
    own_workspace(cx, input.workspace_id)?;
    let member = load_member(cx, input.member_id)?;
    let wanted = wanted(input.capabilities, input.capability_set, member.kind)?;
    let expires_at = expiry(cx.now(), input.expires_at, input.expires_in_secs)?;
    authority::check_grants(cx.caller().capabilities, wanted)?;
    check_active(&member)?;
    let mint = Mint { label: input.label.as_deref(), expires_at, ..Mint::new(&member, wanted) };
    issue(cx, &mint)
}

/// Returns the capabilities of a token to mint.
pub(crate) fn wanted(
    capabilities: Option<Capabilities>,
    set: Option<CapabilitySet>,
    kind: MemberKind,
) -> Result<Capabilities> {
    match (capabilities, set) {
        (Some(_), Some(_)) => Err(Error::malformed("name either capabilities or capability_set, not both")),
        (Some(capabilities), None) => not_empty(capabilities),
        (None, set) => Ok(set.unwrap_or_else(|| kind.default_set()).capabilities()),
    }
}

fn not_empty(capabilities: Capabilities) -> Result<Capabilities> {
    if capabilities == Capabilities::NONE {
        return Err(Error::malformed("`capabilities`: name at least one"));
    }
    Ok(capabilities)
}

/// Returns when a token expires, which is never in the past.
fn expiry(now: Time, at: Option<Time>, in_secs: Option<Count<1, LIFE_MAX_SECS>>) -> Result<Option<Time>> {
    match (at, in_secs) {
        (Some(_), Some(_)) => Err(Error::malformed("name either expires_at or expires_in_secs, not both")),
        (Some(at), None) if at <= now => Err(Error::malformed("`expires_at`: expected a time in the future")),
        (Some(at), None) => Ok(Some(at)),
        (None, in_secs) => Ok(in_secs.map(|secs| now.plus(Duration::from_secs(secs.get().unsigned_abs())))),
    }
}

/// Fails if the member may not use the service.
pub(crate) fn check_active(member: &Member) -> Result<()> {
    if member.active {
        Ok(())
    } else {
        Err(Error::wrong_state("the member is deactivated and cannot have tokens"))
    }
}

/// A token to create.
pub(crate) struct Mint<'a> {
    pub workspace_id: WorkspaceId,
    pub member_id: MemberId,
    /// The member whose credential it is; differs from `member_id` only under delegation.
    pub actor_id: MemberId,
    pub parent_id: Option<TokenId>,
    pub grant_id: Option<GrantId>,
    pub label: Option<&'a str>,
    pub capabilities: Capabilities,
    pub expires_at: Option<Time>,
    /// The surface of the request, for the audit row if no member made it.
    pub surface: Option<Surface>,
}

impl Mint<'_> {
    /// A token of `member`'s own, without a label or an expiry.
    pub fn new(member: &Member, capabilities: Capabilities) -> Self {
        Self {
            workspace_id: member.workspace_id,
            member_id: member.id,
            actor_id: member.id,
            parent_id: None,
            grant_id: None,
            label: None,
            capabilities,
            expires_at: None,
            surface: None,
        }
    }
}

/// Creates a token. The caller has checked that it is allowed.
pub(crate) fn issue(cx: &mut Write<'_>, mint: &Mint<'_>) -> Result<MintedToken> {
    let id: TokenId = cx.new_id()?;
    let secret = new_secret(cx)?;
    let event = TokenMinted {
        token_id: id,
        member_id: mint.member_id,
        capabilities: mint.capabilities,
        expires_at: mint.expires_at,
        parent_id: mint.parent_id,
    };
    let lsn = cx.emit_in(mint.workspace_id, Subject::WORKSPACE.about(mint.member_id), &event)?.lsn;
    let (created_at, hash) = (cx.now(), secret_hash(&secret));
    cx.insert(&new_row!("insert into tokens" {
        id,
        workspace_id: mint.workspace_id,
        member_id: mint.member_id,
        actor_id: mint.actor_id,
        parent_id: mint.parent_id,
        grant_id: mint.grant_id,
        label: mint.label,
        secret_hash: hash,
        capabilities: mint.capabilities,
        created_at,
        expires_at: mint.expires_at,
        lsn,
    }))?;
    let metadata = json!(event);
    cx.audit_in(mint.workspace_id, "token.mint", named_surface(metadata, mint.surface))?;
    Ok(MintedToken {
        id,
        secret: secret.expose_secret().to_owned(),
        member_id: mint.member_id,
        label: mint.label.map(str::to_owned),
        capabilities: mint.capabilities,
        created_at,
        expires_at: mint.expires_at,
        parent_id: mint.parent_id,
    })
}

/// Generates a new secret.
fn new_secret(cx: &Write<'_>) -> Result<SecretString> {
    let bytes: [u8; 32] = cx.entropy().bytes()?;
    Ok(SecretString::from(format!("{SECRET_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))))
}

/// Returns the tokens of a member of your workspace, in the order in which they were minted.
///
/// Tokens that have expired or were revoked are included. Secrets are never returned.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListTokens {
    /// The workspace. It must be yours.
    workspace_id: WorkspaceId,
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
    own_workspace(cx, input.workspace_id)?;
    let member = load_member(cx, input.member_id)?;
    let rows = cx.rows(OF_MEMBER, &[&member.id, &Cursor::after(input.cursor), &rows_to_read(input.limit)])?;
    Ok(Page::of(rows, input.limit, |token: &Token| token.lsn))
}

const BY_ID: &str =
    concat!("select ", token_columns!(), " from tokens t where t.id = $1 and t.workspace_id = $2");

/// Loads a token of the caller's workspace.
fn load_token(cx: &Read<'_>, token_id: TokenId) -> Result<Token> {
    cx.one(BY_ID, &[&token_id, &cx.caller().workspace_id])?.ok_or_else(no_such_token)
}

fn no_such_token() -> Error {
    Error::not_found("token")
}

/// Revokes a token of your workspace with all tokens derived from it, and returns which ones ended.
///
/// They stop working at once. Revoking a token again changes nothing. You can revoke every token, whatever it
/// carries, with one exception: a token with `operator:global` or `audit:read-global` is revoked only with a
/// token that carries the same, or with itself. Either needs `token:admin`.
///
/// Fails with 403 `forbidden` if the token carries `operator:global` or `audit:read-global`, yours does not,
/// and it is not the one you call with.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RevokeToken {
    /// The token.
    token_id: TokenId,
}

/// The tokens that a revocation ended.
#[derive(Debug, Serialize, JsonSchema)]
struct Revocation {
    /// The token.
    id: TokenId,
    /// When it was revoked.
    revoked_at: Time,
    /// The tokens that ended now: the token itself and the live ones derived from it.
    ///
    /// Empty if it was revoked before.
    revoked_ids: Vec<TokenId>,
}

/// The token, unless it is revoked, and the live tokens derived from it.
///
/// A token that has ended is skipped with all tokens derived from it: none of them outlives it, and
/// authentication checks for revoked ancestors.
const LIVE_WITH_DERIVED: &str = "
    with recursive ending (id, member_id, lsn) as (
        select id, member_id, lsn from tokens where id = $1 and revoked_at is null
        union all
        select t.id, t.member_id, t.lsn from ending e join tokens t on t.parent_id = e.id
        where t.revoked_at is null and (t.expires_at is null or t.expires_at > $2)
    )
    select id, member_id from ending order by lsn";

const REVOKE: &str = "update tokens set revoked_at = $2 where id = $1";

fn revoke_token(cx: &mut Write<'_>, input: &RevokeToken) -> Result<Revocation> {
    let token = load_token(cx, input.token_id)?;
    authority::check_revokes(cx.caller(), token.id, token.capabilities)?;
    let now = cx.now();
    let ending: Vec<(TokenId, MemberId)> = cx.query(LIVE_WITH_DERIVED, &[&token.id, &now])?;
    for (token_id, member_id) in &ending {
        let event = TokenRevoked { token_id: *token_id, member_id: *member_id, revoked_with: token.id };
        cx.emit(Subject::WORKSPACE.about(*member_id), &event)?;
        cx.execute(1, REVOKE, &[token_id, &now])?;
    }
    let revoked_ids: Vec<TokenId> = ending.into_iter().map(|(token_id, _)| token_id).collect();
    if !revoked_ids.is_empty() {
        let metadata =
            json!({"token_id": token.id, "member_id": token.member_id, "revoked_ids": revoked_ids});
        cx.audit("token.revoke", metadata)?;
    }
    Ok(Revocation { id: token.id, revoked_at: token.revoked_at.unwrap_or(now), revoked_ids })
}

/// Replaces a token's secret and returns the token with the new `secret`, which is shown only once.
///
/// The old secret stops working at once. Everything else stays: member, capabilities, expiry, and the tokens
/// derived from it. You can rotate the token that you call with. Another token of your workspace you can
/// rotate with `token:admin`, if you could have minted it.
///
/// Fails with 403 `forbidden` if another token carries capabilities that you cannot grant; 404 `not-found` if
/// it is another token and you lack `token:admin`; 409 `wrong-state` if the token is delegated, has expired
/// or was revoked.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RotateToken {
    /// The token to rotate. Default: the token that you call with.
    token_id: Option<TokenId>,
}

const SET_SECRET: &str = "update tokens set secret_hash = $2 where id = $1";

fn rotate_token(cx: &mut Write<'_>, input: &RotateToken) -> Result<MintedToken> {
    let token = load_rotated(cx, input.token_id)?;
    check_can_rotate(&token, cx.now())?;
    let secret = new_secret(cx)?;
    let event = TokenRotated { token_id: token.id, member_id: token.member_id };
    cx.emit(Subject::WORKSPACE.about(token.member_id), &event)?;
    cx.execute(1, SET_SECRET, &[&token.id, &secret_hash(&secret)])?;
    cx.audit("token.rotate", json!(event))?;
    Ok(MintedToken {
        id: token.id,
        secret: secret.expose_secret().to_owned(),
        member_id: token.member_id,
        label: token.label,
        capabilities: token.capabilities,
        created_at: token.created_at,
        expires_at: token.expires_at,
        parent_id: token.parent_id,
    })
}

/// Loads the token to rotate, if the caller may rotate it.
fn load_rotated(cx: &Read<'_>, named: Option<TokenId>) -> Result<Token> {
    let caller = cx.caller();
    let token_id = named.or(caller.token_id).ok_or_else(|| Error::malformed("name the token: `token_id`"))?;
    if !authority::finds(caller, token_id) {
        return Err(no_such_token());
    }
    let token = load_token(cx, token_id)?;
    authority::check_takes_over(caller, token.id, token.capabilities)?;
    Ok(token)
}

/// Fails if the token has ended or is delegated.
fn check_can_rotate(token: &Token, now: Time) -> Result<()> {
    if token.delegation_grant_id.is_some() {
        return Err(Error::wrong_state("a delegated token cannot be rotated; exchange the grant again"));
    }
    if token.revoked_at.is_some() || token.expires_at.is_some_and(|end| end <= now) {
        return Err(Error::wrong_state("the token has expired or was revoked; mint another"));
    }
    Ok(())
}

/// Derives a narrower token from the one that you call with, and returns it.
///
/// Its `secret` is shown only once. Use it for a helper that needs less than you: it can do no more than you
/// name, never administers tokens, expires no later than yours, and ends when yours is revoked.
///
/// Fails with 403 `forbidden` if you ask for a capability that yours lacks, for `token:admin`, or for an
/// expiry later than yours; 409 `wrong-state` if 16 derivations lie between yours and the minted token that
/// it comes from, or if 1000 live tokens are derived from that minted token: revoke some, or let them expire
/// sooner.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = {"required": ["expires_at", "expires_in_secs"]}))]
struct AttenuateToken {
    /// What it can do: some of what yours can, without `token:admin`.
    #[schemars(length(min = 1))]
    capabilities: Capabilities,
    /// What it is for, to tell it from other tokens.
    label: Option<Text<1, NAME_MAX>>,
    /// When it expires. Default: when yours does. Cannot be combined with `expires_in_secs`.
    expires_at: Option<Time>,
    /// In how many seconds it expires. Cannot be combined with `expires_at`.
    expires_in_secs: Option<Count<1, LIFE_MAX_SECS>>,
}

fn attenuate_token(cx: &mut Write<'_>, input: &AttenuateToken) -> Result<MintedToken> {
    let (caller, now) = (cx.caller().clone(), cx.now());
    let member_id = caller.member_id()?;
    let Some(parent_id) = caller.token_id else {
        return Err(Error::forbidden("only a token can be narrowed, and the request has none"));
    };
    let capabilities = not_empty(input.capabilities)?;
    let asked = expiry(now, input.expires_at, input.expires_in_secs)?;
    authority::check_derives(caller.capabilities, capabilities)?;
    let expires_at = no_later(caller.expires_at, asked)?;
    check_room_for_derived(cx, parent_id)?;
    let mint = Mint {
        workspace_id: caller.workspace_id,
        member_id,
        actor_id: caller.actor.unwrap_or(member_id),
        parent_id: Some(parent_id),
        grant_id: caller.grant,
        label: input.label.as_deref(),
        capabilities,
        expires_at,
        surface: None,
    };
    issue(cx, &mint)
}

/// The minted token that `$1` comes from, and the number of derivations between them.
const ORIGIN: &str = "
    with recursive above (id, parent_id, depth) as (
        select id, parent_id, cast(0 as bigint) from tokens where id = $1
        union all
        select t.id, t.parent_id, a.depth + 1 from above a join tokens t on t.id = a.parent_id
    )
    select id, depth from above where parent_id is null";

/// The number of live tokens derived from `$1`, directly or not, counted up to `$3`.
const LIVE_DERIVED: &str = "
    with recursive below (id) as (
        select t.id from tokens t
        where t.parent_id = $1 and t.revoked_at is null and (t.expires_at is null or t.expires_at > $2)
        union all
        select t.id from below b join tokens t on t.parent_id = b.id
        where t.revoked_at is null and (t.expires_at is null or t.expires_at > $2)
    )
    select count(*) from (select id from below limit $3) counted";

/// Fails if revoking the minted token would end too many tokens after one more derivation.
fn check_room_for_derived(cx: &Read<'_>, parent_id: TokenId) -> Result<()> {
    let (origin, depth): (TokenId, i64) =
        cx.one(ORIGIN, &[&parent_id])?.ok_or_else(|| Error::internal("a token has no root"))?;
    if depth >= TOKEN_DEPTH_MAX {
        return Err(Error::wrong_state(format!(
            "the token is {TOKEN_DEPTH_MAX} derivations below the minted one; derive from an earlier one"
        )));
    }
    let live: Option<(i64,)> = cx.one(LIVE_DERIVED, &[&origin, &cx.now(), &DERIVED_TOKENS_MAX])?;
    if live.is_some_and(|(live,)| live >= DERIVED_TOKENS_MAX) {
        return Err(Error::wrong_state(format!(
            "{DERIVED_TOKENS_MAX} live tokens derive from the same minted token; revoke some of them"
        )));
    }
    Ok(())
}

/// Returns when a derived token expires: as asked, but not after its parent.
fn no_later(parent: Option<Time>, asked: Option<Time>) -> Result<Option<Time>> {
    match (parent, asked) {
        (Some(parent), Some(asked)) if asked > parent => Err(Error::forbidden(format!(
            "a derived token cannot outlive its parent, which ends at {parent}"
        ))),
        (parent, asked) => Ok(asked.or(parent)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::Capability;

    fn set(capabilities: &[Capability]) -> Capabilities {
        capabilities.iter().copied().collect()
    }

    fn at(micros: i64) -> Time {
        Time::from_micros(micros)
    }

    fn code<T: std::fmt::Debug>(result: Result<T>) -> Code {
        result.unwrap_err().code()
    }

    fn token(n: u128, capabilities: Capabilities) -> Token {
        Token {
            id: uuid::Uuid::from_u128(n).into(),
            member_id: uuid::Uuid::from_u128(9).into(),
            label: None,
            capabilities,
            created_at: at(0),
            expires_at: Some(at(100)),
            revoked_at: None,
            parent_id: None,
            delegation_grant_id: None,
            lsn: 3,
        }
    }

    #[test]
    fn a_token_is_minted_from_a_list_a_set_or_the_members_kind() {
        let worker = CapabilitySet::AgentWorker.capabilities();
        let read = set(&[Capability::WorkspaceRead]);
        assert_eq!(wanted(None, None, MemberKind::Agent).unwrap(), worker);
        assert_eq!(wanted(None, None, MemberKind::Human).unwrap(), CapabilitySet::HumanAdmin.capabilities());
        assert_eq!(wanted(None, Some(CapabilitySet::AgentWorker), MemberKind::Human).unwrap(), worker);
        assert_eq!(wanted(Some(read), None, MemberKind::Agent).unwrap(), read);
        assert_eq!(code(wanted(Some(Capabilities::NONE), None, MemberKind::Agent)), Code::Malformed);
        assert_eq!(
            code(wanted(Some(read), Some(CapabilitySet::AgentWorker), MemberKind::Agent)),
            Code::Malformed
        );
    }

    #[test]
    fn a_derived_token_ends_no_later() {
        assert_eq!(no_later(None, None).unwrap(), None);
        assert_eq!(no_later(Some(at(5)), None).unwrap(), Some(at(5)));
        assert_eq!(no_later(None, Some(at(7))).unwrap(), Some(at(7)));
        assert_eq!(no_later(Some(at(5)), Some(at(4))).unwrap(), Some(at(4)));
        assert_eq!(code(no_later(Some(at(5)), Some(at(6)))), Code::Forbidden);
    }

    #[test]
    fn an_end_is_in_the_future_and_said_once() {
        let secs = Some(Count::new(2).unwrap());
        assert_eq!(expiry(at(5), None, None).unwrap(), None);
        assert_eq!(expiry(at(5), None, secs).unwrap(), Some(at(2_000_005)));
        assert_eq!(expiry(at(5), Some(at(6)), None).unwrap(), Some(at(6)));
        assert_eq!(code(expiry(at(5), Some(at(5)), None)), Code::Malformed);
        assert_eq!(code(expiry(at(5), Some(at(6)), secs)), Code::Malformed);
    }

    #[test]
    fn an_ended_or_borrowed_token_cannot_be_rotated() {
        let whole = token(1, Capabilities::all());
        assert!(check_can_rotate(&whole, at(99)).is_ok());
        assert_eq!(code(check_can_rotate(&whole, at(100))), Code::WrongState);
        let revoked = Token { revoked_at: Some(at(1)), ..token(1, Capabilities::all()) };
        assert_eq!(code(check_can_rotate(&revoked, at(2))), Code::WrongState);
        let borrowed = Token { delegation_grant_id: Some(uuid::Uuid::from_u128(4).into()), ..whole };
        assert_eq!(code(check_can_rotate(&borrowed, at(2))), Code::WrongState);
    }
}
