//! Plaintext of messages, which readers of the event log receive in addition to the events.
//!
//! The payload of a message's event always contains the sealed content as of that event, because the payload
//! is hashed. Members who may see the event receive the plaintext of that content in addition to the payload,
//! even if the message was edited later. Once the message is withdrawn, the event remains but its plaintext
//! is blank. Payloads are returned unchanged. Events without message content are not processed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::content::{Block, Metadata};
use super::edit::MessageEdited;
use super::keys;
use super::message_row::{MessageContent, not_pruned};
use super::plaintext::{self, Plaintext};
use super::post::MessagePosted;
use crate::conversation::visibility::visible;
use crate::error::{Error, Result};
use crate::id::{ChannelId, MessageId};
use crate::limits::ROW_BYTES;
use crate::log::event::Event as _;
use crate::log::feed::{FeedEvent, FrameBytes, FrameForm};
use crate::log::key_tree::Binding;
use crate::log::seal::{DecryptionFailed, MessageKey};
use crate::log::stored_event::StoredEvent;
use crate::op::Read;
use crate::page::{Page, filling};
use crate::store::{Engine, columns};

/// An event of a workspace's log, with the plaintext of its message if it has one.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct OpenedEvent {
    #[serde(flatten)]
    pub stored: StoredEvent,
    /// Content of the message as of this event, even if the message was edited later.
    ///
    /// Present only for events of the kinds MessagePosted and MessageEdited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<EventMessage>,
}

crate::request::dereferences! { OpenedEvent => stored: StoredEvent }

impl OpenedEvent {
    /// Returns the payload's field `attribution`, which identifies the member who caused the event.
    pub fn attribution(&self) -> Option<Value> {
        let payload: Value = serde_json::from_str(self.stored.payload.get()).ok()?;
        payload.get("attribution").cloned()
    }
}

/// Content of a message at the time of an event.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct EventMessage {
    /// Whether the message was withdrawn after the event.
    pub withdrawn: bool,
    /// Whether the message is live but cannot be decrypted, because the database or a key is damaged.
    pub unreadable: bool,
    /// Body of the message; blank if the message is withdrawn or unreadable.
    pub body: String,
    /// Metadata of the message; empty if the message is withdrawn or unreadable.
    pub metadata: Metadata,
    /// Content blocks in addition to the body; empty if the message is withdrawn or unreadable.
    pub content: Vec<Block>,
}

/// Adds the plaintext of messages to a page of events that the caller may see.
///
/// The page is shortened if it would be too long with the plaintext.
pub(crate) fn add_message_content(cx: &Read<'_>, mut page: Page<StoredEvent>) -> Result<Page<OpenedEvent>> {
    page.keep(count_events_that_fit(page.items()), |event| event.lsn);
    let parsed = parse_payloads(page.items())?;
    let sealed_payloads = || {
        page.items()
            .iter()
            .zip(&parsed)
            .map(|(event, payload)| SealedPayload::from_payload(&event.kind, payload))
    };
    let keys = load_keys(cx, sealed_payloads().flatten())?;
    let contents =
        sealed_payloads().map(|sealed| sealed.map(|sealed| content_of_event(cx, &sealed, &keys)).transpose());
    let mut messages = contents.collect::<Result<Vec<Option<EventMessage>>>>()?.into_iter();
    page.try_map(|stored| Ok(OpenedEvent { stored, message: messages.next().flatten() }))
}

/// Returns whether an event contains the content of a message.
pub(crate) fn is_content_event(event: &FeedEvent) -> bool {
    has_content(&event.kind)
}

