//! The prepared world that the examples of operations refer to.
//!
//! It has one of each thing, in the state that some example needs. Tests build such a world and send every
//! example through every transport; the documentation shows the sample ids.

use uuid::Uuid;

use crate::id::{ChannelId, LeaseId, MemberId, MessageId, ThreadId, TokenId, WorkspaceId};

/// The ids of a prepared world. The caller is its human admin, who holds every capability.
#[derive(Clone, Copy, Debug)]
pub struct Fixture {
    /// The workspace.
    pub workspace_id: WorkspaceId,
    /// The caller.
    pub admin_id: MemberId,
    /// An agent with a worker token.
    pub agent_id: MemberId,
    /// That worker token.
    pub agent_token_id: TokenId,
    /// A public channel.
    pub channel_id: ChannelId,
    /// A private channel with caller and agent as members.
    pub private_channel_id: ChannelId,
    /// A public channel that is archived.
    pub archived_channel_id: ChannelId,
    /// An open thread that anybody may claim.
    pub thread_id: ThreadId,
    /// Another open thread, which waits for `thread_id`.
    pub blocked_thread_id: ThreadId,
    /// A thread whose claim the caller holds.
    pub claimed_thread_id: ThreadId,
    /// The fencing id of that claim.
    pub lease_id: LeaseId,
    /// A thread with a result, set by the caller.
    pub done_thread_id: ThreadId,
    /// A message by the caller in `thread_id`, edited once.
    pub message_id: MessageId,
    /// A withdrawn message by the caller.
    pub withdrawn_message_id: MessageId,
}

impl Fixture {
    /// Returns the sample ids for the documentation.
    pub fn sample() -> Self {
        let id = |n: u128| Uuid::from_u128(0x0199_0000_0000_7000_8000_0000_0000_0000 + n);
        Self {
            workspace_id: id(1).into(),
            admin_id: id(2).into(),
            agent_id: id(3).into(),
            agent_token_id: id(4).into(),
            channel_id: id(5).into(),
            private_channel_id: id(6).into(),
            archived_channel_id: id(7).into(),
            thread_id: id(8).into(),
            blocked_thread_id: id(9).into(),
            claimed_thread_id: id(10).into(),
            lease_id: id(11).into(),
            done_thread_id: id(12).into(),
            message_id: id(13).into(),
            withdrawn_message_id: id(14).into(),
        }
    }
}
