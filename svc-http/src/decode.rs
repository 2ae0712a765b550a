//! Decodes requests: percent-encoding, the credential and the client's address.
//!
//! Strict wherever leniency would let two readers understand the same bytes differently. What a field means
//! is the core's business.

use std::net::IpAddr;

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, COOKIE, HeaderValue};
use svc_core::limits::QUERY_FIELDS_MAX;
use svc_core::op::{self, Credential, IdempotencyKey, SessionKey};
use svc_core::{Error, Result};

/// Text fields by name, in the form that the core takes.
pub(crate) type Text = Vec<(String, String)>;

/// Appends the fields of a query string to `text`.
///
/// The fields are counted before any is decoded.
pub(crate) fn query(raw: Option<&str>, text: &mut Text) -> Result<()> {
    let pairs = raw.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    if pairs.clone().nth(QUERY_FIELDS_MAX).is_some() {
        return Err(Error::malformed(format!("the query has more than {QUERY_FIELDS_MAX} fields")));
    }
    for pair in pairs {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        text.push((unescape(name, Plus::IsSpace)?, unescape(value, Plus::IsSpace)?));
    }
    Ok(())
}

/// The meaning of a plus sign: a space in a query, itself in a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plus {
    IsSpace,
    IsPlus,
}

/// Percent-decodes `raw`; fails on an incomplete escape and if the result is not UTF-8.
pub(crate) fn unescape(raw: &str, plus: Plus) -> Result<String> {
    let plain = |byte: u8| byte != b'%' && (byte != b'+' || plus == Plus::IsPlus);
    if raw.bytes().all(plain) {
        return Ok(raw.to_owned());
    }
    let mut decoded = Vec::with_capacity(raw.len());
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
                let (high, low) = (digit(), digit());
                let escaped = high.zip(low).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
                escaped.ok_or_else(|| Error::malformed("the URL has an incomplete percent escape"))?
            }
            b'+' if plus == Plus::IsSpace => b' ',
            other => other,
        });
    }
    String::from_utf8(decoded).map_err(|_| Error::malformed("the URL is not UTF-8 once decoded"))
}

/// Returns the credential of a request; its session cookie counts only with a key that verifies it.
pub(crate) fn credential(headers: &HeaderMap, key: Option<&SessionKey>) -> Result<Credential> {
    let values = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes);
    op::read_credential(values(AUTHORIZATION), values(COOKIE), key)
}

/// Returns the idempotency key of a request, if it has one.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Error::malformed("the request has more than one Idempotency-Key"));
    }
    // What is no ASCII is no key either.
    IdempotencyKey::parse(value.to_str().unwrap_or_default()).map(Some)
}

