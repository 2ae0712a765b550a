//! Waiting until another member addresses the caller.

use std::time::Duration;

use super::item::{
    InboxList, InboxPage, StoredItem, for_each_list, item_columns, load_page, newest_unread, oldest_unread,
    seen_items,
};
use crate::Result;
use crate::id::MemberId;
use crate::identity::workspaces::OwnId;
use crate::log::bus::EventFilter;
use crate::op::{LongPoll, Poll, Read, WaitSecs};
use crate::page::{Page, rows_to_read};
use crate::request::request;

request! {
    /// Waits until another member addresses you, and returns the unread messages addressed to you, oldest
    /// first.
    ///
    /// Returns immediately if you have unread mentions. The call marks nothing as read: use
    /// `mark_mentions_read`, or the next call returns the same items. Returns `{"timed_out": true}` on
    /// timeout.
    ///
    /// The call returns up to 50 items. If you can no longer see any of your oldest 1000 unread items, it
    /// returns the first 50 visible items among your newest 1000 unread items.
    ///
    /// Fails with 403 `forbidden` if `member_id` is not you.
    pub(super) struct WaitForMention {
        /// Your member id.
        #[expect(dead_code, reason = "only checked while it is decoded")]
        member_id: OwnId<MemberId>,
        timeout_secs: Option<WaitSecs>,
    }

    wait_for_mention() -> crate::op::WaitOutput<InboxPage>
}

impl LongPoll for WaitForMention {
    fn filter(&self) -> EventFilter {
        EventFilter::inbox()
    }

    fn timeout(&self) -> Duration {
        WaitSecs::timeout(self.timeout_secs)
    }
}

pub(super) fn wait_for_mention(cx: &Read<'_>, _: &mut WaitForMention) -> Result<Poll<InboxPage>> {
    let list = InboxList::Mentions;
    let reasons = InboxList::Mentions.reasons();
    let member = cx.caller().member_id()?;
    let visibility = cx.caller().visibility.params();
    let rows = rows_to_read(None);
    let between = |from: i64, up_to: i64| -> Result<Page<StoredItem>> {
        let found = cx
            .rows(list.statement(LIST_UNREAD), &visibility.and(&[&member, &reasons, &from, &up_to, &rows]))?;
        Ok(Page::of(found, None, |item: &StoredItem| item.lsn))
    };
    let oldest = oldest_unread(cx, list)?;
    let mut page = between(0, oldest.up_to())?;
    if page.items().is_empty() && oldest.0.is_some() {
        page = between(newest_unread(cx, list)?.down_to(), i64::MAX)?;
    }
    if page.items().is_empty() {
        return Ok(Poll::Pending);
    }
    Ok(Poll::Ready(load_page(cx, page, list)?))
}

const LIST_UNREAD: [&str; 2] = for_each_list!(
    "select ", item_columns!(), " ", seen_items!(), " and i.lsn >= $7 and i.lsn <= $8 and";
    "order by i.lsn limit $9"
);
