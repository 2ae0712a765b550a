//! The configuration variables for web push: the key that identifies this service to push services, and a
//! contact.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::ExposeSecret as _;
use url::Url;
use web_push_native::p256::SecretKey;
use web_push_native::p256::elliptic_curve::sec1::ToEncodedPoint as _;
use web_push_native::p256::pkcs8::EncodePrivateKey as _;
use zeroize::Zeroizing;

use super::public_url::PublicUrl;
use super::reader::Reader;
use crate::error::{Error, Result};
use crate::mailbox::MailAddress;

/// The identity of this service to push services.
#[derive(Clone, Debug)]
pub struct PushConfig {
    /// The key pair that identifies this service to push services (`SVC_VAPID_PRIVATE_KEY`).
    pub key: Arc<VapidKey>,
    /// The contact for push services: `SVC_VAPID_SUBJECT`, or else `SVC_PUBLIC_URL` if that is https.
    pub subject: Option<String>,
}

/// A key pair on the curve P-256 (RFC 8292). Its `Debug` output contains only the public key.
pub struct VapidKey {
    secret: SecretKey,
    public: String,
}

impl VapidKey {
    /// Creates the key pair from a private key. Returns `None` if the bytes are not a valid key.
    pub fn new(private: &[u8; 32]) -> Option<Self> {
        let secret = SecretKey::from_slice(private).ok()?;
        let public = URL_SAFE_NO_PAD.encode(secret.public_key().to_encoded_point(false));
        Some(Self { secret, public })
    }

    /// Returns the public key, with which browsers subscribe, as an uncompressed point in base64url.
    pub fn public(&self) -> &str {
        &self.public
    }

    /// Returns the key pair as a PKCS#8 document.
    pub fn to_pkcs8(&self) -> Result<Zeroizing<Vec<u8>>> {
        let document = self.secret.to_pkcs8_der().map_err(|error| Error::internal(error.to_string()))?;
        Ok(document.to_bytes())
    }
}

impl PushConfig {
    /// Returns the reason why some push services, such as Apple's, reject the contact of this service.
    ///
    /// Returns `None` if the contact is on the internet.
    pub fn subject_problem(&self) -> Option<&'static str> {
        let Some(subject) = &self.subject else {
            return Some("there is no subject: set SVC_VAPID_SUBJECT, or SVC_PUBLIC_URL to an https address");
        };
        let host = match subject.split_once(':') {
            Some(("mailto", rest)) => mail_domain(rest).map(str::to_ascii_lowercase),
            _ => Url::parse(subject).ok().and_then(|url| url.host_str().map(str::to_owned)),
        };
        let host = host.unwrap_or_default();
        let (_, last) = host.trim_end_matches('.').rsplit_once('.').unwrap_or(("", "localhost"));
        // If the last label is a number, the host is an IPv4 address. IPv6 addresses are in brackets.
        let is_public = last.starts_with(|c: char| c.is_ascii_alphabetic())
            && !host.ends_with(']')
            && !matches!(last, "localhost" | "local");
        (!is_public).then_some("its host is not one of the internet: set SVC_VAPID_SUBJECT to one that is")
    }
}

/// Returns the domain of the email address in a `mailto:` URL, if the address is valid.
fn mail_domain(rest: &str) -> Option<&str> {
    let (address, _) = rest.split_once('?').unwrap_or((rest, ""));
    // An email address may begin with a slash, but after `mailto:` this is a mistyped URL.
    MailAddress::parse(address).filter(|_| !address.starts_with('/'))?;
    address.rsplit_once('@').map(|(_, domain)| domain)
}

/// Returns whether `subject` is the URL of a contact: an email address or a page (RFC 8292, 2.1).
fn is_contact_url(subject: &str) -> bool {
    match subject.split_once(':') {
        Some(("mailto", rest)) => mail_domain(rest).is_some(),
        Some(("https", rest)) => {
            let has_no_credentials = |url: Url| url.username().is_empty() && url.password().is_none();
            rest.starts_with("//") && Url::parse(subject).is_ok_and(has_no_credentials)
        }
        _ => false,
    }
}

impl fmt::Debug for VapidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VapidKey({})", self.public)
    }
}

