//! Accepts connections, leads each request to what answers it, and ends in order: say `draining`, stop
//! accepting, finish what is under way.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
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
use hyper::{HeaderMap, Method, Request};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use svc_core::op::{self, Surface};
use svc_core::{Code, Error, Result, Service};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::decode::{self, Text};
use crate::encode::{self, Response};
use crate::hosts::Hosts;
use crate::limits::{CLOSE_TIMEOUT, Ceiling, HEAD_TIMEOUT, HttpSettings};
use crate::openapi::Document;
use crate::route::{Found, Named, Own, Routes, Target};
use crate::{health, mcp, ws};

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
    routes: Routes,
    hosts: Hosts,
    document: Document,
    in_flight: Ceiling,
    sockets: Ceiling,
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
                Ok((stream, remote)) => {
                    let (server, builder) = (Arc::clone(&server), Arc::clone(&builder));
                    connections.spawn(connection(server, builder, graceful.watcher(), stream, remote.ip()));
                }
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
    Ok(())
}

const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const PING_INTERVAL: Duration = Duration::from_secs(20);

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(PING_INTERVAL);
    builder
}

/// Serves one connection to its end.
async fn connection(
    server: Arc<Server>,
    builder: Arc<auto::Builder<TokioExecutor>>,
    watcher: Watcher,
    stream: TcpStream,
    remote: IpAddr,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "TCP_NODELAY was not set");
    }
    let spoken = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&spoken);
    let service = service_fn(move |request| {
        heard.store(true, Ordering::Relaxed);
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(server.answer(remote, request).await) }
    });
    let conn = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    let mut conn = pin!(watcher.watch(conn));
    let begun = poll_fn(|cx| match conn.as_mut().poll(cx) {
        Poll::Pending if spoken.load(Ordering::Relaxed) => Poll::Ready(None),
        polled => polled.map(Some),
    });
    // Hyper begins to count when it knows the protocol, which a client can keep from it.
    let Ok(begun) = timeout(HEAD_TIMEOUT, begun).await else { return };
    let ended = match begun {
        Some(ended) => ended,
        None => conn.await,
    };
    if let Err(error) = ended {
        tracing::debug!(error = %error, "a connection broke off");
    }
}

impl Server {
    fn new(service: Service, settings: HttpSettings, own: SocketAddr) -> Result<Self> {
        Ok(Self {
            phase: watch::channel(Phase::Serving).0,
            mcp: mcp::Endpoint::new(&service, &settings, own)?,
            routes: Routes::build(service.table())?,
            hosts: Hosts::new(own, settings.allowed_hosts.clone()),
            document: Document::default(),
            in_flight: Ceiling::new(settings.concurrent_requests.map(Into::into)),
            sockets: Ceiling::new(Some(settings.ws_connections)),
            service,
            settings,
        })
    }

    /// Answers a request, whatever happens.
    async fn answer(&self, remote: IpAddr, request: Request<Incoming>) -> Response {
        let head = request.method() == Method::HEAD;
        let respond = AssertUnwindSafe(self.respond(remote, request)).catch_unwind();
        let response = match respond.await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => encode::problem(&error),
            Err(_) => encode::problem(&Error::internal("answering a request panicked")),
        };
        if head { encode::without_body(response) } else { response }
    }

    async fn respond(&self, remote: IpAddr, request: Request<Incoming>) -> Result<Response> {
        // Only operations are answered in place: the others are rare, and would make every request's future large.
        match self.routes.find(request.method(), request.uri().path())? {
            Found::Target(Target::Operation(row), text) => self.operation(row, text, remote, request).await,
            Found::Target(Target::Own(own), _) => Box::pin(self.own(own, remote, request)).await,
            Found::Allow(allow) if request.method() == Method::OPTIONS => Ok(encode::options(allow)),
            Found::Allow(allow) => {
                Box::pin(discard(request)).await;
                Ok(encode::wrong_method(allow))
            }
            Found::Nothing => {
                let path = request.uri().path().to_owned();
                Box::pin(discard(request)).await;
                Err(Error::new(
                    Code::UnknownRoute,
                    format!("there is no route {path}; see GET /openapi.json"),
                ))
            }
        }
    }

    /// Answers on a route that is no operation.
    async fn own(&self, target: Own, remote: IpAddr, request: Request<Incoming>) -> Result<Response> {
        match target {
            Own::Health => {
                let phase = *self.phase.borrow();
                Ok(health::readiness(&self.service, phase).await)
            }
            Own::Liveness => Ok(health::liveness()),
            Own::OpenApi => Ok(self.document.response(self.service.table())),
            Own::WebSocket => {
                let place = self.sockets.take().ok_or_else(overloaded)?;
                let peer = self.peer(remote, request.headers());
                ws::upgrade(self, request, peer, place)
            }
            Own::Mcp => {
                let permit = self.in_flight.take().ok_or_else(overloaded)?;
                Ok(mcp::handle(self, request, permit).await)
            }
        }
    }

    async fn operation(
        &self,
        row: Named,
        mut text: Text,
        remote: IpAddr,
        request: Request<Incoming>,
    ) -> Result<Response> {
        let permit = self.in_flight.take().ok_or_else(overloaded)?;
        let (head, body) = request.into_parts();
        let body = decode::body(&head.headers, body, self.settings.body_max_bytes).await?;
        decode::query(head.uri.query(), &mut text)?;
        let credential = decode::bearer(&head.headers)?;
        if row.open && credential.is_none() {
            self.hosts.check(&head.uri, &head.headers)?;
        }
        let request = op::Request {
            credential,
            text,
            body,
            surface: Surface::Rest,
            path: head.uri.path().to_owned(),
            peer: Some(self.peer(remote, &head.headers)),
            follow_up: false,
        };
        let reply = if row.waits {
            // A parked wait is not in flight.
            drop(permit);
            Box::pin(self.unless_closing(self.service.ask(row.name, request))).await??
        } else {
            self.service.ask(row.name, request).await?
        };
        Ok(encode::reply(&reply))
    }

    /// The address a request comes from.
    fn peer(&self, remote: IpAddr, headers: &HeaderMap) -> IpAddr {
        decode::peer(remote, headers, self.settings.trusted_proxy_hops)
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

async fn discard(request: Request<Incoming>) {
    let (head, body) = request.into_parts();
    decode::discard(&head.headers, body).await;
}

fn overloaded() -> Error {
    Error::new(Code::Overloaded, "the server is at its ceiling; try again shortly")
}
