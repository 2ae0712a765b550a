//! Resume tokens: a position with its member and filter, as one opaque string.
//!
//! The service does not store these tokens. Each token is authenticated (HMAC-SHA256, RFC 2104) by a key
//! derived from the key-encryption key, so every server accepts the tokens of every other server, and a
//! client cannot forge one. A token is valid for an hour, contains nothing that its bearer does not know, and
//! is useless without the member's credential.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::request::WantedEvents;
use crate::error::{Error, Result};
use crate::id::{MemberId, WorkspaceId};
use crate::log::seal::Sealer;
use crate::time::Time;

/// Time for which a resume token is valid.
const TOKEN_TTL: Duration = Duration::from_secs(3600);
/// Label for deriving the key that authenticates resume tokens.
const KEY_LABEL: &str = "svc.resume/1";
/// Maximum characters of a resume token; a token with the longest filter has about half as many.
const TOKEN_MAX_CHARS: usize = 2048;

/// Content of a resume token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ResumeTokenContent {
    pub workspace_id: WorkspaceId,
    pub member_id: Option<MemberId>,
    pub wanted: WantedEvents,
    pub after_id: i64,
    /// When the token was issued, in microseconds.
    pub issued_at: i64,
}

impl ResumeTokenContent {
    /// Encodes the content as an authenticated resume token.
    pub fn encode(&self, sealer: &Sealer) -> Result<String> {
        let body = serde_json::to_vec(self).map_err(Error::internal)?;
        let tag = sealer.create_tag(KEY_LABEL, &body)?;
        Ok(format!("{}.{}", URL_SAFE_NO_PAD.encode(&body), URL_SAFE_NO_PAD.encode(tag)))
    }

    /// Returns the content of a resume token, if the token is genuine and was issued within the last hour.
    pub fn decode(token: &str, sealer: &Sealer, now: Time) -> Result<Self> {
        let refused = || Error::in_field("resume_token", "it is not valid here, or has expired");
        let found = Self::decode_if_authentic(token, sealer)?.ok_or_else(refused)?;
        let age = now.micros().saturating_sub(found.issued_at);
        let lasts = i64::try_from(TOKEN_TTL.as_micros()).unwrap_or(i64::MAX);
        // The clocks of servers may differ a little.
        if age > lasts || age < -lasts {
            return Err(refused());
        }
        Ok(found)
    }

    /// Decodes a token. Returns `None` if the token is malformed or was not issued by this service.
    fn decode_if_authentic(token: &str, sealer: &Sealer) -> Result<Option<Self>> {
        let parts = token.split_once('.').filter(|_| token.len() <= TOKEN_MAX_CHARS);
        let decoded = parts.and_then(|(body, tag)| {
            Some((URL_SAFE_NO_PAD.decode(body).ok()?, URL_SAFE_NO_PAD.decode(tag).ok()?))
        });
        let Some((body, tag)) = decoded else { return Ok(None) };
        let is_genuine = sealer.verify_tag(KEY_LABEL, &body, &tag)?;
        Ok(if is_genuine { serde_json::from_slice(&body).ok() } else { None })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::entropy::Entropy;

    const HOUR: i64 = 3_600_000_000;

    fn sealer(current: u8, retired: &[u8]) -> Sealer {
        let retired: Vec<[u8; 32]> = retired.iter().map(|byte| [*byte; 32]).collect();
        Sealer::new([current; 32], &retired, Entropy::seeded(1))
    }

    fn resumption() -> ResumeTokenContent {
        ResumeTokenContent {
            workspace_id: uuid::Uuid::from_u128(7).into(),
            member_id: Some(uuid::Uuid::from_u128(8).into()),
            wanted: WantedEvents::default(),
            after_id: 41,
            issued_at: HOUR,
        }
    }

    fn at(micros: i64) -> Time {
        Time::from_micros(micros)
    }

    #[test]
    fn a_token_is_good_for_an_hour_on_every_server_and_after_a_rotation() {
        let token = resumption().encode(&sealer(1, &[])).unwrap();
        assert_eq!(ResumeTokenContent::decode(&token, &sealer(1, &[]), at(2 * HOUR)).unwrap(), resumption());
        assert!(ResumeTokenContent::decode(&token, &sealer(2, &[1]), at(HOUR)).is_ok());
        assert!(ResumeTokenContent::decode(&token, &sealer(2, &[]), at(HOUR)).is_err());
        assert!(ResumeTokenContent::decode(&token, &sealer(1, &[]), at(2 * HOUR + 1)).is_err());
    }

    proptest! {
        #[test]
        fn a_changed_token_is_refused(place in any::<prop::sample::Index>(), to in "[A-Za-z0-9_.-]") {
            let sealer = sealer(1, &[]);
            let token = resumption().encode(&sealer).unwrap();
            let place = place.index(token.len());
            let changed = format!("{}{to}{}", &token[..place], &token[place + 1..]);
            let found = ResumeTokenContent::decode(&changed, &sealer, at(HOUR));
            prop_assert!(changed == token || found.is_err());
        }

        #[test]
        fn any_text_is_refused(text in any::<String>()) {
            prop_assert!(ResumeTokenContent::decode(&text, &sealer(1, &[]), at(HOUR)).is_err());
        }
    }
}
