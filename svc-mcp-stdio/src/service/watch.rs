//! Watches the log for changes of resources.
//!
//! The core delivers only the events that the caller may see when they are read, so a watch does not disclose
//! other changes. The kind, the channel and the thread of an event determine which resources change. A change
//! of the caller's visibility has no visible event, so the watch compares the list of channels whenever it
//! may have changed.

use std::collections::BTreeSet;
use std::sync::PoisonError;
use std::time::Duration;

use serde::Deserialize;
use svc_core::id::{ChannelId, ThreadId, WorkspaceId};
use svc_core::ops::{
    BatchBounds, BegunSubscription, FeedState, FrameForm, StartPosition, Subscriber, Subscription,
    WantedEvents,
};
use svc_core::{Code, Error, Result, Service};
use tokio::time::{Instant, sleep, sleep_until};

use super::ServiceHandler;
use crate::address::Address;
use crate::connection::Addresses;
use crate::principal::Principal;

/// Minimum time between notifications of changes.
const NOTIFICATION_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum events, and maximum bytes of events, in one batch of a watch.
const BATCH_BOUNDS: BatchBounds = BatchBounds { events: 256, bytes: 256 << 10 };
/// Minimum time between checks of the caller's visibility.
const VISIBILITY_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Delay before the retry of a read that failed because the service was overloaded or unavailable.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Maximum time that one read waits for events. After that the credential is checked again.
const POLL_WAIT: Duration = Duration::from_secs(10);

/// Kinds of events that change the list of resources.
const LIST_CHANGING_KINDS: [&str; 8] = [
    "ChannelArchived",
    "ChannelBootSet",
    "ChannelCreated",
    "ChannelMemberAdded",
    "ChannelMemberRemoved",
    "ChannelUnarchived",
    "ChannelUpdated",
    "WorkspaceUpdated",
];

/// Prefixes of the event kinds for conversation. Such events change neither workspace resources nor channel
/// resources.
const CONVERSATION_PREFIXES: [&str; 5] = ["BallotCast", "Message", "Reaction", "Relation", "Vote"];

/// Resources, and the list of resources, whose changes a watch reports.
pub(super) struct WatchSubject {
    pub addresses: Addresses,
    /// Whether the watch includes the resources that the caller's token is subscribed to.
    pub with_token_subscriptions: bool,
    /// Whether the watch includes the list of resources.
    pub with_list: bool,
}

/// Changes of resources since the last notification.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PendingChanges {
    pub addresses: BTreeSet<Address>,
    /// Whether the list of resources has changed.
    pub is_list_changed: bool,
    /// Position up to which the log was read.
    pub position: i64,
}

/// Members of an event from which a watch determines the changed resources.
#[derive(Debug, Deserialize)]
struct EventMembers {
    kind: String,
    channel_id: Option<ChannelId>,
    thread_id: Option<ThreadId>,
}

/// A channel in the list of resources.
#[derive(Debug, PartialEq, Eq, Deserialize)]
struct ListedChannel {
    id: ChannelId,
}

/// Watch for changes of resources that a caller sees. Dropping the watch ends it.
pub(super) struct Watch {
    handler: ServiceHandler,
    caller: Principal,
    subject: WatchSubject,
    subscriber: Subscriber,
    workspace: WorkspaceId,
    /// Whether the log no longer contains all events after the start position.
    has_missed: bool,
    /// Channels that the caller could see at the last check.
    listed: Vec<ListedChannel>,
    epoch: i64,
    checked_at: Instant,
    /// Whether the list of resources may have changed between the start position and the start of the watch.
    may_list_have_changed: bool,
    next_notification_at: Instant,
}

impl Watch {
    /// Begins a watch at the end of the log, or after a position in the log of a workspace.
    pub async fn begin(
        service: &Service,
        caller: &Principal,
        subject: WatchSubject,
        after: Option<(WorkspaceId, i64)>,
    ) -> Result<Self> {
        let resumed = match after {
            Some((workspace, position)) => {
                Some(subscribe(service, caller, StartPosition::After(position), Some(workspace)).await)
            }
            None => None,
        };
        let (begun, has_missed) = match resumed {
            Some(Err(error)) if error.code() == Code::MustRefetch => {
                (subscribe(service, caller, StartPosition::Default, None).await?, true)
            }
            Some(resumed) => (resumed?, false),
            None => (subscribe(service, caller, StartPosition::Default, None).await?, false),
        };
        let mut watch = Self {
            handler: ServiceHandler::new(service.clone()),
            caller: caller.clone(),
            subject,
            workspace: begun.workspace_id,
            epoch: begun.subscriber.epoch(),
            subscriber: begun.subscriber,
            has_missed,
            listed: Vec::new(),
            checked_at: Instant::now(),
            // The caller's visibility at the start position is not known.
            may_list_have_changed: after.is_some(),
            next_notification_at: Instant::now(),
        };
        watch.listed = watch.visible_channels().await?;
        Ok(watch)
    }

