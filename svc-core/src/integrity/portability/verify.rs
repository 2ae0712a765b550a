//! Verifying an export: that it is whole, that a known key has signed it, and that its log verifies.
//!
//! It needs no database: everything that is compared is in the file.

use std::cmp::Ordering;
use std::io::Read;
use std::mem::take;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::form::{EVENTS, Header, Manifest, Section, SectionDigest, key_name, signed_text};
use super::read::{Ended, Invalid, Parts, Reason, Record, read_parts, reason_for};
use super::row::{RECORD, Row, WORKSPACES, checked};
use crate::hash::{hash_text, parse_hash, sha256};
use crate::id::WorkspaceId;
use crate::log::canonical;
use crate::log::note::{self, NoteDefect, PublicKey};
use crate::log::verify::{EventColumns, PayloadVerifier};
use crate::op::Records;
use crate::store::{Value as Stored, schema_version};

/// What was found of a file that verifies.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExportReport {
    /// True: a file that does not verify is refused.
    pub valid: bool,
    /// The header of the file.
    #[schemars(with = "Header")]
    pub(crate) header: Header,
    /// The kinds of records that it has, and how many.
    pub(crate) sections: Vec<Section>,
    /// The number of events.
    pub events: u64,
    /// The public key that has signed it, as base64.
    pub signed_by: String,
    /// The text that was signed.
    #[serde(skip)]
    pub(super) signed: String,
}

/// Takes what a file has, once it is known to be in order.
pub(super) trait Rows {
    /// Takes a row, and its record as canonical JSON.
    fn row(&mut self, records: &Records, row: &Row, record: &str) -> Result<(), Invalid>;
    /// Takes an event, and its record as canonical JSON.
    fn event(&mut self, columns: &EventColumns, payload: &str, record: &str) -> Result<(), Invalid>;
}

/// Keeps nothing.
impl Rows for () {
    fn row(&mut self, _: &Records, _: &Row, _: &str) -> Result<(), Invalid> {
        Ok(())
    }

    fn event(&mut self, _: &EventColumns, _: &str, _: &str) -> Result<(), Invalid> {
        Ok(())
    }
}

/// Verifies a file, and hands what it has to `rows`; nothing of that counts unless it succeeds.
///
/// One thread cuts the file into records, another one verifies them, and whoever has time reads them.
pub(super) fn verify(
    file: impl Read,
    declared: &[Records],
    keys: &[PublicKey],
    rows: &mut (dyn Rows + Send),
) -> Result<ExportReport, Invalid> {
    let (batches, received) = sync_channel(WAITING_MAX);
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
        let run = move || verifier.take_all(&received);
        let verifier = thread::Builder::new().name("svc-verify".to_owned()).spawn_scoped(scope, run);
        let verifier = verifier.map_err(|_| Invalid::not_kept())?;
        let mut sender = PartSender { batches, batch: Vec::new(), bytes: 0 };
        let read = read_parts(file, &mut sender);
        // What was read before something is found wrong with the form of the file comes first.
        let sent = sender.hand_over();
        drop(sender);
        let verifier = verifier.join().unwrap_or_else(|_| Err(Invalid::not_kept()))?;
        let Ended { manifest, signature } = read?;
        sent?;
        verifier.end(manifest, &signature, keys)
    })
}

/// Bytes of parts that are handed over together.
const BATCH_BYTES: usize = 64 << 10;
/// Most parts that are, as what was read may have been read before.
const BATCH_PARTS: usize = 256;
/// Batches that wait to be verified.
const WAITING_MAX: usize = 4;

enum Part {
    Header(Header),
    /// A record that nobody has read.
    Text(Vec<u8>),
    /// An event: its payload, what that says of it if it can be read, and its record as canonical JSON.
    Event(String, Option<EventColumns>, String),
    /// A record, and that as canonical JSON, unless it has a number that no export has.
    Record(Map<String, Value>, Option<String>),
    /// Something that is no record.
    Unread(Invalid),
}

impl Part {
    /// Reads a record, if nobody has.
    fn prepared(self) -> Self {
        let Self::Text(text) = self else { return self };
        match Record::of(&text) {
            Ok(Record::Event(payload, line)) => {
                let columns = EventColumns::of(&payload);
                Self::Event(payload, columns, line)
            }
            Ok(Record::Object(record)) => {
                let line = canonical::of_object(&record).ok();
                Self::Record(record, line)
            }
            Err(invalid) => Self::Unread(invalid),
        }
    }
}

