//! The registry of variables: their names, allowed values, defaults and descriptions.
//!
//! The reader, the manual page svc-env(7) and the check for unknown names are derived from it.

use std::fmt::Write as _;

use crate::data_access::GROUP_ACCESS;
use crate::limits;
use crate::text::nearest;

/// A configuration variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// The name of the variable in the environment.
    pub name: &'static str,
    /// The allowed values and the default of the variable.
    pub form: Form,
    /// The description of the variable in the manual.
    pub doc: &'static str,
}

/// The allowed values and the default of a variable.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// Text that must not be shown.
    ///
    /// The value may instead be in a file, which the variable with the suffix `_FILE` names.
    Secret,
    /// Text with this default. An empty default means that there is none.
    Text(&'static str),
    /// `1` for yes; `0` or unset for no.
    Flag,
    /// One of these words. The first one is the default.
    OneOf(&'static [&'static str]),
    /// A whole number: default, minimum and maximum.
    Number(i64, i64, i64),
    /// A number of bytes: a description of the default, which depends on the disk; minimum and maximum.
    Bytes(&'static str, i64, i64),
}

impl Variable {
    /// Returns whether the value is a secret, which may be given in a file.
    pub fn secret(&self) -> bool {
        matches!(self.form, Form::Secret)
    }

    /// Returns the default, if there is one.
    pub fn default(&self) -> Option<String> {
        match self.form {
            Form::Secret | Form::Text("") => None,
            Form::Text(text) => Some(text.to_owned()),
            Form::Flag => Some("0".to_owned()),
            Form::OneOf(words) => words.first().map(|word| (*word).to_owned()),
            Form::Number(number, ..) => Some(number.to_string()),
            Form::Bytes(..) => None,
        }
    }

    /// Describes the allowed values for the manual.
    fn allowed(&self) -> String {
        match self.form {
            Form::Secret => format!("secret; {}_FILE may name a file that contains it", self.name),
            Form::Text(_) => "text".to_owned(),
            Form::Flag => "0 or 1".to_owned(),
            Form::OneOf(words) => words.join(" or "),
            Form::Number(_, least, most) | Form::Bytes(_, least, most) => format!("{least} to {most}"),
        }
    }
}

const SECONDS_A_DAY: i64 = 86_400;
const MANY: i64 = 1_000_000;

const fn variable(name: &'static str, form: Form, doc: &'static str) -> Variable {
    Variable { name, form, doc }
}

