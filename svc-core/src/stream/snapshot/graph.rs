//! The graph of a workspace: its objects and their relations, without message content.
//!
//! Nodes are the workspace and its members, channels, threads and messages. A node's parent is the object
//! that contains it; every other relation is an edge. Only events change the graph, so the graph at a given
//! head of a log is always the same. Messages that were pruned or purged are excluded, because they can no
//! longer be read.
//!
//! The hash is the SHA-256 of the canonical JSON (RFC 8785) of an object with the members `edges` and
//! `nodes`. Edges are ordered by their type, `from` and `to`; nodes by their type, `lsn` and `id`. The hash
//! is computed while the rows are read. The whole graph is in memory only if the caller requested it, and
//! then its size is limited.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Mutex;

use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::error::{Code, Error, Result};
use crate::hash::format_hash;
use crate::id::WorkspaceId;
use crate::limits::{GRAPH_HASHES_CACHED_MAX, GRAPH_MAX};
use crate::log::canonical;
use crate::op::Read;
use crate::store::{Columns, Scan};
use crate::sync::lock;

/// The objects of a workspace, and their relations.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct WorkspaceGraph {
    /// The relations, ordered by type, `from` and `to`.
    pub edges: Vec<GraphEdge>,
    /// The objects, ordered by type, `lsn` and `id`.
    pub nodes: Vec<GraphNode>,
}

/// An object of a workspace.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct GraphNode {
    /// The object's id.
    pub id: Uuid,
    /// Type of the object: `channel`, `member`, `message`, `thread` or `workspace`.
    #[serde(rename = "type")]
    pub type_name: &'static str,
    /// Id of the object that contains this object; null for the workspace.
    ///
    /// The parent of a message is its thread, the parent of a thread is its channel, and the parent of a
    /// channel or member is the workspace.
    pub parent_id: Option<Uuid>,
    /// The position of the event that created the object; null for the workspace.
    pub lsn: Option<i64>,
    /// State of the object.
    ///
    /// A channel is `active` or `archived`; a member is `active`, `frozen`, `deactivated` or `removed`; a
    /// message is `posted`, `edited` or `withdrawn`; a workspace is `live`; a thread has the state of the
    /// task.
    pub state: String,
}

/// A relation between two objects.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct GraphEdge {
    /// The id of the first object.
    pub from: Uuid,
    /// The id of the second object.
    pub to: Uuid,
    /// Type of the relation between the first and the second object.
    ///
    /// `assigned_to`: a thread and the member who works on it. `author`: a message and its author.
    /// `child_of`: a thread and the thread that it was split off from. `depends_on`: a thread and one that
    /// must end before it. `member_of`: a member and a channel that lists its members.
    #[serde(rename = "type")]
    pub type_name: &'static str,
}

/// A type of node or edge, and the statement that selects its rows in the workspace `$1`.
struct ObjectKind {
    name: &'static str,
    sql: &'static str,
}

/// The edge types, sorted by name. Each statement selects the ids of the first and the second object.
const EDGE_KINDS: [ObjectKind; 5] = [
    ObjectKind {
        name: "assigned_to",
        sql: "select t.id, t.assignee_id from threads t
               where t.workspace_id = $1 and t.assignee_id is not null order by t.id",
    },
    ObjectKind {
        name: "author",
        sql: "select m.id, m.author_id from messages m join heads h on h.workspace_id = m.workspace_id
               where m.workspace_id = $1 and m.lsn > h.words_floor and m.author_id is not null order by m.id",
    },
    ObjectKind {
        name: "child_of",
        sql: "select t.id, t.parent_id from threads t
               where t.workspace_id = $1 and t.parent_id is not null order by t.id",
    },
    ObjectKind {
        name: "depends_on",
        sql: "select d.thread_id, d.depends_on_id
               from thread_dependencies d join threads t on t.id = d.thread_id
               where t.workspace_id = $1 order by d.thread_id, d.depends_on_id",
    },
    ObjectKind {
        name: "member_of",
        sql: "select cm.member_id, cm.channel_id
               from channel_members cm join channels c on c.id = cm.channel_id
               where c.workspace_id = $1 order by cm.member_id, cm.channel_id",
    },
];

