//! Notification preferences of members: how they are stored and applied.
//!
//! Muting applies when a notification is created; the other preferences apply when a notification is emailed
//! or pushed.

use std::collections::BTreeSet;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use crate::Result;
use crate::capability::Capability::WorkspaceRead;
use crate::conversation::inbox::{InboxReason, replace_mutes};
use crate::conversation::notifications::outgoing::{
    NotificationPreferences, OutgoingChannel, OutgoingItem, undo_postponement,
};
use crate::conversation::visibility::{visible_channel, visible_thread_place};
use crate::error::{Code, Error};
use crate::id::MemberId;
use crate::identity::workspaces::OwnId;
use crate::limits::MUTED_MAX;
use crate::op::{Answer, Feature, Operation, Read, Records, Write, idempotent, read};
use crate::outreach::delivery_address::{Delivery, load_member_delivery};
use crate::outreach::hours::{Digest, QuietHours, zone_or_utc};
use crate::outreach::web_push::{self, WebPush};
use crate::request::object;
use crate::request::{dereferences, request};
use crate::schema::brief;
use crate::text::Items;
use crate::time::Time;

pub(crate) fn feature() -> Feature {
    Feature::new().operations("notifications", operations()).records(vec![
        Records::table("preferences", "member_id").through("member_id", "members").stays(),
        Records::table("inbox_rules", "member_id reason").through("member_id", "members").stays(),
    ])
}

fn operations() -> Vec<Operation> {
    vec![
        read("get_notification_preferences", get_notification_preferences)
            .title("Read your notification preferences")
            .when("Return your notification preferences, email address and browsers for web push.")
            .get("/me/notification-preferences")
            .needs(&[WorkspaceRead])
            .personal()
            .refuses(&[Code::Forbidden])
            .example(|_| json!({})),
        idempotent("set_notification_preferences", set_notification_preferences)
            .title("Set your notification preferences")
            .when("Replace all your notification preferences. `set_delivery_address` sets the email address.")
            .put("/me/notification-preferences")
            .needs(&[WorkspaceRead])
            .personal()
            .refuses(&[Code::Forbidden, Code::NotFound])
            .example(|w| {
                json!({"rules": [{"reason": "result", "mail": true, "push": false}],
                       "muted": [w.id("thread")],
                       "quiet_hours": {"start": "22:00", "end": "07:30", "time_zone": "Europe/Berlin"},
                       "digest": {"every": "day", "at": "08:00"}, "show_words": false})
            }),
    ]
}

object! {
    /// Whether to email and push the notifications for one reason. The notifications appear in the inbox in
    /// any case.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(rename = "Rule")]
    #[non_exhaustive]
    pub struct NotificationRule {
        /// The reason of the notifications.
        pub reason: InboxReason,
        /// Whether to email these notifications.
        pub mail: bool,
        /// Whether to push these notifications.
        pub push: bool,
    }

    new_rule::NewNotificationRule(reason: InboxReason, mail: bool, push: bool) for NotificationRule
}

impl NotificationRule {
    /// Returns the default rule for a reason.
    fn default_for(reason: InboxReason) -> Self {
        let is_sent = reason.is_sent_by_default();
        Self { reason, mail: is_sent, push: is_sent }
    }
}

/// The notification preferences of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Preferences {
    /// Whether to email and push the notifications for each reason.
    pub rules: Vec<NotificationRule>,
    /// Muted channels and threads. They notify you only of mentions of your handle and of direct messages,
    /// and only in the inbox.
    pub muted: Vec<Uuid>,
    /// Hours in which no emails and pushes are sent; null if there are none.
    pub quiet_hours: Option<QuietHours>,
    /// Times of the digest, an email with the notifications that are not emailed individually; null for every
    /// full hour.
    pub digest: Option<Digest>,
    /// Whether emails and pushes contain the titles of threads and the text of messages. Text that was sent
    /// cannot be withdrawn.
    pub show_words: bool,
}

impl Default for Preferences {
    fn default() -> Self {
        Self {
            rules: InboxReason::ALL.iter().copied().map(NotificationRule::default_for).collect(),
            muted: Vec::new(),
            quiet_hours: None,
            digest: None,
            show_words: false,
        }
    }
}

