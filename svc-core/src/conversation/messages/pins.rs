//! Pins: messages that members mark as important for a channel, so that every member of the channel finds
//! them.
//!
//! Every member who may post in the channel can remove a pin, not only the member who pinned the message.
//! Withdrawing a message removes its pin.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::Message;
use super::marks::MessageMarks;
use super::message_row::{StoredMessage, load_marks_if_marked, message_columns, not_pruned, visible_message};
use crate::Result;
use crate::capability::Capability::{MessagePost, WorkspaceRead};
use crate::conversation::visibility::visible_channel;
use crate::error::{Code, Error};
use crate::id::{ChannelId, MemberId, MessageId, ThreadId};
use crate::limits::{CONTEXT_PINS_MAX, PAGE_BYTES, PINS_MAX};
use crate::log::event::{Event, EventKind, RecordedEvent};
use crate::log::replay::ReplayedEvent;
use crate::op::{
    Answer, DestroyPermit, Feature, Operation, Read, Records, Sample, Write, destructive, idempotent, read,
};
use crate::page::{Cursor, Limit, Page, rows_to_read, within};
use crate::request::request;
use crate::store::{FromRow, Row, new_row};
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations("pins", operations())
        .events(vec![EventKind::of::<MessagePinned>(), EventKind::of::<MessageUnpinned>()])
        .cleaner_at_withdrawal("pins", remove_pins)
        .sample(
            Sample::new(
                "pinned_message",
                "post_message",
                |w| json!({"thread_id": w.id("thread"), "body": "the grammar is in docs/grammar.md"}),
            )
            .then("pin_message", |w| json!({"message_id": w.id("pinned_message")})),
        )
        .records(vec![
            Records::table("pins", "message_id")
                .through("message_id", "messages")
                .after("channels")
                .ids("message_id channel_id pinned_by")
                .times("at")
                .ints("lsn")
                .proven("message_id", "channel_id pinned_by at lsn")
                .removed_with("message_id", "messages"),
        ])
}

fn operations() -> Vec<Operation> {
    vec![
        idempotent("pin_message", pin_message)
            .title("Pin a message")
            .when("Pin a message in its channel, so that `list_pins` returns it.")
            .put("/messages/{message_id}/pin")
            .needs(&[MessagePost])
            .refuses(&[Code::WrongState])
            .example(|w| json!({"message_id": w.id("message")})),
        destructive("unpin_message", unpin_message)
            .title("Unpin a message")
            .when("Unpin a message, even if another member pinned it.")
            .reversible()
            .delete("/messages/{message_id}/pin")
            .needs(&[MessagePost])
            .refuses(&[Code::NotFound])
            .example(|w| json!({"message_id": w.id("pinned_message")})),
        read("list_pins", list_pins)
            .title("List a channel's pinned messages")
            .when("List the pinned messages of a channel.")
            .detailed()
            .get("/channels/{channel_id}/pins")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"channel_id": w.id("channel"), "limit": 10})),
    ]
}

/// A pin of a message in its channel.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ChannelPin {
    /// Id of the message.
    pub message_id: MessageId,
    /// Id of the message's thread.
    pub thread_id: ThreadId,
    /// Id of the channel that contains the message's thread.
    pub channel_id: ChannelId,
    /// Id of the member who pinned the message; null if the service itself pinned it.
    pub pinned_by: Option<MemberId>,
    /// Time at which the message was pinned.
    pub pinned_at: Time,
    /// Position in the workspace's log at which the message was pinned.
    pub lsn: i64,
}

impl ChannelPin {
    fn new(stored: &StoredMessage, (pinned_by, pinned_at, lsn): (Option<MemberId>, Time, i64)) -> Self {
        let StoredMessage { id: message_id, thread_id, channel_id, .. } = *stored;
        Self { message_id, thread_id, channel_id, pinned_by, pinned_at, lsn }
    }
}

impl<I> Answer<I> for ChannelPin {
    type Kept = (MessageId, i64);

    fn kept(&self) -> Option<Self::Kept> {
        Some((self.message_id, self.lsn))
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, (id, lsn): Self::Kept) -> Result<Self> {
        let stored = visible_message(cx, id)?;
        let found = cx.one(FIND_PIN, &[&stored.id])?.map(|found| Self::new(&stored, found));
        found.filter(|pin| pin.lsn == lsn).ok_or_else(|| Error::not_found("pin"))
    }
}

