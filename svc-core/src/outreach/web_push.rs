//! Web push subscriptions: the browsers of members that receive push notifications.
//!
//! The endpoint and keys of a subscription let anyone push to the browser, so they are not logged, and only
//! the member sees the endpoint. A browser has a single endpoint,
//! regardless of which member uses the browser, so the member who last registered the endpoint owns it.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD_INDIFFERENT;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::json;
use url::Url;
use web_push_native::p256::PublicKey;

use crate::Result;
use crate::capability::Capability::WorkspaceRead;
use crate::error::{Code, Error};
use crate::id::{MemberId, SubscriptionId};
use crate::identity::workspaces::OwnId;
use crate::limits::{SUBSCRIPTIONS_MAX, URI_MAX};
use crate::op::{Answer, Feature, Operation, Read, Records, Sample, Write, destructive, idempotent};
use crate::request::object;
use crate::request::request;
use crate::store::{FromValue, Param, ToParam, Value, columns};
use crate::text::Text;
use crate::time::Time;

/// Pause after the first failure of a push service. Each further failure doubles the pause.
const RETRY_MIN: Duration = Duration::from_secs(60);
/// Maximum pause, unless the push service requests a longer one.
const RETRY_MAX: Duration = Duration::from_secs(3600);

pub(crate) fn feature() -> Feature {
    Feature::new()
        .operations("notifications", operations())
        .sample(Sample::new("subscription", "register_web_push", |_| {
            example_browser("https://push.example/ada")
        }))
        .records(vec![Records::table("web_push", "id").through("member_id", "members").stays()])
}

fn operations() -> Vec<Operation> {
    vec![
        idempotent("register_web_push", register_web_push)
            .title("Register a browser for web push")
            .reaches_out()
            .post("/me/web-push")
            .rest_only()
            .needs(&[WorkspaceRead])
            .personal()
            .refuses(&[Code::Forbidden, Code::WrongState, Code::NotEnabled])
            .example(|_| example_browser("https://push.example/ada/laptop")),
        destructive("remove_web_push", remove_web_push)
            .title("Turn off web push for a browser")
            .reversible()
            .delete("/me/web-push/{subscription_id}")
            .rest_only()
            .needs(&[WorkspaceRead])
            .personal()
            .refuses(&[Code::Forbidden, Code::NotFound])
            .example(|w| json!({"subscription_id": w.id("subscription")})),
    ]
}

/// Returns a subscription in the form in which a browser sends it, with the keys of RFC 8291, 5.
fn example_browser(endpoint: &str) -> serde_json::Value {
    json!({
        "endpoint": endpoint,
        "keys": {
            "p256dh":
                "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
            "auth": "BTBZMqHH6r4Tts7J_aSIgg",
        },
    })
}

/// A browser that receives push notifications.
#[derive(Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Subscription {
    /// The subscription's id.
    pub id: SubscriptionId,
    /// The address of the subscription at the browser's push service.
    pub endpoint: String,
    /// When you last registered the browser.
    pub created_at: Time,
    /// When the push service last accepted a notification for this subscription; null if never.
    pub last_ok_at: Option<Time>,
}

columns! {
    subscription_columns: Subscription as w { id, endpoint, created_at = at, last_ok_at }
}

impl<I> Answer<I> for Subscription {
    type Kept = SubscriptionId;

    fn kept(&self) -> Option<SubscriptionId> {
        Some(self.id)
    }

    fn answer_repeat(cx: &Read<'_>, _: &I, id: SubscriptionId) -> Result<Self> {
        load_own_subscription(cx, id)
    }
}

/// The endpoint of a browser, and the keys to encrypt for it. The `Debug` output hides both.
#[derive(Clone, PartialEq, Eq)]
pub struct BrowserEndpoint {
    /// The address of the subscription at the push service.
    pub endpoint: String,
    /// The public key of the browser: an uncompressed point on P-256.
    pub p256dh: BrowserPublicKey,
    /// The secret that the browser and the service share.
    pub auth: AuthSecret,
}

