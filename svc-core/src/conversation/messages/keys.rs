//! The keys of stored messages.
//!
//! A key is opened by the leaf of its shelf or, until it is moved, by the key-encryption key, which wrapped
//! all keys before shelves existed. Old keys are moved here too, in bounded steps, until the old table is
//! empty.

use std::collections::BTreeMap;

use crate::Result;
use crate::conversation::{scrub, shelves};
use crate::id::{MemberId, MessageId, ThreadId, WorkspaceId};
use crate::identity::workspaces::is_live;
use crate::log::key_tree::Binding;
use crate::log::seal::{MessageKey, Unopened};
use crate::op::{DestroyPermit, Read, Write};
use crate::store::columns;

/// Wraps the key of a message that is posted at `lsn` of the caller's workspace.
pub(super) fn wrap_new(cx: &mut Write<'_>, bound: &Binding, lsn: i64, key: &MessageKey) -> Result<Vec<u8>> {
    shelves::leaf_for_new(cx, lsn)?.wrap(bound, key, cx.entropy())
}

/// Wraps the key that a message came with, which was posted at `lsn` of the caller's workspace.
pub(crate) fn wrap_imported(
    cx: &mut Write<'_>,
    message_id: MessageId,
    thread_id: ThreadId,
    author_id: Option<MemberId>,
    lsn: i64,
    key: [u8; 32],
) -> Result<Vec<u8>> {
    let bound = Binding { workspace_id: cx.caller().workspace_id, thread_id, author_id, message_id };
    wrap_new(cx, &bound, lsn, &MessageKey::from_bytes(key))
}

/// A message's wrapped key.
#[derive(Clone)]
pub(super) enum Wrapped {
    /// Wrapped by the leaf of the message's position.
    ByLeaf(Vec<u8>),
    /// Wrapped by the key-encryption key, in the table of old keys.
    ByKek(Vec<u8>),
}

/// The key that the key-encryption key wraps, of message `m`; null where the message's row has its key.
macro_rules! old_key {
    () => {
        "case when m.wrapped is null
             then (select k.wrapped from message_keys k where k.message_id = m.id) end"
    };
}
pub(crate) use old_key;

impl Wrapped {
    /// The key in the columns of the key that a leaf wraps and of the one that the key-encryption key wraps.
    pub fn of(by_leaf: Option<Vec<u8>>, by_kek: Option<Vec<u8>>) -> Option<Self> {
        by_leaf.map(Self::ByLeaf).or(by_kek.map(Self::ByKek))
    }

    /// Returns the key. The inner error means that it does not open.
    pub fn open(&self, cx: &Read<'_>, bound: &Binding, lsn: i64) -> Result<Result<MessageKey, Unopened>> {
        Ok(match self {
            Self::ByLeaf(wrapped) => open_by_leaf(cx, bound, lsn, wrapped)?,
            Self::ByKek(wrapped) => cx.sealer().unwrap(bound.message_id, wrapped),
        })
    }
}

fn open_by_leaf(
    cx: &Read<'_>,
    bound: &Binding,
    lsn: i64,
    wrapped: &[u8],
) -> Result<Result<MessageKey, Unopened>> {
    shelves::open_with_leaf(cx, lsn, |leaf| leaf.unwrap(bound, wrapped))
}

/// Returns the key of a message that lives, which was posted at `lsn`, as base64; none if it does not open.
/// `by_leaf` is what its row has of it.
///
/// Whoever gets it gets the words, so it is for those alone who may read all of them.
pub(crate) fn content_key(
    cx: &Read<'_>,
    bound: &Binding,
    lsn: i64,
    by_leaf: Option<&[u8]>,
) -> Result<Option<String>> {
    let key = match by_leaf {
        Some(wrapped) => Some(open_by_leaf(cx, bound, lsn, wrapped)?),
        None => {
            let wrapped = cx.one(OLD_OF_MESSAGE, &[&bound.message_id])?;
            wrapped.map(|(key,)| Wrapped::ByKek(key).open(cx, bound, lsn)).transpose()?
        }
    };
    Ok(key.and_then(|key| key.ok().map(|key| key.to_base64())))
}

const OLD_OF_MESSAGE: &str = "select wrapped from message_keys where message_id = $1";

