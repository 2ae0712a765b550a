//! Sends web push notifications: encrypts each notification for a browser, and sends it in a signed request
//! to the browser's push service (RFC 8030, RFC 8188, RFC 8291, RFC 8292).
//!
//! A push service learns the sender, the urgency, and which notifications replace each other. Each
//! notification is sent once, and is retried later after a failure. No part of an address or a key is logged.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use reqwest::Url;
use serde::Serialize;
use svc_core::config::PushConfig;
use svc_core::egress::Egress;
use svc_core::op::{DeliveryChannel, DeliveryResult};
use svc_core::ops::{PUSH_TTL, PushNotification, WEB_PUSH};
use svc_core::time::Time;
use svc_core::{Error, Result};
use tokio::time::Instant;
use web_push_native::p256::PublicKey;
use web_push_native::{Auth, encrypt};

use crate::outbound::{AllowedServers, OutboundClient, RESOLVE_TIMEOUT, TOTAL_TIMEOUT};
use crate::workers::{BatchSender, LeasedBatch, SEND_TIMEOUT};

/// Start of the text in a stored delivery result, before the HTTP status.
const DETAIL_PREFIX: &str = "the push service answered";
/// Maximum push services whose tokens are cached. A push service is identified by its origin.
const CACHED_TOKENS_MAX: usize = 256;
/// Validity of a token from the start of the hour in which the token was created. Push services accept up to
/// a day.
const TOKEN_VALIDITY: Duration = Duration::from_secs(12 * HOUR);
const HOUR: u64 = 3600;

/// Sends web push notifications to browsers.
pub(crate) struct WebPush {
    outbound: OutboundClient,
    signer: RequestSigner,
}

impl WebPush {
    pub fn new(config: &PushConfig, egress: Egress) -> Result<Self> {
        if let Some(problem) = config.subject_problem() {
            let subject = config.subject.as_deref();
            tracing::warn!(
                subject,
                problem,
                "some push services will refuse the notifications of this service"
            );
        }
        let outbound = OutboundClient::new(AllowedServers { egress, ..AllowedServers::default() })
            .map_err(Error::internal)?;
        Ok(Self { outbound, signer: RequestSigner::new(config)? })
    }

    /// Sends the notifications for one browser one after another, until one fails.
    async fn send_all(
        &self,
        leased: &LeasedBatch<PushNotification>,
        pieces: &[(usize, &PushNotification)],
    ) -> Vec<DeliveryResult> {
        let last = Instant::now() + SEND_TIMEOUT.saturating_sub(TOTAL_TIMEOUT + RESOLVE_TIMEOUT);
        let mut results = Vec::new();
        let mut has_failed = false;
        for (place, piece) in pieces {
            // The message may have been read or withdrawn since the notification was created.
            let result = match has_failed || Instant::now() >= last || !leased.is_current(*place).await {
                true => DeliveryResult::NotTried,
                false => self.send_notification(piece).await,
            };
            has_failed |= matches!(result, DeliveryResult::Later { .. } | DeliveryResult::Refused { .. });
            if let DeliveryResult::Later { detail, .. }
            | DeliveryResult::Dropped { detail }
            | DeliveryResult::Refused { detail } = &result
            {
                let subscription = piece.subscription;
                tracing::warn!(%subscription, %detail, "a push service did not accept a notification");
            }
            results.push(result);
        }
        results
    }

    async fn send_notification(&self, piece: &PushNotification) -> DeliveryResult {
        let later = |detail: String| DeliveryResult::Later { detail, after: None };
        let request = match self.push_request(piece) {
            Ok(request) => request,
            Err(error) => return later(error.detail().to_owned()),
        };
        let head = match self.outbound.send_for_head(request).await {
            Ok(head) => head,
            Err(failed) => return later(failed.to_string()),
        };
        delivery_result(head.status(), head.headers(), piece.taken_at)
    }

    /// Returns the request that sends a notification to a push service.
    fn push_request(&self, piece: &PushNotification) -> Result<Request<Vec<u8>>> {
        let browser = &piece.browser;
        let key = PublicKey::from_sec1_bytes(browser.p256dh.bytes());
        let key = key.map_err(|_| Error::internal("the key of a browser is not on the curve"))?;
        let auth = Auth::clone_from_slice(browser.auth.bytes());
        let body = encrypt(piece.payload.clone(), &key, &auth)
            .map_err(|error| Error::internal(error.to_string()))?;
        let url =
            Url::parse(&browser.endpoint).map_err(|_| Error::internal("a push endpoint is not a URL"))?;
        let signed = self.signer.authorization(&url, piece.taken_at)?;
        let request = Request::post(url.as_str())
            .header("TTL", PUSH_TTL.as_secs())
            .header("Urgency", if piece.is_urgent { "high" } else { "normal" })
            .header("Topic", &piece.topic)
            .header(CONTENT_ENCODING, "aes128gcm")
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(AUTHORIZATION, signed);
        // The error would contain the URL of the push service, which is a secret.
        request.body(body).map_err(|_| Error::internal("a notification cannot be sent as a request"))
    }
}

