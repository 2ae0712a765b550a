//! Shelves: where the keys of messages hang. The key of a message is wrapped by a leaf of its shelf's key tree, and a
//! shelf's row holds the nodes that are left of the tree, sealed. A shelf is made by the first message on it, under the
//! head row of its workspace like everything that a position decides. Withdrawing cuts a leaf out, which changes that
//! one row; the scrub then removes the row's old bytes from the files.

use std::sync::Arc;

use super::scrub;
use crate::Result;
use crate::error::Error;
use crate::id::WorkspaceId;
use crate::log::event::Invalidates;
use crate::log::key_tree::{KeyTree, Leaf, shelf_of};
use crate::log::memo::Cached;
use crate::log::seal::Unopened;
use crate::log::tree_cache::Slot;
use crate::op::{Read, Write};

/// The leaf for the message that is posted at `lsn` of the caller's workspace. Its shelf is made if there is none.
pub(super) fn leaf_for_new(cx: &mut Write<'_>, lsn: i64) -> Result<Leaf> {
    let slot = slot_of(cx, lsn)?;
    if let Some(leaf) = slot.leaf(lsn) {
        return leaf.ok_or_else(leaf_is_cut);
    }
    let tree = match shelf(cx, lsn)? {
        Some(shelf) => shelf.open(cx)?,
        None => make(cx, lsn)?,
    };
    let leaf = tree.leaf(lsn).ok_or_else(leaf_is_cut);
    slot.put(tree);
    leaf
}

/// The leaf of the message at `lsn` of the caller's workspace; none if it does not open.
pub(super) fn leaf(cx: &Read<'_>, lsn: i64) -> Result<Option<Leaf>> {
    let slot = slot_of(cx, lsn)?;
    if let Some(leaf) = slot.leaf(lsn) {
        return Ok(leaf);
    }
    let Some(shelf) = shelf(cx, lsn)? else { return Ok(None) };
    let Ok(tree) = shelf.opened(cx) else { return Ok(None) };
    let leaf = tree.leaf(lsn);
    slot.put(tree);
    Ok(leaf)
}

/// Cuts the leaf of the message at `lsn` out of its shelf, for the event at `because`, and asks for the scrub. Cutting
/// again, or where there is no shelf, changes nothing.
pub(super) fn cut(cx: &mut Write<'_>, lsn: i64, because: i64) -> Result<()> {
    let Some(shelf) = shelf(cx, lsn)? else { return Ok(()) };
    let mut tree = shelf.open(cx)?;
    if !tree.cut(lsn) {
        return Ok(());
    }
    let (workspace, version) = (shelf.workspace, shelf.version.saturating_add(1));
    let sealed = cx.sealer().seal_tree(workspace, shelf.number, version, &tree)?;
    cx.execute(1, REPLACE, &[&workspace, &shelf.number, &shelf.version, &version, &sealed])?;
    slot_of(cx, lsn)?.put(tree);
    scrub::ask_for_shelf(cx, shelf.number, because)
}

const REPLACE: &str =
    "update shelves set version = $4, sealed = $5 where workspace_id = $1 and shelf = $2 and version = $3";

/// A shelf's row.
struct Shelf {
    workspace: WorkspaceId,
    number: i64,
    version: i64,
    sealed: Vec<u8>,
}

fn shelf(cx: &Read<'_>, lsn: i64) -> Result<Option<Shelf>> {
    let (workspace, number) = (cx.caller().workspace_id, shelf_of(lsn));
    let found: Option<(i64, Vec<u8>)> = cx.one(BY_NUMBER, &[&workspace, &number])?;
    Ok(found.map(|(version, sealed)| Shelf { workspace, number, version, sealed }))
}

const BY_NUMBER: &str = "select version, sealed from shelves where workspace_id = $1 and shelf = $2";

impl Shelf {
    fn opened(&self, cx: &Read<'_>) -> Result<KeyTree, Unopened> {
        cx.sealer().open_tree(self.workspace, self.number, self.version, &self.sealed)
    }

    /// The tree, for a change that cannot do without it.
    fn open(&self, cx: &Read<'_>) -> Result<KeyTree> {
        self.opened(cx).map_err(|unopened| {
            Error::internal(format!("shelf {} of workspace {}: {unopened}", self.number, self.workspace))
        })
    }
}

fn make(cx: &mut Write<'_>, lsn: i64) -> Result<KeyTree> {
    let (workspace, number) = (cx.caller().workspace_id, shelf_of(lsn));
    let tree = KeyTree::grow(cx.entropy())?;
    let sealed = cx.sealer().seal_tree(workspace, number, FIRST_VERSION, &tree)?;
    cx.execute(1, MAKE, &[&workspace, &number, &FIRST_VERSION, &sealed])?;
    Ok(tree)
}

const FIRST_VERSION: i64 = 1;

const MAKE: &str = "insert into shelves (workspace_id, shelf, version, sealed) values ($1, $2, $3, $4)";

/// The connection's slot for the shelf's tree. It ends with the connection's other cached entries, and so with a
/// transaction that is rolled back: a tree that was never committed wraps nothing.
fn slot_of(cx: &Read<'_>, lsn: i64) -> Result<Arc<Slot>> {
    let load = || Ok(CachedSlot(cx.sealer().trees().new_slot()));
    cx.remembered(&slot_key(cx.caller().workspace_id, shelf_of(lsn)), load).map(|CachedSlot(slot)| slot)
}

#[derive(Clone)]
struct CachedSlot(Arc<Slot>);

impl Cached for CachedSlot {
    /// A leaf is what it is for good, and the slot empties by itself.
    const ENDED_BY: Option<Invalidates> = None;
}

fn slot_key(workspace: WorkspaceId, shelf: i64) -> [u8; 32] {
    let mut key = [0; 32];
    let bytes = workspace.uuid().into_bytes().into_iter().chain(shelf.to_be_bytes());
    key.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    key
}

fn leaf_is_cut() -> Error {
    Error::internal("the leaf of a message that is being posted was cut out of its shelf")
}