impl fmt::Debug for BrowserEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Browser")
    }
}

/// Declares a byte-array type that is serialized as base64url and hidden in `Debug` output.
macro_rules! bytes_of_browser {
    ($(#[$doc:meta])* $name:ident, $length:literal, $expected:literal, $is_right:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq)]
        pub struct $name([u8; $length]);

        crate::argument::text_arguments! { $name }

        impl $name {
            fn new(bytes: &[u8]) -> Option<Self> {
                let bytes = bytes.try_into().ok()?;
                let is_right: fn(&[u8; $length]) -> bool = $is_right;
                is_right(&bytes).then_some(Self(bytes))
            }

            /// Returns the decoded bytes.
            pub fn bytes(&self) -> &[u8; $length] {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&URL_SAFE_NO_PAD_INDIFFERENT.encode(self.0))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                let bytes = URL_SAFE_NO_PAD_INDIFFERENT.decode(text).ok();
                bytes.and_then(|bytes| Self::new(&bytes)).ok_or_else(|| de::Error::custom($expected))
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "string", "pattern": "^[A-Za-z0-9_-]+=*$", "maxLength": 100})
            }
        }

        impl FromValue for $name {
            fn from_value(value: Value) -> Result<Self> {
                let bytes = Vec::<u8>::from_value(value)?;
                Self::new(&bytes).ok_or_else(|| Error::internal(concat!("a column of web_push, ", $expected)))
            }
        }

        impl ToParam for $name {
            fn param(&self) -> Param<'_> {
                Param::Bytes(&self.0)
            }
        }
    };
}

bytes_of_browser! {
    /// The public key of a browser.
    BrowserPublicKey, 65, "`p256dh`: expected an uncompressed point on the curve P-256, in base64url",
    |bytes| PublicKey::from_sec1_bytes(bytes).is_ok()
}

bytes_of_browser! {
    /// The secret that a browser shares with this service.
    AuthSecret, 16, "`auth`: expected 16 bytes in base64url", |_| true
}

object! {
    /// The keys for encrypting notifications for a browser.
    #[derive(Debug, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[schemars(inline)]
    #[non_exhaustive]
    pub struct WebPushKeys {
        /// The public key of the browser: an uncompressed point on P-256, in base64url.
        pub p256dh: BrowserPublicKey,
        /// The secret that the browser shares with this service: 16 bytes in base64url.
        pub auth: AuthSecret,
    }

    browser_keys::BrowserKeys(p256dh: BrowserPublicKey, auth: AuthSecret) for WebPushKeys
}

request! {
    /// Registers a browser to receive push notifications for you, and returns its subscription.
    ///
    /// Subscribe the browser with the `public_key` in your notification preferences as the
    /// `applicationServerKey`, and pass the fields that `PushSubscription.toJSON()` returns. Registering a
    /// browser again replaces its keys; an endpoint that another member had registered becomes yours.
    /// Notifications are encrypted for the browser. The service removes a subscription that the push service
    /// no longer recognises.
    ///
    /// Fails with 403 `forbidden` if `member_id` is not you; 409 `wrong-state` if you already have 10
    /// subscriptions; 409 `not-enabled` if the service has no key for web push.
    #[derive(Serialize)]
    struct RegisterWebPush {
        /// Your member id.
        member_id: OwnId<MemberId>,
        /// The address of the subscription at the push service: https, at a public host.
        endpoint: Text<1, URI_MAX>,
        /// When the subscription expires, as browsers send it. Ignored, because the push service reports the
        /// end.
        #[serde(rename = "expirationTime")]
        expiration_time: Option<f64>,
        /// The keys for encrypting notifications.
        keys: WebPushKeys,
    }

    register_web_push(endpoint: Text<1, URI_MAX>, keys: WebPushKeys) -> Subscription
}

