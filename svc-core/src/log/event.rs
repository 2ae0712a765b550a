//! Events: records of what has happened, which features emit.
//!
//! A feature declares one type per kind next to the code that emits it; that type's doc comment and schema
//! are the contract. Payloads are flat objects; the log adds `$chain`, `$type` and `attribution`. This file
//! declares the kinds with which a log begins, because verification depends on them.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::replay::Replayed;
use crate::Result;
use crate::id::{ChannelId, GrantId, MemberId, ThreadId, WorkspaceId};
use crate::schema::{self, SchemaOf};
use crate::time::Time;

/// A kind of event: its payload and its name on the wire.
pub trait Event: Serialize + JsonSchema {
    /// The kind, in PascalCase. It never changes once it has been written to a log.
    const KIND: &'static str;

    /// Replays such an event: sets the values of rows that it determines.
    fn replay(event: &Replayed<'_>) -> Result<()>;
}

/// A workspace was created.
///
/// It is the first event of the workspace's own log, and it is also in the log of the instance, which records
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

    fn replay(event: &Replayed<'_>) -> Result<()> {
        let row = event.row_of("workspaces", "workspace_id")?.made();
        row.copy("name").clear("handle").set("created_at", event.at()).keep()
    }
}

/// A workspace was erased. Only this record remains.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WorkspaceErased {
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// The position of the last event of its log.
    pub lsn: i64,
    /// The content hash of that event, as `sha256:<hex>`.
    pub hash: String,
}

impl Event for WorkspaceErased {
    const KIND: &'static str = "WorkspaceErased";

    fn replay(_: &Replayed<'_>) -> Result<()> {
        Ok(())
    }
}

/// A workspace was imported.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WorkspaceImported {
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// Whether the ids were kept (`restore`) or replaced (`new`).
    pub mode: String,
    /// The workspace that was exported.
    pub source_workspace_id: WorkspaceId,
    /// The position of the last event of its log.
    pub source_lsn: i64,
    /// The content hash of that event, as `sha256:<hex>`.
    pub source_hash: String,
    /// The SHA-256 of the signed part of the file, as `sha256:<hex>`.
    pub digest: String,
    /// The public key that has signed the file, as base64.
    pub signer: String,
    /// The name of the workspace.
    pub name: String,
    /// Its handle; null if it has none, or another workspace has taken it.
    pub handle: Option<String>,
    /// Whether a version with an older schema has written the file, which may lack values.
    pub from_older_version: bool,
}

impl Event for WorkspaceImported {
    const KIND: &'static str = "WorkspaceImported";

    fn replay(event: &Replayed<'_>) -> Result<()> {
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

/// The place of an event and the member it is about: the columns that filters and visibility use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subject {
    /// The channel of the event, if any. Determines who may see the event.
    pub channel_id: Option<ChannelId>,
    /// The thread of the event, if any.
    pub thread_id: Option<ThreadId>,
    /// The member the event is about: the holder of a claim, the author of a message, the member added.
    pub member_id: Option<MemberId>,
}

impl Subject {
    /// The workspace itself.
    pub const WORKSPACE: Subject = Subject { channel_id: None, thread_id: None, member_id: None };

    /// Returns the subject of an event in a channel.
    pub fn channel(channel_id: ChannelId) -> Self {
        Self { channel_id: Some(channel_id), ..Self::WORKSPACE }
    }

    /// Returns the subject of an event in a thread of a channel.
    pub fn thread(channel_id: ChannelId, thread_id: ThreadId) -> Self {
        Self { channel_id: Some(channel_id), thread_id: Some(thread_id), member_id: None }
    }

    /// Returns the same subject, about `member_id`.
    #[must_use]
    pub fn about(self, member_id: MemberId) -> Self {
        Self { member_id: Some(member_id), ..self }
    }
}

/// The member whose credential acted, the member it acted as, and the grant if they differ.
///
/// Null for changes that the service makes by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Attribution {
    /// The member that held the credential.
    pub actor_id: Option<MemberId>,
    /// The member it acted as; the same unless delegated.
    pub subject_id: Option<MemberId>,
    /// The delegation grant, present only when delegated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant_id: Option<GrantId>,
}

/// The kinds of entries that connections cache per workspace and events invalidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Invalidates {
    /// Access rules: tokens, members, channels and their members.
    Access,
    /// Rules of assigning work, such as the skills of members.
    Rules,
}

/// The contract of one kind of event.
#[derive(Clone, Debug)]
pub struct EventKind {
    /// The kind, in PascalCase.
    pub kind: &'static str,
    schema: SchemaOf,
    invalidates: Option<Invalidates>,
    replay: fn(&Replayed<'_>) -> Result<()>,
}

impl EventKind {
    /// Returns the kind of event type `E`.
    pub fn of<E: Event>() -> Self {
        Self { kind: E::KIND, schema: schema::of::<E>, invalidates: None, replay: E::replay }
    }

    /// Declares that each such event invalidates cached entries of this kind.
    ///
    /// These are the entries of any connection about the event's workspace. Every change of a row on which
    /// cache entries depend emits such an event.
    #[must_use]
    pub fn invalidates(self, cached: Invalidates) -> Self {
        Self { invalidates: Some(cached), ..self }
    }

    /// Returns the kind of cached entries that such an event invalidates.
    pub fn invalidated(&self) -> Option<Invalidates> {
        self.invalidates
    }

    /// Replays such an event: sets the values of rows that it determines.
    pub(crate) fn replay(&self, event: &Replayed<'_>) -> Result<()> {
        (self.replay)(event)
    }

    /// Returns the versioned type in envelopes and payloads.
    pub fn type_name(&self) -> String {
        type_name(self.kind)
    }

    /// Returns the JSON Schema of the payload's own fields.
    pub fn schema(&self) -> Value {
        schema::inlined_output(self.schema)
    }
}

/// The beginning of a versioned type name, before the kind.
pub(crate) const TYPE_BEGINS: &str = "svc.event.";
pub(crate) const TYPE_ENDS: &str = "/1";

/// Returns the versioned type name of a kind.
pub fn type_name(kind: &str) -> String {
    format!("{TYPE_BEGINS}{kind}{TYPE_ENDS}")
}

/// An event in the batch, ready to be written.
///
/// It has the hashed bytes and the columns that the bytes repeat.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The workspace of its log.
    pub workspace_id: WorkspaceId,
    /// The position in the workspace's chain, from 1, without gaps.
    pub lsn: i64,
    /// The kind, in PascalCase, such as `ThreadCreated`.
    pub kind: &'static str,
    /// When it happened.
    pub at: Time,
    /// The place of the event and the member it is about.
    pub subject: Subject,
    pub(crate) prev_hash: [u8; 32],
    pub(crate) content_hash: [u8; 32],
    pub(crate) payload: String,
}

impl Recorded {
    /// Returns the hash of the payload, as `sha256:<hex>`.
    pub fn content_hash(&self) -> String {
        crate::hash::hash_text(&self.content_hash)
    }
}
