//! Formats, hashes and writes records, on a separate thread from the one that reads rows from the database.
//!
//! Rows are passed in batches. Only a few batches may wait, so memory stays bounded and a slow disk slows the
//! reader down.

use std::mem::take;
use std::ops::Range;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

use uuid::Uuid;

use super::form::{ExportSection, SectionDigest};
use super::row::{RowForm, push_event};
use crate::error::{Error, Result};
use crate::id::WorkspaceId;
use crate::log::verify::check_content_hash;
use crate::spool::Spool;
use crate::store::{Columns, Param};
use crate::stream::events::broken_log_error;

/// Number of bytes at which a batch is passed to the writer's thread.
///
/// The number is small, so that neither thread waits long at the start or end of a page.
const BATCH_BYTES: usize = 32 << 10;
/// Maximum number of batches that wait to be written.
const WAITING_BATCHES_MAX: usize = 16;

/// The sections of an export written so far.
pub(super) struct WrittenSections {
    /// The sections that are complete.
    pub sections: Vec<ExportSection>,
    /// The section that is not complete yet.
    pub open: SectionDigest,
}

/// Runs `read`, and appends the records of the rows that `read` sends to `spool`.
///
/// `open` is the section to continue, and `is_first` whether the file contains no record yet.
///
/// Fails with `event-log-broken` if the payload of an event does not match its content hash.
pub(super) fn write_concurrently<T>(
    workspace: WorkspaceId,
    spool: &mut Spool,
    (open, is_first): (SectionDigest, bool),
    read: impl FnOnce(&mut RowSender) -> Result<T>,
) -> Result<(T, WrittenSections)> {
    let (steps, received) = sync_channel(WAITING_BATCHES_MAX);
    let (written_batches, spare) = channel();
    thread::scope(|scope| {
        let writer = RecordWriter {
            workspace,
            spool,
            is_first,
            open,
            form: None,
            sections: Vec::new(),
            line: Vec::new(),
        };
        let write = move || writer.run_steps(&received, &written_batches);
        let writer = thread::Builder::new().name("svc-export".to_owned()).spawn_scoped(scope, write);
        let writer = writer.map_err(Error::internal)?;
        let mut rows = RowSender { steps, spare, batch: Batch::default() };
        let read = read(&mut rows).and_then(|read| rows.send_batch().map(|()| read));
        drop(rows);
        let written = writer.join().unwrap_or_else(|_| Err(Error::internal("writing an export panicked")));
        // If the writer fails, the reader fails too, so the writer's error comes first.
        let written = written?;
        Ok((read?, written))
    })
}

/// A step for the writer's thread.
enum WriterStep {
    SectionStart(RowForm),
    Rows(Batch),
    SectionEnd(&'static str),
}

/// Sends rows to the writer's thread.
pub(super) struct RowSender {
    steps: SyncSender<WriterStep>,
    /// Written batches, whose memory can be reused.
    spare: Receiver<Batch>,
    batch: Batch,
}

impl RowSender {
    /// Begins the section of a table whose records have this form. Rows before the first section are events.
    pub fn begin_section(&mut self, form: RowForm) -> Result<()> {
        self.send(WriterStep::SectionStart(form))
    }

    /// Ends the section of a table.
    pub fn end_section(&mut self, table: &'static str) -> Result<()> {
        self.send_batch()?;
        self.send(WriterStep::SectionEnd(table))
    }

    /// Adds the first `columns` columns of a row, and the key of a message if `key` is `Some`.
    pub fn add_row(&mut self, row: &dyn Columns, columns: usize, key: Option<&str>) -> Result<()> {
        for place in 0..columns {
            let cell = self.batch.store_value(row.column(place)?)?;
            self.batch.cells.push(cell);
        }
        let key = self.batch.store_value(key.map_or(Param::Null, Param::Text))?;
        self.end_row(key)
    }

    /// Adds an event. The writer's thread checks that the payload has this hash.
    pub fn add_event(&mut self, lsn: i64, payload: &str, content_hash: &[u8; 32]) -> Result<()> {
        let hash = self.batch.store_value(Param::Bytes(content_hash))?;
        self.batch.cells.extend([BatchCell::Int(lsn), hash]);
        let payload = self.batch.store_value(Param::Text(payload))?;
        self.end_row(payload)
    }

    /// Adds the last cell of a row, and sends the batch if the batch is full.
    fn end_row(&mut self, last: BatchCell) -> Result<()> {
        self.batch.cells.push(last);
        self.batch.ends.push(self.batch.cells.len());
        if self.batch.size() < BATCH_BYTES { Ok(()) } else { self.send_batch() }
    }

    fn send_batch(&mut self) -> Result<()> {
        if self.batch.ends.is_empty() {
            return Ok(());
        }
        let next = self.spare.try_recv().unwrap_or_default();
        let batch = std::mem::replace(&mut self.batch, next);
        self.send(WriterStep::Rows(batch))
    }

