//! Inbox items as the owner of the inbox reads them, and the SQL that selects the items.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::conversation::inbox::{InboxReason, Reasons};
use crate::conversation::messages::{load_previews, load_sealed_sizes};
use crate::id::{ChannelId, MemberId, MessageId, ThreadId};
use crate::limits::{PREVIEW_MAX, UNREAD_SCAN_MAX};
use crate::op::Read;
use crate::page::{Page, ScanHorizon, filling};
use crate::request::{dereferences, paged_outputs};
use crate::store::columns;
use crate::time::Time;

/// An item of your inbox: an event or a message that concerns you.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct InboxItem {
    /// Position in the workspace's log of the event that caused the item.
    pub lsn: i64,
    /// Time of the event that caused the item.
    pub at: Time,
    /// Strongest reason why the item is in your inbox.
    pub reason: InboxReason,
    /// Id of the channel that the item concerns.
    pub channel_id: ChannelId,
    /// Id of the thread that the item concerns; null if the item concerns the whole channel.
    pub thread_id: Option<ThreadId>,
    /// Id of the message that the item concerns; null if the item does not concern a message.
    pub message_id: Option<MessageId>,
    /// Id of the member who caused the item; null if the service itself caused it.
    pub actor_id: Option<MemberId>,
    /// Whether you have read the item.
    pub read: bool,
    /// The first 200 characters of the message's current text; null if the item does not concern a message,
    /// or if the message is unreadable.
    pub preview: Option<String>,
}

/// Row of an inbox item.
pub(super) struct StoredItem {
    pub lsn: i64,
    at: Time,
    reasons: Reasons,
    channel_id: ChannelId,
    thread_id: Option<ThreadId>,
    message_id: Option<MessageId>,
    actor_id: Option<MemberId>,
    read: bool,
}

columns! {
    pub(super) item_columns: StoredItem as i {
        lsn,
        at,
        reasons,
        channel_id,
        thread_id,
        message_id,
        actor_id,
        read = "i.read_at is not null",
    }
}

/// A list of inbox items that a member can read and mark as read.
#[derive(Clone, Copy, Debug)]
pub(super) enum InboxList {
    /// All items of the inbox.
    Inbox,
    /// Items in which another member addresses the owner of the inbox.
    Mentions,
}

impl InboxList {
    /// Returns the reasons of the items in this list, as a set of bits.
    pub fn reasons(self) -> i64 {
        match self {
            Self::Inbox => Reasons::all_bits(),
            Self::Mentions => Reasons::addressing_bits(),
        }
    }

