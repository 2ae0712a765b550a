//! Verifying an export: checks that it is complete, signed with a known key, and that its log verifies.
//!
//! Verification needs no database, because the file contains everything that is compared.

use std::cmp::Ordering;
use std::io::Read;
use std::mem::take;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::form::{
    EVENTS_TABLE, ExportHeader, ExportSection, Manifest, SectionDigest, signed_text, signing_key_name,
};
use super::invalid::{InvalidFile, InvalidReason, reason_for_field};
use super::read::{FileTrailer, PartReceiver, Record, read_parts};
use super::row::{ExportRow, TABLE_MEMBER, WORKSPACES_TABLE, parse_row, table_index};
use crate::hash::{format_hash, parse_hash, sha256};
use crate::id::WorkspaceId;
use crate::log::canonical;
use crate::log::signed_note::{self, NoteDefect, PublicKey};
use crate::log::verify::{EventColumns, PayloadVerifier};
use crate::op::Records;
use crate::store::Value as StoredValue;

/// The report on a verified export.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct ExportReport {
    /// Always true: a file that does not verify is refused.
    pub valid: bool,
    /// The header of the file.
    #[schemars(with = "ExportHeader")]
    pub header: ExportHeader,
    /// The sections of the file, each with the table, number and digest of its records.
    pub sections: Vec<ExportSection>,
    /// The number of events in the file.
    pub events: u64,
    /// The public key that signed the file, as base64.
    pub signed_by: String,
    /// The text that the signature covers.
    #[serde(skip)]
    pub(super) signed_text: String,
}

/// Receives the records of a file, each after its validation.
pub(super) trait RecordReceiver {
    /// Receives a row, and its record as canonical JSON.
    fn row(&mut self, records: &Records, row: &ExportRow, record: &str) -> Result<(), InvalidFile>;
    /// Receives an event, and its record as canonical JSON.
    fn event(&mut self, columns: &EventColumns, payload: &str, record: &str) -> Result<(), InvalidFile>;
}

/// Discards all records.
impl RecordReceiver for () {
    fn row(&mut self, _: &Records, _: &ExportRow, _: &str) -> Result<(), InvalidFile> {
        Ok(())
    }

    fn event(&mut self, _: &EventColumns, _: &str, _: &str) -> Result<(), InvalidFile> {
        Ok(())
    }
}

/// Verifies a file and passes its records to `rows`. The records are valid only if this function succeeds.
///
/// One thread splits the file into records and another verifies them. Both threads parse records.
pub(super) fn verify(
    file: impl Read,
    declared: &[Records],
    keys: &[PublicKey],
    rows: &mut (dyn RecordReceiver + Send),
) -> Result<ExportReport, InvalidFile> {
    let (batches, received) = sync_channel(WAITING_BATCHES_MAX);
    thread::scope(|scope| {
        let verifier = FileVerifier {
            declared,
            rows,
            header: None,
            log: None,
            section: None,
            sections: Vec::new(),
            records: 0,
        };
        let run = move || verifier.verify_all(&received);
        let verifier = thread::Builder::new().name("svc-verify".to_owned()).spawn_scoped(scope, run);
        let verifier = verifier.map_err(|_| InvalidFile::not_stored())?;
        let mut sender = PartSender { batches, batch: Vec::new(), bytes: 0 };
        let read = read_parts(file, &mut sender);
        // An error in a record takes precedence over a later error in the structure of the file.
        let sent = sender.send_batch();
        drop(sender);
        let verifier = verifier.join().unwrap_or_else(|_| Err(InvalidFile::not_stored()))?;
        let FileTrailer { manifest, signature } = read?;
        sent?;
        verifier.finish(manifest, &signature, keys)
    })
}

/// Number of bytes of records at which a batch is passed to the verifying thread.
const BATCH_BYTES: usize = 64 << 10;
/// Maximum number of parts in a batch.
const BATCH_PARTS: usize = 256;
/// Number of bytes of a batch from which the sender waits until the batch was received.
const LARGE_BATCH_BYTES: usize = 1 << 20;
/// Maximum number of batches that wait to be verified.
const WAITING_BATCHES_MAX: usize = 4;

