//! Frames for a subscriber: the start of its subscription, its events, and its position.
//!
//! The frames are the same over WebSocket and as server-sent events.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use svc_core::ops::{
    BatchBounds, BegunSubscription, ClientRequests, EventBatch, FeedState, ServerFrame, Subscriber,
};
use svc_core::time::Monotonic;
use svc_core::{Error, Result};

/// The version of the frames' schema.
const SCHEMA_VERSION: u32 = 1;
/// Maximum events and bytes of a batch.
pub(crate) const BATCH: BatchBounds = BatchBounds { events: 256, bytes: 256 << 10 };
/// Maximum wait for events, after which the client's frames are processed.
const WAIT: Duration = Duration::from_secs(10);
/// The same for a client that acknowledges.
const WAIT_FOR_ACKS: Duration = Duration::from_secs(1);
/// Time without a matching event after which the position is sent.
const POSITION_EVERY: Duration = Duration::from_secs(60);

fn encode(frame: &ServerFrame) -> Result<Bytes> {
    Ok(serde_json::to_vec(frame).map_err(Error::internal)?.into())
}

/// A frame to be sent.
pub(crate) struct Frame {
    /// The position of an event; `None` for other frames.
    pub lsn: Option<i64>,
    pub text: Bytes,
}

impl Frame {
    fn status(frame: &ServerFrame) -> Result<Self> {
        Ok(Self { lsn: None, text: encode(frame)? })
    }
}

/// Returns the frame for an error `must_refetch`.
pub(crate) fn must_refetch(error: &Error) -> Result<Bytes> {
    let problem = serde_json::to_value(error.problem()).unwrap_or_default();
    let number = |name: &str| problem.get(name).and_then(Value::as_i64).unwrap_or_default();
    let text = |name: &str| problem.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let frame = ServerFrame::MustRefetch {
        code: text("code"),
        floor: number("floor"),
        snapshot: text("snapshot"),
        room_lsn: number("room_lsn"),
    };
    encode(&frame)
}

/// A subscription that has begun, on its connection.
pub(crate) struct FrameDelivery {
    pub subscriber: Subscriber,
    /// Whether the client wants positions while nothing matches.
    positions: bool,
    acknowledges: bool,
    /// Whether the client was notified that more follows once it asks to continue.
    told_truncated: bool,
    /// Whether a batch was taken.
    has_begun: bool,
    /// Whether it had received all events after the last batch.
    was_live: bool,
    /// When a position was last sent, with an event or alone.
    positioned: Monotonic,
}

impl FrameDelivery {
    /// Begins a delivery. Returns the frames that announce the start of the subscription.
    pub fn begin(begun: BegunSubscription, positions: bool) -> Result<(Self, Vec<Frame>)> {
        let BegunSubscription { subscriber, workspace_id, after_id, room_lsn, hint } = begun;
        let resume_token = subscriber.resume_token(after_id)?;
        let schema_version = SCHEMA_VERSION;
        let ack = ServerFrame::SubscribeAck { schema_version, resume_token, after_id, room_lsn };
        let mut frames = vec![Frame::status(&ack)?];
        if let Some(events) = hint {
            frames.push(Frame::status(&ServerFrame::ReplayHint { workspace_id, room_lsn, events })?);
        }
        let acknowledges = subscriber.acknowledges();
        let positioned = subscriber.timer_now();
        let delivery = Self {
            subscriber,
            positions,
            acknowledges,
            told_truncated: false,
            has_begun: false,
            was_live: false,
            positioned,
        };
        Ok((delivery, frames))
    }

    /// Processes the frames of the client.
    pub fn heed(&mut self, said: ClientRequests) -> Result<()> {
        if let Some(ack) = said.ack {
            self.subscriber.acknowledge(ack)?;
        }
        if let Some(after_id) = said.after_id {
            self.subscriber.continue_from(after_id)?;
            self.told_truncated = false;
        }
        Ok(())
    }

    /// Returns how long to wait for the next events.
    pub fn wait(&self) -> Duration {
        match (self.positions, self.acknowledges) {
            // A subscriber that has already received all events is notified at once.
            (true, _) if !self.has_begun => Duration::ZERO,
            (_, true) => WAIT_FOR_ACKS,
            (_, false) => WAIT,
        }
    }

    /// Returns events, and the frames about the subscriber's position after them.
    pub fn frames(&mut self, batch: EventBatch) -> Result<Vec<Frame>> {
        let EventBatch { frames, after_id, room_lsn, state } = batch;
        let has_events = !frames.is_empty();
        let event = |(lsn, frame)| Frame { lsn: Some(lsn), text: Bytes::from_owner(frame) };
        let mut out: Vec<Frame> = frames.into_iter().map(event).collect();
        let is_live = state == FeedState::Live;
        if state == FeedState::Truncated && !std::mem::replace(&mut self.told_truncated, true) {
            let resume_token = self.subscriber.resume_token(after_id)?;
            out.push(Frame::status(&ServerFrame::ReplayTruncated { after_id, room_lsn, resume_token })?);
        }
        let caught_up = is_live && !self.was_live;
        let now = self.subscriber.timer_now();
        let is_silent = !has_events && now.since(self.positioned) >= POSITION_EVERY;
        // A truncated subscriber gets no further frames until it says where to continue.
        let is_due = caught_up || (is_silent && state != FeedState::Truncated);
        if self.positions && is_due {
            let resume_token = self.subscriber.resume_token(after_id)?;
            out.push(Frame::status(&ServerFrame::Position { after_id, room_lsn, resume_token })?);
        }
        if has_events || is_due {
            self.positioned = now;
        }
        (self.has_begun, self.was_live) = (true, is_live);
        Ok(out)
    }

    /// Returns whether the client was notified that more follows once it asks to continue.
    pub fn is_truncated(&self) -> bool {
        self.told_truncated
    }
}
