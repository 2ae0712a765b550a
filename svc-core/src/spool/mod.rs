//! Spools: files for data that is too large for memory.
//!
//! A spool has no name, so only this process can open it, and its file is removed when it is closed, even
//! after a crash. A spool is written from start to end, and can be read at any offset once it is complete.
//! The disk space of spools is limited (`space`). On a full disk, only writes to spools fail.

mod space;

use std::borrow::Cow;
use std::fmt;
use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt as _, FileExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::Result;
use crate::data_access::DataAccess;
use crate::error::blocked::{Need, describe_denial};
use crate::error::{Code, Error, is_disk_full};
use crate::id::WorkspaceId;
use crate::limits::CONTENT_IN_MEMORY_MAX;
pub use space::{DiskSize, MeasureDisk, SpoolFolder, SpoolLimits};
use space::{SpoolSpace, insufficient_storage_error};

/// Size of a spool's write buffer in bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// A temporary file without a name, which is being written.
#[derive(Debug)]
pub struct Spool {
    file: File,
    buffer: Vec<u8>,
    /// Number of bytes in the file, not counting those in the buffer.
    written: u64,
    space: SpoolSpace,
}

impl Spool {
    /// Creates a spool. The spool folder is created if it is missing, with the permissions of its parent
    /// folder.
    fn create(space: SpoolSpace) -> Result<Self> {
        let create = || {
            let folder = space.spools().folder();
            if !folder.is_dir() {
                DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
                folder
                    .parent()
                    .map_or(Ok(()), |parent| DataAccess::of_folder(parent).extend(folder, parent))?;
            }
            tempfile::tempfile_in(folder)
        };
        let file = create().map_err(|error| match is_disk_full(&error) {
            true => spool_error(&error),
            false => Error::internal(describe_denial(Need::Write, space.spools().folder(), &error)),
        })?;
        Ok(Self { file, buffer: Vec::with_capacity(BUFFER_BYTES), written: 0, space })
    }

    /// Returns the size of the spool in bytes.
    pub fn len(&self) -> u64 {
        self.written.saturating_add(u64::try_from(self.buffer.len()).unwrap_or(u64::MAX))
    }

    /// Returns whether the spool is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends bytes to the spool. Fails with 507 `insufficient-storage` if there is no space for the bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() < BUFFER_BYTES { Ok(()) } else { self.flush() }
    }

    /// Appends everything that `from` contains. `unreadable` converts a failure to read it.
    pub fn copy(&mut self, from: &mut impl Read, unreadable: impl FnOnce(io::Error) -> Error) -> Result<()> {
        let mut part = vec![0; BUFFER_BYTES];
        loop {
            match from.read(&mut part) {
                Ok(0) => return Ok(()),
                Ok(read) => self.write(part.get(..read).unwrap_or_default())?,
                Err(error) => return Err(unreadable(error)),
            }
        }
    }

    /// Writes the buffer to the file.
    pub fn flush(&mut self) -> Result<()> {
        let len = self.len();
        // Data that a failed write has left after the end is overwritten, so its space is not counted twice.
        self.space.shrink_to(self.written);
        self.space.grow(len.saturating_sub(self.written))?;
        self.file.write_all_at(&self.buffer, self.written).map_err(|error| spool_error(&error))?;
        self.written = len;
        self.buffer.clear();
        Ok(())
    }

    /// Removes everything after the first `len` bytes.
    pub fn truncate(&mut self, len: u64) -> Result<()> {
        self.flush()?;
        if len < self.written {
            self.file.set_len(len).map_err(|error| spool_error(&error))?;
            self.written = len;
            self.space.shrink_to(len);
        }
        Ok(())
    }

    /// Completes the spool, after which it can be read.
    pub fn finish(mut self) -> Result<CompleteSpool> {
        self.flush()?;
        let file = SpoolFile { file: self.file, space: self.space };
        Ok(CompleteSpool { file: Arc::new(file), len: self.written })
    }
}

/// The file of a spool, with the space that it occupies until it is closed.
struct SpoolFile {
    file: File,
    space: SpoolSpace,
}

/// A spool that has been written completely, and can be read at any offset.
#[derive(Clone)]
pub struct CompleteSpool {
    file: Arc<SpoolFile>,
    len: u64,
}

impl fmt::Debug for CompleteSpool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spooled({} bytes)", self.len)
    }
}

impl CompleteSpool {
    /// Returns the size of the spool in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the spool is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the workspace that the spool is charged to, or `None` if it is not charged.
    pub fn payer(&self) -> Option<WorkspaceId> {
        self.file.space.payer()
    }

    /// Returns up to `max_bytes` bytes from `offset`. Returns fewer bytes only at the end of the spool.
    pub fn read_at(&self, offset: u64, max_bytes: usize) -> Result<Vec<u8>> {
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; max_bytes.min(left)];
        self.file.file.read_exact_at(&mut bytes, offset).map_err(|error| spool_error(&error))?;
        Ok(bytes)
    }

    /// Returns a reader that begins at `offset`.
    pub fn reader(&self, offset: u64) -> impl Read + Send + use<> {
        SpoolReader { spooled: self.clone(), offset }
    }
}

struct SpoolReader {
    spooled: CompleteSpool,
    offset: u64,
}

impl Read for SpoolReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.spooled.file.file.read_at(into, self.offset)?;
        self.offset = self.offset.saturating_add(u64::try_from(read).unwrap_or(0));
        Ok(read)
    }
}

