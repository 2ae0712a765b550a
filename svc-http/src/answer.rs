//! The body of an answer, in pieces. Each piece counts until it is taken: as bytes that somebody has asked for and
//! not read, and as a sign that the peer of the connection still reads.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use svc_core::Client;

use crate::pace::{Pace, Pending};
use crate::shares::Share;

/// Bytes of a piece: what a slow peer must at least take in the time that it has.
const PIECE: usize = 16 << 10;

/// All bytes of an answer that are still to be sent.
#[derive(Default)]
pub(crate) struct Answer {
    rest: Bytes,
    share: Option<Share<Client>>,
    pending: Option<Pending>,
    place: Option<Share<Client>>,
    /// The first piece was taken.
    begun: bool,
}

impl Answer {
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Counts the bytes until they are taken.
    pub fn counted(&mut self, share: Share<Client>) {
        self.share = Some(share);
    }

    /// Keeps a place until the last piece is taken.
    pub fn keep(&mut self, place: Share<Client>) {
        self.place = Some(place);
    }

    /// Lets a connection's pace know what is taken.
    pub fn watched(&mut self, pace: &Pace) {
        if !self.rest.is_empty() {
            self.pending = Some(pace.pending());
        }
    }
}

impl From<Bytes> for Answer {
    fn from(bytes: Bytes) -> Self {
        Self { rest: bytes, ..Self::default() }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        let size = self.rest.len().min(PIECE);
        let bytes = self.rest.split_to(size);
        let mut pending = self.pending.take();
        let (share, place) = if self.rest.is_empty() {
            (self.share.take(), self.place.take())
        } else {
            // What is left begins to wait when a piece of it is taken.
            self.pending = pending.as_ref().map(Pending::another);
            (self.share.as_mut().map(|share| share.split(size)), None)
        };
        if std::mem::replace(&mut self.begun, true) {
            pending = pending.map(|pending| pending.another());
        }
        let piece = if share.is_none() && pending.is_none() && place.is_none() {
            bytes
        } else {
            Bytes::from_owner(Piece { bytes, _share: share, _pending: pending, _place: place })
        };
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.rest.len()).unwrap_or(u64::MAX))
    }
}

/// Bytes that are on their way; gone once nobody needs them any more.
struct Piece {
    bytes: Bytes,
    _share: Option<Share<Client>>,
    _pending: Option<Pending>,
    _place: Option<Share<Client>>,
}

impl AsRef<[u8]> for Piece {
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
    async fn what_is_taken_counts_no_more() {
        let client = Client::at([127, 0, 0, 1].into());
        let shares = Shares::new(100_000, 100_000);
        let mut answer = Answer::from(Bytes::from(vec![7; 40_000]));
        answer.counted(shares.take(client, 40_000).unwrap());
        assert_eq!(answer.size_hint().exact(), Some(40_000));
        let first = answer.frame().await.unwrap().unwrap().into_data().unwrap();
        let second = answer.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!((first.len(), shares.taken()), (PIECE, 40_000));
        drop(first);
        assert_eq!(shares.taken(), 40_000 - PIECE);
        drop(answer);
        assert_eq!(shares.taken(), PIECE, "a piece that is on its way");
        drop(second);
        assert_eq!(shares.taken(), 0);
    }
}
