//! The arena of attacks over the wire.
//!
//! It is a real server with its default limits, an attacker at one address, and a caller at another whose
//! requests must not take much longer during the attack.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;
use svc_core::Engine;
use svc_tests::client::rest::Rest;
use svc_tests::process::{RunningProgram, until};
use svc_tests::runtime;
use svc_tests::site::{Server, Site};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::time::interval;

const ATTACKER: &str = "127.0.0.2";
const CALLER: &str = "127.0.0.3";
/// Requests of the caller during the full attack.
const REQUESTS: usize = 200;
/// Maximum factor between the caller's medians with and without an attack.
const SLOWER_MAX: u32 = 10;
/// The minimum latency that is used for comparisons, because attackers use the same processors.
const IDLE_LEAST: Duration = Duration::from_millis(1);
/// Maximum memory of the server at any moment.
const MEMORY_MAX_KIB: u64 = 256 << 10;

/// A server with its default limits.
pub struct Arena {
    pub server: Server,
    pub site: Site,
}

impl Arena {
    pub fn open() -> Self {
        Self::with(&[])
    }

    pub fn with(variables: &[(&str, &str)]) -> Self {
        // The test opens thousands of connections.
        svc_http::raise_descriptor_limit();
        let site = Site::found(Engine::Sqlite);
        let mut command = site.command("svc-http", &["--listen", "127.0.0.1:0"]);
        command.env_remove("SVC_RATE_LIMIT_MAX").env_remove("SVC_WORKSPACE_RATE_LIMIT_MAX");
        command.envs([("SVC_LOG", "svc_http=debug"), ("SVC_SHUTDOWN_DRAIN_SECS", "0")]);
        let mut running = RunningProgram::start(command.envs(variables.iter().copied()));
        let line = running.next_line();
        let address: SocketAddr = line.rsplit('/').next().unwrap().parse().unwrap();
        Self { server: Server { running, rest: Rest { address } }, site }
    }

    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    pub fn admin(&self) -> &str {
        &self.site.founders.admin
    }

    /// Returns the secret of a new agent's token.
    pub fn new_agent(&self, handle: &str) -> String {
        let path = format!("/workspaces/{}/agents", self.site.founders.workspace_id);
        let made =
            self.server.caller(self.admin()).post(&path, json!({"handle": handle, "display_name": handle}));
        svc_tests::text(&made["token"]["secret"])
    }

    /// Returns a line of the process's status, in KiB.
    pub fn memory(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.running.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Returns the sockets that the server has open.
    pub fn sockets(&self) -> usize {
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.server.running.id())).unwrap();
        // A socket may be closed while they are read.
        let targets =
            descriptors.filter_map(|descriptor| std::fs::read_link(descriptor.unwrap().path()).ok());
        targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
    }

    /// Returns the processor time that the server has used, in ticks of 10 ms.
    pub fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.server.running.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    }

    /// Ends the server, and checks that it logs no remaining resources of its clients.
    pub fn leaves_nothing(&self) {
        let log = &self.server.running.err;
        self.server.running.signal("TERM");
        until("the server has closed", || log.text().contains("closed connections="));
        let nothing = "closed connections=0 in_flight=0 sockets=0 handshakes=0 bodies=0 body_bytes=0 \
                       unread_bytes=0";
        assert!(log.text().contains(nothing), "{}", log.text());
    }

    /// Opens a connection of the attacker.
    pub async fn connect(&self) -> std::io::Result<tokio::net::TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(ATTACKER.parse().unwrap(), 0))?;
        socket.connect(self.address()).await
    }

    /// Returns the status of the server's response to these bytes of the attacker.
    pub async fn status(&self, bytes: &[u8]) -> Option<u16> {
        let mut stream = self.connect().await.ok()?;
        stream.write_all(bytes).await.ok()?;
        let mut line = [0; 12];
        stream.read_exact(&mut line).await.ok()?;
        std::str::from_utf8(&line).ok()?.strip_prefix("HTTP/1.1 ")?.parse().ok()
    }

    /// Returns the head of a request, with the fields that all have.
    pub fn head(&self, method: &str, target: &str, more: &str) -> String {
        format!("{method} {target} HTTP/1.1\r\nHost: {}\r\n{more}\r\n", self.address())
    }

    pub fn post(&self, target: &str, token: &str, body: &str) -> String {
        let more = format!(
            "Authorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        );
        format!("{}{body}", self.head("POST", target, &more))
    }
}

