//! Converts table rows to export records and back: canonical JSON on one line.

use std::collections::BTreeMap;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use serde::Serialize;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::form::{EVENTS_TABLE, ExportTexts};
use super::invalid::{InvalidFile, InvalidReason, reason_for_field};
use crate::error::Error;
use crate::hash::{format_hash, parse_hash};
use crate::log::canonical;
use crate::op::{Class, Records};
use crate::store::{Columns, Param, Value as StoredValue};
use crate::time::Time;

/// Name of the record member that contains the table's name.
pub(super) const TABLE_MEMBER: &str = "record";
/// Name of the table of workspaces, which has a single row in an export.
pub(super) const WORKSPACES_TABLE: &str = "workspaces";
/// Name of the table of messages, whose records may include a key.
pub(super) const MESSAGES_TABLE: &str = "messages";
/// Name of the record member with a message's key. It precedes the members whose names sort after it.
pub(super) const CONTENT_KEY_MEMBER: &str = "content_key";

/// The form in which the rows of a table are written.
pub(super) struct RowForm {
    table: &'static str,
    /// The members in canonical order, each with the index and class of its column; `None` for the table's
    /// name.
    members: Vec<(&'static str, Option<(usize, Class)>)>,
    words: ExportTexts,
}

impl RowForm {
    pub fn new(records: &Records, words: ExportTexts) -> Self {
        let columns = records.exported().enumerate();
        let mut members: Vec<_> =
            columns.map(|(place, (name, class))| (name, Some((place, class)))).collect();
        members.push((TABLE_MEMBER, None));
        members.sort_unstable_by_key(|(name, _)| *name);
        Self { table: records.table, members, words }
    }

    /// Appends a row to `out`, with the key of a message if `key` is `Some`.
    pub fn push_row(&self, out: &mut Vec<u8>, row: &dyn Columns, key: Option<&str>) -> crate::Result<()> {
        let mut key = key;
        out.push(b'{');
        for (number, (name, column)) in self.members.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            if *name > CONTENT_KEY_MEMBER
                && let Some(key) = key.take()
            {
                push_name(out, CONTENT_KEY_MEMBER);
                push_quoted(out, key.as_bytes());
                out.push(b',');
            }
            push_name(out, name);
            match column {
                None => push_json(out, self.table)?,
                Some((_, Class::Words | Class::Sealed)) if self.words == ExportTexts::None => {
                    push_json(out, &())?
                }
                Some((place, class)) => {
                    push_column_json(out, row.column(*place)?, *class, (self.table, name))?
                }
            }
        }
        out.push(b'}');
        Ok(())
    }
}

/// Appends the value of a column as JSON, in the form of its class.
pub(crate) fn push_column_json(
    out: &mut Vec<u8>,
    value: Param<'_>,
    class: Class,
    (table, name): (&str, &str),
) -> crate::Result<()> {
    match (class, value) {
        (_, Param::Null) => out.extend_from_slice(b"null"),
        (Class::Id | Class::LaterId, Param::Uuid(id)) => push_id(out, id),
        (Class::Id | Class::LaterId, Param::Bytes(bytes)) => {
            push_id(out, Uuid::from_slice(bytes).map_err(Error::internal)?);
        }
        (Class::Int, Param::Int(number)) => push_json(out, &number)?,
        (Class::Time, Param::Int(micros)) => push_json(out, &Time::from_micros(micros))?,
        (Class::Bool, Param::Bool(truth)) => push_json(out, &truth)?,
        (Class::Bool, Param::Int(number)) => push_json(out, &(number != 0))?,
        (Class::Text | Class::Words, Param::Text(text)) => push_json(out, text)?,
        (Class::Hash, Param::Bytes(bytes)) => {
            let hash = format_hash(bytes.try_into().map_err(Error::internal)?);
            push_quoted(out, hash.as_bytes());
        }
        (Class::Sealed | Class::Digest, Param::Bytes(bytes)) => push_base64(out, bytes)?,
        // SQLite returns 16 bytes as an id.
        (Class::Sealed | Class::Digest, Param::Uuid(id)) => push_base64(out, id.as_bytes())?,
        (class, value) => {
            return Err(Error::internal(format!("{table}.{name} is {class:?} and {value:?}")));
        }
    }
    Ok(())
}

/// Appends a value as JSON, with text escaped as in canonical JSON.
pub(super) fn push_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) -> crate::Result<()> {
    serde_json::to_writer(out, value).map_err(Error::internal)
}

/// Appends the record of an event.
pub(super) fn push_event(out: &mut Vec<u8>, payload: &str) -> crate::Result<()> {
    out.extend_from_slice(b"{\"payload\":");
    push_json(out, payload)?;
    out.push(b',');
    push_name(out, TABLE_MEMBER);
    push_quoted(out, EVENTS_TABLE.as_bytes());
    out.push(b'}');
    Ok(())
}

/// Returns the payload and the text of an event record, or `None` if the record does not have the form of
/// [`push_event`].
pub(super) fn parse_canonical_event(record: &[u8]) -> Option<(String, &str)> {
    let payload = record.strip_prefix(b"{\"payload\":")?.strip_suffix(b",\"record\":\"events\"}")?;
    if !canonical::is_canonical_string(payload) {
        return None;
    }
    Some((serde_json::from_slice(payload).ok()?, str::from_utf8(record).ok()?))
}