fn register_web_push(cx: &mut Write<'_>, input: &RegisterWebPush) -> Result<Subscription> {
    check_web_push_enabled(cx)?;
    let member = cx.caller().member_id()?;
    let endpoint = normalize_endpoint(cx, &input.endpoint)?;
    let (others,): (i64,) = cx
        .one(COUNT_OTHERS, &[&member, &endpoint])?
        .ok_or_else(|| Error::internal("a count returned no row"))?;
    if others >= SUBSCRIPTIONS_MAX {
        let detail = format!("you have {SUBSCRIPTIONS_MAX} subscriptions, the maximum");
        return Err(Error::wrong_state(detail));
    }
    let (id, now): (SubscriptionId, _) = (cx.new_id()?, cx.now());
    let WebPushKeys { p256dh, auth } = &input.keys;
    cx.execute(1, UPSERT_SUBSCRIPTION, &[&id, &member, &endpoint, p256dh, auth, &now])?;
    cx.one(SELECT_BY_ENDPOINT, &[&endpoint])?
        .ok_or_else(|| Error::internal("the registered subscription is missing"))
}

const COUNT_OTHERS: &str = "select count(*) from web_push where member_id = $1 and endpoint <> $2";

/// Registering a known endpoint again keeps its id if the member is the same.
const UPSERT_SUBSCRIPTION: &str = "
    insert into web_push (id, member_id, endpoint, p256dh, auth, failures, at)
    values ($1, $2, $3, $4, $5, 0, $6)
    on conflict (endpoint) do update set
        id = case when web_push.member_id = excluded.member_id then web_push.id else excluded.id end,
        last_ok_at = case when web_push.member_id = excluded.member_id then web_push.last_ok_at end,
        member_id = excluded.member_id, p256dh = excluded.p256dh, auth = excluded.auth, at = excluded.at,
        failures = 0, retry_at = null, has = null";

const SELECT_BY_ENDPOINT: &str =
    concat!("select ", subscription_columns!(), " from web_push w where w.endpoint = $1");

fn check_web_push_enabled(cx: &Read<'_>) -> Result<()> {
    match cx.settings().vapid_public_key {
        Some(_) => Ok(()),
        None => Err(Error::new(Code::NotEnabled, "web push is not enabled: set SVC_VAPID_PRIVATE_KEY")),
    }
}

/// Returns the normalized address of an endpoint, if the service may send requests to it.
///
/// The error does not quote the endpoint, which is a secret.
fn normalize_endpoint(cx: &Read<'_>, endpoint: &str) -> Result<String> {
    let rejected = |why: &str| Error::in_field("endpoint", why.to_owned());
    let url = Url::parse(endpoint).map_err(|_| rejected("it is not a URL"))?;
    cx.settings().egress.check(&url).map_err(rejected)?;
    if !url.username().is_empty() || url.password().is_some() || url.fragment().is_some() {
        return Err(rejected("expected neither a user nor a fragment"));
    }
    let address = String::from(url);
    if address.len() > URI_MAX { Err(rejected("it is too long")) } else { Ok(address) }
}

request! {
    /// Removes one of your browsers, which then receives no push notifications, and returns the removed
    /// subscription.
    ///
    /// Fails with 403 `forbidden` if `member_id` is not you; 404 `not-found` if you have no such
    /// subscription.
    #[derive(Serialize)]
    struct RemoveWebPush {
        /// Id of the subscription to remove.
        subscription_id: SubscriptionId,
        /// Your member id.
        member_id: OwnId<MemberId>,
    }

    remove_web_push(subscription_id: SubscriptionId) -> Subscription
}

fn remove_web_push(cx: &mut Write<'_>, input: &RemoveWebPush) -> Result<Subscription> {
    let subscription = load_own_subscription(cx, input.subscription_id)?;
    remove_subscription(cx, subscription.id)?;
    Ok(subscription)
}