/// The header or a record of a file, as passed to the verifying thread.
enum FilePart {
    ExportHeader(ExportHeader),
    /// A record that was not parsed yet.
    Text(Vec<u8>),
    /// An event: its payload, its columns if the payload can be parsed, and its record as canonical JSON.
    Event(String, Option<EventColumns>, String),
    /// Any other record, and its canonical JSON; `None` if it contains a number that exports never contain.
    Record(Map<String, Value>, Option<String>),
    /// A value that is not a valid record.
    Invalid(InvalidFile),
}

impl FilePart {
    /// Parses the record if it was not parsed yet.
    fn parse(self) -> Self {
        let Self::Text(text) = self else { return self };
        match Record::parse(&text) {
            Ok(Record::Event(payload, line)) => {
                let columns = EventColumns::of(&payload);
                Self::Event(payload, columns, line)
            }
            Ok(Record::Object(record)) => {
                let line = canonical::object_to_string(&record).ok();
                Self::Record(record, line)
            }
            Err(invalid) => Self::Invalid(invalid),
        }
    }
}

/// Sends the header and records of a file to the thread that verifies them.
struct PartSender {
    batches: SyncSender<Vec<FilePart>>,
    batch: Vec<FilePart>,
    bytes: usize,
}

impl PartSender {
    fn add(&mut self, part: FilePart) -> Result<(), InvalidFile> {
        self.batch.push(part);
        let is_enough = self.bytes >= BATCH_BYTES || self.batch.len() >= BATCH_PARTS;
        if is_enough { self.send_batch() } else { Ok(()) }
    }

    /// Sends the batch to the verifying thread.
    ///
    /// If that thread is behind, this thread parses the records instead of waiting.
    fn send_batch(&mut self) -> Result<(), InvalidFile> {
        let is_large = take(&mut self.bytes) >= LARGE_BATCH_BYTES;
        let sent = match self.batches.try_send(take(&mut self.batch)) {
            Err(TrySendError::Full(batch)) => {
                let prepared = batch.into_iter().map(FilePart::parse).collect();
                self.batches.send(prepared).is_ok()
            }
            sent => sent.is_ok(),
        };
        // Sending the maximum number of empty batches ensures that the large batch was received.
        let sent =
            sent && (!is_large || (0..WAITING_BATCHES_MAX).all(|_| self.batches.send(Vec::new()).is_ok()));
        // If the verifying thread has ended, it has found a fault in an earlier record.
        if sent { Ok(()) } else { Err(InvalidFile::not_stored()) }
    }
}

impl PartReceiver for PartSender {
    fn header(&mut self, header: ExportHeader) -> Result<(), InvalidFile> {
        self.add(FilePart::ExportHeader(header))
    }

    fn record(&mut self, text: &[u8]) -> Result<(), InvalidFile> {
        self.bytes = self.bytes.saturating_add(text.len());
        self.add(FilePart::Text(text.to_owned()))
    }
}

struct FileVerifier<'v> {
    declared: &'v [Records],
    rows: &'v mut (dyn RecordReceiver + Send),
    header: Option<ExportHeader>,
    log: Option<PayloadVerifier>,
    /// The section that is being read.
    section: Option<OpenSection>,
    sections: Vec<ExportSection>,
    /// Number of records received.
    records: u64,
}

struct OpenSection {
    /// The index of the section's table among the declarations.
    place: usize,
    digest: SectionDigest,
    /// The key of the last row.
    last: Option<Vec<StoredValue>>,
}

impl<'v> FileVerifier<'v> {
    /// Verifies the parts that the other thread sends, until it has sent all parts. Fails with the first
    /// fault.
    fn verify_all(mut self, batches: &Receiver<Vec<FilePart>>) -> Result<Self, InvalidFile> {
        while let Ok(batch) = batches.recv() {
            batch.into_iter().try_for_each(|part| self.verify_part(part))?;
        }
        Ok(self)
    }