/// Destroys the key of a message that was posted at `lsn`, for the event at `because`.
///
/// The message's row must no longer hold it.
pub(super) fn destroy(
    cx: &mut Write<'_>,
    permit: &DestroyPermit<'_>,
    (message, lsn): (MessageId, i64),
    wrapped: Option<&Wrapped>,
    because: i64,
) -> Result<()> {
    match wrapped {
        Some(Wrapped::ByLeaf(_)) => shelves::cut(cx, permit, lsn, because),
        Some(Wrapped::ByKek(_)) => {
            cx.execute(1, DELETE_OLD, &[&message])?;
            scrub::ask(cx, scrub::OLD_KEYS, because)
        }
        None => Ok(()),
    }
}

/// Removes the keys of messages that are not on a shelf.
pub(super) fn remove_old(cx: &mut Write<'_>, _: &DestroyPermit<'_>, messages: &[MessageId]) -> Result<()> {
    messages.iter().try_for_each(|id| cx.execute_any(DELETE_OLD, &[id]))
}

const DELETE_OLD: &str = "delete from message_keys where message_id = $1";

/// Number of old keys that one step moves.
const STEP: i64 = 250;

/// The adjacent old keys that one step moves: those after a message's up to another's.
pub(crate) struct Range {
    after: Option<MessageId>,
    /// The message of the last key.
    pub last: MessageId,
    /// The workspaces of the keys.
    pub workspaces: Vec<WorkspaceId>,
}

/// Returns the old keys that the next step moves: the first ones after that of message `after`.
pub(crate) fn next_range(cx: &Read<'_>, after: Option<MessageId>) -> Result<Option<Range>> {
    let from = after.unwrap_or(uuid::Uuid::nil().into());
    let found: Vec<(MessageId, WorkspaceId)> = cx.query(NEXT_OLD, &[&from, &STEP])?;
    let Some((last, _)) = found.last().copied() else { return Ok(None) };
    let workspaces: BTreeMap<WorkspaceId, ()> = found.into_iter().map(|(_, id)| (id, ())).collect();
    Ok(Some(Range { after, last, workspaces: workspaces.into_keys().collect() }))
}

const NEXT_OLD: &str = concat!(
    "select k.message_id, m.workspace_id
     from message_keys k join messages m on m.id = k.message_id
     where k.message_id > $1 and ",
    is_live!("m.workspace_id"),
    " order by k.message_id limit $2"
);

/// Returns how many old keys each key-encryption key wraps, by its id.
pub(crate) fn by_key(cx: &Read<'_>) -> Result<Vec<(Vec<u8>, i64)>> {
    cx.query(BY_KEY, &[])
}

const BY_KEY: &str =
    "select substr(wrapped, 1, 8), count(*) from message_keys group by substr(wrapped, 1, 8)";

struct OldKey {
    bound: Binding,
    lsn: i64,
    wrapped: Vec<u8>,
}

columns! {
    old_key_columns: OldKey as m { lsn, wrapped = "k.wrapped" }
    read { message_id = id, workspace_id, thread_id, author_id }
    make { bound: Binding { workspace_id, thread_id, author_id, message_id } }
}

/// Moves the old keys of a range that belong to the caller's workspace to its shelves.
///
/// A key that does not open stays where it is.
pub(crate) fn move_range(cx: &mut Write<'_>, range: &Range) -> Result<()> {
    let from = range.after.unwrap_or(uuid::Uuid::nil().into());
    let workspace = cx.caller().workspace_id;
    let found: Vec<OldKey> = cx.query(OLD_IN_RANGE, &[&from, &range.last, &workspace])?;
    let mut last_moved = None;
    for old in found {
        let id = old.bound.message_id;
        match cx.sealer().unwrap(id, &old.wrapped) {
            Ok(key) => {
                let wrapped = wrap_new(cx, &old.bound, old.lsn, &key)?;
                cx.execute(1, PUT_ON_SHELF, &[&id, &wrapped])?;
                cx.execute(1, DELETE_OLD, &[&id])?;
                last_moved = Some(old.lsn);
            }
            Err(unopened) => {
                tracing::warn!(message = %id, %unopened, "an old key cannot be moved to a shelf")
            }
        }
    }
    // The key of that message is never moved again, so no other mark is like this one.
    last_moved.map_or(Ok(()), |lsn| scrub::ask(cx, scrub::OLD_KEYS, lsn))
}

const OLD_IN_RANGE: &str = concat!(
    "select ",
    old_key_columns!(),
    " from message_keys k join messages m on m.id = k.message_id
     where k.message_id > $1 and k.message_id <= $2 and m.workspace_id = $3 order by k.message_id"
);

const PUT_ON_SHELF: &str = "update messages set wrapped = $2 where id = $1 and wrapped is null";
