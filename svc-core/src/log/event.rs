//! Events, which features emit to record changes in the log of a workspace.
//!
//! A feature declares one type per kind of event, next to the code that emits the event; the doc comment and
//! schema of that type are the contract. Payloads are flat objects; the log adds `$chain`, `$type` and
//! `attribution`. This file declares the kinds with which a log begins, because verification depends on them.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::replay::ReplayedEvent;
use crate::Result;
use crate::id::{ChannelId, GrantId, MemberId, ThreadId, WorkspaceId};
use crate::schema::{self, SchemaFunction};
use crate::time::Time;

/// A type of events, which defines the payload and the name of the kind on the wire.
pub trait Event: Serialize + JsonSchema {
    /// Wire name of the kind, in PascalCase. Must not change once an event of the kind is in a log.
    const KIND: &'static str;

    /// Replays an event of this kind: sets the columns that the event determines.
    fn replay(event: &ReplayedEvent<'_>) -> Result<()>;
}

/// A workspace was created.
///
/// This is the first event of the workspace's own log. It is also in the log of the instance, which records
/// the order in which workspaces were created.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WorkspaceCreated {
    /// The new workspace.
    pub workspace_id: WorkspaceId,
    /// The name of the workspace.
    pub name: String,
}

impl Event for WorkspaceCreated {
    const KIND: &'static str = "WorkspaceCreated";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let row = event.row_of("workspaces", "workspace_id")?.made();
        row.copy("name").clear("handle").set("created_at", event.at()).keep()
    }
}

/// A workspace was erased. Only this record remains.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WorkspaceErased {
    /// The erased workspace.
    pub workspace_id: WorkspaceId,
    /// The position of the last event in the log of the erased workspace.
    pub lsn: i64,
    /// The content hash of the last event in the log, as `sha256:<hex>`.
    pub hash: String,
}

impl Event for WorkspaceErased {
    const KIND: &'static str = "WorkspaceErased";

    fn replay(_: &ReplayedEvent<'_>) -> Result<()> {
        Ok(())
    }
}

/// A workspace was imported.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WorkspaceImported {
    /// The imported workspace.
    pub workspace_id: WorkspaceId,
    /// Whether the ids were kept (`restore`) or replaced (`new`).
    pub mode: String,
    /// The workspace from which the file was exported.
    pub source_workspace_id: WorkspaceId,
    /// The position of the last event in the exported log.
    pub source_lsn: i64,
    /// The content hash of the last event in the exported log, as `sha256:<hex>`.
    pub source_hash: String,
    /// The SHA-256 of the signed part of the file, as `sha256:<hex>`.
    pub digest: String,
    /// The public key that has signed the file, as base64.
    pub signer: String,
    /// The name of the workspace.
    pub name: String,
    /// The handle of the workspace, or null if it has none or another workspace has taken it.
    pub handle: Option<String>,
    /// Whether a version with an older schema wrote the file, so that values may be missing.
    pub from_older_version: bool,
}

impl Event for WorkspaceImported {
    const KIND: &'static str = "WorkspaceImported";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        // Older events lack the field, and files of older versions lack columns.
        if event.field("from_older_version") != Some(&Value::Bool(false)) {
            event.forget_all()?;
        }
        event.forget_after_import(event.text("mode").unwrap_or_default())?;
        // An import keeps the name, which older events lack.
        let workspace = event.row_of("workspaces", "workspace_id")?.copy("handle");
        let is_named = event.field("name").is_some();
        if is_named { workspace.copy("name").keep() } else { workspace.keep() }
    }
}

/// The channel, the thread and the member that an event concerns.
///
/// Filters and the rules of visibility use these columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The channel of the event, or `None` for an event outside of channels. Determines which callers may see
    /// the event.
    pub channel_id: Option<ChannelId>,
    /// The thread of the event, or `None` for an event outside of threads.
    pub thread_id: Option<ThreadId>,
    /// The member that the event concerns: the holder of a claim, the author of a message, the member added.
    pub member_id: Option<MemberId>,
}

impl Subject {
    /// The subject of an event that concerns the workspace itself.
    pub const WORKSPACE: Subject = Subject { channel_id: None, thread_id: None, member_id: None };

