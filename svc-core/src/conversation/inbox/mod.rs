//! The inbox of each member: what concerns it, and whether it has read that.
//!
//! Whatever does something that concerns members calls [`notify`], in its own transaction. An item has the
//! position of the event that caused it and no words. There is one for each member and message, with every
//! reason for it: the reasons are bits, and the lowest is the strongest, which is shown. Nobody is told of
//! what it did itself, or of what happens in a channel that it does not see. The inbox is also the queue of
//! what is mailed and pushed: an item is due on each way that its member wants for its reason and has opened.
//! Reading the inbox is another feature, and so is what leaves the service.

mod prune;

use uuid::Uuid;

use crate::Result;
use crate::conversation::places::{members_in, seen_by};
use crate::conversation::presence::{online, online_since};
use crate::error::Error;
use crate::id::{MemberId, MessageId};
use crate::log::event::Recorded;
use crate::op::{DestroyPermit, Feature, Records, Write};
use crate::store::{Engine, FromValue, ToParam, Value, named_enum};

pub(crate) fn feature() -> Feature {
    Feature::new()
        .cleaner_at_withdrawal("inbox", remove_of_messages)
        .chore(prune::of_read())
        .chore(prune::of_unread())
        .records(vec![
            Records::table("inbox", "member_id lsn").after("members").after("channels").stays(),
            Records::table("mutes", "member_id target_id").through("member_id", "members").stays(),
        ])
}

named_enum! {
    /// Why something is in an inbox; the stronger of two reasons stands first.
    pub(crate) enum InboxReason {
        Mention = "mention",
        Reply = "reply",
        Dm = "dm",
        GroupMention = "group_mention",
        Assigned = "assigned",
        Owner = "owner",
        Refuted = "refuted",
        Added = "added",
        Result = "result",
        ClaimUnacknowledged = "claim_unacknowledged",
        ClaimExpired = "claim_expired",
        ReviewRequested = "review_requested",
        ApprovalRequested = "approval_requested",
    }
}

/// The bits of the reasons for which members are mailed and pushed unless they say otherwise: mention, reply,
/// dm, assigned, review_requested and approval_requested.
const LEAVE_UNASKED: i64 = 6167;

impl InboxReason {
    /// Returns whether notifications for it are mailed and pushed to a member that has not said.
    pub fn leaves_unasked(self) -> bool {
        self.bit() & LEAVE_UNASKED != 0
    }

    /// The bit of the reason in the set of an item.
    pub fn bit(self) -> i64 {
        let place = Self::ALL.iter().position(|reason| *reason == self).unwrap_or_default();
        u32::try_from(place).ok().and_then(|place| 1_i64.checked_shl(place)).unwrap_or_default()
    }
}

/// Every reason for an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reasons(i64);

impl Reasons {
    /// All that there are.
    pub fn all() -> i64 {
        InboxReason::ALL.iter().fold(0, |set, reason| set | reason.bit())
    }

    /// Those by which somebody was spoken to.
    pub fn spoken_to() -> i64 {
        use InboxReason::{Dm, GroupMention, Mention, Reply};
        [Mention, Reply, Dm, GroupMention].into_iter().map(InboxReason::bit).fold(0, |set, bit| set | bit)
    }

    /// Returns them, the strongest first.
    pub fn each(self) -> impl Iterator<Item = InboxReason> {
        InboxReason::ALL.iter().copied().filter(move |reason| self.0 & reason.bit() != 0)
    }

    /// Returns the strongest.
    pub fn strongest(self) -> Result<InboxReason> {
        self.each().next().ok_or_else(|| Error::internal(format!("no reason has a bit of {}", self.0)))
    }
}

impl FromValue for Reasons {
    fn from_value(value: Value) -> Result<Self> {
        i64::from_value(value).map(Self)
    }
}

/// Who is told, of those who see the channel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum To<'a> {
    /// These members.
    Members(&'a [MemberId]),
    /// Those who are in the channel.
    ChannelMembers,
    /// Those of them who are online.
    OnlineInChannel,
}

/// Adds what the caller has done in a channel to the inboxes of those whom it concerns; `message` is the
/// message that it is about.
///
/// However many these are, it takes one statement, and one more if they may have been told of the message
/// before: a stronger reason makes their item a new one.
pub(crate) fn notify(
    cx: &mut Write<'_>,
    because: &Recorded,
    reason: InboxReason,
    message: Option<MessageId>,
    to: To<'_>,
) -> Result<()> {
    let actor = cx.caller().member;
    add(cx, actor, because, reason, message.map_or(About::Event, About::Message), to)
}

