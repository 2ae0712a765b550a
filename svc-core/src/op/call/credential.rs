//! The credential of a request, and the key for looking up its caller.
//!
//! Shells pass header values unchanged; only this module parses them. A session cookie is signed, and its
//! signature is compared in constant time before any lookup, so an attacker who learns the id of a session
//! cannot use it. A value that cannot be parsed as a credential is ignored.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;
use subtle::ConstantTimeEq as _;
use uuid::Uuid;

use crate::capability::Needs;
use crate::error::{Error, Result};
use crate::hash::sha256;
use crate::id::{SessionId, WorkspaceId};
use crate::limits::SESSION_SECRET_MIN_BYTES;
use crate::log::cache::CacheKey;
use crate::token_text;

/// The name of the session cookie.
pub const SESSION_COOKIE: &str = "svc_session";
/// Version of the session cookie's format.
const COOKIE_VERSION: &str = "v1";
/// Prefix of the bytes that the signature of a session cookie covers. Because of the prefix, the signature is
/// not valid for any other purpose.
const SIGNED_BYTES_PREFIX: &[u8] = b"svc_session v1 ";

/// Prefix of the input from which secrets are derived. Because of the prefix, no derived secret equals the
/// signature of a session cookie.
const DERIVATION_PREFIX: &str = "svc_oidc v1";

/// The credential of a request, before its caller is looked up.
#[derive(Clone, Debug, Default)]
pub enum Credential {
    /// The request has no credential.
    #[default]
    Nothing,
    /// The secret of a bearer token.
    Bearer(SecretString),
    /// A browser session, from a cookie that this service has signed.
    Session(SessionId),
    /// The secret of a bearer token, and a browser session. The request acts with the token.
    Both(SecretString, SessionId),
    /// The secret of a share ticket.
    Ticket(SecretString),
    /// No credential, on a service without authentication: the request acts as the first person.
    FirstPerson,
    /// No credential, for a workspace whose public channels are open to all.
    Anonymous(WorkspaceId),
}

impl Credential {
    /// Returns whether the credential is [`Credential::Nothing`].
    pub fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// Returns the reason why the bearer token is malformed, or `None` if it is well-formed or absent.
    pub(in crate::op) fn token_format_error(&self) -> Option<&'static str> {
        match self {
            Self::Bearer(secret) | Self::Both(secret, _) => token_text::flaw(secret.expose_secret()),
            _ => None,
        }
    }

    /// Returns a hash that identifies the credential without revealing it. Equal credentials have equal
    /// hashes.
    pub fn mark(&self) -> [u8; 32] {
        self.key(Needs::AnyCredential).map(|key| key.cache_key()).unwrap_or_default()
    }

    /// Returns the credential of a request that sends a bearer token after the headers.
    ///
    /// The token replaces a token or a ticket from the headers. A session from the headers is used together
    /// with the token. An empty token results in no credential.
    #[must_use]
    pub fn with_token(&self, token: SecretString) -> Self {
        match (Self::from(Some(token)), self) {
            (Self::Bearer(secret), Self::Session(session) | Self::Both(_, session)) => {
                Self::Both(secret, *session)
            }
            (sent, _) => sent,
        }
    }

    /// Returns the lookup key of the credential for an operation with the requirements `needs`, or `None`
    /// without a credential.
    ///
    /// For an operation without requirements, `FirstPerson` and `Anonymous` have no key, because the first
    /// person may not exist yet.
    pub(in crate::op) fn key(&self, needs: Needs) -> Option<CredentialKey> {
        match self {
            Self::Nothing => None,
            Self::FirstPerson | Self::Anonymous(_) if needs == Needs::Nothing => None,
            Self::FirstPerson => Some(CredentialKey::FirstPerson),
            Self::Anonymous(workspace) => Some(CredentialKey::Anonymous(*workspace)),
            Self::Bearer(secret) => Some(CredentialKey::Token(secret_hash(secret))),
            Self::Session(session) => Some(CredentialKey::Session(*session)),
            Self::Both(secret, session) => Some(CredentialKey::Both(secret_hash(secret), *session)),
            Self::Ticket(secret) => Some(CredentialKey::Ticket(secret_hash(secret))),
        }
    }
}

/// Converts a bearer token to a credential. An absent or empty token becomes no credential.
impl From<Option<SecretString>> for Credential {
    fn from(token: Option<SecretString>) -> Self {
        token.filter(|token| !token.expose_secret().is_empty()).map_or(Self::Nothing, Self::Bearer)
    }
}