/// Hands the parts of a file over to the thread that verifies them.
struct PartSender {
    batches: SyncSender<Vec<Part>>,
    batch: Vec<Part>,
    bytes: usize,
}

impl PartSender {
    fn add(&mut self, part: Part) -> Result<(), Invalid> {
        self.batch.push(part);
        let is_enough = self.bytes >= BATCH_BYTES || self.batch.len() >= BATCH_PARTS;
        if is_enough { self.hand_over() } else { Ok(()) }
    }

    /// Hands the batch over. If the other thread is behind, the records are read here: this one would wait.
    fn hand_over(&mut self) -> Result<(), Invalid> {
        self.bytes = 0;
        let sent = match self.batches.try_send(take(&mut self.batch)) {
            Err(TrySendError::Full(batch)) => {
                let prepared = batch.into_iter().map(Part::prepared).collect();
                self.batches.send(prepared).is_ok()
            }
            sent => sent.is_ok(),
        };
        // If nobody takes it, something is wrong with a part before it.
        if sent { Ok(()) } else { Err(Invalid::not_kept()) }
    }
}

impl Parts for PartSender {
    fn header(&mut self, header: Header) -> Result<(), Invalid> {
        self.add(Part::Header(header))
    }

    fn record(&mut self, text: &[u8]) -> Result<(), Invalid> {
        self.bytes = self.bytes.saturating_add(text.len());
        self.add(Part::Text(text.to_owned()))
    }
}

struct FileVerifier<'v> {
    declared: &'v [Records],
    rows: &'v mut (dyn Rows + Send),
    header: Option<Header>,
    log: Option<PayloadVerifier>,
    /// The section that is being read.
    section: Option<Open>,
    sections: Vec<Section>,
    /// How many records it was given.
    records: u64,
}

struct Open {
    /// The place of its table among the declarations.
    place: usize,
    digest: SectionDigest,
    /// The key of the last row.
    last: Option<Vec<Stored>>,
}

impl<'v> FileVerifier<'v> {
    /// Takes parts until there are no more. Fails with what is wrong with one of them.
    fn take_all(mut self, batches: &Receiver<Vec<Part>>) -> Result<Self, Invalid> {
        while let Ok(batch) = batches.recv() {
            batch.into_iter().try_for_each(|part| self.take(part))?;
        }
        Ok(self)
    }

    fn take(&mut self, part: Part) -> Result<(), Invalid> {
        if let Part::Header(header) = part {
            return self.header(header);
        }
        self.records = self.records.saturating_add(1);
        let number = Some(self.records);
        let taken = match part.prepared() {
            Part::Unread(invalid) => Err(invalid),
            Part::Header(_) | Part::Text(_) => Ok(()),
            Part::Event(payload, columns, line) => {
                self.open(EVENTS, &line).and_then(|_| self.event(&payload, columns, &line))
            }
            Part::Record(record, line) => self.record(record, line),
        };
        taken.map_err(|invalid| Invalid { record: number, ..invalid })
    }

    fn header(&mut self, header: Header) -> Result<(), Invalid> {
        if header.schema > schema_version() {
            let detail = format!(
                "the file is of a newer version (schema {}; this one has {})",
                header.schema,
                schema_version()
            );
            return Err(Invalid::new(Reason::NotAnExport, detail));
        }
        self.log = Some(PayloadVerifier::new(header.workspace_id, header.floor, header.pruned_at));
        self.header = Some(header);
        Ok(())
    }

    fn record(&mut self, mut record: Map<String, Value>, line: Option<String>) -> Result<(), Invalid> {
        let kind = record.get(RECORD).and_then(Value::as_str).unwrap_or_default();
        self.place_of(kind)?;
        let line = line.ok_or_else(|| {
            Invalid::new(Reason::UnknownField, "the record has a number that no export has")
        })?;
        let records = self.open(kind, &line)?;
        if records.table != EVENTS {
            return self.row(records, &record, &line);
        }
        let unknown = record.keys().find(|name| ![RECORD, "payload"].contains(&name.as_str()));
        if let Some(name) = unknown {
            return Err(Invalid::new(reason_for(name), format!("an event has no {name:?}")));
        }
        let Some(Value::String(payload)) = record.remove("payload") else {
            return Err(Invalid::new(Reason::UnknownField, "an event has a payload, as text"));
        };
        self.event(&payload, EventColumns::of(&payload), &line)
    }

