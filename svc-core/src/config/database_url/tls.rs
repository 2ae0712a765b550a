//! The TLS settings of a database address, as in libpq (PostgreSQL manual, section 34.19).

use std::path::PathBuf;

use super::PgHost;

/// The TLS settings of a connection: how the server proves its identity, and how this client proves its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsVerification {
    mode: Option<SslMode>,
    roots: Option<TrustedRoots>,
    /// The files with the client's certificate and its key.
    pub client: Option<(PathBuf, PathBuf)>,
    /// Whether the TLS handshake omits the host name (`sslsni=0`). Some proxies need the host name.
    pub omits_sni: bool,
    /// Whether the TLS handshake begins without a request for TLS (`sslnegotiation=direct`, PostgreSQL 17).
    pub direct: bool,
    /// Whether TLS 1.3 is required or forbidden, or `None` if both versions are allowed.
    pub tls13: Option<TlsVersionLimit>,
}

/// A limit on the TLS version: only TLS 1.3, or never TLS 1.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsVersionLimit {
    Only,
    Never,
}

/// The trusted roots that a server's certificate must lead to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TrustedRoots {
    System,
    File(PathBuf),
}

/// An `sslmode` of libpq. `allow` is treated as `prefer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SslMode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// Whether connections use TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsUse {
    Never,
    /// Use TLS if the server offers it.
    IfOffered,
    Always,
}

/// The value of `sslrootcert` that selects the trusted roots of the system.
const SYSTEM_ROOTS: &str = "system";

impl TlsVerification {
    /// Parses and checks the TLS parameters.
    pub fn parse<'v>(get: impl Fn(&str) -> Option<&'v str>, hosts: &[PgHost]) -> Result<Self, String> {
        let file = |name| get(name).filter(|file| !file.is_empty()).map(PathBuf::from);
        let client = match (file("sslcert"), file("sslkey")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err("has one of sslcert and sslkey, which need each other".to_owned()),
        };
        let proof = Self {
            mode: get("sslmode").map(SslMode::parse).transpose()?,
            roots: file("sslrootcert").map(|file| {
                if file.as_os_str() == SYSTEM_ROOTS { TrustedRoots::System } else { TrustedRoots::File(file) }
            }),
            client: client.filter(|_| get("sslcertmode") != Some("disable")),
            omits_sni: get("sslsni") == Some("0"),
            direct: get("sslnegotiation") == Some("direct"),
            tls13: parse_version_limit(get("ssl_min_protocol_version"), get("ssl_max_protocol_version"))?,
        };
        proof.check_consistency(hosts)?;
        Ok(proof)
    }

    /// Fails if the settings contradict each other, or prove less than they appear to.
    fn check_consistency(&self, hosts: &[PgHost]) -> Result<(), String> {
        let needs_roots = matches!(self.mode, Some(SslMode::VerifyCa | SslMode::VerifyFull));
        if needs_roots && self.roots.is_none() {
            return Err("says that the server is verified, and needs sslrootcert for that: a PEM file, or \
                 `system` for what this machine trusts"
                .to_owned());
        }
        let trusts_system = self.roots == Some(TrustedRoots::System);
        if trusts_system && !matches!(self.mode, None | Some(SslMode::VerifyFull)) {
            return Err(
                "has sslrootcert=system, which proves nothing unless sslmode is verify-full: anybody \
                 can have a certificate of theirs signed"
                    .to_owned(),
            );
        }
        if self.direct && self.tls_use() != TlsUse::Always {
            return Err(
                "has sslnegotiation=direct, which needs sslmode=require or a verifying one".to_owned()
            );
        }
        let lacks_name = |host: &PgHost| host.address.is_some_and(|address| host.name == address.to_string());
        if self.verifies_host_name() && hosts.iter().any(lacks_name) {
            return Err("has only a hostaddr for a server whose name is verified: add its host".to_owned());
        }
        Ok(())
    }

    /// Returns whether no setting specifies whether connections use TLS.
    ///
    /// A file with trusted roots alone does not specify that.
    pub fn is_unspecified(&self) -> bool {
        self.mode.is_none() && self.roots != Some(TrustedRoots::System)
    }

    /// Returns whether connections use TLS always, never, or only if the server offers TLS.
    pub fn tls_use(&self) -> TlsUse {
        match (self.mode, &self.roots) {
            (Some(SslMode::Disable), _) => TlsUse::Never,
            (None, Some(TrustedRoots::System)) => TlsUse::Always,
            (None | Some(SslMode::Prefer), _) => TlsUse::IfOffered,
            (Some(SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull), _) => TlsUse::Always,
        }
    }

    /// Returns the trusted roots for the server's certificate, or `None` without TLS or without roots.
    pub fn roots(&self) -> Option<&TrustedRoots> {
        self.roots.as_ref().filter(|_| self.tls_use() != TlsUse::Never)
    }

    /// Returns whether the server's certificate must contain the host name.
    pub fn verifies_host_name(&self) -> bool {
        match self.mode {
            None => self.roots == Some(TrustedRoots::System),
            Some(mode) => mode == SslMode::VerifyFull,
        }
    }
}

