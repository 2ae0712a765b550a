//! A proxy in front of Postgres.
//!
//! It forwards whole protocol messages. It can end a connection right after a reply within a transaction, so
//! that the client sees reply and end at once, or hold every byte back while connections stay open. It
//! records the server's replies to the statements that pass.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::runtime;

/// A proxy in front of one server.
pub struct Proxy {
    address: SocketAddr,
    user: String,
    database: String,
    shared: Arc<ProxyState>,
    held: watch::Sender<bool>,
}

/// The shared state of its connections.
struct ProxyState {
    upstream: Upstream,
    /// The number of the reply of a transaction after which the next connection ends; 0 for never.
    behind: AtomicUsize,
    cuts: AtomicUsize,
    /// The server's reply to each completed statement, and its connection.
    completed: Mutex<Vec<(usize, String)>>,
    connections: AtomicUsize,
    /// Whether notifications of commits are suppressed.
    deaf: AtomicBool,
}

pub(super) enum Upstream {
    Unix(PathBuf),
    Tcp(String, u16),
}

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Upstream {
    pub(super) fn of(config: &Config) -> Self {
        let port = config.get_ports().first().copied().unwrap_or(5432);
        match config.get_hosts().first().unwrap() {
            Host::Unix(folder) => Self::Unix(folder.join(format!(".s.PGSQL.{port}"))),
            Host::Tcp(host) => Self::Tcp(host.clone(), port),
        }
    }

    pub(super) async fn connect(&self) -> std::io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Unix(path) => Box::new(UnixStream::connect(path).await?),
            Self::Tcp(host, port) => Box::new(TcpStream::connect((host.as_str(), *port)).await?),
        })
    }
}

impl Proxy {
    /// Starts a proxy in front of the database at `url`.
    pub fn start(url: &str) -> Self {
        let config: Config = url.parse().unwrap();
        let shared = ProxyState {
            upstream: Upstream::of(&config),
            behind: AtomicUsize::new(0),
            cuts: AtomicUsize::new(0),
            completed: Mutex::default(),
            connections: AtomicUsize::new(0),
            deaf: AtomicBool::new(false),
        };
        let shared = Arc::new(shared);
        let (held, holding) = watch::channel(false);
        let listener = runtime().block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let serving = Arc::clone(&shared);
        runtime().spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let shared = Arc::clone(&serving);
                let holding = holding.clone();
                // If the channel is closed, the proxy was dropped, and its connections end with it.
                tokio::spawn(async move { carry(client, &shared, holding).await });
            }
        });
        let name = |name: Option<&str>| name.unwrap_or_default().to_owned();
        let user = name(config.get_user());
        let database = name(config.get_dbname());
        Self { address, user, database, shared, held }
    }

    /// Returns the address of the database behind the proxy, with settings for its sessions.
    pub fn url(&self, settings: &[(&str, &str)]) -> String {
        let settings = settings.iter().map(|(name, value)| format!("-c%20{name}%3D{value}"));
        let options = settings.collect::<Vec<_>>().join("%20");
        format!(
            "postgres://{}@{}/{}?sslmode=disable&options={options}",
            self.user, self.address, self.database
        )
    }

    /// Ends the next connection right after the `answer`th reply of a transaction.
    ///
    /// Only transactions that may write count; 0 ends no connection.
    pub fn cut_behind(&self, answer: usize) {
        self.shared.behind.store(answer, Ordering::SeqCst);
    }

    /// Returns how many connections were ended that way.
    pub fn cuts(&self) -> usize {
        self.shared.cuts.load(Ordering::SeqCst)
    }

    /// Returns how many statements were completed on its connections.
    pub fn statements(&self) -> usize {
        self.shared.completed.lock().unwrap().len()
    }

    /// Returns the server's replies to the statements after the first `count`, such as `INSERT 0 1`, with the
    /// number of the connection.
    pub fn completed_after(&self, count: usize) -> Vec<(usize, String)> {
        self.shared.completed.lock().unwrap()[count..].to_vec()
    }

    /// Ends each connection that requests notifications of commits.
    pub fn deafen(&self) {
        self.shared.deaf.store(true, Ordering::SeqCst);
    }

    /// Holds every byte back, or releases them.
    pub fn hold(&self, held: bool) {
        self.held.send_replace(held);
    }
}