    /// Returns the position up to which the watch has read the log.
    pub fn position(&self) -> i64 {
        self.subscriber.position()
    }

    /// Returns whether the watch has missed changes. If so, it next reports everything as changed.
    pub fn has_missed(&self) -> bool {
        self.has_missed
    }

    /// Waits until a watched resource has changed.
    ///
    /// If the log no longer contains the next events, the watch continues at the end of the log and reports
    /// everything as changed. If the credential has ended, fails with the error of the credential.
    pub async fn next(&mut self) -> Result<PendingChanges> {
        sleep_until(self.next_notification_at).await;
        let mut changes = PendingChanges {
            is_list_changed: std::mem::take(&mut self.may_list_have_changed),
            ..PendingChanges::default()
        };
        let begun = Instant::now();
        loop {
            if self.has_missed {
                // The changes are not known, so everything may have changed.
                changes.addresses = retry_until_available(|| self.watched_addresses()).await?;
                (changes.is_list_changed, changes.position) = (true, self.position());
                self.has_missed = false;
                return Ok(self.start_pause(changes));
            }
            // If changes are pending, only events that are already available are added.
            let wait = if changes.is_empty() { POLL_WAIT } else { Duration::ZERO };
            let batch = match self.subscriber.next_until_epoch_changes(BATCH_BOUNDS, wait, self.epoch).await {
                Err(error) if error.code() == Code::MustRefetch => {
                    let service = &self.handler.service;
                    let again = || subscribe(service, &self.caller, StartPosition::Default, None);
                    (self.subscriber, self.has_missed) =
                        (retry_until_available(again).await?.subscriber, true);
                    continue;
                }
                batch => batch?,
            };
            if !batch.frames.is_empty() {
                let wanted = retry_until_available(|| self.watched_addresses()).await?;
                for (_, frame) in &batch.frames {
                    let happened = serde_json::from_slice(frame).map_err(Error::internal)?;
                    changes.add_event(&wanted, self.workspace, &happened);
                }
            }
            changes.position = batch.after_id;
            if batch.state == FeedState::Truncated {
                self.subscriber.continue_from(batch.after_id)?;
            }
            if self.subscriber.epoch() > self.epoch {
                // One change of visibility causes checks in many watches, so each watch limits the rate of
                // its checks.
                sleep_until(self.checked_at + VISIBILITY_CHECK_INTERVAL).await;
                (self.epoch, self.checked_at) = (self.subscriber.epoch(), Instant::now());
                let listed = retry_until_available(|| self.visible_channels()).await?;
                changes.is_list_changed |= listed != self.listed;
                self.listed = listed;
            }
            let has_all = batch.state == FeedState::Live || batch.frames.is_empty();
            if (has_all || begun.elapsed() >= NOTIFICATION_INTERVAL) && !changes.is_empty() {
                return Ok(self.start_pause(changes));
            }
        }
    }

    fn start_pause(&mut self, changes: PendingChanges) -> PendingChanges {
        self.next_notification_at = Instant::now() + NOTIFICATION_INTERVAL;
        changes
    }

    /// Returns the addresses that are currently watched.
    async fn watched_addresses(&self) -> Result<BTreeSet<Address>> {
        let mut wanted = self.subject.addresses.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if self.subject.with_token_subscriptions {
            let stored = self.caller.resource_subscriptions(&self.handler.service).await?;
            wanted.extend(stored.iter().filter_map(|uri| Address::parse(uri)));
        }
        Ok(wanted)
    }

