//! Rounds: reads that fetch the data for delivering live events once for all subscribers of a workspace.
//!
//! The data are the audiences of the events' channels, and the content of messages at the moment of delivery.
//! Subscribers that request data while a round is in progress are served together by the next one. Only
//! audiences are cached, and only while the workspace's epoch stays the same.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use crate::conversation::messages::{frames_with_content, is_content_event};
use crate::conversation::visibility::{Audience, audiences, is_workspace_visible_to};
use crate::error::{Error, Result};
use crate::id::ChannelId;
use crate::log::feed::{FeedEvent, FrameBytes, Tail};
use crate::op::{Dispatch, Read, ServiceWork, Visibility};
use crate::sync::lock;

/// Maximum bytes of events whose content one round reads, unless a single subscriber requests more.
const ROUND_BYTES: usize = 4 << 20;

/// The state that the subscribers of a workspace share in this process.
pub(super) struct SharedTail {
    pub tail: Arc<Tail>,
    dispatch: Arc<Dispatch>,
    work: ServiceWork,
    audiences: Mutex<ChannelAudiences>,
    queue: Mutex<PendingRequests>,
}

/// Cached audiences of channels, valid for one epoch.
#[derive(Default)]
struct ChannelAudiences {
    epoch: i64,
    by_channel: HashMap<ChannelId, Audience>,
}

/// The requests of a workspace's subscribers that wait for a round.
#[derive(Default)]
struct PendingRequests {
    requests: Vec<SubscriberRequest>,
    is_round_running: bool,
}

/// One subscriber's request for the data to deliver some events.
struct SubscriberRequest {
    events: Vec<Arc<FeedEvent>>,
    result_sender: oneshot::Sender<Result<Arc<RoundResult>>>,
}

/// The data that a round has read.
pub(super) struct RoundResult {
    /// The epoch of the transaction that read the data.
    pub epoch: i64,
    audiences: HashMap<ChannelId, Audience>,
    /// The frames of events with message content, by position.
    pub frames: HashMap<i64, FrameBytes>,
}

impl RoundResult {
    /// Returns whether a caller with this visibility may see an event of the round.
    pub fn is_visible(&self, event: &FeedEvent, visibility: Visibility) -> bool {
        is_visible_to(event, visibility, |channel| self.audiences.get(&channel).cloned()).unwrap_or(false)
    }
}

/// Returns whether a caller with this visibility may see an event.
///
/// Returns `None` if the answer depends on a channel whose audience `audience` does not return.
pub(super) fn is_visible_to(
    event: &FeedEvent,
    visibility: Visibility,
    audience: impl Fn(ChannelId) -> Option<Audience>,
) -> Option<bool> {
    match event.subject.channel_id {
        None => Some(is_workspace_visible_to(visibility)),
        Some(channel) => audience(channel).map(|audience| audience.is_visible_to(visibility, channel)),
    }
}

impl SharedTail {
    pub fn new(dispatch: &Arc<Dispatch>, work: ServiceWork, tail: Arc<Tail>) -> Arc<Self> {
        let dispatch = Arc::clone(dispatch);
        let audiences = Mutex::default();
        let queue = Mutex::default();
        Arc::new(Self { tail, dispatch, work, audiences, queue })
    }

    /// Returns whether a caller with this visibility may see an event at `epoch`.
    ///
    /// Returns `None` if the audience of the event's channel is not cached for that epoch.
    pub fn is_visible_at_epoch(&self, event: &FeedEvent, visibility: Visibility, epoch: i64) -> Option<bool> {
        let known = lock(&self.audiences);
        is_visible_to(event, visibility, |channel| {
            if known.epoch == epoch { known.by_channel.get(&channel).cloned() } else { None }
        })
    }

    /// Reads the audiences and message content that are needed to deliver these events.
    pub async fn request_data(self: &Arc<Self>, events: Vec<Arc<FeedEvent>>) -> Result<Arc<RoundResult>> {
        let (result_sender, receiver) = oneshot::channel();
        if !self.enqueue(SubscriberRequest { events, result_sender }) {
            self.start_round();
        }
        receiver.await.map_err(Error::internal)?
    }

    /// Queues a request, and returns whether a round is already in progress.
    ///
    /// If a round is in progress, the request is served after that round.
    fn enqueue(&self, request: SubscriberRequest) -> bool {
        let mut queue = lock(&self.queue);
        queue.requests.push(request);
        std::mem::replace(&mut queue.is_round_running, true)
    }

    /// Starts a round for the queued requests that fit into one round. Does nothing if no request is queued.
    fn start_round(self: &Arc<Self>) {
        let mut queue = lock(&self.queue);
        // A subscriber whose connection has ended needs no data.
        queue.requests.retain(|request| !request.result_sender.is_closed());
        let requests = take_first_requests(&mut queue.requests);
        queue.is_round_running = !requests.is_empty();
        drop(queue);
        if requests.is_empty() {
            return;
        }
        let events: BTreeMap<i64, Arc<FeedEvent>> = requests
            .iter()
            .flat_map(|request| &request.events)
            .map(|event| (event.lsn, Arc::clone(event)))
            .collect();
        let events: Vec<Arc<FeedEvent>> = events.into_values().collect();
        let shared = Arc::clone(self);
        let done = move |outcome: Result<RoundResult>| shared.finish_round(requests, outcome.map(Arc::new));
        self.dispatch.submit_read_as_instance(self.work, move |cx| read_round(cx, &events), done);
    }

    /// Sends the result of a round to its subscribers, caches the audiences, and starts the next round.
    fn finish_round(self: &Arc<Self>, requests: Vec<SubscriberRequest>, outcome: Result<Arc<RoundResult>>) {
        if let Ok(round) = &outcome {
            let mut audiences = lock(&self.audiences);
            if audiences.epoch < round.epoch {
                *audiences = ChannelAudiences { epoch: round.epoch, by_channel: HashMap::new() };
            }
            if audiences.epoch == round.epoch {
                let found = round.audiences.iter();
                audiences.by_channel.extend(found.map(|(channel, audience)| (*channel, audience.clone())));
            }
        }
        for request in requests {
            // The subscriber may be gone; then nothing receives the result.
            let _ = request.result_sender.send(outcome.clone());
        }
        self.start_round();
    }
}

/// Takes the first requests whose events fit into one round, but at least one request.
fn take_first_requests(requests: &mut Vec<SubscriberRequest>) -> Vec<SubscriberRequest> {
    let mut bytes: usize = 0;
    let fits = requests.iter().take_while(|request| {
        let is_first = bytes == 0;
        bytes = request.events.iter().map(|event| event.weight()).fold(bytes, usize::saturating_add);
        is_first || bytes <= ROUND_BYTES
    });
    let count = fits.count();
    requests.drain(..count).collect()
}

/// Reads the audiences of the channels of these events, and the frames of events with message content.
fn read_round(cx: &Read<'_>, events: &[Arc<FeedEvent>]) -> Result<RoundResult> {
    let mut channels: Vec<ChannelId> = events.iter().filter_map(|event| event.subject.channel_id).collect();
    channels.sort_unstable();
    channels.dedup();
    let content_events: Vec<Arc<FeedEvent>> =
        events.iter().filter(|event| is_content_event(event)).cloned().collect();
    let frames = frames_with_content(cx, &content_events)?;
    let frames = content_events.iter().map(|event| event.lsn).zip(frames).collect();
    Ok(RoundResult { epoch: cx.epoch(), audiences: audiences(cx, &channels)?, frames })
}
