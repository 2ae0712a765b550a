//! Tokens of installed apps. An administrator mints such a token, or the app requests it with client
//! credentials.
//!
//! Requests with client credentials follow RFC 6749, section 4.4: an error contains the `error` code that the
//! RFC defines. The frame of the route decodes requests and encodes responses.

use std::time::Duration;

without_requests! { AppTokenRequest }

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use uuid::Uuid;

use super::installations::{Installation, find_installation, load_installation};
use crate::capability::{Capabilities, Capability};
use crate::error::{Code, Error, Result};
use crate::id::{InstallationId, MemberId, TokenId, WorkspaceId};
use crate::identity::authority;
use crate::identity::members::load_member;
use crate::identity::tokens::{
    NewToken, Quotas, check_active, check_installation_token_limit, issue, require_non_empty,
};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::{APP_TOKEN_SECS, NAME_MAX};
use crate::op::{
    Answer, Read, Write, secret_hash, secret_shown_once_error, without_idempotency_keys, without_requests,
};
use crate::request::request;
use crate::text::Text;
use crate::time::Time;

request! {
    /// Mints a token for an installed app and returns the token.
    ///
    /// The new token's `secret` is shown only once. The token acts as the app's member, does not expire, and
    /// ends with the installation. You can grant only capabilities of the installation that you could also
    /// grant to a member with `mint_token`.
    ///
    /// Fails with 403 `forbidden` if you request capabilities that the installation was not granted or that
    /// you cannot grant, or quotas higher than yours or the installation's; 409 `wrong-state` if the
    /// installation was revoked, if the app's member is deactivated, or if the installation has 1000 live
    /// tokens.
    #[derive(Serialize)]
    pub(super) struct MintAppToken {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// The installation to mint the token for.
        installation_id: InstallationId,
        /// A label to recognise the token by.
        label: Option<Text<1, NAME_MAX>>,
        /// Capabilities of the token. Default: those of the installation.
        #[schemars(length(min = 1))]
        capabilities: Option<Capabilities>,
        /// Usage quotas that all tokens derived from this token share. Default: yours or the installation's,
        /// otherwise the service's limits for every client.
        quotas: Option<Quotas>,
    }

    mint_app_token(installation_id: InstallationId) -> AppToken
}

/// A new token of an installed app, with its secret.
#[derive(Serialize, JsonSchema)]
#[non_exhaustive]
pub struct AppToken {
    /// Id of the new token.
    pub id: TokenId,
    /// The secret to send as `Authorization: Bearer`. The secret is shown only once and never stored.
    pub secret: String,
    /// Id of the installation for which the token was minted. The token ends with the installation.
    pub installation_id: InstallationId,
    /// Id of the app's member, which the token acts as.
    pub bot_member_id: MemberId,
    /// Label of the token; null if it has none.
    pub label: Option<String>,
    /// Capabilities of the token.
    pub capabilities: Capabilities,
    /// Time at which the token was minted.
    pub created_at: Time,
    /// Time at which the token expires; null if the token does not expire.
    pub expires_at: Option<Time>,
    /// Usage quotas of the token; null if only the service's limits apply.
    pub quotas: Option<Quotas>,
}

crate::request::debug_without_secret! { AppToken }

pub(super) fn mint_app_token(cx: &mut Write<'_>, input: &MintAppToken) -> Result<AppToken> {
    input.workspace_id.of(cx)?;
    let installation = load_installation(cx, input.installation_id)?;
    let granted = installation.granted_capabilities;
    let wanted = input
        .capabilities
        .map(|wanted| require_non_empty("capabilities", wanted))
        .transpose()?
        .unwrap_or(granted);
    authority::check_within_installation(granted, wanted)?;
    authority::check_may_grant(cx.caller().capabilities, wanted)?;
    if installation.revoked_at.is_some() {
        return Err(Error::wrong_state("the installation was revoked; install the app again"));
    }
    let bot = load_member(cx, installation.bot_member_id)?;
    check_active(&bot)?;
    check_installation_token_limit(cx, Some(installation.id))?;
    let label = input.label.as_deref();
    let quotas = input.quotas;
    let installation_id = Some(installation.id);
    let mint = NewToken { label, quotas, installation_id, ..NewToken::new(&bot, wanted) };
    let token = issue(cx, &NewToken { quota_ceiling: installation.quotas, ..mint })?;
    Ok(AppToken {
        id: token.id,
        secret: token.secret,
        installation_id: installation.id,
        bot_member_id: token.member_id,
        label: token.label,
        capabilities: token.capabilities,
        created_at: token.created_at,
        expires_at: token.expires_at,
        quotas: token.quotas,
    })
}

