//! Reads request bodies, and enforces their framing, encoding, size and minimum rate.
//!
//! Only the body of an admitted request is kept in memory. The body of a rejected request is read and dropped
//! for a limited time. The bytes in memory count towards a limit until the request is answered. An incomplete
//! body occupies no slot for requests in flight. Instead, the number of slow bodies of each client is
//! limited.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Body;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::{HeaderMap, Request, Version};
use svc_core::mark::strip_byte_order_mark_bytes;
use svc_core::share::Quotas;
use svc_core::{Ceiling, Code, Error, Holder, PlaceGuard, Result};
use tokio::time::{Instant, timeout, timeout_at};

/// Maximum bytes of a request body on a route that requires no credential.
pub(crate) const OPEN_ROUTE_BODY_MAX: usize = 16 << 10;
/// Maximum total bytes of request bodies in memory.
pub(crate) const BODY_BYTES_MAX: usize = 256 << 20;
/// Maximum request bodies of one client that are incomplete after [`UNFINISHED_AFTER`].
pub(crate) const UNFINISHED_BODIES_MAX: usize = 32;
/// Time after which an incomplete request body counts as unfinished.
const UNFINISHED_AFTER: Duration = Duration::from_secs(1);
/// Extra time that a request body may take, in addition to the time at the rate [`MIN_RATE`].
const RATE_GRACE: Duration = Duration::from_secs(5);
/// Bytes per segment of the buffer for a request body.
const SEGMENT_BYTES: usize = 64 << 10;
/// Minimum accepted rate of a request body, in bytes per second.
const MIN_RATE: u32 = 16 << 10;
/// Maximum time to receive a request body of any size.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Media types that are accepted for the JSON body of a request.
pub(crate) const JSON_MEDIA_TYPES: &[&str] = &["application/json"];

/// Reads request bodies within the limits on bytes in memory and on unfinished bodies.
pub(crate) struct BodyReader {
    bytes: Ceiling,
    unfinished: Ceiling,
}

/// Creates a ceiling of `total` units in total and `per_client` units per client.
fn new_ceiling(name: &'static str, total: usize, per_client: usize) -> Ceiling {
    Ceiling::new(name, total, Quotas { client: Some(per_client), ..Quotas::default() })
}

impl BodyReader {
    pub fn new() -> Self {
        Self {
            bytes: Ceiling::new("bytes of request bodies", BODY_BYTES_MAX, Quotas::default()),
            unfinished: new_ceiling("unfinished request bodies", usize::MAX, UNFINISHED_BODIES_MAX),
        }
    }

    /// Returns the total bytes of request bodies in memory.
    pub fn bytes(&self) -> usize {
        self.bytes.taken()
    }

    /// Returns the number of request bodies that count as unfinished.
    pub fn unfinished_count(&self) -> usize {
        self.unfinished.taken()
    }

