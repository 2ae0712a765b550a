//! Reading an export file as it arrives: section by section, never the whole file.
//!
//! The members of the file may be formatted in any way, but the header must come before the records. Each
//! read is bounded, and an object with a duplicate name is an error.

use std::fmt;
use std::io::Read;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::form::{Header, Manifest, TYPE, TYPE_BASE};
use super::invalid::{InvalidFile, InvalidReason, reason_for};
use super::pieces::{PieceEnd, SPACES_MAX, TextPieces, is_beginning};
use super::row::canonical_event;
use crate::json::{ReadFailure, parse_with_limit};
use crate::store::schema_version;

/// Maximum bytes of a record. A larger record is accepted only if its end is already buffered.
const RECORD_MAX: usize = 16 << 20;
/// Maximum bytes of each member of a file other than the records.
const PART_MAX: usize = 64 << 10;
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
    fn header(&mut self, header: Header) -> Result<(), InvalidFile>;
    /// Receives the text of a record, which [`Record::of`] can parse.
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
    pub fn of(text: &[u8]) -> Result<Self, InvalidFile> {
        if let Some((payload, line)) = canonical_event(text) {
            return Ok(Self::Event(payload, line.to_owned()));
        }
        match parse_strict(text)? {
            Value::Object(record) => Ok(Self::Object(record)),
            _ => Err(not_an_export("a record is not an object")),
        }
    }
}

