//! Accepts connections, routes requests and shuts down gracefully.
//!
//! A shutdown reports `draining` on the readiness check, then stops accepting, then finishes the requests
//! in progress.

use std::future::{Future, poll_fn};
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use secrecy::SecretString;
use svc_core::capability::Needs;
use svc_core::limits::WAIT_INPUT_MAX_BYTES;
use svc_core::op::{self, Admission, Effect, Operation, Surface};
use svc_core::text::echo;
use svc_core::{Client, Code, Error, Result, Service};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::body::{self, Bodies, OPEN_BODY_MAX};
use crate::decode::{self, Text};
use crate::encode::{self, Response};
use crate::hosts::{self, Hosts};
use crate::in_flight::{RequestSlots, overloaded};
use crate::limits::{
    CLOSE_TIMEOUT, ConcurrencyLimit, HEAD_TIMEOUT, HttpSettings, Permit, WRITE_STALL_TIMEOUT,
};
use crate::openapi::Document;
use crate::pace::Pace;
use crate::route::{Builtin, Routed, Routes, Target};
use crate::shares::{Share, Shares};
use crate::stream::Stream;
use crate::unread::UnreadAnswers;
use crate::{health, mcp, problems, ws};

/// The phase of the server's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Serving,
    /// Still serving, but readiness reports the coming shutdown.
    Draining,
    /// Accepts nothing new; parked waits end.
    Closing,
}

/// The state shared by all requests.
pub(crate) struct Server {
    pub service: Service,
    pub settings: HttpSettings,
    pub phase: watch::Sender<Phase>,
    pub mcp: mcp::Endpoint,
    pub bodies: Bodies,
    pub unread: UnreadAnswers,
    pub hosts: Hosts,
    routes: Routes,
    /// What feeds subscriptions.
    document: Document,
    connections: Shares<Client>,
    pub in_flight: RequestSlots,
    /// HTTP/2 requests whose credential has not been verified, counted until their responses are sent.
    unverified: Shares<Client>,
    sockets: ConcurrencyLimit,
}

/// The slot of a request whose credential has not been verified yet.
pub(crate) type UnverifiedSlot = Option<Share<Client>>;

/// Why a stream is reset without a response.
type StreamRejected = &'static str;

/// The connection that a request arrives on.
pub(crate) struct Link {
    remote: IpAddr,
    pace: Pace,
    /// Its slot among all connections, kept through an upgrade.
    pub slot: Arc<Share<Client>>,
}

/// Serves until `shutdown` resolves, then drains.
///
/// Returns when every connection has ended or was cut off.
pub async fn serve(
    service: Service,
    listener: TcpListener,
    settings: HttpSettings,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let server = Arc::new(Server::new(service, settings, listener.local_addr()?).map_err(io::Error::other)?);
    let builder = Arc::new(builder());
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut end = pin!(async {
        shutdown.await;
        server.phase.send_replace(Phase::Draining);
        sleep(server.settings.shutdown_drain).await;
    });
    loop {
        tokio::select! {
            () = &mut end => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, remote)) => match server.connections.take(Client::at(remote.ip()), 1) {
                    Some(slot) => {
                        let link = Link { remote: remote.ip(), pace: Pace::new(), slot: Arc::new(slot) };
                        let (server, builder) = (Arc::clone(&server), Arc::clone(&builder));
                        connections.spawn(connection(server, builder, graceful.watcher(), stream, link));
                    }
                    None => reject_connection(stream),
                },
                Err(error) => {
                    // Most likely the file descriptors have run out; some become free as connections end.
                    tracing::warn!(%error, "could not accept a connection");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    server.phase.send_replace(Phase::Closing);
    let finished = async {
        graceful.shutdown().await;
        // Upgraded connections hold a receiver until they are closed.
        server.phase.closed().await;
    };
    if timeout(CLOSE_TIMEOUT, finished).await.is_err() {
        tracing::warn!("some connections did not finish in time and were cut off");
    }
    connections.shutdown().await;
    // All zero, unless something leaks beyond the end of its connection.
    tracing::debug!(
        connections = server.connections.taken(),
        in_flight = server.in_flight.taken(),
        sockets = server.sockets.taken(),
        bodies = server.bodies.unfinished(),
        bytes = server.unread.taken(),
        "closed"
    );
    Ok(())
}

const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const PING_INTERVAL: Duration = Duration::from_secs(20);

/// Limit on the bytes of a request's head, and on those read ahead of a body.
const BUFFER_MAX: usize = 64 << 10;
/// Limit on the bytes of a request's head over HTTP/2.
const HEAD_MAX: u32 = 16 << 10;
/// The HTTP/2 flow-control window in bytes, the smallest that a connection can have.
const WINDOW: u32 = (64 << 10) - 1;
/// Limit on concurrent requests on one HTTP/2 connection.
const STREAMS_MAX: u32 = 64;
/// Limit on concurrent HTTP/2 requests of one address whose credential is not verified.
///
/// It applies to all connections of the address together.
const UNVERIFIED_MAX: usize = 512;

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(BUFFER_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING_INTERVAL)
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_MAX)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(BUFFER_MAX);
    builder
}