    /// Reads a request body of at most `max_bytes` bytes, whose media type must be in `media_types`.
    ///
    /// Returns an empty value if there is no body, and omits a byte order mark. The returned bytes count
    /// towards the limit on bytes in memory until they are dropped.
    pub async fn read<B>(
        &self,
        holder: Holder,
        headers: &HeaderMap,
        mut body: B,
        max_bytes: usize,
        media_types: &[&str],
    ) -> Result<Bytes>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        check_framing(headers)?;
        if body.is_end_stream() {
            return Ok(Bytes::new());
        }
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let read =
            if announced > max_bytes { Ok(None) } else { self.collect(holder, &mut body, max_bytes).await };
        if read.as_ref().is_err_and(|refusal| refusal.code() == Code::Overloaded) {
            drain_body(headers, &mut body, max_bytes.saturating_mul(2)).await;
        }
        match read? {
            Some(bytes) if bytes.is_empty() || has_media_type(media_types, headers) => {
                Ok(bytes.slice_ref(strip_byte_order_mark_bytes(&bytes)))
            }
            Some(_) => Err(wrong_media_type_error(media_types)),
            None => {
                drain_body(headers, body, max_bytes.saturating_mul(2).max(OVERSIZED_DRAIN_MIN)).await;
                Err(Error::new(Code::BodyTooLarge, format!("the body is larger than {max_bytes} bytes")))
            }
        }
    }

    /// Reads the whole body, or returns `None` if the body is larger than `max_bytes` bytes.
    async fn collect<B>(&self, holder: Holder, body: &mut B, max_bytes: usize) -> Result<Option<Bytes>>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let began = Instant::now();
        let mut collected = BodyBuffer::default();
        let mut unfinished = None;
        let mut counted = None::<PlaceGuard>;
        loop {
            let now = Instant::now();
            if unfinished.is_none() && now >= began + UNFINISHED_AFTER {
                unfinished = Some(self.unfinished.take(holder, 1)?);
            }
            if now >= began + allowed_time(collected.len()) {
                return Err(Error::malformed("the body did not arrive in time"));
            }
            let next = if unfinished.is_none() { UNFINISHED_AFTER } else { allowed_time(collected.len()) };
            let Ok(frame) = timeout_at(began + next, body.frame()).await else { continue };
            let Some(frame) = frame else {
                let bytes = collected.into_bytes();
                return Ok(Some(match counted {
                    Some(place) => with_guard(bytes, place),
                    None => bytes,
                }));
            };
            let frame = frame
                .map_err(|_| Error::malformed("the connection was lost while the body was being read"))?;
            let Ok(data) = frame.into_data() else { continue };
            if data.len() > max_bytes - collected.len() {
                return Ok(None);
            }
            let place = self.bytes.take(holder, data.len())?;
            match &mut counted {
                Some(counted) => counted.merge(place),
                None => counted = Some(place),
            }
            collected.add(data);
        }
    }
}

pub(crate) fn wrong_media_type_error(media_types: &[&str]) -> Error {
    Error::new(
        Code::UnsupportedMediaType,
        format!(
            "the body must have the media type {}, in UTF-8 and without a content coding",
            media_types.join(" or ")
        ),
    )
}

/// Returns `bytes` with a guard, such as a share of a limit, which is released when the bytes are dropped.
pub(crate) fn with_guard<T: Send + 'static>(bytes: Bytes, guard: T) -> Bytes {
    Bytes::from_owner(CountedBytes { bytes, _guard: guard })
}

struct CountedBytes<T> {
    bytes: Bytes,
    _guard: T,
}

impl<T> AsRef<[u8]> for CountedBytes<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the maximum time since the start of a body of which `received` bytes have arrived.
fn allowed_time(received: usize) -> Duration {
    let seconds = u32::try_from(received).unwrap_or(u32::MAX) / MIN_RATE;
    (RATE_GRACE + Duration::from_secs(seconds.into())).min(BODY_TIMEOUT)
}

/// Bytes of a request body received so far. A body of one frame, the usual case, is not copied.
///
/// A body of several frames is kept in segments, because a growing buffer can need twice the size of its
/// contents.
#[derive(Default)]
struct BodyBuffer {
    first: Bytes,
    segments: Vec<Vec<u8>>,
    len: usize,
}

impl BodyBuffer {
    fn len(&self) -> usize {
        self.len
    }

    fn add(&mut self, data: Bytes) {
        if self.len == 0 {
            self.len = data.len();
            self.first = data;
            return;
        }
        self.len += data.len();
        for bytes in [std::mem::take(&mut self.first), data] {
            let mut rest = &*bytes;
            while !rest.is_empty() {
                if self.segments.last().is_none_or(|last| last.len() == SEGMENT_BYTES) {
                    self.segments.push(Vec::with_capacity(SEGMENT_BYTES));
                }
                let Some(last) = self.segments.last_mut() else { return };
                let (part, left) = rest.split_at(rest.len().min(SEGMENT_BYTES - last.len()));
                last.extend_from_slice(part);
                rest = left;
            }
        }
    }

