//! Marking items read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::item::unread;
use crate::Result;
use crate::conversation::follows;
use crate::conversation::inbox::Reasons;
use crate::error::Error;
use crate::id::MemberId;
use crate::limits::MARKED_MAX;
use crate::op::Write;
use crate::store::Engine;
use crate::text::{Count, Items};

/// What is left to read.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct LeftUnread {
    /// How many items of the list are unread; at most 1000 are counted.
    unread: i64,
}

/// A position in the log.
type Lsn = Count<0, { i64::MAX }>;

/// Marks items of your inbox read, and returns how many are left unread.
///
/// Name them by one of `up_to_lsn`, `lsns` and `target_id`. Marking them again changes nothing. If you follow
/// `target_id`, what was posted there until now counts as seen, too.
///
/// Fails with 403 `forbidden` if `member_id` is not you.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MarkInboxRead {
    /// Whose inbox: yours.
    #[serde(rename = "member_id")]
    _member_id: Option<MemberId>,
    /// All items up to this one.
    up_to_lsn: Option<Lsn>,
    /// These items.
    lsns: Option<Items<Lsn, MARKED_MAX>>,
    /// All items of this thread or channel.
    target_id: Option<Uuid>,
}

pub(super) fn mark_inbox_read(cx: &mut Write<'_>, input: &MarkInboxRead) -> Result<LeftUnread> {
    let named = Named { up_to_lsn: input.up_to_lsn, lsns: input.lsns.as_deref(), target_id: input.target_id };
    mark(cx, Reasons::all(), &named)
}

/// Marks the messages read in which somebody has spoken to you, and returns how many are left unread.
///
/// Name them by one of `up_to_lsn`, `lsns` and `target_id`. Other items of your inbox stay as they are.
///
/// Fails with 403 `forbidden` if `member_id` is not you.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MarkMentionsRead {
    /// Whose mentions: yours.
    #[serde(rename = "member_id")]
    _member_id: Option<MemberId>,
    /// All items up to this one.
    up_to_lsn: Option<Lsn>,
    /// These items.
    lsns: Option<Items<Lsn, MARKED_MAX>>,
    /// All items of this thread or channel.
    target_id: Option<Uuid>,
}

pub(super) fn mark_mentions_read(cx: &mut Write<'_>, input: &MarkMentionsRead) -> Result<LeftUnread> {
    let named = Named { up_to_lsn: input.up_to_lsn, lsns: input.lsns.as_deref(), target_id: input.target_id };
    mark(cx, Reasons::spoken_to(), &named)
}

/// How the items are named.
struct Named<'a> {
    up_to_lsn: Option<Lsn>,
    lsns: Option<&'a [Lsn]>,
    target_id: Option<Uuid>,
}

fn mark(cx: &mut Write<'_>, reasons: i64, named: &Named<'_>) -> Result<LeftUnread> {
    let (member, now) = (cx.caller().member_id()?, cx.now());
    match (named.up_to_lsn, named.lsns, named.target_id) {
        (Some(up_to), None, None) => {
            cx.execute_any(MARK_UP_TO, &[&member, &now, &reasons, &up_to.get()])?;
        }
        (None, Some(lsns), None) => {
            let lsns: Vec<i64> = lsns.iter().map(|lsn| lsn.get()).collect();
            match cx.engine() {
                Engine::Sqlite => {
                    let lsns = serde_json::to_string(&lsns).map_err(Error::internal)?;
                    cx.execute_any(MARK_THESE_SQLITE, &[&member, &now, &reasons, &lsns])?;
                }
                Engine::Postgres => cx.execute_any(MARK_THESE_POSTGRES, &[&member, &now, &reasons, &lsns])?,
            }
        }
        (None, None, Some(target)) => {
            cx.execute_any(MARK_TARGET, &[&member, &now, &reasons, &target])?;
            follows::see(cx, target)?;
        }
        _ => {
            return Err(Error::in_fields(&["up_to_lsn", "lsns", "target_id"], "expected one of these three"));
        }
    }
    Ok(LeftUnread { unread: unread(cx, reasons)? })
}

macro_rules! mark {
    ($which:literal) => {
        concat!(
            "update inbox set read_at = $2, mail_due = null, push_due = null
             where member_id = $1 and read_at is null and (reasons & $3) <> 0 and ",
            $which
        )
    };
}

const MARK_UP_TO: &str = mark!("lsn <= $4");

const MARK_THESE_SQLITE: &str = mark!("lsn in (select value from json_each($4))");

const MARK_THESE_POSTGRES: &str = mark!("lsn = any($4)");

const MARK_TARGET: &str = mark!("(thread_id = $4 or channel_id = $4)");