/// Returns the frames of the given events, in order. Frames of events with message content contain the
/// plaintext.
pub(crate) fn frames_with_content(cx: &Read<'_>, events: &[Arc<FeedEvent>]) -> Result<Vec<FrameBytes>> {
    let parsed = events.iter().map(|event| parse_content_payload(&event.kind, &event.payload));
    let payloads = parsed.collect::<Result<Vec<Value>>>()?;
    let sealed_payloads = || {
        events.iter().zip(&payloads).map(|(event, payload)| SealedPayload::from_payload(&event.kind, payload))
    };
    let keys = load_keys(cx, sealed_payloads().flatten())?;
    let framed = |(event, sealed_payload): (&Arc<FeedEvent>, Option<SealedPayload<'_>>)| match sealed_payload
    {
        Some(sealed_payload) => event.frame_with_message(&content_of_event(cx, &sealed_payload, &keys)?),
        None => event.frame(FrameForm::Full),
    };
    events.iter().zip(sealed_payloads()).map(framed).collect()
}

/// Returns the keys of the messages in the given events, by the position of the event.
///
/// Withdrawn messages, and messages in direct messages that the caller may not see, have no entry. The keys
/// decrypt the content, so only callers who may read the whole log may receive them.
pub(crate) fn load_live_keys(cx: &Read<'_>, events: &[StoredEvent]) -> Result<HashMap<i64, String>> {
    let parsed = parse_payloads(events)?;
    let sealed_payloads = || {
        events.iter().zip(&parsed).map(|(event, payload)| SealedPayload::from_payload(&event.kind, payload))
    };
    let keys = load_readable_keys(cx, sealed_payloads().flatten())?;
    let mut found = HashMap::new();
    for (event, sealed_payload) in events.iter().zip(sealed_payloads()) {
        let message = sealed_payload.and_then(|sealed_payload| sealed_payload.message_id);
        let live = message.and_then(|id| keys.get(&id)).filter(|key| !key.withdrawn);
        if let Some(Ok(key)) = live.map(|row| row.key(cx)).transpose()? {
            found.insert(event.lsn, key.to_base64());
        }
    }
    Ok(found)
}

/// Returns the direct messages that remain hidden from the caller, even if the caller may read the whole log.
pub(crate) fn unreadable_dms(cx: &Read<'_>) -> Result<HashSet<ChannelId>> {
    let visibility = cx.caller().visibility.params();
    let workspace = cx.caller().workspace_id;
    let found: Vec<(ChannelId,)> = cx.query(UNREADABLE_DMS, &visibility.and(&[&workspace]))?;
    Ok(found.into_iter().map(|(id,)| id).collect())
}

// The condition `visible!` may evaluate to null, so the query tests `is not true`.
const UNREADABLE_DMS: &str = concat!(
    "select c.id from channels c where c.workspace_id = $5 and c.dm and ",
    visible!(c),
    " is not true"
);

/// Returns which of the given messages were purged or pruned.
pub(crate) fn find_purged(cx: &Read<'_>, messages: &[MessageId]) -> Result<HashSet<MessageId>> {
    let named = messages.iter().map(|id| SealedPayload { message_id: Some(*id), edit: 0, sealed: "" });
    let kept = load_keys(cx, named)?;
    Ok(messages.iter().copied().filter(|id| !kept.contains_key(id)).collect())
}

/// Returns how many events fit on a page with their plaintext, including the event that exceeds the limit.
fn count_events_that_fit(events: &[StoredEvent]) -> usize {
    filling(events, approximate_size)
}

/// Returns the approximate number of bytes of an event with its plaintext in a response.
///
/// The plaintext is about as long as the sealed content before base64 encoding. The sealed content makes up
/// nearly the whole payload of such an event.
fn approximate_size(event: &StoredEvent) -> usize {
    let payload = event.payload.get().len();
    let plaintext = if has_content(&event.kind) { payload / 4 * 3 } else { 0 };
    ROW_BYTES.saturating_add(payload).saturating_add(plaintext)
}

fn parse_payloads(events: &[StoredEvent]) -> Result<Vec<Value>> {
    events.iter().map(|event| parse_content_payload(&event.kind, event.payload.get())).collect()
}

/// Parses the payload of an event with message content; returns null for other events.
fn parse_content_payload(kind: &str, payload: &str) -> Result<Value> {
    if !has_content(kind) {
        return Ok(Value::Null);
    }
    serde_json::from_str(payload).map_err(Error::internal)
}

/// Sealed message content from the payload of an event.
struct SealedPayload<'a> {
    message_id: Option<MessageId>,
    edit: i64,
    sealed: &'a str,
}

