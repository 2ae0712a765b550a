//! Checks server certificates as OpenSSL does for libpq, including those that webpki does not accept.
//!
//! Such certificates are certificates of version 1, which `openssl x509 -req` creates without extensions, and
//! certificates of an authority (`CA:TRUE`), which `openssl req -x509` creates and the PostgreSQL manual uses
//! for servers. They are accepted if they are among the roots, or if a root has issued them: only webpki
//! checks chains. Certificates with critical extensions that this module does not know, such as name
//! constraints, are rejected here.

use std::net::IpAddr;

use rustls::CertificateError;
use rustls::pki_types::{SignatureVerificationAlgorithm, UnixTime};
use x509_cert::certificate::Version;
use x509_cert::der::asn1::ObjectIdentifier;
use x509_cert::der::oid::AssociatedOid;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, KeyUsage, NameConstraints, SubjectAltName};

/// The key purpose of a server certificate (RFC 5280, section 4.2.1.12).
const SERVER_AUTH: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1");
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");
const POLICIES: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.29.32");

/// Maximum number of roots that are tried as the issuer of a certificate.
const ROOTS_MAX: usize = 1_000;

type Algorithms = &'static [&'static dyn SignatureVerificationAlgorithm];

/// A parsed server or root certificate.
#[derive(Clone, Debug)]
pub(super) struct Certificate {
    der: Vec<u8>,
    parsed: x509_cert::Certificate,
    /// The bytes of the certificate that its issuer has signed.
    signed_bytes: Vec<u8>,
}

/// The host that a certificate must be valid for.
#[derive(Clone, Debug)]
pub(super) enum Host {
    Name(String),
    Address(IpAddr),
}

impl Certificate {
    pub fn parse(der: &[u8]) -> Option<Self> {
        let parsed = x509_cert::Certificate::from_der(der).ok()?;
        let signed_bytes = parsed.tbs_certificate.to_der().ok()?;
        Some(Self { der: der.to_vec(), parsed, signed_bytes })
    }

    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Returns whether the subject of the certificate is also its issuer, as in a root certificate.
    pub fn is_self_issued(&self) -> bool {
        self.parsed.tbs_certificate.subject == self.parsed.tbs_certificate.issuer
    }

    /// Returns the public key of the certificate, encoded with its algorithm as DER.
    pub fn public_key_der(&self) -> Option<Vec<u8>> {
        self.parsed.tbs_certificate.subject_public_key_info.to_der().ok()
    }

    pub fn check_time(&self, now: UnixTime) -> Result<(), CertificateError> {
        let validity = &self.parsed.tbs_certificate.validity;
        let [begin, end] = [validity.not_before, validity.not_after]
            .map(|time| UnixTime::since_unix_epoch(time.to_unix_duration()));
        if now < begin {
            return Err(CertificateError::NotValidYetContext { time: now, not_before: begin });
        }
        if now > end {
            return Err(CertificateError::ExpiredContext { time: now, not_after: end });
        }
        Ok(())
    }

    /// Checks that the declared purposes of the certificate permit its use for a TLS server.
    pub fn check_purpose(&self) -> Result<(), CertificateError> {
        let usage = self.extension::<KeyUsage>()?;
        let serves =
            |usage: &KeyUsage| usage.digital_signature() || usage.key_encipherment() || usage.key_agreement();
        if usage.is_some_and(|usage| !serves(&usage)) || !self.permits_server_auth()? {
            return Err(CertificateError::InvalidPurpose);
        }
        Ok(())
    }