/// The message that was unpinned, and its channel.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Unpinned")]
#[non_exhaustive]
pub struct UnpinnedMessage {
    /// Id of the message.
    pub message_id: MessageId,
    /// Id of the channel that contains the message's thread.
    pub channel_id: ChannelId,
}

impl<I> Answer<I> for UnpinnedMessage {
    type Kept = MessageId;

    fn kept(&self) -> Option<MessageId> {
        Some(self.message_id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, id: MessageId) -> Result<Self> {
        let stored = visible_message(cx, id)?;
        Ok(Self { message_id: stored.id, channel_id: stored.channel_id })
    }
}

/// A message was pinned in its channel.
#[derive(Serialize, JsonSchema)]
struct MessagePinned {
    /// Id of the message.
    message_id: MessageId,
    /// Id of the member who pinned the message; null if the service itself pinned it.
    member_id: Option<MemberId>,
}

impl Event for MessagePinned {
    const KIND: &'static str = "MessagePinned";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let pin = event.row_of("pins", "message_id")?.made().set_to("channel_id", "$channel");
        let pin = pin.set_to("pinned_by", "member_id").set("at", event.at());
        pin.set("lsn", event.lsn()).keep()?;
        event.row_of("messages", "message_id")?.set("marked", true).keep()
    }
}

/// A message is no longer pinned in its channel.
#[derive(Serialize, JsonSchema)]
struct MessageUnpinned {
    /// Id of the message.
    message_id: MessageId,
    /// Id of the member who unpinned the message; null if the service itself unpinned it.
    member_id: Option<MemberId>,
}

impl Event for MessageUnpinned {
    const KIND: &'static str = "MessageUnpinned";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("pins", "message_id")?.remove()
    }
}

request! {
    /// Pins a message in its channel, where `list_pins` returns it, and returns the pin.
    ///
    /// Withdrawing the message removes the pin.
    ///
    /// Pinning a pinned message changes nothing.
    ///
    /// Fails with 409 `wrong-state` if the message is withdrawn, if its channel is archived, or if 100
    /// messages are already pinned in the channel.
    #[derive(Serialize)]
    struct PinMessage {
        /// Id of the message.
        message_id: MessageId,
    }

    pin_message(message_id: MessageId) -> ChannelPin
}

fn pin_message(cx: &mut Write<'_>, input: &PinMessage) -> Result<ChannelPin> {
    let stored = visible_message(cx, input.message_id)?;
    if let Some(found) = cx.one(FIND_PIN, &[&stored.id])? {
        return Ok(ChannelPin::new(&stored, found));
    }
    stored.check_accepts_marks(cx)?;
    let pinned: Option<(i64,)> = cx.one(COUNT_PINS, &[&stored.channel_id])?;
    if pinned.is_some_and(|(count,)| count >= PINS_MAX) {
        return Err(Error::wrong_state(format!(
            "{PINS_MAX} messages are pinned in the channel, the maximum: unpin one first"
        )));
    }
    let pinned_by = cx.caller().member;
    let pinned = MessagePinned { message_id: stored.id, member_id: pinned_by };
    let RecordedEvent { at, lsn, .. } = cx.emit(stored.subject(), &pinned)?;
    cx.insert(&new_row!("insert into pins" {
        message_id: stored.id, channel_id: stored.channel_id, pinned_by, at, lsn
    }))?;
    stored.set_marked(cx)?;
    Ok(ChannelPin::new(&stored, (pinned_by, at, lsn)))
}

const FIND_PIN: &str = "select pinned_by, at, lsn from pins where message_id = $1";

const COUNT_PINS: &str = concat!(
    "select count(*) from pins p join messages m on m.id = p.message_id where p.channel_id = $1 and ",
    not_pruned!()
);

request! {
    /// Unpins a message, even if another member pinned it, and returns the ids of the message and its
    /// channel.
    ///
    /// Fails with 404 `not-found` if the message is not pinned.
    #[derive(Serialize)]
    struct UnpinMessage {
        /// Id of the message.
        message_id: MessageId,
    }

    unpin_message(message_id: MessageId) -> UnpinnedMessage
}

fn unpin_message(cx: &mut Write<'_>, input: &UnpinMessage) -> Result<UnpinnedMessage> {
    let stored = visible_message(cx, input.message_id)?;
    if cx.one::<(Option<MemberId>, Time, i64)>(FIND_PIN, &[&stored.id])?.is_none() {
        return Err(Error::not_found("pin"));
    }
    let event = MessageUnpinned { message_id: stored.id, member_id: cx.caller().member };
    cx.emit(stored.subject(), &event)?;
    cx.execute(1, DELETE_PIN, &[&stored.id])?;
    Ok(UnpinnedMessage { message_id: stored.id, channel_id: stored.channel_id })
}

