//! Limits uploads and downloads of files.
//!
//! A transfer holds one of a few slots, which workspaces and their clients share: an upload until the file
//! has arrived, a download until the last byte is written. Uploads and downloads must keep up the rate
//! [`FILE_RATE_MIN`] over each [`RATE_WINDOW`]. An uploaded file is checked while it is received, and refused
//! at the first fault.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::HeaderMap;
use hyper::body::Body;
use svc_core::op::Operation;
use svc_core::share::Quotas;
use svc_core::spool::CompleteSpool;
use svc_core::{Ceiling, Code, Error, Holder, PlaceGuard, Result, Service};
use tokio::time::{Instant, timeout};

use crate::limits::body::{JSON_MEDIA_TYPES, check_framing, has_media_type, wrong_media_type_error};
use crate::limits::pace::{FILE_RATE_MIN, RATE_WINDOW, TransferRate};

/// Maximum concurrent file transfers of this server.
pub(crate) const TRANSFERS_MAX: usize = 8;
/// Maximum concurrent file transfers of one client.
pub(crate) const CLIENT_TRANSFERS_MAX: usize = 2;
/// Maximum time that a request waits for a transfer slot.
const SLOT_TIMEOUT: Duration = Duration::from_secs(10);
/// Minimum bytes of an uploaded file for the first check and write. Each further check needs twice as many
/// bytes as the one before, up to [`CHECK_BYTES_MAX`].
const FIRST_CHECK_BYTES: usize = 4 << 10;
/// Maximum bytes of an uploaded file that the server collects before it checks and writes them.
const CHECK_BYTES_MAX: usize = 256 << 10;
/// Time after the last check at which received bytes are checked even if they are few.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Slots for file transfers.
pub(crate) struct Transfers(Ceiling);

impl Transfers {
    pub fn new() -> Self {
        let quotas = Quotas { client: Some(CLIENT_TRANSFERS_MAX), ..Quotas::default() };
        Self(Ceiling::new("file transfers", TRANSFERS_MAX, quotas))
    }

    /// Waits for a transfer slot if the operation returns a file. Otherwise returns `None`.
    ///
    /// The caller takes the slot before the file is created, and holds it until the client has read the file.
    pub async fn take_slot_for(&self, operation: &Operation, holder: Holder) -> Result<Option<PlaceGuard>> {
        if operation.http().returns_file { self.take_slot(holder).await.map(Some) } else { Ok(None) }
    }

    /// Waits for a transfer slot. Fails with 503 `overloaded` if no slot becomes free within
    /// [`SLOT_TIMEOUT`].
    pub async fn take_slot(&self, holder: Holder) -> Result<PlaceGuard> {
        match timeout(SLOT_TIMEOUT, self.0.wait(holder, 1)).await {
            Ok(place) => place,
            Err(_) => Err(self.0.exhausted(holder, 1)),
        }
    }
}

/// Receives a request body as a file, or returns `None` if there is no body.
pub(crate) async fn receive_file<B>(
    service: &Service,
    holder: Holder,
    headers: &HeaderMap,
    body: &mut B,
) -> Result<Option<CompleteSpool>>
where
    B: Body<Data = Bytes> + Unpin,
{
    check_framing(headers)?;
    if body.is_end_stream() {
        return Ok(None);
    }
    if !has_media_type(JSON_MEDIA_TYPES, headers) {
        return Err(wrong_media_type_error(JSON_MEDIA_TYPES));
    }
    receive_and_check(service, holder, body).await.map(Some)
}

/// Receives a request body as a file, checks it while it arrives, and fails at the first fault.
async fn receive_and_check<B>(service: &Service, holder: Holder, body: &mut B) -> Result<CompleteSpool>
where
    B: Body<Data = Bytes> + Unpin,
{
    let max = service.upload_max_bytes();
    let too_large = || Error::new(Code::BodyTooLarge, format!("the body is larger than {max} bytes"));
    if body.size_hint().lower() > max {
        return Err(too_large());
    }
    let mut file = service.begin_upload(holder.workspace).await?;
    let mut incoming = IncomingRate::default();
    let mut received = 0_u64;
    let mut waiting = BytesMut::new();
    let mut enough = FIRST_CHECK_BYTES;
    let mut checked_at = Instant::now();
    loop {
        let data = incoming.next(body).await?;
        let is_end = data.is_none();
        let data = data.unwrap_or_default();
        received = received.saturating_add(u64::try_from(data.len()).unwrap_or(u64::MAX));
        if received > max {
            return Err(too_large());
        }
        waiting.extend_from_slice(&data);
        if waiting.len() >= enough || is_end || checked_at.elapsed() >= CHECK_INTERVAL {
            file = service.write_upload(file, waiting.split().to_vec()).await?;
            (enough, checked_at) = (enough.saturating_mul(2).min(CHECK_BYTES_MAX), Instant::now());
        }
        if is_end {
            return service.end_upload(file).await;
        }
    }
}