    fn into_bytes(self) -> Bytes {
        if self.segments.is_empty() { self.first } else { self.segments.concat().into() }
    }
}

/// Reads and drops the body of a rejected request, up to twice the body limit `max_bytes` or up to
/// [`REJECTED_DRAIN_MIN`] if that is more.
///
/// Otherwise a client that is still sending when the connection closes may never see the response.
pub(crate) async fn discard_body<B>(request: Request<B>, max_bytes: usize)
where
    B: Body<Data = Bytes> + Unpin,
{
    // An HTTP/2 stream can be reset without closing the connection.
    if request.version() == Version::HTTP_2 {
        return;
    }
    let (head, body) = request.into_parts();
    drain_body(&head.headers, body, max_bytes.saturating_mul(2).max(REJECTED_DRAIN_MIN)).await;
}

async fn drain_body<B>(headers: &HeaderMap, mut body: B, max_bytes: usize)
where
    B: Body<Data = Bytes> + Unpin,
{
    // A client that waits for `100 Continue` has sent no body, and reading would make hyper request it.
    if body.is_end_stream() || headers.contains_key(EXPECT) {
        return;
    }
    // Reading stops if the body is too slow or too large.
    let _ = timeout(DRAIN_TIMEOUT, read_and_drop(&mut body, max_bytes)).await;
}

/// Reads and drops the rest of a rejected file upload while the response is sent.
///
/// A file may be too large to be read before the response is sent. If the connection closed while a proxy is
/// still sending the file, the proxy would report its own failure instead of the response.
pub(crate) fn drain_while_responding<B>(headers: &HeaderMap, mut body: B)
where
    B: Body<Data = Bytes, Error: Send> + Unpin + Send + 'static,
{
    if !body.is_end_stream() && !headers.contains_key(EXPECT) {
        tokio::spawn(async move {
            timeout(UPLOAD_DRAIN_TIMEOUT, read_and_drop(&mut body, UPLOAD_DRAIN_MAX)).await
        });
    }
}

async fn read_and_drop<B>(body: &mut B, max_bytes: usize)
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut left = max_bytes;
    while let Some(Ok(frame)) = body.frame().await {
        let size = frame.data_ref().map_or(0, Bytes::len);
        if size > left {
            return;
        }
        left -= size;
    }
}

/// Bytes that the server reads and drops from the body of a rejected request even if the body limit is lower.
const REJECTED_DRAIN_MIN: usize = 4 << 20;
/// Bytes that the server reads and drops from a body above the body limit even if that limit is lower.
const OVERSIZED_DRAIN_MIN: usize = 16 << 20;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum bytes to read and drop from the rest of a rejected file upload.
const UPLOAD_DRAIN_MAX: usize = 256 << 20;
/// Maximum time to read and drop the rest of a rejected file upload.
const UPLOAD_DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Rejects values of Transfer-Encoding and Expect that this server does not support.
pub(crate) fn check_framing(headers: &HeaderMap) -> Result<()> {
    if !list_items(headers, TRANSFER_ENCODING).all(|coding| coding.eq_ignore_ascii_case("chunked"))
        || list_items(headers, TRANSFER_ENCODING).count() > 1
    {
        let detail = "the only supported transfer coding is `chunked`";
        return Err(Error::new(Code::UnsupportedTransferCoding, detail));
    }
    if !list_items(headers, EXPECT).all(|expected| expected.eq_ignore_ascii_case("100-continue")) {
        return Err(Error::new(Code::ExpectationFailed, "the only supported expectation is `100-continue`"));
    }
    Ok(())
}

/// Returns the elements of a header whose value is a comma-separated list.
fn list_items(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter().map(|value| value.to_str().unwrap_or("?"));
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|item| !item.is_empty())
}