    /// Returns the place of a table among the declarations; most often it is that of the record before.
    fn place_of(&self, kind: &str) -> Result<usize, Invalid> {
        let is_of_kind =
            |place: &usize| self.declared.get(*place).is_some_and(|records| records.table == kind);
        if let Some(place) = self.section.as_ref().map(|section| section.place).filter(is_of_kind) {
            return Ok(place);
        }
        let place = self.declared.iter().position(|records| records.table == kind && records.leaves());
        place.ok_or_else(|| Invalid::new(reason_for(kind), format!("no export has records of {kind:?}")))
    }

    /// Adds a record to the section of its table, which begins with it or goes on.
    fn open(&mut self, kind: &str, line: &str) -> Result<&'v Records, Invalid> {
        let place = self.place_of(kind)?;
        self.enter(place)?;
        if let Some(section) = &mut self.section {
            section.digest.add(line.as_bytes());
        }
        let declared = self.declared;
        declared.get(place).ok_or_else(|| Invalid::new(Reason::UnknownField, format!("no table {kind}")))
    }

    /// Enters the section of a table, if it is not in it.
    fn enter(&mut self, place: usize) -> Result<(), Invalid> {
        match &self.section {
            Some(open) if open.place == place => return Ok(()),
            Some(_) => self.close(),
            None => {}
        }
        let name = |place: usize| self.declared.get(place).map_or("", |records| records.table);
        let rank = |place: usize| (name(place) == EVENTS, place);
        // Sections without records are in the manifest alone.
        if self.sections.iter().any(|section| {
            self.declared.iter().position(|records| records.table == section.record).map(rank)
                >= Some(rank(place))
        }) {
            return Err(Invalid::new(Reason::Order, format!("the records of {} come too late", name(place))));
        }
        self.section = Some(Open { place, digest: SectionDigest::new(), last: None });
        Ok(())
    }

    fn close(&mut self) {
        if let Some(Open { place, digest, .. }) = self.section.take() {
            let table = self.declared.get(place).map_or("", |records| records.table);
            self.sections.push(digest.section(table));
        }
    }

    fn event(&mut self, payload: &str, columns: Option<EventColumns>, line: &str) -> Result<(), Invalid> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let next = log.position().saturating_add(1);
        let is_first = log.position() == 0;
        if columns.as_ref().is_some_and(|columns| columns.lsn != next && !is_first) {
            return Err(Invalid::new(Reason::Order, format!("the event {next} is not where it should be")));
        }
        log.accept(payload, columns.as_ref()).map_err(|broken| {
            let what = broken.defect.reason();
            Invalid::new(Reason::Chain, format!("the log is broken at {}: {what}", broken.lsn))
        })?;
        // What could not be read was not accepted.
        columns.map_or(Ok(()), |columns| self.rows.event(&columns, payload, line))
    }

    fn row(&mut self, records: &Records, record: &Map<String, Value>, line: &str) -> Result<(), Invalid> {
        let row = checked(records, record)?;
        let key: Vec<Stored> =
            records.key().map(|name| row.columns.get(name).cloned().unwrap_or(Stored::Null)).collect();
        if let Some(open) = &mut self.section {
            let comes_after = open.last.as_ref().is_none_or(|last| compared(last, &key) == Ordering::Less);
            if !comes_after {
                let detail = format!("the rows of {} are not in their order", records.table);
                return Err(Invalid::new(Reason::Order, detail));
            }
            open.last = Some(key);
        }
        let workspace = self.header.as_ref().map(|header| header.workspace_id);
        let named = [row.columns.get("workspace_id"), workspace_of_its_own(records, &row)];
        let is_other = |named: &&Stored| workspace.is_some_and(|own| **named != Stored::Uuid(own.uuid()));
        if named.iter().flatten().any(is_other) {
            let detail = format!("a row of {} is of another workspace", records.table);
            return Err(Invalid::new(Reason::UnknownField, detail));
        }
        self.rows.row(records, &row, line)
    }

    fn end(
        mut self,
        manifest: Manifest,
        signature: &str,
        keys: &[PublicKey],
    ) -> Result<ExportReport, Invalid> {
        self.close();
        let header =
            self.header.take().ok_or_else(|| Invalid::new(Reason::NotAnExport, "there is no header"))?;
        let (signed_by, signed) = self.check_signature(&header, &manifest, signature, keys)?;
        let mut found = self.sections.iter();
        for section in &manifest.sections {
            let is_same = section.count == 0 || found.next() == Some(section);
            if !is_same {
                let detail = format!("the records of {} are not those that were signed", section.record);
                return Err(Invalid::new(Reason::Hash, detail));
            }
        }
        if let Some(more) = found.next() {
            let detail = format!("the records of {} are not in the manifest", more.record);
            return Err(Invalid::new(Reason::Hash, detail));
        }
        let ends = parse_hash(&header.head.content_hash).zip(self.log.as_ref());
        let (hash, log) = ends.ok_or_else(|| Invalid::new(Reason::Chain, "the head has no hash"))?;
        log.end((header.head.lsn, hash, header.head.at), header.words_floor).map_err(|broken| {
            let what = broken.defect.reason();
            Invalid::new(Reason::Chain, format!("the log is broken at {}: {what}", broken.lsn))
        })?;
        let events = self.sections.iter().find(|section| section.record == EVENTS);
        let events = events.map_or(0, |section| section.count);
        Ok(ExportReport { valid: true, header, sections: manifest.sections, events, signed_by, signed })
    }

    fn check_signature(
        &self,
        header: &Header,
        manifest: &Manifest,
        signature: &str,
        keys: &[PublicKey],
    ) -> Result<(String, String), Invalid> {
        use base64::Engine as _;
        let name = key_name(header.workspace_id);
        let opened = keys.iter().find_map(|key| match note::open(signature, &name, &[*key]) {
            Err(NoteDefect::UnknownKey) => None,
            outcome => Some(outcome.map(|text| (text, *key))),
        });
        let opened = opened.unwrap_or_else(|| note::open(signature, &name, &[]).map(|text| (text, [0; 32])));
        let (text, key) = opened.map_err(|defect| {
            let reason = match defect {
                NoteDefect::UnknownKey => Reason::UnknownKey,
                NoteDefect::Malformed | NoteDefect::BadSignature => Reason::Signature,
            };
            Invalid::new(reason, format!("the signature is refused: {}", defect.reason()))
        })?;
        let is_signed = signed_text(header, manifest).is_ok_and(|signed| signed == text);
        if !is_signed {
            return Err(Invalid::new(
                Reason::Hash,
                "the header and the manifest are not those that were signed",
            ));
        }
        Ok((base64::engine::general_purpose::STANDARD.encode(key), text.to_owned()))
    }
}

