//! Writing an export: first the rows, from one snapshot of the database, then the events in pages.
//!
//! The file is written to a spool, so a slow reader does not delay a transaction. Events are verified while
//! they are written; if the log is pruned in the meantime, the file is written from the start again.

use std::collections::HashSet;
use std::ops::ControlFlow;

use super::form::{
    EVENTS_TABLE, ExportHead, ExportHeader, ExportTexts, FORMAT_ID, Manifest, SectionDigest, signed_text,
    signing_key_name,
};
use super::record_writer::{RowSender, write_concurrently};
use super::row::{MESSAGES_TABLE, RowForm, push_json};
use crate::conversation::messages::{content_key, unreadable_dms};
use crate::error::{Code, Error, Result};
use crate::hash::format_hash;
use crate::id::{ChannelId, WorkspaceId};
use crate::identity::floor::LogRange;
use crate::log::canonical;
use crate::log::key_tree::Binding;
use crate::log::signed_note::NoteSigner;
use crate::log::verify::{ChainCursor, ReadBounds};
use crate::op::{Read, Records, Settings};
use crate::spool::{FileContent, Spool};
use crate::store::{Columns, FromRow, Param, schema_version};
use crate::stream::events::broken_log_error;
use crate::time::Time;

/// Maximum attempts to write a file while its log is being pruned.
const ATTEMPTS_MAX: u32 = 5;

/// Maximum events per page.
const PAGE_ROWS: i64 = 8000;
/// Number of payload bytes at which a page ends.
const PAGE_BYTES: usize = 4 << 20;

/// An export that is being written.
pub(super) struct Exporter {
    words: ExportTexts,
    signer: NoteSigner,
    /// The incomplete file; `None` before the first page, and after the file is complete.
    spool: Option<Spool>,
    /// The complete file; `None` while the export is being written.
    file: Option<FileContent>,
    /// Progress of the export after the rows are written; `None` before.
    progress: Option<ExportProgress>,
    attempts: u32,
}

/// Progress of an export whose rows are written.
struct ExportProgress {
    header: ExportHeader,
    manifest: Manifest,
    events: SectionDigest,
    cursor: ChainCursor,
    /// Length of the file in bytes.
    len: u64,
}

impl Exporter {
    /// Creates an export of which nothing is written yet.
    ///
    /// Fails with 409 `not-enabled` if the service has no signing key.
    pub fn new(words: ExportTexts, settings: &Settings) -> Result<Self> {
        let signer = settings.signer.clone().ok_or_else(|| {
            Error::new(
                Code::NotEnabled,
                "the service has no key to sign exports with (SVC_EXPORT_SIGNING_KEY)",
            )
        })?;
        Ok(Self { words, signer, spool: None, file: None, progress: None, attempts: 0 })
    }

    /// Writes the next page of a workspace's export. Returns the file when the last page is written.
    ///
    /// A page that failed is written again from the end of the previous page, and a complete file is returned
    /// again, because the transaction of the last page may fail after the page was written.
    pub fn write_page(&mut self, cx: &Read<'_>, workspace: WorkspaceId) -> Result<Option<FileContent>> {
        if let Some(file) = &self.file {
            return Ok(Some(file.clone()));
        }
        let mut spool = match self.spool.take() {
            Some(spool) => spool,
            None => {
                self.progress = None;
                cx.settings().spools.create(cx.charged_to())?
            }
        };
        let written = self
            .write_next(cx, workspace, &mut spool)
            .and_then(|is_whole| is_whole.then(|| self.write_trailer(&mut spool)).transpose());
        match written {
            Ok(Some(file_name)) => {
                let spooled = spool.finish()?;
                self.file = Some(FileContent { spooled, media_type: "application/json", file_name });
                Ok(self.file.clone())
            }
            unfinished => {
                self.spool = Some(spool);
                unfinished.map(|_| None)
            }
        }
    }

    /// Writes the rows, or a page of events if the rows are written.
    ///
    /// Returns whether the file now contains all events.
    fn write_next(&mut self, cx: &Read<'_>, workspace: WorkspaceId, spool: &mut Spool) -> Result<bool> {
        let Some(rows) = &self.progress else {
            spool.truncate(0)?;
            self.progress = Some(self.write_rows(cx, workspace, spool)?);
            return Ok(false);
        };
        spool.truncate(rows.len)?;
        let at = rows.cursor.lsn();
        match self.write_events(cx, spool, rows)? {
            Ok(rows) => {
                let is_whole = rows.cursor.lsn() == rows.header.head.lsn;
                self.progress = Some(rows);
                Ok(is_whole)
            }
            // The missing events were pruned in the meantime.
            Err(_) if self.may_start_over(cx, workspace, at)? => {
                self.progress = None;
                Ok(false)
            }
            Err(broken) => Err(broken),
        }
    }