    /// Verifies the header or a record. An error contains the number of the faulty record.
    fn verify_part(&mut self, part: FilePart) -> Result<(), InvalidFile> {
        if let FilePart::ExportHeader(header) = part {
            return self.accept_header(header);
        }
        self.records = self.records.saturating_add(1);
        let number = Some(self.records);
        let taken = match part.parse() {
            FilePart::Invalid(invalid) => Err(invalid),
            FilePart::ExportHeader(_) | FilePart::Text(_) => Ok(()),
            FilePart::Event(payload, columns, line) => {
                let opened = self
                    .exported_table_index(EVENTS_TABLE)
                    .and_then(|place| self.add_to_section(place, &line));
                opened.and_then(|_| self.verify_event(&payload, columns, &line))
            }
            FilePart::Record(record, line) => self.verify_record(record, line),
        };
        taken.map_err(|invalid| InvalidFile { record: number, ..invalid })
    }

    /// Stores the header, and begins to verify the log that it describes.
    fn accept_header(&mut self, header: ExportHeader) -> Result<(), InvalidFile> {
        self.log = Some(PayloadVerifier::new(header.workspace_id, header.floor, header.pruned_at));
        self.header = Some(header);
        Ok(())
    }

    fn verify_record(
        &mut self,
        mut record: Map<String, Value>,
        line: Option<String>,
    ) -> Result<(), InvalidFile> {
        let kind = record.get(TABLE_MEMBER).and_then(Value::as_str).unwrap_or_default();
        let place = self.exported_table_index(kind)?;
        let line = line.ok_or_else(|| {
            InvalidFile::new(InvalidReason::UnknownField, "the record has a number that no export has")
        })?;
        let records = self.add_to_section(place, &line)?;
        if records.table != EVENTS_TABLE {
            return self.verify_row(records, &record, &line);
        }
        let unknown = record.keys().find(|name| ![TABLE_MEMBER, "payload"].contains(&name.as_str()));
        if let Some(name) = unknown {
            return Err(InvalidFile::new(reason_for_field(name), format!("an event has no {name:?}")));
        }
        let Some(Value::String(payload)) = record.remove("payload") else {
            return Err(InvalidFile::new(InvalidReason::UnknownField, "an event has a payload, as text"));
        };
        self.verify_event(&payload, EventColumns::of(&payload), &line)
    }

    /// Returns the index of an exported table among the declarations.
    fn exported_table_index(&self, kind: &str) -> Result<usize, InvalidFile> {
        let leaves = |place: &usize| self.declared.get(*place).is_some_and(Records::leaves);
        let last = self.section.as_ref().map_or(0, |section| section.place);
        let place = table_index(self.declared, kind, last).filter(leaves);
        place.ok_or_else(|| {
            InvalidFile::new(reason_for_field(kind), format!("no export has records of {kind:?}"))
        })
    }

