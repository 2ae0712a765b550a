//! Adding inbox items: which members are notified, and on which delivery channels.
//!
//! The statement that adds the items also reads all data on which this decision depends.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::{InboxReason, ItemSubject, Recipients};
use crate::Result;
use crate::conversation::presence::{online, online_since};
use crate::conversation::visibility::{members_in, seen_by};
use crate::error::Error;
use crate::id::MemberId;
use crate::log::event::RecordedEvent;
use crate::op::Write;
use crate::store::{Engine, ToParam};

/// Adds the items of an event for its recipients, or updates their items for the same message.
///
/// Skips the actor, and members who may not see the channel. `cause` is the event.
pub(super) fn add_items(
    cx: &mut Write<'_>,
    actor: Option<MemberId>,
    cause: &RecordedEvent,
    reason: InboxReason,
    subject: ItemSubject,
    recipients: Recipients<'_>,
) -> Result<()> {
    let is_actor = |member: &MemberId| Some(*member) == actor;
    if matches!(recipients, Recipients::Members(members) if members.iter().all(is_actor)) {
        return Ok(());
    }
    let channel = cause.subject.channel_id;
    let channel = channel.ok_or_else(|| Error::internal(format!("{} has no channel", cause.kind)))?;
    let now = cx.now();
    let since = online_since(cx.now());
    let (message, may_have_item) = match subject {
        ItemSubject::Event => (None, false),
        ItemSubject::NewMessage(message) => (Some(message), false),
        ItemSubject::Message(message) => (Some(message), true),
    };
    let lsn = cause.lsn;
    let bit = reason.bit();
    let thread = cause.subject.thread_id;
    let is_listed = matches!(recipients, Recipients::Members(_));
    let is_here = matches!(recipients, Recipients::OnlineInChannel);
    let listed = if let Recipients::Members(members) = recipients { members } else { &[] };
    let members: Vec<Uuid> = listed.iter().map(|member| member.uuid()).collect();
    let mail_at = cx.settings().mail.as_ref().map(|mail| now.plus(mail.delay));
    let push_at = cx.settings().vapid_public_key.as_ref().map(|_| now);
    let mut params: Vec<&dyn ToParam> =
        vec![&channel, &actor, &message, &lsn, &bit, &now, &thread, &mail_at, &push_at];
    if is_listed && message.is_none() && listed.len() <= SINGLE_INSERTS_MAX {
        let members: BTreeSet<&MemberId> = listed.iter().collect();
        return members.into_iter().try_for_each(|member| {
            let params: Vec<&dyn ToParam> = params.iter().copied().chain([member as &dyn ToParam]).collect();
            cx.save_any(ADD_ITEM, &params)
        });
    }
    let [raise, insert] = match (is_listed, cx.engine()) {
        (true, Engine::Sqlite) => NOTIFY_LISTED_SQLITE,
        (true, Engine::Postgres) => NOTIFY_LISTED_POSTGRES,
        (false, Engine::Sqlite) => NOTIFY_GROUP_SQLITE,
        (false, Engine::Postgres) => NOTIFY_GROUP_POSTGRES,
    };
    if is_listed {
        params.push(&members);
    } else {
        params.extend([&is_here as &dyn ToParam, &since]);
    }
    if may_have_item {
        cx.save_any(raise, &params)?;
    }
    cx.save_any(insert, &params)
}

/// SQL clauses that select the members `m` to notify in channel `$1`: those that match `$who` and see the
/// channel, without the actor.
macro_rules! notified_members {
    ($actor:expr, $who:expr) => {
        concat!(
            // The `coalesce` makes the engine look up members by id, not by workspace.
            "from channels c join members m on coalesce(m.workspace_id, c.workspace_id) = c.workspace_id
             where c.id = $1 and m.deactivated_at is null and m.id is distinct from ",
            $actor,
            " and ",
            $who,
            " and ",
            seen_by!(c, "m.id")
        )
    };
}

/// SQL condition that the new reason `$5` makes an existing item of a message unread again.
///
/// The new reason must be stronger than all earlier reasons. A new reason `reply` (bit 2) or `refuted` (bit
/// 64) also suffices if the item was already read.
macro_rules! makes_unread {
    () => {
        "($5 < (reasons & -reasons) or (read_at is not null and ($5 & 66) <> 0 and (reasons & $5) = 0))"
    };
}

/// SQL condition that `$member` has muted the channel `$1` or the thread `$7`.
macro_rules! muted {
    ($member:literal) => {
        concat!(
            "exists (select 1 from mutes q where q.member_id = ",
            $member,
            " and (q.target_id = $1 or q.target_id = $7))"
        )
    };
}

/// SQL expression for the time at which an item with reason `$5` is due on a delivery channel, or null.
///
/// The time is `$at`, which is null if the delivery channel is disabled. `$open` is the condition that the
/// delivery channel reaches the member, and `$rule` the column with the member's rules for the delivery
/// channel.
macro_rules! due {
    ($at:literal, $rule:literal, $member:literal, $open:expr) => {
        concat!(
            "case when cast(",
            $at,
            " as bigint) is not null and ",
            $open,
            " and coalesce(
                (select r.",
            $rule,
            " from inbox_rules r where r.member_id = ",
            $member,
            " and r.reason = $5),
                (cast($5 as bigint) & 6167) <> 0) and not ",
            muted!($member),
            " then cast(",
            $at,
            " as bigint) end"
        )
    };
}

