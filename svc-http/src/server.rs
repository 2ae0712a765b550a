//! Accepts connections, routes requests and shuts down gracefully.
//!
//! During a shutdown the server first reports `draining` in the readiness check, then stops accepting
//! connections, and then finishes the requests in progress.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use hyper::body::Incoming;
use hyper::header::ALLOW;
use hyper::service::service_fn;
use hyper::{Method, Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use socket2::SockRef;
use svc_core::op::{Depth, Fixed, Frame, Shell};
use svc_core::ops::public_card;
use svc_core::text::echo;
use svc_core::{Ceiling, Code, Error, Holder, Result, Service};
use svc_mcp_stdio::profiles::Profile;
use svc_mcp_stdio::router::Router;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::connection::{connection_builder, reject_connection, wait_until_idle_in_shutdown};
use crate::encode::{self, Response};
use crate::limits::body;
use crate::limits::pace::ReadPace;
use crate::limits::write_timeout::TimeoutStream;
use crate::limits::{ABORT_TIMEOUT, CLOSE_TIMEOUT, HEAD_TIMEOUT, WRITE_STALL_TIMEOUT};
use crate::mail::MailSender;
use crate::mcp::ToolSelection;
use crate::openapi::OpenApiDocument;
use crate::phase::{Phase, wait_for_closing};
use crate::push::WebPush;
use crate::route::{RouteTarget, Routes, RoutingOutcome};
use crate::self_waking::SelfWaking;
use crate::settings::HttpSettings;
use crate::state::{PeerLink, ServerState, UnverifiedRequest};
use crate::{frames, health, hosts, mcp, problems, rest, workers, ws};

/// State of the running server: the shared request state, the routes and handlers, and the counters.
struct Server {
    state: Arc<ServerState>,
    routes: Routes,
    mcp: Arc<mcp::Endpoint>,
    document: OpenApiDocument,
    connections: Ceiling,
    /// Limits HTTP/2 requests whose credential has not been verified. A request counts until it is admitted,
    /// or until its error response is sent.
    unverified: Ceiling,
}

/// Reason for resetting an HTTP/2 stream without a response.
type StreamRejection = &'static str;

/// Serves requests until `shutdown` resolves, and then shuts down gracefully.
///
/// Returns when every connection has ended or was aborted.
pub async fn serve(
    service: Service,
    listener: TcpListener,
    settings: HttpSettings,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let router = svc_mcp_stdio::router(&service);
    serve_with_router(service, router, listener, settings, shutdown).await
}

/// Works like [`serve`], but with the MCP router `router` instead of the default router.
pub async fn serve_with_router(
    service: Service,
    router: Router,
    listener: TcpListener,
    settings: HttpSettings,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let server = Server::new(service, router, settings, listener.local_addr()?).map_err(io::Error::other)?;
    let server = Arc::new(server);
    let shell: Arc<dyn Shell> = Arc::clone(&server) as _;
    server.state.service.gauges().add(Arc::downgrade(&shell));
    let builder = Arc::new(connection_builder());
    let graceful = GracefulShutdown::new();
    let mut working = start_senders(&server.state).map_err(io::Error::other)?;
    let mut connections = JoinSet::new();
    let mut end = pin!(async {
        shutdown.await;
        server.state.phase.send_replace(Phase::Draining);
        sleep(server.state.settings.shutdown_drain).await;
    });
    loop {
        tokio::select! {
            () = &mut end => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, remote)) => match server.connections.take(Holder::at(remote.ip().into()), 1) {
                    Ok(slot) => {
                        let (remote, pace) = (remote.ip(), ReadPace::new());
                        let link = PeerLink { remote, pace, slot: Arc::new(slot) };
                        let server = Arc::clone(&server);
                        let builder = Arc::clone(&builder);
                        let watcher = graceful.watcher();
                        connections.spawn(serve_connection(server, builder, watcher, stream, link));
                    }
                    Err(refusal) => reject_connection(stream, &refusal),
                },
                Err(error) => {
                    // Most likely the process has no free file descriptors. Some become free as connections
                    // end.
                    tracing::warn!(%error, "could not accept a connection");
                    sleep(ACCEPT_RETRY_DELAY).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
    drop(listener);
    server.state.phase.send_replace(Phase::Closing);
    let finished = async {
        graceful.shutdown().await;
        // Upgraded connections hold a receiver until they are closed.
        server.state.phase.closed().await;
        while working.join_next().await.is_some() {}
    };
    if timeout(CLOSE_TIMEOUT, finished).await.is_err() {
        tracing::warn!("some connections did not finish in time and were aborted");
    }
    // A task that is blocked on the database does not end; the process does not wait for it.
    let aborted = async {
        connections.shutdown().await;
        working.shutdown().await;
    };
    if timeout(ABORT_TIMEOUT, aborted).await.is_err() {
        tracing::warn!("some requests could not be aborted");
    }
    // The following numbers are zero unless a resource outlives its connection.
    tracing::debug!(
        connections = server.connections.taken(),
        in_flight = server.state.in_flight.taken(),
        sockets = server.state.sockets.taken(),
        handshakes = server.state.handshakes.taken(),
        bodies = server.state.bodies.unfinished_count(),
        body_bytes = server.state.bodies.bytes(),
        unread_bytes = server.state.unread.taken(),
        "closed"
    );
    Ok(())
}

/// Starts the senders of the delivery channels that the settings enable.
fn start_senders(state: &ServerState) -> Result<JoinSet<()>> {
    let ServerState { settings, service, phase, .. } = state;
    let mut working = JoinSet::new();
    if let Some(mail) = &settings.mail {
        let sender = Arc::new(MailSender::new(mail)?);
        working.spawn(workers::run_delivery_worker(service.clone(), sender, phase.subscribe()));
    }
    if let Some(push) = &settings.push {
        let sender = Arc::new(WebPush::new(push, settings.egress)?);
        working.spawn(workers::run_delivery_worker(service.clone(), sender, phase.subscribe()));
    }
    Ok(working)
}

const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Maximum concurrent HTTP/2 requests from one address whose credential is not verified yet.
///
/// The limit applies to all connections from the address together.
pub(crate) const UNVERIFIED_MAX: usize = 512;

async fn serve_connection(
    server: Arc<Server>,
    builder: Arc<auto::Builder<TokioExecutor>>,
    watcher: Watcher,
    stream: TcpStream,
    link: PeerLink,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY was not set");
    }
    // A write that the kernel accepts does not show that the peer reads, since kernel buffers grow to
    // megabytes.
    if let Err(error) = SockRef::from(&stream).set_tcp_user_timeout(Some(WRITE_STALL_TIMEOUT)) {
        tracing::debug!(%error, "TCP_USER_TIMEOUT was not set");
    }
    let pace = link.pace.clone();
    let link = Arc::new(link);
    let mut phase = server.state.phase.subscribe();
    let request_seen = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&request_seen);
    let busy = Arc::new(());
    let is_busy = Arc::downgrade(&busy);
    let has_streams = Arc::new(AtomicBool::new(false));
    let has_streams_seen = Arc::clone(&has_streams);
    let service = service_fn(move |request: Request<Incoming>| {
        has_streams_seen.store(request.version() == Version::HTTP_2, Ordering::Relaxed);
        seen.store(true, Ordering::Relaxed);
        let server = Arc::clone(&server);
        let link = Arc::clone(&link);
        let busy = is_busy.upgrade();
        async move {
            let mut answered = server.response_to(&link, request).await;
            answered.iter_mut().for_each(|response| response.body_mut().hold_busy(busy.clone()));
            answered
        }
    });
    let stream = TokioIo::new(TimeoutStream::new(stream, WRITE_STALL_TIMEOUT));
    let conn = builder.serve_connection_with_upgrades(stream, service);
    let watched = pin!(watcher.watch(conn));
    let mut conn = pin!(SelfWaking::new(watched));
    let begun = poll_fn(|cx| match conn.as_mut().poll(cx) {
        Poll::Pending if request_seen.load(Ordering::Relaxed) => Poll::Ready(None),
        polled => polled.map(Some),
    });
    // hyper's timeout starts only once the protocol is known, and a client can prevent that. When the server
    // closes, hyper would also wait for the rest of the first request head.
    let begun = tokio::select! {
        begun = timeout(HEAD_TIMEOUT, begun) => begun,
        () = wait_for_closing(&mut phase) => return,
    };
    let Ok(begun) = begun else { return };
    let ended = match begun {
        Some(ended) => ended,
        None => tokio::select! {
            ended = conn => ended,
            () = pace.wait_until_stalled(WRITE_STALL_TIMEOUT) => {
                return tracing::debug!("a peer that does not read its responses was disconnected");
            }
            () = wait_until_idle_in_shutdown(&mut phase, &busy),
                if has_streams.load(Ordering::Relaxed) => return,
        },
    };
    if let Err(error) = ended {
        tracing::debug!(error = %error, "a connection was lost");
    }
}

