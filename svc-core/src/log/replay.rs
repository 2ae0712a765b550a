//! Replays a log: rebuilds the rows that its events determine, without reading their tables.
//!
//! Each kind of event defines with [`Event::replay`](super::event::Event::replay) which columns of which rows
//! it determines. The resulting rows are kept in a [`Scratch`], so a log of any length is replayed in bounded
//! memory. If an event, for example an older one, lacks a value, the column counts as unproven until a later
//! event determines it.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::Result;
use crate::error::Error;
use crate::hash::{format_hash, sha256};
use crate::store::Scratch;
use crate::time::Time;

/// The rows that the replayed events of one workspace have determined so far.
pub struct RebuiltRows {
    scratch: Scratch,
    /// The time of the last replayed event, in microseconds.
    last_at: Cell<Option<i64>>,
    /// The tables with proven columns, by name. Rows of other tables are not kept.
    proven: BTreeMap<&'static str, ProvenTable>,
}

/// A table whose rows are rebuilt from events.
pub(crate) struct ProvenTable {
    /// Columns that events prove. Other columns are not rebuilt.
    pub columns: BTreeSet<&'static str>,
    /// Whether an import that restores a workspace includes the rows of the table.
    pub is_restored: bool,
    /// Whether an import that copies a workspace includes the rows of the table.
    pub is_copied: bool,
}

/// A row rebuilt from events.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct RebuiltRow {
    /// The position of the event that created the row, or `None` if that event was pruned.
    pub created_lsn: Option<i64>,
    /// Whether an event has removed the row.
    pub removed: bool,
    /// The position of the last event that changed the row.
    pub lsn: i64,
    /// The known column values, each with the position of the event that determined it.
    pub columns: BTreeMap<String, (Value, i64)>,
}

impl RebuiltRows {
    pub(crate) fn new(scratch: Scratch, proven: BTreeMap<&'static str, ProvenTable>) -> Self {
        Self { scratch, last_at: Cell::new(None), proven }
    }

    /// Returns the rebuilt row with this key, or `None` if no event has determined it.
    pub(crate) fn get(&self, table: &str, key: &[Value]) -> Result<Option<RebuiltRow>> {
        let bytes: Option<Vec<u8>> = self.scratch.get(&scratch_key(table, key)?)?;
        bytes.map(|bytes| decode_row(&bytes)).transpose()
    }

    /// Removes a rebuilt row, so that nothing is known about the row.
    pub(crate) fn forget(&self, table: &str, key: &[Value]) -> Result<()> {
        self.scratch.remove(&scratch_key(table, key)?)
    }

    /// Removes all rebuilt rows of a table, so that nothing is known about them.
    fn forget_table(&self, table: &str) -> Result<()> {
        while let Some((key, _)) = self.next(table, &[], None)? {
            self.forget(table, &key)?;
        }
        Ok(())
    }

    /// Returns the position of the last event that does not report every row of a table, or 0 without such
    /// events.
    ///
    /// Only events of older versions do not report every row.
    pub(crate) fn unreported_up_to(&self, table: &str) -> Result<i64> {
        let up_to =
            |key: &str| Ok::<i64, Error>(self.get(UNREPORTED, &[key.into()])?.map_or(0, |row| row.lsn));
        Ok(up_to(table)?.max(up_to(ALL_TABLES)?))
    }

    /// Returns the next row of a table after the key `after`, with its key.
    ///
    /// Only rows whose keys begin with the values in `key_prefix` are returned.
    pub(crate) fn next(
        &self,
        table: &str,
        key_prefix: &[Value],
        after: Option<&[Value]>,
    ) -> Result<Option<(Vec<Value>, RebuiltRow)>> {
        let first = scratch_key(table, key_prefix)?;
        let after = after.map(|key| scratch_key(table, key)).transpose()?;
        let found: Option<(Vec<u8>, Vec<u8>)> = self.scratch.next(after.as_deref(), &first)?;
        found.map(|(scratch_key, row)| Ok((parse_scratch_key(&scratch_key)?, decode_row(&row)?))).transpose()
    }

    /// Stores a value under a number of a table, in addition to the rebuilt rows.
    pub(crate) fn put_extra(&self, table: &str, number: u64, value: &[u8]) -> Result<()> {
        self.scratch.put(&scratch_key(table, &[number.into()])?, value)
    }

