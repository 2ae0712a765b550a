//! Accepts connections, leads each request to what answers it, and ends in order: say `draining`, stop
//! accepting, finish what is under way.

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
use crate::limits::{CLOSE_TIMEOUT, Ceiling, HEAD_TIMEOUT, HttpSettings, Permit, TAKE_TIMEOUT};
use crate::openapi::Document;
use crate::pace::Pace;
use crate::route::{Builtin, Found, Routes, Target};
use crate::shares::{Share, Shares};
use crate::stream::Stream;
use crate::unread::UnreadAnswers;
use crate::{health, mcp, problems, ws};

/// How far the server is on its way to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It serves.
    Serving,
    /// It serves, and tells who asks that it soon will not.
    Draining,
    /// It takes nothing new and ends what waits.
    Closing,
}

/// What every request needs.
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
    pub(crate) wait_for_event: Arc<Operation>,
    document: Document,
    connections: Shares<Client>,
    pub in_flight: RequestSlots,
    /// Streams of HTTP/2 whose credential is not known to be live, and answers on them.
    unknown: Shares<Client>,
    sockets: Ceiling,
}

/// The place of a request whose credential is not known to be live yet.
pub(crate) type Unknown = Option<Share<Client>>;

/// Why a stream is ended without an answer.
type TurnedAway = &'static str;

/// The connection that a request comes over.
pub(crate) struct Link {
    remote: IpAddr,
    pace: Pace,
    /// Its place among all connections. Whatever it is upgraded to keeps it.
    pub place: Arc<Share<Client>>,
}

/// Serves until `shutdown` is over, drains, and answers when every connection has ended or was cut off.
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
                    Some(place) => {
                        let link = Link { remote: remote.ip(), pace: Pace::new(), place: Arc::new(place) };
                        let (server, builder) = (Arc::clone(&server), Arc::clone(&builder));
                        connections.spawn(connection(server, builder, graceful.watcher(), stream, link));
                    }
                    None => turn_away(stream),
                },
                Err(error) => {
                    // Out of file descriptors, most likely: some come back when connections end.
                    tracing::warn!(%error, "a connection could not be accepted");
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
        // Upgraded connections hold a receiver until they have closed.
        server.phase.closed().await;
    };
    if timeout(CLOSE_TIMEOUT, finished).await.is_err() {
        tracing::warn!("some connections did not finish in time and were cut off");
    }
    connections.shutdown().await;
    // All zero, unless something holds on to what it had when its connection ended.
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

/// Bytes of a request's head, and of what is read of a body before it is asked for.
const BUFFER_MAX: usize = 64 << 10;
/// Bytes of a request's head over HTTP/2.
const HEAD_MAX: u32 = 16 << 10;
/// Bytes that a client may send over HTTP/2 before they are asked for: the least that a connection can have.
const WINDOW: u32 = (64 << 10) - 1;
/// Requests at once on one connection of HTTP/2.
const STREAMS_MAX: u32 = 64;
/// Of one address, over all of its connections of HTTP/2, as long as they show no live credential.
const UNKNOWN_MAX: usize = 512;

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

/// Refuses a connection for which there is no place. Nothing is read or waited for, so the peer may not see why.
fn turn_away(stream: TcpStream) {
    let refusal = overloaded().problem();
    let body = serde_json::to_string(&refusal).unwrap_or_default();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\ncontent-length: {}\r\n\
         retry-after: 1\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    // What cannot be told at once is not told.
    drop(stream.into_std().and_then(|mut stream| stream.write_all(answer.as_bytes())));
}

