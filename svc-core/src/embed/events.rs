//! Following the events of a workspace.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::member::Member;
use crate::api::{ChannelId, OpenedEvent, ThreadId, WaitForEvent, WaitOutput};
use crate::error::{Error, Result};
use crate::host::calls::Calls;
use crate::id::MemberId;
use crate::stream::subscriptions::{ConsumerId, EmbeddedConsumer};
use crate::time::{Clock, Monotonic};

/// Maximum seconds of one wait for events. The iterator then waits again.
const WAIT_SECS: i64 = 60;
/// Time after which the database records again that a consumer is used. Unused consumers are removed.
const SEEN_INTERVAL: Duration = Duration::from_secs(86_400);

/// The position after which a program follows the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Since {
    /// After the last event that the log has now.
    Now,
    /// After the event at this position. 0 is before the first event.
    Lsn(i64),
    /// After the last event that the consumer with this name has acknowledged. A new consumer begins now.
    ///
    /// The name is 1 to 64 characters of letters, digits and `-`, `_`, `.` and `:`. Its position is stored in
    /// the database, for the member.
    Consumer(String),
}

/// The events that a program follows: all, or those that match every condition.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    channel: Option<ChannelId>,
    thread: Option<ThreadId>,
    member: Option<MemberId>,
    kind: Option<String>,
}

impl Filter {
    /// Creates a filter that matches all events that the member may see.
    pub fn new() -> Self {
        Self::default()
    }

    /// Matches only events in a channel.
    #[must_use]
    pub fn channel(self, id: ChannelId) -> Self {
        Self { channel: Some(id), ..self }
    }

    /// Matches only events in a thread.
    #[must_use]
    pub fn thread(self, id: ThreadId) -> Self {
        Self { thread: Some(id), ..self }
    }

    /// Matches only events that concern a member.
    #[must_use]
    pub fn member(self, id: MemberId) -> Self {
        Self { member: Some(id), ..self }
    }

    /// Matches only events of a kind, such as `MessagePosted`.
    #[must_use]
    pub fn kind(self, kind: &str) -> Self {
        Self { kind: Some(kind.to_owned()), ..self }
    }
}

/// An event of a workspace's log.
#[derive(Clone)]
#[non_exhaustive]
pub struct Event {
    /// Position of the event in the log.
    pub lsn: i64,
    /// Kind of the event, such as `MessagePosted`.
    pub kind: String,
    /// The fields of the event.
    pub payload: Value,
    /// Text of the message, if the event is about a message whose text the member may read.
    pub body: Option<String>,
    consumer: Option<Arc<HeldConsumer>>,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Event({} at {})", self.kind, self.lsn)
    }
}

/// A consumer, with the service that stores its position.
struct HeldConsumer {
    member: Member,
    consumer: EmbeddedConsumer,
}

impl HeldConsumer {
    fn acknowledge(&self, position: i64) -> Result<()> {
        let service = self.member.service();
        let _call = service.calls().begin()?;
        self.consumer.acknowledge(service.dispatch(), position)
    }
}

impl Event {
    /// Stores that the consumer has processed the events up to this one.
    ///
    /// The next iterator of the consumer begins after it, also in another process. Without a consumer, this
    /// has no effect. Fails with 409 `wrong-state` if a newer iterator or connection has taken the consumer
    /// over.
    pub fn ack(&self) -> Result<()> {
        match &self.consumer {
            Some(held) => held.acknowledge(self.lsn),
            None => Ok(()),
        }
    }
}

/// The events of a workspace, as they are written.
///
/// The iterator blocks until the next event, and ends after an error or [`Stopper::stop`]. It holds one page
/// of events, so a slow program delays no other.
pub struct Events {
    member: Member,
    filter: Filter,
    /// The position up to which the log was read.
    after: i64,
    page: VecDeque<OpenedEvent>,
    consumer: Option<Arc<HeldConsumer>>,
    /// Time at which the database last recorded that the consumer is used.
    seen_at: Monotonic,
    waits: Arc<Calls>,
    has_failed: bool,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Events(after {})", self.after)
    }
}

/// Ends an iterator over events, from another thread.
#[derive(Clone)]
pub struct Stopper(Arc<Calls>);

impl fmt::Debug for Stopper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stopper")
    }
}

impl Stopper {
    /// Ends the iterator: a wait in progress returns, and no further event is returned.
    pub fn stop(&self) {
        self.0.close();
    }
}

