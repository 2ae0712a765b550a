//! Consumers, or durable subscriptions, which store the last acknowledged position in a log.
//!
//! A consumer is owned by a member and has a name. Its position moves only when its subscriber acknowledges
//! events or sets a new start, and is written at most once per second, except for a new start. Consumers
//! write no event and no audit row. Only one connection holds a consumer: the newest one, on any server. A
//! consumer without a connection for 30 days is removed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::request::ConsumerId;
use crate::error::{Error, Result};
use crate::id::{MemberId, WorkspaceId};
use crate::identity::floor::LogRange;
use crate::identity::sessions::ended_rows_chore;
use crate::op::{Chore, Dispatch, Read, ServiceWork, Surface, Write};
use crate::time::{Monotonic, Time};

/// Maximum number of consumers per member.
const CONSUMERS_PER_MEMBER_MAX: i64 = 100;
/// Maximum number of events that are sent without an acknowledgement.
pub(super) const UNACKNOWLEDGED_MAX: usize = 1000;
/// Minimum time between two writes of a consumer's position.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time until a connection notices that a newer connection holds its consumer.
const HOLDER_CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Time after which an unused consumer is removed.
const UNUSED_TTL: Duration = Duration::from_secs(30 * 86_400);
/// Maximum age of a consumer's last-seen time while a connection holds the consumer.
const LAST_SEEN_AGE_MAX: Duration = Duration::from_secs(86_400);

/// Returns the chore that removes consumers after 30 days without a connection.
pub(super) fn removal_chore() -> Chore {
    ended_rows_chore("consumers", UNUSED_TTL, ANY_UNUSED, DELETE_UNUSED)
}

/// A consumer, as seen by the connection that holds it.
pub(super) struct Consumer {
    work: ServiceWork,
    member: MemberId,
    id: ConsumerId,
    holder: Uuid,
    /// The positions of events that were sent and not yet acknowledged.
    unacknowledged: VecDeque<i64>,
    /// The highest position up to which this connection has sent events.
    last_sent_position: i64,
    acknowledged_position: i64,
    stored_position: i64,
    /// The earliest time at which the position may be written again.
    next_write_at: Monotonic,
    /// The time of the last check that this connection holds the consumer.
    holder_checked_at: Monotonic,
}

/// A consumer that this connection has just taken over.
pub(super) struct TakenConsumer {
    pub consumer: Consumer,
    /// The consumer's position in the log.
    pub position: i64,
    /// The range of the log when the consumer was taken.
    pub range: LogRange,
}

impl Consumer {
    /// Takes a consumer over from the connection that holds it, and returns the consumer with its position.
    ///
    /// With `begin`, the consumer moves to that position. Without `begin`, an existing consumer keeps its
    /// position, and a new one begins at the end of the log. Fails with 409 `must_refetch` if the log lacks
    /// the events after the position, and then changes nothing.
    pub async fn take_over(
        dispatch: &Arc<Dispatch>,
        (work, member): (ServiceWork, MemberId),
        id: ConsumerId,
        begin: Option<i64>,
    ) -> Result<TakenConsumer> {
        let name = id.as_str().to_owned();
        let checked = dispatch.clock.monotonic();
        let taken =
            dispatch.await_change(work, Surface::System, move |cx| take_consumer(cx, member, &name, begin));
        let (holder, position, range) = taken.await?;
        let consumer = Self {
            work,
            member,
            id,
            holder,
            unacknowledged: VecDeque::new(),
            last_sent_position: position,
            acknowledged_position: position,
            stored_position: position,
            next_write_at: dispatch.clock.deadline(WRITE_INTERVAL),
            holder_checked_at: checked,
        };
        Ok(TakenConsumer { consumer, position, range })
    }

    /// Returns how many more events may be sent before the subscriber must acknowledge some.
    pub fn sendable_count(&self) -> usize {
        UNACKNOWLEDGED_MAX.saturating_sub(self.unacknowledged.len())
    }

    /// Records that the events at these positions were sent.
    pub fn record_sent(&mut self, positions: impl Iterator<Item = i64>) {
        self.unacknowledged.extend(positions);
    }

    /// Records that the subscriber has processed the events up to `position`.
    ///
    /// `last_sent` is the last position that was sent since the consumer was last moved.
    ///
    /// After the consumer was moved back, an acknowledgement of an event beyond `last_sent` is ignored,
    /// because that event will be sent again.
    pub fn acknowledge(&mut self, position: i64, last_sent: i64) -> Result<()> {
        self.last_sent_position = self.last_sent_position.max(last_sent);
        if position > self.last_sent_position {
            return Err(Error::in_field("ack", format!("nothing after {last_sent} has been sent")));
        }
        if position > last_sent {
            return Ok(());
        }
        while self.unacknowledged.front().is_some_and(|first| *first <= position) {
            self.unacknowledged.pop_front();
        }
        self.acknowledged_position = self.acknowledged_position.max(position);
        Ok(())
    }

