//! A verified export as lines of canonical JSON, from which its rows are imported in steps.
//!
//! The lines are written while the file is verified. A step therefore continues reading at an offset, and
//! does not depend on the formatting of the original file.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use serde_json::{Map, Value};

use super::form::EVENTS_TABLE;
use super::invalid::{InvalidFile, InvalidReason};
use super::row::{ExportRow, TABLE_MEMBER, WORKSPACES_TABLE, parse_canonical_event, parse_row, table_index};
use super::verify::RecordReceiver;
use crate::error::{Error, Result};
use crate::log::verify::EventColumns;
use crate::op::{Class, Records, Table};
use crate::spool::{CompleteSpool, Spool};
use crate::store::Value as StoredValue;

/// Maximum rows that one step imports.
const STEP_ROWS: usize = 4000;
/// Number of bytes of lines at which a step ends.
const STEP_BYTES: u64 = 2 << 20;

/// Receives the records of a file while it is verified, and stores them.
pub(super) trait RecordStore: RecordReceiver {
    /// Returns the error of this service that prevented a record from being stored, if there is one.
    fn take_error(&mut self) -> Option<Error>;
}

/// Writes the records of a file to a spool, one record per line.
pub(super) struct LineWriter {
    spool: Spool,
    /// The tables, each with the offset of its first line.
    sections: Vec<(&'static str, u64)>,
    deferred: Vec<DeferredColumn>,
    /// The handle of the workspace.
    workspace_handle: Option<String>,
    /// Member ids by handle.
    member_ids: BTreeMap<String, StoredValue>,
    /// The error that prevented the lines from being written.
    error: Option<Error>,
}

/// The stored records of a file.
pub(super) struct StoredRecords {
    pub lines: RecordLines,
    /// The columns to set after all rows are written.
    pub deferred: Vec<DeferredColumn>,
    /// The handle of the workspace, if it has one.
    pub workspace_handle: Option<String>,
    /// Member ids by handle.
    pub member_ids: BTreeMap<String, StoredValue>,
}

/// The records of a file, one record per line.
pub(super) struct RecordLines {
    pub spooled: CompleteSpool,
    sections: Vec<(&'static str, u64)>,
}

/// The value of a column that can be set only after all rows of its table are written.
#[derive(Clone, Debug)]
pub(super) struct DeferredColumn {
    /// The SQL statement that sets the column.
    pub update_sql: &'static str,
    pub id: StoredValue,
    pub value: StoredValue,
}

/// Maximum number of stored member handles, and maximum number of deferred columns.
const COLLECTED_MAX: usize = 100_000;

impl LineWriter {
    pub fn new(spool: Spool) -> Self {
        let sections = Vec::new();
        let deferred = Vec::new();
        let member_ids = BTreeMap::new();
        Self { spool, sections, deferred, workspace_handle: None, member_ids, error: None }
    }

    pub fn finish(self) -> Result<StoredRecords> {
        let lines = RecordLines { spooled: self.spool.finish()?, sections: self.sections };
        Ok(StoredRecords {
            lines,
            deferred: self.deferred,
            workspace_handle: self.workspace_handle,
            member_ids: self.member_ids,
        })
    }

    /// Collects the columns to set later and the handles in a row.
    fn collect_from_row(&mut self, records: &Records, row: &ExportRow) -> Result<(), InvalidFile> {
        let id = || row.columns.get("id").cloned().unwrap_or(StoredValue::Null);
        let deferred = records.exported().filter(|(_, class)| *class == Class::LaterId);
        for (column, _) in deferred {
            match row.columns.get(column) {
                Some(value) if *value != StoredValue::Null => {
                    let update_sql = records.set(column);
                    let value = value.clone();
                    self.deferred.push(DeferredColumn { update_sql, id: id(), value });
                }
                _ => {}
            }
        }
        match (records.name(), row.columns.get("handle")) {
            (WORKSPACES_TABLE, Some(StoredValue::Text(handle))) => {
                self.workspace_handle = Some(handle.clone());
            }
            (MEMBERS_TABLE, Some(StoredValue::Text(handle))) => {
                drop(self.member_ids.insert(handle.clone(), id()));
            }
            _ => {}
        }
        if self.deferred.len().max(self.member_ids.len()) > COLLECTED_MAX {
            return Err(InvalidFile::new(InvalidReason::NotAnExport, "the workspace has too many members"));
        }
        Ok(())
    }
}

const MEMBERS_TABLE: &str = "members";

impl RecordReceiver for LineWriter {
    fn row(&mut self, records: &Records, row: &ExportRow, record: &str) -> Result<(), InvalidFile> {
        self.collect_from_row(records, row)?;
        self.write_line(records.name(), record)
    }

    fn event(&mut self, _: &EventColumns, _: &str, record: &str) -> Result<(), InvalidFile> {
        self.write_line(EVENTS_TABLE, record)
    }
}

impl RecordStore for LineWriter {
    fn take_error(&mut self) -> Option<Error> {
        self.error.take()
    }
}

impl LineWriter {
    fn write_line(&mut self, table: &'static str, record: &str) -> Result<(), InvalidFile> {
        if self.sections.last().is_none_or(|(last, _)| *last != table) {
            self.sections.push((table, self.spool.len()));
        }
        let written = self.spool.write(record.as_bytes()).and_then(|()| self.spool.write(b"\n"));
        written.map_err(|error| {
            self.error = Some(error);
            InvalidFile::not_stored()
        })
    }
}

impl RecordLines {
    /// Returns an iterator over the records of a table.
    pub fn table_records(
        &self,
        table: &'static str,
    ) -> impl Iterator<Item = Result<Map<String, Value>>> + use<> {
        self.table_lines(table).map(|line| serde_json::from_slice(&line?).map_err(Error::internal))
    }

