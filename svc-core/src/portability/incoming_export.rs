//! Verifying an export file while it is received.
//!
//! The file is written to a spool, and the same bytes are passed to a thread that verifies them. A chunk is
//! acknowledged only when that thread needs more data. So a faulty file is refused at its first faulty
//! record, and only a little beyond that record is received.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use super::invalid::InvalidFile;
use super::verify::verify;
use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::op::SharedState;
use crate::spool::{CompleteSpool, Spool};

/// An export file that is being received.
pub struct IncomingExport {
    spool: Spool,
    verifier: VerifierThread,
}

/// The thread that verifies a file while it is received.
struct VerifierThread {
    chunks: Sender<Vec<u8>>,
    /// Receives a message whenever the thread has read all bytes passed to it; closed when the thread ends.
    requests: Receiver<()>,
    thread: JoinHandle<Result<(), InvalidFile>>,
}

impl IncomingExport {
    /// Starts receiving a file for a workspace.
    pub(crate) fn begin(shared: &SharedState, workspace: WorkspaceId) -> Result<Self> {
        let spool = shared.settings.spools.create(Some(workspace))?;
        let table = Arc::clone(&shared.table);
        let known = shared.settings.known_keys.clone();
        let verifier =
            VerifierThread::begin(move |chunks| verify(chunks, table.records(), &known, &mut ()).map(drop))?;
        Ok(Self { spool, verifier })
    }

    /// Receives the next bytes of the file.
    ///
    /// Fails with 400 `export-invalid` as soon as a fault is found in the file, and with 507
    /// `insufficient-storage` if there is no space for it.
    pub(crate) fn write(self, bytes: Vec<u8>) -> Result<Self> {
        let Self { mut spool, verifier } = self;
        let written = spool.write(&bytes);
        // A fault of the file takes precedence, because more space would not help.
        let verifier = verifier.pass_bytes(bytes)?;
        written.map(|()| Self { spool, verifier })
    }

    /// Completes the file. Fails with 400 `export-invalid` if the file does not verify.
    pub(crate) fn finish(self) -> Result<CompleteSpool> {
        let Self { spool, verifier } = self;
        verifier.finish()?;
        spool.finish()
    }
}

impl VerifierThread {
    fn begin(run: impl FnOnce(ChunkReader) -> Result<(), InvalidFile> + Send + 'static) -> Result<Self> {
        let (chunks, received) = channel();
        let (request_more, requests) = channel();
        let source = ChunkReader { received, request_more, chunk: Vec::new(), offset: 0 };
        let thread = thread::Builder::new().name("svc-judge".to_owned()).spawn(move || run(source));
        let verifier = Self { chunks, requests, thread: thread.map_err(Error::internal)? };
        // If the thread has already ended, passing the first chunk returns the thread's error.
        let _ = verifier.requests.recv();
        Ok(verifier)
    }

    /// Passes bytes to the thread and waits until the thread has read them. Fails with the thread's error.
    fn pass_bytes(self, bytes: Vec<u8>) -> Result<Self> {
        let is_read = bytes.is_empty() || (self.chunks.send(bytes).is_ok() && self.requests.recv().is_ok());
        if is_read {
            return Ok(self);
        }
        self.finish()?;
        Err(Error::internal("a file was verified before its end"))
    }

    /// Ends the file, waits for the thread, and returns the thread's result.
    fn finish(self) -> Result<()> {
        let Self { chunks, thread, .. } = self;
        drop(chunks);
        let found = thread.join().map_err(|_| Error::internal("verifying a file panicked"))?;
        found.map_err(InvalidFile::into_error)
    }
}

/// The chunks of a file, as a reader for the verifying thread.
struct ChunkReader {
    received: Receiver<Vec<u8>>,
    request_more: Sender<()>,
    chunk: Vec<u8>,
    offset: usize,
}

