//! The registry: every variable by name, what it takes, its default and what it decides. The reader, the manual
//! page svc-env(7) and the refusal of unknown names follow from it.

use std::fmt::Write as _;

use crate::limits;
use crate::text::{nearest, roff};

/// One variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name in the environment.
    pub name: &'static str,
    /// What it takes, and what holds when it is not set.
    pub form: Form,
    /// What it decides.
    pub doc: &'static str,
}

/// What a variable takes.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// Text that must not be shown; the name followed by `_FILE` may name a file with it instead.
    Secret,
    /// Text, with a default unless it is empty.
    Text(&'static str),
    /// `1` for yes; `0` and nothing for no.
    Flag,
    /// One of these words, of which the first is the default.
    OneOf(&'static [&'static str]),
    /// A whole number: the default, the least and the most.
    Number(i64, i64, i64),
}

impl Variable {
    /// Whether the value is a secret, which may come as a file.
    pub fn secret(&self) -> bool {
        matches!(self.form, Form::Secret)
    }

    /// The value when the variable is not set, if there is one.
    pub fn default(&self) -> Option<String> {
        match self.form {
            Form::Secret | Form::Text("") => None,
            Form::Text(text) => Some(text.to_owned()),
            Form::Flag => Some("0".to_owned()),
            Form::OneOf(words) => words.first().map(|word| (*word).to_owned()),
            Form::Number(number, ..) => Some(number.to_string()),
        }
    }

    /// What is allowed, for the manual.
    fn allowed(&self) -> String {
        match self.form {
            Form::Secret => format!("secret; {}_FILE may name a file with it", self.name),
            Form::Text(_) => "text".to_owned(),
            Form::Flag => "0 or 1".to_owned(),
            Form::OneOf(words) => words.join(" or "),
            Form::Number(_, least, most) => format!("{least} to {most}"),
        }
    }
}

const SECONDS_A_DAY: i64 = 86_400;
const MANY: i64 = 1_000_000;

const fn variable(name: &'static str, form: Form, doc: &'static str) -> Variable {
    Variable { name, form, doc }
}

/// Every variable there is, in the manual's order.
#[rustfmt::skip]
pub const VARIABLES: &[Variable] = &[
    variable("DATABASE_URL", Form::Secret,
        "Where the rows are kept: postgres://USER:PASSWORD@HOST/DATABASE. Unset: SQLite, in svc.db of the data folder."),
    variable("SVC_CONTENT_KEK", Form::Secret,
        "The key-encryption key that wraps the key of each message: 32 bytes, as hex or base64. Needed by everything that reads or writes messages; who loses it loses the words of all messages."),
    variable("SVC_CONTENT_KEK_PREVIOUS", Form::Secret,
        "Other key-encryption keys, separated by commas: they open messages and wrap none. Every key that the database was used with must be given, here or in SVC_CONTENT_KEK."),
    variable("SVC_ALLOW_INSECURE_DEV_KEK", Form::Flag,
        "Use a key that everybody knows where SVC_CONTENT_KEK is not set. Refused in production."),
    variable("AUTH_DISABLED", Form::Flag,
        "Serve without authentication. There is no such mode: anything but 0 refuses the start."),
    variable("SVC_ALLOW_INSECURE_NO_AUTH", Form::Flag,
        "Would allow AUTH_DISABLED outside of production. There is no such mode: anything but 0 refuses the start."),
    variable("SVC_ENV", Form::OneOf(&["development", "production"]),
        "In production, every setting that is unsafe on purpose is refused."),
    variable("SVC_ALLOW_UNKNOWN_ENV", Form::Flag,
        "Start although a variable that begins with SVC_ is unknown."),
    variable("SVC_TOKEN", Form::Secret,
        "The token as which svc mcp-stdio and the commands of svc act."),
    variable("SVC_SESSION_SECRET", Form::Secret,
        "The key that signs session cookies: at least 32 bytes."),
    variable("SVC_EXPORT_SIGNING_KEY", Form::Secret,
        "The Ed25519 seed that signs exports: 32 bytes, as hex or base64."),
    variable("SVC_LISTEN_ADDR", Form::Text("127.0.0.1:8080"),
        "Address and port that svc-http serves on. Port 0 takes a free one."),
    variable("SVC_ALLOWED_HOSTS", Form::Text(""),
        "Host names, separated by commas, under which the service is reached besides localhost and its own address."),
    variable("SVC_TRUSTED_PROXY_HOPS", Form::Number(limits::TRUSTED_PROXY_HOPS, 0, 16),
        "Proxies in front of the server whose X-Forwarded-For entries are believed."),
    variable("SVC_MAX_BODY_BYTES", Form::Number(limits::BODY_MAX_BYTES, 1024, 1 << 30),
        "Size of a request body, in bytes."),
    variable("SVC_MAX_CONCURRENT_REQUESTS", Form::Number(limits::CONCURRENT_REQUESTS_MAX, 0, MANY),
        "Requests in flight in one server; 0 means any number."),
    variable("SVC_MAX_CONNECTIONS", Form::Number(limits::CONNECTIONS_MAX, 0, MANY),
        "Connections of one server; one address may have a tenth of them, unless SVC_TRUSTED_PROXY_HOPS says that it is a proxy. 0 means any number."),
    variable("SVC_MAX_WS_CONNECTIONS", Form::Number(limits::WS_CONNECTIONS_MAX, 1, MANY),
        "WebSocket connections of one server."),
    variable("SVC_RATE_LIMIT_MAX", Form::Number(limits::RATE_LIMIT_MAX, 0, MANY),
        "Requests of one client in a window; 0 means any number."),
    variable("SVC_RATE_LIMIT_WINDOW_SECS", Form::Number(limits::RATE_LIMIT_WINDOW_SECS, 1, SECONDS_A_DAY),
        "The window of both rate limits, in seconds."),
    variable("SVC_WORKSPACE_RATE_LIMIT_MAX", Form::Number(limits::WORKSPACE_RATE_LIMIT_MAX, 0, MANY),
        "Requests into one workspace in a window; 0 means any number."),
    variable("SVC_SHUTDOWN_DRAIN_SECS", Form::Number(limits::SHUTDOWN_DRAIN_SECS, 0, 3600),
        "Seconds after a termination signal in which the server still serves and says that it is draining."),
    variable("SVC_CLAIM_DEFAULT_LEASE_SECS",
        Form::Number(limits::LEASE_DEFAULT_SECS, limits::LEASE_MIN_SECS, limits::LEASE_MAX_SECS),
        "Lease of a claim whose caller names none, in seconds."),
    variable("SVC_CLAIM_REAP_TICK_SECS", Form::Number(limits::REAP_TICK_SECS, 0, 3600),
        "Seconds between two rounds that end lapsed claims; 0 turns them off."),
    variable("SVC_CLAIM_ACK_TIMEOUT_SECS", Form::Number(limits::ACK_TIMEOUT_SECS, 0, limits::LEASE_MAX_SECS),
        "Seconds in which a claim must be acknowledged; 0 asks for no acknowledgement."),
    variable("SVC_LOG", Form::Text("info"),
        "What is written to the trace, as a filter: a level, or target=level pairs separated by commas. No level shows a token: of the libraries that speak MCP and WebSocket, which write whole messages, only errors are shown."),
    variable("SVC_LOG_FORMAT", Form::OneOf(&["text", "json"]),
        "How the trace is written."),
];