    /// Adds a record to the section of its table, and begins that section if necessary. Returns the table's
    /// declaration.
    fn add_to_section(&mut self, place: usize, line: &str) -> Result<&'v Records, InvalidFile> {
        self.enter_section(place)?;
        if let Some(section) = &mut self.section {
            section.digest.add(line.as_bytes());
        }
        let declared = self.declared;
        declared
            .get(place)
            .ok_or_else(|| InvalidFile::new(InvalidReason::UnknownField, "there is no such table"))
    }

    /// Begins the section of a table, unless it is the current one.
    fn enter_section(&mut self, place: usize) -> Result<(), InvalidFile> {
        match &self.section {
            Some(open) if open.place == place => return Ok(()),
            Some(_) => self.close_section(),
            None => {}
        }
        let name = |place: usize| self.declared.get(place).map_or("", |records| records.table);
        let rank = |place: usize| (name(place) == EVENTS_TABLE, place);
        // Sections without records appear only in the manifest.
        if self.sections.iter().any(|section| {
            self.declared.iter().position(|records| records.table == section.record).map(rank)
                >= Some(rank(place))
        }) {
            return Err(InvalidFile::new(
                InvalidReason::Order,
                format!("the records of {} are out of order", name(place)),
            ));
        }
        self.section = Some(OpenSection { place, digest: SectionDigest::new(), last: None });
        Ok(())
    }

    fn close_section(&mut self) {
        if let Some(OpenSection { place, digest, .. }) = self.section.take() {
            let table = self.declared.get(place).map_or("", |records| records.table);
            self.sections.push(digest.into_section(table));
        }
    }

    fn verify_event(
        &mut self,
        payload: &str,
        columns: Option<EventColumns>,
        line: &str,
    ) -> Result<(), InvalidFile> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let next = log.position().saturating_add(1);
        let is_first = log.position() == 0;
        if columns.as_ref().is_some_and(|columns| columns.lsn != next && !is_first) {
            return Err(InvalidFile::new(
                InvalidReason::Order,
                format!("the event {next} is missing or out of order"),
            ));
        }
        log.accept(payload, columns.as_ref()).map_err(|broken| {
            let what = broken.defect.reason();
            InvalidFile::new(InvalidReason::Chain, format!("the log is broken at {}: {what}", broken.lsn))
        })?;
        // A payload that could not be parsed was not accepted.
        columns.map_or(Ok(()), |columns| self.rows.event(&columns, payload, line))
    }

    fn verify_row(
        &mut self,
        records: &Records,
        record: &Map<String, Value>,
        line: &str,
    ) -> Result<(), InvalidFile> {
        let row = parse_row(records, record)?;
        let key: Vec<StoredValue> =
            records.key().map(|name| row.columns.get(name).cloned().unwrap_or(StoredValue::Null)).collect();
        if let Some(open) = &mut self.section {
            let comes_after =
                open.last.as_ref().is_none_or(|last| compare_keys(last, &key) == Ordering::Less);
            if !comes_after {
                let detail = format!("the rows of {} are out of order", records.table);
                return Err(InvalidFile::new(InvalidReason::Order, detail));
            }
            open.last = Some(key);
        }
        let workspace = self.header.as_ref().map(|header| header.workspace_id);
        let named = [row.columns.get("workspace_id"), own_workspace_id(records, &row)];
        let is_other =
            |named: &&StoredValue| workspace.is_some_and(|own| **named != StoredValue::Uuid(own.uuid()));
        if named.iter().flatten().any(is_other) {
            let detail = format!("a row of {} is of another workspace", records.table);
            return Err(InvalidFile::new(InvalidReason::UnknownField, detail));
        }
        self.rows.row(records, &row, line)
    }

    fn finish(
        mut self,
        manifest: Manifest,
        signature: &str,
        keys: &[PublicKey],
    ) -> Result<ExportReport, InvalidFile> {
        self.close_section();
        let header = self
            .header
            .take()
            .ok_or_else(|| InvalidFile::new(InvalidReason::NotAnExport, "there is no header"))?;
        let (signed_by, signed_text) = self.check_signature(&header, &manifest, signature, keys)?;
        let mut found = self.sections.iter();
        for section in &manifest.sections {
            let is_same = section.count == 0 || found.next() == Some(section);
            if !is_same {
                let detail = format!("the records of {} are not those that were signed", section.record);
                return Err(InvalidFile::new(InvalidReason::Hash, detail));
            }
        }
        if let Some(more) = found.next() {
            let detail = format!("the records of {} are not in the manifest", more.record);
            return Err(InvalidFile::new(InvalidReason::Hash, detail));
        }
        let ends = parse_hash(&header.head.content_hash).zip(self.log.as_ref());
        let (hash, log) =
            ends.ok_or_else(|| InvalidFile::new(InvalidReason::Chain, "the head has no hash"))?;
        log.end((header.head.lsn, hash, header.head.at), header.words_floor).map_err(|broken| {
            let what = broken.defect.reason();
            InvalidFile::new(InvalidReason::Chain, format!("the log is broken at {}: {what}", broken.lsn))
        })?;
        let events = self.sections.iter().find(|section| section.record == EVENTS_TABLE);
        let events = events.map_or(0, |section| section.count);
        Ok(ExportReport { valid: true, header, sections: manifest.sections, events, signed_by, signed_text })
    }

    /// Checks that a known key has signed the header and the manifest.
    ///
    /// Returns the public key as base64, and the signed text.
    fn check_signature(
        &self,
        header: &ExportHeader,
        manifest: &Manifest,
        signature: &str,
        keys: &[PublicKey],
    ) -> Result<(String, String), InvalidFile> {
        use base64::Engine as _;
        let name = signing_key_name(header.workspace_id);
        let opened = keys.iter().find_map(|key| match signed_note::open(signature, &name, &[*key]) {
            Err(NoteDefect::UnknownKey) => None,
            outcome => Some(outcome.map(|text| (text, *key))),
        });
        let opened =
            opened.unwrap_or_else(|| signed_note::open(signature, &name, &[]).map(|text| (text, [0; 32])));
        let (text, key) = opened.map_err(|defect| {
            let reason = match defect {
                NoteDefect::UnknownKey => InvalidReason::UnknownKey,
                NoteDefect::Malformed | NoteDefect::BadSignature => InvalidReason::Signature,
            };
            InvalidFile::new(reason, format!("the signature is refused: {}", defect.reason()))
        })?;
        let is_signed = signed_text(header, manifest).is_ok_and(|signed| signed == text);
        if !is_signed {
            return Err(InvalidFile::new(
                InvalidReason::Hash,
                "the header and the manifest are not those that were signed",
            ));
        }
        Ok((base64::engine::general_purpose::STANDARD.encode(key), text.to_owned()))
    }
}

