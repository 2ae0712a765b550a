//! The configuration variables for mail.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use secrecy::SecretString;

use super::is_loopback;
use super::public_url::PublicUrl;
use super::reader::Reader;
use crate::mailbox::Mailbox;

/// The mail settings of a configuration.
#[derive(Clone, Debug)]
pub struct MailConfig {
    /// The mail server that sends mail to members (`SVC_SMTP_URL`).
    pub server: SmtpServer,
    /// The sender of mail to members (`SVC_MAIL_FROM`).
    pub from: Mailbox,
    /// Time before a member is mailed about an unread notification (`SVC_MAIL_DELAY_SECS`).
    pub delay: Duration,
}

/// A mail server, with its encryption and the account for it.
#[derive(Clone, Debug)]
pub struct SmtpServer {
    /// The host name or address of the mail server.
    pub host: String,
    /// The port of the mail server.
    pub port: u16,
    /// The encryption of the connection to the mail server.
    pub security: SmtpSecurity,
    /// The account at the mail server, or `None` if the service does not sign in there.
    pub login: Option<SmtpLogin>,
}

/// Encryption of the connection to a mail server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmtpSecurity {
    /// TLS from the first byte of the connection (`smtps`).
    Tls,
    /// STARTTLS is required. If the mail server does not offer STARTTLS, no mail is sent.
    StartTls,
    /// The mail server is on this machine, and STARTTLS is used only if the server offers it.
    Local,
}

/// The name and the password of an account at a mail server.
#[derive(Clone, Debug)]
pub struct SmtpLogin {
    /// The name of the account at the mail server.
    pub name: SecretString,
    /// The password of the account at the mail server.
    pub password: SecretString,
}

impl Reader {
    /// Returns the mail settings, or `None` unless the mail server, the sender and the public URL are set.
    pub(super) fn mail(&mut self, public_url: Option<&PublicUrl>) -> Option<MailConfig> {
        let delay = self.seconds("SVC_MAIL_DELAY_SECS");
        let server = self.smtp_server();
        let from = self.text("SVC_MAIL_FROM");
        if from.is_empty() {
            return None;
        }
        let Some(from) = Mailbox::parse(&from) else {
            self.reject(&format!("SVC_MAIL_FROM: expected ADDRESS or NAME <ADDRESS>, found \"{from}\""));
            return None;
        };
        public_url?;
        Some(MailConfig { server: server?, from, delay })
    }

    fn smtp_server(&mut self) -> Option<SmtpServer> {
        let text = self.plaintext_secret("SVC_SMTP_URL")?;
        let server = parse_smtp_server(&text);
        if server.is_none() {
            self.reject("SVC_SMTP_URL: expected smtps://USER:PASSWORD@HOST:PORT, or smtp:// for STARTTLS");
        }
        server
    }
}

/// Parses the URL of a mail server.
fn parse_smtp_server(text: &str) -> Option<SmtpServer> {
    let (scheme, rest) = text.split_once("://")?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (login, authority) = match rest.rsplit_once('@') {
        Some((login, authority)) => (Some(parse_smtp_login(login)?), authority),
        None => (None, rest),
    };
    let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (authority, None),
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
    if host.is_empty() || !host.chars().all(plain) {
        return None;
    }
    let (security, usual) = match scheme {
        "smtps" => (SmtpSecurity::Tls, 465),
        "smtp" if is_loopback(authority) => (SmtpSecurity::Local, 25),
        "smtp" => (SmtpSecurity::StartTls, 587),
        _ => return None,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Some(SmtpServer { host, port: port.unwrap_or(usual), security, login })
}

/// Parses a name and a password, in which special characters are percent-encoded.
fn parse_smtp_login(text: &str) -> Option<SmtpLogin> {
    let (name, password) = text.split_once(':')?;
    let decoded = |text: &str| {
        let text = percent_decode_str(text).decode_utf8().ok()?;
        (!text.is_empty()).then(|| SecretString::from(text.into_owned()))
    };
    Some(SmtpLogin { name: decoded(name)?, password: decoded(password)? })
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;
    use crate::config::Config;

    #[test]
    fn a_server_is_spoken_to_in_secret_unless_it_is_this_machine() {
        use SmtpSecurity::{Local, StartTls, Tls};
        for (text, host, port, security) in [
            ("smtps://mail.example", "mail.example", 465, Tls),
            ("smtps://localhost:1465/", "localhost", 1465, Tls),
            ("smtp://mail.example", "mail.example", 587, StartTls),
            ("smtp://10.0.0.1:25", "10.0.0.1", 25, StartTls),
            ("smtp://[2001:db8::1]", "2001:db8::1", 587, StartTls),
            ("smtp://localhost", "localhost", 25, Local),
            ("smtp://127.0.0.1:1025", "127.0.0.1", 1025, Local),
            ("smtp://[::1]:1025", "::1", 1025, Local),
        ] {
            let found = parse_smtp_server(text).unwrap();
            assert_eq!((&*found.host, found.port, found.security), (host, port, security), "{text}");
            assert!(found.login.is_none(), "{text}");
        }
        let login =
            parse_smtp_server("smtps://ada%40example.com:p%3A%2Fw@mail.example").unwrap().login.unwrap();
        let shown = (login.name.expose_secret(), login.password.expose_secret());
        assert_eq!(shown, ("ada@example.com", "p:/w"));
        for bad in [
            "",
            "mail.example",
            "http://mail.example",
            "smtp://",
            "smtp://ada@mail.example",
            "smtp://:x@m",
            "smtp://m:port",
            "smtp://m:70000",
            "smtp://m/path",
            "smtp://m?tls=none",
            "smtp://a b",
        ] {
            assert!(parse_smtp_server(bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn mail_needs_a_server_a_sender_and_a_public_address() {
        let all = [
            ("SVC_SMTP_URL", "smtp://ada:a-secret-password@mail.example"),
            ("SVC_MAIL_FROM", "Night shift <svc@example.com>"),
            ("SVC_PUBLIC_URL", "https://svc.example"),
        ];
        let folder = tempfile::tempdir().unwrap();
        let config = Config::read(all, folder.path()).unwrap();
        let shown = format!("{config:?}");
        assert!(!shown.contains("a-secret") && !shown.contains("ada"), "{shown}");
        let mail = config.mail.unwrap();
        assert_eq!((mail.delay, mail.from.name.as_deref()), (Duration::from_secs(120), Some("Night shift")));
        for missing in 0..all.len() {
            let some = all.into_iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, one)| one);
            assert!(Config::read(some, folder.path()).unwrap().mail.is_none());
        }
        for (name, value) in [("SVC_SMTP_URL", "mail:a-secret"), ("SVC_MAIL_FROM", "Night shift")] {
            let error = Config::read([(name, value)], folder.path()).unwrap_err();
            assert!(error.detail().contains(name) && !error.detail().contains("a-secret"), "{error:?}");
        }
    }
}