/// All variables, in the order of the manual.
#[rustfmt::skip]
pub const VARIABLES: &[Variable] = &[
    variable("DATABASE_URL", Form::Secret,
        "The database: postgres://USER:PASSWORD@HOST/DATABASE, or the name=value pairs of libpq. If unset: \
        SQLite, in svc.db of the data folder. After a question mark it may have the parameters of libpq, \
        such as sslmode (disable, allow, prefer, require, verify-ca, verify-full), sslrootcert (a PEM file, \
        or system), sslcert and sslkey (PEM files); see PostgreSQL in svc-http(8). Without an sslmode it is \
        prefer, or verify-full with sslrootcert=system. In production the address of another machine needs \
        an sslmode, or sslrootcert=system."),
    variable("SVC_CONTENT_KEK", Form::Secret,
        "The key-encryption key that wraps the key of each message: 32 bytes, as hex or base64. Needed by \
        everything that reads or writes messages; if it is lost, the content of all messages is lost."),
    variable("SVC_CONTENT_KEK_PREVIOUS", Form::Secret,
        "Earlier key-encryption keys, separated by commas. They only unwrap the keys of messages. Every key \
        that the database was used with must be given, here or in SVC_CONTENT_KEK, until svc rewrap \
        reports that it no longer wraps any message key."),
    variable("SVC_ALLOW_INSECURE_DEV_KEK", Form::Flag,
        "Use a publicly known key if SVC_CONTENT_KEK is not set. Not allowed in production."),
    variable("AUTH_DISABLED", Form::Flag,
        "Let svc-http serve without authentication: a request without a credential acts as the first person \
        of the first workspace, with the capabilities of svc.human.admin. It must name the server by a host \
        name of its own. Needs SVC_ALLOW_INSECURE_NO_AUTH; not allowed in production."),
    variable("SVC_ALLOW_INSECURE_NO_AUTH", Form::Flag,
        "Confirm AUTH_DISABLED, which is rejected without this variable. Not allowed in production."),
    variable("SVC_DEV_ANONYMOUS_MCP_WORKSPACE", Form::Text(""),
        "The id of a workspace whose public channels can be read at the MCP endpoint of svc-http without a \
        credential. The request must name the server by a host name of its own. Not allowed in \
        production."),
    variable("SVC_ENV", Form::OneOf(&["development", "production"]),
        "The environment. In production, settings that are insecure on purpose are rejected."),
    variable(GROUP_ACCESS, Form::Flag,
        "Let the group of the data folder use it, as on a Kubernetes volume with fsGroup: svc accepts group \
        permissions there, but still none for other users, and gives the group access to the files that it \
        creates. All users in that group can read all messages. Set it in the environment: svc refuses to \
        start if it is in svc.env."),
    variable("SVC_ALLOW_UNKNOWN_ENV", Form::Flag,
        "Start even if a variable that begins with SVC_, or one in svc.env, is unknown."),
    variable("SVC_TOKEN", Form::Secret,
        "The token that svc mcp-stdio and the commands of svc act as. White space around it is dropped."),
    variable("SVC_SESSION_SECRET", Form::Secret,
        "The key that signs session cookies: at least 32 bytes. Without it no browser can sign in, and the \
        routes under /auth do not exist."),
    variable("SVC_SESSION_TTL_SECS", Form::Number(limits::SESSION_TTL_SECS, 1, limits::SESSION_TTL_MAX_SECS),
        "Maximum length of a browser session, in seconds."),
    variable("SVC_OIDC_ENABLED", Form::Flag,
        "Let people sign in at an OpenID Connect provider, under /auth/oidc. Requires SVC_SESSION_SECRET \
        and, unless SVC_OIDC_MOCK is 1, the other variables of the provider."),
    variable("SVC_OIDC_ISSUER", Form::Text(""),
        "The issuer of the provider, exactly as its discovery document names it: an https address, or http \
        on this machine outside of production. Only its host may have a private address."),
    variable("SVC_OIDC_CLIENT_ID", Form::Text(""),
        "The client id of this service at the provider."),
    variable("SVC_OIDC_CLIENT_SECRET", Form::Secret,
        "The client secret of this service at the provider."),
    variable("SVC_OIDC_REDIRECT_URI", Form::Text(""),
        "The redirect URI that is registered at the provider: the address of /auth/oidc/callback as browsers \
        reach it, such as https://svc.example.com/auth/oidc/callback. Its host must be a host name of the \
        service."),
    variable("SVC_OIDC_SCOPES", Form::Text("openid email profile"),
        "The scopes that the service asks the provider for, separated by spaces. openid must be one of \
        them."),
    variable("SVC_OIDC_TRUSTED_AUDIENCES", Form::Text(""),
        "Audiences, separated by commas, that an ID token may contain in addition to SVC_OIDC_CLIENT_ID. The \
        audiences of a token whose azp is SVC_OIDC_CLIENT_ID need not be listed."),
    variable("SVC_OIDC_MOCK", Form::Flag,
        "Replace the provider, for development, by a mock that signs in the person in the query of \
        /auth/oidc/login (sub, email and name). Not allowed in production."),
    variable("SVC_OIDC_LINK_EMAIL", Form::Flag,
        "At the first sign-in of a person, link the account at the provider to the member whose handle is \
        the email address that the provider has verified."),
    variable("SVC_OIDC_AUTO_PROVISION", Form::Flag,
        "Create a member for a person who signs in at the provider and is not a member of the workspace."),
    variable("SVC_OIDC_FIRST_ADMIN", Form::Flag,
        "Let a person who has signed in at the identity provider mint the first administrator's token of a \
        workspace that has no such token."),
    variable("SVC_COOKIE_SECURE", Form::OneOf(&["auto", "0", "1"]),
        "Whether browsers send the session cookie over HTTPS only: 1 for yes; 0 for no, which is not allowed \
        in production; auto for yes in production and no otherwise."),
    variable("SVC_PUBLIC_URL", Form::Text(""),
        "The address under which browsers reach the service, such as https://svc.example.com, or \
        https://svc.example.com/team if a proxy in front strips that path. Its host is one of the service's \
         own names, and pages of its origin are the service's own. Redirects begin with its path, and the \
         session cookie is for that path; addresses in responses of SCIM and links to approvals begin with \
         it, without it with the Host of the request, if that is one of these names. Links in mail begin \
         with it."),
    variable("SVC_SMTP_URL", Form::Secret,
        "The server that takes mail to members: smtps://USER:PASSWORD@HOST:PORT, or smtp:// to encrypt by \
        STARTTLS; without USER:PASSWORD it is not signed in. On this machine smtp:// encrypts only with a \
        password and if the server offers it. Certificates are checked against those of the system. Members \
        are mailed only if SVC_MAIL_FROM and SVC_PUBLIC_URL are set, too, and only svc-http sends."),
    variable("SVC_MAIL_FROM", Form::Text(""),
        "The sender of mail to members: ADDRESS or NAME <ADDRESS>."),
    variable("SVC_MAIL_DELAY_SECS", Form::Number(limits::MAIL_DELAY_SECS, 0, 86_400),
        "Seconds before a member is mailed about an unread notification."),
    variable("SVC_VAPID_PRIVATE_KEY", Form::Secret,
        "The P-256 private key that identifies this service to the push services of browsers (RFC 8292): 32 \
        bytes, as hex or base64. Without it there is no web push. Browsers subscribe with this key: after a \
        change, each must subscribe again."),
    variable("SVC_VAPID_SUBJECT", Form::Text(""),
        "The contact for push services: mailto:ADDRESS or https://PAGE. If unset: SVC_PUBLIC_URL, if that is \
        https. Some push services, such as Apple's, reject a service without a contact, or whose contact is \
        at localhost, an IP address or a name that ends with .local or has no dot; svc-http logs a warning \
        about that when it starts."),
    variable("SVC_ALLOW_PRIVATE_EGRESS", Form::Flag,
        "Let requests whose address a member has given, such as those of web push, go to private addresses \
        and over http. Not allowed in production."),
    variable("SVC_EXPORT_SIGNING_KEY", Form::Secret,
        "The Ed25519 seed (RFC 8032) that signs checkpoints: 32 bytes, as hex or base64. Without it nothing \
        is signed."),
    variable("SVC_EXPORT_VERIFY_KEYS", Form::Text(""),
        "Additional trusted Ed25519 public keys, separated by commas: 32 bytes each, as hex or base64."),
    variable("SVC_LISTEN_ADDR", Form::Text("127.0.0.1:8080"),
        "Address and port that svc-http listens on. Port 0 picks a free port."),
    variable("SVC_ALLOWED_HOSTS", Form::Text(""),
        "Host names, separated by commas, under which the service is reached, in addition to localhost and \
        its own address."),
    variable("SVC_TRUSTED_PROXY_HOPS", Form::Number(limits::TRUSTED_PROXY_HOPS, 0, 16),
        "Number of proxies in front of the server whose entries in X-Forwarded-For are trusted, or without \
        any entry there, in Forwarded."),
    variable("SVC_MAX_BODY_BYTES", Form::Number(limits::BODY_MAX_BYTES, 1024, 1 << 30),
        "Limit on the size of a request body, in bytes."),
    variable("SVC_MAX_CONCURRENT_REQUESTS", Form::Number(limits::CONCURRENT_REQUESTS_MAX, 0, MANY),
        "Limit on the requests in flight in one server; 0 means no limit."),
    variable("SVC_MAX_CONNECTIONS", Form::Number(limits::CONNECTIONS_MAX, 0, MANY),
        "Limit on the connections of one server; 0 means no limit. One address may have a tenth of them, \
        unless SVC_TRUSTED_PROXY_HOPS is above 0, since connections then come from proxies."),
    variable("SVC_MAX_WS_CONNECTIONS", Form::Number(limits::WS_CONNECTIONS_MAX, 1, MANY),
        "Limit on the WebSocket connections of one server."),
    variable("SVC_RATE_LIMIT_MAX", Form::Number(limits::RATE_LIMIT_MAX, 0, MANY),
        "Limit on the requests of one client per window; 0 means no limit."),
    variable("SVC_RATE_LIMIT_WINDOW_SECS", Form::Number(limits::RATE_LIMIT_WINDOW_SECS, 1, SECONDS_A_DAY),
        "The window of both rate limits, in seconds."),
    variable("SVC_WORKSPACE_RATE_LIMIT_MAX", Form::Number(limits::WORKSPACE_RATE_LIMIT_MAX, 0, MANY),
        "Limit on the requests to one workspace per window; 0 means no limit."),
    variable("SVC_READ_BUDGET_MS", Form::Number(limits::READ_BUDGET_MS, 0, 60_000),
        "Milliseconds that one read may take; 0 means no limit. The time that it waits does not count. A \
        page ends early then, with a cursor; a read without pages fails with 503 read-too-expensive."),
    variable("SVC_SHUTDOWN_DRAIN_SECS", Form::Number(limits::SHUTDOWN_DRAIN_SECS, 0, 3600),
        "Seconds after a termination signal during which the server still serves and readiness reports \
        draining."),
    variable("SVC_CLAIM_DEFAULT_LEASE_SECS",
        Form::Number(limits::LEASE_DEFAULT_SECS, limits::LEASE_MIN_SECS, limits::LEASE_MAX_SECS),
        "Default lease of a claim, in seconds."),
    variable("SVC_CLAIM_REAP_TICK_SECS", Form::Number(limits::REAP_TICK_SECS, 0, 3600),
        "Seconds between two runs of the reaper, which ends lapsed claims and records expired approval gates \
        and closed votes; 0 turns it off."),
    variable("SVC_CLAIM_ACK_TIMEOUT_SECS", Form::Number(limits::ACK_TIMEOUT_SECS, 0, limits::LEASE_MAX_SECS),
        "Seconds within which a claim must be acknowledged; 0 requires no acknowledgement."),
    variable("SVC_DELIVERY_STABILITY_SECS", Form::Number(limits::DELIVERY_STABILITY_SECS, 0, 3600),
        "Seconds that an event must be old before a durable subscription delivers it; 0 delivers at once."),
    variable("SVC_DELIVERY_RECONCILE_MS", Form::Number(limits::DELIVERY_RECONCILE_MS, 10, 60_000),
        "Milliseconds between two polls of the logs on Postgres, which find events whose notification was \
        lost."),
    variable("SVC_IMPORT_MAX_BYTES", Form::Number(limits::IMPORT_MAX_BYTES, 1 << 20, 1 << 40),
        "Maximum bytes of an export that is imported or verified over HTTP."),
    variable("SVC_IMPORT_WORKSPACES_MAX", Form::Number(limits::IMPORT_WORKSPACES_MAX, 0, MANY),
        "Limit on the workspaces that a workspace and its copies together import within 24 hours; 0 means no \
        limit. It does not apply to callers with the capability operator:global, nor to svc import \
        --as-instance."),
    variable("SVC_SPOOL_MAX_BYTES",
        Form::Bytes("the smaller of 8589934592 and half of the free disk space at the start", 1, 1 << 50),
        "Maximum total bytes of temporary files in one svc-http process: uploads in progress, and exports \
        that a client has not read yet. One workspace may use half of them. A transfer that does not fit \
        fails with 507 insufficient-storage. The temporary files of an import, up to three times the size of \
        its file, count too."),
    variable("SVC_DISK_RESERVE_BYTES",
        Form::Bytes("the smaller of 536870912 and 5 % of the disk", 0, 1 << 50),
        "Bytes on the disk of the data folder that are reserved for the database. When fewer are free, \
        transfers and imports that need space for a file fail with 507 insufficient-storage. 0 reserves \
        nothing."),
    variable("SVC_RETENTION_MESSAGES_DAYS", Form::Number(0, 0, limits::RETENTION_DAYS_MAX),
        "Maximum days that messages are kept; 0 keeps them forever. A workspace can set a shorter time."),
    variable("SVC_RETENTION_EVENTS_DAYS", Form::Number(0, 0, limits::RETENTION_DAYS_MAX),
        "Maximum days that events are kept; 0 keeps them forever. A workspace can set a shorter time."),
    variable("SVC_RETENTION_DELIVERIES_DAYS", Form::Number(0, 0, limits::RETENTION_DAYS_MAX),
        "Maximum days that delivery records are kept; 0 keeps them forever."),
    variable("SVC_RETENTION_MEDIA_DAYS", Form::Number(limits::MEDIA_DAYS, 0, limits::RETENTION_DAYS_MAX),
        "Maximum days that media are kept; 0 keeps them forever."),
    variable("SVC_MEDIA_QUOTA_BYTES",
        Form::Number(limits::MEDIA_QUOTA_BYTES, 1, limits::RETENTION_QUOTA_MAX),
        "Maximum bytes of media that a workspace keeps."),
    variable("SVC_RETENTION_TICK_SECS", Form::Number(limits::RETENTION_TICK_SECS, 0, 86_400),
        "Seconds between two rounds of pruning, which remove data past its retention; 0 turns it off."),
    variable("SVC_LAND_ADVICE", Form::Flag,
        "Let callers ask which conditions the close of a thread would meet (request_land_advice). The answer \
        is advice only."),
    variable("SVC_LOG", Form::Text("info"),
        "The filter of the diagnostic log: a level, or target=level pairs separated by commas. No level \
        writes tokens: the libraries for MCP and WebSocket would log whole messages, so only their errors \
        are written."),
    variable("SVC_LOG_FORMAT", Form::OneOf(&["text", "json"]),
        "The format of the diagnostic log."),
];