/// Returns the id in a row of the table `workspaces`, or `None` for a row of another table.
fn own_workspace_id<'r>(records: &Records, row: &'r ExportRow) -> Option<&'r StoredValue> {
    row.columns.get("id").filter(|_| records.table == WORKSPACES_TABLE)
}

/// Compares keys in the order that the database engines use.
fn compare_keys(left: &[StoredValue], right: &[StoredValue]) -> Ordering {
    let each = left.iter().zip(right).map(|pair| match pair {
        (StoredValue::Int(left), StoredValue::Int(right)) => left.cmp(right),
        (StoredValue::Bool(left), StoredValue::Bool(right)) => left.cmp(right),
        (StoredValue::Uuid(left), StoredValue::Uuid(right)) => left.cmp(right),
        (StoredValue::Text(left), StoredValue::Text(right)) => left.cmp(right),
        _ => Ordering::Equal,
    });
    each.fold(Ordering::Equal, Ordering::then)
}

impl ExportReport {
    /// Returns the workspace that was exported.
    pub fn workspace_id(&self) -> WorkspaceId {
        self.header.workspace_id
    }

    /// Returns the SHA-256 of the signed text, as `sha256:<hex>`. It does not depend on the file's
    /// formatting.
    pub fn digest(&self) -> String {
        format_hash(&sha256(self.signed_text.as_bytes()))
    }