/// Rejects a connection above the limit.
///
/// Nothing is read and nothing is waited for, so the peer may not see the reason.
fn reject_connection(stream: TcpStream) {
    let refusal = overloaded().problem();
    let body = serde_json::to_string(&refusal).unwrap_or_default();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    // A response that cannot be written without blocking is dropped.
    drop(stream.into_std().and_then(|mut stream| stream.write_all(answer.as_bytes())));
}

async fn connection(
    server: Arc<Server>,
    builder: Arc<auto::Builder<TokioExecutor>>,
    watcher: Watcher,
    stream: TcpStream,
    link: Link,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY was not set");
    }
    let (pace, link) = (link.pace.clone(), Arc::new(link));
    let request_seen = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&request_seen);
    let service = service_fn(move |request| {
        seen.store(true, Ordering::Relaxed);
        let (server, link) = (Arc::clone(&server), Arc::clone(&link));
        async move { server.answer(&link, request).await }
    });
    let stream = TokioIo::new(Stream::new(stream, WRITE_STALL_TIMEOUT));
    let conn = builder.serve_connection_with_upgrades(stream, service);
    let mut conn = pin!(watcher.watch(conn));
    let begun = poll_fn(|cx| match conn.as_mut().poll(cx) {
        Poll::Pending if request_seen.load(Ordering::Relaxed) => Poll::Ready(None),
        polled => polled.map(Some),
    });
    // Hyper's own timeout starts only once it knows the protocol, and a client can keep it from knowing.
    let Ok(begun) = timeout(HEAD_TIMEOUT, begun).await else { return };
    let ended = match begun {
        Some(ended) => ended,
        None => tokio::select! {
            ended = conn => ended,
            () = pace.stalled(WRITE_STALL_TIMEOUT) => {
                return tracing::debug!("a peer that does not read its responses was disconnected");
            }
        },
    };
    if let Err(error) = ended {
        tracing::debug!(error = %error, "a connection was lost");
    }
}

impl Server {
    fn new(service: Service, settings: HttpSettings, own: SocketAddr) -> Result<Self> {
        Ok(Self {
            phase: watch::channel(Phase::Serving).0,
            mcp: mcp::Endpoint::new(&service, &settings)?,
            bodies: Bodies::new(),
            unread: UnreadAnswers::new(),
            hosts: Hosts::new(own, settings.allowed_hosts.clone()),
            routes: Routes::build(service.table())?,
            document: Document::default(),
            connections: {
                let (all, each) = settings.connections();
                Shares::new(all, each)
            },
            in_flight: RequestSlots::new(settings.concurrent_requests.map(Into::into)),
            unverified: Shares::new(usize::MAX, UNVERIFIED_MAX),
            sockets: ConcurrencyLimit::new(Some(settings.ws_connections)),
            service,
            settings,
        })
    }

