//! Sends mail over SMTP.
//!
//! All mails of a batch are sent over one connection. If the mail server cannot be reached, or rejects the
//! sender or the password, the operator must act, and the mails are retried. A temporarily rejected mail is
//! retried. If the mail server permanently rejects a receiver as unknown, the address is suspended; if it
//! permanently rejects a mail for another reason, the mail is dropped. Neither addresses nor content are
//! logged.

use std::time::Duration;

use lettre::address::Envelope;
use lettre::message::header::{HeaderName, HeaderValue};
use lettre::message::{Mailbox, MultiPart};
use lettre::transport::smtp::Error as SmtpError;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::AsyncSmtpConnection;
use lettre::transport::smtp::commands::{Data, Mail, Rcpt, Rset};
use lettre::transport::smtp::extension::ClientId;
use lettre::{Address, Message};
use secrecy::ExposeSecret as _;
use svc_core::config::MailConfig;
use svc_core::mailbox::MailAddress;
use svc_core::op::{DeliveryChannel, DeliveryResult};
use svc_core::{Error, Letter, MAIL, MAIL_REFUSALS_MAX, Result};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;

use crate::smtp::{EnhancedStatus, RejectionReply, SmtpFailure};
use crate::smtp_stream;
use crate::workers::{BatchSender, LeasedBatch, SEND_TIMEOUT};

/// Maximum time to connect to the mail server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Part of [`SEND_TIMEOUT`] that is reserved for ending the connection, after the last mail was sent.
const END_RESERVE: Duration = Duration::from_secs(10);
/// Maximum time for each of the commands RSET and QUIT.
const RESET_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum characters of a mail server's reply in the error that a member sees.
const DETAIL_CHARS_MAX: usize = 300;

/// Sends batches of mail through the configured mail server.
pub(crate) struct MailSender {
    config: MailConfig,
    from: Address,
    tls: TlsConnector,
    client_id: ClientId,
}

/// Object that a mail server accepts or rejects in reply to an SMTP command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandSubject {
    /// The session: the connection, the login or the sender.
    Session,
    /// The receiver of the mail.
    Receiver,
    /// The content of the mail.
    Content,
}

/// Consequence of a rejection by the mail server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RejectionOutcome {
    /// The mail server accepts no mail from this service, so the operator must act. The mail is retried.
    OperatorMustAct,
    /// Retry the mail, since the mail server may accept it later.
    Retry,
    /// Drop the mail, since the mail server rejects it permanently.
    DropMail,
    /// Suspend the address, since the mail server accepts no mail for it.
    SuspendAddress,
}

/// Returns the consequence of a rejecting reply to a command.
///
/// After the sender was accepted, the codes in the reply take precedence over `step`: some servers reject the
/// sender only in reply to the command with the receiver, and the receiver only after the mail was sent.
fn rejection_outcome(step: CommandSubject, reply: &RejectionReply) -> RejectionOutcome {
    match (step, reply.code, reply.status()) {
        (CommandSubject::Session, ..) => RejectionOutcome::OperatorMustAct,
        (_, ..500, _) => RejectionOutcome::Retry,
        // The command is unknown, out of order, or lacks the required login.
        (_, 500 | 502..=504 | 530 | 534 | 535 | 538, _) => RejectionOutcome::OperatorMustAct,
        // The syntax or the domain of the sender's address is invalid.
        (_, _, Some(EnhancedStatus(5, 1, 7 | 8))) => RejectionOutcome::OperatorMustAct,
        (_, _, Some(EnhancedStatus(5, 1, _) | EnhancedStatus(5, 2, 1))) => RejectionOutcome::SuspendAddress,
        (CommandSubject::Receiver, _, None) => RejectionOutcome::SuspendAddress,
        _ => RejectionOutcome::DropMail,
    }
}

