//! The keys of stored messages: wrapping keys for rows, and decrypting them.
//!
//! The row of a message contains the message's key, wrapped by the leaf of the message's position in the key
//! tree.

use crate::Result;
use crate::conversation::key_segments;
use crate::id::{MemberId, MessageId, ThreadId};
use crate::log::key_tree::Binding;
use crate::log::seal::{DecryptionFailed, MessageKey};
use crate::op::{Read, Write};

/// Wraps the key of a message that is being posted at `lsn` of the caller's workspace.
pub(super) fn wrap_new_key(
    cx: &mut Write<'_>,
    binding: &Binding,
    lsn: i64,
    key: &MessageKey,
) -> Result<Vec<u8>> {
    key_segments::leaf_for_new_message(cx, lsn)?.wrap(binding, key, cx.entropy())
}

/// Wraps the key of an imported message that was posted at `lsn` of the caller's workspace.
pub(crate) fn wrap_imported_key(
    cx: &mut Write<'_>,
    message_id: MessageId,
    thread_id: ThreadId,
    author_id: Option<MemberId>,
    lsn: i64,
    key: [u8; 32],
) -> Result<Vec<u8>> {
    let binding = Binding { workspace_id: cx.caller().workspace_id, thread_id, author_id, message_id };
    wrap_new_key(cx, &binding, lsn, &MessageKey::from_bytes(key))
}

/// Decrypts the key of a message that was posted at `lsn`. `wrapped` is the wrapped key in the message's row.
///
/// The inner error means that the row contains no key, or that the key cannot be decrypted.
pub(super) fn open_key(
    cx: &Read<'_>,
    binding: &Binding,
    lsn: i64,
    wrapped: Option<&[u8]>,
) -> Result<Result<MessageKey, DecryptionFailed>> {
    let Some(wrapped) = wrapped else { return Ok(Err(DecryptionFailed)) };
    key_segments::open_with_leaf(cx, lsn, |leaf| leaf.unwrap(binding, wrapped))
}

/// Returns the key of a live message that was posted at `lsn`, as base64, or `None` if the key cannot be
/// decrypted.
///
/// The content of the message can be decrypted with the key, so only callers who may read all content may
/// receive it.
pub(crate) fn content_key(
    cx: &Read<'_>,
    binding: &Binding,
    lsn: i64,
    wrapped: Option<&[u8]>,
) -> Result<Option<String>> {
    Ok(open_key(cx, binding, lsn, wrapped)?.ok().map(|key| key.to_base64()))
}
