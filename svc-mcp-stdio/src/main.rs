//! Runs `svc mcp-stdio` as the separate program `svc-mcp-stdio`, for installations that need no other
//! command.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use svc_core::config::Config;
use svc_core::data_dir;
use svc_mcp_stdio::config_print::{self, ClientProgram};
use svc_mcp_stdio::tool_filter::ToolChoice;

/// Serve one agent over standard input and output with the Model Context Protocol.
///
/// The agent acts as the member of the token in SVC_TOKEN, or in the file whose path is in SVC_TOKEN_FILE.
/// Several such processes and a server may share one data folder. The log is written to standard error.
#[derive(Parser)]
#[command(name = "svc-mcp-stdio", version)]
struct Cli {
    /// The folder with the settings, the keys and, unless DATABASE_URL is set, the database.
    #[arg(long, value_name = "DIR", default_value = data_dir::DEFAULT)]
    data: PathBuf,
    #[command(flatten)]
    choice: ToolChoice,
    /// Print the configuration with which this client starts the server, and exit
    #[arg(long, value_name = "CLIENT")]
    print_config: Option<ClientProgram>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(client) = cli.print_config {
        return match config_print::print_configuration(client, &cli.data, &cli.choice) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => svc_mcp_stdio::report_fatal_error("svc-mcp-stdio", &error),
        };
    }
    let config = Config::read(std::env::vars_os(), &cli.data);
    let ready = svc_mcp_stdio::handle_file_size_signal().and(config);
    match ready.and_then(|config| svc_mcp_stdio::run_stdio(&config, &cli.choice)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => svc_mcp_stdio::report_fatal_error("svc-mcp-stdio", &error),
    }
}
