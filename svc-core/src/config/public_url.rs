//! The public URL at which browsers reach the service, as set by the operator.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use url::Url;

/// The public URL of the service: an origin, and optionally a path that a proxy strips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    origin: String,
    path: String,
}

impl PublicUrl {
    /// Parses a public URL, for example `https://svc.example.com/team`. Returns `None` if `text` is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let (_, rest) = text.split_once("://")?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let in_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
        let in_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '~' | '-');
        let path = path.strip_suffix('/').unwrap_or(path);
        let is_segment =
            |segment: &str| !segment.is_empty() && !segment.starts_with('.') && segment.chars().all(in_path);
        let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        let is_valid = url.port() != Some(0)
            && !host.is_empty()
            && !host.ends_with(':')
            && host.chars().all(in_host)
            && (path.is_empty() || path.split('/').all(is_segment));
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        is_valid.then(|| Self { origin: url.origin().ascii_serialization(), path })
    }

    /// Returns the origin of the URL in the form that browsers send: in lower case, without the default port.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns the host of the URL in lower case, with the port unless the port is the default.
    pub fn host(&self) -> &str {
        self.origin.split_once("://").map_or("", |(_, host)| host)
    }

    /// Returns the host of the URL in lower case, without the port.
    pub fn host_name(&self) -> &str {
        let host = self.host();
        match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        }
    }

    /// Returns the path of the URL without a trailing slash: empty, or with a leading slash.
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// Returns the URL of the board with which a browser offers to sign in with `token`.
///
/// A browser does not send the part after `#`. Without a public URL, the link is to the address
/// `listen_addr`.
pub fn board_link(public_url: Option<&PublicUrl>, listen_addr: SocketAddr, token: &str) -> String {
    let service =
        public_url.map_or_else(|| format!("http://{}", reachable(listen_addr)), PublicUrl::to_string);
    format!("{service}/ui/#{token}")
}

/// Returns the address with which a client on this machine can connect to a server that listens on `address`.
pub fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_the_board_is_one_that_a_browser_can_open() {
        let public = PublicUrl::parse("https://svc.example/team/");
        for (public, listens, wanted) in [
            (public.as_ref(), "127.0.0.1:80", "https://svc.example/team/ui/#svc_1"),
            (None, "127.0.0.1:8080", "http://127.0.0.1:8080/ui/#svc_1"),
            (None, "0.0.0.0:80", "http://127.0.0.1:80/ui/#svc_1"),
            (None, "[::]:80", "http://[::1]:80/ui/#svc_1"),
        ] {
            assert_eq!(board_link(public, listens.parse().unwrap(), "svc_1"), wanted);
        }
    }

    #[test]
    fn an_address_is_an_origin_and_a_path() {
        for (text, wanted) in [
            ("https://Svc.Example:8443", ["https://svc.example:8443", "svc.example:8443", ""]),
            ("HTTP://localhost/", ["http://localhost", "localhost", ""]),
            ("https://svc.example/Team/a_b/", ["https://svc.example", "svc.example", "/Team/a_b"]),
            ("https://svc.example:443", ["https://svc.example", "svc.example", ""]),
            ("http://[::1]:80/x", ["http://[::1]", "[::1]", "/x"]),
            ("http://[::1]:81", ["http://[::1]:81", "[::1]:81", ""]),
        ] {
            let url = PublicUrl::parse(text).unwrap();
            assert_eq!([url.origin(), url.host(), url.path()], wanted);
            assert_eq!(url.to_string(), format!("{}{}", wanted[0], wanted[2]));
            assert!(!url.host_name().ends_with(|c: char| c.is_ascii_digit()), "{}", url.host_name());
        }
        for wrong in [
            "svc.example",
            "ftp://svc.example",
            "https://",
            "https:///x",
            "https://:8080",
            "https://svc.example:",
            "https://svc.example:0",
            "https://svc.example:99999",
            "https://[::1",
            "https://a:b:c",
            "https://]",
            "https://user@svc.example",
            "https://svc.example//x",
            "https://svc.example/x//",
            "https://svc.example/../x",
            "https://svc.example/x?y",
            "https://svc.example/a b",
        ] {
            assert_eq!(PublicUrl::parse(wrong), None, "{wrong}");
        }
    }
}
