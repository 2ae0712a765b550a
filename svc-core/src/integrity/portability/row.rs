//! A row of a table as a record: canonical JSON on one line.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::form::Words;
use super::read::{Invalid, Reason, reason_for};
use crate::error::Error;
use crate::hash::{parse_hash, push_hash};
use crate::op::{Class, Records};
use crate::store::{Columns, Param, Value as Stored};
use crate::time::Time;

/// The member that names the table.
pub(super) const RECORD: &str = "record";
/// The table of messages, beside which their keys are.
pub(super) const MESSAGES: &str = "messages";
/// The member with the key of a message.
pub(super) const CONTENT_KEY: &str = "content_key";

/// How the rows of a table are written.
pub(super) struct RowForm {
    table: &'static str,
    /// The members in canonical order, with their place in the row; none for the name of the table.
    members: Vec<(&'static str, Option<(usize, Class)>)>,
    words: Words,
}

impl RowForm {
    pub fn of(records: &Records, words: Words) -> Self {
        let columns = records.exported().enumerate();
        let mut members: Vec<_> =
            columns.map(|(place, (name, class))| (name, Some((place, class)))).collect();
        members.push((RECORD, None));
        members.sort_unstable_by_key(|(name, _)| *name);
        Self { table: records.table, members, words }
    }

    /// Appends a row to `out`. Returns where in it the key of a message belongs.
    pub fn push(&self, out: &mut String, row: &dyn Columns) -> crate::Result<usize> {
        let mut key_place = None;
        out.push('{');
        for (name, column) in &self.members {
            if *name > CONTENT_KEY {
                key_place.get_or_insert(out.len());
            }
            if !out.ends_with('{') {
                out.push(',');
            }
            // Names of columns and tables are plain.
            out.push('"');
            out.push_str(name);
            out.push_str("\":");
            match column {
                None => push_text(out, self.table)?,
                Some((place, class)) => self.push_value(out, row.column(*place)?, *class, name)?,
            }
        }
        out.push('}');
        Ok(key_place.unwrap_or(out.len()))
    }

    fn push_value(&self, out: &mut String, value: Param<'_>, class: Class, name: &str) -> crate::Result<()> {
        let is_omitted = self.words == Words::None && matches!(class, Class::Words | Class::Sealed);
        match (class, value) {
            (_, Param::Null) => out.push_str("null"),
            _ if is_omitted => out.push_str("null"),
            (Class::Id | Class::LaterId, Param::Uuid(id)) => push_quoted(out, &id),
            (Class::Id | Class::LaterId, Param::Bytes(bytes)) => {
                push_quoted(out, &Uuid::from_slice(bytes).map_err(Error::internal)?);
            }
            (Class::Int, Param::Int(number)) => push_shown(out, &number),
            (Class::Time, Param::Int(micros)) => push_quoted(out, &Time::from_micros(micros)),
            (Class::Bool, Param::Bool(truth)) => push_shown(out, &truth),
            (Class::Bool, Param::Int(number)) => push_shown(out, &(number != 0)),
            (Class::Text | Class::Words, Param::Text(text)) => push_text(out, text)?,
            (Class::Hash, Param::Bytes(bytes)) => {
                out.push('"');
                push_hash(out, bytes.try_into().map_err(Error::internal)?);
                out.push('"');
            }
            (Class::Sealed | Class::Digest, Param::Bytes(bytes)) => push_quoted(out, &STANDARD.encode(bytes)),
            (Class::Sealed | Class::Digest, Param::Uuid(id)) => {
                // Sixteen bytes are read as an id.
                push_quoted(out, &STANDARD.encode(id.as_bytes()));
            }
            (class, value) => {
                return Err(Error::internal(format!("{}.{name} is {class:?} and {value:?}", self.table)));
            }
        }
        Ok(())
    }
}

/// Appends a text as JSON, escaped as its canonical form wants it.
pub(super) fn push_text(out: &mut String, text: &str) -> crate::Result<()> {
    out.push_str(&serde_json::to_string(text).map_err(Error::internal)?);
    Ok(())
}

fn push_quoted(out: &mut String, value: &impl std::fmt::Display) {
    // Writing to a string does not fail.
    let _ = write!(out, "\"{value}\"");
}

fn push_shown(out: &mut String, value: &impl std::fmt::Display) {
    let _ = write!(out, "{value}");
}

/// Puts the key of a message into its line, at the place that [`RowForm::push`] returned.
pub(super) fn insert_key(line: &mut String, place: usize, key: &str) {
    let comma = if line.get(..place).is_some_and(|before| before.ends_with('{')) { "" } else { "," };
    line.insert_str(place, &format!("{comma}\"{CONTENT_KEY}\":\"{key}\""));
}

/// The columns of a row, by name, and the key of a message.
pub(super) struct Row {
    pub columns: BTreeMap<&'static str, Stored>,
    pub content_key: Option<[u8; 32]>,
}

/// Reads a record as a row. Fails if it has something that no export has.
pub(super) fn checked(records: &Records, record: &Map<String, Value>) -> Result<Row, Invalid> {
    let mut columns = BTreeMap::new();
    for name in record.keys() {
        let class = records.exported().find(|(known, _)| known == name);
        let is_key = name == CONTENT_KEY && records.table == MESSAGES;
        if class.is_none() && name != RECORD && !is_key {
            let detail = format!("no record of {} has {name:?}", records.table);
            return Err(Invalid::new(reason_for(name), detail));
        }
    }
    for (name, class) in records.exported() {
        let value = record.get(name).unwrap_or(&Value::Null);
        let stored = stored(class, value).ok_or_else(|| {
            let detail = format!("{}.{name} is not {class:?}", records.table);
            Invalid::new(Reason::UnknownField, detail)
        })?;
        columns.insert(name, stored);
    }
    let key = record.get(CONTENT_KEY).map(|key| {
        let bytes = key.as_str().and_then(|text| STANDARD.decode(text).ok());
        let refused = || Invalid::new(Reason::UnknownField, "a content_key is 32 bytes, as base64");
        bytes.and_then(|bytes| bytes.try_into().ok()).ok_or_else(refused)
    });
    Ok(Row { columns, content_key: key.transpose()? })
}

/// Returns a value as it is stored in a column of a class; none if it is no such value.
fn stored(class: Class, value: &Value) -> Option<Stored> {
    let text = value.as_str();
    Some(match (class, value) {
        (_, Value::Null) => Stored::Null,
        (Class::Id | Class::LaterId, _) => {
            let id: Uuid = text?.parse().ok()?;
            (id.to_string() == text?).then_some(Stored::Uuid(id))?
        }
        (Class::Int, _) => Stored::Int(value.as_i64()?),
        (Class::Time, _) => {
            let at: Time = serde_json::from_value(value.clone()).ok()?;
            (at.to_string() == text?).then_some(Stored::Int(at.micros()))?
        }
        (Class::Bool, _) => Stored::Bool(value.as_bool()?),
        (Class::Text | Class::Words, _) => Stored::Text(text?.to_owned()),
        (Class::Hash, _) => Stored::Bytes(parse_hash(text?)?.to_vec()),
        (Class::Sealed | Class::Digest, _) => Stored::Bytes(STANDARD.decode(text?).ok()?),
        (Class::InstancePosition | Class::Secret | Class::Derived, _) => return None,
    })
}