/// Adds a message that the caller has just posted, and of which nobody has been told yet.
pub(crate) fn notify_first(
    cx: &mut Write<'_>,
    because: &Recorded,
    reason: InboxReason,
    message: MessageId,
    to: To<'_>,
) -> Result<()> {
    let actor = cx.caller().member;
    add(cx, actor, because, reason, About::NewMessage(message), to)
}

/// Adds what has come to pass in a channel, whoever has noticed it, to the inboxes of members.
pub(crate) fn notify_of_service(
    cx: &mut Write<'_>,
    because: &Recorded,
    reason: InboxReason,
    members: &[MemberId],
) -> Result<()> {
    add(cx, None, because, reason, About::Event, To::Members(members))
}

/// What an item is about.
#[derive(Clone, Copy, Debug)]
enum About {
    /// The event that causes it alone.
    Event,
    /// A message of which nobody has been told yet.
    NewMessage(MessageId),
    /// A message.
    Message(MessageId),
}

fn add(
    cx: &mut Write<'_>,
    actor: Option<MemberId>,
    because: &Recorded,
    reason: InboxReason,
    about: About,
    to: To<'_>,
) -> Result<()> {
    if matches!(to, To::Members(members) if members.iter().all(|member| Some(*member) == actor)) {
        return Ok(());
    }
    let channel = because.subject.channel_id;
    let channel = channel.ok_or_else(|| Error::internal(format!("{} has no channel", because.kind)))?;
    let (now, since) = (cx.now(), online_since(cx.now()));
    let (message, may_be_told) = match about {
        About::Event => (None, false),
        About::NewMessage(message) => (Some(message), false),
        About::Message(message) => (Some(message), true),
    };
    let (lsn, bit, thread) = (because.lsn, reason.bit(), because.subject.thread_id);
    let (is_listed, is_here) = (matches!(to, To::Members(_)), matches!(to, To::OnlineInChannel));
    let listed = if let To::Members(members) = to { members } else { &[] };
    let members: Vec<Uuid> = listed.iter().map(|member| member.uuid()).collect();
    let [raise, insert] = match (is_listed, cx.engine()) {
        (true, Engine::Sqlite) => LISTED_SQLITE,
        (true, Engine::Postgres) => LISTED_POSTGRES,
        (false, Engine::Sqlite) => GROUP_SQLITE,
        (false, Engine::Postgres) => GROUP_POSTGRES,
    };
    let mail_at = cx.settings().mail.as_ref().map(|mail| now.plus(mail.delay));
    let push_at = cx.settings().vapid_public_key.as_ref().map(|_| now);
    let mut params: Vec<&dyn ToParam> =
        vec![&channel, &actor, &message, &lsn, &bit, &now, &thread, &mail_at, &push_at];
    if is_listed {
        params.push(&members);
    } else {
        params.extend([&is_here as &dyn ToParam, &since]);
    }
    if may_be_told {
        cx.execute_any(raise, &params)?;
    }
    cx.execute_any(insert, &params)
}