    /// Counts an attempt, and returns whether the file may be written again from the start.
    ///
    /// It may if the events after `position` were pruned and attempts remain.
    fn may_start_over(&mut self, cx: &Read<'_>, workspace: WorkspaceId, position: i64) -> Result<bool> {
        self.attempts = self.attempts.saturating_add(1);
        Ok(self.attempts < ATTEMPTS_MAX && !LogRange::of(cx, workspace)?.has_all_events_after(position))
    }

    /// Writes the header, and the rows of all tables except the events.
    fn write_rows(&self, cx: &Read<'_>, workspace: WorkspaceId, spool: &mut Spool) -> Result<ExportProgress> {
        let header = create_header(cx, workspace, self.words)?;
        let begin = format!(
            "{{\"type\":\"{FORMAT_ID}\",\n\"header\":{},\n\"records\":[\n",
            canonical::to_string(&header)?
        );
        spool.write(begin.as_bytes())?;
        let tables = || {
            let of_workspaces = cx.records().iter().filter(|records| records.has_workspace_rows());
            of_workspaces.filter(|records| records.table != EVENTS_TABLE)
        };
        let ((), written) = write_concurrently(workspace, spool, (SectionDigest::new(), true), |rows| {
            tables().filter(|records| records.leaves()).try_for_each(|records| {
                self.send_table(cx, rows, records, &header)?;
                rows.end_section(records.table)
            })
        })?;
        let omitted = tables().filter(|records| !records.leaves());
        let manifest = Manifest {
            sections: written.sections,
            omitted: omitted.map(|records| records.table.to_owned()).collect(),
        };
        let before_floor = header.floor.saturating_sub(1);
        let cursor = ChainCursor::after(header.workspace_id, before_floor, None);
        let len = spool.len();
        Ok(ExportProgress { header, manifest, events: written.open, cursor, len })
    }