pub(super) fn known(name: &str) -> Option<&'static Variable> {
    VARIABLES.iter().find(|variable| variable.name == name)
}

pub(super) fn is_known(name: &str) -> bool {
    let stem = name.strip_suffix("_FILE").and_then(known);
    known(name).is_some() || stem.is_some_and(Variable::secret)
}

/// Returns the known variable that `name` is most likely a misspelling of.
///
/// The names are compared without the common prefix, which would make all of them similar.
pub(super) fn suggestion(name: &str) -> Option<&'static str> {
    let bare = |name: &'static str| name.strip_prefix("SVC_").unwrap_or(name);
    let names: Vec<&'static str> = VARIABLES.iter().map(|variable| bare(variable.name)).collect();
    let near = nearest(name.strip_prefix("SVC_").unwrap_or(name), &names)?;
    VARIABLES.iter().map(|variable| variable.name).find(|name| bare(name) == near)
}

/// Returns the registry as plain text, one variable per line.
///
/// The columns are name, default, allowed values and description, separated by tabs.
pub fn manual() -> String {
    VARIABLES.iter().fold(String::new(), |mut text, variable| {
        let default = match variable.form {
            Form::Bytes(default, ..) => default.to_owned(),
            _ => variable.default().unwrap_or_else(|| "unset".to_owned()),
        };
        let _ = writeln!(text, "{}\t{default}\t{}\t{}", variable.name, variable.allowed(), variable.doc);
        text
    })
}

