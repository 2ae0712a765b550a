//! `svc verify`.

use clap::Args;
use serde::Serialize;
use svc_core::config::Config;
use svc_core::id::WorkspaceId;
use svc_core::setup::Variables;
use svc_core::verify::{ChainReport, ExpectedFound, ExpectedHead, verify_database};
use svc_core::{Code, Database, Error, Result};

use super::Folder;
use crate::output::Printer;

/// Verify the event logs of a database.
///
/// Every event must be intact and linked to the one before it, and the head must match. The command only
/// reads, and needs no key and no running service. A log that was pruned is verified from its floor on.
/// Without --expect-head it does not notice a log whose end was cut off together with its head: keep the head
/// that this command prints.
#[derive(Args)]
pub struct Verify {
    #[command(flatten)]
    folder: Folder,
    /// Verify only the log of this workspace.
    #[arg(long, value_name = "ID")]
    workspace: Option<WorkspaceId>,
    /// A head that the log must contain: its position and its hash.
    #[arg(long, value_name = "LSN:HASH", value_parser = expected_head)]
    expect_head: Option<ExpectedHead>,
}

#[derive(Serialize)]
struct Findings<'a> {
    /// Whether all logs are valid.
    valid: bool,
    logs: &'a [ChainReport],
}

/// Runs `svc verify`: verifies the event logs, and fails if one of them is broken.
pub fn run(command: &Verify, variables: &Variables, output: &Printer) -> Result<()> {
    let data = &command.folder.data;
    let url = Config::read_database_url(variables.iter().cloned(), data)?;
    let logs = verify_database(&Database::at(url, data), command.workspace, command.expect_head)?;
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

fn expected_head(text: &str) -> std::result::Result<ExpectedHead, String> {
    text.parse().map_err(|error: Error| error.detail().to_owned())
}
