//! The configuration of the service: a registry of all variables, and a strict reader.
//!
//! The core does not read the environment: a shell passes the variables of its environment. The file
//! `DIR/svc.env` supplies variables that are unset there. An unknown name, a secret that is set twice or an
//! invalid value prevents the start. The reader reports all such errors together, without the values of
//! secrets. [`crate::data_dir`] checks whether the folder is completely set up.

mod public_url;
pub(crate) mod retention;
mod database_url;
mod registry;
mod kubernetes;
mod reader;
mod remarks;
mod oidc;
mod mail;
mod push;

use std::borrow::Cow;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretBox, SecretString};

use crate::data_access::DataAccess;
use crate::egress::Egress;
use crate::error::{Code, Error, Result};
use crate::id::WorkspaceId;
use crate::spool::SpoolLimits;
use crate::token_text;
pub(crate) use database_url::{DatabaseUrl, PgHost, TlsUse, TlsVerification, TlsVersionLimit, TrustedRoots};
pub use mail::{MailConfig, SmtpLogin, SmtpSecurity, SmtpServer};
pub use oidc::{OidcConfig, OidcProvider};
pub use public_url::{PublicUrl, board_link, reachable};
pub use push::{PushConfig, VapidKey};
use reader::Reader;
pub(crate) use registry::escape_roff;
pub use registry::{Form, VARIABLES, Variable, manual, manual_page};
pub use retention::RetentionLimits;

/// Name of the file in a data folder with values for variables that are unset in the environment.
pub const ENV_FILE: &str = "svc.env";

/// A key of 32 bytes.
pub type Key = SecretBox<[u8; 32]>;

/// The key-encryption keys, which wrap the keys of messages.
#[derive(Debug)]
pub struct ContentKeys {
    /// The current key, which wraps the keys of new messages.
    pub current: Key,
    /// Retired keys, which only unwrap the keys of earlier messages.
    pub previous: Vec<Key>,
}

/// The key that signs exports and checkpoints, and the additional trusted public keys.
#[derive(Debug, Default)]
pub struct ExportKeys {
    /// The Ed25519 seed that signs exports and checkpoints, or `None` if nothing is signed.
    pub signing: Option<Key>,
    /// Additional Ed25519 public keys whose signatures are trusted.
    pub verify: Vec<[u8; 32]>,
}

/// Format of the server's log on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Lines of text for people.
    Text,
    /// One JSON object per line.
    Json,
}

