//! Reading an export as it arrives: part by part, never all of it.
//!
//! The members of the file may be formatted in any way, but the header must come before the records. Each
//! read is bounded, and a repeated name in an object is an error.

use std::fmt;
use std::io::Read;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::form::{Header, Manifest, TYPE, TYPE_BASE};
use super::invalid::{Invalid, Reason, reason_for};
use super::pieces::{Cut, Pieces, SPACES_MAX, is_beginning};
use super::row::canonical_event;
use crate::json::{Unread, read_at_most};
use crate::store::schema_version;

/// Maximum bytes of a record, plus those that are buffered.
const RECORD_MAX: usize = 16 << 20;
/// Maximum bytes of every other part, which are all small.
const PART_MAX: usize = 64 << 10;
/// Maximum values in one of them, since a value in memory takes many times its bytes: more than any export
/// has.
const VALUES_MAX: usize = 10_000;

/// The part after a file's records.
pub(super) struct Ended {
    pub manifest: Manifest,
    pub signature: String,
}

/// Receives the parts of a file in their order. An error ends reading.
pub(super) trait Parts {
    fn header(&mut self, header: Header) -> Result<(), Invalid>;
    /// Receives the text of a record, which [`Record::of`] parses.
    fn record(&mut self, text: &[u8]) -> Result<(), Invalid>;
}

/// A record of a file.
pub(super) enum Record {
    /// An event whose record is in canonical form, as it is unless the file was reformatted: its payload, and
    /// the record.
    Event(String, String),
    /// Any other record.
    Object(Map<String, Value>),
}

impl Record {
    /// Reads a record.
    pub fn of(text: &[u8]) -> Result<Self, Invalid> {
        if let Some((payload, line)) = canonical_event(text) {
            return Ok(Self::Event(payload, line.to_owned()));
        }
        match strict(text)? {
            Value::Object(record) => Ok(Self::Object(record)),
            _ => Err(unlike("a record is not an object")),
        }
    }
}

/// Reads a file, and passes its parts on.
pub(super) fn read_parts(file: impl Read, parts: &mut dyn Parts) -> Result<Ended, Invalid> {
    let mut file = ExportReader { pieces: Pieces::new(file), parts, seen: Seen::default() };
    file.expect(b'{')?;
    if !file.next_is(b'}')? {
        file.member()?;
        while file.next_is(b',')? {
            file.member()?;
        }
        file.expect(b'}')?;
    }
    if file.pieces.peek().map_err(unread)?.is_some() {
        return Err(unlike("something follows its end"));
    }
    let seen = file.seen;
    let missing = |name| Invalid::new(Reason::NotAnExport, format!("the file has no {name}"));
    if seen.type_name.is_none() || !seen.has_records {
        return Err(missing("type and records of an export"));
    }
    Ok(Ended {
        manifest: seen.manifest.ok_or_else(|| missing("manifest"))?,
        signature: seen.signature.ok_or_else(|| missing("signature"))?,
    })
}

/// The members of the file that are not passed on.
#[derive(Default)]
struct Seen {
    type_name: Option<String>,
    has_header: bool,
    has_records: bool,
    manifest: Option<Manifest>,
    signature: Option<String>,
}

struct ExportReader<'p, R> {
    pieces: Pieces<R>,
    parts: &'p mut dyn Parts,
    seen: Seen,
}

