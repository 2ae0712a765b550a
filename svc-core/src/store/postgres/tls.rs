//! TLS connections to the Postgres server, whose certificate is checked as in libpq.
//!
//! webpki checks the certificate first. [`Certificate`] checks certificates that only OpenSSL accepts for a
//! server; names are always compared as in libpq. As with OpenSSL, a chain ends at a self-issued certificate,
//! and every certificate in it must be valid at the time. The default files of libpq in the home folder are
//! not read. Certificates and keys are PEM files, read once when a program starts.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls13_signature_with_raw_key};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::version::{TLS12, TLS13};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::certificate::{Certificate, Host};
use crate::config::{TlsVerification, TlsVersionLimit, TrustedRoots};
use crate::error::blocked::{Need, describe_denial, quoted};
use crate::error::{Error, Result};
use crate::mark::strip_byte_order_mark_bytes;

/// Returns the TLS connector for the settings of a URL.
pub(super) fn tls_connector(proof: &TlsVerification) -> Result<MakeRustlsConnect> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let versions = match proof.tls13 {
        None => vec![&TLS12, &TLS13],
        Some(TlsVersionLimit::Only) => vec![&TLS13],
        Some(TlsVersionLimit::Never) => vec![&TLS12],
    };
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(&versions).map_err(Error::internal)?;
    let trusted = proof.roots().map(TrustedCertificates::read).transpose()?;
    let verifier = ServerVerifier { algorithms, trusted, checks_name: proof.verifies_host_name() };
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match &proof.client {
        Some((certificate, key)) => {
            let chain = read_certificates("sslcert", certificate)?;
            let key = read_private_key(key)?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| config_error(format!("sslcert and sslkey do not match: {error}")))?
        }
        None => builder.with_no_client_auth(),
    };
    config.enable_sni = !proof.omits_sni;
    if proof.direct {
        config.alpn_protocols = vec![b"postgresql".to_vec()];
    }
    Ok(MakeRustlsConnect::new(config))
}

fn read_certificates(name: &str, file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let text = read_file(name, file)?;
    let text = strip_byte_order_mark_bytes(&text);
    let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let found = found.map_err(|error| unusable_file_error(name, file, error))?;
    if found.is_empty() {
        Err(unusable_file_error(name, file, "it has no certificate in PEM"))
    } else {
        Ok(found)
    }
}

fn read_private_key(file: &Path) -> Result<PrivateKeyDer<'static>> {
    const NAME: &str = "sslkey";
    let text = zeroize::Zeroizing::new(read_file(NAME, file)?);
    PrivateKeyDer::from_pem_slice(strip_byte_order_mark_bytes(&text)).map_err(|error| {
        let is_encrypted = String::from_utf8_lossy(&text).contains("ENCRYPTED");
        let why = match error {
            _ if is_encrypted => {
                let file = quoted(file);
                format!("it is encrypted: decrypt it with `openssl pkey -in {file} -out FILE`")
            }
            pem::Error::NoItemsFound => "it has no key in PEM".to_owned(),
            error => error.to_string(),
        };
        unusable_file_error(NAME, file, why)
    })
}

fn read_file(name: &str, file: &Path) -> Result<Vec<u8>> {
    std::fs::read(file)
        .map_err(|error| config_error(format!("{name}: {}", describe_denial(Need::Read, file, &error))))
}

fn unusable_file_error(name: &str, file: &Path, error: impl std::fmt::Display) -> Error {
    config_error(format!("{name}: {} cannot be used: {error}", file.display()))
}

fn config_error(why: impl std::fmt::Display) -> Error {
    Error::configuration(format!("DATABASE_URL: {why}"))
}

/// The roots that may issue the certificates of servers, and other certificates from the same file.
#[derive(Debug)]
struct TrustedCertificates {
    roots: Vec<Certificate>,
    /// Other certificates in the file, which are trusted only if they lead to a root.
    intermediates: Vec<Certificate>,
}

impl TrustedCertificates {
    fn read(source: &TrustedRoots) -> Result<Self> {
        let parsed = match source {
            TrustedRoots::System => {
                let found = rustls_native_certs::load_native_certs().certs;
                let parsed: Vec<_> = found.iter().filter_map(|found| Certificate::parse(found)).collect();
                if parsed.is_empty() {
                    return Err(config_error(
                        "sslrootcert=system: this machine has no certificates of authorities: install them \
                         (Debian and Alpine: ca-certificates), or name a file",
                    ));
                }
                parsed
            }
            TrustedRoots::File(file) => {
                let found = read_certificates("sslrootcert", file)?;
                let parsed = found.iter().map(|found| Certificate::parse(found)).collect::<Option<Vec<_>>>();
                parsed.ok_or_else(|| {
                    unusable_file_error("sslrootcert", file, "a certificate in it is damaged")
                })?
            }
        };
        let (roots, intermediates) = parsed.into_iter().partition(Certificate::is_self_issued);
        Ok(Self { roots, intermediates })
    }

