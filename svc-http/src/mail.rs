//! Mail: sends letters over SMTP.
//!
//! The letters of a parcel go over one connection. A server that cannot be reached, and does not take the
//! sender or the password, is the operator's trouble, and is tried again; what it says of the receiver
//! decides whether the address is tried again or not any more. Neither addresses nor words are logged.

use std::time::Duration;

use futures_util::future::BoxFuture;
use lettre::address::Envelope;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart};
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt, Rset};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, Message};
use secrecy::ExposeSecret as _;
use svc_core::config::{MailConfig, SmtpSecurity};
use svc_core::mailbox::MailAddress;
use svc_core::op::Arrival;
use svc_core::{Error, Letter, MAIL, Result};
use tokio::time::{Instant, timeout, timeout_at};

use crate::workers::{SEND_TIMEOUT, Sender, Taken};

/// Longest time until there is a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long before the time of a parcel is over its last letter must have been sent.
const RESERVE: Duration = Duration::from_secs(10);
/// Longest time for taking leave of the server.
const QUIT_TIMEOUT: Duration = Duration::from_secs(5);
/// Characters of what a server says that are shown to the receiver.
const DETAIL_MAX: usize = 300;

/// The sender.
pub(crate) struct MailSender {
    config: MailConfig,
    from: Address,
    tls: TlsParameters,
    hello: ClientId,
}

/// Why a letter, or all of them, was not accepted.
enum Failed {
    /// The server does not take this receiver's mail.
    ByReceiver(SmtpError),
    /// The server does not work, or not for this service.
    ByServer(SmtpError),
    /// It took too long.
    Slow,
    /// Nothing can be sent to such an address.
    NoAddress,
    /// The letter could not be written.
    Malformed(String),
}

impl MailSender {
    pub fn new(config: &MailConfig) -> Result<Self> {
        Ok(Self {
            from: address(&config.from.address)?,
            tls: TlsParameters::new(config.server.host.clone()).map_err(Error::internal)?,
            hello: ClientId::default(),
            config: config.clone(),
        })
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, SmtpError> {
        let server = &self.config.server;
        let implicit = (server.security == SmtpSecurity::Tls).then(|| self.tls.clone());
        let at = (&*server.host, server.port);
        let mut connection =
            AsyncSmtpConnection::connect_tokio1(at, Some(CONNECT_TIMEOUT), &self.hello, implicit, None)
                .await?;
        let is_wanted = match server.security {
            SmtpSecurity::Tls => false,
            SmtpSecurity::StartTls => true,
            SmtpSecurity::Local => server.login.is_some() && connection.can_starttls(),
        };
        if is_wanted {
            connection.starttls(self.tls.clone(), &self.hello).await?;
        }
        if let Some(login) = &server.login {
            let [name, password] =
                [&login.name, &login.password].map(|secret| secret.expose_secret().to_owned());
            let mechanisms = [Mechanism::Plain, Mechanism::Login];
            connection.auth(&mechanisms, &Credentials::new(name, password)).await?;
        }
        Ok(connection)
    }

    /// Sends all letters, as far as the time and the connection allow.
    async fn deliver(&self, taken: &Taken) -> Vec<Arrival> {
        let letters: &[Letter] = taken.parcel.pieces();
        let until = Instant::now() + SEND_TIMEOUT.saturating_sub(RESERVE);
        let mut arrivals: Vec<Arrival> = letters.iter().map(|_| Arrival::NotTried).collect();
        let connected = timeout(CONNECT_TIMEOUT.saturating_mul(2), self.connect()).await;
        let mut connection = match connected
            .map_err(|_| Failed::Slow)
            .and_then(|connected| connected.map_err(Failed::ByServer))
        {
            Ok(connection) => connection,
            Err(failed) => {
                arrivals.iter_mut().take(1).for_each(|first| *first = failed.arrival());
                return arrivals;
            }
        };
        let mut failing: Vec<&MailAddress> = Vec::new();
        for (place, (letter, arrival)) in letters.iter().zip(&mut arrivals).enumerate() {
            // What it tells of may have been read or withdrawn since it was written.
            if failing.contains(&letter.to()) || !taken.is_current(place).await {
                continue;
            }
            let sent = timeout_at(until, self.send_one(&mut connection, letter)).await;
            let Err(failed) = sent.map_err(|_| Failed::Slow).flatten() else {
                *arrival = Arrival::Accepted;
                continue;
            };
            *arrival = failed.arrival();
            failing.push(letter.to());
            // What was begun is given up, so that the next letter can follow.
            let goes_on = !matches!(failed, Failed::ByServer(_) | Failed::Slow);
            let reset = timeout(QUIT_TIMEOUT, connection.command(Rset));
            if !goes_on || !reset.await.is_ok_and(|reset| reset.is_ok()) {
                break;
            }
        }
        // Everything has been settled by now, whatever the server says to that.
        let _ = timeout(QUIT_TIMEOUT, connection.abort()).await;
        arrivals
    }

    async fn send_one(&self, connection: &mut AsyncSmtpConnection, letter: &Letter) -> Result<(), Failed> {
        let to = address(letter.to()).map_err(|_| Failed::NoAddress)?;
        let message = self.message(letter, &to)?;
        let by_receiver = |error: SmtpError| match error.status() {
            Some(_) => Failed::ByReceiver(error),
            None => Failed::ByServer(error),
        };
        connection.command(Mail::new(Some(self.from.clone()), Vec::new())).await.map_err(Failed::ByServer)?;
        connection.command(Rcpt::new(to, Vec::new())).await.map_err(by_receiver)?;
        connection.command(Data).await.map_err(by_receiver)?;
        connection.message(&message).await.map_err(by_receiver)?;
        Ok(())
    }

    fn message(&self, letter: &Letter, to: &Address) -> Result<Vec<u8>, Failed> {
        let malformed = |error: lettre::error::Error| Failed::Malformed(error.to_string());
        let id = |left: &str| format!("<{left}@{}>", self.config.from.address.domain());
        let mut builder = Message::builder()
            .from(Mailbox::new(self.config.from.name.clone(), self.from.clone()))
            .to(Mailbox::new(None, to.clone()))
            .subject(letter.subject())
            .message_id(Some(id(letter.id())))
            .raw_header(HeaderValue::new(
                HeaderName::new_from_ascii_str("Auto-Submitted"),
                "auto-generated".to_owned(),
            ));
        if let Some(references) = letter.references() {
            builder = builder.references(id(references)).in_reply_to(id(references));
        }
        let envelope = Envelope::new(Some(self.from.clone()), vec![to.clone()]).map_err(malformed)?;
        let body = MultiPart::alternative_plain_html(letter.text().to_owned(), letter.html().to_owned());
        Ok(builder.envelope(envelope).multipart(body).map_err(malformed)?.formatted())
    }
}

impl Failed {
    /// Returns what became of a letter that failed so; it is logged if the operator can do something.
    fn arrival(&self) -> Arrival {
        match self {
            Self::ByReceiver(error) if error.is_permanent() => Arrival::Refused { detail: said(error) },
            Self::NoAddress => {
                Arrival::Refused { detail: "mail cannot be sent to such an address".to_owned() }
            }
            Self::ByReceiver(error) => Arrival::Later { detail: said(error), after: None },
            Self::ByServer(error) => {
                let status = error.status().map(|code| code.to_string());
                let (tls, slow) = (error.is_tls(), error.is_timeout());
                tracing::warn!(status, tls, slow, "the mail server does not take mail from this service");
                Arrival::Later { detail: "the mail server could not be reached".to_owned(), after: None }
            }
            Self::Slow => {
                tracing::warn!("the mail server took too long");
                Arrival::Later { detail: "the mail server took too long".to_owned(), after: None }
            }
            Self::Malformed(cause) => {
                tracing::error!(cause, "a mail could not be written");
                Arrival::Later { detail: "the mail could not be written".to_owned(), after: None }
            }
        }
    }
}

/// Returns what the server has said, on one line.
fn said(error: &SmtpError) -> String {
    let text = error.to_string();
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(DETAIL_MAX).collect()
}

fn address(address: &MailAddress) -> Result<Address> {
    address.as_str().parse().map_err(|_| Error::internal("an address that is not one for the mail library"))
}

impl Sender for MailSender {
    fn way(&self) -> &'static str {
        MAIL
    }

