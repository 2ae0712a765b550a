//! Holds the state that all requests to a server share, and determines the sender and the credential of a
//! request.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::COOKIE;
use hyper::{HeaderMap, Request, Uri};
use svc_core::config::PublicUrl;
use svc_core::op::{self, AcceptedCredentials, Credential, SessionKey, Surface};
use svc_core::share::Quotas;
use svc_core::{Ceiling, Code, Error, LimitState, Peer, PlaceGuard, Result, Service};
use tokio::sync::watch;

use crate::decode;
use crate::encode::{self, Response};
use crate::forwarded;
use crate::hosts::ServerHosts;
use crate::limits::HANDSHAKES_MAX;
use crate::limits::body::BodyReader;
use crate::limits::in_flight::InFlight;
use crate::limits::pace::ReadPace;
use crate::limits::transfer::Transfers;
use crate::limits::unread::UnreadResponses;
use crate::oidc::Provider;
use crate::origin::{CookieUse, accepts_session_cookie};
use crate::phase::{Phase, wait_for_closing};
use crate::settings::HttpSettings;
use crate::ui::Board;

/// State that all request handlers of a server share.
pub(crate) struct ServerState {
    pub service: Service,
    pub settings: HttpSettings,
    pub phase: watch::Sender<Phase>,
    pub bodies: BodyReader,
    pub transfers: Transfers,
    pub unread: UnreadResponses,
    pub hosts: ServerHosts,
    pub in_flight: InFlight,
    /// Limits WebSockets and other event streams whose credential has been admitted.
    pub sockets: Ceiling,
    /// Limits WebSockets that must still send a credential in their first frame.
    pub handshakes: Ceiling,
    /// The identity provider at which people sign in, if one is configured.
    pub oidc: Option<Provider>,
    /// The pages and files of the board.
    pub board: Board,
}

/// The connection on which a request arrives.
pub(crate) struct PeerLink {
    /// Remote IP address of the connection, which may be a proxy's.
    pub remote: IpAddr,
    pub pace: ReadPace,
    /// Slot of this connection in the connection limit, which is kept through a WebSocket upgrade.
    pub slot: Arc<PlaceGuard>,
}

/// Slot of a request whose credential is not verified yet, and the remaining quotas to report to the caller.
#[derive(Default)]
pub(crate) struct UnverifiedRequest {
    /// Slot in the limit on unverified requests from the same address.
    slot: Option<PlaceGuard>,
    limit_states: Vec<LimitState>,
}

impl UnverifiedRequest {
    pub fn new(slot: Option<PlaceGuard>) -> Self {
        Self { slot, limit_states: Vec::new() }
    }

    /// Releases the slot of an admitted request, and stores the remaining quotas to report to the caller.
    pub fn release_slot(&mut self, limit_states: &[LimitState]) {
        self.slot = None;
        self.store_limit_states(limit_states);
    }

    /// Stores the remaining quotas to report to the caller of a request that was not admitted.
    pub fn store_limit_states(&mut self, limit_states: &[LimitState]) {
        self.limit_states = limit_states.to_vec();
    }

    /// Adds the remaining quotas to the response. A slot that is still held is released once the response is
    /// sent.
    pub fn finish_response(self, response: &mut Response) {
        encode::insert_rate_limit_headers(response.headers_mut(), &self.limit_states);
        self.slot.into_iter().for_each(|slot| response.body_mut().hold_slot(slot));
    }
}

impl ServerState {
    pub fn new(service: Service, settings: HttpSettings, own: SocketAddr) -> Result<Self> {
        if settings.auth_disabled {
            tracing::warn!("AUTH_DISABLED is on, so authentication is off: anybody can do anything");
        }
        if let Some(workspace) = settings.anonymous_workspace {
            tracing::warn!(%workspace, "SVC_DEV_ANONYMOUS_MCP_WORKSPACE is set: anybody reads its channels");
        }
        Ok(Self {
            phase: watch::channel(Phase::Serving).0,
            bodies: BodyReader::new(),
            transfers: Transfers::new(),
            unread: UnreadResponses::new(),
            hosts: ServerHosts::new(own, settings.own_hosts()),
            in_flight: InFlight::new(settings.concurrent_requests.map(Into::into)),
            sockets: Ceiling::new(
                "WebSockets and streams of events",
                usize::try_from(settings.ws_connections).unwrap_or(usize::MAX),
                Quotas::default(),
            ),
            handshakes: Ceiling::with_client_limit(
                "WebSockets without a credential",
                HANDSHAKES_MAX,
                HANDSHAKES_MAX / 2,
            ),
            board: Board::new(service.table())?,
            oidc: settings.oidc.as_ref().map(Provider::new).transpose()?,
            service,
            settings,
        })
    }

    /// Returns the request head with which the core admits a request before its body is read.
    pub async fn request_head(
        &self,
        link: &PeerLink,
        request: &Request<Incoming>,
    ) -> Result<op::RequestHead> {
        self.request_head_for(
            link,
            request,
            AcceptedCredentials::All,
            CookieUse::for_method(request.method()),
        )
        .await
    }

