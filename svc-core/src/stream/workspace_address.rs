//! The room card: the address of a workspace, the position of the head of its log, and links for reading the
//! log.
//!
//! The public card describes how to find the card of a workspace, and does not identify any workspace.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::Result;
use crate::hash::format_hash;
use crate::id::WorkspaceId;
use crate::identity::floor::LogRange;
use crate::identity::workspaces::{OwnWorkspaceId, load_workspace};
use crate::log::chain::genesis;
use crate::log::signed_note::PublicKey;
use crate::log::verify::ChainHead;
use crate::op::{Feature, Operation, Read, read};
use crate::request::request;

/// Name of the response header with the head position of the caller's workspace.
const HEAD_LSN_HEADER: &str = "Svc-Room-LSN";
/// URI scheme of the addresses of a workspace's objects.
const URI_SCHEME: &str = "svc";
/// URI template of a message. Prefixes of the template are the addresses of the thread, channel and workspace
/// that contain the message.
const MESSAGE_URI_TEMPLATE: &str =
    "svc://{workspace_id}/channels/{channel_id}/threads/{thread_id}/messages/{message_id}";

/// Path of the snapshot of a log.
const SNAPSHOT_PATH: &str = "/workspaces/{workspace_id}/snapshot";

/// The links of a card: the name and path of each link, with `{workspace_id}` as a placeholder.
const LINKS: [(&str, &str); 6] = [
    ("self", "/workspaces/{workspace_id}/room"),
    ("events", "/workspaces/{workspace_id}/events"),
    ("catch_up", "/workspaces/{workspace_id}/events/catch-up"),
    ("verify", "/workspaces/{workspace_id}/events/verify"),
    ("snapshot", SNAPSHOT_PATH),
    ("subscribe", "/ws/subscribe"),
];

pub(crate) fn feature() -> Feature {
    Feature::new().operations("workspaces", vec![operation()])
}

fn operation() -> Operation {
    read("get_room", get_room)
        .title("Read the address of a workspace's log")
        .when(
            "Get the workspace's address, the last position of its event log, and the paths to read the log.",
        )
        .get("/workspaces/{workspace_id}/room")
        .example(|w| json!({"workspace_id": w.id("workspace")}))
}

request! {
    /// Returns the address of a workspace, the head of its log, and the paths to read the log.
    struct GetRoom {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
    }

    get_room() -> Room
}

/// The address of a workspace, the head of its log, and the paths to read the log.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Room {
    /// The workspace's id.
    pub id: WorkspaceId,
    /// The workspace's display name.
    pub name: String,
    /// The current handle of the workspace, which can be changed; null if the workspace has none.
    pub handle: Option<String>,
    /// The prefix of the addresses of all objects in the workspace: `svc://{workspace}`.
    pub uri: String,
    /// The position of the oldest event that remains in the log.
    pub floor: i64,
    /// The position and hash of the last event in the log.
    pub head: ChainHead,
    /// Paths for reading the log.
    pub links: Links,
}

/// Paths of this service for reading a workspace's log.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Links {
    /// The path of this card.
    #[serde(rename = "self")]
    pub own: String,
    /// The path of the event list, with the events that you may see.
    pub events: String,
    /// The path of the whole log, as a chain.
    pub catch_up: String,
    /// The path that verifies the log.
    pub verify: String,
    /// The path of the current state at the head of the log, for clients that cannot continue reading events.
    pub snapshot: String,
    /// The WebSocket path that sends new events.
    pub subscribe: String,
}

/// Returns the prefix of the addresses of all objects in a workspace.
pub(super) fn workspace_uri(workspace: WorkspaceId) -> String {
    format!("{URI_SCHEME}://{workspace}")
}

fn get_room(cx: &Read<'_>, input: &GetRoom) -> Result<Room> {
    let workspace_id = input.workspace_id.of(cx)?;
    let workspace = load_workspace(cx, workspace_id)?;
    let range = LogRange::read(cx)?;
    let hash = range.event_hash_at(cx, range.head)?.unwrap_or_else(genesis);
    let [own, events, catch_up, verify, snapshot, subscribe] =
        LINKS.map(|(_, path)| path.replace("{workspace_id}", &workspace.id.to_string()));
    Ok(Room {
        uri: workspace_uri(workspace.id),
        id: workspace.id,
        name: workspace.name,
        handle: workspace.handle,
        floor: range.floor,
        head: ChainHead { lsn: range.head, hash: format_hash(&hash) },
        links: Links { own, events, catch_up, verify, snapshot, subscribe },
    })
}

/// Returns the public card, which includes the public key of this service's signatures.
///
/// The card does not identify any workspace.
pub fn public_card(export_key: Option<PublicKey>) -> Value {
    let links: serde_json::Map<String, Value> =
        LINKS.iter().map(|(name, path)| ((*name).to_owned(), (*path).into())).collect();
    json!({
        "scheme": URI_SCHEME,
        "uri_template": MESSAGE_URI_TEMPLATE,
        "header": HEAD_LSN_HEADER,
        "links": links,
        "export_key": export_key.map(|key| STANDARD.encode(key)),
    })
}
