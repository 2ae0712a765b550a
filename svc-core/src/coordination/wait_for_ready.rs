//! Waiting until there is a thread to claim.
//!
//! A wait reads the ready queue whenever an event may have made a thread ready for its caller.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
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

pub(crate) fn feature() -> Feature {
    Feature::new().operations(
        "claims",
        vec![
            wait("wait_for_ready", wait_for_ready)
                .title("Wait until there is a thread to claim")
                .when(
                    "Use when there is nothing to claim, to wait until there is: returns a thread that you \
                     could claim.",
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

/// Waits until there is a thread that you could claim, and returns its id.
///
/// It is not reserved: claim next, and expect `{}` if others were faster. Returns `{"timed_out": true}` on a
/// timeout.
///
/// If there is one, the call returns at once; a conflict may still prevent the claim. The thread is in one
/// channel, or in any that you may see. Of several waiting callers, the first is answered, and another one a
/// second later if the thread is still there. While you are frozen, no thread is returned.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WaitForReady {
    /// The workspace. It must be yours.
    workspace_id: OwnWorkspaceId,
    /// Only threads of this channel.
    channel_id: Option<ChannelId>,
    timeout_secs: Option<WaitSecs>,
}

impl LongPoll for WaitForReady {
    fn filter(&self) -> EventFilter {
        filter(self.channel_id)
    }

    fn timeout(&self) -> Duration {
        WaitSecs::timeout(self.timeout_secs)
    }

    fn supply(&self) -> Option<CountAvailable> {
        Some(queue::supply)
    }
}

/// A thread that can be claimed.
#[derive(Serialize, JsonSchema)]
struct ReadyThread {
    /// Always true.
    ready: bool,
    /// The thread that you would get.
    thread_id: ThreadId,
    /// The channel of the thread.
    channel_id: ChannelId,
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
    Ok(queue::next(cx, &wanted)?.map_or(Poll::Pending, |NextThread { thread_id, channel_id, .. }| {
        Poll::Ready(ReadyThread { ready: true, thread_id, channel_id })
    }))
}

/// The events that can make a thread of their channel ready.
const IN_ITS_CHANNEL: [&str; 9] = [
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

/// The events that can make threads of any channel ready: threads that waited for a cancelled one, and
/// threads with a conflict that has ended.
const ANYWHERE: [&str; 7] = [
    ThreadCancelled::KIND,
    ThreadAssignmentChanged::KIND,
    ClaimExpired::KIND,
    ThreadFootprintChanged::KIND,
    SlotCapacitySet::KIND,
    SlotCapacityCleared::KIND,
    RepoResumed::KIND,
];

/// The events that can make threads ready for the member they are about.
const FOR_ONE: [&str; 4] = [
    ChannelMemberAdded::KIND,
    MemberSkillsChanged::KIND,
    GovernanceSkillConferred::KIND,
    MemberUnfrozen::KIND,
];

/// Matches the events that can make a thread ready for another member, in one channel or in any.
fn filter(channel: Option<ChannelId>) -> EventFilter {
    let elsewhere = EventFilter::on(ANYWHERE).or(EventFilter::on(FOR_ONE).about_me());
    EventFilter::on(IN_ITS_CHANNEL).in_channel(channel).or(elsewhere)
}
