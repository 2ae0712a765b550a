//! Stored events as readers get them.
//!
//! These are the columns that clients use, and the payload whose canonical JSON is the text that was hashed.
//! Who may see an event is decided by the statement that reads it, not here.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::Result;
use crate::error::Error;
use crate::hash::hash_text;
use crate::log::event::type_name;
use crate::store::{FromRow, Row};

/// One event of a workspace's log.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct StoredEvent {
    /// The position in the workspace's log, from 1, without gaps.
    pub id: i64,
    /// The same as `id`.
    pub lsn: i64,
    /// The content hash of the event before it, as `sha256:<hex>`.
    pub prev_hash: String,
    /// SHA-256 of the payload's canonical JSON (RFC 8785), as `sha256:<hex>`.
    pub content_hash: String,
    /// What happened, in PascalCase.
    pub kind: String,
    /// The versioned type: `svc.event.<kind>/1`.
    #[serde(rename = "$type")]
    pub type_name: String,
    /// What was hashed: `$chain` with the event's position in the log, `$type`, `attribution` with who did
    /// it, and the fields of the kind.
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub payload: Value,
    /// Bytes of the payload's text.
    #[serde(skip)]
    pub payload_bytes: usize,
}

impl FromRow for StoredEvent {
    /// Takes the columns `lsn, kind, prev_hash, content_hash, payload`.
    fn from_row(row: &mut Row) -> Result<Self> {
        let (lsn, kind): (i64, String) = (row.take()?, row.take()?);
        let (prev_hash, content_hash): ([u8; 32], [u8; 32]) = (row.take()?, row.take()?);
        let payload: String = row.take()?;
        Ok(Self {
            id: lsn,
            lsn,
            prev_hash: hash_text(&prev_hash),
            content_hash: hash_text(&content_hash),
            type_name: type_name(&kind),
            kind,
            payload_bytes: payload.len(),
            payload: serde_json::from_str(&payload).map_err(Error::internal)?,
        })
    }
}
