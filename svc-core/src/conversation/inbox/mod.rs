//! The inbox of each member: items about events and messages that concern the member, each read or unread.
//!
//! An operation that concerns other members calls [`notify`] in its transaction. An item contains the
//! position of the event that caused it, but no text. A member has at most one item per message, with the set
//! of all reasons for the item. The reasons are bits; the lowest bit is the strongest reason, which the inbox
//! shows. Members are not notified of their own actions, or of events in a channel that they may not see. The
//! inbox is also the queue of emails and pushes: an item is due on each delivery channel that the member has
//! set up and wants for the item's reason. Reading the inbox and delivering items are separate features.

mod add;
mod prune;

use uuid::Uuid;

use crate::Result;
use crate::error::Error;
use crate::id::{MemberId, MessageId};
use crate::log::event::RecordedEvent;
use crate::op::{DestroyPermit, Feature, Records, Write};
use crate::store::{Engine, FromValue, Value, named_enum};
use add::add_items;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .cleaner_at_withdrawal("inbox", remove_items_of_messages)
        .chore(prune::read_items_chore())
        .chore(prune::unread_items_chore())
        .records(vec![
            Records::table("inbox", "member_id lsn").after("members").after("channels").stays(),
            Records::table("mutes", "member_id target_id").through("member_id", "members").stays(),
        ])
}

named_enum! {
    /// Reason why an item is in an inbox. The reasons are listed from the strongest to the weakest.
    #[non_exhaustive]
    pub enum InboxReason {
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
        ClaimTaken = "claim_taken",
    }
}

/// The bits of the reasons for which items are emailed and pushed by default: mention, reply, dm, assigned,
/// review_requested and approval_requested.
const SENT_BY_DEFAULT_BITS: i64 = 6167;

impl InboxReason {
    /// Returns whether items with this reason are emailed and pushed by default.
    pub fn is_sent_by_default(self) -> bool {
        self.bit() & SENT_BY_DEFAULT_BITS != 0
    }

    /// Returns the bit of this reason in an item's set of reasons.
    pub fn bit(self) -> i64 {
        let place = Self::ALL.iter().position(|reason| *reason == self).unwrap_or_default();
        u32::try_from(place).ok().and_then(|place| 1_i64.checked_shl(place)).unwrap_or_default()
    }
}

/// The reasons for an inbox item, as a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reasons(i64);

impl Reasons {
    /// Returns the set that contains every reason.
    pub fn all_bits() -> i64 {
        InboxReason::ALL.iter().fold(0, |set, reason| set | reason.bit())
    }

    /// Returns the set of the reasons with which another member addresses the owner of the inbox.
    pub fn addressing_bits() -> i64 {
        use InboxReason::{Dm, GroupMention, Mention, Reply};
        [Mention, Reply, Dm, GroupMention].into_iter().map(InboxReason::bit).fold(0, |set, bit| set | bit)
    }

    /// Returns the reasons in this set, from the strongest to the weakest.
    pub fn each(self) -> impl Iterator<Item = InboxReason> {
        InboxReason::ALL.iter().copied().filter(move |reason| self.0 & reason.bit() != 0)
    }

    /// Returns the strongest reason in this set.
    pub fn strongest(self) -> Result<InboxReason> {
        self.each().next().ok_or_else(|| Error::internal(format!("no reason has a bit of {}", self.0)))
    }
}

impl FromValue for Reasons {
    fn from_value(value: Value) -> Result<Self> {
        i64::from_value(value).map(Self)
    }
}

/// The members to notify. Members who may not see the channel are skipped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Recipients<'a> {
    /// The listed members.
    Members(&'a [MemberId]),
    /// The members of the channel.
    ChannelMembers,
    /// The members of the channel who are online now.
    OnlineInChannel,
}

/// Notifies members of an action of the caller in a channel. `message` is the message that the action
/// concerns, if any.
///
/// Runs one statement for an event, and two for a message, because members may already have an item for the
/// message: a stronger reason makes that item unread again. To notify a few members of an event, the rows are
/// added to a statement that the whole batch shares.
pub(crate) fn notify(
    cx: &mut Write<'_>,
    cause: &RecordedEvent,
    reason: InboxReason,
    message: Option<MessageId>,
    recipients: Recipients<'_>,
) -> Result<()> {
    let actor = cx.caller().member;
    add_items(cx, actor, cause, reason, message.map_or(ItemSubject::Event, ItemSubject::Message), recipients)
}