/// Reason why a mail was not sent.
enum MailFailure {
    /// An SMTP command failed.
    Command(CommandSubject, SmtpFailure),
    /// The exchange with the mail server took too long.
    Timeout,
    /// The address is not a valid receiver of mail.
    InvalidAddress,
    /// The mail could not be encoded.
    Unencodable(String),
}

impl MailSender {
    pub fn new(config: &MailConfig) -> Result<Self> {
        Ok(Self {
            from: parse_address(&config.from.address)?,
            tls: smtp_stream::system_tls_connector()?,
            client_id: ClientId::default(),
            config: config.clone(),
        })
    }

    async fn connect(&self) -> Result<AsyncSmtpConnection, MailFailure> {
        let server = &self.config.server;
        let opened = smtp_stream::open_connection(server, &self.tls, &self.client_id, CONNECT_TIMEOUT).await;
        let stream = opened.map_err(|failure| MailFailure::Command(CommandSubject::Session, failure))?;
        let connected = AsyncSmtpConnection::connect_with_transport(stream, &self.client_id).await;
        let mut connection = connected.map_err(MailFailure::for_command(CommandSubject::Session))?;
        if let Some(login) = &server.login {
            let [name, password] =
                [&login.name, &login.password].map(|secret| secret.expose_secret().to_owned());
            let mechanisms = [Mechanism::Plain, Mechanism::Login];
            let login = connection.auth(&mechanisms, &Credentials::new(name, password)).await;
            login.map_err(MailFailure::for_command(CommandSubject::Session))?;
        }
        Ok(connection)
    }

    /// Sends the mails of a batch until the time runs out or the connection fails. Returns a result for each
    /// mail.
    async fn deliver_batch(&self, leased: &LeasedBatch<Letter>) -> Vec<DeliveryResult> {
        let letters = leased.batch.notifications();
        let until = Instant::now() + SEND_TIMEOUT.saturating_sub(END_RESERVE);
        let mut results: Vec<DeliveryResult> = letters.iter().map(|_| DeliveryResult::NotTried).collect();
        let connected = timeout(CONNECT_TIMEOUT.saturating_mul(2), self.connect()).await;
        let mut connection = match connected.map_err(|_| MailFailure::Timeout).flatten() {
            Ok(connection) => connection,
            Err(failed) => {
                results.iter_mut().take(1).for_each(|first| *first = failed.delivery_result());
                return results;
            }
        };
        let (mut failing, mut dropped): (Vec<&MailAddress>, i64) = (Vec::new(), 0);
        for (place, (letter, result)) in letters.iter().zip(&mut results).enumerate() {
            // The message may have been read or withdrawn since the mail was written.
            if failing.contains(&letter.to()) || !leased.is_current(place).await {
                continue;
            }
            let sent = timeout_at(until, self.send_letter(&mut connection, letter)).await;
            let Err(failed) = sent.map_err(|_| MailFailure::Timeout).flatten() else {
                *result = DeliveryResult::Accepted;
                dropped = 0;
                continue;
            };
            *result = failed.delivery_result();
            match result {
                // After several dropped mails in a row, the core will suspend the address.
                DeliveryResult::Dropped { .. } => dropped = dropped.saturating_add(1),
                _ => failing.push(letter.to()),
            }
            // RSET aborts the current SMTP transaction, so that the next mail can follow.
            let can_continue = dropped < MAIL_REFUSALS_MAX && failed.can_reuse_connection();
            let reset = timeout(RESET_TIMEOUT, connection.command(Rset));
            if !can_continue || !reset.await.is_ok_and(|reset| reset.is_ok()) {
                break;
            }
        }
        // All results are already known, so the mail server's reply to QUIT does not matter.
        let _ = timeout(RESET_TIMEOUT, connection.abort()).await;
        results
    }

