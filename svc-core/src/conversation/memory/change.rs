//! Creating, changing and deleting memory blocks.
//!
//! While the workspace is under a legal hold, replaced values and descriptions are kept, and no block can be
//! deleted.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value as Json;

use super::{MemoryBlock, TABLE, load_block_in};
use crate::Result;
use crate::capability::Capability::ChannelAdmin;
use crate::error::{Code, Error};
use crate::id::BlockId;
use crate::identity::workspaces::OwnWorkspaceId;
use crate::limits::{MEMORY_DEFAULT_CHARS, MEMORY_DESCRIPTION_MAX, MEMORY_MAX, MEMORY_MAX_CHARS, NAME_MAX};
use crate::log::event::{Event, Subject};
use crate::log::replay::{ReplayedEvent, RowChange};
use crate::op::{Caller, DestroyPermit, Write, purged};
use crate::request::request;
use crate::schema::default_is;
use crate::text::{Change, Count, Patch, Prose, Text, characters};

type Label = Text<1, NAME_MAX>;
type Description = Prose<1, MEMORY_DESCRIPTION_MAX>;
type Value = Prose<0, MEMORY_MAX>;
type CharLimit = Count<1, MEMORY_MAX_CHARS>;

/// Name under which a legal hold preserves replaced descriptions of blocks.
const DESCRIPTIONS: &str = "memory_blocks.description";

/// A memory block was created.
#[derive(Serialize, JsonSchema)]
pub(super) struct MemoryBlockCreated {
    /// Id of the memory block.
    block_id: BlockId,
    /// Label of the block.
    label: String,
    /// Version of the block, which is 1.
    version: i64,
    /// Length of the block's value, in characters.
    size: i64,
    /// Maximum length of the block's value, in characters.
    limit: i64,
    /// Whether the block has a description.
    described: bool,
    /// Whether only the block's creator and members with `channel:admin` may change the block.
    read_only: bool,
}

impl Event for MemoryBlockCreated {
    const KIND: &'static str = "MemoryBlockCreated";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let block = event.row_of(TABLE, "block_id")?.made().set("created_by", event.subject());
        replay_fields(event, block)
    }
}

/// Replays the columns of a block that the events of its creation and its changes have in common.
fn replay_fields(event: &ReplayedEvent<'_>, block: RowChange<'_>) -> Result<()> {
    let block = block.copy("label version read_only").set_to("char_limit", "limit");
    let block = block.set_to("value", "size").set_to("description", "described");
    let block = block.set("updated_by", event.subject()).set("at", event.at());
    block.set("lsn", event.lsn()).keep()
}

/// A memory block was changed. The fields contain the values after the change.
#[derive(Serialize, JsonSchema)]
pub(super) struct MemoryBlockUpdated {
    /// Id of the memory block.
    block_id: BlockId,
    /// Label of the block.
    label: String,
    /// Version of the block, which rises with each change.
    version: i64,
    /// Length of the block's value, in characters.
    size: i64,
    /// Maximum length of the block's value, in characters.
    limit: i64,
    /// Whether the block has a description.
    described: bool,
    /// Whether only the block's creator and members with `channel:admin` may change the block.
    read_only: bool,
}

impl Event for MemoryBlockUpdated {
    const KIND: &'static str = "MemoryBlockUpdated";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        replay_fields(event, event.row_of(TABLE, "block_id")?)
    }
}

/// A memory block was deleted and thereby detached from all threads.
#[derive(Serialize, JsonSchema)]
pub(super) struct MemoryBlockDeleted {
    /// Id of the memory block.
    block_id: BlockId,
}

impl Event for MemoryBlockDeleted {
    const KIND: &'static str = "MemoryBlockDeleted";

    fn replay(event: &ReplayedEvent<'_>) -> Result<()> {
        let block: Vec<_> = event.field("block_id").cloned().into_iter().collect();
        if block.is_empty() {
            return Ok(());
        }
        event.rows("thread_memory_blocks", &block, |attached| attached.remove())?;
        event.row(TABLE, block)?.remove()
    }
}

request! {
    /// Creates a memory block, a text that members share, and returns the block.
    ///
    /// Every member of the workspace may read the block, even if it is attached only to threads of private
    /// channels.
    #[derive(Serialize)]
    pub(super) struct CreateMemoryBlock {
        /// Id of your workspace.
        workspace_id: OwnWorkspaceId,
        /// Label of the block. It need not be unique.
        label: Label,
        /// Purpose of the block.
        description: Option<Description>,
        /// Maximum characters of the value: 1 to 100,000. Default: 5000.
        limit: Option<CharLimit>,
        /// Whether only you and members with `channel:admin` may change the block.
        #[schemars(transform = default_is("false"))]
        #[serde(default)]
        read_only: bool,
        /// Text of the block.
        #[schemars(transform = default_is("nothing"))]
        value: Option<Value>,
    }

    create_memory_block(label: Label) -> MemoryBlock
}

