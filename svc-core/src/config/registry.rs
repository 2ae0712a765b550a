//! The registry of variables: their names, allowed values, defaults and descriptions.
//!
//! The reader, the manual page svc-env(7) and the check for unknown names are derived from the registry.

use std::fmt::Write as _;

use crate::data_access::GROUP_ACCESS;
use crate::limits;
use crate::text::nearest;

/// A configuration variable with its allowed values, its default and its description.
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
    /// Secret text, which errors and logs must not show.
    ///
    /// The value may instead be in a file, whose path is in the variable with the suffix `_FILE`.
    Secret,
    /// Text, with its default. An empty text means that the variable has no default.
    Text(&'static str),
    /// A flag: `1` means yes; `0` or an unset variable means no.
    Flag,
    /// One word from this list. The first word in the list is the default.
    OneOf(&'static [&'static str]),
    /// A whole number, with its default, its minimum and its maximum.
    Number(i64, i64, i64),
    /// A number of bytes, with a description of its default, its minimum and its maximum. The default depends
    /// on the disk.
    Bytes(&'static str, i64, i64),
}

impl Variable {
    /// Returns whether the value of the variable is a secret, which may instead be in a file.
    pub fn is_secret(&self) -> bool {
        matches!(self.form, Form::Secret)
    }

    /// Returns the default of the variable, or `None` if there is none or the default depends on the disk.
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

    /// Returns the description of the variable's allowed values for the manual.
    fn allowed_values(&self) -> String {
        match self.form {
            Form::Secret => format!("secret; {}_FILE may be the path of a file that contains it", self.name),
            Form::Text(_) => "text".to_owned(),
            Form::Flag => "0 or 1".to_owned(),
            Form::OneOf(words) => words.join(" or "),
            Form::Number(_, min, max) | Form::Bytes(_, min, max) => format!("{min} to {max}"),
        }
    }
}

const SECONDS_PER_DAY: i64 = 86_400;
/// Maximum of settings that count requests, connections or workspaces.
const COUNT_MAX: i64 = 1_000_000;

const fn variable(name: &'static str, form: Form, doc: &'static str) -> Variable {
    Variable { name, form, doc }
}

