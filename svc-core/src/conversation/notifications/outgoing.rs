//! The inbox as the queue of a delivery channel: items that are due are leased, postponed and marked as sent.
//!
//! An item is sent only if it is unread, and if the member can still see it and wants to be notified of it.
//! The notification contains the current text of the message. Items that were read or withdrawn, and items of
//! a channel that the member has left, are not sent.

use super::item::{count_items_that_fit, seen_items};
use crate::Result;
use crate::conversation::inbox::Reasons;
use crate::conversation::messages::load_previews;
use crate::error::Error;
use crate::id::{ChannelId, MemberId, MessageId, ThreadId};
use crate::limits::{DELIVERY_BATCH_LEASE, PREVIEW_MAX};
use crate::op::{Read, Visibility, Write};
use crate::store::{Engine, ToParam, columns};
use crate::time::Time;

/// Maximum inbox items in one delivery batch.
const BATCH_ITEMS_MAX: i64 = 200;

/// A delivery channel. The table `inbox` has a column of due times for each delivery channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutgoingChannel {
    Mail,
    Push,
}

/// An inbox item to send on a delivery channel, with the data of the notification.
#[derive(Clone)]
pub(crate) struct OutgoingItem {
    pub lsn: i64,
    pub at: Time,
    pub reasons: Reasons,
    pub channel_id: ChannelId,
    /// Whether the channel is a direct message. All direct messages have the same name.
    pub dm: bool,
    pub channel: String,
    pub thread_id: Option<ThreadId>,
    /// Title of the thread; `None` if the item concerns no thread, or if message text is not allowed in
    /// notifications.
    pub thread: Option<String>,
    pub message_id: Option<MessageId>,
    /// Handle of the member who caused the notification; `None` if the service itself caused it.
    pub actor: Option<String>,
    /// Beginning of the message's current text; `None` if the item does not concern a message, if the message
    /// is unreadable, or if message text is not allowed in notifications.
    pub preview: Option<String>,
}

columns! {
    outgoing_columns: OutgoingItem as i {
        lsn,
        at,
        reasons,
        channel_id,
        dm = "c.dm",
        channel = "c.name",
        thread_id,
        thread = "(select t.title from threads t where t.id = i.thread_id)",
        message_id,
        actor = "(select a.handle from members a where a.id = i.actor_id)",
    }
    make { preview: None }
}

/// A member's preferences for notifications on a delivery channel.
pub(crate) trait NotificationPreferences {
    /// Returns whether the member wants to be notified of an item.
    fn wants(&self, item: &OutgoingItem) -> bool;
    /// Returns whether notifications may contain the titles of threads and the texts of messages.
    fn shows_texts(&self) -> bool;
}

/// Leases a member's due items for [`DELIVERY_BATCH_LEASE`], and returns the items to send, oldest first.
///
/// Clears the due time of items that the member does not want. Items that do not fit into one delivery batch
/// remain due.
pub(crate) fn lease_due_items(
    cx: &mut Write<'_>,
    member: MemberId,
    delivery: OutgoingChannel,
    preferences: &impl NotificationPreferences,
) -> Result<Vec<OutgoingItem>> {
    let now = cx.now();
    let visibility = Visibility::Member(member).params();
    let reasons = Reasons::all_bits();
    let params = visibility.and(&[&member, &reasons, &now, &BATCH_ITEMS_MAX]);
    let mut items = cx.query::<OutgoingItem>(delivery.statements().select_due, &params)?;
    let is_all = items.len() < usize::try_from(BATCH_ITEMS_MAX).unwrap_or(usize::MAX);
    let read = count_items_that_fit(cx, &items, |item| item.message_id)?;
    let last = if is_all && read == items.len() { i64::MAX } else { last_lsn_of_first(&items, read) };
    items.truncate(read);
    items.retain(|item| preferences.wants(item));
    if preferences.shows_texts() {
        let messages: Vec<MessageId> = items.iter().filter_map(|item| item.message_id).collect();
        let previews = load_previews(cx, &messages, PREVIEW_MAX)?;
        for item in &mut items {
            item.preview = item.message_id.and_then(|message| previews.get(&message).cloned());
        }
    } else {
        items.iter_mut().for_each(|item| item.thread = None);
    }
    let lsns: Vec<i64> = items.iter().map(|item| item.lsn).collect();
    let until = now.plus(DELIVERY_BATCH_LEASE);
    run_with_lsns(cx.engine(), delivery.statements().lease, &lsns, |sql, lsns| {
        cx.execute_any(sql, &[&member, &now, &last, &until, lsns])
    })?;
    Ok(items)
}

