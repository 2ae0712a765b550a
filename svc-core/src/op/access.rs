//! Who calls: a token is looked up by the hash of its secret inside the transaction of the function that it
//! opens, so that nothing decided earlier can be stale.

use secrecy::{ExposeSecret, SecretString};

use crate::Result;
use crate::capability::{Capabilities, Needs};
use crate::error::{Code, Error};
use crate::id::{GrantId, MemberId, TokenId, WorkspaceId};
use crate::log::chain::sha256;
use crate::log::event::{Attribution, Invalidates};
use crate::log::memo::Cached;
use crate::store::{Conn, FromRow, Row};
use crate::time::Time;

/// The way a request came in; audit rows name it.
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
    /// The name in audit rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rest => "rest",
            Self::Mcp => "mcp",
            Self::Cli => "cli",
            Self::System => "system",
        }
    }
}

/// The hash under which a token's secret is stored and found. Secrets are 256 random bits, so one round of
/// SHA-256 is enough.
pub(crate) fn secret_hash(secret: &SecretString) -> [u8; 32] {
    sha256(secret.expose_secret().as_bytes())
}

/// The acting identity of a request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The token, absent for the service itself and the command line.
    pub token_id: Option<TokenId>,
    /// The workspace that the credential belongs to.
    pub workspace_id: WorkspaceId,
    /// The member the request acts as.
    pub member_id: MemberId,
    /// The member whose credential it is; another than `member_id` only when delegated.
    pub actor_id: MemberId,
    /// The delegation grant, when delegated.
    pub grant_id: Option<GrantId>,
    /// What the credential can do.
    pub capabilities: Capabilities,
    /// Whether the member may only read.
    pub frozen: bool,
    /// When the credential ends.
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
        rows.first_mut().map_or_else(|| Err(unauthenticated("the token is not known")), Self::from_row)
    }

    /// The service itself, or an administrator of the machine, acting on `workspace_id`.
    pub fn instance(workspace_id: WorkspaceId) -> Self {
        let nobody = MemberId::from(uuid::Uuid::nil());
        Self {
            token_id: None,
            workspace_id,
            member_id: nobody,
            actor_id: nobody,
            grant_id: None,
            capabilities: Capabilities::all(),
            frozen: false,
            expires_at: None,
            revoked: false,
        }
    }

    /// A caller of what is open to all.
    pub(crate) fn nobody() -> Self {
        Self { capabilities: Capabilities::NONE, ..Self::instance(WorkspaceId::INSTANCE) }
    }

    /// Whether a member stands behind the request, and not the service itself.
    pub fn is_member(&self) -> bool {
        self.token_id.is_some()
    }

    /// Who did it, for events and audit rows.
    pub fn attribution(&self) -> Attribution {
        let (actor_id, subject_id) =
            if self.is_member() { (Some(self.actor_id), Some(self.member_id)) } else { (None, None) };
        Attribution { actor_id, subject_id, grant_id: self.grant_id }
    }

    /// Refuses a credential that has ended.
    pub(crate) fn check_live(&self, now: Time) -> Result<()> {
        if self.revoked || self.expires_at.is_some_and(|end| end <= now) {
            return Err(unauthenticated("the token has expired or was revoked"));
        }
        Ok(())
    }

    /// Refuses a caller that lacks what the operation needs.
    pub(crate) fn check_capability(&self, needs: Needs) -> Result<()> {
        if needs.satisfied_by(self.capabilities) {
            return Ok(());
        }
        let needed = needs.expression();
        Err(Error::new(Code::MissingCapability, format!("the operation needs the capability {needed}"))
            .with("required_capability", needed))
    }

    /// Refuses a change by a frozen member.
    pub(crate) fn check_not_frozen(&self) -> Result<()> {
        if self.frozen {
            return Err(Error::new(
                Code::MemberFrozen,
                "the member is frozen and may only read; ask an administrator",
            ));
        }
        Ok(())
    }
}

/// Columns as [`Caller::from_row`] takes them. A token is revoked with any that it was derived from.
const BY_SECRET: &str = "
    select t.id, t.workspace_id, t.member_id, t.actor_id, t.grant_id, t.capabilities, t.expires_at,
           t.revoked_at is not null or (t.parent_id is not null and exists (
               with recursive above (parent_id, revoked_at) as (
                   select p.parent_id, p.revoked_at from tokens p where p.id = t.parent_id
                   union all
                   select p.parent_id, p.revoked_at from above a join tokens p on p.id = a.parent_id
               )
               select 1 from above where revoked_at is not null)),
           m.frozen_at is not null, m.deactivated_at is not null
    from tokens t join members m on m.id = t.member_id
    where t.secret_hash = $1";

/// No live credential.
pub(crate) fn unauthenticated(detail: &'static str) -> Error {
    Error::new(Code::Unauthenticated, detail)
}

impl FromRow for Caller {
    fn from_row(row: &mut Row) -> Result<Self> {
        let (token_id, workspace_id, member_id, actor_id) =
            (row.take()?, row.take()?, row.take()?, row.take()?);
        let (grant_id, capabilities, expires_at) = (row.take()?, row.take()?, row.take()?);
        let (revoked, frozen, deactivated): (bool, bool, bool) = (row.take()?, row.take()?, row.take()?);
        Ok(Self {
            token_id: Some(token_id),
            workspace_id,
            member_id,
            actor_id,
            grant_id,
            capabilities,
            frozen,
            expires_at,
            revoked: revoked || deactivated,
        })
    }
}