    /// Removes and returns a value that was stored with [`Self::put_extra`].
    pub(crate) fn take_extra(&self, table: &str, number: u64) -> Result<Option<Vec<u8>>> {
        let scratch_key = scratch_key(table, &[number.into()])?;
        let value = self.scratch.get(&scratch_key)?;
        self.scratch.remove(&scratch_key)?;
        Ok(value)
    }

    fn put(&self, table: &str, key: &[Value], row: &RebuiltRow) -> Result<()> {
        let bytes = serde_json::to_vec(row).map_err(Error::internal)?;
        self.scratch.put(&scratch_key(table, key)?, &bytes)
    }
}

fn decode_row(bytes: &[u8]) -> Result<RebuiltRow> {
    serde_json::from_slice(bytes).map_err(Error::internal)
}

/// Name of the pseudo-table that lists the tables with unreported rows.
///
/// Each row contains the position of the last event that does not report the rows of a table.
const UNREPORTED: &str = "unreported";

/// Key in the pseudo-table that represents all tables.
const ALL_TABLES: &str = "*";

/// Marks a value as the latest possible time of a column, if the exact time is not in the log.
const AT_MOST: &str = "at_most";

/// Returns whether a stored column, as JSON, matches the value from the log.
pub(crate) fn matches_stored(log: &Value, stored: &[u8]) -> Result<bool> {
    let Some(Value::String(at_most)) = log.get(AT_MOST) else {
        return Ok(serde_json::to_vec(log).map_err(Error::internal)? == stored);
    };
    // Times are written in one form, in which later times sort later.
    Ok(serde_json::from_slice(stored).is_ok_and(|at: String| at <= *at_most))
}

/// The byte after each part of a row's key in the scratch store. Does not occur in JSON.
const PART_END: u8 = 0;

/// Returns the key of a row in the scratch store: the table and the parts of the row's key, each with an end
/// mark.
fn scratch_key(table: &str, key: &[Value]) -> Result<Vec<u8>> {
    let mut scratch_key = table.as_bytes().to_vec();
    scratch_key.push(PART_END);
    for part in key {
        serde_json::to_writer(&mut scratch_key, part).map_err(Error::internal)?;
        scratch_key.push(PART_END);
    }
    Ok(scratch_key)
}

/// Returns the row's key in a key of the scratch store.
fn parse_scratch_key(scratch_key: &[u8]) -> Result<Vec<Value>> {
    let parts = scratch_key.split(|byte| *byte == PART_END).skip(1).filter(|part| !part.is_empty());
    parts.map(|part| serde_json::from_slice(part).map_err(Error::internal)).collect()
}

/// An event that is being replayed.
pub struct ReplayedEvent<'r> {
    rows: &'r RebuiltRows,
    lsn: i64,
    /// The time of the event, in microseconds.
    at: i64,
    /// Whether the event is later than the previous one, so that its time was read from a clock.
    is_exact: bool,
    /// The payload of the event, as the text that was hashed.
    payload: &'r str,
    fields: Map<String, Value>,
}

impl<'r> ReplayedEvent<'r> {
    /// Parses an event from its payload.
    pub(crate) fn of(rows: &'r RebuiltRows, lsn: i64, payload: &'r str) -> Result<Self> {
        let fields: Map<String, Value> = serde_json::from_str(payload).map_err(Error::internal)?;
        let at = fields.get("$chain").and_then(|chain| chain.get("at")).and_then(Value::as_i64);
        let at = at.ok_or_else(|| Error::internal("an event without its time"))?;
        let before = rows.last_at.replace(Some(at));
        Ok(Self { rows, lsn, at, is_exact: before.is_some_and(|before| before < at), payload, fields })
    }

    /// Parses an event of another log, whose times are unrelated to this log.
    pub(crate) fn from_other_log(rows: &'r RebuiltRows, lsn: i64, payload: &'r str) -> Result<Self> {
        let before = rows.last_at.get();
        let event = Self::of(rows, lsn, payload)?;
        rows.last_at.set(before);
        Ok(Self { is_exact: false, ..event })
    }

