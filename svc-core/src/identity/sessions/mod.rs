//! Sessions: signing browsers in and out.
//!
//! A session is a row that a signed cookie refers to. A session made from a token is equivalent to the token:
//! the session has the token's capabilities, and ends without a write when the token is revoked, expires or
//! is rotated. A member's own session, which was not made from a token, stores the capabilities in the
//! session's row. Every session expires after some hours. Ending a session earlier writes an audit row but no
//! event, so the code that ends the session also invalidates the cache entries.
//!
//! This layer does not handle cookies: the shell signs the id of a session, and `op` verifies the signature.

mod sign_in;
mod sign_out;
mod first_admin;
mod ended_rows;
mod holders;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::capability::{Capabilities, CapabilitySet, Right};
use crate::error::{Code, Error, Result};
use crate::id::{GrantId, MemberId, SessionId, WorkspaceId};
use crate::identity::members::{MemberKind, load_member};
use crate::identity::tokens::MintedToken;
use crate::identity::whoami::covered_sets;
use crate::op::{
    Feature, Frame, Read, Records, destructive, read, without_idempotency_keys, without_requests, write,
};
use crate::time::Time;
pub(crate) use ended_rows::{ENDED_ROWS_RETENTION, ended_rows_chore};
use first_admin::{MintFirstAdmin, mint_first_admin};
pub(crate) use holders::{has_credential, members_with_capability};
use sign_in::create_session;
pub(crate) use sign_in::{CapabilitySource, open_session};
pub use sign_in::{NewSession, SignIn};
pub(crate) use sign_out::end_member_sessions;
use sign_out::end_session;
pub use sign_out::{SignOut, SignOutResult};

pub(crate) fn feature() -> Feature {
    Feature::new()
        .chore(ended_rows::sessions_chore())
        .operations(
            "sessions",
            vec![
                write("create_session", create_session)
                    .title("Sign a browser in")
                    .post("/auth/session/from-token")
                    .framed(Frame::SignIn)
                    .open_to_frozen()
                    .refuses(&[Code::Forbidden])
                    .example(|_| json!({"token": "svc_secret", "expires_in_secs": 3600})),
                read("get_session", get_session)
                    .title("Read the session of a browser")
                    .get("/auth/session")
                    .framed(Frame::Session)
                    .needs(&[Right::Session])
                    .example(|_| json!({})),
                destructive("end_session", end_session)
                    .title("Sign a browser out")
                    .post("/auth/logout")
                    .framed(Frame::Session)
                    .needs(&[Right::Session])
                    .open_to_frozen()
                    .refuses(&[Code::Forbidden])
                    .example(|_| json!({})),
                write("mint_first_admin", mint_first_admin)
                    .title("Mint the first administrator's token")
                    .post("/auth/session/mint")
                    .framed(Frame::Session)
                    .needs(&[Right::Session])
                    .created()
                    .refuses(&[Code::Forbidden, Code::WrongState])
                    .example(|_| json!({})),
            ],
        )
        .records(vec![Records::table("sessions", "id").erased_first().after("tokens").stays()])
}

without_requests! { SignIn, GetSession, SignOut, MintFirstAdmin }

without_idempotency_keys! {
    SignIn => NewSession,
    SignOut => SignOutResult,
    MintFirstAdmin => MintedToken,
}

/// Returns the session that your browser is signed in to, and the member that the session acts as.
///
/// A bearer token is not a session: a request with a bearer token fails with 401, even if the request also
/// has the cookie of a session. The field `sign_in` of the error lists the enabled methods for signing in:
/// `token`, and `oidc` if the operator has enabled it.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetSession {}

/// The session that a browser is signed in to.
#[derive(Debug, Serialize, JsonSchema)]
struct SessionState {
    /// Id of the session. The id is not a credential; only the signed cookie is.
    session_id: SessionId,
    /// Id of the workspace that the session can access.
    workspace_id: WorkspaceId,
    /// Id of the member that the session acts as.
    member_id: MemberId,
    /// Id of the member who signed in; differs from `member_id` only under delegation.
    actor_id: MemberId,
    /// Id of the delegation grant that the session acts under; null if the member acts directly.
    delegation_grant_id: Option<GrantId>,
    /// Handle of the member that the session acts as.
    handle: String,
    /// Whether the member that the session acts as is a person or an agent.
    kind: MemberKind,
    /// Capabilities of the session.
    capabilities: Capabilities,
    /// Names of the capability sets that the session's capabilities cover completely.
    capability_sets: Vec<CapabilitySet>,
    /// Time at which the session expires.
    expires_at: Option<Time>,
    /// Whether the member that the session acts as is frozen. A frozen member may only read.
    frozen: bool,
}

fn get_session(cx: &Read<'_>, _: &GetSession) -> Result<SessionState> {
    let caller = cx.caller();
    let member = load_member(cx, caller.member_id()?)?;
    Ok(SessionState {
        session_id: current_session_id(cx)?,
        workspace_id: caller.workspace_id,
        member_id: member.id,
        actor_id: caller.actor.unwrap_or(member.id),
        delegation_grant_id: caller.grant,
        handle: member.handle,
        kind: member.kind,
        capabilities: caller.capabilities,
        capability_sets: covered_sets(caller.capabilities),
        expires_at: caller.expires_at,
        frozen: caller.frozen,
    })
}

/// Returns the id of the session with which the request authenticated.
fn current_session_id(cx: &Read<'_>) -> Result<SessionId> {
    cx.caller().session_id().ok_or_else(|| Error::internal("a session was let in without one"))
}