impl<'a> SealedPayload<'a> {
    /// Returns the sealed content in the payload of an event, or `None` for kinds without content.
    fn from_payload(kind: &str, payload: &'a Value) -> Option<Self> {
        has_content(kind).then(|| Self {
            message_id: payload.get("message_id").and_then(|id| id.as_str()?.parse().ok()),
            edit: payload.get("edit").and_then(Value::as_i64).unwrap_or(0),
            sealed: payload.get("sealed").and_then(Value::as_str).unwrap_or_default(),
        })
    }
}

/// Returns whether events of a kind contain message content.
pub(crate) fn has_content(kind: &str) -> bool {
    [MessagePosted::KIND, MessageEdited::KIND].contains(&kind)
}

/// Returns the content of an event's message. The content is blank if the message is withdrawn or unreadable.
fn content_of_event(
    cx: &Read<'_>,
    sealed_payload: &SealedPayload<'_>,
    keys: &HashMap<MessageId, KeyRow>,
) -> Result<EventMessage> {
    let content = match sealed_payload.message_id {
        Some(id) => match keys.get(&id) {
            Some(key) if !key.withdrawn => {
                MessageContent::from_decrypted(id, decrypt_content(cx, sealed_payload, key)?)
            }
            // A message without a row was purged or pruned, so its key is destroyed.
            _ => MessageContent::Withdrawn,
        },
        None => MessageContent::Unreadable,
    };
    let withdrawn = matches!(content, MessageContent::Withdrawn);
    let unreadable = content.is_unreadable();
    let Plaintext { body, metadata, content } = content.into_plaintext();
    Ok(EventMessage { withdrawn, unreadable, body, metadata, content })
}

/// Decrypts the content of an event. The inner error means that the content cannot be decrypted.
fn decrypt_content(
    cx: &Read<'_>,
    sealed_payload: &SealedPayload<'_>,
    row: &KeyRow,
) -> Result<Result<Plaintext, DecryptionFailed>> {
    let key = row.key(cx)?;
    Ok(key.and_then(|key| {
        let sealed = STANDARD.decode(sealed_payload.sealed).map_err(|_| DecryptionFailed)?;
        plaintext::open(cx.sealer(), &key, row.binding.message_id, sealed_payload.edit, &sealed)
    }))
}

/// The stored key of a message, wrapped, with the data to decrypt it.
struct KeyRow {
    binding: Binding,
    lsn: i64,
    withdrawn: bool,
    wrapped: Option<Vec<u8>>,
}

impl KeyRow {
    /// Decrypts the key. The inner error means that the key cannot be decrypted.
    fn key(&self, cx: &Read<'_>) -> Result<Result<MessageKey, DecryptionFailed>> {
        keys::open_key(cx, &self.binding, self.lsn, self.wrapped.as_deref())
    }
}

columns! {
    key_columns: KeyRow as m { lsn, withdrawn = "m.withdrawn_at is not null", wrapped }
    read { message_id = id, workspace_id, thread_id, author_id }
    make { binding: Binding { workspace_id, thread_id, author_id, message_id } }
}

/// Loads the keys of the given messages with one statement.
fn load_keys<'a>(
    cx: &Read<'_>,
    sealed_payloads: impl Iterator<Item = SealedPayload<'a>>,
) -> Result<HashMap<MessageId, KeyRow>> {
    let sql = match cx.engine() {
        Engine::Sqlite => KEYS_SQLITE,
        Engine::Postgres => KEYS_POSTGRES,
    };
    let ids = message_ids(sealed_payloads);
    if ids.is_empty() { Ok(HashMap::new()) } else { Ok(keys_by_message(cx.query(sql, &[&ids])?)) }
}