/// Measures the rate of an upload, counting only the time spent waiting for the client.
#[derive(Default)]
struct IncomingRate {
    rate: TransferRate,
    waited: Duration,
}

impl IncomingRate {
    /// Receives the next bytes of an upload, or returns `None` at the end. Fails if the client is too slow.
    async fn next<B>(&mut self, body: &mut B) -> Result<Option<Bytes>>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        loop {
            let began = Instant::now();
            let left = self.rate.deadline().saturating_sub(self.waited);
            let Ok(frame) = timeout(left, body.frame()).await else { return Err(too_slow_error()) };
            self.waited = self.waited.saturating_add(began.elapsed());
            let Some(frame) = frame else { return Ok(None) };
            let lost = "the connection was lost while the body was being read";
            let Ok(data) = frame.map_err(|_| Error::malformed(lost))?.into_data() else { continue };
            if !data.is_empty() {
                self.rate.record(self.waited, u64::try_from(data.len()).unwrap_or(u64::MAX));
                return Ok(Some(data));
            }
        }
    }
}

fn too_slow_error() -> Error {
    Error::malformed(format!(
        "the body arrived too slowly: over each {} s it must arrive at {FILE_RATE_MIN} bytes a second",
        RATE_WINDOW.as_secs()
    ))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{FutureExt as _, StreamExt as _, stream};
    use http_body_util::StreamBody;
    use hyper::body::Frame;
    use svc_core::Client;

    use super::*;

    /// Polls an upload for 100 milliseconds, after `waited` time of waiting for the client. The client sends
    /// `bytes` bytes immediately and then nothing.
    ///
    /// Returns whether the poll succeeded, or `None` if the upload still waits.
    async fn next(incoming: &mut IncomingRate, bytes: Option<usize>, waited: Duration) -> Option<bool> {
        let frame = |bytes: usize| Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; bytes])));
        let frames = stream::iter(bytes.map(frame)).chain(stream::pending());
        incoming.waited = waited;
        let mut body = Box::pin(StreamBody::new(frames));
        let next = timeout(Duration::from_millis(100), incoming.next(&mut body)).await;
        next.ok().map(|outcome| outcome.is_ok())
    }

    #[tokio::test]
    async fn a_body_that_was_fast_and_then_rests_is_given_up() {
        let window = RATE_WINDOW;
        let second = Duration::from_secs(1);
        let mut incoming = IncomingRate::default();
        assert_eq!(next(&mut incoming, Some(20 << 20), second).await, Some(true));
        assert_eq!(next(&mut incoming, None, window).await, None, "it has the time of a window");
        assert_eq!(
            next(&mut incoming, None, window + 2 * second).await,
            Some(false),
            "banked speed buys nothing"
        );
        // Control: an upload that keeps up the rate has no time limit.
        let mut incoming = IncomingRate::default();
        let each = usize::try_from(FILE_RATE_MIN).unwrap();
        for seconds in 1..300 {
            assert_eq!(next(&mut incoming, Some(each), second * seconds).await, Some(true), "{seconds}");
        }
        assert_eq!(next(&mut IncomingRate::default(), None, window - second).await, None);
        assert_eq!(next(&mut IncomingRate::default(), None, window).await, Some(false));
    }

    #[tokio::test]
    async fn one_workspace_leaves_places_to_others() {
        let transfers = Transfers::new();
        let place = |workspace: u8, client: u8| {
            let client = Client::Peer([127, 0, 0, client].into());
            let holder = Holder {
                client,
                workspace: format!("00000000-0000-0000-0000-0000000000{workspace:02}").parse().unwrap(),
            };
            transfers.take_slot(holder).now_or_never().map(Result::unwrap)
        };
        let held: Vec<_> = (1..20).filter_map(|client| place(1, client)).collect();
        assert_eq!(held.len(), 6, "one workspace alone has three quarters");
        let other = place(2, 1);
        assert!(other.is_some(), "another one has a place");
        drop(held);
        let held: Vec<_> = (1..20).filter_map(|_| place(1, 1)).collect();
        assert_eq!(held.len(), CLIENT_TRANSFERS_MAX, "one client has its quota");
    }
}