/// Returns the manual page svc-env(7), in roff.
pub fn manual_page() -> String {
    let mut page = MANUAL_HEAD.to_owned();
    for row in manual().lines() {
        let mut columns = row.split('\t').map(escape_roff);
        let mut column = || columns.next().unwrap_or_default();
        let name = column();
        let default = column();
        let allowed = column();
        let doc = column();
        let _ = write!(page, ".TP\n.B {name}\n{doc}\n.br\nDefault: {default}. Allowed: {allowed}.\n");
    }
    page.push_str(MANUAL_TAIL);
    page
}

const MANUAL_HEAD: &str = r#".TH SVC-ENV 7 "" svc "Agent Collaboration Service"
.SH NAME
svc-env \- variables of the Agent Collaboration Service
.SH DESCRIPTION
.B svc\-http
and
.B svc
read the variables below from the environment. Those that are unset there are read from the file
.I svc.env
in the data folder. That file has one NAME=VALUE per line; a value may be quoted, and lines that begin with #
are comments.
.PP
A secret may be given as a file instead: the variable with the suffix _FILE names it. Line breaks at the end
of the file, and a byte order mark before its text, are not part of the secret. In
.I svc.env
a relative path is relative to the data folder. The program refuses to start if both forms are set or if the
file is unreadable, empty or not UTF\-8.
.PP
A variable with an empty value counts as unset. The program refuses to start if the environment has an unknown
variable that begins with SVC_, or
.I svc.env
has any unknown variable; SVC_ALLOW_UNKNOWN_ENV=1 allows them. Variables that Kubernetes sets for a Service
whose name begins with svc, such as SVC_PORT=tcp://10.0.0.1:80 and SVC_SERVICE_HOST=10.0.0.1, are ignored in
the environment, with a line in the log.
.SH VARIABLES
"#;