impl Preferences {
    /// Returns when the current quiet hours end, or `None` if `now` is not within quiet hours.
    pub fn quiet_hours_end(&self, now: Time) -> Option<Time> {
        self.quiet_hours.as_ref().and_then(|quiet| quiet.current_end(now))
    }

    /// Returns the time of the first digest after `after`.
    pub fn next_digest(&self, after: Time) -> Time {
        let zone = zone_or_utc(self.quiet_hours.as_ref());
        match &self.digest {
            Some(digest) => digest.next_time(after, &zone),
            None => Digest::hourly().next_time(after, &zone),
        }
    }

    /// Returns the time of the first digest at or after `from`.
    pub fn first_digest_from(&self, from: Time) -> Time {
        self.next_digest(from.before(Duration::from_micros(1)))
    }

    /// Returns the preferences as they apply to one delivery channel.
    pub fn for_channel(&self, channel: OutgoingChannel) -> ChannelPreferences<'_> {
        ChannelPreferences { preferences: self, channel }
    }
}

/// A member's preferences, applied to one delivery channel.
pub struct ChannelPreferences<'a> {
    pub preferences: &'a Preferences,
    pub channel: OutgoingChannel,
}

impl NotificationPreferences for ChannelPreferences<'_> {
    fn wants(&self, item: &OutgoingItem) -> bool {
        let of = |reason: &InboxReason| {
            let rule = self.preferences.rules.iter().find(|rule| rule.reason == *reason);
            rule.is_some_and(|rule| match self.channel {
                OutgoingChannel::Mail => rule.mail,
                OutgoingChannel::Push => rule.push,
            })
        };
        let is_muted = |target: &Uuid| {
            item.channel_id.uuid() == *target || item.thread_id.is_some_and(|thread| thread.uuid() == *target)
        };
        item.reasons.each().any(|reason| of(&reason)) && !self.preferences.muted.iter().any(is_muted)
    }

    fn shows_texts(&self) -> bool {
        self.preferences.show_words
    }
}

request! {
    /// Returns your notification preferences, and the addresses and browsers that receive notifications.
    ///
    /// Fails with 403 `forbidden` if `member_id` is not you.
    struct GetNotificationPreferences {
        /// Your member id.
        #[expect(dead_code, reason = "only checked while it is decoded")]
        member_id: OwnId<MemberId>,
    }

    get_notification_preferences() -> PreferencesWithTargets
}

/// The caller's notification preferences, with the addresses and browsers that receive notifications.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "PreferencesAndWays")]
#[non_exhaustive]
pub struct PreferencesWithTargets {
    #[serde(flatten)]
    pub preferences: Preferences,
    /// Your email delivery; null if you have not set an address.
    pub delivery: Option<Delivery>,
    /// The service's key for web push, and your browsers.
    pub web_push: WebPush,
}

dereferences! { PreferencesWithTargets => preferences: Preferences }

fn get_notification_preferences(
    cx: &Read<'_>,
    _: &GetNotificationPreferences,
) -> Result<PreferencesWithTargets> {
    let member = cx.caller().member_id()?;
    Ok(PreferencesWithTargets {
        preferences: load_preferences(cx, member)?,
        delivery: load_member_delivery(cx, member)?,
        web_push: web_push::load_own_web_push(cx)?,
    })
}

/// Returns the preferences of a member, or the defaults if the member has set none.
pub(super) fn load_preferences(cx: &Read<'_>, member: MemberId) -> Result<Preferences> {
    match cx.one::<(String,)>(SELECT_PREFERENCES, &[&member])? {
        Some((body,)) => serde_json::from_str(&body).map_err(Error::internal),
        None => Ok(Preferences::default()),
    }
}

const SELECT_PREFERENCES: &str = "select body from preferences where member_id = $1";

