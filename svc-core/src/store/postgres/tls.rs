//! TLS with the server, in the words of libpq: `sslmode`, `sslrootcert`, `sslcert` and `sslkey` of the
//! address mean what they mean there (PostgreSQL manual, section 34.19).
//!
//! The mode is `prefer` unless it is given, and `verify-full` with `sslrootcert=system`. `allow` is taken as
//! `prefer`: it connects wherever `allow` would, and with TLS wherever the server has that. The default
//! files of libpq in the home folder are not read, nor are revocation lists. Certificates and keys are PEM
//! files, read once when a program starts.

use std::net::IpAddr;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use secrecy::{ExposeSecret, SecretString};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::error::{Error, Result};

/// How a server must prove who it is, and how its client does.
#[derive(Clone, Debug, Default)]
pub(super) struct Proof {
    mode: Option<Mode>,
    /// `sslrootcert`: a file, or the word `system`.
    roots: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
}

/// An `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Disable,
    /// TLS if the server has it, whoever it is.
    Prefer,
    /// TLS, with whoever it is; with `sslrootcert` the same as `verify-ca`.
    Require,
    /// TLS with a server whose certificate one of the roots has signed.
    VerifyCa,
    /// The same, and the certificate names the host.
    VerifyFull,
}

/// The value of `sslrootcert` that stands for the roots which the system trusts.
const SYSTEM: &str = "system";

/// Splits an address into what it says of TLS and the rest.
pub(super) fn of_address(url: &str) -> Result<(SecretString, Proof)> {
    let mut proof = Proof::default();
    // A password may have a question mark, and ends at the first `@`.
    let host = url.find('@').unwrap_or(0);
    let Some((before, query)) = url.get(host..).and_then(|rest| rest.split_once('?')) else {
        return Ok((url.into(), proof));
    };
    let mut rest: Vec<&str> = Vec::new();
    for field in query.split('&') {
        if !proof.take(field)? {
            rest.push(field);
        }
    }
    proof.check()?;
    let address = [url.get(..host).unwrap_or_default(), before, "?", &rest.join("&")].concat();
    Ok((address.trim_end_matches('?').into(), proof))
}

/// Whether an address names a host that is not this machine, and does not say how to connect to it.
pub(crate) fn says_nothing_of_tls(url: &SecretString) -> bool {
    let Ok((address, proof)) = of_address(url.expose_secret()) else { return false };
    let Ok(config) = address.expose_secret().parse::<tokio_postgres::Config>() else { return false };
    let by_address = config.get_hostaddrs().iter().any(|address| !address.is_loopback());
    let by_name = config.get_hosts().iter().any(is_remote);
    // A file of roots alone proves nothing: the mode is still `prefer`.
    proof.mode.is_none() && !proof.trusts_system() && (by_address || by_name)
}

fn is_remote(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => match name.parse::<IpAddr>() {
            Ok(address) => !address.is_loopback(),
            Err(_) => name != "localhost",
        },
        Host::Unix(_) => false,
    }
}

impl Proof {
    /// Takes a field of the address's query if it is about TLS.
    fn take(&mut self, field: &str) -> Result<bool> {
        let (name, value) = field.split_once('=').unwrap_or((field, ""));
        if !matches!(name, "sslmode" | "sslrootcert" | "sslcert" | "sslkey") {
            return Ok(false);
        }
        let value = percent_decode_str(value).decode_utf8();
        let value = value.map_err(|_| refused(format!("{name} is not UTF-8")))?.into_owned();
        match name {
            "sslmode" => self.mode = Some(Mode::named(&value)?),
            "sslrootcert" => self.roots = Some(value),
            "sslcert" => self.certificate = Some(value),
            _ => self.key = Some(value),
        }
        Ok(true)
    }

