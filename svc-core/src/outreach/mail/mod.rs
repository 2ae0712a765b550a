//! Email: sends unread notifications to the addresses that members have confirmed.
//!
//! A notification is emailed some time after it was created, either in one letter per thread, or together
//! with all others in a digest. Emails beyond the hourly limit are kept for the digest. Quiet hours and
//! digests postpone an item only when it is taken for sending, because the database does not know time zones.
//! An address that fails temporarily is paused for longer after each failure. A letter that is rejected for
//! its content is dropped. An address is suspended if it does not exist or rejects several letters in a row.

mod letter;

use std::time::Duration;

use uuid::Uuid;

use crate::Result;
use crate::conversation::notifications::outgoing::{
    OutgoingChannel, OutgoingItem, are_all_still_due, clear_due_times, lease_due_items, oldest_due, postpone,
    set_due,
};
use crate::id::MemberId;
use crate::limits::DELIVERY_BATCH_LEASE;
use crate::mailbox::MailAddress;
use crate::op::{DeliveryBatch, DeliveryChannel, DeliveryResult, MailSettings, Read, Write};
use crate::outreach::delivery_address::{
    CODE_TTL, ConfirmationCode, DeliveryMode, StoredDelivery, load_delivery, postpone_notices, store_delivery,
};
use crate::outreach::preferences::{self, Preferences};
use crate::outreach::unsubscribe;
use crate::outreach::workspace_turns::workspaces_in_turn;
use crate::store::columns;
use crate::time::Time;
pub use letter::Letter;
use letter::{LetterKind, LetterRecipient};

/// Maximum emails to a member within an hour; further notifications are sent together in a digest.
const MAILS_PER_HOUR_MAX: i64 = 20;
/// Pause after the first temporary failure. Each further failure doubles the pause, up to [`MAIL_RETRY_MAX`].
const MAIL_RETRY_MIN: Duration = Duration::from_secs(60);
/// Number of consecutively rejected letters after which an address is suspended.
pub const MAIL_REFUSALS_MAX: i64 = 3;
/// Maximum pause before a letter is sent again.
const MAIL_RETRY_MAX: Duration = Duration::from_secs(6 * 3600);

/// The delivery channel for email.
pub static MAIL: DeliveryChannel<Letter> = DeliveryChannel {
    name: "mail",
    workspaces: SELECT_WORKSPACES,
    members: SELECT_MEMBERS,
    take: compose_due_letters,
    postpone: postpone_mail,
    is_current,
    settle,
};

