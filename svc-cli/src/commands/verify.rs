//! `svc verify`.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use svc_core::config::Config;
use svc_core::id::WorkspaceId;
use svc_core::note::{PublicKey, known_keys};
use svc_core::setup::Variables;
use svc_core::verify::{ChainReport, ExpectedFound, ExpectedHead, verify_checkpoint, verify_database};
use svc_core::{Code, Database, Error, Result, verify_export};

use super::Folder;
use crate::output::{Printer, progress};

/// Verify the event logs of a database, or an export.
///
/// Every event must be intact and linked to the one before it, and the head must match. The command only
/// reads, and needs no key and no running service. A log that was pruned is verified from its floor on.
/// Without --expect-head it does not notice a log whose end was cut off together with its head: keep the head
/// that this command prints.
///
/// With FILE it verifies that the file is a whole export, that a known key has signed it, and that the log in
/// it verifies; then it reads no database.
#[derive(Args)]
pub struct Verify {
    #[command(flatten)]
    folder: Folder,
    /// A file that svc export has written.
    #[arg(value_name = "FILE", conflicts_with_all = ["workspace", "expect_head", "checkpoint"])]
    file: Option<PathBuf>,
    /// Verify only the log of this workspace.
    #[arg(long, value_name = "ID")]
    workspace: Option<WorkspaceId>,
    /// A head that the log must contain: its position and its hash.
    #[arg(long, value_name = "LSN:HASH", value_parser = expected_head)]
    expect_head: Option<ExpectedHead>,
    /// A file with a checkpoint that svc checkpoint has printed: its log must hold what that signs.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["workspace", "expect_head"])]
    checkpoint: Option<PathBuf>,
    /// The public key that has signed the checkpoint or the file: 32 bytes, as hex or base64. Default: that
    /// of SVC_EXPORT_SIGNING_KEY, and those of SVC_EXPORT_VERIFY_KEYS.
    #[arg(
        long,
        value_name = "KEY",
        value_parser = public_key,
        conflicts_with_all = ["workspace", "expect_head"]
    )]
    key: Option<PublicKey>,
}

#[derive(Serialize)]
struct Findings<'a> {
    /// Whether all logs are valid.
    valid: bool,
    logs: &'a [ChainReport],
}

/// Runs `svc verify`: verifies the event logs, and fails if one of them is broken.
pub fn run(command: &Verify, variables: &Variables, output: &Printer) -> Result<()> {
    if let Some(file) = &command.file {
        return verify_file(file, &command.keys(variables)?, output);
    }
    let data = &command.folder.data;
    let url = Config::read_database_url(variables.iter().cloned(), data)?;
    let database = Database::at(url, data);
    let logs = match &command.checkpoint {
        Some(file) => vec![verify_checkpoint(&database, &note(file)?, &command.keys(variables)?)?],
        None => verify_database(&database, command.workspace, command.expect_head)?,
    };
    let valid = logs.iter().all(|log| log.valid);
    let text: String = logs.iter().map(line).collect();
    let text = if logs.is_empty() { "There is no log." } else { &text };
    output.show(&Findings { valid, logs: &logs }, text)?;
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

fn verify_file(path: &Path, keys: &[PublicKey], output: &Printer) -> Result<()> {
    let unreadable =
        |error| Error::malformed(format!("the export {} cannot be read", path.display())).caused_by(error);
    let file = File::open(path).map_err(unreadable)?;
    let bytes = file.metadata().map_err(unreadable)?.len();
    let report = verify_export(progress("verifying", bytes).wrap_read(file), keys)?;
    let (workspace, header) = (report.workspace_id(), report.head());
    let text = format!(
        "{workspace}  valid, {} events, head {}, signed by {}",
        report.events, header, report.signed_by
    );
    output.show(&report, &text)
}

impl Verify {
    /// Returns the keys of which one must have signed the checkpoint or the file.
    fn keys(&self, variables: &Variables) -> Result<Vec<PublicKey>> {
        match self.key {
            Some(key) => Ok(vec![key]),
            None => {
                let keys = Config::read_export_keys(variables.iter().cloned(), &self.folder.data)?;
                Ok(known_keys(&keys))
            }
        }
    }
}

/// Most bytes of a checkpoint that are read.
const NOTE_BYTES_MAX: u64 = 1 << 16;

fn note(file: &Path) -> Result<String> {
    let mut note = String::new();
    let read = File::open(file).and_then(|file| file.take(NOTE_BYTES_MAX).read_to_string(&mut note));
    read.map_err(|error| {
        Error::malformed(format!("the checkpoint {} cannot be read", file.display())).caused_by(error)
    })?;
    Ok(note)
}

fn line(log: &ChainReport) -> String {
    let found = match &log.broken {
        None if log.floor > 1 => format!("valid, {} events from {}, {}", log.events, log.floor, head(log)),
        None => format!("valid, {} events, {}", log.events, head(log)),
        Some(broken) => format!("BROKEN at {}: {}", broken.lsn, broken.defect.reason()),
    };
    format!("{}  {found}\n", log.workspace_id)
}

fn head(log: &ChainReport) -> String {
    format!("head {}:{}", log.head.lsn, log.head.hash)
}

fn public_key(text: &str) -> std::result::Result<PublicKey, String> {
    Config::public_key(text).ok_or_else(|| "expected 32 bytes as 64 hex digits or as base64".to_owned())
}

fn expected_head(text: &str) -> std::result::Result<ExpectedHead, String> {
    text.parse().map_err(|error: Error| error.detail().to_owned())
}