impl<R: Read> ExportReader<'_, R> {
    fn next_is(&mut self, wanted: u8) -> Result<bool, Invalid> {
        self.pieces.take(wanted).map_err(unread)
    }

    fn expect(&mut self, wanted: u8) -> Result<(), Invalid> {
        if self.next_is(wanted)? {
            Ok(())
        } else {
            Err(unlike(format!("{:?} is missing", char::from(wanted))))
        }
    }

    /// Reads a text.
    fn text(&mut self) -> Result<String, Invalid> {
        serde_json::from_slice(self.pieces.value(PART_MAX).map_err(unread)?).map_err(unlike)
    }

    fn member(&mut self) -> Result<(), Invalid> {
        let name = self.text()?;
        let is_again = match name.as_str() {
            "type" => self.seen.type_name.is_some(),
            "header" => self.seen.has_header,
            "records" => self.seen.has_records,
            "manifest" => self.seen.manifest.is_some(),
            "signature" => self.seen.signature.is_some(),
            _ => return Err(Invalid::new(reason_for(&name), format!("the file has the member {name:?}"))),
        };
        if is_again {
            return Err(Invalid::new(Reason::NotAnExport, format!("the file has {name:?} twice")));
        }
        self.expect(b':')?;
        match name.as_str() {
            "type" => {
                let type_name = self.text()?;
                check_type(&type_name)?;
                self.seen.type_name = Some(type_name);
            }
            "header" => {
                let header = self.typed("header")?;
                self.parts.header(header)?;
                self.seen.has_header = true;
            }
            "records" if !self.seen.has_header => {
                let detail = "the header must stand before the records";
                return Err(Invalid::new(Reason::NotAnExport, detail));
            }
            "records" => {
                self.records()?;
                self.seen.has_records = true;
            }
            "manifest" => self.seen.manifest = Some(self.typed("manifest")?),
            _ => self.seen.signature = Some(self.text()?),
        }
        Ok(())
    }

    /// Reads a member of a type that accepts no unknown fields, and that is written as the type would be.
    ///
    /// Serde also accepts an array for a struct, but the signature covers the struct.
    fn typed<T: DeserializeOwned + Serialize>(&mut self, name: &str) -> Result<T, Invalid> {
        let value = strict(self.pieces.value(PART_MAX).map_err(unread)?)?;
        check_schema(&value)?;
        let reason = if has_credential(&value) { Reason::CredentialField } else { Reason::UnknownField };
        let refuse = |why: &dyn fmt::Display| {
            Invalid::new(reason, format!("the {name} is not that of an export: {why}"))
        };
        let read: T = serde_json::from_value(value.clone()).map_err(|error| refuse(&error))?;
        match serde_json::to_value(&read) {
            Ok(written) if written == value => Ok(read),
            _ => Err(refuse(&"it is written in another form")),
        }
    }

    fn records(&mut self) -> Result<(), Invalid> {
        self.expect(b'[')?;
        if self.next_is(b']')? {
            return Ok(());
        }
        loop {
            // A value that is not an object is rejected at its first byte.
            if self.pieces.peek().map_err(unread)?.is_some_and(|next| next != b'{') {
                self.parts.record(b"null")?;
                return Err(unlike("a record is not an object"));
            }
            match self.pieces.find(RECORD_MAX) {
                Ok(place) => self.parts.record(self.pieces.text(place))?,
                // A changed quote or bracket is not the end of the file: the fault is in the record.
                Err(Cut::Ended | Cut::TooLarge | Cut::NotJson) if !is_beginning(self.pieces.unended()) => {
                    self.parts.record(self.pieces.unended())?;
                    return Err(unlike("a record does not end"));
                }
                Err(cut) => return Err(unread(cut)),
            }
            if !self.next_is(b',')? {
                return self.expect(b']');
            }
        }
    }
}

/// Checks that a file is of the type of exports, in a version that is known.
fn check_type(name: &str) -> Result<(), Invalid> {
    let version = |name: &str| name.strip_prefix(TYPE_BASE).and_then(|version| version.parse::<u32>().ok());
    match version(name) {
        _ if name == TYPE => Ok(()),
        Some(later) if Some(later) > version(TYPE) => Err(newer(name, TYPE)),
        _ => Err(Invalid::new(Reason::NotAnExport, format!("it is no {TYPE}"))),
    }
}

/// Checks that the rows of a file have a known schema, before any fields that later schemas may have.
fn check_schema(header: &Value) -> Result<(), Invalid> {
    match header.get("schema").and_then(Value::as_i64) {
        Some(later) if later > schema_version() => {
            Err(newer(&format!("schema {later}"), &schema_version().to_string()))
        }
        _ => Ok(()),
    }
}

/// Returns the error for a file that a later version of the service has written.
fn newer(of_file: &str, own: &str) -> Invalid {
    let detail = format!("the file is of a newer version ({of_file}; this one has {own})");
    Invalid::new(Reason::NotAnExport, detail)
}

/// Reads JSON in which no object has a name twice.
fn strict(text: &[u8]) -> Result<Value, Invalid> {
    read_at_most(text, VALUES_MAX).map_err(|why| {
        unlike(match why {
            Unread::NotJson => "a part of it is not JSON",
            Unread::Twice => "a part of it has a name twice",
            Unread::TooMany => "a part of it has too many values",
        })
    })
}

fn unread(cut: Cut) -> Invalid {
    match cut {
        Cut::Ended => Invalid::new(Reason::Truncated, "the file is no export: it ends too early"),
        Cut::TooLarge => unlike("a part of it is too large"),
        Cut::NotJson => unlike("a part of it is not JSON"),
        Cut::Spaces => unlike(format!("it has {SPACES_MAX} bytes of white space in a row")),
        Cut::Failed(error) => unlike(error),
    }
}

fn unlike(why: impl fmt::Display) -> Invalid {
    Invalid::new(Reason::NotAnExport, format!("the file is no export: {why}"))
}

/// Returns whether a value contains a member with the name of a credential.
fn has_credential(value: &Value) -> bool {
    match value {
        Value::Object(members) => members
            .iter()
            .any(|(name, value)| reason_for(name) == Reason::CredentialField || has_credential(value)),
        Value::Array(items) => items.iter().any(has_credential),
        _ => false,
    }
}
