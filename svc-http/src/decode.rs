//! From bytes to what the core takes: percent-decoding, the bearer token, the body and the client's address.
//! Strict where leniency would let two readers see two things; the meaning of a field is the core's.

use std::net::IpAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::Body;
use hyper::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, EXPECT, HeaderValue};
use secrecy::SecretString;
use svc_core::{Code, Error, Result};
use tokio::time::timeout;

use crate::limits::BODY_TIMEOUT;

/// Text fields by name, as the core takes them.
pub(crate) type Text = Vec<(String, String)>;

/// Adds the fields of a query.
pub(crate) fn query(raw: Option<&str>, text: &mut Text) -> Result<()> {
    for pair in raw.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        text.push((unescape(name, Plus::IsSpace)?, unescape(value, Plus::IsSpace)?));
    }
    Ok(())
}

/// What a plus sign stands for: a space in a query, itself in a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plus {
    IsSpace,
    IsPlus,
}

/// Percent-decodes; refuses an incomplete escape and what is not UTF-8 afterwards.
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
                escaped.ok_or_else(|| Error::malformed("the address has an incomplete percent escape"))?
            }
            b'+' if plus == Plus::IsSpace => b' ',
            other => other,
        });
    }
    String::from_utf8(decoded).map_err(|_| Error::malformed("the address is not UTF-8 once decoded"))
}

/// The bearer token. Another scheme is no credential; a token that is no text is an unknown one.
pub(crate) fn bearer(headers: &HeaderMap) -> Result<Option<SecretString>> {
    let mut sent = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = sent.next() else { return Ok(None) };
    if sent.next().is_some() {
        return Err(Error::malformed("the request has more than one Authorization header"));
    }
    let Some((scheme, token)) = value.to_str().ok().and_then(|value| value.split_once(' ')) else {
        return Ok(None);
    };
    Ok(scheme.eq_ignore_ascii_case("bearer").then(|| SecretString::from(token.trim())))
}

/// The address that a request comes from: what the proxies in front say, as far as they are trusted.
pub(crate) fn peer(remote: IpAddr, headers: &HeaderMap, trusted_hops: usize) -> IpAddr {
    if trusted_hops == 0 {
        return remote.to_canonical();
    }
    let told = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
    let chain: Vec<&str> = told.flat_map(|value| value.split(',')).map(str::trim).collect();
    // Each trusted proxy has added one entry at the end; what stands before them anybody can have written.
    let told = chain.len().checked_sub(trusted_hops).and_then(|place| chain.get(place));
    told.and_then(|text| text.parse::<IpAddr>().ok()).unwrap_or(remote).to_canonical()
}

/// Reads a JSON body of at most `most` bytes; empty if there is none.
pub(crate) async fn body<B>(headers: &HeaderMap, mut body: B, most: usize) -> Result<Bytes>
where
    B: Body<Data = Bytes> + Unpin,
{
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let read = if announced > most { Ok(None) } else { gather(&mut body, most).await };
    match read? {
        Some(bytes) if bytes.is_empty() => Ok(bytes),
        Some(_) if !is_json(headers) => {
            Err(Error::new(Code::UnsupportedMediaType, "send the body as Content-Type: application/json"))
        }
        Some(bytes) => Ok(bytes),
        None => {
            discard(headers, body).await;
            Err(Error::new(Code::BodyTooLarge, format!("the body is larger than {most} bytes")))
        }
    }
}

/// All of the body, or none if it is larger than `most`.
async fn gather<B>(body: &mut B, most: usize) -> Result<Option<Bytes>>
where
    B: Body<Data = Bytes> + Unpin,
{
    let gathering = async {
        let (mut first, mut more) = (Bytes::new(), BytesMut::new());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Error::malformed("the body broke off"))?;
            let Ok(data) = frame.into_data() else { continue };
            if data.len() > most - first.len() - more.len() {
                return Ok(None);
            }
            // One frame is the usual case and is not copied.
            if first.is_empty() && more.is_empty() {
                first = data;
                continue;
            }
            more.extend_from_slice(&first);
            first = Bytes::new();
            more.extend_from_slice(&data);
        }
        Ok(Some(if more.is_empty() { first } else { more.freeze() }))
    };
    timeout(BODY_TIMEOUT, gathering)
        .await
        .unwrap_or_else(|_| Err(Error::malformed("the body did not arrive in time")))
}

