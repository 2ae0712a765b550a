//! Runs the command `svc`.
//!
//! The command sets up a service, verifies event logs and signs checkpoints of them, exports and imports
//! workspaces, rewraps keys, mints tokens, freezes members, prints contracts, and serves an agent over
//! standard input and output. The command parses the command line, calls the core and prints the result; the
//! core makes all decisions.

mod output;
mod commands;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use commands::{checkpoint, contract, export, freeze, import, init, mcp_stdio, rewrap, token, verify};
use mimalloc::MiMalloc;
use output::Printer;
use svc_core::config::Config;

// Uses the same allocator as `svc-http`, so that both programs behave alike.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The Agent Collaboration Service: administration, and MCP over standard input and output.
#[derive(Parser)]
#[command(name = "svc", version, after_help = output::exit_codes_help(), propagate_version = true)]
struct Cli {
    /// Print results as JSON on standard output, and errors as JSON on standard error.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Init(init::Init),
    Verify(verify::Verify),
    Checkpoint(checkpoint::Checkpoint),
    Export(export::Export),
    Import(import::Import),
    Rewrap(rewrap::Rewrap),
    Token(token::Token),
    Freeze(freeze::Freeze),
    Unfreeze(freeze::Unfreeze),
    Contract(contract::Contract),
    McpStdio(mcp_stdio::McpStdio),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let output = Printer::new(cli.json);
    let variables: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    // `mcp-stdio` reports ignored settings in its log instead.
    if !matches!(cli.command, Command::McpStdio(_)) {
        output.print_remark(Config::ignored(variables.iter().cloned()));
    }
    let outcome = svc_mcp_stdio::handle_file_size_signal().and_then(|()| match cli.command {
        Command::Init(command) => init::run(&command, &variables, &output),
        Command::Verify(command) => verify::run(&command, &variables, &output),
        Command::Checkpoint(command) => checkpoint::run(&command, &variables, &output),
        Command::Export(command) => export::run(&command, &variables, &output),
        Command::Import(command) => import::run(&command, &variables, &output),
        Command::Rewrap(command) => rewrap::run(&command, &variables, &output),
        Command::Token(command) => token::run(&command, &variables, &output),
        Command::Freeze(command) => freeze::run(&command, &variables, &output),
        Command::Unfreeze(command) => freeze::run_unfreeze(&command, &variables, &output),
        Command::Contract(command) => contract::run(&command, &output),
        Command::McpStdio(command) => mcp_stdio::run(&command, &variables),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output.print_error(&error),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_and_argument_is_explained() {
        fn check(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            for argument in command.get_arguments().filter(|argument| !argument.is_global_set()) {
                assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn lines_parse() {
        let good = [
            "svc init",
            "svc init --data d --name Team --admin ada --json",
            "svc verify --json --workspace 01990000-0000-7000-8000-000000000001 --expect-head 4:ab",
            "svc export --output f --workspace 01990000-0000-7000-8000-000000000001 --words none",
            "svc import f --mode restore --admin ada --again",
            "svc verify f --key 0000000000000000000000000000000000000000000000000000000000000000",
            "svc token mint --member ada --as-instance --set svc.agent.worker",
            "svc token mint --member ada --capabilities workspace:read,message:post --label ci",
            "svc freeze --member ada --reason looping",
            "svc unfreeze --json --member ada --as-instance",
            "svc --json contract operations",
            "svc mcp-stdio --data d",
        ];
        let bad = [
            "svc",
            "svc verify --workspace nobody",
            "svc verify f --checkpoint c",
            "svc export",
            "svc import f",
            "svc token mint",
            "svc token mint --member a --set svc.agent.worker --capabilities workspace:read",
            "svc token mint --member a --set nobody",
            "svc token mint --member a --capabilities fly",
            "svc freeze",
            "svc unfreeze --member ada --reason over",
            "svc contract everything",
        ];
        for line in good {
            if let Err(error) = Cli::try_parse_from(line.split(' ')) {
                // `ab` is not a valid hash; everything else must parse.
                assert!(line.contains("4:ab"), "{line}: {error}");
            }
        }
        for line in bad {
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
