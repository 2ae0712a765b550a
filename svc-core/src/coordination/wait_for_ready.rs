//! The operation that waits until a thread is ready for the caller to claim.
//!
//! A wait reads the ready queue after each event that may have made a thread ready for the waiting caller.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use crate::Result;
use crate::capability::Capability::WorkspaceRead;
use crate::conversation::channels::{ChannelMemberAdded, ChannelUnarchived, ChannelUpdated};
use crate::conversation::visibility;
use crate::coordination::budget_ops::thread::ThreadBudgetSet;
use crate::coordination::claims::{ClaimExpired, ThreadAssignmentChanged};
use crate::coordination::dead_letters::DeadLetterRequeued;
use crate::coordination::dependencies::{ThreadDependencyRemoved, ThreadReady};
use crate::coordination::footprint_ops::ThreadFootprintChanged;
use crate::coordination::freeze::MemberUnfrozen;
use crate::coordination::lifecycle::cancel::ThreadCancelled;
use crate::coordination::lifecycle::transition::ThreadStateChanged;
use crate::coordination::lifecycle::{ThreadCreated, ThreadSkillsChanged};
use crate::coordination::pauses::RepoResumed;
use crate::coordination::queue::{self, NextThread, QueueRequest, QueueScope};
use crate::coordination::slots::{SlotCapacityCleared, SlotCapacitySet};
use crate::id::{ChannelId, ThreadId};
use crate::identity::members::{GovernanceSkillConferred, MemberSkillsChanged};
use crate::identity::workspaces::OwnWorkspaceId;
use crate::log::bus::EventFilter;
use crate::log::event::Event;
use crate::op::{CountAvailable, Feature, LongPoll, Poll, Read, WaitSecs, wait};
use crate::request::request;

pub(crate) fn feature() -> Feature {
    Feature::new().operations(
        "claims",
        vec![
            wait("wait_for_ready", wait_for_ready)
                .title("Wait for a thread to claim")
                .when(
                    "Wait until a thread is ready for you to claim. Use after `claim_next_workspace_thread` \
                     returned `{}`.",
                )
                .get("/workspaces/{workspace_id}/wait/ready")
                .needs(&[WorkspaceRead])
                .example(|w| {
                    json!({"workspace_id": w.id("workspace"), "channel_id": w.id("channel"),
                       "timeout_secs": 1})
                }),
        ],
    )
}

request! {
    /// Waits until a thread is ready for you to claim, and returns the thread's id.
    ///
    /// The thread is not reserved: claim the next thread immediately, and expect `{}` if another member was
    /// faster. Returns `{"timed_out": true}` on a timeout.
    ///
    /// If a thread is already ready, the call returns immediately; a conflict may still prevent the claim.
    /// The thread is in `channel_id` or, by default, in any channel that you may see. If several callers
    /// wait, the first caller gets an answer, and the next caller one second later if the thread is still
    /// unclaimed. While you are frozen, no thread is returned.
    struct WaitForReady {
        /// Id of the workspace. It must be your own.
        workspace_id: OwnWorkspaceId,
        /// Only threads of this channel.
        channel_id: Option<ChannelId>,
        timeout_secs: Option<WaitSecs>,
    }

    wait_for_ready() -> crate::op::WaitOutput<ReadyThread>
}

impl LongPoll for WaitForReady {
    fn filter(&self) -> EventFilter {
        ready_event_filter(self.channel_id)
    }

    fn timeout(&self) -> Duration {
        WaitSecs::timeout(self.timeout_secs)
    }

    fn supply(&self) -> Option<CountAvailable> {
        Some(queue::count_newly_ready)
    }
}

/// A thread that can be claimed.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ReadyThread {
    /// Always true: a timeout returns `timed_out` instead.
    pub ready: bool,
    /// The thread that a claim of the next thread would return.
    pub thread_id: ThreadId,
    /// The channel of the thread.
    pub channel_id: ChannelId,
}

fn wait_for_ready(cx: &Read<'_>, input: &mut WaitForReady) -> Result<Poll<ReadyThread>> {
    input.workspace_id.of(cx)?;
    let scope = match input.channel_id {
        Some(channel) => QueueScope::Channel(visibility::visible_channel(cx, channel)?.id),
        None => QueueScope::Workspace,
    };
    if cx.caller().frozen {
        return Ok(Poll::Pending);
    }
    let wanted = QueueRequest { scope, repo: None };
    Ok(queue::find_next_thread(cx, &wanted)?.map_or(
        Poll::Pending,
        |NextThread { thread_id, channel_id, .. }| {
            Poll::Ready(ReadyThread { ready: true, thread_id, channel_id })
        },
    ))
}

/// The kinds of events that can make a thread in the event's channel ready.
const CHANNEL_EVENTS: [&str; 9] = [
    ThreadCreated::KIND,
    ThreadStateChanged::KIND,
    ThreadReady::KIND,
    ThreadSkillsChanged::KIND,
    ThreadDependencyRemoved::KIND,
    ThreadBudgetSet::KIND,
    DeadLetterRequeued::KIND,
    ChannelUpdated::KIND,
    ChannelUnarchived::KIND,
];

/// The kinds of events that can make threads in any channel ready.
///
/// Such threads waited for a cancelled thread, or had a conflict that no longer exists.
const WORKSPACE_EVENTS: [&str; 7] = [
    ThreadCancelled::KIND,
    ThreadAssignmentChanged::KIND,
    ClaimExpired::KIND,
    ThreadFootprintChanged::KIND,
    SlotCapacitySet::KIND,
    SlotCapacityCleared::KIND,
    RepoResumed::KIND,
];

/// The kinds of events that can make threads ready for the event's member.
const MEMBER_EVENTS: [&str; 4] = [
    ChannelMemberAdded::KIND,
    MemberSkillsChanged::KIND,
    GovernanceSkillConferred::KIND,
    MemberUnfrozen::KIND,
];

/// Returns a filter for the events that can make a thread ready for the caller, in one channel or in any.
fn ready_event_filter(channel: Option<ChannelId>) -> EventFilter {
    let elsewhere =
        EventFilter::on(WORKSPACE_EVENTS).or(EventFilter::on(MEMBER_EVENTS).about_waiting_member());
    EventFilter::on(CHANNEL_EVENTS).in_channel(channel).or(elsewhere)
}
