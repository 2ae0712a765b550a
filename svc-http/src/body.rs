//! The bodies of requests: how they may be framed and encoded, how large and how slow they may be. A body is read
//! only for a request that was let in. Until it is whole it takes no place among the requests in flight, so of those
//! that take their time each client may have only some.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, EXPECT, HeaderName, HeaderValue, TRANSFER_ENCODING};
use hyper::{HeaderMap, Request, Version};
use svc_core::{Client, Code, Error, Result};
use tokio::time::{Instant, timeout, timeout_at};

use crate::shares::Shares;

/// Bytes of a body where no credential is asked for.
pub(crate) const OPEN_BODY_MAX: usize = 16 << 10;
/// Bodies of one client that are unfinished after [`PROMPT`].
const UNFINISHED_MAX: usize = 32;
/// A body that takes no longer is not counted.
const PROMPT: Duration = Duration::from_secs(1);
/// From then on it must have come at [`LEAST_RATE`].
const GRACE: Duration = Duration::from_secs(5);
/// Bytes in a second.
const LEAST_RATE: u32 = 16 << 10;
/// How long a body may take in any case.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// The bodies that are being read.
pub(crate) struct Bodies {
    unfinished: Shares<Client>,
}

impl Bodies {
    pub fn new() -> Self {
        Self { unfinished: Shares::new(usize::MAX, UNFINISHED_MAX) }
    }

    /// How many are counted.
    pub fn unfinished(&self) -> usize {
        self.unfinished.taken()
    }

    /// Reads the JSON body of a request of `client`, of at most `most` bytes; empty if there is none.
    pub async fn read<B>(
        &self,
        client: Client,
        headers: &HeaderMap,
        mut body: B,
        most: usize,
    ) -> Result<Bytes>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        check_framing(headers)?;
        if body.is_end_stream() {
            return Ok(Bytes::new());
        }
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        let read = if announced > most { None } else { self.gather(client, &mut body, most).await? };
        match read {
            Some(bytes) if bytes.is_empty() || is_json(headers) => Ok(bytes),
            Some(_) => Err(Error::new(
                Code::UnsupportedMediaType,
                "send the body as Content-Type: application/json, in UTF-8",
            )),
            None => {
                drain(headers, body, LARGE_BYTES).await;
                Err(Error::new(Code::BodyTooLarge, format!("the body is larger than {most} bytes")))
            }
        }
    }

    /// All of the body, or none if it is larger than `most`.
    async fn gather<B>(&self, client: Client, body: &mut B, most: usize) -> Result<Option<Bytes>>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let began = Instant::now();
        let (mut unfinished, mut gathered) = (None, Gathered::default());
        loop {
            let now = Instant::now();
            if unfinished.is_none() && now >= began + PROMPT {
                unfinished = Some(self.unfinished.take(client, 1).ok_or_else(too_many)?);
            }
            if now >= began + time_for(gathered.len()) {
                return Err(Error::malformed("the body did not arrive in time"));
            }
            let next = if unfinished.is_none() { PROMPT } else { time_for(gathered.len()) };
            let Ok(frame) = timeout_at(began + next, body.frame()).await else { continue };
            let Some(frame) = frame else { return Ok(Some(gathered.whole())) };
            let frame = frame.map_err(|_| Error::malformed("the body broke off"))?;
            let Ok(data) = frame.into_data() else { continue };
            if data.len() > most - gathered.len() {
                return Ok(None);
            }
            gathered.add(data);
        }
    }
}

fn too_many() -> Error {
    Error::new(
        Code::Overloaded,
        format!("{UNFINISHED_MAX} of your requests are still sending their bodies; try again shortly"),
    )
}

/// How long a body may take of which so much has come.
fn time_for(received: usize) -> Duration {
    let seconds = u32::try_from(received).unwrap_or(u32::MAX) / LEAST_RATE;
    (GRACE + Duration::from_secs(seconds.into())).min(BODY_TIMEOUT)
}

/// What has come of a body. One frame is the usual case and is not copied.
#[derive(Default)]
struct Gathered {
    first: Bytes,
    more: BytesMut,
}

impl Gathered {
    fn len(&self) -> usize {
        self.first.len() + self.more.len()
    }

    fn add(&mut self, data: Bytes) {
        if self.len() == 0 {
            self.first = data;
            return;
        }
        let first = std::mem::take(&mut self.first);
        self.more.extend_from_slice(&first);
        self.more.extend_from_slice(&data);
    }

