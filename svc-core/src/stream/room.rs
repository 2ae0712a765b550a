//! The room card: where a workspace's record is, how far it goes, and how to read it.
//!
//! The card that everybody may read says how to find that of a workspace, and names none.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::Result;
use crate::hash::hash_text;
use crate::id::WorkspaceId;
use crate::identity::floor::LogRange;
use crate::identity::workspaces::{Here, load_workspace};
use crate::log::chain::genesis;
use crate::log::note::PublicKey;
use crate::log::verify::ChainHead;
use crate::op::{Feature, Operation, Read, read};

/// The header that tells how far the log of the caller's workspace reaches.
const HEADER: &str = "Svc-Room-LSN";
/// What the addresses of a workspace begin with.
const SCHEME: &str = "svc";
/// The address of a message; those of what it is in are its beginnings.
const ADDRESS: &str = "svc://{workspace_id}/channels/{channel_id}/threads/{thread_id}/messages/{message_id}";

/// Where what a log comes to now is read.
const SNAPSHOT: &str = "/workspaces/{workspace_id}/snapshot";

/// The links of a card: their names, and their paths with `{workspace_id}` for the workspace.
const LINKS: [(&str, &str); 6] = [
    ("self", "/workspaces/{workspace_id}/room"),
    ("events", "/workspaces/{workspace_id}/events"),
    ("catch_up", "/workspaces/{workspace_id}/events/catch-up"),
    ("verify", "/workspaces/{workspace_id}/events/verify"),
    ("snapshot", SNAPSHOT),
    ("subscribe", "/ws/subscribe"),
];

pub(crate) fn feature() -> Feature {
    Feature::new().operations("workspaces", vec![operation()])
}

fn operation() -> Operation {
    read("get_room", get_room)
        .title("Read the card of a workspace's record")
        .when("Use to get the address of the workspace's record, and how far its log goes.")
        .get("/workspaces/{workspace_id}/room")
        .example(|w| json!({"workspace_id": w.id("workspace")}))
}

/// Returns the card of a workspace's record: its address, how far the log goes, and where it is read.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetRoom {
    /// The workspace. It must be yours.
    workspace_id: Here,
}

/// Where a workspace's record is, and how far it goes.
#[derive(Serialize, JsonSchema)]
struct Room {
    /// The workspace's id.
    id: WorkspaceId,
    /// What people call it.
    name: String,
    /// An alias that can be changed; null while it has none.
    handle: Option<String>,
    /// What the addresses of everything in the workspace begin with: `svc://{workspace}`.
    uri: String,
    /// The position of the oldest event that the log has.
    floor: i64,
    /// The last event of the log.
    head: ChainHead,
    /// Where the record is read, by what is found there.
    links: Links,
}

/// Paths of this service.
#[derive(Serialize, JsonSchema)]
struct Links {
    /// This card.
    #[serde(rename = "self")]
    own: String,
    /// The events that you may see.
    events: String,
    /// The whole log, as a chain.
    catch_up: String,
    /// The verification of the log.
    verify: String,
    /// What the log comes to now, for who can't read on.
    snapshot: String,
    /// The events as they happen, over WebSocket.
    subscribe: String,
}

/// Returns what the addresses of everything in a workspace begin with.
pub(super) fn address_of(workspace: WorkspaceId) -> String {
    format!("{SCHEME}://{workspace}")
}

fn get_room(cx: &Read<'_>, input: &GetRoom) -> Result<Room> {
    let workspace_id = input.workspace_id.of(cx)?;
    let workspace = load_workspace(cx, workspace_id)?;
    let range = LogRange::read(cx)?;
    let hash = range.hash_at(cx, range.head)?.unwrap_or_else(genesis);
    let [own, events, catch_up, verify, snapshot, subscribe] =
        LINKS.map(|(_, path)| path.replace("{workspace_id}", &workspace.id.to_string()));
    Ok(Room {
        uri: address_of(workspace.id),
        id: workspace.id,
        name: workspace.name,
        handle: workspace.handle,
        floor: range.floor,
        head: ChainHead { lsn: range.head, hash: hash_text(&hash) },
        links: Links { own, events, catch_up, verify, snapshot, subscribe },
    })
}

/// Returns the card that everybody may read, which names no workspace, with the key that signs checkpoints.
pub fn scheme_card(export_key: Option<PublicKey>) -> Value {
    let links: serde_json::Map<String, Value> =
        LINKS.iter().map(|(name, path)| ((*name).to_owned(), (*path).into())).collect();
    json!({
        "scheme": SCHEME,
        "uri_template": ADDRESS,
        "header": HEADER,
        "links": links,
        "export_key": export_key.map(|key| STANDARD.encode(key)),
    })
}
