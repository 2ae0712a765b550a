//! Subscriptions: following a workspace's log from any position, including new events as they are written.
//!
//! The same code serves every kind of connection. A subscriber pulls batches and stores only its position, so
//! a slow subscriber delays only itself. Shells only frame the batches. The process reads and verifies each
//! event of a followed workspace once; a subscriber that is behind reads pages of the log. The same filter
//! selects live events and events in pages, and nothing is delivered to a credential that is not valid at
//! that moment.
//!
//! - `request`: defines which events a subscription requests
//! - `frames`: defines the frames over WebSocket
//! - `query`: defines the query for server-sent events
//! - `resume`: issues tokens that continue a subscription
//! - `consumers`: stores durable subscriptions and their acknowledgements
//! - `rounds`: reads data for all subscribers of a workspace together
//! - `page`: reads pages of the log for subscribers that are behind
//! - `wakeup`: wakes subscribers
//! - `subscriber`: returns the next events of a subscription

mod request;
mod frames;
mod query;
mod resume;
mod consumers;
mod rounds;
mod page;
mod wakeup;
mod subscriber;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::id::{MemberId, WorkspaceId};
use crate::identity::floor::LogRange;
use crate::identity::workspaces::check_own_workspace;
use crate::op::{Admission, Caller, ConnectedMembers, Dispatch, Feature, Read, Records, ServiceWork};
use crate::stream::events::wait_for_event::WaitForEvent;
use crate::sync::lock;
use consumers::Consumer;
pub(crate) use consumers::EmbeddedConsumer;
pub use frames::{ClientRequests, FirstFrame, LaterFrame, ServerFrame, StartRequest, contract};
pub use query::StreamQuery;
pub use request::{ConsumerId, StartPosition, Subscription, WantedEvents};
use resume::ResumeTokenContent;
use rounds::SharedTail;
pub use subscriber::{BatchBounds, EventBatch, FeedState, Subscriber};
use wakeup::{CallerLookup, ListenerGuard, Wakeup, with_timeout};

pub(crate) fn feature() -> Feature {
    Feature::new().chore(consumers::removal_chore()).records(vec![
        Records::table("consumers", "workspace_id member_id consumer_id").after("members").stays(),
    ])
}

/// Maximum time for the first read of a subscription.
///
/// A subscription that has not begun has no position, so it cannot miss events.
const FIRST_READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Key of a consumer: its workspace, its member and its name.
type ConsumerKey = (WorkspaceId, MemberId, ConsumerId);

/// All subscriptions in this process.
#[derive(Default)]
pub(crate) struct Subscriptions {
    tails: Mutex<HashMap<WorkspaceId, Weak<SharedTail>>>,
    /// Wakeups of the connections that hold a consumer, or have not yet noticed that they lost the consumer.
    consumers: Mutex<HashMap<ConsumerKey, Vec<Weak<Wakeup>>>>,
}

/// A subscription that has begun.
pub struct BegunSubscription {
    /// The subscriber, which returns the subscription's events.
    pub subscriber: Subscriber,
    /// The workspace whose log the subscription follows.
    pub workspace_id: WorkspaceId,
    /// The position after which the subscription begins.
    pub after_id: i64,
    /// The last position in the log.
    pub room_lsn: i64,
    /// Number of earlier events that the subscription does not receive; `None` if earlier events are
    /// replayed. Only a subscription without a workspace skips earlier events.
    pub hint: Option<i64>,
}

/// The caller, the filter and the start position of a subscription, and the range of its log at the start.
struct SubscriptionStart {
    caller: Caller,
    epoch: i64,
    range: LogRange,
    wanted: WantedEvents,
    after: Option<i64>,
}

