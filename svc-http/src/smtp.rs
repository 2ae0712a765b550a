//! SMTP as a client speaks it (RFC 5321): a connection, STARTTLS (RFC 3207), AUTH (RFC 4954), and one command
//! after the other.
//!
//! Replies are read as servers write them: without a text, in any encoding, with a bare line feed, with the
//! code on some lines alone. Their size is bounded. What a reply means for a mail is up to the caller.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use secrecy::ExposeSecret as _;
use svc_core::config::SmtpLogin;
use svc_core::{Error, Result};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Bytes that are kept of a line of a reply.
const LINE_MAX: usize = 2048;
/// Maximum bytes of a reply.
const REPLY_MAX: usize = 64 << 10;

/// A reply of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    /// Its code, from 200 to 599.
    pub code: u16,
    /// The texts of its lines.
    lines: Vec<String>,
}

/// An enhanced status code (RFC 3463): its class, subject and detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(pub u16, pub u16, pub u16);

/// Why a command has failed.
#[derive(Debug)]
pub(crate) enum SmtpError {
    /// The server has rejected it.
    Rejected(Reply),
    /// The connection cannot be used, for this reason.
    Broken(String),
}

impl Reply {
    /// Returns its enhanced status code, if it has one.
    pub fn status(&self) -> Option<Status> {
        self.lines.iter().find_map(|line| Status::in_line(line))
    }

    /// Returns it as one line of no more characters than `max`.
    pub fn text(&self, max: usize) -> String {
        let text = format!("{} {}", self.code, self.lines.join(" "));
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(max).collect::<String>().trim().into()
    }
}

impl Status {
    /// Finds it where servers write it: at the beginning of a line (RFC 2034), or behind a `#` as qmail does.
    fn in_line(line: &str) -> Option<Self> {
        std::iter::once(line)
            .chain(line.split('#').skip(1))
            .find_map(|text| Self::at_start(text.trim_start()))
    }

