//! The query string of a subscription over server-sent events.

use schemars::JsonSchema;
use serde::Deserialize;

use super::request::{ConsumerId, StartPosition, Subscription, WantedEvents};
use crate::error::{Error, Result};
use crate::id::{ChannelId, MemberId, ThreadId, WorkspaceId};
use crate::log::feed::FrameForm;
use crate::op::{self, Input};
use crate::stream::events::KindName;
use crate::text::Count;

/// The query string of an event stream. Without `workspace_id`, the stream contains only new events.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StreamQuery {
    /// The workspace, which must be the subscriber's own.
    workspace_id: Option<WorkspaceId>,
    /// Only events in this channel.
    #[serde(alias = "channel")]
    channel_id: Option<ChannelId>,
    /// Only events in this thread.
    #[serde(alias = "thread")]
    thread_id: Option<ThreadId>,
    /// Only events about this member.
    #[serde(alias = "member")]
    member_id: Option<MemberId>,
    /// Only events of this kind, such as `ThreadCreated`.
    kind: Option<KindName>,
    /// Only events after this position; 0 is the beginning of a log that was never pruned.
    ///
    /// Without a position, a stream begins at the end of the log, and a durable subscription at its stored
    /// position.
    after_id: Option<Count<0, { i64::MAX }>>,
    /// The form in which each event is sent: `full`, or `lean` without payload and content. Default: `full`.
    form: Option<FrameForm>,
    /// Whether the server sends events again after a reconnection if they were not acknowledged; requires
    /// `consumer_id`.
    #[serde(default)]
    at_least_once: bool,
    /// The name of the durable subscription: 1 to 128 of the characters A to Z, a to z, 0 to 9 and `._:-`.
    consumer_id: Option<ConsumerId>,
}

impl StreamQuery {
    /// Parses the query from its fields.
    pub fn read(fields: Vec<(String, String)>) -> Result<Self> {
        op::decode(&Input { text: fields, ..Input::default() })
    }

    /// Returns the requested subscription.
    ///
    /// `last_event` is the last event that a reconnecting client received. The stream continues after that
    /// event, and a durable subscription is moved to it, which acknowledges all events up to it.
    pub fn subscription(self, last_event: Option<i64>) -> Result<Subscription> {
        let after = self.after_id.map_or(StartPosition::Default, |after| StartPosition::After(after.get()));
        let consumer = match (self.at_least_once, self.consumer_id) {
            (true, Some(id)) => Some(id),
            (false, None) => None,
            _ => return Err(Error::in_fields(&["at_least_once", "consumer_id"], "each needs the other")),
        };
        let wanted = WantedEvents::new(
            self.workspace_id,
            (self.channel_id, self.thread_id, self.member_id),
            self.kind,
        );
        Ok(Subscription {
            wanted: Some(wanted),
            begin: last_event.map_or(after, StartPosition::AfterLastReceived),
            form: self.form.unwrap_or_default(),
            consumer,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fields: &[(&str, &str)], last: Option<i64>) -> Result<Subscription> {
        let owned = fields.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        StreamQuery::read(owned).and_then(|query| query.subscription(last))
    }

    #[test]
    fn a_query_says_what_is_wanted_and_from_where() {
        assert_eq!(read(&[], None).unwrap().begin, StartPosition::Default);
        assert_eq!(read(&[("after_id", "7")], None).unwrap().begin, StartPosition::After(7));
        assert_eq!(read(&[("after_id", "7")], Some(9)).unwrap().begin, StartPosition::AfterLastReceived(9));
        let lean = read(&[("form", "lean"), ("kind", "ThreadCreated")], None).unwrap();
        assert_eq!(lean.form, FrameForm::Lean);
        let consumer = read(&[("at_least_once", "true"), ("consumer_id", "c")], None).unwrap();
        assert_eq!(consumer.consumer.unwrap().as_str(), "c");
        for bad in [("after_id", "-1"), ("form", "fat"), ("consumer_id", "c"), ("x", "1"), ("channel", "x")] {
            assert!(read(&[bad], None).is_err(), "{bad:?}");
        }
    }
}
