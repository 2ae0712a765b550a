//! The projector of the ready queue, which updates the queue after events that may change it.
//!
//! The module of the queue is above the features that emit these events, so that the features can use the
//! queue. This module is below all these features.

use std::collections::{BTreeMap, BTreeSet};

use crate::Result;
use crate::conversation::channels::{ChannelArchived, ChannelUnarchived, ChannelUpdated};
use crate::coordination::budget_ops::thread::ThreadBudgetSet;
use crate::coordination::claims::{ClaimExpired, ThreadAssignmentChanged};
use crate::coordination::dead_letters::{ClaimFailed, DeadLetterRequeued};
use crate::coordination::dependencies::{ThreadDependencyAdded, ThreadDependencyRemoved, ThreadReady};
use crate::coordination::footprint_ops::ThreadFootprintChanged;
use crate::coordination::lifecycle::cancel::ThreadCancelled;
use crate::coordination::lifecycle::transition::ThreadStateChanged;
use crate::coordination::lifecycle::{ThreadCreated, ThreadPriorityChanged, ThreadSkillsChanged};
use crate::coordination::queue::{
    move_to_current_pool, refresh_channel, refresh_ready_and_parked, refresh_thread,
};
use crate::coordination::results::ThreadResultSet;
use crate::coordination::thread_row::threads_of_workspace;
use crate::id::{ChannelId, ThreadId};
use crate::log::event::{Event, RecordedEvent};
use crate::op::{Feature, Records, Write};

/// The kinds of events in a thread with which its claim may end.
pub(crate) const CLAIM_ENDS: [&str; 5] = [
    ThreadAssignmentChanged::KIND,
    ClaimExpired::KIND,
    ClaimFailed::KIND,
    ThreadCancelled::KIND,
    ThreadStateChanged::KIND,
];

pub(crate) fn feature() -> Feature {
    Feature::new()
        .projector(&QUEUE_EVENTS, refresh_threads)
        .projector(&[ChannelUpdated::KIND], move_pools)
        .projector(&[ChannelArchived::KIND, ChannelUnarchived::KIND], refresh_channels)
        .records(vec![
            Records::table("ready", "channel_id skill_set urgency lsn")
                .through("channel_id", "channels")
                .after("threads")
                .ids("channel_id thread_id pool came_from")
                .ints("skill_set urgency lsn footprint")
                .texts("repo_key")
                .bools("exclusive")
                .unproven(
                    "channel_id thread_id pool came_from skill_set urgency lsn footprint",
                    UNPROVEN_REASON,
                )
                .unproven("repo_key exclusive", UNPROVEN_REASON),
            Records::table("parked", "channel_id obstacle skill_set repo_key exclusive urgency lsn")
                .through("channel_id", "channels")
                .after("threads")
                .ids("obstacle channel_id thread_id pool")
                .ints("skill_set urgency lsn footprint")
                .texts("repo_key")
                .bools("exclusive")
                .unproven(
                    "obstacle channel_id thread_id pool skill_set urgency lsn footprint",
                    UNPROVEN_REASON,
                )
                .unproven("repo_key exclusive", UNPROVEN_REASON),
        ])
}

/// The reason why the columns of the queue are not compared with the log.
const UNPROVEN_REASON: &str = "a queue, which follows from the threads";

/// The kinds of events after which the event's thread may enter, leave or move in the queue.
const QUEUE_EVENTS: [&str; 13] = [
    ThreadCreated::KIND,
    ThreadStateChanged::KIND,
    ThreadReady::KIND,
    ThreadPriorityChanged::KIND,
    ThreadSkillsChanged::KIND,
    ThreadDependencyAdded::KIND,
    ThreadDependencyRemoved::KIND,
    ThreadAssignmentChanged::KIND,
    ClaimExpired::KIND,
    ThreadResultSet::KIND,
    ThreadFootprintChanged::KIND,
    ThreadBudgetSet::KIND,
    DeadLetterRequeued::KIND,
];

fn refresh_threads(cx: &mut Write<'_>, events: &[RecordedEvent]) -> Result<()> {
    let mut threads: BTreeMap<ThreadId, bool> = BTreeMap::new();
    for event in events {
        if let Some(thread) = event.subject.thread_id {
            *threads.entry(thread).or_default() |= event.kind == ThreadFootprintChanged::KIND;
        }
    }
    let ids: Vec<ThreadId> = threads.keys().copied().collect();
    threads_of_workspace(cx, &ids)?.iter().try_for_each(|thread| match threads.get(&thread.id) {
        Some(true) => refresh_ready_and_parked(cx, thread.id),
        _ => refresh_thread(cx, thread),
    })
}

fn move_pools(cx: &mut Write<'_>, events: &[RecordedEvent]) -> Result<()> {
    channels_of(events).into_iter().try_for_each(|channel| move_to_current_pool(cx, channel))
}

fn refresh_channels(cx: &mut Write<'_>, events: &[RecordedEvent]) -> Result<()> {
    channels_of(events).into_iter().try_for_each(|channel| refresh_channel(cx, channel))
}

fn channels_of(events: &[RecordedEvent]) -> BTreeSet<ChannelId> {
    events.iter().filter_map(|event| event.subject.channel_id).collect()
}
