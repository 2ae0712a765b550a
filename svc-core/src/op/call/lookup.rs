//! Finding a caller by credential.
//!
//! A credential is looked up inside the transaction that it authorises, so no decision relies on stale data.
//! A lookup also finds credentials that have ended; [`Caller::check_live`] rejects them.

use serde::Deserialize;

use crate::Result;
use crate::capability::{Capabilities, CapabilitySet};
use crate::id::{ChannelId, InstallationId, MemberId, SessionId, ShareTicketId, TokenId, WorkspaceId};
use crate::op::call::caller::{Caller, CredentialKind, Visibility, unauthenticated};
use crate::op::call::credential::CredentialKey;
use crate::store::{Conn, FromRow, ToParam, columns};
use crate::time::Time;

impl Caller {
    /// Finds the caller that a credential identifies, even if the credential has ended.
    pub(crate) fn by_key(conn: &Conn, key: &CredentialKey) -> Result<Self> {
        match key {
            CredentialKey::Token(hash) => Self::by_secret(conn, hash),
            CredentialKey::Session(session) => Self::by_session(conn, *session),
            CredentialKey::Both(hash, session) => {
                Self::by_secret(conn, hash)?.beside(&Self::by_session(conn, *session)?, *session)
            }
            CredentialKey::Ticket(hash) => Self::by_ticket(conn, hash),
            CredentialKey::FirstPerson => Self::first_person(conn),
            CredentialKey::Anonymous(workspace) => Self::anonymous_in(conn, *workspace),
        }
    }

    /// Finds a caller by the hash of a token's secret.
    fn by_secret(conn: &Conn, hash: &[u8; 32]) -> Result<Self> {
        found(conn, BY_SECRET, &[hash])?.ok_or_else(|| unauthenticated("the token is unknown"))
    }

    /// Finds the caller that a browser session acts as.
    ///
    /// A session that was created from a token acts as that token, as long as the token still has the secret
    /// that it had then.
    fn by_session(conn: &Conn, id: SessionId) -> Result<Self> {
        let unknown = || unauthenticated("the session is unknown");
        let session: Session = found(conn, SESSION, &[&id])?.ok_or_else(unknown)?;
        let via = CredentialKind::Session { id, token: session.token_id };
        let caller = match (session.token_id, session.capabilities) {
            (Some(token_id), _) => {
                let token: Option<Self> = found(conn, OF_SESSION, &[&token_id, &session.secret_hash])?;
                let token = token.ok_or_else(|| unauthenticated("the session ended with its token"))?;
                let expires_at =
                    token.expires_at.map_or(session.expires_at, |end| end.min(session.expires_at));
                Self { via, token_id: None, expires_at: Some(expires_at), ..token }
            }
            (None, capabilities) => Self {
                via,
                member: Some(session.member_id),
                actor: Some(session.member_id),
                visibility: Visibility::Member(session.member_id),
                capabilities: capabilities.unwrap_or(Capabilities::NONE),
                frozen: session.frozen,
                expires_at: Some(session.expires_at),
                revoked: session.deactivated,
                charged_to: session.charged_to,
                ..Self::instance(session.workspace_id)
            },
        };
        Ok(Self { revoked: caller.revoked || session.ended_at.is_some(), ..caller })
    }

    /// Finds the caller for a share ticket by the hash of its secret: not a member, and limited to one
    /// channel.
    fn by_ticket(conn: &Conn, hash: &[u8; 32]) -> Result<Self> {
        let unknown = || unauthenticated("the share ticket is unknown");
        let ticket: SharedChannel = found(conn, BY_TICKET, &[hash])?.ok_or_else(unknown)?;
        Ok(Self {
            via: CredentialKind::Ticket(ticket.id),
            capabilities: Capabilities::NONE,
            expires_at: Some(ticket.expires_at),
            revoked: ticket.revoked,
            charged_to: ticket.charged_to,
            ..Self::instance(ticket.workspace_id).seeing(Visibility::Channel(ticket.channel_id))
        })
    }

