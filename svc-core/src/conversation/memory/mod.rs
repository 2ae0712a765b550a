//! Memory blocks: texts that members of a workspace share, and attach to the threads that need the texts.
//!
//! A change replaces the whole value of a block, and the last writer wins, unless a writer sends the version
//! that it has read. Events contain the version of a block and the length of its value, not the value. This
//! file defines and reads blocks; `change` creates, changes and deletes blocks, `attached` attaches blocks to
//! threads, and `wait` waits for the next version of a block.

pub(crate) mod change;
pub(crate) mod attached;
pub(crate) mod wait;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::Result;
use crate::capability::Capability::{WorkspaceRead, WorkspaceWrite};
use crate::error::{Code, Error};
use crate::id::{BlockId, MemberId, WorkspaceId};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::log::event::EventKind;
use crate::op::{
    Answer, Class, Feature, Operation, Read, Records, Sample, destructive, idempotent, read,
    wait as wait_for, write,
};
use crate::page::{Cursor, Limit, Page, rows_to_read};
use crate::request::request;
use crate::store::columns;
use crate::time::Time;
pub(crate) use attached::{AttachedBlock, attached_blocks};
pub(crate) use change::replay_purged;
use change::{MemoryBlockCreated, MemoryBlockDeleted, MemoryBlockUpdated};

/// Name of the table. A legal hold also preserves replaced values of blocks under this name.
const TABLE: &str = "memory_blocks";

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations("memory", operations())
        .events(vec![
            EventKind::of::<MemoryBlockCreated>(),
            EventKind::of::<MemoryBlockUpdated>(),
            EventKind::of::<MemoryBlockDeleted>(),
            EventKind::of::<attached::MemoryBlockAttached>(),
            EventKind::of::<attached::MemoryBlockDetached>(),
        ])
        .sample(
            Sample::new("memory_block", "create_memory_block", |w| {
                json!({"workspace_id": w.id("workspace"), "label": "conventions",
                       "value": "Names are nouns."})
            })
            .then(
                "attach_memory_block",
                |w| json!({"thread_id": w.id("thread"), "block_id": w.id("memory_block")}),
            ),
        )
        .records(vec![
            Records::table(TABLE, "lsn id")
                .after("members")
                .ids("id workspace_id created_by updated_by")
                .texts("label")
                .bools("read_only")
                .ints("char_limit version lsn")
                .times("at")
                .words("description value", change::purge_batch)
                .proven("id", "label read_only char_limit version created_by updated_by at lsn")
                // Events contain the length of the text only, because the text may be destroyed.
                .proven_as("value", Class::Int, "t.value")
                .proven_as("description", Class::Bool, "t.description"),
            Records::table("thread_memory_blocks", "thread_id block_id")
                .through("thread_id", "threads")
                .after(TABLE)
                .ids("thread_id block_id")
                .ints("lsn")
                .proven("block_id thread_id", "lsn"),
        ])
}

fn operations() -> Vec<Operation> {
    vec![
        write("create_memory_block", change::create_memory_block)
            .title("Create a memory block")
            .when(
                "Create a memory block: a text that all members share. Use `attach_memory_block` to show it \
                 to the workers of a thread.",
            )
            .post("/workspaces/{workspace_id}/memory-blocks")
            .needs(&[WorkspaceWrite])
            .created()
            .example(|w| {
                json!({"workspace_id": w.id("workspace"), "label": "decisions",
                       "description": "What was decided, and why", "limit": 20_000, "read_only": true,
                       "value": "The lexer has four states."})
            }),
        read("list_memory_blocks", list_memory_blocks)
            .title("List the memory blocks of a workspace")
            .when(
                "List the memory blocks (shared texts) of the workspace. Use `list_thread_memory_blocks` for \
                 those of one thread.",
            )
            .detailed()
            .get("/workspaces/{workspace_id}/memory-blocks")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"workspace_id": w.id("workspace"), "limit": 10})),
        read("get_memory_block", get_memory_block)
            .quick()
            .resumes_text("value")
            .title("Read a memory block")
            .when("Get one memory block (shared text) by its id. Use `list_memory_blocks` to find the id.")
            .get("/workspaces/{workspace_id}/memory-blocks/{block_id}")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"workspace_id": w.id("workspace"), "block_id": w.id("memory_block")})),
        idempotent("set_memory_block", change::set_memory_block)
            .title("Rewrite a memory block")
            .when("Change the text or settings of a memory block. Use `create_memory_block` to add a block.")
            .put("/workspaces/{workspace_id}/memory-blocks/{block_id}")
            .needs(&[WorkspaceWrite])
            .refuses(&[Code::Forbidden, Code::VersionConflict])
            .example(|w| {
                json!({"workspace_id": w.id("workspace"), "block_id": w.id("memory_block"),
                       "value": "Names are nouns; a function's name is a verb.", "expected_version": 1})
            }),
        destructive("delete_memory_block", change::delete_memory_block)
            .title("Delete a memory block")
            .when(
                "Delete a memory block, and detach it from every thread. Use `detach_memory_block` to remove \
                 it from one thread.",
            )
            .delete("/workspaces/{workspace_id}/memory-blocks/{block_id}")
            .needs(&[WorkspaceWrite])
            .refuses(&[Code::Forbidden, Code::LegalHold])
            .example(|w| json!({"workspace_id": w.id("workspace"), "block_id": w.id("memory_block")})),
        idempotent("attach_memory_block", attached::attach_memory_block)
            .title("Attach a memory block to a thread")
            .when("Attach a memory block (shared text) to a thread, so that `get_thread_context` returns it.")
            .put("/threads/{thread_id}/memory-blocks/{block_id}")
            .needs(&[WorkspaceWrite])
            .refuses(&[Code::WrongState])
            .example(|w| json!({"thread_id": w.id("thread"), "block_id": w.id("memory_block")})),
        destructive("detach_memory_block", attached::detach_memory_block)
            .title("Detach a memory block from a thread")
            .when("Detach a memory block from one thread. The block is not deleted.")
            .reversible()
            .delete("/threads/{thread_id}/memory-blocks/{block_id}")
            .needs(&[WorkspaceWrite])
            .refuses(&[Code::NotFound, Code::WrongState])
            .example(|w| json!({"thread_id": w.id("thread"), "block_id": w.id("memory_block")})),
        read("list_thread_memory_blocks", attached::list_thread_memory_blocks)
            .title("List the memory blocks of a thread")
            .when("List the memory blocks attached to a thread. `get_thread_context` also returns them.")
            .detailed()
            .get("/threads/{thread_id}/memory-blocks")
            .needs(&[WorkspaceRead])
            .example(|w| json!({"thread_id": w.id("thread"), "limit": 10})),
        wait_for("wait_for_memory_block", wait::wait_for_memory_block)
            .title("Wait for a change of a memory block")
            .when("Wait until a memory block has a newer version than the one that you have read.")
            .get("/workspaces/{workspace_id}/memory-blocks/{block_id}/wait")
            .needs(&[WorkspaceRead])
            .example(|w| {
                json!({"workspace_id": w.id("workspace"), "block_id": w.id("memory_block"),
                       "after_version": 0, "timeout_secs": 1})
            }),
    ]
}