    /// Selects the statement for this list from a pair of statements, for the inbox and for mentions.
    pub fn statement(self, [inbox, mentions]: [&'static str; 2]) -> &'static str {
        match self {
            Self::Inbox => inbox,
            Self::Mentions => mentions,
        }
    }
}

/// Builds one SQL statement for each list. The arguments are the SQL before and after the condition that item
/// `i` is unread and in the list.
///
/// The condition for mentions equals the condition of a partial index.
macro_rules! for_each_list {
    ($($before:expr),+ ; $($after:expr),+ $(,)?) => {
        [
            concat!($($before),+, " i.read_at is null ", $($after),+),
            concat!(
                $($before),+,
                " case when i.read_at is null and (i.reasons & 15) <> 0 then 1 end = 1 ",
                $($after),+
            ),
        ]
    };
}
pub(super) use for_each_list;

/// SQL that selects the visible items `i` of member `$5` with any reason in the set `$6`.
///
/// The message may be in another channel than the event, so the caller must be allowed to see both channels.
macro_rules! seen_items {
    () => {
        concat!(
            "from inbox i join channels c on c.id = i.channel_id
             where i.member_id = $5 and (i.reasons & $6) <> 0 and ",
            $crate::conversation::visibility::visible!(c),
            " and (i.message_id is null or exists (
                select 1 from messages m join channels mc on mc.id = m.channel_id
                where m.id = i.message_id and ",
            $crate::conversation::messages::not_pruned!(),
            " and ",
            $crate::conversation::visibility::visible!(mc),
            "))"
        )
    };
}
pub(super) use seen_items;

/// A page of inbox items, and the number of unread items in the list.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct InboxPage {
    #[serde(flatten)]
    pub page: Page<InboxItem>,
    /// Number of unread items that you may see, among your newest 1000 unread items. Filters do not affect
    /// this number.
    pub unread: i64,
}

dereferences! { InboxPage => page: Page<InboxItem> }
paged_outputs! { InboxPage => page: InboxItem }

/// Converts a page of rows to the items that the caller reads, and counts the unread items of the list.
///
/// The page is shortened if its messages have too much text to decrypt.
pub(super) fn load_page(cx: &Read<'_>, mut page: Page<StoredItem>, list: InboxList) -> Result<InboxPage> {
    page.keep(count_items_that_fit(cx, page.items(), |item| item.message_id)?, |item| item.lsn);
    let messages: Vec<MessageId> = page.items().iter().filter_map(|item| item.message_id).collect();
    let mut previews = load_previews(cx, &messages, PREVIEW_MAX)?;
    let page = page.try_map(|item| {
        Ok(InboxItem {
            lsn: item.lsn,
            at: item.at,
            reason: item.reasons.strongest()?,
            channel_id: item.channel_id,
            thread_id: item.thread_id,
            message_id: item.message_id,
            actor_id: item.actor_id,
            read: item.read,
            preview: item.message_id.and_then(|message| previews.remove(&message)),
        })
    })?;
    Ok(InboxPage { page, unread: count_unread(cx, list)? })
}

/// Returns how many of the items fit on a page, by the size of their messages, including the item that
/// exceeds the limit.
///
/// `message_of` returns the id of the message whose text is decrypted for an item.
pub(super) fn count_items_that_fit<T>(
    cx: &Read<'_>,
    items: &[T],
    message_of: impl Fn(&T) -> Option<MessageId>,
) -> Result<usize> {
    let messages: Vec<MessageId> = items.iter().filter_map(&message_of).collect();
    if messages.is_empty() {
        return Ok(items.len());
    }
    let sizes = load_sealed_sizes(cx, &messages)?;
    let size = |item: &T| message_of(item).and_then(|id| sizes.get(&id)).copied().unwrap_or_default();
    Ok(filling(items, size))
}

/// Counts the visible items among the caller's newest unread items of a list.
pub(super) fn count_unread(cx: &Read<'_>, list: InboxList) -> Result<i64> {
    let visibility = cx.caller().visibility.params();
    let member = cx.caller().member_id()?;
    let reasons = list.reasons();
    let first = newest_unread(cx, list)?.down_to();
    let counted: Option<(i64,)> =
        cx.one(list.statement(COUNT_UNREAD), &visibility.and(&[&member, &reasons, &first]))?;
    Ok(counted.map_or(0, |(count,)| count))
}

const COUNT_UNREAD: [&str; 2] = for_each_list!("select count(*) ", seen_items!(), " and i.lsn >= $7 and"; "");

/// Returns the range of the unread count: the caller's newest unread items of a list, up to a limit.
pub(super) fn newest_unread(cx: &Read<'_>, list: InboxList) -> Result<ScanHorizon> {
    cx.horizon_within(list.statement(NEWEST_UNREAD), &[&cx.caller().member_id()?], i64::MAX, UNREAD_SCAN_MAX)
}

/// Returns the range of a wait: the caller's oldest unread items of a list, up to a limit.
pub(super) fn oldest_unread(cx: &Read<'_>, list: InboxList) -> Result<ScanHorizon> {
    cx.horizon_within(list.statement(OLDEST_UNREAD), &[&cx.caller().member_id()?], 0, UNREAD_SCAN_MAX)
}

const NEWEST_UNREAD: [&str; 2] = for_each_list!(
    "select i.lsn from inbox i where i.member_id = $1 and i.lsn < $2 and";
    "order by i.lsn desc limit 1 offset $3"
);

const OLDEST_UNREAD: [&str; 2] = for_each_list!(
    "select i.lsn from inbox i where i.member_id = $1 and i.lsn > $2 and";
    "order by i.lsn limit 1 offset $3"
);