impl BatchSender for WebPush {
    type Notification = PushNotification;

    const CHANNEL: &'static DeliveryChannel<PushNotification> = &WEB_PUSH;

    /// Sends notifications to all browsers of a member concurrently, so that a slow push service does not
    /// delay the other browsers.
    async fn send(&self, leased: &LeasedBatch<PushNotification>) -> Vec<DeliveryResult> {
        let pieces: Vec<(usize, &PushNotification)> =
            leased.batch.notifications().iter().enumerate().collect();
        let browsers = pieces.chunk_by(|(_, one), (_, other)| one.subscription == other.subscription);
        let sent = join_all(browsers.map(|pieces| self.send_all(leased, pieces))).await;
        sent.into_iter().flatten().collect()
    }
}

/// Returns the delivery result for a push service's response with the given status and headers.
fn delivery_result(status: StatusCode, headers: &HeaderMap, now: Time) -> DeliveryResult {
    let detail = format!("{DETAIL_PREFIX} {}", status.as_u16());
    match (status, requested_retry_delay(headers, now)) {
        _ if status.is_success() => DeliveryResult::Accepted,
        (StatusCode::NOT_FOUND | StatusCode::GONE, _) => DeliveryResult::Refused { detail },
        // The push service would refuse the same bytes again, and a retry would delay other notifications.
        (StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE, None) => DeliveryResult::Dropped { detail },
        (_, after) => DeliveryResult::Later { detail, after },
    }
}

/// Returns the delay that a push service requests with `Retry-After`: seconds, or a date (RFC 9110, 10.2.3).
fn requested_retry_delay(headers: &HeaderMap, now: Time) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let asked = match text.parse() {
        Ok(secs) => Duration::from_secs(secs),
        Err(_) => Time::from_http_date(text)?.since(now),
    };
    // The delay is capped at a day, so that a push service cannot stop all notifications.
    Some(asked.min(PUSH_TTL))
}

/// Signs requests to push services. There is one token per push service, which is renewed each hour.
struct RequestSigner {
    key: EncodingKey,
    public: String,
    subject: Option<String>,
    /// The current hour, and the tokens of that hour by the origin of the push service.
    tokens: Mutex<(i64, HashMap<String, HeaderValue>)>,
}

/// Claims of a token for a push service (RFC 8292, 2).
#[derive(Serialize)]
struct VapidClaims<'a> {
    aud: &'a str,
    exp: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sub: Option<&'a str>,
}

impl RequestSigner {
    fn new(config: &PushConfig) -> Result<Self> {
        Ok(Self {
            key: EncodingKey::from_ec_der(&config.key.to_pkcs8()?),
            public: config.key.public().to_owned(),
            subject: config.subject.clone(),
            tokens: Mutex::default(),
        })
    }

    /// Returns the Authorization header that identifies this service to a push service.
    fn authorization(&self, endpoint: &Url, now: Time) -> Result<HeaderValue> {
        let origin = endpoint.origin().ascii_serialization();
        let hour = now.micros().div_euclid(1_000_000 * i64::try_from(HOUR).map_err(Error::internal)?);
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.0 != hour || tokens.1.len() >= CACHED_TOKENS_MAX {
            *tokens = (hour, HashMap::new());
        }
        if let Some(made) = tokens.1.get(&origin) {
            return Ok(made.clone());
        }
        let made = self.sign_token(&origin, hour)?;
        tokens.1.insert(origin, made.clone());
        Ok(made)
    }

