//! Snapshots: the current state at the head of a log, for clients that do not read the whole log.
//!
//! A snapshot contains the start and end of the log and how to continue from there, the hash of the
//! workspace's graph, and a signed checkpoint of the log. Clients whose position is below the floor are
//! redirected here. The Merkle tree for the checkpoint continues the tree that a chore has stored. If the
//! stored tree is far behind, the later events are read page by page, with other reads in between, within the
//! time limit of a long read.
//!
//! - `graph`: builds the graph of the workspace's objects and relations

pub(crate) mod graph;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::capability::Capability::{TokenAdmin, WorkspaceRead};
use crate::capability::{Needs, Right};
use crate::error::{Code, Error, Result};
use crate::hash::format_hash;
use crate::id::WorkspaceId;
use crate::identity::floor::LogRange;
use crate::identity::workspaces::{OwnWorkspaceId, load_workspace};
use crate::log::verify::{Break, Defect, log_checkpoint};
use crate::op::{Feature, Read, reading};
use crate::request::request;
use crate::schema::default_is;
use crate::stream::checkpoints::{LogTree, load_tree_at_floor};
use crate::stream::events::broken_log_error;
use crate::stream::workspace_address::workspace_uri;
use crate::time::Time;
use graph::WorkspaceGraph;

/// Format identifier of a snapshot, in its `type` member.
const FORMAT_ID: &str = "svc.event-log.snapshot/1";

pub(crate) fn feature() -> Feature {
    Feature::new().operations(
        "events",
        vec![
            reading("get_log_snapshot")
                .prepare(|_, _, _| Ok(PendingSnapshot::default()))
                .scan(continue_snapshot)
                .whole()
                .title("Read a snapshot of the log")
                .when(
                    "Get a snapshot of the log. Use it to start over after `must_refetch`, or to compare two \
                     copies of a log by `graph_hash`.",
                )
                .get("/workspaces/{workspace_id}/snapshot")
                .needs(&[Right::Has(WorkspaceRead), Right::Peer])
                .refuses(&[Code::WrongState, Code::EventLogBroken])
                .example(|w| json!({"workspace_id": w.id("workspace")})),
        ],
    )
}

request! {
    /// Returns a snapshot of a log: its start and end, the hash of the workspace's graph, and a signed
    /// checkpoint.
    ///
    /// After `must_refetch`, continue after `head`. The graph contains the objects and relations of all
    /// channels, but no content. `graph_hash` is the SHA-256 of its canonical JSON (RFC 8785), and stays the
    /// same as long as `head` does. With `include_graph`, which needs token:admin, the graph itself is
    /// returned, up to 20,000 nodes and edges.
    ///
    /// One long read runs per workspace at a time.
    ///
    /// Fails with 409 `wrong-state` if the graph is too large to be included; 409 `event-log-broken` if the
    /// log does not verify at the positions that were read.
    struct GetLogSnapshot {
        /// The workspace. It must be yours.
        workspace_id: OwnWorkspaceId,
        /// Whether to return the graph too, which requires token:admin.
        #[schemars(transform = default_is("false"))]
        #[serde(default)]
        include_graph: bool,
    }

    get_log_snapshot() -> LogSnapshot
}

/// The current state of a log.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct LogSnapshot {
    /// Format identifier: `svc.event-log.snapshot/1`.
    #[serde(rename = "type")]
    pub type_name: &'static str,
    /// The workspace that the snapshot describes, and the time of the snapshot.
    pub header: SnapshotHeader,
    /// The oldest event that remains in the log.
    pub floor: SnapshotFloor,
    /// The newest event in the log.
    pub head: SnapshotHead,
    /// The SHA-256 of the graph's canonical JSON (RFC 8785), as `sha256:<hex>`.
    pub graph_hash: String,
    /// The signed checkpoint (C2SP tlog-checkpoint) of the log up to `head`; null if the service has no
    /// signing key.
    pub checkpoint: Option<String>,
    /// The workspace's objects and relations; absent unless `include_graph` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<WorkspaceGraph>,
}

/// The workspace that a snapshot describes, and the time of the snapshot.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SnapshotHeader {
    /// Id of the workspace.
    pub workspace_id: WorkspaceId,
    /// The workspace's display name.
    pub name: String,
    /// The current handle of the workspace, which can be changed; null if the workspace has none.
    pub handle: Option<String>,
    /// The prefix of the addresses of all objects in the workspace.
    pub uri: String,
    /// When the snapshot was taken.
    pub at: Time,
}

