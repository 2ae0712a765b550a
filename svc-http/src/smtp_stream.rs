//! Opens the connection to a mail server, over which the library lettre speaks SMTP.
//!
//! The connection is encrypted before lettre uses it, because lettre would keep plaintext after the reply to
//! STARTTLS, and treat the plaintext as replies to encrypted commands. lettre parses neither a reply code
//! without text nor text that is not UTF-8, and buffers lines of any length. So this module limits the length
//! of a line, and converts the line to a form that lettre parses.

use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use lettre::transport::smtp::client::AsyncTokioStream;
use lettre::transport::smtp::commands::{Ehlo, Starttls};
use lettre::transport::smtp::extension::ClientId;
use lettre::transport::smtp::response::Response;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use svc_core::config::{SmtpSecurity, SmtpServer};
use svc_core::{Error, Result};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::io::{BufReader, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::smtp::SmtpFailure;

/// Maximum bytes that a mail server may send after each write to it. Valid replies are shorter.
const READ_BYTES_MAX: usize = 256 << 10;
/// Maximum bytes of a line that are passed to lettre, which accepts 1,000. Further bytes are dropped.
const LINE_BYTES_MAX: usize = 900;
/// Greeting for lettre, after this module has read the server's greeting.
const LETTRE_GREETING: &[u8] = b"220 \r\n";

/// Returns a TLS client that trusts the certificate authorities of the system.
pub(crate) fn system_tls_connector() -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    tls_connector(roots)
}

fn tls_connector(roots: RootCertStore) -> Result<TlsConnector> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(Error::internal)?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()).into())
}

/// Connects to a mail server within `max_wait`, and encrypts the connection according to the server's
/// settings.
pub(crate) async fn open_connection(
    server: &SmtpServer,
    tls: &TlsConnector,
    client_id: &ClientId,
    max_wait: Duration,
) -> Result<Box<dyn AsyncTokioStream>, SmtpFailure> {
    let mut stream = MailStream::connect((&*server.host, server.port), max_wait).await?;
    let is_encrypted = match server.security {
        SmtpSecurity::Tls => true,
        SmtpSecurity::StartTls if stream.start_tls(client_id).await? => true,
        SmtpSecurity::StartTls => {
            return Err(SmtpFailure::ConnectionFailed("the mail server does not offer STARTTLS".to_owned()));
        }
        SmtpSecurity::Local => server.login.is_some() && stream.start_tls(client_id).await?,
    };
    if !is_encrypted {
        return Ok(Box::new(stream));
    }
    Ok(Box::new(stream.encrypt(tls, &server.host).await?))
}

/// Connection to a mail server that is read one line at a time.
#[derive(Debug)]
struct MailStream<S> {
    stream: BufReader<S>,
    peer: SocketAddr,
    /// Bytes of the line that is not complete yet.
    line: Vec<u8>,
    /// Bytes that lettre reads before further bytes of the stream.
    ready: Bytes,
    /// Bytes that the server may still send before the next write.
    left: usize,
}

impl MailStream<TcpStream> {
    async fn connect(host_and_port: (&str, u16), max_wait: Duration) -> io::Result<Self> {
        let until = Instant::now() + max_wait;
        let resolved = timeout_at(until, lookup_host(host_and_port)).await;
        let addresses = resolved.map_err(|_| io::Error::other("the name was not resolved in time"))??;
        let stream = connect_to_first(&addresses.collect::<Vec<_>>(), until).await?;
        let peer = stream.peer_addr()?;
        Ok(Self::new(stream, peer, Bytes::new()))
    }

    /// Sends STARTTLS if the server offers it, and returns whether the server does. lettre does not see this
    /// exchange.
    async fn start_tls(&mut self, client_id: &ClientId) -> Result<bool, SmtpFailure> {
        self.read_reply().await?;
        let offer = self.command(&Ehlo::new(client_id.clone()).to_string()).await?;
        let is_offered = offer.message().any(|line| line.trim().eq_ignore_ascii_case("STARTTLS"));
        if is_offered {
            self.command(&Starttls.to_string()).await?;
        }
        self.ready = Bytes::from_static(LETTRE_GREETING);
        Ok(is_offered)
    }

