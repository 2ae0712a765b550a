//! The caller of an operation, and the parts of the workspace that are visible to the caller.
//!
//! The kind of credential determines the visibility of a caller. `conversation/visibility.rs` defines how a
//! visibility limits the rows of a statement; `lookup.rs` finds the caller that a credential identifies.

use crate::Result;
use crate::capability::{Capabilities, Capability, Needs, Right, Rights};
use crate::error::{Code, Error};
use crate::id::{
    ChannelId, GrantId, InstallationId, MemberId, SessionId, ShareTicketId, TokenId, WorkspaceId,
};
use crate::log::cache::{Cached, Lifetime};
use crate::log::event::{Attribution, CachedEntryKind};
use crate::store::ToParam;
use crate::time::Time;

/// The interface through which a request arrived. Audit rows contain the name of that interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Surface {
    /// The REST API: JSON over HTTP.
    #[default]
    Rest,
    /// The Model Context Protocol (MCP).
    Mcp,
    /// The routes for browsers: sign-in, sign-out, approval links, Markdown and the board.
    Session,
    /// The routes that accept a share ticket.
    Share,
    /// The SCIM routes, through which an identity provider manages the people of a workspace.
    Scim,
    /// A Rust program in whose process the service runs.
    Library,
    /// The command line of the machine's administrator, which acts as the instance.
    Cli,
    /// The service itself: work that no request causes, such as ending expired claims.
    System,
}

impl Surface {
    /// Returns the name of this interface, as audit rows contain it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Mcp => "mcp",
            Self::Session => "session",
            Self::Share => "share",
            Self::Scim => "scim",
            Self::Library => "library",
            Self::Cli => "cli",
            Self::System => "system",
        }
    }
}

/// The kind of credential in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialKind {
    /// A bearer token, without a browser session.
    Token,
    /// A bearer token together with a browser session.
    Both(SessionId),
    /// A browser session, and the token from which it was created, if any.
    Session { id: SessionId, token: Option<TokenId> },
    /// A share ticket, which lets a reader outside of the workspace read one channel.
    Ticket(ShareTicketId),
    /// No credential: the caller is the service itself, or an administrator of the machine.
    Instance,
    /// No credential: the caller is anonymous, or a member that the service selects, such as the first
    /// person.
    Anonymous,
}

/// The set of channels whose contents a caller can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visibility {
    /// All channels of the workspace.
    Whole,
    /// The public channels of the workspace.
    Public,
    /// The public channels, the channels that this member has joined, and events of the workspace itself.
    Member(MemberId),
    /// Only the channel with this id.
    Channel(ChannelId),
    /// No channel at all.
    Nothing,
}

/// The SQL parameters `$1` to `$4` of a statement, which limit its rows to a visibility.
#[derive(Debug)]
pub struct VisibilityParams {
    whole: bool,
    public: bool,
    member: Option<MemberId>,
    channel: Option<ChannelId>,
}

impl Visibility {
    /// Returns the SQL parameters that limit the rows of a statement to this visibility.
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
    /// Returns the four visibility parameters, followed by `others`, which the statement numbers from `$5`.
    pub fn and<'a>(&'a self, others: &[&'a dyn ToParam]) -> Vec<&'a dyn ToParam> {
        let own: [&dyn ToParam; 4] = [&self.whole, &self.public, &self.member, &self.channel];
        own.iter().chain(others).copied().collect()
    }
}

/// The identity that a request acts as: a member, a credential, and the rights of that credential.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Kind of the credential in the request.
    pub via: CredentialKind,
    /// Id of the token in the request, or `None` if the request contains no token, for example only a
    /// session.
    pub token_id: Option<TokenId>,
    /// Workspace of the credential.
    pub workspace_id: WorkspaceId,
    /// Workspace whose limits the caller's requests count against. For an imported workspace, this is the
    /// workspace of the first importer.
    pub charged_to: WorkspaceId,
    /// The member that the request acts as.
    ///
    /// `None` for the service itself, for the bearer of a share ticket and for an anonymous caller.
    pub member: Option<MemberId>,
    /// Member that owns the credential. Differs from `member` only if the credential is delegated.
    pub actor: Option<MemberId>,
    /// The delegation grant, if the credential is delegated.
    pub grant: Option<GrantId>,
    /// App installation that the credential belongs to, if any.
    pub installation: Option<InstallationId>,
    /// The channels that the caller can see.
    pub visibility: Visibility,
    /// The capabilities of the credential.
    pub capabilities: Capabilities,
    /// Whether the member, or the owner of the credential, is frozen. A frozen caller may only read.
    pub frozen: bool,
    /// Maximum requests of the token per rate window, if the token has a quota.
    pub quota: Option<i64>,
    /// Time at which the credential expires, or `None` if it never expires.
    pub expires_at: Option<Time>,
    /// Time at which the session in the request expires, if the request contains both a token and a session.
    pub(super) session_expires_at: Option<Time>,
    pub(super) revoked: bool,
}

