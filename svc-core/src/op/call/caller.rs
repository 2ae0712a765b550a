//! The caller of an operation, and what of the workspace is visible to it.
//!
//! A token is found by the hash of its secret inside the transaction of the function that it gives access to,
//! so that no earlier decision can be stale. What a caller sees follows from the kind of its credential
//! alone; how that narrows a statement is defined in conversation/places.rs.

use secrecy::{ExposeSecret, SecretString};

use crate::Result;
#[cfg(test)]
use crate::capability::Capability;
use crate::capability::{Capabilities, Needs};
use crate::error::{Code, Error};
use crate::hash::sha256;
use crate::id::{ChannelId, GrantId, InstallationId, MemberId, TokenId, WorkspaceId};
use crate::log::cache::Cached;
use crate::log::event::{Attribution, Invalidates};
use crate::store::{Conn, FromRow as _, ToParam, columns};
use crate::time::Time;

/// The interface that a request came in over; audit rows name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Surface {
    /// HTTP with JSON.
    #[default]
    Rest,
    /// The Model Context Protocol.
    Mcp,
    /// The command line, acting as the instance.
    Cli,
    /// The service itself: reaper, scrub.
    System,
}

impl Surface {
    /// Returns the name in audit rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Mcp => "mcp",
            Self::Cli => "cli",
            Self::System => "system",
        }
    }
}

/// Returns the hash under which a token's secret is stored and found.
///
/// Secrets are 256 random bits, so one round of SHA-256 is enough.
pub(crate) fn secret_hash(secret: &SecretString) -> [u8; 32] {
    sha256(secret.expose_secret().as_bytes())
}

/// The kind of credential that a request came with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// A bearer token.
    Token,
    /// None: the caller is the service itself, or an administrator of the machine.
    Instance,
    /// None: the caller is anonymous.
    Nobody,
}

/// Which channels of its workspace a caller sees, and with them all that happens in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// All of them.
    Whole,
    /// Those that are not private.
    Public,
    /// Those that are not private, and those that the member is in. Also what concerns the workspace itself.
    Member(MemberId),
    /// Only this one.
    Channel(ChannelId),
    /// None.
    Nothing,
}

/// A sight as parameters of a statement: $1 to $4, before the statement's own.
#[derive(Debug)]
pub struct SightParams {
    whole: bool,
    public: bool,
    member: Option<MemberId>,
    channel: Option<ChannelId>,
}

impl Sight {
    /// Returns the parameters of a statement that is narrowed to what the caller sees.
    pub fn params(self) -> SightParams {
        let none = SightParams { whole: false, public: false, member: None, channel: None };
        match self {
            Self::Whole => SightParams { whole: true, ..none },
            Self::Public => SightParams { public: true, ..none },
            Self::Member(member) => SightParams { public: true, member: Some(member), ..none },
            Self::Channel(channel) => SightParams { channel: Some(channel), ..none },
            Self::Nothing => none,
        }
    }
}

impl SightParams {
    /// Returns these and then `others`, which the statement numbers from $5 on.
    pub fn and<'a>(&'a self, others: &[&'a dyn ToParam]) -> Vec<&'a dyn ToParam> {
        let own: [&dyn ToParam; 4] = [&self.whole, &self.public, &self.member, &self.channel];
        own.iter().chain(others).copied().collect()
    }
}

/// The acting identity of a request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The kind of credential.
    pub via: Via,
    /// The token, if it came with one.
    pub token_id: Option<TokenId>,
    /// The workspace that the credential belongs to.
    pub workspace_id: WorkspaceId,
    /// The member that the request acts as; none for the service itself and for an anonymous caller.
    pub member: Option<MemberId>,
    /// The member whose credential it is; differs from `member` only when delegated.
    pub actor: Option<MemberId>,
    /// The delegation grant, when delegated.
    pub grant: Option<GrantId>,
    /// The app installation that the credential belongs to, if it belongs to one.
    pub installation: Option<InstallationId>,
    /// What the caller sees.
    pub sight: Sight,
    /// What the credential allows.
    pub capabilities: Capabilities,
    /// Whether the member may only read.
    pub frozen: bool,
    /// When the credential expires.
    pub expires_at: Option<Time>,
    revoked: bool,
}

impl Cached for Caller {
    const ENDED_BY: Option<Invalidates> = Some(Invalidates::Access);
}

impl Caller {
    /// Finds a caller by the hash of the secret.
    pub(crate) fn by_secret(conn: &Conn, hash: &[u8; 32]) -> Result<Self> {
        let mut rows = conn.query(BY_SECRET, &[hash])?;
        rows.first_mut().map_or_else(|| Err(unauthenticated("the token is unknown")), Self::from_row)
    }

    /// Returns the root of the tokens that this one was derived from.
    pub(crate) fn root(&self, conn: &Conn) -> Result<TokenId> {
        let mut rows = conn.query(ROOT, &[&self.token_id])?;
        rows.first_mut().map_or_else(|| Err(Error::internal("a token has no root")), |row| row.take())
    }

    /// Returns the service itself, or an administrator of the machine, acting on `workspace_id`.
    ///
    /// It may do everything and sees no channel, unless it is given another sight with [`Caller::seeing`].
    pub fn instance(workspace_id: WorkspaceId) -> Self {
        Self {
            via: Via::Instance,
            token_id: None,
            workspace_id,
            member: None,
            actor: None,
            grant: None,
            installation: None,
            sight: Sight::Nothing,
            capabilities: Capabilities::all(),
            frozen: false,
            expires_at: None,
            revoked: false,
        }
    }