    /// Returns whether the key of this certificate has signed `message` with `signature`, by one of the
    /// algorithms.
    pub fn has_signed<'a>(
        &self,
        algorithms: impl IntoIterator<Item = &'a &'static dyn SignatureVerificationAlgorithm>,
        message: &[u8],
        signature: &[u8],
    ) -> bool {
        let key = &self.parsed.tbs_certificate.subject_public_key_info;
        let (Some(bits), Ok(kind)) = (key.subject_public_key.as_bytes(), key.algorithm.to_der()) else {
            return false;
        };
        algorithms.into_iter().any(|algorithm| {
            Some(&*algorithm.public_key_alg_id()) == sequence_content(&kind)
                && algorithm.verify_signature(bits, message, signature).is_ok()
        })
    }

    /// Checks that the certificate is one of the roots, or that one of the roots has issued it.
    pub fn check_issuer(
        &self,
        roots: &[Self],
        algorithms: Algorithms,
        now: UnixTime,
    ) -> Result<(), CertificateError> {
        self.check_time(now)?;
        self.check_extensions()?;
        if roots.iter().any(|root| root.der == self.der) {
            return Ok(());
        }
        let issuer = roots.iter().take(ROOTS_MAX).find(|root| root.has_issued(self, algorithms));
        let issuer = issuer.ok_or(CertificateError::UnknownIssuer)?;
        issuer.check_time(now)?;
        issuer.check_extensions()
    }

    fn has_issued(&self, other: &Self, algorithms: Algorithms) -> bool {
        let is_named = self.parsed.tbs_certificate.subject == other.parsed.tbs_certificate.issuer;
        if !is_named || !self.is_authority() || !matches!(self.extension::<NameConstraints>(), Ok(None)) {
            return false;
        }
        let (Some(signature), Ok(kind)) =
            (other.parsed.signature.as_bytes(), other.parsed.signature_algorithm.to_der())
        else {
            return false;
        };
        let named =
            algorithms.iter().filter(|known| Some(&*known.signature_alg_id()) == sequence_content(&kind));
        self.has_signed(named, &other.signed_bytes, signature)
    }

    /// Returns whether the certificate may issue server certificates. Name constraints are ignored here.
    pub fn is_authority(&self) -> bool {
        let usage = self.extension::<KeyUsage>();
        let is_authority = match self.extension::<BasicConstraints>() {
            Ok(Some(found)) => found.ca,
            // Without basic constraints: a version 1 root, or a root whose key usage is limited.
            Ok(None) => {
                let is_first_version = self.parsed.tbs_certificate.version == Version::V1;
                self.is_self_issued() && (is_first_version || matches!(usage, Ok(Some(_))))
            }
            Err(_) => false,
        };
        is_authority
            && usage.is_ok_and(|usage| usage.is_none_or(|usage| usage.key_cert_sign()))
            && self.permits_server_auth() == Ok(true)
    }

    fn permits_server_auth(&self) -> Result<bool, CertificateError> {
        Ok(self.extension::<ExtendedKeyUsage>()?.is_none_or(|found| found.0.contains(&SERVER_AUTH)))
    }

    /// Fails if the certificate has a critical extension that this module does not know.
    fn check_extensions(&self) -> Result<(), CertificateError> {
        let known =
            [BasicConstraints::OID, KeyUsage::OID, ExtendedKeyUsage::OID, SubjectAltName::OID, POLICIES];
        let mut all = self.parsed.tbs_certificate.extensions.iter().flatten();
        match all.any(|extension| extension.critical && !known.contains(&extension.extn_id)) {
            true => Err(CertificateError::UnhandledCriticalExtension),
            false => Ok(()),
        }
    }

    fn extension<'c, T: Decode<'c> + AssociatedOid>(&'c self) -> Result<Option<T>, CertificateError> {
        let found = self.parsed.tbs_certificate.get::<T>().map_err(|_| CertificateError::BadEncoding)?;
        Ok(found.map(|(_, extension)| extension))
    }

    /// Returns whether the certificate is valid for a host, compared as in libpq.
    ///
    /// The alternative names of the host's kind are compared if there are any, otherwise the common name.
    pub fn is_valid_for(&self, host: &Host) -> Result<bool, CertificateError> {
        let alternatives = self.extension::<SubjectAltName>()?.map(|found| found.0).unwrap_or_default();
        let text = match host {
            Host::Name(name) => name.clone(),
            Host::Address(address) => address.to_string(),
        };
        let mut is_named_elsewhere = false;
        for alternative in &alternatives {
            let is_same = match alternative {
                GeneralName::DnsName(name) => {
                    is_named_elsewhere |= matches!(host, Host::Name(_));
                    matches_host(name.as_str(), &text)
                }
                GeneralName::IpAddress(bytes) => {
                    is_named_elsewhere |= matches!(host, Host::Address(_));
                    matches!(host, Host::Address(address) if matches_address(bytes.as_bytes(), *address))
                }
                _ => false,
            };
            if is_same {
                return Ok(true);
            }
        }
        Ok(!is_named_elsewhere && self.common_name().is_some_and(|name| matches_host(name, &text)))
    }

    /// Returns the host names and addresses in the certificate, for an error message.
    pub fn presented_names(&self) -> Vec<String> {
        let alternatives = self.extension::<SubjectAltName>().ok().flatten();
        let alternatives = alternatives.map(|found| found.0).unwrap_or_default();
        let named = alternatives.iter().filter_map(|name| match name {
            GeneralName::DnsName(name) => Some(name.as_str().to_owned()),
            GeneralName::IpAddress(bytes) => Some(hex::encode(bytes.as_bytes())),
            _ => None,
        });
        named.chain(self.common_name().map(str::to_owned)).collect()
    }

    fn common_name(&self) -> Option<&str> {
        let parts = self.parsed.tbs_certificate.subject.0.iter().flat_map(|part| part.0.iter());
        let name = parts.filter(|part| part.oid == COMMON_NAME).map(|part| part.value.value()).next()?;
        std::str::from_utf8(name).ok()
    }
}

/// Returns the contents of a DER sequence with a length of one byte, or `None` for other bytes.
fn sequence_content(der: &[u8]) -> Option<&[u8]> {
    match der {
        [0x30, len, rest @ ..] if usize::from(*len) == rest.len() => Some(rest),
        _ => None,
    }
}

/// Returns whether a name in a certificate matches a host name. The name may have `*` as its first label.
fn matches_host(name: &str, host: &str) -> bool {
    if name.eq_ignore_ascii_case(host) {
        return true;
    }
    let Some(domain) = name.strip_prefix("*.").filter(|domain| !domain.is_empty()) else { return false };
    host.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && rest.eq_ignore_ascii_case(domain))
}

fn matches_address(bytes: &[u8], address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => bytes == address.octets(),
        IpAddr::V6(address) => bytes == address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_one_label() {
        for (name, host, same) in [
            ("db.example", "DB.Example", true),
            ("*.example", "db.example", true),
            ("*.example", "a.db.example", false),
            ("*.example", "example", false),
            ("*.", "db.", false),
            ("*", "db", false),
            ("d*.example", "db.example", false),
            ("*.example", ".example", false),
        ] {
            assert_eq!(matches_host(name, host), same, "{name} {host}");
        }
    }
}