/// An ordinary client on one connection.
pub struct Caller {
    stream: BufReader<TcpStream>,
    request: String,
}

impl Caller {
    pub fn of(arena: &Arena) -> Self {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let local = SocketAddr::new(CALLER.parse::<IpAddr>().unwrap(), 0);
        socket.bind(&local.into()).unwrap();
        socket.connect(&arena.address().into()).unwrap();
        let stream = TcpStream::from(socket);
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let request = arena.head("GET", "/me", &format!("Authorization: Bearer {}\r\n", arena.admin()));
        Self { stream: BufReader::new(stream), request }
    }

    /// Sends a request that must succeed, and returns its latency.
    pub fn ask(&mut self) -> Duration {
        let began = Instant::now();
        self.stream.get_mut().write_all(self.request.as_bytes()).unwrap();
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        assert!(line.contains(" 200 "), "the caller was rejected: {line}");
        let mut length = 0;
        while line != "\r\n" {
            line.clear();
            self.stream.read_line(&mut line).unwrap();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).unwrap();
        began.elapsed()
    }

    fn ask_times(&mut self, count: usize) -> Vec<Duration> {
        (0..count).map(|_| self.ask()).collect()
    }
}

/// Returns the value that `part` in 100 do not exceed.
fn percentile(times: &mut [Duration], part: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() - 1) * part / 100]
}

/// Runs an attack, and checks the caller and the server under it.
///
/// An attack signals when it is fully running, and never ends by itself: it is over when the caller has sent
/// enough requests.
pub fn endures(name: &str, arena: &Arena, attack: impl AsyncFnOnce(&AttackSignal)) {
    let mut caller = Caller::of(arena);
    caller.ask_times(20);
    let mut idle = caller.ask_times(100);
    let sockets = arena.sockets();
    let in_full_swing = AttackSignal::default();
    let (over, is_over) = tokio::sync::oneshot::channel::<()>();
    let mut times = std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let _over = over;
            let mut times = Vec::new();
            let mut left = REQUESTS;
            while left > 0 {
                left -= usize::from(in_full_swing.is_given(Duration::from_millis(10)));
                times.push(caller.ask());
            }
            times
        });
        runtime().block_on(async {
            tokio::select! {
                () = attack(&in_full_swing) => panic!("the attack has ended by itself"),
                _ = is_over => {}
            }
        });
        asking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let idle = percentile(&mut idle, 50);
    let median = percentile(&mut times, 50);
    let peak = arena.memory("VmHWM");
    println!(
        "{name}: the caller's {} requests took {median:?} (p99 {:?}), {idle:?} without; \
         peak {} MiB, then {} MiB",
        times.len(),
        percentile(&mut times, 99),
        peak >> 10,
        arena.memory("VmRSS") >> 10,
    );
    assert!(median < idle.max(IDLE_LEAST) * SLOWER_MAX, "{name}: the caller is delayed");
    assert!(peak < MEMORY_MAX_KIB, "{name}: the server had {peak} KiB");
    until("every socket is back", || arena.sockets() <= sockets);
    caller.ask();
    drop(caller);
    arena.leaves_nothing();
}

/// The signal that an attack is fully running.
#[derive(Default)]
pub struct AttackSignal {
    given: Mutex<bool>,
    changed: Condvar,
}

impl AttackSignal {
    pub fn give(&self) {
        *self.given.lock().unwrap() = true;
    }

    /// Returns whether it is given within a short time.
    fn is_given(&self, moment: Duration) -> bool {
        // No wake-up is needed: the caller does not send requests without a pause.
        *self.changed.wait_timeout(self.given.lock().unwrap(), moment).unwrap().0
    }
}

/// Repeats a function, on several connections.
pub async fn keep_at(connections: usize, once: impl AsyncFn()) {
    let one = async || {
        let mut turns = interval(Duration::from_millis(5));
        loop {
            turns.tick().await;
            once().await;
        }
    };
    join_all((0..connections).map(|_| one())).await;
}
