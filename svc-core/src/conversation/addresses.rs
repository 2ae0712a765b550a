//! Resolving an address to its object, and checking whether the cited text is still current.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::Result;
use crate::capability::Capability::WorkspaceRead;
use crate::conversation::messages::{self, CitableMessage, CitationState, uri};
use crate::conversation::uris::{Address, AddressTarget};
use crate::conversation::visibility::{
    ChannelPlace, ThreadPlace, visible_at, visible_channel, visible_thread_place,
};
use crate::error::{Code, Error};
use crate::hash::format_hash;
use crate::id::{ChannelId, MessageId, ThreadId, WorkspaceId};
use crate::identity::workspaces::check_own_workspace;
use crate::op::{Feature, Read, read};
use crate::request::request;
use crate::store::columns;

pub(crate) fn feature() -> Feature {
    Feature::new().operations(
        "messages",
        vec![
            read("resolve_uri", resolve_uri)
                .title("Resolve an address")
                .when(
                    "Find the object that an address or citation refers to, and check whether the cited text \
                     is still current.",
                )
                .get("/resolve")
                .needs(&[WorkspaceRead])
                .example(|w| {
                    let thread = w.id("thread");
                    json!({"uri": format!("svc://threads/{}", thread.as_str().unwrap_or_default())})
                }),
        ],
    )
}

/// The object to which an address leads, and the state of the cited text.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Resolved")]
#[non_exhaustive]
pub struct ResolvedUri {
    /// Full address of the object, without a fragment.
    pub uri: String,
    /// Kind of the object: a workspace, channel, thread, message, event or boot.
    #[serde(rename = "type")]
    pub kind: AddressKind,
    /// Ids of the object and of the objects that contain it. Ids that do not apply are absent.
    pub ids: AddressIds,
    /// Content hash of the object, for citations, as `sha256:<hex>`; null if the object has no hash.
    pub content_hash: Option<String>,
    /// State of the text that the address's fragment cites; `none` if the address has no fragment.
    pub cited: CitationState,
    /// Number of the cited text, as in `list_message_edits`. Present only if a later text superseded the
    /// cited text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edit: Option<i64>,
}

/// Kind of the object to which an address leads.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AddressKind {
    Workspace,
    Channel,
    Thread,
    Message,
    Event,
    Boot,
}

/// Ids of the object to which an address leads, and of the objects that contain it.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct AddressIds {
    /// Id of the workspace.
    pub workspace_id: WorkspaceId,
    /// Id of the channel.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel_id: Option<ChannelId>,
    /// Id of the thread.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<ThreadId>,
    /// Id of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// Position of the event in the workspace's log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lsn: Option<i64>,
}

impl AddressIds {
    fn new(workspace_id: WorkspaceId, channel_id: Option<ChannelId>) -> Self {
        Self { workspace_id, channel_id, thread_id: None, message_id: None, lsn: None }
    }
}

request! {
    /// Returns the object that an address refers to, and whether the text that the fragment cites is current.
    ///
    /// The address may be a room URI of any level, `svc:event/` with a position, or a form such as
    /// `svc://threads/{id}`, with or without `#sha256:` and a hash. An address whose ids contradict each
    /// other is not found.
    struct ResolveUri {
        /// The address to resolve.
        uri: Address,
    }

    resolve_uri(uri: Address) -> ResolvedUri
}

fn resolve_uri(cx: &Read<'_>, input: &ResolveUri) -> Result<ResolvedUri> {
    let Address { target, hash } = input.uri;
    resolve_target(cx, target, hash).map_err(|error| match error.code() {
        Code::NotFound => address_not_found(),
        _ => error,
    })
}

fn address_not_found() -> Error {
    Error::not_found("object with this address")
}

