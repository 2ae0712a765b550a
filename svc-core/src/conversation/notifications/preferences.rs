//! Which notifications a member wants, and when: what is kept of that, and what of it is checked.
//!
//! What is muted counts when somebody is told; the rest is for the ways on which notifications leave the
//! service.

use std::borrow::Cow;
use std::collections::BTreeSet;

use jiff::tz::{TimeZone, db};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::json;
use uuid::Uuid;

use crate::Result;
use crate::capability::Capability::WorkspaceRead;
use crate::conversation::inbox::{InboxReason, mute_only};
use crate::conversation::places::{visible_channel, visible_place};
use crate::error::{Code, Error};
use crate::id::MemberId;
use crate::limits::MUTED_MAX;
use crate::op::{Feature, Operation, Read, Records, Write, idempotent, read};
use crate::store::named_enum;
use crate::text::{Items, nearest};

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
            .get("/me/notification-preferences")
            .needs(&[WorkspaceRead])
            .personal()
            .refuses(&[Code::Forbidden])
            .example(|_| json!({})),
        idempotent("set_notification_preferences", set_notification_preferences)
            .title("Set your notification preferences")
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

/// Which ways the notifications for one reason take beside the inbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Rule {
    /// The reason.
    reason: InboxReason,
    /// Whether they are mailed.
    mail: bool,
    /// Whether they are pushed.
    push: bool,
}

impl Rule {
    /// The rule of a reason for which nothing was said.
    fn default_of(reason: InboxReason) -> Self {
        use InboxReason::{ApprovalRequested, Assigned, Dm, Mention, Reply, ReviewRequested};
        let leaves = matches!(reason, Mention | Dm | Reply | Assigned | ReviewRequested | ApprovalRequested);
        Self { reason, mail: leaves, push: leaves }
    }
}

/// A time of day, as `HH:MM`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
struct TimeOfDay(String);

impl<'de> Deserialize<'de> for TimeOfDay {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = |digits: &str, below: u8| {
            digits.len() == 2 && digits.parse().is_ok_and(|number: u8| number < below)
        };
        let is_time =
            text.split_once(':').is_some_and(|(hours, minutes)| number(hours, 24) && number(minutes, 60));
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
        if is_time && is_plain {
            return Ok(Self(text));
        }
        Err(de::Error::custom("expected a time of day from 00:00 to 23:59"))
    }
}

impl JsonSchema for TimeOfDay {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "TimeOfDay".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"})
    }
}

/// The name of a time zone of the IANA database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
struct ZoneName(String);

/// Characters of the name of a time zone.
const ZONE_MAX: usize = 64;

impl<'de> Deserialize<'de> for ZoneName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.len() <= ZONE_MAX
            && let Ok(zone) = TimeZone::get(&text)
            && let Some(name) = zone.iana_name()
        {
            return Ok(Self(name.to_owned()));
        }
        let known: Vec<String> = db().available().map(|name| name.as_str().to_owned()).collect();
        let known: Vec<&str> = known.iter().map(|name| &**name).collect();
        Err(de::Error::custom(match nearest(&text, &known) {
            Some(near) => format!("no time zone has this name, did you mean `{near}`?"),
            None => "no time zone has this name: expected one such as `Europe/Berlin`".to_owned(),
        }))
    }
}

impl JsonSchema for ZoneName {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "ZoneName".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "minLength": 1, "maxLength": ZONE_MAX})
    }
}

named_enum! {
    /// A day of the week.
    enum Day {
        Monday = "mon", Tuesday = "tue", Wednesday = "wed", Thursday = "thu", Friday = "fri",
        Saturday = "sat", Sunday = "sun",
    }
}

/// When nothing is mailed or pushed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct QuietHours {
    /// When they begin.
    start: TimeOfDay,
    /// When they end: on the next day, if that is before they begin.
    end: TimeOfDay,
    /// The time zone, by its name in the IANA database.
    time_zone: ZoneName,
    /// The days on which they begin. Default: every day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    days: Option<Items<Day, 7>>,
}

named_enum! {
    /// How often a digest is sent.
    enum Every { Hour = "hour", Day = "day", Week = "week" }
}

/// When what is not sent at once is sent together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Digest {
    /// How often.
    every: Every,
    /// At what time of the day, in the time zone of the quiet hours; without these in UTC. Every hour only
    /// the minutes count.
    at: TimeOfDay,
}

/// Which notifications you want, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
struct Preferences {
    /// Which ways the notifications for each reason take beside the inbox.
    rules: Vec<Rule>,
    /// The channels and threads of which you hear nothing but mentions of your handle and direct messages,
    /// and of these in the inbox only.
    muted: Vec<Uuid>,
    /// When nothing is mailed or pushed; null if never.
    quiet_hours: Option<QuietHours>,
    /// When what is not sent at once is sent together; null if never.
    digest: Option<Digest>,
    /// Whether what leaves the service says what messages say. Mail cannot be withdrawn.
    show_words: bool,
}