    fn send(&self, step: WriterStep) -> Result<()> {
        self.steps.send(step).map_err(|_| Error::internal("an export is no longer written"))
    }
}

/// A batch of rows, with the cells of all rows in one list.
#[derive(Default)]
struct Batch {
    cells: Vec<BatchCell>,
    /// The text and bytes of all cells.
    bytes: Vec<u8>,
    /// The index after the last cell of each row.
    ends: Vec<usize>,
}

/// A cell of a row in a batch; text and bytes are ranges of the batch's `bytes`.
#[derive(Clone)]
enum BatchCell {
    Null,
    Int(i64),
    Bool(bool),
    Uuid(Uuid),
    Text(Range<usize>),
    Bytes(Range<usize>),
}

impl Batch {
    fn store_value(&mut self, value: Param<'_>) -> Result<BatchCell> {
        Ok(match value {
            Param::Null => BatchCell::Null,
            Param::Int(number) => BatchCell::Int(number),
            Param::Bool(truth) => BatchCell::Bool(truth),
            Param::Uuid(id) => BatchCell::Uuid(id),
            Param::Text(text) => BatchCell::Text(self.push_bytes(text.as_bytes())),
            Param::Bytes(bytes) => BatchCell::Bytes(self.push_bytes(bytes)),
            Param::Ints(_) | Param::Uuids(_) => return Err(Error::internal("a column with a list")),
        })
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> Range<usize> {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        begin..self.bytes.len()
    }

    /// Returns the approximate size of the batch in memory.
    fn size(&self) -> usize {
        self.cells.len().saturating_mul(size_of::<BatchCell>()).saturating_add(self.bytes.len())
    }

    fn clear(&mut self) {
        self.cells.clear();
        self.bytes.clear();
        self.ends.clear();
    }
}

/// A row of a batch, read by column.
struct BatchRow<'b> {
    cells: &'b [BatchCell],
    bytes: &'b [u8],
}

impl Columns for BatchRow<'_> {
    fn column(&self, place: usize) -> Result<Param<'_>> {
        let bytes = |range: &Range<usize>| self.bytes.get(range.clone()).unwrap_or_default();
        Ok(match self.cells.get(place) {
            None => return Err(Error::internal(format!("a row without column {place}"))),
            Some(BatchCell::Null) => Param::Null,
            Some(BatchCell::Int(number)) => Param::Int(*number),
            Some(BatchCell::Bool(truth)) => Param::Bool(*truth),
            Some(BatchCell::Uuid(id)) => Param::Uuid(*id),
            Some(BatchCell::Text(range)) => {
                Param::Text(std::str::from_utf8(bytes(range)).map_err(Error::internal)?)
            }
            Some(BatchCell::Bytes(range)) => Param::Bytes(bytes(range)),
        })
    }
}

struct RecordWriter<'s> {
    workspace: WorkspaceId,
    spool: &'s mut Spool,
    is_first: bool,
    open: SectionDigest,
    /// The form of the rows; `None` for events.
    form: Option<RowForm>,
    sections: Vec<ExportSection>,
    line: Vec<u8>,
}

impl RecordWriter<'_> {
    /// Performs the steps in the order of their arrival, until the sender is dropped.
    fn run_steps(mut self, steps: &Receiver<WriterStep>, spare: &Sender<Batch>) -> Result<WrittenSections> {
        while let Ok(step) = steps.recv() {
            match step {
                WriterStep::SectionStart(form) => self.form = Some(form),
                WriterStep::Rows(mut batch) => {
                    self.write_batch(&batch)?;
                    batch.clear();
                    // The reader may have ended already.
                    let _ = spare.send(batch);
                }
                WriterStep::SectionEnd(table) => {
                    let ended = std::mem::replace(&mut self.open, SectionDigest::new());
                    self.sections.push(ended.into_section(table));
                }
            }
        }
        Ok(WrittenSections { sections: self.sections, open: self.open })
    }

    fn write_batch(&mut self, batch: &Batch) -> Result<()> {
        let mut begin = 0;
        for end in &batch.ends {
            let cells = batch.cells.get(begin..*end).unwrap_or_default();
            begin = *end;
            self.line.clear();
            self.format_record(&BatchRow { cells, bytes: &batch.bytes })?;
            if !take(&mut self.is_first) {
                self.spool.write(b",\n")?;
            }
            self.open.add(&self.line);
            self.spool.write(&self.line)?;
        }
        Ok(())
    }

    fn format_record(&mut self, row: &BatchRow<'_>) -> Result<()> {
        let last = row.text(row.cells.len().saturating_sub(1));
        match &self.form {
            Some(form) => form.push_row(&mut self.line, row, last),
            None => {
                let payload = last.unwrap_or_default();
                self.check_event_hash(row, payload)?;
                push_event(&mut self.line, payload)
            }
        }
    }

    fn check_event_hash(&self, row: &BatchRow<'_>, payload: &str) -> Result<()> {
        let (Some(lsn), Param::Bytes(hash)) = (row.int(0), row.column(1)?) else {
            return Err(Error::internal("an event without its hash"));
        };
        check_content_hash(lsn, payload, hash).map_err(|broken| broken_log_error(self.workspace, broken))
    }
}