/// The validated configuration of a program. [`VARIABLES`] describes the variables.
#[derive(Debug)]
pub struct Config {
    /// The data folder, which may not exist yet.
    pub data_dir: PathBuf,
    /// Address of the PostgreSQL server (`DATABASE_URL`), or `None` for SQLite in the data folder.
    pub database_url: Option<SecretString>,
    /// Whether `SVC_ENV` is `production`.
    pub production: bool,
    content_keys: Option<ContentKeys>,
    /// The files from which secrets were read.
    pub secret_files: Vec<PathBuf>,
    /// The access of other users to the data folder (`SVC_DATA_GROUP_ACCESS`).
    pub data_access: DataAccess,
    /// Log messages for ignored settings.
    pub remarks: Vec<String>,
    /// Whether a request without a credential acts as the first person of the first workspace
    /// (`AUTH_DISABLED`).
    pub auth_disabled: bool,
    /// The workspace whose public channels can be read over MCP without a credential
    /// (`SVC_DEV_ANONYMOUS_MCP_WORKSPACE`).
    pub anonymous_workspace: Option<WorkspaceId>,
    token: Option<SecretString>,
    /// The key that signs session cookies (`SVC_SESSION_SECRET`), or `None` without sessions.
    pub session_secret: Option<SecretString>,
    /// Maximum length of a browser session (`SVC_SESSION_TTL_SECS`).
    pub session_ttl: Duration,
    /// The settings for sign-in at an identity provider, or `None` without `SVC_OIDC_ENABLED`.
    pub oidc: Option<OidcConfig>,
    /// Whether a first sign-in links a person by a verified email address (`SVC_OIDC_LINK_EMAIL`).
    pub oidc_link_email: bool,
    /// Whether a first sign-in creates a member (`SVC_OIDC_AUTO_PROVISION`).
    pub oidc_auto_provision: bool,
    /// Whether a person may mint the first administrator's token of a workspace (`SVC_OIDC_FIRST_ADMIN`).
    pub first_admin: bool,
    /// Whether browsers send the session cookie over HTTPS only (`SVC_COOKIE_SECURE`).
    pub cookie_secure: bool,
    /// Address under which browsers reach the service (`SVC_PUBLIC_URL`).
    pub public_url: Option<PublicUrl>,
    /// The mail settings, or `None` unless `SVC_SMTP_URL`, `SVC_MAIL_FROM` and `SVC_PUBLIC_URL` are set.
    pub mail: Option<MailConfig>,
    /// The identity of this service to push services, or `None` without `SVC_VAPID_PRIVATE_KEY`.
    pub push: Option<PushConfig>,
    /// The permitted targets of requests to addresses that members supply (`SVC_ALLOW_PRIVATE_EGRESS`).
    pub egress: Egress,
    /// The signing key and the trusted keys for exports (`SVC_EXPORT_SIGNING_KEY`, `SVC_EXPORT_VERIFY_KEYS`).
    pub export_keys: ExportKeys,
    /// Address and port that the server listens on (`SVC_LISTEN_ADDR`).
    pub listen_addr: SocketAddr,
    /// Additional host names of the service, in lower case (`SVC_ALLOWED_HOSTS`).
    pub allowed_hosts: Vec<String>,
    /// Number of trusted proxies in front of the server (`SVC_TRUSTED_PROXY_HOPS`).
    pub trusted_proxy_hops: usize,
    /// Maximum bytes of a request body (`SVC_MAX_BODY_BYTES`).
    pub body_max_bytes: usize,
    /// Maximum requests in flight (`SVC_MAX_CONCURRENT_REQUESTS`), or `None` for no limit.
    pub concurrent_requests: Option<NonZeroU32>,
    /// Maximum connections of the server (`SVC_MAX_CONNECTIONS`), or `None` for no limit.
    pub connections: Option<NonZeroU32>,
    /// Maximum WebSocket connections of the server (`SVC_MAX_WS_CONNECTIONS`).
    pub ws_connections: u32,
    /// Maximum requests of one client per window (`SVC_RATE_LIMIT_MAX`), or `None` for no limit.
    pub rate_limit: Option<NonZeroU32>,
    /// Length of the window of the rate limits (`SVC_RATE_LIMIT_WINDOW_SECS`).
    pub rate_limit_window: Duration,
    /// Maximum requests to one workspace per window (`SVC_WORKSPACE_RATE_LIMIT_MAX`), or `None` for no limit.
    pub workspace_rate_limit: Option<NonZeroU32>,
    /// Time after a termination signal for which the server still serves (`SVC_SHUTDOWN_DRAIN_SECS`).
    pub shutdown_drain: Duration,
    /// Default length of the lease of a claim (`SVC_CLAIM_DEFAULT_LEASE_SECS`).
    pub lease_default: Duration,
    /// Time between two runs of the reaper (`SVC_CLAIM_REAP_TICK_SECS`), or `None` if this process does not
    /// run the reaper.
    pub reap_tick: Option<Duration>,
    /// Time limit of a read (`SVC_READ_BUDGET_MS`), or `None` for no limit.
    pub read_budget: Option<Duration>,
    /// Time within which a claim must be acknowledged (`SVC_CLAIM_ACK_TIMEOUT_SECS`), or `None` if no
    /// acknowledgement is required.
    pub ack_timeout: Option<Duration>,
    /// Minimum age of an event before a durable subscription delivers the event
    /// (`SVC_DELIVERY_STABILITY_SECS`).
    pub delivery_stability: Duration,
    /// Maximum bytes of an imported export (`SVC_IMPORT_MAX_BYTES`).
    pub import_max_bytes: u64,
    /// Maximum workspaces that a workspace and its copies import per day (`SVC_IMPORT_WORKSPACES_MAX`), or
    /// `None` for no limit.
    pub import_workspaces: Option<NonZeroU32>,
    /// Limits on the disk space of temporary files (`SVC_SPOOL_MAX_BYTES`, `SVC_DISK_RESERVE_BYTES`).
    pub spool_limits: SpoolLimits,
    /// Interval between polls of the logs for commits whose notification was lost
    /// (`SVC_DELIVERY_RECONCILE_MS`).
    pub delivery_reconcile: Duration,
    /// Retention times and the media quota (`SVC_RETENTION_*`, `SVC_MEDIA_QUOTA_BYTES`).
    pub kept: RetentionLimits,
    /// Time between two rounds of pruning (`SVC_RETENTION_TICK_SECS`), or `None` if this process does not
    /// prune data.
    pub retention_tick: Option<Duration>,
    /// Whether `request_land_advice` is enabled (`SVC_LAND_ADVICE`).
    pub land_advice: bool,
    /// Filter of the diagnostic log (`SVC_LOG`).
    pub log: String,
    /// Format of the diagnostic log (`SVC_LOG_FORMAT`).
    pub log_format: LogFormat,
}

