//! Copying: converts a verified file to the file of a new workspace, with new ids, hashes and keys.
//!
//! Copying only reads and writes files, so it needs no database. Events are copied first, in order, because
//! each hash depends on the previous hash, and rows may contain hashes. A result is copied before the event
//! that contains the result's hash. Events are written last, as in every export. Positions, times and the
//! order of all records stay the same.

mod ids;
mod replacements;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::form::{EVENTS_TABLE, ExportHeader};
use super::invalid::InvalidFile;
use super::record_lines::{LineWriter, RecordLines, RecordStore, StoredRecords, parse_event_columns};
use super::row::{CONTENT_KEY_MEMBER, ExportRow, MESSAGES_TABLE, parse_row, push_event};
use super::verify::RecordReceiver;
use crate::Result;
use crate::conversation::messages::{has_content, reseal};
use crate::error::Error;
use crate::hash::{format_hash, sha256};
use crate::id::{MessageId, WorkspaceId};
use crate::log::canonical;
use crate::log::chain::genesis;
use crate::log::floor::EventsPruned;
use crate::log::verify::EventColumns;
use crate::op::{Class, Records, RowColumns, SharedState};
use crate::store::{Scratch, Value as StoredValue};
use ids::{EventIdFinder, ids_in_members};
use replacements::Replacements;

/// Name of the table of results. Events contain the hashes of results.
const RESULTS_TABLE: &str = "results";
/// Name of the table of earlier versions of edited messages.
const MESSAGE_EDITS_TABLE: &str = "message_edits";

/// Collects the records of a file while it is verified, to copy them afterwards.
pub(super) struct RecordCollector<'s> {
    shared: &'s SharedState,
    payer: Option<WorkspaceId>,
    lines: LineWriter,
    replacements: Replacements,
    /// The old and the new key of each message that has a key.
    keys: Scratch,
    event_ids: EventIdFinder,
    error: Option<Error>,
}

/// The copy of an export file, under new ids.
pub(super) struct WorkspaceCopy {
    pub header: ExportHeader,
    pub records: StoredRecords,
    /// The event that declares the missing older events; `None` if the log was not pruned.
    pub pruning_event: Option<EventsPruned>,
}

impl<'s> RecordCollector<'s> {
    /// Creates a collector whose work files are charged to `payer`.
    pub fn new(shared: &'s SharedState, payer: Option<WorkspaceId>) -> Result<Self> {
        let spools = &shared.settings.spools;
        Ok(Self {
            shared,
            payer,
            lines: LineWriter::new(spools.create(payer)?),
            replacements: Replacements::new(spools, shared.entropy.bytes()?)?,
            keys: Scratch::create(spools)?,
            event_ids: EventIdFinder::new(shared.table.events()),
            error: None,
        })
    }

    /// Returns the copy of the collected file. `header` is the header of the original file.
    pub fn into_copy(self, header: &ExportHeader) -> Result<WorkspaceCopy> {
        let Self { shared, payer, lines, replacements, keys, .. } = self;
        let spools = &shared.settings.spools;
        let writer = || spools.create(payer).map(LineWriter::new);
        let events = writer()?;
        let out = writer()?;
        let new = WorkspaceId::from(replacements.replacement_id(header.workspace_id.uuid())?);
        let copied_content = Scratch::create(spools)?;
        Copier { shared, source: lines.finish()?.lines, replacements, keys, copied_content, events, out }
            .copy(header, new)
    }

    /// Registers the ids in a row, and generates a new key if the row is a message with a key.
    fn collect_row(&mut self, records: &Records, row: &ExportRow) -> Result<()> {
        let fields = RowColumns(&row.columns);
        for (name, class) in records.exported() {
            let id = fields.id(name).filter(|_| matches!(class, Class::Id | Class::LaterId));
            id.map_or(Ok(()), |id| self.replacements.add_id(id))?;
        }
        for (column, members) in &records.ids_within {
            let ids = fields.text(column).map(|json| ids_in_members(json, members)).unwrap_or_default();
            ids.into_iter().try_for_each(|id| self.replacements.add_id(id))?;
        }
        match (row.content_key, fields.id("id")) {
            (Some(key), Some(id)) => {
                let new: [u8; 32] = self.shared.entropy.bytes()?;
                self.keys.put(id.as_bytes(), &[key, new].concat())
            }
            _ => Ok(()),
        }
    }