    async fn send_letter(
        &self,
        connection: &mut AsyncSmtpConnection,
        letter: &Letter,
    ) -> Result<(), MailFailure> {
        let to = parse_address(letter.to()).map_err(|_| MailFailure::InvalidAddress)?;
        let message = self.message(letter, &to)?;
        let from = Mail::new(Some(self.from.clone()), Vec::new());
        connection.command(from).await.map_err(MailFailure::for_command(CommandSubject::Session))?;
        connection
            .command(Rcpt::new(to, Vec::new()))
            .await
            .map_err(MailFailure::for_command(CommandSubject::Receiver))?;
        connection.command(Data).await.map_err(MailFailure::for_command(CommandSubject::Content))?;
        connection.message(&message).await.map_err(MailFailure::for_command(CommandSubject::Content))?;
        Ok(())
    }

    fn message(&self, letter: &Letter, to: &Address) -> Result<Vec<u8>, MailFailure> {
        let malformed = |error: lettre::error::Error| MailFailure::Unencodable(error.to_string());
        let id = |left: &str| format!("<{left}@{}>", self.config.from.address.domain());
        let header =
            |name: &'static str, value: String| HeaderValue::new(HeaderName::new_from_ascii_str(name), value);
        let mut builder = Message::builder()
            .from(Mailbox::new(self.config.from.name.clone(), self.from.clone()))
            .to(Mailbox::new(None, to.clone()))
            .subject(letter.subject())
            .message_id(Some(id(letter.id())))
            .raw_header(header("Auto-Submitted", "auto-generated".to_owned()));
        if let Some(references) = letter.references() {
            builder = builder.references(id(references)).in_reply_to(id(references));
        }
        if let Some(link) = letter.unsubscribe() {
            builder = builder
                .raw_header(header("List-Unsubscribe", format!("<{link}>")))
                .raw_header(header("List-Unsubscribe-Post", "List-Unsubscribe=One-Click".to_owned()));
        }
        let envelope = Envelope::new(Some(self.from.clone()), vec![to.clone()]).map_err(malformed)?;
        let body = MultiPart::alternative_plain_html(letter.text().to_owned(), letter.html().to_owned());
        Ok(builder.envelope(envelope).multipart(body).map_err(malformed)?.formatted())
    }
}

impl MailFailure {
    fn for_command(subject: CommandSubject) -> impl Fn(SmtpError) -> Self {
        move |error| Self::Command(subject, error.into())
    }

    /// Returns whether the connection can still send another mail after this failure.
    fn can_reuse_connection(&self) -> bool {
        match self {
            Self::Command(step, SmtpFailure::Rejected(reply)) => {
                rejection_outcome(*step, reply) != RejectionOutcome::OperatorMustAct
            }
            Self::Command(_, SmtpFailure::InvalidReply | SmtpFailure::ConnectionFailed(_))
            | Self::Timeout => false,
            Self::InvalidAddress | Self::Unencodable(_) => true,
        }
    }

    /// Returns the delivery result for this failure, and logs the failure if the operator can act on it.
    fn delivery_result(&self) -> DeliveryResult {
        let later = |detail: &str| DeliveryResult::Later { detail: detail.to_owned(), after: None };
        match self {
            Self::Command(step, SmtpFailure::Rejected(reply)) => rejection_result(*step, reply),
            Self::InvalidAddress => {
                DeliveryResult::Refused { detail: "mail cannot be sent to such an address".to_owned() }
            }
            Self::Command(_, SmtpFailure::ConnectionFailed(reason)) => {
                tracing::warn!(reason, "the mail server could not be reached");
                later("the mail server could not be reached")
            }
            Self::Command(_, SmtpFailure::InvalidReply) => {
                tracing::warn!("the mail server sent an invalid reply");
                later("the mail server sent an invalid reply")
            }
            Self::Timeout => {
                tracing::warn!("the mail server took too long");
                later("the mail server took too long")
            }
            Self::Unencodable(cause) => {
                tracing::error!(cause, "a mail could not be written");
                later("the mail could not be written")
            }
        }
    }
}

