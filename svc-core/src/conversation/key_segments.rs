//! Key segments (table `shelves`): the key trees whose leaves wrap the keys of messages.
//!
//! A segment covers 4,096 log positions of a workspace. The key of a message is wrapped by a leaf of its
//! segment's key tree. The row of a segment contains the remaining nodes of the tree, sealed. Posting the
//! first message of a segment creates the row, under the lock on the workspace's head row, as for all rows
//! that depend on a position. Withdrawing a message cuts its leaf out of the tree, which changes only that
//! row. The scrub then removes the old bytes of the row from the database's files.

use std::sync::Arc;

use super::scrub;
use crate::Result;
use crate::error::{Code, Error};
use crate::id::WorkspaceId;
use crate::log::cache::{Cached, Lifetime};
use crate::log::key_tree::{KeyTree, LEAVES, Leaf, segment_number};
use crate::log::seal::DecryptionFailed;
use crate::log::tree_cache::Slot;
use crate::op::{DestroyPermit, Read, Write};
use crate::store::{FromRow, Row};

/// Returns the leaf for a new message at `lsn` of the caller's workspace. Creates the key segment if it does
/// not exist.
pub(super) fn leaf_for_new_message(cx: &mut Write<'_>, lsn: i64) -> Result<Leaf> {
    for number in segment_numbers(lsn) {
        let slot = tree_slot(cx, number)?;
        if let Some(leaf) = slot.leaf(lsn) {
            return leaf.ok_or_else(cut_leaf_error);
        }
        let tree = match load_segment(cx, number)? {
            Some(segment) => segment.decrypt_tree(cx),
            None => Some(create_segment(cx, number)?),
        };
        if let Some(tree) = tree {
            let leaf = tree.leaf(lsn).ok_or_else(cut_leaf_error);
            slot.put(tree);
            return leaf;
        }
    }
    Err(Error::new(
        Code::Unavailable,
        "the key of the message cannot be stored: its key segments are damaged",
    ))
}

/// Calls `open` with the leaf for position `lsn`, from its segment or else from the substitute, and returns
/// the result.
pub(super) fn open_with_leaf<T>(
    cx: &Read<'_>,
    lsn: i64,
    open: impl Fn(&Leaf) -> Result<T, DecryptionFailed>,
) -> Result<Result<T, DecryptionFailed>> {
    for number in segment_numbers(lsn) {
        if let Some(opened) = load_leaf(cx, number, lsn)?.and_then(|leaf| open(&leaf).ok()) {
            return Ok(Ok(opened));
        }
    }
    Ok(Err(DecryptionFailed))
}

/// Returns the number of the segment that contains a log position, and the number of its substitute segment.
///
/// The substitute is used while the row of the segment is damaged and cannot be decrypted. Messages of the
/// damaged segment are then unreadable, but new messages can still be posted.
fn segment_numbers(lsn: i64) -> [i64; 2] {
    let number = segment_number(lsn);
    [number, number.saturating_neg().saturating_sub(1)]
}

/// Returns the leaf for position `lsn` from a segment, or `None` if the leaf is cut or the segment is missing
/// or damaged.
fn load_leaf(cx: &Read<'_>, number: i64, lsn: i64) -> Result<Option<Leaf>> {
    let slot = tree_slot(cx, number)?;
    if let Some(leaf) = slot.leaf(lsn) {
        return Ok(leaf);
    }
    let Some(tree) = load_segment(cx, number)?.and_then(|segment| segment.decrypt_tree(cx)) else {
        return Ok(None);
    };
    let leaf = tree.leaf(lsn);
    slot.put(tree);
    Ok(leaf)
}