impl Member {
    /// Returns the events of the workspace that match `filter`, from a position on.
    ///
    /// Fails with 409 `must_refetch` if the log no longer has the events after the position.
    pub fn events(&self, since: Since, filter: &Filter) -> Result<Events> {
        let member = self.without_key();
        let (after, consumer) = match since {
            Since::Now => (member.log_position()?, None),
            Since::Lsn(lsn) => (lsn, None),
            Since::Consumer(name) => (member.log_position()?, Some(name)),
        };
        let seen_at = member.clock().monotonic();
        let mut events = Events {
            member,
            filter: filter.clone(),
            after,
            page: VecDeque::new(),
            consumer: None,
            seen_at,
            waits: Arc::new(Calls::default()),
            has_failed: false,
        };
        if let Some(name) = consumer {
            // Shows that the member may read events, before the consumer is taken from its holder.
            events.read_page(None, 0)?;
            events.take_over(name)?;
        }
        // Reads what is there, so that a position that the log does not have is reported here.
        events.read_page(None, 0)?;
        Ok(events)
    }
}

impl Events {
    /// Takes a consumer over, and continues after its position.
    fn take_over(&mut self, name: String) -> Result<()> {
        let id: ConsumerId = serde_json::from_value(Value::String(name))
            .map_err(|error| Error::in_field("consumer", error.to_string()))?;
        let service = self.member.service();
        let _call = service.calls().begin()?;
        let owner = (self.member.workspace_id(), self.member.id());
        let (consumer, position) = EmbeddedConsumer::take_over(service.dispatch(), owner, id)?;
        self.after = position;
        self.page.clear();
        self.consumer = Some(Arc::new(HeldConsumer { member: self.member.clone(), consumer }));
        Ok(())
    }

    /// Returns the next event, or `None` if none is written within `limit` or the iterator has ended.
    pub fn next_within(&mut self, limit: Duration) -> Result<Option<Event>> {
        self.next_until(Some(self.member.clock().deadline(limit)))
    }

    /// Returns a handle that ends this iterator.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.waits))
    }

    fn next_until(&mut self, deadline: Option<Monotonic>) -> Result<Option<Event>> {
        let is_over = |clock: &Clock| deadline.is_some_and(|deadline| clock.remaining(deadline).is_zero());
        let mut is_last = is_over(self.member.clock());
        loop {
            if self.has_failed || self.waits.is_closed() {
                return Ok(None);
            }
            if let Some(event) = self.page.pop_front() {
                return Event::of(event, self.consumer.as_ref()).map(Some);
            }
            // After the deadline, what is there is read without waiting.
            let read = self.read_page(deadline, if is_last { 0 } else { WAIT_SECS });
            if self.waits.is_closed() {
                return Ok(None);
            }
            self.has_failed = read.is_err();
            let has_ended = read?;
            if self.page.is_empty() && is_last {
                return Ok(None);
            }
            is_last = !has_ended || is_over(self.member.clock());
        }
    }

    /// Reads the next page of events, after waiting for an event if there is none.
    ///
    /// Returns false if the wait has not ended by the deadline.
    fn read_page(&mut self, deadline: Option<Monotonic>, timeout_secs: i64) -> Result<bool> {
        let mut request = WaitForEvent::new(self.after).timeout_secs(timeout_secs);
        if let Some(channel) = self.filter.channel {
            request = request.channel_id(channel);
        }
        if let Some(thread) = self.filter.thread {
            request = request.thread_id(thread);
        }
        if let Some(member) = self.filter.member {
            request = request.member_id(member);
        }
        if let Some(kind) = &self.filter.kind {
            request = request.kind(kind);
        }
        let deadline = deadline.filter(|_| timeout_secs > 0);
        let waited = self.member.wait(&request, &self.waits, deadline)?;
        let has_ended = waited.is_some();
        match waited {
            Some((WaitOutput::Ready(page), _)) => {
                self.after = page.after_id;
                self.page = page.events.items.into();
            }
            // No event up to this position matches.
            Some((WaitOutput::TimedOut(_), lsn)) => self.after = self.after.max(lsn.unwrap_or(0)),
            None => {}
        }
        if let Some(consumer) = &self.consumer
            && self.member.clock().remaining(self.seen_at.plus(SEEN_INTERVAL)).is_zero()
        {
            // Position 0 leaves the position unchanged.
            consumer.acknowledge(0)?;
            self.seen_at = self.member.clock().monotonic();
        }
        Ok(has_ended)
    }
}

impl Iterator for Events {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        self.next_until(None).transpose()
    }
}

impl Event {
    fn of(event: OpenedEvent, consumer: Option<&Arc<HeldConsumer>>) -> Result<Self> {
        Ok(Self {
            lsn: event.stored.lsn,
            payload: serde_json::from_str(event.stored.payload.get()).map_err(Error::internal)?,
            kind: event.stored.kind,
            body: event.message.filter(|message| !message.withdrawn && !message.unreadable).map(|it| it.body),
            consumer: consumer.map(Arc::clone),
        })
    }
}
