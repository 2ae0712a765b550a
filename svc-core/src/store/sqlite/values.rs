//! Converts statements, parameters and columns to and from SQLite's form.

use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::limits::ROW_BYTES;
use crate::store::row::Columns;
use crate::store::value::Param;

/// Replaces `$n` with `?n` in a statement, outside of quotes.
pub(super) fn with_sqlite_markers(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len());
    let mut quoted = false;
    for character in sql.chars() {
        quoted ^= character == '\'';
        out.push(if character == '$' && !quoted { '?' } else { character });
    }
    out
}

pub(super) fn to_sqlite<'a>(param: &'a Param<'_>) -> ToSqlOutput<'a> {
    let borrowed = match param {
        Param::Null => ValueRef::Null,
        Param::Int(number) => ValueRef::Integer(*number),
        Param::Bool(truth) => ValueRef::Integer(i64::from(*truth)),
        Param::Text(text) => ValueRef::Text(text.as_bytes()),
        Param::Bytes(bytes) => ValueRef::Blob(bytes),
        Param::Uuid(id) => ValueRef::Blob(id.as_bytes()),
        // Lists of numbers are only for statements written for Postgres; here they match nothing.
        Param::Ints(_) => ValueRef::Null,
        Param::Uuids(ids) => return ToSqlOutput::Owned(Value::Text(json_ids(ids))),
    };
    ToSqlOutput::Borrowed(borrowed)
}

/// Encodes a list of ids as JSON: `unhex(value) from json_each($1)` corresponds to `any($1)` in Postgres.
fn json_ids(ids: &[Uuid]) -> String {
    let ids: Vec<String> = ids.iter().map(|id| format!("\"{}\"", id.simple())).collect();
    format!("[{}]", ids.join(","))
}

/// Returns the [weight](crate::store::row::Row::weight) of a row.
pub(super) fn row_weight(row: &rusqlite::Row<'_>, columns: usize) -> rusqlite::Result<usize> {
    (0..columns).try_fold(ROW_BYTES, |weight, index| {
        let bytes = match row.get_ref(index)? {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
            ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 0,
        };
        Ok(weight.saturating_add(bytes))
    })
}

impl Columns for rusqlite::Row<'_> {
    fn column(&self, index: usize) -> Result<Param<'_>> {
        Ok(match self.get_ref(index).map_err(Error::internal)? {
            ValueRef::Null => Param::Null,
            ValueRef::Integer(number) => Param::Int(number),
            ValueRef::Real(_) => return Err(Error::internal("a column holds a fraction, which none should")),
            // SQLite does not check that text is valid UTF-8.
            ValueRef::Text(text) => std::str::from_utf8(text).map_or(Param::Bytes(text), Param::Text),
            ValueRef::Blob(bytes) => Param::Bytes(bytes),
        })
    }
}