/// A client that is still sending when the connection closes may never see the answer, so what it sends is taken
/// and forgotten, within reason.
pub(crate) async fn discard<B>(headers: &HeaderMap, mut body: B)
where
    B: Body<Data = Bytes> + Unpin,
{
    // Who waits for `100 Continue` has sent nothing, and must not be asked for it now.
    if body.is_end_stream() || headers.contains_key(EXPECT) {
        return;
    }
    let discarding = async {
        let mut left = DISCARD_BYTES;
        while let Some(Ok(frame)) = body.frame().await {
            let size = frame.data_ref().map_or(0, Bytes::len);
            if size > left {
                return;
            }
            left -= size;
        }
    };
    // Too slow is as good as too much.
    let _ = timeout(DISCARD_TIMEOUT, discarding).await;
}

const DISCARD_BYTES: usize = 16 << 20;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);

fn is_json(headers: &HeaderMap) -> bool {
    let plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    media_type.eq_ignore_ascii_case("application/json") && headers.get(CONTENT_ENCODING).is_none_or(plain)
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;
    use secrecy::ExposeSecret;

    use super::*;

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
    }

    #[test]
    fn a_bearer_token_is_found_whatever_the_case_of_its_scheme() {
        let token = |value| bearer(&headers(&[("authorization", value)])).unwrap();
        for good in ["Bearer svc_1", "bearer svc_1", "BEARER  svc_1 "] {
            assert_eq!(token(good).unwrap().expose_secret(), "svc_1", "{good}");
        }
        for other in ["Basic svc_1", "svc_1", "Bearer", "ShareTicket svc_share_1"] {
            assert!(token(other).is_none(), "{other}");
        }
        assert!(bearer(&headers(&[])).unwrap().is_none());
        assert!(bearer(&headers(&[("authorization", "Bearer a"), ("authorization", "Bearer b")])).is_err());
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        let remote: IpAddr = "10.0.0.9".parse().unwrap();
        let told =
            headers(&[("x-forwarded-for", "6.6.6.6, 1.2.3.4"), ("x-forwarded-for", "::ffff:10.0.0.8")]);
        let seen = |headers: &HeaderMap, hops| peer(remote, headers, hops).to_string();
        assert_eq!(seen(&told, 0), "10.0.0.9");
        assert_eq!(seen(&told, 1), "10.0.0.8");
        assert_eq!(seen(&told, 2), "1.2.3.4");
        assert_eq!(seen(&told, 9), "10.0.0.9", "fewer entries than proxies: nobody wrote one we can believe");
        assert_eq!(seen(&headers(&[("x-forwarded-for", "nonsense")]), 1), "10.0.0.9");
    }

    #[tokio::test]
    async fn bodies_are_counted_and_must_be_json() {
        let json = headers(&[("content-type", "Application/JSON; charset=utf-8")]);
        let full = |text: &'static str| Full::new(Bytes::from_static(text.as_bytes()));
        assert_eq!(body(&json, full("{}"), 2).await.unwrap(), "{}");
        assert_eq!(body(&headers(&[]), full(""), 2).await.unwrap(), "");
        let code = |outcome: Result<Bytes>| outcome.unwrap_err().code();
        assert_eq!(code(body(&json, full("{ }"), 2).await), Code::BodyTooLarge);
        assert_eq!(code(body(&headers(&[]), full("{}"), 2).await), Code::UnsupportedMediaType);
        let text = headers(&[("content-type", "text/plain")]);
        assert_eq!(code(body(&text, full("{}"), 2).await), Code::UnsupportedMediaType);
        let zipped = headers(&[("content-type", "application/json"), ("content-encoding", "gzip")]);
        assert_eq!(code(body(&zipped, full("{}"), 2).await), Code::UnsupportedMediaType);
    }

    #[tokio::test]
    async fn a_body_in_pieces_is_counted_too() {
        let json = headers(&[("content-type", "application/json")]);
        let pieces = |count: usize| {
            let pieces = futures_util::stream::iter((0..count).map(|_| {
                let frame = hyper::body::Frame::data(Bytes::from_static(b"12345"));
                Ok::<_, std::convert::Infallible>(frame)
            }));
            http_body_util::StreamBody::new(pieces)
        };
        assert_eq!(body(&json, pieces(3), 15).await.unwrap(), "123451234512345");
        assert_eq!(body(&json, pieces(4), 15).await.unwrap_err().code(), Code::BodyTooLarge);
    }
}
