//! Permitted targets of requests by the service to other servers: public addresses, over TLS.
//!
//! An attacker who can make the service send a request cannot reach a private server. This file checks URLs
//! without resolving their names; the code that sends the request checks the resolved addresses with
//! [`is_public`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// Top-level domain names that no public server has.
const PRIVATE_NAMES: [&str; 3] = ["localhost", "local", "internal"];

/// The permitted targets of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    /// Whether private addresses and http are allowed (`SVC_ALLOW_PRIVATE_EGRESS`).
    pub is_open: bool,
}

impl Egress {
    /// Checks the URL of a request. Fails with a description of the fault.
    pub fn check(self, url: &Url) -> Result<(), &'static str> {
        let is_web = matches!(url.scheme(), "https" | "http");
        let Some(host) = url.host().filter(|_| is_web) else { return Err("it is not https") };
        if self.is_open {
            return Ok(());
        }
        if url.scheme() != "https" {
            return Err("it is not https");
        }
        let is_public = match host {
            Host::Ipv4(ip) => is_public_v4(ip),
            Host::Ipv6(ip) => is_public(IpAddr::V6(ip)),
            Host::Domain(name) => is_public_name(name),
        };
        if is_public { Ok(()) } else { Err("it is not public") }
    }
}

/// Returns whether a host name may be public on the Internet.
fn is_public_name(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    name.rsplit_once('.').is_some_and(|(_, last)| !PRIVATE_NAMES.contains(&last))
}

/// Returns whether an address is public on the Internet (the registries of RFC 6890).
pub fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let is_shared = a == 100 && (64..128).contains(&b);
    let is_for_protocols = a == 192 && b == 0 && c == 0;
    let is_old_relay = a == 192 && b == 88 && c == 99;
    let is_for_benchmarks = a == 198 && (18..20).contains(&b);
    !(a == 0
        || ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_documentation()
        || is_shared
        || is_for_protocols
        || is_old_relay
        || is_for_benchmarks
        || a >= 224)
}

/// Returns whether an address is global unicast, and not in a range that can embed an IPv4 address.
fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [a, b, ..] = ip.segments();
    let is_global = a & 0xe000 == 0x2000;
    let is_for_protocols = a == 0x2001 && b < 0x0200;
    let is_documentation = (a == 0x2001 && b == 0x0db8) || (a == 0x3fff && b < 0x1000);
    let is_6to4 = a == 0x2002;
    is_global && !is_for_protocols && !is_documentation && !is_6to4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_internet_are_public() {
        for public in
            ["1.1.1.1", "93.184.216.34", "192.1.0.1", "2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8"]
        {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for other in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.0.1",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::7f00:1",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "100::1",
            "fc00::1",
            "fd00::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:a00:1::",
            "3fff::1",
        ] {
            assert!(!is_public(other.parse().unwrap()), "{other}");
        }
    }

    #[test]
    fn a_request_goes_over_tls_to_what_is_not_private_by_its_name() {
        let check = |egress: Egress, url: &str| egress.check(&Url::parse(url).unwrap());
        let closed = Egress::default();
        let open = Egress { is_open: true };
        for url in ["https://push.example/", "https://1.1.1.1/", "https://[2606:4700::1111]:8443/a?b"] {
            assert_eq!((check(closed, url), check(open, url)), (Ok(()), Ok(())), "{url}");
        }
        for url in [
            "http://push.example/",
            "https://127.0.0.1/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://[::1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://169.254.169.254/",
            "https://localhost/",
            "https://a.localhost./",
            "https://printer.local/",
            "https://metadata.google.internal/",
            "https://intranet/",
            "http://127.0.0.1:8080/",
        ] {
            assert!(check(closed, url).is_err() && check(open, url).is_ok(), "{url}");
        }
        for url in ["ftp://push.example/", "file:///etc/passwd", "data:,a", "ws://127.0.0.1/"] {
            assert!(check(closed, url).is_err() && check(open, url).is_err(), "{url}");
        }
    }
}