    /// Returns the position and the hash of the last event in the exported log, as `LSN:HASH`.
    pub fn head(&self) -> String {
        format!("{}:{}", self.header.head.lsn, self.header.head.content_hash)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use proptest::prelude::*;
    use serde_json::json;
    use uuid::Uuid;

    use super::super::form::{ExportHead, ExportTexts, FORMAT_ID};
    use super::*;
    use crate::json::parse_with_limit;
    use crate::log::event::Subject;
    use crate::log::probe::log_of_probes;
    use crate::log::signed_note::NoteSigner;
    use crate::store::schema_version;
    use crate::time::Time;

    const EVENTS_MADE: i64 = 3;

    fn workspace() -> WorkspaceId {
        Uuid::from_u128(9).into()
    }

    fn signer() -> NoteSigner {
        NoteSigner::new(&[5; 32])
    }

    fn thing(n: usize, text: &str) -> String {
        json!({"n": n, "record": "things", "text": text}).to_string()
    }

    fn things() -> [String; 3] {
        [thing(1, "a"), thing(2, "b\u{1}\"\\"), thing(3, "{")]
    }

    fn events() -> Vec<String> {
        let log = log_of_probes(workspace(), Subject::default(), EVENTS_MADE);
        log.iter().map(|event| json!({"payload": event.payload, "record": "events"}).to_string()).collect()
    }

    /// Returns the text of a file with these records, signed over the result of `signed` for each.
    fn file_signed(things: &[String], events: &[String], signed: fn(&str) -> String) -> String {
        let log = log_of_probes(workspace(), Subject::default(), EVENTS_MADE);
        let last = log.last().unwrap();
        let head = ExportHead { lsn: last.lsn, content_hash: format_hash(&last.content_hash), at: last.at };
        let header = ExportHeader {
            schema: schema_version(),
            exported_at: Time::from_micros(1_795_000_000_000_000),
            workspace_id: workspace(),
            floor: 1,
            pruned_at: 0,
            words_floor: 0,
            head,
            audit_seq: 0,
            words: ExportTexts::All,
        };
        let mut manifest = Manifest::default();
        for (table, records) in [("things", things), (EVENTS_TABLE, events)] {
            let mut digest = SectionDigest::new();
            records.iter().for_each(|record| digest.add(signed(record).as_bytes()));
            manifest.sections.push(digest.into_section(table));
        }
        let note = signer().sign(&signing_key_name(workspace()), &signed_text(&header, &manifest).unwrap());
        let records = [things, events].concat().join(",\n");
        let header = json!(header);
        let manifest = json!(manifest);
        format!(
            "{{\"type\":\"{FORMAT_ID}\",\n\"header\":{header},\n\"records\":[\n{records}\n],\n\
             \"manifest\":{manifest},\n\"signature\":{}}}\n",
            json!(note)
        )
    }

    fn file() -> String {
        file_signed(&things(), &events(), str::to_owned)
    }

    fn check(file: impl Read) -> Result<ExportReport, InvalidFile> {
        let declared = [
            Records::table("things", "n").ints("n").texts("text"),
            Records::table(EVENTS_TABLE, "lsn").ints("lsn").texts("payload"),
        ];
        verify(file, &declared, &[signer().public()], &mut ())
    }

    /// A reader that returns a fixed number of bytes at a time, with occasional interruptions.
    struct Slow<'t>(&'t [u8], usize, usize);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.2 += 1;
            if self.2.is_multiple_of(3) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let size = self.1.min(into.len()).min(self.0.len());
            let (now, later) = self.0.split_at(size);
            into[..size].copy_from_slice(now);
            self.0 = later;
            Ok(size)
        }
    }

    /// Generates an insertion into a file, with its position.
    fn any_edit() -> impl Strategy<Value = (usize, usize, &'static str)> {
        let pieces = prop::sample::select(vec![
            "",
            " ",
            "\n",
            "\r\t",
            "\"",
            "\\",
            "\\\\",
            "{}",
            "]",
            "}",
            ":",
            ",",
            "null",
            "1",
            "e1",
            ".0",
            "-",
            "\\u0061",
            "\\ud800",
            "/",
            "\u{c}",
            "\"a\":1,",
            ",\"record\":\"events\"",
            "{\"payload\":",
        ]);
        (any::<usize>(), prop_oneof![4 => Just(0_usize), 1 => 1_usize..30], pieces)
    }

    proptest! {
        #[test]
        fn a_changed_file_verifies_only_if_it_is_the_same_value(
            edits in prop::collection::vec(any_edit(), 1..3),
        ) {
            let mut bytes = file().into_bytes();
            for (at, removed, piece) in edits {
                let at = at % bytes.len();
                bytes.splice(at..(at + removed).min(bytes.len()), piece.bytes());
            }
            let original = Some(serde_json::from_str(&file()).unwrap());
            let is_same = parse_with_limit(&bytes, 10_000).ok() == original;
            let result = check(&*bytes);
            prop_assert_eq!(result.is_ok(), is_same, "{:?}: {}", result, String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn however_it_is_formatted_it_verifies(
            spaces in prop::collection::vec("[ \n\t\r]{0,2}", 1..40),
            step in 1_usize..100,
        ) {
            let mut formatted = String::new();
            let mut is_text = false;
            let mut is_escaped = false;
            let mut spaces = spaces.iter().cycle();
            for char in file().chars() {
                let is_sign = !is_text && "{}[]:,".contains(char);
                if is_sign {
                    formatted.push_str(spaces.next().unwrap());
                }
                formatted.push(char);
                if is_sign {
                    formatted.push_str(spaces.next().unwrap());
                }
                is_text ^= char == '"' && !is_escaped;
                is_escaped = char == '\\' && !is_escaped;
            }
            let result = check(Slow(formatted.as_bytes(), step, 0));
            prop_assert!(result.is_ok(), "{:?}: {}", result, formatted);
        }
    }

    #[test]
    fn what_is_signed_is_the_canonical_form() {
        let spaced: Vec<String> = events().iter().map(|event| event.replace(",\"rec", "\n,\"rec")).collect();
        let canonical =
            |record: &str| canonical::to_string(&json!(serde_json::from_str::<Value>(record).unwrap()));
        assert_eq!(canonical(&spaced[0]).unwrap(), events()[0]);
        check(file_signed(&things(), &spaced, |record| record.replace('\n', "")).as_bytes()).unwrap();
        let refused = check(file_signed(&things(), &spaced, str::to_owned).as_bytes()).unwrap_err();
        assert_eq!(refused.reason, InvalidReason::Hash);
    }

    #[test]
    fn a_whole_file_with_a_changed_bit_is_not_called_truncated() {
        let file = file();
        let records = file.find("\"n\":1").unwrap()..file.find("\n],").unwrap();
        for place in records.step_by(3) {
            for bit in 0..7 {
                let mut bytes = file.clone().into_bytes();
                bytes[place] ^= 1 << bit;
                let refused = check(&*bytes).unwrap_err();
                assert_ne!(refused.reason, InvalidReason::Truncated, "{place} {bit}: {refused:?}");
            }
        }
    }

    #[test]
    fn what_is_wrong_with_a_record_comes_before_what_is_wrong_with_the_file() {
        let many = format!("{{\"n\":[{}]}}", ["{}"; 20_000].join(","));
        for place in [0, 1, 299, 999] {
            for (wrong, reason) in [
                ("{\"n\":1x}", InvalidReason::NotAnExport),
                ("{\"n\":1,\"n\":2}", InvalidReason::NotAnExport),
                (many.as_str(), InvalidReason::NotAnExport),
                ("[]", InvalidReason::NotAnExport),
                ("{\"record\":\"nothing\"}", InvalidReason::UnknownField),
                (&*thing(0, ""), InvalidReason::Order),
            ] {
                for tail in ["{\"n\":", "]x", "],\"header\":1}", ""] {
                    let mut records: Vec<String> = (1..1000).map(|n| thing(n, "text")).collect();
                    records.insert(place, wrong.to_owned());
                    let file = file();
                    let begin = &file[..file.find("\n{\"n\":1").unwrap()];
                    let refused =
                        check(format!("{begin}{}{tail}", records.join(",")).as_bytes()).unwrap_err();
                    // A first record cannot be out of order.
                    if (place, reason) != (0, InvalidReason::Order) {
                        let number = u64::try_from(place + 1).unwrap();
                        assert_eq!(
                            (refused.reason, refused.record),
                            (reason, Some(number)),
                            "{wrong:.50} {tail}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn what_came_before_the_source_failed_counts() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("broken pipe"))
            }
        }
        let file = file_signed(&[thing(1, "a"), thing(1, "b")], &events(), str::to_owned);
        let begin = &file[..file.find("\n],").unwrap()];
        let refused = check(begin.as_bytes().chain(Fails)).unwrap_err();
        assert_eq!((refused.reason, refused.record), (InvalidReason::Order, Some(2)));
    }
}
