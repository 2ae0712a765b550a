//! Signing in: exchanging a token for a browser session.
//!
//! The frame of the route authenticates the request by the token in the body, so the caller is the bearer of
//! that token. This file also opens a member's own session, for code that has authenticated the member in
//! another way.

use std::time::Duration;

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::capability::Capabilities;
use crate::error::{Error, Result};
use crate::id::{MemberId, SessionId, TokenId, WorkspaceId};
use crate::limits::SESSION_TTL_MAX_SECS;
use crate::op::{Write, secret_hash};
use crate::store::new_row;
use crate::text::Count;
use crate::time::Time;

/// Exchanges a token for a session, which the response sets as the cookie `svc_session`.
///
/// The session has exactly the token's capabilities. The session ends when the token is revoked, is rotated
/// or expires, and at the latest after the operator's maximum time. The token is never returned.
///
/// Fails with 403 `forbidden` if the request contains another credential in addition to the token.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// Secret of the token to exchange for a session.
    #[schemars(length(min = 1))]
    token: String,
    /// Seconds until the session expires. Default: the operator's maximum.
    expires_in_secs: Option<Count<1, SESSION_TTL_MAX_SECS>>,
}

impl SignIn {
    /// Returns the secret of the token.
    pub fn token(self) -> String {
        self.token
    }
}

/// A session that was just created.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NewSession {
    /// Id of the session. The id is not a credential; only the signed cookie is.
    pub session_id: SessionId,
    /// Id of the workspace that the session can access.
    pub workspace_id: WorkspaceId,
    /// Id of the member that the session acts as.
    pub member_id: MemberId,
    /// Time at which the session was created.
    pub created_at: Time,
    /// Time at which the session expires.
    pub expires_at: Time,
}

const TOKEN_WITH_SECRET: &str = "select id from tokens where id = $1 and secret_hash = $2";

pub(super) fn create_session(cx: &mut Write<'_>, input: &SignIn) -> Result<NewSession> {
    let caller = cx.caller().clone();
    let created_at = cx.now();
    let member_id = caller.member_id()?;
    let hash = secret_hash(&SecretString::from(input.token.as_str()));
    let own = match (caller.token_id, caller.session_id()) {
        (Some(token_id), None) => cx.one::<(TokenId,)>(TOKEN_WITH_SECRET, &[&token_id, &hash])?,
        _ => None,
    };
    let Some((token_id,)) = own else {
        return Err(Error::forbidden("a browser signs in with the token that the request comes with"));
    };
    let expires_at =
        session_expiry(created_at, cx.settings().session_ttl, input.expires_in_secs, caller.expires_at);
    let about = json!({"token_id": token_id});
    open_session(cx, member_id, CapabilitySource::Token(token_id, hash), expires_at, about)
}

/// Source of a session's capabilities.
pub(crate) enum CapabilitySource {
    /// A token, whose capabilities the session has while the token's secret has this hash.
    Token(TokenId, [u8; 32]),
    /// Capabilities of a member's own session, which was not made from a token.
    Member(Capabilities),
}

/// Opens a session of a member of the caller's workspace. The caller must have checked that the session is
/// allowed.
///
/// The audit row contains the fields of `audit_fields` in addition to its usual fields.
pub(crate) fn open_session(
    cx: &mut Write<'_>,
    member_id: MemberId,
    source: CapabilitySource,
    expires_at: Time,
    audit_fields: Value,
) -> Result<NewSession> {
    let workspace_id = cx.caller().workspace_id;
    let created_at = cx.now();
    let session = NewSession { session_id: cx.new_id()?, workspace_id, member_id, created_at, expires_at };
    let (token_id, secret_hash, capabilities) = match source {
        CapabilitySource::Token(token, hash) => (Some(token), Some(hash), None),
        CapabilitySource::Member(capabilities) => (None, None, Some(capabilities)),
    };
    cx.insert(&new_row!("insert into sessions" {
        id: session.session_id,
        workspace_id,
        member_id,
        token_id,
        secret_hash,
        capabilities,
        created_at,
        expires_at,
    }))?;
    let mut metadata = json!({
        "surface": "session", "session_id": session.session_id, "member_id": member_id,
        "expires_at": expires_at,
    });
    if let (Some(metadata), Value::Object(audit_fields)) = (metadata.as_object_mut(), audit_fields) {
        metadata.extend(audit_fields);
    }
    cx.audit("session.create", metadata)?;
    Ok(session)
}

/// Returns the time at which a session expires: as requested, but not after the operator's maximum or the
/// token's end.
fn session_expiry(
    now: Time,
    ttl: Duration,
    requested_secs: Option<Count<1, SESSION_TTL_MAX_SECS>>,
    token_expires_at: Option<Time>,
) -> Time {
    let requested = requested_secs.map(|secs| Duration::from_secs(secs.get().unsigned_abs()));
    let end = now.plus(requested.map_or(ttl, |requested| requested.min(ttl)));
    token_expires_at.map_or(end, |token_end| token_end.min(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_no_later_than_its_token_and_than_allowed() {
        let at = |secs: i64| Time::from_micros(secs * 1_000_000);
        let ends = |asked: Option<i64>, token: Option<i64>| {
            let asked = asked.map(|secs| Count::new(secs).unwrap());
            session_expiry(at(1000), Duration::from_secs(500), asked, token.map(at))
        };
        assert_eq!(ends(None, None), at(1500));
        assert_eq!(ends(Some(60), None), at(1060));
        assert_eq!(ends(Some(501), None), at(1500));
        assert_eq!(ends(None, Some(1100)), at(1100));
        assert_eq!(ends(Some(60), Some(9000)), at(1060));
    }
}