pub(super) fn known(name: &str) -> Option<&'static Variable> {
    VARIABLES.iter().find(|variable| variable.name == name)
}

pub(super) fn is_known(name: &str) -> bool {
    let stem = name.strip_suffix("_FILE").and_then(known);
    known(name).is_some() || stem.is_some_and(Variable::secret)
}

/// The known variable that `name` is most likely a slip of. The common prefix would make all alike.
pub(super) fn suggestion(name: &str) -> Option<&'static str> {
    let bare = |name: &'static str| name.strip_prefix("SVC_").unwrap_or(name);
    let names: Vec<&'static str> = VARIABLES.iter().map(|variable| bare(variable.name)).collect();
    let near = nearest(name.strip_prefix("SVC_").unwrap_or(name), &names)?;
    VARIABLES.iter().map(|variable| variable.name).find(|name| bare(name) == near)
}

/// The registry as plain text: name, default, what is allowed and what it decides, one variable a line,
/// separated by tabs.
pub fn manual() -> String {
    VARIABLES.iter().fold(String::new(), |mut text, variable| {
        let default = variable.default().unwrap_or_else(|| "unset".to_owned());
        let _ = writeln!(text, "{}\t{default}\t{}\t{}", variable.name, variable.allowed(), variable.doc);
        text
    })
}

/// The manual page svc-env(7), in roff.
pub fn manual_page() -> String {
    let mut page = MANUAL_HEAD.to_owned();
    for row in manual().lines() {
        let mut columns = row.split('\t').map(roff);
        let mut column = || columns.next().unwrap_or_default();
        let (name, default, allowed, doc) = (column(), column(), column(), column());
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
read the variables below from the environment, and from the file
.I svc.env
of the data folder what the environment leaves unset. That file has one NAME=VALUE a line; a value may stand in
quotes, and lines that begin with # are comments.
.PP
A secret may instead be given as a file: the variable's name followed by _FILE names it. Line ends that close the
file are no part of the secret. In
.I svc.env
a relative path begins at the data folder. To set both forms, or to name a file that is unreadable, empty or not
UTF\-8, refuses the start.
.PP
A variable without a value counts as unset. An unknown name that begins with SVC_, in the environment, or any unknown
name, in
.IR svc.env ,
refuses the start; SVC_ALLOW_UNKNOWN_ENV=1 lets it pass.
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
.BR svc\-errors (7)
";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_registry_is_whole() {
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

    /// `UPDATE_GOLDEN=1 cargo test -p svc-core manual` writes the page anew.
    #[test]
    fn the_manual_page_is_that_of_the_registry() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../man/svc-env.7");
        if std::env::var("UPDATE_GOLDEN").is_ok_and(|update| update == "1") {
            std::fs::write(&path, manual_page()).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), manual_page());
    }
}