/// Format of the error response to a request, determined by its path.
#[derive(Clone, Copy)]
enum FailureFormat {
    /// A JSON-RPC error, below the MCP path.
    Mcp { has_token: bool },
    /// The format of a frame at the frame's paths, or a problem at other paths.
    OfFrame(Option<Frame>),
}

impl FailureFormat {
    fn for_request<B>(request: &Request<B>) -> Self {
        let path = request.uri().path();
        if mcp::refusals::is_mcp_path(path) {
            return Self::Mcp { has_token: mcp::refusals::has_bearer_token(request.headers()) };
        }
        Self::OfFrame(frames::frame_at(path))
    }

    fn error_response(self, error: &Error) -> Response {
        match self {
            Self::Mcp { has_token } => mcp::refusals::error_response(None, error, has_token),
            Self::OfFrame(frame) => frames::error_response_at(frame, error),
        }
    }
}

impl Shell for Server {
    fn is_draining(&self) -> bool {
        *self.state.phase.borrow() != Phase::Serving
    }

    fn depths(&self) -> Vec<(&'static str, Depth)> {
        let state = &self.state;
        let limit = |limit: Option<u32>| limit.and_then(|limit| usize::try_from(limit).ok());
        let in_flight = limit(state.settings.concurrent_requests.map(Into::into));
        let connections = limit(state.settings.connections.map(Into::into));
        let sockets = limit(Some(state.settings.ws_connections));
        vec![
            ("connections", Depth::new(self.connections.taken(), connections)),
            ("requests_in_flight", Depth::new(state.in_flight.taken(), in_flight)),
            ("websocket_connections", Depth::new(state.sockets.taken(), sockets)),
        ]
    }
}

