//! Reading pages of the log, for a subscriber that is further behind than the tail in memory.
//!
//! Pages are read without a filter, because only then can each event be verified. Events that the subscriber
//! did not request or may not see are then removed.

use std::sync::Arc;
use std::time::Duration;

use super::rounds::is_visible_to;
use crate::conversation::messages::frames_with_content;
use crate::conversation::visibility::audiences;
use crate::error::Result;
use crate::id::ChannelId;
use crate::identity::floor::LogRange;
use crate::limits::{FEED_READ_BYTES, FEED_READ_EVENTS_MAX};
use crate::log::bus::EventFilter;
use crate::log::feed::{FeedEvent, FrameBytes, FrameForm};
use crate::log::verify::{Break, ChainCursor, ReadBounds, RecentTimes};
use crate::op::{Caller, Read};

/// Parameters for reading a page of the log.
#[derive(Clone)]
pub(super) struct PageRequest {
    /// The verified position at which the page starts; `None` if this subscriber has not read the log up to
    /// that position.
    pub cursor: Option<ChainCursor>,
    pub after: i64,
    pub filter: EventFilter,
    pub form: FrameForm,
    pub max_events: usize,
    pub max_bytes: usize,
    /// Minimum age of the events to return; `None` for no minimum.
    pub min_age: Option<Duration>,
}

/// The result of reading a page.
pub(super) struct LogPage {
    pub caller: Caller,
    pub epoch: i64,
    pub range: LogRange,
    pub outcome: PageOutcome,
}

/// The events of a page, or the reason why the page cannot be read.
pub(super) enum PageOutcome {
    Events {
        frames: Vec<(i64, FrameBytes)>,
        /// The position up to which the log was read.
        cursor: Box<ChainCursor>,
    },
    /// The log lacks the events after the requested position.
    TooOld,
    Broken(Break),
}

/// Reads a page of the log for the caller.
pub(super) fn read_page(cx: &Read<'_>, request: &PageRequest) -> Result<LogPage> {
    let range = LogRange::read(cx)?;
    let caller = cx.caller().clone();
    let epoch = cx.epoch();
    let outcome = read_events(cx, request, range)?;
    Ok(LogPage { caller, epoch, range, outcome })
}

/// Reads the requested events within the range of the log, or returns why they cannot be read.
fn read_events(cx: &Read<'_>, request: &PageRequest, range: LogRange) -> Result<PageOutcome> {
    if !range.has_all_events_after(request.after) {
        return Ok(PageOutcome::TooOld);
    }
    let workspace = cx.caller().workspace_id;
    let mut cursor = match &request.cursor {
        Some(cursor) => cursor.clone(),
        None => ChainCursor::after(workspace, request.after, range.event_hash_at(cx, request.after)?),
    };
    let young = request.min_age.map(|min_age| RecentTimes::than(min_age, cx.now()));
    let bounds = ReadBounds { up_to: range.head, rows: FEED_READ_EVENTS_MAX, bytes: FEED_READ_BYTES, young };
    let (mut events, mut bytes): (Vec<Arc<FeedEvent>>, usize) = (Vec::new(), 0);
    let read = cursor.read(cx, bounds, |lsn, row| {
        if request.filter.matches(row.kind, &row.subject) {
            let event = FeedEvent::of(lsn, row);
            bytes = bytes.saturating_add(event.weight());
            events.push(Arc::new(event));
        }
        events.len() < request.max_events && bytes < request.max_bytes
    })?;
    if let Err(broken) = read {
        // The missing events may have been pruned after the floor was read.
        let is_pruned = !LogRange::read(cx)?.has_all_events_after(request.after);
        return Ok(if is_pruned { PageOutcome::TooOld } else { PageOutcome::Broken(broken) });
    }
    Ok(PageOutcome::Events { frames: visible_frames(cx, request, events)?, cursor: Box::new(cursor) })
}

/// Returns the frames of the events that the caller may see.
fn visible_frames(
    cx: &Read<'_>,
    request: &PageRequest,
    mut events: Vec<Arc<FeedEvent>>,
) -> Result<Vec<(i64, FrameBytes)>> {
    let mut channels: Vec<ChannelId> = events.iter().filter_map(|event| event.subject.channel_id).collect();
    channels.sort_unstable();
    channels.dedup();
    let visibility = cx.caller().visibility;
    let audiences = audiences(cx, &channels)?;
    events
        .retain(|event| is_visible_to(event, visibility, |id| audiences.get(&id).cloned()).unwrap_or(false));
    let frames = match request.form {
        FrameForm::Full => frames_with_content(cx, &events)?,
        FrameForm::Lean => events.iter().map(|event| event.frame(request.form)).collect::<Result<_>>()?,
    };
    Ok(events.iter().map(|event| event.lsn).zip(frames).collect())
}