/// Those who are told of something in the channel `$1` by anybody but them, as members `m`.
macro_rules! told {
    ($actor:expr, $who:expr) => {
        concat!(
            // The members are found by their ids, and not by their workspace.
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

/// Whether a reason makes the item of a message a new one: it is stronger than those for it, or it is a reply
/// or a refutation, which came later, of what was read already. Their bits are 2 and 64.
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

/// When an item of the member is due for the reason `$5` on a way that is due at `$at`, which is null if
/// nothing takes it; `$open` is whether the way leads to the member, and `$rule` the column of its rules.
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

/// When an item is due to be mailed: nothing is to an address that is not confirmed, off or suspended.
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

/// When an item is due for which there is one reason more, which alone makes it due at `$due`.
///
/// What is due for another reason and not sent yet stays due. What its member wants to be told of for none of
/// the reasons so far is due for the new one, also if that is weaker.
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

/// The statements that make new items of those of a message, and that add items.
///
/// Of what a member mutes nothing is added but mentions by name and direct messages, whose bits are 1 and 4.
macro_rules! notify {
    ($actor:expr, $message:expr, $thread:expr, $who:expr) => {
        [
            concat!(
                "update inbox set reasons = reasons | $5,
                    lsn = case when ", raises!(), " then $4 else lsn end,
                    at = case when ", raises!(), " then $6 else at end,
                    actor_id = case when ", raises!(), " then ",
                $actor,
                " else actor_id end,
                    read_at = case when ", raises!(), " then null else read_at end,
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
            concat!(
                "insert into inbox
                    (workspace_id, member_id, lsn, reasons, channel_id, thread_id, message_id, actor_id, at,
                     mail_due, push_due)
                 select c.workspace_id, m.id, cast($4 as bigint), cast($5 as bigint), c.id, ",
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
                // There is one of the event or of the message.
                ") on conflict do nothing"
            ),
        ]
    };
}

const LISTED_SQLITE: [&str; 2] =
    notify!("$2", "$3", "$7", "m.id in (select unhex(value) from json_each($10))");

// The type of a parameter that is only selected must be said.
const LISTED_POSTGRES: [&str; 2] =
    notify!("cast($2 as uuid)", "cast($3 as uuid)", "cast($7 as uuid)", "m.id = any($10)");

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

/// Takes a reason away from the items of a message, of these members or of all; those without one go.
pub(crate) fn take_back(
    cx: &mut Write<'_>,
    message: MessageId,
    reason: InboxReason,
    members: Option<&[MemberId]>,
) -> Result<()> {
    let (others, is_all) = (!reason.bit(), members.is_none());
    let members: Vec<Uuid> = members.unwrap_or_default().iter().map(|member| member.uuid()).collect();
    let sql = match cx.engine() {
        Engine::Sqlite => TAKE_BACK_SQLITE,
        Engine::Postgres => TAKE_BACK_POSTGRES,
    };
    cx.execute_any(sql, &[&message, &others, &is_all, &members])?;
    cx.execute_any(REMOVE_WITHOUT_REASON, &[&message])
}

macro_rules! take_back {
    ($members:literal) => {
        concat!(
            "update inbox set reasons = reasons & $2 where message_id = $1 and ($3 or member_id ",
            $members,
            ")"
        )
    };
}

const TAKE_BACK_SQLITE: &str = take_back!("in (select unhex(value) from json_each($4))");

const TAKE_BACK_POSTGRES: &str = take_back!("= any($4)");

const REMOVE_WITHOUT_REASON: &str = "delete from inbox where message_id = $1 and reasons = 0";

/// Mutes these channels and threads for a member, and no others.
pub(crate) fn mute_only(cx: &mut Write<'_>, member: MemberId, targets: &[Uuid]) -> Result<()> {
    cx.execute_any(UNMUTE, &[&member])?;
    let sql = match cx.engine() {
        Engine::Sqlite => MUTE_SQLITE,
        Engine::Postgres => MUTE_POSTGRES,
    };
    cx.execute_any(sql, &[&member, &targets])
}

const UNMUTE: &str = "delete from mutes where member_id = $1";

const MUTE_SQLITE: &str =
    "insert into mutes (member_id, target_id) select $1, unhex(value) from json_each($2)";

const MUTE_POSTGRES: &str = "
    insert into mutes (member_id, target_id) select cast($1 as uuid), unnest(cast($2 as uuid[]))";

/// Removes the items of messages, whatever the reasons for them.
fn remove_of_messages(cx: &mut Write<'_>, _: &DestroyPermit<'_>, messages: &[MessageId]) -> Result<()> {
    messages.iter().try_for_each(|id| cx.execute_any(REMOVE_OF_MESSAGE, &[id]))
}

const REMOVE_OF_MESSAGE: &str = "delete from inbox where message_id = $1";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_reason_is_shown() {
        let bits = |reasons: &[InboxReason]| Reasons(reasons.iter().map(|reason| reason.bit()).sum());
        let strongest = |reasons: &[InboxReason]| bits(reasons).strongest().unwrap();
        assert_eq!(
            strongest(&[InboxReason::GroupMention, InboxReason::Mention, InboxReason::Dm]),
            InboxReason::Mention
        );
        assert_eq!(strongest(&[InboxReason::GroupMention, InboxReason::Reply]), InboxReason::Reply);
        assert_eq!(strongest(&[InboxReason::ApprovalRequested]), InboxReason::ApprovalRequested);
        assert!(Reasons(0).strongest().is_err());
        assert_eq!(InboxReason::Reply.bit() | InboxReason::Refuted.bit(), 66, "what makes a read item new");
        assert_eq!(Reasons::spoken_to(), 15);
        assert_eq!(InboxReason::Mention.bit() | InboxReason::Dm.bit(), 5, "what comes from muted places");
        let unasked: Vec<&str> = InboxReason::ALL
            .iter()
            .filter(|reason| reason.leaves_unasked())
            .map(|reason| reason.name())
            .collect();
        assert_eq!(unasked, ["mention", "reply", "dm", "assigned", "review_requested", "approval_requested"]);
        let mut seen = std::collections::BTreeSet::new();
        assert!(InboxReason::ALL.iter().all(|reason| seen.insert(reason.bit())), "each has a bit of its own");
    }
}