impl Config {
    /// Reads the configuration from the variables `vars` and the file [`ENV_FILE`] in `data_dir`.
    ///
    /// Fails with a list of all errors in the configuration.
    pub fn read<N, V>(vars: impl IntoIterator<Item = (N, V)>, data_dir: &Path) -> Result<Self>
    where
        N: Into<OsString>,
        V: Into<OsString>,
    {
        let mut reader = Reader::new(vars, data_dir, |_| true);
        let config = reader.read_config(data_dir);
        reader.finish(config)
    }

    /// Reads only the database URL, from the variables and [`ENV_FILE`], for callers without a key-encryption
    /// key.
    pub fn read_database_url<N, V>(
        vars: impl IntoIterator<Item = (N, V)>,
        data_dir: &Path,
    ) -> Result<Option<SecretString>>
    where
        N: Into<OsString>,
        V: Into<OsString>,
    {
        let mut reader = Reader::new(vars, data_dir, |variable| variable.name == "DATABASE_URL");
        let url = reader.database_url();
        reader.finish(url)
    }

    /// Reads only the export keys, from the variables and [`ENV_FILE`], for callers that open no service.
    pub fn read_export_keys<N, V>(
        vars: impl IntoIterator<Item = (N, V)>,
        data_dir: &Path,
    ) -> Result<ExportKeys>
    where
        N: Into<OsString>,
        V: Into<OsString>,
    {
        let mut reader = Reader::new(vars, data_dir, |variable| variable.name.starts_with("SVC_EXPORT_"));
        let keys = reader.export_keys();
        reader.finish(keys)
    }

    /// Parses a public key of 32 bytes, in hex or base64.
    pub fn parse_public_key(text: &str) -> Option<[u8; 32]> {
        reader::parse_key(text.trim()).map(|key| *key.expose_secret())
    }

    /// Returns whether the database is on another machine and no setting specifies how to secure the
    /// connection.
    pub fn needs_tls_settings(&self) -> bool {
        let url = self.database_url.as_ref().map(|url| DatabaseUrl::parse(url.expose_secret()));
        url.is_some_and(|url| url.is_ok_and(|url| url.needs_tls_settings()))
    }

    /// Returns a message that lists the ignored variables, for programs without a log.
    pub fn ignored<N, V>(vars: impl IntoIterator<Item = (N, V)>) -> Option<String>
    where
        N: Into<OsString>,
        V: Into<OsString>,
    {
        Reader::ignored_variables_message(vars)
    }

    /// Returns the token that the program acts with. Fails if the token is missing or malformed.
    pub fn token(&self) -> Result<SecretString> {
        let refuse = |detail: Cow<'static, str>| Error::new(Code::Unauthenticated, detail);
        let missing = "set SVC_TOKEN, or SVC_TOKEN_FILE to a file with the token to act as";
        let token = self.token.as_ref().ok_or_else(|| refuse(missing.into()))?;
        match token_text::flaw(token.expose_secret()) {
            None => Ok(token.clone()),
            Some(flaw) => Err(refuse(format!("the token in SVC_TOKEN {flaw}").into())),
        }
    }

    /// Returns the key-encryption keys. Fails if `SVC_CONTENT_KEK` is not set.
    ///
    /// Only verification works without key-encryption keys.
    pub fn content_keys(&self) -> Result<&ContentKeys> {
        self.content_keys.as_ref().ok_or_else(|| {
            Error::configuration(format!(
                "SVC_CONTENT_KEK is not set, neither in the environment nor in {}; run `svc init`, or \
                 provide the key that this service was set up with",
                self.data_dir.join(ENV_FILE).display()
            ))
        })
    }
}

