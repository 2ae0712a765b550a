//! Checks the Host and Origin of requests against the host names of this server.
//!
//! A page of another site can make a browser send requests here under a name that resolves to this machine
//! (DNS rebinding). Such a page must not reach routes that need no credential. A page outside of web sites,
//! such as one inside a desktop program, or a page served by this machine may call the server with a token,
//! because no other page can make it do so.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{HOST, HeaderName, ORIGIN};
use hyper::{HeaderMap, Uri, Version};
use svc_core::{Code, Error, Result};

/// Error message for a request without a credential whose Host or Origin is unknown.
const UNKNOWN_NAME: &str = "without a credential Host and Origin must name this server: its operator sets \
    SVC_PUBLIC_URL to the address under which browsers reach it, or lists further names in SVC_ALLOWED_HOSTS";

/// The host names and addresses of this server.
pub(crate) struct ServerHosts {
    own: IpAddr,
    allowed: Vec<String>,
}

impl ServerHosts {
    pub fn new(own: SocketAddr, allowed: Vec<String>) -> Self {
        Self { own: own.ip(), allowed }
    }

    /// Rejects a request from a page of another site, even with a token.
    pub fn check_origin(&self, headers: &HeaderMap) -> Result<()> {
        match header_values(headers, ORIGIN).all(|origin| self.may_send_token(origin)) {
            true => Ok(()),
            false => Err(Error::new(Code::Forbidden, "Origin must name this server; see SVC_PUBLIC_URL")),
        }
    }

    /// Rejects a request whose target host or Origin is not a name of this server.
    pub fn check_target_and_origin(&self, uri: &Uri, headers: &HeaderMap) -> Result<()> {
        let is_own = header_values(headers, ORIGIN).all(|origin| self.is_own_host(site_of_origin(origin)));
        if is_own && self.targets_this_server(uri, headers) { Ok(()) } else { Err(unknown_host_error()) }
    }

    /// Checks the target host and the Origin of a request whose token arrives later, such as in the first
    /// WebSocket frame.
    pub fn check_before_token(&self, uri: &Uri, headers: &HeaderMap) -> Result<()> {
        let may_send_token = header_values(headers, ORIGIN).all(|origin| self.may_send_token(origin));
        if may_send_token && self.targets_this_server(uri, headers) {
            Ok(())
        } else {
            Err(unknown_host_error())
        }
    }

    /// Returns whether the target host of a request is this server.
    fn targets_this_server(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        // The URI's authority overrides the header (RFC 9112, 3.2.2; RFC 9113, 8.3.1).
        let host =
            uri.authority().map(|authority| authority.as_str()).or(header_values(headers, HOST).next());
        host.is_some_and(|host| self.is_own_host(host))
    }

    /// Returns whether pages of an origin may send a token: pages of this server, of this machine, or outside
    /// of web sites.
    fn may_send_token(&self, origin: &str) -> bool {
        let Some((scheme, site)) = origin.split_once("://") else {
            return origin == OPAQUE_ORIGIN || self.is_own_host(origin);
        };
        let is_web = ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web));
        match is_web {
            true => self.is_own_host(site) || is_below_localhost(site),
            false => is_scheme(scheme),
        }
    }

    /// Returns the target host of a request, or `None` if the host is not a name of this server.
    pub fn own_target_host<'a>(&self, uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
        let host = uri.authority().map(|authority| authority.as_str());
        let host = host.or_else(|| headers.get(HOST).and_then(|host| host.to_str().ok()));
        host.filter(|host| self.is_own_host(host))
    }

    /// Returns whether `site`, a host with an optional port, is this server.
    fn is_own_host(&self, site: &str) -> bool {
        let site = site.to_ascii_lowercase();
        let bare = host_of(&site);
        if bare == "localhost" || self.allowed.iter().any(|name| *name == site || name == bare) {
            return true;
        }
        // DNS rebinding is impossible with a literal address, so any address of this machine is accepted.
        let address = bare.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        address.is_ok_and(|ip| ip.is_loopback() || ip == self.own || self.own.is_unspecified())
    }
}

fn header_values(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers.get_all(name).into_iter().map(|value| value.to_str().unwrap_or_default())
}

/// Origin that browsers send for pages outside of web sites, such as local files.
const OPAQUE_ORIGIN: &str = "null";

/// Returns the host and port of an origin.
fn site_of_origin(origin: &str) -> &str {
    origin.split_once("://").map_or(origin, |(_, site)| site)
}

/// Returns whether a site is a name below `localhost`, which browsers resolve to this machine (RFC 6761,
/// 6.3).
fn is_below_localhost(site: &str) -> bool {
    let site = site.to_ascii_lowercase();
    let below = host_of(&site).strip_suffix(".localhost");
    below.is_some_and(|below| !below.is_empty() && below.bytes().all(is_host_name_byte))
}

fn is_host_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// Returns whether a text is a valid URI scheme (RFC 3986, 3.1).
fn is_scheme(text: &str) -> bool {
    let is_of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(is_of_scheme)
}

fn unknown_host_error() -> Error {
    Error::new(Code::Forbidden, UNKNOWN_NAME)
}

/// Rejects a request with more than one Host header, or with none in HTTP/1.1 (RFC 9112, 3.2).
///
/// Otherwise a proxy and this server might use different Host headers.
pub(crate) fn check_single_host(version: Version, headers: &HeaderMap) -> Result<()> {
    match headers.get_all(HOST).iter().count() {
        1 => Ok(()),
        0 if version != Version::HTTP_11 => Ok(()),
        _ => Err(Error::malformed("a request must have exactly one Host header")),
    }
}

