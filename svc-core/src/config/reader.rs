//! The configuration reader: reads values from the environment and the file `svc.env`, and checks each value.
//!
//! The reader continues after an error, so that the operator sees all errors together. Every value counts as
//! a secret until its variable is known.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD_INDIFFERENT, URL_SAFE_NO_PAD_INDIFFERENT};
use secrecy::{ExposeSecret, SecretBox, SecretString};
use zeroize::Zeroizing;

use super::kubernetes::is_set_by_kubernetes;
use super::registry::{Form, VARIABLES, Variable, find_variable, is_known, suggest_variable};
use super::{Config, ContentKeys, ENV_FILE, ExportKeys, Key, LogFormat, PublicUrl, RetentionLimits};
use crate::data_access::{DataAccess, GROUP_ACCESS};
use crate::egress::Egress;
use crate::error::blocked::{Need, describe_denial};
use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::limits::SESSION_SECRET_MIN_BYTES;
use crate::mark::strip_byte_order_mark;
use crate::spool::SpoolLimits;
use crate::token_text;

/// Values of variables by name. All values are treated as secrets until the variables are known.
pub(super) type Values = BTreeMap<String, Zeroizing<String>>;

/// Collects the values of variables and all errors in them.
#[derive(Default)]
pub(super) struct Reader {
    values: BTreeMap<&'static str, Zeroizing<String>>,
    /// Error messages for all invalid settings.
    problems: Vec<String>,
    /// The files from which secrets were read.
    pub secret_files: Vec<PathBuf>,
    /// The names of the ignored variables that Kubernetes has set.
    pub kubernetes_variables: Vec<String>,
    /// Log messages for ignored settings.
    pub remarks: Vec<String>,
}

impl Reader {
    /// Reads the values of the variables for which `is_wanted` returns true, from `vars` and the file
    /// [`ENV_FILE`].
    ///
    /// Unknown names are always rejected, whichever variables are wanted.
    pub fn new<N: Into<OsString>, V: Into<OsString>>(
        vars: impl IntoIterator<Item = (N, V)>,
        data_dir: &Path,
        is_wanted: impl Fn(&Variable) -> bool,
    ) -> Self {
        let mut reader = Self::default();
        let environment = reader.select_variables(vars);
        let file = reader.read_env_file(data_dir);
        let allow_unknown = [&environment, &file]
            .into_iter()
            .any(|source| source.get("SVC_ALLOW_UNKNOWN_ENV").is_some_and(|value| value.as_str() == "1"));
        if !allow_unknown {
            reader.reject_unknown(&environment, "the environment");
            reader.reject_unknown(&file, ENV_FILE);
        }
        if file.contains_key(GROUP_ACCESS) {
            reader.reject(&format!(
                "{GROUP_ACCESS} in {ENV_FILE}: set it in the environment, since everybody who can write that \
                 file could set it there"
            ));
        }
        for variable in VARIABLES.iter().filter(|variable| is_wanted(variable)) {
            let given = reader.source_value(variable, &environment, Path::new(""));
            if let Some(value) = given.or_else(|| reader.source_value(variable, &file, data_dir)) {
                reader.values.insert(variable.name, value);
            }
        }
        reader
    }

    /// Returns `value`, or an error that lists all problems.
    pub fn finish<T>(self, value: T) -> Result<T> {
        match self.problems.as_slice() {
            [] => Ok(value),
            problems => Err(Error::configuration(problems.join("; "))),
        }
    }

    /// Returns the text values of those variables in `vars` that begin with `SVC_` or are registered.
    pub fn select_variables<N: Into<OsString>, V: Into<OsString>>(
        &mut self,
        vars: impl IntoIterator<Item = (N, V)>,
    ) -> Values {
        let mut values = Values::new();
        for (name, value) in vars {
            let Ok(name) = name.into().into_string() else { continue };
            if !name.starts_with("SVC_") && !is_known(&name) {
                continue;
            }
            match value.into().into_string() {
                Ok(value) if !is_known(&name) && is_set_by_kubernetes(&name, &value) => {
                    self.kubernetes_variables.push(name)
                }
                Ok(value) => drop(values.insert(name, Zeroizing::new(value))),
                Err(_) => self.problems.push(format!("{name} is not UTF-8")),
            }
        }
        values
    }