/// Reads the credential of a request from the values of its Authorization and Cookie headers.
///
/// `authorization` contains the values of the Authorization header, `cookies` those of the Cookie header.
/// `key` is the key that signs session cookies; without a key, cookies are ignored. Also ignored are other
/// schemes, values that are not visible ASCII, and cookies with a wrong signature. If cookies identify two
/// different sessions, both are ignored, because one may be from another host that shares the browser's
/// cookies. More than one Authorization header is an error.
pub fn read_credential<'a>(
    mut authorization: impl Iterator<Item = &'a [u8]>,
    cookies: impl Iterator<Item = &'a [u8]>,
    key: Option<&SessionKey>,
) -> Result<Credential> {
    let sent = match (authorization.next(), authorization.next()) {
        (_, Some(_)) => {
            return Err(Error::malformed("the request has more than one Authorization header"));
        }
        (first, None) => first.map_or(Credential::Nothing, parse_authorization),
    };
    let session = key.and_then(|key| session_in_cookies(cookies, key));
    Ok(match (sent, session) {
        (Credential::Bearer(secret), Some(session)) => Credential::Both(secret, session),
        (Credential::Nothing, Some(session)) => Credential::Session(session),
        (sent, _) => sent,
    })
}

/// Returns the credential in the value of an Authorization header.
fn parse_authorization(value: &[u8]) -> Credential {
    let is_visible = value.iter().all(|byte| matches!(byte, b' '..=b'~'));
    let text = std::str::from_utf8(value).ok().filter(|_| is_visible);
    let Some((scheme, secret)) = text.and_then(|text| text.split_once(' ')) else {
        return Credential::Nothing;
    };
    let secret = SecretString::from(secret.trim());
    if scheme.eq_ignore_ascii_case("bearer") {
        Some(secret).into()
    } else if scheme.eq_ignore_ascii_case("shareticket") {
        Credential::Ticket(secret)
    } else {
        Credential::Nothing
    }
}

/// Returns the session that the validly signed session cookies identify, or `None` if no cookie is valid or
/// if they identify different sessions.
fn session_in_cookies<'a>(cookies: impl Iterator<Item = &'a [u8]>, key: &SessionKey) -> Option<SessionId> {
    let pairs = cookies.filter_map(|value| std::str::from_utf8(value).ok()).flat_map(|all| all.split(';'));
    let values = pairs.filter_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        (name.trim() == SESSION_COOKIE).then(|| value.trim())
    });
    let mut sessions = values.filter_map(|value| key.verify_cookie(value));
    let first = sessions.next()?;
    sessions.all(|other| other == first).then_some(first)
}

/// The key with which session cookies are signed.
#[derive(Clone)]
pub struct SessionKey(Hmac<Sha256>);

impl SessionKey {
    /// Creates the key from a secret. Fails if the secret is shorter than `SESSION_SECRET_MIN_BYTES`.
    pub fn new(secret: &SecretString) -> Result<Self> {
        let secret = secret.expose_secret().as_bytes();
        if secret.len() < SESSION_SECRET_MIN_BYTES {
            return Err(Error::configuration(format!(
                "SVC_SESSION_SECRET is shorter than {SESSION_SECRET_MIN_BYTES} bytes"
            )));
        }
        Hmac::new_from_slice(secret).map(Self).map_err(Error::internal)
    }

    /// Returns the value of the session cookie for `session`.
    pub fn cookie(&self, session: SessionId) -> String {
        let id = session.to_string();
        let signature = hex::encode(self.signature(&id));
        format!("{COOKIE_VERSION}.{id}.{signature}")
    }

    /// Returns the session in the value of a cookie, or `None` if this key has not signed the value.
    fn verify_cookie(&self, value: &str) -> Option<SessionId> {
        let (id, signature) = value.strip_prefix(COOKIE_VERSION)?.strip_prefix('.')?.split_once('.')?;
        let signature = hex::decode(signature).ok()?;
        if !bool::from(self.signature(id).as_slice().ct_eq(&signature)) {
            return None;
        }
        id.parse::<Uuid>().ok().map(SessionId::from)
    }

    /// Derives a secret from two other secrets and this key, for the purpose that `label` identifies.
    pub(crate) fn derived(
        &self,
        label: &str,
        first_secret: &SecretString,
        second_secret: &SecretString,
    ) -> SecretString {
        let mut mac = self.0.clone();
        // Each value is followed by a zero byte and contains none, so different values result in different
        // bytes.
        for part in [DERIVATION_PREFIX, label, first_secret.expose_secret(), second_secret.expose_secret()] {
            mac.update(part.as_bytes());
            mac.update(&[0]);
        }
        SecretString::from(hex::encode(mac.finalize().into_bytes()))
    }

    /// Returns the signature of the session `id`.
    fn signature(&self, id: &str) -> [u8; 32] {
        let mut mac = self.0.clone();
        mac.update(SIGNED_BYTES_PREFIX);
        mac.update(id.as_bytes());
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey")
    }
}