    /// Finds the first person of the first workspace, who administers that workspace.
    fn first_person(conn: &Conn) -> Result<Self> {
        let unknown = || unauthenticated("the service has no person yet that could act");
        let DefaultPerson { id, workspace_id, charged_to, frozen } =
            found(conn, FIRST_PERSON, &[])?.ok_or_else(unknown)?;
        let capabilities = CapabilitySet::HumanAdmin.capabilities();
        Ok(Self { capabilities, frozen, charged_to, ..Self::acting_as(workspace_id, Some(id)) })
    }

    /// Returns the anonymous reader of the public channels of a workspace.
    fn anonymous_in(conn: &Conn, workspace: WorkspaceId) -> Result<Self> {
        let unknown = || unauthenticated("the workspace that is open to all does not exist");
        let (workspace_id, charged_to) = found(conn, LIVE, &[&workspace])?.ok_or_else(unknown)?;
        let capabilities = Capabilities::of_anonymous();
        Ok(Self {
            workspace_id,
            charged_to,
            visibility: Visibility::Public,
            capabilities,
            ..Self::anonymous()
        })
    }

    /// Returns the caller for a token that was sent together with a session. Both must belong to the same
    /// member.
    fn beside(self, session: &Self, id: SessionId) -> Result<Self> {
        if (self.workspace_id, self.member) != (session.workspace_id, session.member) {
            return Err(unauthenticated("the token and the session are of different members"));
        }
        let via = CredentialKind::Both(id);
        let beside_until = session.expires_at;
        Ok(Self { via, beside_until, revoked: self.revoked || session.revoked, ..self })
    }
}

/// SQL: selects the workspace that is charged for the workspace of a row.
macro_rules! charged_to {
    ($workspace:literal) => {
        concat!(
            "coalesce((select w.charged_to from workspaces w where w.id = ",
            $workspace,
            "), ",
            $workspace,
            ")"
        )
    };
}

columns! {
    caller_columns: Caller as t {
        workspace_id,
        charged_to = (charged_to!("t.workspace_id")),
        grant = grant_id,
        installation = installation_id,
        quota,
        expires_at,
        frozen = "m.frozen_at is not null or a.frozen_at is not null",
    }
    read {
        id,
        held: Capabilities = capabilities,
        // The event that created the token. The log may lack it after pruning. Events are numbered from 1.
        minted: Option<String> =
            "(select e.payload from events e where e.workspace_id = t.workspace_id and e.lsn = t.lsn)",
        pruned: bool = "exists (
            select 1 from heads h where h.workspace_id = t.workspace_id and h.floor > t.lsn and t.lsn > 0)",
        member_id: MemberId,
        actor_id,
        // Revoking a token also revokes all tokens derived from it. Revoking a grant or an installation
        // revokes all of its tokens.
        revoked: bool = "t.revoked_at is not null
           or (t.grant_id is not null and exists (
               select 1 from delegation_grants g where g.id = t.grant_id and g.revoked_at is not null))
           or (t.installation_id is not null and exists (
               select 1 from app_installations i
               where i.id = t.installation_id and i.revoked_at is not null))
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
        via: CredentialKind::Token,
        capabilities: if pruned { held } else { granted(id, held, minted.as_deref())? },
        token_id: Some(id),
        member: Some(member_id),
        actor: Some(actor_id),
        visibility: Visibility::Member(member_id),
        beside_until: None,
        revoked: revoked || deactivated,
    }
}

/// Returns the capabilities in a token's row, after checking that its event granted them.
///
/// The log is verified, the row is not: an attacker who can write to the database cannot extend a token's
/// rights.
fn granted(id: TokenId, held: Capabilities, minted: Option<&str>) -> Result<Capabilities> {
    #[derive(Deserialize)]
    struct Minted {
        token_id: TokenId,
        /// Capabilities as names, because a newer version may know more of them.
        capabilities: Vec<String>,
    }
    let minted = minted.and_then(|text| serde_json::from_str::<Minted>(text).ok());
    let grants = |minted: Minted| {
        let has = |name: &str| minted.capabilities.iter().any(|granted| granted == name);
        minted.token_id == id && held.iter().all(|capability| has(capability.name()))
    };
    if minted.is_some_and(grants) {
        return Ok(held);
    }
    tracing::warn!(token = %id, "a token has capabilities that its event in the log has not granted");
    Err(unauthenticated("the token has more capabilities than it was minted with"))
}

