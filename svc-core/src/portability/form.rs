//! The form of an export: a JSON object with one record per line.
//!
//! The members are `type`, `header`, `records`, `manifest` and `signature`, in this order. The manifest has
//! the number of records of each kind and a digest of them, over their canonical JSON (RFC 8785), each with a
//! line feed; so a file that was reformatted still verifies. The signature is a signed note (C2SP) of three
//! lines: the type, the workspace's id, and the digest of the canonical JSON of header and manifest.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::hash::{hash_text, sha256};
use crate::id::WorkspaceId;
use crate::log::canonical;
use crate::time::Time;

/// The type of the file, with its version.
pub(super) const TYPE: &str = "svc.workspace.export/1";
/// The type without its version.
pub(super) const TYPE_BASE: &str = "svc.workspace.export/";

/// The kind of the records that are events.
pub(super) const EVENTS: &str = "events";

/// The content in an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Words {
    /// All live content.
    #[default]
    All,
    /// None.
    None,
}

/// A workspace as a file.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used: no whole file is ever in memory")]
pub(super) struct Envelope {
    /// The type: `svc.workspace.export/1`.
    #[schemars(rename = "type")]
    type_name: String,
    header: Header,
    /// The rows of the tables, and the events.
    ///
    /// `record` is the name of the table. A row has its columns; ids are UUIDs, times RFC 3339, hashes
    /// `sha256:<hex>`, other bytes base64, and columns that hold JSON have it as text. An event has its
    /// `payload`, as the text that was hashed. A live message has its key in `content_key`.
    records: Vec<BTreeMap<String, Value>>,
    manifest: Manifest,
    /// The signed note (C2SP), under the name `svc/<workspace_id>`.
    ///
    /// Its text has three lines: the type, the workspace's id, and `sha256:<hex>` of the canonical JSON
    /// (RFC 8785) of an object with the members `header` and `manifest`.
    signature: String,
}

/// The workspace of the file, and the time of the export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    /// The version of the schema of the rows.
    pub schema: i64,
    /// When it was exported.
    pub exported_at: Time,
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// The position of the oldest event.
    pub floor: i64,
    /// The position of the event that declared this floor; 0 if nothing was pruned.
    pub pruned_at: i64,
    /// The position up to which messages were pruned or purged; 0 if none were.
    pub words_floor: i64,
    /// The end of the log.
    pub head: HeadOf,
    /// The number of the last audit row.
    pub audit_seq: i64,
    /// The content in the file.
    pub words: Words,
}

/// The end of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeadOf {
    /// The position of the newest event.
    pub lsn: i64,
    /// Its content hash, as `sha256:<hex>`.
    pub content_hash: String,
    /// When it happened.
    pub at: Time,
}

/// The counts and digests of the records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    /// The kinds of records, in their order.
    pub sections: Vec<Section>,
    /// The tables of the workspace that exports omit.
    pub omitted: Vec<String>,
}

/// The records of a kind, which are contiguous.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Section {
    /// The kind.
    pub record: String,
    /// The number of records.
    pub count: u64,
    /// The SHA-256 of their canonical JSON, each with a line feed, as `sha256:<hex>`.
    pub sha256: String,
}

/// A section while its records are added.
#[derive(Clone)]
pub(super) struct SectionDigest {
    count: u64,
    digest: Sha256,
}

impl SectionDigest {
    pub fn new() -> Self {
        Self { count: 0, digest: Sha256::new() }
    }

    /// Adds a record, as canonical JSON.
    pub fn add(&mut self, canonical: &[u8]) {
        self.count = self.count.saturating_add(1);
        self.digest.update(canonical);
        self.digest.update(b"\n");
    }

    pub fn section(self, record: &str) -> Section {
        let sha256 = hash_text(&self.digest.finalize().into());
        Section { record: record.to_owned(), count: self.count, sha256 }
    }
}

/// Returns the text that is signed.
pub(super) fn signed_text(header: &Header, manifest: &Manifest) -> Result<String> {
    #[derive(Serialize)]
    struct Signed<'a> {
        header: &'a Header,
        manifest: &'a Manifest,
    }
    let digest = sha256(canonical::to_string(&Signed { header, manifest })?.as_bytes());
    Ok(format!("{TYPE}\n{}\n{}\n", header.workspace_id, hash_text(&digest)))
}

/// Returns the name under which the exports and checkpoints of a workspace are signed.
pub(super) fn key_name(workspace: WorkspaceId) -> String {
    format!("svc/{workspace}")
}
