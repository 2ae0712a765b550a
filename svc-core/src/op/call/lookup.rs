//! Looks up the caller that a credential identifies.
//!
//! A credential is looked up inside the transaction that it authorises, so no decision relies on stale data.
//! A lookup also succeeds for a credential that has expired or was revoked; [`Caller::check_live`] rejects it
//! later.

use serde::Deserialize;

use crate::Result;
use crate::capability::{Capabilities, CapabilitySet};
use crate::id::{ChannelId, InstallationId, MemberId, SessionId, ShareTicketId, TokenId, WorkspaceId};
use crate::op::call::caller::{Caller, CredentialKind, Visibility, unauthenticated};
use crate::op::call::credential::CredentialKey;
use crate::store::{Conn, FromRow, ToParam, columns};
use crate::time::Time;

impl Caller {
    /// Finds the caller that a credential identifies, even if the credential has expired or was revoked.
    /// Fails with 401 `unauthenticated` if the credential is unknown.
    pub(crate) fn find_by_key(conn: &Conn, key: &CredentialKey) -> Result<Self> {
        match key {
            CredentialKey::Token(hash) => Self::find_by_token_hash(conn, hash),
            CredentialKey::Session(session) => Self::find_by_session(conn, *session),
            CredentialKey::Both(hash, session) => Self::find_by_token_hash(conn, hash)?
                .with_session(&Self::find_by_session(conn, *session)?, *session),
            CredentialKey::Ticket(hash) => Self::find_by_ticket_hash(conn, hash),
            CredentialKey::FirstPerson => Self::find_first_person(conn),
            CredentialKey::Anonymous(workspace) => Self::find_anonymous_reader(conn, *workspace),
        }
    }

    /// Finds a caller by the hash of a token's secret.
    fn find_by_token_hash(conn: &Conn, hash: &[u8; 32]) -> Result<Self> {
        find_row(conn, TOKEN_BY_SECRET, &[hash])?.ok_or_else(|| unauthenticated("the token is unknown"))
    }

    /// Finds the caller that requests with a browser session act as.
    ///
    /// A session that was created from a token has the rights of that token, and ends when the secret of the
    /// token changes.
    fn find_by_session(conn: &Conn, id: SessionId) -> Result<Self> {
        let unknown = || unauthenticated("the session is unknown");
        let session: Session = find_row(conn, SESSION_BY_ID, &[&id])?.ok_or_else(unknown)?;
        let via = CredentialKind::Session { id, token: session.token_id };
        let caller = match (session.token_id, session.capabilities) {
            (Some(token_id), _) => {
                let token: Option<Self> =
                    find_row(conn, TOKEN_OF_SESSION, &[&token_id, &session.secret_hash])?;
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

    /// Finds the caller for a share ticket by the hash of its secret. The caller is not a member and sees
    /// only one channel.
    fn find_by_ticket_hash(conn: &Conn, hash: &[u8; 32]) -> Result<Self> {
        let unknown = || unauthenticated("the share ticket is unknown");
        let ticket: SharedChannel = find_row(conn, TICKET_BY_SECRET, &[hash])?.ok_or_else(unknown)?;
        Ok(Self {
            via: CredentialKind::Ticket(ticket.id),
            capabilities: Capabilities::NONE,
            expires_at: Some(ticket.expires_at),
            revoked: ticket.revoked,
            charged_to: ticket.charged_to,
            ..Self::instance(ticket.workspace_id).with_visibility(Visibility::Channel(ticket.channel_id))
        })
    }

    /// Finds the first person of the oldest live workspace, with all capabilities of a human administrator.
    fn find_first_person(conn: &Conn) -> Result<Self> {
        let unknown = || unauthenticated("the service has no person yet that the request could act as");
        let DefaultPerson { id, workspace_id, charged_to, frozen } =
            find_row(conn, FIRST_PERSON, &[])?.ok_or_else(unknown)?;
        let capabilities = CapabilitySet::HumanAdmin.capabilities();
        Ok(Self { capabilities, frozen, charged_to, ..Self::acting_as(workspace_id, Some(id)) })
    }

    /// Returns the anonymous reader of the public channels of a workspace.
    fn find_anonymous_reader(conn: &Conn, workspace: WorkspaceId) -> Result<Self> {
        let unknown = || unauthenticated("the workspace that is open to all does not exist");
        let (workspace_id, charged_to) =
            find_row(conn, LIVE_WORKSPACE, &[&workspace])?.ok_or_else(unknown)?;
        let capabilities = Capabilities::for_anonymous();
        Ok(Self {
            workspace_id,
            charged_to,
            visibility: Visibility::Public,
            capabilities,
            ..Self::anonymous()
        })
    }

    /// Returns the caller for a token and a session in the same request. Fails if the token and the session
    /// belong to different members.
    fn with_session(self, session: &Self, id: SessionId) -> Result<Self> {
        if (self.workspace_id, self.member) != (session.workspace_id, session.member) {
            return Err(unauthenticated("the token and the session are of different members"));
        }
        let via = CredentialKind::Both(id);
        let session_expires_at = session.expires_at;
        Ok(Self { via, session_expires_at, revoked: self.revoked || session.revoked, ..self })
    }
}

/// SQL expression for the workspace to which the work of a row's workspace is charged.
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
        // The event that created the token. Pruning may have removed it from the log. Events are numbered
        // from 1.
        creation_payload: Option<String> =
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
        capabilities: if pruned { held } else { check_granted(id, held, creation_payload.as_deref())? },
        token_id: Some(id),
        member: Some(member_id),
        actor: Some(actor_id),
        visibility: Visibility::Member(member_id),
        session_expires_at: None,
        revoked: revoked || deactivated,
    }
}

/// Returns `held`, the capabilities in a token's row, after checking that the event of the token's creation
/// granted them. `creation_payload` is the payload of that event.
///
/// The hash chain protects the log but not the row. Because of this check, an attacker who can write to the
/// database cannot extend the rights of a token.
fn check_granted(id: TokenId, held: Capabilities, creation_payload: Option<&str>) -> Result<Capabilities> {
    #[derive(Deserialize)]
    struct TokenCreation {
        token_id: TokenId,
        /// Names of the granted capabilities. They remain text, because a newer version of the service may
        /// have granted capabilities that this version does not know.
        capabilities: Vec<String>,
    }
    let creation = creation_payload.and_then(|text| serde_json::from_str::<TokenCreation>(text).ok());
    let grants = |creation: TokenCreation| {
        let has = |name: &str| creation.capabilities.iter().any(|granted| granted == name);
        creation.token_id == id && held.iter().all(|capability| has(capability.name()))
    };
    if creation.is_some_and(grants) {
        return Ok(held);
    }
    tracing::warn!(token = %id, "a token has capabilities that its event in the log has not granted");
    Err(unauthenticated("the token has more capabilities than it was minted with"))
}

/// A browser session and the state of its member, as read from the database.
struct Session {
    workspace_id: WorkspaceId,
    charged_to: WorkspaceId,
    member_id: MemberId,
    token_id: Option<TokenId>,
    /// Hash of the token's secret at the time when the session was created.
    secret_hash: Option<[u8; 32]>,
    /// Capabilities of the session, or `None` if a token determines them.
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

/// A share ticket with its channel, as read from the database.
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
        // A ticket ends when its issuer is deactivated. An app's ticket also ends when the installation is
        // revoked.
        revoked = "s.revoked_at is not null or m.deactivated_at is not null or a.deactivated_at is not null
           or (s.installation_id is not null and exists (
               select 1 from app_installations i
               where i.id = s.installation_id and i.revoked_at is not null))",
    }
}

