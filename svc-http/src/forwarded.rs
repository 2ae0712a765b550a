//! Determines the sender of a request behind proxies, from `X-Forwarded-For` or else `Forwarded` (RFC 7239).
//!
//! Each proxy appends an entry, so entries are counted from the end. Earlier entries may have been written by
//! a client and are not read. An entry is an address in any form that proxies write. Any other text counts as
//! the name of a separate peer, so that the address of a proxy never represents all of its clients.
//!
//! No other forwarded value is read. The host, the scheme and the path under which browsers reach the server
//! are settings.

use std::borrow::Cow;
use std::net::IpAddr;

use hyper::HeaderMap;
use hyper::header::{FORWARDED, HeaderName};
use svc_core::Peer;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Returns the sender of a request that arrived from `remote` through `trusted_hops` trusted proxies.
///
/// If there are fewer entries than proxies, the first entry is the sender. Without any entry, `remote` is the
/// sender.
pub(crate) fn peer_behind_proxies(remote: IpAddr, headers: &HeaderMap, trusted_hops: usize) -> Peer {
    let simple = trusted_entry(headers, &X_FORWARDED_FOR, trusted_hops);
    let sender = simple.or_else(|| trusted_entry(headers, &FORWARDED, trusted_hops).map(for_parameter));
    sender.map_or_else(|| remote.into(), parse_sender)
}

/// Returns the entry of a header that the outermost of `trusted_hops` trusted proxies has written. If there
/// are fewer entries, returns the first entry.
fn trusted_entry<'h>(headers: &'h HeaderMap, name: &HeaderName, trusted_hops: usize) -> Option<&'h [u8]> {
    let lines = headers.get_all(name).iter().rev();
    let entries = lines.flat_map(|line| ReversedEntries(Some(line.as_bytes())));
    entries.filter(|entry| !entry.is_empty()).take(trusted_hops).last()
}

/// Iterates over the entries of a header line from the last to the first, and trims each entry.
struct ReversedEntries<'h>(Option<&'h [u8]>);

impl<'h> Iterator for ReversedEntries<'h> {
    type Item = &'h [u8];

    fn next(&mut self) -> Option<&'h [u8]> {
        let (before, last) = split_last(self.0.take()?);
        self.0 = before;
        Some(last.trim_ascii())
    }
}

/// Splits a list at its last comma outside of quoted strings.
///
/// Quoted strings are also parsed from the end, so an unclosed quotation mark from a client cannot hide the
/// entries after it.
fn split_last(line: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let mut rest = line;
    let comma = loop {
        let Some(at) = rest.iter().rposition(|byte| matches!(byte, b',' | b'"')) else { break None };
        let (before, mark) = rest.split_at(at);
        if mark.starts_with(b",") {
            break Some(at);
        }
        match text_before_quoted_string(before) {
            Some(before) => rest = before,
            None => break before.iter().rposition(|byte| *byte == b','),
        }
    };
    match comma.and_then(|at| line.split_at_checked(at)) {
        Some((before, last)) => (Some(before), last.strip_prefix(b",").unwrap_or(last)),
        None => (None, line),
    }
}

/// Returns the text before a quoted string. `text` ends right before the closing quotation mark of that
/// string.
fn text_before_quoted_string(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text;
    loop {
        rest = rest.get(..rest.iter().rposition(|byte| *byte == b'"')?)?;
        let escapes = rest.iter().rev().take_while(|byte| **byte == b'\\').count();
        if escapes % 2 == 0 {
            return Some(rest);
        }
    }
}

/// Returns the parameter `for` of a `Forwarded` entry, or an empty value if there is none.
fn for_parameter(entry: &[u8]) -> &[u8] {
    let mut is_quoted = false;
    let mut is_escaped = false;
    let parameters = entry.split(|byte| {
        let ends = *byte == b';' && !is_quoted;
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_quoted,
            b'"' => is_quoted = !is_quoted,
            _ => {}
        }
        ends
    });
    let mut pairs = parameters.filter_map(|parameter| {
        let equals = parameter.iter().position(|byte| *byte == b'=')?;
        parameter.split_at_checked(equals)
    });
    let sender = pairs.find(|(name, _)| name.trim_ascii().eq_ignore_ascii_case(b"for"));
    let value = sender.and_then(|(_, value)| value.strip_prefix(b"=")).unwrap_or_default();
    value.trim_ascii()
}