/// Reads a file, passes its header and records to `parts`, and returns the members after them.
pub(super) fn read_parts(file: impl Read, parts: &mut dyn PartReceiver) -> Result<FileTrailer, InvalidFile> {
    let mut file = ExportReader { pieces: TextPieces::new(file), parts, seen: FileMembers::default() };
    file.expect(b'{')?;
    if !file.next_is(b'}')? {
        file.read_member()?;
        while file.next_is(b',')? {
            file.read_member()?;
        }
        file.expect(b'}')?;
    }
    if file.pieces.peek().map_err(read_fault)?.is_some() {
        return Err(not_an_export("text follows the end of the export"));
    }
    let seen = file.seen;
    let missing = |name| InvalidFile::new(InvalidReason::NotAnExport, format!("the file has no {name}"));
    if seen.type_name.is_none() || !seen.has_records {
        return Err(missing("type and records of an export"));
    }
    Ok(FileTrailer {
        manifest: seen.manifest.ok_or_else(|| missing("manifest"))?,
        signature: seen.signature.ok_or_else(|| missing("signature"))?,
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
    pieces: TextPieces<R>,
    parts: &'p mut dyn PartReceiver,
    seen: FileMembers,
}

impl<R: Read> ExportReader<'_, R> {
    fn next_is(&mut self, wanted: u8) -> Result<bool, InvalidFile> {
        self.pieces.consume_if(wanted).map_err(read_fault)
    }

    fn expect(&mut self, wanted: u8) -> Result<(), InvalidFile> {
        if self.next_is(wanted)? {
            Ok(())
        } else {
            Err(not_an_export(format!("{:?} is missing", char::from(wanted))))
        }
    }

    /// Reads a JSON string.
    fn read_string(&mut self) -> Result<String, InvalidFile> {
        serde_json::from_slice(self.pieces.next_value(PART_MAX).map_err(read_fault)?).map_err(not_an_export)
    }

    fn read_member(&mut self) -> Result<(), InvalidFile> {
        let name = self.read_string()?;
        let is_again = match name.as_str() {
            "type" => self.seen.type_name.is_some(),
            "header" => self.seen.has_header,
            "records" => self.seen.has_records,
            "manifest" => self.seen.manifest.is_some(),
            "signature" => self.seen.signature.is_some(),
            _ => {
                return Err(InvalidFile::new(reason_for(&name), format!("the file has the member {name:?}")));
            }
        };
        if is_again {
            return Err(InvalidFile::new(InvalidReason::NotAnExport, format!("the file has {name:?} twice")));
        }
        self.expect(b':')?;
        match name.as_str() {
            "type" => {
                let type_name = self.read_string()?;
                check_type(&type_name)?;
                self.seen.type_name = Some(type_name);
            }
            "header" => {
                let header = self.read_typed("header")?;
                self.parts.header(header)?;
                self.seen.has_header = true;
            }
            "records" if !self.seen.has_header => {
                let detail = "the header must precede the records";
                return Err(InvalidFile::new(InvalidReason::NotAnExport, detail));
            }
            "records" => {
                self.read_records()?;
                self.seen.has_records = true;
            }
            "manifest" => self.seen.manifest = Some(self.read_typed("manifest")?),
            _ => self.seen.signature = Some(self.read_string()?),
        }
        Ok(())
    }

    /// Reads a member as a value of type `T`. Fails unless serializing the value returns the same JSON.
    ///
    /// Serde would also accept an array for a struct, but the signature covers the struct.
    fn read_typed<T: DeserializeOwned + Serialize>(&mut self, name: &str) -> Result<T, InvalidFile> {
        let value = parse_strict(self.pieces.next_value(PART_MAX).map_err(read_fault)?)?;
        check_schema(&value)?;
        let reason =
            if has_credential(&value) { InvalidReason::CredentialField } else { InvalidReason::UnknownField };
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
        self.expect(b'[')?;
        if self.next_is(b']')? {
            return Ok(());
        }
        loop {
            // Reject a value that is not an object at its first byte.
            if self.pieces.peek().map_err(read_fault)?.is_some_and(|next| next != b'{') {
                self.parts.record(b"null")?;
                return Err(not_an_export("a record is not an object"));
            }
            match self.pieces.next_range(RECORD_MAX) {
                Ok(place) => self.parts.record(self.pieces.bytes_in(place))?,
                // A changed quote or bracket makes the rest of the file part of the record, so the fault is
                // in the record.
                Err(PieceEnd::Ended | PieceEnd::TooLarge | PieceEnd::NotJson)
                    if !is_beginning(self.pieces.incomplete_value()) =>
                {
                    self.parts.record(self.pieces.incomplete_value())?;
                    return Err(not_an_export("a record does not end"));
                }
                Err(cut) => return Err(read_fault(cut)),
            }
            if !self.next_is(b',')? {
                return self.expect(b']');
            }
        }
    }
}

/// Checks that a file has the type of an export, in a known version.
fn check_type(name: &str) -> Result<(), InvalidFile> {
    let version = |name: &str| name.strip_prefix(TYPE_BASE).and_then(|version| version.parse::<u32>().ok());
    match version(name) {
        _ if name == TYPE => Ok(()),
        Some(later) if Some(later) > version(TYPE) => Err(newer_version(name, TYPE)),
        _ => Err(InvalidFile::new(InvalidReason::NotAnExport, format!("the type of the file is not {TYPE}"))),
    }
}

/// Checks the schema version before other fields, because a later schema may have more fields.
fn check_schema(header: &Value) -> Result<(), InvalidFile> {
    match header.get("schema").and_then(Value::as_i64) {
        Some(later) if later > schema_version() => {
            Err(newer_version(&format!("schema {later}"), &schema_version().to_string()))
        }
        _ => Ok(()),
    }
}

/// Returns the fault of a file that a later version of the service has written.
fn newer_version(of_file: &str, own: &str) -> InvalidFile {
    let detail = format!("the file is of a newer version ({of_file}; this one has {own})");
    InvalidFile::new(InvalidReason::NotAnExport, detail)
}

/// Parses JSON in which no object contains a name twice.
fn parse_strict(text: &[u8]) -> Result<Value, InvalidFile> {
    parse_with_limit(text, VALUES_MAX).map_err(|why| {
        not_an_export(match why {
            ReadFailure::NotJson => "a value is not JSON",
            ReadFailure::DuplicateMember => "an object has a name twice",
            ReadFailure::TooMany => "a record or member has too many values",
        })
    })
}

fn read_fault(cut: PieceEnd) -> InvalidFile {
    match cut {
        PieceEnd::Ended => {
            InvalidFile::new(InvalidReason::Truncated, "the file is not an export: it ends too early")
        }
        PieceEnd::TooLarge => not_an_export("a record or member is too large"),
        PieceEnd::NotJson => not_an_export("a value is not JSON"),
        PieceEnd::Spaces => not_an_export(format!("it has {SPACES_MAX} bytes of white space in a row")),
        PieceEnd::Failed(error) => not_an_export(error),
    }
}

fn not_an_export(why: impl fmt::Display) -> InvalidFile {
    InvalidFile::new(InvalidReason::NotAnExport, format!("the file is not an export: {why}"))
}

/// Returns whether a JSON value contains a member whose name indicates a credential.
fn has_credential(value: &Value) -> bool {
    match value {
        Value::Object(members) => members
            .iter()
            .any(|(name, value)| reason_for(name) == InvalidReason::CredentialField || has_credential(value)),
        Value::Array(items) => items.iter().any(has_credential),
        _ => false,
    }
}
