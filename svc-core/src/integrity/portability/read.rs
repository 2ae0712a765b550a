//! Reading an export as it comes: its parts in turn, never all of it.
//!
//! The members of the file may be formatted in any way, but the header must stand before the records. What
//! is read at once is bounded, and a name that an object has twice is an error.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::{self, BufReader, Read};

use serde::Serialize;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::form::{Header, Manifest, TYPE};
use crate::error::{Code, Error};
use crate::json::Strict;

/// Most bytes of one record, of the header, or of the manifest, but for what is buffered.
const PART_MAX: usize = 16 << 20;
const BUFFER: usize = 64 << 10;

/// Why a file is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// It is not an export, or one of a newer version.
    NotAnExport,
    /// It ends before its end.
    Truncated,
    /// Records are not in their order.
    Order,
    /// Records are not those that the manifest counts, or the manifest is not the one that was signed.
    Hash,
    /// A signature is not one of the manifest.
    Signature,
    /// No known key has signed it.
    UnknownKey,
    /// It has a credential.
    CredentialField,
    /// It has something that no export has.
    UnknownField,
    /// Its log does not verify.
    Chain,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// Why it is refused.
    pub reason: Reason,
    /// The number of the record, from 1; none if it is about no record.
    pub record: Option<u64>,
    /// What was found.
    pub detail: String,
}

impl Invalid {
    pub(super) fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, record: None, detail: detail.into() }
    }

    /// What is said of a file that the service fails to keep.
    pub(super) fn not_kept() -> Self {
        Self::new(Reason::NotAnExport, "the file could not be kept")
    }

    /// Returns the error that names it.
    pub fn error(self) -> Error {
        Error::new(Code::ExportInvalid, self.detail).with("reason", self.reason).with("record", self.record)
    }
}

/// What follows a file's records.
pub(super) struct Ended {
    pub manifest: Manifest,
    pub signature: String,
}

/// Takes the parts of a file in their order. What is wrong with one of them ends reading.
pub(super) trait Parts {
    fn header(&mut self, header: Header) -> Result<(), Invalid>;
    /// Takes a record, for which about so many bytes were read.
    fn record(&mut self, record: Map<String, Value>, bytes: usize) -> Result<(), Invalid>;
}

/// Reads a file, and hands its parts on.
pub(super) fn read_parts(file: impl Read, parts: &mut dyn Parts) -> Result<Ended, Invalid> {
    let left = Cell::new(PART_MAX);
    let failed: RefCell<Option<Invalid>> = RefCell::default();
    let mut ended = Seen::default();
    // The buffer is outermost, because the parser reads it byte by byte.
    let buffered = BufReader::with_capacity(BUFFER, Bounded { file, left: &left });
    let mut json = serde_json::Deserializer::from_reader(buffered);
    let whole = Whole { parts: RefCell::new(parts), left: &left, failed: &failed, seen: &mut ended };
    let read = whole.deserialize(&mut json).and_then(|()| json.end());
    if let Some(invalid) = failed.take() {
        return Err(invalid);
    }
    read.map_err(|error| {
        let reason = if error.is_eof() { Reason::Truncated } else { Reason::NotAnExport };
        Invalid::new(reason, format!("the file is no export: {error}"))
    })?;
    let missing = |name| Invalid::new(Reason::NotAnExport, format!("the file has no {name}"));
    if ended.type_name.is_none() || !ended.has_records {
        return Err(missing("type and records of an export"));
    }
    Ok(Ended {
        manifest: ended.manifest.ok_or_else(|| missing("manifest"))?,
        signature: ended.signature.ok_or_else(|| missing("signature"))?,
    })
}

/// Ends with an error where a part is too large.
struct Bounded<'c, R> {
    file: R,
    left: &'c Cell<usize>,
}

impl<R: Read> Read for Bounded<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(into)?;
        let left = self.left.get().checked_sub(read);
        self.left.set(left.ok_or_else(|| io::Error::other("a part of it is too large"))?);
        Ok(read)
    }
}

/// The members of the file that are not handed on.
#[derive(Default)]
struct Seen {
    type_name: Option<String>,
    has_header: bool,
    has_records: bool,
    manifest: Option<Manifest>,
    signature: Option<String>,
}

struct Whole<'p> {
    parts: RefCell<&'p mut dyn Parts>,
    left: &'p Cell<usize>,
    failed: &'p RefCell<Option<Invalid>>,
    seen: &'p mut Seen,
}