    fn sign_token(&self, origin: &str, hour: i64) -> Result<HeaderValue> {
        let begin = hour.saturating_mul(HOUR.cast_signed());
        let life = TOKEN_VALIDITY.as_secs().cast_signed();
        let claims =
            VapidClaims { aud: origin, exp: begin.saturating_add(life), sub: self.subject.as_deref() };
        let token = jsonwebtoken::encode(&Header::new(Algorithm::ES256), &claims, &self.key);
        let token = token.map_err(|error| Error::internal(error.to_string()))?;
        let text = format!("vapid t={token},k={}", self.public);
        let mut value = HeaderValue::from_str(&text).map_err(Error::internal)?;
        value.set_sensitive(true);
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use svc_core::config::VapidKey;

    use super::*;

    #[test]
    fn a_push_service_says_how_long_to_wait() {
        let now = Time::from_micros(1_445_412_480_000_000); // Wed, 21 Oct 2015 07:28:00 GMT
        let after = |text: &'static str| {
            requested_retry_delay(&HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]), now)
        };
        let of = |secs| Some(Duration::from_secs(secs));
        assert_eq!((after("120"), after(" 0 "), after("999999999")), (of(120), of(0), of(86_400)));
        assert_eq!(after("Wed, 21 Oct 2015 07:29:30 GMT"), of(90));
        assert_eq!(after("Wednesday, 21-Oct-15 07:29:30 GMT"), of(90));
        assert_eq!(after("Wed Oct 21 07:29:30 2015"), of(90));
        assert_eq!(after("Wed, 21 Oct 2015 07:00:00 GMT"), of(0));
        assert_eq!((after("soon"), after("-1"), after("")), (None, None, None));
        assert_eq!(requested_retry_delay(&HeaderMap::new(), now), None);
    }

    #[test]
    fn what_a_push_service_answers_decides_by_its_status_and_retry_after() {
        #[derive(Debug, PartialEq)]
        enum Became {
            Accepted,
            Gone,
            Dropped,
            Later(Option<u64>),
        }
        use Became::{Accepted, Dropped, Gone, Later};
        for (status, header, wanted) in [
            (200, None, Accepted),
            (201, None, Accepted),
            (202, None, Accepted),
            (204, Some("60"), Accepted),
            (301, None, Later(None)),
            (307, None, Later(None)),
            (400, None, Dropped),
            (400, Some("soon"), Dropped),
            (400, Some("30"), Later(Some(30))),
            (401, None, Later(None)),
            (403, None, Later(None)),
            (404, None, Gone),
            (404, Some("60"), Gone),
            (406, None, Later(None)),
            (408, None, Later(None)),
            (410, None, Gone),
            (413, None, Dropped),
            (413, Some("60"), Later(Some(60))),
            (429, None, Later(None)),
            (429, Some("120"), Later(Some(120))),
            (429, Some("Wed, 21 Oct 2015 07:29:30 GMT"), Later(Some(90))),
            (429, Some("-1"), Later(None)),
            (500, None, Later(None)),
            (502, None, Later(None)),
            (503, Some("86400000"), Later(Some(86_400))),
            (507, None, Later(None)),
            (599, None, Later(None)),
        ] {
            let headers = header.map(|text| (RETRY_AFTER, HeaderValue::from_static(text)));
            let now = Time::from_micros(1_445_412_480_000_000);
            let found =
                delivery_result(StatusCode::from_u16(status).unwrap(), &headers.into_iter().collect(), now);
            let found = match found {
                DeliveryResult::Accepted => Accepted,
                DeliveryResult::Refused { .. } => Gone,
                DeliveryResult::Dropped { .. } => Dropped,
                DeliveryResult::Later { after, .. } => Later(after.map(|after| after.as_secs())),
                DeliveryResult::NotTried => panic!("it was tried"),
            };
            assert_eq!(found, wanted, "{status} {header:?}");
        }
    }

    #[test]
    fn a_token_serves_one_origin_for_one_hour() {
        let key = Arc::new(VapidKey::new(&[7; 32]).unwrap());
        let signer = RequestSigner::new(&PushConfig { key, subject: None }).unwrap();
        let token = |url: &str, secs: i64| {
            let at = Time::from_micros(secs * 1_000_000);
            signer.authorization(&Url::parse(url).unwrap(), at).unwrap()
        };
        let first = token("https://push.example/a", 7200);
        assert_eq!(
            first,
            token("https://push.example:443/b?c", 10_799),
            "signatures differ, so it is the same"
        );
        assert_ne!(first, token("https://push.example:444/a", 7200));
        assert_ne!(first, token("http://push.example/a", 7200));
        assert_ne!(first, token("https://push.example/a", 10_800));
        assert!(format!("{first:?}").contains("Sensitive"));
        for number in 0..1000 {
            token(&format!("https://{number}.example/"), 20_000);
            assert!(signer.tokens.lock().unwrap().1.len() <= CACHED_TOKENS_MAX);
        }
    }
}
