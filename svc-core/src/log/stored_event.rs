//! Stored events in the form that readers receive.
//!
//! This form contains the columns that clients use, and the unchanged payload, which is the text that was
//! hashed. The statement that reads an event decides which callers may see it.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::Error;
use crate::hash::format_hash;
use crate::log::event::type_name;
use crate::store::columns;

/// An event in a workspace's log.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct StoredEvent {
    /// The position in the workspace's log, from 1, without gaps.
    pub id: i64,
    /// The same position as `id`.
    pub lsn: i64,
    /// The content hash of the previous event, as `sha256:<hex>`.
    pub prev_hash: String,
    /// SHA-256 of the payload's canonical JSON (RFC 8785), as `sha256:<hex>`.
    pub content_hash: String,
    /// The kind, in PascalCase.
    pub kind: String,
    /// The versioned type: `svc.event.<kind>/1`.
    #[serde(rename = "$type")]
    pub type_name: String,
    /// The hashed text: the members that every event has, and the fields of the event's kind.
    ///
    /// Every event has `$chain` with its position in the log, `$type`, and `attribution` with the members
    /// that caused it.
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub payload: Box<RawValue>,
}

columns! {
    pub(crate) event_columns: StoredEvent as e { lsn, kind: String }
    read { previous: [u8; 32] = prev_hash, content: [u8; 32] = content_hash, text: String = payload }
    make {
        id: lsn,
        prev_hash: format_hash(&previous),
        content_hash: format_hash(&content),
        type_name: type_name(&kind),
        payload: RawValue::from_string(text).map_err(Error::internal)?,
    }
}
