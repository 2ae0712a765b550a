//! The inbox as the queue of a delivery channel: due items are leased, postponed and marked as sent.
//!
//! An item is taken only if it is unread, and if the member can still see it and wants it, with the current
//! text of its message. So an item that was read or withdrawn, or that is in a channel that the member has
//! left, is not sent.

use super::item::{openable, seen_items};
use crate::Result;
use crate::conversation::inbox::Reasons;
use crate::conversation::messages::beginnings;
use crate::error::Error;
use crate::id::{ChannelId, MemberId, MessageId, ThreadId};
use crate::limits::{DELIVERY_BATCH_LEASE, PREVIEW_MAX};
use crate::op::{Read, Visibility, Write};
use crate::store::{Engine, ToParam, columns};
use crate::time::Time;

/// Maximum items in one delivery batch.
const BATCH_ITEMS_MAX: i64 = 200;

/// A delivery channel; each has its own column for due times in the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutgoingChannel {
    Mail,
    Push,
}

/// A notification for one delivery channel.
#[derive(Clone)]
pub(crate) struct OutgoingItem {
    pub lsn: i64,
    pub at: Time,
    pub reasons: Reasons,
    pub channel_id: ChannelId,
    /// Whether the channel is a direct message, whose name carries no information.
    pub dm: bool,
    pub channel: String,
    pub thread_id: Option<ThreadId>,
    /// Title of the thread; `None` if texts may not leave the service.
    pub thread: Option<String>,
    pub message_id: Option<MessageId>,
    /// Handle of the member who caused the notification; `None` for the service itself.
    pub actor: Option<String>,
    /// Beginning of the message's current text; `None` if the item is not about a message, if the message
    /// cannot be opened, or if texts may not leave the service.
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

/// Preferences of a member about notifications on a delivery channel.
pub(crate) trait WantedNotifications {
    /// Returns whether the member wants to be notified of an item.
    fn wants(&self, item: &OutgoingItem) -> bool;
    /// Returns whether the notification may contain texts of members.
    fn shows_texts(&self) -> bool;
}

/// Leases the due items of a member for [`DELIVERY_BATCH_LEASE`], and returns the items to send, oldest
/// first.
///
/// Items that the member does not want are no longer due. Items that exceed one delivery batch remain due.
pub(crate) fn take_due(
    cx: &mut Write<'_>,
    member: MemberId,
    out: OutgoingChannel,
    wanted: &impl WantedNotifications,
) -> Result<Vec<OutgoingItem>> {
    let now = cx.now();
    let visibility = Visibility::Member(member).params();
    let reasons = Reasons::all();
    let params = visibility.and(&[&member, &reasons, &now, &BATCH_ITEMS_MAX]);
    let mut items = cx.query::<OutgoingItem>(out.statements().due, &params)?;
    let is_all = items.len() < usize::try_from(BATCH_ITEMS_MAX).unwrap_or(usize::MAX);
    let read = openable(cx, &items, |item| item.message_id)?;
    let last = if is_all && read == items.len() { i64::MAX } else { last_of(&items, read) };
    items.truncate(read);
    items.retain(|item| wanted.wants(item));
    if wanted.shows_texts() {
        let messages: Vec<MessageId> = items.iter().filter_map(|item| item.message_id).collect();
        let beginnings = beginnings(cx, &messages, PREVIEW_MAX)?;
        for item in &mut items {
            item.preview = item.message_id.and_then(|message| beginnings.get(&message).cloned());
        }
    } else {
        items.iter_mut().for_each(|item| item.thread = None);
    }
    let lsns: Vec<i64> = items.iter().map(|item| item.lsn).collect();
    let until = now.plus(DELIVERY_BATCH_LEASE);
    with_lsns(cx.engine(), out.statements().lease, &lsns, |sql, lsns| {
        cx.execute_any(sql, &[&member, &now, &last, &until, lsns])
    })?;
    Ok(items)
}

fn last_of(items: &[OutgoingItem], read: usize) -> i64 {
    items.get(read.saturating_sub(1)).map_or(i64::MAX, |item| item.lsn)
}

/// Postpones all due items of a member to `until`.
pub(crate) fn postpone(
    cx: &mut Write<'_>,
    member: MemberId,
    out: OutgoingChannel,
    until: Time,
) -> Result<()> {
    let now = cx.now();
    cx.execute_any(out.statements().postpone, &[&member, &now, &until])
}

/// Returns the time of a member's oldest due item. Returns `None` if nothing is due.
pub(crate) fn oldest_due(cx: &Read<'_>, member: MemberId, out: OutgoingChannel) -> Result<Option<Time>> {
    let oldest: Option<(Option<Time>,)> = cx.one(out.statements().oldest, &[&member, &cx.now()])?;
    Ok(oldest.and_then(|(at,)| at))
}

/// Sets when leased items are due again; `None` means that the items were sent.
///
/// Items that were read or withdrawn in the meantime are not changed.
pub(crate) fn set_due(
    cx: &mut Write<'_>,
    member: MemberId,
    out: OutgoingChannel,
    lsns: &[i64],
    due: Option<Time>,
) -> Result<()> {
    with_lsns(cx.engine(), out.statements().set, lsns, |sql, lsns| {
        cx.execute_any(sql, &[&member, &due, lsns])
    })
}

/// Returns the given items that still have a due time.
pub(crate) fn still_due(
    cx: &Read<'_>,
    member: MemberId,
    out: OutgoingChannel,
    lsns: &[i64],
) -> Result<Vec<i64>> {
    let rows: Vec<(i64,)> =
        with_lsns(cx.engine(), out.statements().still, lsns, |sql, lsns| cx.query(sql, &[&member, lsns]))?;
    Ok(rows.into_iter().map(|(lsn,)| lsn).collect())
}

/// Returns whether all given items are still to be sent: due, unread, and visible to the member.
pub(crate) fn are_current(
    cx: &Read<'_>,
    member: MemberId,
    out: OutgoingChannel,
    lsns: &[i64],
) -> Result<bool> {
    let visibility = Visibility::Member(member).params();
    let reasons = Reasons::all();
    let found: Option<(i64,)> = with_lsns(cx.engine(), out.statements().current, lsns, |sql, lsns| {
        cx.one(sql, &visibility.and(&[&member, &reasons, lsns]))
    })?;
    Ok(found.map(|(count,)| count) == i64::try_from(lsns.len()).ok())
}

/// Makes items that were postponed for a long time due now, because the member's preferences have changed.
pub(crate) fn undo_postponement(cx: &mut Write<'_>, member: MemberId) -> Result<()> {
    let now = cx.now();
    // Items that are leased or wait for the delay before an email are not changed.
    let delay = cx.settings().mail.as_ref().map(|mail| mail.delay).unwrap_or_default();
    let beyond = now.plus(DELIVERY_BATCH_LEASE.max(delay));
    [OutgoingChannel::Mail, OutgoingChannel::Push]
        .into_iter()
        .try_for_each(|out| cx.execute_any(out.statements().hasten, &[&member, &beyond, &now]))
}

/// Clears the due times of all of a member's items on a delivery channel.
pub(crate) fn drop_due(cx: &mut Write<'_>, member: MemberId, out: OutgoingChannel) -> Result<()> {
    cx.execute_any(out.statements().drop, &[&member])
}

/// Runs a statement that takes a list of positions, in the engine's form.
fn with_lsns<T>(
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

/// SQL statements of a delivery channel.
struct Statements {
    due: &'static str,
    lease: [&'static str; 2],
    postpone: &'static str,
    oldest: &'static str,
    set: [&'static str; 2],
    still: [&'static str; 2],
    drop: &'static str,
    current: [&'static str; 2],
    hasten: &'static str,
}

impl OutgoingChannel {
    fn statements(self) -> &'static Statements {
        match self {
            Self::Mail => &OF_MAIL,
            Self::Push => &OF_PUSH,
        }
    }
}

/// SQL conditions that `lsn` is one of a list of positions, for each engine.
macro_rules! in_lsns {
    ($before:expr, $list:literal, $after:expr) => {
        [
            concat!($before, "lsn in (select value from json_each(", $list, "))", $after),
            concat!($before, "lsn = any(", $list, ")", $after),
        ]
    };
}

/// Builds the statements of the delivery channel whose due times are in the given column.
macro_rules! statements {
    ($due:literal) => {
        Statements {
            due: concat!(
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
            oldest: concat!("select min(at) from inbox where member_id = $1 and ", $due, " <= $2"),
            set: in_lsns!(
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
            still: in_lsns!(
                concat!("select lsn from inbox where member_id = $1 and ", $due, " is not null and "),
                "$2",
                ""
            ),
            current: in_lsns!(
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
            hasten: concat!("update inbox set ", $due, " = $3 where member_id = $1 and ", $due, " > $2"),
            drop: concat!(
                "update inbox set ",
                $due,
                " = null where member_id = $1 and ",
                $due,
                " is not null"
            ),
        }
    };
}

const OF_MAIL: Statements = statements!("mail_due");

const OF_PUSH: Statements = statements!("push_due");