    fn check(&self) -> Result<()> {
        let needs_roots = matches!(self.mode, Some(Mode::VerifyCa | Mode::VerifyFull));
        if needs_roots && self.roots.is_none() {
            return Err(refused(
                "to verify the server it needs sslrootcert: a PEM file, or `system` for what this machine \
                 trusts",
            ));
        }
        if self.trusts_system() && !matches!(self.mode, None | Some(Mode::VerifyFull)) {
            return Err(refused(
                "sslrootcert=system proves nothing unless sslmode is verify-full: anybody can have a \
                 certificate of theirs signed",
            ));
        }
        if self.certificate.is_some() != self.key.is_some() {
            return Err(refused("sslcert and sslkey need each other"));
        }
        Ok(())
    }

    fn trusts_system(&self) -> bool {
        self.roots.as_deref() == Some(SYSTEM)
    }

    fn effective(&self) -> Mode {
        match (self.mode, &self.roots) {
            (None, Some(_)) if self.trusts_system() => Mode::VerifyFull,
            (None, _) => Mode::Prefer,
            (Some(Mode::Require), Some(_)) => Mode::VerifyCa,
            (Some(mode), _) => mode,
        }
    }

    /// Returns whether the driver asks the server for TLS, and insists.
    pub fn mode(&self) -> SslMode {
        match self.effective() {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        }
    }

    /// Returns what makes connections with TLS.
    pub fn connector(&self) -> Result<MakeRustlsConnect> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(Error::internal)?;
        let verifier: Arc<dyn ServerCertVerifier> = match self.effective() {
            Mode::Disable | Mode::Prefer | Mode::Require => Arc::new(AnyName { provider, signed: None }),
            Mode::VerifyCa => {
                let signed = Some(self.verifier(Arc::clone(&provider))?);
                Arc::new(AnyName { provider, signed })
            }
            Mode::VerifyFull => self.verifier(provider)?,
        };
        let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
        let config = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                let chain = certificates("sslcert", certificate)?;
                let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable("sslkey", error))?;
                builder.with_client_auth_cert(chain, key).map_err(|error| unreadable("sslkey", error))?
            }
            _ => builder.with_no_client_auth(),
        };
        Ok(MakeRustlsConnect::new(config))
    }

    fn verifier(&self, provider: Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>> {
        let mut roots = RootCertStore::empty();
        match self.roots.as_deref() {
            Some(SYSTEM) => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
            Some(file) => {
                for certificate in certificates("sslrootcert", file)? {
                    roots.add(certificate).map_err(|error| unreadable("sslrootcert", error))?;
                }
            }
            None => {}
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        verifier.build().map_err(|error| unreadable("sslrootcert", error))
    }
}

impl Mode {
    fn named(word: &str) -> Result<Self> {
        Ok(match word {
            "disable" => Self::Disable,
            "allow" | "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            // The word is not repeated: what stands there may be a password.
            _ => {
                return Err(refused(
                    "sslmode is none of disable, allow, prefer, require, verify-ca and verify-full",
                ));
            }
        })
    }
}

fn certificates(name: &str, file: &str) -> Result<Vec<CertificateDer<'static>>> {
    let found: std::result::Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
    let found = found.map_err(|error| unreadable(name, error))?;
    if found.is_empty() { Err(refused(format!("{name} has no certificate"))) } else { Ok(found) }
}

fn refused(why: impl std::fmt::Display) -> Error {
    Error::configuration(format!("DATABASE_URL: {why}"))
}

fn unreadable(name: &str, error: impl std::fmt::Display) -> Error {
    refused(format!("{name} cannot be used: {error}"))
}