    async fn command(&mut self, command: &str) -> Result<Response, SmtpFailure> {
        self.write_all(command.as_bytes()).await?;
        self.read_reply().await
    }

    /// Reads one reply, and no bytes after the reply. Fails if the reply rejects the command.
    async fn read_reply(&mut self) -> Result<Response, SmtpFailure> {
        let mut lines = BufReader::new(self);
        let mut text = String::new();
        loop {
            let start = text.len();
            if lines.read_line(&mut text).await? == 0 {
                return Err(SmtpFailure::InvalidReply);
            }
            if text.as_bytes().get(start.saturating_add(3)) != Some(&b'-') {
                break;
            }
        }
        let response: Response = text.parse()?;
        if response.is_positive() { Ok(response) } else { Err(SmtpFailure::Rejected(response.into())) }
    }

    /// Encrypts the connection. Fails unless the server proves with its certificate that it is `host`.
    async fn encrypt(self, tls: &TlsConnector, host: &str) -> io::Result<MailStream<TlsStream<TcpStream>>> {
        if !self.stream.buffer().is_empty() {
            return Err(io::Error::other("the mail server sent plaintext after its reply to STARTTLS"));
        }
        let host = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let stream = tls.connect(host, self.stream.into_inner()).await?;
        Ok(MailStream::new(stream, self.peer, self.ready))
    }
}

impl<S: AsyncRead> MailStream<S> {
    fn new(stream: S, peer: SocketAddr, ready: Bytes) -> Self {
        Self { stream: BufReader::new(stream), peer, line: Vec::new(), ready, left: READ_BYTES_MAX }
    }
}

/// Connects to the first address that accepts the connection. Each attempt gets an equal share of the
/// remaining time.
async fn connect_to_first(addresses: &[SocketAddr], deadline: Instant) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    for (address, sharers) in addresses.iter().zip((1..=count).rev()) {
        let share = deadline.saturating_duration_since(Instant::now()) / sharers;
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failed = error,
            Err(_) => failed = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(failed)
}