/// Resolves a parsed address. `hash` is the hash from the address's fragment.
fn resolve_target(cx: &Read<'_>, target: AddressTarget, hash: Option<[u8; 32]>) -> Result<ResolvedUri> {
    let here = cx.caller().workspace_id;
    match target {
        AddressTarget::Workspace(id) => {
            check_own_workspace(cx, id)?;
            Ok(object_without_hash(
                format!("svc://{id}"),
                AddressKind::Workspace,
                AddressIds::new(id, None),
                hash,
            ))
        }
        AddressTarget::Channel(workspace, id) => {
            check_ids_match(workspace.is_none_or(|workspace| workspace == here))?;
            let ChannelPlace { id, workspace_id, .. } = visible_channel(cx, id)?;
            let uri = format!("svc://{workspace_id}/channels/{id}");
            Ok(object_without_hash(uri, AddressKind::Channel, AddressIds::new(workspace_id, Some(id)), hash))
        }
        AddressTarget::Thread(within, id) => {
            let ThreadPlace { thread_id, channel_id, workspace_id, .. } = visible_thread_place(cx, id)?;
            check_ids_match(within.is_none_or(|within| within == (workspace_id, channel_id)))?;
            let uri = format!("svc://{workspace_id}/channels/{channel_id}/threads/{thread_id}");
            let ids =
                AddressIds { thread_id: Some(thread_id), ..AddressIds::new(workspace_id, Some(channel_id)) };
            Ok(object_without_hash(uri, AddressKind::Thread, ids, hash))
        }
        AddressTarget::Message(workspace, channel_id, thread_id, id) => {
            let found = messages::find_cited_message(cx, id, hash)?;
            let place = (here, found.place.channel_id, found.place.thread_id);
            check_ids_match((workspace, channel_id, thread_id) == place)?;
            Ok(resolve_message(here, &found))
        }
        AddressTarget::Event(lsn) => resolve_event(cx, lsn, hash),
        AddressTarget::Boot(id) => {
            let ChannelPlace { id, workspace_id, .. } = visible_channel(cx, id)?;
            Ok(object_without_hash(
                format!("svc://boots/{id}"),
                AddressKind::Boot,
                AddressIds::new(workspace_id, Some(id)),
                hash,
            ))
        }
        // The service stores no artifacts yet.
        AddressTarget::Artifact(_) => Err(address_not_found()),
    }
}

/// Fails with *not found* unless the ids in an address match those of the object.
fn check_ids_match(ids_match: bool) -> Result<()> {
    if ids_match { Ok(()) } else { Err(address_not_found()) }
}

/// Returns an object that has no content hash. If the address cites a hash, the citation is a mismatch.
fn object_without_hash(
    uri: String,
    kind: AddressKind,
    ids: AddressIds,
    hash: Option<[u8; 32]>,
) -> ResolvedUri {
    let cited = if hash.is_some() { CitationState::Mismatch } else { CitationState::None };
    ResolvedUri { uri, kind, ids, content_hash: None, cited, edit: None }
}

fn resolve_message(workspace: WorkspaceId, message: &CitableMessage) -> ResolvedUri {
    let CitableMessage { place, content_hash, cited, edit } = *message;
    let ids = AddressIds {
        thread_id: Some(place.thread_id),
        message_id: Some(place.id),
        ..AddressIds::new(workspace, Some(place.channel_id))
    };
    ResolvedUri {
        uri: uri(workspace, place.channel_id, place.thread_id, place.id),
        kind: AddressKind::Message,
        ids,
        content_hash: content_hash.as_ref().map(format_hash),
        cited,
        edit,
    }
}

/// Channel, thread and content hash of an event that the caller may see.
struct VisibleEvent {
    channel_id: Option<ChannelId>,
    thread_id: Option<ThreadId>,
    content_hash: [u8; 32],
}

columns! { event_columns: VisibleEvent as e { channel_id, thread_id, content_hash } }

fn resolve_event(cx: &Read<'_>, lsn: i64, hash: Option<[u8; 32]>) -> Result<ResolvedUri> {
    let workspace = cx.caller().workspace_id;
    let found: Option<VisibleEvent> =
        cx.one(EVENT, &cx.caller().visibility.params().and(&[&workspace, &lsn]))?;
    let VisibleEvent { channel_id, thread_id, content_hash } = found.ok_or_else(address_not_found)?;
    let cited = match hash {
        None => CitationState::None,
        Some(hash) if hash == content_hash => CitationState::Current,
        Some(_) => CitationState::Mismatch,
    };
    Ok(ResolvedUri {
        uri: format!("svc:event/{lsn}"),
        kind: AddressKind::Event,
        ids: AddressIds { thread_id, lsn: Some(lsn), ..AddressIds::new(workspace, channel_id) },
        content_hash: Some(format_hash(&content_hash)),
        cited,
        edit: None,
    })
}

const EVENT: &str = concat!(
    "select ",
    event_columns!(),
    " from events e left join channels c on c.id = e.channel_id
     where e.workspace_id = $5 and e.lsn = $6
        and e.lsn >= (select h.floor from heads h where h.workspace_id = $5) and ",
    visible_at!("e.channel_id", c)
);