    fn send<'a>(&'a self, taken: &'a Taken) -> BoxFuture<'a, Vec<Arrival>> {
        Box::pin(self.deliver(taken))
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;
    use svc_core::config::{SmtpLogin, SmtpServer};
    use svc_core::mailbox::Mailbox as Sender;
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::TcpListener;

    use super::*;

    /// Connects to a server that offers a login and no STARTTLS, and returns whether that succeeded and what
    /// the server was told.
    async fn told(security: SmtpSecurity) -> (bool, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let login = SmtpLogin { name: "ada".into(), password: SecretString::from("a secret") };
        let server = SmtpServer { host: "127.0.0.1".to_owned(), port, security, login: Some(login) };
        let from = Sender::parse("svc@example.com").unwrap();
        let sender = MailSender::new(&MailConfig { server, from, delay: Duration::ZERO }).unwrap();
        let serving = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = BufReader::new(stream);
            let mut all = String::new();
            stream.write_all(b"220 here\r\n").await.unwrap();
            while stream.read_line(&mut all).await.is_ok_and(|read| read > 0) {
                let answer: &[u8] = match all.lines().last().unwrap() {
                    hello if hello.starts_with("EHLO") => b"250-here\r\n250 AUTH PLAIN\r\n",
                    login if login.starts_with("AUTH") => b"235 welcome\r\n",
                    _ => b"221 bye\r\n",
                };
                stream.write_all(answer).await.unwrap();
            }
            all
        });
        let connected = sender.connect().await.is_ok();
        (connected, serving.await.unwrap())
    }

    #[test]
    fn nothing_is_said_to_a_server_that_does_not_encrypt() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (connected, all) = runtime.block_on(told(SmtpSecurity::StartTls));
        assert!(!connected && !all.contains("AUTH") && !all.contains("MAIL"), "{all}");
        let (connected, all) = runtime.block_on(told(SmtpSecurity::Local));
        assert!(connected && all.contains("AUTH PLAIN"), "a control: {all}");
    }
}
