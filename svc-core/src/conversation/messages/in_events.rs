//! The plaintext of messages beside their events.
//!
//! The payload of a message's event holds the content of that moment as it was hashed: sealed. Members who
//! may see the event read the plaintext beside it, whatever the message says today; once the message is
//! withdrawn, the event stays and its text is blank. Payloads are returned unchanged, and other events cost
//! nothing here.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Saying;
use super::edit::MessageEdited;
use super::keys::{Wrapped, old_key};
use super::plaintext::{self, Metadata};
use super::post::MessagePosted;
use crate::Result;
use crate::id::MessageId;
use crate::limits::{PAGE_BYTES, ROW_BYTES};
use crate::log::event::Event as _;
use crate::log::key_tree::Binding;
use crate::log::seal::{MessageKey, Unopened};
use crate::log::stored::StoredEvent;
use crate::op::Read;
use crate::page::Page;
use crate::store::{Engine, columns};

/// One event of a workspace's log, as members read it.
#[derive(Serialize, JsonSchema)]
pub struct OpenedEvent {
    #[serde(flatten)]
    stored: StoredEvent,
    /// What the message said from this event on, whatever it says today.
    ///
    /// Only events of the kinds MessagePosted and MessageEdited have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<EventMessage>,
}

impl OpenedEvent {
    /// Returns who did it, as the payload says.
    pub fn attribution(&self) -> Option<&Value> {
        self.stored.payload.get("attribution")
    }
}

/// The content of a message from one of its events on.
#[derive(Serialize, JsonSchema)]
struct EventMessage {
    /// Whether the message has been withdrawn since.
    withdrawn: bool,
    /// Whether it is live but cannot be opened, because the database or a key was damaged.
    unreadable: bool,
    /// What it said; blank once the message is withdrawn, or if unreadable.
    body: String,
    /// What was attached; empty once the message is withdrawn, or if unreadable.
    metadata: Metadata,
}

/// Adds the plaintext of messages to a page of events that the caller may see.
///
/// The page ends earlier if the texts would make it too long.
pub(crate) fn open_words(cx: &Read<'_>, mut page: Page<StoredEvent>) -> Result<Page<OpenedEvent>> {
    page.keep(fitting(page.items()), |event| event.lsn);
    let keys = keys_of(cx, page.items())?;
    page.try_map(|stored| {
        let message = has_words(&stored).then(|| said(cx, &stored, &keys)).transpose()?;
        Ok(OpenedEvent { stored, message })
    })
}

/// Returns how many of the events fit on a page with their texts, including the one that fills it.
fn fitting(events: &[StoredEvent]) -> usize {
    let mut bytes: usize = 0;
    let filling = events.iter().position(|event| {
        bytes = bytes.saturating_add(weight(event));
        bytes >= PAGE_BYTES
    });
    filling.map_or(events.len(), |last| last.saturating_add(1))
}

/// The approximate size of an event and its text in a response.
///
/// Plaintext is as long as sealed content, which is JSON too.
fn weight(event: &StoredEvent) -> usize {
    let plaintext = if has_words(event) { sealed(event).len() / 4 * 3 } else { 0 };
    ROW_BYTES.saturating_add(event.payload_bytes).saturating_add(plaintext)
}

fn has_words(event: &StoredEvent) -> bool {
    [MessagePosted::KIND, MessageEdited::KIND].contains(&event.kind.as_str())
}

fn sealed(event: &StoredEvent) -> &str {
    event.payload.get("sealed").and_then(Value::as_str).unwrap_or_default()
}

fn message_of(event: &StoredEvent) -> Option<MessageId> {
    event.payload.get("message_id")?.as_str()?.parse().ok()
}

/// Returns what an event's message said, as far as it can be read today.
fn said(cx: &Read<'_>, event: &StoredEvent, keys: &HashMap<MessageId, KeyRow>) -> Result<EventMessage> {
    let saying = match message_of(event) {
        Some(id) => match keys.get(&id) {
            Some(key) if !key.withdrawn => Saying::of(id, open(cx, event, key)?),
            // A message without a row is purged, and only withdrawn messages can be purged.
            _ => Saying::Withdrawn,
        },
        None => Saying::Unreadable,
    };
    let (withdrawn, unreadable) = (matches!(saying, Saying::Withdrawn), saying.unreadable());
    let plaintext = saying.plaintext();
    Ok(EventMessage { withdrawn, unreadable, body: plaintext.body, metadata: plaintext.metadata })
}