/// Returns whether `authority`, a host with an optional port, is this machine.
fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::reader::INSECURE_DEV_KEK;
    use super::*;

    const KEK: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    const KEK_BASE64: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    /// A test case: the variables, the contents of `svc.env`, and a substring of the expected error.
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a str);

    fn read(vars: &[(&str, &str)], file: &str) -> Result<Config> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("good"), format!("{KEK}\n")).unwrap();
        std::fs::write(dir.path().join("empty"), "\n").unwrap();
        std::fs::write(dir.path().join("latin1"), b"caf\xe9").unwrap();
        std::fs::write(dir.path().join("marked"), format!("\u{feff}{KEK}\r\n")).unwrap();
        if !file.is_empty() {
            std::fs::write(dir.path().join(ENV_FILE), file).unwrap();
        }
        let here = dir.path().to_str().unwrap();
        Config::read(
            vars.iter().map(|(name, value)| ((*name).to_owned(), value.replace("DIR", here))),
            dir.path(),
        )
    }

    #[test]
    fn nothing_set_gives_the_defaults_and_no_key() {
        let config = read(&[("PATH", "/bin"), ("SVC_LISTEN_ADDR", "")], "").unwrap();
        assert_eq!(config.listen_addr.to_string(), "127.0.0.1:8080");
        assert_eq!(config.lease_default, Duration::from_secs(600));
        assert!(!config.land_advice);
        assert_eq!((config.body_max_bytes, config.ws_connections), (2_097_152, 10_000));
        assert_eq!(config.rate_limit, NonZeroU32::new(1200));
        assert_eq!((config.reap_tick, config.log.as_str()), (Some(Duration::from_secs(5)), "info"));
        assert!(config.database_url.is_none() && !config.production);
        assert!(config.content_keys().unwrap_err().detail().contains("SVC_CONTENT_KEK is not set"));
    }

    #[test]
    fn cookies_are_secure_in_production_and_the_public_url_has_a_path() {
        let secure = |vars: &[(&str, &str)]| read(vars, "").unwrap().cookie_secure;
        let production = ("SVC_ENV", "production");
        assert!(!secure(&[]) && secure(&[("SVC_COOKIE_SECURE", "1")]));
        assert!(secure(&[production]) && secure(&[production, ("SVC_COOKIE_SECURE", "auto")]));
        let config = read(&[("SVC_PUBLIC_URL", "https://Svc.Example:8443/board/")], "").unwrap();
        assert_eq!(config.public_url.unwrap().to_string(), "https://svc.example:8443/board");
    }

    #[test]
    fn zero_turns_off() {
        let names = ["SVC_RATE_LIMIT_MAX", "SVC_MAX_CONCURRENT_REQUESTS", "SVC_CLAIM_REAP_TICK_SECS"];
        let config = read(&names.map(|name| (name, "0")), "").unwrap();
        assert!(
            config.rate_limit.is_none() && config.concurrent_requests.is_none() && config.reap_tick.is_none()
        );
    }

    #[test]
    fn a_key_is_hex_or_base64_given_directly_or_as_a_file() {
        let base64_url = KEK_BASE64.replace('+', "-").replace('/', "_");
        let cases: [(&[(&str, &str)], &str); 10] = [
            (&[("SVC_CONTENT_KEK", KEK)], ""),
            (&[("SVC_CONTENT_KEK_FILE", "DIR/marked")], ""),
            (&[], "\u{feff}SVC_CONTENT_KEK_FILE=marked\r\n"),
            (&[("SVC_CONTENT_KEK", KEK_BASE64)], ""),
            (&[("SVC_CONTENT_KEK", KEK_BASE64.trim_end_matches('='))], ""),
            (&[("SVC_CONTENT_KEK", &base64_url)], ""),
            (&[("SVC_CONTENT_KEK_FILE", "DIR/good")], ""),
            (&[("SVC_CONTENT_KEK", "")], "# a comment\n\nSVC_CONTENT_KEK_FILE=good\n"),
            (&[], "SVC_CONTENT_KEK_FILE=\"good\""),
            (&[("SVC_CONTENT_KEK", KEK)], "SVC_CONTENT_KEK_FILE=empty"),
        ];
        for (vars, file) in cases {
            let config = read(vars, file).unwrap_or_else(|error| panic!("{vars:?} {file}: {error}"));
            let key = *config.content_keys().unwrap().current.expose_secret();
            assert!((0..32).eq(key.map(u32::from)), "{vars:?} {file}");
        }
    }

    /// Tests the forms in which editors, shells and clusters write the file of a secret.
    #[test]
    fn a_file_of_a_secret_is_read_in_every_form() {
        let folder = tempfile::tempdir().unwrap();
        let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let text = |text: String| text.into_bytes();
        let forms: Vec<(Vec<u8>, bool)> = vec![
            (text(KEK.to_owned()), true),
            (text(format!("{KEK}\n")), true),
            (text(format!("{KEK}\r\n")), true),
            (text(format!("{KEK}\r")), true),
            (text(format!("{KEK}\n\n")), true),
            (text(format!("{KEK}\r\n\r\n")), true),
            (text(format!("\u{feff}{KEK}")), true),
            (text(format!("\u{feff}{KEK}\r\n")), true),
            (text(KEK.to_uppercase()), true),
            (text(format!("{KEK_BASE64}\n")), true),
            (Vec::new(), false),
            (text("\n".to_owned()), false),
            (text("\r\n\r\n".to_owned()), false),
            (text("\u{feff}\n".to_owned()), false),
            (text(format!("\u{feff}\u{feff}{KEK}")), false),
            (text(format!("{KEK}\0")), false),
            (text(format!("{KEK}\n{KEK}")), false),
            (text(KEK.chars().skip(2).collect()), false),
            (text(format!("KEY={KEK}")), false),
            (text("${SVC_CONTENT_KEK}".to_owned()), false),
            (utf16(KEK), false),
            (b"caf\xe9".to_vec(), false),
        ];
        for (number, (bytes, is_read)) in forms.iter().enumerate() {
            let file = folder.path().join(number.to_string());
            std::fs::write(&file, bytes).unwrap();
            let found = read(&[("SVC_CONTENT_KEK_FILE", file.to_str().unwrap())], "")
                .and_then(|config| config.content_keys().map(|_| ()));
            assert_eq!(found.is_ok(), *is_read, "{:?}", String::from_utf8_lossy(bytes));
            if let Err(error) = found {
                assert!(error.detail().contains("SVC_CONTENT_KEK"), "{}", error.detail());
                assert!(!error.detail().contains(&KEK[..8]), "{}", error.detail());
            }
        }
        let folder_itself = folder.path().to_str().unwrap();
        assert!(read(&[("SVC_CONTENT_KEK_FILE", folder_itself)], "").is_err());
    }

    #[test]
    fn retired_keys_are_a_list() {
        let list = format!("{KEK}, {KEK_BASE64},");
        let config = read(&[("SVC_CONTENT_KEK", KEK), ("SVC_CONTENT_KEK_PREVIOUS", &list)], "").unwrap();
        assert_eq!(config.content_keys().unwrap().previous.len(), 2);
    }

    #[test]
    fn the_public_key_is_for_development_only() {
        let dev = ("SVC_ALLOW_INSECURE_DEV_KEK", "1");
        let config = read(&[dev], "").unwrap();
        assert_eq!(*config.content_keys().unwrap().current.expose_secret(), INSECURE_DEV_KEK);
        assert!(
            read(&[dev, ("SVC_ENV", "production")], "").unwrap_err().detail().contains("not allowed while")
        );
    }

    #[test]
    fn the_environment_overrides_the_file() {
        let config = read(&[("SVC_LOG", "debug")], "SVC_LOG=warn\nSVC_LOG_FORMAT=json\n").unwrap();
        assert_eq!((config.log.as_str(), config.log_format), ("debug", LogFormat::Json));
    }

    #[test]
    fn errors_name_the_variable_and_help() {
        let cases: [Case; 28] = [
            (
                &[("SVC_LISTEN_ADR", "x")],
                "",
                "unknown variable SVC_LISTEN_ADR in the environment, did you mean SVC_LISTEN_ADDR?",
            ),
            (&[("SVC_DATABASE_URL", "x")], "", "did you mean DATABASE_URL?"),
            (&[("SVC_LOG_FILE", "x")], "", "unknown variable SVC_LOG_FILE"),
            (&[("SVC_QQQ", "")], "", "unknown variable SVC_QQQ in the environment"),
            (&[], "HOME=/root", "unknown variable HOME in svc.env"),
            (&[], "SVC_LOG", "svc.env line 1: expected NAME=VALUE"),
            (&[], "\n export SVC_LOG=info", "svc.env line 2: expected NAME=VALUE"),
            (&[], "SVC_LOG=info\nSVC_LOG=info", "svc.env line 2: SVC_LOG is set twice"),
            (
                &[("SVC_TOKEN", "a"), ("SVC_TOKEN_FILE", "DIR/good")],
                "",
                "SVC_TOKEN and SVC_TOKEN_FILE are both set",
            ),
            (&[("SVC_TOKEN_FILE", "DIR/none")], "", "SVC_TOKEN_FILE: the file"),
            (&[("SVC_TOKEN_FILE", "DIR/empty")], "", "is empty"),
            (&[("SVC_TOKEN_FILE", "DIR/latin1")], "", "is not UTF-8"),
            (&[("DATABASE_URL", "mysql://x")], "", "DATABASE_URL does not begin with postgres://"),
            (&[("SVC_CONTENT_KEK", "abc")], "", "SVC_CONTENT_KEK: expected 32 bytes"),
            (&[("SVC_CONTENT_KEK_PREVIOUS", "abc")], "", "SVC_CONTENT_KEK_PREVIOUS: expected 32 bytes"),
            (&[("SVC_EXPORT_SIGNING_KEY", "abc")], "", "SVC_EXPORT_SIGNING_KEY: expected 32 bytes"),
            (&[("SVC_SESSION_SECRET", "short")], "", "SVC_SESSION_SECRET is shorter than 32 bytes"),
            (&[("SVC_COOKIE_SECURE", "yes")], "", "SVC_COOKIE_SECURE: expected auto or 0 or 1"),
            (
                &[("SVC_COOKIE_SECURE", "0"), ("SVC_ENV", "production")],
                "",
                "SVC_COOKIE_SECURE=0 is not allowed while SVC_ENV=production",
            ),
            (&[("SVC_PUBLIC_URL", "svc.example")], "", "SVC_PUBLIC_URL: expected https://HOST"),
            (&[("SVC_ENV", "prod")], "", "SVC_ENV: expected development or production, found \"prod\""),
            (&[("SVC_ALLOW_INSECURE_DEV_KEK", "yes")], "", "expected 1 or 0, found \"yes\""),
            (&[("SVC_LISTEN_ADDR", "8080")], "", "SVC_LISTEN_ADDR: expected an address and a port"),
            (
                &[("SVC_RATE_LIMIT_MAX", "-1")],
                "",
                "SVC_RATE_LIMIT_MAX: expected a whole number from 0 to 1000000",
            ),
            (&[("SVC_CLAIM_DEFAULT_LEASE_SECS", "0")], "", "from 1 to 604800, found \"0\""),
            (&[("SVC_MAX_BODY_BYTES", "2M")], "", "found \"2M\""),
            (&[("SVC_ALLOWED_HOSTS", "a.example, http://b")], "", "\"http://b\" is not a host name"),
            (&[("SVC_LOG_FORMAT", "xml")], "", "expected text or json"),
        ];
        for (vars, file, wanted) in cases {
            let error = read(vars, file).unwrap_err();
            assert!(error.detail().contains(wanted), "{}: wanted {wanted}", error.detail());
        }
        let both = read(&[("SVC_ENV", "prod"), ("SVC_LOG_FORMAT", "xml")], "").unwrap_err();
        assert!(both.detail().contains("SVC_ENV") && both.detail().contains("SVC_LOG_FORMAT"));
    }

    #[test]
    fn the_database_url_can_be_read_without_a_key() {
        let keyless = "SVC_CONTENT_KEK_FILE=none\n";
        assert!(read(&[], keyless).is_err());
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(ENV_FILE), keyless).unwrap();
        let url = Config::read_database_url([("DATABASE_URL", "postgres://localhost/svc")], dir.path());
        assert!(url.unwrap().is_some());
        assert!(Config::read_database_url([("SVC_DATABASE_URL", "x")], dir.path()).is_err());
    }

    #[test]
    fn authentication_is_off_only_on_purpose() {
        let disabled = ("AUTH_DISABLED", "1");
        let allowed = ("SVC_ALLOW_INSECURE_NO_AUTH", "1");
        let anonymous = ("SVC_DEV_ANONYMOUS_MCP_WORKSPACE", "01990000-0000-7000-8000-000000000001");
        let production = ("SVC_ENV", "production");
        let refused: [(&[(&str, &str)], &str); 6] = [
            (&[disabled], "AUTH_DISABLED needs SVC_ALLOW_INSECURE_NO_AUTH=1"),
            (&[("AUTH_DISABLED", "true"), allowed], "AUTH_DISABLED: expected 1 or 0"),
            (&[disabled, allowed, production], "AUTH_DISABLED is not allowed while SVC_ENV is production"),
            (&[allowed, production], "SVC_ALLOW_INSECURE_NO_AUTH is not allowed while"),
            (&[anonymous, production], "SVC_DEV_ANONYMOUS_MCP_WORKSPACE is not allowed while"),
            (&[("SVC_DEV_ANONYMOUS_MCP_WORKSPACE", "acme")], "\"acme\" is not the id of a workspace"),
        ];
        for (vars, wanted) in refused {
            let refusal = read(vars, "").unwrap_err();
            assert!(refusal.detail().contains(wanted), "{vars:?}: {}", refusal.detail());
        }
        assert!(read(&[disabled, allowed], "").unwrap().auth_disabled);
        for vars in [&[allowed][..], &[("AUTH_DISABLED", "0")], &[]] {
            let config = read(vars, "").unwrap();
            assert!(!config.auth_disabled && config.anonymous_workspace.is_none(), "{vars:?}");
        }
        let open = read(&[anonymous], "").unwrap().anonymous_workspace.unwrap();
        assert_eq!(open.to_string(), anonymous.1);
    }

    #[test]
    fn unknown_names_pass_when_allowed() {
        assert!(read(&[("SVC_NEW", "x"), ("SVC_ALLOW_UNKNOWN_ENV", "1")], "").is_ok());
        assert!(read(&[("SVC_NEW", "x")], "SVC_ALLOW_UNKNOWN_ENV=1").is_ok());
    }

    #[test]
    fn the_token_is_trimmed_and_what_is_none_is_named() {
        let token = |vars: &[(&str, &str)], file| {
            read(vars, file).unwrap().token().map(|token| token.expose_secret().to_owned())
        };
        for (vars, file) in [
            (&[("SVC_TOKEN", "svc_0a\r\n")][..], ""),
            (&[("SVC_TOKEN", "\u{feff}svc_0a ")], ""),
            (&[], "SVC_TOKEN=\"svc_0a\"\r\n"),
        ] {
            assert_eq!(token(vars, file).unwrap(), "svc_0a", "{vars:?} {file}");
        }
        let secret = "svc_0123456789abcdef0123456789abcdef";
        for (text, wanted) in [
            ("${SVC_TOKEN}", "is a placeholder"),
            (&*format!("\"{secret}\""), "is in quotation marks"),
            (&format!("Bearer {secret}"), "begins with a scheme"),
            ("", "set SVC_TOKEN"),
        ] {
            let refused = token(&[("SVC_TOKEN", text)], "").unwrap_err();
            assert!(refused.detail().contains(wanted), "{}", refused.detail());
            assert!(refused.code() == Code::Unauthenticated && !refused.detail().contains("0123"));
        }
    }

    #[test]
    fn no_secret_is_shown() {
        let secret = "svc_0123456789abcdef0123456789abcdef";
        let url = format!("postgres://ada:{secret}@localhost/svc");
        let vars = [
            ("SVC_TOKEN", secret),
            ("SVC_SESSION_SECRET", secret),
            ("SVC_CONTENT_KEK", KEK),
            ("DATABASE_URL", &url),
        ];
        let shown = format!("{:?}", read(&vars, "").unwrap());
        assert!(!shown.contains(secret) && !shown.contains("1, 2, 3"), "{shown}");
        for name in ["SVC_CONTENT_KEK", "SVC_CONTENT_KEK_PREVIOUS", "SVC_EXPORT_SIGNING_KEY", "DATABASE_URL"]
        {
            let error = format!("{:?}", read(&[(name, secret)], "").unwrap_err());
            assert!(!error.contains(secret), "{error}");
        }
    }
}