    /// Returns when the position must be written, or `None` if the position has not changed since the last
    /// write.
    pub fn position_write_time(&self) -> Option<Monotonic> {
        (self.acknowledged_position > self.stored_position).then_some(self.next_write_at)
    }

    /// Writes the acknowledged position.
    ///
    /// Fails with 409 `wrong-state` if a newer connection holds the consumer.
    pub async fn write_position(&mut self, dispatch: &Arc<Dispatch>) -> Result<()> {
        self.next_write_at = dispatch.clock.deadline(WRITE_INTERVAL);
        let position = self.acknowledged_position;
        self.store_position(dispatch, position).await?;
        self.stored_position = position;
        Ok(())
    }

    /// Moves the consumer to a position immediately.
    ///
    /// Later events that were already sent, up to `last_sent`, are sent again.
    ///
    /// Fails with 409 `must_refetch` if the log lacks the events after the position, and with 409
    /// `wrong-state` if a newer connection holds the consumer; in both cases nothing changes.
    pub async fn move_to(&mut self, dispatch: &Arc<Dispatch>, position: i64, last_sent: i64) -> Result<()> {
        let mut moved = self.position_change(position);
        let moved = dispatch.await_change(self.work, Surface::System, move |cx| {
            LogRange::read(cx)?.check_has_all_events_after(cx.caller().workspace_id, position)?;
            moved(cx)
        });
        if moved.await? == 0 {
            return Err(consumer_taken_over_error());
        }
        self.unacknowledged.clear();
        self.last_sent_position = self.last_sent_position.max(last_sent);
        (self.acknowledged_position, self.stored_position) = (position, position);
        Ok(())
    }

    /// Returns when to check again that no newer connection holds the consumer.
    pub fn next_holder_check(&self) -> Monotonic {
        self.holder_checked_at.plus(HOLDER_CHECK_INTERVAL)
    }

    /// Checks that this connection still holds the consumer, and fails with 409 `wrong-state` if it does not.
    pub async fn check_holder(&mut self, dispatch: &Arc<Dispatch>) -> Result<()> {
        let now = dispatch.clock.monotonic();
        let member = self.member;
        let name = self.id.as_str().to_owned();
        let holder = self.holder;
        let read = move |cx: &Read<'_>| {
            let found: Option<(Uuid, Time)> =
                cx.one(SELECT_HOLDER, &[&cx.caller().workspace_id, &member, &name])?;
            let seen_at = found.filter(|(held_by, _)| *held_by == holder).map(|(_, seen_at)| seen_at);
            Ok(seen_at.map(|seen_at| cx.now().since(seen_at) > LAST_SEEN_AGE_MAX))
        };
        match dispatch.await_read(self.work, read).await? {
            Some(false) => {}
            Some(true) => self.store_position(dispatch, self.stored_position).await?,
            None => return Err(consumer_taken_over_error()),
        }
        self.holder_checked_at = now;
        Ok(())
    }

    /// Stores a position. Fails with 409 `wrong-state` if a newer connection holds the consumer.
    async fn store_position(&self, dispatch: &Arc<Dispatch>, position: i64) -> Result<()> {
        let moved = dispatch.await_change(self.work, Surface::System, self.position_change(position)).await?;
        if moved == 0 { Err(consumer_taken_over_error()) } else { Ok(()) }
    }

    /// Returns a change that sets the position of the consumer if this connection still holds the consumer.
    ///
    /// The change returns the number of rows changed, which is 0 if a newer connection holds the consumer.
    fn position_change(&self, position: i64) -> impl FnMut(&mut Write<'_>) -> Result<u64> + Send + 'static {
        let member = self.member;
        let name = self.id.as_str().to_owned();
        let holder = self.holder;
        move |cx| {
            let workspace = cx.caller().workspace_id;
            let now = cx.now();
            cx.change(SET_POSITION, &[&workspace, &member, &name, &holder, &position, &now])
        }
    }

    /// Writes the acknowledged position when the connection ends.
    pub fn close(&self, dispatch: &Arc<Dispatch>) {
        if self.acknowledged_position > self.stored_position {
            let write = self.position_change(self.acknowledged_position);
            // If the write fails, the events are sent again.
            dispatch.submit_change_as_instance(self.work, Surface::System, write, drop);
        }
    }
}

/// A consumer that a program in this process holds. Each acknowledgement is written immediately.
pub(crate) struct EmbeddedConsumer {
    workspace: WorkspaceId,
    member: MemberId,
    id: ConsumerId,
    holder: Uuid,
}