/// The node types, sorted by name. Each statement selects the id, parent, position and state of a node.
const NODE_KINDS: [ObjectKind; 5] = [
    ObjectKind {
        name: "channel",
        sql: "select c.id, c.workspace_id, c.lsn,
                   case when c.archived_at is null then 'active' else 'archived' end
               from channels c where c.workspace_id = $1 order by c.lsn, c.id",
    },
    ObjectKind {
        name: "member",
        sql: "select m.id, m.workspace_id, m.lsn,
                   case when m.removed_at is not null then 'removed'
                        when m.deactivated_at is not null then 'deactivated'
                        when m.frozen_at is not null then 'frozen' else 'active' end
               from members m where m.workspace_id = $1 order by m.lsn, m.id",
    },
    ObjectKind {
        name: "message",
        sql: "select m.id, m.thread_id, m.lsn,
                   case when m.withdrawn_at is not null then 'withdrawn'
                        when m.edits > 0 then 'edited' else 'posted' end
               from messages m join heads h on h.workspace_id = m.workspace_id
               where m.workspace_id = $1 and m.lsn > h.words_floor order by m.lsn, m.id",
    },
    ObjectKind {
        name: "thread",
        sql: "select t.id, t.channel_id, t.lsn, t.state
               from threads t where t.workspace_id = $1 order by t.lsn, t.id",
    },
    ObjectKind {
        name: "workspace",
        sql: "select w.id, cast(null as uuid), cast(null as bigint), 'live'
               from workspaces w where w.id = $1 order by w.id",
    },
];

impl GraphEdge {
    fn from_row(type_name: &'static str, row: &dyn Columns) -> Option<Self> {
        Some(Self { from: row.id(0)??, to: row.id(1)??, type_name })
    }
}

impl GraphNode {
    fn from_row(type_name: &'static str, row: &dyn Columns) -> Option<Self> {
        let parent_id = row.id(1)?;
        let state = row.text(3)?.to_owned();
        Some(Self { id: row.id(0)??, type_name, parent_id, lsn: row.int(2), state })
    }
}

/// Returns the graph hash of a workspace. `head` is the hash of the last event in the log.
///
/// The process caches the hash until the head changes.
pub(super) fn load_graph_hash(cx: &Read<'_>, workspace: WorkspaceId, head: [u8; 32]) -> Result<String> {
    if let Some(known) = cached_hash(workspace, &head) {
        return Ok(known);
    }
    let (hash, _) = hash_graph(cx, workspace, None)?;
    cache_hash(workspace, head, hash.clone());
    Ok(hash)
}

/// Returns the graph of a workspace and its hash. `head` is the hash of the last event in the log.
///
/// Fails with 409 `wrong-state` if the graph has more than [`GRAPH_MAX`] nodes and edges.
pub(super) fn load_graph_with_hash(
    cx: &Read<'_>,
    workspace: WorkspaceId,
    head: [u8; 32],
) -> Result<(String, WorkspaceGraph)> {
    let (hash, graph) = hash_graph(cx, workspace, Some(WorkspaceGraph::default()))?;
    cache_hash(workspace, head, hash.clone());
    Ok((hash, graph.unwrap_or_default()))
}

/// Hashes the graph of a workspace, and also collects its nodes and edges if `graph` is `Some`.
fn hash_graph(
    cx: &Read<'_>,
    workspace: WorkspaceId,
    mut graph: Option<WorkspaceGraph>,
) -> Result<(String, Option<WorkspaceGraph>)> {
    let mut hashing = GraphHasher { digest: Sha256::new(), remaining: GRAPH_MAX };
    hashing.digest.update(b"{\"edges\":[");
    hashing.add_objects(
        cx,
        workspace,
        &EDGE_KINDS,
        GraphEdge::from_row,
        graph.as_mut().map(|graph| &mut graph.edges),
    )?;
    hashing.digest.update(b"],\"nodes\":[");
    hashing.add_objects(
        cx,
        workspace,
        &NODE_KINDS,
        GraphNode::from_row,
        graph.as_mut().map(|graph| &mut graph.nodes),
    )?;
    hashing.digest.update(b"]}");
    Ok((format_hash(&hashing.digest.finalize().into()), graph))
}