/// Returns the id in the row of the workspace itself.
fn workspace_of_its_own<'r>(records: &Records, row: &'r Row) -> Option<&'r Stored> {
    row.columns.get("id").filter(|_| records.table == WORKSPACES)
}

/// Compares keys as the engines order them.
fn compared(left: &[Stored], right: &[Stored]) -> Ordering {
    let each = left.iter().zip(right).map(|pair| match pair {
        (Stored::Int(left), Stored::Int(right)) => left.cmp(right),
        (Stored::Bool(left), Stored::Bool(right)) => left.cmp(right),
        (Stored::Uuid(left), Stored::Uuid(right)) => left.cmp(right),
        (Stored::Text(left), Stored::Text(right)) => left.cmp(right),
        _ => Ordering::Equal,
    });
    each.fold(Ordering::Equal, Ordering::then)
}

impl ExportReport {
    /// Returns the workspace that the file is of.
    pub fn workspace_id(&self) -> WorkspaceId {
        self.header.workspace_id
    }

    /// Returns the SHA-256 of what was signed, as `sha256:<hex>`, however the file is formatted.
    pub fn digest(&self) -> String {
        hash_text(&sha256(self.signed.as_bytes()))
    }

    /// Returns the end of its log: the position, and the hash.
    pub fn head(&self) -> String {
        format!("{}:{}", self.header.head.lsn, self.header.head.content_hash)
    }
}
