//! Reading an export file as it arrives: section by section, never the whole file.
//!
//! The members of the file may be formatted in any way, but the header must come before the records. Each
//! read is bounded, and an object with a duplicate name is an error.

use std::fmt;
use std::io::Read;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::form::{ExportHeader, FORMAT_ID, FORMAT_ID_PREFIX, Manifest};
use super::invalid::{InvalidFile, InvalidReason, reason_for_field};
use super::pieces::{SPACES_MAX, SplitError, ValueSplitter, is_json_prefix};
use super::row::parse_canonical_event;
use crate::json::{ReadFailure, parse_with_limit};
use crate::store::schema_version;

/// Maximum bytes of a record. A larger record is accepted only if its end is already buffered.
const RECORD_MAX_BYTES: usize = 16 << 20;
/// Maximum bytes of each member of a file other than the records.
const MEMBER_MAX_BYTES: usize = 64 << 10;
/// Maximum number of JSON values in a record or member; every export contains fewer.
///
/// The number is limited because parsed values take many times their size in memory.
const VALUES_MAX: usize = 10_000;

/// The members of a file that follow its records.
pub(super) struct FileTrailer {
    pub manifest: Manifest,
    pub signature: String,
}

/// Receives the header and records of a file, in order. Reading stops at the first error.
pub(super) trait PartReceiver {
    fn header(&mut self, header: ExportHeader) -> Result<(), InvalidFile>;
    /// Receives the text of a record, which [`Record::parse`] can parse.
    fn record(&mut self, text: &[u8]) -> Result<(), InvalidFile>;
}

/// A record of a file.
pub(super) enum Record {
    /// An event in the canonical form in which the service writes it: its payload, and the whole record.
    Event(String, String),
    /// Any other record.
    Object(Map<String, Value>),
}

impl Record {
    /// Parses a record of an export file.
    pub fn parse(text: &[u8]) -> Result<Self, InvalidFile> {
        if let Some((payload, line)) = parse_canonical_event(text) {
            return Ok(Self::Event(payload, line.to_owned()));
        }
        match parse_strict(text)? {
            Value::Object(record) => Ok(Self::Object(record)),
            _ => Err(not_an_export_fault("a record is not an object")),
        }
    }
}

/// Reads a file, passes its header and records to `parts`, and returns the members after them.
pub(super) fn read_parts(file: impl Read, parts: &mut dyn PartReceiver) -> Result<FileTrailer, InvalidFile> {
    let mut file = ExportReader { pieces: ValueSplitter::new(file), parts, members: FileMembers::default() };
    file.expect_byte(b'{')?;
    if !file.consume_if(b'}')? {
        file.read_member()?;
        while file.consume_if(b',')? {
            file.read_member()?;
        }
        file.expect_byte(b'}')?;
    }
    if file.pieces.peek().map_err(read_fault)?.is_some() {
        return Err(not_an_export_fault("text follows the end of the export"));
    }
    let members = file.members;
    let missing = |name| InvalidFile::new(InvalidReason::NotAnExport, format!("the file has no {name}"));
    if members.type_name.is_none() || !members.has_records {
        return Err(missing("type and records of an export"));
    }
    Ok(FileTrailer {
        manifest: members.manifest.ok_or_else(|| missing("manifest"))?,
        signature: members.signature.ok_or_else(|| missing("signature"))?,
    })
}

/// The members of the file that were read so far, except the records themselves.
#[derive(Default)]
struct FileMembers {
    type_name: Option<String>,
    has_header: bool,
    has_records: bool,
    manifest: Option<Manifest>,
    signature: Option<String>,
}

struct ExportReader<'p, R> {
    pieces: ValueSplitter<R>,
    parts: &'p mut dyn PartReceiver,
    members: FileMembers,
}

