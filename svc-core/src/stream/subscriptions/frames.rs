//! WebSocket frames of a subscription: the client's frames, and the server's frames other than events.
//!
//! The credential in the first frame is read first, so an invalid credential is reported whatever else is
//! wrong with the frame. A malformed frame ends the connection.

use schemars::JsonSchema;
use secrecy::SecretString;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::request::{ConsumerId, StartPosition, Subscription, WantedEvents};
use crate::conversation::messages::OpenedEvent;
use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::log::event::Attribution;
use crate::log::feed::FrameForm;
use crate::mark::strip_byte_order_mark;
use crate::op::{self, Input};
use crate::schema::{self, inlined_input, inlined_output};
use crate::text::Count;
use crate::token_text;

/// The first frame, which starts the subscription.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FirstFrame {
    /// The token to subscribe with. Default: the credential of the handshake.
    token: Option<String>,
    /// Filter of the requested events: an object. Required unless `resume_token` is set.
    #[schemars(with = "Option<WantedEvents>")]
    filter: Option<Value>,
    /// Only events after this position; 0 is the beginning of a log that was never pruned.
    ///
    /// Without it, a subscription begins at the end of the log, and a durable subscription at its stored
    /// position. With it, a durable subscription is moved to this position.
    #[schemars(with = "Option<Count<0, { i64::MAX }>>")]
    after_id: Option<Value>,
    /// The resume token from an earlier frame, which replaces the filter and the position. A resume token is
    /// valid for an hour.
    resume_token: Option<String>,
    /// Whether the server sends events again after a reconnection if they were not acknowledged; requires
    /// `consumer_id`.
    #[serde(default)]
    at_least_once: bool,
    /// The name of the durable subscription: 1 to 128 of the characters A to Z, a to z, 0 to 9 and `._:-`.
    #[schemars(with = "Option<ConsumerId>")]
    consumer_id: Option<Value>,
    /// Whether the server sends `position` frames while no events match.
    #[serde(default)]
    positions: bool,
}

/// The subscription that the first frame requests.
#[derive(Debug)]
pub struct StartRequest {
    /// The subscription to begin.
    pub subscription: Subscription,
    /// Whether the client wants `position` frames.
    pub positions: bool,
}

impl FirstFrame {
    /// Parses the first frame of a connection.
    pub fn read(text: &str) -> Result<Self> {
        op::decode_frame(&Input::json(strip_byte_order_mark(text).to_owned()))
            .map_err(|error| malformed_error("the first frame", error.detail()))
    }

    /// Removes the token from the frame and returns it.
    ///
    /// Returns `None` if the frame has no token, so that the credential of the handshake applies.
    pub fn credential(&mut self) -> Option<SecretString> {
        self.token.take().map(|token| SecretString::from(token_text::trimmed(&token)))
    }

    /// Validates the requested events and the start position, and returns the requested subscription.
    pub fn start_request(self) -> Result<StartRequest> {
        let wanted = self.filter.map(parse_filter).transpose()?;
        let begin = match (self.after_id, self.resume_token) {
            (Some(_), Some(_)) => {
                return Err(Error::malformed("give either `after_id` or `resume_token`, not both"));
            }
            (None, Some(token)) => StartPosition::Token(token),
            (Some(after_id), None) => StartPosition::After(parse_position("`after_id`", after_id)?),
            (None, None) => StartPosition::Default,
        };
        let consumer = match (self.at_least_once, self.consumer_id) {
            (true, Some(id)) => Some(
                ConsumerId::deserialize(id)
                    .map_err(|error| malformed_error("`consumer_id`", &error.to_string()))?,
            ),
            (false, None) => None,
            _ => return Err(Error::in_fields(&["at_least_once", "consumer_id"], "each needs the other")),
        };
        let subscription = Subscription { wanted, begin, form: FrameForm::Full, consumer };
        Ok(StartRequest { subscription, positions: self.positions })
    }
}

