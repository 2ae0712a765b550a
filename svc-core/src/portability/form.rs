//! Format of an export: a JSON object with one record per line.
//!
//! The members are `type`, `header`, `records`, `manifest` and `signature`, in this order. The manifest
//! contains, for each kind of record, the count and a digest over the records' canonical JSON (RFC 8785),
//! each followed by a line feed; so a file that was reformatted still verifies. The signature is a signed
//! note (C2SP) of three lines: the type, the workspace's id, and the digest of the canonical JSON of header
//! and manifest.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::hash::{format_hash, sha256};
use crate::id::WorkspaceId;
use crate::log::canonical;
use crate::time::Time;

/// Format identifier of an export, with its version.
pub(super) const FORMAT_ID: &str = "svc.workspace.export/1";
/// Format identifier of an export, without its version.
pub(super) const FORMAT_ID_PREFIX: &str = "svc.workspace.export/";

/// Value of the member `record` in the records of events.
pub(super) const EVENTS_TABLE: &str = "events";

/// Whether an export includes the content of messages and other texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Words")]
#[non_exhaustive]
pub enum ExportTexts {
    /// All content that is not withdrawn.
    #[default]
    All,
    /// No content of messages and no other texts.
    None,
}

crate::argument::arguments! { ExportTexts }

/// An export file of a workspace.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used: no whole file is ever in memory")]
pub(super) struct Envelope {
    /// Format identifier: `svc.workspace.export/1`.
    #[schemars(rename = "type")]
    type_name: String,
    header: ExportHeader,
    /// The rows of the tables, and the events.
    ///
    /// `record` is the name of the table. The other members of a row are its columns: ids are UUIDs, times
    /// RFC 3339, hashes `sha256:<hex>`, other bytes base64, and JSON columns are text. An event has its
    /// `payload`, as the text that was hashed. A message that is not withdrawn has its key in `content_key`.
    records: Vec<BTreeMap<String, Value>>,
    manifest: Manifest,
    /// The signed note (C2SP) with the key name `svc/<workspace_id>`.
    ///
    /// The signed text has three lines: the type, the workspace's id, and `sha256:<hex>` of the canonical
    /// JSON (RFC 8785) of an object with the members `header` and `manifest`.
    signature: String,
}

/// Header of an export: the workspace, and the state of its log at the time of the export.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
#[schemars(rename = "Header")]
pub struct ExportHeader {
    /// Version of the database schema of the rows.
    pub schema: i64,
    /// The time of the export.
    pub exported_at: Time,
    /// Id of the exported workspace.
    pub workspace_id: WorkspaceId,
    /// The position of the oldest event in the log.
    pub floor: i64,
    /// The position of the event that declared the floor; 0 if no events were pruned.
    pub pruned_at: i64,
    /// The position up to which messages were pruned or purged; 0 if no messages were.
    pub words_floor: i64,
    /// The last event of the log.
    pub head: ExportHead,
    /// The number of the last row in the audit trail.
    pub audit_seq: i64,
    /// Whether the file includes the content of messages and other texts.
    pub words: ExportTexts,
}

/// The last event of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "HeadOf", deny_unknown_fields)]
#[non_exhaustive]
pub struct ExportHead {
    /// The position of the newest event.
    pub lsn: i64,
    /// The content hash of the newest event, as `sha256:<hex>`.
    pub content_hash: String,
    /// The time of the newest event.
    pub at: Time,
}

/// The counts and digests of an export's records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    /// The sections of the file, one per kind of record, in their order in the file.
    pub sections: Vec<ExportSection>,
    /// The names of the workspace's tables that exports omit.
    pub omitted: Vec<String>,
}

/// A contiguous group of records of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
#[schemars(rename = "Section")]
pub struct ExportSection {
    /// The kind of the records in the section: the name of their table.
    pub record: String,
    /// The number of records in the section.
    pub count: u64,
    /// The SHA-256 of the records' canonical JSON, each followed by a line feed, as `sha256:<hex>`.
    pub sha256: String,
}

/// The count and digest of a section to which records are still being added.
#[derive(Clone)]
pub(super) struct SectionDigest {
    count: u64,
    digest: Sha256,
}

impl SectionDigest {
    pub fn new() -> Self {
        Self { count: 0, digest: Sha256::new() }
    }

    /// Adds a record, which is passed as canonical JSON.
    pub fn add(&mut self, canonical: &[u8]) {
        self.count = self.count.saturating_add(1);
        self.digest.update(canonical);
        self.digest.update(b"\n");
    }

    pub fn into_section(self, record: &str) -> ExportSection {
        let sha256 = format_hash(&self.digest.finalize().into());
        ExportSection { record: record.to_owned(), count: self.count, sha256 }
    }
}

/// Returns the text to sign for a header and a manifest.
pub(super) fn signed_text(header: &ExportHeader, manifest: &Manifest) -> Result<String> {
    #[derive(Serialize)]
    struct SignedContent<'a> {
        header: &'a ExportHeader,
        manifest: &'a Manifest,
    }
    let digest = sha256(canonical::to_string(&SignedContent { header, manifest })?.as_bytes());
    Ok(format!("{FORMAT_ID}\n{}\n{}\n", header.workspace_id, format_hash(&digest)))
}

/// Returns the name of the key that signs the exports and checkpoints of a workspace.
pub(super) fn signing_key_name(workspace: WorkspaceId) -> String {
    format!("svc/{workspace}")
}