/// Loads a subscription of the caller.
fn load_own_subscription(cx: &Read<'_>, id: SubscriptionId) -> Result<Subscription> {
    let member = cx.caller().member_id()?;
    cx.one(SELECT_OWN, &[&id, &member])?.ok_or_else(|| Error::not_found("subscription"))
}

const SELECT_OWN: &str =
    concat!("select ", subscription_columns!(), " from web_push w where w.id = $1 and w.member_id = $2");

/// Removes a subscription of any member.
pub(super) fn remove_subscription(cx: &mut Write<'_>, subscription: SubscriptionId) -> Result<()> {
    cx.execute_any(DELETE_SUBSCRIPTION, &[&subscription])
}

const DELETE_SUBSCRIPTION: &str = "delete from web_push where id = $1";

/// The web push key of the service, and the browsers of a member.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(inline)]
#[non_exhaustive]
pub struct WebPush {
    /// The `applicationServerKey` that browsers subscribe with; null if web push is not enabled.
    pub public_key: Option<String>,
    /// Your browsers, in the order in which you last registered them.
    pub subscriptions: Vec<Subscription>,
}

/// Returns the web push key of the service and the caller's browsers.
pub(super) fn load_own_web_push(cx: &Read<'_>) -> Result<WebPush> {
    let subscriptions = cx.query(SELECT_BY_MEMBER, &[&cx.caller().member_id()?])?;
    Ok(WebPush { public_key: cx.settings().vapid_public_key.clone(), subscriptions })
}

const SELECT_BY_MEMBER: &str = concat!(
    "select ",
    subscription_columns!(),
    " from web_push w where w.member_id = $1 order by w.at, w.id"
);

/// A subscription that receives push notifications, with its delivery state.
#[derive(Clone)]
pub(super) struct PushTarget {
    pub id: SubscriptionId,
    pub browser: BrowserEndpoint,
    /// Number of consecutive failures of the push service.
    pub failures: i64,
    /// The time of the next attempt; `None` if the push service has not failed.
    pub retry_at: Option<Time>,
    /// Positions of the items that this browser has received, but another browser of the member has not.
    pub received_lsns: Vec<i64>,
}

/// The row of a push target.
struct StoredTarget {
    id: SubscriptionId,
    endpoint: String,
    p256dh: BrowserPublicKey,
    auth: AuthSecret,
    failures: i64,
    retry_at: Option<Time>,
    has: Option<String>,
}

columns! {
    target_columns: StoredTarget as w { id, endpoint, p256dh, auth, failures, retry_at, has }
}

/// Returns the subscriptions of a member, with their delivery state.
pub(super) fn load_targets(cx: &Read<'_>, member: MemberId) -> Result<Vec<PushTarget>> {
    let stored: Vec<StoredTarget> = cx.query(SELECT_TARGETS, &[&member])?;
    let open = |stored: StoredTarget| {
        let StoredTarget { id, endpoint, p256dh, auth, failures, retry_at, has } = stored;
        let has = has.map_or(Ok(Vec::new()), |has| serde_json::from_str(&has).map_err(Error::internal))?;
        Ok(PushTarget {
            id,
            browser: BrowserEndpoint { endpoint, p256dh, auth },
            failures,
            retry_at,
            received_lsns: has,
        })
    };
    stored.into_iter().map(open).collect()
}

const SELECT_TARGETS: &str =
    concat!("select ", target_columns!(), " from web_push w where w.member_id = $1 order by w.at, w.id");

/// Stores the delivery state of a target.
///
/// `is_accepted` is whether the push service has just accepted a notification.
pub(super) fn store_target(cx: &mut Write<'_>, target: &PushTarget, is_accepted: bool) -> Result<()> {
    let has =
        if target.received_lsns.is_empty() { None } else { Some(json!(target.received_lsns).to_string()) };
    let ok_at = is_accepted.then(|| cx.now());
    // The member may have removed the browser, or registered it again, in the meantime.
    cx.execute_any(UPDATE_TARGET, &[&target.id, &target.failures, &target.retry_at, &has, &ok_at])
}