const DELETE_PIN: &str = "delete from pins where message_id = $1";

/// Removes the pins of the given messages.
fn remove_pins(cx: &mut Write<'_>, _: &DestroyPermit<'_>, messages: &[MessageId]) -> Result<()> {
    messages.iter().try_for_each(|id| cx.execute_any(DELETE_PIN, &[id]))
}

/// A pinned message, with the member who pinned it and the time.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct PinnedMessage {
    /// Id of the member who pinned the message; null if the service itself pinned it.
    pub pinned_by: Option<MemberId>,
    /// Time at which the message was pinned.
    pub pinned_at: Time,
    /// Position in the workspace's log at which the message was pinned.
    pub lsn: i64,
    /// The pinned message.
    pub message: Message,
}

request! {
    /// Returns the messages that are pinned in a channel, in the order in which they were pinned.
    struct ListPins {
        /// Id of the channel.
        channel_id: ChannelId,
        #[serde(default)]
        cursor: Option<Cursor>,
        #[serde(default)]
        limit: Option<Limit>,
    }

    list_pins(channel_id: ChannelId) -> Page<PinnedMessage>
}

fn list_pins(cx: &Read<'_>, input: &ListPins) -> Result<Page<PinnedMessage>> {
    let channel = visible_channel(cx, input.channel_id)?;
    let rows =
        cx.rows(LIST_PINS, &[&channel.id, &Cursor::after(input.cursor), &rows_to_read(input.limit)])?;
    let page = Page::of(rows, input.limit, |pin: &StoredPin| pin.lsn);
    let mut marks = load_marks_if_marked(cx, page.items().iter().map(|pin| &pin.message))?;
    page.try_map(|pin| pin.decrypt(cx, &mut marks))
}

/// Returns the messages pinned last in a channel that the caller may see, newest first.
///
/// Returns up to [`CONTEXT_PINS_MAX`] messages, and fewer if the messages are long.
pub(crate) fn context_pins(cx: &Read<'_>, channel: ChannelId) -> Result<Vec<PinnedMessage>> {
    let channel = visible_channel(cx, channel)?;
    let pins: Vec<StoredPin> = cx.query_first_page(LAST_PINS, &[&channel.id, &CONTEXT_PINS_MAX])?;
    let mut marks = load_marks_if_marked(cx, pins.iter().map(|pin| &pin.message))?;
    let opened: Result<Vec<PinnedMessage>> =
        pins.into_iter().map(|pin| pin.decrypt(cx, &mut marks)).collect();
    within(opened?, CONTEXT_BYTES_MAX)
}

/// Maximum bytes of the pinned messages in a thread's context. The last message may exceed this limit.
const CONTEXT_BYTES_MAX: usize = PAGE_BYTES / 4;

/// Row of a pin, joined with the row of its message.
struct StoredPin {
    message: StoredMessage,
    pinned_by: Option<MemberId>,
    at: Time,
    lsn: i64,
}

impl FromRow for StoredPin {
    fn from_row(row: &mut Row) -> Result<Self> {
        let message = StoredMessage::from_row(row)?;
        Ok(Self { message, pinned_by: row.take()?, at: row.take()?, lsn: row.take()? })
    }
}

impl StoredPin {
    fn decrypt(self, cx: &Read<'_>, marks: &mut HashMap<MessageId, MessageMarks>) -> Result<PinnedMessage> {
        let Self { message, pinned_by, at: pinned_at, lsn } = self;
        Ok(PinnedMessage { pinned_by, pinned_at, lsn, message: message.decrypt_with_marks(cx, marks)? })
    }
}

/// SQL that selects the pins of a channel with their messages, except for pruned messages.
macro_rules! select_pins {
    ($rest:literal) => {
        concat!(
            "select ",
            message_columns!(),
            ", p.pinned_by, p.at, p.lsn from pins p join messages m on m.id = p.message_id where ",
            not_pruned!(),
            " and p.channel_id = $1 and ",
            $rest
        )
    };
}

const LIST_PINS: &str = select_pins!("p.lsn > $2 order by p.lsn limit $3");

const LAST_PINS: &str = select_pins!("p.lsn > 0 order by p.lsn desc limit $2");