/// A frame that the client sends after the first frame. It contains exactly one of its members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LaterFrame {
    /// The position from which to continue after `replay_truncated`; it must not be beyond the end of the
    /// log. A durable subscription can be moved to any such position at any time, including backwards.
    after_id: Option<Count<0, { i64::MAX }>>,
    /// The position up to which the client has processed events; only for a durable subscription.
    ack: Option<Count<0, { i64::MAX }>>,
}

/// The requests that the client has sent since the server last handled its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientRequests {
    /// The position from which the client wants to continue.
    pub after_id: Option<i64>,
    /// The position up to which the client has processed events.
    pub ack: Option<i64>,
}

impl ClientRequests {
    /// Parses a frame and adds its request. Only the last `after_id` and the highest `ack` are kept.
    pub fn add(&mut self, text: &str) -> Result<()> {
        let frame: LaterFrame = op::decode_frame(&Input::json(strip_byte_order_mark(text).to_owned()))?;
        match (frame.after_id, frame.ack) {
            (Some(after_id), None) => self.after_id = Some(after_id.get()),
            (None, Some(ack)) => self.ack = self.ack.max(Some(ack.get())),
            _ => return Err(Error::malformed("a frame has either `after_id` or `ack`")),
        }
        Ok(())
    }
}

/// A frame of the server that is not an event.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ServerFrame {
    /// The subscription has begun.
    SubscribeAck {
        /// Version of the frames' format.
        schema_version: u32,
        /// A resume token with the filter and the position, valid for an hour.
        resume_token: String,
        /// The position after which events are sent.
        after_id: i64,
        /// The last position in the log.
        room_lsn: i64,
    },
    /// The server does not send earlier events, because the filter has no `workspace_id`.
    ReplayHint {
        /// Id of the workspace, to pass as `workspace_id` in order to receive earlier events.
        workspace_id: WorkspaceId,
        /// The last position in the log.
        room_lsn: i64,
        /// The number of earlier events in the log that are not sent.
        events: i64,
    },
    /// The server has sent the maximum number of events; it continues when the client sends `after_id`.
    ReplayTruncated {
        /// The position up to which events were sent.
        after_id: i64,
        /// The last position in the log.
        room_lsn: i64,
        /// A resume token with the filter and the position, valid for an hour.
        resume_token: String,
    },
    /// The server has read the log up to this position, and no further event matched.
    Position {
        /// The position up to which the log was read.
        after_id: i64,
        /// The last position in the log.
        room_lsn: i64,
        /// A resume token with the filter and the position, valid for an hour.
        resume_token: String,
    },
    /// The log lacks the events after the subscription's position. The server closes the connection.
    MustRefetch {
        /// The reason, which is always `CursorTooOld`.
        code: String,
        /// The position of the oldest event that remains in the log.
        floor: i64,
        /// The address of the log's snapshot.
        snapshot: String,
        /// The last position in the log.
        room_lsn: i64,
    },
}

/// Returns the contract for clients: each frame's name, sender and schema.
pub fn contract() -> Value {
    json!([
        {"frame": "first", "sender": "client", "schema": inlined_input(schema::of::<FirstFrame>)},
        {"frame": "later", "sender": "client", "schema": inlined_input(schema::of::<LaterFrame>)},
        {"frame": "status", "sender": "server", "schema": inlined_output(schema::of::<ServerFrame>)},
        {"frame": "event", "sender": "server", "schema": inlined_output(schema::of::<EventFrame>)},
    ])
}

/// An event as stored in the log, with its attribution as a separate member.
#[derive(Serialize, JsonSchema)]
struct EventFrame {
    #[serde(flatten)]
    event: OpenedEvent,
    /// The attribution from the event's payload.
    attribution: Attribution,
}

fn parse_filter(filter: Value) -> Result<WantedEvents> {
    let Value::Object(filter) = filter else {
        return Err(malformed_error("`filter`", "it must be an object"));
    };
    op::decode_object(filter).map_err(|error| malformed_error("`filter`", error.detail()))
}

fn parse_position(name: &str, value: Value) -> Result<i64> {
    let position = Count::<0, { i64::MAX }>::deserialize(value);
    position.map(Count::get).map_err(|error| malformed_error(name, &error.to_string()))
}