    /// Returns the request head for a route that accepts the credentials `accepted`. `cookie_use` is the
    /// purpose of the session cookie.
    pub async fn request_head_for(
        &self,
        link: &PeerLink,
        request: &Request<Incoming>,
        accepted: AcceptedCredentials,
        cookie_use: CookieUse,
    ) -> Result<op::RequestHead> {
        let peer = self.peer(link, request.headers());
        let credential = match accepted {
            AcceptedCredentials::Nothing => Credential::Nothing,
            AcceptedCredentials::Authorization => self.credential(peer, request.headers(), None).await?,
            AcceptedCredentials::All => {
                let key = self.session_key_for(request, cookie_use);
                self.credential(peer, request.headers(), key).await?
            }
        };
        let takes_none = accepted == AcceptedCredentials::Nothing;
        let credential = if takes_none { credential } else { self.default_credential(credential, request)? };
        let path = request.uri().path().to_owned();
        Ok(op::RequestHead { credential, surface: Surface::Rest, path, peer: Some(peer) })
    }

    /// Returns the credential of the first person instead of a missing credential, if authentication is off.
    ///
    /// Fails in that case if the Host or the Origin of the request is not this server.
    fn default_credential(&self, credential: Credential, request: &Request<Incoming>) -> Result<Credential> {
        if !(credential.is_nothing() && self.settings.auth_disabled) {
            return Ok(credential);
        }
        self.hosts.check_target_and_origin(request.uri(), request.headers())?;
        Ok(Credential::FirstPerson)
    }

    /// Returns the key that verifies the session cookie of a request, or `None` if the cookie is absent or
    /// not accepted.
    fn session_key_for(&self, request: &Request<Incoming>, cookie_use: CookieUse) -> Option<&SessionKey> {
        let counts = || accepts_session_cookie(request, cookie_use, self.public_origin());
        self.service.session_key().filter(|_| request.headers().contains_key(COOKIE) && counts())
    }

    /// Returns the credential in the headers of a request. A session cookie is accepted only if `session_key`
    /// verifies the cookie.
    ///
    /// If the credential cannot be parsed, the request counts against the rate limit of its address.
    pub async fn credential(
        &self,
        peer: Peer,
        headers: &HeaderMap,
        session_key: Option<&SessionKey>,
    ) -> Result<Credential> {
        let credential = decode::parse_credential(headers, session_key);
        if credential.is_err() {
            self.service.count(op::RequestHead { peer: Some(peer), ..op::RequestHead::default() }).await?;
        }
        credential
    }

    /// Returns the sender of a request, as reported by the trusted proxies.
    pub fn peer(&self, link: &PeerLink, headers: &HeaderMap) -> Peer {
        forwarded::peer_behind_proxies(link.remote, headers, self.settings.trusted_proxy_hops)
    }

    /// Rejects a request without a credential if the Host or the Origin is not this server.
    pub fn check_host(&self, head: &op::RequestHead, request: &Request<Incoming>) -> Result<()> {
        if !head.credential.is_nothing() {
            return Ok(());
        }
        self.hosts.check_target_and_origin(request.uri(), request.headers())
    }

    /// Returns the base URL of this service: the public URL that the operator has set, or else a URL with the
    /// request's host.
    ///
    /// If the request's host is not a name of this server, returns an empty text. Then URLs begin with the
    /// path and never contain a foreign host name.
    pub fn base_url(&self, uri: &Uri, headers: &HeaderMap) -> String {
        if let Some(public) = &self.settings.public_url {
            return public.to_string();
        }
        let host = self.hosts.own_target_host(uri, headers);
        host.map_or_else(String::new, |host| format!("http://{host}"))
    }

    /// Returns the origin of the public URL, or `None` if the operator has set no public URL.
    pub fn public_origin(&self) -> Option<&str> {
        self.settings.public_url.as_ref().map(PublicUrl::origin)
    }

    /// Returns the path of the session cookie: the path of the public URL, or `/`. With the path, the browser
    /// does not send the cookie to other services on the same host.
    pub fn cookie_path(&self) -> &str {
        let public = self.settings.public_url.as_ref().map(PublicUrl::path);
        public.filter(|path| !path.is_empty()).unwrap_or("/")
    }

    /// Returns a URL reference to `path`, for the response to a request for the same path.
    ///
    /// The reference is relative if a proxy strips a path, because clients may connect through that proxy or
    /// directly.
    pub fn url_reference(&self, path: &str) -> String {
        if self.cookie_path() == "/" { path.to_owned() } else { relative_reference(path, path) }
    }

    /// Returns the Location that redirects a browser from `path` to `target`, which begins with a slash.
    ///
    /// If the operator has set the public URL, the location begins with the path of that URL, which a proxy
    /// strips from requests. Otherwise the location is relative, so that it works with any prefix that a
    /// proxy strips.
    pub fn redirect_location(&self, path: &str, target: &str) -> String {
        match &self.settings.public_url {
            Some(public) => format!("{}{target}", public.path()),
            None => relative_reference(path, target),
        }
    }

    /// Returns the outcome of `work`. Fails with 503 `closing` if the server closes before `work` has
    /// finished.
    pub async fn run_unless_closing<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        let mut phase = self.phase.subscribe();
        tokio::select! {
            outcome = work => Ok(outcome),
            () = wait_for_closing(&mut phase) => {
                Err(Error::new(Code::Closing, "the server is shutting down"))
            }
        }
    }
}

/// Returns the relative reference from one path to another.
fn relative_reference(from: &str, to: &str) -> String {
    let depth = from.matches('/').count().saturating_sub(1);
    format!("{}{}", "../".repeat(depth), to.trim_start_matches('/'))
}
