//! Notices: notifications for the members who work on a thread, stored with the thread.
//!
//! Each notice repeats a message of the service or of a member, and is blanked when that message is
//! withdrawn. A notice only reports an event; it has no effect on the thread.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::Result;
use crate::conversation::messages;
use crate::conversation::visibility;
use crate::id::{MemberId, MessageId, ThreadId};
use crate::limits::NOTICES_MAX;
use crate::log::event::{Event, EventKind, RecordedEvent, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{DestroyPermit, Feature, Read, Records, Write};
use crate::store::{columns, new_row};
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new()
        .events(vec![EventKind::of::<ThreadNotice>()])
        .cleaner_at_withdrawal("thread_notices", blank_notices)
        .records(vec![
            Records::table("thread_notices", "lsn thread_id")
                .through("thread_id", "threads")
                .ids("thread_id message_id")
                .ints("lsn")
                .times("at")
                .texts("kind text")
                .proven("thread_id lsn", "at kind message_id")
                .unproven("text", "content, which can be destroyed"),
        ])
}

/// A notice was posted in a thread for the members who work on the thread. A message in the thread has the
/// same text.
#[derive(Serialize, JsonSchema)]
struct ThreadNotice<'a> {
    /// The subject of the notice, such as `budget_low`; also in the metadata of the message.
    notice: &'a str,
    /// Id of the message that has the text of the notice.
    message_id: MessageId,
    /// Machine-readable content of the notice; the fields depend on the subject.
    data: &'a Map<String, Value>,
}

impl Event for ThreadNotice<'_> {
    const KIND: &'static str = "ThreadNotice";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.field("notice").map_or(Ok(()), |kind| replay_notice(event, kind.clone()))
    }
}

/// Replays the notice that an event adds to the event's thread.
pub(in crate::coordination) fn replay_notice(event: &ReplayedEvent<'_>, kind: Value) -> Result<()> {
    let row = event.row("thread_notices", [event.thread(), event.lsn().into()])?.made();
    row.set("at", event.at()).set("kind", kind).copy("message_id").keep()
}

/// A notification for the members who work on a thread.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Notice {
    /// Time at which the notice was added.
    pub at: Time,
    /// The subject of the notice, such as `cancelled`.
    pub kind: String,
    /// The text of the notice; blank once the message with the same text is withdrawn.
    pub text: String,
    /// Position in the event log of the event that caused the notice.
    pub lsn: i64,
}

columns! { notice_columns: Notice as n { at, kind, text, lsn } }

/// A notice to post in a thread.
pub struct NewNotice<'a> {
    /// The subject of the notice, such as `budget_low`.
    pub name: &'a str,
    /// The text of the notice, in one sentence.
    pub text: &'a str,
    /// The content of the notice for programs.
    pub data: Map<String, Value>,
}

/// Posts a notice in a thread, with a message of `author` that has the same text, and returns the message's
/// id.
///
/// The author `None` is the service itself. Does not check whether the author may see the thread.
pub fn post_notice(
    cx: &mut Write<'_>,
    thread: ThreadId,
    author: Option<MemberId>,
    notice: &NewNotice<'_>,
) -> Result<MessageId> {
    post_notice_with_event(cx, thread, author, notice).map(|(_, message)| message)
}

/// Posts a notice like [`post_notice`], and returns the event of the notice and the id of the message.
pub(in crate::coordination) fn post_notice_with_event(
    cx: &mut Write<'_>,
    thread: ThreadId,
    author: Option<MemberId>,
    notice: &NewNotice<'_>,
) -> Result<(RecordedEvent, MessageId)> {
    let words = messages::seal_in_transaction(cx, notice.text, &json!({"notice": notice.name}))?;
    let place = visibility::thread_place_for_service(cx, thread)?;
    let message_id = messages::post_sealed(cx, &place, author, &words)?.id;
    let event = ThreadNotice { notice: notice.name, message_id, data: &notice.data };
    let recorded = cx.emit(Subject::thread(place.channel_id, thread), &event)?;
    add_notice(cx, thread, recorded.lsn, notice.name, notice.text, message_id)?;
    Ok((recorded, message_id))
}

/// Adds a notice to a thread.
///
/// `lsn` is the position of the thread's event that causes the notice. `message` must have the same text;
/// withdrawing it blanks the notice.
pub(in crate::coordination) fn add_notice(
    cx: &mut Write<'_>,
    thread: ThreadId,
    lsn: i64,
    kind: &str,
    text: &str,
    message: MessageId,
) -> Result<()> {
    let at = cx.now();
    cx.insert(&new_row!("insert into thread_notices" {
        thread_id: thread, lsn, at, kind, text, message_id: message
    }))
}

/// Blanks the notices whose messages are withdrawn or purged.
fn blank_notices(cx: &mut Write<'_>, _: &DestroyPermit<'_>, messages: &[MessageId]) -> Result<()> {
    messages.iter().try_for_each(|id| cx.execute_any(BLANK, &[id]))
}

const BLANK: &str = "update thread_notices set text = '' where message_id = $1";

/// Returns the last notices of a thread, newest first, up to [`NOTICES_MAX`].
pub(in crate::coordination) fn last_notices(cx: &Read<'_>, thread: ThreadId) -> Result<Vec<Notice>> {
    last_notices_since(cx, thread, 0)
}

/// Returns the last notices of a thread after the position `since`, newest first, up to [`NOTICES_MAX`].
pub(in crate::coordination) fn last_notices_since(
    cx: &Read<'_>,
    thread: ThreadId,
    since: i64,
) -> Result<Vec<Notice>> {
    cx.query(LAST, &[&thread, &NOTICES_MAX, &since])
}

const LAST: &str = concat!(
    "select ",
    notice_columns!(),
    " from thread_notices n where n.thread_id = $1 and n.lsn > $3 order by n.lsn desc limit $2"
);
