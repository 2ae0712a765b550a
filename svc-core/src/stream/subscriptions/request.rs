//! The request of a subscriber: which events, in which form, and from which position.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::id::{ChannelId, MemberId, ThreadId, WorkspaceId};
use crate::log::bus::EventFilter;
use crate::log::feed::FrameForm;
use crate::stream::events::KindName;

/// Maximum number of characters in a consumer's name.
const CONSUMER_ID_MAX: usize = 128;

/// Filter of a subscription. Each member narrows the filter; an empty filter selects all events that the
/// subscriber may see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedEvents {
    /// The workspace, which must be the subscriber's own.
    ///
    /// Without a workspace, the subscriber receives only new events. Earlier events are replayed only after a
    /// reconnection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<WorkspaceId>,
    /// Only events in this channel.
    #[serde(alias = "channel", skip_serializing_if = "Option::is_none")]
    channel_id: Option<ChannelId>,
    /// Only events in this thread.
    #[serde(alias = "thread", skip_serializing_if = "Option::is_none")]
    thread_id: Option<ThreadId>,
    /// Only events about this member.
    #[serde(alias = "member", skip_serializing_if = "Option::is_none")]
    member_id: Option<MemberId>,
    /// Only events of this kind, such as `ThreadCreated`.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<KindName>,
}

impl WantedEvents {
    /// Creates a filter from the values of its members.
    pub(super) fn new(
        workspace_id: Option<WorkspaceId>,
        (channel_id, thread_id, member_id): (Option<ChannelId>, Option<ThreadId>, Option<MemberId>),
        kind: Option<KindName>,
    ) -> Self {
        Self { workspace_id, channel_id, thread_id, member_id, kind }
    }

    /// Converts the filter to an event filter, which applies to stored and to live events.
    pub(super) fn event_filter(&self) -> EventFilter {
        EventFilter::on(self.kind.as_deref())
            .in_channel(self.channel_id)
            .in_thread(self.thread_id)
            .about(self.member_id)
    }
}

/// Name of a durable subscription, unique per member.
///
/// A name consists of 1 to 128 of the characters `A` to `Z`, `a` to `z`, `0` to `9` and `._:-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(transparent)]
pub struct ConsumerId(#[schemars(regex(pattern = r"^[A-Za-z0-9._:-]{1,128}$"))] String);

impl ConsumerId {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for ConsumerId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
        if (1..=CONSUMER_ID_MAX).contains(&text.len()) && text.bytes().all(is_name) {
            return Ok(Self(text));
        }
        Err(serde::de::Error::custom(
            "it must have 1 to 128 of the characters A to Z, a to z, 0 to 9 and ._:-",
        ))
    }
}

/// Position in the log at which a subscription starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartPosition {
    /// At the end of the log, or at the stored position of a durable subscription.
    Default,
    /// After this position in the log.
    After(i64),
    /// After the last event that the subscriber received on an earlier connection. Later events are replayed
    /// even if the subscription has no workspace.
    AfterLastReceived(i64),
    /// At the position that a resume token contains.
    Token(String),
}

/// A subscription that a client requests.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// Filter of the requested events; `None` if the resume token contains the filter.
    pub wanted: Option<WantedEvents>,
    /// The position in the log at which the subscription starts.
    pub begin: StartPosition,
    /// The form in which each event is sent.
    pub form: FrameForm,
    /// Name of the durable subscription; `None` if events need no acknowledgement.
    pub consumer: Option<ConsumerId>,
}

impl Subscription {
    /// Fails with 400 `malformed-request` if the request has neither a filter nor a resume token.
    pub(super) fn check_has_filter(&self) -> Result<()> {
        if self.wanted.is_none() && !matches!(self.begin, StartPosition::Token(_)) {
            return Err(Error::in_field("filter", "required unless `resume_token` is set"));
        }
        Ok(())
    }
}
