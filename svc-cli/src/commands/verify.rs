//! Implements `svc verify`, which verifies event logs and exports.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use svc_core::config::Config;
use svc_core::id::WorkspaceId;
use svc_core::mark::strip_byte_order_mark;
use svc_core::setup::Variables;
use svc_core::signed_note::{PublicKey, known_keys};
use svc_core::verify::{ChainReport, ExpectedFound, ExpectedHead, verify_checkpoint, verify_database};
use svc_core::{
    Code, Compared, Database, Difference, DifferenceKind, Error, Result, StateReport, TableCounts,
    verify_export, verify_state,
};

use super::DataFolder;
use crate::output::{Printer, progress_bar, spinner};

/// Verify the event logs of a database, or an export.
///
/// Every event must be intact and linked to the event before it, and the head must match. The command only
/// reads data, and needs no key and no running service. A pruned log is verified from its oldest remaining
/// event on. Without --expect-head the command does not detect that the end of a log was cut off together
/// with the head, so store the head that this command prints.
///
/// With --state the command also compares the tables with the logs: it replays the events, and each column
/// that the events determine must contain the same value. The command prints each difference, and can run
/// while the service is running. With --json each difference is an object on a separate line, and the last
/// line is an object with the counts.
///
/// With FILE the command reads no database, but verifies that the file is a complete export, that a known key
/// has signed the file, and that the log in the file is valid.
#[derive(Args)]
pub struct Verify {
    #[command(flatten)]
    folder: DataFolder,
    /// A file that svc export has written.
    #[arg(value_name = "FILE", conflicts_with_all = ["workspace", "expect_head", "checkpoint", "state"])]
    file: Option<PathBuf>,
    /// Verify only the log of this workspace.
    #[arg(long, value_name = "ID")]
    workspace: Option<WorkspaceId>,
    /// Compare the tables with the values that the events of the logs determine.
    #[arg(long, conflicts_with_all = ["expect_head", "checkpoint"])]
    state: bool,
    /// Position and hash of a head that the log must contain.
    #[arg(long, value_name = "LSN:HASH", value_parser = parse_expected_head)]
    expect_head: Option<ExpectedHead>,
    /// File with a checkpoint that svc checkpoint has printed. The log must contain the signed events.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workspace", "expect_head"])]
    checkpoint: Option<PathBuf>,
    /// Public key that has signed the checkpoint or the file: 32 bytes, as hex or base64. Default: the key of
    /// SVC_EXPORT_SIGNING_KEY, and the keys in SVC_EXPORT_VERIFY_KEYS.
    #[arg(
        long,
        value_name = "KEY",
        value_parser = parse_public_key,
        conflicts_with_all = ["workspace", "expect_head", "state"]
    )]
    key: Option<PublicKey>,
}

#[derive(Serialize)]
struct VerifyFindings<'a> {
    /// Whether all logs are valid.
    valid: bool,
    logs: &'a [ChainReport],
}

/// Runs `svc verify`: verifies event logs or an export, and fails if a log is broken.
pub fn run(command: &Verify, variables: &Variables, output: &Printer) -> Result<()> {
    if let Some(file) = &command.file {
        return verify_file(file, &command.trusted_keys(variables)?, output);
    }
    let data = &command.folder.data;
    let url = Config::read_database_url(variables.iter().cloned(), data)?;
    let database = Database::at(url, data);
    let logs = match &command.checkpoint {
        Some(file) => {
            vec![verify_checkpoint(&database, &read_note(file)?, &command.trusted_keys(variables)?)?]
        }
        None => verify_database(&database, command.workspace, command.expect_head)?,
    };
    let valid = logs.iter().all(|log| log.valid);
    if command.state && valid {
        return verify_tables(&database, command.workspace, &logs, output);
    }
    let text: String = logs.iter().map(log_text).collect();
    let text = if logs.is_empty() { "There is no log." } else { &text };
    output.print_result(&VerifyFindings { valid, logs: &logs }, text)?;
    let broken = logs.iter().filter(|log| !log.valid).count();
    if broken > 0 {
        let found = format!("{broken} of {} logs do not verify", logs.len());
        return Err(Error::new(Code::EventLogBroken, found));
    }
    match logs.iter().find(|log| log.expected == Some(ExpectedFound::BelowFloor)) {
        None => Ok(()),
        Some(log) => Err(Error::new(
            Code::BelowFloor,
            format!("the log was pruned up to {}, beyond the head that was expected", log.floor),
        )),
    }
}

/// Last line of the output of `svc verify --state`, after the differences.
#[derive(Serialize)]
struct StateFindings<'a> {
    /// Whether no table differs from its log.
    valid: bool,
    logs: &'a [ChainReport],
    workspaces: &'a [StateReport],
}

/// Compares the tables with the logs, which must already be verified. Fails if a table differs.
fn verify_tables(
    database: &Database,
    workspace: Option<WorkspaceId>,
    logs: &[ChainReport],
    output: &Printer,
) -> Result<()> {
    let working = spinner("comparing the tables with the logs");
    let mut different = 0_u64;
    let workspaces = verify_state(database, workspace, &mut |difference| {
        different = different.saturating_add(1);
        working.suspend(|| output.print_line(&difference, &difference_text(&difference)))
    })?;
    drop(working);
    let valid = workspaces.iter().all(|workspace| workspace.valid);
    let text: String = logs.iter().map(log_text).chain(workspaces.iter().map(row_counts_text)).collect();
    output.print_line(&StateFindings { valid, logs, workspaces: &workspaces }, text.trim_end())?;
    if valid {
        return Ok(());
    }
    let places = if different == 1 { "1 place".to_owned() } else { format!("{different} places") };
    Err(Error::new(Code::StateDiffers, format!("the tables differ from the logs in {places}")))
}