/// All variables, in the order of the manual.
#[rustfmt::skip]
pub const VARIABLES: &[Variable] = &[
    variable("DATABASE_URL", Form::Secret,
        "The address of the database: postgres://USER:PASSWORD@HOST/DATABASE, or the name=value pairs of \
        libpq. If this variable is unset, the database is SQLite, in svc.db of the data folder. Parameters \
        of libpq may follow after a question mark, such as sslmode (disable, allow, prefer, require, \
        verify-ca, verify-full), sslrootcert (a PEM file, or system), sslcert and sslkey (PEM files); see \
        PostgreSQL in svc-http(8). Without sslmode the mode is prefer; with sslrootcert=system and no \
        sslmode it is verify-full. In production the address of another machine needs sslmode or \
        sslrootcert=system."),
    variable("SVC_CONTENT_KEK", Form::Secret,
        "The key-encryption key that wraps the key of each message: 32 bytes, as hex or base64. Every \
        program that reads or writes messages needs this key. If the key is lost, the content of all \
        messages is lost."),
    variable("SVC_CONTENT_KEK_PREVIOUS", Form::Secret,
        "Earlier key-encryption keys, separated by commas. These keys only unwrap; new content is wrapped \
        by SVC_CONTENT_KEK. Every key that the database was used with must be in this variable or in \
        SVC_CONTENT_KEK, until svc rewrap reports that the key wraps nothing; see svc(1)."),
    variable("SVC_ALLOW_INSECURE_DEV_KEK", Form::Flag,
        "Use a publicly known key if SVC_CONTENT_KEK is not set. Not allowed in production."),
    variable("AUTH_DISABLED", Form::Flag,
        "Let svc-http serve without authentication: a request without a credential acts as the first person \
        of the first workspace, with the capabilities of svc.human.admin. The Host of such a request, \
        and its Origin if it has one, must be the server's own. Needs SVC_ALLOW_INSECURE_NO_AUTH; not \
        allowed in production."),
    variable("SVC_ALLOW_INSECURE_NO_AUTH", Form::Flag,
        "Confirm AUTH_DISABLED, which is rejected without this variable. Not allowed in production."),
    variable("SVC_DEV_ANONYMOUS_MCP_WORKSPACE", Form::Text(""),
        "The id of a workspace whose public channels can be read at the MCP endpoint of svc-http without a \
        credential. The Host of such a request, and its Origin if it has one, must be the server's own. Not \
        allowed in production."),
    variable("SVC_ENV", Form::OneOf(&["development", "production"]),
        "The environment. In production, the programs reject settings that are insecure on purpose."),
    variable(GROUP_ACCESS, Form::Flag,
        "Let the group of the data folder use the folder, as on a Kubernetes volume with fsGroup. The \
        programs then accept group permissions in the data folder, but still no permissions of other \
        users. Files that the programs create are accessible to the folder's group. All users in that \
        group can read all messages. Set this variable in the environment: the programs refuse to start \
        if it is in svc.env."),
    variable("SVC_ALLOW_UNKNOWN_ENV", Form::Flag,
        "Start even if a variable that begins with SVC_, or a variable in svc.env, is unknown."),
    variable("SVC_TOKEN", Form::Secret,
        "The token that svc mcp-stdio and the commands of svc act as. White space around the token is \
        ignored."),
    variable("SVC_SESSION_SECRET", Form::Secret,
        "The key that signs session cookies: at least 32 bytes. Without this key no browser can sign in, \
        and the routes under /auth do not exist."),
    variable("SVC_SESSION_TTL_SECS", Form::Number(limits::SESSION_TTL_SECS, 1, limits::SESSION_TTL_MAX_SECS),
        "Maximum length of a browser session, in seconds."),
    variable("SVC_OIDC_ENABLED", Form::Flag,
        "Let people sign in at an OpenID Connect provider, under /auth/oidc. Requires SVC_SESSION_SECRET \
        and, unless SVC_OIDC_MOCK is 1, the other variables of the provider."),
    variable("SVC_OIDC_ISSUER", Form::Text(""),
        "The issuer of the provider, exactly as in the provider's discovery document. The issuer must be an \
        https address, or outside of production an http address on this machine. Of all addresses of the \
        provider, only the issuer's host may have a private address."),
    variable("SVC_OIDC_CLIENT_ID", Form::Text(""),
        "The client id of this service at the provider."),
    variable("SVC_OIDC_CLIENT_SECRET", Form::Secret,
        "The client secret of this service at the provider."),
    variable("SVC_OIDC_REDIRECT_URI", Form::Text(""),
        "The redirect URI that is registered at the provider: the address of /auth/oidc/callback as \
        browsers reach it, such as https://svc.example.com/auth/oidc/callback. The host of this URI must \
        be a host name of the service."),
    variable("SVC_OIDC_SCOPES", Form::Text("openid email profile"),
        "The scopes that the service requests from the provider, separated by spaces. One of the scopes \
        must be openid."),
    variable("SVC_OIDC_TRUSTED_AUDIENCES", Form::Text(""),
        "Audiences, separated by commas, that an ID token may contain in addition to SVC_OIDC_CLIENT_ID. \
        The audiences of a token whose azp is SVC_OIDC_CLIENT_ID need not be listed."),
    variable("SVC_OIDC_MOCK", Form::Flag,
        "For development, replace the provider by a mock. The mock signs in the person that the query \
        parameters sub, email and name of /auth/oidc/login describe. Not allowed in production."),
    variable("SVC_OIDC_LINK_EMAIL", Form::Flag,
        "At the first sign-in of a person, link the person's account at the provider to the member whose \
        handle is the person's email address. The provider must have verified this address."),
    variable("SVC_OIDC_AUTO_PROVISION", Form::Flag,
        "Create a member for a person who signs in at the provider and is not a member of the workspace."),
    variable("SVC_OIDC_FIRST_ADMIN", Form::Flag,
        "Let a person who has signed in at the identity provider mint the first administrator's token of a \
        workspace that has no such token."),
    variable("SVC_COOKIE_SECURE", Form::OneOf(&["auto", "0", "1"]),
        "Whether browsers send the session cookie over HTTPS only. 1 means yes. 0 means no, and is not \
        allowed in production. auto means yes in production and no otherwise."),
    variable("SVC_PUBLIC_URL", Form::Text(""),
        "The address under which browsers reach the service, such as https://svc.example.com, or \
        https://svc.example.com/team if a proxy strips that path. The host of this address is one of the \
        service's own names, and pages of its origin are the service's own pages. Redirects begin with its \
        path, and the session cookie is for that path. Addresses in responses of SCIM, links to approvals \
        and links in mail begin with this address. If this variable is unset, addresses in responses of \
        SCIM and links to approvals begin with the Host of the request, if that is one of the service's \
        own names."),
    variable("SVC_SMTP_URL", Form::Secret,
        "The address of the mail server that sends mail to members: smtps://USER:PASSWORD@HOST:PORT, or \
        smtp:// to encrypt by STARTTLS. Without USER:PASSWORD, the service does not authenticate to the mail \
        server. If the mail server is on this machine, smtp:// encrypts only with a password and only if \
        the mail server offers encryption. The service checks certificates against those of the system. \
        The service sends mail only if SVC_MAIL_FROM and SVC_PUBLIC_URL are set, too. Only svc-http sends \
        mail."),
    variable("SVC_MAIL_FROM", Form::Text(""),
        "The sender of mail to members: ADDRESS or NAME <ADDRESS>."),
    variable("SVC_MAIL_DELAY_SECS", Form::Number(limits::MAIL_DELAY_SECS, 0, 86_400),
        "Seconds before the service mails a member about an unread notification."),
    variable("SVC_VAPID_PRIVATE_KEY", Form::Secret,
        "The P-256 private key that identifies this service to the push services of browsers (RFC 8292): 32 \
        bytes, as hex or base64. Without this key there is no web push. Browsers subscribe with this key; \
        if the key changes, each browser must subscribe again."),
    variable("SVC_VAPID_SUBJECT", Form::Text(""),
        "The contact for push services: mailto:ADDRESS or https://PAGE. If this variable is unset, the \
        contact is SVC_PUBLIC_URL, if that is https. Some push services, such as Apple's, reject a service \
        without a contact. These push services also reject a contact at localhost, at an IP address, or at \
        a name that ends with .local or has no dot. svc-http logs a warning when it starts if the contact \
        is missing or such a one."),
    variable("SVC_ALLOW_PRIVATE_EGRESS", Form::Flag,
        "Let requests to addresses that members have entered, such as requests of web push, go to private \
        addresses and over http. Not allowed in production."),
    variable("SVC_EXPORT_SIGNING_KEY", Form::Secret,
        "The Ed25519 seed (RFC 8032) that signs exports and checkpoints: 32 bytes, as hex or base64. \
        Without this key the service signs nothing."),
    variable("SVC_EXPORT_VERIFY_KEYS", Form::Text(""),
        "Additional Ed25519 public keys whose signatures on exports and checkpoints are trusted, separated \
        by commas: 32 bytes each, as hex or base64."),
    variable("SVC_LISTEN_ADDR", Form::Text("127.0.0.1:8080"),
        "Address and port that svc-http listens on. With port 0 the server picks a free port."),
    variable("SVC_ALLOWED_HOSTS", Form::Text(""),
        "Additional host names of the service, separated by commas. localhost and the server's own address \
        are always host names of the service."),
    variable("SVC_TRUSTED_PROXY_HOPS", Form::Number(limits::TRUSTED_PROXY_HOPS, 0, 16),
        "Number of proxies in front of the server whose entries in X-Forwarded-For are trusted. If \
        X-Forwarded-For has no entry, the entries in Forwarded are trusted instead."),
    variable("SVC_MAX_BODY_BYTES", Form::Number(limits::BODY_MAX_BYTES, 1024, 1 << 30),
        "Maximum bytes of a request body."),
    variable("SVC_MAX_CONCURRENT_REQUESTS", Form::Number(limits::CONCURRENT_REQUESTS_MAX, 0, COUNT_MAX),
        "Maximum requests in flight in one server; 0 means no limit."),
    variable("SVC_MAX_CONNECTIONS", Form::Number(limits::CONNECTIONS_MAX, 0, COUNT_MAX),
        "Maximum connections of one server; 0 means no limit. One address may have a tenth of these \
        connections, unless SVC_TRUSTED_PROXY_HOPS is above 0, since connections then come from proxies."),
    variable("SVC_MAX_WS_CONNECTIONS", Form::Number(limits::WS_CONNECTIONS_MAX, 1, COUNT_MAX),
        "Maximum WebSocket connections of one server."),
    variable("SVC_RATE_LIMIT_MAX", Form::Number(limits::RATE_LIMIT_MAX, 0, COUNT_MAX),
        "Maximum requests of one client per window; 0 means no limit."),
    variable("SVC_RATE_LIMIT_WINDOW_SECS", Form::Number(limits::RATE_LIMIT_WINDOW_SECS, 1, SECONDS_PER_DAY),
        "Length of the window of the two rate limits, in seconds."),
    variable("SVC_WORKSPACE_RATE_LIMIT_MAX", Form::Number(limits::WORKSPACE_RATE_LIMIT_MAX, 0, COUNT_MAX),
        "Maximum requests to one workspace per window; 0 means no limit."),
    variable("SVC_READ_BUDGET_MS", Form::Number(limits::READ_BUDGET_MS, 0, 60_000),
        "Milliseconds that one read may take; 0 means no limit. Time in a queue does not count. A page that \
        reaches this limit ends early, with a cursor. A read without pages fails with 503 \
        read-too-expensive."),
    variable("SVC_SHUTDOWN_DRAIN_SECS", Form::Number(limits::SHUTDOWN_DRAIN_SECS, 0, 3600),
        "Seconds after a termination signal during which the server still serves and readiness reports \
        draining."),
    variable("SVC_CLAIM_DEFAULT_LEASE_SECS",
        Form::Number(limits::LEASE_DEFAULT_SECS, limits::LEASE_MIN_SECS, limits::LEASE_MAX_SECS),
        "Default length of the lease of a claim, in seconds."),
    variable("SVC_CLAIM_REAP_TICK_SECS", Form::Number(limits::REAP_TICK_SECS, 0, 3600),
        "Seconds between two runs of the reaper, which ends lapsed claims and records expired approval \
        gates and closed votes; 0 turns the reaper off in this process."),
    variable("SVC_CLAIM_ACK_TIMEOUT_SECS", Form::Number(limits::ACK_TIMEOUT_SECS, 0, limits::LEASE_MAX_SECS),
        "Seconds within which the holder must acknowledge a claim; 0 requires no acknowledgement."),
    variable("SVC_DELIVERY_STABILITY_SECS", Form::Number(limits::DELIVERY_STABILITY_SECS, 0, 3600),
        "Minimum age of an event, in seconds, before a durable subscription delivers the event; 0 means \
        immediate delivery."),
    variable("SVC_DELIVERY_RECONCILE_MS", Form::Number(limits::DELIVERY_RECONCILE_MS, 10, 60_000),
        "Milliseconds between two polls of the logs on Postgres. These polls find events whose notification \
        was lost."),
    variable("SVC_IMPORT_MAX_BYTES", Form::Number(limits::IMPORT_MAX_BYTES, 1 << 20, 1 << 40),
        "Maximum bytes of an export that is imported or verified over HTTP."),
    variable("SVC_IMPORT_WORKSPACES_MAX", Form::Number(limits::IMPORT_WORKSPACES_MAX, 0, COUNT_MAX),
        "Maximum workspaces that a workspace and its copies together import within 24 hours; 0 means no \
        limit. The limit does not apply to callers with the capability operator:global, nor to svc import \
        --as-instance."),
    variable("SVC_SPOOL_MAX_BYTES",
        Form::Bytes("the smaller of 8589934592 and half of the free disk space at the start", 1, 1 << 50),
        "Maximum total bytes of temporary files in one svc-http process: uploads in progress, and exports \
        that a client has not read yet. The temporary files of an import, up to three times the size of \
        its file, count too. One workspace may use half of these bytes. A transfer that does not fit fails \
        with 507 insufficient-storage."),
    variable("SVC_DISK_RESERVE_BYTES",
        Form::Bytes("the smaller of 536870912 and 5 % of the disk", 0, 1 << 50),
        "Bytes on the disk of the data folder that are reserved for the database. If the disk has fewer \
        free bytes, transfers and imports that need space for a file fail with 507 insufficient-storage. 0 \
        reserves nothing."),
    variable("SVC_RETENTION_MESSAGES_DAYS", Form::Number(0, 0, limits::RETENTION_DAYS_MAX),
        "Maximum days that the service keeps messages; 0 keeps messages forever. A workspace can set a \
        shorter time."),
    variable("SVC_RETENTION_EVENTS_DAYS", Form::Number(0, 0, limits::RETENTION_DAYS_MAX),
        "Maximum days that the service keeps events; 0 keeps events forever. A workspace can set a shorter \
        time."),
    variable("SVC_RETENTION_DELIVERIES_DAYS", Form::Number(0, 0, limits::RETENTION_DAYS_MAX),
        "Maximum days that the service keeps delivery records; 0 keeps delivery records forever."),
    variable("SVC_RETENTION_MEDIA_DAYS",
        Form::Number(limits::MEDIA_RETENTION_DEFAULT_DAYS, 0, limits::RETENTION_DAYS_MAX),
        "Maximum days that the service keeps media; 0 keeps media forever."),
    variable("SVC_MEDIA_QUOTA_BYTES",
        Form::Number(limits::MEDIA_QUOTA_BYTES, 1, limits::RETENTION_QUOTA_MAX),
        "Maximum bytes of media that the service keeps for a workspace."),
    variable("SVC_RETENTION_TICK_SECS", Form::Number(limits::RETENTION_TICK_SECS, 0, 86_400),
        "Seconds between two rounds of pruning, which remove data past its retention; 0 turns pruning off \
        in this process."),
    variable("SVC_LAND_ADVICE", Form::Flag,
        "Let callers ask which conditions the close of a thread would meet (request_land_advice). The \
        answer is advice only."),
    variable("SVC_LOG", Form::Text("info"),
        "The filter of the diagnostic log: a level, or target=level pairs separated by commas. No level \
        writes tokens. The libraries for MCP and WebSocket would log whole messages, so only errors of \
        these libraries are written."),
    variable("SVC_LOG_FORMAT", Form::OneOf(&["text", "json"]),
        "The format of the diagnostic log."),
];

