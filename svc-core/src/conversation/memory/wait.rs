//! Waiting until a memory block has a newer version.

use std::time::Duration;

use super::change::{MemoryBlockDeleted, MemoryBlockUpdated};
use super::{MemoryBlock, load_block_in};
use crate::Result;
use crate::id::BlockId;
use crate::identity::workspaces::OwnWorkspaceId;
use crate::log::bus::EventFilter;
use crate::log::event::Event;
use crate::op::{LongPoll, Poll, Read, WaitSecs};
use crate::request::request;
use crate::text::Count;

request! {
    /// Waits until a memory block has a newer version than the given version, and returns the block.
    ///
    /// Returns immediately if a newer version exists. A block deleted during the wait is not found. Returns
    /// `{"timed_out": true}` on timeout.
    pub(super) struct WaitForMemoryBlock {
        /// Id of your workspace.
        workspace_id: OwnWorkspaceId,
        /// Id of the block.
        block_id: BlockId,
        /// The version that you have read, or 0 for no version. Default: the current version.
        after_version: Option<Count<0, { i64::MAX }>>,
        timeout_secs: Option<WaitSecs>,
    }

    wait_for_memory_block(block_id: BlockId) -> crate::op::WaitOutput<MemoryBlock>
}

impl LongPoll for WaitForMemoryBlock {
    fn filter(&self) -> EventFilter {
        EventFilter::on([MemoryBlockUpdated::KIND, MemoryBlockDeleted::KIND])
    }

    fn timeout(&self) -> Duration {
        WaitSecs::timeout(self.timeout_secs)
    }
}

pub(super) fn wait_for_memory_block(
    cx: &Read<'_>,
    input: &mut WaitForMemoryBlock,
) -> Result<Poll<MemoryBlock>> {
    let block = load_block_in(cx, input.workspace_id, input.block_id)?;
    let after = match input.after_version {
        Some(after) => after,
        None => {
            let present = Count::new(block.version).map_err(crate::Error::internal)?;
            *input.after_version.insert(present)
        }
    };
    Ok(if block.version > after.get() { Poll::Ready(block) } else { Poll::Pending })
}
