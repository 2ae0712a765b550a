//! A subscriber, which follows a workspace's log from a position.
//!
//! Subscribers pull events: from the shared tail if that still contains the next events, otherwise from the
//! log. In both cases each event is verified before delivery, and the caller's credential and visibility are
//! current. A credential stays valid while the epoch of its workspace is unchanged, but is checked again at
//! least every ten seconds, so that a silent connection also closes when its credential ends.

use std::sync::Arc;
use std::time::Duration;

use super::consumers::Consumer;
use super::page::{LogPage, PageOutcome, PageRequest, read_page};
use super::request::WantedEvents;
use super::resume::ResumeTokenContent;
use super::rounds::SharedTail;
use super::wakeup::{CallerLookup, ListenerGuard, Wakeup};
use crate::conversation::messages::is_content_event;
use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::identity::floor::LogRange;
use crate::log::bus::EventFilter;
use crate::log::feed::{FeedEvent, FrameBytes, FrameForm, TailHead, TailView};
use crate::log::verify::{ChainCursor, RecentTimes};
use crate::op::{Admission, Dispatch, MemberConnection, Operation, Read};
use crate::stream::events::broken_log_error;
use crate::time::Monotonic;

/// Maximum time between checks of a credential while its workspace's epoch is unchanged.
const CALLER_CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Pause after a failure of the database.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Limits of a batch of events.
#[derive(Clone, Copy, Debug)]
pub struct BatchBounds {
    /// Maximum number of events in the batch.
    pub events: usize,
    /// Number of bytes at which the batch ends. The event that reaches this number is still included.
    pub bytes: usize,
}

/// Position of a subscriber relative to the end of the log, after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedState {
    /// The subscriber has received all events.
    Live,
    /// More events are available.
    Behind,
    /// The maximum number of events was sent; the client must now send the position from which to continue.
    Truncated,
}

/// A batch of events, in the order of the log.
#[derive(Clone, Debug)]
pub struct EventBatch {
    /// The positions and frames of the events.
    pub frames: Vec<(i64, FrameBytes)>,
    /// The position up to which the log was read for this batch.
    pub after_id: i64,
    /// The last known position in the log.
    pub room_lsn: i64,
    /// The state of the subscriber after this batch.
    pub state: FeedState,
}

impl EventBatch {
    /// Returns the total bytes of the batch's frames.
    pub fn size(&self) -> usize {
        self.frames.iter().map(|(_, frame)| frame.len()).sum()
    }
}

/// A subscription in progress. Dropping it ends the subscription.
pub struct Subscriber {
    pub(super) dispatch: Arc<Dispatch>,
    pub(super) operation: Arc<Operation>,
    pub(super) admission: Admission,
    pub(super) shared: Arc<SharedTail>,
    pub(super) wanted: WantedEvents,
    pub(super) filter: EventFilter,
    pub(super) form: FrameForm,
    pub(super) lookup: CallerLookup,
    pub(super) range: LogRange,
    /// The position up to which events were taken from the log.
    pub(super) after: i64,
    /// The last batch that was returned. Its events are recorded as sent when the next batch is requested.
    pub(super) offered_batch: Option<OfferedBatch>,
    /// The verified position up to which the log itself was read; `None` if events came from the tail.
    pub(super) cursor: Option<ChainCursor>,
    /// The number of events sent since the subscriber was last up to date.
    pub(super) sent_while_behind: usize,
    pub(super) consumer: Option<Consumer>,
    /// The position to which the client wants to move its consumer.
    pub(super) requested_position: Option<i64>,
    pub(super) wakeup: Arc<Wakeup>,
    /// Value of [`Wakeup::holder_check_requests`] when this subscriber last checked that it still holds its
    /// consumer.
    pub(super) handled_check_requests: u64,
    pub(super) _listening: ListenerGuard,
    /// Registration that counts the member as online while this subscriber exists.
    pub(super) _connection: Option<MemberConnection>,
}

/// A batch that was returned. Its events are not recorded as sent yet.
pub(super) struct OfferedBatch {
    end_position: i64,
    positions: Vec<i64>,
    /// Whether the batch reached the end of the log at that time.
    reaches_end: bool,
}