impl Reader {
    /// Returns the identity of this service to push services, or `None` without a key.
    pub(super) fn push(&mut self, public_url: Option<&PublicUrl>) -> Option<PushConfig> {
        const KEY: &str = "SVC_VAPID_PRIVATE_KEY";
        let subject = self.vapid_subject();
        let private = self.key(KEY)?;
        let key = VapidKey::new(private.expose_secret());
        if key.is_none() {
            self.reject(&format!("{KEY}: there is no such key on the curve P-256"));
        }
        let public = public_url.map(PublicUrl::to_string).filter(|url| url.starts_with("https://"));
        Some(PushConfig { key: Arc::new(key?), subject: subject.or(public) })
    }

    fn vapid_subject(&mut self) -> Option<String> {
        const NAME: &str = "SVC_VAPID_SUBJECT";
        let subject = self.text(NAME);
        if subject.is_empty() {
            return None;
        }
        let is_plain = subject.chars().all(|c| c.is_ascii_graphic());
        if !is_plain || !is_contact_url(&subject) {
            self.reject(&format!("{NAME}: expected mailto:ADDRESS or https://PAGE, found \"{subject}\""));
        }
        Some(subject)
    }

    /// Returns whether requests may go to private addresses and use http.
    pub(super) fn private_egress(&mut self, production: bool) -> bool {
        const NAME: &str = "SVC_ALLOW_PRIVATE_EGRESS";
        let is_set = self.flag(NAME);
        if is_set && production {
            self.reject_in_production(NAME);
        }
        is_set
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    /// The private key in RFC 6979, A.2.5, and its public key.
    const PRIVATE: &str = "c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721";
    const PUBLIC: &str =
        "BGD-1LolWp0xyWHrdMY1bWjASbiSO2H6bOZpYi5g8p-2eQP-EAi4vJmkGunpVii8ZPLxsgwtfp9Rd6PClNRGIpk";

    fn read(vars: &[(&str, &str)]) -> Result<Config, String> {
        let dir = tempfile::tempdir().unwrap();
        let vars = vars.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::read(vars, dir.path()).map_err(|error| error.detail().to_owned())
    }

    #[test]
    fn push_services_know_the_service_by_its_key_and_whom_to_ask() {
        assert!(read(&[("SVC_VAPID_SUBJECT", "mailto:ops@svc.example")]).unwrap().push.is_none());
        let key = ("SVC_VAPID_PRIVATE_KEY", PRIVATE);
        let subject = |vars: &[(&str, &str)]| {
            let config = read(&[&[key], vars].concat()).unwrap();
            assert!(!format!("{config:?}").contains("c9afa9"));
            let push = config.push.unwrap();
            assert_eq!(push.key.public(), PUBLIC);
            push.subject
        };
        let https = ("SVC_PUBLIC_URL", "https://svc.example");
        let http = ("SVC_PUBLIC_URL", "http://here");
        assert_eq!(subject(&[]), None);
        assert_eq!(subject(&[http]), None);
        assert_eq!(subject(&[https]).as_deref(), Some("https://svc.example"));
        let named = ("SVC_VAPID_SUBJECT", "mailto:ops@svc.example");
        assert_eq!(subject(&[https, named]).as_deref(), Some("mailto:ops@svc.example"));
    }

    #[test]
    fn what_is_no_key_or_nobody_to_ask_is_rejected() {
        let nothing = "0".repeat(64);
        let beyond = "f".repeat(64);
        for (name, value, why) in [
            ("SVC_VAPID_PRIVATE_KEY", &*nothing, "no such key on the curve"),
            ("SVC_VAPID_PRIVATE_KEY", &beyond, "no such key on the curve"),
            ("SVC_VAPID_PRIVATE_KEY", "abc", "expected 32 bytes"),
            ("SVC_VAPID_SUBJECT", "ops@svc.example", "expected mailto:"),
            ("SVC_VAPID_SUBJECT", "mailto:ops", "expected mailto:"),
            ("SVC_VAPID_SUBJECT", "http://svc.example", "expected mailto:"),
            ("SVC_VAPID_SUBJECT", "mailto:a b@svc.example", "expected mailto:"),
            ("SVC_VAPID_SUBJECT", "mailto: ops@svc.example", "expected mailto:"),
            ("SVC_VAPID_SUBJECT", "mailto:", "expected mailto:"),
            ("SVC_VAPID_SUBJECT", "mailto:@svc.example", "expected mailto:"),
            ("SVC_VAPID_SUBJECT", "mailto:ops@", "expected mailto:"),
            ("SVC_VAPID_SUBJECT", "mailto:a@b@svc.example", "expected mailto:"),
            ("SVC_VAPID_SUBJECT", "mailto:<ops@svc.example>", "expected mailto:"),
            ("SVC_VAPID_SUBJECT", "mailto://ops@svc.example", "expected mailto:"),
            ("SVC_VAPID_SUBJECT", "https:svc.example", "expected mailto:"),
            ("SVC_VAPID_SUBJECT", "https://", "expected mailto:"),
            ("SVC_VAPID_SUBJECT", "https://svc example", "expected mailto:"),
            ("SVC_VAPID_SUBJECT", "https://ada:secret@svc.example", "expected mailto:"),
            ("SVC_VAPID_SUBJECT", "https://[::1", "expected mailto:"),
            ("SVC_VAPID_SUBJECT", "svc.example", "expected mailto:"),
            ("SVC_VAPID_SUBJECT", "tel:+1", "expected mailto:"),
        ] {
            let refusal = read(&[(name, value)]).unwrap_err();
            assert!(refusal.contains(name) && refusal.contains(why), "{refusal}");
        }
    }

    #[test]
    fn a_subject_that_some_push_services_refuse_is_known() {
        let key = ("SVC_VAPID_PRIVATE_KEY", PRIVATE);
        for (name, value, is_refused) in [
            ("SVC_VAPID_SUBJECT", "mailto:ops@svc.example.com", false),
            ("SVC_VAPID_SUBJECT", "mailto:ops@SVC.Example.COM?subject=push", false),
            ("SVC_VAPID_SUBJECT", "https://svc.example.com", false),
            ("SVC_VAPID_SUBJECT", "https://svc.example.com:8443/contact", false),
            ("SVC_VAPID_SUBJECT", "https://localhost.example.com/", false),
            ("SVC_VAPID_SUBJECT", "https://local.example.com/", false),
            ("SVC_PUBLIC_URL", "https://svc.example.com/team", false),
            ("SVC_VAPID_SUBJECT", "mailto:root@localhost", true),
            ("SVC_VAPID_SUBJECT", "mailto:root@LOCALHOST", true),
            ("SVC_VAPID_SUBJECT", "mailto:root@printer.local", true),
            ("SVC_VAPID_SUBJECT", "mailto:root@svc.localhost", true),
            ("SVC_VAPID_SUBJECT", "mailto:root@mail", true),
            ("SVC_VAPID_SUBJECT", "https://localhost", true),
            ("SVC_VAPID_SUBJECT", "https://localhost:8443/contact", true),
            ("SVC_VAPID_SUBJECT", "https://svc.localhost", true),
            ("SVC_VAPID_SUBJECT", "https://Svc.Local/", true),
            ("SVC_VAPID_SUBJECT", "https://svc.local./", true),
            ("SVC_VAPID_SUBJECT", "https://127.0.0.1/", true),
            ("SVC_VAPID_SUBJECT", "https://[2001:db8::1]/", true),
            ("SVC_VAPID_SUBJECT", "https://svc/", true),
            ("SVC_PUBLIC_URL", "https://localhost:8443", true),
            ("SVC_PUBLIC_URL", "http://svc.example.com", true),
        ] {
            let problem = read(&[key, (name, value)]).unwrap().push.unwrap().subject_problem();
            assert_eq!(problem.is_some(), is_refused, "{name}={value}: {problem:?}");
        }
    }

    #[test]
    fn private_addresses_are_for_development() {
        let open = ("SVC_ALLOW_PRIVATE_EGRESS", "1");
        assert!(!read(&[]).unwrap().egress.is_open && read(&[open]).unwrap().egress.is_open);
        let refusal = read(&[open, ("SVC_ENV", "production")]).unwrap_err();
        assert!(refusal.contains("SVC_ALLOW_PRIVATE_EGRESS is not allowed while"), "{refusal}");
    }
}