/// Cuts a message's leaf out of its segment's key tree, and requests the scrub. `cause_lsn` is the position
/// of the event that requires it.
///
/// Does nothing if the leaf is already cut or the segment cannot be decrypted.
pub(super) fn cut_leaf(
    cx: &mut Write<'_>,
    permit: &DestroyPermit<'_>,
    lsn: i64,
    cause_lsn: i64,
) -> Result<()> {
    for number in segment_numbers(lsn) {
        let Some(segment) = load_segment(cx, number)? else { continue };
        let Some(mut tree) = segment.decrypt_tree(cx) else { continue };
        if !tree.cut(lsn) {
            continue;
        }
        segment.replace(cx, permit, tree)?;
        scrub::request_segment_scrub(cx, number, cause_lsn)?;
    }
    Ok(())
}

const UPDATE_SEGMENT: &str =
    "update shelves set version = $4, sealed = $5 where workspace_id = $1 and shelf = $2 and version = $3";

/// Cuts all leaves up to position `lsn` out of the segment that contains this position.
///
/// [`remove_segments_up_to`] removes the earlier segments. The calling function must request the scrub.
pub(super) fn cut_leaves_up_to(cx: &mut Write<'_>, permit: &DestroyPermit<'_>, lsn: i64) -> Result<()> {
    for number in segment_numbers(lsn) {
        let Some(segment) = load_segment(cx, number)? else { continue };
        let Some(mut tree) = segment.decrypt_tree(cx) else { continue };
        let mut is_cut = false;
        for leaf in segment_number(lsn).saturating_mul(LEAVES)..=lsn {
            is_cut |= tree.cut(leaf);
        }
        if is_cut {
            segment.replace(cx, permit, tree)?;
        }
    }
    Ok(())
}

/// Removes up to `limit` segments of the caller's workspace that contain no position after `lsn`.
///
/// Returns whether more segments of this kind may remain.
pub(super) fn remove_segments_up_to(
    cx: &mut Write<'_>,
    _: &DestroyPermit<'_>,
    lsn: i64,
    limit: i64,
) -> Result<bool> {
    let workspace = cx.caller().workspace_id;
    let whole = segment_number(lsn.saturating_add(1));
    let removed = cx.change(DELETE_SEGMENTS, &[&workspace, &whole, &whole.saturating_neg(), &limit])?;
    Ok(i64::try_from(removed) == Ok(limit))
}

/// Removes segments and their substitutes. The numbers of substitutes are negative.
const DELETE_SEGMENTS: &str = "
    delete from shelves where workspace_id = $1 and shelf in (
        select shelf from shelves where workspace_id = $1 and shelf < $2 and shelf >= $3
        order by shelf limit $4)";

/// Identity of a key segment: the workspace and the number of the segment.
pub(crate) type KeySegmentId = (WorkspaceId, i64);

/// Result of one step of resealing key segments.
pub(crate) struct ResealProgress {
    /// Last segment that the step has read.
    pub last: KeySegmentId,
    /// Number of segments that the step has resealed.
    pub moved: u64,
}

/// Reseals the next segments after `after` that are not sealed with the current key-encryption key.
///
/// Returns `None` if no further segments need resealing. A segment that changes during the step is skipped,
/// because the change also seals it with the current key. A segment that cannot be decrypted is not changed.
pub(crate) fn rewrap(cx: &mut Write<'_>, after: Option<KeySegmentId>) -> Result<Option<ResealProgress>> {
    let (workspace, number) = after.unwrap_or((WorkspaceId::INSTANCE, i64::MIN));
    let current = cx.sealer().current_id().to_vec();
    let found: Vec<KeySegment> = cx.query(NOT_SEALED_BY, &[&workspace, &number, &current, &RESEALED_MAX])?;
    let Some(last) = found.last().map(|segment| (segment.workspace, segment.number)) else { return Ok(None) };
    let mut moved: u64 = 0;
    for segment in found {
        let Some(tree) = segment.decrypt_tree(cx) else { continue };
        let KeySegment { workspace, number, version, sealed } = segment;
        let new_sealed = cx.sealer().seal_tree(workspace, number, version, &tree)?;
        let changed = cx.change(RESEAL_SEGMENT, &[&workspace, &number, &version, &sealed, &new_sealed])?;
        moved = moved.saturating_add(changed);
    }
    if moved > 0 {
        // No event has a negative position, so the marks are unique.
        scrub::request_all_scrubs(cx, cx.now().micros().saturating_neg())?;
    }
    Ok(Some(ResealProgress { last, moved }))
}