/// The state of hashing a graph while its rows are being read.
struct GraphHasher {
    digest: Sha256,
    /// Number of nodes and edges that may still be collected.
    remaining: usize,
}

impl GraphHasher {
    /// Adds the rows of these kinds to the hash, separated by commas, and to `collected` if it is `Some`.
    fn add_objects<T: Serialize>(
        &mut self,
        cx: &Read<'_>,
        workspace: WorkspaceId,
        kinds: &[ObjectKind],
        read: fn(&'static str, &dyn Columns) -> Option<T>,
        mut collected: Option<&mut Vec<T>>,
    ) -> Result<()> {
        let mut is_first = true;
        for kind in kinds {
            let scan = Scan::new(&format!("graph_{}", kind.name), kind.sql, kind.sql);
            let mut outcome = Ok(());
            cx.scan(&scan, &[&workspace], &mut |row| {
                let item = read(kind.name, row).ok_or_else(|| undecodable_row_error(kind.name));
                outcome = item.and_then(|item| {
                    if !std::mem::take(&mut is_first) {
                        self.digest.update(b",");
                    }
                    self.digest.update(canonical::to_string(&item)?.as_bytes());
                    let Some(collected) = &mut collected else { return Ok(()) };
                    self.remaining = self.remaining.checked_sub(1).ok_or_else(graph_too_large_error)?;
                    collected.push(item);
                    Ok(())
                });
                if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
            outcome?;
        }
        Ok(())
    }
}

fn undecodable_row_error(name: &str) -> Error {
    Error::internal(format!("a row for the graph type {name} cannot be decoded"))
}

fn graph_too_large_error() -> Error {
    Error::new(
        Code::WrongState,
        format!(
            "the graph has more than {GRAPH_MAX} nodes and edges, the maximum in a reply; \
             use export_workspace to get the objects"
        ),
    )
}

/// Recently computed graph hashes, each with the workspace and the hash of the log's last event.
///
/// The hash of an event identifies a single history, so all services in a process can share this cache.
static HASH_CACHE: Mutex<VecDeque<(WorkspaceId, [u8; 32], String)>> = Mutex::new(VecDeque::new());

fn cached_hash(workspace: WorkspaceId, head: &[u8; 32]) -> Option<String> {
    let known = lock(&HASH_CACHE);
    let found = known.iter().find(|(of, at, _)| *of == workspace && at == head);
    found.map(|(_, _, hash)| hash.clone())
}

/// Caches the graph hash for the head of a log, and removes the hash for the workspace's earlier head.
fn cache_hash(workspace: WorkspaceId, head: [u8; 32], hash: String) {
    let mut known = lock(&HASH_CACHE);
    known.retain(|(of, ..)| *of != workspace);
    if known.len() >= GRAPH_HASHES_CACHED_MAX {
        known.pop_front();
    }
    known.push_back((workspace, head, hash));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_in_the_order_of_their_names() {
        for kinds in [&EDGE_KINDS, &NODE_KINDS] {
            assert!(kinds.is_sorted_by_key(|kind| kind.name));
        }
    }

    #[test]
    fn the_hash_of_the_newest_head_of_so_many_workspaces_is_remembered() {
        let workspace = |number: usize| WorkspaceId::from(Uuid::from_u128(number as u128 + 1_000_000));
        for number in 0..=GRAPH_HASHES_CACHED_MAX {
            cache_hash(workspace(number), [1; 32], "old".to_owned());
            cache_hash(workspace(number), [2; 32], number.to_string());
        }
        assert_eq!(lock(&HASH_CACHE).len(), GRAPH_HASHES_CACHED_MAX);
        assert_eq!(cached_hash(workspace(0), &[2; 32]), None);
        assert_eq!(cached_hash(workspace(1), &[1; 32]), None);
        assert_eq!(cached_hash(workspace(1), &[2; 32]), Some("1".to_owned()));
    }
}
