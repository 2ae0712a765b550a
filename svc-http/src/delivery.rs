//! Encodes the frames that the server sends to a subscriber: the start of the subscription, events, and
//! positions in the log.
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

/// Version of the frame format, which the frame `subscribe_ack` reports.
const SCHEMA_VERSION: u32 = 1;
/// Maximum events, and maximum bytes of events, in one batch for a subscriber.
pub(crate) const BATCH: BatchBounds = BatchBounds { events: 256, bytes: 256 << 10 };
/// Maximum time that one poll waits for events.
const WAIT: Duration = Duration::from_secs(10);
/// Maximum time that one poll waits for events if the client acknowledges events. Acknowledgements are
/// processed between polls.
const WAIT_FOR_ACKS: Duration = Duration::from_secs(1);
/// Time without a matching event after which the server sends a position frame.
const POSITION_EVERY: Duration = Duration::from_secs(60);

fn encode(frame: &ServerFrame) -> Result<Bytes> {
    Ok(serde_json::to_vec(frame).map_err(Error::internal)?.into())
}

/// A frame to send to a subscriber.
pub(crate) struct Frame {
    /// Position of the event in this frame; `None` if the frame is not an event.
    pub lsn: Option<i64>,
    pub text: Bytes,
}

impl Frame {
    fn status(frame: &ServerFrame) -> Result<Self> {
        Ok(Self { lsn: None, text: encode(frame)? })
    }
}

/// Returns the `must_refetch` frame for an error.
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

/// Delivers the events of one subscription over its connection.
pub(crate) struct FrameDelivery {
    pub subscriber: Subscriber,
    /// Whether the client requested position frames.
    positions: bool,
    acknowledges: bool,
    /// Whether the server has sent `replay_truncated` and waits for the client's position.
    sent_truncated: bool,
    /// Whether the first batch of events has been processed.
    has_begun: bool,
    /// Whether the last batch reached the end of the log.
    was_live: bool,
    /// Time at which the server last sent an event or a position frame.
    positioned: Monotonic,
}

impl FrameDelivery {
    /// Begins to deliver a subscription. Also returns the frames that announce its start.
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
            sent_truncated: false,
            has_begun: false,
            was_live: false,
            positioned,
        };
        Ok((delivery, frames))
    }

    /// Applies the acknowledgement and the new position that the client has requested.
    pub fn apply_requests(&mut self, requests: ClientRequests) -> Result<()> {
        if let Some(ack) = requests.ack {
            self.subscriber.acknowledge(ack)?;
        }
        if let Some(after_id) = requests.after_id {
            self.subscriber.continue_from(after_id)?;
            self.sent_truncated = false;
        }
        Ok(())
    }

    /// Returns the maximum time that the next poll waits for events.
    pub fn wait(&self) -> Duration {
        match (self.positions, self.acknowledges) {
            // A subscriber that has already received all events gets a position frame immediately.
            (true, _) if !self.has_begun => Duration::ZERO,
            (_, true) => WAIT_FOR_ACKS,
            (_, false) => WAIT,
        }
    }

    /// Returns the frames for a batch of events, followed by `replay_truncated` or a position frame if
    /// necessary.
    pub fn frames(&mut self, batch: EventBatch) -> Result<Vec<Frame>> {
        let EventBatch { frames, after_id, room_lsn, state } = batch;
        let has_events = !frames.is_empty();
        let event = |(lsn, frame)| Frame { lsn: Some(lsn), text: Bytes::from_owner(frame) };
        let mut out: Vec<Frame> = frames.into_iter().map(event).collect();
        let is_live = state == FeedState::Live;
        if state == FeedState::Truncated && !std::mem::replace(&mut self.sent_truncated, true) {
            let resume_token = self.subscriber.resume_token(after_id)?;
            out.push(Frame::status(&ServerFrame::ReplayTruncated { after_id, room_lsn, resume_token })?);
        }
        let caught_up = is_live && !self.was_live;
        let now = self.subscriber.timer_now();
        let is_silent = !has_events && now.since(self.positioned) >= POSITION_EVERY;
        // After `replay_truncated`, the server sends no position frames until the client has sent a position.
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

    /// Returns whether the server has sent `replay_truncated` and waits for the client's position.
    pub fn is_truncated(&self) -> bool {
        self.sent_truncated
    }
}
