//! Signing out: ending one session of a member, or all of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::current_session_id;
use crate::error::Result;
use crate::id::{MemberId, SessionId};
use crate::log::event::CachedEntryKind;
use crate::op::Write;

/// Ends the session that your browser is signed in to, and removes the session's cookie.
///
/// With `everywhere`, the server ends all sessions of the member, in every browser. A frozen member can sign
/// out.
///
/// Fails with 403 `forbidden` if `everywhere` is set and the session acts under a delegation grant.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignOut {
    /// Whether to end all sessions of the member. Default: end only the session of this browser.
    #[serde(default)]
    everywhere: bool,
}

/// Result of signing out: the sessions that ended.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SignedOut")]
pub struct SignOutResult {
    /// Ids of the sessions that ended.
    pub session_ids: Vec<SessionId>,
}

const END_SESSION: &str = "update sessions set ended_at = $2 where id = $1 and ended_at is null";

pub(super) fn end_session(cx: &mut Write<'_>, input: &SignOut) -> Result<SignOutResult> {
    let session_id = current_session_id(cx)?;
    let member_id = cx.caller().member_id()?;
    let now = cx.now();
    let session_ids = if input.everywhere {
        cx.caller().check_personal()?;
        end_member_sessions(cx, member_id)?
    } else {
        cx.execute(1, END_SESSION, &[&session_id, &now])?;
        cx.invalidate(CachedEntryKind::Access)?;
        vec![session_id]
    };
    cx.audit("session.delete", json!({"surface": "session", "session_ids": session_ids}))?;
    Ok(SignOutResult { session_ids })
}

const LIVE_SESSIONS_OF_MEMBER: &str = "
    select id from sessions where member_id = $1 and ended_at is null and expires_at > $2 order by id";

const END_SESSIONS_OF_MEMBER: &str = "
    update sessions set ended_at = $2 where member_id = $1 and ended_at is null and expires_at > $2";

/// Ends all sessions of a member, and returns the ids of the sessions that were live.
///
/// Ending a session emits no event, so this function also invalidates the cache entries.
pub(crate) fn end_member_sessions(cx: &mut Write<'_>, member_id: MemberId) -> Result<Vec<SessionId>> {
    let now = cx.now();
    let live: Vec<(SessionId,)> = cx.query(LIVE_SESSIONS_OF_MEMBER, &[&member_id, &now])?;
    cx.execute_any(END_SESSIONS_OF_MEMBER, &[&member_id, &now])?;
    cx.invalidate(CachedEntryKind::Access)?;
    Ok(live.into_iter().map(|(session_id,)| session_id).collect())
}