/// Proves that a server has the key of its certificate, whatever host that names.
#[derive(Debug)]
struct AnyName {
    provider: Arc<CryptoProvider>,
    /// Proves who has signed the certificate, unless anybody may have.
    signed: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let Some(signed) = &self.signed else { return Ok(ServerCertVerified::assertion()) };
        match signed.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // The name is compared last, when the chain has been verified.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(url: &str) -> (String, Proof) {
        let (address, proof) = of_address(url).unwrap();
        (address.expose_secret().to_owned(), proof)
    }

    #[test]
    fn what_an_address_says_of_tls_is_taken_out_of_it() {
        let cases = [
            ("postgres://a@h/d", "postgres://a@h/d", Mode::Prefer),
            ("postgres://a@h/d?sslmode=disable", "postgres://a@h/d", Mode::Disable),
            ("postgres://a:p?w@h/d?x=1&sslmode=require&y=2", "postgres://a:p?w@h/d?x=1&y=2", Mode::Require),
            ("postgres://h/d?sslmode=verify-ca&sslrootcert=%2Fa%20b", "postgres://h/d", Mode::VerifyCa),
            ("postgres://h/d?sslmode=require&sslrootcert=/ca", "postgres://h/d", Mode::VerifyCa),
            ("postgres://h/d?sslrootcert=system", "postgres://h/d", Mode::VerifyFull),
            ("postgres://h/d?sslrootcert=/ca", "postgres://h/d", Mode::Prefer),
            ("postgres://h/d?sslmode=allow", "postgres://h/d", Mode::Prefer),
        ];
        for (url, address, mode) in cases {
            let (left, proof) = split(url);
            assert_eq!((left.as_str(), proof.effective()), (address, mode), "{url}");
        }
        assert_eq!(split("postgres://h/d?sslrootcert=%2Fa%20b").1.roots.unwrap(), "/a b");
    }

    #[test]
    fn an_address_that_would_prove_less_than_it_says_is_refused() {
        for (query, why) in [
            ("sslmode=verify-full", "needs sslrootcert"),
            ("sslmode=verify-ca", "needs sslrootcert"),
            ("sslmode=require&sslrootcert=system", "proves nothing"),
            ("sslmode=verify-ca&sslrootcert=system", "proves nothing"),
            ("sslmode=", "none of disable"),
            ("sslmode=VERIFY-FULL", "none of disable"),
            ("sslcert=/c", "need each other"),
            ("sslkey=/k", "need each other"),
            ("sslrootcert=%FF", "not UTF-8"),
        ] {
            let error = of_address(&format!("postgres://a:secret@h/d?{query}")).unwrap_err();
            assert!(error.detail().contains(why), "{query}: {}", error.detail());
            assert!(!error.detail().contains("secret"));
        }
    }

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "no certificate").unwrap();
        let missing = folder.path().join("missing.pem");
        for file in [&empty, &missing] {
            let file = file.display();
            let query = format!("postgres://h/d?sslmode=verify-full&sslrootcert={file}");
            let error = split(&query).1.connector().err().unwrap();
            assert!(error.detail().contains("sslrootcert"), "{}", error.detail());
            let query = format!("postgres://h/d?sslcert={file}&sslkey={file}");
            assert!(split(&query).1.connector().err().unwrap().detail().contains("sslcert"));
        }
    }

    #[test]
    fn only_an_address_of_this_machine_may_say_nothing() {
        let nothing = |url: &str| says_nothing_of_tls(&SecretString::from(url));
        for here in [
            "postgres://svc@localhost/svc",
            "postgres://svc@127.0.0.1:5433/svc",
            "postgres://svc@[::1]/svc",
            "postgres://svc@%2Fvar%2Frun%2Fpostgresql/svc",
        ] {
            assert!(!nothing(here), "{here}");
        }
        for remote in
            ["postgres://svc@db/svc", "postgres://svc@10.0.0.1/svc", "postgres://svc@127.0.0.1,db/svc"]
        {
            assert!(nothing(remote), "{remote}");
            assert!(nothing(&format!("{remote}?sslrootcert=/ca")), "nobody compares with that file");
            assert!(!nothing(&format!("{remote}?sslmode=disable")), "it says so");
            assert!(!nothing(&format!("{remote}?sslrootcert=system")), "that is verify-full");
        }
    }
}
