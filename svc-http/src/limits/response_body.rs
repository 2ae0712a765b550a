//! Sends response bodies in chunks.
//!
//! Until a chunk is written to the connection, the chunk counts towards the unread bytes of its client, and
//! its age shows whether the peer still reads. Only one chunk of a file is in memory at a time, and file
//! chunks count towards no client. If reading the file fails, the response is cut off. A file response holds
//! its transfer slot until its last byte is written.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::{Body, Frame, SizeHint};
use svc_core::PlaceGuard;
use svc_core::spool::CompleteSpool;
use tokio::task::JoinHandle;

use crate::limits::pace::{FileDownload, PendingChunk, ReadPace};

/// HTTP response of this server, whose body is sent in chunks.
pub(crate) type Response = hyper::Response<ResponseBody>;

/// Maximum bytes of a chunk on a connection that is watched for unread chunks.
///
/// The peer must read one chunk within the stall timeout.
const CHUNK_MAX: usize = 64 << 10;

/// Maximum bytes of a chunk on an HTTP/1 connection, whose writes are watched instead of its chunks.
///
/// Each chunk needs a separate write. The longest common response, the list of tools, fits in one chunk.
const LONG_CHUNK_MAX: usize = 512 << 10;

/// Maximum bytes per read from a file.
const FILE_READ_MAX: usize = 64 << 10;

/// Response body: the bytes that have not been sent yet, in memory, in a file or from a stream.
#[derive(Default)]
pub(crate) struct ResponseBody {
    rest: Bytes,
    /// Unsent bytes in memory that follow `rest`.
    next: Bytes,
    /// File whose unsent bytes follow the bytes in memory.
    file: Option<UnsentFile>,
    /// Stream whose bytes are sent as they arrive.
    events: Option<EventStream>,
    unread_share: Option<PlaceGuard>,
    pending: Option<PendingChunk>,
    slot: Option<PlaceGuard>,
    /// Slot and registration of a file download, held until the last byte is written.
    sent: Option<Arc<FileTransfer>>,
    /// Reference that marks the connection as busy with a request.
    busy: Option<Arc<()>>,
    /// Whether the connection has taken the first chunk.
    has_begun: bool,
}

/// Stream of bytes that are produced while the response is sent.
///
/// The bytes of a stream count towards no client. A peer that does not read the stream is disconnected once a
/// write has stalled.
type EventStream = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// Slot and registration of a file download, held until the last byte is written.
struct FileTransfer {
    sending: FileDownload,
    _place: PlaceGuard,
}

/// File that is being sent, with the offset of the first byte that has not been read from the disk.
struct UnsentFile {
    spool: CompleteSpool,
    offset: u64,
    reading: Option<JoinHandle<svc_core::Result<Vec<u8>>>>,
}

impl UnsentFile {
    fn unsent_bytes(&self) -> u64 {
        self.spool.len().saturating_sub(self.offset)
    }

    /// Reads the next bytes of the file on a thread for blocking calls.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let reading = self.reading.get_or_insert_with(|| {
            let spool = self.spool.clone();
            let offset = self.offset;
            tokio::task::spawn_blocking(move || spool.read_at(offset, FILE_READ_MAX))
        });
        let read = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        let bytes = read.map_err(io::Error::other)?.map_err(io::Error::other)?;
        self.offset = self.offset.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        Poll::Ready(Ok(bytes.into()))
    }
}

impl ResponseBody {
    /// Creates a response body that sends the items of a stream.
    pub fn from_stream(events: EventStream) -> Self {
        Self { events: Some(events), ..Self::default() }
    }

    /// Returns the number of unsent bytes in memory.
    pub fn len(&self) -> usize {
        self.rest.len().saturating_add(self.next.len())
    }

    /// Sets bytes to send after those that the body was created from.
    pub fn set_next(&mut self, next: Bytes) {
        self.next = next;
    }

    /// Holds a share of the unread bytes, and releases it in step with the bytes that are written.
    pub fn hold_share(&mut self, unread_share: PlaceGuard) {
        self.unread_share = Some(unread_share);
    }

    /// Holds a slot until the last chunk is written or the stream has ended.
    pub fn hold_slot(&mut self, slot: PlaceGuard) {
        self.slot = Some(slot);
    }

    /// Holds the transfer slot of a file, and measures the transfer rate, until the last byte is written.
    pub fn hold_transfer(&mut self, sending: FileDownload, place: PlaceGuard) {
        self.sent = Some(Arc::new(FileTransfer { sending, _place: place }));
    }

    /// Holds a reference that marks the connection as busy until the body is written.
    pub fn hold_busy(&mut self, busy: Option<Arc<()>>) {
        self.busy = busy;
    }

    /// Registers the body's chunks with the connection's [`ReadPace`].
    ///
    /// This is for HTTP/2 connections, whose writes alone do not show whether the peer reads each response.
    pub fn register_chunks(&mut self, pace: &ReadPace) {
        if !self.is_end_stream() && self.events.is_none() {
            self.pending = Some(pace.register_chunk());
        }
    }
}

impl From<Bytes> for ResponseBody {
    fn from(bytes: Bytes) -> Self {
        Self { rest: bytes, ..Self::default() }
    }
}

