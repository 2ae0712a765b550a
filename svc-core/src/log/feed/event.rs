//! A verified event for subscribers, encoded once for each form of frame.
//!
//! The encoded form contains no plaintext: the sender of an event adds the content of its message.

use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Result;
use crate::error::Error;
use crate::hash::format_hash;
use crate::id::{ChannelId, MemberId, ThreadId};
use crate::log::event::{Subject, type_name};
use crate::log::verify::EventFields;
use crate::time::Time;

/// An event encoded as a JSON object.
pub type FrameBytes = Arc<[u8]>;

/// The form of an event that a subscriber receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum FrameForm {
    /// The complete event, with the plaintext of messages.
    #[default]
    Full,
    /// The event without payload and plaintext, but with its channel, thread and member.
    Lean,
}

/// An event of a log, ready to be sent to subscribers.
pub(crate) struct FeedEvent {
    pub lsn: i64,
    pub kind: String,
    pub at: Time,
    pub subject: Subject,
    pub payload: Box<str>,
    prev_hash: [u8; 32],
    content_hash: [u8; 32],
    full: OnceLock<FrameBytes>,
    lean: OnceLock<FrameBytes>,
}

/// The wire form of an event, which repeats the attribution at the top level.
#[derive(Serialize)]
struct WireEvent<'a> {
    id: i64,
    lsn: i64,
    prev_hash: String,
    content_hash: String,
    kind: &'a str,
    #[serde(rename = "$type")]
    type_name: String,
    #[serde(flatten)]
    place: Option<WireSubject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attribution: Option<&'a RawValue>,
}

/// The channel, the thread and the member of an event, for a frame without the payload.
#[derive(Serialize)]
struct WireSubject {
    #[serde(skip_serializing_if = "Option::is_none")]
    channel_id: Option<ChannelId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_id: Option<ThreadId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    member_id: Option<MemberId>,
}

impl From<Subject> for WireSubject {
    fn from(Subject { channel_id, thread_id, member_id }: Subject) -> Self {
        Self { channel_id, thread_id, member_id }
    }
}

/// The attribution in a payload, which the frame repeats.
#[derive(Deserialize)]
struct PayloadAttribution<'a> {
    #[serde(borrow)]
    attribution: Option<&'a RawValue>,
}

impl FeedEvent {
    /// Creates the event from a verified row.
    pub fn of(lsn: i64, row: &EventFields<'_>) -> Self {
        Self {
            lsn,
            kind: row.kind.to_owned(),
            at: row.at,
            subject: row.subject,
            payload: row.payload.into(),
            prev_hash: row.prev_hash,
            content_hash: row.content_hash,
            full: OnceLock::new(),
            lean: OnceLock::new(),
        }
    }

    /// Returns the approximate memory use of the event in bytes, encoded in its full form.
    pub fn weight(&self) -> usize {
        self.payload.len().saturating_mul(2).saturating_add(EVENT_OVERHEAD_BYTES)
    }

    /// Returns the frame of the event without plaintext. The frame is encoded on the first call.
    pub fn frame(&self, form: FrameForm) -> Result<FrameBytes> {
        let encoded = match form {
            FrameForm::Full => &self.full,
            FrameForm::Lean => &self.lean,
        };
        if let Some(frame) = encoded.get() {
            return Ok(Arc::clone(frame));
        }
        let frame = self.encode(form)?;
        Ok(Arc::clone(encoded.get_or_init(|| frame)))
    }

    /// Returns the full frame with `message` added.
    pub fn frame_with_message(&self, message: &impl Serialize) -> Result<FrameBytes> {
        let frame = self.frame(FrameForm::Full)?;
        let message = serde_json::to_vec(message).map_err(Error::internal)?;
        let open = frame.strip_suffix(b"}").unwrap_or(&frame);
        Ok([open, b",\"message\":", &message, b"}"].concat().into())
    }

    fn encode(&self, form: FrameForm) -> Result<FrameBytes> {
        let PayloadAttribution { attribution } =
            serde_json::from_str(&self.payload).map_err(Error::internal)?;
        let payload: &RawValue = serde_json::from_str(&self.payload).map_err(Error::internal)?;
        let frame = WireEvent {
            id: self.lsn,
            lsn: self.lsn,
            prev_hash: format_hash(&self.prev_hash),
            content_hash: format_hash(&self.content_hash),
            kind: &self.kind,
            type_name: type_name(&self.kind),
            place: (form == FrameForm::Lean).then(|| self.subject.into()),
            payload: (form == FrameForm::Full).then_some(payload),
            attribution,
        };
        serde_json::to_vec(&frame).map(FrameBytes::from).map_err(Error::internal)
    }
}

/// Approximate memory in bytes that an event needs in addition to the bytes of its payload.
const EVENT_OVERHEAD_BYTES: usize = 600;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_frame_is_the_event_with_its_attribution() {
        let payload = r#"{"attribution":{"actor_id":null},"number":1}"#;
        let row = EventFields {
            kind: "Probe",
            at: Time::from_micros(1),
            subject: Subject::WORKSPACE,
            prev_hash: [1; 32],
            content_hash: [2; 32],
            payload,
        };
        let event = FeedEvent::of(7, &row);
        let decoded = |frame: FrameBytes| -> Value { serde_json::from_slice(&frame).unwrap() };
        let full = decoded(event.frame(FrameForm::Full).unwrap());
        let payload: Value = serde_json::from_str(payload).unwrap();
        assert_eq!((&full["id"], &full["$type"]), (&json!(7), &json!("svc.event.Probe/1")));
        assert_eq!((&full["payload"], &full["attribution"]), (&payload, &payload["attribution"]));
        let lean = decoded(event.frame(FrameForm::Lean).unwrap());
        assert_eq!((lean.get("payload"), &lean["attribution"]), (None, &payload["attribution"]));
        let spoken = decoded(event.frame_with_message(&json!({"body": "hi"})).unwrap());
        assert_eq!((&spoken["payload"], &spoken["message"]["body"]), (&payload, &json!("hi")));
        assert!(Arc::ptr_eq(&event.frame(FrameForm::Full).unwrap(), &event.frame(FrameForm::Full).unwrap()));
    }
}
