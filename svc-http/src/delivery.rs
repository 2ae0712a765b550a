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
pub(crate) const BATCH_BOUNDS: BatchBounds = BatchBounds { events: 256, bytes: 256 << 10 };
/// Maximum time that one poll waits for events.
const POLL_WAIT: Duration = Duration::from_secs(10);
/// Maximum time that one poll waits for events if the client acknowledges events. Acknowledgements are
/// processed between polls.
const POLL_WAIT_WITH_ACKS: Duration = Duration::from_secs(1);
/// Time without a matching event after which the server sends a position frame.
const POSITION_INTERVAL: Duration = Duration::from_secs(60);

fn encode_frame(frame: &ServerFrame) -> Result<Bytes> {
    Ok(serde_json::to_vec(frame).map_err(Error::internal)?.into())
}

/// A frame to send to a subscriber.
pub(crate) struct Frame {
    /// Position of the event in this frame; `None` if the frame is not an event.
    pub lsn: Option<i64>,
    pub text: Bytes,
}

impl Frame {
    fn from_server_frame(frame: &ServerFrame) -> Result<Self> {
        Ok(Self { lsn: None, text: encode_frame(frame)? })
    }
}

/// Returns the `must_refetch` frame for an error.
pub(crate) fn must_refetch_frame(error: &Error) -> Result<Bytes> {
    let problem = serde_json::to_value(error.problem()).unwrap_or_default();
    let number = |name: &str| problem.get(name).and_then(Value::as_i64).unwrap_or_default();
    let text = |name: &str| problem.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let frame = ServerFrame::MustRefetch {
        code: text("code"),
        floor: number("floor"),
        snapshot: text("snapshot"),
        room_lsn: number("room_lsn"),
    };
    encode_frame(&frame)
}

/// Delivers the events of one subscription over its connection.
pub(crate) struct FrameDelivery {
    pub subscriber: Subscriber,
    /// Whether the client requested position frames.
    sends_positions: bool,
    client_acknowledges: bool,
    /// Whether the server has sent `replay_truncated` and waits for the client's position.
    sent_truncated: bool,
    /// Whether the first batch of events has been processed.
    has_begun: bool,
    /// Whether the last batch reached the end of the log.
    was_live: bool,
    /// Time at which the server last sent an event or a position frame.
    last_position_sent_at: Monotonic,
}

impl FrameDelivery {
    /// Begins to deliver a subscription. Also returns the frames that announce its start.
    pub fn begin(begun: BegunSubscription, sends_positions: bool) -> Result<(Self, Vec<Frame>)> {
        let BegunSubscription { subscriber, workspace_id, after_id, room_lsn, hint } = begun;
        let resume_token = subscriber.resume_token(after_id)?;
        let schema_version = SCHEMA_VERSION;
        let ack = ServerFrame::SubscribeAck { schema_version, resume_token, after_id, room_lsn };
        let mut frames = vec![Frame::from_server_frame(&ack)?];
        if let Some(events) = hint {
            frames.push(Frame::from_server_frame(&ServerFrame::ReplayHint {
                workspace_id,
                room_lsn,
                events,
            })?);
        }
        let client_acknowledges = subscriber.acknowledges();
        let last_position_sent_at = subscriber.monotonic_now();
        let delivery = Self {
            subscriber,
            sends_positions,
            client_acknowledges,
            sent_truncated: false,
            has_begun: false,
            was_live: false,
            last_position_sent_at,
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
    pub fn next_poll_wait(&self) -> Duration {
        match (self.sends_positions, self.client_acknowledges) {
            // A subscriber that has already received all events gets a position frame immediately.
            (true, _) if !self.has_begun => Duration::ZERO,
            (_, true) => POLL_WAIT_WITH_ACKS,
            (_, false) => POLL_WAIT,
        }
    }

    /// Returns the frames for a batch of events, followed by `replay_truncated` or a position frame if
    /// necessary.
    pub fn frames_for(&mut self, batch: EventBatch) -> Result<Vec<Frame>> {
        let EventBatch { frames, after_id, room_lsn, state } = batch;
        let has_events = !frames.is_empty();
        let event = |(lsn, frame)| Frame { lsn: Some(lsn), text: Bytes::from_owner(frame) };
        let mut out: Vec<Frame> = frames.into_iter().map(event).collect();
        let is_live = state == FeedState::Live;
        if state == FeedState::Truncated && !std::mem::replace(&mut self.sent_truncated, true) {
            let resume_token = self.subscriber.resume_token(after_id)?;
            out.push(Frame::from_server_frame(&ServerFrame::ReplayTruncated {
                after_id,
                room_lsn,
                resume_token,
            })?);
        }
        let caught_up = is_live && !self.was_live;
        let now = self.subscriber.monotonic_now();
        let is_silent = !has_events && now.since(self.last_position_sent_at) >= POSITION_INTERVAL;
        // After `replay_truncated`, the server sends no position frames until the client has sent a position.
        let is_due = caught_up || (is_silent && state != FeedState::Truncated);
        if self.sends_positions && is_due {
            let resume_token = self.subscriber.resume_token(after_id)?;
            out.push(Frame::from_server_frame(&ServerFrame::Position { after_id, room_lsn, resume_token })?);
        }
        if has_events || is_due {
            self.last_position_sent_at = now;
        }
        (self.has_begun, self.was_live) = (true, is_live);
        Ok(out)
    }

    /// Returns whether the server has sent `replay_truncated` and waits for the client's position.
    pub fn has_sent_truncated(&self) -> bool {
        self.sent_truncated
    }
}