impl EmbeddedConsumer {
    /// Takes a consumer over as [`Consumer::take_over`] does, and returns the consumer with its position.
    pub fn take_over(
        dispatch: &Arc<Dispatch>,
        (workspace, member): (WorkspaceId, MemberId),
        id: ConsumerId,
    ) -> Result<(Self, i64)> {
        let name = id.as_str().to_owned();
        let (holder, position, _) = dispatch.change_as_instance(workspace, Surface::System, move |cx| {
            take_consumer(cx, member, &name, None)
        })?;
        Ok((Self { workspace, member, id, holder }, position))
    }

    /// Writes that the program has processed the events up to `position`.
    ///
    /// A lower position than the stored one changes nothing. Fails with 409 `wrong-state` if a newer
    /// connection holds the consumer.
    pub fn acknowledge(&self, dispatch: &Arc<Dispatch>, position: i64) -> Result<()> {
        let (workspace, member, holder) = (self.workspace, self.member, self.holder);
        let name = self.id.as_str().to_owned();
        let moved = dispatch.change_as_instance(workspace, Surface::System, move |cx| {
            let now = cx.now();
            cx.change(ADVANCE_POSITION, &[&workspace, &member, &name, &holder, &position, &now])
        })?;
        if moved == 0 { Err(consumer_taken_over_error()) } else { Ok(()) }
    }
}

/// Returns the error for a connection whose consumer was taken over by a newer connection.
pub(super) fn consumer_taken_over_error() -> Error {
    Error::wrong_state("a newer connection holds this consumer")
}

/// Sets a new holder of a consumer, and creates the consumer if it does not exist.
///
/// Returns the id of the holder, the position of the consumer, and the range of the log.
fn take_consumer(
    cx: &mut Write<'_>,
    member: MemberId,
    name: &str,
    begin: Option<i64>,
) -> Result<(Uuid, i64, LogRange)> {
    let workspace = cx.caller().workspace_id;
    let now = cx.now();
    let stored: Option<(i64,)> = cx.one(SELECT_POSITION, &[&workspace, &member, &name])?;
    let range = LogRange::read(cx)?;
    let position = begin.or(stored.map(|(after,)| after)).unwrap_or(range.head);
    range.check_has_all_events_after(workspace, position)?;
    let holder = Uuid::from_bytes(cx.entropy().bytes()?);
    if stored.is_some() {
        cx.execute(1, SET_HOLDER, &[&workspace, &member, &name, &holder, &position, &now])?;
        return Ok((holder, position, range));
    }
    let count = cx.one::<(i64,)>(COUNT, &[&workspace, &member])?.map_or(0, |(count,)| count);
    if count >= CONSUMERS_PER_MEMBER_MAX {
        return Err(Error::wrong_state(format!("a member has at most {CONSUMERS_PER_MEMBER_MAX} consumers")));
    }
    cx.execute(1, INSERT, &[&workspace, &member, &name, &holder, &position, &now])?;
    Ok((holder, position, range))
}

const SELECT_POSITION: &str =
    "select after_id from consumers where workspace_id = $1 and member_id = $2 and consumer_id = $3";

const SELECT_HOLDER: &str = "
    select holder, seen_at from consumers
    where workspace_id = $1 and member_id = $2 and consumer_id = $3";

const COUNT: &str = "select count(*) from consumers where workspace_id = $1 and member_id = $2";

const INSERT: &str = "
    insert into consumers (workspace_id, member_id, consumer_id, holder, after_id, seen_at)
    values ($1, $2, $3, $4, $5, $6)";

const SET_HOLDER: &str = "
    update consumers set holder = $4, after_id = $5, seen_at = $6
    where workspace_id = $1 and member_id = $2 and consumer_id = $3";

/// Sets the position of the consumer, if the connection `$4` still holds the consumer.
const SET_POSITION: &str = "
    update consumers set after_id = $5, seen_at = $6
    where workspace_id = $1 and member_id = $2 and consumer_id = $3 and holder = $4";

/// Sets the position of the consumer as `SET_POSITION` does, unless it is lower than the stored one.
const ADVANCE_POSITION: &str = "
    update consumers set after_id = case when after_id < $5 then $5 else after_id end, seen_at = $6
    where workspace_id = $1 and member_id = $2 and consumer_id = $3 and holder = $4";

const ANY_UNUSED: &str = "select 1 from consumers where seen_at <= $1 limit 1";

/// Removes consumers by the index on their last-seen times.
const DELETE_UNUSED: &str = "
    delete from consumers where (workspace_id, member_id, consumer_id) in (
        select workspace_id, member_id, consumer_id from consumers where seen_at <= $1
        order by seen_at limit $2)";
