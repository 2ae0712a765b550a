//! Web push as a delivery channel: sends notifications to members' browsers and records the results.
//!
//! The due items of a thread are combined into one notification per browser. After a failure of a push
//! service, its browser receives nothing for a while, and the items wait. The service records which browsers
//! have already received a waiting item, so that no browser receives it twice. An item that still waits after
//! a day is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use uuid::Uuid;

use super::preferences;
use super::web_push::{self, BrowserEndpoint, PushTarget};
use super::workspace_turns::workspaces_in_turn;
use crate::Result;
use crate::conversation::inbox::InboxReason;
use crate::conversation::notifications::outgoing::{
    OutgoingChannel, OutgoingItem, are_all_still_due, clear_due_times, find_due_lsns, lease_due_items,
    postpone, set_due,
};
use crate::error::Error;
use crate::hash::sha256;
use crate::id::{ChannelId, MemberId, MessageId, SubscriptionId, ThreadId, WorkspaceId};
use crate::op::{DeliveryBatch, DeliveryChannel, DeliveryResult, Read, Write};
use crate::time::Time;

/// Time for which push services keep a notification for an offline browser.
///
/// The service also retries a notification for that time if the push service fails.
pub const PUSH_TTL: Duration = Duration::from_secs(86_400);

/// Maximum number of threads and channels in one delivery batch to a browser.
const BATCH_PLACES_MAX: usize = 10;
/// Exclusive upper limit for the size of a notification before encryption, in bytes.
const PAYLOAD_MAX: usize = 3072;

/// The delivery channel for web push.
pub static WEB_PUSH: DeliveryChannel<PushNotification> = DeliveryChannel {
    name: "web_push",
    workspaces: SELECT_WORKSPACES,
    members: SELECT_MEMBERS,
    take: compose_due_notifications,
    postpone: postpone_push,
    is_current,
    settle,
};

/// SQL: selects the next workspace with a push notification, due now or later.
macro_rules! next_workspace {
    ($after:literal) => {
        concat!(
            "(select i.workspace_id from inbox i
              where i.push_due is not null and i.workspace_id > ",
            $after,
            " order by i.workspace_id limit 1)"
        )
    };
}

const SELECT_WORKSPACES: &str = workspaces_in_turn!(
    next_workspace!("$2"),
    next_workspace!("k.workspace_id"),
    "(select 1 from inbox i where i.workspace_id = k.workspace_id and i.push_due <= $1 limit 1) is not null"
);

const SELECT_MEMBERS: &str = "
    select f.member_id from (
        select i.member_id, i.push_due as due from inbox i
        where i.workspace_id = $1 and i.push_due <= $2 order by i.push_due limit 1000) f
    group by f.member_id order by min(f.due), f.member_id limit $3";

/// A notification for one browser.
pub struct PushNotification {
    /// The endpoint and keys of the browser.
    pub browser: BrowserEndpoint,
    /// The topic of the notification. A later notification with the same topic replaces this one.
    pub topic: String,
    /// Whether the member was mentioned or received a direct message.
    pub is_urgent: bool,
    /// The notification as JSON.
    pub payload: Vec<u8>,
    /// When the notification was taken for sending.
    pub taken_at: Time,
    /// The id of the browser's subscription.
    pub subscription: SubscriptionId,
    /// The positions and times of the items in the notification.
    covered: Vec<(i64, Time)>,
}

/// Content of a notification: the newest item in a thread or channel, and the number of new items there.
#[derive(Serialize)]
struct Notification<'a> {
    workspace_id: WorkspaceId,
    channel_id: ChannelId,
    /// The name of the channel; null for a direct message.
    channel: Option<&'a str>,
    thread_id: Option<ThreadId>,
    /// The title of the thread.
    thread: Option<&'a str>,
    message_id: Option<MessageId>,
    lsn: i64,
    at: Time,
    reason: InboxReason,
    /// The handle of the member who caused the item; null if the service caused it.
    actor: Option<&'a str>,
    preview: Option<&'a str>,
    /// Number of new items.
    count: usize,
}

/// Composes the notifications that must now be pushed to a member.
///
/// Returns `None` during quiet hours, or while all browsers of the member are paused.
fn compose_due_notifications(
    cx: &mut Write<'_>,
    member: MemberId,
) -> Result<Option<DeliveryBatch<PushNotification>>> {
    let now = cx.now();
    let active: Option<(bool,)> = cx.one(IS_ACTIVE, &[&member])?;
    if active != Some((true,)) {
        clear_due_times(cx, member, OutgoingChannel::Push)?;
        return Ok(None);
    }
    let preferences = preferences::load_preferences(cx, member)?;
    if let Some(until) = preferences.quiet_hours_end(now) {
        postpone(cx, member, OutgoingChannel::Push, until)?;
        return Ok(None);
    }
    let targets = web_push::load_targets(cx, member)?;
    let Some(first) = targets.iter().map(|target| target.retry_at.unwrap_or(now)).min() else {
        clear_due_times(cx, member, OutgoingChannel::Push)?;
        return Ok(None);
    };
    if first > now {
        postpone(cx, member, OutgoingChannel::Push, first)?;
        return Ok(None);
    }
    let items =
        lease_due_items(cx, member, OutgoingChannel::Push, &preferences.for_channel(OutgoingChannel::Push))?;
    let places = group_by_place(&items);
    let workspace = cx.caller().workspace_id;
    let mut pieces = Vec::new();
    for target in targets.iter().filter(|target| target.retry_at.is_none_or(|at| at <= now)) {
        for (place, items) in &places {
            pieces.extend(compose_notification(workspace, target, *place, items, now)?);
        }
    }
    if pieces.is_empty() {
        // The browsers that are not paused have received all items, but the paused ones have not.
        let lsns: Vec<i64> = places.iter().flat_map(|(_, items)| items).map(|item| item.lsn).collect();
        let later = targets.iter().filter_map(|target| target.retry_at).filter(|at| *at > now).min();
        set_due(cx, member, OutgoingChannel::Push, &lsns, later)?;
        return Ok(None);
    }
    Ok(Some(DeliveryBatch::new(&WEB_PUSH, workspace, member, pieces)))
}