/// The oldest event that remains in a log, and the path for reading from that event.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SnapshotFloor {
    /// The position of the oldest event; 1 if nothing was pruned.
    pub lsn: i64,
    /// The hash of the event before the oldest remaining event, as `sha256:<hex>`.
    pub prev_hash: String,
    /// The path for reading all remaining events.
    pub href: String,
}

/// The newest event in a log, and the path for reading later events.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SnapshotHead {
    /// The position of the newest event; 0 if the log is empty.
    pub lsn: i64,
    /// The content hash of the newest event, as `sha256:<hex>`.
    pub content_hash: String,
    /// When the newest event happened.
    pub at: Time,
    /// The path for reading the events after the newest event.
    pub href: String,
}

/// A snapshot without a checkpoint, and the Merkle tree for the checkpoint; `None` before the first page.
#[derive(Default)]
struct PendingSnapshot(Option<(LogSnapshot, LogTree)>);

fn continue_snapshot(
    cx: &Read<'_>,
    input: &GetLogSnapshot,
    pending: &mut PendingSnapshot,
) -> Result<Option<LogSnapshot>> {
    let workspace = input.workspace_id.of(cx)?;
    if input.include_graph {
        cx.caller().check_right(Needs::one_of(&[TokenAdmin]))?;
    }
    let Some(signer) = &cx.settings().signer else { return snapshot_without_checkpoint(cx, input).map(Some) };
    let (mut snapshot, mut tree) = match pending.0.take() {
        Some(begun) => begun,
        None => (snapshot_without_checkpoint(cx, input)?, LogTree::load_or_start(cx, workspace)?),
    };
    let head = snapshot.head.lsn;
    if let Err(broken) = tree.grow(cx, head)? {
        // If the missing events were pruned in the meantime, the snapshot starts over.
        return match LogRange::of(cx, workspace)?.has_all_events_after(tree.lsn()) {
            true => Err(broken_log_error(workspace, broken)),
            false => Ok(None),
        };
    }
    if tree.lsn() < head {
        pending.0 = Some((snapshot, tree));
        return Ok(None);
    }
    if format_hash(&tree.hash()) != snapshot.head.content_hash {
        return Err(broken_log_error(workspace, Break { lsn: head, defect: Defect::Head }));
    }
    let size = u64::try_from(head).map_err(Error::internal)?;
    snapshot.checkpoint = Some(log_checkpoint(workspace, size, tree.root()).sign(signer));
    Ok(Some(snapshot))
}

/// Returns the snapshot without its checkpoint.
fn snapshot_without_checkpoint(cx: &Read<'_>, input: &GetLogSnapshot) -> Result<LogSnapshot> {
    let workspace = load_workspace(cx, input.workspace_id.of(cx)?)?;
    let row: Option<(i64, [u8; 32], Time, i64)> = cx.one(SELECT_HEAD, &[&workspace.id])?;
    let (lsn, hash, at, floor) = row.ok_or_else(|| Error::internal("the workspace has no log"))?;
    let (before, _) = load_tree_at_floor(cx, workspace.id, floor)?;
    let (graph_hash, graph) = match input.include_graph {
        true => {
            graph::load_graph_with_hash(cx, workspace.id, hash).map(|(hash, graph)| (hash, Some(graph)))?
        }
        false => (graph::load_graph_hash(cx, workspace.id, hash)?, None),
    };
    let href = |after: i64| format!("/workspaces/{}/events?after_id={after}", workspace.id);
    Ok(LogSnapshot {
        type_name: FORMAT_ID,
        floor: SnapshotFloor {
            lsn: floor,
            prev_hash: format_hash(&before.hash()),
            href: href(floor.saturating_sub(1)),
        },
        head: SnapshotHead { lsn, content_hash: format_hash(&hash), at, href: href(lsn) },
        graph_hash,
        checkpoint: None,
        graph,
        header: SnapshotHeader {
            uri: workspace_uri(workspace.id),
            workspace_id: workspace.id,
            name: workspace.name,
            handle: workspace.handle,
            at: cx.now(),
        },
    })
}

const SELECT_HEAD: &str = "select lsn, hash, at, floor from heads where workspace_id = $1";
