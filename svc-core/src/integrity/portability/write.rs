//! Writing an export: first the rows, from one snapshot at the speed of the disk, then the events in pages.
//!
//! The file is a spool, so a slow reader holds back no transaction. The events are verified as they are read;
//! if the log was pruned meanwhile, the file is begun anew.

use std::ops::ControlFlow;

use super::form::{EVENTS, HeadOf, Header, Manifest, SectionDigest, TYPE, Words, key_name, signed_text};
use super::row::{MESSAGES, RowForm, insert_key, push_json};
use crate::conversation::messages::content_keys;
use crate::error::{Code, Error, Result};
use crate::hash::hash_text;
use crate::id::{MessageId, WorkspaceId};
use crate::integrity::events::broken_log;
use crate::integrity::floor::LogRange;
use crate::limits::{FEED_READ_BYTES, FEED_READ_ROWS};
use crate::log::canonical;
use crate::log::note::NoteSigner;
use crate::log::verify::{ChainCursor, ReadBounds};
use crate::op::{Read, Records, Settings};
use crate::spool::{Content, Spool};
use crate::store::{FromRow, schema_version};
use crate::time::Time;

/// How often a file is begun anew because the log was pruned beneath it.
const ATTEMPTS: u32 = 5;
/// Messages whose keys are read together.
const KEYS_AT_ONCE: usize = 100;
/// Bytes of lines that wait for their keys.
const WAITING_MAX: usize = 1 << 20;

/// An export that is being written.
pub(super) struct Exporter {
    workspace: WorkspaceId,
    words: Words,
    signer: NoteSigner,
    /// None once the file is whole.
    spool: Option<Spool>,
    /// The file, once it is whole.
    whole: Option<Content>,
    /// None until the rows are written.
    rows: Option<RowsWritten>,
    attempts: u32,
}

/// The state after a page.
struct RowsWritten {
    header: Header,
    manifest: Manifest,
    events: SectionDigest,
    cursor: ChainCursor,
    /// Bytes of the file.
    len: u64,
}

impl Exporter {
    /// Begins an export. Fails with 409 `not-enabled` without a key to sign with.
    pub fn new(workspace: WorkspaceId, words: Words, settings: &Settings) -> Result<Self> {
        let signer = settings.signer.clone().ok_or_else(|| {
            Error::new(
                Code::NotEnabled,
                "the service has no key to sign exports with (SVC_EXPORT_SIGNING_KEY)",
            )
        })?;
        let spool = Some(Spool::create(&settings.spool_folder)?);
        Ok(Self { workspace, words, signer, spool, whole: None, rows: None, attempts: 0 })
    }

    /// Writes the next page. Returns the file once it is whole.
    ///
    /// A page that failed is written again from where the one before has ended, and a whole file is returned
    /// again: the transaction of the last page may fail after that was written.
    pub fn page(&mut self, cx: &Read<'_>) -> Result<Option<Content>> {
        let Some(mut spool) = self.spool.take() else {
            let whole = self.whole.clone();
            return whole.map(Some).ok_or_else(|| Error::internal("the export has ended"));
        };
        let written = self
            .write(cx, &mut spool)
            .and_then(|is_whole| is_whole.then(|| self.end(&mut spool)).transpose());
        match written {
            Ok(Some(file_name)) => {
                let spooled = spool.finish()?;
                self.whole = Some(Content { spooled, media_type: "application/json", file_name });
                Ok(self.whole.clone())
            }
            unfinished => {
                self.spool = Some(spool);
                unfinished.map(|_| None)
            }
        }
    }

    /// Writes the rows or some events. Returns whether there are no more.
    fn write(&mut self, cx: &Read<'_>, spool: &mut Spool) -> Result<bool> {
        let Some(rows) = &self.rows else {
            spool.truncate(0)?;
            self.rows = Some(self.write_rows(cx, spool)?);
            return Ok(false);
        };
        spool.truncate(rows.len)?;
        let at = rows.cursor.lsn();
        match self.write_events(cx, spool, rows)? {
            Ok(rows) => {
                let is_whole = rows.cursor.lsn() == rows.header.head.lsn;
                self.rows = Some(rows);
                Ok(is_whole)
            }
            // What is missing was pruned since.
            Err(_) if self.may_begin_anew(cx, at)? => {
                self.rows = None;
                Ok(false)
            }
            Err(broken) => Err(broken),
        }
    }