impl Default for Preferences {
    fn default() -> Self {
        Self {
            rules: InboxReason::ALL.iter().copied().map(Rule::default_of).collect(),
            muted: Vec::new(),
            quiet_hours: None,
            digest: None,
            show_words: true,
        }
    }
}

/// Returns which notifications you want, and when.
///
/// Fails with 403 `forbidden` if `member_id` is not you.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GetNotificationPreferences {
    /// Whose preferences: yours.
    #[serde(rename = "member_id")]
    _member_id: Option<MemberId>,
}

fn get_notification_preferences(cx: &Read<'_>, _: &GetNotificationPreferences) -> Result<Preferences> {
    kept(cx, cx.caller().member_id()?)
}

/// Returns the preferences of a member: those that it has set, or else the usual ones.
fn kept(cx: &Read<'_>, member: MemberId) -> Result<Preferences> {
    match cx.one::<(String,)>(KEPT, &[&member])? {
        Some((body,)) => serde_json::from_str(&body).map_err(Error::internal),
        None => Ok(Preferences::default()),
    }
}

const KEPT: &str = "select body from preferences where member_id = $1";

/// Sets which notifications you want and when, as a whole, and returns that.
///
/// What is absent is as if it had never been set.
///
/// Fails with 403 `forbidden` if `member_id` is not you; 404 `not-found` if you mute what you do not see.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SetNotificationPreferences {
    /// Whose preferences: yours.
    #[serde(rename = "member_id")]
    _member_id: Option<MemberId>,
    /// Which ways the notifications for some reasons take, each reason once. Of others those for a mention, a
    /// direct message, a reply, an assignment and a requested review or approval are mailed and pushed.
    rules: Option<Items<Rule, { InboxReason::ALL.len() }>>,
    /// The channels and threads of which you want to hear nothing but mentions of your handle and direct
    /// messages, and of these in the inbox only.
    muted: Option<Items<Uuid, MUTED_MAX>>,
    /// When nothing is to be mailed or pushed.
    quiet_hours: Option<QuietHours>,
    /// When what is not sent at once is to be sent together.
    digest: Option<Digest>,
    /// Whether what leaves the service may say what messages say. Mail cannot be withdrawn. Default: it may.
    show_words: Option<bool>,
}

fn set_notification_preferences(
    cx: &mut Write<'_>,
    input: &SetNotificationPreferences,
) -> Result<Preferences> {
    let member = cx.caller().member_id()?;
    let before = kept(cx, member)?;
    let mut wanted = Preferences {
        rules: rules(input.rules.as_deref().unwrap_or_default())?,
        muted: input.muted.as_deref().unwrap_or_default().to_vec(),
        quiet_hours: input.quiet_hours.clone(),
        digest: input.digest.clone(),
        show_words: input.show_words.unwrap_or(true),
    };
    wanted.muted.sort_unstable();
    wanted.muted.dedup();
    let new = wanted.muted.iter().filter(|target| !before.muted.contains(target));
    new.copied().try_for_each(|target| check_is_seen(cx, target))?;
    if wanted.quiet_hours.as_ref().is_some_and(|quiet| quiet.start == quiet.end) {
        return Err(Error::malformed("`quiet_hours`: they end when they begin"));
    }
    let body = serde_json::to_string(&wanted).map_err(Error::internal)?;
    cx.execute(1, KEEP, &[&member, &body])?;
    mute_only(cx, member, &wanted.muted)?;
    cx.execute_any(FORGET_RULES, &[&member])?;
    for rule in wanted.rules.iter().filter(|rule| **rule != Rule::default_of(rule.reason)) {
        cx.execute(1, ADD_RULE, &[&member, &rule.reason.bit(), &rule.mail, &rule.push])?;
    }
    Ok(wanted)
}

const KEEP: &str = "
    insert into preferences (member_id, body) values ($1, $2)
    on conflict (member_id) do update set body = excluded.body";

const FORGET_RULES: &str = "delete from inbox_rules where member_id = $1";

const ADD_RULE: &str = "insert into inbox_rules (member_id, reason, mail, push) values ($1, $2, $3, $4)";

/// Returns the rules of all reasons, where these are given.
fn rules(given: &[Rule]) -> Result<Vec<Rule>> {
    let mut seen = BTreeSet::new();
    if !given.iter().all(|rule| seen.insert(rule.reason.bit())) {
        return Err(Error::malformed("`rules`: a reason is named twice"));
    }
    let of = |reason: InboxReason| given.iter().find(|rule| rule.reason == reason).cloned();
    Ok(InboxReason::ALL
        .iter()
        .map(|reason| of(*reason).unwrap_or_else(|| Rule::default_of(*reason)))
        .collect())
}

/// Fails unless an id is that of a channel or a thread that the caller sees.
fn check_is_seen(cx: &Read<'_>, target: Uuid) -> Result<()> {
    match visible_channel(cx, target.into()) {
        Err(error) if error.code() == Code::NotFound => {}
        seen => return seen.map(drop),
    }
    match visible_place(cx, target.into()) {
        Err(error) if error.code() == Code::NotFound => Err(Error::not_found("channel or thread")),
        seen => seen.map(drop),
    }
}
