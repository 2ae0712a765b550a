//! Response bodies, sent in chunks.
//!
//! Each chunk counts until it is written out: towards the unread bytes of its client, and for the check
//! whether the peer of the connection still reads.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use svc_core::Client;

use crate::pace::{Pace, Pending};
use crate::shares::Share;

/// Bytes in a chunk, and so the least that a slow peer must read within the stall timeout.
const CHUNK: usize = 16 << 10;

/// The part of a response body that is still to be sent.
#[derive(Default)]
pub(crate) struct ResponseBody {
    rest: Bytes,
    share: Option<Share<Client>>,
    pending: Option<Pending>,
    slot: Option<Share<Client>>,
    /// Whether the first chunk was taken.
    begun: bool,
}

impl ResponseBody {
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Attaches the share that the bytes count towards until they are sent.
    pub fn counted(&mut self, share: Share<Client>) {
        self.share = Some(share);
    }

    /// Holds a slot until the last chunk is taken.
    pub fn keep(&mut self, slot: Share<Client>) {
        self.slot = Some(slot);
    }

    /// Reports to a connection's pace which chunks are taken.
    pub fn watched(&mut self, pace: &Pace) {
        if !self.rest.is_empty() {
            self.pending = Some(pace.pending());
        }
    }
}

impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        Self { rest: bytes, ..Self::default() }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let size = self.rest.len().min(CHUNK);
        let bytes = self.rest.split_to(size);
        let mut pending = self.pending.take();
        let (share, slot) = if self.rest.is_empty() {
            (self.share.take(), self.slot.take())
        } else {
            // The clock of the rest starts when this chunk is taken.
            self.pending = pending.as_ref().map(Pending::another);
            (self.share.as_mut().map(|share| share.split(size)), None)
        };
        if std::mem::replace(&mut self.begun, true) {
            pending = pending.map(|pending| pending.another());
        }
        let chunk = if share.is_none() && pending.is_none() && slot.is_none() {
            bytes
        } else {
            Bytes::from_owner(Chunk { bytes, _share: share, _pending: pending, _slot: slot })
        };
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.rest.len()).unwrap_or(u64::MAX))
    }
}

/// Bytes on their way to the peer; dropped once they are written.
struct Chunk {
    bytes: Bytes,
    _share: Option<Share<Client>>,
    _pending: Option<Pending>,
    _slot: Option<Share<Client>>,
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::shares::Shares;

    #[tokio::test]
    async fn sent_bytes_no_longer_count() {
        let client = Client::at([127, 0, 0, 1].into());
        let shares = Shares::new(100_000, 100_000);
        let mut body = ResponseBody::from(Bytes::from(vec![7; 40_000]));
        body.counted(shares.take(client, 40_000).unwrap());
        assert_eq!(body.size_hint().exact(), Some(40_000));
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let second = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!((first.len(), shares.taken()), (CHUNK, 40_000));
        drop(first);
        assert_eq!(shares.taken(), 40_000 - CHUNK);
        drop(body);
        assert_eq!(shares.taken(), CHUNK, "a chunk on its way still counts");
        drop(second);
        assert_eq!(shares.taken(), 0);
    }
}