/// A memory block: a text that the members of a workspace share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct MemoryBlock {
    /// Id of the memory block.
    pub id: BlockId,
    /// Id of the block's workspace. All members of the workspace may read the block.
    pub workspace_id: WorkspaceId,
    /// Label of the block. Other blocks may have the same label.
    pub label: String,
    /// Purpose of the block; null if not set.
    pub description: Option<String>,
    /// Maximum length of the block's value, in characters.
    pub limit: i64,
    /// Whether only the block's creator and members with `channel:admin` may change the block.
    pub read_only: bool,
    /// Value of the block: the shared text.
    pub value: String,
    /// Version of the block, which starts at 1 and rises with each change.
    pub version: i64,
    /// Id of the member who created the block; null if the service itself created it.
    pub created_by: Option<MemberId>,
    /// Id of the member who last changed the block; null if the service itself changed it.
    pub updated_by: Option<MemberId>,
    /// Time at which the block was last changed.
    pub updated_at: Time,
    /// Position in the workspace's log of the last change of the block.
    pub lsn: i64,
}

columns! {
    block_columns: MemoryBlock as b {
        id,
        workspace_id,
        label,
        description,
        limit = char_limit,
        read_only,
        value,
        version,
        created_by,
        updated_by,
        updated_at = at,
        lsn,
    }
    insert "insert into memory_blocks" {}
}

impl<I> Answer<I> for MemoryBlock {
    type Kept = BlockId;

    fn kept(&self) -> Option<BlockId> {
        Some(self.id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, id: BlockId) -> Result<Self> {
        load(cx, id)
    }
}

request! {
    /// Returns the memory blocks of a workspace, in the order in which they were last changed.
    struct ListMemoryBlocks {
        /// Id of your workspace.
        workspace_id: OwnWorkspaceId,
        cursor: Option<Cursor>,
        limit: Option<Limit>,
    }

    list_memory_blocks() -> Page<MemoryBlock>
}

fn list_memory_blocks(cx: &Read<'_>, input: &ListMemoryBlocks) -> Result<Page<MemoryBlock>> {
    let workspace_id = input.workspace_id.of(cx)?;
    let after = Cursor::after(input.cursor);
    let rows = rows_to_read(input.limit);
    let blocks = cx.rows(LIST_BLOCKS, &[&workspace_id, &after, &rows])?;
    Ok(Page::of(blocks, input.limit, |block: &MemoryBlock| block.lsn))
}

const LIST_BLOCKS: &str = concat!(
    "select ",
    block_columns!(),
    " from memory_blocks b where b.workspace_id = $1 and b.lsn > $2 order by b.lsn limit $3"
);

request! {
    /// Returns one memory block, a text that members share, by its id.
    struct GetMemoryBlock {
        /// Id of your workspace.
        workspace_id: OwnWorkspaceId,
        /// Id of the block.
        block_id: BlockId,
    }

    get_memory_block(block_id: BlockId) -> MemoryBlock
}

fn get_memory_block(cx: &Read<'_>, input: &GetMemoryBlock) -> Result<MemoryBlock> {
    load_block_in(cx, input.workspace_id, input.block_id)
}

/// Loads a memory block. Fails with *not found* if `workspace` is not the caller's workspace.
fn load_block_in(cx: &Read<'_>, workspace: OwnWorkspaceId, id: BlockId) -> Result<MemoryBlock> {
    workspace.of(cx)?;
    load(cx, id)
}

/// Loads a memory block of the caller's workspace.
fn load(cx: &Read<'_>, id: BlockId) -> Result<MemoryBlock> {
    let found = cx.one(SELECT_BLOCK, &[&id, &cx.caller().workspace_id])?;
    found.ok_or_else(|| Error::not_found("memory block"))
}

const SELECT_BLOCK: &str =
    concat!("select ", block_columns!(), " from memory_blocks b where b.id = $1 and b.workspace_id = $2");
