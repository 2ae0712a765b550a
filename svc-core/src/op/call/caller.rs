//! The caller of an operation, and the parts of the workspace that are visible to the caller.
//!
//! The visibility depends only on the kind of credential; conversation/visibility.rs defines how it narrows a
//! statement. lookup.rs finds a caller by credential.

use crate::Result;
use crate::capability::{Capabilities, Capability, Needs, Right, Rights};
use crate::error::{Code, Error};
use crate::id::{
    ChannelId, GrantId, InstallationId, MemberId, SessionId, ShareTicketId, TokenId, WorkspaceId,
};
use crate::log::cache::{Cached, Lifetime};
use crate::log::event::{Attribution, Invalidates};
use crate::store::ToParam;
use crate::time::Time;

/// The interface through which a request arrived. Audit rows contain its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Surface {
    /// HTTP with JSON.
    #[default]
    Rest,
    /// The Model Context Protocol.
    Mcp,
    /// The routes for browser sign-in and sign-out.
    Session,
    /// The routes that a share ticket gives access to.
    Share,
    /// SCIM, with which an identity provider manages the people of a workspace.
    Scim,
    /// The command line, which acts as the instance.
    Cli,
    /// The service itself, for example the reaper or the scrub.
    System,
}

impl Surface {
    /// Returns the name of the interface for audit rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Mcp => "mcp",
            Self::Session => "session",
            Self::Share => "share",
            Self::Scim => "scim",
            Self::Cli => "cli",
            Self::System => "system",
        }
    }
}

/// The kind of credential that a request came with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialKind {
    /// A bearer token alone.
    Token,
    /// A bearer token together with a browser session.
    Both(SessionId),
    /// A browser session, and the token from which it was created, if any.
    Session { id: SessionId, token: Option<TokenId> },
    /// A share ticket.
    Ticket(ShareTicketId),
    /// No credential: the caller is the service itself, or an administrator of the machine.
    Instance,
    /// No credential: the caller is anonymous.
    Anonymous,
}

/// The channels of the workspace that a caller can see, together with everything in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// All channels.
    Whole,
    /// Public channels.
    Public,
    /// Public channels, channels that the member has joined, and events of the workspace itself.
    Member(MemberId),
    /// Only this channel.
    Channel(ChannelId),
    /// No channel.
    Nothing,
}

/// A visibility as SQL parameters: `$1` to `$4`, before the other parameters of the statement.
#[derive(Debug)]
pub struct VisibilityParams {
    whole: bool,
    public: bool,
    member: Option<MemberId>,
    channel: Option<ChannelId>,
}

impl Visibility {
    /// Returns the SQL parameters that narrow a statement to this visibility.
    pub fn params(self) -> VisibilityParams {
        let none = VisibilityParams { whole: false, public: false, member: None, channel: None };
        match self {
            Self::Whole => VisibilityParams { whole: true, ..none },
            Self::Public => VisibilityParams { public: true, ..none },
            Self::Member(member) => VisibilityParams { public: true, member: Some(member), ..none },
            Self::Channel(channel) => VisibilityParams { channel: Some(channel), ..none },
            Self::Nothing => none,
        }
    }
}

impl VisibilityParams {
    /// Returns these parameters followed by `others`, which the statement numbers from `$5`.
    pub fn and<'a>(&'a self, others: &[&'a dyn ToParam]) -> Vec<&'a dyn ToParam> {
        let own: [&dyn ToParam; 4] = [&self.whole, &self.public, &self.member, &self.channel];
        own.iter().chain(others).copied().collect()
    }
}

/// The acting identity of a request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The kind of credential that the request came with.
    pub via: CredentialKind,
    /// The token, if the request came with one. `None` for a session.
    pub token_id: Option<TokenId>,
    /// The workspace that the credential belongs to.
    pub workspace_id: WorkspaceId,
    /// The workspace whose limits the requests count against. For an imported workspace, the workspace of the
    /// first importer.
    pub charged_to: WorkspaceId,
    /// The member that the request acts as.
    ///
    /// `None` for the service itself, for the bearer of a share ticket and for an anonymous caller.
    pub member: Option<MemberId>,
    /// The member that owns the credential. Differs from `member` only if the credential is delegated.
    pub actor: Option<MemberId>,
    /// The delegation grant, if the credential is delegated.
    pub grant: Option<GrantId>,
    /// The app installation that the credential belongs to, if any.
    pub installation: Option<InstallationId>,
    /// The channels that the caller can see.
    pub visibility: Visibility,
    /// The capabilities of the credential.
    pub capabilities: Capabilities,
    /// Whether the member is frozen, and so may only read.
    pub frozen: bool,
    /// Maximum requests of the token per rate window, if the token has a quota.
    pub quota: Option<i64>,
    /// When the credential expires.
    pub expires_at: Option<Time>,
    /// Expiry of the session that was sent together with the token.
    pub(super) beside_until: Option<Time>,
    pub(super) revoked: bool,
}