const MANUAL_TAIL: &str = r".SH FILES
.TP
.I DIR/svc.env
Written by
.B svc init;
names the files in
.IR DIR/keys .
.SH SEE ALSO
.BR svc (1),
.BR svc\-http (8),
.BR svc\-mcp\-stdio (1),
.BR svc\-operations (7),
.BR svc\-errors (7),
.BR svc\-security (7)
";

/// Escapes `text` so that roff prints it literally in the manual.
pub(crate) fn escape_roff(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    if text.starts_with('.') {
        shown.push_str("\\&");
    }
    for character in text.chars() {
        match character {
            '\\' => shown.push_str("\\e"),
            '-' => shown.push_str("\\-"),
            '\'' => shown.push_str("\\(aq"),
            '^' => shown.push_str("\\(ha"),
            '~' => shown.push_str("\\(ti"),
            other => shown.push(other),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_registry_is_consistent() {
        let mut names: Vec<&str> = VARIABLES.iter().map(|variable| variable.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), VARIABLES.len());
        for variable in VARIABLES {
            assert!(variable.doc.ends_with('.') && !variable.doc.contains(['\t', '\n']), "{}", variable.name);
            if let Form::Number(default, least, most) = variable.form {
                assert!((least..=most).contains(&default), "{}", variable.name);
            }
        }
    }

    /// Checks the generated page.
    ///
    /// `UPDATE_GOLDEN=1 cargo test -p svc-core manual` regenerates it.
    #[test]
    fn the_manual_page_is_that_of_the_registry() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../man/svc-env.7");
        if std::env::var("UPDATE_GOLDEN").is_ok_and(|update| update == "1") {
            std::fs::write(&path, manual_page()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), manual_page());
    }
}