/// Serves one connection to its end.
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
    let spoken = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&spoken);
    let service = service_fn(move |request| {
        heard.store(true, Ordering::Relaxed);
        let (server, link) = (Arc::clone(&server), Arc::clone(&link));
        async move { server.answer(&link, request).await }
    });
    let stream = TokioIo::new(Stream::new(stream, TAKE_TIMEOUT));
    let conn = builder.serve_connection_with_upgrades(stream, service);
    let mut conn = pin!(watcher.watch(conn));
    let begun = poll_fn(|cx| match conn.as_mut().poll(cx) {
        Poll::Pending if spoken.load(Ordering::Relaxed) => Poll::Ready(None),
        polled => polled.map(Some),
    });
    // Hyper begins to count when it knows the protocol, which a client can keep from it.
    let Ok(begun) = timeout(HEAD_TIMEOUT, begun).await else { return };
    let ended = match begun {
        Some(ended) => ended,
        None => tokio::select! {
            ended = conn => ended,
            () = pace.stalled(TAKE_TIMEOUT) => return tracing::debug!("a peer that takes no answers was cut off"),
        },
    };
    if let Err(error) = ended {
        tracing::debug!(error = %error, "a connection broke off");
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
            wait_for_event: Arc::clone(service.operation("wait_for_event")?),
            document: Document::default(),
            connections: {
                let (all, each) = settings.connections();
                Shares::new(all, each)
            },
            in_flight: RequestSlots::new(settings.concurrent_requests.map(Into::into)),
            unknown: Shares::new(usize::MAX, UNKNOWN_MAX),
            sockets: Ceiling::new(Some(settings.ws_connections)),
            service,
            settings,
        })
    }

    /// Answers a request, whatever happens.
    async fn answer(
        &self,
        link: &Link,
        request: Request<Incoming>,
    ) -> std::result::Result<Response, TurnedAway> {
        let head = request.method() == Method::HEAD;
        let mut unknown = self.unknown(link, &request)?;
        let respond = AssertUnwindSafe(self.respond(link, request, &mut unknown)).catch_unwind();
        let response = match respond.await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => encode::problem(&error),
            Err(_) => encode::problem(&Error::internal("answering a request panicked")),
        };
        let mut response = if head { encode::without_body(response) } else { response };
        response.body_mut().watched(&link.pace);
        unknown.into_iter().for_each(|place| response.body_mut().keep(place));
        Ok(response)
    }

    /// A place for a request that may be anybody's. A connection of HTTP/1 has one request at a time, and needs none.
    fn unknown(&self, link: &Link, request: &Request<Incoming>) -> std::result::Result<Unknown, TurnedAway> {
        if request.version() != Version::HTTP_2 {
            return Ok(None);
        }
        let peer = Client::at(self.peer(link, request.headers()));
        self.unknown.take(peer, 1).map(Some).ok_or("too many requests of that address are under way")
    }

    async fn respond(
        &self,
        link: &Link,
        request: Request<Incoming>,
        unknown: &mut Unknown,
    ) -> Result<Response> {
        hosts::check_single(request.version(), request.headers())?;
        // Only operations are answered in place: the others are rare, and would make every request's future large.
        match self.routes.find(request.method(), request.uri().path()) {
            Found::Target(Target::Operation(operation), text) => {
                self.operation(&operation, text, link, request, unknown).await
            }
            Found::Target(Target::Builtin(own), _) => Box::pin(self.own(own, link, request, unknown)).await,
            nowhere => Box::pin(self.elsewhere(nowhere, link, request)).await,
        }
    }

    /// Answers on a route that is no operation.
    async fn own(
        &self,
        target: Builtin,
        link: &Link,
        request: Request<Incoming>,
        unknown: &mut Unknown,
    ) -> Result<Response> {
        match target {
            Builtin::Health => {
                let phase = *self.phase.borrow();
                Ok(health::readiness(&self.service, phase).await)
            }
            Builtin::Liveness => Ok(health::liveness()),
            Builtin::OpenApi => {
                self.let_anybody_in(link, &request).await?;
                Ok(self.document.response(self.service.table()))
            }
            Builtin::Problem => {
                self.let_anybody_in(link, &request).await?;
                problems::page(request.uri().path(), request.headers())
            }
            Builtin::WebSocket => ws::upgrade(self, link, request).await,
            Builtin::Mcp => mcp::handle(self, link, request, unknown).await,
        }
    }

    /// Answers where there is no route.
    async fn elsewhere(&self, found: Found, link: &Link, request: Request<Incoming>) -> Result<Response> {
        self.let_anybody_in(link, &request).await?;
        let path = echo(request.uri().path()).into_owned();
        match found {
            Found::Allow(allow) if request.method() == Method::OPTIONS => Ok(encode::options(allow)),
            Found::Allow(allow) => {
                body::discard(request).await;
                Ok(encode::wrong_method(allow))
            }
            _ => {
                body::discard(request).await;
                let detail = format!("there is no route {path}; see GET /openapi.json");
                Err(Error::new(Code::UnknownRoute, detail))
            }
        }
    }

    /// Lets a request in that needs no credential: without one, under this server's own names alone.
    async fn let_anybody_in(&self, link: &Link, request: &Request<Incoming>) -> Result<()> {
        let head = self.head(link, request).await?;
        self.check_name(&head, request)?;
        self.service.count(head).await
    }

    /// Refuses what comes without a credential to another name than this server's own.
    pub(crate) fn check_name(&self, head: &op::Head, request: &Request<Incoming>) -> Result<()> {
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
        unknown: &mut Unknown,
    ) -> Result<Response> {
        let asks = self.head(link, &request).await?;
        if operation.needed() == Needs::Nothing {
            self.check_name(&asks, &request)?;
        }
        let admission = match self.service.admit(Some(operation), asks).await {
            Ok(admission) => admission,
            Err(refusal) => {
                Box::pin(body::discard(request)).await;
                return Err(refusal);
            }
        };
        drop(unknown.take());
        let client = admission.client().unwrap_or_else(|| Client::at(self.peer(link, request.headers())));
        let input = match self.input(operation, text, client, request).await {
            Ok(input) => input,
            Err(refusal) => return Err(self.service.refuse(Some(operation), admission, refusal).await),
        };
        let again = AtomicBool::new(false);
        let run = || {
            // What is run again was recorded before.
            let is_again = again.swap(true, Ordering::Relaxed);
            let admission = if is_again { admission.follow_up() } else { admission.clone() };
            self.run(operation, admission, &input, client)
        };
        self.unread.answer(client, !operation.effect().changes_nothing(), run).await
    }

    /// What a request asks, once its body is read.
    async fn input(
        &self,
        operation: &Arc<Operation>,
        text: Result<Text>,
        client: Client,
        request: Request<Incoming>,
    ) -> Result<op::Input> {
        let (head, body) = request.into_parts();
        let most = self.settings.body_max_bytes;
        let most = if operation.needed() == Needs::Nothing { most.min(OPEN_BODY_MAX) } else { most };
        let most = if operation.effect() == Effect::Wait { most.min(WAIT_INPUT_MAX_BYTES) } else { most };
        let body = self.bodies.read(client, &head.headers, body, most).await?;
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
        let place = self.in_flight.take(client).await?;
        let run = self.service.run(operation, admission, input);
        let reply = if operation.effect() == Effect::Wait {
            // A parked wait is not in flight.
            drop(place);
            Box::pin(self.unless_closing(run)).await??
        } else {
            run.await?
        };
        Ok(encode::reply(&reply))
    }

    /// A place among the WebSocket connections.
    pub fn socket(&self) -> Result<Permit> {
        self.sockets.take().ok_or_else(overloaded)
    }

    /// What the core wants to know of a request before its body is read.
    pub async fn head(&self, link: &Link, request: &Request<Incoming>) -> Result<op::Head> {
        let peer = self.peer(link, request.headers());
        Ok(op::Head {
            credential: self.bearer(peer, request.headers()).await?,
            surface: Surface::Rest,
            path: request.uri().path().to_owned(),
            peer: Some(peer),
        })
    }

    /// The bearer token. A request of which that cannot be told is counted for its address.
    pub async fn bearer(&self, peer: IpAddr, headers: &HeaderMap) -> Result<Option<SecretString>> {
        let token = decode::bearer(headers);
        if token.is_err() {
            self.service.count(op::Head { peer: Some(peer), ..op::Head::default() }).await?;
        }
        token
    }

    /// The address a request comes from.
    pub fn peer(&self, link: &Link, headers: &HeaderMap) -> IpAddr {
        decode::peer(link.remote, headers, self.settings.trusted_proxy_hops)
    }

    /// What `work` comes to, unless the server closes before.
    pub async fn unless_closing<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let mut phase = self.phase.subscribe();
        tokio::select! {
            outcome = work => Ok(outcome),
            () = closing(&mut phase) => {
                Err(Error::new(Code::Closing, "the server is closing; try again"))
            }
        }
    }
}

/// Comes back when the server closes.
pub(crate) async fn closing(phase: &mut watch::Receiver<Phase>) {
    // The sender goes away only after closing.
    let _ = phase.wait_for(|phase| *phase == Phase::Closing).await;
}
