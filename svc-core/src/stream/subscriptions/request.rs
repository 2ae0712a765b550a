//! The request of a subscriber: the events, their form and the start.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::id::{ChannelId, MemberId, ThreadId, WorkspaceId};
use crate::log::bus::EventFilter;
use crate::log::feed::FrameForm;
use crate::stream::events::KindName;

/// Maximum characters of a consumer's name.
const CONSUMER_MAX: usize = 128;

/// The events that a subscriber receives. Each member narrows them; without any they are all that it may see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WantedEvents {
    /// The workspace, which must be the subscriber's.
    ///
    /// Without it a subscriber receives only new events, and no replay unless it connects again.
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
    /// Creates a filter of these members.
    pub(super) fn of(
        workspace_id: Option<WorkspaceId>,
        (channel_id, thread_id, member_id): (Option<ChannelId>, Option<ThreadId>, Option<MemberId>),
        kind: Option<KindName>,
    ) -> Self {
        Self { workspace_id, channel_id, thread_id, member_id, kind }
    }

    /// Returns the same as a filter, which serves events from the log and live ones alike.
    pub(super) fn filter(&self) -> EventFilter {
        EventFilter::on(self.kind.as_deref())
            .in_channel(self.channel_id)
            .in_thread(self.thread_id)
            .about(self.member_id)
    }
}

/// The name of a durable subscription, which belongs to one member.
///
/// It has 1 to 128 of the characters `A` to `Z`, `a` to `z`, `0` to `9` and `._:-`.
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
        if (1..=CONSUMER_MAX).contains(&text.len()) && text.bytes().all(is_name) {
            return Ok(Self(text));
        }
        Err(serde::de::Error::custom(
            "it must have 1 to 128 of the characters A to Z, a to z, 0 to 9 and ._:-",
        ))
    }
}

/// The start of a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartPosition {
    /// At the end of the log, or at the position of a durable subscription.
    Default,
    /// After this position.
    After(i64),
    /// After the last event that the subscriber received on another connection. Later events are replayed,
    /// whatever it requests.
    AfterLast(i64),
    /// At the position of a resume token.
    Token(String),
}

/// A requested subscription.
#[derive(Clone, Debug)]
pub struct Subscription {
    /// The events; `None` if the resume token has them.
    pub wanted: Option<WantedEvents>,
    /// The start.
    pub begin: StartPosition,
    /// The part of each event that is sent.
    pub form: FrameForm,
    /// The durable subscription whose position it updates, if each event is to be acknowledged.
    pub consumer: Option<ConsumerId>,
}

impl Subscription {
    /// Fails with 400 `malformed-request` if it contradicts itself.
    pub(super) fn check(&self) -> Result<()> {
        if self.wanted.is_none() && !matches!(self.begin, StartPosition::Token(_)) {
            return Err(Error::in_field("filter", "missing, and there is no `resume_token` that has one"));
        }
        Ok(())
    }
}