/// Parses a sender as written by a proxy: an address with an optional port, or else a name.
fn parse_sender(sender: &[u8]) -> Peer {
    let sender = unquote(sender);
    let bare = strip_port(&sender);
    let forms = [&*sender, bare].into_iter().filter_map(|form| std::str::from_utf8(form).ok());
    // If another colon remains, the removed text may be the end of an incomplete IPv6 address.
    let name = if bare.contains(&b':') { &*sender } else { bare };
    forms.filter_map(parse_address).next().map_or_else(|| Peer::named(name), Peer::from)
}

/// Removes the quotation marks and escapes of a quoted string. Other values are returned unchanged.
fn unquote(value: &[u8]) -> Cow<'_, [u8]> {
    let inner = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let Some(inner) = inner else { return Cow::Borrowed(value) };
    let mut is_escaped = false;
    let text = inner.iter().copied().filter(|byte| {
        is_escaped = *byte == b'\\' && !is_escaped;
        !is_escaped
    });
    Cow::Owned(text.collect::<Vec<u8>>().trim_ascii().to_vec())
}

/// Returns a sender without its port. A port may be a number or a name that begins with an underscore.
fn strip_port(sender: &[u8]) -> &[u8] {
    let colon = sender.iter().rposition(|byte| *byte == b':');
    match colon.and_then(|at| sender.split_at_checked(at)) {
        Some((name, [_, port @ ..])) if port.starts_with(b"_") || port.iter().all(u8::is_ascii_digit) => name,
        _ => sender,
    }
}