    /// Returns a field of the event, or `None` if the event has no such field.
    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name)
    }

    /// Returns the values of a list field, or an empty list if the event has no such field.
    pub(crate) fn list(&self, name: &str) -> &[Value] {
        self.field(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Returns a number field of the event.
    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        self.field(name).and_then(Value::as_i64)
    }

    /// Returns a text field of the event.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.field(name).and_then(Value::as_str)
    }

    /// Returns the position of the event.
    pub(crate) fn lsn(&self) -> i64 {
        self.lsn
    }

    /// Returns the content hash of the event.
    pub(crate) fn content_hash(&self) -> String {
        format_hash(&sha256(self.payload.as_bytes()))
    }

    /// Returns the time of the event in the form of a stored column.
    ///
    /// Times in a log never go back. If a clock is behind the previous event, the event gets the previous
    /// event's time, while the row has an earlier time.
    pub(crate) fn at(&self) -> Value {
        let at = Time::from_micros(self.at).to_string();
        if self.is_exact { at.into() } else { json!({AT_MOST: at}) }
    }

    /// Returns the workspace of the event.
    pub(crate) fn workspace(&self) -> Value {
        self.object_member("$chain", "workspace_id")
    }

    /// Returns the channel of the event, or null.
    pub(crate) fn channel(&self) -> Value {
        self.object_member("$chain", "channel_id")
    }

    /// Returns the thread of the event, or null.
    pub(crate) fn thread(&self) -> Value {
        self.object_member("$chain", "thread_id")
    }

    /// Returns the member that the event concerns, or null.
    pub(crate) fn member(&self) -> Value {
        self.object_member("$chain", "member_id")
    }

    /// Returns the member on whose behalf the actor acted, or null.
    pub(crate) fn subject(&self) -> Value {
        self.object_member("attribution", "subject_id")
    }

    /// Returns the member whose credential acted, or null.
    pub(crate) fn actor(&self) -> Value {
        self.object_member("attribution", "actor_id")
    }

    /// Returns a member of an object in the payload, or null.
    fn object_member(&self, object: &str, name: &str) -> Value {
        self.fields.get(object).and_then(|object| object.get(name)).cloned().unwrap_or_default()
    }

    /// Begins a change of the row with this key.
    pub(crate) fn row(
        &self,
        table: &'static str,
        key: impl IntoIterator<Item = Value>,
    ) -> Result<RowChange<'_>> {
        self.begin_change(table, Some(key.into_iter().collect()))
    }

    /// Begins a change of the row whose key consists of fields of the event.
    ///
    /// `fields` contains the names of the fields, separated by spaces. A field may be `$workspace`,
    /// `$channel`, `$thread` or `$member`. If the event lacks one of the fields, the change has no effect.
    pub(crate) fn row_of(&self, table: &'static str, fields: &str) -> Result<RowChange<'_>> {
        self.begin_change(table, fields.split(' ').map(|name| self.resolve_field(name)).collect())
    }

    fn begin_change(&self, table: &'static str, key: Option<Vec<Value>>) -> Result<RowChange<'_>> {
        let row = key.as_ref().map(|key| self.rows.get(table, key)).transpose()?;
        Ok(RowChange { event: self, table, key, row: row.flatten().unwrap_or_default() })
    }

    /// Returns the value of a field, or of the column that `$workspace`, `$channel`, `$thread` or `$member`
    /// names.
    fn resolve_field(&self, name: &str) -> Option<Value> {
        match name {
            "$workspace" => Some(self.workspace()),
            "$channel" => Some(self.channel()),
            "$thread" => Some(self.thread()),
            "$member" => Some(self.member()),
            _ => self.field(name).cloned(),
        }
    }

    /// Calls `each` with every row of a table whose key begins with the values in `key_prefix`.
    pub(crate) fn rows(
        &self,
        table: &'static str,
        key_prefix: &[Value],
        mut each: impl FnMut(RowChange<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut after: Option<Vec<Value>> = None;
        while let Some((key, row)) = self.rows.next(table, key_prefix, after.as_deref())? {
            if !row.removed {
                each(RowChange { event: self, table, key: Some(key.clone()), row })?;
            }
            after = Some(key);
        }
        Ok(())
    }

    /// Records that the event does not report the rows that it created in a table, because its version is
    /// older.
    pub(crate) fn mark_unreported(&self, table: &'static str) -> Result<()> {
        self.row(UNREPORTED, [table.into()])?.keep()
    }

    /// Removes all rebuilt rows, because an older version has written the rows and reported less about them.
    pub(crate) fn forget_all(&self) -> Result<()> {
        self.rows.scratch.clear()?;
        self.row(UNREPORTED, [ALL_TABLES.into()])?.keep()
    }

    /// Removes the rebuilt rows of the tables that an import omits.
    ///
    /// `mode` is the mode of the import: `new` or `restore`.
    pub(crate) fn forget_after_import(&self, mode: &str) -> Result<()> {
        let is_omitted =
            |table: &ProvenTable| if mode == "new" { !table.is_copied } else { !table.is_restored };
        let mut omitted = self.rows.proven.iter().filter(|(_, table)| is_omitted(table));
        omitted.try_for_each(|(name, _)| self.rows.forget_table(name))
    }
}

/// A change that an event makes to a row. It takes effect with [`Self::keep`] or [`Self::remove`].
#[must_use]
pub(crate) struct RowChange<'r> {
    event: &'r ReplayedEvent<'r>,
    table: &'static str,
    /// The key of the row, or `None` if the event does not identify the row.
    key: Option<Vec<Value>>,
    row: RebuiltRow,
}

impl RowChange<'_> {
    /// Marks that the event has created the row, and discards earlier values of a row with the same key.
    pub fn made(mut self) -> Self {
        self.row = RebuiltRow { created_lsn: Some(self.event.lsn), ..RebuiltRow::default() };
        self
    }

    /// Sets each of the named columns to the event's field with the same name.
    pub fn copy(self, names: &str) -> Self {
        names.split(' ').fold(self, |change, name| change.set_to(name, name))
    }

    /// Sets a column to a field of the event.
    pub fn set_to(self, column: &str, field: &str) -> Self {
        let value = self.event.resolve_field(field);
        self.set_known(column, value)
    }

    /// Sets a column to a known value.
    pub fn set(self, column: &str, value: impl Into<Value>) -> Self {
        self.set_known(column, Some(value.into()))
    }

    /// Sets a column to null.
    pub fn clear(self, column: &str) -> Self {
        self.set_known(column, Some(Value::Null))
    }

    /// Sets a column to `value`, or marks the column as unknown if `value` is `None`.
    pub fn set_known(mut self, column: &str, value: Option<Value>) -> Self {
        match value {
            Some(value) => self.row.columns.insert(column.to_owned(), (value, self.event.lsn)),
            None => self.row.columns.remove(column),
        };
        self
    }

    /// Adds `amount` to a number column, if its value is known.
    pub fn add(self, column: &str, amount: i64) -> Self {
        let sum = self.value(column).and_then(Value::as_i64).and_then(|number| number.checked_add(amount));
        self.set_known(column, sum.map(Value::from))
    }

    /// Returns the value of a column, including this change, or `None` if the value is not known.
    pub fn value(&self, column: &str) -> Option<&Value> {
        self.row.columns.get(column).map(|(value, _)| value)
    }

    /// Returns whether the row is known to exist.
    pub fn exists(&self) -> bool {
        self.row.lsn > 0 && !self.row.removed
    }

    /// Returns the values of the row's key columns.
    pub fn key(&self) -> &[Value] {
        self.key.as_deref().unwrap_or_default()
    }

    /// Stores the changed row. Has no effect if the event does not identify the row.
    pub fn keep(mut self) -> Result<()> {
        let Some(key) = &self.key else { return Ok(()) };
        let proven = self.event.rows.proven.get(self.table);
        let unknown = |name: &String| proven.is_none_or(|table| !table.columns.contains(name.as_str()));
        if cfg!(debug_assertions)
            && let Some(column) = self.row.columns.keys().find(|column| unknown(column))
        {
            return Err(Error::internal(format!("{}.{column} is not declared as proven", self.table)));
        }
        self.row.lsn = self.event.lsn;
        self.row.removed = false;
        self.event.rows.put(self.table, key, &self.row)
    }

    /// Removes the rebuilt row, as if no event had changed it.
    pub fn forget(self) -> Result<()> {
        self.key.as_ref().map_or(Ok(()), |key| self.event.rows.forget(self.table, key))
    }

    /// Stores that the event has removed the row.
    pub fn remove(self) -> Result<()> {
        let Some(key) = &self.key else { return Ok(()) };
        let row = RebuiltRow { removed: true, lsn: self.event.lsn, ..RebuiltRow::default() };
        self.event.rows.put(self.table, key, &row)
    }
}