/// Returns the client's address, taken from `X-Forwarded-For` as far as the proxies in front are trusted.
pub(crate) fn peer(remote: IpAddr, headers: &HeaderMap, trusted_hops: usize) -> IpAddr {
    if trusted_hops == 0 {
        return remote.to_canonical();
    }
    let values = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
    let chain: Vec<&str> = values.flat_map(|value| value.split(',')).map(str::trim).collect();
    // Each trusted proxy has appended one entry; anybody can have written the entries before those.
    let client = chain.len().checked_sub(trusted_hops).and_then(|index| chain.get(index));
    client.and_then(|text| text.parse::<IpAddr>().ok()).unwrap_or(remote).to_canonical()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use secrecy::ExposeSecret;
    use svc_core::Code;

    use super::*;
    use crate::strangers;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn queries_are_decoded_strictly() {
        let mut text = Text::new();
        query(Some("a=1&b=x%20y+z&&c&a=%C3%A9&%3d=%26"), &mut text).unwrap();
        let wanted = [("a", "1"), ("b", "x y z"), ("c", ""), ("a", "é"), ("=", "&")];
        assert_eq!(text, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
        for bad in ["a=%", "a=%4", "a=%zz", "%+1=2", "a=%ff", "a=%c3%28"] {
            assert_eq!(query(Some(bad), &mut text).unwrap_err().code(), Code::Malformed, "{bad}");
        }
        assert_eq!(unescape("a+b%2Fc", Plus::IsPlus).unwrap(), "a+b/c");
        assert!(query(Some(&"a&".repeat(QUERY_FIELDS_MAX)), &mut Text::new()).is_ok());
        let many = query(Some(&"a&".repeat(QUERY_FIELDS_MAX + 1)), &mut Text::new()).unwrap_err();
        assert_eq!(many.code(), Code::Malformed);
    }

    /// What clients and proxies put together to an X-Forwarded-For.
    const PIECES: [&str; 18] = [
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
        "999.0.0.1",
        "0x7f.1",
        "for=192.0.2.7",
        "\"",
        "\u{e9}",
    ];

    /// The entry that the outermost trusted proxy has written, by a reader of its own: from the end.
    fn entry(values: &[Vec<u8>], hops: usize) -> Option<String> {
        let visible = |value: &&Vec<u8>| value.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~'));
        let mut entries =
            values.iter().filter(visible).rev().flat_map(|value| value.rsplit(|byte| *byte == b','));
        let entry = entries.nth(hops.checked_sub(1)?)?;
        Some(String::from_utf8(entry.to_vec()).unwrap().trim().to_owned())
    }

    proptest! {
        #![proptest_config(strangers::inputs())]

        /// Whatever is sent, a client's address is that of its connection, or the entry that counts.
        #[test]
        fn any_chain_is_read_from_its_end(
            sent in strangers::sent(&PIECES),
            before in "[ -~]{0,5}",
            hops in 0..4_usize,
        ) {
            let before = [before.into_bytes()];
            for values in sent.iter().map(|value| [&before[..], std::slice::from_ref(value)].concat()) {
                let sendable = |value: &&Vec<u8>| HeaderValue::from_bytes(value).is_ok();
                let values: Vec<Vec<u8>> = values.iter().filter(sendable).cloned().collect();
                let mut headers = HeaderMap::new();
                for value in &values {
                    headers.append("x-forwarded-for", HeaderValue::from_bytes(value).unwrap());
                }
                let remote: IpAddr = "192.0.2.1".parse().unwrap();
                let wanted = entry(&values, hops).and_then(|entry| entry.parse().ok()).unwrap_or(remote);
                prop_assert_eq!(peer(remote, &headers, hops), wanted.to_canonical());
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        /// Whatever a client has written before, the entry of the outermost trusted proxy counts.
        #[test]
        fn what_trusted_proxies_have_written_counts(
            forged in proptest::collection::vec("[ -~]{0,20}", 0..3),
            written in proptest::collection::vec(any::<IpAddr>(), 1..5),
            hops in 1..5_usize,
        ) {
            let mut headers = HeaderMap::new();
            let trustworthy: Vec<String> = written.iter().map(IpAddr::to_string).collect();
            for value in forged.into_iter().chain([trustworthy.join(", ")]) {
                headers.append("x-forwarded-for", value.parse().unwrap());
            }
            let trusted = written.len().checked_sub(hops).map(|index| written[index].to_canonical());
            let client = peer("192.0.2.1".parse().unwrap(), &headers, hops);
            prop_assert!(trusted.is_none_or(|trusted| client == trusted), "{client}");
        }

        #[test]
        fn any_head_is_decoded(bytes in any::<Vec<u8>>(), raw in any::<String>(), hops in 0..4_usize) {
            let mut headers = HeaderMap::new();
            for name in ["authorization", "x-forwarded-for"] {
                if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                    headers.insert(name, value);
                }
            }
            if let Credential::Bearer(token) = credential(&headers, None).unwrap() {
                prop_assert!(token.expose_secret().trim() == token.expose_secret());
            }
            let remote: IpAddr = "192.0.2.1".parse().unwrap();
            let client = peer(remote, &headers, hops);
            prop_assert!(hops > 0 || client == remote);
            let mut text = Text::new();
            if query(Some(&raw), &mut text).is_ok() {
                prop_assert!(text.len() <= QUERY_FIELDS_MAX);
            }
        }

        /// Unescaping is the inverse of escaping.
        #[test]
        fn unescaping_inverts_escaping(text in any::<String>()) {
            let escaped: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
            for plus in [Plus::IsSpace, Plus::IsPlus] {
                prop_assert_eq!(&unescape(&escaped, plus).unwrap(), &text);
            }
        }
    }

    #[test]
    fn a_credential_is_read_from_the_authorization_header() {
        let read = |pairs: &[(&'static str, &'static str)]| credential(&headers(pairs), None);
        let found = read(&[("authorization", "BEARER  svc_1 ")]).unwrap();
        assert!(matches!(found, Credential::Bearer(token) if token.expose_secret() == "svc_1"));
        assert!(read(&[]).unwrap().is_nothing());
        assert!(read(&[("authorization", "Bearer a"), ("authorization", "Bearer b")]).is_err());
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        let remote: IpAddr = "10.0.0.9".parse().unwrap();
        let forwarded =
            headers(&[("x-forwarded-for", "6.6.6.6, 1.2.3.4"), ("x-forwarded-for", "::ffff:10.0.0.8")]);
        let seen = |headers: &HeaderMap, hops| peer(remote, headers, hops).to_string();
        assert_eq!(seen(&forwarded, 0), "10.0.0.9");
        assert_eq!(seen(&forwarded, 1), "10.0.0.8");
        assert_eq!(seen(&forwarded, 2), "1.2.3.4");
        assert_eq!(seen(&forwarded, 9), "10.0.0.9", "fewer entries than proxies: none can be trusted");
        assert_eq!(seen(&headers(&[("x-forwarded-for", "nonsense")]), 1), "10.0.0.9");
    }
}