fn open(cx: &Read<'_>, event: &StoredEvent, row: &KeyRow) -> Result<Result<plaintext::Plaintext, Unopened>> {
    let edit = event.payload.get("edit").and_then(Value::as_i64).unwrap_or(0);
    let key = row.key(cx)?;
    Ok(key.and_then(|key| {
        let sealed = STANDARD.decode(sealed(event)).map_err(|_| Unopened)?;
        plaintext::open(cx.sealer(), &key, row.bound.message_id, edit, &sealed)
    }))
}

/// The key of a message, as far as there is one.
struct KeyRow {
    bound: Binding,
    lsn: i64,
    withdrawn: bool,
    wrapped: Option<Wrapped>,
}

impl KeyRow {
    /// Returns the key. The inner error means that it does not open.
    fn key(&self, cx: &Read<'_>) -> Result<Result<MessageKey, Unopened>> {
        self.wrapped.as_ref().map_or(Ok(Err(Unopened)), |wrapped| wrapped.open(cx, &self.bound, self.lsn))
    }
}

columns! {
    key_columns: KeyRow as m { lsn, withdrawn = "m.withdrawn_at is not null" }
    read { message_id = id, workspace_id, thread_id, author_id, by_leaf = wrapped, by_kek = (old_key!()) }
    make {
        bound: Binding { workspace_id, thread_id, author_id, message_id },
        wrapped: Wrapped::of(by_leaf, by_kek),
    }
}

/// Loads the keys of the events' messages with one statement.
fn keys_of(cx: &Read<'_>, events: &[StoredEvent]) -> Result<HashMap<MessageId, KeyRow>> {
    let spoken = events.iter().filter(|event| has_words(event));
    let mut ids: Vec<Uuid> = spoken.filter_map(message_of).map(MessageId::uuid).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows: Vec<KeyRow> = match cx.engine() {
        Engine::Sqlite => {
            let list: Vec<String> = ids.iter().map(|id| id.simple().to_string()).collect();
            cx.query(KEYS_SQLITE, &[&json!(list).to_string()])?
        }
        Engine::Postgres => cx.query(KEYS_POSTGRES, &[&ids])?,
    };
    Ok(rows.into_iter().map(|row| (row.bound.message_id, row)).collect())
}

macro_rules! select_keys {
    ($which:literal) => {
        concat!("select ", key_columns!(), " from messages m where m.id ", $which)
    };
}

const KEYS_SQLITE: &str = select_keys!("in (select unhex(value) from json_each($1))");

const KEYS_POSTGRES: &str = select_keys!("= any($1)");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::event::type_name;

    fn event(kind: &str, lsn: i64, payload: Value) -> StoredEvent {
        StoredEvent {
            id: lsn,
            lsn,
            prev_hash: String::new(),
            content_hash: String::new(),
            kind: kind.to_owned(),
            type_name: type_name(kind),
            payload_bytes: payload.to_string().len(),
            payload,
        }
    }

    #[test]
    fn a_page_has_room_for_the_plaintexts_too() {
        let half = "A".repeat(PAGE_BYTES / 2);
        let of = |kind: &str| event(kind, 1, json!({"sealed": half}));
        let silent = || of("SomethingElse");
        let spoken = || of(MessagePosted::KIND);
        assert_eq!(fitting(&[silent(), silent(), silent()]), 2);
        assert_eq!(fitting(&[spoken(), silent(), silent()]), 2, "the first with its words is not all");
        assert_eq!(fitting(&[silent(), spoken(), silent()]), 2);
        let whole = "A".repeat(PAGE_BYTES);
        let long = || event(MessageEdited::KIND, 1, json!({"sealed": whole}));
        assert_eq!(fitting(&[long(), long()]), 1, "one there is always");
        let small = || event(MessagePosted::KIND, 1, json!({"sealed": "AAAA"}));
        assert_eq!(fitting(&[small(), small()]), 2);
    }

    #[test]
    fn only_events_with_a_plaintext_are_opened() {
        let payload = json!({"message_id": Uuid::from_u128(7), "sealed": "AAAA"});
        for (kind, spoken) in
            [(MessagePosted::KIND, true), (MessageEdited::KIND, true), ("MessageTombstoned", false)]
        {
            let event = event(kind, 1, payload.clone());
            assert_eq!(has_words(&event), spoken, "{kind}");
            assert_eq!(message_of(&event), Some(Uuid::from_u128(7).into()));
        }
        assert_eq!(message_of(&event(MessagePosted::KIND, 1, json!({"message_id": 7}))), None);
    }
}