/// Maximum key segments resealed in one step.
const RESEALED_MAX: i64 = 64;

/// Compares the first 8 sealed bytes, which are the id of the key-encryption key.
const NOT_SEALED_BY: &str = "
    select workspace_id, shelf, version, sealed from shelves
    where (workspace_id, shelf) > ($1, $2) and substr(sealed, 1, 8) <> $3
    order by workspace_id, shelf limit $4";

const RESEAL_SEGMENT: &str = "
    update shelves set sealed = $5 where workspace_id = $1 and shelf = $2 and version = $3 and sealed = $4";

/// Returns the number of segments sealed with each key-encryption key, by the id of the key.
pub(crate) fn count_by_key(cx: &Read<'_>) -> Result<Vec<(Vec<u8>, i64)>> {
    cx.query(COUNT_BY_KEY, &[])
}

const COUNT_BY_KEY: &str = "select substr(sealed, 1, 8), count(*) from shelves group by substr(sealed, 1, 8)";

/// The row of a key segment, with the sealed key tree.
struct KeySegment {
    workspace: WorkspaceId,
    number: i64,
    version: i64,
    sealed: Vec<u8>,
}

fn load_segment(cx: &Read<'_>, number: i64) -> Result<Option<KeySegment>> {
    let workspace = cx.caller().workspace_id;
    let found: Option<(i64, Vec<u8>)> = cx.one(SELECT_SEGMENT, &[&workspace, &number])?;
    Ok(found.map(|(version, sealed)| KeySegment { workspace, number, version, sealed }))
}

const SELECT_SEGMENT: &str = "select version, sealed from shelves where workspace_id = $1 and shelf = $2";

impl FromRow for KeySegment {
    fn from_row(row: &mut Row) -> Result<Self> {
        Ok(Self { workspace: row.take()?, number: row.take()?, version: row.take()?, sealed: row.take()? })
    }
}

impl KeySegment {
    /// Replaces the key tree in the row of the segment by `tree`, from which leaves were cut.
    fn replace(&self, cx: &mut Write<'_>, _: &DestroyPermit<'_>, tree: KeyTree) -> Result<()> {
        let workspace = self.workspace;
        let number = self.number;
        let version = self.version.saturating_add(1);
        let sealed = cx.sealer().seal_tree(workspace, number, version, &tree)?;
        cx.execute(1, UPDATE_SEGMENT, &[&workspace, &number, &self.version, &version, &sealed])?;
        tree_slot(cx, number)?.put(tree);
        Ok(())
    }

    /// Decrypts the key tree of the segment. If the row is damaged, writes to the server's log and returns
    /// `None`.
    fn decrypt_tree(&self, cx: &Read<'_>) -> Option<KeyTree> {
        let opened = cx.sealer().open_tree(self.workspace, self.number, self.version, &self.sealed);
        opened
            .inspect_err(|unopened| {
                let Self { workspace, number, .. } = self;
                tracing::error!(
                    %workspace, segment = number, %unopened, "a shelf of message keys does not open"
                );
            })
            .ok()
    }
}

/// Creates a segment with a new key tree, and returns the tree.
fn create_segment(cx: &mut Write<'_>, number: i64) -> Result<KeyTree> {
    let workspace = cx.caller().workspace_id;
    let tree = KeyTree::grow(cx.entropy())?;
    let sealed = cx.sealer().seal_tree(workspace, number, FIRST_VERSION, &tree)?;
    cx.execute(1, INSERT_SEGMENT, &[&workspace, &number, &FIRST_VERSION, &sealed])?;
    Ok(tree)
}

const FIRST_VERSION: i64 = 1;

const INSERT_SEGMENT: &str =
    "insert into shelves (workspace_id, shelf, version, sealed) values ($1, $2, $3, $4)";