    fn record_failure(&mut self, taken: Result<()>) -> Result<(), InvalidFile> {
        taken.map_err(|error| {
            self.error = Some(error);
            InvalidFile::not_stored()
        })
    }
}

impl RecordReceiver for RecordCollector<'_> {
    fn row(&mut self, records: &Records, row: &ExportRow, record: &str) -> Result<(), InvalidFile> {
        let taken = self.collect_row(records, row);
        self.record_failure(taken)?;
        self.lines.row(records, row, record)
    }

    fn event(&mut self, columns: &EventColumns, payload: &str, record: &str) -> Result<(), InvalidFile> {
        let ids = self.event_ids.find_in_payload(payload);
        let taken = ids.into_iter().try_for_each(|id| self.replacements.add_id(id));
        self.record_failure(taken)?;
        self.lines.event(columns, payload, record)
    }
}

impl RecordStore for RecordCollector<'_> {
    fn take_error(&mut self) -> Option<Error> {
        self.error.take().or_else(|| self.lines.take_error())
    }
}

/// Writes the copy of a file whose ids were collected.
struct Copier<'s> {
    shared: &'s SharedState,
    source: RecordLines,
    replacements: Replacements,
    /// The old and the new key of each message that has a key.
    keys: Scratch,
    /// Copied content that occurs in both events and rows: sealed content by message and edit, results by
    /// hash.
    copied_content: Scratch,
    /// The copied events, until the rows are written.
    events: LineWriter,
    out: LineWriter,
}