/// Returns the index of a table among the declarations.
///
/// `hint` is the index of the previous record's table, which is usually the same.
pub(super) fn table_index(declared: &[Records], table: &str, hint: usize) -> Option<usize> {
    let is_of_table = |place: &usize| declared.get(*place).is_some_and(|records| records.table == table);
    Some(hint).filter(is_of_table).or_else(|| (0..declared.len()).find(is_of_table))
}

/// Appends a member name that needs no escaping, and a colon.
fn push_name(out: &mut Vec<u8>, name: &str) {
    push_quoted(out, name.as_bytes());
    out.push(b':');
}

/// Appends a string that needs no escaping.
pub(super) fn push_quoted(out: &mut Vec<u8>, plain: &[u8]) {
    out.push(b'"');
    out.extend_from_slice(plain);
    out.push(b'"');
}

fn push_id(out: &mut Vec<u8>, id: Uuid) {
    push_quoted(out, id.hyphenated().encode_lower(&mut Uuid::encode_buffer()).as_bytes());
}

fn push_base64(out: &mut Vec<u8>, bytes: &[u8]) -> crate::Result<()> {
    out.push(b'"');
    let mut encoder = EncoderWriter::new(&mut *out, &STANDARD);
    encoder.write_all(bytes).map_err(Error::internal)?;
    encoder.finish().map_err(Error::internal)?;
    drop(encoder);
    out.push(b'"');
    Ok(())
}

/// A row of an export: the columns by name, and the content key if the row is a message with a key.
pub(super) struct ExportRow {
    pub columns: BTreeMap<&'static str, StoredValue>,
    pub content_key: Option<[u8; 32]>,
}

/// Parses a record as a row. Fails if the record contains a field that does not occur in exports.
pub(super) fn parse_row(records: &Records, record: &Map<String, Value>) -> Result<ExportRow, InvalidFile> {
    let mut columns = BTreeMap::new();
    for name in record.keys() {
        let is_known = records.columns.get(name.as_str()).is_some_and(|class| class.is_exported());
        let is_key = name == CONTENT_KEY_MEMBER && records.table == MESSAGES_TABLE;
        if !is_known && name != TABLE_MEMBER && !is_key {
            let detail = format!("no record of {} has {name:?}", records.table);
            return Err(InvalidFile::new(reason_for_field(name), detail));
        }
    }
    for (name, class) in records.exported() {
        // A column that did not exist in an older schema is unset.
        let unset = if class == Class::Bool { &Value::Bool(false) } else { &Value::Null };
        let value = record.get(name).unwrap_or(unset);
        let stored = to_stored_value(class, value).ok_or_else(|| {
            let detail = format!("{}.{name} is not {class:?}", records.table);
            InvalidFile::new(InvalidReason::UnknownField, detail)
        })?;
        columns.insert(name, stored);
    }
    let key = record.get(CONTENT_KEY_MEMBER).map(|key| {
        let bytes = key.as_str().and_then(|text| STANDARD.decode(text).ok());
        let refused =
            || InvalidFile::new(InvalidReason::UnknownField, "a content_key is 32 bytes, as base64");
        bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(refused)
    });
    Ok(ExportRow { columns, content_key: key.transpose()? })
}

/// Converts a JSON value to the stored form of a column's class, or returns `None` if the value does not fit.
fn to_stored_value(class: Class, value: &Value) -> Option<StoredValue> {
    let text = value.as_str();
    Some(match (class, value) {
        (_, Value::Null) => StoredValue::Null,
        (Class::Id | Class::LaterId, _) => {
            let id: Uuid = text?.parse().ok()?;
            (id.to_string() == text?).then_some(StoredValue::Uuid(id))?
        }
        (Class::Int, _) => StoredValue::Int(value.as_i64()?),
        (Class::Time, _) => {
            let at: Time = serde_json::from_value(value.clone()).ok()?;
            (at.to_string() == text?).then_some(StoredValue::Int(at.micros()))?
        }
        (Class::Bool, _) => StoredValue::Bool(value.as_bool()?),
        (Class::Text | Class::Words, _) => StoredValue::Text(text?.to_owned()),
        (Class::Hash, _) => StoredValue::Bytes(parse_hash(text?)?.to_vec()),
        (Class::Sealed | Class::Digest, _) => StoredValue::Bytes(STANDARD.decode(text?).ok()?),
        (Class::InstancePosition | Class::Secret | Class::Derived, _) => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_file_of_an_older_schema_lacks_is_unset() {
        let records = Records::table("things", "id").ids("id").bools("marked").hashes("content_hash");
        let record = json!({"record": "things", "id": Uuid::from_u128(7)});
        let Ok(row) = parse_row(&records, record.as_object().unwrap()) else { panic!("it is one") };
        assert!(matches!(row.columns["marked"], StoredValue::Bool(false)));
        assert!(matches!(row.columns["content_hash"], StoredValue::Null));
    }
}