    /// Returns the channels that the caller sees. Returns an empty list if the list is not watched or the
    /// caller may not read it.
    async fn visible_channels(&self) -> Result<Vec<ListedChannel>> {
        if !self.subject.with_list {
            return Ok(Vec::new());
        }
        match self.handler.listed_channels(&self.caller, self.workspace).await {
            Err(error) if error.code() == Code::MissingCapability => Ok(Vec::new()),
            listed => listed,
        }
    }
}

/// Runs a read, and retries the read while the service is overloaded or unavailable.
///
/// Without the retries, the watch would end without a notification to the client.
async fn retry_until_available<T, F: Future<Output = Result<T>>>(read: impl Fn() -> F) -> Result<T> {
    loop {
        match read().await {
            Err(error) if matches!(error.code(), Code::Overloaded | Code::Unavailable) => {
                sleep(RETRY_DELAY).await
            }
            outcome => return outcome,
        }
    }
}

async fn subscribe(
    service: &Service,
    caller: &Principal,
    begin: StartPosition,
    workspace: Option<WorkspaceId>,
) -> Result<BegunSubscription> {
    let mut wanted = WantedEvents::default();
    wanted.workspace_id = workspace;
    let wanted = Subscription { wanted: Some(wanted), begin, form: FrameForm::Lean, consumer: None };
    caller.subscribe(service, wanted).await
}

impl PendingChanges {
    fn is_empty(&self) -> bool {
        !self.is_list_changed && self.addresses.is_empty()
    }

    fn add_event(&mut self, watched: &BTreeSet<Address>, workspace: WorkspaceId, event: &EventMembers) {
        self.is_list_changed |= LIST_CHANGING_KINDS.contains(&&*event.kind);
        let changed = |address: &&Address| event.changes_resource(**address, workspace);
        self.addresses.extend(watched.iter().filter(changed));
    }
}

impl EventMembers {
    fn changes_resource(&self, address: Address, workspace: WorkspaceId) -> bool {
        let is_talk = || CONVERSATION_PREFIXES.iter().any(|talk| self.kind.starts_with(talk));
        match address {
            Address::Workspace(id) => id == workspace && !is_talk(),
            Address::Channel(id) => self.channel_id == Some(id) && !is_talk(),
            Address::Thread(id) => self.thread_id == Some(id),
            Address::Boot(id) => self.channel_id == Some(id) && self.kind == "ChannelBootSet",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use svc_core::operation_table;

    use super::*;

    #[test]
    fn what_is_named_are_kinds_of_events() {
        let table = operation_table().unwrap();
        let kinds: Vec<&str> = table.events().map(|event| event.kind).collect();
        for kind in LIST_CHANGING_KINDS {
            assert!(kinds.contains(&kind), "{kind}");
        }
        for talk in CONVERSATION_PREFIXES {
            assert!(kinds.iter().any(|kind| kind.starts_with(talk)), "{talk}");
        }
    }

    #[test]
    fn an_event_changes_what_it_happened_in() {
        let id = |last: u8| format!("01990000-0000-7000-8000-0000000000{last:02}");
        let address = |kind: &str, last| Address::parse(&format!("svc://{kind}/{}", id(last))).unwrap();
        let workspace = address("workspaces", 1);
        let other = address("workspaces", 9);
        let channel = address("channels", 2);
        let boot = address("boots", 2);
        let thread = address("threads", 3);
        let wanted = BTreeSet::from([workspace, other, channel, boot, thread, address("threads", 4)]);
        let cases = [
            (json!({"kind": "MessagePosted", "channel_id": id(2), "thread_id": id(3)}), vec![thread], false),
            (
                json!({"kind": "ThreadStateChanged", "channel_id": id(2), "thread_id": id(3)}),
                vec![workspace, channel, thread],
                false,
            ),
            (json!({"kind": "ChannelBootSet", "channel_id": id(2)}), vec![workspace, channel, boot], true),
            (json!({"kind": "ChannelCreated", "channel_id": id(8)}), vec![workspace], true),
            (json!({"kind": "VoteOpened", "channel_id": id(2)}), vec![], false),
        ];
        for (event, addresses, list) in cases {
            let mut changes = PendingChanges::default();
            let happened = serde_json::from_value(event.clone()).unwrap();
            changes.add_event(&wanted, id(1).parse().unwrap(), &happened);
            let expected = PendingChanges {
                addresses: addresses.into_iter().collect(),
                is_list_changed: list,
                position: 0,
            };
            assert_eq!(changes, expected, "{event}");
        }
    }
}
