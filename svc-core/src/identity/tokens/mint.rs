//! Minting: creating a token and generating its secret.
//!
//! [`issue`] creates all new tokens, minted or derived. Callers of [`issue`] must have checked
//! that the token is allowed.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde_json::{Value as Json, json};

use super::{MintedToken, Quotas, TokenMinted};
use crate::capability::{Capabilities, CapabilitySet};
use crate::error::{Error, Result};
use crate::id::{GrantId, InstallationId, MemberId, TokenId, WorkspaceId};
use crate::identity::authority;
use crate::identity::members::{Member, MemberKind, load_member};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::NAME_MAX;
use crate::log::event::Subject;
use crate::op::{Surface, Write, secret_hash};
use crate::request::request;
use crate::store::new_row;
use crate::text::{Count, SECRET_PREFIX, Text};
use crate::time::Time;

/// Maximum life of a token or a grant that a request can specify, in seconds: ten years of 365 days.
pub(crate) const LIFETIME_MAX_SECS: i64 = 315_360_000;

request! {
    /// Mints a token for a member of your workspace, and returns the token.
    ///
    /// The new token's `secret` is shown only once. Set `capabilities` or `capability_set`; without either,
    /// an agent gets `svc.agent.worker` and a person `svc.human.admin`. You can grant the capabilities of
    /// your own token and of `svc.agent.worker`. The token does not expire unless you set `expires_at` or
    /// `expires_in_secs`.
    ///
    /// Fails with 403 `forbidden` if you request capabilities that you cannot grant, or quotas higher than
    /// yours; 409 `wrong-state` if the member is deactivated, or is the member of an app: use
    /// `mint_app_token` for such a member.
    #[derive(Debug, Serialize)]
    #[schemars(extend("allOf" = [
        {"not": {"required": ["capabilities", "capability_set"]}},
        {"not": {"required": ["expires_at", "expires_in_secs"]}},
    ]))]
    pub struct MintToken {
        /// The workspace. It must be yours.
        pub workspace_id: OwnWorkspaceId,
        /// The member that the token acts as.
        pub member_id: MemberId,
        /// A label to recognise the token by.
        pub label: Option<Text<1, NAME_MAX>>,
        /// Exact capabilities of the token. Cannot be combined with `capability_set`.
        #[schemars(length(min = 1))]
        pub capabilities: Option<Capabilities>,
        /// Named set of the token's capabilities. Cannot be combined with `capabilities`.
        pub capability_set: Option<CapabilitySet>,
        /// Time at which the token expires. Cannot be combined with `expires_in_secs`.
        pub expires_at: Option<Time>,
        /// Seconds until the token expires. Cannot be combined with `expires_at`.
        pub expires_in_secs: Option<Count<1, LIFETIME_MAX_SECS>>,
        /// Usage quotas that all tokens derived from this token share. Default: yours, otherwise the
        /// service's limits for every client.
        pub quotas: Option<Quotas>,
    }

    mint_token(member_id: MemberId) -> MintedToken
}

pub(super) fn mint_token(cx: &mut Write<'_>, input: &MintToken) -> Result<MintedToken> {
    input.workspace_id.of(cx)?;
    let member = load_member(cx, input.member_id)?;
    let wanted = requested_capabilities(input.capabilities, input.capability_set, member.kind)?;
    let expires_at = requested_expiry(cx.now(), input.expires_at, input.expires_in_secs)?;
    authority::check_may_grant(cx.caller().capabilities, wanted)?;
    check_can_have_tokens(&member)?;
    let label = input.label.as_deref();
    let quotas = input.quotas;
    let mint = NewToken { label, expires_at, quotas, ..NewToken::new(&member, wanted) };
    issue(cx, &mint)
}

/// Returns the capabilities of a token to mint: the requested ones, or by default the set for the member's
/// kind.
pub(crate) fn requested_capabilities(
    capabilities: Option<Capabilities>,
    set: Option<CapabilitySet>,
    kind: MemberKind,
) -> Result<Capabilities> {
    match (capabilities, set) {
        (Some(_), Some(_)) => {
            Err(Error::in_fields(&["capabilities", "capability_set"], "expected one of them"))
        }
        (Some(capabilities), None) => require_non_empty("capabilities", capabilities),
        (None, set) => Ok(set.unwrap_or_else(|| kind.default_capability_set()).capabilities()),
    }
}