pub(super) fn create_memory_block(cx: &mut Write<'_>, input: &CreateMemoryBlock) -> Result<MemoryBlock> {
    let workspace_id = input.workspace_id.of(cx)?;
    let mut block = MemoryBlock {
        id: cx.new_id()?,
        workspace_id,
        label: input.label.to_string(),
        description: input.description.as_deref().map(str::to_owned),
        limit: input.limit.map_or(MEMORY_DEFAULT_CHARS, Count::get),
        read_only: input.read_only,
        value: input.value.as_deref().unwrap_or_default().to_owned(),
        version: 1,
        created_by: cx.caller().member,
        updated_by: cx.caller().member,
        updated_at: cx.now(),
        lsn: 0,
    };
    let event = MemoryBlockCreated {
        block_id: block.id,
        label: block.label.clone(),
        version: block.version,
        size: checked_size(&block)?,
        limit: block.limit,
        described: block.description.is_some(),
        read_only: block.read_only,
    };
    let recorded = cx.emit(Subject::WORKSPACE, &event)?;
    (block.updated_at, block.lsn) = (recorded.at, recorded.lsn);
    block.with_new_row(|row| cx.insert(row))?;
    Ok(block)
}

/// Returns the length of a block's value, in characters. Fails if the length exceeds the block's limit.
fn checked_size(block: &MemoryBlock) -> Result<i64> {
    let size = characters(&block.value);
    let limit = block.limit;
    if size <= limit {
        return Ok(size);
    }
    Err(Error::in_field("value", format!("{size} characters, and the limit of the block is {limit}")))
}

request! {
    /// Changes a memory block and returns it.
    ///
    /// The whole value is replaced, and the last writer wins. With `expected_version`, the call fails if the
    /// block has another version. Absent fields keep their value.
    ///
    /// Fails with 403 `forbidden` if the block is read-only, or you change `read_only`, and you did not
    /// create the block and lack `channel:admin`; 409 `version-conflict`, with the current `version` and the
    /// member who wrote it in `updated_by`, if the current version is not `expected_version`.
    #[derive(Serialize)]
    pub(super) struct SetMemoryBlock {
        /// Id of your workspace.
        workspace_id: OwnWorkspaceId,
        /// Id of the block.
        block_id: BlockId,
        /// New label of the block.
        #[serde(default, skip_serializing_if = "Change::is_keep")]
        label: Change<Label>,
        /// New purpose of the block; null removes it.
        #[serde(default, skip_serializing_if = "Patch::is_keep")]
        description: Patch<Description>,
        /// Maximum characters of the value: up to 100,000, but not fewer than the value has.
        #[serde(default, skip_serializing_if = "Change::is_keep")]
        limit: Change<CharLimit>,
        /// Whether only the block's creator and members with `channel:admin` may change the block.
        #[serde(default, skip_serializing_if = "Change::is_keep")]
        read_only: Change<bool>,
        /// New text of the block.
        #[serde(default, skip_serializing_if = "Change::is_keep")]
        value: Change<Value>,
        /// The version that you have read. Default: any version.
        expected_version: Option<Count<1, { i64::MAX }>>,
    }

    set_memory_block(block_id: BlockId) clears(description => clear_description) -> MemoryBlock
}

pub(super) fn set_memory_block(cx: &mut Write<'_>, input: &SetMemoryBlock) -> Result<MemoryBlock> {
    let before = load_block_in(cx, input.workspace_id, input.block_id)?;
    let mut block = apply_change(&before, input);
    if before.read_only || block.read_only != before.read_only {
        check_may_administer(cx.caller(), &before)?;
    }
    if input.expected_version.is_some_and(|expected| expected.get() != before.version) {
        let detail = format!("the version of the block is {}", before.version);
        let conflict = Error::new(Code::VersionConflict, detail);
        return Err(conflict.with("version", before.version).with("updated_by", before.updated_by));
    }
    let size = checked_size(&block)?;
    if block == before {
        return Ok(block);
    }
    block.version = before.version.saturating_add(1);
    block.updated_by = cx.caller().member;
    let event = MemoryBlockUpdated {
        block_id: block.id,
        label: block.label.clone(),
        version: block.version,
        size,
        limit: block.limit,
        described: block.description.is_some(),
        read_only: block.read_only,
    };
    let recorded = cx.emit(Subject::WORKSPACE, &event)?;
    (block.updated_at, block.lsn) = (recorded.at, recorded.lsn);
    replace_block(cx, &before, &block)?;
    Ok(block)
}

/// Returns the block with the requested changes. Its version, author and time are not changed yet.
fn apply_change(before: &MemoryBlock, input: &SetMemoryBlock) -> MemoryBlock {
    let mut block = before.clone();
    if let Some(label) = input.label.get() {
        block.label = label.to_string();
    }
    match &input.description {
        Patch::Keep => {}
        Patch::Clear => block.description = None,
        Patch::Set(description) => block.description = Some(description.to_string()),
    }
    if let Some(limit) = input.limit.get() {
        block.limit = limit.get();
    }
    if let Some(read_only) = input.read_only.get() {
        block.read_only = *read_only;
    }
    if let Some(value) = input.value.get() {
        block.value = value.to_string();
    }
    block
}

