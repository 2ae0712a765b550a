//! Finding the events and messages of a workspace that are old enough to be pruned.
//!
//! The times in a log never decrease, so the last event and the last message that are old enough are found by
//! bisection.

use crate::Result;
use crate::bisect::last_position_where;
use crate::config::RetentionLimits;
use crate::conversation::messages::{self, DueMessages};
use crate::id::WorkspaceId;
use crate::identity::floor::LogRange;
use crate::limits::MICROS_PER_DAY;
use crate::log::event::Event;
use crate::log::floor::EventsPruned;
use crate::op::Read;
use crate::time::Time;

/// The events of a log that are old enough to be pruned.
#[derive(Clone, Copy, Debug)]
pub(super) struct DueEvents {
    /// The current floor of the log.
    pub old_floor: i64,
    /// The floor of the log after the due events are pruned.
    pub new_floor: i64,
    /// The time before which all due events happened.
    pub before: Time,
}

impl DueEvents {
    pub fn count(&self) -> i64 {
        self.new_floor.saturating_sub(self.old_floor)
    }
}

/// Returns the events of a workspace that are old enough to be pruned.
///
/// Returns `None` if there are no such events, or only events that record earlier pruning.
///
/// Without that exception, a log without activity would be pruned in every round, because each round would
/// remove the event that the previous round emitted.
pub(super) fn find_due_events(
    cx: &Read<'_>,
    workspace: WorkspaceId,
    kept: &RetentionLimits,
) -> Result<Option<DueEvents>> {
    let Some(before) = retention_cutoff(cx, kept.events_days) else { return Ok(None) };
    let range = LogRange::of(cx, workspace)?;
    let last = last_position_where(range.beginning(), range.head, |lsn| {
        let at: Option<(Time,)> = cx.one(SELECT_EVENT_TIME, &[&workspace, &lsn])?;
        Ok(at.is_some_and(|(at,)| at < before))
    })?;
    let any: Option<(i64,)> =
        cx.one(SELECT_OTHER_EVENT, &[&workspace, &range.floor, &last, &EventsPruned::KIND])?;
    let due = DueEvents { old_floor: range.floor, new_floor: last.saturating_add(1), before };
    Ok(any.map(|_| due))
}

const SELECT_EVENT_TIME: &str = "select at from events where workspace_id = $1 and lsn = $2";

const SELECT_OTHER_EVENT: &str =
    "select lsn from events where workspace_id = $1 and lsn >= $2 and lsn <= $3 and kind <> $4 limit 1";

/// Returns the messages of a workspace that are old enough to be pruned, limited to one pruning step.
pub(super) fn find_due_messages(
    cx: &Read<'_>,
    workspace: WorkspaceId,
    kept: &RetentionLimits,
) -> Result<Option<DueMessages>> {
    retention_cutoff(cx, kept.messages_days).map_or(Ok(None), |before| messages::due(cx, workspace, before))
}

/// Returns the time before which the retention of `days` days has passed.
fn retention_cutoff(cx: &Read<'_>, days: Option<i64>) -> Option<Time> {
    days.map(|days| cx.now().shifted(days.saturating_mul(MICROS_PER_DAY).saturating_neg()))
}