impl Copier<'_> {
    fn copy(mut self, source: &ExportHeader, new: WorkspaceId) -> Result<WorkspaceCopy> {
        let mut hash = genesis();
        let mut pruning_event = None;
        let mut results = self.source.table_records(RESULTS_TABLE).peekable();
        for payload in self.source.event_payloads() {
            let payload = payload?;
            let columns = parse_event_columns(&payload)?;
            while let Some(result) = results.next_if(|row| is_created_up_to(row, columns.lsn)) {
                self.copy_result(&result?)?;
            }
            if columns.lsn == source.pruned_at {
                let declared: EventsPruned = serde_json::from_str(&payload).map_err(Error::internal)?;
                pruning_event = Some(EventsPruned { prev_hash: format_hash(&genesis()), ..declared });
            }
            hash = self.copy_event(&columns, &payload, hash)?;
        }
        for records in self.shared.table.records() {
            self.derive_ids(records, source.workspace_id, new)?;
        }
        let rows = |records: &&Records| records.is_copied() && records.name() != EVENTS_TABLE;
        for records in self.shared.table.records().iter().filter(rows) {
            for record in self.source.table_records(records.name()) {
                self.copy_row(records, record?)?;
            }
        }
        for payload in self.events.finish()?.lines.event_payloads() {
            write_event(&mut self.out, &payload?)?;
        }
        let mut header = ExportHeader { workspace_id: new, ..source.clone() };
        header.head.content_hash = format_hash(&hash);
        Ok(WorkspaceCopy { header, records: self.out.finish()?, pruning_event })
    }

    /// Copies a result: stores the new text under the old hash, and registers the new hash.
    fn copy_result(&self, record: &Map<String, Value>) -> Result<()> {
        let Some(text) = record.get("result").and_then(Value::as_str) else { return Ok(()) };
        let old = sha256(text.as_bytes());
        let new = self.copy_json(text)?;
        self.copied_content.put(&old, new.as_bytes())?;
        self.replacements.set_hash(old, sha256(new.as_bytes()))
    }

    /// Writes the copy of an event whose previous event has the hash `prev_hash`, and returns the copy's
    /// hash.
    fn copy_event(&mut self, columns: &EventColumns, payload: &str, prev_hash: [u8; 32]) -> Result<[u8; 32]> {
        let sealed = if has_content(&columns.kind) { self.reseal_event_content(payload)? } else { None };
        let renamed = self.replacements.replace_in(payload)?;
        let mut payload: Value = serde_json::from_str(&renamed).map_err(Error::internal)?;
        if let Some(link) = payload.pointer_mut("/$chain/prev_hash") {
            *link = format_hash(&prev_hash).into();
        }
        if let (Some(sealed), Some(words)) = (sealed, payload.get_mut("sealed")) {
            *words = sealed.into();
        }
        let payload = canonical::to_string(&payload)?;
        let hash = write_event(&mut self.events, &payload)?.content_hash;
        self.replacements.set_hash(columns.content_hash, hash)?;
        Ok(hash)
    }

    /// Returns the content of an event, sealed under the message's new key, or `None` if the event has no
    /// content.
    fn reseal_event_content(&self, payload: &str) -> Result<Option<String>> {
        let payload: Value = serde_json::from_str(payload).map_err(Error::internal)?;
        let id = payload.get("message_id").and_then(|id| id.as_str()?.parse().ok());
        let edit = payload.get("edit").and_then(Value::as_i64).unwrap_or(0);
        let sealed = payload.get("sealed").and_then(Value::as_str);
        let (Some(id), Some(sealed)) = (id, sealed) else { return Ok(None) };
        self.reseal_content(id, edit, sealed)
    }

    /// Returns the copy of a result's text.
    fn copy_result_text(&self, text: &str) -> Result<String> {
        match self.copied_content.get(&sha256(text.as_bytes()))? {
            Some(new) => String::from_utf8(new).map_err(Error::internal),
            None => self.copy_json(text),
        }
    }

    /// Returns content sealed under the message's new key, or `None` if the content cannot be unsealed.
    ///
    /// Repeated calls return the same bytes.
    fn reseal_content(&self, message: Uuid, edit: i64, sealed: &str) -> Result<Option<String>> {
        let place = [message.as_bytes().as_slice(), &edit.to_be_bytes()].concat();
        if let Some(known) = self.copied_content.get::<Vec<u8>>(&place)? {
            return Ok(Some(STANDARD.encode(known)));
        }
        let Some([old, new]) = self.load_old_and_new_key(message)? else { return Ok(None) };
        let Ok(sealed) = STANDARD.decode(sealed) else { return Ok(None) };
        let from = (MessageId::from(message), old);
        let to = (MessageId::from(self.replacements.replacement_id(message)?), new);
        let resealed = reseal(&self.shared.sealer, from, to, edit, &sealed, &|text| self.copy_json(text))?;
        let Ok(resealed) = resealed else { return Ok(None) };
        self.copied_content.put(&place, &resealed)?;
        Ok(Some(STANDARD.encode(resealed)))
    }

    /// Returns the old and the new key of a message, or `None` if the file contains no key for it.
    fn load_old_and_new_key(&self, message: Uuid) -> Result<Option<[[u8; 32]; 2]>> {
        let keys: Option<[u8; 64]> = self.keys.get(message.as_bytes())?;
        Ok(keys.and_then(|keys| {
            let (old, new) = keys.split_at_checked(32)?;
            Some([old.try_into().ok()?, new.try_into().ok()?])
        }))
    }

    /// Returns canonical JSON in which the ids and hashes of the file are replaced.
    fn copy_json(&self, text: &str) -> Result<String> {
        let renamed = self.replacements.replace_in(text)?;
        let value: Value = serde_json::from_str(&renamed).map_err(Error::internal)?;
        // Object members whose names are ids may sort differently now.
        canonical::to_string(&value)
    }

    /// Computes the replacements of ids that are derived from columns of rows.
    fn derive_ids(&self, records: &Records, old: WorkspaceId, new: WorkspaceId) -> Result<()> {
        let Some(ids_of) = records.derived_ids else { return Ok(()) };
        for record in self.source.table_records(records.name()) {
            let mut record = record?;
            let row = parse_record(records, &record)?;
            let before = ids_of(old, &RowColumns(&row.columns))?;
            self.replace_ids_in_texts(records, &mut record)?;
            let row = parse_record(records, &record)?;
            let after = ids_of(new, &RowColumns(&row.columns))?;
            before.into_iter().zip(after).try_for_each(|(old, new)| self.replacements.set_id(old, new))?;
        }
        Ok(())
    }

    fn copy_row(&mut self, records: &Records, mut record: Map<String, Value>) -> Result<()> {
        self.reseal_row(records, &mut record)?;
        self.replace_ids_in_texts(records, &mut record)?;
        for (name, class) in records.exported() {
            if let (Class::Id | Class::LaterId, Some(Value::String(id))) = (class, record.get_mut(name)) {
                *id = self.replacements.replacement_id(id.parse().map_err(Error::internal)?)?.to_string();
            }
        }
        let mut row = parse_record(records, &record)?;
        for (name, digest_of) in &records.digests {
            let digest = digest_of(&RowColumns(&row.columns))?;
            record.insert((*name).to_owned(), json!(STANDARD.encode(digest)));
            row.columns.insert(name, StoredValue::Bytes(digest.to_vec()));
        }
        let line = canonical::object_to_string(&record)?;
        write_line(&mut self.out, |out| out.row(records, &row, &line))
    }

    fn replace_ids_in_texts(&self, records: &Records, record: &mut Map<String, Value>) -> Result<()> {
        for (name, class) in records.exported() {
            let Some(Value::String(text)) = record.get_mut(name) else { continue };
            match class {
                Class::Words if records.name() == RESULTS_TABLE => *text = self.copy_result_text(text)?,
                Class::Text | Class::Words => *text = self.replacements.replace_in(text)?.into_owned(),
                // The file lacks some events of the old workspace. Hashes of those events are removed.
                Class::Hash => {
                    let new = self.replacements.replacement_hash(text)?;
                    record.insert(name.to_owned(), new.into());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Seals the content of a row under the message's new key, and replaces the key in the row.
    fn reseal_row(&self, records: &Records, record: &mut Map<String, Value>) -> Result<()> {
        let (id, edit) = match records.name() {
            MESSAGES_TABLE => ("id", "edits"),
            MESSAGE_EDITS_TABLE => ("message_id", "edit"),
            _ => return Ok(()),
        };
        let message: Option<Uuid> = record.get(id).and_then(|id| id.as_str()?.parse().ok());
        let Some(message) = message else { return Ok(()) };
        let edit = record.get(edit).and_then(Value::as_i64).unwrap_or(0);
        if let Some(sealed) = record.get("sealed").and_then(Value::as_str)
            && let Some(sealed) = self.reseal_content(message, edit, sealed)?
        {
            record.insert("sealed".to_owned(), sealed.into());
        }
        if let (Some(key), Some([_, new])) =
            (record.get_mut(CONTENT_KEY_MEMBER), self.load_old_and_new_key(message)?)
        {
            *key = STANDARD.encode(new).into();
        }
        Ok(())
    }
}

/// Writes the line of an event, and returns the columns that are derived from the event's payload.
fn write_event(writer: &mut LineWriter, payload: &str) -> Result<EventColumns> {
    let columns = parse_event_columns(payload)?;
    let mut line = Vec::new();
    push_event(&mut line, payload)?;
    let line = String::from_utf8(line).map_err(Error::internal)?;
    write_line(writer, |writer| writer.event(&columns, payload, &line))?;
    Ok(columns)
}

/// Writes a line. Fails with the writer's error if the line cannot be stored.
fn write_line(
    writer: &mut LineWriter,
    write: impl FnOnce(&mut LineWriter) -> Result<(), InvalidFile>,
) -> Result<()> {
    write(writer).map_err(|invalid| writer.take_error().unwrap_or_else(|| Error::internal(invalid.detail)))
}

fn parse_record(records: &Records, record: &Map<String, Value>) -> Result<ExportRow> {
    parse_row(records, record).map_err(|invalid| Error::internal(invalid.detail))
}

/// Returns whether a row was created at or before position `lsn`.
fn is_created_up_to(row: &Result<Map<String, Value>>, lsn: i64) -> bool {
    row.as_ref().map_or(true, |row| row.get("lsn").and_then(Value::as_i64).is_none_or(|at| at <= lsn))
}
