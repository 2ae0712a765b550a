//! Sends all HTTP requests of this service to other servers.
//!
//! A host name is resolved once, and the client connects only to a public address of the host. An IP address
//! in the URL must be public as well. So an attacker that makes this service send a request cannot reach
//! private servers in its network. The operator may exempt one host, or all hosts for development. The client
//! follows no redirects, uses no proxy, reuses no connection, and limits the time and the bytes of a
//! response.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::TokioResolver;
use http::{Request, Response};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};
use svc_core::egress::{Egress, is_public};
use tokio::time::timeout;

/// Maximum time to resolve a host name.
pub(crate) const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time to connect, including name resolution and the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time from the start of a request to the end of its response.
pub(crate) const TOTAL_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum bytes of a response body from another server.
const BODY_MAX: usize = 512 << 10;

/// Servers that the client may reach in addition to public addresses over HTTPS.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllowedServers {
    /// Name of a host that may have a private address.
    pub private_host: Option<String>,
    /// Whether `private_host` may be reached without TLS if it is this machine.
    pub loopback_http: bool,
    /// Whether private addresses are allowed for every host.
    pub egress: Egress,
}

/// HTTP client for requests to other servers.
pub(crate) struct OutboundClient {
    client: Client,
    allowed: AllowedServers,
}

/// Reason why an outbound request has no usable response.
#[derive(Debug)]
pub(crate) enum OutboundFailure {
    /// Requests to the URL are not allowed, for the contained reason.
    Forbidden(&'static str),
    /// The connection failed, broke or timed out.
    Transport(reqwest::Error),
    /// The response body is too large.
    TooLarge,
    /// The server responded with the contained status, which is a failure for the caller.
    FailureStatus(u16),
}

impl OutboundFailure {
    fn without_url(self) -> Self {
        match self {
            Self::Transport(error) => Self::Transport(error.without_url()),
            other => other,
        }
    }
}

impl fmt::Display for OutboundFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forbidden(why) => write!(f, "the address may not be reached: {why}"),
            Self::Transport(error) => write!(f, "no response: {error}"),
            Self::TooLarge => write!(f, "the response has more than {BODY_MAX} bytes"),
            Self::FailureStatus(status) => write!(f, "the status is {status}"),
        }
    }
}

impl std::error::Error for OutboundFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Transport(error) => Some(error),
            _ => None,
        }
    }
}