impl Cached for Caller {
    const LIFETIME: Lifetime = Lifetime::Epoch(Invalidates::Access);
}

impl Caller {
    /// Returns the service itself, or an administrator of the machine, acting on `workspace_id`.
    ///
    /// The caller may do everything but sees no channel, unless [`Caller::seeing`] sets another visibility.
    pub fn instance(workspace_id: WorkspaceId) -> Self {
        Self {
            via: CredentialKind::Instance,
            token_id: None,
            workspace_id,
            charged_to: workspace_id,
            member: None,
            actor: None,
            grant: None,
            installation: None,
            visibility: Visibility::Nothing,
            capabilities: Capabilities::all(),
            frozen: false,
            quota: None,
            expires_at: None,
            beside_until: None,
            revoked: false,
        }
    }

    /// Returns the anonymous caller, for operations that are open to all.
    pub(crate) fn anonymous() -> Self {
        Self::anonymous_of(WorkspaceId::INSTANCE)
    }

    fn anonymous_of(workspace_id: WorkspaceId) -> Self {
        Self {
            via: CredentialKind::Anonymous,
            capabilities: Capabilities::NONE,
            ..Self::instance(workspace_id)
        }
    }

    /// Returns a caller without a credential: a member of `workspace_id`, or an anonymous caller in that
    /// workspace.
    pub(crate) fn acting_as(workspace_id: WorkspaceId, member: Option<MemberId>) -> Self {
        let visibility = member.map_or(Visibility::Nothing, Visibility::Member);
        Self { member, actor: member, visibility, ..Self::anonymous_of(workspace_id) }
    }

    /// Returns this caller with another visibility.
    #[must_use]
    pub fn seeing(self, visibility: Visibility) -> Self {
        Self { visibility, ..self }
    }

    /// Returns whether the request acts as a member.
    pub fn is_member(&self) -> bool {
        self.member.is_some()
    }

    /// Returns the member that the request acts as, for operations that only a member can call.
    ///
    /// Fails with 403 `forbidden` for the service itself, and with 401 `unauthenticated` for any other caller
    /// that is not a member.
    pub fn member_id(&self) -> Result<MemberId> {
        self.member.ok_or_else(|| match self.via {
            CredentialKind::Instance => Error::forbidden("only a member can do this"),
            _ => unauthenticated("only a member can do this, and the request has no token"),
        })
    }

    /// Returns the browser session that the request came with.
    pub fn session_id(&self) -> Option<SessionId> {
        match self.via {
            CredentialKind::Session { id, .. } | CredentialKind::Both(id) => Some(id),
            CredentialKind::Token
            | CredentialKind::Ticket(_)
            | CredentialKind::Instance
            | CredentialKind::Anonymous => None,
        }
    }

    /// Returns the rights that the credential carries.
    pub fn rights(&self) -> Rights {
        let own = match self.via {
            CredentialKind::Session { .. } => Some(Right::Session),
            CredentialKind::Ticket(_) => Some(Right::Ticket),
            CredentialKind::Token
            | CredentialKind::Both(_)
            | CredentialKind::Instance
            | CredentialKind::Anonymous => None,
        };
        own.into_iter().fold(self.capabilities.into(), Rights::with)
    }

