//! The host names under which this server is reached.
//!
//! A page of another site can make a browser send requests here under a name of its own that resolves to this
//! machine (DNS rebinding). Routes that need no credential must not be open to it.

use std::net::{IpAddr, SocketAddr};

use hyper::header::{HOST, HeaderName, ORIGIN};
use hyper::{HeaderMap, Uri, Version};
use svc_core::{Code, Error, Result};

/// What is said to whoever calls this server by a name that it does not know.
const UNKNOWN_NAME: &str = "without a credential Host and Origin must name this server: its operator sets \
    SVC_PUBLIC_URL to the address under which browsers reach it, or lists further names in SVC_ALLOWED_HOSTS";

/// The names and addresses of this server.
pub(crate) struct Hosts {
    own: IpAddr,
    allowed: Vec<String>,
}

impl Hosts {
    pub fn new(own: SocketAddr, allowed: Vec<String>) -> Self {
        Self { own: own.ip(), allowed }
    }

    /// Rejects a request from a page of another site.
    pub fn check_origin(&self, headers: &HeaderMap) -> Result<()> {
        match origins(headers).all(|site| self.is_own(site)) {
            true => Ok(()),
            false => Err(Error::new(Code::Forbidden, "Origin must name this server; see SVC_PUBLIC_URL")),
        }
    }

    /// Rejects a request whose target host or Origin is another site.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<()> {
        // The URI's authority overrides the header (RFC 9112, 3.2.2; RFC 9113, 8.3.1).
        let host = uri.authority().map(|authority| authority.as_str()).or(values(headers, HOST).next());
        let foreign = host.into_iter().chain(origins(headers)).find(|site| !self.is_own(site));
        match foreign {
            None if host.is_some() => Ok(()),
            _ => Err(Error::new(Code::Forbidden, UNKNOWN_NAME)),
        }
    }

    /// Returns the host that a request names, if it is this server.
    pub fn named<'a>(&self, uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
        let host = uri.authority().map(|authority| authority.as_str());
        let host = host.or_else(|| headers.get(HOST).and_then(|host| host.to_str().ok()));
        host.filter(|host| self.is_own(host))
    }

    /// Returns whether `site`, a host with or without a port, is this server.
    fn is_own(&self, site: &str) -> bool {
        let site = site.to_ascii_lowercase();
        let bare = host_of(&site);
        if bare == "localhost" || self.allowed.iter().any(|name| *name == site || name == bare) {
            return true;
        }
        // A literal address cannot be made to resolve to another one, so any address of this machine is
        // accepted.
        let address = bare.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        address.is_ok_and(|ip| ip.is_loopback() || ip == self.own || self.own.is_unspecified())
    }
}

fn values(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    headers.get_all(name).into_iter().map(|value| value.to_str().unwrap_or_default())
}

/// Returns the sites whose pages have sent a request.
fn origins(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    values(headers, ORIGIN).map(|origin| origin.split_once("://").map_or(origin, |(_, site)| site))
}

/// Rejects a request with more than one Host header, or with none in HTTP/1.1 (RFC 9112, 3.2).
///
/// Each server on the way might choose a different one.
pub(crate) fn check_single(version: Version, headers: &HeaderMap) -> Result<()> {
    match headers.get_all(HOST).iter().count() {
        1 => Ok(()),
        0 if version != Version::HTTP_11 => Ok(()),
        _ => Err(Error::malformed("a request must have exactly one Host header")),
    }
}

/// Returns the host without its port.
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
        let hosts =
            Hosts::new("192.0.2.7:8080".parse().unwrap(), vec!["svc.example:8080".into(), "board".into()]);
        let check = |host: &str, origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            if let Some(origin) = origin {
                headers.insert(ORIGIN, origin.parse().unwrap());
            }
            hosts.check(&Uri::from_static("/"), &headers)
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
        assert!(hosts.check(&Uri::from_static("/"), &twice).is_ok());
        twice.append(ORIGIN, HeaderValue::from_static("https://evil.example"));
        assert!(hosts.check(&Uri::from_static("/"), &twice).is_err(), "each Origin counts");
        assert!(hosts.check(&Uri::from_static("/"), &HeaderMap::new()).is_err());
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("localhost"));
        assert!(hosts.check(&Uri::from_static("http://evil.example/"), &headers).is_err());
        headers.insert(HOST, HeaderValue::from_static("evil.example"));
        assert!(hosts.check(&Uri::from_static("http://localhost/"), &headers).is_ok());
    }

    #[test]
    fn a_request_has_one_host() {
        let mut headers = HeaderMap::new();
        assert!(check_single(Version::HTTP_11, &headers).is_err());
        assert!(check_single(Version::HTTP_10, &headers).is_ok());
        assert!(check_single(Version::HTTP_2, &headers).is_ok());
        headers.append(HOST, HeaderValue::from_static("a"));
        assert!(check_single(Version::HTTP_11, &headers).is_ok());
        headers.append(HOST, HeaderValue::from_static("a"));
        for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2] {
            assert!(check_single(version, &headers).is_err(), "{version:?}");
        }
    }
}