    /// Sends the rows of a table to the writer's thread, with the keys of messages if they are exported.
    fn send_table(
        &self,
        cx: &Read<'_>,
        rows: &mut RowSender,
        records: &Records,
        header: &ExportHeader,
    ) -> Result<()> {
        rows.begin_section(RowForm::new(records, self.words))?;
        let columns = records.exported().count();
        let has_keys = records.table == MESSAGES_TABLE && self.words == ExportTexts::All;
        let keys = has_keys.then(|| MessageKeyReader::new(cx, records, header)).transpose()?;
        let scan = if has_keys { records.scan_with(&[WRAPPED_KEY_COLUMN]) } else { records.scan() };
        let mut outcome = Ok(());
        cx.scan(&scan, &[&header.workspace_id], &mut |row| {
            let key = keys.as_ref().map_or(Ok(None), |keys| keys.unwrap_key(cx, header.workspace_id, row));
            outcome = key.and_then(|key| rows.add_row(row, columns, key.as_deref()));
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        outcome
    }

    /// Writes a page of events. The inner result is an error if the log is broken.
    fn write_events(
        &self,
        cx: &Read<'_>,
        spool: &mut Spool,
        before: &ExportProgress,
    ) -> Result<Result<ExportProgress>> {
        let bounds =
            ReadBounds { up_to: before.header.head.lsn, rows: PAGE_ROWS, bytes: PAGE_BYTES, young: None };
        let mut cursor = before.cursor.clone();
        // The file already contains the workspace's row, so the events are not its first records.
        let workspace = before.header.workspace_id;
        let open = before.events.clone();
        let beside = write_concurrently(workspace, spool, (open, false), |rows| {
            let mut outcome = Ok(());
            // The writer's thread hashes the events, because it has less to do.
            let read = cursor.read_without_hashing(cx, bounds, |lsn, event| {
                outcome = rows.add_event(lsn, event.payload, &event.content_hash);
                outcome.is_ok()
            })?;
            outcome.map(|()| read)
        });
        let (read, written) = match beside {
            Err(broken) if broken.code() == Code::EventLogBroken => return Ok(Err(broken)),
            beside => beside?,
        };
        if let Err(broken) = read {
            return Ok(Err(broken_log_error(workspace, broken)));
        }
        let header = before.header.clone();
        let manifest = before.manifest.clone();
        let len = spool.len();
        Ok(Ok(ExportProgress { header, manifest, events: written.open, cursor, len }))
    }

    /// Writes the members after the records, and returns the name of the file.
    fn write_trailer(&self, spool: &mut Spool) -> Result<String> {
        let rows = self.progress.as_ref().ok_or_else(|| Error::internal("the export has no rows"))?;
        let ExportProgress { header, manifest, events, cursor, .. } = rows;
        if format_hash(&cursor.hash()) != header.head.content_hash {
            return Err(Error::new(Code::EventLogBroken, "the end of the log does not match its head"));
        }
        let mut manifest = manifest.clone();
        manifest.sections.push(events.clone().into_section(EVENTS_TABLE));
        let note = self.signer.sign(&signing_key_name(header.workspace_id), &signed_text(header, &manifest)?);
        let manifest = canonical::to_string(&manifest)?;
        let mut end = format!("\n],\n\"manifest\":{manifest},\n\"signature\":").into_bytes();
        push_json(&mut end, &note)?;
        end.extend_from_slice(b"}\n");
        spool.write(&end)?;
        spool.flush()?;
        Ok(format!("workspace-{}-{}.json", header.workspace_id, header.head.lsn))
    }
}

fn create_header(cx: &Read<'_>, workspace: WorkspaceId, words: ExportTexts) -> Result<ExportHeader> {
    struct Row {
        head: ExportHead,
        floors: [i64; 3],
        audit_seq: i64,
    }
    impl FromRow for Row {
        fn from_row(row: &mut crate::store::Row) -> Result<Self> {
            let (lsn, hash, at): (i64, [u8; 32], Time) = (row.take()?, row.take()?, row.take()?);
            let head = ExportHead { lsn, content_hash: format_hash(&hash), at };
            Ok(Self { head, audit_seq: row.take()?, floors: [row.take()?, row.take()?, row.take()?] })
        }
    }
    let row: Option<Row> = cx.one(SELECT_HEAD, &[&workspace])?;
    let Row { head, floors: [floor, pruned_at, words_floor], audit_seq } =
        row.ok_or_else(|| Error::internal("the workspace has no log"))?;
    Ok(ExportHeader {
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

const SELECT_HEAD: &str = "
    select lsn, hash, at, audit_seq, floor, pruned_at, words_floor from heads where workspace_id = $1";

/// Name of the column with the wrapped key of a message.
const WRAPPED_KEY_COLUMN: &str = "wrapped";

/// Unwraps the keys of messages from their rows, by the indexes of the columns.
struct MessageKeyReader {
    id: usize,
    channel_id: usize,
    thread_id: usize,
    author_id: usize,
    lsn: usize,
    withdrawn_at: usize,
    wrapped: usize,
    /// The position up to which messages are pruned or purged.
    words_floor: i64,
    /// The channels whose message keys the caller must not receive.
    hidden_channels: HashSet<ChannelId>,
}

impl MessageKeyReader {
    /// Creates a reader for rows of [`Records::scan_with`] with [`WRAPPED_KEY_COLUMN`].
    fn new(cx: &Read<'_>, messages: &Records, header: &ExportHeader) -> Result<Self> {
        let columns: Vec<&str> = messages.exported().map(|(name, _)| name).collect();
        let place = |column| columns.iter().position(|name| *name == column).unwrap_or(columns.len());
        Ok(Self {
            id: place("id"),
            channel_id: place("channel_id"),
            thread_id: place("thread_id"),
            author_id: place("author_id"),
            lsn: place("lsn"),
            withdrawn_at: place("withdrawn_at"),
            wrapped: columns.len(),
            words_floor: header.words_floor,
            hidden_channels: unreadable_dms(cx)?,
        })
    }

    /// Returns the key of a message, or `None` if it must not be exported or cannot be unwrapped.
    ///
    /// Keys of messages that are withdrawn, pruned or hidden from the caller are not exported.
    fn unwrap_key(&self, cx: &Read<'_>, workspace: WorkspaceId, row: &dyn Columns) -> Result<Option<String>> {
        let id = row.id(self.id);
        let thread = row.id(self.thread_id);
        let lsn = row.int(self.lsn);
        let (Some(Some(id)), Some(Some(thread)), Some(lsn)) = (id, thread, lsn) else { return Ok(None) };
        let is_hidden =
            row.id(self.channel_id).flatten().is_none_or(|id| self.hidden_channels.contains(&id.into()));
        if is_hidden || lsn <= self.words_floor || !matches!(row.column(self.withdrawn_at)?, Param::Null) {
            return Ok(None);
        }
        let wrapped = match row.column(self.wrapped)? {
            Param::Bytes(wrapped) => Some(wrapped),
            _ => None,
        };
        let author_id = row.id(self.author_id).flatten().map(Into::into);
        let bound =
            Binding { workspace_id: workspace, thread_id: thread.into(), author_id, message_id: id.into() };
        content_key(cx, &bound, lsn, wrapped)
    }
}
