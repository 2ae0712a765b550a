//! `svc mcp-stdio`.

use clap::Args;
use svc_core::Result;
use svc_core::setup::Variables;

use super::Folder;

/// Serve one agent over standard input and output with the Model Context Protocol.
///
/// The agent acts as the member of the token in SVC_TOKEN. Several such processes and a server may share one
/// data folder. The log goes to standard error.
#[derive(Args)]
pub struct McpStdio {
    #[command(flatten)]
    folder: Folder,
}

/// Runs the command until standard input ends.
pub fn run(command: &McpStdio, variables: &Variables) -> Result<()> {
    svc_mcp_stdio::process(&command.folder.config(variables)?)
}