/// Parses an IP address with optional brackets and an optional zone, which is ignored.
fn parse_address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    let (address, _zone) = bare.split_once('%').unwrap_or((bare, ""));
    address.parse().ok()
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;
    use proptest::prelude::*;

    use super::*;
    use crate::strangers;

    /// Address of the proxy's connection, which no test puts into a header.
    const REMOTE: &str = "198.51.100.77";

    fn at(address: &str) -> Peer {
        address.parse::<IpAddr>().unwrap().into()
    }

    fn name(name: &str) -> Peer {
        Peer::named(name.as_bytes())
    }

    /// Returns the peer that is determined for a request with the given header lines.
    fn peer_of(lines: &[(HeaderName, &[u8])], hops: usize) -> Peer {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        peer_behind_proxies(REMOTE.parse().unwrap(), &headers, hops)
    }

    /// Checks a table of cases for one header: the header lines, the number of trusted proxies, and the
    /// expected peer.
    fn check(header: &HeaderName, table: &[(&[&str], usize, Peer)]) {
        assert!(table.len() >= 20);
        for (lines, hops, wanted) in table {
            let sent: Vec<_> = lines.iter().map(|line| (header.clone(), line.as_bytes())).collect();
            assert_eq!(peer_of(&sent, *hops), *wanted, "{lines:?}, {hops} hops");
        }
    }

    #[test]
    fn an_entry_of_x_forwarded_for_is_read_in_every_form() {
        let v4 = at("203.0.113.9");
        let v6 = at("2001:db8:0:1::");
        check(
            &X_FORWARDED_FOR,
            &[
                (&["203.0.113.9"], 1, v4),
                (&["203.0.113.9:51234"], 1, v4),
                (&["203.0.113.9:"], 1, v4),
                (&["203.0.113.9:_port"], 1, v4),
                (&["\"203.0.113.9\""], 1, v4),
                (&["\"203.0.113.9:80\""], 1, v4),
                (&["\" 203.0.113.9 \""], 1, v4),
                (&["[203.0.113.9]:80"], 1, v4),
                (&["::ffff:203.0.113.9"], 1, v4),
                (&["::FFFF:cb00:7109"], 1, v4),
                (&["[::ffff:203.0.113.9]"], 1, v4),
                (&["[::ffff:203.0.113.9]:51234"], 1, v4),
                (&["::ffff:203.0.113.9:51234"], 1, v4),
                (&["::203.0.113.9"], 1, v4),
                (&["64:ff9b::203.0.113.9"], 1, v4),
                (&["[64:FF9B::cb00:7109]:51234"], 1, v4),
                (&["2001:db8:0:1::7"], 1, v6),
                (&["2001:DB8:0:1:0:0:0:8"], 1, v6),
                (&["[2001:db8:0:1::7]"], 1, v6),
                (&["[2001:db8:0:1::7]:443"], 1, v6),
                (&["\"[2001:db8:0:1::7]:443\""], 1, v6),
                (&["2001:db8:0:1:2:3:4:5:51234"], 1, v6),
                (&["2001:db8:0:1::7%eth0"], 1, v6),
                (&["[2001:db8:0:1::7%25eth0]:443"], 1, v6),
                (&["fe80::1%eth0"], 1, at("fe80::")),
                (&["\t 203.0.113.9 \t"], 1, v4),
                (&["6.6.6.6,203.0.113.9"], 1, v4),
                (&["6.6.6.6 ,\t203.0.113.9 , "], 1, v4),
                (&["6.6.6.6,,203.0.113.9,,"], 1, v4),
                (&["6.6.6.6, 203.0.113.9", "", " , "], 1, v4),
                (&["6.6.6.6, 203.0.113.9", "10.0.0.8"], 2, v4),
                (&["6.6.6.6", "203.0.113.9, 10.0.0.7", "10.0.0.8"], 3, v4),
                (&["203.0.113.9", "10.0.0.8"], 9, v4),
                (&["6.6.6.6, \"", "203.0.113.9"], 1, v4),
                (&["\"6.6.6.6, 203.0.113.9"], 1, v4),
                (&["\\\"6.6.6.6, 203.0.113.9, \"10.0.0.8\""], 2, v4),
                (&["6.6.6.6\u{e9}, 203.0.113.9"], 1, v4),
                (&["unknown"], 1, name("unknown")),
                (&["Unknown:51234"], 1, name("unknown")),
                (&["_hidden"], 1, name("_hidden")),
                (&["_hidden:_secret"], 1, name("_hidden")),
                (&["client.internal:51234"], 1, name("client.internal")),
                (&["203.0.113.999"], 1, name("203.0.113.999")),
                (&["0x7f.1"], 1, name("0x7f.1")),
                (&["203.0.113.9 203.0.113.8"], 1, name("203.0.113.9 203.0.113.8")),
                (&["203.0.113.9\u{e9}"], 1, name("203.0.113.9\u{e9}")),
                (&["[2001:db8::7"], 1, name("[2001:db8::7")),
                (&["6.6.6.6, \"203.0.113.9"], 1, name("\"203.0.113.9")),
                (&["\"\""], 1, name("")),
                (&["203.0.113.9"], 0, at(REMOTE)),
                (&[], 1, at(REMOTE)),
                (&["", " , ,"], 2, at(REMOTE)),
            ],
        );
    }

    #[test]
    fn an_entry_of_forwarded_is_read_in_every_form() {
        let v4 = at("203.0.113.9");
        let v6 = at("2001:db8:0:1::");
        check(
            &FORWARDED,
            &[
                (&["for=203.0.113.9"], 1, v4),
                (&["For=203.0.113.9"], 1, v4),
                (&["FOR=203.0.113.9:51234"], 1, v4),
                (&["for=\"203.0.113.9\""], 1, v4),
                (&["for=\"203.0.113.9:51234\""], 1, v4),
                (&["for=\"203.0.113\\.9\\:51234\""], 1, v4),
                (&["for=\"203.0.113.9:_x9\""], 1, v4),
                (&["for = 203.0.113.9 ; proto = https"], 1, v4),
                (&["for=203.0.113.9;proto=https;by=10.0.0.8;host=svc.example"], 1, v4),
                (&["proto=https;host=\"a;for=6.6.6.6\";for=203.0.113.9"], 1, v4),
                (&["proto=https;host=\"a\\\";for=6.6.6.6\";for=203.0.113.9"], 1, v4),
                (&["host=\"a, for=6.6.6.6\";for=203.0.113.9"], 1, v4),
                (&["for=203.0.113.9;host=\"a, b\\\", for=6.6.6.6\""], 1, v4),
                (&["for=203.0.113.9;for=6.6.6.6"], 1, v4),
                (&["secret=x;for=203.0.113.9;;"], 1, v4),
                (&[";for=203.0.113.9;flag"], 1, v4),
                (&["for=\"[::ffff:203.0.113.9]:80\""], 1, v4),
                (&["for=\"[64:ff9b::203.0.113.9]\""], 1, v4),
                (&["for=\"[2001:db8:0:1::7]\""], 1, v6),
                (&["for=\"[2001:db8:0:1::7]:4711\""], 1, v6),
                (&["for=[2001:db8:0:1::7]:4711"], 1, v6),
                (&["for=2001:db8:0:1::7"], 1, v6),
                (&["for=\"[2001:db8:0:1::7%25eth0]:80\""], 1, v6),
                (&["for=6.6.6.6, for=203.0.113.9"], 1, v4),
                (&["for=6.6.6.6,, for=203.0.113.9 , "], 1, v4),
                (&["for=203.0.113.9, for=\"10.0.0.7, for=6.6.6.6\""], 2, v4),
                (&["for=6.6.6.6", "for=203.0.113.9", "for=10.0.0.8"], 2, v4),
                (&["for=203.0.113.9, for=10.0.0.8"], 5, v4),
                (&["for=\"6.6.6.6, for=203.0.113.9"], 1, v4),
                (&["for=\"6.6.6.6, for=203.0.113.9;host=\"svc.example\""], 1, v4),
                (&["for=6.6.6.6;x=\"\\, for=203.0.113.9"], 1, v4),
                (&["for=6.6.6.6\u{e9}, for=203.0.113.9"], 1, v4),
                (&["for=unknown"], 1, name("unknown")),
                (&["for=_hidden"], 1, name("_hidden")),
                (&["for=\"_SEVKISEK:_4711\""], 1, name("_sevkisek")),
                (&["for=\"_a, b;c\""], 1, name("_a, b;c")),
                (&["for=203.0.113.999"], 1, name("203.0.113.999")),
                (&["for=\u{e9}"], 1, name("\u{e9}")),
                (&["for="], 1, name("")),
                (&["for=\"\""], 1, name("")),
                (&["proto=https;host=svc.example"], 1, name("")),
                (&["203.0.113.9"], 1, name("")),
                (&["for=203.0.113.9"], 0, at(REMOTE)),
                (&[" , "], 1, at(REMOTE)),
            ],
        );
    }

    #[test]
    fn forwarded_counts_only_without_an_entry_of_x_forwarded_for() {
        let sent = |simple: &[u8]| {
            peer_of(&[(FORWARDED, b"for=203.0.113.8" as &[u8]), (X_FORWARDED_FOR, simple)], 1)
        };
        assert_eq!(sent(b"203.0.113.9"), at("203.0.113.9"));
        assert_eq!(sent(b"nonsense"), name("nonsense"));
        assert_eq!(sent(b" , "), at("203.0.113.8"));
        let others = ["x-forwarded-host", "x-forwarded-proto", "x-forwarded-prefix", "x-real-ip", "via"];
        for other in others.map(HeaderName::from_static) {
            assert_eq!(peer_of(&[(other, b"203.0.113.9")], 1), at(REMOTE));
        }
    }

    #[test]
    fn a_long_list_is_read_in_time() {
        // Parsing any of the following inputs would take far longer if parsing time were quadratic.
        for piece in ["\\\"", "\"", ",", "\",", "\\\",", "\"\\", "for=\";"] {
            let line = piece.repeat((64 << 10) / piece.len());
            for header in [X_FORWARDED_FOR, FORWARDED] {
                let begun = std::time::Instant::now();
                peer_of(&[(header, line.as_bytes())], 16);
                assert!(begun.elapsed() < std::time::Duration::from_secs(10), "{piece}");
            }
        }
    }

    /// Pieces of text from which the property tests build header lines.
    const PIECES: [&str; 22] = [
        ",",
        ",",
        ", ",
        " ",
        "\t",
        "192.0.2.7",
        ", 192.0.2.8",
        "::ffff:192.0.2.7",
        "2001:db8::7",
        "[2001:db8::7]",
        "192.0.2.7:80",
        "fe80::1%eth0",
        "unknown",
        "_hidden",
        "999.0.0.1",
        "for=192.0.2.7",
        "for=",
        "proto=https",
        ";",
        "\"",
        "\\",
        "\u{e9}",
    ];

    /// Formats an address as an entry in one of the forms that proxies use, optionally for `Forwarded`.
    fn written(address: IpAddr, form: usize, forwarded: bool) -> String {
        let text = address.to_string();
        let bracketed = if address.is_ipv6() { format!("[{text}]") } else { text.clone() };
        let node = match form % 5 {
            0 if address.is_ipv4() || !forwarded => text,
            1 => format!("\"{bracketed}\""),
            2 => format!("\"{bracketed}:4711\""),
            3 if !forwarded => format!("{bracketed}:4711"),
            _ => format!("\"{bracketed}:_port\""),
        };
        match (forwarded, form % 3) {
            (false, _) => node,
            (true, 0) => format!("for={node}"),
            (true, 1) => format!("proto=https;host=\"a,;\\\"b\";For={node}"),
            (true, _) => format!("for={node};by=\"_x, for=y\";ext=\"\\\\\""),
        }
    }

    proptest! {
        #![proptest_config(strangers::inputs())]

        /// The peer is the address of the connection only without trusted proxies or without an entry, for
        /// any input.
        #[test]
        fn the_proxy_never_stands_for_its_clients(
            sent in strangers::sent(&PIECES),
            forwarded in any::<bool>(),
            hops in 0..4_usize,
        ) {
            let header = if forwarded { FORWARDED } else { X_FORWARDED_FOR };
            for value in sent.iter().filter(|value| HeaderValue::from_bytes(value).is_ok()) {
                let found = peer_of(&[(header.clone(), value)], hops);
                let is_empty = value.iter().all(|byte| matches!(byte, b',' | b' ' | b'\t'));
                prop_assert_eq!(found == at(REMOTE), hops == 0 || is_empty);
            }
        }

        /// The entry of the outermost trusted proxy determines the peer, whatever entries the client has
        /// sent.
        #[test]
        fn what_trusted_proxies_have_written_counts(
            forged in strangers::sent(&PIECES),
            addresses in proptest::collection::vec((any::<IpAddr>(), any::<usize>()), 1..4),
            joined in any::<bool>(),
            forwarded in any::<bool>(),
        ) {
            let header = if forwarded { FORWARDED } else { X_FORWARDED_FOR };
            let wanted = Peer::from(addresses[0].0);
            let entries: Vec<String> =
                addresses.iter().map(|(address, form)| written(*address, *form, forwarded)).collect();
            for forged in forged.iter().filter(|forged| HeaderValue::from_bytes(forged).is_ok()) {
                let mut lines: Vec<Vec<u8>> = vec![forged.clone()];
                match joined {
                    // A proxy extends the client's header line, or adds a separate header line.
                    true => lines[0].extend(format!(", {}", entries.join(", ")).into_bytes()),
                    false => lines.extend(entries.iter().cloned().map(String::into_bytes)),
                }
                let lines: Vec<_> = lines.iter().map(|line| (header.clone(), line.as_slice())).collect();
                prop_assert_eq!(peer_of(&lines, entries.len()), wanted, "{:?}", lines);
            }
        }

        /// Unknown parameters change nothing.
        #[test]
        fn unknown_parameters_are_ignored(
            parameters in proptest::collection::vec(("[a-z]{1,8}", "[!#$%&'*+.^_`|~0-9A-Za-z-]{0,8}"), 0..6),
            quoted in proptest::collection::vec(("x-[a-z]{1,8}", "[ -~]{0,12}"), 0..6),
            place in any::<prop::sample::Index>(),
        ) {
            let unknown = parameters.into_iter().filter(|(name, _)| name != "for");
            let mut all: Vec<String> = unknown.map(|(name, value)| format!("{name}={value}")).collect();
            all.extend(quoted.into_iter().map(|(name, value)| {
                format!("{name}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
            }));
            all.insert(place.index(all.len() + 1), "for=\"[2001:db8::7]:80\"".to_owned());
            let line = format!("for=6.6.6.6, {}", all.join(";"));
            prop_assert_eq!(peer_of(&[(FORWARDED, line.as_bytes())], 1), at("2001:db8::"), "{}", line);
        }
    }
}