/// Returns the slot of the connection's cache for the key tree of a segment.
///
/// The slot is dropped together with the connection's other cache entries, also when a transaction is rolled
/// back. Therefore a tree that was never committed wraps no key.
fn tree_slot(cx: &Read<'_>, number: i64) -> Result<Arc<Slot>> {
    let load = || Ok(CachedTreeSlot(cx.sealer().trees().new_slot()));
    cx.cached_or_load(&segment_cache_key(cx.caller().workspace_id, number), load)
        .map(|CachedTreeSlot(slot)| slot)
}

#[derive(Clone)]
struct CachedTreeSlot(Arc<Slot>);

impl Cached for CachedTreeSlot {
    /// A slot may be kept as long as the connection, because a leaf never changes and a slot empties itself.
    const LIFETIME: Lifetime = Lifetime::Connection;
}

fn segment_cache_key(workspace: WorkspaceId, segment: i64) -> [u8; 32] {
    let mut key = [0; 32];
    let bytes = workspace.uuid().into_bytes().into_iter().chain(segment.to_be_bytes());
    key.iter_mut().zip(bytes).for_each(|(to, from)| *to = from);
    key
}

/// Returns the error for a message whose leaf has already been cut.
fn cut_leaf_error() -> Error {
    Error::internal("the leaf of a message was cut out of its shelf while the message was being posted")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use uuid::Uuid;

    use super::*;
    use crate::entropy::Entropy;
    use crate::store::{Conn, migrate, sqlite_for_tests};
    use crate::time::Time;

    const PAGE: usize = 4096;
    const SHELVES: u16 = 300;
    const ROUNDS: usize = 8;
    const CHANGES: usize = 1000;
    /// Maximum nodes of a test tree.
    const NODES: usize = 400;
    const MARK: [u8; 2] = [0xF5, 0x5E];

    /// Returns test bytes with the length of a segment's row, filled with the segment's number and version.
    fn marked(segment: u16, version: u32, nodes: usize) -> Vec<u8> {
        let mark = [&MARK[..], &segment.to_be_bytes(), &version.to_be_bytes()].concat();
        let mut bytes = mark.repeat((36 + 34 * nodes) / mark.len());
        bytes.resize(36 + 34 * nodes, 0);
        bytes
    }

    /// Returns the numbers and versions of segments whose bytes occur in the file.
    fn found(file: &[u8]) -> BTreeSet<(u16, u32)> {
        let marks = file.chunks(PAGE).flat_map(|page| {
            let starts = page.iter().enumerate().filter(|(_, byte)| **byte == MARK[0]);
            starts.filter_map(|(at, _)| page.get(at..at + 8)).filter(|mark| mark[..2] == MARK)
        });
        let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        marks.map(|mark| (u16::from_be_bytes([mark[2], mark[3]]), number(&mark[4..]))).collect()
    }

    /// Test table: the statements that create and replace its rows.
    struct Table {
        make: &'static str,
        replace: &'static str,
    }

    /// Grows random rows one by one, as withdrawals do.
    ///
    /// Returns the number of replaced rows whose bytes remained in the file after the write-ahead log was
    /// truncated.
    fn left_behind(table: &Table) -> usize {
        let (folder, conn) = sqlite_for_tests();
        migrate::migrate(&conn, Time::from_micros(1)).unwrap();
        conn.batch(
            "create table plain (workspace_id blob not null, shelf bigint not null, version bigint not null,
                sealed blob not null, primary key (workspace_id, shelf))",
        )
        .unwrap();
        let entropy = Entropy::seeded(17);
        let mut rows: Vec<(u32, usize)> = Vec::new();
        let mut left = BTreeSet::new();
        for _ in 0..ROUNDS {
            conn.begin_write().unwrap();
            (0..CHANGES).for_each(|_| change(&conn, table, &mut rows, entropy.bytes().unwrap()));
            conn.commit(&Default::default()).unwrap();
            assert_eq!(conn.truncate_wal().unwrap(), crate::store::WalTruncation::Done);
            let found = found(&std::fs::read(folder.path().join("t.db")).unwrap());
            let current = |segment: u16| rows.get(usize::from(segment)).map(|(version, _)| *version);
            assert!(
                (0..SHELVES)
                    .all(|segment| current(segment).is_none_or(|version| found.contains(&(segment, version))))
            );
            left.extend(found.into_iter().filter(|(segment, version)| current(*segment) != Some(*version)));
        }
        left.len()
    }

    /// Creates a row, or replaces a row with a longer row.
    fn change(conn: &Conn, table: &Table, rows: &mut Vec<(u32, usize)>, [which, more, seldom, _]: [u8; 4]) {
        let workspace = WorkspaceId::from(Uuid::from_u128(7));
        if rows.len() < usize::from(SHELVES) && (rows.is_empty() || seldom < 16) {
            let number = u16::try_from(rows.len()).unwrap();
            rows.push((1, 1));
            let params: [&dyn crate::store::ToParam; 4] =
                [&workspace, &i64::from(number), &1, &marked(number, 1, 1)];
            conn.execute(table.make, &params).unwrap();
            return;
        }
        // The product of two random numbers makes some rows grow more often than others.
        let number = usize::from(which) * usize::from(more) % rows.len();
        let (version, nodes) = &mut rows[number];
        let before = i64::from(*version);
        (*version, *nodes) = (*version + 1, (*nodes + usize::from(more) % 12).min(NODES));
        let sealed = marked(u16::try_from(number).unwrap(), *version, *nodes);
        let params: [&dyn crate::store::ToParam; 5] =
            [&workspace, &i64::try_from(number).unwrap(), &before, &i64::from(*version), &sealed];
        assert_eq!(conn.execute(table.replace, &params).unwrap(), 1);
    }

    #[test]
    fn a_shelf_that_changed_meanwhile_is_not_sealed_anew() {
        let (_folder, conn) = sqlite_for_tests();
        migrate::migrate(&conn, Time::from_micros(1)).unwrap();
        let workspace = WorkspaceId::from(Uuid::from_u128(7));
        let [old, cut, new] = [1_u8, 2, 3].map(|byte| vec![byte; 60]);
        conn.execute(INSERT_SEGMENT, &[&workspace, &0_i64, &1_i64, &old]).unwrap();
        let seal =
            |version: i64| conn.execute(RESEAL_SEGMENT, &[&workspace, &0_i64, &version, &old, &new]).unwrap();
        // A withdrawal changes the segment between reading and resealing.
        conn.execute(UPDATE_SEGMENT, &[&workspace, &0_i64, &1_i64, &2_i64, &cut]).unwrap();
        assert_eq!((seal(1), seal(2)), (0, 0));
        conn.execute(UPDATE_SEGMENT, &[&workspace, &0_i64, &2_i64, &3_i64, &old]).unwrap();
        assert_eq!(seal(3), 1, "one that did not is");
        // A later withdrawal changes the new row.
        assert_eq!(conn.execute(UPDATE_SEGMENT, &[&workspace, &0_i64, &3_i64, &4_i64, &cut]).unwrap(), 1);
    }

    #[test]
    fn replaced_bytes_are_nowhere_in_a_sqlite_file() {
        let plain = Table {
            make: "insert into plain (workspace_id, shelf, version, sealed) values ($1, $2, $3, $4)",
            replace: "update plain set version = $4, sealed = $5
                      where workspace_id = $1 and shelf = $2 and version = $3",
        };
        let plain = left_behind(&plain);
        let apart = left_behind(&Table { make: INSERT_SEGMENT, replace: UPDATE_SEGMENT });
        eprintln!(
            "of {} rows that were replaced a plain table left {plain}, this one {apart}",
            ROUNDS * CHANGES
        );
        assert_ne!(plain, 0, "the search does not find what SQLite leaves behind");
        assert_eq!(apart, 0);
    }
}