fn last_lsn_of_first(items: &[OutgoingItem], count: usize) -> i64 {
    items.get(count.saturating_sub(1)).map_or(i64::MAX, |item| item.lsn)
}

/// Postpones all due items of a member on a delivery channel to `until`.
pub(crate) fn postpone(
    cx: &mut Write<'_>,
    member: MemberId,
    delivery: OutgoingChannel,
    until: Time,
) -> Result<()> {
    let now = cx.now();
    cx.execute_any(delivery.statements().postpone, &[&member, &now, &until])
}

/// Returns the time of the event of a member's oldest due item, or `None` if no item is due.
pub(crate) fn oldest_due(cx: &Read<'_>, member: MemberId, delivery: OutgoingChannel) -> Result<Option<Time>> {
    let oldest: Option<(Option<Time>,)> = cx.one(delivery.statements().oldest_due, &[&member, &cx.now()])?;
    Ok(oldest.and_then(|(at,)| at))
}

/// Sets the time at which leased items are due again. `None` means that the items were sent.
///
/// Items that were read or withdrawn during the lease are not changed.
pub(crate) fn set_due(
    cx: &mut Write<'_>,
    member: MemberId,
    delivery: OutgoingChannel,
    lsns: &[i64],
    due: Option<Time>,
) -> Result<()> {
    run_with_lsns(cx.engine(), delivery.statements().set_due, lsns, |sql, lsns| {
        cx.execute_any(sql, &[&member, &due, lsns])
    })
}

/// Returns which of the given items still have a due time.
pub(crate) fn find_due_lsns(
    cx: &Read<'_>,
    member: MemberId,
    delivery: OutgoingChannel,
    lsns: &[i64],
) -> Result<Vec<i64>> {
    let rows: Vec<(i64,)> = run_with_lsns(cx.engine(), delivery.statements().find_due, lsns, |sql, lsns| {
        cx.query(sql, &[&member, lsns])
    })?;
    Ok(rows.into_iter().map(|(lsn,)| lsn).collect())
}

/// Returns whether all given items still must be sent: each has a due time, is unread, and is visible to the
/// member.
pub(crate) fn are_all_still_due(
    cx: &Read<'_>,
    member: MemberId,
    delivery: OutgoingChannel,
    lsns: &[i64],
) -> Result<bool> {
    let visibility = Visibility::Member(member).params();
    let reasons = Reasons::all_bits();
    let found: Option<(i64,)> =
        run_with_lsns(cx.engine(), delivery.statements().count_current, lsns, |sql, lsns| {
            cx.one(sql, &visibility.and(&[&member, &reasons, lsns]))
        })?;
    Ok(found.map(|(count,)| count) == i64::try_from(lsns.len()).ok())
}

/// Makes a member's items with a distant due time due now, because the member's preferences have changed.
pub(crate) fn undo_postponement(cx: &mut Write<'_>, member: MemberId) -> Result<()> {
    let now = cx.now();
    // The due times of leased items, and of items that wait for the delay before an email, are not changed.
    let delay = cx.settings().mail.as_ref().map(|mail| mail.delay).unwrap_or_default();
    let beyond = now.plus(DELIVERY_BATCH_LEASE.max(delay));
    [OutgoingChannel::Mail, OutgoingChannel::Push].into_iter().try_for_each(|delivery| {
        cx.execute_any(delivery.statements().make_due_now, &[&member, &beyond, &now])
    })
}

