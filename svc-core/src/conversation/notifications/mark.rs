//! Marking inbox items as read, in steps of a limited number of items.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::item::{InboxList, count_unread, for_each_list};
use crate::Result;
use crate::conversation::follows;
use crate::error::Error;
use crate::id::MemberId;
use crate::identity::workspaces::OwnId;
use crate::limits::MARKED_ITEMS_MAX;
use crate::op::{Answer, Read, Write};
use crate::request::request;
use crate::store::Engine;
use crate::text::{Count, Items};

/// Maximum inbox items marked in one step.
const STEP_ITEMS_MAX: i64 = 1000;

/// The number of items that remain unread after items were marked as read.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LeftUnread")]
#[non_exhaustive]
pub struct RemainingUnread {
    /// Number of unread items that you may see, among the newest 1000 unread items of the list.
    pub unread: i64,
}

impl<I> Answer<I> for RemainingUnread {
    type Kept = Self;

    fn kept(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn answer_repeat(_: &Read<'_>, _: &I, left: Self) -> Result<Self> {
        Ok(left)
    }
}

/// A position in the workspace's log.
type Lsn = Count<0, { i64::MAX }>;

request! {
    /// Marks items of your inbox as read, and returns the number of items that remain unread.
    ///
    /// Select the items with exactly one of `up_to_lsn`, `lsns` and `target_id`. If you follow `target_id`,
    /// all its messages are marked as seen too.
    ///
    /// Marking read items changes nothing.
    ///
    /// Fails with 403 `forbidden` if `member_id` is not you.
    #[derive(Serialize)]
    pub(super) struct MarkInboxRead {
        /// Your member id.
        member_id: OwnId<MemberId>,
        /// Selects all items up to this log position.
        up_to_lsn: Option<Lsn>,
        /// Selects the items at these log positions.
        lsns: Option<Items<Lsn, MARKED_ITEMS_MAX>>,
        /// Selects all items of the thread or channel with this id.
        target_id: Option<Uuid>,
    }

    mark_inbox_read() -> RemainingUnread
}

pub(super) fn mark_inbox_read(cx: &mut Write<'_>, input: &MarkInboxRead) -> Result<Option<RemainingUnread>> {
    let selection =
        ItemSelection { up_to_lsn: input.up_to_lsn, lsns: input.lsns.as_deref(), target_id: input.target_id };
    mark_step(cx, InboxList::Inbox, &selection)
}

request! {
    /// Marks messages that are addressed to you as read, and returns how many of them remain unread.
    ///
    /// Select the messages with exactly one of `up_to_lsn`, `lsns` and `target_id`.
    ///
    /// Other inbox items are not changed.
    ///
    /// Fails with 403 `forbidden` if `member_id` is not you.
    #[derive(Serialize)]
    pub(super) struct MarkMentionsRead {
        /// Your member id.
        member_id: OwnId<MemberId>,
        /// Selects all items up to this log position.
        up_to_lsn: Option<Lsn>,
        /// Selects the items at these log positions.
        lsns: Option<Items<Lsn, MARKED_ITEMS_MAX>>,
        /// Selects all items of the thread or channel with this id.
        target_id: Option<Uuid>,
    }

    mark_mentions_read() -> RemainingUnread
}

pub(super) fn mark_mentions_read(
    cx: &mut Write<'_>,
    input: &MarkMentionsRead,
) -> Result<Option<RemainingUnread>> {
    let selection =
        ItemSelection { up_to_lsn: input.up_to_lsn, lsns: input.lsns.as_deref(), target_id: input.target_id };
    mark_step(cx, InboxList::Mentions, &selection)
}

/// Selection of the items to mark. Exactly one field must be set.
struct ItemSelection<'a> {
    up_to_lsn: Option<Lsn>,
    lsns: Option<&'a [Lsn]>,
    target_id: Option<Uuid>,
}

/// Marks the items of the next step. Returns `None` if further steps are needed, otherwise the number of
/// items that remain unread.
fn mark_step(
    cx: &mut Write<'_>,
    list: InboxList,
    selection: &ItemSelection<'_>,
) -> Result<Option<RemainingUnread>> {
    let member = cx.caller().member_id()?;
    let now = cx.now();
    let marked = match (selection.up_to_lsn, selection.lsns, selection.target_id) {
        (Some(up_to), None, None) => {
            cx.change(list.statement(MARK_UP_TO), &[&member, &now, &up_to.get(), &STEP_ITEMS_MAX])?
        }
        (None, Some(lsns), None) => {
            let lsns: Vec<i64> = lsns.iter().map(|lsn| lsn.get()).collect();
            match cx.engine() {
                Engine::Sqlite => {
                    let lsns = serde_json::to_string(&lsns).map_err(Error::internal)?;
                    cx.execute_any(list.statement(MARK_LISTED_SQLITE), &[&member, &now, &lsns])?;
                }
                Engine::Postgres => {
                    cx.execute_any(list.statement(MARK_LISTED_POSTGRES), &[&member, &now, &lsns])?
                }
            }
            0
        }
        (None, None, Some(target)) => {
            let marked =
                cx.change(list.statement(MARK_TARGET), &[&member, &now, &target, &STEP_ITEMS_MAX])?;
            follows::mark_seen(cx, target)?;
            marked
        }
        _ => {
            return Err(Error::in_fields(
                &["up_to_lsn", "lsns", "target_id"],
                "expected exactly one of these fields",
            ));
        }
    };
    if i64::try_from(marked).unwrap_or(i64::MAX) >= STEP_ITEMS_MAX {
        return Ok(None);
    }
    Ok(Some(RemainingUnread { unread: count_unread(cx, list)? }))
}

/// SQL statement that marks all unread items with the condition `$which` as read.
macro_rules! mark {
    ($which:literal) => {
        for_each_list!(
            "update inbox as i set read_at = $2, mail_due = null, push_due = null
             where i.member_id = $1 and";
            "and ", $which
        )
    };
}

/// SQL statement that marks the first `$4` unread items with the condition `$which` as read.
macro_rules! mark_some {
    ($which:literal) => {
        for_each_list!(
            "update inbox set read_at = $2, mail_due = null, push_due = null
             where member_id = $1 and lsn in (select i.lsn from inbox i where i.member_id = $1 and";
            "and ", $which, " order by i.lsn limit $4)"
        )
    };
}

const MARK_UP_TO: [&str; 2] = mark_some!("i.lsn <= $3");

const MARK_LISTED_SQLITE: [&str; 2] = mark!("i.lsn in (select value from json_each($3))");

const MARK_LISTED_POSTGRES: [&str; 2] = mark!("i.lsn = any($3)");

const MARK_TARGET: [&str; 2] = mark_some!("(i.thread_id = $3 or i.channel_id = $3)");