impl OutboundClient {
    /// Creates a client that may also reach the servers in `allowed`.
    pub fn new(allowed: AllowedServers) -> Result<Self, OutboundFailure> {
        let names = NameResolver { private_host: allowed.private_host.clone(), egress: allowed.egress };
        let client = Client::builder()
            .dns_resolver(names)
            .no_proxy()
            .redirect(Policy::none())
            .referer(false)
            .pool_max_idle_per_host(0)
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TOTAL_TIMEOUT)
            .user_agent(concat!("svc/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(Self { client: client.map_err(OutboundFailure::Transport)?, allowed })
    }

    /// Fails if requests to a URL are not allowed, without resolving the host name.
    pub fn check(&self, url: &Url) -> Result<(), OutboundFailure> {
        self.allowed.check(url)
    }

    /// Sends a request and returns the response with its whole body. Fails if the status is 500 or above.
    pub async fn send(&self, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, OutboundFailure> {
        let mut response = self.exchange(request).await?;
        if response.status().is_server_error() {
            return Err(OutboundFailure::FailureStatus(response.status().as_u16()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(OutboundFailure::Transport)? {
            if body.len().saturating_add(chunk.len()) > BODY_MAX {
                return Err(OutboundFailure::TooLarge);
            }
            body.extend_from_slice(&chunk);
        }
        let mut made = Response::new(body);
        *made.status_mut() = response.status();
        *made.headers_mut() = std::mem::take(response.headers_mut());
        Ok(made)
    }

    /// Sends a request and returns the status and the headers of the response, whatever the status is.
    ///
    /// The body of the response is not read.
    ///
    /// A failure does not contain the URL, which may be a secret.
    pub async fn send_for_head(&self, request: Request<Vec<u8>>) -> Result<Response<()>, OutboundFailure> {
        let mut response = self.exchange(request).await.map_err(OutboundFailure::without_url)?;
        let mut head = Response::new(());
        *head.status_mut() = response.status();
        *head.headers_mut() = std::mem::take(response.headers_mut());
        Ok(head)
    }

    async fn exchange(&self, request: Request<Vec<u8>>) -> Result<reqwest::Response, OutboundFailure> {
        let request = reqwest::Request::try_from(request).map_err(OutboundFailure::Transport)?;
        self.allowed.check(request.url())?;
        self.client.execute(request).await.map_err(OutboundFailure::Transport)
    }

    /// Fetches a URL and returns the response body. Fails unless the status is 200.
    pub async fn get(&self, url: &str) -> Result<Vec<u8>, OutboundFailure> {
        let mut request = Request::new(Vec::new());
        *request.uri_mut() = url.parse().map_err(|_| OutboundFailure::Forbidden("it is not a URL"))?;
        let accept = http::HeaderValue::from_static("application/json");
        request.headers_mut().insert(http::header::ACCEPT, accept);
        let response = self.send(request).await?;
        if response.status() == http::StatusCode::OK {
            Ok(response.into_body())
        } else {
            Err(OutboundFailure::FailureStatus(response.status().as_u16()))
        }
    }
}

impl AllowedServers {
    /// Checks a URL before its host name is resolved. A URL with an IP address is checked only here, since no
    /// host name is resolved.
    fn check(&self, url: &Url) -> Result<(), OutboundFailure> {
        if self.egress.is_open {
            return self.egress.check(url).map_err(OutboundFailure::Forbidden);
        }
        let host = url.host_str().ok_or(OutboundFailure::Forbidden("it has no host"))?;
        let is_private = self.private_host.as_deref() == Some(host);
        let ip = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().ok();
        let is_here = host == "localhost" || ip.is_some_and(|ip| ip.is_loopback());
        match url.scheme() {
            "https" => {}
            "http" if self.loopback_http && is_private && is_here => {}
            _ => return Err(OutboundFailure::Forbidden("it is not https")),
        }
        if ip.is_some_and(|ip| !is_public(ip)) && !is_private {
            return Err(OutboundFailure::Forbidden("it is not public"));
        }
        Ok(())
    }
}

/// Resolves host names, and returns only the addresses that the client may reach.
struct NameResolver {
    private_host: Option<String>,
    egress: Egress,
}

impl Resolve for NameResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let may_be_private = self.egress.is_open || self.private_host.as_deref() == Some(name.as_str());
        Box::pin(async move {
            let resolver = TokioResolver::builder_tokio()?.build()?;
            let found = timeout(RESOLVE_TIMEOUT, resolver.lookup_ip(name.as_str())).await??;
            let reachable: Vec<SocketAddr> = found
                .iter()
                .filter(|ip| may_be_private || is_public(*ip))
                .map(|ip| SocketAddr::new(ip, 0))
                .collect();
            if reachable.is_empty() {
                return Err("the name has no public address".into());
            }
            let addresses: Addrs = Box::new(reachable.into_iter());
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_checked_before_it_is_resolved() {
        let reach = |host: &str, loopback_http| {
            let private_host = Some(host.to_owned());
            AllowedServers { private_host, loopback_http, ..AllowedServers::default() }
        };
        let fits = |reach: &AllowedServers, url: &str| reach.check(&Url::parse(url).unwrap()).is_ok();
        let none = AllowedServers::default();
        assert!(fits(&none, "https://idp.example/") && fits(&none, "https://1.1.1.1/"));
        for url in [
            "http://idp.example/",
            "https://127.0.0.1/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://[::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://169.254.169.254/",
            "http://127.0.0.1/",
            "ftp://idp.example/",
            "file:///etc/passwd",
        ] {
            assert!(!fits(&none, url), "{url}");
        }
        assert!(
            fits(&reach("10.0.0.1", false), "https://10.0.0.1/")
                && !fits(&reach("10.0.0.1", true), "http://10.0.0.1/")
        );
        assert!(!fits(&reach("10.0.0.1", true), "https://10.0.0.2/"));
        for host in ["127.0.0.1", "localhost", "[::1]"] {
            let url = format!("http://{host}:8080/");
            assert!(fits(&reach(host, true), &url) && !fits(&reach(host, false), &url), "{host}");
            assert!(!fits(&reach("idp.example", true), &url), "{host}");
        }
    }

    /// The host name resolves to this machine, whose address is not public.
    #[test]
    fn a_name_is_connected_to_only_at_a_public_address() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(ask_for_this_machine());
    }

    async fn ask_for_this_machine() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
        let public = OutboundClient::new(AllowedServers::default()).unwrap();
        assert!(matches!(public.get(&url).await, Err(OutboundFailure::Transport(_))));
        let private_host = Some("localhost".to_owned());
        let excepted = AllowedServers { private_host, ..AllowedServers::default() };
        let open = AllowedServers { egress: Egress { is_open: true }, ..AllowedServers::default() };
        for reach in [excepted, open] {
            let reaching = OutboundClient::new(reach).unwrap();
            let (answer, came) = tokio::join!(reaching.get(&url), async {
                let (stream, from) = listener.accept().await.unwrap();
                drop(stream);
                from
            });
            assert!(answer.is_err() && came.ip().is_loopback(), "a control: there it connects");
        }
        let more = listener.accept();
        assert!(timeout(Duration::ZERO, more).await.is_err(), "only those have connected");
    }
}