/// SQL: selects the next workspace with an email about items or about an address, to send now or later.
macro_rules! next_workspace {
    ($after:literal) => {
        concat!(
            "(select f.workspace_id from (
                select * from (
                    select i.workspace_id from inbox i where i.mail_due is not null and i.workspace_id > ",
            $after,
            " order by i.workspace_id limit 1) items
                union all select * from (
                    select d.workspace_id from delivery_addresses d
                    where d.code_due is not null and d.workspace_id > ",
            $after,
            " order by d.workspace_id limit 1) codes
                union all select * from (
                    select d.workspace_id from delivery_addresses d
                    where d.former_due is not null and d.workspace_id > ",
            $after,
            " order by d.workspace_id limit 1) formers) f
             order by f.workspace_id limit 1)"
        )
    };
}

const SELECT_WORKSPACES: &str = workspaces_in_turn!(
    next_workspace!("$2"),
    next_workspace!("k.workspace_id"),
    "coalesce(
        (select 1 from inbox i where i.workspace_id = k.workspace_id and i.mail_due <= $1 limit 1),
        (select 1 from delivery_addresses d
         where d.workspace_id = k.workspace_id and d.code_due <= $1 limit 1),
        (select 1 from delivery_addresses d
         where d.workspace_id = k.workspace_id and d.former_due <= $1 limit 1)) is not null"
);

const SELECT_MEMBERS: &str = "
    select f.member_id from (
        select * from (
            select i.member_id, i.mail_due as due from inbox i
            where i.workspace_id = $1 and i.mail_due <= $2 order by i.mail_due limit 1000) items
        union all select * from (
            select d.member_id, d.code_due from delivery_addresses d
            where d.workspace_id = $1 and d.code_due <= $2 order by d.code_due limit $3) codes
        union all select * from (
            select d.member_id, d.former_due from delivery_addresses d
            where d.workspace_id = $1 and d.former_due <= $2 order by d.former_due limit $3) formers) f
    group by f.member_id order by min(f.due), f.member_id limit $3";

/// The handle of a member and the name of the member's workspace, as shown in letters.
struct RecipientName {
    handle: String,
    active: bool,
    workspace: String,
}

columns! {
    named_columns: RecipientName as m { handle, active = "m.deactivated_at is null", workspace = "w.name" }
}

const SELECT_RECIPIENT: &str = concat!(
    "select ",
    named_columns!(),
    " from members m join workspaces w on w.id = m.workspace_id where m.id = $1"
);

/// Composes the letters that must now be sent to a member, and leases their notifications.
fn compose_due_letters(cx: &mut Write<'_>, member: MemberId) -> Result<Option<DeliveryBatch<Letter>>> {
    let named: Option<RecipientName> = cx.one(SELECT_RECIPIENT, &[&member])?;
    let (Some(mail), Some(named), Some(stored)) =
        (cx.settings().mail.clone(), named, load_delivery(cx, member)?)
    else {
        return drop_due_items(cx, member);
    };
    if !named.active {
        store_delivery(cx, member, &StoredDelivery { code_due: None, former_due: None, ..stored })?;
        return drop_due_items(cx, member);
    }
    let origin = &*mail.public_url;
    let of_address =
        |address: &MailAddress| unsubscribe::unsubscribe_link(cx.sealer(), origin, member, address);
    let unsubscribe = stored.address.as_ref().map(of_address).transpose()?;
    let receiver =
        LetterRecipient { member, handle: &named.handle, workspace: &named.workspace, origin, unsubscribe };
    let is_due = |due: Option<Time>| due.is_some_and(|due| due <= cx.now());
    let letters = if is_due(stored.code_due) || is_due(stored.former_due) {
        compose_notice_letters(cx, &receiver, stored)?
    } else {
        compose_item_letters(cx, &receiver, stored, &mail)?
    };
    if letters.is_empty() {
        return Ok(None);
    }
    Ok(Some(DeliveryBatch::new(&MAIL, cx.caller().workspace_id, member, letters)))
}

fn drop_due_items(cx: &mut Write<'_>, member: MemberId) -> Result<Option<DeliveryBatch<Letter>>> {
    clear_due_times(cx, member, OutgoingChannel::Mail)?;
    Ok(None)
}

fn postpone_mail(cx: &mut Write<'_>, member: MemberId, until: Time) -> Result<()> {
    postpone(cx, member, OutgoingChannel::Mail, until)?;
    postpone_notices(cx, member, until)
}

/// Composes the letters about the address itself: the code, and the notice to the former address.
fn compose_notice_letters(
    cx: &mut Write<'_>,
    receiver: &LetterRecipient<'_>,
    mut stored: StoredDelivery,
) -> Result<Vec<Letter>> {
    let now = cx.now();
    let lease = Some(now.plus(DELIVERY_BATCH_LEASE));
    let mut letters = Vec::new();
    if let Some(pending) = stored.pending.clone().filter(|_| stored.code_due.is_some_and(|due| due <= now)) {
        let code = ConfirmationCode::generate(cx)?;
        stored.code_hash = Some(code.hash(receiver.member));
        (stored.code_until, stored.tries, stored.code_due) = (Some(now.plus(CODE_TTL)), 0, lease);
        letters.push(receiver.compose_code(pending, &code));
    }
    if let Some(former) = stored.former.clone().filter(|_| stored.former_due.is_some_and(|due| due <= now)) {
        letters.push(receiver.compose_former_notice(former, now));
        stored.former_due = lease;
    }
    if letters.is_empty() {
        (stored.code_due, stored.former_due) = (None, None);
    }
    store_delivery(cx, receiver.member, &stored)?;
    Ok(letters)
}

/// Composes the letters about items that a member has not read.
fn compose_item_letters(
    cx: &mut Write<'_>,
    receiver: &LetterRecipient<'_>,
    mut stored: StoredDelivery,
    mail: &MailSettings,
) -> Result<Vec<Letter>> {
    let member = receiver.member;
    let now = cx.now();
    let Some(address) = stored.reachable_address().cloned() else {
        clear_due_times(cx, member, OutgoingChannel::Mail)?;
        return Ok(Vec::new());
    };
    let preferences = preferences::load_preferences(cx, member)?;
    if let Some(later) = postponed_until(cx, member, &stored, &preferences, mail)? {
        postpone(cx, member, OutgoingChannel::Mail, later)?;
        return Ok(Vec::new());
    }
    let items =
        lease_due_items(cx, member, OutgoingChannel::Mail, &preferences.for_channel(OutgoingChannel::Mail))?;
    let mut places = group_by_place(&items);
    if places.is_empty() {
        return Ok(Vec::new());
    }
    if stored.mode == DeliveryMode::Digest || stored.digest_at.is_some_and(|at| at <= now) {
        stored.count_sent(now);
        store_delivery(cx, member, &stored)?;
        return Ok(vec![receiver.compose_digest(address, &places)]);
    }
    let left = MAILS_PER_HOUR_MAX.saturating_sub(stored.sent_in_current_hour(now));
    let too_many = places.split_off(places.len().min(usize::try_from(left).unwrap_or_default()));
    if !too_many.is_empty() {
        let digest_at = preferences.next_digest(now);
        let lsns: Vec<i64> = too_many.iter().flat_map(|(_, items)| items).map(|item| item.lsn).collect();
        set_due(cx, member, OutgoingChannel::Mail, &lsns, Some(digest_at))?;
        stored.digest_at = Some(digest_at);
    }
    // Count before sending, because another delivery batch may be taken in the meantime.
    places.iter().for_each(|_| stored.count_sent(now));
    store_delivery(cx, member, &stored)?;
    Ok(places.iter().map(|(place, items)| receiver.compose_items(address.clone(), *place, items)).collect())
}

/// Returns the time until which no items may be sent to a member, or `None` if items may be sent now.
fn postponed_until(
    cx: &Write<'_>,
    member: MemberId,
    stored: &StoredDelivery,
    preferences: &Preferences,
    mail: &MailSettings,
) -> Result<Option<Time>> {
    let now = cx.now();
    let retried = stored.retry_at.filter(|at| *at > now);
    let digest = match (stored.mode, oldest_due(cx, member, OutgoingChannel::Mail)?) {
        // An item created just before a digest is delayed too, so that the member can read it first.
        (DeliveryMode::Digest, Some(oldest)) => {
            Some(preferences.first_digest_from(oldest.plus(mail.delay))).filter(|at| *at > now)
        }
        _ => None,
    };
    Ok(retried.or_else(|| preferences.quiet_hours_end(now)).max(digest))
}

/// Groups items by thread, or by channel if they have no thread, ordered by the first item of each group.
fn group_by_place(items: &[OutgoingItem]) -> Vec<(Uuid, Vec<&OutgoingItem>)> {
    let mut places: Vec<(Uuid, Vec<&OutgoingItem>)> = Vec::new();
    for item in items {
        let place = item.thread_id.map_or(item.channel_id.uuid(), |thread| thread.uuid());
        match places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, items)) => items.push(item),
            None => places.push((place, vec![item])),
        }
    }
    places
}