/// Returns the host of `site` without the port.
fn host_of(site: &str) -> &str {
    match site.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.ends_with(':') => host,
        _ => site,
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn only_own_names_are_accepted() {
        let hosts = ServerHosts::new(
            "192.0.2.7:8080".parse().unwrap(),
            vec!["svc.example:8080".into(), "board".into()],
        );
        let check = |host: &str, origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(ORIGIN, origin.parse().unwrap());
            }
            hosts.check_target_and_origin(&Uri::from_static("/"), &headers)
        };
        for own in [
            "localhost",
            "LocalHost:8080",
            "127.0.0.1:1",
            "[::1]:80",
            "192.0.2.7",
            "svc.example:8080",
            "board:9",
        ] {
            assert!(check(own, None).is_ok(), "{own}");
        }
        for other in
            ["evil.example", "localhost.evil.example", "192.0.2.8", "svc.example", "", "127.0.0.1.evil"]
        {
            assert!(check(other, None).is_err(), "{other}");
        }
        assert!(check("localhost", Some("http://localhost:3000")).is_ok());
        assert!(check("localhost", Some("https://evil.example")).is_err());
        assert!(check("localhost", Some("null")).is_err());
        let mut twice = HeaderMap::new();
        twice.insert(HOST, HeaderValue::from_static("localhost"));
        twice.append(ORIGIN, HeaderValue::from_static("http://localhost"));
        assert!(hosts.check_target_and_origin(&Uri::from_static("/"), &twice).is_ok());
        twice.append(ORIGIN, HeaderValue::from_static("https://evil.example"));
        assert!(hosts.check_target_and_origin(&Uri::from_static("/"), &twice).is_err(), "each Origin counts");
        assert!(hosts.check_target_and_origin(&Uri::from_static("/"), &HeaderMap::new()).is_err());
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("localhost"));
        assert!(hosts.check_target_and_origin(&Uri::from_static("http://evil.example/"), &headers).is_err());
        headers.insert(HOST, HeaderValue::from_static("evil.example"));
        assert!(hosts.check_target_and_origin(&Uri::from_static("http://localhost/"), &headers).is_ok());
    }

    #[test]
    fn pages_of_no_site_and_of_this_machine_may_bring_a_token() {
        let hosts = ServerHosts::new("192.0.2.7:8080".parse().unwrap(), vec!["svc.example".into()]);
        let found = |origin: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static("localhost"));
            headers.insert(ORIGIN, HeaderValue::from_static(origin));
            let uri = Uri::from_static("/");
            [
                hosts.check_origin(&headers).is_ok(),
                hosts.check_before_token(&uri, &headers).is_ok(),
                hosts.check_target_and_origin(&uri, &headers).is_ok(),
            ]
        };
        let own = [true; 3];
        let with_token = [true, true, false];
        let never = [false; 3];
        for (origin, wanted) in [
            ("http://localhost:3000", own),
            ("https://LOCALHOST", own),
            ("http://127.0.0.1:5173", own),
            ("http://[::1]:80", own),
            ("https://svc.example", own),
            ("http://192.0.2.7:8080", own),
            ("null", with_token),
            ("http://app.localhost:5173", with_token),
            ("https://a.b.LocalHost", with_token),
            ("http://tauri.localhost", with_token),
            ("vscode-webview://0a1b2c", with_token),
            ("chrome-extension://abcdef", with_token),
            ("moz-extension://0-1", with_token),
            ("app://obsidian.md", with_token),
            ("file://", with_token),
            ("https://evil.example", never),
            ("HTTP://evil.example", never),
            ("http://localhost.evil.example", never),
            ("http://evillocalhost", never),
            ("http://evil.example/.localhost", never),
            ("http://evil.example:80.localhost", never),
            ("http://.localhost", never),
            ("http://evil@app.localhost", never),
            ("http:evil.example", never),
            ("1app://x", never),
            ("://x", never),
            ("NULL", never),
            ("", never),
        ] {
            assert_eq!(found(origin), wanted, "{origin}");
        }
        let mut both = HeaderMap::new();
        both.append(ORIGIN, HeaderValue::from_static("null"));
        both.append(ORIGIN, HeaderValue::from_static("https://evil.example"));
        assert!(hosts.check_origin(&both).is_err(), "each Origin counts");
        let mut elsewhere = HeaderMap::new();
        elsewhere.insert(HOST, HeaderValue::from_static("evil.example"));
        elsewhere.insert(ORIGIN, HeaderValue::from_static("null"));
        assert!(hosts.check_before_token(&Uri::from_static("/"), &elsewhere).is_err());
    }

    #[test]
    fn a_request_has_one_host() {
        let mut headers = HeaderMap::new();
        assert!(check_single_host(Version::HTTP_11, &headers).is_err());
        assert!(check_single_host(Version::HTTP_10, &headers).is_ok());
        assert!(check_single_host(Version::HTTP_2, &headers).is_ok());
        headers.append(HOST, HeaderValue::from_static("a"));
        assert!(check_single_host(Version::HTTP_11, &headers).is_ok());
        headers.append(HOST, HeaderValue::from_static("a"));
        for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2] {
            assert!(check_single_host(version, &headers).is_err(), "{version:?}");
        }
    }
}
