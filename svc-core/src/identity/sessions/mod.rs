//! Sessions: signing a browser in and out.
//!
//! A session is a row that a signed cookie refers to. A session made from a token is equivalent to the token:
//! it has the token's capabilities, and ends without a write when the token is revoked, expires or gets a new
//! secret. A member's own session stores its capabilities in its row. Every session expires after some hours.
//! A session that is ended before that gets an audit row but no event, so the code that ends it also
//! invalidates its cache entries.
//!
//! Cookies are handled elsewhere: the shell signs the id of a session, and `op` verifies the signature.

mod sign_in;
mod sign_out;
mod first_admin;
mod tidy;
mod holders;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::capability::{Capabilities, CapabilitySet, Right};
use crate::error::{Code, Error, Result};
use crate::id::{GrantId, MemberId, SessionId, WorkspaceId};
use crate::identity::members::{MemberKind, load_member};
use crate::identity::tokens::MintedToken;
use crate::identity::whoami::sets_held;
use crate::op::{Feature, Frame, Read, Records, destructive, read, without_keys, write};
use crate::time::Time;
use first_admin::{MintFirstAdmin, mint_first_admin};
pub(crate) use holders::{has_credential, holders};
use sign_in::create_session;
pub use sign_in::{NewSession, SignIn};
pub(crate) use sign_in::{SessionOf, open_session};
pub(crate) use sign_out::end_all_of;
use sign_out::end_session;
pub use sign_out::{SignOut, SignedOut};
pub(crate) use tidy::{KEPT, ended_rows};

pub(crate) fn feature() -> Feature {
    Feature::new()
        .chore(tidy::sessions_chore())
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

without_keys! {
    SignIn => NewSession,
    SignOut => SignedOut,
    MintFirstAdmin => MintedToken,
}

/// Returns the session that your browser is signed in to, and the member that the session acts as.
///
/// A bearer token is not a session: a request with one fails with 401, even if it also has the cookie of a
/// session. The error lists the enabled methods for signing in as `sign_in`: `token`, and `oidc` if it is
/// enabled.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetSession {}

/// The session of a browser.
#[derive(Debug, Serialize, JsonSchema)]
struct SessionState {
    /// The session's id. It is not a credential: only the signed cookie is.
    session_id: SessionId,
    /// The workspace that the session belongs to.
    workspace_id: WorkspaceId,
    /// The member that the session acts as.
    member_id: MemberId,
    /// The member who signed in; differs from `member_id` only under delegation.
    actor_id: MemberId,
    /// The delegation grant that the session acts under; null if it acts for the member itself.
    delegation_grant_id: Option<GrantId>,
    /// The handle of the member `member_id`.
    handle: String,
    /// Whether the member `member_id` is a person or an agent.
    kind: MemberKind,
    /// The session's capabilities.
    capabilities: Capabilities,
    /// The named sets of capabilities that the session covers completely.
    capability_sets: Vec<CapabilitySet>,
    /// When the session expires.
    expires_at: Option<Time>,
    /// Whether the member `member_id` is frozen and may only read.
    frozen: bool,
}

fn get_session(cx: &Read<'_>, _: &GetSession) -> Result<SessionState> {
    let caller = cx.caller();
    let member = load_member(cx, caller.member_id()?)?;
    Ok(SessionState {
        session_id: own_session(cx)?,
        workspace_id: caller.workspace_id,
        member_id: member.id,
        actor_id: caller.actor.unwrap_or(member.id),
        delegation_grant_id: caller.grant,
        handle: member.handle,
        kind: member.kind,
        capabilities: caller.capabilities,
        capability_sets: sets_held(caller.capabilities),
        expires_at: caller.expires_at,
        frozen: caller.frozen,
    })
}

/// Returns the session with which the request authenticated.
fn own_session(cx: &Read<'_>) -> Result<SessionId> {
    cx.caller().session_id().ok_or_else(|| Error::internal("a session was let in without one"))
}