#[cfg(test)]
mod tests {
    use super::super::form::ExportTexts;
    use super::*;
    use crate::error::Code;
    use crate::hash::{format_hash, sha256};
    use crate::op::Records;
    use crate::spool::{SpoolFolder, SpoolLimits};

    fn workspace() -> WorkspaceId {
        Uuid::from_u128(9).into()
    }

    fn add_event(rows: &mut RowSender, payload: &str) -> Result<()> {
        rows.add_event(1, payload, &sha256(payload.as_bytes()))
    }

    fn spool() -> Spool {
        SpoolFolder::new(std::env::temp_dir(), SpoolLimits::default()).create(None).unwrap()
    }

    #[test]
    fn records_are_written_in_their_order_and_each_section_has_its_digest() {
        let mut spool = spool();
        let records =
            Records::table("things", "n").ints("n").texts("text").bools("is").hashes("hash").ids("id");
        let text = "x\"".repeat(BATCH_BYTES / 3);
        let id = Uuid::from_u128(7);
        let mut row = Batch::default();
        let columns = [Param::Bytes(&[7; 32]), Param::Uuid(id), Param::Bool(true), Param::Int(5)];
        for column in columns.into_iter().chain([Param::Text(&text)]) {
            let cell = row.store_value(column).unwrap();
            row.cells.push(cell);
        }
        let row = BatchRow { cells: &row.cells, bytes: &row.bytes };
        let begin = || (SectionDigest::new(), true);
        let (sent, written) = write_concurrently(workspace(), &mut spool, begin(), |rows| {
            rows.begin_section(RowForm::new(&records, ExportTexts::All))?;
            (0..20).try_for_each(|_| rows.add_row(&row, 5, None))?;
            rows.end_section("things")?;
            rows.end_section("none")?;
            Ok(7)
        })
        .unwrap();
        assert_eq!(sent, 7);
        let hash = format_hash(&[7; 32]);
        let escaped = text.replace('"', "\\\"");
        let thing = format!(
            "{{\"hash\":\"{hash}\",\"id\":\"{id}\",\"is\":true,\"n\":5,\"record\":\"things\",\
             \"text\":\"{escaped}\"}}"
        );
        let section = |record: &str, records: &[&str]| ExportSection {
            record: record.to_owned(),
            count: u64::try_from(records.len()).unwrap(),
            sha256: format_hash(&sha256(
                records.iter().map(|record| format!("{record}\n")).collect::<String>().as_bytes(),
            )),
        };
        let things = [&*thing; 20];
        assert_eq!(written.sections, [section("things", &things), section("none", &[])]);
        let ((), written) = write_concurrently(workspace(), &mut spool, (written.open, false), |rows| {
            add_event(rows, "{\"a\":1}")
        })
        .unwrap();
        let event = "{\"payload\":\"{\\\"a\\\":1}\",\"record\":\"events\"}";
        assert_eq!(written.open.into_section("events"), section("events", &[event]));
        let mut text = String::new();
        std::io::Read::read_to_string(&mut spool.finish().unwrap().reader(0), &mut text).unwrap();
        let expected: Vec<&str> = things.into_iter().chain([event]).collect();
        assert!(text == expected.join(",\n"), "{}", text.len());
    }

    #[test]
    fn what_the_reader_or_the_writer_fails_with_is_returned() {
        let begin = || (SectionDigest::new(), true);
        let failed = write_concurrently(workspace(), &mut spool(), begin(), |rows| {
            add_event(rows, "{}")?;
            Err::<(), _>(Error::not_found("reader"))
        });
        assert_eq!(failed.err().unwrap().code(), Code::NotFound);
        let failed = write_concurrently(workspace(), &mut spool(), begin(), |rows| {
            rows.begin_section(RowForm::new(&Records::table("things", "n").texts("n"), ExportTexts::All))?;
            // The section begins with a number.
            add_event(rows, "{}")?;
            rows.end_section("things")?;
            // The reader continues until it finds that the writer has stopped.
            while rows.end_section("things").is_ok() {}
            Err::<(), _>(Error::not_found("writer"))
        });
        assert_eq!(failed.err().unwrap().code(), Code::Internal);
    }

    #[test]
    fn an_event_with_the_hash_of_another_payload_is_not_written() {
        let begin = (SectionDigest::new(), true);
        let failed = write_concurrently(workspace(), &mut spool(), begin, |rows| {
            add_event(rows, "{}")?;
            rows.add_event(2, "{\"a\":2}", &sha256(b"{\"a\":1}"))
        });
        let error = failed.err().unwrap();
        assert_eq!(error.code(), Code::EventLogBroken);
        assert!(error.detail().contains("2"), "{}", error.detail());
    }
}