/// Fails unless the caller is the creator of the block or has `channel:admin`.
fn check_may_administer(caller: &Caller, block: &MemoryBlock) -> Result<()> {
    let created = block.created_by.is_some() && block.created_by == caller.member;
    if created || caller.capabilities.has(ChannelAdmin) {
        return Ok(());
    }
    let who = "only the creator of a block or a member with channel:admin decides whether it is read-only, \
               and changes it while it is";
    Err(Error::forbidden(who))
}

/// Writes a changed block to its row. Replaced texts are kept if a legal hold requires it.
fn replace_block(cx: &mut Write<'_>, before: &MemoryBlock, block: &MemoryBlock) -> Result<()> {
    let id = block.id.uuid();
    if block.value != before.value {
        cx.keep_replaced(TABLE, id, before.version, &before.value)?;
    }
    if let Some(description) = before.description.as_ref().filter(|_| block.description != before.description)
    {
        cx.keep_replaced(DESCRIPTIONS, id, before.version, description)?;
    }
    let MemoryBlock { label, description, limit, read_only, value, version, updated_by, updated_at, .. } =
        block;
    cx.execute(
        1,
        UPDATE_BLOCK,
        &[
            &block.id,
            label,
            description,
            limit,
            read_only,
            value,
            version,
            updated_by,
            updated_at,
            &block.lsn,
        ],
    )
}

const UPDATE_BLOCK: &str = "
    update memory_blocks set label = $2, description = $3, char_limit = $4, read_only = $5, value = $6,
        version = $7, updated_by = $8, at = $9, lsn = $10
    where id = $1";

request! {
    /// Deletes a memory block, detaches it from all threads, and returns the deleted block.
    ///
    /// Fails with 403 `forbidden` if the block is read-only, you did not create the block and you lack
    /// `channel:admin`; 409 `legal-hold` if the workspace is under a legal hold.
    #[derive(Serialize)]
    pub(super) struct DeleteMemoryBlock {
        /// Id of your workspace.
        workspace_id: OwnWorkspaceId,
        /// Id of the block.
        block_id: BlockId,
    }

    delete_memory_block(block_id: BlockId) -> MemoryBlock
}

pub(super) fn delete_memory_block(cx: &mut Write<'_>, input: &DeleteMemoryBlock) -> Result<MemoryBlock> {
    let block = load_block_in(cx, input.workspace_id, input.block_id)?;
    if block.read_only {
        check_may_administer(cx.caller(), &block)?;
    }
    let permit = cx.permit()?;
    remove_block(cx, &permit, block.id)?;
    cx.emit(Subject::WORKSPACE, &MemoryBlockDeleted { block_id: block.id })?;
    Ok(block)
}

fn remove_block(cx: &mut Write<'_>, _: &DestroyPermit<'_>, block: BlockId) -> Result<()> {
    cx.execute_any(DETACH_FROM_THREADS, &[&block])?;
    cx.execute(1, DELETE_BLOCK, &[&block])
}

const DETACH_FROM_THREADS: &str = "delete from thread_memory_blocks where block_id = $1";

const DELETE_BLOCK: &str = "delete from memory_blocks where id = $1";

/// Purges the values and descriptions of some blocks. The rows remain, with their labels, so that no version
/// number is used twice.
pub(super) fn purge_batch(
    cx: &mut Write<'_>,
    _: &DestroyPermit<'_>,
    (_, up_to): (i64, i64),
    limit: i64,
) -> Result<Option<(i64, i64)>> {
    let workspace = cx.caller().workspace_id;
    purged(cx.change(PURGE_BLOCKS, &[&workspace, &up_to, &limit])?)
}

const PURGE_BLOCKS: &str = "
    update memory_blocks set description = null, value = '', version = version + 1
    where id in (
        select id from memory_blocks
        where workspace_id = $1 and lsn <= $2 and (value <> '' or description is not null) limit $3)";

/// Replays a purge: empties the values and descriptions of blocks that were last changed up to a log
/// position.
pub(crate) fn replay_purged(event: &ReplayedEvent<'_>, up_to: i64) -> Result<()> {
    event.rows(TABLE, &[], |block| {
        let int = |column| block.value(column).and_then(Json::as_i64);
        if int("lsn").is_none_or(|lsn| lsn > up_to) {
            return Ok(());
        }
        let is_described = block.value("description").and_then(Json::as_bool);
        let block = match (int("value"), is_described) {
            (Some(0), Some(false)) => return Ok(()),
            (Some(1..), _) | (_, Some(true)) => block.add("version", 1),
            // Events of older versions of the service do not show whether the block had any text to purge.
            _ => block.set_known("version", None),
        };
        block.set("value", 0).set("description", false).keep()
    })
}
