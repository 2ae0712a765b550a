//! The inbox as the queue of a way out: what a member has due there, leased, postponed and sent.
//!
//! What is taken is unread, its member sees it and still wants it, and it reads as it does now. So nothing is
//! sent of what was read or withdrawn, or of a channel that its member has left.

use super::item::{openable, seen_items};
use crate::Result;
use crate::conversation::inbox::Reasons;
use crate::conversation::messages::beginnings;
use crate::error::Error;
use crate::id::{ChannelId, MemberId, MessageId, ThreadId};
use crate::limits::{PARCEL_LEASE, PREVIEW_MAX};
use crate::op::{Read, Sight, Write};
use crate::store::{Engine, ToParam, columns};
use crate::time::Time;

/// Items of an inbox that one parcel has.
const PARCEL_ITEMS: i64 = 200;

/// The column of the inbox that says when an item is due on a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    Mail,
    Push,
}

/// What a member is told of on a way.
#[derive(Clone)]
pub(crate) struct OutgoingItem {
    pub lsn: i64,
    pub at: Time,
    pub reasons: Reasons,
    pub channel_id: ChannelId,
    /// Whether the channel is a direct message, whose name says nothing.
    pub dm: bool,
    pub channel: String,
    pub thread_id: Option<ThreadId>,
    /// The title of the thread; none if words must not leave the service.
    pub thread: Option<String>,
    pub message_id: Option<MessageId>,
    /// The handle of who did it; none for the service itself.
    pub actor: Option<String>,
    /// The beginning of the message as it reads now; none if it is about none or cannot be opened, or if
    /// words must not leave the service.
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

/// What a member wants to be told of on a way.
pub(crate) trait Wanted {
    /// Whether it wants to be told of an item.
    fn wants(&self, item: &OutgoingItem) -> bool;
    /// Whether what leaves the service may say what members say.
    fn shows_words(&self) -> bool;
}

/// Leases what is due of a member for [`PARCEL_LEASE`], and returns of it what is to be sent, oldest first.
///
/// What is not to be sent is not due any more. If there is too much for one parcel, the rest stays due.
pub(crate) fn take_due(
    cx: &mut Write<'_>,
    member: MemberId,
    out: Out,
    wanted: &impl Wanted,
) -> Result<Vec<OutgoingItem>> {
    let (now, sight, reasons) = (cx.now(), Sight::Member(member).params(), Reasons::all());
    let params = sight.and(&[&member, &reasons, &now, &PARCEL_ITEMS]);
    let mut items = cx.query::<OutgoingItem>(out.statements().due, &params)?;
    let is_all = items.len() < usize::try_from(PARCEL_ITEMS).unwrap_or(usize::MAX);
    let read = openable(cx, &items, |item| item.message_id)?;
    let last = if is_all && read == items.len() { i64::MAX } else { last_of(&items, read) };
    items.truncate(read);
    items.retain(|item| wanted.wants(item));
    if wanted.shows_words() {
        let messages: Vec<MessageId> = items.iter().filter_map(|item| item.message_id).collect();
        let beginnings = beginnings(cx, &messages, PREVIEW_MAX)?;
        for item in &mut items {
            item.preview = item.message_id.and_then(|message| beginnings.get(&message).cloned());
        }
    } else {
        items.iter_mut().for_each(|item| item.thread = None);
    }
    let lsns: Vec<i64> = items.iter().map(|item| item.lsn).collect();
    let until = now.plus(PARCEL_LEASE);
    with_lsns(cx.engine(), out.statements().lease, &lsns, |sql, lsns| {
        cx.execute_any(sql, &[&member, &now, &last, &until, lsns])
    })?;
    Ok(items)
}

fn last_of(items: &[OutgoingItem], read: usize) -> i64 {
    items.get(read.saturating_sub(1)).map_or(i64::MAX, |item| item.lsn)
}

/// Moves the due of all that is due of a member by now.
pub(crate) fn postpone(cx: &mut Write<'_>, member: MemberId, out: Out, until: Time) -> Result<()> {
    let now = cx.now();
    cx.execute_any(out.statements().postpone, &[&member, &now, &until])
}

/// Returns when the oldest item came into being that is due of a member; none if nothing is.
pub(crate) fn oldest_due(cx: &Read<'_>, member: MemberId, out: Out) -> Result<Option<Time>> {
    let oldest: Option<(Option<Time>,)> = cx.one(out.statements().oldest, &[&member, &cx.now()])?;
    Ok(oldest.and_then(|(at,)| at))
}

/// Sets when items that were leased are due again; none if they have been sent.
///
/// What has been read or withdrawn meanwhile stays so.
pub(crate) fn set_due(
    cx: &mut Write<'_>,
    member: MemberId,
    out: Out,
    lsns: &[i64],
    due: Option<Time>,
) -> Result<()> {
    with_lsns(cx.engine(), out.statements().set, lsns, |sql, lsns| {
        cx.execute_any(sql, &[&member, &due, lsns])
    })
}

/// Returns which of these items are due at some time.
pub(crate) fn still_due(cx: &Read<'_>, member: MemberId, out: Out, lsns: &[i64]) -> Result<Vec<i64>> {
    let rows: Vec<(i64,)> =
        with_lsns(cx.engine(), out.statements().still, lsns, |sql, lsns| cx.query(sql, &[&member, lsns]))?;
    Ok(rows.into_iter().map(|(lsn,)| lsn).collect())
}

/// Returns whether all of these items are still to be sent: they are due, unread, and their member sees them.
pub(crate) fn are_current(cx: &Read<'_>, member: MemberId, out: Out, lsns: &[i64]) -> Result<bool> {
    let (sight, reasons) = (Sight::Member(member).params(), Reasons::all());
    let found: Option<(i64,)> = with_lsns(cx.engine(), out.statements().current, lsns, |sql, lsns| {
        cx.one(sql, &sight.and(&[&member, &reasons, lsns]))
    })?;
    Ok(found.map(|(count,)| count) == i64::try_from(lsns.len()).ok())
}

/// Makes what was put off to long after now due now, because what its member wants has changed.
pub(crate) fn put_off_no_longer(cx: &mut Write<'_>, member: MemberId) -> Result<()> {
    let now = cx.now();
    // What is leased, or waits for a moment before it is mailed, goes on.
    let delay = cx.settings().mail.as_ref().map(|mail| mail.delay).unwrap_or_default();
    let beyond = now.plus(PARCEL_LEASE.max(delay));
    [Out::Mail, Out::Push]
        .into_iter()
        .try_for_each(|out| cx.execute_any(out.statements().hasten, &[&member, &beyond, &now]))
}

/// Lets nothing be due of a member any more.
pub(crate) fn drop_due(cx: &mut Write<'_>, member: MemberId, out: Out) -> Result<()> {
    cx.execute_any(out.statements().drop, &[&member])
}

/// Runs a statement, of which there is one for each engine, with a list of positions.
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

/// The statements of a way.
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

impl Out {
    fn statements(self) -> &'static Statements {
        match self {
            Self::Mail => &OF_MAIL,
            Self::Push => &OF_PUSH,
        }
    }
}

/// The condition that `lsn` is one of a list of positions, on each engine.
macro_rules! in_lsns {
    ($before:expr, $list:literal, $after:expr) => {
        [
            concat!($before, "lsn in (select value from json_each(", $list, "))", $after),
            concat!($before, "lsn = any(", $list, ")", $after),
        ]
    };
}

/// The statements of the way with this column.
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
