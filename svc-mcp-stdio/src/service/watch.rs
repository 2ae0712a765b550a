//! Watches the log for changes of resources.
//!
//! The core delivers only the events that the caller may see at that moment, so a watch does not disclose
//! other changes. The kind of an event and its channel and thread determine which resources change. A change
//! of the caller's own visibility has no visible event, so the list of channels is compared whenever it may
//! have changed.

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
const PAUSE: Duration = Duration::from_millis(250);
/// Maximum events and bytes of a batch.
const BATCH: BatchBounds = BatchBounds { events: 256, bytes: 256 << 10 };
/// Minimum time between checks of the caller's visibility.
const VISIBILITY_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Delay before retrying a read that failed because of the database or the load.
const RETRY: Duration = Duration::from_secs(1);
/// Maximum wait for events, after which the credential is checked again.
const WAIT: Duration = Duration::from_secs(10);

/// Kinds of events that change the list of resources.
const LIST_KINDS: [&str; 8] = [
    "ChannelArchived",
    "ChannelBootSet",
    "ChannelCreated",
    "ChannelMemberAdded",
    "ChannelMemberRemoved",
    "ChannelUnarchived",
    "ChannelUpdated",
    "WorkspaceUpdated",
];

/// Prefixes of the kinds of events about conversation, which do not change the resource of a workspace or a
/// channel.
const TALK: [&str; 5] = ["BallotCast", "Message", "Reaction", "Relation", "Vote"];

/// Resources and lists whose changes a watch reports.
pub(super) struct WatchSubject {
    pub addresses: Addresses,
    /// Whether to include the resources that the token is subscribed to.
    pub with_stored: bool,
    /// Whether to watch the list of resources too.
    pub with_list: bool,
}

/// The changes since the last notification.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PendingChanges {
    pub addresses: BTreeSet<Address>,
    /// Whether the list of resources has changed.
    pub list: bool,
    /// Position up to which the log was read.
    pub position: i64,
}

/// Members of an event that determine which resources change.
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

/// A caller's watch, which ends when it is dropped.
pub(super) struct Watch {
    offer: ServiceHandler,
    caller: Principal,
    interest: WatchSubject,
    subscriber: Subscriber,
    workspace: WorkspaceId,
    /// Whether the log no longer has all events after the start position.
    has_missed: bool,
    /// Channels that the caller could see at the last check.
    listed: Vec<ListedChannel>,
    epoch: i64,
    looked: Instant,
    /// Whether the list may have changed between the start position and the start of the watch.
    is_list_unsure: bool,
    free_at: Instant,
}

