//! Listing a member's inbox, or only the items in which another member addresses the inbox's owner.

use super::item::{InboxList, InboxPage, StoredItem, item_columns, load_page, seen_items};
use crate::Result;
use crate::conversation::inbox::InboxReason;
use crate::id::MemberId;
use crate::identity::workspaces::OwnId;
use crate::op::Read;
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::request;

request! {
    /// Returns your inbox, oldest first: messages to you, tasks assigned to you, requests to review or
    /// approve.
    ///
    /// Each event or message is one item, with its strongest reason: `mention`, `reply`, `dm`,
    /// `group_mention`, and others. Your own actions and channels that you can no longer see are omitted.
    ///
    /// Read items are removed 30 days after you have read them, unread items after 90 days. One page covers
    /// up to 2000 items, so with a filter it may be short or empty although more items follow: continue while
    /// `next_cursor` is not null.
    ///
    /// Fails with 403 `forbidden` if `member_id` is not you.
    pub(super) struct ListInbox {
        /// Your member id.
        #[expect(dead_code, reason = "only checked while it is decoded")]
        member_id: OwnId<MemberId>,
        /// True: only unread items. False: only read items.
        unread: Option<bool>,
        /// Only items with this reason, even if they also have a stronger reason.
        reason: Option<InboxReason>,
        /// Newest first. Default: oldest first.
        newest_first: Option<bool>,
        #[serde(default)]
        cursor: Option<Cursor>,
        #[serde(default)]
        limit: Option<Limit>,
    }

    list_inbox() -> InboxPage
}

pub(super) fn list_inbox(cx: &Read<'_>, input: &ListInbox) -> Result<InboxPage> {
    let ListInbox { member_id: _, unread, reason, newest_first, cursor, limit } = input;
    load_list(
        cx,
        InboxList::Inbox,
        &ListFilter { unread: *unread, reason: *reason, newest_first: *newest_first },
        *cursor,
        *limit,
    )
}

request! {
    /// Returns the messages that address you, oldest first.
    ///
    /// These are the items of your inbox with the reason `mention`, `reply`, `dm` or `group_mention`.
    ///
    /// Fails with 403 `forbidden` if `member_id` is not you.
    pub(super) struct ListMentions {
        /// Your member id.
        #[expect(dead_code, reason = "only checked while it is decoded")]
        member_id: OwnId<MemberId>,
        /// True: only unread items. False: only read items.
        unread: Option<bool>,
        /// Only items with this reason, even if they also have a stronger reason.
        reason: Option<InboxReason>,
        /// Newest first. Default: oldest first.
        newest_first: Option<bool>,
        #[serde(default)]
        cursor: Option<Cursor>,
        #[serde(default)]
        limit: Option<Limit>,
    }

    list_mentions() -> InboxPage
}

pub(super) fn list_mentions(cx: &Read<'_>, input: &ListMentions) -> Result<InboxPage> {
    let ListMentions { member_id: _, unread, reason, newest_first, cursor, limit } = input;
    let wanted = ListFilter { unread: *unread, reason: *reason, newest_first: *newest_first };
    load_list(cx, InboxList::Mentions, &wanted, *cursor, *limit)
}

/// The filters and the order of an inbox list.
struct ListFilter {
    unread: Option<bool>,
    reason: Option<InboxReason>,
    newest_first: Option<bool>,
}

fn load_list(
    cx: &Read<'_>,
    list: InboxList,
    wanted: &ListFilter,
    cursor: Option<Cursor>,
    limit: Option<Limit>,
) -> Result<InboxPage> {
    let member = cx.caller().member_id()?;
    let of_reason = wanted.reason.map_or(list.reasons(), |reason| list.reasons() & reason.bit());
    let newest_first = wanted.newest_first.unwrap_or(false);
    let (sql, horizon_sql, from) = match newest_first {
        false => (OLDEST_FIRST, HORIZON_ABOVE, Cursor::after(cursor)),
        true => (NEWEST_FIRST, HORIZON_BELOW, Cursor::before(cursor)),
    };
    let horizon = cx.horizon(horizon_sql, &[&member], from)?;
    let last = if newest_first { horizon.down_to() } else { horizon.up_to() };
    let visibility = cx.caller().visibility.params();
    let rows = rows_to_read(limit);
    let params = visibility.and(&[&member, &of_reason, &from, &last, &wanted.unread, &rows]);
    let page = Page::within(horizon, cx.rows(sql, &params)?, limit, |item: &StoredItem| item.lsn);
    load_page(cx, page, list)
}

const OLDEST_FIRST: &str = concat!(
    "select ",
    item_columns!(),
    " ",
    seen_items!(),
    " and i.lsn > $7 and i.lsn <= $8 and (cast($9 as boolean) is null or (i.read_at is null) = $9)
     order by i.lsn limit $10"
);

const NEWEST_FIRST: &str = concat!(
    "select ",
    item_columns!(),
    " ",
    seen_items!(),
    " and i.lsn < $7 and i.lsn >= $8 and (cast($9 as boolean) is null or (i.read_at is null) = $9)
     order by i.lsn desc limit $10"
);

const HORIZON_ABOVE: &str =
    "select lsn from inbox where member_id = $1 and lsn > $2 order by lsn limit 1 offset $3";

const HORIZON_BELOW: &str =
    "select lsn from inbox where member_id = $1 and lsn < $2 order by lsn desc limit 1 offset $3";