impl Server {
    fn new(service: Service, router: Router, settings: HttpSettings, own: SocketAddr) -> Result<Self> {
        let (all, each) = settings.connection_limits();
        Ok(Self {
            routes: Routes::build(service.table())?,
            mcp: Arc::new(mcp::Endpoint::new(&service, router)),
            document: OpenApiDocument::default(),
            connections: Ceiling::with_client_limit("connections", all, each),
            unverified: Ceiling::with_client_limit(
                "requests without a verified credential",
                usize::MAX,
                UNVERIFIED_MAX,
            ),
            state: Arc::new(ServerState::new(service, settings, own)?),
        })
    }

    /// Returns the response to a request. If the request fails or its handler panics, returns an error
    /// response.
    async fn response_to(
        &self,
        link: &PeerLink,
        request: Request<Incoming>,
    ) -> std::result::Result<Response, StreamRejection> {
        let head = request.method() == Method::HEAD;
        let place = FailureFormat::for_request(&request);
        let has_streams = request.version() == Version::HTTP_2;
        let mut unverified = self.take_unverified_slot(link, &request)?;
        let respond = AssertUnwindSafe(self.respond(link, request, &mut unverified)).catch_unwind();
        let response = match respond.await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => place.error_response(&error),
            Err(_) => place.error_response(&Error::internal("answering a request panicked")),
        };
        let mut response = if head { encode::into_head_response(response) } else { response };
        if has_streams {
            response.body_mut().register_chunks(&link.pace);
        }
        unverified.finish_response(&mut response);
        Ok(response)
    }

    /// Takes a slot for an HTTP/2 request whose credential is not verified yet.
    ///
    /// An HTTP/1 request needs no slot, since a connection has only one HTTP/1 request at a time.
    fn take_unverified_slot(
        &self,
        link: &PeerLink,
        request: &Request<Incoming>,
    ) -> std::result::Result<UnverifiedRequest, StreamRejection> {
        if request.version() != Version::HTTP_2 {
            return Ok(UnverifiedRequest::default());
        }
        let peer = Holder::at(self.state.peer(link, request.headers()));
        let slot = self.unverified.try_take(peer, 1);
        slot.map(|slot| UnverifiedRequest::new(Some(slot)))
            .map_err(|_| "too many requests from that address are in progress")
    }

    async fn respond(
        &self,
        link: &PeerLink,
        request: Request<Incoming>,
        unverified: &mut UnverifiedRequest,
    ) -> Result<Response> {
        hosts::check_single_host(request.version(), request.headers())?;
        // Only the futures of operations are not boxed. All other futures are rare, and would enlarge the
        // future of every request.
        match self.routes.find(request.method(), request.uri().path()) {
            RoutingOutcome::Target(RouteTarget::Row(row), text) => match row.http().frame {
                None => rest::handle(&self.state, &row, text, link, request, unverified).await,
                Some(frame) => {
                    let handled = frames::handle(&self.state, frame, &row, text, link, request, unverified);
                    Ok(Box::pin(handled).await)
                }
            },
            RoutingOutcome::Target(RouteTarget::Fixed(fixed), _) => {
                Box::pin(self.respond_fixed(fixed, link, request, unverified)).await
            }
            not_found => Box::pin(self.respond_unrouted(not_found, link, request, unverified)).await,
        }
    }

    async fn respond_fixed(
        &self,
        target: Fixed,
        link: &PeerLink,
        request: Request<Incoming>,
        unverified: &mut UnverifiedRequest,
    ) -> Result<Response> {
        match target {
            Fixed::Health => {
                let phase = *self.state.phase.borrow();
                Ok(health::readiness_response(&self.state.service, phase).await)
            }
            Fixed::Liveness => Ok(health::liveness_response()),
            Fixed::OpenApi => {
                self.admit_without_credential(link, &request).await?;
                Ok(self.document.response(self.state.service.table()))
            }
            Fixed::Problem => {
                self.admit_without_credential(link, &request).await?;
                problems::problem_page(request.uri().path(), request.headers())
            }
            Fixed::RoomScheme => {
                self.admit_without_credential(link, &request).await?;
                Ok(encode::cacheable_json_response(&public_card(self.state.service.export_key())))
            }
            Fixed::WebSocket => ws::upgrade(&self.state, link, request).await,
            Fixed::Mcp => {
                Ok(self.mcp.post(ToolSelection::ByClient, &self.state, link, request, unverified).await)
            }
            Fixed::McpStreamable => {
                Ok(self.mcp.post(ToolSelection::Streamable, &self.state, link, request, unverified).await)
            }
            Fixed::McpNotifications => {
                Ok(self.mcp.open_notification_stream(&self.state, link, request, unverified).await)
            }
            Fixed::McpSession => Ok(self.mcp.open_stream(&self.state, link, request, unverified).await),
            Fixed::McpSessionEnd => Ok(self.mcp.end_session(&self.state, link, request, unverified).await),
            Fixed::McpStream => mcp::stream::handle(&self.state, link, &request, unverified).await,
            Fixed::McpWorker => {
                let shown = ToolSelection::Profile(Profile::Worker);
                Ok(self.mcp.post(shown, &self.state, link, request, unverified).await)
            }
            Fixed::McpReviewer => {
                let shown = ToolSelection::Profile(Profile::Reviewer);
                Ok(self.mcp.post(shown, &self.state, link, request, unverified).await)
            }
        }
    }

    /// Responds to a request that matches no route: lists the methods for OPTIONS, or fails with 405 or 404.
    async fn respond_unrouted(
        &self,
        outcome: RoutingOutcome,
        link: &PeerLink,
        request: Request<Incoming>,
        unverified: &mut UnverifiedRequest,
    ) -> Result<Response> {
        let allow = match outcome {
            RoutingOutcome::MethodNotAllowed(allow) if request.method() == Method::OPTIONS => {
                self.admit_without_credential(link, &request).await?;
                return Ok(frames::options_response_at(frames::frame_at(request.uri().path()), allow));
            }
            RoutingOutcome::MethodNotAllowed(allow) => Some(allow),
            _ => None,
        };
        let head = self.state.request_head(link, &request).await?;
        self.state.check_host(&head, &request)?;
        let refusal = match &allow {
            Some(allow) => frames::wrong_method_error(allow),
            None => {
                let path = echo(request.uri().path());
                let detail = format!("there is no route {path}; see GET /openapi.json");
                Error::new(Code::UnknownRoute, detail)
            }
        };
        let refusal = self.state.service.refuse_unrouted(head, refusal).await;
        unverified.store_limit_states(refusal.limit_states());
        let refusal = Error::from(refusal);
        let place = FailureFormat::for_request(&request);
        body::discard_body(request, self.state.settings.body_max_bytes).await;
        match allow {
            Some(allow) if refusal.code() == Code::MethodNotAllowed => {
                let mut response = place.error_response(&refusal);
                response.headers_mut().insert(ALLOW, allow);
                Ok(response)
            }
            _ => Err(refusal),
        }
    }

    /// Admits a request for a document that needs no credential. A credential in the request is not verified.
    ///
    /// Fails if the request has no credential and the Host or the Origin is not this server.
    async fn admit_without_credential(&self, link: &PeerLink, request: &Request<Incoming>) -> Result<()> {
        let head = self.state.request_head(link, request).await?;
        self.state.check_host(&head, request)?;
        self.state.service.count(head).await
    }
}