/// Returns the hash under which the secret of a token or ticket is stored.
///
/// Secrets are 256 random bits, so one round of SHA-256 is enough.
pub(crate) fn secret_hash(secret: &SecretString) -> [u8; 32] {
    sha256(secret.expose_secret().as_bytes())
}

/// The key for looking up the caller of a credential. Contains hashes instead of secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CredentialKey {
    Token([u8; 32]),
    Session(SessionId),
    Both([u8; 32], SessionId),
    Ticket([u8; 32]),
    FirstPerson,
    Anonymous(WorkspaceId),
}

impl CacheKey for CredentialKey {
    fn cache_key(&self) -> [u8; 32] {
        let tagged = |tag: u8, hash: &[u8], session: &[u8]| sha256(&[&[tag], hash, session].concat());
        match self {
            // Most keys are for tokens, so the hash of a token is the cache key itself. No other input below
            // has this length.
            Self::Token(hash) => *hash,
            Self::Session(session) => tagged(1, &[], session.uuid().as_bytes()),
            Self::Both(hash, session) => tagged(2, hash, session.uuid().as_bytes()),
            Self::Ticket(hash) => tagged(3, hash, &[]),
            Self::FirstPerson => tagged(4, &[], &[]),
            Self::Anonymous(workspace) => tagged(5, workspace.uuid().as_bytes(), &[]),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::strangers;

    const ID: &str = "01990000-0000-7000-8000-000000000001";
    const OTHER: &str = "01990000-0000-7000-8000-000000000002";

    fn key() -> SessionKey {
        SessionKey::new(&SecretString::from("0123456789abcdef0123456789abcdef")).unwrap()
    }

    fn cookie(id: &str) -> String {
        key().cookie(id.parse().unwrap())
    }

    /// Returns a description of the credential that is read from an Authorization value and Cookie values.
    fn read(authorization: Option<&str>, cookies: &[&str]) -> String {
        let key = key();
        let authorization = authorization.iter().map(|value| value.as_bytes());
        let cookies = cookies.iter().map(|value| value.as_bytes());
        match read_credential(authorization, cookies, Some(&key)) {
            Ok(Credential::Nothing) => "nothing".to_owned(),
            Ok(Credential::Bearer(secret)) => format!("bearer {}", secret.expose_secret()),
            Ok(Credential::Session(id)) => format!("session {id}"),
            Ok(Credential::Both(secret, id)) => format!("bearer {} and session {id}", secret.expose_secret()),
            Ok(Credential::Ticket(secret)) => format!("ticket {}", secret.expose_secret()),
            Ok(Credential::FirstPerson | Credential::Anonymous(_)) => unreachable!("no header says that"),
            Err(error) => error.detail().to_owned(),
        }
    }

    #[test]
    fn an_authorization_header_is_read_by_its_scheme() {
        for (value, wanted) in [
            ("Bearer svc_1", "bearer svc_1"),
            ("bEARER  svc_1 ", "bearer svc_1"),
            ("ShareTicket svc_share_1", "ticket svc_share_1"),
            ("Bearer ", "nothing"),
            ("Bearer", "nothing"),
            ("Basic svc_1", "nothing"),
            ("", "nothing"),
            ("Bearer sv\u{e9}", "nothing"),
            ("Bearer s\tv", "nothing"),
        ] {
            assert_eq!(read(Some(value), &[]), wanted, "{value:?}");
        }
        let twice = [&b"Bearer a"[..], b"Bearer a"];
        assert!(read_credential(twice.into_iter(), std::iter::empty(), None).is_err());
    }

    #[test]
    fn a_cookie_counts_only_with_its_signature() {
        let good = cookie(ID);
        let other = cookie(OTHER);
        let session = format!("session {ID}");
        let signature = good.rsplit('.').next().unwrap();
        let named = |value: &str| format!("svc_session={value}");
        for (cookies, wanted) in [
            (named(&good), session.as_str()),
            (format!("theme=dark; {} ; a=b", named(&good)), &session),
            (format!("{}; {}", named("junk"), named(&good)), &session),
            (format!("{}; {}", named(&good), named(&good)), &session),
            (format!("{}; {}", named(&good), named(&other)), "nothing"),
            (named(ID), "nothing"),
            (named(&format!("v1.{ID}")), "nothing"),
            (named(&format!("v1.{ID}.")), "nothing"),
            (named(&format!("v2.{ID}.{signature}")), "nothing"),
            (named(&format!("v1.{OTHER}.{signature}")), "nothing"),
            (named(&format!("{good}00")), "nothing"),
            (named(&good[..good.len() - 2]), "nothing"),
            (format!("SVC_SESSION={good}"), "nothing"),
        ] {
            assert_eq!(read(None, &[&cookies]), wanted, "{cookies}");
        }
        assert_eq!(read(Some("Bearer x"), &[&named(&good)]), format!("bearer x and session {ID}"));
        assert_eq!(read(Some("Bearer x"), &[&named(ID)]), "bearer x");
        assert_eq!(read(Some("Bearer x"), &[&named(&good), &named(&other)]), "bearer x");
        assert_eq!(read(Some("ShareTicket x"), &[&named(&good)]), "ticket x");
        let another = SessionKey::new(&SecretString::from("another key of thirty-two bytes!")).unwrap();
        assert_eq!(another.verify_cookie(&good), None, "signed by another service");
        let without_a_key = read_credential(std::iter::empty(), [named(&good).as_bytes()].into_iter(), None);
        assert!(without_a_key.unwrap().is_nothing());
    }

    /// Returns fragments of valid cookies and headers, from which the tests build hostile headers.
    fn pieces() -> Vec<String> {
        let good = cookie(ID);
        let signature = good.rsplit('.').next().unwrap().to_owned();
        let named = format!("; {SESSION_COOKIE}={good}");
        let known = [
            "svc_session=",
            "SVC_SESSION=",
            ";",
            "; ",
            "=",
            ".",
            "v1",
            "v1.",
            "v2.",
            ID,
            OTHER,
            "00",
            "\"",
            " ",
            "Bearer ",
            "bearer",
            "ShareTicket ",
            "Basic ",
            "svc_1",
            &signature,
            &good,
            &named,
            &named,
        ];
        known.map(str::to_owned).to_vec()
    }

    fn hostile() -> impl Strategy<Value = [Vec<u8>; 8]> {
        let pieces = pieces();
        strangers::sent(&pieces.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Returns the values of all session cookies in a Cookie header. This parser is independent of the tested
    /// one.
    fn values(cookies: &[u8]) -> Vec<String> {
        let Ok(text) = std::str::from_utf8(cookies) else { return Vec::new() };
        let mut values = Vec::new();
        for pair in text.split(';') {
            if let Some(at) = pair.find('=')
                && pair[..at].trim() == SESSION_COOKIE
            {
                values.push(pair[at + 1..].trim().to_owned());
            }
        }
        values
    }

    proptest! {
        #![proptest_config(strangers::inputs())]

        /// For any input, a session is returned only for the exact value that this key has signed.
        #[test]
        fn any_cookie_is_read_and_only_a_signed_one_counts(sent in hostile()) {
            let key = key();
            let signed = cookie(ID);
            for cookies in sent {
                let read = read_credential(std::iter::empty(), [cookies.as_slice()].into_iter(), Some(&key));
                let good = values(&cookies).contains(&signed);
                match read.unwrap() {
                    Credential::Session(session) => prop_assert!(good && session.to_string() == ID),
                    other => prop_assert!(!good && other.is_nothing()),
                }
            }
        }

        /// For any input, a returned secret is contained in the input, consists of visible ASCII, and has no
        /// surrounding spaces.
        #[test]
        fn any_authorization_is_read(sent in hostile()) {
            for value in sent {
                let read = read_credential([value.as_slice()].into_iter(), std::iter::empty(), None).unwrap();
                let text = String::from_utf8_lossy(&value).to_lowercase();
                match read {
                    Credential::Nothing => {}
                    Credential::Bearer(secret) => {
                        prop_assert!(text.starts_with("bearer "));
                        prop_assert!(!secret.expose_secret().is_empty());
                        prop_assert!(text.contains(&secret.expose_secret().to_lowercase()));
                    }
                    Credential::Ticket(secret) => {
                        prop_assert!(text.starts_with("shareticket "));
                        prop_assert_eq!(secret.expose_secret().trim(), secret.expose_secret());
                    }
                    other => prop_assert!(false, "{other:?}"),
                }
            }
        }
    }

    #[test]
    fn a_short_key_is_refused() {
        assert!(SessionKey::new(&SecretString::from("0123456789abcdef0123456789abcde")).is_err());
    }

    #[test]
    fn credentials_of_different_kinds_have_different_keys() {
        let [one, other] = [ID, OTHER].map(|id| SessionId::from(id.parse::<Uuid>().unwrap()));
        let keys = [
            CredentialKey::Token([1; 32]),
            CredentialKey::Token([2; 32]),
            CredentialKey::Ticket([1; 32]),
            CredentialKey::Session(one),
            CredentialKey::Session(other),
            CredentialKey::Both([1; 32], one),
            CredentialKey::Both([1; 32], other),
            CredentialKey::Both([2; 32], one),
            CredentialKey::FirstPerson,
            CredentialKey::Anonymous(WorkspaceId::from(one.uuid())),
            CredentialKey::Anonymous(WorkspaceId::from(other.uuid())),
        ];
        let mut cached: Vec<[u8; 32]> = keys.iter().map(CacheKey::cache_key).collect();
        cached.sort_unstable();
        cached.dedup();
        assert_eq!(cached.len(), keys.len());
    }
}
