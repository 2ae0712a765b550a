//! Implements `svc mcp-stdio`, which serves one agent over standard input and output.

use clap::Args;
use svc_core::Result;
use svc_core::setup::Variables;
use svc_mcp_stdio::config_print::{self, ClientProgram};
use svc_mcp_stdio::tool_filter::ToolChoice;

use super::DataFolder;

/// Serve one agent over standard input and output with the Model Context Protocol.
///
/// The agent acts as the member of the token in SVC_TOKEN. Several such processes and a server may share one
/// data folder. The log is written to standard error.
#[derive(Args)]
pub struct McpStdio {
    #[command(flatten)]
    folder: DataFolder,
    #[command(flatten)]
    choice: ToolChoice,
    /// Print the configuration with which this client starts the server, and exit
    #[arg(long, value_name = "CLIENT")]
    print_config: Option<ClientProgram>,
}

/// Runs `svc mcp-stdio`: serves one agent until standard input ends.
pub fn run(command: &McpStdio, variables: &Variables) -> Result<()> {
    if let Some(client) = command.print_config {
        return config_print::print_configuration(client, &command.folder.data, &command.choice);
    }
    svc_mcp_stdio::run_stdio(&command.folder.config(variables)?, &command.choice)
}