    fn may_begin_anew(&mut self, cx: &Read<'_>, at: i64) -> Result<bool> {
        self.attempts = self.attempts.saturating_add(1);
        Ok(self.attempts < ATTEMPTS && !LogRange::of(cx, self.workspace)?.has_after(at))
    }

    fn write_rows(&self, cx: &Read<'_>, spool: &mut Spool) -> Result<RowsWritten> {
        let header = header(cx, self.workspace, self.words)?;
        let begin = format!(
            "{{\"type\":\"{TYPE}\",\n\"header\":{},\n\"records\":[\n",
            canonical::to_string(&header)?
        );
        spool.write(begin.as_bytes())?;
        let mut manifest = Manifest::default();
        let mut lines = Lines { spool, is_first: true };
        for records in cx.records().iter().filter(|records| records.is_of_workspaces()) {
            match records.table {
                EVENTS => {}
                table if records.leaves() => {
                    let digest = self.write_table(cx, &mut lines, records)?;
                    manifest.sections.push(digest.section(table));
                }
                table => manifest.omitted.push(table.to_owned()),
            }
        }
        let before_floor = header.floor.saturating_sub(1);
        let cursor = ChainCursor::after(self.workspace, before_floor, None);
        let len = spool.len();
        Ok(RowsWritten { header, manifest, events: SectionDigest::new(), cursor, len })
    }