request! {
    /// Replaces all your notification preferences and returns them.
    ///
    /// A field that you omit is reset to its default.
    ///
    /// Fails with 403 `forbidden` if `member_id` is not you; 404 `not-found` if you mute something that you
    /// may not see.
    #[derive(Serialize)]
    struct SetNotificationPreferences {
        /// Your member id.
        member_id: OwnId<MemberId>,
        /// Rules for emailing and pushing notifications, at most one per reason. Without a rule, mentions,
        /// direct messages, replies, assignments and requests for reviews and approvals are emailed and
        /// pushed.
        #[schemars(transform = brief("At most one rule per reason."))]
        rules: Option<Items<NotificationRule, { InboxReason::ALL.len() }>>,
        /// The channels and threads to mute. They notify you only of mentions of your handle and of direct
        /// messages, and only in the inbox.
        #[schemars(transform = brief("Ids of channels and threads."))]
        muted: Option<Items<Uuid, MUTED_MAX>>,
        /// Hours without emails and pushes. Notifications that are still unread are sent when these
        /// hours end.
        #[schemars(transform = brief(""))]
        quiet_hours: Option<QuietHours>,
        /// Times of the digest email. The digest contains all notifications if your delivery mode is
        /// `digest`, otherwise those beyond 20 emails an hour. Default: every full hour.
        #[schemars(transform = brief(""))]
        digest: Option<Digest>,
        /// Whether emails and pushes may contain the titles of threads and the text of messages. Text that
        /// was sent cannot be withdrawn. Default: false; they then only say who did something and where, with
        /// a link.
        #[schemars(transform = brief("Whether emails and pushes may quote titles and messages."))]
        show_words: Option<bool>,
    }

    set_notification_preferences() -> Preferences
}

fn set_notification_preferences(
    cx: &mut Write<'_>,
    input: &SetNotificationPreferences,
) -> Result<Preferences> {
    let member = cx.caller().member_id()?;
    let before = load_preferences(cx, member)?;
    let mut wanted = Preferences {
        rules: complete_rules(input.rules.as_deref().unwrap_or_default())?,
        muted: input.muted.as_deref().unwrap_or_default().to_vec(),
        quiet_hours: input.quiet_hours.clone(),
        digest: input.digest.clone(),
        show_words: input.show_words.unwrap_or(false),
    };
    wanted.muted.sort_unstable();
    wanted.muted.dedup();
    let new = wanted.muted.iter().filter(|target| !before.muted.contains(target));
    new.copied().try_for_each(|target| check_is_visible(cx, target))?;
    let body = serde_json::to_string(&wanted).map_err(Error::internal)?;
    cx.execute(1, UPSERT_PREFERENCES, &[&member, &body])?;
    replace_mutes(cx, member, &wanted.muted)?;
    cx.execute_any(DELETE_RULES, &[&member])?;
    for rule in wanted.rules.iter().filter(|rule| **rule != NotificationRule::default_for(rule.reason)) {
        cx.execute(1, INSERT_RULE, &[&member, &rule.reason.bit(), &rule.mail, &rule.push])?;
    }
    undo_postponement(cx, member)?;
    Ok(wanted)
}

const UPSERT_PREFERENCES: &str = "
    insert into preferences (member_id, body) values ($1, $2)
    on conflict (member_id) do update set body = excluded.body";

const DELETE_RULES: &str = "delete from inbox_rules where member_id = $1";

const INSERT_RULE: &str = "insert into inbox_rules (member_id, reason, mail, push) values ($1, $2, $3, $4)";

impl Answer<SetNotificationPreferences> for Preferences {
    type Kept = ();

    fn kept(&self) -> Option<()> {
        Some(())
    }

    fn answer_repeat(cx: &Read<'_>, _: &SetNotificationPreferences, (): ()) -> Result<Self> {
        load_preferences(cx, cx.caller().member_id()?)
    }
}

/// Returns the rules for all reasons: the given rules, and defaults for the remaining reasons.
fn complete_rules(given: &[NotificationRule]) -> Result<Vec<NotificationRule>> {
    let mut seen = BTreeSet::new();
    if !given.iter().all(|rule| seen.insert(rule.reason.bit())) {
        return Err(Error::in_field("rules", "a reason occurs twice"));
    }
    let of = |reason: InboxReason| given.iter().find(|rule| rule.reason == reason).cloned();
    Ok(InboxReason::ALL
        .iter()
        .map(|reason| of(*reason).unwrap_or_else(|| NotificationRule::default_for(*reason)))
        .collect())
}

/// Fails unless `target` is the id of a channel or thread that the caller may see.
fn check_is_visible(cx: &Read<'_>, target: Uuid) -> Result<()> {
    match visible_channel(cx, target.into()) {
        Err(error) if error.code() == Code::NotFound => {}
        seen => return seen.map(drop),
    }
    match visible_thread_place(cx, target.into()) {
        Err(error) if error.code() == Code::NotFound => Err(Error::not_found("channel or thread")),
        seen => seen.map(drop),
    }
}