/// Returns a line of text that describes a difference between a table and the log.
fn difference_text(difference: &Difference) -> String {
    let Difference { workspace_id, table, row, column, kind, lsn, .. } = difference;
    let row: Vec<String> =
        row.iter().map(|(name, value)| format!("{name} {}", display_value(value))).collect();
    let column = column.as_deref().unwrap_or_default();
    let event = lsn.map_or(String::new(), |lsn| format!(" (event {lsn})"));
    let found = match kind {
        DifferenceKind::OtherValue => format!("{column} {}{event}", differing_values_text(difference)),
        DifferenceKind::OtherType => format!("{column} holds a value of another type{event}"),
        DifferenceKind::Missing => format!("the table lacks the row, which the log has{event}"),
        DifferenceKind::NotInLog => "the table has the row, which no event has made".to_owned(),
        DifferenceKind::Removed => format!("the table has the row, which the log has removed{event}"),
    };
    format!("{workspace_id}  DIFFERS  {table}, {}: {found}", row.join(", "))
}

/// Describes the values in the table and in the log that differ.
fn differing_values_text(Difference { compared, log, stored, .. }: &Difference) -> String {
    let (Some(log), Some(stored)) = (log, stored) else {
        return "is not what the log says".to_owned();
    };
    match compared {
        Some(Compared::Length) => {
            format!("has {} characters, the log says {}", display_value(stored), display_value(log))
        }
        Some(Compared::Presence) if log == true => "is not set, the log says that it is".to_owned(),
        Some(Compared::Presence) => "is set, the log says that it is not".to_owned(),
        Some(Compared::Hash) | None => {
            format!("is {}, the log says {}", display_value(stored), display_value(log))
        }
    }
}

fn display_value(value: &Value) -> String {
    match (value, value.get("at_most")) {
        (_, Some(at)) => format!("at most {}", display_value(at)),
        (Value::String(text), _) => text.escape_debug().to_string(),
        (Value::Array(items), _) => {
            format!("[{}]", items.iter().map(display_value).collect::<Vec<_>>().join(" "))
        }
        (other, _) => other.to_string(),
    }
}

/// Returns the row counts of a workspace's comparison as text, with one line for each table.
fn row_counts_text(report: &StateReport) -> String {
    let head = if report.valid { "tables agree" } else { "TABLES DIFFER" };
    let mut text = format!("{}  {head} with the log up to {}\n", report.workspace_id, report.lsn);
    if let Some(up_to) = report.purging_up_to {
        text.push_str(&format!("  a purge up to {up_to} is in progress: its content is unproven\n"));
    }
    for (table, counts) in &report.tables {
        let TableCounts { proven, unproven, different, not_covered } = counts;
        let parts = [
            (*proven, "proven"),
            (*unproven, "unproven"),
            (*different, "different"),
            (*not_covered, "not covered"),
        ];
        let parts = parts.iter().filter(|(rows, _)| *rows > 0).map(|(rows, what)| format!("{rows} {what}"));
        text.push_str(&format!("  {table}: {}\n", parts.collect::<Vec<_>>().join(", ")));
    }
    text
}

fn verify_file(path: &Path, keys: &[PublicKey], output: &Printer) -> Result<()> {
    let unreadable =
        |error| Error::malformed(format!("the export {} cannot be read", path.display())).caused_by(error);
    let file = File::open(path).map_err(unreadable)?;
    let bytes = file.metadata().map_err(unreadable)?.len();
    let report = verify_export(progress_bar("verifying", bytes).wrap_read(file), keys)?;
    let workspace = report.workspace_id();
    let header = report.head();
    let text = format!(
        "{workspace}  valid, {} events, head {}, signed by {}",
        report.events, header, report.signed_by
    );
    output.print_result(&report, &text)
}

impl Verify {
    /// Returns the public keys of which one must have signed the checkpoint or the file.
    fn trusted_keys(&self, variables: &Variables) -> Result<Vec<PublicKey>> {
        match self.key {
            Some(key) => Ok(vec![key]),
            None => {
                let keys = Config::read_export_keys(variables.iter().cloned(), &self.folder.data)?;
                Ok(known_keys(&keys))
            }
        }
    }
}

/// Maximum bytes to read from a checkpoint file.
const NOTE_BYTES_MAX: u64 = 1 << 16;

fn read_note(file: &Path) -> Result<String> {
    let mut note = String::new();
    let read = File::open(file).and_then(|file| file.take(NOTE_BYTES_MAX).read_to_string(&mut note));
    read.map_err(|error| {
        Error::malformed(format!("the checkpoint {} cannot be read", file.display())).caused_by(error)
    })?;
    Ok(strip_byte_order_mark(&note).to_owned())
}

fn log_text(log: &ChainReport) -> String {
    let found = match &log.broken {
        None if log.floor > 1 => {
            format!("valid, {} events from {}, {}", log.events, log.floor, head_text(log))
        }
        None => format!("valid, {} events, {}", log.events, head_text(log)),
        Some(broken) => format!("BROKEN at {}: {}", broken.lsn, broken.defect.reason()),
    };
    format!("{}  {found}\n", log.workspace_id)
}

fn head_text(log: &ChainReport) -> String {
    format!("head {}:{}", log.head.lsn, log.head.hash)
}

fn parse_public_key(text: &str) -> std::result::Result<PublicKey, String> {
    Config::parse_public_key(text).ok_or_else(|| "expected 32 bytes as 64 hex digits or as base64".to_owned())
}

fn parse_expected_head(text: &str) -> std::result::Result<ExpectedHead, String> {
    text.parse().map_err(|error: Error| error.detail().to_owned())
}