    /// Returns the subject of an event in a channel.
    pub fn channel(channel_id: ChannelId) -> Self {
        Self { channel_id: Some(channel_id), ..Self::WORKSPACE }
    }

    /// Returns the subject of an event in a thread of a channel.
    pub fn thread(channel_id: ChannelId, thread_id: ThreadId) -> Self {
        Self { channel_id: Some(channel_id), thread_id: Some(thread_id), member_id: None }
    }

    /// Returns the subject with the member set to `member_id`.
    #[must_use]
    pub fn about(self, member_id: MemberId) -> Self {
        Self { member_id: Some(member_id), ..self }
    }
}

/// The actor of a change, the member on whose behalf it acted, and the grant if these members differ.
///
/// Null for changes that the service makes by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Attribution {
    /// The member that held the credential.
    pub actor_id: Option<MemberId>,
    /// The member on whose behalf the actor acted. Equal to `actor_id` unless the credential was delegated.
    pub subject_id: Option<MemberId>,
    /// The delegation grant, present only if the credential was delegated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant_id: Option<GrantId>,
}

/// The kinds of cached entries of a workspace that events can invalidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CachedEntryKind {
    /// Entries that determine access: tokens, members, channels and the members of channels.
    Access,
    /// Entries that determine the assignment of work, such as the skills of members.
    Rules,
}

/// The contract of one kind of event: name, payload, replay, and the cached entries that it invalidates.
#[derive(Clone, Debug)]
pub struct EventKind {
    /// Wire name of the kind, in PascalCase.
    pub kind: &'static str,
    schema: SchemaFunction,
    invalidates: Option<CachedEntryKind>,
    replay: fn(&ReplayedEvent<'_>) -> Result<()>,
}

impl EventKind {
    /// Returns the contract of the event type `E`.
    pub fn of<E: Event>() -> Self {
        Self { kind: E::KIND, schema: schema::of::<E>, invalidates: None, replay: E::replay }
    }

    /// Declares that each event of this kind invalidates cached entries of the kind `cached`.
    ///
    /// The event invalidates the entries of its workspace on every connection. Every change of a row on which
    /// cache entries depend emits such an event.
    #[must_use]
    pub fn invalidates(self, cached: CachedEntryKind) -> Self {
        Self { invalidates: Some(cached), ..self }
    }

    /// Returns the kind of cached entries that events of this kind invalidate, or `None` if they invalidate
    /// none.
    pub fn invalidated(&self) -> Option<CachedEntryKind> {
        self.invalidates
    }

    /// Replays an event of this kind: sets the columns that the event determines.
    pub(crate) fn replay(&self, event: &ReplayedEvent<'_>) -> Result<()> {
        (self.replay)(event)
    }

    /// Returns the versioned type name for envelopes and payloads.
    pub fn type_name(&self) -> String {
        type_name(self.kind)
    }

    /// Returns the JSON Schema of the payload fields that are specific to this kind.
    pub fn schema(&self) -> Value {
        schema::inlined_output(self.schema)
    }
}

/// Prefix of a versioned type name, before the kind.
pub(crate) const TYPE_PREFIX: &str = "svc.event.";
/// Suffix of a versioned type name, after the kind.
pub(crate) const TYPE_SUFFIX: &str = "/1";

/// Returns the versioned type name of a kind.
pub fn type_name(kind: &str) -> String {
    format!("{TYPE_PREFIX}{kind}{TYPE_SUFFIX}")
}

/// An event in the batch, ready to be written.
///
/// Contains the bytes to hash and the columns that those bytes repeat.
#[derive(Clone, Debug)]
pub struct RecordedEvent {
    /// The workspace whose log contains the event.
    pub workspace_id: WorkspaceId,
    /// The position in the workspace's chain, from 1, without gaps.
    pub lsn: i64,
    /// The kind, in PascalCase, such as `ThreadCreated`.
    pub kind: &'static str,
    /// The time of the event.
    pub at: Time,
    /// The channel, the thread and the member that the event concerns.
    pub subject: Subject,
    pub(crate) prev_hash: [u8; 32],
    pub(crate) content_hash: [u8; 32],
    pub(crate) payload: String,
}

impl RecordedEvent {
    /// Returns the hash of the payload, as `sha256:<hex>`.
    pub fn content_hash(&self) -> String {
        crate::hash::format_hash(&self.content_hash)
    }
}
