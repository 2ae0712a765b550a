//! Filters that select the events for which a listener waits.
//!
//! A filter uses only the kind and the subject of an event, so waking a listener reads no payload.

use crate::id::{ChannelId, MemberId, ThreadId};
use crate::log::event::Subject;

/// A filter that selects events for a listener.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    kinds: Vec<String>,
    channel_id: Option<ChannelId>,
    thread_id: Option<ThreadId>,
    member_id: Option<MemberId>,
    /// Whether the filter selects only events that concern the waiting member.
    is_for_waiting_member: bool,
    /// Whether the filter selects additions to the waiting member's inbox instead of events.
    selects_inbox_items: bool,
    /// Filters whose events are selected as well.
    alternatives: Vec<EventFilter>,
}

impl EventFilter {
    /// Creates a filter for events of these kinds, or of any kind if the list is empty.
    pub fn on<K: Into<String>>(kinds: impl IntoIterator<Item = K>) -> Self {
        Self { kinds: kinds.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Restricts the filter to events in this channel, or in any channel if `channel_id` is `None`.
    #[must_use]
    pub fn in_channel(self, channel_id: Option<ChannelId>) -> Self {
        Self { channel_id, ..self }
    }

    /// Restricts the filter to events in this thread, or in any thread if `thread_id` is `None`.
    #[must_use]
    pub fn in_thread(self, thread_id: Option<ThreadId>) -> Self {
        Self { thread_id, ..self }
    }

    /// Restricts the filter to events that concern this member, or any member if `member_id` is `None`.
    #[must_use]
    pub fn about(self, member_id: Option<MemberId>) -> Self {
        Self { member_id, ..self }
    }

    /// Restricts the filter to events that concern the waiting member.
    #[must_use]
    pub fn about_waiting_member(self) -> Self {
        Self { is_for_waiting_member: true, ..self }
    }

    /// Creates a filter for additions to the waiting member's inbox only.
    pub fn inbox() -> Self {
        Self { selects_inbox_items: true, is_for_waiting_member: true, ..Self::default() }
    }

    /// Also selects the events that `other` selects.
    #[must_use]
    pub fn or(mut self, other: EventFilter) -> Self {
        self.alternatives.push(other);
        self
    }

    /// Sets `member` as the waiting member of the filter.
    #[must_use]
    pub(crate) fn of(self, member: Option<MemberId>) -> Self {
        let alternatives = self.alternatives.into_iter().map(|other| other.of(member)).collect();
        match (self.is_for_waiting_member, member) {
            (true, Some(member)) => {
                Self { member_id: Some(member), is_for_waiting_member: false, alternatives, ..self }
            }
            _ => Self { alternatives, ..self },
        }
    }

    /// Returns the member whose inbox the filter selects, or `None` if the filter selects events.
    pub(super) fn inbox_owner(&self) -> Option<MemberId> {
        self.member_id.filter(|_| self.selects_inbox_items)
    }

    /// Returns whether the filter selects an event.
    pub(crate) fn matches(&self, kind: &str, subject: &Subject) -> bool {
        self.matches_without_alternatives(kind, subject)
            || self.alternatives.iter().any(|other| other.matches(kind, subject))
    }

    /// Returns whether the filter itself selects an event, without its alternatives.
    fn matches_without_alternatives(&self, kind: &str, subject: &Subject) -> bool {
        // No event concerns a caller that is not a member.
        !self.is_for_waiting_member
            && !self.selects_inbox_items
            && (self.kinds.is_empty() || self.kinds.iter().any(|wanted| wanted == kind))
            && (self.channel_id.is_none() || self.channel_id == subject.channel_id)
            && (self.thread_id.is_none() || self.thread_id == subject.thread_id)
            && (self.member_id.is_none() || self.member_id == subject.member_id)
    }
}