pub(crate) fn has_media_type(media: &[&str], headers: &HeaderMap) -> bool {
    let plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let content_type = types.next().and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut parts = content_type.split(';').map(str::trim);
    parts.next().is_some_and(|sent| media.iter().any(|media| sent.eq_ignore_ascii_case(media)))
        && parts.all(is_utf8_or_no_charset)
        && types.next().is_none()
        && headers.get_all(CONTENT_ENCODING).iter().all(plain)
}

/// Returns false only for a media type parameter `charset` with a value other than UTF-8 or US-ASCII.
fn is_utf8_or_no_charset(parameter: &str) -> bool {
    let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
    let value = value.trim().trim_matches('"');
    !name.trim().eq_ignore_ascii_case("charset")
        || ["utf-8", "utf8", "us-ascii"].iter().any(|charset| value.eq_ignore_ascii_case(charset))
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, StreamExt as _};
    use http_body_util::Full;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs =
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), HeaderValue::from_static(value)));
        pairs.collect()
    }

    async fn read<B: Body<Data = Bytes> + Unpin>(
        pairs: &[(&'static str, &'static str)],
        body: B,
        max_bytes: usize,
    ) -> Result<Bytes, Code> {
        let holder = Holder::at([127, 0, 0, 1].into());
        BodyReader::new()
            .read(holder, &headers(pairs), body, max_bytes, JSON_MEDIA_TYPES)
            .await
            .map_err(|error| error.code())
    }

    fn full(text: &'static str) -> Full<Bytes> {
        Full::new(Bytes::from_static(text.as_bytes()))
    }

    #[tokio::test]
    async fn bodies_are_counted_and_must_be_json() {
        for json in
            ["Application/JSON; charset=utf-8", "application/json;charset=\"UTF-8\"", "application/json; a=b"]
        {
            assert_eq!(read(&[("content-type", json)], full("{}"), 2).await.unwrap(), "{}", "{json}");
        }
        assert_eq!(read(&[], full(""), 2).await.unwrap(), "");
        let marked = full("\u{feff}\u{feff}{}");
        let read_marked = read(&[("content-type", "application/json")], marked, 8).await.unwrap();
        assert_eq!(read_marked, "\u{feff}{}", "one mark is skipped");
        let json = ("content-type", "application/json");
        assert_eq!(read(&[json], full("{ }"), 2).await, Err(Code::BodyTooLarge));
        let others: [&[(&str, &str)]; 7] = [
            &[],
            &[("content-type", "text/plain")],
            &[json, ("content-type", "text/plain")],
            &[json, json],
            &[("content-type", "application/json; charset=utf-16")],
            &[("content-type", "application/json; x=y; CharSet=latin1")],
            &[json, ("content-encoding", "gzip")],
        ];
        for other in others {
            assert_eq!(read(other, full("{}"), 2).await, Err(Code::UnsupportedMediaType), "{other:?}");
        }
    }

    #[tokio::test]
    async fn unusual_framing_is_rejected() {
        let refused = async |name, value| read(&[(name, value)], full(""), 2).await.err();
        assert_eq!(refused("transfer-encoding", "Chunked").await, None);
        for other in ["gzip, chunked", "chunked, chunked", "identity", "x"] {
            assert_eq!(refused("transfer-encoding", other).await, Some(Code::UnsupportedTransferCoding));
        }
        assert_eq!(refused("expect", "100-Continue").await, None);
        assert_eq!(refused("expect", "bogus").await, Some(Code::ExpectationFailed));
    }

    #[tokio::test]
    async fn a_body_in_pieces_is_counted_too() {
        let pieces = |count: usize| {
            let pieces = futures_util::stream::iter((0..count).map(|_| {
                let frame = hyper::body::Frame::data(Bytes::from_static(b"12345"));
                Ok::<_, std::convert::Infallible>(frame)
            }));
            http_body_util::StreamBody::new(pieces)
        };
        let json = [("content-type", "application/json")];
        assert_eq!(read(&json, pieces(3), 15).await.unwrap(), "123451234512345");
        assert_eq!(read(&json, pieces(4), 15).await, Err(Code::BodyTooLarge));
    }

    #[tokio::test]
    async fn the_bytes_of_a_body_count_from_the_first_until_they_are_dropped() {
        let bodies = BodyReader::new();
        let json = headers(&[("content-type", "application/json")]);
        let holder = |number| Holder::at([127, 0, 0, number].into());
        let size = 2 << 20;
        let read = async |number| {
            bodies
                .read(holder(number), &json, Full::new(Bytes::from(vec![b' '; size])), size, JSON_MEDIA_TYPES)
                .await
        };
        let mut held = Vec::new();
        let refused = loop {
            match read(1).await {
                Ok(bytes) => held.push(bytes),
                Err(refused) => break refused,
            }
        };
        assert_eq!((refused.code(), held.len()), (Code::Overloaded, 72), "three quarters of three quarters");
        assert_eq!(bodies.bytes(), 72 * size);
        held.push(read(2).await.unwrap());
        let unfinished = http_body_util::StreamBody::new(
            futures_util::stream::iter([Ok::<_, std::io::Error>(hyper::body::Frame::data(
                Bytes::from_static(b"12345"),
            ))])
            .chain(futures_util::stream::pending()),
        );
        let mut reading = Box::pin(bodies.read(holder(3), &json, unfinished, size, JSON_MEDIA_TYPES));
        assert!(reading.as_mut().now_or_never().is_none());
        assert_eq!(bodies.bytes(), 73 * size + 5, "a body that is not complete counts");
        drop((held, reading));
        assert_eq!(bodies.bytes(), 0);
    }

    #[tokio::test]
    async fn one_workspace_leaves_bytes_of_bodies_to_others() {
        let bodies = BodyReader::new();
        let json = headers(&[("content-type", "application/json")]);
        let body = Bytes::from(vec![b' '; BODY_BYTES_MAX / 128]);
        let all_of = async |workspace: u8, client: u8| {
            let workspace = format!("00000000-0000-0000-0000-0000000000{workspace:02}").parse().unwrap();
            let holder = Holder { workspace, ..Holder::at([127, 0, 0, client].into()) };
            let mut held = Vec::new();
            loop {
                match bodies.read(holder, &json, Full::new(body.clone()), body.len(), JSON_MEDIA_TYPES).await
                {
                    Ok(bytes) => held.push(bytes),
                    Err(refusal) => {
                        assert_eq!(refusal.code(), Code::Overloaded);
                        let scope = serde_json::to_value(refusal.problem()).unwrap()["scope"].clone();
                        return (held, scope);
                    }
                }
            }
        };
        let mut got = Vec::new();
        let mut held = Vec::new();
        for (workspace, client) in [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3), (3, 1)] {
            let (bytes, scope) = all_of(workspace, client).await;
            got.push((workspace, bytes.len(), scope));
            held.push(bytes);
        }
        // A workspace may use three quarters of the ceiling, and one client three quarters of the workspace's
        // maximum.
        assert_eq!(
            got[..3],
            [(1, 72, "client".into()), (1, 24, "workspace".into()), (1, 0, "workspace".into())]
        );
        assert_eq!(got[3..6].iter().map(|(_, bodies, _)| bodies).sum::<usize>(), 32, "{got:?}");
        assert_eq!(got[6], (3, 0, "server".into()));
    }

    #[test]
    fn a_body_gets_time_for_its_size() {
        let secs = |received| allowed_time(received).as_secs();
        assert_eq!((secs(0), secs(16 << 10), secs(160 << 10)), (5, 6, 15));
        assert_eq!((secs(2 << 20), secs(usize::MAX)), (60, 60));
    }
}