impl Read for ChunkReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.offset >= self.chunk.len() {
            // If the sender is gone, the file ends here.
            let _ = self.request_more.send(());
            (self.chunk, self.offset) = (self.received.recv().unwrap_or_default(), 0);
        }
        let mut left = self.chunk.get(self.offset..).unwrap_or_default();
        let read = left.read(into)?;
        self.offset = self.offset.saturating_add(read);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::op::Records;
    use crate::spool::{SpoolFolder, SpoolLimits};

    /// Sends a text in chunks of this size. Returns the number of bytes received, and the error.
    fn sent(text: &[u8], step: usize, max: u64) -> (usize, Error) {
        let folder = tempfile::tempdir().unwrap();
        let limits = SpoolLimits { max_bytes: Some(max), reserve_bytes: Some(0) };
        let spool =
            SpoolFolder::new(folder.path().to_owned(), limits).create(Some(WorkspaceId::INSTANCE)).unwrap();
        let records = [Records::table("things", "n").ints("n").texts("text")];
        let verifier =
            VerifierThread::begin(move |chunks| verify(chunks, &records, &[], &mut ()).map(drop)).unwrap();
        let mut arriving = IncomingExport { spool, verifier };
        let mut taken = 0;
        for chunk in text.chunks(step) {
            arriving = match arriving.write(chunk.to_vec()) {
                Ok(arriving) => arriving,
                Err(error) => return (taken, error),
            };
            taken += chunk.len();
        }
        (taken, arriving.finish().unwrap_err())
    }

    /// Returns the beginning of a file, up to its records.
    fn begin() -> String {
        let text = include_str!("example.json");
        let header: serde_json::Value = serde_json::from_str(text).unwrap();
        let header = &header["header"];
        format!("{{\"type\":\"svc.workspace.export/1\",\"header\":{header},\"records\":[")
    }

    fn things(from: usize, until: usize) -> String {
        let thing = |n| format!("{{\"n\":{n},\"record\":\"things\",\"text\":\"{}\"}},", "x".repeat(900));
        (from..until).map(thing).collect()
    }

    const MANY: usize = 8 << 20;
    const STEP: usize = 4 << 10;
    const LARGE: u64 = 1 << 30;
    /// Maximum bytes read beyond a record before it is verified.
    ///
    /// Up to four batches of 64 KiB wait, each of the two threads may hold one, and the rest is a part of the
    /// header and of a chunk.
    const AHEAD: usize = 7 * (64 << 10);

    #[test]
    fn a_file_is_refused_where_it_is_wrong() {
        let junk = |byte: &str| byte.repeat(MANY);
        let with = |more: &str| format!("{}{more}", begin());
        // The bytes after the first faulty record are never read, however many there are.
        let good = things(1, 1000);
        for (what, text, most) in [
            ("no JSON", junk("x"), STEP),
            ("zeros", junk("\0"), STEP),
            ("white space", junk(" "), 64 << 10),
            ("white space before the records", format!("{{{}", junk("\n")), 64 << 10),
            ("white space between records", with(&(good.clone() + &junk(" "))), 1200 << 10),
            ("white space in a record", with(&format!("{{\"n\":{}", junk(" "))), 72 << 10),
            ("a long name", format!("{{\"{}", junk("x")), 140 << 10),
            ("a long type", format!("{{\"type\":\"{}", junk("x")), 140 << 10),
            ("a record that is no object", with(&junk("[")), STEP),
            ("a record that is no JSON", with(&format!("{{{}", junk("x"))), 140 << 10),
            (
                "a record of no table",
                with(&("{\"record\":\"nothing\"},".to_owned() + &things(1, 5000))),
                AHEAD,
            ),
            ("a record out of order", with(&(good.clone() + &things(500, 5000))), good.len() + AHEAD),
        ] {
            let (taken, error) = sent(text.as_bytes(), STEP, LARGE);
            assert_eq!(error.code(), Code::ExportInvalid, "{what}");
            assert!(taken <= most, "{what}: {taken} bytes were taken");
        }
        // Control: a valid text is received completely, and only its end is missing.
        let text = with(&things(1, 5000));
        let (taken, error) = sent(text.as_bytes(), STEP, LARGE);
        assert_eq!((taken, error.code()), (text.len(), Code::ExportInvalid));
        assert_eq!(error.problem().extra["reason"], "truncated");
    }

    #[test]
    fn a_file_without_space_is_refused_and_a_bad_one_is_called_bad() {
        let good = format!("{}{}", begin(), things(1, 1000));
        let max = 400 << 10;
        let (taken, error) = sent(good.as_bytes(), STEP, max);
        assert_eq!(error.code(), Code::InsufficientStorage);
        // Half of the budget, and the bytes that are buffered in memory.
        assert!((128 << 10..=272 << 10).contains(&taken), "{taken}");
        assert_eq!(sent(b"x", 1, 0).1.code(), Code::ExportInvalid);
    }
}
