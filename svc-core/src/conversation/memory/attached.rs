//! Attaching memory blocks to threads, so that the members who work on a thread read its blocks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{MemoryBlock, load};
use crate::Result;
use crate::conversation::visibility::{ThreadPlace, visible_thread_place};
use crate::error::Error;
use crate::id::{BlockId, ThreadId};
use crate::limits::{MEMORY_BLOCK_THREADS_MAX, THREAD_MEMORY_BLOCKS_MAX};
use crate::log::event::{Event, Subject};
use crate::log::replay::ReplayedEvent;
use crate::op::{Answer, Read, Write};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::{dereferences, request};
use crate::store::{columns, new_row};

/// A memory block was attached to a thread.
#[derive(Serialize, JsonSchema)]
pub(super) struct MemoryBlockAttached {
    /// Id of the memory block.
    block_id: BlockId,
}

impl Event for MemoryBlockAttached {
    const KIND: &'static str = "MemoryBlockAttached";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let attached = event.row_of("thread_memory_blocks", "block_id $thread")?.made();
        attached.set("lsn", event.lsn()).keep()
    }
}

/// A memory block was detached from a thread.
#[derive(Serialize, JsonSchema)]
pub(super) struct MemoryBlockDetached {
    /// Id of the memory block.
    block_id: BlockId,
}

impl Event for MemoryBlockDetached {
    const KIND: &'static str = "MemoryBlockDetached";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        event.row_of("thread_memory_blocks", "block_id $thread")?.remove()
    }
}

/// An attachment of a memory block to a thread.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Attachment {
    /// Id of the thread.
    pub thread_id: ThreadId,
    /// Id of the memory block.
    pub block_id: BlockId,
    /// Position in the workspace's log at which the block was attached.
    pub lsn: i64,
}

columns! { attachment_columns: Attachment as a { thread_id, block_id, lsn } }

request! {
    /// Attaches a memory block to a thread, for the members who work on the thread, and returns the
    /// attachment.
    ///
    /// Attaching a block again changes nothing.
    ///
    /// Fails with 409 `wrong-state` if the thread's channel is archived, if the thread already has 20 blocks,
    /// or if the block is already attached to 10,000 threads.
    #[derive(Serialize)]
    pub(super) struct AttachMemoryBlock {
        /// Id of the thread.
        thread_id: ThreadId,
        /// Id of the block.
        block_id: BlockId,
    }

    attach_memory_block(thread_id: ThreadId, block_id: BlockId) -> Attachment
}

pub(super) fn attach_memory_block(cx: &mut Write<'_>, input: &AttachMemoryBlock) -> Result<Attachment> {
    let place = visible_thread_place(cx, input.thread_id)?;
    let block_id = load(cx, input.block_id)?.id;
    if let Some(attached) = cx.one(FIND_ATTACHMENT, &[&place.thread_id, &block_id])? {
        return Ok(attached);
    }
    place.check_not_archived()?;
    check_attachment_limits(cx, place.thread_id, block_id)?;
    let thread_id = place.thread_id;
    let lsn = cx.emit(subject(&place), &MemoryBlockAttached { block_id })?.lsn;
    cx.insert(&new_row!("insert into thread_memory_blocks" { thread_id, block_id, lsn }))?;
    Ok(Attachment { thread_id, block_id, lsn })
}

/// The answer to a repeated request is *not found* if the attachment was removed, even if the block was
/// attached again.
impl<I> Answer<I> for Attachment {
    type Kept = (ThreadId, BlockId, i64);

    fn kept(&self) -> Option<Self::Kept> {
        Some((self.thread_id, self.block_id, self.lsn))
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, (thread, block, lsn): Self::Kept) -> Result<Self> {
        let found: Option<Self> =
            cx.one(FIND_ATTACHMENT, &[&visible_thread_place(cx, thread)?.thread_id, &block])?;
        let found = found.filter(|attached| attached.lsn == lsn);
        found.ok_or_else(|| Error::not_found("memory block of the thread"))
    }
}

const FIND_ATTACHMENT: &str = concat!(
    "select ",
    attachment_columns!(),
    " from thread_memory_blocks a where a.thread_id = $1 and a.block_id = $2"
);