impl Whole<'_> {
    /// Keeps what is wrong, and returns an error that ends reading.
    fn fail<E: serde::de::Error>(&self, invalid: Invalid) -> E {
        let shown = E::custom(&invalid.detail);
        self.failed.borrow_mut().get_or_insert(invalid);
        shown
    }

    fn refuse<E: serde::de::Error>(&self, reason: Reason, detail: impl Into<String>) -> E {
        self.fail(Invalid::new(reason, detail))
    }

    /// Reads a member of a type that takes no unknown fields, and that is written as the type would be.
    ///
    /// Serde also takes an array for a struct, and what is signed is the struct.
    fn typed<'de, T: DeserializeOwned + Serialize, A: MapAccess<'de>>(
        &self,
        name: &str,
        map: &mut A,
    ) -> Result<T, A::Error> {
        let Strict(value) = map.next_value()?;
        let reason = if has_credential(&value) { Reason::CredentialField } else { Reason::UnknownField };
        let refuse = |why: &dyn fmt::Display| {
            self.refuse(reason, format!("the {name} is not that of an export: {why}"))
        };
        let read: T = serde_json::from_value(value.clone()).map_err(|error| refuse(&error))?;
        match serde_json::to_value(&read) {
            Ok(written) if written == value => Ok(read),
            _ => Err(refuse(&"it is written in another form")),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Whole<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Whole<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an export: an object with type, header, records, manifest and signature")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            self.left.set(PART_MAX);
            let is_again = match name.as_str() {
                "type" => self.seen.type_name.is_some(),
                "header" => self.seen.has_header,
                "records" => self.seen.has_records,
                "manifest" => self.seen.manifest.is_some(),
                "signature" => self.seen.signature.is_some(),
                _ => {
                    let reason = reason_for(&name);
                    return Err(self.refuse(reason, format!("the file has the member {name:?}")));
                }
            };
            if is_again {
                return Err(self.refuse(Reason::NotAnExport, format!("the file has {name:?} twice")));
            }
            match name.as_str() {
                "type" => {
                    let type_name: String = map.next_value()?;
                    if type_name != TYPE {
                        return Err(self.refuse(Reason::NotAnExport, format!("it is no {TYPE}")));
                    }
                    self.seen.type_name = Some(type_name);
                }
                "header" => {
                    let header = self.typed("header", &mut map)?;
                    let taken = self.parts.borrow_mut().header(header);
                    taken.map_err(|invalid| self.fail(invalid))?;
                    self.seen.has_header = true;
                }
                "records" if !self.seen.has_header => {
                    return Err(self.refuse(Reason::NotAnExport, "the header must stand before the records"));
                }
                "records" => {
                    map.next_value_seed(Records(&self))?;
                    self.seen.has_records = true;
                }
                "manifest" => self.seen.manifest = Some(self.typed("manifest", &mut map)?),
                "signature" => self.seen.signature = Some(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
            self.left.set(PART_MAX);
        }
        Ok(())
    }
}

struct Records<'w, 'p>(&'w Whole<'p>);

impl<'de> DeserializeSeed<'de> for Records<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Records<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of records")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self(whole) = self;
        let mut number: u64 = 0;
        loop {
            whole.left.set(PART_MAX);
            let Some(Strict(record)) = list.next_element()? else { return Ok(()) };
            number = number.saturating_add(1);
            let Value::Object(record) = record else {
                return Err(whole.refuse(Reason::NotAnExport, format!("record {number} is not an object")));
            };
            let taken = whole.parts.borrow_mut().record(record, PART_MAX.saturating_sub(whole.left.get()));
            taken.map_err(|invalid| whole.fail(invalid))?;
        }
    }
}

/// Returns whether something in a value has the name of a credential.
fn has_credential(value: &Value) -> bool {
    match value {
        Value::Object(members) => members
            .iter()
            .any(|(name, value)| reason_for(name) == Reason::CredentialField || has_credential(value)),
        Value::Array(items) => items.iter().any(has_credential),
        _ => false,
    }
}

/// Returns why a file with something of this name, which no export has, is refused.
pub(super) fn reason_for(name: &str) -> Reason {
    const OF_CREDENTIALS: [&str; 9] =
        ["secret", "token", "password", "api_key", "apikey", "private_key", "wrapped", "kek", "credential"];
    let name = name.to_lowercase();
    let is_credential = OF_CREDENTIALS.iter().any(|part| name.contains(part));
    if is_credential { Reason::CredentialField } else { Reason::UnknownField }
}
