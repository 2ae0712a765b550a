//! Notices: what members who work on a thread should know, kept beside it.
//!
//! A notice that repeats a message is blanked when that message is withdrawn.

use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::conversation::messages::MessageTombstoned;
use crate::id::{MessageId, ThreadId};
use crate::limits::NOTICES_MAX;
use crate::log::event::{Event, Recorded};
use crate::op::{Feature, Read, Write};
use crate::store::{columns, new_row};
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new().projector(&[MessageTombstoned::KIND], blank)
}

/// Something that members who work on a thread should know.
#[derive(Serialize, JsonSchema)]
pub(in crate::coordination) struct Notice {
    /// When it was added.
    at: Time,
    /// What it is about, such as `cancelled`.
    kind: String,
    /// What it says; blank once the message that says the same is withdrawn.
    text: String,
    /// The position in the event log of the event that caused it.
    lsn: i64,
}

columns! { notice_columns: Notice as n { at, kind, text, lsn } }

/// Adds a notice to a thread.
///
/// `lsn` is the position of the event in this thread that causes it. `message` says the same; withdrawing it
/// blanks the notice.
pub(in crate::coordination) fn add(
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

/// Blanks the notices of messages that `withdrawals` withdraw.
fn blank(cx: &mut Write<'_>, withdrawals: &[Recorded]) -> Result<()> {
    let mut messages = withdrawals.iter().map(MessageTombstoned::message_of);
    messages.try_for_each(|id| cx.execute_any(BLANK, &[&id?]))
}

const BLANK: &str = "update thread_notices set text = '' where message_id = $1";

/// Returns the last notices of a thread, newest first.
pub(in crate::coordination) fn last(cx: &Read<'_>, thread: ThreadId) -> Result<Vec<Notice>> {
    cx.query(LAST, &[&thread, &NOTICES_MAX])
}

const LAST: &str = concat!(
    "select ",
    notice_columns!(),
    " from thread_notices n where n.thread_id = $1 order by n.lsn desc limit $2"
);