    /// Returns whether the request has no credential and does not act as a member.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.via == CredentialKind::Anonymous && !self.is_member()
    }

    /// Returns whether the member acts through the credential of another member.
    pub fn is_delegated(&self) -> bool {
        self.grant.is_some() || self.actor != self.member
    }

    /// Returns the actor and the member on whose behalf it acted, for events and audit rows.
    pub fn attribution(&self) -> Attribution {
        Attribution { actor_id: self.actor, subject_id: self.member, grant_id: self.grant }
    }

    /// Rejects a credential that has expired or was revoked.
    pub(crate) fn check_live(&self, now: Time) -> Result<()> {
        let ends = [self.expires_at, self.beside_until].into_iter().flatten();
        if self.revoked || ends.into_iter().any(|end| end <= now) {
            return Err(unauthenticated(match self.via {
                CredentialKind::Session { .. } => "the session has ended",
                CredentialKind::Both(_) => "the token or the session beside it has ended",
                _ => "the token has expired or was revoked",
            }));
        }
        Ok(())
    }

    /// Rejects a caller without any of the rights that the operation requires.
    ///
    /// A credential of the wrong kind counts as absent. For example, a share ticket gives access only to the
    /// shared channel.
    pub(crate) fn check_right(&self, needs: Needs) -> Result<()> {
        let is_foreign = matches!(self.via, CredentialKind::Ticket(_)) && !needs.names(Right::Ticket);
        if needs == Needs::Nothing || (needs.satisfied_by(self.rights()) && !is_foreign) {
            return Ok(());
        }
        let needed = needs.expression();
        if is_foreign || !needs.names_a_capability() {
            return Err(unauthenticated("the request needs a credential of another kind"));
        }
        Err(Error::new(Code::MissingCapability, format!("the operation needs the capability {needed}"))
            .with("required_capability", needed))
    }

    /// Rejects a caller without an additional capability that the input requires.
    pub(crate) fn check_has(&self, capability: Capability) -> Result<()> {
        self.check_right(Needs::one_of(&[capability]))
    }

    /// Rejects a caller that does not use the member's own credential, such as a delegate.
    pub(crate) fn check_personal(&self) -> Result<()> {
        self.member_id()?;
        if self.is_delegated() {
            return Err(Error::forbidden("only the member itself can do this, not a delegate"));
        }
        Ok(())
    }

    /// Rejects a change by a frozen member.
    pub(crate) fn check_not_frozen(&self) -> Result<()> {
        if self.frozen {
            return Err(Error::new(Code::MemberFrozen, "the member is frozen and may only read"));
        }
        Ok(())
    }
}

/// Returns the error for a request without a live credential.
pub(crate) fn unauthenticated(detail: &'static str) -> Error {
    Error::new(Code::Unauthenticated, detail)
}

#[cfg(test)]
impl Caller {
    /// Returns a member of `workspace_id` with a token that has the capabilities `can`, for unit tests.
    pub(crate) fn bearer_for_tests(workspace_id: WorkspaceId, member: MemberId, can: &[Capability]) -> Self {
        Self {
            via: CredentialKind::Token,
            token_id: Some(uuid::Uuid::from_u128(8).into()),
            member: Some(member),
            actor: Some(member),
            capabilities: can.iter().copied().collect(),
            ..Self::instance(workspace_id).seeing(Visibility::Member(member))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_member_acts_as_one() {
        let refused = |caller: Caller| caller.member_id().unwrap_err().code().status();
        assert_eq!(refused(Caller::anonymous()), 401);
        assert_eq!(refused(Caller::instance(WorkspaceId::INSTANCE)), 403);
        let member = MemberId::from(uuid::Uuid::from_u128(1));
        let bearer = Caller::bearer_for_tests(WorkspaceId::INSTANCE, member, &[]);
        assert_eq!(bearer.member_id().unwrap(), member);
    }

    #[test]
    fn a_members_own_affair_is_closed_to_everybody_else() {
        let [member, other] = [1, 2].map(|n| MemberId::from(uuid::Uuid::from_u128(n)));
        let bearer = Caller::bearer_for_tests(WorkspaceId::INSTANCE, member, &[]);
        let found = |caller: &Caller| caller.check_personal().map_err(|error| error.code());
        assert_eq!(found(&bearer), Ok(()));
        let grant = Some(uuid::Uuid::from_u128(3).into());
        for (caller, refused) in [
            (Caller { grant, ..bearer.clone() }, Code::Forbidden),
            (Caller { actor: Some(other), ..bearer.clone() }, Code::Forbidden),
            (Caller::instance(WorkspaceId::INSTANCE), Code::Forbidden),
            (Caller::anonymous(), Code::Unauthenticated),
        ] {
            assert_eq!(found(&caller), Err(refused), "{caller:?}");
        }
    }

    #[test]
    fn nobody_sees_anything_by_default() {
        assert_eq!(Caller::anonymous().visibility, Visibility::Nothing);
        assert_eq!(Caller::instance(WorkspaceId::INSTANCE).visibility, Visibility::Nothing);
    }
}