    /// Returns the anonymous caller, of operations that are open to all.
    pub(crate) fn nobody() -> Self {
        Self { via: Via::Nobody, capabilities: Capabilities::NONE, ..Self::instance(WorkspaceId::INSTANCE) }
    }

    /// Returns the same caller with another sight.
    #[must_use]
    pub fn seeing(self, sight: Sight) -> Self {
        Self { sight, ..self }
    }

    /// Returns whether the request acts as a member.
    pub fn is_member(&self) -> bool {
        self.member.is_some()
    }

    /// Returns the member that the request acts as, for what only a member can do.
    ///
    /// Fails with 401 `unauthenticated` for an anonymous caller, and with 403 `forbidden` for any other
    /// caller that is not a member.
    pub fn member_id(&self) -> Result<MemberId> {
        self.member.ok_or_else(|| match self.via {
            Via::Nobody => unauthenticated("only a member can do this, and the request has no token"),
            Via::Token | Via::Instance => Error::forbidden("only a member can do this"),
        })
    }

    /// Returns whether another member's credential acts for the member.
    pub fn is_delegated(&self) -> bool {
        self.grant.is_some() || self.actor != self.member
    }

    /// Returns who acted, for events and audit rows.
    pub fn attribution(&self) -> Attribution {
        Attribution { actor_id: self.actor, subject_id: self.member, grant_id: self.grant }
    }

    /// Rejects a credential that has expired or was revoked.
    pub(crate) fn check_live(&self, now: Time) -> Result<()> {
        if self.revoked || self.expires_at.is_some_and(|end| end <= now) {
            return Err(unauthenticated("the token has expired or was revoked"));
        }
        Ok(())
    }

    /// Rejects a caller that lacks what the operation needs.
    pub(crate) fn check_capability(&self, needs: Needs) -> Result<()> {
        if needs.satisfied_by(self.capabilities) {
            return Ok(());
        }
        let needed = needs.expression();
        Err(Error::new(Code::MissingCapability, format!("the operation needs the capability {needed}"))
            .with("required_capability", needed))
    }

    /// Rejects a caller that is not the member itself, by its own credential.
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

columns! {
    caller_columns: Caller as t {
        workspace_id,
        grant = grant_id,
        capabilities,
        expires_at,
        frozen = "m.frozen_at is not null or a.frozen_at is not null",
    }
    read {
        id,
        member_id: MemberId,
        actor_id,
        // Revoking a token also revokes all that were derived from it; revoking a grant, all of its tokens.
        revoked: bool = "t.revoked_at is not null
           or (t.grant_id is not null and exists (
               select 1 from delegation_grants g where g.id = t.grant_id and g.revoked_at is not null))
           or (t.parent_id is not null and exists (
               with recursive above (parent_id, revoked_at) as (
                   select p.parent_id, p.revoked_at from tokens p where p.id = t.parent_id
                   union all
                   select p.parent_id, p.revoked_at from above a join tokens p on p.id = a.parent_id
               )
               select 1 from above where revoked_at is not null))",
        deactivated: bool = "m.deactivated_at is not null or a.deactivated_at is not null",
    }
    make {
        via: Via::Token,
        token_id: Some(id),
        member: Some(member_id),
        actor: Some(actor_id),
        installation: None,
        sight: Sight::Member(member_id),
        revoked: revoked || deactivated,
    }
}

/// Finds a token by the hash of its secret.
///
/// A token ends or is frozen with the member that it acts as, and with the member that holds it.
const BY_SECRET: &str = concat!(
    "select ",
    caller_columns!(),
    " from tokens t join members m on m.id = t.member_id join members a on a.id = t.actor_id
     where t.secret_hash = $1"
);

const ROOT: &str = "
    with recursive above (id, parent_id) as (
        select t.id, t.parent_id from tokens t where t.id = $1
        union all
        select p.id, p.parent_id from above a join tokens p on p.id = a.parent_id
    )
    select id from above where parent_id is null";

/// Returns the error of a request without a live credential.
pub(crate) fn unauthenticated(detail: &'static str) -> Error {
    Error::new(Code::Unauthenticated, detail)
}

#[cfg(test)]
impl Caller {
    /// Returns a member of `workspace_id` with a token that has these capabilities, for tests of rules.
    pub(crate) fn bearer_for_tests(workspace_id: WorkspaceId, member: MemberId, can: &[Capability]) -> Self {
        Self {
            via: Via::Token,
            token_id: Some(uuid::Uuid::from_u128(8).into()),
            member: Some(member),
            actor: Some(member),
            capabilities: can.iter().copied().collect(),
            ..Self::instance(workspace_id).seeing(Sight::Member(member))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_member_acts_as_one() {
        let refused = |caller: Caller| caller.member_id().unwrap_err().code().status();
        assert_eq!(refused(Caller::nobody()), 401);
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
            (Caller::nobody(), Code::Unauthenticated),
        ] {
            assert_eq!(found(&caller), Err(refused), "{caller:?}");
        }
    }

    #[test]
    fn nobody_sees_anything_by_default() {
        assert_eq!(Caller::nobody().sight, Sight::Nothing);
        assert_eq!(Caller::instance(WorkspaceId::INSTANCE).sight, Sight::Nothing);
    }
}