impl Watch {
    /// Begins a watch at the end of the log, or after a position in the log of a workspace.
    pub async fn begin(
        service: &Service,
        caller: &Principal,
        interest: WatchSubject,
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
            offer: ServiceHandler::new(service.clone()),
            caller: caller.clone(),
            interest,
            workspace: begun.workspace_id,
            epoch: begun.subscriber.epoch(),
            subscriber: begun.subscriber,
            has_missed,
            listed: Vec::new(),
            looked: Instant::now(),
            // The caller's visibility at the start position is not known.
            is_list_unsure: after.is_some(),
            free_at: Instant::now(),
        };
        watch.listed = watch.listed().await?;
        Ok(watch)
    }

    /// Returns the position up to which the watch has read the log.
    pub fn position(&self) -> i64 {
        self.subscriber.position()
    }

    /// Returns whether the watch has missed changes, so that it reports everything as changed next.
    pub fn has_missed(&self) -> bool {
        self.has_missed
    }

    /// Waits until a watched resource has changed.
    ///
    /// If the log no longer has the next events, the watch starts over. Fails if the credential has ended,
    /// with its error.
    pub async fn next(&mut self) -> Result<PendingChanges> {
        sleep_until(self.free_at).await;
        let mut changes =
            PendingChanges { list: std::mem::take(&mut self.is_list_unsure), ..PendingChanges::default() };
        let begun = Instant::now();
        loop {
            if self.has_missed {
                // The changes are not known, so everything may have changed.
                changes.addresses = patiently(|| self.wanted()).await?;
                (changes.list, changes.position) = (true, self.position());
                self.has_missed = false;
                return Ok(self.pausing(changes));
            }
            // If changes are pending, only events that are already available are added.
            let wait = if changes.are_none() { WAIT } else { Duration::ZERO };
            let batch = match self.subscriber.next_within(BATCH, wait, self.epoch).await {
                Err(error) if error.code() == Code::MustRefetch => {
                    let service = &self.offer.service;
                    let again = || subscribe(service, &self.caller, StartPosition::Default, None);
                    (self.subscriber, self.has_missed) = (patiently(again).await?.subscriber, true);
                    continue;
                }
                batch => batch?,
            };
            if !batch.frames.is_empty() {
                let wanted = patiently(|| self.wanted()).await?;
                for (_, frame) in &batch.frames {
                    let happened = serde_json::from_slice(frame).map_err(Error::internal)?;
                    changes.add(&wanted, self.workspace, &happened);
                }
            }
            changes.position = batch.after_id;
            if batch.state == FeedState::Truncated {
                self.subscriber.continue_from(batch.after_id)?;
            }
            if self.subscriber.epoch() > self.epoch {
                // Each change of visibility makes many watches check, so each watch checks only rarely.
                sleep_until(self.looked + VISIBILITY_CHECK_INTERVAL).await;
                (self.epoch, self.looked) = (self.subscriber.epoch(), Instant::now());
                let listed = patiently(|| self.listed()).await?;
                changes.list |= listed != self.listed;
                self.listed = listed;
            }
            let has_all = batch.state == FeedState::Live || batch.frames.is_empty();
            if (has_all || begun.elapsed() >= PAUSE) && !changes.are_none() {
                return Ok(self.pausing(changes));
            }
        }
    }

    fn pausing(&mut self, changes: PendingChanges) -> PendingChanges {
        self.free_at = Instant::now() + PAUSE;
        changes
    }

    /// Returns the addresses that are currently watched.
    async fn wanted(&self) -> Result<BTreeSet<Address>> {
        let mut wanted = self.interest.addresses.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if self.interest.with_stored {
            let stored = self.caller.resource_subscriptions(&self.offer.service).await?;
            wanted.extend(stored.iter().filter_map(|uri| Address::of(uri)));
        }
        Ok(wanted)
    }

    /// Returns the channels that the caller sees; empty if the list is not watched or the caller may not read
    /// it.
    async fn listed(&self) -> Result<Vec<ListedChannel>> {
        if !self.interest.with_list {
            return Ok(Vec::new());
        }
        match self.offer.listed_channels(&self.caller, self.workspace).await {
            Err(error) if error.code() == Code::MissingCapability => Ok(Vec::new()),
            listed => listed,
        }
    }
}

/// Runs a read, and retries it until the database and the load permit it.
///
/// Otherwise the watch would end without notifying the client.
async fn patiently<T, F: Future<Output = Result<T>>>(read: impl Fn() -> F) -> Result<T> {
    loop {
        match read().await {
            Err(error) if matches!(error.code(), Code::Overloaded | Code::Unavailable) => sleep(RETRY).await,
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
    fn are_none(&self) -> bool {
        !self.list && self.addresses.is_empty()
    }

    fn add(&mut self, wanted: &BTreeSet<Address>, workspace: WorkspaceId, happened: &EventMembers) {
        self.list |= LIST_KINDS.contains(&&*happened.kind);
        let changed = |address: &&Address| happened.changes(**address, workspace);
        self.addresses.extend(wanted.iter().filter(changed));
    }
}

impl EventMembers {
    fn changes(&self, address: Address, own: WorkspaceId) -> bool {
        let is_talk = || TALK.iter().any(|talk| self.kind.starts_with(talk));
        match address {
            Address::Workspace(id) => id == own && !is_talk(),
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
        for kind in LIST_KINDS {
            assert!(kinds.contains(&kind), "{kind}");
        }
        for talk in TALK {
            assert!(kinds.iter().any(|kind| kind.starts_with(talk)), "{talk}");
        }
    }

    #[test]
    fn an_event_changes_what_it_happened_in() {
        let id = |last: u8| format!("01990000-0000-7000-8000-0000000000{last:02}");
        let address = |kind: &str, last| Address::of(&format!("svc://{kind}/{}", id(last))).unwrap();
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
            changes.add(&wanted, id(1).parse().unwrap(), &happened);
            let expected = PendingChanges { addresses: addresses.into_iter().collect(), list, position: 0 };
            assert_eq!(changes, expected, "{event}");
        }
    }
}
