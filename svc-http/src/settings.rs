//! The settings of the HTTP server.

use std::num::NonZeroU32;
use std::time::Duration;

use svc_core::config::{Config, MailConfig, OidcConfig, PublicUrl, PushConfig};
use svc_core::egress::Egress;
use svc_core::id::WorkspaceId;
use svc_core::limits::{BODY_MAX_BYTES, CONCURRENT_REQUESTS_MAX, CONNECTIONS_MAX, WS_CONNECTIONS_MAX};

/// The settings of the HTTP server.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Maximum bytes of a request body.
    pub body_max_bytes: usize,
    /// Maximum requests in flight; `None` means no limit.
    pub concurrent_requests: Option<NonZeroU32>,
    /// Maximum connections; `None` means no limit.
    pub connections: Option<NonZeroU32>,
    /// Maximum WebSocket connections.
    pub ws_connections: u32,
    /// Number of proxies in front of the server whose entries in `X-Forwarded-For` or `Forwarded` are
    /// trusted.
    pub trusted_proxy_hops: usize,
    /// Host names of this server in lower case, in addition to localhost and the server's IP address.
    pub allowed_hosts: Vec<String>,
    /// Whether browsers send the session cookie only over HTTPS.
    pub cookie_secure: bool,
    /// URL under which browsers reach the server.
    pub public_url: Option<PublicUrl>,
    /// Settings for sign-in at an identity provider; `None` if such sign-in is off.
    pub oidc: Option<OidcConfig>,
    /// Settings for mail to members; `None` if mail is off.
    pub mail: Option<MailConfig>,
    /// Keys that identify this service to push services; `None` if web push is off.
    pub push: Option<PushConfig>,
    /// Permitted destinations of requests to addresses that members supply.
    pub egress: Egress,
    /// Whether authentication is off: a request without a credential acts as the first person of the first
    /// workspace.
    pub auth_disabled: bool,
    /// The workspace whose public channels are open to anonymous readers over MCP.
    pub anonymous_workspace: Option<WorkspaceId>,
    /// Time to keep serving after the termination signal, while readiness reports `draining`.
    pub shutdown_drain: Duration,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            body_max_bytes: usize::try_from(BODY_MAX_BYTES).unwrap_or(usize::MAX),
            concurrent_requests: u32::try_from(CONCURRENT_REQUESTS_MAX).ok().and_then(NonZeroU32::new),
            connections: u32::try_from(CONNECTIONS_MAX).ok().and_then(NonZeroU32::new),
            ws_connections: u32::try_from(WS_CONNECTIONS_MAX).unwrap_or(u32::MAX),
            trusted_proxy_hops: 0,
            allowed_hosts: Vec::new(),
            cookie_secure: false,
            public_url: None,
            oidc: None,
            mail: None,
            push: None,
            egress: Egress::default(),
            auth_disabled: false,
            anonymous_workspace: None,
            shutdown_drain: Duration::ZERO,
        }
    }
}

impl From<&Config> for HttpSettings {
    fn from(config: &Config) -> Self {
        Self {
            body_max_bytes: config.body_max_bytes,
            concurrent_requests: config.concurrent_requests,
            connections: config.connections,
            ws_connections: config.ws_connections,
            trusted_proxy_hops: config.trusted_proxy_hops,
            allowed_hosts: config.allowed_hosts.clone(),
            cookie_secure: config.cookie_secure,
            public_url: config.public_url.clone(),
            oidc: config.oidc.clone(),
            mail: config.mail.clone(),
            push: config.push.clone(),
            egress: config.egress,
            auth_disabled: config.auth_disabled,
            anonymous_workspace: config.anonymous_workspace,
            shutdown_drain: config.shutdown_drain,
        }
    }
}

impl HttpSettings {
    /// Lowers the connection limit to the connections that are possible with `descriptors` file descriptors.
    #[must_use]
    pub fn limited_by_descriptors(self, descriptors: usize) -> Self {
        let left = u32::try_from(descriptors.saturating_sub(RESERVED_DESCRIPTORS)).unwrap_or(u32::MAX).max(1);
        let connections = self.connections.map(|max| max.min(NonZeroU32::new(left).unwrap_or(max)));
        Self { connections, ..self }
    }

    /// Returns the host names of this server, including the host of its public URL.
    pub(crate) fn own_hosts(&self) -> Vec<String> {
        // A proxy may omit the port that browsers use.
        let public = self.public_url.iter().flat_map(|url| [url.host(), url.host_name()]);
        self.allowed_hosts.iter().cloned().chain(public.map(str::to_owned)).collect()
    }

    /// Returns the maximum connections in total and from one address.
    pub(crate) fn connection_limits(&self) -> (usize, usize) {
        let max = self.connections.and_then(|max| usize::try_from(max.get()).ok());
        let Some(max) = max else { return (usize::MAX, usize::MAX) };
        // Behind a trusted proxy, all connections come from the proxy's address.
        let each = if self.trusted_proxy_hops == 0 { (max / ADDRESS_DIVISOR).max(1) } else { max };
        (max, each)
    }
}

/// Number of file descriptors reserved for the database, files and the runtime.
const RESERVED_DESCRIPTORS: usize = 128;
/// Divisor of the connection limit; the result is the maximum connections from one address.
const ADDRESS_DIVISOR: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_has_a_quota_of_the_connections() {
        let settings = |max, trusted_proxy_hops| HttpSettings {
            connections: NonZeroU32::new(max),
            trusted_proxy_hops,
            ..HttpSettings::default()
        };
        assert_eq!(settings(20_000, 0).connection_limits(), (20_000, 2000));
        assert_eq!(settings(20_000, 1).connection_limits(), (20_000, 20_000));
        assert_eq!(settings(5, 0).connection_limits(), (5, 1));
        assert_eq!(settings(0, 0).connection_limits(), (usize::MAX, usize::MAX));
        assert_eq!(settings(20_000, 0).limited_by_descriptors(1024).connection_limits(), (896, 89));
        assert_eq!(settings(20_000, 0).limited_by_descriptors(1 << 20).connection_limits(), (20_000, 2000));
        assert_eq!(settings(0, 0).limited_by_descriptors(1024).connection_limits(), (usize::MAX, usize::MAX));
    }

    #[test]
    fn the_public_address_is_an_own_name() {
        let settings = HttpSettings {
            allowed_hosts: vec!["board".to_owned()],
            public_url: PublicUrl::parse("https://svc.example:8443/team"),
            ..HttpSettings::default()
        };
        assert_eq!(settings.own_hosts(), ["board", "svc.example:8443", "svc.example"]);
    }
}