/// Returns the delivery result for a mail that was rejected with `reply`. Logs every rejection that is not
/// temporary.
fn rejection_result(step: CommandSubject, reply: &RejectionReply) -> DeliveryResult {
    let verdict = rejection_outcome(step, reply);
    let detail = reply.text(DETAIL_CHARS_MAX);
    let code = reply.code;
    let status = reply.status().map(|status| status.to_string());
    match verdict {
        RejectionOutcome::OperatorMustAct => {
            tracing::warn!(?step, code, status, "the mail server does not accept mail from this service");
            let detail = "the mail server does not accept mail from this service".to_owned();
            DeliveryResult::Later { detail, after: None }
        }
        RejectionOutcome::Retry => DeliveryResult::Later { detail, after: None },
        RejectionOutcome::DropMail => {
            tracing::warn!(?step, code, status, "the mail server rejected a mail, which is dropped");
            DeliveryResult::Dropped { detail }
        }
        RejectionOutcome::SuspendAddress => {
            tracing::warn!(
                ?step,
                code,
                status,
                "the mail server accepts no mail for an address, which is suspended"
            );
            DeliveryResult::Refused { detail }
        }
    }
}

fn parse_address(address: &MailAddress) -> Result<Address> {
    address.as_str().parse().map_err(|_| Error::internal("the mail library cannot parse a mail address"))
}

impl BatchSender for MailSender {
    type Notification = Letter;

    const CHANNEL: &'static DeliveryChannel<Letter> = &MAIL;