impl<R: Read> ExportReader<'_, R> {
    fn consume_if(&mut self, expected: u8) -> Result<bool, InvalidFile> {
        self.pieces.consume_if(expected).map_err(read_fault)
    }

    fn expect_byte(&mut self, expected: u8) -> Result<(), InvalidFile> {
        if self.consume_if(expected)? {
            Ok(())
        } else {
            Err(not_an_export_fault(format!("{:?} is missing", char::from(expected))))
        }
    }

    /// Reads a JSON string.
    fn read_string(&mut self) -> Result<String, InvalidFile> {
        serde_json::from_slice(self.pieces.next_value(MEMBER_MAX_BYTES).map_err(read_fault)?)
            .map_err(not_an_export_fault)
    }

    fn read_member(&mut self) -> Result<(), InvalidFile> {
        let name = self.read_string()?;
        let is_again = match name.as_str() {
            "type" => self.members.type_name.is_some(),
            "header" => self.members.has_header,
            "records" => self.members.has_records,
            "manifest" => self.members.manifest.is_some(),
            "signature" => self.members.signature.is_some(),
            _ => {
                return Err(InvalidFile::new(
                    reason_for_field(&name),
                    format!("the file has the member {name:?}"),
                ));
            }
        };
        if is_again {
            return Err(InvalidFile::new(InvalidReason::NotAnExport, format!("the file has {name:?} twice")));
        }
        self.expect_byte(b':')?;
        match name.as_str() {
            "type" => {
                let type_name = self.read_string()?;
                check_format(&type_name)?;
                self.members.type_name = Some(type_name);
            }
            "header" => {
                let header = self.read_typed("header")?;
                self.parts.header(header)?;
                self.members.has_header = true;
            }
            "records" if !self.members.has_header => {
                let detail = "the header must precede the records";
                return Err(InvalidFile::new(InvalidReason::NotAnExport, detail));
            }
            "records" => {
                self.read_records()?;
                self.members.has_records = true;
            }
            "manifest" => self.members.manifest = Some(self.read_typed("manifest")?),
            _ => self.members.signature = Some(self.read_string()?),
        }
        Ok(())
    }

    /// Reads a member as a value of type `T`. Fails unless serializing the value returns the same JSON.
    ///
    /// Serde would also accept an array for a struct, but the signature covers the struct.
    fn read_typed<T: DeserializeOwned + Serialize>(&mut self, name: &str) -> Result<T, InvalidFile> {
        let value = parse_strict(self.pieces.next_value(MEMBER_MAX_BYTES).map_err(read_fault)?)?;
        check_schema_version(&value)?;
        let reason = if has_credential_field(&value) {
            InvalidReason::CredentialField
        } else {
            InvalidReason::UnknownField
        };
        let refuse = |why: &dyn fmt::Display| {
            InvalidFile::new(reason, format!("the {name} is not that of an export: {why}"))
        };
        let read: T = serde_json::from_value(value.clone()).map_err(|error| refuse(&error))?;
        match serde_json::to_value(&read) {
            Ok(written) if written == value => Ok(read),
            _ => Err(refuse(&"it is written in another form")),
        }
    }

    fn read_records(&mut self) -> Result<(), InvalidFile> {
        self.expect_byte(b'[')?;
        if self.consume_if(b']')? {
            return Ok(());
        }
        loop {
            // Reject a value that is not an object at its first byte.
            if self.pieces.peek().map_err(read_fault)?.is_some_and(|next| next != b'{') {
                self.parts.record(b"null")?;
                return Err(not_an_export_fault("a record is not an object"));
            }
            match self.pieces.next_range(RECORD_MAX_BYTES) {
                Ok(place) => self.parts.record(self.pieces.bytes_in(place))?,
                // A changed quote or bracket makes the rest of the file part of the record, so the fault is
                // in the record.
                Err(SplitError::UnexpectedEnd | SplitError::TooLarge | SplitError::NotJson)
                    if !is_json_prefix(self.pieces.incomplete_value()) =>
                {
                    self.parts.record(self.pieces.incomplete_value())?;
                    return Err(not_an_export_fault("a record does not end"));
                }
                Err(cut) => return Err(read_fault(cut)),
            }
            if !self.consume_if(b',')? {
                return self.expect_byte(b']');
            }
        }
    }
}

/// Checks that a file has the type of an export, in a known version.
fn check_format(name: &str) -> Result<(), InvalidFile> {
    let version =
        |name: &str| name.strip_prefix(FORMAT_ID_PREFIX).and_then(|version| version.parse::<u32>().ok());
    match version(name) {
        _ if name == FORMAT_ID => Ok(()),
        Some(later) if Some(later) > version(FORMAT_ID) => Err(newer_version_fault(name, FORMAT_ID)),
        _ => Err(InvalidFile::new(
            InvalidReason::NotAnExport,
            format!("the type of the file is not {FORMAT_ID}"),
        )),
    }
}

/// Checks the schema version before other fields, because a later schema may have more fields.
fn check_schema_version(header: &Value) -> Result<(), InvalidFile> {
    match header.get("schema").and_then(Value::as_i64) {
        Some(later) if later > schema_version() => {
            Err(newer_version_fault(&format!("schema {later}"), &schema_version().to_string()))
        }
        _ => Ok(()),
    }
}

/// Returns the fault of a file that a later version of the service has written.
fn newer_version_fault(of_file: &str, own: &str) -> InvalidFile {
    let detail = format!("the file is of a newer version ({of_file}; this one has {own})");
    InvalidFile::new(InvalidReason::NotAnExport, detail)
}

/// Parses JSON in which no object contains a name twice.
fn parse_strict(text: &[u8]) -> Result<Value, InvalidFile> {
    parse_with_limit(text, VALUES_MAX).map_err(|why| {
        not_an_export_fault(match why {
            ReadFailure::NotJson => "a value is not JSON",
            ReadFailure::DuplicateMember => "an object has a name twice",
            ReadFailure::TooMany => "a record or member has too many values",
        })
    })
}

fn read_fault(cut: SplitError) -> InvalidFile {
    match cut {
        SplitError::UnexpectedEnd => {
            InvalidFile::new(InvalidReason::Truncated, "the file is not an export: it ends too early")
        }
        SplitError::TooLarge => not_an_export_fault("a record or member is too large"),
        SplitError::NotJson => not_an_export_fault("a value is not JSON"),
        SplitError::TooManySpaces => {
            not_an_export_fault(format!("it has {SPACES_MAX} bytes of white space in a row"))
        }
        SplitError::Io(error) => not_an_export_fault(error),
    }
}

fn not_an_export_fault(why: impl fmt::Display) -> InvalidFile {
    InvalidFile::new(InvalidReason::NotAnExport, format!("the file is not an export: {why}"))
}

/// Returns whether a JSON value contains a member whose name indicates a credential.
fn has_credential_field(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.iter().any(|(name, value)| {
            reason_for_field(name) == InvalidReason::CredentialField || has_credential_field(value)
        }),
        Value::Array(items) => items.iter().any(has_credential_field),
        _ => false,
    }
}