/// Returns the variable with the name `name`, if it is registered.
pub(super) fn find_variable(name: &str) -> Option<&'static Variable> {
    VARIABLES.iter().find(|variable| variable.name == name)
}

/// Returns whether `name` is the name of a variable, or of a secret with the suffix `_FILE`.
pub(super) fn is_known(name: &str) -> bool {
    let stem = name.strip_suffix("_FILE").and_then(find_variable);
    find_variable(name).is_some() || stem.is_some_and(Variable::is_secret)
}

/// Returns the known variable that `name` is most likely a misspelling of.
///
/// The names are compared without the common prefix `SVC_`, which would make all names similar.
pub(super) fn suggest_variable(name: &str) -> Option<&'static str> {
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
        let _ =
            writeln!(text, "{}\t{default}\t{}\t{}", variable.name, variable.allowed_values(), variable.doc);
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
read the variables below from the environment. The programs read variables that are unset in the environment
from the file
.I svc.env
in the data folder. This file has one NAME=VALUE per line. A value may be quoted, and lines that begin with #
are comments.
.PP
A secret may be in a file instead. The path of this file is the value of the variable with the suffix _FILE.
Line breaks at the end of the file, and a byte order mark before its text, are not part of the secret. In
.I svc.env
a relative path is relative to the data folder. The programs refuse to start if both a variable and its form
with _FILE are set. The programs also refuse to start if the file is unreadable, empty or not UTF\-8.
.PP
A variable with an empty value counts as unset. The programs refuse to start if the environment has an unknown
variable that begins with SVC_, or if
.I svc.env
has any unknown variable. With SVC_ALLOW_UNKNOWN_ENV=1 the programs accept unknown variables. Kubernetes sets
variables for a Service whose name is svc or begins with svc\-, such as SVC_PORT=tcp://10.0.0.1:80 and
SVC_SERVICE_HOST=10.0.0.1. The programs ignore these variables in the environment, with a line in the log.
.SH VARIABLES
"#;

const MANUAL_TAIL: &str = r".SH FILES
.TP
.I DIR/svc.env
.B svc init
writes this file, which contains the paths of the files in
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

    /// Compares the generated manual page with the committed page.
    ///
    /// `UPDATE_GOLDEN=1 cargo test -p svc-core manual` regenerates the committed page.
    #[test]
    fn the_manual_page_is_that_of_the_registry() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../man/svc-env.7");
        if std::env::var("UPDATE_GOLDEN").is_ok_and(|update| update == "1") {
            std::fs::write(&path, manual_page()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), manual_page());
    }
}