/// A browser session with the state of its member, as read from the database.
struct Session {
    workspace_id: WorkspaceId,
    charged_to: WorkspaceId,
    member_id: MemberId,
    token_id: Option<TokenId>,
    /// The hash of the token's secret when the session was created.
    secret_hash: Option<[u8; 32]>,
    /// The capabilities of the session, unless a token determines them.
    capabilities: Option<Capabilities>,
    expires_at: Time,
    ended_at: Option<Time>,
    frozen: bool,
    deactivated: bool,
}

columns! {
    session_columns: Session as s {
        workspace_id,
        charged_to = (charged_to!("s.workspace_id")),
        member_id,
        token_id,
        secret_hash,
        capabilities,
        expires_at,
        ended_at,
        frozen = "m.frozen_at is not null",
        deactivated = "m.deactivated_at is not null",
    }
}

/// The channel that a share ticket gives access to, and whether the ticket is live.
struct SharedChannel {
    id: ShareTicketId,
    workspace_id: WorkspaceId,
    charged_to: WorkspaceId,
    channel_id: ChannelId,
    expires_at: Time,
    revoked: bool,
}

columns! {
    shared_channel_columns: SharedChannel as s {
        id,
        workspace_id,
        charged_to = (charged_to!("s.workspace_id")),
        channel_id,
        expires_at,
        // A ticket ends with the membership of its issuer, and an app's ticket ends with the installation.
        revoked = "s.revoked_at is not null or m.deactivated_at is not null or a.deactivated_at is not null
           or (s.installation_id is not null and exists (
               select 1 from app_installations i
               where i.id = s.installation_id and i.revoked_at is not null))",
    }
}

const BY_TICKET: &str = concat!(
    "select ",
    shared_channel_columns!(),
    " from share_tickets s join members m on m.id = s.owner_id join members a on a.id = s.created_by
     where s.secret_hash = $1"
);

/// The person that an unauthenticated request acts as.
struct DefaultPerson {
    id: MemberId,
    workspace_id: WorkspaceId,
    charged_to: WorkspaceId,
    frozen: bool,
}

columns! {
    person_columns: DefaultPerson as m {
        id,
        workspace_id,
        charged_to = (charged_to!("m.workspace_id")),
        frozen = "m.frozen_at is not null",
    }
}

const LIVE: &str = "select id, coalesce(charged_to, id) from workspaces where id = $1 and state = 'live'";

/// Finds the first person in the log of the first workspace, so that the result never changes.
const FIRST_PERSON: &str = concat!(
    "select ",
    person_columns!(),
    " from members m
     where m.workspace_id = (select w.id from workspaces w where w.state = 'live'
         order by w.created_at, w.id limit 1)
       and m.kind = 'human' and m.deactivated_at is null
     order by m.lsn, m.id limit 1"
);

const SESSION: &str = concat!(
    "select ",
    session_columns!(),
    " from sessions s join members m on m.id = s.member_id where s.id = $1"
);

/// Finds the token of a session, if the token still has the same secret.
const OF_SESSION: &str = concat!(
    "select ",
    caller_columns!(),
    " from tokens t join members m on m.id = t.member_id join members a on a.id = t.actor_id
     where t.id = $1 and t.secret_hash = $2"
);

/// Returns the request quota of an app installation. All tokens of the installation count against it.
pub(super) fn quota_of(conn: &Conn, installation: InstallationId) -> Result<Option<i64>> {
    let row: Option<(Option<i64>,)> = found(conn, OF_INSTALLATION, &[&installation])?;
    Ok(row.and_then(|(quota,)| quota))
}

const OF_INSTALLATION: &str = "select quota from app_installations where id = $1";

/// Returns the only row of a statement, or `None`.
fn found<T: FromRow>(conn: &Conn, sql: &'static str, params: &[&dyn ToParam]) -> Result<Option<T>> {
    conn.query(sql, params)?.first_mut().map(T::from_row).transpose()
}

/// Finds a token by the hash of its secret.
///
/// A token ends or is frozen together with the member that it acts as, and with the member that holds it.
const BY_SECRET: &str = concat!(
    "select ",
    caller_columns!(),
    " from tokens t join members m on m.id = t.member_id join members a on a.id = t.actor_id
     where t.secret_hash = $1"
);
