//! Signing out: ending one session, or all sessions of a member.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::own_session;
use crate::error::Result;
use crate::id::{MemberId, SessionId};
use crate::log::event::Invalidates;
use crate::op::Write;

/// Ends the session that your browser is signed in to, and removes its cookie.
///
/// With `everywhere`, all sessions of the member end, in every browser. A frozen member can sign out.
///
/// Fails with 403 `forbidden` if `everywhere` is set and the session acts under a delegation grant.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SignOut {
    /// Whether to end all sessions of the member. Default: end only this session.
    #[serde(default)]
    everywhere: bool,
}

/// The result of signing out.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SignedOut {
    /// The sessions that ended now.
    pub session_ids: Vec<SessionId>,
}

const END: &str = "update sessions set ended_at = $2 where id = $1 and ended_at is null";

pub(super) fn end_session(cx: &mut Write<'_>, input: &SignOut) -> Result<SignedOut> {
    let session_id = own_session(cx)?;
    let member_id = cx.caller().member_id()?;
    let now = cx.now();
    let session_ids = if input.everywhere {
        cx.caller().check_personal()?;
        end_all_of(cx, member_id)?
    } else {
        cx.execute(1, END, &[&session_id, &now])?;
        cx.invalidate(Invalidates::Access)?;
        vec![session_id]
    };
    cx.audit("session.delete", json!({"surface": "session", "session_ids": session_ids}))?;
    Ok(SignedOut { session_ids })
}

const LIVE_OF_MEMBER: &str = "
    select id from sessions where member_id = $1 and ended_at is null and expires_at > $2 order by id";

const END_OF_MEMBER: &str = "
    update sessions set ended_at = $2 where member_id = $1 and ended_at is null and expires_at > $2";

/// Ends all sessions of a member, and returns those that were live.
///
/// Ending a session emits no event, so this function also invalidates its cache entries.
pub(crate) fn end_all_of(cx: &mut Write<'_>, member_id: MemberId) -> Result<Vec<SessionId>> {
    let now = cx.now();
    let live: Vec<(SessionId,)> = cx.query(LIVE_OF_MEMBER, &[&member_id, &now])?;
    cx.execute_any(END_OF_MEMBER, &[&member_id, &now])?;
    cx.invalidate(Invalidates::Access)?;
    Ok(live.into_iter().map(|(session_id,)| session_id).collect())
}