impl From<CompleteSpool> for ResponseBody {
    fn from(spool: CompleteSpool) -> Self {
        Self { file: Some(UnsentFile { spool, offset: 0, reading: None }), ..Self::default() }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(events) = &mut self.events {
            let event = ready!(events.as_mut().poll_next(cx));
            if event.is_none() {
                self.events = None;
                self.slot = None;
            }
            return Poll::Ready(event.map(|event| Ok(Frame::data(event))));
        }
        if self.rest.is_empty() {
            self.rest = std::mem::take(&mut self.next);
        }
        if self.rest.is_empty() {
            match self.file.as_mut().filter(|file| file.unsent_bytes() > 0) {
                Some(file) => self.rest = ready!(file.poll_read(cx))?,
                None => return Poll::Ready(None),
            }
        }
        let size = self.rest.len().min(if self.pending.is_some() { CHUNK_MAX } else { LONG_CHUNK_MAX });
        let bytes = self.rest.split_to(size);
        let mut pending = self.pending.take();
        let (share, slot) = if self.file.is_some() {
            self.pending =
                pending.as_ref().filter(|_| !self.is_end_stream()).map(PendingChunk::register_another);
            (None, if self.is_end_stream() { self.slot.take() } else { None })
        } else if self.len() == 0 {
            (self.unread_share.take(), self.slot.take())
        } else {
            // The next chunk counts as unread from the time at which the connection takes this chunk.
            self.pending = pending.as_ref().map(PendingChunk::register_another);
            (self.unread_share.as_mut().map(|share| share.split(size)), None)
        };
        if std::mem::replace(&mut self.has_begun, true) {
            pending = pending.map(|pending| pending.register_another());
        }
        let sent = self.sent.clone();
        let chunk = if share.is_none() && pending.is_none() && slot.is_none() && sent.is_none() {
            bytes
        } else {
            let busy = self.busy.clone();
            Bytes::from_owner(BodyChunk {
                bytes,
                _share: share,
                _pending: pending,
                _slot: slot,
                _busy: busy,
                sent,
            })
        };
        Poll::Ready(Some(Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.len() == 0
            && self.file.as_ref().is_none_or(|file| file.unsent_bytes() == 0)
            && self.events.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        if self.events.is_some() {
            return SizeHint::default();
        }
        let left = self.file.as_ref().map_or(0, UnsentFile::unsent_bytes);
        SizeHint::with_exact(u64::try_from(self.len()).unwrap_or(u64::MAX).saturating_add(left))
    }
}

/// Chunk of a response body that the connection writes to the peer and then drops.
struct BodyChunk {
    bytes: Bytes,
    _share: Option<PlaceGuard>,
    _pending: Option<PendingChunk>,
    _slot: Option<PlaceGuard>,
    _busy: Option<Arc<()>>,
    sent: Option<Arc<FileTransfer>>,
}

impl Drop for BodyChunk {
    fn drop(&mut self) {
        if let Some(sent) = &self.sent {
            sent.sending.record(self.bytes.len());
        }
    }
}

impl AsRef<[u8]> for BodyChunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use svc_core::share::Quotas;
    use svc_core::spool::{SpoolFolder, SpoolLimits};
    use svc_core::{Ceiling, Holder};

    use super::*;

    #[tokio::test]
    async fn sent_bytes_no_longer_count() {
        let holder = Holder::at([127, 0, 0, 1].into());
        let size = 2 * CHUNK_MAX + 7;
        let all = 4 * CHUNK_MAX;
        let shares = Ceiling::new("bytes", all, Quotas::default());
        let pace = ReadPace::new();
        let mut body = ResponseBody::from(Bytes::from(vec![7; CHUNK_MAX]));
        body.register_chunks(&pace);
        body.set_next(Bytes::from(vec![7; size - CHUNK_MAX]));
        body.hold_share(shares.take(holder, size).unwrap());
        assert_eq!(body.size_hint().exact(), u64::try_from(size).ok());
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let second = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!((first.len(), shares.taken()), (CHUNK_MAX, size));
        drop(first);
        assert_eq!(shares.taken(), size - CHUNK_MAX);
        drop(body);
        assert_eq!(shares.taken(), CHUNK_MAX, "a chunk on its way still counts");
        drop(second);
        assert_eq!(shares.taken(), 0);
    }

    #[tokio::test]
    async fn a_file_keeps_its_place_until_its_last_byte_is_written_out() {
        let folder = tempfile::tempdir().unwrap();
        let spools = SpoolFolder::new(folder.path().to_owned(), SpoolLimits::default());
        let holder = Holder::at([127, 0, 0, 1].into());
        let mut spool = spools.create(Some(holder.workspace)).unwrap();
        spool.write(&vec![7; 2 * FILE_READ_MAX]).unwrap();
        let places = Ceiling::new("places", 8, Quotas::default());
        let mut body = ResponseBody::from(spool.finish().unwrap());
        body.hold_transfer(ReadPace::new().register_file(), places.take(holder, 1).unwrap());
        let size = u64::try_from(2 * FILE_READ_MAX).unwrap();
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let last = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!((places.taken(), spools.taken()), (1, size));
        drop((first, body));
        assert_eq!((places.taken(), spools.taken()), (1, 0), "its last chunk was not written out");
        drop(last);
        assert_eq!(places.taken(), 0);
        // The share is also released if the client disconnects.
        let mut unread = ResponseBody::from(Bytes::from_static(b"unread"));
        unread.hold_transfer(ReadPace::new().register_file(), places.take(holder, 1).unwrap());
        drop(unread);
        assert_eq!(places.taken(), 0);
    }
}