impl StoredDelivery {
    /// Returns how many emails were sent in the current hour.
    fn sent_in_current_hour(&self, now: Time) -> i64 {
        let is_over = self.sent_since.is_none_or(|since| since.plus(HOUR) <= now);
        if is_over { 0 } else { self.sent }
    }

    /// Counts an email as sent.
    fn count_sent(&mut self, now: Time) {
        let sent = self.sent_in_current_hour(now);
        self.sent_since = self.sent_since.filter(|_| sent > 0).or(Some(now));
        self.sent = sent.saturating_add(1);
    }

    /// Subtracts an email that was not accepted from the count.
    fn decrement_sent(&mut self) {
        self.sent = self.sent.saturating_sub(1).max(0);
    }

    /// Records that the address accepted an email.
    fn record_success(&mut self) {
        (self.failures, self.retry_at, self.last_error) = (0, None, None);
        self.refusals = 0;
    }

    /// Records a letter rejected for its content, and suspends the address after several rejections.
    fn record_refusal(&mut self, detail: &str) {
        (self.failures, self.retry_at, self.last_error) = (0, None, Some(detail.to_owned()));
        self.refusals = self.refusals.saturating_add(1);
        self.suspended |= self.refusals >= MAIL_REFUSALS_MAX;
    }

    /// Records a temporary failure, and returns when to try again.
    fn record_failure(&mut self, now: Time, detail: &str, retry_after: Option<Duration>) -> Time {
        let at = now.plus(retry_pause(self.failures, retry_after));
        self.failures = self.failures.saturating_add(1);
        (self.retry_at, self.last_error) = (Some(at), Some(detail.to_owned()));
        at
    }
}

