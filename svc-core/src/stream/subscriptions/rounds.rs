//! Rounds: the data from the database that subscribers of one workspace need to deliver live events, read
//! once for all.
//!
//! These are the audiences of the events' channels, and the content of messages at the moment of delivery. A
//! subscriber asks for the data; asks that arrive while a round is read form the next one. Only audiences are
//! kept, and only while the workspace's epoch stays the same.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::conversation::messages::{frames_with_content, is_content_event};
use crate::conversation::visibility::{Audience, audiences, is_workspace_seen_by};
use crate::error::{Error, Result};
use crate::id::ChannelId;
use crate::log::feed::{FeedEvent, FrameBytes, Tail};
use crate::op::{Dispatch, Read, ServiceWork, Visibility};
use crate::sync::lock;

/// Maximum bytes of events whose content one round reads; one subscriber's may be more.
const ROUND_BYTES: usize = 4 << 20;

/// The state that the subscribers of a workspace in this process share.
pub(super) struct SharedTail {
    pub tail: Arc<Tail>,
    dispatch: Arc<Dispatch>,
    own: ServiceWork,
    audiences: Mutex<ChannelAudiences>,
    asked: Mutex<WorkspaceRequests>,
}

/// The audiences of channels, as of an epoch.
#[derive(Default)]
struct ChannelAudiences {
    epoch: i64,
    known: HashMap<ChannelId, Audience>,
}

#[derive(Default)]
struct WorkspaceRequests {
    asks: Vec<SubscriberRequest>,
    is_running: bool,
}

/// The request of one subscriber.
struct SubscriberRequest {
    events: Vec<Arc<FeedEvent>>,
    done: oneshot::Sender<Result<Arc<RoundResult>>>,
}

/// The data that a round has read.
pub(super) struct RoundResult {
    /// The epoch of the transaction.
    pub epoch: i64,
    audiences: HashMap<ChannelId, Audience>,
    /// The frames of events with content, by position.
    pub frames: HashMap<i64, FrameBytes>,
}

impl RoundResult {
    /// Returns whether `visibility` covers an event of the round.
    pub fn shows(&self, event: &FeedEvent, visibility: Visibility) -> bool {
        is_seen_by(event, visibility, |channel| self.audiences.get(&channel).cloned()).unwrap_or(false)
    }
}

/// Returns whether `visibility` covers an event, or `None` if that depends on an audience that is not known.
pub(super) fn is_seen_by(
    event: &FeedEvent,
    visibility: Visibility,
    audience: impl Fn(ChannelId) -> Option<Audience>,
) -> Option<bool> {
    match event.subject.channel_id {
        None => Some(is_workspace_seen_by(visibility)),
        Some(channel) => audience(channel).map(|audience| audience.is_seen_by(visibility, channel)),
    }
}

impl SharedTail {
    pub fn new(dispatch: &Arc<Dispatch>, own: ServiceWork, tail: Arc<Tail>) -> Arc<Self> {
        let dispatch = Arc::clone(dispatch);
        let audiences = Mutex::default();
        let asked = Mutex::default();
        Arc::new(Self { tail, dispatch, own, audiences, asked })
    }

    /// Returns whether `visibility` covers an event under `epoch`, or `None` if that needs a round.
    pub fn shows(&self, event: &FeedEvent, visibility: Visibility, epoch: i64) -> Option<bool> {
        let known = lock(&self.audiences);
        is_seen_by(event, visibility, |channel| {
            if known.epoch == epoch { known.known.get(&channel).cloned() } else { None }
        })
    }

    /// Reads the data that is needed to deliver these events.
    pub async fn ask(self: &Arc<Self>, events: Vec<Arc<FeedEvent>>) -> Result<Arc<RoundResult>> {
        let (done, receiver) = oneshot::channel();
        if !self.is_running_with(SubscriberRequest { events, done }) {
            self.begin();
        }
        receiver.await.map_err(Error::internal)?
    }

    /// Adds an ask, and returns whether a round is running, after which it has its turn.
    fn is_running_with(&self, ask: SubscriberRequest) -> bool {
        let mut asked = lock(&self.asked);
        asked.asks.push(ask);
        std::mem::replace(&mut asked.is_running, true)
    }

    /// Begins a round of as many asks as fit into one, or ends if there are none.
    fn begin(self: &Arc<Self>) {
        let mut asked = lock(&self.asked);
        // Subscribers that have gone away need nothing.
        asked.asks.retain(|ask| !ask.done.is_closed());
        let asks = first_of(&mut asked.asks);
        asked.is_running = !asks.is_empty();
        drop(asked);
        if asks.is_empty() {
            return;
        }
        let events: BTreeMap<i64, Arc<FeedEvent>> =
            asks.iter().flat_map(|ask| &ask.events).map(|event| (event.lsn, Arc::clone(event))).collect();
        let events: Vec<Arc<FeedEvent>> = events.into_values().collect();
        let shared = Arc::clone(self);
        let done = move |outcome: Result<RoundResult>| shared.end(asks, outcome.map(Arc::new));
        self.dispatch.submit_as_instance(self.own, move |cx| read_round(cx, &events), done);
    }

    fn end(self: &Arc<Self>, asks: Vec<SubscriberRequest>, outcome: Result<Arc<RoundResult>>) {
        if let Ok(round) = &outcome {
            let mut audiences = lock(&self.audiences);
            if audiences.epoch < round.epoch {
                *audiences = ChannelAudiences { epoch: round.epoch, known: HashMap::new() };
            }
            if audiences.epoch == round.epoch {
                let found = round.audiences.iter();
                audiences.known.extend(found.map(|(channel, audience)| (*channel, audience.clone())));
            }
        }
        for ask in asks {
            // The subscriber may have gone away; then the result has no receiver.
            let _ = ask.done.send(outcome.clone());
        }
        self.begin();
    }
}

/// Takes the first asks whose events fit into one round, or a single ask.
fn first_of(asks: &mut Vec<SubscriberRequest>) -> Vec<SubscriberRequest> {
    let mut bytes: usize = 0;
    let fits = asks.iter().take_while(|ask| {
        let is_first = bytes == 0;
        bytes = ask.events.iter().map(|event| event.weight()).fold(bytes, usize::saturating_add);
        is_first || bytes <= ROUND_BYTES
    });
    let count = fits.count();
    asks.drain(..count).collect()
}

fn read_round(cx: &Read<'_>, events: &[Arc<FeedEvent>]) -> Result<RoundResult> {
    let mut channels: Vec<ChannelId> = events.iter().filter_map(|event| event.subject.channel_id).collect();
    channels.sort_unstable();
    channels.dedup();
    let spoken: Vec<Arc<FeedEvent>> =
        events.iter().filter(|event| is_content_event(event)).cloned().collect();
    let frames = frames_with_content(cx, &spoken)?;
    let frames = spoken.iter().map(|event| event.lsn).zip(frames).collect();
    Ok(RoundResult { epoch: cx.epoch(), audiences: audiences(cx, &channels)?, frames })
}
