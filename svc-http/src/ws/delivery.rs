//! What is said to a subscriber: how it begins, its events, and where it stands.

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use svc_core::ops::{BatchBounds, EventBatch, FeedState, Said, ServerFrame, Subscribed, Subscriber};
use svc_core::time::Monotonic;
use svc_core::{Error, Result};

use super::socket::{End, Socket};

/// The version of the frames' schema.
const SCHEMA_VERSION: u32 = 1;
/// How much is taken at once.
pub(super) const BATCH: BatchBounds = BatchBounds { events: 256, bytes: 256 << 10 };
/// Longest wait for events, after which what the client has said is heeded.
const WAIT: Duration = Duration::from_secs(10);
/// The same for a client that acknowledges.
const WAIT_FOR_ACKS: Duration = Duration::from_secs(1);
/// How long nothing matches before the position is said.
const POSITION_EVERY: Duration = Duration::from_secs(60);

fn encode(frame: &ServerFrame) -> Result<Bytes, End> {
    let encoded = serde_json::to_vec(frame).map_err(|error| End::refused(&Error::internal(error)))?;
    Ok(encoded.into())
}

/// Returns the frame that says what an error `must_refetch` says.
pub(super) fn must_refetch(error: &Error) -> Result<Bytes, End> {
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
pub(super) struct Delivery {
    pub subscriber: Subscriber,
    /// Whether the client wants to know the position while nothing matches.
    positions: bool,
    acknowledges: bool,
    /// Whether the client was told that more follows once it says so.
    told_truncated: bool,
    /// Whether a batch was taken.
    has_begun: bool,
    /// Whether it had all that there was after the last batch.
    was_live: bool,
    /// When a position was last sent, with an event or by itself.
    positioned: Monotonic,
}

impl Delivery {
    /// Tells the client that its subscription has begun.
    pub async fn begin(socket: &mut Socket, begun: Subscribed, positions: bool) -> Result<Self, End> {
        let Subscribed { subscriber, workspace_id, after_id, room_lsn, hint } = begun;
        let resume_token = subscriber.resume_token(after_id).map_err(|error| End::refused(&error))?;
        let schema_version = SCHEMA_VERSION;
        let ack = ServerFrame::SubscribeAck { schema_version, resume_token, after_id, room_lsn };
        socket.send(encode(&ack)?).await?;
        if let Some(events) = hint {
            socket.send(encode(&ServerFrame::ReplayHint { workspace_id, room_lsn, events })?).await?;
        }
        let acknowledges = subscriber.acknowledges();
        let positioned = subscriber.moment();
        Ok(Self {
            subscriber,
            positions,
            acknowledges,
            told_truncated: false,
            has_begun: false,
            was_live: false,
            positioned,
        })
    }

    /// Does what the client has said.
    pub fn heed(&mut self, said: Said) -> Result<(), End> {
        if let Some(ack) = said.ack {
            self.subscriber.acknowledge(ack).map_err(|error| End::refused(&error))?;
        }
        if let Some(after_id) = said.after_id {
            self.subscriber.go_on(after_id).map_err(|error| End::refused(&error))?;
            self.told_truncated = false;
        }
        Ok(())
    }

    /// Returns how long to wait for the next events.
    pub fn wait(&self) -> Duration {
        match (self.positions, self.acknowledges) {
            // Who has all that there was at the beginning is told so at once.
            (true, _) if !self.has_begun => Duration::ZERO,
            (_, true) => WAIT_FOR_ACKS,
            (_, false) => WAIT,
        }
    }

    /// Sends events, and what the client needs to know of where it stands after them.
    pub async fn send(&mut self, socket: &mut Socket, batch: EventBatch) -> Result<(), End> {
        let EventBatch { frames, after_id, room_lsn, state } = batch;
        let has_events = !frames.is_empty();
        for frame in frames {
            socket.send(Bytes::from_owner(frame)).await?;
        }
        let is_live = state == FeedState::Live;
        let resume_token =
            |subscriber: &Subscriber| subscriber.resume_token(after_id).map_err(|error| End::refused(&error));
        if state == FeedState::Truncated && !std::mem::replace(&mut self.told_truncated, true) {
            let resume_token = resume_token(&self.subscriber)?;
            let frame = ServerFrame::ReplayTruncated { after_id, room_lsn, resume_token };
            socket.send(encode(&frame)?).await?;
        }
        let caught_up = is_live && !self.was_live;
        let now = self.subscriber.moment();
        let is_silent = !has_events && now.since(self.positioned) >= POSITION_EVERY;
        // Who was told that more follows is told nothing until it says where.
        let is_due = caught_up || (is_silent && state != FeedState::Truncated);
        if self.positions && is_due {
            let resume_token = resume_token(&self.subscriber)?;
            socket.send(encode(&ServerFrame::Position { after_id, room_lsn, resume_token })?).await?;
        }
        if has_events || is_due {
            self.positioned = now;
        }
        (self.has_begun, self.was_live) = (true, is_live);
        Ok(())
    }
}