    /// Checks that the certificate of a server leads to a root.
    fn check(
        &self,
        leaf: &Certificate,
        sent: &[CertificateDer<'_>],
        algorithms: &WebPkiSupportedAlgorithms,
        now: UnixTime,
    ) -> std::result::Result<(), rustls::Error> {
        let mut anchors = RootCertStore::empty();
        let valid = self.roots.iter().filter(|root| root.check_time(now).is_ok() && root.is_authority());
        anchors.add_parsable_certificates(valid.map(|root| CertificateDer::from(root.der())));
        let own = self.intermediates.iter().map(|certificate| CertificateDer::from(certificate.der()));
        let intermediates: Vec<CertificateDer<'_>> = sent.iter().cloned().chain(own).collect();
        let der = CertificateDer::from(leaf.der());
        let result = ParsedCertificate::try_from(&der).and_then(|parsed| {
            verify_server_cert_signed_by_trust_anchor(&parsed, &anchors, &intermediates, now, algorithms.all)
        });
        let Err(webpki_error) = result else { return Ok(()) };
        leaf.check_issuer(&self.roots, algorithms.all, now).map_err(|error| match error {
            CertificateError::UnknownIssuer => webpki_error,
            error => error.into(),
        })
    }
}

/// Checks the certificates of servers.
#[derive(Debug)]
struct ServerVerifier {
    algorithms: WebPkiSupportedAlgorithms,
    /// The trusted certificates, or `None` if every server certificate is accepted without a check.
    trusted: Option<TrustedCertificates>,
    checks_name: bool,
}

type TlsResult<T> = std::result::Result<T, rustls::Error>;

fn parse_certificate(certificate: &CertificateDer<'_>) -> TlsResult<Certificate> {
    Certificate::parse(certificate).ok_or_else(|| CertificateError::BadEncoding.into())
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        sent: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> TlsResult<ServerCertVerified> {
        let Some(trusted) = &self.trusted else { return Ok(ServerCertVerified::assertion()) };
        let leaf = parse_certificate(certificate)?;
        trusted.check(&leaf, sent, &self.algorithms, now)?;
        leaf.check_purpose()?;
        let host = match name {
            ServerName::DnsName(name) => Host::Name(name.as_ref().to_owned()),
            ServerName::IpAddress(address) => Host::Address((*address).into()),
            _ => return Err(CertificateError::NotValidForName.into()),
        };
        if self.checks_name && !leaf.is_valid_for(&host)? {
            let expected = name.to_owned();
            let presented = leaf.presented_names();
            return Err(CertificateError::NotValidForNameContext { expected, presented }.into());
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> TlsResult<HandshakeSignatureValid> {
        let mapped = self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
        let algorithms = mapped.map(|(_, algorithms)| *algorithms).unwrap_or_default();
        match parse_certificate(certificate)?.has_signed(algorithms, message, signed.signature()) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(CertificateError::BadSignature.into()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> TlsResult<HandshakeSignatureValid> {
        let key = parse_certificate(certificate)?.public_key_der().ok_or(CertificateError::BadEncoding)?;
        let key = SubjectPublicKeyInfoDer::from(key);
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use crate::config::DatabaseUrl;

    use super::*;

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let empty = file("empty.pem", "no certificate");
        const BROKEN: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let broken = file("broken.pem", BROKEN);
        let marked = file("marked.pem", &format!("\u{feff}{BROKEN}"));
        let encrypted = file(
            "encrypted.pem",
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
        );
        let missing = folder.path().join("missing.pem").display().to_string();
        let here = folder.path().display().to_string();
        for (query, wanted) in [
            (format!("sslmode=verify-full&sslrootcert={empty}"), "no certificate in PEM"),
            (format!("sslmode=verify-full&sslrootcert={broken}"), "a certificate in it is damaged"),
            (format!("sslmode=verify-full&sslrootcert={marked}"), "a certificate in it is damaged"),
            (
                format!("sslmode=verify-full&sslrootcert={missing}"),
                "missing.pem cannot be read: it does not exist",
            ),
            (format!("sslmode=verify-full&sslrootcert={here}"), "it is a folder"),
            (format!("sslcert={missing}&sslkey={missing}"), "sslcert: "),
            (format!("sslcert={empty}&sslkey={missing}"), "no certificate in PEM"),
            (format!("sslcert={broken}&sslkey={missing}"), "sslkey: "),
            (format!("sslcert={broken}&sslkey={empty}"), "no key in PEM"),
            (
                format!("sslcert={broken}&sslkey={encrypted}"),
                "it is encrypted: decrypt it with `openssl pkey -in ",
            ),
        ] {
            let url = DatabaseUrl::parse(&format!("postgres://u:hunter2@h/d?{query}")).unwrap();
            let error = tls_connector(&url.proof).err().unwrap();
            assert!(
                error.detail().contains(wanted) && !error.detail().contains("hunter2"),
                "{query}: {error}"
            );
        }
    }
}