    /// Returns an iterator over the payloads of the events.
    pub fn event_payloads(&self) -> impl Iterator<Item = Result<String>> + use<> {
        let broken = || Error::internal("an event without a payload");
        self.table_lines(EVENTS_TABLE).map(move |line| event_payload(&line?).ok_or_else(broken))
    }

    fn table_lines(&self, table: &'static str) -> impl Iterator<Item = Result<Vec<u8>>> + use<> {
        let begins = self.sections.iter().position(|(name, _)| *name == table);
        let offset = |place: usize| self.sections.get(place).map(|(_, offset)| *offset);
        let from = begins.and_then(offset).unwrap_or(self.spooled.len());
        let until = begins.and_then(|place| offset(place.saturating_add(1))).unwrap_or(self.spooled.len());
        let part = self.spooled.reader(from).take(until.saturating_sub(from));
        BufReader::with_capacity(64 << 10, part).split(b'\n').map(|line| line.map_err(Error::internal))
    }
}

/// Returns the payload of an event, or `None` if the line contains a row.
fn event_payload(line: &[u8]) -> Option<String> {
    parse_canonical_event(line).map(|(payload, _)| payload)
}

/// Returns the columns of a verified event, parsed from its payload.
pub(super) fn parse_event_columns(payload: &str) -> Result<EventColumns> {
    EventColumns::of(payload).ok_or_else(|| Error::internal("an event without a chain"))
}

/// The parsed content of a line.
pub(super) enum Line {
    /// A row, and the index of its table among the declarations.
    Row(usize, ExportRow),
    /// The payload of an event, and the columns parsed from it.
    Event(String, EventColumns),
}

/// The lines that one step imports, and where the next step begins.
pub(super) struct LineStep {
    pub lines: Vec<Line>,
    /// The offset at which the next step begins.
    pub next_offset: u64,
}

/// Reads lines for one step at a time, and reads ahead on another thread while a step is being written.
pub(super) struct StepReader {
    lines: CompleteSpool,
    table: Arc<Table>,
    /// The step that is being read ahead: its offset, and the thread that reads it.
    read_ahead: Option<(u64, JoinHandle<Result<LineStep>>)>,
}

impl StepReader {
    pub fn new(lines: CompleteSpool, table: Arc<Table>) -> Self {
        Self { lines, table, read_ahead: None }
    }

    /// Returns whether no line begins at or after `offset`.
    pub fn is_end(&self, offset: u64) -> bool {
        offset >= self.lines.len()
    }

    /// Returns the lines of the step that begins at `offset`, and starts reading the next step.
    pub fn next_step(&mut self, offset: u64) -> Result<LineStep> {
        let step = match self.read_ahead.take() {
            Some((begin, read)) if begin == offset => {
                read.join().unwrap_or_else(|_| Err(Error::internal("reading lines panicked")))
            }
            _ => read_step(&self.lines, offset, self.table.records()),
        }?;
        if !self.is_end(step.next_offset) {
            let lines = self.lines.clone();
            let table = Arc::clone(&self.table);
            let begin = step.next_offset;
            let read = move || read_step(&lines, begin, table.records());
            let thread = thread::Builder::new().name("svc-import".to_owned()).spawn(read);
            // If no thread can be started, the next step reads its lines on its own thread.
            self.read_ahead = thread.ok().map(|thread| (begin, thread));
        }
        Ok(step)
    }
}

fn read_step(lines: &CompleteSpool, offset: u64, declared: &[Records]) -> Result<LineStep> {
    let mut reader = BufReader::with_capacity(256 << 10, lines.reader(offset));
    let mut found = Vec::new();
    let mut read = 0_u64;
    let mut text = Vec::new();
    let mut place = 0;
    while found.len() < STEP_ROWS && read < STEP_BYTES {
        text.clear();
        let bytes = reader.read_until(b'\n', &mut text).map_err(Error::internal)?;
        if bytes == 0 {
            break;
        }
        read = read.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        found.push(parse_line(&text, declared, &mut place)?);
    }
    Ok(LineStep { lines: found, next_offset: offset.saturating_add(read) })
}

/// Parses a line. `last_table` is the index of the previous row's table; this function updates it.
fn parse_line(text: &[u8], declared: &[Records], last_table: &mut usize) -> Result<Line> {
    if let Some(payload) = event_payload(text.trim_ascii_end()) {
        let columns = parse_event_columns(&payload)?;
        return Ok(Line::Event(payload, columns));
    }
    let record: Map<String, Value> = serde_json::from_slice(text).map_err(Error::internal)?;
    let table = record.get(TABLE_MEMBER).and_then(Value::as_str).unwrap_or_default();
    let found =
        table_index(declared, table, *last_table).and_then(|place| Some((place, declared.get(place)?)));
    let (place, records) = found.ok_or_else(|| Error::internal(format!("no table {table}")))?;
    *last_table = place;
    let row = parse_row(records, &record).map_err(|invalid| Error::internal(invalid.detail))?;
    Ok(Line::Row(place, row))
}