/// Notifies members of a message that the caller has just posted, before any other notification about the
/// message.
pub(crate) fn notify_of_new_message(
    cx: &mut Write<'_>,
    cause: &RecordedEvent,
    reason: InboxReason,
    message: MessageId,
    recipients: Recipients<'_>,
) -> Result<()> {
    let actor = cx.caller().member;
    add_items(cx, actor, cause, reason, ItemSubject::NewMessage(message), recipients)
}

/// Notifies members of an event in a channel that the service itself, not a member, has caused.
pub(crate) fn notify_as_service(
    cx: &mut Write<'_>,
    cause: &RecordedEvent,
    reason: InboxReason,
    members: &[MemberId],
) -> Result<()> {
    add_items(cx, None, cause, reason, ItemSubject::Event, Recipients::Members(members))
}

/// The subject of an inbox item: an event or a message.
#[derive(Clone, Copy, Debug)]
enum ItemSubject {
    /// The event that causes the item.
    Event,
    /// A new message, for which no member has an item yet.
    NewMessage(MessageId),
    /// A message for which members may already have an item.
    Message(MessageId),
}

/// Removes a reason from the items of a message, for the given members, or for all members if `members` is
/// `None`.
///
/// Items without remaining reasons are deleted.
pub(crate) fn remove_reason(
    cx: &mut Write<'_>,
    message: MessageId,
    reason: InboxReason,
    members: Option<&[MemberId]>,
) -> Result<()> {
    let others = !reason.bit();
    let is_all = members.is_none();
    let members: Vec<Uuid> = members.unwrap_or_default().iter().map(|member| member.uuid()).collect();
    let sql = match cx.engine() {
        Engine::Sqlite => REMOVE_REASON_SQLITE,
        Engine::Postgres => REMOVE_REASON_POSTGRES,
    };
    cx.execute_any(sql, &[&message, &others, &is_all, &members])?;
    cx.execute_any(REMOVE_ITEMS_WITHOUT_REASON, &[&message])
}

macro_rules! remove_reason_sql {
    ($members:literal) => {
        concat!(
            "update inbox set reasons = reasons & $2 where message_id = $1 and ($3 or member_id ",
            $members,
            ")"
        )
    };
}

const REMOVE_REASON_SQLITE: &str = remove_reason_sql!("in (select unhex(value) from json_each($4))");

const REMOVE_REASON_POSTGRES: &str = remove_reason_sql!("= any($4)");

const REMOVE_ITEMS_WITHOUT_REASON: &str = "delete from inbox where message_id = $1 and reasons = 0";

/// Replaces the muted channels and threads of a member by `targets`.
pub(crate) fn replace_mutes(cx: &mut Write<'_>, member: MemberId, targets: &[Uuid]) -> Result<()> {
    cx.execute_any(DELETE_MUTES, &[&member])?;
    let sql = match cx.engine() {
        Engine::Sqlite => INSERT_MUTES_SQLITE,
        Engine::Postgres => INSERT_MUTES_POSTGRES,
    };
    cx.execute_any(sql, &[&member, &targets])
}

const DELETE_MUTES: &str = "delete from mutes where member_id = $1";

const INSERT_MUTES_SQLITE: &str =
    "insert into mutes (member_id, target_id) select $1, unhex(value) from json_each($2)";

const INSERT_MUTES_POSTGRES: &str = "
    insert into mutes (member_id, target_id) select cast($1 as uuid), unnest(cast($2 as uuid[]))";

/// Removes all inbox items of the given messages.
fn remove_items_of_messages(cx: &mut Write<'_>, _: &DestroyPermit<'_>, messages: &[MessageId]) -> Result<()> {
    messages.iter().try_for_each(|id| cx.execute_any(REMOVE_ITEMS_OF_MESSAGE, &[id]))
}

const REMOVE_ITEMS_OF_MESSAGE: &str = "delete from inbox where message_id = $1";

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
        assert_eq!(Reasons::addressing_bits(), 15);
        assert_eq!(InboxReason::Mention.bit() | InboxReason::Dm.bit(), 5, "what comes from muted places");
        let unasked: Vec<&str> = InboxReason::ALL
            .iter()
            .filter(|reason| reason.is_sent_by_default())
            .map(|reason| reason.name())
            .collect();
        assert_eq!(unasked, ["mention", "reply", "dm", "assigned", "review_requested", "approval_requested"]);
        let mut seen = std::collections::BTreeSet::new();
        assert!(InboxReason::ALL.iter().all(|reason| seen.insert(reason.bit())), "each has a bit of its own");
    }
}