    /// Reads the values in the file [`ENV_FILE`]. Returns no values if the file does not exist.
    fn read_env_file(&mut self, data_dir: &Path) -> Values {
        let path = data_dir.join(ENV_FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => Zeroizing::new(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Values::new(),
            Err(error) => {
                self.problems.push(match error.kind() {
                    std::io::ErrorKind::InvalidData => format!("{} is not UTF-8", path.display()),
                    _ => describe_denial(Need::Read, &path, &error),
                });
                return Values::new();
            }
        };
        let mut values = Values::new();
        for (number, line) in (1..).zip(strip_byte_order_mark(&text).lines()) {
            match parse_assignment(line) {
                Ok(None) => {}
                Ok(Some((name, value))) => {
                    if values.insert(name.to_owned(), Zeroizing::new(value.to_owned())).is_some() {
                        self.problems.push(format!("{} line {number}: {name} is set twice", path.display()));
                    }
                }
                Err(why) => self.problems.push(format!("{} line {number}: {why}", path.display())),
            }
        }
        values
    }

    fn reject_unknown(&mut self, values: &Values, place: &str) {
        for name in values.keys().filter(|name| !is_known(name)) {
            self.problems.push(match suggest_variable(name) {
                Some(near) => format!("unknown variable {name} in {place}, did you mean {near}?"),
                None => format!("unknown variable {name} in {place}"),
            });
        }
    }

    /// Returns the value of a variable in one source, or `None` if the variable is unset there.
    ///
    /// A secret may be in the variable itself or in a file, whose path is relative to `base_dir`.
    fn source_value(
        &mut self,
        variable: &Variable,
        source: &Values,
        base_dir: &Path,
    ) -> Option<Zeroizing<String>> {
        let set = |name: &str| source.get(name).filter(|value| !value.is_empty());
        let direct = set(variable.name);
        if !variable.is_secret() {
            return direct.cloned();
        }
        let file_name = format!("{}_FILE", variable.name);
        match (direct, set(&file_name)) {
            (Some(_), Some(_)) => {
                self.problems.push(format!("{} and {file_name} are both set; keep one", variable.name));
                None
            }
            (Some(value), None) => Some(value.clone()),
            (None, Some(path)) => self.read_secret_file(&file_name, &base_dir.join(path.as_str())),
            (None, None) => None,
        }
    }

    /// Reads the secret in the file that the variable `name` names.
    fn read_secret_file(&mut self, name: &str, path: &Path) -> Option<Zeroizing<String>> {
        let problem = match std::fs::read(path).map(|bytes| String::from_utf8(bytes).map(Zeroizing::new)) {
            Ok(Ok(text)) => match strip_byte_order_mark(&text).trim_end_matches(['\r', '\n']) {
                value if value.trim().is_empty() => "is empty".to_owned(),
                value => {
                    self.secret_files.push(path.to_owned());
                    return Some(Zeroizing::new(value.to_owned()));
                }
            },
            Ok(Err(_)) => "is not UTF-8".to_owned(),
            Err(error) => {
                self.problems.push(format!("{name}: the file {}", describe_denial(Need::Read, path, &error)));
                return None;
            }
        };
        self.problems.push(format!("{name}: the file {} {problem}", path.display()));
        None
    }

    /// Reads and checks the values of all variables.
    pub fn read_config(&mut self, data_dir: &Path) -> Config {
        let production = self.choice("SVC_ENV") == "production";
        let public_url = self.public_url();
        let database_url = self.database_url();
        self.remark_kubernetes_variables();
        Config {
            secret_files: std::mem::take(&mut self.secret_files),
            data_access: DataAccess::of(self.flag(GROUP_ACCESS)),
            remarks: std::mem::take(&mut self.remarks),
            data_dir: data_dir.to_owned(),
            database_url,
            production,
            auth_disabled: self.auth_disabled(production),
            anonymous_workspace: self.anonymous_workspace(production),
            content_keys: self.content_keys(production),
            token: self.token(),
            session_secret: self.session_secret(),
            session_ttl: self.seconds("SVC_SESSION_TTL_SECS"),
            oidc: self.oidc(production),
            oidc_link_email: self.flag("SVC_OIDC_LINK_EMAIL"),
            oidc_auto_provision: self.flag("SVC_OIDC_AUTO_PROVISION"),
            first_admin: self.flag("SVC_OIDC_FIRST_ADMIN"),
            cookie_secure: self.cookie_secure(production),
            mail: self.mail(public_url.as_ref()),
            push: self.push(public_url.as_ref()),
            egress: Egress { is_open: self.private_egress(production) },
            public_url,
            listen_addr: self.listen_addr(),
            allowed_hosts: self.allowed_hosts(),
            trusted_proxy_hops: self.number("SVC_TRUSTED_PROXY_HOPS"),
            body_max_bytes: self.number("SVC_MAX_BODY_BYTES"),
            concurrent_requests: NonZeroU32::new(self.number("SVC_MAX_CONCURRENT_REQUESTS")),
            connections: NonZeroU32::new(self.number("SVC_MAX_CONNECTIONS")),
            ws_connections: self.number("SVC_MAX_WS_CONNECTIONS"),
            rate_limit: NonZeroU32::new(self.number("SVC_RATE_LIMIT_MAX")),
            rate_limit_window: self.seconds("SVC_RATE_LIMIT_WINDOW_SECS"),
            workspace_rate_limit: NonZeroU32::new(self.number("SVC_WORKSPACE_RATE_LIMIT_MAX")),
            shutdown_drain: self.seconds("SVC_SHUTDOWN_DRAIN_SECS"),
            lease_default: self.seconds("SVC_CLAIM_DEFAULT_LEASE_SECS"),
            read_budget: Some(Duration::from_millis(self.number("SVC_READ_BUDGET_MS")))
                .filter(|span| !span.is_zero()),
            reap_tick: Some(self.seconds("SVC_CLAIM_REAP_TICK_SECS")).filter(|span| !span.is_zero()),
            ack_timeout: Some(self.seconds("SVC_CLAIM_ACK_TIMEOUT_SECS")).filter(|span| !span.is_zero()),
            import_max_bytes: self.number("SVC_IMPORT_MAX_BYTES"),
            import_workspaces: NonZeroU32::new(self.number("SVC_IMPORT_WORKSPACES_MAX")),
            spool_limits: SpoolLimits {
                max_bytes: self.number_if_set("SVC_SPOOL_MAX_BYTES"),
                reserve_bytes: self.number_if_set("SVC_DISK_RESERVE_BYTES"),
            },
            delivery_stability: self.seconds("SVC_DELIVERY_STABILITY_SECS"),
            delivery_reconcile: Duration::from_millis(self.number("SVC_DELIVERY_RECONCILE_MS")),
            export_keys: self.export_keys(),
            kept: self.retention(),
            retention_tick: Some(self.seconds("SVC_RETENTION_TICK_SECS")).filter(|span| !span.is_zero()),
            land_advice: self.flag("SVC_LAND_ADVICE"),
            log: self.text("SVC_LOG"),
            log_format: if self.choice("SVC_LOG_FORMAT") == "json" {
                LogFormat::Json
            } else {
                LogFormat::Text
            },
        }
    }

    /// Returns the retention settings. The value 0 of a variable means that data is kept forever.
    fn retention(&mut self) -> RetentionLimits {
        let mut days = |name| Some(self.number(name)).filter(|days| *days != 0);
        RetentionLimits {
            messages_days: days("SVC_RETENTION_MESSAGES_DAYS"),
            events_days: days("SVC_RETENTION_EVENTS_DAYS"),
            deliveries_days: days("SVC_RETENTION_DELIVERIES_DAYS"),
            media_days: days("SVC_RETENTION_MEDIA_DAYS"),
            media_quota_bytes: Some(self.number("SVC_MEDIA_QUOTA_BYTES")),
        }
    }

    /// Returns whether authentication is off. Turning authentication off requires two variables.
    fn auth_disabled(&mut self, production: bool) -> bool {
        let [disabled, allowed] = ["AUTH_DISABLED", "SVC_ALLOW_INSECURE_NO_AUTH"].map(|name| {
            let is_set = self.flag(name);
            if is_set && production {
                self.reject_in_production(name);
            }
            is_set
        });
        if disabled && !allowed {
            self.reject("AUTH_DISABLED needs SVC_ALLOW_INSECURE_NO_AUTH=1: anybody could do anything");
        }
        disabled && allowed && !production
    }

    fn anonymous_workspace(&mut self, production: bool) -> Option<WorkspaceId> {
        const NAME: &str = "SVC_DEV_ANONYMOUS_MCP_WORKSPACE";
        let text = self.values.get(NAME)?.to_string();
        if production {
            self.reject_in_production(NAME);
        }
        let id = text.parse().ok();
        if id.is_none() {
            self.reject(&format!("{NAME}: \"{text}\" is not the id of a workspace"));
        }
        id
    }

    /// Records the error that the setting `name` is not allowed in production.
    pub(super) fn reject_in_production(&mut self, name: &str) {
        self.reject(&format!("{name} is not allowed while SVC_ENV is production"));
    }

    fn content_keys(&mut self, production: bool) -> Option<ContentKeys> {
        let dev = self.flag("SVC_ALLOW_INSECURE_DEV_KEK");
        if dev && production {
            self.reject_in_production("SVC_ALLOW_INSECURE_DEV_KEK");
        }
        let previous = self.keys("SVC_CONTENT_KEK_PREVIOUS");
        let current = if self.values.contains_key("SVC_CONTENT_KEK") {
            self.key("SVC_CONTENT_KEK")
        } else {
            dev.then(|| SecretBox::new(Box::new(INSECURE_DEV_KEK)))
        };
        current.map(|current| ContentKeys { current, previous })
    }

    /// Records an error in the configuration.
    pub(super) fn reject(&mut self, problem: &str) {
        self.problems.push(problem.to_owned());
    }

    fn session_secret(&mut self) -> Option<SecretString> {
        let secret = self.secret("SVC_SESSION_SECRET")?;
        if secret.expose_secret().len() < SESSION_SECRET_MIN_BYTES {
            self.problems
                .push(format!("SVC_SESSION_SECRET is shorter than {SESSION_SECRET_MIN_BYTES} bytes"));
        }
        Some(secret)
    }

    fn cookie_secure(&mut self, production: bool) -> bool {
        match self.choice("SVC_COOKIE_SECURE").as_str() {
            "1" => true,
            "0" if production => {
                self.problems.push("SVC_COOKIE_SECURE=0 is not allowed while SVC_ENV=production".to_owned());
                true
            }
            "0" => false,
            _ => production,
        }
    }

    fn public_url(&mut self) -> Option<PublicUrl> {
        let text = self.text("SVC_PUBLIC_URL");
        if text.is_empty() {
            return None;
        }
        let url = PublicUrl::parse(&text);
        if url.is_none() {
            let problem =
                format!("SVC_PUBLIC_URL: expected https://HOST or https://HOST/PATH, found \"{text}\"");
            self.problems.push(problem);
        }
        url
    }

    fn listen_addr(&mut self) -> SocketAddr {
        let text = self.text("SVC_LISTEN_ADDR");
        text.parse().unwrap_or_else(|_| {
            self.problems.push(format!(
                "SVC_LISTEN_ADDR: expected an address and a port such as 127.0.0.1:8080, found \"{text}\""
            ));
            SocketAddr::from(([127, 0, 0, 1], 0))
        })
    }

    fn allowed_hosts(&mut self) -> Vec<String> {
        let text = self.text("SVC_ALLOWED_HOSTS").to_lowercase();
        let hosts = text.split(',').map(str::trim).filter(|host| !host.is_empty());
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
        let (good, bad): (Vec<&str>, Vec<&str>) = hosts.partition(|host| host.chars().all(plain));
        for host in bad {
            self.problems.push(format!("SVC_ALLOWED_HOSTS: \"{host}\" is not a host name"));
        }
        good.into_iter().map(str::to_owned).collect()
    }

    /// Returns the secret in a variable, or `None` if the variable is unset.
    pub(super) fn secret(&self, name: &str) -> Option<SecretString> {
        self.values.get(name).map(|value| SecretString::from(value.as_str()))
    }

    /// Returns the token that the program acts with, or `None` if the token is empty.
    ///
    /// The form of the token is not checked.
    fn token(&self) -> Option<SecretString> {
        let text = token_text::trimmed(self.values.get("SVC_TOKEN")?);
        (!text.is_empty()).then(|| SecretString::from(text))
    }

    /// Returns the plain text of a secret, for parsing.
    pub(super) fn plaintext_secret(&self, name: &str) -> Option<Zeroizing<String>> {
        self.values.get(name).cloned()
    }

    /// Parses the key in a variable, or returns `None` if the variable is unset or invalid.
    pub(super) fn key(&mut self, name: &str) -> Option<Key> {
        let text = self.values.get(name)?.clone();
        self.parse_key_of(name, text.trim())
    }

    /// Parses the keys in a variable, which are separated by commas.
    fn keys(&mut self, name: &str) -> Vec<Key> {
        let given = self.values.get(name).cloned().unwrap_or_default();
        let given = given.split(',').map(str::trim).filter(|text| !text.is_empty());
        given.filter_map(|text| self.parse_key_of(name, text)).collect()
    }

    /// Returns the key that signs exports and checkpoints, and the additional trusted public keys.
    pub(super) fn export_keys(&mut self) -> ExportKeys {
        let verify = self.keys("SVC_EXPORT_VERIFY_KEYS").iter().map(|key| *key.expose_secret()).collect();
        ExportKeys { signing: self.key("SVC_EXPORT_SIGNING_KEY"), verify }
    }

    /// Parses one key in the variable `name`.
    fn parse_key_of(&mut self, name: &str, text: &str) -> Option<Key> {
        let key = parse_key(text);
        if key.is_none() {
            self.problems.push(format!("{name}: expected 32 bytes as 64 hex digits or as base64"));
        }
        key
    }

    /// Returns the text in a variable, or its default, or an empty text.
    pub(super) fn text(&self, name: &str) -> String {
        let given = self.values.get(name).map(|value| value.to_string());
        given.or_else(|| find_variable(name).and_then(Variable::default)).unwrap_or_default()
    }

    /// Returns the word in a variable whose words are listed in the registry.
    fn choice(&mut self, name: &str) -> String {
        let text = self.text(name);
        if let Some(Form::OneOf(words)) = find_variable(name).map(|variable| variable.form)
            && !words.contains(&text.as_str())
        {
            self.problems.push(format!("{name}: expected {}, found \"{text}\"", words.join(" or ")));
        }
        text
    }

    /// Returns whether a flag is set.
    pub(super) fn flag(&mut self, name: &str) -> bool {
        match self.text(name).as_str() {
            "1" => true,
            "0" => false,
            other => {
                self.problems.push(format!("{name}: expected 1 or 0, found \"{other}\""));
                false
            }
        }
    }

    /// Parses the number in a variable. Returns 0 after an error, or if the value is 0.
    fn number<T: TryFrom<i64> + Default>(&mut self, name: &str) -> T {
        let (min, max) = match find_variable(name).map(|variable| variable.form) {
            Some(Form::Number(_, min, max) | Form::Bytes(_, min, max)) => (min, max),
            _ => {
                self.problems.push(format!("{name} is not registered as a number"));
                return T::default();
            }
        };
        let text = self.text(name);
        let range: RangeInclusive<i64> = min..=max;
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.and_then(|number| T::try_from(number).ok()).unwrap_or_else(|| {
            self.problems
                .push(format!("{name}: expected a whole number from {min} to {max}, found \"{text}\""));
            T::default()
        })
    }

    /// Parses the number in a variable, or returns `None` if the variable is unset.
    ///
    /// The default of such a variable is determined when the service starts.
    fn number_if_set<T: TryFrom<i64> + Default>(&mut self, name: &str) -> Option<T> {
        if self.text(name).is_empty() { None } else { Some(self.number(name)) }
    }

    /// Parses the number of seconds in a variable.
    pub(super) fn seconds(&mut self, name: &str) -> Duration {
        Duration::from_secs(self.number(name))
    }
}

/// The publicly known key-encryption key for development, which is rejected in production.
pub(super) const INSECURE_DEV_KEK: [u8; 32] = *b"svc public key, development only";

/// Parses a line of [`ENV_FILE`] into a name and a value. Returns `None` for an empty line or a comment.
fn parse_assignment(line: &str) -> Result<Option<(&str, &str)>, &'static str> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let (name, value) = line.split_once('=').ok_or("expected NAME=VALUE")?;
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err("expected NAME=VALUE, with a name of letters, digits and _");
    }
    let quoted = |mark: char| value.strip_prefix(mark).and_then(|rest| rest.strip_suffix(mark));
    Ok(Some((name, quoted('"').or_else(|| quoted('\'')).unwrap_or(value))))
}

/// Parses a key of 32 bytes, in hex or base64.
pub(super) fn parse_key(text: &str) -> Option<Key> {
    let bytes = match text.len() {
        64 => hex::decode(text).ok(),
        _ => {
            let standard = STANDARD_NO_PAD_INDIFFERENT.decode(text);
            standard.or_else(|_| URL_SAFE_NO_PAD_INDIFFERENT.decode(text)).ok()
        }
    };
    let bytes = Zeroizing::new(bytes?);
    Some(SecretBox::new(Box::new(bytes.as_slice().try_into().ok()?)))
}