/// Loads the keys of the given messages, except for messages in direct messages that the caller may not see.
///
/// This is for callers who may read whole logs.
fn load_readable_keys<'a>(
    cx: &Read<'_>,
    sealed_payloads: impl Iterator<Item = SealedPayload<'a>>,
) -> Result<HashMap<MessageId, KeyRow>> {
    let sql = match cx.engine() {
        Engine::Sqlite => READABLE_KEYS_SQLITE,
        Engine::Postgres => READABLE_KEYS_POSTGRES,
    };
    let ids = message_ids(sealed_payloads);
    let visibility = cx.caller().visibility.params();
    if ids.is_empty() {
        Ok(HashMap::new())
    } else {
        Ok(keys_by_message(cx.query(sql, &visibility.and(&[&ids]))?))
    }
}

fn message_ids<'a>(sealed_payloads: impl Iterator<Item = SealedPayload<'a>>) -> Vec<Uuid> {
    let mut ids: Vec<Uuid> =
        sealed_payloads.filter_map(|payload| payload.message_id).map(MessageId::uuid).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn keys_by_message(rows: Vec<KeyRow>) -> HashMap<MessageId, KeyRow> {
    rows.into_iter().map(|row| (row.binding.message_id, row)).collect()
}

macro_rules! select_keys {
    ($which:literal) => {
        concat!("select ", key_columns!(), " from messages m where ", not_pruned!(), " and m.id ", $which)
    };
}

const KEYS_SQLITE: &str = select_keys!("in (select unhex(value) from json_each($1))");

const KEYS_POSTGRES: &str = select_keys!("= any($1)");

macro_rules! select_given_keys {
    ($which:literal) => {
        concat!(
            "select ",
            key_columns!(),
            " from messages m join channels c on c.id = m.channel_id where ",
            not_pruned!(),
            " and (not c.dm or ",
            visible!(c),
            ") and m.id ",
            $which
        )
    };
}

const READABLE_KEYS_SQLITE: &str = select_given_keys!("in (select unhex(value) from json_each($5))");

const READABLE_KEYS_POSTGRES: &str = select_given_keys!("= any($5)");

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::limits::PAGE_BYTES;
    use crate::log::event::type_name;

    fn event(kind: &str, lsn: i64, payload: Value) -> StoredEvent {
        StoredEvent {
            id: lsn,
            lsn,
            prev_hash: String::new(),
            content_hash: String::new(),
            kind: kind.to_owned(),
            type_name: type_name(kind),
            payload: serde_json::value::to_raw_value(&payload).unwrap(),
        }
    }

    #[test]
    fn a_page_has_room_for_the_plaintexts_too() {
        let half = "A".repeat(PAGE_BYTES / 2);
        let of = |kind: &str| event(kind, 1, json!({"sealed": half}));
        let silent = || of("SomethingElse");
        let spoken = || of(MessagePosted::KIND);
        assert_eq!(count_events_that_fit(&[silent(), silent(), silent()]), 2);
        assert_eq!(
            count_events_that_fit(&[spoken(), silent(), silent()]),
            2,
            "the first with its words is not all"
        );
        assert_eq!(count_events_that_fit(&[silent(), spoken(), silent()]), 2);
        let whole = "A".repeat(PAGE_BYTES);
        let long = || event(MessageEdited::KIND, 1, json!({"sealed": whole}));
        assert_eq!(count_events_that_fit(&[long(), long()]), 1, "one there is always");
        let small = || event(MessagePosted::KIND, 1, json!({"sealed": "AAAA"}));
        assert_eq!(count_events_that_fit(&[small(), small()]), 2);
    }

    #[test]
    fn only_events_with_a_plaintext_are_opened() {
        let payload = json!({"message_id": Uuid::from_u128(7), "sealed": "AAAA"});
        for (kind, spoken) in
            [(MessagePosted::KIND, true), (MessageEdited::KIND, true), ("MessageTombstoned", false)]
        {
            let found = SealedPayload::from_payload(kind, &payload).map(|spoken| spoken.message_id);
            assert_eq!(found, spoken.then(|| Some(Uuid::from_u128(7).into())), "{kind}");
        }
        let payload = json!({"message_id": 7});
        assert!(
            SealedPayload::from_payload(MessagePosted::KIND, &payload)
                .is_some_and(|spoken| spoken.message_id.is_none())
        );
    }
}
