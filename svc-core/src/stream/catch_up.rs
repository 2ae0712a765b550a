//! Catching up: reading the whole log as a chain that the reader can verify, with the keys of live messages.
//!
//! The chain has no gaps, because a log with gaps proves nothing. So an administrator of the workspace also
//! receives the events in private channels. The content of a message is sealed in its events, in the form
//! that was hashed. The key next to an event unseals the content until the message is withdrawn, so a copy of
//! the log contains no content that was withdrawn before the copy was made. The keys of direct messages are
//! returned only to their participants.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::Result;
use crate::capability::Capability::TokenAdmin;
use crate::capability::Right;
use crate::conversation::messages::load_live_keys;
use crate::error::Code;
use crate::id::WorkspaceId;
use crate::identity::floor::LogRange;
use crate::identity::workspaces::OwnWorkspaceId;
use crate::log::stored_event::{StoredEvent, event_columns};
use crate::op::{Operation, Read, read};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::{dereferences, paged_outputs, request};
use crate::text::Count;

/// Format identifier of a catch-up page, in its `type` member.
const FORMAT_ID: &str = "svc.event-log.catch-up/1";

pub(super) fn operation() -> Operation {
    read("catch_up_events", catch_up_events)
        .title("Read the whole log as a chain")
        .when(
            "Read the whole event log, oldest event first, as a hash chain that you can verify. Use \
             `list_events` to filter events.",
        )
        .detailed()
        .get("/workspaces/{workspace_id}/events/catch-up")
        .needs(&[Right::Has(TokenAdmin), Right::Peer])
        .refuses(&[Code::MustRefetch])
        .example(|w| json!({"workspace_id": w.id("workspace"), "after_lsn": 1, "limit": 10}))
}

request! {
    /// Returns the events of the whole log, oldest first, as a hash chain that you can verify.
    ///
    /// The chain is complete: it includes events in private channels that you are not in.
    ///
    /// Each event's `content_hash` is the SHA-256 of its payload's canonical JSON (RFC 8785), and its
    /// `prev_hash` is the `content_hash` of the previous event. The content of messages is sealed;
    /// `content_key` unseals it while the message is not withdrawn, except in direct messages that you are
    /// not in. Continue with `cursor`, or later with the `after_lsn` of the result: you have caught up when
    /// it equals `room_lsn`.
    ///
    /// Fails with 409 `must_refetch` if the log lacks the events after the given position, because they were
    /// pruned or an older log was restored.
    struct CatchUpEvents {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// Only events after this position. Default: the whole log. Ignored if `cursor` is given.
        after_lsn: Option<Count<0, { i64::MAX }>>,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    catch_up_events() -> LogPart
}

/// A contiguous range of a log, with the keys that unseal message content.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct LogPart {
    /// Format identifier: `svc.event-log.catch-up/1`.
    #[serde(rename = "type")]
    pub type_name: &'static str,
    /// Id of the workspace whose events this page contains.
    pub workspace_id: WorkspaceId,
    #[serde(flatten)]
    pub events: Page<ChainedEvent>,
    /// The position of the last event on this page, or the requested position if the page is empty.
    pub after_lsn: i64,
    /// The position of the oldest event that remains in the log.
    pub floor: i64,
    /// The position of the newest event in the log; 0 if the log is empty.
    pub room_lsn: i64,
}

dereferences! { LogPart => events: Page<ChainedEvent> }
paged_outputs! { LogPart => events: ChainedEvent }

/// An event of a log, with the key that unseals its message content.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ChainedEvent {
    #[serde(flatten)]
    pub event: StoredEvent,
    /// The key of the message whose content is sealed in the payload: 32 bytes as base64.
    ///
    /// Present only in events of the kinds MessagePosted and MessageEdited, while the message is not
    /// withdrawn, and in direct messages only for their participants. `sealed` is base64 of a nonce of 12
    /// bytes and the AES-256-GCM ciphertext of the content as JSON. The associated data are `svc.sealed/1`,
    /// the 16 bytes of the message's id, `edit` (0 if absent) as 8 bytes in big-endian order, and `words`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_key: Option<String>,
}

dereferences! { ChainedEvent => event: StoredEvent }

fn catch_up_events(cx: &Read<'_>, input: &CatchUpEvents) -> Result<LogPart> {
    let workspace_id = input.workspace_id.of(cx)?;
    let range = LogRange::read(cx)?;
    let given = input.cursor.map(|cursor| cursor.0).or(input.after_lsn.map(Count::get));
    let after = given.unwrap_or(range.beginning());
    range.check_has_all_events_after(workspace_id, after)?;
    let rows = cx.rows(SELECT_EVENTS, &[&workspace_id, &after, &range.head, &rows_to_read(input.limit)])?;
    let page = Page::of(rows, input.limit, |event: &StoredEvent| event.lsn);
    let mut keys: HashMap<i64, String> = load_live_keys(cx, page.items())?;
    let events = page.try_map(|event| Ok(ChainedEvent { content_key: keys.remove(&event.lsn), event }))?;
    let after_lsn = events.items().last().map_or(after, |event| event.event.lsn);
    Ok(LogPart {
        type_name: FORMAT_ID,
        workspace_id,
        events,
        after_lsn,
        floor: range.floor,
        room_lsn: range.head,
    })
}

const SELECT_EVENTS: &str = concat!(
    "select ",
    event_columns!(),
    " from events e where e.workspace_id = $1 and e.lsn > $2 and e.lsn <= $3 order by e.lsn limit $4"
);