    fn whole(self) -> Bytes {
        if self.more.is_empty() { self.first } else { self.more.freeze() }
    }
}

/// A client that is still sending when the connection closes may never see the answer, so what it sends is taken
/// and dropped, within reason.
pub(crate) async fn discard<B>(request: Request<B>)
where
    B: Body<Data = Bytes> + Unpin,
{
    // A stream of HTTP/2 ends without that.
    if request.version() == Version::HTTP_2 {
        return;
    }
    let (head, body) = request.into_parts();
    drain(&head.headers, body, REFUSED_BYTES).await;
}

async fn drain<B>(headers: &HeaderMap, mut body: B, most: usize)
where
    B: Body<Data = Bytes> + Unpin,
{
    // Who waits for `100 Continue` has sent nothing, and must not be asked for it now.
    if body.is_end_stream() || headers.contains_key(EXPECT) {
        return;
    }
    let draining = async {
        let mut left = most;
        while let Some(Ok(frame)) = body.frame().await {
            let size = frame.data_ref().map_or(0, Bytes::len);
            if size > left {
                return;
            }
            left -= size;
        }
    };
    // Too slow is as good as too much.
    let _ = timeout(DRAIN_TIMEOUT, draining).await;
}

/// Bytes that are taken of a body that nobody wants.
const REFUSED_BYTES: usize = 1 << 20;
/// Bytes that are taken of a body that is too large.
const LARGE_BYTES: usize = 16 << 20;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// Refuses what another reader of the same bytes might understand in another way.
fn check_framing(headers: &HeaderMap) -> Result<()> {
    if !words(headers, TRANSFER_ENCODING).all(|coding| coding.eq_ignore_ascii_case("chunked"))
        || words(headers, TRANSFER_ENCODING).count() > 1
    {
        let detail = "no transfer coding is understood but `chunked` alone";
        return Err(Error::new(Code::UnsupportedTransferCoding, detail));
    }
    if !words(headers, EXPECT).all(|expected| expected.eq_ignore_ascii_case("100-continue")) {
        return Err(Error::new(Code::ExpectationFailed, "no expectation can be met but `100-continue`"));
    }
    Ok(())
}

/// The words of a header that is a list.
fn words(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter().map(|value| value.to_str().unwrap_or("?"));
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

fn is_json(headers: &HeaderMap) -> bool {
    let plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut parts = content_type.split(';').map(str::trim);
    parts.next().is_some_and(|media_type| media_type.eq_ignore_ascii_case("application/json"))
        && parts.all(is_utf8_or_no_charset)
        && headers.get(CONTENT_ENCODING).is_none_or(plain)
}

/// Whether a parameter of a media type leaves UTF-8 as it is.
fn is_utf8_or_no_charset(parameter: &str) -> bool {
    let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
    let value = value.trim().trim_matches('"');
    !name.trim().eq_ignore_ascii_case("charset")
        || ["utf-8", "utf8", "us-ascii"].iter().any(|charset| value.eq_ignore_ascii_case(charset))
}

#[cfg(test)]
mod tests {
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
        most: usize,
    ) -> Result<Bytes, Code> {
        let client = Client::at([127, 0, 0, 1].into());
        Bodies::new().read(client, &headers(pairs), body, most).await.map_err(|error| error.code())
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
        let json = ("content-type", "application/json");
        assert_eq!(read(&[json], full("{ }"), 2).await, Err(Code::BodyTooLarge));
        let others: [&[(&str, &str)]; 5] = [
            &[],
            &[("content-type", "text/plain")],
            &[("content-type", "application/json; charset=utf-16")],
            &[("content-type", "application/json; x=y; CharSet=latin1")],
            &[json, ("content-encoding", "gzip")],
        ];
        for other in others {
            assert_eq!(read(other, full("{}"), 2).await, Err(Code::UnsupportedMediaType), "{other:?}");
        }
    }

    #[tokio::test]
    async fn what_is_framed_in_an_unusual_way_is_refused() {
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

    #[test]
    fn a_body_has_time_for_what_it_brings() {
        let secs = |received| time_for(received).as_secs();
        assert_eq!((secs(0), secs(16 << 10), secs(160 << 10)), (5, 6, 15));
        assert_eq!((secs(2 << 20), secs(usize::MAX)), (60, 60));
    }
}
