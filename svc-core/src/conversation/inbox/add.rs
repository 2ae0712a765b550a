//! Adding items: which members are notified, and on which delivery channels.
//!
//! The statement that adds the items reads everything that decides about it.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::{InboxReason, ItemSubject, Recipients};
use crate::Result;
use crate::conversation::presence::{online, online_since};
use crate::conversation::visibility::{members_in, seen_by};
use crate::error::Error;
use crate::id::MemberId;
use crate::log::event::Recorded;
use crate::op::Write;
use crate::store::{Engine, ToParam};

pub(super) fn add(
    cx: &mut Write<'_>,
    actor: Option<MemberId>,
    because: &Recorded,
    reason: InboxReason,
    about: ItemSubject,
    to: Recipients<'_>,
) -> Result<()> {
    if matches!(to, Recipients::Members(members) if members.iter().all(|member| Some(*member) == actor)) {
        return Ok(());
    }
    let channel = because.subject.channel_id;
    let channel = channel.ok_or_else(|| Error::internal(format!("{} has no channel", because.kind)))?;
    let now = cx.now();
    let since = online_since(cx.now());
    let (message, may_be_told) = match about {
        ItemSubject::Event => (None, false),
        ItemSubject::NewMessage(message) => (Some(message), false),
        ItemSubject::Message(message) => (Some(message), true),
    };
    let lsn = because.lsn;
    let bit = reason.bit();
    let thread = because.subject.thread_id;
    let is_listed = matches!(to, Recipients::Members(_));
    let is_here = matches!(to, Recipients::OnlineInChannel);
    let listed = if let Recipients::Members(members) = to { members } else { &[] };
    let members: Vec<Uuid> = listed.iter().map(|member| member.uuid()).collect();
    let mail_at = cx.settings().mail.as_ref().map(|mail| now.plus(mail.delay));
    let push_at = cx.settings().vapid_public_key.as_ref().map(|_| now);
    let mut params: Vec<&dyn ToParam> =
        vec![&channel, &actor, &message, &lsn, &bit, &now, &thread, &mail_at, &push_at];
    if is_listed && message.is_none() && listed.len() <= FEW {
        let members: BTreeSet<&MemberId> = listed.iter().collect();
        return members.into_iter().try_for_each(|member| {
            let params: Vec<&dyn ToParam> = params.iter().copied().chain([member as &dyn ToParam]).collect();
            cx.save_any(ADD_ITEM, &params)
        });
    }
    let [raise, insert] = match (is_listed, cx.engine()) {
        (true, Engine::Sqlite) => LISTED_SQLITE,
        (true, Engine::Postgres) => LISTED_POSTGRES,
        (false, Engine::Sqlite) => GROUP_SQLITE,
        (false, Engine::Postgres) => GROUP_POSTGRES,
    };
    if is_listed {
        params.push(&members);
    } else {
        params.extend([&is_here as &dyn ToParam, &since]);
    }
    if may_be_told {
        cx.save_any(raise, &params)?;
    }
    cx.save_any(insert, &params)
}

/// The members `m` in `$who` who are notified of something in channel `$1`, without the actor.
macro_rules! told {
    ($actor:expr, $who:expr) => {
        concat!(
            // Makes the engine look members up by id, not by workspace.
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

/// Whether a reason makes the item of a message new again: it is stronger than the earlier reasons, or it is
/// a later reply or refutation, and the item was already read. Their bits are 2 and 64.
macro_rules! raises {
    () => {
        "($5 < (reasons & -reasons) or (read_at is not null and ($5 & 66) <> 0 and (reasons & $5) = 0))"
    };
}

/// Whether the member mutes the channel `$1` or the thread `$7`.
macro_rules! muted {
    ($member:literal) => {
        concat!(
            "exists (select 1 from mutes q where q.member_id = ",
            $member,
            " and (q.target_id = $1 or q.target_id = $7))"
        )
    };
}

/// When an item of the member is due for reason `$5` on a delivery channel: at `$at`, which is null if the
/// channel is disabled. `$open` is whether the channel reaches the member, and `$rule` the column of its
/// rules.
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

/// When an item is due to be emailed: never if the address is not confirmed, off or suspended.
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

/// When an item is due after a further reason, which alone makes it due at `$due`.
///
/// An item that is due for another reason and not sent yet stays due. If the member wants none of the reasons
/// so far on this channel, the item is due for the new one, even if that is weaker.
macro_rules! due_with {
    ($column:literal, $rule:literal, $due:expr) => {
        concat!(
            "case when ",
            raises!(),
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

/// When an item is due to be pushed.
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

/// The statements that update the items of a message, and that add items.
///
/// In muted channels and threads, only mentions by name and direct messages are added; their bits are 1 and
/// 4.
macro_rules! notify {
    ($actor:expr, $message:expr, $thread:expr, $who:expr) => {
        [
            concat!(
                "update inbox set reasons = reasons | $5,
                    lsn = case when ",
                raises!(),
                " then $4 else lsn end,
                    at = case when ",
                raises!(),
                " then $6 else at end,
                    actor_id = case when ",
                raises!(),
                " then ",
                $actor,
                " else actor_id end,
                    read_at = case when ",
                raises!(),
                " then null else read_at end,
                    mail_due = ",
                due_with!("mail_due", "mail", mail_due!("inbox.member_id")),
                ",
                    push_due = ",
                due_with!("push_due", "push", push_due!("inbox.member_id")),
                "
                 where message_id = $3 and member_id in (select m.id ",
                told!($actor, $who),
                ")"
            ),
            concat!(add_items!(), items!($actor, $message, $thread, $who), unless_there!()),
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

/// The items of the notified members.
macro_rules! items {
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
            told!($actor, $who),
            " and ((cast($5 as bigint) & 5) <> 0 or not ",
            muted!("m.id"),
            ")"
        )
    };
}

/// Skips items that exist already for the event or the message.
macro_rules! unless_there {
    () => {
        " on conflict do nothing"
    };
}

const LISTED_SQLITE: [&str; 2] =
    notify!("$2", "$3", "$7", "m.id in (select unhex(value) from json_each($10))");

// Postgres needs the type of a parameter that is only selected.
const LISTED_POSTGRES: [&str; 2] =
    notify!("cast($2 as uuid)", "cast($3 as uuid)", "cast($7 as uuid)", "m.id = any($10)");

/// Adds the item of an event for one member. Postgres plans it once, and a statement for a list each time.
const ADD_ITEM: &str = concat!(add_items!(), items!("$2", "$3", "$7", "m.id = $10"), unless_there!());

/// Maximum members to notify one by one.
const FEW: usize = 8;

/// The condition that the member `m` is in the channel, and online if `$10` says so.
macro_rules! of_group {
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

const GROUP_SQLITE: [&str; 2] = notify!("$2", "$3", "$7", of_group!());

const GROUP_POSTGRES: [&str; 2] =
    notify!("cast($2 as uuid)", "cast($3 as uuid)", "cast($7 as uuid)", of_group!());