/// Returns the pause after a number of failures.
///
/// `retry_after` is the minimum pause that the receiving server requested.
fn retry_pause(failures: i64, retry_after: Option<Duration>) -> Duration {
    let doubled = u32::try_from(failures).ok().and_then(|failures| 2_u32.checked_pow(failures));
    let pause = doubled.map_or(MAIL_RETRY_MAX, |times| MAIL_RETRY_MIN.saturating_mul(times));
    pause.max(retry_after.unwrap_or_default()).min(MAIL_RETRY_MAX)
}

const HOUR: Duration = Duration::from_secs(3600);

/// Returns whether all items of a letter are still due.
fn is_current(cx: &Read<'_>, batch: &DeliveryBatch<Letter>, index: usize) -> Result<bool> {
    match batch.notifications().get(index).map(|letter| &letter.kind) {
        Some(LetterKind::Items(lsns) | LetterKind::Digest(lsns)) => {
            are_all_still_due(cx, batch.member_id(), OutgoingChannel::Mail, lsns)
        }
        about => Ok(about.is_some()),
    }
}

/// Records the delivery results of letters.
fn settle(cx: &mut Write<'_>, batch: &DeliveryBatch<Letter>, results: &[DeliveryResult]) -> Result<()> {
    let member = batch.member_id();
    // If there is no row, the member was erased in the meantime.
    let Some(mut stored) = load_delivery(cx, member)? else { return Ok(()) };
    for (letter, result) in batch.notifications().iter().zip(results) {
        match &letter.kind {
            LetterKind::Code | LetterKind::FormerAddress => {
                settle_notice(&mut stored, letter, result, cx.now())
            }
            LetterKind::Items(lsns) | LetterKind::Digest(lsns) => {
                settle_items(cx, member, &mut stored, letter.to(), (lsns, result))?;
                if matches!((&letter.kind, result), (LetterKind::Digest(_), DeliveryResult::Accepted)) {
                    stored.digest_at = stored.digest_at.filter(|at| *at > cx.now());
                }
            }
        }
    }
    store_delivery(cx, member, &stored)
}

/// Records the delivery result of a letter about the address itself.
fn settle_notice(stored: &mut StoredDelivery, letter: &Letter, result: &DeliveryResult, now: Time) {
    let is_code = letter.kind == LetterKind::Code;
    let (awaited, due) = match is_code {
        true => (&mut stored.pending, &mut stored.code_due),
        false => (&mut stored.former, &mut stored.former_due),
    };
    // The member may have set another address in the meantime.
    if awaited.as_ref() != Some(letter.to()) {
        return;
    }
    match result {
        DeliveryResult::Accepted | DeliveryResult::Dropped { .. } | DeliveryResult::Refused { .. } => {
            *due = None;
            *awaited = awaited.take().filter(|_| is_code);
        }
        DeliveryResult::Later { after, .. } => {
            *due = Some(now.plus(retry_pause(stored.notice_failures, *after)));
            stored.notice_failures = stored.notice_failures.saturating_add(1);
        }
        DeliveryResult::NotTried => {}
    }
    // A failure of the former address is not shown, because the member is replacing that address.
    if is_code {
        stored.last_error = match result {
            DeliveryResult::Dropped { detail }
            | DeliveryResult::Refused { detail }
            | DeliveryResult::Later { detail, .. } => Some(detail.clone()),
            DeliveryResult::Accepted => None,
            DeliveryResult::NotTried => stored.last_error.take(),
        };
    }
}