    /// Returns the response to a request, a problem if it fails or panics.
    async fn answer(
        &self,
        link: &Link,
        request: Request<Incoming>,
    ) -> std::result::Result<Response, StreamRejected> {
        let head = request.method() == Method::HEAD;
        let mut unverified = self.unverified(link, &request)?;
        let respond = AssertUnwindSafe(self.respond(link, request, &mut unverified)).catch_unwind();
        let response = match respond.await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => encode::problem(&error),
            Err(_) => encode::problem(&Error::internal("answering a request panicked")),
        };
        let mut response = if head { encode::without_body(response) } else { response };
        response.body_mut().watched(&link.pace);
        unverified.into_iter().for_each(|slot| response.body_mut().keep(slot));
        Ok(response)
    }

    /// Takes a slot for a request whose credential is not verified yet.
    ///
    /// An HTTP/1 connection has one request at a time and needs none.
    fn unverified(
        &self,
        link: &Link,
        request: &Request<Incoming>,
    ) -> std::result::Result<UnverifiedSlot, StreamRejected> {
        if request.version() != Version::HTTP_2 {
            return Ok(None);
        }
        let peer = Client::at(self.peer(link, request.headers()));
        self.unverified.take(peer, 1).map(Some).ok_or("too many requests from that address are in progress")
    }

    async fn respond(
        &self,
        link: &Link,
        request: Request<Incoming>,
        unverified: &mut UnverifiedSlot,
    ) -> Result<Response> {
        hosts::check_single(request.version(), request.headers())?;
        // All but operations are boxed: they are rare, and would make every request's future large.
        match self.routes.find(request.method(), request.uri().path()) {
            Routed::Target(Target::Operation(operation), text) => {
                self.operation(&operation, text, link, request, unverified).await
            }
            Routed::Target(Target::Builtin(builtin), _) => {
                Box::pin(self.builtin(builtin, link, request, unverified)).await
            }
            not_found => Box::pin(self.unrouted(not_found, link, request)).await,
        }
    }

    async fn builtin(
        &self,
        target: Builtin,
        link: &Link,
        request: Request<Incoming>,
        unverified: &mut UnverifiedSlot,
    ) -> Result<Response> {
        match target {
            Builtin::Health => {
                let phase = *self.phase.borrow();
                Ok(health::readiness(&self.service, phase).await)
            }
            Builtin::Liveness => Ok(health::liveness()),
            Builtin::OpenApi => {
                self.admit_open(link, &request).await?;
                Ok(self.document.response(self.service.table()))
            }
            Builtin::Problem => {
                self.admit_open(link, &request).await?;
                problems::page(request.uri().path(), request.headers())
            }
            Builtin::WebSocket => ws::upgrade(self, link, request).await,
            Builtin::Mcp => mcp::handle(self, link, request, unverified).await,
        }
    }

    /// Handles a request that no route matches: OPTIONS, 405 or 404.
    async fn unrouted(&self, found: Routed, link: &Link, request: Request<Incoming>) -> Result<Response> {
        self.admit_open(link, &request).await?;
        let path = echo(request.uri().path()).into_owned();
        match found {
            Routed::Allow(allow) if request.method() == Method::OPTIONS => Ok(encode::options(allow)),
            Routed::Allow(allow) => {
                body::discard(request, self.settings.body_max_bytes).await;
                Ok(encode::method_not_allowed(allow))
            }
            _ => {
                body::discard(request, self.settings.body_max_bytes).await;
                let detail = format!("there is no route {path}; see GET /openapi.json");
                Err(Error::new(Code::UnknownRoute, detail))
            }
        }
    }

    /// Admits a request to a route that needs no credential.
    ///
    /// Without a credential the Host must be one of this server's own names.
    async fn admit_open(&self, link: &Link, request: &Request<Incoming>) -> Result<()> {
        let head = self.head(link, request).await?;
        self.check_host(&head, request)?;
        self.service.count(head).await
    }

    /// Rejects a request that has no credential and names another host than this server.
    pub(crate) fn check_host(&self, head: &op::RequestHead, request: &Request<Incoming>) -> Result<()> {
        if head.credential.is_some() {
            return Ok(());
        }
        self.hosts.check(request.uri(), request.headers())
    }

    async fn operation(
        &self,
        operation: &Arc<Operation>,
        text: Result<Text>,
        link: &Link,
        request: Request<Incoming>,
        unverified: &mut UnverifiedSlot,
    ) -> Result<Response> {
        let request_head = self.head(link, &request).await?;
        if operation.needed() == Needs::Nothing {
            self.check_host(&request_head, &request)?;
        }
        let admission = match self.service.admit(Some(operation), request_head).await {
            Ok(admission) => admission,
            Err(refusal) => {
                Box::pin(body::discard(request, self.settings.body_max_bytes)).await;
                return Err(refusal);
            }
        };
        drop(unverified.take());
        let client = admission.client().unwrap_or_else(|| Client::at(self.peer(link, request.headers())));
        let input = match self.input(operation, text, client, request).await {
            Ok(input) => input,
            Err(refusal) => return Err(self.service.refuse(Some(operation), admission, refusal).await),
        };
        let again = AtomicBool::new(false);
        let run = || {
            // The first attempt was counted and audited, so a retry is not.
            let is_again = again.swap(true, Ordering::Relaxed);
            let admission = if is_again { admission.follow_up() } else { admission.clone() };
            self.run(operation, admission, &input, client)
        };
        self.unread.answer(client, !operation.effect().changes_nothing(), run).await
    }

    /// Reads the body and the query into the operation's input.
    async fn input(
        &self,
        operation: &Arc<Operation>,
        text: Result<Text>,
        client: Client,
        request: Request<Incoming>,
    ) -> Result<op::Input> {
        let (head, body) = request.into_parts();
        let max = self.settings.body_max_bytes;
        let max = if operation.needed() == Needs::Nothing { max.min(OPEN_BODY_MAX) } else { max };
        let max = if operation.effect() == Effect::Wait { max.min(WAIT_INPUT_MAX_BYTES) } else { max };
        let body = self.bodies.read(client, &head.headers, body, max).await?;
        let mut text = text?;
        decode::query(head.uri.query(), &mut text)?;
        Ok(op::Input { text, body })
    }

    async fn run(
        &self,
        operation: &Arc<Operation>,
        admission: Admission,
        input: &op::Input,
        client: Client,
    ) -> Result<Response> {
        let slot = self.in_flight.take(client).await?;
        let run = self.service.run(operation, admission, input);
        let reply = if operation.effect() == Effect::Wait {
            // A parked wait does not count as in flight.
            drop(slot);
            Box::pin(self.unless_closing(run)).await??
        } else {
            run.await?
        };
        Ok(encode::reply(&reply))
    }

    /// Takes a slot among the WebSocket connections.
    pub fn socket(&self) -> Result<Permit> {
        self.sockets.take().ok_or_else(overloaded)
    }

    /// Returns what the core needs to admit a request before its body is read.
    pub async fn head(&self, link: &Link, request: &Request<Incoming>) -> Result<op::RequestHead> {
        let peer = self.peer(link, request.headers());
        Ok(op::RequestHead {
            credential: self.bearer(peer, request.headers()).await?,
            surface: Surface::Rest,
            path: request.uri().path().to_owned(),
            peer: Some(peer),
        })
    }

    /// Returns the bearer token.
    ///
    /// A request whose credential cannot be read counts against its address.
    pub async fn bearer(&self, peer: IpAddr, headers: &HeaderMap) -> Result<Option<SecretString>> {
        let token = decode::bearer(headers);
        if token.is_err() {
            self.service.count(op::RequestHead { peer: Some(peer), ..op::RequestHead::default() }).await?;
        }
        token
    }

    /// Returns the address of the client that sent a request.
    pub fn peer(&self, link: &Link, headers: &HeaderMap) -> IpAddr {
        decode::peer(link.remote, headers, self.settings.trusted_proxy_hops)
    }

    /// Returns the outcome of `work`, or fails with `closing` if the server closes first.
    pub async fn unless_closing<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let mut phase = self.phase.subscribe();
        tokio::select! {
            outcome = work => Ok(outcome),
            () = closing(&mut phase) => {
                Err(Error::new(Code::Closing, "the server is shutting down; try again"))
            }
        }
    }
}

/// Resolves when the server closes.
pub(crate) async fn closing(phase: &mut watch::Receiver<Phase>) {
    // The sender is dropped only after the closing phase.
    let _ = phase.wait_for(|phase| *phase == Phase::Closing).await;
}
