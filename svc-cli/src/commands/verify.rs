//! `svc verify`.

use clap::Args;
use serde::Serialize;
use svc_core::config::Config;
use svc_core::id::WorkspaceId;
use svc_core::setup::Variables;
use svc_core::verify::{ChainReport, ExpectedHead, verify_database};
use svc_core::{Code, Database, Error, Result};

use super::Folder;
use crate::output::Printer;

/// Verify the event logs of a database.
///
/// Every event must be intact and linked to the one before it, and the head must match. The command only
/// reads, and needs no key and no running service. Without --expect-head it does not notice a log whose end
/// was cut off together with its head: keep the head that this command prints.
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
    match logs.iter().filter(|log| !log.valid).count() {
        0 => Ok(()),
        broken => {
            Err(Error::new(Code::EventLogBroken, format!("{broken} of {} logs do not verify", logs.len())))
        }
    }
}

fn line(log: &ChainReport) -> String {
    let found = match &log.broken {
        None => format!("valid, {} events, head {}:{}", log.events, log.head.lsn, log.head.hash),
        Some(broken) => format!("BROKEN at {}: {}", broken.lsn, broken.defect.reason()),
    };
    format!("{}  {found}\n", log.workspace_id)
}

fn expected_head(text: &str) -> std::result::Result<ExpectedHead, String> {
    text.parse().map_err(|error: Error| error.detail().to_owned())
}