impl Subscriptions {
    /// Begins a subscription for an admitted caller.
    ///
    /// Fails as the operation `wait_for_event` does, and with 409 `must_refetch` if the log lacks the events
    /// after the requested position.
    pub async fn begin(
        &self,
        dispatch: &Arc<Dispatch>,
        admission: Admission,
        subscription: Subscription,
    ) -> Result<BegunSubscription> {
        let operation = dispatch.table.operation_of::<WaitForEvent>()?;
        let further = admission.follow_up();
        let Subscription { form, consumer, begin, .. } = subscription.clone();
        let checked = move |cx: &Read<'_>| load_subscription_start(cx, &subscription);
        let reading = dispatch.read_for(operation, admission, false, checked);
        let opened = with_timeout(dispatch, FIRST_READ_TIMEOUT, reading).await?;
        let SubscriptionStart { caller, epoch, mut range, wanted, after } = opened;
        let workspace = caller.workspace_id;
        let own = ServiceWork::caused_by(&caller);
        let wakeup = Arc::new(Wakeup::default());
        let consumer = match (consumer, caller.member) {
            (Some(id), Some(member)) => {
                let taken = Consumer::take_over(dispatch, (own, member), id.clone(), after).await?;
                self.register_holder((workspace, member, id), &wakeup);
                range = taken.range;
                Some((taken.consumer, taken.position))
            }
            (Some(_), None) => return Err(Error::forbidden("only a member has consumers")),
            (None, _) => None,
        };
        let (consumer, consumer_position) = consumer.unzip();
        let has_begun_before = consumer.is_some() || matches!(begin, StartPosition::AfterLastReceived(_));
        let has_replay = wanted.workspace_id.is_some() || has_begun_before;
        let begins = consumer_position.or(after).filter(|_| has_replay).unwrap_or(range.head);
        range.check_has_all_events_after(workspace, begins)?;
        let room_lsn = range.head;
        let hint = (!has_replay).then(|| range.count_events_after(after.unwrap_or(range.beginning())));
        let filter = wanted.event_filter();
        let shared = self.get_or_create_tail(dispatch, own, room_lsn);
        let listening = ListenerGuard::begin(dispatch, workspace, room_lsn, filter.clone(), &wakeup);
        let connection = caller.member.map(|member| ConnectedMembers::connect(dispatch, member));
        let subscriber = Subscriber {
            dispatch: Arc::clone(dispatch),
            operation: Arc::clone(operation),
            admission: further,
            shared,
            wanted,
            filter,
            form,
            lookup: CallerLookup { caller, epoch, checked_at: dispatch.clock.monotonic() },
            range,
            after: begins,
            offered_batch: None,
            cursor: None,
            sent_while_behind: 0,
            consumer,
            requested_position: None,
            wakeup,
            handled_check_requests: 0,
            _listening: listening,
            _connection: connection,
        };
        Ok(BegunSubscription { subscriber, workspace_id: workspace, after_id: begins, room_lsn, hint })
    }

    /// Returns the state that the subscribers of a workspace share.
    ///
    /// A new tail begins after `head_lsn`, the current end of the log.
    fn get_or_create_tail(
        &self,
        dispatch: &Arc<Dispatch>,
        own: ServiceWork,
        head_lsn: i64,
    ) -> Arc<SharedTail> {
        let mut tails = lock(&self.tails);
        if let Some(shared) = tails.get(&own.workspace).and_then(Weak::upgrade) {
            return shared;
        }
        tails.retain(|_, shared| shared.strong_count() > 0);
        let shared = SharedTail::new(dispatch, own, dispatch.bus.enter(own.workspace, head_lsn));
        tails.insert(own.workspace, Arc::downgrade(&shared));
        shared
    }

    /// Records that a connection has taken a consumer.
    ///
    /// If several connections of this process have taken the consumer, all of these connections immediately
    /// check in the database whether they still hold it. The database knows which connection took it last,
    /// but the connections may be registered here in another order.
    fn register_holder(&self, key: ConsumerKey, wakeup: &Arc<Wakeup>) {
        let mut consumers = lock(&self.consumers);
        consumers.retain(|_, held| {
            held.retain(|wakeup| wakeup.strong_count() > 0);
            !held.is_empty()
        });
        let held = consumers.entry(key).or_default();
        held.push(Arc::downgrade(wakeup));
        let contenders: Vec<Arc<Wakeup>> = held.iter().filter_map(Weak::upgrade).collect();
        drop(consumers);
        if contenders.len() > 1 {
            contenders.iter().for_each(|wakeup| wakeup.request_holder_check());
        }
    }
}

/// Returns the workspace and the start position of a caller's subscription.
fn load_subscription_start(cx: &Read<'_>, subscription: &Subscription) -> Result<SubscriptionStart> {
    subscription.check_has_filter()?;
    let caller = cx.caller().clone();
    let (wanted, after) = match &subscription.begin {
        StartPosition::Token(token) => decode_resume_token(cx, &caller, token, subscription.wanted.as_ref())?,
        begin => {
            let wanted = subscription.wanted.clone().unwrap_or_default();
            let after = match begin {
                StartPosition::After(position) | StartPosition::AfterLastReceived(position) => {
                    Some(*position)
                }
                StartPosition::Default | StartPosition::Token(_) => None,
            };
            (wanted, after)
        }
    };
    check_own_workspace(cx, wanted.workspace_id.unwrap_or(caller.workspace_id))?;
    Ok(SubscriptionStart { caller, epoch: cx.epoch(), range: LogRange::read(cx)?, wanted, after })
}

/// Returns the content of a resume token.
///
/// Fails if the token was issued to another member, or for another filter.
fn decode_resume_token(
    cx: &Read<'_>,
    caller: &Caller,
    token: &str,
    filter: Option<&WantedEvents>,
) -> Result<(WantedEvents, Option<i64>)> {
    let found = ResumeTokenContent::decode(token, cx.sealer(), cx.now())?;
    if (found.workspace_id, found.member_id) != (caller.workspace_id, caller.member) {
        return Err(Error::in_field("resume_token", "it is not valid here, or has expired"));
    }
    if filter.is_some_and(|filter| *filter != found.wanted) {
        return Err(Error::in_field("resume_token", "it was issued for another filter"));
    }
    Ok((found.wanted, Some(found.after_id)))
}