    fn at_start(text: &str) -> Option<Self> {
        let (class, rest) = number(text)?;
        let (subject, rest) = number(rest.strip_prefix('.')?)?;
        let (detail, rest) = number(rest.strip_prefix('.')?)?;
        // One more number makes it an IP address.
        let is_longer =
            rest.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        (matches!(class, 2 | 4 | 5) && !is_longer).then_some(Self(class, subject, detail))
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// Reads a number of up to three digits, and returns what follows it.
fn number(text: &str) -> Option<(u16, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    if digits.len() > 3 { None } else { Some((digits.parse().ok()?, rest)) }
}

/// One line of a reply.
struct Line {
    code: u16,
    /// Whether another line follows.
    goes_on: bool,
    text: String,
}

impl Line {
    fn read(line: &[u8]) -> Option<Self> {
        let (digits, rest) = line.split_first_chunk::<3>()?;
        let code =
            std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        let code = code?.parse().ok().filter(|code| (200..600).contains(code))?;
        // Nothing may separate the code from the text.
        let (goes_on, text) = match rest.split_first() {
            Some((b'-', text)) => (true, text),
            Some((b' ', text)) => (false, text),
            _ => (false, rest),
        };
        Some(Self { code, goes_on, text: String::from_utf8_lossy(text).into_owned() })
    }
}

/// What carries the bytes of a connection.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// How connections to a server are encrypted.
pub(crate) struct Tls {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Tls {
    /// Encrypts for the server of this name, whose certificate the roots of the system must vouch for.
    pub fn new(host: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(Error::internal)?.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from(host.to_owned()).map_err(Error::internal)?;
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }

    async fn encrypt(&self, stream: Box<dyn Stream>) -> Result<Box<dyn Stream>, SmtpError> {
        let encrypted = self.connector.connect(self.name.clone(), stream).await;
        Ok(Box::new(encrypted.map_err(|error| SmtpError::Broken(format!("TLS: {error}")))?))
    }
}

/// What a server offers, as far as it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Offers {
    starttls: bool,
    plain: bool,
    login: bool,
}

impl Offers {
    /// Reads the reply to EHLO. Old servers write `AUTH=PLAIN`.
    fn of(reply: &Reply) -> Self {
        let mut offers = Self::default();
        for line in reply.lines.iter().skip(1) {
            let line = line.to_ascii_uppercase();
            let mut words = line.split([' ', '\t', '=']).filter(|word| !word.is_empty());
            match words.next() {
                Some("STARTTLS") => offers.starttls = true,
                Some("AUTH") => words.for_each(|word| match word {
                    "PLAIN" => offers.plain = true,
                    "LOGIN" => offers.login = true,
                    _ => {}
                }),
                _ => {}
            }
        }
        offers
    }
}

/// A connection to a server that has been greeted.
pub(crate) struct Connection {
    stream: BufReader<Box<dyn Stream>>,
    offers: Offers,
}

impl Connection {
    /// Connects and says hello, encrypted from the first byte with `tls`.
    ///
    /// Each address of the host gets `patience` to accept the connection.
    pub async fn open(
        (host, port): (&str, u16),
        tls: Option<&Tls>,
        hello: &str,
        patience: Duration,
    ) -> Result<Self, SmtpError> {
        let stream = Box::new(connected(host, port, patience).await?);
        let stream = match tls {
            Some(tls) => tls.encrypt(stream).await?,
            None => stream,
        };
        Self::greeted(stream, hello).await
    }

    async fn greeted(stream: Box<dyn Stream>, hello: &str) -> Result<Self, SmtpError> {
        let mut connection = Self { stream: BufReader::new(stream), offers: Offers::default() };
        let greeting = connection.reply().await?;
        expect(2, greeting)?;
        connection.hello(hello).await?;
        Ok(connection)
    }

    async fn hello(&mut self, hello: &str) -> Result<(), SmtpError> {
        let reply = self.ask(&format!("EHLO {hello}"), 2).await?;
        self.offers = Offers::of(&reply);
        Ok(())
    }

    /// Returns whether the server offers to encrypt the connection.
    pub fn offers_starttls(&self) -> bool {
        self.offers.starttls
    }

    /// Encrypts the connection.
    pub async fn starttls(mut self, tls: &Tls, hello: &str) -> Result<Self, SmtpError> {
        if !self.offers.starttls {
            return Err(SmtpError::Broken("the server does not offer STARTTLS".to_owned()));
        }
        self.ask("STARTTLS", 2).await?;
        if !self.stream.buffer().is_empty() {
            // Whoever is between could have put it there.
            return Err(SmtpError::Broken("the server went on without encryption".to_owned()));
        }
        let stream = tls.encrypt(self.stream.into_inner()).await?;
        let mut encrypted = Self { stream: BufReader::new(stream), offers: Offers::default() };
        encrypted.hello(hello).await?;
        Ok(encrypted)
    }

    /// Signs in.
    pub async fn auth(&mut self, login: &SmtpLogin) -> Result<(), SmtpError> {
        let (name, password) = (login.name.expose_secret(), login.password.expose_secret());
        if self.offers.plain {
            let both = STANDARD.encode(format!("\0{name}\0{password}"));
            self.ask(&format!("AUTH PLAIN {both}"), 2).await?;
        } else if self.offers.login {
            self.ask("AUTH LOGIN", 3).await?;
            self.ask(&STANDARD.encode(name), 3).await?;
            self.ask(&STANDARD.encode(password), 2).await?;
        } else {
            return Err(SmtpError::Broken("the server offers neither AUTH PLAIN nor AUTH LOGIN".to_owned()));
        }
        Ok(())
    }

    /// Sends a command, whose reply must begin with this digit.
    pub async fn ask(&mut self, command: &str, digit: u16) -> Result<Reply, SmtpError> {
        self.send(format!("{command}\r\n").as_bytes()).await?;
        expect(digit, self.reply().await?)
    }

    /// Sends a mail, for which the server has asked by its reply to DATA.
    pub async fn content(&mut self, mail: &[u8]) -> Result<Reply, SmtpError> {
        let mut sent = Vec::with_capacity(mail.len() + 64);
        for line in mail.split_inclusive(|byte| *byte == b'\n') {
            if line.starts_with(b".") {
                sent.push(b'.');
            }
            sent.extend_from_slice(line);
        }
        if !sent.ends_with(b"\r\n") {
            sent.extend_from_slice(b"\r\n");
        }
        sent.extend_from_slice(b".\r\n");
        self.send(&sent).await?;
        expect(2, self.reply().await?)
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), SmtpError> {
        self.stream.write_all(bytes).await.map_err(lost)?;
        self.stream.flush().await.map_err(lost)
    }

    async fn reply(&mut self) -> Result<Reply, SmtpError> {
        let (mut left, mut code, mut lines) = (REPLY_MAX, None, Vec::new());
        loop {
            let line = self.line(&mut left).await?;
            match (Line::read(&line), code) {
                (Some(Line { code, goes_on: false, text }), _) => {
                    lines.push(text);
                    return Ok(Reply { code, lines });
                }
                (Some(line), _) => {
                    code = Some(line.code);
                    lines.push(line.text);
                }
                (None, Some(_)) => lines.push(String::from_utf8_lossy(&line).into_owned()),
                (None, None) => {
                    return Err(SmtpError::Broken("what the server said is not SMTP".to_owned()));
                }
            }
        }
    }

    /// Reads a line, of which [`LINE_MAX`] bytes are kept; `left` is what a reply may still have.
    async fn line(&mut self, left: &mut usize) -> Result<Vec<u8>, SmtpError> {
        let mut line = Vec::new();
        loop {
            let read = self.stream.fill_buf().await.map_err(lost)?;
            if read.is_empty() {
                return Err(SmtpError::Broken("the server closed the connection".to_owned()));
            }
            let end = read.iter().position(|byte| *byte == b'\n');
            let length = end.map_or(read.len(), |end| end.saturating_add(1));
            let too_long = || SmtpError::Broken("a reply of the server is too long".to_owned());
            *left = left.checked_sub(length).ok_or_else(too_long)?;
            line.extend(read.iter().take(length.min(LINE_MAX.saturating_sub(line.len()))));
            self.stream.consume(length);
            if end.is_some() {
                line.truncate(line.trim_ascii_end().len());
                return Ok(line);
            }
        }
    }
}

async fn connected(host: &str, port: u16, patience: Duration) -> Result<TcpStream, SmtpError> {
    let mut last = "the name of the server has no address".to_owned();
    for address in lookup_host((host, port)).await.map_err(lost)? {
        match timeout(patience, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error.to_string(),
            Err(_) => "the server did not accept the connection in time".clone_into(&mut last),
        }
    }
    Err(SmtpError::Broken(last))
}

fn expect(digit: u16, reply: Reply) -> Result<Reply, SmtpError> {
    if reply.code / 100 == digit { Ok(reply) } else { Err(SmtpError::Rejected(reply)) }
}

fn lost(error: std::io::Error) -> SmtpError {
    SmtpError::Broken(error.to_string())
}

#[cfg(test)]
pub(crate) use tests::read;

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    fn run<T>(run: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(run)
    }

    fn from_server(bytes: &[u8]) -> Connection {
        let stream = tokio::io::join(Cursor::new(bytes.to_vec()), tokio::io::sink());
        Connection { stream: BufReader::new(Box::new(stream)), offers: Offers::default() }
    }

    /// Reads what a server says as a reply.
    pub(crate) fn read(bytes: &[u8]) -> Result<Reply, SmtpError> {
        run(from_server(bytes).reply())
    }

    #[test]
    fn a_reply_is_read_as_servers_write_it() {
        for (bytes, code, text) in [
            (&b"250 OK\r\n"[..], 250, "250 OK"),
            (b"250\r\n", 250, "250"),
            (b"250 \r\n", 250, "250"),
            (b"550\n", 550, "550"),
            (b"550 no such user\n", 550, "550 no such user"),
            (b"550no such user\r\n", 550, "550 no such user"),
            (b"550-5.1.1 no\r\n550 5.1.1 such user\r\n", 550, "550 5.1.1 no 5.1.1 such user"),
            (b"550-no\r\n550-\r\n550\r\n", 550, "550 no"),
            (b"550-no\r\nsuch user\r\n550 here\r\n", 550, "550 no such user here"),
            (b"250-first\r\n451 last\r\n", 451, "451 first last"),
            (b"550 \xe9l\xe8ve inconnu\r\n", 550, "550 \u{fffd}l\u{fffd}ve inconnu"),
            ("550 \u{e9}l\u{e8}ve\u{7}\r\n".as_bytes(), 550, "550 \u{e9}l\u{e8}ve"),
            (b"220 one\r\n250 two\r\n", 220, "220 one"),
        ] {
            let reply = read(bytes).unwrap();
            assert_eq!((reply.code, &*reply.text(300)), (code, text), "{bytes:?}");
        }
        for broken in
            [&b""[..], b"250", b"250-OK\r\n", b"HTTP/1.1 400\r\n", b"\r\n", b"25 OK\r\n", b"650 OK\r\n"]
        {
            assert!(matches!(read(broken), Err(SmtpError::Broken(_))), "{broken:?}");
        }
    }

    #[test]
    fn a_reply_is_bounded() {
        let long = [b"550 ".as_slice(), &vec![b'x'; REPLY_MAX - 6], b"\r\n"].concat();
        let reply = read(&long).unwrap();
        assert_eq!((reply.code, reply.lines[0].len()), (550, LINE_MAX - 4));
        assert_eq!(reply.text(10), "550 xxxxxx");
        let longer = [b"550 ".as_slice(), &vec![b'x'; REPLY_MAX], b"\r\n"].concat();
        assert!(matches!(read(&longer), Err(SmtpError::Broken(_))));
        assert!(matches!(read(&b"550-x\r\n".repeat(REPLY_MAX / 7 + 1)), Err(SmtpError::Broken(_))));
    }

    #[test]
    fn what_a_server_offers_is_read_in_all_spellings() {
        let all = Offers { starttls: true, plain: true, login: true };
        for (bytes, wanted) in [
            (&b"250 here\r\n"[..], Offers::default()),
            (b"250-STARTTLS\r\n250 AUTHENTIC PLAIN\r\n", Offers::default()),
            (b"250-here\r\n250-STARTTLS\r\n250-SIZE 1000\r\n250 AUTH CRAM-MD5 PLAIN LOGIN\r\n", all),
            (b"250-here\n250-starttls\n250-auth plain\n250 AUTH=LOGIN\n", all),
            (b"250-here\r\n250 AUTH LOGIN\r\n", Offers { login: true, ..Offers::default() }),
        ] {
            assert_eq!(Offers::of(&read(bytes).unwrap()), wanted, "{bytes:?}");
        }
    }

    #[test]
    fn a_login_is_sent_as_the_server_asks_for_it() {
        let login = SmtpLogin { name: "ada".into(), password: "pw".into() };
        let sent = |offers: Offers, replies: &str| {
            let (here, there) = tokio::io::duplex(4096);
            let (from_here, mut to_here) = tokio::io::split(there);
            let done = run(async {
                to_here.write_all(replies.as_bytes()).await.unwrap();
                let mut connection = Connection { stream: BufReader::new(Box::new(here)), offers };
                connection.auth(&login).await.is_ok()
            });
            let mut all = String::new();
            run(tokio::io::AsyncReadExt::read_to_string(&mut BufReader::new(from_here), &mut all)).unwrap();
            (done, all)
        };
        let plain = || Offers { plain: true, login: true, starttls: false };
        let only_login = || Offers { login: true, ..Offers::default() };
        assert_eq!(sent(plain(), "235 in\r\n"), (true, "AUTH PLAIN AGFkYQBwdw==\r\n".to_owned()));
        assert!(!sent(plain(), "535 5.7.8 no\r\n").0);
        let wanted = "AUTH LOGIN\r\nYWRh\r\ncHc=\r\n".to_owned();
        assert_eq!(sent(only_login(), "334 VXNlcm5hbWU6\r\n334 UGFzc3dvcmQ6\r\n235\r\n"), (true, wanted));
        assert_eq!(sent(Offers::default(), ""), (false, String::new()));
    }

    #[test]
    fn a_line_that_begins_with_a_dot_does_not_end_a_mail() {
        for (mail, wanted) in [
            ("one\r\n", "one\r\n.\r\n"),
            ("one", "one\r\n.\r\n"),
            (".\r\n..two\r\nthree.\r\n", "..\r\n...two\r\nthree.\r\n.\r\n"),
            ("", "\r\n.\r\n"),
        ] {
            let (here, there) = tokio::io::duplex(4096);
            let sent = run(async {
                let (from_here, mut to_here) = tokio::io::split(there);
                to_here.write_all(b"250 OK\r\n").await.unwrap();
                let mut connection =
                    Connection { stream: BufReader::new(Box::new(here)), offers: Offers::default() };
                connection.content(mail.as_bytes()).await.unwrap();
                drop(connection);
                let mut sent = String::new();
                let mut from_here = BufReader::new(from_here);
                tokio::io::AsyncReadExt::read_to_string(&mut from_here, &mut sent).await.unwrap();
                sent
            });
            assert_eq!(sent, wanted, "{mail:?}");
        }
    }

    #[test]
    fn an_enhanced_status_code_is_found_where_servers_write_it() {
        for (line, wanted) in [
            ("5.1.1 no such user", Some(Status(5, 1, 1))),
            ("5.1.1", Some(Status(5, 1, 1))),
            ("  5.1.10 null MX", Some(Status(5, 1, 10))),
            ("5.1.1<ada@example.com>: unknown", Some(Status(5, 1, 1))),
            ("5.1.1User unknown", Some(Status(5, 1, 1))),
            ("5.7.1: rejected.", Some(Status(5, 7, 1))),
            ("5.7.1. Rejected", Some(Status(5, 7, 1))),
            ("#5.1.0 Address rejected.", Some(Status(5, 1, 0))),
            ("sorry, no mailbox here by that name (#5.1.1)", Some(Status(5, 1, 1))),
            ("4.2.2 full", Some(Status(4, 2, 2))),
            ("5.7.606 Access denied", Some(Status(5, 7, 606))),
            ("5.1.1.7 is blocked", None),
            ("192.0.2.1 is blocked", None),
            ("[5.1.1.7] is blocked", None),
            ("see https://example.com/5.1.1", None),
            ("version 5.1.1 refused", None),
            ("5.1 refused", None),
            ("5..1 refused", None),
            ("5.1.x refused", None),
            ("3.1.1 refused", None),
            ("6.1.1 refused", None),
            ("5.1.1000 refused", None),
            ("#12 rejected", None),
            ("\u{665}.1.1 refused", None),
            ("", None),
        ] {
            assert_eq!(Status::in_line(line), wanted, "{line:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_reply_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(reply) = read(&bytes) {
                prop_assert!((200..600).contains(&reply.code));
                prop_assert!(reply.text(50).chars().count() <= 50 && !reply.text(50).contains('\n'));
            }
        }
    }
}