/// Converts a line of a reply to a form that lettre parses.
fn to_lettre_line(line: &[u8]) -> String {
    let mut text = String::new();
    for chunk in line.trim_ascii_end().utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '?'));
    }
    // lettre requires text in the reply to EHLO. A control character is enough for lettre, and is not shown
    // to members.
    text.push_str(match text.len() {
        3 => " \u{7f}",
        4 => "\u{7f}",
        _ => "",
    });
    text + "\r\n"
}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin + Debug> AsyncTokioStream for MailStream<S> {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MailStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        while this.ready.is_empty() {
            let read = ready!(Pin::new(&mut this.stream).poll_fill_buf(cx))?;
            if read.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let rest = read.iter().position(|byte| *byte == b'\n').map(|end| end.saturating_add(1));
            let count = rest.unwrap_or(read.len());
            let Some(left) = this.left.checked_sub(count) else {
                return Poll::Ready(Err(io::Error::other("the mail server sent too many bytes")));
            };
            this.left = left;
            let kept = count.min(LINE_BYTES_MAX.saturating_sub(this.line.len()));
            this.line.extend(read.iter().take(kept));
            Pin::new(&mut this.stream).consume(count);
            if rest.is_some() {
                this.ready = to_lettre_line(&std::mem::take(&mut this.line)).into();
            }
        }
        let count = this.ready.len().min(buf.remaining());
        buf.put_slice(&this.ready.split_to(count));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for MailStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.left = READ_BYTES_MAX;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
pub(crate) use tests::failures;

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use lettre::transport::smtp::client::AsyncSmtpConnection;
    use lettre::transport::smtp::commands::Noop;
    use rcgen::CertifiedKey;
    use rustls::ServerConfig;
    use rustls::pki_types::PrivateKeyDer;
    use secrecy::SecretString;
    use svc_core::config::SmtpLogin;
    use tokio::net::{TcpListener, TcpSocket};
    use tokio_rustls::TlsAcceptor;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    /// Connects to a server that sends the given replies, one reply at a time.
    async fn replying(replies: Vec<Vec<u8>>) -> Result<AsyncSmtpConnection, SmtpFailure> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let mut stream = BufReader::new(listener.accept().await.unwrap().0);
            for reply in replies {
                stream.write_all(&reply).await.unwrap();
                stream.read_line(&mut String::new()).await.unwrap();
            }
        });
        let stream = MailStream::connect(("127.0.0.1", port), PATIENCE).await?;
        Ok(AsyncSmtpConnection::connect_with_transport(Box::new(stream), &ClientId::default()).await?)
    }

    /// Returns the failures of commands to which a server sends the given replies.
    pub(crate) fn failures(replies: &[&[u8]]) -> Vec<SmtpFailure> {
        let before = [&b"220 here\r\n"[..], b"250 here\r\n"];
        run(async {
            let all = before.iter().chain(replies).map(|reply| reply.to_vec()).collect();
            let mut connection = replying(all).await.unwrap();
            let mut failures = Vec::new();
            for _ in replies {
                failures.push(connection.command(Noop).await.unwrap_err().into());
            }
            failures
        })
    }

    #[test]
    fn a_reply_is_read_whatever_its_text_is() {
        let long = format!("550 5.1.1 {}\r\n", "x".repeat(READ_BYTES_MAX / 2));
        let cases: &[(&[u8], Option<&str>)] = &[
            (b"550 no such user\r\n", Some("550 no such user")),
            (b"550-5.1.1 no\r\n550 5.1.1 such user\r\n", Some("550 5.1.1 no such user")),
            (b"550-no\r\n550-\r\n550 5.1.1 user\r\n", Some("550 no   5.1.1 user")),
            ("550 \u{e9}l\u{e8}ve\u{7}\r\n".as_bytes(), Some("550 \u{e9}l\u{e8}ve")),
            (b"451 \r\n", Some("451")),
            (b"451\r\n", Some("451")),
            (b"550-5.1.1 no\r\n550\r\n", Some("550 5.1.1 no")),
            (b"550 \xe9l\xe8ve inconnu\r\n", Some("550 ?l?ve inconnu")),
            (b"550 5.1.1 \xff\xfe\r\n", Some("550 5.1.1 ??")),
            (b"550 no such user\n", Some("550 no such user")),
            (long.as_bytes(), Some("550 5.1.1 xxxxx")),
            (b"550no such user\r\n", None),
            (b"550-no\r\n551 such user\r\n", None),
            (b"650 what\r\n", None),
            (b"571 no\r\n", None),
            (b"\xb5\xb5\xb0\r\n", None),
            (b"\r\n", None),
        ];
        let failures = failures(&cases.iter().map(|(bytes, _)| *bytes).collect::<Vec<_>>());
        for ((bytes, wanted), failure) in cases.iter().zip(failures) {
            let text = match &failure {
                SmtpFailure::Rejected(reply) => Some(reply.text(wanted.map_or(0, str::len))),
                SmtpFailure::InvalidReply => None,
                SmtpFailure::ConnectionFailed(reason) => panic!("{bytes:?}: {reason}"),
            };
            assert_eq!(text.as_deref(), *wanted, "{bytes:?}: {failure:?}");
        }
    }

    #[test]
    fn a_server_may_say_nothing_but_codes() {
        run(async {
            let codes = [&b"220\r\n"[..], b"250\r\n", b"250\r\n", b"250 accept\xe9\r\n"];
            let mut connection = replying(codes.map(<[u8]>::to_vec).to_vec()).await.unwrap();
            for _ in 0..2 {
                connection.command(Noop).await.unwrap();
            }
        });
    }

    /// Behaviour of a mail server that offers TLS for `localhost`.
    #[derive(Clone)]
    struct ServerBehaviour {
        greeting: Vec<u8>,
        /// Plaintext that the server sends after its reply to STARTTLS. After that the server sends nothing.
        injected: &'static [u8],
        /// Whether the server sends the plaintext only after the client has begun the TLS handshake.
        is_late: bool,
        noop: Vec<u8>,
    }

    impl Default for ServerBehaviour {
        fn default() -> Self {
            Self {
                greeting: b"220 here\r\n".to_vec(),
                injected: b"",
                is_late: false,
                noop: b"250 ok\r\n".to_vec(),
            }
        }
    }

    impl ServerBehaviour {
        async fn serve(self, stream: TcpStream, tls: TlsAcceptor, is_tls_first: bool) -> io::Result<()> {
            if is_tls_first {
                return self.talk(&mut BufReader::new(tls.accept(stream).await?), true).await;
            }
            let mut stream = BufReader::new(stream);
            self.talk(&mut stream, true).await?;
            let mut stream = stream.into_inner();
            if self.is_late {
                stream.write_all(b"220 go\r\n").await?;
                stream.peek(&mut [0]).await?;
                stream.write_all(self.injected).await?;
            } else {
                stream.write_all(&[b"220 go\r\n", self.injected].concat()).await?;
            }
            let mut stream = BufReader::new(tls.accept(stream).await?);
            if self.injected.is_empty() {
                return self.talk(&mut stream, false).await;
            }
            while stream.read_line(&mut String::new()).await? > 0 {}
            Ok(())
        }

        /// Answers commands until STARTTLS or the end of the connection.
        async fn talk(
            &self,
            stream: &mut (impl AsyncBufRead + AsyncWrite + Unpin),
            greets: bool,
        ) -> io::Result<()> {
            if greets {
                stream.write_all(&self.greeting).await?;
                stream.flush().await?;
            }
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).await?;
                let answer = match line.get(..4) {
                    Some("EHLO") => b"250-here\r\n250-STARTTLS\r\n250 AUTH PLAIN\r\n",
                    Some("NOOP") => &*self.noop,
                    Some("QUIT") => b"221 bye\r\n",
                    _ => return Ok(()),
                };
                stream.write_all(answer).await?;
                stream.flush().await?;
            }
        }
    }

    fn certified() -> (TlsAcceptor, TlsConnector) {
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
        let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let server = builder.with_single_cert(vec![cert.der().clone()], key).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        (Arc::new(server).into(), tls_connector(roots).unwrap())
    }

    /// Encrypts a connection like a client that keeps plaintext after the reply to STARTTLS.
    async fn open_and_keep(
        server: &SmtpServer,
        tls: &TlsConnector,
    ) -> Result<Box<dyn AsyncTokioStream>, SmtpFailure> {
        let mut stream = MailStream::connect(("localhost", server.port), PATIENCE).await?;
        assert!(stream.start_tls(&ClientId::default()).await?);
        let kept = [LETTRE_GREETING, stream.stream.buffer()].concat();
        let name = ServerName::try_from("localhost").unwrap();
        let encrypted = tls.connect(name, stream.stream.into_inner()).await?;
        Ok(Box::new(MailStream::new(encrypted, stream.peer, kept.into())))
    }

    /// Sends NOOP to a server with the given behaviour, and returns the result.
    fn noop(
        manner: &ServerBehaviour,
        security: SmtpSecurity,
        has_login: bool,
        keeps: bool,
    ) -> Result<(), SmtpFailure> {
        run(async {
            let (acceptor, connector) = certified();
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            let login = SmtpLogin { name: "ada".into(), password: SecretString::from("a secret") };
            let login = has_login.then_some(login);
            let server = SmtpServer { host: "localhost".to_owned(), port, security, login };
            let manner = manner.clone();
            let serving = async {
                let (stream, _) = listener.accept().await.unwrap();
                // Failures of the server do not matter, only how the client interprets the replies.
                let _ = manner.serve(stream, acceptor, security == SmtpSecurity::Tls).await;
                std::future::pending().await
            };
            let client_id = ClientId::default();
            let asking = async {
                let stream = match keeps {
                    false => open_connection(&server, &connector, &client_id, PATIENCE).await?,
                    true => open_and_keep(&server, &connector).await?,
                };
                let mut connection = AsyncSmtpConnection::connect_with_transport(stream, &client_id).await?;
                connection.command(Noop).await?;
                Ok(())
            };
            tokio::select! {
                asked = pin!(asking) => asked,
                () = pin!(serving) => unreachable!(),
            }
        })
    }

    const NO_SUCH_USER: &[u8] = b"250 here\r\n550 5.1.1 no such user\r\n";
    const TAKEN: &[u8] = b"250 here\r\n250 taken\r\n";

    #[test]
    fn replies_in_plain_text_answer_no_encrypted_command() {
        for security in [SmtpSecurity::StartTls, SmtpSecurity::Local] {
            noop(&ServerBehaviour::default(), security, true, false).unwrap();
            for injected in [NO_SUCH_USER, TAKEN] {
                let manner = ServerBehaviour { injected, ..ServerBehaviour::default() };
                let failed = noop(&manner, security, true, false).unwrap_err();
                let SmtpFailure::ConnectionFailed(reason) = &failed else { panic!("{failed:?}") };
                assert!(reason.contains("plaintext after its reply"), "{reason}");
                let manner = ServerBehaviour { is_late: true, ..manner };
                let failed = noop(&manner, security, true, false).unwrap_err();
                assert!(matches!(failed, SmtpFailure::ConnectionFailed(_)), "{failed:?}");
            }
        }
        let kept = |injected| {
            let manner = ServerBehaviour { injected, ..ServerBehaviour::default() };
            noop(&manner, SmtpSecurity::StartTls, true, true)
        };
        let believed = kept(NO_SUCH_USER).unwrap_err();
        assert!(matches!(believed, SmtpFailure::Rejected(_)), "a control: {believed:?}");
        assert!(kept(TAKEN).is_ok(), "a control");
    }

    #[test]
    fn a_line_without_an_end_does_not_fill_the_memory() {
        let line = |length| vec![b'x'; length];
        for (security, has_login) in [
            (SmtpSecurity::Tls, false),
            (SmtpSecurity::StartTls, false),
            (SmtpSecurity::Local, true),
            (SmtpSecurity::Local, false),
        ] {
            for length in [READ_BYTES_MAX + 1, READ_BYTES_MAX * 100] {
                for manner in [
                    ServerBehaviour { greeting: line(length), ..ServerBehaviour::default() },
                    ServerBehaviour { noop: line(length), ..ServerBehaviour::default() },
                ] {
                    let failed = noop(&manner, security, has_login, false).unwrap_err();
                    let SmtpFailure::ConnectionFailed(reason) = &failed else { panic!("{failed:?}") };
                    assert!(reason.contains("too many bytes"), "{security:?}: {reason}");
                }
            }
            let end = b"\r\n250 ok\r\n";
            let longest = [b"250-", &*line(READ_BYTES_MAX - 4 - end.len()), end].concat();
            let manner = ServerBehaviour { noop: longest, ..ServerBehaviour::default() };
            noop(&manner, security, has_login, false).unwrap_or_else(|failed| {
                panic!("a control: {security:?}: {failed:?}");
            });
        }
    }

    /// Returns a listener that accepts no further connections, and the connections that fill it.
    async fn full() -> (SocketAddr, TcpListener, Vec<TcpStream>) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let at = listener.local_addr().unwrap();
        let mut all = Vec::new();
        while let Ok(stream) = timeout(Duration::from_millis(50), TcpStream::connect(at)).await {
            all.push(stream.unwrap());
        }
        (at, listener, all)
    }

    #[test]
    fn addresses_that_do_not_answer_leave_time_for_one_that_does() {
        run(async {
            let (first, _listener, _all) = full().await;
            let (second, _listener, _all) = full().await;
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let good = listener.local_addr().unwrap();
            let until = || Instant::now() + Duration::from_millis(600);
            let reached = connect_to_first(&[first, second, good], until()).await.unwrap();
            assert_eq!(reached.peer_addr().unwrap(), good);
            let failed = connect_to_first(&[first, second], until()).await.unwrap_err();
            assert_eq!(failed.kind(), io::ErrorKind::TimedOut, "a control");
            assert_eq!(connect_to_first(&[], until()).await.unwrap_err().kind(), io::ErrorKind::NotFound);
        });
    }
}