/// Forwards one connection until its end.
async fn carry(mut client: TcpStream, shared: &ProxyState, mut holding: watch::Receiver<bool>) {
    if passes(&mut holding).await.is_none() {
        return;
    }
    let Ok(upstream) = shared.upstream.connect().await else { return };
    let _ = client.set_nodelay(true);
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = tokio::io::split(upstream);
    let reads_only = AtomicUsize::new(0);
    let cut = tokio::select! {
        () = ask(&mut from_client, &mut to_server, &reads_only, shared, holding.clone()) => false,
        cut = answer(&mut from_server, &mut to_client, &reads_only, shared, holding) => cut,
    };
    // The server ends the transaction when its side is closed.
    drop((from_server, to_server));
    if cut {
        // Closing while the client still sends would discard bytes that it has not read yet.
        let mut rest = [0; 4096];
        while from_client.read(&mut rest).await.is_ok_and(|bytes| bytes > 0) {}
    }
}

/// Waits until bytes may pass. Returns `None` when the proxy is gone.
async fn passes(holding: &mut watch::Receiver<bool>) -> Option<()> {
    holding.wait_for(|held| !held).await.ok().map(|_| ())
}

/// Forwards the client's bytes, and records whether it has begun a read-only transaction.
async fn ask(
    from: &mut ReadHalf<'_>,
    to: &mut (impl AsyncWrite + Unpin),
    reads_only: &AtomicUsize,
    shared: &ProxyState,
    mut holding: watch::Receiver<bool>,
) {
    let mut bytes = vec![0; 65_536];
    while let Ok(count) = from.read(&mut bytes).await {
        if count == 0 || passes(&mut holding).await.is_none() {
            return;
        }
        if shared.deaf.load(Ordering::SeqCst) && contains(&bytes[..count], b"listen svc_log") {
            return;
        }
        if contains(&bytes[..count], b"read only") {
            reads_only.store(1, Ordering::SeqCst);
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

/// Forwards the server's bytes. Returns true if the connection must end after that.
async fn answer(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut WriteHalf<'_>,
    reads_only: &AtomicUsize,
    shared: &ProxyState,
    mut holding: watch::Receiver<bool>,
) -> bool {
    let connection = shared.connections.fetch_add(1, Ordering::SeqCst);
    let mut waiting = Vec::new();
    let mut answers = 0;
    let mut bytes = vec![0; 65_536];
    while let Ok(count) = from.read(&mut bytes).await {
        waiting.extend_from_slice(&bytes[..count]);
        if count == 0 || passes(&mut holding).await.is_none() {
            return false;
        }
        let mut whole = 0;
        while let Some(length) = message_length(&waiting[whole..]) {
            let message = &waiting[whole..whole + length];
            whole += length;
            match (message[0], message.last()) {
                (b'C', _) => {
                    let tag = String::from_utf8_lossy(&message[5..length - 1]).into_owned();
                    shared.completed.lock().unwrap().push((connection, tag));
                    continue;
                }
                (b'Z', Some(b'T')) => answers += 1,
                (b'Z', _) => {
                    answers = 0;
                    reads_only.store(0, Ordering::SeqCst);
                }
                _ => continue,
            }
            let writes = reads_only.load(Ordering::SeqCst) == 0;
            let due = |behind| writes && answers > 0 && behind == answers;
            if due(shared.behind.load(Ordering::SeqCst)) && shared.behind.swap(0, Ordering::SeqCst) == answers
            {
                shared.cuts.fetch_add(1, Ordering::SeqCst);
                end_behind(to, &waiting[..whole]).await;
                return true;
            }
        }
        if to.write_all(&waiting[..whole]).await.is_err() {
            return false;
        }
        waiting.drain(..whole);
    }
    false
}

/// Returns the length of the first message, if it is complete: a type byte, and a length that includes
/// itself.
fn message_length(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_be_bytes(bytes.get(1..5)?.try_into().ok()?);
    let whole = 1 + usize::try_from(length).ok()?;
    (bytes.len() >= whole).then_some(whole)
}

/// Sends the last bytes and the end of the connection in one segment, so that they are received together.
async fn end_behind(to: &mut WriteHalf<'_>, bytes: &[u8]) {
    SockRef::from(to.as_ref()).set_tcp_cork(true).unwrap();
    if to.write_all(bytes).await.is_ok() {
        let _ = to.shutdown().await;
    }
}