/// Records the delivery result of a letter about items.
fn settle_items(
    cx: &mut Write<'_>,
    member: MemberId,
    stored: &mut StoredDelivery,
    to: &MailAddress,
    (lsns, result): (&[i64], &DeliveryResult),
) -> Result<()> {
    let now = cx.now();
    if *result != DeliveryResult::Accepted {
        stored.decrement_sent();
    }
    let due = match result {
        // This letter was sent before the last rejection was counted, so the suspension stays.
        DeliveryResult::Accepted if stored.suspended => None,
        DeliveryResult::Accepted => {
            stored.record_success();
            None
        }
        DeliveryResult::Later { detail, after } => Some(stored.record_failure(now, detail, *after)),
        // The address was replaced in the meantime.
        DeliveryResult::Dropped { .. } | DeliveryResult::Refused { .. }
            if stored.address.as_ref() != Some(to) =>
        {
            Some(now)
        }
        DeliveryResult::Dropped { detail } => {
            stored.record_refusal(detail);
            None
        }
        DeliveryResult::Refused { detail } => {
            (stored.suspended, stored.last_error) = (true, Some(detail.clone()));
            None
        }
        DeliveryResult::NotTried => Some(stored.retry_at.unwrap_or(now)),
    };
    if stored.suspended {
        clear_due_times(cx, member, OutgoingChannel::Mail)
    } else {
        set_due(cx, member, OutgoingChannel::Mail, lsns, due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_accepted_waits_for_a_minute_to_six_hours() {
        let minutes = |failures, after: Option<u64>| {
            retry_pause(failures, after.map(|minutes| Duration::from_secs(minutes * 60))).as_secs() / 60
        };
        let all: Vec<u64> = (0..11).map(|failures| minutes(failures, None)).collect();
        assert_eq!(all, [1, 2, 4, 8, 16, 32, 64, 128, 256, 360, 360]);
        assert_eq!(minutes(1000, None), 360);
        assert_eq!((minutes(0, Some(30)), minutes(7, Some(30)), minutes(0, Some(10_000))), (30, 128, 360));
    }

    #[test]
    fn an_address_is_suspended_by_refusals_in_a_row() {
        let mut stored = StoredDelivery::without_address(DeliveryMode::Immediate);
        let now = Time::from_micros(0);
        for _ in 0..3 {
            stored.record_refusal("554 5.7.1 no");
            stored.record_refusal("554 5.7.1 no");
            let at = stored.record_failure(now, "451 later", None);
            assert_eq!((stored.suspended, stored.retry_at), (false, Some(at)), "that is no answer to either");
            stored.record_success();
            assert_eq!((stored.refusals, &stored.last_error), (0, &None));
        }
        (0..3).for_each(|_| stored.record_refusal("554 5.7.1 no"));
        assert!(stored.suspended && stored.retry_at.is_none());
        assert_eq!(stored.last_error.as_deref(), Some("554 5.7.1 no"));
    }

    #[test]
    fn mails_are_counted_by_the_hour() {
        let at = |minutes: u64| Time::from_micros(0).plus(Duration::from_secs(minutes * 60));
        let mut stored = StoredDelivery::without_address(DeliveryMode::Immediate);
        (0..3).for_each(|minute| stored.count_sent(at(minute)));
        assert_eq!(stored.sent_in_current_hour(at(59)), 3);
        assert_eq!(stored.sent_in_current_hour(at(60)), 0);
        stored.count_sent(at(61));
        assert_eq!((stored.sent_in_current_hour(at(62)), stored.sent_in_current_hour(at(120))), (1, 1));
        assert_eq!(stored.sent_in_current_hour(at(121)), 0);
    }
}
