//! Variables that Kubernetes sets in every container for each Service of its namespace.
//!
//! The variables of a Service called `svc`, or with a name that begins with `svc-`, have the same prefix as
//! the variables of this program. The variables of Kubernetes are recognised by their names and values
//! together, so a misspelt variable such as `SVC_PORT=8080` is still rejected.

use std::net::{IpAddr, SocketAddr};

/// The protocols that a port of a Service can have in Kubernetes.
const PROTOCOLS: [&str; 3] = ["tcp", "udp", "sctp"];

/// Returns whether Kubernetes sets a variable with the name `name` to a value like `value`.
///
/// Kubernetes sets `{SVC}_SERVICE_HOST`, `{SVC}_SERVICE_PORT`, `{SVC}_SERVICE_PORT_{NAME}`, `{SVC}_PORT` and
/// `{SVC}_PORT_{NUMBER}_{PROTOCOL}`, and the last of these names with the suffixes `_PROTO`, `_PORT` and
/// `_ADDR`.
pub(super) fn is_set_by_kubernetes(name: &str, value: &str) -> bool {
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if !name.starts_with("SVC_") || !name.chars().all(is_name) {
        return false;
    }
    if name.ends_with("_SERVICE_HOST") {
        return value.parse::<IpAddr>().is_ok();
    }
    let is_of_service = name.rsplit_once("_SERVICE_PORT").is_some_and(|(_, port)| {
        port.is_empty() || port.strip_prefix('_').is_some_and(|name| !name.is_empty())
    });
    if is_of_service && is_port_number(value) {
        return true;
    }
    if name.ends_with("_PORT") && split_endpoint(value).is_some() {
        return true;
    }
    matches_port_variable(name, value).unwrap_or(false)
}

/// Returns whether the value matches a name that contains the number and the protocol of a port.
///
/// Returns `None` if the name does not contain the number and the protocol of a port.
fn matches_port_variable(name: &str, value: &str) -> Option<bool> {
    let (head, part) = match name.rsplit_once('_')? {
        (head, part @ ("PROTO" | "PORT" | "ADDR")) => (head, part),
        _ => (name, ""),
    };
    let (head, protocol) = head.rsplit_once('_')?;
    let protocol = protocol.to_ascii_lowercase();
    let (_, number) = head.rsplit_once("_PORT_")?;
    if !PROTOCOLS.contains(&protocol.as_str()) || !is_port_number(number) {
        return None;
    }
    Some(match part {
        "PROTO" => value == protocol,
        "PORT" => value == number,
        "ADDR" => value.parse::<IpAddr>().is_ok(),
        _ => split_endpoint(value)
            .is_some_and(|(of, address)| of == protocol && address.port().to_string() == number),
    })
}

/// Splits an endpoint, for example `tcp://10.0.0.1:80`, into the protocol and the address.
fn split_endpoint(value: &str) -> Option<(&str, SocketAddr)> {
    let (protocol, address) = value.split_once("://")?;
    PROTOCOLS.contains(&protocol).then_some(())?;
    Some((protocol, address.parse().ok()?))
}

fn is_port_number(text: &str) -> bool {
    !text.starts_with(['0', '+']) && text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_services_are_told_by_name_and_value() {
        for (name, value, injected) in [
            ("SVC_PORT", "tcp://10.96.0.7:8080", true),
            ("SVC_PORT", "udp://10.96.0.7:53", true),
            ("SVC_PORT", "sctp://10.96.0.7:9", true),
            ("SVC_PORT", "tcp://[fd00::7]:8080", true),
            ("SVC_SERVICE_HOST", "10.96.0.7", true),
            ("SVC_SERVICE_HOST", "fd00::7", true),
            ("SVC_SERVICE_PORT", "8080", true),
            ("SVC_SERVICE_PORT_HTTP", "8080", true),
            ("SVC_SERVICE_PORT_HTTP_METRICS", "9090", true),
            ("SVC_PORT_8080_TCP", "tcp://10.96.0.7:8080", true),
            ("SVC_PORT_8080_TCP_PROTO", "tcp", true),
            ("SVC_PORT_8080_TCP_PORT", "8080", true),
            ("SVC_PORT_8080_TCP_ADDR", "10.96.0.7", true),
            ("SVC_PORT_53_UDP", "udp://10.96.0.7:53", true),
            ("SVC_PORT_53_UDP_PROTO", "udp", true),
            ("SVC_PORT_9_SCTP_ADDR", "fd00::7", true),
            ("SVC_HTTP_SERVICE_HOST", "10.96.0.8", true),
            ("SVC_HTTP_SERVICE_PORT", "80", true),
            ("SVC_HTTP_PORT", "tcp://10.96.0.8:80", true),
            ("SVC_HTTP_PORT_80_TCP_ADDR", "10.96.0.8", true),
            ("SVC_WEB_2_PORT_80_TCP", "tcp://10.96.0.8:80", true),
            ("SVC_SERVICE_PORT", "tcp://10.96.0.9:80", true),
            // Values that a person or another program sets.
            ("SVC_PORT", "8080", false),
            ("SVC_HTTP_PORT", "8080", false),
            ("SVC_PORT", "tcp://svc.example:8080", false),
            ("SVC_PORT", "http://10.96.0.7:8080", false),
            ("SVC_PORT", "", false),
            ("SVC_SERVICE_HOST", "svc.example", false),
            ("SVC_SERVICE_PORT", "0", false),
            ("SVC_SERVICE_PORT", "70000", false),
            ("SVC_SERVICE_PORT_", "80", false),
            ("SVC_PORT_8080_TCP", "tcp://10.96.0.7:8081", false),
            ("SVC_PORT_8080_TCP", "udp://10.96.0.7:8080", false),
            ("SVC_PORT_8080_TCP_PROTO", "udp", false),
            ("SVC_PORT_8080_TCP_PORT", "80", false),
            ("SVC_PORT_HTTP_TCP_ADDR", "10.96.0.7", false),
            ("SVC_LISTEN_ADDRESS", "10.96.0.7", false),
            ("SVC_LISTEN_ADR", "10.96.0.7:8080", false),
            ("svc_PORT", "tcp://10.96.0.7:8080", false),
            ("SVC_port", "tcp://10.96.0.7:8080", false),
            ("MY_PORT", "tcp://10.96.0.7:8080", false),
        ] {
            assert_eq!(is_set_by_kubernetes(name, value), injected, "{name}={value}");
        }
    }
}