fn postpone_push(cx: &mut Write<'_>, member: MemberId, until: Time) -> Result<()> {
    postpone(cx, member, OutgoingChannel::Push, until)
}

const IS_ACTIVE: &str = "select m.deactivated_at is null from members m where m.id = $1";

/// Groups items by thread or channel, up to [`BATCH_PLACES_MAX`] groups.
///
/// Items of further groups stay leased and are taken later.
fn group_by_place(items: &[OutgoingItem]) -> Vec<(Uuid, Vec<&OutgoingItem>)> {
    let mut places: Vec<(Uuid, Vec<&OutgoingItem>)> = Vec::new();
    for item in items {
        let place = item.thread_id.map_or(item.channel_id.uuid(), ThreadId::uuid);
        let is_full = places.len() >= BATCH_PLACES_MAX;
        match places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, items)) => items.push(item),
            None if !is_full => places.push((place, vec![item])),
            None => {}
        }
    }
    places
}

/// Composes the notification about those items of a place that a browser has not received yet.
fn compose_notification(
    workspace_id: WorkspaceId,
    target: &PushTarget,
    place: Uuid,
    items: &[&OutgoingItem],
    taken_at: Time,
) -> Result<Option<PushNotification>> {
    let lacking: Vec<&OutgoingItem> =
        items.iter().copied().filter(|item| !target.received_lsns.contains(&item.lsn)).collect();
    let Some(newest) = lacking.last() else { return Ok(None) };
    let is_urgent = lacking.iter().any(|item| {
        item.reasons.each().any(|reason| matches!(reason, InboxReason::Mention | InboxReason::Dm))
    });
    Ok(Some(PushNotification {
        browser: target.browser.clone(),
        topic: topic(place),
        is_urgent,
        payload: encode_payload(workspace_id, newest, lacking.len())?,
        taken_at,
        subscription: target.id,
        covered: lacking.iter().map(|item| (item.lsn, item.at)).collect(),
    }))
}

/// Returns an opaque topic for a place, which reveals nothing to push services (RFC 8030, 5.4).
fn topic(place: Uuid) -> String {
    let hash = sha256(place.as_bytes());
    URL_SAFE_NO_PAD.encode(hash).chars().take(22).collect()
}

/// Returns the notification as JSON, shorter than [`PAYLOAD_MAX`]; long texts are shortened.
fn encode_payload(workspace_id: WorkspaceId, newest: &OutgoingItem, count: usize) -> Result<Vec<u8>> {
    let mut notification = Notification {
        workspace_id,
        channel_id: newest.channel_id,
        channel: Some(&*newest.channel).filter(|_| !newest.dm),
        thread_id: newest.thread_id,
        thread: newest.thread.as_deref(),
        message_id: newest.message_id,
        lsn: newest.lsn,
        at: newest.at,
        reason: newest.reasons.strongest()?,
        actor: newest.actor.as_deref(),
        preview: newest.preview.as_deref(),
        count,
    };
    loop {
        let payload = serde_json::to_vec(&notification).map_err(Error::internal)?;
        if payload.len() < PAYLOAD_MAX {
            return Ok(payload);
        }
        let texts = [
            &mut notification.preview,
            &mut notification.thread,
            &mut notification.channel,
            &mut notification.actor,
        ];
        let longest = texts.into_iter().flatten().max_by_key(|text| text.len());
        let longest = longest.ok_or_else(|| Error::internal("a notification without texts is too long"))?;
        *longest = first_half(longest);
    }
}

fn first_half(text: &str) -> &str {
    let middle = text.char_indices().nth(text.chars().count() / 2);
    middle.and_then(|(at, _)| text.get(..at)).unwrap_or_default()
}

/// Returns whether all items of a notification are still due.
fn is_current(cx: &Read<'_>, batch: &DeliveryBatch<PushNotification>, index: usize) -> Result<bool> {
    let Some(piece) = batch.notifications().get(index) else { return Ok(false) };
    let lsns: Vec<i64> = piece.covered.iter().map(|(lsn, _)| *lsn).collect();
    are_all_still_due(cx, batch.member_id(), OutgoingChannel::Push, &lsns)
}