impl SslMode {
    fn parse(word: &str) -> Result<Self, String> {
        Ok(match word {
            "disable" => Self::Disable,
            "allow" | "prefer" => Self::Prefer,
            "require" => Self::Require,
            "verify-ca" => Self::VerifyCa,
            "verify-full" => Self::VerifyFull,
            // The value is not repeated, because it may be a password.
            _ => {
                return Err("has an sslmode that is none of disable, allow, prefer, require, verify-ca and \
                            verify-full"
                    .to_owned());
            }
        })
    }
}

/// Parses the minimum and the maximum TLS version into one limit.
///
/// Fails if the minimum is above the maximum, or a version is not supported.
fn parse_version_limit(min: Option<&str>, max: Option<&str>) -> Result<Option<TlsVersionLimit>, String> {
    let min = match min {
        None | Some("TLSv1" | "TLSv1.1" | "TLSv1.2") => None,
        Some("TLSv1.3") => Some(TlsVersionLimit::Only),
        Some(_) => return Err("has an ssl_min_protocol_version that is not TLSv1.2 or TLSv1.3".to_owned()),
    };
    let max = match max {
        None | Some("TLSv1.3") => None,
        Some("TLSv1.2") => Some(TlsVersionLimit::Never),
        Some(_) => return Err("has an ssl_max_protocol_version that is not TLSv1.2 or TLSv1.3".to_owned()),
    };
    if min.is_some() && max.is_some() {
        return Err("has an ssl_min_protocol_version above its ssl_max_protocol_version".to_owned());
    }
    Ok(min.or(max))
}

#[cfg(test)]
mod tests {
    use super::super::DatabaseUrl;
    use super::*;

    fn read(query: &str) -> Result<TlsVerification, String> {
        let url = DatabaseUrl::parse(&format!("postgres://a:hunter2@h/d?{query}"));
        url.map(|url| url.proof).map_err(|error| error.detail().to_owned())
    }

    #[test]
    fn each_mode_demands_and_verifies_what_libpq_does() {
        use TlsUse::{Always, IfOffered, Never};
        for (query, demand, verifies, compares) in [
            ("", IfOffered, false, false),
            ("sslmode=disable", Never, false, false),
            ("sslmode=disable&sslrootcert=/ca", Never, false, false),
            ("sslmode=allow", IfOffered, false, false),
            ("sslmode=prefer", IfOffered, false, false),
            ("sslrootcert=/ca", IfOffered, true, false),
            ("sslmode=require", Always, false, false),
            ("ssl=true", Always, false, false),
            ("sslmode=require&sslrootcert=/ca", Always, true, false),
            ("sslmode=verify-ca&sslrootcert=%2Fa%20b", Always, true, false),
            ("sslmode=verify-full&sslrootcert=/ca", Always, true, true),
            ("sslrootcert=system", Always, true, true),
            ("sslmode=verify-full&sslrootcert=system", Always, true, true),
            ("sslmode=disable&sslmode=verify-full&sslrootcert=/ca", Always, true, true),
        ] {
            let proof = read(query).unwrap();
            assert_eq!(
                (proof.tls_use(), proof.roots().is_some(), proof.verifies_host_name()),
                (demand, verifies, compares),
                "{query}"
            );
        }
        assert_eq!(read("sslrootcert=%2Fa%20b").unwrap().roots, Some(TrustedRoots::File("/a b".into())));
        let client = "sslcert=/c&sslkey=/k";
        assert!(read(client).unwrap().client.is_some());
        assert!(read(&format!("{client}&sslcertmode=disable")).unwrap().client.is_none());
        assert!(
            read("sslsni=0").unwrap().omits_sni
                && read("sslmode=require&sslnegotiation=direct").unwrap().direct
        );
        assert_eq!(read("ssl_min_protocol_version=TLSv1.3").unwrap().tls13, Some(TlsVersionLimit::Only));
        assert_eq!(read("ssl_max_protocol_version=TLSv1.2").unwrap().tls13, Some(TlsVersionLimit::Never));
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
            ("sslmode=hunter2", "none of disable"),
            ("sslcert=/c", "need each other"),
            ("sslkey=/k", "need each other"),
            ("sslrootcert=%FF", "not UTF-8"),
            ("sslnegotiation=direct", "needs sslmode=require"),
            ("sslcertmode=require", "sslcertmode"),
            ("ssl_max_protocol_version=TLSv1.1", "ssl_max_protocol_version"),
            ("ssl_min_protocol_version=SSLv3", "ssl_min_protocol_version"),
            ("ssl_min_protocol_version=TLSv1.3&ssl_max_protocol_version=TLSv1.2", "above its"),
            ("host=&hostaddr=10.0.0.1&sslmode=verify-full&sslrootcert=/ca", "add its host"),
        ] {
            let error = read(query).unwrap_err();
            assert!(error.contains(why) && !error.contains("hunter2"), "{query}: {error}");
        }
    }
}