impl Answer<MintAppToken> for AppToken {
    type Kept = TokenId;
    const REFUSES: &'static [Code] = &[Code::IdempotencyReplayed];

    fn kept(&self) -> Option<TokenId> {
        Some(self.id)
    }

    fn answer_repeat(_: &Read<'_>, _: &MintAppToken, id: TokenId) -> Result<Self> {
        Err(secret_shown_once_error(id))
    }
}

/// Issues an access token to an installed app that sends its client credentials (RFC 6749, 4.4).
///
/// The token expires after an hour, and ends with the installation. The client authenticates with HTTP Basic
/// or in the body, but not with both. A failure is returned as a problem document that also contains the
/// `error` code of the RFC: `invalid_client` (401) if the client is unknown, its secret is wrong or its
/// installation was revoked; `invalid_request`, `unsupported_grant_type` or `invalid_scope` (400).
///
/// Fails with 409 `wrong-state` if the installation has 1000 live tokens.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AppTokenRequest {
    /// The grant type; must be `client_credentials`.
    #[schemars(required, extend("const" = "client_credentials"))]
    grant_type: Option<String>,
    /// Id of the installation. Omit it with HTTP Basic.
    client_id: Option<String>,
    /// Client secret of the installation. Omit it with HTTP Basic.
    client_secret: Option<String>,
    /// Capabilities of the token, separated by single spaces. Default: those of the installation.
    scope: Option<String>,
}

/// An access token, with the field names of RFC 6749.
#[derive(Serialize, JsonSchema)]
pub(super) struct AccessToken {
    /// The token to send as `Authorization: Bearer`. The token is never stored.
    access_token: String,
    /// Type of the token; always `Bearer`.
    token_type: &'static str,
    /// Seconds until the token expires.
    expires_in: i64,
    /// Capabilities of the token, separated by single spaces.
    scope: String,
}

without_idempotency_keys! { AppTokenRequest => AccessToken }

/// Returns the workspace of the installation whose client credentials the request contains.
pub(super) fn client_workspace(cx: &Read<'_>, input: &AppTokenRequest) -> Result<WorkspaceId> {
    Ok(authenticate_client(cx, input)?.workspace_id)
}

pub(super) fn request_app_token(
    cx: &mut Write<'_>,
    input: &AppTokenRequest,
    &workspace: &WorkspaceId,
) -> Result<AccessToken> {
    let installation = authenticate_client(cx, input)?;
    let capabilities = requested_scope(installation.granted_capabilities, non_empty(input.scope.as_ref()))?;
    cx.within(workspace, Some(installation.bot_member_id), |cx| {
        let bot = load_member(cx, installation.bot_member_id)?;
        if !bot.active {
            return Err(unknown_client_error());
        }
        if bot.frozen {
            let frozen = Error::new(Code::MemberFrozen, "the app's member is frozen and gets no tokens");
            return Err(frozen.with(OAUTH_ERROR_KEY, "unauthorized_client"));
        }
        check_installation_token_limit(cx, Some(installation.id))
            .map_err(|error| error.with(OAUTH_ERROR_KEY, "temporarily_unavailable"))?;
        let expires_at = Some(cx.now().plus(Duration::from_secs(APP_TOKEN_SECS.unsigned_abs())));
        let installation_id = Some(installation.id);
        let quota_ceiling = installation.quotas;
        let mint =
            NewToken { expires_at, installation_id, quota_ceiling, ..NewToken::new(&bot, capabilities) };
        let token = issue(cx, &mint)?;
        let names: Vec<&str> = capabilities.iter().map(Capability::name).collect();
        Ok(AccessToken {
            access_token: token.secret,
            token_type: "Bearer",
            expires_in: APP_TOKEN_SECS,
            scope: names.join(" "),
        })
    })
}