/// Returns the capabilities that the input's field `field` contains. Fails if the field contains none.
pub(crate) fn require_non_empty(field: &str, capabilities: Capabilities) -> Result<Capabilities> {
    if capabilities == Capabilities::NONE {
        return Err(Error::in_field(field, "name at least one"));
    }
    Ok(capabilities)
}

/// Names of the input fields that set an expiry time.
pub(crate) const EXPIRY: [&str; 2] = ["expires_at", "expires_in_secs"];

/// Returns the requested expiry time of a token or a grant. Fails if the time is not in the future.
pub(crate) fn requested_expiry<const MAX_SECS: i64>(
    now: Time,
    expires_at: Option<Time>,
    expires_in_secs: Option<Count<1, MAX_SECS>>,
) -> Result<Option<Time>> {
    match (expires_at, expires_in_secs) {
        (Some(_), Some(_)) => Err(Error::in_fields(&EXPIRY, "expected one of them")),
        (Some(expires_at), None) if expires_at <= now => {
            Err(Error::in_field("expires_at", "expected a time in the future"))
        }
        (Some(expires_at), None) => Ok(Some(expires_at)),
        (None, expires_in_secs) => {
            Ok(expires_in_secs.map(|secs| now.plus(Duration::from_secs(secs.get().unsigned_abs()))))
        }
    }
}

/// Fails if the member is deactivated.
pub(crate) fn check_active(member: &Member) -> Result<()> {
    if member.active {
        Ok(())
    } else {
        Err(Error::wrong_state("the member is deactivated and cannot have tokens"))
    }
}

/// Fails if no token can be minted for the member: a deactivated member, or the member of an app.
///
/// The tokens of an app are minted for its installation.
pub(crate) fn check_can_have_tokens(member: &Member) -> Result<()> {
    if member.is_app() {
        return Err(Error::wrong_state("the tokens of an app hang on its installation: mint_app_token"));
    }
    check_active(member)
}

/// Values of a token to create.
pub(crate) struct NewToken<'a> {
    pub workspace_id: WorkspaceId,
    pub member_id: MemberId,
    /// The member who holds the token; differs from `member_id` only under delegation.
    pub actor_id: MemberId,
    pub parent_id: Option<TokenId>,
    pub grant_id: Option<GrantId>,
    /// App installation of the token. The token ends with the installation.
    pub installation_id: Option<InstallationId>,
    pub label: Option<&'a str>,
    pub capabilities: Capabilities,
    pub expires_at: Option<Time>,
    /// Requested usage quotas.
    pub quotas: Option<Quotas>,
    /// Quotas that the requested ones must not exceed, in addition to the caller's.
    pub quota_ceiling: Option<Quotas>,
    /// Surface of the request, which the audit row records if no member made the request.
    pub surface: Option<Surface>,
}

impl NewToken<'_> {
    /// Creates the values of a token that acts as `member`, without delegation, label or expiry.
    pub fn new(member: &Member, capabilities: Capabilities) -> Self {
        Self {
            workspace_id: member.workspace_id,
            member_id: member.id,
            actor_id: member.id,
            parent_id: None,
            grant_id: None,
            installation_id: None,
            label: None,
            capabilities,
            expires_at: None,
            quotas: None,
            quota_ceiling: None,
            surface: None,
        }
    }

    /// Returns the quotas of the new token, for a caller whose own quota is `caller_quota`. Fails if the
    /// request exceeds a limit.
    fn granted_quotas(&self, caller_quota: Option<i64>) -> Result<Option<Quotas>> {
        let ceiling = self.quota_ceiling.map(|quotas| quotas.requests.get());
        Quotas::within(caller_quota.into_iter().chain(ceiling).min(), self.quotas)
    }
}