    async fn send(&self, leased: &LeasedBatch<Letter>) -> Vec<DeliveryResult> {
        self.deliver_batch(leased).await
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;
    use svc_core::config::{SmtpLogin, SmtpSecurity, SmtpServer};
    use svc_core::mailbox::Mailbox as Sender;
    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::TcpListener;

    use super::*;
    use crate::smtp_stream::failures;

    /// Connects to a mail server that offers a login but no STARTTLS. Returns whether the connection
    /// succeeded, and the commands that the server received.
    async fn connect_without_starttls(security: SmtpSecurity) -> (bool, String) {
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
                    client_id if client_id.starts_with("EHLO") => b"250-here\r\n250 AUTH PLAIN\r\n",
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
        let (connected, all) = runtime.block_on(connect_without_starttls(SmtpSecurity::StartTls));
        assert!(!connected && !all.contains("AUTH") && !all.contains("MAIL"), "{all}");
        let (connected, all) = runtime.block_on(connect_without_starttls(SmtpSecurity::Local));
        assert!(connected && all.contains("AUTH PLAIN"), "a control: {all}");
    }

    #[test]
    fn a_rejection_is_of_the_address_the_mail_or_the_service() {
        use CommandSubject::{Content, Receiver, Session};
        use RejectionOutcome::{DropMail, OperatorMustAct, Retry, SuspendAddress};
        let cases = [
            (
                Receiver,
                "550 5.1.1 <ada@example.com>: Recipient address rejected: User unknown",
                SuspendAddress,
            ),
            (Receiver, "550-5.1.1 The email account does not exist.\r\n550 5.1.1 Please try", SuspendAddress),
            (
                Receiver,
                "550-The account does not exist\r\n550-5.1.1 Please check\r\n550 the spelling",
                SuspendAddress,
            ),
            (
                Receiver,
                "550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found by SMTP address",
                SuspendAddress,
            ),
            (Receiver, "550 5.1.0 Address rejected", SuspendAddress),
            (Receiver, "550 #5.1.0 Address rejected.", SuspendAddress),
            (Receiver, "553 5.1.3 bad address syntax", SuspendAddress),
            (Receiver, "550 5.1.2 no such domain", SuspendAddress),
            (Receiver, "551 5.1.6 has moved", SuspendAddress),
            (Receiver, "556 5.1.10 the domain does not accept mail", SuspendAddress),
            (Receiver, "550 5.2.1 the mailbox is disabled", SuspendAddress),
            (Receiver, "550 sorry, no mailbox here by that name (#5.1.1)", SuspendAddress),
            (Receiver, "550 No Such User Here", SuspendAddress),
            (Receiver, "553 sorry, that domain is not in my list", SuspendAddress),
            (Receiver, "550", SuspendAddress),
            (Receiver, "550 192.0.2.1 does not know 5.1.1.7", SuspendAddress),
            (Content, "550 5.1.1 no such user", SuspendAddress),
            (Content, "554 5.2.1 disabled", SuspendAddress),
            (Receiver, "552 5.2.2 the mailbox is full", DropMail),
            (Receiver, "550 5.4.1 Recipient address rejected: Access denied", DropMail),
            (Receiver, "550 5.7.1 blocked by the policy of 192.0.2.1", DropMail),
            (Receiver, "550 4.1.1 of another class", DropMail),
            (Content, "554 5.7.1 the content is spam", DropMail),
            (Content, "550 5.6.0 cannot be read", DropMail),
            (Content, "552 5.3.4 too large", DropMail),
            (Content, "554-delivery error: dd\r\n554 this message is spam", DropMail),
            (Content, "550 no such user", DropMail),
            (Content, "550", DropMail),
            (Content, "554 192.0.2.1 is listed, see 5.1.1.7", DropMail),
            (Content, "554 5.1.1.7 is listed", DropMail),
            (Receiver, "450 4.2.0 greylisted", Retry),
            (Receiver, "451 5.1.1 the code says later", Retry),
            (Receiver, "452 too many recipients", Retry),
            (Receiver, "450", Retry),
            (Receiver, "421 4.7.0 closing", Retry),
            (Content, "451 4.3.0 out of disk", Retry),
            (Session, "550 5.1.1 the sender is unknown", OperatorMustAct),
            (
                Session,
                "553 5.7.1 <svc@example.com>: Sender address rejected: not owned by user",
                OperatorMustAct,
            ),
            (Session, "535 5.7.8 authentication failed", OperatorMustAct),
            (Session, "454 4.7.0 TLS not available", OperatorMustAct),
            (Session, "554 no SMTP service here", OperatorMustAct),
            (
                Receiver,
                "550 5.1.8 <svc@example.com>: Sender address rejected: Domain not found",
                OperatorMustAct,
            ),
            (Receiver, "553 5.1.7 bad sender", OperatorMustAct),
            (Receiver, "530 5.7.0 Must issue a STARTTLS command first", OperatorMustAct),
            (Receiver, "530 Authentication required", OperatorMustAct),
            (Receiver, "503 5.5.1 MAIL first", OperatorMustAct),
            (Content, "502 not implemented", OperatorMustAct),
        ];
        let lines: Vec<String> = cases.iter().map(|(_, reply, _)| format!("{reply}\r\n")).collect();
        let failures = failures(&lines.iter().map(String::as_bytes).collect::<Vec<_>>());
        for ((step, reply, wanted), failure) in cases.into_iter().zip(failures) {
            let failed = MailFailure::Command(step, failure);
            let MailFailure::Command(_, SmtpFailure::Rejected(read)) = &failed else {
                panic!("{reply} was not read")
            };
            assert_eq!(rejection_outcome(step, read), wanted, "{step:?}: {reply}");
            let result = failed.delivery_result();
            let is_as_wanted = match wanted {
                OperatorMustAct | Retry => matches!(result, DeliveryResult::Later { .. }),
                DropMail => matches!(result, DeliveryResult::Dropped { .. }),
                SuspendAddress => matches!(result, DeliveryResult::Refused { .. }),
            };
            assert!(is_as_wanted, "{step:?}: {reply}: {result:?}");
        }
    }

    #[test]
    fn a_reply_that_cannot_be_read_is_tried_again() {
        for failure in failures(&[b"550no such user\r\n", b"550-no\r\n551 such user\r\n", b"571 no\r\n"]) {
            let failed = MailFailure::Command(CommandSubject::Receiver, failure);
            assert!(
                matches!(failed.delivery_result(), DeliveryResult::Later { .. })
                    && !failed.can_reuse_connection()
            );
        }
    }
}