impl Cached for Caller {
    const LIFETIME: Lifetime = Lifetime::Epoch(CachedEntryKind::Access);
}

impl Caller {
    /// Returns the caller for work in `workspace_id` by the service itself or by an administrator of the
    /// machine.
    ///
    /// The caller has every capability but sees no channel, unless [`Caller::with_visibility`] sets another
    /// visibility.
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
            session_expires_at: None,
            revoked: false,
        }
    }

    /// Returns the anonymous caller, for operations that are open to all.
    pub(crate) fn anonymous() -> Self {
        Self::anonymous_in_workspace(WorkspaceId::INSTANCE)
    }

    /// Returns an anonymous caller in a workspace.
    fn anonymous_in_workspace(workspace_id: WorkspaceId) -> Self {
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
        Self { member, actor: member, visibility, ..Self::anonymous_in_workspace(workspace_id) }
    }

    /// Returns this caller with its visibility replaced by `visibility`.
    #[must_use]
    pub fn with_visibility(self, visibility: Visibility) -> Self {
        Self { visibility, ..self }
    }

    /// Returns whether the request acts as a member.
    pub fn is_member(&self) -> bool {
        self.member.is_some()
    }

    /// Returns the member that the request acts as, or an error if the caller is not a member.
    ///
    /// Fails with 403 `forbidden` for the service itself, and with 401 `unauthenticated` for any other caller
    /// that is not a member.
    pub fn member_id(&self) -> Result<MemberId> {
        self.member.ok_or_else(|| match self.via {
            CredentialKind::Instance => Error::forbidden("only a member can do this"),
            _ => unauthenticated("only a member can do this, and the request has no token"),
        })
    }

    /// Returns the id of the browser session in the request, if any.
    pub fn session_id(&self) -> Option<SessionId> {
        match self.via {
            CredentialKind::Session { id, .. } | CredentialKind::Both(id) => Some(id),
            CredentialKind::Token
            | CredentialKind::Ticket(_)
            | CredentialKind::Instance
            | CredentialKind::Anonymous => None,
        }
    }

    /// Returns the rights of the credential: its capabilities, and the right of a session or a share ticket.
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

    /// Returns whether the credential is delegated: its owner acts on behalf of another member.
    pub fn is_delegated(&self) -> bool {
        self.grant.is_some() || self.actor != self.member
    }

    /// Returns the attribution for events and audit rows: the actor, the member that the actor acts as, and
    /// the delegation grant.
    pub fn attribution(&self) -> Attribution {
        Attribution { actor_id: self.actor, subject_id: self.member, grant_id: self.grant }
    }

    /// Fails with 401 `unauthenticated` if the credential has expired or was revoked.
    pub(crate) fn check_live(&self, now: Time) -> Result<()> {
        let ends = [self.expires_at, self.session_expires_at].into_iter().flatten();
        if self.revoked || ends.into_iter().any(|end| end <= now) {
            return Err(unauthenticated(match self.via {
                CredentialKind::Session { .. } => "the session has ended",
                CredentialKind::Both(_) => "the token or the session beside it has ended",
                _ => "the token has expired or was revoked",
            }));
        }
        Ok(())
    }

    /// Fails if the caller has none of the rights that satisfy `needs`.
    ///
    /// Fails with 401 `unauthenticated` for a credential of the wrong kind, such as a share ticket for an
    /// operation that does not accept tickets. Otherwise fails with 403 `missing-capability`.
    pub(crate) fn check_right(&self, needs: Needs) -> Result<()> {
        let is_foreign = matches!(self.via, CredentialKind::Ticket(_)) && !needs.names(Right::Ticket);
        if needs == Needs::Nothing || (needs.is_satisfied_by(self.rights()) && !is_foreign) {
            return Ok(());
        }
        let needed = needs.expression();
        if is_foreign || !needs.is_satisfied_by_a_capability() {
            return Err(unauthenticated("the request needs a credential of another kind"));
        }
        Err(Error::new(Code::MissingCapability, format!("the operation needs the capability {needed}"))
            .with("required_capability", needed))
    }

    /// Fails with 403 `missing-capability` if the caller lacks `capability`, which this input requires in
    /// addition.
    pub(crate) fn check_capability(&self, capability: Capability) -> Result<()> {
        self.check_right(Needs::one_of(&[capability]))
    }

    /// Fails if the caller is not a member, or uses a delegated credential.
    pub(crate) fn check_personal(&self) -> Result<()> {
        self.member_id()?;
        if self.is_delegated() {
            return Err(Error::forbidden("only the member itself can do this, not a delegate"));
        }
        Ok(())
    }

    /// Fails with 403 `member-frozen` if the caller is frozen, because a frozen member may only read.
    pub(crate) fn check_not_frozen(&self) -> Result<()> {
        if self.frozen {
            return Err(Error::new(Code::MemberFrozen, "the member is frozen and may only read"));
        }
        Ok(())
    }
}

/// Returns the error 401 `unauthenticated` with the message `detail`.
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
            ..Self::instance(workspace_id).with_visibility(Visibility::Member(member))
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
