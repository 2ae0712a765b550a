//! Decodes requests: percent-encoding, the credential and the idempotency key.
//!
//! The decoder rejects bytes that two parsers could interpret differently. The core interprets the decoded
//! fields.

use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, COOKIE, HeaderValue};
use svc_core::limits::QUERY_FIELDS_MAX;
use svc_core::op::{self, Credential, IdempotencyKey, SessionKey};
use svc_core::{Error, Result};

/// Decoded names and values of the fields in a path, a query or a form.
pub(crate) type TextFields = Vec<(String, String)>;

/// Appends the fields of a query string to `fields`.
///
/// The number of fields is checked before any field is decoded.
pub(crate) fn append_query_fields(query: Option<&str>, fields: &mut TextFields) -> Result<()> {
    let pairs = query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
    if pairs.clone().nth(QUERY_FIELDS_MAX).is_some() {
        return Err(Error::malformed(format!("the query has more than {QUERY_FIELDS_MAX} fields")));
    }
    for pair in pairs {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        fields.push((percent_decode(name, PlusSign::IsSpace)?, percent_decode(value, PlusSign::IsSpace)?));
    }
    Ok(())
}

/// Meaning of a plus sign: a space in a query, a plus sign in a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlusSign {
    IsSpace,
    IsPlus,
}

/// Percent-decodes `raw`. Fails if an escape is invalid or the result is not UTF-8.
pub(crate) fn percent_decode(raw: &str, plus_sign: PlusSign) -> Result<String> {
    let plain = |byte: u8| byte != b'%' && (byte != b'+' || plus_sign == PlusSign::IsPlus);
    if raw.bytes().all(plain) {
        return Ok(raw.to_owned());
    }
    let mut decoded = Vec::with_capacity(raw.len());
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
                let high = digit();
                let low = digit();
                let escaped = high.zip(low).and_then(|(high, low)| u8::try_from(high * 16 + low).ok());
                escaped.ok_or_else(|| Error::malformed("the URL has an incomplete percent escape"))?
            }
            b'+' if plus_sign == PlusSign::IsSpace => b' ',
            other => other,
        });
    }
    String::from_utf8(decoded).map_err(|_| Error::malformed("the URL is not UTF-8 once decoded"))
}

/// Returns the credential of a request. A session cookie is accepted only if `session_key` verifies the
/// cookie.
pub(crate) fn parse_credential(headers: &HeaderMap, session_key: Option<&SessionKey>) -> Result<Credential> {
    let values = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes);
    op::read_credential(values(AUTHORIZATION), values(COOKIE), session_key)
}

/// Returns the idempotency key of a request, or `None` if the request has no `Idempotency-Key` header.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Error::malformed("the request has more than one Idempotency-Key"));
    }
    // A header value that is not ASCII is rejected like any other invalid key.
    IdempotencyKey::parse(value.to_str().unwrap_or_default()).map(Some)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use secrecy::ExposeSecret;
    use svc_core::Code;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn queries_are_decoded_strictly() {
        let mut text = TextFields::new();
        append_query_fields(Some("a=1&b=x%20y+z&&c&a=%C3%A9&%3d=%26"), &mut text).unwrap();
        let wanted = [("a", "1"), ("b", "x y z"), ("c", ""), ("a", "é"), ("=", "&")];
        assert_eq!(text, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
        for bad in ["a=%", "a=%4", "a=%zz", "%+1=2", "a=%ff", "a=%c3%28"] {
            assert_eq!(
                append_query_fields(Some(bad), &mut text).unwrap_err().code(),
                Code::Malformed,
                "{bad}"
            );
        }
        assert_eq!(percent_decode("a+b%2Fc", PlusSign::IsPlus).unwrap(), "a+b/c");
        assert!(append_query_fields(Some(&"a&".repeat(QUERY_FIELDS_MAX)), &mut TextFields::new()).is_ok());
        let many = append_query_fields(Some(&"a&".repeat(QUERY_FIELDS_MAX + 1)), &mut TextFields::new())
            .unwrap_err();
        assert_eq!(many.code(), Code::Malformed);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn any_head_is_decoded(bytes in any::<Vec<u8>>(), raw in any::<String>()) {
            let mut headers = HeaderMap::new();
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                headers.insert(AUTHORIZATION, value);
            }
            if let Credential::Bearer(token) = parse_credential(&headers, None).unwrap() {
                prop_assert!(token.expose_secret().trim() == token.expose_secret());
            }
            let mut text = TextFields::new();
            if append_query_fields(Some(&raw), &mut text).is_ok() {
                prop_assert!(text.len() <= QUERY_FIELDS_MAX);
            }
        }

        /// Unescaping is the inverse of escaping.
        #[test]
        fn unescaping_inverts_escaping(text in any::<String>()) {
            let escaped: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
            for plus in [PlusSign::IsSpace, PlusSign::IsPlus] {
                prop_assert_eq!(&percent_decode(&escaped, plus).unwrap(), &text);
            }
        }
    }

    #[test]
    fn a_credential_is_read_from_the_authorization_header() {
        let read = |pairs: &[(&'static str, &'static str)]| parse_credential(&headers(pairs), None);
        let found = read(&[("authorization", "BEARER  svc_1 ")]).unwrap();
        assert!(matches!(found, Credential::Bearer(token) if token.expose_secret() == "svc_1"));
        assert!(read(&[]).unwrap().is_nothing());
        assert!(read(&[("authorization", "Bearer a"), ("authorization", "Bearer b")]).is_err());
    }
}