/// SQL expression for the time at which an item is due to be emailed; null if the member's email address is
/// unconfirmed, turned off or suspended.
macro_rules! mail_due {
    ($member:literal) => {
        due!(
            "$8",
            "mail",
            $member,
            concat!(
                "exists (select 1 from delivery_addresses d where d.member_id = ",
                $member,
                " and d.confirmed_at is not null and d.mode <> 'off' and not d.suspended)"
            )
        )
    };
}

/// SQL expression for the due time of an existing item to which a reason is added. `$due` is the due time
/// that a new item with this reason would get.
///
/// An item that is already due for another reason and was not sent yet stays due. If the member wants no
/// earlier reason on this delivery channel, the item is due for the new reason, even if the new reason is
/// weaker.
macro_rules! due_after_reason {
    ($column:literal, $rule:literal, $due:expr) => {
        concat!(
            "case when ",
            makes_unread!(),
            " then coalesce(",
            $due,
            ", case when read_at is null then ",
            $column,
            " end) when read_at is null and ",
            $column,
            " is null and not exists (
                select 1 from inbox_rules r
                where r.member_id = inbox.member_id and r.",
            $rule,
            " and (r.reason & inbox.reasons) <> 0)
             and (inbox.reasons & 6167 & ~coalesce((
                select cast(sum(r.reason) as bigint) from inbox_rules r
                where r.member_id = inbox.member_id), 0)) = 0
             then ",
            $due,
            " else ",
            $column,
            " end"
        )
    };
}

/// SQL expression for the time at which an item is due to be pushed; null if the member has no push
/// subscription.
macro_rules! push_due {
    ($member:literal) => {
        due!(
            "$9",
            "push",
            $member,
            concat!("exists (select 1 from web_push w where w.member_id = ", $member, ")")
        )
    };
}

/// Two SQL statements: the first updates the existing items of a message, the second adds new items.
///
/// Items of muted channels and threads are added only for mentions by handle (bit 1) and direct messages (bit
/// 4).
macro_rules! notify {
    ($actor:expr, $message:expr, $thread:expr, $who:expr) => {
        [
            concat!(
                "update inbox set reasons = reasons | $5,
                    lsn = case when ",
                makes_unread!(),
                " then $4 else lsn end,
                    at = case when ",
                makes_unread!(),
                " then $6 else at end,
                    actor_id = case when ",
                makes_unread!(),
                " then ",
                $actor,
                " else actor_id end,
                    read_at = case when ",
                makes_unread!(),
                " then null else read_at end,
                    mail_due = ",
                due_after_reason!("mail_due", "mail", mail_due!("inbox.member_id")),
                ",
                    push_due = ",
                due_after_reason!("push_due", "push", push_due!("inbox.member_id")),
                "
                 where message_id = $3 and member_id in (select m.id ",
                notified_members!($actor, $who),
                ")"
            ),
            concat!(add_items!(), select_items!($actor, $message, $thread, $who), skip_existing!()),
        ]
    };
}

macro_rules! add_items {
    () => {
        "insert into inbox
            (workspace_id, member_id, lsn, reasons, channel_id, thread_id, message_id, actor_id, at, mail_due,
             push_due) "
    };
}

/// SQL query for the column values of the new items, one row for each notified member.
macro_rules! select_items {
    ($actor:expr, $message:expr, $thread:expr, $who:expr) => {
        concat!(
            "select c.workspace_id, m.id, cast($4 as bigint), cast($5 as bigint), c.id, ",
            $thread,
            ", ",
            $message,
            ", ",
            $actor,
            ", cast($6 as bigint), ",
            mail_due!("m.id"),
            ", ",
            push_due!("m.id"),
            " ",
            notified_members!($actor, $who),
            " and ((cast($5 as bigint) & 5) <> 0 or not ",
            muted!("m.id"),
            ")"
        )
    };
}

/// SQL clause that adds no item if an item for the same event or message exists.
macro_rules! skip_existing {
    () => {
        " on conflict do nothing"
    };
}

const NOTIFY_LISTED_SQLITE: [&str; 2] =
    notify!("$2", "$3", "$7", "m.id in (select unhex(value) from json_each($10))");

// Postgres cannot infer the type of a parameter that is only selected, so the casts state it.
const NOTIFY_LISTED_POSTGRES: [&str; 2] =
    notify!("cast($2 as uuid)", "cast($3 as uuid)", "cast($7 as uuid)", "m.id = any($10)");

/// SQL statement that adds the item of an event for one member. Postgres plans this statement only once, but
/// plans a statement with a list of members on each execution.
const ADD_ITEM: &str = concat!(add_items!(), select_items!("$2", "$3", "$7", "m.id = $10"), skip_existing!());

/// Maximum members for whom items are added with one statement per member.
const SINGLE_INSERTS_MAX: usize = 8;

/// SQL condition that `m` is a member of channel `$1`, and is online if `$10` is true.
macro_rules! is_in_group {
    () => {
        concat!(
            "m.id in ",
            members_in!("$1"),
            " and (not $10 or exists (select 1 from presence p where p.member_id = m.id and ",
            online!(p, "$11"),
            "))"
        )
    };
}

const NOTIFY_GROUP_SQLITE: [&str; 2] = notify!("$2", "$3", "$7", is_in_group!());

const NOTIFY_GROUP_POSTGRES: [&str; 2] =
    notify!("cast($2 as uuid)", "cast($3 as uuid)", "cast($7 as uuid)", is_in_group!());