/// Creates a token. The caller must have checked that the token is allowed.
///
/// A caller with quotas cannot avoid them by minting a token, because the token inherits the quotas. Fails
/// with 403 `forbidden` if the request specifies higher quotas.
pub(crate) fn issue(cx: &mut Write<'_>, new: &NewToken<'_>) -> Result<MintedToken> {
    let quotas = new.granted_quotas(cx.caller().quota)?;
    let id: TokenId = cx.new_id()?;
    let secret = new_secret(cx)?;
    let event = TokenMinted {
        token_id: id,
        member_id: new.member_id,
        actor_id: Some(new.actor_id).filter(|actor| *actor != new.member_id),
        capabilities: new.capabilities,
        expires_at: new.expires_at,
        parent_id: new.parent_id,
        grant_id: new.grant_id,
        installation_id: new.installation_id,
        quotas,
    };
    let lsn = cx.emit_in(new.workspace_id, Subject::WORKSPACE.about(new.member_id), &event)?.lsn;
    let created_at = cx.now();
    let hash = secret_hash(&secret);
    cx.insert(&new_row!("insert into tokens" {
        id,
        workspace_id: new.workspace_id,
        member_id: new.member_id,
        actor_id: new.actor_id,
        parent_id: new.parent_id,
        grant_id: new.grant_id,
        installation_id: new.installation_id,
        label: new.label,
        secret_hash: hash,
        capabilities: new.capabilities,
        created_at,
        expires_at: new.expires_at,
        quota: quotas,
        lsn,
    }))?;
    let metadata = json!(event);
    cx.audit_in(new.workspace_id, "token.mint", with_surface(metadata, new.surface))?;
    Ok(MintedToken {
        id,
        secret: secret.expose_secret().to_owned(),
        member_id: new.member_id,
        label: new.label.map(str::to_owned),
        capabilities: new.capabilities,
        created_at,
        expires_at: new.expires_at,
        parent_id: new.parent_id,
        quotas,
    })
}

/// Generates the secret of a token.
pub(crate) fn new_secret(cx: &Write<'_>) -> Result<SecretString> {
    new_secret_with_prefix(cx, SECRET_PREFIX)
}

/// Generates a secret that begins with `prefix`. People and secret scanners recognise the kind of secret by
/// the prefix.
pub(crate) fn new_secret_with_prefix(cx: &Write<'_>, prefix: &str) -> Result<SecretString> {
    let bytes: [u8; 32] = cx.entropy().bytes()?;
    Ok(SecretString::from(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(bytes))))
}

/// Adds the surface of a request to an audit row's metadata, for a request that no member made.
pub(crate) fn with_surface(mut metadata: Json, surface: Option<Surface>) -> Json {
    if let (Some(surface), Some(members)) = (surface, metadata.as_object_mut()) {
        members.insert("surface".to_owned(), surface.name().into());
    }
    metadata
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::Capability;
    use crate::error::Code;
    use crate::identity::tokens::tests::{at, code};

    fn set(capabilities: &[Capability]) -> Capabilities {
        capabilities.iter().copied().collect()
    }

    #[test]
    fn a_token_is_minted_from_a_list_a_set_or_the_members_kind() {
        let worker = CapabilitySet::AgentWorker.capabilities();
        let read = set(&[Capability::WorkspaceRead]);
        assert_eq!(requested_capabilities(None, None, MemberKind::Agent).unwrap(), worker);
        assert_eq!(
            requested_capabilities(None, None, MemberKind::Human).unwrap(),
            CapabilitySet::HumanAdmin.capabilities()
        );
        assert_eq!(
            requested_capabilities(None, Some(CapabilitySet::AgentWorker), MemberKind::Human).unwrap(),
            worker
        );
        assert_eq!(requested_capabilities(Some(read), None, MemberKind::Agent).unwrap(), read);
        assert_eq!(
            code(requested_capabilities(Some(Capabilities::NONE), None, MemberKind::Agent)),
            Code::Malformed
        );
        assert_eq!(
            code(requested_capabilities(Some(read), Some(CapabilitySet::AgentWorker), MemberKind::Agent)),
            Code::Malformed
        );
    }

    #[test]
    fn an_expiry_is_in_the_future_and_given_once() {
        let secs: Option<Count<1, LIFETIME_MAX_SECS>> = Some(Count::new(2).unwrap());
        assert_eq!(requested_expiry::<1>(at(5), None, None).unwrap(), None);
        assert_eq!(requested_expiry(at(5), None, secs).unwrap(), Some(at(2_000_005)));
        assert_eq!(requested_expiry::<1>(at(5), Some(at(6)), None).unwrap(), Some(at(6)));
        assert_eq!(code(requested_expiry::<1>(at(5), Some(at(5)), None)), Code::Malformed);
        assert_eq!(code(requested_expiry(at(5), Some(at(6)), secs)), Code::Malformed);
    }
}