/// The result of one attempt to take the next events.
enum TakeOutcome {
    /// The positions and frames of the next events, and the position up to which the log was read.
    Batch(Vec<(i64, FrameBytes)>, i64),
    /// The position has advanced past events that the caller does not receive. There may be more events.
    Advanced,
    /// No events can be delivered now. Try again when an event arrives, or at this time.
    Idle(Option<Monotonic>),
}

impl Subscriber {
    /// Returns the next events as soon as some are available, or an empty batch after `wait`.
    ///
    /// The position moves past the returned events only at the next call, so dropping the future loses no
    /// events. Fails with the credential's error if the credential is no longer valid, with 409
    /// `must_refetch` if the log no longer contains the next events, with 409 `event-log-broken` if the log
    /// does not verify, and with 409 `wrong-state` if a newer connection holds the consumer.
    pub async fn next(&mut self, bounds: BatchBounds, wait: Duration) -> Result<EventBatch> {
        self.next_until_epoch_changes(bounds, wait, i64::MAX).await
    }

    /// Returns the next events as [`Self::next`] does, unless the access rules change.
    ///
    /// Returns an empty batch as soon as the subscriber's epoch is later than `epoch`.
    pub async fn next_until_epoch_changes(
        &mut self,
        bounds: BatchBounds,
        wait: Duration,
        epoch: i64,
    ) -> Result<EventBatch> {
        self.confirm_offered_batch();
        let until = self.dispatch.clock.deadline(wait);
        loop {
            let idle_until = match self.take_next(bounds).await {
                Ok(TakeOutcome::Batch(frames, end_position)) => {
                    return Ok(self.offer_batch(frames, end_position));
                }
                Ok(_) if self.epoch() > epoch => return Ok(self.offer_batch(Vec::new(), self.after)),
                Ok(TakeOutcome::Advanced) => continue,
                Ok(TakeOutcome::Idle(_)) if self.has_passed(until) => {
                    return Ok(self.offer_batch(Vec::new(), self.after));
                }
                Ok(TakeOutcome::Idle(due)) => due,
                Err(error) if matches!(error.code(), Code::Overloaded | Code::Unavailable) => {
                    self.wakeup.sleep_until(&self.dispatch, self.dispatch.clock.deadline(RETRY_PAUSE)).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let check = self.lookup.checked_at.plus(CALLER_CHECK_INTERVAL);
            let consumer = self.consumer.as_ref();
            let due = [
                idle_until,
                consumer.and_then(Consumer::position_write_time),
                consumer.map(Consumer::next_holder_check),
            ];
            let deadline = due.into_iter().flatten().fold(until.min(check), Monotonic::min);
            self.wakeup.sleep_until(&self.dispatch, deadline).await;
        }
    }

    /// Discards the last batch, so that the next batch begins at the same position.
    pub fn put_back_batch(&mut self) {
        self.offered_batch = None;
    }

    /// Moves the position past the last batch, and records the events of that batch as sent.
    fn confirm_offered_batch(&mut self) {
        let Some(OfferedBatch { end_position, positions, reaches_end }) = self.offered_batch.take() else {
            return;
        };
        self.after = end_position;
        // Later events do not count as sent ahead for a subscriber that was up to date.
        self.sent_while_behind =
            if reaches_end { 0 } else { self.sent_while_behind.saturating_add(positions.len()) };
        if let Some(consumer) = &mut self.consumer {
            consumer.record_sent(positions.into_iter());
        }
    }

    /// Returns the epoch of the access rules at the last lookup of the caller.
    ///
    /// While the epoch stays the same, so does the caller's visibility.
    pub fn epoch(&self) -> i64 {
        self.lookup.epoch
    }

    /// Returns the position up to which events were returned, including the last batch.
    pub fn position(&self) -> i64 {
        self.offered_batch.as_ref().map_or(self.after, |offered| offered.end_position)
    }

    /// Returns the last known position in the log.
    pub fn room_lsn(&self) -> i64 {
        self.range.head.max(self.shared.tail.head().lsn).max(self.position())
    }

    /// Continues from `position`, which must not be beyond the end of the log.
    ///
    /// Without a consumer, a later position skips the events in between, and an earlier one only allows more
    /// events to be sent. A consumer is moved to the position, forward or back, before more events are taken.
    pub fn continue_from(&mut self, position: i64) -> Result<()> {
        self.confirm_offered_batch();
        let last = self.room_lsn();
        if position > last {
            return Err(Error::in_field("after_id", format!("the log ends at {last}")));
        }
        match self.consumer {
            Some(_) => self.requested_position = Some(position),
            None if position > self.after => (self.after, self.cursor) = (position, None),
            None => {}
        }
        self.sent_while_behind = 0;
        Ok(())
    }

    /// Returns the current time on the clock that times this subscriber's waits.
    pub fn monotonic_now(&self) -> Monotonic {
        self.dispatch.clock.monotonic()
    }

    /// Returns whether the client must acknowledge events.
    pub fn acknowledges(&self) -> bool {
        self.consumer.is_some()
    }

    /// Acknowledges all events up to `position`. Fails with 400 if the subscription is not durable.
    pub fn acknowledge(&mut self, position: i64) -> Result<()> {
        self.confirm_offered_batch();
        let sent = self.after;
        match &mut self.consumer {
            Some(consumer) => consumer.acknowledge(position, sent),
            None => Err(Error::in_field("ack", "the subscription has no consumer")),
        }
    }

    /// Returns a resume token with which a new subscription can continue from `position`.
    pub fn resume_token(&self, position: i64) -> Result<String> {
        let content = ResumeTokenContent {
            workspace_id: self.lookup.caller.workspace_id,
            member_id: self.lookup.caller.member,
            wanted: self.wanted.clone(),
            after_id: position,
            issued_at: self.dispatch.clock.now().micros(),
        };
        content.encode(&self.dispatch.shared.sealer)
    }

    /// Returns a batch with these frames, and stores it until its events are recorded as sent.
    fn offer_batch(&mut self, frames: Vec<(i64, FrameBytes)>, end_position: i64) -> EventBatch {
        let positions: Vec<i64> = frames.iter().map(|(position, _)| *position).collect();
        let ahead = self.sent_while_behind.saturating_add(positions.len());
        let room_lsn = self.room_lsn().max(end_position);
        let reaches_end = end_position >= room_lsn;
        self.offered_batch = Some(OfferedBatch { end_position, positions, reaches_end });
        let replay_max = self.dispatch.shared.settings.replay_max;
        let state = match reaches_end {
            true => FeedState::Live,
            // A consumer is limited by its unacknowledged events instead.
            false if ahead >= replay_max && self.consumer.is_none() => FeedState::Truncated,
            false => FeedState::Behind,
        };
        EventBatch { frames, after_id: end_position, room_lsn, state }
    }

    /// Updates the consumer and the caller, and returns the next events or the reason why there are none.
    async fn take_next(&mut self, bounds: BatchBounds) -> Result<TakeOutcome> {
        self.update_consumer().await?;
        self.refresh_caller().await?;
        let unacknowledged_left = self.consumer.as_ref().map_or(usize::MAX, Consumer::sendable_count);
        let replay_max = self.dispatch.shared.settings.replay_max;
        let ahead = if self.consumer.is_some() {
            usize::MAX
        } else {
            replay_max.saturating_sub(self.sent_while_behind)
        };
        let bounds = BatchBounds { events: bounds.events.min(unacknowledged_left).min(ahead), ..bounds };
        if bounds.events == 0 {
            return Ok(TakeOutcome::Idle(None));
        }
        let view = self
            .shared
            .tail
            .view(self.after, bounds.events, |event| self.filter.matches(&event.kind, &event.subject));
        match view {
            TailView::Broken(broken) => Err(broken_log_error(self.workspace_id(), broken)),
            TailView::Behind => self.read_log(bounds).await,
            TailView::Events { events, up_to, head } => {
                self.take_from_tail(bounds, events, up_to, head).await
            }
        }
    }

    fn workspace_id(&self) -> WorkspaceId {
        self.lookup.caller.workspace_id
    }

    /// Returns the next events from the shared tail, or the reason why none can be returned now.
    async fn take_from_tail(
        &mut self,
        bounds: BatchBounds,
        mut events: Vec<Arc<FeedEvent>>,
        up_to: i64,
        head: TailHead,
    ) -> Result<TakeOutcome> {
        self.range.head = self.range.head.max(head.lsn);
        let all = events.len();
        let young = self.drop_recent(&mut events);
        self.drop_excess(&mut events, bounds.bytes);
        let Some(last) = events.last() else {
            if all > 0 {
                return Ok(TakeOutcome::Idle(young));
            }
            if up_to > self.after {
                self.after = up_to;
                return Ok(TakeOutcome::Advanced);
            }
            self.sent_while_behind = 0;
            return Ok(TakeOutcome::Idle(None));
        };
        let end_position = if events.len() == all { up_to } else { last.lsn };
        let frames = self.visible_frames(events, head).await?;
        if frames.is_empty() {
            self.after = end_position;
            return Ok(TakeOutcome::Advanced);
        }
        Ok(TakeOutcome::Batch(frames, end_position))
    }

    /// Removes events that are too recent for a durable subscription.
    ///
    /// Returns when the first removed event will be old enough, or `None` if no event was removed.
    fn drop_recent(&self, events: &mut Vec<Arc<FeedEvent>>) -> Option<Monotonic> {
        let min_event_age = self.min_event_age()?;
        let now = self.dispatch.clock.now();
        let young = RecentTimes::than(min_event_age, now);
        let young = events.iter().position(|event| young.contains(event.at))?;
        let first = events.get(young).map(|event| event.at.plus(min_event_age).since(now))?;
        events.truncate(young);
        Some(self.dispatch.clock.deadline(first))
    }

    /// Returns the minimum age of the events to deliver, or `None` for no minimum.
    fn min_event_age(&self) -> Option<Duration> {
        self.consumer.as_ref().map(|_| self.dispatch.shared.settings.delivery_stability)
    }

    /// Removes the events after the event that reaches the byte limit of a batch.
    fn drop_excess(&self, events: &mut Vec<Arc<FeedEvent>>, max_bytes: usize) {
        let mut weight: usize = 0;
        let filling = events.iter().position(|event| {
            weight = weight.saturating_add(event.weight());
            weight >= max_bytes
        });
        events.truncate(filling.map_or(events.len(), |place| place.saturating_add(1)));
    }

    /// Returns the frames of those events that the caller may see now.
    async fn visible_frames(
        &mut self,
        events: Vec<Arc<FeedEvent>>,
        head: TailHead,
    ) -> Result<Vec<(i64, FrameBytes)>> {
        if self.lookup.epoch < head.epoch {
            self.look_up_caller().await?;
        }
        let visibility = self.lookup.caller.visibility;
        let epoch = self.lookup.epoch;
        let shown: Option<Vec<bool>> =
            events.iter().map(|event| self.shared.is_visible_at_epoch(event, visibility, epoch)).collect();
        let form = self.form;
        let has_content = |event: &FeedEvent| form == FrameForm::Full && is_content_event(event);
        if let Some(shown) = shown {
            let visible: Vec<_> = events
                .iter()
                .zip(&shown)
                .filter(|(_, is_shown)| **is_shown)
                .map(|(event, _)| event)
                .collect();
            if !visible.iter().any(|event| has_content(event)) {
                let frame = |event: &&Arc<FeedEvent>| Ok((event.lsn, event.frame(form)?));
                return visible.iter().map(frame).collect();
            }
        }
        loop {
            let round = self.shared.request_data(events.clone()).await?;
            if self.lookup.epoch < round.epoch {
                self.look_up_caller().await?;
            }
            if self.lookup.epoch > round.epoch {
                // The access rules changed between the two reads.
                continue;
            }
            let visibility = self.lookup.caller.visibility;
            let frame = |event: &Arc<FeedEvent>| {
                let opened = round.frames.get(&event.lsn).filter(|_| has_content(event)).cloned();
                Ok((event.lsn, opened.map_or_else(|| event.frame(form), Ok)?))
            };
            return events.iter().filter(|event| round.is_visible(event, visibility)).map(frame).collect();
        }
    }

    /// Returns the next page of events from the log, or the reason why none can be returned now.
    async fn read_log(&mut self, bounds: BatchBounds) -> Result<TakeOutcome> {
        let request = PageRequest {
            cursor: self.cursor.take().filter(|cursor| cursor.lsn() == self.after),
            after: self.after,
            filter: self.filter.clone(),
            form: self.form,
            max_events: bounds.events,
            max_bytes: bounds.bytes,
            min_age: self.min_event_age(),
        };
        let LogPage { caller, epoch, range, outcome } =
            self.read_as_caller(true, move |cx| read_page(cx, &request)).await?;
        self.lookup = CallerLookup { caller, epoch, checked_at: self.dispatch.clock.monotonic() };
        self.range = LogRange { head: self.range.head.max(range.head), ..range };
        match outcome {
            PageOutcome::TooOld => Err(range.must_refetch(self.workspace_id())),
            PageOutcome::Broken(broken) => Err(broken_log_error(self.workspace_id(), broken)),
            PageOutcome::Events { frames, cursor } => {
                let end_position = cursor.lsn();
                self.cursor = Some(*cursor);
                match (frames.is_empty(), end_position > self.after) {
                    (false, _) => Ok(TakeOutcome::Batch(frames, end_position)),
                    (true, true) => {
                        self.after = end_position;
                        Ok(TakeOutcome::Advanced)
                    }
                    // The next events are too recent, or were not committed when the snapshot was taken.
                    (true, false) => {
                        let soon = self.min_event_age().unwrap_or(RETRY_PAUSE).max(Duration::from_millis(10));
                        Ok(TakeOutcome::Idle(Some(self.dispatch.clock.deadline(soon))))
                    }
                }
            }
        }
    }

    /// Performs the pending work for the consumer. Fails if a newer connection holds the consumer.
    ///
    /// Moves the consumer if the client requested a move, and writes the acknowledged position if a write is
    /// due.
    async fn update_consumer(&mut self) -> Result<()> {
        let Some(consumer) = &mut self.consumer else { return Ok(()) };
        let check_requests = self.wakeup.holder_check_requests();
        let is_due = self.dispatch.clock.remaining(consumer.next_holder_check()).is_zero();
        if is_due || check_requests != self.handled_check_requests {
            consumer.check_holder(&self.dispatch).await?;
            self.handled_check_requests = check_requests;
        }
        if let Some(position) = self.requested_position {
            consumer.move_to(&self.dispatch, position, self.after).await?;
            (self.after, self.cursor, self.requested_position) = (position, None, None);
        }
        if consumer.position_write_time().is_some_and(|due| self.dispatch.clock.remaining(due).is_zero()) {
            consumer.write_position(&self.dispatch).await?;
        }
        Ok(())
    }

    /// Looks up the caller again if the last lookup is too old.
    async fn refresh_caller(&mut self) -> Result<()> {
        self.lookup.caller.check_live(self.dispatch.clock.now())?;
        let now = self.dispatch.clock.monotonic();
        if now < self.lookup.checked_at.plus(CALLER_CHECK_INTERVAL) {
            return Ok(());
        }
        let head = self.shared.tail.head();
        if self.lookup.epoch == head.epoch && now < head.read_at.plus(CALLER_CHECK_INTERVAL) {
            self.lookup.checked_at = now;
        } else {
            self.look_up_caller().await?;
        }
        Ok(())
    }

    /// Looks up the caller's visibility and the epoch of its workspace.
    async fn look_up_caller(&mut self) -> Result<()> {
        let found = |cx: &Read<'_>| Ok((cx.caller().clone(), cx.epoch()));
        let (caller, epoch) = self.read_as_caller(false, found).await?;
        self.lookup = CallerLookup { caller, epoch, checked_at: self.dispatch.clock.monotonic() };
        Ok(())
    }

    async fn read_as_caller<T: Send + 'static>(
        &self,
        is_long: bool,
        run: impl FnMut(&Read<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.dispatch.read_for(&self.operation, self.admission.clone(), is_long, run).await
    }

    fn has_passed(&self, deadline: Monotonic) -> bool {
        self.dispatch.clock.remaining(deadline).is_zero()
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        if let Some(consumer) = &self.consumer {
            consumer.close(&self.dispatch);
        }
    }
}