/// Clears the due times of all of a member's items on a delivery channel.
pub(crate) fn clear_due_times(cx: &mut Write<'_>, member: MemberId, delivery: OutgoingChannel) -> Result<()> {
    cx.execute_any(delivery.statements().clear_due, &[&member])
}

/// Runs a statement with a list of log positions, in the form that the engine requires.
fn run_with_lsns<T>(
    engine: Engine,
    [sqlite, postgres]: [&'static str; 2],
    lsns: &[i64],
    run: impl FnOnce(&'static str, &dyn ToParam) -> Result<T>,
) -> Result<T> {
    match engine {
        Engine::Sqlite => run(sqlite, &serde_json::to_string(lsns).map_err(Error::internal)?),
        Engine::Postgres => run(postgres, &lsns),
    }
}

/// The SQL statements of a delivery channel.
struct Statements {
    select_due: &'static str,
    lease: [&'static str; 2],
    postpone: &'static str,
    oldest_due: &'static str,
    set_due: [&'static str; 2],
    find_due: [&'static str; 2],
    clear_due: &'static str,
    count_current: [&'static str; 2],
    make_due_now: &'static str,
}

impl OutgoingChannel {
    fn statements(self) -> &'static Statements {
        match self {
            Self::Mail => &MAIL_STATEMENTS,
            Self::Push => &PUSH_STATEMENTS,
        }
    }
}

/// Builds a statement for each engine, with the condition that `lsn` is in a list of positions.
macro_rules! in_lsns {
    ($before:expr, $list:literal, $after:expr) => {
        [
            concat!($before, "lsn in (select value from json_each(", $list, "))", $after),
            concat!($before, "lsn = any(", $list, ")", $after),
        ]
    };
}

/// Builds the statements of the delivery channel whose due times are in the column `$due`.
macro_rules! statements {
    ($due:literal) => {
        Statements {
            select_due: concat!(
                "select ",
                outgoing_columns!(),
                " ",
                seen_items!(),
                " and i.read_at is null and i.",
                $due,
                " <= $7 order by i.lsn limit $8"
            ),
            lease: in_lsns!(
                concat!("update inbox set ", $due, " = case when "),
                "$5",
                concat!(
                    " then cast($4 as bigint) end where member_id = $1 and ",
                    $due,
                    " <= $2 and lsn <= $3"
                )
            ),
            postpone: concat!("update inbox set ", $due, " = $3 where member_id = $1 and ", $due, " <= $2"),
            oldest_due: concat!("select min(at) from inbox where member_id = $1 and ", $due, " <= $2"),
            set_due: in_lsns!(
                concat!(
                    "update inbox set ",
                    $due,
                    " = $2 where member_id = $1 and ",
                    $due,
                    " is not null and "
                ),
                "$3",
                ""
            ),
            find_due: in_lsns!(
                concat!("select lsn from inbox where member_id = $1 and ", $due, " is not null and "),
                "$2",
                ""
            ),
            count_current: in_lsns!(
                concat!(
                    "select count(*) ",
                    seen_items!(),
                    " and i.read_at is null and i.",
                    $due,
                    " is not null and i."
                ),
                "$7",
                ""
            ),
            make_due_now: concat!(
                "update inbox set ",
                $due,
                " = $3 where member_id = $1 and ",
                $due,
                " > $2"
            ),
            clear_due: concat!(
                "update inbox set ",
                $due,
                " = null where member_id = $1 and ",
                $due,
                " is not null"
            ),
        }
    };
}

const MAIL_STATEMENTS: Statements = statements!("mail_due");

const PUSH_STATEMENTS: Statements = statements!("push_due");