/// Records the results of a delivery: which browsers have received which items, and when to try again.
fn settle(
    cx: &mut Write<'_>,
    batch: &DeliveryBatch<PushNotification>,
    results: &[DeliveryResult],
) -> Result<()> {
    let member = batch.member_id();
    let now = cx.now();
    let sent: Vec<(&PushNotification, &DeliveryResult)> = batch.notifications().iter().zip(results).collect();
    let mut targets = Vec::new();
    for mut target in web_push::load_targets(cx, member)? {
        let of_target = || sent.iter().filter(|(piece, _)| piece.subscription == target.id);
        if of_target().any(|(_, result)| matches!(result, DeliveryResult::Refused { .. })) {
            web_push::remove_subscription(cx, target.id)?;
            continue;
        }
        let failed = of_target().find_map(|(_, result)| match result {
            DeliveryResult::Later { after, .. } => Some(*after),
            _ => None,
        });
        let is_ok = of_target().any(|(_, result)| **result == DeliveryResult::Accepted);
        // An item that the push service will never accept counts as delivered to the browser.
        let is_done = |result: &DeliveryResult| {
            matches!(result, DeliveryResult::Accepted | DeliveryResult::Dropped { .. })
        };
        let done = of_target().filter(|(_, result)| is_done(result));
        target.received_lsns.extend(done.flat_map(|(piece, _)| piece.covered.iter().map(|(lsn, _)| *lsn)));
        match failed {
            Some(after) => target.record_failure(now, after),
            None if is_ok => target.record_success(),
            None => {}
        }
        targets.push((target, is_ok));
    }
    let items: BTreeMap<i64, Time> =
        sent.iter().flat_map(|(piece, _)| piece.covered.iter().copied()).collect();
    let mut by_due: BTreeMap<Option<Time>, Vec<i64>> = BTreeMap::new();
    for (lsn, at) in items {
        by_due.entry(next_due(&targets, lsn, at, now)).or_default().push(lsn);
    }
    for (due, lsns) in by_due {
        set_due(cx, member, OutgoingChannel::Push, &lsns, due)?;
    }
    let had: BTreeSet<i64> =
        targets.iter().flat_map(|(target, _)| target.received_lsns.iter().copied()).collect();
    let had: Vec<i64> = had.into_iter().collect();
    let waiting: BTreeSet<i64> =
        find_due_lsns(cx, member, OutgoingChannel::Push, &had)?.into_iter().collect();
    for (mut target, is_ok) in targets {
        target.received_lsns.retain(|lsn| waiting.contains(lsn));
        web_push::store_target(cx, &target, is_ok)?;
    }
    Ok(())
}

/// Returns when to push an item again to a browser that has not received it. Returns `None` if every browser
/// has received the item, or if the item would then be older than [`PUSH_TTL`].
fn next_due(targets: &[(PushTarget, bool)], lsn: i64, item_time: Time, now: Time) -> Option<Time> {
    let lacking =
        targets.iter().map(|(target, _)| target).filter(|target| !target.received_lsns.contains(&lsn));
    let due = lacking.map(|target| target.retry_at.unwrap_or(now));
    due.filter(|due| *due <= now || *due <= item_time.plus(PUSH_TTL)).min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::inbox::Reasons;
    use crate::store::{FromValue as _, Value};

    #[test]
    fn a_topic_is_the_same_for_a_place_and_says_nothing_of_it() {
        let place = Uuid::from_u128(7);
        let topic = topic(place);
        assert_eq!(topic.len(), 22);
        assert!(topic.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')));
        assert_eq!(topic, super::topic(place));
        assert_ne!(topic, super::topic(Uuid::from_u128(8)));
    }

    #[test]
    fn words_are_cut_until_a_notification_fits() {
        let item = |text: &str| OutgoingItem {
            lsn: i64::MAX,
            at: Time::LAST,
            reasons: Reasons::from_value(Value::Int(InboxReason::Mention.bit())).unwrap(),
            channel_id: Uuid::nil().into(),
            dm: false,
            channel: text.to_owned(),
            thread_id: Some(Uuid::nil().into()),
            thread: Some(text.to_owned()),
            message_id: Some(Uuid::nil().into()),
            actor: Some("ada".to_owned()),
            preview: Some(text.to_owned()),
        };
        let read = |text: &str| {
            let payload = encode_payload(Uuid::nil().into(), &item(text), 3).unwrap();
            assert!(payload.len() < PAYLOAD_MAX, "{}", payload.len());
            serde_json::from_slice::<serde_json::Value>(&payload).unwrap()
        };
        let short = read("words");
        assert_eq!(
            (&short["preview"], &short["thread"], &short["count"]),
            (&"words".into(), &"words".into(), &3.into())
        );
        for text in ["\u{1}".repeat(200), "\u{1f600}".repeat(5000), "x".repeat(3072)] {
            let long = read(&text);
            let cut = long["preview"].as_str().unwrap();
            assert!(!cut.is_empty() && text.starts_with(cut), "{cut}");
            assert_eq!(long["actor"], "ada");
        }
    }
}