/// Member of a problem document that contains the `error` code of RFC 6749.
const OAUTH_ERROR_KEY: &str = "error";

/// Returns a request parameter, or `None` if its value is empty: an empty parameter counts as omitted (RFC
/// 6749, 3.2).
fn non_empty(parameter: Option<&String>) -> Option<&str> {
    parameter.map(String::as_str).filter(|value| !value.is_empty())
}

/// Returns the active installation whose client credentials the request contains.
fn authenticate_client(cx: &Read<'_>, input: &AppTokenRequest) -> Result<Installation> {
    check_grant_type(non_empty(input.grant_type.as_ref()))?;
    let id =
        non_empty(input.client_id.as_ref()).and_then(|id| id.parse::<Uuid>().ok()).map(InstallationId::from);
    let (Some(id), Some(secret)) = (id, non_empty(input.client_secret.as_ref())) else {
        return Err(unknown_client_error());
    };
    let hash = secret_hash(&SecretString::from(secret));
    let found = find_installation(cx, id)?.filter(|found| found.revoked_at.is_none());
    let found = found.filter(|found| bool::from(found.client_secret_hash.ct_eq(&hash)));
    found.ok_or_else(unknown_client_error)
}

/// Returns the same error for an unknown client, a wrong secret and a revoked installation.
///
/// The caller therefore learns nothing about the existing installations.
fn unknown_client_error() -> Error {
    let detail = "the client is unknown, its secret is wrong, or its installation was revoked";
    Error::new(Code::Unauthenticated, detail).with(OAUTH_ERROR_KEY, "invalid_client")
}

fn check_grant_type(grant_type: Option<&str>) -> Result<()> {
    match grant_type {
        Some("client_credentials") => Ok(()),
        Some(_) => Err(Error::malformed("`grant_type`: expected client_credentials")
            .with(OAUTH_ERROR_KEY, "unsupported_grant_type")),
        None => Err(Error::malformed("`grant_type` is missing").with(OAUTH_ERROR_KEY, "invalid_request")),
    }
}

/// Returns the requested capabilities, or all granted capabilities if the request contains no scope.
fn requested_scope(granted: Capabilities, scope: Option<&str>) -> Result<Capabilities> {
    let Some(scope) = scope else { return Ok(granted) };
    let invalid = |detail| Error::malformed(detail).with(OAUTH_ERROR_KEY, "invalid_scope");
    let requested: Option<Capabilities> =
        scope.split(' ').map(|name| name.parse::<Capability>().ok()).collect();
    let requested = requested
        .ok_or_else(|| invalid("`scope`: expected names of capabilities, separated by single spaces"))?;
    if granted.covers(requested) {
        return Ok(requested);
    }
    Err(invalid("`scope` names a capability that the installation was not granted"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::Capability::{MessagePost, WorkspaceRead};

    #[test]
    fn a_scope_is_what_was_granted_or_less() {
        let set = |all: &[Capability]| -> Capabilities { all.iter().copied().collect() };
        let both = set(&[WorkspaceRead, MessagePost]);
        for (asked, wanted) in [
            (None, Some(both)),
            (Some("workspace:read"), Some(set(&[WorkspaceRead]))),
            (Some("message:post workspace:read"), Some(both)),
            (Some("workspace:read workspace:read"), Some(set(&[WorkspaceRead]))),
            (Some("workspace:write"), None),
            (Some("workspace:read token:admin"), None),
            (Some("workspace:read  message:post"), None),
            (Some("workspace:read\tmessage:post"), None),
            (Some("everything"), None),
            (Some(" "), None),
        ] {
            let found = requested_scope(both, asked).map_err(|error| error.code());
            assert_eq!(found, wanted.ok_or(Code::Malformed), "{asked:?}");
        }
    }

    #[test]
    fn a_parameter_without_a_value_is_none() {
        assert_eq!(non_empty(Some(&String::new())), None);
        assert!(check_grant_type(Some("client_credentials")).is_ok());
        assert!(check_grant_type(Some("password")).is_err() && check_grant_type(None).is_err());
    }
}