const UPDATE_TARGET: &str = "
    update web_push set failures = $2, retry_at = $3, has = $4, last_ok_at = coalesce($5, last_ok_at)
    where id = $1";

impl PushTarget {
    /// Records that the push service has accepted a notification.
    pub fn record_success(&mut self) {
        (self.failures, self.retry_at) = (0, None);
    }

    /// Records a failure of the push service, and sets the time of the next attempt.
    ///
    /// If the push service sent the delay `retry_after`, the next attempt is not earlier.
    pub fn record_failure(&mut self, now: Time, retry_after: Option<Duration>) {
        let doublings = u32::try_from(self.failures).unwrap_or(u32::MAX).min(31);
        let pause = RETRY_MIN.saturating_mul(1_u32 << doublings).min(RETRY_MAX);
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(now.plus(retry_after.map_or(pause, |delay| delay.max(pause))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(text: &str) -> Result<BrowserPublicKey, serde_json::Error> {
        serde_json::from_value(json!(text))
    }

    #[test]
    fn a_key_is_a_point_on_the_curve_and_a_secret_has_16_bytes() {
        let right = example_browser("https://push.example/")["keys"]["p256dh"].as_str().unwrap().to_owned();
        assert!(point(&right).is_ok() && point(&format!("{right}=")).is_ok());
        let bytes = URL_SAFE_NO_PAD_INDIFFERENT.decode(&right).unwrap();
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD_INDIFFERENT.encode(bytes);
        let mut off = bytes.clone();
        off[64] ^= 1;
        let compressed = [&[2 + (bytes[64] & 1)], &bytes[1..33]].concat();
        assert!(PublicKey::from_sec1_bytes(&compressed).is_ok(), "a control: it is the same point");
        for wrong in [encode(&off), encode(&compressed), encode(&bytes[1..]), encode(&[0]), encode(&[0; 65])]
        {
            let error = point(&wrong).unwrap_err().to_string();
            assert!(error.starts_with("`p256dh`: expected an uncompressed point"), "{error}");
            assert!(!error.contains(&wrong));
        }
        let secret = |length: usize| serde_json::from_value::<AuthSecret>(json!(encode(&vec![1; length])));
        assert!(secret(16).is_ok());
        for length in [0, 15, 17, 32] {
            assert!(secret(length).unwrap_err().to_string().contains("expected 16 bytes"));
        }
        assert!(point("not base64!").is_err());
    }

    #[test]
    fn pauses_grow_from_failure_to_failure_and_are_never_shorter_than_asked_for() {
        let target = |failures| PushTarget {
            id: uuid::Uuid::nil().into(),
            browser: BrowserEndpoint {
                endpoint: "https://push.example/a-secret".to_owned(),
                p256dh: point(example_browser("")["keys"]["p256dh"].as_str().unwrap()).unwrap(),
                auth: AuthSecret::new(&[1; 16]).unwrap(),
            },
            failures,
            retry_at: None,
            received_lsns: Vec::new(),
        };
        let shown = format!("{:?}", target(0).browser);
        assert_eq!(shown, "Browser", "nothing of it is shown");
        let now = Time::from_micros(1);
        let pause = |failures, after| {
            let mut target = target(failures);
            target.record_failure(now, after);
            target.retry_at.unwrap().since(now)
        };
        let of = |secs| Duration::from_secs(secs);
        assert_eq!((pause(0, None), pause(1, None), pause(4, None)), (of(60), of(120), of(960)));
        assert_eq!((pause(6, None), pause(40, None), pause(i64::MAX, None)), (of(3600), of(3600), of(3600)));
        assert_eq!((pause(0, Some(of(5))), pause(0, Some(of(7200)))), (of(60), of(7200)));
    }
}