fn malformed_error(name: &str, reason: &str) -> Error {
    Error::malformed(format!("{name}: {reason}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use secrecy::ExposeSecret as _;

    use super::*;
    use crate::error::Code;

    const WORKSPACE: &str = "01990000-0000-7000-8000-000000000001";

    fn read(text: &str) -> Result<StartRequest, String> {
        FirstFrame::read(text).and_then(FirstFrame::start_request).map_err(|error| {
            assert_eq!(error.code(), Code::Malformed);
            error.detail().to_owned()
        })
    }

    #[test]
    fn the_first_frame_is_read_strictly() {
        let good = format!(
            r#"{{"token":"svc_1","filter":{{"workspace_id":"{WORKSPACE}","kind":"K"}},"after_id":7}}"#
        );
        assert_eq!(read(&good).unwrap().subscription.begin, StartPosition::After(7));
        let other_names = format!(r#"{{"filter":{{"channel":"{WORKSPACE}","member":"{WORKSPACE}"}}}}"#);
        assert!(read(&other_names).is_ok());
        let filter = format!(r#""filter":{{"workspace_id":"{WORKSPACE}"}}"#);
        for (bad, reason) in [
            ("{", "first frame"),
            ("[]", "first frame"),
            (&format!(r#"{{"token":"svc_1",{filter},"aftr_id":1}}"#), "aftr_id"),
            (&format!(r#"{{"token":"svc_1",{filter},"token":"svc_2"}}"#), "`token`: appears twice"),
            (
                &format!(
                    r#"{{"token":"svc_1","filter":{{"workspace_id":"{WORKSPACE}","workspace_id":"w"}}}}"#
                ),
                "`workspace_id` appears twice",
            ),
            (
                &format!(r#"{{"filter":{{"channel":"{WORKSPACE}","channel_id":"{WORKSPACE}"}}}}"#),
                "channel_id",
            ),
            (
                &format!(r#"{{"token":"svc_1","filter":{{"workspace_id":"{WORKSPACE}","thread":"t"}}}}"#),
                "`filter`",
            ),
            (r#"{"token":"svc_1","filter":{"workspace_id":"w"}}"#, "`workspace_id`: "),
            (r#"{"token":"svc_1","filter":[]}"#, "object"),
            (&format!(r#"{{"token":"svc_1",{filter},"after_id":-1}}"#), "-1"),
            (&format!(r#"{{"token":"svc_1",{filter},"after_id":1,"resume_token":"x"}}"#), "not both"),
            (&format!(r#"{{{filter},"at_least_once":true}}"#), "each needs the other"),
            (&format!(r#"{{{filter},"consumer_id":"c"}}"#), "each needs the other"),
            (&format!(r#"{{{filter},"at_least_once":true,"consumer_id":"a b"}}"#), "consumer_id"),
        ] {
            let error = read(bad).unwrap_err();
            assert!(error.contains(reason), "{bad}: {error}");
        }
        assert!(FirstFrame::read(&format!("{{{filter}}}")).unwrap().credential().is_none());
        let secret = FirstFrame::read(&good).unwrap().credential().unwrap();
        assert_eq!(secret.expose_secret(), "svc_1");
    }

    #[test]
    fn later_frames_say_one_thing_each() {
        let mut said = ClientRequests::default();
        for text in [r#"{"after_id":7}"#, r#"{"ack":3}"#, r#"{"after_id":5}"#, r#"{"ack":4}"#] {
            said.add(text).unwrap();
        }
        assert_eq!(said, ClientRequests { after_id: Some(5), ack: Some(4) });
        for bad in
            ["", "{}", "[]", r#"{"ack":-1}"#, r#"{"ack":1,"after_id":1}"#, r#"{"ack":"1"}"#, r#"{"x":1}"#]
        {
            assert!(said.add(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_frame_is_read_or_rejected_with_a_reason(text in any::<String>()) {
            if let Err(reason) = read(&text) {
                prop_assert!(!reason.is_empty());
            }
            if let Err(error) = ClientRequests::default().add(&text) {
                prop_assert_eq!(error.code(), Code::Malformed);
            }
        }
    }
}