    fn write_table(&self, cx: &Read<'_>, lines: &mut Lines<'_>, records: &Records) -> Result<SectionDigest> {
        let form = RowForm::of(records, self.words);
        let has_keys = records.table == MESSAGES && self.words == Words::All;
        let id_place = records.exported().position(|(name, _)| name == "id");
        let mut digest = SectionDigest::new();
        let mut waiting = Waiting::default();
        let (mut line, mut outcome) = (Vec::new(), Ok(()));
        cx.scan(&records.scan(), &[&self.workspace], &mut |row| {
            line.clear();
            outcome = form.push(&mut line, row).and_then(|place| {
                let id = id_place.filter(|_| has_keys).and_then(|place| row.id(place).flatten());
                let Some(id) = id else { return lines.add(&line, &mut digest) };
                waiting.add(id.into(), std::mem::take(&mut line), place);
                if waiting.is_full() { waiting.write(cx, lines, &mut digest) } else { Ok(()) }
            });
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        outcome?;
        waiting.write(cx, lines, &mut digest)?;
        Ok(digest)
    }

    /// Writes some events. The inner error is that of a broken log.
    fn write_events(
        &self,
        cx: &Read<'_>,
        spool: &mut Spool,
        before: &RowsWritten,
    ) -> Result<Result<RowsWritten>> {
        let bounds = ReadBounds {
            up_to: before.header.head.lsn,
            rows: FEED_READ_ROWS,
            bytes: FEED_READ_BYTES,
            not_after: Time::from_micros(i64::MAX),
        };
        let (mut cursor, mut events) = (before.cursor.clone(), before.events.clone());
        let (mut line, mut outcome) = (Vec::new(), Ok(()));
        // The workspace's own row stands before the events.
        let mut lines = Lines { spool, is_first: false };
        let read = cursor.read(cx, bounds, |_, event| {
            line.clear();
            line.extend_from_slice(b"{\"payload\":");
            outcome = push_json(&mut line, event.payload).and_then(|()| {
                line.extend_from_slice(b",\"record\":\"events\"}");
                lines.add(&line, &mut events)
            });
            outcome.is_ok()
        })?;
        outcome?;
        if let Err(broken) = read {
            return Ok(Err(broken_log(self.workspace, broken)));
        }
        let (header, manifest, len) = (before.header.clone(), before.manifest.clone(), spool.len());
        Ok(Ok(RowsWritten { header, manifest, events, cursor, len }))
    }

    /// Writes what comes after the events, and returns what the file is called.
    fn end(&self, spool: &mut Spool) -> Result<String> {
        let rows = self.rows.as_ref().ok_or_else(|| Error::internal("the export has no rows"))?;
        let RowsWritten { header, manifest, events, cursor, .. } = rows;
        if hash_text(&cursor.hash()) != header.head.content_hash {
            return Err(Error::new(Code::EventLogBroken, "the log does not end as its head says"));
        }
        let mut manifest = manifest.clone();
        manifest.sections.push(events.clone().section(EVENTS));
        let note = self.signer.sign(&key_name(self.workspace), &signed_text(header, &manifest)?);
        let manifest = canonical::to_string(&manifest)?;
        let mut end = format!("\n],\n\"manifest\":{manifest},\n\"signature\":").into_bytes();
        push_json(&mut end, &note)?;
        end.extend_from_slice(b"}\n");
        spool.write(&end)?;
        spool.flush()?;
        Ok(format!("workspace-{}-{}.json", self.workspace, header.head.lsn))
    }
}

fn header(cx: &Read<'_>, workspace: WorkspaceId, words: Words) -> Result<Header> {
    struct Row {
        head: HeadOf,
        floors: [i64; 3],
        audit_seq: i64,
    }
    impl FromRow for Row {
        fn from_row(row: &mut crate::store::Row) -> Result<Self> {
            let (lsn, hash, at): (i64, [u8; 32], Time) = (row.take()?, row.take()?, row.take()?);
            let head = HeadOf { lsn, content_hash: hash_text(&hash), at };
            Ok(Self { head, audit_seq: row.take()?, floors: [row.take()?, row.take()?, row.take()?] })
        }
    }
    let row: Option<Row> = cx.one(HEAD, &[&workspace])?;
    let Row { head, floors: [floor, pruned_at, words_floor], audit_seq } =
        row.ok_or_else(|| Error::internal("the workspace has no log"))?;
    Ok(Header {
        schema: schema_version(),
        exported_at: cx.now(),
        workspace_id: workspace,
        floor,
        pruned_at,
        words_floor,
        head,
        audit_seq,
        words,
    })
}

const HEAD: &str = "
    select lsn, hash, at, audit_seq, floor, pruned_at, words_floor from heads where workspace_id = $1";

/// The records of a file, one on a line.
struct Lines<'s> {
    spool: &'s mut Spool,
    is_first: bool,
}

impl Lines<'_> {
    fn add(&mut self, line: &[u8], digest: &mut SectionDigest) -> Result<()> {
        if !std::mem::take(&mut self.is_first) {
            self.spool.write(b",\n")?;
        }
        digest.add(line);
        self.spool.write(line)
    }
}

/// Lines of messages that wait for their keys.
#[derive(Default)]
struct Waiting {
    lines: Vec<(MessageId, Vec<u8>, usize)>,
    bytes: usize,
}

impl Waiting {
    fn add(&mut self, id: MessageId, line: Vec<u8>, place: usize) {
        self.bytes = self.bytes.saturating_add(line.len());
        self.lines.push((id, line, place));
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= KEYS_AT_ONCE || self.bytes >= WAITING_MAX
    }

    fn write(&mut self, cx: &Read<'_>, lines: &mut Lines<'_>, digest: &mut SectionDigest) -> Result<()> {
        let ids: Vec<MessageId> = self.lines.iter().map(|(id, ..)| *id).collect();
        let keys = content_keys(cx, &ids)?;
        self.bytes = 0;
        for (id, mut line, place) in self.lines.drain(..) {
            if let Some(key) = keys.get(&id) {
                insert_key(&mut line, place, key);
            }
            lines.add(&line, digest)?;
        }
        Ok(())
    }
}