/// A complete file as the output of an operation. It is sent unchanged.
#[derive(Clone, Debug)]
pub struct FileContent {
    /// The bytes of the file.
    pub spooled: CompleteSpool,
    /// The media type of the file.
    pub media_type: &'static str,
    /// The name under which a client should store the file.
    pub file_name: String,
}

impl FileContent {
    /// Reads a file, to be passed in a request.
    ///
    /// The content is copied to a temporary file, so later changes of the file have no effect.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let unreadable = |error: io::Error| {
            Error::malformed(format!("the file {} cannot be read", path.display())).caused_by(error)
        };
        let mut file = File::open(path).map_err(unreadable)?;
        let mut spool = SpoolFolder::new(default_spool_folder(), SpoolLimits::default()).create(None)?;
        spool.copy(&mut file, unreadable)?;
        Ok(spool.finish()?.into())
    }

    /// Writes the file to `path`, and replaces the file that is there.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let unwritable = |error: io::Error| match is_disk_full(&error) {
            true => insufficient_storage_error("the disk is full"),
            false => Error::internal(format!("the file {}: {error}", path.display())),
        };
        let mut file = File::create(path).map_err(unwritable)?;
        io::copy(&mut self.spooled.reader(0), &mut file).map_err(unwritable)?;
        file.sync_all().map_err(unwritable)
    }

    /// Reads the whole file into memory. Fails if the file is larger than `CONTENT_IN_MEMORY_MAX` bytes.
    pub fn read(&self) -> Result<Vec<u8>> {
        if self.spooled.len() > CONTENT_IN_MEMORY_MAX {
            let detail = format!(
                "the file has {} bytes, and this transport carries at most {CONTENT_IN_MEMORY_MAX}; get it \
                 over HTTP at the operation's path",
                self.spooled.len()
            );
            return Err(Error::new(Code::BodyTooLarge, detail));
        }
        self.spooled.read_at(0, usize::MAX)
    }
}

impl From<CompleteSpool> for FileContent {
    fn from(spooled: CompleteSpool) -> Self {
        Self { spooled, media_type: "application/octet-stream", file_name: String::new() }
    }
}

/// Serializes the JSON that the file contains.
impl Serialize for FileContent {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let bytes = self.read().map_err(serde::ser::Error::custom)?;
        let text = String::from_utf8(bytes).map_err(serde::ser::Error::custom)?;
        serde_json::value::RawValue::from_string(text)
            .map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}

/// A file uploaded to an operation: the body of a request over HTTP, or a JSON object among its arguments.
#[derive(Clone, Debug)]
pub enum Upload {
    /// The body of a request over HTTP.
    File(CompleteSpool),
    /// The JSON object among the arguments.
    Object(Map<String, Value>),
}

impl Upload {
    /// Returns the upload as a spool. A JSON object is written to a new spool.
    ///
    /// A spool made from an object is not charged to a workspace: the object is no larger than a request, and
    /// the spool is removed after it was read.
    pub fn spooled(&self, spools: &SpoolFolder) -> Result<CompleteSpool> {
        match self {
            Self::File(spooled) => Ok(spooled.clone()),
            Self::Object(members) => {
                let mut spool = spools.create(None)?;
                spool.write(&serde_json::to_vec(members).map_err(Error::internal)?)?;
                spool.finish()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Upload {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        Map::deserialize(deserializer).map(Self::Object)
    }
}

/// Serializes a JSON object as it is, and a file as null. Used only to count bytes.
impl Serialize for Upload {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::File(_) => serializer.serialize_unit(),
            Self::Object(members) => members.serialize(serializer),
        }
    }
}

impl JsonSchema for Upload {
    fn schema_name() -> Cow<'static, str> {
        "Upload".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object"})
    }
}

/// An input that contains an uploaded file.
pub trait HasUpload {
    /// Returns the input field that contains the uploaded file.
    fn file(&mut self) -> &mut Option<Upload>;
}

/// Name of the input field that contains the file.
pub const FILE_FIELD: &str = "envelope";

/// Returns the default spool folder for processes without a separate folder.
pub fn default_spool_folder() -> PathBuf {
    std::env::temp_dir()
}

/// Converts an I/O error of a spool to an error for the caller.
fn spool_error(error: &io::Error) -> Error {
    if is_disk_full(error) {
        return insufficient_storage_error("the disk is full");
    }
    Error::internal(format!("a spool file: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_from_anywhere() {
        let folder = tempfile::tempdir().unwrap();
        let spools = SpoolFolder::new(folder.path().join("new"), SpoolLimits::default());
        let mut spool = spools.create(None).unwrap();
        let bytes: Vec<u8> = (0..200_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        for part in bytes.chunks(777) {
            spool.write(part).unwrap();
        }
        spool.write(b"dropped").unwrap();
        spool.truncate(200_000).unwrap();
        spool.write(b"end").unwrap();
        assert_eq!(spool.len(), 200_003);
        let spooled = spool.finish().unwrap();
        assert_eq!(spooled.read_at(199_999, 100).unwrap(), [&bytes[199_999..], b"end"].concat());
        let mut read = Vec::new();
        spooled.reader(3).read_to_end(&mut read).unwrap();
        assert_eq!(read, [&bytes[3..], b"end"].concat());
        assert_eq!(std::fs::read_dir(folder.path().join("new")).unwrap().count(), 0, "it has no name");
    }
}