/// Fails if the thread already has the maximum number of blocks, or the block is attached to the maximum
/// number of threads.
fn check_attachment_limits(cx: &Read<'_>, thread: ThreadId, block: BlockId) -> Result<()> {
    let (blocks,) = cx.one::<(i64,)>(COUNT_BLOCKS, &[&thread])?.unwrap_or_default();
    if blocks >= THREAD_MEMORY_BLOCKS_MAX {
        return Err(Error::wrong_state(format!(
            "the thread has {THREAD_MEMORY_BLOCKS_MAX} memory blocks, the maximum"
        )));
    }
    let (threads,) =
        cx.one::<(i64,)>(COUNT_THREADS, &[&block, &MEMORY_BLOCK_THREADS_MAX])?.unwrap_or_default();
    if threads >= MEMORY_BLOCK_THREADS_MAX {
        let most = MEMORY_BLOCK_THREADS_MAX;
        return Err(Error::wrong_state(format!(
            "the memory block is attached to {most} threads, the maximum"
        )));
    }
    Ok(())
}

const COUNT_BLOCKS: &str = "select count(*) from thread_memory_blocks where thread_id = $1";

const COUNT_THREADS: &str = "
    select count(*) from (select 1 from thread_memory_blocks where block_id = $1 limit $2) found";

fn subject(place: &ThreadPlace) -> Subject {
    Subject::thread(place.channel_id, place.thread_id)
}

request! {
    /// Detaches a memory block from a thread, and returns the removed attachment. The block is not deleted.
    ///
    /// Fails with 404 `not-found` if the block is not attached to the thread; 409 `wrong-state` if the
    /// thread's channel is archived.
    #[derive(Serialize)]
    pub(super) struct DetachMemoryBlock {
        /// Id of the thread.
        thread_id: ThreadId,
        /// Id of the block.
        block_id: BlockId,
    }

    detach_memory_block(thread_id: ThreadId, block_id: BlockId) -> Attachment
}

pub(super) fn detach_memory_block(cx: &mut Write<'_>, input: &DetachMemoryBlock) -> Result<Attachment> {
    let place = visible_thread_place(cx, input.thread_id)?;
    let attached: Option<Attachment> = cx.one(FIND_ATTACHMENT, &[&place.thread_id, &input.block_id])?;
    let attached = attached.ok_or_else(|| Error::not_found("memory block of the thread"))?;
    place.check_not_archived()?;
    cx.execute(1, DETACH_BLOCK, &[&attached.thread_id, &attached.block_id])?;
    cx.emit(subject(&place), &MemoryBlockDetached { block_id: attached.block_id })?;
    Ok(attached)
}

const DETACH_BLOCK: &str = "delete from thread_memory_blocks where thread_id = $1 and block_id = $2";

/// A memory block that is attached to a thread.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct AttachedBlock {
    #[serde(flatten)]
    pub block: MemoryBlock,
    /// Position in the workspace's log at which the block was attached.
    pub attached_lsn: i64,
}

dereferences! { AttachedBlock => block: MemoryBlock }

request! {
    /// Returns the memory blocks that are attached to a thread, in the order in which they were attached.
    pub(super) struct ListThreadMemoryBlocks {
        /// Id of the thread.
        thread_id: ThreadId,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_thread_memory_blocks(thread_id: ThreadId) -> Page<AttachedBlock>
}

pub(super) fn list_thread_memory_blocks(
    cx: &Read<'_>,
    input: &ListThreadMemoryBlocks,
) -> Result<Page<AttachedBlock>> {
    let place = visible_thread_place(cx, input.thread_id)?;
    load_attached_page(cx, place.thread_id, input.cursor, input.limit)
}

/// Returns the first page of the memory blocks that are attached to a thread.
pub(crate) fn attached_blocks(cx: &Read<'_>, thread: ThreadId) -> Result<Vec<AttachedBlock>> {
    load_attached_page(cx, thread, None, None)?.into_items()
}

fn load_attached_page(
    cx: &Read<'_>,
    thread: ThreadId,
    cursor: Option<Cursor>,
    limit: Option<Limit>,
) -> Result<Page<AttachedBlock>> {
    let rows = cx.rows(LIST_ATTACHED, &[&thread, &Cursor::after(cursor), &rows_to_read(limit)])?;
    Page::of(rows, limit, |attached: &Attachment| attached.lsn).try_fill(
        |attached: &AttachedBlock| attached.attached_lsn,
        |Attachment { block_id, lsn, .. }| {
            Ok(AttachedBlock { block: load(cx, block_id)?, attached_lsn: lsn })
        },
    )
}

const LIST_ATTACHED: &str = concat!(
    "select ",
    attachment_columns!(),
    " from thread_memory_blocks a where a.thread_id = $1 and a.lsn > $2 order by a.lsn limit $3"
);