const TICKET_BY_SECRET: &str = concat!(
    "select ",
    shared_channel_columns!(),
    " from share_tickets s join members m on m.id = s.owner_id join members a on a.id = s.created_by
     where s.secret_hash = $1"
);

/// The person that a request without a credential acts as, on a service without authentication.
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

const LIVE_WORKSPACE: &str =
    "select id, coalesce(charged_to, id) from workspaces where id = $1 and state = 'live'";

/// Selects the active person whose event is the first in the log of the oldest live workspace.
const FIRST_PERSON: &str = concat!(
    "select ",
    person_columns!(),
    " from members m
     where m.workspace_id = (select w.id from workspaces w where w.state = 'live'
         order by w.created_at, w.id limit 1)
       and m.kind = 'human' and m.deactivated_at is null
     order by m.lsn, m.id limit 1"
);

const SESSION_BY_ID: &str = concat!(
    "select ",
    session_columns!(),
    " from sessions s join members m on m.id = s.member_id where s.id = $1"
);

/// Selects the token of a session, if the token still has the secret from which the session was created.
const TOKEN_OF_SESSION: &str = concat!(
    "select ",
    caller_columns!(),
    " from tokens t join members m on m.id = t.member_id join members a on a.id = t.actor_id
     where t.id = $1 and t.secret_hash = $2"
);

/// Returns the request quota of an app installation, which limits all tokens of the installation together.
pub(super) fn installation_quota(conn: &Conn, installation: InstallationId) -> Result<Option<i64>> {
    let row: Option<(Option<i64>,)> = find_row(conn, INSTALLATION_QUOTA, &[&installation])?;
    Ok(row.and_then(|(quota,)| quota))
}

const INSTALLATION_QUOTA: &str = "select quota from app_installations where id = $1";

/// Returns the first row of a statement, or `None` if the statement has no rows.
fn find_row<T: FromRow>(conn: &Conn, sql: &'static str, params: &[&dyn ToParam]) -> Result<Option<T>> {
    conn.query(sql, params)?.first_mut().map(T::from_row).transpose()
}

/// Selects a token by the hash of its secret.
///
/// A token ends or is frozen together with the member that it acts as, and together with the member that owns
/// it.
const TOKEN_BY_SECRET: &str = concat!(
    "select ",
    caller_columns!(),
    " from tokens t join members m on m.id = t.member_id join members a on a.id = t.actor_id
     where t.secret_hash = $1"
);
